/* The engine of the explorer on a puzzle whose answers are known: two processes increment a counter
 * by reading it and then writing it. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "sim/explore/explore.h"
#include "sim/explore/image.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY ((size_t)64 << 20)

enum { READ, WRITE, ADVANCE };

struct puzzle {
    uint64_t counter;
    uint64_t seen[2], stage[2]; /* 0: to read, 1: to write, 2: done */
};

static bool judged; /* a lost increment is a violation */

static const struct bw_explore_verb verbs[] = {{"read", "A"}, {"write", "A>B C"}, {"advance", ""}};

static size_t bytes(const struct bw_explore_options *options)
{
    (void)options;
    return sizeof(struct puzzle);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): other targets write to why */
static const char *begin(void *state, const struct bw_explore_options *options, char *why)
{
    (void)options;
    (void)why;
    ((struct puzzle *)state)->counter = 7;
    return NULL;
}

static uint32_t spans(const void *state, struct bw_explore_span *out)
{
    (void)state;
    *out = (struct bw_explore_span){.length = sizeof(struct puzzle)};
    return 1;
}

static uint32_t choices(void *state, struct bw_explore_action *out)
{
    const struct puzzle *p = state;
    uint32_t count = 0;
    for (uint8_t i = 0; i < 2; i++)
        if (p->stage[i] < 2)
            out[count++] = (struct bw_explore_action){.kind = p->stage[i] ? WRITE : READ, .a = i};
    return count;
}

static enum bw_explore_result apply(void *state, struct bw_explore_action action, char *why)
{
    struct puzzle *p = state;
    if (action.kind == READ)
        p->seen[action.a] = p->counter;
    else
        p->counter = p->seen[action.a] + 1;
    p->stage[action.a]++;
    if (!judged || p->stage[0] + p->stage[1] < 4 || p->counter == 9)
        return BW_EXPLORE_DONE;
    strcpy(why, "an increment is lost");
    return BW_EXPLORE_VIOLATION;
}

static void digest(void *state, struct bw_digest *out)
{
    const struct puzzle *p = state;
    bw_digest_add(out, p->counter);
    for (int i = 0; i < 2; i++) {
        bw_digest_add(out, p->stage[i]);
        bw_digest_add(out, p->stage[i] == 1 ? p->seen[i] : 0);
    }
}

static const struct bw_explore_target puzzle = {.name = "puzzle",
                                                .verbs = verbs,
                                                .verbs_count = 3,
                                                .bytes = bytes,
                                                .begin = begin,
                                                .spans = spans,
                                                .choices = choices,
                                                .apply = apply,
                                                .digest = digest};

static void explore(struct bw_explore_worker *worker, void *memory, uint32_t depth)
{
    struct bw_explore_options options = {0};
    memset(memory, 0, MEMORY);
    assert_int_equal(bw_explore_open(worker, &puzzle, &options, memory, MEMORY, depth), 0);
    do
        bw_explore_expand(worker);
    while (bw_explore_deeper(worker->shared));
}

static void every_state_is_visited_once(void **state)
{
    struct bw_explore_worker worker;
    void *memory = malloc(MEMORY);
    (void)state;
    judged = false;
    explore(&worker, memory, 10);
    /* One state per pair of stages. (1,2) and (2,1) exist with both values that a process may have
     * read, and (2,2) with both results. */
    assert_int_equal(worker.shared->states, 12);
    assert_true(bw_explore_exhausted(worker.shared));
    assert_int_equal(worker.shared->depth, 5);
    bw_explore_close(&worker);
    explore(&worker, memory, 2);
    assert_false(bw_explore_exhausted(worker.shared));
    assert_int_equal(worker.shared->states, 6);
    bw_explore_close(&worker);
    free(memory);
}

