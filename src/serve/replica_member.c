/* Members that come and go.
 *
 * A change is asked of whoever leads, judged there (roster.h), and is one entry of the log that
 * carries the member's name and address. Who is connected to follows the log as it stands,
 * committed or not, as majorities do (raft/member.c): a node that starts again must reach those
 * whose votes it needs before it can know what is committed. What members are called and told to
 * others follows what is applied.
 *
 * A node that was added waits to be fed: it knows its number and the first members, and connects
 * back to whoever connects to it until it finds itself among the members. */
#include "base/error.h"
#include "base/little.h"
#include "serve/replica_state.h"

#include <stdio.h>
#include <string.h>

#define PROMOTE_EVERY (50 * BW_MS)

static bool is_record(const struct bw_log_entry *entry, struct bw_member_change *out)
{
    return entry->length > BW_SESSION_HEAD && entry->bytes[BW_SESSION_HEAD] == BW_ROSTER_RECORD &&
           bw_change_decode(out, entry->bytes + BW_SESSION_HEAD, entry->length - BW_SESSION_HEAD) ==
               0;
}

void replica_roster_learn(struct bw_replica *r, const struct bw_log_entry *entry)
{
    struct bw_member_change change;
    if (is_record(entry, &change))
        bw_roster_apply(&r->roster, &change);
    r->resync |= entry->change || is_record(entry, &change);
}

void replica_roster_rebuild(struct bw_replica *r)
{
    r->roster = r->applied_roster;
    for (bw_index i = r->session.applied + 1; i <= bw_log_last(&r->log); i++) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, i);
        if (entry)
            replica_roster_learn(r, entry);
    }
    r->resync = true;
}

/* ── who is connected to ── */

static bool is_among(bw_node node, const bw_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

/* Of the log as it stands, then those that were before and whose removal is not committed. */
static uint32_t members_now(const struct bw_replica *r, bw_node *out, uint32_t *active)
{
    bw_node committed[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    uint32_t count = bw_raft_members_at(r->raft, bw_raft_last_index(r->raft), out, &voters);
    *active = count;
    uint32_t others =
        bw_raft_members_at(r->raft, bw_raft_commit_index(r->raft), committed, &voters);
    for (uint32_t i = 0; i < others; i++)
        if (!is_among(committed[i], out, *active))
            out[count++] = committed[i];
    return count;
}

static bool is_newcomer(const struct bw_replica *r)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    uint32_t active, count = members_now(r, ids, &active);
    return r->options.joins && !is_among(r->options.self, ids, count);
}

void replica_mesh_sync(struct bw_replica *r)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    uint32_t active, count = members_now(r, ids, &active);
    bool newcomer = is_newcomer(r);
    r->resync = false;
    r->voter = bw_raft_is_voter(r->raft, r->options.self);
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_replica_member *member = bw_roster_find(&r->roster, ids[i]);
        if (!member)
            member = bw_roster_find(&r->applied_roster, ids[i]);
        if (!member || ids[i] == r->options.self || !member->port)
            continue;
        bw_mesh_add(r->mesh, member);
        if (!newcomer) /* it knows where they were long ago, and was told by themselves */
            bw_mesh_move(r->mesh, member);
    }
    if (!newcomer)
        bw_mesh_keep(r->mesh, ids, count);
}

enum bw_mesh_verdict replica_judge(struct bw_replica *r, const struct bw_replica_member *from)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    uint32_t active, count = members_now(r, ids, &active);
    if (is_newcomer(r)) {
        bw_mesh_add(r->mesh, from);
        bw_mesh_move(r->mesh, from);
        return BW_MESH_OK;
    }
    bool gone = !is_among(from->id, ids, count) && from->id <= r->applied_roster.highest;
    return gone ? BW_MESH_REMOVED : BW_MESH_OK;
}

/* Only a member that never was there may begin with nothing: another has promised things that it
 * has forgotten (fault 25). */
enum bw_mesh_verdict replica_joins(struct bw_replica *r, const char *host, uint16_t port,
                                   bw_node *id, unsigned char *out, size_t *length)
{
    const struct bw_replica_member *member = bw_roster_find_address(&r->applied_roster, host, port);
    struct bw_roster first;
    if (!member)
        return BW_MESH_UNKNOWN;
    if (member->name[0])
        return BW_MESH_STARTED;
    bw_roster_init(&first, r->options.members, r->options.count);
    *id = member->id;
    *length = bw_roster_encode(&first, out);
    return BW_MESH_OK;
}

void replica_refused(struct bw_replica *r, bw_node node, enum bw_mesh_verdict verdict)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    if (verdict == BW_MESH_REMOVED) {
        replica_removed(r);
    } else if (verdict == BW_MESH_TOO_NEW) {
        snprintf(why, sizeof why,
                 "node %u speaks an older protocol than this version of bellwether can: upgrade "
                 "the others to a version in between first; nothing was changed here",
                 node);
        r->options.ended(r->options.context, BW_REPLICA_USELESS, why);
    }
}

void replica_removed(struct bw_replica *r)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    if (r->removed)
        return;
    r->removed = true;
    snprintf(why, sizeof why,
             "this node was removed from the cluster and takes no part any more; to use its "
             "machine again, add it anew and start it with --join on an empty --data directory "
             "(%.200s is of no use now)",
             r->options.directory);
    r->options.ended(r->options.context, BW_REPLICA_REMOVED, why);
}

/* ── changes that are asked for ── */

static uint64_t ask(struct bw_replica *r, const struct bw_member_change *change, bw_node origin)
{
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    size_t length = bw_change_encode(change, bytes);
    uint64_t id = bw_session_change(&r->session, bytes, length, origin);
    replica_keep_sweeping(r);
    return id;
}

