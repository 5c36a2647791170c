/* libFuzzer: a snapshot file with any content is loaded, or refused with a reason. A loaded
 * snapshot stays the same when it is saved and loaded again. The first byte selects: 0 the bytes
 * are the file; 1 they are the body between a valid head and a matching checksum; 2 the same, and
 * the first 64 bytes change the head. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/snapshot.h"
#include "fuzz/fuzz_dir.h"
#include "serve/replica/snapshot_file.h"

#include <sys/mman.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define CLUSTER    77u
#define INDEX      5u
#define FILE_BYTES (BW_SNAPSHOT_HEAD + 65536u)
#define CHANGED    64u

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static const struct bw_registry_config config = {
    .quota = 1 << 20, .leases_max = 64, .history = 1024};
static unsigned char file[FILE_BYTES + 8];

static struct bw_registry *registry_new(void **memory)
{
    struct bw_registry *registry;
    size_t bytes = bw_registry_bytes(&config);
    *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    BW_ASSERT(*memory != MAP_FAILED && bw_registry_init(&registry, *memory, bytes, &config) == 0);
    return registry;
}

static void head_write(void)
{
    memset(file, 0, BW_SNAPSHOT_HEAD);
    memcpy(file, "BWSNAP\0\2", 8);
    bw_put64(file + 8, CLUSTER);
    bw_put64(file + 16, INDEX);
    bw_put64(file + 24, 1);
    bw_put32(file + 32, 1);
    bw_put32(file + 36, 1);
    bw_put32(file + 40, 1);
}

static void file_write(unsigned how, const unsigned char *bytes, size_t length)
{
    if (how == 0) {
        fuzz_dir_write("snapshot-0000000000000005", bytes, length);
        return;
    }
    head_write();
    for (size_t i = 0; how == 2 && i < CHANGED && length; i++, bytes++, length--)
        file[i] ^= *bytes;
    length = length < FILE_BYTES - BW_SNAPSHOT_HEAD ? length : FILE_BYTES - BW_SNAPSHOT_HEAD;
    memcpy(file + BW_SNAPSHOT_HEAD, bytes, length);
    size_t used = BW_SNAPSHOT_HEAD + length;
    bw_put64(file + used, XXH3_64bits(file, used));
    fuzz_dir_write("snapshot-0000000000000005", file, used + 8);
}

static size_t save(struct bw_registry *registry, unsigned char **out)
{
    struct bw_saving saving;
    size_t used = 0, length, capacity = (size_t)4 * BW_SNAPSHOT_PIECE_MAX;
    *out = malloc(capacity);
    BW_ASSERT(*out);
    bw_registry_save_begin(registry, &saving);
    while ((length = bw_registry_save(registry, &saving, *out + used, capacity - used)) > 0)
        used += length;
    return used;
}

static void check_again(struct bw_registry *registry)
{
    void *memory;
    unsigned char *first, *second;
    struct bw_loading loading = {0};
    size_t length = save(registry, &first);
    struct bw_registry *other = registry_new(&memory);
    BW_ASSERT(bw_registry_load(other, &loading, first, length) == (int64_t)length && loading.ended);
    BW_ASSERT(save(other, &second) == length && memcmp(first, second, length) == 0);
    free(first);
    free(second);
    munmap(memory, bw_registry_bytes(&config));
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct bw_snapshot_head head;
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    void *memory;
    if (length == 0)
        return 0;
    fuzz_dir_make();
    file_write(bytes[0] % 3, bytes + 1, length - 1);
    struct bw_registry *registry = registry_new(&memory);
    int error = bw_snapshot_read(fuzz_dir, CLUSTER, &head, registry, why);
    BW_ASSERT(error ? why[0] != '\0' : head.index > 0);
    if (!error)
        check_again(registry);
    munmap(memory, bw_registry_bytes(&config));
    return 0;
}
