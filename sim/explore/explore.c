/* The breadth-first search; see explore.h.
 *
 * Slots are claimed with a compare-and-swap of `low`; `high` follows. A reader that finds its own
 * `low` waits for `high`, which takes a few instructions. Images lie in blocks of BLOCK bytes; each
 * process fills its own block and takes whole blocks for expansion. */
#include "sim/explore/explore.h"

#include "core/base/assert.h"
#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "sim/explore/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)262144)

struct block_head { /* at the start of a block */
    uint32_t used;  /* bytes, with this head */
};

struct record_head {
    uint32_t slot, length;
};

/* ---- the set of states ---- */

static XXH128_hash_t fingerprint(struct bw_explore_worker *worker)
{
    struct bw_digest digest = {
        .at = worker->words, .cap = BW_EXPLORE_DIGEST_MAX, .next = BW_TIME_NEVER};
    worker->target->digest(worker->state, &digest);
    XXH128_hash_t hash = XXH3_128bits(digest.at, digest.count * sizeof digest.at[0]);
    hash.low64 |= hash.low64 == 0;
    hash.high64 |= hash.high64 == 0;
    return hash;
}

static uint64_t wait_for_high(struct bw_explore_slot *slot)
{
    uint64_t high;
    do
        high = atomic_load_explicit(&slot->high, memory_order_acquire);
    while (high == 0);
    return high;
}

/* Adds the state if it is new. Returns its slot, or BW_EXPLORE_ROOT if it was known. */
static uint32_t insert(struct bw_explore *shared, XXH128_hash_t hash, uint32_t parent,
                       struct bw_explore_action action)
{
    uint64_t mask = shared->slots - 1;
    for (uint64_t i = hash.low64 & mask;; i = (i + 1) & mask) {
        struct bw_explore_slot *slot = &shared->table[i];
        uint64_t low = atomic_load_explicit(&slot->low, memory_order_relaxed);
        if (low == 0 && atomic_compare_exchange_strong(&slot->low, &low, hash.low64)) {
            slot->parent = parent;
            slot->action = action;
            atomic_store_explicit(&slot->high, hash.high64, memory_order_release);
            atomic_fetch_add_explicit(&shared->states, 1, memory_order_relaxed);
            return (uint32_t)i;
        }
        if (low == hash.low64 && wait_for_high(slot) == hash.high64)
            return BW_EXPLORE_ROOT;
    }
}

static void run_out(struct bw_explore *shared)
{
    atomic_store(&shared->full, true);
    atomic_store(&shared->stop, true);
}

static bool table_is_full(const struct bw_explore *shared)
{
    return atomic_load_explicit(&shared->states, memory_order_relaxed) >
           shared->slots - shared->slots / 8;
}

/* ---- images of the next depth ---- */

static struct bw_explore_layer *layer_of(struct bw_explore *shared, uint32_t depth)
{
    return &shared->layer[depth % 2];
}

static unsigned char *block_at(struct bw_explore *shared, uint32_t depth, uint64_t i)
{
    return shared->images + ((depth % 2) * shared->blocks + i) * BLOCK;
}

/* Returns `size` bytes at the end of the worker's block; NULL: no memory is left. */
static unsigned char *take_space(struct bw_explore_worker *worker, size_t size)
{
    struct bw_explore *shared = worker->shared;
    struct block_head *head = (struct block_head *)(void *)worker->block;
    if (!worker->block || head->used + size > BLOCK) {
        uint64_t i = atomic_fetch_add(&layer_of(shared, shared->depth + 1)->used, 1);
        if (i >= shared->blocks)
            return NULL;
        worker->block = block_at(shared, shared->depth + 1, i);
        head = (struct block_head *)(void *)worker->block;
        head->used = sizeof *head;
    }
    unsigned char *at = worker->block + head->used;
    head->used += (uint32_t)size;
    return at;
}

static void keep_image(struct bw_explore_worker *worker, uint32_t slot)
{
    struct bw_explore *shared = worker->shared;
    unsigned char *packed = worker->scratch, *code = packed + worker->packed;
    bw_image_gather(worker, packed);
    size_t length = bw_image_encode(packed, worker->first, worker->packed, code);
    struct record_head head = {.slot = slot, .length = (uint32_t)length};
    unsigned char *at = take_space(worker, sizeof head + length);
    if (!at) {
        run_out(shared);
        return;
    }
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, code, length);
    atomic_fetch_add_explicit(&shared->image_bytes, length, memory_order_relaxed);
    atomic_fetch_add_explicit(&shared->images_count, 1, memory_order_relaxed);
}

/* ---- expansion ---- */

