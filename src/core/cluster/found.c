/* Founding a cluster; see found.h. */
#include "core/cluster/found.h"

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

bool bw_peer_found_founder(const struct bw_peer_found *found, bw_node node)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    return saved->founded && place(saved->set, saved->count, node) < saved->count;
}

static bool same_set(const struct bw_peer_found_saved *saved, const bw_node *set, uint32_t count)
{
    return saved->count == count && memcmp(saved->set, set, count * sizeof set[0]) == 0;
}

static void say(struct bw_peer_found *found, enum bw_peer_found_op op, bw_node to,
                struct bw_peer_found_out *out)
{
    bool lists = op == BW_PEER_FOUND_PROPOSE || op == BW_PEER_FOUND_FOUNDED;
    out->say.op = op;
    out->say.proposer = found->saved.proposer;
    out->say.round = found->saved.round;
    out->say.count = lists ? found->saved.count : 0;
    memcpy(out->say.set, found->saved.set, out->say.count * sizeof out->say.set[0]);
    if (to != BW_NODE_NONE)
        out->to[out->to_count++] = to;
}

/* To everybody of the set but ourselves; with `missing` only to who has not accepted. */
static void say_to_set(struct bw_peer_found *found, enum bw_peer_found_op op, bool missing,
                       struct bw_peer_found_out *out)
{
    say(found, op, BW_NODE_NONE, out);
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

/* All of the set, ourselves included, stand by the round that we have not withdrawn. */
static void count_up(struct bw_peer_found *found, struct bw_peer_found_out *out)
{
    uint32_t accepted = 0, need = found->saved.count;
    for (uint32_t i = 0; i < found->saved.count; i++)
        accepted += found->accepted[i];
    if (accepted < need - (BW_BUG(found_by_all_but_one) ? 1 : 0))
        return;
    become_founded(found, found->saved.set, found->saved.count, out);
    say_to_set(found, BW_PEER_FOUND_FOUNDED, false, out);
}

static void propose(struct bw_peer_found *found, const bw_node *set, uint32_t count,
                    struct bw_peer_found_out *out)
{
    become_holding(found, found->self, ++found->saved.own_round, set, count, out);
    found->accepted[place(set, count, found->self)] = true;
    say_to_set(found, BW_PEER_FOUND_PROPOSE, true, out);
    count_up(found, out);
}

/* Which set we would propose; 0: none, it is not up to us or too few are there. */
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

static bool all_there(const struct bw_peer_found *found, const bw_node *known, uint32_t count)
{
    for (uint32_t i = 0; i < found->saved.count; i++)
        if (place(known, count, found->saved.set[i]) == count)
            return false;
    return true;
}

/* Our own proposal stands: said again, unless somebody lower is there or one of the set went away
 * while others could take its place. */
static void tick_proposing(struct bw_peer_found *found, const bw_node *known, uint32_t count,
                           struct bw_peer_found_out *out)
{
    const bw_node *set;
    uint32_t size = wanted(found, known, count, &set);
    bool lower = !found->listed && count > 0 && known[0] < found->self;
    if (lower) {
        say_to_set(found, BW_PEER_FOUND_WITHDRAW, false, out);
        become_free(found, out);
        return;
    }
    if (size > 0 && !same_set(&found->saved, set, size) && !all_there(found, known, count)) {
        propose(found, set, size, out);
        return;
    }
    say_to_set(found, BW_PEER_FOUND_PROPOSE, true, out);
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
        say(found, BW_PEER_FOUND_ACCEPT, found->saved.proposer, out);
    } else {
        uint32_t size = wanted(found, known, count, &set);
        if (size > 0)
            propose(found, set, size, out);
    }
}

static bool fitting(const struct bw_peer_found *found, bw_node from,
                    const struct bw_peer_founding *said)
{
    if (said->count == 0 || said->set[0] != from || said->proposer != from ||
        place(said->set, said->count, found->self) == said->count)
        return false;
    if (found->listed)
        return said->count == found->listed &&
               memcmp(said->set, found->list, said->count * sizeof said->set[0]) == 0;
    return said->count == found->expect;
}

