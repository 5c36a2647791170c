/* libbellwether for Node.js, through Node-API. index.js is the interface for programs.
 *
 * Threads. The library's own thread renews the lease and calls the callbacks below; it never waits
 * for the event loop. A callback stores the state under a lock and asks the event loop to call the
 * JavaScript function `changed`, which then reads the state. Calls that may wait for the store
 * (open, resign, leader) run on the thread pool of libuv. So does the check of a held guard, which
 * waits for the disk.
 *
 * A candidate is used only by the thread of its event loop, unless a comment says otherwise. */
#define NAPI_VERSION 8
#include <bellwether.h>
#include <node_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_MAX 4096u /* a URL, a path or a value */

struct state {
    bool elected, lost, leader_seen;
    uint64_t token;
    struct bw_leader_info leader;
};

struct candidate {
    struct bw_handle *handle;
    struct bw_leadership *l; /* NULL: not open, or closing */
    napi_threadsafe_function changed;
    pthread_mutex_t lock; /* protects `state` and `quiet` */
    struct state state;
    bool quiet; /* the event loop is ending: it must not be called */
    struct bw_options options;
    struct bw_campaign_options campaign;
    char url[TEXT_MAX], election[TEXT_MAX], id[TEXT_MAX], value[TEXT_MAX];
    bool observer;
};

/* A guard for holdToken. While `busy`, only the thread pool uses it. */
struct held {
    struct bw_guard *guard; /* NULL: closed */
    uint64_t token;
    bool busy, taken; /* taken: another holder has the lock */
};

/* A call on the thread pool. */
struct job {
    napi_async_work work;
    napi_deferred deferred;
    napi_ref keep; /* of the candidate or the guard, until the call has ended */
    struct candidate *c;
    struct bw_leadership *l;
    struct held *held;
    int error;
    char why[1024];
    struct bw_leader_info leader;
};

/* ---- values ---- */

static napi_value undefined(napi_env env)
{
    napi_value value = NULL;
    napi_get_undefined(env, &value);
    return value;
}

static napi_value text_value(napi_env env, const char *text)
{
    napi_value value = NULL;
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
    return value;
}

/* Tokens are 64-bit numbers. As doubles they are exact up to 2^53, so they are BigInts. */
static napi_value token_value(napi_env env, uint64_t token)
{
    napi_value value = NULL;
    napi_create_bigint_uint64(env, token, &value);
    return value;
}

static napi_value flag_value(napi_env env, bool flag)
{
    napi_value value = NULL;
    napi_get_boolean(env, flag, &value);
    return value;
}

static napi_value error_value(napi_env env, int error, const char *why)
{
    napi_value value = NULL;
    napi_create_error(env, text_value(env, bw_error_name(error)),
                      text_value(env, why[0] ? why : bw_error_text(error)), &value);
    return value;
}

static napi_value leader_value(napi_env env, const struct bw_leader_info *leader)
{
    napi_value value = NULL;
    if (!leader->id[0]) {
        napi_get_null(env, &value);
        return value;
    }
    napi_create_object(env, &value);
    napi_set_named_property(env, value, "id", text_value(env, leader->id));
    napi_set_named_property(env, value, "token", token_value(env, leader->token));
    napi_set_named_property(env, value, "value", text_value(env, leader->value));
    return value;
}

/* Reads a string property. False, with a pending exception: not a string, too long, or with a NUL
 * byte. `out` stays "" if the property is undefined. */
static bool read_text(napi_env env, napi_value object, const char *name, char out[TEXT_MAX])
{
    napi_value value;
    napi_valuetype type = napi_undefined;
    size_t length = 0;
    napi_get_named_property(env, object, name, &value);
    napi_typeof(env, value, &type);
    if (type == napi_undefined)
        return true;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok || length >= TEXT_MAX ||
        napi_get_value_string_utf8(env, value, out, TEXT_MAX, NULL) != napi_ok ||
        strlen(out) != length) {
        char why[128];
        snprintf(why, sizeof why, "invalid %s: expected a string of fewer than %u bytes", name,
                 TEXT_MAX);
        napi_throw_type_error(env, "EINVAL", why);
        return false;
    }
    return true;
}

