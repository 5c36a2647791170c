/* Holding a lease: renew it, step down in time, release it after the work is dead.
 *
 * Schedule (lease_deadline.h): a renewal at T/3 and a second try at T/2, each awaited for T/6. If
 * both stay unanswered, the work gets SIGTERM at `term` and SIGKILL at `kill`.
 *
 * Every renewal has its own id, so an answer counts from its own sending time. A late answer never
 * shortens the window. Renewals continue while the work is ending, so that no other candidate takes
 * over meanwhile. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/lease/state.h"

#include <string.h>

static bool pending_renewal(const struct bw_lease *l)
{
    return l->renew[0].id || l->renew[1].id;
}

enum bw_lease_loss lease_loss_at_the_deadline(const struct bw_lease *l)
{
    return l->unreachable || pending_renewal(l) ? BW_LEASE_UNREACHABLE : BW_LEASE_EXPIRED;
}

static void plan(struct bw_lease *l, bw_time sent)
{
    bw_lease_plan(&l->schedule, &l->config.terms, sent);
    if (l->config.renew_ns > 0)
        l->schedule.renew = bw_time_min(l->schedule.renew, bw_time_add(sent, l->config.renew_ns));
}

/* Why the work is not started at all. */
static enum bw_lease_loss too_late(const struct bw_lease *l)
{
    if (l->stopping)
        return BW_LEASE_SHUT_DOWN;
    return l->unhealthy ? BW_LEASE_UNHEALTHY : BW_LEASE_EXPIRED;
}

void lease_become_holding(struct bw_lease *l, const struct bw_store_record *record, bw_time sent,
                          bw_time now, struct bw_lease_actions *actions)
{
    l->state = LEASE_HOLDING;
    l->token = record->token;
    l->renewed_once = l->unreachable = false;
    l->successor[0] = 0;
    l->successor_until = l->prefer_at = BW_TIME_NEVER;
    l->reason = BW_LEASE_KEPT;
    memset(l->renew, 0, sizeof l->renew);
    plan(l, BW_BUG(lease_counts_from_reply) ? now : sent);
    lease_note_record(l, record, now, actions);
    l->note_seen = record->note.serial; /* notes up to here were meant for the previous holder */
    if (now >= l->schedule.term || l->stopping || l->unhealthy) {
        lease_become_releasing(l, too_late(l), now, actions);
        return;
    }
    struct bw_lease_action *action = lease_act(actions, BW_LEASE_ELECTED);
    action->token = l->token;
    action->schedule = l->schedule;
    action->previous = l->previous;
    action->previous_containment = l->previous_containment;
    action->previous_clean = l->previous_clean;
    action->unconfirmed = l->seen.unconfirmed;
    lease_watch(l, now, actions);
}

static void ask_release(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    struct bw_store_request *request = lease_ask(l, &l->main, BW_STORE_RELEASE, now, actions);
    request->token = l->token;
    request->clean = true;
    l->act_at = BW_TIME_NEVER;
}

void lease_become_stopping(struct bw_lease *l, enum bw_lease_loss reason, bw_time now,
                           struct bw_lease_actions *actions)
{
    l->state = LEASE_STOPPING;
    l->reason = l->last_loss = reason;
    bw_time kill = bw_time_add(now, l->config.terms.kill_after_ns);
    l->schedule.kill = bw_time_min(l->schedule.kill, kill);
    struct bw_lease_action *action = lease_act(actions, BW_LEASE_STEP_DOWN);
    action->reason = reason;
    action->token = l->token;
    action->schedule = l->schedule;
    if (BW_BUG(lease_releases_before_death))
        ask_release(l, now, actions);
}

/* Every try costs a token and a fencing attempt: the pause doubles, up to 64 retry intervals. */
static void count_failed_cleanup(struct bw_lease *l, bw_time now)
{
    if (l->reason != BW_LEASE_PREDECESSOR_NOT_DEAD) {
        l->failed_cleanups = 0;
        l->cleanup_at = 0;
        return;
    }
    l->failed_cleanups += l->failed_cleanups < 6;
    l->cleanup_at = bw_time_add(now, l->config.retry_ns * ((bw_time)1 << l->failed_cleanups));
}

