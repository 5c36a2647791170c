/* Answers that do not name their request count for the oldest one. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/lease/keepalive.h"

static void an_answer_counts_for_the_oldest_unanswered_request(void **state)
{
    (void)state;
    struct bw_keepalive stream;
    bw_time sent = 0;
    bw_keepalive_reset(&stream);
    assert_int_equal(bw_keepalive_send(&stream, 10), 0);
    assert_int_equal(bw_keepalive_send(&stream, 20), 0);
    assert_true(bw_keepalive_answer(&stream, &sent));
    assert_int_equal(sent, 10);
    assert_true(bw_keepalive_answer(&stream, &sent));
    assert_int_equal(sent, 20);
}

static void unexpected_keepalive_answer_is_ignored(void **state)
{
    (void)state;
    struct bw_keepalive stream;
    bw_time sent = 7;
    bw_keepalive_reset(&stream);
    assert_false(bw_keepalive_answer(&stream, &sent));
    assert_int_equal(sent, 7);
    assert_int_equal(bw_keepalive_send(&stream, 10), 0);
    bw_keepalive_reset(&stream);
    assert_false(bw_keepalive_answer(&stream, &sent));
}

static void too_many_unanswered_requests_require_a_new_stream(void **state)
{
    (void)state;
    struct bw_keepalive stream;
    bw_keepalive_reset(&stream);
    for (uint32_t i = 0; i < BW_LEASE_UNANSWERED_MAX; i++)
        assert_int_equal(bw_keepalive_send(&stream, i), 0);
    assert_int_equal(bw_keepalive_send(&stream, 99), BW_ELIMIT);
    bw_keepalive_reset(&stream);
    assert_int_equal(bw_keepalive_send(&stream, 99), 0);
}

/* Requests are answered in order and some answers are lost. The sending time that the holder
 * assumes is never later than that of the request that was really answered. */
static void lost_answers_never_extend_the_lease(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    for (int run = 0; run < 2000; run++) {
        struct bw_keepalive stream;
        bw_time asked[64], believed = 0;
        int sent = 0, answered = 0;
        bw_keepalive_reset(&stream);
        for (bw_time now = 1; now < 60; now++) {
            if (bw_rng_chance(&rng, 0.5) && bw_keepalive_send(&stream, now) == 0)
                asked[sent++] = now;
            if (answered == sent || bw_rng_chance(&rng, 0.4))
                continue;
            bw_time truth = asked[answered++];
            if (bw_rng_chance(&rng, 0.1))
                continue; /* this answer was lost */
            assert_true(bw_keepalive_answer(&stream, &believed));
            assert_true(believed <= truth);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_counts_for_the_oldest_unanswered_request),
        cmocka_unit_test(unexpected_keepalive_answer_is_ignored),
        cmocka_unit_test(too_many_unanswered_requests_require_a_new_stream),
        cmocka_unit_test(lost_answers_never_extend_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
