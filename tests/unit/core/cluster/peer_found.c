/* Founding a cluster: stories, and every order in which three or four nodes can meet. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/cluster/found.h"

#include <stdlib.h>

static void start(struct bw_peer_found *found, bw_node self, uint32_t expect)
{
    bw_peer_found_init(found, self, expect, NULL, 0, NULL);
}

static void nobody_founds_before_enough_are_there(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node known[] = {1, 2};
    start(&one, 1, 3);
    bw_peer_found_tick(&one, known, 2, &out);
    assert_false(out.persist);
    assert_int_equal(out.to_count, 0);
}

static void one_alone_founds_at_once(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node known[] = {7};
    start(&one, 7, 1);
    bw_peer_found_tick(&one, known, 1, &out);
    assert_true(out.founded && out.persist);
    assert_true(bw_peer_found_founder(&one, 7));
    assert_int_equal(out.to_count, 0);
}

static void the_lowest_proposes_and_founds_when_all_have_accepted(void **state)
{
    (void)state;
    struct bw_peer_found one, two, three;
    struct bw_peer_found_out out, answer;
    bw_node known[] = {1, 2, 3, 4};
    start(&one, 1, 3);
    start(&two, 2, 3);
    start(&three, 3, 3);
    bw_peer_found_tick(&one, known, 4, &out);
    assert_true(out.persist && !out.founded);
    assert_int_equal(out.to_count, 2);
    struct bw_peer_founding proposal = out.say;
    bw_peer_found_heard(&two, 1, &proposal, &answer);
    assert_true(answer.persist);
    assert_int_equal(answer.say.op, BW_PEER_FOUND_ACCEPT);
    bw_peer_found_heard(&one, 2, &answer.say, &out);
    assert_false(out.founded);
    bw_peer_found_heard(&three, 1, &proposal, &answer);
    bw_peer_found_heard(&one, 3, &answer.say, &out);
    assert_true(out.founded);
    assert_int_equal(out.say.op, BW_PEER_FOUND_FOUNDED);
    struct bw_peer_founding founded = out.say;
    bw_peer_found_heard(&two, 1, &founded, &answer);
    assert_true(answer.founded && bw_peer_found_founder(&two, 3));
    assert_false(bw_peer_found_founder(&two, 4));
}

static void who_accepted_keeps_to_it_until_the_proposer_withdraws(void **state)
{
    (void)state;
    struct bw_peer_found two, three;
    struct bw_peer_found_out out;
    bw_node known[] = {2, 3}, all[] = {1, 2, 3};
    struct bw_peer_founding lower = {
        .op = BW_PEER_FOUND_PROPOSE, .proposer = 1, .round = 1, .count = 2, .set = {1, 3}};
    start(&two, 2, 2);
    start(&three, 3, 2);
    bw_peer_found_tick(&two, known, 2, &out);
    struct bw_peer_founding proposal = out.say;
    bw_peer_found_heard(&three, 2, &proposal, &out);
    bw_peer_found_heard(&three, 1, &lower, &out);
    assert_int_equal(out.say.op, BW_PEER_FOUND_HELD);
    assert_int_equal(out.say.proposer, 2);
    bw_peer_found_tick(&two, all, 3, &out); /* two hears of one */
    assert_int_equal(out.say.op, BW_PEER_FOUND_WITHDRAW);
    struct bw_peer_founding withdrawn = out.say;
    bw_peer_found_heard(&three, 2, &withdrawn, &out);
    assert_true(out.persist);
    bw_peer_found_heard(&three, 1, &lower, &out);
    assert_int_equal(out.say.op, BW_PEER_FOUND_ACCEPT);
}

static void a_round_that_its_proposer_does_not_know_means_lost_memory(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    struct bw_peer_founding accept = {.op = BW_PEER_FOUND_ACCEPT, .proposer = 1, .round = 4};
    start(&one, 1, 2);
    bw_peer_found_heard(&one, 2, &accept, &out);
    assert_true(out.forgotten);
}

