/* Acquiring a lease: read, watch, wait, acquire; and what all files of the elector share.
 *
 * Model. The store keeps one record per election and compares versions. Answers may be late, lost
 * or duplicated. Clock rates are within 1 ± rho.
 *
 * Another holder's lease is over in any of these cases:
 * - The store reports it free, or proves the holder dead.
 * - On a store that keeps no time: the record was unchanged for a whole TTL plus the grace, on our
 *   own clock. The takeover compares the version, which proves that the record was unchanged in the
 *   store too.
 * - Both sides declared a clock bound, and the end in the record has certainly passed.
 *
 * If the answer to our own ACQUIRE is unknown, we look for its id in the record. If the id is
 * there, the lease counts from when the request was sent. On a store that extends the lease apart
 * from the record, we send RENEW first, and the lease counts from when that was sent. If the id is
 * not there, the request may still arrive later. A record with an old id of ours is released and
 * never used. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/lease/state.h"
#include "core/lease/wall_clock.h"

#include <string.h>

#define OWN_REQUESTS 0xffffffff00000000u

static const char *const state_names[] = {"idle",      "reading",    "waiting", "listing",
                                          "acquiring", "confirming", "holding", "stopping",
                                          "releasing", "stopped"};

static const char *const loss_names[] = {
    "kept",      "expired",     "taken",     "resigned", "transferred",
    "unhealthy", "unreachable", "shut-down", "finished", "predecessor-not-dead"};

const char *bw_lease_loss_name(enum bw_lease_loss loss)
{
    return (size_t)loss < sizeof loss_names / sizeof loss_names[0] ? loss_names[loss] : "unknown";
}

size_t bw_lease_bytes(void)
{
    return sizeof(struct bw_lease);
}

int bw_lease_init(struct bw_lease *l, const struct bw_lease_config *config)
{
    if (bw_lease_check(&config->terms) != BW_LEASE_RULE_NONE || config->retry_ns <= 0 ||
        config->grace_ns < 0 || strlen(config->candidate) > BW_CANDIDATE_ID_MAX ||
        strlen(config->election) > BW_ELECTION_NAME_MAX)
        return BW_EINVAL;
    memset(l, 0, sizeof *l);
    l->config = *config;
    bw_rng_init(&l->rng, config->seed);
    l->next_id = (bw_rng_next(&l->rng) & OWN_REQUESTS) | 1;
    l->act_at = l->prefer_at = BW_TIME_NEVER;
    return 0;
}

struct bw_lease_action *lease_act(struct bw_lease_actions *actions, enum bw_lease_action_kind kind)
{
    BW_ASSERT(actions->count < BW_LEASE_ACTIONS_MAX);
    struct bw_lease_action *action = &actions->at[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

bw_time lease_answer_timeout(const struct bw_lease *l)
{
    return l->config.terms.ttl_ns / 6;
}

/* The wall-clock end of a lease requested now; 0: not published. */
static bw_time wall_end(const struct bw_lease *l, enum bw_store_op op, bw_time now)
{
    bool lengthens = op == BW_STORE_ACQUIRE || op == BW_STORE_RENEW;
    return lengthens && l->wall_known ? bw_time_add(now + l->wall_ahead, l->config.terms.ttl_ns)
                                      : 0;
}

struct bw_store_request *lease_ask(struct bw_lease *l, struct lease_pending *pending,
                                   enum bw_store_op op, bw_time now,
                                   struct bw_lease_actions *actions)
{
    struct bw_lease_ask *ask = &lease_act(actions, BW_LEASE_ASK)->ask;
    ask->within_ns = lease_answer_timeout(l);
    if (op == BW_STORE_WATCH)
        ask->within_ns = l->config.terms.ttl_ns;
    else if (op == BW_STORE_READ) /* a READ can be repeated without losing anything */
        ask->within_ns = bw_time_min(ask->within_ns, l->config.retry_ns);
    ask->request = (struct bw_store_request){.op = op,
                                             .id = l->next_id++,
                                             .election = l->config.election,
                                             .candidate = l->config.candidate,
                                             .ttl_ns = l->config.terms.ttl_ns,
                                             .priority = l->config.priority,
                                             .until_wall_ns = wall_end(l, op, now)};
    if (pending)
        *pending = (struct lease_pending){.id = ask->request.id, .sent = now};
    return &ask->request;
}

