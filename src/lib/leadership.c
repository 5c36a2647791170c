/* Contend, release, resign; and the current state. */
#include "lib/lib.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- making and freeing ---- */

void bw_lib_free(struct bw_leadership *l)
{
    bw_lib_deadline_close(l);
    free(l->cleanup);
    free(l->value);
    free(l);
}

static int check_names(const struct bw_leadership *l)
{
    const struct bw_store_ops *ops = bw_asker_store_ops(l->handle->asker);
    struct bw_store_request request = {.op = BW_STORE_ACQUIRE,
                                       .id = 1,
                                       .election = l->election,
                                       .candidate = l->handle->id,
                                       .value = l->value,
                                       .ttl_ns = l->settings.terms.ttl_ns};
    if (bw_store_request_check(&request, ops->ttl_min_ns) == 0)
        return 0;
    return bw_lib_fail(
        BW_EINVAL,
        "invalid name, id or value: expected an election name of 1 to %u printable bytes without "
        "'/', an id of 1 to %u bytes and a value of at most %u bytes",
        BW_ELECTION_NAME_MAX, BW_CANDIDATE_ID_MAX, BW_VALUE_MAX);
}

static int fill(struct bw_leadership *l, const char *election,
                const struct bw_campaign_options *options)
{
    if (!election || strlen(election) > BW_ELECTION_NAME_MAX)
        return bw_lib_fail(BW_EINVAL, "invalid election name: expected 1 to %u bytes",
                           BW_ELECTION_NAME_MAX);
    memcpy(l->election, election, strlen(election) + 1);
    l->value = strdup(options->value ? options->value : "");
    if (!l->value)
        return bw_lib_fail(BW_ENOMEM, "out of memory");
    enum bw_overdue otherwise = l->way == WAY_TASK ? BW_OVERDUE_ABORT : BW_OVERDUE_REPORT;
    l->aborts = (options->overdue ? options->overdue : otherwise) == BW_OVERDUE_ABORT;
    l->priority = options->priority;
    l->preferred = options->preferred;
    l->observer = options->observer;
    l->context = options->context;
    int error = bw_lib_settings(l->handle, options->ttl_ms, &l->settings);
    return error ? error : check_names(l);
}

static int start(struct bw_handle *h, void *arg)
{
    struct bw_leadership *l = arg;
    struct bw_lease_config config = {.election = l->election,
                                     .candidate = h->id,
                                     .value = l->value,
                                     .terms = l->settings.terms,
                                     .retry_ns = l->settings.retry_ns,
                                     .grace_ns = l->settings.grace_ns,
                                     .priority = l->priority,
                                     .preferred = l->preferred,
                                     .observer = l->observer};
    if (h->closing)
        return BW_EINTERRUPTED;
    for (const struct bw_leadership *other = h->all; other; other = other->next)
        if (strcmp(other->election, l->election) == 0)
            return BW_EBUSY;
    int error = bw_asker_client_new(&l->asked, h->asker, &config, &bw_lib_hooks, l);
    if (error)
        return error;
    pthread_mutex_lock(&h->mutex);
    l->next = h->all;
    h->all = l;
    pthread_mutex_unlock(&h->mutex);
    bw_asker_client_step(l->asked, BW_LEASE_START, false);
    return 0;
}

static int start_call(struct bw_leadership *l)
{
    int error = bw_lib_call(l->handle, start, l);
    if (error == BW_EBUSY)
        bw_lib_set_why("this handle already contends for '%s'", l->election);
    else if (error)
        bw_lib_set_why("%s", bw_error_text(error));
    return error;
}

int bw_lib_contend(struct bw_handle *h, const char *election,
                   const struct bw_campaign_options *options, enum way way,
                   struct bw_leadership **out)
{
    *out = NULL;
    int error = bw_lib_check(h);
    if (error)
        return error;
    struct bw_leadership *l = calloc(1, sizeof *l);
    if (!l)
        return bw_lib_fail(BW_ENOMEM, "out of memory");
    l->handle = h;
    l->way = way;
    l->cancel_fd = -1;
    error = fill(l, election, options);
    if (error)
        l->aborts = false; /* no timer exists yet */
    else
        error = bw_lib_deadline_open(l);
    if (!error)
        error = start_call(l);
    if (error)
        bw_lib_free(l);
    else
        *out = l;
    return error;
}

int bw_contend(struct bw_handle *h, const char *election, const struct bw_campaign_options *options,
               struct bw_leadership **out)
{
    struct bw_campaign_options own;
    *out = NULL;
    int error = bw_lib_copy(&own, sizeof own, options);
    return error ? error : bw_lib_contend(h, election, &own, WAY_CALLBACKS, out);
}

/* ---- waiting ---- */

