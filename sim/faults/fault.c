/* What goes wrong, and when. Node 0 means whoever leads then; what ends a trouble of node 0
 * (restart, resume, mend) means the node it befell. A fault that makes no sense (nobody leads, the
 * node is already dead) does not happen and is not told. */
#include "sim/faults/antipattern.h"
#include "sim/world/world.h"

#include "core/base/error.h"
#include "sim/stores/registry.h"
#include "sim/world/raft.h"

#include <string.h>

/* A leaving node is given so many ways' time to hand over. */
#define LEAVE_TRIES 400u

static bool talk(const struct bw_sim *sim, bw_node one, bw_node other)
{
    return bw_sim_net_open(&sim->net, one, other) && bw_sim_net_open(&sim->net, other, one);
}

/* The leader cannot talk both ways with a majority: of its peers, or of the stores if it leases.
 * The dead talk to nobody. */
static bool cut_off(const struct bw_sim *sim, bw_node leader)
{
    uint32_t talks = 1, stores = 0;
    for (bw_node id = sim->cap - sim->stores + 1; id <= sim->cap; id++)
        stores += sim->nodes[id].up && talk(sim, leader, id);
    if (sim->stores)
        return stores < sim->stores / 2 + 1;
    for (uint32_t i = 0; i < sim->members_count; i++) {
        bw_node other = sim->member_ids[i];
        talks += other != leader && sim->nodes[other].up && talk(sim, leader, other);
    }
    return talks < sim->members_count / 2 + 1;
}

/* From now on those who no longer hear from `victim` should notice. */
static void strike(struct bw_sim *sim, bw_node victim, bool all)
{
    bw_sim_metrics_strike(&sim->metrics, sim->now, victim);
    for (uint32_t i = 0; i < sim->members_count; i++) {
        bw_node other = sim->member_ids[i];
        if (other != victim && (all || !bw_sim_net_open(&sim->net, victim, other)))
            bw_sim_metrics_watcher(&sim->metrics, other);
    }
}

static void hint(struct bw_sim *sim, bw_node id, bw_node about, bw_time delay)
{
    struct bw_sim_slot *slot = sim->nodes[id].up ? bw_sim_pend(sim, BW_PENDING_EVENT, id) : NULL;
    if (!slot)
        return;
    struct bw_event event = {.kind = BW_EVENT_HINT, .node = about};
    memcpy(slot->body, &event, sizeof event);
    bw_sim_queue_push(&sim->queue, slot, sim->now + delay);
}

static void crash(struct bw_sim *sim, bw_node id)
{
    bool leader = bw_sim_claims_leader(&sim->claims, 0) == id;
    bool store = bw_sim_is_store(sim, id);
    bool hints = store ? sim->config->transport_tells : sim->config->transport_hints;
    bw_sim_node_crash(sim, id);
    if (leader)
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now);
    if (!store)
        strike(sim, id, true);
    for (bw_node other = 1; hints && other <= sim->cap; other++)
        if (other != id && bw_sim_net_open(&sim->net, id, other))
            hint(sim, other, id, bw_sim_net_delay(&sim->net));
    if (leader && sim->config->fresh_timers)
        bw_sim_raft_fresh_timers(sim);
}

void bw_sim_fault_crash(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_fault fault = {.kind = BW_FAULT_CRASH, .at = sim->now, .node = id};
    bw_sim_trace_faulted(&sim->trace, sim->now, &fault, id);
    crash(sim, id);
}

static void pause_node(struct bw_sim *sim, bw_node id)
{
    bool leader = bw_sim_claims_leader(&sim->claims, 0) == id;
    bw_sim_node_pause(sim, id);
    if (leader)
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now);
    if (!bw_sim_is_store(sim, id))
        strike(sim, id, true);
}

static void partition(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    bw_node leader = bw_sim_claims_leader(&sim->claims, 0);
    bool before = leader && cut_off(sim, leader);
    bw_sim_net_partition(&sim->net, fault->groups);
    for (bw_node id = sim->cap - sim->stores + 1; id <= sim->cap; id++)
        if (!sim->net.group[id]) /* nobody said where the store is */
            sim->net.group[id] = 1;
    if (!leader || before || !cut_off(sim, leader))
        return;
    bw_sim_metrics_leader_hit(&sim->metrics, sim->now);
    strike(sim, leader, false);
}

