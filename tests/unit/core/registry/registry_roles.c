/* Roles with permissions on ranges of keys: what they cover together, what they do not cover, and
 * that a snapshot keeps them. */
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/registry/registry_state.h"
#include "core/registry/snapshot.h"
#include "registry_role_world.h"

#include <stdio.h>

#define LETTERS 6u /* keys of the model: "a" to "f", and each with a zero byte behind it */

static bool may(const struct world *w, enum bw_perm_type needs, struct bw_keys keys)
{
    struct bw_requester by = ada(w);
    return bw_registry_permits(w->registry, &by, needs, &keys) == BW_REFUSED_NONE;
}

/* A range between two of the model's points; point 2n is a letter, 2n+1 the key right behind it.
 * The model's last point is no upper end. */
static struct bw_keys between(unsigned from, unsigned to)
{
    static const unsigned char keys[] = "a\0b\0c\0d\0e\0f\0";
    struct bw_keys out = {.key = {keys + (from / 2) * 2, 1 + from % 2},
                          .end = {keys + (to / 2) * 2, 1 + to % 2}};
    if (to >= 2 * LETTERS)
        out.end = (struct bw_slice){keys + 1, 1};
    else if (from % 2 == 0 && to == from + 1)
        out.end.length = 0; /* one key */
    return out;
}

static void permissions_cover_a_range_together(void **state)
{
    struct bw_rng rng;
    unsigned allowed = 0, denied = 0;
    (void)state;
    bw_rng_init(&rng, 1);
    for (unsigned run = 0; run < 300; run++) {
        struct world w;
        bool have[2 * LETTERS + 1] = {0};
        world_with_users(&w);
        assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "s"), 0);
        assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "s"), 0);
        for (uint64_t n = bw_rng_below(&rng, 7); n > 0; n--) {
            unsigned from = (unsigned)bw_rng_below(&rng, 2 * LETTERS);
            unsigned to = from + 1 + (unsigned)bw_rng_below(&rng, 2 * LETTERS - from);
            const char *role = bw_rng_below(&rng, 2) ? "r" : "s";
            assert_int_equal(allow(&w, role, BW_PERM_READ, between(from, to)), 0);
            for (unsigned i = from; i < to; i++)
                have[i] = true;
            have[2 * LETTERS] |= to == 2 * LETTERS;
        }
        for (unsigned from = 0; from < 2 * LETTERS; from++)
            for (unsigned to = from + 1; to <= 2 * LETTERS; to++) {
                bool all = to < 2 * LETTERS || have[2 * LETTERS];
                for (unsigned i = from; i < to; i++)
                    all &= have[i];
                assert_int_equal(may(&w, BW_PERM_READ, between(from, to)), all);
                assert_false(may(&w, BW_PERM_WRITE, between(from, to)));
                allowed += all;
                denied += !all;
            }
        world_close(&w);
    }
    assert_true(allowed > 1000 && denied > 1000);
}

/* A slice of a literal that may contain zero bytes. */
#define BYTES(literal)                                                                             \
    {                                                                                              \
        (const unsigned char *)(literal), sizeof(literal) - 1                                      \
    }
#define RANGE(from, to)                                                                            \
    {                                                                                              \
        .key = BYTES(from), .end = BYTES(to)                                                       \
    }

