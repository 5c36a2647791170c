/* Tests the stepping interface of the simulated world. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "sim/step.h"
#include "sim/stores/lease.h"

static struct bw_sim_config settings(const char *algorithm, uint64_t seed)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    config.algorithm = bw_elector_find(algorithm);
    assert_non_null(config.algorithm);
    if (config.algorithm->traits & BW_TRAIT_OWN_TIMERS)
        config.detector = NULL;
    config.seed = seed;
    config.work_ns = 50 * BW_MS;
    config.until = 6 * BW_SEC;
    return config;
}

static uint64_t whole_run(struct bw_sim *sim, const struct bw_sim_config *config)
{
    struct bw_sim_result result;
    char why[200];
    assert_int_equal(bw_sim_run_in(sim, config, &result, why), 0);
    return result.trace_hash;
}

/* Steps the run in pieces, and injects its faults instead of scripting them. */
static uint64_t stepped_run(struct bw_sim *sim, const struct bw_sim_config *scripted)
{
    struct bw_sim_config config = *scripted;
    struct bw_sim_result result;
    char why[200];
    config.faults_count = 0;
    assert_int_equal(bw_sim_begin(sim, &config, &result, why), 0);
    for (uint32_t i = 0; i < scripted->faults_count; i++) {
        bw_time at = scripted->faults[i].at;
        for (bw_time piece = bw_sim_now(sim); piece < at; piece += 7 * BW_MS)
            assert_int_equal(bw_sim_step_until(sim, piece), 0);
        assert_int_equal(bw_sim_step_until(sim, at), 0);
        assert_int_equal(bw_sim_inject(sim, &scripted->faults[i]), 0);
    }
    while (bw_sim_next(sim) <= scripted->until)
        assert_int_equal(bw_sim_step(sim), 0);
    assert_int_equal(bw_sim_step_until(sim, scripted->until), 0);
    assert_int_equal(bw_sim_end(sim), 0);
    assert_int_equal(result.virtual_ns, scripted->until);
    return result.trace_hash;
}

static void stepped_run_with_injected_faults_has_the_trace_of_the_scripted_run(void **state)
{
    (void)state;
    static uint8_t groups[6] = {0, 1, 1, 2, 2, 2};
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_PAUSE, .at = BW_SEC + 17},
        {.kind = BW_FAULT_RESUME, .at = 2 * BW_SEC + 23},
        {.kind = BW_FAULT_CRASH, .at = 3 * BW_SEC + 31},
        {.kind = BW_FAULT_PARTITION, .at = 4 * BW_SEC, .groups = groups},
        {.kind = BW_FAULT_HEAL, .at = 5 * BW_SEC + 1}};
    struct bw_sim *sim = bw_sim_new();
    assert_non_null(sim);
    const struct bw_elector_ops *ops;
    for (unsigned i = 0; (ops = bw_elector_at(i)); i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct bw_sim_config config = settings(ops->name, seed);
            config.faults = faults;
            config.faults_count = sizeof faults / sizeof *faults;
            assert_int_equal(whole_run(sim, &config), stepped_run(sim, &config));
        }
    bw_sim_free(sim);
}

