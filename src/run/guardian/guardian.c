/* The guardian's loop: reads events from its descriptors and carries out the actions of the core.
 * It blocks only in poll, never on the work or the supervisor. */
#include "run/guardian/guardian.h"

#include "core/base/assert.h"
#include "core/guardian/guardian.h"
#include "os/clock.h"
#include "run/contain/proc.h"
#include "run/guardian/clean_close.h"
#include "run/guardian/death_notice.h"
#include "run/guardian/guardian_message.h"
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

#define CHECK_PAUSE_MAX_MS 20
#define CLEAN_CLOSE_NS     BW_SEC /* time for the other side to read the clean close */
#define DEATH_MS           1000   /* time from the end of the link until the supervisor is reaped */

enum { FD_SOCKET, FD_SUPERVISOR, FD_TIMER, FD_SIGNAL, FD_EVENTS, FD_COUNT };

struct guardian {
    const struct bw_guardian_config *config;
    struct bw_guardian_core core;
    struct bw_contain contain;
    bool contained; /* `contain` is valid */
    int fd[FD_COUNT], lock_fd, notices_fd, notice_socket_fd;
    int supervisor; /* its pidfd; -1: the kernel has none */
    /* the proof to send in a clean close of `lock_fd`, if that is a socket */
    unsigned char proof[BW_HOLD_PROOF];
    pid_t work;
    uint64_t work_start;
    int status, check_pause_ms;
    bool ran, exited, done;
    bool leaving;   /* a clean close was sent on `lock_fd` */
    bool unheard;   /* a message to the supervisor was lost */
    bool parted;    /* the supervisor lives, but has ended the link: its message was lost */
    unsigned flags; /* flags of the message being handled */
    bw_time armed_at;
};

static void send_message(struct guardian *g, struct bw_wire *wire)
{
    if (g->fd[FD_SOCKET] >= 0 && bw_wire_send(g->fd[FD_SOCKET], wire, -1) != 0)
        g->unheard = true;
}

static void feed(struct guardian *g, struct bw_guardian_event event);

/* The reason why this guardian acts without its supervisor. */
static const char *why_gone(const struct guardian *g)
{
    if (g->unheard)
        return "the supervisor does not receive messages";
    return g->parted ? "the supervisor cannot send messages" : "the supervisor died";
}

/* ---- actions ---- */

static void prepare(struct guardian *g)
{
    struct bw_wire wire = {.kind = BW_WIRE_READY};
    char why[BW_WHY_MAX + 1] = "";
    bool fresh = !g->contained || !bw_contain_is_reusable(&g->contain);
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
    send_message(g, &wire);
}

static void spawn(struct guardian *g)
{
    struct bw_proc proc;
    g->exited = false;
    g->check_pause_ms = 1;
    g->work = g->contained ? bw_guardian_spawn(g->config, &g->contain, g->core.token) : -1;
    if (g->work < 0) {
        g->status = 126 << 8;
        bw_log_event(g->config->log, BW_LOG_ERROR, "start-failed", NULL,
                     "cannot start a process: %s", strerror(errno));
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_FAILED, .now = bw_clock_boot()});
        return;
    }
    g->ran = true;
    g->work_start = bw_proc_read(g->work, &proc) == 0 ? proc.start : 0;
    struct bw_wire wire = {
        .kind = BW_WIRE_STARTED, .number = (int32_t)g->work, .token = g->core.token};
    send_message(g, &wire);
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
    send_message(g, &wire);
}

static void report(struct guardian *g)
{
    struct bw_wire wire = {.kind = BW_WIRE_STUCK};
    struct bw_contain_left left;
    bw_contain_check(&g->contain, &left);
    snprintf(wire.text, sizeof wire.text, "pid %d (state %c) is still alive after SIGKILL",
             (int)left.pid, left.state ? left.state : '?');
    if (g->core.gone)
        bw_log_event(g->config->log, BW_LOG_ERROR, "not-dead", NULL,
                     "%s; the leadership is not released", wire.text);
    else
        send_message(g, &wire);
}

/* Closes *place and stores another descriptor (-1: none) there. */
static void replace_fd(int *place, int fd)
{
    if (*place >= 0)
        close(*place);
    *place = fd;
}

static void forget(struct guardian *g)
{
    replace_fd(&g->lock_fd, -1);
    replace_fd(&g->notices_fd, -1);
    replace_fd(&g->notice_socket_fd, -1);
    g->ran = g->exited = false;
    g->status = 0;
    g->work = 0;
}

/* Only the supervisor can release: at this store, or because it lives. Peers get a death notice
 * instead. */
