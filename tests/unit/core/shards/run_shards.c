/* Decisions of `run --shards` in virtual time: which shards are contended for, released, taken
 * over, restarted and done; and the values that candidates publish. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/shards/run_shards.h"
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

/* This candidate is "a"; the candidates `ids` exist from the start. */
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
    struct bw_shard_record record = {held, mine, version, TTL};
    return bw_shards_observe(&us, shard, &record, now);
}

static void nothing_is_started_by_the_first_view(void **state)
{
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, true};
    (void)state;
    bw_shards_init(&us, &config);
    see("a", &nothing);
    assert_int_equal(start_all(BW_SEC), 0);
    see("abc", &nothing);
    assert_int_equal(start_all(BW_SEC), 3);
}

static void unlisted_candidate_owns_nothing(void **state)
{
    (void)state;
    begin("bc");
    assert_int_equal(bw_shards_ours(&us), 0);
    assert_int_equal(start_all(BW_SEC), 0);
}

static void shard_is_released_when_its_owner_waits(void **state)
{
    (void)state;
    begin("a");
    assert_int_equal(start_all(0), SHARDS);
    see("ab", &nothing);
    uint32_t shard = one_of(false);
    assert_int_equal(sees(shard, true, true, 1, BW_SEC), BW_SHARD_ASK);
    bw_shards_yield(&us, shard, BW_SEC);
    assert_int_equal(us.at[shard].state, BW_SHARD_ENDS);
    assert_int_equal(bw_shards_ended(&us, shard, 143, 2 * BW_SEC), BW_SHARD_RELEASED);
    assert_int_equal(start_all(2 * BW_SEC), 0);
}

static void release_to_an_absent_owner_is_retried_less_often(void **state)
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
    sees(shard, true, false, 1, now); /* the owner took it: release at once next time */
    bw_shards_started(&us, shard, now);
    assert_int_equal(sees(shard, true, true, 2, now), BW_SHARD_ASK);
}

static void supervisor_ends_when_the_owner_leads(void **state)
{
    (void)state;
    begin("a");
    start_all(0);
    see("ab", &nothing);
    assert_int_equal(sees(one_of(false), true, false, 1, BW_SEC), BW_SHARD_END);
}

static void leaderless_shard_is_taken_over_after_a_delay(void **state)
{
    (void)state;
    begin("ab");
    start_all(0);
    uint32_t shard = one_of(false);
    assert_int_equal(sees(shard, false, false, 1, BW_SEC), BW_SHARD_KEEP);
    assert_int_equal(bw_shards_next_start(&us, BW_SEC + 3 * RETRY - 1), BW_SHARD_NONE);
    assert_int_equal(bw_shards_deadline(&us), BW_SEC + 3 * RETRY);
    assert_int_equal(bw_shards_next_start(&us, BW_SEC + 3 * RETRY), shard);
    sees(shard, true, false, 2, BW_SEC + RETRY); /* its owner took it */
    assert_int_equal(bw_shards_next_start(&us, 100 * BW_SEC), BW_SHARD_NONE);
}

static void unchanged_record_counts_as_leaderless(void **state)
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
    sees(shard, true, false, 8, TTL + RETRY); /* the holder renewed after all */
    assert_int_equal(bw_shards_deadline(&us), BW_TIME_NEVER);
}

static void other_candidates_take_over_in_order_of_rank(void **state)
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

static void failing_command_is_restarted_with_growing_pauses(void **state)
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
    now += 61 * BW_SEC; /* the supervisor ran without failure for a while */
    bw_shards_ended(&us, 3, 1, now);
    assert_int_equal(bw_shards_deadline(&us), now + RETRY);
}

static void killed_supervisor_is_restarted_at_once_if_it_had_run(void **state)
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
    assert_int_equal(bw_shards_killed(&us, 3, 137, now), BW_SHARD_FAILED); /* right after its
                                                                            * start */
    assert_int_equal(bw_shards_deadline(&us), now + RETRY);
}

static void shard_done_here_is_done_everywhere(void **state)
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
    bw_shards_view_begin(&us); /* b reports all done, we have not reported yet */
    bw_shards_view_add(&us, key("b"), &done);
    bw_shards_view_add(&us, key("a"), &nothing);
    bw_shards_view_end(&us);
    assert_false(bw_shards_finished(&us));
    see("ab", &done);
    assert_true(bw_shards_finished(&us));
}

static void supervisor_ends_when_its_shard_is_done_elsewhere(void **state)
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

