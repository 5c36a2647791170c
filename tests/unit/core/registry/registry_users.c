/* Users as part of the registry: permissions depend on an entry's position in the log, and every
 * node decides the same. */
#include "core/base/error.h"
#include "core/registry/bytes.h"
#include "core/registry/snapshot.h"
#include "registry_world.h"

#include <stdio.h>

static struct bw_user user(const char *name, unsigned roles)
{
    struct bw_user out = {.roles = (uint8_t)roles, .secret = {.ln = 14, .r = 8, .p = 1}};
    strcpy(out.name, name);
    memset(out.secret.salt, name[0], sizeof out.secret.salt);
    memset(out.secret.hash, name[0] + 1, sizeof out.secret.hash);
    return out;
}

#define ROLE(role) (1u << BW_ROLE_##role)

static struct bw_requester by(struct world *w, const char *name)
{
    const struct bw_user *found = bw_registry_user(w->registry, text(name));
    return (struct bw_requester){
        .kind = BW_REQUESTER_USER, .name = text(name), .since = found ? found->since : 0};
}

static enum bw_refusal apply(struct world *w, struct bw_entry entry, struct bw_requester asker)
{
    entry.by = asker;
    return bw_registry_apply(w->registry, &entry, &w->results);
}

static enum bw_refusal change(struct world *w, struct bw_requester asker, enum bw_users_act act,
                              const char *name, unsigned roles, enum bw_role role)
{
    struct bw_entry entry = {.kind = BW_ENTRY_USERS,
                             .users = {.act = act, .user = user(name, roles), .role = role}};
    return apply(w, entry, asker);
}

static enum bw_refusal put_as(struct world *w, struct bw_requester asker)
{
    struct bw_entry entry = {.kind = BW_ENTRY_PUT, .put = {.key = text("k"), .value = text("v")}};
    return apply(w, entry, asker);
}

static const struct bw_requester anybody = {0}, node = {.kind = BW_REQUESTER_NODE};

static void open_with_users(struct world *w)
{
    world_open(w);
    bw_registry_raise(w->registry, BW_REGISTRY_LEVEL);
    assert_int_equal(change(w, anybody, BW_USERS_ADD, "root", ROLE(ROOT), 0), 0);
    assert_int_equal(change(w, anybody, BW_USERS_ADD, "bob", ROLE(CAMPAIGN), 0), 0);
    assert_int_equal(change(w, anybody, BW_USERS_ADD, "eve", ROLE(OBSERVE), 0), 0);
    assert_int_equal(change(w, anybody, BW_USERS_ENABLE, "", 0, 0), 0);
}

static void every_request_is_allowed_while_users_are_disabled(void **state)
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
    assert_int_equal(put_as(&w, anybody), BW_REFUSED_NOT_AUTHENTICATED);
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_DISABLE, "", 0, 0), 0);
    assert_int_equal(put_as(&w, anybody), 0);
    world_close(&w);
}

static void each_entry_kind_requires_its_role(void **state)
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
        assert_int_equal(apply(&w, all[i].entry, anybody) == BW_REFUSED_NOT_AUTHENTICATED, !free);
        assert_int_not_equal(apply(&w, all[i].entry, node), BW_REFUSED_NOT_AUTHENTICATED);
        for (unsigned role = BW_ROLE_NONE; role <= BW_ROLE_ADMIN; role++)
            assert_int_equal(apply(&w, all[i].entry, by(&w, names[role])) == BW_REFUSED_DENIED,
                             role < all[i].least);
    }
    world_close(&w);
}

static void request_logged_after_user_removal_is_refused(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_requester bob = by(&w, "bob"); /* at the time of the request */
    assert_int_equal(put_as(&w, bob), 0);
    int64_t revision = revision_of(&w);
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_REMOVE, "bob", 0, 0), 0);
    assert_int_equal(put_as(&w, bob), BW_REFUSED_DENIED);
    assert_int_equal(revision_of(&w), revision);
    assert_int_equal(w.results.revision, revision);
    /* A new user of the same name is not the requester. */
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_ADD, "bob", ROLE(CAMPAIGN), 0), 0);
    assert_int_equal(put_as(&w, bob), BW_REFUSED_TOKEN);
    assert_int_equal(put_as(&w, by(&w, "bob")), 0);
    world_close(&w);
}

