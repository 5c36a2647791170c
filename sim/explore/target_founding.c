/* The targets found and found-return: the shipped agreement on the founders of a cluster
 * (src/core/peer).
 *
 * Model: four nodes, three of which found a cluster. Each node hears of any other nodes at any
 * time. A link holds one message; a further message replaces it, and a message may stay undelivered
 * or arrive twice. A node crashes and restarts with its durable state. A record is durable before
 * the message behind it is sent, so a crash between the two equals the loss of the message.
 *
 * In found-return, nodes 1 to 3 have founded the cluster. A founder leaves, the others remove its
 * vote, and it comes back with an empty disk. Messages of its earlier life do not arrive any more.
 *
 * Judged: all nodes that found, found the same set; no node concludes that it lost its memory; Raft
 * starts with all founders as voters, except that a founder that came back without its memory does
 * not count itself. */
#include "core/peer/founding.h"

#include "core/base/assert.h"
#include "sim/explore/targets.h"

#include <stdio.h>
#include <string.h>

#define NODES  4u
#define EXPECT 3u
#define ROUNDS 2u /* proposals per node */

enum verb { TICK, DELIVER, DUPLICATE, CRASH, RETURN, VERBS };

static const struct bw_explore_verb verbs[VERBS] = {
    {"tick", "A B"}, /* node A knows the nodes in the bit set B */
    {"deliver", "A>B"}, {"duplicate", "A>B"}, {"crash", "A"}, /* and restart */
    {"return", "A"}, /* with an empty disk, after its vote was removed */
};

struct letter { /* a message in flight */
    uint64_t round;
    uint8_t used, op, proposer, count;
    uint8_t set[NODES];
};

struct world {
    struct bw_peer_found node[NODES];
    struct letter letter[NODES][NODES];
    uint64_t faults;  /* crashes and duplicates left */
    uint64_t founded; /* the set that was founded, as bits; 0: none */
    uint64_t leaves;  /* founders that may still leave and return; 0 in the target found */
    uint64_t empty;   /* nodes that came back without their memory, as bits */
};

static size_t bytes(const struct bw_explore_options *options)
{
    (void)options;
    return sizeof(struct world);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): other targets write to why */
static const char *begin(void *state, const struct bw_explore_options *options, char *why)
{
    struct world *w = state;
    (void)options;
    (void)why;
    for (bw_node id = 1; id <= NODES; id++)
        bw_peer_found_init(&w->node[id - 1], id, EXPECT, NULL, 0, NULL);
    w->faults = 2;
    return NULL;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): other targets write to why */
static const char *begin_founded(void *state, const struct bw_explore_options *options, char *why)
{
    struct world *w = state;
    struct bw_peer_found_saved saved = {
        .founded = true, .proposer = 1, .round = 1, .count = EXPECT, .set = {1, 2, 3}};
    begin(state, options, why);
    for (bw_node id = 1; id <= EXPECT; id++) {
        saved.own_round = id == saved.proposer;
        bw_peer_found_init(&w->node[id - 1], id, EXPECT, NULL, 0, &saved);
    }
    w->founded = 1u << 1 | 1u << 2 | 1u << 3;
    w->leaves = 1;
    return NULL;
}

static uint32_t spans(const void *state, struct bw_explore_span *out)
{
    uint32_t count = 0;
    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        size_t at = offsetof(struct world, node) + i * sizeof(struct bw_peer_found);
        size_t saved = at + offsetof(struct bw_peer_found, saved) / 8 * 8;
        size_t set = offsetof(struct bw_peer_found_saved, set) + 8 * sizeof(bw_node) + 8;
        out[count++] = (struct bw_explore_span){.at = at, .length = 24};
        out[count++] = (struct bw_explore_span){.at = saved, .length = set / 8 * 8};
        out[count++] = (struct bw_explore_span){
            .at = at + offsetof(struct bw_peer_found, accepted) / 8 * 8, .length = 16};
    }
    out[count++] =
        (struct bw_explore_span){.at = offsetof(struct world, letter),
                                 .length = sizeof(struct world) - offsetof(struct world, letter)};
    return count;
}

static uint64_t bits(const bw_node *set, uint32_t count)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++)
        all |= 1u << set[i];
    return all;
}

