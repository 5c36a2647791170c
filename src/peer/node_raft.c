/* Raft's log of a peer: terms and membership changes without data, kept whole in the record of the
 * election. The roster determines the membership: a node that joined becomes a learner, then a
 * voter; a node that left is removed. The leader makes one change at a time (Raft §6; Ongaro's
 * thesis, §4.1). */
#include "peer/node_state.h"

#include <string.h>

static const struct bw_raft *raft_of(const struct bw_peer *p, uint32_t election)
{
    return bw_instance_elector(p->instance, election);
}

void peer_raft_saved(const struct bw_peer_log *log, struct bw_raft_saved *out)
{
    *out = (struct bw_raft_saved){.snapshot_index = log->snapshot_index,
                                  .snapshot_term = log->snapshot_term,
                                  .members = log->members,
                                  .voters = log->voters,
                                  .learners = log->learners,
                                  .runs = log->runs,
                                  .runs_count = log->runs_count,
                                  .changes = log->changes,
                                  .changes_count = log->changes_count};
}

/* Rebuilds the terms from the current log, which is short. */
static void rebuild_runs(struct bw_peer_log *log, const struct bw_raft *raft)
{
    log->runs_count = 0;
    for (bw_index i = log->snapshot_index + 1; i <= bw_raft_last_index(raft); i++) {
        bw_term term = bw_raft_term_at(raft, i);
        if (log->runs_count > 0 && log->runs[log->runs_count - 1].term == term)
            log->runs[log->runs_count - 1].count++;
        else
            log->runs[log->runs_count++] = (struct bw_term_run){.term = term, .count = 1};
    }
}

static void add_change(struct bw_peer_log *log, const struct bw_log_action *action)
{
    const struct bw_change *change = &action->change;
    if (change->op == BW_CHANGE_NONE || log->changes_count == BW_RAFT_CHANGES_MAX)
        return;
    log->changes[log->changes_count++] =
        (struct bw_raft_change){.index = action->first - action->skip + change->entry,
                                .op = change->op,
                                .node = change->node};
}

static void cut_changes(struct bw_peer_log *log, bw_index from)
{
    while (log->changes_count > 0 && log->changes[log->changes_count - 1].index >= from)
        log->changes_count--;
}

/* Makes everything up to `index` the snapshot, which consists only of the membership. */
static void move_snapshot(struct bw_peer_log *log, const struct bw_raft *raft, bw_index index)
{
    uint32_t drop = 0;
    uint32_t total = bw_raft_members_at(raft, index, log->members, &log->voters);
    log->learners = total - log->voters;
    log->snapshot_index = index;
    log->snapshot_term = bw_raft_term_at(raft, index);
    while (drop < log->changes_count && log->changes[drop].index <= index)
        drop++;
    log->changes_count -= drop;
    memmove(log->changes, log->changes + drop, log->changes_count * sizeof log->changes[0]);
}

void peer_raft_note(struct bw_peer *p, const struct bw_action *action)
{
    struct peer_election *e = &p->election[action->election];
    struct bw_peer_log *log = &p->records[action->election].log;
    const struct bw_raft *raft = raft_of(p, action->election);
    switch (action->kind) {
    case BW_ACTION_LOG_APPEND:
        add_change(log, &action->log);
        e->logged = p->unsettled = true;
        break;
    case BW_ACTION_LOG_TRUNCATE:
        cut_changes(log, action->log.first);
        break;
    case BW_ACTION_LOG_RESTORE:
        log->changes_count = 0;
        move_snapshot(log, raft, action->log.first);
        e->logged = p->unsettled = true;
        break;
    case BW_ACTION_LOG_COMPACT:
        move_snapshot(log, raft, action->log.first);
        break;
    default:
        return;
    }
    rebuild_runs(log, raft);
    e->dirty = true;
}

/* The change that brings `id` one step closer to its state in the roster. */
static enum bw_change_op wanted(const struct bw_peer *p, const bw_node *members, uint32_t voters,
                                uint32_t total, bw_node id)
{
    uint32_t at = 0;
    while (at < total && members[at] != id)
        at++;
    const struct bw_peer_row *row = bw_peer_roster_find(&p->roster, id);
    if (row && row->left)
        return at < total ? BW_CHANGE_REMOVE : BW_CHANGE_NONE;
    if (at == total)
        return row ? BW_CHANGE_ADD_LEARNER : BW_CHANGE_NONE;
    return at >= voters ? BW_CHANGE_PROMOTE : BW_CHANGE_NONE;
}

/* A member that came back needs a snapshot that contains its removal. */
static void make_snapshot(struct bw_peer *p, uint32_t election)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = p->options.self};
    event.command = (struct bw_command){.kind = BW_COMMAND_COMPACT,
                                        .election = (uint16_t)election,
                                        .index = bw_raft_commit_index(raft_of(p, election))};
    peer_step(p, &event);
}

static void change(struct bw_peer *p, uint32_t election)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0;
    const struct bw_raft *raft = raft_of(p, election);
    uint32_t total = bw_raft_members_at(raft, bw_raft_commit_index(raft), members, &voters);
    /* Starts at a random node, so that one that cannot be changed now does not block the others. */
    uint64_t first = p->roster.count ? bw_rng_below(&p->rng, p->roster.count) : 0;
    for (uint32_t i = 0; i < p->roster.count; i++) {
        bw_node id = p->roster.at[(first + i) % p->roster.count].row.id;
        enum bw_change_op op = wanted(p, members, voters, total, id);
        if (op == BW_CHANGE_NONE || (op == BW_CHANGE_ADD_LEARNER && total == BW_RAFT_MEMBERS_MAX))
            continue;
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = p->options.self};
        event.command = (struct bw_command){.kind = BW_COMMAND_CHANGE,
                                            .op = op,
                                            .election = (uint16_t)election,
                                            .node = id,
                                            .request = 1};
        peer_step(p, &event);
        return;
    }
}

bool peer_raft_without(const struct bw_peer *p, uint32_t election, bw_node id)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0;
    const struct bw_raft *raft = bw_instance_elector(p->instance, election);
    uint32_t total = bw_raft_members_at(raft, bw_raft_commit_index(raft), members, &voters);
    for (uint32_t i = 0; i < total; i++)
        if (members[i] == id)
            return false;
    return true;
}

bool peer_raft_voteless(const struct bw_peer *p, uint32_t election, bw_node id)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters = 0;
    const struct bw_raft *raft = bw_instance_elector(p->instance, election);
    bw_raft_members_at(raft, bw_raft_commit_index(raft), members, &voters);
    for (uint32_t i = 0; i < voters; i++)
        if (members[i] == id)
            return false;
    return !bw_raft_is_voter(raft, id);
}

void peer_raft_change(struct bw_peer *p)
{
    for (uint32_t e = 0; p->raft && p->instance && e < p->elections; e++)
        if (p->election[e].announced.leader == p->options.self) {
            if (bw_raft_needs_snapshot(raft_of(p, e)))
                make_snapshot(p, e);
            change(p, e);
        }
}
