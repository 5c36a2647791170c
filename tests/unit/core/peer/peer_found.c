/* Founding a cluster: single stories, and every order in which three or four nodes can meet. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/peer/founding.h"

#include <stdlib.h>

static void start(struct bw_peer_found *found, bw_node self, uint32_t expect)
{
    bw_peer_found_init(found, self, expect, NULL, 0, NULL);
}

static void node_proposes_nothing_before_enough_nodes_are_known(void **state)
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

static void single_node_founds_at_once(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node known[] = {7};
    start(&one, 7, 1);
    bw_peer_found_tick(&one, known, 1, &out);
    assert_true(out.founded && out.persist);
    assert_true(bw_peer_found_is_founder(&one, 7));
    assert_int_equal(out.to_count, 0);
}

static void lowest_id_founds_when_all_have_accepted(void **state)
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
    struct bw_peer_founding proposal = out.message;
    bw_peer_found_receive(&two, 1, &proposal, &answer);
    assert_true(answer.persist);
    assert_int_equal(answer.message.op, BW_PEER_FOUND_ACCEPT);
    bw_peer_found_receive(&one, 2, &answer.message, &out);
    assert_false(out.founded);
    bw_peer_found_receive(&three, 1, &proposal, &answer);
    bw_peer_found_receive(&one, 3, &answer.message, &out);
    assert_true(out.founded);
    assert_int_equal(out.message.op, BW_PEER_FOUND_FOUNDED);
    struct bw_peer_founding founded = out.message;
    bw_peer_found_receive(&two, 1, &founded, &answer);
    assert_true(answer.founded && bw_peer_found_is_founder(&two, 3));
    assert_false(bw_peer_found_is_founder(&two, 4));
}

static void acceptor_keeps_its_set_until_the_proposer_withdraws(void **state)
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
    struct bw_peer_founding proposal = out.message;
    bw_peer_found_receive(&three, 2, &proposal, &out);
    bw_peer_found_receive(&three, 1, &lower, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_HELD);
    assert_int_equal(out.message.proposer, 2);
    bw_peer_found_tick(&two, all, 3, &out); /* node 2 learns of node 1 */
    assert_int_equal(out.message.op, BW_PEER_FOUND_WITHDRAW);
    struct bw_peer_founding withdrawn = out.message;
    bw_peer_found_receive(&three, 2, &withdrawn, &out);
    assert_true(out.persist);
    bw_peer_found_receive(&three, 1, &lower, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_ACCEPT);
}

static void unknown_own_round_means_lost_memory(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    struct bw_peer_founding accept = {.op = BW_PEER_FOUND_ACCEPT, .proposer = 1, .round = 4};
    start(&one, 1, 2);
    bw_peer_found_receive(&one, 2, &accept, &out);
    assert_true(out.forgotten);
}

static void founder_without_acceptance_has_lost_its_memory(void **state)
{
    (void)state;
    struct bw_peer_found two;
    struct bw_peer_found_out out;
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&two, 2, 3);
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_true(out.forgotten && !out.founded);
    two.lenient = true;
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_true(out.founded);
}

static void released_founder_returns_and_remembers_it(void **state)
{
    (void)state;
    struct bw_peer_found two;
    struct bw_peer_found_out out;
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&two, 2, 3);
    two.released = true;
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_true(out.founded && out.persist && two.saved.returned);
    bw_node voters[BW_PEER_FOUNDERS_MAX];
    assert_int_equal(bw_peer_found_voters(&two, voters), 2);
    assert_int_equal(voters[0], 1);
    assert_int_equal(voters[1], 3);
    two.saved.returned = false;
    assert_int_equal(bw_peer_found_voters(&two, voters), 3);
}

/* A proposer stores the founded cluster before it sends the result. */
static void proposer_that_receives_its_own_founded_set_has_lost_its_memory(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node known[] = {1, 2, 3};
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&one, 1, 3);
    bw_peer_found_tick(&one, known, 3, &out);
    bw_peer_found_receive(&one, 2, &founded, &out);
    assert_true(out.forgotten && !out.founded);
}

static void latecomer_joins_the_existing_cluster(void **state)
{
    (void)state;
    struct bw_peer_found nine;
    struct bw_peer_found_out out;
    struct bw_peer_founding founded = {
        .op = BW_PEER_FOUND_FOUNDED, .proposer = 1, .round = 1, .count = 3, .set = {1, 2, 3}};
    start(&nine, 9, 3);
    bw_peer_found_receive(&nine, 2, &founded, &out);
    assert_true(out.founded && out.persist);
    assert_false(bw_peer_found_is_founder(&nine, 9));
}

