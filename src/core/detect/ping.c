/* Ping: each member pings all others each period. A reply counts from the time when its ping was
 * SENT.
 *
 * Model: crash and restart, lossy links.
 *
 * Guarantees: a trusted member was alive within the last timeout. A reply proves only that the
 * member was alive when it received the ping, which is not before the ping was sent. Unlike a
 * heartbeat, ping notices a link that is cut in one direction only.
 *
 * Not guaranteed: accuracy. A healthy member behind a cut or slow link is suspected.
 *
 * Cost: 2(n - 1) messages per member and period. */
#include "core/base/bug.h"
#include "core/detect/beat_detector.h"

/* When the ping of a round was due, on the own clock. */
static bw_time asked_at(const struct bw_watch *watch, uint32_t round)
{
    return watch->start_ns + ((bw_time)round - 1) * watch->period_ns;
}

static void admit(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now)
{
    peer->received_ns = now;
    bw_peers_expire_at(&watch->peers, peer, bw_time_add(now, watch->timeout_ns));
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    bw_watch_broadcast(watch, BW_MSG_PING, actions);
}

/* The reply belongs to this start of ours and to a round that was sent, and is newer than the
 * newest reply. */
static bool answers(const struct bw_watch *watch, const struct bw_detector_peer *peer, uint64_t seq)
{
    return seq >> 32 == watch->starts && seq <= bw_watch_seq(watch) && seq > peer->seq;
}

static void answered(struct bw_watch *watch, struct bw_detector_peer *peer,
                     const struct bw_event *event, struct bw_actions *actions)
{
    uint64_t seq = event->msg->probe.seq;
    bw_time asked = BW_BUG(ping_takes_old_answer) ? event->now : asked_at(watch, (uint32_t)seq);
    bw_time expires = bw_time_add(asked, watch->timeout_ns);
    bool late = !answers(watch, peer, seq) && !BW_BUG(ping_takes_old_answer);
    if (late || expires <= event->now) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, peer->id, seq, 0);
        return;
    }
    if (!bw_watch_accept_incarnation(peer, event->msg->probe.incarnation, event->now, actions))
        return;
    peer->seq = seq;
    peer->received_ns = asked;
    bw_peers_expire_at(&watch->peers, peer, expires);
    bw_watch_become_trusted(peer, actions);
}

static void message(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions)
{
    if (event->msg->kind == BW_MSG_PING)
        bw_watch_send(watch, BW_MSG_ACK, peer->id, event->msg->probe.seq, actions);
    else if (event->msg->kind == BW_MSG_ACK)
        answered(watch, peer, event, actions);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, peer->id, event->kind, event->msg->kind);
}

static double level(const struct bw_watch *watch, const struct bw_detector_peer *peer, bw_time now)
{
    return (double)(now - peer->received_ns) / (double)watch->timeout_ns;
}

static const struct bw_watch_rule rule = {
    .admit = admit, .beat = beat, .message = message, .level = level};

static size_t bytes(const struct bw_detector_config *config)
{
    return bw_watch_bytes(config, sizeof(struct bw_watch), sizeof(struct bw_detector_peer));
}

static int init(void *memory, const struct bw_detector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bytes(config)};
    struct bw_watch *watch = bw_arena_take(&arena, sizeof *watch);
    return bw_watch_init(watch, &arena, config, &rule, sizeof(struct bw_detector_peer));
}

const struct bw_detector_ops bw_detect_ping = {
    .name = "ping",
    .summary = "pings all each period; suspects a member without a reply within the timeout",
    .bytes = bytes,
    .actions_max = bw_watch_actions_max,
    .init = init,
    .step = bw_watch_step,
    .deadline = bw_watch_deadline,
    .level = bw_watch_level,
    .member = bw_watch_member};
