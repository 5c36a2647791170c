/* Bully and its variants: message counts. The sequential recipe: notifications. Checks 1, 6, 7, 23,
 * 25 and the bully half of 27 of the algorithms page. */
#include "core/elect/sequence.h"
#include "sim/figures/figures.h"
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

/* A group of `nodes`. Its highest candidate led and is now dead, like all nodes in `crashed`. */
struct scene {
    const struct bw_elector_ops *algorithm;
    uint32_t nodes;
    bw_node initiator;
    const bw_node *crashed, *candidates, *alternatives;
    uint32_t crashed_count, candidates_count, alternatives_count;
};

static struct bw_sim_result play(struct bw_report *report, const struct scene *scene)
{
    struct bw_sim_config config;
    struct bw_sim_result result = {0};
    char why[200];
    bw_sim_defaults(&config);
    config.algorithm = scene->algorithm;
    config.nodes = scene->nodes;
    config.initiator = scene->initiator;
    config.crashed = scene->crashed;
    config.crashed_count = scene->crashed_count;
    config.candidates = scene->candidates;
    config.candidates_count = scene->candidates_count;
    config.alternatives = scene->alternatives;
    config.alternatives_count = scene->alternatives_count;
    if (bw_sim_run(&config, &result, why))
        bw_report_equal(report, why, 0, 1);
    return result;
}

static void messages(struct bw_report *report, const char *scene, const char *kind, double expected,
                     uint64_t measured)
{
    char what[96];
    snprintf(what, sizeof what, "%s: %s", scene, kind);
    bw_report_equal(report, what, expected, (double)measured);
}

/* --- 1: the cascade -------------------------------------------------------------------------- */

static void cascade_from(struct bw_report *report, bw_node r)
{
    static const bw_node dead[] = {10};
    double above = 10 - (double)r;
    char scene[32];
    struct bw_sim_result result = play(report, &(struct scene){.algorithm = &bw_elect_bully,
                                                               .nodes = 10,
                                                               .initiator = r,
                                                               .crashed = dead,
                                                               .crashed_count = 1});
    snprintf(scene, sizeof scene, "initiator %u", r);
    messages(report, scene, "ELECTION", above * (above + 1) / 2, result.by_kind[BW_MSG_ELECTION]);
    messages(report, scene, "OK", above * (above - 1) / 2, result.by_kind[BW_MSG_OK]);
    messages(report, scene, "COORDINATOR", 8, result.by_kind[BW_MSG_COORDINATOR]);
    messages(report, scene, "messages", above * above + 8, result.sent);
    messages(report, scene, "leader", 9, result.leader);
}

static void cascade(struct bw_report *report, double size)
{
    (void)size;
    cascade_from(report, 1);
    cascade_from(report, 5);
    cascade_from(report, 9);
}

/* --- 6: next in line ------------------------------------------------------------------------- */

static void next_in_line(struct bw_report *report, double size)
{
    (void)size;
    static const bw_node leader[] = {6}, two[] = {5, 6};
    struct scene scene = {.algorithm = &bw_elect_bully_next,
                          .nodes = 6,
                          .initiator = 2,
                          .crashed = leader,
                          .crashed_count = 1};
    struct bw_sim_result top = play(report, &scene);
    messages(report, "top alive", "messages", 6, top.sent);
    messages(report, "top alive", "leader", 5, top.leader);
    scene.initiator = 5;
    struct bw_sim_result self = play(report, &scene);
    messages(report, "detector is the top", "messages", 4, self.sent);
    messages(report, "detector is the top", "leader", 5, self.leader);
    scene.initiator = 2;
    scene.crashed = two;
    scene.crashed_count = 2;
    struct bw_sim_result next = play(report, &scene);
    messages(report, "first alternative dead", "messages", 7, next.sent);
    messages(report, "first alternative dead", "FAILOVER", 2, next.by_kind[BW_MSG_FAILOVER]);
    messages(report, "first alternative dead", "leader", 4, next.leader);
    struct bw_elector_config settings = {.count = 6};
    bw_elector_defaults(&settings, 5 * BW_MS, 100 * BW_MS); /* one way takes 1 to 5 ms */
    double timeouts = (double)(next.time_to_leader - BW_MS) / (double)settings.answer_ns;
    bw_report_near(report, "first alternative dead: timeouts waited", 1, timeouts,
                   4 * (double)BW_MS / (double)settings.answer_ns);
}

/* --- 7: the sequential recipe ---------------------------------------------------------------- */

#define CLIENTS 50u

/* Sequential entries that disappear with their owners, and the watchers of entries. */
struct store {
    struct bw_sequence_entry entries[CLIENTS];
    uint32_t count;
    struct bw_sequence clients[CLIENTS];
    uint64_t notified;
};

