/* TLS for a client connection, as bytes in and bytes out: the caller owns the socket.
 *
 * The server must show a certificate for the name we asked for, signed by the given authorities
 * (the system's when none are given); there is no way to switch that off. TLS 1.2 is the oldest
 * version spoken. Who wants HTTP/2 asks for it by ALPN and is refused if the server speaks
 * something else. */
#ifndef BW_NET_TLS_H
#define BW_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_TLS_WHY_MAX 255u

struct bw_tls_files {
    const char *ca_file;              /* NULL: the authorities the system trusts */
    const char *cert_file, *key_file; /* a client certificate, or both NULL */
};

struct bw_tls_config; /* shared by connections; what the files hold */
struct bw_tls;        /* one connection */

/* Returns 0 and *out, or BW_EINVAL / BW_ENOMEM with a line in why[BW_TLS_WHY_MAX + 1]. */
int bw_tls_config_new(struct bw_tls_config **out, const struct bw_tls_files *files, char *why);
void bw_tls_config_free(struct bw_tls_config *config);

/* A client's side towards `host` (a name or an address). NULL: no memory. */
struct bw_tls *bw_tls_new(struct bw_tls_config *config, const char *host);
void bw_tls_free(struct bw_tls *tls);

/* Bytes that came from the socket; all are taken. Returns 0, or BW_EIO with a line in why. */
int bw_tls_feed(struct bw_tls *tls, const uint8_t *bytes, size_t length, char *why);
/* True once the handshake is done and the certificate accepted. */
bool bw_tls_is_up(const struct bw_tls *tls);
/* What the server said, in the clear: up to `size` bytes; 0: nothing more for now; BW_EIO: broken,
 * with a line in why. */
int bw_tls_read(struct bw_tls *tls, uint8_t *bytes, size_t size, char *why);
/* Bytes to say, once it is up. Returns 0 or BW_EIO. */
int bw_tls_write(struct bw_tls *tls, const uint8_t *bytes, size_t length);
/* What must go to the socket: up to `size` bytes; 0: nothing. */
size_t bw_tls_take(struct bw_tls *tls, uint8_t *bytes, size_t size);

#endif
