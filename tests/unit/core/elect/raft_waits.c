/* The waits of a Raft leader survive every change of leader and of membership (INVARIANT in
 * core/elect/raft/window.c). The net checks at every event that no two windows overlap in real
 * time.
 *
 * All stories begin alike. Node `old` of 1, 2 and 3 leads with a promise of 8 s, which is longer
 * than many election timeouts. It is paused and cut off, so its work continues until its window
 * ends. Node `next` is elected and waits. Nodes 4 and 5 join; they never promised anything to
 * `old`. */
#include "raft_net.h"

#include "core/base/error.h"
#include "unit/unit.h"

#define T (8 * BW_SEC)

struct story {
    struct net *net;
    bw_node old, next, other; /* other: the third of 1, 2 and 3 */
    bw_time old_until;        /* end of the old window, in real time */
};

static bw_node await_another(struct net *net, bw_node before)
{
    for (int i = 0; i < 1000; i++) {
        bw_node leader = net_leader(net);
        if (leader != BW_NODE_NONE && leader != before && !net->node[leader].paused)
            return leader;
        net_run(net, 5 * BW_MS);
    }
    fail_msg("no other leader");
    return BW_NODE_NONE;
}

static void net_event_all(struct net *net, enum bw_event_kind kind, bw_node node)
{
    for (bw_node id = 1; id <= net->nodes; id++)
        if (id != node && net->node[id].up && !net->node[id].paused)
            net_event(net, id, kind, node);
}

/* Asks the leader until the change is committed. */
static void change(struct net *net, enum bw_change_op op, bw_node node)
{
    static uint64_t request = 1000;
    for (int i = 0; i < 100; i++) {
        bw_node leader = net_leader(net);
        net_change(net, leader, op, node, ++request);
        const struct bw_answer *answer = net_answer(net, request);
        net_run(net, 20 * BW_MS);
        if (answer && answer->error == 0 && net->committed_last >= answer->index)
            return;
    }
    fail_msg("the membership could not be changed");
}

static void join(struct net *net, bw_node id)
{
    net_start_as(net, id, true);
    change(net, BW_CHANGE_ADD_LEARNER, id);
    net_run(net, 100 * BW_MS);
    change(net, BW_CHANGE_PROMOTE, id);
}

/* `drift`: how much slower or faster the clocks of the new nodes run. */
static struct story begin(uint64_t seed, double drift)
{
    struct net *net = net_new(5, 3, seed);
    net->config.promise_ns = T;
    for (bw_node id = 1; id <= 5; id++)
        net->node[id].rate = id > 3 ? 1 + drift : 1 - drift;
    for (bw_node id = 1; id <= 3; id++)
        net_start(net, id);
    bw_node first = net_elect(net, 3 * BW_SEC);
    /* the leader has no work, so it may resign at once */
    net_command(net, first, (struct bw_command){.kind = BW_COMMAND_RESIGN});
    struct story s = {.net = net, .old = await_another(net, first)};
    net_run(net, T / 4);
    net_pause(net, s.old);
    s.old_until = net->node[s.old].act_until;
    assert_true(s.old_until > net->now + T / 2);
    net_event_all(net, BW_EVENT_HINT, s.old);
    s.next = await_another(net, s.old);
    net_run(net, 20 * BW_MS);
    s.other = 6 - s.old - s.next;
    assert_true(net_status(net, s.next).act_from > net_local(net, s.next, s.old_until));
    return s;
}

/* The group is then `next`, 4 and 5: no majority consists of the first three only. */
static struct story begin_with_newcomers(uint64_t seed)
{
    struct story s = begin(seed, seed % 2 ? 0.01 : -0.01);
    join(s.net, 4);
    join(s.net, 5);
    change(s.net, BW_CHANGE_REMOVE, s.old);
    change(s.net, BW_CHANGE_REMOVE, s.other);
    assert_int_equal(net_leader(s.net), s.next);
    assert_true(s.net->now < s.old_until - BW_SEC);
    return s;
}

static bool acts(const struct net *net, bw_node id)
{
    const struct net_node *node = &net->node[id];
    return node->act_from <= net->now && net->now < node->act_until;
}

/* A node leads before the old window has ended. A node acts after that, and not much later. */
static void end(struct story s)
{
    struct net *net = s.net;
    assert_true(net->now < s.old_until);
    bw_node acting = BW_NODE_NONE;
    while (acting == BW_NODE_NONE && net->now < s.old_until + 3 * T) {
        net_run(net, 20 * BW_MS);
        for (bw_node id = 1; id <= net->nodes; id++)
            if (id != s.old && net->node[id].up && acts(net, id))
                acting = id;
    }
    assert_int_not_equal(acting, BW_NODE_NONE);
    assert_true(net->node[acting].act_from >= s.old_until);
    net_free(net);
}

