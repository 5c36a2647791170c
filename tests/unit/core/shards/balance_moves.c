/* Many elections over few members: evenly, with as few moves as can be, one at a time. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/shards/balance.h"

#include <stdlib.h>

#define MEMBERS 8u
#define MOST    64u

/* Members 1 to `count` with one balance each; what one gives away the other has at once. */
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

/* Who leads the dead one's elections is who every plan has for them. */
static void die(struct world *w, bw_node gone)
{
    set_alive(w, gone, false);
    for (uint32_t e = 0; e < w->elections; e++) {
        if (w->leader[e] != gone)
            continue;
        bw_node heir = BW_NODE_NONE;
        for (bw_node id = 1; id <= MEMBERS; id++) {
            bw_node said = bw_balance_heir(w->at[id], e, gone);
            assert_true(heir == BW_NODE_NONE || heir == said);
            heir = said;
        }
        lead(w, e, heir);
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
        lead(w, e, bw_balance_heir(w->at[1], e, BW_NODE_NONE));
}

static void the_first_leaders_are_even_and_nothing_moves(void **state)
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

static void one_leader_of_all_gives_them_away_one_per_period(void **state)
{
    struct world w;
    (void)state;
    begin(&w, 20, 5);
    for (uint32_t e = 0; e < 20; e++)
        lead(&w, e, 3);
    live(&w, 400 * BW_MS);
    assert_int_equal(w.moves, 0); /* not before it has settled */
    live(&w, 600 * BW_MS);
    assert_in_range(w.moves, 4, 6);
    live(&w, 5 * BW_SEC);
    assert_int_equal(w.moves, 16);
    check_even(&w);
    end(&w);
}

static void only_what_the_dead_one_led_moves(void **state)
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

static void who_comes_gets_its_share_and_no_more_moves(void **state)
{
    struct world w;
    (void)state;
    for (uint32_t count = 1; count < MEMBERS; count++) {
        begin(&w, 64, count);
        first_leaders(&w);
        set_alive(&w, count + 1, true);
        live(&w, 2 * BW_SEC - 10 * BW_MS);
        assert_int_equal(w.moves, 0); /* what it promised before may still bind it */
        live(&w, 20 * BW_SEC);
        assert_int_equal(w.moves, 64 / (count + 1));
        assert_int_equal(load_of(&w, count + 1), 64 / (count + 1));
        check_even(&w);
        end(&w);
    }
}

static void who_is_not_ready_is_waited_for(void **state)
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

static void who_does_not_keep_what_it_is_given_is_asked_more_and_more_slowly(void **state)
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

static void who_comes_and_goes_at_random_leaves_it_even(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_leaders_are_even_and_nothing_moves),
        cmocka_unit_test(one_leader_of_all_gives_them_away_one_per_period),
        cmocka_unit_test(only_what_the_dead_one_led_moves),
        cmocka_unit_test(who_comes_gets_its_share_and_no_more_moves),
        cmocka_unit_test(who_is_not_ready_is_waited_for),
        cmocka_unit_test(who_does_not_keep_what_it_is_given_is_asked_more_and_more_slowly),
        cmocka_unit_test(who_comes_and_goes_at_random_leaves_it_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
