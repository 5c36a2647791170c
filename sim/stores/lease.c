/* The shipped lease elector as an algorithm of the simulator.
 *
 * This file does for struct bw_lease what `run` does: it carries requests to the store, which time
 * out as UNKNOWN; it starts the work, asks it to end, and confirms that it is dead. The work may
 * still act between SIGTERM and its death, so the announced window lasts until its death. If a
 * record were released earlier, the checker would see two leaders that may act. Not modelled:
 * processes, containment, health. */
#include "sim/stores/lease.h"

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/lease/redlock_validity.h"
#include "sim/stores/lease_candidate.h"
#include "sim/stores/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const store_names[] = {"quorum", "single", "forgetful", "redlock"};
#define STORES (sizeof store_names / sizeof *store_names)

const char *bw_sim_store_name(unsigned store)
{
    return store < STORES ? store_names[store] : NULL;
}

bool bw_sim_store_observed(const struct bw_sim_lease *lease)
{
    bool keeps = lease->store == BW_SIM_STORE_QUORUM || lease->store == BW_SIM_STORE_SINGLE;
    return keeps && !lease->expires;
}

/* ---- state ---- */

static struct candidate *lay_out(struct bw_arena *arena)
{
    struct candidate *c = bw_arena_take(arena, sizeof *c);
    void *lease = bw_arena_take(arena, bw_lease_bytes());
    if (!bw_arena_fits(arena))
        return c;
    memset(c, 0, sizeof *c);
    c->lease = lease;
    return c;
}

static size_t lease_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    (void)config;
    lay_out(&measure);
    return measure.used;
}

static uint32_t lease_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return LEASE_ASKS * BW_SIM_STORES_MAX + 64;
}

static unsigned store_traits(const struct bw_sim_lease *lease)
{
    if (lease->store == BW_SIM_STORE_REDLOCK)
        return 0;
    return BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_NOTES |
           (bw_sim_store_observed(lease) ? BW_STORE_OBSERVED : 0u);
}

static int lease_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = lease_bytes(config)};
    struct candidate *c = lay_out(&arena);
    const struct bw_sim_lease_host *host = config->host;
    c->self = config->self;
    c->host = host;
    c->drift_ppm = config->drift_ppm;
    c->dies_at = BW_TIME_NEVER;
    snprintf(c->name, sizeof c->name, "%u", config->self);
    struct bw_lease_config lease = {.election = "sim",
                                    .candidate = c->name,
                                    .value = c->name,
                                    .terms = {.ttl_ns = host->lease->ttl_ns,
                                              .drift_ppm = config->drift_ppm,
                                              .kill_after_ns = host->lease->kill_after_ns,
                                              .margin_ns = host->lease->margin_ns,
                                              .uncertainty_ns = host->lease->uncertainty_ns},
                                    .retry_ns = host->lease->retry_ns,
                                    .grace_ns = host->lease->grace_ns,
                                    .traits = store_traits(host->lease),
                                    .seed = config->seed};
    return bw_lease_init(c->lease, &lease);
}

/* ---- asking ---- */

void lease_put(struct candidate *c, const struct bw_sim_store_ask *ask, struct bw_actions *actions)
{
    if (c->asks_count == LEASE_ASKS)
        return; /* lost, as on a full socket */
    struct bw_sim_store_ask *out = &c->asks[c->asks_count++];
    *out = *ask;
    for (uint32_t i = 0; i < c->host->count; i++) {
        struct bw_message *msg =
            bw_actions_send(actions, BW_MSG_STORE_ASK, c->self, c->host->first + i, 0);
        msg->data = out;
        msg->items = sizeof *out;
    }
}

static struct lease_waiting *find_waiting(struct candidate *c, uint64_t id)
{
    for (uint32_t i = 0; i < LEASE_WAITING; i++)
        if (c->waiting[i].id == id)
            return &c->waiting[i];
    return NULL;
}

static bw_node node_of(const char *name)
{
    return (bw_node)strtoul(name, NULL, 10);
}

