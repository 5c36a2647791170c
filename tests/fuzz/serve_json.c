/* libFuzzer: any text is refused with a reason, or read as a message that stays the same when it is
 * written and read again. The first byte selects the message. */
#include "core/base/assert.h"
#include "core/base/error.h"
#include "net/api.pb-c.h"
#include "serve/front/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static const ProtobufCMessageDescriptor *const kinds[] = {
    &api__range_request__descriptor,        &api__range_response__descriptor,
    &api__put_request__descriptor,          &api__delete_range_response__descriptor,
    &api__txn_request__descriptor,          &api__txn_response__descriptor,
    &api__watch_request__descriptor,        &api__watch_response__descriptor,
    &api__lease_grant_request__descriptor,  &api__lease_time_to_live_response__descriptor,
    &api__member_list_response__descriptor, &api__status_response__descriptor,
    &api__alarm_request__descriptor,        &api__resign_request__descriptor};

static size_t pack(const ProtobufCMessage *message, unsigned char **out)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    *out = malloc(length + 1);
    BW_ASSERT(*out);
    return protobuf_c_message_pack(message, *out);
}

static void check(const ProtobufCMessageDescriptor *kind, const ProtobufCMessage *message)
{
    struct bw_json_text text = {0};
    ProtobufCMessage *again;
    unsigned char *one, *two;
    char why[BW_JSON_WHY_MAX + 1];
    size_t used;
    bw_json_write(&text, message);
    BW_ASSERT(!text.failed);
    int error = bw_json_read(kind, text.at, text.used, &again, &used, why);
    if (error != BW_ELIMIT) { /* omitted names count when they are written */
        BW_ASSERT(error == 0 && used == text.used);
        size_t first = pack(message, &one), second = pack(again, &two);
        BW_ASSERT(first == second && memcmp(one, two, first) == 0);
        free(one);
        free(two);
        protobuf_c_message_free_unpacked(again, NULL);
    }
    free(text.at);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    ProtobufCMessage *message = NULL;
    char why[BW_JSON_WHY_MAX + 1] = "";
    size_t used;
    if (length == 0)
        return 0;
    const ProtobufCMessageDescriptor *kind = kinds[bytes[0] % (sizeof kinds / sizeof kinds[0])];
    int error = bw_json_read(kind, (const char *)bytes + 1, length - 1, &message, &used, why);
    BW_ASSERT(error ? !message && why[0] : message && used <= length - 1);
    if (message)
        check(kind, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return 0;
}
