/* Several lease electors and one store under random delays, losses, pauses and store outages: never
 * do two of them run their work at once. */
#include "lease_story.h"

#include "core/base/rng.h"

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
        cmocka_unit_test(random_faults_never_let_two_work_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
