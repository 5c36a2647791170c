/* Calls that wait for the replica, response headers, and errors in the words that clients match;
 * see service.h. */
#include "serve/api/service.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "os/clock.h"
#include "os/journal.h"
#include "serve/api/binding.h"
#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define READ_KVS 262144u
/* time without a leader after which new streams that require one are refused: etcd's default
 * election timeout */
#define NEW_STREAM_MS 1000u

static struct bw_wait **bucket_of(const struct bw_service *service, uint64_t request)
{
    return &service->buckets[request & (WAIT_BUCKETS - 1)];
}

struct bw_wait *bw_service_wait(struct bw_call *call, uint64_t request)
{
    struct bw_service *service = call->service;
    struct bw_wait *wait = request ? calloc(1, sizeof *wait) : NULL;
    if (!wait) {
        if (request)
            bw_replica_forget(service->replica, request);
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
        return NULL;
    }
    struct bw_wait **bucket = bucket_of(service, request);
    *wait = (struct bw_wait){.call = call,
                             .request = request,
                             .chain = *bucket,
                             .next = call->waits,
                             .link = &call->waits};
    *bucket = wait;
    service->waiting++;
    if (call->waits)
        call->waits->link = &wait->next;
    call->waits = wait;
    return wait;
}

struct bw_wait *bw_service_propose(struct bw_call *call, struct bw_entry *entry,
                                   void (*applied)(struct bw_call *, int64_t,
                                                   const struct bw_entry *, enum bw_refusal,
                                                   const struct bw_results *))
{
    entry->by = bw_auth_by(call);
    if (!bw_service_has_space(call, entry))
        return NULL;
    struct bw_wait *wait = bw_service_wait(call, bw_replica_propose(call->service->replica, entry));
    if (wait)
        wait->applied = applied;
    return wait;
}

struct bw_wait *bw_service_read(struct bw_call *call,
                                void (*answered)(struct bw_call *, int64_t, bw_time))
{
    struct bw_wait *wait = bw_service_wait(call, bw_replica_read(call->service->replica));
    if (wait) {
        wait->answered = answered;
        wait->reads = true;
        wait->large = true;
    }
    return wait;
}

static void unlink_wait(struct bw_service *service, struct bw_wait *wait)
{
    struct bw_wait **at = bucket_of(service, wait->request);
    while (*at != wait)
        at = &(*at)->chain;
    *at = wait->chain;
    service->waiting--;
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
}

/* Removes the wait for a request from the table. Returns false if the call no longer waits. */
static bool take_wait(struct bw_service *service, uint64_t request, struct bw_wait *out)
{
    struct bw_wait *at = *bucket_of(service, request);
    while (at && at->request != request)
        at = at->chain;
    if (!at)
        return false;
    unlink_wait(service, at);
    *out = *at;
    free(at);
    return !out->call->ended;
}

static struct bw_call_figures *figures_of(const struct bw_call *call)
{
    return call->method && call->service->figures
               ? &call->service->figures[call->method - bw_methods]
               : NULL;
}

static void count_started(struct bw_call *call)
{
    struct bw_call_figures *figures = figures_of(call);
    if (call->since || !figures)
        return;
    call->since = bw_clock_boot();
    figures->started++;
}

static void count_ended(struct bw_call *call, enum bw_code code)
{
    struct bw_call_figures *figures = figures_of(call);
    if (!call->since || !figures)
        return;
    figures->handled[code]++;
    bw_histogram_add(&figures->seconds, &bw_bounds_call, bw_clock_boot() - call->since);
}

const struct bw_call_figures *bw_service_figures(const struct bw_service *service)
{
    return service->figures;
}

/* A wrong number of request messages yields the status INTERNAL, as in grpc-go. */
bool bw_call_may_take(struct bw_call *call)
{
    count_started(call);
    if (call->asked && call->method->arity != BW_BIDI_STREAM && !BW_BUG(call_takes_two_requests)) {
        bw_call_end(call, BW_CODE_INTERNAL,
                    "grpc: more than one request message for a call that takes one");
        return false;
    }
    return bw_auth_may(call);
}

