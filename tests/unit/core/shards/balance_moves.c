/* Many elections over few members: evenly, with few moves, one at a time. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/shards/peer_balance.h"

#include <stdlib.h>

#define MEMBERS 8u
#define MOST    64u

/* Members 1 to `count`, each with its own balance. A leadership handed over is taken at once. */
struct world {
    struct bw_balance *at[MEMBERS + 1];
    bool alive[MEMBERS + 1];
    bw_node leader[MOST];
    uint32_t elections, moves;
    bw_time now;
    bool unready, refuses;
};

static bw_node all[MEMBERS];

static void begin(struct world *w, uint32_t elections, uint32_t count)
{
    memset(w, 0, sizeof *w);
    w->elections = elections;
    w->now = BW_SEC;
    for (uint32_t i = 0; i < MEMBERS; i++)
        all[i] = i + 1;
    for (bw_node id = 1; id <= MEMBERS; id++) {
        struct bw_balance_config config = {.self = id,
                                           .elections = elections,
                                           .cap = MEMBERS,
                                           .members = all,
                                           .count = count,
                                           .period_ns = 100 * BW_MS,
                                           .newcomer_ns = 2 * BW_SEC};
        w->at[id] = bw_balance_init(calloc(1, bw_balance_bytes(elections, MEMBERS)), &config);
        w->alive[id] = id <= count;
    }
}

static void end(struct world *w)
{
    for (bw_node id = 1; id <= MEMBERS; id++)
        free(w->at[id]);
}

static void lead(struct world *w, uint32_t election, bw_node node)
{
    w->leader[election] = node;
    for (bw_node id = 1; id <= MEMBERS; id++)
        bw_balance_leads(w->at[id], election, node, w->now);
}

static void set_alive(struct world *w, bw_node node, bool alive)
{
    w->alive[node] = alive;
    for (bw_node id = 1; id <= MEMBERS; id++)
        bw_balance_member(w->at[id], node, alive, w->now);
}

static bool ready(void *context, uint32_t election, bw_node to)
{
    (void)election;
    (void)to;
    return !((struct world *)context)->unready;
}

static void one_turn(struct world *w, bw_node id)
{
    uint32_t election;
    bw_node to;
    if (!w->alive[id] || !bw_balance_next(w->at[id], w->now, ready, w, &election, &to))
        return;
    assert_int_equal(w->leader[election], id);
    assert_true(w->alive[to] && to != id);
    w->moves++;
    lead(w, election, to);
    if (w->refuses)
        lead(w, election, id);
}

static void live(struct world *w, bw_time how_long)
{
    for (bw_time end_at = w->now + how_long; w->now < end_at; w->now += 10 * BW_MS)
        for (bw_node id = 1; id <= MEMBERS; id++)
            one_turn(w, id);
}

/* The successor that all plans agree on takes over the dead member's elections. */
static void die(struct world *w, bw_node gone)
{
    set_alive(w, gone, false);
    for (uint32_t e = 0; e < w->elections; e++) {
        if (w->leader[e] != gone)
            continue;
        bw_node successor = BW_NODE_NONE;
        for (bw_node id = 1; id <= MEMBERS; id++) {
            bw_node computed = bw_balance_successor(w->at[id], e, gone);
            assert_true(successor == BW_NODE_NONE || successor == computed);
            successor = computed;
        }
        lead(w, e, successor);
    }
}

static uint32_t load_of(const struct world *w, bw_node node)
{
    uint32_t load = 0;
    for (uint32_t e = 0; e < w->elections; e++)
        load += w->leader[e] == node;
    return load;
}

static void check_even(const struct world *w)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (bw_node id = 1; id <= MEMBERS; id++) {
        uint32_t load = load_of(w, id);
        if (!w->alive[id])
            assert_int_equal(load, 0);
        else {
            least = load < least ? load : least;
            most = load > most ? load : most;
        }
    }
    assert_in_range(most - least, 0, 1);
}

static void first_leaders(struct world *w)
{
    for (uint32_t e = 0; e < w->elections; e++)
        lead(w, e, bw_balance_successor(w->at[1], e, BW_NODE_NONE));
}

static void first_leaders_are_balanced_and_nothing_moves(void **state)
{
    static const uint32_t elections[] = {1, 5, 16, 20, 64};
    struct world w;
    (void)state;
    for (unsigned i = 0; i < sizeof elections / sizeof elections[0]; i++)
        for (uint32_t count = 1; count <= MEMBERS; count++) {
            begin(&w, elections[i], count);
            first_leaders(&w);
            check_even(&w);
            live(&w, 5 * BW_SEC);
            assert_int_equal(w.moves, 0);
            end(&w);
        }
}

