/* Claims of leaders: succession is not a split, two continuing leaders are, and a stale token is
 * reported. */
#include "core/peer/claims.h"

#include "unit/unit.h"

#define SETTLE (500 * BW_MS)
#define TURN   (100 * BW_MS)

struct world {
    struct bw_claims claims;
    bw_time now;
    struct bw_peer_claim other;
};

static struct world begin(void)
{
    struct world w = {.now = BW_SEC};
    bw_claims_init(&w.claims, SETTLE);
    return w;
}

static enum bw_claims_verdict receive(struct world *w, bw_node node, bw_term term, bw_token token)
{
    struct bw_peer_claim claim = {.node = node, .term = term, .token = token, .seen = w->now};
    w->now += TURN;
    return bw_claims_receive(&w->claims, &claim, &w->other);
}

static void succession_is_not_a_split(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        assert_int_equal(receive(&w, 1, 1, 5), BW_CLAIMS_ONE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(receive(&w, 2, 2, 6), BW_CLAIMS_ONE);
    assert_int_equal(receive(&w, 1, 3, 7), BW_CLAIMS_ONE); /* back to node 1 */
}

static void late_message_of_predecessor_is_not_a_split(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        receive(&w, 1, 1, 0);
    assert_int_equal(receive(&w, 2, 2, 0), BW_CLAIMS_ONE);
    assert_int_equal(receive(&w, 1, 1, 0), BW_CLAIMS_ONE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(receive(&w, 2, 2, 0), BW_CLAIMS_ONE);
}

static void two_continuing_leaders_are_reported_once_per_pair_of_terms(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned reports = 0;
    for (int i = 0; i < 50; i++) {
        reports += receive(&w, 4, 1, 0) == BW_CLAIMS_TWO;
        reports += receive(&w, 2, 1, 0) == BW_CLAIMS_TWO;
    }
    assert_int_equal(reports, 1);
    assert_true(w.other.node == 2 || w.other.node == 4);
    for (int i = 0; i < 50; i++) { /* a new term: a new split */
        reports += receive(&w, 4, 1, 0) == BW_CLAIMS_TWO;
        reports += receive(&w, 2, 9, 0) == BW_CLAIMS_TWO;
    }
    assert_int_equal(reports, 2);
}

/* Each pair is reported once, however long the leaders continue and however often claims repeat. */
static void each_pair_of_five_leaders_is_reported_once(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned reports = 0;
    for (int i = 0; i < 100; i++)
        for (bw_node node = 1; node <= 5; node++) {
            reports += receive(&w, node, 20 + node, 0) == BW_CLAIMS_TWO;
            w.now -= TURN * 4 / 5;
        }
    assert_int_equal(reports, 10);
}

static void forwarded_older_claim_does_not_replace_newer_claim(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned reports = 0;
    struct bw_peer_claim old = {.node = 1, .term = 3};
    for (int i = 0; i < 60; i++) {
        reports += receive(&w, 1, i < 20 ? 3 : 8, 0) == BW_CLAIMS_TWO;
        reports += receive(&w, 2, 4, 0) == BW_CLAIMS_TWO;
        old.seen = BW_SEC + 2 * TURN;
        old.since = BW_SEC;
        if (i > 20)
            reports += bw_claims_receive(&w.claims, &old, &w.other) == BW_CLAIMS_TWO;
    }
    assert_int_equal(reports, 2); /* once for each of the two terms */
}

/* Both sides of a partition had a leader. The partition heals, and the first claim crosses. */
static void one_claim_from_each_side_reveals_split_during_partition(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        receive(&w, 1, 1, 0);
    struct bw_peer_claim claim = {.node = 5, .term = 2, .seen = w.now, .since = w.now - 10 * TURN};
    assert_int_equal(bw_claims_receive(&w.claims, &claim, &w.other), BW_CLAIMS_TWO);
    assert_int_equal(w.other.node, 1);
}

static void leader_that_began_after_the_other_stopped_is_not_a_split(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        receive(&w, 1, 1, 0);
    bw_time gone = w.now;
    w.now += 10 * BW_SEC;
    struct bw_peer_claim claim = {.node = 5, .term = 2, .seen = w.now, .since = gone};
    assert_int_equal(bw_claims_receive(&w.claims, &claim, &w.other), BW_CLAIMS_ONE);
}

static enum bw_claims_verdict receive_window(struct world *w, bw_node node, bw_time since,
                                             bw_time seen, bool ended)
{
    struct bw_peer_claim claim = {
        .node = node, .term = node, .seen = seen, .since = since, .ended = ended};
    return bw_claims_receive(&w->claims, &claim, &w->other);
}

/* A paused leader's work is killed a moment after another leader has begun. The overlap is found in
 * either order of arrival. */
static void overlap_of_one_millisecond_is_reported_when_ends_are_known(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct world w = begin();
        bw_time began = 10 * BW_SEC, died = began + BW_MS;
        receive_window(&w, 1, BW_SEC, 8 * BW_SEC, false);
        if (order == 0) {
            assert_int_equal(receive_window(&w, 2, began, began, false), BW_CLAIMS_ONE);
            assert_int_equal(receive_window(&w, 1, BW_SEC, died, true), BW_CLAIMS_TWO);
        } else {
            assert_int_equal(receive_window(&w, 1, BW_SEC, died, true), BW_CLAIMS_ONE);
            assert_int_equal(receive_window(&w, 2, began, died + BW_SEC, false), BW_CLAIMS_TWO);
        }
        assert_int_equal(receive_window(&w, 2, began, died + 2 * BW_SEC, false), BW_CLAIMS_ONE);
        assert_int_equal(receive_window(&w, 1, BW_SEC, died, true), BW_CLAIMS_ONE); /* already
                                                                                  * reported */
    }
}

static void leader_that_ended_before_the_other_began_is_not_a_split(void **state)
{
    (void)state;
    struct world w = begin();
    receive_window(&w, 1, BW_SEC, 8 * BW_SEC, false);
    assert_int_equal(receive_window(&w, 1, BW_SEC, 10 * BW_SEC, true), BW_CLAIMS_ONE);
    /* in flight when the leadership ended */
    assert_int_equal(receive_window(&w, 1, BW_SEC, 10 * BW_SEC + 50 * BW_MS, false), BW_CLAIMS_ONE);
    for (int i = 0; i < 40; i++)
        assert_int_equal(receive_window(&w, 2, 10 * BW_SEC, 10 * BW_SEC + i * TURN, false),
                         BW_CLAIMS_ONE);
}

/* A leader with a token waits for the end of its predecessor: message delays prove nothing. */
static void tokens_outweigh_message_times(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim one = {
        .node = 1, .term = 1, .token = 1, .since = BW_SEC, .seen = 10 * BW_SEC, .ended = true};
    struct bw_peer_claim two = {
        .node = 2, .term = 2, .token = 2, .since = 10 * BW_SEC - BW_MS, .seen = 10 * BW_SEC};
    bw_claims_receive(&w.claims, &one, &w.other);
    assert_int_equal(bw_claims_receive(&w.claims, &two, &w.other), BW_CLAIMS_ONE);
}

static void claim_is_dropped_when_its_term_ends(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[4];
    for (int i = 0; i < 20; i++)
        receive(&w, 1, 3, 0);
    bw_claims_end(&w.claims, 1, 2); /* the end of an earlier term */
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 4), 1);
    bw_claims_end(&w.claims, 1, 3);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 4), 0);
}

