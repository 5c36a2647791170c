/* The event loop: takes the next pending event, advances the time to it and handles it. Also the
 * network between the nodes. */
#include "sim/world/world.h"

#include "core/base/codec.h"
#include "core/base/error.h"
#include "sim/step.h"
#include "sim/stores/registry.h"
#include "sim/world/raft.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number of events between two checks of the checkers and of the number of pending events */
#define CHECK_INTERVAL 1024u

void bw_sim_fail(struct bw_sim *sim, int error, const char *format, ...)
{
    if (sim->error)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim->why, BW_SIM_WHY, format, arguments);
    va_end(arguments);
    sim->error = error;
}

void *bw_sim_scratch(struct bw_sim *sim, size_t size)
{
    if (size <= sim->scratch_bytes)
        return sim->scratch;
    void *scratch = realloc(sim->scratch, size * 2);
    if (!scratch) {
        sim->queue.error = BW_ENOMEM;
        return NULL;
    }
    sim->scratch = scratch;
    sim->scratch_bytes = size * 2;
    return scratch;
}

struct bw_sim_slot *bw_sim_pend(struct bw_sim *sim, enum bw_sim_pending kind, bw_node node)
{
    struct bw_sim_slot *slot = bw_sim_queue_take(&sim->queue);
    if (!slot)
        return NULL;
    slot->kind = (uint8_t)kind;
    slot->node = node;
    slot->incarnation = node ? sim->nodes[node].incarnation : 0;
    return slot;
}

/* Encodes and decodes a message, as on a real network. A message that our own codec refuses is a
 * bug. */
static const struct bw_message *recode(struct bw_sim *sim, const struct bw_message *msg,
                                       struct bw_message *copy)
{
    int length = bw_message_encode(msg, sim->frame, BW_FRAME_MAX);
    int error = length < 0 ? length
                           : bw_message_decode(copy, sim->frame, (size_t)length, sim->frame_data,
                                               BW_MESSAGE_DATA_MAX);
    if (error)
        bw_sim_fail(sim, error, "a %s message of node %u does not encode: %s",
                    bw_message_name(msg->kind), msg->from, bw_error_text(error));
    return error ? msg : copy;
}

/* Schedules the arrival of a copy of the message at `receiver` after `delay`. */
static void carry(struct bw_sim *sim, bw_node receiver, const struct bw_message *msg,
                  uint64_t extra, bw_time delay)
{
    if (delay == BW_TIME_NEVER)
        return;
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_MESSAGE, receiver);
    if (!slot)
        return;
    slot->extra = extra;
    slot->sent = sim->now;
    if (!bw_sim_slot_message(&sim->queue, slot, msg))
        return;
    sim->inflight += !bw_message_for_detector(msg->kind);
    bw_sim_queue_push(&sim->queue, slot, sim->now + delay);
}

/* The target is dead: reports that to the sender after a round trip, if the transport reports
 * failures. */
static void bounce(struct bw_sim *sim, bw_node sender, const struct bw_message *msg)
{
    if (!sim->config->transport_reports)
        return;
    sim->result->failed_sends++;
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_FAILED, sender);
    if (!slot || !bw_sim_slot_message(&sim->queue, slot, msg))
        return;
    sim->inflight++;
    bw_time back = bw_sim_net_delay(&sim->net);
    bw_sim_queue_push(&sim->queue, slot, sim->now + back + bw_sim_net_delay(&sim->net));
}

void bw_sim_send(struct bw_sim *sim, bw_node slot, const struct bw_message *msg, uint64_t extra)
{
    struct bw_message decoded;
    bool elector = !bw_message_for_detector(msg->kind);
    if (sim->config->codec)
        msg = recode(sim, msg, &decoded);
    if (elector) {
        sim->result->sent++;
        sim->result->by_kind[msg->kind]++;
    } else {
        sim->result->detector_sent++;
    }
    bool possible =
        msg->to && msg->to <= sim->cap && bw_sim_net_open(&sim->net, msg->from, msg->to);
    bw_node receiver = possible ? bw_sim_receiver(sim, msg->to) : msg->to;
    bool there = possible && sim->nodes[receiver].up;
    bw_time delay = there ? bw_sim_net_draw(&sim->net) : BW_TIME_NEVER;
    bw_sim_trace_sent(&sim->trace, sim->now, msg, bw_time_add(delay, sim->now));
    carry(sim, receiver, msg, extra, delay);
    if (possible && !there && elector)
        bounce(sim, slot, msg);
    if (there && sim->net.duplicate > 0 && bw_rng_chance(&sim->net.rng, sim->net.duplicate))
        carry(sim, receiver, msg, extra, bw_sim_net_draw(&sim->net));
    bw_node second = possible && sim->stores ? bw_sim_second_of(sim, msg->to) : BW_NODE_NONE;
    if (second)
        carry(sim, second, msg, extra, bw_sim_net_draw(&sim->net));
}

