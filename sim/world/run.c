/* One run: checks the settings, lays out memory in one block, starts the nodes, runs the loop,
 * computes the figures. */
#include "sim/faults/antipattern.h"
#include "sim/world/world.h"

#include "core/base/codec.h"
#include "core/base/error.h"
#include "sim/step.h"
#include "sim/stores/registry.h"
#include "sim/world/raft.h"

#include <stdlib.h>
#include <string.h>

/* Range in which the nodes' clocks start. Clocks never show small values. */
#define OFFSET_MIN (1000 * BW_SEC)
#define OFFSET_MAX (100000 * BW_SEC)
#define FIRST_DAY  (20000 * (86400 * BW_SEC)) /* the start, after 1970 */

struct bw_sim *bw_sim_new(void)
{
    return calloc(1, sizeof(struct bw_sim));
}

void bw_sim_free(struct bw_sim *sim)
{
    if (!sim)
        return;
    for (uint32_t i = 0; i < sim->hosts_count; i++) {
        bw_sim_log_deinit(&sim->hosts[i].log);
        bw_sim_log_deinit(&sim->logs[i]);
    }
    bw_sim_registry_free(sim);
    free(sim->hosts);
    free(sim->logs);
    bw_sim_queue_deinit(&sim->queue);
    bw_sim_net_deinit(&sim->net);
    free(sim->scratch);
    free(sim->frame);
    free(sim->frame_data);
    free(sim->block);
    free(sim);
}

/* Returns the time of day: the world's time from some day on, plus the node's own error. */
static bw_time wall_clock(const struct bw_sim *sim, bw_node node)
{
    return FIRST_DAY + sim->now + sim->nodes[node].wall_error;
}

/* Sets up what the stores keep, and what candidates and stores know of each other. */
static void found_stores(struct bw_sim *sim, uint32_t books)
{
    const struct bw_sim_config *config = sim->config;
    struct bw_sim_lease_host host = {.lease = &config->lease,
                                     .first = config->nodes + config->spare + 1,
                                     .count = sim->stores,
                                     .stop_ns = config->stop_ns,
                                     .world = sim,
                                     .wall = wall_clock};
    sim->lease_hosts[0] = host;
    for (uint32_t i = 0; i < books; i++) {
        memset(&sim->books[i], 0, sizeof sim->books[i]);
        sim->books[i].seed = config->seed ^ (uint64_t)(i + 1) << 48;
        host.book = &sim->books[i];
        sim->lease_hosts[1 + i] = host;
    }
}

/* Takes memory whose size depends on the run from one block. A first pass with the same code
 * measures the size. */