static void report(struct bw_explore *shared, struct bw_explore_try what, const char *why)
{
    atomic_store(&shared->stop, true);
    if (atomic_flag_test_and_set(&shared->claimed))
        return;
    shared->violation = what;
    snprintf(shared->why, sizeof shared->why, "%s", why);
    atomic_store(&shared->violated, !atomic_load(&shared->broken));
}

void bw_explore_died(struct bw_explore *shared, uint32_t index, const char *why)
{
    report(shared, shared->current[index], why);
}

static void try_action(struct bw_explore_worker *worker, uint32_t from,
                       struct bw_explore_action action)
{
    struct bw_explore *shared = worker->shared;
    char why[BW_EXPLORE_WHY] = "";
    struct bw_explore_try what = {.parent = from, .action = action};
    shared->current[worker->index] = what;
    bw_image_scatter(worker, worker->base);
    enum bw_explore_result result = worker->target->apply(worker->state, action, why);
    atomic_fetch_add_explicit(&shared->steps, 1, memory_order_relaxed);
    if (result == BW_EXPLORE_IMPOSSIBLE)
        return;
    if (result == BW_EXPLORE_BROKEN)
        atomic_store(&shared->broken, true);
    if (result == BW_EXPLORE_VIOLATION || result == BW_EXPLORE_BROKEN) {
        report(shared, what, why);
        return;
    }
    uint32_t slot = insert(shared, fingerprint(worker), from, action);
    if (slot == BW_EXPLORE_ROOT)
        return;
    if (table_is_full(shared))
        run_out(shared);
    else if (shared->depth + 1 < shared->depth_max)
        keep_image(worker, slot);
    else
        atomic_store_explicit(&layer_of(shared, shared->depth + 1)->used, 1, memory_order_relaxed);
}

static void expand_state(struct bw_explore_worker *worker, uint32_t slot, const unsigned char *code)
{
    struct bw_explore_action choices[BW_EXPLORE_CHOICES_MAX];
    bw_image_decode(code, worker->first, worker->packed, worker->base);
    bw_image_scatter(worker, worker->base);
    uint32_t count = worker->target->choices(worker->state, choices);
    for (uint32_t i = 0; i < count; i++)
        try_action(worker, slot, choices[i]);
}

static void expand_block(struct bw_explore_worker *worker, const unsigned char *block)
{
    const struct block_head *head = (const struct block_head *)(const void *)block;
    for (size_t at = sizeof *head; at < head->used && !atomic_load(&worker->shared->stop);) {
        struct record_head record;
        memcpy(&record, block + at, sizeof record);
        expand_state(worker, record.slot, block + at + sizeof record);
        at += sizeof record + record.length;
    }
}

void bw_explore_expand(struct bw_explore_worker *worker)
{
    struct bw_explore *shared = worker->shared;
    struct bw_explore_layer *layer = layer_of(shared, shared->depth);
    worker->block = NULL;
    while (!atomic_load(&shared->stop)) {
        uint64_t i = atomic_fetch_add(&layer->taken, 1);
        if (i >= atomic_load(&layer->used))
            return;
        expand_block(worker, block_at(shared, shared->depth, i));
    }
}

bool bw_explore_exhausted(const struct bw_explore *shared)
{
    return atomic_load(&shared->layer[shared->depth % 2].used) == 0;
}

bool bw_explore_deeper(struct bw_explore *shared)
{
    struct bw_explore_layer *done = layer_of(shared, shared->depth);
    if (atomic_load(&shared->stop))
        return false;
    atomic_store(&done->used, 0);
    atomic_store(&done->taken, 0);
    shared->depth++;
    return shared->depth < shared->depth_max && !bw_explore_exhausted(shared);
}

/* ---- begin and end ---- */

static uint64_t power_of_two(uint64_t most)
{
    uint64_t power = 1;
    while (power * 2 <= most)
        power *= 2;
    return power;
}

/* Half of the memory or less goes to the table, the rest to the images. */
static int lay_out(struct bw_explore *shared, size_t bytes)
{
    size_t space = bytes - sizeof *shared;
    shared->slots = power_of_two(space / 2 / sizeof *shared->table);
    shared->table = (struct bw_explore_slot *)(void *)(shared + 1);
    if (shared->slots > UINT32_MAX)
        shared->slots = power_of_two(UINT32_MAX);
    space -= shared->slots * sizeof *shared->table;
    shared->images = (unsigned char *)(shared->table + shared->slots);
    shared->blocks = space / 2 / BLOCK;
    return shared->blocks > 0 ? 0 : BW_ENOMEM;
}

