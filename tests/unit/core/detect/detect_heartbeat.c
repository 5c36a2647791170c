/* The timeout-free heartbeat: cost of a beat, the vector of counters, suspicion of a stopped
 * counter. */
#include "core/detect/heartbeat.h"
#include "detect_pump.h"

#define PERIOD (100 * BW_MS)

static struct bw_detector_config some_config(uint32_t neighbours, bool dedupe)
{
    struct bw_detector_config config = {0};
    bw_detector_defaults(&config, PERIOD);
    config.neighbours = neighbours;
    config.dedupe = dedupe;
    return config;
}

/* Messages per member for the one beat that each of n members sends at the start. */
static uint64_t messages_per_beat(uint32_t n, uint32_t neighbours, bool dedupe)
{
    struct bw_detector_config config = some_config(neighbours, dedupe);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, n, &config, BW_MS);
    group_start(&group);
    group_run(&group, PERIOD - 1);
    uint64_t sent = group.sent[BW_MSG_HEARTBEAT_PATH];
    group_close(&group);
    assert_int_equal(sent % n, 0);
    return sent / n;
}

static void every_simple_path_is_walked_on_a_complete_graph(void **state)
{
    (void)state;
    assert_int_equal(messages_per_beat(2, 0, false), 1);
    assert_int_equal(messages_per_beat(5, 0, false), 64);
    assert_int_equal(messages_per_beat(6, 0, false), 325);
}

static void dedupe_makes_each_member_pass_a_beat_on_once(void **state)
{
    (void)state;
    assert_int_equal(messages_per_beat(5, 0, true), 16);
    assert_int_equal(messages_per_beat(30, 0, true), 29 * 29);
}

static void a_ring_costs_two_messages_per_member_at_most(void **state)
{
    (void)state;
    assert_int_equal(messages_per_beat(12, 2, false), 2 * 11);
    assert_true(messages_per_beat(64, 4, true) <= 256);
}

static void receive_path(struct solo *solo, const bw_node *path, uint32_t items, uint64_t seq)
{
    struct bw_message msg = {.kind = BW_MSG_HEARTBEAT_PATH,
                             .from = path[items - 1],
                             .to = solo->config.self,
                             .items = items,
                             .data = path};
    msg.probe.seq = seq;
    solo_receive(solo, &msg, PERIOD / 2);
}

static void each_member_of_a_path_is_counted_once(void **state)
{
    (void)state;
    bw_node ids[] = {1, 2, 3, 4};
    struct bw_detector_config config = some_config(0, false);
    config.self = 1;
    config.members = ids;
    config.count = config.cap = 4;
    struct solo solo;
    solo_open(&solo, &bw_detect_heartbeat, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_node path[] = {3, 2};
    receive_path(&solo, path, 2, 1);
    assert_true(bw_heartbeat_counter(solo.self, 2) == 1);
    assert_true(bw_heartbeat_counter(solo.self, 3) == 1);
    assert_true(bw_heartbeat_counter(solo.self, 4) == 0);
    const struct bw_message *on = solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0);
    assert_non_null(on); /* to the only neighbour that is not in the path */
    assert_int_equal(on->to, 4);
    assert_int_equal(on->items, 3);
    const bw_node *longer = on->data;
    assert_true(longer[0] == 3 && longer[1] == 2 && longer[2] == 1);
    assert_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 1));
    solo_close(&solo);
}

static void malformed_paths_are_ignored(void **state)
{
    (void)state;
    bw_node ids[] = {1, 2, 3};
    struct bw_detector_config config = some_config(0, false);
    config.self = 1;
    config.members = ids;
    config.count = config.cap = 3;
    struct solo solo;
    solo_open(&solo, &bw_detect_heartbeat, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_node through_us[] = {1, 2}, nonmember[] = {9, 2}, long_one[] = {3, 2, 3, 2, 3, 2};
    const bw_node *paths[] = {through_us, nonmember, long_one};
    const uint32_t items[] = {2, 2, 6};
    for (int i = 0; i < 3; i++) {
        receive_path(&solo, paths[i], items[i], 1);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_STATE));
        assert_int_equal(solo.out.count, 1);
    }
    assert_true(bw_heartbeat_counter(solo.self, 2) == 0);
    solo_close(&solo);
}

