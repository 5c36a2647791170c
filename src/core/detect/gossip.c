/* Gossip (van Renesse, Minsky, Hayden 1998, "A Gossip-Style Failure Detection Service").
 *
 * Each member has a counter and a table of all counters. Every period it increments its own counter
 * and sends the table to `fanout` members chosen at random. The receiver keeps the larger of each
 * pair. A member whose counter has not grown for T_fail is failed. After 2 T_fail its counter is no
 * longer sent.
 *
 * T_fail must leave updates enough time to spread, and this time grows with the group. So T_fail is
 * the configured timeout plus twice the number of rounds in which a perfect spread reaches all
 * members.
 *
 * Differences from the paper:
 * - The paper forgets a member after 2 T_fail, a delay it needs so that stale tables do not bring
 *   the member back. Here membership is configured and the last counter is kept. Only a larger
 *   counter brings the member back, and only the member itself can have made that.
 * - Targets are drawn from all members, including failed ones. So the two sides of a healed
 *   partition find each other.
 * - The upper half of a counter counts starts, so that a restarted member is newer than before.
 * - A member that receives a larger counter of its own continues above it: another process had its
 *   id, and the tables keep the counter of that process. Once all count it as dead, nobody sends
 *   that counter; then the smaller ones that the member itself sends are accepted.
 *
 * Model: crash and restart, lossy links.
 *
 * Guarantees: all members notice a crash within T_fail of the last update. A cut link between two
 * members does no harm while others carry the updates.
 *
 * Not guaranteed: false suspicions are improbable, but possible.
 *
 * Cost: `fanout` messages of n entries per member and period. */
#include "core/detect/gossip.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/rng.h"
#include "core/detect/beat_detector.h"

struct gossip {
    struct bw_watch watch;
    struct bw_rng rng;
    uint32_t fanout;
    bw_time fail_ns;
    struct bw_counter *table; /* the table as sent */
};

/* The number of rounds until all know, if each informed member informs `fanout` new ones per
 * round. */
static uint32_t spread_rounds(uint32_t members, uint32_t fanout)
{
    uint32_t rounds = 0;
    for (uint64_t informed = 1; informed < members; informed *= fanout + 1)
        rounds++;
    return rounds;
}

static void set_fail_timeout(struct gossip *gossip)
{
    const struct bw_watch *watch = &gossip->watch;
    bw_time spread = 2 * (bw_time)spread_rounds(watch->peers.count + 1, gossip->fanout);
    gossip->fail_ns = bw_time_add(watch->timeout_ns, spread * watch->period_ns);
}

static void admit(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now)
{
    struct gossip *gossip = (struct gossip *)watch;
    set_fail_timeout(gossip);
    peer->received_ns = now;
    bw_peers_expire_at(&watch->peers, peer, bw_time_add(now, gossip->fail_ns));
}

static uint32_t fill_table(const struct gossip *gossip)
{
    const struct bw_peers *peers = &gossip->watch.peers;
    uint32_t items = 0;
    gossip->table[items++] =
        (struct bw_counter){.node = peers->self, .value = bw_watch_seq(&gossip->watch)};
    for (uint32_t i = 0; i < peers->count; i++) {
        const struct bw_detector_peer *peer = bw_peers_at(peers, i);
        if (peer->seq != 0 && peer->status != BW_MEMBER_DEAD)
            gossip->table[items++] = (struct bw_counter){.node = peer->id, .value = peer->seq};
    }
    return items;
}

static bool sent_to(const struct bw_actions *actions, uint32_t first, bw_node id)
{
    for (uint32_t i = first; i < actions->count; i++)
        if (actions->at[i].msg.to == id)
            return true;
    return false;
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    struct gossip *gossip = (struct gossip *)watch;
    const struct bw_peers *peers = &watch->peers;
    uint32_t first = actions->count;
    uint32_t items = fill_table(gossip);
    uint32_t targets = gossip->fanout < peers->count ? gossip->fanout : peers->count;
    while (actions->count - first < targets) {
        bw_node to = bw_peers_at(peers, (uint32_t)bw_rng_below(&gossip->rng, peers->count))->id;
        if (sent_to(actions, first, to))
            continue;
        struct bw_message *msg = bw_actions_send(actions, BW_MSG_GOSSIP, peers->self, to, 0);
        msg->items = items;
        msg->data = gossip->table;
    }
}