static void a_wait_survives_promotion_and_removal_of_voters(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct story s = begin_with_newcomers(seed);
        /* the leader hands over when its removal is committed */
        net_change(s.net, s.next, BW_CHANGE_REMOVE, s.next, 7);
        bw_node next_leader = await_another(s.net, s.next);
        assert_true(next_leader > 3);
        end(s);
    }
}

static void a_wait_survives_a_transfer_by_the_waiting_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 11; seed <= 14; seed++) {
        struct story s = begin_with_newcomers(seed);
        net_command(s.net, s.next,
                    (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = 4, .request = 7});
        assert_int_equal(await_another(s.net, s.next), 4);
        end(s);
    }
}

static void wait_survives_the_departure_of_the_waiting_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 21; seed <= 24; seed++) {
        struct story s = begin_with_newcomers(seed);
        net_event(s.net, s.next, seed % 2 ? BW_EVENT_STOP : BW_EVENT_COMMAND, s.next);
        if (seed % 2 == 0)
            net_command(s.net, s.next, (struct bw_command){.kind = BW_COMMAND_RESIGN});
        bw_node next_leader = await_another(s.net, s.next);
        assert_true(next_leader > 3);
        end(s);
    }
}

static void a_wait_survives_the_confirmed_death_of_the_waiting_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 31; seed <= 34; seed++) {
        struct story s = begin_with_newcomers(seed);
        net_crash(s.net, s.next);
        net_event_all(s.net, BW_EVENT_CONFIRMED_DEAD, s.next);
        assert_true(await_another(s.net, s.next) > 3);
        end(s);
    }
}

/* The waiting leader's own work is dead: it may have been an earlier leader. */
static void waiting_leader_still_waits_when_its_own_work_is_dead(void **state)
{
    (void)state;
    struct story s = begin_with_newcomers(41);
    for (int i = 0; i < 3; i++) {
        net_event(s.net, s.next, BW_EVENT_CONFIRMED_DEAD, s.next);
        net_run(s.net, 50 * BW_MS);
    }
    end(s);
}

static void a_wait_survives_restarts_of_the_leader_and_of_the_voters(void **state)
{
    (void)state;
    for (uint64_t seed = 51; seed <= 58; seed++) {
        struct story s = begin_with_newcomers(seed);
        for (bw_node id = 1; id <= 5; id++) {
            bool hit = id == s.next ? seed & 1 : id > 3 && (seed & 2);
            if (!hit && !(seed & 4))
                continue;
            if (id == s.old || id == s.other)
                continue;
            net_crash(s.net, id);
            net_run(s.net, 30 * BW_MS);
            net_start(s.net, id);
        }
        net_run(s.net, 400 * BW_MS);
        end(s);
    }
}

/* A new node gets a snapshot instead of the entries. */
static void snapshot_carries_the_waits(void **state)
{
    (void)state;
    struct story s = begin(61, 0.01);
    struct bw_raft *raft = net_raft(s.net, s.next);
    net_run(s.net, 100 * BW_MS);
    net_command(
        s.net, s.next,
        (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = bw_raft_commit_index(raft)});
    unsigned before = s.net->sent[BW_MSG_RAFT_SNAPSHOT];
    join(s.net, 4);
    join(s.net, 5);
    assert_true(s.net->sent[BW_MSG_RAFT_SNAPSHOT] > before);
    change(s.net, BW_CHANGE_REMOVE, s.old);
    change(s.net, BW_CHANGE_REMOVE, s.other);
    net_crash(s.net, s.next);
    net_event_all(s.net, BW_EVENT_CONFIRMED_DEAD, s.next);
    end(s);
}

static void dead(struct net *net, bw_node node, bw_term term)
{
    for (bw_node id = 1; id <= net->nodes; id++) {
        struct bw_event event = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = node, .dead_term = term};
        if (id != node && net->node[id].up && !net->node[id].paused)
            net_step(net, id, &event, NULL);
    }
}

static int add_again(struct net *net, bw_node node)
{
    static uint64_t request = 5000;
    net_change(net, net_leader(net), BW_CHANGE_ADD_LEARNER, node, ++request);
    const struct bw_answer *answer = net_answer(net, request);
    assert_non_null(answer);
    return answer->error;
}

/* Another process starts under the id of the stopped leader, and waits for no window of its own id.
 * It is not added before that window has ended or its work is known to be dead. */
