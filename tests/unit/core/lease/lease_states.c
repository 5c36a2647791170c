/* The lease elector in every state: shutdown, loss of health, answers and timers that come early,
 * late or twice, and what it reports. */
#include "lease_story.h"

#include "core/base/error.h"

static const struct bw_store_record vacant = {.clean = true};

/* Starts and reads a vacant record; ACQUIRE is sent. */
static struct bw_store_request acquire(struct story *s, struct bw_lease_config config)
{
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, vacant);
    return *asks(s, BW_STORE_ACQUIRE);
}

static struct bw_store_record granted(const struct bw_store_request *request)
{
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request->id;
    return record;
}

/* Leads with token 5; returns when its ACQUIRE was sent. */
static bw_time lead_with(struct story *s, struct bw_lease_config config)
{
    struct bw_store_request request = acquire(s, config);
    bw_time sent = s->now;
    answer(s, &request, BW_OUTCOME_DONE, granted(&request));
    assert_non_null(wants(s, BW_LEASE_ELECTED));
    return sent;
}

static bw_time lead(struct story *s)
{
    return lead_with(s, config_for("a", 7));
}

/* Waits while "b" leads; returns the watch. */
static struct bw_store_request wait_behind(struct story *s, struct bw_lease_config config)
{
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    return asks(s, BW_STORE_WATCH) ? *asks(s, BW_STORE_WATCH) : (struct bw_store_request){0};
}

static struct bw_lease_status status_of(const struct story *s)
{
    struct bw_lease_status status;
    bw_lease_status(s->lease, &status);
    return status;
}

static void healthy(struct story *s, bool yes)
{
    step(s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = yes});
}

static void senseless_lease_settings_are_refused(void **state)
{
    (void)state;
    char name[BW_ELECTION_NAME_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct bw_lease *lease = malloc(bw_lease_bytes());
    struct bw_lease_config config = config_for("a", 7);
    config.terms.ttl_ns = 0;
    assert_int_equal(bw_lease_init(lease, &config), BW_EINVAL);
    config = config_for("a", 7);
    config.retry_ns = 0;
    assert_int_equal(bw_lease_init(lease, &config), BW_EINVAL);
    config = config_for("a", 7);
    config.grace_ns = -1;
    assert_int_equal(bw_lease_init(lease, &config), BW_EINVAL);
    config = config_for(name + sizeof name - BW_CANDIDATE_ID_MAX - 2, 7);
    assert_int_equal(bw_lease_init(lease, &config), BW_EINVAL);
    config = config_for(name + sizeof name - BW_CANDIDATE_ID_MAX - 1, 7);
    assert_int_equal(bw_lease_init(lease, &config), 0);
    config.election = name;
    assert_int_equal(bw_lease_init(lease, &config), BW_EINVAL);
    config.election = name + 1;
    assert_int_equal(bw_lease_init(lease, &config), 0);
    free(lease);
}

static void stop_ends_an_idle_or_waiting_candidate_at_once(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_STOP);
    assert_non_null(wants(&s, BW_LEASE_STOPPED));
    happens(&s, BW_LEASE_START); /* nothing happens after it */
    assert_int_equal(s.actions.count, 0);
    assert_int_equal(bw_lease_deadline(s.lease), BW_TIME_NEVER);
    free(s.lease);
    wait_behind(&s, config_for("a", 7));
    happens(&s, BW_LEASE_STOP);
    assert_non_null(asks(&s, BW_STORE_LEAVE));
    assert_non_null(wants(&s, BW_LEASE_STOPPED));
    free(s.lease);
}

static void stop_while_reading_waits_for_the_answer(void **state)
{
    (void)state;
    static const enum bw_outcome outcomes[] = {BW_OUTCOME_DONE, BW_OUTCOME_UNAVAILABLE};
    for (unsigned i = 0; i < 2; i++) {
        struct story s;
        begin(&s);
        happens(&s, BW_LEASE_START);
        const struct bw_store_request read = *asks(&s, BW_STORE_READ);
        happens(&s, BW_LEASE_STOP);
        assert_null(wants(&s, BW_LEASE_STOPPED));
        answer(&s, &read, outcomes[i], vacant);
        assert_null(asks(&s, BW_STORE_ACQUIRE));
        assert_non_null(wants(&s, BW_LEASE_STOPPED));
        free(s.lease);
    }
}

