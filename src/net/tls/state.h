/* The inside of TLS: what tls.c and server.c share. */
#ifndef BW_NET_TLS_STATE_H
#define BW_NET_TLS_STATE_H

#include "net/tls/tls.h"

#include <openssl/ssl.h>

#define TLS_PROTOCOLS_MAX 64u /* bytes of ALPN's list */

struct bw_tls_config {
    SSL_CTX *context;
    bool server;
    bool must_agree; /* on a protocol */
    unsigned char protocols[TLS_PROTOCOLS_MAX];
    unsigned protocols_length;
};

struct bw_tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's own */
    bool server, must_agree, up;
    char wanted[32]; /* the protocol to name when there is none in common */
};

/* `what`, and what OpenSSL says of it. */
void tls_say_error(char *why, const char *what);
int tls_load_authorities(SSL_CTX *context, const char *file, char *why);
int tls_load_certificate(SSL_CTX *context, const struct bw_tls_files *files, char *why);
/* A connection over memory, not begun; NULL: no memory. */
struct bw_tls *tls_new(struct bw_tls_config *config);
/* ALPN's list of them; BW_EINVAL: too long. */
int tls_set_protocols(struct bw_tls_config *config, const char *const *names, char *why);

#endif
