/* Tests the network: delays, loss, partitions and cuts. */
#include "unit/unit.h"

#include "sim/world/net.h"

#include <math.h>

static uint8_t group[70];

static struct bw_sim_net network(enum bw_sim_dist dist, bw_time min, bw_time max)
{
    struct bw_sim_config config = {.latency = {.dist = dist, .min = min, .max = max}, .seed = 5};
    struct bw_sim_net net = {0};
    bw_sim_net_init(&net, &config, 69, group);
    return net;
}

static void uniform_delays_stay_in_range_and_have_its_mean(void **state)
{
    (void)state;
    struct bw_sim_net net = network(BW_DIST_UNIFORM, 10 * BW_MS, 30 * BW_MS);
    double sum = 0;
    for (int i = 0; i < 20000; i++) {
        bw_time delay = bw_sim_net_delay(&net);
        assert_in_range(delay, 10 * BW_MS, 30 * BW_MS);
        sum += (double)delay;
    }
    assert_true(fabs(sum / 20000 - 20e6) < 0.2e6);
}

static void exponential_delays_have_their_mean_above_the_minimum(void **state)
{
    (void)state;
    struct bw_sim_net net = network(BW_DIST_EXPONENTIAL, 10 * BW_MS, 30 * BW_MS);
    double sum = 0;
    for (int i = 0; i < 40000; i++) {
        bw_time delay = bw_sim_net_delay(&net);
        assert_true(delay >= 10 * BW_MS);
        sum += (double)delay;
    }
    assert_true(fabs(sum / 40000 - 30e6) < 0.5e6);
}

static void loss_and_reordering_occur_at_the_configured_rate(void **state)
{
    (void)state;
    struct bw_sim_net net = network(BW_DIST_UNIFORM, 10, 10);
    net.loss = 0.2;
    net.reorder = 0.5;
    int lost = 0, twice = 0;
    for (int i = 0; i < 20000; i++) {
        bw_time delay = bw_sim_net_draw(&net);
        lost += delay == BW_TIME_NEVER;
        twice += delay == 20;
    }
    assert_in_range(lost, 3800, 4200);
    assert_in_range(twice, 7700, 8300);
}

static void nodes_in_different_groups_or_in_none_cannot_communicate(void **state)
{
    (void)state;
    struct bw_sim_net net = network(BW_DIST_UNIFORM, 1, 1);
    uint8_t sides[70] = {[1] = 1, [2] = 1, [3] = 2};
    assert_true(bw_sim_net_open(&net, 1, 3));
    bw_sim_net_partition(&net, sides);
    assert_true(bw_sim_net_open(&net, 1, 2));
    assert_false(bw_sim_net_open(&net, 1, 3));
    assert_false(bw_sim_net_open(&net, 4, 5));
    assert_true(bw_sim_net_open(&net, 4, 4));
    bw_sim_net_heal(&net);
    assert_true(bw_sim_net_open(&net, 1, 3));
}

static void cut_blocks_one_direction_until_it_is_mended(void **state)
{
    (void)state;
    struct bw_sim_net net = network(BW_DIST_UNIFORM, 1, 1);
    assert_int_equal(bw_sim_net_cut(&net, 1, 68), 0);
    assert_int_equal(bw_sim_net_cut(&net, 1, 68), 0);
    assert_int_equal(bw_sim_net_cut(&net, 69, 1), 0);
    assert_false(bw_sim_net_open(&net, 1, 68));
    assert_true(bw_sim_net_open(&net, 68, 1));
    assert_true(bw_sim_net_open(&net, 1, 67));
    bw_sim_net_mend(&net, 1, 68);
    assert_true(bw_sim_net_open(&net, 1, 68));
    assert_false(bw_sim_net_open(&net, 69, 1));
    bw_sim_net_heal(&net);
    assert_true(bw_sim_net_open(&net, 69, 1));
    assert_int_equal(bw_sim_net_cut(&net, 2, 3), 0); /* the old cuts do not come back */
    assert_true(bw_sim_net_open(&net, 69, 1));
    bw_sim_net_deinit(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_delays_stay_in_range_and_have_its_mean),
        cmocka_unit_test(exponential_delays_have_their_mean_above_the_minimum),
        cmocka_unit_test(loss_and_reordering_occur_at_the_configured_rate),
        cmocka_unit_test(nodes_in_different_groups_or_in_none_cannot_communicate),
        cmocka_unit_test(cut_blocks_one_direction_until_it_is_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
