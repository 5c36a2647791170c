/* Who is there: who we were told to join, whom those know, and what of it is news.
 *
 * Until the cluster is formed a node shows itself to the addresses it was told of, and asks three
 * members that it knows whether their roster is like its own, several times a second. Afterwards
 * news goes out as long as there is some, each row a logarithmic number of times, and once in a
 * while one member is asked the same. Who is not alive, as far as the detector knows, is still
 * spoken to now and then: so a partition of any length heals. Whole rosters are for those who are
 * new; two who know each other compare digests first. So what a member sends while nothing changes
 * is one small frame in ten periods, whatever the size of the cluster. */
#include "core/base/bug.h"
#include "peer/node_state.h"

#include <stdio.h>
#include <string.h>

#define MEET_NS    (250 * BW_MS) /* while not formed */
#define LOOK_NS    (2 * BW_SEC)  /* afterwards: for those whom nobody hears */
#define TELL_NS    (100 * BW_MS) /* news */
#define SYNC_NS    BW_SEC
#define SYNC_LEAST 10 /* periods between two comparisons, at least */
#define HEARD_NS   (3 * BW_SEC)
#define CHANGE_NS  (50 * BW_MS) /* Raft's members after the roster */
#define SAVE_NS    (500 * BW_MS)
#define CALM_NS    (5 * BW_SEC) /* between two writes of the roster of a cluster that exists */
#define TELL_TO    3u
#define CROWD      32u /* in larger clusters each news goes to one at a time: many tell it */
#define RENAME_MAX 16u

struct peer_mind *peer_mind(struct bw_peer *p, bw_node id)
{
    for (uint32_t i = 0; i < p->minds_count; i++)
        if (p->minds[i].id == id)
            return &p->minds[i];
    return NULL;
}

/* A place for a member's mind: a free one, or that of somebody who is no longer in the roster. */
static struct peer_mind *make_mind(struct bw_peer *p, bw_node id)
{
    struct peer_mind *mind = peer_mind(p, id);
    for (uint32_t i = 0; !mind && i < p->minds_count; i++)
        if (!bw_peer_roster_find(&p->roster, p->minds[i].id))
            mind = &p->minds[i];
    if (!mind && p->minds_count < p->cap)
        mind = &p->minds[p->minds_count++];
    if (mind && mind->id != id)
        *mind = (struct peer_mind){.id = id, .since = peer_now()};
    return mind;
}

void peer_heard(struct bw_peer *p, bw_node id, bw_time now)
{
    struct peer_mind *mind = peer_mind(p, id);
    if (mind)
        mind->heard = mind->spoken = now;
}

static bool heard_lately(struct bw_peer *p, bw_node id, bw_time now)
{
    const struct peer_mind *mind = peer_mind(p, id);
    return mind && mind->spoken > 0 && now - mind->spoken < HEARD_NS;
}

/* Nobody need look for it: the detector listens to it, or we heard it ourselves. */
static bool there(struct bw_peer *p, bw_node id, bw_time now)
{
    const struct peer_mind *mind = peer_mind(p, id);
    bool watched = p->formed && p->instance && p->options.detector;
    return heard_lately(p, id, now) || (watched && mind && mind->status == BW_MEMBER_ALIVE);
}

/* ---- what we say ---- */

void peer_meet_hello(struct bw_peer *p, bw_node to, const struct sockaddr *address)
{
    p->out.kind = BW_PEER_JOIN;
    p->out.rows.count = 1;
    p->out.rows.at[0] = p->own;
    peer_rules_own(p, &p->out.rows.rules);
    p->counters.roster_frames++;
    peer_send_to(p, address, to);
}

/* To where it is known to be, or to where it spoke from. */
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