bool lease_is_own_request(const struct bw_lease *l, uint64_t request)
{
    return (request & OWN_REQUESTS) == (l->next_id & OWN_REQUESTS);
}

void lease_watch(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if ((l->config.traits & BW_STORE_NOTIFIES) && l->watch.id == 0)
        lease_ask(l, &l->watch, BW_STORE_WATCH, now, actions)->version = l->seen.version;
}

/* Between half and the whole span, so that candidates do not ask at the same time. */
static bw_time jittered(struct bw_lease *l, bw_time span)
{
    return bw_rng_between(&l->rng, span / 2, span);
}

static void report_leader(struct bw_lease *l, struct bw_lease_actions *actions)
{
    struct bw_lease_action *action = lease_act(actions, BW_LEASE_LEADER);
    action->leader = l->seen.held ? l->seen.holder : "";
    action->value = l->seen.held ? l->seen.value : "";
    action->token = l->seen.held ? l->seen.token : BW_TOKEN_NONE;
}

/* Whether `record` is the one last seen, unchanged. The version alone is not enough: a store that
 * was deleted and created again restarts its versions, and may reach the same number under another
 * holder. */
static bool is_unchanged(const struct bw_lease *l, const struct bw_store_record *record)
{
    const struct bw_store_record *seen = &l->seen;
    if (record->version != seen->version || BW_BUG(lease_trusts_the_version_alone))
        return record->version == seen->version;
    return record->request == seen->request && record->token == seen->token &&
           record->held == seen->held && strcmp(record->holder, seen->holder) == 0;
}

bool lease_note_record(struct bw_lease *l, const struct bw_store_record *record, bw_time now,
                       struct bw_lease_actions *actions)
{
    bool unchanged = is_unchanged(l, record);
    if (unchanged && record->proved_dead == l->seen.proved_dead)
        return false;
    bool other = record->held != l->seen.held || record->token != l->seen.token ||
                 strcmp(record->holder, l->seen.holder) != 0 ||
                 strcmp(record->value, l->seen.value) != 0;
    if (!unchanged)
        l->seen_since = now;
    l->seen = *record;
    if (record->held && !lease_is_own_request(l, record->request))
        l->not_before = 0; /* another candidate has led since we stepped down */
    if (other)
        report_leader(l, actions);
    return true;
}

void lease_become_reading(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_READING;
    l->act_at = BW_TIME_NEVER;
    lease_ask(l, &l->main, BW_STORE_READ, now, actions);
}

void lease_become_stopped(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_STOPPED;
    l->act_at = BW_TIME_NEVER;
    l->main.id = l->watch.id = 0;
    lease_ask(l, NULL, BW_STORE_LEAVE, now, actions);
    lease_act(actions, BW_LEASE_STOPPED);
}

/* The record names a request of this process as its holder. */
static bool is_ours(const struct bw_lease *l)
{
    return l->seen.held && lease_is_own_request(l, l->seen.request);
}

/* Releases a record that is ours and that we never led with. */
static void release_seen(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->token = l->seen.token;
    bw_lease_plan(&l->schedule, &l->config.terms, now);
    lease_become_releasing(l, BW_LEASE_KEPT, now, actions);
}

/* Stops during a pause, while no answer is outstanding. If the record as last seen is ours, it is
 * released first: otherwise our successor would wait until it expires. */
static void stop_in_pause(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if (is_ours(l) && !BW_BUG(lease_stops_without_release))
        release_seen(l, now, actions);
    else
        lease_become_stopped(l, now, actions);
}

/* Reads again after a pause, because the store is unavailable or cannot notify. The pause counts
 * from the last request, so that a store that is back is asked within one retry interval. */
static void become_pausing(struct bw_lease *l, bw_time asked, bw_time now,
                           struct bw_lease_actions *actions)
{
    l->main.id = 0;
    if (l->stopping) {
        stop_in_pause(l, now, actions);
        return;
    }
    l->state = LEASE_WAITING;
    l->act_at = bw_time_max(now, bw_time_add(asked, jittered(l, l->config.retry_ns)));
}

