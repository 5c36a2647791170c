/* The lease elector with a store played by the test: single stories. */
#include "lease_story.h"

/* Becomes leader: reads a free record, acquires, is granted 40 ms later. */
static bw_time lead_with(struct story *s, struct bw_lease_config config)
{
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(s, BW_STORE_ACQUIRE);
    bw_time sent = s->now;
    s->now += 40 * BW_MS;
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    answer(s, &request, BW_OUTCOME_DONE, record);
    return sent;
}

static bw_time lead(struct story *s)
{
    return lead_with(s, config_for("a", 7));
}

static void free_lease_is_acquired_and_counts_from_sending(void **state)
{
    (void)state;
    struct story s;
    bw_time sent = lead(&s);
    const struct bw_lease_action *elected = wants(&s, BW_LEASE_ELECTED);
    assert_non_null(elected);
    assert_int_equal(elected->token, 5);
    assert_int_equal(elected->schedule.end, sent + bw_lease_span(TTL, 10000));
    assert_int_equal(elected->schedule.renew, sent + TTL / 3);
    free(s.lease);
}

static void held_lease_is_stolen_when_unchanged_for_its_ttl(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    assert_non_null(asks(&s, BW_STORE_WATCH));
    bw_time since = s.now;
    time_passes(&s);
    assert_int_equal(s.now, since + TTL + 500 * BW_MS);
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal, 77);
    free(s.lease);
}

static void renewal_by_the_holder_restarts_the_observation(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    s.now += 9 * BW_SEC;
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 78));
    assert_int_equal(bw_lease_deadline(s.lease), s.now + TTL + 500 * BW_MS);
    free(s.lease);
}

static void lease_of_holder_proved_dead_is_taken_at_once(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    struct bw_store_record dead = held_by("b", 4, 77);
    dead.proved_dead = true;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, dead);
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal, 77);
    free(s.lease);
}

