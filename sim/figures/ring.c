/* Ring elections: message counts and times. Checks 3, 4, 5 and the ring half of 27 of the
 * algorithms page. */
#include "sim/figures/figures.h"
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>

static struct bw_sim_result play(struct bw_report *report, const struct bw_sim_config *config)
{
    struct bw_sim_result result = {0};
    char why[200];
    if (bw_sim_run(config, &result, why))
        bw_report_equal(report, why, 0, 1);
    return result;
}

/* --- 3: Chang-Roberts ------------------------------------------------------------------------ */

static struct bw_sim_result chang_roberts(struct bw_report *report, enum bw_sim_order order,
                                          bool announce, uint64_t seed)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    config.algorithm = &bw_elect_ring_chang_roberts;
    config.detector = NULL;
    config.nodes = 16;
    config.initiator = BW_INITIATOR_ALL;
    config.order = order;
    config.no_announce = !announce;
    config.seed = seed;
    return play(report, &config);
}

static void chang_roberts_messages(struct bw_report *report, double size)
{
    uint32_t runs = bw_report_runs(4000, size, 200);
    struct bw_sim_result rising = chang_roberts(report, BW_ORDER_SORTED, false, 1);
    struct bw_sim_result falling = chang_roberts(report, BW_ORDER_REVERSE, false, 1);
    struct bw_sim_result announced = chang_roberts(report, BW_ORDER_SORTED, true, 1);
    double total = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= runs; seed++) {
        struct bw_sim_result result = chang_roberts(report, BW_ORDER_RANDOM, false, seed);
        total += (double)result.sent;
        wrong += result.leader != 16;
    }
    bw_report_equal(report, "ids rise along the ring: messages", 31, (double)rising.sent);
    bw_report_equal(report, "ids fall along the ring: messages", 136, (double)falling.sent);
    bw_report_equal(report, "ids rise, with the announcement: messages", 47,
                    (double)announced.sent);
    bw_report_equal(report, "with the announcement: leader", 16, announced.leader);
    bw_report_near_mean(report, "random orders: mean messages", 54.09, total / runs, 0.5, size);
    bw_report_equal(report, "random orders: runs not won by 16", 0, wrong);
}

/* --- 4: Hirschberg-Sinclair ------------------------------------------------------------------ */

static void hirschberg_sinclair(struct bw_report *report, uint32_t n, enum bw_sim_order order,
                                double instant)
{
    const char *how = order == BW_ORDER_RANDOM ? "shuffled" : "by id";
    struct bw_sim_config config;
    char what[96];
    bw_sim_defaults(&config);
    config.algorithm = &bw_elect_ring_hirschberg_sinclair;
    config.detector = NULL;
    config.nodes = n;
    config.initiator = BW_INITIATOR_ALL;
    config.order = order;
    config.latency.min = config.latency.max = BW_MS;
    struct bw_sim_result result = play(report, &config);
    double bound = 8.0 * n + 8.0 * ceil(n * log2(n));
    uint64_t lap = result.by_kind[BW_MSG_RING_COORDINATOR];
    snprintf(what, sizeof what, "n=%u %s: latencies until the winner leads", n, how);
    bw_report_equal(report, what, instant, (double)result.time_to_leader / (double)BW_MS);
    snprintf(what, sizeof what, "n=%u %s: messages without the announcement", n, how);
    bw_report_at_most(report, what, bound - 1, (double)(result.sent - lap));
    snprintf(what, sizeof what, "n=%u %s: messages of the announcement", n, how);
    bw_report_equal(report, what, n, (double)lap);
    snprintf(what, sizeof what, "n=%u %s: leader", n, how);
    bw_report_equal(report, what, n, result.leader);
}

static void hirschberg_sinclair_instants(struct bw_report *report, double size)
{
    (void)size;
    hirschberg_sinclair(report, 64, BW_ORDER_SORTED, 190);
    hirschberg_sinclair(report, 64, BW_ORDER_RANDOM, 190);
    hirschberg_sinclair(report, 65, BW_ORDER_SORTED, 319);
    hirschberg_sinclair(report, 65, BW_ORDER_RANDOM, 319);
}

/* --- 5 and 27: two laps past two dead nodes -------------------------------------------------- */

struct sizes { /* sizes of the observed messages */
    uint32_t least, most;
};