static void log_lease_left(const struct guardian *g, bw_token token)
{
    bw_token shown = bw_run_token(token);
    struct bw_log_field fields[] = {{"token", NULL, shown}, BW_LOG_END};
    if (g->notices_fd < 0)
        bw_log_event(g->config->log, BW_LOG_INFO, "confirmed-dead", fields,
                     "the work is confirmed dead (token %llu); the next leader waits until the "
                     "lease expires",
                     (unsigned long long)shown);
}

/* The link can also end because a message was lost. Then the supervisor lives. */
static bool is_supervisor_dead(const struct guardian *g)
{
    bool lost = g->parted || g->unheard;
    struct pollfd death = {.fd = g->supervisor, .events = POLLIN};
    return g->supervisor < 0 ? !lost : poll(&death, 1, lost ? 0 : DEATH_MS) == 1;
}

/* A clean close ends whatever leadership its lease has when the server reads it, which can be much
 * later. So the process that holds the lease must be dead. A living supervisor releases by itself.
 * On SQLite, the release names its token. */
static void release(struct guardian *g, bw_token token)
{
    if (g->lock_fd < 0) {
        log_lease_left(g, token);
        return;
    }
    g->leaving = bw_clean_close_applies(g->lock_fd);
    if (g->leaving && !is_supervisor_dead(g)) {
        g->leaving = false;
        log_lease_left(g, token);
        return;
    }
    int error = g->leaving ? bw_clean_close_send(g->lock_fd, g->proof)
                           : bw_store_sqlite_release_fd(g->lock_fd, token);
    struct bw_log_field fields[] = {{"token", NULL, token}, BW_LOG_END};
    bw_log_event(g->config->log, error ? BW_LOG_WARNING : BW_LOG_INFO, "guardian-released", fields,
                 error ? "%s; the work is dead, but the guardian cannot release token %llu"
                       : "%s; the work is dead; released token %llu",
                 why_gone(g), (unsigned long long)token);
}

static void send_notices(struct guardian *g)
{
    uint32_t sent = bw_death_notices_send(g->notices_fd, g->notice_socket_fd);
    struct bw_log_field fields[] = {{"told", NULL, sent}, BW_LOG_END};
    if (g->core.sent <= 1)
        bw_log_event(g->config->log, BW_LOG_INFO, "death-notices-sent", fields,
                     "%s; the work is dead; sent death notices to %u peers", why_gone(g),
                     (unsigned)sent);
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
            bw_contain_kill_children(&g->contain, NULL, NULL);
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
        case BW_GUARDIAN_DO_SEND_NOTICE:
            send_notices(g);
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
    arm(g); /* set the deadline before anything starts */
    carry_out(g, &actions);
}

/* ---- events ---- */

/* An error, so that --log quiet shows it, too: without a supervisor, this line is the only one that
 * says why the command was stopped. */
static void log_gone(const struct guardian *g)
{
    bw_token token = bw_run_token(g->core.token);
    struct bw_log_field fields[] = {{"token", NULL, token}, BW_LOG_END};
    if (g->core.state != BW_GUARDIAN_IDLE)
        bw_log_event(g->config->log, BW_LOG_ERROR, "supervisor-died", fields,
                     "%s; the guardian kills the work (token %llu)", why_gone(g),
                     (unsigned long long)token);
}

static void on_gone(struct guardian *g)
{
    log_gone(g);
    close(g->fd[FD_SOCKET]);
    g->fd[FD_SOCKET] = g->fd[FD_SUPERVISOR] = -1; /* `supervisor` stays open */
    g->flags = BW_WIRE_ALL;
    feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_GONE, .now = bw_clock_boot()});
}

static int *fd_for(struct guardian *g, uint32_t kind)
{
    if (kind == BW_WIRE_NOTICES)
        return &g->notices_fd;
    return kind == BW_WIRE_NOTICE_SOCKET ? &g->notice_socket_fd : &g->lock_fd;
}

