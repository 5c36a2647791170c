/* Writes messages as JSON into a growing buffer; see json.h. */
#include "os/grow.h"
#include "serve/front/base64.h"
#include "serve/front/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(struct bw_json_text *text, size_t bytes)
{
    if (text->failed)
        return NULL;
    if (!bw_grow(&text->at, &text->size, text->used + bytes, 512, 1)) {
        text->failed = true;
        return NULL;
    }
    text->used += bytes;
    return text->at + text->used - bytes;
}

static void append(struct bw_json_text *text, const char *bytes, size_t length)
{
    char *at = reserve(text, length);
    if (at)
        memcpy(at, bytes, length);
}

void bw_json_put(struct bw_json_text *text, const char *piece)
{
    append(text, piece, strlen(piece));
}

void bw_json_put_string(struct bw_json_text *text, const char *string)
{
    bw_json_put(text, "\"");
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        char escaped[8] = {(char)c};
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        bw_json_put(text, escaped);
    }
    bw_json_put(text, "\"");
}

static void put_bytes(struct bw_json_text *text, const ProtobufCBinaryData *bytes)
{
    size_t length = bw_base64_length(bytes->len);
    char *at = reserve(text, length + 2);
    if (!at)
        return;
    at[0] = at[length + 1] = '"';
    bw_base64_write(at + 1, bytes->data, bytes->len);
}

static void put_enum(struct bw_json_text *text, const ProtobufCFieldDescriptor *field, int32_t at)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(field->descriptor, at);
    char digits[16];
    snprintf(digits, sizeof digits, "%" PRId32, at);
    if (value)
        bw_json_put_string(text, value->name);
    else
        bw_json_put(text, digits);
}

static void put_value(struct bw_json_text *text, const ProtobufCFieldDescriptor *field,
                      const void *at)
{
    char digits[32] = "null";
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
        snprintf(digits, sizeof digits, "\"%" PRId64 "\"", *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        snprintf(digits, sizeof digits, "\"%" PRIu64 "\"", *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT32:
        snprintf(digits, sizeof digits, "%" PRId32, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        snprintf(digits, sizeof digits, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        snprintf(digits, sizeof digits, "%s", *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(text, field, *(const int32_t *)at);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(text, at);
        return;
    case PROTOBUF_C_TYPE_STRING:
        bw_json_put_string(text, *(char *const *)at);
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        bw_json_write(text, *(ProtobufCMessage *const *)at);
        return;
    default:
        break;
    }
    bw_json_put(text, digits);
}

static bool is_zero(const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return *(const int64_t *)at == 0;
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len == 0;
    case PROTOBUF_C_TYPE_STRING:
        return !*(char *const *)at || !**(char *const *)at;
    case PROTOBUF_C_TYPE_MESSAGE:
        return !*(ProtobufCMessage *const *)at;
    case PROTOBUF_C_TYPE_BOOL:
        return !*(const protobuf_c_boolean *)at;
    default:
        return *(const int32_t *)at == 0;
    }
}

static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *base = (const char *)message;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(base + field->quantifier_offset) > 0;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(base + field->quantifier_offset) == field->id;
    return !is_zero(field, base + field->offset);
}

static void put_list(struct bw_json_text *text, const ProtobufCFieldDescriptor *field,
                     const char *base)
{
    size_t count = *(const size_t *)(base + field->quantifier_offset);
    const char *array = *(const char *const *)(base + field->offset);
    bw_json_put(text, "[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            bw_json_put(text, ",");
        put_value(text, field, array + i * bw_json_field_size(field));
    }
    bw_json_put(text, "]");
}

void bw_json_write(struct bw_json_text *text, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    const char *separator = "{\"";
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (!is_there(message, field))
            continue;
        bw_json_put(text, separator);
        bw_json_put(text, field->name);
        bw_json_put(text, "\":");
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            put_list(text, field, (const char *)message);
        else
            put_value(text, field, (const char *)message + field->offset);
        separator = ",\"";
    }
    bw_json_put(text, separator[0] == '{' ? "{}" : "}");
}
