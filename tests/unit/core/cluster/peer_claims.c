/* Claims to lead: succession is no split, two that go on claiming are, and a stale token is told.
 */
#include "core/cluster/claims.h"

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

static enum bw_claims_verdict hear(struct world *w, bw_node node, bw_term term, bw_token token)
{
    struct bw_peer_claim claim = {.node = node, .term = term, .token = token, .seen = w->now};
    w->now += TURN;
    return bw_claims_hear(&w->claims, &claim, &w->other);
}

static void one_after_the_other_is_no_split(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        assert_int_equal(hear(&w, 1, 1, 5), BW_CLAIMS_ONE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(hear(&w, 2, 2, 6), BW_CLAIMS_ONE);
    assert_int_equal(hear(&w, 1, 3, 7), BW_CLAIMS_ONE); /* and back again */
}

static void a_late_message_of_the_one_before_is_no_split(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        hear(&w, 1, 1, 0);
    assert_int_equal(hear(&w, 2, 2, 0), BW_CLAIMS_ONE);
    assert_int_equal(hear(&w, 1, 1, 0), BW_CLAIMS_ONE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(hear(&w, 2, 2, 0), BW_CLAIMS_ONE);
}

static void two_that_go_on_are_told_once(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned told = 0;
    for (int i = 0; i < 50; i++) {
        told += hear(&w, 4, 1, 0) == BW_CLAIMS_TWO;
        told += hear(&w, 2, 1, 0) == BW_CLAIMS_TWO;
    }
    assert_int_equal(told, 1);
    assert_true(w.other.node == 2 || w.other.node == 4);
    for (int i = 0; i < 50; i++) { /* another term: another split */
        told += hear(&w, 4, 1, 0) == BW_CLAIMS_TWO;
        told += hear(&w, 2, 9, 0) == BW_CLAIMS_TWO;
    }
    assert_int_equal(told, 2);
}

/* Each pair is news once, however long they go on and whoever repeats what. */
static void of_five_that_go_on_each_pair_is_told_once(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned told = 0;
    for (int i = 0; i < 100; i++)
        for (bw_node node = 1; node <= 5; node++) {
            told += hear(&w, node, 20 + node, 0) == BW_CLAIMS_TWO;
            w.now -= TURN * 4 / 5;
        }
    assert_int_equal(told, 10);
}

static void an_older_claim_that_is_passed_on_does_not_take_the_place_of_the_newer(void **state)
{
    (void)state;
    struct world w = begin();
    unsigned told = 0;
    struct bw_peer_claim old = {.node = 1, .term = 3};
    for (int i = 0; i < 60; i++) {
        told += hear(&w, 1, i < 20 ? 3 : 8, 0) == BW_CLAIMS_TWO;
        told += hear(&w, 2, 4, 0) == BW_CLAIMS_TWO;
        old.seen = BW_SEC + 2 * TURN;
        old.since = BW_SEC;
        if (i > 20)
            told += bw_claims_hear(&w.claims, &old, &w.other) == BW_CLAIMS_TWO;
    }
    assert_int_equal(told, 2); /* under either term, once */
}

/* Cut off from each other both led; the cut heals, and the first claim of the other side is heard.
 */
static void one_claim_of_each_tells_what_happened_while_they_were_cut_off(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        hear(&w, 1, 1, 0);
    struct bw_peer_claim claim = {.node = 5, .term = 2, .seen = w.now, .since = w.now - 10 * TURN};
    assert_int_equal(bw_claims_hear(&w.claims, &claim, &w.other), BW_CLAIMS_TWO);
    assert_int_equal(w.other.node, 1);
}

static void one_that_began_when_the_other_had_gone_is_no_split(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 20; i++)
        hear(&w, 1, 1, 0);
    bw_time gone = w.now;
    w.now += 10 * BW_SEC;
    struct bw_peer_claim claim = {.node = 5, .term = 2, .seen = w.now, .since = gone};
    assert_int_equal(bw_claims_hear(&w.claims, &claim, &w.other), BW_CLAIMS_ONE);
}

static enum bw_claims_verdict hear_window(struct world *w, bw_node node, bw_time since,
                                          bw_time seen, bool ended)
{
    struct bw_peer_claim claim = {
        .node = node, .term = node, .seen = seen, .since = since, .ended = ended};
    return bw_claims_hear(&w->claims, &claim, &w->other);
}

/* A leader that was stopped, and whose work was killed a moment after another had begun; in
 * whatever order it is heard of, and whoever of the two says how long it acted. */
static void an_overlap_of_a_millisecond_is_told_when_its_ends_are_known(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct world w = begin();
        bw_time began = 10 * BW_SEC, died = began + BW_MS;
        hear_window(&w, 1, BW_SEC, 8 * BW_SEC, false);
        if (order == 0) {
            assert_int_equal(hear_window(&w, 2, began, began, false), BW_CLAIMS_ONE);
            assert_int_equal(hear_window(&w, 1, BW_SEC, died, true), BW_CLAIMS_TWO);
        } else {
            assert_int_equal(hear_window(&w, 1, BW_SEC, died, true), BW_CLAIMS_ONE);
            assert_int_equal(hear_window(&w, 2, began, died + BW_SEC, false), BW_CLAIMS_TWO);
        }
        assert_int_equal(hear_window(&w, 2, began, died + 2 * BW_SEC, false), BW_CLAIMS_ONE);
        assert_int_equal(hear_window(&w, 1, BW_SEC, died, true), BW_CLAIMS_ONE); /* told before */
    }
}

