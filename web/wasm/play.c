/* The playground's view of the simulator, for JavaScript: begins runs, steps them, injects faults,
 * and writes what a frame shows into one table of numbers. All times are nanoseconds of virtual
 * time, as doubles (exact up to 104 days). Text goes through one buffer, in both directions.
 *
 * A function that can fail returns 0 or a negative error, with the reason in the text buffer. */
#include "core/base/error.h"
#include "sim/step.h"
#include "sim/stores/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name)))

#define TEXT_BYTES    1024u
#define NODES_MAX     50u
#define FLIGHTS_MAX   4000u
#define RECORDS_MAX   4096u
#define HEAD_FIELDS   24u
#define NODE_FIELDS   14u
#define FLIGHT_FIELDS 6u
#define RECORD_FIELDS 6u

/* Kinds of records; the numbers are part of the interface with web/world.js. */
enum record {
    RECORD_LED = BW_MEASURE_LED,
    RECORD_ACTED = BW_MEASURE_ACTED,
    RECORD_NONE_ACTED = BW_MEASURE_NONE_ACTED,
    RECORD_ONE_ACTED = BW_MEASURE_ONE_ACTED,
    RECORD_TWO_ACTED = BW_MEASURE_TWO_ACTED,
    RECORD_AGREED = BW_MEASURE_AGREED,
    RECORD_CANDIDATE = 10, /* node became a candidate */
    RECORD_LEADS,          /* node announced that it leads; other: token */
    RECORD_LOSES,          /* node no longer leads; other: bw_loss */
    RECORD_SUSPECTS,       /* node suspects other */
    RECORD_FAULT,          /* other: kind of fault */
    RECORD_WROTE           /* other: 1 accepted, 2 rejected, 3 stale and accepted */
};

static struct bw_sim *sim;
static struct bw_sim_config config;
static struct bw_sim_result result;
static char text[TEXT_BYTES], why[200];
static uint8_t groups[BW_SIM_STORES_MAX + NODES_MAX + 1];
static double frame[HEAD_FIELDS + NODE_FIELDS * (NODES_MAX + BW_SIM_STORES_MAX) +
                    FLIGHT_FIELDS * FLIGHTS_MAX];
static double records[RECORDS_MAX * RECORD_FIELDS];
static uint32_t records_count, records_lost;
static bool leads[NODES_MAX + 1];

static int refuse(const char *why, const char *what)
{
    char copy[200];
    snprintf(copy, sizeof copy, "%s", what);
    snprintf(text, sizeof text, "%s '%s'", why, copy);
    return BW_EINVAL;
}

/* ---- records ---- */

static void record(enum record kind, bw_time from, bw_time to, double node, double other,
                   double term)
{
    if (records_count == RECORDS_MAX) {
        records_lost++;
        return;
    }
    double *at = &records[records_count++ * RECORD_FIELDS];
    at[0] = (double)kind;
    at[1] = (double)from;
    at[2] = (double)to;
    at[3] = node;
    at[4] = other;
    at[5] = term;
}

static void on_measured(void *context, const struct bw_sim_interval *i)
{
    (void)context;
    record((enum record)i->kind, i->from, i->to, i->node, i->other, (double)i->term);
}

static void on_announced(void *context, bw_time at, bw_node node, uint32_t election,
                         const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    (void)context, (void)election, (void)act_from, (void)act_until;
    if (node > NODES_MAX)
        return;
    bool now = a->leader == node;
    if (now && !leads[node])
        record(RECORD_LEADS, at, at, node, (double)a->token, (double)a->term);
    if (!now && leads[node])
        record(RECORD_LOSES, at, at, node, (double)a->reason, (double)a->term);
    leads[node] = now;
}

static void on_suspected(void *context, bw_time at, bw_node node, bw_node target, bool suspect,
                         double level)
{
    (void)context, (void)level;
    if (suspect)
        record(RECORD_SUSPECTS, at, at, node, target, 0);
}

static void on_faulted(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node)
{
    (void)context;
    if ((fault->kind == BW_FAULT_CRASH || fault->kind == BW_FAULT_KILL) && node <= NODES_MAX)
        leads[node] = false;
    record(RECORD_FAULT, at, at, node, (double)fault->kind, (double)fault->peer);
}

static void on_wrote(void *context, bw_time at, bw_node node, bw_token token, bool accepted,
                     bool stale)
{
    (void)context;
    record(RECORD_WROTE, at, at, node, accepted ? stale ? 3 : 1 : 2, (double)token);
}

static void on_traced(void *context, bw_time at, bw_node node, const struct bw_trace_note *note)
{
    (void)context;
    if (note->code == BW_TRACE_ELECTION)
        record(RECORD_CANDIDATE, at, at, node, 0, (double)note->a);
}

static const struct bw_sim_observer observer = {.announced = on_announced,
                                                .suspected = on_suspected,
                                                .faulted = on_faulted,
                                                .wrote = on_wrote,
                                                .traced = on_traced,
                                                .measured = on_measured};

/* ---- settings ---- */

