/* The member list: effects of changes, the byte format and invalid bytes, and which changes may be
 * made. */
#include "core/replica/member_list.h"

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

static struct bw_member_list three(void)
{
    struct bw_replica_member members[] = {member(1, "a", 1), member(2, "b", 2), member(3, "c", 3)};
    struct bw_member_list member_list;
    bw_member_list_init(&member_list, members, 3);
    return member_list;
}

static void change(struct bw_member_list *member_list, enum bw_member_op op,
                   struct bw_replica_member which)
{
    bw_member_list_apply(member_list, &(struct bw_member_change){.op = op, .member = which});
}

static void member_ids_are_never_reused(void **state)
{
    (void)state;
    struct bw_member_list member_list = three();
    change(&member_list, BW_MEMBER_ADD, member(4, "", 4));
    change(&member_list, BW_MEMBER_REMOVE, member(4, "", 0));
    assert_int_equal(member_list.count, 3);
    assert_int_equal(member_list.highest, 4);
    assert_null(bw_member_list_find(&member_list, 4));
    change(&member_list, BW_MEMBER_REMOVE, member(2, "", 0));
    assert_null(bw_member_list_find(&member_list, 2));
    assert_string_equal(bw_member_list_find(&member_list, 3)->name, "c");
}

static void update_changes_only_the_given_fields(void **state)
{
    (void)state;
    struct bw_member_list member_list = three();
    struct bw_replica_member moved = {.id = 2, .host = "10.0.0.9", .port = 99};
    struct bw_replica_member named = {.id = 2, .client = "http://x:1"};
    change(&member_list, BW_MEMBER_UPDATE, moved);
    change(&member_list, BW_MEMBER_UPDATE, named);
    assert_string_equal(bw_member_list_find(&member_list, 2)->name, "b");
    assert_string_equal(bw_member_list_find(&member_list, 2)->client, "http://x:1");
    assert_ptr_equal(bw_member_list_find_address(&member_list, "10.0.0.9", 99),
                     bw_member_list_find(&member_list, 2));
    change(&member_list, BW_MEMBER_UPDATE, member(9, "nobody", 9));
    assert_int_equal(member_list.count, 3);
}

static void promotion_clears_wants_vote(void **state)
{
    (void)state;
    struct bw_member_list member_list = three();
    struct bw_replica_member learner = member(4, "d", 4);
    learner.wants_vote = true;
    change(&member_list, BW_MEMBER_ADD, learner);
    assert_true(bw_member_list_find(&member_list, 4)->wants_vote);
    change(&member_list, BW_MEMBER_PROMOTE, (struct bw_replica_member){.id = 4});
    assert_false(bw_member_list_find(&member_list, 4)->wants_vote);
}

static void member_list_is_bounded(void **state)
{
    (void)state;
    struct bw_member_list member_list = three();
    for (bw_node id = 4; id < 60; id++)
        change(&member_list, BW_MEMBER_ADD, member(id, "", (uint16_t)id));
    assert_int_equal(member_list.count, BW_REPLICA_NODES);
}

static void encoded_member_list_decodes_to_the_same_list(void **state)
{
    (void)state;
    static unsigned char bytes[BW_MEMBER_LIST_BYTES_MAX];
    struct bw_member_list member_list = three(), again;
    member_list.highest = 77;
    member_list.at[1].wants_vote = true;
    size_t length = bw_member_list_encode(&member_list, bytes);
    assert_int_equal(bw_member_list_decode(&again, bytes, length), 0);
    assert_int_equal(again.highest, 77);
    assert_int_equal(again.count, 3);
    assert_true(again.at[1].wants_vote);
    assert_string_equal(again.at[2].name, "c");
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(bw_member_list_decode(&again, bytes, cut), BW_EMALFORMED);
    bytes[length] = 0;
    assert_int_equal(bw_member_list_decode(&again, bytes, length + 1), BW_EMALFORMED);
}

static void invalid_member_list_bytes_are_rejected(void **state)
{
    (void)state;
    static unsigned char bytes[BW_MEMBER_LIST_BYTES_MAX];
    struct bw_member_list member_list = three(), again;
    size_t length = bw_member_list_encode(&member_list, bytes);
    bytes[8] = 2; /* the same id twice */
    assert_int_equal(bw_member_list_decode(&again, bytes, length), BW_EMALFORMED);
    bytes[8] = 0; /* no id */
    assert_int_equal(bw_member_list_decode(&again, bytes, length), BW_EMALFORMED);
    bytes[8] = 9; /* above the highest id */
    assert_int_equal(bw_member_list_decode(&again, bytes, length), BW_EMALFORMED);
    bytes[8] = 1;
    memset(bytes + 20, 0xff, 4); /* a name beyond the end */
    assert_int_equal(bw_member_list_decode(&again, bytes, length), BW_EMALFORMED);
}