static void one_that_ended_before_the_other_began_is_no_split(void **state)
{
    (void)state;
    struct world w = begin();
    hear_window(&w, 1, BW_SEC, 8 * BW_SEC, false);
    assert_int_equal(hear_window(&w, 1, BW_SEC, 10 * BW_SEC, true), BW_CLAIMS_ONE);
    /* under way when it ended */
    assert_int_equal(hear_window(&w, 1, BW_SEC, 10 * BW_SEC + 50 * BW_MS, false), BW_CLAIMS_ONE);
    for (int i = 0; i < 40; i++)
        assert_int_equal(hear_window(&w, 2, 10 * BW_SEC, 10 * BW_SEC + i * TURN, false),
                         BW_CLAIMS_ONE);
}

/* With tokens a leader waits for the end of the one before: delays of messages prove nothing. */
static void tokens_say_more_than_the_times_of_messages(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim one = {
        .node = 1, .term = 1, .token = 1, .since = BW_SEC, .seen = 10 * BW_SEC, .ended = true};
    struct bw_peer_claim two = {
        .node = 2, .term = 2, .token = 2, .since = 10 * BW_SEC - BW_MS, .seen = 10 * BW_SEC};
    bw_claims_hear(&w.claims, &one, &w.other);
    assert_int_equal(bw_claims_hear(&w.claims, &two, &w.other), BW_CLAIMS_ONE);
}

static void after_its_end_a_claim_is_void(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[4];
    for (int i = 0; i < 20; i++)
        hear(&w, 1, 3, 0);
    bw_claims_end(&w.claims, 1, 2); /* an earlier term's end */
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 4), 1);
    bw_claims_end(&w.claims, 1, 3);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 4), 0);
}

static void a_token_that_was_passed_is_stale(void **state)
{
    (void)state;
    struct world w = begin();
    for (int i = 0; i < 10; i++)
        assert_int_equal(hear(&w, 1, 1, 8), BW_CLAIMS_ONE);
    w.now += 10 * BW_SEC; /* the one with token 8 is silent; one that slept wakes */
    unsigned stale = 0;
    for (int i = 0; i < 10; i++)
        stale += hear(&w, 2, 1, 7) == BW_CLAIMS_STALE;
    assert_int_equal(stale, 1);
    assert_int_equal(w.other.node, 1);
    assert_int_equal(w.other.token, 8);
}

static void who_claims_now_is_listed_and_the_silent_are_not(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[2];
    hear(&w, 1, 1, 0);
    w.now += 5 * BW_SEC;
    hear(&w, 2, 1, 0);
    hear(&w, 3, 1, 0);
    assert_int_equal(bw_claims_now(&w.claims, w.now, BW_SEC, out, 2), 2);
    assert_int_equal(out[0].node, 2);
    assert_int_equal(out[1].node, 3);
}

static void there_is_room_for_the_newest(void **state)
{
    (void)state;
    struct world w = begin();
    struct bw_peer_claim out[BW_CLAIMS_MAX];
    for (bw_node node = 1; node <= 3 * BW_CLAIMS_MAX; node++)
        hear(&w, node, 1, 0);
    assert_int_equal(bw_claims_now(&w.claims, w.now, 1000 * BW_SEC, out, BW_CLAIMS_MAX),
                     BW_CLAIMS_MAX);
    assert_int_equal(out[BW_CLAIMS_MAX - 1].node, 3 * BW_CLAIMS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other_is_no_split),
        cmocka_unit_test(a_late_message_of_the_one_before_is_no_split),
        cmocka_unit_test(two_that_go_on_are_told_once),
        cmocka_unit_test(of_five_that_go_on_each_pair_is_told_once),
        cmocka_unit_test(an_older_claim_that_is_passed_on_does_not_take_the_place_of_the_newer),
        cmocka_unit_test(one_claim_of_each_tells_what_happened_while_they_were_cut_off),
        cmocka_unit_test(one_that_began_when_the_other_had_gone_is_no_split),
        cmocka_unit_test(an_overlap_of_a_millisecond_is_told_when_its_ends_are_known),
        cmocka_unit_test(one_that_ended_before_the_other_began_is_no_split),
        cmocka_unit_test(tokens_say_more_than_the_times_of_messages),
        cmocka_unit_test(after_its_end_a_claim_is_void),
        cmocka_unit_test(a_token_that_was_passed_is_stale),
        cmocka_unit_test(who_claims_now_is_listed_and_the_silent_are_not),
        cmocka_unit_test(there_is_room_for_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
