/* A client of a running cluster for short-lived commands: one request, one response, over etcd's
 * API. It runs on its own event loop in the calling thread. */
#ifndef BW_CLI_CLUSTER_CLIENT_H
#define BW_CLI_CLUSTER_CLIENT_H

#include "cli/options/options.h"
#include "net/api.pb-c.h"
#include "net/grpc/grpc.h"

#include <uv.h>

struct bw_cluster_options { /* the first member of a command's own options */
    const char *endpoints, *ca, *cert, *key, *user, *password_file;
    bool json;
    bw_time timeout_ns;
};

#define BW_CLUSTER_OPTION(name_, form_, help_, member_)                                            \
    {                                                                                              \
        .name = name_, .form = form_, .help = help_, .set = bw_set_text,                           \
        .offset = offsetof(struct bw_cluster_options, member_)                                     \
    }
#define BW_CLUSTER_OPTIONS                                                                         \
    {.help = "which cluster"},                                                                     \
        BW_CLUSTER_OPTION(                                                                         \
            "endpoints", "LIST",                                                                   \
            "client addresses of the nodes, HOST:PORT,... (default: 127.0.0.1:2379)", endpoints),  \
        BW_CLUSTER_OPTION(                                                                         \
            "ca", "FILE",                                                                          \
            "TLS: CA certificates that sign the nodes' certificates (default: the system's)", ca), \
        BW_CLUSTER_OPTION("cert", "FILE", "TLS: client certificate to present (default: none)",    \
                          cert),                                                                   \
        BW_CLUSTER_OPTION("key", "FILE", "TLS: private key of --cert (default: none)", key),       \
        BW_CLUSTER_OPTION("user", "NAME", "user name, if the cluster has users (default: none)",   \
                          user),                                                                   \
        BW_CLUSTER_OPTION("password-file", "FILE",                                                 \
                          "file with the user's password (default: $BELLWETHER_PASSWORD)",         \
                          password_file),                                                          \
        {.name = "json",                                                                           \
         .help = "print JSON (default: text)",                                                     \
         .set = bw_set_switch,                                                                     \
         .offset = offsetof(struct bw_cluster_options, json)},                                     \
    {                                                                                              \
        .name = "timeout", .form = "D",                                                            \
        .help = "maximum time to wait for a response (default: 5s)", .set = bw_set_duration,       \
        .low = 1, .offset = offsetof(struct bw_cluster_options, timeout_ns)                        \
    }

struct bw_cluster_client {
    const struct bw_cli_command *command;
    const struct bw_cluster_options *options;
    uv_loop_t loop;
    bool has_loop;
    struct bw_tls_config *tls;
    struct bw_grpc *grpc;
    char token[1024];
    struct bw_grpc_result result; /* of the last call */
    bool done;
    /* type of the response to the running call */
    const ProtobufCMessageDescriptor *reply;
    ProtobufCMessage *answer;
    /* called for each message of a stream */
    void (*piece)(void *context, const ProtobufCMessage *message);
    void *context;
};

/* Returns BW_GO_ON, or the exit code after one line on stderr. The caller closes the client in both
 * cases. */
int bw_cluster_open(struct bw_cluster_client *client, const struct bw_cli_command *command,
                    const struct bw_cluster_options *options);
void bw_cluster_close(struct bw_cluster_client *client);
/* Sends all further requests only to the node at `url` ("http://HOST:PORT"). Returns false if `url`
 * is not such an address. */
bool bw_cluster_turn_to(struct bw_cluster_client *client, const char *url);

/* Sends one request. Returns the response, which the caller frees with
 * protobuf_c_message_free_unpacked, or NULL with the reason in `result`. */
ProtobufCMessage *bw_cluster_ask(struct bw_cluster_client *client, const char *path,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *reply);
/* Sends one request and passes each message of the response stream to `piece`. Returns true if the
 * stream ended without error. */
bool bw_cluster_stream(struct bw_cluster_client *client, const char *path,
                       const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply,
                       void (*piece)(void *context, const ProtobufCMessage *message),
                       void *context);
/* Returns whether the cluster answered the last call with an error. */
bool bw_cluster_refused(const struct bw_cluster_client *client);
/* Prints why the last call failed. Returns 1 if the cluster refused it, 69 if the cluster was
 * unreachable. */
int bw_cluster_fail(const struct bw_cluster_client *client);

#endif
