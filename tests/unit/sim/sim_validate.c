/* Tests that invalid settings are refused with a reason that names them. */
#include "sim_probe.h"

static struct bw_sim_config config;

static void refused(int error, const char *sentence)
{
    struct bw_sim_result result;
    char why[200] = "";
    assert_int_equal(bw_sim_run(&config, &result, why), error);
    assert_string_equal(why, sentence);
    config = probe_world(5);
}

static int fresh(void **state)
{
    (void)state;
    config = probe_world(5);
    return 0;
}

static void the_group(void **state)
{
    (void)state;
    config.nodes = 0;
    refused(BW_EINVAL, "invalid nodes 0: expected at least 1");
    config.nodes = 65001;
    refused(BW_ELIMIT, "invalid nodes 65001: expected at most 65000");
    config.nodes = 16385;
    refused(BW_ELIMIT, "invalid nodes 16385: probe supports at most 16384");
    config.algorithm = &bw_elect_raft;
    config.nodes = 33;
    refused(BW_ELIMIT, "invalid nodes 33: raft supports at most 32");
    config.elections = 0;
    refused(BW_EINVAL, "invalid elections 0: expected 1 to 1024");
}

static void the_quorum(void **state)
{
    (void)state;
    config.guard = true;
    refused(BW_EINVAL, "quorum: probe never elects two leaders and needs no guard");
    config.algorithm = &bw_elect_bully;
    config.guard = true;
    config.quorum = 6;
    refused(BW_EINVAL, "invalid quorum 6: there are only 5 nodes");
    config.algorithm = &bw_elect_bully;
    config.guard = true;
    config.quorum = 2;
    refused(BW_EINVAL, "invalid quorum 2: a majority of 5 nodes is 3");
}

static void the_network(void **state)
{
    (void)state;
    config.latency.max = 5;
    refused(BW_EINVAL, "invalid latency: expected a range from 0 to 1 h, smaller value first");
    config.loss = 1.5;
    refused(BW_EINVAL, "invalid loss 1.5: expected 0 to 1");
    config.duplicate = -1;
    refused(BW_EINVAL, "invalid duplicate -1: expected 0 to 1");
    config.drift = 0.7;
    refused(BW_EINVAL, "invalid drift 0.7: expected 0 to 0.5");
}

static void the_times(void **state)
{
    (void)state;
    config.period_ns = 0;
    refused(BW_EINVAL, "invalid period: expected 1 us to 1 h");
    config.timeout_min = 5;
    refused(BW_EINVAL, "invalid timeout: expected a range, smaller value first");
    config.until = 0;
    config.limit = 0;
    refused(BW_EINVAL, "until and limit are both 0: set one of them");
    config.until = 0;
    config.algorithm = NULL;
    refused(BW_EINVAL, "without an algorithm and without faults the run never ends: set until");
}

static void the_lists(void **state)
{
    (void)state;
    bw_node six = 6, two = 2;
    config.crashed = &six;
    config.crashed_count = 1;
    refused(BW_EINVAL, "crashed: node 6 does not exist; ids are 1 to 5");
    config.initiator = 9;
    refused(BW_EINVAL, "initiator: node 9 does not exist; ids are 1 to 5");
    config.initiator = 2;
    config.crashed = &two;
    config.crashed_count = 1;
    refused(BW_EINVAL, "initiator 2 is crashed and cannot start an election");
}

static void one_fault(struct bw_sim_fault fault, const char *sentence)
{
    struct bw_sim_fault faults[2] = {{.kind = BW_FAULT_HEAL, .at = 10}, fault};
    config.faults = faults;
    config.faults_count = 2;
    refused(BW_EINVAL, sentence);
}

static void the_faults(void **state)
{
    (void)state;
    one_fault((struct bw_sim_fault){.kind = BW_FAULT_CRASH, .node = 1, .at = 9},
              "faults must be sorted by time");
    one_fault((struct bw_sim_fault){.kind = BW_FAULT_CRASH, .node = 7, .at = 10},
              "crash: node 7 does not exist; ids are 1 to 5");
    one_fault((struct bw_sim_fault){.kind = BW_FAULT_PARTITION, .at = 10},
              "partition: missing groups");
    one_fault((struct bw_sim_fault){.kind = BW_FAULT_DRIFT, .node = 1, .rate = -1, .at = 10},
              "invalid drift -1: expected -0.9 to 10");
    one_fault((struct bw_sim_fault){.kind = BW_FAULT_JOIN, .node = 3, .at = 10},
              "join: node 3 is already a member");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_group, fresh),   cmocka_unit_test_setup(the_quorum, fresh),
        cmocka_unit_test_setup(the_network, fresh), cmocka_unit_test_setup(the_times, fresh),
        cmocka_unit_test_setup(the_lists, fresh),   cmocka_unit_test_setup(the_faults, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