static void lay_out(struct bw_sim *sim, struct bw_arena *arena, size_t instance_bytes,
                    uint32_t actions, uint8_t **group)
{
    size_t slots = sim->cap + 1, elections = sim->elections;
    sim->nodes = bw_arena_take(arena, slots * sizeof *sim->nodes);
    sim->members = bw_arena_take(arena, slots * sizeof *sim->members);
    sim->founders = bw_arena_take(arena, slots * sizeof *sim->founders);
    sim->other_founders = bw_arena_take(arena, slots * sizeof *sim->other_founders);
    sim->member_ids = bw_arena_take(arena, slots * sizeof *sim->member_ids);
    sim->order = bw_arena_take(arena, slots * sizeof *sim->order);
    sim->founder_ids = bw_arena_take(arena, slots * sizeof *sim->founder_ids);
    sim->configs = bw_arena_take(arena, elections * sizeof *sim->configs);
    sim->starts = bw_arena_take(arena, elections * sizeof *sim->starts);
    sim->resources = bw_arena_take(arena, elections * sizeof *sim->resources);
    struct bw_durable *records =
        bw_arena_take(arena, slots * elections * sizeof(struct bw_durable));
    *group = bw_arena_take(arena, slots);
    sim->actions.at = bw_arena_take(arena, actions * sizeof *sim->actions.at);
    sim->actions.cap = actions;
    bw_sim_claims_init(&sim->claims, arena, (uint32_t)slots, sim->elections);
    bool safe = sim->config->guard ||
                (sim->elections && !(sim->config->algorithm->traits & BW_TRAIT_MAY_SPLIT));
    bw_sim_metrics_init(&sim->metrics, arena, (uint32_t)slots, safe, sim->result);
    sim->metrics.observer = sim->config->observer;
    size_t books = sim->stores * elections;
    sim->books = bw_arena_take(arena, books * sizeof *sim->books);
    sim->lease_hosts = bw_arena_take(arena, (books + 1) * sizeof *sim->lease_hosts);
    void *checker =
        sim->config->checks ? bw_arena_take(arena, bw_checker_bytes(sim->config)) : NULL;
    unsigned char *memory = bw_arena_take(arena, slots * ((instance_bytes + 63) & ~(size_t)63));
    if (!bw_arena_fits(arena))
        return;
    memset(sim->nodes, 0, slots * sizeof *sim->nodes);
    memset(sim->resources, 0, elections * sizeof *sim->resources);
    found_stores(sim, (uint32_t)books);
    sim->checker = checker ? bw_checker_init(checker, sim->config) : NULL;
    for (size_t i = 0; i < slots; i++) {
        sim->nodes[i].memory = memory + i * ((instance_bytes + 63) & ~(size_t)63);
        sim->nodes[i].disk.records = records + i * elections;
    }
}

static int no_memory(struct bw_sim *sim, size_t bytes)
{
    bw_sim_fail(sim, BW_ENOMEM, "out of memory for %u nodes: %zu MiB needed", sim->cap,
                bytes >> 20);
    return BW_ENOMEM;
}

static int grow_block(struct bw_sim *sim, size_t bytes)
{
    if (bytes <= sim->block_bytes)
        return 0;
    free(sim->block);
    sim->block_bytes = 0;
    sim->block = malloc(bytes);
    if (!sim->block)
        return no_memory(sim, bytes);
    sim->block_bytes = bytes;
    return 0;
}

/* Allocates logs; they keep their memory between runs. */
static int grow_hosts(struct bw_sim *sim)
{
    uint32_t count = sim->raft ? (sim->cap + 1) * sim->elections : 0;
    if (count <= sim->hosts_count)
        return 0;
    struct bw_sim_raft_host *hosts = realloc(sim->hosts, count * sizeof *hosts);
    if (hosts)
        sim->hosts = hosts;
    struct bw_sim_log *logs = hosts ? realloc(sim->logs, count * sizeof *logs) : NULL;
    if (!logs)
        return no_memory(sim, count * sizeof *hosts);
    sim->logs = logs;
    memset(hosts + sim->hosts_count, 0, (count - sim->hosts_count) * sizeof *hosts);
    memset(logs + sim->hosts_count, 0, (count - sim->hosts_count) * sizeof *logs);
    sim->hosts_count = count;
    return 0;
}

static int grow_frame(struct bw_sim *sim)
{
    if (!sim->config->codec || sim->frame_data)
        return 0;
    sim->frame = sim->frame ? sim->frame : malloc(BW_FRAME_MAX);
    sim->frame_data = sim->frame ? malloc(BW_MESSAGE_DATA_MAX) : NULL;
    return sim->frame_data ? 0 : no_memory(sim, BW_FRAME_MAX);
}

static bool listed(const bw_node *list, uint32_t count, bw_node id)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == id)
            return true;
    return false;
}

static void found_members(struct bw_sim *sim)
{
    const struct bw_sim_config *config = sim->config;
    uint32_t n = config->nodes;
    sim->members_count = n;
    for (uint32_t i = 0; i < n; i++) {
        bw_node id = i + 1;
        bool ordinary =
            config->candidates_count && !listed(config->candidates, config->candidates_count, id);
        sim->members[i] = (struct bw_member){.id = id, .ordinary = ordinary};
        sim->founders[i] = sim->members[i];
        sim->founder_ids[i] = id;
        sim->member_ids[i] = id;
        sim->order[i] = config->order == BW_ORDER_REVERSE ? n - i : id;
    }
    struct bw_rng rng;
    bw_rng_init(&rng, config->seed ^ 0x6f7264657221u);
    if (config->order == BW_ORDER_RANDOM)
        bw_rng_shuffle(&rng, sim->order, n);
}

