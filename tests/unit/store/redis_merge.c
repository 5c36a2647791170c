/* Redlock: what the answers of some of the instances mean for all of them. */
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

static void a_majority_of_all_has_it(void **unused)
{
    (void)unused;
    struct redis_state at[FIVE] = {locked("ada", 7, 300), unlocked(6), locked("ada", 7, 100),
                                   unlocked(6), locked("ada", 7, 200)};
    struct redis_state merged = merge(at, FIVE);
    assert_true(merged.locked && !merged.in_doubt);
    assert_string_equal(merged.lock, "ada");
    assert_int_equal(merged.left_ns, 100);
    assert_int_equal(merged.n, 7);
}

static void a_minority_of_all_has_nothing(void **unused)
{
    (void)unused;
    struct redis_state at[FIVE] = {locked("ada", 7, 300), unlocked(6), locked("ada", 7, 100),
                                   unlocked(6), locked("ben", 6, 200)};
    assert_false(merge(at, FIVE).locked);
}

/* She locked three, and two of these are away: those who answer know of one. She leads. */
static void a_leader_is_not_overlooked_when_those_who_elected_it_are_away(void **unused)
{
    (void)unused;
    struct redis_state at[] = {unlocked(6), locked("ada", 7, 300), unlocked(6)};
    struct redis_state merged = merge(at, 3);
    assert_true(merged.locked && merged.in_doubt);
    assert_string_equal(merged.lock, "ada");
    assert_int_equal(merged.left_ns, 300); /* while one of them has it she may lead */
    assert_int_equal(merged.n, 7);
}

static void nobody_leads_when_those_who_are_away_are_too_few(void **unused)
{
    (void)unused;
    struct redis_state none[] = {unlocked(6), unlocked(6), unlocked(6)};
    assert_false(merge(none, 3).locked);
    struct redis_state one[] = {unlocked(6), locked("ada", 7, 300), unlocked(6), unlocked(6)};
    assert_false(merge(one, 4).locked);
    struct redis_state two[] = {unlocked(6), locked("ada", 7, 300), unlocked(6),
                                locked("ada", 7, 200)};
    struct redis_state merged = merge(two, 4);
    assert_true(merged.locked && merged.in_doubt);
    assert_int_equal(merged.left_ns, 200);
}

static void of_two_that_may_lead_the_one_with_a_record_is_named(void **unused)
{
    (void)unused;
    struct redis_state at[] = {locked("ben", 6, 300), unlocked(7), locked("ada", 7, 200)};
    strcpy(at[0].owner, "ada"); /* he got the lock and nothing more */
    assert_string_equal(merge(at, 3).lock, "ada");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_majority_of_all_has_it),
        cmocka_unit_test(a_minority_of_all_has_nothing),
        cmocka_unit_test(a_leader_is_not_overlooked_when_those_who_elected_it_are_away),
        cmocka_unit_test(nobody_leads_when_those_who_are_away_are_too_few),
        cmocka_unit_test(of_two_that_may_lead_the_one_with_a_record_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
