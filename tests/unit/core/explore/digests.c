/* The digests for the explorer: states that differ in something that matters have different
 * digests; states that differ only in when they happened, or in what no step reads, have the
 * same. */
#include "core/elect/quorum_guard_state.h"
#include "unit/core/elect/guard_world.h"

#include "core/elect/raft/raft_state.h"
#include "core/explore/digest.h"
#include "core/lease/lease.h"
#include "core/lease/state.h"

#define NOW   (100 * BW_SEC)
#define WORDS 512u

struct words {
    uint64_t at[WORDS];
    struct bw_digest digest;
};

static void open_words(struct words *words, bw_time now)
{
    words->digest =
        (struct bw_digest){.at = words->at, .cap = WORDS, .now = now, .next = BW_TIME_NEVER};
}

static bool same_words(const struct words *a, const struct words *b)
{
    return a->digest.count == b->digest.count &&
           memcmp(a->at, b->at, a->digest.count * sizeof a->at[0]) == 0;
}

/* ---- times ---- */

static void times_count_from_now_and_only_in_the_future(void **state)
{
    (void)state;
    struct words words;
    open_words(&words, NOW);
    bw_digest_time(&words.digest, NOW - 5);
    bw_digest_time(&words.digest, NOW);
    assert_true(words.digest.next == BW_TIME_NEVER);
    bw_digest_time(&words.digest, NOW + 7);
    bw_digest_time(&words.digest, NOW + 3);
    bw_digest_time(&words.digest, BW_TIME_NEVER);
    assert_true(words.digest.next == NOW + 3);
    bw_digest_age(&words.digest, -1);
    bw_digest_age(&words.digest, NOW - 4);
    static const uint64_t expected[] = {0, 0, 7, 3, UINT64_MAX, UINT64_MAX, 4};
    assert_int_equal(words.digest.count, 7);
    assert_memory_equal(words.at, expected, sizeof expected);
}

/* ---- Raft ---- */

static struct bw_raft raft, other;

/* Whether `other` at time `now` has the digest of `raft` at NOW; then makes both equal again. */
static bool raft_same(bw_time now)
{
    static struct words a, b;
    open_words(&a, NOW);
    open_words(&b, now);
    bw_raft_digest(&raft, &a.digest);
    bw_raft_digest(&other, &b.digest);
    other = raft;
    return same_words(&a, &b);
}

#define RAFT_DIFFERS(field, value)                                                                 \
    do {                                                                                           \
        other.field = (value);                                                                     \
        assert_false(raft_same(NOW));                                                              \
    } while (0)
#define RAFT_SAME(field, value)                                                                    \
    do {                                                                                           \
        other.field = (value);                                                                     \
        assert_true(raft_same(NOW));                                                               \
    } while (0)

static void make_raft(enum bw_raft_role role)
{
    memset(&raft, 0, sizeof raft);
    raft.role = (uint8_t)role;
    raft.now = NOW;
    raft.timeout_min = BW_SEC;
    raft.term = 5;
    raft.log = (struct bw_raft_log){.last = 9, .last_term = 5, .durable = 8, .runs = 2};
    raft.log.run[0] = (struct bw_raft_run){.first = 1, .term = 2};
    raft.log.run[1] = (struct bw_raft_run){.first = 6, .term = 5};
    raft.base = (struct bw_raft_group){.id = {1, 2, 3}, .voters = 3, .count = 3};
    raft.change[0] = (struct bw_raft_change){.index = 7, .op = BW_CHANGE_REMOVE, .node = 3};
    raft.changes = 1;
    raft.peers = 3;
    for (uint32_t i = 0; i < 3; i++)
        raft.peer[i] = (struct bw_raft_peer){
            .id = i + 1, .ring = (uint8_t)i, .next = 10, .match = 9, .acked = -1};
    raft.won_at = raft.quorum_echo = raft.resumed_at = -1;
    other = raft;
}

static void raft_digest_holds_the_log_and_the_group(void **state)
{
    (void)state;
    make_raft(BW_RAFT_FOLLOWER);
    assert_true(raft_same(NOW));
    RAFT_DIFFERS(role, BW_RAFT_CANDIDATE);
    RAFT_DIFFERS(term, 6);
    RAFT_DIFFERS(vote, 2);
    RAFT_DIFFERS(commit, 4);
    RAFT_DIFFERS(promised, BW_SEC);
    RAFT_DIFFERS(log.durable, 9);
    RAFT_DIFFERS(log.runs, 1);
    RAFT_DIFFERS(log.run[1].term, 4);
    RAFT_SAME(log.run[2].term, 4); /* beyond the end */
    RAFT_DIFFERS(base.id[2], 4);
    RAFT_SAME(base.id[3], 4);
    RAFT_DIFFERS(changes, 0);
    RAFT_DIFFERS(change[0].op, BW_CHANGE_PROMOTE);
    RAFT_SAME(change[1].op, BW_CHANGE_PROMOTE);
}

