/* Images of states: the live spans of a block, as differences from the first state, coded without
 * zero bytes.
 *
 * The code of 64-bit words: a byte with one bit per nonzero byte of the word, then these bytes. A
 * byte 0 is followed by the number of zero words, 1 to 255. */
#ifndef BW_SIM_EXPLORE_IMAGE_H
#define BW_SIM_EXPLORE_IMAGE_H

#include "sim/explore/explore.h"

/* Copies the spans out of `state`, one after the other, and back. */
void bw_image_gather(const struct bw_explore_worker *worker, unsigned char *out);
void bw_image_scatter(const struct bw_explore_worker *worker, const unsigned char *from);

/* The largest code of `bytes` bytes, a multiple of 8. */
size_t bw_image_bound(size_t bytes);
/* Codes the difference between `from` and `first`. Returns the length. */
size_t bw_image_encode(const unsigned char *from, const unsigned char *first, size_t bytes,
                       unsigned char *out);
void bw_image_decode(const unsigned char *code, const unsigned char *first, size_t bytes,
                     unsigned char *out);

#endif
