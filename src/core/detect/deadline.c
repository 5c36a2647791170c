/* Deadline: each member sends a heartbeat to all others each period, and suspects a member that is
 * silent for longer than the timeout.
 *
 * Model: crash and restart, lossy links.
 *
 * Guarantees: a crash is noticed within the timeout plus the delay of the last beat.
 *
 * Not guaranteed: accuracy. A pause, a burst of loss or a delay that is longer than the timeout
 * counts as a crash until the next beat arrives. If the link between two healthy members is cut,
 * each suspects the other.
 *
 * Cost: n - 1 messages per member and period. */
#include "core/base/bug.h"
#include "core/detect/beat_detector.h"

static void admit(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now)
{
    peer->received_ns = now;
    bw_peers_expire_at(&watch->peers, peer, bw_time_add(now, watch->timeout_ns));
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    bw_watch_broadcast(watch, BW_MSG_HEARTBEAT, actions);
}

static void message(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions)
{
    if (!bw_watch_accept_heartbeat(peer, event, actions))
        return;
    admit(watch, peer, event->now);
    if (!BW_BUG(deadline_never_trusts_again))
        bw_watch_become_trusted(peer, actions);
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

const struct bw_detector_ops bw_detect_deadline = {
    .name = "deadline",
    .summary = "heartbeats to all; suspects a member that is silent for longer than the timeout",
    .bytes = bytes,
    .actions_max = bw_watch_actions_max,
    .init = init,
    .step = bw_watch_step,
    .deadline = bw_watch_deadline,
    .level = bw_watch_level,
    .member = bw_watch_member};
