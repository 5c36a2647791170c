/* A user may put a key under a lease if it may write all keys of the lease. The registry remembers
 * the result of that check; a model says what it must be after any change. */
#include "core/base/rng.h"
#include "core/registry/registry_state.h"
#include "registry_role_world.h"

#define LETTERS 6u

/* Which keys have which lease, and who may write them: ada a to c and at times e, eve only a. */
struct lease_model {
    struct world w;
    int64_t lease[LETTERS];
    bool allowed_e;
};

static const char *const letters[LETTERS] = {"a", "b", "c", "d", "e", "f"};

static bool may_write_all(const struct lease_model *m, bool eve, int64_t lease)
{
    bool all = true;
    for (uint32_t k = 0; k < LETTERS; k++)
        all &= m->lease[k] != lease || k == 0 || (!eve && (k < 3 || (k == 4 && m->allowed_e)));
    return all;
}

static void put_as_user(struct lease_model *m, bool eve, int64_t lease)
{
    const struct bw_registry *r = m->w.registry;
    struct bw_entry put = {.kind = BW_ENTRY_PUT, .put = {.key = text("a"), .lease = lease}};
    put.by = ada(&m->w);
    put.by.name = text(eve ? "eve" : "ada");
    put.by.since = bw_registry_user(r, put.by.name)->since;
    bool allowed = may_write_all(m, eve, lease);
    assert_int_equal(bw_registry_apply(m->w.registry, &put, &m->w.results) == 0, allowed);
    if (!allowed)
        return;
    m->lease[0] = lease;
    /* the next check visits only the key that was just attached */
    const struct lease *checked = lease_at(r, lease_find(r, lease));
    bw_ref second = node_at(r, checked->first)->lease_next;
    assert_true(!second || node_at(r, second)->attached <= checked->checked_until);
}

static void check_of_a_lease_follows_its_keys_and_the_rights(void **state)
{
    struct lease_model m = {0};
    struct bw_rng rng;
    struct bw_users_change eve = {.act = BW_USERS_ADD, .user = {.name = "eve"}};
    struct bw_users_change no_e = {
        .act = BW_USERS_ROLE_DISALLOW, .perm.keys.key = text("e"), .role_name = "r"};
    (void)state;
    bw_rng_init(&rng, 5);
    world_with_users(&m.w);
    assert_int_equal(change(&m.w, &eve), 0);
    assert_int_equal(on_role(&m.w, BW_USERS_ROLE_ADD, "", "s"), 0);
    assert_int_equal(on_role(&m.w, BW_USERS_ROLE_GRANT, "eve", "s"), 0);
    assert_int_equal(allow(&m.w, "s", BW_PERM_WRITE, (struct bw_keys){.key = text("a")}), 0);
    assert_int_equal(
        allow(&m.w, "r", BW_PERM_WRITE, (struct bw_keys){.key = text("a"), .end = text("d")}), 0);
    for (int64_t lease = 1; lease <= 2; lease++)
        assert_int_equal(bw_registry_grant(m.w.registry, lease, BW_SEC, 0), 0);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t key = (uint32_t)bw_rng_below(&rng, LETTERS),
                 act = (uint32_t)bw_rng_below(&rng, 16);
        int64_t lease = 1 + (int64_t)bw_rng_below(&rng, 2);
        if (act < 10) {
            put_as_user(&m, act < 3, lease);
        } else if (act == 15) {
            assert_int_equal(m.allowed_e ? change(&m.w, &no_e)
                                         : allow(&m.w, "r", BW_PERM_WRITE, no_e.perm.keys),
                             0);
            m.allowed_e = !m.allowed_e;
        } else if (act > 11) {
            delete_keys(&m.w, (struct bw_keys){.key = text(letters[key])});
            m.lease[key] = 0;
        } else {
            assert_int_equal(put_leased(&m.w, letters[key], "", lease), 0);
            m.lease[key] = lease;
        }
    }
    world_close(&m.w);
}

static void reading_a_lease_needs_all_its_keys(void **state)
{
    struct world w;
    (void)state;
    world_with_users(&w);
    assert_int_equal(
        allow(&w, "r", BW_PERM_READ, (struct bw_keys){.key = text("a"), .end = text("d")}), 0);
    assert_int_equal(bw_registry_grant(w.registry, 1, BW_SEC, 0), 0);
    struct bw_requester by = ada(&w);
    for (int64_t id = 0; id <= 2; id++) /* none, one without keys, one that does not exist */
        assert_int_equal(bw_registry_permits_lease(w.registry, &by, BW_PERM_READ, id),
                         BW_REFUSED_NONE);
    put_leased(&w, "b", "", 1);
    put_leased(&w, "a", "", 1);
    assert_int_equal(bw_registry_permits_lease(w.registry, &by, BW_PERM_READ, 1), BW_REFUSED_NONE);
    assert_int_equal(bw_registry_permits_lease(w.registry, &by, BW_PERM_WRITE, 1),
                     BW_REFUSED_DENIED);
    put_leased(&w, "e", "", 1);
    assert_int_equal(bw_registry_permits_lease(w.registry, &by, BW_PERM_READ, 1),
                     BW_REFUSED_DENIED);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_of_a_lease_follows_its_keys_and_the_rights),
        cmocka_unit_test(reading_a_lease_needs_all_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
