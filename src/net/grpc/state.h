/* Internal state shared by grpc.c (the channel: endpoints, time) and call.c (calls and their
 * bytes). */
#ifndef BW_NET_GRPC_STATE_H
#define BW_NET_GRPC_STATE_H

#include "core/base/rng.h"
#include "net/grpc/grpc.h"
#include "net/grpc/h2.h"

enum grpc_state { GRPC_CONNECTING, GRPC_UP, GRPC_READY, GRPC_PAUSING };

/* Unsent calls wait in one FIFO queue per rank; a lower rank goes first. */
enum grpc_rank {
    GRPC_EARLY,  /* may start before the channel is ready */
    GRPC_STREAM, /* no deadline; not counted among the calls in progress */
    GRPC_URGENT,
    GRPC_ORDINARY,
    GRPC_RANKS
};

struct bw_grpc_call {
    struct bw_grpc *channel;
    struct bw_grpc_call *next, *previous; /* list of all calls */
    struct bw_grpc_call *ahead, *behind;  /* queue of waiting calls of one rank */
    enum grpc_rank rank;
    struct bw_grpc_hooks hooks;
    void *context;
    struct bw_grpc_head head; /* its strings are below */
    char path[96], name[BW_GRPC_OWN_MAX][32], value[BW_GRPC_OWN_MAX][BW_GRPC_VALUE_MAX + 1];
    struct bw_h2_stream *stream; /* NULL: not started */
    /* when the call was made and begun; until_ms is its deadline, 0: none */
    uint64_t made_ms, begun_ms, until_ms;
    /* Messages that wait until the stream starts, already framed. */
    uint8_t *out;
    size_t out_length;
    bool out_last;
    /* Incoming: 5 bytes of prefix, then the message. */
    uint8_t prefix[5];
    uint8_t *in;
    size_t in_have, in_need, in_size;
    bool refused; /* the response is unusable: `result` has the reason */
    bool in_hook; /* a hook of this call is running */
    bool gone;    /* the call ended while that hook ran */
    uint64_t serial;
    struct bw_grpc_result result;
    int http_status;
};

struct bw_grpc {
    struct bw_grpc_options options;
    struct bw_rng rng;
    enum grpc_state state;
    struct bw_h2 *h2;
    uint64_t connection; /* number of the last connection */
    uint32_t at;         /* current endpoint */
    uint32_t failed;     /* endpoints that failed in a row */
    uint32_t late;       /* of these, endpoints that were too slow to set up a connection */
    uint32_t slow;       /* deadlines missed in a row */
    uint64_t timeout_ms, opened_ms, pinged_ms, ticked_ms;
    uv_timer_t pause;           /* until the next round of endpoints */
    uv_timer_t tick;            /* checks deadlines and liveness */
    struct bw_grpc_call *calls; /* newest first */
    struct {
        struct bw_grpc_call *first, *last;
    } queue[GRPC_RANKS];
    uint32_t count;   /* number of calls */
    uint32_t timed;   /* number of calls with a deadline */
    uint32_t at_once; /* calls with a deadline that are sent */
    uint64_t serial;  /* of the newest call */
    unsigned handles;
    bool closed;
    char name[32], value[1024];    /* header of every call */
    char why[BW_GRPC_WHY_MAX + 1]; /* the last failure */
};

/* Starts the waiting calls that may start now. */
void grpc_begin_waiting(struct bw_grpc *channel);
/* Opens the call's stream and sends its queued messages. */
void grpc_call_begin(struct bw_grpc_call *call);
/* Ends the call with this code, or with the code that the server has sent. The call must not be
 * used afterwards. */
void grpc_call_end(struct bw_grpc_call *call, int code, const char *why);
/* Leaves the endpoint and connects to the next one; `pause`: after a pause. */
void grpc_drop(struct bw_grpc *channel, const char *why, bool pause);
/* A call with a deadline exists: check the time more often. */
void grpc_tick_soon(struct bw_grpc *channel);

#endif