static void only_the_given_list_is_founded_by_its_lowest_id(void **state)
{
    (void)state;
    struct bw_peer_found two, three;
    struct bw_peer_found_out out;
    bw_node list[] = {2, 3}, known[] = {1, 2, 3};
    struct bw_peer_founding other = {
        .op = BW_PEER_FOUND_PROPOSE, .proposer = 1, .round = 1, .count = 2, .set = {1, 3}};
    bw_peer_found_init(&two, 2, 0, list, 2, NULL);
    bw_peer_found_init(&three, 3, 0, list, 2, NULL);
    bw_peer_found_receive(&three, 1, &other, &out);
    assert_int_equal(out.to_count, 0);
    bw_peer_found_tick(&two, known, 3, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_PROPOSE);
    assert_int_equal(out.message.count, 2);
    struct bw_peer_founding proposal = out.message;
    bw_peer_found_receive(&three, 2, &proposal, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_ACCEPT);
}

/* ---- every order ---- The world has n nodes, a pool of all messages ever sent (so that any
 * message may be lost, late or duplicated), and the nodes that each node knows. One move delivers a
 * message of the pool, lets a node learn of another, runs a tick, or restarts a node with its
 * durable state. */

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
        struct packet p = {.from = from, .to = out->to[i], .said = out->message};
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
    bw_peer_found_receive(&w->node[p.to - 1], p.from, &p.said, &out);
    assert_false(out.forgotten); /* no node loses its memory here */
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

/* Plays move number `move`. Returns false if the move does not exist here or changes nothing. */
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
    uint32_t learner = move / n, other = move % n;
    if (learner == other || w->knows[learner][other])
        return false;
    w->knows[learner][other] = true;
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
    assert_true(s.visited < limit); /* the search visited every state */
    assert_true(s.founded > 0);
    free(s.seen);
}

static void at_most_one_of_two_overlapping_sets_is_founded(void **state)
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
        if (w.packets == POOL) /* lose an old message */
            w.pool[bw_rng_below(rng, POOL)] = w.pool[--w.packets];
        check(&s, &w);
    }
    *founded += s.founded > 0;
}

static void random_walks_never_found_overlapping_clusters(void **state)
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

static struct bw_peer_founding say(enum bw_peer_found_op op, bw_node proposer, uint64_t round,
                                   bw_node first, bw_node second)
{
    struct bw_peer_founding out = {.op = op, .proposer = proposer, .round = round};
    if (first) {
        out.count = 2;
        out.set[0] = first;
        out.set[1] = second;
    }
    return out;
}

/* What node 2, which expects two founders, answers to this proposal; 0: nothing. */
static enum bw_peer_found_op answer_to(struct bw_peer_found *two, bw_node from,
                                       struct bw_peer_founding message)
{
    struct bw_peer_found_out out;
    bw_peer_found_receive(two, from, &message, &out);
    return out.to_count ? out.message.op : 0;
}

static void proposals_that_do_not_match_the_expectation_are_ignored(void **state)
{
    (void)state;
    struct bw_peer_found two;
    start(&two, 2, 2);
    struct bw_peer_founding good = say(BW_PEER_FOUND_PROPOSE, 1, 1, 1, 2), bad = good;
    bad.count = 0;
    assert_int_equal(answer_to(&two, 1, bad), 0);
    assert_int_equal(answer_to(&two, 3, good), 0); /* not from the lowest id */
    assert_int_equal(answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 3, 1, 1, 2)), 0);
    assert_int_equal(answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 1, 1, 1, 3)), 0);
    bad = good;
    bad.count = 3;
    bad.set[2] = 3;
    assert_int_equal(answer_to(&two, 1, bad), 0);
    assert_int_equal(answer_to(&two, 1, good), BW_PEER_FOUND_ACCEPT);
}

static void listed_founders_accept_only_their_list(void **state)
{
    (void)state;
    struct bw_peer_found two;
    static const bw_node list[] = {1, 2, 5};
    bw_peer_found_init(&two, 2, 0, list, 3, NULL);
    struct bw_peer_founding offer = say(BW_PEER_FOUND_PROPOSE, 1, 1, 1, 2);
    assert_int_equal(answer_to(&two, 1, offer), 0); /* too few */
    offer.count = 3;
    offer.set[2] = 4;
    assert_int_equal(answer_to(&two, 1, offer), 0);
    offer.set[2] = 5;
    assert_int_equal(answer_to(&two, 1, offer), BW_PEER_FOUND_ACCEPT);
}