static void lease_granted_during_shutdown_is_released_without_work(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request request = acquire(&s, config_for("a", 7));
    happens(&s, BW_LEASE_STOP);
    assert_null(wants(&s, BW_LEASE_STOPPED));
    answer(&s, &request, BW_OUTCOME_DONE, granted(&request));
    assert_null(wants(&s, BW_LEASE_ELECTED));
    const struct bw_store_request release = *asks(&s, BW_STORE_RELEASE);
    assert_int_equal(release.token, 5);
    answer(&s, &release, BW_OUTCOME_DONE, vacant);
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->reason, BW_LEASE_SHUT_DOWN);
    assert_non_null(wants(&s, BW_LEASE_STOPPED));
    free(s.lease);
}

static void lease_granted_to_an_unhealthy_candidate_is_released_without_work(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request request = acquire(&s, config_for("a", 7));
    healthy(&s, false);
    answer(&s, &request, BW_OUTCOME_DONE, granted(&request));
    assert_null(wants(&s, BW_LEASE_ELECTED));
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, vacant);
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->reason, BW_LEASE_UNHEALTHY);
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->end, BW_LEASE_END_RELEASED);
    assert_int_equal(status_of(&s).last_loss, BW_LEASE_UNHEALTHY);
    free(s.lease);
}

static void release_without_an_answer_is_not_reported_as_released(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    happens(&s, BW_LEASE_RESIGN);
    happens(&s, BW_LEASE_WORK_DEAD);
    unsigned asked = 0;
    while (!wants(&s, BW_LEASE_RELEASED)) {
        assert_true(asked++ < 100);
        if (asks(&s, BW_STORE_RELEASE)) {
            struct bw_store_request release = *asks(&s, BW_STORE_RELEASE);
            answer(&s, &release, BW_OUTCOME_UNAVAILABLE, vacant);
        } else {
            time_passes(&s);
        }
    }
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->reason, BW_LEASE_RESIGNED);
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->end, BW_LEASE_END_UNANSWERED);
    free(s.lease);
}

static void refused_release_is_reported_as_lost(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    happens(&s, BW_LEASE_RESIGN);
    happens(&s, BW_LEASE_WORK_DEAD);
    struct bw_store_request release = *asks(&s, BW_STORE_RELEASE);
    answer(&s, &release, BW_OUTCOME_REFUSED, held_by("b", 6, 12));
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->end, BW_LEASE_END_LOST);
    free(s.lease);
}

static void stopping_leader_releases_after_its_work_and_stops(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    happens(&s, BW_LEASE_STOP);
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_SHUT_DOWN);
    assert_null(asks(&s, BW_STORE_RELEASE));
    happens(&s, BW_LEASE_WORK_DEAD);
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, vacant);
    assert_non_null(asks(&s, BW_STORE_LEAVE));
    assert_non_null(wants(&s, BW_LEASE_STOPPED));
    free(s.lease);
}

static void a_second_start_and_repeated_health_change_nothing(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    happens(&s, BW_LEASE_START);
    assert_int_equal(s.actions.count, 0);
    healthy(&s, true);
    assert_int_equal(s.actions.count, 0);
    healthy(&s, false); /* the answer decides */
    assert_int_equal(s.actions.count, 0);
    healthy(&s, true);
    assert_int_equal(s.actions.count, 0);
    free(s.lease);
}

static void work_and_cleanup_of_a_candidate_that_does_not_lead_are_ignored(void **state)
{
    (void)state;
    struct story s;
    wait_behind(&s, config_for("a", 7));
    happens(&s, BW_LEASE_WORK_DEAD);
    assert_int_equal(s.actions.count, 0);
    happens(&s, BW_LEASE_CLEANUP_FAILED);
    assert_int_equal(s.actions.count, 0);
    assert_string_equal(status_of(&s).state, "waiting");
    free(s.lease);
}

static void reply_without_an_id_or_to_an_old_request_is_ignored(void **state)
{
    (void)state;
    struct story s;
    wait_behind(&s, config_for("a", 7));
    answer(&s, &(struct bw_store_request){.op = BW_STORE_READ}, BW_OUTCOME_DONE, vacant);
    assert_int_equal(s.actions.count, 0);
    answer(&s, &(struct bw_store_request){.op = BW_STORE_READ, .id = 3}, BW_OUTCOME_DONE, vacant);
    assert_int_equal(s.actions.count, 0);
    free(s.lease);
    lead(&s);
    answer(&s, &(struct bw_store_request){.op = BW_STORE_RELEASE, .id = 3}, BW_OUTCOME_DONE,
           vacant);
    assert_int_equal(s.actions.count, 0);
    assert_true(status_of(&s).leading);
    free(s.lease);
}

