/* Carries out the elector's actions on the library's thread.
 *
 * The order of steps makes this safe:
 * - Elected: kill the work that earlier holders left running, then arm the kernel timers, then
 *   notify the program.
 * - Lost: clear the atomics that bw_is_leader reads and set the cancel token, then call the
 *   callback.
 * - Released: only by bw_lib_work_ended and bw_lib_end, that is, after the program has declared
 *   its work ended, or if the program was never notified of this leadership. */
#include "lib/lib.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>

#define CLEANUP_POLL_NS BW_MS

bool bw_lib_led(const struct bw_leadership *l)
{
    return l->stage == STAGE_LEADING || l->stage == STAGE_LOST;
}

static void lock(struct bw_leadership *l)
{
    pthread_mutex_lock(&l->handle->mutex);
}

static void unlock_changed(struct bw_leadership *l)
{
    pthread_cond_broadcast(&l->handle->changed);
    pthread_mutex_unlock(&l->handle->mutex);
}

/* ---- elected ---- */

static void publish_window(struct bw_leadership *l)
{
    bw_lib_deadline_set(l);
    atomic_store(&l->work_until, l->schedule.kill);
    atomic_store(&l->act_until, l->schedule.term);
}

static void become_leading(struct bw_leadership *l)
{
    l->settled = true;
    lock(l);
    l->stage = STAGE_LEADING;
    l->reason = BW_LOSS_NONE;
    atomic_store(&l->token, l->granted);
    publish_window(l);
    if (l->way == WAY_CALLBACKS)
        bw_lib_queue_event(l, EVENT_ELECTED);
    unlock_changed(l);
}

static void end_cleanup(struct bw_leadership *l)
{
    free(l->cleanup);
    l->cleanup = NULL;
}

static void cleanup_step(struct bw_leadership *l, bw_time now)
{
    switch (bw_lib_cleanup_step(l->cleanup, now)) {
    case CLEANUP_BUSY:
        bw_asker_client_alarm(l->asked, now + CLEANUP_POLL_NS);
        break;
    case CLEANUP_DONE:
        end_cleanup(l);
        become_leading(l);
        break;
    /* a candidate with more rights may succeed; the record keeps the work as unconfirmed */
    case CLEANUP_FAILED:
        end_cleanup(l);
        bw_asker_client_step(l->asked, BW_LEASE_CLEANUP_FAILED, false);
        break;
    }
}

static void on_elected(struct bw_leadership *l, const struct bw_lease_action *action)
{
    const char *left = action->previous_clean ? "" : action->previous_containment;
    l->granted = action->token;
    l->schedule = action->schedule;
    l->settled = l->voluntary = false;
    if (!action->unconfirmed[0] && !left[0]) {
        become_leading(l);
        return;
    }
    bw_time now = bw_clock_boot();
    l->cleanup = bw_lib_cleanup_begin(action->unconfirmed, action->previous, left,
                                      now + l->settings.terms.ttl_ns / 6);
    if (l->cleanup)
        cleanup_step(l, now);
    else
        bw_asker_client_step(l->asked, BW_LEASE_CLEANUP_FAILED, false);
}

static void on_extended(struct bw_leadership *l, const struct bw_lease_action *action)
{
    l->schedule = action->schedule;
    if (l->stage == STAGE_LEADING)
        publish_window(l);
}

/* ---- lost and released ---- */

static void on_step_down(struct bw_leadership *l, const struct bw_lease_action *action)
{
    l->schedule = action->schedule;
    if (l->stage != STAGE_LEADING) { /* the program was not notified of this leadership */
        end_cleanup(l);
        bw_asker_client_alarm(l->asked, BW_TIME_NEVER);
        bw_asker_client_step(l->asked, BW_LEASE_WORK_DEAD, false);
        return;
    }
    lock(l);
    l->stage = STAGE_LOST;
    l->reason = (enum bw_loss)action->reason;
    atomic_store(&l->act_until, 0);
    atomic_store(&l->work_until, l->schedule.kill);
    bw_lib_deadline_set(l);
    bw_lib_deadline_cancel(l);
    if (!l->voluntary && l->way != WAY_TASK)
        bw_lib_queue_event(l, EVENT_LOST);
    unlock_changed(l);
    if (l->aborts)
        bw_asker_client_alarm(l->asked, l->schedule.kill);
}

/* No work of this leadership runs any more, so no deadline has to be enforced. */
static void become_idle(struct bw_leadership *l)
{
    bw_lib_deadline_clear(l);
    bw_asker_client_alarm(l->asked, BW_TIME_NEVER);
    lock(l);
    l->stage = STAGE_CONTENDING;
    atomic_store(&l->act_until, 0);
    atomic_store(&l->work_until, 0);
    atomic_store(&l->token, BW_TOKEN_NONE);
    bw_lib_drop_event(l, EVENT_ELECTED | EVENT_LOST);
    unlock_changed(l);
}

void bw_lib_work_ended(struct bw_leadership *l)
{
    if (!bw_lib_led(l))
        return;
    l->voluntary = true;
    if (l->stage == STAGE_LEADING)
        bw_asker_client_step(l->asked, BW_LEASE_RESIGN, false);
    become_idle(l);
    bw_asker_client_step(l->asked, BW_LEASE_WORK_DEAD, false);
}

