/* Taking a member out by the word of another: who may be, and who not. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/cluster/removal.h"

static const struct bw_peer_removal dead = {.self = 1, .node = 3, .known = true};

static void one_that_is_gone_is_taken_out(void **state)
{
    (void)state;
    assert_int_equal(bw_peer_removal_judge(&dead), 0);
}

static void the_living_are_not_unless_somebody_insists(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.alive = true;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_EBUSY);
    removal.insists = true;
    assert_int_equal(bw_peer_removal_judge(&removal), 0);
}

static void nobody_unknown_is(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.known = false;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_ENOTMEMBER);
}

/* An answer that was lost: the same is asked once more. */
static void who_asks_twice_is_answered_alike(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.left = true;
    assert_int_equal(bw_peer_removal_judge(&removal), 0);
}

static void the_leader_hands_over_first(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.node = removal.self;
    removal.insists = true;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_EINVAL);
}

static void a_founder_under_the_guard_promises_for_good(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.founder = removal.insists = true;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_EUNSUPPORTED);
}

static void nothing_is_begun_that_no_majority_could_end(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.insists = true;
    for (removal.voters = 1; removal.voters <= 7; removal.voters++)
        for (removal.present = 1; removal.present <= removal.voters; removal.present++)
            assert_int_equal(bw_peer_removal_judge(&removal),
                             removal.present >= removal.voters / 2 + 1 ? 0 : BW_ENOQUORUM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_gone_is_taken_out),
        cmocka_unit_test(the_living_are_not_unless_somebody_insists),
        cmocka_unit_test(nobody_unknown_is),
        cmocka_unit_test(who_asks_twice_is_answered_alike),
        cmocka_unit_test(the_leader_hands_over_first),
        cmocka_unit_test(nothing_is_begun_that_no_majority_could_end),
        cmocka_unit_test(a_founder_under_the_guard_promises_for_good),
    };
    return cmocka_run_group_tests_name("peer_removal", tests, NULL, NULL);
}
