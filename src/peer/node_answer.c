/* Handles deaths, orders and queries: everything that other nodes report or ask beside
 * elections. */
#include "core/base/bug.h"
#include "os/clock.h"
#include "peer/node_state.h"

#include <stdio.h>
#include <string.h>

#define DEATH_AGAIN_NS     (2 * BW_MS)
#define DEATH_AGAIN_MAX_NS BW_SEC

/* ---- confirmed deaths ---- */

void peer_led(struct bw_peer *p, uint32_t election, bw_node node, bw_term term)
{
    struct peer_election *e = &p->election[election];
    for (uint32_t i = 0; i < PEER_LED; i++)
        if (e->led[i].node == node) {
            e->led[i].term = term > e->led[i].term ? term : e->led[i].term;
            return;
        }
    e->led[e->led_next++ % PEER_LED] = (struct peer_led){.node = node, .term = term};
}

/* The newest term in which `node` led as far as we know, or had our vote or promise. */
static bw_term newest_term(const struct bw_peer *p, uint32_t election, bw_node node)
{
    const struct bw_durable *durable = &p->records[election].durable;
    bw_term term = durable->vote == node ? durable->term : 0;
    if (durable->promised_to == node && durable->promise_epoch > term)
        term = durable->promise_epoch;
    for (uint32_t i = 0; i < PEER_LED; i++)
        if (p->election[election].led[i].node == node && p->election[election].led[i].term > term)
            term = p->election[election].led[i].term;
    return term;
}

static void confirm_death(struct bw_peer *p, uint32_t election, const struct peer_death *death)
{
    struct bw_event event = {.kind = BW_EVENT_CONFIRMED_DEAD,
                             .node = death->node,
                             .election = (uint16_t)election,
                             .alone = true,
                             .runs = death->runs,
                             .handed = death->handed,
                             .dead_term = death->term};
    peer_step(p, &event);
}

bool bw_peer_is_dead(const struct bw_peer *p, uint32_t election, bw_node node)
{
    for (uint32_t i = 0; election < p->elections && i < PEER_LED; i++) {
        const struct peer_led *led = &p->election[election].led[i];
        if (led->node == node && node != BW_NODE_NONE)
            return led->dead >= led->term;
    }
    return false;
}

static void note_death(struct bw_peer *p, const struct bw_peer_death *death)
{
    struct peer_election *e = &p->election[death->election];
    for (uint32_t i = 0; i < PEER_LED; i++)
        if (e->led[i].node == death->node)
            e->led[i].dead = death->term;
}

/* A node, or its guardian in its name, announces that its work under terms up to `death->term` is
 * dead. This does not cover work that it started under a newer term. Raft stores the term of each
 * wait and ends those that the announcement covers. The quorum guard keeps only one promise. */
void peer_answer_dead(struct bw_peer *p, bw_node from, const struct bw_peer_death *death,
                      bool handed)
{
    bw_node node = death->node;
    uint32_t election = death->election;
    struct peer_death found = {.node = node,
                               .term = death->term,
                               .runs = death->incarnation == 0,
                               .handed = handed,
                               .wait = DEATH_AGAIN_NS};
    if (from != node || election >= p->elections)
        return;
    if (newest_term(p, election, node) > death->term) {
        if (p->raft && death->term > 0)
            confirm_death(p, election, &found);
        return;
    }
    note_death(p, death);
    if (death->incarnation) /* the guardian sent it: there was no hand-over */
        peer_claims_killed(p, election, node, death->term);
    else
        bw_claims_end(&p->election[election].claims, node, death->term);
    found.again_at = bw_clock_boot() + DEATH_AGAIN_NS;
    p->election[election].death = found;
    confirm_death(p, election, &found);
}

/* Members learn of a death at different times. A candidate that asked for votes or promises before
 * all others had learned of it got answers that still count the dead node. So the elector gets the
 * death again, at growing intervals, and asks again if it still waits. */
void peer_death_tick(struct bw_peer *p, bw_time now)
{
    for (uint32_t e = 0; e < p->elections; e++) {
        struct peer_death *death = &p->election[e].death;
        if (death->node == BW_NODE_NONE || now < death->again_at)
            continue;
        bool over =
            death->wait > DEATH_AGAIN_MAX_NS || newest_term(p, e, death->node) > death->term;
        death->wait *= 2;
        death->again_at = now + death->wait;
        if (over)
            death->node = BW_NODE_NONE;
        else
            confirm_death(p, e, death);
    }
}

bw_time peer_death_deadline(const struct bw_peer *p)
{
    bw_time at = BW_TIME_NEVER;
    for (uint32_t e = 0; e < p->elections; e++)
        if (p->election[e].death.node != BW_NODE_NONE)
            at = bw_time_min(at, p->election[e].death.again_at);
    return at;
}

