/* The quorum guard, one instance at a time: promises, windows and what ends them. */
#include "guard_world.h"

static void named_node_claims_after_its_epoch_is_durable(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    assert_true(first(&w, BW_ACTION_PERSIST) < first(&w, BW_ACTION_SEND));
    assert_int_equal(w.disk.promise_epoch, 1);
    assert_int_equal(w.disk.promised_to, 1);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
}

static void a_majority_opens_a_window_counted_from_sending(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    const struct bw_action *announced = first(&w, BW_ACTION_ANNOUNCE);
    assert_non_null(announced);
    assert_int_equal(announced->announce.leader, 1);
    assert_int_equal(announced->announce.token, 1);
    assert_int_equal(announced->announce.act_from, BW_SEC + 8 * BW_MS);
    assert_int_equal(announced->announce.act_until, BW_SEC + bw_drift_shorten(T, 10000));
}

static void two_of_five_or_a_duplicate_promise_do_not_make_a_majority(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    for (int i = 0; i < 3; i++) {
        promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
        assert_null(first(&w, BW_ACTION_ANNOUNCE));
    }
}

/* JOIN and LEAVE move the rows of the table, so promises are collected again. A voter that answers
 * again is still one voter. */
static void a_voter_counts_once_across_a_membership_event(void **state)
{
    (void)state;
    static const bw_node voters[] = {1, 2, 3, 4, 5};
    static const struct bw_event events[] = {
        {.kind = BW_EVENT_JOIN, .node = 6, .member = {.id = 6}},
        {.kind = BW_EVENT_LEAVE, .node = 5}};
    for (unsigned i = 0; i < 2; i++) {
        struct world w = {0};
        struct bw_elector_config config = config_for(1);
        struct bw_start begin = {0};
        config.voters = voters;
        config.voters_count = MEMBERS;
        assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
        step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
        inner_names(&w, 1, BW_SEC);
        promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
        assert_null(first(&w, BW_ACTION_ANNOUNCE));
        for (bw_time k = 0; k < 3; k++) {
            struct bw_event event = events[i];
            event.now = BW_SEC + (2 + k) * BW_MS;
            step(&w, &event);
            assert_null(first(&w, BW_ACTION_ANNOUNCE));
            promise_from(&w, event.now, 2, 1, BW_SEC);
            assert_null(first(&w, BW_ACTION_ANNOUNCE));
        }
        promise_from(&w, BW_SEC + 5 * BW_MS, 3, 1, BW_SEC);
        promise_from(&w, BW_SEC + 5 * BW_MS, 4, 1, BW_SEC);
        assert_non_null(first(&w, BW_ACTION_ANNOUNCE));
    }
}

/* Three of the five founded the cluster: only their promises count. */
static void only_the_promises_of_voters_count(void **state)
{
    (void)state;
    static const bw_node voters[] = {2, 3, 4};
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.voters = voters;
    config.voters_count = 3;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    inner_names(&w, 1, BW_SEC); /* node 1 is not a voter itself */
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    promise_from(&w, BW_SEC + BW_MS, 5, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
    step(&w, &(struct bw_event){.kind = BW_EVENT_JOIN, .now = BW_SEC + BW_MS, .member = {.id = 6}});
    inner_names(&w, 1, BW_SEC + 2 * BW_MS);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC + 3 * BW_MS});
    promise_from(&w, BW_SEC + 4 * BW_MS, 2, 1, BW_SEC + 3 * BW_MS);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
    promise_from(&w, BW_SEC + 4 * BW_MS, 4, 1, BW_SEC + 3 * BW_MS);
    assert_non_null(first(&w, BW_ACTION_ANNOUNCE));
}

/* Node 5 joined later and has no vote. It once claimed the leader's epoch for itself, so it refuses
 * the leader, and would follow nobody. The leader claims a higher epoch. */
