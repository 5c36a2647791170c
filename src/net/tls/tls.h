/* TLS for a connection, as bytes in and bytes out: the caller owns the socket.
 *
 * Guarantees:
 *   - A server must present a certificate for the requested name, signed by the given authorities
 *     (by default those the system trusts). This check cannot be switched off.
 *   - A client must present a certificate signed by our authorities, if any are configured.
 *   - TLS 1.2 is the oldest version used.
 *   - ALPN chooses the protocol; a peer without a common protocol is refused.
 *   - Sessions are not resumed: every connection presents its certificates again, so an expired or
 *     withdrawn certificate is noticed at the next connection.
 * A connection keeps the file contents that it began with. */
#ifndef BW_NET_TLS_TLS_H
#define BW_NET_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_TLS_WHY_MAX 255u

struct bw_tls_files {
    /* Client: NULL: the authorities that the system trusts. Server: NULL: no client
     * certificates. */
    const char *ca_file;
    const char *cert_file, *key_file; /* our certificate; clients may leave both NULL */
    /* Revocation lists of the authorities, PEM; every authority that signs certificates needs one.
     * NULL: certificates cannot be revoked. An expired list stays in effect, as in etcd: to refuse
     * every certificate would stop the cluster. */
    const char *crl_file;
    /* ALPN protocols, NULL-terminated, the best first; the list must stay valid. NULL: a client
     * requires "h2", a server accepts anything. A server also accepts a client without ALPN, unless
     * the list has only one protocol. */
    const char *const *protocols;
};

struct bw_tls_config; /* contents of the files; shared by connections */
struct bw_tls;        /* one connection */

/* Returns 0 and *out, or BW_EINVAL or BW_ENOMEM with the reason in why[BW_TLS_WHY_MAX + 1]. */
int bw_tls_config_new(struct bw_tls_config **out, const struct bw_tls_files *files, char *why);
int bw_tls_config_new_server(struct bw_tls_config **out, const struct bw_tls_files *files,
                             char *why);
/* Existing connections continue. */
void bw_tls_config_free(struct bw_tls_config *config);
/* When our certificate expires, in seconds since 1970; 0: no certificate. */
int64_t bw_tls_config_ends(const struct bw_tls_config *config);

/* Creates the client side of a connection to `host` (a name or an address). NULL: out of memory. */
struct bw_tls *bw_tls_new(struct bw_tls_config *config, const char *host);
struct bw_tls *bw_tls_new_server(struct bw_tls_config *config);
void bw_tls_free(struct bw_tls *tls);

/* Takes all bytes from the socket. Returns 0, or BW_EIO with the reason in `why`; bw_tls_take then
 * returns an alert for the other side. */
int bw_tls_feed(struct bw_tls *tls, const uint8_t *bytes, size_t length, char *why);
/* Returns true once the handshake is done and the certificate is accepted. */
bool bw_tls_is_up(const struct bw_tls *tls);
/* Reads up to `size` bytes of plaintext. 0: nothing more for now; BW_EIO: broken or closed, with
 * the reason in `why`. */
int bw_tls_read(struct bw_tls *tls, uint8_t *bytes, size_t size, char *why);
/* Encrypts bytes; only after the handshake. Returns 0 or BW_EIO. */
int bw_tls_write(struct bw_tls *tls, const uint8_t *bytes, size_t length);
/* Ends our side: bw_tls_take then returns close_notify. */
void bw_tls_end(struct bw_tls *tls);
/* Takes up to `size` bytes that must be sent on the socket; 0: none. */
size_t bw_tls_take(struct bw_tls *tls, uint8_t *bytes, size_t size);

/* The common name of the peer's certificate. Returns false if there is none or it is too long. */
bool bw_tls_peer_name(const struct bw_tls *tls, char *name, size_t size);
/* Returns true if the peer's certificate is valid for this name or address. */
bool bw_tls_peer_is_host(const struct bw_tls *tls, const char *host);
/* Returns true if a server may present the peer's certificate. */
bool bw_tls_peer_may_serve(const struct bw_tls *tls);

#endif
