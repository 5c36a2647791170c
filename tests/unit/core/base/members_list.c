/* The members of a group: sorted, bounded, and kept up with events. */
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

static void any_order_of_ids_becomes_a_sorted_list(void **state)
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

static void nobody_and_somebody_twice_are_refused(void **state)
{
    (void)state;
    struct bw_members list;
    struct bw_arena arena = {block, 0, sizeof block};
    const struct bw_member nobody[] = {{.id = 0}}, twice[] = {{.id = 3}, {.id = 3}};
    assert_int_equal(bw_members_init(&list, &arena, 4, nobody, 1), BW_EINVAL);
    assert_int_equal(bw_members_init(&list, &arena, 4, twice, 2), BW_EINVAL);
    assert_int_equal(bw_members_init(&list, &arena, 1, twice, 2), BW_ELIMIT);
}

/* A leader that gave its work back lives on: nobody would ever trust it again. */
static void who_ended_its_work_is_not_suspected_for_that(void **state)
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

static void a_full_list_takes_no_more_but_renews_what_it_has(void **state)
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

static void measuring_and_laying_out_take_the_same_room(void **state)
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

static void suspicion_comes_and_goes_and_says_when_it_changed(void **state)
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
    struct bw_event stranger = about(BW_EVENT_SUSPECT, 99);
    assert_false(bw_members_apply(&list, &stranger));
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

/* Against a plain table of flags, over thousands of random changes. */
static void a_long_life_of_changes_agrees_with_a_plain_table(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_ids_becomes_a_sorted_list),
        cmocka_unit_test(nobody_and_somebody_twice_are_refused),
        cmocka_unit_test(who_ended_its_work_is_not_suspected_for_that),
        cmocka_unit_test(a_full_list_takes_no_more_but_renews_what_it_has),
        cmocka_unit_test(measuring_and_laying_out_take_the_same_room),
        cmocka_unit_test(suspicion_comes_and_goes_and_says_when_it_changed),
        cmocka_unit_test(joining_and_leaving_change_the_majority),
        cmocka_unit_test(a_long_life_of_changes_agrees_with_a_plain_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
