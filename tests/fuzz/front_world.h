/* A service without disk, network or threads, for the fuzzer and for tests of clients that break
 * the protocol. The services, the registry and the transports are the real ones. The replica
 * decides everything on request; the connection counts what is sent. Include it in one file of a
 * program: its definitions override those in the archives. */
#ifndef BW_TESTS_FUZZ_FRONT_WORLD_H
#define BW_TESTS_FUZZ_FRONT_WORLD_H

#include "core/base/assert.h"
#include "core/base/error.h"
#include "serve/api/state.h"
#include "serve/auth/password.h"
#include "serve/front/gateway.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ENTRY_BYTES (BW_REQUEST_MAX + 65536u)
#define ASKED_MAX   256u
#define ROUNDS_MAX  64u
#define PREFACE     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* ---- the replica ---- */

struct pending {
    uint64_t id; /* 0: forgotten */
    enum bw_replica_kind kind;
    int64_t lease;
    unsigned char *bytes;
    size_t length;
};

struct bw_replica {
    struct bw_replica_options options;
    struct bw_registry *registry;
    void *memory;
    struct pending pending[ASKED_MAX];
    uint32_t count;
    uint64_t last;
    struct bw_op_result ops[BW_TXN_ALL_MAX];
    const struct bw_kv *kvs[1024];
};

static unsigned char scratch[ENTRY_BYTES];
static const struct bw_registry_config config = {
    .quota = 8 << 20, .leases_max = 64, .history = 1024};

int bw_replica_open(struct bw_replica **out, const struct bw_replica_options *options, char *why)
{
    struct bw_replica *r = calloc(1, sizeof *r);
    (void)why;
    BW_ASSERT(r);
    r->options = *options;
    r->memory = mmap(NULL, bw_registry_bytes(&config), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BW_ASSERT(r->memory != MAP_FAILED);
    BW_ASSERT(bw_registry_init(&r->registry, r->memory, bw_registry_bytes(&config), &config) == 0);
    bw_registry_raise(r->registry, BW_REGISTRY_LEVEL);
    *out = r;
    return 0;
}

void bw_replica_close(struct bw_replica *r, void (*closed)(void *context))
{
    void *context = r->options.context;
    for (uint32_t i = 0; i < r->count; i++)
        free(r->pending[i].bytes);
    munmap(r->memory, bw_registry_bytes(&config));
    free(r);
    closed(context);
}

static uint64_t ask(struct bw_replica *r, enum bw_replica_kind kind, int64_t lease)
{
    if (r->count == ASKED_MAX)
        return 0;
    r->pending[r->count++] = (struct pending){.id = ++r->last, .kind = kind, .lease = lease};
    return r->last;
}

uint64_t bw_replica_propose(struct bw_replica *r, const struct bw_entry *entry)
{
    int length = bw_entry_encode(entry, scratch, sizeof scratch);
    uint64_t id = length > 0 ? ask(r, BW_REPLICA_PROPOSAL, 0) : 0;
    if (id) {
        struct pending *pending = &r->pending[r->count - 1];
        pending->bytes = malloc((size_t)length);
        BW_ASSERT(pending->bytes);
        memcpy(pending->bytes, scratch, (size_t)length);
        pending->length = (size_t)length;
    }
    return id;
}

uint64_t bw_replica_read(struct bw_replica *r)
{
    return ask(r, BW_REPLICA_READ, 0);
}

uint64_t bw_replica_keep_alive(struct bw_replica *r, int64_t lease)
{
    return ask(r, BW_REPLICA_KEEP_ALIVE, lease);
}

uint64_t bw_replica_left(struct bw_replica *r, int64_t lease)
{
    return ask(r, BW_REPLICA_LEFT, lease);
}

uint64_t bw_replica_transfer(struct bw_replica *r, bw_node to)
{
    (void)to;
    return ask(r, BW_REPLICA_READ, 0);
}

uint64_t bw_replica_change(struct bw_replica *r, const struct bw_member_change *change)
{
    (void)change;
    return ask(r, BW_REPLICA_READ, 0);
}

int bw_replica_backup(struct bw_replica *r, int *fd, pid_t *pid)
{
    (void)r;
    (void)fd;
    (void)pid;
    return BW_EIO;
}

bool bw_replica_is_voter(const struct bw_replica *r)
{
    (void)r;
    return true;
}

void bw_replica_forget(struct bw_replica *r, uint64_t request)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->pending[i].id == request)
            r->pending[i].id = 0;
}