static void view_follows_a_crash_of_the_leader(void **state)
{
    (void)state;
    struct bw_sim_config config = settings("raft", 4);
    struct bw_sim_result result;
    struct bw_sim_view view;
    char why[200];
    struct bw_sim *sim = bw_sim_new();
    assert_int_equal(bw_sim_begin(sim, &config, &result, why), 0);
    assert_int_equal(bw_sim_ids(sim), 5);
    assert_int_equal(bw_sim_step_until(sim, 2 * BW_SEC), 0);
    bw_node leader = BW_NODE_NONE;
    for (bw_node id = 1; id <= 5; id++) {
        assert_true(bw_sim_view(sim, id, 0, &view));
        assert_true(view.up && view.member && !view.store && view.leader);
        if (view.leads)
            leader = id;
        assert_true(view.acts == view.leads);
    }
    assert_true(leader);
    assert_int_equal(bw_sim_inject(sim, &(struct bw_sim_fault){.kind = BW_FAULT_CRASH}), 0);
    assert_true(bw_sim_view(sim, leader, 0, &view));
    assert_false(view.up || view.leads || view.acts);
    assert_int_equal(bw_sim_step_until(sim, 4 * BW_SEC), 0);
    bw_sim_measure(sim);
    assert_true(result.leader && result.leader != leader);
    assert_true(result.time_to_leader > 0 && result.time_to_leader < 2 * BW_SEC);
    assert_true(bw_sim_view(sim, result.leader, 0, &view));
    assert_true(view.acts && view.token == 2 && view.act_until > bw_sim_now(sim));
    assert_false(bw_sim_view(sim, 6, 0, &view));
    assert_false(bw_sim_view(sim, 0, 0, &view));
    assert_false(bw_sim_view(sim, 1, 1, &view));
    assert_int_equal(bw_sim_end(sim), 0);
    assert_false(bw_sim_view(sim, 1, 0, &view));
    bw_sim_free(sim);
}

static void paused_leader_keeps_its_claim_and_does_not_act(void **state)
{
    (void)state;
    struct bw_sim_config config = settings("bully", 1);
    struct bw_sim_result result;
    struct bw_sim_view view;
    char why[200];
    struct bw_sim *sim = bw_sim_new();
    struct bw_sim_fault pause = {.kind = BW_FAULT_PAUSE, .node = 5};
    assert_int_equal(bw_sim_begin(sim, &config, &result, why), 0);
    assert_int_equal(bw_sim_step_until(sim, BW_SEC), 0);
    assert_int_equal(bw_sim_inject(sim, &pause), 0);
    assert_int_equal(bw_sim_inject(sim, &pause), BW_EINVAL); /* it is already paused */
    assert_string_equal(why, "the fault is not possible now");
    assert_int_equal(bw_sim_step_until(sim, 2 * BW_SEC), 0);
    assert_true(bw_sim_view(sim, 5, 0, &view));
    assert_true(view.paused && view.leads && !view.acts && view.waiting > 0);
    assert_true(bw_sim_suspects(sim, 1, 5));
    assert_false(bw_sim_suspects(sim, 1, 4));
    bw_sim_measure(sim);
    assert_int_equal(result.leader, 4);
    assert_int_equal(result.split_brain, 0);
    assert_int_equal(bw_sim_end(sim), 0);
    bw_sim_free(sim);
}

static void messages_in_flight_have_their_send_and_arrival_times(void **state)
{
    (void)state;
    struct bw_sim_config config = settings("bully", 3);
    struct bw_sim_result result;
    char why[200];
    struct bw_sim *sim = bw_sim_new();
    uint32_t most = 0;
    assert_int_equal(bw_sim_begin(sim, &config, &result, why), 0);
    for (bw_time at = 0; at < BW_SEC; at += BW_MS) {
        struct bw_sim_flight flight;
        uint32_t cursor = 0, count = 0;
        assert_int_equal(bw_sim_step_until(sim, at), 0);
        while (bw_sim_flight_next(sim, &cursor, &flight)) {
            assert_true(flight.sent <= at && flight.arrives >= at);
            assert_true(flight.arrives - flight.sent >= config.latency.min);
            assert_true(flight.arrives - flight.sent <= config.latency.max);
            assert_in_range(flight.msg->from, 1, 5);
            assert_in_range(flight.msg->to, 1, 5);
            count++;
        }
        most = count > most ? count : most;
    }
    assert_true(most >= 10);
    assert_int_equal(bw_sim_end(sim), 0);
    bw_sim_free(sim);
}

