/* The plan of one storm, shared by the files that draw it: storm.c draws all storms. storm_wide.c
 * and storm_lease.c add the wider plan of every second one; storm_duplicate_id.c adds second
 * processes under one id. */
#ifndef BW_SIM_FAULTS_STORM_PLAN_H
#define BW_SIM_FAULTS_STORM_PLAN_H

#include "core/base/rng.h"
#include "sim/faults/storm.h"
#include "sim/stores/lease.h"

#define BW_STORM_NODES_MAX 8u
/* lease: stores have the ids after the nodes */
#define BW_STORM_IDS_MAX        (BW_STORM_NODES_MAX + BW_SIM_STORES_MAX)
#define BW_STORM_PARTITIONS_MAX 32u
/* Number of faults up to which a storm draws more. The remaining space is for the events that end
 * the faults, and for those shortly before the end of the idle time. */
#define BW_STORM_DRAWN_MAX 512u
/* time for each member that is unable to lead to get its turn and resign, at one a second */
#define BW_STORM_TURNS_NS ((bw_time)BW_STORM_NODES_MAX * BW_SEC)

struct storm {
    struct bw_rng rng;
    struct bw_sim_config config;
    struct bw_sim_fault faults[BW_SIM_FAULTS_MAX];
    uint32_t count;
    uint8_t groups[BW_STORM_PARTITIONS_MAX][BW_STORM_IDS_MAX + 1];
    uint32_t partitions;
    bw_time
        busy[BW_STORM_IDS_MAX + 1]; /* [node]: end of its last fault; it gets no other one before */
    uint32_t present;               /* highest id that has started */
    uint32_t left;                  /* number of members that left */
    uint32_t changes;               /* number of membership changes still allowed */
    bw_node chosen[BW_STORM_NODES_MAX]; /* candidates or alternatives */
    bool frantic;    /* short timeouts, and faults that hit elections and writes in progress */
    bool wide;       /* the wider plan: see storm_wide.c */
    bool unable;     /* some members are unable to lead: see storm_unable.c */
    bool lasting;    /* promises are long, and work takes long to end: see storm_wide.c */
    bool wide_lease; /* the wider plan of leases: see storm_lease.c */
    struct bw_rng wide_rng, second_rng;
    bw_time end; /* end of the faults */
    uint32_t stores;
};

/* storm.c */
/* Returns whether any node can become the successor, and stays leader then. */
bool bw_storm_any_can_succeed(const struct bw_elector_ops *algorithm);
/* Adds a fault, to be filled in; the list is sorted later. */
struct bw_sim_fault *bw_storm_add(struct storm *s, enum bw_sim_fault_kind kind, bw_time at,
                                  bw_node node);

/* Returns until when a fault of the wider plan that begins at `at` lasts: never past the end. */
static inline bw_time bw_storm_until(const struct storm *s, bw_time at, bw_time span)
{
    return bw_time_min(bw_time_add(at, span), s->end);
}

/* storm_lease.c */
/* Returns whether the seed draws the wider plan of leases, and prepares its random numbers. */
bool bw_storm_is_wide_lease(struct storm *s, const struct bw_elector_ops *algorithm, uint64_t seed);
void bw_storm_lease_config(struct storm *s, const struct bw_sim_lease *fixed);
bool bw_storm_lease_trouble(struct storm *s, bw_time at);

/* storm_duplicate_id.c */
/* Decides whether processes run under an id that another process has. Called after all other
 * settings are drawn. */
void bw_storm_second_config(struct storm *s, const struct bw_storm_fixed *fixed);
/* Adds the starts and ends of these processes. */
void bw_storm_second(struct storm *s);

/* storm_unable.c */
/* Returns whether the members of this storm can be unable to lead. */
bool bw_storm_may_be_unable(const struct bw_sim_config *config);
/* Adds the times in which members are unable to lead. */
void bw_storm_unable(struct storm *s);

/* storm_wide.c */
/* Returns whether the seed draws the wider plan, and prepares its random numbers. */
bool bw_storm_is_wide(struct storm *s, const struct bw_elector_ops *algorithm,
                      const struct bw_storm_fixed *fixed, uint64_t seed);
/* Adds the settings of the wider plan to those that are drawn already. */
void bw_storm_wide_config(struct storm *s);
/* Adds a fault of the wider plan; returns false if the storm should draw another one. */
bool bw_storm_wide_trouble(struct storm *s, bw_time at);
/* Storms with shards: in half of the seeds, the work of all shards dies, one after the other. */
void bw_storm_kill_shards(struct storm *s);
/* Wide storms of Raft with three founders begin with a member that comes back and is cut off before
 * it has caught up. Returns when the other faults may begin. */
bw_time bw_storm_return_behind(struct storm *s);
/* Wide storms: nodes lead, are replaced, and lead again while their first work may still run. The
 * plan has its own random numbers, so the other faults of a seed stay the same. */
void bw_storm_lead_again(struct storm *s);
/* Adds what happens shortly before the end of the idle time. */
void bw_storm_wide_end(struct storm *s, bw_time quiet_end);

#endif
