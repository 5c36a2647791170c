/* Tests the host's duties for Raft, with the shipped Raft: durable logs, snapshots for followers
 * that fell behind, membership changes. */
#include "unit/unit.h"

#include "sim/checks/invariants.h"
#include "sim/sim.h"

#define INDEXES 4096u

static struct {
    uint64_t hash[INDEXES];
    bw_index last[10];
    uint32_t reports[10];
} applied;

/* Two nodes that report the same index must report the same state. */
static void saw_committed(void *context, bw_time at, bw_node node, uint32_t election,
                          bw_index index, uint64_t hash)
{
    (void)context, (void)at, (void)election;
    assert_true(index < INDEXES);
    if (!applied.hash[index])
        applied.hash[index] = hash;
    assert_true(applied.hash[index] == hash);
    applied.last[node] = index;
    applied.reports[node]++;
}

static const struct bw_sim_observer observer = {.committed = saw_committed};

static struct bw_sim_config raft_world(uint32_t nodes)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    memset(&applied, 0, sizeof applied);
    config.algorithm = &bw_elect_raft;
    config.detector = NULL;
    config.nodes = nodes;
    config.propose_ns = 10 * BW_MS;
    config.propose_count = 2;
    config.disk_min = 100 * BW_US;
    config.disk_max = 3 * BW_MS;
    config.until = 8 * BW_SEC;
    config.observer = &observer;
    config.checks = BW_CHECK_ONE_PER_TERM | BW_CHECK_EXCLUSION | BW_CHECK_TOKENS |
                    BW_CHECK_AGREEMENT | BW_CHECK_LOG;
    return config;
}

static struct bw_sim_result run(struct bw_sim_config *config, const struct bw_sim_fault *faults,
                                uint32_t count)
{
    struct bw_sim_result result;
    char why[200];
    config->faults = faults;
    config->faults_count = count;
    if (bw_sim_run(config, &result, why))
        fail_msg("%s", why);
    if (result.violation)
        fail_msg("%s", result.violation);
    return result;
}

static void proposals_are_applied_equally_on_all_nodes(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(5);
    struct bw_sim_result result = run(&config, NULL, 0);
    assert_true(result.committed > 1000);
    for (bw_node node = 1; node <= 5; node++) {
        assert_true(applied.last[node] + 40 > result.committed);
        assert_int_equal(applied.reports[node], applied.last[node]); /* each index once */
    }
}

static void group_continues_from_its_disks_after_a_power_loss(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(3);
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_CRASH, .node = 1, .at = 3 * BW_SEC},
        {.kind = BW_FAULT_CRASH, .node = 2, .at = 3 * BW_SEC},
        {.kind = BW_FAULT_CRASH, .node = 3, .at = 3 * BW_SEC},
        {.kind = BW_FAULT_RESTART, .node = 1, .at = 4 * BW_SEC},
        {.kind = BW_FAULT_RESTART, .node = 2, .at = 4 * BW_SEC},
        {.kind = BW_FAULT_RESTART, .node = 3, .at = 4 * BW_SEC},
    };
    struct bw_sim_result result = run(&config, faults, 6);
    assert_true(result.committed > 1000);
    assert_true(result.term >= 2);
    /* a restarted node applies its log a second time, from the start */
    for (bw_node node = 1; node <= 3; node++)
        assert_true(applied.reports[node] > applied.last[node] + 300);
}

static void follower_behind_a_compacted_log_gets_a_snapshot(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(3);
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_CRASH, .node = 3, .at = 2 * BW_SEC},
        {.kind = BW_FAULT_RESTART, .node = 3, .at = 5 * BW_SEC},
    };
    config.compact_every = 50;
    struct bw_sim_result result = run(&config, faults, 2);
    assert_true(result.by_kind[BW_MSG_RAFT_SNAPSHOT] > 0);
    assert_true(applied.last[3] + 40 > result.committed);
    /* node 3 skipped the entries that the snapshot covers */
    assert_true(applied.reports[3] + 100 < applied.last[3]);
}

static void compacted_group_restarts_from_its_snapshots(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(1);
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_CRASH, .node = 1, .at = 4 * BW_SEC},
        {.kind = BW_FAULT_RESTART, .node = 1, .at = 4100 * BW_MS},
    };
    config.compact_every = 50;
    struct bw_sim_result result = run(&config, faults, 2);
    assert_true(result.committed > 1000);
    assert_true(applied.reports[1] < applied.last[1] + 150); /* only entries after the snapshot */
}

static void joining_node_becomes_voter_and_leaving_node_loses_its_vote(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(3);
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_JOIN, .node = 4, .at = 2 * BW_SEC},
        {.kind = BW_FAULT_LEAVE, .node = 1, .at = 4 * BW_SEC},
        {.kind = BW_FAULT_CRASH, .node = 2, .at = 5 * BW_SEC}, /* 3 and 4 are a majority of 2..4 */
    };
    config.spare = 1;
    config.compact_every = 100;
    struct bw_sim_result result = run(&config, faults, 3);
    assert_true(result.leader == 3 || result.leader == 4);
    assert_true(applied.last[4] + 40 > result.committed);
    assert_true(result.committed > 1000);
}

static void leaving_leader_transfers_faster_than_any_timeout(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(5);
    struct bw_sim_fault leave = {.kind = BW_FAULT_LEAVE, .node = BW_NODE_NONE, .at = 3 * BW_SEC};
    struct bw_sim_result result = run(&config, &leave, 1);
    assert_int_equal(result.leader_changes, 1);
    assert_true(result.time_to_leader < 100 * BW_MS);
}

static void fresh_timers_make_failover_independent_of_the_last_heartbeat(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(5);
    struct bw_sim_fault crash = {.kind = BW_FAULT_CRASH, .at = 3 * BW_SEC};
    config.fresh_timers = true;
    config.latency.min = config.latency.max = BW_MS;
    config.timeout_min = 300 * BW_MS;
    config.timeout_max = 600 * BW_MS;
    config.disk_min = config.disk_max = 0;
    config.until = 0;
    for (config.seed = 1; config.seed <= 40; config.seed++) {
        memset(&applied, 0, sizeof applied);
        struct bw_sim_result result = run(&config, &crash, 1);
        assert_true(result.time_to_leader >= 300 * BW_MS);
        assert_true(result.time_to_leader < 1500 * BW_MS);
    }
}

static void several_elections_share_one_instance_and_one_disk(void **state)
{
    (void)state;
    struct bw_sim_config config = raft_world(3);
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_CRASH, .node = 2, .at = 2 * BW_SEC},
                                    {.kind = BW_FAULT_RESTART, .node = 2, .at = 3 * BW_SEC}};
    config.elections = 3;
    config.compact_every = 60;
    config.observer = NULL; /* indexes of three logs would mix in one table */
    struct bw_sim_result result = run(&config, faults, 2);
    assert_true(result.committed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_applied_equally_on_all_nodes),
        cmocka_unit_test(group_continues_from_its_disks_after_a_power_loss),
        cmocka_unit_test(follower_behind_a_compacted_log_gets_a_snapshot),
        cmocka_unit_test(compacted_group_restarts_from_its_snapshots),
        cmocka_unit_test(joining_node_becomes_voter_and_leaving_node_loses_its_vote),
        cmocka_unit_test(leaving_leader_transfers_faster_than_any_timeout),
        cmocka_unit_test(fresh_timers_make_failover_independent_of_the_last_heartbeat),
        cmocka_unit_test(several_elections_share_one_instance_and_one_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