/* An empty key ends the list of permissions; an empty end means one key. */
static const struct cover {
    struct bw_keys have[3], wanted;
    bool covered;
} covers[] = {
    /* ends */
    {{RANGE("a", "c")}, RANGE("a", "c"), true},
    {{RANGE("a", "c")}, RANGE("a", "c\0"), false},
    {{RANGE("a", "c")}, RANGE("c", ""), false},
    {{RANGE("a", "c\0")}, RANGE("c", ""), true},
    {{RANGE("a", "c\1")}, RANGE("c", ""), true},
    {{RANGE("a", "c\1")}, RANGE("c\1", ""), false},
    {{RANGE("b", "d")}, RANGE("a", "d"), false},
    /* one key ends before the key with a zero byte behind it */
    {{RANGE("c", "")}, RANGE("c", ""), true},
    {{RANGE("c", "")}, RANGE("c\0", ""), false},
    {{RANGE("c", "")}, RANGE("c", "c\0"), true},
    {{RANGE("c", "")}, RANGE("c", "c\1"), false},
    {{RANGE("c", "")}, RANGE("c", "d\0"), false},
    {{RANGE("c", "c\0")}, RANGE("c", ""), true},
    {{RANGE("c", "c")}, RANGE("c", ""), false},
    {{RANGE("c", ""), RANGE("c", "c\0\0")}, RANGE("c", "c\0\0"), true},
    {{RANGE("c", ""), RANGE("c", "c\1")}, RANGE("c", "c\1"), true},
    /* neighbours and gaps */
    {{RANGE("a", "c"), RANGE("c", "")}, RANGE("a", "c\0"), true},
    {{RANGE("a", "c"), RANGE("c", "")}, RANGE("a", "c\1"), false},
    {{RANGE("a", "c"), RANGE("c\0", "e")}, RANGE("a", "e"), false},
    {{RANGE("c", ""), RANGE("c\0", "")}, RANGE("c", "c\0\0"), true},
    {{RANGE("c", ""), RANGE("c\0", "")}, RANGE("c", "c\0\1"), false},
    {{RANGE("c", ""), RANGE("c\0", "e")}, RANGE("c", "e"), true},
    {{RANGE("c", ""), RANGE("c\1", "e")}, RANGE("c", "e"), false},
    {{RANGE("c", ""), RANGE("d\0", "e")}, RANGE("c", "e"), false},
    {{RANGE("a", "b"), RANGE("b", "c"), RANGE("c", "d")}, RANGE("a", "d"), true},
    {{RANGE("a", "b"), RANGE("b\0", "c"), RANGE("c", "d")}, RANGE("a", "d"), false},
    /* prefixes */
    {{RANGE("app/", "app0")}, RANGE("app/x", "app/y"), true},
    {{RANGE("app/", "app0")}, RANGE("app/", ""), true},
    {{RANGE("app/", "app0")}, RANGE("app", ""), false},
    {{RANGE("app/", "app0")}, RANGE("app0", ""), false},
    {{RANGE("app/", "app0")}, RANGE("app/", "app0\0"), false},
    {{RANGE("app/", "app0")}, RANGE("app", "app0"), false},
    /* open ends: only the end of exactly one zero byte is open */
    {{RANGE("a", "\0")}, RANGE("b", "\0"), true},
    {{RANGE("a", "\0")}, RANGE("b", "\xff\xff"), true},
    {{RANGE("b", "\0")}, RANGE("a", "\0"), false},
    {{RANGE("a", "\xff\xff\xff")}, RANGE("a", "\0"), false},
    {{RANGE("a", "\0\0")}, RANGE("a", ""), false},
    {{RANGE("a", "c"), RANGE("c", "\0")}, RANGE("b", "\0"), true},
    {{RANGE("\1", "\0")}, RANGE("\0", "\0"), false},
    {{RANGE("\0", "\0")}, RANGE("\0", "\0"), true},
    {{RANGE("\0", "\0")}, RANGE("", "\0"), false},
    /* reversed ranges contain no key */
    {{RANGE("d", "b")}, RANGE("c", ""), false},
    {{RANGE("d", "b")}, RANGE("d", ""), false},
    {{RANGE("a", "b"), RANGE("z", "c")}, RANGE("a", "c"), false},
    {{RANGE("d", "")}, RANGE("d", "c"), true},
    {{RANGE("c", "")}, RANGE("d", "c"), false},
    {{{.key = {0}}}, RANGE("a", ""), false},
};

static void permissions_that_almost_cover_a_range_do_not_cover_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof covers / sizeof covers[0]; i++)
        for (unsigned order = 0; order < 2; order++) { /* the order of granting is irrelevant */
            struct world w;
            world_with_users(&w);
            for (unsigned k = 0; k < 3; k++) {
                struct bw_keys have = covers[i].have[order ? 2 - k : k];
                if (have.key.length)
                    assert_int_equal(allow(&w, "r", BW_PERM_READ, have), 0);
            }
            if (may(&w, BW_PERM_READ, covers[i].wanted) != covers[i].covered)
                fail_msg("case %u: expected %d", i, covers[i].covered);
            assert_false(may(&w, BW_PERM_READWRITE, covers[i].wanted));
            world_close(&w);
        }
}

static void permission_to_read_does_not_fill_a_gap_for_writing(void **state)
{
    struct world w;
    const struct bw_keys first = RANGE("a", "c"), second = RANGE("c", "e"), all = RANGE("a", "e");
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_WRITE, first), 0);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, second), 0);
    assert_false(may(&w, BW_PERM_READ, all) || may(&w, BW_PERM_WRITE, all));
    assert_int_equal(allow(&w, "r", BW_PERM_READWRITE, second), 0);
    assert_true(may(&w, BW_PERM_WRITE, all));
    assert_false(may(&w, BW_PERM_READ, all) || may(&w, BW_PERM_READWRITE, all));
    assert_int_equal(allow(&w, "r", BW_PERM_READWRITE, first), 0);
    assert_true(may(&w, BW_PERM_READWRITE, all));
    world_close(&w);
}

