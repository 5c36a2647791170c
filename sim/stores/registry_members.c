/* Membership changes of the simulated registry. The decisions are shipped code
 * (src/core/replica/membership.h). This file executes them, plays the operator that requests them,
 * and checks that they were sound.
 *
 * A connection is checked with every message on it, as the mesh checks it when it opens and closes
 * it when the members change. The operator wants a member added or removed and asks any node,
 * sometimes for two changes at once, and asks again without a response. A node that was added asks
 * a member for its number and starts without data. A node that learns that it is not a member
 * exits. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "sim/stores/registry_state.h"
#include "sim/world/raft.h"

#include <stdio.h>
#include <string.h>

#define OPERATE_EVERY (50 * BW_MS)
#define PATIENCE      (6 * BW_SEC)
#define HOST          "n"
#define FIRST_PORT    1000u /* port of the first added member; founders use their number */
#define TRIES_MAX     400u

static struct bw_raft *raft_of(struct bw_sim *sim, bw_node id)
{
    return bw_instance_elector(sim->nodes[id].instance, 0);
}

static struct replica *replica_of(struct bw_sim *sim, bw_node id)
{
    return &sim->registry->replicas[id];
}

static void fill_member(struct bw_replica_member *out, bw_node id, uint16_t port)
{
    *out = (struct bw_replica_member){.id = id, .host = HOST, .port = port};
}

/* ---- entries of the log ---- */

/* Returns the change in an entry, after the number of its request; length 0: the entry is not a
 * change. */
static const unsigned char *bytes_of(const struct bw_sim_registry *g,
                                     const struct bw_sim_entry *entry, size_t *length)
{
    const struct saved *saved = registry_saved_entry(g, entry);
    *length = saved && saved->length > BW_ROUTER_HEAD ? saved->length - BW_ROUTER_HEAD : 0;
    return *length ? g->bytes + saved->at + BW_ROUTER_HEAD : NULL;
}

static uint32_t majority(uint32_t voters)
{
    return voters / 2 + 1;
}

/* Checks that the leader's group overlaps with the committed one: otherwise the committed group
 * could outvote the leader. */
static void check_majorities(struct bw_sim *sim, bw_node id)
{
    bw_node now[BW_RAFT_MEMBERS_MAX], then[BW_RAFT_MEMBERS_MAX];
    uint32_t voters, before, both = 0;
    const struct bw_raft *raft = raft_of(sim, id);
    if (!replica_of(sim, id)->router.leading)
        return;
    bw_raft_members_at(raft, bw_raft_last_index(raft), now, &voters);
    bw_raft_members_at(raft, bw_raft_commit_index(raft), then, &before);
    for (uint32_t i = 0; i < voters; i++)
        for (uint32_t k = 0; k < before; k++)
            both += now[i] == then[k];
    if (majority(voters) + majority(before) <= voters + before - both)
        bw_lease_check_violate(&sim->registry->leases, sim->now,
                               "at leader %u two majorities need not overlap: %u voters in its "
                               "log, %u committed, %u in both",
                               id, voters, before, both);
}

void bw_sim_registry_learn(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entries,
                           uint32_t count)
{
    size_t length;
    bool changes = false;
    for (uint32_t i = 0; sim->registry && i < count; i++) {
        const unsigned char *bytes = bytes_of(sim->registry, &entries[i], &length);
        bw_membership_learn(&replica_of(sim, id)->members, bytes, length);
        changes |= entries[i].op != 0;
    }
    if (changes)
        check_majorities(sim, id);
}

void bw_sim_registry_relearn(struct bw_sim *sim, bw_node id)
{
    if (!sim->registry)
        return;
    const struct bw_sim_log *log = &sim->nodes[id].raft[0].log;
    struct replica *r = replica_of(sim, id);
    bw_membership_rewind(&r->members);
    for (uint32_t i = 0; i < log->count; i++) {
        size_t length;
        const unsigned char *bytes = bytes_of(sim->registry, &log->at[i], &length);
        if (log->base + i + 1 > r->router.applied)
            bw_membership_learn(&r->members, bytes, length);
    }
}

