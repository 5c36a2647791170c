/* The loop of `bellwether run`. All times are CLOCK_BOOTTIME. libuv's own timers use MONOTONIC,
 * which stops during suspend. So the loop watches one timerfd, armed for the next deadline of the
 * supervisor. The asker times the elector in the same way. */
#include "run/supervisor/state.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "run/contain/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLEANUP_POLL_NS BW_MS

/* ---- time ---- */

static bw_time next_due(const struct supervisor *s)
{
    bw_time next = bw_time_min(bw_supervisor_guardian_deadline(s), s->open_at);
    next = bw_time_min(next, bw_supervisor_beside_deadline(s));
    next = bw_time_min(next, s->ending ? BW_TIME_NEVER : s->drain_at);
    next = bw_time_min(next, bw_status_deadline(s->http));
    next = bw_time_min(next, s->elected_once ? BW_TIME_NEVER : s->give_up_at);
    if (s->stopped)
        next = bw_time_min(next, s->close_at);
    if (s->cleaning_up && !s->fencing)
        next = bw_time_min(next, bw_clock_boot() + CLEANUP_POLL_NS);
    return next;
}

static void arm(struct supervisor *s)
{
    bw_time at = next_due(s);
    if (at == s->armed_at)
        return;
    struct itimerspec when = {{0, 0}, {0, 0}};
    s->armed_at = at;
    if (at != BW_TIME_NEVER) {
        bw_time not_zero = bw_time_max(at, 1); /* 0 would disarm it */
        when.it_value.tv_sec = not_zero / BW_SEC;
        when.it_value.tv_nsec = not_zero % BW_SEC;
    }
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool duplicate_id_leads(const struct supervisor *s)
{
    struct bw_lease_status status;
    if (!s->asked)
        return false;
    bw_lease_status(bw_asker_client_lease(s->asked), &status);
    return strcmp(status.leader, s->config->id) == 0;
}

int bw_supervisor_give_up(struct supervisor *s, bool reached)
{
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    bool no_wait = s->config->no_wait;
    if (reached)
        bw_log_event(&s->log, BW_LOG_WARNING, "gave-up", fields, "not elected%s; giving up%s",
                     no_wait ? ", and -n forbids waiting" : " within the --wait time",
                     duplicate_id_leads(s)
                         ? "; the leader has the same --id: it is another candidate, or "
                           "an earlier run of this one whose lease has not expired"
                         : "");
    else /* the cause, too: with --log quiet this is the only line */
        bw_log_event(&s->log, BW_LOG_ERROR, "gave-up", fields,
                     "store unreachable%s (%s); giving up",
                     no_wait ? ", and -n forbids waiting" : " for the whole --wait time",
                     s->store_why[0] ? s->store_why : "no answer in time");
    return reached ? (int)s->config->exit_not_elected : BW_RUN_EXIT_UNREACHABLE;
}

static void on_timer(uv_poll_t *handle, int status, int events)
{
    struct supervisor *s = handle->data;
    uint64_t count;
    (void)status;
    (void)events;
    (void)!read(s->timer_fd, &count, sizeof count);
    s->armed_at = -1;
    bw_time now = bw_clock_boot();
    bw_supervisor_store_tick(s, now);
    bw_supervisor_guardian_tick(s, now);
    bw_supervisor_cleanup(s, now);
    bw_status_tick(s->http, now);
    bw_supervisor_drain_tick(s, now);
    if (s->started)
        bw_supervisor_health_tick(s, now);
    if (now >= s->give_up_at && !s->elected_once && !s->ending)
        bw_supervisor_end(s, bw_supervisor_give_up(s, s->store_seen));
}

/* The loop calls this before it waits. */
static void on_prepare(uv_prepare_t *handle)
{
    struct supervisor *s = handle->data;
    bool waits = s->asked && bw_asker_client_is_waiting(s->asked) && bw_clock_boot() < s->close_at;
    if (s->stopped && !waits && (s->urgent || !bw_child_hook_runs(&s->children)))
        uv_stop(&s->loop);
    bw_status_update(s->http);
    arm(s);
}

/* ---- opening and closing ---- */

static bool is_ours(const char *entry)
{
    static const char cookie[] = BW_CONTAIN_COOKIE "=";
    static const char *const names[] = {
        "BELLWETHER_ELECTION=", "BELLWETHER_ID=",         "BELLWETHER_TOKEN=",
        "BELLWETHER_STORE=",    "BELLWETHER_STORE_FILE=", cookie};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static char *entry(const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%s=%s", name, value);
    return text;
}

static void free_environment(char **environment)
{
    for (size_t i = 0; environment && environment[i]; i++) {
        bool inherited = false; /* all other entries were made by entry() */
        for (size_t k = 0; environ[k] && !inherited; k++)
            inherited = environ[k] == environment[i];
        if (!inherited)
            free(environment[i]);
    }
    free(environment);
}

/* Appends an entry. An entry without memory would end the list: the work would run without the
 * variables behind it. */
static bool add_entry(char **environment, size_t *used, const char *name, const char *value)
{
    environment[*used] = entry(name, value);
    return environment[(*used)++] != NULL;
}

/* Makes the environment of the work: inherited entries, except those that Bellwether sets, and then
 * these. The guardian adds the token. Returns NULL if memory is exhausted. */
static char **make_environment(struct supervisor *s)
{
    const struct bw_run_config *config = s->config;
    char text[128];
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **out = calloc(count + 12, sizeof *out);
    if (!out)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i]))
            out[used++] = environ[i];
    bool good = add_entry(out, &used, "BELLWETHER_ELECTION", config->election) &&
                add_entry(out, &used, "BELLWETHER_ID", config->id) &&
                add_entry(out, &used, "BELLWETHER_STORE", config->store_shown);
    if (good && config->store_file)
        good = add_entry(out, &used, "BELLWETHER_STORE_FILE", config->store_file);
    if (good && config->watchdog_ns && bw_supervisor_notify_open(s, text, sizeof text) == 0) {
        good = add_entry(out, &used, "NOTIFY_SOCKET", text);
        snprintf(text, sizeof text, "%lld", (long long)(config->watchdog_ns / BW_US));
        good = good && add_entry(out, &used, "WATCHDOG_USEC", text);
    }
    if (!good)
        free_environment(out);
    return good ? out : NULL;
}

