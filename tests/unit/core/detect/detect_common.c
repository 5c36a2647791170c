/* Guarantees of all ten detectors. */
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/detect/swim/swim.h"
#include "detect_pump.h"

#define PERIOD (100 * BW_MS)

static struct bw_detector_config some_config(void)
{
    struct bw_detector_config config = {.seed = 7};
    bw_detector_defaults(&config, PERIOD);
    return config;
}

static void every_detector_has_its_name(void **state)
{
    (void)state;
    static const char *const names[] = {"ping",   "deadline",        "phi",          "phi-logistic",
                                        "nfd",    "phi-exponential", "phi+deadline", "swim",
                                        "gossip", "heartbeat"};
    unsigned count = 0;
    while (bw_detector_at(count))
        count++;
    assert_int_equal(count, sizeof names / sizeof names[0]);
    for (unsigned i = 0; i < count; i++) {
        assert_non_null(bw_detector_find(names[i]));
        assert_string_equal(bw_detector_find(names[i])->name, names[i]);
    }
    assert_null(bw_detector_find("crystal-ball"));
}

/* Runs `story` for each detector with a group of five that has been idle for 20 periods. */
static void with_every_detector(void (*story)(struct group *group))
{
    const struct bw_detector_ops *ops;
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        struct bw_detector_config config = some_config();
        struct group group;
        group_open(&group, ops, 5, &config, 2 * BW_MS);
        group_start(&group);
        group_run(&group, 20 * PERIOD);
        if (group_suspicions(&group))
            fail_msg("%s suspects a live member of an idle group", ops->name);
        story(&group);
        group_close(&group);
    }
}

static void a_crash(struct group *group)
{
    group_crash(group, 3);
    group_run(group, group->now + 40 * PERIOD);
    if (group_suspecting(group, 3) != 4)
        fail_msg("%s: %u of 4 noticed", group->at[0].ops->name, group_suspecting(group, 3));
    for (bw_node i = 1; i <= 5; i++)
        if (i != 3)
            assert_int_equal(group_suspecting(group, i), 0);
}

static void crash_is_noticed_by_all_and_no_live_member_is_suspected(void **state)
{
    (void)state;
    with_every_detector(a_crash);
}

static void a_restart(struct group *group)
{
    a_crash(group);
    group_restart(group, 3);
    group_run(group, group->now + 40 * PERIOD);
    if (group_suspicions(group))
        fail_msg("%s: %u suspicions left", group->at[0].ops->name, group_suspicions(group));
}

static void a_restarted_member_is_trusted_again(void **state)
{
    (void)state;
    with_every_detector(a_restart);
}

static void a_quick_restart(struct group *group)
{
    for (int restart = 0; restart < 3; restart++) {
        group_crash(group, 2);
        group_run(group, group->now + PERIOD / 2);
        group_restart(group, 2);
        group_run(group, group->now + 60 * PERIOD);
        if (group_suspicions(group))
            fail_msg("%s: beats after restart %d are rejected as old", group->at[0].ops->name,
                     restart);
    }
}

static void beats_after_a_quick_restart_are_newer_than_before(void **state)
{
    (void)state;
    with_every_detector(a_quick_restart);
}

static void a_long_partition(struct group *group)
{
    group_split(group, 2, true);
    group_run(group, group->now + 300 * PERIOD);
    for (bw_node i = 1; i <= 5; i++)
        assert_int_equal(group_suspecting(group, i), i <= 2 ? 3 : 2);
    group_split(group, 2, false);
    group_run(group, group->now + 60 * PERIOD);
    if (group_suspicions(group))
        fail_msg("%s: %u suspicions left", group->at[0].ops->name, group_suspicions(group));
}

static void trust_returns_after_a_long_partition_heals(void **state)
{
    (void)state;
    with_every_detector(a_long_partition);
}

static void a_confirmed_death(struct group *group)
{
    group_crash(group, 4);
    group_run(group, group->now + PERIOD / 10);
    for (bw_node i = 1; i <= 5; i++)
        group_event(group, i, BW_EVENT_CONFIRMED_DEAD, 4);
    for (uint32_t i = 0; i < 5; i++) {
        const struct solo *solo = &group->at[i];
        if (i == 3)
            continue;
        assert_int_equal(solo_status(solo, 4), BW_MEMBER_DEAD);
        assert_true(solo->count > 0 && solo->verdicts[solo->count - 1].suspect);
    }
    group_run(group, group->now + 10 * PERIOD);
    assert_int_equal(group_suspecting(group, 4), 4);
    group_restart(group, 4);
    group_run(group, group->now + 40 * PERIOD);
    if (group_suspicions(group))
        fail_msg("%s does not forgive death", group->at[0].ops->name);
}