/* Role "r" has the key "a", "r1" has "b", and so on; `ada` has as many roles as a user can have. */
static void world_with_full_user(struct world *w)
{
    char name[8] = "r", key[2] = "a";
    world_with_users(w);
    for (unsigned i = 0; i < BW_USER_ROLES_MAX; i++, key[0]++) {
        if (i > 0) {
            snprintf(name, sizeof name, "r%u", i);
            assert_int_equal(on_role(w, BW_USERS_ROLE_ADD, "", name), 0);
            assert_int_equal(on_role(w, BW_USERS_ROLE_GRANT, "ada", name), 0);
        }
        struct bw_keys keys = {.key = text(key), .end = {(const unsigned char *)key, 1}};
        unsigned char end = (unsigned char)(key[0] + 1);
        keys.end.at = &end;
        assert_int_equal(allow(w, name, BW_PERM_READ, keys), 0);
    }
}

static void roles_of_a_user_are_bounded_and_cover_a_range_together(void **state)
{
    struct world w;
    const struct bw_keys all = RANGE("a", "q"), more = RANGE("a", "q\0"), early = RANGE("a", "f"),
                         late = RANGE("g", "q"), gap = RANGE("f", "");
    (void)state;
    world_with_full_user(&w);
    const struct bw_user *user = bw_registry_user(w.registry, text("ada"));
    assert_true(may(&w, BW_PERM_READ, all) && !may(&w, BW_PERM_READ, more));
    assert_string_equal(bw_registry_granted(w.registry, user, BW_USER_ROLES_MAX - 1), "r15");
    assert_null(bw_registry_granted(w.registry, user, BW_USER_ROLES_MAX));
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "more"), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "more"), BW_REFUSED_ROLES_FULL);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "r15"), 0); /* has it already */
    assert_int_equal(on_role(&w, BW_USERS_ROLE_REVOKE, "ada", "more"), BW_REFUSED_ROLE_NOT_GRANTED);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_REVOKE, "ada", "r5"), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_REVOKE, "ada", "r5"), BW_REFUSED_ROLE_NOT_GRANTED);
    assert_false(may(&w, BW_PERM_READ, all) || may(&w, BW_PERM_READ, gap));
    assert_true(may(&w, BW_PERM_READ, early) && may(&w, BW_PERM_READ, late));
    assert_null(bw_registry_granted(w.registry, user, BW_USER_ROLES_MAX - 1));
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "r5"), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "r5"), 0);
    assert_true(may(&w, BW_PERM_READ, all));
    world_close(&w);
}

static void new_role_in_the_slot_of_a_deleted_one_belongs_to_nobody(void **state)
{
    struct world w;
    const struct bw_keys a = RANGE("a", "");
    (void)state;
    world_with_users(&w);
    const struct bw_key_role *slot = bw_registry_role(w.registry, "r");
    assert_int_equal(allow(&w, "r", BW_PERM_READ, a), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_DELETE, "", "r"), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "new"), 0);
    assert_ptr_equal(bw_registry_role(w.registry, "new"), slot);
    assert_int_equal(slot->count, 0);
    assert_int_equal(allow(&w, "new", BW_PERM_READ, a), 0);
    assert_false(may(&w, BW_PERM_READ, a));
    world_close(&w);
}

static void user_who_is_added_again_has_none_of_the_old_roles(void **state)
{
    struct world w;
    const struct bw_keys a = RANGE("a", "");
    struct bw_users_change again = {.act = BW_USERS_REMOVE, .user = {.name = "ada"}};
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, a), 0);
    struct bw_requester old = ada(&w);
    assert_int_equal(bw_registry_permits(w.registry, &old, BW_PERM_READ, &a), 0);
    assert_int_equal(change(&w, &again), 0);
    assert_int_equal(bw_registry_permits(w.registry, &old, BW_PERM_READ, &a), BW_REFUSED_DENIED);
    again.act = BW_USERS_ADD;
    assert_int_equal(change(&w, &again), 0);
    assert_int_equal(bw_registry_permits(w.registry, &old, BW_PERM_READ, &a), BW_REFUSED_TOKEN);
    assert_false(may(&w, BW_PERM_READ, a));
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "r"), 0);
    assert_true(may(&w, BW_PERM_READ, a));
    assert_int_equal(bw_registry_permits(w.registry, &old, BW_PERM_READ, &a), BW_REFUSED_TOKEN);
    world_close(&w);
}