static void grant_with_lost_answer_is_found_by_its_id(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(&s, BW_STORE_ACQUIRE);
    bw_time sent = s.now;
    s.now += BW_SEC;
    answer(&s, &request, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    assert_int_equal(wants(&s, BW_LEASE_ELECTED)->schedule.end, sent + bw_lease_span(TTL, 10000));
    free(s.lease);
}

/* On a store that extends the lease apart from the record, the lease may be about to expire. */
static void lost_grant_is_confirmed_by_a_renewal_when_lease_is_apart(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.traits |= BW_STORE_LEASE_APART;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(&s, BW_STORE_ACQUIRE);
    s.now += BW_SEC;
    answer(&s, &request, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    for (int i = 0; i < 2; i++) { /* the first confirmation stays without an answer */
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
        assert_null(wants(&s, BW_LEASE_ELECTED));
        const struct bw_store_request renewal = *asks(&s, BW_STORE_RENEW);
        assert_int_equal(renewal.token, 5);
        bw_time sent = s.now;
        s.now += 40 * BW_MS;
        answer(&s, &renewal, i ? BW_OUTCOME_DONE : BW_OUTCOME_UNKNOWN, record);
        if (i)
            assert_int_equal(wants(&s, BW_LEASE_ELECTED)->schedule.end,
                             sent + bw_lease_span(TTL, 10000));
        else
            time_passes(&s);
    }
    free(s.lease);
}

static const char *state_of(const struct story *s)
{
    struct bw_lease_status status;
    bw_lease_status(s->lease, &status);
    return status.state;
}

/* Until the candidate has found its grant in the record and sent the renewal that confirms it. */
static struct bw_store_record begin_confirming(struct story *s, struct bw_store_request *renewal)
{
    struct bw_lease_config config = config_for("a", 7);
    config.traits |= BW_STORE_LEASE_APART;
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(s, BW_STORE_ACQUIRE);
    answer(s, &request, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    *renewal = *asks(s, BW_STORE_RENEW);
    return record;
}

/* The candidate releases the lease that it never led with, and stops only after that. */
static void releases_and_stops(struct story *s)
{
    const struct bw_store_record none = {.version = 10, .clean = true};
    assert_null(wants(s, BW_LEASE_ELECTED));
    assert_null(wants(s, BW_LEASE_STOPPED));
    const struct bw_store_request release = *asks(s, BW_STORE_RELEASE);
    assert_int_equal(release.token, 5);
    answer(s, &release, BW_OUTCOME_DONE, none);
    assert_non_null(wants(s, BW_LEASE_STOPPED));
    free(s->lease);
}

static void shutdown_releases_a_grant_that_is_not_confirmed(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request renewal;
    struct bw_store_record record = begin_confirming(&s, &renewal);
    happens(&s, BW_LEASE_STOP);
    answer(&s, &renewal, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    releases_and_stops(&s);
}

static void shutdown_releases_a_grant_in_the_pause_after_an_unanswered_confirmation(void **state)
{
    (void)state;
    static const enum bw_outcome outcomes[] = {BW_OUTCOME_UNKNOWN, BW_OUTCOME_UNAVAILABLE};
    for (int i = 0; i < 2; i++) {
        struct story s;
        struct bw_store_request renewal;
        begin_confirming(&s, &renewal);
        answer(&s, &renewal, outcomes[i], (struct bw_store_record){0});
        assert_string_equal(state_of(&s), "waiting");
        happens(&s, BW_LEASE_STOP);
        releases_and_stops(&s);
    }
}

static void shutdown_releases_a_grant_when_the_store_cannot_be_read(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request renewal;
    begin_confirming(&s, &renewal);
    happens(&s, BW_LEASE_STOP);
    answer(&s, &renewal, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_UNAVAILABLE, (struct bw_store_record){0});
    releases_and_stops(&s);
}

static void unconfirmed_work_is_reported_with_every_way_of_being_elected(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(&s, BW_STORE_ACQUIRE);
    answer(&s, &request, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    snprintf(record.unconfirmed, sizeof record.unconfirmed, "b\tcgroup:/x\n");
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    assert_string_equal(wants(&s, BW_LEASE_ELECTED)->unconfirmed, "b\tcgroup:/x\n");
    free(s.lease);
}

static void record_of_an_earlier_process_with_our_id_is_not_ours(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    struct bw_store_record record = held_by("a", 4, 77);
    record.request = 12345;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    assert_null(wants(&s, BW_LEASE_ELECTED));
    assert_non_null(asks(&s, BW_STORE_WATCH));
    free(s.lease);
}

static void missed_renewal_is_retried_once_before_stepping_down(void **state)
{
    (void)state;
    struct story s;
    bw_time sent = lead(&s);
    time_passes(&s);
    assert_int_equal(s.now, sent + TTL / 3);
    const struct bw_store_request first = *asks(&s, BW_STORE_RENEW);
    s.now += TTL / 6;
    answer(&s, &first, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    time_passes(&s);
    assert_int_equal(s.now, sent + TTL / 3 + TTL / 6);
    assert_non_null(asks(&s, BW_STORE_RENEW));
    bw_time term = sent + 2 * TTL / 3;
    while (!wants(&s, BW_LEASE_STEP_DOWN) && s.now < term)
        time_passes(&s);
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_UNREACHABLE);
    assert_true(s.now <= term);
    free(s.lease);
}

static void release_waits_until_the_work_is_dead(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    happens(&s, BW_LEASE_RESIGN);
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_RESIGNED);
    assert_null(asks(&s, BW_STORE_RELEASE));
    s.now += 300 * BW_MS;
    happens(&s, BW_LEASE_WORK_DEAD);
    assert_true(asks(&s, BW_STORE_RELEASE)->clean);
    assert_int_equal(asks(&s, BW_STORE_RELEASE)->token, 5);
    free(s.lease);
}

static void candidate_that_resigned_yields_until_another_has_led(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    happens(&s, BW_LEASE_RESIGN);
    happens(&s, BW_LEASE_WORK_DEAD);
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE,
           (struct bw_store_record){.version = 10, .clean = true});
    bw_time released = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE,
           (struct bw_store_record){.version = 10, .clean = true});
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    assert_int_equal(bw_lease_deadline(s.lease), released + BW_SEC);
    s.now += 100 * BW_MS;
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 6, 11));
    s.now += 100 * BW_MS;
    watch = *asks(&s, BW_STORE_WATCH);
    answer(&s, &watch, BW_OUTCOME_DONE, (struct bw_store_record){.version = 12, .clean = true});
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

static void refused_renewal_stops_the_work_at_once(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    time_passes(&s);
    answer(&s, asks(&s, BW_STORE_RENEW), BW_OUTCOME_REFUSED, held_by("b", 6, 12));
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_TAKEN);
    happens(&s, BW_LEASE_WORK_DEAD);
    assert_null(asks(&s, BW_STORE_RELEASE));
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->reason, BW_LEASE_TAKEN);
    free(s.lease);
}

