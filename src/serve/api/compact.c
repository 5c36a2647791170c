/* Automatic compaction, as in etcd (server/etcdserver/api/v3compactor): the leader compacts the
 * history in one of two modes.
 *
 *   periodic   keeps the revisions of the last `period`. The revision is recorded ten times per
 *              period (at most every six minutes). From the first full period on, the oldest record
 *              is compacted once per period, at most every hour.
 *   revision   keeps the last `revisions` revisions; checked every REVISION_MS.
 *
 * A node that becomes leader uses its own records: every node records, the leader proposes. */
#include "core/base/error.h"
#include "serve/api/service.h"
#include "serve/api/state.h"

#include <stdlib.h>

#define REVISION_MS 5000u
#define HOUR_NS     (3600 * BW_SEC)
#define TENTHS      10u

struct bw_compactor {
    uv_timer_t timer;
    struct bw_service *service;
    struct bw_call call; /* the proposals run on behalf of this call */
    int64_t *records;    /* periodic: a ring of revisions, the oldest at `first` */
    uint32_t size, first, count, ticks;
    int64_t done; /* the revision of the last success */
};

static void ignore_end(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    (void)code;
    (void)text;
}

/* A refusal means that the revision was already compacted. */
static void applied(struct bw_call *call, int64_t revision, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    struct bw_compactor *compactor = call->service->compactor;
    (void)entry;
    (void)results;
    if (!refusal || refusal == BW_REFUSED_COMPACTED)
        compactor->done = revision;
}

static void failed(struct bw_call *call, int64_t revision, int error)
{
    (void)call;
    (void)revision;
    (void)error; /* the timer retries */
}

static void propose(struct bw_compactor *compactor, int64_t revision)
{
    struct bw_service *service = compactor->service;
    struct bw_replica_status status;
    bw_replica_status(service->replica, &status);
    if (!status.leading || revision <= 0 || revision == compactor->done || compactor->call.waits)
        return;
    struct bw_entry entry = {.kind = BW_ENTRY_COMPACT,
                             .by = bw_registry_node_requester(bw_service_registry(service)),
                             .revision = revision};
    uint64_t request = bw_replica_propose(service->replica, &entry);
    struct bw_wait *wait = request ? bw_service_wait(&compactor->call, request) : NULL;
    compactor->call.ended = false;
    if (!wait)
        return;
    wait->number = revision;
    wait->applied = applied;
    wait->failed = failed;
}

static int64_t revision_now(const struct bw_compactor *compactor)
{
    struct bw_registry_status status;
    bw_registry_status(bw_replica_registry(compactor->service->replica), &status);
    return status.revision;
}

static void on_revision_tick(uv_timer_t *timer)
{
    struct bw_compactor *compactor = timer->data;
    propose(compactor, revision_now(compactor) - compactor->service->options.compact_revisions);
}

/* The ring holds the records of one period: its oldest one is a period old. */
static void on_period_tick(uv_timer_t *timer)
{
    struct bw_compactor *compactor = timer->data;
    bool full = compactor->count == compactor->size;
    if (full && compactor->ticks % TENTHS == 0)
        propose(compactor, compactor->records[compactor->first]);
    compactor->ticks += full;
    uint32_t place = (compactor->first + compactor->count) % compactor->size;
    compactor->records[place] = revision_now(compactor);
    if (full)
        compactor->first = (compactor->first + 1) % compactor->size;
    else
        compactor->count++;
}

static bool start(struct bw_compactor *compactor)
{
    bw_time period = compactor->service->options.compact_period_ns;
    bw_time tick = (period < HOUR_NS ? period : HOUR_NS) / TENTHS;
    uint64_t tick_ms = tick < BW_MS ? 1 : (uint64_t)(tick / BW_MS);
    if (!period)
        return uv_timer_start(&compactor->timer, on_revision_tick, REVISION_MS, REVISION_MS) == 0;
    compactor->size = (uint32_t)((uint64_t)(period / BW_MS) / tick_ms) + 1;
    compactor->records = calloc(compactor->size, sizeof compactor->records[0]);
    return compactor->records && uv_timer_start(&compactor->timer, on_period_tick, 0, tick_ms) == 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_compactor *compactor = handle->data;
    free(compactor->records);
    free(compactor);
}

int bw_service_compactor_open(struct bw_service *service)
{
    if (!service->options.compact_period_ns && !service->options.compact_revisions)
        return 0;
    struct bw_compactor *compactor = calloc(1, sizeof *compactor);
    if (!compactor)
        return BW_ENOMEM;
    compactor->service = service;
    compactor->call = (struct bw_call){.service = service, .end = ignore_end};
    uv_timer_init(service->options.loop, &compactor->timer);
    compactor->timer.data = compactor;
    service->compactor = compactor;
    if (start(compactor))
        return 0;
    bw_service_compactor_close(service);
    return BW_ENOMEM;
}

void bw_service_compactor_close(struct bw_service *service)
{
    if (!service->compactor)
        return;
    bw_call_gone(&service->compactor->call);
    uv_close((uv_handle_t *)&service->compactor->timer, on_closed);
    service->compactor = NULL;
}