static void become_acquiring(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_ACQUIRING;
    l->act_at = BW_TIME_NEVER;
    memcpy(l->previous, l->seen.holder, sizeof l->previous);
    memcpy(l->previous_containment, l->seen.containment, sizeof l->previous_containment);
    l->previous_clean = !l->seen.held && l->seen.clean;
    struct bw_store_request *request = lease_ask(l, &l->main, BW_STORE_ACQUIRE, now, actions);
    l->acquire = l->main;
    l->queued = true; /* an ACQUIRE is at least a place in the queue */
    l->yielded = false;
    request->value = l->config.value;
    request->steal = l->seen.held ? l->seen.version : 0;
    if (l->seen.held && !BW_BUG(lease_trusts_the_version_alone))
        request->steal_request = l->seen.request;
}

static void become_listing(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_LISTING;
    l->act_at = BW_TIME_NEVER;
    lease_ask(l, &l->main, BW_STORE_LIST, now, actions);
}

/* The time on our clock at which another holder's lease has certainly ended, by the wall-clock end
 * that the holder declared. NEVER: it declared none. */
static bw_time wall_steal_at(const struct bw_lease *l)
{
    if (!l->wall_known || l->seen.until_wall_ns <= 0)
        return BW_TIME_NEVER;
    bw_time at = bw_time_add(l->seen.until_wall_ns, l->config.grace_ns);
    at = bw_time_add(at, l->config.terms.uncertainty_ns + 1);
    if (at == BW_TIME_NEVER)
        return at;
    return l->wall_ahead >= 0 ? at - l->wall_ahead : bw_time_add(at, -l->wall_ahead);
}

/* Whether the declared end has certainly passed. */
static bool over_by_wall(const struct bw_lease *l, bw_time now)
{
    if (wall_steal_at(l) == BW_TIME_NEVER)
        return false;
    struct bw_clock_interval wall =
        bw_clock_interval_at(now + l->wall_ahead, l->config.terms.uncertainty_ns);
    return bw_clock_successor_may_start(wall,
                                        bw_time_add(l->seen.until_wall_ns, l->config.grace_ns));
}

/* When another holder's lease is over by our own observation. */
static bw_time watched_until(const struct bw_lease *l)
{
    if (BW_BUG(lease_steals_too_early))
        return bw_time_add(l->seen_since, l->config.grace_ns);
    bw_time ttl = bw_time_max(l->seen.ttl_ns, l->config.terms.ttl_ns);
    return bw_time_add(bw_time_add(l->seen_since, ttl), l->config.grace_ns);
}

/* When we may steal the lease; BW_TIME_NEVER where the store decides. */
static bw_time steal_at(const struct bw_lease *l)
{
    if (!(l->config.traits & BW_STORE_OBSERVED))
        return BW_TIME_NEVER;
    return bw_time_min(watched_until(l), wall_steal_at(l));
}

static bool may_steal(const struct bw_lease *l, bw_time now)
{
    return (l->config.traits & BW_STORE_OBSERVED) &&
           (now >= watched_until(l) || over_by_wall(l, now));
}

/* When to retry after a failed cleanup; 0: another candidate has settled it. */
static bw_time cleanup_pause(const struct bw_lease *l)
{
    bool settled = !l->seen.held && l->seen.clean;
    return settled ? 0 : l->cleanup_at;
}

/* The lease is free: until when we yield to others, after a voluntary step-down or to the successor
 * of a transfer. */
static bw_time yield_until(const struct bw_lease *l, bw_time now)
{
    bw_time at = bw_time_max(l->not_before, now);
    if (lease_yields(l, now))
        at = bw_time_max(at, bw_time_add(l->seen_since, l->config.retry_ns));
    return at;
}

static bool may_lead(const struct bw_lease *l)
{
    return !l->unhealthy && !l->config.observer;
}

/* Whether a preferred candidate sends no note to the holder. */
static bool sends_no_note(const struct bw_lease *l)
{
    bool server_expires = !(l->config.traits & BW_STORE_OBSERVED);
    return !(l->config.traits & BW_STORE_NOTES) ||
           (server_expires && BW_BUG(lease_prefers_only_what_it_can_take));
}