static void early_timers_change_nothing(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    happens(&s, BW_LEASE_TIMEOUT); /* reading */
    assert_int_equal(s.actions.count, 0);
    free(s.lease);
    wait_behind(&s, config_for("a", 7));
    happens(&s, BW_LEASE_TIMEOUT);
    assert_int_equal(s.actions.count, 0);
    free(s.lease);
    lead(&s);
    happens(&s, BW_LEASE_TIMEOUT);
    assert_int_equal(s.actions.count, 0);
    time_passes(&s);
    assert_non_null(asks(&s, BW_STORE_RENEW));
    happens(&s, BW_LEASE_TIMEOUT); /* before the second try */
    assert_int_equal(s.actions.count, 0);
    happens(&s, BW_LEASE_WORK_DEAD);
    const struct bw_store_request release = *asks(&s, BW_STORE_RELEASE);
    s.now += 60 * BW_SEC;
    happens(&s, BW_LEASE_TIMEOUT); /* the release is unanswered, however long that takes */
    assert_int_equal(s.actions.count, 0);
    s.now -= 60 * BW_SEC;
    answer(&s, &release, BW_OUTCOME_UNAVAILABLE, vacant);
    happens(&s, BW_LEASE_TIMEOUT);
    assert_int_equal(s.actions.count, 0);
    time_passes(&s);
    assert_non_null(asks(&s, BW_STORE_RELEASE));
    free(s.lease);
}

static void leader_whose_renewals_stay_unanswered_steps_down_as_unreachable(void **state)
{
    (void)state;
    struct story s;
    bw_time sent = lead(&s);
    time_passes(&s);
    assert_non_null(asks(&s, BW_STORE_RENEW));
    time_passes(&s);
    assert_int_equal(s.now, sent + TTL / 2);
    assert_non_null(asks(&s, BW_STORE_RENEW));
    happens(&s, BW_LEASE_TIMEOUT); /* not a third one */
    assert_null(asks(&s, BW_STORE_RENEW));
    time_passes(&s);
    assert_int_equal(s.now, sent + 2 * TTL / 3);
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_UNREACHABLE);
    free(s.lease);
}

static void a_shorter_renewal_period_can_be_set(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.renew_ns = BW_SEC;
    bw_time sent = lead_with(&s, config);
    assert_int_equal(bw_lease_deadline(s.lease), sent + BW_SEC);
    free(s.lease);
}

/* The work is ending, and the store reports another holder: there is nothing left to release. */
static void renewal_refused_while_the_work_ends_is_not_repeated(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    happens(&s, BW_LEASE_RESIGN);
    time_passes(&s);
    answer(&s, asks(&s, BW_STORE_RENEW), BW_OUTCOME_REFUSED, held_by("b", 6, 12));
    assert_null(wants(&s, BW_LEASE_STEP_DOWN));
    assert_int_equal(bw_lease_deadline(s.lease), BW_TIME_NEVER);
    s.now += TTL / 2;
    happens(&s, BW_LEASE_TIMEOUT);
    assert_int_equal(s.actions.count, 0);
    happens(&s, BW_LEASE_WORK_DEAD);
    assert_null(asks(&s, BW_STORE_RELEASE));
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->reason, BW_LEASE_TAKEN);
    free(s.lease);
}

static void watch_that_shows_a_newer_leader_stops_the_work_at_once(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 6, 12));
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_TAKEN);
    free(s.lease);
}

/* An older token cannot have replaced ours: perhaps the database was restored. A renewal tells. */
static void watch_that_shows_an_older_leader_causes_a_renewal(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    s.now += BW_SEC;
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 12));
    assert_null(wants(&s, BW_LEASE_STEP_DOWN));
    assert_int_equal(bw_lease_deadline(s.lease), s.now);
    free(s.lease);
}

static void candidate_pauses_when_its_watch_is_unavailable(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request watch = wait_behind(&s, config_for("a", 7));
    answer(&s, &watch, BW_OUTCOME_UNAVAILABLE, vacant);
    assert_int_equal(s.actions.count, 0);
    assert_in_range(bw_lease_deadline(s.lease), s.now + BW_SEC / 2, s.now + BW_SEC);
    time_passes(&s);
    assert_non_null(asks(&s, BW_STORE_READ));
    free(s.lease);
}

static void proof_of_death_does_not_restart_the_observation(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    struct bw_store_request watch = wait_behind(&s, config);
    bw_time since = s.now;
    healthy(&s, false); /* so that it does not take over at once */
    s.now += BW_SEC;
    struct bw_store_record dead = held_by("b", 4, 77);
    dead.proved_dead = true;
    answer(&s, &watch, BW_OUTCOME_DONE, dead);
    watch = *asks(&s, BW_STORE_WATCH);
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 77)); /* the proof was withdrawn */
    healthy(&s, true);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    assert_int_equal(bw_lease_deadline(s.lease), since + TTL + 500 * BW_MS);
    free(s.lease);
}

