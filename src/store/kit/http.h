/* HTTP for stores, by libcurl on the caller's libuv loop: no thread, connections kept alive, every
 * size bounded, every request with its own time. Answers come from the loop, exactly one for each
 * request that was taken, unless it was cancelled. */
#ifndef BW_STORE_HTTP_H
#define BW_STORE_HTTP_H

#include "store/store.h"

#define BW_HTTP_BODY_MAX     (1u << 20) /* of an answer, and of one line of a stream */
#define BW_HTTP_HEADERS_MAX  65536u     /* of an answer, all together */
#define BW_HTTP_REQUESTS_MAX 65536u

struct bw_http;         /* one per store */
struct bw_http_request; /* one in flight */

struct bw_http_answer {
    /* 0: no answer; `error` and `why` say what went wrong. Without `sent` the request surely never
     * left (connection refused, name unknown, handshake failed); with it the effect is unknown. */
    int status;
    int error;
    bool sent;
    const char *body; /* ends in NUL, borrowed for the call-back */
    size_t length;
    char why[BW_WHY_MAX + 1];
    const struct bw_http_request *request; /* for bw_http_header */
};

struct bw_http_ask {
    const char *method, *url;
    const char *const *headers; /* "Name: value", NULL-ended */
    const char *body;           /* NULL: none */
    size_t length;
    bw_time within_ns; /* for all of it; for a stream: until its headers are there */
    bool urgent;       /* ahead of those that are not, where many wait for a connection */
    const char *sigv4; /* NULL, or libcurl's CURLOPT_AWS_SIGV4 */
    const char *user;  /* with sigv4: "key:secret" */
    /* Called once, at the end (of a stream too). */
    void (*answer)(void *context, const struct bw_http_answer *answer);
    /* NULL, or for a stream: each line of a 200 answer's body, without its newline. False ends it.
     */
    bool (*line)(void *context, const char *line, size_t length);
    void *context;
};

struct bw_http_options {
    const char *ca_file, *ca_directory, *cert_file, *key_file; /* NULL: the system's, none */
    const char *ca_pem, *cert_pem, *key_pem; /* the same as text, instead of files */
    bool verify_off;                         /* only on the user's explicit word */
    const char *unix_socket;
};

int bw_http_open(struct bw_http **out, struct uv_loop_s *loop,
                 const struct bw_http_options *options, char *why);
/* NULL: no memory, or too many. Strings are borrowed for the call only. */
struct bw_http_request *bw_http_send(struct bw_http *http, const struct bw_http_ask *ask);
/* No answer will come. Its effect may still happen. */
void bw_http_cancel(struct bw_http *http, struct bw_http_request *request);
/* Value of an answer's header (case-insensitive), NULL if absent; within the call-back. */
const char *bw_http_header(const struct bw_http_answer *answer, const char *name);
/* The answer's header lines one by one ("Name: value"; the status line is the first); NULL for the
 * first, NULL at the end; within the call-back. */
const char *bw_http_header_next(const struct bw_http_answer *answer, const char *line);
/* Cancels all; frees itself from the loop, then calls `closed`. */
void bw_http_close(struct bw_http *http, void (*closed)(void *context), void *context);

#endif
