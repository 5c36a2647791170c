/* TLS over memory; see tls.h. */
#include "store/redis/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

struct redis_tls_context {
    SSL_CTX *ssl;
};

struct redis_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

static const char *newest_error(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "unknown error";
}

static int load_files(SSL_CTX *ssl, const char *ca_file, const char *cert_file,
                      const char *key_file, char *why)
{
    if (ca_file ? SSL_CTX_load_verify_locations(ssl, ca_file, NULL) != 1
                : SSL_CTX_set_default_verify_paths(ssl) != 1)
        return bw_store_explain(why, BW_EINVAL, "cannot load certificate authorities from %s: %s",
                                ca_file ? ca_file : "the system", newest_error());
    if (cert_file && SSL_CTX_use_certificate_chain_file(ssl, cert_file) != 1)
        return bw_store_explain(why, BW_EINVAL, "cannot load the certificate %s: %s", cert_file,
                                newest_error());
    const char *key = key_file ? key_file : cert_file;
    if (key && SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1)
        return bw_store_explain(why, BW_EINVAL, "cannot load the key %s: %s", key, newest_error());
    return 0;
}

struct redis_tls_context *redis_tls_context_new(const char *ca_file, const char *cert_file,
                                                const char *key_file, char *why)
{
    struct redis_tls_context *context = calloc(1, sizeof *context);
    ERR_clear_error();
    if (context)
        context->ssl = SSL_CTX_new(TLS_client_method());
    if (!context || !context->ssl) {
        bw_store_explain(why, BW_ENOMEM, "no memory for TLS");
        free(context);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
    if (load_files(context->ssl, ca_file, cert_file, key_file, why) != 0) {
        redis_tls_context_free(context);
        return NULL;
    }
    return context;
}

void redis_tls_context_free(struct redis_tls_context *context)
{
    if (context)
        SSL_CTX_free(context->ssl);
    free(context);
}

/* An address is compared with the certificate's addresses, a name with its names. */
static int expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
        return 0;
    bool set = SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
    return set ? 0 : BW_ENOMEM;
}

struct redis_tls *redis_tls_new(struct redis_tls_context *context, const char *host)
{
    struct redis_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    ERR_clear_error();
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out || expect_host(tls->ssl, host) != 0) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    return tls;
}

void redis_tls_free(struct redis_tls *tls)
{
    if (tls)
        SSL_free(tls->ssl);
    free(tls);
}

int redis_tls_feed(struct redis_tls *tls, const char *bytes, size_t length)
{
    if (length > INT_MAX)
        return BW_ELIMIT;
    return BIO_write(tls->in, bytes, (int)length) == (int)length ? 0 : BW_ENOMEM;
}

size_t redis_tls_drain(struct redis_tls *tls, char *bytes, size_t size)
{
    int got = BIO_read(tls->out, bytes, size > INT_MAX ? INT_MAX : (int)size);
    return got > 0 ? (size_t)got : 0;
}

int redis_tls_handshake(struct redis_tls *tls, char *why)
{
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1)
        return 1;
    int error = SSL_get_error(tls->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    long verified = SSL_get_verify_result(tls->ssl);
    return bw_store_explain(why, BW_EDENIED, "TLS: %s",
                            verified != X509_V_OK ? X509_verify_cert_error_string(verified)
                                                  : newest_error());
}

int redis_tls_read(struct redis_tls *tls, char *bytes, size_t size)
{
    ERR_clear_error();
    int got = SSL_read(tls->ssl, bytes, size > INT_MAX ? INT_MAX : (int)size);
    if (got > 0)
        return got;
    int error = SSL_get_error(tls->ssl, got);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : BW_EIO;
}

int redis_tls_write(struct redis_tls *tls, const char *bytes, size_t length)
{
    ERR_clear_error();
    if (length > INT_MAX || SSL_write(tls->ssl, bytes, (int)length) != (int)length)
        return BW_EIO;
    return 0;
}
