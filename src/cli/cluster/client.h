/* A running cluster as a short-lived command needs it: one question, one answer, over etcd's API.
 * Everything runs on a loop of its own in the calling thread. */
#ifndef BW_CLI_CLUSTER_CLIENT_H
#define BW_CLI_CLUSTER_CLIENT_H

#include "cli/options/options.h"
#include "net/api.pb-c.h"
#include "net/grpc/grpc.h"

#include <uv.h>

struct bw_cluster_options { /* the first member of a command's own */
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
        BW_CLUSTER_OPTION("endpoints", "LIST",                                                     \
                          "where its nodes serve clients: HOST:PORT,... (127.0.0.1:2379)",         \
                          endpoints),                                                              \
        BW_CLUSTER_OPTION("ca", "FILE", "TLS: who signs the nodes' certificates", ca),             \
        BW_CLUSTER_OPTION("cert", "FILE", "TLS: the certificate to show", cert),                   \
        BW_CLUSTER_OPTION("key", "FILE", "TLS: its key", key),                                     \
        BW_CLUSTER_OPTION("user", "NAME", "who asks, where the cluster has users", user),          \
        BW_CLUSTER_OPTION("password-file", "FILE", "its password; or BELLWETHER_PASSWORD",         \
                          password_file),                                                          \
        {.name = "json",                                                                           \
         .help = "JSON instead of text",                                                           \
         .set = bw_set_switch,                                                                     \
         .offset = offsetof(struct bw_cluster_options, json)},                                     \
    {                                                                                              \
        .name = "timeout", .form = "D", .help = "how long an answer may take (5s)",                \
        .set = bw_set_duration, .low = 1,                                                          \
        .offset = offsetof(struct bw_cluster_options, timeout_ns)                                  \
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
    /* of the call that runs */
    const ProtobufCMessageDescriptor *reply;
    ProtobufCMessage *answer;
    void (*piece)(void *context, const ProtobufCMessage *message); /* of a stream */
    void *context;
};

/* BW_GO_ON, or the code to leave with; a line was said. Close it in any case. */
int bw_cluster_open(struct bw_cluster_client *client, const struct bw_cli_command *command,
                    const struct bw_cluster_options *options);
void bw_cluster_close(struct bw_cluster_client *client);
/* From now on this node alone is asked: "http://HOST:PORT". False: it is none. */
bool bw_cluster_turn_to(struct bw_cluster_client *client, const char *url);

/* NULL: `result` says why; otherwise free it with protobuf_c_message_free_unpacked. */
ProtobufCMessage *bw_cluster_ask(struct bw_cluster_client *client, const char *path,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *reply);
/* A stream of answers, each told to `piece`, until its end. True: it ended well. */
bool bw_cluster_stream(struct bw_cluster_client *client, const char *path,
                       const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply,
                       void (*piece)(void *context, const ProtobufCMessage *message),
                       void *context);
/* The last call was answered, and with no. */
bool bw_cluster_refused(const struct bw_cluster_client *client);
/* Says why the last call failed; returns 1 if the cluster refused, 69 if it could not be asked. */
int bw_cluster_fail(const struct bw_cluster_client *client);

#endif
