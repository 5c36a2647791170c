/* Health check over HTTP: one GET; 2xx means healthy.
 *
 * The check blocks, so it runs in a child process of its own (`bellwether --probe URL`), which is
 * killed when its time is over. Only http:// is supported, because the checked program runs on this
 * host or in this pod. Redirects are not followed and count as unhealthy. */
#ifndef BW_RUN_HEALTH_PROBE_H
#define BW_RUN_HEALTH_PROBE_H

#include "core/base/types.h"

struct bw_probe_url {
    char host[256], port[8]; /* the host has no brackets */
    char authority[272];     /* host and port, as for the Host header */
    const char *target;      /* path and query, a pointer into the text; "" means "/" */
};

/* Parses "http://HOST[:PORT][/PATH]" without user name and fragment. Returns 0 or BW_EINVAL. */
int bw_probe_url_read(const char *text, struct bw_probe_url *out);

/* Status code of a response line ("HTTP/1.1 204 ..."); 0: malformed. */
int bw_probe_status(const char *line, size_t length);

/* Runs the check. Returns 0: healthy; 1: unhealthy or no answer; 64: invalid URL. */
int bw_probe(const char *url);

#endif
