/* Leases that end with their client's connection: which close of a connection counts, and what
 * follows from it.
 *
 * A client binds a lease by the metadata `bellwether-bind` of LeaseGrant or LeaseKeepAlive. Every
 * connection has a number that is never given twice; the lease keeps the number it was last bound
 * to (registry.h). When the connection is closed by its client's side, the lease is revoked after a
 * hold-off, through the log and by that number: if the lease was bound to another connection by
 * then, in the order of the log, nothing happens. A close of ours, a time-out and this node's death
 * never count: the lease then lasts for its TTL.
 *
 *   connection   FIN or RST from the client's side. For clients whose work ends with them.
 *   farewell     the proof whose SHA-256 the client gave when it bound the lease, as the last bytes
 *                of the TCP stream (net/bind_proof.h). For work that may outlive its client's
 *                process: whoever saw it dead, and was given the proof for that, shows it. Bytes
 *                that are not the proof, or urgent data, end nothing.
 *
 * Not guaranteed: that a bound lease ends early. Everything that goes wrong here costs the TTL. */
#ifndef BW_SERVE_BINDING_H
#define BW_SERVE_BINDING_H

#include "net/bind_proof.h"
#include "serve/api/service.h"

/* On loopback a close arrives when it happens: time for what is on its way on another connection of
 * the same client. */
#define BW_BIND_LOOPBACK_NS (10 * BW_MS)
#define BW_BIND_LEAST_NS    (100 * BW_MS) /* elsewhere, if at all */
#define BW_BOUND_MAX        65536u        /* leases of one connection */
#define BW_BOUND_ALL_MAX    (1u << 20)    /* and of all together */

enum bw_bind { BW_BIND_NOT, BW_BIND_CONNECTION, BW_BIND_FAREWELL };

enum bw_hangup {
    BW_HANGUP_OURS,    /* by us, or by time */
    BW_HANGUP_CLIENTS, /* FIN or RST came */
    BW_HANGUP_FAREWELL /* the proof came */
};

/* ---- the rules (binding_rules.c): pure ---- */

/* What the metadata asks for; `hash` is of the proof, if it asks for a farewell. */
enum bw_bind bw_bind_read(const char *text, size_t length, unsigned char hash[BW_BIND_PROOF]);
/* The last BW_BIND_BYTES of a stream: are they a farewell with the proof of that hash? */
bool bw_bind_is_proof(const unsigned char last[BW_BIND_BYTES],
                      const unsigned char hash[BW_BIND_PROOF]);
/* How long after a close; 0: connections from there are not bound. */
bw_time bw_bind_hold_off(bool loopback, bw_time elsewhere_ns);
bool bw_bind_ends(enum bw_bind bind, enum bw_hangup hangup);

/* ---- the bindings of a service ---- */

struct bw_binding;

/* Of a new connection. NULL: no memory. */
struct bw_binding *bw_binding_new(struct bw_service *service, bw_time hold_off_ns);
/* One that asks for a farewell gets it for all leases of the connection. */
void bw_binding_ask(struct bw_binding *binding, enum bw_bind bind);
uint64_t bw_binding_number(const struct bw_binding *binding);
uint32_t bw_binding_hold_off_ms(const struct bw_binding *binding);
/* The lease is bound, or it may still become so although its caller is gone. Where there is no room
 * for it, it ends by its TTL. */
void bw_binding_add(struct bw_binding *binding, int64_t lease);
/* The connection is gone; the binding is not to be used any more. */
void bw_binding_end(struct bw_binding *binding, enum bw_hangup hangup);
/* Before the replica is closed. */
void bw_bindings_close(struct bw_service *service);

#endif
