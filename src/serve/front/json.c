/* Reads JSON: jansson parses a tree, then a walk over it fills the message's fields; see json.h. */
#include "serve/front/json.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "serve/front/base64.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16u

struct reading {
    char *why;
    unsigned depth;
};

static int fill(struct reading *r, ProtobufCMessage *message, const json_t *object);

__attribute__((format(printf, 3, 4))) static int refuse(struct reading *r, int error,
                                                        const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(r->why, BW_JSON_WHY_MAX + 1, format, list);
    va_end(list);
    return error;
}

static int wrong(struct reading *r, const ProtobufCFieldDescriptor *field, const char *wanted)
{
    return refuse(r, BW_EMALFORMED, "json: field \"%s\": expected %s", field->name, wanted);
}

/* "range_end" may also be written "rangeEnd". */
static bool is_camel_of(const char *name, const char *given)
{
    for (; *name; name++, given++) {
        bool hump = name[0] == '_' && name[1] >= 'a' && name[1] <= 'z';
        name += hump;
        if (*given != (hump ? *name - 'a' + 'A' : *name))
            return false;
    }
    return *given == '\0';
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  const char *given)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (strcmp(field->name, given) == 0 || is_camel_of(field->name, given))
            return field;
    }
    return NULL;
}

size_t bw_json_field_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int32_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(void *);
    }
}

/* Reads a number or a string of digits into 64 bits, with the signedness of the field. */
static int take_integer(struct reading *r, const ProtobufCFieldDescriptor *field,
                        const json_t *value, int64_t *out)
{
    bool plain = field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_UINT32;
    const char *text = json_string_value(value);
    char *end = NULL;
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return plain && *out < 0 ? wrong(r, field, "a number >= 0") : 0;
    }
    if (!text || !(*text == '-' || (*text >= '0' && *text <= '9')) || (plain && *text == '-'))
        return wrong(r, field, "an integer");
    errno = 0;
    *out = plain ? (int64_t)strtoull(text, &end, 10) : strtoll(text, &end, 10);
    return errno || *end || end == text ? wrong(r, field, "an integer") : 0;
}

static int take_small(struct reading *r, const ProtobufCFieldDescriptor *field, const json_t *value,
                      int32_t *out)
{
    int64_t number;
    int error = take_integer(r, field, value, &number);
    bool plain = field->type == PROTOBUF_C_TYPE_UINT32;
    if (error)
        return error;
    if (number < (plain ? 0 : INT32_MIN) || number > (plain ? (int64_t)UINT32_MAX : INT32_MAX))
        return wrong(r, field, "a 32-bit integer");
    *out = (int32_t)number;
    return 0;
}

static int take_enum(struct reading *r, const ProtobufCFieldDescriptor *field, const json_t *value,
                     int32_t *out)
{
    if (!json_is_string(value))
        return take_small(r, field, value, out);
    const ProtobufCEnumValue *known =
        protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, json_string_value(value));
    if (!known)
        return wrong(r, field, "a known enum name");
    *out = known->value;
    return 0;
}

static int take_bytes(struct reading *r, const ProtobufCFieldDescriptor *field, const json_t *value,
                      ProtobufCBinaryData *out)
{
    size_t length = json_string_length(value);
    if (!json_is_string(value) || out->data)
        return wrong(r, field, out->data ? "a single value" : "base64 in a string");
    if (length == 0)
        return 0;
    out->data = malloc(length);
    if (!out->data)
        return refuse(r, BW_ENOMEM, "json: out of memory");
    if (!bw_base64_read(json_string_value(value), length, out->data, &out->len))
        return wrong(r, field, "base64 in a string");
    return 0;
}

static int take_string(struct reading *r, const ProtobufCFieldDescriptor *field,
                       const json_t *value, char **out)
{
    if (!json_is_string(value) || (*out && *out != field->default_value))
        return wrong(r, field, "a single string");
    *out = strdup(json_string_value(value));
    return *out ? 0 : refuse(r, BW_ENOMEM, "json: out of memory");
}

static int take_message(struct reading *r, const ProtobufCFieldDescriptor *field,
                        const json_t *value, ProtobufCMessage **out)
{
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    if (!json_is_object(value) || *out)
        return wrong(r, field, "a single object");
    *out = calloc(1, descriptor->sizeof_message);
    if (!*out)
        return refuse(r, BW_ENOMEM, "json: out of memory");
    descriptor->message_init(*out);
    return fill(r, *out, value);
}