static void a_new_value_of_the_leader_is_reported(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request watch = wait_behind(&s, config_for("a", 7));
    struct bw_store_record renewed = held_by("b", 4, 78);
    answer(&s, &watch, BW_OUTCOME_DONE, renewed);
    assert_null(wants(&s, BW_LEASE_LEADER)); /* a mere renewal */
    renewed.version = 79;
    snprintf(renewed.value, sizeof renewed.value, "new address");
    answer(&s, asks(&s, BW_STORE_WATCH), BW_OUTCOME_DONE, renewed);
    assert_string_equal(wants(&s, BW_LEASE_LEADER)->value, "new address");
    free(s.lease);
}

static void candidate_yields_to_a_higher_priority_in_the_list(void **state)
{
    (void)state;
    struct bw_lease_config config = config_for("a", 7);
    config.traits |= BW_STORE_LISTS;
    config.priority = 5;
    for (int32_t other = 4; other <= 6; other++) {
        struct story s;
        begin_with(&s, config);
        happens(&s, BW_LEASE_START);
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, vacant);
        const struct bw_store_request list = *asks(&s, BW_STORE_LIST);
        const struct bw_candidate candidates[] = {{.id = "a", .priority = 5},
                                                  {.id = "b", .priority = other}};
        struct bw_store_reply reply = {.id = list.id,
                                       .op = BW_STORE_LIST,
                                       .outcome = BW_OUTCOME_DONE,
                                       .candidates = candidates,
                                       .count = 2};
        step(&s, (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = &reply});
        assert_int_equal(asks(&s, BW_STORE_ACQUIRE) == NULL, other > 5);
        if (other > 5)
            assert_int_equal(bw_lease_deadline(s.lease), s.now + BW_SEC);
        free(s.lease);
    }
}

static void listing_that_fails_or_is_interrupted_acquires_nothing(void **state)
{
    (void)state;
    struct bw_lease_config config = config_for("a", 7);
    config.traits |= BW_STORE_LISTS;
    config.priority = 5;
    for (int stop = 0; stop < 2; stop++) {
        struct story s;
        begin_with(&s, config);
        happens(&s, BW_LEASE_START);
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, vacant);
        const struct bw_store_request list = *asks(&s, BW_STORE_LIST);
        if (stop) {
            happens(&s, BW_LEASE_STOP);
            assert_non_null(wants(&s, BW_LEASE_STOPPED));
        } else {
            answer(&s, &list, BW_OUTCOME_UNAVAILABLE, vacant);
            assert_int_equal(s.actions.count, 0);
            assert_string_equal(status_of(&s).state, "waiting");
        }
        free(s.lease);
    }
}

/* On a store without notification the candidate polls, and steals from there. */
static void unhealthy_candidate_on_a_polled_store_steals_nothing(void **state)
{
    (void)state;
    for (int fit = 0; fit < 2; fit++) {
        struct story s;
        struct bw_lease_config config = config_for("a", 7);
        config.traits &= ~(unsigned)BW_STORE_NOTIFIES;
        wait_behind(&s, config);
        bw_time over = s.now + TTL + 500 * BW_MS;
        healthy(&s, fit);
        while (s.now < over + 2 * BW_SEC && !asks(&s, BW_STORE_ACQUIRE)) {
            time_passes(&s);
            if (asks(&s, BW_STORE_READ))
                answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
        }
        assert_int_equal(asks(&s, BW_STORE_ACQUIRE) != NULL, fit);
        free(s.lease);
    }
}

static void preferred_candidate_sends_no_note_for_a_vacant_lease(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.preferred = true;
    lead_with(&s, config);
    happens(&s, BW_LEASE_RESIGN);
    happens(&s, BW_LEASE_WORK_DEAD);
    struct bw_store_record freed = {.version = 30, .clean = true};
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, freed);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, freed);
    time_passes(&s); /* it yielded for one retry interval */
    assert_null(asks(&s, BW_STORE_NOTE));
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, freed);
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

