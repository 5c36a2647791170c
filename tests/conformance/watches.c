/* WATCH: it must not be answered early, and not late if the store has the trait NOTIFIES. */
#include "conformance/conformance.h"

#include <string.h>

static struct client a, b;

static int open_two(void **state)
{
    (void)state;
    client_open_for_conformance(&a, conformance_url, "ada");
    client_open_for_conformance(&b, conformance_url, "ben");
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

static struct bw_store_record await_watch(uint64_t id)
{
    struct bw_store_reply reply;
    assert_true(client_wait(&b, id, 60000, &reply));
    assert_int_equal(reply.outcome, BW_OUTCOME_DONE);
    assert_int_equal(reply.op, BW_STORE_WATCH);
    return reply.record;
}

static void watch_is_answered_immediately_when_record_already_changed(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    assert_int_equal(await_watch(client_watch(&b, election, 0)).version, held.record.version);
}

static void watch_is_not_answered_while_nothing_changes(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    struct bw_store_reply reply;
    assert_false(client_wait(&b, watch, 200, &reply));
    client_acquire(&a, conformance_election(), 0); /* a change of another election */
    assert_false(client_wait(&b, watch, 100, &reply));
    b.ops->cancel(b.store, watch);
}

static void watch_is_answered_when_new_election_is_acquired(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    uint64_t watch = client_watch(&b, election, 0);
    client_idle(&b, 20);
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_record record = await_watch(watch);
    /* the ACQUIRE may have been sent twice: the last version counts */
    while (record.version != held.record.version)
        record = await_watch(client_watch(&b, election, record.version));
    assert_string_equal(record.holder, "ada");
}

static void watch_is_answered_when_holder_renews(void **state)
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
    assert_int_equal(await_watch(watch).token, held.record.token);
}

static void watch_is_answered_when_holder_releases(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    uint64_t watch = client_watch(&b, election, held.record.version);
    client_idle(&b, 20);
    client_release(&a, election, held.record.token, true);
    struct bw_store_record record = await_watch(watch);
    assert_false(record.held);
    assert_true(record.clean);
}

static void watch_of_holder_is_answered_when_record_is_stolen(void **state)
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
    assert_string_equal(await_watch(watch).holder, "ada");
}

static void watch_of_holder_is_answered_when_note_is_written(void **state)
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
    assert_int_equal(await_watch(watch).note.kind, BW_NOTE_RESIGN);
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
        assert_false(await_watch(watches[i]).held);
    client_idle(&b, 50);
    assert_int_equal(b.total - before, 20);
}

static void cancelled_watch_is_not_answered(void **state)
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

/* Changes between an answer and the next watch must not be missed. */
static void no_change_is_missed_between_two_watches(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    bw_token token = client_acquire(&a, election, 0).record.token;
    uint64_t seen = 0;
    uint64_t begun = uv_hrtime();
    for (unsigned i = 0; !conformance_enough(i, 200, begun); i++) {
        struct bw_store_record record = await_watch(client_watch(&b, election, seen));
        seen = record.version;
        uint64_t watch = client_watch(&b, election, seen);
        if (i % 2) /* the watch has reached the store in half of the rounds */
            uv_run(&b.loop, UV_RUN_NOWAIT);
        struct bw_store_request request = client_request(&a, BW_STORE_RENEW, election);
        request.token = token;
        request.value = i % 2 ? "odd" : "even";
        uint64_t version = client_ask(&a, &request).record.version;
        assert_int_equal(await_watch(watch).version, version);
        seen = 0;
    }
}

/* A watch must also report a change that happened before it, while no watch existed. */
static void watch_is_answered_immediately_when_record_changed_without_a_watch(void **state)
{
    (void)state;
    must_notify();
    const char *election = conformance_election();
    bw_token token = client_acquire(&a, election, 0).record.token;
    uint64_t seen = await_watch(client_watch(&b, election, 0)).version;
    for (int i = 0; i < 5; i++) {
        uint64_t watch = client_watch(&b, election, seen);
        client_idle(&b, 20);
        b.ops->cancel(b.store, watch);
        struct bw_store_request request = client_request(&a, BW_STORE_RENEW, election);
        request.token = token;
        request.value = i % 2 ? "odd" : "even";
        uint64_t version = client_ask(&a, &request).record.version;
        client_idle(&b, 20); /* the change arrives */
        seen = await_watch(client_watch(&b, election, seen)).version;
        assert_int_equal(seen, version);
    }
}

#define with_two(test) cmocka_unit_test_setup_teardown(test, open_two, close_two)

const struct CMUnitTest *conformance_watches(size_t *count)
{
    static const struct CMUnitTest tests[] = {
        with_two(watch_is_answered_immediately_when_record_already_changed),
        with_two(watch_is_not_answered_while_nothing_changes),
        with_two(watch_is_answered_when_new_election_is_acquired),
        with_two(watch_is_answered_when_holder_renews),
        with_two(watch_is_answered_when_holder_releases),
        with_two(watch_of_holder_is_answered_when_record_is_stolen),
        with_two(watch_of_holder_is_answered_when_note_is_written),
        with_two(every_watch_of_an_election_is_answered_once),
        with_two(cancelled_watch_is_not_answered),
        with_two(no_change_is_missed_between_two_watches),
        with_two(watch_is_answered_immediately_when_record_changed_without_a_watch),
    };
    *count = sizeof tests / sizeof tests[0];
    return tests;
}