static struct bw_raft_bound bound(bw_node to, bw_time until, bw_time span)
{
    return (struct bw_raft_bound){.to = to, .until = until, .span = span, .term = 4};
}

static void raft_digest_holds_open_waits_in_any_order(void **state)
{
    (void)state;
    make_raft(BW_RAFT_FOLLOWER);
    RAFT_SAME(bound[0], bound(0, NOW - 1, BW_SEC)); /* over */
    RAFT_DIFFERS(bound[0], bound(0, NOW + 1, BW_SEC));
    raft.bound[0] = bound(0, NOW + 1, BW_SEC);
    other = raft;
    RAFT_DIFFERS(bound[0].span, 2 * BW_SEC);
    RAFT_DIFFERS(bound[1], bound(3, NOW + 1, BW_SEC));
    raft.bound[1] = bound(3, NOW + 1, BW_SEC);
    raft.bound[2] = bound(1, NOW + 2, BW_SEC);
    raft.bound[3] = bound(2, NOW + 3, BW_SEC);
    other = raft;
    RAFT_DIFFERS(bound[2].until, NOW + 9);
    RAFT_DIFFERS(bound[3].term, 3);
    RAFT_DIFFERS(bound[3].dead, 3);
    other.bound[1] = raft.bound[3];
    other.bound[3] = raft.bound[1];
    assert_true(raft_same(NOW));
}

/* Later reports about the same leader change the entry. */
static void raft_digest_holds_the_entries_of_waits_that_have_ended(void **state)
{
    (void)state;
    make_raft(BW_RAFT_FOLLOWER);
    raft.bound[1] = bound(3, NOW - 1, BW_SEC);
    other = raft;
    RAFT_SAME(bound[1].until, NOW - 5);
    RAFT_DIFFERS(bound[1].to, 2);
    RAFT_DIFFERS(bound[1].term, 3);
    RAFT_DIFFERS(bound[1].dead, 3);
    RAFT_DIFFERS(bound[1].span, 2 * BW_SEC);
    RAFT_DIFFERS(bound[1].until, 0); /* given up: the next report begins a new entry */
    raft.bound[1].dead = raft.bound[1].term;
    raft.bound[2] = bound(1, 0, BW_SEC);
    other = raft;
    RAFT_SAME(bound[1].term, 3);
    RAFT_SAME(bound[1].span, 2 * BW_SEC);
    raft.bound[1].until = NOW + 1; /* not over: a report can end it */
    other = raft;
    RAFT_DIFFERS(bound[1].span, 2 * BW_SEC);
    raft.bound[1].until = NOW - 1;
    other = raft;
    other.bound[1] = raft.bound[2]; /* the first gives way to another leader */
    other.bound[2] = raft.bound[1];
    assert_false(raft_same(NOW));
}

static void raft_digest_of_a_follower_holds_its_timers_and_echoes(void **state)
{
    (void)state;
    make_raft(BW_RAFT_FOLLOWER);
    RAFT_SAME(election_at, NOW - 1);
    RAFT_DIFFERS(election_at, NOW + 1);
    RAFT_DIFFERS(newest_echo, NOW - 1);
    RAFT_DIFFERS(window_ended, NOW - 1);
    RAFT_DIFFERS(matched, 3);
    RAFT_SAME(peer[1].granted, true); /* a follower asked for no votes */
    RAFT_SAME(heartbeat_at, NOW + 1); /* of a leader */
    raft.newest_echo = NOW - 2;
    raft.window_ended = NOW - 3;
    raft.election_at = NOW + 4;
    other = raft;
    RAFT_DIFFERS(newest_echo, NOW - 1);
    other.newest_echo += 5;
    other.window_ended += 5;
    other.election_at += 5;
    other.now += 5;
    assert_true(raft_same(NOW + 5));
    make_raft(BW_RAFT_CANDIDATE);
    RAFT_DIFFERS(peer[1].granted, true);
    RAFT_DIFFERS(peer[2].granted, true);
}

