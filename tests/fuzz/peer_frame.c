/* libFuzzer: any bytes of any kind are refused, or are a frame that encodes to the same bytes. The
 * first byte is the kind. */
#include "core/base/assert.h"
#include "core/peer/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static unsigned char again[65536];
    static struct bw_peer_frame frame;
    if (length == 0 || length > sizeof again)
        return 0;
    memset(&frame, 0xa5, sizeof frame);
    frame.kind = (enum bw_peer_frame_kind)(1 + bytes[0] % BW_PEER_FRAME_KINDS);
    if (bw_peer_frame_decode(&frame, bytes + 1, length - 1) == 0) {
        int encoded = bw_peer_frame_encode(&frame, again, sizeof again);
        BW_ASSERT(encoded >= 0 && (size_t)encoded == length - 1 &&
                  memcmp(bytes + 1, again, length - 1) == 0);
    }
    return 0;
}