static void confirmed_death_and_restart_take_effect_at_once(void **state)
{
    (void)state;
    with_every_detector(a_confirmed_death);
}

static void a_member_leaves(struct group *group)
{
    group_crash(group, 5);
    for (bw_node i = 1; i <= 4; i++) {
        group->at[i - 1].count = 0;
        group_event(group, i, BW_EVENT_LEAVE, 5);
    }
    group_run(group, group->now + 60 * PERIOD);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(group->at[i].count, 0);
    for (bw_node i = 1; i <= 4; i++)
        group_event(group, i, BW_EVENT_JOIN, 5);
    group_restart(group, 5);
    group_run(group, group->now + 60 * PERIOD);
    if (group_suspicions(group))
        fail_msg("%s does not take a member back", group->at[0].ops->name);
    a_crash(group);
}

static void left_member_is_not_suspected_and_joined_member_is_watched(void **state)
{
    (void)state;
    with_every_detector(a_member_leaves);
}

/* Member 2 is paused for 30 periods while the others send beats. When its timers fire, the beats in
 * its queue have not been processed yet: it must not suspect the others. */
static void an_observer_pauses(struct group *group)
{
    group->at[1].down = true;
    group_run(group, group->now + 30 * PERIOD + PERIOD / 3);
    group->at[1].down = false;
    group->at[1].count = 0;
    group_event(group, 2, BW_EVENT_TIMEOUT, BW_NODE_NONE);
    group_run(group, group->now + 60 * PERIOD);
    for (uint32_t i = 0; i < group->at[1].count; i++)
        if (group->at[1].verdicts[i].suspect)
            fail_msg("%s blames %u for its own pause", group->at[1].ops->name,
                     group->at[1].verdicts[i].node);
    if (group_suspicions(group))
        fail_msg("%s: %u suspicions left", group->at[0].ops->name, group_suspicions(group));
}

static void paused_observer_suspects_no_live_member(void **state)
{
    (void)state;
    with_every_detector(an_observer_pauses);
}

static void nonmembers(struct group *group)
{
    struct solo *solo = &group->at[0];
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        if (!bw_message_for_detector(kind))
            continue;
        solo_probe(solo, (enum bw_message_kind)kind, 77, 1, group->now);
        assert_true(solo_noted(solo, BW_TRACE_IGNORED_NOT_A_MEMBER));
        assert_int_equal(solo->out.count, 1);
    }
    static const enum bw_event_kind kinds[] = {
        BW_EVENT_START,     BW_EVENT_SUSPECT, BW_EVENT_TRUST,          BW_EVENT_SEND_FAILED,
        BW_EVENT_PERSISTED, BW_EVENT_COMMAND, BW_EVENT_CONFIRMED_DEAD, BW_EVENT_LEAVE};
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        solo_event(solo, kinds[i], 77, group->now);
        assert_null(solo_sent(solo, BW_MSG_SWIM_PING, 0));
        assert_true(solo->out.count <= 1);
    }
    assert_int_equal(solo_status(solo, 77), BW_MEMBER_ALIVE);
    assert_true(solo->ops->level(solo->self, 77, group->now) == 0);
}

static void unexpected_events_change_nothing(void **state)
{
    (void)state;
    with_every_detector(nonmembers);
}

