/* One remote call as the services see it, whatever wire it came on (gRPC over HTTP/2, JSON over
 * HTTP/1.1): messages in, messages out, one end.
 *
 * A method is told of each message, of the caller's having no more of them, and of the call being
 * gone (once, always, last). It answers with bw_call_send and bw_call_end; nothing may be sent
 * after the end, and a call that is gone takes nothing. */
#ifndef BW_SERVE_CALL_H
#define BW_SERVE_CALL_H

#include "core/registry/users.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bw_code { /* gRPC's, those that are used */
               BW_CODE_OK = 0,
               BW_CODE_CANCELLED = 1,
               BW_CODE_UNKNOWN = 2,
               BW_CODE_INVALID = 3,
               BW_CODE_NOT_FOUND = 5,
               BW_CODE_DENIED = 7,
               BW_CODE_EXHAUSTED = 8,
               BW_CODE_PRECONDITION = 9,
               BW_CODE_OUT_OF_RANGE = 11,
               BW_CODE_UNIMPLEMENTED = 12,
               BW_CODE_INTERNAL = 13,
               BW_CODE_UNAVAILABLE = 14,
               BW_CODE_UNAUTHENTICATED = 16
};

struct bw_call;
struct bw_service;

enum bw_arity {
    BW_UNARY,         /* one request, one response */
    BW_SERVER_STREAM, /* one request, many responses */
    BW_BIDI_STREAM    /* many of both; as JSON the requests come in one body */
};

struct bw_method {
    const char *path; /* "/etcdserverpb.KV/Range" */
    const char *json; /* "/v3/kv/range", NULL: not on the gateway */
    const ProtobufCMessageDescriptor *request, *response;
    enum bw_arity arity;
    void (*message)(struct bw_call *call, const ProtobufCMessage *request);
    void (*no_more)(struct bw_call *call); /* NULL: nothing to do */
    void (*gone)(struct bw_call *call);    /* NULL: nothing to do; its waits are forgotten anyway */
    void (*room)(struct bw_call *call);    /* its caller reads again after bw_call_is_full */
};

/* All of them, ended by one without a path. */
extern const struct bw_method bw_methods[];
const struct bw_method *bw_method_find(const char *path, size_t length);

struct bw_caller {                   /* by token or certificate (auth.h) */
    char name[BW_USER_NAME_MAX + 1]; /* "": nobody */
    uint64_t since;                  /* of the user the token is of; 0: by its name alone */
    bool invalid;                    /* it showed a token that is none */
};

struct bw_binding; /* of its connection (binding.h) */
struct bw_wait;    /* something the replica was asked for on behalf of a call (service.h) */

struct bw_call {
    struct bw_service *service;
    const struct bw_method *method;
    void *state;                /* the method's own */
    struct bw_wait *waits;      /* what it waits for */
    bool asked;                 /* a request message has come */
    bool ended;                 /* nothing more may be sent */
    bool awaits_room;           /* something is to be sent once its caller has read */
    struct bw_wait *held;       /* a read that waits for that, see bw_call_room; NULL: none */
    bool needs_leader;          /* `hasleader` was asked for */
    struct bw_binding *binding; /* leases are to be bound to it; NULL: not, or not here */
    bool bound;                 /* and one is: the answer's headers say so */
    struct bw_caller caller;
    void *wire; /* the transport's */
    void (*send)(struct bw_call *call, const ProtobufCMessage *message);
    void (*end)(struct bw_call *call, enum bw_code code, const char *text);
    /* The transport's account of its connection: is too much unread for one more of a stream's
     * messages? For the response of a unary call? */
    bool (*is_full)(struct bw_call *call);
    bool (*is_crowded)(struct bw_call *call);
};

static inline bool bw_method_streams(const struct bw_method *method)
{
    return method->arity != BW_UNARY;
}

/* Every transport hands requests to a method through these three functions. */

/* A request message is there, not parsed yet: is the caller allowed to make the call, and may the
 * method have one more message? False: the call has ended. */
bool bw_call_may_take(struct bw_call *call);
/* Hands the parsed message to the method; only after bw_call_may_take returned true. */
void bw_call_take(struct bw_call *call, const ProtobufCMessage *message);
/* The caller sends no more messages. */
void bw_call_no_more(struct bw_call *call);
void bw_call_send(struct bw_call *call, const ProtobufCMessage *message);
/* `text` is copied; ignored when the code is OK. */
void bw_call_end(struct bw_call *call, enum bw_code code, const char *text);
/* True: send no more now; the method's `room` is called when there is room again. */
bool bw_call_is_full(struct bw_call *call);
/* The transport's: its caller has read. Methods go on, and reads that were held are answered. */
void bw_call_room(struct bw_call *call);
/* The transport's: nobody leads for long; a stream that asked for a leader ends, as etcd's do. */
void bw_call_leaderless(struct bw_call *call);
/* The transport's: it is gone; the memory stays the transport's. */
void bw_call_gone(struct bw_call *call);

#endif
