/* bw_run_while_leader. The common pattern runs a task once the mutex is acquired, and cancels the
 * task when the renewal fails. This implementation adds two rules: the leadership is not released
 * while the task runs, and a task that does not end in time does not survive. */
#include "lib/lib.h"

#include "core/base/bug.h"
#include "os/clock.h"

#include <unistd.h>

struct bw_cancel {
    struct bw_leadership *leadership;
};

bool bw_cancelled(const struct bw_cancel *cancel)
{
    return !bw_is_leader(cancel->leadership);
}

int bw_cancel_fd(const struct bw_cancel *cancel)
{
    const struct bw_leadership *l = cancel->leadership;
    return l->handle->pid == getpid() ? l->cancel_fd : -1;
}

int64_t bw_cancel_ms(const struct bw_cancel *cancel)
{
    return bw_valid_ms(cancel->leadership);
}

struct bw_leadership *bw_cancel_leadership(const struct bw_cancel *cancel)
{
    return cancel->leadership;
}

/* The outcome at the moment the task returned. */
static int outcome(struct bw_leadership *l, enum bw_loss *reason)
{
    struct bw_handle *h = l->handle;
    bw_time now = bw_clock_boot();
    pthread_mutex_lock(&h->mutex);
    bool lost = l->stage != STAGE_LEADING || now >= atomic_load(&l->act_until);
    bool late = now >= atomic_load(&l->work_until);
    /* The task may see the deadline before the library's thread has recorded why the leadership
     * was lost. */
    while (lost && l->stage == STAGE_LEADING && bw_clock_boot() < atomic_load(&l->work_until))
        bw_lib_wait(h, atomic_load(&l->work_until));
    *reason = bw_lib_reason(l);
    if (lost && *reason == BW_LOSS_NONE) /* a late answer has extended the lease meanwhile */
        *reason = BW_LOSS_EXPIRED;
    pthread_mutex_unlock(&h->mutex);
    if (late)
        return bw_lib_fail(BW_EOVERDUE, "the task of '%s' returned after its deadline (%s)",
                           l->election, bw_loss_name(*reason));
    if (lost && atomic_load(&h->interrupted))
        return bw_lib_fail(BW_EINTERRUPTED, "interrupted");
    if (lost)
        return bw_lib_fail(BW_ENOTLEADER, "leadership of '%s' was lost (%s)", l->election,
                           bw_loss_name(*reason));
    return 0;
}

static int run_once(struct bw_handle *h, const char *election, bw_task task, void *arg,
                    const struct bw_run_options *o, const struct bw_campaign_options *campaign)
{
    struct bw_leadership *l;
    enum bw_loss reason = BW_LOSS_NONE;
    int64_t wait_ms = o->wait_ms == BW_NO_WAIT ? 0 : o->wait_ms > 0 ? o->wait_ms : BW_FOREVER;
    int error = bw_lib_contend(h, election, campaign, WAY_TASK, &l);
    if (error)
        return error;
    error = bw_lib_await(l, wait_ms);
    if (!error) {
        struct bw_cancel cancel = {.leadership = l};
        int result = task(&cancel, arg);
        error = outcome(l, &reason);
        if (o->result)
            *o->result = result;
        if (o->reason)
            *o->reason = reason;
    }
    bw_resign(l);
    return error;
}

int bw_run_while_leader(struct bw_handle *h, const char *election, bw_task task, void *arg,
                        const struct bw_run_options *options)
{
    struct bw_run_options own;
    struct bw_campaign_options campaign;
    int error = bw_lib_copy(&own, sizeof own, options);
    if (!error)
        error = bw_lib_copy(&campaign, sizeof campaign, own.campaign);
    if (error)
        return error;
    if (!task)
        return bw_lib_fail(BW_EINVAL, "missing task");
    if (BW_BUG(lib_reads_beyond_a_short_struct) ? own.campaign && own.campaign->observer
                                                : campaign.observer)
        return bw_lib_fail(BW_EINVAL, "an observer cannot be elected");
    if (h->pid == getpid() && bw_lib_on_thread(h))
        return bw_lib_fail(BW_EINVAL,
                           "cannot call bw_run_while_leader on the library's own thread");
    do
        error = run_once(h, election, task, arg, &own, &campaign);
    while (error == BW_ENOTLEADER && own.again);
    return error;
}