static void ask(struct candidate *c, const struct bw_lease_ask *wanted, bw_time now,
                struct bw_actions *actions)
{
    const struct bw_store_request *request = &wanted->request;
    struct lease_waiting *waiting = find_waiting(c, 0);
    struct bw_sim_store_ask out;
    if (request->op == BW_STORE_ENTER || request->op == BW_STORE_LEAVE)
        return; /* this store has no list of candidates */
    memset(&out, 0, sizeof out);
    out.id = request->id;
    out.op = (uint8_t)request->op;
    out.steal = request->steal;
    out.steal_request = request->steal_request;
    out.version = request->version;
    out.token = request->token;
    out.ttl_ns = request->ttl_ns;
    out.until_wall_ns = request->until_wall_ns;
    out.clean = request->clean;
    out.note = (uint8_t)request->note.kind;
    out.note_to = node_of(request->note.to);
    if (request->op == BW_STORE_ACQUIRE) {
        c->lock = request->id;
        bw_actions_trace(actions, BW_TRACE_ELECTION, c->self, c->view_token + 1, 0);
    }
    out.lock = request->op == BW_STORE_RELEASE && c->last.held && c->last.holder == c->self
                   ? c->last.request
                   : c->lock;
    lease_put(c, &out, actions);
    if (waiting && request->op != BW_STORE_NOTE)
        *waiting = (struct lease_waiting){.id = request->id,
                                          .op = request->op,
                                          .sent = now,
                                          .until = bw_time_add(now, wanted->within_ns)};
}

/* ---- announcements ---- */

static void announce(struct candidate *c, bw_time now, enum bw_loss reason,
                     struct bw_actions *actions)
{
    bw_node view = c->view == c->self ? BW_NODE_NONE : c->view;
    struct bw_announcement out = {.leader = c->leads ? c->self : view, .reason = reason};
    out.term = out.token = c->leads ? c->token : view ? c->view_token : BW_TOKEN_NONE;
    if (c->leads) {
        out.act_from = now;
        out.act_until = c->act_until;
    }
    c->announced = out.leader;
    bw_actions_announce(actions, &out);
}

static enum bw_loss loss_of(enum bw_lease_loss loss)
{
    switch (loss) {
    case BW_LEASE_KEPT:
        return BW_LOSS_NONE;
    case BW_LEASE_EXPIRED:
        return BW_LOSS_EXPIRED;
    case BW_LEASE_TAKEN:
        return BW_LOSS_TAKEN;
    case BW_LEASE_TRANSFERRED:
        return BW_LOSS_TRANSFERRED;
    case BW_LEASE_UNHEALTHY:
        return BW_LOSS_UNHEALTHY;
    case BW_LEASE_UNREACHABLE:
        return BW_LOSS_UNREACHABLE;
    case BW_LEASE_SHUT_DOWN:
        return BW_LOSS_SHUT_DOWN;
    case BW_LEASE_RESIGNED:
    case BW_LEASE_FINISHED:
    case BW_LEASE_PREDECESSOR_NOT_DEAD:
        break;
    }
    return BW_LOSS_RESIGNED;
}

/* ---- around the elector ---- */

/* Returns the end of the window: of the schedule, and for Redlock also of its validity. */
static bw_time window_end(const struct candidate *c, const struct bw_lease_schedule *schedule)
{
    bw_time ttl = c->host->lease->ttl_ns;
    if (c->host->lease->store != BW_SIM_STORE_REDLOCK)
        return schedule->end;
    bw_time sent = schedule->end - bw_lease_span(ttl, c->drift_ppm);
    return bw_time_min(schedule->end, sent + bw_redlock_validity(ttl, 0));
}

static void on_elected(struct candidate *c, const struct bw_lease_action *action, bw_time now,
                       struct bw_actions *actions)
{
    c->leads = true;
    c->dying = false;
    c->token = action->token;
    c->act_until = window_end(c, &action->schedule);
    bw_actions_trace(actions, BW_TRACE_WON, c->self, c->token, 0);
    announce(c, now, BW_LOSS_NONE, actions);
}

