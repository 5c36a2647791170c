/* One call of Azure's Blob REST: the URL, the headers in the order their signature wants, the
 * credentials, and what the answer says of a blob. */
#ifndef BW_STORE_AZURE_REST_H
#define BW_STORE_AZURE_REST_H

#include "store/azure/identity.h"
#include "store/azure/settings.h"
#include "store/kit/http.h"

#define AZURE_META_MAX 8000u /* Azure takes 8 KiB of metadata, names included */
#define AZURE_ETAG_MAX 127u

enum azure_lease_state {
    AZURE_FREE,
    AZURE_LEASED,
    AZURE_OVER
}; /* released or never; held; ended by
      time or broken */

struct azure_rest {
    struct bw_http *http;
    const struct azure_settings *settings;
    struct azure_identity *identity;
};

#define AZURE_LOST_DIGITS 16u /* of a request id, in hexadecimal */

struct azure_call {
    const char *verb;
    const char *blob;                     /* NULL: the container itself */
    const char *query_name, *query_value; /* NULL: none */
    const char *blob_type, *lease_action; /* what follows is sent where it is set */
    const char *lease_id, *proposed_lease_id;
    unsigned lease_seconds;
    const char *if_match, *if_none_match;
    const char *metadata; /* packed */
    const char *lost;     /* of a note's blob: read.c */
    bw_time within_ns;
    bool urgent;
    void (*answer)(void *context, const struct bw_http_answer *answer);
    void *context;
};

/* What HEAD says. */
struct azure_blob {
    char etag[AZURE_ETAG_MAX + 1];
    enum azure_lease_state lease;
    bool foreign; /* holds content or metadata of somebody else */
    char metadata[AZURE_META_MAX + 1];
    char lost[AZURE_LOST_DIGITS + 1];
};

/* NULL: no credentials yet, no memory or too many. */
struct bw_http_request *bw_azure_send(const struct azure_rest *rest, const struct azure_call *call);
/* False: not an answer of Azure. */
bool bw_azure_blob_of(const struct bw_http_answer *answer, struct azure_blob *blob);
/* Azure's word for what went wrong, "" if there is none. */
const char *bw_azure_code(const struct bw_http_answer *answer);

#endif