static void raft_digest_of_a_leader_holds_its_window_and_its_followers(void **state)
{
    (void)state;
    make_raft(BW_RAFT_LEADER);
    raft.won_at = NOW - BW_MS;
    raft.quorum_echo = NOW - BW_MS / 2;
    other = raft;
    RAFT_DIFFERS(won_at, NOW - BW_MS / 2); /* it won less than an election timeout ago */
    raft.won_at = NOW - 3 * BW_SEC;
    other = raft;
    RAFT_SAME(won_at, NOW - 2 * BW_SEC);
    raft.quorum_echo = NOW - 4 * BW_SEC; /* no quorum since it won */
    other = raft;
    RAFT_DIFFERS(won_at, NOW - 2 * BW_SEC);
    RAFT_DIFFERS(heartbeat_at, NOW + 1);
    RAFT_DIFFERS(act_until, NOW + 1);
    raft.act_until = NOW;
    other = raft;
    RAFT_SAME(act_from, NOW);           /* the window is over, or has not begun */
    RAFT_SAME(transfer_until, NOW + 1); /* without a transfer */
    raft.transfer_to = 2;
    other = raft;
    RAFT_DIFFERS(transfer_until, NOW + 1);
    RAFT_DIFFERS(peer[2].match, 8);
    RAFT_DIFFERS(peer[2].acked, NOW - 1);
    RAFT_SAME(peer[1].resend_at, NOW + 1);
    RAFT_SAME(ring[1].end[0], 5); /* nothing is in flight */
    raft.peer[1].progress = BW_RAFT_SNAPSHOT;
    raft.peer[2].inflight = 2;
    raft.peer[2].oldest = BW_RAFT_INFLIGHT_MAX - 1;
    other = raft;
    RAFT_DIFFERS(peer[1].resend_at, NOW + 1);
    RAFT_DIFFERS(ring[2].end[BW_RAFT_INFLIGHT_MAX - 1], 5);
    RAFT_DIFFERS(ring[2].end[0], 5);
    RAFT_SAME(ring[2].end[1], 5);
    RAFT_SAME(election_at, NOW + 1); /* of a follower */
}

static void fixed_draws_yield_their_lower_bound(void **state)
{
    (void)state;
    bw_rng_init(&raft.rng, 3);
    bw_raft_fix_draws(&raft);
    static struct bw_lease lease;
    bw_rng_init(&lease.rng, 3);
    lease.next_id = 77;
    bw_lease_fix_draws(&lease);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(bw_rng_between(&raft.rng, 5, 9) == 5);
        assert_true(bw_rng_between(&lease.rng, 5, 9) == 5);
    }
    assert_int_equal(bw_lease_next_id(&lease), 77);
}

/* ---- the lease elector ---- */

static struct bw_lease lease, changed;

static uint64_t name_of(const void *context, uint64_t request)
{
    (void)context;
    return request % 100;
}

static bool lease_same(bw_time now)
{
    static struct words a, b;
    const struct bw_lease_naming naming = {.name = name_of, .version = 50};
    open_words(&a, NOW);
    open_words(&b, now);
    bw_lease_digest(&lease, &naming, &a.digest);
    bw_lease_digest(&changed, &naming, &b.digest);
    changed = lease;
    return same_words(&a, &b);
}

#define LEASE_DIFFERS(field, value)                                                                \
    do {                                                                                           \
        changed.field = (value);                                                                   \
        assert_false(lease_same(NOW));                                                             \
    } while (0)
#define LEASE_SAME(field, value)                                                                   \
    do {                                                                                           \
        changed.field = (value);                                                                   \
        assert_true(lease_same(NOW));                                                              \
    } while (0)

static void make_lease(enum lease_state state)
{
    memset(&lease, 0, sizeof lease);
    lease.state = state;
    changed = lease;
}

static void lease_digest_holds_requests_by_name_and_age(void **state)
{
    (void)state;
    make_lease(LEASE_WAITING);
    LEASE_SAME(main.sent, NOW - 1); /* of no request */
    LEASE_DIFFERS(main.id, 7);
    lease.main = (struct lease_pending){.id = 7, .sent = NOW - 1};
    lease.renew[1] = lease.main;
    lease.released_unused = lease.duplicate.request = lease.seen.request = 8;
    changed = lease;
    LEASE_SAME(main.id, 107); /* the same name */
    LEASE_DIFFERS(main.sent, NOW - 2);
    LEASE_DIFFERS(renew[1].id, 9);
    LEASE_DIFFERS(released_unused, 9);
    LEASE_SAME(released_unused, 208);
    LEASE_DIFFERS(duplicate.request, 9);
    LEASE_SAME(duplicate.request, 208);
    LEASE_DIFFERS(duplicate.version, 50);
    LEASE_DIFFERS(duplicate.note_serial, 1);
    LEASE_DIFFERS(duplicate.since, NOW - 1); /* the server expires leases */
    lease.config.traits = BW_STORE_OBSERVED;
    changed = lease;
    LEASE_SAME(duplicate.since, NOW - 1);
    LEASE_DIFFERS(duplicate.renewals, 1);
    LEASE_DIFFERS(seen.request, 9);
    LEASE_SAME(seen.request, 208);
    LEASE_DIFFERS(stopping, true);
    LEASE_DIFFERS(act_at, NOW + 1);
}