static void on_extended(struct candidate *c, const struct bw_lease_action *action, bw_time now,
                        struct bw_actions *actions)
{
    if (!c->leads || c->dying)
        return;
    c->act_until = window_end(c, &action->schedule);
    announce(c, now, BW_LOSS_NONE, actions);
}

/* SIGTERM: the work takes stop_ns to end, and is killed if that is too long. */
static void on_step_down(struct candidate *c, const struct bw_lease_action *action, bw_time now,
                         struct bw_actions *actions)
{
    c->dying = true;
    c->reason = loss_of(action->reason);
    c->dies_at = bw_time_min(action->schedule.kill, bw_time_add(now, c->host->stop_ns));
    c->act_until = bw_time_min(c->act_until, c->dies_at);
    bw_actions_trace(actions, BW_TRACE_STEP_DOWN, c->self, c->token, c->reason);
    if (c->dies_at > now)
        announce(c, now, BW_LOSS_NONE, actions);
}

static void on_leader(struct candidate *c, const struct bw_lease_action *action, bw_time now,
                      struct bw_actions *actions)
{
    c->view = node_of(action->leader);
    c->view_token = action->token;
    if (!c->leads && c->announced != (c->view == c->self ? BW_NODE_NONE : c->view))
        announce(c, now, BW_LOSS_NONE, actions);
}

static void carry_out(struct candidate *c, const struct bw_lease_action *action, bw_time now,
                      struct bw_actions *actions)
{
    switch (action->kind) {
    case BW_LEASE_ASK:
        ask(c, &action->ask, now, actions);
        break;
    case BW_LEASE_ELECTED:
        on_elected(c, action, now, actions);
        break;
    case BW_LEASE_EXTENDED:
        on_extended(c, action, now, actions);
        break;
    case BW_LEASE_STEP_DOWN:
        on_step_down(c, action, now, actions);
        break;
    case BW_LEASE_LEADER:
        on_leader(c, action, now, actions);
        break;
    case BW_LEASE_PREPARE:
    case BW_LEASE_RELEASED:
    case BW_LEASE_DUPLICATE:
    case BW_LEASE_STOPPED:
        break;
    }
}

/* Steps the elector. Returns true if it wants the successor to be prepared. */
static bool feed(struct candidate *c, const struct bw_lease_event *event,
                 struct bw_actions *actions)
{
    struct bw_lease_actions out;
    struct bw_lease_event timed = *event;
    bool prepare = false;
    out.count = 0;
    timed.wall = c->host->wall(c->host->world, c->self);
    bw_lease_step(c->lease, &timed, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        prepare = prepare || out.at[i].kind == BW_LEASE_PREPARE;
        carry_out(c, &out.at[i], event->now, actions);
    }
    return prepare;
}

/* The work is dead: only now may the elector release the record. */
static void confirm_dead(struct candidate *c, bw_time now, struct bw_actions *actions)
{
    struct bw_lease_event dead = {.kind = BW_LEASE_WORK_DEAD, .now = now};
    c->dies_at = BW_TIME_NEVER;
    c->leads = c->dying = false;
    announce(c, now, c->reason, actions);
    feed(c, &dead, actions);
}

static void happen(struct candidate *c, const struct bw_lease_event *event,
                   struct bw_actions *actions)
{
    struct bw_lease_event prepared = {.kind = BW_LEASE_PREPARED, .now = event->now, .yes = true};
    if (feed(c, event, actions))
        feed(c, &prepared, actions);
    if (c->dying && event->now >= c->dies_at)
        confirm_dead(c, event->now, actions);
}

/* ---- answers ---- */

