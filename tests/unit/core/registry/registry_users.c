/* Users as part of the registry: who may is decided where an entry stands in the log, and every
 * node decides alike. */
#include "core/base/error.h"
#include "core/registry/snapshot.h"
#include "registry_world.h"

static struct bw_user user(const char *name, unsigned roles)
{
    struct bw_user out = {.roles = (uint8_t)roles, .secret = {.ln = 14, .r = 8, .p = 1}};
    strcpy(out.name, name);
    memset(out.secret.salt, name[0], sizeof out.secret.salt);
    memset(out.secret.hash, name[0] + 1, sizeof out.secret.hash);
    return out;
}

#define ROLE(role) (1u << BW_ROLE_##role)

static struct bw_by by(struct world *w, const char *name)
{
    const struct bw_user *found = bw_registry_user(w->registry, text(name));
    return (struct bw_by){
        .kind = BW_BY_USER, .name = text(name), .since = found ? found->since : 0};
}

static enum bw_refusal apply(struct world *w, struct bw_entry entry, struct bw_by asker)
{
    entry.by = asker;
    return bw_registry_apply(w->registry, &entry, &w->results);
}

static enum bw_refusal change(struct world *w, struct bw_by asker, enum bw_users_act act,
                              const char *name, unsigned roles, enum bw_role role)
{
    struct bw_entry entry = {.kind = BW_ENTRY_USERS,
                             .users = {.act = act, .user = user(name, roles), .role = role}};
    return apply(w, entry, asker);
}

static enum bw_refusal put_as(struct world *w, struct bw_by asker)
{
    struct bw_entry entry = {.kind = BW_ENTRY_PUT, .put = {.key = text("k"), .value = text("v")}};
    return apply(w, entry, asker);
}

static const struct bw_by anybody = {0}, node = {.kind = BW_BY_NODE};

static void open_with_users(struct world *w)
{
    world_open(w);
    bw_registry_raise(w->registry, BW_REGISTRY_LEVEL);
    assert_int_equal(change(w, anybody, BW_USERS_ADD, "root", ROLE(ROOT), 0), 0);
    assert_int_equal(change(w, anybody, BW_USERS_ADD, "bob", ROLE(CAMPAIGN), 0), 0);
    assert_int_equal(change(w, anybody, BW_USERS_ADD, "eve", ROLE(OBSERVE), 0), 0);
    assert_int_equal(change(w, anybody, BW_USERS_ENABLE, "", 0, 0), 0);
}

static void while_users_are_not_enabled_everybody_may(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(put_as(&w, anybody), 0);
    assert_int_equal(change(&w, anybody, BW_USERS_ENABLE, "", 0, 0), BW_REFUSED_NO_ROOT);
    assert_int_equal(change(&w, anybody, BW_USERS_ADD, "root", 0, 0), 0);
    assert_int_equal(change(&w, anybody, BW_USERS_ENABLE, "", 0, 0), BW_REFUSED_ROOT_ROLE);
    assert_int_equal(change(&w, anybody, BW_USERS_GRANT, "root", 0, BW_ROLE_ROOT), 0);
    assert_int_equal(put_as(&w, anybody), 0);
    assert_int_equal(change(&w, anybody, BW_USERS_ENABLE, "", 0, 0), 0);
    assert_int_equal(put_as(&w, anybody), BW_REFUSED_NOBODY);
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_DISABLE, "", 0, 0), 0);
    assert_int_equal(put_as(&w, anybody), 0);
    world_close(&w);
}

