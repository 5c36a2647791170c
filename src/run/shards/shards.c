/* The loop of the launcher, see shards.h. Signals arrive through a signalfd, as in the supervisor:
 * a signal from the terminal has already reached the supervisors; a signal sent only to this
 * process is passed on. */
#include "run/shards/state.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "os/journal.h"
#include "run/contain/contain.h"
#include "run/contain/proc.h"
#include "run/shards/peer_shards.h"
#include "run/supervisor/supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Maximum number of supervisors started without a pause. A start is the most expensive operation
 * for a store. */
#define STARTS_MAX     4u
#define START_PAUSE_NS (50 * BW_MS)
#define LEAVE_NS       (200 * BW_MS) /* maximum wait for the answer to LEAVE */
/* peers: time to announce three times that all shards are done */
#define DRAIN_NS (1500 * BW_MS)

static const int handled[] = {SIGTERM,  SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                              SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD};

/* ---- the end ---- */

bool bw_launcher_any_left(const struct launcher *l)
{
    for (uint32_t i = 0; i < l->order->shards; i++)
        if (l->pids[i] > 0)
            return true;
    return l->peer_shards && bw_peer_shards_waits(l->peer_shards);
}

static void signal_all(const struct launcher *l, int number)
{
    for (uint32_t i = 0; i < l->order->shards; i++)
        if (l->pids[i] > 0)
            kill(l->pids[i], number);
}

static void stop_if_over(struct launcher *l)
{
    if (l->ending && !l->leaving && !bw_launcher_any_left(l))
        uv_stop(&l->loop);
}

void bw_launcher_end(struct launcher *l, int code)
{
    struct bw_store_request leave = {
        .op = BW_STORE_LEAVE, .election = l->order->election, .candidate = l->order->id};
    l->ending = true;
    l->exit_code = code;
    bw_notify_send(&l->manager, "STOPPING=1");
    l->step = ROUND_IDLE;
    l->round_at = BW_TIME_NEVER;
    l->leaving = l->asked && l->lists && bw_asker_client_request(l->asked, &leave, LEAVE_NS) == 0;
    if (l->peer_shards)
        /* a second SIGTERM has no effect on a supervisor that already stops */
        signal_all(l, SIGTERM);
    stop_if_over(l);
}

void bw_launcher_end_shard(struct launcher *l, uint32_t shard, const char *reason)
{
    struct bw_log_field fields[] = {{"shard", NULL, shard}, {"reason", reason, 0}, BW_LOG_END};
    bw_log_event(&l->log, BW_LOG_INFO, "shard-end", fields, "stopping shard %u: %s", shard, reason);
    if (l->pids[shard] > 0)
        kill(l->pids[shard], SIGTERM);
}

/* ---- starting ---- */

static void start_shard(struct launcher *l, uint32_t shard, bw_time now)
{
    struct bw_log_field fields[] = {{"shard", NULL, shard}, BW_LOG_END};
    bool ours = l->core.at[shard].ours;
    bw_shards_started(&l->core, shard, now);
    if (bw_launcher_spawn(l, shard) == 0) {
        bw_log_event(&l->log, BW_LOG_INFO, "shard-start", fields, "contending for shard %u%s",
                     shard, ours || !l->lists ? "" : ": it has no leader");
        return;
    }
    bw_shards_ended(&l->core, shard, 71, now);
    bw_log_event(&l->log, BW_LOG_ERROR, "shard-failed", fields,
                 "cannot start the supervisor of shard %u: %s", shard, strerror(errno));
}

static void sleep_until(struct launcher *l, bw_time until, bw_time now)
{
    if (l->peer_shards)
        bw_peer_shards_sleep(l->peer_shards, until, now);
    else
        bw_asker_client_alarm(l->asked,
                              bw_time_min(bw_time_min(until, bw_launcher_health_deadline(l)),
                                          l->step == ROUND_IDLE ? l->round_at : until));
}