static void become_waiting(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_WAITING;
    l->main.id = 0;
    l->act_at = l->seen.held ? steal_at(l) : yield_until(l, now);
    l->act_at = bw_time_max(l->act_at, cleanup_pause(l));
    if (!may_lead(l))
        l->act_at = BW_TIME_NEVER;
    if (l->config.preferred && l->seen.held && may_lead(l) && !sends_no_note(l)) {
        if (l->prefer_at == BW_TIME_NEVER)
            l->prefer_at = bw_time_add(now, l->config.terms.ttl_ns);
        l->act_at = bw_time_min(l->act_at, l->prefer_at);
    }
    if (!(l->config.traits & BW_STORE_NOTIFIES))
        l->act_at = bw_time_min(l->act_at, now + jittered(l, l->config.retry_ns));
    lease_update_queue(l, now, actions);
    lease_register(l, now, actions);
    lease_watch(l, now, actions);
}

static bool may_contend(const struct bw_lease *l, bw_time now)
{
    return may_lead(l) && BW_ALWAYS(!l->stopping) && now >= l->not_before &&
           now >= cleanup_pause(l) && !lease_yields(l, now);
}

/* The record is ours but unused: an ACQUIRE whose answer was lost long ago. If the record is still
 * there after a release, the store does not accept the release: retry after a pause. */
static void release_unused(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    bool again = l->released_unused == l->seen.request && !BW_BUG(lease_releases_without_pause);
    l->released_unused = again ? 0 : l->seen.request;
    if (again) {
        become_pausing(l, now, now, actions);
        return;
    }
    release_seen(l, now, actions);
}

/* Whether the record allows a takeover. */
static bool is_over(const struct bw_lease *l, bw_time now)
{
    return !l->seen.held || l->seen.proved_dead || may_steal(l, now);
}

/* The record names our ACQUIRE, whose answer was lost. Where the lease is extended apart from the
 * record, only the answer to a RENEW proves that our lease has time left. */
static void become_confirming(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_CONFIRMING;
    l->act_at = BW_TIME_NEVER;
    lease_ask(l, &l->main, BW_STORE_RENEW, now, actions)->token = l->seen.token;
}

static void on_granted_unanswered(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    bool apart = l->config.traits & BW_STORE_LEASE_APART;
    if (apart && !l->stopping && !l->unhealthy && !BW_BUG(lease_leads_without_time_left))
        become_confirming(l, now, actions);
    else
        lease_become_holding(l, &l->seen, l->acquire.sent, now, actions);
}

static void on_confirm_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time sent,
                              bw_time now, struct bw_lease_actions *actions)
{
    if (reply->outcome == BW_OUTCOME_DONE)
        lease_become_holding(l, &reply->record, sent, now, actions);
    else if (l->stopping)
        lease_become_reading(l, now, actions); /* if the record is still ours, release it */
    else
        become_pausing(l, sent, now, actions);
}

/* Decides the next step, with the record known. */
static void decide(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    bool over = is_over(l, now);
    bool ours = is_ours(l);
    lease_check_duplicate(l, now, actions);
    if (ours && l->seen.request == l->acquire.id) /* granted, and the answer was lost */
        on_granted_unanswered(l, now, actions);
    else if (ours)
        release_unused(l, now, actions);
    else if (l->stopping)
        lease_become_stopped(l, now, actions);
    else if (!over || !may_contend(l, now))
        become_waiting(l, now, actions);
    else if (l->config.priority != 0 && (l->config.traits & BW_STORE_LISTS))
        become_listing(l, now, actions);
    else
        become_acquiring(l, now, actions);
}

/* Yields for one retry interval if a candidate with a higher priority exists. */
static void on_list(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                    struct bw_lease_actions *actions)
{
    for (uint32_t i = 0; i < reply->count; i++)
        if (reply->candidates[i].priority > l->config.priority) {
            l->not_before = now + l->config.retry_ns;
            become_waiting(l, now, actions);
            l->act_at = l->not_before;
            return;
        }
    become_acquiring(l, now, actions);
}

