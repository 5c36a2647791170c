/* Encodes a message as one frame of bytes and decodes it again; validates in both directions.
 *
 * codec.c describes the format. Each message has exactly one encoding: a frame that decodes is
 * encoded again to the same bytes. A frame does not contain its own length; the transport keeps
 * it. */
#ifndef BW_CORE_BASE_CODEC_H
#define BW_CORE_BASE_CODEC_H

#include "core/base/limits.h"
#include "core/base/message.h"
#include "core/base/types.h"

#define BW_CODEC_VERSION 1u

/* Maximum length of a frame: 256 bytes hold every header and fixed part, and a list item takes at
 * most 5 bytes for each 4 bytes in memory. */
#define BW_FRAME_MAX (256u + BW_MESSAGE_DATA_MAX / 4u * 5u)

/* Returns the number of bytes written, BW_EMALFORMED, or BW_ELIMIT (also if `cap` is too small).
 * After an error the contents of `out` are undefined. A buffer of BW_FRAME_MAX bytes is always
 * large enough. */
int bw_message_encode(const struct bw_message *msg, unsigned char *out, size_t cap);

/* Decodes one frame of exactly `len` bytes. Writes the list items to `data` and points msg->data
 * there, or sets it to NULL if the list is empty. `data` must be 8-byte aligned;
 * BW_MESSAGE_DATA_MAX bytes are always enough.
 * Returns 0, BW_EVERSION, BW_ETRUNCATED, BW_EMALFORMED or BW_ELIMIT. After an error the contents of
 * `msg` and `data` are undefined. */
int bw_message_decode(struct bw_message *msg, const unsigned char *in, size_t len, void *data,
                      size_t data_cap);

#endif