static void without_listing_candidate_with_more_shards_waits_longer(void **state)
{
    uint32_t shard;
    (void)state;
    begin("");
    bw_shards_poll_begin(&us);
    while ((shard = bw_shards_poll_next(&us)) != BW_SHARD_NONE)
        assert_int_equal(sees(shard, false, false, 0, 0), BW_SHARD_KEEP);
    assert_int_equal(start_all(0), 1);
    assert_int_equal(start_all(RETRY / 2), 1);
    assert_int_equal(start_all(RETRY), 1);
    shard = bw_shards_next_start(&us, 2 * RETRY);
    assert_int_not_equal(shard, BW_SHARD_NONE);
    sees(shard, true, false, 1, 2 * RETRY); /* another candidate was faster */
    assert_int_not_equal(bw_shards_next_start(&us, 2 * RETRY), shard);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (us.at[i].state == BW_SHARD_RUNS) /* and no shard is released */
            assert_int_equal(sees(i, true, true, 2, RETRY), BW_SHARD_KEEP);
}

static void every_shard_is_polled_in_turn(void **state)
{
    struct bw_shards_config config = {BW_SHARDS_MAX, key("a"), RETRY, true};
    struct bw_shard_set seen = {{0}};
    uint32_t shard;
    (void)state;
    bw_shards_init(&us, &config);
    see("bc", &nothing);
    for (unsigned round = 0; round < 16; round++) {
        unsigned count = 0;
        bw_shards_poll_begin(&us);
        for (; (shard = bw_shards_poll_next(&us)) != BW_SHARD_NONE; count++)
            bw_shard_set_add(&seen, shard);
        assert_int_equal(count, 64);
    }
    assert_int_equal(bw_shard_set_count(&seen, BW_SHARDS_MAX), BW_SHARDS_MAX);
}

static void surplus_candidates_are_dropped_deterministically(void **state)
{
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, true};
    (void)state;
    bw_shards_init(&us, &config);
    bw_shards_view_begin(&us);
    for (uint64_t i = 3000; i > 0; i--)
        bw_shards_view_add(&us, i, &nothing);
    bw_shards_view_add(&us, 7, &nothing); /* a duplicate */
    bw_shards_view_end(&us);
    assert_int_equal(us.count, BW_SPREAD_CANDIDATES_MAX);
    for (uint64_t i = 0; i < us.count; i++)
        assert_int_equal(us.keys[i], i + 1);
}

/* ---- values ---- */

static void encoded_value_decodes_to_the_same_value(void **state)
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

static void too_long_value_is_truncated_and_keeps_done_shards(void **state)
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

static void foreign_values_are_rejected(void **state)
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

static void every_shard_has_its_own_election_name(void **state)
{
    char name[BW_ELECTION_NAME_MAX + 1], longest[BW_ELECTION_NAME_MAX];
    (void)state;
    assert_int_equal(bw_shards_election(name, "job", 12), 0);
    assert_string_equal(name, "job.12");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(bw_shards_election(name, longest, 0), BW_ELIMIT);
}

/* Stores that assign the shards, such as peers. */
static void assigned_shards_are_started_and_others_end(void **state)
{
    (void)state;
    begin("");
    assert_false(bw_shards_assign(&us, 3, true, false));
    assert_int_equal(bw_shards_next_start(&us, 0), 3);
    assert_true(bw_shards_may_start(&us, 3, 0));
    bw_shards_started(&us, 3, 0);
    assert_false(bw_shards_may_start(&us, 3, 0));
    assert_false(bw_shards_assign(&us, 3, true, false));  /* nothing new */
    assert_true(bw_shards_assign(&us, 3, false, false));  /* ours no longer: end it */
    assert_false(bw_shards_assign(&us, 3, false, false)); /* it is ending */
    bw_shards_ended(&us, 3, 143, 0);
    assert_false(bw_shards_assign(&us, 3, true, true)); /* done elsewhere */
    assert_false(bw_shards_may_start(&us, 3, 0));
    bw_shards_assign(&us, 4, true, false);
    bw_shards_started(&us, 4, 0);
    bw_shards_ended(&us, 4, 1, 0); /* failed: not before its pause is over */
    assert_false(bw_shards_may_start(&us, 4, RETRY - 1));
    assert_true(bw_shards_may_start(&us, 4, RETRY));
    bw_shards_started(&us, 4, RETRY);
    assert_false(bw_shards_assign(&us, 4, false, true)); /* done: next_end ends it */
    assert_int_equal(bw_shards_next_end(&us), 4);
}