/* Anybody but us, live or dead; NONE: nobody. */
static bw_node somebody(struct bw_peer *p)
{
    for (int i = 0; i < 32 && bw_peer_roster_members(&p->roster) > 1; i++) {
        const struct bw_peer_row *row = &p->roster.at[bw_rng_below(&p->rng, p->roster.count)].row;
        if (!row->left && row->id != p->options.self)
            return row->id;
    }
    return BW_NODE_NONE;
}

static void tell_news(struct bw_peer *p)
{
    if (bw_peer_roster_members(&p->roster) < 2)
        return;
    p->out.kind = BW_PEER_ROSTER;
    if (bw_peer_roster_news(&p->roster, &p->out.rows) == 0)
        return;
    uint32_t to_count = bw_peer_roster_members(&p->roster) < CROWD ? TELL_TO : 1;
    for (uint32_t i = 0; i < to_count; i++) {
        bw_node to = somebody(p);
        p->counters.roster_frames++;
        if (to != BW_NODE_NONE)
            peer_send(p, to);
    }
}

void peer_meet_farewell(struct bw_peer *p)
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

/* ---- rows that came ---- */

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
    for (uint32_t e = 0; p->options.letters && e < p->elections; e++)
        if (p->election[e].said.leader == p->options.self)
            p->options.letters(p->options.context, e);
}

static void forgot(struct bw_peer *p)
{
    char why[BW_PEER_WHY_MAX + 1], mend[128];
    snprintf(mend, sizeof mend,
             p->raft ? "run bellwether peer remove %u, then start it again; or give it a new id"
                     : "give it a new id, and join with an empty directory",
             p->options.self);
    snprintf(why, sizeof why,
             "the others know node %u better than %.200s does: its data is gone, or was brought "
             "back from a backup, and with it what it promised; or another process has the same "
             "id: %s",
             p->options.self, p->options.directory, mend);
    peer_end(p, BW_EDAMAGED, why);
}

/* Somebody else's word of us. A directory that is not ours, or starts that we do not remember: we
 * have forgotten. Where nothing was promised a higher incarnation mends that; elsewhere nothing
 * does. A peer that left and returned by leave of the leader (a durable fact) ignores older rows of
 * its earlier life: their sender missed that it left. The incarnation alone proves nothing: a lost
 * directory that is started often enough reaches any number. */
static void own_row(struct bw_peer *p, const struct bw_peer_row *row)
{
    bool same = row->directory == p->own.directory;
    if (same && row->left && row->incarnation == p->own.incarnation && !p->leaving) {
        peer_end(p, BW_EINVAL,
                 "this peer was taken out of the cluster (bellwether peer remove); started again "
                 "it joins anew");
        return;
    }
    bool older = row->incarnation < p->own.incarnation;
    if (row->directory == 0 || (same && row->incarnation <= p->own.incarnation) ||
        (older && (p->found.saved.returned || BW_BUG(peer_trusts_its_starts))))
        return;
    bool promised = p->raft || bw_peer_found_founder(&p->found, p->options.self) || p->formed;
    if (row->left && !same)
        promised = false;
    if (p->guarded && promised) {
        forgot(p);
        return;
    }
    if (older)
        return;
    if (++p->renamed > RENAME_MAX) {
        peer_end(p, BW_EDAMAGED, "another process takes part under the same id");
        return;
    }
    p->own.incarnation = row->incarnation + 1;
    p->starts = p->own.incarnation;
    bw_peer_roster_take(&p->roster, &p->own, true);
    p->members_dirty = true;
}

/* Raft: an id that left may come back with another directory only when its vote is gone for good.
 */
static bool too_early(struct bw_peer *p, const struct bw_peer_row *row)
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

/* Raft: a leader knows who returned with another directory because that one's vote was gone. Who
 * missed its leaving cannot see that any more when it votes again, and believes the leader. */
static bool vouched(const struct bw_peer *p, bw_node from, const struct bw_peer_row *row)
{
    for (uint32_t e = 0; p->raft && p->instance && from != row->id && e < p->elections; e++)
        if (p->election[e].said.leader == from)
            return true;
    return false;
}