static bool for_elector(const struct bw_sim_slot *slot)
{
    const struct bw_message *msg = (const struct bw_message *)(const void *)slot->body;
    bool message = slot->kind == BW_PENDING_MESSAGE || slot->kind == BW_PENDING_FAILED;
    return message && !bw_message_for_detector(msg->kind);
}

void bw_sim_again(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    sim->inflight += for_elector(slot);
    bw_sim_queue_push(&sim->queue, slot, sim->now);
}

static void deliver(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    const struct bw_message *msg = bw_sim_slot_msg(slot);
    sim->result->delivered += !bw_message_for_detector(msg->kind);
    bw_sim_trace_delivered(&sim->trace, sim->now, msg);
    bw_sim_registry_received(sim, slot->node, msg->from);
    if (!bw_message_for_detector(msg->kind) &&
        !bw_sim_registry_admits(sim, slot->node, msg->from)) {
        bw_sim_queue_give(&sim->queue, slot);
        return;
    }
    struct bw_event event = {.kind = BW_EVENT_MESSAGE, .node = msg->from, .msg = msg};
    bw_sim_node_step(sim, slot->node, &event, slot->extra);
    bw_sim_queue_give(&sim->queue, slot);
}

static void report_send_failure(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    const struct bw_message *msg = bw_sim_slot_msg(slot);
    struct bw_event event = {.kind = BW_EVENT_SEND_FAILED, .node = msg->to, .msg = msg};
    bw_sim_trace_stepped(&sim->trace, sim->now, slot->node, "could not reach", msg->to);
    bw_sim_node_step(sim, slot->node, &event, 0);
    bw_sim_queue_give(&sim->queue, slot);
}

static void deliver_event(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct bw_event event;
    memcpy(&event, slot->body, sizeof event);
    bw_node id = slot->node;
    bw_sim_queue_give(&sim->queue, slot);
    bw_sim_node_step(sim, id, &event, 0);
}

/* Handles an event of a running process. */
static void handle_in_process(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    switch ((enum bw_sim_pending)slot->kind) {
    case BW_PENDING_MESSAGE:
        deliver(sim, slot);
        break;
    case BW_PENDING_FAILED:
        report_send_failure(sim, slot);
        break;
    case BW_PENDING_EVENT:
        deliver_event(sim, slot);
        break;
    case BW_PENDING_WORK:
        bw_sim_work_due(sim, slot);
        break;
    case BW_PENDING_FRAME:
        bw_sim_registry_frame(sim, slot);
        break;
    case BW_PENDING_ASKED:
        bw_sim_registry_asked(sim, slot);
        break;
    case BW_PENDING_TURN:
        bw_sim_registry_turn(sim, slot);
        break;
    case BW_PENDING_TICK:
        bw_sim_registry_tick(sim, slot);
        break;
    case BW_PENDING_UNABLE:
        bw_sim_unable_due(sim, slot);
        break;
    case BW_PENDING_ENDED:
        bw_sim_queue_give(&sim->queue, slot);
        bw_sim_fault_leave(sim, slot->node);
        break;
    default:
        bw_sim_act_done(sim, slot);
        break;
    }
}

/* Handles an event of a process: queues it while the process is paused, drops it if the process has
 * died. */
static void handle_for_node(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct bw_sim_node *node = &sim->nodes[slot->node];
    bool message = slot->kind == BW_PENDING_MESSAGE || slot->kind == BW_PENDING_FRAME ||
                   slot->kind == BW_PENDING_ASKED;
    bool same = message || slot->incarnation == node->incarnation;
    if (!node->up || !same)
        bw_sim_queue_give(&sim->queue, slot);
    else if (node->paused)
        bw_sim_node_wait(sim, node, slot);
    else
        handle_in_process(sim, slot);
}

static void next_fault(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    const struct bw_sim_config *config = sim->config;
    bw_sim_fault_due(sim, &config->faults[sim->next_fault++]);
    sim->recheck = true;
    if (sim->next_fault < config->faults_count)
        bw_sim_queue_push(&sim->queue, slot,
                          bw_time_max(config->faults[sim->next_fault].at, sim->now));
    else
        bw_sim_queue_give(&sim->queue, slot);
}

