/* The interface that all failure detectors share: which members are alive?
 *
 * A detector receives messages and timeouts. It computes for each member a suspicion level and a
 * verdict: alive, suspect or dead. On each change of the verdict it emits a SUSPECT or TRUST
 * action, which the instance passes to its electors as an event.
 *
 * Model of all detectors: processes crash, pause and restart; links lose and delay messages. No
 * process lies (no Byzantine faults). */
#ifndef BW_CORE_DETECT_DETECTOR_H
#define BW_CORE_DETECT_DETECTOR_H

#include "core/base/action.h"
#include "core/base/event.h"
#include "core/base/types.h"

enum bw_phi_model { BW_PHI_NORMAL, BW_PHI_LOGISTIC, BW_PHI_EXPONENTIAL };

/* One struct for all detectors. bw_detector_defaults fills it in; each detector reads the fields
 * that concern it. */
struct bw_detector_config {
    bw_node self;
    const bw_node *members; /* with or without self; borrowed for init */
    uint32_t count, cap;    /* cap: maximum number of members ever */
    uint64_t seed;
    bw_time period_ns; /* period of heartbeats, pings, probes or gossip; NFD: eta */
    /* deadline, ping: silence before suspicion; NFD: delta; gossip: T_fail without the time that
     * updates take to spread */
    bw_time timeout_ns;
    bw_time ack_ns;    /* SWIM: time to wait for a direct ack before asking helpers */
    double threshold;  /* phi: suspect from this level on */
    bw_time min_sd_ns; /* phi: minimum of the standard deviation */
    bw_time pause_ns;  /* phi: acceptable pause, added to the mean */
    bw_time limit_ns;  /* phi+deadline: maximum silence, whatever phi is */
    uint32_t window;   /* phi: number of samples kept, at most BW_PHI_WINDOW_MAX */
    /* NFD: number of beats over which the smallest delay gives the sender's origin */
    uint32_t fresh_window;
    uint32_t indirect; /* SWIM: k, the number of helpers asked to probe */
    /* SWIM: Lifeguard's alpha: a suspicion lasts at least alpha log10(n) periods; 0: no suspicion,
     * a member is dead at once */
    double suspicion_min;
    /* SWIM: Lifeguard's beta: a suspicion lasts at most beta times the minimum */
    double suspicion_max;
    uint32_t fanout;     /* gossip: number of members to send to in each round */
    uint32_t neighbours; /* timeout-free heartbeat: degree of the ring-like graph; 0: complete */
    /* timeout-free heartbeat: K, how far the other counters rise before a stopped one is
     * suspected */
    uint32_t stand_still;
    bool dedupe; /* timeout-free heartbeat: forward each heartbeat only once */
    /* earlier starts of this instance: the base of SWIM's incarnation and the upper half of
     * heartbeat and gossip numbers */
    uint32_t starts;
};

struct bw_detector_ops {
    const char *name;
    const char *summary; /* one line that helps users choose */
    /* The size of the detector's memory block. */
    size_t (*bytes)(const struct bw_detector_config *config);
    /* The maximum number of actions that one step adds. */
    uint32_t (*actions_max)(const struct bw_detector_config *config);
    /* Lays out the state in `memory`, which has bytes() bytes and is 16-byte aligned. Returns 0,
     * BW_EINVAL, BW_ELIMIT or BW_ENOMEM. */
    int (*init)(void *memory, const struct bw_detector_config *config);
    void (*step)(void *self, const struct bw_event *event, struct bw_actions *actions);
    bw_time (*deadline)(const void *self);
    /* The suspicion level of `node`; 0: a message from it has just arrived. */
    double (*level)(const void *self, bw_node node, bw_time now);
    /* The verdict on `node`. */
    enum bw_member_status (*member)(const void *self, bw_node node);
};

extern const struct bw_detector_ops bw_detect_ping, bw_detect_deadline, bw_detect_phi,
    bw_detect_phi_logistic, bw_detect_phi_exponential, bw_detect_phi_deadline, bw_detect_nfd,
    bw_detect_swim, bw_detect_gossip, bw_detect_heartbeat;

/* The detector with this name ("phi+deadline", ...), or NULL; and the i-th detector, NULL past the
 * last. */
const struct bw_detector_ops *bw_detector_find(const char *name);
const struct bw_detector_ops *bw_detector_at(unsigned i);

/* Sets defaults for a period: a timeout of 4 periods, phi threshold 8 with Akka's minimum deviation
 * and pause scaled to the period, k = 3, Lifeguard's alpha 5 and beta 6. Does not change identity
 * and membership. */
void bw_detector_defaults(struct bw_detector_config *config, bw_time period_ns);

#endif
