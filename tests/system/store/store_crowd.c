/* Measures what waiting costs on a store, and which candidate is served: many candidates wait for
 * one leadership, which is handed over again and again.
 *
 *     store-crowd URL CANDIDATES HAND-OVERS [CHURN]
 *
 * Each candidate is the elector of `bellwether run`, with its own connection to the store, as in a
 * process of its own; all share one loop here. They arrive one after the other. CHURN of them are
 * not steady: before each hand-over a random one of these leaves if it is present, or enters if it
 * is not.
 *
 * Prints a line of names and values. Per hand-over:
 * - `notified`: how many other candidates had their watch answered
 * - `ask`: how many of them sent an ACQUIRE
 * - `requests`: all requests except watches, which some stores keep on the server and others
 *   locally
 *
 * Then how long the hand-over took from the release, and which candidates were served in total.
 *
 * Exits with 1 if, on a store with the trait QUEUE, a candidate was served before one that arrived
 * earlier, or if more watches were answered than those of the next candidate and of one that has
 * just arrived. At the end all candidates are left behind, as by a killed process: each run uses a
 * new election name. */
#include "core/base/rng.h"
#include "os/clock.h"
#include "store/asker/asker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#define TTL_NS      (40 * BW_SEC)
#define RETRY_NS    BW_SEC
#define TICK_MS     2u
#define OPENING_MAX 32u /* stores that connect at the same time */
/* minimum duration of a leadership: all candidates wait again by then */
#define REST_NS      (250 * BW_MS)
#define REST_MOST_NS (3 * BW_SEC)      /* maximum, for stores whose candidates poll */
#define TIMEOUT_NS   (5 * 60 * BW_SEC) /* a run that takes longer hangs */

enum phase { OPENING, GATHERING, IDLE, PASSING };

struct crowd;

struct candidate {
    struct crowd *crowd;
    struct bw_asker *asker;
    struct bw_asker_client *asked; /* first a client that probes the store, then the elector */
    char id[32];
    bool ready;   /* its store has answered */
    bool here;    /* is a candidate */
    bool arrived; /* is waiting, or has led */
    bool gone;    /* its elector has stopped and may be freed */
    /* order of arrival: lower means earlier; a candidate that releases arrives again */
    uint64_t since;
    /* hand-overs since its arrival: all of them, and those to candidates that arrived later */
    uint32_t waited, passed;
    uint32_t notified_in; /* last hand-over in which its watch was answered */
    uint32_t led;
};

struct crowd {
    uv_loop_t loop;
    uv_timer_t tick;
    const char *url;
    const struct bw_store_ops *ops;
    char election[64];
    struct candidate *all;
    uint32_t count, churn, wanted;
    uint32_t opened, ready, started;
    enum phase phase;
    bw_time phase_since;
    bool counts;  /* a hand-over is in progress: answered watches and requests are counted */
    bool churned; /* one candidate has come or gone before this hand-over */
    struct candidate *leader, *former;
    struct bw_rng rng;
    uint64_t arrivals, released_ns;
    /* results */
    uint32_t handovers, in_order, longest_wait, most_passed;
    uint64_t notified, asked, requests;
    double *took_ms;
};

static void become(struct crowd *crowd, enum phase phase)
{
    crowd->phase = phase;
    crowd->phase_since = bw_clock_boot();
}

static bool is_steady(const struct candidate *c)
{
    return c - c->crowd->all < (ptrdiff_t)(c->crowd->count - c->crowd->churn);
}