static void encoded_member_change_decodes_to_the_same_change(void **state)
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
    facts.alive = 2; /* one of the two is the member to remove: 1 of 2 would remain */
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_ENOQUORUM);
    facts.live = false; /* the dead member goes: 2 of 2 remain */
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), 0);
    facts.voters = facts.alive = 1;
    facts.live = true;
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_ENOQUORUM);
    facts.voter = false; /* a learner does not count */
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), 0);
    facts.known = false;
    assert_int_equal(bw_change_judge(BW_MEMBER_REMOVE, &facts), BW_ENOTMEMBER);
}

static void only_a_learner_that_caught_up_is_promoted(void **state)
{
    (void)state;
    struct bw_change_facts facts = {.known = true, .voters = 3, .alive = 3};
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), BW_ESTALE);
    facts.ready = true;
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), 0);
    facts.voter = true;
    assert_int_equal(bw_change_judge(BW_MEMBER_PROMOTE, &facts), BW_EINVAL);
}

static void changes_that_do_not_fit_have_no_effect(void **state)
{
    (void)state;
    struct bw_replica_member members[] = {member(3, "c", 3), member(1, "a", 1)};
    struct bw_member_list member_list;
    bw_member_list_init(&member_list, members, 2);
    assert_int_equal(member_list.highest, 3); /* in any order */
    change(&member_list, BW_MEMBER_ADD, member(BW_NODE_NONE, "x", 4));
    change(&member_list, BW_MEMBER_ADD, member(1, "x", 4));
    change(&member_list, BW_MEMBER_PROMOTE, member(9, "", 0));
    change(&member_list, BW_MEMBER_REMOVE, member(9, "", 0));
    assert_int_equal(member_list.count, 2);
    assert_string_equal(bw_member_list_find(&member_list, 1)->name, "a");
    change(&member_list, BW_MEMBER_ADD, member(2, "b", 2));
    assert_int_equal(member_list.highest, 3);
    for (bw_node id = 1; id <= 3; id++)
        change(&member_list, BW_MEMBER_REMOVE, member(id, "", 0));
    assert_int_equal(member_list.count, 0);
    assert_int_equal(member_list.level, 1); /* an empty list relies on nothing new */
}

static void a_member_is_found_by_host_and_port(void **state)
{
    (void)state;
    struct bw_member_list member_list = three();
    assert_int_equal(bw_member_list_find_address(&member_list, "10.0.0.1", 2)->id, 2);
    assert_null(bw_member_list_find_address(&member_list, "10.0.0.2", 2));
    assert_null(bw_member_list_find_address(&member_list, "10.0.0.1", 9));
}

static void impossible_numbers_and_texts_are_rejected(void **state)
{
    (void)state;
    static unsigned char bytes[BW_MEMBER_LIST_BYTES_MAX + 1], good[BW_MEMBER_LIST_BYTES_MAX + 1];
    struct bw_member_list member_list = three(), again;
    size_t length = bw_member_list_encode(&member_list, good);
    static const struct {
        size_t at;
        unsigned char byte;
    } cases[] = {{2, 1} /* highest id above 65535 */,
                 {4, BW_REPLICA_NODES + 1},
                 {10, 1} /* id */,
                 {18, 1} /* port */,
                 {8 + 24, 0} /* NUL in a name */};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(bytes, good, sizeof bytes);
        bytes[cases[i].at] = cases[i].byte;
        assert_int_equal(bw_member_list_decode(&again, bytes, length), BW_EMALFORMED);
    }
    struct bw_member_change in = {.op = BW_MEMBER_ADD, .member = member(7, "x", 7)}, out;
    length = bw_change_encode(&in, bytes);
    assert_int_equal(bw_change_decode(&out, bytes, length + 1), BW_EMALFORMED);
    bytes[1] = 0;
    assert_int_equal(bw_change_decode(&out, bytes, length), BW_EMALFORMED);
    bytes[1] = BW_MEMBER_ADD;
    bytes[0]++;
    assert_int_equal(bw_change_decode(&out, bytes, length), BW_EMALFORMED);
}

static void members_are_added_whoever_is_alive(void **state)
{
    (void)state;
    struct bw_change_facts facts = {.voters = 3, .alive = 0};
    assert_int_equal(bw_change_judge(BW_MEMBER_ADD, &facts), 0);
    assert_int_equal(bw_change_judge(BW_MEMBER_UPDATE, &facts), BW_ENOTMEMBER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member_ids_are_never_reused),
        cmocka_unit_test(update_changes_only_the_given_fields),
        cmocka_unit_test(promotion_clears_wants_vote),
        cmocka_unit_test(member_list_is_bounded),
        cmocka_unit_test(encoded_member_list_decodes_to_the_same_list),
        cmocka_unit_test(invalid_member_list_bytes_are_rejected),
        cmocka_unit_test(encoded_member_change_decodes_to_the_same_change),
        cmocka_unit_test(two_changes_at_once_are_refused),
        cmocka_unit_test(a_removal_that_leaves_too_few_is_refused),
        cmocka_unit_test(only_a_learner_that_caught_up_is_promoted),
        cmocka_unit_test(changes_that_do_not_fit_have_no_effect),
        cmocka_unit_test(a_member_is_found_by_host_and_port),
        cmocka_unit_test(impossible_numbers_and_texts_are_rejected),
        cmocka_unit_test(members_are_added_whoever_is_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
