/* Base64 as RFC 4648 section 4 has it: padded, no line breaks, one way to write each string of
 * bytes. */
#ifndef BW_SERVE_BASE64_H
#define BW_SERVE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

static inline size_t bw_base64_length(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* Writes bw_base64_length(length) characters, no NUL. */
void bw_base64_write(char *out, const unsigned char *bytes, size_t length);
/* Into `out`, which has room for 3 bytes per 4 characters; false: it is no base64. */
bool bw_base64_read(const char *text, size_t length, unsigned char *out, size_t *out_length);

#endif
