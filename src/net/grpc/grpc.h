/* A gRPC client: calls over one HTTP/2 connection to one of several equal endpoints.
 *
 * A channel connects by itself, to the next endpoint when one fails, with growing jittered pauses
 * when all have failed. Calls made while it connects wait for it; calls made while no endpoint
 * could be reached fail at once. A call ends exactly once: with the server's status, by its
 * deadline, or with the connection; `sent` then says whether the server may have seen it, which is
 * what tells "certainly not done" from "unknown". An endpoint that stays silent over a deadline is
 * left, and so is one that lets several calls in a row run out; a silent one is also found by PING,
 * rarely, since gRPC servers hang up on clients that ping more than every 5 s.
 *
 * Bounds: messages BW_GRPC_MESSAGE_MAX, headers as h2.h, calls BW_GRPC_CALLS_MAX. Compression is
 * not asked for and refused. No hook is called from within a call of yours. */
#ifndef BW_NET_GRPC_H
#define BW_NET_GRPC_H

#include "net/tls/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What etcd allows in a request, and twice that for answers: pages of some hundred records fit. */
#define BW_GRPC_MESSAGE_MAX (1536u << 10)
#define BW_GRPC_CALLS_MAX   131072u
/* Calls that a server works on at one time; more wait here, where the urgent ones can pass them. */
#define BW_GRPC_AT_ONCE       100u
#define BW_GRPC_WAIT_MS       30000u
#define BW_GRPC_ENDPOINTS_MAX 16u
#define BW_GRPC_OWN_MAX       2u
#define BW_GRPC_VALUE_MAX     127u /* characters of one of them; longer ones are cut */
#define BW_GRPC_WHY_MAX       255u
#define BW_GRPC_PATIENCE_MS   2000u

enum bw_grpc_code { /* of the many, those that are told apart */
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
    struct bw_tls_config *tls; /* NULL: in the clear; borrowed */
    void *context;
    /* Connected. True: calls may go. False: only early ones, until bw_grpc_ready. */
    bool (*up)(void *context);
    /* The connection is gone; its calls have ended before. Another endpoint is tried by itself. */
    void (*down)(void *context, const char *why);
};

/* Returns 0 or BW_ENOMEM. Begins to connect. */
int bw_grpc_open(struct bw_grpc **out, const struct bw_grpc_options *options);
/* Calls are forgotten, no hook is called any more; the memory goes with the loop's handles. */
void bw_grpc_close(struct bw_grpc *channel);

/* How long an endpoint may take to answer a connection or a PING. */
void bw_grpc_set_patience(struct bw_grpc *channel, uint64_t ms);
/* A header of every call that begins from now on, except early ones: who we are. */
void bw_grpc_set_header(struct bw_grpc *channel, const char *name, const char *value);
/* Lets the waiting calls go, after `up` said false. */
void bw_grpc_ready(struct bw_grpc *channel);
/* This endpoint is of no use now (no leader, denied): on to the next one. `pause`: the fault may be
 * everywhere, so not at once. */
void bw_grpc_leave(struct bw_grpc *channel, const char *why, bool pause);

/* Which connection it is, counted from 1; 0: not connected. And its socket, or -1: it stays the
 * channel's. */
uint64_t bw_grpc_connection(const struct bw_grpc *channel);
int bw_grpc_fd(const struct bw_grpc *channel);

struct bw_grpc_result {
    int code; /* enum bw_grpc_code or another of gRPC's */
    bool sent;
    char why[BW_GRPC_WHY_MAX + 1]; /* what the server said, or what failed; one line */
};

struct bw_grpc_hooks {
    void (*message)(void *context, const uint8_t *bytes, size_t length);
    void (*done)(void *context, const struct bw_grpc_result *result); /* the last; it is gone */
    /* Optional: a header of the answer. */
    void (*header)(void *context, const char *name, const char *value, size_t length);
};

struct bw_grpc_head {
    const char *path; /* "/package.Service/Method" */
    /* Headers of its own, as far as they have a name. */
    struct {
        const char *name, *value;
    } own[BW_GRPC_OWN_MAX];
    /* From when it is sent, or for a connection to be there; 0: none (streams). Waiting for others
     * to be answered is not counted, up to BW_GRPC_WAIT_MS. */
    uint64_t within_ms;
    bool early;  /* before `ready` */
    bool urgent; /* before others that wait */
};

/* NULL: too many, no memory, or no endpoint can be reached (a line in why[BW_GRPC_WHY_MAX + 1]):
 * certainly not sent. */
struct bw_grpc_call *bw_grpc_call(struct bw_grpc *channel, const struct bw_grpc_head *head,
                                  const struct bw_grpc_hooks *hooks, void *context, char *why);
/* A message; `last`: no other follows. Returns 0 or BW_ELIMIT. */
int bw_grpc_send(struct bw_grpc_call *call, const uint8_t *bytes, size_t length, bool last);
/* Nobody waits for it any more: no hook is called. Its effect may still happen. */
void bw_grpc_cancel(struct bw_grpc_call *call);

#endif