/* Checks that a number identifies one node forever. */
static void check_number(struct bw_sim *sim, const struct bw_member_change *change, bw_index index)
{
    bw_index *given = &sim->registry->given[change->member.id % REGISTRY_NUMBERS];
    if (change->op != BW_MEMBER_ADD)
        return;
    if ((*given && *given != index) || change->member.id <= sim->config->nodes)
        bw_lease_check_violate(&sim->registry->leases, sim->now, "the number %u was assigned twice",
                               change->member.id);
    *given = index;
}

/* Ends the process cleanly after this step. */
static void end_process(struct bw_sim *sim, bw_node id)
{
    struct replica *r = replica_of(sim, id);
    struct bw_sim_slot *slot = r->ended ? NULL : registry_pend(sim, BW_PENDING_ENDED, id, NULL, 0);
    if (!slot)
        return;
    r->ended = true;
    bw_sim_queue_push(&sim->queue, slot, sim->now);
}

/* Returns true if the entry does not belong to the registry. */
bool registry_member_applied(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entry)
{
    struct replica *r = replica_of(sim, id);
    struct bw_member_change change;
    size_t length;
    const unsigned char *bytes = bytes_of(sim->registry, entry, &length);
    bool record = bw_membership_apply(&r->members, bytes, length, &change);
    if (!record && !entry->op)
        return false;
    bw_router_apply(&r->router, NULL, 0);
    if (record) {
        check_number(sim, &change, r->router.applied);
        bw_router_complete(&r->router, bw_get64(bytes - BW_ROUTER_HEAD), change.member.id);
    }
    if (entry->op == BW_CHANGE_REMOVE && entry->node == id)
        end_process(sim, id);
    if (bw_membership_is_stale(&r->members, id, r->members.starts, r->members.published))
        end_process(sim, id);
    registry_publish(r);
    return true;
}

/* ── connections ── */

bool bw_sim_registry_reaches(struct bw_sim *sim, bw_node id, bw_node to)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    if (!sim->registry)
        return true;
    const struct replica *r = replica_of(sim, id);
    if (bw_membership_connects_back(&r->members, raft_of(sim, id), to))
        return true;
    uint32_t count = bw_membership_nodes(raft_of(sim, id), ids);
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == to)
            return bw_member_list_find(&r->members.member_list, to) ||
                   bw_member_list_find(&r->members.applied, to);
    return false;
}

bool bw_sim_registry_admits(struct bw_sim *sim, bw_node id, bw_node from)
{
    if (!sim->registry)
        return true;
    const struct replica *r = replica_of(sim, id), *other = replica_of(sim, from);
    bool removed = bw_membership_judge(&r->members, raft_of(sim, id), from) == BW_MESH_REMOVED;
    bool stale =
        bw_membership_is_stale(&r->members, from, other->members.starts, other->members.published);
    if (removed || stale)
        registry_turn_away(sim, r, from);
    return !removed && !stale;
}

/* Connects to the members that its log names, even without anything to send. */
void registry_dial(struct replica *r)
{
    struct bw_sim *sim = r->sim;
    bw_node to = 1 + (bw_node)bw_rng_below(&sim->registry->rng, sim->cap);
    if (to != r->id && sim->nodes[to].up && !sim->nodes[to].paused &&
        bw_sim_net_open(&sim->net, r->id, to) && bw_sim_net_open(&sim->net, to, r->id) &&
        bw_sim_registry_reaches(sim, r->id, to))
        bw_sim_registry_admits(sim, to, r->id);
}

void registry_turned_away(struct bw_sim *sim, bw_node id)
{
    end_process(sim, id);
}

/* ---- requests of a node ---- */

static bool connected(void *context, bw_node node)
{
    const struct replica *r = context;
    return node <= r->sim->cap && r->sim->nodes[node].up &&
           bw_sim_net_open(&r->sim->net, r->id, node) && bw_sim_net_open(&r->sim->net, node, r->id);
}

static struct bw_membership_view view_of(struct replica *r)
{
    return (struct bw_membership_view){
        .raft = raft_of(r->sim, r->id),
        .now = bw_sim_clock_local(&r->sim->nodes[r->id].clock, r->sim->now),
        .context = r,
        .connected = connected};
}

static uint64_t ask(struct replica *r, const struct bw_member_change *change, bw_node origin)
{
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    return bw_router_change(&r->router, bytes, bw_change_encode(change, bytes), origin);
}