static void the_published_sets_name_running_and_done_shards(void **state)
{
    struct bw_shard_set running, done;
    (void)state;
    begin("");
    assert_int_equal(bw_shards_owner(&us, 0), 0); /* nothing is spread */
    bw_shards_started(&us, 2, 0);
    bw_shards_started(&us, 5, 0);
    bw_shards_ended(&us, 5, 0, 0);
    bw_shards_running(&us, &running);
    bw_shards_done(&us, &done);
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_int_equal(bw_shard_set_has(&running, i), i == 2);
        assert_int_equal(bw_shard_set_has(&done, i), i == 5);
    }
    begin("a");
    assert_true(bw_shards_owner(&us, 0) == key("a"));
}

static void candidates_without_a_list_finish_when_all_is_done_and_stopped(void **state)
{
    (void)state;
    begin("");
    for (uint32_t i = 0; i < SHARDS; i++)
        bw_shards_assign(&us, i, false, true);
    assert_true(bw_shards_finished(&us));
    bw_shards_started(&us, 2, 0); /* its supervisor has not noticed yet */
    assert_false(bw_shards_finished(&us));
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, true};
    bw_shards_init(&us, &config);
    for (uint32_t i = 0; i < SHARDS; i++)
        us.at[i].done = true;
    assert_false(bw_shards_finished(&us)); /* no candidate was seen yet */
}

static void view_changes_when_a_candidate_is_replaced_or_all_are_gone(void **state)
{
    (void)state;
    begin("ab");
    uint32_t ours = bw_shards_ours(&us);
    bw_shards_view_begin(&us);
    bw_shards_view_add(&us, key("a"), &nothing);
    bw_shards_view_add(&us, key("b"), &nothing);
    assert_false(bw_shards_view_end(&us));
    bw_shards_view_begin(&us);
    bw_shards_view_add(&us, key("a"), &nothing);
    bw_shards_view_add(&us, key("c"), &nothing); /* as many, but another */
    assert_true(bw_shards_view_end(&us));
    assert_in_range(bw_shards_ours(&us), ours - 1, ours + 1);
    bw_shards_view_begin(&us);
    assert_true(bw_shards_view_end(&us)); /* no candidate, not even this one */
    assert_int_equal(bw_shards_ours(&us), 0);
    sees(3, false, false, 1, 0);
    assert_int_equal(bw_shards_deadline(&us), 3 * RETRY); /* no rank without a spread */
    bw_shards_view_begin(&us);
    assert_false(bw_shards_view_end(&us)); /* still no candidate */
}

static void larger_key_does_not_fit_into_a_full_view(void **state)
{
    struct bw_shards_config config = {SHARDS, key("a"), RETRY, true};
    (void)state;
    bw_shards_init(&us, &config);
    bw_shards_view_begin(&us);
    for (uint64_t i = 1; i <= BW_SPREAD_CANDIDATES_MAX; i++)
        bw_shards_view_add(&us, i, &nothing);
    bw_shards_view_add(&us, 5000, &nothing);
    assert_int_equal(us.count, BW_SPREAD_CANDIDATES_MAX);
    assert_int_equal(us.keys[us.count - 1], BW_SPREAD_CANDIDATES_MAX);
}

static void delays_end_at_the_highest_rank_and_load(void **state)
{
    (void)state;
    begin("");
    for (uint32_t i = 0; i < SHARDS; i++)
        sees(i, false, false, 0, 0);
    bw_time last = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        bw_time at = bw_shards_deadline(&us);
        assert_true(at >= last && at <= 4 * RETRY);
        last = at;
        bw_shards_started(&us, bw_shards_next_start(&us, at), at);
    }
    assert_int_equal(last, 4 * RETRY);
    static const char ids[] = "abcdefghijklmnopqrstuvwxyz";
    for (const char *id = ids; *id; id++) { /* 26 candidates: the last rank waits no longer */
        struct bw_shards_config config = {SHARDS, bw_spread_key(id, 1), RETRY, true};
        bw_shards_init(&us, &config);
        see(ids, &nothing);
        see(ids, &nothing);
        start_all(0);
        if (!us.at[4].ours)
            sees(4, false, false, 1, 0);
        assert_in_range(bw_shards_deadline(&us), 3 * RETRY, us.at[4].ours ? INT64_MAX : 27 * RETRY);
    }
}

