/* One instance: a detector and the electors that share it, as one decision module.
 *
 * The detector's SUSPECT and TRUST actions are handed to every elector within the same step and
 * stay in the list for whoever watches. Messages find their module by kind and election number. The
 * simulator and the peer run this very object; neither knows which algorithms are inside. */
#ifndef BW_ELECT_INSTANCE_H
#define BW_ELECT_INSTANCE_H

#include "core/detect/detector.h"
#include "core/elect/elector.h"

struct bw_instance_election {
    const struct bw_elector_ops *ops;
    struct bw_elector_config config;
};

struct bw_instance_config {
    const struct bw_detector_ops
        *detector; /* NULL: none; electors then rely on their own timers and events */
    struct bw_detector_config detect;
    const struct bw_instance_election *elections; /* borrowed for init */
    uint32_t count;                               /* at most BW_ELECTIONS_MAX */
    bool spread; /* the members lead about as many elections each, see balance.h: MOVE actions */
};

struct bw_instance;

size_t bw_instance_bytes(const struct bw_instance_config *config);
uint32_t bw_instance_actions_max(const struct bw_instance_config *config);
/* Lays everything out in `memory`. Returns 0 and sets *out, or BW_EINVAL, BW_ELIMIT, BW_ENOMEM. */
int bw_instance_init(struct bw_instance **out, void *memory,
                     const struct bw_instance_config *config);
/* A START event reaches all modules; with several elections, event->start is an array with one per
 * election. */
void bw_instance_step(struct bw_instance *self, const struct bw_event *event,
                      struct bw_actions *actions);
bw_time bw_instance_deadline(const struct bw_instance *self);
void bw_instance_status(const struct bw_instance *self, uint32_t election,
                        struct bw_elector_status *out);
/* We lead: would a TRANSFER to `to` be carried out? */
bool bw_instance_ready(const struct bw_instance *self, uint32_t election, bw_node to);
/* What the detector says of `node`; ALIVE when there is no detector. */
enum bw_member_status bw_instance_member(const struct bw_instance *self, bw_node node);
double bw_instance_level(const struct bw_instance *self, bw_node node, bw_time now);
/* The modules inside, for callers that need one's own interface (Raft's log); NULL past the end. */
void *bw_instance_elector(struct bw_instance *self, uint32_t election);
void *bw_instance_detector(struct bw_instance *self);

#endif
