/* The registry's memory under clients that fill the quota again and again with values of other
 * sizes. A model counts what is in use: every put that fits the quota succeeds, every other one is
 * refused, and memory that the registry returns to the system contains nothing in use. */
#include "core/base/rng.h"
#include "core/registry/registry_state.h"
#include "core/registry/snapshot.h"
#include "registry_world.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUOTA  ((uint64_t)2 << 20)
#define SLOTS  8192u
#define ROUNDS 2000u
#define KEY    5u
#define FIXED  sizeof(struct bw_kv)
#define MORE   64u /* a new key: its node and its event */

struct model {
    struct world w;
    struct bw_rng rng;
    uint32_t length[SLOTS]; /* of the value; 0: the key does not exist */
    uint64_t bytes, keys;   /* of the keys that exist */
    uint64_t puts, refused, returned, events;
};

static unsigned char value[1 << 20];

static void write_key(char *out, uint32_t slot)
{
    snprintf(out, KEY + 1, "k%04x", slot);
}

/* The values of a slot begin and end with bytes that depend on slot and length. */
static unsigned char mark_of(uint32_t slot, uint32_t length)
{
    return (unsigned char)(slot * 7 + length * 13 + 1);
}

static void forget(struct model *m, uint32_t slot)
{
    if (m->length[slot] == 0)
        return;
    m->bytes -= FIXED + KEY + m->length[slot] + MORE / 2;
    m->keys--;
    m->length[slot] = 0;
}

static enum bw_refusal put_value(struct model *m, uint32_t slot, uint32_t length)
{
    char key[KEY + 1];
    write_key(key, slot);
    value[0] = value[length - 1] = mark_of(slot, length);
    struct bw_put put = {.key = text(key), .value = {value, length}};
    enum bw_refusal refusal = bw_registry_put(m->w.registry, &put, &m->w.results);
    m->puts++;
    if (refusal) {
        /* what exists does not leave enough of the quota, even without history */
        assert_int_equal(refusal, BW_REFUSED_NO_SPACE);
        assert_true(m->bytes + FIXED + KEY + length + MORE > QUOTA);
        m->refused++;
        return refusal;
    }
    forget(m, slot);
    m->length[slot] = length;
    m->bytes += FIXED + KEY + length + MORE / 2;
    m->keys++;
    return refusal;
}

static void delete_value(struct model *m, uint32_t slot)
{
    char key[KEY + 1];
    write_key(key, slot);
    struct bw_delete gone = {.keys = {.key = text(key)}};
    assert_int_equal(bw_registry_delete(m->w.registry, &gone, &m->w.results), 0);
    forget(m, slot);
}

/* The system discards the pages: what they contained is lost. */
static void return_memory(struct model *m)
{
    void *at;
    size_t length;
    bw_registry_move(m->w.registry, bw_rng_below(&m->rng, 100000));
    while (bw_registry_release(m->w.registry, &at, &length)) {
        memset(at, 0xa5, length);
        m->returned += length;
    }
}

static uint32_t slot_of(struct bw_slice name)
{
    char key[KEY + 1] = "";
    assert_int_equal(name.length, KEY);
    memcpy(key, name.at, KEY);
    return (uint32_t)strtoul(key + 1, NULL, 16);
}

static void check_version(const struct bw_kv *kv)
{
    struct bw_slice have = bw_kv_value(kv);
    uint32_t slot = slot_of(bw_kv_key(kv));
    assert_true(have.at[0] == mark_of(slot, kv->value_length));
    assert_true(have.at[have.length - 1] == mark_of(slot, kv->value_length));
}

static void check_history(struct model *m)
{
    struct bw_kv_event event;
    uint64_t number = bw_registry_events_from(m->w.registry, 0);
    for (; bw_registry_event(m->w.registry, number, &event); number++) {
        check_version(event.kv);
        if (event.previous)
            check_version(event.previous);
        m->events++;
    }
}

