/* Snapshots made by hand: every piece that contradicts the others is refused. */
#include "core/base/error.h"
#include "core/registry/alarm.h"
#include "core/registry/bytes.h"
#include "core/registry/snapshot.h"
#include "registry_world.h"

#include <stdio.h>

enum piece { /* as in snapshot.c */
             HEADER = 1,
             LEASE,
             VERSION,
             PUT,
             DELETE,
             END,
             USERS,
             USER,
             ALARM,
             ROLE,
             PERM,
             GRANTED
};

struct pieces {
    unsigned char bytes[16384];
    struct bw_writer w;
};

static void numbers(struct pieces *p, const uint64_t *at, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bw_write_number(&p->w, at[i]);
}

#define WRITE(p, ...)                                                                              \
    numbers(p, (const uint64_t[]){__VA_ARGS__},                                                    \
            sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* Begins with the header of this format, revision and floor. */
static void header(struct pieces *p, uint64_t format, uint64_t revision, uint64_t floor)
{
    p->w = (struct bw_writer){.at = p->bytes, .size = sizeof p->bytes};
    WRITE(p, HEADER, format, revision, floor);
}

static void version(struct pieces *p, enum piece piece, uint64_t create, uint64_t mod,
                    uint64_t number, const char *key)
{
    WRITE(p, piece, create, mod, number, 0);
    bw_write_slice(&p->w, text(key));
    bw_write_slice(&p->w, text("v"));
}

static void user(struct pieces *p, uint64_t since, const char *name, uint64_t roles)
{
    WRITE(p, USER, since);
    bw_write_slice(&p->w, text(name));
    WRITE(p, roles, 0);
}

static void role(struct pieces *p, const char *name)
{
    WRITE(p, ROLE);
    bw_write_slice(&p->w, text(name));
}

static void perm(struct pieces *p, const char *name, const char *key, const char *end)
{
    WRITE(p, PERM);
    bw_write_slice(&p->w, text(name));
    WRITE(p, BW_PERM_READ);
    bw_write_slice(&p->w, text(key));
    bw_write_slice(&p->w, text(end));
}

static void granted(struct pieces *p, const char *name, const char *to)
{
    WRITE(p, GRANTED);
    bw_write_slice(&p->w, text(to));
    bw_write_slice(&p->w, text(name));
}

static const struct bw_registry_config small = {
    .quota = 65536, .leases_max = 1000, .history = 1024};

static int64_t load(const struct pieces *p)
{
    struct world w;
    struct bw_loading loading = {0};
    world_open_with(&w, &small);
    int64_t took = bw_registry_load(w.registry, &loading, p->bytes, p->w.used);
    world_close(&w);
    return took;
}

static bool loads(const struct pieces *p)
{
    int64_t took = load(p);
    assert_true(took == (int64_t)p->w.used || took == BW_EMALFORMED);
    return took > 0;
}

static void a_snapshot_has_one_plausible_header(void **state)
{
    (void)state;
    struct pieces p;
    header(&p, 1, 5, 3);
    assert_true(loads(&p));
    WRITE(&p, HEADER, 1, 5, 3);
    assert_false(loads(&p));
    header(&p, 1, 0, 0);
    assert_false(loads(&p));
    header(&p, 1, 5, 7);
    assert_false(loads(&p));
    header(&p, 1, 5, 6);
    assert_true(loads(&p));
    struct world w;
    struct bw_loading loading = {0};
    world_open_with(&w, &small);
    put(&w, "a", "1"); /* it is not fresh */
    assert_int_equal(bw_registry_load(w.registry, &loading, p.bytes, p.w.used), BW_EMALFORMED);
    world_close(&w);
}

static void leases_of_a_snapshot_are_distinct_and_fit(void **state)
{
    (void)state;
    struct pieces p;
    header(&p, 1, 5, 3);
    WRITE(&p, LEASE, 7, (uint64_t)BW_SEC, 0);
    assert_true(loads(&p));
    WRITE(&p, LEASE, 7, (uint64_t)BW_SEC, 0);
    assert_false(loads(&p));
    struct bw_loading loading = {0};
    struct world w;
    world_open_with(&w,
                    &(struct bw_registry_config){.quota = 65536, .leases_max = 1, .history = 1024});
    header(&p, 1, 5, 3);
    WRITE(&p, LEASE, 7, (uint64_t)BW_SEC, 0, LEASE, 8, (uint64_t)BW_SEC, 0);
    assert_int_equal(bw_registry_load(w.registry, &loading, p.bytes, p.w.used), BW_ELIMIT);
    world_close(&w);
}

static void users_of_a_snapshot_are_announced_once_and_distinct(void **state)
{
    (void)state;
    struct pieces p;
    header(&p, 1, 5, 3);
    WRITE(&p, USERS, 0, 3, 0); /* level 1 knows no users */
    assert_false(loads(&p));
    header(&p, 2, 5, 3);
    user(&p, 1, "bob", 8); /* not announced */
    assert_false(loads(&p));
    header(&p, 2, 5, 3);
    WRITE(&p, USERS, 1, 3, 2);
    user(&p, 1, "bob", 8);
    assert_true(loads(&p));
    struct pieces more = p;
    more.w.at = more.bytes;
    user(&more, 1, "bob", 8);
    assert_false(loads(&more));
    more = p;
    more.w.at = more.bytes;
    user(&more, 4, "eve", 8); /* newer than the newest change */
    assert_false(loads(&more));
    more = p;
    more.w.at = more.bytes;
    WRITE(&more, USERS, 1, 3, 2);
    assert_false(loads(&more));
    header(&more, 2, 5, 3);
    WRITE(&more, USERS, 0, 0, 2, USERS, 0, 0, 2); /* at revision 0 */
    assert_false(loads(&more));
    WRITE(&p, END, 0, 0, 0); /* one user is missing */
    assert_false(loads(&p));
}

static void truncated_users_wait_for_more_bytes(void **state)
{
    (void)state;
    struct pieces p;
    header(&p, 2, 5, 3);
    size_t before = p.w.used;
    WRITE(&p, USERS, 1, 3, 2);
    size_t announced = p.w.used;
    user(&p, 1, "bob", 8);
    for (size_t cut = before + 1; cut < p.w.used; cut++) {
        struct pieces part = p;
        part.w.used = cut;
        assert_int_equal(load(&part), cut < announced ? before : announced);
    }
}

/* Users are enabled, and `bob` is the only one. */
static void header_with_bob(struct pieces *p)
{
    header(p, 4, 5, 3);
    WRITE(p, USERS, 1, 3, 1);
    user(p, 1, "bob", 8);
}

static void roles_of_a_snapshot_are_distinct_and_known(void **state)
{
    (void)state;
    struct pieces p;
    header_with_bob(&p);
    role(&p, "ops");
    perm(&p, "ops", "a", "b");
    granted(&p, "ops", "bob");
    assert_true(loads(&p));
    role(&p, "ops"); /* twice */
    assert_false(loads(&p));
    header_with_bob(&p);
    perm(&p, "ops", "a", "b"); /* before its role */
    assert_false(loads(&p));
    header_with_bob(&p);
    granted(&p, "ops", "bob"); /* before its role */
    assert_false(loads(&p));
    header_with_bob(&p);
    role(&p, "ops");
    granted(&p, "ops", "eve"); /* to an unknown user */
    assert_false(loads(&p));
    header(&p, 3, 5, 3); /* a format without roles */
    role(&p, "ops");
    assert_false(loads(&p));
}

static void snapshot_with_more_roles_than_fit_is_refused(void **state)
{
    (void)state;
    struct pieces p;
    char name[16];
    for (unsigned count = BW_KEY_ROLES_MAX; count <= BW_KEY_ROLES_MAX + 1; count++) {
        header_with_bob(&p);
        for (unsigned i = 0; i < count; i++) {
            snprintf(name, sizeof name, "r%u", i);
            role(&p, name);
        }
        assert_false(p.w.failed);
        assert_int_equal(load(&p), count > BW_KEY_ROLES_MAX ? BW_ELIMIT : (int64_t)p.w.used);
    }
    for (unsigned count = BW_USER_ROLES_MAX; count <= BW_USER_ROLES_MAX + 1; count++) {
        header_with_bob(&p);
        for (unsigned i = 0; i < count; i++) {
            snprintf(name, sizeof name, "r%u", i);
            role(&p, name);
            granted(&p, name, "bob");
        }
        assert_int_equal(load(&p), count > BW_USER_ROLES_MAX ? BW_ELIMIT : (int64_t)p.w.used);
    }
}

/* The piece from `before` on is loaded only when it is complete. */
static void check_truncated(const struct pieces *p, size_t before)
{
    assert_int_equal(load(p), p->w.used);
    for (size_t cut = before; cut < p->w.used; cut++) {
        struct pieces part = *p;
        part.w.used = cut;
        assert_int_equal(load(&part), before);
    }
}

static void truncated_roles_and_alarms_wait_for_more_bytes(void **state)
{
    (void)state;
    struct pieces p;
    header_with_bob(&p);
    size_t before = p.w.used;
    role(&p, "ops");
    check_truncated(&p, before);
    before = p.w.used;
    perm(&p, "ops", "a", "b");
    check_truncated(&p, before);
    before = p.w.used;
    granted(&p, "ops", "bob");
    check_truncated(&p, before);
    before = p.w.used;
    WRITE(&p, ALARM, 1000);
    check_truncated(&p, before);
}

static void alarms_of_a_snapshot_are_distinct_and_bounded(void **state)
{
    (void)state;
    struct pieces p;
    header(&p, 3, 5, 3);
    WRITE(&p, ALARM, 7);
    assert_true(loads(&p));
    WRITE(&p, ALARM, 7);
    assert_false(loads(&p));
    header(&p, 2, 5, 3); /* a format without alarms */
    WRITE(&p, ALARM, 7);
    assert_false(loads(&p));
    header(&p, 3, 5, 3);
    for (uint64_t node = 1; node <= BW_ALARMS_MAX; node++)
        WRITE(&p, ALARM, node);
    assert_true(loads(&p));
    WRITE(&p, ALARM, BW_ALARMS_MAX + 1);
    assert_false(loads(&p));
}

static void versions_of_a_snapshot_are_plausible(void **state)
{
    (void)state;
    static const struct {
        uint64_t create, mod, number;
        const char *key;
        bool good;
    } cases[] = {{2, 3, 1, "a", true},  {0, 3, 1, "a", false}, {4, 3, 1, "a", false},
                 {2, 6, 1, "a", false}, {2, 3, 0, "a", false}, {2, 3, 1, "", false}};
    struct pieces p;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        header(&p, 1, 5, 3);
        version(&p, VERSION, cases[i].create, cases[i].mod, cases[i].number, cases[i].key);
        assert_int_equal(loads(&p), cases[i].good);
    }
    header(&p, 1, 5, 3);
    version(&p, VERSION, 2, 3, 1, "a");
    version(&p, VERSION, 2, 3, 1, "a");
    assert_false(loads(&p));
    header(&p, 1, 5, 3);
    version(&p, PUT, 2, 3, 1, "a");
    version(&p, VERSION, 2, 3, 1, "b"); /* after an event */
    assert_false(loads(&p));
    header(&p, 1, 5, 3);
    version(&p, VERSION, 2, 3, 1, "a");
    WRITE(&p, DELETE, 6); /* in the future */
    bw_write_slice(&p.w, text("a"));
    assert_false(loads(&p));
    header(&p, 1, 5, 3);
    WRITE(&p, DELETE, 4); /* of no key */
    bw_write_slice(&p.w, text("a"));
    assert_false(loads(&p));
}