uint64_t bw_replica_change(struct bw_replica *r, const struct bw_member_change *change)
{
    return ask(r, change, r->options.self);
}

static void gather(const struct bw_replica *r, bw_node node, struct bw_change_facts *facts)
{
    bw_node ids[BW_RAFT_MEMBERS_MAX];
    bw_time now = replica_now();
    const struct bw_replica_member *member = bw_roster_find(&r->applied_roster, node);
    uint32_t count =
        bw_raft_members_at(r->raft, bw_raft_commit_index(r->raft), ids, &facts->voters);
    for (uint32_t i = 0; i < count; i++) {
        bool heard = bw_raft_is_heard(r->raft, ids[i], now) &&
                     (ids[i] == r->options.self || bw_mesh_connected(r->mesh, ids[i]));
        facts->alive += i < facts->voters && heard;
        if (ids[i] != node)
            continue;
        facts->known = true;
        facts->voter = i < facts->voters;
        facts->live = heard;
    }
    facts->under_way = bw_raft_is_changing(r->raft);
    facts->ready = member && member->name[0] && bw_raft_is_caught_up(r->raft, node, now);
}

/* The next number; nobody had it before. */
static int name_newcomer(struct bw_replica *r, struct bw_request *request,
                         struct bw_member_change *change)
{
    bw_node highest = r->roster.highest > r->applied_roster.highest ? r->roster.highest
                                                                    : r->applied_roster.highest;
    if (highest >= BW_MEMBER_ID_MAX || r->roster.count >= BW_REPLICA_NODES)
        return BW_ELIMIT;
    change->member.id = highest + 1;
    bw_change_encode(change, request->bytes + BW_SESSION_HEAD);
    return 0;
}

static void step_change(struct bw_replica *r, struct bw_request *request,
                        const struct bw_member_change *change)
{
    static const enum bw_change_op ops[] = {[BW_MEMBER_ADD] = BW_CHANGE_ADD_LEARNER,
                                            [BW_MEMBER_PROMOTE] = BW_CHANGE_PROMOTE,
                                            [BW_MEMBER_REMOVE] = BW_CHANGE_REMOVE};
    struct bw_event event = {.kind = BW_EVENT_COMMAND,
                             .command = {.kind = BW_COMMAND_CHANGE,
                                         .op = ops[change->op],
                                         .node = change->member.id,
                                         .request = request->id}};
    request->state = BW_REQUEST_LOGGED;
    replica_step(r, &event);
}

void replica_change_try(struct bw_replica *r, struct bw_request *request)
{
    struct bw_member_change change;
    struct bw_change_facts facts = {0};
    int error = bw_change_decode(&change, request->bytes + BW_SESSION_HEAD,
                                 request->length - BW_SESSION_HEAD);
    if (!error) {
        gather(r, change.member.id, &facts);
        error = bw_change_judge(change.op, &facts);
    }
    if (!error && change.op == BW_MEMBER_ADD)
        error = name_newcomer(r, request, &change);
    if (error)
        bw_session_fail(&r->session, request, error);
    else if (change.op == BW_MEMBER_UPDATE)
        bw_session_log(&r->session, request);
    else
        step_change(r, request, &change);
}

/* A learner that was added to vote does so as soon as it can. Looked at now and then: a loop that
 * is busy runs no timers of heartbeats, for what it sends are heartbeats too. */
void replica_promote_ready(struct bw_replica *r)
{
    if (!r->session.leading || r->session.last_turn < r->promote_at)
        return;
    r->promote_at = r->session.last_turn + PROMOTE_EVERY;
    for (uint32_t i = 0; i < r->applied_roster.count; i++) {
        const struct bw_replica_member *member = &r->applied_roster.at[i];
        struct bw_change_facts facts = {0};
        if (!member->wants_vote)
            continue;
        gather(r, member->id, &facts);
        if (bw_change_judge(BW_MEMBER_PROMOTE, &facts) != 0)
            continue;
        struct bw_member_change change = {.op = BW_MEMBER_PROMOTE, .member.id = member->id};
        ask(r, &change, BW_NODE_NONE);
        return;
    }
}

/* ── changes that were made ── */

static bool differs(const char *said, const char *known)
{
    return said[0] && strcmp(said, known) != 0;
}

bool replica_is_published(const struct bw_replica *r)
{
    const struct bw_replica_member *known = bw_roster_find(&r->applied_roster, r->options.self);
    const struct bw_replica_member *said = &r->options.publish;
    return !known ||
           (!differs(said->name, known->name) && !differs(said->client, known->client) &&
            !differs(said->host, known->host) && (!said->host[0] || said->port == known->port));
}

void replica_publish(struct bw_replica *r)
{
    struct bw_member_change change = {.op = BW_MEMBER_UPDATE, .member = r->options.publish};
    if (r->session.leader == BW_NODE_NONE || r->closing ||
        bw_session_find(&r->session, r->publishing) || replica_is_published(r))
        return;
    change.member.id = r->options.self;
    r->publishing = ask(r, &change, r->options.self);
}

bool replica_is_member_entry(const struct bw_log_entry *entry)
{
    struct bw_member_change change;
    return entry->change || is_record(entry, &change);
}

void replica_member_applied(struct bw_replica *r, const struct bw_log_entry *entry)
{
    struct bw_member_change change;
    bool record = is_record(entry, &change);
    r->resync = true;
    if (record)
        bw_roster_apply(&r->applied_roster, &change);
    if (record)
        bw_session_done(&r->session, bw_get64(entry->bytes), change.member.id);
    r->options.led(r->options.context);
    if (entry->change == BW_CHANGE_REMOVE && entry->node == r->options.self)
        replica_removed(r);
    replica_publish(r);
}
