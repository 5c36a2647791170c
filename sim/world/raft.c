/* The host's side of Raft.
 *
 * An entry is a 64-bit hash that represents its bytes. For a proposal it is derived from the
 * request's number, for Raft's own entries from their content. The state is a chain of hashes over
 * all applied entries. So two nodes that report the same hash at an index have applied the same
 * entries up to it, snapshots included. Observers get this hash. */
#include "sim/world/raft.h"

#include "core/base/error.h"
#include "sim/stores/registry.h"

#include <string.h>

static uint64_t hash_of(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 31 ^ b) * 0x94d049bb133111ebu;
    return x ^ x >> 29;
}

static struct bw_sim_raft_host *host_of(struct bw_sim *sim, bw_node id, uint32_t election)
{
    return &sim->nodes[id].raft[election];
}

static struct bw_raft *raft_of(struct bw_sim *sim, bw_node id, uint32_t election)
{
    return bw_instance_elector(sim->nodes[id].instance, election);
}

/* Collects the runs of terms and the membership changes of a log; only counts them if `runs` is
 * NULL. */
static void survey(const struct bw_sim_log *log, struct bw_raft_saved *saved,
                   struct bw_term_run *runs, struct bw_raft_change *changes)
{
    uint32_t r = 0, c = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        const struct bw_sim_entry *entry = &log->at[i];
        bool begins = i == 0 || log->at[i - 1].term != entry->term;
        if (runs && begins)
            runs[r] = (struct bw_term_run){.term = entry->term, .count = 0};
        r += begins;
        if (runs)
            runs[r - 1].count++;
        if (entry->op && runs)
            changes[c] = (struct bw_raft_change){
                .index = log->base + i + 1, .op = entry->op, .node = entry->node};
        c += entry->op != 0;
    }
    saved->runs = runs;
    saved->runs_count = r;
    saved->changes = changes;
    saved->changes_count = c;
}

/* Initializes the process's log from its disk. */
static void load(struct bw_sim *sim, bw_node id, uint32_t election)
{
    struct bw_sim_raft_host *host = host_of(sim, id, election);
    const struct bw_sim_log *disk = &sim->nodes[id].disk.logs[election];
    int error = bw_sim_log_copy(&host->log, disk);
    if (error)
        bw_sim_fail(sim, error, "the log of node %u: %s", id, bw_error_text(error));
    host->applied = host->log.snapshot.index;
    host->state = host->log.snapshot.state;
    host->snapshot_asked = host->applied;
    bw_sim_registry_boot(sim, id, host->applied, host->state);
}

void bw_sim_raft_load(struct bw_sim *sim, bw_node id)
{
    size_t bytes = sim->elections * sizeof(struct bw_raft_saved);
    for (uint32_t e = 0; e < sim->elections; e++) {
        struct bw_raft_saved counts;
        load(sim, id, e);
        survey(&host_of(sim, id, e)->log, &counts, NULL, NULL);
        bytes += counts.runs_count * sizeof(struct bw_term_run) +
                 counts.changes_count * sizeof(struct bw_raft_change) + 16;
    }
    unsigned char *at = bw_sim_scratch(sim, bytes);
    struct bw_raft_saved *all = (struct bw_raft_saved *)(void *)at;
    for (uint32_t e = 0; at && e < sim->elections; e++) {
        const struct bw_sim_log *log = &host_of(sim, id, e)->log;
        struct bw_raft_saved *saved = &all[e];
        at += e ? 0 : sim->elections * sizeof *saved;
        survey(log, saved, NULL, NULL);
        struct bw_term_run *runs = (struct bw_term_run *)(void *)at;
        at += saved->runs_count * sizeof *runs;
        struct bw_raft_change *changes = (struct bw_raft_change *)(void *)at;
        at += (saved->changes_count * sizeof *changes + 15) & ~(size_t)15;
        survey(log, saved, runs, changes);
        saved->snapshot_index = log->snapshot.index;
        saved->snapshot_term = log->snapshot.term;
        saved->members = log->snapshot.members;
        saved->voters = log->snapshot.voters;
        saved->learners = log->snapshot.learners;
        bool anything = saved->snapshot_index || saved->runs_count;
        sim->configs[e].config.saved = anything ? saved : NULL;
    }
}

static bw_term term_of(const struct bw_append_part *part, uint32_t entry)
{
    for (uint32_t i = 0; i < part->runs; i++) {
        if (entry < part->run[i].count)
            return part->run[i].term;
        entry -= part->run[i].count;
    }
    return 0;
}

