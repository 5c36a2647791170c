/* libFuzzer: any bytes on the service's port, and any message to its methods, end in answers or in
 * a hang-up, never in a crash, a leak or an endless loop. The services and the registry are the
 * real ones; the replica is one that decides everything at once.
 *
 * The first byte says how the rest is taken: 0 HTTP/2 behind its preface, 1 HTTP/1.1, 2 a protobuf
 * request of the method that the second byte names, 3 its JSON; +4: in small pieces. */
#include "base/assert.h"
#include "base/error.h"
#include "serve/gateway.h"
#include "serve/password.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ENTRY_BYTES (BW_REQUEST_MAX + 65536u)
#define ASKED_MAX   256u
#define ROUNDS_MAX  64u
#define PREFACE     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

/* ── the replica ── */

struct asked {
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
    struct asked asked[ASKED_MAX];
    uint32_t count;
    uint64_t last;
    struct bw_op_result ops[BW_TXN_ALL_MAX];
    const struct bw_kv *kvs[1024];
};

static unsigned char scratch[ENTRY_BYTES];
static const struct bw_registry_config config = {
    .quota = 4 << 20, .leases_max = 64, .history = 1024};

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
        free(r->asked[i].bytes);
    munmap(r->memory, bw_registry_bytes(&config));
    free(r);
    closed(context);
}

static uint64_t ask(struct bw_replica *r, enum bw_replica_kind kind, int64_t lease)
{
    if (r->count == ASKED_MAX)
        return 0;
    r->asked[r->count++] = (struct asked){.id = ++r->last, .kind = kind, .lease = lease};
    return r->last;
}

