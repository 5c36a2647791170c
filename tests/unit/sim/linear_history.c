/* Tests that right histories are accepted and wrong ones are refused. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "sim/checks/history.h"

#include <stdlib.h>

#define K ((uint64_t)7)
#define A ((uint64_t)11)
#define B ((uint64_t)12)
#define C ((uint64_t)13)

static struct bw_history history;

static struct bw_history_op *note(enum bw_history_kind kind, bw_time call, bw_time back)
{
    struct bw_history_op op = {.kind = kind,
                               .outcome = back ? BW_LINEAR_OK : BW_LINEAR_UNKNOWN,
                               .line = history.count + 1,
                               .key = K,
                               .version = BW_LINEAR_NO_VERSION,
                               .call = call,
                               .back = back ? back : BW_TIME_NEVER};
    assert_int_equal(bw_history_add(&history, &op), 0);
    return &history.ops[history.count - 1];
}

static void put(uint64_t value, bw_time call, bw_time back)
{
    note(BW_HISTORY_PUT, call, back)->value = value;
}

static void get(uint64_t value, bw_time call, bw_time back)
{
    note(BW_HISTORY_GET, call, back)->value = value;
}

static void delete (bool done, bw_time call, bw_time back)
{
    note(BW_HISTORY_DELETE, call, back)->done = done;
}

static void cas(uint64_t expect, uint64_t value, bool done, bw_time call, bw_time back)
{
    struct bw_history_op *op = note(BW_HISTORY_CAS, call, back);
    op->expect = expect;
    op->value = value;
    op->done = done;
}

static void lease(enum bw_history_kind kind, int64_t id, bool done, bw_time call, bw_time back)
{
    struct bw_history_op *op = note(kind, call, back);
    op->lease = id;
    op->done = done;
}

static struct bw_history_verdict judge(void)
{
    struct bw_history_verdict verdict;
    assert_int_equal(bw_history_judge(&history, 0, &verdict), 0);
    bw_history_clear(&history);
    return verdict;
}

static void right(void)
{
    struct bw_history_verdict verdict = judge();
    assert_int_equal(verdict.linear.judgement, BW_LINEAR_RIGHT);
    assert_int_equal(verdict.backward_line, 0);
}

static void wrong_at(uint32_t line)
{
    struct bw_history_verdict verdict = judge();
    assert_int_equal(verdict.linear.judgement, BW_LINEAR_WRONG);
    assert_int_equal(verdict.linear.stuck_line, line);
}

static void get_returns_the_last_put(void **state)
{
    (void)state;
    get(BW_LINEAR_ABSENT, 1, 2);
    put(A, 3, 4);
    get(A, 5, 6);
    put(B, 7, 8);
    get(B, 9, 10);
    right();
    put(A, 3, 4);
    put(B, 7, 8);
    get(A, 9, 10);
    wrong_at(3);
}

static void concurrent_puts_may_take_effect_in_any_order(void **state)
{
    (void)state;
    put(A, 1, 10);
    put(B, 1, 10);
    get(A, 11, 12);
    right();
    put(A, 1, 10);
    put(B, 1, 10);
    get(A, 11, 12);
    get(B, 13, 14);
    wrong_at(4);
}

static void get_concurrent_with_put_returns_either_value_but_never_goes_back(void **state)
{
    (void)state;
    put(A, 1, 2);
    put(B, 3, 20);
    get(A, 4, 5);
    get(B, 6, 7);
    right();
    put(A, 1, 2);
    put(B, 3, 20);
    get(B, 4, 5);
    get(A, 6, 7);
    assert_int_equal(judge().linear.judgement, BW_LINEAR_WRONG);
}

static void put_with_unknown_outcome_takes_effect_at_most_once(void **state)
{
    (void)state;
    put(A, 1, 2);
    put(B, 3, 0);
    get(A, 100, 101);
    get(B, 200, 201);
    right();
    put(A, 1, 2);
    put(B, 3, 0);
    get(A, 100, 101);
    right();
    put(A, 1, 2);
    put(B, 3, 0);
    get(B, 100, 101);
    put(C, 102, 103);
    get(B, 104, 105);
    wrong_at(5);
    put(A, 1, 2); /* not before it was sent */
    get(B, 3, 4);
    put(B, 5, 0);
    wrong_at(2);
}