static int not_elected(const struct bw_leadership *l)
{
    if (l->leader[0])
        return bw_lib_fail(BW_ETIMEDOUT, "'%s' is led by %s", l->election, l->leader);
    if (l->failure) {
        bool short_of = l->failure == BW_ENOMEM || l->failure == BW_ELIMIT;
        return bw_lib_fail(short_of ? BW_ENOMEM : BW_EIO, "cannot acquire '%s': %s", l->election,
                           l->failure_why);
    }
    if (l->answered)
        return bw_lib_fail(BW_ETIMEDOUT, "'%s' has no leader, but was not acquired in time",
                           l->election);
    return bw_lib_fail(BW_EIO, "the store did not answer within the timeout");
}

static bool is_led_now(const struct bw_leadership *l)
{
    return bw_clock_boot() < atomic_load(&l->act_until);
}

/* Returns 0 if elected, 1 if the caller must continue to wait, or an error. The caller holds the
 * mutex. */
static int check_elected(const struct bw_leadership *l, int64_t timeout_ms, bw_time until)
{
    if (l->stage == STAGE_GONE || atomic_load(&l->handle->interrupted))
        return bw_lib_fail(BW_EINTERRUPTED, "interrupted");
    if (l->stage == STAGE_LEADING && is_led_now(l))
        return 0;
    bool over = timeout_ms == 0 ? l->decided : bw_clock_boot() >= until;
    return over ? not_elected(l) : 1;
}

int bw_lib_await(struct bw_leadership *l, int64_t timeout_ms)
{
    struct bw_handle *h = l->handle;
    bw_time until = timeout_ms == 0 ? BW_TIME_NEVER : bw_lib_until(timeout_ms);
    int error;
    pthread_mutex_lock(&h->mutex);
    h->busy++;
    while ((error = check_elected(l, timeout_ms, until)) == 1) {
        if (l->stage == STAGE_LOST) { /* lost before the caller was notified */
            pthread_mutex_unlock(&h->mutex);
            bw_release(l);
            pthread_mutex_lock(&h->mutex);
        } else {
            bw_lib_wait(h, until);
        }
    }
    h->busy--;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    return error;
}

int bw_campaign(struct bw_handle *h, const char *election,
                const struct bw_campaign_options *options, int64_t timeout_ms,
                struct bw_leadership **out)
{
    struct bw_campaign_options own;
    *out = NULL;
    int error = bw_lib_copy(&own, sizeof own, options);
    if (error)
        return error;
    if (own.observer)
        return bw_lib_fail(BW_EINVAL, "an observer cannot be elected; use bw_contend");
    if (h->pid == getpid() && bw_lib_on_thread(h))
        return bw_lib_fail(BW_EINVAL, "cannot call bw_campaign on the library's own thread");
    struct bw_leadership *l;
    error = bw_lib_contend(h, election, &own, WAY_BLOCKING, &l);
    if (error)
        return error;
    error = bw_lib_await(l, timeout_ms);
    if (error)
        bw_resign(l);
    else
        *out = l;
    return error;
}

int bw_wait_lost(struct bw_leadership *l, int64_t timeout_ms)
{
    struct bw_handle *h = l->handle;
    bw_time until = bw_lib_until(timeout_ms);
    int error = bw_lib_check(h);
    if (error)
        return error;
    if (bw_lib_on_thread(h))
        return bw_lib_fail(BW_EINVAL, "cannot call bw_wait_lost on the library's own thread");
    pthread_mutex_lock(&h->mutex);
    h->busy++;
    for (;;) {
        if (l->stage != STAGE_LEADING || !is_led_now(l))
            break;
        if (atomic_load(&h->interrupted))
            error = bw_lib_fail(BW_EINTERRUPTED, "interrupted");
        else if (bw_clock_boot() >= until)
            error = bw_lib_fail(BW_ETIMEDOUT, "still leading after the timeout");
        if (error)
            break;
        bw_lib_wait(h, bw_time_min(until, atomic_load(&l->act_until)));
    }
    h->busy--;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    return error;
}

/* ---- releasing ---- */

static int release(struct bw_handle *h, void *arg)
{
    (void)h;
    bw_lib_work_ended(arg);
    return 0;
}

int bw_release(struct bw_leadership *l)
{
    int error = bw_lib_check(l->handle);
    return error ? error : bw_lib_call(l->handle, release, l);
}

static int end(struct bw_handle *h, void *arg)
{
    (void)h;
    bw_lib_end(arg);
    return 0;
}

void bw_lib_free_when_gone(struct bw_leadership *l)
{
    struct bw_handle *h = l->handle;
    pthread_mutex_lock(&h->mutex);
    while (l->stage != STAGE_GONE ||
           (h->notifying == l && !pthread_equal(h->notifying_thread, pthread_self())))
        bw_lib_wait(h, BW_TIME_NEVER);
    pthread_mutex_unlock(&h->mutex);
    bw_lib_free(l);
}

