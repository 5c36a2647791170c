/* libFuzzer: any value of a candidate is refused, or read as shards and what is done that are
 * written and read again alike. */
#include "base/assert.h"
#include "run/shards_value.h"
#include "store/store.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static const struct bw_shard_set nothing;
    char text[BW_VALUE_MAX + 1], again[BW_VALUE_MAX + 1];
    struct bw_shard_set done, same;
    uint32_t shards = 0, also = 0;
    if (length > BW_VALUE_MAX)
        return 0;
    memcpy(text, bytes, length);
    text[length] = '\0';
    if (bw_shards_value_read(text, &shards, &done) != 0)
        return 0;
    BW_ASSERT(shards > 0 && shards <= BW_SHARDS_MAX);
    bw_shards_value_write(again, shards, &done, &nothing);
    BW_ASSERT(bw_shards_value_read(again, &also, &same) == 0 && also == shards);
    BW_ASSERT(memcmp(&done, &same, sizeof done) == 0);
    bw_shards_value_write(again, shards, &done, &done);
    BW_ASSERT(strlen(again) <= BW_VALUE_MAX);
    return 0;
}
