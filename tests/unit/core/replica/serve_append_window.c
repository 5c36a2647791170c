/* Appends to one follower that wait until the follower has acknowledged earlier ones: their order,
 * their pieces, and what replaces them. */
#include "core/replica/append_window.h"

#include "core/base/event.h"
#include "core/base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct bw_append_window window;

static struct bw_message append_of(bw_term term, bw_index prev, uint32_t first, uint32_t second)
{
    struct bw_message msg = {.kind = BW_MSG_RAFT_APPEND, .to = 2, .term = term};
    msg.append.prev_index = prev;
    msg.append.prev_term = prev ? 1 : 0;
    msg.append.run[msg.append.runs++] = (struct bw_term_run){.term = 3, .count = first};
    if (second)
        msg.append.run[msg.append.runs++] = (struct bw_term_run){.term = 4, .count = second};
    return msg;
}

static uint32_t total_of(const struct bw_message *msg)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < msg->append.runs; i++)
        total += msg->append.run[i].count;
    return total;
}

static void pieces_hold_every_entry_once_with_its_term_and_change(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 7);
    for (unsigned round = 0; round < 2000; round++) {
        uint32_t first = 1 + (uint32_t)bw_rng_below(&rng, 9);
        uint32_t second = (uint32_t)bw_rng_below(&rng, 9), all = first + second;
        struct bw_message msg = append_of(5, 10, first, second), piece;
        uint32_t changed = (uint32_t)bw_rng_below(&rng, all), changes = 0;
        msg.append.change =
            (struct bw_change){.op = BW_CHANGE_ADD_LEARNER, .entry = changed, .node = 9};
        bw_append_window_reset(&window);
        assert_true(bw_append_window_push(&window, &msg));
        bw_index at = 10;
        bw_term before = 1;
        while (bw_append_window_entries(&window)) {
            uint32_t left = bw_append_window_entries(&window);
            uint32_t count = 1 + (uint32_t)bw_rng_below(&rng, left);
            bw_append_window_take(&window, count, &piece);
            assert_int_equal(piece.append.prev_index, at);
            assert_int_equal(piece.append.prev_term, before);
            assert_int_equal(total_of(&piece), count);
            for (uint32_t i = 0, entry = 0; i < piece.append.runs; i++)
                for (uint32_t j = 0; j < piece.append.run[i].count; j++, entry++) {
                    before = piece.append.run[i].term;
                    assert_int_equal(before, at + entry - 10 < first ? 3 : 4);
                }
            if (piece.append.change.op) {
                changes++;
                assert_int_equal(at + piece.append.change.entry, 10 + changed);
                assert_true(piece.append.change.entry < count);
            }
            at += count;
            assert_int_equal(window.sent, at);
        }
        assert_int_equal(at, 10 + all);
        assert_int_equal(changes, 1);
    }
}

static void appends_that_continue_wait_in_order(void **state)
{
    (void)state;
    struct bw_message piece;
    bw_append_window_reset(&window);
    for (uint32_t i = 0; i < BW_RAFT_INFLIGHT_MAX; i++) {
        struct bw_message msg = append_of(5, 3 * i, 3, 0);
        assert_true(bw_append_window_push(&window, &msg));
    }
    for (uint32_t i = 0; i < BW_RAFT_INFLIGHT_MAX; i++) {
        assert_int_equal(bw_append_window_entries(&window), 3);
        bw_append_window_take(&window, 3, &piece);
        assert_int_equal(piece.append.prev_index, 3 * i);
    }
    assert_int_equal(window.count, 0);
}

/* Raft has at most BW_RAFT_INFLIGHT_MAX appends on their way. One more means that the earlier ones
 * do not count any more. */
static void append_beyond_the_limit_replaces_the_others(void **state)
{
    (void)state;
    bw_append_window_reset(&window);
    for (uint32_t i = 0; i <= BW_RAFT_INFLIGHT_MAX; i++) {
        struct bw_message msg = append_of(5, 3 * i, 3, 0);
        assert_true(bw_append_window_push(&window, &msg));
    }
    assert_int_equal(window.count, 1);
    assert_int_equal(window.start, 3 * BW_RAFT_INFLIGHT_MAX);
}

/* The follower rejected an append: Raft sends other entries, and those that waited are void. */
static void append_that_does_not_continue_replaces_the_others(void **state)
{
    (void)state;
    struct bw_message first = append_of(5, 10, 4, 0), second = append_of(5, 14, 4, 0),
                      back = append_of(5, 7, 9, 0), later = append_of(6, 16, 2, 0), piece;
    bw_append_window_reset(&window);
    assert_true(bw_append_window_push(&window, &first));
    assert_true(bw_append_window_push(&window, &second));
    bw_append_window_take(&window, 2, &piece);
    assert_true(bw_append_window_push(&window, &back));
    assert_int_equal(window.count, 1);
    assert_int_equal(window.start, 7);
    bw_append_window_take(&window, 9, &piece);
    assert_int_equal(piece.append.prev_index, 7);
    assert_true(bw_append_window_push(&window, &later)); /* another term */
    assert_int_equal(window.start, 16);
}

/* Raft repeats a probe with each heartbeat. Its entries are on their way already. */
static void repeated_probe_is_sent_every_other_time_with_its_entries(void **state)
{
    (void)state;
    struct bw_message probe = append_of(5, 10, 4, 0), piece;
    bw_append_window_reset(&window);
    assert_true(bw_append_window_push(&window, &probe));
    bw_append_window_take(&window, 4, &piece);
    assert_false(bw_append_window_push(&window, &probe));
    assert_int_equal(bw_append_window_entries(&window), 0);
    assert_true(bw_append_window_push(&window, &probe));
    assert_int_equal(bw_append_window_entries(&window), 4);
}

static void window_bounds_the_bytes_but_lets_one_large_entry_pass(void **state)
{
    (void)state;
    assert_true(bw_append_window_allows(0, 100 * BW_APPEND_WINDOW));
    assert_true(bw_append_window_allows(1, BW_APPEND_WINDOW - 1));
    assert_false(bw_append_window_allows(1, BW_APPEND_WINDOW));
    assert_false(bw_append_window_allows(BW_APPEND_WINDOW, 1));
}

static void message_without_entries_has_no_change(void **state)
{
    (void)state;
    struct bw_message msg = append_of(5, 10, 4, 2);
    msg.append.commit = 8;
    msg.append.echo = 77;
    msg.append.change = (struct bw_change){.op = BW_CHANGE_REMOVE, .entry = 1, .node = 3};
    bw_append_without_entries(&msg, 6, 1);
    assert_int_equal(total_of(&msg), 0);
    assert_int_equal(msg.append.change.op, BW_CHANGE_NONE);
    assert_int_equal(msg.append.prev_index, 6);
    assert_int_equal(msg.append.commit, 8);
    assert_int_equal(msg.append.echo, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_hold_every_entry_once_with_its_term_and_change),
        cmocka_unit_test(appends_that_continue_wait_in_order),
        cmocka_unit_test(append_beyond_the_limit_replaces_the_others),
        cmocka_unit_test(append_that_does_not_continue_replaces_the_others),
        cmocka_unit_test(repeated_probe_is_sent_every_other_time_with_its_entries),
        cmocka_unit_test(window_bounds_the_bytes_but_lets_one_large_entry_pass),
        cmocka_unit_test(message_without_entries_has_no_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
