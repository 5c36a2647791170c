/* The lease elector with a store played by the test. First single stories, then candidates under
 * random delays, losses, pauses and store outages: never do two run their work at once. */
#include "lease_story.h"

#include "core/base/rng.h"

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

static void shutdown_releases_a_grant_that_is_not_confirmed(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.traits |= BW_STORE_LEASE_APART;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(&s, BW_STORE_ACQUIRE);
    answer(&s, &request, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    const struct bw_store_request renewal = *asks(&s, BW_STORE_RENEW);
    happens(&s, BW_LEASE_STOP);
    answer(&s, &renewal, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    assert_null(wants(&s, BW_LEASE_ELECTED));
    assert_int_equal(asks(&s, BW_STORE_RELEASE)->token, 5);
    free(s.lease);
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

/* ---- many candidates, one store, random faults ---- */

#define CANDIDATES 3
#define FLIGHTS    64

struct flight { /* a request or reply in flight */
    bw_time at;
    int index;
    bool reply;
    struct bw_store_request request;
    struct bw_store_reply answer;
};

struct candidate {
    struct bw_lease *lease;
    char name[16];
    double rate;
    bw_time paused_until;
    bool working;
    bw_time work_until;
    bool term;
    bw_time dead_at;
};

struct chaos {
    struct bw_rng rng;
    struct bw_store_record record;
    bw_time down_from, down_until;
    struct candidate candidates[CANDIDATES];
    struct flight flights[FLIGHTS];
    bw_time now;
    bw_token highest;
    int leaderships, overlaps;
};

static bw_time local(const struct candidate *c, bw_time world)
{
    return (bw_time)((double)world * c->rate);
}

static struct flight *take_off(struct chaos *k, const struct flight *flight)
{
    for (int i = 0; i < FLIGHTS; i++)
        if (k->flights[i].at == 0) {
            k->flights[i] = *flight;
            return &k->flights[i];
        }
    fail_msg("more than %d messages are on their way", FLIGHTS);
    return NULL;
}

/* Mostly fast, sometimes seconds late, sometimes lost. */
static void fly(struct chaos *k, const struct flight *flight)
{
    bw_time longest = bw_rng_chance(&k->rng, 0.1) ? 6 * BW_SEC : 50 * BW_MS;
    bool lost = bw_rng_chance(&k->rng, 0.05);
    bw_time at = k->now + bw_rng_between(&k->rng, BW_MS, longest);
    if (!lost)
        take_off(k, flight)->at = at;
}

/* The caller's part: a missing answer becomes UNKNOWN. */
static void ask(struct chaos *k, int index, const struct bw_lease_ask *ask)
{
    struct flight late = {.index = index, .reply = true, .at = k->now + ask->within_ns};
    late.answer.id = ask->request.id;
    late.answer.op = ask->request.op;
    late.answer.outcome = BW_OUTCOME_UNKNOWN;
    take_off(k, &late);
    fly(k, &(struct flight){.index = index, .request = ask->request});
}

static void start_work(struct chaos *k, struct candidate *c, const struct bw_lease_action *action)
{
    assert_true(action->token > k->highest);
    k->highest = action->token;
    k->leaderships++;
    c->working = true;
    c->term = false;
    c->work_until = action->schedule.kill;
    for (int i = 0; i < CANDIDATES; i++)
        k->overlaps += &k->candidates[i] != c && k->candidates[i].working;
}

static void carry_out(struct chaos *k, int index, const struct bw_lease_actions *actions)
{
    struct candidate *c = &k->candidates[index];
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct bw_lease_action *action = &actions->at[i];
        if (action->kind == BW_LEASE_ASK)
            ask(k, index, &action->ask);
        else if (action->kind == BW_LEASE_ELECTED)
            start_work(k, c, action);
        else if (action->kind == BW_LEASE_EXTENDED && !c->term)
            c->work_until = action->schedule.kill;
        else if (action->kind == BW_LEASE_STEP_DOWN) {
            c->term = true;
            c->work_until = action->schedule.kill;
        }
    }
}

static void step_candidate(struct chaos *k, int index, struct bw_lease_event event)
{
    struct bw_lease_actions actions = {.count = 0};
    event.now = local(&k->candidates[index], k->now);
    bw_lease_step(k->candidates[index].lease, &event, &actions);
    carry_out(k, index, &actions);
}

static enum bw_outcome serve(struct chaos *k, const struct bw_store_request *r)
{
    struct bw_store_record *record = &k->record;
    bool mine = record->held && record->token == r->token;
    switch (r->op) {
    case BW_STORE_ACQUIRE:
        if (record->held && record->version != r->steal)
            return BW_OUTCOME_REFUSED;
        record->held = true;
        record->token++;
        record->request = r->id;
        record->ttl_ns = r->ttl_ns;
        snprintf(record->holder, sizeof record->holder, "%s", r->candidate);
        break;
    case BW_STORE_RENEW:
        if (!mine)
            return BW_OUTCOME_REFUSED;
        break;
    case BW_STORE_RELEASE:
        if (!mine)
            return BW_OUTCOME_REFUSED;
        record->held = false;
        record->clean = r->clean;
        break;
    default:
        return BW_OUTCOME_DONE;
    }
    record->version++;
    return BW_OUTCOME_DONE;
}

static void at_store(struct chaos *k, const struct flight *flight)
{
    struct flight back = {.index = flight->index, .reply = true};
    back.answer.id = flight->request.id;
    back.answer.op = flight->request.op;
    bool down = k->now >= k->down_from && k->now < k->down_until;
    back.answer.outcome = down ? BW_OUTCOME_UNAVAILABLE : serve(k, &flight->request);
    back.answer.record = k->record;
    fly(k, &back);
}

static void work_and_timers(struct chaos *k, int index)
{
    struct candidate *c = &k->candidates[index];
    /* The guardian kills at the deadline even if the supervisor is paused. Work that got SIGTERM
     * may end earlier. */
    bool ends = c->working &&
                (local(c, k->now) >= c->work_until || (c->term && bw_rng_chance(&k->rng, 0.02)));
    if (ends) {
        c->working = false;
        c->dead_at = k->now;
    }
    if (k->now < c->paused_until)
        return;
    if (c->dead_at) {
        c->dead_at = 0;
        step_candidate(k, index, (struct bw_lease_event){.kind = BW_LEASE_WORK_DEAD});
    }
    if (local(c, k->now) >= bw_lease_deadline(c->lease))
        step_candidate(k, index, (struct bw_lease_event){.kind = BW_LEASE_TIMEOUT});
}

static void land(struct chaos *k)
{
    for (int i = 0; i < FLIGHTS; i++) {
        struct flight flight = k->flights[i];
        bool due = flight.at && flight.at <= k->now;
        if (!due || (flight.reply && k->now < k->candidates[flight.index].paused_until))
            continue;
        k->flights[i].at = 0;
        if (flight.reply)
            step_candidate(
                k, flight.index,
                (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = &flight.answer});
        else
            at_store(k, &flight);
    }
}

static void trouble(struct chaos *k)
{
    struct candidate *c = &k->candidates[bw_rng_below(&k->rng, CANDIDATES)];
    if (bw_rng_chance(&k->rng, 0.0005))
        c->paused_until = k->now + bw_rng_between(&k->rng, BW_SEC, 30 * BW_SEC);
    if (bw_rng_chance(&k->rng, 0.0002)) {
        k->down_from = k->now;
        k->down_until = k->now + bw_rng_between(&k->rng, BW_SEC, 40 * BW_SEC);
    }
}

static void begin_chaos(struct chaos *k, uint64_t seed)
{
    memset(k, 0, sizeof *k);
    bw_rng_init(&k->rng, seed);
    k->now = BW_SEC;
    for (int i = 0; i < CANDIDATES; i++) {
        struct candidate *c = &k->candidates[i];
        snprintf(c->name, sizeof c->name, "c%d", i);
        struct bw_lease_config config = config_for(c->name, seed * 31 + (uint64_t)i);
        config.traits = BW_STORE_TOKEN | BW_STORE_OBSERVED; /* every request polls: no watch */
        c->rate = 1 + (2 * bw_rng_unit(&k->rng) - 1) * 0.01;
        c->lease = malloc(bw_lease_bytes());
        assert_int_equal(bw_lease_init(c->lease, &config), 0);
        step_candidate(k, i, (struct bw_lease_event){.kind = BW_LEASE_START});
    }
}

static int play(uint64_t seed, bw_time length)
{
    struct chaos *k = malloc(sizeof *k);
    begin_chaos(k, seed);
    for (; k->now < length; k->now += 20 * BW_MS) {
        trouble(k);
        land(k);
        for (int i = 0; i < CANDIDATES; i++)
            work_and_timers(k, i);
    }
    int overlaps = k->overlaps, leaderships = k->leaderships;
    for (int i = 0; i < CANDIDATES; i++)
        free(k->candidates[i].lease);
    free(k);
    assert_true(leaderships >= 1);
    return overlaps;
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

static void random_faults_never_let_two_work_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        if (play(seed, 300 * BW_SEC))
            fail_msg("two worked at once with seed %llu", (unsigned long long)seed);
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
        cmocka_unit_test(random_faults_never_let_two_work_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
