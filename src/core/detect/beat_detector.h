/* The common part of detectors that send heartbeats and watch for them: the table of peers, the
 * timing of the own beats, the verdict after too long a silence, and membership events. A detector
 * then adds only a rule: what to send each period, what a message means, and how long a silence may
 * last.
 *
 * Beats are sent on a grid, start + k * period, also after a pause. So the number of a beat tells
 * when it was due. The upper half of the number counts the starts of the sender, so that beats
 * after a restart are always newer than beats before it. This needs a start counter that survives
 * restarts (config->starts). An instance that lost its counter must take a new id.
 *
 * An observer that was itself paused finds all expiries in the past while the beats still wait in
 * its queue. So if a timeout comes a whole period late, the observer concludes that it was paused
 * and moves all expiries by the delay. */
#ifndef BW_CORE_DETECT_BEAT_DETECTOR_H
#define BW_CORE_DETECT_BEAT_DETECTOR_H

#include "core/detect/peers.h"

struct bw_watch;

struct bw_watch_rule {
    /* The watch on a member begins at `now`: at the start, or after a join. */
    void (*admit)(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now);
    /* A period begins. watch->round is its number, bw_watch_seq its number on the wire. */
    void (*beat)(struct bw_watch *watch, bw_time now, struct bw_actions *actions);
    /* A member sent a message. */
    void (*message)(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions);
    /* peer->expires_ns has come. NULL: suspect the peer. */
    void (*expired)(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now,
                    struct bw_actions *actions);
    double (*level)(const struct bw_watch *watch, const struct bw_detector_peer *peer, bw_time now);
    bool quiet_start; /* send the first beat after one period, not at once */
};

struct bw_watch {
    const struct bw_watch_rule *rule;
    struct bw_peers peers;
    bw_time period_ns, timeout_ns;
    bw_time start_ns, next_ns; /* next_ns == NEVER: not started */
    uint32_t starts;
    uint32_t round; /* number of own beats, from 1 */
};

/* `stride`: bytes of the detector's row, which begins with a struct bw_detector_peer. Returns 0,
 * BW_EINVAL, BW_ELIMIT or BW_ENOMEM. */
int bw_watch_init(struct bw_watch *watch, struct bw_arena *arena,
                  const struct bw_detector_config *config, const struct bw_watch_rule *rule,
                  size_t stride);

/* Size of a block: `head` bytes, which begin with a struct bw_watch, then the rows. */
size_t bw_watch_bytes(const struct bw_detector_config *config, size_t head, size_t stride);

/* The functions of struct bw_detector_ops that these detectors share; `self` begins with a struct
 * bw_watch. */
void bw_watch_step(void *self, const struct bw_event *event, struct bw_actions *actions);
bw_time bw_watch_deadline(const void *self);
double bw_watch_level(const void *self, bw_node node, bw_time now);
enum bw_member_status bw_watch_member(const void *self, bw_node node);
/* Enough for a beat, a verdict and a trace record per member, plus a small reserve. */
uint32_t bw_watch_actions_max(const struct bw_detector_config *config);

static inline uint64_t bw_watch_seq(const struct bw_watch *watch)
{
    return (uint64_t)watch->starts << 32 | watch->round;
}

/* Sends a probe message of `kind` to `to`. */
void bw_watch_send(const struct bw_watch *watch, enum bw_message_kind kind, bw_node to,
                   uint64_t seq, struct bw_actions *actions);
/* Sends it to all peers, with the current number. */
void bw_watch_broadcast(const struct bw_watch *watch, enum bw_message_kind kind,
                        struct bw_actions *actions);

/* Whether a sign of life counts. While the peer is confirmed dead, messages of the dead incarnation
 * do not count. `incarnation` is the peer's start count in the message. Traces a rejection. */
bool bw_watch_accept_incarnation(struct bw_detector_peer *peer, uint32_t incarnation, bw_time now,
                                 struct bw_actions *actions);

/* Whether a beat of an incarnation before the newest known one counts after all. Two processes may
 * have had the same id; if the one with more starts has ended, only beats of the other one still
 * come. If the newest incarnation is `silent`, the other one counts after some of its beats in
 * order. Beats of an earlier incarnation that are merely late are too few. */
bool bw_watch_accept_earlier(struct bw_detector_peer *peer, uint64_t seq, bool silent);

/* Whether the message is a heartbeat that counts and is newer than all before; if so, peer->seq
 * becomes its number. Traces a rejection. */
bool bw_watch_accept_heartbeat(struct bw_detector_peer *peer, const struct bw_event *event,
                               struct bw_actions *actions);

/* Change the verdict and add a SUSPECT or TRUST action; no action if the verdict stays the same. */
void bw_watch_become_suspect(struct bw_detector_peer *peer, enum bw_member_status status,
                             double level, struct bw_actions *actions);
void bw_watch_become_trusted(struct bw_detector_peer *peer, struct bw_actions *actions);

#endif
