/* Membership changes: carries out what membership.h decides. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "os/clock.h"
#include "serve/replica/state.h"

#include <stdio.h>
#include <string.h>

#define PROMOTE_EVERY (50 * BW_MS)

static const unsigned char *record_of(const struct bw_log_entry *entry, size_t *length)
{
    *length = entry->length > BW_ROUTER_HEAD ? entry->length - BW_ROUTER_HEAD : 0;
    return *length ? entry->bytes + BW_ROUTER_HEAD : NULL;
}

void replica_roster_learn(struct bw_replica *r, const struct bw_log_entry *entry)
{
    size_t length;
    const unsigned char *bytes = record_of(entry, &length);
    r->resync |= bw_membership_learn(&r->members, bytes, length) || entry->change;
}

void replica_roster_rebuild(struct bw_replica *r)
{
    bw_membership_rewind(&r->members);
    for (bw_index i = r->router.applied + 1; i <= bw_log_last(&r->log); i++) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, i);
        if (entry)
            replica_roster_learn(r, entry);
    }
    r->resync = true;
}

/* ---- connections to peers ---- */

void replica_mesh_sync(struct bw_replica *r)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    uint32_t count = bw_membership_nodes(r->raft, ids);
    bool newcomer = bw_membership_is_newcomer(&r->members, r->raft);
    r->resync = false;
    bw_mesh_level(r->mesh, r->members.applied.level);
    r->voter = bw_raft_is_voter(r->raft, r->options.self);
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_replica_member *member =
            bw_member_list_find(&r->members.member_list, ids[i]);
        if (!member)
            member = bw_member_list_find(&r->members.applied, ids[i]);
        if (!member || ids[i] == r->options.self || !member->port)
            continue;
        bw_mesh_add(r->mesh, member);
        if (!newcomer) /* its list may be outdated; the peers report their addresses themselves */
            bw_mesh_move(r->mesh, member);
    }
    if (!newcomer)
        bw_mesh_keep(r->mesh, ids, count);
}

void replica_agree(struct bw_replica *r)
{
    bw_router_set_agreed(&r->router, r->members.applied.level >= BW_MESH_REGISTRY);
}

enum bw_mesh_verdict replica_judge(struct bw_replica *r, const struct bw_replica_member *from)
{
    if (bw_membership_connects_back(&r->members, r->raft, from->id)) {
        bw_mesh_add(r->mesh, from);
        bw_mesh_move(r->mesh, from);
    }
    enum bw_mesh_verdict verdict = bw_membership_judge(&r->members, r->raft, from->id);
    if (verdict == BW_MESH_OK)
        replica_rejoin_accepted(r, from->id);
    return verdict;
}

enum bw_mesh_verdict replica_joins(struct bw_replica *r, const char *host, uint16_t port,
                                   bw_node *id, unsigned char *out, size_t *length)
{
    enum bw_mesh_verdict verdict = bw_membership_joins(&r->members, host, port, id);
    if (verdict == BW_MESH_OK)
        *length = bw_member_list_encode(&r->members.first, out);
    return verdict;
}

void replica_refused(struct bw_replica *r, bw_node node, enum bw_mesh_verdict verdict)
{
    if (verdict == BW_MESH_REMOVED)
        replica_removed(r);
    else if (verdict == BW_MESH_TOO_NEW || verdict == BW_MESH_TOO_OLD)
        replica_admit_refused(r, node, verdict);
}

void replica_removed(struct bw_replica *r)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    if (r->removed)
        return;
    r->removed = true;
    snprintf(why, sizeof why,
             "this node was removed from the cluster; to use its machine again, add it with "
             "`bellwether cluster add` and start it with --join on an empty --data directory "
             "(%.200s cannot be reused)",
             r->options.directory);
    r->options.ended(r->options.context, BW_REPLICA_REMOVED, why);
}

/* ---- requested changes ---- */

