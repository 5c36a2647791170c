/* The figures of a run. Each is defined and measured here only; table, JSON, story and picture read
 * the result, or the intervals of which it is the sum (struct bw_sim_interval).
 *
 * A node *leads* from its announcement that it leads until it announces otherwise or dies. A leader
 * *acts* while it runs (is not paused) and the time is within the window of its announcement.
 *
 *     leaderless       total time without a leader that runs
 *     longest_gap      the longest such interval after the first leader
 *     none_acted       total time in which no node acted
 *     split_brain      total time in which two or more nodes acted
 *     max_leaders      most leaders at one time; if the algorithm promises exclusion, most open
 *                      windows at one time, also of paused nodes: they act when they resume
 *     leader_changes   leaderships that began and were not of the same node as the one before
 *
 * The next times count from the last fault that hit the leader (crash, pause, leave, loss of the
 * majority), or else from the start. The *winner* is the first node that began to lead after that
 * and that all running nodes then followed.
 *
 *     noticed          until another node suspected the leader, became a candidate or stopped
 *                      following the leader, or a node began to lead; NEVER without such a fault
 *     time_to_leader   until the winner began to lead. Without a winner: until any node did. 0 if
 *                      the leader kept leadership in spite of the fault
 *     time_to_act      until this leader first acted
 *     time_to_agree    until all running nodes followed the winner
 *
 * So noticed <= time_to_leader <= time_to_act if there was such a fault, and time_to_leader <=
 * time_to_agree.
 *
 *     detection_first  from the latest failure of any node until a node that should notice it
 *     detection_all    suspects it, and until all live ones do (failure detectors only)
 *
 * With several elections only the first is measured. */
#ifndef BW_SIM_FIGURES_METRICS_H
#define BW_SIM_FIGURES_METRICS_H

#include "core/base/arena.h"
#include "sim/sim.h"

/* A live node that claims to lead. Invariants: acts == (open && running); open == (from <= last &&
 * last < until). */
struct bw_sim_leading {
    bw_node node;
    bool running; /* not paused */
    bool open, acts;
    bw_time from, until;        /* window in which it may act, on the world's clock */
    bw_time led_from, act_from; /* begin of the open intervals LED and ACTED */
    bw_term term;
};

struct bw_sim_metrics {
    struct bw_sim_result *result;
    const struct bw_sim_observer *observer; /* gets the intervals, or NULL */
    bool exclusive; /* the algorithm guarantees exclusion: leaders are counted by their windows */
    uint32_t slots;
    bw_time last; /* all sums are complete up to here */
    struct bw_sim_leading *leading;
    uint32_t leading_count, running_count;
    bw_node previous;              /* the node that most recently began to lead */
    bw_time gap;                   /* time without a leader since then */
    struct bw_sim_interval phase;  /* how many act; `to` is not set yet */
    struct bw_sim_interval agreed; /* node: the leader that all follow, or none */
    /* Times since the last fault of the leader. */
    bw_time since;
    bw_node hit;      /* the leader that the fault hit, or none */
    bw_node winner;   /* or none yet */
    bw_time *claimed; /* [node]: first leadership since then; NEVER: none */
    bw_time *acted;   /* [node]: when it first acted in such a leadership; NEVER: it did not */
    bw_node first;    /* the node of the first leadership, or none */
    /* Detection of the latest failed node. */
    bw_node victim;
    bw_time failed_at;
    uint8_t *state; /* [node]: flags, see metrics.c */
    uint32_t live;
    double live_ns;
};

void bw_sim_metrics_init(struct bw_sim_metrics *metrics, struct bw_arena *arena, uint32_t slots,
                         bool exclusive, struct bw_sim_result *result);

/* The node is live and runs, is live but paused, or is dead. */
void bw_sim_metrics_node(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool live,
                         bool running);
/* The node claims to lead with this window from now on. `begins`: a new leadership. */
void bw_sim_metrics_leads(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool begins,
                          bw_term term, bw_time from, bw_time until);
/* The node does not or no longer claim to lead. */
void bw_sim_metrics_yields(struct bw_sim_metrics *metrics, bw_time now, bw_node node);
/* The node follows `leader` from now on; none: it is a candidate or knows no leader. */
void bw_sim_metrics_follows(struct bw_sim_metrics *metrics, bw_time now, bw_node node,
                            bw_node leader);
/* The node has a sign that `target` failed. */
void bw_sim_metrics_sign(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bw_node target);
/* All `count` running nodes follow `leader`, or do not agree (none). */
void bw_sim_metrics_agreed(struct bw_sim_metrics *metrics, bw_time now, bw_node leader,
                           uint32_t count);
/* A fault has hit the leader `hit`: times count from now. None: there is no leader to hit. */
void bw_sim_metrics_leader_hit(struct bw_sim_metrics *metrics, bw_time now, bw_node hit);
/* `victim` has failed and other nodes should notice; calls for the observing nodes follow. */
void bw_sim_metrics_fail(struct bw_sim_metrics *metrics, bw_time now, bw_node victim);
void bw_sim_metrics_watcher(struct bw_sim_metrics *metrics, bw_node node);
/* Returns the last victim if some observing node has not noticed its failure yet; else none. */
bw_node bw_sim_metrics_unnoticed(const struct bw_sim_metrics *metrics);
void bw_sim_metrics_suspected(struct bw_sim_metrics *metrics, bw_time now, bw_node node,
                              bw_node target, bool suspect);
/* Ends the run. `leader`: the leader that all agree on, or none. Reports all open intervals; calls
 * may follow if the world goes on. */
void bw_sim_metrics_finish(struct bw_sim_metrics *metrics, bw_time now, bw_node leader,
                           bw_time period_ns);

#endif
