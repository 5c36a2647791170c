/* Executes the actions of a step in order.
 *
 * A PERSIST whose record is not yet durable is a barrier: all actions that are visible outside wait
 * behind it, in order, and are lost with it in a crash. Notes (trace, suspicions) are not visible
 * outside and do not wait. */
#include "sim/world/world.h"

#include "core/base/error.h"
#include "sim/stores/registry.h"
#include "sim/world/raft.h"

#include <string.h>

/* Returns whether information from `from` can reach `to`, directly or through other nodes. */
static bool reaches(struct bw_sim *sim, bw_node from, bw_node to)
{
    if (bw_sim_net_open(&sim->net, from, to) && bw_sim_net_open(&sim->net, to, from))
        return true;
    if (!sim->net.cuts_count)
        return false;
    uint32_t slots = sim->cap + 1, head = 0, tail = 0;
    bw_node *line = bw_sim_scratch(sim, slots * (sizeof *line + 1));
    if (!line)
        return false;
    uint8_t *seen = (uint8_t *)(line + slots);
    memset(seen, 0, slots);
    line[tail++] = from;
    seen[from] = 1;
    while (head < tail) {
        bw_node at = line[head++];
        for (bw_node next = 1; next <= sim->cap; next++) {
            const struct bw_sim_node *node = &sim->nodes[next];
            if (seen[next] || !node->up || node->paused || bw_sim_is_store(sim, next) ||
                !bw_sim_net_open(&sim->net, at, next))
                continue;
            seen[next] = 1;
            line[tail++] = next;
        }
    }
    return seen[to];
}

static void suspect(struct bw_sim *sim, bw_node id, const struct bw_action *action)
{
    bool suspects = action->kind == BW_ACTION_SUSPECT;
    bw_node target = action->node;
    bw_sim_trace_suspected(&sim->trace, sim->now, id, target, suspects, action->level);
    bw_sim_metrics_suspected(&sim->metrics, sim->now, id, target, suspects);
    if (suspects)
        bw_sim_metrics_sign(&sim->metrics, sim->now, id, target);
    if (!suspects || target == BW_NODE_NONE || target > sim->cap)
        return;
    const struct bw_sim_node *node = &sim->nodes[target];
    bool well = node->up && !node->paused && !node->leaving;
    if (well && reaches(sim, target, id))
        sim->result->false_suspicions++;
}

/* Tells the node that its own work under terms up to `term` is dead. Only now may its elector free
 * its promises. */
static void confirm_own_death(struct bw_sim *sim, bw_node id, uint32_t election, bw_term term)
{
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_EVENT, id);
    if (!slot)
        return;
    struct bw_event event = {.kind = BW_EVENT_CONFIRMED_DEAD,
                             .node = bw_sim_id_of(sim, id),
                             .election = (uint16_t)election,
                             .alone = sim->config->spread,
                             .dead_term = term};
    memcpy(slot->body, &event, sizeof event);
    bw_sim_queue_push(&sim->queue, slot, sim->now + sim->config->stop_ns);
}

/* Tells the other nodes at once that the work is dead: the worst case for a transfer is that they
 * learn it first. With news_ns, Raft's nodes may learn it late, when the node leads again; then
 * `term` says which work is dead. */
static void notify_work_dead(struct bw_sim *sim, bw_node id, uint32_t election, bw_term term)
{
    bw_time delay = sim->raft ? sim->config->news_ns : 0;
    struct bw_event event = {.kind = BW_EVENT_CONFIRMED_DEAD,
                             .node = bw_sim_id_of(sim, id),
                             .election = (uint16_t)election,
                             .alone = true,
                             .runs = !sim->nodes[id].leaving,
                             .handed = sim->nodes[id].ending == BW_SIM_HANDS_OVER,
                             .dead_term = delay ? term : 0};
    for (bw_node other = 1; other <= sim->cap; other++) {
        const struct bw_sim_node *node = &sim->nodes[other];
        bool hears = other != event.node && node->member && node->up && !node->paused &&
                     bw_sim_net_open(&sim->net, event.node, other);
        struct bw_sim_slot *slot = hears ? bw_sim_pend(sim, BW_PENDING_EVENT, other) : NULL;
        if (!slot)
            continue;
        memcpy(slot->body, &event, sizeof event);
        bw_time late = delay ? bw_rng_between(&sim->rng, 0, delay) : 0;
        bw_sim_queue_push(&sim->queue, slot, sim->now + late);
    }
}

