/* What a node decides about the members: who is heard, who may join, whose directory is an old
 * copy, which version the cluster has come to rely on. Storms run the same objects under all faults
 * (sim/stores/registry_members.c). */
#include "core/replica/membership.h"

#include "core/base/error.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

struct world {
    struct bw_membership members;
    void *memory;
    struct bw_raft *raft; /* of node 2, as its log stands */
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

static void who_was_removed_is_told_and_not_heard(void **state)
{
    (void)state;
    struct world w;
    struct bw_raft_change gone[] = {{.index = 4, .op = BW_CHANGE_REMOVE, .node = 3}};
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 3), BW_MESH_OK);
    free(w.memory);
    begin(&w, 2, gone, 1); /* not committed: it may still be needed */
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 3), BW_MESH_OK);
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    assert_int_equal(bw_membership_nodes(w.raft, ids), 3);
    log_change(&w, BW_MEMBER_ADD, member(5, ""), true);
    log_change(&w, BW_MEMBER_REMOVE, member(5, ""), true);
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 5), BW_MESH_REMOVED);
    assert_int_equal(bw_membership_judge(&w.members, w.raft, 6), BW_MESH_OK);
    free(w.memory);
}

static void who_was_added_meanwhile_is_answered(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, NULL, 0);
    assert_true(bw_membership_connects_back(&w.members, w.raft, 4));
    assert_false(bw_membership_connects_back(&w.members, w.raft, 3));
    log_change(&w, BW_MEMBER_ADD, member(4, ""), true);
    assert_false(bw_membership_connects_back(&w.members, w.raft, 4));
    free(w.memory);
    begin(&w, 4, NULL, 0); /* a newcomer answers everybody */
    assert_true(bw_membership_is_newcomer(&w.members, w.raft));
    assert_true(bw_membership_connects_back(&w.members, w.raft, 1));
    free(w.memory);
}

static void a_node_connects_to_whom_its_log_names_committed_or_not(void **state)
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

static void only_a_number_that_never_was_used_begins_with_nothing(void **state)
{
    (void)state;
    struct world w;
    bw_node id = BW_NODE_NONE;
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 3, &id), BW_MESH_STARTED);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 4, &id), BW_MESH_UNKNOWN);
    log_change(&w, BW_MEMBER_ADD, member(4, ""), false); /* it may not come to be */
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 4, &id), BW_MESH_UNKNOWN);
    log_change(&w, BW_MEMBER_ADD, member(5, ""), true);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 5, &id), BW_MESH_OK);
    assert_int_equal(id, 5);
    log_change(&w, BW_MEMBER_UPDATE, member(5, "e"), true);
    assert_int_equal(bw_membership_joins(&w.members, "10.0.0.1", 5, &id), BW_MESH_STARTED);
    free(w.memory);
}

/* Fault 25. */
static void a_directory_of_an_earlier_life_is_known(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member third = member(3, "c");
    begin(&w, 2, NULL, 0);
    assert_false(bw_membership_is_stale(&w.members, 3, 1, false)); /* it never said */
    third.starts = 4;
    log_change(&w, BW_MEMBER_UPDATE, third, true);
    assert_false(bw_membership_is_stale(&w.members, 3, 5, false)); /* the next life */
    assert_false(bw_membership_is_stale(&w.members, 3, 4, true));  /* the life that said so */
    assert_true(bw_membership_is_stale(&w.members, 3, 4, false));  /* the same number again */
    assert_true(bw_membership_is_stale(&w.members, 3, 2, true));
    third.starts = 6; /* not committed: its own word all the same */
    log_change(&w, BW_MEMBER_UPDATE, third, false);
    assert_true(bw_membership_is_stale(&w.members, 3, 5, false));
    third.starts = 0; /* an update that does not speak of it */
    log_change(&w, BW_MEMBER_UPDATE, third, true);
    assert_true(bw_membership_is_stale(&w.members, 3, 3, false));
    free(w.memory);
}

/* What it only wants to say is not what it said: it would pass for the life that is there. */
static void a_life_is_told_of_when_it_was_heard_and_is_durable(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_life(&w.members), BW_LIFE_ASK);
    w.members.kept = true;
    assert_int_equal(bw_membership_life(&w.members), BW_LIFE_ASK);
    bw_membership_begin(&w.members, 2);
    w.members.heard = true;
    assert_int_equal(bw_membership_life(&w.members), BW_LIFE_KEEP);
    w.members.kept = true;
    assert_int_equal(bw_membership_life(&w.members), BW_LIFE_SAY);
    bw_membership_begin(&w.members, 3);
    assert_int_equal(bw_membership_life(&w.members), BW_LIFE_ASK);
    w.members.ours.highest = 1; /* a program of before */
    assert_int_equal(bw_membership_life(&w.members), BW_LIFE_SAY);
    free(w.memory);
}

