/* One user of an etcd cluster: calls with messages instead of bytes, and who we are. With a user
 * name it authenticates on every new connection, before anything else goes, and again when the
 * server no longer takes the token; the call that found out is repeated once (it was refused, so it
 * was not carried out). */
#ifndef BW_STORE_ETCD_CLIENT_H
#define BW_STORE_ETCD_CLIENT_H

#include "net/bind_proof.h"
#include "net/grpc/grpc.h"
#include "store/store.h"

#include <protobuf-c/protobuf-c.h>

struct etcd_client;

struct etcd_client_options {
    struct bw_grpc_options grpc; /* endpoints, TLS, loop; hooks are set here */
    char user[128], password[512];
    bool binds; /* leases are bound to the connection, where the server does that */
    void *context;
    void (*up)(void *context);   /* calls may go */
    void (*down)(void *context); /* streams have ended */
};

/* Returns 0 or BW_ENOMEM. */
int etcd_client_open(struct etcd_client **out, const struct etcd_client_options *options);
/* No hook is called any more. */
void etcd_client_close(struct etcd_client *client);

/* Now, for the store's own instants. */
uint64_t etcd_now_ms(void);

/* The connection, counted from 1 (0: none), and its socket (-1: none), which stays the client's. */
uint64_t etcd_client_connection(const struct etcd_client *client);
int etcd_client_fd(const struct etcd_client *client);
/* What ends a lease that is bound to the connection (net/bind_proof.h). */
void etcd_client_proof(const struct etcd_client *client, unsigned char proof[BW_BIND_PROOF]);
/* In a hook: the answer said that the lease it speaks of is bound to this connection. */
bool etcd_client_bound(const struct etcd_client *client);

/* How long a call, a connection or a sign of life may take. */
void etcd_client_set_patience(struct etcd_client *client, uint64_t ms);

/* Its answers cannot be used: on to another endpoint. */
void etcd_client_leave(struct etcd_client *client, const char *why);

/* Are user and password refused? */
bool etcd_client_denied(const struct etcd_client *client);

struct etcd_method {
    const char *path;
    const ProtobufCMessageDescriptor *reply;
};

extern const struct etcd_method etcd_txn_method, etcd_grant_method, etcd_keep_alive_method,
    etcd_watch_method, etcd_status_method;

/* `message` is NULL unless the code is OK; it is gone afterwards. */
typedef void (*etcd_done)(void *context, const ProtobufCMessage *message,
                          const struct bw_grpc_result *result);

/* Asks once; `urgent`: before others that wait. Returns 0 (done will be called, not from here), or
 * BW_EIO with a line in why[BW_GRPC_WHY_MAX + 1]: certainly not sent. */
int etcd_client_ask(struct etcd_client *client, const struct etcd_method *method,
                    const ProtobufCMessage *request, bool urgent, etcd_done done, void *context,
                    char *why);

/* A stream: `message` for each answer, then `done` with a NULL message. NULL: not connected. */
struct etcd_stream;
struct etcd_stream *etcd_stream_open(struct etcd_client *client, const struct etcd_method *method,
                                     void (*message)(void *context,
                                                     const ProtobufCMessage *message),
                                     etcd_done done, void *context);
/* False: it cannot take more. */
bool etcd_stream_send(struct etcd_stream *stream, const ProtobufCMessage *request);

/* What an answer that is not OK says about the request: refused before anything was done, or maybe
 * done. */
enum bw_outcome etcd_outcome(const struct bw_grpc_result *result);

#endif