static int open_timer(struct supervisor *s)
{
    s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->timer_fd < 0 || uv_poll_init(&s->loop, &s->timer, s->timer_fd) != 0)
        return BW_ENOMEM;
    s->timer.data = s;
    return uv_poll_start(&s->timer, UV_READABLE, on_timer) == 0 ? 0 : BW_ENOMEM;
}

static int open_all(struct supervisor *s, uv_prepare_t *prepare)
{
    if (!s->guardian_config.environment) {
        bw_log_event(&s->log, BW_LOG_ERROR, "start-failed", NULL, "cannot start: out of memory");
        return 71;
    }
    if (!bw_run_has_descriptors() || bw_supervisor_guardian_start(s) != 0 ||
        uv_loop_init(&s->loop) != 0) {
        bw_log_event(&s->log, BW_LOG_ERROR, "start-failed", NULL, "cannot start: %s",
                     strerror(errno));
        return 71;
    }
    uv_prepare_init(&s->loop, prepare);
    prepare->data = s;
    uv_prepare_start(prepare, on_prepare);
    int code = bw_supervisor_store_open(s);
    if (code != BW_RUN_GO)
        return code;
    if (open_timer(s) != 0 || bw_supervisor_signals_open(s) != 0 ||
        bw_supervisor_guardian_listen(s) != 0 || bw_supervisor_notify_listen(s) != 0) {
        bw_log_event(&s->log, BW_LOG_ERROR, "start-failed", NULL, "cannot start: out of resources");
        return 71;
    }
    return bw_supervisor_http_open(s) == 0 ? BW_RUN_GO : 71;
}

/* The guardian ends when its socket closes. A guardian that does not end (stopped) is killed: the
 * work is confirmed dead or was never started, so there is nothing left to guard. */
static void dismiss_guardian(struct supervisor *s)
{
    bw_time until = bw_clock_boot() + BW_SEC;
    if (s->socket_fd >= 0)
        close(s->socket_fd);
    s->socket_fd = -1;
    while (s->guardian_pid > 0 && waitpid(s->guardian_pid, NULL, WNOHANG) == 0) {
        if (bw_clock_boot() >= until)
            kill(s->guardian_pid, SIGKILL);
        struct timespec pause = {.tv_nsec = BW_MS / 2};
        nanosleep(&pause, NULL);
    }
}

