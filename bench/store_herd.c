/* What waiting costs on a store, and who is served: many candidates wait for one leadership, which
 * goes from hand to hand.
 *
 *     store_herd URL [CANDIDATES [HAND-OVERS]]
 *
 * Each candidate has its own open store, as its own process would; all share one loop here. Prints
 * how many candidates a release wakes, how many of them ask, how long it takes until the next one
 * has it, and how evenly they are served. */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <uv.h>

#define CANDIDATES 1000u
#define HANDOVERS  50u
#define TTL_NS     (60 * BW_SEC)
#define HOLD_MS    300u /* a leadership; by then all wait again */
#define PACE_MS    4u   /* between two that open their store */

struct herd;

struct candidate {
    struct herd *herd;
    struct bw_store *store;
    uint64_t next_id;
    uint32_t wins;
    bw_token token; /* of the leadership it has or had */
    bool waits;     /* a watch is out */
    bool again;     /* it could not be asked for, and will be once more */
    char id[32];
};

struct herd {
    uv_loop_t loop;
    const struct bw_store_ops *ops;
    const char *url;
    char election[64];
    struct candidate *all;
    uint32_t count, opened, waiting, at;
    uint32_t handovers, wanted;
    uint64_t woken, asked, released_ns;
    double *took_ms;
    bool begun;
    struct candidate *leader;
    uv_timer_t pace, hold;
};

static void ask(struct candidate *c, enum bw_store_op op, uint64_t version, bw_token token)
{
    struct bw_store_request request = {.op = op,
                                       .id = c->next_id++,
                                       .election = c->herd->election,
                                       .candidate = c->id,
                                       .ttl_ns = TTL_NS,
                                       .version = version,
                                       .token = token,
                                       .clean = true};
    if (c->herd->ops->request(c->store, &request) != 0) {
        fprintf(stderr, "%s: a request was not taken\n", c->id);
        exit(1);
    }
}

static void wait_again(struct candidate *c, uint64_t version)
{
    c->waits = true;
    c->herd->waiting++;
    ask(c, BW_STORE_WATCH, version, 0);
}

static void let_go(struct candidate *c)
{
    c->herd->released_ns = uv_hrtime();
    ask(c, BW_STORE_RELEASE, 0, c->token);
}

static void on_held(uv_timer_t *timer)
{
    struct herd *herd = timer->data;
    let_go(herd->leader);
}

static void on_lead(struct candidate *c, const struct bw_store_record *record)
{
    struct herd *herd = c->herd;
    c->token = record->token;
    if (herd->begun) {
        herd->took_ms[herd->handovers++] = (double)(uv_hrtime() - herd->released_ns) / 1e6;
        c->wins++;
    }
    if (herd->handovers == herd->wanted)
        uv_stop(&herd->loop);
    herd->leader = c;
    if (herd->begun)
        uv_timer_start(&herd->hold, on_held, HOLD_MS, 0);
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct candidate *c = context;
    struct herd *herd = c->herd;
    bool answered = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    if (reply->op == BW_STORE_WATCH) {
        herd->waiting--;
        c->waits = false;
        herd->woken += herd->begun && !reply->record.held;
    }
    if (!answered) {
        fprintf(stderr, "%s: %s\n", c->id, reply->why);
        c->again = true;
        if (herd->begun)
            exit(1);
        return;
    }
    if (reply->op == BW_STORE_ENTER) {
        ask(c, BW_STORE_READ, 0, 0);
    } else if (reply->op == BW_STORE_ACQUIRE && reply->outcome == BW_OUTCOME_DONE) {
        on_lead(c, &reply->record);
    } else if (!reply->record.held && reply->op != BW_STORE_RELEASE) {
        herd->asked += herd->begun;
        ask(c, BW_STORE_ACQUIRE, 0, 0);
    } else if (!c->waits) {
        wait_again(c, reply->record.version);
    }
}

/* All others wait: the one that leads lets go. */
static void begin(struct herd *herd)
{
    herd->begun = true;
    uv_timer_stop(&herd->pace);
    for (uint32_t i = 0; i < herd->count; i++)
        if (!herd->all[i].waits) {
            let_go(&herd->all[i]);
            return;
        }
}

static void on_pace(uv_timer_t *timer)
{
    struct herd *herd = timer->data;
    struct bw_store_options options = {.reply = on_reply};
    char why[BW_WHY_MAX + 1];
    if (herd->opened < herd->count) {
        struct candidate *c = &herd->all[herd->opened];
        snprintf(c->id, sizeof c->id, "candidate-%u", herd->opened++);
        c->herd = herd;
        if (getrandom(&c->next_id, sizeof c->next_id, 0) != sizeof c->next_id)
            exit(1);
        options.context = c;
        if (herd->ops->open(&c->store, herd->url, &herd->loop, &options, why) != 0) {
            fprintf(stderr, "%s\n", why);
            exit(1);
        }
        ask(c, herd->ops->traits & BW_STORE_LISTS ? BW_STORE_ENTER : BW_STORE_READ, 0, 0);
    } else if (herd->at < herd->count) { /* those that found no connection */
        struct candidate *c = &herd->all[herd->at++];
        if (c->again)
            ask(c, BW_STORE_READ, 0, 0);
        c->again = false;
    } else if (!herd->begun && herd->waiting >= herd->count - 1) {
        begin(herd);
    } else {
        herd->at = 0;
    }
}

static int by_value(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void tell(const struct herd *herd)
{
    uint32_t served = 0, most = 0;
    for (uint32_t i = 0; i < herd->count; i++) {
        served += herd->all[i].wins > 0;
        most = herd->all[i].wins > most ? herd->all[i].wins : most;
    }
    qsort(herd->took_ms, herd->handovers, sizeof(double), by_value);
    printf("%u candidates, %u hand-overs: a release wakes %.1f, of which %.1f ask\n", herd->count,
           herd->handovers, (double)herd->woken / herd->handovers,
           (double)herd->asked / herd->handovers);
    printf("release to the next leadership: %.2f ms median, %.2f ms p99\n",
           herd->took_ms[herd->handovers / 2], herd->took_ms[herd->handovers * 99 / 100]);
    printf("served: %u different candidates, one at most %u times\n", served, most);
}

int main(int argc, char **argv)
{
    static struct herd herd;
    char why[BW_WHY_MAX + 1];
    struct rlimit files;
    if (argc < 2) {
        fprintf(stderr, "usage: %s URL [CANDIDATES [HAND-OVERS]]\n", argv[0]);
        return 64;
    }
    herd.url = argv[1];
    herd.count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : CANDIDATES;
    herd.wanted = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : HANDOVERS;
    herd.ops = bw_store_find(herd.url, why);
    herd.all = calloc(herd.count, sizeof *herd.all);
    herd.took_ms = calloc(herd.wanted, sizeof *herd.took_ms);
    if (!herd.ops || !herd.all || !herd.took_ms || herd.count < 2 || herd.wanted == 0) {
        fprintf(stderr, "%s\n", herd.ops ? "two candidates and a hand-over at least" : why);
        return 64;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    snprintf(herd.election, sizeof herd.election, "herd-%llx", (unsigned long long)uv_hrtime());
    uv_loop_init(&herd.loop);
    uv_timer_init(&herd.loop, &herd.pace);
    uv_timer_init(&herd.loop, &herd.hold);
    herd.pace.data = herd.hold.data = &herd;
    uv_timer_start(&herd.pace, on_pace, 0, PACE_MS);
    uv_run(&herd.loop, UV_RUN_DEFAULT);
    tell(&herd);
    return 0;
}
