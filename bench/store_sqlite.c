/* Measures the embedded store: transfers, renewals of ten thousand elections, and how long a change
 * takes from one process to another.
 *
 *     store_sqlite [DIRECTORY]     on that directory's file system; else TMPDIR or /tmp
 *
 * The second process is this program again: a connection must not cross a fork. */
#include "os/clock.h"
#include "store/sqlite/sqlite.h"
#include "system/kit/scratch.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <uv.h>

#define CYCLES    2000u
#define ELECTIONS 10000u
#define ROUNDS    5u
#define NEWS      1000u

struct bench {
    uv_loop_t loop;
    struct bw_store *store;
    uint64_t next_id;
    uint32_t waiting;
    struct bw_store_reply last;
    bw_token *tokens; /* by id, for many requests at once */
    uint64_t first_id;
};

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct bench *bench = context;
    if (reply->outcome != BW_OUTCOME_DONE) {
        fprintf(stderr, "request failed: %s\n", reply->why);
        exit(1);
    }
    if (bench->tokens)
        bench->tokens[(reply->id - bench->first_id) % ELECTIONS] = reply->record.token;
    bench->last = *reply;
    bench->waiting--;
}

static void begin(struct bench *bench, const char *url)
{
    char why[BW_WHY_MAX + 1];
    struct bw_store_options options = {.context = bench, .reply = on_reply};
    memset(bench, 0, sizeof *bench);
    bench->next_id = (uint64_t)getpid() << 32;
    uv_loop_init(&bench->loop);
    if (bw_store_sqlite.open(&bench->store, url, &bench->loop, &options, why) != 0) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

static void end(struct bench *bench)
{
    bw_store_sqlite.close(bench->store);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    uv_loop_close(&bench->loop);
}

static void send_one(struct bench *bench, enum bw_store_op op, const char *election, bw_token token,
                     uint64_t version)
{
    struct bw_store_request request = {.op = op,
                                       .id = bench->next_id++,
                                       .election = election,
                                       .candidate = "bench",
                                       .ttl_ns = 60 * BW_SEC,
                                       .token = token,
                                       .version = version,
                                       .clean = true};
    if (bw_store_sqlite.request(bench->store, &request) != 0)
        exit(1);
    bench->waiting++;
}

static void wait_all(struct bench *bench)
{
    while (bench->waiting > 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
}

static struct bw_store_record ask(struct bench *bench, enum bw_store_op op, const char *election,
                                  bw_token token, uint64_t version)
{
    send_one(bench, op, election, token, version);
    wait_all(bench);
    return bench->last.record;
}

static void cycles(const char *url)
{
    struct bench bench;
    begin(&bench, url);
    bw_time start = bw_clock_boot();
    for (unsigned i = 0; i < CYCLES; i++) {
        bw_token token = ask(&bench, BW_STORE_ACQUIRE, "cycle", 0, 0).token;
        ask(&bench, BW_STORE_RELEASE, "cycle", token, 0);
    }
    double seconds = (double)(bw_clock_boot() - start) / (double)BW_SEC;
    printf("%-44s %10.0f /s  %8.1f us each\n", "acquire and release, one after the other",
           CYCLES / seconds, seconds * 1e6 / CYCLES);
    end(&bench);
}

static double all_elections(struct bench *bench, enum bw_store_op op)
{
    char name[32];
    bw_time start = bw_clock_boot();
    bench->first_id = bench->next_id;
    for (unsigned i = 0; i < ELECTIONS; i++) {
        snprintf(name, sizeof name, "many-%u", i);
        send_one(bench, op, name, bench->tokens[i], 0);
    }
    wait_all(bench);
    return (double)(bw_clock_boot() - start) / (double)BW_SEC;
}

static void many(const char *url)
{
    struct bench bench;
    begin(&bench, url);
    bench.tokens = calloc(ELECTIONS, sizeof *bench.tokens);
    double taken = all_elections(&bench, BW_STORE_ACQUIRE), renewed = 0;
    for (unsigned i = 0; i < ROUNDS; i++)
        renewed += all_elections(&bench, BW_STORE_RENEW);
    double released = all_elections(&bench, BW_STORE_RELEASE);
    printf("%-44s %10.0f /s  %8.1f us each\n", "acquire 10,000 elections", ELECTIONS / taken,
           taken * 1e6 / ELECTIONS);
    printf("%-44s %10.0f /s  %8.1f us each\n", "renew 10,000 elections",
           ROUNDS * ELECTIONS / renewed, renewed * 1e6 / (ROUNDS * ELECTIONS));
    printf("%-44s %10.0f /s  %8.1f us each\n", "release 10,000 elections", ELECTIONS / released,
           released * 1e6 / ELECTIONS);
    free(bench.tokens);
    end(&bench);
}

/* The waiting process: reports when it was notified of each release, then waits for the next
 * holder. */
static int listen_for(const char *url)
{
    struct bench bench;
    uint64_t version = 0;
    begin(&bench, url);
    for (unsigned heard = 0; heard < NEWS;) {
        struct bw_store_record record = ask(&bench, BW_STORE_WATCH, "news", 0, version);
        bw_time when = bw_clock_boot();
        version = record.version;
        if (!record.held && record.token == 0)
            continue;
        bw_time line[2] = {record.held, when};
        heard += !record.held;
        if (write(1, line, sizeof line) != sizeof line)
            return 1;
    }
    end(&bench);
    return 0;
}

static pid_t start_listener(const char *url, int *from)
{
    int ends[2];
    if (pipe(ends) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "listener", "--listen", url, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *from = ends[0];
    return pid;
}

static int by_size(const void *a, const void *b)
{
    bw_time left = *(const bw_time *)a, right = *(const bw_time *)b;
    return (left > right) - (left < right);
}

/* Prints sorted spans. */
static void print_spans(const char *name, const bw_time *spans)
{
    const unsigned shown[] = {NEWS / 2, NEWS * 99 / 100, NEWS - 1};
    printf("  %-42s", name);
    for (unsigned i = 0; i < 3; i++)
        printf(" %*.0f us", i ? 9 : 7, (double)spans[shown[i]] / (double)BW_US);
    putchar('\n');
}

static void news(const char *url)
{
    static bw_time after_commit[NEWS], after_asking[NEWS];
    struct bench bench;
    int from;
    begin(&bench, url);
    pid_t listener = start_listener(url, &from);
    for (unsigned i = 0; i < NEWS; i++) {
        bw_time heard[2] = {0, 0};
        bw_token token = ask(&bench, BW_STORE_ACQUIRE, "news", 0, 0).token;
        while (!heard[0]) /* until the listener has seen the holder and waits again */
            if (read(from, heard, sizeof heard) != sizeof heard)
                exit(1);
        usleep(2000);
        bw_time asked = bw_clock_boot();
        ask(&bench, BW_STORE_RELEASE, "news", token, 0);
        bw_time committed = bw_clock_boot();
        while (heard[0])
            if (read(from, heard, sizeof heard) != sizeof heard)
                exit(1);
        after_asking[i] = heard[1] - asked;
        after_commit[i] = heard[1] - committed;
    }
    waitpid(listener, NULL, 0);
    qsort(after_asking, NEWS, sizeof(bw_time), by_size);
    qsort(after_commit, NEWS, sizeof(bw_time), by_size);
    printf("%-44s %10s %12s %12s\n", "a release, until another process is notified", "median",
           "p99", "most");
    print_spans("from sending the request", after_asking);
    print_spans("from receiving the reply", after_commit);
    close(from);
    end(&bench);
}

int main(int argc, char **argv)
{
    char dir[SCRATCH_MAX], url[SCRATCH_MAX + 32];
    if (argc == 3 && strcmp(argv[1], "--listen") == 0)
        return listen_for(argv[2]);
    if (argc == 2)
        setenv("TMPDIR", argv[1], 1);
    scratch_make(dir);
    snprintf(url, sizeof url, "sqlite:%s/bench.db", dir);
    cycles(url);
    news(url);
    many(url);
    scratch_remove(dir);
    return 0;
}