struct bw_registry *bw_replica_registry(struct bw_replica *r)
{
    return r->registry;
}

void bw_replica_peer(const struct bw_replica *r, bw_node node, struct bw_replica_peer *out)
{
    (void)r;
    *out = (struct bw_replica_peer){.connected = true, .match = node};
}

void bw_replica_figures(struct bw_replica *r, struct bw_replica_figures *out)
{
    (void)r;
    *out = (struct bw_replica_figures){0};
}

void bw_replica_status(const struct bw_replica *r, struct bw_replica_status *out)
{
    (void)r;
    *out = (struct bw_replica_status){.self = 1, .leader = 1, .leading = true, .term = 1};
}

uint32_t bw_replica_members(const struct bw_replica *r, struct bw_replica_member *out,
                            uint32_t *voters)
{
    (void)r;
    out[0] = (struct bw_replica_member){.id = 1, .name = "a", .host = "127.0.0.1", .port = 1};
    *voters = 1;
    return 1;
}

static void decide(struct bw_replica *r, const struct pending *pending)
{
    static struct bw_entry_scratch room;
    struct bw_entry entry;
    struct bw_lease_view lease;
    struct bw_results results = {
        .ops = r->ops, .op_cap = BW_TXN_ALL_MAX, .kvs = r->kvs, .kv_cap = 1024};
    if (pending->kind == BW_REPLICA_PROPOSAL) {
        BW_ASSERT(bw_entry_decode(&entry, &room, pending->bytes, pending->length) == 0);
        enum bw_refusal refusal = bw_registry_apply(r->registry, &entry, &results);
        if (pending->id)
            r->options.applied(r->options.context, pending->id, &entry, refusal, &results);
        r->options.changed(r->options.context, false);
        return;
    }
    bool there = bw_registry_lease(r->registry, pending->lease, &lease);
    bw_time none = pending->kind == BW_REPLICA_LEFT ? -1 : 0;
    if (pending->id)
        r->options.answered(r->options.context, pending->id, there ? lease.ttl_ns : none);
}

/* Decides all pending requests. Requests that an answer causes are decided in the next round. */
static void decide_all(struct bw_replica *r)
{
    for (unsigned round = 0; r->count && round < ROUNDS_MAX; round++) {
        static struct pending now[ASKED_MAX];
        uint32_t count = r->count;
        memcpy(now, r->pending, count * sizeof now[0]);
        for (uint32_t i = 0; i < count; i++) {
            now[i].id = r->pending[i].id; /* 0 if bw_replica_forget was called since the copy */
            r->pending[i].bytes = NULL;
            decide(r, &now[i]);
            free(now[i].bytes);
        }
        r->count -= count;
        memmove(r->pending, r->pending + count, r->count * sizeof r->pending[0]);
    }
}

/* ---- passwords: a hash that takes no time ---- */

struct bw_passwords {
    bool closed;
};

struct bw_passwords *bw_passwords_new(uv_loop_t *loop)
{
    (void)loop;
    return calloc(1, sizeof(struct bw_passwords));
}

void bw_passwords_close(struct bw_passwords *all)
{
    free(all);
}

struct bw_password_job *bw_password_job_new(struct bw_passwords *all, struct bw_call *call,
                                            const char *name)
{
    struct bw_password_job *job = calloc(1, sizeof *job);
    BW_ASSERT(job);
    job->all = all;
    job->call = call;
    if (bw_user_name_is_good((struct bw_slice){(const unsigned char *)name, strlen(name)}))
        memcpy(job->user.name, name, strlen(name) + 1);
    return job;
}

void bw_password_job_leave(struct bw_password_job *job)
{
    free(job);
}

void bw_password_set(struct bw_password_job *job, const char *password)
{
    job->good = strlen(password) <= BW_PASSWORD_MAX;
}

