/* Membership: meets the configured nodes and the nodes they know, and spreads changes of the
 * roster.
 *
 * Until the cluster is formed, several times a second the peer introduces itself to the configured
 * addresses and compares its roster with three known members. Afterwards:
 * - Changes of the roster are sent while there are any, each row a logarithmic number of times.
 * - Now and then, the peer compares rosters with one member.
 * - It still contacts nodes that the detector considers dead, so that a partition of any length
 *   heals.
 *
 * Only new nodes receive whole rosters; members compare digests first. While nothing changes, a
 * member sends one small frame in ten periods, whatever the size of the cluster. */
#include "core/base/bug.h"
#include "os/clock.h"
#include "peer/node_state.h"

#include <stdio.h>
#include <string.h>

#define MEET_NS      (250 * BW_MS) /* interval until formed */
#define HELLO_NS     (2 * BW_SEC)  /* interval afterwards, for unreachable nodes */
#define CHANGES_NS   (100 * BW_MS) /* interval for changes of the roster */
#define SYNC_NS      BW_SEC
#define SYNC_LEAST   10 /* minimum number of periods between two comparisons */
#define RECEIVED_NS  (3 * BW_SEC)
#define CHANGE_NS    (50 * BW_MS) /* interval for changes of Raft's members */
#define SAVE_NS      (500 * BW_MS)
#define SAVE_IDLE_NS (5 * BW_SEC) /* between two writes of the roster after the cluster is formed */
#define CHANGES_TO   3u
/* in larger clusters, each change goes to one member at a time: many members send it */
#define CROWD                32u
#define NEW_INCARNATIONS_MAX 16u

struct peer_contact *peer_contact(struct bw_peer *p, bw_node id)
{
    for (uint32_t i = 0; i < p->contacts_count; i++)
        if (p->contacts[i].id == id)
            return &p->contacts[i];
    return NULL;
}

/* Finds or makes the entry of a member: reuses a free entry, or that of a node that is no longer in
 * the roster. */
static struct peer_contact *make_contact(struct bw_peer *p, bw_node id)
{
    struct peer_contact *contact = peer_contact(p, id);
    for (uint32_t i = 0; !contact && i < p->contacts_count; i++)
        if (!bw_peer_roster_find(&p->roster, p->contacts[i].id))
            contact = &p->contacts[i];
    if (!contact && p->contacts_count < p->cap)
        contact = &p->contacts[p->contacts_count++];
    if (contact && contact->id != id)
        *contact = (struct peer_contact){.id = id, .since = bw_clock_boot()};
    return contact;
}

void peer_received(struct bw_peer *p, bw_node id, bw_time now)
{
    struct peer_contact *contact = peer_contact(p, id);
    if (contact)
        contact->fresh_at = contact->received_at = now;
}

static bool received_lately(struct bw_peer *p, bw_node id, bw_time now)
{
    const struct peer_contact *contact = peer_contact(p, id);
    return contact && contact->received_at > 0 && now - contact->received_at < RECEIVED_NS;
}

/* True if `id` needs no JOIN: the detector considers it alive, or we received a frame from it
 * lately. */
static bool is_reachable(struct bw_peer *p, bw_node id, bw_time now)
{
    const struct peer_contact *contact = peer_contact(p, id);
    bool watched = p->formed && p->instance && p->options.detector;
    return received_lately(p, id, now) ||
           (watched && contact && contact->status == BW_MEMBER_ALIVE);
}

/* ---- sending ---- */

void peer_meet_hello(struct bw_peer *p, bw_node to, const struct sockaddr *address)
{
    p->out.kind = BW_PEER_JOIN;
    p->out.rows.count = 1;
    p->out.rows.at[0] = p->own;
    peer_rules_own(p, &p->out.rows.rules);
    p->counters.roster_frames++;
    peer_send_to(p, address, to);
}

/* Sends to the known address, or to the address it sent from. */
static void send_there(struct bw_peer *p, bw_node to, const struct sockaddr *address)
{
    p->counters.roster_frames++;
    if (address)
        peer_send_to(p, address, to);
    else
        peer_send(p, to);
}