static void nothing_follows_the_end(void **state)
{
    (void)state;
    struct pieces p;
    header(&p, 1, 5, 3);
    WRITE(&p, END, 0, 0, 0);
    assert_true(loads(&p));
    WRITE(&p, END, 0, 0, 0);
    assert_false(loads(&p));
}

/* A version that no registry could hold. */
static void a_version_larger_than_any_request_is_refused(void **state)
{
    (void)state;
    static unsigned char bytes[BW_REQUEST_MAX + 4096], value[BW_REQUEST_MAX];
    static const struct {
        size_t length;
        uint64_t quota;
        int64_t error;
    } cases[] = {{BW_REQUEST_MAX, 8 << 20, BW_EMALFORMED},
                 {BW_REQUEST_MAX - 1, 8 << 20, 0},
                 {BW_REQUEST_MAX - 1, 65536, BW_ELIMIT}};
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        struct bw_loading loading = {0};
        struct bw_writer out = {.at = bytes, .size = sizeof bytes};
        const uint64_t head[] = {HEADER, 1, 5, 3, VERSION, 2, 3, 1, 0};
        for (unsigned k = 0; k < 9; k++)
            bw_write_number(&out, head[k]);
        bw_write_slice(&out, text("a"));
        bw_write_slice(&out, (struct bw_slice){value, cases[i].length});
        world_open_with(&w, &(struct bw_registry_config){
                                .quota = cases[i].quota, .leases_max = 10, .history = 1024});
        int64_t took = bw_registry_load(w.registry, &loading, bytes, out.used);
        assert_int_equal(took, cases[i].error ? cases[i].error : (int64_t)out.used);
        world_close(&w);
    }
}

