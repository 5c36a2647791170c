/* What a node takes when more is asked of it than can be done. */
#include "core/replica/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#define BUCKETS 1024u

static bw_time now(void *context)
{
    (void)context;
    return BW_SEC;
}

static void *take(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void give(void *context, void *block)
{
    (void)context;
    free(block);
}

/* Nobody leads: whatever is asked waits. */
static void new_session(struct bw_session *session)
{
    static struct bw_request *buckets[BUCKETS];
    const struct bw_session_hooks hooks = {.now = now, .take = take, .give = give};
    for (unsigned i = 0; i < BUCKETS; i++)
        buckets[i] = NULL;
    bw_session_init(session, 1, 7, &hooks, buckets, BUCKETS);
}

static void renewals_are_taken_when_new_work_is_refused(void **state)
{
    (void)state;
    struct bw_session session;
    unsigned char scratch[256];
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 1, .ttl_ns = BW_SEC}};
    new_session(&session);
    unsigned reads = 0;
    while (bw_session_ask(&session, BW_REPLICA_READ, 0))
        reads++;
    assert_true(reads > BW_REPLICA_REQUESTS_MAX / 2 && reads < BW_REPLICA_REQUESTS_MAX);
    assert_int_equal(bw_session_propose(&session, &entry, scratch, sizeof scratch), 0);
    assert_int_equal(bw_session_ask(&session, BW_REPLICA_LEFT, 1), 0);
    unsigned renewals = 0;
    while (bw_session_ask(&session, BW_REPLICA_KEEP_ALIVE, 1))
        renewals++;
    assert_int_equal(reads + renewals, BW_REPLICA_REQUESTS_MAX); /* bounded too */
    bw_session_clear(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewals_are_taken_when_new_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
