/* Members as values: what a change makes of them, their bytes and what is no bytes of theirs, and
 * which changes may be made. */
#include "core/replica/roster.h"

#include "core/base/error.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

static struct bw_replica_member member(bw_node id, const char *name, uint16_t port)
{
    struct bw_replica_member out = {.id = id, .port = port, .host = "10.0.0.1"};
    snprintf(out.name, sizeof out.name, "%s", name);
    return out;
}

static struct bw_roster three(void)
{
    struct bw_replica_member members[] = {member(1, "a", 1), member(2, "b", 2), member(3, "c", 3)};
    struct bw_roster roster;
    bw_roster_init(&roster, members, 3);
    return roster;
}

static void change(struct bw_roster *roster, enum bw_member_op op, struct bw_replica_member which)
{
    bw_roster_apply(roster, &(struct bw_member_change){.op = op, .member = which});
}

static void numbers_are_given_once(void **state)
{
    (void)state;
    struct bw_roster roster = three();
    change(&roster, BW_MEMBER_ADD, member(4, "", 4));
    change(&roster, BW_MEMBER_REMOVE, member(4, "", 0));
    assert_int_equal(roster.count, 3);
    assert_int_equal(roster.highest, 4);
    assert_null(bw_roster_find(&roster, 4));
    change(&roster, BW_MEMBER_REMOVE, member(2, "", 0));
    assert_null(bw_roster_find(&roster, 2));
    assert_string_equal(bw_roster_find(&roster, 3)->name, "c");
}

static void an_update_changes_what_it_names(void **state)
{
    (void)state;
    struct bw_roster roster = three();
    struct bw_replica_member moved = {.id = 2, .host = "10.0.0.9", .port = 99};
    struct bw_replica_member named = {.id = 2, .client = "http://x:1"};
    change(&roster, BW_MEMBER_UPDATE, moved);
    change(&roster, BW_MEMBER_UPDATE, named);
    assert_string_equal(bw_roster_find(&roster, 2)->name, "b");
    assert_string_equal(bw_roster_find(&roster, 2)->client, "http://x:1");
    assert_ptr_equal(bw_roster_find_address(&roster, "10.0.0.9", 99), bw_roster_find(&roster, 2));
    change(&roster, BW_MEMBER_UPDATE, member(9, "nobody", 9));
    assert_int_equal(roster.count, 3);
}

static void a_learner_that_was_promoted_wants_no_more(void **state)
{
    (void)state;
    struct bw_roster roster = three();
    struct bw_replica_member learner = member(4, "d", 4);
    learner.wants_vote = true;
    change(&roster, BW_MEMBER_ADD, learner);
    assert_true(bw_roster_find(&roster, 4)->wants_vote);
    change(&roster, BW_MEMBER_PROMOTE, (struct bw_replica_member){.id = 4});
    assert_false(bw_roster_find(&roster, 4)->wants_vote);
}

static void no_more_than_there_is_room_for(void **state)
{
    (void)state;
    struct bw_roster roster = three();
    for (bw_node id = 4; id < 60; id++)
        change(&roster, BW_MEMBER_ADD, member(id, "", (uint16_t)id));
    assert_int_equal(roster.count, BW_REPLICA_NODES);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static unsigned char bytes[BW_ROSTER_BYTES_MAX];
    struct bw_roster roster = three(), again;
    roster.highest = 77;
    roster.at[1].wants_vote = true;
    size_t length = bw_roster_encode(&roster, bytes);
    assert_int_equal(bw_roster_decode(&again, bytes, length), 0);
    assert_int_equal(again.highest, 77);
    assert_int_equal(again.count, 3);
    assert_true(again.at[1].wants_vote);
    assert_string_equal(again.at[2].name, "c");
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(bw_roster_decode(&again, bytes, cut), BW_EMALFORMED);
    bytes[length] = 0;
    assert_int_equal(bw_roster_decode(&again, bytes, length + 1), BW_EMALFORMED);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static unsigned char bytes[BW_ROSTER_BYTES_MAX];
    struct bw_roster roster = three(), again;
    size_t length = bw_roster_encode(&roster, bytes);
    bytes[8] = 2; /* twice the same number */
    assert_int_equal(bw_roster_decode(&again, bytes, length), BW_EMALFORMED);
    bytes[8] = 0; /* nobody's number */
    assert_int_equal(bw_roster_decode(&again, bytes, length), BW_EMALFORMED);
    bytes[8] = 9; /* above the highest */
    assert_int_equal(bw_roster_decode(&again, bytes, length), BW_EMALFORMED);
    bytes[8] = 1;
    memset(bytes + 20, 0xff, 4); /* a name without end */
    assert_int_equal(bw_roster_decode(&again, bytes, length), BW_EMALFORMED);
}

static void a_change_is_written_and_read(void **state)
{
    (void)state;
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    struct bw_member_change in = {.op = BW_MEMBER_UPDATE, .member = member(7, "x", 7)}, out;
    size_t length = bw_change_encode(&in, bytes);
    assert_int_equal(bw_change_decode(&out, bytes, length), 0);
    assert_int_equal(out.op, BW_MEMBER_UPDATE);
    assert_int_equal(out.member.id, 7);
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(bw_change_decode(&out, bytes, cut), BW_EMALFORMED);
    bytes[1] = BW_MEMBER_UPDATE + 1;
    assert_int_equal(bw_change_decode(&out, bytes, length), BW_EMALFORMED);
}

/* Fault 35. */
static void two_changes_at_once_are_refused(void **state)
{
    (void)state;
    struct bw_change_facts facts = {.under_way = true, .known = true, .voters = 3, .alive = 3};
    assert_int_equal(bw_change_judge(BW_MEMBER_ADD, &facts), BW_EBUSY);
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_EBUSY);
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), BW_EBUSY);
    assert_int_equal(bw_change_judge(BW_MEMBER_UPDATE, &facts), 0);
}

static void a_removal_that_leaves_too_few_is_refused(void **state)
{
    (void)state;
    struct bw_change_facts facts = {.known = true, .voter = true, .live = true};
    facts.voters = facts.alive = 3;
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), 0);
    facts.alive = 2; /* one of them is this one: 1 of 2 would be left */
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_ENOQUORUM);
    facts.live = false; /* the dead one goes: 2 of 2 */
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), 0);
    facts.voters = facts.alive = 1;
    facts.live = true;
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_ENOQUORUM);
    facts.voter = false; /* a learner counts for nothing */
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), 0);
    facts.known = false;
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_ENOTMEMBER);
}

static void only_who_has_caught_up_is_promoted(void **state)
{
    (void)state;
    struct bw_change_facts facts = {.known = true, .voters = 3, .alive = 3};
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), BW_ESTALE);
    facts.ready = true;
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), 0);
    facts.voter = true;
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), BW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_given_once),
        cmocka_unit_test(an_update_changes_what_it_names),
        cmocka_unit_test(a_learner_that_was_promoted_wants_no_more),
        cmocka_unit_test(no_more_than_there_is_room_for),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_change_is_written_and_read),
        cmocka_unit_test(two_changes_at_once_are_refused),
        cmocka_unit_test(a_removal_that_leaves_too_few_is_refused),
        cmocka_unit_test(only_who_has_caught_up_is_promoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
