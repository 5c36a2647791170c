/* Executes faults. Node 0 means the leader at that time. For the end of a fault on node 0 (restart,
 * resume, mend) it means the node that the fault hit. A fault that makes no sense (no leader, the
 * node is already dead) is skipped and not reported. */
#include "sim/faults/antipattern.h"
#include "sim/world/world.h"

#include "core/base/error.h"
#include "sim/stores/registry.h"
#include "sim/world/raft.h"

#include <string.h>

/* Number of latencies that a leaving node gets to transfer leadership. */
#define LEAVE_TRIES 400u

static bool talk(const struct bw_sim *sim, bw_node one, bw_node other)
{
    return bw_sim_net_open(&sim->net, one, other) && bw_sim_net_open(&sim->net, other, one);
}

/* Returns whether the leader cannot communicate with a majority in both directions: of its peers,
 * or of the stores for leases. Dead nodes do not communicate. */
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

/* From now on the nodes that no longer receive messages of `victim` should notice its failure. */
static void mark_failed(struct bw_sim *sim, bw_node victim, bool all)
{
    bw_sim_metrics_fail(&sim->metrics, sim->now, victim);
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
    bool store = bw_sim_is_store(sim, id), second = bw_sim_is_second(sim, id);
    bool hints = store ? sim->config->transport_reports : sim->config->transport_hints;
    bw_sim_node_crash(sim, id);
    if (leader)
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now, id);
    if (!store && !second)
        mark_failed(sim, id, true);
    for (bw_node other = 1; hints && other <= sim->cap; other++)
        if (other != id && bw_sim_net_open(&sim->net, id, other))
            hint(sim, other, bw_sim_id_of(sim, id), bw_sim_net_delay(&sim->net));
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
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now, id);
    if (!bw_sim_is_store(sim, id) && !bw_sim_is_second(sim, id))
        mark_failed(sim, id, true);
}

static void partition(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    bw_node leader = bw_sim_claims_leader(&sim->claims, 0);
    bool before = leader && cut_off(sim, leader);
    bw_sim_net_partition(&sim->net, fault->groups);
    for (bw_node id = sim->cap - sim->stores + 1; id <= sim->cap; id++)
        if (!sim->net.group[id]) /* the store is in no group */
            sim->net.group[id] = 1;
    if (!leader || before || !cut_off(sim, leader))
        return;
    bw_sim_metrics_leader_hit(&sim->metrics, sim->now, leader);
    mark_failed(sim, leader, false);
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
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now, leader);
    mark_failed(sim, from, false);
}

static void drift(struct bw_sim *sim, bw_node id, double rate)
{
    struct bw_sim_node *node = &sim->nodes[id];
    bw_sim_clock_change(&node->clock, sim->now, rate);
    if (!node->up)
        return;
    if (!node->paused)
        bw_sim_node_arm(sim, node, id, true);
    /* the clock's new rate moves the node's windows on the world's clock: announce them again */
    for (uint32_t e = 0; e < sim->elections; e++) {
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
            bw_sim_metrics_leads(&sim->metrics, sim->now, id, false, a.term, from, until);
        bw_sim_trace_announced(&sim->trace, sim->now, id, e, &a, from, until);
    }
}

/* Makes a wall clock jump; monotonic clocks do not jump. Only the elector that uses the time of day
 * notices, and leases with a declared clock uncertainty. */
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

/* The process dies, but not its work: its supervisor and its guardian are gone. */
static void kill_process(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    for (uint32_t e = 0; e < sim->elections; e++) {
        const struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, e, id);
        bw_time until = claim->leads ? bw_sim_clock_world(&node->clock, claim->act_until) : 0;
        node->work_until = bw_time_max(node->work_until, until);
    }
    crash(sim, id);
}

void bw_sim_fault_notify(struct bw_sim *sim, bw_node id, const struct bw_event *event)
{
    for (bw_node other = 1; other <= sim->cap; other++)
        if (bw_sim_id_of(sim, other) != id &&
            (sim->nodes[other].member || bw_sim_is_second(sim, other)))
            bw_sim_node_deliver(sim, other, event);
}

static void command(struct bw_sim *sim, bw_node id, enum bw_command_kind kind, bw_node target)
{
    for (uint32_t e = 0; e < sim->elections; e++) {
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = id};
        event.command = (struct bw_command){.kind = kind, .election = (uint16_t)e, .node = target};
        bw_sim_node_deliver(sim, id, &event);
    }
}

