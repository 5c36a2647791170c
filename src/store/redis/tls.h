/* TLS for one connection, by OpenSSL on memory buffers. The caller does the network I/O.
 *
 * The server's certificate is always verified against the given CA file (or the system's
 * authorities) and against the host name or address in the URL. */
#ifndef BW_STORE_REDIS_TLS_H
#define BW_STORE_REDIS_TLS_H

#include "store/store.h"

struct redis_tls_context; /* one per store: certificates and keys */
struct redis_tls;         /* one per connection */

/* File names may be NULL: no `ca_file` means the system's authorities, no `cert_file` means no
 * client certificate. Returns NULL with a line in why[BW_WHY_MAX + 1]. */
struct redis_tls_context *redis_tls_context_new(const char *ca_file, const char *cert_file,
                                                const char *key_file, char *why);
void redis_tls_context_free(struct redis_tls_context *context);

/* Returns NULL if memory is exhausted. */
struct redis_tls *redis_tls_new(struct redis_tls_context *context, const char *host);
void redis_tls_free(struct redis_tls *tls);

/* Takes bytes received from the network. Returns 0, BW_ELIMIT or BW_ENOMEM. */
int redis_tls_feed(struct redis_tls *tls, const char *bytes, size_t length);
/* Copies out bytes to send to the network; 0 if there are none. */
size_t redis_tls_drain(struct redis_tls *tls, char *bytes, size_t size);
/* Returns 1 if the handshake is complete, 0 if it needs more bytes, BW_EDENIED with a line in
 * `why`. */
int redis_tls_handshake(struct redis_tls *tls, char *why);
/* Decrypts received bytes. Returns their number, 0 if none are available, BW_EIO at the end. */
int redis_tls_read(struct redis_tls *tls, char *bytes, size_t size);
/* Encrypts all bytes, or returns BW_EIO. */
int redis_tls_write(struct redis_tls *tls, const char *bytes, size_t length);

#endif
