/* The handle: one store, and one thread that renews every leadership acquired through it.
 *
 * The thread runs a libuv loop. A function that touches an elector is handed to the thread as a
 * call, and the caller waits for its result. Frequent questions (bw_is_leader) are answered from
 * atomics. The thread blocks all signals, so that the program's own threads receive them. */
#include "lib/lib.h"

#include "core/base/bug.h"
#include "os/clock.h"
#include "os/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifndef BW_VERSION
#error "the build gives BW_VERSION"
#endif

#define WHY_MAX 512

static _Thread_local char why_text[WHY_MAX];

const char *bw_version(void)
{
    return BW_VERSION;
}

const char *bw_why(void)
{
    return why_text;
}

void bw_lib_set_why(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why_text, sizeof why_text, format, arguments);
    va_end(arguments);
}

/* ---- calls ---- */

int bw_lib_check(const struct bw_handle *h)
{
    if (h->pid == getpid())
        return 0;
    return bw_lib_fail(BW_EFORKED,
                       "this handle was opened by process %ld and cannot be used in another",
                       (long)h->pid);
}

bool bw_lib_on_thread(const struct bw_handle *h)
{
    return pthread_equal(h->thread, pthread_self()) != 0;
}

bw_time bw_lib_until(int64_t timeout_ms)
{
    bool never = timeout_ms < 0 || timeout_ms > BW_TIME_NEVER / BW_MS;
    return never ? BW_TIME_NEVER : bw_time_add(bw_clock_boot(), timeout_ms * BW_MS);
}

/* The condition's clock stops during suspend. Waits are therefore cut into pieces, and the caller
 * compares BOOTTIME after each. */
void bw_lib_wait(struct bw_handle *h, bw_time until)
{
    struct timespec at;
    bw_time now = bw_clock_boot();
    if (until == BW_TIME_NEVER) {
        pthread_cond_wait(&h->changed, &h->mutex);
        return;
    }
    bw_time span = until > now ? bw_time_min(until - now, BW_SEC) : 0;
    clock_gettime(CLOCK_MONOTONIC, &at);
    bw_time sum = at.tv_nsec + span;
    at.tv_sec += sum / BW_SEC;
    at.tv_nsec = sum % BW_SEC;
    pthread_cond_timedwait(&h->changed, &h->mutex, &at);
}

int bw_lib_call(struct bw_handle *h, int (*run)(struct bw_handle *h, void *arg), void *arg)
{
    struct call call = {.run = run, .arg = arg};
    if (bw_lib_on_thread(h))
        return run(h, arg);
    pthread_mutex_lock(&h->mutex);
    *h->calls_end = &call;
    h->calls_end = &call.next;
    uv_async_send(&h->wake);
    while (!call.done)
        bw_lib_wait(h, BW_TIME_NEVER);
    pthread_mutex_unlock(&h->mutex);
    return call.result;
}

static struct call *take_call(struct bw_handle *h)
{
    pthread_mutex_lock(&h->mutex);
    struct call *call = h->calls;
    if (call) {
        h->calls = call->next;
        if (!h->calls)
            h->calls_end = &h->calls;
    }
    pthread_mutex_unlock(&h->mutex);
    return call;
}

/* ---- the thread ---- */

/* Stops the running tasks. Blocked callers see `interrupted` when the condition is broadcast. */
static void interrupt(struct bw_handle *h)
{
    if (!atomic_load(&h->interrupted) || atomic_exchange(&h->interrupt_seen, true))
        return;
    for (struct bw_leadership *l = h->all; l; l = l->next)
        if (l->way == WAY_TASK && !l->ending)
            bw_asker_client_step(l->asked, BW_LEASE_STOP, false);
    pthread_mutex_lock(&h->mutex);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

static void on_wake(uv_async_t *handle)
{
    struct bw_handle *h = handle->data;
    struct call *call;
    while ((call = take_call(h))) {
        int result = call->run(h, call->arg);
        pthread_mutex_lock(&h->mutex);
        call->result = result;
        call->done = true;
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->mutex);
    }
    interrupt(h);
}

