/* The blocking interface of the library, with real processes on the embedded store. */
#include "system/kit/stall.h"
#include "system/lib/lib_common.h"

#include <dirent.h>

#define E "nightly"
/* A successor that takes over before the test hangs waited neither for the lease to expire nor for
 * the next poll of the store, which is due after a third of the TTL. */
#define LONG_TTL_MS (4 * HANG_MS)
/* The library reserves a sixth of a TTL of 2400 ms for pauses of a busy machine: see open_as. */
#define STALL_MS 400

/* ---- contention ---- */

static void note_inside(void)
{
    int inside = atomic_fetch_add(&page->inside, 1) + 1;
    int most = atomic_load(&page->most_inside);
    while (inside > most && !atomic_compare_exchange_weak(&page->most_inside, &most, inside))
        ;
}

/* Leads repeatedly until the test ends it. */
static int contend_for_a_while(int number)
{
    struct bw_handle *h = open_as(NULL, 2000);
    struct bw_leadership *l;
    uint64_t last = 0;
    while (h && atomic_load(&page->phase) == 0) {
        int error = bw_campaign(h, E, NULL, HANG_MS, &l);
        if (error)
            fprintf(stderr, "# process %d: %s\n", number, bw_why());
        if (error || bw_token(l) <= last)
            return 1;
        last = bw_token(l);
        note_inside();
        pause_ms(1 + number);
        if (!bw_is_leader(l))
            return 2;
        atomic_fetch_sub(&page->inside, 1);
        atomic_fetch_add(&page->turns[number], 1);
        bw_resign(l);
        pause_ms(2);
    }
    return h && bw_close(h) == 0 ? 0 : 3;
}

static void exactly_one_of_many_processes_leads(void **state)
{
    (void)state;
    enum { N = 4 };
    pid_t pids[N];
    for (int i = 0; i < N; i++)
        pids[i] = spawn(contend_for_a_while, i);
    pause_ms(1500);
    for (int i = 0; i < N; i++)
        for (long ms = 0; ms < HANG_MS && atomic_load(&page->turns[i]) == 0; ms++)
            pause_ms(1);
    atomic_store(&page->phase, 1);
    for (int i = 0; i < N; i++)
        ends_well(pids[i]);
    assert_int_equal(atomic_load(&page->most_inside), 1);
    for (int i = 0; i < N; i++)
        assert_true(atomic_load(&page->turns[i]) > 0);
}

/* ---- handing over ---- */

static int lead_until_killed(int number)
{
    struct bw_handle *h = open_as("first", LONG_TTL_MS);
    struct bw_leadership *l;
    (void)number;
    if (!h || bw_campaign(h, E, NULL, HANG_MS, &l) != 0)
        return 1;
    atomic_store(&page->value, (long long)bw_token(l));
    atomic_store(&page->phase, 1);
    for (;;)
        pause();
}

static int take_over(int number)
{
    struct bw_handle *h = open_as("second", LONG_TTL_MS);
    struct bw_leadership *l;
    (void)number;
    if (!h)
        return 1;
    atomic_store(&page->phase, 2);
    if (bw_campaign(h, E, NULL, HANG_MS, &l) != 0)
        return 2;
    bool newer = (long long)bw_token(l) > atomic_load(&page->value);
    bw_resign(l);
    return newer && bw_close(h) == 0 ? 0 : 3;
}

static void successor_of_a_killed_leader_leads_at_once_with_a_newer_token(void **state)
{
    (void)state;
    pid_t first = spawn(lead_until_killed, 0);
    assert_true(reaches(1));
    pid_t second = spawn(take_over, 0);
    assert_true(reaches(2));
    assert_true(is_listed("second"));
    kill(first, SIGKILL);
    is_killed_by(first, SIGKILL);
    ends_well(second);
}

static int lead_then_resign(int number)
{
    struct bw_handle *h = open_as("first", LONG_TTL_MS);
    struct bw_leadership *l;
    (void)number;
    if (!h || bw_campaign(h, E, NULL, HANG_MS, &l) != 0)
        return 1;
    atomic_store(&page->value, (long long)bw_token(l));
    atomic_store(&page->phase, 1);
    if (!reaches(2) || !is_listed("second"))
        return 2;
    return bw_resign(l) == 0 && bw_close(h) == 0 ? 0 : 3;
}

static void resignation_hands_over_at_once(void **state)
{
    (void)state;
    pid_t first = spawn(lead_then_resign, 0);
    assert_true(reaches(1));
    pid_t second = spawn(take_over, 0);
    ends_well(first);
    ends_well(second);
}