static void failed_operation_has_no_effect(void **state)
{
    (void)state;
    put(A, 1, 2);
    note(BW_HISTORY_PUT, 3, 4)->value = B;
    history.ops[1].outcome = BW_LINEAR_FAIL;
    get(B, 5, 6);
    assert_int_equal(judge().linear.judgement, BW_LINEAR_WRONG);
}

static void two_compare_and_swaps_cannot_both_succeed(void **state)
{
    (void)state;
    cas(BW_LINEAR_ABSENT, A, true, 1, 10);
    cas(BW_LINEAR_ABSENT, B, false, 1, 10);
    right();
    cas(BW_LINEAR_ABSENT, A, true, 1, 10);
    cas(BW_LINEAR_ABSENT, B, true, 1, 10);
    assert_int_equal(judge().linear.judgement, BW_LINEAR_WRONG);
    cas(BW_LINEAR_ABSENT, A, true, 1, 2);
    delete (true, 3, 4);
    cas(BW_LINEAR_ABSENT, B, true, 5, 6);
    delete (true, 7, 8);
    delete (false, 9, 10);
    right();
}

static void version_counts_puts_and_restarts_after_delete(void **state)
{
    (void)state;
    put(A, 1, 2);
    put(B, 3, 4);
    get(B, 5, 6);
    history.ops[2].version = 2;
    delete (true, 7, 8);
    cas(BW_LINEAR_ABSENT, C, true, 9, 10);
    history.ops[4].version = 0;
    cas(BW_LINEAR_ABSENT, C, true, 11, 12);
    history.ops[5].version = 1;
    right();
    put(A, 1, 2);
    cas(BW_LINEAR_ABSENT, C, true, 3, 4);
    history.ops[1].version = 2;
    wrong_at(2);
    put(A, 1, 0); /* an operation with unknown outcome may have taken effect */
    put(A, 1, 2);
    get(A, 3, 4);
    history.ops[2].version = 2;
    right();
}

static void lease_ends_once_and_deletes_its_keys(void **state)
{
    (void)state;
    lease(BW_HISTORY_GRANT, 5, true, 1, 2);
    put(A, 3, 4);
    history.ops[1].lease = 5;
    lease(BW_HISTORY_KEEP_ALIVE, 5, true, 5, 6);
    get(BW_LINEAR_ABSENT, 50, 51); /* the key is absent: its lease expired */
    lease(BW_HISTORY_KEEP_ALIVE, 5, false, 52, 53);
    right();
    lease(BW_HISTORY_GRANT, 5, true, 1, 2);
    lease(BW_HISTORY_REVOKE, 5, true, 3, 4);
    /* a keep-alive by a client that did not know of the revocation */
    lease(BW_HISTORY_KEEP_ALIVE, 5, true, 5, 6);
    wrong_at(3);
    lease(BW_HISTORY_GRANT, 5, true, 1, 2);
    put(A, 3, 4);
    history.ops[1].lease = 5;
    lease(BW_HISTORY_REVOKE, 5, true, 5, 6);
    get(A, 7, 8);
    assert_int_equal(judge().linear.judgement, BW_LINEAR_WRONG);
    lease(BW_HISTORY_GRANT, 5, true, 1, 2);
    lease(BW_HISTORY_REVOKE, 5, true, 3, 4);
    put(A, 5, 6); /* under a lease that has ended */
    history.ops[2].lease = 5;
    assert_int_equal(judge().linear.judgement, BW_LINEAR_WRONG);
}

static void key_put_again_outlives_its_old_lease(void **state)
{
    (void)state;
    lease(BW_HISTORY_GRANT, 5, true, 1, 2);
    put(A, 3, 4);
    history.ops[1].lease = 5;
    put(B, 5, 6);
    lease(BW_HISTORY_REVOKE, 5, true, 7, 8);
    get(B, 9, 10);
    right();
    put(A, 3, 4);
    get(BW_LINEAR_ABSENT, 5, 6); /* a key without a lease does not expire */
    wrong_at(2);
}

/* Concurrent puts, of which reads show the order. `revision`: of the first one in that order; each
 * following one is higher by `by`. */
static enum bw_linear_judgement judge_puts(unsigned count, int64_t revision, int64_t by)
{
    struct bw_history_verdict verdict;
    for (unsigned i = 0; i < count; i++) {
        struct bw_history_op *op = note(BW_HISTORY_PUT, 1, 10000);
        op->value = A + i;
        op->revision = revision + by * (int64_t)(count - i);
    }
    for (unsigned i = count; i-- > 0;)
        get(A + i, 10 * (bw_time)(count - i), 10 * (bw_time)(count - i) + 1);
    assert_int_equal(bw_history_judge(&history, 2000, &verdict), 0);
    bw_history_clear(&history);
    return verdict.linear.judgement;
}