static int measure(struct bw_explore_worker *worker)
{
    worker->spans_count = worker->target->spans(worker->state, worker->spans);
    for (uint32_t i = 0; i < worker->spans_count; i++) {
        BW_ASSERT(worker->spans[i].length % 8 == 0);
        worker->packed += worker->spans[i].length;
    }
    BW_ASSERT(bw_image_bound(worker->packed) + sizeof(struct record_head) < BLOCK / 2);
    worker->first = malloc(worker->packed);
    worker->base = malloc(worker->packed);
    worker->scratch = malloc(worker->packed + bw_image_bound(worker->packed));
    worker->words = malloc(BW_EXPLORE_DIGEST_MAX * sizeof worker->words[0]);
    return worker->first && worker->base && worker->scratch && worker->words ? 0 : BW_ENOMEM;
}

static int begin(struct bw_explore_worker *worker, const struct bw_explore_options *options)
{
    struct bw_explore *shared = worker->shared;
    size_t bytes = worker->target->bytes(options);
    worker->state = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!worker->state)
        return BW_ENOMEM;
    memset(worker->state, 0, bytes);
    const char *wrong = worker->target->begin(worker->state, options, shared->why);
    if (wrong)
        return BW_EINVAL;
    int error = measure(worker);
    if (error)
        return error;
    bw_image_gather(worker, worker->first);
    uint32_t root =
        insert(shared, fingerprint(worker), BW_EXPLORE_ROOT, (struct bw_explore_action){0});
    shared->depth = UINT32_MAX; /* the first image belongs to depth 0 */
    keep_image(worker, root);
    shared->depth = 0;
    return atomic_load(&shared->full) ? BW_ENOMEM : 0;
}

int bw_explore_open(struct bw_explore_worker *worker, const struct bw_explore_target *target,
                    const struct bw_explore_options *options, void *memory, size_t bytes,
                    uint32_t depth)
{
    *worker = (struct bw_explore_worker){.target = target, .shared = memory};
    if (bytes < sizeof(struct bw_explore) + 4 * BLOCK)
        return BW_ENOMEM;
    worker->shared->depth_max = depth;
    int error = lay_out(worker->shared, bytes);
    return error ? error : begin(worker, options);
}

void bw_explore_close(struct bw_explore_worker *worker)
{
    free(worker->state);
    free(worker->first);
    free(worker->base);
    free(worker->scratch);
    free(worker->words);
    *worker = (struct bw_explore_worker){0};
}

/* ---- traces ---- */

uint32_t bw_explore_trace(const struct bw_explore *shared, struct bw_explore_action *out,
                          uint32_t cap)
{
    uint32_t count = 1;
    BW_ASSERT(cap > shared->depth_max);
    out[0] = shared->violation.action;
    for (uint32_t at = shared->violation.parent; shared->table[at].parent != BW_EXPLORE_ROOT;
         at = shared->table[at].parent)
        out[count++] = shared->table[at].action;
    for (uint32_t i = 0; i < count / 2; i++) {
        struct bw_explore_action other = out[i];
        out[i] = out[count - 1 - i];
        out[count - 1 - i] = other;
    }
    return count;
}

static uint8_t *argument(struct bw_explore_action *action, char letter)
{
    return letter == 'A' ? &action->a : letter == 'B' ? &action->b : &action->c;
}

void bw_explore_print(const struct bw_explore_target *target, struct bw_explore_action action,
                      char *out, size_t size)
{
    const struct bw_explore_verb *verb = &target->verbs[action.kind];
    int length = snprintf(out, size, "%s%s", verb->name, verb->form[0] ? " " : "");
    for (const char *at = verb->form; *at && length > 0 && (size_t)length < size; at++) {
        bool letter = *at >= 'A' && *at <= 'C';
        length += letter
                      ? snprintf(out + length, size - (size_t)length, "%u", *argument(&action, *at))
                      : snprintf(out + length, size - (size_t)length, "%c", *at);
    }
}

/* Reads the arguments of `form` from `text`. */
static int parse_form(const char *form, const char *text, struct bw_explore_action *out)
{
    for (; *form; form++) {
        if (*form < 'A' || *form > 'C') {
            if (*text++ != *form)
                return BW_EINVAL;
            continue;
        }
        size_t digits = strspn(text, "0123456789");
        uint64_t value;
        if (digits == 0 || bw_text_number(text, digits, UINT8_MAX, &value) != 0)
            return BW_EINVAL;
        *argument(out, *form) = (uint8_t)value;
        text += digits;
    }
    return *text ? BW_EINVAL : 0;
}

int bw_explore_parse(const struct bw_explore_target *target, const char *text,
                     struct bw_explore_action *out)
{
    size_t word = strcspn(text, " ");
    for (uint32_t i = 0; i < target->verbs_count; i++) {
        const struct bw_explore_verb *verb = &target->verbs[i];
        if (strlen(verb->name) != word || memcmp(verb->name, text, word) != 0)
            continue;
        *out = (struct bw_explore_action){.kind = (uint8_t)i};
        return parse_form(verb->form, text + word + (text[word] == ' '), out);
    }
    return BW_EINVAL;
}
