/* The decisions of `run --shards` in virtual time: what is contended for, let go, stood in for,
 * started again, done; and the values that candidates tell each other by. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/shards/shards.h"
#include "run/shards/value.h"
#include "store/store.h"

#define SHARDS 9u
#define RETRY  (2 * BW_SEC)
#define TTL    (10 * BW_SEC)

static struct bw_shards us;
static const struct bw_shard_set nothing;

static uint64_t key(const char *id)
{
    return bw_spread_key(id, strlen(id));
}

static void see(const char *ids, const struct bw_shard_set *done)
{
    bw_shards_view_begin(&us);
    for (const char *id = ids; *id; id++)
        bw_shards_view_add(&us, bw_spread_key(id, 1), done);
    bw_shards_view_end(&us);
}

/* We are "a"; `ids` are there from the beginning. */
static void begin(const char *ids)
{
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, *ids != '\0'};
    bw_shards_init(&us, &config);
    see(ids, &nothing);
    see(ids, &nothing);
}

static uint32_t start_all(bw_time now)
{
    uint32_t count = 0, shard;
    while ((shard = bw_shards_next_start(&us, now)) != BW_SHARD_NONE) {
        bw_shards_started(&us, shard, now);
        count++;
    }
    return count;
}

static uint32_t one_of(bool ours)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (us.at[i].ours == ours)
            return i;
    fail();
    return 0;
}

static enum bw_shard_verdict sees(uint32_t shard, bool held, bool mine, uint64_t version,
                                  bw_time now)
{
    struct bw_shard_sight sight = {held, mine, version, TTL};
    return bw_shards_saw(&us, shard, &sight, now);
}

static void nothing_is_started_by_the_first_look(void **state)
{
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, true};
    (void)state;
    bw_shards_init(&us, &config);
    see("a", &nothing);
    assert_int_equal(start_all(BW_SEC), 0);
    see("abc", &nothing);
    assert_int_equal(start_all(BW_SEC), 3);
}

static void whoever_is_not_listed_gets_nothing(void **state)
{
    (void)state;
    begin("bc");
    assert_int_equal(bw_shards_ours(&us), 0);
    assert_int_equal(start_all(BW_SEC), 0);
}

static void a_shard_is_let_go_when_its_owner_waits(void **state)
{
    (void)state;
    begin("a");
    assert_int_equal(start_all(0), SHARDS);
    see("ab", &nothing);
    uint32_t shard = one_of(false);
    assert_int_equal(sees(shard, true, true, 1, BW_SEC), BW_SHARD_ASK);
    bw_shards_yield(&us, shard, BW_SEC);
    assert_int_equal(us.at[shard].state, BW_SHARD_ENDS);
    assert_int_equal(bw_shards_ended(&us, shard, 143, 2 * BW_SEC), BW_SHARD_LET_GO);
    assert_int_equal(start_all(2 * BW_SEC), 0);
}

static void an_owner_that_does_not_take_it_is_believed_less_and_less(void **state)
{
    (void)state;
    begin("ab");
    uint32_t shard = one_of(false);
    bw_time now = BW_SEC, waited = 0;
    for (unsigned i = 0; i < 4; i++) {
        bw_shards_started(&us, shard, now);
        bw_time from = now;
        while (sees(shard, true, true, (uint64_t)now, now) != BW_SHARD_ASK)
            now += BW_SEC;
        assert_true(i == 0 || now - from > waited);
        waited = now - from;
        bw_shards_yield(&us, shard, now);
        bw_shards_ended(&us, shard, 143, now);
    }
    sees(shard, true, false, 1, now); /* now it has: at once the next time */
    bw_shards_started(&us, shard, now);
    assert_int_equal(sees(shard, true, true, 2, now), BW_SHARD_ASK);
}

static void a_wait_in_vain_ends(void **state)
{
    (void)state;
    begin("a");
    start_all(0);
    see("ab", &nothing);
    assert_int_equal(sees(one_of(false), true, false, 1, BW_SEC), BW_SHARD_END);
}

static void a_leaderless_shard_is_stood_in_for_after_patience(void **state)
{
    (void)state;
    begin("ab");
    start_all(0);
    uint32_t shard = one_of(false);
    assert_int_equal(sees(shard, false, false, 1, BW_SEC), BW_SHARD_KEEP);
    assert_int_equal(bw_shards_next_start(&us, BW_SEC + 3 * RETRY - 1), BW_SHARD_NONE);
    assert_int_equal(bw_shards_deadline(&us), BW_SEC + 3 * RETRY);
    assert_int_equal(bw_shards_next_start(&us, BW_SEC + 3 * RETRY), shard);
    sees(shard, true, false, 2, BW_SEC + RETRY); /* its owner came */
    assert_int_equal(bw_shards_next_start(&us, 100 * BW_SEC), BW_SHARD_NONE);
}

