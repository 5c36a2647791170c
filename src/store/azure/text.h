/* Text as Azure's REST wants it: base64, names in URLs, values in headers, dates, ids of leases. No
 * I/O. */
#ifndef BW_STORE_AZURE_TEXT_H
#define BW_STORE_AZURE_TEXT_H

#include "core/base/types.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define AZURE_LEASE_ID_MAX 36u
#define AZURE_DATE_MAX     64u
#define AZURE_NAME_MAX     512u /* of a blob, every sign of an election's name escaped */

/* The bytes, or 0 if it is not base64 or does not fit. */
size_t bw_azure_unbase64(const char *text, unsigned char *out, size_t size);
/* out[AZURE_NAME_MAX + 1]: the blob of an election. Plain names are themselves; '%', '\' and a '.'
 * at the end, which Azure or its clients treat as something else, become %25, %5C and %2E in the
 * name. No name holds another '%': what is ours beside it is told from it by "%WORD" at its end. */
void bw_azure_blob_name(const char *election, char *out);
/* Percent-encoding of a path, '/' kept. False: it does not fit. */
bool bw_azure_path(const char *name, char *out, size_t size);
/* A header's value of signs without blanks, the others percent-encoded; and back. Length, or 0 if
 * it does not fit or is malformed. */
size_t bw_azure_pack(const char *text, char *out, size_t size);
size_t bw_azure_unpack(const char *text, char *out, size_t size);
void bw_azure_date(time_t now, char *out);
/* The lease of one request: unlike any other's, and only who knows the nonce can tell it. */
void bw_azure_lease_id(const unsigned char nonce[16], uint64_t request, char *out);

#endif