static enum bw_peer_roster_change take_row(struct bw_peer *p, bw_node from,
                                           const struct bw_peer_row *row)
{
    if (row->id == p->options.self) {
        own_row(p, row);
        return BW_PEER_ROSTER_SAME;
    }
    bool trusting = !p->guarded || vouched(p, from, row);
    if (!trusting && too_early(p, row))
        return BW_PEER_ROSTER_FORGOT;
    struct bw_peer_row copy = *row; /* `row` may lie in a frame that a hook makes us use */
    enum bw_peer_roster_change change = bw_peer_roster_take(&p->roster, &copy, trusting);
    if (change == BW_PEER_ROSTER_SAME || change == BW_PEER_ROSTER_FORGOT ||
        change == BW_PEER_ROSTER_FULL)
        return change;
    p->members_dirty = true;
    struct peer_mind *mind = make_mind(p, copy.id);
    if (mind)
        mind->heard = peer_now();
    set_address(p, &copy);
    if (change == BW_PEER_ROSTER_LEFT)
        member_event(p, &copy, BW_EVENT_LEAVE);
    else
        member_event(p, &copy, BW_EVENT_JOIN);
    return change;
}

/* Who takes part by other rules is told ours, and nothing else; also when it is we who go, so that
 * both sides say why. */
static bool agrees(struct bw_peer *p, bw_node from, const struct bw_peer_rules *rules,
                   const struct sockaddr *address, bool answer)
{
    bool agreed = peer_rules_heard(p, from, rules);
    if (!agreed && !answer)
        send_sync(p, from, address, true);
    return agreed;
}

void peer_meet_rows(struct bw_peer *p, bw_node from, const struct bw_peer_rows *rows,
                    const struct sockaddr *address, bool join)
{
    if (join) {
        struct bw_peer_row row = rows->at[0];
        if (row.id != from || !agrees(p, from, &rows->rules, address, false))
            return;
        if (row.address.family == 0)
            bw_peer_address_from(&row.address, address);
        bool known = take_row(p, from, &row) == BW_PEER_ROSTER_SAME && p->formed;
        peer_heard(p, from, peer_now());
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
        peer_leave_heard(p, from, address);
}

void peer_meet_sync(struct bw_peer *p, bw_node from, const struct bw_peer_sync *sync,
                    const struct sockaddr *address)
{
    bool same = sync->digest == bw_peer_roster_digest(&p->roster);
    bool formed = sync->rules.formed, answer = sync->answer;
    if (!agrees(p, from, &sync->rules, address, answer))
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

static void found_do(struct bw_peer *p)
{
    struct bw_peer_found_out *out = &p->found_out;
    if (out->forgotten && p->guarded) {
        forgot(p);
        return;
    }
    if (out->persist && !peer_save(p)) {
        peer_end(p, BW_EIO, "cannot write down who founds the cluster");
        return;
    }
    uint32_t count = out->to_count;
    p->out.kind = BW_PEER_FOUND;
    p->out.founding = out->say;
    for (uint32_t i = 0; i < count; i++)
        peer_send(p, out->to[i]);
    if (out->founded)
        peer_form(p);
}

void peer_meet_found(struct bw_peer *p, bw_node from, const struct bw_peer_founding *said)
{
    p->found.released = p->raft && p->asks && peer_leave_free(p);
    bw_peer_found_heard(&p->found, from, said, &p->found_out);
    if (p->found_out.forgotten && p->raft && said->op == BW_PEER_FOUND_FOUNDED)
        p->asks = true; /* we left, or our directory is lost: then a row about us says so */
    else
        found_do(p);
}

static void found_tick(struct bw_peer *p, bw_time now)
{
    bw_node known[BW_PEER_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        const struct peer_mind *mind = peer_mind(p, row->id);
        bool self = row->id == p->options.self;
        if (self || (!row->left && mind && mind->heard > 0 && now - mind->heard < PEER_FRESH))
            known[count++] = row->id;
    }
    bw_peer_found_tick(&p->found, known, count, &p->found_out);
    found_do(p);
}

/* ---- time ---- */

static bool someone_is_at(struct bw_peer *p, const struct sockaddr *place, bw_time now)
{
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        const struct sockaddr *address = bw_datagram_address(p->datagram, row->id);
        if (address && !row->left && bw_peer_address_same(address, place) && there(p, row->id, now))
            return true;
    }
    struct sockaddr_storage own;
    return bw_peer_address_same((struct sockaddr *)&p->bound, place) ||
           (bw_peer_address_to(&p->own.address, &own) &&
            bw_peer_address_same((struct sockaddr *)&own, place));
}

static void look(struct bw_peer *p, bw_time now)
{
    for (uint32_t i = 0; i < p->places_count; i++) {
        const struct sockaddr *place = (struct sockaddr *)&p->places[i];
        if (!someone_is_at(p, place, now))
            peer_meet_hello(p, BW_NODE_NONE, place);
    }
    for (uint32_t i = 0; i < TELL_TO; i++) {
        bw_node to = somebody(p);
        const struct sockaddr *address = bw_datagram_address(p->datagram, to);
        if (to == BW_NODE_NONE || !address)
            continue;
        if (!there(p, to, now))
            peer_meet_hello(p, to, address);
        else if (!p->formed)
            send_sync(p, to, NULL, false);
    }
}

static bw_time soon(struct bw_peer *p, bw_time now, bw_time span)
{
    return now + bw_rng_between(&p->rng, span / 2 + span / 4, span + span / 4);
}

static bw_time sync_ns(const struct bw_peer *p)
{
    return bw_time_max(SYNC_NS, p->formed ? SYNC_LEAST * p->options.detect.period_ns : 0);
}

void peer_meet_start(struct bw_peer *p)
{
    bw_time now = peer_now();
    p->meet_at = p->tell_at = now;
    p->sync_at = soon(p, now, SYNC_NS);
    p->resolve_at = now;
    p->change_at = now;
    p->save_at = p->claim_at = now;
    make_mind(p, p->options.self);
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        make_mind(p, row->id);
        set_address(p, row);
    }
}