static void each_entry_takes_its_role(void **state)
{
    (void)state;
    static const struct bw_op reads = {.kind = BW_OP_RANGE,
                                       .range = {.keys = {.key = {(const unsigned char *)"a", 1}}}};
    static const struct bw_op writes = {.kind = BW_OP_PUT,
                                        .put = {.key = {(const unsigned char *)"a", 1}}};
    static const struct {
        struct bw_entry entry;
        enum bw_role least;
    } all[] = {
        {{.kind = BW_ENTRY_NOTHING}, BW_ROLE_NONE},
        {{.kind = BW_ENTRY_PUT, .put = {.key = {(const unsigned char *)"a", 1}}}, BW_ROLE_CAMPAIGN},
        {{.kind = BW_ENTRY_DELETE, .delete = {.keys = {.key = {(const unsigned char *)"a", 1}}}},
         BW_ROLE_CAMPAIGN},
        {{.kind = BW_ENTRY_TXN, .txn = {.then = &reads, .then_count = 1}}, BW_ROLE_OBSERVE},
        {{.kind = BW_ENTRY_TXN, .txn = {.otherwise = &writes, .otherwise_count = 1}},
         BW_ROLE_CAMPAIGN},
        {{.kind = BW_ENTRY_GRANT, .lease = {.id = 1, .ttl_ns = 1}}, BW_ROLE_CAMPAIGN},
        {{.kind = BW_ENTRY_REVOKE, .lease = {.id = 1}}, BW_ROLE_CAMPAIGN},
        {{.kind = BW_ENTRY_BIND, .lease = {.id = 1}}, BW_ROLE_CAMPAIGN},
        {{.kind = BW_ENTRY_COMPACT, .revision = 1}, BW_ROLE_ADMIN},
        {{.kind = BW_ENTRY_USERS, .users = {.act = BW_USERS_ENABLE}}, BW_ROLE_ADMIN},
        {{.kind = BW_ENTRY_LEVEL, .level = 2}, BW_ROLE_NONE}};
    static const char *const names[] = {"nobody", "eve", "bob", "root"};
    struct world w;
    open_with_users(&w);
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool free = all[i].least == BW_ROLE_NONE;
        assert_int_equal(apply(&w, all[i].entry, anybody) == BW_REFUSED_NOBODY, !free);
        assert_int_not_equal(apply(&w, all[i].entry, node), BW_REFUSED_NOBODY);
        for (unsigned role = BW_ROLE_NONE; role <= BW_ROLE_ADMIN; role++)
            assert_int_equal(apply(&w, all[i].entry, by(&w, names[role])) == BW_REFUSED_DENIED,
                             role < all[i].least);
    }
    world_close(&w);
}

static void a_request_behind_its_users_removal_is_refused(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_by bob = by(&w, "bob"); /* when it was asked */
    assert_int_equal(put_as(&w, bob), 0);
    int64_t revision = revision_of(&w);
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_REMOVE, "bob", 0, 0), 0);
    assert_int_equal(put_as(&w, bob), BW_REFUSED_DENIED);
    assert_int_equal(revision_of(&w), revision);
    assert_int_equal(w.results.revision, revision);
    /* Another of the same name is not who asked. */
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_ADD, "bob", ROLE(CAMPAIGN), 0), 0);
    assert_int_equal(put_as(&w, bob), BW_REFUSED_TOKEN);
    assert_int_equal(put_as(&w, by(&w, "bob")), 0);
    world_close(&w);
}

static void a_new_password_ends_what_was_asked_under_the_old_one(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_by bob = by(&w, "bob");
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_PASSWORD, "bob", 0, 0), 0);
    assert_int_equal(put_as(&w, bob), BW_REFUSED_TOKEN);
    assert_int_equal(put_as(&w, by(&w, "bob")), 0); /* its roles are kept */
    world_close(&w);
}

static void roles_come_and_go_and_take_effect_at_their_place(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_by root = by(&w, "root"), eve = by(&w, "eve");
    assert_int_equal(put_as(&w, eve), BW_REFUSED_DENIED);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "eve", 0, BW_ROLE_CAMPAIGN), 0);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "eve", 0, BW_ROLE_CAMPAIGN), 0);
    assert_int_equal(put_as(&w, eve), 0);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "eve", 0, BW_ROLE_CAMPAIGN), 0);
    assert_int_equal(put_as(&w, eve), BW_REFUSED_DENIED);
    assert_int_equal(bw_registry_may(w.registry, &eve, BW_ROLE_OBSERVE), 0);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "eve", 0, BW_ROLE_CAMPAIGN),
                     BW_REFUSED_ROLE_NOT_GRANTED);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "who", 0, BW_ROLE_ADMIN),
                     BW_REFUSED_USER_UNKNOWN);
    assert_int_equal(change(&w, root, BW_USERS_ADD, "eve", 0, 0), BW_REFUSED_USER_EXISTS);
    world_close(&w);
}

static void the_last_admin_stays(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_by root = by(&w, "root");
    assert_int_equal(change(&w, root, BW_USERS_REMOVE, "root", 0, 0), BW_REFUSED_LAST_ADMIN);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "root", 0, BW_ROLE_ROOT),
                     BW_REFUSED_LAST_ADMIN);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "bob", 0, BW_ROLE_ADMIN), 0);
    assert_int_equal(change(&w, by(&w, "bob"), BW_USERS_REMOVE, "root", 0, 0), 0);
    assert_int_equal(put_as(&w, root), BW_REFUSED_DENIED);
    world_close(&w);
}