/* A leader may no longer act. Its work is dead if the host ended it first (resign, transfer, stop).
 * Otherwise the work still acts while the host ends it, but never longer than its lease. */
static void end_work(struct bw_sim *sim, bw_node id, uint32_t election, bw_time lease_end)
{
    struct bw_sim_node *node = &sim->nodes[id];
    bool clean = node->ending != BW_SIM_STAYS || node->leaving;
    bw_time until = bw_time_min(lease_end, sim->now + sim->config->stop_ns);
    if (!sim->config->lingers)
        return;
    node->work_until = clean ? 0 : bw_time_max(node->work_until, until);
    if (sim->checker)
        bw_checker_lingers(sim->checker, id, election, sim->now, clean ? 0 : until);
}

/* The host ends the work cleanly; then the elector transfers leadership. */
static void move(struct bw_sim *sim, bw_node id, uint32_t election, bw_node to)
{
    bool promises = sim->raft || sim->config->guard;
    bw_time promise = promises ? bw_elector_promise(&sim->configs[0].config) : 0;
    if (sim->checker)
        bw_checker_moved(sim->checker, sim->now, id, election, to, promise);
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_EVENT, id);
    if (!slot)
        return;
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = id};
    event.command = (struct bw_command){
        .kind = BW_COMMAND_TRANSFER, .election = (uint16_t)election, .node = to};
    memcpy(slot->body, &event, sizeof event);
    bw_sim_queue_push(&sim->queue, slot, sim->now + sim->config->stop_ns);
}

static void announce(struct bw_sim *sim, bw_node id, uint32_t election,
                     const struct bw_announcement *announcement)
{
    const struct bw_sim_clock *clock = &sim->nodes[id].clock;
    struct bw_announcement own = *announcement;
    const struct bw_announcement *a = &own;
    bool leads = a->leader == bw_sim_id_of(sim, id);
    bool counts = election == 0 && !bw_sim_is_second(sim, id);
    if (leads)
        own.leader = id; /* of two processes with the same id, this one */
    bw_time from = leads ? bw_sim_clock_world(clock, a->act_from) : 0;
    bw_time until = leads ? bw_sim_clock_world(clock, a->act_until) : 0;
    const struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, election, id);
    bool led = claim->leads;
    bw_time lease_end = led ? bw_sim_clock_world(clock, claim->act_until) : 0;
    bw_term led_term = claim->term;
    bool begins = bw_sim_claims_announce(&sim->claims, election, id, a);
    if (counts && leads)
        bw_sim_metrics_leads(&sim->metrics, sim->now, id, begins, a->term, from, until);
    else if (counts)
        bw_sim_metrics_yields(&sim->metrics, sim->now, id);
    if (counts)
        bw_sim_metrics_follows(&sim->metrics, sim->now, id, a->leader);
    if (led && (!leads || until <= sim->now))
        end_work(sim, id, election, lease_end);
    bw_sim_trace_announced(&sim->trace, sim->now, id, election, a, from, until);
    sim->recheck = true;
    if (election == 0)
        bw_sim_registry_led(sim, id, a);
    if (sim->elections == 1)
        bw_sim_unable_announced(sim, id, announcement);
    if (leads)
        bw_sim_work_schedule(sim, id, election);
    else if (led)
        confirm_own_death(sim, id, election, led_term);
    if (sim->nodes[id].ending == BW_SIM_STAYS || (leads && until > sim->now))
        return;
    if (!sim->stores && !sim->registry && !sim->config->spread)
        notify_work_dead(sim, id, election, led_term);
    sim->nodes[id].ending = BW_SIM_STAYS;
}

