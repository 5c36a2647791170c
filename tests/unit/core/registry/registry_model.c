/* Compares the registry with a model that keeps every past state. After random changes every answer
 * must match; a registry loaded from a snapshot must give the same answers; watchers must receive
 * exactly the events of the model. */
#include "core/base/rng.h"
#include "core/registry/snapshot.h"
#include "core/registry/watch.h"
#include "registry_world.h"

#include <stdio.h>

#define KEYS   12u
#define ROUNDS 600u

struct model_key {
    bool there;
    int64_t create, mod, version, lease;
    unsigned value;
};

struct model {
    struct model_key at[ROUNDS + 2][KEYS]; /* by revision */
    bool lease[4];
    uint64_t binding[4]; /* of those leases */
    int64_t revision;
};

static void key_name(char *name, unsigned key)
{
    snprintf(name, 8, "k%c", 'a' + (int)key);
}

static void same_kv(const struct bw_kv *kv, unsigned key, const struct model_key *model)
{
    char name[8], value[16];
    key_name(name, key);
    snprintf(value, sizeof value, "%u", model->value);
    assert_true(says(bw_kv_key(kv), name));
    assert_true(says(bw_kv_value(kv), value));
    assert_int_equal(kv->create_revision, model->create);
    assert_int_equal(kv->mod_revision, model->mod);
    assert_int_equal(kv->version, model->version);
    assert_int_equal(kv->lease, model->lease);
}

static void same_state(struct world *w, const struct model *model, int64_t revision)
{
    struct bw_range all = {.keys = {.key = text("k"), .end = text("l")},
                           .revision = revision == model->revision ? 0 : revision};
    const struct bw_op_result *found = range(w, &all);
    unsigned at = 0;
    for (unsigned key = 0; key < KEYS; key++)
        if (model->at[revision][key].there) {
            assert_true(at < found->kv_count);
            same_kv(found->kvs[at++], key, &model->at[revision][key]);
        }
    assert_int_equal(at, found->kv_count);
}

/* A new revision starts as a copy of the previous one. */
static struct model_key *next_state(struct model *model)
{
    memcpy(model->at[model->revision + 1], model->at[model->revision], sizeof model->at[0]);
    return model->at[model->revision + 1];
}

static void model_put(struct model_key *key, int64_t revision, unsigned value, int64_t lease)
{
    key->create = key->there ? key->create : revision;
    key->version = key->there ? key->version + 1 : 1;
    key->there = true;
    key->mod = revision;
    key->value = value;
    key->lease = lease;
}

static bool model_drop(struct model_key *state, unsigned from, unsigned to, int64_t lease)
{
    bool any = false;
    for (unsigned key = from; key < to; key++)
        if (state[key].there && (lease == 0 || state[key].lease == lease)) {
            state[key] = (struct model_key){0};
            any = true;
        }
    return any;
}

static void random_put(struct world *w, struct model *model, struct bw_rng *rng, unsigned value)
{
    char name[8], digits[16];
    unsigned key = (unsigned)bw_rng_below(rng, KEYS);
    int64_t lease = (int64_t)bw_rng_below(rng, 4);
    if (lease && !model->lease[lease])
        lease = 0;
    key_name(name, key);
    snprintf(digits, sizeof digits, "%u", value);
    assert_int_equal(put_leased(w, name, digits, lease), 0);
    model_put(&next_state(model)[key], model->revision + 1, value, lease);
    model->revision++;
}

static void random_delete(struct world *w, struct model *model, struct bw_rng *rng)
{
    char from[8], to[8];
    unsigned first = (unsigned)bw_rng_below(rng, KEYS), count = (unsigned)bw_rng_below(rng, 4);
    key_name(from, first);
    key_name(to, first + count);
    delete_keys(w, (struct bw_keys){.key = text(from), .end = text(to)});
    unsigned end = first + count < KEYS ? first + count : KEYS;
    model->revision += model_drop(next_state(model), first, end, 0);
}