static void claim_with_lower_token_is_stale(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 10; i++)
        assert_int_equal(receive(&w, 1, 1, 8), BW_CLAIMS_ONE);
    w.now += 10 * BW_SEC; /* the leader with token 8 falls silent; a leader that was asleep wakes
                           * up */
    unsigned stale = 0;
    for (int i = 0; i < 10; i++)
        stale += receive(&w, 2, 1, 7) == BW_CLAIMS_STALE;
    assert_int_equal(stale, 1);
    assert_int_equal(w.other.node, 1);
    assert_int_equal(w.other.token, 8);
}

static void recent_claims_are_listed_and_old_ones_are_not(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[2];
    receive(&w, 1, 1, 0);
    w.now += 5 * BW_SEC;
    receive(&w, 2, 1, 0);
    receive(&w, 3, 1, 0);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 2), 2);
    assert_int_equal(out[0].node, 2);
    assert_int_equal(out[1].node, 3);
}

static void full_table_keeps_the_newest_claims(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[BW_CLAIMS_MAX];
    for (bw_node node = 1; node <= 3 * BW_CLAIMS_MAX; node++)
        receive(&w, node, 1, 0);
    assert_int_equal(bw_claims_now(&w.claims, w.now, 1000 * BW_SEC, out, BW_CLAIMS_MAX),
                     BW_CLAIMS_MAX);
    assert_int_equal(out[BW_CLAIMS_MAX - 1].node, 3 * BW_CLAIMS_MAX);
}

static void ended(struct world *w, bw_node node, bw_term term)
{
    struct bw_peer_claim claim = {.node = node, .term = term, .seen = w->now, .ended = true};
    w->now += TURN;
    bw_claims_receive(&w->claims, &claim, &w->other);
}

/* A claim in flight does not revive a leadership that ended; one that is sent later does. */
static void ended_leadership_continues_only_after_the_settle_time(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[2];
    receive(&w, 1, 1, 0);
    ended(&w, 1, 1);
    receive(&w, 1, 1, 0);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 2), 0);
    w.now += SETTLE;
    receive(&w, 1, 1, 0);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 2), 1);
}

