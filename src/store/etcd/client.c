/* Protobuf messages, authentication and streams over a gRPC channel; see client.h. */
#include "store/etcd/client.h"

#include "core/base/bug.h"
#include "net/api.pb-c.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

/* Memory that unpacking one response may use: small messages grow when they are unpacked. */
#define UNPACK_MAX (16u << 20)

const struct etcd_method etcd_txn_method = {"/etcdserverpb.KV/Txn", &api__txn_response__descriptor};
const struct etcd_method etcd_grant_method = {"/etcdserverpb.Lease/LeaseGrant",
                                              &api__lease_grant_response__descriptor};
const struct etcd_method etcd_keep_alive_method = {"/etcdserverpb.Lease/LeaseKeepAlive",
                                                   &api__lease_keep_alive_response__descriptor};
const struct etcd_method etcd_watch_method = {"/etcdserverpb.Watch/Watch",
                                              &api__watch_response__descriptor};
const struct etcd_method etcd_status_method = {"/etcdserverpb.Maintenance/Status",
                                               &api__status_response__descriptor};
static const struct etcd_method authenticate_method = {"/etcdserverpb.Auth/Authenticate",
                                                       &api__authenticate_response__descriptor};

/* A call in flight, or one that waits for a new auth token to be sent again. */
struct pending_call {
    struct etcd_client *client;
    struct pending_call *next, *previous; /* list of all calls */
    struct pending_call *after;           /* next call that waits for a token */
    const struct etcd_method *method;
    etcd_done done;
    void *context;
    ProtobufCMessage *reply;
    bool early, urgent, again, malformed, bound;
    size_t length;
    uint8_t bytes[];
};

struct etcd_stream {
    struct etcd_client *client;
    struct etcd_stream *next;
    struct bw_grpc_call *call;
    const struct etcd_method *method;
    void (*message)(void *context, const ProtobufCMessage *message);
    etcd_done done;
    void *context;
    bool bound;
};

struct etcd_client {
    struct etcd_client_options options;
    struct bw_grpc *grpc;
    uint64_t timeout_ms;
    bool authenticating, bound; /* bound: from the response being delivered */
    unsigned char proof[BW_BIND_PROOF];
    char bind[sizeof BW_BIND_WORD +
              2 * (size_t)BW_BIND_PROOF]; /* metadata of a bound lease; "": leases are not bound */
    bool denied; /* the server rejected user or password, and has accepted nothing since */
    struct pending_call *pending_calls;
    struct pending_call *refused; /* calls that wait for a new token */
    struct etcd_stream *streams;
};

static int ask(struct pending_call *pending, char *why);

static struct pending_call *new_pending(struct etcd_client *client,
                                        const struct etcd_method *method,
                                        const ProtobufCMessage *request, etcd_done done,
                                        void *context)
{
    size_t length = protobuf_c_message_get_packed_size(request);
    struct pending_call *pending = calloc(1, sizeof *pending + length);
    if (!pending)
        return NULL;
    *pending = (struct pending_call){
        .client = client, .method = method, .done = done, .context = context, .length = length};
    protobuf_c_message_pack(request, pending->bytes);
    if ((pending->next = client->pending_calls))
        pending->next->previous = pending;
    client->pending_calls = pending;
    return pending;
}

static void free_pending(struct pending_call *pending)
{
    *(pending->previous ? &pending->previous->next : &pending->client->pending_calls) =
        pending->next;
    if (pending->next)
        pending->next->previous = pending->previous;
    if (pending->reply)
        protobuf_c_message_free_unpacked(pending->reply, NULL);
    free(pending);
}