static void status_names_the_leader_as_last_seen(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    assert_string_equal(status_of(&s).leader, "");
    assert_string_equal(status_of(&s).value, "");
    assert_int_equal(status_of(&s).token, BW_TOKEN_NONE);
    free(s.lease);
    wait_behind(&s, config_for("a", 7));
    assert_string_equal(status_of(&s).leader, "b");
    assert_int_equal(status_of(&s).token, 4);
    assert_int_equal(status_of(&s).valid_until, 0);
    free(s.lease);
    bw_time sent = lead(&s);
    assert_string_equal(status_of(&s).leader, "a");
    assert_string_equal(status_of(&s).value, "addr");
    assert_int_equal(status_of(&s).valid_until, sent + bw_lease_span(TTL, 10000));
    happens(&s, BW_LEASE_RESIGN);
    assert_string_equal(status_of(&s).leader, "a"); /* the work may still run */
    assert_false(status_of(&s).leading);
    assert_string_equal(bw_lease_loss_name(BW_LEASE_RESIGNED), "resigned");
    assert_string_equal(bw_lease_loss_name((enum bw_lease_loss)99), "unknown");
    free(s.lease);
}

/* For example after a virtual machine was restored from an image. */
static void renewal_sent_after_the_clock_stepped_back_shortens_nothing(void **state)
{
    (void)state;
    struct story s;
    bw_time sent = lead(&s);
    bw_time end = status_of(&s).valid_until;
    time_passes(&s);
    struct bw_store_request renew = *asks(&s, BW_STORE_RENEW);
    s.now = sent - BW_SEC;
    answer(&s, &renew, BW_OUTCOME_UNAVAILABLE, vacant);
    happens(&s, BW_LEASE_TIMEOUT);
    renew = *asks(&s, BW_STORE_RENEW);
    answer(&s, &renew, BW_OUTCOME_DONE, held_by("a", 5, 10));
    assert_null(wants(&s, BW_LEASE_EXTENDED));
    assert_true(status_of(&s).valid_until == end);
    assert_true(status_of(&s).leading);
    free(s.lease);
}

static void renewal_in_the_instant_of_the_grant_extends_nothing(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.terms = (struct bw_lease_terms){.ttl_ns = 2};
    bw_time sent = lead_with(&s, config);
    time_passes(&s);
    assert_true(s.now == sent);
    struct bw_store_request renew = *asks(&s, BW_STORE_RENEW);
    answer(&s, &renew, BW_OUTCOME_DONE, held_by("a", 5, 10));
    assert_null(wants(&s, BW_LEASE_EXTENDED));
    assert_true(status_of(&s).leading);
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_lease_settings_are_refused),
        cmocka_unit_test(stop_ends_an_idle_or_waiting_candidate_at_once),
        cmocka_unit_test(stop_while_reading_waits_for_the_answer),
        cmocka_unit_test(lease_granted_during_shutdown_is_released_without_work),
        cmocka_unit_test(lease_granted_to_an_unhealthy_candidate_is_released_without_work),
        cmocka_unit_test(release_without_an_answer_is_not_reported_as_released),
        cmocka_unit_test(refused_release_is_reported_as_lost),
        cmocka_unit_test(stopping_leader_releases_after_its_work_and_stops),
        cmocka_unit_test(a_second_start_and_repeated_health_change_nothing),
        cmocka_unit_test(work_and_cleanup_of_a_candidate_that_does_not_lead_are_ignored),
        cmocka_unit_test(reply_without_an_id_or_to_an_old_request_is_ignored),
        cmocka_unit_test(early_timers_change_nothing),
        cmocka_unit_test(leader_whose_renewals_stay_unanswered_steps_down_as_unreachable),
        cmocka_unit_test(a_shorter_renewal_period_can_be_set),
        cmocka_unit_test(renewal_refused_while_the_work_ends_is_not_repeated),
        cmocka_unit_test(watch_that_shows_a_newer_leader_stops_the_work_at_once),
        cmocka_unit_test(watch_that_shows_an_older_leader_causes_a_renewal),
        cmocka_unit_test(candidate_pauses_when_its_watch_is_unavailable),
        cmocka_unit_test(proof_of_death_does_not_restart_the_observation),
        cmocka_unit_test(a_new_value_of_the_leader_is_reported),
        cmocka_unit_test(candidate_yields_to_a_higher_priority_in_the_list),
        cmocka_unit_test(listing_that_fails_or_is_interrupted_acquires_nothing),
        cmocka_unit_test(unhealthy_candidate_on_a_polled_store_steals_nothing),
        cmocka_unit_test(preferred_candidate_sends_no_note_for_a_vacant_lease),
        cmocka_unit_test(status_names_the_leader_as_last_seen),
        cmocka_unit_test(renewal_sent_after_the_clock_stepped_back_shortens_nothing),
        cmocka_unit_test(renewal_in_the_instant_of_the_grant_extends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