static void newer_round_of_the_same_proposer_replaces_the_older(void **state)
{
    (void)state;
    struct bw_peer_found two;
    start(&two, 2, 2);
    assert_int_equal(answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 1, 4, 1, 2)),
                     BW_PEER_FOUND_ACCEPT);
    assert_int_equal(answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 1, 3, 1, 2)),
                     BW_PEER_FOUND_HELD); /* an old one */
    assert_int_equal(answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 1, 5, 1, 2)),
                     BW_PEER_FOUND_ACCEPT);
    assert_int_equal(two.saved.round, 5);
    two.saved.set[1] = 3; /* the same round with another set: no correct proposer sends that */
    assert_int_equal(answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 1, 5, 1, 2)),
                     BW_PEER_FOUND_HELD);
}

static void only_the_proposer_withdraws_and_only_what_is_held(void **state)
{
    (void)state;
    struct bw_peer_found two;
    start(&two, 2, 2);
    answer_to(&two, 1, say(BW_PEER_FOUND_PROPOSE, 1, 4, 1, 2));
    answer_to(&two, 3, say(BW_PEER_FOUND_WITHDRAW, 1, 4, 0, 0)); /* by another node */
    answer_to(&two, 3, say(BW_PEER_FOUND_WITHDRAW, 3, 4, 0, 0)); /* of another node */
    answer_to(&two, 1, say(BW_PEER_FOUND_WITHDRAW, 1, 3, 0, 0)); /* of an older round */
    assert_int_equal(two.saved.proposer, 1);
    answer_to(&two, 1, say(BW_PEER_FOUND_WITHDRAW, 1, 4, 0, 0));
    assert_int_equal(two.saved.proposer, BW_NODE_NONE);
}

static void acceptances_of_others_and_by_strangers_do_not_count(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node known[] = {1, 2};
    start(&one, 1, 2);
    bw_peer_found_tick(&one, known, 2, &out);
    struct bw_peer_founding accept = say(BW_PEER_FOUND_ACCEPT, 2, 1, 0, 0);
    bw_peer_found_receive(&one, 2, &accept, &out); /* a round of node 2 */
    assert_false(out.founded);
    accept.proposer = 1;
    bw_peer_found_receive(&one, 9, &accept, &out); /* not in the set */
    assert_false(out.founded);
    assert_int_equal(out.to_count, 0);
    bw_peer_found_receive(&one, 2, &accept, &out);
    assert_true(out.founded);
}

/* Node 3 has accepted a round that is no longer the current one. */
static void acceptance_of_a_replaced_round_is_answered_with_withdraw(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node first[] = {1, 3}, second[] = {1, 2};
    start(&one, 1, 2);
    bw_peer_found_tick(&one, first, 2, &out);
    bw_peer_found_tick(&one, second, 2, &out); /* node 3 is gone, node 2 takes its place */
    assert_int_equal(one.saved.round, 2);
    assert_int_equal(one.saved.set[1], 2);
    struct bw_peer_founding accept = say(BW_PEER_FOUND_ACCEPT, 1, 1, 0, 0);
    bw_peer_found_receive(&one, 3, &accept, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_WITHDRAW);
    assert_int_equal(out.message.round, 1);
    accept.round = 2;
    bw_peer_found_receive(&one, 2, &accept, &out);
    assert_true(out.founded);
    accept.round = 1; /* of an older round, after the founding */
    bw_peer_found_receive(&one, 2, &accept, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_FOUNDED);
}

static void refusal_that_names_an_unknown_own_round_means_lost_memory(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    start(&one, 1, 2);
    struct bw_peer_founding held = say(BW_PEER_FOUND_HELD, 2, 9, 0, 0);
    bw_peer_found_receive(&one, 3, &held, &out);
    assert_false(out.forgotten); /* a round of another node */
    held.proposer = 1;
    bw_peer_found_receive(&one, 3, &held, &out);
    assert_true(out.forgotten);
    one.saved.own_round = 9;
    bw_peer_found_receive(&one, 3, &held, &out);
    assert_false(out.forgotten);
}

static void sets_of_impossible_size_are_not_proposed(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    static bw_node known[BW_PEER_FOUNDERS_MAX + 1];
    for (uint32_t i = 0; i <= BW_PEER_FOUNDERS_MAX; i++)
        known[i] = i + 1;
    start(&one, 1, 0);
    bw_peer_found_tick(&one, known, 3, &out);
    assert_int_equal(out.to_count, 0);
    start(&one, 1, BW_PEER_FOUNDERS_MAX + 1);
    bw_peer_found_tick(&one, known, BW_PEER_FOUNDERS_MAX + 1, &out);
    assert_int_equal(out.to_count, 0);
    assert_false(bw_peer_found_is_founder(&one, 1));
    start(&one, 1, BW_PEER_FOUNDERS_MAX);
    bw_peer_found_tick(&one, known, BW_PEER_FOUNDERS_MAX + 1, &out);
    assert_int_equal(out.to_count, BW_PEER_FOUNDERS_MAX - 1);
}

