/* The parts of SWIM; swim.c describes the whole. */
#ifndef BW_CORE_DETECT_SWIM_SWIM_H
#define BW_CORE_DETECT_SWIM_SWIM_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/rng.h"
#include "core/detect/detector.h"
#include "core/detect/swim/lifeguard.h"

/* Members: members.c.
 *
 * Invariants:
 *   a member takes 16 bytes, so that 10,000 instances with 10,000 members each fit on one machine
 *   the table is sorted by id and does not contain self
 *   each member is in one of two queues, least recently probed first
 *   `before` and `after` are indexes into the table, or BW_SWIM_NONE at the ends of the queue */
struct bw_swim_member {
    bw_node id;
    uint32_t incarnation;
    uint16_t before, after;
    uint32_t status : 2;  /* enum bw_member_status */
    uint32_t probed : 30; /* period in which it was last chosen (modulo 2^30) */
};

#define BW_SWIM_NONE UINT16_MAX

struct bw_swim_queue {
    uint16_t head, tail;
    uint32_t count;
};

struct bw_swim_members {
    struct bw_swim_member *at;
    uint32_t count, cap;
    bw_node self;
    uint32_t period;                 /* number of own periods so far */
    struct bw_swim_queue live, dead; /* live: alive or suspect */
};

int bw_swim_members_init(struct bw_swim_members *members, struct bw_arena *arena,
                         const struct bw_detector_config *config, struct bw_rng *rng);
struct bw_swim_member *bw_swim_members_find(const struct bw_swim_members *members, bw_node id);
/* Returns the new row, or NULL if the id is known, is self, or the table is full. */
struct bw_swim_member *bw_swim_members_add(struct bw_swim_members *members, bw_node id);
bool bw_swim_members_remove(struct bw_swim_members *members, bw_node id);
/* Changes the status of a member and moves it between the queues. No other function may set the
 * status. */
void bw_swim_members_become(struct bw_swim_members *members, struct bw_swim_member *member,
                            enum bw_member_status status);
/* Begins a new period: returns the member to probe, or NULL if there are no members. */
struct bw_swim_member *bw_swim_members_choose(struct bw_swim_members *members, struct bw_rng *rng);
/* The member is probed before all others of its queue. */
void bw_swim_members_prioritize(struct bw_swim_members *members, struct bw_swim_member *member);
/* Chooses up to `count` different live members other than `target` at random; returns how many. */
uint32_t bw_swim_members_helpers(const struct bw_swim_members *members, struct bw_rng *rng,
                                 bw_node target, bw_node *out, uint32_t count);

/* Updates to disseminate: gossip.c. */
#define BW_SWIM_GOSSIP_MAX 64u

struct bw_swim_item {
    struct bw_swim_update update;
    uint32_t sent; /* how often it was sent */
};

struct bw_swim_gossip {
    uint32_t count;
    struct bw_swim_item at[BW_SWIM_GOSSIP_MAX]; /* in the order of sending, next first */
};

/* Queues an update to be sent next. Drops the queued updates of that node that it supersedes. */
void bw_swim_gossip_add(struct bw_swim_gossip *gossip, const struct bw_swim_update *update);
void bw_swim_gossip_drop(struct bw_swim_gossip *gossip, bw_node node);
/* Takes up to `max` updates, least often sent first, and counts them as sent. An update that was
 * sent 3 log10(n + 1) times is dropped. Returns how many were taken. */
uint32_t bw_swim_gossip_take(struct bw_swim_gossip *gossip, uint32_t members,
                             struct bw_swim_update *out, uint32_t max);

/* Whether `update` overrides a member's known status and incarnation (gossip.c). */
bool bw_swim_overrides(const struct bw_swim_update *update, enum bw_member_status status,
                       uint32_t incarnation);

/* Suspicions that wait for a refutation: suspicion_table.c. */
#define BW_SWIM_SUSPICIONS_MAX 256u

struct bw_swim_suspicion {
    bw_node node;
    uint32_t reports;
    bw_node by[BW_LIFEGUARD_CONFIRMATIONS + 1];
    uint32_t members; /* group size when the suspicion began */
    bw_time began_ns, due_ns;
};