/* Merges one counter of the table of `from`: only a larger value changes anything. */
static void merge(struct gossip *gossip, bw_node from, const struct bw_counter *counter,
                  bw_time now, struct bw_actions *actions)
{
    struct bw_watch *watch = &gossip->watch;
    struct bw_detector_peer *peer = bw_peers_find(&watch->peers, counter->node);
    uint32_t starts = (uint32_t)(counter->value >> 32);
    if (counter->node == watch->peers.self && counter->value > bw_watch_seq(watch) &&
        starts < UINT32_MAX && !BW_BUG(gossip_keeps_a_counter_below_its_own))
        watch->starts = starts + 1;
    if (!peer || (counter->value <= peer->seq &&
                  (from != peer->id || !bw_watch_accept_earlier(peer, counter->value,
                                                                peer->status != BW_MEMBER_ALIVE))))
        return;
    if (!bw_watch_accept_incarnation(peer, starts, now, actions))
        return;
    peer->seq = counter->value;
    peer->received_ns = now;
    bw_peers_expire_at(&gossip->watch.peers, peer, bw_time_add(now, gossip->fail_ns));
    bw_watch_become_trusted(peer, actions);
}

static void message(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    if (msg->kind != BW_MSG_GOSSIP || msg->items > watch->peers.cap + 1) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, peer->id, event->kind, msg->kind);
        return;
    }
    const struct bw_counter *table = msg->data;
    for (uint32_t i = 0; i < msg->items; i++)
        merge((struct gossip *)watch, msg->from, &table[i], event->now, actions);
}

/* The first expiry makes the member failed (suspect), the second one dead. */
static void expired(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now,
                    struct bw_actions *actions)
{
    const struct gossip *gossip = (struct gossip *)watch;
    if (peer->status == BW_MEMBER_ALIVE) {
        bw_watch_become_suspect(peer, BW_MEMBER_SUSPECT, watch->rule->level(watch, peer, now),
                                actions);
        bw_peers_expire_at(&watch->peers, peer, bw_time_add(now, gossip->fail_ns));
        return;
    }
    bw_watch_become_suspect(peer, BW_MEMBER_DEAD, 0, actions);
    if (BW_BUG(gossip_forgets_the_counter))
        peer->seq = 0;
}

static double level(const struct bw_watch *watch, const struct bw_detector_peer *peer, bw_time now)
{
    const struct gossip *gossip = (const struct gossip *)watch;
    return gossip->fail_ns ? (double)(now - peer->received_ns) / (double)gossip->fail_ns : 0;
}

static const struct bw_watch_rule rule = {.admit = admit,
                                          .beat = beat,
                                          .message = message,
                                          .expired = expired,
                                          .level = level,
                                          .quiet_start = true};

static uint32_t table_cap(const struct bw_detector_config *config)
{
    return (config->cap > config->count ? config->cap : config->count) + 1;
}

static size_t bytes(const struct bw_detector_config *config)
{
    struct bw_arena arena = {
        .used = bw_watch_bytes(config, sizeof(struct gossip), sizeof(struct bw_detector_peer))};
    bw_arena_take(&arena, table_cap(config) * sizeof(struct bw_counter));
    return arena.used;
}

static int init(void *memory, const struct bw_detector_config *config)
{
    if (config->fanout == 0)
        return BW_EINVAL;
    if (table_cap(config) > BW_MESSAGE_DATA_MAX / sizeof(struct bw_counter))
        return BW_ELIMIT;
    struct bw_arena arena = {.at = memory, .cap = bytes(config)};
    struct gossip *gossip = bw_arena_take(&arena, sizeof *gossip);
    *gossip = (struct gossip){.fanout = config->fanout};
    bw_rng_init(&gossip->rng, config->seed ^ (uint64_t)config->self << 32);
    int error =
        bw_watch_init(&gossip->watch, &arena, config, &rule, sizeof(struct bw_detector_peer));
    gossip->table = bw_arena_take(&arena, table_cap(config) * sizeof *gossip->table);
    return error;
}

uint64_t bw_gossip_counter(const void *self, bw_node node)
{
    const struct gossip *gossip = self;
    if (node == gossip->watch.peers.self)
        return bw_watch_seq(&gossip->watch);
    const struct bw_detector_peer *peer = bw_peers_find(&gossip->watch.peers, node);
    return peer ? peer->seq : 0;
}

bw_time bw_gossip_fail_ns(const void *self)
{
    return ((const struct gossip *)self)->fail_ns;
}

const struct bw_detector_ops bw_detect_gossip = {
    .name = "gossip",
    .summary = "counters spread by random gossip; tolerates cut links, few messages",
    .bytes = bytes,
    .actions_max = bw_watch_actions_max,
    .init = init,
    .step = bw_watch_step,
    .deadline = bw_watch_deadline,
    .level = bw_watch_level,
    .member = bw_watch_member};
