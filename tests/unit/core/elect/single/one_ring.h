/* One instance of a ring election for the unit tests: member 2 of the ring 1, 2, 3, 4. */
#ifndef BW_TESTS_UNIT_CORE_ELECT_SINGLE_ONE_RING_H
#define BW_TESTS_UNIT_CORE_ELECT_SINGLE_ONE_RING_H

#include "one_elector.h"

static const struct bw_elector_ops *const rings[] = {&bw_elect_ring_list, &bw_elect_ring_max,
                                                     &bw_elect_ring_chang_roberts,
                                                     &bw_elect_ring_hirschberg_sinclair};

static inline void prepare_ring(struct world *w, const struct bw_elector_ops *ops)
{
    prepare(w, ops);
    w->config.count = 4;
    bw_elector_defaults(&w->config, 5 * BW_MS, PERIOD);
}

static inline void open_ring(struct world *w, const struct bw_elector_ops *ops)
{
    prepare_ring(w, ops);
    assert_int_equal(open(w), 0);
    start(w, true);
}

static inline void coordinator(struct world *w, bw_term term, bw_node initiator, bw_node best,
                               uint8_t flags)
{
    receive(w, (struct bw_message){.kind = BW_MSG_RING_COORDINATOR,
                                   .flags = flags,
                                   .from = 1,
                                   .term = term,
                                   .ring = {.initiator = initiator, .best = best, .hops = 1}});
}

static inline void election(struct world *w, bw_term term, bw_node initiator, bw_node best,
                            uint32_t hops)
{
    receive(w, (struct bw_message){.kind = BW_MSG_RING_ELECTION,
                                   .from = 1,
                                   .term = term,
                                   .ring = {.initiator = initiator, .best = best, .hops = hops}});
}

static inline void election_with_list(struct world *w, bw_term term, bw_node initiator,
                                      const bw_node *list, uint32_t items)
{
    receive(w, (struct bw_message){.kind = BW_MSG_RING_ELECTION,
                                   .from = 1,
                                   .term = term,
                                   .data = list,
                                   .items = items,
                                   .ring = {.initiator = initiator, .hops = 1}});
}

static inline void hs(struct world *w, enum bw_message_kind kind, bw_term term,
                      struct bw_hs_part part, uint8_t flags)
{
    receive(w, (struct bw_message){
                   .kind = (uint8_t)kind, .flags = flags, .from = 1, .term = term, .hs = part});
}

/* Node 2 wins round 1 of the maximum ring. */
static inline void open_leader(struct world *w)
{
    open_ring(w, &bw_elect_ring_max);
    command(w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    election(w, 1, 2, 2, 4);
    assert_true(status_of(w).leading);
}

/* A message that the transport could not deliver. */
static inline struct bw_message undelivered(enum bw_message_kind kind, bw_term term, bw_node to,
                                            bw_node initiator)
{
    return (struct bw_message){.kind = (uint8_t)kind,
                               .to = to,
                               .term = term,
                               .ring = {.initiator = initiator, .best = initiator}};
}

#endif
