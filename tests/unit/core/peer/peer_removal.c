/* Removing a member at the request of another party: what is allowed and what is refused. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/peer/removal_check.h"

static const struct bw_peer_removal dead = {.self = 1, .node = 3, .known = true};

static void dead_member_is_removed(void **state)
{
    (void)state;
    assert_int_equal(bw_peer_removal_judge(&dead), 0);
}

static void live_member_is_removed_only_when_requester_insists(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.alive = true;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_EBUSY);
    removal.insists = true;
    assert_int_equal(bw_peer_removal_judge(&removal), 0);
}

static void unknown_member_is_not_removed(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.known = false;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_ENOTMEMBER);
}

/* The answer was lost and the requester repeats its request. */
static void repeated_removal_succeeds_again(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.left = true;
    assert_int_equal(bw_peer_removal_judge(&removal), 0);
}

static void leader_itself_is_not_removed(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.node = removal.self;
    removal.insists = true;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_EINVAL);
}

static void founder_under_quorum_guard_is_not_removed(void **state)
{
    (void)state;
    struct bw_peer_removal removal = dead;
    removal.founder = removal.insists = true;
    assert_int_equal(bw_peer_removal_judge(&removal), BW_EUNSUPPORTED);
}

static void removal_is_refused_without_majority_of_remaining_voters(void **state)
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
        cmocka_unit_test(dead_member_is_removed),
        cmocka_unit_test(live_member_is_removed_only_when_requester_insists),
        cmocka_unit_test(unknown_member_is_not_removed),
        cmocka_unit_test(repeated_removal_succeeds_again),
        cmocka_unit_test(leader_itself_is_not_removed),
        cmocka_unit_test(removal_is_refused_without_majority_of_remaining_voters),
        cmocka_unit_test(founder_under_quorum_guard_is_not_removed),
    };
    return cmocka_run_group_tests_name("peer_removal", tests, NULL, NULL);
}