int bw_resign(struct bw_leadership *l)
{
    if (!l)
        return 0;
    struct bw_handle *h = l->handle;
    int error = bw_lib_check(h);
    if (error)
        return error;
    bool here = bw_lib_on_thread(h);
    pthread_mutex_lock(&h->mutex);
    l->resigned = true;
    l->free_when_gone = here;
    h->busy += !here;
    pthread_mutex_unlock(&h->mutex);
    bw_lib_call(h, end, l);
    if (here)
        return 0;
    bw_lib_free_when_gone(l);
    pthread_mutex_lock(&h->mutex);
    h->busy--;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    return 0;
}

struct transfer {
    struct bw_leadership *l;
    const char *to;
};

static int transfer(struct bw_handle *h, void *arg)
{
    const struct transfer *request = arg;
    (void)h;
    if (request->l->stage != STAGE_LEADING)
        return BW_ENOTLEADER;
    bw_asker_client_transfer(request->l->asked, request->to);
    return 0;
}

int bw_transfer(struct bw_leadership *l, const char *successor)
{
    struct transfer request = {.l = l, .to = successor};
    int error = bw_lib_check(l->handle);
    if (error)
        return error;
    if (!successor || !successor[0] || strlen(successor) > BW_CANDIDATE_ID_MAX ||
        strcmp(successor, l->handle->id) == 0)
        return bw_lib_fail(BW_EINVAL, "invalid successor: expected the id of another candidate");
    error = bw_lib_call(l->handle, transfer, &request);
    return error ? bw_lib_fail(error, "cannot transfer '%s': not leading", l->election) : 0;
}

struct yes_or_no {
    struct bw_leadership *l;
    bool yes;
};

static int prepared(struct bw_handle *h, void *arg)
{
    const struct yes_or_no *report = arg;
    (void)h;
    if (report->l->preparing && !report->l->ending)
        bw_asker_client_step(report->l->asked, BW_LEASE_PREPARED, report->yes);
    report->l->preparing = false;
    return 0;
}

int bw_prepared(struct bw_leadership *l, bool ready)
{
    struct yes_or_no report = {.l = l, .yes = ready};
    int error = bw_lib_check(l->handle);
    return error ? error : bw_lib_call(l->handle, prepared, &report);
}

static int healthy_now(struct bw_handle *h, void *arg)
{
    const struct yes_or_no *report = arg;
    (void)h;
    if (!report->l->ending)
        bw_asker_client_step(report->l->asked, BW_LEASE_HEALTH, report->yes);
    return 0;
}

int bw_healthy(struct bw_leadership *l, bool healthy)
{
    struct yes_or_no report = {.l = l, .yes = healthy};
    int error = bw_lib_check(l->handle);
    return error ? error : bw_lib_call(l->handle, healthy_now, &report);
}

/* ---- current state ---- */

bool bw_is_leader(const struct bw_leadership *l)
{
    return is_led_now(l) && l->handle->pid == getpid();
}

int64_t bw_valid_ms(const struct bw_leadership *l)
{
    bw_time left = atomic_load(&l->work_until) - bw_clock_boot();
    return left > 0 && l->handle->pid == getpid() ? left / BW_MS : 0;
}

uint64_t bw_token_of(const struct bw_leadership *l)
{
    return l->handle->pid == getpid() ? atomic_load(&l->token) : 0;
}

/* The clock may end the leadership before the library's thread has recorded the loss. */
enum bw_loss bw_lib_reason(const struct bw_leadership *l)
{
    bool by_clock = l->stage == STAGE_LEADING && !is_led_now(l);
    return by_clock ? (enum bw_loss)atomic_load(&l->deadline_loss) : l->reason;
}

enum bw_loss bw_reason(const struct bw_leadership *l)
{
    struct bw_handle *h = l->handle;
    if (h->pid != getpid())
        return BW_LOSS_NONE;
    pthread_mutex_lock(&h->mutex);
    enum bw_loss reason = bw_lib_reason(l);
    pthread_mutex_unlock(&h->mutex);
    return reason;
}

const char *bw_election(const struct bw_leadership *l)
{
    return l->election;
}

#define SAME(name)                                                                                 \
    _Static_assert((int)BW_LOSS_##name == (int)BW_LEASE_##name, "same number in both enums")
SAME(EXPIRED);
SAME(TAKEN);
SAME(RESIGNED);
SAME(TRANSFERRED);
SAME(UNHEALTHY);
SAME(UNREACHABLE);
SAME(SHUT_DOWN);
SAME(FINISHED);

const char *bw_loss_name(enum bw_loss reason)
{
    return reason == BW_LOSS_NONE ? "none" : bw_lease_loss_name((enum bw_lease_loss)reason);
}