static void a_piece_that_never_ends_is_refused(void **state)
{
    (void)state;
    static unsigned char bytes[BW_SNAPSHOT_PIECE_MAX + 16];
    struct bw_writer out = {.at = bytes, .size = sizeof bytes};
    const uint64_t head[] = {HEADER, 1, 5, 3, VERSION, 2, 3, 1, 0, 2u << 20};
    for (unsigned k = 0; k < 10; k++)
        bw_write_number(&out, head[k]);
    struct world w;
    struct bw_loading loading = {0};
    world_open(&w);
    size_t before = 4; /* the header */
    assert_int_equal(bw_registry_load(w.registry, &loading, bytes, before + 64), before);
    assert_int_equal(
        bw_registry_load(w.registry, &loading, bytes + before, BW_SNAPSHOT_PIECE_MAX - 1), 0);
    assert_int_equal(bw_registry_load(w.registry, &loading, bytes + before, BW_SNAPSHOT_PIECE_MAX),
                     BW_EMALFORMED);
    world_close(&w);
}

/* More content than one buffer holds; some of it older than the oldest event that is kept. */
static void a_compacted_registry_is_saved_in_several_buffers(void **state)
{
    (void)state;
    static unsigned char buffer[BW_SNAPSHOT_PIECE_MAX], value[100000];
    const struct bw_registry_config config = {.quota = 8 << 20, .leases_max = 10, .history = 1024};
    struct world w, copy;
    struct bw_saving saving;
    struct bw_loading loading = {0};
    char key[8];
    world_open_with(&w, &config);
    world_open_with(&copy, &config);
    for (int i = 0; i < 30; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        struct bw_put put = {.key = text(key), .value = {value, sizeof value}};
        assert_int_equal(bw_registry_put(w.registry, &put, &w.results), 0);
    }
    assert_int_equal(bw_registry_compact(w.registry, revision_of(&w)), 0);
    put(&w, "k00", "new");                                 /* replaces a version without event */
    delete_keys(&w, (struct bw_keys){.key = text("k01")}); /* deletes one */
    bw_registry_save_begin(w.registry, &saving);
    unsigned buffers = 0;
    for (size_t used; (used = bw_registry_save(w.registry, &saving, buffer, sizeof buffer)) > 0;
         buffers++)
        assert_int_equal(bw_registry_load(copy.registry, &loading, buffer, used), used);
    assert_true(loading.ended && buffers >= 2);
    assert_int_equal(revision_of(&copy), revision_of(&w));
    assert_true(says(bw_kv_value(get(&copy, "k00")), "new"));
    assert_int_equal(get(&copy, "k00")->version, 2);
    assert_null(get(&copy, "k01"));
    struct bw_range past = {.keys = {.key = text("k01")}, .revision = 31};
    assert_int_equal(range(&copy, &past)->kv_count, 1);
    world_close(&w);
    world_close(&copy);
}