/* etcd bounds what it proposes; a Range and a stream propose nothing. */
static bool is_too_large(const struct bw_call *call, size_t bytes)
{
    return bytes > BW_REQUEST_MAX && call->method->arity == BW_UNARY &&
           call->method->request != &api__range_request__descriptor;
}

void bw_call_take(struct bw_call *call, const ProtobufCMessage *message, size_t bytes)
{
    call->asked = true;
    if (is_too_large(call, bytes))
        bw_service_refuse(call, BW_REFUSED_TOO_LARGE);
    else if (bw_service_may(call, message))
        call->method->message(call, message);
}

void bw_call_no_more(struct bw_call *call)
{
    if (call->ended)
        return;
    if (!call->asked && call->method->arity != BW_BIDI_STREAM)
        bw_call_end(call, BW_CODE_INTERNAL, "grpc: no request message");
    else if (call->method->no_more)
        call->method->no_more(call);
}

void bw_call_send(struct bw_call *call, const ProtobufCMessage *message)
{
    if (!call->ended)
        call->send(call, message);
}

void bw_call_end(struct bw_call *call, enum bw_code code, const char *text)
{
    if (call->ended)
        return;
    call->ended = true;
    count_ended(call, code);
    call->end(call, code, code == BW_CODE_OK ? "" : text);
}

void bw_call_leaderless(struct bw_call *call)
{
    if (call->method && bw_method_streams(call->method) && call->needs_leader)
        bw_call_end(call, BW_CODE_UNAVAILABLE, "etcdserver: no leader");
}

/* After the leader's death a node of etcd still names it until the election timeout, whereas a node
 * of ours knows at once. */
void bw_call_check_leader(struct bw_call *call)
{
    if (bw_service_is_leaderless(call->service, NEW_STREAM_MS))
        bw_call_leaderless(call);
}

void bw_call_gone(struct bw_call *call)
{
    struct bw_service *service = call->service;
    if (!call->ended)
        count_ended(call, BW_CODE_CANCELLED);
    call->ended = true;
    while (call->waits) {
        struct bw_wait *wait = call->waits;
        /* The change may still be applied. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        if (wait->binds)
            bw_binding_add(call->binding, &call->caller, wait->number);
        bw_replica_forget(service->replica, wait->request); /* NOLINT(clang-analyzer-unix.Malloc) */
        unlink_wait(service, wait);
        free(wait);
    }
    bw_service_await_forget(call);
    if (call->held)
        bw_service_pace_forget(call->held);
    free(call->held);
    call->held = NULL;
    if (call->method && call->method->gone)
        call->method->gone(call);
}

static void on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    struct bw_wait wait;
    bw_service_alarm_ended(context, request);
    if (take_wait(context, request, &wait) && wait.applied)
        wait.applied(wait.call, wait.number, entry, refusal, results);
}

/* Holds a read until the client has read earlier responses, and builds its response only then. It
 * then returns newer state, which is allowed while a read is in progress. */
static void hold(const struct bw_wait *wait, bw_time ttl_ns)
{
    struct bw_call *call = wait->call;
    call->held = malloc(sizeof *call->held);
    if (!call->held) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: no memory");
        return;
    }
    *call->held = *wait;
    call->held->link = NULL;
    call->held->ttl_ns = ttl_ns;
    call->awaits_reader = true;
}

void bw_call_answer_held(struct bw_call *call)
{
    struct bw_wait wait = *call->held;
    free(call->held);
    call->held = NULL;
    if (!wait.reads || bw_auth_may(call))
        wait.answered(call, wait.number, wait.ttl_ns);
}

bool bw_call_is_full(struct bw_call *call)
{
    bool full = call->is_full(call);
    call->awaits_reader |= full;
    return full;
}

void bw_call_writable(struct bw_call *call)
{
    if (!call->awaits_reader || call->ended ||
        (call->held ? call->is_crowded(call) : call->is_full(call)))
        return;
    call->awaits_reader = false;
    if (call->held)
        bw_call_answer_held(call);
    else if (call->method->writable)
        call->method->writable(call);
}

