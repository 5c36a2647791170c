/* The plain HTTP side of the service, for HTTP/1.1 and HTTP/2: the API as JSON, /version, /health,
 * /metrics, and the dashboard at /.
 *
 * A transport hands over one complete request. The gateway passes head, body and end of the
 * response to the transport, at once or much later. A streaming method writes one line per message
 * until the client disconnects. */
#ifndef BW_SERVE_FRONT_GATEWAY_H
#define BW_SERVE_FRONT_GATEWAY_H

#include "serve/front/http1_head.h"
#include "serve/front/state.h"

struct bw_gateway;

struct bw_gateway_wire {
    /* Called with the head of the response. `length` < 0: the length is unknown, and the body is
     * sent in pieces until `end`. */
    void (*head)(struct bw_gateway *gateway, unsigned status, const char *type, int64_t length);
    void (*body)(struct bw_gateway *gateway, const void *bytes, size_t length);
    /* Called when the response is complete. The transport then calls bw_gateway_gone, but not from
     * within `end`. */
    void (*end)(struct bw_gateway *gateway);
    /* is_full and is_crowded: as in struct bw_call. is_admitted: `bytes` may be queued although
     * other responses are unread. */
    bool (*is_full)(struct bw_gateway *gateway);
    bool (*is_crowded)(struct bw_gateway *gateway);
    bool (*is_admitted)(struct bw_gateway *gateway, size_t bytes);
};

#define BW_GATEWAY_UNREAD "bellwether: too many bytes of earlier responses are unread"

struct bw_http_field { /* of a response; the names are in lower case */
    const char *name, *value;
};

#define BW_GATEWAY_FIELDS_MAX 12u

struct bw_gateway { /* one request; zeros except front, wire and owner */
    struct bw_call call;
    struct bw_front *front;
    const struct bw_gateway_wire *wire;
    void *owner;
    bool needs_leader;
    bool accepts_gzip, has_page; /* has_page: the client has the current dashboard */
    enum bw_origin origin;
    bool by_name; /* HTTP/1.1: Host is neither an IP address nor localhost */
    struct bw_caller caller;
    bool begun;        /* the head was written */
    const char *allow; /* refusals: the methods that are allowed; NULL: not sent */
    /* at most BW_GATEWAY_FIELDS_MAX fields, the last one without a name; or NULL */
    const struct bw_http_field *fields;
};

/* Processes a request. A query in `path` is ignored. */
void bw_gateway_ask(struct bw_gateway *gateway, enum bw_verb verb, const char *path,
                    const char *body, size_t length);
/* Sends an error response that the transport itself decided on. */
void bw_gateway_refuse(struct bw_gateway *gateway, unsigned status, const char *message);
/* Refuses a body of so many bytes: more than BW_FRONT_BODY_MAX. */
void bw_gateway_refuse_size(struct bw_gateway *gateway, uint64_t bytes);
/* Returns true after ending the call if its message has more than BW_FRONT_MESSAGE_MAX bytes. */
bool bw_call_is_oversize(struct bw_call *call, size_t bytes);
/* Ends the request: the client disconnected, or the response is complete. */
void bw_gateway_gone(struct bw_gateway *gateway);
const char *bw_http_status_text(unsigned status);

#endif