/* Before the loop waits: delivers pending callbacks and frees ended candidacies. */
static void on_tidy(uv_prepare_t *handle)
{
    struct bw_handle *h = handle->data;
    if (h->event_fd < 0)
        bw_lib_dispatch(h);
    bw_lib_reap(h);
}

static void *run_loop(void *arg)
{
    struct bw_handle *h = arg;
    uv_run(&h->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int quit(struct bw_handle *h, void *arg)
{
    (void)arg;
    if (h->asker)
        bw_asker_close(h->asker);
    uv_close((uv_handle_t *)&h->wake, NULL);
    uv_close((uv_handle_t *)&h->tidy, NULL);
    return 0;
}

static int start_thread(struct bw_handle *h)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&h->thread, NULL, run_loop, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return bw_lib_fail(BW_ENOMEM, "cannot start a thread: %s", strerror(error));
    pthread_setname_np(h->thread, "bellwether");
    return 0;
}

/* ---- fork ---- */

/* The number of open handles (low half) and the process that opened them (high half).
 *
 * A forked child inherits this number, and with it the state that the handles' threads had at the
 * fork: held mutexes of SQLite, of a TLS library or of the C library's resolver, and SQLite's
 * list of file locks, which the child does not hold. No library works safely in that state, so
 * the child must not open a store. This is one atomic word instead of a mutex, because a mutex
 * could be held at the fork, too. */
static _Atomic uint64_t handles;

static int count_handle(void)
{
    uint64_t self = (uint64_t)getpid() << 32, seen = atomic_load(&handles), next;
    do {
        uint32_t count = (uint32_t)seen;
        if (count > 0 && (seen ^ self) >> 32 != 0 && !BW_BUG(lib_opens_in_a_forked_child))
            return bw_lib_fail(BW_EFORKED,
                               "cannot open a store in this process: process %ld had a handle open "
                               "when it forked; exec a program, or fork before bw_open",
                               (long)(seen >> 32));
        next = self | (count + 1);
    } while (!atomic_compare_exchange_weak(&handles, &seen, next));
    return 0;
}

static void discount_handle(void)
{
    atomic_fetch_sub(&handles, 1);
}

/* ---- opening and closing ---- */

static void init_locks(struct bw_handle *h)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&h->mutex, NULL);
}

static void free_handle(struct bw_handle *h)
{
    uv_loop_close(&h->loop);
    if (h->event_fd >= 0)
        close(h->event_fd);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mutex);
    free(h);
    discount_handle();
}

static int open_parts(struct bw_handle *h, const char *url)
{
    char why[BW_WHY_MAX + 1] = "";
    struct settings settings;
    if (h->options.pollable) {
        h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (h->event_fd < 0)
            return bw_lib_fail(BW_ENOMEM, "cannot create a descriptor for bw_fd: %s",
                               strerror(errno));
    }
    int error = bw_asker_open(&h->asker, url, &h->loop, NULL, why);
    if (error)
        return bw_lib_fail(error, "%s", why);
    return bw_lib_settings(h, 0, &settings);
}

/* Returns NULL and sets the text of bw_why() on failure. */
static struct bw_handle *new_handle(void)
{
    struct bw_handle *h = calloc(1, sizeof *h);
    int error = h ? bw_loop_init(&h->loop) : UV_ENOMEM;
    if (error) {
        bw_lib_set_why("cannot start an event loop: %s", strerror(-error));
        free(h);
        discount_handle();
        return NULL;
    }
    h->pid = getpid();
    h->calls_end = &h->calls;
    h->events_end = &h->events;
    h->event_fd = -1;
    init_locks(h);
    uv_async_init(&h->loop, &h->wake, on_wake); /* cannot fail: the loop has its eventfd */
    uv_prepare_init(&h->loop, &h->tidy);
    uv_prepare_start(&h->tidy, on_tidy);
    uv_unref((uv_handle_t *)&h->tidy);
    h->wake.data = h->tidy.data = h;
    return h;
}