static void free_stream(struct etcd_stream *stream)
{
    struct etcd_stream **at = &stream->client->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

/* ---- messages ---- */

static void *bounded_alloc(void *left, size_t size)
{
    size_t *have = left;
    if (size > *have)
        return NULL;
    *have -= size;
    return malloc(size);
}

static void bounded_free(void *left, void *memory)
{
    (void)left;
    free(memory);
}

static ProtobufCMessage *unpack(const struct etcd_method *method, const uint8_t *bytes,
                                size_t length)
{
    size_t left = UNPACK_MAX;
    ProtobufCAllocator allocator = {bounded_alloc, bounded_free, &left};
    return protobuf_c_message_unpack(method->reply, &allocator, length, bytes);
}

static void on_message(void *context, const uint8_t *bytes, size_t length)
{
    struct pending_call *pending = context;
    if (pending->reply)
        protobuf_c_message_free_unpacked(pending->reply, NULL);
    pending->reply = unpack(pending->method, bytes, length);
    pending->malformed = !pending->reply;
}

enum bw_outcome etcd_outcome(const struct bw_grpc_result *result)
{
    switch (result->code) {
    case BW_GRPC_CANCELLED:
    case BW_GRPC_UNKNOWN:
    case BW_GRPC_DEADLINE:
    case BW_GRPC_INTERNAL:
    case BW_GRPC_UNAVAILABLE:
        return result->sent ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    default: /* the server rejected the request without carrying it out */
        return BW_OUTCOME_UNAVAILABLE;
    }
}

/* ---- authentication ---- */

static void retry_refused(struct etcd_client *client)
{
    struct pending_call *next = client->refused;
    client->refused = NULL;
    while (next) {
        struct pending_call *pending = next;
        struct bw_grpc_result result = {.code = BW_GRPC_UNAVAILABLE};
        next = pending->after;
        if (ask(pending, result.why) == 0)
            continue;
        pending->done(pending->context, NULL, &result);
        free_pending(pending);
    }
}

static void on_authenticated(void *context, const ProtobufCMessage *message,
                             const struct bw_grpc_result *result)
{
    struct etcd_client *client = context;
    const Api__AuthenticateResponse *reply = (const Api__AuthenticateResponse *)message;
    /* authentication is not enabled on the server */
    bool open = result->code == BW_GRPC_PRECONDITION;
    const char *token = reply && reply->token ? reply->token : "";
    client->authenticating = false;
    bw_grpc_set_header(client->grpc, "token", token);
    client->denied = !open && (result->code == BW_GRPC_INVALID || result->code == BW_GRPC_DENIED ||
                               result->code == BW_GRPC_UNAUTHENTICATED);
    if (!open && !token[0]) {
        bw_grpc_leave(client->grpc, result->why[0] ? result->why : "the server sent no auth token",
                      true);
        retry_refused(client);
        return;
    }
    bw_grpc_ready(client->grpc);
    client->options.up(client->options.context);
    retry_refused(client);
}

static bool authenticate(struct etcd_client *client)
{
    Api__AuthenticateRequest request = API__AUTHENTICATE_REQUEST__INIT;
    request.name = client->options.user;
    request.password = client->options.password;
    struct pending_call *pending =
        new_pending(client, &authenticate_method, &request.base, on_authenticated, client);
    char why[BW_GRPC_WHY_MAX + 1];
    if (!pending)
        return false;
    pending->early = pending->again = true;
    if (ask(pending, why) != 0) {
        free_pending(pending);
        return false;
    }
    client->authenticating = true;
    return true;
}

static bool is_token_refused(const struct bw_grpc_result *result)
{
    return result->code == BW_GRPC_UNAUTHENTICATED ||
           (result->code == BW_GRPC_INVALID && (strstr(result->why, "auth store is old") ||
                                                strstr(result->why, "user name is empty")));
}

/* Returns true if the call now waits for a new token. */
static bool wait_for_token(struct pending_call *pending, const struct bw_grpc_result *result)
{
    struct etcd_client *client = pending->client;
    if (!client->options.user[0] || pending->again || !is_token_refused(result))
        return false;
    if (!client->authenticating && !authenticate(client))
        return false;
    pending->again = true;
    pending->after = client->refused;
    client->refused = pending;
    return true;
}

bool etcd_client_denied(const struct etcd_client *client)
{
    return client->denied;
}

/* ---- calls ---- */

static void on_done(void *context, const struct bw_grpc_result *result)
{
    struct pending_call *pending = context;
    struct bw_grpc_result final = *result;
    if (wait_for_token(pending, result))
        return;
    if (final.code == BW_GRPC_OK && !pending->reply) {
        final.code = BW_GRPC_INTERNAL;
        snprintf(final.why, sizeof final.why, "the server's response %s",
                 pending->malformed ? "is malformed" : "is missing");
    }
    bool good = final.code == BW_GRPC_OK;
    pending->client->bound = good && pending->bound;
    pending->done(pending->context, good ? pending->reply : NULL, &final);
    free_pending(pending);
}

/* The response header by which the server confirms the binding. etcd itself does not send it. */
static bool confirms_binding(const char *name, size_t length)
{
    return length > 0 && strcmp(name, "bellwether-bound") == 0;
}

static void on_header(void *context, const char *name, const char *value, size_t length)
{
    struct pending_call *pending = context;
    (void)value;
    pending->bound = pending->bound || confirms_binding(name, length);
}

static const struct bw_grpc_hooks call_hooks = {on_message, on_done, on_header};

/* Binds the lease to this connection: only the guardian's proof that the work is dead ends it
 * early. */
static void add_bind(const struct etcd_client *client, struct bw_grpc_head *head)
{
    if (!client->bind[0])
        return;
    head->own[1].name = "bellwether-bind";
    head->own[1].value = client->bind;
}

static int ask(struct pending_call *pending, char *why)
{
    struct etcd_client *client = pending->client;
    struct bw_grpc_head head = {.path = pending->method->path,
                                .within_ms = pending->early ? bw_grpc_setup_ms(client->grpc)
                                                            : client->timeout_ms,
                                .early = pending->early,
                                .urgent = pending->urgent && !BW_BUG(etcd_forgets_urgency)};
    if (pending->method == &etcd_grant_method)
        add_bind(client, &head);
    struct bw_grpc_call *call = bw_grpc_call(client->grpc, &head, &call_hooks, pending, why);
    if (!call)
        return BW_EIO;
    if (bw_grpc_send(call, pending->bytes, pending->length, true) == 0)
        return 0;
    bw_grpc_cancel(call);
    snprintf(why, BW_GRPC_WHY_MAX + 1, "the request is too large");
    return BW_EIO;
}

int etcd_client_ask(struct etcd_client *client, const struct etcd_method *method,
                    const ProtobufCMessage *request, bool urgent, etcd_done done, void *context,
                    char *why)
{
    struct pending_call *pending = new_pending(client, method, request, done, context);
    if (!pending) {
        snprintf(why, BW_GRPC_WHY_MAX + 1, "no memory for a request");
        return BW_EIO;
    }
    pending->urgent = urgent;
    int error = ask(pending, why);
    if (error)
        free_pending(pending);
    return error;
}

/* ---- streams ---- */

static void on_stream_message(void *context, const uint8_t *bytes, size_t length)
{
    struct etcd_stream *stream = context;
    ProtobufCMessage *message = unpack(stream->method, bytes, length);
    if (!message) {
        bw_grpc_leave(stream->client->grpc, "the server's response is malformed", true);
        return;
    }
    stream->client->bound = stream->bound;
    stream->message(stream->context, message);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Switches to another member if this one has no leader; authenticates again if it rejects our
 * token. */
static void on_stream_done(void *context, const struct bw_grpc_result *result)
{
    struct etcd_stream *stream = context;
    struct etcd_client *client = stream->client;
    struct bw_grpc_result final = *result;
    stream->done(stream->context, NULL, &final);
    free_stream(stream);
    if (final.code == BW_GRPC_UNAVAILABLE && strstr(final.why, "no leader"))
        bw_grpc_leave(client->grpc, final.why, false);
    else if (client->options.user[0] && is_token_refused(&final) && !client->authenticating)
        authenticate(client);
}

static void on_stream_header(void *context, const char *name, const char *value, size_t length)
{
    struct etcd_stream *stream = context;
    (void)value;
    stream->bound = stream->bound || confirms_binding(name, length);
}

static const struct bw_grpc_hooks stream_hooks = {on_stream_message, on_stream_done,
                                                  on_stream_header};

struct etcd_stream *etcd_stream_open(struct etcd_client *client, const struct etcd_method *method,
                                     void (*message)(void *context,
                                                     const ProtobufCMessage *message),
                                     etcd_done done, void *context)
{
    char why[BW_GRPC_WHY_MAX + 1];
    struct bw_grpc_head head = {.path = method->path, .own = {{"hasleader", "true"}}};
    struct etcd_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (struct etcd_stream){
        .client = client, .method = method, .message = message, .done = done, .context = context};
    if (method == &etcd_keep_alive_method)
        add_bind(client, &head);
    stream->call = bw_grpc_call(client->grpc, &head, &stream_hooks, stream, why);
    if (!stream->call) {
        free(stream);
        return NULL;
    }
    stream->next = client->streams;
    client->streams = stream;
    return stream;
}

bool etcd_stream_send(struct etcd_stream *stream, const ProtobufCMessage *request)
{
    uint8_t bytes[4096];
    size_t length = protobuf_c_message_get_packed_size(request);
    if (length > sizeof bytes)
        return false;
    protobuf_c_message_pack(request, bytes);
    return bw_grpc_send(stream->call, bytes, length, false) == 0;
}

uint64_t etcd_client_connection(const struct etcd_client *client)
{
    return bw_grpc_connection(client->grpc);
}

int etcd_client_fd(const struct etcd_client *client)
{
    return bw_grpc_fd(client->grpc);
}

bool etcd_client_bound(const struct etcd_client *client)
{
    return client->bound;
}

uint64_t etcd_now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* ---- opening and closing ---- */

static bool on_up(void *context)
{
    struct etcd_client *client = context;
    if (client->options.user[0]) {
        client->authenticating = false;
        if (!authenticate(client))
            bw_grpc_leave(client->grpc, "no memory to authenticate", true);
        return false;
    }
    /* requests made in this hook are sent as soon as it returns */
    client->options.up(client->options.context);
    return true;
}

static void on_down(void *context, const char *why)
{
    struct etcd_client *client = context;
    (void)why;
    client->options.down(client->options.context);
}

/* One proof for all connections. The guardian reveals it when this process is dead. Without a
 * proof, leases are not bound. */
static void make_proof(struct etcd_client *client)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    if (getrandom(client->proof, sizeof client->proof, 0) != (ssize_t)sizeof client->proof ||
        !SHA256(client->proof, sizeof client->proof, hash))
        return;
    size_t used = (size_t)snprintf(client->bind, sizeof client->bind, "%s", BW_BIND_WORD);
    for (size_t i = 0; i < sizeof hash; i++)
        used += (size_t)snprintf(client->bind + used, sizeof client->bind - used, "%02x", hash[i]);
}

void etcd_client_proof(const struct etcd_client *client, unsigned char proof[BW_BIND_PROOF])
{
    memcpy(proof, client->proof, BW_BIND_PROOF);
}

_Static_assert(BW_DEATH_HASH_MAX == BW_DEATH_PROOF_TEXT, "a record holds a hash");

void etcd_client_death_hash(const struct etcd_client *client, uint64_t token,
                            char hash[BW_DEATH_PROOF_TEXT + 1])
{
    char proof[BW_DEATH_PROOF_TEXT + 1];
    bool known = client->bind[0] && bw_death_proof(client->proof, token, proof) &&
                 bw_death_hash(proof, hash);
    if (!known)
        hash[0] = '\0';
    memset(proof, 0, sizeof proof);
}

int etcd_client_open(struct etcd_client **out, const struct etcd_client_options *options)
{
    struct etcd_client *client = calloc(1, sizeof *client);
    if (!client)
        return BW_ENOMEM;
    client->options = *options;
    client->options.grpc.context = client;
    client->options.grpc.up = on_up;
    client->options.grpc.down = on_down;
    client->timeout_ms = BW_GRPC_TIMEOUT_MS;
    if (options->binds)
        make_proof(client);
    int error = bw_grpc_open(&client->grpc, &client->options.grpc);
    if (error)
        free(client);
    else
        *out = client;
    return error;
}

void etcd_client_close(struct etcd_client *client)
{
    bw_grpc_close(client->grpc);
    while (client->pending_calls)
        /* The call unlinks itself. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        free_pending(client->pending_calls);
    while (client->streams)
        /* The stream unlinks itself. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        free_stream(client->streams);
    memset(client->options.password, 0, sizeof client->options.password);
    free(client);
}

void etcd_client_leave(struct etcd_client *client, const char *why)
{
    bw_grpc_leave(client->grpc, why, true);
}

void etcd_client_set_timeout(struct etcd_client *client, uint64_t ms)
{
    client->timeout_ms = ms;
    bw_grpc_set_timeout(client->grpc, ms);
}