static void check_keys(struct model *m)
{
    struct bw_registry_status status;
    bw_registry_status(m->w.registry, &status);
    assert_int_equal(status.keys, m->keys);
    assert_int_equal(status.bytes - status.history_bytes, m->bytes);
    assert_true(status.bytes <= QUOTA);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        char key[KEY + 1];
        struct bw_op_result found;
        if (m->length[slot] == 0)
            continue;
        write_key(key, slot);
        struct bw_range range = {.keys = {.key = text(key)}};
        m->w.results.kv_count = 0;
        assert_int_equal(bw_registry_range(m->w.registry, &range, &m->w.results, &found), 0);
        assert_int_equal(found.kv_count, 1);
        assert_int_equal(found.kvs[0]->value_length, m->length[slot]);
        check_version(found.kvs[0]);
    }
}

static size_t half_start(const struct bw_registry *r)
{
    return r->versions.size - r->versions_half;
}

/* The key that a move visits next; another one if it has visited all keys. */
static uint32_t next_to_move(const struct model *m)
{
    const struct bw_registry *r = m->w.registry;
    return r->move_node ? slot_of(node_key(r, r->move_node)) : 0;
}

/* Deletes the key that a move visits next, and compacts its last version away. */
static void forget_next(struct model *m)
{
    delete_value(m, next_to_move(m));
    delete_value(m, 4095);
    assert_int_equal(bw_registry_compact(m->w.registry, revision_of(&m->w)), 0);
}

/* Checks a few keys in any state of a move. */
static void check_some(struct model *m)
{
    for (uint32_t i = 0; i < 100; i++) {
        char key[KEY + 1];
        struct bw_op_result found;
        uint32_t slot = (uint32_t)bw_rng_below(&m->rng, 4096);
        write_key(key, slot);
        struct bw_range range = {.keys = {.key = text(key)}};
        m->w.results.kv_count = 0;
        assert_int_equal(bw_registry_range(m->w.registry, &range, &m->w.results, &found), 0);
        assert_int_equal(found.kv_count, m->length[slot] != 0);
        if (found.kv_count)
            check_version(found.kvs[0]);
    }
    check_history(m);
}

/* A length whose version is as large as a size class of the heap, or a byte more or less. */
static uint32_t draw_length(struct model *m)
{
    static const unsigned quarters[] = {4, 5, 6, 7};
    size_t block = (size_t)quarters[bw_rng_below(&m->rng, 4)]
                   << bw_rng_between(&m->rng, 5, 17); /* 128 bytes to 896 KiB */
    return (uint32_t)(block - FIXED - KEY + bw_rng_below(&m->rng, 3) - 1);
}

static void fill(struct model *m, uint32_t length)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (m->length[slot] == 0 && put_value(m, slot, length) != 0)
            return;
}

/* Deletes all keys, or leaves every n-th one so that no large piece of memory is free. */
static void clear(struct model *m)
{
    uint32_t every = 1u << bw_rng_below(&m->rng, 8);
    bool all = bw_rng_below(&m->rng, 4) == 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (m->length[slot] && (all || slot % every))
            delete_value(m, slot);
}

static void apply_role(struct model *m, enum bw_users_act act, const char *key, const char *end)
{
    struct bw_entry entry = {
        .kind = BW_ENTRY_USERS,
        .by.kind = BW_REQUESTER_NODE,
        .users = {.act = act, .role_name = "r", .perm = {BW_PERM_READ, {text(key), text(end)}}}};
    assert_int_equal(bw_registry_apply(m->w.registry, &entry, &m->w.results), 0);
}

static const char *const ranges[][2] = {{"a", "c"}, {"k0", "k1"}, {"z", ""}};

/* Permissions use the same memory. */
static void check_role(struct model *m)
{
    const struct bw_key_role *role = bw_registry_role(m->w.registry, "r");
    struct bw_perm perm;
    bw_ref at = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bw_registry_role_perm(m->w.registry, role, &at, &perm));
        assert_true(says(perm.keys.key, ranges[i][0]) && says(perm.keys.end, ranges[i][1]));
    }
    assert_false(bw_registry_role_perm(m->w.registry, role, &at, &perm));
}

