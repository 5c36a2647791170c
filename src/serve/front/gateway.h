/* What the service says to plain HTTP, whatever version carries it: the API as JSON, /version,
 * /health and /metrics.
 *
 * A transport hands over one whole request and is told head, body and end of the answer, maybe much
 * later, maybe at once. Streams answer as long as their caller stays: a line for each message. */
#ifndef BW_SERVE_GATEWAY_H
#define BW_SERVE_GATEWAY_H

#include "serve/front/http1_head.h"
#include "serve/front/state.h"

struct bw_gateway;

struct bw_gateway_wire {
    /* `length` < 0: it comes in pieces, and ends with `end`. */
    void (*head)(struct bw_gateway *gateway, unsigned status, const char *type, int64_t length);
    void (*body)(struct bw_gateway *gateway, const void *bytes, size_t length);
    /* Nothing follows. The transport says bw_gateway_gone later, not from within. */
    void (*end)(struct bw_gateway *gateway);
    /* As of bw_call; and: may so many bytes be queued although other responses are unread? */
    bool (*is_full)(struct bw_gateway *gateway);
    bool (*is_crowded)(struct bw_gateway *gateway);
    bool (*is_admitted)(struct bw_gateway *gateway, size_t bytes);
};

#define BW_GATEWAY_UNREAD "bellwether: too many bytes of earlier responses are unread"

struct bw_gateway { /* one request; zeros, but for front, wire and owner */
    struct bw_call call;
    struct bw_front *front;
    const struct bw_gateway_wire *wire;
    void *owner;
    bool needs_leader;
    struct bw_caller caller;
    bool begun;        /* head was said */
    const char *allow; /* of a refusal: the verbs that would do; NULL: not said */
};

/* `path` may carry a query, which is passed over. */
void bw_gateway_ask(struct bw_gateway *gateway, enum bw_verb verb, const char *path,
                    const char *body, size_t length);
/* An answer that the transport itself has to give. */
void bw_gateway_refuse(struct bw_gateway *gateway, unsigned status, const char *message);
/* The caller has left, or all is said. */
void bw_gateway_gone(struct bw_gateway *gateway);
const char *bw_http_reason(unsigned status);

#endif
