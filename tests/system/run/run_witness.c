/* The witness: a command for `bellwether run` that records what really happened. It knows nothing
 * of Bellwether but its environment.
 *
 *     run_witness DIR [MODE...]      MODE: ignore-term double-fork setsid wipe no-death-signal
 *                                    for=MS exit=N slow=MS stay chain
 *
 * While any process of its tree lives, the tree holds an exclusive flock on DIR/lock (the lock
 * belongs to the open file, which all of them inherit). The witness appends lines to DIR/log, one
 * write each:
 *
 *     start TOKEN PID NS        it has the lock (NS: CLOCK_MONOTONIC)
 *     overlap TOKEN PID NS      a process of another tree is alive: two leaders at once
 *     signal N PID NS           it received a signal
 *     end TOKEN PID NS          it ends by itself
 *
 * After an overlap it exits with 98, or, with `stay`, continues without the lock. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int log_fd;
static const char *token = "0";
static volatile sig_atomic_t got_signal;

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Our pid as the test sees it. In a PID namespace of its own, getpid() returns another number, but
 * the visible /proc is still the outer one. */
static int outer_pid(void)
{
    char number[16];
    ssize_t length = readlink("/proc/self", number, sizeof number - 1);
    if (length <= 0)
        return (int)getpid();
    number[length] = '\0';
    return atoi(number);
}

static void record(const char *what, const char *which)
{
    char line[160];
    int length = snprintf(line, sizeof line, "%s %s %d %lld\n", what, which, outer_pid(), now_ns());
    if (write(log_fd, line, (size_t)length) != length)
        _exit(99);
}

static void on_signal(int number)
{
    got_signal = number;
}

static void tell_signal(void)
{
    char which[16];
    int number = got_signal;
    got_signal = 0;
    snprintf(which, sizeof which, "%d", number);
    record("signal", which);
}

static void wait_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

struct mode {
    bool ignore_term, double_fork, setsid, wipe, no_death_signal, stay, chain;
    long for_ms, slow_ms;
    int code;
};

static void read_mode(struct mode *mode, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        mode->ignore_term |= strcmp(argv[i], "ignore-term") == 0;
        mode->double_fork |= strcmp(argv[i], "double-fork") == 0;
        mode->setsid |= strcmp(argv[i], "setsid") == 0;
        mode->wipe |= strcmp(argv[i], "wipe") == 0;
        mode->no_death_signal |= strcmp(argv[i], "no-death-signal") == 0;
        mode->stay |= strcmp(argv[i], "stay") == 0;
        mode->chain |= strcmp(argv[i], "chain") == 0;
        if (strncmp(argv[i], "for=", 4) == 0)
            mode->for_ms = strtol(argv[i] + 4, NULL, 10);
        if (strncmp(argv[i], "slow=", 5) == 0)
            mode->slow_ms = strtol(argv[i] + 5, NULL, 10);
        if (strncmp(argv[i], "exit=", 5) == 0)
            mode->code = (int)strtol(argv[i] + 5, NULL, 10);
    }
}

/* A chain of processes that each live for 2 to 4 ms, fork the next one and exit. It ends at the
 * latest when the test removes DIR. */
static void leave_chain(const char *dir)
{
    if (fork() != 0)
        return;
    signal(SIGTERM, SIG_IGN);
    record("daemon", token);
    do
        wait_ms(2 + getpid() % 3);
    while (access(dir, F_OK) == 0 && fork() == 0);
    _exit(0);
}

/* Leaves a grandchild behind that lives until it is killed; its parent does not wait for it. */
static void leave_behind(const struct mode *mode)
{
    pid_t child = fork();
    if (child != 0)
        return;
    if (mode->setsid)
        setsid();
    if (fork() != 0)
        _exit(0);
    signal(SIGHUP, SIG_IGN);
    if (mode->ignore_term)
        signal(SIGTERM, SIG_IGN);
    else
        signal(SIGTERM, SIG_DFL);
    record("daemon", token);
    if (mode->wipe) {
        char *const arguments[] = {"sleep", "1000", NULL};
        char *const nothing[] = {NULL};
        execve("/bin/sleep", arguments, nothing);
    }
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    struct mode mode = {.for_ms = -1};
    char path[4096];
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    if (argc < 2)
        return 64;
    read_mode(&mode, argc, argv);
    if (mode.no_death_signal) /* like a set-uid program, which has none */
        prctl(PR_SET_PDEATHSIG, 0);
    snprintf(path, sizeof path, "%s/log", argv[1]);
    log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    snprintf(path, sizeof path, "%s/lock", argv[1]);
    int lock_fd = open(path, O_RDWR | O_CREAT, 0666);
    if (getenv("BELLWETHER_TOKEN"))
        token = getenv("BELLWETHER_TOKEN");
    if (log_fd < 0 || lock_fd < 0)
        return 74;
    bool alone = flock(lock_fd, LOCK_EX | LOCK_NB) == 0;
    if (!alone)
        record("overlap", token);
    if (!alone && !mode.stay)
        return 98;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(numbers[i], &action, NULL);
    }
    if (alone)
        record("start", token);
    if (mode.double_fork || mode.setsid)
        leave_behind(&mode);
    if (mode.chain)
        leave_chain(argv[1]);
    long long end = mode.for_ms < 0 ? -1 : now_ns() + mode.for_ms * 1000000LL;
    for (;;) {
        wait_ms(end < 0 ? 1000 : 1);
        bool stop = got_signal && got_signal != SIGUSR1 && got_signal != SIGUSR2 &&
                    got_signal != SIGWINCH && !mode.ignore_term;
        if (got_signal)
            tell_signal();
        if (stop && mode.slow_ms)
            wait_ms(mode.slow_ms);
        if (stop || (end >= 0 && now_ns() >= end))
            break;
    }
    record("end", token);
    return mode.code;
}
