/* The token of a machine's managed identity. It is requested from the machine's own endpoint,
 * cached, and requested again after half of its lifetime. When Azure rejects a token, a new one is
 * requested. Without a token there is no access. */
#ifndef BW_STORE_AZURE_MANAGED_IDENTITY_H
#define BW_STORE_AZURE_MANAGED_IDENTITY_H

#include "core/base/rng.h"
#include "store/kit/http_client.h"

#include <uv.h>

#define AZURE_TOKEN_MAX 8191u

struct azure_identity {
    struct bw_http *http;
    const char *url;
    uv_timer_t *timer; /* NULL: not in use */
    struct bw_http_request *asked;
    struct bw_rng rng;   /* for retry delays */
    uint64_t expires_ms; /* on the loop's clock */
    char token[AZURE_TOKEN_MAX + 1];
    char why[BW_WHY_MAX + 1]; /* why there is no token */
};

/* `url` is borrowed. Returns 0 or BW_ENOMEM. */
int bw_azure_identity_open(struct azure_identity *identity, uv_loop_t *loop, struct bw_http *http,
                           const char *url);
/* Returns NULL if there is no valid token. */
const char *bw_azure_identity_token(const struct azure_identity *identity);
/* Azure rejected the token: requests a new one. */
void bw_azure_identity_refused(struct azure_identity *identity);
/* Call before closing the HTTP client it was opened with. */
void bw_azure_identity_close(struct azure_identity *identity);

#endif