void bw_sim_fault_resign(struct bw_sim *sim, bw_node id)
{
    sim->nodes[id].ending = BW_SIM_RESIGNS;
    command(sim, id, BW_COMMAND_RESIGN, BW_NODE_NONE);
}

/* The work of one election has died, and its host does not start it again. */
static void resign_shard(struct bw_sim *sim, bw_node id, uint32_t shard)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = id};
    event.command =
        (struct bw_command){.kind = BW_COMMAND_RESIGN, .election = (uint16_t)(shard - 1)};
    bw_sim_node_deliver(sim, id, &event);
}

static void restart(struct bw_sim *sim, bw_node id)
{
    bw_sim_node_boot(sim, id);
    if (!sim->error)
        bw_sim_node_start(sim, id, false, BW_NODE_NONE);
}

/* Makes the store unavailable or available, in the way of its model; of five stores a majority. If
 * there is no leader when the store is available again, the time to the next leader counts from
 * then. */
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
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now, BW_NODE_NONE);
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
    bw_sim_members_return(sim, id);
    restart(sim, id);
    bw_sim_fault_notify(sim, id, &event);
    bw_sim_raft_change(sim, NULL);
}

void bw_sim_fault_join(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_fault fault = {.kind = BW_FAULT_JOIN, .at = sim->now, .node = id};
    bw_sim_trace_faulted(&sim->trace, sim->now, &fault, id);
    join(sim, id);
}

void bw_sim_fault_forget_member(struct bw_sim *sim, bw_node id)
{
    uint32_t kept = 0, ordered = 0;
    if (bw_sim_second_of(sim, id))
        bw_sim_fault_crash(sim, bw_sim_second_of(sim, id));
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

static bool leads_any(const struct bw_sim *sim, bw_node id)
{
    bool leads = false;
    for (uint32_t e = 0; e < sim->elections; e++)
        leads = leads || bw_sim_claims_of(&sim->claims, e, id)->leads;
    return leads;
}

static void leave(struct bw_sim *sim, bw_node id)
{
    if (bw_sim_claims_leader(&sim->claims, 0) == id)
        bw_sim_metrics_leader_hit(&sim->metrics, sim->now, id);
    sim->nodes[id].leaving = true;
    if (sim->raft && sim->config->peer_rules) { /* it hands over, and votes until it is removed */
        if (leads_any(sim, id))
            bw_sim_fault_resign(sim, id);
        bw_sim_members_depart(sim, id);
        return;
    }
    sim->nodes[id].left = true;
    struct bw_event event = {.kind = BW_EVENT_STOP, .node = id};
    bw_sim_node_deliver(sim, id, &event);
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
    bool busy = node->up && slot->incarnation == node->incarnation && node->held.count > 0;
    busy = busy || (node->up && leads_any(sim, id));
    if (busy && slot->extra++ < LEAVE_TRIES) {
        bw_time more = bw_time_max(bw_sim_net_delay(&sim->net), BW_MS);
        bw_sim_queue_push(&sim->queue, slot, sim->now + more);
        return;
    }
    bw_sim_queue_give(&sim->queue, slot);
    if (sim->config->peer_rules && node->up)
        bw_sim_fault_crash(sim, id);
    bw_sim_node_crash(sim, id);
    bw_sim_fault_forget_member(sim, id);
    struct bw_event event = {.kind = BW_EVENT_LEAVE, .node = id};
    bw_sim_fault_notify(sim, id, &event);
    bw_sim_raft_change(sim, NULL);
    sim->recheck = true;
}

static bool of_network(const struct bw_sim_fault *fault)
{
    return fault->kind == BW_FAULT_PARTITION || fault->kind == BW_FAULT_HEAL ||
           fault->kind == BW_FAULT_LOSS || fault->kind == BW_FAULT_LATENCY ||
           fault->kind == BW_FAULT_STORE_DOWN || fault->kind == BW_FAULT_STORE_UP;
}

/* Returns the node that the fault hits, or none. */
static bw_node fault_target(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    if (of_network(fault))
        return BW_NODE_NONE;
    bool ends = fault->kind == BW_FAULT_RESTART || fault->kind == BW_FAULT_RESUME ||
                fault->kind == BW_FAULT_MEND;
    if (fault->node)
        return fault->node;
    if (ends)
        return sim->leader_hit;
    bw_node leader = bw_sim_claims_leader(&sim->claims, fault->shard ? fault->shard - 1 : 0);
    if (leader)
        sim->leader_hit = leader;
    return leader;
}

static bool makes_sense(const struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    const struct bw_sim_node *node = &sim->nodes[id];
    if (of_network(fault))
        return true;
    switch (fault->kind) {
    case BW_FAULT_RESTART:
        if (sim->registry && node->left) /* a removed node is started again, and must not stay */
            return id && !node->member && !node->up;
        return id && (node->member || node->departing) && !node->up && !node->left && !node->wiped;
    case BW_FAULT_CONFIRM:
        return id && node->member && !node->up && sim->now >= node->work_until;
    case BW_FAULT_JOIN:
    case BW_FAULT_REMOVE:
    case BW_FAULT_WIPE:
        return bw_sim_members_may(sim, fault, id);
    case BW_FAULT_SECOND:
        return bw_sim_second_may(sim, id);
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
        return id && node->up && !node->leaving && !bw_sim_is_store(sim, id) &&
               !bw_sim_is_second(sim, id) && bw_sim_members_may(sim, fault, id);
    case BW_FAULT_UNABLE:
    case BW_FAULT_ABLE:
        return id && sim->elections == 1 && !sim->stores && !sim->registry &&
               !bw_sim_is_second(sim, id) && node->unable != (fault->kind == BW_FAULT_UNABLE);
    case BW_FAULT_DRIFT:
    case BW_FAULT_JUMP:
    case BW_FAULT_DISK_SLOW:
        return id;
    default:
        return id && node->up;
    }
}

/* Executes faults of the network. */
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
    if (!sim->registry) {
        bw_sim_members_wipe(sim, id);
        return;
    }
    sim->nodes[id].left = true; /* a node without its disk cannot run under this id again */
    bw_sim_fault_forget_member(sim, id);
    bw_sim_registry_wiped(sim, id);
}

