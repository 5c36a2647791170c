/* A small world for electors under test: fixed latency, first in first out, virtual time. It runs N
 * instances of one algorithm with ids 1..N, counts messages by kind, reports failed sends to dead
 * nodes, and keeps each node's durable record. Messages are lost only if a test asks for it. */
#ifndef BW_TESTS_UNIT_CORE_ELECT_RING_PUMP_H
#define BW_TESTS_UNIT_CORE_ELECT_RING_PUMP_H

#include "core/elect/elector.h"

#include "unit/unit.h"

#include <stdlib.h>

#define PUMP_NODES   80u
#define PUMP_FLIGHT  16384u
#define PUMP_LATENCY BW_MS

struct pump_message {
    bw_time at;
    bool failed; /* returns as SEND_FAILED */
    struct bw_message msg;
    bw_node list[PUMP_NODES];
};

struct pump_node {
    void *memory;
    bool dead;
    struct bw_durable durable;
    struct bw_announcement announced; /* last announcement */
    bw_time led_at;                   /* when it last became leader */
    uint32_t announcements, losses;
    enum bw_loss last_loss;
};

struct pump {
    const struct bw_elector_ops *ops;
    struct bw_elector_config config;
    uint32_t count;
    bw_time now;
    struct pump_node nodes[PUMP_NODES + 1];
    struct bw_member members[PUMP_NODES];
    struct pump_message *flight; /* a ring buffer; in order, because the latency is fixed */
    uint32_t first, pending;
    uint64_t sent[BW_MSG_COUNT], delivered, failed, elections;
    uint32_t leaders_most; /* maximum number of simultaneous leaders, by their own announcements */
    bool (*lost)(const struct bw_message *msg); /* decides which messages are lost; NULL: none */
    struct bw_actions actions;
};

static inline void pump_carry_out(struct pump *p, bw_node self);

static inline void pump_step(struct pump *p, bw_node self, struct bw_event event)
{
    event.now = p->now;
    p->actions.count = 0;
    p->ops->step(p->nodes[self].memory, &event, &p->actions);
    pump_carry_out(p, self);
}

static inline void pump_post(struct pump *p, const struct bw_message *msg, bw_time at, bool failed)
{
    assert_true(p->pending < PUMP_FLIGHT);
    struct pump_message *slot = &p->flight[(p->first + p->pending++) % PUMP_FLIGHT];
    slot->at = at;
    slot->failed = failed;
    slot->msg = *msg;
    if (msg->items > 0) {
        assert_true(msg->items <= PUMP_NODES);
        memcpy(slot->list, msg->data, msg->items * sizeof(bw_node));
    }
    slot->msg.data = slot->list;
}

static inline void pump_send(struct pump *p, const struct bw_message *msg)
{
    assert_in_range(msg->to, 1, p->count);
    assert_int_not_equal(msg->to, msg->from);
    p->sent[msg->kind]++;
    if (p->lost && p->lost(msg))
        return;
    pump_post(p, msg, p->now + PUMP_LATENCY, false);
}

static inline void pump_receive(struct pump *p, bw_node self, const struct bw_announcement *a)
{
    struct pump_node *node = &p->nodes[self];
    if (a->leader == self && node->announced.leader != self)
        node->led_at = p->now;
    if (a->reason != BW_LOSS_NONE) {
        node->losses++;
        node->last_loss = a->reason;
    }
    node->announced = *a;
    node->announcements++;
    uint32_t leaders = 0;
    for (bw_node id = 1; id <= p->count; id++)
        leaders += !p->nodes[id].dead && p->nodes[id].announced.leader == id;
    if (leaders > p->leaders_most)
        p->leaders_most = leaders;
}

static inline void pump_carry_out(struct pump *p, bw_node self)
{
    for (uint32_t i = 0; i < p->actions.count; i++) {
        const struct bw_action *action = &p->actions.at[i];
        if (action->kind == BW_ACTION_PERSIST)
            p->nodes[self].durable = action->durable;
        else if (action->kind == BW_ACTION_SEND)
            pump_send(p, &action->msg);
        else if (action->kind == BW_ACTION_ANNOUNCE)
            pump_receive(p, self, &action->announce);
        else if (action->kind == BW_ACTION_TRACE && action->trace.code == BW_TRACE_ELECTION)
            p->elections++;
    }
}

static inline void pump_boot(struct pump *p, bw_node id, bool passive, bw_node leader)
{
    struct bw_elector_config config = p->config;
    struct pump_node *node = &p->nodes[id];
    config.self = id;
    config.seed = id * 7919u;
    free(node->memory);
    node->memory = malloc(p->ops->bytes(&config));
    node->dead = false;
    node->announced = (struct bw_announcement){0};
    assert_int_equal(p->ops->init(node->memory, &config), 0);
    struct bw_start start = {.durable = node->durable, .leader = leader, .passive = passive};
    pump_step(p, id, (struct bw_event){.kind = BW_EVENT_START, .start = &start});
}