static void new_password_invalidates_earlier_requests(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_requester bob = by(&w, "bob");
    assert_int_equal(change(&w, by(&w, "root"), BW_USERS_PASSWORD, "bob", 0, 0), 0);
    assert_int_equal(put_as(&w, bob), BW_REFUSED_TOKEN);
    assert_int_equal(put_as(&w, by(&w, "bob")), 0); /* its roles are unchanged */
    world_close(&w);
}

static void role_changes_take_effect_at_their_log_position(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_requester root = by(&w, "root"), eve = by(&w, "eve");
    assert_int_equal(put_as(&w, eve), BW_REFUSED_DENIED);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "eve", 0, BW_ROLE_CAMPAIGN), 0);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "eve", 0, BW_ROLE_CAMPAIGN), 0);
    assert_int_equal(put_as(&w, eve), 0);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "eve", 0, BW_ROLE_CAMPAIGN), 0);
    assert_int_equal(put_as(&w, eve), BW_REFUSED_DENIED);
    assert_int_equal(bw_registry_authorize(w.registry, &eve, BW_ROLE_OBSERVE), 0);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "eve", 0, BW_ROLE_CAMPAIGN),
                     BW_REFUSED_ROLE_NOT_GRANTED);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "who", 0, BW_ROLE_ADMIN),
                     BW_REFUSED_USER_UNKNOWN);
    assert_int_equal(change(&w, root, BW_USERS_ADD, "eve", 0, 0), BW_REFUSED_USER_EXISTS);
    world_close(&w);
}

static void last_admin_cannot_be_removed(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_requester root = by(&w, "root");
    assert_int_equal(change(&w, root, BW_USERS_REMOVE, "root", 0, 0), BW_REFUSED_LAST_ADMIN);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "root", 0, BW_ROLE_ROOT),
                     BW_REFUSED_LAST_ADMIN);
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "bob", 0, BW_ROLE_ADMIN), 0);
    assert_int_equal(change(&w, by(&w, "bob"), BW_USERS_REMOVE, "root", 0, 0), 0);
    assert_int_equal(put_as(&w, root), BW_REFUSED_DENIED);
    world_close(&w);
}

/* Encodes a list of users and returns its length. */
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

static void user_list_is_imported_completely_and_once(void **state)
{
    (void)state;
    struct bw_user good[] = {user("bob", ROLE(OBSERVE)), user("root", ROLE(ADMIN))};
    struct bw_user turned[] = {good[1], good[0]}, twice[] = {good[1], good[1]};
    struct bw_users_status status;
    struct world w;
    world_open(&w);
    assert_int_equal(import(&w, turned, 2, 0), BW_REFUSED_IMPORT);
    assert_int_equal(import(&w, twice, 2, 0), BW_REFUSED_IMPORT);
    assert_int_equal(import(&w, good, 1, 0), BW_REFUSED_IMPORT); /* no user is admin */
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
    struct bw_requester bob = by(&w, "bob");
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
    assert_int_equal(put_as(&other, anybody), BW_REFUSED_NOT_AUTHENTICATED);
    assert_int_equal(put_as(&other, by(&w, "eve")), BW_REFUSED_DENIED);
    world_close(&w);
    world_close(&other);
}

/* Older nodes can read a snapshot until it contains something they do not know. */
static void snapshot_format_equals_the_registry_level(void **state)
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
    static struct bw_entry_scratch room;
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