static void on_acquire_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time sent,
                              bw_time now, struct bw_lease_actions *actions)
{
    if (reply->outcome == BW_OUTCOME_DONE) {
        lease_become_holding(l, &reply->record, sent, now, actions);
    } else if (reply->outcome == BW_OUTCOME_REFUSED) {
        /* The record that refused us is one that we have just judged free. Asking again at once
         * would loop. */
        bool changed = lease_note_record(l, &reply->record, now, actions);
        if (!changed && is_over(l, now) && !BW_BUG(lease_asks_again_at_once))
            become_pausing(l, sent, now, actions);
        else
            decide(l, now, actions);
    } else if (reply->outcome == BW_OUTCOME_UNKNOWN && !BW_BUG(lease_takes_unknown_for_no)) {
        l->queued = false; /* requested again if needed; a candidate that has a place keeps it */
        lease_become_reading(l, now, actions); /* it may have been granted: look for its id */
    } else {
        l->queued = false;
        become_pausing(l, l->main.sent, now, actions);
    }
}

static void on_read_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                           struct bw_lease_actions *actions)
{
    if (reply->outcome != BW_OUTCOME_DONE) {
        become_pausing(l, l->main.sent, now, actions);
        return;
    }
    lease_note_record(l, &reply->record, now, actions);
    lease_on_note(l, now, actions);
    decide(l, now, actions);
}

static void on_main_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                           struct bw_lease_actions *actions)
{
    bw_time sent = l->main.sent;
    l->main.id = 0;
    if (l->state == LEASE_ACQUIRING)
        on_acquire_answer(l, reply, sent, now, actions);
    else if (l->state == LEASE_CONFIRMING)
        on_confirm_answer(l, reply, sent, now, actions);
    else if (l->state == LEASE_LISTING && reply->outcome == BW_OUTCOME_DONE)
        on_list(l, reply, now, actions);
    else if (l->state == LEASE_LISTING)
        become_pausing(l, l->main.sent, now, actions);
    else
        on_read_answer(l, reply, now, actions);
}

/* The watched record of a holder is gone or is not its own, for example because the database was
 * replaced. */
static bool may_be_lost(const struct bw_lease *l, const struct bw_store_reply *reply)
{
    const struct bw_store_record *record = &reply->record;
    if (reply->outcome == BW_OUTCOME_UNAVAILABLE)
        return true;
    return reply->outcome == BW_OUTCOME_DONE && (!record->held || record->token != l->token);
}

static void on_watch_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                            struct bw_lease_actions *actions)
{
    l->watch.id = 0;
    if (reply->outcome == BW_OUTCOME_DONE) {
        lease_note_record(l, &reply->record, now, actions);
        lease_on_note(l, now, actions);
    }
    if (l->state == LEASE_WAITING && reply->outcome == BW_OUTCOME_DONE)
        decide(l, now, actions);
    else if (l->state == LEASE_WAITING && reply->outcome == BW_OUTCOME_UNAVAILABLE)
        become_pausing(l, now, now, actions);
    else if (l->state == LEASE_WAITING)
        lease_become_reading(l, now, actions);
    else if (l->state == LEASE_HOLDING && reply->record.held && reply->record.token > l->token)
        lease_become_stopping(l, BW_LEASE_TAKEN, now, actions);
    else if (l->state == LEASE_HOLDING && may_be_lost(l, reply))
        lease_renew_soon(l, now);
    /* A holder restarts a watch that ended; after UNAVAILABLE, the next renewal restarts it. A
     * holder that steps down does not: its release would have to wait for the watch's read. */
    bool again = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_UNKNOWN;
    if (l->state == LEASE_HOLDING && again)
        lease_watch(l, now, actions);
}

static void on_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                      struct bw_lease_actions *actions)
{
    if (reply->id == 0 || lease_on_enter_answer(l, reply, actions))
        return;
    if (reply->id == l->watch.id)
        on_watch_answer(l, reply, now, actions);
    else if (l->state >= LEASE_HOLDING)
        lease_on_hold_answer(l, reply, now, actions);
    else if (reply->id == l->main.id)
        on_main_answer(l, reply, now, actions);
}

static void on_timeout(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if (l->state >= LEASE_HOLDING)
        lease_on_hold_timeout(l, now, actions);
    else if (l->state == LEASE_WAITING && now >= l->act_at && l->seen.held && may_steal(l, now) &&
             may_contend(l, now))
        become_acquiring(l, now, actions);
    else if (l->state == LEASE_WAITING && now >= l->act_at) {
        if (now >= l->prefer_at && may_lead(l))
            lease_request_handover(l, now, actions);
        lease_become_reading(l, now, actions);
    }
}