void registry_publish(struct replica *r)
{
    struct bw_member_change change;
    struct bw_replica_member said = {0};
    snprintf(said.name, sizeof said.name, "n%u", r->id);
    if (r->router.leader == BW_NODE_NONE || bw_router_find(&r->router, r->publishing) ||
        !bw_membership_publish(&r->members, &said, &change))
        return;
    r->members.published = true;
    r->publishing = ask(r, &change, r->id);
}

void registry_promote(struct replica *r)
{
    struct bw_membership_view view = view_of(r);
    if (!r->router.leading)
        return;
    bw_node ready = bw_membership_promotable(&r->members, &view);
    struct bw_member_change change = {.op = BW_MEMBER_PROMOTE, .member.id = ready};
    if (ready != BW_NODE_NONE)
        ask(r, &change, BW_NODE_NONE);
}

/* Delivers an event to Raft after the current step, because it may be requested in the middle of
 * one. */
static void step_soon(struct replica *r, const struct bw_event *event)
{
    struct bw_sim_slot *slot = registry_pend(r->sim, BW_PENDING_EVENT, r->id, event, sizeof *event);
    if (slot)
        bw_sim_queue_push(&r->sim->queue, slot, r->sim->now);
}

void registry_on_change(void *context, struct bw_request *request)
{
    struct replica *r = context;
    struct bw_member_change change;
    struct bw_membership_view view = view_of(r);
    int error = bw_membership_try_written(&r->members, &view, request->bytes + BW_ROUTER_HEAD,
                                          request->length - BW_ROUTER_HEAD, &change);
    if (error) {
        bw_router_fail(&r->router, request, error);
    } else if (bw_membership_op(change.op) == BW_CHANGE_NONE) {
        bw_router_log(&r->router, request);
    } else {
        struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = r->id};
        event.command = (struct bw_command){.kind = BW_COMMAND_CHANGE,
                                            .op = bw_membership_op(change.op),
                                            .node = change.member.id,
                                            .request = request->id};
        request->state = BW_REQUEST_LOGGED;
        step_soon(r, &event);
    }
}

/* ── the operator ── */

static struct want *want(struct bw_sim *sim, enum bw_member_op op, bw_node node)
{
    struct bw_sim_registry *g = sim->registry;
    struct want *w = g->want_count < REGISTRY_WANTS ? &g->wants[g->want_count++] : NULL;
    if (!w)
        return NULL;
    *w = (struct want){.op = op, .node = node};
    if (op == BW_MEMBER_ADD) {
        w->port = (uint16_t)(FIRST_PORT + g->next_port++);
        w->learner = bw_rng_chance(&g->rng, 0.3);
    }
    return w;
}

void bw_sim_registry_add(struct bw_sim *sim)
{
    want(sim, BW_MEMBER_ADD, BW_NODE_NONE);
}

void bw_sim_registry_remove(struct bw_sim *sim, bw_node id)
{
    want(sim, BW_MEMBER_REMOVE, id);
}

/* The directory is empty: only a number that was never used starts without data. A node that has
 * not published its name has not voted either. Where that is unknown, its incarnation is known
 * (is_stale). */
void bw_sim_registry_wiped(struct bw_sim *sim, bw_node id)
{
    bw_node asked = 1 + (bw_node)bw_rng_below(&sim->registry->rng, sim->cap), given;
    const struct bw_replica_member *known = NULL;
    if (!sim->nodes[asked].up || asked == id)
        return;
    known = bw_member_list_find(&replica_of(sim, asked)->members.applied, id);
    if (known && known->name[0] &&
        bw_membership_joins(&replica_of(sim, asked)->members, known->host, known->port, &given) ==
            BW_MESH_OK)
        bw_lease_check_violate(&sim->registry->leases, sim->now,
                               "node %u lost what it promised and is accepted again", id);
    bw_sim_registry_remove(sim, id); /* and is replaced */
    bw_sim_registry_add(sim);
}

bool registry_operator_reply(struct replica *r, uint64_t request, int error)
{
    struct bw_sim_registry *g = r->sim->registry;
    for (uint32_t i = 0; i < g->want_count; i++) {
        struct want *w = &g->wants[i];
        if (w->at != r->id || w->request != request || !request)
            continue;
        w->request = 0;
        w->done = error == 0 || (error == BW_ENOTMEMBER && w->op == BW_MEMBER_REMOVE) ||
                  (error == BW_EINVAL && w->op == BW_MEMBER_PROMOTE) || error == BW_ELIMIT;
        return true;
    }
    return false;
}

