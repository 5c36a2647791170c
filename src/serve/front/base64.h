/* Base64 as in RFC 4648, section 4: padded, without line breaks, one encoding for each byte
 * string. */
#ifndef BW_SERVE_FRONT_BASE64_H
#define BW_SERVE_FRONT_BASE64_H

#include <stdbool.h>
#include <stddef.h>

static inline size_t bw_base64_length(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* Writes bw_base64_length(length) characters without a NUL. */
void bw_base64_write(char *out, const unsigned char *bytes, size_t length);
/* Decodes into `out`, which must hold 3 bytes for each 4 characters. Returns false if `text` is not
 * valid base64. */
bool bw_base64_read(const char *text, size_t length, unsigned char *out, size_t *out_length);

#endif
