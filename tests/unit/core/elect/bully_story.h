/* Initial situations of the bully tests, on the pump that the ring tests use too. */
#ifndef BW_TESTS_UNIT_CORE_ELECT_BULLY_STORY_H
#define BW_TESTS_UNIT_CORE_ELECT_BULLY_STORY_H

#include "ring_pump.h"

/* Members 1..n whose leader is n. n has just died, and only the initiator has noticed. */
static inline struct pump *leader_died(const struct bw_elector_ops *ops, uint32_t n)
{
    struct pump *p = pump_new(ops, n, NULL);
    p->config.cap = n;
    pump_boot_all(p, true, n);
    pump_kill(p, n);
    return p;
}

/* The same group with a live leader: `leader` knows that it leads. */
static inline struct pump *settled(const struct bw_elector_ops *ops, uint32_t n, bw_node leader)
{
    struct pump *p = pump_new(ops, n, NULL);
    p->config.cap = n;
    pump_boot_all(p, true, leader);
    return p;
}

static inline void suspect(struct pump *p, bw_node at, bw_node whom)
{
    pump_step(p, at, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = whom});
}

static inline void trust(struct pump *p, bw_node at, bw_node whom)
{
    pump_step(p, at, (struct bw_event){.kind = BW_EVENT_TRUST, .node = whom});
}

static inline void run_for(struct pump *p, bw_time span)
{
    pump_run(p, p->now + span);
}

/* Delivers a message that no node sent in this run: late, repeated or wrong. */
static inline void receive(struct pump *p, bw_node at, enum bw_message_kind kind, bw_node from,
                           bw_term term, bw_node leader)
{
    struct bw_message msg = {.kind = (uint8_t)kind, .from = from, .to = at, .term = term};
    msg.bully.leader = leader;
    pump_step(p, at, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = from, .msg = &msg});
}

/* Partition: nodes up to `split_at` and those above cannot reach each other. 0: no partition. */
static bw_node split_at;

static inline bool across(const struct bw_message *msg)
{
    return split_at && (msg->from <= split_at) != (msg->to <= split_at);
}

/* The detectors on both sides suspect the other side (SUSPECT) or trust it again (TRUST). */
static inline void both_sides(struct pump *p, bw_node border, enum bw_event_kind kind)
{
    for (bw_node at = 1; at <= p->count; at++)
        for (bw_node whom = 1; whom <= p->count; whom++)
            if ((at <= border) != (whom <= border))
                pump_step(p, at, (struct bw_event){.kind = kind, .node = whom});
}

/* Splits at `border`, waits, heals, waits. */
static inline void split_and_heal(struct pump *p, bw_node border)
{
    p->lost = across;
    split_at = border;
    both_sides(p, border, BW_EVENT_SUSPECT);
    run_for(p, 2 * BW_SEC);
    split_at = 0;
    both_sides(p, border, BW_EVENT_TRUST);
    run_for(p, BW_SEC);
}

/* All live nodes name `leader` with the same epoch; it leads, and no other node does. */
static inline void assert_all_follow(struct pump *p, bw_node leader)
{
    bw_term term = pump_status(p, leader).term;
    for (bw_node id = 1; id <= p->count; id++) {
        if (p->nodes[id].dead)
            continue;
        struct bw_elector_status status = pump_status(p, id);
        assert_int_equal(status.leader, leader);
        assert_int_equal(status.leading, id == leader);
        assert_int_equal(status.term, term);
        assert_int_equal(p->nodes[id].announced.leader, leader);
        assert_int_equal(p->nodes[id].durable.term, term);
    }
}

#endif
