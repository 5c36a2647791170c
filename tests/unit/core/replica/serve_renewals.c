/* Requests that a node accepts under overload. */
#include "core/replica/request_router.h"

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

/* There is no leader: every request waits. */
static void new_session(struct bw_router *router)
{
    static struct bw_request *buckets[BUCKETS];
    const struct bw_router_hooks hooks = {.now = now, .take = take, .give = give};
    for (unsigned i = 0; i < BUCKETS; i++)
        buckets[i] = NULL;
    bw_router_init(router, 1, 7, &hooks, buckets, BUCKETS);
}

static void renewals_are_accepted_when_other_requests_are_refused(void **state)
{
    (void)state;
    struct bw_router router;
    unsigned char scratch[256];
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 1, .ttl_ns = BW_SEC}};
    new_session(&router);
    unsigned reads = 0;
    while (bw_router_ask(&router, BW_REPLICA_READ, 0))
        reads++;
    assert_true(reads > BW_REPLICA_REQUESTS_MAX / 2 && reads < BW_REPLICA_REQUESTS_MAX);
    assert_int_equal(bw_router_propose(&router, &entry, scratch, sizeof scratch), 0);
    assert_int_equal(bw_router_ask(&router, BW_REPLICA_LEFT, 1), 0);
    unsigned renewals = 0;
    while (bw_router_ask(&router, BW_REPLICA_KEEP_ALIVE, 1))
        renewals++;
    assert_int_equal(reads + renewals, BW_REPLICA_REQUESTS_MAX); /* renewals are bounded too */
    bw_router_clear(&router);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewals_are_accepted_when_other_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