/* Entries that came with an APPEND. */
static void received(struct bw_sim_entry *out, const struct bw_log_action *log,
                     const struct bw_message *msg)
{
    for (uint32_t i = 0; i < log->count; i++) {
        uint32_t k = log->skip + i;
        struct bw_sim_entry *entry = &out[i];
        *entry = (struct bw_sim_entry){.term = term_of(&msg->append, k)};
        if ((size_t)(k + 1) * sizeof entry->hash <= msg->items)
            memcpy(&entry->hash, (const unsigned char *)msg->data + k * sizeof entry->hash,
                   sizeof entry->hash);
        if (msg->append.change.op && msg->append.change.entry == k) {
            entry->op = msg->append.change.op;
            entry->node = msg->append.change.node;
        }
    }
}

/* Entries that were created here: a proposal's, or Raft's own. */
static void own(struct bw_sim *sim, bw_node id, struct bw_sim_entry *out,
                const struct bw_log_action *log)
{
    for (uint32_t i = 0; i < log->count; i++) {
        bool change = log->change.op && log->change.entry == i;
        uint64_t what = log->request ? hash_of(log->request, i)
                                     : hash_of(log->change.op, (uint64_t)log->change.node << 8);
        uint64_t bytes = bw_sim_registry_entry(sim, id, log->request, i, change);
        out[i] = (struct bw_sim_entry){.hash = bytes ? bytes : what,
                                       .term = log->term,
                                       .node = change ? log->change.node : BW_NODE_NONE,
                                       .op = change ? log->change.op : (uint8_t)BW_CHANGE_NONE};
    }
}

static const void *snapshot_of(struct bw_sim *sim, const struct bw_message *msg, uint64_t state)
{
    struct bw_sim_snapshot *snapshot = bw_sim_scratch(sim, sizeof *snapshot);
    if (!snapshot)
        return NULL;
    uint32_t members = msg->items < BW_RAFT_MEMBERS_MAX ? msg->items : BW_RAFT_MEMBERS_MAX;
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->index = msg->snapshot.last_index;
    snapshot->term = msg->snapshot.last_term;
    snapshot->state = state;
    snapshot->voters = msg->snapshot.voters < members ? msg->snapshot.voters : members;
    snapshot->learners = members - snapshot->voters;
    if (members)
        memcpy(snapshot->members, msg->data, members * sizeof *snapshot->members);
    return snapshot;
}

const void *bw_sim_raft_resolve(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                                const struct bw_event *event, uint64_t extra, size_t *bytes)
{
    const struct bw_message *msg = event->kind == BW_EVENT_MESSAGE ? event->msg : NULL;
    if (action->kind == BW_ACTION_LOG_RESTORE) {
        if (!msg || msg->kind != BW_MSG_RAFT_SNAPSHOT)
            return NULL;
        *bytes = sizeof(struct bw_sim_snapshot);
        return snapshot_of(sim, msg, extra);
    }
    *bytes = action->log.count * sizeof(struct bw_sim_entry);
    struct bw_sim_entry *entries = bw_sim_scratch(sim, *bytes);
    if (!entries)
        return NULL;
    if (msg && msg->kind == BW_MSG_RAFT_APPEND && !action->log.request)
        received(entries, &action->log, msg);
    else
        own(sim, id, entries, &action->log);
    return entries;
}

static void begin_write(struct bw_sim *sim, bw_node id, uint32_t election,
                        const struct bw_sim_disk_write *write, const void *data, size_t bytes)
{
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_DISK, id);
    if (!slot)
        return;
    slot->election = (uint16_t)election;
    memcpy(slot->body, write, sizeof *write);
    if (bytes && !bw_sim_slot_block(&sim->queue, slot, data, bytes))
        return;
    bw_sim_act_write(sim, slot);
}

static void append(struct bw_sim *sim, bw_node id, uint32_t election,
                   const struct bw_log_action *log, const struct bw_sim_entry *entries)
{
    if (!log->count)
        return;
    int error =
        bw_sim_log_append(&host_of(sim, id, election)->log, log->first, entries, log->count);
    if (error) {
        bw_sim_fail(sim, error, "node %u appends %u entries at %llu: %s", id, log->count,
                    (unsigned long long)log->first, bw_error_text(error));
        return;
    }
    bw_sim_registry_learn(sim, id, entries, log->count);
    struct bw_sim_disk_write write = {.op = BW_DISK_APPEND,
                                      .first = log->first,
                                      .count = log->count,
                                      .term = entries[log->count - 1].term};
    begin_write(sim, id, election, &write, entries, log->count * sizeof *entries);
}

