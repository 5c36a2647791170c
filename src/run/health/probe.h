/* Is a program fit, by its own word over HTTP? One GET; 2xx means yes.
 *
 * It blocks, so it runs in a child of its own (`bellwether --probe URL`) that is killed when its
 * time is over. http:// only: health is asked on this host or in this pod. Redirections are not
 * followed: they are no yes. */
#ifndef BW_RUN_PROBE_H
#define BW_RUN_PROBE_H

#include "core/base/types.h"

struct bw_probe_url {
    char host[256], port[8]; /* the host without brackets */
    char authority[272];     /* both, as the Host header wants them */
    const char *target;      /* path and query, into the text; "": "/" */
};

/* "http://HOST[:PORT][/PATH]"; no user name, no fragment. Returns 0 or BW_EINVAL. */
int bw_probe_url_read(const char *text, struct bw_probe_url *out);

/* The code of an answer's first line ("HTTP/1.1 204 ..."); 0: it has none. */
int bw_probe_status(const char *line, size_t length);

/* Asks. Returns 0: fit; 1: not, or nobody answered; 64: no such URL. */
int bw_probe(const char *url);

#endif