static void begin(struct model *m)
{
    struct bw_registry_status status;
    bw_rng_init(&m->rng, 11);
    world_open_with(
        &m->w, &(struct bw_registry_config){.quota = QUOTA, .leases_max = 10, .history = 1024});
    bw_registry_raise(m->w.registry, BW_REGISTRY_LEVEL);
    apply_role(m, BW_USERS_ROLE_ADD, "", "");
    for (uint32_t i = 0; i < 3; i++)
        apply_role(m, BW_USERS_ROLE_ALLOW, ranges[i][0], ranges[i][1]);
    bw_registry_status(m->w.registry, &status);
    m->bytes = status.bytes;
}

static uint32_t hash_of(const struct bw_registry *r)
{
    struct bw_hashing hashing;
    struct bw_slice visited = {0};
    assert_int_equal(bw_registry_hash_begin(r, 0, &hashing), 0);
    while (bw_registry_hash(r, &hashing, &visited, UINT64_MAX) != BW_HASH_DONE)
        ;
    return bw_hashing_result(&hashing);
}

/* A snapshot of any state of a move has the same keys and the same history. */
static void save_and_load(struct model *m, const struct bw_registry_config *config)
{
    static unsigned char piece[2 * BW_SNAPSHOT_PIECE_MAX];
    struct world other;
    struct bw_saving saving;
    struct bw_loading loading = {0};
    struct bw_registry_status saved, loaded;
    size_t length;
    world_open_with(&other, config);
    bw_registry_save_begin(m->w.registry, &saving);
    while ((length = bw_registry_save(m->w.registry, &saving, piece, sizeof piece)) > 0)
        assert_int_equal(bw_registry_load(other.registry, &loading, piece, length), length);
    assert_true(loading.ended);
    bw_registry_status(m->w.registry, &saved);
    bw_registry_status(other.registry, &loaded);
    assert_int_equal(saved.keys, loaded.keys);
    assert_int_equal(saved.bytes, loaded.bytes);
    assert_int_equal(saved.history_bytes, loaded.history_bytes);
    assert_int_equal(hash_of(m->w.registry), hash_of(other.registry));
    world_close(&other);
}

/* Clients replace all values with values of other sizes, again and again. Each put moves a bounded
 * part of the memory, and everything can be read during a move. */
static void a_put_moves_a_bounded_part_of_the_memory(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {3000, 9000, 5000, 11000};
    static struct model m;
    uint64_t moved = 0, most = 0, steps = 0;
    bw_rng_init(&m.rng, 12);
    const struct bw_registry_config config = {
        .quota = (uint64_t)64 << 20, .leases_max = 10, .history = 4096};
    world_open_with(&m.w, &config);
    for (uint32_t slot = 0; slot < 4096; slot++)
        assert_int_equal(put_value(&m, slot, 8000), 0);
    for (uint32_t i = 0; i < 40000; i++) {
        const struct bw_registry *r = m.w.registry;
        size_t half = r->versions.size, before = r->versions.used;
        uint32_t length = lengths[i / 5000 % 4];
        assert_int_equal(put_value(&m, (uint32_t)bw_rng_below(&m.rng, 4096), length), 0);
        moved = r->versions.used - (r->versions.size == half ? before : half_start(r));
        most = moved > most ? moved : most;
        steps += r->left_units > 0;
        if (r->left_units > 0 && i % 20 == 0)
            check_some(&m);
        if (r->left_units > 0 && i % 50 == 0)
            save_and_load(&m, &config);
        if (r->left_units > 0 && i % 100 == 0)
            forget_next(&m);
        if (i % 1000 == 0)
            return_memory(&m);
    }
    print_message("%llu puts during moves, at most %llu KiB each\n", (unsigned long long)steps,
                  (unsigned long long)most >> 10);
    assert_true(steps > 100);
    assert_in_range(most, 0, 512 << 10);
    world_close(&m.w);
}