static uint64_t ask(struct bw_replica *r, const struct bw_member_change *change, bw_node origin)
{
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    size_t length = bw_change_encode(change, bytes);
    uint64_t id = bw_router_change(&r->router, bytes, length, origin);
    replica_keep_sweeping(r);
    return id;
}

uint64_t bw_replica_change(struct bw_replica *r, const struct bw_member_change *change)
{
    return ask(r, change, r->options.self);
}

static bool connected(void *context, bw_node node)
{
    const struct bw_replica *r = context;
    return bw_mesh_connected(r->mesh, node);
}

static struct bw_membership_view view_of(struct bw_replica *r)
{
    return (struct bw_membership_view){
        .raft = r->raft, .now = bw_clock_boot(), .context = r, .connected = connected};
}

static void step_change(struct bw_replica *r, struct bw_request *request,
                        const struct bw_member_change *change)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND,
                             .command = {.kind = BW_COMMAND_CHANGE,
                                         .op = bw_membership_op(change->op),
                                         .node = change->member.id,
                                         .request = request->id}};
    request->state = BW_REQUEST_LOGGED;
    replica_step(r, &event);
}

void replica_change_try(struct bw_replica *r, struct bw_request *request)
{
    struct bw_member_change change;
    struct bw_membership_view view = view_of(r);
    int error = bw_membership_try_written(&r->members, &view, request->bytes + BW_ROUTER_HEAD,
                                          request->length - BW_ROUTER_HEAD, &change);
    if (error)
        bw_router_fail(&r->router, request, error);
    else if (bw_membership_op(change.op) == BW_CHANGE_NONE)
        bw_router_log(&r->router, request);
    else
        step_change(r, request, &change);
}

/* Promotes a learner that was added as a voter as soon as it has caught up. Called in every turn,
 * not by a timer: a busy loop sends no heartbeats by timer, because its messages count as
 * heartbeats. */
void replica_promote_ready(struct bw_replica *r)
{
    if (!r->router.leading || r->router.last_turn < r->promote_at)
        return;
    r->promote_at = r->router.last_turn + PROMOTE_EVERY;
    struct bw_membership_view view = view_of(r);
    bw_node ready = bw_membership_promotable(&r->members, &view);
    struct bw_member_change change = {.op = BW_MEMBER_PROMOTE, .member.id = ready};
    if (ready != BW_NODE_NONE)
        ask(r, &change, BW_NODE_NONE);
}

/* ---- applied changes ---- */

void replica_publish(struct bw_replica *r)
{
    struct bw_member_change change;
    if (r->router.leader == BW_NODE_NONE || r->closing ||
        bw_router_find(&r->router, r->publishing) ||
        !bw_membership_publish(&r->members, &r->options.publish, &change) ||
        !replica_incarnation_may_publish(r))
        return;
    r->members.published = true;
    r->publishing = ask(r, &change, r->options.self);
}

bool replica_is_member_entry(const struct bw_log_entry *entry)
{
    struct bw_member_change change;
    size_t length;
    const unsigned char *bytes = record_of(entry, &length);
    return entry->change || (length && bytes[0] == BW_MEMBER_CHANGE_RECORD &&
                             bw_change_decode(&change, bytes, length) == 0);
}

void replica_member_applied(struct bw_replica *r, const struct bw_log_entry *entry)
{
    struct bw_member_change change;
    size_t length;
    const unsigned char *bytes = record_of(entry, &length);
    r->resync = true;
    if (bw_membership_apply(&r->members, bytes, length, &change))
        bw_router_complete(&r->router, bw_get64(entry->bytes), change.member.id);
    replica_agree(r);
    r->options.led(r->options.context);
    if (entry->change == BW_CHANGE_REMOVE && entry->node == r->options.self)
        replica_removed(r);
    if (bw_membership_is_stale(&r->members, r->options.self, r->members.starts,
                               r->members.published))
        replica_rejoin_end(r);
    replica_publish(r);
}
