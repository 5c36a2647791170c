/* Timeout-free heartbeat (Aguilera, Chen, Toueg 1997, "Heartbeat: A Timeout-Free Failure Detector
 * for Quiescent Reliable Communication").
 *
 * Each period a member sends (HEARTBEAT, path) with itself as the path to its neighbours. Who
 * receives one adds one to the counter of everybody in the path, appends itself and passes it on to
 * those neighbours that are not in the path yet. Counters of live members rise for ever, those of
 * crashed ones stop: the output is the vector, and no clock decides.
 *
 * Electors want a verdict, so there is a rule on top: a member is suspected when its counter stands
 * still while the others have, on average, begun `stand_still` further beats; the own ones count as
 * those of one of them. So the pace is set by messages, and a slow network slows the verdict down.
 * A member that is cut off from all but itself still gets there, only later.
 *
 * Every simple path is walked: on a complete graph of n members one beat costs the sum over k =
 * 1..n-1 of (n-1)!/(n-1-k)! messages (n = 5: 64, n = 6: 325). Two options bound that: `dedupe`
 * passes each beat on once per member, `neighbours` makes the graph a ring in which each speaks
 * with the nearest on both sides. The ring reaches beyond suspected members, so that crashed
 * stretches do not cut it.
 *
 * Model: crash and restart, fair-lossy links, partitions. A cut link between two members does not
 * matter while a path leads round it. */
#include "core/detect/heartbeat.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/detect/watch.h"

#include <string.h>

struct row {
    struct bw_peer peer; /* seq: newest beat of its own that came here */
    uint64_t counter;    /* the paper's vector */
    uint64_t mark;       /* beats of all when the counter last rose */
    uint64_t seen;       /* which of the 64 beats up to seq came already */
    uint64_t walk;       /* last walk over the neighbours that met this row */
};

struct heartbeat {
    struct bw_watch watch;
    uint64_t beats; /* of all members, each counted once, own included */
    uint64_t walk;
    uint32_t alive;     /* members not suspected, without self */
    uint32_t each_side; /* neighbours on either side; 0: everybody */
    uint32_t stand_still;
    bool dedupe;
    bw_node *path; /* what is sent */
};

static struct row *row_of(const struct heartbeat *heartbeat, bw_node id)
{
    return (struct row *)bw_peers_find(&heartbeat->watch.peers, id);
}

static void admit(struct bw_watch *watch, struct bw_peer *peer, bw_time now)
{
    peer->heard_ns = now;
    ((struct row *)peer)->mark = ((struct heartbeat *)watch)->beats;
}

static void send_path(struct heartbeat *heartbeat, struct row *row, uint64_t seq, uint32_t items,
                      struct bw_actions *actions)
{
    if (row->walk == heartbeat->walk)
        return; /* in the path, or sent to already */
    row->walk = heartbeat->walk;
    bw_watch_send(&heartbeat->watch, BW_MSG_HEARTBEAT_PATH, row->peer.id, seq, actions);
    struct bw_message *msg = &actions->at[actions->count - 1].msg;
    msg->items = items;
    msg->data = heartbeat->path;
}

/* From self round the ring in one direction, until enough members that are not suspected were met.
 */
static void walk_side(struct heartbeat *heartbeat, uint32_t at, uint32_t step, uint64_t seq,
                      uint32_t items, struct bw_actions *actions)
{
    uint32_t count = heartbeat->watch.peers.count, met = 0;
    for (uint32_t i = 0; i < count && met < heartbeat->each_side; i++, at += step) {
        struct bw_peer *peer = bw_peers_at(&heartbeat->watch.peers, at % count);
        met += peer->status == BW_MEMBER_ALIVE;
        send_path(heartbeat, (struct row *)peer, seq, items, actions);
    }
}

/* The path in heartbeat->path goes to the neighbours not met on this walk. */
static void pass_on(struct heartbeat *heartbeat, uint64_t seq, uint32_t items,
                    struct bw_actions *actions)
{
    const struct bw_peers *peers = &heartbeat->watch.peers;
    uint32_t count = peers->count, right = 0;
    if (heartbeat->each_side == 0) {
        for (uint32_t i = 0; i < count; i++)
            send_path(heartbeat, (struct row *)bw_peers_at(peers, i), seq, items, actions);
        return;
    }
    while (right < count && bw_peers_at(peers, right)->id < peers->self)
        right++;
    walk_side(heartbeat, right, 1, seq, items, actions);
    if (count > 0)
        walk_side(heartbeat, right + count - 1, count - 1, seq, items, actions);
}

static double stillness(const struct heartbeat *heartbeat, const struct row *row)
{
    uint32_t others = heartbeat->alive > 1 ? heartbeat->alive : 1;
    return (double)(heartbeat->beats - row->mark) / others;
}

/* All are judged by the same count of others, before any of them is taken out of it. */
static void judge(struct heartbeat *heartbeat, struct bw_actions *actions)
{
    struct bw_peers *peers = &heartbeat->watch.peers;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < peers->count; i++)
        alive += bw_peers_at(peers, i)->status == BW_MEMBER_ALIVE;
    heartbeat->alive = alive;
    for (uint32_t i = 0; i < peers->count; i++) {
        struct bw_peer *peer = bw_peers_at(peers, i);
        double still = stillness(heartbeat, (struct row *)peer);
        if (peer->status == BW_MEMBER_ALIVE && still >= heartbeat->stand_still)
            bw_watch_become_suspect(peer, BW_MEMBER_SUSPECT, still, actions);
    }
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    struct heartbeat *heartbeat = (struct heartbeat *)watch;
    judge(heartbeat, actions);
    heartbeat->beats++;
    heartbeat->walk++;
    heartbeat->path[0] = watch->peers.self;
    pass_on(heartbeat, bw_watch_seq(watch), 1, actions);
}

