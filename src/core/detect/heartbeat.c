/* Timeout-free heartbeat (Aguilera, Chen, Toueg 1997, "Heartbeat: A Timeout-Free Failure Detector
 * for Quiescent Reliable Communication").
 *
 * Each period a member sends (HEARTBEAT, path) to its neighbours; the path contains only itself. A
 * receiver increments the counter of each member in the path. It then appends itself and forwards
 * the path to its neighbours that are not in the path. Counters of live members grow without bound,
 * those of crashed members stop. The output is the vector of counters, and no clock decides.
 *
 * Electors need a verdict, so this module adds a rule. A member is suspected when its counter has
 * not grown while the others have sent, on average, `stand_still` further beats. The own beats
 * count as those of one of the others. So messages set the pace, and a slow network delays the
 * verdict. A member that is cut off from all others still suspects them, only later.
 *
 * Every simple path is followed: on a complete graph of n members one beat costs the sum over k =
 * 1..n-1 of (n-1)!/(n-1-k)! messages (n = 5: 64, n = 6: 325). Two options bound this cost. With
 * `dedupe` each member forwards each beat once. `neighbours` makes the graph a ring in which each
 * member sends to the nearest ones on both sides. The ring extends past suspected members, so that
 * a row of crashed members does not cut it.
 *
 * Model: crash and restart, fair-lossy links, partitions. A cut link between two members does no
 * harm while another path exists. */
#include "core/detect/heartbeat.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/detect/beat_detector.h"

#include <string.h>

struct row {
    struct bw_detector_peer peer; /* seq: newest own beat of the member */
    uint64_t counter;             /* the paper's vector element */
    uint64_t mark;                /* value of `beats` when the counter last rose */
    uint64_t own_mark;            /* value of `beats` when the last own beat of the member came */
    uint64_t seen;                /* bit mask: which of the last 64 beats up to seq arrived */
    uint64_t walk;                /* the last walk that visited this row */
};

struct heartbeat {
    struct bw_watch watch;
    uint64_t beats; /* beats of all members including self, each counted once */
    uint64_t walk;
    uint32_t alive;     /* members not suspected, without self */
    uint32_t each_side; /* neighbours on each side; 0: all members */
    uint32_t stand_still;
    bool dedupe;
    bw_node *path; /* the path as sent */
};

static struct row *row_of(const struct heartbeat *heartbeat, bw_node id)
{
    return (struct row *)bw_peers_find(&heartbeat->watch.peers, id);
}

static void admit(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now)
{
    peer->received_ns = now;
    struct row *row = (struct row *)peer;
    row->mark = row->own_mark = ((struct heartbeat *)watch)->beats;
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

/* Walks from self around the ring in one direction until it has met enough members that are not
 * suspected. */
static void walk_side(struct heartbeat *heartbeat, uint32_t at, uint32_t step, uint64_t seq,
                      uint32_t items, struct bw_actions *actions)
{
    uint32_t count = heartbeat->watch.peers.count, met = 0;
    for (uint32_t i = 0; i < count && met < heartbeat->each_side; i++, at += step) {
        struct bw_detector_peer *peer = bw_peers_at(&heartbeat->watch.peers, at % count);
        met += peer->status == BW_MEMBER_ALIVE;
        send_path(heartbeat, (struct row *)peer, seq, items, actions);
    }
}

/* Sends heartbeat->path to the neighbours that this walk has not visited. */
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

static double lag(const struct heartbeat *heartbeat, uint64_t mark)
{
    uint32_t others = heartbeat->alive > 1 ? heartbeat->alive : 1;
    return (double)(heartbeat->beats - mark) / others;
}

/* Judges all members by the same number of live members, before any verdict changes that number. */
static void judge(struct heartbeat *heartbeat, struct bw_actions *actions)
{
    struct bw_peers *peers = &heartbeat->watch.peers;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < peers->count; i++)
        alive += bw_peers_at(peers, i)->status == BW_MEMBER_ALIVE;
    heartbeat->alive = alive;
    for (uint32_t i = 0; i < peers->count; i++) {
        struct bw_detector_peer *peer = bw_peers_at(peers, i);
        double behind = lag(heartbeat, ((struct row *)peer)->mark);
        if (peer->status == BW_MEMBER_ALIVE && behind >= heartbeat->stand_still)
            bw_watch_become_suspect(peer, BW_MEMBER_SUSPECT, behind, actions);
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

enum novelty { NEW, REPEATED, OLD_INCARNATION };

/* Whether the own beats of the member have stopped. It may count as alive nevertheless: its counter
 * also rises with the paths that it forwards, and these name no incarnation. */
static bool is_silent(const struct heartbeat *heartbeat, const struct row *row)
{
    if (BW_BUG(heartbeat_trusts_forwarded_paths))
        return row->peer.status != BW_MEMBER_ALIVE;
    return lag(heartbeat, row->own_mark) >= heartbeat->stand_still;
}

/* Beats may arrive out of order, so the last 64 are distinguished. Older ones count as repeated. */
static enum novelty take_number(const struct heartbeat *heartbeat, struct row *row, uint64_t seq)
{
    uint64_t newest = row->peer.seq;
    if (seq >> 32 < newest >> 32) {
        if (!bw_watch_accept_earlier(&row->peer, seq, is_silent(heartbeat, row)))
            return OLD_INCARNATION;
        newest = 0;
    }
    row->own_mark = heartbeat->beats;
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
    if (!bw_watch_accept_incarnation(&row->peer, incarnation, now, actions))
        return;
    row->counter += BW_BUG(heartbeat_counts_twice) ? 2 : 1;
    row->mark = heartbeat->beats;
    row->peer.received_ns = now;
    bw_watch_become_trusted(&row->peer, actions);
}

/* Whether a correct member could have sent this path: it ends with the sender and does not contain
 * us. */
static bool well_formed(const struct heartbeat *heartbeat, const struct bw_message *msg)
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

static void message(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions)
{
    struct heartbeat *heartbeat = (struct heartbeat *)watch;
    const struct bw_message *msg = event->msg;
    if (!well_formed(heartbeat, msg)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, peer->id, event->kind, msg->kind);
        return;
    }
    const bw_node *path = msg->data;
    struct row *origin = row_of(heartbeat, path[0]);
    enum novelty novelty = take_number(heartbeat, origin, msg->probe.seq);
    if (novelty == OLD_INCARNATION) {
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

static double level(const struct bw_watch *watch, const struct bw_detector_peer *peer, bw_time now)
{
    (void)now;
    return lag((const struct heartbeat *)watch, ((const struct row *)peer)->mark);
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
    .summary = "timeout-free: counts beats along paths; suspects a member whose counter stops",
    .bytes = bytes,
    .actions_max = bw_watch_actions_max,
    .init = init,
    .step = bw_watch_step,
    .deadline = bw_watch_deadline,
    .level = bw_watch_level,
    .member = bw_watch_member};
