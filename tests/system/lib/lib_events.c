/* Callbacks, on the library's thread and inside bw_dispatch. */
#include "system/lib/lib_common.h"

#include <poll.h>

#define E "nightly"

static pthread_t caller;
static atomic_int elected, lost, changes;
static atomic_int last_reason;
static char last_leader[64];
static bool resigns_when_elected;

static void on_elected(struct bw_leadership *l, uint64_t token, void *context)
{
    caller = pthread_self();
    if (token != bw_token(l) || context != &elected)
        atomic_store(&page->wrong, 1);
    if (resigns_when_elected)
        bw_resign(l);
    atomic_fetch_add(&elected, 1);
}

static void on_lost(struct bw_leadership *l, enum bw_loss reason, void *context)
{
    (void)context;
    caller = pthread_self();
    atomic_store(&last_reason, reason);
    if (bw_is_leader(l))
        atomic_store(&page->wrong, 2);
    atomic_fetch_add(&lost, 1);
}

static void on_change(struct bw_leadership *l, const char *leader, uint64_t token,
                      const char *value, void *context)
{
    (void)l;
    (void)token;
    (void)value;
    (void)context;
    snprintf(last_leader, sizeof last_leader, "%s", leader);
    atomic_fetch_add(&changes, 1);
}

static struct bw_handle *open_with_callbacks(const char *id, bool pollable)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    options.id = id;
    options.ttl_ms = 900;
    options.pollable = pollable;
    options.elected = on_elected;
    options.lost = on_lost;
    options.leader_changed = on_change;
    atomic_store(&elected, 0);
    atomic_store(&lost, 0);
    atomic_store(&changes, 0);
    resigns_when_elected = false;
    assert_int_equal(bw_open(path, &options, &h), 0);
    return h;
}

static struct bw_leadership *contend(struct bw_handle *h)
{
    struct bw_campaign_options campaign = bw_campaign_options_default();
    struct bw_leadership *l;
    campaign.context = &elected;
    campaign.value = "here:80";
    assert_int_equal(bw_contend(h, E, &campaign, &l), 0);
    return l;
}

static bool becomes(atomic_int *count, int least)
{
    for (int waited = 0; waited < HANG_MS; waited++) {
        if (atomic_load(count) >= least)
            return true;
        pause_ms(1);
    }
    return false;
}

static void callbacks_run_on_the_library_thread(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", false);
    struct bw_leadership *l = contend(h);
    assert_true(becomes(&elected, 1));
    assert_true(becomes(&changes, 1));
    assert_false(pthread_equal(caller, pthread_self()));
    assert_string_equal(last_leader, "ada");
    assert_true(bw_is_leader(l));
    assert_int_equal(bw_fd(h), -1);
    assert_int_equal(bw_dispatch(h), BW_EINVAL);
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(atomic_load(&lost), 0); /* the program itself ended it */
    assert_int_equal(atomic_load(&page->wrong), 0);
}

static void lost_leadership_is_released_only_after_the_work_ended(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", false), *other = open_as("ben", 900);
    struct bw_leader_info info = bw_leader_info_default();
    struct bw_leadership *l = contend(h), *m;
    assert_true(becomes(&elected, 1));
    sqlite3 *db = lock_database();
    assert_true(becomes(&lost, 1));
    assert_int_equal(atomic_load(&last_reason), BW_LOSS_UNREACHABLE);
    unlock_database(db);
    /* The work still winds up; until then, the record is ours. */
    assert_int_equal(bw_campaign(other, E, NULL, 1500, &m), BW_ETIMEDOUT);
    assert_int_equal(bw_leader(other, E, &info), 0);
    assert_string_equal(info.id, "ada");
    assert_string_equal(info.value, "here:80");
    assert_int_equal(bw_release(l), 0);
    assert_true(becomes(&elected, 2)); /* the candidate contends again and is elected */
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(bw_close(other), 0);
    assert_int_equal(atomic_load(&page->wrong), 0);
}

static void callback_may_end_its_own_leadership(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", false), *other = open_as("ben", 900);
    struct bw_leadership *m;
    resigns_when_elected = true;
    contend(h);
    assert_true(becomes(&elected, 1));
    assert_int_equal(bw_campaign(other, E, NULL, HANG_MS, &m), 0);
    bw_resign(m);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(bw_close(other), 0);
}

