/* Certificate, key and authorities of one port, kept in step with their files. A change takes
 * effect within seconds, or at once on request. Existing connections keep what they began with;
 * only new ones use the new files. If the files cannot be used, the old ones stay in effect and
 * this is reported.
 *
 * A certificate that expires within 30 days is reported: at the start, when it is loaded, and
 * daily. */
#ifndef BW_NET_TLS_CREDENTIALS_H
#define BW_NET_TLS_CREDENTIALS_H

#include "net/tls/tls.h"
#include "os/journal.h"

#include <uv.h>

#define BW_CREDENTIALS_WARN_DAYS 30

struct bw_credentials;

struct bw_credentials_options {
    uv_loop_t *loop;
    struct bw_tls_files files;
    const char *whose; /* "client" or "node": the side that connects */
    bool dials;        /* also load the client side, with the same files */
    void *context;
    void (*say)(void *context, enum bw_priority priority, const char *line);
};

/* Returns 0, or an error with the reason in why[BW_TLS_WHY_MAX + 1]. The file names must stay
 * valid. */
int bw_credentials_open(struct bw_credentials **out, const struct bw_credentials_options *options,
                        char *why);
void bw_credentials_close(struct bw_credentials *credentials);
/* Checks the files now. */
void bw_credentials_check(struct bw_credentials *credentials);

/* A connection was refused. Reports it only once in a while, because refused clients retry again
 * and again. */
void bw_credentials_refused(struct bw_credentials *credentials, const char *why);

/* The current configurations: do not keep the pointers. */
struct bw_tls_config *bw_credentials_server(const struct bw_credentials *credentials);
struct bw_tls_config *bw_credentials_client(const struct bw_credentials *credentials);

#endif