/* A list as bytes, and its length. */
static size_t list_of(unsigned char *out, size_t size, const struct bw_user *users, unsigned count)
{
    struct bw_writer writer = {.size = size};
    writer.at = out;
    for (unsigned i = 0; i < count; i++)
        bw_user_write(&writer, &users[i]);
    assert_false(writer.failed);
    return writer.used;
}

static enum bw_refusal import(struct world *w, const struct bw_user *users, unsigned count,
                              size_t cut)
{
    static unsigned char bytes[4 * BW_USER_BYTES];
    size_t length = list_of(bytes, sizeof bytes, users, count) - cut;
    struct bw_entry entry = {.kind = BW_ENTRY_USERS,
                             .users = {.act = BW_USERS_IMPORT, .list = {bytes, length}}};
    return apply(w, entry, node);
}

static void a_list_is_taken_whole_and_once(void **state)
{
    (void)state;
    struct bw_user good[] = {user("bob", ROLE(OBSERVE)), user("root", ROLE(ADMIN))};
    struct bw_user turned[] = {good[1], good[0]}, twice[] = {good[1], good[1]};
    struct bw_users_status status;
    struct world w;
    world_open(&w);
    assert_int_equal(import(&w, turned, 2, 0), BW_REFUSED_IMPORT);
    assert_int_equal(import(&w, twice, 2, 0), BW_REFUSED_IMPORT);
    assert_int_equal(import(&w, good, 1, 0), BW_REFUSED_IMPORT); /* nobody is admin */
    assert_int_equal(import(&w, good, 2, 1), BW_REFUSED_IMPORT);
    bw_registry_users_status(w.registry, &status);
    assert_true(!status.enabled && status.count == 0 && status.revision == 0);
    assert_int_equal(import(&w, good, 2, 0), 0);
    bw_registry_users_status(w.registry, &status);
    assert_true(status.enabled && status.count == 2);
    assert_int_equal(import(&w, good, 2, 0), BW_REFUSED_IMPORT);
    assert_int_equal(put_as(&w, by(&w, "root")), 0);
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_DISABLE, "", 0, 0), 0);
    assert_int_equal(import(&w, good, 2, 0), BW_REFUSED_IMPORT);
    world_close(&w);
}

static size_t save(struct world *w, unsigned char *out, size_t size)
{
    struct bw_saving saving;
    bw_registry_save_begin(w->registry, &saving);
    return bw_registry_save(w->registry, &saving, out, size);
}

static int64_t load(struct world *w, const unsigned char *bytes, size_t length)
{
    struct bw_loading loading = {0};
    world_open(w);
    int64_t took = bw_registry_load(w->registry, &loading, bytes, length);
    return took < 0 ? took : loading.ended ? took : BW_EIO;
}

static void users_survive_a_snapshot(void **state)
{
    (void)state;
    static unsigned char bytes[BW_SNAPSHOT_PIECE_MAX];
    struct world w, other;
    struct bw_users_status before, after;
    open_with_users(&w);
    struct bw_by bob = by(&w, "bob");
    change(&w, by(&w, "root"), BW_USERS_REMOVE, "eve", 0, 0);
    size_t length = save(&w, bytes, sizeof bytes);
    assert_int_equal(load(&other, bytes, length), length);
    bw_registry_users_status(w.registry, &before);
    bw_registry_users_status(other.registry, &after);
    assert_memory_equal(&before, &after, sizeof before);
    for (uint32_t i = 0; i < before.count; i++)
        assert_memory_equal(bw_registry_user_at(w.registry, i),
                            bw_registry_user_at(other.registry, i), sizeof(struct bw_user));
    assert_int_equal(put_as(&other, bob), 0);
    assert_int_equal(put_as(&other, anybody), BW_REFUSED_NOBODY);
    assert_int_equal(put_as(&other, by(&w, "eve")), BW_REFUSED_DENIED);
    world_close(&w);
    world_close(&other);
}