static void detector_does_nothing_before_the_start_event(void **state)
{
    (void)state;
    const struct bw_detector_ops *ops;
    bw_node ids[] = {1, 2, 3};
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        struct bw_detector_config config = some_config();
        config.self = 1;
        config.members = ids;
        config.count = config.cap = 3;
        struct solo solo;
        solo_open(&solo, ops, &config);
        assert_true(ops->deadline(solo.self) == BW_TIME_NEVER);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 1, 0);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_STATE));
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, 5 * BW_SEC);
        assert_int_equal(solo.count, 0);
        solo_close(&solo);
    }
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    const struct bw_detector_ops *ops;
    bw_node twice[] = {1, 2, 2}, none[] = {1, 0, 2}, good[] = {3, 2, 1};
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        struct bw_detector_config config = some_config();
        config.self = 1;
        config.count = config.cap = 3;
        config.members = good;
        void *memory = aligned_alloc(16, 1 << 20);
        assert_int_equal(ops->init(memory, &config), 0);
        config.members = twice;
        assert_int_equal(ops->init(memory, &config), BW_EINVAL);
        config.members = none;
        assert_int_equal(ops->init(memory, &config), BW_EINVAL);
        config.members = good;
        config.cap = 2;
        assert_int_equal(ops->init(memory, &config), BW_ELIMIT);
        config.cap = 3;
        config.self = BW_NODE_NONE;
        assert_int_equal(ops->init(memory, &config), BW_EINVAL);
        config.self = 1;
        config.period_ns = 0;
        assert_int_equal(ops->init(memory, &config), BW_EINVAL);
        free(memory);
    }
}

static void messages_of_others(struct group *group)
{
    struct solo *solo = &group->at[0];
    uint32_t verdicts = solo->count;
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        solo_probe(solo, (enum bw_message_kind)kind, 2, 0, group->now);
        assert_true(solo->out.count <= 1); /* a reply or a trace */
    }
    assert_int_equal(solo->count, verdicts);
    assert_int_equal(solo_status(solo, 2), BW_MEMBER_ALIVE);
}

static void messages_of_other_modules_change_no_verdict(void **state)
{
    (void)state;
    with_every_detector(messages_of_others);
}

/* The work of member 2 is dead; what its old process sent before arrives late. */
static void late_beats(struct group *group)
{
    struct solo *solo = &group->at[0];
    group_event(group, 1, BW_EVENT_CONFIRMED_DEAD, 2);
    static const enum bw_message_kind kinds[] = {BW_MSG_HEARTBEAT, BW_MSG_ACK};
    for (unsigned k = 0; k < 2; k++) {
        solo_probe(solo, kinds[k], 2, 9999, group->now);
        assert_int_equal(solo_status(solo, 2), BW_MEMBER_DEAD);
    }
    bw_node path[] = {2};
    struct bw_counter table[] = {{.node = 2, .value = 9999}};
    struct bw_message msg = {.kind = BW_MSG_HEARTBEAT_PATH, .from = 2, .to = 1, .items = 1};
    msg.data = path;
    msg.probe.seq = 9999;
    if (solo->ops == &bw_detect_heartbeat)
        solo_receive(solo, &msg, group->now);
    msg.kind = BW_MSG_GOSSIP;
    msg.data = table;
    if (solo->ops == &bw_detect_gossip)
        solo_receive(solo, &msg, group->now);
    assert_int_equal(solo_status(solo, 2), BW_MEMBER_DEAD);
}

static void messages_of_a_dead_incarnation_do_not_revive_it(void **state)
{
    (void)state;
    with_every_detector(late_beats);
}

static void joins(struct group *group)
{
    struct solo *solo = &group->at[0];
    group_event(group, 1, BW_EVENT_CONFIRMED_DEAD, 2);
    group_event(group, 1, BW_EVENT_JOIN, 2); /* again: without old suspicions */
    assert_int_equal(solo_status(solo, 2), BW_MEMBER_ALIVE);
    group_event(group, 1, BW_EVENT_JOIN, 2); /* and once more */
    assert_int_equal(solo_status(solo, 2), BW_MEMBER_ALIVE);
    group_event(group, 1, BW_EVENT_JOIN, 1);              /* itself */
    for (bw_node id = 6; id < 6 + solo->config.cap; id++) /* more than fit */
        group_event(group, 1, BW_EVENT_JOIN, id);
    assert_true(solo_noted(solo, BW_TRACE_IGNORED_FULL));
}

static void members_may_join_again_but_not_beyond_the_capacity(void **state)
{
    (void)state;
    with_every_detector(joins);
}

