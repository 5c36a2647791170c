/* Steps of the instance. First, all state that a step requires to be durable is written, in one
 * record per election. Then the actions are carried out in order. So other nodes learn only of
 * decisions that are on disk, and a step costs at most one sync. (PERSIST is a barrier for the
 * actions after it; writing earlier is always allowed.) */
#include "peer/node_state.h"

#include "os/clock.h"

#include <stdio.h>

/* Number of committed entries after which Raft's log is compacted. Each entry is a change of the
 * leader or of the members. */
#define COMPACT_AT 16u

/* After a failed write the state on disk is unknown, so our promises are no longer reliable. The
 * peer sends nothing any more, and does not carry out the rest of this step. */
void peer_disk_failed(struct bw_peer *p)
{
    char why[BW_PEER_WHY_MAX + 1];
    p->broken = true;
    snprintf(why, sizeof why, "cannot write the promises to %.200s (node %u)", p->options.directory,
             p->options.self);
    peer_end(p, BW_EIO, why);
}

/* With many elections, the sync happens later, but before any dependent frame is sent
 * (node_batch.c). */
static void write_record(struct bw_peer *p, uint32_t election)
{
    p->election[election].dirty = false;
    p->counters.persisted++;
    if ((p->batches ? bw_peer_disk_put_record
                    : bw_peer_disk_write_record)(p->disk, election, &p->records[election]) != 0)
        peer_disk_failed(p);
}

static void write_records(struct bw_peer *p, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_action *action = &p->actions[i];
        if (action->kind == BW_ACTION_PERSIST) {
            p->records[action->election].durable = action->durable;
            p->election[action->election].dirty = true;
        } else if (p->raft) {
            peer_raft_note(p, action);
        }
    }
    for (uint32_t i = 0; i < count && !p->broken; i++)
        if (p->election[p->actions[i].election].dirty)
            write_record(p, p->actions[i].election);
}

/* Keeps connections to the leaders, so that the end of a connection reveals a leader's death at
 * once. */
static void follow(struct bw_peer *p, bw_node before, bw_node leader)
{
    bool needed = before == BW_NODE_NONE || before == leader || before == p->options.self;
    for (uint32_t e = 0; e < p->elections; e++)
        needed = needed || p->election[e].announced.leader == before;
    if (!needed)
        bw_stream_stop_keeping(p->stream, before);
    const struct sockaddr *address = bw_datagram_address(p->datagram, leader);
    if (leader != BW_NODE_NONE && leader != p->options.self && address)
        bw_stream_keep(p->stream, leader, address, NULL);
}

/* We announced that our work under this term is dead, so no voter is bound to the term any more,
 * and a voter that receives the announcement late drops its later promises, too. After a failed
 * transfer Raft itself leads again in a new term. But the command that ends a leadership is lost if
 * the queue is full. Then we resign here. (The quorum guard claims a newer epoch anyway.) */
static bool must_not_act(struct bw_peer *p, uint32_t election,
                         const struct bw_announcement *announcement)
{
    struct peer_election *e = &p->election[election];
    struct peer_queued resign = {.kind = BW_EVENT_COMMAND};
    if (!p->raft || announcement->leader != p->options.self || announcement->term > e->dead_term ||
        announcement->act_until <= bw_clock_boot())
        return false;
    resign.command = (struct bw_command){.kind = BW_COMMAND_RESIGN, .election = (uint16_t)election};
    peer_enqueue(p, &resign); /* queue full: retried with the next announcement */
    return true;
}

static void announce(struct bw_peer *p, uint32_t election,
                     const struct bw_announcement *announcement)
{
    struct peer_election *e = &p->election[election];
    if (must_not_act(p, election, announcement))
        return;
    bw_node before = e->announced.leader;
    bool renewed = announcement->leader != before || announcement->term != e->announced.term;
    if (before == p->options.self && announcement->leader != before) {
        if (announcement->reason == BW_LOSS_TAKEN || announcement->leader != BW_NODE_NONE)
            peer_claims_last(p, election, &e->announced);
        e->acts_since = 0;
    } else if (announcement->leader == p->options.self &&
               (before != announcement->leader || !e->acts_since)) {
        e->acts_since = announcement->act_from;
    }
    e->announced = *announcement;
    if (announcement->leader != BW_NODE_NONE) {
        p->counters.elections += renewed;
        peer_led(p, election, announcement->leader, announcement->term);
    }
    if (announcement->leader == p->options.self && announcement->term > e->own_term)
        e->own_term = announcement->term;
    if (announcement->leader != before)
        follow(p, before, announcement->leader);
    if (announcement->leader == p->options.self && !peer_sync(p))
        return;
    if (p->options.announced)
        p->options.announced(p->options.context, election, announcement);
    if (renewed && announcement->leader == p->options.self && p->options.death_notices_changed)
        p->options.death_notices_changed(p->options.context, election);
}