static void the_counter_of_a_crashed_member_is_bounded(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(0, false);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, 4, &config, BW_MS);
    group_start(&group);
    group_run(&group, 10 * PERIOD);
    group_crash(&group, 4);
    group_run(&group, group.now + PERIOD);
    uint64_t dead = bw_heartbeat_counter(group.at[0].self, 4);
    uint64_t live = bw_heartbeat_counter(group.at[0].self, 2);
    group_run(&group, group.now + 100 * PERIOD);
    assert_true(bw_heartbeat_counter(group.at[0].self, 4) == dead);
    assert_true(bw_heartbeat_counter(group.at[0].self, 2) >= live + 100);
    group_close(&group);
}

static void member_is_suspected_after_k_beats_of_the_others(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(0, true);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, 3, &config, BW_MS);
    group_start(&group);
    group_run(&group, 10 * PERIOD + PERIOD / 2);
    group_crash(&group, 3);
    group_run(&group, group.now + 3 * PERIOD);
    assert_int_equal(group_suspicions(&group), 0);
    group_run(&group, group.now + 3 * PERIOD);
    assert_int_equal(group_suspecting(&group, 3), 2);
    assert_int_equal(group_suspicions(&group), 2);
    group_close(&group);
}

static void ring_extends_past_crashed_members(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(2, true);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, 12, &config, BW_MS);
    group_start(&group);
    group_run(&group, 5 * PERIOD);
    static const bw_node crashed[] = {3, 4, 5, 9, 10};
    for (int i = 0; i < 5; i++)
        group_crash(&group, crashed[i]);
    group_run(&group, group.now + 60 * PERIOD);
    assert_int_equal(group_suspicions(&group), 5 * 7);
    for (int i = 0; i < 5; i++)
        assert_int_equal(group_suspecting(&group, crashed[i]), 7);
    group_close(&group);
}

static void open_solo(struct solo *solo)
{
    static const bw_node ids[] = {1, 2, 3};
    struct bw_detector_config config = some_config(0, true);
    config.self = 1;
    config.members = ids;
    config.count = config.cap = 3;
    solo_open(solo, &bw_detect_heartbeat, &config);
    solo_event(solo, BW_EVENT_START, 0, 0);
}

/* Beats of one member in any order: each of the last 64 is forwarded once. */
static void beats_out_of_order_are_forwarded_once(void **state)
{
    (void)state;
    struct solo solo;
    bw_node path[] = {2};
    uint64_t start = (uint64_t)5 << 32;
    open_solo(&solo);
    receive_path(&solo, path, 1, start + 100);
    assert_non_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0));
    receive_path(&solo, path, 1, start + 98); /* overtaken */
    assert_non_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0));
    receive_path(&solo, path, 1, start + 98); /* repeated */
    assert_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0));
    receive_path(&solo, path, 1, start + 36); /* too old to tell */
    assert_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0));
    uint64_t counted = bw_heartbeat_counter(solo.self, 2);
    receive_path(&solo, path, 1, ((uint64_t)4 << 32) + 999); /* of an earlier start */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_OLD));
    assert_int_equal(bw_heartbeat_counter(solo.self, 2), counted);
    solo_close(&solo);
}

/* As below, but the member forwards the beats of node 3, so it counts as alive all the time. Its
 * own beats must count again: otherwise it is suspected as soon as node 3 pauses. */