static void measure(void *context, bw_time at, const struct bw_message *msg, bw_time arrives)
{
    struct sizes *sizes = context;
    (void)at;
    (void)arrives;
    if (bw_message_for_detector(msg->kind))
        return;
    sizes->least = msg->items < sizes->least ? msg->items : sizes->least;
    sizes->most = msg->items > sizes->most ? msg->items : sizes->most;
}

/* Nine nodes; `dead` and the next one are dead; every live node initiates in turn. */
static void two_dead(struct bw_report *report, const struct bw_elector_ops *algorithm, bw_node dead)
{
    bw_node crashed[] = {dead, dead % 9 + 1};
    bw_node highest = 9;
    uint64_t delivered[2] = {UINT64_MAX, 0}, failed[2] = {UINT64_MAX, 0}, wrong = 0;
    struct sizes sizes = {UINT32_MAX, 0};
    struct bw_sim_observer observer = {.context = &sizes, .sent = measure};
    char what[96];
    while (highest == crashed[0] || highest == crashed[1])
        highest--;
    for (bw_node initiator = 1; initiator <= 9; initiator++) {
        struct bw_sim_config config;
        if (initiator == crashed[0] || initiator == crashed[1])
            continue;
        bw_sim_defaults(&config);
        config.algorithm = algorithm;
        config.nodes = 9;
        config.initiator = initiator;
        config.crashed = crashed;
        config.crashed_count = 2;
        config.observer = &observer;
        struct bw_sim_result result = play(report, &config);
        delivered[0] = result.delivered < delivered[0] ? result.delivered : delivered[0];
        delivered[1] = result.delivered > delivered[1] ? result.delivered : delivered[1];
        failed[0] = result.failed_sends < failed[0] ? result.failed_sends : failed[0];
        failed[1] = result.failed_sends > failed[1] ? result.failed_sends : failed[1];
        wrong += result.leader != highest;
    }
    snprintf(what, sizeof what, "%u and %u dead: messages delivered, least over 7 initiators",
             crashed[0], crashed[1]);
    bw_report_equal(report, what, 14, (double)delivered[0]);
    snprintf(what, sizeof what, "%u and %u dead: messages delivered, most", crashed[0], crashed[1]);
    bw_report_equal(report, what, 14, (double)delivered[1]);
    snprintf(what, sizeof what, "%u and %u dead: failed sends per lap, least", crashed[0],
             crashed[1]);
    bw_report_equal(report, what, 2, (double)failed[0] / 2);
    snprintf(what, sizeof what, "%u and %u dead: failed sends per lap, most", crashed[0],
             crashed[1]);
    bw_report_equal(report, what, 2, (double)failed[1] / 2);
    snprintf(what, sizeof what, "%u and %u dead: runs not led by %u", crashed[0], crashed[1],
             highest);
    bw_report_equal(report, what, 0, (double)wrong);
    if (algorithm != &bw_elect_ring_max)
        return;
    snprintf(what, sizeof what, "%u and %u dead: ids a message carries beyond its fixed part",
             crashed[0], crashed[1]);
    bw_report_equal(report, what, 0, sizes.most);
}

static void list_laps(struct bw_report *report, double size)
{
    (void)size;
    two_dead(report, &bw_elect_ring_list, 8);
    two_dead(report, &bw_elect_ring_list, 4);
    two_dead(report, &bw_elect_ring_list, 9);
}

static void max_laps(struct bw_report *report, double size)
{
    (void)size;
    two_dead(report, &bw_elect_ring_max, 8);
    two_dead(report, &bw_elect_ring_max, 4);
    two_dead(report, &bw_elect_ring_max, 9);
}

const struct bw_sim_check bw_checks_ring[] = {
    {3, "chang-roberts-messages",
     "Chang-Roberts, n=16: 31 messages in rising order, 136 in falling, 54.09 on average", NULL,
     chang_roberts_messages},
    {4, "hirschberg-sinclair-instants",
     "Hirschberg-Sinclair wins after 190 latencies with n=64 and after 319 with n=65", NULL,
     hirschberg_sinclair_instants},
    {5, "ring-list-laps",
     "The list ring, 7 live and 2 adjacent dead: 14 delivered, 2 failed sends a lap, the highest "
     "live leads",
     NULL, list_laps},
    {27, "ring-max-laps",
     "The maximum ring, 7 live and 2 adjacent dead: 14 delivered, all of one size", NULL, max_laps},
    {0, NULL, NULL, NULL, NULL},
};
