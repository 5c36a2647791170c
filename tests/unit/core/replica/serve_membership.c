/* Decisions of a node about the members: which nodes may connect or join, which directory is an old
 * copy, and which version the cluster relies on. The storms run the same code under all faults
 * (sim/stores/registry_members.c). */
#include "core/replica/membership.h"

#include "core/base/error.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

struct world {
    struct bw_membership members;
    void *memory;
    struct bw_raft *raft; /* node 2's Raft, with its log */
};

static struct bw_replica_member member(bw_node id, const char *name)
{
    struct bw_replica_member out = {.id = id, .port = (uint16_t)id, .host = "10.0.0.1"};
    snprintf(out.name, sizeof out.name, "%s", name);
    return out;
}

static void begin(struct world *w, bw_node self, const struct bw_raft_change *changes,
                  uint32_t count)
{
    struct bw_replica_member first[] = {member(1, "a"), member(2, "b"), member(3, "c")};
    struct bw_member founders[] = {{.id = 1}, {.id = 2}, {.id = 3}};
    struct bw_term_run run = {.term = 1, .count = 9};
    struct bw_raft_saved saved = {
        .runs = &run, .runs_count = 1, .changes = changes, .changes_count = count};
    struct bw_elector_config config = {
        .self = self, .members = founders, .count = 3, .cap = 8, .saved = &saved};
    bw_elector_defaults(&config, BW_MS, 100 * BW_MS);
    w->memory = aligned_alloc(16, (bw_elect_raft.bytes(&config) + 15) & ~(size_t)15);
    assert_int_equal(bw_elect_raft.init(w->memory, &config), 0);
    w->raft = w->memory;
    bw_membership_init(&w->members, self, self > 3, first, 3);
    bw_membership_begin(&w->members, 1);
}

static void log_change(struct world *w, enum bw_member_op op, struct bw_replica_member which,
                       bool applied)
{
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    struct bw_member_change change = {.op = op, .member = which}, out;
    size_t length = bw_change_encode(&change, bytes);
    assert_true(bw_membership_learn(&w->members, bytes, length));
    if (applied)
        assert_true(bw_membership_apply(&w->members, bytes, length, &out));
}

static void removed_node_is_refused_once_removal_is_committed(void **state)
{
    (void)state;
    struct world w;
    struct bw_raft_change gone[] = {{.index = 4, .op = BW_CHANGE_REMOVE, .node = 3}};
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 3), BW_MESH_OK);
    free(w.memory);
    begin(&w, 2, gone, 1); /* not committed: node 3 may still be needed */
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 3), BW_MESH_OK);
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    assert_int_equal(bw_membership_nodes(w.raft, ids), 3);
    log_change(&w, BW_MEMBER_ADD, member(5, ""), true);
    log_change(&w, BW_MEMBER_REMOVE, member(5, ""), true);
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 5), BW_MESH_REMOVED);
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 6), BW_MESH_OK);
    free(w.memory);
}

static void node_connects_back_to_unknown_new_members(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, NULL, 0);
    assert_true(bw_membership_connects_back(&w.members, w.raft, 4));
    assert_false(bw_membership_connects_back(&w.members, w.raft, 3));
    log_change(&w, BW_MEMBER_ADD, member(4, ""), true);
    assert_false(bw_membership_connects_back(&w.members, w.raft, 4));
    free(w.memory);
    begin(&w, 4, NULL, 0); /* a newcomer connects back to every node */
    assert_true(bw_membership_is_newcomer(&w.members, w.raft));
    assert_true(bw_membership_connects_back(&w.members, w.raft, 1));
    free(w.memory);
}

static void node_connects_to_logged_members_committed_or_not(void **state)
{
    (void)state;
    struct world w;
    struct bw_raft_change added[] = {{.index = 4, .op = BW_CHANGE_ADD_LEARNER, .node = 4}};
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    begin(&w, 2, added, 1);
    assert_int_equal(bw_membership_nodes(w.raft, ids), 4);
    assert_int_equal(ids[3], 4);
    free(w.memory);
}