bool bw_password_compare(struct bw_password_job *job, void (*then)(struct bw_password_job *, bool))
{
    then(job, job->good);
    return true;
}

bool bw_password_hash(struct bw_password_job *job, void (*then)(struct bw_password_job *, bool))
{
    job->user.secret.ln = job->user.secret.r = job->user.secret.p = 1;
    then(job, true);
    return true;
}

/* ---- the pace of large reads: without a clock, no read waits for it ---- */

bool bw_service_postpone(struct bw_call *call, size_t bytes,
                         void (*answered)(struct bw_call *, int64_t, bw_time))
{
    (void)call;
    (void)bytes;
    (void)answered;
    return false;
}

void bw_service_built(struct bw_service *service, size_t bytes)
{
    (void)service;
    (void)bytes;
}

void bw_service_pace_forget(struct bw_wait *wait)
{
    (void)wait;
}

void bw_service_pace_close(struct bw_service *service)
{
    (void)service;
}

/* ---- the connection: its client reads everything at once ---- */

static void (*on_put)(const unsigned char *bytes, size_t length); /* NULL: ignored */

void bw_conn_put(struct bw_conn *conn, const void *bytes, size_t length)
{
    BW_ASSERT(bytes || !length);
    conn->out_used += length;
    if (on_put)
        on_put(bytes, length);
}

void bw_conn_dirty(struct bw_conn *conn)
{
    conn->dirty = true;
}

/* Bound leases need a loop and time, so they are not supported here. */
struct bw_binding *bw_conn_binding(struct bw_conn *conn, enum bw_bind bind,
                                   const unsigned char hash[BW_BIND_PROOF])
{
    (void)hash;
    BW_ASSERT(!conn->closing && bind != BW_BIND_NOT);
    return NULL;
}

size_t bw_conn_backlog(const struct bw_conn *conn)
{
    return conn->out_used;
}

void bw_conn_pause(struct bw_conn *conn)
{
    BW_ASSERT(!conn->closing);
    conn->paused = true;
}

void bw_conn_resume(struct bw_conn *conn)
{
    BW_ASSERT(!conn->closing);
    conn->paused = false;
}

/* The next call belongs to the next turn. */
void bw_conn_yield(struct bw_conn *conn)
{
    BW_ASSERT(!conn->closing);
    conn->front->turn++;
    conn->dirty = true;
}

void bw_conn_quick(struct bw_conn *conn)
{
    BW_ASSERT(!conn->closing);
}

/* ---- the world ---- */

static void on_world_closed(void *context)
{
    *(bool *)context = true;
}

static void world_open(struct bw_front *front, bool *closed)
{
    static uv_loop_t loop;
    static bool ready;
    if (!ready)
        ready = uv_loop_init(&loop) == 0;
    *closed = false;
    *front = (struct bw_front){.options = {.loop = &loop}};
    struct bw_service_options options = {
        .loop = &loop, .self = 1, .cluster = 1, .ttl_min_ns = BW_SEC, .context = closed};
    BW_ASSERT(bw_service_open(&front->options.service, &options, NULL) == 0);
}

static void world_close(struct bw_front *front, const bool *closed)
{
    bw_service_close(front->options.service, on_world_closed);
    uv_run(front->options.loop, UV_RUN_NOWAIT);
    BW_ASSERT(*closed);
}

static struct bw_conn *conn_new(struct bw_front *front, const struct bw_protocol *protocol)
{
    struct bw_conn *conn = calloc(1, sizeof *conn);
    BW_ASSERT(conn);
    conn->front = front;
    conn->protocol = protocol;
    if (protocol == &bw_protocol_http1)
        BW_ASSERT(bw_http1_begin(conn));
    if (protocol == &bw_protocol_h2) {
        BW_ASSERT(bw_h2_begin(conn));
        BW_ASSERT(protocol->bytes(conn, (const unsigned char *)PREFACE, sizeof PREFACE - 1));
    }
    return conn;
}

static void conn_end(struct bw_conn *conn)
{
    conn->closing = true;
    conn->protocol->gone(conn);
    free(conn);
}

#endif
