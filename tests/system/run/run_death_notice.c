/* Death notices sent by a real guardian over a real socket. They are sent after the supervisor was
 * killed and all of its work is dead. They are never sent while the supervisor lives, nor if the
 * guardian was killed, too.
 *
 * The work is a group of processes that share one lock: when the test gets the lock, the kernel
 * guarantees that all of them are dead. The test is the last parent of all processes, so it knows
 * when no process is left that could send a notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/guardian/death_notice.h"
#include "run/guardian/guardian.h"
#include "run/guardian/guardian_message.h"
#include "system/kit/scratch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define TOKEN   7u
#define HANG_MS 60000 /* a test that takes longer hangs */

static const char words[] = "node 3 is dead under terms up to 7";

struct room {
    char dir[SCRATCH_MAX], lock[SCRATCH_MAX + 16], shell[3 * SCRATCH_MAX];
    struct sockaddr_in heard_at;
    int receiver, to_supervisor, from_supervisor;
    pid_t supervisor, guardian;
};

static int open_ear(struct sockaddr_in *at)
{
    socklen_t length = sizeof *at;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &length), 0);
    return fd;
}

/* ---- the supervisor ---- */

static void hand_over(int guardian, const struct sockaddr_in *to, bw_token token)
{
    struct bw_death_notice word = {.to_length = sizeof *to, .length = sizeof words};
    memcpy(word.to, to, sizeof *to);
    memcpy(word.bytes, words, sizeof words);
    int file = bw_death_notices_write(&word, 1);
    int sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_NOTICE_SOCKET}, sender);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_NOTICES, .token = token}, file);
    close(file);
    close(sender);
}

static void await(int guardian, enum bw_wire_kind kind)
{
    struct bw_wire wire = {.kind = 0};
    int passed;
    while (wire.kind != kind) {
        struct pollfd polled = {.fd = guardian, .events = POLLIN};
        if (poll(&polled, 1, HANG_MS) != 1 || bw_wire_receive(guardian, &wire, &passed) < 0)
            _exit(3);
    }
}

/* Runs as the supervisor process: starts a guardian, arms it as a leader does, sends it the death
 * notices, and then obeys orders of one byte ('e': end cleanly). */
static _Noreturn void supervise(const struct room *room, int orders, int reports)
{
    static char *environment[8] = {NULL};
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)room->shell, NULL};
    struct bw_log log;
    struct bw_guardian_config config = {.path = "test",
                                        .election = "e",
                                        .argv = argv,
                                        .environment = environment,
                                        .containment = BW_CONTAIN_SUBREAPER,
                                        .kill_after_ns = BW_SEC,
                                        .log = &log};
    static char path[] = "PATH=/usr/bin:/bin";
    environment[0] = path;
    bw_log_init(&log, BW_LOG_JSON, STDERR_FILENO, "e", "a");
    int guardian;
    pid_t pid = bw_guardian_start(&config, &guardian);
    await(guardian, BW_WIRE_READY);
    struct bw_wire arm = {.kind = BW_WIRE_ARM, .token = TOKEN, .at = BW_TIME_NEVER};
    bw_wire_send(guardian, &arm, -1);
    hand_over(guardian, &room->heard_at, TOKEN);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_START, .token = TOKEN}, -1);
    await(guardian, BW_WIRE_STARTED);
    char order;
    if (write(reports, &pid, sizeof pid) != sizeof pid || read(orders, &order, 1) != 1)
        _exit(4);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_KILL}, -1);
    await(guardian, BW_WIRE_DEAD);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_DISMISS, .token = TOKEN}, -1);
    _exit(0);
}

/* ---- the test ---- */

static void start(struct room *room)
{
    int orders[2], reports[2];
    scratch_make(room->dir);
    snprintf(room->lock, sizeof room->lock, "%s/lock", room->dir);
    snprintf(room->shell, sizeof room->shell,
             "trap '' TERM; exec 9>%s; flock 9; for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; "
             "echo > %s/runs; wait",
             room->lock, room->dir);
    room->receiver = open_ear(&room->heard_at);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(orders, O_CLOEXEC) | pipe2(reports, O_CLOEXEC), 0);
    room->supervisor = fork();
    if (room->supervisor == 0) {
        close(room->receiver); /* only the test receives */
        supervise(room, orders[0], reports[1]);
    }
    close(orders[0]);
    close(reports[1]);
    room->to_supervisor = orders[1];
    room->from_supervisor = reports[0];
    ssize_t got = read(reports[0], &room->guardian, sizeof room->guardian);
    assert_int_equal(got, sizeof room->guardian);
}