static void cut(struct bw_sim *sim, bw_node from, bw_node to)
{
    bw_node leader = bw_sim_claims_leader(&sim->claims, 0);
    bool before = leader && cut_off(sim, leader);
    if (bw_sim_net_cut(&sim->net, from, to)) {
        sim->queue.error = BW_ENOMEM;
        return;
    }
    if (leader && !before && cut_off(sim, leader))
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now);
    strike(sim, from, false);
}

static void drift(struct bw_sim *sim, bw_node id, double rate)
{
    struct bw_sim_node *node = &sim->nodes[id];
    bw_sim_clock_change(&node->clock, sim->now, rate);
    if (!node->up)
        return;
    if (!node->paused)
        bw_sim_node_arm(sim, node, id, true);
    for (uint32_t e = 0; e < sim->elections; e++) { /* its window has moved in the world's time */
        const struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, e, id);
        if (!claim->leads)
            continue;
        struct bw_announcement a = {.leader = id,
                                    .term = claim->term,
                                    .token = claim->token,
                                    .act_from = claim->act_from,
                                    .act_until = claim->act_until};
        bw_time from = bw_sim_clock_world(&node->clock, a.act_from);
        bw_time until = bw_sim_clock_world(&node->clock, a.act_until);
        if (e == 0)
            bw_sim_metrics_leads(&sim->metrics, sim->now, id, false, from, until);
        bw_sim_trace_announced(&sim->trace, sim->now, id, e, &a, from, until);
    }
}

/* Wall clocks jump, monotonic ones do not: only an elector that lives by the time of day notices,
 * and leases whose users declared how wrong it may be. */
static void jump(struct bw_sim *sim, bw_node id, bw_time span)
{
    struct bw_sim_node *node = &sim->nodes[id];
    node->wall_error += span;
    if (!sim->config->algorithm || !(sim->config->algorithm->traits & BW_TRAIT_WALL_CLOCK))
        return;
    bw_sim_clock_jump(&node->clock, sim->now, span);
    if (node->up && !node->paused)
        bw_sim_node_arm(sim, node, id, true);
}

static void tell_others(struct bw_sim *sim, bw_node id, const struct bw_event *event)
{
    for (bw_node other = 1; other <= sim->cap; other++)
        if (other != id && sim->nodes[other].member)
            bw_sim_node_tell(sim, other, event);
}

static void command(struct bw_sim *sim, bw_node id, enum bw_command_kind kind, bw_node target)
{
    for (uint32_t e = 0; e < sim->elections; e++) {
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = id};
        event.command = (struct bw_command){.kind = kind, .election = (uint16_t)e, .node = target};
        bw_sim_node_tell(sim, id, &event);
    }
}

static void restart(struct bw_sim *sim, bw_node id)
{
    bw_sim_node_boot(sim, id);
    if (!sim->error)
        bw_sim_node_start(sim, id, false, BW_NODE_NONE);
}

/* The store goes away or comes back, as its model does; of five a majority. When it is back with no
 * leader left, the time to the next one counts from here. */
static void store(struct bw_sim *sim, bool down)
{
    bool stands_still = sim->config->lease.store == BW_SIM_STORE_QUORUM;
    bw_node first = sim->cap - sim->stores + 1;
    for (bw_node id = first; id <= first + sim->stores / 2 && sim->stores; id++) {
        if (down && stands_still)
            bw_sim_node_pause(sim, id);
        else if (down && sim->nodes[id].up)
            crash(sim, id);
        else if (stands_still)
            bw_sim_node_resume(sim, id);
        else if (!sim->nodes[id].up)
            restart(sim, id);
    }
    if (!down && !bw_sim_claims_leader(&sim->claims, 0))
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now);
}

static void add_member(struct bw_sim *sim, bw_node id)
{
    struct bw_member member = {.id = id};
    uint32_t at = 0;
    while (at < sim->members_count && sim->members[at].id < id)
        at++;
    memmove(&sim->members[at + 1], &sim->members[at],
            (sim->members_count - at) * sizeof *sim->members);
    memmove(&sim->member_ids[at + 1], &sim->member_ids[at],
            (sim->members_count - at) * sizeof *sim->member_ids);
    sim->members[at] = member;
    sim->member_ids[at] = id;
    sim->order[sim->members_count++] = id;
    sim->nodes[id].member = true;
    sim->nodes[id].left = false;
}

static void join(struct bw_sim *sim, bw_node id)
{
    struct bw_event event = {.kind = BW_EVENT_JOIN, .node = id, .member = {.id = id}};
    add_member(sim, id);
    restart(sim, id);
    tell_others(sim, id, &event);
    bw_sim_raft_change(sim, NULL);
}