static void a_record_that_stands_still_counts_as_leaderless(void **state)
{
    (void)state;
    begin("ab");
    start_all(0);
    uint32_t shard = one_of(false);
    for (bw_time now = 0; now < TTL; now += RETRY)
        sees(shard, true, false, 7, now);
    assert_int_equal(bw_shards_deadline(&us), BW_TIME_NEVER);
    sees(shard, true, false, 7, TTL);
    assert_int_equal(bw_shards_deadline(&us), TTL + 3 * RETRY);
    sees(shard, true, false, 8, TTL + RETRY); /* renewed after all */
    assert_int_equal(bw_shards_deadline(&us), BW_TIME_NEVER);
}

static void the_others_stand_in_one_after_the_other(void **state)
{
    bw_time due[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct bw_shards_config config = {SHARDS, bw_spread_key(&"abc"[i], 1), RETRY, true};
        bw_shards_init(&us, &config);
        see("abc", &nothing);
        see("abc", &nothing);
        start_all(0);
        if (!us.at[4].ours)
            sees(4, false, false, 1, 0);
        due[i] = bw_shards_deadline(&us);
    }
    assert_true(due[0] != due[1] && due[1] != due[2] && due[0] != due[2]);
}

static void a_failing_command_is_started_again_ever_later(void **state)
{
    bw_time now = 0, last = 0;
    (void)state;
    begin("a");
    start_all(now);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(bw_shards_ended(&us, 3, 1, now), BW_SHARD_FAILED);
        bw_time pause = bw_shards_deadline(&us) - now;
        assert_true(pause >= last && pause <= 60 * BW_SEC);
        last = pause;
        now += pause;
        assert_int_equal(bw_shards_next_start(&us, now), 3);
        bw_shards_started(&us, 3, now);
    }
    assert_int_equal(last, 60 * BW_SEC);
    now += 61 * BW_SEC; /* it did well for a while */
    bw_shards_ended(&us, 3, 1, now);
    assert_int_equal(bw_shards_deadline(&us), now + RETRY);
}

static void killed_supervisor_is_started_again_at_once_when_it_had_run(void **state)
{
    bw_time now = 0;
    (void)state;
    begin("a");
    start_all(now);
    for (unsigned i = 0; i < 10; i++) { /* however often */
        now += 2 * BW_SEC;
        assert_int_equal(bw_shards_killed(&us, 3, 137, now), BW_SHARD_FAILED);
        assert_int_equal(bw_shards_next_start(&us, now), 3);
        bw_shards_started(&us, 3, now);
    }
    assert_int_equal(bw_shards_killed(&us, 3, 137, now), BW_SHARD_FAILED); /* as it started */
    assert_int_equal(bw_shards_deadline(&us), now + RETRY);
}

static void what_is_done_is_done_for_everybody(void **state)
{
    struct bw_shard_set done = {{0}};
    (void)state;
    begin("ab");
    start_all(0);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (us.at[i].ours)
            assert_int_equal(bw_shards_ended(&us, i, 0, BW_SEC), BW_SHARD_DONE);
    assert_int_equal(start_all(100 * BW_SEC), 0);
    assert_false(bw_shards_finished(&us));
    for (uint32_t i = 0; i < SHARDS; i++)
        bw_shard_set_add(&done, i);
    bw_shards_view_begin(&us); /* b has seen all done, we have not told yet */
    bw_shards_view_add(&us, key("b"), &done);
    bw_shards_view_add(&us, key("a"), &nothing);
    bw_shards_view_end(&us);
    assert_false(bw_shards_finished(&us));
    see("ab", &done);
    assert_true(bw_shards_finished(&us));
}

static void what_another_has_done_is_ended_here(void **state)
{
    struct bw_shard_set done = {{0}};
    (void)state;
    begin("ab");
    start_all(0);
    uint32_t shard = one_of(true);
    bw_shard_set_add(&done, shard);
    see("ab", &done);
    assert_int_equal(bw_shards_next_end(&us), shard);
    bw_shards_ending(&us, shard);
    assert_int_equal(bw_shards_next_end(&us), BW_SHARD_NONE);
}

static void without_lists_who_has_more_is_slower(void **state)
{
    uint32_t shard;
    (void)state;
    begin("");
    bw_shards_look_begin(&us);
    while ((shard = bw_shards_look_next(&us)) != BW_SHARD_NONE)
        assert_int_equal(sees(shard, false, false, 0, 0), BW_SHARD_KEEP);
    assert_int_equal(start_all(0), 1);
    assert_int_equal(start_all(RETRY / 2), 1);
    assert_int_equal(start_all(RETRY), 1);
    shard = bw_shards_next_start(&us, 2 * RETRY);
    assert_int_not_equal(shard, BW_SHARD_NONE);
    sees(shard, true, false, 1, 2 * RETRY); /* another was quicker */
    assert_int_not_equal(bw_shards_next_start(&us, 2 * RETRY), shard);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (us.at[i].state == BW_SHARD_RUNS) /* and nothing is let go */
            assert_int_equal(sees(i, true, true, 2, RETRY), BW_SHARD_KEEP);
}

