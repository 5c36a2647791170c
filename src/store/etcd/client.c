/* Messages, tokens and streams over a gRPC channel; see client.h. */
#include "store/etcd/client.h"

#include "core/base/bug.h"
#include "net/api.pb-c.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

/* What unpacking one answer may take: small messages grow in memory. */
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

/* A call on its way, or waiting for a new token to be made again. */
struct asking {
    struct etcd_client *client;
    struct asking *next, *previous; /* all there are */
    struct asking *after;           /* waiting for a token */
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
    uint64_t patience_ms;
    bool authenticating, bound; /* bound: as the answer that is being told says */
    unsigned char proof[BW_BIND_PROOF];
    char bind[sizeof BW_BIND_WORD +
              2 * (size_t)BW_BIND_PROOF]; /* metadata; "": leases are not bound */
    bool denied; /* user or password were refused, and nothing has been accepted since */
    struct asking *askings;
    struct asking *refused; /* of them: wait for a new token */
    struct etcd_stream *streams;
};

static int ask(struct asking *asking, char *why);

static struct asking *new_asking(struct etcd_client *client, const struct etcd_method *method,
                                 const ProtobufCMessage *request, etcd_done done, void *context)
{
    size_t length = protobuf_c_message_get_packed_size(request);
    struct asking *asking = calloc(1, sizeof *asking + length);
    if (!asking)
        return NULL;
    *asking = (struct asking){
        .client = client, .method = method, .done = done, .context = context, .length = length};
    protobuf_c_message_pack(request, asking->bytes);
    if ((asking->next = client->askings))
        asking->next->previous = asking;
    client->askings = asking;
    return asking;
}

static void free_asking(struct asking *asking)
{
    *(asking->previous ? &asking->previous->next : &asking->client->askings) = asking->next;
    if (asking->next)
        asking->next->previous = asking->previous;
    if (asking->reply)
        protobuf_c_message_free_unpacked(asking->reply, NULL);
    free(asking);
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
    struct asking *asking = context;
    if (asking->reply)
        protobuf_c_message_free_unpacked(asking->reply, NULL);
    asking->reply = unpack(asking->method, bytes, length);
    asking->malformed = !asking->reply;
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
    default: /* the server looked at it and said no */
        return BW_OUTCOME_UNAVAILABLE;
    }
}

/* ---- who we are ---- */

static void retry_refused(struct etcd_client *client)
{
    struct asking *next = client->refused;
    client->refused = NULL;
    while (next) {
        struct asking *asking = next;
        struct bw_grpc_result result = {.code = BW_GRPC_UNAVAILABLE};
        next = asking->after;
        if (ask(asking, result.why) == 0)
            continue;
        asking->done(asking->context, NULL, &result);
        free_asking(asking);
    }
}