static void list_again(struct store *store, struct bw_sequence *client)
{
    bw_sequence_listed(client, store->entries, store->count);
}

/* The owner dies: its entry disappears, and the watchers are notified and list the entries
 * again. */
static void vanish(struct store *store, uint64_t number)
{
    uint32_t i = 0;
    while (store->entries[i].number != number)
        i++;
    store->count--;
    memmove(&store->entries[i], &store->entries[i + 1],
            (store->count - i) * sizeof *store->entries);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        struct bw_sequence *client = &store->clients[c];
        bool watching = client->verdict == BW_SEQUENCE_WATCH && client->watch.number == number;
        if (client->own == number || !watching)
            continue;
        store->notified++;
        if (bw_sequence_vanished(client, number))
            list_again(store, client);
    }
    bw_sequence_vanished(&store->clients[number - 1], number);
}

static uint64_t leader_of(const struct store *store, double *leaders)
{
    uint64_t leader = 0;
    *leaders = 0;
    for (uint32_t c = 0; c < CLIENTS; c++)
        if (store->clients[c].verdict == BW_SEQUENCE_LEAD) {
            leader = store->clients[c].own;
            ++*leaders;
        }
    return leader;
}

static void sequential(struct bw_report *report, double size)
{
    (void)size;
    struct store store = {.count = CLIENTS};
    double leaders;
    for (uint32_t c = 0; c < CLIENTS; c++)
        store.entries[c] = (struct bw_sequence_entry){.number = c + 1, .owner = 1000 + c};
    for (uint32_t c = 0; c < CLIENTS; c++) {
        bw_sequence_init(&store.clients[c], c + 1);
        list_again(&store, &store.clients[c]);
    }
    messages(report, "50 clients", "leader", 1, leader_of(&store, &leaders));
    bw_report_equal(report, "50 clients: leaders", 1, leaders);
    vanish(&store, 25);
    messages(report, "a middle node dies", "notified", 1, store.notified);
    messages(report, "a middle node dies", "leader", 1, leader_of(&store, &leaders));
    store.notified = 0;
    vanish(&store, 1);
    messages(report, "the leader dies", "notified", 1, store.notified);
    messages(report, "the leader dies", "leader", 2, leader_of(&store, &leaders));
    bw_report_equal(report, "the leader dies: leaders", 1, leaders);
    store.notified = 0;
    while (store.count > 1)
        vanish(&store, store.entries[0].number);
    messages(report, "47 more leaders die", "notified", 47, store.notified);
    messages(report, "47 more leaders die", "leader", 50, leader_of(&store, &leaders));
}

/* --- 23: candidates and ordinary members; an unusable list ------------------------------------ */

static void candidates_of(struct bw_report *report, bw_node initiator, const char *scene)
{
    static const bw_node candidates[] = {6, 7, 8, 9}, dead[] = {9};
    struct bw_sim_result result =
        play(report, &(struct scene){.algorithm = &bw_elect_bully_candidates,
                                     .nodes = 9,
                                     .initiator = initiator,
                                     .crashed = dead,
                                     .crashed_count = 1,
                                     .candidates = candidates,
                                     .candidates_count = 4});
    messages(report, scene, "messages, 2c + n-2", 2 * 3 + 7, result.sent);
    messages(report, scene, "POLL", 3, result.by_kind[BW_MSG_POLL]);
    messages(report, scene, "ANSWER", 3, result.by_kind[BW_MSG_ANSWER]);
    messages(report, scene, "elections", 1, result.elections);
    messages(report, scene, "leader", 8, result.leader);
}

static void candidates(struct bw_report *report, double size)
{
    (void)size;
    static const bw_node all_dead[] = {5, 6}, both[] = {5, 6};
    static const bw_node list[] = {5, 4}, list_dead[] = {4, 5, 6};
    candidates_of(report, 2, "one detector");
    candidates_of(report, BW_INITIATOR_ALL, "eight detectors at once");
    struct bw_sim_result none =
        play(report, &(struct scene){.algorithm = &bw_elect_bully_candidates,
                                     .nodes = 6,
                                     .initiator = 1,
                                     .crashed = all_dead,
                                     .crashed_count = 2,
                                     .candidates = both,
                                     .candidates_count = 2});
    messages(report, "no candidate alive", "leader", 4, none.leader);
    bw_report_at_least(report, "no candidate alive: ELECTION", 1,
                       (double)none.by_kind[BW_MSG_ELECTION]);
    struct bw_sim_result stale = play(report, &(struct scene){.algorithm = &bw_elect_bully_next,
                                                              .nodes = 6,
                                                              .initiator = 1,
                                                              .crashed = list_dead,
                                                              .crashed_count = 3,
                                                              .alternatives = list,
                                                              .alternatives_count = 2});
    messages(report, "all of the list dead", "FAILOVER", 2, stale.by_kind[BW_MSG_FAILOVER]);
    bw_report_at_least(report, "all of the list dead: ELECTION", 1,
                       (double)stale.by_kind[BW_MSG_ELECTION]);
    messages(report, "all of the list dead", "leader", 3, stale.leader);
}