/* Nodes of before read it for as long as there is nothing in it that they do not know. */
static void a_snapshot_has_the_format_of_the_level(void **state)
{
    (void)state;
    static unsigned char bytes[BW_SNAPSHOT_PIECE_MAX];
    struct bw_registry_status status;
    struct world w, other;
    world_open(&w);
    put(&w, "a", "b");
    size_t length = save(&w, bytes, sizeof bytes);
    assert_int_equal(bytes[1], 1);
    assert_int_equal(load(&other, bytes, length), length);
    bw_registry_status(other.registry, &status);
    assert_int_equal(status.level, 1);
    world_close(&other);
    bw_registry_raise(w.registry, BW_REGISTRY_LEVEL + 1);
    bw_registry_raise(w.registry, BW_REGISTRY_LEVEL);
    bw_registry_raise(w.registry, 1);
    length = save(&w, bytes, sizeof bytes);
    assert_int_equal(bytes[1], BW_REGISTRY_LEVEL);
    assert_int_equal(load(&other, bytes, length), length);
    bw_registry_status(other.registry, &status);
    assert_int_equal(status.level, BW_REGISTRY_LEVEL);
    world_close(&other);
    bytes[1] = BW_REGISTRY_LEVEL + 1;
    assert_int_equal(load(&other, bytes, length), BW_EVERSION);
    world_close(&other);
    world_close(&w);
}

static void check_round_trip(const struct bw_entry *entry)
{
    static struct bw_entry_room room;
    unsigned char bytes[512], again[512];
    struct bw_entry read;
    int length = bw_entry_encode(entry, bytes, sizeof bytes);
    assert_true(length > 0);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), 0);
    assert_int_equal(read.kind, entry->kind);
    assert_int_equal(read.by.kind, entry->by.kind);
    assert_int_equal(read.by.since, entry->by.since);
    assert_int_equal(bw_entry_encode(&read, again, sizeof again), length);
    assert_memory_equal(bytes, again, (size_t)length);
    for (int cut = 0; cut < length; cut++)
        assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)cut), BW_EMALFORMED);
}

static void entries_say_who_asked(void **state)
{
    (void)state;
    struct bw_by bob = {.kind = BW_BY_USER, .name = text("bob"), .since = 300};
    unsigned char list[BW_USER_BYTES];
    struct bw_user nobody = {.name = "cn"};
    struct bw_entry put = {.kind = BW_ENTRY_PUT, .put = {.key = text("k")}};
    struct bw_entry level = {.kind = BW_ENTRY_LEVEL, .level = 2};
    const struct bw_by askers[] = {anybody, node, bob};
    for (unsigned i = 0; i < 3; i++) {
        put.by = level.by = askers[i];
        check_round_trip(&put);
        check_round_trip(&level);
        for (unsigned act = BW_USERS_ENABLE; act <= BW_USERS_IMPORT; act++) {
            struct bw_entry entry = {
                .kind = BW_ENTRY_USERS,
                .by = askers[i],
                .users = {.act = (enum bw_users_act)act,
                          .user = act == BW_USERS_REMOVE ? nobody : user("eve", ROLE(ADMIN)),
                          .role = BW_ROLE_ROOT,
                          .list = {list, list_of(list, sizeof list, &nobody, 1)}}};
            check_round_trip(&entry);
        }
    }
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    static struct bw_entry_room room;
    static const char *const bad[] = {"", "b b", "b:b", "b/", "\xc3\xa9"};
    unsigned char bytes[256];
    struct bw_entry read;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bw_entry entry = {.kind = BW_ENTRY_USERS,
                                 .users = {.act = BW_USERS_ADD, .user = user(bad[i], 0)}};
        int length = bw_entry_encode(&entry, bytes, sizeof bytes);
        assert_false(bw_user_name_is_good(text(bad[i])));
        assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), BW_EMALFORMED);
    }
    assert_int_equal(bw_role_named(text("root")), BW_ROLE_ROOT);
    assert_int_equal(bw_role_named(text("king")), BW_ROLE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_users_are_not_enabled_everybody_may),
        cmocka_unit_test(each_entry_takes_its_role),
        cmocka_unit_test(a_request_behind_its_users_removal_is_refused),
        cmocka_unit_test(a_new_password_ends_what_was_asked_under_the_old_one),
        cmocka_unit_test(roles_come_and_go_and_take_effect_at_their_place),
        cmocka_unit_test(the_last_admin_stays),
        cmocka_unit_test(a_list_is_taken_whole_and_once),
        cmocka_unit_test(users_survive_a_snapshot),
        cmocka_unit_test(a_snapshot_has_the_format_of_the_level),
        cmocka_unit_test(entries_say_who_asked),
        cmocka_unit_test(names_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