void bw_sim_act_write(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node id = slot->node;
    struct bw_sim_node *node = &sim->nodes[id];
    const struct bw_sim_config *config = sim->config;
    bool record = bw_sim_disk_write_of(slot)->op == BW_DISK_RECORD;
    if (node->disk.fails) { /* the write is lost, and the process exits */
        bw_sim_queue_give(&sim->queue, slot);
        bw_sim_fault_crash(sim, id);
        return;
    }
    bw_time drawn = bw_rng_between(&sim->rng, config->disk_min, config->disk_max);
    bw_time due = bw_sim_disk_due(&node->disk, sim->now, drawn);
    if (record && due == sim->now) { /* a disk without latency needs no barrier */
        bw_sim_disk_apply(&node->disk, slot);
        bw_sim_queue_give(&sim->queue, slot);
        return;
    }
    node->barrier = node->barrier || record;
    bw_sim_fifo_put(&sim->queue, &node->disk.writes, slot);
    bw_sim_queue_push(&sim->queue, slot, due);
}

static void persist(struct bw_sim *sim, bw_node id, uint32_t election,
                    const struct bw_durable *record)
{
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_DISK, id);
    if (!slot)
        return;
    slot->election = (uint16_t)election;
    struct bw_sim_disk_write write = {.op = BW_DISK_RECORD, .record = *record};
    memcpy(slot->body, &write, sizeof write);
    bw_sim_act_write(sim, slot);
}

static void send(struct bw_sim *sim, bw_node id, const struct bw_message *msg)
{
    uint64_t extra = 0;
    struct bw_message with_bytes;
    if (!bw_message_for_detector(msg->kind) && !bw_sim_registry_reaches(sim, id, msg->to))
        return;
    bool bytes =
        msg->kind == BW_MSG_RAFT_APPEND ? msg->append.runs > 0 : msg->kind == BW_MSG_RAFT_SNAPSHOT;
    if (!bytes) {
        bw_sim_send(sim, id, msg, 0);
        return;
    }
    memcpy(&with_bytes, msg, bw_message_used(msg->kind));
    if (!sim->raft || bw_sim_raft_attach(sim, id, &with_bytes, &extra))
        bw_sim_send(sim, id, &with_bytes, extra);
}

static void note(struct bw_sim *sim, bw_node id, const struct bw_action *action)
{
    if (action->kind != BW_ACTION_TRACE) {
        suspect(sim, id, action);
        return;
    }
    if (action->trace.code == BW_TRACE_ELECTION && action->election == 0) {
        sim->result->elections++;
        bw_sim_metrics_follows(&sim->metrics, sim->now, id, BW_NODE_NONE);
    }
    bw_sim_trace_noted(&sim->trace, sim->now, id, &action->trace);
}

/* Executes one action; `data` is what raft.c attached to a log action. */
static void carry_out(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                      const void *data)
{
    switch (action->kind) {
    case BW_ACTION_SEND:
        send(sim, id, &action->msg);
        break;
    case BW_ACTION_ANNOUNCE:
        announce(sim, id, action->election, &action->announce);
        break;
    case BW_ACTION_PERSIST:
        persist(sim, id, action->election, &action->durable);
        break;
    case BW_ACTION_LOG_APPEND:
    case BW_ACTION_LOG_TRUNCATE:
    case BW_ACTION_LOG_RESTORE:
    case BW_ACTION_LOG_COMPACT:
    case BW_ACTION_COMMIT:
        if (sim->raft)
            bw_sim_raft_log(sim, id, action, data);
        break;
    case BW_ACTION_ANSWER:
        bw_sim_raft_answered(sim, &action->answer);
        bw_sim_registry_answered(sim, id, &action->answer);
        break;
    case BW_ACTION_SUSPECT:
    case BW_ACTION_TRUST:
    case BW_ACTION_MOVE:
    case BW_ACTION_TRACE:
        break;
    }
}