static void truncate_log(struct bw_sim *sim, bw_node id, uint32_t election, bw_index first)
{
    bw_sim_log_truncate(&host_of(sim, id, election)->log, first);
    bw_sim_registry_relearn(sim, id);
    struct bw_sim_disk_write write = {.op = BW_DISK_TRUNCATE, .first = first};
    begin_write(sim, id, election, &write, NULL, 0);
}

static void restore(struct bw_sim *sim, bw_node id, uint32_t election,
                    const struct bw_sim_snapshot *snapshot)
{
    struct bw_sim_raft_host *host = host_of(sim, id, election);
    bw_sim_log_restore(&host->log, snapshot);
    struct bw_sim_disk_write write = {
        .op = BW_DISK_RESTORE, .first = snapshot->index, .count = 1, .term = snapshot->term};
    if (snapshot->index > host->applied) {
        host->applied = snapshot->index;
        host->state = snapshot->state;
        host->snapshot_asked = snapshot->index;
        bw_sim_registry_restore(sim, id, snapshot->index, snapshot->state);
        bw_sim_trace_committed(&sim->trace, sim->now, id, election, host->applied, host->state);
    }
    begin_write(sim, id, election, &write, snapshot, sizeof *snapshot);
}

/* Starts to write a snapshot of the applied state, if enough entries were applied since the last
 * one, or if Raft needs a newer one. */
static void take_snapshot(struct bw_sim *sim, bw_node id, uint32_t election)
{
    struct bw_sim_raft_host *host = host_of(sim, id, election);
    struct bw_raft *raft = raft_of(sim, id, election);
    const struct bw_sim_entry *last = bw_sim_log_at(&host->log, host->applied);
    uint32_t every = sim->config->compact_every;
    bool due = every && host->applied >= host->snapshot_asked + every;
    bool needed = bw_raft_needs_snapshot(raft) && host->applied > host->snapshot_asked;
    if ((!due && !needed) || !last || host->applied < bw_raft_snapshot_index(raft))
        return;
    struct bw_sim_snapshot snapshot;
    memset(&snapshot, 0, sizeof snapshot);
    snapshot.index = host->applied;
    snapshot.term = last->term;
    snapshot.state = host->state;
    uint32_t total = bw_raft_members_at(raft, host->applied, snapshot.members, &snapshot.voters);
    snapshot.learners = total - snapshot.voters;
    host->snapshot_asked = host->applied;
    bw_sim_registry_save(sim, id, host->state);
    struct bw_sim_disk_write write = {
        .op = BW_DISK_SNAPSHOT, .first = snapshot.index, .term = snapshot.term};
    begin_write(sim, id, election, &write, &snapshot, sizeof snapshot);
}

static void apply(struct bw_sim *sim, bw_node id, uint32_t election, bw_index until)
{
    struct bw_sim_raft_host *host = host_of(sim, id, election);
    while (host->applied < until) {
        const struct bw_sim_entry *entry = bw_sim_log_at(&host->log, host->applied + 1);
        if (!entry) {
            bw_sim_fail(sim, BW_EINVAL, "node %u commits entry %llu, which it does not have", id,
                        (unsigned long long)host->applied + 1);
            return;
        }
        host->applied++;
        host->state = bw_sim_log_apply(host->state, host->applied, entry);
        bw_sim_registry_apply(sim, id, entry);
        bw_sim_trace_committed(&sim->trace, sim->now, id, election, host->applied, host->state);
    }
    if (election == 0 && host->applied > sim->result->committed)
        sim->result->committed = host->applied;
    bw_sim_registry_applied(sim, id);
    take_snapshot(sim, id, election);
}

void bw_sim_raft_log(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                     const void *data)
{
    const struct bw_log_action *log = &action->log;
    switch (action->kind) {
    case BW_ACTION_LOG_APPEND:
        if (data)
            append(sim, id, action->election, log, data);
        break;
    case BW_ACTION_LOG_TRUNCATE:
        truncate_log(sim, id, action->election, log->first);
        break;
    case BW_ACTION_LOG_RESTORE:
        if (data)
            restore(sim, id, action->election, data);
        break;
    case BW_ACTION_LOG_COMPACT:
        bw_sim_log_compact(&host_of(sim, id, action->election)->log, log->first);
        break;
    default:
        apply(sim, id, action->election, log->first);
    }
}

