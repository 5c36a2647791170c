/* Drives the shipped detectors in virtual time: a single one (struct solo), or a group over a
 * network with a fixed latency, cut links and crashes (struct group). */
#ifndef BW_TESTS_UNIT_CORE_DETECT_DETECT_PUMP_H
#define BW_TESTS_UNIT_CORE_DETECT_DETECT_PUMP_H

#include "core/base/rng.h"
#include "core/detect/detector.h"
#include "unit/unit.h"

#include <stdlib.h>

#define PUMP_VERDICTS 256

struct verdict {
    bw_time at;
    bw_node node;
    bool suspect;
    double level;
};

struct solo {
    const struct bw_detector_ops *ops;
    struct bw_detector_config config;
    void *self;
    bool down;
    struct bw_actions out; /* actions of the last step */
    struct verdict verdicts[PUMP_VERDICTS];
    uint32_t count;
};

static inline void solo_open(struct solo *solo, const struct bw_detector_ops *ops,
                             const struct bw_detector_config *config)
{
    *solo = (struct solo){.ops = ops, .config = *config};
    size_t bytes = ops->bytes(config);
    solo->self = aligned_alloc(16, (bytes + 15) / 16 * 16);
    memset(solo->self, 0xa5, bytes);
    solo->out.cap = ops->actions_max(config);
    solo->out.at = calloc(solo->out.cap, sizeof *solo->out.at);
    assert_int_equal(ops->init(solo->self, config), 0);
}

static inline void solo_close(struct solo *solo)
{
    free(solo->self);
    free(solo->out.at);
}

static inline void solo_step(struct solo *solo, const struct bw_event *event)
{
    solo->out.count = 0;
    solo->ops->step(solo->self, event, &solo->out);
    for (uint32_t i = 0; i < solo->out.count; i++) {
        const struct bw_action *action = &solo->out.at[i];
        bool suspect = action->kind == BW_ACTION_SUSPECT;
        if ((suspect || action->kind == BW_ACTION_TRUST) && solo->count < PUMP_VERDICTS)
            solo->verdicts[solo->count++] =
                (struct verdict){event->now, action->node, suspect, action->level};
    }
}

static inline void solo_event(struct solo *solo, enum bw_event_kind kind, bw_node node, bw_time now)
{
    static const struct bw_start fresh;
    struct bw_event event = {.kind = kind, .node = node, .now = now};
    if (kind == BW_EVENT_START)
        event.start = &fresh;
    if (kind == BW_EVENT_JOIN)
        event.member = (struct bw_member){.id = node};
    solo_step(solo, &event);
}

/* Fires every timeout up to and including `until`. */
static inline void solo_wait(struct solo *solo, bw_time until)
{
    for (bw_time due; (due = solo->ops->deadline(solo->self)) <= until;)
        solo_event(solo, BW_EVENT_TIMEOUT, BW_NODE_NONE, due);
}

static inline void solo_receive(struct solo *solo, const struct bw_message *msg, bw_time now)
{
    struct bw_event event = {.kind = BW_EVENT_MESSAGE, .now = now, .msg = msg};
    solo_step(solo, &event);
}

/* A probe message without a list. */
static inline void solo_probe(struct solo *solo, enum bw_message_kind kind, bw_node from,
                              uint64_t seq, bw_time now)
{
    struct bw_message msg = {.kind = (uint8_t)kind, .from = from, .to = solo->config.self};
    msg.probe = (struct bw_probe){
        .seq = seq, .target = solo->config.self, .incarnation = (uint32_t)(seq >> 32)};
    solo_receive(solo, &msg, now);
}

/* The n-th message of `kind` among the actions of the last step, or NULL. */
static inline const struct bw_message *solo_sent(const struct solo *solo, enum bw_message_kind kind,
                                                 uint32_t n)
{
    for (uint32_t i = 0; i < solo->out.count; i++)
        if (solo->out.at[i].kind == BW_ACTION_SEND && solo->out.at[i].msg.kind == kind && n-- == 0)
            return &solo->out.at[i].msg;
    return NULL;
}

static inline bool solo_noted(const struct solo *solo, enum bw_trace_code code)
{
    for (uint32_t i = 0; i < solo->out.count; i++)
        if (solo->out.at[i].kind == BW_ACTION_TRACE && solo->out.at[i].trace.code == code)
            return true;
    return false;
}

static inline enum bw_member_status solo_status(const struct solo *solo, bw_node node)
{
    return solo->ops->member(solo->self, node);
}

/* ---- a group ---- */

struct flight {
    bw_time arrives;
    struct bw_message msg;
    void *data;
};

struct group {
    uint32_t n;
    struct solo *at; /* member i + 1 is at [i] */
    bw_node *ids;
    bw_time now, latency;
    struct flight *flights; /* in order of arrival, because all have the same latency */
    size_t first, last, cap;
    bool *cut;   /* index from * n + to, both counted from 0 */
    double loss; /* probability that a message is lost */
    struct bw_rng *rng;
    uint64_t sent[BW_MSG_COUNT];
};

static inline void group_open(struct group *group, const struct bw_detector_ops *ops, uint32_t n,
                              const struct bw_detector_config *config, bw_time latency)
{
    *group = (struct group){.n = n, .latency = latency};
    group->at = calloc(n, sizeof *group->at);
    group->ids = calloc(n, sizeof *group->ids);
    group->cut = calloc((size_t)n * n, sizeof *group->cut);
    for (uint32_t i = 0; i < n; i++)
        group->ids[i] = i + 1;
    for (uint32_t i = 0; i < n; i++) {
        struct bw_detector_config own = *config;
        own.self = i + 1;
        own.members = group->ids;
        own.count = own.cap = n;
        solo_open(&group->at[i], ops, &own);
    }
}

