/* Tests the lease elector in the simulator:
 *   - Stores are nodes, but the check that all nodes agree ignores them.
 *   - A leader that leaves transfers leadership.
 *   - The tokens show which store models keep their data in a crash, and which lose it. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "sim/checks/invariants.h"
#include "sim/stores/lease.h"

#define TOKENS 16

struct leaderships { /* in the order in which they began */
    struct bw_sim_observer observer;
    uint32_t count;
    bw_node node[TOKENS];
    bw_token token[TOKENS];
    bw_time at[TOKENS];
};

static void on_announced(void *context, bw_time at, bw_node node, uint32_t election,
                         const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct leaderships *l = context;
    (void)act_from, (void)act_until;
    bool known =
        l->count > 0 && l->node[l->count - 1] == node && l->token[l->count - 1] == a->token;
    if (election != 0 || a->leader != node || known || l->count == TOKENS)
        return;
    l->node[l->count] = node;
    l->token[l->count] = a->token;
    l->at[l->count++] = at;
}

static struct bw_sim_config world(enum bw_sim_store store)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    config.algorithm = bw_sim_lease_ops(store);
    config.detector = NULL;
    config.lease.store = store;
    config.lease.ttl_ns = 3 * BW_SEC;
    config.lease.kill_after_ns = 500 * BW_MS;
    config.lease.retry_ns = 300 * BW_MS;
    config.until = 20 * BW_SEC;
    config.checks = BW_CHECK_AGREEMENT | BW_CHECK_LIVENESS;
    return config;
}

static struct bw_sim_result run(struct bw_sim_config *config, struct leaderships *seen,
                                const struct bw_sim_fault *faults, uint32_t count)
{
    struct bw_sim_result result;
    char why[200];
    *seen = (struct leaderships){.observer = {.context = seen, .announced = on_announced}};
    config->observer = &seen->observer;
    config->faults = faults;
    config->faults_count = count;
    if (bw_sim_run(config, &result, why) != 0)
        fail_msg("%s", why);
    if (result.violation)
        fail_msg("%s", result.violation);
    return result;
}

static void stores_are_not_candidates_and_are_never_suspected(void **state)
{
    (void)state;
    struct leaderships seen;
    for (unsigned store = 0; bw_sim_store_name(store); store++) {
        struct bw_sim_config config = world((enum bw_sim_store)store);
        config.detector = &bw_detect_deadline;
        config.checks |= BW_CHECK_DETECTOR;
        struct bw_sim_result result = run(&config, &seen, NULL, 0);
        assert_in_range(result.leader, 1, config.nodes);
        assert_int_equal(result.false_suspicions, 0);
        assert_int_equal(result.leader_changes, 0);
        assert_int_equal(bw_sim_stores(&config), store == BW_SIM_STORE_REDLOCK ? 5 : 1);
    }
}

static void every_election_has_its_own_lease(void **state)
{
    (void)state;
    struct leaderships seen;
    struct bw_sim_config config = world(BW_SIM_STORE_SINGLE);
    config.elections = 8;
    struct bw_sim_fault crash = {.kind = BW_FAULT_CRASH, .at = 5 * BW_SEC};
    assert_int_equal(run(&config, &seen, &crash, 1).max_leaders, 1);
}

static void leaving_leader_transfers_without_waiting_for_the_lease(void **state)
{
    (void)state;
    struct leaderships seen;
    struct bw_sim_config config = world(BW_SIM_STORE_QUORUM);
    config.stop_ns = 40 * BW_MS;
    struct bw_sim_fault leave = {.kind = BW_FAULT_LEAVE, .at = 5 * BW_SEC};
    struct bw_sim_result result = run(&config, &seen, &leave, 1);
    assert_int_equal(seen.count, 2);
    assert_int_equal(result.leader_changes, 1);
    assert_in_range(seen.at[1], 5 * BW_SEC + config.stop_ns, 5 * BW_SEC + 100 * BW_MS);
}

static void node_that_crashes_while_leaving_stays_out(void **state)
{
    (void)state;
    struct leaderships seen;
    struct bw_sim_config config = world(BW_SIM_STORE_QUORUM);
    config.stop_ns = 300 * BW_MS;
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_LEAVE, .at = 5 * BW_SEC},
                                    {.kind = BW_FAULT_CRASH, .at = 5100 * BW_MS},
                                    {.kind = BW_FAULT_RESTART, .at = 5200 * BW_MS}};
    /* if the node came back, it would follow no leader at the end, and the run would fail */
    run(&config, &seen, faults, 3);
    assert_int_equal(seen.count, 2);
}