static void a_founder_that_never_heard_of_it_has_forgotten(void **state)
{
    (void)state;
    struct bw_peer_found two;
    struct bw_peer_found_out out;
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&two, 2, 3);
    bw_peer_found_heard(&two, 1, &founded, &out);
    assert_true(out.forgotten && !out.founded);
    two.lenient = true;
    bw_peer_found_heard(&two, 1, &founded, &out);
    assert_true(out.founded);
}

static void a_founder_that_nobody_counts_on_any_more_comes_back_and_remembers_that(void **state)
{
    (void)state;
    struct bw_peer_found two;
    struct bw_peer_found_out out;
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&two, 2, 3);
    two.released = true;
    bw_peer_found_heard(&two, 1, &founded, &out);
    assert_true(out.founded && out.persist && two.saved.returned);
}

/* Whoever founds a cluster writes it down before it tells anybody. */
static void a_proposer_that_is_told_of_its_own_set_has_forgotten(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node known[] = {1, 2, 3};
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&one, 1, 3);
    bw_peer_found_tick(&one, known, 3, &out);
    bw_peer_found_heard(&one, 2, &founded, &out);
    assert_true(out.forgotten && !out.founded);
}

static void a_latecomer_takes_the_cluster_that_is_there(void **state)
{
    (void)state;
    struct bw_peer_found nine;
    struct bw_peer_found_out out;
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&nine, 9, 3);
    bw_peer_found_heard(&nine, 2, &founded, &out);
    assert_true(out.founded && out.persist);
    assert_false(bw_peer_found_founder(&nine, 9));
}

static void a_given_list_is_founded_by_its_lowest_and_nothing_else_is(void **state)
{
    (void)state;
    struct bw_peer_found two, three;
    struct bw_peer_found_out out;
    bw_node list[] = {2, 3}, known[] = {1, 2, 3};
    struct bw_peer_founding other = {
        .op = BW_PEER_FOUND_PROPOSE, .proposer = 1, .round = 1, .count = 2, .set = {1, 3}};
    bw_peer_found_init(&two, 2, 0, list, 2, NULL);
    bw_peer_found_init(&three, 3, 0, list, 2, NULL);
    bw_peer_found_heard(&three, 1, &other, &out);
    assert_int_equal(out.to_count, 0);
    bw_peer_found_tick(&two, known, 3, &out);
    assert_int_equal(out.say.op, BW_PEER_FOUND_PROPOSE);
    assert_int_equal(out.say.count, 2);
    struct bw_peer_founding proposal = out.say;
    bw_peer_found_heard(&three, 2, &proposal, &out);
    assert_int_equal(out.say.op, BW_PEER_FOUND_ACCEPT);
}

/* ---- every order ----
 * A world of n nodes, a pool of everything ever said (so that anything may be lost, late or twice)
 * and what each knows. A move: deliver one of the pool to one addressee, let a node hear of
 * another, let one tick, or let one crash and come back with what it had written down. */

#define NODES 4u
#define POOL  24u

struct packet {
    bw_node from, to;
    struct bw_peer_founding said;
};

struct world {
    struct bw_peer_found node[NODES];
    bool knows[NODES][NODES];
    uint32_t packets;
    struct packet pool[POOL];
};

struct search {
    uint32_t nodes, expect;
    uint64_t *seen;
    size_t seen_cap, visited, limit;
    uint32_t rounds;
    size_t founded;
};

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    return h;
}

static uint64_t packet_hash(const struct packet *p)
{
    uint64_t h = hash_bytes(0xcbf29ce484222325u, &p->from, sizeof p->from);
    h = hash_bytes(h, &p->to, sizeof p->to);
    h = hash_bytes(h, &p->said.op, sizeof p->said.op);
    h = hash_bytes(h, &p->said.proposer, sizeof p->said.proposer);
    h = hash_bytes(h, &p->said.round, sizeof p->said.round);
    return hash_bytes(h, p->said.set, p->said.count * sizeof p->said.set[0]);
}

