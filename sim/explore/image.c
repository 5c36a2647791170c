/* Codes and decodes images of states; see image.h. */
#include "sim/explore/image.h"

#include <string.h>

#define WORD 8u

void bw_image_gather(const struct bw_explore_worker *worker, unsigned char *out)
{
    const unsigned char *state = worker->state;
    for (uint32_t i = 0; i < worker->spans_count; i++) {
        memcpy(out, state + worker->spans[i].at, worker->spans[i].length);
        out += worker->spans[i].length;
    }
}

void bw_image_scatter(const struct bw_explore_worker *worker, const unsigned char *from)
{
    unsigned char *state = worker->state;
    for (uint32_t i = 0; i < worker->spans_count; i++) {
        memcpy(state + worker->spans[i].at, from, worker->spans[i].length);
        from += worker->spans[i].length;
    }
}

size_t bw_image_bound(size_t bytes)
{
    return bytes + bytes / WORD + 2;
}

static uint64_t load(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static unsigned char *put_word(unsigned char *to, uint64_t word)
{
    unsigned char *mask = to++;
    *mask = 0;
    for (unsigned i = 0; i < WORD; i++) {
        unsigned char byte = (unsigned char)(word >> (8 * i));
        if (byte) {
            *mask |= (unsigned char)(1u << i);
            *to++ = byte;
        }
    }
    return to;
}

size_t bw_image_encode(const unsigned char *from, const unsigned char *first, size_t bytes,
                       unsigned char *out)
{
    unsigned char *to = out;
    size_t i = 0;
    while (i < bytes) {
        unsigned zeros = 0;
        while (zeros < 255 && i < bytes && load(from + i) == load(first + i)) {
            zeros++;
            i += WORD;
        }
        if (zeros) {
            *to++ = 0;
            *to++ = (unsigned char)zeros;
        } else {
            to = put_word(to, load(from + i) ^ load(first + i));
            i += WORD;
        }
    }
    return (size_t)(to - out);
}

void bw_image_decode(const unsigned char *code, const unsigned char *first, size_t bytes,
                     unsigned char *out)
{
    memcpy(out, first, bytes);
    for (size_t i = 0; i < bytes;) {
        unsigned mask = *code++;
        if (mask == 0) {
            i += (size_t)WORD * *code++;
            continue;
        }
        for (unsigned k = 0; k < WORD; k++)
            if (mask & (1u << k))
                out[i + k] ^= *code++;
        i += WORD;
    }
}
