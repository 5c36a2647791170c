/* A request router for the unit tests; the test plays Raft, peers and clients. */
#ifndef BW_TESTS_UNIT_CORE_REPLICA_ROUTER_BENCH_H
#define BW_TESTS_UNIT_CORE_REPLICA_ROUTER_BENCH_H

#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/expiry.h"
#include "core/replica/request_router.h"

#include <stdlib.h>

#define SELF   ((bw_node)1)
#define LEADER ((bw_node)2)
#define TTL    (2 * BW_SEC)

struct bench {
    struct bw_router router;
    struct bw_request *buckets[16];
    struct bw_registry_config config;
    void *memory;
    bw_time now;
    struct bw_command command; /* the last one */
    struct bw_command first;   /* the first one of a turn */
    unsigned commands, asks;
    int refuse; /* Raft's answer to a batch; 0: accepted */
    unsigned char logged[4096];
    size_t length; /* of the last entry that Raft accepted */
    uint64_t done;
    bw_time ttl_ns;
    int error;
    uint64_t cancels; /* request to cancel while a hook answers another */
    unsigned answers;
    bool no_memory;      /* `take` fails */
    bool unreachable;    /* `ask` fails */
    bool commits;        /* Raft commits a batch at once, as in a group of one */
    unsigned tells;      /* replies to other nodes */
    bw_node told;        /* receiver of the last one */
    int told_error;      /* its error */
    bw_index told_index; /* its index */
    bw_time told_ttl;
    int change_error; /* the answer of the `change` hook; 0: it logs the change */
    unsigned changes;
};

static struct bench b;
static struct bw_entry_scratch entry_scratch;
static struct bw_op_result ops[BW_TXN_OPS_MAX];
static const struct bw_kv *kvs[64];
static unsigned char scratch[BW_REQUEST_MAX];

static inline bw_time now(void *context)
{
    (void)context;
    return b.now;
}

static inline void *take(void *context, size_t bytes)
{
    (void)context;
    return b.no_memory ? NULL : malloc(bytes);
}

static inline void give(void *context, void *block)
{
    (void)context;
    free(block);
}

static inline bool ask(void *context, bw_node to, const unsigned char *head, size_t head_length,
                       const unsigned char *rest, size_t length)
{
    (void)context, (void)head, (void)head_length, (void)rest, (void)length;
    assert_int_equal(to, LEADER);
    b.asks++;
    return !b.unreachable;
}

static inline bool notify(void *context, bw_node to, const unsigned char *bytes, size_t length)
{
    (void)context;
    assert_int_equal(length, 28);
    b.tells++;
    b.told = to;
    b.told_error = -(int)bw_get32(bytes + 8);
    b.told_index = bw_get64(bytes + 12);
    b.told_ttl = (bw_time)bw_get64(bytes + 20);
    return true;
}

static inline void change(void *context, struct bw_request *request)
{
    (void)context;
    b.changes++;
    if (b.change_error)
        bw_router_fail(&b.router, request, b.change_error);
    else
        bw_router_log(&b.router, request);
}

static inline void command(void *context, const struct bw_command *asked)
{
    (void)context;
    b.command = *asked;
    if (b.commands++ == 0)
        b.first = *asked;
    if (asked->kind != BW_COMMAND_PROPOSE)
        return;
    const struct bw_request *request = bw_router_batch(&b.router, asked->request);
    if (b.refuse) {
        bw_router_raft_answered(&b.router,
                                &(struct bw_answer){.request = asked->request, .error = b.refuse});
        return;
    }
    bw_router_raft_answered(&b.router, &(struct bw_answer){.request = asked->request, .index = 9});
    assert_null(bw_router_batch(&b.router, asked->request + 1000)); /* not the current one */
    bw_router_raft_answered(
        &b.router, &(struct bw_answer){.request = asked->request + 1000, .error = BW_ENOTLEADER});
    for (const struct bw_request *next; request; request = next) {
        next = request->with;
        b.length = request->length;
        memcpy(b.logged, request->bytes, request->length);
        if (b.commits)
            bw_router_apply(&b.router, b.logged, b.length);
    }
}

static inline void turn(void *context)
{
    (void)context;
}

static inline void applied(void *context, uint64_t request, const struct bw_entry *entry,
                           enum bw_refusal refusal, const struct bw_results *results)
{
    (void)context, (void)entry, (void)refusal, (void)results;
    b.done = request;
}

static inline void answered(void *context, uint64_t request, bw_time ttl_ns)
{
    (void)context;
    b.done = request;
    b.ttl_ns = ttl_ns;
    b.answers++;
    if (b.cancels)
        bw_router_cancel(&b.router, b.cancels);
}

static inline void failed(void *context, uint64_t request, int error)
{
    (void)context;
    b.done = request;
    b.error = error;
}

static inline int set_up(void **state)
{
    static const struct bw_router_hooks hooks = {.now = now,
                                                 .take = take,
                                                 .give = give,
                                                 .ask = ask,
                                                 .notify = notify,
                                                 .command = command,
                                                 .turn = turn,
                                                 .applied = applied,
                                                 .answered = answered,
                                                 .failed = failed};
    (void)state;
    memset(&b, 0, sizeof b);
    b.config = (struct bw_registry_config){.quota = 65536, .leases_max = 16, .history = 1024};
    size_t bytes = bw_registry_bytes(&b.config);
    b.memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    memset(b.memory, 0, bytes);
    b.now = 1000 * BW_SEC;
    bw_router_init(&b.router, SELF, 7, &hooks, b.buckets, 16);
    b.router.scratch = &entry_scratch;
    b.router.results =
        (struct bw_results){.ops = ops, .op_cap = BW_TXN_OPS_MAX, .kvs = kvs, .kv_cap = 64};
    return bw_registry_init(&b.router.registry, b.memory, bytes, &b.config);
}

static inline int tear_down(void **state)
{
    (void)state;
    bw_router_clear(&b.router);
    free(b.memory);
    return 0;
}

/* Advances the time in small steps, as at a node that runs. */
static inline void run_for(bw_time span)
{
    for (bw_time end = b.now + span; b.now < end;) {
        b.now += 50 * BW_MS;
        bw_router_expire(&b.router, scratch, sizeof scratch);
        bw_router_flush(&b.router);
    }
}

static inline void grant(int64_t lease)
{
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = lease, .ttl_ns = TTL}};
    uint64_t id = bw_router_propose(&b.router, &entry, scratch, sizeof scratch);
    bw_router_flush(&b.router);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_int_equal(b.done, id);
    b.length = 0;
}

static inline struct bw_entry logged(void)
{
    struct bw_entry entry;
    assert_true(b.length > BW_ROUTER_HEAD);
    assert_int_equal(bw_entry_decode(&entry, &entry_scratch, b.logged + BW_ROUTER_HEAD,
                                     b.length - BW_ROUTER_HEAD),
                     0);
    return entry;
}

#endif