static void random_lease(struct world *w, struct model *model, struct bw_rng *rng)
{
    int64_t id = (int64_t)bw_rng_below(rng, 3) + 1;
    if (!model->lease[id]) {
        model->binding[id] = bw_rng_below(rng, 3);
        assert_int_equal(bw_registry_grant(w->registry, id, BW_SEC, model->binding[id]), 0);
    } else {
        assert_int_equal(bw_registry_revoke(w->registry, id, 0), 0);
        model->revision += model_drop(next_state(model), 0, KEYS, id);
    }
    model->lease[id] = !model->lease[id];
}

/* Moves a binding, or revokes by a binding, which may be outdated. */
static void random_binding(struct world *w, struct model *model, struct bw_rng *rng)
{
    int64_t id = (int64_t)bw_rng_below(rng, 3) + 1;
    uint64_t binding = bw_rng_below(rng, 3) + 1;
    enum bw_refusal expected = model->lease[id] ? BW_REFUSED_NONE : BW_REFUSED_NO_LEASE;
    if (bw_rng_below(rng, 2)) {
        assert_int_equal(bw_registry_bind(w->registry, id, binding), expected);
        model->binding[id] = binding;
        return;
    }
    assert_int_equal(bw_registry_revoke(w->registry, id, binding), expected);
    if (!model->lease[id] || model->binding[id] != binding)
        return;
    model->revision += model_drop(next_state(model), 0, KEYS, id);
    model->lease[id] = false;
}

static void same_leases(struct world *w, const struct model *model)
{
    struct bw_lease_view view;
    for (int64_t id = 1; id <= 3; id++) {
        assert_int_equal(bw_registry_lease(w->registry, id, &view), model->lease[id]);
        if (model->lease[id])
            assert_int_equal(view.binding, model->binding[id]);
    }
}

static void random_change(struct world *w, struct model *model, struct bw_rng *rng, unsigned round)
{
    switch (bw_rng_below(rng, 7)) {
    case 0:
        random_delete(w, model, rng);
        break;
    case 1:
        random_lease(w, model, rng);
        break;
    case 2:
        random_binding(w, model, rng);
        break;
    default:
        random_put(w, model, rng, round);
        break;
    }
    assert_int_equal(revision_of(w), model->revision);
    same_leases(w, model);
}

/* Saves in pieces of one size and loads in pieces of another. */
static void copy_world(struct world *from, struct world *to, struct bw_rng *rng)
{
    static unsigned char piece[BW_SNAPSHOT_PIECE_MAX], all[1 << 21];
    struct bw_saving saving;
    struct bw_loading loading = {0};
    size_t length = 0, used = 0, size;
    world_open(to);
    bw_registry_save_begin(from->registry, &saving);
    while ((size = bw_registry_save(from->registry, &saving, piece, sizeof piece)) > 0) {
        memcpy(all + length, piece, size);
        length += size;
    }
    size_t given = 0;
    while (!loading.ended) {
        given = given + 1 + bw_rng_below(rng, 200);
        given = given < length ? given : length;
        int64_t took = bw_registry_load(to->registry, &loading, all + used, given - used);
        assert_true(took >= 0);
        used += (size_t)took;
    }
    assert_int_equal(used, length);
}

static void answers_match_the_model_now_and_in_the_past(void **state)
{
    (void)state;
    static struct model model;
    struct world w, copy;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct bw_rng rng;
        bw_rng_init(&rng, seed);
        memset(&model, 0, sizeof model);
        model.revision = 1;
        world_open(&w);
        for (unsigned round = 0; round < ROUNDS; round++) {
            random_change(&w, &model, &rng, round);
            same_state(&w, &model, model.revision);
            if (round % 50 == 49) {
                same_state(&w, &model, 1 + (int64_t)bw_rng_below(&rng, (uint64_t)model.revision));
                copy_world(&w, &copy, &rng);
                same_leases(&copy, &model);
                for (int64_t revision = 1; revision <= model.revision; revision += 7)
                    same_state(&copy, &model, revision);
                world_close(&w);
                w = copy; /* continue with the loaded registry */
                w.results.ops = w.ops;
                w.results.kvs = w.kvs;
            }
        }
        world_close(&w);
    }
}

