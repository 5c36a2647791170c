/* What the elector decides, carried out on the library's thread.
 *
 * Order is what makes it safe. Elected: what earlier holders left running is ended first, then the
 * kernel's timers are armed, then the program is told. Lost: the atomics that bw_is_leader reads
 * are cleared and the cancel token is set before anything is called. Released: only by
 * bw_lib_work_ended and bw_lib_end, that is, when the program said that its work has ended, and
 * where it was never told to start. */
#include "lib/lib.h"

#include <stdlib.h>
#include <string.h>

#define CLEAR_LOOK_NS BW_MS

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
        bw_lib_tell(l, EVENT_ELECTED);
    unlock_changed(l);
}

static void stop_clearing(struct bw_leadership *l)
{
    free(l->clearing);
    l->clearing = NULL;
}

static void clear(struct bw_leadership *l, bw_time now)
{
    switch (bw_lib_clear_step(l->clearing, now)) {
    case CLEAR_BUSY:
        bw_asked_alarm(l->asked, now + CLEAR_LOOK_NS);
        break;
    case CLEAR_DONE:
        stop_clearing(l);
        become_leading(l);
        break;
    case CLEAR_FAILED: /* somebody with more rights may succeed; the record says it is owed */
        stop_clearing(l);
        bw_asked_step(l->asked, BW_LEASE_UNCLEARED, false);
        break;
    }
}

static void on_elected(struct bw_leadership *l, const struct bw_lease_action *action)
{
    const char *left = action->previous_clean ? "" : action->previous_containment;
    l->granted = action->token;
    l->schedule = action->schedule;
    l->settled = l->own_will = false;
    if (!action->owed[0] && !left[0]) {
        become_leading(l);
        return;
    }
    bw_time now = bw_asker_now();
    l->clearing = bw_lib_clear_begin(action->owed, action->previous, left,
                                     now + l->settings.terms.ttl_ns / 6);
    if (l->clearing)
        clear(l, now);
    else
        bw_asked_step(l->asked, BW_LEASE_UNCLEARED, false);
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
    if (l->stage != STAGE_LEADING) { /* the program has not heard of it */
        stop_clearing(l);
        bw_asked_alarm(l->asked, BW_TIME_NEVER);
        bw_asked_step(l->asked, BW_LEASE_WORK_DEAD, false);
        return;
    }
    lock(l);
    l->stage = STAGE_LOST;
    l->reason = (enum bw_loss)action->reason;
    atomic_store(&l->act_until, 0);
    atomic_store(&l->work_until, l->schedule.kill);
    bw_lib_deadline_set(l);
    bw_lib_deadline_cancel(l);
    if (!l->own_will && l->way != WAY_TASK)
        bw_lib_tell(l, EVENT_LOST);
    unlock_changed(l);
    if (l->aborts)
        bw_asked_alarm(l->asked, l->schedule.kill);
}

/* From here on no work of this leadership runs: nothing is left to enforce. */
static void become_idle(struct bw_leadership *l)
{
    bw_lib_deadline_clear(l);
    bw_asked_alarm(l->asked, BW_TIME_NEVER);
    lock(l);
    l->stage = STAGE_CONTENDING;
    atomic_store(&l->act_until, 0);
    atomic_store(&l->work_until, 0);
    atomic_store(&l->token, BW_TOKEN_NONE);
    bw_lib_untell(l, EVENT_ELECTED | EVENT_LOST);
    unlock_changed(l);
}

void bw_lib_work_ended(struct bw_leadership *l)
{
    if (!bw_lib_led(l))
        return;
    l->own_will = true;
    if (l->stage == STAGE_LEADING)
        bw_asked_step(l->asked, BW_LEASE_RESIGN, false);
    become_idle(l);
    bw_asked_step(l->asked, BW_LEASE_WORK_DEAD, false);
}

void bw_lib_end(struct bw_leadership *l)
{
    if (l->ending || l->stage == STAGE_GONE)
        return;
    l->ending = l->own_will = true;
    if (bw_lib_led(l)) {
        become_idle(l);
        bw_asked_step(l->asked, BW_LEASE_WORK_DEAD, false);
    }
    bw_asked_step(l->asked, BW_LEASE_STOP, false);
}

static void on_leader(struct bw_leadership *l, const struct bw_lease_action *action)
{
    lock(l);
    strncpy(l->leader, action->leader, sizeof l->leader - 1);
    strncpy(l->leader_value, action->value, sizeof l->leader_value - 1);
    l->leader_token = action->token;
    bw_lib_tell(l, EVENT_LEADER);
    unlock_changed(l);
}

/* A program that contends and says nothing else is ready. */
static void on_prepare(struct bw_leadership *l)
{
    if (!l->handle->options.prepare) {
        bw_asked_step(l->asked, BW_LEASE_PREPARED, true);
        return;
    }
    lock(l);
    l->preparing = true;
    bw_lib_tell(l, EVENT_PREPARE);
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
    const struct bw_leadership *l = context;
    if (request->op == BW_STORE_RENEW)
        request->settled = l->settled;
    return true;
}

/* The operations by which a candidate is elected. */
static bool elects(enum bw_store_op op)
{
    return op == BW_STORE_READ || op == BW_STORE_LIST || op == BW_STORE_ACQUIRE;
}

/* Why this candidate is not elected is what the store said last about the same operation: a store
 * that answers READ and fails ACQUIRE for want of descriptors has a reason to report. */
static void note_failure(struct bw_leadership *l, const struct bw_store_reply *reply)
{
    l->failed_op = reply->op;
    l->failure = reply->error ? reply->error : BW_EIO;
    memcpy(l->failure_why, reply->why, sizeof l->failure_why);
}

static void answer(void *context, const struct bw_store_reply *reply)
{
    struct bw_leadership *l = context;
    bool told = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    bool failed = !told && elects(reply->op);
    bool mended = told && l->failure && reply->op == l->failed_op;
    if (!failed && !mended && (!told || l->answered))
        return;
    lock(l);
    l->answered = l->answered || told;
    if (failed)
        note_failure(l, reply);
    else if (mended)
        l->failure = 0;
    unlock_changed(l);
}

static void stepped(void *context)
{
    struct bw_leadership *l = context;
    if (l->left && !l->reaping && !bw_asked_waits(l->asked)) {
        l->reaping = true;
        l->reap_next = l->handle->reap;
        l->handle->reap = l;
    }
    struct bw_lease_status status;
    bw_lease_status(bw_asked_lease(l->asked), &status);
    if (!l->decided && strcmp(status.state, "waiting") == 0) {
        lock(l);
        l->decided = true;
        unlock_changed(l);
    }
}

static void alarm_rang(void *context, bw_time now)
{
    struct bw_leadership *l = context;
    if (l->clearing)
        clear(l, now);
    else if (l->aborts && l->stage == STAGE_LOST)
        bw_lib_deadline_abort(l);
}

const struct bw_asked_hooks bw_lib_hooks = {
    .act = act, .before = before, .answer = answer, .stepped = stepped, .alarm = alarm_rang};

static void take_out(struct bw_leadership *l)
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
        bw_asked_free(l->asked);
        l->asked = NULL;
        lock(l);
        take_out(l);
        l->stage = STAGE_GONE;
        bw_lib_untell(l, EVENT_ELECTED | EVENT_LOST | EVENT_LEADER | EVENT_PREPARE);
        bool mine = l->free_when_gone;
        unlock_changed(l);
        if (mine)
            bw_lib_free(l);
    }
}