static void leader_of_all_hands_over_one_election_per_period(void **state)
{
    struct world w;
    (void)state;
    begin(&w, 20, 5);
    for (uint32_t e = 0; e < 20; e++)
        lead(&w, e, 3);
    live(&w, 400 * BW_MS);
    assert_int_equal(w.moves, 0); /* not before the members have been stable */
    live(&w, 600 * BW_MS);
    assert_in_range(w.moves, 4, 6);
    live(&w, 5 * BW_SEC);
    assert_int_equal(w.moves, 16);
    check_even(&w);
    end(&w);
}

static void only_elections_of_the_dead_member_move(void **state)
{
    struct world w;
    (void)state;
    for (bw_node gone = 1; gone <= 5; gone++) {
        begin(&w, 20, 5);
        first_leaders(&w);
        die(&w, gone);
        check_even(&w);
        live(&w, 5 * BW_SEC);
        assert_int_equal(w.moves, 0);
        end(&w);
    }
}

static void new_member_gets_its_share_and_nothing_else_moves(void **state)
{
    struct world w;
    (void)state;
    for (uint32_t count = 1; count < MEMBERS; count++) {
        begin(&w, 64, count);
        first_leaders(&w);
        set_alive(&w, count + 1, true);
        live(&w, 2 * BW_SEC - 10 * BW_MS);
        assert_int_equal(w.moves, 0); /* promises from before its restart may still bind it */
        live(&w, 20 * BW_SEC);
        assert_int_equal(w.moves, 64 / (count + 1));
        assert_int_equal(load_of(&w, count + 1), 64 / (count + 1));
        check_even(&w);
        end(&w);
    }
}

static void hand_over_waits_until_the_member_is_ready(void **state)
{
    struct world w;
    (void)state;
    begin(&w, 20, 4);
    first_leaders(&w);
    set_alive(&w, 5, true);
    w.unready = true;
    live(&w, 5 * BW_SEC);
    assert_int_equal(w.moves, 0);
    w.unready = false;
    live(&w, 2 * BW_SEC);
    check_even(&w);
    end(&w);
}

static void member_that_does_not_keep_elections_is_asked_less_often(void **state)
{
    struct world w;
    (void)state;
    begin(&w, 4, 1);
    first_leaders(&w);
    set_alive(&w, 2, true);
    w.refuses = true;
    live(&w, 60 * BW_SEC);
    assert_in_range(w.moves, 3, 8); /* after 2, 4, 8, 16, 32 s */
    end(&w);
}

static void random_joins_and_deaths_end_balanced(void **state)
{
    struct world w;
    struct bw_rng rng;
    (void)state;
    bw_rng_init(&rng, 7);
    begin(&w, 37, 5);
    first_leaders(&w);
    for (int i = 0; i < 200; i++) {
        bw_node node = (bw_node)(1 + bw_rng_below(&rng, MEMBERS));
        if (w.alive[node] && node != 1)
            die(&w, node);
        else
            set_alive(&w, node, true);
        live(&w, (bw_time)bw_rng_below(&rng, 3000) * BW_MS);
    }
    live(&w, 10 * BW_SEC);
    check_even(&w);
    end(&w);
}

static struct bw_balance *balance(uint32_t elections, uint32_t cap, bw_node self,
                                  const bw_node *members, uint32_t count)
{
    struct bw_balance_config config = {.self = self,
                                       .elections = elections,
                                       .cap = cap,
                                       .members = members,
                                       .count = count,
                                       .period_ns = 100 * BW_MS,
                                       .newcomer_ns = 2 * BW_SEC};
    return bw_balance_init(calloc(1, bw_balance_bytes(elections, cap)), &config);
}

static bool always(void *context, uint32_t election, bw_node to)
{
    (void)context, (void)election, (void)to;
    return true;
}

/* Members in any order, one twice, and one more than there is space for. */
static void members_are_sorted_and_bounded(void **state)
{
    (void)state;
    static const bw_node members[] = {5, 1, 3, 3, 2};
    struct bw_balance *b = balance(3, 3, 1, members, 5);
    bw_balance_member(b, 4, true, 0);  /* no space */
    bw_balance_member(b, 9, false, 0); /* unknown */
    unsigned seen = 0;
    for (uint32_t e = 0; e < 3; e++) {
        bw_node leader = bw_balance_successor(b, e, BW_NODE_NONE);
        assert_true(leader == 1 || leader == 3 || leader == 5);
        seen += leader;
        bw_balance_leads(b, e, leader, 0);
    }
    assert_int_equal(seen, 9); /* one for each */
    free(b);
}

