/* Redlock: the merged state when only some instances reply. */
#include "store/redis/view.h"
#include "unit/unit.h"

#define FIVE 5u

static struct redis_state locked(const char *lock, uint64_t n, bw_time left_ns)
{
    struct redis_state state = {.locked = true, .n = n, .left_ns = left_ns};
    strcpy(state.lock, lock);
    strcpy(state.owner, lock);
    for (const char *at = lock; *at; at++)
        state.lock_hash = state.lock_hash * 31 + (unsigned char)*at;
    return state;
}

static struct redis_state unlocked(uint64_t n)
{
    return (struct redis_state){.n = n};
}

static struct redis_state merge(const struct redis_state *at, unsigned count)
{
    const struct redis_state *states[FIVE];
    struct redis_state merged;
    for (unsigned i = 0; i < count; i++)
        states[i] = &at[i];
    redis_state_merge(&merged, states, count, FIVE);
    return merged;
}

static void merge_is_locked_when_a_majority_has_the_lock(void **unused)
{
    (void)unused;
    struct redis_state at[FIVE] = {locked("ada", 7, 300), unlocked(6), locked("ada", 7, 100),
                                   unlocked(6), locked("ada", 7, 200)};
    struct redis_state merged = merge(at, FIVE);
    assert_true(merged.locked && !merged.uncertain);
    assert_string_equal(merged.lock, "ada");
    assert_int_equal(merged.left_ns, 100);
    assert_int_equal(merged.n, 7);
}

static void merge_is_free_when_only_a_minority_has_the_lock(void **unused)
{
    (void)unused;
    struct redis_state at[FIVE] = {locked("ada", 7, 300), unlocked(6), locked("ada", 7, 100),
                                   unlocked(6), locked("ben", 6, 200)};
    assert_false(merge(at, FIVE).locked);
}

/* ada locked three of five instances. Two of those do not reply, so one reply shows her lock. She
 * leads. */
static void merge_is_locked_when_silent_instances_could_complete_a_majority(void **unused)
{
    (void)unused;
    struct redis_state at[] = {unlocked(6), locked("ada", 7, 300), unlocked(6)};
    struct redis_state merged = merge(at, 3);
    assert_true(merged.locked && merged.uncertain);
    assert_string_equal(merged.lock, "ada");
    assert_int_equal(merged.left_ns, 300); /* she may lead while one of them has her lock */
    assert_int_equal(merged.n, 7);
}

static void merge_is_free_when_silent_instances_cannot_complete_a_majority(void **unused)
{
    (void)unused;
    struct redis_state none[] = {unlocked(6), unlocked(6), unlocked(6)};
    assert_false(merge(none, 3).locked);
    struct redis_state one[] = {unlocked(6), locked("ada", 7, 300), unlocked(6), unlocked(6)};
    assert_false(merge(one, 4).locked);
    struct redis_state two[] = {unlocked(6), locked("ada", 7, 300), unlocked(6),
                                locked("ada", 7, 200)};
    struct redis_state merged = merge(two, 4);
    assert_true(merged.locked && merged.uncertain);
    assert_int_equal(merged.left_ns, 200);
}

static void merge_prefers_the_lock_with_a_side_record_when_votes_are_equal(void **unused)
{
    (void)unused;
    struct redis_state at[] = {locked("ben", 6, 300), unlocked(7), locked("ada", 7, 200)};
    strcpy(at[0].owner, "ada"); /* ben got one lock but wrote no side record */
    assert_string_equal(merge(at, 3).lock, "ada");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_is_locked_when_a_majority_has_the_lock),
        cmocka_unit_test(merge_is_free_when_only_a_minority_has_the_lock),
        cmocka_unit_test(merge_is_locked_when_silent_instances_could_complete_a_majority),
        cmocka_unit_test(merge_is_free_when_silent_instances_cannot_complete_a_majority),
        cmocka_unit_test(merge_prefers_the_lock_with_a_side_record_when_votes_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