static uint64_t world_hash(const struct search *s, const struct world *w)
{
    uint64_t h = 1, pool = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const struct bw_peer_found_saved *saved = &w->node[i].saved;
        h = hash_bytes(h, &saved->founded, sizeof saved->founded);
        h = hash_bytes(h, &saved->proposer, sizeof saved->proposer);
        h = hash_bytes(h, &saved->round, sizeof saved->round);
        h = hash_bytes(h, &saved->own_round, sizeof saved->own_round);
        h = hash_bytes(h, saved->set, saved->count * sizeof saved->set[0]);
        h = hash_bytes(h, w->node[i].accepted, s->expect);
        h = hash_bytes(h, w->knows[i], sizeof w->knows[i]);
    }
    for (uint32_t i = 0; i < w->packets; i++)
        pool += packet_hash(&w->pool[i]) * 0x9e3779b97f4a7c15u;
    return (h ^ pool) | 1;
}

static bool fresh(struct search *s, const struct world *w)
{
    uint64_t h = world_hash(s, w);
    size_t at = h % s->seen_cap;
    while (s->seen[at] && s->seen[at] != h)
        at = (at + 1) % s->seen_cap;
    if (s->seen[at] || s->visited == s->limit)
        return false;
    s->seen[at] = h;
    s->visited++;
    return true;
}

static void put(struct world *w, bw_node from, const struct bw_peer_found_out *out)
{
    for (uint32_t i = 0; i < out->to_count; i++) {
        struct packet p = {.from = from, .to = out->to[i], .said = out->say};
        bool there = false;
        for (uint32_t k = 0; k < w->packets && !there; k++)
            there = packet_hash(&w->pool[k]) == packet_hash(&p);
        if (!there && w->packets < POOL)
            w->pool[w->packets++] = p;
    }
}

/* Founded sets that share a node are the same set. */
static void check(struct search *s, const struct world *w)
{
    for (uint32_t i = 0; i < s->nodes; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct bw_peer_found_saved *a = &w->node[i].saved, *b = &w->node[k].saved;
            if (!a->founded || !b->founded)
                continue;
            s->founded++;
            bool shared = false;
            for (uint32_t x = 0; x < a->count; x++)
                for (uint32_t y = 0; y < b->count; y++)
                    shared = shared || a->set[x] == b->set[y];
            assert_true(!shared || (a->count == b->count &&
                                    memcmp(a->set, b->set, a->count * sizeof a->set[0]) == 0));
        }
}

static void deliver(struct world *w, uint32_t i)
{
    struct bw_peer_found_out out;
    struct packet p = w->pool[i];
    w->knows[p.to - 1][p.from - 1] = true;
    bw_peer_found_heard(&w->node[p.to - 1], p.from, &p.said, &out);
    assert_false(out.forgotten); /* nobody here ever forgets */
    put(w, p.to, &out);
}

static bool tick(const struct search *s, struct world *w, uint32_t i)
{
    struct bw_peer_found_out out;
    bw_node known[NODES];
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->nodes; k++)
        if (k == i || w->knows[i][k])
            known[count++] = k + 1;
    bw_peer_found_tick(&w->node[i], known, count, &out);
    put(w, i + 1, &out);
    return w->node[i].saved.own_round <= s->rounds;
}

static void restart(const struct search *s, struct world *w, uint32_t i)
{
    struct bw_peer_found_saved saved = w->node[i].saved;
    bw_peer_found_init(&w->node[i], i + 1, s->expect, NULL, 0, &saved);
}

/* Move number `move` of the world; false: there is no such move here, or it leads nowhere new. */
static bool play(const struct search *s, struct world *w, uint32_t move)
{
    uint32_t n = s->nodes;
    if (move < w->packets) {
        deliver(w, move);
        return true;
    }
    move -= w->packets;
    if (move < n)
        return tick(s, w, move);
    move -= n;
    if (move < n) {
        restart(s, w, move);
        return true;
    }
    move -= n;
    uint32_t who = move / n, whom = move % n;
    if (who == whom || w->knows[who][whom])
        return false;
    w->knows[who][whom] = true;
    return true;
}