void peer_meet_tick(struct bw_peer *p, bw_time now)
{
    if (!p->formed && p->found.saved.founded && !peer_form(p))
        return; /* gone on with after a restart */
    if (now >= p->resolve_at) {
        p->resolve_at = soon(p, now, p->formed ? 30 * BW_SEC : 3 * BW_SEC);
        peer_join_resolve(p);
    }
    if (now >= p->meet_at) {
        p->meet_at = soon(p, now, p->formed ? LOOK_NS : MEET_NS);
        look(p, now);
        if (p->asks && !p->formed && !p->dead)
            peer_leave_ask(p);
        else if (!p->formed && !p->found.saved.founded && !p->dead)
            found_tick(p, now);
    }
    if (now >= p->tell_at) {
        p->tell_at = soon(p, now, TELL_NS);
        tell_news(p);
    }
    if (now >= p->sync_at) {
        bw_node to = somebody(p);
        p->sync_at = soon(p, now, sync_ns(p));
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
        p->save_at = now + (p->formed ? CALM_NS : SAVE_NS);
        if (!peer_save(p))
            peer_end(p, BW_EIO, "cannot write down who belongs to the cluster");
    }
}

bw_time peer_meet_deadline(const struct bw_peer *p)
{
    bw_time at = bw_time_min(bw_time_min(p->meet_at, p->tell_at), p->sync_at);
    at = bw_time_min(at, bw_time_min(p->resolve_at, p->claim_at));
    at = bw_time_min(at, peer_hold_deadline(p));
    if (p->raft && p->instance)
        at = bw_time_min(at, p->change_at);
    return p->members_dirty ? bw_time_min(at, p->save_at) : at;
}
