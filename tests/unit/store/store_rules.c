/* The embedded store's rules over one row, and the names of its files: no database, no clock. */
#include "store/sqlite/files.h"
#include "store/sqlite/rules.h"
#include "unit/unit.h"

#include <stdio.h>

static const struct bw_sqlite_place here = {.boot = "boot-1", .spaces = "pid:[1]"};
static const struct bw_sqlite_place rebooted = {.boot = "boot-2", .spaces = "pid:[1]"};
static const struct bw_sqlite_place unknown = {.boot = "", .spaces = ""};
static const struct bw_sqlite_mark none;

static struct bw_store_request ask(const char *candidate, uint64_t id)
{
    return (struct bw_store_request){.id = id, .candidate = candidate, .ttl_ns = 10 * BW_SEC};
}

/* What the database does on every change. */
static struct bw_sqlite_verdict save(struct bw_sqlite_row *row, struct bw_sqlite_verdict verdict)
{
    row->id = 1;
    row->record.version += verdict.change != BW_SQLITE_SAME;
    return verdict;
}

static struct bw_sqlite_verdict take(struct bw_sqlite_row *row, const char *candidate, uint64_t id,
                                     const struct bw_sqlite_place *place)
{
    struct bw_store_request request = ask(candidate, id);
    request.steal = row->record.held ? row->record.version : 0;
    return save(row, bw_sqlite_acquire(row, &request, place, &none, 1000));
}

static void let_go(struct bw_sqlite_row *row, bool clean)
{
    struct bw_store_request request = ask(row->record.holder, 0);
    request.token = row->record.token;
    request.clean = clean;
    save(row, bw_sqlite_release(row, &request));
}

static void only_the_first_of_many_leaderships_needs_the_disk(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    unsigned syncs = 0;
    for (uint64_t i = 1; i <= 3 * BW_SQLITE_TOKENS_AHEAD; i++) {
        syncs += take(&row, "ada", i, &here).change == BW_SQLITE_SYNC;
        assert_int_equal(row.record.token, i);
        assert_true(row.record.token <= row.reserved);
        let_go(&row, true);
    }
    assert_int_equal(syncs, 3);
}

static void after_a_reboot_tokens_start_behind_all_that_was_promised(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    bw_token promised = row.reserved;
    struct bw_sqlite_verdict verdict = take(&row, "ben", 2, &rebooted);
    assert_int_equal(verdict.change, BW_SQLITE_SYNC);
    assert_int_equal(row.record.token, promised + 1);
}

static void in_an_unknown_boot_every_leadership_is_synced(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    for (uint64_t i = 1; i < 5; i++)
        assert_int_equal(take(&row, "ada", i, &unknown).change, BW_SQLITE_SYNC);
}

static void a_mark_keeps_tokens_growing_in_a_database_put_back_from_a_copy(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_request request = ask("ada", 1);
    struct bw_sqlite_mark mark = {.token = 500};
    bw_sqlite_acquire(&row, &request, &here, &mark, 0);
    assert_int_equal(row.record.token, 501);
    assert_true(row.reserved >= 501);
}

static void only_the_record_that_was_seen_is_stolen(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    struct bw_store_request request = ask("ben", 2);
    request.steal = row.record.version + 1;
    assert_int_equal(bw_sqlite_acquire(&row, &request, &here, &none, 0).outcome,
                     BW_OUTCOME_REFUSED);
    request.steal = row.record.version;
    request.steal_request = row.record.request + 1; /* another acquisition, in another store */
    assert_int_equal(bw_sqlite_acquire(&row, &request, &here, &none, 0).outcome,
                     BW_OUTCOME_REFUSED);
    request.steal_request = row.record.request;
    assert_int_equal(bw_sqlite_acquire(&row, &request, &here, &none, 0).outcome, BW_OUTCOME_DONE);
}