static void revisions_shorten_the_search_but_decide_nothing(void **state)
{
    (void)state;
    assert_int_equal(judge_puts(24, 0, 0), BW_LINEAR_UNDECIDED);
    assert_int_equal(judge_puts(24, 1, 1), BW_LINEAR_RIGHT);
    assert_int_equal(judge_puts(5, 0, 0), BW_LINEAR_RIGHT);
    assert_int_equal(judge_puts(5, 100, -1), BW_LINEAR_RIGHT); /* misleading revisions */
}

static void revisions_never_decrease_across_keys(void **state)
{
    (void)state;
    put(A, 1, 2);
    history.ops[0].revision = 5;
    get(BW_LINEAR_ABSENT, 3, 4);
    history.ops[1].key = K + 1;
    history.ops[1].revision = 4;
    assert_int_equal(judge().backward_line, 2);
    put(A, 1, 2);
    history.ops[0].revision = 5;
    put(B, 3, 4);
    history.ops[1].key = K + 1;
    history.ops[1].revision = 5; /* every change has its own revision */
    assert_int_equal(judge().backward_line, 2);
    put(A, 1, 5);
    history.ops[0].revision = 5;
    get(BW_LINEAR_ABSENT, 3, 4);
    history.ops[1].key = K + 1;
    history.ops[1].revision = 4;
    right();
}

/* Clients of a real register, where each operation has its own instant: always right. With one
 * response changed: mostly wrong. */
static void random_histories_are_right_and_changed_ones_are_wrong(void **state)
{
    (void)state;
    struct bw_rng rng;
    unsigned found = 0;
    bw_rng_init(&rng, 1);
    for (unsigned round = 0; round < 400; round++) {
        bool bent = round % 2;
        uint64_t now = BW_LINEAR_ABSENT, next = 100;
        for (bw_time at = 10; at < 3000; at += 10) {
            bw_time call = at - bw_rng_between(&rng, 0, 30),
                    back = at + bw_rng_between(&rng, 1, 30);
            bool lost = bw_rng_chance(&rng, 0.1);
            if (bw_rng_chance(&rng, 0.4)) {
                put(++next, call, lost ? 0 : back);
                now = !lost || bw_rng_chance(&rng, 0.5) ? next : now;
            } else if (bw_rng_chance(&rng, 0.3)) {
                bool holds = bw_rng_chance(&rng, 0.5);
                cas(holds ? now : next + 50, next + 1, holds, call, lost ? 0 : back);
                next++;
                now = holds ? next : now;
            } else {
                get(now, call, lost ? 0 : back);
            }
        }
        for (uint32_t i = history.count / 2; bent && i < history.count; i++)
            if (history.ops[i].kind == BW_HISTORY_GET && history.ops[i].outcome == BW_LINEAR_OK) {
                history.ops[i].value = 101; /* an old value */
                break;
            }
        enum bw_linear_judgement judgement = judge().linear.judgement;
        if (bent)
            found += judgement == BW_LINEAR_WRONG;
        else
            assert_int_equal(judgement, BW_LINEAR_RIGHT);
    }
    assert_true(found > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_returns_the_last_put),
        cmocka_unit_test(concurrent_puts_may_take_effect_in_any_order),
        cmocka_unit_test(get_concurrent_with_put_returns_either_value_but_never_goes_back),
        cmocka_unit_test(put_with_unknown_outcome_takes_effect_at_most_once),
        cmocka_unit_test(failed_operation_has_no_effect),
        cmocka_unit_test(two_compare_and_swaps_cannot_both_succeed),
        cmocka_unit_test(version_counts_puts_and_restarts_after_delete),
        cmocka_unit_test(lease_ends_once_and_deletes_its_keys),
        cmocka_unit_test(key_put_again_outlives_its_old_lease),
        cmocka_unit_test(revisions_shorten_the_search_but_decide_nothing),
        cmocka_unit_test(revisions_never_decrease_across_keys),
        cmocka_unit_test(random_histories_are_right_and_changed_ones_are_wrong),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bw_history_deinit(&history);
    return failed;
}