static void violation_has_a_shortest_trace_that_replays(void **state)
{
    struct bw_explore_worker worker;
    struct bw_explore_action trace[BW_EXPLORE_DEPTH_MAX + 2];
    struct puzzle again = {.counter = 7};
    char why[BW_EXPLORE_WHY];
    void *memory = malloc(MEMORY);
    (void)state;
    judged = true;
    explore(&worker, memory, 10);
    assert_true(worker.shared->violated);
    assert_string_equal(worker.shared->why, "an increment is lost");
    assert_int_equal(bw_explore_trace(worker.shared, trace, BW_EXPLORE_DEPTH_MAX + 2), 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(apply(&again, trace[i], why), BW_EXPLORE_DONE);
    assert_int_equal(apply(&again, trace[3], why), BW_EXPLORE_VIOLATION);
    bw_explore_close(&worker);
    free(memory);
}

static void step_that_dies_is_reported_with_its_trace(void **state)
{
    struct bw_explore_worker worker;
    struct bw_explore_action trace[BW_EXPLORE_DEPTH_MAX + 2];
    struct bw_explore_options options = {0};
    void *memory = calloc(1, MEMORY);
    (void)state;
    judged = false;
    assert_int_equal(bw_explore_open(&worker, &puzzle, &options, memory, MEMORY, 10), 0);
    bw_explore_expand(&worker);
    bw_explore_died(worker.shared, 0, "trapped");
    assert_false(bw_explore_deeper(worker.shared));
    assert_int_equal(bw_explore_trace(worker.shared, trace, BW_EXPLORE_DEPTH_MAX + 2), 1);
    assert_int_equal(trace[0].a, 1); /* the last action that was tried */
    bw_explore_close(&worker);
    free(memory);
}

static void too_little_memory_is_an_error(void **state)
{
    struct bw_explore_worker worker;
    struct bw_explore_options options = {0};
    char memory[64];
    (void)state;
    assert_int_equal(bw_explore_open(&worker, &puzzle, &options, memory, sizeof memory, 10),
                     BW_ENOMEM);
}

static void actions_are_printed_and_parsed(void **state)
{
    struct bw_explore_action action = {.kind = WRITE, .a = 1, .b = 20, .c = 3}, back;
    char text[BW_EXPLORE_TEXT];
    (void)state;
    bw_explore_print(&puzzle, action, text, sizeof text);
    assert_string_equal(text, "write 1>20 3");
    assert_int_equal(bw_explore_parse(&puzzle, text, &back), 0);
    assert_memory_equal(&back, &action, sizeof back);
    assert_int_equal(bw_explore_parse(&puzzle, "advance", &back), 0);
    assert_int_equal(back.kind, ADVANCE);
    assert_int_equal(bw_explore_parse(&puzzle, "write 1>20", &back), BW_EINVAL);
    assert_int_equal(bw_explore_parse(&puzzle, "write 1>20 300", &back), BW_EINVAL);
    assert_int_equal(bw_explore_parse(&puzzle, "erase 1", &back), BW_EINVAL);
    assert_int_equal(bw_explore_parse(&puzzle, "read 1 2", &back), BW_EINVAL);
}

static void images_decode_to_what_was_encoded(void **state)
{
    enum { SIZE = 4096 };
    unsigned char from[SIZE], first[SIZE], back[SIZE], *code = malloc(bw_image_bound(SIZE));
    (void)state;
    for (int zeros = 0; zeros <= 100; zeros += 10) {
        for (int i = 0; i < SIZE; i++) {
            first[i] = (unsigned char)(i * 31);
            from[i] = (unsigned char)(first[i] ^ ((i * 7919) % 100 < zeros ? 0 : i % 251 + 1));
        }
        size_t length = bw_image_encode(from, first, SIZE, code);
        assert_true(length <= bw_image_bound(SIZE));
        bw_image_decode(code, first, SIZE, back);
        assert_memory_equal(back, from, SIZE);
    }
    free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_is_visited_once),
        cmocka_unit_test(violation_has_a_shortest_trace_that_replays),
        cmocka_unit_test(step_that_dies_is_reported_with_its_trace),
        cmocka_unit_test(too_little_memory_is_an_error),
        cmocka_unit_test(actions_are_printed_and_parsed),
        cmocka_unit_test(images_decode_to_what_was_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