static void write_death(struct bw_peer *p, uint32_t election, enum bw_peer_frame_kind kind)
{
    p->out.kind = kind;
    p->out.death = (struct bw_peer_death){.election = (uint16_t)election,
                                          .node = p->options.self,
                                          .incarnation = p->own.incarnation,
                                          .term = p->election[election].own_term};
}

void peer_announce_dead(struct bw_peer *p, uint32_t election, bw_node successor, bw_term term)
{
    bool handed = successor != BW_NODE_NONE && !p->dead;
    p->election[election].dead_term = term;
    write_death(p, election, handed ? BW_PEER_HANDED : BW_PEER_DEAD);
    p->out.death.term = term;
    p->out.death.incarnation = 0; /* we announce it ourselves, not our guardian */
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        if (!row->left && row->id != p->options.self)
            peer_send(p, row->id);
    }
}

static bool write_notice(struct bw_peer *p, bw_node to, struct bw_peer_death_notice *out)
{
    unsigned char payload[64];
    const struct sockaddr *address = bw_datagram_address(p->datagram, to);
    int length = bw_peer_frame_encode(&p->out, payload, sizeof payload);
    if (!address || length < 0)
        return false;
    int sealed = bw_seal_make_kept(p->seal, to, BW_PEER_DEAD, payload, (size_t)length, out->bytes,
                                   sizeof out->bytes);
    if (sealed < 0)
        return false;
    memset(&out->to, 0, sizeof out->to);
    out->to_length = bw_sockaddr_length(address);
    memcpy(&out->to, address, out->to_length);
    out->length = (uint32_t)sealed;
    return true;
}

uint32_t bw_peer_death_notices(struct bw_peer *p, uint32_t election,
                               struct bw_peer_death_notice *out, uint32_t cap)
{
    uint32_t count = 0;
    if (!p->formed || election >= p->elections ||
        p->election[election].announced.leader != p->options.self)
        return 0;
    write_death(p, election, BW_PEER_DEAD);
    for (uint32_t i = 0; i < p->roster.count && count < cap; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        if (!row->left && row->id != p->options.self && write_notice(p, row->id, &out[count]))
            count++;
    }
    return count;
}

/* ---- orders ---- */

static bool removes(enum bw_peer_order_kind kind)
{
    return kind == BW_PEER_REMOVE || kind == BW_PEER_REMOVE_FORCED;
}

/* Rejects an impossible transfer before the order stops our work for nothing. */
static int refusal(struct bw_peer *p, const struct bw_peer_order *order)
{
    if (order->kind != BW_PEER_TRANSFER || order->node == p->options.self)
        return 0;
    if (!bw_peer_roster_has(&p->roster, order->node))
        return BW_ENOTMEMBER;
    if (bw_instance_ready(p->instance, order->election, order->node))
        return 0;
    if (bw_instance_member(p->instance, order->node) != BW_MEMBER_ALIVE)
        return BW_EUNSUPPORTED;
    return p->options.algorithm->traits & BW_TRAIT_DETERMINISTIC ? BW_EDENIED : BW_EBUSY;
}

static int carry_out(struct bw_peer *p, const struct bw_peer_order *order)
{
    if (order->kind == BW_PEER_HOLD || order->kind == BW_PEER_RESUME) {
        peer_hold(p, order->election, order->kind == BW_PEER_HOLD);
        return 0;
    }
    bool leads = p->formed && p->election[order->election].announced.leader == p->options.self;
    if (!leads)
        return BW_ENOTLEADER;
    if (removes(order->kind))
        return peer_remove(p, order->node, order->kind == BW_PEER_REMOVE_FORCED);
    if (order->kind == BW_PEER_OUTCOME)
        return p->options.outcome
                   ? p->options.outcome(p->options.context, order->election, order->node)
                   : 0;
    int error = refusal(p, order);
    if (error)
        return error;
    if (p->options.ordered) {
        p->options.ordered(p->options.context, order);
        return 0;
    }
    struct bw_command command = {.kind = order->kind == BW_PEER_TRANSFER ? BW_COMMAND_TRANSFER
                                                                         : BW_COMMAND_RESIGN,
                                 .election = (uint16_t)order->election,
                                 .node = order->node};
    return bw_peer_command(p, &command);
}

static bool is_private(enum bw_peer_order_kind kind)
{
    return kind >= BW_PEER_PREPARE && kind <= BW_PEER_GONE;
}

