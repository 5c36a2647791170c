/* The leader's log and registry in memory; see reference.h. */
#include "system/disk/reference.h"

#include "core/base/little.h"
#include "core/registry/entry.h"
#include "system/disk/plan.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define VARIANTS_MAX 12u
#define KEYS         12u
#define RESULTS      64u

const struct bw_registry_config reference_config = {
    .quota = 6u << 20, .leases_max = 16, .history = 1024};

struct variant { /* an entry that a leader had at this index */
    bw_term term;
    uint64_t sum;
};

static struct {
    bw_term term;
    bw_index last, commit;
    bw_term term_at[REFERENCE_INDEX_MAX];
    uint64_t draw[REFERENCE_INDEX_MAX];
    struct variant variant[REFERENCE_INDEX_MAX][VARIANTS_MAX];
    uint64_t hash[REFERENCE_INDEX_MAX]; /* of the registry after this entry, if it is committed */
    struct bw_registry_memory memory;
    struct bw_entry_scratch scratch;
    struct bw_op_result ops[BW_TXN_ALL_MAX];
    const struct bw_kv *kvs[RESULTS];
    unsigned char value[BW_REQUEST_MAX], bytes[BW_ROUTER_HEAD + BW_REQUEST_MAX + 1024];
} ref;

/* A length near a limit: of a sector, a batch, a segment, the log at which a snapshot is due, a
 * request. */
static size_t some_length(uint64_t draw)
{
    static const size_t limits[] = {512,
                                    512,
                                    1024,
                                    4096,
                                    4096,
                                    (size_t)64 << 10,
                                    (size_t)64 << 10,
                                    (size_t)256 << 10,
                                    (size_t)1 << 20,
                                    BW_REQUEST_MAX};
    if (draw % 8 != 0)
        return draw / 8 % 300;
    size_t near = 2048 - draw / 8 % 1024 * 2, count = sizeof limits / sizeof limits[0];
    size_t limit = limits[draw / 8192 % count];
    if (limit >= (size_t)256 << 10 && draw / 131072 % 4 != 0)
        limit = 8192;
    return limit > near ? limit - near : limit;
}

static void put_some(struct bw_entry *entry, unsigned char *key, uint64_t draw)
{
    size_t length = some_length(draw >> 8);
    for (size_t i = 0; i < length; i++) /* half of the bytes are zeros */
        ref.value[i] = i % 4096 < 2048 ? 0 : (unsigned char)(draw + i * 7);
    key[0] = (unsigned char)('a' + draw / 16 % KEYS);
    entry->kind = BW_ENTRY_PUT;
    entry->put = (struct bw_put){.key = {key, 1}, .value = {ref.value, length}};
}

/* Returns the length. */
static size_t encode(bw_index index, uint64_t draw)
{
    unsigned char key[1] = {(unsigned char)('a' + draw / 16 % KEYS)};
    struct bw_entry entry = {.kind = BW_ENTRY_NOTHING};
    if (draw % 16 == 0)
        return 0; /* Raft's own entry */
    if (draw % 16 == 1) {
        entry.kind = BW_ENTRY_COMPACT;
        entry.revision = (int64_t)(index / 2 + draw / 256 % (index / 2 + 1));
    } else if (draw % 16 < 4) {
        entry.kind = BW_ENTRY_DELETE;
        entry.delete.keys.key = (struct bw_slice){key, 1};
    } else {
        put_some(&entry, key, draw);
    }
    bw_put64(ref.bytes, draw | (uint64_t)1 << 63); /* the id of a request of another node */
    int length =
        bw_entry_encode(&entry, ref.bytes + BW_ROUTER_HEAD, sizeof ref.bytes - BW_ROUTER_HEAD);
    if (length < 0)
        plan_violation("the test cannot encode an entry");
    return BW_ROUTER_HEAD + (size_t)length;
}

const unsigned char *reference_bytes(bw_index index, size_t *length)
{
    *length = encode(index, ref.draw[index]);
    return ref.bytes;
}

void reference_init(void)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    if (bw_registry_memory_make(&ref.memory, &reference_config, why) != 0)
        plan_violation("no memory for the reference: %s", why);
    ref.term = 1;
    ref.hash[0] = reference_hash_of(ref.memory.registry);
}

bw_term reference_term(void)
{
    return ref.term;
}

bw_index reference_last(void)
{
    return ref.last;
}

bw_index reference_commit(void)
{
    return ref.commit;
}

bw_term reference_term_at(bw_index index)
{
    return index <= ref.last ? ref.term_at[index] : 0;
}

static void remember(bw_index index, bw_term term, uint64_t sum)
{
    for (unsigned i = 0; i < VARIANTS_MAX; i++)
        if (ref.variant[index][i].term == 0) {
            ref.variant[index][i] = (struct variant){term, sum};
            return;
        }
    plan_violation("too many terms at entry %llu", (unsigned long long)index);
}

bool reference_append(uint64_t draw)
{
    bw_index index = ref.last + 1;
    if (index >= REFERENCE_INDEX_MAX || ref.variant[index][VARIANTS_MAX - 1].term)
        return false;
    ref.last = index;
    ref.term_at[index] = ref.term;
    ref.draw[index] = draw;
    size_t length = encode(index, draw);
    remember(index, ref.term, XXH3_64bits(ref.bytes, length));
    return true;
}

bool reference_wrote(bw_index index, bw_term term, const void *bytes, size_t length)
{
    if (index >= REFERENCE_INDEX_MAX)
        return false;
    for (unsigned i = 0; i < VARIANTS_MAX; i++)
        if (ref.variant[index][i].term == term && term)
            return ref.variant[index][i].sum == XXH3_64bits(bytes, length);
    return false;
}

uint64_t reference_hash_of(struct bw_registry *registry)
{
    struct bw_hashing hashing;
    struct bw_slice visited = {0};
    struct bw_registry_status status;
    enum bw_hash_result result = BW_HASH_MORE;
    bw_registry_status(registry, &status);
    if (bw_registry_hash_begin(registry, 0, &hashing) != BW_REFUSED_NONE)
        return 0;
    while (result == BW_HASH_MORE)
        result = bw_registry_hash(registry, &hashing, &visited, UINT64_MAX);
    uint64_t parts[] = {bw_hashing_result(&hashing), (uint64_t)status.revision,
                        (uint64_t)status.floor, status.keys, status.bytes};
    return XXH3_64bits(parts, sizeof parts);
}

uint64_t reference_hash_at(bw_index index)
{
    return ref.hash[index];
}

struct bw_registry *reference_registry(void)
{
    return ref.memory.registry;
}

void reference_commit_to(bw_index until)
{
    struct bw_results results = {
        .ops = ref.ops, .kvs = ref.kvs, .op_cap = BW_TXN_ALL_MAX, .kv_cap = RESULTS};
    while (ref.commit < until) {
        struct bw_entry entry;
        bw_index index = ++ref.commit;
        size_t length = encode(index, ref.draw[index]);
        if (length >= BW_ROUTER_HEAD &&
            bw_entry_decode(&entry, &ref.scratch, ref.bytes + BW_ROUTER_HEAD,
                            length - BW_ROUTER_HEAD) == 0)
            bw_registry_apply(ref.memory.registry, &entry, &results);
        ref.hash[index] = reference_hash_of(ref.memory.registry);
    }
}

void reference_lead(bw_term above, bw_index last)
{
    ref.term = (above > ref.term ? above : ref.term) + 1;
    ref.last = last;
}
