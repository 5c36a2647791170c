/* Sends requests to a cluster; see client.h. */
#include "cli/cluster/client.h"

#include "cli/serve/resolve_identity.h"
#include "core/base/error.h"
#include "os/loop.h"

#include <stdlib.h>
#include <string.h>

#define ENDPOINT_DEFAULT "127.0.0.1:2379"
#define CLIENT_PORT      2379u
#define PASSWORD_MAX     512u

static bool on_up(void *context)
{
    (void)context;
    return true;
}

static void on_down(void *context, const char *why)
{
    (void)context;
    (void)why;
}

/* Parses "HOST" or "HOST:PORT", with or without a scheme. Sets *tls if the scheme is https. */
static int take_endpoint(const char *text, size_t length, struct bw_grpc_endpoint *out, bool *tls)
{
    size_t scheme = length > 8 && strncmp(text, "https://", 8) == 0  ? 8
                    : length > 7 && strncmp(text, "http://", 7) == 0 ? 7
                                                                     : 0;
    *tls |= scheme == 8;
    text += scheme;
    length -= scheme;
    if (bw_address_take(text, length, out->host, sizeof out->host, &out->port) == 0)
        return out->port ? 0 : -1;
    if (length == 0 || length >= sizeof out->host || memchr(text, ':', length))
        return -1;
    snprintf(out->host, sizeof out->host, "%.*s", (int)length, text);
    out->port = CLIENT_PORT;
    return 0;
}

static int take_endpoints(const struct bw_cli_command *command, const char *list,
                          struct bw_grpc_options *out, bool *tls)
{
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (out->count == BW_GRPC_ENDPOINTS_MAX ||
            take_endpoint(at, length, &out->endpoints[out->count], tls) != 0)
            return bw_usage_error(command, "invalid --endpoints '%.*s': expected HOST:PORT",
                                  length < 60 ? (int)length : 60, at);
        out->count++;
        at += length + (at[length] == ',');
    }
    return out->count ? BW_GO_ON
                      : bw_usage_error(command, "--endpoints is empty; expected HOST:PORT,...");
}

static uint64_t timeout_ms(const struct bw_cluster_client *client)
{
    bw_time timeout = client->options->timeout_ns ? client->options->timeout_ns : 5 * BW_SEC;
    return (uint64_t)((timeout + BW_MS - 1) / BW_MS);
}

static int connect_channel(struct bw_cluster_client *client, struct bw_grpc_options *options)
{
    options->loop = &client->loop;
    options->tls = client->tls;
    options->context = client;
    options->up = on_up;
    options->down = on_down;
    int error = bw_grpc_open(&client->grpc, options);
    if (!error)
        bw_grpc_set_timeout(client->grpc, timeout_ms(client));
    if (!error && client->token[0])
        bw_grpc_set_header(client->grpc, "token", client->token);
    return error;
}

/* ---- calls ---- */

static void on_message(void *context, const uint8_t *bytes, size_t length)
{
    struct bw_cluster_client *client = context;
    ProtobufCMessage *message = protobuf_c_message_unpack(client->reply, NULL, length, bytes);
    if (message && client->piece) {
        client->piece(client->context, message);
        protobuf_c_message_free_unpacked(message, NULL);
        return;
    }
    if (client->answer)
        protobuf_c_message_free_unpacked(client->answer, NULL);
    client->answer = message;
}

static void on_done(void *context, const struct bw_grpc_result *result)
{
    struct bw_cluster_client *client = context;
    client->result = *result;
    client->done = true;
}

static const struct bw_grpc_hooks hooks = {.message = on_message, .done = on_done};

static void call(struct bw_cluster_client *client, const char *path,
                 const ProtobufCMessage *request, uint64_t within_ms)
{
    struct bw_grpc_head head = {.path = path, .within_ms = within_ms};
    size_t length = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = malloc(length + 1);
    client->result = (struct bw_grpc_result){.code = BW_GRPC_UNAVAILABLE};
    client->done = false;
    if (!bytes)
        return;
    protobuf_c_message_pack(request, bytes);
    struct bw_grpc_call *asked =
        bw_grpc_call(client->grpc, &head, &hooks, client, client->result.why);
    if (asked && bw_grpc_send(asked, bytes, length, true) == 0)
        while (!client->done)
            uv_run(&client->loop, UV_RUN_ONCE);
    free(bytes);
}

ProtobufCMessage *bw_cluster_ask(struct bw_cluster_client *client, const char *path,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *reply)
{
    client->reply = reply;
    client->answer = NULL;
    client->piece = NULL;
    call(client, path, request, timeout_ms(client));
    if (client->result.code == BW_GRPC_OK && client->answer)
        return client->answer;
    if (client->answer)
        protobuf_c_message_free_unpacked(client->answer, NULL);
    if (client->result.code == BW_GRPC_OK)
        client->result.code = BW_GRPC_INTERNAL;
    return NULL;
}

bool bw_cluster_stream(struct bw_cluster_client *client, const char *path,
                       const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply,
                       void (*piece)(void *context, const ProtobufCMessage *message), void *context)
{
    client->reply = reply;
    client->piece = piece;
    client->context = context;
    call(client, path, request, 0);
    return client->result.code == BW_GRPC_OK;
}