static void await_work(const struct room *room)
{
    char path[SCRATCH_MAX + 16];
    snprintf(path, sizeof path, "%s/runs", room->dir);
    for (int i = 0; i < HANG_MS && access(path, F_OK) != 0; i++)
        usleep(1000);
    assert_int_equal(access(path, F_OK), 0);
}

static bool work_is_dead(const struct room *room)
{
    int fd = open(room->lock, O_RDWR | O_CLOEXEC);
    bool dead = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return dead;
}

static bool receives_notice(const struct room *room, int within_ms)
{
    struct pollfd polled = {.fd = room->receiver, .events = POLLIN};
    char text[sizeof words + 1];
    if (poll(&polled, 1, within_ms) != 1)
        return false;
    assert_int_equal(recv(room->receiver, text, sizeof text, 0), sizeof words);
    assert_memory_equal(text, words, sizeof words);
    return true;
}

/* Waits until all descendants are gone: everything they sent on this host has arrived. */
static void await_all(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    assert_int_equal(errno, ECHILD);
}

static void leave(struct room *room)
{
    close(room->receiver);
    close(room->to_supervisor);
    close(room->from_supervisor);
    scratch_remove(room->dir);
}

static void guardian_sends_death_notices_when_supervisor_is_killed_and_work_is_dead(void **state)
{
    struct room room;
    (void)state;
    start(&room);
    await_work(&room);
    assert_false(receives_notice(&room, 0));
    assert_false(work_is_dead(&room));
    kill(room.supervisor, SIGKILL);
    assert_true(receives_notice(&room, HANG_MS));
    assert_true(work_is_dead(&room));
    await_all();
    assert_true(receives_notice(&room, 0)); /* sent three times: a datagram may be lost */
    assert_true(receives_notice(&room, 0));
    assert_false(receives_notice(&room, 0));
    leave(&room);
}

static void no_death_notice_is_sent_while_the_supervisor_lives(void **state)
{
    struct room room;
    (void)state;
    start(&room);
    await_work(&room);
    assert_int_equal(write(room.to_supervisor, "e", 1), 1);
    await_all();
    assert_true(work_is_dead(&room));
    assert_false(receives_notice(&room, 0));
    leave(&room);
}

static void no_death_notice_is_sent_when_the_guardian_is_killed_too(void **state)
{
    struct room room;
    (void)state;
    start(&room);
    await_work(&room);
    kill(room.guardian, SIGSTOP);
    kill(room.supervisor, SIGKILL);
    kill(room.guardian, SIGKILL);
    int status;
    assert_int_equal(waitpid(room.guardian, &status, 0) > 0 || errno == ECHILD, 1);
    assert_false(receives_notice(&room, 0));
    /* The processes outlived their first process and their guardian; this test is their parent
     * now. */
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0;) {
        char path[64], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
        FILE *children = fopen(path, "re");
        assert_non_null(children);
        for (char *at = fgets(line, sizeof line, children), *end; at; at = end) {
            long child = strtol(at, &end, 10);
            if (end == at)
                break;
            kill((pid_t)child, SIGKILL);
        }
        fclose(children);
        usleep(1000);
    }
    assert_false(receives_notice(&room, 0));
    leave(&room);
}

static void foreign_notice_file_is_not_sent(void **state)
{
    struct room room;
    (void)state;
    room.receiver = open_ear(&room.heard_at);
    int sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct bw_death_notice word = {.to_length = sizeof room.heard_at, .length = sizeof words};
    memcpy(word.to, &room.heard_at, sizeof room.heard_at);
    memcpy(word.bytes, words, sizeof words);
    int fd = bw_death_notices_write(&word, 1);
    assert_int_equal(bw_death_notices_send(fd, sender), 1);
    assert_true(receives_notice(&room, HANG_MS));
    assert_int_equal(pwrite(fd, "x", 1, sizeof word), 1);
    assert_int_equal(bw_death_notices_send(fd, sender), 0); /* not whole rows */
    assert_int_equal(ftruncate(fd, sizeof word), 0);
    word.length = BW_DEATH_NOTICE_BYTES + 1;
    assert_int_equal(pwrite(fd, &word, sizeof word, 0), sizeof word);
    assert_int_equal(bw_death_notices_send(fd, sender), 0);
    assert_int_equal(bw_death_notices_send(-1, sender), 0);
    assert_int_equal(bw_death_notices_write(&word, BW_DEATH_NOTICES_MAX + 1), -1);
    close(fd);
    close(sender);
    close(room.receiver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guardian_sends_death_notices_when_supervisor_is_killed_and_work_is_dead),
        cmocka_unit_test(no_death_notice_is_sent_while_the_supervisor_lives),
        cmocka_unit_test(no_death_notice_is_sent_when_the_guardian_is_killed_too),
        cmocka_unit_test(foreign_notice_file_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
