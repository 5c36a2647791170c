/* Actions that wait for the disk (src/serve/replica/durable_barrier.c), in any order and with a
 * disk that stalls for any time. Actions that promise something wait for the disk, others do not,
 * and the number of waiting actions is bounded. */
#include "serve/replica/state.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "unit/unit.h"

#include <stdlib.h>

#define SELF  1u
#define OTHER 2u

static struct {
    struct bw_replica r;
    bw_node led;        /* the leader as last announced to others */
    bw_index committed; /* as announced to others */
    /* number of the last message that was sent; number of the last one that was queued */
    uint64_t sent, sends;
    uint64_t rounds, confirmed, refused;
    bool ends; /* the own leadership is ending */
} w;

static void end_round(uint64_t id)
{
    struct bw_request_group **at = &w.r.router.rounds;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    assert_non_null(*at); /* no request is answered twice */
    struct bw_request_group *gone = *at;
    *at = gone->next;
    free(gone);
}

/* Replaces the function of src/serve/replica/step.c. */
void replica_carry_out(struct bw_replica *r, const struct bw_action *action)
{
    bool promises = true;
    switch (action->kind) {
    case BW_ACTION_SEND:
        assert_true(action->msg.term > w.sent);
        w.sent = action->msg.term;
        break;
    case BW_ACTION_ANNOUNCE:
        w.led = action->announce.leader;
        promises = w.led == SELF;
        r->router.leading = promises;
        break;
    case BW_ACTION_COMMIT:
        assert_true(action->log.first > w.committed);
        w.committed = action->log.first;
        promises = !w.ends;
        break;
    case BW_ACTION_ANSWER:
        end_round(action->answer.request);
        promises = action->answer.error == 0;
        w.confirmed += promises;
        w.refused += !promises;
        assert_true(!promises || w.led == SELF);
        break;
    default:
        return;
    }
    assert_true(!promises || r->barrier == 0);
}

static void world_open(void)
{
    memset(&w, 0, sizeof w);
    w.r.options.self = SELF;
    w.r.held = malloc(HELD_MAX * sizeof *w.r.held);
    assert_non_null(w.r.held);
}

static void do_send(void)
{
    struct bw_action action = {.kind = BW_ACTION_SEND, .msg = {.term = ++w.sends}};
    replica_act_when_durable(&w.r, &action);
}

static void do_announce(bw_node leader)
{
    struct bw_action action = {.kind = BW_ACTION_ANNOUNCE, .announce = {.leader = leader}};
    w.ends = leader != SELF && w.r.router.leading;
    replica_act_when_durable(&w.r, &action);
    w.ends = false;
}

static void do_commit(bw_index index)
{
    struct bw_action action = {.kind = BW_ACTION_COMMIT, .log = {.first = index}};
    replica_act_when_durable(&w.r, &action);
}

static void do_read(int error)
{
    struct bw_request_group *group = calloc(1, sizeof *group);
    assert_non_null(group);
    *group = (struct bw_request_group){.id = ++w.rounds, .next = w.r.router.rounds};
    w.r.router.rounds = group;
    struct bw_action action = {.kind = BW_ACTION_ANSWER,
                               .answer = {.request = group->id, .error = error}};
    replica_act_when_durable(&w.r, &action);
}

static void disk_completes(void)
{
    w.r.barrier = 0;
    replica_held_release(&w.r);
}

static void world_close(void)
{
    disk_completes();
    assert_null(w.r.router.rounds);
    assert_int_equal(w.confirmed + w.refused, w.rounds);
    free(w.r.held);
}

static void refusals_and_other_leaders_do_not_wait_for_the_disk(void **state)
{
    (void)state;
    world_open();
    w.r.barrier = 7;
    do_send();
    do_read(BW_ENOTLEADER);
    do_announce(OTHER);
    assert_int_equal(w.refused, 1);
    assert_int_equal(w.led, OTHER);
    assert_int_equal(w.sent, 0);
    do_announce(SELF);
    assert_int_equal(w.led, OTHER);
    disk_completes();
    assert_int_equal(w.led, SELF);
    assert_int_equal(w.sent, 1);
    world_close();
}

static void reads_of_a_leadership_that_ended_are_refused_at_once(void **state)
{
    (void)state;
    world_open();
    do_announce(SELF);
    w.r.barrier = 7;
    for (unsigned i = 0; i < 5; i++)
        do_read(0);
    assert_int_equal(w.confirmed + w.refused, 0);
    do_announce(BW_NODE_NONE);
    assert_int_equal(w.refused, 5);
    world_close();
    assert_int_equal(w.confirmed, 0);
}

/* A leader commits its own removal and steps down in one step. The client that requested the
 * removal gets the result, although the disk is still writing. */
static void committed_entries_are_applied_before_the_leadership_ends(void **state)
{
    (void)state;
    world_open();
    do_announce(SELF);
    w.r.barrier = 7;
    do_commit(9);
    assert_int_equal(w.committed, 0);
    do_announce(BW_NODE_NONE);
    assert_int_equal(w.committed, 9);
    assert_int_equal(w.led, BW_NODE_NONE);
    world_close();
}

static void commits_of_a_follower_wait_for_the_disk_when_the_leader_changes(void **state)
{
    (void)state;
    world_open();
    w.r.barrier = 7;
    do_commit(9);
    do_announce(OTHER);
    assert_int_equal(w.committed, 0);
    disk_completes();
    assert_int_equal(w.committed, 9);
    world_close();
}

static void held_actions_stay_bounded_when_disk_stalls(void **state)
{
    (void)state;
    world_open();
    do_announce(SELF);
    w.r.barrier = 7;
    for (bw_index i = 1; i <= (bw_index)3 * HELD_MAX; i++) {
        do_send();
        do_commit(i);
        do_read(0);
        assert_true(w.r.held_count <= HELD_MAX);
    }
    assert_int_equal(w.refused, 3 * HELD_MAX - HELD_MAX / 2);
    disk_completes();
    assert_int_equal(w.committed, 3 * HELD_MAX);
    assert_int_equal(w.confirmed, HELD_MAX / 2);
    assert_int_equal(w.sent, HELD_MAX / 2);
    world_close();
}

static void actions_run_in_order_and_only_when_allowed(void **state)
{
    (void)state;
    struct bw_rng rng;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        bw_node leader = BW_NODE_NONE;
        bw_index index = 0;
        bw_rng_init(&rng, seed);
        world_open();
        for (unsigned step = 0; step < 20000; step++) {
            uint64_t what = bw_rng_below(&rng, 400);
            if (what == 0)
                w.r.barrier = 1 + step;
            else if (what == 1 && bw_rng_below(&rng, 4) == 0)
                disk_completes();
            else if (what < 6)
                do_announce(leader = leader == SELF ? OTHER : SELF);
            else if (what < 100)
                do_commit(++index);
            else if (what < 200)
                do_read(leader == SELF ? 0 : BW_ENOTLEADER);
            else
                do_send();
        }
        disk_completes();
        assert_int_equal(w.led, leader);
        assert_int_equal(w.committed, index);
        world_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_and_other_leaders_do_not_wait_for_the_disk),
        cmocka_unit_test(reads_of_a_leadership_that_ended_are_refused_at_once),
        cmocka_unit_test(committed_entries_are_applied_before_the_leadership_ends),
        cmocka_unit_test(commits_of_a_follower_wait_for_the_disk_when_the_leader_changes),
        cmocka_unit_test(held_actions_stay_bounded_when_disk_stalls),
        cmocka_unit_test(actions_run_in_order_and_only_when_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