static void leader_claims_a_higher_epoch_when_a_member_without_a_vote_refuses(void **state)
{
    (void)state;
    static const bw_node voters[] = {1, 2, 3};
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.voters = voters;
    config.voters_count = 3;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    inner_names(&w, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    assert_non_null(first(&w, BW_ACTION_ANNOUNCE));
    struct bw_message refusal = {.kind = BW_MSG_PROMISE, .from = 5, .to = 1, .term = 1};
    refusal.promise.leader = 5;
    receive(&w, BW_SEC + 2 * BW_MS, &refusal);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC + 3 * BW_MS});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, 2);
}

/* The claimant was refused because of a promise to a node that is dead. It claims again when it
 * learns of the death. */
static void claimant_claims_again_when_the_promise_holder_is_dead(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_message refusal = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 7};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    refusal.promise.leader = 5;
    refusal.promise.left_ns = T / 2;
    refusal.promise.echo = BW_SEC;
    receive(&w, BW_SEC + BW_MS, &refusal);
    assert_true(bw_elect_guard.deadline(w.memory) > BW_SEC + T / 4);
    step(&w,
         &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 5, .now = BW_SEC + 2 * BW_MS});
    assert_true(bw_elect_guard.deadline(w.memory) <= BW_SEC + 2 * BW_MS);
}

static void member_promises_to_one_claimant_until_the_promise_expires(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    assert_true(first(&w, BW_ACTION_PERSIST) < first(&w, BW_ACTION_SEND));
    assert_true(reply(&w)->flags & BW_FLAG_YES);
    claim_from(&w, BW_SEC + T - 1, 5, 9);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    assert_int_equal(reply(&w)->promise.leader, 4);
    assert_int_equal(reply(&w)->promise.left_ns, 1);
    claim_from(&w, BW_SEC + T, 5, 9);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void epoch_is_promised_to_one_claimant_only(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 7);
    claim_from(&w, 3 * BW_SEC, 5, 7);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    assert_int_equal(reply(&w)->term, 7);
    claim_from(&w, 3 * BW_SEC, 5, 6);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
}

static void a_renewal_costs_no_durable_write(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    claim_from(&w, BW_SEC + T / 3, 4, 1);
    assert_null(first(&w, BW_ACTION_PERSIST));
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void a_restarted_member_waits_a_whole_promise(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    start(&w, 1, 5 * BW_SEC);
    claim_from(&w, 5 * BW_SEC + T - 1, 5, 2);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    claim_from(&w, 5 * BW_SEC + T, 5, 2);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void confirmed_death_ends_the_promise(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    step(&w, &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 1, .node = 4});
    claim_from(&w, BW_SEC + 2, 5, 2);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void leader_without_promises_stops_when_its_window_ends(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    bw_time end = BW_SEC + bw_drift_shorten(T, 10000);
    bw_time now = 0;
    for (int i = 0; i < 200 && now < end; i++) {
        now = bw_elect_guard.deadline(w.memory);
        assert_true(now <= end);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    }
    assert_int_equal(now, end);
    const struct bw_action *announced = first(&w, BW_ACTION_ANNOUNCE);
    assert_non_null(announced);
    assert_int_equal(announced->announce.leader, BW_NODE_NONE);
    assert_int_equal(announced->announce.reason, BW_LOSS_UNREACHABLE);
}

/* On a link with much loss, one lost round must not end a leadership. */
static void
a_claim_is_repeated_to_who_has_not_answered_and_counts_from_its_first_sending(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    bw_time round = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = round});
    promise_from(&w, round + 1, 4, 1, round); /* with our own, one promise is still missing */
    for (int i = 0; i < 3; i++) {
        bw_time again = bw_elect_guard.deadline(w.memory);
        assert_true(again < round + T / 3);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = again});
        assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 2);
        assert_int_equal(first(&w, BW_ACTION_SEND)->msg.promise.echo, round);
    }
    promise_from(&w, round + T / 4, 5, 1, round);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.act_until,
                     round + bw_drift_shorten(T, 10000));
    /* The quorum is complete: the leader repeats to the rest a few times, then not before the next
     * round. */
    uint32_t repeats = 0;
    for (bw_time at; (at = bw_elect_guard.deadline(w.memory)) < round + T / 3; repeats++)
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = at});
    assert_true(repeats <= 3);
}

