/* The registry's memory under clients that fill the quota again and again with values of other
 * sizes. A model counts what is in use: every put that fits the quota succeeds, every other one is
 * refused, and memory that the registry returns to the system contains nothing in use. */
#include "core/base/rng.h"
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
    while (bw_registry_release(m->w.registry, &at, &length)) {
        memset(at, 0xa5, length);
        m->returned += length;
    }
}

static void check_version(const struct bw_kv *kv)
{
    char key[KEY + 1] = "";
    struct bw_slice have = bw_kv_value(kv);
    assert_int_equal(kv->key_length, KEY);
    memcpy(key, bw_kv_key(kv).at, KEY);
    uint32_t slot = (uint32_t)strtoul(key + 1, NULL, 16);
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
        cmocka_unit_test(no_sequence_of_sizes_exhausts_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