static void send_sync(struct bw_peer *p, bw_node to, const struct sockaddr *address, bool answer)
{
    p->out.kind = BW_PEER_SYNC;
    p->out.sync = (struct bw_peer_sync){.answer = answer,
                                        .members = bw_peer_roster_members(&p->roster),
                                        .digest = bw_peer_roster_digest(&p->roster)};
    peer_rules_own(p, &p->out.sync.rules);
    send_there(p, to, address);
}

void peer_meet_compare(struct bw_peer *p, bw_node to, const struct sockaddr *address)
{
    send_sync(p, to, address, false);
}

static void send_roster(struct bw_peer *p, bw_node to, const struct sockaddr *address)
{
    uint32_t at = 0;
    p->out.kind = BW_PEER_ROSTER;
    while (bw_peer_roster_page(&p->roster, &at, &p->out.rows) > 0)
        send_there(p, to, address);
}

static void send_founded(struct bw_peer *p, bw_node to, const struct sockaddr *address)
{
    const struct bw_peer_found_saved *saved = &p->found.saved;
    if (!saved->founded)
        return;
    p->out.kind = BW_PEER_FOUND;
    p->out.founding = (struct bw_peer_founding){
        .op = BW_PEER_FOUND_FOUNDED, .proposer = saved->set[0], .count = saved->count};
    memcpy(p->out.founding.set, saved->set, saved->count * sizeof saved->set[0]);
    send_there(p, to, address);
}

/* A random member other than us, alive or dead; NONE: there is none. */
static bw_node random_member(struct bw_peer *p)
{
    for (int i = 0; i < 32 && bw_peer_roster_members(&p->roster) > 1; i++) {
        const struct bw_peer_row *row = &p->roster.at[bw_rng_below(&p->rng, p->roster.count)].row;
        if (!row->left && row->id != p->options.self)
            return row->id;
    }
    return BW_NODE_NONE;
}

static void send_changes(struct bw_peer *p)
{
    if (bw_peer_roster_members(&p->roster) < 2)
        return;
    p->out.kind = BW_PEER_ROSTER;
    if (bw_peer_roster_changes(&p->roster, &p->out.rows) == 0)
        return;
    uint32_t to_count = bw_peer_roster_members(&p->roster) < CROWD ? CHANGES_TO : 1;
    for (uint32_t i = 0; i < to_count; i++) {
        bw_node to = random_member(p);
        p->counters.roster_frames++;
        if (to != BW_NODE_NONE)
            peer_send(p, to);
    }
}

void peer_meet_announce_leave(struct bw_peer *p)
{
    p->out.kind = BW_PEER_ROSTER;
    p->out.rows.count = 1;
    p->out.rows.at[0] = p->own;
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        if (row->left || row->id == p->options.self)
            continue;
        p->counters.roster_frames++;
        peer_send(p, row->id);
    }
}

/* ---- received rows ---- */

static void set_address(struct bw_peer *p, const struct bw_peer_row *row)
{
    struct sockaddr_storage address;
    if (row->id == p->options.self || !bw_peer_address_to(&row->address, &address))
        return;
    if (bw_datagram_set_address(p->datagram, row->id, (struct sockaddr *)&address) != BW_ELIMIT)
        return;
    peer_sweep(p);
    bw_datagram_set_address(p->datagram, row->id, (struct sockaddr *)&address);
}

static void member_event(struct bw_peer *p, const struct bw_peer_row *row, enum bw_event_kind kind)
{
    struct bw_event event = {.kind = kind, .node = row->id};
    if (kind == BW_EVENT_JOIN)
        event.member =
            (struct bw_member){.id = row->id, .priority = row->priority, .ordinary = row->ordinary};
    peer_step(p, &event);
    if (p->options.member) {
        peer_show(p, row->id, &p->shown);
        p->options.member(p->options.context, &p->shown);
    }
    for (uint32_t e = 0; p->options.death_notices_changed && e < p->elections; e++)
        if (p->election[e].announced.leader == p->options.self)
            p->options.death_notices_changed(p->options.context, e);
}

