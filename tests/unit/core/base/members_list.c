/* The list of group members: sorted, bounded and updated by events. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/members.h"
#include "core/base/rng.h"

static _Alignas(16) unsigned char block[4096];

static struct bw_members list_of(const bw_node *ids, uint32_t count, uint32_t cap)
{
    struct bw_member members[16] = {0};
    struct bw_members list;
    struct bw_arena arena = {block, 0, sizeof block};
    for (uint32_t i = 0; i < count; i++)
        members[i] = (struct bw_member){.id = ids[i], .priority = ids[i] * 10};
    assert_int_equal(bw_members_init(&list, &arena, cap, members, count), 0);
    return list;
}

static struct bw_event about(enum bw_event_kind kind, bw_node node)
{
    return (struct bw_event){.kind = kind, .node = node, .member = {.id = node}};
}

static void members_are_sorted_whatever_the_input_order(void **state)
{
    (void)state;
    static const bw_node ids[] = {9, 2, 700, 1};
    struct bw_members list = list_of(ids, 4, 8);
    for (uint32_t i = 1; i < list.count; i++)
        assert_true(list.at[i - 1].id < list.at[i].id);
    assert_int_equal(bw_members_find(&list, 700)->priority, 7000);
    assert_null(bw_members_find(&list, 3));
    assert_null(bw_members_find(&list, BW_NODE_NONE));
}

static void zero_and_duplicate_ids_are_rejected(void **state)
{
    (void)state;
    struct bw_members list;
    struct bw_arena arena = {block, 0, sizeof block};
    const struct bw_member nobody[] = {{.id = 0}}, twice[] = {{.id = 3}, {.id = 3}};
    assert_int_equal(bw_members_init(&list, &arena, 4, nobody, 1), BW_EINVAL);
    assert_int_equal(bw_members_init(&list, &arena, 4, twice, 2), BW_EINVAL);
    assert_int_equal(bw_members_init(&list, &arena, 1, twice, 2), BW_ELIMIT);
}

/* A leader that released its leadership keeps running. If the list suspected it, no TRUST event
 * would ever follow. */
static void node_is_not_suspected_when_only_its_work_died(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2};
    struct bw_members list = list_of(ids, 2, 2);
    struct bw_event work = about(BW_EVENT_CONFIRMED_DEAD, 2), node = work;
    work.alone = true;
    assert_false(bw_members_apply(&list, &work));
    assert_false(bw_members_find(&list, 2)->suspect);
    assert_true(bw_members_apply(&list, &node));
    assert_true(bw_members_find(&list, 2)->suspect);
}

static void full_list_rejects_new_members_but_updates_known_ones(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2};
    struct bw_members list = list_of(ids, 2, 2);
    const struct bw_member third = {.id = 3}, second = {.id = 2, .priority = 5, .ordinary = 1};
    assert_int_equal(bw_members_add(&list, &third), BW_ELIMIT);
    assert_int_equal(bw_members_add(&list, &second), 0);
    assert_int_equal(list.count, 2);
    assert_int_equal(bw_members_find(&list, 2)->priority, 5);
    assert_true(bw_members_find(&list, 2)->ordinary);
}

static void measured_size_equals_used_size(void **state)
{
    (void)state;
    struct bw_members list;
    struct bw_arena measure = {0}, real = {block, 0, sizeof block}, small = {block, 0, 8};
    const struct bw_member one[] = {{.id = 1}};
    assert_int_equal(bw_members_init(&list, &measure, 20, one, 1), 0);
    assert_int_equal(bw_members_init(&list, &real, 20, one, 1), 0);
    assert_int_equal(measure.used, real.used);
    assert_int_equal(bw_members_init(&list, &small, 20, one, 1), BW_ENOMEM);
}

