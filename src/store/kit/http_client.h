/* HTTP client for stores: libcurl on the caller's libuv loop.
 *
 * Guarantees:
 * - No thread; connections are kept alive.
 * - Every size is bounded, and every request has its own timeout.
 * - Each accepted request gets exactly one answer, from the loop, unless the caller cancels it. */
#ifndef BW_STORE_KIT_HTTP_CLIENT_H
#define BW_STORE_KIT_HTTP_CLIENT_H

#include "store/store.h"

/* maximum bytes of a response body, and of one line of a stream */
#define BW_HTTP_BODY_MAX     (1u << 20)
#define BW_HTTP_HEADERS_MAX  65536u /* maximum bytes of all headers of a response */
#define BW_HTTP_REQUESTS_MAX 65536u

struct bw_http;         /* one client per store */
struct bw_http_request; /* a request in flight */

struct bw_http_answer {
    /* HTTP status. 0: no response; `error` and `why` give the cause. If `sent` is false, the
     * request certainly did not leave (connection refused, unknown name, failed handshake). If it
     * is true, the request may have taken effect. */
    int status;
    int error;
    bool sent;
    const char *body; /* NUL-terminated, borrowed for the callback */
    size_t length;
    char why[BW_WHY_MAX + 1];
    const struct bw_http_request *request; /* for bw_http_header */
};

struct bw_http_ask {
    const char *method, *url;
    const char *const *headers; /* "Name: value" each, NULL-terminated list */
    const char *body;           /* NULL: none */
    size_t length;
    bw_time within_ns; /* timeout of the whole request; of a stream: until its headers are here */
    bool urgent;       /* sent before other requests that wait for a connection */
    const char *sigv4; /* NULL, or libcurl's CURLOPT_AWS_SIGV4 */
    const char *user;  /* with sigv4: "key:secret" */
    /* Called once, at the end, also for a stream. */
    void (*answer)(void *context, const struct bw_http_answer *answer);
    /* NULL, or for a stream: called with each line of a 200 response's body, without the newline.
     * Returning false ends the stream. */
    bool (*line)(void *context, const char *line, size_t length);
    void *context;
};

struct bw_http_options {
    /* NULL: the system's CAs, no client certificate */
    const char *ca_file, *ca_directory, *cert_file, *key_file;
    const char *ca_pem, *cert_pem, *key_pem; /* the same as PEM text instead of files */
    bool verify_off;                         /* only if the user asked for it */
    const char *unix_socket;
};

int bw_http_open(struct bw_http **out, struct uv_loop_s *loop,
                 const struct bw_http_options *options, char *why);
/* Starts a request. The strings must be valid only during this call. NULL: out of memory, or too
 * many requests. */
struct bw_http_request *bw_http_send(struct bw_http *http, const struct bw_http_ask *ask);
/* Cancels a request: no answer follows. The request may still take effect. */
void bw_http_cancel(struct bw_http *http, struct bw_http_request *request);
/* Returns the value of a response header (name case-insensitive), or NULL. Only inside the
 * callback. */
const char *bw_http_header(const struct bw_http_answer *answer, const char *name);
/* Iterates over the response's header lines ("Name: value"; the status line comes first). Pass NULL
 * to get the first line; returns NULL at the end. Only inside the callback. */
const char *bw_http_header_next(const struct bw_http_answer *answer, const char *line);
/* Cancels all requests. Frees the client from the loop, then calls `closed`. */
void bw_http_close(struct bw_http *http, void (*closed)(void *context), void *context);

#endif