static void digest(void *state, struct bw_digest *out)
{
    const struct world *w = state;
    bw_digest_add(out, w->faults << 32 | w->founded);
    bw_digest_add(out, w->leaves << 32 | w->empty);
    for (uint32_t i = 0; i < NODES; i++) {
        const struct bw_peer_found_saved *saved = &w->node[i].saved;
        uint64_t accepted = 0;
        for (uint32_t k = 0; k < saved->count; k++)
            accepted |= (uint64_t)w->node[i].accepted[k] << k;
        bw_digest_add(out, bits(saved->set, saved->count) << 32 | saved->proposer << 8 | accepted);
        bw_digest_add(out, saved->round << 32 | saved->own_round << 2 |
                               (uint64_t)saved->returned << 1 | saved->founded);
    }
    for (uint32_t i = 0; i < NODES * NODES; i++) {
        const struct letter *letter = &w->letter[i / NODES][i % NODES];
        uint64_t set = 0;
        for (uint32_t k = 0; k < letter->count; k++)
            set |= 1u << letter->set[k];
        bw_digest_add(out, letter->used ? letter->round << 40 | set << 24 |
                                              (uint64_t)letter->proposer << 16 |
                                              (uint64_t)letter->op << 8 | 1u
                                        : 0);
    }
}

static uint32_t choices(void *state, struct bw_explore_action *out)
{
    const struct world *w = state;
    uint32_t count = 0;
    for (uint8_t id = 1; id <= NODES; id++) {
        bool spent = w->node[id - 1].saved.own_round >= ROUNDS;
        for (uint8_t known = 0; known < 1u << NODES && !spent; known++)
            if (known >> (id - 1) & 1)
                out[count++] = (struct bw_explore_action){TICK, id, known, 0};
        if (w->faults > 0)
            out[count++] = (struct bw_explore_action){CRASH, id, 0, 0};
        if (w->leaves > 0 && w->node[id - 1].saved.founded)
            out[count++] = (struct bw_explore_action){RETURN, id, 0, 0};
        for (uint8_t to = 1; to <= NODES; to++) {
            if (!w->letter[id - 1][to - 1].used)
                continue;
            out[count++] = (struct bw_explore_action){DELIVER, id, to, 0};
            if (w->faults > 0)
                out[count++] = (struct bw_explore_action){DUPLICATE, id, to, 0};
        }
    }
    return count;
}

static void post(struct world *w, bw_node from, const struct bw_peer_found_out *out)
{
    for (uint32_t i = 0; i < out->to_count; i++) {
        struct letter *letter = &w->letter[from - 1][out->to[i] - 1];
        *letter = (struct letter){.round = out->message.round,
                                  .used = 1,
                                  .op = (uint8_t)out->message.op,
                                  .proposer = (uint8_t)out->message.proposer,
                                  .count = (uint8_t)out->message.count};
        for (uint32_t k = 0; k < out->message.count; k++)
            letter->set[k] = (uint8_t)out->message.set[k];
    }
}

/* Whether Raft starts with the right voters. */
static bool votes_rightly(const struct world *w, bw_node id)
{
    bw_node voters[BW_PEER_FOUNDERS_MAX];
    uint64_t set = bits(voters, bw_peer_found_voters(&w->node[id - 1], voters));
    return set == (w->founded & ~(w->empty & 1u << id));
}

static enum bw_explore_result judge(struct world *w, bw_node id,
                                    const struct bw_peer_found_out *out, char *why)
{
    const struct bw_peer_found_saved *saved = &w->node[id - 1].saved;
    if (out->forgotten) {
        snprintf(why, BW_EXPLORE_WHY, "node %u concludes that it lost its memory", id);
        return BW_EXPLORE_VIOLATION;
    }
    uint64_t set = saved->founded ? bits(saved->set, saved->count) : 0;
    if (set && w->founded && set != w->founded) {
        snprintf(why, BW_EXPLORE_WHY, "node %u founds the set %llx beside %llx", id,
                 (unsigned long long)(set >> 1), (unsigned long long)(w->founded >> 1));
        return BW_EXPLORE_VIOLATION;
    }
    w->founded |= set;
    if (set && !votes_rightly(w, id)) {
        snprintf(why, BW_EXPLORE_WHY, "node %u, %s, starts with the wrong voters", id,
                 w->empty >> id & 1 ? "which lost its memory" : "which kept its memory");
        return BW_EXPLORE_VIOLATION;
    }
    post(w, id, out);
    return BW_EXPLORE_DONE;
}

static enum bw_explore_result tick(struct world *w, struct bw_explore_action action, char *why)
{
    static struct bw_peer_found_out out;
    bw_node known[NODES];
    uint32_t count = 0;
    for (bw_node id = 1; id <= NODES; id++)
        if (action.b >> (id - 1) & 1)
            known[count++] = id;
    bw_peer_found_tick(&w->node[action.a - 1], known, count, &out);
    return judge(w, action.a, &out, why);
}