static void every_lost_leader_is_owed_for_until_all_are_settled(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    take(&row, "ben", 2, &here);
    take(&row, "cleo", 3, &here);
    assert_string_equal(row.record.owed, "ada\t\nben\t\n");
    let_go(&row, true);
    take(&row, "dora", 4, &here);
    assert_string_equal(row.record.owed, "ada\t\nben\t\n");
    struct bw_store_request renewal = ask("dora", 5);
    renewal.token = row.record.token;
    renewal.settled = true;
    bw_sqlite_renew(&row, &renewal, 0);
    assert_string_equal(row.record.owed, "");
}

static void a_request_asked_twice_is_one_leadership(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 7, &here);
    struct bw_store_request request = ask("ada", 7);
    struct bw_sqlite_verdict again = bw_sqlite_acquire(&row, &request, &here, &none, 0);
    assert_int_equal(again.outcome, BW_OUTCOME_DONE);
    assert_int_equal(again.change, BW_SQLITE_SAME);
    assert_int_equal(row.record.token, 1);
}

static void a_guardians_mark_releases_its_own_token_only(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    struct bw_sqlite_mark old = {.token = 0, .released = true}, held = {.token = 1};
    struct bw_sqlite_mark released = {.token = 1, .released = true};
    assert_false(bw_sqlite_fold(&row, &old));
    assert_false(bw_sqlite_fold(&row, &held));
    assert_true(bw_sqlite_fold(&row, &released));
    assert_false(row.record.held);
    assert_false(bw_sqlite_fold(&row, &released));
    struct bw_store_request renewal = ask("ada", 2);
    renewal.token = 1;
    assert_int_equal(bw_sqlite_renew(&row, &renewal, 0).outcome, BW_OUTCOME_REFUSED);
}

static void a_free_lock_proves_a_death_only_in_the_holders_own_place(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_record seen;
    take(&row, "ada", 1, &here);
    bw_sqlite_present(&row, &here, true, 1000, &seen);
    assert_true(seen.proved_dead);
    bw_sqlite_present(&row, &here, false, 1000, &seen);
    assert_false(seen.proved_dead);
    bw_sqlite_present(&row, &rebooted, true, 1000, &seen);
    assert_false(seen.proved_dead);
    bw_sqlite_present(&row, &unknown, true, 1000, &seen);
    assert_false(seen.proved_dead);
    row.place = unknown; /* two that know nothing are not thereby the same */
    bw_sqlite_present(&row, &unknown, true, 1000, &seen);
    assert_false(seen.proved_dead);
}

static void free_lock_proves_nothing_when_the_work_cannot_be_ended_by_name(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_record seen;
    take(&row, "ada", 1, &here);
    snprintf(row.record.containment, sizeof row.record.containment, "subreaper:7:1:2@here");
    bw_sqlite_present(&row, &here, true, 1000, &seen);
    assert_false(seen.proved_dead);
    snprintf(row.record.containment, sizeof row.record.containment, "cgroup:/a@here");
    bw_sqlite_present(&row, &here, true, 1000, &seen);
    assert_true(seen.proved_dead);
}

static void what_is_left_of_a_lease_is_told_by_the_same_clock_only(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_record seen;
    take(&row, "ada", 1, &here); /* at 1000 */
    bw_sqlite_present(&row, &here, false, 1000 + 4 * BW_SEC, &seen);
    assert_int_equal(seen.left_ns, 6 * BW_SEC);
    bw_sqlite_present(&row, &here, false, 1000 + 10 * BW_SEC, &seen);
    assert_int_equal(seen.left_ns, 0);
    bw_sqlite_present(&row, &rebooted, false, 0, &seen);
    assert_int_equal(seen.left_ns, BW_TIME_NEVER);
}

