/* Last words by a real guardian and a real socket: they come when the supervisor was killed and not
 * before all of its work is dead; never while it lives, and never when the guardian died too.
 *
 * The work is a crowd that shares one lock: whoever gets the lock has the kernel's word that all
 * are dead. The test is everybody's last parent, so it knows when nobody is left who could speak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/guardian/guardian.h"
#include "run/guardian/last_words.h"
#include "run/guardian/wire.h"
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
#define HANG_MS 60000 /* by then something hangs */

static const char words[] = "node 3 is dead under terms up to 7";

struct room {
    char dir[SCRATCH_MAX], lock[SCRATCH_MAX + 16], shell[3 * SCRATCH_MAX];
    struct sockaddr_in heard_at;
    int ear, to_supervisor, from_supervisor;
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
    struct bw_last_word word = {.to_length = sizeof *to, .length = sizeof words};
    memcpy(word.to, to, sizeof *to);
    memcpy(word.bytes, words, sizeof words);
    int file = bw_last_words_write(&word, 1);
    int mouth = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_MOUTH}, mouth);
    bw_wire_send(guardian, &(struct bw_wire){.kind = BW_WIRE_WORDS, .token = token}, file);
    close(file);
    close(mouth);
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

/* Leads, hands the words over, and does what it is told by a letter: 'e' ends in good order. */
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
    room->ear = open_ear(&room->heard_at);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(orders, O_CLOEXEC) | pipe2(reports, O_CLOEXEC), 0);
    room->supervisor = fork();
    if (room->supervisor == 0) {
        close(room->ear); /* who listens is the test alone */
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

static bool hears(const struct room *room, int within_ms)
{
    struct pollfd polled = {.fd = room->ear, .events = POLLIN};
    char text[sizeof words + 1];
    if (poll(&polled, 1, within_ms) != 1)
        return false;
    assert_int_equal(recv(room->ear, text, sizeof text, 0), sizeof words);
    assert_memory_equal(text, words, sizeof words);
    return true;
}

/* Everybody who came from us is gone: what they sent on this host has arrived. */
static void await_all(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    assert_int_equal(errno, ECHILD);
}

static void leave(struct room *room)
{
    close(room->ear);
    close(room->to_supervisor);
    close(room->from_supervisor);
    scratch_remove(room->dir);
}

static void a_killed_supervisor_is_spoken_for_when_all_of_its_work_is_dead(void **state)
{
    struct room room;
    (void)state;
    start(&room);
    await_work(&room);
    assert_false(hears(&room, 0));
    assert_false(work_is_dead(&room));
    kill(room.supervisor, SIGKILL);
    assert_true(hears(&room, HANG_MS));
    assert_true(work_is_dead(&room));
    await_all();
    assert_true(hears(&room, 0)); /* three times: a datagram may be lost */
    assert_true(hears(&room, 0));
    assert_false(hears(&room, 0));
    leave(&room);
}

static void while_the_supervisor_lives_nothing_is_said(void **state)
{
    struct room room;
    (void)state;
    start(&room);
    await_work(&room);
    assert_int_equal(write(room.to_supervisor, "e", 1), 1);
    await_all();
    assert_true(work_is_dead(&room));
    assert_false(hears(&room, 0));
    leave(&room);
}

static void a_guardian_that_is_killed_too_says_nothing(void **state)
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
    assert_false(hears(&room, 0));
    /* The crowd outlived its first process and its guardian: this test is its parent now. */
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
    assert_false(hears(&room, 0));
    leave(&room);
}

static void a_file_of_others_is_not_read_out(void **state)
{
    struct room room;
    (void)state;
    room.ear = open_ear(&room.heard_at);
    int mouth = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct bw_last_word word = {.to_length = sizeof room.heard_at, .length = sizeof words};
    memcpy(word.to, &room.heard_at, sizeof room.heard_at);
    memcpy(word.bytes, words, sizeof words);
    int fd = bw_last_words_write(&word, 1);
    assert_int_equal(bw_last_words_say(fd, mouth), 1);
    assert_true(hears(&room, HANG_MS));
    assert_int_equal(pwrite(fd, "x", 1, sizeof word), 1);
    assert_int_equal(bw_last_words_say(fd, mouth), 0); /* not whole rows */
    assert_int_equal(ftruncate(fd, sizeof word), 0);
    word.length = BW_LAST_WORD_BYTES + 1;
    assert_int_equal(pwrite(fd, &word, sizeof word, 0), sizeof word);
    assert_int_equal(bw_last_words_say(fd, mouth), 0);
    assert_int_equal(bw_last_words_say(-1, mouth), 0);
    assert_int_equal(bw_last_words_write(&word, BW_LAST_WORDS_MAX + 1), -1);
    close(fd);
    close(mouth);
    close(room.ear);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_supervisor_is_spoken_for_when_all_of_its_work_is_dead),
        cmocka_unit_test(while_the_supervisor_lives_nothing_is_said),
        cmocka_unit_test(a_guardian_that_is_killed_too_says_nothing),
        cmocka_unit_test(a_file_of_others_is_not_read_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
