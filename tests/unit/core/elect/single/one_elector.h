/* One instance of an elector for the unit tests: the test plays the network, the detector and the
 * clock. By default it is member 2 of 1, 2 and 3. */
#ifndef BW_TESTS_UNIT_CORE_ELECT_SINGLE_ONE_ELECTOR_H
#define BW_TESTS_UNIT_CORE_ELECT_SINGLE_ONE_ELECTOR_H

#include "unit/unit.h"

#include "core/base/error.h"
#include "core/elect/elector.h"

#include <stdlib.h>

#define MEMBERS 3u
#define CAP     5u
#define PERIOD  (100 * BW_MS)

struct world {
    const struct bw_elector_ops *ops;
    struct bw_elector_config config;
    struct bw_member members[CAP + 1];
    void *memory;
    struct bw_action *at;
    struct bw_actions actions;
    bw_time now;
};

static inline void prepare(struct world *w, const struct bw_elector_ops *ops)
{
    *w = (struct world){.ops = ops, .now = BW_SEC};
    for (uint32_t i = 0; i <= CAP; i++)
        w->members[i] = (struct bw_member){.id = i + 1};
    w->config = (struct bw_elector_config){
        .self = 2, .members = w->members, .count = MEMBERS, .cap = CAP, .seed = 3};
    bw_elector_defaults(&w->config, 5 * BW_MS, PERIOD);
}

static inline int open(struct world *w)
{
    w->memory = aligned_alloc(16, (w->ops->bytes(&w->config) + 31) & ~(size_t)15);
    w->at = calloc(w->ops->actions_max(&w->config), sizeof w->at[0]);
    return w->ops->init(w->memory, &w->config);
}

static inline void close_world(struct world *w)
{
    free(w->memory);
    free(w->at);
}

static inline void step(struct world *w, struct bw_event event)
{
    event.now = w->now;
    w->actions = (struct bw_actions){.at = w->at, .cap = w->ops->actions_max(&w->config)};
    w->ops->step(w->memory, &event, &w->actions);
}

static inline void start(struct world *w, bool passive)
{
    struct bw_start begin = {.passive = passive, .durable = {.starts = 1}};
    step(w, (struct bw_event){.kind = BW_EVENT_START, .start = &begin});
}

/* Whether the last step did anything that others could notice. */
static inline bool acted(const struct world *w)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind != BW_ACTION_TRACE)
            return true;
    return false;
}

static inline void ignores(struct world *w, struct bw_event event, const char *what)
{
    step(w, event);
    if (acted(w))
        fail_msg("%s does not ignore %s", w->ops->name, what);
}

static inline void receive(struct world *w, struct bw_message msg)
{
    msg.to = w->config.self;
    step(w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = msg.from, .msg = &msg});
}

static inline void send_failed(struct world *w, struct bw_message msg)
{
    msg.from = w->config.self;
    step(w, (struct bw_event){.kind = BW_EVENT_SEND_FAILED, .node = msg.to, .msg = &msg});
}

/* The detector or the transport reports something about `node`, or it joins or leaves. */
static inline void about(struct world *w, enum bw_event_kind kind, bw_node node)
{
    struct bw_event event = {.kind = kind, .node = node};
    if (kind == BW_EVENT_JOIN)
        event.member.id = node;
    step(w, event);
}

static inline void command(struct world *w, enum bw_command_kind kind, bw_node node)
{
    step(w, (struct bw_event){.kind = BW_EVENT_COMMAND, .command = {.kind = kind, .node = node}});
}

static inline void time_passes(struct world *w)
{
    w->now = w->ops->deadline(w->memory);
    assert_true(w->now < BW_TIME_NEVER);
    step(w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
}

/* The first message of that kind in the last step, or NULL. */
static inline const struct bw_message *sent(const struct world *w, enum bw_message_kind kind)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == BW_ACTION_SEND && w->at[i].msg.kind == kind)
            return &w->at[i].msg;
    return NULL;
}

/* The number of messages in the last step. */
static inline uint32_t messages(const struct world *w)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->actions.count; i++)
        count += w->at[i].kind == BW_ACTION_SEND;
    return count;
}

/* The last announcement of the last step, or NULL. */
static inline const struct bw_announcement *announced(const struct world *w)
{
    for (uint32_t i = w->actions.count; i > 0; i--)
        if (w->at[i - 1].kind == BW_ACTION_ANNOUNCE)
            return &w->at[i - 1].announce;
    return NULL;
}

/* Whether the last step left this trace record. */
static inline bool traced(const struct world *w, enum bw_trace_code code)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == BW_ACTION_TRACE && w->at[i].trace.code == code)
            return true;
    return false;
}

static inline struct bw_elector_status status_of(const struct world *w)
{
    struct bw_elector_status status;
    w->ops->status(w->memory, &status);
    return status;
}

#endif