static void explore(struct search *s)
{
    struct world *stack = calloc(s->limit + 1, sizeof *stack);
    size_t depth = 1;
    assert_non_null(stack);
    for (uint32_t i = 0; i < s->nodes; i++)
        start(&stack[0].node[i], i + 1, s->expect);
    while (depth > 0) {
        struct world here = stack[--depth];
        uint32_t moves = here.packets + 2 * s->nodes + s->nodes * s->nodes;
        for (uint32_t m = 0; m < moves; m++) {
            struct world next = here;
            if (!play(s, &next, m))
                continue;
            check(s, &next);
            if (fresh(s, &next))
                stack[depth++] = next;
        }
    }
    free(stack);
}

static void search_all(uint32_t nodes, uint32_t expect, uint32_t rounds, size_t limit)
{
    struct search s = {.nodes = nodes, .expect = expect, .rounds = rounds, .limit = limit};
    s.seen_cap = 4 * limit + 1;
    s.seen = calloc(s.seen_cap, sizeof *s.seen);
    assert_non_null(s.seen);
    explore(&s);
    print_message("# %zu states, %zu pairs of founded nodes\n", s.visited, s.founded);
    assert_true(s.visited < limit); /* every state was looked at */
    assert_true(s.founded > 0);
    free(s.seen);
}

static void two_sets_that_share_a_node_never_both_found(void **state)
{
    (void)state;
    search_all(3, 2, 2, 4000);
}

/* Long random walks reach further than the search can. */
static void walk(struct bw_rng *rng, uint32_t nodes, uint32_t expect, size_t *founded)
{
    struct search s = {.nodes = nodes, .expect = expect, .rounds = 100};
    static struct world w;
    memset(&w, 0, sizeof w);
    for (uint32_t i = 0; i < nodes; i++)
        start(&w.node[i], i + 1, expect);
    for (int step = 0; step < 120; step++) {
        uint32_t moves = w.packets + 2 * nodes + nodes * nodes;
        play(&s, &w, (uint32_t)bw_rng_below(rng, moves));
        if (w.packets == POOL) /* lose one of the old */
            w.pool[bw_rng_below(rng, POOL)] = w.pool[--w.packets];
        check(&s, &w);
    }
    *founded += s.founded > 0;
}

static void random_meetings_found_one_cluster_of_those_who_met(void **state)
{
    (void)state;
    struct bw_rng rng;
    size_t founded = 0;
    bw_rng_init(&rng, 7);
    for (int i = 0; i < 3000; i++)
        walk(&rng, 4, i % 2 ? 2 : 3, &founded);
    print_message("# founded in %zu of 3000 walks\n", founded);
    assert_true(founded > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_founds_before_enough_are_there),
        cmocka_unit_test(one_alone_founds_at_once),
        cmocka_unit_test(the_lowest_proposes_and_founds_when_all_have_accepted),
        cmocka_unit_test(who_accepted_keeps_to_it_until_the_proposer_withdraws),
        cmocka_unit_test(a_round_that_its_proposer_does_not_know_means_lost_memory),
        cmocka_unit_test(a_founder_that_never_heard_of_it_has_forgotten),
        cmocka_unit_test(a_founder_that_nobody_counts_on_any_more_comes_back_and_remembers_that),
        cmocka_unit_test(a_proposer_that_is_told_of_its_own_set_has_forgotten),
        cmocka_unit_test(a_latecomer_takes_the_cluster_that_is_there),
        cmocka_unit_test(a_given_list_is_founded_by_its_lowest_and_nothing_else_is),
        cmocka_unit_test(two_sets_that_share_a_node_never_both_found),
        cmocka_unit_test(random_meetings_found_one_cluster_of_those_who_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
