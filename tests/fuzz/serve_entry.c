/* libFuzzer: the bytes of a log entry are refused, or are the only encoding of their content; and
 * the registry applies or refuses that content. The input holds several entries, each after 2 bytes
 * of length, so that an entry meets the effects of earlier ones. */
#include "core/base/assert.h"
#include "core/base/error.h"
#include "core/registry/entry.h"

#include <string.h>
#include <sys/mman.h>

#define ENTRY_BYTES (BW_REQUEST_MAX + 65536u)
#define KVS         1024u

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static const struct bw_registry_config config = {
    .quota = 1 << 20, .leases_max = 16, .history = 1024};
static unsigned char again[ENTRY_BYTES];
static struct bw_entry_scratch scratch;
static struct bw_op_result ops[BW_TXN_ALL_MAX];
static const struct bw_kv *kvs[KVS];

static void take(struct bw_registry *registry, const unsigned char *bytes, size_t length)
{
    struct bw_entry entry;
    struct bw_results results = {.ops = ops, .kvs = kvs, .op_cap = BW_TXN_ALL_MAX, .kv_cap = KVS};
    if (bw_entry_decode(&entry, &scratch, bytes, length) != 0)
        return;
    int written = bw_entry_encode(&entry, again, sizeof again);
    BW_ASSERT(written == (int)length && memcmp(again, bytes, length) == 0);
    bw_registry_apply(registry, &entry, &results);
    BW_ASSERT(results.op_count <= BW_TXN_ALL_MAX && results.kv_count <= KVS);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct bw_registry *registry;
    size_t size = bw_registry_bytes(&config);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BW_ASSERT(memory != MAP_FAILED && bw_registry_init(&registry, memory, size, &config) == 0);
    while (length >= 2) {
        size_t piece = (size_t)bytes[0] | (size_t)bytes[1] << 8;
        piece = piece < length - 2 ? piece : length - 2;
        take(registry, bytes + 2, piece);
        bytes += 2 + piece;
        length -= 2 + piece;
    }
    munmap(memory, size);
    return 0;
}
