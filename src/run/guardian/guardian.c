/* The guardian's loop: four descriptors in, the core's actions out. Nothing here waits for anything
 * but poll: neither for the work nor for the supervisor. */
#include "run/guardian/guardian.h"

#include "core/base/assert.h"
#include "core/guardian/guardian.h"
#include "run/contain/proc.h"
#include "run/guardian/farewell.h"
#include "run/guardian/last_words.h"
#include "run/guardian/wire.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_PAUSE_MAX_MS 20
#define FAREWELL_NS       BW_SEC /* for the other side to hear it */

enum { FD_SOCKET, FD_SUPERVISOR, FD_TIMER, FD_SIGNAL, FD_EVENTS, FD_COUNT };

struct guardian {
    const struct bw_guardian_config *config;
    struct bw_guardian_core core;
    struct bw_contain contain;
    bool contained; /* there is one */
    int fd[FD_COUNT], lock_fd, words_fd, mouth_fd;
    unsigned char proof[BW_HOLD_PROOF]; /* of `lock_fd`, if it is a socket */
    pid_t work;
    uint64_t work_start;
    int status, look_pause_ms;
    bool ran, exited, done;
    bool leaving;   /* of the connection that `lock_fd` is */
    unsigned flags; /* of the message being handled */
    bw_time armed_at;
};

static void tell(struct guardian *g, struct bw_wire *wire)
{
    bw_wire_send(g->fd[FD_SOCKET], wire, -1);
}

static void feed(struct guardian *g, struct bw_guardian_event event);

/* ---- actions ---- */

static void prepare(struct guardian *g)
{
    struct bw_wire wire = {.kind = BW_WIRE_READY};
    char why[BW_WHY_MAX + 1] = "";
    bool fresh = !g->contained || !bw_contain_lasts(&g->contain);
    if (fresh && g->contained)
        bw_contain_remove(&g->contain);
    if (fresh) {
        enum bw_contain_kind kind = g->contained ? g->contain.kind : g->config->containment;
        g->contained = bw_contain_make(&g->contain, kind, g->config->election, why) == 0;
        if (g->fd[FD_EVENTS] >= 0)
            close(g->fd[FD_EVENTS]);
        g->fd[FD_EVENTS] = g->contained ? bw_contain_events(&g->contain) : -1;
    }
    if (!g->contained)
        wire.kind = BW_WIRE_FAILED;
    snprintf(wire.text, sizeof wire.text, "%s", g->contained ? g->contain.name : why);
    tell(g, &wire);
}

static void spawn(struct guardian *g)
{
    struct bw_proc proc;
    g->exited = false;
    g->look_pause_ms = 1;
    g->work = g->contained ? bw_guardian_spawn(g->config, &g->contain, g->core.token) : -1;
    if (g->work < 0) {
        g->status = 126 << 8;
        bw_log_event(g->config->log, BW_LOG_ERROR, "start-failed", NULL,
                     "cannot start a process: %s", strerror(errno));
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_FAILED, .now = bw_run_now()});
        return;
    }
    g->ran = true;
    g->work_start = bw_proc_read(g->work, &proc) == 0 ? proc.start : 0;
    struct bw_wire wire = {
        .kind = BW_WIRE_STARTED, .number = (int32_t)g->work, .token = g->core.token};
    tell(g, &wire);
}

static void pass_signal(struct guardian *g, int signal)
{
    pid_t group = g->flags & BW_WIRE_GROUP ? getpgrp() : 0;
    if (g->flags & BW_WIRE_ALL)
        bw_contain_signal(&g->contain, signal, group);
    else if (!g->exited && !(group && getpgid(g->work) == group))
        bw_proc_signal(g->work, g->work_start, signal);
}

static void confirm(struct guardian *g)
{
    struct bw_wire wire = {.kind = BW_WIRE_DEAD,
                           .number = g->status,
                           .token = g->core.token,
                           .flags = g->ran ? BW_WIRE_RAN : 0};
    tell(g, &wire);
}

static void report(struct guardian *g)
{
    struct bw_wire wire = {.kind = BW_WIRE_STUCK};
    struct bw_contain_left left;
    bw_contain_look(&g->contain, &left);
    snprintf(wire.text, sizeof wire.text, "pid %d (state %c) was killed and is not dead",
             (int)left.pid, left.state ? left.state : '?');
    if (g->core.gone)
        bw_log_event(g->config->log, BW_LOG_ERROR, "not-dead", NULL,
                     "%s; its leadership is not released", wire.text);
    else
        tell(g, &wire);
}

/* Puts a descriptor (-1: none) in the place of another. */
static void keep(int *place, int fd)
{
    if (*place >= 0)
        close(*place);
    *place = fd;
}

static void forget(struct guardian *g)
{
    keep(&g->lock_fd, -1);
    keep(&g->words_fd, -1);
    keep(&g->mouth_fd, -1);
    g->ran = g->exited = false;
    g->status = 0;
    g->work = 0;
}

