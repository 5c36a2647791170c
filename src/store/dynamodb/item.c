/* The items of an election; see item.h. */
#include "store/dynamodb/item.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LASTING "/bellwether"
#define NOTE    "/note"
/* Keys per page of a scan. A key has at most 2 KiB, so a page is below BW_HTTP_BODY_MAX. */
#define PAGE_ITEMS 200

/* ---- reading ---- */

static const char *text_of(const json_t *item, const char *name)
{
    return json_string_value(json_object_get(json_object_get(item, name), "S"));
}

static bool number_of(const json_t *item, const char *name, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(json_object_get(item, name), "N"));
    char *end = NULL;
    *out = text ? strtoull(text, &end, 10) : 0;
    return text && *text >= '0' && *text <= '9' && !*end && *out != UINT64_MAX;
}

static const json_t *find(const json_t *items, const char *election, const char *suffix)
{
    char key[DYNAMODB_KEY_MAX];
    size_t index;
    json_t *item;
    snprintf(key, sizeof key, "%s%s", election, suffix);
    json_array_foreach(items, index, item)
    {
        const char *name = text_of(item, "key");
        if (name && strcmp(name, key) == 0)
            return item;
    }
    return NULL;
}

static int parse_lasting(struct dynamodb_seen *seen, const json_t *item)
{
    uint64_t token;
    const char *record = text_of(item, "record");
    if (!number_of(item, "token", &token) ||
        (record && bw_record_unpack(record, strlen(record), &seen->kept) != 0))
        return BW_EMALFORMED;
    seen->kept.token = token;
    return 0;
}

static int parse_note(struct dynamodb_seen *seen, const json_t *item)
{
    uint64_t serial;
    const char *note = text_of(item, "note");
    if (!note || !number_of(item, "serial", &serial) ||
        bw_note_unpack(note, strlen(note), &seen->kept.note) != 0)
        return BW_EMALFORMED;
    seen->kept.note.serial = serial;
    return 0;
}

/* A lock client's holder came after the last Bellwether holder, and inherits what that one left
 * unconfirmed. */