static void on_message(struct guardian *g, const struct bw_wire *wire, int passed)
{
    static const enum bw_guardian_event_kind kinds[] = {
        [BW_WIRE_ARM] = BW_GUARDIAN_ARM,        [BW_WIRE_START] = BW_GUARDIAN_START,
        [BW_WIRE_STOP] = BW_GUARDIAN_STOP,      [BW_WIRE_SIGNAL] = BW_GUARDIAN_SIGNAL,
        [BW_WIRE_KILL] = BW_GUARDIAN_KILL,      [BW_WIRE_DISMISS] = BW_GUARDIAN_DISMISS,
        [BW_WIRE_NOTICES] = BW_GUARDIAN_NOTICE,
    };
    BW_ASSERT(wire->kind >= BW_WIRE_ARM && wire->kind <= BW_WIRE_NOTICE_SOCKET);
    if (passed >= 0)
        replace_fd(fd_for(g, wire->kind), passed);
    if (passed >= 0 && wire->kind == BW_WIRE_ARM)
        memcpy(g->proof, wire->proof, sizeof g->proof);
    if (wire->kind == BW_WIRE_NOTICE_SOCKET)
        return;
    g->flags = wire->flags;
    feed(g, (struct bw_guardian_event){.kind = kinds[wire->kind],
                                       .now = bw_clock_boot(),
                                       .at = wire->at,
                                       .token = wire->token,
                                       .signal = wire->number});
    if (wire->kind == BW_WIRE_ARM) {
        struct bw_wire answer = {.kind = BW_WIRE_ARMED, .token = wire->token, .at = wire->at};
        send_message(g, &answer);
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

/* Reaps the work and the orphans that the guardian inherited. */
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
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_EXITED, .now = bw_clock_boot()});
    }
}

static bool needs_check(const struct guardian *g)
{
    return g->core.state == BW_GUARDIAN_KILLING ||
           (g->core.state == BW_GUARDIAN_ENDING && g->core.exited);
}

static void check_empty(struct guardian *g)
{
    struct bw_contain_left left;
    if (g->core.state == BW_GUARDIAN_KILLING) /* orphans inherited since the last call */
        bw_contain_kill_children(&g->contain, NULL, NULL);
    bw_contain_check(&g->contain, &left);
    if (left.empty && g->exited)
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_EMPTY, .now = bw_clock_boot()});
    else
        g->check_pause_ms =
            g->check_pause_ms < CHECK_PAUSE_MAX_MS ? g->check_pause_ms + 1 : CHECK_PAUSE_MAX_MS;
}

static void turn(struct guardian *g)
{
    struct pollfd polled[FD_COUNT];
    bool checking = needs_check(g);
    int pause_ms = g->unheard && g->fd[FD_SOCKET] >= 0 ? 0 : checking ? g->check_pause_ms : -1;
    for (int i = 0; i < FD_COUNT; i++)
        polled[i] = (struct pollfd){.fd = g->fd[i], .events = POLLIN};
    polled[FD_EVENTS].events = POLLPRI;
    polled[FD_SOCKET].events = POLLIN | POLLRDHUP;
    if (!checking)
        polled[FD_EVENTS].fd = -1;
    if (poll(polled, FD_COUNT, pause_ms) < 0 && errno != EINTR)
        g->done = true;
    if (polled[FD_TIMER].revents) {
        uint64_t count;
        (void)!read(g->fd[FD_TIMER], &count, sizeof count);
        g->armed_at = -1;
    }
    /* a supervisor that missed a message would wait for it for ever: it notices our end instead */
    bool dead = polled[FD_SUPERVISOR].revents != 0 || g->unheard;
    if (!dead && (polled[FD_SOCKET].revents & (POLLRDHUP | POLLHUP)) == POLLRDHUP)
        g->parted = true;
    if (polled[FD_SOCKET].revents)
        read_messages(g);
    if (dead && g->fd[FD_SOCKET] >= 0)
        on_gone(g);
    if (bw_clock_boot() >= bw_guardian_deadline(&g->core))
        feed(g, (struct bw_guardian_event){.kind = BW_GUARDIAN_TIMER, .now = bw_clock_boot()});
    reap(g);
    if (needs_check(g))
        check_empty(g);
    arm(g);
}

/* ---- the process ---- */

/* Closes all descriptors of the supervisor, except the standard streams and our end of the
 * socket. */
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

static _Noreturn void run_guardian(const struct bw_guardian_config *config, int socket,
                                   int supervisor)
{
    struct guardian g = {.config = config,
                         .lock_fd = -1,
                         .notices_fd = -1,
                         .notice_socket_fd = -1,
                         .armed_at = BW_TIME_NEVER};
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
    g.fd[FD_SUPERVISOR] = g.supervisor = supervisor;
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
        bw_clean_close_wait(g.lock_fd, CLEAN_CLOSE_NS);
    _exit(0);
}

pid_t bw_guardian_start(const struct bw_guardian_config *config, int *socket)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    /* optional: the socket alone also reports the supervisor's death */
    int supervisor = (int)syscall(SYS_pidfd_open, getpid(), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        run_guardian(config, pair[1], supervisor);
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
