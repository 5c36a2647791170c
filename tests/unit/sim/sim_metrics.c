/* The figures of a run, from made-up claims. Times in ns. */
#include "unit/unit.h"

#include "sim/checks/claims.h"
#include "sim/world/metrics.h"
#include "sim/world/resource.h"

static _Alignas(16) unsigned char memory[4096];

static void begin(struct bw_sim_metrics *metrics, struct bw_sim_result *result, bool exclusive)
{
    struct bw_arena arena = {.at = memory, .cap = sizeof memory};
    memset(result, 0, sizeof *result);
    bw_sim_metrics_init(metrics, &arena, 6, exclusive, result);
    for (bw_node node = 1; node <= 5; node++)
        bw_sim_metrics_node(metrics, 0, node, true, true);
}

static void time_without_a_running_leader_is_leaderless(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 100, BW_TIME_NEVER);
    bw_sim_metrics_node(&metrics, 200, 5, true, false); /* paused */
    bw_sim_metrics_node(&metrics, 230, 5, true, true);
    bw_sim_metrics_node(&metrics, 300, 5, false, false);
    bw_sim_metrics_finish(&metrics, 350, BW_NODE_NONE, 10);
    assert_int_equal(result.leaderless, 100 + 30 + 50);
    assert_int_equal(result.split_brain, 0);
    assert_int_equal(result.max_leaders, 1);
    assert_int_equal(result.member_periods, (5 * 300 + 4 * 50) / 10);
}

static void two_that_may_act_at_once_are_a_split_brain_for_as_long_as_both_may(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 100, 400);
    bw_sim_metrics_leads(&metrics, 200, 4, true, 250, 600);
    bw_sim_metrics_leads(&metrics, 300, 3, true, 300, 350);
    bw_sim_metrics_finish(&metrics, 1000, BW_NODE_NONE, 10);
    assert_int_equal(result.split_brain, 400 - 250);
    assert_int_equal(result.max_leaders, 3);
}

static void where_exclusion_is_promised_leaders_are_counted_by_their_windows(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, true);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 100, 400);
    bw_sim_metrics_leads(&metrics, 200, 4, true, 400, 600); /* begins where the other ends */
    bw_sim_metrics_finish(&metrics, 1000, BW_NODE_NONE, 10);
    assert_int_equal(result.max_leaders, 1);
    assert_int_equal(result.split_brain, 0);
    begin(&metrics, &result, true);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 100, 401);
    bw_sim_metrics_leads(&metrics, 200, 4, true, 400, 600);
    bw_sim_metrics_finish(&metrics, 1000, BW_NODE_NONE, 10);
    assert_int_equal(result.max_leaders, 2);
    assert_int_equal(result.split_brain, 1);
}

static void the_time_to_leader_counts_from_what_hit_the_last_one(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 100, BW_TIME_NEVER);
    bw_sim_metrics_node(&metrics, 300, 5, false, false);
    bw_sim_metrics_leader_hit(&metrics, 300);
    bw_sim_metrics_leads(&metrics, 320, 3, true, 320, BW_TIME_NEVER); /* in vain */
    bw_sim_metrics_yields(&metrics, 330, 3);
    bw_sim_metrics_leads(&metrics, 370, 4, true, 370, BW_TIME_NEVER);
    bw_sim_metrics_leads(&metrics, 390, 4, false, 370, BW_TIME_NEVER);
    bw_sim_metrics_finish(&metrics, 400, 4, 10);
    assert_int_equal(result.time_to_leader, 70);
    assert_int_equal(result.leader_changes, 2);
    assert_int_equal(result.leader, 4);
}

static void nobody_came_to_lead_means_never(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_finish(&metrics, 400, BW_NODE_NONE, 10);
    assert_true(result.time_to_leader == BW_TIME_NEVER);
    assert_int_equal(result.leaderless, 400);
}

static void detection_is_from_the_strike_to_the_first_and_the_last_live_watcher(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_node(&metrics, 50, 5, false, false);
    bw_sim_metrics_strike(&metrics, 50, 5);
    for (bw_node node = 1; node <= 4; node++)
        bw_sim_metrics_watcher(&metrics, node);
    bw_sim_metrics_suspected(&metrics, 60, 1, 4, true); /* about another */
    assert_true(result.detection_first == BW_TIME_NEVER);
    bw_sim_metrics_suspected(&metrics, 70, 1, 5, true);
    bw_sim_metrics_suspected(&metrics, 75, 2, 5, true);
    bw_sim_metrics_node(&metrics, 80, 3, false, false); /* a dead watcher is not waited for */
    assert_true(result.detection_all == BW_TIME_NEVER);
    bw_sim_metrics_suspected(&metrics, 90, 4, 5, true);
    assert_int_equal(result.detection_first, 20);
    assert_int_equal(result.detection_all, 40);
}