static void on_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    struct bw_wait wait;
    if (!take_wait(context, request, &wait) || !wait.answered)
        return;
    if (wait.large && wait.call->is_crowded(wait.call))
        hold(&wait, ttl_ns);
    else if (!wait.reads || bw_auth_may(wait.call))
        wait.answered(wait.call, wait.number, ttl_ns);
}

static void on_failed(void *context, uint64_t request, int error)
{
    struct bw_wait wait;
    bw_service_alarm_ended(context, request);
    if (!take_wait(context, request, &wait))
        return;
    if (wait.failed)
        wait.failed(wait.call, wait.number, error);
    else if (error == BW_ELOST && !wait.reads) /* as in etcd: it may have been executed */
        bw_service_fail(wait.call, BW_ETIMEDOUT);
    else
        bw_service_fail(wait.call, error);
}

/* Reports once that the cluster has users, so that the caller can protect its secrets. */
static void report_users(struct bw_service *service)
{
    struct bw_users_status status;
    bw_registry_users_status(bw_service_registry(service), &status);
    if (service->users_reported || status.revision == 0)
        return;
    service->users_reported = true;
    if (service->options.users_known)
        service->options.users_known(service->options.context, status.count);
}

static void on_changed(void *context, bool restored)
{
    struct bw_service *service = context;
    service->restores += restored;
    report_users(context);
    bw_service_check_quota(context);
    bw_service_notify_watchers(context, restored);
}

/* Notes when the leader was lost. */
static void note_leader(struct bw_service *service)
{
    struct bw_replica_status status;
    uint64_t now_ms = uv_now(service->options.loop);
    bw_replica_status(service->replica, &status);
    bw_dashboard_note_leader(service, status.leader);
    if (status.leader != BW_NODE_NONE)
        service->leaderless_ms = 0;
    else if (!service->leaderless_ms)
        service->leaderless_ms = now_ms ? now_ms : 1;
}

static void on_led(void *context)
{
    struct bw_service *service = context;
    if (service->replica) /* NULL: opening */
        note_leader(service);
    if (service->options.led)
        service->options.led(service->options.context);
}

static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    struct bw_service *service = context;
    service->options.ended(service->options.context, end, why);
}

