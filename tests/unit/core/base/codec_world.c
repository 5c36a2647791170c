/* Runs every algorithm with every detector twice: once passing structs, once passing bytes. Both
 * runs have the same trace, so the codec loses nothing and rejects nothing that a correct peer
 * sends. */
#include "unit/unit.h"

#include "sim/sim.h"

static const struct bw_sim_fault faults[] = {
    {.kind = BW_FAULT_CRASH, .at = BW_SEC, .node = 5},
    {.kind = BW_FAULT_CUT, .at = 2 * BW_SEC, .node = 1, .peer = 2},
    {.kind = BW_FAULT_TRANSFER, .at = 2500 * BW_MS, .peer = 3},
    {.kind = BW_FAULT_RESTART, .at = 3 * BW_SEC, .node = 5},
    {.kind = BW_FAULT_HEAL, .at = 4 * BW_SEC},
    {.kind = BW_FAULT_PAUSE, .at = 5 * BW_SEC, .node = 4},
    {.kind = BW_FAULT_RESUME, .at = 7 * BW_SEC, .node = 4},
    {.kind = BW_FAULT_JOIN, .at = 8 * BW_SEC, .node = 6},
    {.kind = BW_FAULT_LEAVE, .at = 9 * BW_SEC, .node = 2},
};

static uint64_t trace_of(const struct bw_elector_ops *algorithm,
                         const struct bw_detector_ops *detector, bool guard, bool codec)
{
    struct bw_sim_config config;
    struct bw_sim_result result;
    char why[200] = "";
    bw_sim_defaults(&config);
    config.algorithm = algorithm;
    config.detector = detector;
    config.spare = 1;
    config.elections = 2;
    config.seed = 7;
    config.loss = 0.02;
    config.guard = guard;
    config.propose_ns = 10 * BW_MS;
    config.propose_count = 3;
    config.compact_every = 40;
    config.faults = faults;
    config.faults_count = sizeof faults / sizeof faults[0];
    config.until = 12 * BW_SEC;
    config.codec = codec;
    int error = bw_sim_run(&config, &result, why);
    if (error)
        fail_msg("%s with %s: %s", algorithm->name, detector->name, why);
    assert_true(result.events > 1000);
    return result.trace_hash;
}

static void assert_bytes_change_nothing(const struct bw_elector_ops *algorithm,
                                        const struct bw_detector_ops *detector, bool guard)
{
    uint64_t handed_over = trace_of(algorithm, detector, guard, false);
    if (trace_of(algorithm, detector, guard, true) != handed_over)
        fail_msg("%s with %s: the trace differs", algorithm->name, detector->name);
}

static void every_algorithm_behaves_the_same_over_encoded_messages(void **state)
{
    (void)state;
    for (unsigned i = 0; bw_elector_at(i); i++)
        assert_bytes_change_nothing(bw_elector_at(i), &bw_detect_deadline, false);
}

static void every_detector_behaves_the_same_over_encoded_messages(void **state)
{
    (void)state;
    for (unsigned i = 0; bw_detector_at(i); i++)
        assert_bytes_change_nothing(&bw_elect_bully, bw_detector_at(i), false);
}

static void quorum_guard_behaves_the_same_over_encoded_messages(void **state)
{
    (void)state;
    for (unsigned i = 0; bw_elector_at(i); i++)
        if (bw_elector_at(i)->traits & BW_TRAIT_GUARDABLE)
            assert_bytes_change_nothing(bw_elector_at(i), &bw_detect_deadline, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_behaves_the_same_over_encoded_messages),
        cmocka_unit_test(every_detector_behaves_the_same_over_encoded_messages),
        cmocka_unit_test(quorum_guard_behaves_the_same_over_encoded_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
