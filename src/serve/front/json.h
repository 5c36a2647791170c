/* Messages of the API as JSON and back, by what protobuf-c knows of them: nothing here names a
 * message.
 *
 * As etcd's gateway has it: bytes are base64; 64-bit integers are strings when written, strings or
 * numbers when read; fields of value zero are not written; names are those of the definition when
 * written, those or their camelCase when read; enums by name or number; null and unknown fields
 * are passed over. A field given twice is refused.
 *
 * Bounded: depth by the messages' own, parts of one message by BW_JSON_PARTS_MAX. Reading a message
 * costs time in proportion to its length, whatever follows it. */
#ifndef BW_SERVE_JSON_H
#define BW_SERVE_JSON_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#define BW_JSON_PARTS_MAX 16384u /* brackets and commas: parsing costs memory and time for each */
#define BW_JSON_WHY_MAX   159u

/* Does a text with one or many messages keep to BW_JSON_PARTS_MAX? */
bool bw_json_is_bounded(const char *text, size_t length);
/* The message at the beginning of a text; *used: how far it goes. A text of spaces only is the
 * empty message. Free it with protobuf_c_message_free_unpacked. Returns 0, BW_EMALFORMED, BW_ELIMIT
 * or BW_ENOMEM, with a line in why[BW_JSON_WHY_MAX + 1]. */
int bw_json_read(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t length,
                 ProtobufCMessage **out, size_t *used, char *why);

struct bw_json_text { /* starts as zeros; `at` is the caller's to free */
    char *at;
    size_t used, size;
    bool failed; /* no memory: it is not whole */
};

void bw_json_write(struct bw_json_text *text, const ProtobufCMessage *message);
/* Pieces around it. */
void bw_json_put(struct bw_json_text *text, const char *piece);
void bw_json_put_string(struct bw_json_text *text, const char *string);

/* Of one value of the field, in memory. */
size_t bw_json_field_size(const ProtobufCFieldDescriptor *field);

#endif
