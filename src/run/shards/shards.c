/* The launcher's loop, see shards.h. Signals come through a signalfd as in the supervisor: one of
 * the terminal has reached the supervisors already, one that was sent to us alone is passed on. */
#include "run/shards/state.h"

#include "core/base/error.h"
#include "run/contain/contain.h"
#include "run/contain/proc.h"
#include "run/shards/told.h"
#include "run/supervisor/supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTS_MAX                                                                                 \
    4u /* at once; then the loop breathes: nothing costs a store more than a start                 \
        */
#define BREATHE_NS (50 * BW_MS)
#define LEAVE_NS   (200 * BW_MS)  /* nobody waits longer for our farewell */
#define LINGER_NS  (1500 * BW_MS) /* peers: that all is done is said three times */

static const int handled[] = {SIGTERM,  SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                              SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD};

/* ---- the end ---- */

static bool any_left(const struct launcher *l)
{
    for (uint32_t i = 0; i < l->order->shards; i++)
        if (l->pids[i] > 0)
            return true;
    return l->told && bw_told_waits(l->told);
}

static void tell_all(const struct launcher *l, int number)
{
    for (uint32_t i = 0; i < l->order->shards; i++)
        if (l->pids[i] > 0)
            kill(l->pids[i], number);
}

static void stop_if_over(struct launcher *l)
{
    if (l->ending && !l->leaving && !any_left(l))
        uv_stop(&l->loop);
}

void bw_launcher_end(struct launcher *l, int code)
{
    struct bw_store_request leave = {
        .op = BW_STORE_LEAVE, .election = l->order->election, .candidate = l->order->id};
    l->ending = true;
    l->exit_code = code;
    l->step = ROUND_REST;
    l->round_at = BW_TIME_NEVER;
    l->leaving = l->asked && l->lists && bw_asked_ask(l->asked, &leave, LEAVE_NS) == 0;
    if (l->told)
        tell_all(l, SIGTERM); /* who was told already ends no sooner */
    stop_if_over(l);
}

void bw_launcher_end_shard(struct launcher *l, uint32_t shard, const char *reason)
{
    struct bw_log_field fields[] = {{"shard", NULL, shard}, {"reason", reason, 0}, BW_LOG_END};
    bw_log_event(&l->log, BW_LOG_INFO, "shard-end", fields, "shard %u is let go: %s", shard,
                 reason);
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
                     shard, ours || !l->lists ? "" : ": nobody leads it");
        return;
    }
    bw_shards_ended(&l->core, shard, 71, now);
    bw_log_event(&l->log, BW_LOG_ERROR, "shard-failed", fields,
                 "shard %u: no process for its supervisor: %s", shard, strerror(errno));
}

static void sleep_until(struct launcher *l, bw_time until, bw_time now)
{
    if (l->told)
        bw_told_sleep(l->told, until, now);
    else
        bw_asked_alarm(l->asked, bw_time_min(until, l->step == ROUND_REST ? l->round_at : until));
}

void bw_launcher_act(struct launcher *l)
{
    bw_time now = bw_run_now();
    uint32_t shard;
    if (l->ending || (!l->asked && !l->told))
        return;
    if (l->told)
        bw_told_act(l->told, now);
    while ((shard = bw_shards_next_end(&l->core)) != BW_SHARD_NONE) {
        bw_shards_ending(&l->core, shard);
        bw_launcher_end_shard(l, shard, "another has done it");
    }
    for (unsigned i = 0; i < STARTS_MAX && now >= l->breathe_until; i++) {
        shard = bw_shards_next_start(&l->core, now);
        if (shard == BW_SHARD_NONE)
            break;
        start_shard(l, shard, now);
        if (i + 1 == STARTS_MAX)
            l->breathe_until = bw_time_add(now, BREATHE_NS);
    }
    if (bw_shards_finished(&l->core) && l->told && l->linger_until == 0)
        l->linger_until = bw_time_add(now, LINGER_NS);
    if (bw_shards_finished(&l->core) && now >= l->linger_until) {
        bw_log_event(&l->log, BW_LOG_INFO, "all-done", NULL, "all %u shards are done",
                     l->order->shards);
        bw_launcher_end(l, 0);
        return;
    }
    bw_time next = bw_time_max(bw_shards_deadline(&l->core), l->breathe_until);
    sleep_until(l, l->linger_until ? bw_time_min(next, l->linger_until) : next, now);
}

static void on_alarm(void *context, bw_time now)
{
    struct launcher *l = context;
    if (!l->ending && l->step == ROUND_REST && now >= l->round_at)
        bw_launcher_round(l);
    bw_launcher_act(l);
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct launcher *l = context;
    l->seen |= reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    if (l->refused && !l->ending)
        bw_launcher_end(l, 64);
    else if (reply->op == BW_STORE_LEAVE) {
        l->leaving = false;
        stop_if_over(l);
    } else if (!l->ending) {
        bw_launcher_answer(l, reply);
        bw_launcher_act(l);
    }
}

static void on_away(void *context, bool away, int error, const char *why)
{
    struct launcher *l = context;
    struct bw_log_field fields[] = {{"store", l->order->store_shown, 0}, BW_LOG_END};
    if (away && !l->seen && bw_run_store_refuses(error)) {
        l->refused = true; /* ended by the answer that follows */
        fprintf(stderr, "bellwether run: --store: %s\n", why);
    } else if (away)
        bw_log_event(&l->log, BW_LOG_WARNING, "store-away", fields,
                     "the store does not answer (%s); what runs goes on", why);
    else
        bw_log_event(&l->log, BW_LOG_INFO, "store-back", fields, "the store answers again");
}

