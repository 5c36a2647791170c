/* TLS for one connection, by OpenSSL over memory: bytes of the network in and out, the loop around
 * it does the I/O. The server's certificate is always verified: against the given CA file or the
 * system's, and for the host's name (or address) as the URL has it. */
#ifndef BW_STORE_REDIS_TLS_H
#define BW_STORE_REDIS_TLS_H

#include "store/store.h"

struct redis_tls_context; /* one per store: certificates and keys */
struct redis_tls;         /* one per connection */

/* Files may be NULL: the system's authorities, no certificate of our own. Returns NULL with a line
 * in why[BW_WHY_MAX + 1]. */
struct redis_tls_context *redis_tls_context_new(const char *ca_file, const char *cert_file,
                                                const char *key_file, char *why);
void redis_tls_context_free(struct redis_tls_context *context);

/* NULL: no memory. */
struct redis_tls *redis_tls_new(struct redis_tls_context *context, const char *host);
void redis_tls_free(struct redis_tls *tls);

/* Bytes from the network; BW_ENOMEM. */
int redis_tls_feed(struct redis_tls *tls, const char *bytes, size_t length);
/* Bytes for the network; 0: none. */
size_t redis_tls_drain(struct redis_tls *tls, char *bytes, size_t size);
/* 1: the handshake is done; 0: it needs more bytes; BW_EDENIED with a line in `why`. */
int redis_tls_handshake(struct redis_tls *tls, char *why);
/* Plain bytes out of what was fed: how many, 0: none now, BW_EIO: the other side is done. */
int redis_tls_read(struct redis_tls *tls, char *bytes, size_t size);
/* All of them, or BW_EIO. */
int redis_tls_write(struct redis_tls *tls, const char *bytes, size_t length);

#endif
