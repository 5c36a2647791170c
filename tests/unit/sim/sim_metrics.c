/* Tests the figures of a run with invented claims. Times in ns. */
#include "unit/unit.h"

#include "sim/checks/claims.h"
#include "sim/figures/metrics.h"
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
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, BW_TIME_NEVER);
    bw_sim_metrics_node(&metrics, 200, 5, true, false); /* paused */
    bw_sim_metrics_node(&metrics, 230, 5, true, true);
    bw_sim_metrics_node(&metrics, 300, 5, false, false);
    bw_sim_metrics_finish(&metrics, 350, BW_NODE_NONE, 10);
    assert_int_equal(result.leaderless, 100 + 30 + 50);
    assert_int_equal(result.split_brain, 0);
    assert_int_equal(result.max_leaders, 1);
    assert_int_equal(result.member_periods, (5 * 300 + 4 * 50) / 10);
}

static void split_brain_lasts_while_two_leaders_may_act(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, 400);
    bw_sim_metrics_leads(&metrics, 200, 4, true, 1, 250, 600);
    bw_sim_metrics_leads(&metrics, 300, 3, true, 1, 300, 350);
    bw_sim_metrics_finish(&metrics, 1000, BW_NODE_NONE, 10);
    assert_int_equal(result.split_brain, 400 - 250);
    assert_int_equal(result.max_leaders, 3);
}

static void leaders_are_counted_by_windows_when_exclusion_is_promised(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, true);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, 400);
    bw_sim_metrics_leads(&metrics, 200, 4, true, 1, 400, 600); /* begins where the other ends */
    bw_sim_metrics_finish(&metrics, 1000, BW_NODE_NONE, 10);
    assert_int_equal(result.max_leaders, 1);
    assert_int_equal(result.split_brain, 0);
    begin(&metrics, &result, true);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, 401);
    bw_sim_metrics_leads(&metrics, 200, 4, true, 1, 400, 600);
    bw_sim_metrics_finish(&metrics, 1000, BW_NODE_NONE, 10);
    assert_int_equal(result.max_leaders, 2);
    assert_int_equal(result.split_brain, 1);
}

static void time_to_leader_counts_from_the_fault_on_the_last_leader(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, BW_TIME_NEVER);
    bw_sim_metrics_node(&metrics, 300, 5, false, false);
    bw_sim_metrics_leader_hit(&metrics, 300, 5);
    bw_sim_metrics_leads(&metrics, 320, 3, true, 1, 320, BW_TIME_NEVER); /* without success */
    bw_sim_metrics_yields(&metrics, 330, 3);
    bw_sim_metrics_leads(&metrics, 370, 4, true, 1, 370, BW_TIME_NEVER);
    bw_sim_metrics_leads(&metrics, 390, 4, false, 1, 370, BW_TIME_NEVER);
    bw_sim_metrics_finish(&metrics, 400, 4, 10);
    assert_int_equal(result.time_to_leader, 70);
    assert_int_equal(result.leader_changes, 2);
    assert_int_equal(result.leader, 4);
}

static struct bw_sim_interval seen[32];
static unsigned seen_count;

static void remember(void *context, const struct bw_sim_interval *interval)
{
    (void)context;
    assert_true(seen_count < sizeof seen / sizeof *seen);
    seen[seen_count++] = *interval;
}

static bw_time total(enum bw_sim_measure kind, bw_node node)
{
    bw_time sum = 0;
    for (unsigned i = 0; i < seen_count; i++)
        if (seen[i].kind == kind && (!node || seen[i].node == node))
            sum += seen[i].to - seen[i].from;
    return sum;
}

static void paused_leader_does_not_act(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    struct bw_sim_observer observer = {.measured = remember};
    begin(&metrics, &result, false);
    metrics.observer = &observer;
    seen_count = 0;
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, BW_TIME_NEVER);
    bw_sim_metrics_node(&metrics, 200, 5, true, false); /* paused */
    bw_sim_metrics_leader_hit(&metrics, 200, 5);
    bw_sim_metrics_leads(&metrics, 230, 4, true, 2, 240, BW_TIME_NEVER);
    bw_sim_metrics_agreed(&metrics, 235, 4, 4);
    bw_sim_metrics_node(&metrics, 300, 5, true, true); /* resumes and acts beside node 4 */
    bw_sim_metrics_yields(&metrics, 307, 4);
    bw_sim_metrics_leads(&metrics, 320, 5, true, 3, 320, BW_TIME_NEVER);
    bw_sim_metrics_agreed(&metrics, 325, 5, 5);
    bw_sim_metrics_finish(&metrics, 400, 5, 10);
    assert_int_equal(result.split_brain, 7);
    assert_int_equal(result.none_acted, 100 + 40);
    assert_int_equal(result.noticed, 30);
    assert_int_equal(result.time_to_leader, 30); /* of node 4, although node 5 leads at the end */
    assert_int_equal(result.time_to_act, 40);
    assert_int_equal(result.time_to_agree, 35);
    assert_int_equal(total(BW_MEASURE_LED, 5), 300);
    assert_int_equal(total(BW_MEASURE_ACTED, 5), 100 + 100);
    assert_int_equal(total(BW_MEASURE_ACTED, 4), 307 - 240);
    assert_int_equal(total(BW_MEASURE_TWO_ACTED, 0), result.split_brain);
    assert_int_equal(total(BW_MEASURE_NONE_ACTED, 0), result.none_acted);
}