static void on_authenticated(void *context, const ProtobufCMessage *message,
                             const struct bw_grpc_result *result)
{
    struct etcd_client *client = context;
    const Api__AuthenticateResponse *reply = (const Api__AuthenticateResponse *)message;
    bool open = result->code == BW_GRPC_PRECONDITION; /* nobody needs to: no users there */
    const char *token = reply && reply->token ? reply->token : "";
    client->authenticating = false;
    bw_grpc_set_header(client->grpc, "token", token);
    client->denied = !open && (result->code == BW_GRPC_INVALID || result->code == BW_GRPC_DENIED ||
                               result->code == BW_GRPC_UNAUTHENTICATED);
    if (!open && !token[0]) {
        bw_grpc_leave(client->grpc, result->why[0] ? result->why : "no token was given", true);
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
    struct asking *asking =
        new_asking(client, &authenticate_method, &request.base, on_authenticated, client);
    char why[BW_GRPC_WHY_MAX + 1];
    if (!asking)
        return false;
    asking->early = asking->again = true;
    if (ask(asking, why) != 0) {
        free_asking(asking);
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

/* True: it waits for a new token. */
static bool wait_for_token(struct asking *asking, const struct bw_grpc_result *result)
{
    struct etcd_client *client = asking->client;
    if (!client->options.user[0] || asking->again || !is_token_refused(result))
        return false;
    if (!client->authenticating && !authenticate(client))
        return false;
    asking->again = true;
    asking->after = client->refused;
    client->refused = asking;
    return true;
}

bool etcd_client_denied(const struct etcd_client *client)
{
    return client->denied;
}

/* ---- calls ---- */

static void on_done(void *context, const struct bw_grpc_result *result)
{
    struct asking *asking = context;
    struct bw_grpc_result told = *result;
    if (wait_for_token(asking, result))
        return;
    if (told.code == BW_GRPC_OK && !asking->reply) {
        told.code = BW_GRPC_INTERNAL;
        snprintf(told.why, sizeof told.why, "the server's answer %s",
                 asking->malformed ? "cannot be read" : "is missing");
    }
    bool good = told.code == BW_GRPC_OK;
    asking->client->bound = good && asking->bound;
    asking->done(asking->context, good ? asking->reply : NULL, &told);
    free_asking(asking);
}

/* The server's word that it took the binding; others know nothing of it. */
static bool is_bound(const char *name, size_t length)
{
    return length > 0 && strcmp(name, "bellwether-bound") == 0;
}

static void on_header(void *context, const char *name, const char *value, size_t length)
{
    struct asking *asking = context;
    (void)value;
    asking->bound = asking->bound || is_bound(name, length);
}

static const struct bw_grpc_hooks call_hooks = {on_message, on_done, on_header};

/* The guardian of a work that may outlive us says so when it is dead: nothing less ends a lease. */
static void add_bind(const struct etcd_client *client, struct bw_grpc_head *head)
{
    if (!client->bind[0])
        return;
    head->own[1].name = "bellwether-bind";
    head->own[1].value = client->bind;
}

static int ask(struct asking *asking, char *why)
{
    struct etcd_client *client = asking->client;
    struct bw_grpc_head head = {.path = asking->method->path,
                                .within_ms = client->patience_ms,
                                .early = asking->early,
                                .urgent = asking->urgent && !BW_BUG(etcd_forgets_urgency)};
    if (asking->method == &etcd_grant_method)
        add_bind(client, &head);
    struct bw_grpc_call *call = bw_grpc_call(client->grpc, &head, &call_hooks, asking, why);
    if (!call)
        return BW_EIO;
    if (bw_grpc_send(call, asking->bytes, asking->length, true) == 0)
        return 0;
    bw_grpc_cancel(call);
    snprintf(why, BW_GRPC_WHY_MAX + 1, "the request is too large");
    return BW_EIO;
}

int etcd_client_ask(struct etcd_client *client, const struct etcd_method *method,
                    const ProtobufCMessage *request, bool urgent, etcd_done done, void *context,
                    char *why)
{
    struct asking *asking = new_asking(client, method, request, done, context);
    if (!asking) {
        snprintf(why, BW_GRPC_WHY_MAX + 1, "no memory for a request");
        return BW_EIO;
    }
    asking->urgent = urgent;
    int error = ask(asking, why);
    if (error)
        free_asking(asking);
    return error;
}

/* ---- streams ---- */

static void on_stream_message(void *context, const uint8_t *bytes, size_t length)
{
    struct etcd_stream *stream = context;
    ProtobufCMessage *message = unpack(stream->method, bytes, length);
    if (!message) {
        bw_grpc_leave(stream->client->grpc, "the server's answer cannot be read", true);
        return;
    }
    stream->client->bound = stream->bound;
    stream->message(stream->context, message);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* A member without a leader, or one that no longer knows us, is of no use: try another. */
static void on_stream_done(void *context, const struct bw_grpc_result *result)
{
    struct etcd_stream *stream = context;
    struct etcd_client *client = stream->client;
    struct bw_grpc_result told = *result;
    stream->done(stream->context, NULL, &told);
    free_stream(stream);
    if (told.code == BW_GRPC_UNAVAILABLE && strstr(told.why, "no leader"))
        bw_grpc_leave(client->grpc, told.why, false);
    else if (client->options.user[0] && is_token_refused(&told) && !client->authenticating)
        authenticate(client);
}

static void on_stream_header(void *context, const char *name, const char *value, size_t length)
{
    struct etcd_stream *stream = context;
    (void)value;
    stream->bound = stream->bound || is_bound(name, length);
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
    client->options.up(client->options.context); /* what it asks goes as soon as we return */
    return true;
}

static void on_down(void *context, const char *why)
{
    struct etcd_client *client = context;
    (void)why;
    client->options.down(client->options.context);
}

/* One proof for all connections: it is shown when this process is dead. Without one, leases are not
 * bound. */
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

int etcd_client_open(struct etcd_client **out, const struct etcd_client_options *options)
{
    struct etcd_client *client = calloc(1, sizeof *client);
    if (!client)
        return BW_ENOMEM;
    client->options = *options;
    client->options.grpc.context = client;
    client->options.grpc.up = on_up;
    client->options.grpc.down = on_down;
    client->patience_ms = BW_GRPC_PATIENCE_MS;
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
    while (client->askings)
        free_asking(client->askings); /* NOLINT(clang-analyzer-unix.Malloc): it unlinks itself */
    while (client->streams)
        free_stream(client->streams); /* NOLINT(clang-analyzer-unix.Malloc): it unlinks itself */
    memset(client->options.password, 0, sizeof client->options.password);
    free(client);
}

void etcd_client_leave(struct etcd_client *client, const char *why)
{
    bw_grpc_leave(client->grpc, why, true);
}

void etcd_client_set_patience(struct etcd_client *client, uint64_t ms)
{
    client->patience_ms = ms;
    bw_grpc_set_patience(client->grpc, ms);
}