static void store_with_death_notices_receives_release_of_a_taken_lease(void **state)
{
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    (void)state;
    config.traits |= BW_STORE_LATE_RELEASE;
    lead_with(&s, config);
    time_passes(&s);
    answer(&s, asks(&s, BW_STORE_RENEW), BW_OUTCOME_REFUSED, held_by("b", 6, 12));
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_TAKEN);
    assert_null(asks(&s, BW_STORE_RELEASE));
    happens(&s, BW_LEASE_WORK_DEAD);
    assert_true(asks(&s, BW_STORE_RELEASE)->clean);
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, held_by("b", 6, 12));
    assert_int_equal(wants(&s, BW_LEASE_RELEASED)->reason, BW_LEASE_TAKEN);
    assert_non_null(asks(&s, BW_STORE_READ));
    free(s.lease);
}

static void an_unhealthy_leader_steps_down_and_does_not_contend(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    happens(&s, BW_LEASE_HEALTH);
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_UNHEALTHY);
    happens(&s, BW_LEASE_WORK_DEAD);
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE,
           (struct bw_store_record){.version = 10, .clean = true});
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE,
           (struct bw_store_record){.version = 10, .clean = true});
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = true});
    assert_non_null(asks(&s, BW_STORE_READ));
    free(s.lease);
}

static void a_transfer_waits_until_the_successor_is_ready(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    struct bw_store_record record = held_by("a", 5, 10);
    record.note = (struct bw_note){.kind = BW_NOTE_TRANSFER, .serial = 1, .from = "op", .to = "b"};
    answer(&s, &watch, BW_OUTCOME_DONE, record);
    assert_int_equal(asks(&s, BW_STORE_NOTE)->note.kind, BW_NOTE_PREPARE);
    assert_null(wants(&s, BW_LEASE_STEP_DOWN));
    record.version = 11;
    record.note = (struct bw_note){.kind = BW_NOTE_READY, .serial = 2, .from = "b", .to = "a"};
    answer(&s, asks(&s, BW_STORE_WATCH), BW_OUTCOME_DONE, record);
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_TRANSFERRED);
    free(s.lease);
}

static void a_refused_transfer_changes_nothing(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = "b"});
    assert_int_equal(asks(&s, BW_STORE_NOTE)->note.kind, BW_NOTE_PREPARE);
    struct bw_store_record record = held_by("a", 5, 11);
    record.note = (struct bw_note){.kind = BW_NOTE_REFUSE, .serial = 2, .from = "b", .to = "a"};
    answer(&s, &watch, BW_OUTCOME_DONE, record);
    assert_null(wants(&s, BW_LEASE_STEP_DOWN));
    struct bw_lease_status status;
    bw_lease_status(s.lease, &status);
    assert_true(status.leading);
    free(s.lease);
}

static void a_late_answer_to_a_renewal_counts_from_its_sending(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    time_passes(&s);
    const struct bw_store_request renewal = *asks(&s, BW_STORE_RENEW);
    bw_time sent = s.now;
    s.now += TTL / 7;
    answer(&s, &renewal, BW_OUTCOME_DONE, held_by("a", 5, 10));
    assert_int_equal(wants(&s, BW_LEASE_EXTENDED)->schedule.end, sent + bw_lease_span(TTL, 10000));
    free(s.lease);
}

static void note_for_the_previous_holder_is_ignored(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    struct bw_store_record dead = held_by("b", 4, 77);
    dead.proved_dead = true;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, dead);
    const struct bw_store_request request = *asks(&s, BW_STORE_ACQUIRE);
    struct bw_store_record record = held_by("a", 5, 79);
    record.request = request.id;
    record.note = (struct bw_note){.kind = BW_NOTE_RESIGN, .serial = 3, .from = "op", .to = "b"};
    answer(&s, &request, BW_OUTCOME_DONE, record);
    assert_non_null(wants(&s, BW_LEASE_ELECTED));
    time_passes(&s);
    record.version = 80;
    answer(&s, asks(&s, BW_STORE_RENEW), BW_OUTCOME_DONE, record);
    assert_null(wants(&s, BW_LEASE_STEP_DOWN));
    free(s.lease);
}

