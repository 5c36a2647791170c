/* TLS for a connection, as bytes in and bytes out: the caller owns the socket.
 *
 * A server must show a certificate for the name we asked for, signed by the given authorities
 * (the system's when none are given); there is no way to switch that off. A client must show one
 * signed by the authorities given to our side, if any were. TLS 1.2 is the oldest version spoken.
 * What is spoken inside is agreed by ALPN; who speaks something else is refused.
 *
 * Nothing is resumed: each connection shows its certificates anew, so what expired or was withdrawn
 * is noticed at the next one. A connection keeps the files' contents that it began with. */
#ifndef BW_NET_TLS_H
#define BW_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_TLS_WHY_MAX 255u

struct bw_tls_files {
    /* A client: NULL: the authorities the system trusts. A server: NULL: asks for no certificate.
     */
    const char *ca_file;
    const char *cert_file, *key_file; /* our certificate; a client: or both NULL */
    /* Of ALPN, NULL-ended, the best first; it must last; NULL: a client wants "h2", a server takes
     * anything. A server takes who offers nothing, unless there is one protocol only. */
    const char *const *protocols;
};

struct bw_tls_config; /* shared by connections; what the files hold */
struct bw_tls;        /* one connection */

/* Returns 0 and *out, or BW_EINVAL / BW_ENOMEM with a line in why[BW_TLS_WHY_MAX + 1]. */
int bw_tls_config_new(struct bw_tls_config **out, const struct bw_tls_files *files, char *why);
int bw_tls_config_new_server(struct bw_tls_config **out, const struct bw_tls_files *files,
                             char *why);
/* Connections that began with it go on. */
void bw_tls_config_free(struct bw_tls_config *config);
/* When our certificate ends, in seconds since 1970; 0: there is none. */
int64_t bw_tls_config_ends(const struct bw_tls_config *config);

/* A client's side towards `host` (a name or an address). NULL: no memory. */
struct bw_tls *bw_tls_new(struct bw_tls_config *config, const char *host);
struct bw_tls *bw_tls_new_server(struct bw_tls_config *config);
void bw_tls_free(struct bw_tls *tls);

/* Bytes that came from the socket; all are taken. Returns 0, or BW_EIO with a line in why; what
 * then is to be taken tells the other side. */
int bw_tls_feed(struct bw_tls *tls, const uint8_t *bytes, size_t length, char *why);
/* True once the handshake is done and the certificate accepted. */
bool bw_tls_is_up(const struct bw_tls *tls);
/* What the other side said, in the clear: up to `size` bytes; 0: nothing more for now; BW_EIO:
 * broken or ended, with a line in why. */
int bw_tls_read(struct bw_tls *tls, uint8_t *bytes, size_t size, char *why);
/* Bytes to say, once it is up. Returns 0 or BW_EIO. */
int bw_tls_write(struct bw_tls *tls, const uint8_t *bytes, size_t length);
/* We say no more: what is to be taken then tells the other side. */
void bw_tls_end(struct bw_tls *tls);
/* What must go to the socket: up to `size` bytes; 0: nothing. */
size_t bw_tls_take(struct bw_tls *tls, uint8_t *bytes, size_t size);

/* Of the certificate that the other side showed. Its common name; false: none, or too long. */
bool bw_tls_peer_name(const struct bw_tls *tls, char *name, size_t size);
/* Is it for this name or address? */
bool bw_tls_peer_is_host(const struct bw_tls *tls, const char *host);
/* May it be shown by a server? */
bool bw_tls_peer_may_serve(const struct bw_tls *tls);

#endif