void bw_launcher_act(struct launcher *l)
{
    bw_time now = bw_clock_boot();
    uint32_t shard;
    if (l->ending || (!l->asked && !l->peer_shards))
        return;
    if (l->peer_shards && now >= l->drain_at)
        bw_launcher_drain_look(l, now);
    bool may_start = !l->peer_shards || !l->drain.drained;
    if (l->peer_shards)
        bw_peer_shards_act(l->peer_shards, now);
    while ((shard = bw_shards_next_end(&l->core)) != BW_SHARD_NONE) {
        bw_shards_ending(&l->core, shard);
        bw_launcher_end_shard(l, shard, "another candidate has completed it");
    }
    for (unsigned i = 0; may_start && i < STARTS_MAX && now >= l->pause_until; i++) {
        shard = bw_shards_next_start(&l->core, now);
        if (shard == BW_SHARD_NONE)
            break;
        start_shard(l, shard, now);
        if (i + 1 == STARTS_MAX)
            l->pause_until = bw_time_add(now, START_PAUSE_NS);
    }
    if (bw_shards_finished(&l->core) && l->peer_shards && l->drain_until == 0)
        l->drain_until = bw_time_add(now, DRAIN_NS);
    if (bw_shards_finished(&l->core) && now >= l->drain_until) {
        bw_log_event(&l->log, BW_LOG_INFO, "all-done", NULL, "all %u shards are done",
                     l->order->shards);
        bw_launcher_end(l, 0);
        return;
    }
    bw_time next =
        may_start ? bw_time_max(bw_shards_deadline(&l->core), l->pause_until) : BW_TIME_NEVER;
    if (l->peer_shards)
        next = bw_time_min(next, l->drain_at);
    sleep_until(l, l->drain_until ? bw_time_min(next, l->drain_until) : next, now);
}

static void on_alarm(void *context, bw_time now)
{
    struct launcher *l = context;
    bw_launcher_health_tick(l, now);
    if (!l->ending && l->step == ROUND_IDLE && now >= l->round_at)
        bw_launcher_round(l);
    bw_launcher_act(l);
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct launcher *l = context;
    l->seen |= reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    if (l->refused && !l->ending)
        bw_launcher_end(l, 64);
    else if (reply->op == BW_STORE_LEAVE && l->ending) {
        l->leaving = false;
        stop_if_over(l);
    } else if (!l->ending) {
        bw_launcher_answer(l, reply);
        bw_launcher_act(l);
    }
}

static void on_availability(void *context, bool away, int error, const char *why)
{
    struct launcher *l = context;
    struct bw_log_field fields[] = {{"store", l->order->store_shown, 0}, BW_LOG_END};
    if (away && !l->seen && bw_run_store_refuses(error)) {
        l->refused = true; /* the answer that follows ends the run */
        bw_print_line(BW_PRIORITY_ERROR, "bellwether run: --store: %s", why);
    } else if (away)
        bw_log_event(&l->log, BW_LOG_WARNING, "store-unavailable", fields,
                     "the store does not answer (%s); running shards continue", why);
    else
        bw_log_event(&l->log, BW_LOG_INFO, "store-available", fields, "the store answers again");
}

/* ---- signals ---- */

static void log_ended(struct launcher *l, uint32_t shard, enum bw_shard_fate fate, int code)
{
    char pause[24];
    struct bw_log_field fields[] = {
        {"shard", NULL, shard}, {"code", NULL, (uint64_t)code}, BW_LOG_END};
    if (fate == BW_SHARD_DONE)
        bw_log_event(&l->log, BW_LOG_INFO, "shard-done", fields, "shard %u is done", shard);
    else if (fate == BW_SHARD_FAILED && !l->ending)
        bw_log_event(
            &l->log, BW_LOG_WARNING, "shard-failed", fields,
            "shard %u ended with exit code %d; contending for it again in %s", shard, code,
            bw_log_span(pause, bw_time_max(0, l->core.at[shard].start_from - bw_clock_boot())));
}