static void own_beats_count_again_while_forwarded_paths_keep_a_member_alive(void **state)
{
    (void)state;
    struct solo solo;
    bw_node path[] = {2}, forwarded[] = {3, 2};
    open_solo(&solo);
    receive_path(&solo, path, 1, ((uint64_t)1 << 32) + 1);
    receive_path(&solo, path, 1, 49); /* merely late */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_OLD));
    for (uint64_t beat = 1; beat <= 40; beat++)
        receive_path(&solo, forwarded, 2, beat);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    for (uint64_t beat = 50; beat <= 54; beat++) {
        receive_path(&solo, path, 1, beat);
        assert_int_equal(solo_noted(&solo, BW_TRACE_IGNORED_OLD), beat < 52);
    }
    solo_close(&solo);
}

static void member_counts_again_after_a_second_process_with_its_id_has_ended(void **state)
{
    (void)state;
    struct solo solo;
    bw_node path[] = {2}, other[] = {3};
    open_solo(&solo);
    receive_path(&solo, path, 1, ((uint64_t)1 << 32) + 1);
    for (uint64_t beat = 1; beat <= 40; beat++)
        receive_path(&solo, other, 1, beat);
    solo_wait(&solo, 20 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    receive_path(&solo, path, 1, 51);
    receive_path(&solo, path, 1, 52);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    receive_path(&solo, path, 1, 53);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    uint64_t counted = bw_heartbeat_counter(solo.self, 2);
    receive_path(&solo, path, 1, 54);
    assert_int_equal(bw_heartbeat_counter(solo.self, 2), counted + 1);
    solo_close(&solo);
}

static void paths_that_repeat_members_or_name_nonmembers_count_each_member_once(void **state)
{
    (void)state;
    struct solo solo;
    bw_node path[] = {2, 3, 9};
    struct bw_message msg = {
        .kind = BW_MSG_HEARTBEAT_PATH, .from = 3, .to = 1, .items = 3, .data = path};
    msg.probe.seq = 7;
    open_solo(&solo);
    solo_receive(&solo, &msg, 0); /* its last node is not the sender */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_STATE));
    path[1] = 9;
    path[2] = 3;
    solo_receive(&solo, &msg, 0);
    assert_int_equal(bw_heartbeat_counter(solo.self, 2), 1);
    assert_int_equal(bw_heartbeat_counter(solo.self, 3), 1);
    assert_int_equal(bw_heartbeat_counter(solo.self, 9), 0);
    path[1] = 2; /* node 2 twice */
    msg.probe.seq = 8;
    solo_receive(&solo, &msg, 0);
    assert_int_equal(bw_heartbeat_counter(solo.self, 2), 2);
    assert_int_equal(bw_heartbeat_counter(solo.self, 1), 1); /* our own beats */
    solo_close(&solo);
}

/* A ring of one has no other member. */
static void a_lonely_member_of_a_ring_sends_nothing(void **state)
{
    (void)state;
    static const bw_node ids[] = {1};
    struct bw_detector_config config = some_config(2, true);
    struct solo solo;
    config.self = 1;
    config.members = ids;
    config.count = config.cap = 1;
    solo_open(&solo, &bw_detect_heartbeat, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    assert_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0));
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_simple_path_is_walked_on_a_complete_graph),
        cmocka_unit_test(dedupe_makes_each_member_pass_a_beat_on_once),
        cmocka_unit_test(a_ring_costs_two_messages_per_member_at_most),
        cmocka_unit_test(each_member_of_a_path_is_counted_once),
        cmocka_unit_test(malformed_paths_are_ignored),
        cmocka_unit_test(the_counter_of_a_crashed_member_is_bounded),
        cmocka_unit_test(member_is_suspected_after_k_beats_of_the_others),
        cmocka_unit_test(ring_extends_past_crashed_members),
        cmocka_unit_test(beats_out_of_order_are_forwarded_once),
        cmocka_unit_test(own_beats_count_again_while_forwarded_paths_keep_a_member_alive),
        cmocka_unit_test(member_counts_again_after_a_second_process_with_its_id_has_ended),
        cmocka_unit_test(paths_that_repeat_members_or_name_nonmembers_count_each_member_once),
        cmocka_unit_test(a_lonely_member_of_a_ring_sends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