static void found_nodes(struct bw_sim *sim)
{
    const struct bw_sim_config *config = sim->config;
    struct bw_rng rng;
    bw_rng_init(&rng, config->seed ^ 0x636c6f636b73u);
    for (bw_node id = 0; id <= sim->cap; id++) {
        struct bw_sim_node *node = &sim->nodes[id];
        struct bw_sim_log *logs = sim->raft ? sim->logs + (size_t)id * sim->elections : NULL;
        node->raft = sim->raft ? sim->hosts + (size_t)id * sim->elections : NULL;
        node->member = id && (id <= config->nodes || bw_sim_is_store(sim, id));
        bw_sim_disk_init(&node->disk, node->disk.records, logs, sim->elections);
        bw_time offset = bw_rng_between(&rng, OFFSET_MIN, OFFSET_MAX);
        double drift = (2 * bw_rng_unit(&rng) - 1) * config->drift;
        if (config->algorithm && (config->algorithm->traits & BW_TRAIT_WALL_CLOCK))
            offset = OFFSET_MAX; /* all nodes show the same time of day until a clock jumps */
        bw_sim_clock_init(&node->clock, offset, drift);
        bw_time wrong = config->lease.uncertainty_ns;
        node->wall_error = wrong > 0 ? bw_rng_between(&rng, -wrong, wrong) : 0;
    }
}

/* Measures a store's process, which may be larger than a candidate's. Overwrites `instance`. */
static void measure_store(struct bw_sim *sim, struct bw_instance_config *instance, size_t *bytes,
                          uint32_t *actions)
{
    if (!sim->stores)
        return;
    instance->detector = NULL;
    for (uint32_t e = 0; e < sim->elections; e++)
        sim->configs[e].ops = &bw_sim_store_ops;
    size_t store = bw_instance_bytes(instance);
    uint32_t most = bw_instance_actions_max(instance);
    *bytes = store > *bytes ? store : *bytes;
    *actions = most > *actions ? most : *actions;
}

/* Sets up the state before the first instant. */
static int found(struct bw_sim *sim)
{
    struct bw_arena arena = {0};
    struct bw_instance_config instance;
    uint8_t *group;
    struct bw_instance_election one[BW_ELECTIONS_MAX];
    struct bw_sim_node first[2];
    memset(first, 0, sizeof first);
    sim->configs = one;
    sim->nodes = first; /* only to measure an instance: node 1, never started */
    sim->members_count = sim->config->nodes;
    bw_sim_node_config(sim, 1, &instance);
    size_t bytes = bw_instance_bytes(&instance);
    uint32_t actions = bw_instance_actions_max(&instance);
    measure_store(sim, &instance, &bytes, &actions);
    lay_out(sim, &arena, bytes, actions, &group);
    if (grow_block(sim, arena.used) || grow_hosts(sim) || grow_frame(sim))
        return sim->error;
    if (bw_sim_registry_found(sim))
        return no_memory(sim, 0);
    arena = (struct bw_arena){.at = sim->block, .cap = sim->block_bytes};
    lay_out(sim, &arena, bytes, actions, &group);
    bw_rng_init(&sim->rng, sim->config->seed ^ 0x776f726c64u);
    bw_sim_queue_reset(&sim->queue);
    bw_sim_net_init(&sim->net, sim->config, sim->cap, group);
    bw_sim_trace_init(&sim->trace, sim->config->trace, sim->config->seed);
    if (sim->checker)
        bw_sim_trace_watch(&sim->trace, bw_checker_observer(sim->checker));
    if (sim->config->observer)
        bw_sim_trace_watch(&sim->trace, sim->config->observer);
    found_members(sim);
    found_nodes(sim);
    return 0;
}

