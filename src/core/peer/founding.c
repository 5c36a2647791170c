/* Founding a cluster; see founding.h. */
#include "core/peer/founding.h"

#include "core/base/bug.h"

#include <string.h>

void bw_peer_found_init(struct bw_peer_found *found, bw_node self, uint32_t expect,
                        const bw_node *list, uint32_t listed,
                        const struct bw_peer_found_saved *saved)
{
    memset(found, 0, sizeof *found);
    found->self = self;
    found->expect = expect;
    found->listed = listed;
    if (listed)
        memcpy(found->list, list, listed * sizeof list[0]);
    if (saved)
        found->saved = *saved;
}

static uint32_t place(const bw_node *set, uint32_t count, bw_node node)
{
    uint32_t i = 0;
    while (i < count && set[i] != node)
        i++;
    return i;
}

bool bw_peer_found_is_founder(const struct bw_peer_found *found, bw_node node)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    return saved->founded && place(saved->set, saved->count, node) < saved->count;
}

uint32_t bw_peer_found_voters(const struct bw_peer_found *found, bw_node *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    uint32_t count = 0;
    for (uint32_t i = 0; i < saved->count; i++)
        if (saved->set[i] != found->self || !saved->returned || BW_BUG(peer_returns_as_a_voter))
            out[count++] = saved->set[i];
    return count;
}

static bool same_set(const struct bw_peer_found_saved *saved, const bw_node *set, uint32_t count)
{
    return saved->count == count && memcmp(saved->set, set, count * sizeof set[0]) == 0;
}

static void send_to(struct bw_peer_found *found, enum bw_peer_found_op op, bw_node to,
                    struct bw_peer_found_out *out)
{
    bool lists = op == BW_PEER_FOUND_PROPOSE || op == BW_PEER_FOUND_FOUNDED;
    out->message.op = op;
    out->message.proposer = found->saved.proposer;
    out->message.round = found->saved.round;
    out->message.count = lists ? found->saved.count : 0;
    memcpy(out->message.set, found->saved.set, out->message.count * sizeof out->message.set[0]);
    if (to != BW_NODE_NONE)
        out->to[out->to_count++] = to;
}

/* Addresses the whole set except this node; with `missing` only nodes that have not accepted. */
static void send_to_set(struct bw_peer_found *found, enum bw_peer_found_op op, bool missing,
                        struct bw_peer_found_out *out)
{
    send_to(found, op, BW_NODE_NONE, out);
    for (uint32_t i = 0; i < found->saved.count; i++)
        if (found->saved.set[i] != found->self && !(missing && found->accepted[i]))
            out->to[out->to_count++] = found->saved.set[i];
}

static void become_holding(struct bw_peer_found *found, bw_node proposer, uint64_t round,
                           const bw_node *set, uint32_t count, struct bw_peer_found_out *out)
{
    found->saved.proposer = proposer;
    found->saved.round = round;
    found->saved.count = count;
    memcpy(found->saved.set, set, count * sizeof set[0]);
    memset(found->accepted, 0, sizeof found->accepted);
    out->persist = true;
}

static void become_free(struct bw_peer_found *found, struct bw_peer_found_out *out)
{
    found->saved.proposer = BW_NODE_NONE;
    found->saved.round = 0;
    found->saved.count = 0;
    out->persist = true;
}

static void become_founded(struct bw_peer_found *found, const bw_node *set, uint32_t count,
                           struct bw_peer_found_out *out)
{
    if (set != found->saved.set)
        become_holding(found, set[0], 0, set, count, out);
    found->saved.founded = true;
    out->persist = out->founded = true;
}

/* The cluster is founded when all of the set, including this node, have accepted this round. */
static void count_up(struct bw_peer_found *found, struct bw_peer_found_out *out)
{
    uint32_t accepted = 0, need = found->saved.count;
    for (uint32_t i = 0; i < found->saved.count; i++)
        accepted += found->accepted[i];
    if (accepted < need - (BW_BUG(found_by_all_but_one) ? 1 : 0))
        return;
    become_founded(found, found->saved.set, found->saved.count, out);
    send_to_set(found, BW_PEER_FOUND_FOUNDED, false, out);
}

static void propose(struct bw_peer_found *found, const bw_node *set, uint32_t count,
                    struct bw_peer_found_out *out)
{
    become_holding(found, found->self, ++found->saved.own_round, set, count, out);
    found->accepted[place(set, count, found->self)] = true;
    send_to_set(found, BW_PEER_FOUND_PROPOSE, true, out);
    count_up(found, out);
}

/* The set this node would propose; 0: another node proposes, or too few nodes are known. */
static uint32_t wanted(const struct bw_peer_found *found, const bw_node *known, uint32_t count,
                       const bw_node **set)
{
    bool listed = found->listed > 0;
    const bw_node *from = listed ? found->list : known;
    uint32_t size = listed ? found->listed : found->expect;
    *set = from;
    if (size == 0 || size > BW_PEER_FOUNDERS_MAX || (!listed && count < size))
        return 0;
    return from[0] == found->self ? size : 0;
}

static bool all_known(const struct bw_peer_found *found, const bw_node *known, uint32_t count)
{
    for (uint32_t i = 0; i < found->saved.count; i++)
        if (place(known, count, found->saved.set[i]) == count)
            return false;
    return true;
}

/* Repeats our proposal. Withdraws it if a lower id is known. Replaces it if a node of the set is
 * absent and other nodes can take its place. */