static void late_promises_of_an_older_round_do_not_extend_the_window(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    bw_time round = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = round});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    promise_from(&w, round + 1, 4, 1, BW_SEC);
    promise_from(&w, round + 1, 5, 1, BW_SEC);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
    promise_from(&w, round + 2, 4, 1, round);
    promise_from(&w, round + 2, 5, 1, round);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.act_until,
                     round + bw_drift_shorten(T, 10000));
}

static void deposed_leader_releases_only_after_its_work_is_dead(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, BW_LOSS_TAKEN);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    step(&w, &(struct bw_event){
                 .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 30 * BW_MS, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* The leader is deposed, named again and deposed again while its work is being stopped. The second
 * claim never had work, but the work of the first leadership may still run. */
static void claim_in_between_does_not_release_while_old_work_runs(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    inner_names(&w, 1, BW_SEC + 22 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    inner_names(&w, 5, BW_SEC + 24 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    step(&w, &(struct bw_event){
                 .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 30 * BW_MS, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* The old work's death is reported when the next window is open: that window must not be
 * released. */
static void late_death_report_does_not_release_the_next_leadership(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    inner_names(&w, 1, BW_SEC + 22 * BW_MS);
    bw_term epoch = w.disk.promise_epoch;
    promise_from(&w, BW_SEC + 24 * BW_MS, 2, epoch, BW_SEC + 22 * BW_MS);
    promise_from(&w, BW_SEC + 24 * BW_MS, 3, epoch, BW_SEC + 22 * BW_MS);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.token, epoch);
    step(&w, &(struct bw_event){
                 .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 30 * BW_MS, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    inner_names(&w, 5, BW_SEC + 40 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
}

/* The work of the first leadership is dead, but its report arrives after the second leadership was
 * lost, too. The work of the second may still run. */
static void late_death_report_does_not_release_a_later_leadership_that_was_lost(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = 1, .now = BW_SEC + 50 * BW_MS};
    make_leader(&w);
    bw_term first_epoch = w.disk.promise_epoch;
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    inner_names(&w, 1, BW_SEC + 22 * BW_MS);
    bw_term epoch = w.disk.promise_epoch;
    promise_from(&w, BW_SEC + 24 * BW_MS, 2, epoch, BW_SEC + 22 * BW_MS);
    promise_from(&w, BW_SEC + 24 * BW_MS, 3, epoch, BW_SEC + 22 * BW_MS);
    inner_names(&w, 5, BW_SEC + 40 * BW_MS);
    dead.dead_term = first_epoch;
    step(&w, &dead);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    dead.dead_term = epoch;
    step(&w, &dead);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* Node 4 claims again after its first leadership. The death report of the first leadership does not
 * end the promise to the second. */
static void death_report_of_an_older_epoch_does_not_end_the_promise(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = 4, .now = BW_SEC + 2};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 7);
    claim_from(&w, BW_SEC + 1, 4, 8);
    dead.dead_term = 7;
    step(&w, &dead);
    claim_from(&w, BW_SEC + 3, 5, 9);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    dead.dead_term = 8;
    step(&w, &dead);
    claim_from(&w, BW_SEC + 4, 5, 9);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void stopping_leader_releases_at_once(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    step(&w, &(struct bw_event){.kind = BW_EVENT_STOP, .now = BW_SEC + 30 * BW_MS});
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, BW_LOSS_SHUT_DOWN);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* Node 1 claims epoch 1, learns of epoch 41 from a refusal, and yields to node 5. */
static void make_withdrawn(struct world *w)
{
    start(w, 1, 0);
    inner_names(w, 1, BW_SEC);
    struct bw_message no = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 41};
    no.promise.leader = 4;
    no.promise.left_ns = 300 * BW_MS;
    receive(w, BW_SEC + 2 * BW_MS, &no);
    inner_names(w, 5, BW_SEC + 4 * BW_MS);
    assert_int_equal(count_sent(w, BW_MSG_RELEASE), MEMBERS - 1);
}

static void withdrawn_claimant_ends_its_promise_to_itself(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    claim_from(&w, BW_SEC + 6 * BW_MS, 5, 42);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

/* A release may be lost. It is repeated with growing pauses while promises may bind. */
static void a_withdrawn_claimant_repeats_its_release(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    uint32_t repeats = 0;
    bw_time now = bw_elect_guard.deadline(w.memory);
    for (; now < BW_TIME_NEVER && repeats < 100; now = bw_elect_guard.deadline(w.memory)) {
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
        assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
        assert_true(now <= BW_SEC + 4 * BW_MS + T);
        repeats++;
    }
    assert_true(repeats >= 3 && repeats <= 8);
}

/* A member without a vote may be the next claimant. Voters that were not free yet refused it, so it
 * needs the repeated release to claim again at once. */
static void release_is_repeated_to_members_without_a_vote(void **state)
{
    (void)state;
    static const bw_node voters[] = {1, 2, 3};
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.voters = voters;
    config.voters_count = 3;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    inner_names(&w, 1, BW_SEC);
    inner_names(&w, 5, BW_SEC + 4 * BW_MS);
    bw_time again = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = again});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* An epoch learned from a refusal is not durable. A release of that epoch would void claims made
 * after a restart: members would ignore them, or a late release would free members from them. */
static void release_never_covers_future_claims(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    bw_term given = first(&w, BW_ACTION_SEND)->msg.term;
    assert_true(given >= 1); /* at least the epoch that was claimed */
    step(&w,
         &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = bw_elect_guard.deadline(w.memory)});
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.kind, BW_MSG_RELEASE);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, given);
    start(&w, 1, 9 * BW_SEC);
    inner_names(&w, 1, 9 * BW_SEC);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.kind, BW_MSG_CLAIM);
    assert_true(first(&w, BW_ACTION_SEND)->msg.term > given);
}

static void claimant_stops_repeating_releases_when_it_claims_again(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    inner_names(&w, 1, BW_SEC + 6 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    for (int i = 0; i < 10; i++) {
        bw_time now = bw_elect_guard.deadline(w.memory);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
        assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    }
}

/* The voter that refused gets the release later than the claimant, and refuses again. The claimant
 * claims again when the release is repeated. */
static void repeated_release_makes_a_claimant_claim_again(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_message no = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 7};
    struct bw_message free = {.kind = BW_MSG_RELEASE, .from = 4, .to = 1, .term = 7};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    no.promise.leader = 4;
    no.promise.left_ns = T / 2;
    for (bw_time now = BW_SEC + 2 * BW_MS; now < BW_SEC + 10 * BW_MS; now += 4 * BW_MS) {
        receive(&w, now, &no);
        assert_true(bw_elect_guard.deadline(w.memory) > now + T / 4);
        receive(&w, now + BW_MS, &free);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now + BW_MS});
        assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
        no.term++; /* our own claim was higher */
    }
}

/* A duplicate of a claim, or a claim that arrives after its release, gets no promise. */
static void released_claim_gets_no_promise(void **state)
{
    (void)state;
    for (int first_claim = 0; first_claim < 2; first_claim++) {
        struct world w = {0};
        start(&w, 1, 0);
        if (first_claim)
            claim_from(&w, BW_SEC, 4, 7);
        struct bw_message free = {.kind = BW_MSG_RELEASE, .from = 4, .to = 1, .term = 7};
        receive(&w, BW_SEC + BW_MS, &free);
        claim_from(&w, BW_SEC + 2 * BW_MS, 4, 7);
        assert_int_equal(count_sent(&w, BW_MSG_PROMISE), 0);
        claim_from(&w, BW_SEC + 3 * BW_MS, 5, 8);
        assert_true(reply(&w)->flags & BW_FLAG_YES);
        claim_from(&w, BW_SEC + 3 * BW_MS + T, 4, 9); /* a new claim of the same node counts */
        assert_true(reply(&w)->flags & BW_FLAG_YES);
    }
}

static void refused_claimant_retries_with_a_higher_epoch(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    struct bw_message no = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 41};
    no.promise.leader = 4;
    no.promise.left_ns = 300 * BW_MS;
    receive(&w, BW_SEC + 2 * BW_MS, &no);
    bw_time again = bw_elect_guard.deadline(w.memory);
    assert_true(again >= BW_SEC + 302 * BW_MS);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = again});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, 42);
}

