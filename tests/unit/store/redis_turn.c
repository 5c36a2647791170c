/* Redis: whose turn it is after a release, and how long the others stand aside. */
#include "store/redis/script.h"
#include "store/redis/turn.h"
#include "unit/unit.h"

#define NOW 5000u

static struct redis_turn turn_of(const char *candidate, unsigned missed)
{
    struct redis_next next = {.missed = missed};
    struct redis_turn turn = {.n = 0};
    struct bw_rng rng;
    strcpy(next.candidate, candidate);
    bw_rng_init(&rng, 7);
    redis_turn_begin(&turn, &next, 12, NOW, &rng);
    return turn;
}

static void who_is_next_does_not_wait_and_the_others_do(void **unused)
{
    (void)unused;
    struct redis_turn turn = turn_of("ada", 0);
    struct redis_state state = {.n = 12};
    assert_int_equal(redis_turn_wait(&turn, &state, "ada", NOW), 0);
    uint64_t wait = redis_turn_wait(&turn, &state, "ben", NOW);
    assert_in_range(wait, 100, 199);
    assert_int_equal(redis_turn_wait(&turn, &state, "ben", NOW + 30), wait - 30);
    assert_int_equal(redis_turn_wait(&turn, &state, "ben", NOW + wait), 0);
}

static void who_does_not_contend_hears_at_once(void **unused)
{
    (void)unused;
    struct redis_turn turn = turn_of("ada", 0);
    struct redis_state state = {.n = 12};
    assert_int_equal(redis_turn_wait(&turn, &state, NULL, NOW), 0);
}

static void a_turn_ends_when_it_is_taken_and_with_any_later_state(void **unused)
{
    (void)unused;
    struct redis_turn turn = turn_of("ada", 0);
    struct redis_state taken = {.n = 12, .locked = true}, later = {.n = 13};
    assert_int_equal(redis_turn_wait(&turn, &taken, "ben", NOW), 0);
    assert_int_equal(redis_turn_wait(&turn, &later, "ben", NOW), 0);
    assert_false(redis_turn_is(&turn, &later, NOW));
}

static void one_that_is_slow_is_given_twice_as_long_each_time(void **unused)
{
    (void)unused;
    struct redis_state state = {.n = 12};
    uint64_t least = 100;
    for (unsigned missed = 0; missed <= REDIS_MISSED_MOST; missed++, least *= 2) {
        struct redis_turn turn = turn_of("ada", missed);
        assert_in_range(redis_turn_wait(&turn, &state, "ben", NOW), least, least + 99);
    }
}

static const char told[] = "[\"told\",\"\",-2,\"12\",\"7\",\"ben:1\",\"\",\"\",\"ada\",%s]";

static struct redis_next next_told(const char *missed)
{
    struct redis_state state;
    struct redis_next next;
    char text[200];
    snprintf(text, sizeof text, told, missed);
    assert_int_equal(redis_state_parse_told(text, strlen(text), &state, &next), 0);
    assert_true(!state.locked && state.n == 12 && state.token == 7);
    return next;
}

static void a_release_names_who_is_next_and_what_it_missed(void **unused)
{
    (void)unused;
    assert_string_equal(next_told("0").candidate, "ada");
    assert_int_equal(next_told("0").missed, 0);
    assert_int_equal(next_told("2").missed, 2);
}

static void a_count_that_makes_no_sense_is_bounded(void **unused)
{
    (void)unused;
    assert_int_equal(next_told("-1").missed, 0);
    assert_int_equal(next_told("4000000000000").missed, REDIS_MISSED_MOST);
    assert_int_equal(next_told("\"2\"").missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_next_does_not_wait_and_the_others_do),
        cmocka_unit_test(who_does_not_contend_hears_at_once),
        cmocka_unit_test(a_turn_ends_when_it_is_taken_and_with_any_later_state),
        cmocka_unit_test(one_that_is_slow_is_given_twice_as_long_each_time),
        cmocka_unit_test(a_release_names_who_is_next_and_what_it_missed),
        cmocka_unit_test(a_count_that_makes_no_sense_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
