/* Helpers for stories about the lease elector: events in, actions out; the test plays the store. */
#ifndef BW_TESTS_UNIT_CORE_LEASE_LEASE_STORY_H
#define BW_TESTS_UNIT_CORE_LEASE_LEASE_STORY_H

#include "unit/unit.h"

#include "core/lease/lease.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL (10 * BW_SEC)
#define ALL (BW_STORE_TOKEN | BW_STORE_OBSERVED | BW_STORE_NOTIFIES | BW_STORE_NOTES)

struct story {
    struct bw_lease *lease;
    struct bw_lease_actions actions;
    bw_time now;
    bw_time wall_ahead; /* wall clock minus `now`; 0: unknown */
};

static inline struct bw_lease_config config_for(const char *candidate, uint64_t seed)
{
    return (struct bw_lease_config){.election = "nightly",
                                    .candidate = candidate,
                                    .value = "addr",
                                    .terms = {.ttl_ns = TTL,
                                              .drift_ppm = 10000,
                                              .kill_after_ns = 2 * BW_SEC,
                                              .margin_ns = 200 * BW_MS},
                                    .retry_ns = BW_SEC,
                                    .grace_ns = 500 * BW_MS,
                                    .traits = ALL,
                                    .seed = seed};
}

static inline void begin_with(struct story *s, struct bw_lease_config config)
{
    s->lease = malloc(bw_lease_bytes());
    s->now = 100 * BW_SEC;
    s->wall_ahead = 0;
    assert_int_equal(bw_lease_init(s->lease, &config), 0);
}

static inline void begin(struct story *s)
{
    begin_with(s, config_for("a", 7));
}

static inline void step(struct story *s, struct bw_lease_event event)
{
    event.now = s->now;
    event.wall = s->wall_ahead ? s->now + s->wall_ahead : 0;
    s->actions.count = 0;
    bw_lease_step(s->lease, &event, &s->actions);
}

static inline void happens(struct story *s, enum bw_lease_event_kind kind)
{
    step(s, (struct bw_lease_event){.kind = kind});
}

static inline void time_passes(struct story *s)
{
    s->now = bw_lease_deadline(s->lease);
    assert_true(s->now < BW_TIME_NEVER);
    happens(s, BW_LEASE_TIMEOUT);
}

static inline const struct bw_lease_action *wants(const struct story *s,
                                                  enum bw_lease_action_kind kind)
{
    for (uint32_t i = 0; i < s->actions.count; i++)
        if (s->actions.at[i].kind == kind)
            return &s->actions.at[i];
    return NULL;
}

static inline const struct bw_store_request *asks(const struct story *s, enum bw_store_op op)
{
    for (uint32_t i = 0; i < s->actions.count; i++)
        if (s->actions.at[i].kind == BW_LEASE_ASK && s->actions.at[i].ask.request.op == op)
            return &s->actions.at[i].ask.request;
    return NULL;
}

static inline void answer(struct story *s, const struct bw_store_request *request,
                          enum bw_outcome outcome, struct bw_store_record record)
{
    struct bw_store_reply reply = {
        .id = request->id, .op = request->op, .outcome = outcome, .record = record};
    step(s, (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = &reply});
}

static inline struct bw_store_record held_by(const char *holder, bw_token token, uint64_t version)
{
    struct bw_store_record record = {
        .version = version, .held = true, .token = token, .ttl_ns = TTL};
    snprintf(record.holder, sizeof record.holder, "%s", holder);
    return record;
}

#endif