static bool readable(struct bw_handle *h, int timeout_ms)
{
    struct pollfd fd = {.fd = bw_fd(h), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

static void pollable_callbacks_run_only_inside_dispatch(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", true);
    struct bw_leadership *l = contend(h);
    for (int waited = 0; waited < HANG_MS && !bw_is_leader(l); waited++)
        pause_ms(1);
    assert_true(bw_is_leader(l));
    pause_ms(100);
    assert_int_equal(atomic_load(&elected), 0);
    assert_true(readable(h, 0));
    assert_true(bw_dispatch(h) >= 2);
    assert_int_equal(atomic_load(&elected), 1);
    assert_true(pthread_equal(caller, pthread_self()));
    assert_false(readable(h, 0));
    assert_int_equal(bw_dispatch(h), 0);
    sqlite3 *db = lock_database();
    assert_true(readable(h, HANG_MS));
    assert_int_equal(atomic_load(&lost), 0);
    assert_false(bw_is_leader(l)); /* already false before the callback runs */
    assert_true(bw_dispatch(h) >= 1);
    assert_int_equal(atomic_load(&lost), 1);
    unlock_database(db);
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(atomic_load(&page->wrong), 0);
}

static void observer_is_notified_of_leaders_and_never_leads(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", false), *other = open_as("ben", 900);
    struct bw_campaign_options campaign = bw_campaign_options_default();
    struct bw_leadership *l, *m;
    campaign.observer = true;
    assert_int_equal(bw_contend(h, E, &campaign, &l), 0);
    assert_int_equal(bw_campaign(other, E, NULL, HANG_MS, &m), 0);
    assert_true(becomes(&changes, 1));
    assert_string_equal(last_leader, "ben");
    bw_resign(m);
    assert_true(becomes(&changes, 2));
    pause_ms(50);
    assert_int_equal(atomic_load(&elected), 0);
    assert_int_equal(bw_close(h), 0); /* ends the candidacy, which does not lead */
    assert_int_equal(bw_close(other), 0);
}

static void unhealthy_leader_steps_down_and_contends_when_healthy_again(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", false);
    struct bw_leadership *l = contend(h);
    assert_true(becomes(&elected, 1));
    assert_int_equal(bw_healthy(l, true), 0); /* no change, no effect */
    assert_int_equal(bw_healthy(l, false), 0);
    assert_true(becomes(&lost, 1));
    assert_int_equal(atomic_load(&last_reason), BW_LOSS_UNHEALTHY);
    assert_int_equal(bw_release(l), 0);
    pause_ms(700); /* the election is free, and more than a retry interval has passed */
    assert_int_equal(atomic_load(&elected), 1);
    assert_int_equal(bw_healthy(l, true), 0);
    assert_true(becomes(&elected, 2));
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(atomic_load(&page->wrong), 0);
}

static atomic_int asked;

static void on_prepare(struct bw_leadership *l, void *context)
{
    (void)l;
    (void)context;
    atomic_fetch_add(&asked, 1);
}

static struct bw_handle *open_that_prepares(const char *id)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    options.id = id;
    options.ttl_ms = 3000;
    options.prepare = on_prepare;
    atomic_store(&asked, 0);
    assert_int_equal(bw_open(path, &options, &h), 0);
    return h;
}

static void transfer_waits_for_the_successor_to_be_prepared(void **state)
{
    (void)state;
    struct bw_handle *h = open_with_callbacks("ada", false), *other = open_that_prepares("ben");
    struct bw_leadership *l = contend(h), *m;
    assert_true(becomes(&elected, 1));
    assert_int_equal(bw_contend(other, E, NULL, &m), 0);
    assert_int_equal(bw_prepared(m, true), 0); /* no request is pending */
    assert_true(is_listed("ben"));
    assert_int_equal(bw_transfer(l, "ben"), 0);
    assert_true(becomes(&asked, 1));
    assert_int_equal(bw_prepared(m, false), 0);
    pause_ms(200);
    assert_true(bw_is_leader(l));
    assert_int_equal(atomic_load(&lost), 0);
    assert_int_equal(bw_transfer(l, "ben"), 0);
    assert_true(becomes(&asked, 2));
    assert_true(bw_is_leader(l));
    assert_int_equal(atomic_load(&lost), 0);
    assert_int_equal(bw_prepared(m, true), 0);
    assert_true(becomes(&lost, 1));
    assert_int_equal(atomic_load(&last_reason), BW_LOSS_TRANSFERRED);
    assert_int_equal(bw_release(l), 0);
    for (int waited = 0; waited < HANG_MS && !bw_is_leader(m); waited++)
        pause_ms(1);
    assert_true(bw_is_leader(m));
    bw_resign(m);
    bw_resign(l);
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(bw_close(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(callbacks_run_on_the_library_thread),
        in_scratch(lost_leadership_is_released_only_after_the_work_ended),
        in_scratch(callback_may_end_its_own_leadership),
        in_scratch(pollable_callbacks_run_only_inside_dispatch),
        in_scratch(observer_is_notified_of_leaders_and_never_leads),
        in_scratch(unhealthy_leader_steps_down_and_contends_when_healthy_again),
        in_scratch(transfer_waits_for_the_successor_to_be_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