void bw_lib_end(struct bw_leadership *l)
{
    if (l->ending || l->stage == STAGE_GONE)
        return;
    l->ending = l->voluntary = true;
    if (bw_lib_led(l)) {
        become_idle(l);
        bw_asker_client_step(l->asked, BW_LEASE_WORK_DEAD, false);
    }
    bw_asker_client_step(l->asked, BW_LEASE_STOP, false);
}

static void on_leader(struct bw_leadership *l, const struct bw_lease_action *action)
{
    lock(l);
    strncpy(l->leader, action->leader, sizeof l->leader - 1);
    strncpy(l->leader_value, action->value, sizeof l->leader_value - 1);
    l->leader_token = action->token;
    bw_lib_queue_event(l, EVENT_LEADER);
    unlock_changed(l);
}

/* A program without a `prepare` callback is always ready. */
static void on_prepare(struct bw_leadership *l)
{
    if (!l->handle->options.prepare) {
        bw_asker_client_step(l->asked, BW_LEASE_PREPARED, true);
        return;
    }
    lock(l);
    l->preparing = true;
    bw_lib_queue_event(l, EVENT_PREPARE);
    unlock_changed(l);
}

/* ---- hooks ---- */

static void act(void *context, const struct bw_lease_action *action)
{
    struct bw_leadership *l = context;
    switch (action->kind) {
    case BW_LEASE_ELECTED:
        on_elected(l, action);
        break;
    case BW_LEASE_EXTENDED:
        on_extended(l, action);
        break;
    case BW_LEASE_STEP_DOWN:
        on_step_down(l, action);
        break;
    case BW_LEASE_LEADER:
        on_leader(l, action);
        break;
    case BW_LEASE_PREPARE:
        on_prepare(l);
        break;
    case BW_LEASE_STOPPED:
        l->left = true;
        break;
    case BW_LEASE_RELEASED:
    case BW_LEASE_DUPLICATE:
    case BW_LEASE_ASK:
        break;
    }
}

static bool before(void *context, struct bw_store_request *request)
{
    struct bw_leadership *l = context;
    if (request->op == BW_STORE_ACQUIRE)
        l->settled = false; /* of an earlier leadership; this one may end before it is reported */
    if (request->op == BW_STORE_RENEW || request->op == BW_STORE_RELEASE)
        request->settled = l->settled && request->token == l->granted;
    return true;
}

/* True for the operations by which a candidate is elected. */
static bool elects(enum bw_store_op op)
{
    return op == BW_STORE_READ || op == BW_STORE_LIST || op == BW_STORE_ACQUIRE;
}

/* bw_why() reports why this candidate was not elected: the last failure of such an operation. The
 * failure is cleared only when the same operation succeeds. A store that answers READ but fails
 * ACQUIRE for lack of descriptors is thus still reported. */
static void note_failure(struct bw_leadership *l, const struct bw_store_reply *reply)
{
    l->failed_op = reply->op;
    l->failure = reply->error ? reply->error : BW_EIO;
    memcpy(l->failure_why, reply->why, sizeof l->failure_why);
}

static void answer(void *context, const struct bw_store_reply *reply)
{
    struct bw_leadership *l = context;
    bool answered = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    bool failed = !answered && elects(reply->op);
    bool recovered = answered && l->failure && reply->op == l->failed_op;
    if (!failed && !recovered && (!answered || l->answered))
        return;
    lock(l);
    l->answered = l->answered || answered;
    if (failed)
        note_failure(l, reply);
    else if (recovered)
        l->failure = 0;
    unlock_changed(l);
}

static void stepped(void *context)
{
    struct bw_leadership *l = context;
    if (l->left && !l->reaping && !bw_asker_client_is_waiting(l->asked)) {
        l->reaping = true;
        l->reap_next = l->handle->reap;
        l->handle->reap = l;
    }
    struct bw_lease_status status;
    bw_lease_status(bw_asker_client_lease(l->asked), &status);
    atomic_store(&l->deadline_loss, (int)status.deadline_loss);
    if (!l->decided && strcmp(status.state, "waiting") == 0) {
        lock(l);
        l->decided = true;
        unlock_changed(l);
    }
}

static void on_alarm(void *context, bw_time now)
{
    struct bw_leadership *l = context;
    if (l->cleanup)
        cleanup_step(l, now);
    else if (l->aborts && l->stage == STAGE_LOST)
        bw_lib_deadline_abort(l);
}

const struct bw_asker_client_hooks bw_lib_hooks = {
    .act = act, .before = before, .answer = answer, .stepped = stepped, .alarm = on_alarm};

static void unlink_leadership(struct bw_leadership *l)
{
    struct bw_leadership **at = &l->handle->all;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
}

void bw_lib_reap(struct bw_handle *h)
{
    while (h->reap) {
        struct bw_leadership *l = h->reap;
        h->reap = l->reap_next;
        bw_asker_client_free(l->asked);
        l->asked = NULL;
        lock(l);
        unlink_leadership(l);
        l->stage = STAGE_GONE;
        bw_lib_drop_event(l, EVENT_ELECTED | EVENT_LOST | EVENT_LEADER | EVENT_PREPARE);
        bool mine = l->free_when_gone;
        unlock_changed(l);
        if (mine)
            bw_lib_free(l);
    }
}