static void follow_foreign(struct bw_store_record *kept, const char *owner, bw_time ttl_ns)
{
    char id[BW_CANDIDATE_ID_MAX + 1];
    snprintf(id, sizeof id, "%s", *owner ? owner : "unknown");
    for (char *at = id; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    struct bw_store_request taker = {.candidate = id, .ttl_ns = ttl_ns};
    bw_token token = kept->token;
    kept->version = 1;
    bw_record_acquire(kept, &taker);
    kept->token = token;
}

static int parse_lock(struct dynamodb_seen *seen, const json_t *item)
{
    const char *rvn = text_of(item, "recordVersionNumber"), *owner = text_of(item, "ownerName");
    const char *duration = text_of(item, "leaseDuration"), *record = text_of(item, "bellwether");
    const char *session = text_of(item, "bellwetherSession");
    char *end = NULL;
    long long ms = duration ? strtoll(duration, &end, 10) : -1;
    if (!rvn || !*rvn || strlen(rvn) > DYNAMODB_RVN_MAX || !owner || ms < 0 || *end ||
        ms > BW_TIME_NEVER / 2 / BW_MS)
        return BW_EMALFORMED;
    snprintf(seen->rvn, sizeof seen->rvn, "%s", rvn);
    snprintf(seen->session, sizeof seen->session, "%.32s", session ? session : "");
    seen->released = json_object_get(item, "isReleased") != NULL;
    seen->foreign = record == NULL;
    if (!record) {
        follow_foreign(&seen->kept, owner, ms * BW_MS);
    } else {
        struct bw_note note = seen->kept.note;
        seen->kept = (struct bw_store_record){.note = note};
        if (bw_record_unpack(record, strlen(record), &seen->kept) != 0)
            return BW_EMALFORMED;
    }
    return 0;
}

/* An item under one of our keys that has an unexpected form. */
static int check_item(struct dynamodb_seen *seen, const char *election, const char *suffix,
                      int error)
{
    if (error)
        snprintf(seen->unexpected_key, sizeof seen->unexpected_key, "%s%s", election, suffix);
    return error ? BW_EDAMAGED : 0;
}

static int parse_items(struct dynamodb_seen *seen, const json_t *items, const char *election)
{
    const json_t *lasting = find(items, election, LASTING), *note = find(items, election, NOTE);
    const json_t *lock = find(items, election, "");
    int error = 0;
    seen->lasting = lasting != NULL;
    seen->noted = note != NULL;
    seen->lock = lock != NULL;
    if (lasting)
        error = check_item(seen, election, LASTING, parse_lasting(seen, lasting));
    seen->counter = seen->kept.token;
    if (note && error == 0)
        error = check_item(seen, election, NOTE, parse_note(seen, note));
    if (lock && error == 0)
        error = check_item(seen, election, "", parse_lock(seen, lock));
    seen->kept.held = lock && !seen->released;
    seen->pending = seen->kept.held && !seen->foreign && seen->kept.token == 0;
    /* counted, but never written to the lock */
    if (!seen->kept.held && seen->kept.token < seen->counter)
        seen->kept.token = seen->counter;
    seen->kept.version = lock || lasting ? 1 : 0;
    return error;
}

int bw_dynamodb_parse(struct dynamodb_seen *seen, const char *table, const char *election,
                      const char *body, size_t length)
{
    memset(seen, 0, sizeof *seen);
    json_t *json = json_loadb(body, length, 0, NULL);
    const json_t *items = json_object_get(json_object_get(json, "Responses"), table);
    const json_t *left = json_object_get(json, "UnprocessedKeys");
    int error = json_is_array(items) && json_object_size(left) == 0
                    ? parse_items(seen, items, election)
                    : BW_EMALFORMED;
    json_decref(json);
    if (error == 0)
        bw_dynamodb_show(seen);
    return error;
}

static uint64_t hash_of(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return (hash ^ '|') * 0x100000001b3u;
}

/* A holder without a token has not finished its acquisition. Its request is not shown, so that the
 * candidate does not mistake it for a leadership. */
void bw_dynamodb_show(struct dynamodb_seen *seen)
{
    struct bw_store_record *shown = &seen->shown;
    char numbers[64];
    *shown = seen->kept;
    shown->left_ns = BW_TIME_NEVER;
    if (!seen->lock && !seen->lasting && !seen->noted) {
        shown->clean = true;
        return;
    }
    if (seen->pending) {
        shown->request = 0;
        shown->token = seen->counter;
    }
    if (seen->lock && seen->released && seen->foreign)
        shown->clean = false;
    snprintf(numbers, sizeof numbers, "%d %" PRIu64 " %" PRIu64, seen->released, shown->token,
             shown->note.serial);
    uint64_t version = hash_of(hash_of(0xcbf29ce484222325u, seen->rvn), numbers);
    shown->version = version ? version : 1;
    bw_record_present(shown);
}

/* ---- writing ---- */

static char *dump(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static json_t *key_of(const char *election, const char *suffix)
{
    char key[DYNAMODB_KEY_MAX];
    snprintf(key, sizeof key, "%s%s", election, suffix);
    return json_pack("{s:{s:s}}", "key", "S", key);
}

char *bw_dynamodb_get(const char *table, const char *election)
{
    return dump(json_pack("{s:{s:{s:b, s:[o, o, o]}}}", "RequestItems", table, "ConsistentRead", 1,
                          "Keys", key_of(election, ""), key_of(election, LASTING),
                          key_of(election, NOTE)));
}

static json_t *record_text(const struct bw_store_record *kept)
{
    char text[BW_RECORD_JSON_MAX];
    return bw_record_pack(kept, text, sizeof text) > 0 ? json_pack("{s:s}", "S", text) : NULL;
}

static json_t *value_bytes(const char *value)
{
    unsigned char encoded[2 * BW_VALUE_MAX];
    EVP_EncodeBlock(encoded, (const unsigned char *)value, (int)strlen(value));
    return json_pack("{s:s}", "B", (const char *)encoded);
}

static json_t *milliseconds(bw_time span)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, span / BW_MS);
    return json_pack("{s:s}", "S", text);
}