static void keys_are_checked_for_users_only_and_while_users_are_enabled(void **state)
{
    struct world w;
    const struct bw_keys a = RANGE("a", "");
    const struct bw_requester nobody = {0}, node = {.kind = BW_REQUESTER_NODE};
    struct bw_users_change observe = {
        .act = BW_USERS_GRANT, .user = {.name = "ada"}, .role = BW_ROLE_OBSERVE};
    (void)state;
    world_with_users(&w);
    assert_int_equal(bw_registry_permits(w.registry, &node, BW_PERM_READWRITE, &a), 0);
    assert_int_equal(bw_registry_permits(w.registry, &nobody, BW_PERM_READ, &a),
                     BW_REFUSED_NOT_AUTHENTICATED);
    assert_false(may(&w, BW_PERM_READ, a));
    assert_int_equal(change(&w, &observe), 0);
    assert_true(may(&w, BW_PERM_READ, a) && !may(&w, BW_PERM_WRITE, a));
    assert_int_equal(change(&w, &(struct bw_users_change){.act = BW_USERS_DISABLE}), 0);
    assert_int_equal(bw_registry_permits(w.registry, &nobody, BW_PERM_READWRITE, &a), 0);
    assert_true(may(&w, BW_PERM_WRITE, a));
    world_close(&w);
}

static enum bw_refusal apply(struct world *w, struct bw_entry entry)
{
    entry.by = ada(w);
    return bw_registry_apply(w->registry, &entry, &w->results);
}

static void entry_needs_the_permissions_of_its_keys(void **state)
{
    struct world w;
    struct bw_keys a = {.key = text("a")}, b = {.key = text("b")};
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_WRITE, a), 0);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, b), 0);
    struct bw_entry put_a = {.kind = BW_ENTRY_PUT, .put = {.key = text("a")}}, put_b = put_a;
    put_b.put.key = text("b");
    assert_int_equal(apply(&w, put_a), 0);
    assert_int_equal(apply(&w, put_b), BW_REFUSED_DENIED);
    put_a.put.previous = true;
    assert_int_equal(apply(&w, put_a), BW_REFUSED_DENIED);
    struct bw_op ops[] = {{.kind = BW_OP_PUT, .put = {.key = text("b")}}};
    struct bw_compare compare = {.keys = b};
    struct bw_entry txn = {
        .kind = BW_ENTRY_TXN,
        .txn = {.compares = &compare, .compare_count = 1, .otherwise = ops, .otherwise_count = 1}};
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED); /* also in a branch that is not taken */
    ops[0].put.key = text("a");
    assert_int_equal(apply(&w, txn), 0);
    compare.keys = a;
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED);
    struct bw_op nested[] = {{.kind = BW_OP_TXN, .txn = {.then = ops, .then_count = 1}}};
    struct bw_entry outer = {.kind = BW_ENTRY_TXN, .txn = {.then = nested, .then_count = 1}};
    assert_int_equal(apply(&w, outer), 0);
    ops[0].put.key = text("b");
    assert_int_equal(apply(&w, outer), BW_REFUSED_DENIED);
    struct bw_entry compact = {.kind = BW_ENTRY_COMPACT, .revision = 2};
    assert_int_equal(apply(&w, compact), BW_REFUSED_DENIED);
    world_close(&w);
}

static void delete_needs_to_write_its_range_and_to_read_what_it_returns(void **state)
{
    struct world w;
    const struct bw_keys mine = RANGE("a", "c"), more = RANGE("a", "c\0"), read = RANGE("b", "");
    struct bw_entry delete = {.kind = BW_ENTRY_DELETE, .delete = {.keys = more}};
    struct bw_op ops[2] = {{.kind = BW_OP_DELETE}, {.kind = BW_OP_DELETE, .delete = {more, false}}};
    struct bw_entry txn = {.kind = BW_ENTRY_TXN, .txn = {.then = ops, .then_count = 1}};
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_WRITE, mine), 0);
    assert_int_equal(apply(&w, delete), BW_REFUSED_DENIED);
    delete.delete.keys = mine;
    assert_int_equal(apply(&w, delete), 0);
    delete.delete.previous = true;
    assert_int_equal(apply(&w, delete), BW_REFUSED_DENIED);
    assert_int_equal(allow(&w, "r", BW_PERM_READWRITE, read), 0);
    delete.delete.keys = read;
    assert_int_equal(apply(&w, delete), 0);
    ops[0].delete.keys = mine;
    assert_int_equal(apply(&w, txn), 0);
    txn.txn.then_count = 2; /* the second operation deletes one key too many */
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED);
    ops[0].delete.keys = more;
    ops[1].delete.keys = mine; /* now the first one does */
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED);
    world_close(&w);
}

