/* The common step function of detectors that watch heartbeats. */
#include "core/detect/beat_detector.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <string.h>

/* Number of beats of an earlier incarnation after which a suspected member counts again. */
#define EARLIER_BEATS 3u

int bw_watch_init(struct bw_watch *watch, struct bw_arena *arena,
                  const struct bw_detector_config *config, const struct bw_watch_rule *rule,
                  size_t stride)
{
    if (config->period_ns <= 0 || config->timeout_ns <= 0)
        return BW_EINVAL;
    *watch = (struct bw_watch){.rule = rule,
                               .period_ns = config->period_ns,
                               .timeout_ns = config->timeout_ns,
                               .next_ns = BW_TIME_NEVER,
                               .starts = config->starts};
    return bw_peers_init(&watch->peers, arena, config, stride);
}

size_t bw_watch_bytes(const struct bw_detector_config *config, size_t head, size_t stride)
{
    struct bw_arena arena = {0};
    struct bw_peers peers;
    bw_arena_take(&arena, head);
    bw_peers_init(&peers, &arena, config, stride);
    return arena.used;
}

uint32_t bw_watch_actions_max(const struct bw_detector_config *config)
{
    uint32_t cap = config->cap > config->count ? config->cap : config->count;
    return 3 * cap + 8;
}

static bool started(const struct bw_watch *watch)
{
    return watch->next_ns != BW_TIME_NEVER;
}

void bw_watch_send(const struct bw_watch *watch, enum bw_message_kind kind, bw_node to,
                   uint64_t seq, struct bw_actions *actions)
{
    struct bw_message *msg = bw_actions_send(actions, kind, watch->peers.self, to, 0);
    msg->probe = (struct bw_probe){.seq = seq, .target = to, .incarnation = watch->starts};
}

void bw_watch_broadcast(const struct bw_watch *watch, enum bw_message_kind kind,
                        struct bw_actions *actions)
{
    for (uint32_t i = 0; i < watch->peers.count; i++)
        bw_watch_send(watch, kind, bw_peers_at(&watch->peers, i)->id, bw_watch_seq(watch), actions);
}

bool bw_watch_accept_incarnation(struct bw_detector_peer *peer, uint32_t incarnation, bw_time now,
                                 struct bw_actions *actions)
{
    if (now < peer->barred_ns && incarnation <= peer->incarnation) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, peer->id, incarnation, 0);
        return false;
    }
    if (incarnation > peer->incarnation)
        peer->incarnation = incarnation;
    peer->barred_ns = 0;
    return true;
}

bool bw_watch_accept_earlier(struct bw_detector_peer *peer, uint64_t seq, bool silent)
{
    bool earlier = seq >> 32 < peer->seq >> 32 && !BW_BUG(beats_of_a_former_duplicate_ignored);
    if (!silent) {
        peer->earlier_seq = 0;
        peer->earlier_count = 0;
        return false;
    }
    if (!earlier || seq <= peer->earlier_seq)
        return false;
    peer->earlier_seq = seq;
    return ++peer->earlier_count >= EARLIER_BEATS;
}

bool bw_watch_accept_heartbeat(struct bw_detector_peer *peer, const struct bw_event *event,
                               struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    if (msg->kind != BW_MSG_HEARTBEAT) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, peer->id, event->kind, msg->kind);
        return false;
    }
    bool silent = peer->status != BW_MEMBER_ALIVE;
    if (msg->probe.seq <= peer->seq && !bw_watch_accept_earlier(peer, msg->probe.seq, silent)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, peer->id, msg->probe.seq, peer->seq);
        return false;
    }
    if (!bw_watch_accept_incarnation(peer, (uint32_t)(msg->probe.seq >> 32), event->now, actions))
        return false;
    peer->seq = msg->probe.seq;
    return true;
}

void bw_watch_become_suspect(struct bw_detector_peer *peer, enum bw_member_status status,
                             double level, struct bw_actions *actions)
{
    bool changed = peer->status == BW_MEMBER_ALIVE;
    peer->status = (uint8_t)status;
    if (!changed)
        return;
    struct bw_action *action = bw_actions_add(actions, BW_ACTION_SUSPECT);
    action->node = peer->id;
    action->level = level;
}

void bw_watch_become_trusted(struct bw_detector_peer *peer, struct bw_actions *actions)
{
    if (peer->status == BW_MEMBER_ALIVE)
        return;
    peer->status = BW_MEMBER_ALIVE;
    struct bw_action *action = bw_actions_add(actions, BW_ACTION_TRUST);
    action->node = peer->id;
    action->level = 0;
}

/* The current beat becomes the one of the grid point at or before `now`. */
static void begin_round(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    bw_time passed = (now - watch->start_ns) / watch->period_ns;
    watch->round = (uint32_t)passed + 1;
    watch->next_ns = watch->start_ns + (passed + 1) * watch->period_ns;
    watch->rule->beat(watch, now, actions);
}

static void start(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    watch->start_ns = now;
    watch->round = 1;
    watch->next_ns = now + watch->period_ns;
    for (uint32_t i = 0; i < watch->peers.count; i++)
        watch->rule->admit(watch, bw_peers_at(&watch->peers, i), now);
    if (!watch->rule->quiet_start)
        watch->rule->beat(watch, now, actions);
}

