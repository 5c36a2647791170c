/* The members of the cluster with their views of an election, for display; see store.h. */
#include "store/peer/peer.h"

#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer older than this is not shown: the member does not answer any more. */
#define VIEW_MAX_NS (3 * BW_SEC)

static const char *status_of(const struct bw_peer_member *member)
{
    static const char *const names[] = {
        [BW_MEMBER_ALIVE] = "alive", [BW_MEMBER_SUSPECT] = "suspected", [BW_MEMBER_DEAD] = "dead"};
    return member->left ? "left" : names[member->status];
}

static void put_name(struct bw_store *store, bw_node node, char *out, size_t size)
{
    const char *name = node == BW_NODE_NONE ? "" : bw_peer_name(store->peer, node);
    if (name)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "%u", (unsigned)node);
}

static void put_view(struct bw_store *store, const struct bw_peer_election_view *view,
                     struct bw_store_member *out)
{
    out->has_view = true;
    out->leading = view->leading;
    out->busy = view->busy;
    out->term = view->term;
    out->token = view->token;
    bool limited = view->left_ms < (uint64_t)(BW_TIME_NEVER / BW_MS);
    out->left_ns = limited ? (bw_time)view->left_ms * BW_MS : BW_TIME_NEVER;
    put_name(store, view->leader, out->leader, sizeof out->leader);
    snprintf(out->state, sizeof out->state, "%s", view->state);
}

/* Our own view, in the form of the others'. */
static void put_own(struct bw_store *store, uint32_t election, bw_time now,
                    struct bw_store_member *out)
{
    struct bw_peer_status status;
    bw_peer_status(store->peer, election, &status);
    struct bw_peer_election_view view = {.leader = status.leader,
                                         .leading = status.leading,
                                         .busy = status.busy,
                                         .term = status.term,
                                         .token = status.token};
    view.left_ms = bw_peer_left_ms(&status, now);
    snprintf(view.state, sizeof view.state, "%s", status.state);
    put_view(store, &view, out);
}

static void put_member(struct bw_store *store, const struct peer_shard *shard,
                       const struct bw_peer_member *member, struct bw_store_member *out)
{
    struct bw_peer_election_view view;
    bw_time age = 0, now = bw_clock_boot();
    *out = (struct bw_store_member){.id = member->id,
                                    .status = status_of(member),
                                    .is_self = member->id == store->settings.id,
                                    .is_voter = member->voter,
                                    .level = member->level,
                                    .status_for_ns = BW_TIME_NEVER};
    put_name(store, member->id, out->name, sizeof out->name);
    snprintf(out->address, sizeof out->address, "%s", member->address);
    if (member->since > 0)
        out->status_for_ns = now - member->since;
    if (out->is_self)
        put_own(store, shard->number, now, out);
    else if (bw_peer_view_of(store->peer, member->id, &view, &age) && age < VIEW_MAX_NS)
        put_view(store, &view, out);
    out->view_age_ns = age;
}

uint32_t peers_members(struct bw_store *store, const char *election, struct bw_store_member *out,
                       uint32_t cap)
{
    const struct peer_shard *shard = peers_shard(store, election);
    struct bw_peer_member *members = shard ? calloc(cap, sizeof *members) : NULL;
    if (!members)
        return 0;
    uint32_t total = bw_peer_members(store->peer, members, cap);
    for (uint32_t i = 0; i < total && i < cap; i++)
        put_member(store, shard, &members[i], &out[i]);
    bw_peer_ask_views(store->peer, shard->number);
    free(members);
    return total;
}
