/* The asker with electors and a real store: each request is answered in time or with UNKNOWN,
 * whatever the store does, and each reply reaches the client that made the request. */
#include "os/clock.h"
#include "store/asker/asker.h"
#include "system/kit/scratch.h"
#include "system/kit/stall.h"
#include "unit/unit.h"

#include <sqlite3.h>
#include <uv.h>

#define TIMEOUT_NS (60 * BW_SEC) /* longer than any machine needs; no result depends on it */
#define ASKING_MAX 512u
#define STALL_MS   200
#define ATTEMPTS   8 /* of a case that counts only if the machine did not stall */
/* An elector allows a sixth of its TTL for a request. With this TTL a slow machine causes no
 * repeated request. */
#define SHARED_TTL_NS (6 * TIMEOUT_NS)

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 32];
static uv_loop_t loop;
static struct bw_asker *asker;
/* All clients of the test. tear_down frees them, because a failed assertion leaves the test
 * immediately, and all clients must be freed before the asker is closed. */
static struct bw_asker_client *asking_all[ASKING_MAX];
static unsigned asking_count;

static int went_away, came_back;

static void on_away(void *context, bool away, int error, const char *why)
{
    (void)context;
    (void)error;
    (void)why;
    went_away += away;
    came_back += !away;
}

static int set_up(void **state)
{
    (void)state;
    char why[BW_WHY_MAX + 1];
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/elections.db", dir);
    uv_loop_init(&loop);
    went_away = came_back = 0;
    struct bw_asker_options options = {.away = on_away};
    return bw_asker_open(&asker, path, &loop, &options, why);
}

static int tear_down(void **state)
{
    (void)state;
    while (asking_count > 0)
        bw_asker_client_free(asking_all[--asking_count]);
    bw_asker_close(asker);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    scratch_remove(dir);
    return 0;
}

/* A client, and what it received. */
struct asking {
    struct bw_asker_client *asked;
    int answers, elected, lost, released, stopped;
    enum bw_outcome outcome;
    char holder[BW_CANDIDATE_ID_MAX + 1], name[16];
    bw_time rang;
    bool holds_back;
    struct bw_lease_schedule schedule;
};

static void on_act(void *context, const struct bw_lease_action *action)
{
    struct asking *asking = context;
    if (action->kind == BW_LEASE_ELECTED || action->kind == BW_LEASE_EXTENDED)
        asking->schedule = action->schedule;
    asking->elected += action->kind == BW_LEASE_ELECTED;
    asking->lost += action->kind == BW_LEASE_STEP_DOWN;
    asking->released += action->kind == BW_LEASE_RELEASED;
    asking->stopped += action->kind == BW_LEASE_STOPPED;
    /* the step is requested from within a hook, so it is made after this step */
    if (action->kind == BW_LEASE_STEP_DOWN)
        bw_asker_client_step(asking->asked, BW_LEASE_WORK_DEAD, false);
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct asking *asking = context;
    if (reply->op == BW_STORE_WATCH)
        return;
    asking->answers++;
    asking->outcome = reply->outcome;
    memcpy(asking->holder, reply->record.holder, sizeof asking->holder);
}

static bool before(void *context, struct bw_store_request *request)
{
    const struct asking *asking = context;
    return !asking->holds_back || request->op != BW_STORE_ACQUIRE;
}

static void on_alarm(void *context, bw_time now)
{
    struct asking *asking = context;
    asking->rang = now;
}

static const struct bw_asker_client_hooks hooks = {
    .act = on_act, .before = before, .answer = on_answer, .alarm = on_alarm};

static void add(struct asking *asking, const struct bw_lease_config *config)
{
    assert_true(asking_count < ASKING_MAX);
    assert_int_equal(bw_asker_client_new(&asking->asked, asker, config, &hooks, asking), 0);
    asking_all[asking_count++] = asking->asked;
}

static void elect(struct asking *asking, const char *election, bw_time ttl_ns)
{
    struct bw_lease_config config = {.election = election,
                                     .candidate = "ada",
                                     .value = "",
                                     .terms = {.ttl_ns = ttl_ns, .drift_ppm = 10000},
                                     .retry_ns = ttl_ns / 5};
    add(asking, &config);
    bw_asker_client_step(asking->asked, BW_LEASE_START, false);
}