static void figures_can_be_read_in_the_middle_of_a_run(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_leads(&metrics, 100, 5, true, 1, 100, 400);
    bw_sim_metrics_finish(&metrics, 150, 5, 10);
    assert_int_equal(result.time_to_leader, 100);
    assert_int_equal(result.none_acted, 100);
    bw_sim_metrics_node(&metrics, 200, 5, false, false);
    bw_sim_metrics_leader_hit(&metrics, 200, 5);
    bw_sim_metrics_finish(&metrics, 260, BW_NODE_NONE, 10);
    assert_true(result.time_to_leader == BW_TIME_NEVER);
    assert_int_equal(result.none_acted, 160);
    bw_sim_metrics_leads(&metrics, 300, 4, true, 2, 300, 500);
    bw_sim_metrics_finish(&metrics, 600, 4, 10);
    assert_int_equal(result.none_acted, 300);
    assert_int_equal(result.time_to_leader, 100);
}

static void time_to_leader_is_never_without_a_leader(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_finish(&metrics, 400, BW_NODE_NONE, 10);
    assert_true(result.time_to_leader == BW_TIME_NEVER);
    assert_int_equal(result.leaderless, 400);
}

static void detection_time_runs_from_the_fault_to_the_first_and_last_live_observer(void **state)
{
    (void)state;
    struct bw_sim_metrics metrics;
    struct bw_sim_result result;
    begin(&metrics, &result, false);
    bw_sim_metrics_node(&metrics, 50, 5, false, false);
    bw_sim_metrics_fail(&metrics, 50, 5);
    for (bw_node node = 1; node <= 4; node++)
        bw_sim_metrics_watcher(&metrics, node);
    bw_sim_metrics_suspected(&metrics, 60, 1, 4, true); /* about another node */
    assert_true(result.detection_first == BW_TIME_NEVER);
    bw_sim_metrics_suspected(&metrics, 70, 1, 5, true);
    bw_sim_metrics_suspected(&metrics, 75, 2, 5, true);
    bw_sim_metrics_node(&metrics, 80, 3, false, false); /* a dead observer is not waited for */
    assert_true(result.detection_all == BW_TIME_NEVER);
    bw_sim_metrics_suspected(&metrics, 90, 4, 5, true);
    assert_int_equal(result.detection_first, 20);
    assert_int_equal(result.detection_all, 40);
}

static void nodes_agree_when_all_running_nodes_follow_one_that_follows_itself(void **state)
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
    assert_false(bw_sim_claims_settled(&claims)); /* node 3 itself has announced nothing */
    assert_true(bw_sim_claims_announce(&claims, 0, 3, &a));
    /* an extension is not a new leadership */
    assert_false(bw_sim_claims_announce(&claims, 0, 3, &a));
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

static void resource_refuses_older_tokens_and_reports_stale_writes(void **state)
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
    /* without a token the resource cannot refuse */
    assert_true(bw_sim_resource_write(&resource, &old, true, &stale));
    assert_true(stale);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_without_a_running_leader_is_leaderless),
        cmocka_unit_test(split_brain_lasts_while_two_leaders_may_act),
        cmocka_unit_test(leaders_are_counted_by_windows_when_exclusion_is_promised),
        cmocka_unit_test(time_to_leader_counts_from_the_fault_on_the_last_leader),
        cmocka_unit_test(paused_leader_does_not_act),
        cmocka_unit_test(figures_can_be_read_in_the_middle_of_a_run),
        cmocka_unit_test(time_to_leader_is_never_without_a_leader),
        cmocka_unit_test(detection_time_runs_from_the_fault_to_the_first_and_last_live_observer),
        cmocka_unit_test(nodes_agree_when_all_running_nodes_follow_one_that_follows_itself),
        cmocka_unit_test(
            the_newest_leadership_is_the_leader_and_a_paused_one_only_for_want_of_another),
        cmocka_unit_test(resource_refuses_older_tokens_and_reports_stale_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