static void on_health(struct bw_lease *l, bool healthy, bw_time now,
                      struct bw_lease_actions *actions)
{
    bool was = !l->unhealthy;
    l->unhealthy = !healthy;
    if (was == healthy)
        return;
    if (!healthy && l->state == LEASE_HOLDING)
        lease_become_stopping(l, BW_LEASE_UNHEALTHY, now, actions);
    else if (healthy && l->state == LEASE_WAITING)
        lease_become_reading(l, now, actions);
    else if (l->state == LEASE_WAITING)
        lease_update_queue(l, now, actions);
}

static void on_stop(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->stopping = true;
    if (l->state == LEASE_HOLDING)
        lease_become_stopping(l, BW_LEASE_SHUT_DOWN, now, actions);
    else if (l->state == LEASE_IDLE || l->state == LEASE_WAITING || l->state == LEASE_LISTING)
        stop_in_pause(l, now, actions);
    /* In other states an answer is outstanding; it decides whether there is a lease to release. */
}

static void on_start(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    bool fit = !l->unhealthy || !(l->config.traits & BW_STORE_QUEUE);
    if (!l->config.observer && fit && (l->config.traits & BW_STORE_LISTS))
        lease_enter(l, now, actions);
    lease_become_reading(l, now, actions);
}

static void on_resign(struct bw_lease *l, const struct bw_lease_event *event,
                      struct bw_lease_actions *actions)
{
    if (l->state != LEASE_HOLDING)
        return;
    if (event->to && event->to[0])
        lease_begin_transfer(l, event->to, event->now, actions);
    else
        lease_become_stopping(l, BW_LEASE_RESIGNED, event->now, actions);
}

void bw_lease_step(struct bw_lease *l, const struct bw_lease_event *event,
                   struct bw_lease_actions *actions)
{
    if (l->state == LEASE_STOPPED)
        return;
    l->wall_known = event->wall > 0 && l->config.terms.uncertainty_ns > 0;
    l->wall_ahead = l->wall_known ? event->wall - event->now : 0;
    switch (event->kind) {
    case BW_LEASE_START:
        if (l->state == LEASE_IDLE)
            on_start(l, event->now, actions);
        break;
    case BW_LEASE_ANSWER:
        on_answer(l, event->answer, event->now, actions);
        break;
    case BW_LEASE_TIMEOUT:
        on_timeout(l, event->now, actions);
        break;
    case BW_LEASE_WORK_DEAD:
        if (l->state == LEASE_HOLDING)
            lease_become_releasing(l, BW_LEASE_FINISHED, event->now, actions);
        else if (l->state == LEASE_STOPPING)
            lease_become_releasing(l, l->reason, event->now, actions);
        break;
    case BW_LEASE_HEALTH:
        on_health(l, event->yes, event->now, actions);
        break;
    case BW_LEASE_PREPARED:
        lease_on_prepared(l, event->yes, event->now, actions);
        break;
    case BW_LEASE_RESIGN:
        on_resign(l, event, actions);
        break;
    case BW_LEASE_STOP:
        on_stop(l, event->now, actions);
        break;
    case BW_LEASE_CLEANUP_FAILED:
        if (l->state == LEASE_HOLDING)
            lease_become_stopping(l, BW_LEASE_PREDECESSOR_NOT_DEAD, event->now, actions);
        break;
    }
}

bw_time bw_lease_deadline(const struct bw_lease *l)
{
    return l->state >= LEASE_HOLDING ? lease_hold_deadline(l) : l->act_at;
}

void bw_lease_status(const struct bw_lease *l, struct bw_lease_status *out)
{
    bool leading = l->state == LEASE_HOLDING || l->state == LEASE_STOPPING;
    *out = (struct bw_lease_status){.state = state_names[l->state],
                                    .leader = leading        ? l->config.candidate
                                              : l->seen.held ? l->seen.holder
                                                             : "",
                                    .value = leading        ? l->config.value
                                             : l->seen.held ? l->seen.value
                                                            : "",
                                    .token = leading        ? l->token
                                             : l->seen.held ? l->seen.token
                                                            : BW_TOKEN_NONE,
                                    .leading = l->state == LEASE_HOLDING,
                                    .valid_until = leading ? l->schedule.end : 0,
                                    .last_loss = l->last_loss,
                                    .deadline_loss = lease_loss_at_the_deadline(l)};
}