static void run_until(const int *count, int least)
{
    bw_time end = bw_clock_boot() + TIMEOUT_NS;
    while (*count < least && bw_clock_boot() < end)
        uv_run(&loop, UV_RUN_ONCE);
}

static sqlite3 *lock(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 2000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void ask(struct asking *asking, enum bw_store_op op, bw_time within_ns)
{
    struct bw_store_request request = {
        .op = op, .election = "nightly", .candidate = "ben", .value = "", .ttl_ns = BW_SEC};
    if (!asking->asked)
        add(asking, NULL);
    assert_int_equal(bw_asker_client_request(asking->asked, &request, within_ns), 0);
}

static void late_answer_is_unknown_and_delivered_once(void **state)
{
    (void)state;
    struct asking asking = {0}, later = {0};
    sqlite3 *db = lock(); /* while it is locked, the store retries for half a second */
    bw_time asked_at = bw_clock_boot();
    ask(&asking, BW_STORE_ACQUIRE, 30 * BW_MS);
    run_until(&asking.answers, 1);
    assert_int_equal(asking.outcome, BW_OUTCOME_UNKNOWN);
    assert_true(bw_clock_boot() - asked_at >= 30 * BW_MS);
    sqlite3_close(db);
    ask(&later, BW_STORE_READ, TIMEOUT_NS);
    run_until(&later.answers, 1);
    assert_int_equal(later.outcome, BW_OUTCOME_DONE);
    /* whether it took effect or not, no second answer follows */
    assert_int_equal(asking.answers, 1);
}

static void rejected_request_is_unavailable_from_the_loop(void **state)
{
    (void)state;
    struct asking asking = {0};
    struct bw_store_request request = {.op = BW_STORE_READ, .election = "a/b", .candidate = "ben"};
    add(&asking, NULL);
    assert_int_equal(bw_asker_client_request(asking.asked, &request, BW_SEC), 0);
    assert_int_equal(asking.answers, 0); /* never from within the call */
    run_until(&asking.answers, 1);
    assert_int_equal(asking.outcome, BW_OUTCOME_UNAVAILABLE);
}

static void ask_badly(struct asking *asking)
{
    struct bw_store_request request = {.op = BW_STORE_READ, .election = "a/b", .candidate = "ben"};
    assert_int_equal(bw_asker_client_request(asking->asked, &request, BW_SEC), 0);
}

/* A log that shows only the first cause of an outage misleads its readers. */
static void each_cause_of_an_outage_is_reported_once(void **state)
{
    (void)state;
    struct asking asking = {0};
    sqlite3 *db = lock();
    for (int i = 0; i < 2; i++) {
        ask(&asking, BW_STORE_ACQUIRE, 30 * BW_MS); /* times out */
        run_until(&asking.answers, 2 * i + 1);
        assert_int_equal(went_away, i == 0 ? 1 : 2);
        ask_badly(&asking);
        run_until(&asking.answers, 2 * i + 2);
        assert_int_equal(went_away, 2);
    }
    sqlite3_close(db);
    ask(&asking, BW_STORE_READ, TIMEOUT_NS);
    run_until(&asking.answers, 5);
    assert_int_equal(came_back, 1);
    ask_badly(&asking); /* reported again after the store came back */
    run_until(&asking.answers, 6);
    assert_int_equal(went_away, 3);
}

/* Opening a page must not make the supervisor report an outage. */
static void replies_that_are_only_displayed_do_not_decide_whether_the_store_is_away(void **state)
{
    (void)state;
    static const struct bw_asker_client_hooks display = {.answer = on_answer, .display = true};
    struct asking shown = {0}, asking = {0};
    assert_int_equal(bw_asker_client_new(&shown.asked, asker, NULL, &display, &shown), 0);
    asking_all[asking_count++] = shown.asked;
    sqlite3 *db = lock();
    ask(&shown, BW_STORE_ACQUIRE, 30 * BW_MS); /* times out */
    run_until(&shown.answers, 1);
    ask_badly(&shown);
    run_until(&shown.answers, 2);
    assert_int_equal(shown.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_int_equal(went_away, 0);
    ask(&asking, BW_STORE_ACQUIRE, 30 * BW_MS);
    run_until(&asking.answers, 1);
    assert_int_equal(went_away, 1);
    sqlite3_close(db);
    ask(&shown, BW_STORE_READ, TIMEOUT_NS);
    run_until(&shown.answers, 3);
    assert_int_equal(shown.outcome, BW_OUTCOME_DONE);
    assert_int_equal(came_back, 0);
    ask(&asking, BW_STORE_READ, TIMEOUT_NS);
    run_until(&asking.answers, 2);
    assert_int_equal(came_back, 1);
}

/* Elects a candidate and keeps it for longer than the TTL. Returns false if the machine stalled
 * and it was not renewed in time. */
static bool elect_and_renew(struct asking *asking)
{
    elect(asking, "nightly", 2400 * BW_MS); /* the TTL: each request may take a sixth of it */
    run_until(&asking->elected, 1);
    assert_int_equal(asking->elected, 1);
    stall_watch();
    bw_time until = bw_clock_boot() + 3000 * BW_MS;
    bw_asker_client_alarm(asking->asked, until);
    while (asking->rang == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(asking->rang >= until);
    assert_true(asking->lost == 0 || stall_excuses(STALL_MS, "the renewal"));
    return asking->lost == 0;
}

/* Locks the store until the candidate has stepped down. Returns false if the machine stalled and
 * that was too late. */
static bool lose(struct asking *asking)
{
    stall_watch();
    sqlite3 *db = lock();
    run_until(&asking->lost, 1);
    bool in_time = bw_clock_boot() < asking->schedule.end;
    assert_int_equal(asking->lost, 1);
    assert_true(in_time || stall_excuses(STALL_MS, "the end"));
    sqlite3_close(db);
    return in_time;
}

static void elector_steps_down_when_store_is_unreachable(void **state)
{
    struct asking asking = {0};
    for (int i = 0; !elect_and_renew(&asking) || !lose(&asking); i++) {
        assert_true(i < ATTEMPTS);
        tear_down(state);
        assert_int_equal(set_up(state), 0);
        asking = (struct asking){0};
    }
    run_until(&asking.released, 1);
    bw_asker_client_step(asking.asked, BW_LEASE_STOP, false);
    run_until(&asking.stopped, 1);
    while (bw_asker_client_is_waiting(asking.asked))
        uv_run(&loop, UV_RUN_ONCE);
}

static void held_back_request_is_sent_when_released(void **state)
{
    (void)state;
    struct asking asking = {.holds_back = true};
    struct asking other = {0};
    elect(&asking, "nightly", 3 * BW_SEC);
    run_until(&asking.answers, 2); /* ENTER and READ are answered; ACQUIRE is held back */
    ask(&other, BW_STORE_READ, TIMEOUT_NS);
    run_until(&other.answers, 1);
    assert_string_equal(other.holder, "");
    asking.holds_back = false;
    bw_asker_client_send_held(asking.asked);
    run_until(&asking.elected, 1);
    assert_int_equal(asking.elected, 1);
}

static void store_is_not_away_when_a_held_back_request_expires(void **state)
{
    (void)state;
    struct asking asking = {.holds_back = true};
    ask(&asking, BW_STORE_ACQUIRE, 1);
    run_until(&asking.answers, 1);
    assert_int_equal(asking.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_int_equal(went_away, 0);
}

static void five_hundred_electors_share_a_store_and_a_timer(void **state)
{
    (void)state;
    enum { N = 500 };
    static struct asking all[N];
    memset(all, 0, sizeof all);
    for (int i = 0; i < N; i++) {
        snprintf(all[i].name, sizeof all[i].name, "shard-%d", i);
        elect(&all[i], all[i].name, SHARED_TTL_NS);
    }
    for (int i = 0; i < N; i++) {
        run_until(&all[i].elected, 1);
        assert_int_equal(all[i].elected, 1);
    }
}

int main(void)
{
#define in_scratch(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        in_scratch(late_answer_is_unknown_and_delivered_once),
        in_scratch(rejected_request_is_unavailable_from_the_loop),
        in_scratch(each_cause_of_an_outage_is_reported_once),
        in_scratch(replies_that_are_only_displayed_do_not_decide_whether_the_store_is_away),
        in_scratch(elector_steps_down_when_store_is_unreachable),
        in_scratch(held_back_request_is_sent_when_released),
        in_scratch(store_is_not_away_when_a_held_back_request_expires),
        in_scratch(five_hundred_electors_share_a_store_and_a_timer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
