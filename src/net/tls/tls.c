/* TLS with OpenSSL over memory buffers; see tls.h. */
#include "core/base/error.h"
#include "net/tls/state.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const http2[] = {"h2", NULL};

/* Explains the alert that the other side sent about our certificate; NULL: no such alert. */
static const char *alert_of(unsigned long error)
{
    if (ERR_GET_LIB(error) != ERR_LIB_SSL)
        return NULL;
    switch (ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET) {
    case SSL_AD_CERTIFICATE_REQUIRED:
        return "the other side requires a certificate, and none was sent";
    case SSL_AD_UNKNOWN_CA:
        return "the other side does not trust the authority of our certificate";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "the other side reports that our certificate has expired";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
        return "the other side refuses our certificate";
    default:
        return NULL;
    }
}

/* The newest error names the part of the library that failed; the oldest one has the cause. */
static const char *openssl_reason(void)
{
    unsigned long newest = ERR_peek_last_error(), oldest = ERR_peek_error();
    if (ERR_SYSTEM_ERROR(oldest))
        return strerror(ERR_GET_REASON(oldest));
    if (ERR_GET_REASON(newest) == ERR_R_PEM_LIB || ERR_GET_REASON(oldest) == PEM_R_NO_START_LINE)
        return "the file contains none in PEM format";
    const char *alert = alert_of(newest);
    return alert || !newest ? alert : ERR_reason_error_string(newest);
}

void tls_format_error(char *why, const char *what)
{
    const char *reason = openssl_reason();
    snprintf(why, BW_TLS_WHY_MAX + 1, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
    ERR_clear_error();
}

int tls_out_of_memory(char *why)
{
    snprintf(why, BW_TLS_WHY_MAX + 1, "out of memory for TLS");
    ERR_clear_error();
    return BW_ENOMEM;
}

int tls_load_authorities(SSL_CTX *context, const char *file, char *why)
{
    int loaded =
        file ? SSL_CTX_load_verify_file(context, file) : SSL_CTX_set_default_verify_paths(context);
    if (loaded == 1)
        return 0;
    char what[BW_TLS_WHY_MAX / 2];
    snprintf(what, sizeof what, "cannot load authorities from %s",
             file ? file : "the system's store");
    tls_format_error(why, what);
    return BW_EINVAL;
}

static int accept_expired_list(int good, X509_STORE_CTX *store)
{
    return good || X509_STORE_CTX_get_error(store) == X509_V_ERR_CRL_HAS_EXPIRED;
}

/* A file has lists in PEM format, or one in DER format. A failure is reported as one of PEM. */
static bool load_lists(X509_LOOKUP *lookup, const char *file)
{
    if (X509_load_crl_file(lookup, file, X509_FILETYPE_PEM) > 0)
        return true;
    ERR_set_mark();
    bool loaded = X509_load_crl_file(lookup, file, X509_FILETYPE_ASN1) > 0;
    ERR_pop_to_mark();
    if (loaded)
        ERR_clear_error();
    return loaded;
}

int tls_verify(SSL_CTX *context, int mode, const char *crl_file, char *why)
{
    SSL_CTX_set_verify(context, mode, crl_file ? accept_expired_list : NULL);
    if (!crl_file)
        return 0;
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    if (lookup && load_lists(lookup, crl_file) &&
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1)
        return 0;
    char what[BW_TLS_WHY_MAX / 2];
    snprintf(what, sizeof what, "cannot load revocation lists from %s", crl_file);
    tls_format_error(why, what);
    return BW_EINVAL;
}

int tls_load_certificate(SSL_CTX *context, const struct bw_tls_files *files, char *why)
{
    if (!files->cert_file && !files->key_file)
        return 0;
    if (!files->cert_file || !files->key_file) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "a certificate and its key go together; give both");
        return BW_EINVAL;
    }
    if (SSL_CTX_use_certificate_chain_file(context, files->cert_file) != 1) {
        char what[BW_TLS_WHY_MAX / 2];
        snprintf(what, sizeof what, "cannot load the certificate from %s", files->cert_file);
        tls_format_error(why, what);
        return BW_EINVAL;
    }
    if (SSL_CTX_use_PrivateKey_file(context, files->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        char what[BW_TLS_WHY_MAX / 2];
        snprintf(what, sizeof what, "cannot load the certificate's key from %s", files->key_file);
        tls_format_error(why, what);
        return BW_EINVAL;
    }
    return 0;
}

int tls_set_protocols(struct bw_tls_config *config, const char *const *names, char *why)
{
    for (; *names; names++) {
        size_t length = strlen(*names);
        if (config->protocols_length + 1 + length > sizeof config->protocols) {
            snprintf(why, BW_TLS_WHY_MAX + 1, "too many protocols");
            return BW_EINVAL;
        }
        config->protocols[config->protocols_length++] = (unsigned char)length;
        memcpy(config->protocols + config->protocols_length, *names, length);
        config->protocols_length += (unsigned)length;
    }
    return 0;
}