static void a_member_without_a_rival_has_no_successor(void **state)
{
    (void)state;
    static const bw_node members[] = {1};
    struct bw_balance *b = balance(2, 3, 1, members, 1);
    assert_int_equal(bw_balance_successor(b, 0, BW_NODE_NONE), 1);
    bw_balance_leads(b, 0, 1, 0);
    assert_int_equal(bw_balance_successor(b, 0, 1), BW_NODE_NONE);
    assert_int_equal(bw_balance_successor(b, 0, 7), 1); /* another one is gone */
    bw_balance_member(b, 1, false, 0);
    assert_int_equal(bw_balance_successor(b, 0, BW_NODE_NONE), BW_NODE_NONE); /* nobody is left */
    uint32_t election;
    bw_node to;
    assert_false(bw_balance_next(b, BW_SEC, always, NULL, &election, &to));
    assert_int_equal(bw_balance_deadline(b), BW_TIME_NEVER);
    free(b);
}

static void successors_of_two_departures_are_planned_apart(void **state)
{
    (void)state;
    static const bw_node members[] = {1, 2, 3};
    struct bw_balance *b = balance(6, 3, 1, members, 3);
    for (uint32_t e = 0; e < 6; e++)
        bw_balance_leads(b, e, bw_balance_successor(b, e, BW_NODE_NONE), 0);
    for (bw_node gone = 1; gone <= 3; gone++)
        for (uint32_t e = 0; e < 6; e++)
            assert_int_not_equal(bw_balance_successor(b, e, gone), gone);
    for (uint32_t e = 0; e < 6; e++) { /* asked again: the same answers */
        bw_node once = bw_balance_successor(b, e, 2);
        assert_int_equal(bw_balance_successor(b, e, 2), once);
        assert_int_not_equal(bw_balance_successor(b, e, 3), 3);
        assert_int_equal(bw_balance_successor(b, e, 2), once);
    }
    free(b);
}

/* Node 1 leads both elections; one of them belongs to node 2, which joined later. */
static void deadline_is_the_next_possible_move(void **state)
{
    (void)state;
    static const bw_node members[] = {1};
    struct bw_balance *b = balance(2, 3, 1, members, 1);
    uint32_t election;
    bw_node to;
    bw_balance_leads(b, 0, 1, 0);
    bw_balance_leads(b, 1, 1, 0);
    assert_int_equal(bw_balance_deadline(b), BW_TIME_NEVER); /* everything is where it belongs */
    bw_balance_member(b, 2, true, BW_SEC);
    assert_int_equal(bw_balance_deadline(b), 3 * BW_SEC); /* a newcomer waits two seconds */
    assert_false(bw_balance_next(b, 3 * BW_SEC - 1, always, NULL, &election, &to));
    bw_time at = bw_balance_deadline(b);
    assert_in_range(at, 3 * BW_SEC, 3 * BW_SEC + 100 * BW_MS);
    assert_true(bw_balance_next(b, at, always, NULL, &election, &to));
    assert_int_equal(to, 2);
    assert_false(bw_balance_next(b, at + BW_SEC, always, NULL, &election, &to)); /* under way */
    assert_int_equal(bw_balance_deadline(b), at + 10 * BW_SEC);
    bw_balance_leads(b, election, 2, at + BW_SEC);
    bw_balance_leads(b, election, 2, at + 2 * BW_SEC); /* known */
    assert_int_equal(bw_balance_deadline(b), BW_TIME_NEVER);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_leaders_are_balanced_and_nothing_moves),
        cmocka_unit_test(leader_of_all_hands_over_one_election_per_period),
        cmocka_unit_test(only_elections_of_the_dead_member_move),
        cmocka_unit_test(new_member_gets_its_share_and_nothing_else_moves),
        cmocka_unit_test(hand_over_waits_until_the_member_is_ready),
        cmocka_unit_test(member_that_does_not_keep_elections_is_asked_less_often),
        cmocka_unit_test(random_joins_and_deaths_end_balanced),
        cmocka_unit_test(members_are_sorted_and_bounded),
        cmocka_unit_test(a_member_without_a_rival_has_no_successor),
        cmocka_unit_test(successors_of_two_departures_are_planned_apart),
        cmocka_unit_test(deadline_is_the_next_possible_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
