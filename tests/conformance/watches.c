/* Waiting for news. A watch may not be early, and where the store notifies, not late. */
#include "conformance/conformance.h"

#include <string.h>

static struct client a, b;

static int open_two(void **state)
{
    (void)state;
    client_open(&a, conformance_url, "ada");
    client_open(&b, conformance_url, "ben");
    a.settles = b.settles = true;
    return 0;
}

static int close_two(void **state)
{
    (void)state;
    client_close(&a);
    client_close(&b);
    return 0;
}

static void must_notify(void)
{
    if (!(a.ops->traits & BW_STORE_NOTIFIES))
        skip();
}

static struct bw_store_record heard(uint64_t id)
{
    struct bw_store_reply reply;
    assert_true(client_wait(&b, id, 60000, &reply));
    assert_int_equal(reply.outcome, BW_OUTCOME_DONE);
    assert_int_equal(reply.op, BW_STORE_WATCH);
    return reply.record;
}

static void what_changed_before_is_told_at_once(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    assert_int_equal(heard(client_watch(&b, election, 0)).version, held.record.version);
}

static void nothing_is_told_while_nothing_changes(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    struct bw_store_reply reply;
    assert_false(client_wait(&b, watch, 200, &reply));
    client_acquire(&a, conformance_election(), 0); /* another election's business */
    assert_false(client_wait(&b, watch, 100, &reply));
    b.ops->cancel(b.store, watch);
}

static void an_acquisition_is_heard_even_of_a_new_election(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    uint64_t watch = client_watch(&b, election, 0);
    client_idle(&b, 20);
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_record record = heard(watch);
    while (record.version != held.record.version) /* it was asked for twice: the last word counts */
        record = heard(client_watch(&b, election, record.version));
    assert_string_equal(record.holder, "ada");
}

static void a_renewal_is_heard(void **state)
{
    (void)state;
    must_notify();
    if (!(a.ops->traits & BW_STORE_OBSERVED))
        skip();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    client_idle(&b, 20);
    client_renew(&a, election, held.record.token);
    assert_int_equal(heard(watch).token, held.record.token);
}

static void a_release_is_heard(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    client_idle(&b, 20);
    client_release(&a, election, held.record.token, true);
    struct bw_store_record record = heard(watch);
    assert_false(record.held);
    assert_true(record.clean);
}

static void a_theft_is_heard_by_the_holder(void **state)
{
    (void)state;
    must_notify();
    if (!(a.ops->traits & BW_STORE_OBSERVED))
        skip();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&b, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    client_idle(&b, 20);
    client_acquire(&a, election, held.record.version);
    assert_string_equal(heard(watch).holder, "ada");
}

static void a_note_is_heard_by_the_holder(void **state)
{
    (void)state;
    must_notify();
    if (!(a.ops->traits & BW_STORE_NOTES))
        skip();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&b, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    client_idle(&b, 20);
    client_note(&a, election, BW_NOTE_RESIGN, "");
    assert_int_equal(heard(watch).note.kind, BW_NOTE_RESIGN);
}

static void every_watch_of_an_election_is_answered_once(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    uint64_t watches[20];
    for (int i = 0; i < 20; i++)
        watches[i] = client_watch(&b, election, held.record.version);
    client_idle(&b, 20);
    uint32_t before = b.total;
    client_release(&a, election, held.record.token, true);
    for (int i = 0; i < 20; i++)
        assert_false(heard(watches[i]).held);
    client_idle(&b, 50);
    assert_int_equal(b.total - before, 20);
}

static void a_cancelled_watch_is_silent(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    uint64_t watch = client_watch(&b, election, 0);
    client_idle(&b, 20);
    uint32_t before = b.total;
    b.ops->cancel(b.store, watch);
    client_acquire(&a, election, 0);
    client_idle(&b, 100);
    assert_int_equal(b.total, before);
}

/* Between an answer and the next watch anything may happen: nothing of it is missed. */
static void no_change_is_missed_between_two_watches(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    bw_token token = client_acquire(&a, election, 0).record.token;
    uint64_t seen = 0;
    uint64_t begun = uv_hrtime();
    for (unsigned i = 0; !conformance_enough(i, 200, begun); i++) {
        struct bw_store_record record = heard(client_watch(&b, election, seen));
        seen = record.version;
        uint64_t watch = client_watch(&b, election, seen);
        if (i % 2) /* sometimes it has reached the store, sometimes not */
            uv_run(&b.loop, UV_RUN_NOWAIT);
        struct bw_store_request request = client_request(&a, BW_STORE_RENEW, election);
        request.token = token;
        request.value = i % 2 ? "odd" : "even";
        uint64_t version = client_ask(&a, &request).record.version;
        assert_int_equal(heard(watch).version, version);
        seen = 0;
    }
}

/* News that came while nobody waited is not forgotten either. */
static void what_changed_while_nobody_watched_is_told_at_once(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    bw_token token = client_acquire(&a, election, 0).record.token;
    uint64_t seen = heard(client_watch(&b, election, 0)).version;
    for (int i = 0; i < 5; i++) {
        uint64_t watch = client_watch(&b, election, seen);
        client_idle(&b, 20);
        b.ops->cancel(b.store, watch);
        struct bw_store_request request = client_request(&a, BW_STORE_RENEW, election);
        request.token = token;
        request.value = i % 2 ? "odd" : "even";
        uint64_t version = client_ask(&a, &request).record.version;
        client_idle(&b, 20); /* it arrives */
        seen = heard(client_watch(&b, election, seen)).version;
        assert_int_equal(seen, version);
    }
}

#define with_two(test) cmocka_unit_test_setup_teardown(test, open_two, close_two)

const struct CMUnitTest *conformance_watches(size_t *count)
{
    static const struct CMUnitTest tests[] = {
        with_two(what_changed_before_is_told_at_once),
        with_two(nothing_is_told_while_nothing_changes),
        with_two(an_acquisition_is_heard_even_of_a_new_election),
        with_two(a_renewal_is_heard),
        with_two(a_release_is_heard),
        with_two(a_theft_is_heard_by_the_holder),
        with_two(a_note_is_heard_by_the_holder),
        with_two(every_watch_of_an_election_is_answered_once),
        with_two(a_cancelled_watch_is_silent),
        with_two(no_change_is_missed_between_two_watches),
        with_two(what_changed_while_nobody_watched_is_told_at_once),
    };
    *count = sizeof tests / sizeof tests[0];
    return tests;
}