/* A proposal is kept while all its nodes are known, or while no better one is possible. */
static void proposal_is_replaced_only_if_a_node_is_gone_and_another_takes_its_place(void **state)
{
    (void)state;
    struct bw_peer_found one;
    struct bw_peer_found_out out;
    bw_node both[] = {1, 3}, alone[] = {1}, more[] = {1, 2, 3};
    start(&one, 1, 2);
    bw_peer_found_tick(&one, both, 2, &out);
    bw_peer_found_tick(&one, more, 3, &out); /* {1, 2} would be lower, but node 3 is there */
    assert_int_equal(one.saved.round, 1);
    bw_peer_found_tick(&one, alone, 1, &out);
    assert_int_equal(one.saved.round, 1);
    bw_peer_found_tick(&one, NULL, 0, &out);
    assert_int_equal(one.saved.round, 1);
    assert_int_equal(out.message.op, BW_PEER_FOUND_PROPOSE);
}

static void listed_proposer_does_not_withdraw_for_a_lower_id(void **state)
{
    (void)state;
    struct bw_peer_found two;
    struct bw_peer_found_out out;
    static const bw_node list[] = {2, 5};
    bw_node known[] = {1, 2, 5};
    bw_peer_found_init(&two, 2, 0, list, 2, NULL);
    bw_peer_found_tick(&two, known, 3, &out);
    bw_peer_found_tick(&two, known, 3, &out);
    assert_int_equal(out.message.op, BW_PEER_FOUND_PROPOSE);
    assert_int_equal(two.saved.proposer, 2);
}

static void report_of_an_empty_or_other_cluster_is_told_apart(void **state)
{
    (void)state;
    struct bw_peer_found two;
    struct bw_peer_found_out out;
    start(&two, 2, 2);
    struct bw_peer_founding founded = {.op = BW_PEER_FOUND_FOUNDED, .proposer = 1};
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_false(out.founded || out.forgotten);
    founded = say(BW_PEER_FOUND_FOUNDED, 1, 1, 1, 3);
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_true(out.founded);
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_false(out.elsewhere);
    founded.count = 1;
    bw_peer_found_receive(&two, 1, &founded, &out);
    assert_true(out.elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_proposes_nothing_before_enough_nodes_are_known),
        cmocka_unit_test(single_node_founds_at_once),
        cmocka_unit_test(lowest_id_founds_when_all_have_accepted),
        cmocka_unit_test(acceptor_keeps_its_set_until_the_proposer_withdraws),
        cmocka_unit_test(unknown_own_round_means_lost_memory),
        cmocka_unit_test(founder_without_acceptance_has_lost_its_memory),
        cmocka_unit_test(released_founder_returns_and_remembers_it),
        cmocka_unit_test(proposer_that_receives_its_own_founded_set_has_lost_its_memory),
        cmocka_unit_test(latecomer_joins_the_existing_cluster),
        cmocka_unit_test(only_the_given_list_is_founded_by_its_lowest_id),
        cmocka_unit_test(at_most_one_of_two_overlapping_sets_is_founded),
        cmocka_unit_test(random_walks_never_found_overlapping_clusters),
        cmocka_unit_test(proposals_that_do_not_match_the_expectation_are_ignored),
        cmocka_unit_test(listed_founders_accept_only_their_list),
        cmocka_unit_test(newer_round_of_the_same_proposer_replaces_the_older),
        cmocka_unit_test(only_the_proposer_withdraws_and_only_what_is_held),
        cmocka_unit_test(acceptances_of_others_and_by_strangers_do_not_count),
        cmocka_unit_test(acceptance_of_a_replaced_round_is_answered_with_withdraw),
        cmocka_unit_test(refusal_that_names_an_unknown_own_round_means_lost_memory),
        cmocka_unit_test(sets_of_impossible_size_are_not_proposed),
        cmocka_unit_test(proposal_is_replaced_only_if_a_node_is_gone_and_another_takes_its_place),
        cmocka_unit_test(listed_proposer_does_not_withdraw_for_a_lower_id),
        cmocka_unit_test(report_of_an_empty_or_other_cluster_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