static void only_a_member_that_never_started_may_join_empty(void **state)
{
    (void)state;
    struct world w;
    bw_node id = BW_NODE_NONE;
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 3, &id), BW_MESH_STARTED);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 4, &id), BW_MESH_UNKNOWN);
    log_change(&w, BW_MEMBER_ADD, member(4, ""), false); /* not committed */
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 4, &id), BW_MESH_UNKNOWN);
    log_change(&w, BW_MEMBER_ADD, member(5, ""), true);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 5, &id), BW_MESH_OK);
    assert_int_equal(id, 5);
    log_change(&w, BW_MEMBER_UPDATE, member(5, "e"), true);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 5, &id), BW_MESH_STARTED);
    free(w.memory);
}

/* Fault 25. */
static void directory_of_an_earlier_incarnation_is_detected(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member third = member(3, "c");
    begin(&w, 2, NULL, 0);
    assert_false(bw_membership_is_stale(&w.members, 3, 1, false)); /* nothing published */
    third.starts = 4;
    log_change(&w, BW_MEMBER_UPDATE, third, true);
    assert_false(bw_membership_is_stale(&w.members, 3, 5, false)); /* the next incarnation */
    assert_false(bw_membership_is_stale(&w.members, 3, 4, true));  /* the incarnation that published
                                                                    * the number */
    assert_true(bw_membership_is_stale(&w.members, 3, 4, false));  /* the same number from another
                                                                    * copy */
    assert_true(bw_membership_is_stale(&w.members, 3, 2, true));
    third.starts = 6; /* not committed: still published by the node itself */
    log_change(&w, BW_MEMBER_UPDATE, third, false);
    assert_true(bw_membership_is_stale(&w.members, 3, 5, false));
    third.starts = 0; /* an update without an incarnation */
    log_change(&w, BW_MEMBER_UPDATE, third, true);
    assert_true(bw_membership_is_stale(&w.members, 3, 3, false));
    free(w.memory);
}

/* A number that a node only intends to publish does not count as published. Otherwise a restored
 * copy would pass for the running incarnation. */
static void incarnation_is_published_after_leader_answered_and_number_is_durable(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_incarnation_step(&w.members), BW_INCARNATION_READ_FROM_LEADER);
    w.members.kept = true;
    assert_int_equal(bw_membership_incarnation_step(&w.members), BW_INCARNATION_READ_FROM_LEADER);
    bw_membership_begin(&w.members, 2);
    w.members.heard = true;
    assert_int_equal(bw_membership_incarnation_step(&w.members), BW_INCARNATION_STORE);
    w.members.kept = true;
    assert_int_equal(bw_membership_incarnation_step(&w.members), BW_INCARNATION_PUBLISH);
    bw_membership_begin(&w.members, 3);
    assert_int_equal(bw_membership_incarnation_step(&w.members), BW_INCARNATION_READ_FROM_LEADER);
    w.members.ours.highest = 1; /* an older program */
    assert_int_equal(bw_membership_incarnation_step(&w.members), BW_INCARNATION_PUBLISH);
    free(w.memory);
}

/* A copy that restarts again and again must not overtake the incarnation it was copied from. */
static void start_without_publication_does_not_count_as_incarnation(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member self = member(2, "b");
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_last_incarnation(&w.members, 0, 0), 0);
    assert_int_equal(bw_membership_last_incarnation(&w.members, 0, 7), 7); /* directory of an older
                                                                     * version */
    assert_int_equal(bw_membership_last_incarnation(&w.members, 3, 7), 3);
    self.starts = 4; /* an older version ran in between */
    log_change(&w, BW_MEMBER_UPDATE, self, true);
    assert_int_equal(bw_membership_last_incarnation(&w.members, 3, 7), 4);
    self.starts = 5;
    log_change(&w, BW_MEMBER_UPDATE, self, false);
    assert_int_equal(bw_membership_last_incarnation(&w.members, 3, 7), 5);
    free(w.memory);
}

static void node_publishes_each_incarnation_once(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member own = {.name = "b"};
    struct bw_member_change change;
    begin(&w, 2, NULL, 0);
    assert_true(bw_membership_publish(&w.members, &own, &change));
    assert_int_equal(change.member.id, 2);
    assert_int_equal(change.member.starts, 1);
    assert_int_equal(change.member.version, BW_MESH_VERSION);
    log_change(&w, BW_MEMBER_UPDATE, change.member, true);
    assert_false(bw_membership_publish(&w.members, &own, &change));
    bw_membership_begin(&w.members, 2);
    assert_true(bw_membership_publish(&w.members, &own, &change));
    w.members.ours.highest = 1; /* an older program */
    assert_false(bw_membership_publish(&w.members, &own, &change));
    free(w.memory);
}