int bw_tls_config_new(struct bw_tls_config **out, const struct bw_tls_files *files, char *why)
{
    struct bw_tls_config *config = calloc(1, sizeof *config);
    int error = BW_ENOMEM;
    if (config && (config->context = SSL_CTX_new(TLS_client_method()))) {
        SSL_CTX_set_min_proto_version(config->context, TLS1_2_VERSION);
        config->must_agree = true;
        error = tls_set_protocols(config, files->protocols ? files->protocols : http2, why);
        if (error == 0 && SSL_CTX_set_alpn_protos(config->context, config->protocols,
                                                  config->protocols_length) != 0)
            error = tls_out_of_memory(why);
        if (error == 0)
            error = tls_load_authorities(config->context, files->ca_file, why);
        if (error == 0)
            error = tls_verify(config->context, SSL_VERIFY_PEER, files->crl_file, why);
        if (error == 0)
            error = tls_load_certificate(config->context, files, why);
    } else {
        error = tls_out_of_memory(why);
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

/* Compares an address with the certificate's addresses, and a name with its names. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char bytes[16];
    bool address = inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
    if (address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct bw_tls *tls_new(struct bw_tls_config *config)
{
    struct bw_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    tls->ssl = SSL_new(config->context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    tls->server = config->server;
    tls->must_agree = config->must_agree;
    snprintf(tls->wanted, sizeof tls->wanted, "%.*s", (int)config->protocols[0],
             (const char *)config->protocols + 1);
    return tls;
}

struct bw_tls *bw_tls_new(struct bw_tls_config *config, const char *host)
{
    struct bw_tls *tls = tls_new(config);
    if (tls && !expect_host(tls->ssl, host)) {
        bw_tls_free(tls);
        return NULL;
    }
    if (!tls)
        return NULL;
    SSL_set_connect_state(tls->ssl);
    SSL_do_handshake(tls->ssl); /* needs an answer; its first bytes are ready for bw_tls_take */
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
    if (length == 0 && tls->must_agree) {
        if (strcmp(tls->wanted, "h2") == 0)
            snprintf(why, BW_TLS_WHY_MAX + 1, "the server does not offer HTTP/2 over TLS");
        else
            snprintf(why, BW_TLS_WHY_MAX + 1, "the other side does not speak %s", tls->wanted);
        return BW_EIO;
    }
    tls->up = true;
    return 0;
}

static int do_handshake(struct bw_tls *tls, char *why)
{
    int done = SSL_do_handshake(tls->ssl);
    if (done == 1)
        return on_up(tls, why);
    int error = SSL_get_error(tls->ssl, done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return 0;
    long verdict = SSL_get_verify_result(tls->ssl);
    if (verdict != X509_V_OK) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "the %s's certificate is refused: %s",
                 tls->server ? "client" : "server", X509_verify_cert_error_string(verdict));
        ERR_clear_error();
    } else {
        tls_format_error(why, "TLS handshake failed");
    }
    return BW_EIO;
}

int bw_tls_feed(struct bw_tls *tls, const uint8_t *bytes, size_t length, char *why)
{
    if (length > INT32_MAX || BIO_write(tls->in, bytes, (int)length) != (int)length) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "out of memory for TLS");
        return BW_EIO;
    }
    return tls->up ? 0 : do_handshake(tls, why);
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
        snprintf(why, BW_TLS_WHY_MAX + 1, "the %s closed the connection",
                 tls->server ? "client" : "server");
    else
        tls_format_error(why, "TLS failed");
    return BW_EIO;
}

int bw_tls_write(struct bw_tls *tls, const uint8_t *bytes, size_t length)
{
    if (length == 0)
        return 0;
    int done = SSL_write(tls->ssl, bytes, (int)length); /* takes everything or fails */
    ERR_clear_error();
    return done == (int)length ? 0 : BW_EIO;
}

void bw_tls_end(struct bw_tls *tls)
{
    if (tls->up)
        SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

size_t bw_tls_take(struct bw_tls *tls, uint8_t *bytes, size_t size)
{
    int got = BIO_read(tls->out, bytes, (int)size);
    return got > 0 ? (size_t)got : 0;
}

int64_t bw_tls_config_ends(const struct bw_tls_config *config)
{
    const X509 *certificate = SSL_CTX_get0_certificate(config->context);
    struct tm utc;
    if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &utc) != 1)
        return 0;
    return (int64_t)timegm(&utc);
}

bool bw_tls_peer_name(const struct bw_tls *tls, char *name, size_t size)
{
    X509 *shown = SSL_get0_peer_certificate(tls->ssl);
    X509_NAME *subject = shown ? X509_get_subject_name(shown) : NULL;
    int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
    if (at < 0)
        return false;
    unsigned char *text = NULL;
    int length =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    /* Reject a name with a NUL byte: a C string would show only the part before it. */
    bool fits = length > 0 && (size_t)length < size && !memchr(text, '\0', (size_t)length);
    if (fits) {
        memcpy(name, text, (size_t)length);
        name[length] = '\0';
    }
    OPENSSL_free(text);
    ERR_clear_error();
    return fits;
}

bool bw_tls_peer_is_host(const struct bw_tls *tls, const char *host)
{
    unsigned char bytes[16];
    X509 *shown = SSL_get0_peer_certificate(tls->ssl);
    bool address = inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
    if (!shown)
        return false;
    return address ? X509_check_ip_asc(shown, host, 0) == 1
                   : X509_check_host(shown, host, 0, 0, NULL) == 1;
}

bool bw_tls_peer_may_serve(const struct bw_tls *tls)
{
    X509 *shown = SSL_get0_peer_certificate(tls->ssl);
    return shown && X509_check_purpose(shown, X509_PURPOSE_SSL_SERVER, 0) == 1;
}