static void close_handle(uv_handle_t *handle)
{
    if (handle->loop && !uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_all(struct supervisor *s, uv_prepare_t *prepare)
{
    close_handle((uv_handle_t *)&s->timer);
    close_handle((uv_handle_t *)&s->signals);
    close_handle((uv_handle_t *)&s->socket);
    close_handle((uv_handle_t *)&s->notify);
    close_handle((uv_handle_t *)prepare);
    bw_drain_deinit(&s->drain);
    bw_notify_close(&s->manager);
    bw_supervisor_fence_close(s);
    s->log.tap = NULL;
    bw_status_close(s->http);
    bw_supervisor_store_close(s);
    if (prepare->loop) {
        uv_run(&s->loop, UV_RUN_DEFAULT);
        uv_loop_close(&s->loop);
    }
    dismiss_guardian(s);
    bw_supervisor_history_close(s);
    bw_child_end_all(&s->children);
    if (s->timer_fd >= 0)
        close(s->timer_fd);
    if (s->signal_fd >= 0)
        close(s->signal_fd);
    if (s->notify_fd >= 0)
        close(s->notify_fd);
    free_environment(s->guardian_config.environment);
    free(s);
}

/* Disables our own core dumps if we know a secret, because other users may be able to read the dump
 * file. The work and the hooks keep the limit with which we were started. */
static void disable_core_dumps(struct supervisor *s)
{
    struct rlimit *before = &s->guardian_config.core;
    const struct bw_run_config *config = s->config;
    getrlimit(RLIMIT_CORE, before);
    s->children.core = *before;
    bool secret = config->fence_input || strcmp(config->store, config->store_shown) != 0;
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before->rlim_max};
    if (secret)
        setrlimit(RLIMIT_CORE, &none);
}

int bw_run(const struct bw_run_config *config)
{
    struct supervisor *s = calloc(1, sizeof *s);
    uv_prepare_t prepare = {.data = NULL};
    if (!s) {
        fputs("bellwether: cannot start: out of memory\n", stderr);
        return 71;
    }
    bw_run_fill_streams();
    s->config = config;
    s->timer_fd = s->signal_fd = s->socket_fd = s->notify_fd = s->fence_fd = -1;
    s->armed_at = s->own_kill_at = s->restart_at = s->ack_due = s->ready_due = s->close_at =
        s->open_at = BW_TIME_NEVER;
    s->restart_pause_ns = 50 * BW_MS;
    s->give_up_at = bw_time_add(bw_clock_boot(), config->wait_ns);
    bw_log_init(&s->log, config->log, STDERR_FILENO, config->election, config->id);
    bw_supervisor_block_signals(s);
    disable_core_dumps(s);
    bw_notify_open(&s->manager);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans of a dead guardian become our children */
    s->guardian_config.path = config->path;
    s->guardian_config.election = config->election;
    s->guardian_config.argv = config->argv;
    s->guardian_config.environment = make_environment(s);
    s->guardian_config.containment = config->containment;
    s->guardian_config.kill_after_ns = config->terms.kill_after_ns;
    s->guardian_log = s->log; /* its own: never one with a tap, even in a later guardian */
    s->guardian_config.log = &s->guardian_log;
    s->children.environment = s->guardian_config.environment;
    s->children.mask = s->guardian_config.mask;
    bw_supervisor_health_init(s);
    bw_drain_init(&s->drain, config->drain_dir);
    bw_supervisor_drain_look(s);
    bw_supervisor_history_open(s);
    bw_supervisor_dashboard_open(s);
    int code = open_all(s, &prepare);
    if (code == BW_RUN_GO) {
        bw_notify_beat(&s->manager, &s->loop);
        bw_notify_send(&s->manager, s->drain.drained
                                        ? "READY=1\nSTATUS=drained; waiting for the first election"
                                        : "READY=1\nSTATUS=waiting for the first election");
        uv_run(&s->loop, UV_RUN_DEFAULT);
        code = s->exit_code;
    }
    close_all(s, &prepare);
    return code;
}
