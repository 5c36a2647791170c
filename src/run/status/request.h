/* One HTTP/1.x request as bytes that came so far: is it whole, and what does it ask for?
 *
 * Pure and total: any bytes give an answer. Strict where leniency has hurt others (RFC 9112: lines
 * end with CRLF, no folded headers, exactly one Host in HTTP/1.1, no control characters), bounded,
 * and without memory of its own: the same bytes are looked at again when more have come. A body is
 * never read; the connection is closed after the answer. */
#ifndef BW_RUN_HTTP_REQUEST_H
#define BW_RUN_HTTP_REQUEST_H

#include "core/base/types.h"

#define BW_HTTP_REQUEST_MAX 8192u /* request line and headers; what probes send is far below */
#define BW_HTTP_PATH_MAX    255u

enum bw_http_method { BW_HTTP_GET, BW_HTTP_HEAD, BW_HTTP_OTHER };

struct bw_http_request {
    enum bw_http_method method;
    char path[BW_HTTP_PATH_MAX + 1]; /* without the query; as it came, nothing is decoded */
};

#define BW_HTTP_MORE 0 /* not whole yet, and nothing wrong so far */

/* Returns MORE, 200 with `out` filled, or the status to refuse it with: 400, 414 (the path is too
 * long), 431 (no end within BW_HTTP_REQUEST_MAX bytes), 505. */
int bw_http_request_parse(const char *bytes, size_t length, struct bw_http_request *out);

#endif
