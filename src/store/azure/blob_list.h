/* One page of the answer of List Blobs. No I/O. */
#ifndef BW_STORE_AZURE_BLOB_LIST_H
#define BW_STORE_AZURE_BLOB_LIST_H

#include "store/kit/names.h"

#define AZURE_MARKER_MAX 2047u

/* Adds the elections whose blobs are in the page. Writes the marker of the next page; "": this is
 * the last one. Returns 0; BW_EMALFORMED if the body is not an answer of List Blobs, or the marker
 * is too long; or BW_ENOMEM. */
int bw_azure_list_parse(const char *body, size_t length, struct bw_names *names,
                        char marker[AZURE_MARKER_MAX + 1]);

#endif