/* Reads a number property. `out` keeps its value if the property is undefined. */
static bool read_number(napi_env env, napi_value object, const char *name, int64_t *out)
{
    napi_value value;
    napi_valuetype type = napi_undefined;
    double number;
    napi_get_named_property(env, object, name, &value);
    napi_typeof(env, value, &type);
    if (type == napi_undefined)
        return true;
    if (napi_get_value_double(env, value, &number) != napi_ok || !(number >= -1e12) ||
        !(number <= 1e12)) {
        char why[128];
        snprintf(why, sizeof why, "invalid %s: expected a number", name);
        napi_throw_type_error(env, "EINVAL", why);
        return false;
    }
    *out = (int64_t)number;
    *out += number > (double)*out; /* rounds up: 0 means the default */
    return true;
}

static bool read_flag(napi_env env, napi_value object, const char *name)
{
    napi_value value, as_bool;
    bool flag = false;
    napi_get_named_property(env, object, name, &value);
    if (napi_coerce_to_bool(env, value, &as_bool) == napi_ok)
        napi_get_value_bool(env, as_bool, &flag);
    return flag;
}

/* ---- callbacks on the library's thread ---- */

/* The caller holds the lock. */
static void wake(struct candidate *c)
{
    if (!c->quiet)
        napi_call_threadsafe_function(c->changed, NULL, napi_tsfn_nonblocking);
}

static void on_elected(struct bw_leadership *l, uint64_t token, void *context)
{
    struct candidate *c = context;
    (void)l;
    pthread_mutex_lock(&c->lock);
    if (!c->state.elected) { /* a later leadership is not used: index.js resigns after the first */
        c->state.elected = true;
        c->state.token = token;
        wake(c);
    }
    pthread_mutex_unlock(&c->lock);
}

static void on_lost(struct bw_leadership *l, enum bw_loss reason, void *context)
{
    struct candidate *c = context;
    (void)l;
    (void)reason;
    pthread_mutex_lock(&c->lock);
    c->state.lost = true;
    wake(c);
    pthread_mutex_unlock(&c->lock);
}

static void on_leader(struct bw_leadership *l, const char *leader, uint64_t token,
                      const char *value, void *context)
{
    struct candidate *c = context;
    (void)l;
    pthread_mutex_lock(&c->lock);
    snprintf(c->state.leader.id, sizeof c->state.leader.id, "%s", leader);
    snprintf(c->state.leader.value, sizeof c->state.leader.value, "%s", value);
    c->state.leader.token = token;
    c->state.leader_seen = true;
    wake(c);
    pthread_mutex_unlock(&c->lock);
}

/* ---- calls on the thread pool ---- */

static void free_job(napi_env env, struct job *job)
{
    napi_delete_reference(env, job->keep);
    napi_delete_async_work(env, job->work);
    free(job);
}

static void on_done(napi_env env, napi_status status, void *data)
{
    struct job *job = data;
    (void)status;
    if (job->error)
        napi_reject_deferred(env, job->deferred, error_value(env, job->error, job->why));
    else
        napi_resolve_deferred(env, job->deferred, leader_value(env, &job->leader));
    free_job(env, job);
}

static struct job *new_job(napi_env env)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        napi_throw_error(env, "ENOMEM", "out of memory");
    return job;
}

/* Starts `execute` on the thread pool and returns a promise. */
static napi_value start_job(napi_env env, napi_value holder, struct job *job,
                            napi_async_execute_callback execute,
                            napi_async_complete_callback complete)
{
    napi_value promise = NULL;
    napi_create_promise(env, &job->deferred, &promise);
    napi_create_reference(env, holder, 1, &job->keep);
    napi_create_async_work(env, NULL, text_value(env, "bellwether"), execute, complete, job,
                           &job->work);
    napi_queue_async_work(env, job->work);
    return promise;
}

static napi_value start(napi_env env, napi_value holder, struct candidate *c,
                        napi_async_execute_callback execute, napi_async_complete_callback complete)
{
    struct job *job = new_job(env);
    if (!job)
        return NULL;
    job->c = c;
    job->l = c->l;
    return start_job(env, holder, job, execute, complete);
}

/* bw_why() belongs to the thread, so it is copied here. */
static void note(struct job *job, int error)
{
    job->error = error;
    if (error)
        snprintf(job->why, sizeof job->why, "%s", bw_why());
}

