/* bw_close while the candidacy is being elected, at every possible moment.
 *
 * The program defines pthread_mutex_lock itself, so the library calls this definition. It blocks
 * the closing thread before its n-th lock until the candidacy is elected, for every n that bw_close
 * reaches. So every order of the two events on the handle's mutex is tested, on any machine. */
#include "system/lib/lib_common.h"

#include <dlfcn.h>

#define E       "nightly"
#define HOLD_MS 500 /* maximum block: if the candidacy has ended, it is never elected */

static atomic_int elected, lost;
static struct bw_leadership *obstacle; /* leads until the closing thread is blocked */

/* Set in the closing thread. locks_left: the call of pthread_mutex_lock that blocks, counted from
 * now (0: none). hold_ms: for how long it blocks at most. */
static _Thread_local int locks_left, hold_ms;

static void let_the_candidate_be_elected(void)
{
    bw_resign(obstacle);
    obstacle = NULL;
    int64_t until = now_ns() + (int64_t)hold_ms * 1000000;
    while (now_ns() < until && atomic_load(&elected) == 0)
        pause_ms(1);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (locks_left > 0 && --locks_left == 0)
        let_the_candidate_be_elected();
    return real(mutex);
}

static void on_elected(struct bw_leadership *l, uint64_t token, void *context)
{
    (void)l;
    (void)token;
    (void)context;
    atomic_fetch_add(&elected, 1);
}

static void on_lost(struct bw_leadership *l, enum bw_loss reason, void *context)
{
    (void)l;
    (void)reason;
    (void)context;
    atomic_fetch_add(&lost, 1);
}

static struct bw_handle *open_candidate(void)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    options.id = "candidate";
    options.ttl_ms = HANG_MS;
    options.elected = on_elected;
    options.lost = on_lost;
    assert_int_equal(bw_open(path, &options, &h), 0);
    return h;
}

/* Closes the handle while the candidacy is elected before the n-th lock. Returns false if bw_close
 * took fewer than n locks. */
static bool close_races_an_election(struct bw_handle *leader, int n)
{
    struct bw_handle *h = open_candidate();
    struct bw_leadership *l;
    atomic_store(&elected, 0);
    atomic_store(&lost, 0);
    assert_int_equal(bw_campaign(leader, E, NULL, HANG_MS, &obstacle), 0);
    assert_int_equal(bw_contend(h, E, NULL, &l), 0);
    /* before the first lock, the candidacy cannot have ended */
    hold_ms = n == 1 ? HANG_MS : HOLD_MS;
    locks_left = n;
    int error = bw_close(h);
    bool held = locks_left == 0;
    locks_left = 0;
    /* bw_close refused: the candidate leads, and the program has not released the leadership */
    if (error) {
        assert_int_equal(error, BW_EBUSY);
        assert_non_null(strstr(bw_why(), E));
        assert_true(bw_is_leader(l));
        assert_int_equal(bw_resign(l), 0);
        assert_int_equal(bw_close(h), 0);
    } else {
        assert_int_equal(atomic_load(&elected), atomic_load(&lost));
    }
    bw_resign(obstacle);
    obstacle = NULL;
    return held;
}

static void close_returns_busy_when_a_candidacy_is_elected_meanwhile(void **state)
{
    (void)state;
    struct bw_handle *leader = open_as("leader", HANG_MS);
    int n = 1, refused = 0;
    assert_non_null(leader);
    for (; close_races_an_election(leader, n); n++)
        refused += atomic_load(&elected);
    assert_true(n > 2);       /* bw_close was blocked at more than one lock */
    assert_true(refused > 0); /* in some cases the candidate was elected first */
    assert_int_equal(bw_close(leader), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(close_returns_busy_when_a_candidacy_is_elected_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