static void end_forgotten(struct bw_peer *p)
{
    char why[BW_PEER_WHY_MAX + 1], remedy[128];
    snprintf(remedy, sizeof remedy,
             p->raft ? "run bellwether peer remove %u, then start it again; or give it a new id"
                     : "give it a new id, and join with an empty directory",
             p->options.self);
    snprintf(why, sizeof why,
             "the other peers know a newer state of node %u than %.200s: its data is gone, or was "
             "restored from a backup, so its promises are lost; or another process has the same "
             "id; %s",
             p->options.self, p->options.directory, remedy);
    peer_end(p, BW_EDAMAGED, why);
}

/* Handles a row about ourselves from another node. Another directory, or starts that we do not
 * remember, mean that we have lost our state. Without promises, a higher incarnation repairs that.
 * With promises, nothing does.
 *
 * A peer that left and returned with the leader's confirmation (which is durable) ignores older
 * rows about its earlier incarnations: their sender missed that it left. The incarnation alone
 * proves nothing: a peer that lost its directory reaches any incarnation if it is restarted often
 * enough. */
static void on_own_row(struct bw_peer *p, const struct bw_peer_row *row)
{
    bool same = row->directory == p->own.directory;
    if (same && row->left && row->incarnation == p->own.incarnation && !p->leaving) {
        peer_end(p, BW_EINVAL,
                 "this peer was removed from the cluster (bellwether peer remove); start it again "
                 "to rejoin");
        return;
    }
    bool older = row->incarnation < p->own.incarnation;
    if (row->directory == 0 || (same && row->incarnation <= p->own.incarnation) ||
        (older && (p->found.saved.returned || BW_BUG(peer_trusts_its_starts))))
        return;
    bool promised = p->raft || bw_peer_found_is_founder(&p->found, p->options.self) || p->formed;
    if (row->left && !same)
        promised = false;
    if (p->guarded && promised) {
        end_forgotten(p);
        return;
    }
    if (older)
        return;
    if (++p->new_incarnations > NEW_INCARNATIONS_MAX) {
        peer_end(p, BW_EDAMAGED, "another process uses the same node id; give each node its own");
        return;
    }
    p->own.incarnation = row->incarnation + 1;
    p->starts = p->own.incarnation;
    bw_peer_roster_take(&p->roster, &p->own, true);
    p->members_dirty = true;
}

/* Raft: a node that left may come back with another directory only after its vote is gone
 * permanently. */
static bool vote_still_counts(struct bw_peer *p, const struct bw_peer_row *row)
{
    const struct bw_peer_row *known = bw_peer_roster_find(&p->roster, row->id);
    if (!p->raft || !p->instance || !known || known->directory == row->directory ||
        known->directory == 0)
        return false;
    for (uint32_t e = 0; e < p->elections; e++)
        if (!peer_raft_voteless(p, e, row->id))
            return true;
    return false;
}

/* Raft: the leader accepted a node with another directory only because its old vote was gone. A
 * member that missed the leaving cannot verify this once the node votes again, so it trusts the
 * leader. */
static bool leader_vouches(const struct bw_peer *p, bw_node from, const struct bw_peer_row *row)
{
    for (uint32_t e = 0; p->raft && p->instance && from != row->id && e < p->elections; e++)
        if (p->election[e].announced.leader == from)
            return true;
    return false;
}

static enum bw_peer_roster_change take_row(struct bw_peer *p, bw_node from,
                                           const struct bw_peer_row *row)
{
    if (row->id == p->options.self) {
        on_own_row(p, row);
        return BW_PEER_ROSTER_SAME;
    }
    bool trusting = !p->guarded || leader_vouches(p, from, row);
    if (!trusting && vote_still_counts(p, row))
        return BW_PEER_ROSTER_FORGOT;
    struct bw_peer_row copy = *row; /* `row` may point into a frame buffer that a hook overwrites */
    enum bw_peer_roster_change change = bw_peer_roster_take(&p->roster, &copy, trusting);
    if (change == BW_PEER_ROSTER_SAME || change == BW_PEER_ROSTER_FORGOT ||
        change == BW_PEER_ROSTER_FULL)
        return change;
    p->members_dirty = true;
    struct peer_contact *contact = make_contact(p, copy.id);
    if (contact)
        contact->fresh_at = bw_clock_boot();
    set_address(p, &copy);
    if (change == BW_PEER_ROSTER_LEFT)
        member_event(p, &copy, BW_EVENT_LEAVE);
    else
        member_event(p, &copy, BW_EVENT_JOIN);
    return change;
}