enum novelty { NEW, REPEATED, PAST_LIFE };

/* Beats may overtake each other, so the last 64 are told apart; older ones count as repeated. */
static enum novelty take_number(struct row *row, uint64_t seq)
{
    uint64_t newest = row->peer.seq;
    if (seq >> 32 < newest >> 32)
        return PAST_LIFE;
    if (seq > newest) {
        uint64_t ahead = seq - newest;
        row->seen = ahead < 64 ? row->seen << ahead | 1 : 1;
        row->peer.seq = seq;
        return NEW;
    }
    uint64_t behind = newest - seq;
    if (behind >= 64 || row->seen >> behind & 1)
        return REPEATED;
    row->seen |= (uint64_t)1 << behind;
    return NEW;
}

static void rise(struct heartbeat *heartbeat, struct row *row, uint32_t incarnation, bw_time now,
                 struct bw_actions *actions)
{
    if (!bw_watch_believes(&row->peer, incarnation, now, actions))
        return;
    row->counter += BW_BUG(heartbeat_counts_twice) ? 2 : 1;
    row->mark = heartbeat->beats;
    row->peer.heard_ns = now;
    bw_watch_become_trusted(&row->peer, actions);
}

/* A path as a correct member makes it: it ends with the sender and we are not in it. */
static bool sound(const struct heartbeat *heartbeat, const struct bw_message *msg)
{
    const bw_node *path = msg->data;
    uint32_t items = msg->items;
    if (msg->kind != BW_MSG_HEARTBEAT_PATH || items == 0 || items > heartbeat->watch.peers.cap ||
        path[items - 1] != msg->from)
        return false;
    for (uint32_t i = 0; i < items; i++)
        if (path[i] == heartbeat->watch.peers.self)
            return false;
    return row_of(heartbeat, path[0]) != NULL;
}

static void count_path(struct heartbeat *heartbeat, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    const bw_node *path = msg->data;
    heartbeat->walk++;
    for (uint32_t i = 0; i < msg->items; i++) {
        struct row *row = row_of(heartbeat, path[i]);
        if (!row || row->walk == heartbeat->walk)
            continue;
        row->walk = heartbeat->walk;
        bool origin = i == 0;
        rise(heartbeat, row, origin ? (uint32_t)(msg->probe.seq >> 32) : row->peer.incarnation, now,
             actions);
    }
}

static void message(struct bw_watch *watch, struct bw_peer *peer, const struct bw_event *event,
                    struct bw_actions *actions)
{
    struct heartbeat *heartbeat = (struct heartbeat *)watch;
    const struct bw_message *msg = event->msg;
    if (!sound(heartbeat, msg)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, peer->id, event->kind, msg->kind);
        return;
    }
    const bw_node *path = msg->data;
    struct row *origin = row_of(heartbeat, path[0]);
    enum novelty novelty = take_number(origin, msg->probe.seq);
    if (novelty == PAST_LIFE) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, path[0], msg->probe.seq, origin->peer.seq);
        return;
    }
    if (novelty == NEW)
        heartbeat->beats++;
    count_path(heartbeat, msg, event->now, actions);
    if (heartbeat->dedupe && novelty == REPEATED)
        return;
    memcpy(heartbeat->path, path, msg->items * sizeof *path);
    heartbeat->path[msg->items] = watch->peers.self;
    pass_on(heartbeat, msg->probe.seq, msg->items + 1, actions);
}

static double level(const struct bw_watch *watch, const struct bw_peer *peer, bw_time now)
{
    (void)now;
    return stillness((const struct heartbeat *)watch, (const struct row *)peer);
}

static const struct bw_watch_rule rule = {
    .admit = admit, .beat = beat, .message = message, .level = level};

static uint32_t path_cap(const struct bw_detector_config *config)
{
    return (config->cap > config->count ? config->cap : config->count) + 1;
}

static size_t bytes(const struct bw_detector_config *config)
{
    struct bw_arena arena = {
        .used = bw_watch_bytes(config, sizeof(struct heartbeat), sizeof(struct row))};
    bw_arena_take(&arena, path_cap(config) * sizeof(bw_node));
    return arena.used;
}

static int init(void *memory, const struct bw_detector_config *config)
{
    if (config->stand_still == 0)
        return BW_EINVAL;
    if (path_cap(config) > BW_MESSAGE_DATA_MAX / sizeof(bw_node))
        return BW_ELIMIT;
    struct bw_arena arena = {.at = memory, .cap = bytes(config)};
    struct heartbeat *heartbeat = bw_arena_take(&arena, sizeof *heartbeat);
    *heartbeat = (struct heartbeat){.each_side = (config->neighbours + 1) / 2,
                                    .stand_still = config->stand_still,
                                    .dedupe = config->dedupe};
    int error = bw_watch_init(&heartbeat->watch, &arena, config, &rule, sizeof(struct row));
    heartbeat->path = bw_arena_take(&arena, path_cap(config) * sizeof *heartbeat->path);
    return error;
}

uint64_t bw_heartbeat_counter(const void *self, bw_node node)
{
    const struct heartbeat *heartbeat = self;
    if (node == heartbeat->watch.peers.self)
        return heartbeat->watch.round;
    const struct row *row = row_of(heartbeat, node);
    return row ? row->counter : 0;
}

const struct bw_detector_ops bw_detect_heartbeat = {
    .name = "heartbeat",
    .summary = "timeout-free: beats travel along paths, who stands still is suspected",
    .bytes = bytes,
    .actions_max = bw_watch_actions_max,
    .init = init,
    .step = bw_watch_step,
    .deadline = bw_watch_deadline,
    .level = bw_watch_level,
    .member = bw_watch_member};