static bw_node any_node(struct bw_sim *sim)
{
    bw_node id = 1 + (bw_node)bw_rng_below(&sim->registry->rng, sim->cap);
    const struct bw_sim_node *node = &sim->nodes[id];
    return node->up && !node->paused && !node->leaving ? id : BW_NODE_NONE;
}

static void ask_for(struct bw_sim *sim, struct want *w, bw_node at)
{
    struct bw_member_change change = {.op = w->op};
    fill_member(&change.member, w->node, w->port);
    if (w->op != BW_MEMBER_ADD)
        change.member.host[0] = '\0';
    change.member.wants_vote = w->op == BW_MEMBER_ADD && !w->learner;
    w->at = at;
    w->since = sim->now;
    w->request = ask(replica_of(sim, at), &change, at);
}

/* A node that was added asks which member it is, and starts. Returns true if nothing remains to be
 * done. */
static bool join(struct bw_sim *sim, const struct want *w, bw_node at)
{
    bw_node id = BW_NODE_NONE;
    if (bw_membership_joins(&replica_of(sim, at)->members, HOST, w->port, &id) != BW_MESH_OK)
        return false;
    if (id > sim->cap || sim->nodes[id].starts) { /* more members than machines */
        bw_sim_registry_remove(sim, id);
        return true;
    }
    bw_sim_fault_join(sim, id);
    if (w->learner)
        want(sim, BW_MEMBER_PROMOTE, id);
    return true;
}

/* Returns true when the request is finished. */
static bool operate(struct bw_sim *sim, struct want *w)
{
    bw_node at = any_node(sim);
    if (!at)
        return false;
    if (w->op == BW_MEMBER_ADD && join(sim, w, at))
        return true; /* nothing remains to be done, even if no node confirmed the request */
    if (w->done)
        return w->op != BW_MEMBER_ADD || ++w->tries > TRIES_MAX;
    if (w->request && sim->now - w->since < PATIENCE && sim->nodes[w->at].up)
        return false;
    if (++w->tries > TRIES_MAX)
        return true;
    if (w->op == BW_MEMBER_ADD && w->tries > 1 &&
        bw_member_list_find_address(&replica_of(sim, at)->members.member_list, HOST, w->port))
        return false; /* in progress */
    ask_for(sim, w, at);
    return false;
}

void bw_sim_registry_operate(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct bw_sim_registry *g = sim->registry;
    for (uint32_t i = 0; i < g->want_count && !sim->error;) {
        struct want w = g->wants[i];
        bool over = operate(sim, &w);
        g->wants[i] = w;
        if (over)
            g->wants[i] = g->wants[--g->want_count];
        else
            i++;
    }
    bw_sim_queue_push(&sim->queue, slot, sim->now + OPERATE_EVERY);
}

/* ---- process ---- */

void registry_members_boot(struct bw_sim *sim, struct replica *r)
{
    struct bw_replica_member first[BW_REPLICA_NODES];
    uint32_t count = sim->config->nodes;
    for (uint32_t i = 0; i < count; i++) {
        fill_member(&first[i], i + 1, (uint16_t)(i + 1));
        snprintf(first[i].name, sizeof first[i].name, "n%u", i + 1);
    }
    bw_membership_init(&r->members, r->id, r->id > count, first, count);
    bw_membership_begin(&r->members, sim->nodes[r->id].starts + 1);
    r->publishing = 0;
    r->ended = false;
}

/* After the idle time no node runs that is not a member, and every node that was added as a voter
 * votes. */
void registry_check_members(struct bw_sim *sim)
{
    const struct replica *most = NULL;
    for (bw_node id = 1; id <= sim->cap; id++) {
        const struct replica *r = replica_of(sim, id);
        if (sim->nodes[id].up && (!most || r->router.applied > most->router.applied))
            most = r;
    }
    for (bw_node id = 1; most && id <= sim->cap; id++) {
        const struct bw_replica_member *member = bw_member_list_find(&most->members.applied, id);
        if (!sim->nodes[id].up || sim->nodes[id].leaving)
            continue;
        if (!member)
            bw_lease_check_violate(&sim->registry->leases, sim->now,
                                   "at the end node %u runs but is not a member", id);
        else if (member->wants_vote)
            bw_lease_check_violate(&sim->registry->leases, sim->now,
                                   "at the end node %u should be a voter but is not", id);
    }
}