static enum bw_explore_result deliver(struct world *w, struct bw_explore_action action, char *why)
{
    static struct bw_peer_found_out out;
    static struct bw_peer_founding message;
    struct letter letter = w->letter[action.a - 1][action.b - 1];
    if (!letter.used)
        return BW_EXPLORE_IMPOSSIBLE;
    if (action.kind == DELIVER)
        memset(&w->letter[action.a - 1][action.b - 1], 0, sizeof letter);
    message.op = letter.op;
    message.proposer = letter.proposer;
    message.round = letter.round;
    message.count = letter.count;
    for (uint32_t k = 0; k < letter.count; k++)
        message.set[k] = letter.set[k];
    bw_peer_found_receive(&w->node[action.b - 1], action.a, &message, &out);
    return judge(w, action.b, &out, why);
}

static void come_back(struct world *w, bw_node id)
{
    w->leaves--;
    w->empty |= 1u << id;
    bw_peer_found_init(&w->node[id - 1], id, EXPECT, NULL, 0, NULL);
    w->node[id - 1].released = true;
    for (uint32_t i = 0; i < NODES; i++) {
        memset(&w->letter[i][id - 1], 0, sizeof w->letter[i][id - 1]);
        memset(&w->letter[id - 1][i], 0, sizeof w->letter[id - 1][i]);
    }
}

static enum bw_explore_result apply(void *state, struct bw_explore_action action, char *why)
{
    struct world *w = state;
    bool a = action.a >= 1 && action.a <= NODES;
    bool b = (action.kind != DELIVER && action.kind != DUPLICATE) ||
             (action.b >= 1 && action.b <= NODES);
    bool fault = action.kind == CRASH || action.kind == DUPLICATE;
    if (!a || !b || (fault && w->faults == 0))
        return BW_EXPLORE_IMPOSSIBLE;
    w->faults -= fault;
    if (action.kind == TICK)
        return tick(w, action, why);
    if (action.kind == DELIVER || action.kind == DUPLICATE)
        return deliver(w, action, why);
    struct bw_peer_found *node = &w->node[action.a - 1];
    if (action.kind == RETURN && (w->leaves == 0 || !node->saved.founded))
        return BW_EXPLORE_IMPOSSIBLE;
    if (action.kind == RETURN) {
        come_back(w, action.a);
        return BW_EXPLORE_DONE;
    }
    struct bw_peer_found_saved saved = node->saved;
    bw_peer_found_init(node, action.a, EXPECT, NULL, 0, &saved);
    node->released = w->empty >> action.a & 1;
    return BW_EXPLORE_DONE;
}

static void describe(void *state, char *out, size_t size)
{
    const struct world *w = state;
    int length = 0;
    for (uint32_t i = 0; i < NODES && (size_t)length < size; i++) {
        const struct bw_peer_found_saved *saved = &w->node[i].saved;
        length += snprintf(out + length, size - (size_t)length, "  %u:%s {", i + 1,
                           saved->founded    ? "founded"
                           : saved->proposer ? "accepted"
                                             : "free");
        for (uint32_t k = 0; k < saved->count && (size_t)length < size; k++)
            length += snprintf(out + length, size - (size_t)length, "%u", saved->set[k]);
        if ((size_t)length < size)
            length += snprintf(out + length, size - (size_t)length, "} of %u", saved->proposer);
    }
}

const struct bw_explore_target bw_explore_found = {
    .name = "found",
    .about = "the agreement on the founders of a cluster (src/core/peer/founding.c)",
    .bounds = "4 nodes of which 3 found; 2 proposals per node, 2 crashes or duplicates",
    .depth = 9,
    .verbs = verbs,
    .verbs_count = VERBS,
    .bytes = bytes,
    .begin = begin,
    .spans = spans,
    .choices = choices,
    .apply = apply,
    .digest = digest,
    .describe = describe,
};

const struct bw_explore_target bw_explore_found_return = {
    .name = "found-return",
    .about = "founders that come back with an empty disk (src/core/peer/founding.c)",
    .bounds = "3 founders and a spare; 1 return, 2 proposals per node, 2 crashes or duplicates",
    .depth = 14,
    .verbs = verbs,
    .verbs_count = VERBS,
    .bytes = bytes,
    .begin = begin_founded,
    .spans = spans,
    .choices = choices,
    .apply = apply,
    .digest = digest,
    .describe = describe,
};