void bw_sim_fault_join(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_fault fault = {.kind = BW_FAULT_JOIN, .at = sim->now, .node = id};
    bw_sim_trace_faulted(&sim->trace, sim->now, &fault, id);
    join(sim, id);
}

static void forget_member(struct bw_sim *sim, bw_node id)
{
    uint32_t kept = 0, ordered = 0;
    for (uint32_t i = 0; i < sim->members_count; i++) {
        if (sim->order[i] != id)
            sim->order[ordered++] = sim->order[i];
        if (sim->member_ids[i] == id)
            continue;
        sim->members[kept] = sim->members[i];
        sim->member_ids[kept++] = sim->member_ids[i];
    }
    sim->members_count = kept;
    sim->nodes[id].member = false;
}

static void leave(struct bw_sim *sim, bw_node id)
{
    if (bw_sim_claims_leader(&sim->claims, 0) == id)
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now);
    sim->nodes[id].leaving = sim->nodes[id].left = true;
    struct bw_event event = {.kind = BW_EVENT_STOP, .node = id};
    bw_sim_node_tell(sim, id, &event);
    bw_sim_claims_count(&sim->claims, id, false);
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_GONE, id);
    if (slot)
        bw_sim_queue_push(&sim->queue, slot, sim->now + bw_sim_net_delay(&sim->net));
}

void bw_sim_fault_leave(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_fault fault = {.kind = BW_FAULT_LEAVE, .at = sim->now, .node = id};
    if (!sim->nodes[id].up || sim->nodes[id].leaving)
        return;
    bw_sim_trace_faulted(&sim->trace, sim->now, &fault, id);
    leave(sim, id);
}

void bw_sim_fault_gone(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node id = slot->node;
    struct bw_sim_node *node = &sim->nodes[id];
    bool busy = node->up && slot->life == node->life && node->held.count > 0;
    for (uint32_t e = 0; node->up && e < sim->elections; e++)
        busy = busy || bw_sim_claims_of(&sim->claims, e, id)->leads;
    if (busy && slot->extra++ < LEAVE_TRIES) {
        bw_time more = bw_time_max(bw_sim_net_delay(&sim->net), BW_MS);
        bw_sim_queue_push(&sim->queue, slot, sim->now + more);
        return;
    }
    bw_sim_queue_give(&sim->queue, slot);
    bw_sim_node_crash(sim, id);
    forget_member(sim, id);
    struct bw_event event = {.kind = BW_EVENT_LEAVE, .node = id};
    tell_others(sim, id, &event);
    bw_sim_raft_change(sim, NULL);
    sim->recheck = true;
}

static bool of_network(const struct bw_sim_fault *fault)
{
    return fault->kind == BW_FAULT_PARTITION || fault->kind == BW_FAULT_HEAL ||
           fault->kind == BW_FAULT_LOSS || fault->kind == BW_FAULT_LATENCY ||
           fault->kind == BW_FAULT_STORE_DOWN || fault->kind == BW_FAULT_STORE_UP;
}

/* Whom it befalls, or none. */
static bw_node whom(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    if (of_network(fault))
        return BW_NODE_NONE;
    bool ends = fault->kind == BW_FAULT_RESTART || fault->kind == BW_FAULT_RESUME ||
                fault->kind == BW_FAULT_MEND;
    if (fault->node)
        return fault->node;
    if (ends)
        return sim->struck;
    bw_node leader = bw_sim_claims_leader(&sim->claims, 0);
    if (leader)
        sim->struck = leader;
    return leader;
}

static bool makes_sense(const struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    const struct bw_sim_node *node = &sim->nodes[id];
    if (of_network(fault))
        return true;
    switch (fault->kind) {
    case BW_FAULT_RESTART:
        if (sim->registry && node->left) /* a removed one is started again, and must not stay */
            return id && !node->member && !node->up;
        return id && node->member && !node->up && !node->left;
    case BW_FAULT_WIPE:
        if (bw_sim_is_store(sim, id))
            return true;
        return id && sim->registry && node->member && !node->up && node->starts;
    case BW_FAULT_CONFIRM:
        return id && node->member && !node->up;
    case BW_FAULT_JOIN:
        return id && !node->member && !node->starts;
    case BW_FAULT_CUT:
    case BW_FAULT_MEND:
        return id && fault->peer && id != fault->peer;
    case BW_FAULT_PAUSE:
        return id && node->up && !node->paused;
    case BW_FAULT_RESUME:
        return id && node->up && node->paused;
    case BW_FAULT_LEAVE:
        if (sim->registry)
            return id && node->member;
        return id && node->up && !node->leaving && !bw_sim_is_store(sim, id);
    case BW_FAULT_DRIFT:
    case BW_FAULT_JUMP:
    case BW_FAULT_DISK_SLOW:
        return id;
    default:
        return id && node->up;
    }
}