static void watcher_receives_every_event_once_and_in_order(void **state)
{
    (void)state;
    static struct model model;
    struct world w;
    struct bw_watches *watches;
    struct bw_kv_event event;
    struct bw_rng rng;
    void *memory = calloc(1, bw_watches_bytes(100));
    memset(&model, 0, sizeof model);
    model.revision = 1;
    bw_rng_init(&rng, 7);
    world_open(&w);
    assert_int_equal(bw_watches_init(&watches, memory, bw_watches_bytes(100), 100), 0);
    /* One watcher per key and one for the range; each counts its events. */
    bw_ref refs[KEYS + 1];
    unsigned heard[KEYS + 1] = {0}, happened[KEYS + 1] = {0};
    int64_t last[KEYS + 1] = {0};
    char name[8];
    for (unsigned i = 0; i <= KEYS; i++) {
        key_name(name, i < KEYS ? i : 0);
        struct bw_watcher_spec watch = {
            .keys = {.key = text(name)}, .owner = &heard[i], .start = i % 2};
        if (i == KEYS)
            watch.keys.end = text("kd");
        refs[i] = bw_watcher_add(watches, w.registry, &watch);
        assert_true(refs[i] != 0);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        random_change(&w, &model, &rng, round);
        bw_watches_scan(watches, w.registry);
        if (bw_rng_below(&rng, 3))
            continue; /* several changes at once */
        bw_ref ref;
        while ((ref = bw_watches_ready(watches))) {
            unsigned who = (unsigned)((unsigned *)bw_watcher_owner(watches, ref) - heard);
            assert_int_equal(refs[who], ref);
            while (bw_watcher_next(watches, w.registry, ref, &event) == BW_WATCHER_EVENT) {
                heard[who]++;
                assert_true(event.revision >= last[who]);
                last[who] = event.revision;
            }
        }
    }
    for (uint64_t i = 0; bw_registry_event(w.registry, i, &event); i++) {
        unsigned key = (unsigned)(event.kv->bytes[1] - 'a');
        happened[key]++;
        happened[KEYS] += key < 3;
    }
    bw_ref ref;
    while ((ref = bw_watches_ready(watches)))
        while (bw_watcher_next(watches, w.registry, ref, &event) == BW_WATCHER_EVENT)
            (*(unsigned *)bw_watcher_owner(watches, ref))++;
    for (unsigned i = 0; i <= KEYS; i++) {
        assert_int_equal(heard[i], happened[i]);
        bw_watcher_remove(watches, refs[i]);
    }
    world_close(&w);
    free(memory);
}

static void late_watcher_receives_compacted(void **state)
{
    (void)state;
    struct world w;
    struct bw_watches *watches;
    struct bw_kv_event event;
    void *memory = calloc(1, bw_watches_bytes(2));
    world_open(&w);
    assert_int_equal(bw_watches_init(&watches, memory, bw_watches_bytes(2), 2), 0);
    put(&w, "a", "1");
    put(&w, "a", "2");
    put(&w, "a", "3");
    bw_registry_compact(w.registry, 4);
    struct bw_watcher_spec watch = {.keys = {.key = text("a")}, .start = 3};
    bw_ref late = bw_watcher_add(watches, w.registry, &watch);
    watch.start = 4;
    bw_ref right = bw_watcher_add(watches, w.registry, &watch);
    assert_int_equal(bw_watcher_add(watches, w.registry, &watch), 0); /* a third watcher does not
                                                                       * fit */
    assert_int_equal(bw_watches_ready(watches), late);
    assert_int_equal(bw_watcher_next(watches, w.registry, late, &event), BW_WATCHER_COMPACTED);
    bw_watcher_remove(watches, late);
    assert_int_equal(bw_watches_ready(watches), right);
    assert_int_equal(bw_watcher_next(watches, w.registry, right, &event), BW_WATCHER_EVENT);
    assert_int_equal(event.revision, 4);
    assert_int_equal(bw_watcher_next(watches, w.registry, right, &event), BW_WATCHER_NOTHING);
    /* An idle watcher misses nothing while the history moves on. */
    for (int i = 0; i < 3000; i++)
        put(&w, "b", "x");
    bw_watches_scan(watches, w.registry);
    assert_int_equal(bw_watches_ready(watches), 0);
    put(&w, "a", "4");
    bw_watches_scan(watches, w.registry);
    assert_int_equal(bw_watches_ready(watches), right);
    assert_int_equal(bw_watcher_next(watches, w.registry, right, &event), BW_WATCHER_EVENT);
    assert_true(says(bw_kv_value(event.kv), "4"));
    world_close(&w);
    free(memory);
}

