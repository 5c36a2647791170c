/* The events of a run in order: always folded into a hash, written as text on request, and passed
 * to the observers.
 *
 * The hash covers values only, never padding or addresses. So it is the same for every run of the
 * same seed, with any observers. */
#ifndef BW_SIM_WORLD_TRACE_H
#define BW_SIM_WORLD_TRACE_H

#include "sim/sim.h"

#define BW_SIM_OBSERVERS_MAX 16u

struct bw_sim_trace {
    FILE *file;
    uint64_t hash;
    /* Observers of messages are in lists of their own: these callbacks run millions of times. */
    const struct bw_sim_observer *all[BW_SIM_OBSERVERS_MAX], *sent[BW_SIM_OBSERVERS_MAX],
        *delivered[BW_SIM_OBSERVERS_MAX];
    uint32_t all_count, sent_count, delivered_count;
};

void bw_sim_trace_init(struct bw_sim_trace *trace, FILE *file, uint64_t seed);
/* Adds an observer; observers are called in the order in which they were added. */
void bw_sim_trace_watch(struct bw_sim_trace *trace, const struct bw_sim_observer *observer);

void bw_sim_trace_sent(struct bw_sim_trace *trace, bw_time at, const struct bw_message *msg,
                       bw_time arrives);
void bw_sim_trace_delivered(struct bw_sim_trace *trace, bw_time at, const struct bw_message *msg);
void bw_sim_trace_announced(struct bw_sim_trace *trace, bw_time at, bw_node node, uint32_t election,
                            const struct bw_announcement *a, bw_time act_from, bw_time act_until);
void bw_sim_trace_suspected(struct bw_sim_trace *trace, bw_time at, bw_node node, bw_node target,
                            bool suspect, double level);
void bw_sim_trace_faulted(struct bw_sim_trace *trace, bw_time at, const struct bw_sim_fault *fault,
                          bw_node node);
void bw_sim_trace_wrote(struct bw_sim_trace *trace, bw_time at, bw_node node, bw_token token,
                        bool accepted, bool stale);
void bw_sim_trace_noted(struct bw_sim_trace *trace, bw_time at, bw_node node,
                        const struct bw_trace_note *note);
void bw_sim_trace_committed(struct bw_sim_trace *trace, bw_time at, bw_node node, uint32_t election,
                            bw_index index, uint64_t hash);
/* An internal step of the world without an observer callback: only hashed and written. */
void bw_sim_trace_stepped(struct bw_sim_trace *trace, bw_time at, bw_node node, const char *what,
                          uint64_t value);

/* Returns the name of a fault ("crash", ...). */
const char *bw_sim_fault_name(unsigned kind);

#endif