static void every_condition_of_a_transaction_must_be_readable(void **state)
{
    struct world w;
    const struct bw_keys a = RANGE("a", ""), b = RANGE("b", "");
    struct bw_compare compares[2] = {{.keys = a}, {.keys = a}};
    struct bw_op read = {.kind = BW_OP_RANGE, .range = {.keys = a}};
    struct bw_entry txn = {
        .kind = BW_ENTRY_TXN,
        .txn = {.compares = compares, .compare_count = 2, .then = &read, .then_count = 1}};
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, a), 0);
    assert_int_equal(allow(&w, "r", BW_PERM_WRITE, b), 0);
    assert_int_equal(apply(&w, txn), 0);
    compares[0].keys = b;
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED);
    compares[0].keys = a;
    compares[1].keys = b;
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED);
    compares[1].keys = a;
    read.range.keys = b;
    assert_int_equal(apply(&w, txn), BW_REFUSED_DENIED);
    world_close(&w);
}

static void lease_with_a_foreign_key_is_protected(void **state)
{
    struct world w;
    struct bw_keys a = {.key = text("a")};
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_READWRITE, a), 0);
    struct bw_entry grant = {.kind = BW_ENTRY_GRANT, .lease = {.id = 7, .ttl_ns = BW_SEC}};
    struct bw_entry revoke = {.kind = BW_ENTRY_REVOKE, .lease = {.id = 7}};
    struct bw_entry attach = {.kind = BW_ENTRY_PUT, .put = {.key = text("a"), .lease = 7}};
    struct bw_entry bind = {.kind = BW_ENTRY_BIND, .lease = {.id = 7, .binding = 1}};
    assert_int_equal(apply(&w, grant), 0);
    assert_int_equal(put_leased(&w, "foreign", "", 7), 0);
    assert_int_equal(apply(&w, bind), BW_REFUSED_DENIED); /* closing would then revoke the lease */
    assert_int_equal(apply(&w, attach), BW_REFUSED_DENIED);
    assert_int_equal(apply(&w, revoke), BW_REFUSED_DENIED);
    delete_keys(&w, (struct bw_keys){.key = text("foreign")});
    assert_int_equal(apply(&w, attach), 0);
    assert_int_equal(apply(&w, bind), 0);
    assert_int_equal(apply(&w, revoke), 0);
    world_close(&w);
}

static void roles_are_added_changed_and_removed(void **state)
{
    struct world w;
    struct bw_keys a = {.key = text("a")}, b = {.key = text("b")};
    struct bw_registry_status before, after;
    (void)state;
    world_with_users(&w);
    bw_registry_status(w.registry, &before);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "r"), BW_REFUSED_ROLE_EXISTS);
    assert_int_equal(allow(&w, "x", BW_PERM_READ, a), BW_REFUSED_ROLE_UNKNOWN);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, a), 0);
    assert_true(may(&w, BW_PERM_READ, a) && !may(&w, BW_PERM_WRITE, a));
    assert_int_equal(allow(&w, "r", BW_PERM_READWRITE, a), 0);
    assert_true(may(&w, BW_PERM_WRITE, a));
    assert_int_equal(bw_registry_role(w.registry, "r")->count, 1);
    struct bw_users_change remove = {
        .act = BW_USERS_ROLE_DISALLOW, .perm = {.keys = b}, .role_name = "r"};
    assert_int_equal(change(&w, &remove), BW_REFUSED_PERM_NOT_GRANTED);
    remove.perm.keys = a;
    assert_int_equal(change(&w, &remove), 0);
    assert_false(may(&w, BW_PERM_READ, a));
    assert_int_equal(allow(&w, "r", BW_PERM_READ, a), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_REVOKE, "ada", "x"), BW_REFUSED_ROLE_NOT_GRANTED);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "x"), BW_REFUSED_ROLE_UNKNOWN);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "eve", "r"), BW_REFUSED_USER_UNKNOWN);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_DELETE, "", "r"), 0);
    assert_null(bw_registry_role(w.registry, "r"));
    assert_null(bw_registry_granted(w.registry, bw_registry_user(w.registry, text("ada")), 0));
    assert_false(may(&w, BW_PERM_READ, a));
    bw_registry_status(w.registry, &after);
    assert_int_equal(after.bytes, before.bytes);
    world_close(&w);
}

