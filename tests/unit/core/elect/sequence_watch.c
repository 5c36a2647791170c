/* The sequential-node recipe: the lowest number leads, each other candidate watches exactly one
 * entry. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/elect/sequence.h"

static const struct bw_sequence_entry three[] = {{4, 40}, {7, 70}, {9, 90}};

static struct bw_sequence contender(uint64_t own)
{
    struct bw_sequence self;
    bw_sequence_init(&self, own);
    assert_int_equal(self.verdict, BW_SEQUENCE_LIST);
    assert_int_equal(bw_sequence_listed(&self, three, 3), 0);
    return self;
}

static void the_lowest_number_leads(void **state)
{
    (void)state;
    struct bw_sequence self = contender(4);
    assert_int_equal(self.verdict, BW_SEQUENCE_LEAD);
    assert_int_equal(self.watch.number, 0);
}

static void each_candidate_watches_only_its_predecessor(void **state)
{
    (void)state;
    struct bw_sequence self = contender(9);
    assert_int_equal(self.verdict, BW_SEQUENCE_WATCH);
    assert_int_equal(self.watch.number, 7);
    assert_int_equal(self.watch.owner, 70);
    assert_int_equal(self.leader.owner, 40);
    assert_false(bw_sequence_vanished(&self, 4));
    assert_int_equal(self.verdict, BW_SEQUENCE_WATCH);
}

static void a_vanished_predecessor_means_list_again_not_lead(void **state)
{
    (void)state;
    struct bw_sequence self = contender(9);
    assert_true(bw_sequence_vanished(&self, 7));
    assert_int_equal(self.verdict, BW_SEQUENCE_LIST);
    static const struct bw_sequence_entry two[] = {{4, 40}, {9, 90}};
    assert_int_equal(bw_sequence_listed(&self, two, 2), 0);
    assert_int_equal(self.verdict, BW_SEQUENCE_WATCH);
    assert_int_equal(self.watch.number, 4);
    assert_true(bw_sequence_vanished(&self, 4));
    assert_int_equal(bw_sequence_listed(&self, &two[1], 1), 0);
    assert_int_equal(self.verdict, BW_SEQUENCE_LEAD);
}

static void candidate_is_gone_when_its_entry_is_missing(void **state)
{
    (void)state;
    struct bw_sequence self = contender(8);
    assert_int_equal(self.verdict, BW_SEQUENCE_GONE);
    self = contender(4);
    assert_false(bw_sequence_vanished(&self, 4));
    assert_int_equal(self.verdict, BW_SEQUENCE_GONE);
    assert_int_equal(bw_sequence_listed(&self, NULL, 0), 0);
    assert_int_equal(self.verdict, BW_SEQUENCE_GONE);
}

static void a_list_out_of_order_decides_nothing(void **state)
{
    (void)state;
    static const struct bw_sequence_entry mixed[] = {{7, 70}, {4, 40}}, twice[] = {{4, 1}, {4, 2}};
    struct bw_sequence self = contender(4);
    assert_int_equal(bw_sequence_listed(&self, mixed, 2), BW_EINVAL);
    assert_int_equal(self.verdict, BW_SEQUENCE_LIST);
    assert_int_equal(bw_sequence_listed(&self, twice, 2), BW_EINVAL);
}

static void departures_are_ignored_unless_they_were_watched(void **state)
{
    (void)state;
    struct bw_sequence s;
    static const struct bw_sequence_entry list[] = {{.number = 3}, {.number = 5}, {.number = 9}};
    bw_sequence_init(&s, 9);
    assert_false(bw_sequence_vanished(&s, 5)); /* nothing is watched yet */
    assert_int_equal(s.verdict, BW_SEQUENCE_LIST);
    assert_int_equal(bw_sequence_listed(&s, list, 3), 0);
    assert_false(bw_sequence_vanished(&s, 3)); /* not the predecessor */
    assert_int_equal(s.verdict, BW_SEQUENCE_WATCH);
    assert_true(bw_sequence_vanished(&s, 5));
    bw_sequence_init(&s, 3);
    assert_int_equal(bw_sequence_listed(&s, list, 3), 0);
    assert_false(bw_sequence_vanished(&s, 0)); /* a leader watches nothing */
    assert_int_equal(s.verdict, BW_SEQUENCE_LEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_number_leads),
        cmocka_unit_test(each_candidate_watches_only_its_predecessor),
        cmocka_unit_test(a_vanished_predecessor_means_list_again_not_lead),
        cmocka_unit_test(candidate_is_gone_when_its_entry_is_missing),
        cmocka_unit_test(a_list_out_of_order_decides_nothing),
        cmocka_unit_test(departures_are_ignored_unless_they_were_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