char *bw_dynamodb_put_lock(const char *table, const char *election,
                           const struct dynamodb_seen *before, const struct bw_store_record *kept,
                           const char *rvn, const char *session)
{
    json_t *record = record_text(kept);
    json_t *item =
        record
            ? json_pack("{s:{s:s}, s:{s:s}, s:o, s:{s:s}, s:o, s:o, s:{s:s}}", "key", "S", election,
                        "ownerName", "S", kept->holder, "leaseDuration", milliseconds(kept->ttl_ns),
                        "recordVersionNumber", "S", rvn, "data", value_bytes(kept->value),
                        "bellwether", record, "bellwetherSession", "S", session)
            : NULL;
    if (!item)
        return NULL;
    if (!before->lock)
        return dump(json_pack("{s:s, s:o, s:s, s:{s:s}}", "TableName", table, "Item", item,
                              "ConditionExpression", "attribute_not_exists(#k)",
                              "ExpressionAttributeNames", "#k", "key"));
    const char *condition = before->released
                                ? "recordVersionNumber = :seen AND attribute_exists(isReleased)"
                                : "recordVersionNumber = :seen AND "
                                  "attribute_not_exists(isReleased)";
    return dump(json_pack("{s:s, s:o, s:s, s:{s:{s:s}}}", "TableName", table, "Item", item,
                          "ConditionExpression", condition, "ExpressionAttributeValues", ":seen",
                          "S", before->rvn));
}

char *bw_dynamodb_change_lock(const char *table, const char *election,
                              const struct dynamodb_seen *before,
                              const struct bw_store_record *kept, const char *rvn,
                              const char *session)
{
    json_t *record = record_text(kept);
    if (!record)
        return NULL;
    json_t *values =
        json_pack("{s:{s:s}, s:{s:s}, s:{s:s}, s:o, s:o, s:o}", ":seen", "S", before->rvn,
                  ":session", "S", session, ":rvn", "S", rvn, ":record", record, ":ms",
                  milliseconds(kept->ttl_ns), ":data", value_bytes(kept->value));
    if (values && !kept->held)
        json_object_set_new(values, ":yes", json_pack("{s:s}", "S", "1"));
    const char *update = kept->held
                             ? "SET recordVersionNumber = :rvn, leaseDuration = :ms, #d = :data, "
                               "bellwether = :record"
                             : "SET recordVersionNumber = :rvn, leaseDuration = :ms, #d = :data, "
                               "bellwether = :record, isReleased = :yes";
    return dump(json_pack("{s:s, s:o, s:s, s:s, s:{s:s}, s:o}", "TableName", table, "Key",
                          key_of(election, ""), "UpdateExpression", update, "ConditionExpression",
                          "recordVersionNumber = :seen AND bellwetherSession = :session AND "
                          "attribute_not_exists(isReleased)",
                          "ExpressionAttributeNames", "#d", "data", "ExpressionAttributeValues",
                          values));
}

char *bw_dynamodb_count(const char *table, const char *election)
{
    return dump(json_pack("{s:s, s:o, s:s, s:{s:s}, s:{s:{s:s}}, s:s}", "TableName", table, "Key",
                          key_of(election, LASTING), "UpdateExpression", "ADD #t :one",
                          "ExpressionAttributeNames", "#t", "token", "ExpressionAttributeValues",
                          ":one", "N", "1", "ReturnValues", "UPDATED_NEW"));
}

