/* One instance of the quorum guard for the unit tests. A fake inner elector names the leader, and
 * the test plays the network. Five members, T = 1 s, drift 1 %. */
#ifndef BW_TESTS_UNIT_CORE_ELECT_GUARD_WORLD_H
#define BW_TESTS_UNIT_CORE_ELECT_GUARD_WORLD_H

#include "unit/unit.h"

#include "core/base/drift.h"
#include "core/base/error.h"
#include "core/elect/elector.h"

#include <string.h>

/* The inner elector: on HINT(node) it announces that node. */
static inline size_t inner_bytes(const struct bw_elector_config *config)
{
    (void)config;
    return 16;
}

static inline uint32_t inner_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return 1;
}

static inline int inner_init(void *memory, const struct bw_elector_config *config)
{
    (void)memory;
    (void)config;
    return 0;
}

static inline void inner_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    (void)self;
    if (event->kind == BW_EVENT_HINT)
        bw_actions_announce(actions, &(struct bw_announcement){.leader = event->node});
}

static inline bw_time inner_deadline(const void *self)
{
    (void)self;
    return BW_TIME_NEVER;
}

static inline void inner_status(const void *self, struct bw_elector_status *out)
{
    (void)self;
    memset(out, 0, sizeof *out);
}

static const struct bw_elector_ops inner = {.name = "inner",
                                            .bytes = inner_bytes,
                                            .actions_max = inner_actions_max,
                                            .init = inner_init,
                                            .step = inner_step,
                                            .deadline = inner_deadline,
                                            .status = inner_status};

#define T       BW_SEC
#define MEMBERS 5

struct world {
    _Alignas(16) unsigned char memory[4096];
    struct bw_action at[64];
    struct bw_actions actions;
    struct bw_durable disk;
};

static const struct bw_member members[MEMBERS] = {
    {.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}, {.id = 5}};

static inline struct bw_elector_config config_for(bw_node self)
{
    struct bw_elector_config config = {
        .self = self, .members = members, .count = MEMBERS, .cap = 8, .inner = &inner, .seed = 1};
    bw_elector_defaults(&config, 5 * BW_MS, 100 * BW_MS);
    config.promise_ns = T;
    config.cap = 8;
    return config;
}

static inline void step(struct world *w, const struct bw_event *event)
{
    w->actions = (struct bw_actions){.at = w->at, .cap = 64};
    bw_elect_guard.step(w->memory, event, &w->actions);
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == BW_ACTION_PERSIST)
            w->disk = w->at[i].durable;
}

static inline void start(struct world *w, bw_node self, bw_time now)
{
    struct bw_elector_config config = config_for(self);
    assert_true(bw_elect_guard.bytes(&config) <= sizeof w->memory);
    assert_int_equal(bw_elect_guard.init(w->memory, &config), 0);
    struct bw_start begin = {.durable = w->disk};
    step(w, &(struct bw_event){.kind = BW_EVENT_START, .now = now, .start = &begin});
}

static inline void inner_names(struct world *w, bw_node node, bw_time now)
{
    step(w, &(struct bw_event){.kind = BW_EVENT_HINT, .now = now, .node = node});
}

static inline void receive(struct world *w, bw_time now, const struct bw_message *msg)
{
    step(w, &(struct bw_event){.kind = BW_EVENT_MESSAGE, .now = now, .msg = msg});
}

static inline void claim_from(struct world *w, bw_time now, bw_node from, bw_term epoch)
{
    struct bw_message msg = {.kind = BW_MSG_CLAIM, .from = from, .to = 1, .term = epoch};
    receive(w, now, &msg);
}

static inline void promise_from(struct world *w, bw_time now, bw_node from, bw_term epoch,
                                bw_time echo)
{
    struct bw_message msg = {
        .kind = BW_MSG_PROMISE, .flags = BW_FLAG_YES, .from = from, .to = 1, .term = epoch};
    msg.promise.echo = echo;
    receive(w, now, &msg);
}

static inline const struct bw_action *first(const struct world *w, enum bw_action_kind kind)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == kind)
            return &w->at[i];
    return NULL;
}

static inline uint32_t count_sent(const struct world *w, enum bw_message_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->actions.count; i++)
        count += w->at[i].kind == BW_ACTION_SEND && w->at[i].msg.kind == kind;
    return count;
}

static inline const struct bw_message *reply(const struct world *w)
{
    const struct bw_action *sent = first(w, BW_ACTION_SEND);
    assert_non_null(sent);
    assert_int_equal(sent->msg.kind, BW_MSG_PROMISE);
    return &sent->msg;
}

/* The inner elector names node 1 at 1 s, and nodes 2 and 3 promise. */
static inline void make_leader(struct world *w)
{
    start(w, 1, 0);
    inner_names(w, 1, BW_SEC);
    promise_from(w, BW_SEC + 4 * BW_MS, 2, 1, BW_SEC);
    promise_from(w, BW_SEC + 8 * BW_MS, 3, 1, BW_SEC);
}

#endif
