/* The inside of the door: a connection, and what it speaks. */
#ifndef BW_SERVE_FRONT_STATE_H
#define BW_SERVE_FRONT_STATE_H

#include "serve/api/binding.h"
#include "serve/front/account.h"
#include "serve/front/front.h"

struct bw_front {
    struct bw_front_options options;
    uv_tcp_t listener;
    uv_prepare_t sender;
    uv_timer_t sweeper; /* looks for deadlines while there are connections */
    uv_idle_t waker;    /* while a connection rests: the next turn comes without events */
    struct bw_conn *conns, *dirty;
    struct bw_conn *resting; /* had enough in this turn of the loop */
    uint64_t turn;
    uint32_t count, handles;
    uint64_t leaderless_ms; /* since when nobody leads; 0: somebody does */
    uint16_t port;
    bool closing;
    void (*closed)(void *context);
    void *context;
};

struct bw_speech { /* what a connection speaks */
    /* False: hang up. */
    bool (*bytes)(struct bw_conn *conn, const unsigned char *bytes, size_t length);
    /* Puts what must be sent into the connection's buffer (bw_conn_put). */
    void (*flush)(struct bw_conn *conn);
    void (*gone)(struct bw_conn *conn);
    /* Its caller sends no more. False: hang up; NULL: hang up at once. */
    bool (*no_more)(struct bw_conn *conn);
    /* Every so often, with the loop's time: what is too slow ends; `leaderless`: nobody leads for
     * long. False: hang up. */
    bool (*sweep)(struct bw_conn *conn, uint64_t now_ms, bool leaderless);
};

struct bw_conn {
    struct bw_front *front;
    struct bw_conn *next, **link; /* all */
    struct bw_conn *next_dirty, *next_resting;
    bool dirty, closing, hang_up; /* hang_up: when everything is sent */
    bool paused, rests;           /* not read from: by the speech; until the next turn */
    uint64_t turn;                /* the last in which it was read from */
    size_t turn_bytes;            /* in that turn */
    struct bw_account account;    /* beside `out` and the socket's queue: bw_conn_backlog */
    const struct bw_speech *speech;
    void *state; /* the speech's */
    uv_tcp_t tcp;
    struct bw_tls *tls;         /* NULL: in the clear */
    struct bw_caller caller;    /* by its certificate */
    struct bw_binding *binding; /* of leases; NULL: nobody asked for it */
    enum bw_hangup hangup;
    unsigned char proof_hash[BW_BIND_PROOF]; /* of the leases that end by a farewell */
    bool has_proof_hash;
    bool broken;                       /* its bytes make no sense; the last may be a farewell */
    unsigned char last[BW_BIND_BYTES]; /* of the TCP stream, while leases are bound */
    unsigned char first[32];           /* before it is known what it speaks */
    size_t first_used;
    uint64_t deadline_ms; /* of the loop's clock; 0: none */
    uint64_t unread_ms;   /* since when its caller has read nothing of what is sent; 0: all */
    size_t unread_size;   /* of the socket's queue when it was last looked at */
    unsigned char *out;
    size_t out_used, out_size;
};

void bw_conn_close(struct bw_conn *conn);
void bw_conn_dirty(struct bw_conn *conn);
/* What leases are bound to. NULL: not from where its client is, no memory, or another proof than
 * before. */
struct bw_binding *bw_conn_binding(struct bw_conn *conn, enum bw_bind bind,
                                   const unsigned char hash[BW_BIND_PROOF]);
void bw_conn_put(struct bw_conn *conn, const void *bytes, size_t length);
size_t bw_conn_backlog(const struct bw_conn *conn);
void bw_conn_pause(struct bw_conn *conn); /* reads no more */
void bw_conn_resume(struct bw_conn *conn);
/* It had enough in this turn: it is read from and flushed again in the next one. */
void bw_conn_rest(struct bw_conn *conn);
void bw_conn_quick(struct bw_conn *conn); /* acknowledges what came at once */

/* Bytes in the clear to the speech; false: hang up. */
bool bw_conn_take(struct bw_conn *conn, const unsigned char *bytes, size_t length);

/* TLS. */
bool bw_conn_secure(struct bw_conn *conn); /* false: no memory */
bool bw_conn_open_bytes(struct bw_conn *conn, const unsigned char *bytes, size_t length);
bool bw_conn_seal(struct bw_conn *conn);
void bw_conn_farewell(struct bw_conn *conn);

extern const struct bw_speech bw_speech_h2, bw_speech_http1;
bool bw_h2_begin(struct bw_conn *conn);
bool bw_http1_begin(struct bw_conn *conn);

#endif