static void release(struct guardian *g, bw_token token)
{
    if (g->lock_fd < 0)
        return;
    g->leaving = bw_farewell_is_for(g->lock_fd);
    int error = g->leaving ? bw_farewell_say(g->lock_fd, g->proof)
                           : bw_store_sqlite_release_fd(g->lock_fd, token);
    struct bw_log_field fields[] = {{"token", NULL, token}, BW_LOG_END};
    bw_log_event(g->config->log, error ? BW_LOG_WARNING : BW_LOG_INFO, "guardian-released", fields,
                 error ? "the supervisor died; the work is dead, token %llu could not be released"
                       : "the supervisor died; the work is dead, token %llu is released",
                 (unsigned long long)token);
}

static void speak(struct guardian *g)
{
    uint32_t said = bw_last_words_say(g->words_fd, g->mouth_fd);
    struct bw_log_field fields[] = {{"told", NULL, said}, BW_LOG_END};
    if (g->core.spoken <= 1)
        bw_log_event(g->config->log, BW_LOG_INFO, "guardian-spoke", fields,
                     "the supervisor died; the work is dead, %u others are told so",
                     (unsigned)said);
}

static void carry_out(struct guardian *g, const struct bw_guardian_actions *actions)
{
    for (unsigned i = 0; i < actions->count; i++)
        switch (actions->at[i]) {
        case BW_GUARDIAN_DO_SPAWN:
            spawn(g);
            break;
        case BW_GUARDIAN_DO_SIGNAL:
            pass_signal(g, actions->signal);
            break;
        case BW_GUARDIAN_DO_KILL:
            bw_contain_strike(&g->contain, NULL, NULL);
            bw_contain_kill(&g->contain);
            break;
        case BW_GUARDIAN_DO_CONFIRM:
            confirm(g);
            break;
        case BW_GUARDIAN_DO_REPORT:
            report(g);
            break;
        case BW_GUARDIAN_DO_RELEASE:
            release(g, actions->token);
            break;
        case BW_GUARDIAN_DO_SPEAK:
            speak(g);
            break;
        case BW_GUARDIAN_DO_FORGET:
            forget(g);
            prepare(g);
            break;
        case BW_GUARDIAN_DO_EXIT:
            g->done = true;
            break;
        }
}

static void arm(struct guardian *g)
{
    bw_time at = bw_guardian_deadline(&g->core);
    if (at == g->armed_at)
        return;
    g->armed_at = at;
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (at != BW_TIME_NEVER) { /* 0 would disarm it */
        bw_time not_zero = bw_time_max(at, 1);
        when.it_value.tv_sec = not_zero / BW_SEC;
        when.it_value.tv_nsec = not_zero % BW_SEC;
    }
    timerfd_settime(g->fd[FD_TIMER], TFD_TIMER_ABSTIME, &when, NULL);
}

static void feed(struct guardian *g, struct bw_guardian_event event)
{
    struct bw_guardian_actions actions;
    bw_guardian_step(&g->core, &event, &actions);
    arm(g); /* the deadline stands before anything is started */
    carry_out(g, &actions);
}

/* ---- events ---- */

static void on_gone(struct guardian *g)
{
    close(g->fd[FD_SOCKET]);
    if (g->fd[FD_SUPERVISOR] >= 0)
        close(g->fd[FD_SUPERVISOR]);
    g->fd[FD_SOCKET] = g->fd[FD_SUPERVISOR] = -1;
    g->flags = BW_WIRE_ALL;
    feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_GONE, .now = bw_run_now()});
}

static int *place_of(struct guardian *g, uint32_t kind)
{
    if (kind == BW_WIRE_WORDS)
        return &g->words_fd;
    return kind == BW_WIRE_MOUTH ? &g->mouth_fd : &g->lock_fd;
}

static void on_message(struct guardian *g, const struct bw_wire *wire, int passed)
{
    static const enum bw_guardian_event_kind kinds[] = {
        [BW_WIRE_ARM] = BW_GUARDIAN_ARM,     [BW_WIRE_START] = BW_GUARDIAN_START,
        [BW_WIRE_STOP] = BW_GUARDIAN_STOP,   [BW_WIRE_SIGNAL] = BW_GUARDIAN_SIGNAL,
        [BW_WIRE_KILL] = BW_GUARDIAN_KILL,   [BW_WIRE_DISMISS] = BW_GUARDIAN_DISMISS,
        [BW_WIRE_WORDS] = BW_GUARDIAN_WORDS,
    };
    BW_ASSERT(wire->kind >= BW_WIRE_ARM && wire->kind <= BW_WIRE_MOUTH);
    if (passed >= 0)
        keep(place_of(g, wire->kind), passed);
    if (passed >= 0 && wire->kind == BW_WIRE_ARM)
        memcpy(g->proof, wire->proof, sizeof g->proof);
    if (wire->kind == BW_WIRE_MOUTH)
        return;
    g->flags = wire->flags;
    feed(g, (struct bw_guardian_event){.kind = kinds[wire->kind],
                                       .now = bw_run_now(),
                                       .at = wire->at,
                                       .token = wire->token,
                                       .signal = wire->number});
    if (wire->kind == BW_WIRE_ARM) {
        struct bw_wire answer = {.kind = BW_WIRE_ARMED, .token = wire->token, .at = wire->at};
        tell(g, &answer);
    }
}

