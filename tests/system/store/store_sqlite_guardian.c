/* Supervision of the work: the lock that supervisor and guardian share, and the guardian's release.
 *
 * The supervisor is this program again, with its own connection. It acquires and forks a guardian,
 * which keeps the lock's descriptor and waits for orders. */
#include "conformance/conformance.h"
#include "store/sqlite/sqlite.h"
#include "system/kit/scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define E       "nightly"
#define HANG_MS 60000u /* no result depends on it */

static char dir[SCRATCH_MAX], url[SCRATCH_MAX + 32];
static struct client b;

/* ---- the supervisor's program ---- */

/* Orders to the guardian: n = release by path and election, f = by descriptor; others, or end of
 * file: exit. */
static void guard(const char *path, int lock_fd, bw_token token, int orders)
{
    char order = 0;
    prctl(PR_SET_PDEATHSIG, 0);
    if (read(orders, &order, 1) == 1 && order == 'n')
        (void)!bw_store_sqlite_release(path, E, token);
    else if (order == 'f')
        (void)!bw_store_sqlite_release_fd(lock_fd, token);
    _exit(0);
}

/* Prints "TOKEN GUARDIAN-PID"; then: r = renew and print the outcome, u = release unclean. */
static int supervise(const char *path, const char *fifo)
{
    struct client client;
    char order;
    client_open(&client, path, "ada");
    struct bw_store_request request = client_request(&client, BW_STORE_ACQUIRE, E);
    request.containment = "cgroup:/work";
    struct bw_store_reply held = client_ask(&client, &request);
    int fd = bw_store_sqlite_lock_fd(client.store, E);
    bw_token token = held.record.token;
    pid_t guardian = fork();
    if (guardian == 0)
        guard(path, fd, token, open(fifo, O_RDONLY));
    printf("%llu %d\n", (unsigned long long)token, (int)guardian);
    fflush(stdout);
    while (read(0, &order, 1) == 1) {
        int outcome = (int)client_renew(&client, E, token).outcome;
        printf("%d %d\n", outcome, bw_store_sqlite_lock_fd(client.store, E));
        fflush(stdout);
    }
    return 0;
}

/* ---- the tests ---- */

struct pair {
    pid_t supervisor, guardian;
    int to, from, orders;
    bw_token token;
    struct bw_store_record record;
    uint64_t watch;
};

static void read_line(int fd, char *line, size_t size)
{
    size_t used = 0;
    while (used + 1 < size && read(fd, line + used, 1) == 1 && line[used] != '\n')
        used++;
    line[used] = '\0';
}

