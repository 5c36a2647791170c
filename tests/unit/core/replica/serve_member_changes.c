/* Changes of the members at the leader of a running Raft group: which are made, and with which
 * id. */
#include "core/base/error.h"
#include "core/replica/membership.h"
#include "unit/core/elect/raft_net.h"
#include "unit/unit.h"

#include <stdio.h>

struct cluster {
    struct net *net;
    bw_node leader;
    struct bw_membership members; /* at the leader */
    bool cut[NET_NODES + 1];      /* no connection */
};

static struct bw_replica_member member(bw_node id, const char *name)
{
    struct bw_replica_member out = {.id = id, .port = (uint16_t)id, .host = "10.0.0.1"};
    snprintf(out.name, sizeof out.name, "%s", name);
    return out;
}

static bool connected(void *context, bw_node node)
{
    const struct cluster *c = context;
    assert_int_not_equal(node, c->leader);
    return !c->cut[node];
}

static struct bw_membership_view view(struct cluster *c)
{
    return (struct bw_membership_view){.raft = net_raft(c->net, c->leader),
                                       .now = net_local(c->net, c->leader, c->net->now),
                                       .connected = connected,
                                       .context = c};
}

/* Three voters; node 4 runs and is not a member yet. */
static void begin(struct cluster *c)
{
    struct bw_replica_member first[] = {member(1, "a"), member(2, "b"), member(3, "c")};
    *c = (struct cluster){.net = net_new(4, 3, 9)};
    for (bw_node id = 1; id <= 4; id++)
        net_start(c->net, id);
    c->leader = net_elect(c->net, 3 * BW_SEC);
    net_run(c->net, 100 * BW_MS);
    bw_membership_init(&c->members, c->leader, false, first, 3);
    bw_membership_begin(&c->members, 1);
}

static void log_change(struct cluster *c, enum bw_member_op op, struct bw_replica_member which)
{
    struct bw_member_change change = {.op = op, .member = which};
    bw_member_list_apply(&c->members.member_list, &change);
    bw_member_list_apply(&c->members.applied, &change);
}

static int judge(struct cluster *c, enum bw_member_op op, bw_node id)
{
    struct bw_membership_view at = view(c);
    struct bw_member_change change = {.op = op, .member = member(id, "")};
    return bw_membership_try(&c->members, &at, &change);
}

static void voters_are_removed_while_a_quorum_remains(void **state)
{
    (void)state;
    struct cluster c;
    begin(&c);
    bw_node other = c.leader == 1 ? 2 : 1, third = 6 - c.leader - other;
    assert_int_equal(judge(&c, BW_MEMBER_REMOVE, other), 0);
    assert_int_equal(judge(&c, BW_MEMBER_REMOVE, c.leader), 0);
    assert_int_equal(judge(&c, BW_MEMBER_REMOVE, 4), BW_ENOTMEMBER);
    c.cut[third] = true; /* acknowledges, but its connection is gone */
    assert_int_equal(judge(&c, BW_MEMBER_REMOVE, other), BW_ENOQUORUM);
    assert_int_equal(judge(&c, BW_MEMBER_REMOVE, third), 0);
    c.cut[third] = false;
    net_crash(c.net, third); /* connected, but it stopped acknowledging */
    net_run(c.net, 400 * BW_MS);
    assert_int_equal(judge(&c, BW_MEMBER_REMOVE, other), BW_ENOQUORUM);
    net_free(c.net);
}

static void a_change_under_way_blocks_all_but_updates(void **state)
{
    (void)state;
    struct cluster c;
    begin(&c);
    net_isolate(c.net, c.leader, true);
    net_change(c.net, c.leader, BW_CHANGE_ADD_LEARNER, 4, 1);
    assert_int_equal(judge(&c, BW_MEMBER_ADD, BW_NODE_NONE), BW_EBUSY);
    assert_int_equal(judge(&c, BW_MEMBER_UPDATE, 1), 0);
    net_free(c.net);
}

static void a_new_member_gets_an_id_that_was_never_used(void **state)
{
    (void)state;
    struct cluster c;
    begin(&c);
    struct bw_membership_view at = view(&c);
    struct bw_member_change change = {.op = BW_MEMBER_ADD, .member = member(0, "")};
    assert_int_equal(bw_membership_try(&c.members, &at, &change), 0);
    assert_int_equal(change.member.id, 4);
    log_change(&c, BW_MEMBER_ADD, member(7, ""));
    log_change(&c, BW_MEMBER_REMOVE, member(7, ""));
    assert_int_equal(bw_membership_try(&c.members, &at, &change), 0);
    assert_int_equal(change.member.id, 8);
    c.members.member_list.highest = 11; /* in the log, not applied */
    assert_int_equal(bw_membership_try(&c.members, &at, &change), 0);
    assert_int_equal(change.member.id, 12);
    c.members.member_list.highest = BW_MEMBER_ID_MAX;
    assert_int_equal(bw_membership_try(&c.members, &at, &change), BW_ELIMIT);
    c.members.member_list.highest = 11;
    c.members.member_list.count = BW_REPLICA_NODES;
    assert_int_equal(bw_membership_try(&c.members, &at, &change), BW_ELIMIT);
    net_free(c.net);
}