static void to_record(const struct candidate *c, const struct bw_sim_store_record *from,
                      struct bw_store_record *out)
{
    out->version = from->version;
    out->held = from->held;
    out->clean = from->clean || from->version == 0;
    out->proved_dead = from->held && c->dead && from->holder == c->dead &&
                       from->token == c->dead_token && from->token != BW_TOKEN_NONE;
    out->request = from->request;
    out->token = from->token;
    out->ttl_ns = from->ttl_ns;
    out->until_wall_ns = from->until_wall_ns;
    out->left_ns = BW_TIME_NEVER;
    if (from->holder)
        snprintf(out->holder, sizeof out->holder, "%u", from->holder);
    out->note.kind = (enum bw_note_kind)from->note;
    out->note.serial = from->note_serial;
    if (from->note_from)
        snprintf(out->note.from, sizeof out->note.from, "%u", from->note_from);
    if (from->note_to)
        snprintf(out->note.to, sizeof out->note.to, "%u", from->note_to);
}

void lease_answered(struct candidate *c, struct lease_waiting *waiting, enum bw_outcome outcome,
                    const struct bw_sim_store_record *record, bw_time now,
                    struct bw_actions *actions)
{
    struct bw_store_reply reply;
    memset(&reply, 0, sizeof reply);
    reply.id = waiting->id;
    reply.op = waiting->op;
    reply.outcome = outcome;
    waiting->id = 0;
    if (outcome == BW_OUTCOME_DONE || outcome == BW_OUTCOME_REFUSED) {
        c->last = *record;
        to_record(c, record, &reply.record);
    }
    struct bw_lease_event event = {.kind = BW_LEASE_ANSWER, .now = now, .answer = &reply};
    happen(c, &event, actions);
}

static bool is_redlock(const struct candidate *c)
{
    return c->host->lease->store == BW_SIM_STORE_REDLOCK;
}

static void on_answer(struct candidate *c, const struct bw_message *msg, bw_time now,
                      struct bw_actions *actions)
{
    struct bw_sim_store_answer answer;
    uint32_t store = msg->from - c->host->first;
    if (msg->items != sizeof answer || store >= c->host->count)
        return;
    memcpy(&answer, msg->data, sizeof answer);
    struct lease_waiting *waiting = answer.id ? find_waiting(c, answer.id) : NULL;
    if (!waiting)
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, msg->from, answer.op, 0);
    else if (is_redlock(c))
        lease_redlock_reply(c, waiting, store, &answer, now, actions);
    else
        lease_answered(c, waiting, (enum bw_outcome)answer.outcome, &answer.record, now, actions);
}

/* The transport reports that the request did not arrive, so it has no effect. */
static void on_failed(struct candidate *c, const struct bw_message *msg, bw_time now,
                      struct bw_actions *actions)
{
    struct bw_sim_store_ask sent;
    if (msg->kind != BW_MSG_STORE_ASK || msg->items != sizeof sent)
        return;
    memcpy(&sent, msg->data, sizeof sent);
    struct lease_waiting *waiting = sent.id ? find_waiting(c, sent.id) : NULL;
    if (waiting && is_redlock(c))
        lease_redlock_reply(c, waiting, msg->to - c->host->first, NULL, now, actions);
    else if (waiting)
        lease_answered(c, waiting, BW_OUTCOME_UNAVAILABLE, NULL, now, actions);
}

static void time_out(struct candidate *c, bw_time now, struct bw_actions *actions)
{
    for (uint32_t i = 0; i < LEASE_WAITING; i++) {
        struct lease_waiting *waiting = &c->waiting[i];
        if (!waiting->id || now < waiting->until)
            continue;
        if (is_redlock(c))
            lease_redlock_reply(c, waiting, c->host->count, NULL, now, actions);
        else
            lease_answered(c, waiting, BW_OUTCOME_UNKNOWN, NULL, now, actions);
    }
    if (c->dying && now >= c->dies_at)
        confirm_dead(c, now, actions);
    struct bw_lease_event event = {.kind = BW_LEASE_TIMEOUT, .now = now};
    if (bw_lease_deadline(c->lease) <= now)
        happen(c, &event, actions);
}

