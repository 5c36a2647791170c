/* Text formats of Azure's REST API: base64, names in URLs, values in headers, dates, lease ids. No
 * I/O. */
#ifndef BW_STORE_AZURE_TEXT_H
#define BW_STORE_AZURE_TEXT_H

#include "core/base/types.h"
#include "core/lease/record.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define AZURE_LEASE_ID_MAX 36u
#define AZURE_DATE_MAX     64u
/* length of a blob name, with every character of the election's name escaped */
#define AZURE_NAME_MAX 512u

/* Returns the number of bytes; 0 if the text is not base64 or does not fit. */
size_t bw_azure_unbase64(const char *text, unsigned char *out, size_t size);
/* Writes the blob name of an election to out[AZURE_NAME_MAX + 1]. Plain names stay unchanged. '%',
 * '\\' and a '.' at the end become %25, %5C and %2E, because Azure or its clients treat them
 * specially. A name contains no other '%', so a suffix "%WORD" marks further blobs of ours. */
void bw_azure_blob_name(const char *election, char *out);
/* Reads the election of a blob name. Returns false if no election has it. */
bool bw_azure_election_of(const char *name, char out[BW_ELECTION_NAME_MAX + 1]);
/* Percent-encodes a path, except '/'. Returns false if it does not fit. */
bool bw_azure_path(const char *name, char *out, size_t size);
/* Percent-encodes a header's value except printable ASCII without blanks; and decodes it. Return
 * the length, or 0 if the result does not fit or the input is malformed. */
size_t bw_azure_pack(const char *text, char *out, size_t size);
size_t bw_azure_unpack(const char *text, char *out, size_t size);
void bw_azure_date(time_t now, char *out);
/* Derives the lease id of one request. It is unique, and computing it requires the nonce. */
void bw_azure_lease_id(const unsigned char nonce[16], uint64_t request, char *out);

#endif