static void execute_open(napi_env env, void *data)
{
    struct job *job = data;
    struct candidate *c = job->c;
    (void)env;
    note(job, bw_open(c->url, &c->options, &c->handle));
    if (job->error)
        return;
    note(job, bw_contend(c->handle, c->election, &c->campaign, &job->l));
    if (job->error) {
        bw_close(c->handle);
        c->handle = NULL;
    }
}

static void on_opened(napi_env env, napi_status status, void *data)
{
    struct job *job = data;
    struct candidate *c = job->c;
    if (job->error)
        napi_release_threadsafe_function(c->changed, napi_tsfn_release);
    else
        c->l = job->l;
    on_done(env, status, data);
}

static void execute_close(napi_env env, void *data)
{
    struct job *job = data;
    struct timespec pause = {.tv_nsec = 1000000};
    (void)env;
    note(job, bw_resign(job->l));
    while (bw_close(job->c->handle) == BW_EBUSY) /* a callback is running */
        nanosleep(&pause, NULL);
}

static void on_closed(napi_env env, napi_status status, void *data)
{
    struct job *job = data;
    job->c->handle = NULL;
    napi_release_threadsafe_function(job->c->changed, napi_tsfn_release);
    on_done(env, status, data);
}

static void execute_leader(napi_env env, void *data)
{
    struct job *job = data;
    struct bw_handle *handle;
    (void)env;
    note(job, bw_open(job->c->url, NULL, &handle));
    if (job->error)
        return;
    job->leader = bw_leader_info_default();
    note(job, bw_leader(handle, job->c->election, &job->leader));
    bw_close(handle);
}

/* ---- functions for index.js ---- */

static void on_environment_end(void *data)
{
    struct candidate *c = data;
    pthread_mutex_lock(&c->lock);
    c->quiet = true;
    pthread_mutex_unlock(&c->lock);
}

/* A candidate that is still open when its environment ends is left to the end of the process: the
 * library's thread uses it. */