/* ---- signals ---- */

static void say_ended(struct launcher *l, uint32_t shard, enum bw_shard_fate fate, int code)
{
    char pause[24];
    struct bw_log_field fields[] = {
        {"shard", NULL, shard}, {"code", NULL, (uint64_t)code}, BW_LOG_END};
    if (fate == BW_SHARD_DONE)
        bw_log_event(&l->log, BW_LOG_INFO, "shard-done", fields, "shard %u is done", shard);
    else if (fate == BW_SHARD_FAILED && !l->ending)
        bw_log_event(
            &l->log, BW_LOG_WARNING, "shard-failed", fields,
            "shard %u ended with %d; contending for it again in %s", shard, code,
            bw_log_span(pause, bw_time_max(0, l->core.at[shard].start_from - bw_run_now())));
}

void bw_launcher_ended(struct launcher *l, uint32_t shard, int status)
{
    bool killed = WIFSIGNALED(status);
    int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    say_ended(l, shard,
              (killed ? bw_shards_killed : bw_shards_ended)(&l->core, shard, code, bw_run_now()),
              code);
    stop_if_over(l);
}

static void reap(struct launcher *l)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < l->order->shards; i++) {
            if (l->pids[i] != pid)
                continue;
            l->pids[i] = 0;
            if (l->told)
                bw_told_child_died(l->told, i, status);
            else
                bw_launcher_ended(l, i, status);
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
            tell_all(l, number);
        if (l->ending)
            break;
        bw_log_event(&l->log, BW_LOG_INFO, "signal", fields, "got SIG%s: ending",
                     sigabbrev_np(number));
        bw_launcher_end(l, 128 + number);
        break;
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
        if (!terminal)
            tell_all(l, number);
        break;
    default:
        break; /* Ctrl-Z and the terminal's stops: a leader cannot be suspended */
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

/* A signal that was ignored when we were started stays ignored. */
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
    if (l->told)
        bw_log_event(&l->log, BW_LOG_INFO, "shards", fields, "%u shards are spread over the peers",
                     l->order->shards);
    else if (l->lists)
        bw_log_event(&l->log, BW_LOG_INFO, "shards", fields,
                     "%u shards are spread over the candidates", l->order->shards);
    else
        bw_log_event(&l->log, BW_LOG_WARNING, "shards", fields,
                     "the store does not know its candidates: %u shards go to whoever has fewer "
                     "when they become free, and are not moved when a candidate comes",
                     l->order->shards);
    l->round_at = bw_run_now();
    if (l->told)
        bw_launcher_act(l);
    else
        bw_asked_alarm(l->asked, l->round_at);
}

static int cannot_open(struct launcher *l, int error, const char *why)
{
    if (bw_run_store_error_lasts(error)) {
        fprintf(stderr, "bellwether run: --store: %s\n", why);
        return 64;
    }
    if (!l->away)
        on_away(l, true, error, why);
    l->away = true;
    uint64_t pause = (uint64_t)(l->order->retry_ns / BW_MS) + 1;
    return uv_timer_start(&l->opening, on_opening, pause, 0) == 0 ? GO : 71;
}

/* The supervisors look at the store once more, each for itself; what they would all refuse is
 * refused here. */
static int open_store(struct launcher *l)
{
    char why[BW_WHY_MAX + 1] = "";
    struct bw_asker_options options = {.context = l, .away = on_away};
    struct bw_asked_hooks hooks = {.answer = on_answer, .alarm = on_alarm};
    int error = bw_asker_open(&l->asker, l->order->store, &l->loop, &options, why);
    if (error)
        return cannot_open(l, error, why);
    unsigned traits = bw_asker_store_ops(l->asker)->traits;
    if (l->order->compares_clocks && !(traits & BW_STORE_WALL)) {
        fprintf(stderr, "bellwether run: --clock-uncertainty: this store does not keep a lease's "
                        "end by wall clock\n");
        return 64;
    }
    if (l->away)
        on_away(l, false, 0, "");
    l->lists = traits & BW_STORE_LISTS;
    if (bw_asked_new(&l->asked, l->asker, NULL, &hooks, l) != 0)
        return 71;
    begin(l);
    return GO;
}

/* A peer that cannot be opened is not tried again: nothing but its settings or its disk is in the
 * way. */
static int open_told(struct launcher *l)
{
    char why[BW_WHY_MAX + 1] = "";
    int error = bw_told_open(&l->told, l, why);
    if (error) {
        fprintf(stderr, "bellwether peer: %s\n", why[0] ? why : bw_error_text(error));
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
    bw_asked_free(l->asked);
    if (l->asker)
        bw_asker_close(l->asker);
    if (l->told)
        bw_told_close(l->told);
    if (l->signals.loop)
        uv_close((uv_handle_t *)&l->signals, NULL);
    uv_close((uv_handle_t *)&l->opening, NULL);
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
        perror("bellwether run: cannot start");
        free(l);
        return 71;
    }
    l->order = order;
    l->signal_fd = -1;
    uv_timer_init(&l->loop, &l->opening);
    l->opening.data = l;
    bw_log_init(&l->log, order->log, STDERR_FILENO, order->election, order->id);
    bw_rng_init(&l->rng, bw_contain_random());
    int code = open_signals(l) == 0 ? (order->told ? open_told : open_store)(l) : 71;
    if (code == GO) {
        uv_run(&l->loop, UV_RUN_DEFAULT);
        code = l->exit_code;
    }
    close_all(l);
    return code;
}