static void a_written_change_is_returned_with_its_id(void **state)
{
    (void)state;
    struct cluster c;
    begin(&c);
    struct bw_membership_view at = view(&c);
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    struct bw_member_change change = {.op = BW_MEMBER_ADD, .member = member(0, "")}, out;
    size_t length = bw_change_encode(&change, bytes);
    assert_int_equal(bw_membership_try_written(&c.members, &at, bytes, length - 1, &out),
                     BW_EMALFORMED);
    assert_int_equal(bw_membership_try_written(&c.members, &at, bytes, length, &out), 0);
    assert_int_equal(bw_change_decode(&change, bytes, length), 0);
    assert_int_equal(change.member.id, 4);
    change = (struct bw_member_change){.op = BW_MEMBER_PROMOTE, .member = member(9, "")};
    length = bw_change_encode(&change, bytes);
    assert_int_equal(bw_membership_try_written(&c.members, &at, bytes, length, &out),
                     BW_ENOTMEMBER);
    net_free(c.net);
}

static void a_member_does_not_fall_below_the_level(void **state)
{
    (void)state;
    struct cluster c;
    begin(&c);
    struct bw_membership_view at = view(&c);
    struct bw_member_change change = {.op = BW_MEMBER_UPDATE, .member = member(1, "a")};
    assert_int_equal(bw_membership_try(&c.members, &at, &change), 0); /* version 1, level 1 */
    c.members.member_list.level = 3;
    assert_int_equal(bw_membership_try(&c.members, &at, &change), BW_EVERSION);
    change.member.version = 2;
    assert_int_equal(bw_membership_try(&c.members, &at, &change), BW_EVERSION);
    change.member.version = 3;
    assert_int_equal(bw_membership_try(&c.members, &at, &change), 0);
    change.member = member(1, ""); /* an operator changes the address only */
    assert_int_equal(bw_membership_try(&c.members, &at, &change), 0);
    net_free(c.net);
}

static bw_node promotable(struct cluster *c)
{
    struct bw_membership_view at = view(c);
    return bw_membership_promotable(&c->members, &at);
}

static void a_learner_is_promoted_when_it_wants_to_vote_has_started_and_caught_up(void **state)
{
    (void)state;
    struct cluster c;
    begin(&c);
    struct bw_replica_member learner = member(4, "");
    net_change(c.net, c.leader, BW_CHANGE_ADD_LEARNER, 4, 1);
    net_run(c.net, 200 * BW_MS);
    log_change(&c, BW_MEMBER_ADD, learner);
    assert_int_equal(promotable(&c), BW_NODE_NONE); /* it does not want to vote */
    log_change(&c, BW_MEMBER_REMOVE, learner);
    learner.wants_vote = true;
    log_change(&c, BW_MEMBER_ADD, learner);
    assert_int_equal(promotable(&c), BW_NODE_NONE); /* it has never started */
    assert_int_equal(judge(&c, BW_MEMBER_PROMOTE, 4), BW_ESTALE);
    log_change(&c, BW_MEMBER_UPDATE, member(4, "d"));
    assert_int_equal(promotable(&c), 4);
    net_crash(c.net, 4);
    net_run(c.net, 200 * BW_MS);
    assert_int_equal(promotable(&c), BW_NODE_NONE); /* it fell behind */
    log_change(&c, BW_MEMBER_REMOVE, learner);
    assert_int_equal(judge(&c, BW_MEMBER_PROMOTE, 4), BW_ESTALE); /* Raft knows it, the list not */
    net_free(c.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(voters_are_removed_while_a_quorum_remains),
        cmocka_unit_test(a_change_under_way_blocks_all_but_updates),
        cmocka_unit_test(a_new_member_gets_an_id_that_was_never_used),
        cmocka_unit_test(a_written_change_is_returned_with_its_id),
        cmocka_unit_test(a_member_does_not_fall_below_the_level),
        cmocka_unit_test(a_learner_is_promoted_when_it_wants_to_vote_has_started_and_caught_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