/* `order` is borrowed for the lifetime of the pump; NULL: by id. No node is started yet. */
static inline struct pump *pump_new(const struct bw_elector_ops *ops, uint32_t count,
                                    const bw_node *order)
{
    struct pump *p = calloc(1, sizeof *p);
    p->ops = ops;
    p->count = count;
    p->flight = malloc(PUMP_FLIGHT * sizeof *p->flight);
    for (uint32_t i = 0; i < PUMP_NODES; i++)
        p->members[i].id = i + 1;
    p->config = (struct bw_elector_config){
        .members = p->members, .count = count, .cap = PUMP_NODES, .order = order};
    bw_elector_defaults(&p->config, PUMP_LATENCY, 100 * BW_MS);
    p->actions.cap = ops->actions_max(&p->config);
    p->actions.at = malloc(p->actions.cap * sizeof *p->actions.at);
    return p;
}

static inline void pump_free(struct pump *p)
{
    for (uint32_t i = 1; i <= PUMP_NODES; i++)
        free(p->nodes[i].memory);
    free(p->actions.at);
    free(p->flight);
    free(p);
}

static inline void pump_boot_all(struct pump *p, bool passive, bw_node leader)
{
    for (bw_node id = 1; id <= p->count; id++)
        pump_boot(p, id, passive, leader);
}

static inline void pump_command(struct pump *p, bw_node id, enum bw_command_kind kind, bw_node node)
{
    pump_step(p, id,
              (struct bw_event){.kind = BW_EVENT_COMMAND, .command = {.kind = kind, .node = node}});
}

/* Sends the event to every live node except `about`. */
static inline void pump_event_all(struct pump *p, enum bw_event_kind kind, bw_node about)
{
    for (bw_node id = 1; id <= p->count; id++)
        if (id != about && !p->nodes[id].dead && p->nodes[id].memory)
            pump_step(p, id, (struct bw_event){.kind = kind, .node = about});
}

static inline void pump_kill(struct pump *p, bw_node id)
{
    p->nodes[id].dead = true;
}

static inline void pump_deliver(struct pump *p)
{
    struct pump_message *m = &p->flight[p->first];
    struct bw_message msg = m->msg;
    bw_node list[PUMP_NODES];
    bool failed = m->failed;
    memcpy(list, m->list, sizeof list);
    msg.data = list;
    p->first = (p->first + 1) % PUMP_FLIGHT;
    p->pending--;
    bw_node at = failed ? msg.from : msg.to;
    if (p->nodes[at].dead || !p->nodes[at].memory) {
        if (!failed) {
            p->failed++;
            pump_post(p, &msg, p->now + PUMP_LATENCY, true);
        }
        return;
    }
    if (!failed)
        p->delivered++;
    pump_step(p, at,
              (struct bw_event){.kind = failed ? BW_EVENT_SEND_FAILED : BW_EVENT_MESSAGE,
                                .node = failed ? msg.to : msg.from,
                                .msg = &msg});
}

static inline bw_node pump_due(const struct pump *p, bw_time *at)
{
    bw_node who = BW_NODE_NONE;
    *at = BW_TIME_NEVER;
    for (bw_node id = 1; id <= p->count; id++) {
        if (p->nodes[id].dead || !p->nodes[id].memory)
            continue;
        bw_time deadline = p->ops->deadline(p->nodes[id].memory);
        if (deadline < *at) {
            *at = deadline;
            who = id;
        }
    }
    return who;
}

/* Runs until `until`; at the same instant, messages come before timers. */
static inline void pump_run(struct pump *p, bw_time until)
{
    for (;;) {
        bw_time due;
        bw_node who = pump_due(p, &due);
        bw_time next = p->pending > 0 ? p->flight[p->first].at : BW_TIME_NEVER;
        if (bw_time_min(due, next) > until)
            break;
        p->now = bw_time_max(p->now, bw_time_min(due, next));
        if (next <= due)
            pump_deliver(p);
        else
            pump_step(p, who, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    }
    p->now = until;
}

/* The leader that all live nodes name, or none. */
static inline bw_node pump_agreed(const struct pump *p)
{
    bw_node leader = BW_NODE_NONE;
    for (bw_node id = 1; id <= p->count; id++) {
        if (p->nodes[id].dead || !p->nodes[id].memory)
            continue;
        if (leader && p->nodes[id].announced.leader != leader)
            return BW_NODE_NONE;
        leader = p->nodes[id].announced.leader;
    }
    return leader;
}

static inline uint64_t pump_total(const struct pump *p)
{
    uint64_t total = 0;
    for (unsigned kind = 0; kind < BW_MSG_COUNT; kind++)
        total += p->sent[kind];
    return total;
}

static inline struct bw_elector_status pump_status(const struct pump *p, bw_node id)
{
    struct bw_elector_status status;
    p->ops->status(p->nodes[id].memory, &status);
    return status;
}

#endif
