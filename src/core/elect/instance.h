/* One instance: a detector and the electors that share it, as one decision module.
 *
 * The instance passes the detector's SUSPECT and TRUST actions to every elector within the same
 * step. The actions also stay in the list for the caller. A message goes to the module that its
 * kind and election number select. The simulator and the peer run this same object; neither knows
 * which algorithms it contains. */
#ifndef BW_CORE_ELECT_INSTANCE_H
#define BW_CORE_ELECT_INSTANCE_H

#include "core/detect/detector.h"
#include "core/elect/elector.h"

struct bw_instance_election {
    const struct bw_elector_ops *ops;
    struct bw_elector_config config;
};

struct bw_instance_config {
    /* NULL: none; the electors then rely on their own timers and events */
    const struct bw_detector_ops *detector;
    struct bw_detector_config detect;
    const struct bw_instance_election *elections; /* borrowed for init */
    uint32_t count;                               /* at most BW_ELECTIONS_MAX */
    /* spread leadership of the elections evenly over the members (peer_balance.h); causes MOVE
     * actions */
    bool spread;
};

struct bw_instance;

size_t bw_instance_bytes(const struct bw_instance_config *config);
uint32_t bw_instance_actions_max(const struct bw_instance_config *config);
/* Lays out all modules in `memory`. Returns 0 and sets *out, or returns BW_EINVAL, BW_ELIMIT or
 * BW_ENOMEM. */
int bw_instance_init(struct bw_instance **out, void *memory,
                     const struct bw_instance_config *config);
/* A START event goes to all modules. With several elections, event->start is an array with one
 * element per election. */
void bw_instance_step(struct bw_instance *self, const struct bw_event *event,
                      struct bw_actions *actions);
bw_time bw_instance_deadline(const struct bw_instance *self);
void bw_instance_status(const struct bw_instance *self, uint32_t election,
                        struct bw_elector_status *out);
/* Whether we, the leader, would carry out a TRANSFER to `to`. */
bool bw_instance_ready(const struct bw_instance *self, uint32_t election, bw_node to);
/* The detector's verdict on `node`; ALIVE without a detector. */
enum bw_member_status bw_instance_member(const struct bw_instance *self, bw_node node);
double bw_instance_level(const struct bw_instance *self, bw_node node, bw_time now);
/* The modules, for callers that need their own interface (such as Raft's log); NULL past the
 * end. */
void *bw_instance_elector(struct bw_instance *self, uint32_t election);
void *bw_instance_detector(struct bw_instance *self);

#endif