bool bw_sim_raft_attach(struct bw_sim *sim, bw_node id, struct bw_message *msg, uint64_t *extra)
{
    const struct bw_sim_log *log = &host_of(sim, id, msg->election)->log;
    if (msg->kind == BW_MSG_RAFT_SNAPSHOT) {
        *extra = log->snapshot.state;
        return log->snapshot.index == msg->snapshot.last_index;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < msg->append.runs; i++)
        count += msg->append.run[i].count;
    bw_index first = msg->append.prev_index + 1;
    if (!count || !bw_sim_log_at(log, first) || !bw_sim_log_at(log, first + count - 1))
        return !count;
    uint64_t *hashes = bw_sim_scratch(sim, count * sizeof *hashes);
    if (!hashes)
        return false;
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = bw_sim_log_at(log, first + i)->hash;
    msg->data = hashes;
    msg->items = count * (uint32_t)sizeof *hashes;
    return true;
}

void bw_sim_raft_durable(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    const struct bw_sim_disk_write *write = bw_sim_disk_write_of(slot);
    struct bw_event event = {.node = slot->node, .election = slot->election};
    if (write->op == BW_DISK_TRUNCATE)
        return;
    if (write->op == BW_DISK_SNAPSHOT) {
        struct bw_sim_log *log = &host_of(sim, slot->node, slot->election)->log;
        if (write->first <= log->snapshot.index)
            return;
        memcpy(&log->snapshot, slot->block, sizeof log->snapshot);
        event.kind = BW_EVENT_COMMAND;
        event.command = (struct bw_command){
            .kind = BW_COMMAND_COMPACT, .election = slot->election, .index = write->first};
    } else {
        event.kind = BW_EVENT_PERSISTED;
        event.persisted.index = write->first + write->count - 1;
        event.persisted.term = write->term;
    }
    bw_sim_node_step(sim, slot->node, &event, 0);
}

void bw_sim_raft_propose(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    for (uint32_t e = 0; e < sim->elections; e++) {
        bw_node leader = bw_sim_claims_leader(&sim->claims, e);
        if (!leader || sim->nodes[leader].paused)
            continue;
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = leader};
        event.command = (struct bw_command){.kind = BW_COMMAND_PROPOSE,
                                            .election = (uint16_t)e,
                                            .count = sim->config->propose_count,
                                            .request = ++sim->requests};
        bw_sim_node_step(sim, leader, &event, 0);
    }
    bw_sim_queue_push(&sim->queue, slot, sim->now + sim->config->propose_ns);
}

/* The request number of a read: this bit, and the highest index that any node had applied when the
 * read was sent. A linearizable answer is not below that index. */
#define READ_BIT ((uint64_t)1 << 63)

void bw_sim_raft_read(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    for (bw_node id = 1; id <= sim->cap; id++) {
        struct bw_elector_status status;
        if (!sim->nodes[id].up || sim->nodes[id].paused)
            continue;
        bw_instance_status(sim->nodes[id].instance, 0, &status);
        if (!status.leading)
            continue;
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = id};
        event.command = (struct bw_command){.kind = BW_COMMAND_READ,
                                            .request = READ_BIT | sim->result->committed};
        bw_sim_node_step(sim, id, &event, 0);
    }
    bw_sim_queue_push(&sim->queue, slot, sim->now + sim->config->read_ns);
}

void bw_sim_raft_answered(struct bw_sim *sim, const struct bw_answer *answer)
{
    if (!(answer->request & READ_BIT) || answer->error)
        return;
    sim->result->reads++;
    sim->result->stale_reads += answer->index < (answer->request & ~READ_BIT);
}

/* Returns the change that brings `id` one step closer to its target, in the leader's view. */
static enum bw_change_op wanted(struct bw_sim *sim, bw_node leader, uint32_t election, bw_node id)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0;
    const struct bw_raft *raft = raft_of(sim, leader, election);
    uint32_t total = bw_raft_members_at(raft, bw_raft_commit_index(raft), members, &voters);
    uint32_t at = 0;
    while (at < total && members[at] != id)
        at++;
    if (!sim->nodes[id].member)
        return at < total ? BW_CHANGE_REMOVE : BW_CHANGE_NONE;
    if (at == total)
        return BW_CHANGE_ADD_LEARNER;
    return at >= voters ? BW_CHANGE_PROMOTE : BW_CHANGE_NONE;
}

/* Returns whether the voters without `id` contain a majority that can be alive. `peer remove`
 * refuses other removals. */