static void happen(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    switch ((enum bw_sim_pending)slot->kind) {
    case BW_PENDING_MESSAGE:
    case BW_PENDING_FAILED:
        sim->inflight -= for_elector(slot);
        handle_for_node(sim, slot);
        break;
    case BW_PENDING_TIMER:
        bw_sim_node_timer(sim, slot);
        break;
    case BW_PENDING_DISK:
        if (slot->incarnation == sim->nodes[slot->node].incarnation)
            bw_sim_act_durable(sim, slot);
        else
            bw_sim_queue_give(&sim->queue, slot);
        break;
    case BW_PENDING_EVENT:
    case BW_PENDING_WORK:
    case BW_PENDING_DISK_DONE:
    case BW_PENDING_FRAME:
    case BW_PENDING_ASKED:
    case BW_PENDING_TURN:
    case BW_PENDING_TICK:
    case BW_PENDING_ENDED:
    case BW_PENDING_UNABLE:
        handle_for_node(sim, slot);
        break;
    case BW_PENDING_CLIENT:
        bw_sim_registry_client(sim, slot);
        break;
    case BW_PENDING_WRITE:
        bw_sim_work_arrives(sim, slot);
        break;
    case BW_PENDING_PROPOSE:
        bw_sim_raft_propose(sim, slot);
        break;
    case BW_PENDING_READ:
        bw_sim_raft_read(sim, slot);
        break;
    case BW_PENDING_CHANGE:
        bw_sim_raft_change(sim, slot);
        break;
    case BW_PENDING_GONE:
        bw_sim_fault_gone(sim, slot);
        break;
    case BW_PENDING_FAULT:
        next_fault(sim, slot);
        break;
    }
}

/* Returns whether some node does not yet suspect a node that is down or paused. */
static bool detecting(const struct bw_sim *sim)
{
    if (!sim->config->detector)
        return false;
    const struct bw_sim_node *victim = &sim->nodes[bw_sim_metrics_unnoticed(&sim->metrics)];
    return victim != sim->nodes && (!victim->up || victim->paused);
}

/* Updates what depends on the views of all nodes, after one of them or the set of counted nodes has
 * changed. */
static void look_at_views(struct bw_sim *sim)
{
    const struct bw_sim_config *config = sim->config;
    bool settled = config->no_announce ? bw_sim_claims_leader(&sim->claims, 0) != BW_NODE_NONE
                                       : bw_sim_claims_settled(&sim->claims);
    settled = (settled || !sim->elections) && sim->next_fault == config->faults_count;
    if (settled && !sim->settled)
        sim->settled_at = sim->now;
    sim->settled = settled;
    sim->recheck = false;
    if (sim->elections)
        bw_sim_metrics_agreed(&sim->metrics, sim->now, bw_sim_claims_agreed(&sim->claims, 0),
                              sim->claims.count);
}

/* Returns whether a run without a fixed end is over. When all nodes agree, pending messages are
 * still delivered, for at most the time of a ring lap: the last hop of a ring's announcement
 * counts. */
static bool ended(struct bw_sim *sim)
{
    const struct bw_sim_config *config = sim->config;
    if (!sim->settled || detecting(sim))
        return false;
    bw_time lap = (bw_time)(config->nodes + 1) * sim->net.latency.max;
    return !sim->inflight || sim->now >= bw_time_add(sim->settled_at, lap);
}

static bool time_stands_still(struct bw_sim *sim, bw_time at)
{
    if (at > sim->now) {
        sim->now = at;
        sim->instant = 0;
        return false;
    }
    return ++sim->instant > BW_SIM_INSTANT_MAX;
}

static void glance(struct bw_sim *sim)
{
    bw_time at;
    bw_checker_pending(sim->checker, sim->now, sim->queue.taken);
    if (bw_checker_violation(sim->checker, &at) || bw_sim_registry_found_wrong(sim))
        sim->settled = sim->stopped = true;
}

bool bw_sim_goes_on(const struct bw_sim *sim)
{
    return !sim->error && !sim->queue.error && !sim->stopped;
}

bool bw_sim_is_over(struct bw_sim *sim)
{
    if (sim->recheck)
        look_at_views(sim);
    return ended(sim);
}

void bw_sim_loop_once(struct bw_sim *sim)
{
    bw_time at;
    if (sim->recheck)
        look_at_views(sim);
    struct bw_sim_slot *slot = bw_sim_queue_pop(&sim->queue, &at);
    if (time_stands_still(sim, at))
        bw_sim_fail(sim, BW_ELIMIT, "no progress at %.6f s: %u events at one instant",
                    (double)at / (double)BW_SEC, sim->instant);
    happen(sim, slot);
    if (++sim->result->events % CHECK_INTERVAL == 0 && sim->checker)
        glance(sim);
}

void bw_sim_loop(struct bw_sim *sim)
{
    const struct bw_sim_config *config = sim->config;
    bw_time horizon = config->until ? config->until : config->limit;
    while (bw_sim_goes_on(sim)) {
        if (!config->until && bw_sim_is_over(sim))
            return;
        if (bw_sim_queue_next(&sim->queue) > horizon) {
            sim->now = horizon;
            return;
        }
        bw_sim_loop_once(sim);
    }
}

void bw_sim_check_queue(struct bw_sim *sim)
{
    double seconds = (double)sim->now / (double)BW_SEC;
    if (sim->queue.error == BW_ENOMEM)
        bw_sim_fail(sim, BW_ENOMEM, "out of memory at %.3f s with %u events pending", seconds,
                    sim->queue.taken);
    else if (sim->queue.error)
        bw_sim_fail(sim, BW_ELIMIT, "more than %u events are pending at %.3f s",
                    sim->queue.slots_max, seconds);
}