static void no_sequence_of_sizes_exhausts_the_memory(void **state)
{
    (void)state;
    static struct model m;
    begin(&m);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(&m, draw_length(&m));
        if (bw_rng_below(&m.rng, 2) == 0)
            for (uint32_t i = 0; i < 64; i++) /* other sizes for keys that exist */
                put_value(&m, (uint32_t)bw_rng_below(&m.rng, SLOTS), draw_length(&m));
        return_memory(&m);
        if (round % 20 == 0) {
            check_keys(&m);
            check_history(&m);
            check_role(&m);
        }
        clear(&m);
    }
    check_keys(&m);
    print_message("%llu puts, %llu refused, %llu MiB returned, %llu events checked\n",
                  (unsigned long long)m.puts, (unsigned long long)m.refused,
                  (unsigned long long)(m.returned >> 20), (unsigned long long)m.events);
    assert_true(m.refused >= ROUNDS / 2 && m.returned > 0 && m.events > 0);
    world_close(&m.w);
}

/* Bytes of the mapping that are resident. */
static size_t resident(void *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page, count = 0;
    unsigned char *map = malloc(pages);
    assert_non_null(map);
    assert_int_equal(mincore(memory, bytes, map), 0);
    for (size_t i = 0; i < pages; i++)
        count += map[i] & 1;
    free(map);
    return count * page;
}

/* Clients draw the ids of leases, so they are spread over all numbers. */
static int64_t lease_id(uint64_t number)
{
    return (int64_t)(number * 0x2545f4914f6cdd1du >> 1);
}

static void memory_follows_the_number_of_live_leases_when_many_are_granted_in_turn(void **state)
{
    (void)state;
    const struct bw_registry_config config = {
        .quota = (uint64_t)1 << 30, .leases_max = 4000000, .history = 1024};
    size_t bytes = bw_registry_bytes(&config);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    struct bw_registry *registry;
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), 0);
    bw_registry_lead(registry, 0);
    size_t before = resident(memory, bytes);
    for (uint64_t i = 1; i <= 3000; i++) {
        assert_int_equal(bw_registry_grant(registry, lease_id(i), BW_SEC, 0), 0);
        bw_registry_begin(registry, lease_id(i), 0);
        assert_int_equal(bw_registry_revoke(registry, lease_id(i), 0), 0);
    }
    size_t after = resident(memory, bytes);
    print_message("%zu KiB resident, %zu KiB after 3,000 leases\n", before >> 10, after >> 10);
    assert_true(after - before <= 128 << 10);
    munmap(memory, bytes);
}

/* The table of leases grows and shrinks; every lease is found under its id at every size. */
static void each_lease_is_found_while_their_number_grows_and_shrinks(void **state)
{
    (void)state;
    enum { LEASES = 20000 };
    static bool live[LEASES];
    struct world w;
    struct bw_lease_view found;
    world_open_with(
        &w, &(struct bw_registry_config){.quota = 8 << 20, .leases_max = LEASES, .history = 1024});
    for (uint32_t turn = 0; turn < 8; turn++) {
        uint32_t stride = turn % 2 ? 7919 : 104729, target = turn % 4 < 2 ? LEASES : LEASES / 9;
        for (uint32_t i = 0; i < target; i++) {
            uint32_t n = (uint32_t)((uint64_t)i * stride % LEASES);
            assert_int_equal(live[n] ? bw_registry_revoke(w.registry, lease_id(n + 1), 0)
                                     : bw_registry_grant(w.registry, lease_id(n + 1), BW_SEC, 0),
                             0);
            live[n] = !live[n];
        }
        for (uint32_t n = 0; n < LEASES; n++)
            assert_int_equal(bw_registry_lease(w.registry, lease_id(n + 1), &found), live[n]);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_follows_the_number_of_live_leases_when_many_are_granted_in_turn),
        cmocka_unit_test(each_lease_is_found_while_their_number_grows_and_shrinks),
        cmocka_unit_test(a_put_moves_a_bounded_part_of_the_memory),
        cmocka_unit_test(no_sequence_of_sizes_exhausts_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
