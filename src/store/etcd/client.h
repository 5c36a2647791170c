/* Client of an etcd cluster: calls with protobuf messages instead of bytes, and authentication.
 *
 * With a user name, the client authenticates on every new connection before it sends anything else,
 * and again when the server rejects the auth token. The rejected call is then sent once more; the
 * server did not carry it out the first time. */
#ifndef BW_STORE_ETCD_CLIENT_H
#define BW_STORE_ETCD_CLIENT_H

#include "net/death_proof.h"
#include "net/grpc/grpc.h"
#include "store/store.h"

#include <protobuf-c/protobuf-c.h>

struct etcd_client;

struct etcd_client_options {
    struct bw_grpc_options grpc; /* endpoints, TLS, loop; the client sets the hooks */
    char user[128], password[512];
    bool binds; /* bind leases to the connection, if the server supports it */
    void *context;
    void (*up)(void *context);   /* connected and authenticated: calls may be sent */
    void (*down)(void *context); /* disconnected: all streams have ended */
};

/* Returns 0 or BW_ENOMEM. */
int etcd_client_open(struct etcd_client **out, const struct etcd_client_options *options);
/* Calls no hook any more. */
void etcd_client_close(struct etcd_client *client);

/* The current time, for the store's own deadlines. */
uint64_t etcd_now_ms(void);

/* The number of the connection, counted from 1 (0: none), and its socket (-1: none), owned by the
 * client. */
uint64_t etcd_client_connection(const struct etcd_client *client);
int etcd_client_fd(const struct etcd_client *client);
/* The proof that ends a lease bound to the connection (net/clean_close_proof.h). */
void etcd_client_proof(const struct etcd_client *client, unsigned char proof[BW_BIND_PROOF]);
/* Writes the hash of the death proof of the leadership with this token (net/death_proof.h); "" if
 * this client does not bind leases. */
void etcd_client_death_hash(const struct etcd_client *client, uint64_t token,
                            char hash[BW_DEATH_PROOF_TEXT + 1]);
/* Inside a hook: did the response confirm that its lease is bound to this connection? */
bool etcd_client_bound(const struct etcd_client *client);

/* Sets the timeout of calls, connection attempts and keepalives. */
void etcd_client_set_timeout(struct etcd_client *client, uint64_t ms);

/* Leaves this endpoint, whose responses are unusable, and connects to another. */
void etcd_client_leave(struct etcd_client *client, const char *why);

/* Did the server reject user or password? */
bool etcd_client_denied(const struct etcd_client *client);

struct etcd_method {
    const char *path;
    const ProtobufCMessageDescriptor *reply;
};

extern const struct etcd_method etcd_txn_method, etcd_grant_method, etcd_keep_alive_method,
    etcd_watch_method, etcd_status_method;

/* `message` is NULL unless the code is OK. It is freed after the callback. */
typedef void (*etcd_done)(void *context, const ProtobufCMessage *message,
                          const struct bw_grpc_result *result);

/* Sends one call. `urgent`: before other calls that wait. Returns 0 (`done` follows, not from
 * within this call), or BW_EIO and a line in why[BW_GRPC_WHY_MAX + 1]: certainly not sent. */
int etcd_client_ask(struct etcd_client *client, const struct etcd_method *method,
                    const ProtobufCMessage *request, bool urgent, etcd_done done, void *context,
                    char *why);

/* Opens a stream. Calls `message` for each response, then `done` with a NULL message. NULL: not
 * connected. */
struct etcd_stream;
struct etcd_stream *etcd_stream_open(struct etcd_client *client, const struct etcd_method *method,
                                     void (*message)(void *context,
                                                     const ProtobufCMessage *message),
                                     etcd_done done, void *context);
/* Returns false if the message cannot be sent. */
bool etcd_stream_send(struct etcd_stream *stream, const ProtobufCMessage *request);

/* Maps a result that is not OK: UNAVAILABLE if it was certainly not carried out, else UNKNOWN. */
enum bw_outcome etcd_outcome(const struct bw_grpc_result *result);

#endif