/* Counts, over some seeds, the leaderships with the same token as the one before. */
static uint32_t tokens_given_twice(enum bw_sim_store store)
{
    struct leaderships seen;
    uint32_t twice = 0;
    struct bw_sim_fault away[] = {{.kind = BW_FAULT_PAUSE, .at = 1050 * BW_MS},
                                  {.kind = BW_FAULT_STORE_DOWN, .at = 1100 * BW_MS},
                                  {.kind = BW_FAULT_STORE_UP, .at = 1150 * BW_MS},
                                  {.kind = BW_FAULT_RESUME, .at = 1700 * BW_MS}};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bw_sim_config config = world(store);
        config.seed = seed;
        run(&config, &seen, away, 4);
        for (uint32_t i = 1; i < seen.count; i++)
            twice += seen.token[i] == seen.token[i - 1];
    }
    return twice;
}

static void store_that_lost_its_newest_writes_issues_a_token_twice(void **state)
{
    (void)state;
    assert_true(tokens_given_twice(BW_SIM_STORE_FORGETFUL) >= 5);
    assert_int_equal(tokens_given_twice(BW_SIM_STORE_SINGLE), 0);
    assert_int_equal(tokens_given_twice(BW_SIM_STORE_QUORUM), 0);
}

static void store_crashes_when_a_fault_names_its_id(void **state)
{
    (void)state;
    struct leaderships seen;
    struct bw_sim_config config = world(BW_SIM_STORE_SINGLE);
    bw_node store = config.nodes + config.spare + 1;
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_CRASH, .at = 2 * BW_SEC, .node = store},
                                    {.kind = BW_FAULT_RESTART, .at = 9 * BW_SEC, .node = store}};
    struct bw_sim_result result = run(&config, &seen, faults, 2);
    assert_int_equal(seen.count, 2);
    assert_in_range(seen.at[1], 9 * BW_SEC, 9 * BW_SEC + config.lease.retry_ns + 50 * BW_MS);
    assert_true(result.leaderless > 3 * BW_SEC);
}

static void store_is_in_the_first_group_when_a_partition_does_not_name_it(void **state)
{
    (void)state;
    struct leaderships seen;
    struct bw_sim_config config = world(BW_SIM_STORE_QUORUM);
    uint8_t groups[] = {0, 2, 2, 2, 1, 1, 0};
    struct bw_sim_fault split = {.kind = BW_FAULT_PARTITION, .at = BW_SEC, .groups = groups};
    config.checks = 0; /* disconnected nodes do not agree */
    run(&config, &seen, &split, 1);
    assert_in_range(seen.node[seen.count - 1], 4, 5);
    groups[6] = 2;
    run(&config, &seen, &split, 1);
    assert_in_range(seen.node[seen.count - 1], 1, 3);
}

static void longest_gap_is_computed_from_the_settings(void **state)
{
    (void)state;
    struct bw_sim_config config = world(BW_SIM_STORE_QUORUM);
    assert_int_equal(bw_sim_lease_gap(&config), 3500 * BW_MS + 4 * 5 * BW_MS);
    config.drift = 0.2;
    assert_int_equal(bw_sim_lease_gap(&config), 3500 * BW_MS * 5 / 4 + 4 * 5 * BW_MS);
}

static void lease_settings_are_refused_when_they_conflict(void **state)
{
    (void)state;
    struct bw_sim_result result;
    char why[200];
    struct bw_sim_config config = world(BW_SIM_STORE_QUORUM);
    config.lease.kill_after_ns = 2 * BW_SEC;
    assert_int_equal(bw_sim_run(&config, &result, why), BW_EINVAL);
    assert_string_equal(why, "ttl is too short (rule: ttl (1 - drift) / (1 + drift) - kill-after - "
                             "margin >= ttl / 2): use at least 4582 ms");
    config = world(BW_SIM_STORE_QUORUM);
    config.lease.store = BW_SIM_STORE_REDLOCK;
    assert_int_equal(bw_sim_run(&config, &result, why), BW_EINVAL);
    config = world(BW_SIM_STORE_QUORUM);
    config.lease.retry_ns = 0;
    assert_int_equal(bw_sim_run(&config, &result, why), BW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_are_not_candidates_and_are_never_suspected),
        cmocka_unit_test(every_election_has_its_own_lease),
        cmocka_unit_test(leaving_leader_transfers_without_waiting_for_the_lease),
        cmocka_unit_test(node_that_crashes_while_leaving_stays_out),
        cmocka_unit_test(store_that_lost_its_newest_writes_issues_a_token_twice),
        cmocka_unit_test(store_crashes_when_a_fault_names_its_id),
        cmocka_unit_test(store_is_in_the_first_group_when_a_partition_does_not_name_it),
        cmocka_unit_test(longest_gap_is_computed_from_the_settings),
        cmocka_unit_test(lease_settings_are_refused_when_they_conflict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