/* The put fills the quota to the last byte. */
static void a_delete_that_does_not_fit_into_the_quota_is_refused(void **state)
{
    (void)state;
    static unsigned char bytes[70000], value[65536];
    for (size_t less = 0; less <= 32; less += 32) {
        struct world w;
        struct bw_loading loading = {0};
        struct bw_writer out = {.at = bytes, .size = sizeof bytes};
        const uint64_t head[] = {HEADER, 1, 5, 3, PUT, 2, 3, 1, 0};
        for (unsigned k = 0; k < 9; k++)
            bw_write_number(&out, head[k]);
        bw_write_slice(&out, text("a"));
        size_t all = sizeof(struct bw_kv) + 1 + 32 + 32; /* key, node and event */
        bw_write_slice(&out, (struct bw_slice){value, 65536 - all - less});
        bw_write_number(&out, DELETE);
        bw_write_number(&out, 4);
        bw_write_slice(&out, text("a"));
        world_open_with(&w, &small);
        int64_t took = bw_registry_load(w.registry, &loading, bytes, out.used);
        assert_int_equal(took, less ? (int64_t)out.used : BW_EMALFORMED);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_has_one_plausible_header),
        cmocka_unit_test(leases_of_a_snapshot_are_distinct_and_fit),
        cmocka_unit_test(users_of_a_snapshot_are_announced_once_and_distinct),
        cmocka_unit_test(truncated_users_wait_for_more_bytes),
        cmocka_unit_test(roles_of_a_snapshot_are_distinct_and_known),
        cmocka_unit_test(snapshot_with_more_roles_than_fit_is_refused),
        cmocka_unit_test(truncated_roles_and_alarms_wait_for_more_bytes),
        cmocka_unit_test(alarms_of_a_snapshot_are_distinct_and_bounded),
        cmocka_unit_test(versions_of_a_snapshot_are_plausible),
        cmocka_unit_test(nothing_follows_the_end),
        cmocka_unit_test(a_version_larger_than_any_request_is_refused),
        cmocka_unit_test(a_piece_that_never_ends_is_refused),
        cmocka_unit_test(a_compacted_registry_is_saved_in_several_buffers),
        cmocka_unit_test(a_delete_that_does_not_fit_into_the_quota_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
