/* What waits for the disk (src/serve/replica/held.c), with any order of actions and a disk that
 * stalls for any time: what promises something waits, what promises nothing does not, and all of it
 * is bounded. */
#include "serve/replica/state.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "unit/unit.h"

#include <stdlib.h>

#define SELF  1u
#define OTHER 2u

static struct {
    struct bw_replica r;
    bw_node led;          /* the leader as last announced outside */
    bw_index committed;   /* outside */
    uint64_t sent, sends; /* number of the last message that went out; of the last said */
    uint64_t rounds, confirmed, refused;
    bool ends; /* the end of the own leadership is being said */
} w;

static void end_round(uint64_t id)
{
    struct bw_request_group **at = &w.r.session.rounds;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    assert_non_null(*at); /* answered once */
    struct bw_request_group *gone = *at;
    *at = gone->next;
    free(gone);
}

/* In the place of src/serve/replica/step.c. */
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
        r->session.leading = promises;
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

static void say_send(void)
{
    struct bw_action action = {.kind = BW_ACTION_SEND, .msg = {.term = ++w.sends}};
    replica_say(&w.r, &action);
}

static void say_led(bw_node leader)
{
    struct bw_action action = {.kind = BW_ACTION_ANNOUNCE, .announce = {.leader = leader}};
    w.ends = leader != SELF && w.r.session.leading;
    replica_say(&w.r, &action);
    w.ends = false;
}

static void say_commit(bw_index index)
{
    struct bw_action action = {.kind = BW_ACTION_COMMIT, .log = {.first = index}};
    replica_say(&w.r, &action);
}

static void say_read(int error)
{
    struct bw_request_group *group = calloc(1, sizeof *group);
    assert_non_null(group);
    *group = (struct bw_request_group){.id = ++w.rounds, .next = w.r.session.rounds};
    w.r.session.rounds = group;
    struct bw_action action = {.kind = BW_ACTION_ANSWER,
                               .answer = {.request = group->id, .error = error}};
    replica_say(&w.r, &action);
}

static void let_go(void)
{
    w.r.barrier = 0;
    replica_held_release(&w.r);
}

static void world_close(void)
{
    let_go();
    assert_null(w.r.session.rounds);
    assert_int_equal(w.confirmed + w.refused, w.rounds);
    free(w.r.held);
}

static void refusals_and_other_leaders_do_not_wait_for_the_disk(void **state)
{
    (void)state;
    world_open();
    w.r.barrier = 7;
    say_send();
    say_read(BW_ENOTLEADER);
    say_led(OTHER);
    assert_int_equal(w.refused, 1);
    assert_int_equal(w.led, OTHER);
    assert_int_equal(w.sent, 0);
    say_led(SELF);
    assert_int_equal(w.led, OTHER);
    let_go();
    assert_int_equal(w.led, SELF);
    assert_int_equal(w.sent, 1);
    world_close();
}

static void reads_of_a_leadership_that_ended_are_refused_at_once(void **state)
{
    (void)state;
    world_open();
    say_led(SELF);
    w.r.barrier = 7;
    for (unsigned i = 0; i < 5; i++)
        say_read(0);
    assert_int_equal(w.confirmed + w.refused, 0);
    say_led(BW_NODE_NONE);
    assert_int_equal(w.refused, 5);
    world_close();
    assert_int_equal(w.confirmed, 0);
}

/* A leader commits its own removal and steps down in one step: the client that asked for the
 * removal gets the result, although the disk is still writing. */
static void committed_entries_are_applied_before_the_leadership_ends(void **state)
{
    (void)state;
    world_open();
    say_led(SELF);
    w.r.barrier = 7;
    say_commit(9);
    assert_int_equal(w.committed, 0);
    say_led(BW_NODE_NONE);
    assert_int_equal(w.committed, 9);
    assert_int_equal(w.led, BW_NODE_NONE);
    world_close();
}

static void commits_of_a_follower_wait_for_the_disk_when_the_leader_changes(void **state)
{
    (void)state;
    world_open();
    w.r.barrier = 7;
    say_commit(9);
    say_led(OTHER);
    assert_int_equal(w.committed, 0);
    let_go();
    assert_int_equal(w.committed, 9);
    world_close();
}

static void a_disk_that_stalls_makes_nothing_grow(void **state)
{
    (void)state;
    world_open();
    say_led(SELF);
    w.r.barrier = 7;
    for (bw_index i = 1; i <= (bw_index)3 * HELD_MAX; i++) {
        say_send();
        say_commit(i);
        say_read(0);
        assert_true(w.r.held_count <= HELD_MAX);
    }
    assert_int_equal(w.refused, 3 * HELD_MAX - HELD_MAX / 2);
    let_go();
    assert_int_equal(w.committed, 3 * HELD_MAX);
    assert_int_equal(w.confirmed, HELD_MAX / 2);
    assert_int_equal(w.sent, HELD_MAX / 2);
    world_close();
}

static void any_order_of_actions_is_said_in_order_and_only_when_it_may_be(void **state)
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
                let_go();
            else if (what < 6)
                say_led(leader = leader == SELF ? OTHER : SELF);
            else if (what < 100)
                say_commit(++index);
            else if (what < 200)
                say_read(leader == SELF ? 0 : BW_ENOTLEADER);
            else
                say_send();
        }
        let_go();
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
        cmocka_unit_test(a_disk_that_stalls_makes_nothing_grow),
        cmocka_unit_test(any_order_of_actions_is_said_in_order_and_only_when_it_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
