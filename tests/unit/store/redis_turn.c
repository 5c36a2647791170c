/* Turns of the Redis store (turn.h): after a release the next candidate acquires first, and the
 * others wait. */
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

static void next_candidate_acquires_at_once_and_others_wait(void **unused)
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

static void observer_does_not_wait_for_a_turn(void **unused)
{
    (void)unused;
    struct redis_turn turn = turn_of("ada", 0);
    struct redis_state state = {.n = 12};
    assert_int_equal(redis_turn_wait(&turn, &state, NULL, NOW), 0);
}

static void turn_ends_when_the_lock_is_taken_or_the_state_changes(void **unused)
{
    (void)unused;
    struct redis_turn turn = turn_of("ada", 0);
    struct redis_state taken = {.n = 12, .locked = true}, later = {.n = 13};
    assert_int_equal(redis_turn_wait(&turn, &taken, "ben", NOW), 0);
    assert_int_equal(redis_turn_wait(&turn, &later, "ben", NOW), 0);
    assert_false(redis_turn_is_open(&turn, &later, NOW));
}

static void turn_doubles_with_each_missed_turn(void **unused)
{
    (void)unused;
    struct redis_state state = {.n = 12};
    uint64_t least = 100;
    for (unsigned missed = 0; missed <= REDIS_MISSED_MOST; missed++, least *= 2) {
        struct redis_turn turn = turn_of("ada", missed);
        assert_in_range(redis_turn_wait(&turn, &state, "ben", NOW), least, least + 99);
    }
}

static const char published_format[] =
    "[\"told\",\"\",-2,\"12\",\"7\",\"ben:1\",\"\",\"\",\"ada\",%s]";

static struct redis_next parse_next(const char *missed)
{
    struct redis_state state;
    struct redis_next next;
    char text[200];
    snprintf(text, sizeof text, published_format, missed);
    assert_int_equal(redis_state_parse_published(text, strlen(text), &state, &next), 0);
    assert_true(!state.locked && state.n == 12 && state.token == 7);
    return next;
}

static void published_release_names_next_candidate_and_missed_turns(void **unused)
{
    (void)unused;
    assert_string_equal(parse_next("0").candidate, "ada");
    assert_int_equal(parse_next("0").missed, 0);
    assert_int_equal(parse_next("2").missed, 2);
}

static void missed_turn_count_is_clamped_when_out_of_range(void **unused)
{
    (void)unused;
    assert_int_equal(parse_next("-1").missed, 0);
    assert_int_equal(parse_next("4000000000000").missed, REDIS_MISSED_MOST);
    assert_int_equal(parse_next("\"2\"").missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_candidate_acquires_at_once_and_others_wait),
        cmocka_unit_test(observer_does_not_wait_for_a_turn),
        cmocka_unit_test(turn_ends_when_the_lock_is_taken_or_the_state_changes),
        cmocka_unit_test(turn_doubles_with_each_missed_turn),
        cmocka_unit_test(published_release_names_next_candidate_and_missed_turns),
        cmocka_unit_test(missed_turn_count_is_clamped_when_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