static const struct {
    enum bw_code code;
    const char *text;
} refusals[] = {
    [BW_REFUSED_NONE] = {BW_CODE_OK, ""},
    [BW_REFUSED_NO_KEY] = {BW_CODE_INVALID, "etcdserver: key is not provided"},
    [BW_REFUSED_KEY_UNKNOWN] = {BW_CODE_INVALID, "etcdserver: key not found"},
    [BW_REFUSED_VALUE_GIVEN] = {BW_CODE_INVALID, "etcdserver: value is provided"},
    [BW_REFUSED_LEASE_GIVEN] = {BW_CODE_INVALID, "etcdserver: lease is provided"},
    [BW_REFUSED_DUPLICATE] = {BW_CODE_INVALID, "etcdserver: duplicate key given in txn request"},
    [BW_REFUSED_TOO_MANY] = {BW_CODE_INVALID, "etcdserver: too many operations in txn request"},
    [BW_REFUSED_TOO_LARGE] = {BW_CODE_INVALID, "etcdserver: request is too large"},
    [BW_REFUSED_NO_LEASE] = {BW_CODE_NOT_FOUND, "etcdserver: requested lease not found"},
    [BW_REFUSED_LEASE_EXISTS] = {BW_CODE_PRECONDITION, "etcdserver: lease already exists"},
    [BW_REFUSED_TTL] = {BW_CODE_OUT_OF_RANGE, "etcdserver: too large lease TTL"},
    [BW_REFUSED_NO_SPACE] = {BW_CODE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
    [BW_REFUSED_COMPACTED] = {BW_CODE_OUT_OF_RANGE,
                              "etcdserver: mvcc: required revision has been compacted"},
    [BW_REFUSED_FUTURE] = {BW_CODE_OUT_OF_RANGE,
                           "etcdserver: mvcc: required revision is a future revision"},
    [BW_REFUSED_NOT_AUTHENTICATED] = {BW_CODE_INVALID, "etcdserver: user name is empty"},
    [BW_REFUSED_TOKEN] = {BW_CODE_UNAUTHENTICATED, "etcdserver: invalid auth token"},
    [BW_REFUSED_DENIED] = {BW_CODE_DENIED, "etcdserver: permission denied"},
    [BW_REFUSED_USER_EXISTS] = {BW_CODE_PRECONDITION, "etcdserver: user name already exists"},
    [BW_REFUSED_USER_UNKNOWN] = {BW_CODE_PRECONDITION, "etcdserver: user name not found"},
    [BW_REFUSED_ROLE_NOT_GRANTED] = {BW_CODE_PRECONDITION,
                                     "etcdserver: role is not granted to the user"},
    [BW_REFUSED_NO_ROOT] = {BW_CODE_PRECONDITION, "etcdserver: root user does not exist"},
    [BW_REFUSED_ROOT_ROLE] = {BW_CODE_PRECONDITION,
                              "etcdserver: root user does not have root role"},
    [BW_REFUSED_LAST_ADMIN] = {BW_CODE_INVALID, "etcdserver: invalid auth management"},
    [BW_REFUSED_USERS_FULL] = {BW_CODE_EXHAUSTED, "bellwether: too many users"},
    [BW_REFUSED_IMPORT] = {BW_CODE_PRECONDITION,
                           "bellwether: cannot import users: the cluster already had users"},
    [BW_REFUSED_ROLE_EXISTS] = {BW_CODE_PRECONDITION, "etcdserver: role name already exists"},
    [BW_REFUSED_ROLE_UNKNOWN] = {BW_CODE_PRECONDITION, "etcdserver: role name not found"},
    [BW_REFUSED_PERM_NOT_GRANTED] = {BW_CODE_PRECONDITION,
                                     "etcdserver: permission is not granted to the role"},
    [BW_REFUSED_ROLES_FULL] = {BW_CODE_EXHAUSTED,
                               "bellwether: too many roles, permissions of a role, or roles of a "
                               "user"}};

uint64_t bw_service_quota(const struct bw_service *service)
{
    return service->options.quota;
}

/* A node that has not caught up yet does not know the user of a good token, and may not know that
 * users are enabled: then the registry refuses the request later, when it is applied. */
void bw_service_refuse(struct bw_call *call, enum bw_refusal refusal)
{
    if (call->caller.invalid && refusal == BW_REFUSED_NOT_AUTHENTICATED)
        refusal = BW_REFUSED_TOKEN;
    bw_call_end(call, refusals[refusal].code, refusals[refusal].text);
}

void bw_service_fail(struct bw_call *call, int error)
{
    const char *text = "etcdserver: request timed out";
    if (error == BW_ENOTLEADER)
        text = "etcdserver: no leader";
    else if (error == BW_ELOST)
        text = "etcdserver: leader changed";
    else if (error == BW_EBUSY || error == BW_ELIMIT)
        text = "etcdserver: too many requests";
    bw_call_end(call,
                error == BW_EBUSY || error == BW_ELIMIT ? BW_CODE_EXHAUSTED : BW_CODE_UNAVAILABLE,
                text);
}

/* A learner may be far behind, so it serves only its own status and serializable reads. */
bool bw_service_may(struct bw_call *call, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *kind = call->method->request;
    bool serializable = kind == &api__range_request__descriptor &&
                        ((const Api__RangeRequest *)message)->serializable;
    if (serializable || kind == &api__status_request__descriptor ||
        kind == &api__dashboard_request__descriptor || bw_replica_is_voter(call->service->replica))
        return true;
    bw_call_end(call, BW_CODE_UNAVAILABLE, "etcdserver: rpc not supported for learner");
    return false;
}

void bw_service_header(const struct bw_service *service, Api__Header *header, int64_t revision)
{
    struct bw_replica_status status;
    struct bw_registry_status registry;
    bw_replica_status(service->replica, &status);
    bw_registry_status(bw_replica_registry(service->replica), &registry);
    api__header__init(header);
    header->cluster_id = service->options.cluster;
    header->member_id = service->options.self;
    header->revision = revision ? revision : registry.revision;
    header->raft_term = status.term;
}

/* Adds a block to the scratch memory. Returns false if memory is exhausted. */
static bool add_scratch(struct bw_service *service, size_t bytes)
{
    size_t size = bytes > SCRATCH_BYTES ? bytes : SCRATCH_BYTES;
    struct scratch *scratch = malloc(sizeof *scratch + size);
    if (!scratch)
        return false;
    *scratch = (struct scratch){.next = service->scratch, .size = size};
    service->scratch = scratch;
    return true;
}

static bool has_scratch(const struct bw_service *service, size_t bytes)
{
    const struct scratch *scratch = service->scratch;
    return scratch && scratch->size - scratch->used >= bytes;
}

void *bw_service_scratch(struct bw_service *service, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!has_scratch(service, bytes) && !add_scratch(service, bytes)) {
        bw_print_line(BW_PRIORITY_ERROR,
                      "bellwether: cannot build a response: out of memory; exiting");
        abort();
    }
    void *at = service->scratch->bytes + service->scratch->used;
    service->scratch->used += bytes;
    return at;
}

