/* The rules of the embedded store over one row, and the names of its files: no database, no
 * clock. */
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

/* Does what the database does on every change. */
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

static void release(struct bw_sqlite_row *row, bool clean)
{
    struct bw_store_request request = ask(row->record.holder, 0);
    request.token = row->record.token;
    request.clean = clean;
    save(row, bw_sqlite_release(row, &request));
}

static void token_reservation_is_synced_once_per_64_leaderships(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    unsigned syncs = 0;
    for (uint64_t i = 1; i <= 3 * BW_SQLITE_TOKENS_AHEAD; i++) {
        syncs += take(&row, "ada", i, &here).change == BW_SQLITE_SYNC;
        assert_int_equal(row.record.token, i);
        assert_true(row.record.token <= row.reserved);
        release(&row, true);
    }
    assert_int_equal(syncs, 3);
}

static void tokens_continue_after_reserved_ones_when_host_reboots(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    bw_token promised = row.reserved;
    struct bw_sqlite_verdict verdict = take(&row, "ben", 2, &rebooted);
    assert_int_equal(verdict.change, BW_SQLITE_SYNC);
    assert_int_equal(row.record.token, promised + 1);
}

static void every_leadership_is_synced_when_boot_is_unknown(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    for (uint64_t i = 1; i < 5; i++)
        assert_int_equal(take(&row, "ada", i, &unknown).change, BW_SQLITE_SYNC);
}

static void tokens_grow_when_database_is_restored_because_of_the_mark(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_request request = ask("ada", 1);
    struct bw_sqlite_mark mark = {.token = 500};
    bw_sqlite_acquire(&row, &request, &here, &mark, 0);
    assert_int_equal(row.record.token, 501);
    assert_true(row.reserved >= 501);
}

static void steal_is_refused_when_version_or_request_differs(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    struct bw_store_request request = ask("ben", 2);
    request.steal = row.record.version + 1;
    assert_int_equal(bw_sqlite_acquire(&row, &request, &here, &none, 0).outcome,
                     BW_OUTCOME_REFUSED);
    request.steal = row.record.version;
    /* another acquisition, in a store that was created again */
    request.steal_request = row.record.request + 1;
    assert_int_equal(bw_sqlite_acquire(&row, &request, &here, &none, 0).outcome,
                     BW_OUTCOME_REFUSED);
    request.steal_request = row.record.request;
    assert_int_equal(bw_sqlite_acquire(&row, &request, &here, &none, 0).outcome, BW_OUTCOME_DONE);
}

static void work_of_all_lost_leaders_is_unconfirmed_until_settled(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    take(&row, "ben", 2, &here);
    take(&row, "cleo", 3, &here);
    assert_string_equal(row.record.unconfirmed, "ada\t\nben\t\n");
    release(&row, true);
    take(&row, "dora", 4, &here);
    assert_string_equal(row.record.unconfirmed, "ada\t\nben\t\n");
    struct bw_store_request renewal = ask("dora", 5);
    renewal.token = row.record.token;
    renewal.settled = true;
    bw_sqlite_renew(&row, &renewal, 0);
    assert_string_equal(row.record.unconfirmed, "");
}

static void release_confirms_the_work_of_lost_leaders_when_settled(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_record seen;
    take(&row, "ada", 1, &here);
    take(&row, "ben", 2, &here);
    assert_string_equal(row.record.unconfirmed, "ada\t\n");
    struct bw_store_request end = ask("ben", 3);
    end.op = BW_STORE_RELEASE;
    end.token = row.record.token;
    end.clean = end.settled = true;
    bw_sqlite_release(&row, &end);
    assert_string_equal(row.record.unconfirmed, "");
    bw_sqlite_present(&row, &here, true, 0, &seen);
    assert_true(seen.clean);
}

static void repeated_acquire_gives_one_leadership(void **state)
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

static void guardians_mark_releases_only_its_own_token(void **state)
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