static void start(struct pair *pair)
{
    int to[2], from[2];
    char fifo[SCRATCH_MAX + 16], line[64];
    snprintf(fifo, sizeof fifo, "%s/orders", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    pair->orders = open(fifo, O_RDWR);
    assert_int_equal(pipe(to) | pipe(from), 0);
    pair->supervisor = fork();
    if (pair->supervisor == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        close(pair->orders);
        execl("/proc/self/exe", "supervisor", "--supervise", url, fifo, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    pair->to = to[1];
    pair->from = from[0];
    read_line(pair->from, line, sizeof line);
    unsigned long long token;
    assert_int_equal(sscanf(line, "%llu %d", &token, &pair->guardian), 2);
    pair->token = token;
    pair->record = client_do(&b, BW_STORE_READ, E).record;
    assert_true(pair->record.held);
    assert_false(pair->record.proved_dead);
    pair->watch = client_watch(&b, E, pair->record.version);
    client_idle(&b, 20);
}

static void kill_supervisor(struct pair *pair)
{
    kill(pair->supervisor, SIGKILL);
    waitpid(pair->supervisor, NULL, 0);
}

/* The process is not our child and may stay a zombie: that counts as dead. */
static bool is_gone(pid_t pid)
{
    char name[64], text[256] = "";
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(name, "r");
    if (!file)
        return true;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *state = got > 0 ? strrchr(text, ')') : NULL;
    return !state || state[2] == 'Z' || state[2] == 'X';
}

static void await_end(pid_t pid)
{
    for (int i = 0; i < 5000 && !is_gone(pid); i++)
        usleep(1000);
}

static void kill_guardian(struct pair *pair)
{
    kill(pair->guardian, SIGKILL);
    await_end(pair->guardian);
}

static void finish(struct pair *pair)
{
    kill_supervisor(pair);
    kill_guardian(pair);
    close(pair->to);
    close(pair->from);
    close(pair->orders);
}

static void order(const struct pair *pair, char what)
{
    assert_int_equal(write(pair->orders, &what, 1), 1);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(dir);
    snprintf(url, sizeof url, "sqlite:%s/elections.db", dir);
    client_open(&b, url, "ben");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    client_close(&b);
    scratch_remove(dir);
    return 0;
}

static void heard_release(const struct pair *pair)
{
    struct bw_store_reply reply;
    assert_true(client_wait(&b, pair->watch, HANG_MS, &reply));
    assert_false(reply.record.held);
    assert_true(reply.record.clean);
    assert_string_equal(reply.record.holder, "ada");
    assert_string_equal(reply.record.containment, "");
    assert_true(reply.record.version > pair->record.version);
    struct bw_store_reply taken = client_acquire(&b, E, 0);
    assert_int_equal(taken.outcome, BW_OUTCOME_DONE);
    assert_string_equal(taken.record.unconfirmed, "");
    assert_true(taken.record.token > pair->token);
}

static void death_is_not_proved_while_guardian_runs(void **state)
{
    (void)state;
    struct pair pair;
    struct bw_store_reply reply;
    start(&pair);
    kill_supervisor(&pair);
    assert_false(client_wait(&b, pair.watch, 150, &reply));
    assert_false(client_do(&b, BW_STORE_READ, E).record.proved_dead);
    kill_guardian(&pair);
    assert_true(client_wait(&b, pair.watch, HANG_MS, &reply));
    assert_true(reply.record.held);
    assert_true(reply.record.proved_dead);
    /* the new holder must clear it */
    assert_string_equal(reply.record.containment, "cgroup:/work");
    struct bw_store_reply taken = client_acquire(&b, E, reply.record.version);
    assert_string_equal(taken.record.unconfirmed, "ada\tcgroup:/work\n");
    finish(&pair);
}

static void death_is_not_proved_while_supervisor_runs(void **state)
{
    (void)state;
    struct pair pair;
    struct bw_store_reply reply;
    start(&pair);
    kill_guardian(&pair);
    assert_false(client_wait(&b, pair.watch, 150, &reply));
    kill_supervisor(&pair);
    assert_true(client_wait(&b, pair.watch, HANG_MS, &reply));
    assert_true(reply.record.proved_dead);
    finish(&pair);
}

static void guardian_releases_when_supervisor_is_dead(void **state)
{
    (void)state;
    struct pair pair;
    start(&pair);
    kill_supervisor(&pair);
    order(&pair, 'n');
    heard_release(&pair);
    finish(&pair);
}

static void guardian_releases_by_descriptor(void **state)
{
    (void)state;
    struct pair pair;
    start(&pair);
    kill_supervisor(&pair);
    order(&pair, 'f');
    heard_release(&pair);
    finish(&pair);
}

static void renewal_is_refused_after_guardian_released(void **state)
{
    (void)state;
    struct pair pair;
    char line[64];
    start(&pair);
    kill(pair.supervisor, SIGSTOP);
    order(&pair, 'n');
    struct bw_store_reply reply;
    assert_true(client_wait(&b, pair.watch, HANG_MS, &reply));
    assert_false(reply.record.held);
    kill(pair.supervisor, SIGCONT);
    assert_int_equal(write(pair.to, "r", 1), 1);
    read_line(pair.from, line, sizeof line);
    assert_string_equal(line, "1 -1"); /* refused, and its lock is released */
    finish(&pair);
}

static void stopped_holder_can_be_stolen_from_but_is_not_proved_dead(void **state)
{
    (void)state;
    struct pair pair;
    struct bw_store_reply reply;
    start(&pair);
    kill(pair.supervisor, SIGSTOP);
    kill(pair.guardian, SIGSTOP);
    assert_false(client_wait(&b, pair.watch, 150, &reply));
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E);
    assert_false(seen.record.proved_dead);
    struct bw_store_reply taken = client_acquire(&b, E, seen.record.version);
    assert_int_equal(taken.outcome, BW_OUTCOME_DONE);
    assert_string_equal(taken.record.unconfirmed, "ada\tcgroup:/work\n");
    kill(pair.guardian, SIGCONT);
    order(&pair, 'n'); /* late: must not change the new leadership */
    client_idle(&b, 100);
    seen = client_do(&b, BW_STORE_READ, E);
    assert_true(seen.record.held);
    assert_string_equal(seen.record.holder, "ben");
    kill(pair.supervisor, SIGCONT);
    finish(&pair);
}

static void guardians_release_is_found_by_a_later_read(void **state)
{
    (void)state;
    struct pair pair;
    start(&pair);
    b.ops->cancel(b.store, pair.watch);
    kill_supervisor(&pair);
    order(&pair, 'f');
    await_end(pair.guardian);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E);
    assert_false(seen.record.held);
    assert_true(seen.record.clean);
    assert_int_equal(client_acquire(&b, E, 0).outcome, BW_OUTCOME_DONE);
    finish(&pair);
}

static void guardians_release_is_stale_when_token_is_old(void **state)
{
    (void)state;
    bw_token one = client_acquire(&b, E, 0).record.token;
    client_release(&b, E, one, true);
    bw_token two = client_acquire(&b, E, 0).record.token;
    assert_int_equal(bw_store_sqlite_release(url, E, one), BW_ESTALE);
    assert_int_equal(bw_store_sqlite_release(url, "no/name", two), BW_EINVAL);
    assert_int_equal(bw_store_sqlite_release(url, "unknown", two), BW_EIO);
    assert_int_equal(bw_store_sqlite_release("sqlite:/nowhere/x.db", E, two), BW_EIO);
    assert_int_equal(bw_store_sqlite_release(url, E, 0), BW_EINVAL);
    assert_true(client_do(&b, BW_STORE_READ, E).record.held);
    assert_int_equal(bw_store_sqlite_release(url, E, two), 0);
    assert_false(client_do(&b, BW_STORE_READ, E).record.held);
}

static void proved_death_is_reported_again_only_after_a_pause(void **state)
{
    (void)state;
    struct pair pair;
    struct bw_store_reply reply;
    start(&pair);
    kill_guardian(&pair);
    kill_supervisor(&pair);
    assert_true(client_wait(&b, pair.watch, HANG_MS, &reply));
    uint64_t again = client_watch(&b, E, reply.record.version);
    assert_false(client_wait(&b, again, 300, &reply));
    assert_true(client_wait(&b, again, HANG_MS, &reply)); /* after a third of the TTL */
    assert_true(reply.record.proved_dead);
    finish(&pair);
}

#define in_scratch(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--supervise") == 0)
        return supervise(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        in_scratch(death_is_not_proved_while_guardian_runs),
        in_scratch(death_is_not_proved_while_supervisor_runs),
        in_scratch(guardian_releases_when_supervisor_is_dead),
        in_scratch(guardian_releases_by_descriptor),
        in_scratch(renewal_is_refused_after_guardian_released),
        in_scratch(stopped_holder_can_be_stolen_from_but_is_not_proved_dead),
        in_scratch(guardians_release_is_found_by_a_later_read),
        in_scratch(guardians_release_is_stale_when_token_is_old),
        in_scratch(proved_death_is_reported_again_only_after_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