bool bw_service_reserve(struct bw_call *call, size_t count, size_t bytes, const char *without)
{
    bw_service_scratch_clear(call->service);
    return bw_service_extend(call, count, bytes, without);
}

bool bw_service_extend(struct bw_call *call, size_t count, size_t bytes, const char *without)
{
    struct bw_service *service = call->service;
    size_t each = (bytes + 15 + 16) & ~(size_t)15; /* rounded up, and a pointer to it */
    if (count <= SIZE_MAX / 2 / each) {
        size_t all = count * each + SCRATCH_BYTES / 2;
        if (has_scratch(service, all) || add_scratch(service, all))
            return true;
    }
    bw_call_end(call, BW_CODE_EXHAUSTED, without);
    return false;
}

/* Keeps the first block: most responses fit into it. */
void bw_service_scratch_clear(struct bw_service *service)
{
    struct scratch *scratch = service->scratch;
    while (scratch && scratch->next) {
        struct scratch *next = scratch->next;
        free(scratch);
        scratch = next;
    }
    if (scratch)
        scratch->used = 0;
    service->scratch = scratch;
}

static ProtobufCBinaryData binary(struct bw_slice slice)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)slice.at, .len = slice.length};
}

Api__KeyValue *bw_service_kv(struct bw_service *service, const struct bw_kv *kv, bool keys_only)
{
    Api__KeyValue *out = bw_service_scratch(service, sizeof *out);
    api__key_value__init(out);
    out->key = binary(bw_kv_key(kv));
    if (!keys_only)
        out->value = binary(bw_kv_value(kv));
    out->create_revision = kv->create_revision;
    out->mod_revision = kv->mod_revision;
    out->version = kv->version;
    out->lease = kv->lease;
    return out;
}

struct bw_replica *bw_service_replica(struct bw_service *service)
{
    return service->replica;
}

uv_loop_t *bw_service_loop(struct bw_service *service)
{
    return service->options.loop;
}

uint64_t bw_service_cluster(const struct bw_service *service)
{
    return service->options.cluster;
}

struct bw_passwords *bw_service_passwords(struct bw_service *service)
{
    return service->passwords;
}

bool bw_service_is_leaderless(const struct bw_service *service, uint64_t ms)
{
    uint64_t detect_ms = (uint64_t)(service->options.timeout_ns / BW_MS);
    uint64_t least = ms > detect_ms ? ms : detect_ms;
    return service->leaderless_ms &&
           uv_now(service->options.loop) >= service->leaderless_ms + least;
}

void bw_service_list_clients(struct bw_service *service,
                             uint32_t (*list)(void *context, struct bw_client_view *out,
                                              uint32_t size),
                             void *context)
{
    service->list_clients = list;
    service->clients_context = context;
}

bool bw_service_has_peer_tls(const struct bw_service *service)
{
    return service->options.credentials;
}

struct bw_registry *bw_service_registry(struct bw_service *service)
{
    return bw_replica_registry(service->replica);
}

struct bw_watches *bw_service_watches(struct bw_service *service)
{
    return service->watches;
}

struct bw_results *bw_service_results(struct bw_service *service)
{
    return &service->results;
}

uint32_t bw_service_waiting(const struct bw_service *service)
{
    return service->waiting + service->awaiting_count;
}