static void free_lock_proves_death_only_in_same_boot_and_namespaces(void **state)
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
    row.place = unknown; /* two unknown places are not the same place */
    bw_sqlite_present(&row, &unknown, true, 1000, &seen);
    assert_false(seen.proved_dead);
}

static void free_lock_proves_nothing_when_work_has_no_cgroup_or_pid_namespace(void **state)
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

static void remaining_lease_is_reported_only_by_the_same_clock(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    struct bw_store_record seen;
    take(&row, "ada", 1, &here); /* at time 1000 */
    bw_sqlite_present(&row, &here, false, 1000 + 4 * BW_SEC, &seen);
    assert_int_equal(seen.left_ns, 6 * BW_SEC);
    bw_sqlite_present(&row, &here, false, 1000 + 10 * BW_SEC, &seen);
    assert_int_equal(seen.left_ns, 0);
    bw_sqlite_present(&row, &rebooted, false, 0, &seen);
    assert_int_equal(seen.left_ns, BW_TIME_NEVER);
}

static void owed_lines_are_unique_and_oldest_are_dropped_when_full(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    char id[BW_CANDIDATE_ID_MAX + 1];
    take(&row, "ada", 1, &here);
    take(&row, "ada", 2, &here);
    take(&row, "ada", 3, &here);
    assert_string_equal(row.record.unconfirmed, "ada\t\n");
    for (unsigned i = 0; i < 60; i++) {
        snprintf(id, sizeof id, "a-candidate-with-a-rather-long-name-%u", i);
        take(&row, id, 10 + i, &here);
        assert_true(strlen(row.record.unconfirmed) <= BW_UNCONFIRMED_MAX);
    }
    assert_memory_equal(row.record.unconfirmed, "*\t\n", 3); /* older lines were dropped */
    assert_non_null(strstr(row.record.unconfirmed, "\na-candidate-with-a-rather-long-name-58\t\n"));
    assert_null(strstr(row.record.unconfirmed, "-59\t")); /* is the holder now */
}

static void owed_stays_bounded_when_its_content_is_damaged(void **state)
{
    (void)state;
    struct bw_sqlite_row row = {0};
    take(&row, "ada", 1, &here);
    memset(row.record.unconfirmed, 'x', BW_UNCONFIRMED_MAX); /* without any newline */
    take(&row, "ben", 2, &here);
    assert_string_equal(row.record.unconfirmed, "*\t\nada\t\n");
}

static void file_name_of_election_converts_back(void **state)
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
    const char *others[] = {"@bell", "", "e-", "e-%", "e-%4", "e-%zz", "x", "x4", "x4z", "e-%00"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(bw_sqlite_file_election(others[i], back));
}

static void shared_file_systems_are_recognised(void **state)
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
        cmocka_unit_test(token_reservation_is_synced_once_per_64_leaderships),
        cmocka_unit_test(tokens_continue_after_reserved_ones_when_host_reboots),
        cmocka_unit_test(every_leadership_is_synced_when_boot_is_unknown),
        cmocka_unit_test(tokens_grow_when_database_is_restored_because_of_the_mark),
        cmocka_unit_test(steal_is_refused_when_version_or_request_differs),
        cmocka_unit_test(work_of_all_lost_leaders_is_unconfirmed_until_settled),
        cmocka_unit_test(release_confirms_the_work_of_lost_leaders_when_settled),
        cmocka_unit_test(repeated_acquire_gives_one_leadership),
        cmocka_unit_test(guardians_mark_releases_only_its_own_token),
        cmocka_unit_test(free_lock_proves_death_only_in_same_boot_and_namespaces),
        cmocka_unit_test(free_lock_proves_nothing_when_work_has_no_cgroup_or_pid_namespace),
        cmocka_unit_test(remaining_lease_is_reported_only_by_the_same_clock),
        cmocka_unit_test(owed_lines_are_unique_and_oldest_are_dropped_when_full),
        cmocka_unit_test(owed_stays_bounded_when_its_content_is_damaged),
        cmocka_unit_test(file_name_of_election_converts_back),
        cmocka_unit_test(shared_file_systems_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
