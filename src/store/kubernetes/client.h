/* What is asked of a Kubernetes API server: Leases of one namespace, as JSON, with our credentials.
 *
 * A token file is read again when it changes, and at once after a 401. What an answer means for the
 * request behind it is said here once for all (bw_kube_judge): 429 and all other 4xx were certainly
 * not carried out; of a write that ended in 5xx or without an answer nobody knows. A Retry-After is
 * kept by everybody but those who hold a lease or give one back. */
#ifndef BW_STORE_KUBERNETES_API_H
#define BW_STORE_KUBERNETES_API_H

#include "store/kit/http.h"
#include "store/kubernetes/settings.h"

#include <jansson.h>
#include <sys/stat.h>

struct bw_kube_api {
    struct bw_http *http;
    struct bw_kube_config config;
    char space[64];
    char *bearer; /* "Authorization: Bearer ...", NULL: none */
    struct stat token_file;
    uint64_t quiet_until_ms; /* of uv_hrtime */
    bool answered;           /* it has answered at all */
    bool away;               /* the last answer was none, or a failure */
};

int bw_kube_api_open(struct bw_kube_api *api, struct uv_loop_s *loop, char *why);
/* `closed` is called from the loop; the struct may be freed then. */
void bw_kube_api_close(struct bw_kube_api *api, void (*closed)(void *context), void *context);

/* True while the server wants to be left alone. */
bool bw_kube_api_is_quiet(const struct bw_kube_api *api);

struct bw_kube_ask {
    const char *method;
    const char *name;  /* of the Lease, for PUT; NULL: the collection */
    const char *query; /* without '?'; NULL: none */
    const json_t *body;
    bw_time within_ns;
    bool urgent; /* ahead of requests that wait for a connection */
    void (*answer)(void *context, const struct bw_http_answer *answer);
    bool (*line)(void *context, const char *line, size_t length);
    void *context;
};

/* NULL with a line in why: nothing was sent. */
struct bw_http_request *bw_kube_api_send(struct bw_kube_api *api, const struct bw_kube_ask *ask,
                                         char *why);

/* Why an answer is no good, with the server's own words; never a secret. */
struct bw_kube_verdict {
    enum bw_outcome outcome; /* UNAVAILABLE or UNKNOWN */
    int error;
    char why[BW_WHY_MAX + 1];
};

void bw_kube_judge(struct bw_kube_api *api, const struct bw_http_answer *answer, bool wrote,
                   struct bw_kube_verdict *verdict);

#endif