bool bw_cluster_refused(const struct bw_cluster_client *client)
{
    return client->result.code != BW_GRPC_OK && client->result.code != BW_GRPC_UNAVAILABLE &&
           client->result.code != BW_GRPC_DEADLINE && client->result.code != BW_GRPC_CANCELLED;
}

int bw_cluster_fail(const struct bw_cluster_client *client)
{
    const char *why = client->result.why;
    bool refused = bw_cluster_refused(client);
    if (strncmp(why, "etcdserver: ", 12) == 0)
        why += 12;
    fprintf(stderr, "%s: %s%s\n", client->command->path,
            refused ? "" : "no response: ", why[0] ? why : "the cluster gave no reason");
    return refused ? BW_EXIT_FAILED : BW_EXIT_UNAVAILABLE;
}

/* ---- authentication ---- */

static int read_password(const struct bw_cluster_client *client, char *out, size_t size)
{
    const char *path = client->options->password_file, *given = getenv("BELLWETHER_PASSWORD");
    if (!path && given) {
        snprintf(out, size, "%s", given);
        return BW_GO_ON;
    }
    if (!path)
        return bw_usage_error(client->command,
                              "--user needs --password-file or BELLWETHER_PASSWORD");
    FILE *file = fopen(path, "re");
    bool good = file && fgets(out, (int)size, file);
    if (file)
        fclose(file);
    if (!good) {
        fprintf(stderr, "%s: cannot read password file %s\n", client->command->path, path);
        return BW_EXIT_IO;
    }
    out[strcspn(out, "\r\n")] = '\0';
    return BW_GO_ON;
}

static int authenticate(struct bw_cluster_client *client)
{
    char password[PASSWORD_MAX] = "";
    Api__AuthenticateRequest request = API__AUTHENTICATE_REQUEST__INIT;
    int code = read_password(client, password, sizeof password);
    if (code != BW_GO_ON)
        return code;
    request.name = (char *)client->options->user;
    request.password = password;
    ProtobufCMessage *answer =
        bw_cluster_ask(client, "/etcdserverpb.Auth/Authenticate", &request.base,
                       &api__authenticate_response__descriptor);
    explicit_bzero(password, sizeof password);
    if (!answer)
        return bw_cluster_fail(client);
    snprintf(client->token, sizeof client->token, "%s",
             ((const Api__AuthenticateResponse *)answer)->token);
    protobuf_c_message_free_unpacked(answer, NULL);
    bw_grpc_set_header(client->grpc, "token", client->token);
    return BW_GO_ON;
}

static int prepare_tls(struct bw_cluster_client *client, bool wanted)
{
    const struct bw_cluster_options *o = client->options;
    struct bw_tls_files files = {.ca_file = o->ca, .cert_file = o->cert, .key_file = o->key};
    char why[BW_TLS_WHY_MAX + 1] = "";
    if (!o->cert != !o->key)
        return bw_usage_error(client->command, "--cert and --key must be given together");
    if (!wanted && !o->ca && !o->cert)
        return BW_GO_ON;
    if (bw_tls_config_new(&client->tls, &files, why) == 0)
        return BW_GO_ON;
    fprintf(stderr, "%s: %s\n", client->command->path, why);
    return BW_EXIT_IO;
}

int bw_cluster_open(struct bw_cluster_client *client, const struct bw_cli_command *command,
                    const struct bw_cluster_options *options)
{
    struct bw_grpc_options channel = {.count = 0};
    bool tls = false;
    *client = (struct bw_cluster_client){.command = command, .options = options};
    int error = bw_loop_init(&client->loop);
    if (error) {
        fprintf(stderr, "%s: cannot start an event loop: %s\n", command->path, strerror(-error));
        return BW_EXIT_IO;
    }
    client->has_loop = true;
    int code = take_endpoints(command, options->endpoints ? options->endpoints : ENDPOINT_DEFAULT,
                              &channel, &tls);
    if (code == BW_GO_ON)
        code = prepare_tls(client, tls);
    if (code == BW_GO_ON && (error = connect_channel(client, &channel)) != 0) {
        fprintf(stderr, "%s: cannot connect: %s\n", command->path, bw_error_text(error));
        code = BW_EXIT_IO;
    }
    if (code == BW_GO_ON && options->user)
        code = authenticate(client);
    return code;
}

static void disconnect(struct bw_cluster_client *client)
{
    if (client->grpc)
        bw_grpc_close(client->grpc);
    client->grpc = NULL;
    while (uv_run(&client->loop, UV_RUN_DEFAULT) != 0)
        ;
}

bool bw_cluster_turn_to(struct bw_cluster_client *client, const char *url)
{
    struct bw_grpc_options channel = {.count = 1};
    bool tls = false;
    if (take_endpoint(url, strlen(url), &channel.endpoints[0], &tls) != 0)
        return false;
    disconnect(client);
    return connect_channel(client, &channel) == 0;
}

void bw_cluster_close(struct bw_cluster_client *client)
{
    if (!client->has_loop)
        return;
    disconnect(client);
    if (client->tls)
        bw_tls_config_free(client->tls);
    uv_loop_close(&client->loop);
}
