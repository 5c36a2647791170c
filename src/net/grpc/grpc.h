/* A gRPC client: calls over one HTTP/2 connection to one of several equal endpoints.
 *
 * A channel connects by itself. If an endpoint fails it tries the next; if all have failed it waits
 * with backoff and jitter. Calls made while it connects wait. Calls made while no endpoint is
 * reachable fail at once.
 *
 * A call ends exactly once: with the server's status, at its deadline, or with the connection.
 * `sent` then tells whether the server may have received it, which separates "certainly not
 * executed" from "unknown".
 *
 * The channel leaves an endpoint that is silent for a whole deadline, and one that lets several
 * calls in a row reach their deadline. It also detects a silent endpoint by PING, but rarely: gRPC
 * servers close connections of clients that ping more often than every 5 s.
 *
 * Bounds: messages BW_GRPC_MESSAGE_MAX, headers as in h2.h, calls BW_GRPC_CALLS_MAX. Compression is
 * not requested and is refused. No hook is called from within a call to this interface. */
#ifndef BW_NET_GRPC_GRPC_H
#define BW_NET_GRPC_GRPC_H

#include "net/tls/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* etcd's limit for a request; a response with a page of some hundred records fits too. */
#define BW_GRPC_MESSAGE_MAX (1536u << 10)
#define BW_GRPC_CALLS_MAX   131072u
/* Calls in progress at the server at one time. More wait here, where urgent ones can overtake
 * them. */
#define BW_GRPC_AT_ONCE       100u
#define BW_GRPC_WAIT_MS       30000u
#define BW_GRPC_ENDPOINTS_MAX 16u
#define BW_GRPC_OWN_MAX       2u
#define BW_GRPC_VALUE_MAX     127u /* characters of a header value; longer ones are cut */
#define BW_GRPC_WHY_MAX       255u
#define BW_GRPC_TIMEOUT_MS    2000u

enum bw_grpc_code { /* the codes that are distinguished here */
                    BW_GRPC_OK = 0,
                    BW_GRPC_CANCELLED = 1,
                    BW_GRPC_UNKNOWN = 2,
                    BW_GRPC_INVALID = 3,
                    BW_GRPC_DEADLINE = 4,
                    BW_GRPC_NOT_FOUND = 5,
                    BW_GRPC_DENIED = 7,
                    BW_GRPC_PRECONDITION = 9,
                    BW_GRPC_INTERNAL = 13,
                    BW_GRPC_UNAVAILABLE = 14,
                    BW_GRPC_UNAUTHENTICATED = 16
};

struct uv_loop_s;
struct bw_grpc;
struct bw_grpc_call;

struct bw_grpc_endpoint {
    char host[256];
    uint16_t port;
};

struct bw_grpc_options {
    struct uv_loop_s *loop;
    struct bw_grpc_endpoint endpoints[BW_GRPC_ENDPOINTS_MAX];
    uint32_t count;
    struct bw_tls_config *tls; /* NULL: no TLS; borrowed */
    void *context;
    /* The channel is connected. Return true: calls may start. Return false: until bw_grpc_ready is
     * called, only early calls may start. */
    bool (*up)(void *context);
    /* The connection is gone; its calls have ended before. The channel tries another endpoint by
     * itself. */
    void (*down)(void *context, const char *why);
};

/* Returns 0 or BW_ENOMEM. Starts to connect. */
int bw_grpc_open(struct bw_grpc **out, const struct bw_grpc_options *options);
/* Drops all calls and calls no more hooks. The memory is freed with the loop's handles. */
void bw_grpc_close(struct bw_grpc *channel);

/* How long an endpoint may take to accept a connection or to answer a PING. */
void bw_grpc_set_timeout(struct bw_grpc *channel, uint64_t ms);
/* How long an accepted connection may take until it is up, and then each early call. */
uint64_t bw_grpc_setup_ms(const struct bw_grpc *channel);
/* Sets a header, such as the credentials, of every call that starts from now on, except early
 * calls. */
void bw_grpc_set_header(struct bw_grpc *channel, const char *name, const char *value);
/* Starts the waiting calls, after `up` returned false. */
void bw_grpc_ready(struct bw_grpc *channel);
/* Leaves this endpoint, which is not usable now (no leader, denied), and connects to the next one.
 * `pause`: all endpoints may have the problem, so the channel waits first. */
void bw_grpc_leave(struct bw_grpc *channel, const char *why, bool pause);

/* The number of the current connection, counted from 1; 0: not connected. */
uint64_t bw_grpc_connection(const struct bw_grpc *channel);
/* The socket of the current connection, or -1. The channel owns it. */
int bw_grpc_fd(const struct bw_grpc *channel);

struct bw_grpc_result {
    int code; /* enum bw_grpc_code or another gRPC code */
    bool sent;
    char why[BW_GRPC_WHY_MAX + 1]; /* the server's text, or what failed; one line */
};

struct bw_grpc_hooks {
    void (*message)(void *context, const uint8_t *bytes, size_t length);
    /* The last hook of a call, which must not be used afterwards. */
    void (*done)(void *context, const struct bw_grpc_result *result);
    /* Optional: a header of the response. */
    void (*header)(void *context, const char *name, const char *value, size_t length);
};

struct bw_grpc_head {
    const char *path; /* "/package.Service/Method" */
    /* Additional headers; unused ones have no name. */
    struct {
        const char *name, *value;
    } own[BW_GRPC_OWN_MAX];
    /* Maximum time from sending the call to its end, and also for waiting until there is a
     * connection; 0: no deadline (streams). Waiting behind other calls does not count, up to
     * BW_GRPC_WAIT_MS. */
    uint64_t within_ms;
    bool early;  /* may start before bw_grpc_ready */
    bool urgent; /* overtakes other waiting calls */
};

/* Starts a call. Returns NULL, with the reason in why[BW_GRPC_WHY_MAX + 1], if there are too many
 * calls, no memory, or no reachable endpoint. The call was then certainly not sent. */
struct bw_grpc_call *bw_grpc_call(struct bw_grpc *channel, const struct bw_grpc_head *head,
                                  const struct bw_grpc_hooks *hooks, void *context, char *why);
/* Sends a message; `last`: it is the last one of this call. Returns 0 or BW_ELIMIT. */
int bw_grpc_send(struct bw_grpc_call *call, const uint8_t *bytes, size_t length, bool last);
/* Cancels a call: no hook is called. It may still take effect on the server. */
void bw_grpc_cancel(struct bw_grpc_call *call);

#endif