/* Permissions that are larger than the bound on the history must not empty it. */
static void permissions_do_not_count_as_history(void **state)
{
    static const struct bw_registry_config config = {
        .quota = 1 << 20, .leases_max = 10, .history = 1024, .history_bytes = 65536};
    static unsigned char key[BW_PERM_KEY_MAX];
    struct world w;
    struct bw_registry_status status;
    (void)state;
    world_open_with(&w, &config);
    bw_registry_raise(w.registry, BW_REGISTRY_LEVEL);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "r"), 0);
    for (unsigned i = 0; i < 20; i++) {
        key[0] = (unsigned char)('a' + i);
        struct bw_keys keys = {.key = {key, sizeof key}};
        assert_int_equal(allow(&w, "r", BW_PERM_READ, keys), 0);
    }
    struct bw_entry put = {.kind = BW_ENTRY_PUT, .put = {.key = text("a")}};
    put.by.kind = BW_REQUESTER_NODE;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(bw_registry_apply(w.registry, &put, &w.results), 0);
    bw_registry_status(w.registry, &status);
    assert_true(status.bytes > 20 * sizeof key && status.history_bytes < 4096);
    assert_int_equal(status.floor, 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_DELETE, "", "r"), 0);
    bw_registry_status(w.registry, &status);
    assert_true(status.history_bytes < 4096);
    world_close(&w);
}

static void roles_are_bounded(void **state)
{
    struct world w;
    char name[16];
    (void)state;
    world_with_users(&w);
    for (unsigned i = 1; i < BW_KEY_ROLES_MAX; i++) {
        snprintf(name, sizeof name, "r%u", i);
        assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", name), 0);
    }
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "more"), BW_REFUSED_ROLES_FULL);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "r999"), BW_REFUSED_ROLE_EXISTS);
    assert_string_equal(bw_registry_role_at(w.registry, BW_KEY_ROLES_MAX - 1)->name, "r999");
    assert_null(bw_registry_role_at(w.registry, BW_KEY_ROLES_MAX));
    assert_int_equal(on_role(&w, BW_USERS_ROLE_DELETE, "", "r500"), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "more"), 0);
    world_close(&w);
}

static void permissions_of_a_role_are_bounded_and_ordered(void **state)
{
    struct world w;
    char key[8], last[8] = "";
    struct bw_perm perm;
    bw_ref at = 0;
    unsigned count = 0;
    (void)state;
    world_with_users(&w);
    for (unsigned i = 0; i < BW_ROLE_PERMS_MAX; i++) {
        snprintf(key, sizeof key, "%03u", i * 7 % BW_ROLE_PERMS_MAX);
        assert_int_equal(allow(&w, "r", BW_PERM_READ, (struct bw_keys){.key = text(key)}), 0);
    }
    const struct bw_keys more = RANGE("more", ""), one = RANGE("100", "");
    assert_int_equal(allow(&w, "r", BW_PERM_READ, more), BW_REFUSED_ROLES_FULL);
    assert_int_equal(allow(&w, "r", BW_PERM_READWRITE, one), 0); /* only changes its type */
    assert_true(may(&w, BW_PERM_WRITE, one) && !may(&w, BW_PERM_READ, more));
    const struct bw_key_role *role = bw_registry_role(w.registry, "r");
    for (; bw_registry_role_perm(w.registry, role, &at, &perm); count++) {
        memcpy(key, perm.keys.key.at, 4);
        key[3] = '\0';
        assert_true(strcmp(last, key) < 0);
        strcpy(last, key);
    }
    assert_int_equal(count, BW_ROLE_PERMS_MAX);
    world_close(&w);
}