static void restarted_leader_never_reuses_its_epoch(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    start(&w, 1, 9 * BW_SEC);
    inner_names(&w, 1, 9 * BW_SEC);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, 2);
}

/* The work of the last incarnation may outlive the restart: a claim that is withdrawn must not free
 * the members that promised to that incarnation. */
static void restarted_leader_does_not_release_while_its_old_work_may_run(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    bw_time again = BW_SEC + 100 * BW_MS;
    start(&w, 1, again);
    inner_names(&w, 1, again);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    inner_names(&w, 5, again + T - 1);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    start(&w, 1, again);
    inner_names(&w, 1, again);
    inner_names(&w, 5, again + T);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
    start(&w, 1, again);
    inner_names(&w, 1, again);
    inner_names(&w, 5, again + 1);
    step(&w, &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .now = again + 2, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

static void unknown_senders_and_an_impossible_quorum_are_rejected(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 77, 1);
    assert_null(first(&w, BW_ACTION_SEND));
    struct bw_elector_config config = config_for(1);
    config.quorum = MEMBERS + 1;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), BW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_node_claims_after_its_epoch_is_durable),
        cmocka_unit_test(a_majority_opens_a_window_counted_from_sending),
        cmocka_unit_test(two_of_five_or_a_duplicate_promise_do_not_make_a_majority),
        cmocka_unit_test(a_voter_counts_once_across_a_membership_event),
        cmocka_unit_test(only_the_promises_of_voters_count),
        cmocka_unit_test(leader_claims_a_higher_epoch_when_a_member_without_a_vote_refuses),
        cmocka_unit_test(claimant_claims_again_when_the_promise_holder_is_dead),
        cmocka_unit_test(member_promises_to_one_claimant_until_the_promise_expires),
        cmocka_unit_test(epoch_is_promised_to_one_claimant_only),
        cmocka_unit_test(a_renewal_costs_no_durable_write),
        cmocka_unit_test(a_restarted_member_waits_a_whole_promise),
        cmocka_unit_test(confirmed_death_ends_the_promise),
        cmocka_unit_test(leader_without_promises_stops_when_its_window_ends),
        cmocka_unit_test(
            a_claim_is_repeated_to_who_has_not_answered_and_counts_from_its_first_sending),
        cmocka_unit_test(late_promises_of_an_older_round_do_not_extend_the_window),
        cmocka_unit_test(deposed_leader_releases_only_after_its_work_is_dead),
        cmocka_unit_test(claim_in_between_does_not_release_while_old_work_runs),
        cmocka_unit_test(late_death_report_does_not_release_the_next_leadership),
        cmocka_unit_test(late_death_report_does_not_release_a_later_leadership_that_was_lost),
        cmocka_unit_test(death_report_of_an_older_epoch_does_not_end_the_promise),
        cmocka_unit_test(stopping_leader_releases_at_once),
        cmocka_unit_test(withdrawn_claimant_ends_its_promise_to_itself),
        cmocka_unit_test(a_withdrawn_claimant_repeats_its_release),
        cmocka_unit_test(release_is_repeated_to_members_without_a_vote),
        cmocka_unit_test(release_never_covers_future_claims),
        cmocka_unit_test(claimant_stops_repeating_releases_when_it_claims_again),
        cmocka_unit_test(repeated_release_makes_a_claimant_claim_again),
        cmocka_unit_test(released_claim_gets_no_promise),
        cmocka_unit_test(refused_claimant_retries_with_a_higher_epoch),
        cmocka_unit_test(restarted_leader_never_reuses_its_epoch),
        cmocka_unit_test(restarted_leader_does_not_release_while_its_old_work_may_run),
        cmocka_unit_test(unknown_senders_and_an_impossible_quorum_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