/* Checks the settings of another node. If they differ, the node receives our settings and nothing
 * else, also if we are the one to end, so that both sides report the difference. */
static bool rules_agree(struct bw_peer *p, bw_node from, const struct bw_peer_rules *rules,
                        const struct sockaddr *address, bool answer)
{
    bool agreed = peer_rules_received(p, from, rules);
    if (!agreed && !answer)
        send_sync(p, from, address, true);
    return agreed;
}

void peer_meet_rows(struct bw_peer *p, bw_node from, const struct bw_peer_rows *rows,
                    const struct sockaddr *address, bool join)
{
    if (join) {
        struct bw_peer_row row = rows->at[0];
        if (row.id != from || !rules_agree(p, from, &rows->rules, address, false))
            return;
        if (row.address.family == 0)
            bw_peer_address_from(&row.address, address);
        bool known = take_row(p, from, &row) == BW_PEER_ROSTER_SAME && p->formed;
        peer_received(p, from, bw_clock_boot());
        if (known) {
            send_sync(p, from, address, false);
            return;
        }
        send_roster(p, from, address);
        send_founded(p, from, address);
        return;
    }
    bool leaves = rows->count == 1 && rows->at[0].id == from && rows->at[0].left;
    for (uint32_t i = 0; i < rows->count && !p->dead; i++) {
        const struct bw_peer_row row = rows->at[i];
        take_row(p, from, &row);
    }
    if (leaves)
        peer_leave_received(p, from, address);
}

void peer_meet_sync(struct bw_peer *p, bw_node from, const struct bw_peer_sync *sync,
                    const struct sockaddr *address)
{
    bool same = sync->digest == bw_peer_roster_digest(&p->roster);
    bool formed = sync->rules.formed, answer = sync->answer;
    if (!rules_agree(p, from, &sync->rules, address, answer))
        return;
    if (p->formed && !formed)
        send_founded(p, from, address);
    if (same && formed == p->formed)
        return;
    if (!same)
        send_roster(p, from, address);
    if (!answer)
        send_sync(p, from, address, true);
}

/* ---- founding ---- */

static void found_act(struct bw_peer *p)
{
    struct bw_peer_found_out *out = &p->found_out;
    if (out->forgotten && p->guarded) {
        end_forgotten(p);
        return;
    }
    if (out->persist && !peer_save(p)) {
        peer_end(p, BW_EIO, "cannot write the founders of the cluster to disk");
        return;
    }
    uint32_t count = out->to_count;
    p->out.kind = BW_PEER_FOUND;
    p->out.founding = out->message;
    for (uint32_t i = 0; i < count; i++)
        peer_send(p, out->to[i]);
    if (out->founded)
        peer_form(p);
}

void peer_meet_found(struct bw_peer *p, bw_node from, const struct bw_peer_founding *received)
{
    p->found.released = p->raft && p->asks_vote_gone && peer_leave_free(p);
    bw_peer_found_receive(&p->found, from, received, &p->found_out);
    if (p->found_out.forgotten && p->raft && received->op == BW_PEER_FOUND_FOUNDED)
        /* The sender knows that we founded its cluster, but our disk does not: we left the cluster,
         * or lost our directory. If we lost it, a roster row about us will show that. */
        p->asks_vote_gone = true;
    else
        found_act(p);
}

static void found_tick(struct bw_peer *p, bw_time now)
{
    bw_node known[BW_PEER_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        const struct peer_contact *contact = peer_contact(p, row->id);
        bool self = row->id == p->options.self;
        if (self || (!row->left && contact && contact->fresh_at > 0 &&
                     now - contact->fresh_at < PEER_FRESH))
            known[count++] = row->id;
    }
    bw_peer_found_tick(&p->found, known, count, &p->found_out);
    found_act(p);
}

/* ---- time ---- */

