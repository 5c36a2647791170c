/* Who is alive? The interface every failure detector shares.
 *
 * Monitoring: messages and timeouts come in. Interpretation: a level per member, and alive, suspect
 * or dead. Action: a SUSPECT or TRUST action on each change of mind, which the instance hands to
 * its electors as events. The model of all of them: processes crash, pause and restart, links lose
 * and delay; nobody lies. */
#ifndef BW_DETECT_DETECTOR_H
#define BW_DETECT_DETECTOR_H

#include "core/base/action.h"
#include "core/base/event.h"
#include "core/base/types.h"

enum bw_phi_model { BW_PHI_NORMAL, BW_PHI_LOGISTIC, BW_PHI_EXPONENTIAL };

/* One struct for all; bw_detector_defaults fills it in, a detector reads what concerns it. */
struct bw_detector_config {
    bw_node self;
    const bw_node *members; /* self included or not; borrowed for init */
    uint32_t count, cap;    /* cap: the most there may ever be */
    uint64_t seed;
    bw_time period_ns;  /* heartbeat, ping, probe or gossip period; NFD's eta */
    bw_time timeout_ns; /* deadline, ping: silence until suspicion; NFD: delta; gossip: T_fail
                             less the time news takes to spread */
    bw_time ack_ns;     /* SWIM: direct ack awaited this long before asking others */
    double threshold;   /* phi: level that means suspect */
    bw_time min_sd_ns;  /* phi: floor of the standard deviation */
    bw_time pause_ns;   /* phi: acceptable pause added to the mean */
    bw_time limit_ns;   /* phi+deadline: silence that is too long whatever phi says */
    uint32_t window;    /* phi: samples kept, at most BW_PHI_WINDOW_MAX */
    uint32_t
        fresh_window;  /* NFD: beats over which the quickest way is sought, the sender's origin */
    uint32_t indirect; /* SWIM: k members asked to probe */
    double suspicion_min; /* SWIM: Lifeguard alpha; suspicion lasts at least alpha log10(n) periods;
                             0: none, at once dead */
    double suspicion_max; /* SWIM: Lifeguard beta; at most beta times the minimum */
    uint32_t fanout;      /* gossip: members sent to each round */
    uint32_t neighbours;  /* timeout-free heartbeat: degree of the ring-like graph; 0 = complete */
    uint32_t stand_still; /* timeout-free heartbeat: K, how far the others rise before a still one
                             is suspected */
    bool dedupe;          /* timeout-free heartbeat: forward each heartbeat once only */
    uint32_t
        starts; /* how often this instance started before: SWIM's incarnation, gossip's high half */
};

struct bw_detector_ops {
    const char *name;
    const char *summary; /* one line for people choosing */
    /* Bytes of the one block a detector lives in, and the most actions one step can add. */
    size_t (*bytes)(const struct bw_detector_config *config);
    uint32_t (*actions_max)(const struct bw_detector_config *config);
    /* Lays the state out in `memory` (bytes() long, 16-byte aligned). Returns 0, BW_EINVAL,
     * BW_ELIMIT or BW_ENOMEM. */
    int (*init)(void *memory, const struct bw_detector_config *config);
    void (*step)(void *self, const struct bw_event *event, struct bw_actions *actions);
    bw_time (*deadline)(const void *self);
    /* Interpretation: how sure it is that `node` is gone (0 = just heard), and the verdict. */
    double (*level)(const void *self, bw_node node, bw_time now);
    enum bw_member_status (*member)(const void *self, bw_node node);
};

extern const struct bw_detector_ops bw_detect_ping, bw_detect_deadline, bw_detect_phi,
    bw_detect_phi_logistic, bw_detect_phi_exponential, bw_detect_phi_deadline, bw_detect_nfd,
    bw_detect_swim, bw_detect_gossip, bw_detect_heartbeat;

/* By name ("phi+deadline", ...), or NULL; and the i-th of all, NULL past the last. */
const struct bw_detector_ops *bw_detector_find(const char *name);
const struct bw_detector_ops *bw_detector_at(unsigned i);

/* Sensible values for a period: a time-out of 4 periods, phi 8 with Akka's floor and pause scaled
 * to the period, k = 3, Lifeguard 5 and 6. Identity and membership are left alone. */
void bw_detector_defaults(struct bw_detector_config *config, bw_time period_ns);

#endif