static void suspicion_is_set_and_cleared_and_changes_are_reported(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2, 3};
    struct bw_members list = list_of(ids, 3, 4);
    struct bw_event suspect = about(BW_EVENT_SUSPECT, 2), trust = about(BW_EVENT_TRUST, 2);
    assert_false(bw_members_apply(&list, &trust));
    assert_true(bw_members_apply(&list, &suspect));
    assert_false(bw_members_apply(&list, &suspect));
    assert_true(bw_members_find(&list, 2)->suspect);
    assert_true(bw_members_apply(&list, &trust));
    assert_false(bw_members_find(&list, 2)->suspect);
    struct bw_event nonmember = about(BW_EVENT_SUSPECT, 99);
    assert_false(bw_members_apply(&list, &nonmember));
}

static void joining_and_leaving_change_the_majority(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2, 3};
    struct bw_members list = list_of(ids, 3, 4);
    assert_int_equal(bw_members_majority(&list), 2);
    struct bw_event join = about(BW_EVENT_JOIN, 4), leave = about(BW_EVENT_LEAVE, 1);
    assert_true(bw_members_apply(&list, &join));
    assert_false(bw_members_apply(&list, &join));
    assert_int_equal(bw_members_majority(&list), 3);
    assert_true(bw_members_apply(&list, &leave));
    assert_false(bw_members_apply(&list, &leave));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.at[0].id, 2);
}

/* Compares the list with a plain table of flags over thousands of random changes. */
static void random_changes_agree_with_a_plain_table(void **state)
{
    (void)state;
    bool in[33] = {false};
    struct bw_rng rng;
    struct bw_members list = list_of(NULL, 0, 32);
    bw_rng_init(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        bw_node node = (bw_node)bw_rng_between(&rng, 1, 32);
        bool join = bw_rng_chance(&rng, 0.5);
        struct bw_event event = about(join ? BW_EVENT_JOIN : BW_EVENT_LEAVE, node);
        assert_int_equal(bw_members_apply(&list, &event), in[node] != join);
        in[node] = join;
        uint32_t count = 0;
        for (bw_node id = 1; id <= 32; id++) {
            assert_int_equal(bw_members_find(&list, id) != NULL, in[id]);
            count += in[id];
        }
        assert_int_equal(list.count, count);
    }
}

static void other_events_change_no_member(void **state)
{
    (void)state;
    static const bw_node ids[] = {1, 2};
    static const enum bw_event_kind kinds[] = {
        BW_EVENT_START,       BW_EVENT_MESSAGE,   BW_EVENT_TIMEOUT, BW_EVENT_HINT,
        BW_EVENT_SEND_FAILED, BW_EVENT_PERSISTED, BW_EVENT_COMMAND, BW_EVENT_STOP};
    struct bw_members list = list_of(ids, 2, 2);
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct bw_event event = about(kinds[i], 2);
        assert_false(bw_members_apply(&list, &event));
        assert_int_equal(list.count, 2);
        assert_false(bw_members_find(&list, 2)->suspect);
    }
    struct bw_event event = about(BW_EVENT_TRUST, 9);
    assert_false(bw_members_apply(&list, &event)); /* unknown */
    event = about(BW_EVENT_JOIN, 9);
    assert_false(bw_members_apply(&list, &event)); /* full */
    assert_int_equal(list.count, 2);
}

static void capacity_has_a_limit(void **state)
{
    (void)state;
    struct bw_members list;
    struct bw_arena measure = {0};
    assert_int_equal(bw_members_init(&list, &measure, BW_DETECTOR_MEMBERS_MAX, NULL, 0), 0);
    assert_int_equal(bw_members_init(&list, &measure, BW_DETECTOR_MEMBERS_MAX + 1, NULL, 0),
                     BW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_sorted_whatever_the_input_order),
        cmocka_unit_test(zero_and_duplicate_ids_are_rejected),
        cmocka_unit_test(node_is_not_suspected_when_only_its_work_died),
        cmocka_unit_test(full_list_rejects_new_members_but_updates_known_ones),
        cmocka_unit_test(measured_size_equals_used_size),
        cmocka_unit_test(suspicion_is_set_and_cleared_and_changes_are_reported),
        cmocka_unit_test(joining_and_leaving_change_the_majority),
        cmocka_unit_test(random_changes_agree_with_a_plain_table),
        cmocka_unit_test(other_events_change_no_member),
        cmocka_unit_test(capacity_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