static void debts_are_listed_once_and_the_oldest_make_room(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    char id[BW_CANDIDATE_ID_MAX + 1];
    take(&row, "ada", 1, &here);
    take(&row, "ada", 2, &here);
    take(&row, "ada", 3, &here);
    assert_string_equal(row.record.owed, "ada\t\n");
    for (unsigned i = 0; i < 60; i++) {
        snprintf(id, sizeof id, "a-candidate-with-a-rather-long-name-%u", i);
        take(&row, id, 10 + i, &here);
        assert_true(strlen(row.record.owed) <= BW_OWED_MAX);
    }
    assert_memory_equal(row.record.owed, "*\t\n", 3); /* there were more */
    assert_non_null(strstr(row.record.owed, "\na-candidate-with-a-rather-long-name-58\t\n"));
    assert_null(strstr(row.record.owed, "-59\t")); /* holds now */
}

static void damaged_debts_do_no_harm(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    memset(row.record.owed, 'x', BW_OWED_MAX); /* no line end anywhere */
    take(&row, "ben", 2, &here);
    assert_string_equal(row.record.owed, "*\t\nada\t\n");
}

static void every_election_has_a_file_name_that_leads_back(void **state)
{
    (void)state;
    char file[BW_SQLITE_FILE_MAX + 1], back[BW_ELECTION_NAME_MAX + 1];
    char longest[BW_ELECTION_NAME_MAX + 1] = "";
    memset(longest, '%', BW_ELECTION_NAME_MAX);
    const char *names[] = {"nightly", ".", "..", "a b", "%41", "\xc3\xa4", "x41", "@bell", longest};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bw_sqlite_file_name(names[i], file);
        assert_true(strlen(file) <= BW_SQLITE_FILE_MAX);
        assert_null(strchr(file, '/'));
        assert_true(file[0] != '.' && file[0] != '@');
        assert_true(bw_sqlite_file_election(file, back));
        assert_string_equal(back, names[i]);
    }
    const char *strangers[] = {"@bell", "",  "e-", "e-%", "e-%4",
                               "e-%zz", "x", "x4", "x4z", "e-%00"};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
        assert_false(bw_sqlite_file_election(strangers[i], back));
}

static void file_systems_of_several_hosts_are_known(void **state)
{
    (void)state;
    assert_string_equal(bw_sqlite_shared_fs(0x6969, "nfs4"), "NFS");
    assert_string_equal(bw_sqlite_shared_fs(0xfffffffffe534d42u, "smb3"),
                        "SMB"); /* sign-extended */
    assert_string_equal(bw_sqlite_shared_fs(0x65735546, "fuse.sshfs"), "FUSE");
    assert_string_equal(bw_sqlite_shared_fs(0x65735546, "virtiofs"), "FUSE");
    assert_null(bw_sqlite_shared_fs(0x65735546, "fuseblk"));
    assert_null(bw_sqlite_shared_fs(0xef53, "ext4"));
    assert_null(bw_sqlite_shared_fs(0x01021994, "tmpfs"));
    assert_null(bw_sqlite_shared_fs(0x794c7630, "overlay"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_of_many_leaderships_needs_the_disk),
        cmocka_unit_test(after_a_reboot_tokens_start_behind_all_that_was_promised),
        cmocka_unit_test(in_an_unknown_boot_every_leadership_is_synced),
        cmocka_unit_test(a_mark_keeps_tokens_growing_in_a_database_put_back_from_a_copy),
        cmocka_unit_test(only_the_record_that_was_seen_is_stolen),
        cmocka_unit_test(every_lost_leader_is_owed_for_until_all_are_settled),
        cmocka_unit_test(a_request_asked_twice_is_one_leadership),
        cmocka_unit_test(a_guardians_mark_releases_its_own_token_only),
        cmocka_unit_test(a_free_lock_proves_a_death_only_in_the_holders_own_place),
        cmocka_unit_test(free_lock_proves_nothing_when_the_work_cannot_be_ended_by_name),
        cmocka_unit_test(what_is_left_of_a_lease_is_told_by_the_same_clock_only),
        cmocka_unit_test(debts_are_listed_once_and_the_oldest_make_room),
        cmocka_unit_test(damaged_debts_do_no_harm),
        cmocka_unit_test(every_election_has_a_file_name_that_leads_back),
        cmocka_unit_test(file_systems_of_several_hosts_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
