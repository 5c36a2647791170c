/* See base64.h. */
#include "serve/front/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void bw_base64_write(char *out, const unsigned char *bytes, size_t length)
{
    for (; length >= 3; bytes += 3, length -= 3) {
        uint32_t three = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
        *out++ = alphabet[three >> 18];
        *out++ = alphabet[three >> 12 & 63];
        *out++ = alphabet[three >> 6 & 63];
        *out++ = alphabet[three & 63];
    }
    if (length > 0) {
        uint32_t rest = (uint32_t)bytes[0] << 16 | (length > 1 ? (uint32_t)bytes[1] << 8 : 0);
        *out++ = alphabet[rest >> 18];
        *out++ = alphabet[rest >> 12 & 63];
        *out++ = length > 1 ? alphabet[rest >> 6 & 63] : '=';
        *out = '=';
    }
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool bw_base64_read(const char *text, size_t length, unsigned char *out, size_t *out_length)
{
    size_t used = 0;
    if (length % 4)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        bool last = i + 4 == length;
        unsigned pads = 0;
        while (last && pads < 2 && text[i + 3 - pads] == '=')
            pads++;
        uint32_t four = 0;
        for (unsigned j = 0; j < 4; j++) {
            int value = j < 4 - pads ? value_of(text[i + j]) : 0;
            if (value < 0)
                return false;
            four = four << 6 | (uint32_t)value;
        }
        for (unsigned j = 0; j < 3 - pads; j++)
            out[used++] = (unsigned char)(four >> (16 - 8 * j));
        if (four & ((1u << 8 * pads) - 1)) /* the unused low bits must be zero */
            return false;
    }
    *out_length = used;
    return true;
}