/* Free, or held by an earlier round of the same proposer, or by our own, which we take back when
 * a lower id proposes: what is written down next says both at once. */
static bool may_accept(const struct bw_peer_found *found, const struct bw_peer_founding *said)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    if (saved->proposer == BW_NODE_NONE || saved->proposer == found->self ||
        BW_BUG(found_accepts_twice))
        return true;
    return saved->proposer == said->proposer && said->round > saved->round;
}

static void on_propose(struct bw_peer_found *found, bw_node from,
                       const struct bw_peer_founding *said, struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    if (saved->founded) {
        say(found, BW_PEER_FOUND_FOUNDED, from, out);
        return;
    }
    if (!fitting(found, from, said))
        return;
    bool again = saved->proposer == from && saved->round == said->round &&
                 same_set(saved, said->set, said->count);
    if (!again && may_accept(found, said)) {
        become_holding(found, from, said->round, said->set, said->count, out);
        again = true;
    }
    say(found, again ? BW_PEER_FOUND_ACCEPT : BW_PEER_FOUND_HELD, from, out);
}

/* Somebody stands by a round of ours: the present one, or one that it must be freed from. */
static void on_accept(struct bw_peer_found *found, bw_node from,
                      const struct bw_peer_founding *said, struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    bool present = saved->proposer == found->self && saved->round == said->round;
    if (saved->founded && (present || bw_peer_found_founder(found, from))) {
        say(found, BW_PEER_FOUND_FOUNDED, from, out);
        return;
    }
    if (said->proposer != found->self)
        return;
    if (said->round > saved->own_round) {
        out->forgotten = true;
        return;
    }
    if (!present) {
        say(found, BW_PEER_FOUND_WITHDRAW, from, out);
        out->say.proposer = found->self;
        out->say.round = said->round;
        return;
    }
    uint32_t i = place(saved->set, saved->count, from);
    if (i == saved->count)
        return;
    found->accepted[i] = true;
    found->accepted[place(saved->set, saved->count, found->self)] = true;
    count_up(found, out);
}

/* A cluster that we are one of: we accepted it, or have forgotten that we did (a proposer that is
 * told of its own set founded it in an earlier life). Or one that is there already, which we join
 * unless a proposer may still count on us. */
static void on_founded(struct bw_peer_found *found, const struct bw_peer_founding *said,
                       struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    bool ours = place(said->set, said->count, found->self) < said->count;
    bool bound = saved->proposer != BW_NODE_NONE && saved->proposer != found->self;
    bool accepted = bound && same_set(saved, said->set, said->count);
    if (said->count == 0)
        return;
    if (saved->founded) {
        out->elsewhere = !same_set(saved, said->set, said->count);
    } else if (ours && !accepted && !found->lenient && !found->released) {
        out->forgotten = true;
    } else if (ours || !bound) {
        found->saved.returned = ours && !accepted && !found->lenient;
        become_founded(found, said->set, said->count, out);
    }
}

void bw_peer_found_heard(struct bw_peer_found *found, bw_node from,
                         const struct bw_peer_founding *said, struct bw_peer_found_out *out)
{
    const struct bw_peer_found_saved *saved = &found->saved;
    memset(out, 0, offsetof(struct bw_peer_found_out, to));
    switch (said->op) {
    case BW_PEER_FOUND_PROPOSE:
        on_propose(found, from, said, out);
        break;
    case BW_PEER_FOUND_ACCEPT:
        on_accept(found, from, said, out);
        break;
    case BW_PEER_FOUND_HELD:
        out->forgotten = said->proposer == found->self && said->round > saved->own_round;
        break;
    case BW_PEER_FOUND_WITHDRAW:
        if (!saved->founded && from == said->proposer && saved->proposer == from &&
            saved->round <= said->round)
            become_free(found, out);
        break;
    case BW_PEER_FOUND_FOUNDED:
        on_founded(found, said, out);
        break;
    }
}
