/* TLS by OpenSSL over memory buffers; see tls.h. */
#include "net/tls.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bw_tls_config {
    SSL_CTX *context;
};

struct bw_tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's own */
    bool up;
};

static const unsigned char alpn[] = {2, 'h', '2'};

static void say_error(char *why, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(why, BW_TLS_WHY_MAX + 1, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
    ERR_clear_error();
}

static int load_authorities(SSL_CTX *context, const char *file, char *why)
{
    int loaded =
        file ? SSL_CTX_load_verify_file(context, file) : SSL_CTX_set_default_verify_paths(context);
    if (loaded == 1)
        return 0;
    char what[BW_TLS_WHY_MAX / 2];
    snprintf(what, sizeof what, "cannot take authorities from %s",
             file ? file : "the system's store");
    say_error(why, what);
    return BW_EINVAL;
}

static int load_certificate(SSL_CTX *context, const struct bw_tls_files *files, char *why)
{
    if (!files->cert_file && !files->key_file)
        return 0;
    if (!files->cert_file || !files->key_file) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "a client certificate and its key go together");
        return BW_EINVAL;
    }
    if (SSL_CTX_use_certificate_chain_file(context, files->cert_file) != 1) {
        say_error(why, "cannot take the client certificate");
        return BW_EINVAL;
    }
    if (SSL_CTX_use_PrivateKey_file(context, files->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        say_error(why, "cannot take the client certificate's key");
        return BW_EINVAL;
    }
    return 0;
}

int bw_tls_config_new(struct bw_tls_config **out, const struct bw_tls_files *files, char *why)
{
    struct bw_tls_config *config = calloc(1, sizeof *config);
    int error = BW_ENOMEM;
    if (config && (config->context = SSL_CTX_new(TLS_client_method()))) {
        SSL_CTX_set_min_proto_version(config->context, TLS1_2_VERSION);
        SSL_CTX_set_verify(config->context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_alpn_protos(config->context, alpn, sizeof alpn);
        error = load_authorities(config->context, files->ca_file, why);
        if (error == 0)
            error = load_certificate(config->context, files, why);
    } else {
        snprintf(why, BW_TLS_WHY_MAX + 1, "no memory for TLS");
    }
    if (error != 0) {
        bw_tls_config_free(config);
        return error;
    }
    *out = config;
    return 0;
}

void bw_tls_config_free(struct bw_tls_config *config)
{
    if (config)
        SSL_CTX_free(config->context);
    free(config);
}

/* An address is compared with the certificate's addresses, a name with its names. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char bytes[16];
    bool address = inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
    if (address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct bw_tls *bw_tls_new(struct bw_tls_config *config, const char *host)
{
    struct bw_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    tls->ssl = SSL_new(config->context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out || !expect_host(tls->ssl, host)) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    SSL_do_handshake(tls->ssl); /* wants an answer; the first bytes now wait to be taken */
    ERR_clear_error();
    return tls;
}

void bw_tls_free(struct bw_tls *tls)
{
    if (tls)
        SSL_free(tls->ssl);
    free(tls);
}

static int on_up(struct bw_tls *tls, char *why)
{
    const unsigned char *chosen = NULL;
    unsigned length = 0;
    SSL_get0_alpn_selected(tls->ssl, &chosen, &length);
    if (length != 2 || memcmp(chosen, "h2", 2) != 0) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "the server does not offer HTTP/2 over TLS");
        return BW_EIO;
    }
    tls->up = true;
    return 0;
}

static int shake(struct bw_tls *tls, char *why)
{
    int done = SSL_do_handshake(tls->ssl);
    if (done == 1)
        return on_up(tls, why);
    int error = SSL_get_error(tls->ssl, done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    long verdict = SSL_get_verify_result(tls->ssl);
    if (verdict != X509_V_OK) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "the server's certificate is refused: %s",
                 X509_verify_cert_error_string(verdict));
        ERR_clear_error();
    } else {
        say_error(why, "TLS handshake failed");
    }
    return BW_EIO;
}

int bw_tls_feed(struct bw_tls *tls, const uint8_t *bytes, size_t length, char *why)
{
    if (length > INT32_MAX || BIO_write(tls->in, bytes, (int)length) != (int)length) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "no memory for TLS");
        return BW_EIO;
    }
    return tls->up ? 0 : shake(tls, why);
}

bool bw_tls_is_up(const struct bw_tls *tls)
{
    return tls->up;
}

int bw_tls_read(struct bw_tls *tls, uint8_t *bytes, size_t size, char *why)
{
    int got = SSL_read(tls->ssl, bytes, (int)size);
    if (got > 0)
        return got;
    int error = SSL_get_error(tls->ssl, got);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    if (error == SSL_ERROR_ZERO_RETURN)
        snprintf(why, BW_TLS_WHY_MAX + 1, "the server closed the connection");
    else
        say_error(why, "TLS failed");
    return BW_EIO;
}

int bw_tls_write(struct bw_tls *tls, const uint8_t *bytes, size_t length)
{
    if (length == 0)
        return 0;
    int done = SSL_write(tls->ssl, bytes, (int)length); /* memory takes all of it or fails */
    ERR_clear_error();
    return done == (int)length ? 0 : BW_EIO;
}

size_t bw_tls_take(struct bw_tls *tls, uint8_t *bytes, size_t size)
{
    int got = BIO_read(tls->out, bytes, (int)size);
    return got > 0 ? (size_t)got : 0;
}
