/* Leases that end with their client's connection.
 *
 * A client binds a lease with the metadata `bellwether-bind` of LeaseGrant or LeaseKeepAlive. Each
 * connection has a number that is never reused; a lease stores the number it was last bound to
 * (core/registry/registry.h). When the client closes the connection, the server revokes the lease
 * after a hold-off. The revocation goes through the log and names the connection's number. It has
 * no effect if the lease was bound to another connection earlier in the log. Closes by the server,
 * timeouts and the death of this node never revoke a lease; it then expires by its TTL.
 *
 * Kinds of binding:
 *   connection   A FIN or RST from the client ends the lease. For clients whose work ends with
 *                them.
 *   farewell     A clean close ends the lease: the last bytes of the TCP stream are the proof
 *                whose SHA-256 the client sent when it bound the lease
 *                (net/clean_close_proof.h). For work that may outlive its client's process: the
 *                client's guardian sends the proof after it has seen the work dead. Other bytes or
 *                urgent data end nothing.
 *
 * Not guaranteed: that a bound lease ends early. After any failure here the lease lasts for its
 * TTL. */
#ifndef BW_SERVE_API_BINDING_H
#define BW_SERVE_API_BINDING_H

#include "net/clean_close_proof.h"
#include "serve/api/service.h"

/* On loopback a close arrives immediately. The hold-off leaves time for requests in flight on
 * another connection of the same client. */
#define BW_BIND_LOOPBACK_NS (10 * BW_MS)
#define BW_BIND_LEAST_NS    (100 * BW_MS) /* minimum for other addresses, if enabled */
#define BW_BOUND_MAX        65536u        /* leases per connection */
#define BW_BOUND_ALL_MAX    (1u << 20)    /* leases of all connections */

enum bw_bind { BW_BIND_NOT, BW_BIND_CONNECTION, BW_BIND_CLEAN_CLOSE };

enum bw_close_cause {
    BW_CLOSED_BY_US,     /* closed by this server, or by a timeout */
    BW_CLOSED_BY_CLIENT, /* FIN or RST received */
    BW_CLOSED_CLEANLY    /* proof received */
};

/* ---- rules (binding_rules.c): pure ---- */

/* Parses the metadata. Sets `hash` if it requests a clean close. */
enum bw_bind bw_bind_read(const char *text, size_t length, unsigned char hash[BW_BIND_PROOF]);
/* Returns true if the last BW_BIND_BYTES of a stream contain the proof with that hash. */
bool bw_bind_is_proof(const unsigned char last[BW_BIND_BYTES],
                      const unsigned char hash[BW_BIND_PROOF]);
/* Returns the delay between a close and the revocation; 0: do not bind connections from there. */
bw_time bw_bind_hold_off(bool loopback, bw_time elsewhere_ns);
bool bw_bind_ends(enum bw_bind bind, enum bw_close_cause close_cause);

/* ---- bindings of a service ---- */

struct bw_binding;

/* Creates the binding of a new connection. NULL: out of memory. */
struct bw_binding *bw_binding_new(struct bw_service *service, bw_time hold_off_ns);
/* Once a request asks for a clean close, that applies to all leases of the connection. */
void bw_binding_ask(struct bw_binding *binding, enum bw_bind bind);
uint64_t bw_binding_number(const struct bw_binding *binding);
uint32_t bw_binding_hold_off_ms(const struct bw_binding *binding);
/* Records that a lease is bound, or may still become bound after its call has gone. If the table is
 * full, or if another user bound leases on this connection before, the lease ends by its TTL. */
void bw_binding_add(struct bw_binding *binding, const struct bw_caller *caller, int64_t lease);
/* The connection is closed. `proof`: the proof, if it was closed cleanly. The caller must not use
 * the binding any more. */
void bw_binding_end(struct bw_binding *binding, enum bw_close_cause close_cause,
                    const unsigned char proof[BW_BIND_PROOF]);
/* death_proof.c: proposes to put the death proof of the leadership that this lease holds, if its
 * record asks for one. `secret` is the proof of a clean close. */
void bw_death_proof_put(struct bw_call *call, int64_t lease,
                        const unsigned char secret[BW_BIND_PROOF]);
/* Call before the replica is closed. */
void bw_bindings_close(struct bw_service *service);

#endif