static void removed_leader_is_readded_only_after_its_window_ended(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        struct story s = begin_with_newcomers(71 + (uint64_t)dies);
        assert_int_equal(add_again(s.net, s.old), BW_EBUSY);
        net_command(s.net, s.next,
                    (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = 4, .request = 7});
        assert_int_equal(await_another(s.net, s.next), 4);
        net_run(s.net, 100 * BW_MS);
        assert_true(s.net->now < s.old_until);
        assert_int_equal(add_again(s.net, s.old), BW_EBUSY);
        if (dies)
            net_crash(s.net, s.old);
        if (dies)
            net_event_all(s.net, BW_EVENT_CONFIRMED_DEAD, s.old);
        else
            net_run(s.net, s.old_until + T / 4 - s.net->now);
        assert_int_equal(add_again(s.net, s.old), 0);
        net_free(s.net);
    }
}

/* A leader is deposed while its work runs, is elected again, waits for a restarted voter, and is
 * removed. Its first window ends after that wait: it must not be released. */
static void a_removed_leader_that_waits_keeps_its_earlier_window(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 111);
    net->config.promise_ns = T;
    for (bw_node id = 1; id <= 3; id++)
        net_start(net, id);
    bw_node leader = net_elect(net, 3 * BW_SEC), restarted = leader % 3 + 1,
            third = 6 - leader - restarted;
    net_run(net, BW_SEC);
    net_crash(net, restarted);
    net_run(net, 20 * BW_MS);
    net_start(net, restarted);
    net_run(net, T / 4);
    bw_time until = net->node[leader].act_until;
    assert_true(acts(net, leader));
    bw_term term = net_status(net, leader).term;
    net_inject(
        net, leader,
        (struct bw_message){.kind = BW_MSG_RAFT_APPEND_REPLY, .from = restarted, .term = term + 1});
    assert_int_not_equal(net_leader(net), leader);
    net_isolate(net, third, true); /* the vote of the restarted node decides */
    while (net_leader(net) != leader) {
        net_command(net, leader, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
        net_run(net, 5 * BW_MS);
    }
    net_run(net, 20 * BW_MS);
    net_isolate(net, third, false);
    net_run(net, 200 * BW_MS);
    assert_int_equal(net_leader(net), leader);
    assert_false(acts(net, leader));
    net_change(net, leader, BW_CHANGE_REMOVE, leader, 7);
    bw_node second = await_another(net, leader);
    while (!acts(net, second) && net->now < until + T) {
        net_run(net, 20 * BW_MS);
        second = await_another(net, leader);
    }
    assert_true(net->node[second].act_from >= until);
    net_free(net);
}

/* A guardian's report may be late: it concerns an earlier leadership. */
static void report_of_an_older_death_does_not_end_a_wait(void **state)
{
    (void)state;
    struct story s = begin_with_newcomers(71);
    bw_term term = net_status(s.net, s.old).term;
    assert_true(term > 1); /* 0 would mean all terms */
    dead(s.net, s.old, term - 1);
    assert_true(net_status(s.net, s.next).act_from > net_local(s.net, s.next, s.old_until));
    end(s);
}

/* The window of the dead leader no longer exists: the net is informed. */
static void the_death_of_the_old_leader_ends_the_wait_of_every_later_one(void **state)
{
    (void)state;
    for (int late = 0; late < 3; late++) {
        struct story s = begin_with_newcomers(81);
        struct net *net = s.net;
        bw_term term = net_status(net, s.old).term;
        net_crash(net, s.old);
        for (int i = 0; i < 2 && late == 0;
             i++) { /* twice, as peers do: an append may be in flight */
            dead(net, s.old, term);
            net_run(net, 10 * BW_MS);
        }
        net_command(net, s.next,
                    (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = 4, .request = 7});
        assert_int_equal(await_another(net, s.next), 4);
        if (late > 0)
            dead(net, s.old, late == 1 ? term : 0);
        bw_time confirmed_at = net->now;
        while (!acts(net, 4) && net->now < confirmed_at + BW_SEC)
            net_run(net, 5 * BW_MS);
        assert_true(acts(net, 4));
        net_free(net);
    }
}

/* However often leadership changes, no node waits longer than a whole promise. */
static void a_wait_does_not_grow_from_leader_to_leader(void **state)
{
    (void)state;
    struct story s = begin_with_newcomers(91);
    bw_time paused = s.net->now;
    for (int i = 0; i < 40; i++) {
        bw_node leader = net_leader(s.net);
        net_command(s.net, leader,
                    (struct bw_command){
                        .kind = BW_COMMAND_TRANSFER, .node = leader == 4 ? 5 : 4, .request = 7});
        net_run(s.net, 20 * BW_MS);
    }
    bw_node last = net_leader(s.net);
    assert_true(net_status(s.net, last).act_from <
                net_local(s.net, last, paused + T + BW_SEC + T / 10));
    end(s);
}