static void finalize(napi_env env, void *data, void *hint)
{
    struct candidate *c = data;
    (void)hint;
    napi_remove_env_cleanup_hook(env, on_environment_end, c);
    if (c->handle)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static struct candidate *candidate_of(napi_env env, napi_callback_info info,
                                      napi_value arguments[3])
{
    size_t count = 3;
    void *data = NULL;
    napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
    napi_get_value_external(env, arguments[0], &data);
    return data;
}

static bool read_options(napi_env env, napi_value object, struct candidate *c)
{
    int64_t drift = 0, priority = 0;
    c->options = bw_options_default();
    c->campaign = bw_campaign_options_default();
    bool good = read_text(env, object, "url", c->url) &&
                read_text(env, object, "election", c->election) &&
                read_text(env, object, "id", c->id) && read_text(env, object, "value", c->value) &&
                read_number(env, object, "ttl", &c->options.ttl_ms) &&
                read_number(env, object, "killAfter", &c->options.kill_after_ms) &&
                read_number(env, object, "margin", &c->options.margin_ms) &&
                read_number(env, object, "retry", &c->options.retry_ms) &&
                read_number(env, object, "grace", &c->options.grace_ms) &&
                read_number(env, object, "clockUncertainty", &c->options.clock_uncertainty_ms) &&
                read_number(env, object, "driftPpm", &drift) &&
                read_number(env, object, "priority", &priority);
    c->options.drift_ppm = (uint32_t)drift;
    c->options.id = c->id[0] ? c->id : NULL;
    c->options.elected = on_elected;
    c->options.lost = on_lost;
    c->observer = read_flag(env, object, "observer");
    c->options.leader_changed = c->observer ? on_leader : NULL;
    c->campaign.value = c->value[0] ? c->value : NULL;
    c->campaign.priority = (int32_t)priority;
    c->campaign.preferred = read_flag(env, object, "preferred");
    c->campaign.observer = c->observer;
    c->campaign.overdue = read_flag(env, object, "abort") ? BW_OVERDUE_ABORT : BW_OVERDUE_REPORT;
    c->campaign.context = c;
    return good;
}

/* create(options): a candidate that is not open yet. */
static napi_value create(napi_env env, napi_callback_info info)
{
    napi_value arguments[3], external;
    candidate_of(env, info, arguments);
    struct candidate *c = calloc(1, sizeof *c);
    if (!c) {
        napi_throw_error(env, "ENOMEM", "out of memory");
        return NULL;
    }
    if (!read_options(env, arguments[0], c)) {
        free(c);
        return NULL;
    }
    c->state.leader = bw_leader_info_default();
    pthread_mutex_init(&c->lock, NULL);
    napi_create_external(env, c, finalize, NULL, &external);
    return external;
}

/* open(candidate, changed): starts to contend; a promise. */
static napi_value open_candidate(napi_env env, napi_callback_info info)
{
    napi_value arguments[3];
    struct candidate *c = candidate_of(env, info, arguments);
    napi_create_threadsafe_function(env, arguments[1], NULL, text_value(env, "bellwether"), 0, 1,
                                    NULL, NULL, NULL, NULL, &c->changed);
    /* After the function's own hook, hence run before it. */
    napi_add_env_cleanup_hook(env, on_environment_end, c);
    return start(env, arguments[0], c, execute_open, on_opened);
}

/* close(candidate): resigns and closes; a promise. */
static napi_value close_candidate(napi_env env, napi_callback_info info)
{
    napi_value arguments[3];
    struct candidate *c = candidate_of(env, info, arguments);
    napi_value promise = start(env, arguments[0], c, execute_close, on_closed);
    c->l = NULL;
    return promise;
}

/* leader(candidate): reads the leader from the store; a promise. */
static napi_value read_leader(napi_env env, napi_callback_info info)
{
    napi_value arguments[3];
    struct candidate *c = candidate_of(env, info, arguments);
    return start(env, arguments[0], c, execute_leader, on_done);
}

/* state(candidate): what the callbacks and the clock say now. */
static napi_value read_state(napi_env env, napi_callback_info info)
{
    napi_value arguments[3], value, number;
    struct candidate *c = candidate_of(env, info, arguments);
    pthread_mutex_lock(&c->lock);
    struct state state = c->state;
    pthread_mutex_unlock(&c->lock);
    bool leading = c->l && bw_is_leader(c->l);
    enum bw_loss reason = c->l ? bw_reason(c->l) : BW_LOSS_NONE;
    napi_create_object(env, &value);
    napi_set_named_property(env, value, "elected", flag_value(env, state.elected));
    napi_set_named_property(env, value, "lost", flag_value(env, state.lost));
    napi_set_named_property(env, value, "leading", flag_value(env, leading && !state.lost));
    napi_set_named_property(env, value, "reason", text_value(env, bw_loss_name(reason)));
    napi_set_named_property(env, value, "token", token_value(env, state.token));
    napi_set_named_property(env, value, "id", text_value(env, c->l ? bw_id(c->handle) : ""));
    napi_create_int64(env, c->l ? bw_valid_ms(c->l) : 0, &number);
    napi_set_named_property(env, value, "valid", number);
    napi_set_named_property(env, value, "leaderSeen", flag_value(env, state.leader_seen));
    napi_set_named_property(env, value, "leader", leader_value(env, &state.leader));
    return value;
}

static napi_value finish(napi_env env, int error)
{
    if (error)
        napi_throw(env, error_value(env, error, bw_why()));
    return undefined(env);
}

/* transfer(candidate, {successor}) */
static napi_value transfer(napi_env env, napi_callback_info info)
{
    napi_value arguments[3];
    char successor[TEXT_MAX] = "";
    struct candidate *c = candidate_of(env, info, arguments);
    if (!read_text(env, arguments[1], "successor", successor))
        return NULL;
    return finish(env, c->l ? bw_transfer(c->l, successor) : BW_ENOTLEADER);
}

/* healthy(candidate, {healthy}) */
static napi_value healthy(napi_env env, napi_callback_info info)
{
    napi_value arguments[3];
    struct candidate *c = candidate_of(env, info, arguments);
    return finish(env, c->l ? bw_healthy(c->l, read_flag(env, arguments[1], "healthy")) : 0);
}

/* ---- guards ---- */

/* Reads ({path}, token). False: with a pending exception. */
static bool read_guard(napi_env env, napi_callback_info info, char path[TEXT_MAX], uint64_t *token)
{
    napi_value arguments[2];
    size_t count = 2;
    bool exact = false;
    napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
    if (!read_text(env, arguments[0], "path", path))
        return false;
    if (napi_get_value_bigint_uint64(env, arguments[1], token, &exact) == napi_ok && exact)
        return true;
    napi_throw_type_error(env, "EINVAL", "invalid token: expected a BigInt, as lead.token");
    return false;
}

/* guardCheck({path}, token): opens the guard, checks the token, closes it. */
static napi_value guard_check(napi_env env, napi_callback_info info)
{
    char path[TEXT_MAX] = "", why[BW_GUARD_WHY_MAX + 1] = "";
    uint64_t token = 0;
    struct bw_guard *guard = NULL;
    if (!read_guard(env, info, path, &token))
        return NULL;
    int error = bw_guard_open(&guard, path, why);
    if (!error)
        error = bw_guard_check(guard, token, NULL, why);
    bw_guard_close(guard);
    if (error)
        napi_throw(env, error_value(env, error, why));
    return undefined(env);
}

static void close_held(struct held *held)
{
    bw_guard_release(held->guard); /* at once, also if a process that is being forked has a copy */
    bw_guard_close(held->guard);
    held->guard = NULL;
}

/* The environment may end while the thread pool uses the guard. Then the end of the process closes
 * it. */
static void finalize_held(napi_env env, void *data, void *hint)
{
    struct held *held = data;
    (void)env;
    (void)hint;
    if (held->busy)
        return;
    close_held(held);
    free(held);
}

/* guardOpen({path}, token): a guard for guardHold and guardClose. */
static napi_value guard_open(napi_env env, napi_callback_info info)
{
    char path[TEXT_MAX] = "", why[BW_GUARD_WHY_MAX + 1] = "";
    napi_value external;
    uint64_t token = 0;
    if (!read_guard(env, info, path, &token))
        return NULL;
    struct held *held = calloc(1, sizeof *held);
    if (!held) {
        napi_throw_error(env, "ENOMEM", "out of memory");
        return NULL;
    }
    int error = bw_guard_open(&held->guard, path, why);
    if (error) {
        free(held);
        napi_throw(env, error_value(env, error, why));
        return NULL;
    }
    held->token = token;
    napi_create_external(env, held, finalize_held, NULL, &external);
    return external;
}

static void execute_hold(napi_env env, void *data)
{
    struct job *job = data;
    struct bw_guard_verdict verdict = {0};
    (void)env;
    job->error = bw_guard_hold(job->held->guard, job->held->token, 0, &verdict, job->why);
    job->held->taken = job->error == BW_EBUSY && verdict.error == 0;
}

/* Resolves with null if the guard is held, and with the error if another holder has the lock. */
static void on_hold_tried(napi_env env, napi_status status, void *data)
{
    struct job *job = data;
    struct held *held = job->held;
    held->busy = false;
    if (held->taken) {
        napi_resolve_deferred(env, job->deferred, error_value(env, job->error, job->why));
        free_job(env, job);
    } else {
        on_done(env, status, data);
    }
}

static struct held *held_of(napi_env env, napi_callback_info info, napi_value arguments[1])
{
    size_t count = 1;
    void *data = NULL;
    napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
    napi_get_value_external(env, arguments[0], &data);
    return data;
}

/* guardHold(guard): checks the token and tries to lock the guard; a promise. */
static napi_value guard_hold(napi_env env, napi_callback_info info)
{
    napi_value arguments[1];
    struct held *held = held_of(env, info, arguments);
    struct job *job = new_job(env);
    if (!job)
        return NULL;
    job->held = held;
    held->busy = true;
    return start_job(env, arguments[0], job, execute_hold, on_hold_tried);
}

/* guardClose(guard): also releases it. */
static napi_value guard_close(napi_env env, napi_callback_info info)
{
    napi_value arguments[1];
    close_held(held_of(env, info, arguments));
    return undefined(env);
}

NAPI_MODULE_INIT()
{
    static const struct {
        const char *name;
        napi_callback function;
    } functions[] = {
        {"create", create},        {"open", open_candidate},    {"close", close_candidate},
        {"leader", read_leader},   {"state", read_state},       {"transfer", transfer},
        {"healthy", healthy},      {"guardCheck", guard_check}, {"guardOpen", guard_open},
        {"guardHold", guard_hold}, {"guardClose", guard_close}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        napi_value function;
        napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, NULL,
                             &function);
        napi_set_named_property(env, exports, functions[i].name, function);
    }
    return exports;
}