static void publish_version(struct world *w, bw_node id, const char *name, uint8_t version)
{
    struct bw_replica_member own = member(id, name);
    own.version = version;
    log_change(w, BW_MEMBER_UPDATE, own, true);
}

static void level_is_the_lowest_member_version_and_never_falls(void **state)
{
    (void)state;
    struct world w;
    static unsigned char bytes[BW_MEMBER_LIST_BYTES_MAX];
    struct bw_member_list again;
    begin(&w, 2, NULL, 0);
    assert_int_equal(w.members.applied.level, 1);
    publish_version(&w, 1, "a", 3);
    publish_version(&w, 2, "b", 2);
    assert_int_equal(w.members.applied.level, 1); /* one member never published its version */
    publish_version(&w, 3, "c", 2);
    assert_int_equal(w.members.applied.level, 2);
    log_change(&w, BW_MEMBER_ADD, member(4, ""), true); /* the handshake has already checked its
                                                         * version */
    assert_int_equal(w.members.applied.level, 2);
    size_t length = bw_member_list_encode(&w.members.applied, bytes);
    assert_int_equal(bw_member_list_decode(&again, bytes, length), 0);
    assert_int_equal(again.level, 2);
    assert_int_equal(again.at[0].version, 3);
    free(w.memory);
}

static void versions_without_overlap_are_rejected(void **state)
{
    (void)state;
    struct bw_versions ours = {.highest = 3, .lowest = 2};
    struct bw_versions same = {3, 2}, newer = {5, 4}, older = {1, 1}, wider = {9, 1}, next = {4, 3};
    assert_int_equal(bw_versions_judge(&ours, &same, 1), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &wider, 1), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &next, 1), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &newer, 1), BW_MESH_TOO_NEW);
    assert_int_equal(bw_versions_judge(&ours, &older, 1), BW_MESH_TOO_OLD);
    struct bw_versions two = {2, 1}; /* a shared version, but the cluster relies on 3 */
    assert_int_equal(bw_versions_judge(&ours, &two, 2), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &two, 3), BW_MESH_TOO_OLD);
}

static void truncated_changes_are_forgotten(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, NULL, 0);
    log_change(&w, BW_MEMBER_ADD, member(4, ""), false);
    assert_non_null(bw_member_list_find(&w.members.member_list, 4));
    bw_membership_rewind(&w.members);
    assert_null(bw_member_list_find(&w.members.member_list, 4));
    free(w.memory);
}

static void other_entries_change_no_members(void **state)
{
    (void)state;
    struct world w;
    unsigned char bytes[BW_CHANGE_BYTES_MAX];
    struct bw_member_change add_4 = {.op = BW_MEMBER_ADD, .member = member(4, "d")}, out;
    size_t length = bw_change_encode(&add_4, bytes);
    begin(&w, 2, NULL, 0);
    assert_false(bw_membership_learn(&w.members, bytes, 0)); /* an entry of Raft's own */
    assert_false(bw_membership_apply(&w.members, bytes, 0, &out));
    assert_false(bw_membership_learn(&w.members, bytes, length - 1));
    assert_false(bw_membership_apply(&w.members, bytes, length - 1, &out));
    bytes[0] = 1; /* an entry of the registry */
    assert_false(bw_membership_learn(&w.members, bytes, length));
    assert_false(bw_membership_apply(&w.members, bytes, length, &out));
    assert_null(bw_member_list_find(&w.members.member_list, 4));
    assert_null(bw_member_list_find(&w.members.applied, 4));
    free(w.memory);
}

static void a_newcomer_that_its_log_names_is_none(void **state)
{
    (void)state;
    struct world w;
    struct bw_raft_change added[] = {{.index = 4, .op = BW_CHANGE_ADD_LEARNER, .node = 4}};
    begin(&w, 4, added, 1);
    assert_false(bw_membership_is_newcomer(&w.members, w.raft));
    assert_false(bw_membership_connects_back(&w.members, w.raft, 3));
    free(w.memory);
    begin(&w, 2, added, 1); /* node 4 is in the log, but not applied */
    assert_false(bw_membership_connects_back(&w.members, w.raft, 4));
    assert_true(bw_membership_connects_back(&w.members, w.raft, 5));
    free(w.memory);
    begin(&w, 4, NULL, 0);
    log_change(&w, BW_MEMBER_ADD, member(5, ""), true);
    log_change(&w, BW_MEMBER_REMOVE, member(5, ""), true);
    /* its log is empty, so it cannot tell a removed node from a member */
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 5), BW_MESH_OK);
    free(w.memory);
}