static void all_agree_when_all_that_run_name_one_that_names_itself(void **state)
{
    (void)state;
    struct bw_sim_claims claims;
    struct bw_arena arena = {.at = memory, .cap = sizeof memory};
    bw_sim_claims_init(&claims, &arena, 5, 1);
    for (bw_node node = 1; node <= 3; node++)
        bw_sim_claims_count(&claims, node, true);
    struct bw_announcement a = {.leader = 3, .term = 1};
    assert_false(bw_sim_claims_announce(&claims, 0, 1, &a));
    assert_false(bw_sim_claims_announce(&claims, 0, 2, &a));
    assert_false(bw_sim_claims_settled(&claims)); /* 3 itself says nothing */
    assert_true(bw_sim_claims_announce(&claims, 0, 3, &a));
    assert_false(bw_sim_claims_announce(&claims, 0, 3, &a)); /* an extension begins nothing */
    assert_int_equal(bw_sim_claims_agreed(&claims, 0), 3);
    bw_sim_claims_count(&claims, 4, true);
    assert_false(bw_sim_claims_settled(&claims));
    bw_sim_claims_forget(&claims, 4);
    assert_true(bw_sim_claims_settled(&claims));
    bw_sim_claims_forget(&claims, 3);
    assert_false(bw_sim_claims_settled(&claims)); /* a dead leader */
    assert_int_equal(bw_sim_claims_leader(&claims, 0), BW_NODE_NONE);
}

static void
the_newest_leadership_is_the_leader_and_a_paused_one_only_for_want_of_another(void **state)
{
    (void)state;
    struct bw_sim_claims claims;
    struct bw_arena arena = {.at = memory, .cap = sizeof memory};
    bw_sim_claims_init(&claims, &arena, 5, 1);
    for (bw_node node = 1; node <= 3; node++) {
        bw_sim_claims_count(&claims, node, true);
        bw_sim_claims_announce(&claims, 0, node, &(struct bw_announcement){.leader = node});
    }
    assert_int_equal(bw_sim_claims_leader(&claims, 0), 3);
    bw_sim_claims_count(&claims, 3, false);
    assert_int_equal(bw_sim_claims_leader(&claims, 0), 2);
    bw_sim_claims_count(&claims, 2, false);
    bw_sim_claims_count(&claims, 1, false);
    assert_int_equal(bw_sim_claims_leader(&claims, 0), 3);
}

static void the_resource_refuses_older_tokens_and_knows_what_was_stale(void **state)
{
    (void)state;
    struct bw_sim_resource resource = {0};
    bool stale;
    struct bw_sim_write old = {.serial = 1, .token = 5}, new = {.serial = 2, .token = 6};
    assert_true(bw_sim_resource_write(&resource, &old, true, &stale));
    assert_true(bw_sim_resource_write(&resource, &new, true, &stale));
    assert_false(stale);
    assert_false(bw_sim_resource_write(&resource, &old, true, &stale));
    assert_true(stale);
    assert_true(bw_sim_resource_write(&resource, &new, true, &stale));
    assert_true(bw_sim_resource_write(&resource, &old, false, &stale)); /* no fencing */
    assert_true(stale);
    old.token = BW_TOKEN_NONE;
    assert_true(bw_sim_resource_write(&resource, &old, true, &stale)); /* nothing to refuse by */
    assert_true(stale);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_without_a_running_leader_is_leaderless),
        cmocka_unit_test(two_that_may_act_at_once_are_a_split_brain_for_as_long_as_both_may),
        cmocka_unit_test(where_exclusion_is_promised_leaders_are_counted_by_their_windows),
        cmocka_unit_test(the_time_to_leader_counts_from_what_hit_the_last_one),
        cmocka_unit_test(nobody_came_to_lead_means_never),
        cmocka_unit_test(detection_is_from_the_strike_to_the_first_and_the_last_live_watcher),
        cmocka_unit_test(all_agree_when_all_that_run_name_one_that_names_itself),
        cmocka_unit_test(
            the_newest_leadership_is_the_leader_and_a_paused_one_only_for_want_of_another),
        cmocka_unit_test(the_resource_refuses_older_tokens_and_knows_what_was_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
