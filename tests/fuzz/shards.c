/* libFuzzer: any value of a candidate is refused, or read as shards and completed shards that stay
 * the same when written and read again. The bytes are tried as the whole value, and as the part
 * after "done=". */
#include "core/base/assert.h"
#include "run/shards/value.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static void check(const char *text)
{
    static const struct bw_shard_set nothing;
    char again[BW_VALUE_MAX + 1];
    struct bw_shard_set done, same;
    uint32_t shards = 0, also = 0;
    if (bw_shards_value_read(text, &shards, &done) != 0)
        return;
    BW_ASSERT(shards > 0 && shards <= BW_SHARDS_MAX);
    bw_shards_value_write(again, shards, &done, &nothing);
    BW_ASSERT(bw_shards_value_read(again, &also, &same) == 0 && also == shards);
    BW_ASSERT(memcmp(&done, &same, sizeof done) == 0);
    bw_shards_value_write(again, shards, &done, &done);
    BW_ASSERT(strlen(again) <= BW_VALUE_MAX);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    char text[BW_VALUE_MAX + 1], behind[BW_VALUE_MAX + 40];
    if (length == 0 || length > BW_VALUE_MAX)
        return 0;
    memcpy(text, bytes, length);
    text[length] = '\0';
    check(text);
    /* each digit stands for up to four shards: all shard counts for this number of digits */
    for (uint32_t more = 0; more < 4; more++) {
        snprintf(behind, sizeof behind, "shards=%zu done=%s", 4 * strlen(text) - more, text);
        check(behind);
    }
    return 0;
}
