/* What all ten detectors promise alike. */
#include "core/base/error.h"
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

/* Runs `story` for each detector with a group of five that has been quiet for 20 periods. */
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
            fail_msg("%s suspects somebody in a quiet group", ops->name);
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

static void a_crash_is_noticed_by_everybody_and_nobody_else_is_blamed(void **state)
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
    for (int life = 0; life < 3; life++) {
        group_crash(group, 2);
        group_run(group, group->now + PERIOD / 2);
        group_restart(group, 2);
        group_run(group, group->now + 60 * PERIOD);
        if (group_suspicions(group))
            fail_msg("%s: life %d is taken for old", group->at[0].ops->name, life);
    }
}

static void beats_of_a_quickly_restarted_member_are_not_old(void **state)
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

static void a_partition_that_outlasts_everything_heals_by_itself(void **state)
{
    (void)state;
    with_every_detector(a_long_partition);
}

static void a_confirmed_death(struct group *group)
{
    group_crash(group, 4);
    group_run(group, group->now + PERIOD / 10);
    for (bw_node i = 1; i <= 5; i++)
        group_tell(group, i, BW_EVENT_CONFIRMED_DEAD, 4);
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

static void a_confirmed_death_is_believed_at_once_and_a_new_life_too(void **state)
{
    (void)state;
    with_every_detector(a_confirmed_death);
}

static void a_member_leaves(struct group *group)
{
    group_crash(group, 5);
    for (bw_node i = 1; i <= 4; i++) {
        group->at[i - 1].count = 0;
        group_tell(group, i, BW_EVENT_LEAVE, 5);
    }
    group_run(group, group->now + 60 * PERIOD);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(group->at[i].count, 0);
    for (bw_node i = 1; i <= 4; i++)
        group_tell(group, i, BW_EVENT_JOIN, 5);
    group_restart(group, 5);
    group_run(group, group->now + 60 * PERIOD);
    if (group_suspicions(group))
        fail_msg("%s does not take a member back", group->at[0].ops->name);
    a_crash(group);
}

static void who_left_is_not_missed_and_who_joins_is_watched(void **state)
{
    (void)state;
    with_every_detector(a_member_leaves);
}

/* Member 2 stands still for 30 periods while everybody beats on. What it then finds in its queue
 * has not come yet when its timers fire: they must not make it blame the others. */
static void an_observer_pauses(struct group *group)
{
    group->at[1].down = true;
    group_run(group, group->now + 30 * PERIOD + PERIOD / 3);
    group->at[1].down = false;
    group->at[1].count = 0;
    group_tell(group, 2, BW_EVENT_TIMEOUT, BW_NODE_NONE);
    group_run(group, group->now + 60 * PERIOD);
    for (uint32_t i = 0; i < group->at[1].count; i++)
        if (group->at[1].verdicts[i].suspect)
            fail_msg("%s blames %u for its own pause", group->at[1].ops->name,
                     group->at[1].verdicts[i].node);
    if (group_suspicions(group))
        fail_msg("%s: %u suspicions left", group->at[0].ops->name, group_suspicions(group));
}

static void an_observer_that_was_away_blames_nobody(void **state)
{
    (void)state;
    with_every_detector(an_observer_pauses);
}

static void strangers(struct group *group)
{
    struct solo *solo = &group->at[0];
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        if (!bw_message_for_detector(kind))
            continue;
        solo_probe(solo, (enum bw_message_kind)kind, 77, 1, group->now);
        assert_true(solo_noted(solo, BW_TRACE_IGNORED_STRANGER));
        assert_int_equal(solo->out.count, 1);
    }
    static const enum bw_event_kind kinds[] = {
        BW_EVENT_START,     BW_EVENT_SUSPECT, BW_EVENT_TRUST,          BW_EVENT_SEND_FAILED,
        BW_EVENT_PERSISTED, BW_EVENT_COMMAND, BW_EVENT_CONFIRMED_DEAD, BW_EVENT_LEAVE};
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        solo_tell(solo, kinds[i], 77, group->now);
        assert_null(solo_sent(solo, BW_MSG_SWIM_PING, 0));
        assert_true(solo->out.count <= 1);
    }
    assert_int_equal(solo_status(solo, 77), BW_MEMBER_ALIVE);
    assert_true(solo->ops->level(solo->self, 77, group->now) == 0);
}

static void odd_events_change_nothing(void **state)
{
    (void)state;
    with_every_detector(strangers);
}

static void nothing_happens_before_the_start(void **state)
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
        solo_tell(&solo, BW_EVENT_TIMEOUT, 0, 5 * BW_SEC);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_detector_has_its_name),
        cmocka_unit_test(a_crash_is_noticed_by_everybody_and_nobody_else_is_blamed),
        cmocka_unit_test(a_restarted_member_is_trusted_again),
        cmocka_unit_test(beats_of_a_quickly_restarted_member_are_not_old),
        cmocka_unit_test(a_partition_that_outlasts_everything_heals_by_itself),
        cmocka_unit_test(a_confirmed_death_is_believed_at_once_and_a_new_life_too),
        cmocka_unit_test(who_left_is_not_missed_and_who_joins_is_watched),
        cmocka_unit_test(an_observer_that_was_away_blames_nobody),
        cmocka_unit_test(odd_events_change_nothing),
        cmocka_unit_test(nothing_happens_before_the_start),
        cmocka_unit_test(wrong_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