static void every_shard_is_looked_at_in_turn(void **state)
{
    struct bw_shards_config config = {BW_SHARDS_MAX, key("a"), RETRY, true};
    struct bw_shard_set seen = {{0}};
    uint32_t shard;
    (void)state;
    bw_shards_init(&us, &config);
    see("bc", &nothing);
    for (unsigned round = 0; round < 16; round++) {
        unsigned count = 0;
        bw_shards_look_begin(&us);
        for (; (shard = bw_shards_look_next(&us)) != BW_SHARD_NONE; count++)
            bw_shard_set_add(&seen, shard);
        assert_int_equal(count, 64);
    }
    assert_int_equal(bw_shard_set_count(&seen, BW_SHARDS_MAX), BW_SHARDS_MAX);
}

static void more_candidates_than_fit_are_cut_alike(void **state)
{
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, true};
    (void)state;
    bw_shards_init(&us, &config);
    bw_shards_view_begin(&us);
    for (uint64_t i = 3000; i > 0; i--)
        bw_shards_view_add(&us, i, &nothing);
    bw_shards_view_add(&us, 7, &nothing); /* twice */
    bw_shards_view_end(&us);
    assert_int_equal(us.count, BW_SPREAD_CANDIDATES_MAX);
    for (uint64_t i = 0; i < us.count; i++)
        assert_int_equal(us.keys[i], i + 1);
}

/* ---- values ---- */

static void values_are_read_as_written(void **state)
{
    char text[BW_VALUE_MAX + 1];
    struct bw_shard_set done = {{0}}, runs = {{0}}, got;
    uint32_t shards;
    (void)state;
    bw_shards_value_write(text, 9, &done, &runs);
    assert_string_equal(text, "shards=9");
    bw_shard_set_add(&done, 0);
    bw_shard_set_add(&done, 8);
    for (uint32_t i = 2; i < 6; i++)
        bw_shard_set_add(&runs, i);
    bw_shard_set_add(&runs, 7);
    bw_shards_value_write(text, 9, &done, &runs);
    assert_string_equal(text, "shards=9 done=101 runs=2-5,7");
    assert_int_equal(bw_shards_value_read(text, &shards, &got), 0);
    assert_int_equal(shards, 9);
    assert_memory_equal(&got, &done, sizeof done);
}

static void the_longest_value_is_cut_and_keeps_what_counts(void **state)
{
    char text[BW_VALUE_MAX + 1];
    struct bw_shard_set odd = {{0}}, got;
    uint32_t shards;
    (void)state;
    for (uint32_t i = 1; i < BW_SHARDS_MAX; i += 2)
        bw_shard_set_add(&odd, i);
    bw_shards_value_write(text, BW_SHARDS_MAX, &odd, &odd);
    assert_true(strlen(text) <= BW_VALUE_MAX);
    assert_string_equal(text + strlen(text) - 4, ",...");
    assert_int_equal(bw_shards_value_read(text, &shards, &got), 0);
    assert_memory_equal(&got, &odd, sizeof odd);
}

static void other_values_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",          "http://host:80", "shards=",         "shards=0",           "shards=1025",
        "shards=-1", "shards=9x",      "shards=9 done=1", "shards=9 done=1234", "shards=9 done=xyz",
        "Shards=9"};
    struct bw_shard_set got;
    uint32_t shards;
    (void)state;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(bw_shards_value_read(wrong[i], &shards, &got), BW_EINVAL);
    assert_int_equal(bw_shards_value_read("shards=9 something=new", &shards, &got), 0);
}

static void a_shard_has_a_name_of_its_own(void **state)
{
    char name[BW_ELECTION_NAME_MAX + 1], longest[BW_ELECTION_NAME_MAX];
    (void)state;
    assert_int_equal(bw_shards_election(name, "job", 12), 0);
    assert_string_equal(name, "job.12");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(bw_shards_election(name, longest, 0), BW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_started_by_the_first_look),
        cmocka_unit_test(whoever_is_not_listed_gets_nothing),
        cmocka_unit_test(a_shard_is_let_go_when_its_owner_waits),
        cmocka_unit_test(an_owner_that_does_not_take_it_is_believed_less_and_less),
        cmocka_unit_test(a_wait_in_vain_ends),
        cmocka_unit_test(a_leaderless_shard_is_stood_in_for_after_patience),
        cmocka_unit_test(a_record_that_stands_still_counts_as_leaderless),
        cmocka_unit_test(the_others_stand_in_one_after_the_other),
        cmocka_unit_test(a_failing_command_is_started_again_ever_later),
        cmocka_unit_test(killed_supervisor_is_started_again_at_once_when_it_had_run),
        cmocka_unit_test(what_is_done_is_done_for_everybody),
        cmocka_unit_test(what_another_has_done_is_ended_here),
        cmocka_unit_test(without_lists_who_has_more_is_slower),
        cmocka_unit_test(every_shard_is_looked_at_in_turn),
        cmocka_unit_test(more_candidates_than_fit_are_cut_alike),
        cmocka_unit_test(values_are_read_as_written),
        cmocka_unit_test(the_longest_value_is_cut_and_keeps_what_counts),
        cmocka_unit_test(other_values_are_refused),
        cmocka_unit_test(a_shard_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