static int lead_then_transfer(int number)
{
    struct bw_handle *h = open_as("first", LONG_TTL_MS);
    struct bw_leadership *l;
    (void)number;
    if (!h || bw_campaign(h, E, NULL, HANG_MS, &l) != 0)
        return 1;
    atomic_store(&page->value, (long long)bw_token(l));
    atomic_store(&page->phase, 1);
    if (!reaches(2) || !is_listed("second"))
        return 2;
    if (bw_transfer(l, "first") != BW_EINVAL)
        return 3;
    if (bw_transfer(l, "second") != 0 || bw_wait_lost(l, HANG_MS) != 0)
        return 6;
    if (bw_reason(l) != BW_LOSS_TRANSFERRED || bw_is_leader(l))
        return 4;
    return bw_resign(l) == 0 && bw_close(h) == 0 ? 0 : 5;
}

static void leadership_can_be_transferred_to_a_named_candidate(void **state)
{
    (void)state;
    pid_t first = spawn(lead_then_transfer, 0);
    assert_true(reaches(1));
    pid_t second = spawn(take_over, 0);
    ends_well(first);
    ends_well(second);
}

/* ---- the deadline ---- */

static atomic_bool reason_was_read;

/* Keeps the library's thread from recording a loss. */
static void block_the_thread(struct bw_leadership *l, uint64_t token, void *context)
{
    (void)l;
    (void)token;
    (void)context;
    for (long waited = 0; !atomic_load(&reason_was_read) && waited < HANG_MS; waited++)
        pause_ms(1);
}

static void loss_by_the_clock_has_a_reason_at_once(void **state)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    struct bw_leadership *l, *other;
    (void)state;
    options.ttl_ms = 2000;
    options.elected = block_the_thread;
    atomic_store(&reason_was_read, false);
    assert_int_equal(bw_open(path, &options, &h), 0);
    assert_int_equal(bw_campaign(h, E, NULL, HANG_MS, &l), 0);
    assert_int_equal(bw_reason(l), BW_LOSS_NONE);
    assert_int_equal(bw_contend(h, "other", NULL, &other), 0);
    assert_int_equal(bw_wait_lost(l, HANG_MS), 0);
    enum bw_loss reason = bw_reason(l);
    atomic_store(&reason_was_read, true);
    assert_true(reason == BW_LOSS_EXPIRED || reason == BW_LOSS_UNREACHABLE);
    bw_resign(other);
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
}

static void unreachable_store_is_the_reason_when_the_loss_is_reported(void **state)
{
    struct bw_leadership *l;
    (void)state;
    struct bw_handle *h = open_as("first", 2000);
    assert_non_null(h);
    assert_int_equal(bw_campaign(h, E, NULL, HANG_MS, &l), 0);
    sqlite3 *db = lock_database();
    assert_int_equal(bw_wait_lost(l, HANG_MS), 0);
    enum bw_loss reason = bw_reason(l);
    unlock_database(db);
    assert_int_equal(reason, BW_LOSS_UNREACHABLE);
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
}

#define STOPPED_TTL_MS 3000

/* Checks bw_is_leader continuously. After a gap longer than the TTL, the first call must return
 * false, although no renewal has been answered since. Until then, it must lead. */
static int look_across_a_stop(int number)
{
    struct bw_handle *h = open_as("stopped", STOPPED_TTL_MS);
    struct bw_leadership *l;
    (void)number;
    if (!h || bw_campaign(h, E, NULL, HANG_MS, &l) != 0)
        return 1;
    atomic_store(&page->phase, 1);
    const int64_t ttl = INT64_C(1000000) * STOPPED_TTL_MS;
    for (int64_t last = now_ns();;) {
        int64_t now = now_ns();
        bool leads = bw_is_leader(l);
        if (now - last > ttl)
            return leads ? 2 : 0;
        if (!leads) /* stopped between the two calls, or lost */
            return now_ns() - last > ttl ? 0 : 3;
        last = now;
    }
}

static void process_stopped_longer_than_the_ttl_does_not_lead(void **state)
{
    (void)state;
    pid_t pid = spawn(look_across_a_stop, 0);
    assert_true(reaches(1));
    pause_ms(50); /* it looks */
    kill(pid, SIGSTOP);
    pause_ms(STOPPED_TTL_MS + STOPPED_TTL_MS / 4);
    kill(pid, SIGCONT);
    ends_well(pid);
}

