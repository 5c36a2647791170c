/* Parses the head of an HTTP/1.1 request (RFC 9112) into the parts used here, or returns the
 * status that refuses it. Pure.
 *
 * The parser is strict where two lenient parsers could see two different requests (request
 * smuggling): one length, no length together with chunks, no folded lines, no space before a
 * colon. */
#ifndef BW_SERVE_FRONT_HTTP1_HEAD_H
#define BW_SERVE_FRONT_HTTP1_HEAD_H

#include "serve/front/origin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_HTTP1_PATH_MAX  255u
#define BW_HTTP1_TOKEN_MAX 255u /* a longer token is cut and thereby invalid */

enum bw_verb { BW_VERB_GET, BW_VERB_HEAD, BW_VERB_POST, BW_VERB_OTHER };

enum bw_verb bw_verb_of(const char *text, size_t length);

struct bw_http1_head {
    enum bw_verb verb;
    char path[BW_HTTP1_PATH_MAX + 1]; /* "": longer than any path served here */
    bool is_http10;                   /* the client uses HTTP/1.0: no chunks in the response */
    bool close;                       /* close the connection after the response */
    /* expects_continue: the client waits for 100 Continue before it sends the body */
    bool chunked, expects_continue;
    bool needs_leader;
    char token[BW_HTTP1_TOKEN_MAX + 1]; /* credentials; "": none */
    bool has_length, has_host;
    bool accepts_gzip, has_page; /* has_page: If-None-Match names the current dashboard */
    enum bw_origin origin;
    bool by_name;    /* Host is neither an IP address nor localhost */
    uint64_t length; /* length of the body */
};

/* `text` ends with an empty line. Returns 0, or the HTTP status of the refusal. */
unsigned bw_http1_head_read(struct bw_http1_head *head, const char *text, size_t length);
/* Parses the line before a chunk, without its CRLF; extensions are ignored. Returns false if it is
 * invalid. */
bool bw_http1_chunk_read(const char *line, size_t length, uint64_t *size);

#endif