/* A guardian or a fencing agent has confirmed that the holder's work is dead: the record may be
 * taken. */
static void on_confirmed_dead(struct candidate *c, bw_node node, bw_time now,
                              struct bw_actions *actions)
{
    if (node == c->self || !c->last.held || c->last.holder != node)
        return;
    c->dead = node;
    c->dead_token = c->last.token;
    struct bw_sim_store_record record = c->last;
    for (uint32_t i = 0; i < LEASE_WAITING; i++)
        if (c->waiting[i].id && c->waiting[i].op == BW_STORE_WATCH) {
            lease_answered(c, &c->waiting[i], BW_OUTCOME_DONE, &record, now, actions);
            return;
        }
}

/* The connection to the store closed: the watch on it gets no reply. */
static void on_hint(struct candidate *c, bw_node node, bw_time now, struct bw_actions *actions)
{
    for (uint32_t i = 0; i < LEASE_WAITING && node >= c->host->first; i++)
        if (c->waiting[i].id && c->waiting[i].op == BW_STORE_WATCH) {
            lease_answered(c, &c->waiting[i], BW_OUTCOME_UNAVAILABLE, NULL, now, actions);
            return;
        }
}

static void on_command(struct candidate *c, const struct bw_command *command, bw_time now,
                       struct bw_actions *actions)
{
    char to[12];
    struct bw_lease_event event = {.kind = BW_LEASE_RESIGN, .now = now};
    snprintf(to, sizeof to, "%u", command->node);
    if (command->kind == BW_COMMAND_TRANSFER)
        event.to = to;
    else if (command->kind != BW_COMMAND_RESIGN)
        return; /* every candidate competes all the time */
    happen(c, &event, actions);
}

static void lease_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct candidate *c = self;
    struct bw_lease_event own = {.now = event->now};
    c->asks_count = 0;
    switch (event->kind) {
    case BW_EVENT_START:
        own.kind = BW_LEASE_START;
        happen(c, &own, actions);
        break;
    case BW_EVENT_STOP:
        own.kind = BW_LEASE_STOP;
        happen(c, &own, actions);
        break;
    case BW_EVENT_MESSAGE:
        if (event->msg->kind == BW_MSG_STORE_ANSWER)
            on_answer(c, event->msg, event->now, actions);
        break;
    case BW_EVENT_SEND_FAILED:
        on_failed(c, event->msg, event->now, actions);
        break;
    case BW_EVENT_TIMEOUT:
        time_out(c, event->now, actions);
        break;
    case BW_EVENT_CONFIRMED_DEAD:
        on_confirmed_dead(c, event->node, event->now, actions);
        break;
    case BW_EVENT_COMMAND:
        on_command(c, &event->command, event->now, actions);
        break;
    case BW_EVENT_HINT:
        on_hint(c, event->node, event->now, actions);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_TRUST:
    case BW_EVENT_PERSISTED:
    case BW_EVENT_JOIN:
    case BW_EVENT_LEAVE:
        break; /* only the store chooses the leader */
    }
}

static bw_time lease_deadline(const void *self)
{
    const struct candidate *c = self;
    bw_time next = bw_time_min(bw_lease_deadline(c->lease), c->dies_at);
    for (uint32_t i = 0; i < LEASE_WAITING; i++)
        if (c->waiting[i].id)
            next = bw_time_min(next, c->waiting[i].until);
    return next;
}

static void lease_status(const void *self, struct bw_elector_status *out)
{
    const struct candidate *c = self;
    struct bw_lease_status status;
    bw_lease_status(c->lease, &status);
    bw_node view = c->view == c->self ? BW_NODE_NONE : c->view;
    *out = (struct bw_elector_status){.leader = c->leads ? c->self : view,
                                      .leading = c->leads,
                                      .electing = !c->leads && !view,
                                      .term = c->leads ? c->token : c->view_token,
                                      .token = c->leads ? c->token : c->view_token,
                                      .act_until = c->leads ? c->act_until : 0,
                                      .state = status.state};
}