/* Returns the leader that all nodes knew before the run, if it is crashed from the start. */
static bw_node dead_leader(const struct bw_sim_config *config)
{
    bw_node natural = config->algorithm == &bw_elect_lowest ? 1 : config->nodes;
    bw_node candidate = BW_NODE_NONE;
    for (uint32_t i = 0; i < config->candidates_count; i++)
        if (config->candidates[i] > candidate)
            candidate = config->candidates[i];
    if (candidate && listed(config->crashed, config->crashed_count, candidate))
        return candidate;
    return listed(config->crashed, config->crashed_count, natural) ? natural : BW_NODE_NONE;
}

static void schedule(struct bw_sim *sim, enum bw_sim_pending kind, bw_time at)
{
    struct bw_sim_slot *slot = bw_sim_pend(sim, kind, BW_NODE_NONE);
    if (slot)
        bw_sim_queue_push(&sim->queue, slot, at);
}

static void start(struct bw_sim *sim)
{
    const struct bw_sim_config *config = sim->config;
    bool passive = config->initiator != BW_INITIATOR_NONE;
    bw_node leader = passive && sim->elections ? dead_leader(config) : BW_NODE_NONE;
    for (bw_node id = sim->cap - sim->stores + 1; id <= sim->cap && !sim->error; id++) {
        bw_sim_node_boot(sim, id);
        bw_sim_node_start(sim, id, false, BW_NODE_NONE);
    }
    for (bw_node id = 1; id <= config->nodes && !sim->error; id++)
        if (!listed(config->crashed, config->crashed_count, id))
            bw_sim_node_boot(sim, id);
    for (bw_node id = 1; id <= config->nodes && !sim->error; id++)
        if (sim->nodes[id].up)
            bw_sim_node_start(sim, id, passive, leader);
    if (config->fresh_timers && !sim->error)
        bw_sim_raft_fresh_timers(sim);
    for (bw_node id = 1; passive && id <= config->nodes && !sim->error; id++) {
        bool starts = config->initiator == id || config->initiator == BW_INITIATOR_ALL ||
                      listed(config->initiators, config->initiators_count, id);
        if (!starts)
            continue;
        for (uint32_t e = 0; e < sim->elections; e++) {
            struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = id};
            event.command = (struct bw_command){
                .kind = BW_COMMAND_CAMPAIGN, .election = (uint16_t)e, .node = leader};
            bw_sim_node_deliver(sim, id, &event);
        }
    }
    if (sim->raft && config->propose_ns)
        schedule(sim, BW_PENDING_PROPOSE, config->propose_ns);
    if (sim->raft && config->read_ns)
        schedule(sim, BW_PENDING_READ, config->read_ns);
    bw_sim_registry_start(sim);
    if (config->faults_count)
        schedule(sim, BW_PENDING_FAULT, config->faults[0].at);
}

void bw_sim_measure(struct bw_sim *sim)
{
    struct bw_sim_result *result = sim->result;
    if (!sim->config || sim->error)
        return;
    bw_node leader = sim->elections ? bw_sim_claims_agreed(&sim->claims, 0) : BW_NODE_NONE;
    if (!leader && sim->config->no_announce)
        leader = bw_sim_claims_leader(&sim->claims, 0);
    bw_sim_metrics_finish(&sim->metrics, sim->now, leader, sim->config->period_ns);
    for (bw_node id = 1; sim->elections && id <= sim->cap; id++) {
        struct bw_elector_status status;
        if (!sim->nodes[id].up)
            continue;
        bw_instance_status(sim->nodes[id].instance, 0, &status);
        if (status.term > result->term)
            result->term = status.term;
    }
    result->trace_hash = sim->trace.hash;
}