/* Permissions with the same first key and different ends are different permissions. */
static void only_the_permission_with_the_same_end_is_removed(void **state)
{
    struct world w;
    const struct bw_keys one = RANGE("a", ""), some = RANGE("a", "c"), most = RANGE("a", "d");
    struct bw_users_change remove = {
        .act = BW_USERS_ROLE_DISALLOW, .perm = {.keys = RANGE("a", "b")}, .role_name = "r"};
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, most), 0);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, one), 0);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, some), 0);
    assert_int_equal(bw_registry_role(w.registry, "r")->count, 3);
    assert_int_equal(change(&w, &remove), BW_REFUSED_PERM_NOT_GRANTED);
    remove.perm.keys = most;
    assert_int_equal(change(&w, &remove), 0);
    assert_true(may(&w, BW_PERM_READ, some) && !may(&w, BW_PERM_READ, most));
    remove.perm.keys = some;
    assert_int_equal(change(&w, &remove), 0);
    assert_true(may(&w, BW_PERM_READ, one) && !may(&w, BW_PERM_READ, some));
    world_close(&w);
}

static void permissions_count_against_the_quota(void **state)
{
    static unsigned char key[BW_PERM_KEY_MAX];
    struct world w;
    struct bw_registry_status before, after;
    struct bw_keys keys = {.key = {key, sizeof key}};
    unsigned count = 0;
    (void)state;
    world_with_users(&w);
    bw_registry_status(w.registry, &before);
    while (count < BW_ROLE_PERMS_MAX && allow(&w, "r", BW_PERM_READ, keys) == 0)
        key[0] = (unsigned char)++count;
    assert_int_equal(count, (1 << 20) / sizeof key - 5); /* a quota of 1 MiB; 80 more bytes each */
    bw_registry_status(w.registry, &after);
    assert_true(after.bytes <= 1 << 20);
    assert_int_equal(bw_registry_role(w.registry, "r")->count, count);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_DELETE, "", "r"), 0);
    bw_registry_status(w.registry, &after);
    assert_int_equal(after.bytes, before.bytes);
    world_close(&w);
}

static void permission_drops_history_that_fills_the_quota(void **state)
{
    static unsigned char key[BW_PERM_KEY_MAX];
    static char value[60001];
    struct world w;
    struct bw_registry_status before, after;
    struct bw_keys keys = {.key = {key, sizeof key}};
    (void)state;
    world_with_users(&w);
    memset(value, 'x', sizeof value - 1);
    for (unsigned i = 0; i < 17; i++)
        assert_int_equal(put(&w, "k", value), 0);
    bw_registry_status(w.registry, &before);
    assert_true(before.bytes > (1 << 20) - 10 * sizeof key);
    for (unsigned i = 0; i < 20; i++) {
        key[0] = (unsigned char)i;
        assert_int_equal(allow(&w, "r", BW_PERM_READ, keys), 0);
    }
    bw_registry_status(w.registry, &after);
    assert_true(after.bytes <= 1 << 20 && after.history_bytes < before.history_bytes);
    assert_int_equal(get(&w, "k")->version, 17);
    world_close(&w);
}

/* Whether the change is still the same after it was encoded and decoded. */
static bool is_encodable(const struct bw_users_change *change)
{
    static struct bw_entry_scratch scratch;
    static unsigned char bytes[3 * BW_PERM_KEY_MAX];
    struct bw_entry entry = {.kind = BW_ENTRY_USERS, .users = *change}, read;
    int length = bw_entry_encode(&entry, bytes, sizeof bytes);
    assert_true(length > 0);
    int error = bw_entry_decode(&read, &scratch, bytes, (size_t)length);
    assert_true(error == 0 || error == BW_EMALFORMED);
    if (error)
        return false;
    const struct bw_keys *a = &change->perm.keys, *b = &read.users.perm.keys;
    assert_int_equal(read.users.act, change->act);
    assert_string_equal(read.users.role_name, change->role_name);
    assert_int_equal(read.users.perm.type, change->perm.type);
    assert_int_equal(slice_compare(a->key, b->key), 0);
    assert_int_equal(slice_compare(a->end, b->end), 0);
    return true;
}

static void entry_with_an_invalid_role_name_is_malformed(void **state)
{
    static const char *const bad[] = {"",        "a b",      "a/",    "\xc3\xa9",
                                      "observe", "campaign", "admin", "root"};
    struct bw_users_change change = {.act = BW_USERS_ROLE_ADD, .role_name = "rooty"};
    (void)state;
    assert_true(is_encodable(&change));
    memset(change.role_name, 'x', BW_USER_NAME_MAX);
    assert_true(is_encodable(&change));
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        strcpy(change.role_name, bad[i]);
        for (unsigned act = BW_USERS_ROLE_ADD; act <= BW_USERS_ROLE_REVOKE; act++) {
            change.act = (enum bw_users_act)act;
            strcpy(change.user.name, "ada");
            change.perm.keys = (struct bw_keys)RANGE("a", "b");
            assert_false(is_encodable(&change));
        }
    }
}