/* The lists name the oldest claim first and stop at their capacity. */
static void current_claims_are_sorted_and_bounded(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[4];
    for (bw_node node = 1; node <= 3; node++)
        receive(&w, node, 1, 0);
    receive(&w, 1, 1, 0); /* now the newest, in the first row */
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 4), 3);
    assert_int_equal(out[0].node, 2);
    assert_int_equal(out[2].node, 1);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 2), 2);
}

static void claim_is_found_by_node_up_to_a_term(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out;
    receive(&w, 1, 5, 0);
    receive(&w, 2, 7, 0);
    assert_true(bw_claims_of(&w.claims, 2, 7, &out));
    assert_int_equal(out.term, 7);
    assert_int_equal(out.since, BW_SEC + TURN);
    assert_false(bw_claims_of(&w.claims, 2, 6, &out));
    assert_false(bw_claims_of(&w.claims, 3, 9, &out));
    bw_claims_end(&w.claims, 3, 9); /* unknown: nothing happens */
    assert_int_equal(w.claims.count, 2);
}

/* One leadership with a token and one without; the end of the second one is known. */
static void only_two_leaderships_without_tokens_are_compared_by_time(void **state)
{
    (void)state;
    for (bw_token token = 0; token < 2; token++) {
        struct world w = begin();
        struct bw_peer_claim first = {
            .node = 1, .term = 1, .token = token, .seen = w.now, .since = w.now - 10};
        struct bw_peer_claim second = {
            .node = 2, .term = 1, .seen = w.now + 5, .since = w.now - 5, .ended = true};
        bw_claims_receive(&w.claims, &first, &w.other);
        assert_int_equal(bw_claims_receive(&w.claims, &second, &w.other),
                         token ? BW_CLAIMS_ONE : BW_CLAIMS_TWO);
    }
}

/* The new leader ended before the other one began. */
static void leadership_that_began_after_the_end_of_another_is_no_split(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim later = {.node = 2, .term = 2, .seen = w.now + 100, .since = w.now + 50};
    struct bw_peer_claim earlier = {
        .node = 1, .term = 1, .seen = w.now + 50, .since = w.now, .ended = true};
    bw_claims_receive(&w.claims, &later, &w.other);
    assert_int_equal(bw_claims_receive(&w.claims, &earlier, &w.other), BW_CLAIMS_ONE);
    earlier.seen++;
    earlier.term++; /* another leadership, one nanosecond longer */
    assert_int_equal(bw_claims_receive(&w.claims, &earlier, &w.other), BW_CLAIMS_TWO);
}

static void new_term_of_the_second_leader_is_a_new_split(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned reports = 0;
    for (bw_term term = 1; term <= 3; term++)
        for (int i = 0; i < 30; i++) {
            reports += receive(&w, 2, 1, 0) == BW_CLAIMS_TWO;
            reports += receive(&w, 4, term, 0) == BW_CLAIMS_TWO;
        }
    assert_int_equal(reports, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(succession_is_not_a_split),
        cmocka_unit_test(late_message_of_predecessor_is_not_a_split),
        cmocka_unit_test(two_continuing_leaders_are_reported_once_per_pair_of_terms),
        cmocka_unit_test(each_pair_of_five_leaders_is_reported_once),
        cmocka_unit_test(forwarded_older_claim_does_not_replace_newer_claim),
        cmocka_unit_test(one_claim_from_each_side_reveals_split_during_partition),
        cmocka_unit_test(leader_that_began_after_the_other_stopped_is_not_a_split),
        cmocka_unit_test(overlap_of_one_millisecond_is_reported_when_ends_are_known),
        cmocka_unit_test(leader_that_ended_before_the_other_began_is_not_a_split),
        cmocka_unit_test(tokens_outweigh_message_times),
        cmocka_unit_test(claim_is_dropped_when_its_term_ends),
        cmocka_unit_test(claim_with_lower_token_is_stale),
        cmocka_unit_test(recent_claims_are_listed_and_old_ones_are_not),
        cmocka_unit_test(full_table_keeps_the_newest_claims),
        cmocka_unit_test(ended_leadership_continues_only_after_the_settle_time),
        cmocka_unit_test(current_claims_are_sorted_and_bounded),
        cmocka_unit_test(claim_is_found_by_node_up_to_a_term),
        cmocka_unit_test(only_two_leaderships_without_tokens_are_compared_by_time),
        cmocka_unit_test(leadership_that_began_after_the_end_of_another_is_no_split),
        cmocka_unit_test(new_term_of_the_second_leader_is_a_new_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
