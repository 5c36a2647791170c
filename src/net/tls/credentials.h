/* Certificate, key and authorities of one port, kept as the files have them: a change is taken up
 * within seconds, or at once when asked for. Connections go on with what they began with; only new
 * ones see the new. Files that cannot be used leave the old ones in force, and a line says so.
 *
 * A certificate that ends within 30 days is told of: at the start, when it is taken up, and daily.
 */
#ifndef BW_NET_CREDENTIALS_H
#define BW_NET_CREDENTIALS_H

#include "net/tls/tls.h"

#include <uv.h>

#define BW_CREDENTIALS_WARN_DAYS 30

struct bw_credentials;

struct bw_credentials_options {
    uv_loop_t *loop;
    struct bw_tls_files files;
    const char *whose; /* "client", "node": who connects */
    bool dials;        /* also the client's side, with the same files */
    void *context;
    void (*say)(void *context, const char *line);
};

/* Returns 0, or an error with a line in why[BW_TLS_WHY_MAX + 1]. The files' names must last. */
int bw_credentials_open(struct bw_credentials **out, const struct bw_credentials_options *options,
                        char *why);
void bw_credentials_close(struct bw_credentials *credentials);
/* Looks at the files now. */
void bw_credentials_look(struct bw_credentials *credentials);

/* A connection was refused: said once in a while only, for who is refused tries again and again. */
void bw_credentials_refused(struct bw_credentials *credentials, const char *why);

/* As of now: do not keep them. */
struct bw_tls_config *bw_credentials_server(const struct bw_credentials *credentials);
struct bw_tls_config *bw_credentials_client(const struct bw_credentials *credentials);

#endif
