/* Internal state of the front: connections and their protocols. */
#ifndef BW_SERVE_FRONT_STATE_H
#define BW_SERVE_FRONT_STATE_H

#include "os/refuse.h"
#include "serve/api/binding.h"
#include "serve/front/account.h"
#include "serve/front/front.h"

struct bw_front {
    struct bw_front_options options;
    uv_tcp_t listener;
    struct bw_refuser refuser;
    uv_prepare_t sender;
    uv_timer_t sweeper; /* checks deadlines while there are connections */
    uv_idle_t waker;    /* active while a connection yields: wakes the loop for its next turn */
    struct bw_conn *conns, *dirty;
    struct bw_conn *yielding; /* connections that used up their share of this turn */
    uint64_t turn;
    uint32_t count, handles;
    uint16_t port;
    bool is_local; /* without TLS, on an address that only this machine reaches */
    bool closing;
    void (*closed)(void *context);
    void *context;
    uint64_t received, sent; /* bytes from and to clients */
};

struct bw_protocol { /* HTTP/1.1 or HTTP/2 */
    /* Bytes arrived. Returns false to close the connection. */
    bool (*bytes)(struct bw_conn *conn, const unsigned char *bytes, size_t length);
    /* Puts everything to be sent into the connection's buffer (bw_conn_put). */
    void (*flush)(struct bw_conn *conn);
    void (*gone)(struct bw_conn *conn);
    /* The client half-closed. Returns false to close the connection; NULL: close at once. */
    bool (*no_more)(struct bw_conn *conn);
    /* Called periodically with the loop's time to end slow requests. `leaderless`: there has been
     * no leader for BW_FRONT_LEADERLESS_MS. Returns false to close the connection. */
    bool (*sweep)(struct bw_conn *conn, uint64_t now_ms, bool leaderless);
};

struct bw_conn {
    struct bw_front *front;
    struct bw_conn *next, **link; /* list of all connections */
    struct bw_conn *next_dirty, *next_yielded;
    bool dirty, closing, close_when_sent; /* close_when_sent: close after the last byte is sent */
    /* out of memory: `out` lacks bytes. Nothing is sent after the gap: the connection is closed. */
    bool incomplete;
    /* the server does not read from it: paused by the protocol; yielded until the next turn */
    bool paused, yielded;
    uint64_t turn;             /* the last turn of the loop in which the server read from it */
    size_t turn_bytes;         /* bytes read in that turn */
    struct bw_account account; /* excludes `out` and the socket's queue (bw_conn_backlog) */
    const struct bw_protocol *protocol;
    void *state; /* the protocol's own */
    uv_tcp_t tcp;
    struct bw_tls *tls;         /* NULL: no TLS */
    struct bw_caller caller;    /* identified by its certificate */
    struct bw_binding *binding; /* leases bound to it; NULL: none requested */
    enum bw_close_cause close_cause;
    /* SHA-256 of the proof with which a clean close ends the bound leases */
    unsigned char proof_hash[BW_BIND_PROOF];
    bool has_proof_hash;
    /* the client sent invalid bytes: only a clean close at the end of the stream still counts */
    bool broken;
    unsigned char last[BW_BIND_BYTES]; /* end of the TCP stream, if leases are bound */
    /* first bytes of the connection, kept until they show the protocol */
    unsigned char first[32];
    size_t first_used;
    uint64_t deadline_ms; /* on the loop's clock; 0: none */
    uint64_t unread_ms;   /* since when the client has read nothing; 0: nothing is unread */
    size_t unread_size;   /* size of the socket's queue at the last check */
    unsigned char *out;
    size_t out_used, out_size;
};

void bw_conn_close(struct bw_conn *conn);
void bw_conn_dirty(struct bw_conn *conn);
/* Returns the binding for leases of this connection. Returns NULL if the client's address is not
 * eligible, memory is exhausted, or the proof hash differs from an earlier one. */
struct bw_binding *bw_conn_binding(struct bw_conn *conn, enum bw_bind bind,
                                   const unsigned char hash[BW_BIND_PROOF]);
void bw_conn_put(struct bw_conn *conn, const void *bytes, size_t length);
size_t bw_conn_backlog(const struct bw_conn *conn);
void bw_conn_pause(struct bw_conn *conn); /* stops reading */
void bw_conn_resume(struct bw_conn *conn);
/* The connection has used up its share of this turn. Reads and flushes it again in the next one. */
void bw_conn_yield(struct bw_conn *conn);
void bw_conn_quick(struct bw_conn *conn); /* makes the kernel acknowledge received bytes at once */

/* Passes plaintext to the protocol. Returns false to close the connection. */
bool bw_conn_take(struct bw_conn *conn, const unsigned char *bytes, size_t length);

/* TLS. */
bool bw_conn_secure(struct bw_conn *conn); /* starts TLS; returns false if out of memory */
bool bw_conn_open_bytes(struct bw_conn *conn, const unsigned char *bytes, size_t length);
bool bw_conn_seal(struct bw_conn *conn);
void bw_conn_send_close_notify(struct bw_conn *conn);

extern const struct bw_protocol bw_protocol_h2, bw_protocol_http1;
bool bw_h2_begin(struct bw_conn *conn);
bool bw_http1_begin(struct bw_conn *conn);

#endif