static void holder_restarts_an_expired_watch(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    answer(&s, &watch, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    const struct bw_store_request second = *asks(&s, BW_STORE_WATCH);
    answer(&s, &second, BW_OUTCOME_UNAVAILABLE, (struct bw_store_record){0});
    assert_null(asks(&s, BW_STORE_WATCH)); /* not at once: the store would be overloaded */
    time_passes(&s);
    answer(&s, asks(&s, BW_STORE_RENEW), BW_OUTCOME_DONE, held_by("a", 5, 10));
    assert_non_null(asks(&s, BW_STORE_WATCH));
    free(s.lease);
}

/* On stores that answer in order, the release would wait for the watch. */
static void resigning_holder_starts_no_watch_before_its_release(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    struct bw_store_record record = held_by("a", 5, 10);
    record.note = (struct bw_note){.kind = BW_NOTE_RESIGN, .serial = 1, .from = "op", .to = "a"};
    answer(&s, &watch, BW_OUTCOME_DONE, record);
    assert_non_null(wants(&s, BW_LEASE_STEP_DOWN));
    assert_null(asks(&s, BW_STORE_WATCH));
    happens(&s, BW_LEASE_WORK_DEAD);
    assert_non_null(asks(&s, BW_STORE_RELEASE));
    free(s.lease);
}

static void unavailable_store_is_asked_once_per_retry_interval(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    for (int i = 0; i < 20; i++) {
        const struct bw_store_request read = *asks(&s, BW_STORE_READ);
        bw_time sent = s.now;
        s.now += s.actions.at[0].ask.within_ns;
        answer(&s, &read, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
        if (!asks(&s, BW_STORE_READ))
            time_passes(&s);
        assert_in_range(s.now - sent, BW_SEC / 2, BW_SEC);
    }
    free(s.lease);
}

static void answer_from_before_the_release_does_not_restore_the_lease(void **state)
{
    (void)state;
    struct story s;
    lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    struct bw_store_record mine = held_by("a", 5, 10), free_again = mine;
    mine.request = watch.id - 1; /* the ACQUIRE was sent right before the watch */
    happens(&s, BW_LEASE_RESIGN);
    happens(&s, BW_LEASE_WORK_DEAD);
    free_again.version = 11;
    free_again.held = false;
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, free_again);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, free_again);
    answer(&s, &watch, BW_OUTCOME_DONE, mine);
    assert_null(wants(&s, BW_LEASE_ELECTED));
    free(s.lease);
}

/* Reads a record released by "b", with a note of candidate "c" that is ready to follow `leader`. */
static bool yields_to_successor_of(const char *leader)
{
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    struct bw_store_record free_again = held_by("b", 4, 77);
    free_again.held = false;
    free_again.note = (struct bw_note){.kind = BW_NOTE_READY, .serial = 2, .from = "c"};
    snprintf(free_again.note.to, sizeof free_again.note.to, "%s", leader);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, free_again);
    bool yields = !asks(&s, BW_STORE_ACQUIRE);
    free(s.lease);
    return yields;
}

static void candidates_yield_only_to_the_current_holders_successor(void **state)
{
    (void)state;
    assert_true(yields_to_successor_of("b"));
    assert_false(yields_to_successor_of("a")); /* an earlier transfer */
}

static void failed_watch_renews_soon_with_a_pause(void **state)
{
    (void)state;
    struct story s;
    bw_time sent = lead(&s);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    answer(&s, &watch, BW_OUTCOME_UNAVAILABLE, (struct bw_store_record){0});
    assert_null(asks(&s, BW_STORE_WATCH)); /* after the renewal */
    assert_int_equal(bw_lease_deadline(s.lease), sent + TTL / 24);
    time_passes(&s);
    const struct bw_store_request renew = *asks(&s, BW_STORE_RENEW);
    answer(&s, &renew, BW_OUTCOME_DONE, held_by("a", 5, 10));
    assert_int_equal(bw_lease_deadline(s.lease), s.now + TTL / 3);
    s.now += 2 * BW_SEC;
    const struct bw_store_request again = *asks(&s, BW_STORE_WATCH);
    answer(&s, &again, BW_OUTCOME_DONE, (struct bw_store_record){.version = 1, .clean = true});
    assert_null(wants(&s, BW_LEASE_STEP_DOWN)); /* a renewal will give certainty */
    assert_int_equal(bw_lease_deadline(s.lease), s.now);
    free(s.lease);
}

/* Leads, cannot clean up, releases; the predecessor's work stays unconfirmed. Returns when the
 * candidate contends again. */
