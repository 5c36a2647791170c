/* Signals. They arrive through a signalfd, which shows the sender. A signal from the terminal went
 * to the whole process group, including the work. A signal sent only to this process must be passed
 * on. A signal that was ignored at our start (nohup) stays ignored.
 *
 *   TERM INT HUP QUIT   pass to the work, wait until it ends, release, exit with 128+N
 *   USR1 USR2 WINCH     pass to the first process of the command
 *   TSTP CONT           pass to the whole work. After a TSTP from the terminal (Ctrl-Z), the
 *                       supervisor continues the work at once: a stopped leader would keep its
 *                       leadership and do nothing. */
#include "run/supervisor/state.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int handled[] = {SIGTERM,  SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                              SIGWINCH, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD};

static void handled_set(sigset_t *set)
{
    struct sigaction now;
    sigemptyset(set);
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        /* Ignored signals are left out: a signalfd would receive them, because blocked signals are
         * kept. */
        bool ignored = sigaction(handled[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
        if (!ignored || handled[i] == SIGCHLD)
            sigaddset(set, handled[i]);
    }
}

void bw_supervisor_block_signals(struct supervisor *s)
{
    sigset_t set;
    handled_set(&set);
    sigprocmask(SIG_BLOCK, &set, &s->guardian_config.mask);
    s->guardian_config.pipe_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
    signal(SIGCHLD, SIG_DFL);
}

static void pass_on(struct supervisor *s, int signal, unsigned flags)
{
    bw_supervisor_send(
        s, (struct bw_wire){.kind = BW_WIRE_SIGNAL, .number = signal, .flags = flags}, -1);
}

static void on_stop_signal(struct supervisor *s, int signal, unsigned flags)
{
    struct bw_log_field fields[] = {{"signal", NULL, (uint64_t)signal}, BW_LOG_END};
    if (s->ending) {
        pass_on(s, signal, flags | BW_WIRE_ALL);
        s->urgent = true;
        return;
    }
    bw_log_event(&s->log, BW_LOG_INFO, "signal", fields, "received SIG%s; stopping",
                 sigabbrev_np(signal));
    s->stop_signal = signal;
    s->signal_flags = (int)flags;
    if (s->stopping && s->token != BW_TOKEN_NONE)
        pass_on(s, signal, flags | BW_WIRE_ALL);
    bw_supervisor_end(s, 128 + signal);
}

static void on_terminal_stop(struct supervisor *s)
{
    bw_log_event(&s->log, BW_LOG_WARNING, "not-suspended", NULL,
                 "cannot suspend a leader; press Ctrl-C to stop it");
    pass_on(s, SIGCONT, BW_WIRE_ALL);
}

static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (!bw_child_reaped(&s->children, pid, status) && pid == s->guardian_pid)
            bw_supervisor_guardian_dead(s);
    bw_supervisor_guardian_orphans(s);
}

static void on_signal(struct supervisor *s, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;
    bool terminal = info->ssi_code == SI_KERNEL;
    unsigned flags = terminal ? BW_WIRE_GROUP : 0;
    switch (signal) {
    case SIGCHLD:
        reap(s);
        break;
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
        on_stop_signal(s, signal, flags);
        break;
    case SIGTSTP:
        if (terminal)
            on_terminal_stop(s);
        else
            pass_on(s, SIGTSTP, BW_WIRE_ALL);
        break;
    case SIGCONT:
        pass_on(s, SIGCONT, BW_WIRE_ALL);
        break;
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
        pass_on(s, signal, flags);
        break;
    default:
        break; /* TTIN, TTOU: blocked, so that writing the log cannot stop us */
    }
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct supervisor *s = handle->data;
    struct signalfd_siginfo info;
    (void)status;
    (void)events;
    while (read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(s, &info);
}

int bw_supervisor_signals_open(struct supervisor *s)
{
    sigset_t set;
    handled_set(&set);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0 || uv_poll_init(&s->loop, &s->signals, s->signal_fd) != 0)
        return BW_ENOMEM;
    s->signals.data = s;
    return uv_poll_start(&s->signals, UV_READABLE, on_readable) == 0 ? 0 : BW_ENOMEM;
}