/* Faults of the network. */
static bool happens_outside(struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    switch (fault->kind) {
    case BW_FAULT_PARTITION:
        partition(sim, fault);
        return true;
    case BW_FAULT_CUT:
        cut(sim, id, fault->peer);
        return true;
    case BW_FAULT_MEND:
        bw_sim_net_mend(&sim->net, id, fault->peer);
        return true;
    case BW_FAULT_HEAL:
        bw_sim_net_heal(&sim->net);
        return true;
    case BW_FAULT_LOSS:
        sim->net.loss = fault->rate;
        return true;
    case BW_FAULT_LATENCY:
        sim->net.latency = fault->latency;
        return true;
    case BW_FAULT_STORE_DOWN:
    case BW_FAULT_STORE_UP:
        store(sim, fault->kind == BW_FAULT_STORE_DOWN);
        return true;
    default:
        return false;
    }
}

static void wipe(struct bw_sim *sim, bw_node id)
{
    if (bw_sim_is_store(sim, id)) {
        uint32_t first = (id - (sim->cap - sim->stores + 1)) * sim->elections;
        for (uint32_t e = 0; e < sim->elections; e++)
            sim->books[first + e].wipe = true;
        return;
    }
    sim->nodes[id].left = true; /* it is of no use any more */
    forget_member(sim, id);
    bw_sim_registry_wiped(sim, id);
}

/* Faults of one node's machine. */
static bool happens_to_node(struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    switch (fault->kind) {
    case BW_FAULT_CRASH:
        crash(sim, id);
        return true;
    case BW_FAULT_RESTART:
        if (sim->registry && node->left)
            join(sim, id);
        else
            restart(sim, id);
        return true;
    case BW_FAULT_WIPE:
        wipe(sim, id);
        return true;
    case BW_FAULT_PAUSE:
        pause_node(sim, id);
        return true;
    case BW_FAULT_RESUME:
        bw_sim_node_resume(sim, id);
        return true;
    case BW_FAULT_DRIFT:
        drift(sim, id, fault->rate);
        return true;
    case BW_FAULT_JUMP:
        jump(sim, id, fault->span);
        return true;
    case BW_FAULT_DISK_FAIL:
        node->disk.fails = true;
        return true;
    case BW_FAULT_DISK_SLOW:
        node->disk.slow_ns = fault->span;
        return true;
    default:
        return false;
    }
}

/* What people and machines around it do. */
static void happens_around(struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = id};
    switch (fault->kind) {
    case BW_FAULT_HINT:
        hint(sim, id, fault->peer, 0);
        break;
    case BW_FAULT_CONFIRM:
        tell_others(sim, id, &dead);
        break;
    case BW_FAULT_JOIN:
        join(sim, id);
        break;
    case BW_FAULT_LEAVE:
        leave(sim, id);
        break;
    case BW_FAULT_CAMPAIGN:
        command(sim, id, BW_COMMAND_CAMPAIGN, fault->peer);
        break;
    case BW_FAULT_RESIGN:
        sim->nodes[id].ending = BW_SIM_RESIGNS;
        command(sim, id, BW_COMMAND_RESIGN, BW_NODE_NONE);
        break;
    case BW_FAULT_TRANSFER:
        sim->nodes[id].ending = BW_SIM_HANDS_OVER;
        command(sim, id, BW_COMMAND_TRANSFER, fault->peer);
        break;
    default:
        break;
    }
}

/* In the registry's runs members come and go because the log says so: here it is only asked for. */
static bool is_asked_for(struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    if (!sim->registry || (fault->kind != BW_FAULT_JOIN && fault->kind != BW_FAULT_LEAVE))
        return false;
    if (fault->kind == BW_FAULT_JOIN)
        bw_sim_registry_add(sim);
    else
        bw_sim_registry_remove(sim, id);
    return true;
}

void bw_sim_fault_due(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    bw_node id = whom(sim, fault);
    if (!makes_sense(sim, fault, id) || is_asked_for(sim, fault, id))
        return;
    bw_sim_trace_faulted(&sim->trace, sim->now, fault, id);
    if (!happens_outside(sim, fault, id) && !happens_to_node(sim, fault, id))
        happens_around(sim, fault, id);
}
