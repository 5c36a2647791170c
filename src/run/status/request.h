/* Parses the bytes of one HTTP/1.x request that have arrived so far.
 *
 * The parser is pure and total: any bytes give a result. It is strict where leniency is dangerous
 * (RFC 9112: lines end with CRLF, no folded headers, exactly one Host in HTTP/1.1, no control
 * characters). It keeps no state: the caller passes all bytes again when more have arrived. It
 * never reads a body; the caller closes the connection after the answer. */
#ifndef BW_RUN_STATUS_REQUEST_H
#define BW_RUN_STATUS_REQUEST_H

#include "core/base/types.h"

#define BW_HTTP_REQUEST_MAX 8192u /* request line and headers; probes send far less */
#define BW_HTTP_PATH_MAX    255u

enum bw_http_method { BW_HTTP_GET, BW_HTTP_HEAD, BW_HTTP_OTHER };

struct bw_status_request {
    enum bw_http_method method;
    char path[BW_HTTP_PATH_MAX + 1]; /* without the query; percent-encoding is not decoded */
    bool accepts_gzip, has_page;     /* has_page: If-None-Match names the current dashboard */
    bool by_name;                    /* Host is neither an IP address nor localhost */
};

#define BW_HTTP_MORE 0 /* incomplete, but valid so far */

/* Returns MORE, 200 with `out` filled, or the status to refuse the request with: 400, 414 (path too
 * long), 431 (not complete within BW_HTTP_REQUEST_MAX bytes), 505. */
int bw_http_request_parse(const char *bytes, size_t length, struct bw_status_request *out);

#endif