/* --- 25: a flapping top id ------------------------------------------------------------------- */

#define FLAPS_MAX 40u

/* Counts leader changes while the highest of five ids crashes every 3 s for 1.5 s. */
static double flap(struct bw_report *report, enum bw_rank rank, uint32_t flaps)
{
    struct bw_sim_fault faults[2 * FLAPS_MAX];
    struct bw_sim_config config;
    struct bw_sim_result result = {0};
    char why[200];
    for (size_t i = 0; i < flaps; i++) {
        bw_time at = (2 + 3 * (bw_time)i) * BW_SEC;
        faults[2 * i] = (struct bw_sim_fault){.kind = BW_FAULT_CRASH, .at = at, .node = 5};
        faults[2 * i + 1] =
            (struct bw_sim_fault){.kind = BW_FAULT_RESTART, .at = at + 3 * BW_SEC / 2, .node = 5};
    }
    bw_sim_defaults(&config);
    config.rank = rank;
    config.faults = faults;
    config.faults_count = 2 * flaps;
    config.until = (4 + 3 * (bw_time)flaps) * BW_SEC;
    if (bw_sim_run(&config, &result, why))
        bw_report_equal(report, why, 0, 1);
    return (double)result.leader_changes;
}

static void flapping(struct bw_report *report, double size)
{
    (void)size;
    double few = flap(report, BW_RANK_STABILITY, 10);
    double many = flap(report, BW_RANK_STABILITY, FLAPS_MAX);
    bw_report_at_most(report, "by stability: leader changes in 10 flaps", 4, few);
    bw_report_equal(report, "by stability: further leader changes in 40 flaps", 0, many - few);
    double plain_few = flap(report, BW_RANK_ID, 10);
    double plain_many = flap(report, BW_RANK_ID, FLAPS_MAX);
    bw_report_at_least(report, "by id: leader changes in 10 flaps", 20, plain_few);
    bw_report_at_least(report, "by id: further leader changes in 40 flaps", 60,
                       plain_many - plain_few);
}

/* --- 27: the textbook form ------------------------------------------------------------------- */

static void textbook(struct bw_report *report, double size)
{
    (void)size;
    static const bw_node dead[] = {6};
    struct bw_sim_result result = play(report, &(struct scene){.algorithm = &bw_elect_bully_notify,
                                                               .nodes = 6,
                                                               .initiator = 3,
                                                               .crashed = dead,
                                                               .crashed_count = 1});
    messages(report, "n=6, initiator 3", "ELECTION", 3, result.by_kind[BW_MSG_ELECTION]);
    messages(report, "n=6, initiator 3", "ALIVE", 2, result.by_kind[BW_MSG_ALIVE]);
    messages(report, "n=6, initiator 3", "NOTICE", 1, result.by_kind[BW_MSG_NOTICE]);
    messages(report, "n=6, initiator 3", "COORDINATOR", 4, result.by_kind[BW_MSG_COORDINATOR]);
    messages(report, "n=6, initiator 3", "messages", 10, result.sent);
    messages(report, "n=6, initiator 3", "leader", 5, result.leader);
}

const struct bw_sim_check bw_checks_bully[] = {
    {.number = 1,
     .name = "bully-messages",
     .claim = "Bully n=10, initiator 1, 5 or 9: 89, 33 or 9 messages exactly.",
     .run = cascade},
    {.number = 6,
     .name = "next-in-line-messages",
     .claim = "Next-in-line n=6: top alive 6 messages; first alternative dead 7 and one timeout.",
     .run = next_in_line},
    {.number = 7,
     .name = "sequential-recipe",
     .claim = "Sequential recipe, 50 clients: the leader's death notifies 1; a middle node's death "
              "notifies 1 and changes no leader.",
     .run = sequential},
    {.number = 23,
     .name = "candidates-messages",
     .claim = "Candidate/ordinary: 2c + n-2 messages, several detectors at once make one election. "
              "Next-in-line with an unusable list: bully.",
     .run = candidates},
    {.number = 25,
     .name = "bully-flapping",
     .claim = "A flapping top id under bully ranked by stability: leader changes bounded; under "
              "plain bully they are not.",
     .run = flapping},
    {.number = 27,
     .name = "bully-notify-messages",
     .claim = "bully-notify n=6, initiator 3: 10 messages.",
     .run = textbook},
    {0},
};
