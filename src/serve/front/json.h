/* Converts messages of the API to JSON and back, driven by protobuf-c's descriptors.
 *
 * The conversion follows etcd's gateway:
 *   - Bytes are base64.
 *   - 64-bit integers are written as strings, and read from strings or numbers.
 *   - Fields with the value zero are not written.
 *   - Field names are written as in the definition, and read in that form or in camelCase.
 *   - Enums are read by name or by number.
 *   - null and unknown fields are ignored.
 * A field that occurs twice is refused.
 *
 * Bounds: the messages themselves limit the depth, BW_JSON_PARTS_MAX limits the parts of one
 * message. The time to read a message is proportional to its own length, whatever follows it in the
 * body. */
#ifndef BW_SERVE_FRONT_JSON_H
#define BW_SERVE_FRONT_JSON_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#define BW_JSON_PARTS_MAX 16384u /* brackets and commas; each costs memory and time */
#define BW_JSON_WHY_MAX   159u

/* Returns true if a text with one or more messages has at most BW_JSON_PARTS_MAX parts. */
bool bw_json_is_bounded(const char *text, size_t length);
/* Reads the message at the start of a text and sets *used to its length. A text of white space only
 * is the empty message. The caller frees the message with protobuf_c_message_free_unpacked. Returns
 * 0, BW_EMALFORMED, BW_ELIMIT or BW_ENOMEM, with the reason in why[BW_JSON_WHY_MAX + 1]. */
int bw_json_read(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t length,
                 ProtobufCMessage **out, size_t *used, char *why);

struct bw_json_text { /* initialize to zeros; the caller frees `at` */
    char *at;
    size_t used, size;
    bool failed; /* out of memory: the text is incomplete */
};

void bw_json_write(struct bw_json_text *text, const ProtobufCMessage *message);
/* Append text, or a quoted string. */
void bw_json_put(struct bw_json_text *text, const char *piece);
void bw_json_put_string(struct bw_json_text *text, const char *string);

/* The bytes that one value of the field takes in a message struct. */
size_t bw_json_field_size(const ProtobufCFieldDescriptor *field);

#endif