static bw_time cannot_clear(struct story *s, uint64_t version)
{
    const struct bw_store_request acquire = *asks(s, BW_STORE_ACQUIRE);
    struct bw_store_record record = held_by("a", version, version);
    record.request = acquire.id;
    answer(s, &acquire, BW_OUTCOME_DONE, record);
    happens(s, BW_LEASE_CLEANUP_FAILED);
    assert_int_equal(wants(s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_PREDECESSOR_NOT_DEAD);
    happens(s, BW_LEASE_WORK_DEAD);
    struct bw_store_record owing = {.version = version + 1, .unconfirmed = "far\t\n"};
    answer(s, asks(s, BW_STORE_RELEASE), BW_OUTCOME_DONE, owing);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, owing);
    assert_null(asks(s, BW_STORE_ACQUIRE));
    return bw_lease_deadline(s->lease) - s->now;
}

static void failed_cleanup_is_retried_with_growing_pauses(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    struct bw_store_record owing = {.version = 1, .unconfirmed = "far\t\n"};
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, owing);
    for (unsigned i = 1; i <= 8; i++) {
        unsigned doublings = i < 6 ? i : 6;
        assert_int_equal(cannot_clear(&s, 10 * i), BW_SEC << doublings);
        time_passes(&s);
        owing.version = 10 * i + 1;
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, owing);
    }
    free(s.lease);
}

static void cleanup_settled_by_another_candidate_ends_the_pause(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_START);
    struct bw_store_record owing = {.version = 1, .unconfirmed = "far\t\n"};
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, owing);
    const struct bw_store_request acquire = *asks(&s, BW_STORE_ACQUIRE);
    struct bw_store_record record = held_by("a", 10, 10);
    record.request = acquire.id;
    answer(&s, &acquire, BW_OUTCOME_DONE, record);
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    happens(&s, BW_LEASE_CLEANUP_FAILED);
    happens(&s, BW_LEASE_WORK_DEAD);
    owing.version = 11;
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, owing);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, owing);
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    answer(&s, &watch, BW_OUTCOME_DONE, (struct bw_store_record){.version = 14, .clean = true});
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_lease_is_acquired_and_counts_from_sending),
        cmocka_unit_test(held_lease_is_stolen_when_unchanged_for_its_ttl),
        cmocka_unit_test(renewal_by_the_holder_restarts_the_observation),
        cmocka_unit_test(lease_of_holder_proved_dead_is_taken_at_once),
        cmocka_unit_test(grant_with_lost_answer_is_found_by_its_id),
        cmocka_unit_test(lost_grant_is_confirmed_by_a_renewal_when_lease_is_apart),
        cmocka_unit_test(shutdown_releases_a_grant_that_is_not_confirmed),
        cmocka_unit_test(shutdown_releases_a_grant_in_the_pause_after_an_unanswered_confirmation),
        cmocka_unit_test(shutdown_releases_a_grant_when_the_store_cannot_be_read),
        cmocka_unit_test(unconfirmed_work_is_reported_with_every_way_of_being_elected),
        cmocka_unit_test(record_of_an_earlier_process_with_our_id_is_not_ours),
        cmocka_unit_test(missed_renewal_is_retried_once_before_stepping_down),
        cmocka_unit_test(release_waits_until_the_work_is_dead),
        cmocka_unit_test(candidate_that_resigned_yields_until_another_has_led),
        cmocka_unit_test(refused_renewal_stops_the_work_at_once),
        cmocka_unit_test(store_with_death_notices_receives_release_of_a_taken_lease),
        cmocka_unit_test(an_unhealthy_leader_steps_down_and_does_not_contend),
        cmocka_unit_test(a_transfer_waits_until_the_successor_is_ready),
        cmocka_unit_test(a_refused_transfer_changes_nothing),
        cmocka_unit_test(a_late_answer_to_a_renewal_counts_from_its_sending),
        cmocka_unit_test(note_for_the_previous_holder_is_ignored),
        cmocka_unit_test(holder_restarts_an_expired_watch),
        cmocka_unit_test(resigning_holder_starts_no_watch_before_its_release),
        cmocka_unit_test(unavailable_store_is_asked_once_per_retry_interval),
        cmocka_unit_test(answer_from_before_the_release_does_not_restore_the_lease),
        cmocka_unit_test(candidates_yield_only_to_the_current_holders_successor),
        cmocka_unit_test(failed_watch_renews_soon_with_a_pause),
        cmocka_unit_test(failed_cleanup_is_retried_with_growing_pauses),
        cmocka_unit_test(cleanup_settled_by_another_candidate_ends_the_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
