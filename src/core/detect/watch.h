/* What the detectors that beat and listen have in common: the table of peers, the own beat, the
 * verdict when a silence lasted too long, and how membership events are taken. A detector is then a
 * rule: what it says each period, what a message means, how long silence may last.
 *
 * Beats lie on a grid, start + k period, also after a pause: the number of a beat tells when it was
 * due. Its upper half counts the starts of the sender, so that a restarted one is never taken for
 * old. That needs a start counter which survives a restart (config->starts); an instance that lost
 * it must take a new id.
 *
 * An observer that was itself paused finds every expiry in the past and the beats still in its
 * queue. When a time-out comes a whole period late the observer was away, not the others: all
 * expiries move by the lateness. */
#ifndef BW_DETECT_WATCH_H
#define BW_DETECT_WATCH_H

#include "core/detect/peers.h"

struct bw_watch;

struct bw_watch_rule {
    /* A member is watched from `now` on: at the start, after a join. */
    void (*admit)(struct bw_watch *watch, struct bw_peer *peer, bw_time now);
    /* A period begins; watch->round says which, bw_watch_seq its number on the wire. */
    void (*beat)(struct bw_watch *watch, bw_time now, struct bw_actions *actions);
    /* A message of a member. */
    void (*message)(struct bw_watch *watch, struct bw_peer *peer, const struct bw_event *event,
                    struct bw_actions *actions);
    /* peer->expires_ns has come; NULL: suspect. */
    void (*expired)(struct bw_watch *watch, struct bw_peer *peer, bw_time now,
                    struct bw_actions *actions);
    double (*level)(const struct bw_watch *watch, const struct bw_peer *peer, bw_time now);
    bool quiet_start; /* the first beat comes after one period, not at once */
};

struct bw_watch {
    const struct bw_watch_rule *rule;
    struct bw_peers peers;
    bw_time period_ns, timeout_ns;
    bw_time start_ns, next_ns; /* next_ns NEVER: not started */
    uint32_t starts;
    uint32_t round; /* of the own beats, from 1 */
};

/* `stride`: bytes of the detector's row, which begins with a struct bw_peer. Returns 0, BW_EINVAL,
 * BW_ELIMIT or BW_ENOMEM. */
int bw_watch_init(struct bw_watch *watch, struct bw_arena *arena,
                  const struct bw_detector_config *config, const struct bw_watch_rule *rule,
                  size_t stride);

/* Bytes of a block with `head` bytes, which begin with a struct bw_watch, and the rows behind it.
 */
size_t bw_watch_bytes(const struct bw_detector_config *config, size_t head, size_t stride);

/* The ops every such detector shares; `self` begins with a struct bw_watch. */
void bw_watch_step(void *self, const struct bw_event *event, struct bw_actions *actions);
bw_time bw_watch_deadline(const void *self);
double bw_watch_level(const void *self, bw_node node, bw_time now);
enum bw_member_status bw_watch_member(const void *self, bw_node node);
/* A beat to everybody, a verdict and a note on everybody, and a little. */
uint32_t bw_watch_actions_max(const struct bw_detector_config *config);

static inline uint64_t bw_watch_seq(const struct bw_watch *watch)
{
    return (uint64_t)watch->starts << 32 | watch->round;
}

/* Sends a probe message of `kind` to `to`. */
void bw_watch_send(const struct bw_watch *watch, enum bw_message_kind kind, bw_node to,
                   uint64_t seq, struct bw_actions *actions);
/* The same to everybody, with the current number. */
void bw_watch_broadcast(const struct bw_watch *watch, enum bw_message_kind kind,
                        struct bw_actions *actions);

/* Whether a sign of life may be believed: not so while the peer is confirmed dead and the sign may
 * be of that very life. `incarnation` is the peer's start count in the message. Notes why not. */
bool bw_watch_believes(struct bw_peer *peer, uint32_t incarnation, bw_time now,
                       struct bw_actions *actions);

/* Whether the message is a heartbeat newer than any before and may be believed; peer->seq is then
 * its number. Notes why not. */
bool bw_watch_hears(struct bw_peer *peer, const struct bw_event *event, struct bw_actions *actions);

/* Changes of mind; no action when there is none. */
void bw_watch_become_suspect(struct bw_peer *peer, enum bw_member_status status, double level,
                             struct bw_actions *actions);
void bw_watch_become_trusted(struct bw_peer *peer, struct bw_actions *actions);

#endif