static void leadership_ends_before_the_lease_when_the_store_is_lost(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", 2400);
    struct bw_leadership *l;
    assert_non_null(h);
    assert_int_equal(bw_campaign(h, E, NULL, HANG_MS, &l), 0);
    assert_int_equal(bw_wait_lost(l, 2700), BW_ETIMEDOUT); /* renewed */
    sqlite3 *db = lock_database();
    int64_t locked = now_ns(), ttl = INT64_C(2400) * 1000000;
    stall_watch();
    for (int64_t asked = locked; bw_is_leader(l); asked = now_ns())
        assert_true(asked - locked < ttl);
    assert_int_equal(bw_wait_lost(l, HANG_MS), 0);
    assert_true(now_ns() - locked < ttl || stall_excuses(STALL_MS, "the time of the loss"));
    assert_false(bw_is_leader(l));
    unlock_database(db);
    assert_int_equal(bw_resign(l), 0);
    /* the same candidate is elected again */
    assert_int_equal(bw_campaign(h, E, NULL, HANG_MS, &l), 0);
    assert_int_equal(bw_resign(l), 0);
    assert_int_equal(bw_close(h), 0);
}

/* ---- the rest ---- */

static void campaign_returns_at_its_timeout(void **state)
{
    (void)state;
    struct bw_handle *a = open_as("ada", 0), *b = open_as("ben", 0);
    struct bw_leadership *l, *m;
    struct bw_leader_info info = bw_leader_info_default();
    assert_int_equal(bw_leader(a, E, &info), 0);
    assert_string_equal(info.id, "");
    assert_int_equal(bw_campaign(a, E, NULL, 0, &l), 0);
    assert_int_equal(bw_campaign(b, E, NULL, 0, &m), BW_ETIMEDOUT);
    assert_null(m);
    assert_non_null(strstr(bw_why(), "ada"));
    assert_int_equal(bw_campaign(b, E, NULL, 50, &m), BW_ETIMEDOUT);
    assert_int_equal(bw_leader(b, E, &info), 0);
    assert_string_equal(info.id, "ada");
    assert_true(info.token == bw_token(l));
    assert_int_equal(bw_campaign(a, E, NULL, 0, &m), BW_EBUSY);
    assert_int_equal(bw_close(a), BW_EBUSY);
    assert_true(bw_is_leader(l));
    bw_interrupt(b);
    assert_int_equal(bw_campaign(b, E, NULL, BW_FOREVER, &m), BW_EINTERRUPTED);
    bw_resign(l);
    assert_int_equal(bw_close(a), 0);
    assert_int_equal(bw_close(b), 0);
}

static void unavailable_store_is_distinguished_from_a_held_election(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", 600);
    struct bw_leadership *l;
    sqlite3 *db = lock_database();
    assert_int_equal(bw_campaign(h, E, NULL, 300, &l), BW_EIO);
    unlock_database(db);
    assert_int_equal(bw_close(h), 0);
}

static void invalid_arguments_are_named(void **state)
{
    (void)state;
    struct bw_options options = bw_options_default();
    struct bw_campaign_options campaign = bw_campaign_options_default();
    struct bw_handle *h;
    struct bw_leadership *l;
    assert_int_equal(bw_open("nosuch://x", NULL, &h), BW_EINVAL);
    assert_null(h);
    assert_non_null(strstr(bw_why(), "sqlite"));
    assert_int_equal(bw_open("sqlite:/nowhere/at/all.db", NULL, &h), BW_EINVAL);
    options.ttl_ms = 1000;
    options.kill_after_ms = 900;
    assert_int_equal(bw_open(path, &options, &h), BW_EINVAL);
    assert_non_null(strstr(bw_why(), "ttl (1 - drift)"));
    options.kill_after_ms = -1;
    assert_int_equal(bw_open(path, &options, &h), BW_EINVAL);
    h = open_as("ada", 0);
    assert_int_equal(bw_campaign(h, "a/b", NULL, 0, &l), BW_EINVAL);
    assert_int_equal(bw_campaign(h, "", NULL, 0, &l), BW_EINVAL);
    campaign.ttl_ms = 5;
    assert_int_equal(bw_campaign(h, E, &campaign, 0, &l), BW_EINVAL);
    campaign.ttl_ms = 0;
    campaign.observer = true;
    assert_int_equal(bw_campaign(h, E, &campaign, 0, &l), BW_EINVAL);
    campaign.size = 0;
    assert_int_equal(bw_contend(h, E, &campaign, &l), BW_EINVAL);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(bw_close(NULL), 0);
    assert_int_equal(bw_resign(NULL), 0);
}