/* Returns the size of an action's own part, without lists of messages. */
static size_t part_size(enum bw_action_kind kind)
{
    switch (kind) {
    case BW_ACTION_ANNOUNCE:
        return sizeof(struct bw_announcement);
    case BW_ACTION_PERSIST:
        return sizeof(struct bw_durable);
    case BW_ACTION_SEND:
        return 0;
    default:
        return sizeof(struct bw_log_action);
    }
}

/* Holds an action behind the barrier. The slot's `extra` is the kind of action. */
static void hold(struct bw_sim *sim, bw_node id, const struct bw_action *action, const void *data,
                 size_t bytes)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (action->kind == BW_ACTION_SEND && node->held.count >= BW_SIM_HELD_MAX)
        return;
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_DISK, id);
    if (!slot)
        return;
    slot->election = action->election;
    slot->extra = action->kind;
    bool held = true;
    if (action->kind == BW_ACTION_SEND)
        held = bw_sim_slot_message(&sim->queue, slot, &action->msg);
    else
        memcpy(slot->body, &action->durable, part_size(action->kind));
    if (held && data && bytes)
        held = bw_sim_slot_block(&sim->queue, slot, data, bytes);
    if (held)
        bw_sim_fifo_put(&sim->queue, &node->held, slot);
    else
        bw_sim_queue_give(&sim->queue, slot);
}

void bw_sim_act(struct bw_sim *sim, bw_node id, const struct bw_event *event, uint64_t extra)
{
    struct bw_sim_node *node = &sim->nodes[id];
    for (uint32_t i = 0; i < sim->actions.count; i++) {
        const struct bw_action *action = &sim->actions.at[i];
        enum bw_action_kind kind = action->kind;
        if (kind == BW_ACTION_TRACE || kind == BW_ACTION_SUSPECT || kind == BW_ACTION_TRUST) {
            note(sim, id, action);
            continue;
        }
        if (kind == BW_ACTION_MOVE) { /* a request to the host, invisible outside: no barrier */
            move(sim, id, action->election, action->node);
            continue;
        }
        if (kind == BW_ACTION_ANNOUNCE && sim->checker)
            bw_checker_decided(sim->checker, sim->now, id, action->election,
                               action->announce.leader);
        const void *data = NULL;
        size_t bytes = 0;
        if (sim->raft && (kind == BW_ACTION_LOG_APPEND || kind == BW_ACTION_LOG_RESTORE))
            data = bw_sim_raft_resolve(sim, id, action, event, extra, &bytes);
        if (node->barrier)
            hold(sim, id, action, data, bytes);
        else
            carry_out(sim, id, action, data);
        if (!node->up)
            return; /* a failed write killed the process */
    }
}

/* The barrier is gone: executes the held actions up to the next record. */
static void release(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    struct bw_sim_slot *slot;
    node->barrier = false;
    while (!node->barrier && node->up && (slot = bw_sim_fifo_get(&sim->queue, &node->held))) {
        struct bw_action action = {0};
        action.kind = (enum bw_action_kind)slot->extra;
        action.election = slot->election;
        if (action.kind == BW_ACTION_SEND) {
            send(sim, id, bw_sim_slot_msg(slot));
        } else {
            memcpy(&action.durable, slot->body, part_size(action.kind));
            carry_out(sim, id, &action, slot->block);
        }
        bw_sim_queue_give(&sim->queue, slot);
    }
}

void bw_sim_act_durable(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct bw_sim_node *node = &sim->nodes[slot->node];
    BW_ASSERT(bw_sim_fifo_get(&sim->queue, &node->disk.writes) == slot);
    int error = bw_sim_disk_apply(&node->disk, slot);
    if (error)
        bw_sim_fail(sim, error, "the log of node %u: %s", slot->node, bw_error_text(error));
    slot->kind = BW_PENDING_DISK_DONE;
    if (node->paused)
        bw_sim_node_wait(sim, node, slot);
    else
        bw_sim_act_done(sim, slot);
}

void bw_sim_act_done(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node id = slot->node;
    if (bw_sim_disk_write_of(slot)->op == BW_DISK_RECORD)
        release(sim, id);
    else
        bw_sim_raft_durable(sim, slot);
    bw_sim_queue_give(&sim->queue, slot);
}