bw_time bw_service_ttl_min(const struct bw_service *service)
{
    return service->options.ttl_min_ns;
}

static int open_watches(struct bw_service *service)
{
    service->watch_bytes = bw_watches_bytes(WATCHERS_MAX);
    service->watch_memory = mmap(NULL, service->watch_bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (service->watch_memory == MAP_FAILED) {
        service->watch_memory = NULL;
        return BW_ENOMEM;
    }
    return bw_watches_init(&service->watches, service->watch_memory, service->watch_bytes,
                           WATCHERS_MAX);
}

static void service_free(struct bw_service *service)
{
    bw_service_scratch_clear(service);
    free(service->scratch);
    if (service->watch_memory)
        munmap(service->watch_memory, service->watch_bytes);
    free((void *)service->results.kvs);
    if (service->passwords)
        bw_passwords_close(service->passwords);
    free(service->buckets);
    free(service->figures);
    free(service);
}

/* Clients must not know the key, so it comes from the kernel. */
static int draw_hash_key(struct bw_service *service, char *why)
{
    struct bw_hash_key *key = &service->options.registry.hash_key;
    if (getrandom(key, sizeof *key, 0) == (ssize_t)sizeof *key)
        return 0;
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot get random numbers from the kernel: %s",
             strerror(errno));
    return BW_EIO;
}

int bw_service_open(struct bw_service **out, const struct bw_service_options *options, char *why)
{
    struct bw_service *service = calloc(1, sizeof *service);
    if (!service)
        return BW_ENOMEM;
    service->options = *options;
    int error = draw_hash_key(service, why);
    size_t methods = 0;
    while (bw_methods[methods].path)
        methods++;
    service->figures = calloc(methods + 1, sizeof *service->figures);
    service->buckets = calloc(WAIT_BUCKETS, sizeof(struct bw_wait *));
    service->results.kvs = malloc(READ_KVS * sizeof(const struct bw_kv *));
    service->results.kv_cap = READ_KVS;
    service->passwords = bw_passwords_new(options->loop);
    struct bw_replica_options replica = {.loop = options->loop,
                                         .directory = options->directory,
                                         .cluster = options->cluster,
                                         .self = options->self,
                                         .members = options->members,
                                         .count = options->count,
                                         .joins = options->joins,
                                         .publish = options->publish,
                                         .listen_host = options->listen_host,
                                         .listen_port = options->listen_port,
                                         .credentials = options->credentials,
                                         .heartbeat_ns = options->heartbeat_ns,
                                         .timeout_ns = options->timeout_ns,
                                         .registry = service->options.registry,
                                         .context = service,
                                         .applied = on_applied,
                                         .answered = on_answered,
                                         .failed = on_failed,
                                         .changed = on_changed,
                                         .led = on_led,
                                         .ended = on_ended};
    bool allocated =
        service->buckets && service->results.kvs && service->passwords && add_scratch(service, 0);
    if (!error)
        error = allocated ? open_watches(service) : BW_ENOMEM;
    if (!error)
        error = bw_replica_open(&service->replica, &replica, why);
    if (error) {
        service_free(service);
        return error;
    }
    note_leader(service);
    bw_service_notify_open(service);
    bw_service_import_open(service);
    if (bw_service_compactor_open(service) != 0)
        bw_print_line(BW_PRIORITY_ERROR, "bellwether: cannot compact automatically: out of memory");
    *out = service;
    return 0;
}

static void on_closed(void *context)
{
    struct bw_service *service = context;
    void (*closed)(void *context) = service->closed;
    void *owner = service->options.context;
    service_free(service);
    if (closed)
        closed(owner);
}

void bw_service_leave(struct bw_service *service)
{
    service->leaving = true;
}

bool bw_service_is_leaving(const struct bw_service *service)
{
    return service->leaving;
}

void bw_service_close(struct bw_service *service, void (*closed)(void *context))
{
    service->closed = closed;
    bw_bindings_close(service);
    bw_service_notify_close(service);
    bw_service_pace_close(service);
    bw_service_await_close(service);
    bw_service_import_close(service);
    bw_service_compactor_close(service);
    bw_replica_close(service->replica, on_closed);
}
