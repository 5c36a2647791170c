/* The digests of the explorer's targets: states with the same digest must have the same successors.
 * Otherwise the explorer goes on from only one of them, and from which one depends on the order of
 * the search. Explores each target to a small depth. When it reaches a known digest with other
 * bytes, it compares the digests of all successors of both states. */
#include "unit/unit.h"

#include "sim/explore/explore.h"
#include "sim/explore/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

#define MEMORY ((size_t)4 << 20)
#define SLOTS  (1u << 17)

static const struct {
    const char *target;
    uint32_t depth;
} depths[] = {{"raft", 5},    {"raft-reconfigure", 5}, {"guard", 5},     {"lease", 6}, {"found", 4},
              {"session", 3}, {"found-return", 6},     {"guardian", 10}, {"shards", 5}};

struct known {
    XXH128_hash_t digest;
    unsigned char *code; /* image of the first state with this digest; NULL: the slot is free */
    size_t length;
    uint32_t depth;
};

struct search {
    struct bw_explore_worker worker;
    struct known *table;
    uint32_t *order; /* slots in the order of discovery */
    uint32_t count;
    unsigned char *packed, *code; /* scratch */
    uint32_t compared;
};

struct successors {
    XXH128_hash_t digest[BW_EXPLORE_CHOICES_MAX]; /* sorted, without repetitions */
    uint32_t count;
};

static XXH128_hash_t digest_of(struct bw_explore_worker *worker)
{
    struct bw_digest digest = {
        .at = worker->words, .cap = BW_EXPLORE_DIGEST_MAX, .next = BW_TIME_NEVER};
    worker->target->digest(worker->state, &digest);
    return XXH3_128bits(digest.at, digest.count * sizeof digest.at[0]);
}

static struct known *find(struct search *s, XXH128_hash_t digest)
{
    uint64_t i = digest.low64 % SLOTS;
    while (s->table[i].code && !XXH128_isEqual(s->table[i].digest, digest))
        i = (i + 1) % SLOTS;
    return &s->table[i];
}

/* Carries out the action in the state that `code` describes. Returns false if it is impossible. */
static bool go(struct search *s, const unsigned char *code, struct bw_explore_action action)
{
    struct bw_explore_worker *worker = &s->worker;
    char why[BW_EXPLORE_WHY] = "";
    bw_image_decode(code, worker->first, worker->packed, worker->base);
    bw_image_scatter(worker, worker->base);
    enum bw_explore_result result = worker->target->apply(worker->state, action, why);
    if (result != BW_EXPLORE_DONE && result != BW_EXPLORE_IMPOSSIBLE)
        fail_msg("%s: %s", worker->target->name, why);
    return result == BW_EXPLORE_DONE;
}

static uint32_t choose(struct search *s, const unsigned char *code, struct bw_explore_action *out)
{
    bw_image_decode(code, s->worker.first, s->worker.packed, s->worker.base);
    bw_image_scatter(&s->worker, s->worker.base);
    return s->worker.target->choices(s->worker.state, out);
}

static void add_successor(struct successors *to, XXH128_hash_t digest)
{
    uint32_t i = to->count;
    while (i > 0 && XXH128_cmp(&to->digest[i - 1], &digest) > 0)
        i--;
    if (i > 0 && XXH128_isEqual(to->digest[i - 1], digest))
        return;
    memmove(&to->digest[i + 1], &to->digest[i], (to->count - i) * sizeof to->digest[0]);
    to->digest[i] = digest;
    to->count++;
}

static void find_successors(struct search *s, const unsigned char *code, struct successors *out)
{
    struct bw_explore_action choices[BW_EXPLORE_CHOICES_MAX];
    uint32_t count = choose(s, code, choices);
    out->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (go(s, code, choices[i]))
            add_successor(out, digest_of(&s->worker));
}

static void compare(struct search *s, const struct known *known, struct bw_explore_action action)
{
    static struct successors a, b;
    char text[BW_EXPLORE_TEXT];
    find_successors(s, known->code, &a);
    find_successors(s, s->code, &b);
    s->compared++;
    if (a.count == b.count && memcmp(a.digest, b.digest, a.count * sizeof a.digest[0]) == 0)
        return;
    bw_explore_print(s->worker.target, action, text, sizeof text);
    fail_msg("%s: two states with one digest differ in what can follow (depth %u, last action %s)",
             s->worker.target->name, known->depth, text);
}

/* The state of the worker was reached by `action`. */
static void visit(struct search *s, uint32_t depth, struct bw_explore_action action)
{
    struct known *known = find(s, digest_of(&s->worker));
    bw_image_gather(&s->worker, s->packed);
    size_t length = bw_image_encode(s->packed, s->worker.first, s->worker.packed, s->code);
    if (known->code) {
        if (known->length != length || memcmp(known->code, s->code, length) != 0)
            compare(s, known, action);
        return;
    }
    *known = (struct known){
        .digest = digest_of(&s->worker), .code = malloc(length), .length = length, .depth = depth};
    assert_non_null(known->code);
    memcpy(known->code, s->code, length);
    s->order[s->count++] = (uint32_t)(known - s->table);
    assert_true(s->count < SLOTS / 2);
}

static void expand(struct search *s, const struct known *from)
{
    struct bw_explore_action choices[BW_EXPLORE_CHOICES_MAX];
    uint32_t count = choose(s, from->code, choices);
    for (uint32_t i = 0; i < count; i++)
        if (go(s, from->code, choices[i]))
            visit(s, from->depth + 1, choices[i]);
}

static void explore(const struct bw_explore_target *target, uint32_t depth)
{
    struct search s = {.table = calloc(SLOTS, sizeof *s.table),
                       .order = calloc(SLOTS, sizeof *s.order)};
    struct bw_explore_options options = {0};
    void *memory = calloc(1, MEMORY);
    assert_int_equal(bw_explore_open(&s.worker, target, &options, memory, MEMORY, 1), 0);
    s.packed = malloc(s.worker.packed);
    s.code = malloc(bw_image_bound(s.worker.packed));
    visit(&s, 0, (struct bw_explore_action){0});
    for (uint32_t i = 0; i < s.count && s.table[s.order[i]].depth < depth; i++)
        expand(&s, &s.table[s.order[i]]);
    assert_true(s.compared > 0);
    for (uint32_t i = 0; i < s.count; i++)
        free(s.table[s.order[i]].code);
    free(s.packed);
    free(s.code);
    free(s.table);
    free(s.order);
    bw_explore_close(&s.worker);
    free(memory);
}

static void states_with_one_digest_have_the_same_successors(void **state)
{
    (void)state;
    unsigned count = sizeof depths / sizeof depths[0];
    assert_null(bw_explore_at(count)); /* each target has its depth */
    for (unsigned i = 0; i < count; i++)
        explore(bw_explore_find(depths[i].target), depths[i].depth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_with_one_digest_have_the_same_successors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