static void encoded_entry_names_its_requester(void **state)
{
    (void)state;
    struct bw_requester bob = {.kind = BW_REQUESTER_USER, .name = text("bob"), .since = 300};
    unsigned char list[BW_USER_BYTES];
    struct bw_user nobody = {.name = "cn"};
    struct bw_entry put = {.kind = BW_ENTRY_PUT, .put = {.key = text("k")}};
    struct bw_entry level = {.kind = BW_ENTRY_LEVEL, .level = 2};
    const struct bw_requester askers[] = {anybody, node, bob};
    for (unsigned i = 0; i < 3; i++) {
        put.by = level.by = askers[i];
        check_round_trip(&put);
        check_round_trip(&level);
        for (unsigned act = BW_USERS_ENABLE; act <= BW_USERS_ROLE_REVOKE; act++) {
            struct bw_entry entry = {
                .kind = BW_ENTRY_USERS,
                .by = askers[i],
                .users = {.act = (enum bw_users_act)act,
                          .user = act == BW_USERS_REMOVE ? nobody : user("eve", ROLE(ADMIN)),
                          .role = BW_ROLE_ROOT,
                          .list = {list, list_of(list, sizeof list, &nobody, 1)},
                          .role_name = "ops",
                          .perm = {BW_PERM_WRITE, {.key = text("a"), .end = text("b")}}}};
            check_round_trip(&entry);
        }
    }
}

static void invalid_names_are_rejected(void **state)
{
    (void)state;
    static struct bw_entry_scratch room;
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

static void names_use_every_allowed_character_and_have_a_length(void **state)
{
    (void)state;
    char name[BW_USER_NAME_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_true(bw_user_name_is_good(text("azAZ09._@-")));
    static const char *const beside[] = {"`", "{", "[", "/", ":", "^", "A\x40", "~"};
    for (unsigned i = 0; i < sizeof beside / sizeof beside[0]; i++)
        assert_int_equal(bw_user_name_is_good(text(beside[i])), i == 6);
    assert_false(bw_user_name_is_good(text(name)));
    name[BW_USER_NAME_MAX] = 0;
    assert_true(bw_user_name_is_good(text(name)));
}

static void users_are_bounded(void **state)
{
    (void)state;
    struct world w;
    char name[16];
    world_open(&w);
    for (unsigned i = 0; i < BW_USERS_MAX; i++) {
        snprintf(name, sizeof name, "u%05u", i);
        assert_int_equal(change(&w, anybody, BW_USERS_ADD, name, ROLE(OBSERVE), 0), 0);
    }
    assert_int_equal(change(&w, anybody, BW_USERS_ADD, "v", ROLE(OBSERVE), 0),
                     BW_REFUSED_USERS_FULL);
    assert_int_equal(change(&w, anybody, BW_USERS_ADD, "u00000", ROLE(OBSERVE), 0),
                     BW_REFUSED_USER_EXISTS);
    world_close(&w);
}

/* One user more than there may be; each is valid. */
static void a_list_with_too_many_users_is_not_imported(void **state)
{
    (void)state;
    struct world w;
    unsigned char *bytes = malloc((BW_USERS_MAX + 1) * 16);
    struct bw_writer out = {.at = bytes, .size = (BW_USERS_MAX + 1) * 16};
    char name[16];
    for (unsigned i = 0; i <= BW_USERS_MAX; i++) {
        struct bw_user one = {.roles = ROLE(ADMIN)};
        snprintf(name, sizeof name, "u%05u", i);
        strcpy(one.name, name);
        bw_user_write(&out, &one);
        if (i + 1 < BW_USERS_MAX)
            continue;
        struct bw_entry entry = {.kind = BW_ENTRY_USERS,
                                 .users = {.act = BW_USERS_IMPORT, .list = {bytes, out.used}}};
        world_open(&w);
        assert_int_equal(apply(&w, entry, anybody), i < BW_USERS_MAX ? 0 : BW_REFUSED_IMPORT);
        world_close(&w);
    }
    free(bytes);
}

static void the_last_admin_may_change_between_admin_roles(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_requester root = by(&w, "root");
    assert_int_equal(change(&w, root, BW_USERS_GRANT, "root", 0, BW_ROLE_ADMIN), 0);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "root", 0, BW_ROLE_ROOT), 0);
    assert_int_equal(change(&w, root, BW_USERS_REVOKE, "root", 0, BW_ROLE_ADMIN),
                     BW_REFUSED_LAST_ADMIN);
    world_close(&w);
}

