/* One call of Azure's Blob REST API: builds the URL, the headers in the order that the signature
 * requires, and the credentials, and reads a blob's properties from the answer. */
#ifndef BW_STORE_AZURE_CLIENT_H
#define BW_STORE_AZURE_CLIENT_H

#include "store/azure/blob_list.h"
#include "store/azure/managed_identity.h"
#include "store/azure/settings.h"
#include "store/kit/http_client.h"

/* Blobs per page of a list: with the longest metadata, a page is below BW_HTTP_BODY_MAX. */
#define AZURE_PAGE_BLOBS "64"

#define AZURE_META_MAX 8000u /* Azure accepts 8 KiB of metadata, names included */
#define AZURE_ETAG_MAX 127u

enum azure_lease_state {
    AZURE_FREE,   /* released, or never leased */
    AZURE_LEASED, /* held */
    AZURE_OVER    /* expired or broken */
};

struct azure_rest {
    struct bw_http *http;
    const struct azure_settings *settings;
    struct azure_identity *identity;
};

#define AZURE_LOST_DIGITS 16u /* hexadecimal digits of a request id */

struct azure_call {
    const char *verb;
    const char *blob;                     /* NULL: the container itself */
    const char *query_name, *query_value; /* NULL: none */
    const char *list_after; /* not NULL: List Blobs, from this marker; "": from the first blob */
    const char *blob_type, *lease_action; /* this and the following fields are sent if set */
    const char *lease_id, *proposed_lease_id;
    unsigned lease_seconds;
    const char *if_match, *if_none_match;
    const char *metadata; /* percent-encoded */
    const char *lost;     /* lost request, for a note's blob; see read.c */
    bw_time within_ns;
    bool urgent;
    void (*answer)(void *context, const struct bw_http_answer *answer);
    void *context;
};

/* Properties of a blob, from HEAD. */
struct azure_blob {
    char etag[AZURE_ETAG_MAX + 1];
    enum azure_lease_state lease;
    bool foreign; /* has content or metadata of another program */
    char metadata[AZURE_META_MAX + 1];
    char lost[AZURE_LOST_DIGITS + 1];
};

/* Returns NULL if there are no credentials yet, memory is exhausted, or too many calls are pending.
 */
struct bw_http_request *bw_azure_send(const struct azure_rest *rest, const struct azure_call *call);
/* Returns false if the answer is not Azure's. */
bool bw_azure_blob_of(const struct bw_http_answer *answer, struct azure_blob *blob);
/* Azure's error code; "" if there is none. */
const char *bw_azure_code(const struct bw_http_answer *answer);

#endif