static bool is_known_address(struct bw_peer *p, const struct sockaddr *place, bw_time now)
{
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        const struct sockaddr *address = bw_datagram_address(p->datagram, row->id);
        if (address && !row->left && bw_peer_address_same(address, place) &&
            is_reachable(p, row->id, now))
            return true;
    }
    struct sockaddr_storage own;
    return bw_peer_address_same((struct sockaddr *)&p->bound, place) ||
           (bw_peer_address_to(&p->own.address, &own) &&
            bw_peer_address_same((struct sockaddr *)&own, place));
}

static void send_hellos(struct bw_peer *p, bw_time now)
{
    for (uint32_t i = 0; i < p->places_count; i++) {
        const struct sockaddr *place = (struct sockaddr *)&p->places[i];
        if (!is_known_address(p, place, now))
            peer_meet_hello(p, BW_NODE_NONE, place);
    }
    for (uint32_t i = 0; i < CHANGES_TO; i++) {
        bw_node to = random_member(p);
        const struct sockaddr *address = bw_datagram_address(p->datagram, to);
        if (to == BW_NODE_NONE || !address)
            continue;
        if (!is_reachable(p, to, now))
            peer_meet_hello(p, to, address);
        else if (!p->formed)
            send_sync(p, to, NULL, false);
    }
}

static bw_time jittered(struct bw_peer *p, bw_time now, bw_time span)
{
    return now + bw_rng_between(&p->rng, span / 2 + span / 4, span + span / 4);
}

static bw_time sync_ns(const struct bw_peer *p)
{
    return bw_time_max(SYNC_NS, p->formed ? SYNC_LEAST * p->options.detect.period_ns : 0);
}

void peer_meet_start(struct bw_peer *p)
{
    bw_time now = bw_clock_boot();
    p->meet_at = p->changes_at = now;
    p->sync_at = jittered(p, now, SYNC_NS);
    p->resolve_at = now;
    p->change_at = now;
    p->save_at = p->claim_at = now;
    make_contact(p, p->options.self);
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        make_contact(p, row->id);
        set_address(p, row);
    }
}

void peer_meet_tick(struct bw_peer *p, bw_time now)
{
    if (!p->formed && p->found.saved.founded && !peer_form(p))
        return; /* resumed after a restart */
    if (now >= p->resolve_at) {
        p->resolve_at = jittered(p, now, p->formed ? 30 * BW_SEC : 3 * BW_SEC);
        peer_join_resolve(p);
    }
    if (now >= p->meet_at) {
        p->meet_at = jittered(p, now, p->formed ? HELLO_NS : MEET_NS);
        send_hellos(p, now);
        if (p->asks_vote_gone && !p->formed && !p->dead)
            peer_leave_ask(p);
        else if (!p->formed && !p->found.saved.founded && !p->dead)
            found_tick(p, now);
    }
    if (now >= p->changes_at) {
        p->changes_at = jittered(p, now, CHANGES_NS);
        send_changes(p);
    }
    if (now >= p->sync_at) {
        bw_node to = random_member(p);
        p->sync_at = jittered(p, now, sync_ns(p));
        if (to != BW_NODE_NONE)
            send_sync(p, to, NULL, false);
    }
    if (now >= p->change_at) {
        p->change_at = now + CHANGE_NS;
        peer_raft_change(p);
    }
    if (now >= p->claim_at)
        peer_claims_tick(p, now);
    peer_hold_tick(p, now);
    peer_sweep_tick(p, now);
    if (p->members_dirty && now >= p->save_at) {
        p->save_at = now + (p->formed ? SAVE_IDLE_NS : SAVE_NS);
        if (!peer_save(p))
            peer_end(p, BW_EIO, "cannot write the members of the cluster to disk");
    }
}

bw_time peer_meet_deadline(const struct bw_peer *p)
{
    bw_time at = bw_time_min(bw_time_min(p->meet_at, p->changes_at), p->sync_at);
    at = bw_time_min(at, bw_time_min(p->resolve_at, p->claim_at));
    at = bw_time_min(at, peer_hold_deadline(p));
    if (p->raft && p->instance)
        at = bw_time_min(at, p->change_at);
    return p->members_dirty ? bw_time_min(at, p->save_at) : at;
}