int bw_open(const char *url, const struct bw_options *options, struct bw_handle **out)
{
    *out = NULL;
    if (!url)
        return bw_lib_fail(BW_EINVAL, "missing store URL");
    int error = count_handle();
    if (error)
        return error;
    struct bw_handle *h = new_handle();
    if (!h)
        return BW_ENOMEM;
    error = bw_lib_options(h, options);
    if (!error)
        error = open_parts(h, url);
    if (!error)
        error = start_thread(h);
    if (!error) {
        *out = h;
        return 0;
    }
    quit(h, NULL);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    free_handle(h);
    return error;
}

struct closing {
    struct bw_leadership *ended; /* candidacies that bw_close ended and has to free */
    char why[WHY_MAX];
};

/* Fails if an election is led, or a call or callback is running. The caller holds the mutex. */
static int check_idle(const struct bw_handle *h, struct closing *closing)
{
    for (const struct bw_leadership *l = h->all; l; l = l->next)
        if (bw_lib_led(l) && !l->resigned) {
            snprintf(closing->why, WHY_MAX,
                     "cannot close the handle: '%s' is led; call bw_resign first", l->election);
            return BW_EBUSY;
        }
    snprintf(closing->why, WHY_MAX, "cannot close the handle: a call or callback is running");
    return h->busy > 0 || h->notifying ? BW_EBUSY : 0;
}

/* The check and the end of every candidacy run in one call on the library's thread. Only that
 * thread announces elections, so no candidacy can be elected between the two. */
static int end_candidacies(struct bw_handle *h, void *arg)
{
    struct closing *closing = arg;
    pthread_mutex_lock(&h->mutex);
    int error = BW_BUG(lib_close_checks_before_its_turn) ? 0 : check_idle(h, closing);
    for (struct bw_leadership *l = h->all; l && !error; l = l->next)
        if (!l->resigned) {
            l->resigned = true;
            l->close_next = closing->ended;
            closing->ended = l;
        }
    pthread_mutex_unlock(&h->mutex);
    h->closing = !error;
    for (struct bw_leadership *l = closing->ended; l; l = l->close_next)
        bw_lib_end(l);
    return error;
}

/* Waits for callbacks in other threads: they may resign what is led. */
static void await_callbacks(struct bw_handle *h)
{
    pthread_mutex_lock(&h->mutex);
    while (h->notifying && !pthread_equal(h->notifying_thread, pthread_self()))
        bw_lib_wait(h, BW_TIME_NEVER);
    pthread_mutex_unlock(&h->mutex);
}

/* Waits until the library's thread has freed the candidacies that a callback resigned. */
static void await_resigned(struct bw_handle *h)
{
    pthread_mutex_lock(&h->mutex);
    while (h->all)
        bw_lib_wait(h, BW_TIME_NEVER);
    pthread_mutex_unlock(&h->mutex);
}

static int end_all(struct bw_handle *h)
{
    struct closing closing = {.ended = NULL};
    struct bw_leadership *l;
    int error = 0;
    await_callbacks(h);
    if (BW_BUG(lib_close_checks_before_its_turn)) {
        pthread_mutex_lock(&h->mutex);
        error = check_idle(h, &closing);
        pthread_mutex_unlock(&h->mutex);
    }
    if (!error)
        error = bw_lib_call(h, end_candidacies, &closing);
    if (error)
        return bw_lib_fail(error, "%s", closing.why);
    while ((l = closing.ended)) {
        closing.ended = l->close_next;
        bw_lib_free_when_gone(l);
    }
    await_resigned(h);
    return 0;
}

int bw_close(struct bw_handle *h)
{
    if (!h)
        return 0;
    int error = bw_lib_check(h);
    if (!error && bw_lib_on_thread(h))
        error = bw_lib_fail(BW_EINVAL, "cannot call bw_close from a callback");
    if (!error)
        error = end_all(h);
    if (error)
        return error;
    bw_lib_call(h, quit, NULL);
    pthread_join(h->thread, NULL);
    free_handle(h);
    return 0;
}

void bw_interrupt(struct bw_handle *h)
{
    if (h->pid != getpid())
        return;
    atomic_store(&h->interrupted, true);
    uv_async_send(&h->wake);
}

const char *bw_id(const struct bw_handle *h)
{
    return h->id;
}