/* The lease is released, or was no longer ours. */
static void become_released(struct bw_lease *l, enum bw_lease_end end, bw_time now,
                            struct bw_lease_actions *actions)
{
    struct bw_lease_action *action = lease_act(actions, BW_LEASE_RELEASED);
    action->reason = l->reason;
    action->end = end;
    action->token = l->token;
    l->token = BW_TOKEN_NONE;
    bool voluntary = l->reason == BW_LEASE_RESIGNED || l->reason == BW_LEASE_TRANSFERRED;
    count_failed_cleanup(l, now);
    if (voluntary)
        l->not_before = bw_time_add(now, l->config.retry_ns);
    if (l->stopping)
        lease_become_stopped(l, now, actions);
    else
        lease_become_reading(l, now, actions);
}

void lease_become_releasing(struct bw_lease *l, enum bw_lease_loss reason, bw_time now,
                            struct bw_lease_actions *actions)
{
    bool taken = reason == BW_LEASE_TAKEN && !(l->config.traits & BW_STORE_LATE_RELEASE);
    l->state = LEASE_RELEASING;
    l->reason = reason;
    if (reason != BW_LEASE_KEPT)
        l->last_loss = reason;
    memset(l->renew, 0, sizeof l->renew);
    if (!BW_BUG(lease_revived_by_late_answer))
        l->acquire.id = 0; /* an answer from before the release must not make us holder again */
    l->queued = false;
    if (taken)
        become_released(l, BW_LEASE_END_LOST, now, actions);
    else
        ask_release(l, now, actions);
}

static void on_release_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                              struct bw_lease_actions *actions)
{
    bool done = reply->outcome == BW_OUTCOME_DONE;
    bool answered = done || reply->outcome == BW_OUTCOME_REFUSED;
    enum bw_lease_end end = done       ? BW_LEASE_END_RELEASED
                            : answered ? BW_LEASE_END_LOST
                                       : BW_LEASE_END_UNANSWERED;
    l->main.id = 0;
    if (answered)
        lease_note_record(l, &reply->record, now, actions);
    if (answered || now >= l->schedule.end)
        become_released(l, end, now, actions);
    else
        l->act_at = bw_time_min(now + l->config.retry_ns / 4, l->schedule.end);
}

static void send_renewal(struct bw_lease *l, unsigned which, bw_time now,
                         struct bw_lease_actions *actions)
{
    lease_ask(l, &l->renew[which], BW_STORE_RENEW, now, actions)->token = l->token;
}

static void on_renewed(struct bw_lease *l, const struct bw_store_reply *reply, bw_time sent,
                       bw_time now, struct bw_lease_actions *actions)
{
    struct bw_lease_schedule before = l->schedule;
    l->unreachable = false;
    lease_note_record(l, &reply->record, now, actions);
    plan(l, BW_BUG(lease_late_answer_extends) ? now : sent);
    if (l->schedule.end <= before.end) {
        l->schedule = before;
        return;
    }
    l->renewed_once = false;
    memset(l->renew, 0, sizeof l->renew);
    if (l->state == LEASE_STOPPING)
        l->schedule.kill = before.kill; /* more time for our cleanup, none for the work */
    struct bw_lease_action *action = lease_act(actions, BW_LEASE_EXTENDED);
    action->schedule = l->schedule;
    action->token = l->token;
    if (l->state == LEASE_HOLDING) {
        lease_register(l, now, actions);
        lease_watch(l, now, actions);
    }
}

/* The first missed renewal is retried at once, later ones after a pause, until `term`. */
static void on_renewal_missed(struct bw_lease *l, bw_time now)
{
    l->unreachable = true;
    if (!pending_renewal(l))
        l->schedule.renew = l->renewed_once ? now + l->config.terms.ttl_ns / 24 : now;
    l->renewed_once = true;
}

