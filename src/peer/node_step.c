/* Steps of the instance. What a step wants durable is written first, all of it in one record per
 * election; then its actions are done in their order. So whatever is heard outside rests on what is
 * on the disk, and one step costs one sync at the most (PERSIST is a barrier for what follows it;
 * earlier is always early enough). */
#include "peer/node_state.h"

#include "core/base/bug.h"

#include <stdio.h>

/* Entries of Raft's log that may be committed and still there: each is a change of leader or of
 * members. */
#define COMPACT_AT 16u

/* A disk that failed once may have anything on it: what we say afterwards could not be relied on,
 * so nothing is said any more, and nothing of this step is done. */
void peer_disk_failed(struct bw_peer *p)
{
    char why[BW_PEER_WHY_MAX + 1];
    p->broken = true;
    snprintf(why, sizeof why, "cannot write down in %.200s what node %u promises",
             p->options.directory, p->options.self);
    peer_end(p, BW_EIO, why);
}

/* With many elections the sync comes later, before anything of it is heard (node_batch.c). */
static void write_record(struct bw_peer *p, uint32_t election)
{
    p->election[election].dirty = false;
    p->counters.persisted++;
    if ((p->batches ? bw_peer_disk_put_record
                    : bw_peer_disk_write_record)(p->disk, election, &p->records[election]) != 0)
        peer_disk_failed(p);
}

static void write_down(struct bw_peer *p, uint32_t count)
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

/* Connections are kept to those who lead, so that their end is heard of at once. */
static void follow(struct bw_peer *p, bw_node before, bw_node leader)
{
    bool needed = before == BW_NODE_NONE || before == leader || before == p->options.self;
    for (uint32_t e = 0; e < p->elections; e++)
        needed = needed || p->election[e].said.leader == before;
    if (!needed)
        bw_stream_let_go(p->stream, before);
    const struct sockaddr *address = bw_datagram_address(p->datagram, leader);
    if (leader != BW_NODE_NONE && leader != p->options.self && address)
        bw_stream_keep(p->stream, leader, address, NULL);
}

/* We said that what we ran under this term is dead, so no voter is bound to it any more, and one
 * that hears it late is free of what it promised since. Raft resumes its term when a transfer has
 * come to nothing: that lead is given up instead, for a newer term. (The guard claims a newer one
 * anyway.) */
static bool must_not_act(struct bw_peer *p, uint32_t election, const struct bw_announcement *said)
{
    struct peer_election *e = &p->election[election];
    struct peer_queued resign = {.kind = BW_EVENT_COMMAND};
    if (!p->raft || said->leader != p->options.self || said->term > e->buried ||
        said->act_until <= peer_now() || BW_BUG(peer_acts_under_a_buried_term))
        return false;
    resign.command = (struct bw_command){.kind = BW_COMMAND_RESIGN, .election = (uint16_t)election};
    peer_enqueue(p, &resign); /* no room: with the next announcement */
    return true;
}

static void announce(struct bw_peer *p, uint32_t election, const struct bw_announcement *said)
{
    struct peer_election *e = &p->election[election];
    if (must_not_act(p, election, said))
        return;
    bw_node before = e->said.leader;
    bool renewed = said->leader != before || said->term != e->said.term;
    if (before == p->options.self && said->leader != before) {
        if (said->reason == BW_LOSS_TAKEN || said->leader != BW_NODE_NONE)
            peer_claims_last(p, election, &e->said);
        e->acts_since = 0;
    } else if (said->leader == p->options.self && (before != said->leader || !e->acts_since)) {
        e->acts_since = said->act_from;
    }
    e->said = *said;
    if (said->leader != BW_NODE_NONE) {
        p->counters.elections += renewed;
        peer_led(p, election, said->leader, said->term);
    }
    if (said->leader == p->options.self && said->term > e->own_term)
        e->own_term = said->term;
    if (said->leader != before)
        follow(p, before, said->leader);
    if (said->leader == p->options.self && !peer_sync(p))
        return;
    if (p->options.announced)
        p->options.announced(p->options.context, election, said);
    if (renewed && said->leader == p->options.self && p->options.letters)
        p->options.letters(p->options.context, election);
}

/* `status` of the row is asked for anew: SUSPECT may mean suspect or dead. */
static void mind(struct bw_peer *p, bw_node node)
{
    struct peer_mind *m = peer_mind(p, node);
    if (!m)
        return;
    m->status = bw_instance_member(p->instance, node);
    m->since = peer_now();
    if (!p->options.member)
        return;
    peer_show(p, node, &p->shown);
    p->options.member(p->options.context, &p->shown);
}

/* We lead more than our share: one is handed over, in good order, as if somebody had asked for it.
 */
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
        mind(p, action->node);
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
    event->now = peer_now();
    bw_instance_step(p->instance, event, &actions);
    write_down(p, actions.count);
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

/* What a step of Raft left to be said to it: that its log is durable, and may be shortened. */
void peer_settle(struct bw_peer *p, uint32_t election)
{
    struct peer_election *e = &p->election[election];
    for (int i = 0; i < 8 && (e->logged || e->compact) && !p->broken; i++) {
        const struct bw_raft *raft = bw_instance_elector(p->instance, election);
        bw_index commit = bw_raft_commit_index(raft), last = bw_raft_last_index(raft);
        struct bw_event event = {.election = (uint16_t)election, .node = p->options.self};
        bool ripe = commit >= bw_raft_snapshot_index(raft) + COMPACT_AT;
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
            if (!ripe)
                continue;
        }
        step_once(p, &event);
    }
}

/* Never a busy loop: who is due again at once has not moved on, and breathes a millisecond. */
void peer_tick_instance(struct bw_peer *p, bw_time now)
{
    if (!p->instance || p->dead || bw_instance_deadline(p->instance) > now)
        return;
    struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
    peer_step(p, &event);
}
