/* Messages as bytes: one frame per message, validated on the way out and on the way in.
 *
 * The format stands at the top of codec.c. There is exactly one encoding of every message, so
 * whatever decodes encodes to the same bytes again. A frame says nothing about its own length: that
 * is the transport's business. */
#ifndef BW_BASE_CODEC_H
#define BW_BASE_CODEC_H

#include "core/base/limits.h"
#include "core/base/message.h"
#include "core/base/types.h"

#define BW_CODEC_VERSION 1u

/* No frame is longer: 256 bytes hold every header and fixed part, a list item takes at most 5 bytes
 * for every 4 in memory. */
#define BW_FRAME_MAX (256u + BW_MESSAGE_DATA_MAX / 4u * 5u)

/* Returns the bytes written, or BW_EMALFORMED or BW_ELIMIT (also when `cap` is too small; then
 * `out` holds rubbish). BW_FRAME_MAX is always enough. */
int bw_message_encode(const struct bw_message *msg, unsigned char *out, size_t cap);

/* Decodes one frame of exactly `len` bytes. List items go to `data` (8-byte aligned;
 * BW_MESSAGE_DATA_MAX is always enough), and msg->data points there; it is NULL when there are
 * none. Returns 0, BW_EVERSION, BW_ETRUNCATED, BW_EMALFORMED or BW_ELIMIT; then neither msg nor
 * data means anything.
 */
int bw_message_decode(struct bw_message *msg, const unsigned char *in, size_t len, void *data,
                      size_t data_cap);

#endif