/* Returns the address of the text buffer, of TEXT_BYTES bytes. */
EXPORT(play_text) char *play_text(void)
{
    return text;
}

/* Returns the group of each node for the next partition, [id]. */
EXPORT(play_groups) uint8_t *play_groups(void)
{
    return groups;
}

EXPORT(play_reset) void play_reset(void)
{
    bw_sim_defaults(&config);
    config.work_ns = 100 * BW_MS; /* the default of `sim run` */
}

static void use_lease(enum bw_sim_store store)
{
    config.algorithm = bw_sim_lease_ops(store);
    config.lease.store = store;
    config.lease.ttl_ns = config.lease.ttl_ns ? config.lease.ttl_ns : 3 * BW_SEC;
    config.lease.grace_ns = 200 * BW_MS;
    config.lease.retry_ns = 500 * BW_MS;
    config.lease.kill_after_ns = 500 * BW_MS;
}

/* The text buffer holds the name of the algorithm: "raft", or "lease-redlock". */
EXPORT(play_algorithm) int play_algorithm(void)
{
    text[TEXT_BYTES - 1] = '\0';
    for (unsigned i = 0; bw_sim_store_name(i); i++)
        if (strncmp(text, "lease-", 6) == 0 && strcmp(text + 6, bw_sim_store_name(i)) == 0) {
            use_lease((enum bw_sim_store)i);
            return 0;
        }
    const struct bw_elector_ops *ops = bw_elector_find(text);
    if (!ops)
        return refuse("unknown algorithm", text);
    config.algorithm = ops;
    return 0;
}

EXPORT(play_detector) int play_detector(void)
{
    text[TEXT_BYTES - 1] = '\0';
    config.detector = bw_detector_find(text);
    return config.detector ? 0 : refuse("unknown detector", text);
}

/* Sets a number; the text buffer holds its name. */
EXPORT(play_number) int play_number(double value)
{
    text[TEXT_BYTES - 1] = '\0';
    bool whole = value >= 0 && value <= 1e15;
    if (strcmp(text, "nodes") == 0 && value >= 1 && value <= NODES_MAX)
        config.nodes = (uint32_t)value;
    else if (strcmp(text, "spare") == 0 && value >= 0 && value <= NODES_MAX)
        config.spare = (uint32_t)value;
    else if (strcmp(text, "latency-min") == 0 && whole)
        config.latency.min = (bw_time)value;
    else if (strcmp(text, "latency-max") == 0 && whole)
        config.latency.max = (bw_time)value;
    else if (strcmp(text, "period") == 0 && whole)
        config.period_ns = (bw_time)value;
    else if (strcmp(text, "ttl") == 0 && whole)
        config.lease.ttl_ns = (bw_time)value;
    else if (strcmp(text, "loss") == 0 && value >= 0 && value <= 1)
        config.loss = value;
    else if (strcmp(text, "drift") == 0 && value >= 0 && value < 1)
        config.drift = value;
    else if (strcmp(text, "quorum") == 0)
        config.guard = value > 0;
    else if (strcmp(text, "seed") == 0 && whole)
        config.seed = (uint64_t)value;
    else
        return refuse("invalid value of", text);
    return 0;
}

/* ---- the run ---- */

EXPORT(play_begin) int play_begin(void)
{
    if (!sim)
        sim = bw_sim_new();
    if (!sim)
        return refuse("out of memory for", "a world");
    if (config.algorithm->traits & BW_TRAIT_OWN_TIMERS || bw_sim_is_lease(config.algorithm))
        config.detector = NULL;
    else if (!config.detector)
        config.detector = &bw_detect_deadline;
    if (config.nodes + config.spare > NODES_MAX)
        return refuse("too many", "nodes");
    if (!(config.algorithm->traits & BW_TRAIT_GUARDABLE))
        config.guard = false;
    config.observer = &observer;
    config.until = BW_SEC; /* stepping does not end the run; the settings need a value */
    records_count = records_lost = 0;
    memset(leads, 0, sizeof leads);
    int error = bw_sim_begin(sim, &config, &result, why);
    if (error)
        snprintf(text, sizeof text, "%s", why);
    return error;
}

EXPORT(play_step_until) int play_step_until(double at)
{
    if (!sim || !(at >= 0 && at < 3e16))
        return refuse("invalid time", "");
    return bw_sim_step_until(sim, (bw_time)at);
}

EXPORT(play_step) int play_step(void)
{
    return sim ? bw_sim_step(sim) : BW_EINVAL;
}

/* Injects a fault. PARTITION uses the groups buffer. */
EXPORT(play_fault) int play_fault(int kind, double node, double peer, double rate, double span)
{
    if (!sim || node < 0 || node > 1e6 || peer < 0 || peer > 1e6 ||
        !(span >= -1e15 && span <= 1e15) || !(rate >= -1 && rate <= 1))
        return refuse("invalid fault", "");
    struct bw_sim_fault fault = {.kind = (enum bw_sim_fault_kind)kind,
                                 .node = (bw_node)node,
                                 .peer = (bw_node)peer,
                                 .rate = rate,
                                 .span = (bw_time)span,
                                 .latency = {.min = BW_MS, .max = (bw_time)span},
                                 .groups = groups};
    why[0] = '\0';
    int error = bw_sim_inject(sim, &fault);
    if (error)
        snprintf(text, sizeof text, "%s", why);
    return error;
}