char *bw_dynamodb_put_lasting(const char *table, const char *election,
                              const struct bw_store_record *kept)
{
    char token[24];
    json_t *record = record_text(kept);
    snprintf(token, sizeof token, "%" PRIu64, kept->token);
    if (!record)
        return NULL;
    return dump(json_pack("{s:s, s:o, s:s, s:s, s:{s:s, s:s}, s:{s:o, s:{s:s}}}", "TableName",
                          table, "Key", key_of(election, LASTING), "UpdateExpression",
                          "SET #r = :record", "ConditionExpression", "#t = :token",
                          "ExpressionAttributeNames", "#r", "record", "#t", "token",
                          "ExpressionAttributeValues", ":record", record, ":token", "N", token));
}

char *bw_dynamodb_put_note(const char *table, const char *election, const struct bw_note *note)
{
    char text[1024];
    struct bw_note unnumbered = *note;
    unnumbered.serial = 0;
    if (bw_note_pack(&unnumbered, text, sizeof text) <= 0)
        return NULL;
    return dump(json_pack("{s:s, s:o, s:s, s:{s:s, s:s}, s:{s:{s:s}, s:{s:s}}, s:s}", "TableName",
                          table, "Key", key_of(election, NOTE), "UpdateExpression",
                          "SET #n = :note ADD #s :one", "ExpressionAttributeNames", "#n", "note",
                          "#s", "serial", "ExpressionAttributeValues", ":note", "S", text, ":one",
                          "N", "1", "ReturnValues", "UPDATED_NEW"));
}

/* The filter selects what can be read as a lock or a counter. Other items of the table are left
 * out. */
char *bw_dynamodb_scan(const char *table, json_t *after)
{
    json_t *body = json_pack(
        "{s:s, s:s, s:s, s:{s:s, s:s}, s:{s:{s:s}, s:{s:s}, s:{s:s}}, s:b, s:i}", "TableName",
        table, "ProjectionExpression", "#k", "FilterExpression",
        "(attribute_type(recordVersionNumber, :text) AND attribute_type(ownerName, :text) AND "
        "attribute_type(leaseDuration, :text) AND NOT contains(#k, :slash)) OR "
        "(attribute_type(#t, :number) AND contains(#k, :slash))",
        "ExpressionAttributeNames", "#k", "key", "#t", "token", "ExpressionAttributeValues",
        ":text", "S", "S", ":number", "S", "N", ":slash", "S", "/", "ConsistentRead", 1, "Limit",
        PAGE_ITEMS);
    if (body && after && json_object_set(body, "ExclusiveStartKey", after) != 0) {
        json_decref(body);
        return NULL;
    }
    return dump(body);
}

char *bw_dynamodb_create(const char *table)
{
    return dump(json_pack("{s:s, s:[{s:s, s:s}], s:[{s:s, s:s}], s:s}", "TableName", table,
                          "AttributeDefinitions", "AttributeName", "key", "AttributeType", "S",
                          "KeySchema", "AttributeName", "key", "KeyType", "HASH", "BillingMode",
                          "PAY_PER_REQUEST"));
}

uint64_t bw_dynamodb_number(const char *body, size_t length, const char *name)
{
    uint64_t number;
    json_t *json = json_loadb(body, length, 0, NULL);
    if (!number_of(json_object_get(json, "Attributes"), name, &number))
        number = 0;
    json_decref(json);
    return number;
}

void bw_dynamodb_type(const char *body, size_t length, char *out, size_t size)
{
    json_t *json = json_loadb(body, length, 0, NULL);
    const char *type = json_string_value(json_object_get(json, "__type"));
    const char *hash = type ? strchr(type, '#') : NULL;
    snprintf(out, size, "%s", hash ? hash + 1 : type ? type : "");
    json_decref(json);
}

size_t bw_dynamodb_name_length(const char *key)
{
    size_t length = strlen(key), end = strlen(LASTING);
    return length > end && strcmp(key + length - end, LASTING) == 0 ? length - end : length;
}