static void incarnations_end_at_the_greatest_number(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member third = member(3, "c");
    begin(&w, 2, NULL, 0);
    bw_membership_begin(&w.members, UINT16_MAX + 5);
    assert_int_equal(w.members.starts, UINT16_MAX);
    third.starts = UINT16_MAX; /* it cannot count further: nothing is judged */
    log_change(&w, BW_MEMBER_UPDATE, third, true);
    assert_false(bw_membership_is_stale(&w.members, 3, 5, false));
    assert_false(bw_membership_is_stale(&w.members, 1, 0, false)); /* nothing was published */
    assert_false(bw_membership_is_stale(&w.members, 9, 0, false)); /* unknown */
    free(w.memory);
}

static void node_publishes_every_change_of_its_name_and_addresses(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member own = member(2, "b");
    struct bw_member_change change;
    begin(&w, 2, NULL, 0);
    own.version = BW_MESH_VERSION;
    own.starts = 1;
    log_change(&w, BW_MEMBER_UPDATE, own, true);
    const struct bw_replica_member same = own;
    assert_false(bw_membership_publish(&w.members, &own, &change));
    snprintf(own.name, sizeof own.name, "other");
    assert_true(bw_membership_publish(&w.members, &own, &change));
    own = same;
    snprintf(own.client, sizeof own.client, "http://x:1");
    assert_true(bw_membership_publish(&w.members, &own, &change));
    own = same;
    snprintf(own.host, sizeof own.host, "10.0.0.9");
    assert_true(bw_membership_publish(&w.members, &own, &change));
    own = same;
    own.port++;
    assert_true(bw_membership_publish(&w.members, &own, &change));
    own.host[0] = 0; /* an unknown address is not published */
    assert_false(bw_membership_publish(&w.members, &own, &change));
    w.members.ours.highest = BW_MESH_VERSION - 1; /* another program */
    assert_true(bw_membership_publish(&w.members, &same, &change));
    w.members.ours.highest = 1; /* one that knows no incarnations */
    own = same;
    snprintf(own.name, sizeof own.name, "other");
    assert_true(bw_membership_publish(&w.members, &own, &change));
    assert_int_equal(change.member.version, 0);
    assert_int_equal(change.member.starts, 0);
    free(w.memory);
    begin(&w, 4, NULL, 0); /* not a member yet */
    assert_false(bw_membership_publish(&w.members, &same, &change));
    free(w.memory);
}

static void only_updates_do_not_involve_raft(void **state)
{
    (void)state;
    assert_int_equal(bw_membership_op(BW_MEMBER_ADD), BW_CHANGE_ADD_LEARNER);
    assert_int_equal(bw_membership_op(BW_MEMBER_PROMOTE), BW_CHANGE_PROMOTE);
    assert_int_equal(bw_membership_op(BW_MEMBER_REMOVE), BW_CHANGE_REMOVE);
    assert_int_equal(bw_membership_op(BW_MEMBER_UPDATE), BW_CHANGE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removed_node_is_refused_once_removal_is_committed),
        cmocka_unit_test(node_connects_back_to_unknown_new_members),
        cmocka_unit_test(node_connects_to_logged_members_committed_or_not),
        cmocka_unit_test(only_a_member_that_never_started_may_join_empty),
        cmocka_unit_test(directory_of_an_earlier_incarnation_is_detected),
        cmocka_unit_test(incarnation_is_published_after_leader_answered_and_number_is_durable),
        cmocka_unit_test(start_without_publication_does_not_count_as_incarnation),
        cmocka_unit_test(node_publishes_each_incarnation_once),
        cmocka_unit_test(level_is_the_lowest_member_version_and_never_falls),
        cmocka_unit_test(versions_without_overlap_are_rejected),
        cmocka_unit_test(truncated_changes_are_forgotten),
        cmocka_unit_test(other_entries_change_no_members),
        cmocka_unit_test(a_newcomer_that_its_log_names_is_none),
        cmocka_unit_test(incarnations_end_at_the_greatest_number),
        cmocka_unit_test(node_publishes_every_change_of_its_name_and_addresses),
        cmocka_unit_test(only_updates_do_not_involve_raft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
