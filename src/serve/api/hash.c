/* Hash and HashKV: a hash of all keys at a revision, by which clients compare nodes. As in etcd it
 * is a hash of this node's own content, without asking the others.
 *
 * It is computed in bounded steps, one in each turn of the loop (core/registry/hash.c). */
#include "serve/api/service.h"
#include "serve/api/state.h"

#include "os/grow.h"

#include <stdlib.h>
#include <string.h>

#define STEP_BYTES  ((uint64_t)1 << 20) /* well below a millisecond */
#define RUNNING_MAX 4u

struct job {
    struct bw_call *call;
    uv_idle_t idle;
    struct bw_hashing hashing;
    int64_t revision, compacted; /* of the registry at the start */
    uint64_t restores;           /* of the service at the start */
    bool whole;                  /* Hash, not HashKV */
    unsigned char *visited;
    size_t visited_length, visited_size;
};

static unsigned running;

static void on_closed(uv_handle_t *handle)
{
    struct job *job = handle->data;
    running--;
    free(job->visited);
    free(job);
}

void bw_hash_gone(struct bw_call *call)
{
    struct job *job = call->state;
    call->state = NULL;
    if (job)
        uv_close((uv_handle_t *)&job->idle, on_closed);
}

static void answer(const struct job *job)
{
    struct bw_call *call = job->call;
    Api__HashResponse all = API__HASH_RESPONSE__INIT;
    Api__HashKVResponse kv = API__HASH_KVRESPONSE__INIT;
    Api__Header header;
    all.hash = kv.hash = bw_hashing_result(&job->hashing);
    kv.compact_revision = job->compacted > 0 ? job->compacted : -1; /* -1: never, as in etcd */
    bw_service_header(call->service, &header, job->revision);
    all.header = kv.header = &header;
    bw_call_send(call, job->whole ? &all.base : &kv.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

/* Copies the last visited key: it may be deleted before the next step. */
static bool keep_visited(struct job *job, struct bw_slice key)
{
    if (!bw_grow(&job->visited, &job->visited_size, key.length, 256, 1))
        return false;
    if (key.length && key.at != job->visited)
        memcpy(job->visited, key.at, key.length);
    job->visited_length = key.length;
    return true;
}

static void on_idle(uv_idle_t *idle)
{
    struct job *job = idle->data;
    struct bw_call *call = job->call;
    struct bw_slice visited = {job->visited, job->visited_length};
    enum bw_hash_result result = BW_HASH_LOST;
    if (job->restores == call->service->restores)
        result = bw_registry_hash(bw_service_registry(call->service), &job->hashing, &visited,
                                  STEP_BYTES);
    if (result == BW_HASH_MORE && keep_visited(job, visited))
        return;
    uv_idle_stop(idle);
    if (result == BW_HASH_DONE)
        answer(job);
    else if (result == BW_HASH_LOST)
        bw_service_refuse(call, BW_REFUSED_COMPACTED);
    else
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_NO_MEMORY);
}

static void begin(struct bw_call *call, int64_t revision, bool whole)
{
    struct bw_registry *registry = bw_service_registry(call->service);
    struct bw_registry_status status;
    struct bw_hashing hashing;
    enum bw_refusal refusal = bw_registry_hash_begin(registry, revision, &hashing);
    if (refusal) {
        bw_service_refuse(call, refusal);
        return;
    }
    struct job *job = running < RUNNING_MAX ? calloc(1, sizeof *job) : NULL;
    if (!job) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
        return;
    }
    bw_registry_status(registry, &status);
    running++;
    *job = (struct job){.call = call,
                        .hashing = hashing,
                        .revision = status.revision,
                        .compacted = status.floor,
                        .restores = call->service->restores,
                        .whole = whole};
    uv_idle_init(bw_service_loop(call->service), &job->idle);
    job->idle.data = job;
    call->state = job;
    uv_idle_start(&job->idle, on_idle);
}

void bw_hash_all(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    begin(call, 0, true);
}

void bw_hash_kv(struct bw_call *call, const ProtobufCMessage *message)
{
    begin(call, ((const Api__HashKVRequest *)message)->revision, false);
}