void bw_launcher_ended(struct launcher *l, uint32_t shard, int status)
{
    bool killed = WIFSIGNALED(status);
    int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    log_ended(l, shard,
              (killed ? bw_shards_killed : bw_shards_ended)(&l->core, shard, code, bw_clock_boot()),
              code);
    stop_if_over(l);
}

static void reap(struct launcher *l)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (bw_child_reaped(&l->children, pid, status))
            continue;
        for (uint32_t i = 0; i < l->order->shards; i++) {
            if (l->pids[i] != pid)
                continue;
            l->pids[i] = 0;
            if (l->peer_shards)
                bw_peer_shards_child_died(l->peer_shards, i, status);
            else
                bw_launcher_ended(l, i, status);
        }
    }
    stop_if_over(l);
    bw_launcher_act(l);
}

static void on_signal(struct launcher *l, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    bool terminal = info->ssi_code == SI_KERNEL;
    struct bw_log_field fields[] = {{"signal", NULL, (uint64_t)number}, BW_LOG_END};
    switch (number) {
    case SIGCHLD:
        reap(l);
        break;
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
        if (!terminal)
            signal_all(l, number);
        if (l->ending)
            break;
        bw_log_event(&l->log, BW_LOG_INFO, "signal", fields, "received SIG%s; stopping",
                     sigabbrev_np(number));
        bw_launcher_end(l, 128 + number);
        break;
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
        if (!terminal)
            signal_all(l, number);
        break;
    default:
        /* Ctrl-Z and other stop signals of the terminal are ignored: a suspended leader would do no
         * work */
        break;
    }
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct launcher *l = handle->data;
    struct signalfd_siginfo info;
    (void)status;
    (void)events;
    while (read(l->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(l, &info);
}

/* Opens the signalfd. A signal that was ignored when this process started stays ignored. */
static int open_signals(struct launcher *l)
{
    struct sigaction now;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        bool ignored = sigaction(handled[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
        if (!ignored || handled[i] == SIGCHLD)
            sigaddset(&set, handled[i]);
    }
    sigprocmask(SIG_BLOCK, &set, &l->mask);
    l->pipe_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
    signal(SIGCHLD, SIG_DFL);
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0 || uv_poll_init(&l->loop, &l->signals, l->signal_fd) != 0)
        return BW_ENOMEM;
    l->signals.data = l;
    return uv_poll_start(&l->signals, UV_READABLE, on_readable) == 0 ? 0 : BW_ENOMEM;
}

/* ---- beginning ---- */

#define GO (-1) /* no exit code yet */

static void on_opening(uv_timer_t *timer);

static void begin(struct launcher *l)
{
    struct bw_log_field fields[] = {{"shards", NULL, l->order->shards}, BW_LOG_END};
    struct bw_shards_config config = {.shards = l->order->shards,
                                      .self = bw_spread_key(l->order->id, strlen(l->order->id)),
                                      .retry_ns = l->order->retry_ns,
                                      .lists = l->lists};
    bw_shards_init(&l->core, &config);
    if (l->peer_shards)
        bw_log_event(&l->log, BW_LOG_INFO, "shards", fields, "%u shards are spread over the peers",
                     l->order->shards);
    else if (l->lists)
        bw_log_event(&l->log, BW_LOG_INFO, "shards", fields,
                     "%u shards are spread over the candidates", l->order->shards);
    else
        bw_log_event(
            &l->log, BW_LOG_WARNING, "shards", fields,
            "the store does not list candidates: each of the %u shards goes to the candidate "
            "with fewer shards when it becomes free, and is not moved when one joins",
            l->order->shards);
    l->round_at = bw_clock_boot();
    if (l->peer_shards)
        bw_launcher_act(l);
    else
        bw_asker_client_alarm(l->asked, l->round_at);
}

static int cannot_open(struct launcher *l, int error, const char *why)
{
    if (bw_run_store_error_is_permanent(error)) {
        bw_print_line(BW_PRIORITY_ERROR, "bellwether run: --store: %s", why);
        return 64;
    }
    if (!l->away)
        on_availability(l, true, error, why);
    l->away = true;
    uint64_t pause = (uint64_t)(l->order->retry_ns / BW_MS) + 1;
    return uv_timer_start(&l->opening, on_opening, pause, 0) == 0 ? GO : 71;
}

/* Opens the store. The supervisors open it again, each for itself. Errors that all of them would
 * report are reported here once. */
static int open_store(struct launcher *l)
{
    char why[BW_WHY_MAX + 1] = "";
    struct bw_asker_options options = {.context = l, .away = on_availability};
    struct bw_asker_client_hooks hooks = {.answer = on_answer, .alarm = on_alarm};
    int error = bw_asker_open(&l->asker, l->order->store, &l->loop, &options, why);
    if (error)
        return cannot_open(l, error, why);
    unsigned traits = bw_asker_store_ops(l->asker)->traits;
    if (l->order->compares_clocks && !(traits & BW_STORE_WALL)) {
        bw_print_line(BW_PRIORITY_ERROR,
                      "bellwether run: cannot use --clock-uncertainty: this store does not keep "
                      "the end of a lease as wall-clock time");
        return 64;
    }
    if (l->away)
        on_availability(l, false, 0, "");
    l->lists = traits & BW_STORE_LISTS;
    if (bw_asker_client_new(&l->asked, l->asker, NULL, &hooks, l) != 0)
        return 71;
    begin(l);
    return GO;
}

/* A peer that cannot be opened is not retried: only its settings or its disk can be the cause. */
static int open_peer(struct launcher *l)
{
    char why[BW_WHY_MAX + 1] = "";
    int error = bw_peer_shards_open(&l->peer_shards, l, why);
    if (error) {
        bw_print_line(BW_PRIORITY_ERROR, "bellwether peer: %s",
                      why[0] ? why : bw_error_text(error));
        return error == BW_ENOMEM ? 71 : 64;
    }
    begin(l);
    return GO;
}

static void on_opening(uv_timer_t *timer)
{
    struct launcher *l = timer->data;
    int code = l->ending ? GO : open_store(l);
    if (code != GO)
        bw_launcher_end(l, code);
}

static void close_all(struct launcher *l)
{
    bw_asker_client_free(l->asked);
    if (l->asker)
        bw_asker_close(l->asker);
    if (l->peer_shards)
        bw_peer_shards_close(l->peer_shards);
    if (l->signals.loop)
        uv_close((uv_handle_t *)&l->signals, NULL);
    uv_close((uv_handle_t *)&l->opening, NULL);
    bw_notify_close(&l->manager);
    bw_drain_deinit(&l->drain);
    bw_child_end_all(&l->children);
    while (uv_run(&l->loop, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&l->loop);
    if (l->signal_fd >= 0)
        close(l->signal_fd);
    free(l);
}

int bw_shards_run(const struct bw_shards_order *order)
{
    struct launcher *l = calloc(1, sizeof *l);
    bw_run_fill_streams();
    if (!l || !bw_run_has_descriptors() || uv_loop_init(&l->loop) != 0) {
        bw_print_line(BW_PRIORITY_ERROR, "bellwether run: cannot start: %s", strerror(errno));
        free(l);
        return 71;
    }
    l->order = order;
    l->signal_fd = -1;
    uv_timer_init(&l->loop, &l->opening);
    l->opening.data = l;
    bw_drain_init(&l->drain, order->drain_dir);
    bw_log_init(&l->log, order->log, STDERR_FILENO, order->election, order->id);
    bw_rng_init(&l->rng, bw_contain_random());
    bw_notify_open(&l->manager);
    bool good = open_signals(l) == 0;
    bw_launcher_health_init(l);
    int code = good ? (order->is_peer ? open_peer : open_store)(l) : 71;
    if (code == GO) {
        bw_notify_beat(&l->manager, &l->loop);
        bw_notify_line(&l->manager, "STATUS=contending for %u shards", order->shards);
        bw_notify_send(&l->manager, "READY=1");
        uv_run(&l->loop, UV_RUN_DEFAULT);
        code = l->exit_code;
    }
    close_all(l);
    return code;
}