static void pass_verdict(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now,
                         struct bw_actions *actions)
{
    peer->expires_ns = BW_TIME_NEVER;
    if (watch->rule->expired)
        watch->rule->expired(watch, peer, now, actions);
    else
        bw_watch_become_suspect(peer, BW_MEMBER_SUSPECT, watch->rule->level(watch, peer, now),
                                actions);
}

/* Passes a verdict on each peer that expired and makes the bound exact. */
static void check_expiries(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    struct bw_peers *peers = &watch->peers;
    peers->earliest_ns = BW_TIME_NEVER;
    for (uint32_t i = 0; i < peers->count; i++) {
        struct bw_detector_peer *peer = bw_peers_at(peers, i);
        if (peer->expires_ns <= now)
            pass_verdict(watch, peer, now, actions);
        peers->earliest_ns = bw_time_min(peers->earliest_ns, peer->expires_ns);
    }
}

static void postpone_expiries(struct bw_peers *peers, bw_time span)
{
    for (uint32_t i = 0; i < peers->count; i++) {
        struct bw_detector_peer *peer = bw_peers_at(peers, i);
        peer->expires_ns = bw_time_add(peer->expires_ns, span);
    }
    peers->earliest_ns = bw_time_add(peers->earliest_ns, span);
}

/* Verdicts come before the beat of this instant: a reply to that beat is too late to change
 * them. */
static void time_out(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    bw_time late = now - bw_watch_deadline(watch);
    if (late >= watch->period_ns)
        postpone_expiries(&watch->peers, late);
    if (now >= watch->peers.earliest_ns)
        check_expiries(watch, now, actions);
    if (now >= watch->next_ns)
        begin_round(watch, now, actions);
}

static void message(struct bw_watch *watch, const struct bw_event *event,
                    struct bw_actions *actions)
{
    struct bw_detector_peer *peer = bw_peers_find(&watch->peers, event->msg->from);
    if (peer)
        watch->rule->message(watch, peer, event, actions);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, event->msg->from, 0, 0);
}

/* A member that joins again starts without old suspicions. */
static void join(struct bw_watch *watch, const struct bw_event *event, struct bw_actions *actions)
{
    struct bw_detector_peer *peer = bw_peers_find(&watch->peers, event->member.id);
    if (peer)
        bw_watch_become_trusted(peer, actions);
    else if (!(peer = bw_peers_add(&watch->peers, event->member.id))) {
        if (event->member.id != watch->peers.self)
            bw_actions_trace(actions, BW_TRACE_IGNORED_FULL, event->member.id, watch->peers.cap, 0);
        return;
    }
    peer->barred_ns = 0;
    if (started(watch))
        watch->rule->admit(watch, peer, event->now);
    bw_actions_trace(actions, BW_TRACE_MEMBER_JOINED, peer->id, 0, 0);
}

static void confirm(struct bw_watch *watch, const struct bw_event *event,
                    struct bw_actions *actions)
{
    struct bw_detector_peer *peer = bw_peers_find(&watch->peers, event->node);
    if (!peer) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, event->node, 0, 0);
        return;
    }
    double level = watch->rule->level(watch, peer, event->now);
    bw_watch_become_suspect(peer, BW_MEMBER_DEAD, level, actions);
    peer->expires_ns = BW_TIME_NEVER;
    peer->barred_ns = bw_time_add(event->now, watch->timeout_ns);
}

/* Handles the events that need a started detector; returns true if it handled the event. */
static bool step_running(struct bw_watch *watch, const struct bw_event *event,
                         struct bw_actions *actions)
{
    if (!started(watch))
        return false;
    if (event->kind == BW_EVENT_MESSAGE)
        message(watch, event, actions);
    else if (event->kind == BW_EVENT_TIMEOUT)
        time_out(watch, event->now, actions);
    else if (event->kind == BW_EVENT_CONFIRMED_DEAD)
        confirm(watch, event, actions);
    /* continues to beat while the electors hand over */
    else
        return event->kind == BW_EVENT_STOP;
    return true;
}

void bw_watch_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct bw_watch *watch = self;
    if (step_running(watch, event, actions))
        return;
    if (event->kind == BW_EVENT_START && !started(watch))
        start(watch, event->now, actions);
    else if (event->kind == BW_EVENT_JOIN)
        join(watch, event, actions);
    else if (event->kind == BW_EVENT_LEAVE && bw_peers_remove(&watch->peers, event->node))
        bw_actions_trace(actions, BW_TRACE_MEMBER_LEFT, event->node, 0, 0);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, event->node, event->kind, started(watch));
}

bw_time bw_watch_deadline(const void *self)
{
    const struct bw_watch *watch = self;
    return bw_time_min(watch->next_ns, watch->peers.earliest_ns);
}

double bw_watch_level(const void *self, bw_node node, bw_time now)
{
    const struct bw_watch *watch = self;
    const struct bw_detector_peer *peer = bw_peers_find(&watch->peers, node);
    return peer ? watch->rule->level(watch, peer, now) : 0;
}

enum bw_member_status bw_watch_member(const void *self, bw_node node)
{
    const struct bw_watch *watch = self;
    const struct bw_detector_peer *peer = bw_peers_find(&watch->peers, node);
    return peer ? (enum bw_member_status)peer->status : BW_MEMBER_ALIVE;
}
