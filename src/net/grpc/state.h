/* Insides shared by grpc.c (the channel: endpoints, time) and call.c (calls and their bytes).
 */
#ifndef BW_NET_GRPC_STATE_H
#define BW_NET_GRPC_STATE_H

#include "core/base/rng.h"
#include "net/grpc/grpc.h"
#include "net/grpc/h2.h"

enum grpc_state { GRPC_CONNECTING, GRPC_UP, GRPC_READY, GRPC_PAUSING };

/* Calls that are not sent yet wait in one queue per rank, first in, first out; a lower rank goes
 * first. */
enum grpc_rank {
    GRPC_EARLY,  /* may go before the channel is ready */
    GRPC_STREAM, /* has no deadline, and is not counted among the calls at one time */
    GRPC_URGENT,
    GRPC_ORDINARY,
    GRPC_RANKS
};

struct bw_grpc_call {
    struct bw_grpc *channel;
    struct bw_grpc_call *next, *previous; /* of all calls */
    struct bw_grpc_call *ahead, *behind;  /* of those that wait, of one rank */
    enum grpc_rank rank;
    struct bw_grpc_hooks hooks;
    void *context;
    struct bw_grpc_head head; /* its strings are below */
    char path[96], name[BW_GRPC_OWN_MAX][32], value[BW_GRPC_OWN_MAX][BW_GRPC_VALUE_MAX + 1];
    struct bw_h2_stream *stream;          /* NULL: not begun */
    uint64_t made_ms, begun_ms, until_ms; /* 0: no deadline */
    /* Waiting to be sent, framed; the stream's own once begun. */
    uint8_t *out;
    size_t out_length;
    bool out_last;
    /* Coming in: 5 bytes of prefix, then the message. */
    uint8_t prefix[5];
    uint8_t *in;
    size_t in_have, in_need, in_size;
    bool refused;       /* what came in cannot be used: `result` says why */
    bool telling, gone; /* a hook runs; it ended meanwhile */
    uint64_t serial;
    struct bw_grpc_result result;
    int http_status;
};

struct bw_grpc {
    struct bw_grpc_options options;
    struct bw_rng rng;
    enum grpc_state state;
    struct bw_h2 *h2;
    uint64_t connection; /* the last one's number */
    uint32_t at;         /* endpoint */
    uint32_t failed;     /* endpoints in a row */
    uint32_t slow;       /* deadlines in a row that ran out */
    uint64_t patience_ms, pinged_ms, ticked_ms;
    uv_timer_t pause;           /* until the next round of endpoints */
    uv_timer_t tick;            /* deadlines and signs of life */
    struct bw_grpc_call *calls; /* the newest first */
    struct {
        struct bw_grpc_call *first, *last;
    } queue[GRPC_RANKS];
    uint32_t count, timed; /* calls; those with a deadline */
    uint32_t at_once;      /* of these: sent */
    uint64_t serial;       /* of the newest call */
    unsigned handles;
    bool closed;
    char name[32], value[1024];    /* of every call */
    char why[BW_GRPC_WHY_MAX + 1]; /* of the last failure */
};

/* Those that may go now. */
void grpc_begin_waiting(struct bw_grpc *channel);
/* Opens its stream and sends what waits. */
void grpc_call_begin(struct bw_grpc_call *call);
/* Ends it with this code unless the server has said another; it is gone. */
void grpc_call_end(struct bw_grpc_call *call, int code, const char *why);
/* Leaves the endpoint. */
void grpc_drop(struct bw_grpc *channel, const char *why, bool pause);
/* A call with a deadline is there: look at the time more often. */
void grpc_tick_soon(struct bw_grpc *channel);

#endif