static bool is_valid(const struct bw_peer *p, const struct bw_peer_order *order)
{
    bool named = order->kind == BW_PEER_TRANSFER || order->kind == BW_PEER_OUTCOME ||
                 removes(order->kind) || is_private(order->kind);
    return order->election < p->elections && (!named || order->node != BW_NODE_NONE);
}

/* Handles a message between two members. Only the leader may ask another member to get ready. */
static void receive_private(struct bw_peer *p, bw_node from,
                            const struct bw_peer_hand_over *received)
{
    struct bw_peer_order order = {.kind = (enum bw_peer_order_kind)received->kind,
                                  .election = received->election,
                                  .node = from};
    if (received->election >= p->elections || !bw_peer_roster_has(&p->roster, from))
        return;
    bw_node leader = p->election[received->election].announced.leader;
    if (order.kind == BW_PEER_GONE)
        peer_leave_gone(p, from, order.election);
    else if (p->options.ordered && (order.kind != BW_PEER_PREPARE || leader == from))
        p->options.ordered(p->options.context, &order);
}

/* Sends such a message over a connection: it must arrive exactly once. */
static int send_private(struct bw_peer *p, const struct bw_peer_order *order)
{
    const struct sockaddr *address = bw_datagram_address(p->datagram, order->node);
    if (!address || !bw_peer_roster_has(&p->roster, order->node))
        return BW_ENOTMEMBER;
    p->out.kind = BW_PEER_ORDER;
    p->out.order = (struct bw_peer_hand_over){
        .kind = (uint8_t)order->kind, .election = (uint16_t)order->election, .node = order->node};
    int length = bw_peer_frame_encode(&p->out, p->bytes, sizeof p->bytes);
    if (length < 0)
        return length;
    return bw_stream_send(p->stream, order->node, address, BW_PEER_ORDER, p->bytes, (size_t)length);
}

/* A client repeats a request until it gets an answer. By then we may have stepped down because of
 * the request, so a repeated one gets the same answer and is not executed again. A client draws its
 * first request number at random; a member sends its request once, without a number. */
static bool was_taken(const struct bw_peer *p, uint64_t request)
{
    for (uint32_t i = 0; i < PEER_TAKEN; i++)
        if (request != 0 && p->taken[i] == request)
            return !BW_BUG(peer_takes_an_order_twice);
    return false;
}

static int take_order(struct bw_peer *p, const struct bw_peer_order *order, uint64_t request)
{
    bool steps_down = order->kind == BW_PEER_RESIGN || order->kind == BW_PEER_TRANSFER;
    if (steps_down && was_taken(p, request))
        return 0;
    int error = is_valid(p, order) ? carry_out(p, order) : BW_EINVAL;
    if (steps_down && error == 0)
        p->taken[p->taken_next++ % PEER_TAKEN] = request;
    return error;
}

void peer_answer_order(struct bw_peer *p, bw_node from, const struct sockaddr *address,
                       const struct bw_peer_hand_over *received)
{
    struct bw_peer_order order = {.kind = (enum bw_peer_order_kind)received->kind,
                                  .election = received->election,
                                  .node = received->node};
    struct bw_peer_hand_over answer = *received;
    if (is_private(order.kind)) {
        receive_private(p, from, received);
        return;
    }
    if (received->answer || !address)
        return;
    int error = take_order(p, &order, received->request);
    answer.answer = true;
    answer.error = (uint8_t)-error;
    if (error == BW_ENOTLEADER && received->election < p->elections)
        answer.node = p->election[received->election].announced.leader;
    p->out.kind = BW_PEER_ORDER;
    p->out.order = answer;
    peer_send_to(p, address, from);
}

int bw_peer_order(struct bw_peer *p, const struct bw_peer_order *order)
{
    if (!is_valid(p, order))
        return BW_EINVAL;
    if (order->kind == BW_PEER_HOLD || order->kind == BW_PEER_RESUME)
        return carry_out(p, order);
    if (is_private(order->kind))
        return send_private(p, order);
    bw_node leader = p->formed ? p->election[order->election].announced.leader : BW_NODE_NONE;
    if (leader == BW_NODE_NONE)
        return BW_ENOTLEADER;
    if (leader == p->options.self)
        return carry_out(p, order);
    p->out.kind = BW_PEER_ORDER;
    p->out.order = (struct bw_peer_hand_over){
        .kind = (uint8_t)order->kind, .election = (uint16_t)order->election, .node = order->node};
    peer_send(p, leader);
    return 0;
}

/* ---- queries ---- */

/* True if `id` is a voter in any election. A node that left counts until its removal is
 * committed. */
