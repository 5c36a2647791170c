/* Processes: a bw_instance in its block of memory, created from the disk at each start.
 *
 * A paused process loses nothing. Messages, timers and completions wait until it resumes; then it
 * gets them in their order of arrival. Its timers come before or after them by chance. */
#include "sim/world/world.h"

#include "core/base/error.h"
#include "sim/stores/registry.h"
#include "sim/world/raft.h"

#include <string.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the bound on the latency of a message that the electors assume, including the time to
 * persist its content. */
static bw_time latency_bound(const struct bw_sim_config *config)
{
    bw_time way = config->latency.max;
    if (config->latency.dist == BW_DIST_EXPONENTIAL)
        way = config->latency.min + 10 * (config->latency.max - config->latency.min);
    if (config->reorder > 0)
        way *= 2;
    return way + config->disk_max;
}

/* Returns the founders except `id`. A founder that restarted without its disk becomes a voter again
 * only through the log. */
static const struct bw_member *others(const struct bw_sim *sim, bw_node id)
{
    memcpy(sim->other_founders, sim->founders, (id - 1) * sizeof *sim->founders);
    memcpy(&sim->other_founders[id - 1], &sim->founders[id],
           (sim->config->nodes - id) * sizeof *sim->founders);
    return sim->other_founders;
}

static void elector_config(const struct bw_sim *sim, bw_node id, uint32_t election,
                           struct bw_elector_config *out)
{
    const struct bw_sim_config *config = sim->config;
    memset(out, 0, sizeof *out);
    out->self = bw_sim_id_of(sim, id);
    out->members = sim->raft ? sim->founders : sim->members;
    out->count = sim->raft ? config->nodes : sim->members_count;
    if (sim->raft && sim->nodes[id].returned && id <= config->nodes) {
        out->members = others(sim, id);
        out->count--;
    }
    if (config->guard && config->founders_vote) {
        out->voters = sim->founder_ids;
        out->voters_count = config->nodes;
    }
    out->cap = sim->cap;
    bw_elector_defaults(out, latency_bound(config), config->period_ns);
    out->order = config->order == BW_ORDER_SORTED ? NULL : sim->order;
    out->seed = mix(config->seed ^
                    mix(((uint64_t)id << 32 | sim->nodes[id].starts) ^ (uint64_t)election << 56));
    if (config->timeout_min)
        out->timeout_min_ns = config->timeout_min;
    if (config->timeout_max)
        out->timeout_max_ns = config->timeout_max;
    if (config->promise_ns)
        out->promise_ns = config->promise_ns;
    out->announce = !config->no_announce;
    out->pre_vote = !config->pre_vote_off;
    out->rank = config->rank;
    out->drift_ppm = (uint32_t)(config->drift_bound * 1e6 + 0.5);
    out->quorum = config->quorum;
    out->inner = config->guard ? config->algorithm : NULL;
    out->alternatives = config->alternatives;
    out->alternatives_count = config->alternatives_count;
    out->together = config->spread;
    out->host = sim->stores ? sim->lease_hosts : NULL;
}

static void detector_config(const struct bw_sim *sim, bw_node id, struct bw_detector_config *out)
{
    const struct bw_sim_config *config = sim->config;
    memset(out, 0, sizeof *out);
    out->self = bw_sim_id_of(sim, id);
    out->members = sim->member_ids;
    out->count = sim->members_count;
    out->cap = sim->cap;
    out->seed =
        mix(config->seed ^ mix(((uint64_t)id << 32 | sim->nodes[id].starts) ^ 0xdull << 60));
    bw_detector_defaults(out, config->period_ns);
    if (config->timeout_max && !(sim->elections && config->algorithm->traits & BW_TRAIT_OWN_TIMERS))
        out->timeout_ns = config->timeout_max;
    if (config->indirect)
        out->indirect = config->indirect;
    out->starts = sim->nodes[id].starts;
}

static void store_config(struct bw_sim *sim, bw_node id, uint32_t election)
{
    size_t store = id - (sim->cap - sim->stores + 1);
    sim->configs[election].ops = &bw_sim_store_ops;
    sim->configs[election].config.host = &sim->lease_hosts[1 + store * sim->elections + election];
}

void bw_sim_node_config(struct bw_sim *sim, bw_node id, struct bw_instance_config *config)
{
    const struct bw_sim_config *settings = sim->config;
    memset(config, 0, sizeof *config);
    bool store = bw_sim_is_store(sim, id);
    config->detector = store ? NULL : settings->detector;
    if (config->detector)
        detector_config(sim, id, &config->detect);
    for (uint32_t e = 0; e < sim->elections; e++) {
        sim->configs[e].ops = settings->guard ? &bw_elect_guard : settings->algorithm;
        elector_config(sim, id, e, &sim->configs[e].config);
        if (store)
            store_config(sim, id, e);
    }
    config->elections = sim->configs;
    config->count = sim->elections;
    config->spread = settings->spread;
}

/* Updates whether the node counts for agreement and figures; a store or a second process never
 * does. */
static void count(struct bw_sim *sim, bw_node id, bool live, bool running)
{
    if (bw_sim_is_store(sim, id) || bw_sim_is_second(sim, id))
        return;
    bw_sim_claims_count(&sim->claims, id, running && !sim->nodes[id].leaving);
    bw_sim_metrics_node(&sim->metrics, sim->now, id, live, running);
    sim->recheck = true;
}

/* Sets the state of a new process; durable state is on its disk. */
static void clear_process(struct bw_sim_node *node)
{
    node->incarnation++;
    node->paused = false;
    node->leaving = false;
    node->barrier = false;
    node->ending = BW_SIM_STAYS;
    node->armed = false;
    node->stray.serial = 0;
    bw_sim_fifo_init(&node->held);
    bw_sim_fifo_init(&node->waiting);
}

