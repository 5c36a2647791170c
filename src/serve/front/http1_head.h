/* The head of an HTTP/1.1 request (RFC 9112): what of it matters here, or the status that refuses
 * it. Pure. Strict where leniency lets two readers see two different requests: one length, no
 * length beside chunks, no folded lines, no space before a colon. */
#ifndef BW_SERVE_HTTP1_HEAD_H
#define BW_SERVE_HTTP1_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_HTTP1_PATH_MAX  255u
#define BW_HTTP1_TOKEN_MAX 255u /* of a longer one so much: it is none then */

enum bw_verb { BW_VERB_GET, BW_VERB_HEAD, BW_VERB_POST, BW_VERB_OTHER };

enum bw_verb bw_verb_of(const char *text, size_t length);

struct bw_http1_head {
    enum bw_verb verb;
    char path[BW_HTTP1_PATH_MAX + 1]; /* "": too long to be anything here */
    bool old;                         /* HTTP/1.0: no chunks in the answer */
    bool close;                       /* after the answer */
    bool chunked, waits;              /* waits: for 100 Continue */
    bool needs_leader;
    char token[BW_HTTP1_TOKEN_MAX + 1]; /* who asks; "": not said */
    bool has_length, has_host;
    uint64_t length; /* of the body */
};

/* `text` ends with an empty line. Returns 0, or the status of the refusal. */
unsigned bw_http1_head_read(struct bw_http1_head *head, const char *text, size_t length);
/* The line that begins a chunk, without its end; false: it is none. Extensions are passed over. */
bool bw_http1_chunk_read(const char *line, size_t length, uint64_t *size);

#endif