static bool is_voter(struct bw_peer *p, bw_node id)
{
    bool left = !bw_peer_roster_has(&p->roster, id);
    for (uint32_t e = 0; p->raft && p->instance && e < p->elections; e++)
        if (left ? !peer_raft_without(p, e, id)
                 : bw_raft_is_voter(bw_instance_elector(p->instance, e), id))
            return true;
    if (p->raft)
        return false;
    return p->guarded && bw_peer_found_is_founder(&p->found, id);
}

void peer_show(struct bw_peer *p, bw_node id, struct bw_peer_member *out)
{
    const struct bw_peer_row *row = bw_peer_roster_find(&p->roster, id);
    const struct peer_contact *contact = peer_contact(p, id);
    struct sockaddr_storage address;
    memset(out, 0, sizeof *out);
    if (!row)
        return;
    out->id = id;
    memcpy(out->name, row->name, sizeof out->name);
    memcpy(out->value, row->value, sizeof out->value);
    if (bw_peer_address_to(&row->address, &address))
        bw_peer_address_text((struct sockaddr *)&address, out->address);
    out->priority = row->priority;
    out->ordinary = row->ordinary;
    out->voter = is_voter(p, id);
    out->left = row->left;
    out->incarnation = row->incarnation;
    if (contact) {
        out->since = contact->since;
        out->status = contact->status;
    }
    if (p->instance && id != p->options.self)
        out->level = bw_instance_level(p->instance, id, bw_clock_boot());
}

static void fill_seen(struct bw_peer *p, uint32_t place, struct bw_peer_member_view *out)
{
    const struct bw_peer_row *row = &p->roster.at[place].row;
    bw_time now = bw_clock_boot();
    peer_show(p, row->id, &p->shown);
    *out = (struct bw_peer_member_view){
        .row = *row, .status = p->shown.status, .voter = p->shown.voter};
    double milli = p->shown.level * 1000;
    out->level_milli = milli >= 4e9 ? UINT32_MAX : milli > 0 ? (uint32_t)milli : 0;
    if (p->shown.since > 0 && now > p->shown.since)
        out->since_ms = (uint64_t)((now - p->shown.since) / BW_MS);
}

static void view_members(struct bw_peer *p, uint32_t first)
{
    struct bw_peer_view *view = &p->out.view;
    size_t bytes = 19;
    view->total = p->roster.count;
    for (uint32_t i = first; i < p->roster.count && view->count < BW_PEER_ROWS_MAX; i++) {
        struct bw_peer_member_view *seen = &view->seen[view->count];
        fill_seen(p, i, seen);
        bytes += bw_peer_member_view_bytes(seen);
        if (bytes > BW_PEER_FRAME_MAX)
            break;
        view->count++;
    }
}

uint64_t bw_peer_left_ms(const struct bw_peer_status *status, bw_time now)
{
    if (!status->leading || now < status->act_from)
        return 0;
    if (status->act_until == BW_TIME_NEVER)
        return UINT64_MAX;
    return status->act_until > now ? (uint64_t)((status->act_until - now) / BW_MS) : 0;
}

static void view_elections(struct bw_peer *p, uint32_t first)
{
    struct bw_peer_view *view = &p->out.view;
    bw_time now = bw_clock_boot();
    view->total = p->formed ? p->elections : 0;
    for (uint32_t e = first; e < view->total && view->count < 16; e++) {
        struct bw_peer_election_view *s = &view->standing[view->count++];
        struct bw_peer_status status;
        bw_peer_status(p, e, &status);
        *s = (struct bw_peer_election_view){.election = (uint16_t)e,
                                            .leader = status.leader,
                                            .leading = status.leading,
                                            .electing = status.electing,
                                            .busy = status.busy,
                                            .held = status.held,
                                            .term = status.term,
                                            .token = status.token};
        s->left_ms = bw_peer_left_ms(&status, now);
        snprintf(s->state, sizeof s->state, "%s",
                 p->election[e].done ? BW_PEER_STATE_DONE : status.state);
    }
}

void peer_answer_query(struct bw_peer *p, bw_node from, const struct sockaddr *address,
                       const struct bw_peer_query *query)
{
    struct bw_peer_query asked = *query;
    if (!address)
        return;
    p->out.kind = BW_PEER_VIEW;
    p->out.view.request = asked.request;
    p->out.view.what = asked.what;
    p->out.view.formed = p->formed;
    p->out.view.first = asked.first;
    p->out.view.count = 0;
    if (asked.what == BW_PEER_ASK_MEMBERS)
        view_members(p, asked.first);
    else
        view_elections(p, asked.first);
    if (p->out.view.first > p->out.view.total)
        p->out.view.first = p->out.view.total;
    peer_send_to(p, address, from);
}
