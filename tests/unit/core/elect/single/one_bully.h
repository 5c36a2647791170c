/* One instance of the bully family for the unit tests: member 2 of 1, 2, 3, 4. */
#ifndef BW_TESTS_UNIT_CORE_ELECT_SINGLE_ONE_BULLY_H
#define BW_TESTS_UNIT_CORE_ELECT_SINGLE_ONE_BULLY_H

#include "one_elector.h"

#include "core/base/limits.h"

static const struct bw_elector_ops *const bullies[] = {
    &bw_elect_bully, &bw_elect_bully_notify, &bw_elect_bully_next, &bw_elect_bully_candidates};

static inline void prepare_bully(struct world *w, const struct bw_elector_ops *ops)
{
    prepare(w, ops);
    w->config.count = 4;
    bw_elector_defaults(&w->config, 5 * BW_MS, PERIOD);
}

/* Starts in a group that is in epoch 5 and whose leader is known, or none. */
static inline void start_with(struct world *w, bw_node leader)
{
    assert_int_equal(open(w), 0);
    struct bw_start begin = {.passive = true, .leader = leader, .durable = {.term = 5}};
    step(w, (struct bw_event){.kind = BW_EVENT_START, .start = &begin});
}

static inline void open_bully(struct world *w, const struct bw_elector_ops *ops, bw_node leader)
{
    prepare_bully(w, ops);
    start_with(w, leader);
}

static inline void bully(struct world *w, enum bw_message_kind kind, bw_node from, bw_term term,
                         bw_node leader)
{
    receive(w, (struct bw_message){
                   .kind = (uint8_t)kind, .from = from, .term = term, .bully = {.leader = leader}});
}

#endif
