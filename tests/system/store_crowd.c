/* A crowd that waits: N candidates of one election in this process, all watching; then the leader
 * gives up, again and again, and it is counted who wakes.
 *
 *     store_crowd URL COUNT ROUNDS
 *
 * Prints `woken W in R hand-overs, median M us from release to lead`. Ends with 1 if somebody wakes
 * whose turn it is not, on a store that serves in order, or if the order is broken. */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define TTL (30 * BW_SEC)

struct crowd {
    uv_loop_t loop;
    char election[64]; /* nobody's before */
    const struct bw_store_ops *ops;
    struct bw_store *store;
    uint32_t count, entered, watching, woken, last;
    struct bw_store_reply reply; /* the last of a kind we wait for */
    uint64_t wanted;
    bool got;
};

/* Request ids: the kind in the high half, the candidate in the low one. */
enum { ENTERING = 1, WATCHING = 2, ASKING = 3 };

static uint64_t id_of(unsigned kind, uint32_t who)
{
    return (uint64_t)kind << 32 | who;
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct crowd *crowd = context;
    if (reply->id == crowd->wanted) {
        crowd->reply = *reply;
        crowd->got = true;
    } else if (reply->id >> 32 == ENTERING) {
        crowd->entered += reply->outcome == BW_OUTCOME_DONE;
    } else if (reply->id >> 32 == WATCHING) {
        crowd->woken++;
        crowd->watching--;
        crowd->last = (uint32_t)reply->id;
    }
}

static void put(struct crowd *crowd, enum bw_store_op op, unsigned kind, uint32_t who,
                const struct bw_store_record *seen)
{
    char name[32];
    snprintf(name, sizeof name, "c%u", who);
    struct bw_store_request request = {.op = op,
                                       .id = id_of(kind, who),
                                       .election = crowd->election,
                                       .candidate = name,
                                       .ttl_ns = TTL,
                                       .clean = true,
                                       .token = seen ? seen->token : 0,
                                       .version = seen ? seen->version : 0};
    if (crowd->ops->request(crowd->store, &request) != 0)
        abort();
}

static struct bw_store_reply ask(struct crowd *crowd, enum bw_store_op op, uint32_t who,
                                 const struct bw_store_record *seen)
{
    crowd->got = false;
    crowd->wanted = id_of(ASKING, who);
    put(crowd, op, ASKING, who, seen);
    while (!crowd->got)
        uv_run(&crowd->loop, UV_RUN_ONCE);
    if (crowd->reply.outcome != BW_OUTCOME_DONE)
        fprintf(stderr, "request %d of c%u: %s\n", (int)op, who, crowd->reply.why);
    return crowd->reply;
}

static void watch(struct crowd *crowd, uint32_t who, const struct bw_store_record *seen)
{
    put(crowd, BW_STORE_WATCH, WATCHING, who, seen);
    crowd->watching++;
}

/* In the order of their numbers, then all watch. A second read behind them: by then the server has
 * seen what was sent before it. */
static void gather(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        put(crowd, BW_STORE_ENTER, ENTERING, i, NULL);
        while (crowd->entered <= i)
            uv_run(&crowd->loop, UV_RUN_ONCE);
    }
}

static void wait_until_quiet(struct crowd *crowd, const struct bw_store_record *seen)
{
    for (uint32_t i = 0; i < 50; i++)
        ask(crowd, BW_STORE_READ, crowd->count, seen);
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
    return one < two ? -1 : one > two;
}

static int play(struct crowd *crowd, uint32_t rounds)
{
    uint64_t *spans = calloc(rounds, sizeof *spans);
    uint32_t strays = 0;
    if (!spans)
        abort();
    gather(crowd);
    struct bw_store_record leads = ask(crowd, BW_STORE_ACQUIRE, 0, NULL).record;
    for (uint32_t i = 1; i < crowd->count; i++)
        watch(crowd, i, &leads);
    wait_until_quiet(crowd, &leads);
    crowd->woken = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t from = uv_hrtime();
        uint32_t before = crowd->woken;
        ask(crowd, BW_STORE_RELEASE, i, &leads);
        while (crowd->woken == before)
            uv_run(&crowd->loop, UV_RUN_ONCE);
        struct bw_store_reply next = ask(crowd, BW_STORE_ACQUIRE, i + 1, NULL);
        spans[i] = uv_hrtime() - from;
        if (next.outcome != BW_OUTCOME_DONE || crowd->last != i + 1)
            strays++;
        leads = next.record;
        wait_until_quiet(crowd, &leads);
    }
    qsort(spans, rounds, sizeof *spans, compare);
    printf("woken %u in %u hand-overs, median %" PRIu64 " us from release to lead\n", crowd->woken,
           rounds, spans[rounds / 2] / 1000);
    free(spans);
    bool queue = crowd->ops->traits & BW_STORE_QUEUE;
    return queue && (crowd->woken != rounds || strays > 0) ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct crowd crowd;
    char why[BW_WHY_MAX + 1];
    struct bw_store_options options = {.context = &crowd, .reply = on_reply};
    if (argc != 4)
        return 64;
    crowd.count = (uint32_t)atoi(argv[2]);
    uint32_t rounds = (uint32_t)atoi(argv[3]);
    uv_loop_init(&crowd.loop);
    snprintf(crowd.election, sizeof crowd.election, "crowd-%" PRIx64, uv_hrtime());
    crowd.ops = bw_store_find(argv[1], why);
    if (rounds == 0 || rounds >= crowd.count || !crowd.ops ||
        crowd.ops->open(&crowd.store, argv[1], &crowd.loop, &options, why) != 0) {
        fprintf(stderr, "%s\n", why);
        return 64;
    }
    int code = play(&crowd, rounds);
    crowd.ops->close(crowd.store);
    while (uv_run(&crowd.loop, UV_RUN_DEFAULT) != 0)
        ;
    return code;
}