struct bw_swim_suspicions {
    struct bw_swim_suspicion *at;
    uint32_t count, cap;
    bw_time earliest_ns; /* lower bound of all due times */
    bw_time period_ns;
    double alpha, beta;
};

void bw_swim_suspicions_init(struct bw_swim_suspicions *all, struct bw_arena *arena,
                             const struct bw_detector_config *config);
struct bw_swim_suspicion *bw_swim_suspicions_find(const struct bw_swim_suspicions *all,
                                                  bw_node node);
/* Begins a suspicion; the table must not be full. */
void bw_swim_suspicions_begin(struct bw_swim_suspicions *all, bw_node node, bw_node by,
                              uint32_t members, bw_time now);
/* Adds a report of a further member. Returns true if it is new: then it is worth disseminating. */
bool bw_swim_suspicions_confirm(struct bw_swim_suspicions *all, bw_node node, bw_node by);
void bw_swim_suspicions_end(struct bw_swim_suspicions *all, bw_node node);
/* The node of the oldest suspicion; BW_NODE_NONE if there is none. */
bw_node bw_swim_suspicions_oldest(const struct bw_swim_suspicions *all);
/* Ends one suspicion that is due and returns its node. Returns BW_NODE_NONE if none is due; then
 * the bound is exact. */
bw_node bw_swim_suspicions_due(struct bw_swim_suspicions *all, bw_time now);

/* The whole detector: swim.c. */
#define BW_SWIM_RELAYS_MAX   32u
#define BW_SWIM_PAYLOADS     4u /* maximum number of messages with updates that one step sends */
#define BW_SWIM_INDIRECT_MAX 16u

struct bw_swim_relay { /* a probe on behalf of another member */
    bw_node asker, target;
    uint64_t asked_seq, own_seq;
    bw_time due_ns;
};

struct bw_swim {
    bw_node self;
    uint32_t incarnation;
    uint32_t indirect;
    uint32_t starts, number; /* upper and lower half of a probe's seq */
    bw_time period_ns, ack_ns;
    bw_time start_ns;
    bw_time period_end_ns; /* NEVER: not started */
    bw_time ack_due_ns;    /* NEVER: acknowledged, or the helpers are already asked */
    bw_time relay_due_ns;  /* lower bound of all relays' due times */
    uint64_t seq;          /* of the current probe */
    bw_node target;        /* of the current probe; NONE: no probe */
    bool answered;
    uint32_t helpers, nacks;
    struct bw_lifeguard health;
    struct bw_rng rng;
    struct bw_swim_members members;
    struct bw_swim_suspicions suspicions;
    struct bw_swim_gossip gossip;
    uint32_t relays_count, payloads_used;
    struct bw_swim_relay relays[BW_SWIM_RELAYS_MAX];
    struct bw_swim_update payloads[BW_SWIM_PAYLOADS][BW_SWIM_UPDATES_MAX];
};

/* Status changes: state.c. These functions keep queues, suspicions and updates consistent. */

/* Applies an update on `member` if it overrides the known status. */
void bw_swim_apply(struct bw_swim *swim, struct bw_swim_member *member,
                   const struct bw_swim_update *update, bw_time now, struct bw_actions *actions);
/* Processes the sender's incarnation and the piggybacked updates of a message. */
void bw_swim_learn(struct bw_swim *swim, struct bw_swim_member *from, const struct bw_event *event,
                   struct bw_actions *actions);
void bw_swim_become_dead(struct bw_swim *swim, struct bw_swim_member *member, bw_node by,
                         struct bw_actions *actions);
void bw_swim_become_alive(struct bw_swim *swim, struct bw_swim_member *member,
                          struct bw_actions *actions);

/* Probes and replies: probe.c. */
void bw_swim_message(struct bw_swim *swim, const struct bw_event *event,
                     struct bw_actions *actions);
void bw_swim_time_out(struct bw_swim *swim, bw_time now, struct bw_actions *actions);

#endif