static void a_child_process_cannot_use_the_parents_handle(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", 0);
    struct bw_leadership *l, *m;
    assert_int_equal(bw_campaign(h, E, NULL, HANG_MS, &l), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(bw_is_leader(l) || bw_token(l) != 0 || bw_valid_ms(l) != 0 ||
              bw_resign(l) != BW_EFORKED || bw_release(l) != BW_EFORKED ||
              bw_campaign(h, "other", NULL, 0, &m) != BW_EFORKED || bw_fd(h) != -1 ||
              bw_dispatch(h) != BW_EFORKED || bw_close(h) != BW_EFORKED);
    ends_well(pid);
    assert_true(bw_is_leader(l));
    bw_resign(l);
    bw_close(h);
}

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void thousand_elections_need_no_more_threads_than_one(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct bw_leadership *all[N];
    struct bw_handle *h = open_as("ada", 15000);
    char name[32];
    assert_int_equal(bw_campaign(h, "one", NULL, HANG_MS, &all[0]), 0);
    int before = threads();
    bw_resign(all[0]);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "shard-%d", i);
        assert_int_equal(bw_contend(h, name, NULL, &all[i]), 0);
    }
    static int64_t ends[N];
    for (int i = 0; i < N; i++) {
        for (long waited = 0; !bw_is_leader(all[i]) && waited < HANG_MS; waited++)
            pause_ms(1);
        ends[i] = now_ns() + bw_valid_ms(all[i]) * 1000000;
    }
    for (int i = 0; i < N; i++) /* a renewal moves the end of the lease */
        while (now_ns() + bw_valid_ms(all[i]) * 1000000 <= ends[i] + INT64_C(1000000000)) {
            assert_true(bw_is_leader(all[i]));
            pause_ms(1);
        }
    assert_int_equal(threads(), before);
    for (int i = 0; i < N; i++)
        assert_int_equal(bw_resign(all[i]), 0);
    assert_int_equal(bw_close(h), 0);
}

static void error_names_match_the_header(void **state)
{
    (void)state;
#define NAME(code) assert_string_equal(bw_error_name(BW_##code), #code)
    NAME(EINVAL), NAME(ENOMEM), NAME(ELIMIT), NAME(ETRUNCATED), NAME(EMALFORMED), NAME(EVERSION);
    NAME(ENOTLEADER), NAME(ETRANSFERRING), NAME(EBUSY), NAME(ESTALE), NAME(ENOTMEMBER);
    NAME(ENOQUORUM), NAME(ECOMPACTED), NAME(ELOST), NAME(EIO), NAME(EDAMAGED), NAME(EDENIED);
    NAME(EUNSUPPORTED), NAME(ENOTOKEN), NAME(ETIMEDOUT), NAME(EFORKED), NAME(EOVERDUE);
    NAME(EINTERRUPTED);
#undef NAME
    /* no code is missing above */
    assert_string_equal(bw_error_name(BW_EINTERRUPTED - 1), "UNKNOWN");
    assert_string_equal(bw_loss_name(BW_LOSS_NONE), "none");
    assert_string_equal(bw_loss_name(BW_LOSS_UNREACHABLE), "unreachable");
    assert_string_equal(bw_loss_name(BW_LOSS_FINISHED), "finished");
    assert_string_equal(bw_loss_name((enum bw_loss)99), "unknown");
}

static void clock_uncertainty_is_stored_and_shortens_the_lease(void **state)
{
    (void)state;
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    struct bw_leadership *l;
    sqlite3 *db;
    sqlite3_stmt *stmt;
    options.ttl_ms = 5000;
    options.clock_uncertainty_ms = 4000;
    assert_int_equal(bw_open(path, &options, &h), BW_EINVAL);
    assert_non_null(strstr(bw_why(), "clock-uncertainty"));
    options.ttl_ms = 0; /* follows from the uncertainty */
    assert_int_equal(bw_open(path, &options, &h), 0);
    assert_int_equal(bw_close(h), 0);
    options.clock_uncertainty_ms = 50;
    assert_int_equal(bw_open(path, &options, &h), 0);
    assert_int_equal(bw_campaign(h, "nightly", NULL, 5000, &l), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT until_wall_ns FROM election", -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t left = sqlite3_column_int64(stmt, 0) - (int64_t)time(NULL) * 1000000000;
    assert_in_range(left, 1, 11000000000);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(exactly_one_of_many_processes_leads),
        in_scratch(successor_of_a_killed_leader_leads_at_once_with_a_newer_token),
        in_scratch(resignation_hands_over_at_once),
        in_scratch(leadership_can_be_transferred_to_a_named_candidate),
        in_scratch(clock_uncertainty_is_stored_and_shortens_the_lease),
        in_scratch(loss_by_the_clock_has_a_reason_at_once),
        in_scratch(unreachable_store_is_the_reason_when_the_loss_is_reported),
        in_scratch(process_stopped_longer_than_the_ttl_does_not_lead),
        in_scratch(leadership_ends_before_the_lease_when_the_store_is_lost),
        in_scratch(campaign_returns_at_its_timeout),
        in_scratch(unavailable_store_is_distinguished_from_a_held_election),
        in_scratch(invalid_arguments_are_named),
        in_scratch(a_child_process_cannot_use_the_parents_handle),
        in_scratch(thousand_elections_need_no_more_threads_than_one),
        in_scratch(error_names_match_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