static void tick_proposing(struct bw_peer_found *found, const bw_node *known, uint32_t count,
                           struct bw_peer_found_out *out)
{
    const bw_node *set;
    uint32_t size = wanted(found, known, count, &set);
    bool lower = !found->listed && count > 0 && known[0] < found->self;
    if (lower) {
        send_to_set(found, BW_PEER_FOUND_WITHDRAW, false, out);
        become_free(found, out);
        return;
    }
    if (size > 0 && !same_set(&found->saved, set, size) && !all_known(found, known, count)) {
        propose(found, set, size, out);
        return;
    }
    send_to_set(found, BW_PEER_FOUND_PROPOSE, true, out);
    found->accepted[place(found->saved.set, found->saved.count, found->self)] = true;
    count_up(found, out);
}

void bw_peer_found_tick(struct bw_peer_found *found, const bw_node *known, uint32_t count,
                        struct bw_peer_found_out *out)
{
    const bw_node *set;
    memset(out, 0, offsetof(struct bw_peer_found_out, to));
    if (found->saved.founded)
        return;
    if (found->saved.proposer == found->self) {
        tick_proposing(found, known, count, out);
    } else if (found->saved.proposer != BW_NODE_NONE) {
        send_to(found, BW_PEER_FOUND_ACCEPT, found->saved.proposer, out);
    } else {
        uint32_t size = wanted(found, known, count, &set);
        if (size > 0)
            propose(found, set, size, out);
    }
}

static bool matches_expectation(const struct bw_peer_found *found, bw_node from,
                                const struct bw_peer_founding *message)
{
    if (message->count == 0 || message->set[0] != from || message->proposer != from ||
        place(message->set, message->count, found->self) == message->count)
        return false;
    if (found->listed)
        return message->count == found->listed &&
               memcmp(message->set, found->list, message->count * sizeof message->set[0]) == 0;
    return message->count == found->expect;
}

/* This node may accept if it is free, if it holds an earlier round of the same proposer, or if it
 * holds its own round. One durable write then withdraws its own round and accepts the new one. */
static bool may_accept(const struct bw_peer_found *found, const struct bw_peer_founding *message)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    if (saved->proposer == BW_NODE_NONE || saved->proposer == found->self ||
        BW_BUG(found_accepts_twice))
        return true;
    return saved->proposer == message->proposer && message->round > saved->round;
}

static void on_propose(struct bw_peer_found *found, bw_node from,
                       const struct bw_peer_founding *message, struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    if (saved->founded) {
        send_to(found, BW_PEER_FOUND_FOUNDED, from, out);
        return;
    }
    if (!matches_expectation(found, from, message))
        return;
    bool again = saved->proposer == from && saved->round == message->round &&
                 same_set(saved, message->set, message->count);
    if (!again && may_accept(found, message)) {
        become_holding(found, from, message->round, message->set, message->count, out);
        again = true;
    }
    send_to(found, again ? BW_PEER_FOUND_ACCEPT : BW_PEER_FOUND_HELD, from, out);
}

/* A node accepted one of our rounds: the current one, or one that it must be released from. */
static void on_accept(struct bw_peer_found *found, bw_node from,
                      const struct bw_peer_founding *message, struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    bool present = saved->proposer == found->self && saved->round == message->round;
    if (saved->founded && (present || bw_peer_found_is_founder(found, from))) {
        send_to(found, BW_PEER_FOUND_FOUNDED, from, out);
        return;
    }
    if (message->proposer != found->self)
        return;
    if (message->round > saved->own_round) {
        out->forgotten = true;
        return;
    }
    if (!present) {
        send_to(found, BW_PEER_FOUND_WITHDRAW, from, out);
        out->message.proposer = found->self;
        out->message.round = message->round;
        return;
    }
    uint32_t i = place(saved->set, saved->count, from);
    if (i == saved->count)
        return;
    found->accepted[i] = true;
    found->accepted[place(saved->set, saved->count, found->self)] = true;
    count_up(found, out);
}

/* A node reports the set of its founded cluster. Three cases:
 * - This node is in the set and accepted it.
 * - This node is in the set but does not remember: it lost its memory. That includes a proposer
 *   that receives its own set, which it founded in an earlier incarnation.
 * - The cluster exists already without this node, which joins unless a proposer may still count on
 *   its acceptance. */
static void on_founded(struct bw_peer_found *found, const struct bw_peer_founding *message,
                       struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    bool ours = place(message->set, message->count, found->self) < message->count;
    bool bound = saved->proposer != BW_NODE_NONE && saved->proposer != found->self;
    bool accepted = bound && same_set(saved, message->set, message->count);
    if (message->count == 0)
        return;
    if (saved->founded) {
        out->elsewhere = !same_set(saved, message->set, message->count);
    } else if (ours && !accepted && !found->lenient && !found->released) {
        out->forgotten = true;
    } else if (ours || !bound) {
        found->saved.returned = ours && !accepted && !found->lenient;
        become_founded(found, message->set, message->count, out);
    }
}

void bw_peer_found_receive(struct bw_peer_found *found, bw_node from,
                           const struct bw_peer_founding *message, struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    memset(out, 0, offsetof(struct bw_peer_found_out, to));
    switch (message->op) {
    case BW_PEER_FOUND_PROPOSE:
        on_propose(found, from, message, out);
        break;
    case BW_PEER_FOUND_ACCEPT:
        on_accept(found, from, message, out);
        break;
    case BW_PEER_FOUND_HELD:
        out->forgotten = message->proposer == found->self && message->round > saved->own_round;
        break;
    case BW_PEER_FOUND_WITHDRAW:
        if (!saved->founded && from == message->proposer && saved->proposer == from &&
            saved->round <= message->round)
            become_free(found, out);
        break;
    case BW_PEER_FOUND_FOUNDED:
        on_founded(found, message, out);
        break;
    }
}
