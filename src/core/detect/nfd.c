/* Chen's detector with freshness points, for clocks that are not synchronized.
 *
 * Beat i is sent at i eta. Its freshness point is tau_i = i eta + delta. From tau_i on, the sender
 * is suspected unless some beat j >= i has arrived. So the age of the newest beat counts, not the
 * time since the last arrival: a fast beat does not make the next one look late.
 *
 * Difference from the paper: NFD-S needs the sender's send times. Bellwether never compares the
 * clocks of two hosts. It estimates the sender's origin, the time at which beat 0 would have
 * arrived with the smallest delay. The estimate is the minimum of arrival - i eta over the last
 * `fresh_window` to 2 `fresh_window` beats. NFD-E uses the mean; the minimum does not depend on the
 * distribution of delays. The window is needed because clocks drift: a sender slower by rho lags by
 * up to 2 rho fresh_window eta. That must be small compared to delta.
 *
 * Guarantees: detection time T_D <= delta + eta, plus the smallest delay of a beat (0 with
 * synchronized clocks). Mistakes are as rare and as short as the paper's formulas say. Before the
 * first beat, delta + eta counts from the start.
 *
 * Source: Chen, Toueg, Aguilera 2002, "On the Quality of Service of Failure Detectors", algorithm
 * NFD-S. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/detect/beat_detector.h"

struct row {
    struct bw_detector_peer peer;
    /* minimum of arrival - i eta, in this window and in the previous one */
    bw_time least_ns, least_before_ns;
    uint32_t beats; /* number of beats in this window */
};

struct nfd {
    struct bw_watch watch;
    uint32_t window;
};

static void admit(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now)
{
    struct row *row = (struct row *)peer;
    row->least_ns = row->least_before_ns = BW_TIME_NEVER;
    row->beats = 0;
    peer->received_ns = now;
    bw_peers_expire_at(&watch->peers, peer, now + watch->period_ns + watch->timeout_ns);
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    bw_watch_broadcast(watch, BW_MSG_HEARTBEAT, actions);
}

static void note_origin(struct row *row, uint32_t window, bw_time origin)
{
    if (row->beats == window) {
        row->least_before_ns = row->least_ns;
        row->least_ns = BW_TIME_NEVER;
        row->beats = 0;
    }
    row->least_ns = bw_time_min(row->least_ns, origin);
    row->beats++;
}

/* The freshness point of the next beat: this beat is fresh until then. */
static bw_time fresh_until(const struct bw_watch *watch, const struct row *row, uint32_t beat)
{
    bw_time origin = bw_time_min(row->least_ns, row->least_before_ns);
    bw_time next = (bw_time)beat + (BW_BUG(nfd_freshness_off_by_one) ? 0 : 1);
    return origin + next * watch->period_ns + watch->timeout_ns;
}

static void message(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions)
{
    struct row *row = (struct row *)peer;
    uint64_t before = peer->seq;
    if (!bw_watch_accept_heartbeat(peer, event, actions))
        return;
    /* after a restart the sender has a new origin */
    if (before >> 32 != peer->seq >> 32)
        admit(watch, peer, event->now);
    uint32_t number = (uint32_t)peer->seq;
    note_origin(row, ((struct nfd *)watch)->window,
                event->now - (bw_time)number * watch->period_ns);
    bw_time until = fresh_until(watch, row, number);
    if (until <= event->now) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, peer->id, number, 0);
        return;
    }
    peer->received_ns = event->now;
    bw_peers_expire_at(&watch->peers, peer, until);
    bw_watch_become_trusted(peer, actions);
}

static double level(const struct bw_watch *watch, const struct bw_detector_peer *peer, bw_time now)
{
    return (double)(now - peer->received_ns) / (double)(watch->timeout_ns + watch->period_ns);
}

static const struct bw_watch_rule rule = {
    .admit = admit, .beat = beat, .message = message, .level = level};

static size_t bytes(const struct bw_detector_config *config)
{
    return bw_watch_bytes(config, sizeof(struct nfd), sizeof(struct row));
}

static int init(void *memory, const struct bw_detector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bytes(config)};
    struct nfd *nfd = bw_arena_take(&arena, sizeof *nfd);
    nfd->window = config->fresh_window;
    if (nfd->window == 0)
        return BW_EINVAL;
    return bw_watch_init(&nfd->watch, &arena, config, &rule, sizeof(struct row));
}

const struct bw_detector_ops bw_detect_nfd = {
    .name = "nfd",
    .summary = "Chen's freshness points: heartbeats to all, bounded detection time, rare mistakes",
    .bytes = bytes,
    .actions_max = bw_watch_actions_max,
    .init = init,
    .step = bw_watch_step,
    .deadline = bw_watch_deadline,
    .level = bw_watch_level,
    .member = bw_watch_member};