uint64_t bw_replica_propose(struct bw_replica *r, const struct bw_entry *entry)
{
    int length = bw_entry_encode(entry, scratch, sizeof scratch);
    uint64_t id = length > 0 ? ask(r, BW_REPLICA_PROPOSAL, 0) : 0;
    if (id) {
        struct asked *asked = &r->asked[r->count - 1];
        asked->bytes = malloc((size_t)length);
        BW_ASSERT(asked->bytes);
        memcpy(asked->bytes, scratch, (size_t)length);
        asked->length = (size_t)length;
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
        if (r->asked[i].id == request)
            r->asked[i].id = 0;
}

struct bw_registry *bw_replica_registry(struct bw_replica *r)
{
    return r->registry;
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

static void decide(struct bw_replica *r, const struct asked *asked)
{
    static struct bw_entry_room room;
    struct bw_entry entry;
    struct bw_lease_view lease;
    struct bw_results results = {
        .ops = r->ops, .op_cap = BW_TXN_ALL_MAX, .kvs = r->kvs, .kv_cap = 1024};
    if (asked->kind == BW_REPLICA_PROPOSAL) {
        BW_ASSERT(bw_entry_decode(&entry, &room, asked->bytes, asked->length) == 0);
        enum bw_refusal refusal = bw_registry_apply(r->registry, &entry, &results);
        if (asked->id)
            r->options.applied(r->options.context, asked->id, &entry, refusal, &results);
        r->options.changed(r->options.context, false);
        return;
    }
    bool there = bw_registry_lease(r->registry, asked->lease, &lease);
    bw_time none = asked->kind == BW_REPLICA_LEFT ? -1 : 0;
    if (asked->id)
        r->options.answered(r->options.context, asked->id, there ? lease.ttl_ns : none);
}

/* What an answer makes a method ask again comes in a later round. */
static void decide_all(struct bw_replica *r)
{
    for (unsigned round = 0; r->count && round < ROUNDS_MAX; round++) {
        static struct asked now[ASKED_MAX];
        uint32_t count = r->count;
        memcpy(now, r->asked, count * sizeof now[0]);
        for (uint32_t i = 0; i < count; i++) {
            now[i].id = r->asked[i].id; /* it may be forgotten by now */
            r->asked[i].bytes = NULL;
            decide(r, &now[i]);
            free(now[i].bytes);
        }
        r->count -= count;
        memmove(r->asked, r->asked + count, r->count * sizeof r->asked[0]);
    }
}

/* ── passwords: a hash that takes no time ── */

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

/* ── the connection: whoever is behind it reads everything at once ── */

void bw_conn_put(struct bw_conn *conn, const void *bytes, size_t length)
{
    BW_ASSERT(bytes || !length);
    conn->out_used += length;
}

void bw_conn_dirty(struct bw_conn *conn)
{
    conn->dirty = true;
}

/* Leases that are bound need a loop and time; here they are not. */
struct bw_binding *bw_conn_binding(struct bw_conn *conn, enum bw_bind bind)
{
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
}

void bw_conn_resume(struct bw_conn *conn)
{
    BW_ASSERT(!conn->closing);
}

void bw_conn_quick(struct bw_conn *conn)
{
    BW_ASSERT(!conn->closing);
}

/* ── the ways in ── */

static void turn(struct bw_conn *conn)
{
    decide_all(bw_service_replica(conn->front->options.service));
    conn->dirty = false;
    conn->speech->flush(conn);
    conn->out_used = 0;
}

static void feed(struct bw_conn *conn, const unsigned char *bytes, size_t length, size_t piece)
{
    bool good = true;
    for (size_t at = 0; good && !conn->hang_up && at < length; at += piece) {
        good = conn->speech->bytes(conn, bytes + at, length - at < piece ? length - at : piece);
        if (good)
            turn(conn);
    }
    if (good && conn->speech->no_more && conn->speech->no_more(conn))
        turn(conn);
}

static void speak(struct bw_front *front, bool h2, const unsigned char *bytes, size_t length,
                  size_t piece)
{
    struct bw_conn *conn = calloc(1, sizeof *conn);
    BW_ASSERT(conn);
    conn->front = front;
    conn->speech = h2 ? &bw_speech_h2 : &bw_speech_http1;
    BW_ASSERT(h2 ? bw_h2_begin(conn) : bw_http1_begin(conn));
    if (h2)
        BW_ASSERT(conn->speech->bytes(conn, (const unsigned char *)PREFACE, sizeof PREFACE - 1));
    feed(conn, bytes, length, piece);
    conn->closing = true;
    conn->speech->gone(conn);
    free(conn);
}

static void on_send(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)call;
    BW_ASSERT(protobuf_c_message_get_packed_size(message) < SIZE_MAX / 2);
}

static void on_end(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    BW_ASSERT(code == BW_CODE_OK || (text && text[0]));
}

static bool on_is_full(struct bw_call *call)
{
    (void)call;
    return false;
}

static const struct bw_method *method_of(unsigned char byte)
{
    uint32_t count = 0;
    while (bw_methods[count].path)
        count++;
    return &bw_methods[byte % count];
}

/* The message twice: what it made is there the second time. */
static void call_method(struct bw_front *front, const struct bw_method *method,
                        const unsigned char *bytes, size_t length)
{
    struct bw_call call = {.service = front->options.service,
                           .method = method,
                           .send = on_send,
                           .end = on_end,
                           .is_full = on_is_full};
    for (unsigned i = 0; i < 2 && !call.ended && (i == 0 || method->streams); i++) {
        ProtobufCMessage *message = protobuf_c_message_unpack(method->request, NULL, length, bytes);
        if (!message)
            break;
        method->message(&call, message);
        protobuf_c_message_free_unpacked(message, NULL);
        decide_all(bw_service_replica(front->options.service));
    }
    if (!call.ended && method->no_more)
        method->no_more(&call);
    bw_call_gone(&call);
}

static void say_head(struct bw_gateway *gateway, unsigned status, const char *type, int64_t length)
{
    (void)gateway;
    (void)length;
    BW_ASSERT(status >= 200 && status < 600 && type);
}

static void say_body(struct bw_gateway *gateway, const void *bytes, size_t length)
{
    (void)gateway;
    BW_ASSERT(bytes || !length);
}

static void say_end(struct bw_gateway *gateway)
{
    BW_ASSERT(gateway->begun);
}

static bool say_is_full(struct bw_gateway *gateway)
{
    (void)gateway;
    return false;
}

static void call_json(struct bw_front *front, const struct bw_method *method,
                      const unsigned char *bytes, size_t length)
{
    static const struct bw_gateway_wire wire = {say_head, say_body, say_end, say_is_full};
    struct bw_gateway gateway = {.front = front, .wire = &wire};
    const char *path = method->json ? method->json : "/v3/"; /* some are asked by gRPC only */
    bw_gateway_ask(&gateway, BW_VERB_POST, path, (const char *)bytes, length);
    decide_all(bw_service_replica(front->options.service));
    bw_gateway_gone(&gateway);
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static uv_loop_t loop;
    static bool ready;
    bool closed = false;
    if (length < 2)
        return 0;
    if (!ready)
        ready = uv_loop_init(&loop) == 0;
    struct bw_front front = {.options = {.loop = &loop}};
    struct bw_service_options options = {
        .loop = &loop, .self = 1, .cluster = 1, .ttl_min_ns = BW_SEC, .context = &closed};
    BW_ASSERT(bw_service_open(&front.options.service, &options, NULL) == 0);
    size_t piece = bytes[0] & 4 ? 7 : 65536;
    switch (bytes[0] & 3) {
    case 0:
    case 1:
        speak(&front, (bytes[0] & 1) == 0, bytes + 1, length - 1, piece);
        break;
    case 2:
        call_method(&front, method_of(bytes[1]), bytes + 2, length - 2);
        break;
    default:
        call_json(&front, method_of(bytes[1]), bytes + 2, length - 2);
        break;
    }
    bw_service_close(front.options.service, on_closed);
    BW_ASSERT(closed);
    return 0;
}
