/* The token of a machine's managed identity: asked for at the machine's own endpoint, kept, and
 * asked for again when half of its time is over. Without one there is no access; a token that
 * Azure no longer takes is asked for again at once. */
#ifndef BW_STORE_AZURE_IDENTITY_H
#define BW_STORE_AZURE_IDENTITY_H

#include "core/base/rng.h"
#include "store/kit/http.h"

#include <uv.h>

#define AZURE_TOKEN_MAX 8191u

struct azure_identity {
    struct bw_http *http;
    const char *url;
    uv_timer_t *timer; /* NULL: not in use */
    struct bw_http_request *asked;
    struct bw_rng rng;   /* for pauses */
    uint64_t expires_ms; /* on the loop's clock */
    char token[AZURE_TOKEN_MAX + 1];
    char why[BW_WHY_MAX + 1]; /* there is none */
};

/* `url` is borrowed. Returns 0 or BW_ENOMEM. */
int bw_azure_identity_open(struct azure_identity *identity, uv_loop_t *loop, struct bw_http *http,
                           const char *url);
/* NULL: none now. */
const char *bw_azure_identity_token(const struct azure_identity *identity);
/* Azure did not take it. */
void bw_azure_identity_refused(struct azure_identity *identity);
/* Before the HTTP it was opened with. */
void bw_azure_identity_close(struct azure_identity *identity);

#endif