static void lease_digest_holds_the_record(void **state)
{
    (void)state;
    make_lease(LEASE_WAITING);
    LEASE_DIFFERS(seen.version, 50);
    LEASE_DIFFERS(seen.version, 49);
    LEASE_SAME(seen_since, NOW - 1); /* free since when does not matter */
    memcpy(changed.seen.holder, "a", 2);
    assert_false(lease_same(NOW));
    lease.seen.held = true;
    memcpy(lease.seen.holder, "candidate", 10);
    changed = lease;
    LEASE_DIFFERS(seen_since, NOW - 1);
    LEASE_DIFFERS(seen.holder[7], 'x');
    LEASE_SAME(seen.holder[8], 'x');    /* the explorer's names are shorter */
    LEASE_SAME(schedule.term, NOW + 1); /* of a holder */
}

static void lease_digest_of_a_holder_holds_its_schedule(void **state)
{
    (void)state;
    static const enum lease_state states[] = {LEASE_HOLDING, LEASE_STOPPING};
    for (unsigned i = 0; i < 2; i++) {
        make_lease(states[i]);
        LEASE_DIFFERS(schedule.renew, NOW + 1);
        LEASE_DIFFERS(schedule.retry, NOW + 1);
        LEASE_DIFFERS(schedule.term, NOW + 1);
        LEASE_DIFFERS(schedule.kill, NOW + 1);
        LEASE_DIFFERS(schedule.end, NOW + 1);
        lease.schedule.end = NOW + 1;
        changed = lease;
        changed.schedule.end = NOW + 6;
        assert_true(lease_same(NOW + 5));
    }
    make_lease(LEASE_RELEASING);
    LEASE_SAME(schedule.renew, NOW + 1);
    LEASE_SAME(schedule.retry, NOW + 1);
    LEASE_SAME(schedule.kill, NOW + 1);
    LEASE_DIFFERS(schedule.end, NOW + 1); /* until then, the release is repeated */
}

/* ---- the quorum guard ---- */

static void take(const struct world *w, bw_time now, struct words *words)
{
    open_words(words, now);
    bw_elect_guard.digest(w->memory, &words->digest);
}

/* The stories of one node; each ends at `begin` plus 30 ms at the latest. */
static void play(struct world *w, unsigned story, bw_time begin)
{
    memset(w, 0, sizeof *w);
    start(w, 1, begin - BW_SEC);
    if (story == 0) /* follows */
        return;
    inner_names(w, 1, begin);
    if (story == 1) /* claims */
        return;
    promise_from(w, begin + 4 * BW_MS, 2, 1, begin);
    if (story == 2) /* has one promise */
        return;
    promise_from(w, begin + 8 * BW_MS, 3, 1, begin);
    if (story == 3) /* leads */
        return;
    step(w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = begin + 8 * BW_MS});
    if (story == 4) /* has claimed again */
        return;
    inner_names(w, 2, begin + 9 * BW_MS);
    if (story == 5) /* has lost leadership while its work runs */
        return;
    step(w,
         &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .now = begin + 10 * BW_MS, .node = 1});
    if (story == 6) /* has released the promises */
        return;
    for (unsigned i = 0; i < 40; i++) /* and repeats that until they have expired */
        step(w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT,
                                   .now = begin + 10 * BW_MS + (bw_time)i * T / 20});
}

static void guard_digest_tells_its_states_apart_and_not_when_they_were(void **state)
{
    (void)state;
    static struct world w;
    static struct words words[8], later;
    for (unsigned i = 0; i < 8; i++) {
        bw_time end = i == 7 ? 3 * BW_SEC : 30 * BW_MS;
        play(&w, i, NOW);
        take(&w, NOW + end, &words[i]);
        play(&w, i, NOW + 5 * BW_SEC);
        take(&w, NOW + 5 * BW_SEC + end, &later);
        /* the echo of a message is a time of its own clock, but no message is in the state */
        assert_true(same_words(&words[i], &later));
        for (unsigned k = 0; k < i; k++)
            assert_false(same_words(&words[i], &words[k]));
    }
}

/* A second round at the same time continues the count of answers (claim() in quorum_guard.c), so
 * the digest contains that count. A later round starts at 0, so the digest does not contain it. */