/* A leader that is removed from the group while it acts has not stopped its work yet. */
static void successor_waits_for_a_leader_removed_while_it_acts(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 101);
    net->config.promise_ns = T;
    for (bw_node id = 1; id <= 3; id++)
        net_start(net, id);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    net_run(net, BW_SEC);
    bw_time until = net->node[leader].act_until;
    assert_true(acts(net, leader));
    net_change(net, leader, BW_CHANGE_REMOVE, leader, 7);
    bw_node second = await_another(net, leader);
    while (!acts(net, second) && net->now < until + T) {
        net_run(net, 20 * BW_MS);
        second = await_another(net, leader);
    }
    assert_true(net->node[second].act_from >= until);
    net_free(net);
}

/* ---- random events ---- */

static void heal_others(struct net *net)
{
    net_heal(net);
    for (bw_node id = 1; id <= net->nodes; id++)
        if (net->node[id].paused)
            net_isolate(net, id, true);
}

/* A paused node continues with an expired window, as a process does after SIGCONT. */
static void wake(struct net *net, struct bw_rng *rng)
{
    for (bw_node id = 1; id <= net->nodes; id++)
        if (net->node[id].paused && bw_rng_chance(rng, 0.03))
            net->node[id].paused = false;
    heal_others(net);
}

static void membership(struct net *net, struct bw_rng *rng, bw_node leader)
{
    bw_node node = 1 + (bw_node)bw_rng_below(rng, net->nodes);
    enum bw_change_op op = (enum bw_change_op)(1 + bw_rng_below(rng, BW_CHANGE_REMOVE));
    if (op == BW_CHANGE_ADD_LEARNER && !net->node[node].up)
        net_start_as(net, node, true);
    /* this test does not follow its work */
    if (op == BW_CHANGE_REMOVE && node == leader && acts(net, node))
        return;
    net_change(net, leader, op, node, 7);
}

static void trouble(struct net *net, struct bw_rng *rng)
{
    bw_node leader = net_leader(net), node = 1 + (bw_node)bw_rng_below(rng, net->nodes);
    if (leader == BW_NODE_NONE || net->node[leader].paused)
        return;
    uint64_t which = bw_rng_below(rng, 100);
    if (which < 55) {
        membership(net, rng, leader);
    } else if (which < 65) {
        net_pause(net, leader);
        net_event_all(net, BW_EVENT_HINT, leader);
    } else if (which < 80) {
        /* the host stops the work first */
        if (acts(net, leader))
            net->node[leader].act_until = net->now;
        net_command(net, leader, (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = node});
    } else if (which < 90 && net->node[node].up && !net->node[node].paused) {
        net_crash(net, node);
        if (bw_rng_chance(rng, 0.5))
            net_event_all(net, BW_EVENT_CONFIRMED_DEAD, node);
        net_start(net, node);
    } else if (!net->node[node].paused && net->node[node].up && !net_status(net, node).leading) {
        net_event_all(net, BW_EVENT_CONFIRMED_DEAD, node);
    }
}

static void no_two_leaders_act_under_random_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct net *net = net_new(7, 3, seed);
        struct bw_rng rng;
        bw_rng_init(&rng, seed);
        net->config.promise_ns = (bw_time)(1 + bw_rng_below(&rng, 12)) * BW_SEC;
        for (bw_node id = 1; id <= 7; id++)
            net->node[id].rate = 1 + (bw_rng_unit(&rng) * 2 - 1) * 0.01;
        for (bw_node id = 1; id <= 3; id++)
            net_start(net, id);
        for (int i = 0; i < 250; i++) {
            net_run(net, (bw_time)bw_rng_below(&rng, 120) * BW_MS);
            wake(net, &rng);
            trouble(net, &rng);
        }
        net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_survives_promotion_and_removal_of_voters),
        cmocka_unit_test(a_wait_survives_a_transfer_by_the_waiting_leader),
        cmocka_unit_test(wait_survives_the_departure_of_the_waiting_leader),
        cmocka_unit_test(a_wait_survives_the_confirmed_death_of_the_waiting_leader),
        cmocka_unit_test(waiting_leader_still_waits_when_its_own_work_is_dead),
        cmocka_unit_test(a_wait_survives_restarts_of_the_leader_and_of_the_voters),
        cmocka_unit_test(snapshot_carries_the_waits),
        cmocka_unit_test(removed_leader_is_readded_only_after_its_window_ended),
        cmocka_unit_test(a_removed_leader_that_waits_keeps_its_earlier_window),
        cmocka_unit_test(report_of_an_older_death_does_not_end_a_wait),
        cmocka_unit_test(the_death_of_the_old_leader_ends_the_wait_of_every_later_one),
        cmocka_unit_test(a_wait_does_not_grow_from_leader_to_leader),
        cmocka_unit_test(successor_waits_for_a_leader_removed_while_it_acts),
        cmocka_unit_test(no_two_leaders_act_under_random_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