void bw_sim_node_boot(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    struct bw_instance_config config;
    clear_process(node);
    bw_sim_unable_start(sim, id);
    bw_sim_node_config(sim, id, &config);
    if (sim->raft)
        bw_sim_raft_load(sim, id);
    int error = bw_instance_init(&node->instance, node->memory, &config);
    if (error) {
        bw_sim_fail(sim, error, "node %u could not be set up: %s", id, bw_error_text(error));
        return;
    }
    node->up = true;
    count(sim, id, true, true);
}

void bw_sim_node_start(struct bw_sim *sim, bw_node id, bool passive, bw_node leader)
{
    struct bw_sim_node *node = &sim->nodes[id];
    for (uint32_t e = 0; e < sim->elections; e++) {
        sim->starts[e] = (struct bw_start){
            .durable = node->disk.records[e], .leader = leader, .passive = passive};
        sim->starts[e].durable.starts = node->starts;
    }
    node->starts++;
    struct bw_event event = {
        .kind = BW_EVENT_START, .node = bw_sim_id_of(sim, id), .start = sim->starts};
    bw_sim_node_step(sim, id, &event, 0);
}

static void drop_list(struct bw_sim *sim, struct bw_sim_fifo *list)
{
    struct bw_sim_slot *slot;
    while ((slot = bw_sim_fifo_get(&sim->queue, list)))
        bw_sim_queue_give(&sim->queue, slot);
}

void bw_sim_node_crash(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (!node->up)
        return;
    drop_list(sim, &node->held);
    drop_list(sim, &node->waiting);
    bw_sim_registry_crash(sim, id);
    int error = bw_sim_disk_crash(&node->disk, &sim->queue, &sim->rng);
    if (error)
        bw_sim_fail(sim, error, "the log of node %u: %s", id, bw_error_text(error));
    clear_process(node);
    node->up = false;
    bw_sim_claims_forget(&sim->claims, id);
    count(sim, id, false, false);
}

void bw_sim_node_pause(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (!node->up || node->paused)
        return;
    bw_sim_work_pause(sim, id);
    node->paused = true;
    count(sim, id, true, false);
}

static void meet_waiting(struct bw_sim *sim, struct bw_sim_node *node)
{
    struct bw_sim_slot *slot;
    while ((slot = bw_sim_fifo_get(&sim->queue, &node->waiting)))
        bw_sim_again(sim, slot);
}

void bw_sim_node_resume(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (!node->up || !node->paused)
        return;
    node->paused = false;
    count(sim, id, true, true);
    bw_sim_work_resume(sim, id);
    bool timers_first = bw_rng_chance(&sim->rng, 0.5);
    if (!timers_first)
        meet_waiting(sim, node);
    bw_sim_node_arm(sim, node, id, true);
    meet_waiting(sim, node);
}

void bw_sim_node_wait(struct bw_sim *sim, struct bw_sim_node *node, struct bw_sim_slot *slot)
{
    if (node->waiting.count < BW_SIM_WAITING_MAX || slot->kind != BW_PENDING_MESSAGE)
        bw_sim_fifo_put(&sim->queue, &node->waiting, slot);
    else
        bw_sim_queue_give(&sim->queue, slot);
}

void bw_sim_node_arm(struct bw_sim *sim, struct bw_sim_node *node, bw_node id, bool restart)
{
    bw_time deadline = bw_instance_deadline(node->instance);
    if (restart)
        node->armed = false;
    if (deadline == BW_TIME_NEVER || (node->armed && node->armed_for <= deadline))
        return;
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_TIMER, id);
    if (!slot)
        return;
    slot->incarnation = ++node->timer;
    node->armed = true;
    node->armed_for = deadline;
    bw_time due = bw_time_max(bw_sim_clock_world(&node->clock, deadline), sim->now);
    if (sim->config->timers_late_ns && due < sim->config->timers_late_until)
        due += bw_rng_between(&sim->rng, 0, sim->config->timers_late_ns);
    bw_sim_queue_push(&sim->queue, slot, due);
}

void bw_sim_node_timer(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node id = slot->node;
    struct bw_sim_node *node = &sim->nodes[id];
    bool current = node->armed && slot->incarnation == node->timer && node->up;
    bw_sim_queue_give(&sim->queue, slot);
    if (!current || node->paused)
        return;
    node->armed = false;
    if (bw_instance_deadline(node->instance) <= bw_sim_clock_local(&node->clock, sim->now)) {
        struct bw_event event = {.kind = BW_EVENT_TIMEOUT, .node = id};
        bw_sim_node_step(sim, id, &event, 0);
    } else {
        bw_sim_node_arm(sim, node, id, false);
    }
}

void bw_sim_node_step(struct bw_sim *sim, bw_node id, struct bw_event *event, uint64_t extra)
{
    struct bw_sim_node *node = &sim->nodes[id];
    event->now = bw_sim_clock_local(&node->clock, sim->now);
    sim->actions.count = 0;
    bw_instance_step(node->instance, event, &sim->actions);
    if (sim->actions.count)
        bw_sim_act(sim, id, event, extra);
    if (node->up)
        bw_sim_node_arm(sim, node, id, false);
}

void bw_sim_node_deliver(struct bw_sim *sim, bw_node id, const struct bw_event *event)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (!node->up)
        return;
    if (!node->paused) {
        struct bw_event copy = *event;
        bw_sim_node_step(sim, id, &copy, 0);
        return;
    }
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_EVENT, id);
    if (!slot)
        return;
    memcpy(slot->body, event, sizeof *event);
    bw_sim_node_wait(sim, node, slot);
}