static bool waits(const struct candidate *c)
{
    return c->here && c->arrived && c != c->crowd->leader;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* ---- one candidate ---- */

/* Counts a hand-over to `winner`. Every candidate that arrived earlier and still waits was passed
 * over. */
static void count_handover(struct candidate *winner)
{
    struct crowd *crowd = winner->crowd;
    bool first = true;
    for (uint32_t i = 0; i < crowd->count; i++) {
        struct candidate *c = &crowd->all[i];
        if (c == winner || c == crowd->former || !waits(c))
            continue;
        c->waited++;
        c->passed += c->since < winner->since;
        first = first && c->since > winner->since;
        if (is_steady(c)) {
            crowd->longest_wait = larger(crowd->longest_wait, c->waited);
            crowd->most_passed = larger(crowd->most_passed, c->passed);
        }
    }
    crowd->in_order += first;
    crowd->took_ms[crowd->handovers++] = (double)(uv_hrtime() - crowd->released_ns) / 1e6;
}

static void on_elected(struct candidate *c)
{
    struct crowd *crowd = c->crowd;
    if (crowd->phase == PASSING)
        count_handover(c);
    crowd->leader = c;
    c->led++;
    c->waited = c->passed = 0;
    c->arrived = true;
    if (crowd->phase == PASSING)
        become(crowd, IDLE);
}

static void on_act(void *context, const struct bw_lease_action *action)
{
    struct candidate *c = context;
    struct crowd *crowd = c->crowd;
    if (action->kind == BW_LEASE_ELECTED) {
        on_elected(c);
    } else if (action->kind == BW_LEASE_STEP_DOWN) {
        if (action->reason != BW_LEASE_RESIGNED)
            fprintf(stderr, "%s stepped down: %s\n", c->id, bw_lease_loss_name(action->reason));
        bw_asker_client_step(c->asked, BW_LEASE_WORK_DEAD, false);
    } else if (action->kind == BW_LEASE_RELEASED) {
        c->since = crowd->arrivals++;
    } else if (action->kind == BW_LEASE_STOPPED) {
        c->gone = true;
    }
}

static bool before(void *context, struct bw_store_request *request)
{
    struct candidate *c = context;
    struct crowd *crowd = c->crowd;
    if (crowd->counts) {
        crowd->requests += request->op != BW_STORE_WATCH;
        crowd->asked += request->op == BW_STORE_ACQUIRE && c != crowd->former;
    }
    if (request->op == BW_STORE_RELEASE)
        crowd->released_ns = uv_hrtime();
    return true;
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct candidate *c = context;
    struct crowd *crowd = c->crowd;
    if (!c->ready && reply->outcome == BW_OUTCOME_DONE) {
        c->ready = true;
        crowd->ready++;
    }
    bool notified = reply->op == BW_STORE_WATCH && reply->outcome == BW_OUTCOME_DONE;
    bool other = c != crowd->former && (c != crowd->leader || crowd->phase == PASSING);
    uint32_t round = crowd->handovers + (crowd->phase == PASSING);
    if (crowd->counts && notified && other && c->notified_in != round) {
        c->notified_in = round;
        crowd->notified++;
    }
}

static void on_stepped(void *context)
{
    struct candidate *c = context;
    struct bw_lease_status status;
    if (c->arrived || !c->here || bw_asker_client_is_waiting(c->asked))
        return;
    bw_lease_status(bw_asker_client_lease(c->asked), &status);
    if (strcmp(status.state, "waiting") == 0 && status.leader[0])
        c->arrived = true;
}

static const struct bw_asker_client_hooks hooks = {
    .act = on_act, .before = before, .answer = on_answer, .stepped = on_stepped};

static void give_up(const struct candidate *c, const char *why)
{
    fprintf(stderr, "%s: %s\n", c->id, why);
    exit(1);
}

static void open_store(struct candidate *c)
{
    char why[BW_WHY_MAX + 1];
    if (bw_asker_open(&c->asker, c->crowd->url, &c->crowd->loop, NULL, why) != 0)
        give_up(c, why);
    if (bw_asker_client_new(&c->asked, c->asker, NULL, &hooks, c) != 0)
        give_up(c, "no memory left");
}

/* Tests whether the store has connected. */
static void probe(struct candidate *c)
{
    struct bw_store_request request = {
        .op = BW_STORE_READ, .election = c->crowd->election, .candidate = c->id, .ttl_ns = TTL_NS};
    if (!bw_asker_client_is_waiting(c->asked))
        bw_asker_client_request(c->asked, &request, 10 * BW_SEC);
}

static void come(struct candidate *c)
{
    struct bw_lease_config config = {.election = c->crowd->election,
                                     .candidate = c->id,
                                     .value = "",
                                     .terms = {.ttl_ns = TTL_NS, .drift_ppm = 10000},
                                     .retry_ns = RETRY_NS};
    bw_asker_client_free(c->asked);
    if (bw_asker_client_new(&c->asked, c->asker, &config, &hooks, c) != 0)
        give_up(c, "no memory left");
    c->here = true;
    c->arrived = c->gone = false;
    c->waited = c->passed = 0;
    c->since = c->crowd->arrivals++;
    bw_asker_client_step(c->asked, BW_LEASE_START, false);
}

static void leave(struct candidate *c)
{
    c->here = false;
    bw_asker_client_step(c->asked, BW_LEASE_STOP, false);
}

/* ---- phases of the test ---- */

static void open_some(struct crowd *crowd)
{
    while (crowd->opened < crowd->count && crowd->opened - crowd->ready < OPENING_MAX) {
        struct candidate *c = &crowd->all[crowd->opened];
        c->crowd = crowd;
        snprintf(c->id, sizeof c->id, "candidate-%u", crowd->opened++);
        open_store(c);
    }
    for (uint32_t i = 0; i < crowd->opened; i++)
        if (!crowd->all[i].ready)
            probe(&crowd->all[i]);
    if (crowd->ready == crowd->count)
        become(crowd, GATHERING);
}

static void gather(struct crowd *crowd)
{
    if (crowd->started > 0 && !crowd->all[crowd->started - 1].arrived)
        return;
    if (crowd->started < crowd->count)
        come(&crowd->all[crowd->started++]);
    else
        become(crowd, IDLE);
}

static bool is_quiet(const struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        const struct candidate *c = &crowd->all[i];
        if (c->here && (!c->arrived || bw_asker_client_is_waiting(c->asked)))
            return false;
    }
    return true;
}