static void guard_digest_holds_the_answers_of_this_instant(void **state)
{
    (void)state;
    static struct world w;
    static struct words at_once, after;
    play(&w, 1, NOW);
    inner_names(&w, 2, NOW);
    take(&w, NOW, &at_once);
    play(&w, 1, NOW);
    inner_names(&w, 2, NOW);
    take(&w, NOW + 1, &after);
    assert_false(same_words(&at_once, &after));
}

/* Before its own promise is durable, a claim has no answers. What an earlier round left has no
 * effect. */
static void guard_digest_of_a_claim_that_has_not_begun_holds_no_answers(void **state)
{
    (void)state;
    static struct world w;
    static struct words before, after;
    void *memory = w.memory;
    struct guard *guard = memory;
    play(&w, 2, NOW);
    take(&w, NOW + 1, &before);
    guard->answers++;
    take(&w, NOW + 1, &after);
    assert_false(same_words(&before, &after));
    guard->begun = false;
    take(&w, NOW + 1, &before);
    guard->answers++;
    guard->complete = !guard->complete;
    guard->round_at--;
    guard->promised[1] = guard->round_at;
    take(&w, NOW + 1, &after);
    assert_true(same_words(&before, &after));
}

static unsigned asked;

static void inner_digest(const void *self, struct bw_digest *out)
{
    (void)self;
    bw_digest_add(out, 4711);
}

static void inner_fix_draws(void *self)
{
    (void)self;
    asked++;
}

static void guard_digest_includes_the_inner_elector(void **state)
{
    (void)state;
    static struct world w;
    static struct words without, with;
    struct bw_elector_ops ops = inner;
    ops.digest = inner_digest;
    ops.fix_draws = inner_fix_draws;
    play(&w, 0, NOW);
    bw_elect_guard.fix_draws(w.memory);
    take(&w, NOW, &without);
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.inner = &ops;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .now = NOW - BW_SEC, .start = &begin});
    bw_elect_guard.fix_draws(w.memory);
    assert_int_equal(asked, 1);
    take(&w, NOW, &with);
    assert_int_equal(with.digest.count, without.digest.count + 1);
    assert_int_equal(with.at[with.digest.count - 1], 4711);
}

static void raft_digest_of_a_leader_holds_its_reads(void **state)
{
    (void)state;
    make_raft(BW_RAFT_LEADER);
    raft.quorum_echo = raft.round_at = NOW - 2 * BW_SEC;
    other = raft;
    RAFT_SAME(round_at, NOW - 3 * BW_SEC); /* acknowledged, and no read waits for a round */
    RAFT_DIFFERS(round_at, NOW - BW_SEC);  /* not acknowledged yet */
    RAFT_DIFFERS(round_at, NOW);           /* a read of this instant shares the round */
    raft.quorum_echo = raft.round_at = NOW;
    other = raft;
    RAFT_DIFFERS(round_at, NOW - 1);
    raft.quorum_echo = NOW - BW_SEC;
    raft.round_at = NOW - 2 * BW_SEC;
    raft.reads = 2;
    raft.first_read = BW_RAFT_READS_MAX - 1;
    other = raft;
    RAFT_DIFFERS(round_at, NOW - 3 * BW_SEC);
    RAFT_DIFFERS(read[BW_RAFT_READS_MAX - 1].request, 4);
    RAFT_DIFFERS(read[0].index, 4);
    RAFT_SAME(read[1].index, 4); /* beyond the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_count_from_now_and_only_in_the_future),
        cmocka_unit_test(raft_digest_holds_the_log_and_the_group),
        cmocka_unit_test(raft_digest_holds_open_waits_in_any_order),
        cmocka_unit_test(raft_digest_holds_the_entries_of_waits_that_have_ended),
        cmocka_unit_test(raft_digest_of_a_follower_holds_its_timers_and_echoes),
        cmocka_unit_test(raft_digest_of_a_leader_holds_its_window_and_its_followers),
        cmocka_unit_test(fixed_draws_yield_their_lower_bound),
        cmocka_unit_test(lease_digest_holds_requests_by_name_and_age),
        cmocka_unit_test(lease_digest_holds_the_record),
        cmocka_unit_test(lease_digest_of_a_holder_holds_its_schedule),
        cmocka_unit_test(guard_digest_tells_its_states_apart_and_not_when_they_were),
        cmocka_unit_test(guard_digest_holds_the_answers_of_this_instant),
        cmocka_unit_test(guard_digest_of_a_claim_that_has_not_begun_holds_no_answers),
        cmocka_unit_test(guard_digest_includes_the_inner_elector),
        cmocka_unit_test(raft_digest_of_a_leader_holds_its_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
