/* Records, notes and candidates as JSON objects; see record_json.h. One table per object lists its
 * fields, for writing and for reading. 64-bit numbers are strings, because JSON readers in other
 * languages round them. */
#include "store/kit/record_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, NUMBER, YES, SMALL };

struct field {
    const char *name;
    enum kind kind;
    size_t at, size;
};

#define FIELD_AS(key, type, member, kind)                                                          \
    {                                                                                              \
        key, kind, offsetof(struct type, member), sizeof(((struct type *)0)->member)               \
    }
#define FIELD(type, member, kind) FIELD_AS(#member, type, member, kind)

static const struct field record_fields[] = {FIELD(bw_store_record, holder, TEXT),
                                             FIELD(bw_store_record, request, NUMBER),
                                             FIELD(bw_store_record, token, NUMBER),
                                             FIELD(bw_store_record, ttl_ns, NUMBER),
                                             FIELD(bw_store_record, held, YES),
                                             FIELD(bw_store_record, clean, YES),
                                             FIELD(bw_store_record, value, TEXT),
                                             FIELD(bw_store_record, containment, TEXT),
                                             FIELD_AS("owed", bw_store_record, unconfirmed, TEXT),
                                             FIELD(bw_store_record, death_hash, TEXT),
                                             FIELD(bw_store_record, until_wall_ns, NUMBER),
                                             {NULL, TEXT, 0, 0}};

static const struct field note_fields[] = {
    FIELD(bw_note, kind, SMALL), FIELD(bw_note, serial, NUMBER), FIELD(bw_note, from, TEXT),
    FIELD(bw_note, to, TEXT),    FIELD(bw_note, token, NUMBER),  {NULL, TEXT, 0, 0}};

static const struct field candidate_fields[] = {FIELD(bw_candidate, id, TEXT),
                                                FIELD(bw_candidate, value, TEXT),
                                                FIELD(bw_candidate, priority, SMALL),
                                                {NULL, TEXT, 0, 0}};

static json_t *number_out(const void *at)
{
    uint64_t value;
    char digits[24];
    memcpy(&value, at, sizeof value);
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return json_string(digits);
}

/* A field that is not set is not written. */
static bool is_set(const struct field *field, const void *object)
{
    const char *at = (const char *)object + field->at;
    uint64_t number;
    int32_t small;
    switch (field->kind) {
    case NUMBER:
        memcpy(&number, at, sizeof number);
        return number != 0;
    case SMALL:
        memcpy(&small, at, sizeof small);
        return small != 0;
    case TEXT:
    case YES:
        break;
    }
    return *at != 0;
}

/* Returns NULL if memory is exhausted. */
static json_t *field_out(const struct field *field, const void *object)
{
    const char *at = (const char *)object + field->at;
    int32_t small;
    switch (field->kind) {
    case TEXT:
        return json_string_nocheck(at);
    case NUMBER:
        return number_out(at);
    case YES:
        return json_true();
    case SMALL:
        break;
    }
    memcpy(&small, at, sizeof small);
    return json_integer(small);
}

static int pack(const struct field *fields, const void *object, char *text, size_t size)
{
    json_t *json = json_object();
    if (!json)
        return BW_ENOMEM;
    for (; fields->name; fields++) {
        /* a record that lacks a field, such as the token or the TTL, must not be written */
        if (is_set(fields, object) &&
            json_object_set_new(json, fields->name, field_out(fields, object)) != 0) {
            json_decref(json);
            return BW_ENOMEM;
        }
    }
    size_t length = json_dumpb(json, text, size, JSON_COMPACT);
    json_decref(json);
    if (length == 0 || length >= size)
        return BW_ELIMIT;
    text[length] = '\0';
    return (int)length;
}

static int number_in(void *at, const json_t *value)
{
    const char *digits = json_string_value(value);
    char *end;
    if (!digits || digits[0] < '0' || digits[0] > '9')
        return BW_EMALFORMED;
    uint64_t number = strtoull(digits, &end, 10);
    if (*end || (number == UINT64_MAX && strcmp(digits, "18446744073709551615") != 0))
        return BW_EMALFORMED;
    memcpy(at, &number, sizeof number);
    return 0;
}

static int text_in(char *at, size_t size, const json_t *value)
{
    size_t length = json_string_length(value);
    const char *text = json_string_value(value);
    if (!text || length >= size || strlen(text) != length)
        return BW_EMALFORMED;
    memcpy(at, text, length + 1);
    return 0;
}

static int small_in(void *at, const json_t *value)
{
    json_int_t number = json_integer_value(value);
    int32_t small = (int32_t)number;
    if (!json_is_integer(value) || small != number)
        return BW_EMALFORMED;
    memcpy(at, &small, sizeof small);
    return 0;
}

static int field_in(const struct field *field, void *object, const json_t *value)
{
    char *at = (char *)object + field->at;
    switch (field->kind) {
    case TEXT:
        return text_in(at, field->size, value);
    case NUMBER:
        return number_in(at, value);
    case SMALL:
        return small_in(at, value);
    case YES:
        break;
    }
    if (!json_is_boolean(value))
        return BW_EMALFORMED;
    *(bool *)at = json_is_true(value);
    return 0;
}

static int unpack(const struct field *fields, void *object, const char *text, size_t length)
{
    json_error_t cause;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &cause);
    bool no_memory = !json && json_error_code(&cause) == json_error_out_of_memory;
    int error = json_is_object(json) ? 0 : no_memory ? BW_ENOMEM : BW_EMALFORMED;
    for (; fields->name && error == 0; fields++) {
        const json_t *value = json_object_get(json, fields->name);
        if (value)
            error = field_in(fields, object, value);
    }
    json_decref(json);
    return error;
}

int bw_record_pack(const struct bw_store_record *record, char *text, size_t size)
{
    return pack(record_fields, record, text, size);
}

int bw_record_unpack(const char *text, size_t length, struct bw_store_record *record)
{
    struct bw_store_record read = *record;
    int error = unpack(record_fields, &read, text, length);
    if (error == 0 && (read.ttl_ns < 0 || read.until_wall_ns < 0))
        error = BW_EMALFORMED;
    if (error == 0)
        *record = read;
    return error;
}

int bw_note_pack(const struct bw_note *note, char *text, size_t size)
{
    return pack(note_fields, note, text, size);
}

int bw_note_unpack(const char *text, size_t length, struct bw_note *note)
{
    struct bw_note read = *note;
    int error = unpack(note_fields, &read, text, length);
    if (error == 0 && (read.kind < BW_NOTE_NONE || read.kind > BW_NOTE_REFUSE))
        error = BW_EMALFORMED;
    if (error == 0)
        *note = read;
    return error;
}

int bw_candidate_pack(const struct bw_candidate *candidate, char *text, size_t size)
{
    return pack(candidate_fields, candidate, text, size);
}

int bw_candidate_unpack(const char *text, size_t length, struct bw_candidate *candidate)
{
    struct bw_candidate read = *candidate;
    int error = unpack(candidate_fields, &read, text, length);
    if (error == 0)
        *candidate = read;
    return error;
}