static void damaged_snapshots_are_refused(void **state)
{
    (void)state;
    static unsigned char good[BW_SNAPSHOT_PIECE_MAX], bad[BW_SNAPSHOT_PIECE_MAX];
    struct world w, other;
    struct bw_saving saving;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    world_open(&w);
    bw_registry_grant(w.registry, 4, BW_SEC, 9);
    put_leased(&w, "a", "1", 4);
    put(&w, "b", "2");
    delete_keys(&w, (struct bw_keys){.key = text("b")});
    bw_registry_save_begin(w.registry, &saving);
    size_t length = bw_registry_save(w.registry, &saving, good, sizeof good);
    for (unsigned round = 0; round < 300; round++) {
        struct bw_loading loading = {0};
        memcpy(bad, good, length);
        bad[bw_rng_below(&rng, length)] ^= (unsigned char)(1u << bw_rng_below(&rng, 8));
        world_open(&other);
        int64_t took = bw_registry_load(other.registry, &loading, bad, length);
        assert_true(took <= (int64_t)length); /* rejected, truncated, or another valid state */
        world_close(&other);
    }
    world_close(&w);
}

static void encoded_entries_decode_and_invalid_bytes_are_rejected(void **state)
{
    (void)state;
    static struct bw_entry_scratch room;
    struct bw_compare compare = {.what = BW_COMPARE_VALUE,
                                 .how = BW_COMPARE_NOT_EQUAL,
                                 .keys = {.key = text("k"), .end = text("l")},
                                 .number = -1,
                                 .value = text("v")};
    struct bw_op ops[] = {
        {.kind = BW_OP_PUT,
         .put = {.key = text("a"), .value = text("b"), .lease = INT64_MAX, .ignore_lease = true}},
        {.kind = BW_OP_DELETE, .delete = {.keys = {.key = text("c")}, .previous = true}},
        {.kind = BW_OP_RANGE,
         .range = {.keys = {.key = text("d")},
                   .limit = 5,
                   .order = BW_SORT_DESCEND,
                   .target = BW_SORT_MOD,
                   .create_max = 9}}};
    struct bw_entry entry = {.kind = BW_ENTRY_TXN,
                             .txn = {.compares = &compare,
                                     .compare_count = 1,
                                     .then = ops,
                                     .then_count = 3,
                                     .otherwise = ops + 1,
                                     .otherwise_count = 1}};
    unsigned char bytes[256], again[256];
    struct bw_entry read;
    int length = bw_entry_encode(&entry, bytes, sizeof bytes);
    assert_true(length > 0);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), 0);
    assert_int_equal(read.txn.then_count, 3);
    assert_int_equal(read.txn.then[2].range.create_max, 9);
    assert_int_equal(read.txn.compares[0].number, -1);
    assert_int_equal(bw_entry_encode(&read, again, sizeof again), length);
    assert_memory_equal(bytes, again, (size_t)length);
    for (int cut = 0; cut < length; cut++) {
        assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)cut), BW_EMALFORMED);
        assert_int_equal(bw_entry_encode(&entry, again, (size_t)cut), BW_ELIMIT);
    }
    bytes[length] = 0;
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length + 1), BW_EMALFORMED);
    bytes[0] = 99;
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), BW_EMALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_match_the_model_now_and_in_the_past),
        cmocka_unit_test(watcher_receives_every_event_once_and_in_order),
        cmocka_unit_test(late_watcher_receives_compacted),
        cmocka_unit_test(damaged_snapshots_are_refused),
        cmocka_unit_test(encoded_entries_decode_and_invalid_bytes_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