static void on_renew_answer(struct bw_lease *l, struct lease_pending *pending,
                            const struct bw_store_reply *reply, bw_time now,
                            struct bw_lease_actions *actions)
{
    bw_time sent = pending->sent;
    pending->id = 0;
    if (reply->outcome == BW_OUTCOME_DONE) {
        on_renewed(l, reply, sent, now, actions);
    } else if (reply->outcome == BW_OUTCOME_REFUSED && !BW_BUG(lease_ignores_refusal)) {
        lease_note_record(l, &reply->record, now, actions);
        if (l->state == LEASE_HOLDING)
            lease_become_stopping(l, BW_LEASE_TAKEN, now, actions);
        l->reason = BW_LEASE_TAKEN;
    } else {
        on_renewal_missed(l, now);
    }
    if (l->state == LEASE_HOLDING)
        lease_on_note(l, now, actions);
}

bool lease_on_hold_answer(struct bw_lease *l, const struct bw_store_reply *reply, bw_time now,
                          struct bw_lease_actions *actions)
{
    for (unsigned i = 0; i < LEASE_RENEWALS; i++)
        if (reply->id == l->renew[i].id) {
            on_renew_answer(l, &l->renew[i], reply, now, actions);
            return true;
        }
    if (reply->id != l->main.id || BW_NEVER(l->state != LEASE_RELEASING))
        return false;
    on_release_answer(l, reply, now, actions);
    return true;
}

/* Sends the renewal, or the second try while the first is unanswered. */
static void try_renew(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if (!pending_renewal(l) && now >= l->schedule.renew)
        send_renewal(l, 0, now, actions);
    else if (l->renew[0].id && !l->renew[1].id && !l->renewed_once && now >= l->schedule.retry) {
        l->renewed_once = true;
        send_renewal(l, 1, now, actions);
    }
}

void lease_on_hold_timeout(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if (l->state == LEASE_RELEASING) {
        if (l->main.id == 0 && now >= l->schedule.end)
            become_released(l, BW_LEASE_END_UNANSWERED, now, actions);
        else if (l->main.id == 0 && now >= l->act_at)
            ask_release(l, now, actions);
        return;
    }
    if (l->state == LEASE_HOLDING && now >= l->schedule.term)
        lease_become_stopping(l, lease_loss_at_the_deadline(l), now, actions);
    if (l->state == LEASE_HOLDING && now >= l->successor_until) {
        l->successor[0] = 0; /* no answer to PREPARE: the transfer is cancelled, we stay */
        l->successor_until = BW_TIME_NEVER;
    }
    if (l->reason != BW_LEASE_TAKEN || BW_NEVER(l->state == LEASE_HOLDING))
        try_renew(l, now, actions);
}

void lease_renew_soon(struct bw_lease *l, bw_time now)
{
    bw_time ttl = l->config.terms.ttl_ns;
    bw_time sent = l->schedule.retry - ttl / 2;
    /* A watch that always fails must not cause requests without pause. */
    bw_time soon = bw_time_max(now, bw_time_add(sent, ttl / 24));
    l->schedule.renew = bw_time_min(l->schedule.renew, soon);
}

/* After a failed try the next one waits, so that an unavailable store is not overloaded. */
static bw_time next_try(const struct bw_lease *l)
{
    if (l->renew[0].id)
        return l->renew[1].id || l->renewed_once ? BW_TIME_NEVER : l->schedule.retry;
    if (l->renew[1].id)
        return BW_TIME_NEVER;
    return l->schedule.renew;
}

bw_time lease_hold_deadline(const struct bw_lease *l)
{
    if (l->state == LEASE_STOPPED)
        return BW_TIME_NEVER;
    if (l->state == LEASE_RELEASING)
        return l->main.id ? BW_TIME_NEVER : bw_time_min(l->act_at, l->schedule.end);
    bw_time next = l->reason == BW_LEASE_TAKEN && BW_ALWAYS(l->state == LEASE_STOPPING)
                       ? BW_TIME_NEVER
                       : next_try(l);
    if (l->state == LEASE_STOPPING)
        return next;
    return bw_time_min(bw_time_min(next, l->schedule.term), l->successor_until);
}
