/* One remote call as the services see it, independent of its transport (gRPC over HTTP/2 or JSON
 * over HTTP/1.1): request messages in, response messages out, one end.
 *
 * The transport passes each request message to the method, then reports that the client
 * half-closed, and last that the call is gone. It reports `gone` exactly once for every call. The
 * method responds with bw_call_send and bw_call_end. It must not send anything after the end. A
 * call that is gone ignores what is sent. */
#ifndef BW_SERVE_FRONT_CALL_H
#define BW_SERVE_FRONT_CALL_H

#include "core/registry/users.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bw_code { /* the gRPC status codes in use */
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
    BW_BIDI_STREAM    /* many of both; JSON clients send all requests in one body */
};

struct bw_method {
    const char *path; /* gRPC path, for example "/etcdserverpb.KV/Range" */
    const char *json; /* gateway path, for example "/v3/kv/range"; NULL: not on the gateway */
    const ProtobufCMessageDescriptor *request, *response;
    enum bw_arity arity;
    void (*message)(struct bw_call *call, const ProtobufCMessage *request);
    void (*no_more)(struct bw_call *call);  /* the client half-closed; NULL: nothing to do */
    void (*gone)(struct bw_call *call);     /* NULL: only the call's waits are cancelled */
    void (*writable)(struct bw_call *call); /* the client reads again after bw_call_is_full */
};

/* All methods; the last element has no path. */
extern const struct bw_method bw_methods[];
const struct bw_method *bw_method_find(const char *path, size_t length);

struct bw_caller {                   /* identified by token or certificate (auth.h) */
    char name[BW_USER_NAME_MAX + 1]; /* "": anonymous */
    uint64_t since;                  /* `since` of the user in the token; 0: name only */
    bool invalid;                    /* the client presented an invalid token */
};

struct bw_binding; /* leases bound to the connection (binding.h) */
struct bw_wait;    /* a request to the replica on behalf of a call (service.h) */

struct bw_call {
    struct bw_service *service;
    const struct bw_method *method;
    void *state;                /* the method's own */
    struct bw_wait *waits;      /* pending requests to the replica */
    bw_time since;              /* when the first message arrived; 0: none has */
    bool asked;                 /* at least one request message has arrived */
    bool ended;                 /* nothing more may be sent */
    bool awaits_reader;         /* a response waits until the client has read earlier ones */
    struct bw_wait *held;       /* a read that waits for that, see bw_call_writable; NULL: none */
    bool needs_leader;          /* the client set `hasleader` */
    struct bw_binding *binding; /* for bound leases; NULL: not requested or possible */
    bool bound;                 /* a lease was bound: the response headers report it */
    struct bw_caller caller;
    void *wire; /* the transport's own */
    void (*send)(struct bw_call *call, const ProtobufCMessage *message);
    void (*end)(struct bw_call *call, enum bw_code code, const char *text);
    /* The transport decides by the account of the connection. is_full: too many bytes are unread
     * for another message of a stream. is_crowded: too many are unread for the response of a unary
     * call. */
    bool (*is_full)(struct bw_call *call);
    bool (*is_crowded)(struct bw_call *call);
};

static inline bool bw_method_streams(const struct bw_method *method)
{
    return method->arity != BW_UNARY;
}

/* Every transport passes requests to a method through these three functions. */

/* Checks, before a request message is parsed, whether the caller is authorized and whether the
 * method accepts another message. Returns false after ending the call. */
bool bw_call_may_take(struct bw_call *call);
/* Passes the parsed message to the method; only after bw_call_may_take returned true. `bytes`: the
 * size of the packed message. */
void bw_call_take(struct bw_call *call, const ProtobufCMessage *message, size_t bytes);
/* The client sends no more messages. */
void bw_call_no_more(struct bw_call *call);
void bw_call_send(struct bw_call *call, const ProtobufCMessage *message);
/* Ends the call. `text` is copied; it is ignored if the code is OK. */
void bw_call_end(struct bw_call *call, enum bw_code code, const char *text);
/* Returns true if the method must stop sending for now. The transport calls the method's `writable`
 * when the client has read enough. */
bool bw_call_is_full(struct bw_call *call);
/* For the transport: the client has read. Streaming methods continue, and held reads are
 * answered. */
void bw_call_writable(struct bw_call *call);
/* For the transport: ends a new stream that requires a leader if there has been none for long. */
void bw_call_check_leader(struct bw_call *call);
/* For the transport: there has been no leader for a while. Ends a stream that requires a leader, as
 * etcd does. */
void bw_call_leaderless(struct bw_call *call);
/* For the transport: the call is gone. The transport still owns the memory of `call`. */
void bw_call_gone(struct bw_call *call);

#endif