static int take_value(struct reading *r, const ProtobufCFieldDescriptor *field, const json_t *value,
                      void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return take_integer(r, field, value, at);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
        return take_small(r, field, value, at);
    case PROTOBUF_C_TYPE_ENUM:
        return take_enum(r, field, value, at);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(value))
            return wrong(r, field, "true or false");
        *(protobuf_c_boolean *)at = json_is_true(value);
        return 0;
    case PROTOBUF_C_TYPE_BYTES:
        return take_bytes(r, field, value, at);
    case PROTOBUF_C_TYPE_STRING:
        return take_string(r, field, value, at);
    case PROTOBUF_C_TYPE_MESSAGE:
        return take_message(r, field, value, at);
    default:
        return wrong(r, field, "no value (unsupported type)");
    }
}

/* The count grows before each element is filled, so that a partly filled list can be freed. */
static int take_list(struct reading *r, const ProtobufCFieldDescriptor *field, const json_t *list,
                     ProtobufCMessage *message)
{
    size_t *count = (size_t *)((char *)message + field->quantifier_offset);
    void **array = (void **)((char *)message + field->offset);
    if (!json_is_array(list) || *array)
        return wrong(r, field, "a single list");
    size_t size = bw_json_field_size(field), length = json_array_size(list);
    if (length == 0)
        return 0;
    *array = calloc(length, size);
    if (!*array)
        return refuse(r, BW_ENOMEM, "json: out of memory");
    for (size_t i = 0; i < length; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_is_null(value))
            return wrong(r, field, "a list without null");
        ++*count;
        int error = take_value(r, field, value, (char *)*array + i * size);
        if (error)
            return error;
    }
    return 0;
}

static int take_field(struct reading *r, const ProtobufCFieldDescriptor *field, const json_t *value,
                      ProtobufCMessage *message)
{
    if (json_is_null(value))
        return 0;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return take_list(r, field, value, message);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t *which = (uint32_t *)((char *)message + field->quantifier_offset);
        if (*which)
            return wrong(r, field, "at most one of these alternatives");
        *which = field->id;
    }
    return take_value(r, field, value, (char *)message + field->offset);
}

static int fill(struct reading *r, ProtobufCMessage *message, const json_t *object)
{
    const char *name;
    json_t *value;
    int error = 0;
    if (++r->depth > DEPTH_MAX)
        return refuse(r, BW_ELIMIT, "json: nested too deeply");
    json_object_foreach((json_t *)object, name, value)
    {
        const ProtobufCFieldDescriptor *field = find_field(message->descriptor, name);
        if (field && !error)
            error = take_field(r, field, value, message);
    }
    r->depth--;
    return error;
}

static bool is_part(char c)
{
    return c == '[' || c == '{' || c == ',';
}

bool bw_json_is_bounded(const char *text, size_t length)
{
    size_t parts = 0;
    for (size_t i = 0; i < length; i++)
        parts += is_part(text[i]);
    return parts <= BW_JSON_PARTS_MAX;
}

/* Returns the end of the object or list at the start of the text. Returns `length` if the value
 * does not end, or if the text starts with something else. The scan stops at that end, so many
 * messages in one body cost time in proportion to the body. */
static size_t first_value(const char *text, size_t length)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth > 0 && --depth == 0)
            return i + 1;
        else if (depth == 0)
            break;
    }
    return length;
}

static json_t *parse(struct reading *r, const char *text, size_t length, size_t *used)
{
    json_error_t error;
    json_t *tree = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, &error);
    if (!tree)
        refuse(r, 0, "json: %.100s at byte %d", error.text, error.position);
    else
        *used = (size_t)error.position;
    if (tree && !json_is_object(tree)) {
        refuse(r, 0, "json: expected an object");
        json_decref(tree);
        tree = NULL;
    }
    return tree;
}

int bw_json_read(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t length,
                 ProtobufCMessage **out, size_t *used, char *why)
{
    struct reading r = {0};
    json_t *tree = NULL;
    int error = 0;
    r.why = why;
    *used = 0;
    *out = NULL;
    while (*used < length && text[*used] && strchr(" \t\r\n", text[*used]))
        ++*used;
    if (!BW_BUG(json_scans_the_whole_body))
        length = *used + first_value(text + *used, length - *used);
    if (!bw_json_is_bounded(text, length)) /* bounds the cost of the tree before it is built */
        return refuse(&r, BW_ELIMIT, "json: more than %u parts", BW_JSON_PARTS_MAX);
    if (*used < length && !(tree = parse(&r, text, length, used)))
        return BW_EMALFORMED;
    *out = calloc(1, descriptor->sizeof_message);
    if (*out)
        descriptor->message_init(*out);
    error = !*out ? refuse(&r, BW_ENOMEM, "json: out of memory") : tree ? fill(&r, *out, tree) : 0;
    json_decref(tree);
    if (error && *out) {
        protobuf_c_message_free_unpacked(*out, NULL);
        *out = NULL;
    }
    return error;
}