/* Executes faults of one node's machine. */
static bool happens_to_node(struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    switch (fault->kind) {
    case BW_FAULT_CRASH:
        node->work_until = 0;
        crash(sim, id);
        return true;
    case BW_FAULT_KILL:
        kill_process(sim, id);
        return true;
    case BW_FAULT_RESTART:
        node->work_until = 0; /* a restarted host ends the work that it finds */
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

/* Executes commands and notifications from outside the node. */
static void happens_around(struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = id};
    switch (fault->kind) {
    case BW_FAULT_HINT:
        hint(sim, id, fault->peer, 0);
        break;
    case BW_FAULT_CONFIRM:
        bw_sim_fault_notify(sim, id, &dead);
        break;
    case BW_FAULT_JOIN:
        join(sim, id);
        break;
    case BW_FAULT_SECOND:
        bw_sim_second_start(sim, id);
        break;
    case BW_FAULT_LEAVE:
        leave(sim, id);
        break;
    case BW_FAULT_REMOVE:
        bw_sim_members_depart(sim, id);
        break;
    case BW_FAULT_CAMPAIGN:
        command(sim, id, BW_COMMAND_CAMPAIGN, fault->peer);
        break;
    case BW_FAULT_RESIGN:
        if (fault->shard)
            resign_shard(sim, id, fault->shard);
        else
            bw_sim_fault_resign(sim, id);
        break;
    case BW_FAULT_UNABLE:
    case BW_FAULT_ABLE:
        bw_sim_unable_set(sim, id, fault->kind == BW_FAULT_UNABLE);
        break;
    case BW_FAULT_TRANSFER:
        if (!sim->raft || fault->peer != id) /* Raft refuses it: the leader's work goes on */
            sim->nodes[id].ending = BW_SIM_HANDS_OVER;
        command(sim, id, BW_COMMAND_TRANSFER, fault->peer);
        break;
    default:
        break;
    }
}

/* In runs of the registry the log decides on members: here a change is only requested. */
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

bool bw_sim_fault_possible(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    bw_node hit = sim->leader_hit;
    bool possible = makes_sense(sim, fault, fault_target(sim, fault));
    sim->leader_hit = hit;
    return possible;
}

void bw_sim_fault_due(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    bw_node id = fault_target(sim, fault);
    if (!makes_sense(sim, fault, id) || is_asked_for(sim, fault, id))
        return;
    bw_sim_trace_faulted(&sim->trace, sim->now, fault, id);
    if (!happens_outside(sim, fault, id) && !happens_to_node(sim, fault, id))
        happens_around(sim, fault, id);
}