#define LEASE(text, kinds)                                                                         \
    {                                                                                              \
        .name = "lease", .promise = text, .traits = BW_TRAIT_OWN_TIMERS | (kinds),                 \
        .bytes = lease_bytes, .actions_max = lease_actions_max, .init = lease_init,                \
        .step = lease_step, .deadline = lease_deadline, .status = lease_status                     \
    }

static const struct bw_elector_ops ops[STORES] = {
    [BW_SIM_STORE_QUORUM] = LEASE("only a candidate that reaches the store leads; at most one may "
                                  "act at a time, and old tokens are rejected",
                                  BW_TRAIT_TOKEN),
    [BW_SIM_STORE_SINGLE] = LEASE("only a candidate that reaches the store leads, and none while "
                                  "it is down; at most one may act at a time",
                                  BW_TRAIT_TOKEN),
    [BW_SIM_STORE_FORGETFUL] = LEASE("a store that loses its newest writes may grant a lease "
                                     "twice, with the same token: two may act",
                                     BW_TRAIT_TOKEN | BW_TRAIT_MAY_SPLIT),
    [BW_SIM_STORE_REDLOCK] = LEASE("only a candidate that reaches a majority of the stores leads; "
                                   "no token, so a paused holder's late write is accepted",
                                   BW_TRAIT_MAY_SPLIT),
};

const struct bw_elector_ops *bw_sim_lease_ops(enum bw_sim_store store)
{
    return &ops[store];
}

bool bw_sim_is_lease(const struct bw_elector_ops *algorithm)
{
    return algorithm && algorithm->step == lease_step;
}

uint32_t bw_sim_stores(const struct bw_sim_config *config)
{
    if (!bw_sim_is_lease(config->algorithm))
        return 0;
    return config->lease.store == BW_SIM_STORE_REDLOCK ? BW_SIM_REDLOCK_STORES : 1;
}

/* Returns the longest latency of a message, including the time to persist its content. */
static bw_time longest_way(const struct bw_sim_config *config)
{
    const struct bw_sim_latency *latency = &config->latency;
    bw_time way = latency->max;
    if (latency->dist == BW_DIST_EXPONENTIAL)
        way = latency->min + 10 * (latency->max - latency->min);
    return (config->reorder > 0 ? 2 * way : way) + config->disk_max;
}

/* Adds up the gap: the last renewal may be in flight when its sender dies; then the other
 * candidates are notified, wait and ask. A slow clock waits longer. With Redlock candidates only
 * poll. */
bw_time bw_sim_lease_gap(const struct bw_sim_config *config)
{
    const struct bw_sim_lease *lease = &config->lease;
    double wait = (double)(lease->ttl_ns + lease->grace_ns);
    bw_time slow = (bw_time)(wait * config->drift / (1 - config->drift) + 0.5);
    bw_time polls = lease->store == BW_SIM_STORE_REDLOCK ? 2 * lease->retry_ns : 0;
    bw_time election = 4 * longest_way(config) + slow + polls;
    return bw_lease_gap_by_expiry(lease->ttl_ns, lease->grace_ns, election);
}

const struct bw_elector_ops *bw_sim_algorithm_at(unsigned i)
{
    const struct bw_elector_ops *elector = bw_elector_at(i);
    if (elector)
        return elector;
    if (i > 0 && bw_elector_at(i - 1))
        return &ops[BW_SIM_STORE_QUORUM];
    return i > 1 && bw_elector_at(i - 2) ? &bw_sim_registry_ops : NULL;
}

const struct bw_elector_ops *bw_sim_algorithm_find(const char *name)
{
    for (unsigned i = 0; bw_sim_algorithm_at(i); i++)
        if (strcmp(bw_sim_algorithm_at(i)->name, name) == 0)
            return bw_sim_algorithm_at(i);
    return NULL;
}
