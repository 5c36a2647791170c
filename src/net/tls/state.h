/* Internal state of TLS, shared by tls.c and server.c. */
#ifndef BW_NET_TLS_STATE_H
#define BW_NET_TLS_STATE_H

#include "net/tls/tls.h"

#include <openssl/ssl.h>

#define TLS_PROTOCOLS_MAX 64u /* bytes of the ALPN list */

struct bw_tls_config {
    SSL_CTX *context;
    bool server;
    bool must_agree; /* ALPN must agree on a protocol */
    unsigned char protocols[TLS_PROTOCOLS_MAX];
    unsigned protocols_length;
};

struct bw_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by the SSL */
    bool server, must_agree, up;
    char wanted[32]; /* protocol to name when ALPN finds none in common */
};

/* Writes `what` and OpenSSL's reason. */
void tls_format_error(char *why, const char *what);
int tls_load_authorities(SSL_CTX *context, const char *file, char *why);
/* Requires with `mode` a certificate that is not revoked. */
int tls_verify(SSL_CTX *context, int mode, const char *crl_file, char *why);
/* Explains BW_ENOMEM, and returns it. */
int tls_out_of_memory(char *why);
int tls_load_certificate(SSL_CTX *context, const struct bw_tls_files *files, char *why);
/* Creates a connection on memory buffers, not started yet. NULL: out of memory. */
struct bw_tls *tls_new(struct bw_tls_config *config);
/* Encodes the ALPN list; BW_EINVAL: too long. */
int tls_set_protocols(struct bw_tls_config *config, const char *const *names, char *why);

#endif