static inline void group_close(struct group *group)
{
    for (uint32_t i = 0; i < group->n; i++)
        solo_close(&group->at[i]);
    for (size_t i = group->first; i < group->last; i++)
        free(group->flights[i].data);
    free(group->at);
    free(group->ids);
    free(group->cut);
    free(group->flights);
}

static inline void group_cut(struct group *group, bw_node from, bw_node to, bool cut)
{
    group->cut[(from - 1) * group->n + to - 1] = cut;
}

/* Cuts or restores, in both directions, every link between the first `side` members and the
 * others. */
static inline void group_split(struct group *group, uint32_t side, bool cut)
{
    for (bw_node a = 1; a <= side; a++)
        for (bw_node b = side + 1; b <= group->n; b++) {
            group_cut(group, a, b, cut);
            group_cut(group, b, a, cut);
        }
}

static inline void group_fly(struct group *group, const struct bw_message *msg)
{
    group->sent[msg->kind]++;
    if (group->cut[(msg->from - 1) * group->n + msg->to - 1])
        return;
    if (group->loss > 0 && bw_rng_chance(group->rng, group->loss))
        return;
    if (group->last == group->cap) {
        group->cap = group->cap ? group->cap * 2 : 1024;
        group->flights = realloc(group->flights, group->cap * sizeof *group->flights);
    }
    struct flight *flight = &group->flights[group->last++];
    *flight = (struct flight){.arrives = group->now + group->latency};
    memcpy(&flight->msg, msg, bw_message_used(msg->kind));
    size_t bytes = msg->items * bw_message_item_size(msg->kind);
    if (bytes) {
        flight->data = malloc(bytes);
        memcpy(flight->data, msg->data, bytes);
    }
    flight->msg.data = flight->data;
}

static inline void group_carry_out(struct group *group, const struct solo *solo)
{
    for (uint32_t i = 0; i < solo->out.count; i++)
        if (solo->out.at[i].kind == BW_ACTION_SEND)
            group_fly(group, &solo->out.at[i].msg);
}

static inline void group_event(struct group *group, bw_node to, enum bw_event_kind kind,
                               bw_node node)
{
    struct solo *solo = &group->at[to - 1];
    if (solo->down)
        return;
    solo_event(solo, kind, node, group->now);
    group_carry_out(group, solo);
}

static inline void group_start(struct group *group)
{
    for (bw_node i = 1; i <= group->n; i++)
        group_event(group, i, BW_EVENT_START, BW_NODE_NONE);
}

static inline struct solo *group_next_timer(struct group *group, bw_time *due)
{
    struct solo *next = NULL;
    *due = BW_TIME_NEVER;
    for (uint32_t i = 0; i < group->n; i++) {
        struct solo *solo = &group->at[i];
        bw_time own = solo->down ? BW_TIME_NEVER : solo->ops->deadline(solo->self);
        if (own < *due) {
            *due = own;
            next = solo;
        }
    }
    return next;
}

static inline void group_deliver(struct group *group)
{
    struct flight flight = group->flights[group->first++];
    struct solo *solo = &group->at[flight.msg.to - 1];
    group->now = flight.arrives;
    if (!solo->down) {
        flight.msg.data = flight.data;
        solo_receive(solo, &flight.msg, group->now);
        group_carry_out(group, solo);
    }
    free(flight.data);
    if (group->first == group->last)
        group->first = group->last = 0;
}

/* Processes everything up to and including `until`; at the same instant, messages before
 * timeouts. */
static inline void group_run(struct group *group, bw_time until)
{
    for (;;) {
        bw_time due, arrives = BW_TIME_NEVER;
        struct solo *solo = group_next_timer(group, &due);
        if (group->first < group->last)
            arrives = group->flights[group->first].arrives;
        if (bw_time_min(due, arrives) > until)
            break;
        if (arrives <= due) {
            group_deliver(group);
            continue;
        }
        group->now = due;
        group_event(group, solo->config.self, BW_EVENT_TIMEOUT, BW_NODE_NONE);
    }
    group->now = until;
}

/* Crashes a member; group_restart starts it again with the next start count. */
static inline void group_crash(struct group *group, bw_node node)
{
    group->at[node - 1].down = true;
}

static inline void group_restart(struct group *group, bw_node node)
{
    struct solo *solo = &group->at[node - 1];
    struct bw_detector_config config = solo->config;
    config.starts++;
    solo_close(solo);
    solo_open(solo, solo->ops, &config);
    group_event(group, node, BW_EVENT_START, BW_NODE_NONE);
}

/* The number of live members that do not hold `node` alive. */
static inline uint32_t group_suspecting(const struct group *group, bw_node node)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->n; i++)
        count += i + 1 != node && !group->at[i].down &&
                 solo_status(&group->at[i], node) != BW_MEMBER_ALIVE;
    return count;
}

static inline uint32_t group_suspicions(const struct group *group)
{
    uint32_t count = 0;
    for (bw_node i = 1; i <= group->n; i++)
        count += group_suspecting(group, i);
    return count;
}

#endif
