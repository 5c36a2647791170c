/* The server side of TLS; see tls.h. */
#include "core/base/error.h"
#include "net/tls/state.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The ciphers that HTTP/2 allows with TLS 1.2 (RFC 9113, appendix A): forward secrecy and
 * authenticated encryption. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

static bool offers(const unsigned char *offer, unsigned length, const char *name)
{
    size_t name_length = strlen(name);
    for (unsigned at = 0; at < length; at += offer[at] + 1u)
        if (at + 1u + offer[at] <= length && offer[at] == name_length &&
            memcmp(offer + at + 1, name, name_length) == 0)
            return true;
    return false;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *offer, unsigned offer_length, void *context)
{
    (void)ssl;
    for (const char *const *ours = context; *ours; ours++)
        if (offers(offer, offer_length, *ours)) {
            *out = (const unsigned char *)*ours;
            *out_length = (unsigned char)strlen(*ours);
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* False if memory is exhausted: OpenSSL would then use its own list of ciphers. */
static bool set_rules(SSL_CTX *context)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* idle connections hold little memory */
    return SSL_CTX_set_cipher_list(context, CIPHERS) == 1;
}

/* Names the authorities to clients, so that they can choose a certificate. */
static int name_authorities(SSL_CTX *context, const char *file, char *why)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(file);
    if (!names)
        return tls_out_of_memory(why); /* the file was loaded before */
    SSL_CTX_set_client_CA_list(context, names);
    return 0;
}

static int load(struct bw_tls_config *config, const struct bw_tls_files *files, char *why)
{
    SSL_CTX *context = config->context;
    if (!set_rules(context))
        return tls_out_of_memory(why);
    if (!files->cert_file || !files->key_file) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "a server needs a certificate and its key");
        return BW_EINVAL;
    }
    if (files->protocols) {
        int error = tls_set_protocols(config, files->protocols, why);
        if (error)
            return error;
        config->must_agree = !files->protocols[1];
        SSL_CTX_set_alpn_select_cb(context, choose_protocol, (void *)files->protocols);
    }
    int error = tls_load_certificate(context, files, why);
    if (error || !files->ca_file)
        return error;
    error = tls_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, files->crl_file,
                       why);
    if (error)
        return error;
    error = tls_load_authorities(context, files->ca_file, why);
    return error ? error : name_authorities(context, files->ca_file, why);
}

int bw_tls_config_new_server(struct bw_tls_config **out, const struct bw_tls_files *files,
                             char *why)
{
    struct bw_tls_config *config = calloc(1, sizeof *config);
    if (!config || !(config->context = SSL_CTX_new(TLS_server_method()))) {
        free(config);
        return tls_out_of_memory(why);
    }
    config->server = true;
    int error = load(config, files, why);
    ERR_clear_error();
    if (error)
        bw_tls_config_free(config);
    else
        *out = config;
    return error;
}

struct bw_tls *bw_tls_new_server(struct bw_tls_config *config)
{
    struct bw_tls *tls = tls_new(config);
    if (tls)
        SSL_set_accept_state(tls->ssl);
    return tls;
}