static void read_messages(struct guardian *g)
{
    struct bw_wire wire;
    int passed, got;
    while (g->fd[FD_SOCKET] >= 0 &&
           (got = bw_wire_receive(g->fd[FD_SOCKET], &wire, &passed)) != 0) {
        if (got < 0)
            on_gone(g);
        else
            on_message(g, &wire, passed);
    }
}

/* The work and whoever came to us when its parent died. */
static void reap(struct guardian *g)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(g->fd[FD_SIGNAL], &info, sizeof info) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != g->work || g->exited)
            continue;
        g->exited = true;
        g->status = status;
        g->flags = BW_WIRE_ALL;
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_EXITED, .now = bw_run_now()});
    }
}

static bool wants_look(const struct guardian *g)
{
    return g->core.state == BW_GUARDIAN_KILLING ||
           (g->core.state == BW_GUARDIAN_ENDING && g->core.exited);
}

static void look(struct guardian *g)
{
    struct bw_contain_left left;
    if (g->core.state == BW_GUARDIAN_KILLING) /* orphans that have come to us since the last blow */
        bw_contain_strike(&g->contain, NULL, NULL);
    bw_contain_look(&g->contain, &left);
    if (left.empty && g->exited)
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_EMPTY, .now = bw_run_now()});
    else
        g->look_pause_ms =
            g->look_pause_ms < LOOK_PAUSE_MAX_MS ? g->look_pause_ms + 1 : LOOK_PAUSE_MAX_MS;
}

static void turn(struct guardian *g)
{
    struct pollfd polled[FD_COUNT];
    bool looking = wants_look(g);
    for (int i = 0; i < FD_COUNT; i++)
        polled[i] = (struct pollfd){.fd = g->fd[i], .events = POLLIN};
    polled[FD_EVENTS].events = POLLPRI;
    if (!looking)
        polled[FD_EVENTS].fd = -1;
    if (poll(polled, FD_COUNT, looking ? g->look_pause_ms : -1) < 0 && errno != EINTR)
        g->done = true;
    if (polled[FD_TIMER].revents) {
        uint64_t count;
        (void)!read(g->fd[FD_TIMER], &count, sizeof count);
        g->armed_at = -1;
    }
    bool dead = polled[FD_SUPERVISOR].revents != 0;
    if (polled[FD_SOCKET].revents)
        read_messages(g);
    if (dead && g->fd[FD_SOCKET] >= 0)
        on_gone(g);
    if (bw_run_now() >= bw_guardian_deadline(&g->core))
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_TIMER, .now = bw_run_now()});
    reap(g);
    if (wants_look(g))
        look(g);
    arm(g);
}

/* ---- the process ---- */

/* Nothing of the supervisor's but the standard streams and our own end. */
static void close_others(int socket, int supervisor)
{
    int low = socket < supervisor || supervisor < 0 ? socket : supervisor;
    int high = socket < supervisor || supervisor < 0 ? supervisor : socket;
    if (low > 3)
        syscall(SYS_close_range, 3, low - 1, 0);
    if (high > low + 1)
        syscall(SYS_close_range, low + 1, high - 1, 0);
    syscall(SYS_close_range, (high > low ? high : low) + 1, ~0u, 0);
}

static _Noreturn void live(const struct bw_guardian_config *config, int socket, int supervisor)
{
    struct guardian g = {
        .config = config, .lock_fd = -1, .words_fd = -1, .mouth_fd = -1, .armed_at = BW_TIME_NEVER};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_NAME, "bw-guardian");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close_others(socket, supervisor);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    g.fd[FD_SOCKET] = socket;
    g.fd[FD_SUPERVISOR] = supervisor;
    g.fd[FD_TIMER] = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    g.fd[FD_SIGNAL] = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    g.fd[FD_EVENTS] = -1;
    if (g.fd[FD_TIMER] < 0 || g.fd[FD_SIGNAL] < 0)
        _exit(1);
    bw_guardian_init(&g.core, config->kill_after_ns);
    prepare(&g);
    while (!g.done)
        turn(&g);
    if (g.contained)
        bw_contain_remove(&g.contain);
    if (g.leaving)
        bw_farewell_wait(g.lock_fd, FAREWELL_NS);
    _exit(0);
}

pid_t bw_guardian_start(const struct bw_guardian_config *config, int *socket)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    int supervisor = (int)syscall(SYS_pidfd_open, getpid(), 0); /* the socket alone would do */
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        live(config, pair[1], supervisor);
    }
    int error = errno;
    close(pair[1]);
    if (supervisor >= 0)
        close(supervisor);
    *socket = pair[0];
    if (pid < 0)
        close(pair[0]);
    errno = error;
    return pid;
}
