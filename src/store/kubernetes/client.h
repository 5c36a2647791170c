/* Requests to a Kubernetes API server: Leases of one namespace, as JSON, with our credentials.
 *
 * The client reads a token file again when it changes, and at once after a 401.
 *
 * bw_kube_judge decides for all requests what a failed answer means. After a 429 or another 4xx,
 * the request certainly had no effect. A write that ended in 5xx or without an answer has an
 * unknown outcome. All requests wait for a Retry-After, except renewals and releases. */
#ifndef BW_STORE_KUBERNETES_CLIENT_H
#define BW_STORE_KUBERNETES_CLIENT_H

#include "store/kit/http_client.h"
#include "store/kubernetes/settings.h"

#include <jansson.h>
#include <sys/stat.h>

struct bw_kube_api {
    struct bw_http *http;
    struct bw_kube_config config;
    char namespace[64];
    char *bearer; /* "Authorization: Bearer ..."; NULL: none */
    struct stat token_file;
    uint64_t retry_after_ms; /* end of a Retry-After, on uv_hrtime */
    bool answered;           /* the server has answered at least once */
    bool unreachable;        /* the last request got no answer or failed */
};

int bw_kube_api_open(struct bw_kube_api *api, struct uv_loop_s *loop, char *why);
/* `closed` is called from the loop; the struct may be freed then. */
void bw_kube_api_close(struct bw_kube_api *api, void (*closed)(void *context), void *context);

/* True until a Retry-After has passed. */
bool bw_kube_api_must_wait(const struct bw_kube_api *api);

struct bw_kube_ask {
    const char *method;
    const char *name;  /* name of the Lease, for PUT; NULL: the collection */
    const char *query; /* without '?'; NULL: none */
    const json_t *body;
    bw_time within_ns;
    bool urgent; /* sent before other requests that wait for a connection */
    void (*answer)(void *context, const struct bw_http_answer *answer);
    bool (*line)(void *context, const char *line, size_t length);
    void *context;
};

/* Returns NULL with a line in `why` if nothing was sent. */
struct bw_http_request *bw_kube_api_send(struct bw_kube_api *api, const struct bw_kube_ask *ask,
                                         char *why);

/* Why an answer is a failure, with the server's message; never contains a secret. */
struct bw_kube_verdict {
    enum bw_outcome outcome; /* UNAVAILABLE or UNKNOWN */
    int error;
    char why[BW_WHY_MAX + 1];
};

void bw_kube_judge(struct bw_kube_api *api, const struct bw_http_answer *answer, bool wrote,
                   struct bw_kube_verdict *verdict);

#endif