static void damaged_users_are_rejected(void **state)
{
    (void)state;
    struct bw_user good = user("bob", ROLE(OBSERVE));
    unsigned char bytes[256];
    struct bw_writer out = {.at = bytes, .size = sizeof bytes};
    bw_user_write(&out, &good);
    struct bw_user read;
    struct bw_reader reader = {.at = bytes, .size = out.used};
    bw_user_read(&reader, &read);
    assert_false(reader.failed);
    bytes[4] = 1u << BW_ROLE_NONE; /* after the name and its length */
    reader = (struct bw_reader){.at = bytes, .size = out.used};
    bw_user_read(&reader, &read);
    assert_true(reader.failed);
    bytes[4] = good.roles;
    assert_int_equal(bytes[8], BW_USER_SALT);
    bytes[8]--; /* the salt is too short, and the hash begins a byte early */
    reader = (struct bw_reader){.at = bytes, .size = out.used};
    bw_user_read(&reader, &read);
    assert_true(reader.failed);
}

static void transaction_that_writes_anywhere_needs_the_role_for_writing(void **state)
{
    (void)state;
    struct world w;
    open_with_users(&w);
    struct bw_op read_op = {.kind = BW_OP_RANGE, .range = {.keys = {.key = text("k")}}};
    struct bw_op write_op = {.kind = BW_OP_PUT, .put = {.key = text("k")}};
    struct bw_op reads = {
        .kind = BW_OP_TXN,
        .txn = {.then = &read_op, .then_count = 1, .otherwise = &read_op, .otherwise_count = 1}};
    struct bw_op writes_then = reads, writes_otherwise = reads;
    writes_then.txn.then = &write_op;
    writes_otherwise.txn.otherwise = &write_op;
    const struct bw_op *inner[] = {&reads, &writes_then, &writes_otherwise, &read_op, &write_op};
    for (unsigned i = 0; i < 5; i++) {
        bool allowed = i == 0 || i == 3;
        for (int branch = 0; branch < 2; branch++) {
            struct bw_entry entry = {.kind = BW_ENTRY_TXN};
            entry.txn.then = branch ? inner[i] : &read_op;
            entry.txn.otherwise = branch ? &read_op : inner[i];
            entry.txn.then_count = entry.txn.otherwise_count = 1;
            assert_int_equal(apply(&w, entry, by(&w, "eve")), allowed ? 0 : BW_REFUSED_DENIED);
            assert_int_equal(apply(&w, entry, by(&w, "bob")), 0);
        }
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_allowed_while_users_are_disabled),
        cmocka_unit_test(each_entry_kind_requires_its_role),
        cmocka_unit_test(request_logged_after_user_removal_is_refused),
        cmocka_unit_test(new_password_invalidates_earlier_requests),
        cmocka_unit_test(role_changes_take_effect_at_their_log_position),
        cmocka_unit_test(last_admin_cannot_be_removed),
        cmocka_unit_test(user_list_is_imported_completely_and_once),
        cmocka_unit_test(users_survive_a_snapshot),
        cmocka_unit_test(snapshot_format_equals_the_registry_level),
        cmocka_unit_test(encoded_entry_names_its_requester),
        cmocka_unit_test(invalid_names_are_rejected),
        cmocka_unit_test(names_use_every_allowed_character_and_have_a_length),
        cmocka_unit_test(users_are_bounded),
        cmocka_unit_test(a_list_with_too_many_users_is_not_imported),
        cmocka_unit_test(the_last_admin_may_change_between_admin_roles),
        cmocka_unit_test(damaged_users_are_rejected),
        cmocka_unit_test(transaction_that_writes_anywhere_needs_the_role_for_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
