/* libFuzzer: any bytes are refused, or decode to a message that encodes to the same bytes.
 *     clang -fsanitize=fuzzer,address,undefined; built by meson when clang can. */
#include "core/base/assert.h"
#include "core/base/codec.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static _Alignas(8) unsigned char list[BW_MESSAGE_DATA_MAX];
    static unsigned char again[BW_FRAME_MAX];
    struct bw_message msg;
    if (bw_message_decode(&msg, bytes, length, list, sizeof list) == 0) {
        int encoded = bw_message_encode(&msg, again, sizeof again);
        BW_ASSERT(encoded >= 0 && (size_t)encoded == length && memcmp(bytes, again, length) == 0);
    }
    return 0;
}