static void invalid_steps_and_faults_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct bw_sim_config config = settings("bully", 1);
    struct bw_sim_result result;
    char why[200];
    struct bw_sim *sim = bw_sim_new();
    assert_int_equal(bw_sim_step_until(sim, 1), BW_EINVAL); /* no run */
    assert_int_equal(bw_sim_step(sim), BW_EINVAL);
    assert_int_equal(bw_sim_end(sim), BW_EINVAL);
    assert_int_equal(bw_sim_begin(sim, &config, &result, why), 0);
    assert_int_equal(bw_sim_step_until(sim, BW_SEC), 0);
    assert_int_equal(bw_sim_step_until(sim, BW_SEC - 1), BW_EINVAL);
    assert_string_equal(why, "the time to step to is in the past");
    assert_int_equal(bw_sim_step_until(sim, BW_TIME_NEVER), BW_EINVAL);
    const struct bw_sim_fault wrong[] = {
        {.kind = BW_FAULT_CRASH, .node = 6},
        {.kind = BW_FAULT_CUT, .node = 1, .peer = 9},
        {.kind = BW_FAULT_CUT, .node = 1, .peer = 1},
        {.kind = BW_FAULT_PARTITION},
        {.kind = BW_FAULT_LOSS, .rate = 1.5},
        {.kind = BW_FAULT_LATENCY, .latency = {.min = 5, .max = 1}},
        {.kind = BW_FAULT_DRIFT, .node = 1, .rate = 1e9},
        {.kind = BW_FAULT_DISK_SLOW, .node = 1, .span = -1},
        {.kind = BW_FAULT_RESTART, .node = 1}, /* it is up */
        {.kind = BW_FAULT_JOIN, .node = 1},    /* it is a member */
        {.kind = BW_FAULT_REMOVE, .node = 1},  /* not without Raft */
        {.kind = (enum bw_sim_fault_kind)99, .node = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        why[0] = '\0';
        assert_int_equal(bw_sim_inject(sim, &wrong[i]), BW_EINVAL);
        assert_true(strlen(why) > 0);
    }
    assert_int_equal(bw_sim_step_until(sim, 2 * BW_SEC), 0);
    assert_int_equal(bw_sim_end(sim), 0);
    assert_int_equal(result.leader, 5);
    bw_sim_free(sim);
}

static void store_of_leases_is_a_node_of_the_run(void **state)
{
    (void)state;
    struct bw_sim_config config = settings("bully", 1);
    struct bw_sim_result result;
    struct bw_sim_view view;
    char why[200];
    config.algorithm = bw_sim_lease_ops(BW_SIM_STORE_REDLOCK);
    config.detector = NULL;
    config.lease = (struct bw_sim_lease){.store = BW_SIM_STORE_REDLOCK,
                                         .ttl_ns = 3 * BW_SEC,
                                         .grace_ns = 200 * BW_MS,
                                         .retry_ns = 500 * BW_MS,
                                         .kill_after_ns = 500 * BW_MS,
                                         .margin_ns = 100 * BW_MS};
    struct bw_sim *sim = bw_sim_new();
    assert_int_equal(bw_sim_begin(sim, &config, &result, why), 0);
    assert_int_equal(bw_sim_ids(sim), 10);
    assert_int_equal(bw_sim_step_until(sim, 2 * BW_SEC), 0);
    assert_true(bw_sim_view(sim, 10, 0, &view));
    assert_true(view.store && view.up && !view.leads);
    assert_int_equal(bw_sim_end(sim), 0);
    assert_true(result.leader >= 1 && result.leader <= 5);
    bw_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stepped_run_with_injected_faults_has_the_trace_of_the_scripted_run),
        cmocka_unit_test(view_follows_a_crash_of_the_leader),
        cmocka_unit_test(paused_leader_keeps_its_claim_and_does_not_act),
        cmocka_unit_test(messages_in_flight_have_their_send_and_arrival_times),
        cmocka_unit_test(invalid_steps_and_faults_are_refused_with_a_reason),
        cmocka_unit_test(store_of_leases_is_a_node_of_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