/* Members that join before START are watched from START on. */
static void member_that_joins_before_the_start_is_watched(void **state)
{
    (void)state;
    const struct bw_detector_ops *ops;
    bw_node ids[] = {1, 2};
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        struct bw_detector_config config = some_config();
        config.self = 1;
        config.members = ids;
        config.count = 2;
        config.cap = 3;
        struct solo solo;
        solo_open(&solo, ops, &config);
        solo_event(&solo, BW_EVENT_JOIN, 3, 0);
        assert_true(ops->level(solo.self, 3, 0) == 0);
        solo_event(&solo, BW_EVENT_START, 0, BW_SEC);
        solo_wait(&solo, 200 * BW_SEC);
        assert_int_not_equal(solo_status(&solo, 3), BW_MEMBER_ALIVE);
        assert_true(ops->level(solo.self, 3, 200 * BW_SEC) > 0);
        assert_true(ops->level(solo.self, 1, 200 * BW_SEC) == 0); /* never itself */
        solo_close(&solo);
    }
}

static int init_with(const struct bw_detector_ops *ops, struct bw_detector_config config)
{
    void *memory = aligned_alloc(16, 1 << 20);
    int error = ops->init(memory, &config);
    free(memory);
    return error;
}

static void every_setting_of_a_detector_is_checked(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2, 3};
    struct bw_detector_config good = some_config(), config;
    good.self = 1;
    good.members = ids;
    good.count = 3; /* cap 0: as many as there are */
    const struct bw_detector_ops *ops;
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        assert_int_equal(init_with(ops, good), 0);
        config = good;
        config.cap = BW_DETECTOR_MEMBERS_MAX + 1;
        assert_int_equal(init_with(ops, config), BW_ELIMIT);
    }
    config = good;
    config.timeout_ns = 0;
    assert_int_equal(init_with(&bw_detect_deadline, config), BW_EINVAL);
    config = good;
    config.fanout = 0;
    assert_int_equal(init_with(&bw_detect_gossip, config), BW_EINVAL);
    config = good;
    config.stand_still = 0;
    assert_int_equal(init_with(&bw_detect_heartbeat, config), BW_EINVAL);
    config = good;
    config.fresh_window = 0;
    assert_int_equal(init_with(&bw_detect_nfd, config), BW_EINVAL);
    config = good;
    config.pause_ns = -1;
    assert_int_equal(init_with(&bw_detect_phi, config), BW_EINVAL);
    config = good;
    config.limit_ns = 0;
    assert_int_equal(init_with(&bw_detect_phi_deadline, config), BW_EINVAL);
}

static void every_setting_of_swim_is_checked(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2, 3};
    struct bw_detector_config good = some_config(), config;
    good.self = 1;
    good.members = ids;
    good.count = good.cap = 3;
    config = good;
    config.ack_ns = 0;
    assert_int_equal(init_with(&bw_detect_swim, config), BW_EINVAL);
    config = good;
    config.ack_ns = good.period_ns;
    assert_int_equal(init_with(&bw_detect_swim, config), BW_EINVAL);
    config = good;
    config.suspicion_min = -1;
    assert_int_equal(init_with(&bw_detect_swim, config), BW_EINVAL);
    config = good;
    config.suspicion_max = 0.5;
    assert_int_equal(init_with(&bw_detect_swim, config), BW_EINVAL);
    config = good;
    config.indirect = BW_SWIM_INDIRECT_MAX + 1;
    assert_int_equal(init_with(&bw_detect_swim, config), BW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_detector_has_its_name),
        cmocka_unit_test(crash_is_noticed_by_all_and_no_live_member_is_suspected),
        cmocka_unit_test(a_restarted_member_is_trusted_again),
        cmocka_unit_test(beats_after_a_quick_restart_are_newer_than_before),
        cmocka_unit_test(trust_returns_after_a_long_partition_heals),
        cmocka_unit_test(confirmed_death_and_restart_take_effect_at_once),
        cmocka_unit_test(left_member_is_not_suspected_and_joined_member_is_watched),
        cmocka_unit_test(paused_observer_suspects_no_live_member),
        cmocka_unit_test(unexpected_events_change_nothing),
        cmocka_unit_test(detector_does_nothing_before_the_start_event),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(messages_of_other_modules_change_no_verdict),
        cmocka_unit_test(messages_of_a_dead_incarnation_do_not_revive_it),
        cmocka_unit_test(members_may_join_again_but_not_beyond_the_capacity),
        cmocka_unit_test(member_that_joins_before_the_start_is_watched),
        cmocka_unit_test(every_setting_of_a_detector_is_checked),
        cmocka_unit_test(every_setting_of_swim_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