static void killed_supervisor_of_a_finished_or_foreign_shard(void **state)
{
    (void)state;
    begin("a");
    start_all(0);
    assert_int_equal(bw_shards_killed(&us, 3, 0, 5 * BW_SEC), BW_SHARD_DONE);
    assert_int_equal(bw_shards_next_start(&us, 5 * BW_SEC), BW_SHARD_NONE);
    begin("ab");
    uint32_t shard = one_of(false);
    start_all(0);
    bw_shards_started(&us, shard, 0); /* taken over */
    assert_int_equal(bw_shards_killed(&us, shard, 137, 5 * BW_SEC), BW_SHARD_FAILED);
    assert_int_equal(bw_shards_next_start(&us, 5 * BW_SEC), shard); /* contends in any case */
}

static void only_open_shards_of_others_are_polled(void **state)
{
    (void)state;
    begin("ab");
    uint32_t shard, open = SHARDS - bw_shards_ours(&us), count = 0;
    uint32_t ending = one_of(false);
    bw_shards_started(&us, ending, 0);
    bw_shards_ending(&us, ending);
    bw_shards_poll_begin(&us);
    while ((shard = bw_shards_poll_next(&us)) != BW_SHARD_NONE) {
        assert_false(us.at[shard].ours);
        assert_int_not_equal(shard, ending);
        us.at[shard].done = true;
        count++;
    }
    assert_int_equal(count, open - 1);
    bw_shards_poll_begin(&us);
    assert_int_equal(bw_shards_poll_next(&us), BW_SHARD_NONE); /* all of them are done */
}

static void free_shard_stays_free_since_it_was_first_seen(void **state)
{
    (void)state;
    begin("ab");
    start_all(0);
    uint32_t shard = one_of(false);
    sees(shard, false, false, 1, BW_SEC);
    sees(shard, false, false, 1, 2 * BW_SEC);
    assert_int_equal(bw_shards_deadline(&us), BW_SEC + 3 * RETRY);
    assert_int_equal(sees(one_of(true), true, true, 1, BW_SEC), BW_SHARD_KEEP); /* ours */
}

static void done_shard_stays_done_when_it_is_assigned_again(void **state)
{
    (void)state;
    begin("");
    bw_shards_assign(&us, 3, true, true);
    bw_shards_assign(&us, 3, true, false);
    assert_false(bw_shards_may_start(&us, 3, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_started_by_the_first_view),
        cmocka_unit_test(unlisted_candidate_owns_nothing),
        cmocka_unit_test(shard_is_released_when_its_owner_waits),
        cmocka_unit_test(release_to_an_absent_owner_is_retried_less_often),
        cmocka_unit_test(supervisor_ends_when_the_owner_leads),
        cmocka_unit_test(leaderless_shard_is_taken_over_after_a_delay),
        cmocka_unit_test(unchanged_record_counts_as_leaderless),
        cmocka_unit_test(other_candidates_take_over_in_order_of_rank),
        cmocka_unit_test(failing_command_is_restarted_with_growing_pauses),
        cmocka_unit_test(killed_supervisor_is_restarted_at_once_if_it_had_run),
        cmocka_unit_test(shard_done_here_is_done_everywhere),
        cmocka_unit_test(supervisor_ends_when_its_shard_is_done_elsewhere),
        cmocka_unit_test(without_listing_candidate_with_more_shards_waits_longer),
        cmocka_unit_test(every_shard_is_polled_in_turn),
        cmocka_unit_test(surplus_candidates_are_dropped_deterministically),
        cmocka_unit_test(encoded_value_decodes_to_the_same_value),
        cmocka_unit_test(too_long_value_is_truncated_and_keeps_done_shards),
        cmocka_unit_test(foreign_values_are_rejected),
        cmocka_unit_test(every_shard_has_its_own_election_name),
        cmocka_unit_test(assigned_shards_are_started_and_others_end),
        cmocka_unit_test(the_published_sets_name_running_and_done_shards),
        cmocka_unit_test(candidates_without_a_list_finish_when_all_is_done_and_stopped),
        cmocka_unit_test(view_changes_when_a_candidate_is_replaced_or_all_are_gone),
        cmocka_unit_test(larger_key_does_not_fit_into_a_full_view),
        cmocka_unit_test(delays_end_at_the_highest_rank_and_load),
        cmocka_unit_test(killed_supervisor_of_a_finished_or_foreign_shard),
        cmocka_unit_test(only_open_shards_of_others_are_polled),
        cmocka_unit_test(free_shard_stays_free_since_it_was_first_seen),
        cmocka_unit_test(done_shard_stays_done_when_it_is_assigned_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