/* ---- what a frame shows ---- */

static double time_number(bw_time at)
{
    return at == BW_TIME_NEVER ? -1 : (double)at;
}

static double *put_node(double *at, bw_node id)
{
    struct bw_sim_view v;
    bw_sim_view(sim, id, 0, &v);
    at[0] = id;
    at[1] = v.store;
    at[2] = v.member;
    at[3] = v.up;
    at[4] = v.paused;
    at[5] = v.leads;
    at[6] = v.electing;
    at[7] = v.acts;
    at[8] = v.leader;
    at[9] = (double)v.term;
    at[10] = (double)v.token;
    at[11] = v.leads ? time_number(v.act_from) : -1;
    at[12] = v.leads ? time_number(v.act_until) : -1;
    uint64_t suspects = 0;
    for (bw_node other = 1; other <= config.nodes + config.spare && other <= NODES_MAX; other++)
        suspects |= bw_sim_suspects(sim, id, other) ? 1ull << other : 0;
    at[13] = (double)suspects;
    return at + NODE_FIELDS;
}

static void put_head(uint32_t ids, uint32_t flights)
{
    bw_sim_measure(sim);
    const double head[HEAD_FIELDS] = {(double)bw_sim_now(sim),
                                      time_number(bw_sim_next(sim)),
                                      ids,
                                      flights,
                                      result.leader,
                                      result.max_leaders,
                                      (double)result.term,
                                      time_number(result.noticed),
                                      time_number(result.time_to_leader),
                                      time_number(result.time_to_act),
                                      time_number(result.time_to_agree),
                                      (double)result.leaderless,
                                      (double)result.none_acted,
                                      (double)result.split_brain,
                                      (double)result.sent,
                                      (double)result.detector_sent,
                                      (double)result.elections,
                                      (double)result.leader_changes,
                                      (double)result.writes_tried,
                                      (double)result.stale_tried,
                                      (double)result.stale_accepted,
                                      (double)result.events,
                                      (double)(uint32_t)(result.trace_hash >> 32),
                                      (double)(uint32_t)result.trace_hash};
    memcpy(frame, head, sizeof head);
}

/* Writes the head, the nodes and the messages in flight, and returns the address. */
EXPORT(play_frame) double *play_frame(void)
{
    struct bw_sim_flight flight;
    uint32_t cursor = 0, flights = 0, ids = sim ? bw_sim_ids(sim) : 0;
    if (!sim || !ids)
        return NULL;
    double *at = frame + HEAD_FIELDS;
    for (bw_node id = 1; id <= ids; id++)
        at = put_node(at, id);
    while (flights < FLIGHTS_MAX && bw_sim_flight_next(sim, &cursor, &flight)) {
        at[0] = flight.msg->from;
        at[1] = flight.msg->to;
        at[2] = flight.msg->kind;
        at[3] = (double)flight.sent;
        at[4] = (double)flight.arrives;
        at[5] = (double)flight.msg->term;
        at += FLIGHT_FIELDS;
        flights++;
    }
    put_head(ids, flights);
    return frame;
}

/* Returns the records since the last play_clear. */
EXPORT(play_records) double *play_records(void)
{
    return records;
}

EXPORT(play_count) uint32_t play_count(void)
{
    return records_count;
}

EXPORT(play_clear) void play_clear(void)
{
    records_count = 0;
}

/* Writes a name into the text buffer and returns its length, 0 past the last. Lists: 0 algorithms,
 * 1 detectors, 2 kinds of messages, 3 models of stores. */
EXPORT(play_name) uint32_t play_name(int list, uint32_t i)
{
    const char *name = NULL;
    if (list == 0) {
        const struct bw_elector_ops *ops = bw_elector_at(i);
        name = ops ? ops->name : NULL;
    } else if (list == 1) {
        const struct bw_detector_ops *ops = bw_detector_at(i);
        name = ops ? ops->name : NULL;
    } else if (list == 2 && i < BW_MSG_COUNT) {
        name = bw_message_for_detector((uint8_t)i) ? "~" : bw_message_name(i);
    } else if (list == 3) {
        name = bw_sim_store_name(i);
    }
    snprintf(text, sizeof text, "%s", name ? name : "");
    return (uint32_t)strlen(text);
}

/* Returns whether the run uses a failure detector. */
EXPORT(play_detects) int play_detects(void)
{
    return config.detector != NULL;
}

/* Returns whether the quorum guard is on: not every algorithm has one. */
EXPORT(play_guards) int play_guards(void)
{
    return config.guard;
}

/* Writes the sentence about partitions of the current algorithm. */
EXPORT(play_promise) uint32_t play_promise(void)
{
    const char *promise = config.guard ? bw_elect_guard.promise : config.algorithm->promise;
    snprintf(text, sizeof text, "%s", promise);
    return (uint32_t)strlen(text);
}