static bool removable(struct bw_sim *sim, bw_node leader, uint32_t election, bw_node id)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0, kept = 0, alive = 0;
    const struct bw_raft *raft = raft_of(sim, leader, election);
    if (!sim->config->peer_rules)
        return true;
    bw_raft_members_at(raft, bw_raft_commit_index(raft), members, &voters);
    for (uint32_t i = 0; i < voters; i++) {
        const struct bw_sim_node *node = &sim->nodes[members[i]];
        bool comes_back = !node->wiped && !node->left;
        kept += members[i] != id;
        alive += members[i] != id && comes_back;
    }
    return kept == voters || alive > kept / 2;
}

/* Returns a running node that knows the newest commit; NONE: there is none. */
static bw_node newest(struct bw_sim *sim)
{
    for (bw_node any = 1; any <= sim->cap; any++)
        if (sim->nodes[any].up &&
            bw_raft_commit_index(raft_of(sim, any, 0)) >= sim->result->committed)
            return any;
    return BW_NODE_NONE;
}

/* Writes the members according to the newest commit; returns 0 if no running node knows it. */
static uint32_t newest_members(struct bw_sim *sim, bw_node *members, uint32_t *voters)
{
    bw_node any = newest(sim);
    if (!any)
        return 0;
    const struct bw_raft *raft = raft_of(sim, any, 0);
    return bw_raft_members_at(raft, bw_raft_commit_index(raft), members, voters);
}

bool bw_sim_raft_removed(struct bw_sim *sim, bw_node id)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0, at = 0, total = newest_members(sim, members, &voters);
    while (at < total && members[at] != id)
        at++;
    return total && at == total;
}

uint32_t bw_sim_raft_voters(struct bw_sim *sim)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0;
    return newest_members(sim, members, &voters) ? voters : 0;
}

/* Asks the leader of an election for the next pending change; returns false if there is none. */
static bool ask(struct bw_sim *sim, uint32_t election)
{
    bw_node leader = bw_sim_claims_leader(&sim->claims, election);
    if (!leader || sim->nodes[leader].paused)
        return true;
    /* a new leader does not know yet which changes are committed */
    if (sim->config->peer_rules && election == 0 &&
        bw_raft_commit_index(raft_of(sim, leader, 0)) < sim->result->committed)
        return true;
    take_snapshot(sim, leader, election);
    /* with peer_rules, several operators ask at once: a refused change does not delay the others */
    uint32_t turn = sim->config->peer_rules ? (uint32_t)(sim->requests % sim->cap) : 0;
    for (uint32_t i = 0; i < sim->cap; i++) {
        bw_node id = 1 + (i + turn) % sim->cap;
        if (!sim->nodes[id].member && !sim->nodes[id].starts)
            continue;
        enum bw_change_op op = wanted(sim, leader, election, id);
        if (op == BW_CHANGE_NONE ||
            (op == BW_CHANGE_REMOVE && !removable(sim, leader, election, id)))
            continue;
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = leader};
        event.command = (struct bw_command){.kind = BW_COMMAND_CHANGE,
                                            .op = op,
                                            .election = (uint16_t)election,
                                            .node = id,
                                            .request = ++sim->requests};
        bw_sim_node_step(sim, leader, &event, 0);
        return true;
    }
    return false;
}

void bw_sim_raft_change(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    if (!sim->raft || (!slot && (sim->changing || sim->registry)))
        return;
    if (sim->registry) {
        bw_sim_registry_operate(sim, slot);
        return;
    }
    bool more = false;
    for (uint32_t e = 0; e < sim->elections; e++)
        more = ask(sim, e) || more;
    more = bw_sim_members_reap(sim) || more;
    sim->changing = more;
    if (!slot && more)
        slot = bw_sim_pend(sim, BW_PENDING_CHANGE, BW_NODE_NONE);
    if (!slot)
        return;
    if (more)
        bw_sim_queue_push(&sim->queue, slot, sim->now + sim->config->period_ns);
    else
        bw_sim_queue_give(&sim->queue, slot);
}

void bw_sim_raft_fresh_timers(struct bw_sim *sim)
{
    for (bw_node id = 1; sim->raft && id <= sim->cap; id++) {
        struct bw_sim_node *node = &sim->nodes[id];
        if (!node->up || node->paused)
            continue;
        bw_time local = bw_sim_clock_local(&node->clock, sim->now);
        for (uint32_t e = 0; e < sim->elections; e++)
            bw_raft_restart_timer(raft_of(sim, id, e), local);
        bw_sim_node_arm(sim, node, id, true);
    }
}