static void entry_with_an_invalid_permission_is_malformed(void **state)
{
    static const unsigned char key[BW_PERM_KEY_MAX + 1] = "k";
    static const struct {
        unsigned type;
        size_t key, end;
        bool good;
    } cases[] = {{BW_PERM_READ, 1, 0, true},
                 {BW_PERM_READWRITE, BW_PERM_KEY_MAX, BW_PERM_KEY_MAX, true},
                 {BW_PERM_WRITE, 0, 1, false},
                 {BW_PERM_WRITE, 0, 0, false},
                 {BW_PERM_WRITE, BW_PERM_KEY_MAX + 1, 1, false},
                 {BW_PERM_WRITE, 1, BW_PERM_KEY_MAX + 1, false},
                 {BW_PERM_READWRITE + 1, 1, 1, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned act = BW_USERS_ROLE_ALLOW; act <= BW_USERS_ROLE_DISALLOW; act++) {
            struct bw_users_change change = {.act = (enum bw_users_act)act, .role_name = "r"};
            change.perm.type = (enum bw_perm_type)cases[i].type;
            change.perm.keys.key = (struct bw_slice){key, cases[i].key};
            change.perm.keys.end = (struct bw_slice){key, cases[i].end};
            assert_int_equal(is_encodable(&change), cases[i].good);
        }
}

static void snapshot_keeps_roles(void **state)
{
    static unsigned char bytes[2 * BW_SNAPSHOT_PIECE_MAX];
    struct world w, other;
    struct bw_saving saving;
    struct bw_loading loading = {0};
    struct bw_keys a = {.key = text("a"), .end = text("c")}, b = {.key = text("x")};
    size_t used = 0, piece;
    (void)state;
    world_with_users(&w);
    assert_int_equal(allow(&w, "r", BW_PERM_READ, a), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "empty"), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_ADD, "", "s"), 0);
    assert_int_equal(allow(&w, "s", BW_PERM_WRITE, b), 0);
    assert_int_equal(on_role(&w, BW_USERS_ROLE_GRANT, "ada", "s"), 0);
    bw_registry_save_begin(w.registry, &saving);
    while ((piece = bw_registry_save(w.registry, &saving, bytes + used, sizeof bytes - used)))
        used += piece;
    world_open(&other);
    assert_int_equal(bw_registry_load(other.registry, &loading, bytes, used), used);
    assert_true(loading.ended);
    assert_true(may(&other, BW_PERM_READ, a) && !may(&other, BW_PERM_WRITE, a));
    assert_true(may(&other, BW_PERM_WRITE, b) && !may(&other, BW_PERM_READ, b));
    assert_non_null(bw_registry_role(other.registry, "empty"));
    world_close(&other);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permissions_cover_a_range_together),
        cmocka_unit_test(permissions_that_almost_cover_a_range_do_not_cover_it),
        cmocka_unit_test(permission_to_read_does_not_fill_a_gap_for_writing),
        cmocka_unit_test(roles_of_a_user_are_bounded_and_cover_a_range_together),
        cmocka_unit_test(new_role_in_the_slot_of_a_deleted_one_belongs_to_nobody),
        cmocka_unit_test(user_who_is_added_again_has_none_of_the_old_roles),
        cmocka_unit_test(keys_are_checked_for_users_only_and_while_users_are_enabled),
        cmocka_unit_test(entry_needs_the_permissions_of_its_keys),
        cmocka_unit_test(delete_needs_to_write_its_range_and_to_read_what_it_returns),
        cmocka_unit_test(every_condition_of_a_transaction_must_be_readable),
        cmocka_unit_test(lease_with_a_foreign_key_is_protected),
        cmocka_unit_test(roles_are_added_changed_and_removed),
        cmocka_unit_test(permissions_do_not_count_as_history),
        cmocka_unit_test(roles_are_bounded),
        cmocka_unit_test(permissions_of_a_role_are_bounded_and_ordered),
        cmocka_unit_test(only_the_permission_with_the_same_end_is_removed),
        cmocka_unit_test(permissions_count_against_the_quota),
        cmocka_unit_test(permission_drops_history_that_fills_the_quota),
        cmocka_unit_test(entry_with_an_invalid_role_name_is_malformed),
        cmocka_unit_test(entry_with_an_invalid_permission_is_malformed),
        cmocka_unit_test(snapshot_keeps_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