/* Reads the status again: SUSPECT may mean suspect or dead. */
static void update_contact(struct bw_peer *p, bw_node node)
{
    struct peer_contact *m = peer_contact(p, node);
    if (!m)
        return;
    m->status = bw_instance_member(p->instance, node);
    m->since = bw_clock_boot();
    if (!p->options.member)
        return;
    peer_show(p, node, &p->shown);
    p->options.member(p->options.context, &p->shown);
}

/* We lead more than our share: hands over one election cleanly, as if a user had asked for it. */
static void move(struct bw_peer *p, uint32_t election, bw_node to)
{
    struct bw_peer_order order = {.kind = BW_PEER_TRANSFER, .election = election, .node = to};
    p->counters.moves += bw_peer_order(p, &order) == 0;
}

static void act(struct bw_peer *p, const struct bw_action *action)
{
    switch (action->kind) {
    case BW_ACTION_SEND:
        peer_send_message(p, &action->msg);
        break;
    case BW_ACTION_ANNOUNCE:
        announce(p, action->election, &action->announce);
        break;
    case BW_ACTION_SUSPECT:
    case BW_ACTION_TRUST:
        update_contact(p, action->node);
        break;
    case BW_ACTION_COMMIT:
        p->election[action->election].compact = p->unsettled = true;
        break;
    case BW_ACTION_MOVE:
        move(p, action->election, action->node);
        break;
    case BW_ACTION_PERSIST:
    case BW_ACTION_LOG_APPEND:
    case BW_ACTION_LOG_TRUNCATE:
    case BW_ACTION_LOG_RESTORE:
    case BW_ACTION_LOG_COMPACT:
    case BW_ACTION_ANSWER:
    case BW_ACTION_TRACE:
        break;
    }
}

static void step_once(struct bw_peer *p, struct bw_event *event)
{
    struct bw_actions actions = {.at = p->actions, .cap = p->actions_max};
    event->now = bw_clock_boot();
    bw_instance_step(p->instance, event, &actions);
    write_records(p, actions.count);
    for (uint32_t i = 0; i < actions.count && !p->broken; i++)
        act(p, &p->actions[i]);
}

void peer_step(struct bw_peer *p, struct bw_event *event)
{
    if (!p->instance || p->broken || (p->dead && event->kind != BW_EVENT_STOP))
        return;
    step_once(p, event);
    for (uint32_t e = 0; p->raft && e < p->elections && !p->broken; e++)
        peer_settle(p, e);
}

/* After a step of Raft: reports that its log is durable, and compacts it if necessary. */
void peer_settle(struct bw_peer *p, uint32_t election)
{
    struct peer_election *e = &p->election[election];
    for (int i = 0; i < 8 && (e->logged || e->compact) && !p->broken; i++) {
        const struct bw_raft *raft = bw_instance_elector(p->instance, election);
        bw_index commit = bw_raft_commit_index(raft), last = bw_raft_last_index(raft);
        struct bw_event event = {.election = (uint16_t)election, .node = p->options.self};
        bool due = commit >= bw_raft_snapshot_index(raft) + COMPACT_AT;
        if (e->logged) {
            event.kind = BW_EVENT_PERSISTED;
            event.persisted.index = last;
            event.persisted.term = bw_raft_term_at(raft, last);
            e->logged = false;
        } else {
            event.kind = BW_EVENT_COMMAND;
            event.command = (struct bw_command){
                .kind = BW_COMMAND_COMPACT, .election = (uint16_t)election, .index = commit};
            e->compact = false;
            if (!due)
                continue;
        }
        step_once(p, &event);
    }
}

/* Runs the instance if its deadline has passed. on_prepare (node.c) prevents a busy loop. */
void peer_tick_instance(struct bw_peer *p, bw_time now)
{
    if (!p->instance || p->dead || bw_instance_deadline(p->instance) > now)
        return;
    struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
    peer_step(p, &event);
}