static void finish(struct bw_sim *sim)
{
    struct bw_sim_result *result = sim->result;
    const struct bw_sim_config *config = sim->config;
    bw_sim_measure(sim);
    result->last_fault_unseen = !config->until && config->faults_count > 0 && sim->settled &&
                                sim->settled_at == config->faults[config->faults_count - 1].at;
    if (!sim->checker)
        return;
    if (!sim->stopped)
        bw_checker_finish(sim->checker, sim->now);
    const char *found = bw_checker_violation(sim->checker, &result->violation_at);
    if (!found)
        found = bw_sim_registry_finish(sim, &result->violation_at);
    if (!found && result->stale_reads && config->checks & BW_CHECK_STALE)
        found = "a read returned an older index than was committed when it was sent";
    if (!found)
        return;
    strncpy(result->violation_text, found, sizeof result->violation_text - 1);
    result->violation = result->violation_text;
}

static void begin(struct bw_sim *sim, const struct bw_sim_config *config,
                  struct bw_sim_result *result, char *why)
{
    memset(result, 0, sizeof *result);
    why[0] = '\0';
    sim->config = config;
    sim->result = result;
    sim->why = why;
    sim->error = 0;
    sim->now = 0;
    sim->instant = 0;
    sim->stores = bw_sim_stores(config);
    sim->cap = config->nodes + config->spare + sim->stores;
    sim->elections = config->algorithm ? config->elections : 0;
    sim->raft = bw_sim_is_raft(config->algorithm);
    sim->next_fault = 0;
    sim->inflight = 0;
    sim->recheck = true;
    sim->settled = sim->stopped = sim->changing = false;
    sim->leader_hit = BW_NODE_NONE;
    sim->requests = 0;
    sim->checker = NULL;
}

int bw_sim_begin(struct bw_sim *sim, const struct bw_sim_config *config,
                 struct bw_sim_result *result, char *why)
{
    sim->config = NULL;
    int error = bw_sim_validate(config, why);
    if (error)
        return error;
    begin(sim, config, result, why);
    if (found(sim)) {
        sim->config = NULL;
        return sim->error;
    }
    start(sim);
    bw_sim_check_queue(sim);
    return sim->error;
}

int bw_sim_end(struct bw_sim *sim)
{
    if (!sim->config)
        return BW_EINVAL;
    if (!sim->error)
        finish(sim);
    sim->config = NULL;
    return sim->error;
}

/* Lets the world go on, only for the observer: the figures, the trace and the checks of the run are
 * complete. */
static void run_on(struct bw_sim *sim, bw_time span)
{
    struct bw_sim_result complete = *sim->result;
    bw_time end = bw_time_add(sim->now, span);
    sim->trace.file = NULL;
    sim->checker = NULL;
    while (bw_sim_queue_next(&sim->queue) <= end && bw_sim_goes_on(sim))
        bw_sim_loop_once(sim);
    bw_sim_metrics_finish(&sim->metrics, end, BW_NODE_NONE, sim->config->period_ns);
    sim->error = 0; /* what happens after the run does not count */
    *sim->result = complete;
}

int bw_sim_run_in(struct bw_sim *sim, const struct bw_sim_config *config,
                  struct bw_sim_result *result, char *why)
{
    int error = bw_sim_begin(sim, config, result, why);
    if (!error)
        bw_sim_loop(sim);
    if (!error)
        bw_sim_check_queue(sim);
    if (error || sim->error) {
        sim->config = NULL;
        return error ? error : sim->error;
    }
    finish(sim);
    if (!config->until && config->observer && config->run_on > 0)
        run_on(sim, (bw_time)((double)sim->now * config->run_on));
    sim->config = NULL;
    return 0;
}

int bw_sim_run(const struct bw_sim_config *config, struct bw_sim_result *result, char *why)
{
    struct bw_sim *sim = bw_sim_new();
    if (!sim) {
        memcpy(why, "out of memory for a world", sizeof "out of memory for a world");
        return BW_ENOMEM;
    }
    int error = bw_sim_run_in(sim, config, result, why);
    bw_sim_free(sim);
    return error;
}