/* A copy that is started again and again must not overtake the life that it is a copy of. */
static void a_start_that_told_nobody_is_no_life(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member self = member(2, "b");
    begin(&w, 2, NULL, 0);
    assert_int_equal(bw_membership_last_life(&w.members, 0, 0), 0);
    assert_int_equal(bw_membership_last_life(&w.members, 0, 7), 7); /* of a version of before */
    assert_int_equal(bw_membership_last_life(&w.members, 3, 7), 3);
    self.starts = 4; /* such a version ran in between */
    log_change(&w, BW_MEMBER_UPDATE, self, true);
    assert_int_equal(bw_membership_last_life(&w.members, 3, 7), 4);
    self.starts = 5;
    log_change(&w, BW_MEMBER_UPDATE, self, false);
    assert_int_equal(bw_membership_last_life(&w.members, 3, 7), 5);
    free(w.memory);
}

static void a_node_says_once_in_each_life_that_it_started(void **state)
{
    (void)state;
    struct world w;
    struct bw_replica_member said = {.name = "b"};
    struct bw_member_change change;
    begin(&w, 2, NULL, 0);
    assert_true(bw_membership_publish(&w.members, &said, &change));
    assert_int_equal(change.member.id, 2);
    assert_int_equal(change.member.starts, 1);
    assert_int_equal(change.member.version, BW_MESH_VERSION);
    log_change(&w, BW_MEMBER_UPDATE, change.member, true);
    assert_false(bw_membership_publish(&w.members, &said, &change));
    bw_membership_begin(&w.members, 2);
    assert_true(bw_membership_publish(&w.members, &said, &change));
    w.members.ours.highest = 1; /* a program of before */
    assert_false(bw_membership_publish(&w.members, &said, &change));
    free(w.memory);
}

static void speaks(struct world *w, bw_node id, const char *name, uint8_t version)
{
    struct bw_replica_member said = member(id, name);
    said.version = version;
    log_change(w, BW_MEMBER_UPDATE, said, true);
}

static void the_level_is_what_all_members_know_and_never_falls(void **state)
{
    (void)state;
    struct world w;
    static unsigned char bytes[BW_ROSTER_BYTES_MAX];
    struct bw_roster again;
    begin(&w, 2, NULL, 0);
    assert_int_equal(w.members.applied.level, 1);
    speaks(&w, 1, "a", 3);
    speaks(&w, 2, "b", 2);
    assert_int_equal(w.members.applied.level, 1); /* one of them never said */
    speaks(&w, 3, "c", 2);
    assert_int_equal(w.members.applied.level, 2);
    log_change(&w, BW_MEMBER_ADD, member(4, ""), true); /* it was told at the door */
    assert_int_equal(w.members.applied.level, 2);
    size_t length = bw_roster_encode(&w.members.applied, bytes);
    assert_int_equal(bw_roster_decode(&again, bytes, length), 0);
    assert_int_equal(again.level, 2);
    assert_int_equal(again.at[0].version, 3);
    free(w.memory);
}

static void versions_that_do_not_meet_part_at_the_first_word(void **state)
{
    (void)state;
    struct bw_versions ours = {.highest = 3, .lowest = 2};
    struct bw_versions same = {3, 2}, newer = {5, 4}, older = {1, 1}, wider = {9, 1}, next = {4, 3};
    assert_int_equal(bw_versions_judge(&ours, &same, 1), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &wider, 1), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &next, 1), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &newer, 1), BW_MESH_TOO_NEW);
    assert_int_equal(bw_versions_judge(&ours, &older, 1), BW_MESH_TOO_OLD);
    struct bw_versions two = {2, 1}; /* known, but the cluster relies on 3 */
    assert_int_equal(bw_versions_judge(&ours, &two, 2), BW_MESH_OK);
    assert_int_equal(bw_versions_judge(&ours, &two, 3), BW_MESH_TOO_OLD);
}

static void what_was_cut_from_the_log_is_unlearnt(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 2, NULL, 0);
    log_change(&w, BW_MEMBER_ADD, member(4, ""), false);
    assert_non_null(bw_roster_find(&w.members.roster, 4));
    bw_membership_rewind(&w.members);
    assert_null(bw_roster_find(&w.members.roster, 4));
    free(w.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_removed_is_told_and_not_heard),
        cmocka_unit_test(who_was_added_meanwhile_is_answered),
        cmocka_unit_test(a_node_connects_to_whom_its_log_names_committed_or_not),
        cmocka_unit_test(only_a_number_that_never_was_used_begins_with_nothing),
        cmocka_unit_test(a_directory_of_an_earlier_life_is_known),
        cmocka_unit_test(a_life_is_told_of_when_it_was_heard_and_is_durable),
        cmocka_unit_test(a_start_that_told_nobody_is_no_life),
        cmocka_unit_test(a_node_says_once_in_each_life_that_it_started),
        cmocka_unit_test(the_level_is_what_all_members_know_and_never_falls),
        cmocka_unit_test(versions_that_do_not_meet_part_at_the_first_word),
        cmocka_unit_test(what_was_cut_from_the_log_is_unlearnt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