/* One unsteady candidate comes or goes. Returns false if there is none. */
static bool come_or_go(struct crowd *crowd)
{
    if (crowd->churn == 0 || crowd->churned)
        return false;
    uint64_t which = (uint64_t)bw_rng_between(&crowd->rng, 1, (int64_t)crowd->churn);
    struct candidate *c = &crowd->all[crowd->count - which];
    crowd->churned = true;
    crowd->counts = false;
    if (!c->here && c->gone)
        come(c);
    else if (c->here && c != crowd->leader)
        leave(c);
    return true;
}

static void idle(struct crowd *crowd)
{
    bw_time rested = bw_clock_boot() - crowd->phase_since;
    if (rested < REST_NS || (!is_quiet(crowd) && rested < REST_MOST_NS))
        return;
    if (crowd->handovers == crowd->wanted) {
        uv_stop(&crowd->loop);
    } else if (come_or_go(crowd)) {
        become(crowd, IDLE);
    } else {
        crowd->former = crowd->leader;
        crowd->churned = false;
        crowd->counts = true;
        become(crowd, PASSING);
        bw_asker_client_step(crowd->leader->asked, BW_LEASE_RESIGN, false);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct crowd *crowd = timer->data;
    if (bw_clock_boot() - crowd->phase_since > TIMEOUT_NS) {
        fprintf(stderr, "hung in phase %d, hand-over %u\n", (int)crowd->phase, crowd->handovers);
        exit(1);
    }
    if (crowd->phase == OPENING)
        open_some(crowd);
    else if (crowd->phase == GATHERING)
        gather(crowd);
    else if (crowd->phase == IDLE)
        idle(crowd);
}

/* ---- report ---- */

static int by_value(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static int report(const struct crowd *crowd)
{
    uint32_t served = 0, n = crowd->handovers;
    for (uint32_t i = 0; i < crowd->count; i++)
        served += crowd->all[i].led > (i == 0);
    qsort(crowd->took_ms, n, sizeof(double), by_value);
    printf("candidates %u, hand-overs %u, churn %u, told %.2f, ask %.2f, requests %.1f, "
           "median-ms %.2f, p99-ms %.2f, in-order %.0f%%, served %u, longest-wait %u, "
           "passed-over %u\n",
           crowd->count, n, crowd->churn, (double)crowd->notified / n, (double)crowd->asked / n,
           (double)crowd->requests / n, crowd->took_ms[n / 2], crowd->took_ms[n * 99 / 100],
           100.0 * crowd->in_order / n, served, crowd->longest_wait, crowd->most_passed);
    bool queue = crowd->ops->traits & BW_STORE_QUEUE;
    return queue && (crowd->notified > 2 * n || crowd->in_order != n);
}

static void allow_many_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv)
{
    static struct crowd crowd;
    char why[BW_WHY_MAX + 1];
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: %s URL CANDIDATES HAND-OVERS [CHURN]\n", argv[0]);
        return 64;
    }
    crowd.url = argv[1];
    crowd.count = (uint32_t)strtoul(argv[2], NULL, 10);
    crowd.wanted = (uint32_t)strtoul(argv[3], NULL, 10);
    crowd.churn = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    crowd.ops = bw_store_find(crowd.url, why);
    crowd.all = calloc(crowd.count, sizeof *crowd.all);
    crowd.took_ms = calloc(crowd.wanted, sizeof *crowd.took_ms);
    if (!crowd.ops || !crowd.all || !crowd.took_ms || crowd.wanted == 0 ||
        crowd.count < crowd.churn + 2) {
        fprintf(stderr, "%s\n",
                crowd.ops ? "need at least two steady candidates and one hand-over" : why);
        return 64;
    }
    allow_many_files();
    snprintf(crowd.election, sizeof crowd.election, "crowd-%" PRIx64, uv_hrtime());
    bw_rng_init(&crowd.rng, 1);
    uv_loop_init(&crowd.loop);
    uv_timer_init(&crowd.loop, &crowd.tick);
    crowd.tick.data = &crowd;
    become(&crowd, OPENING);
    uv_timer_start(&crowd.tick, on_tick, 0, TICK_MS);
    uv_run(&crowd.loop, UV_RUN_DEFAULT);
    return report(&crowd);
}
