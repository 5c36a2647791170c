/* A peer's seat in stories: a lease is never longer than what the peers announced, who must not
 * lead resigns, and who lost the lead keeps its seat until its work is dead. And what a URL of
 * peers says. */
#include "unit/unit.h"

#include "core/shards/seat.h"
#include "store/peer/settings.h"

#define SELF 2u
#define TTL  (10 * BW_SEC)

static struct bw_announcement leads(bw_node leader, bw_token token, bw_time from, bw_time until)
{
    return (struct bw_announcement){.leader = leader,
                                    .term = token ? token : 1,
                                    .token = token,
                                    .act_from = from,
                                    .act_until = until};
}

static bool hear(struct peer_seat *seat, bw_time now, struct bw_announcement told)
{
    return peer_seat_hear(seat, &told, now);
}

static void a_seat_is_free_from_act_from_on_and_for_a_whole_lease(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    assert_false(peer_seat_free(&seat, 0));
    seat.line = PEER_LINE_IN;
    assert_true(hear(&seat, BW_SEC, leads(SELF, 5, 3 * BW_SEC, 14 * BW_SEC)));
    assert_false(peer_seat_free(&seat, BW_SEC));
    assert_int_equal(peer_seat_acquire(&seat, BW_SEC, TTL, BW_SEC), PEER_NO);
    assert_int_equal(peer_seat_deadline(&seat, BW_SEC), 3 * BW_SEC);
    assert_true(peer_seat_look(&seat, 3 * BW_SEC)); /* readers see that it is free now */
    assert_false(peer_seat_look(&seat, 3 * BW_SEC));
    assert_int_equal(peer_seat_acquire(&seat, 4 * BW_SEC + 1, TTL, 4 * BW_SEC + 1), PEER_NO);
    assert_int_equal(peer_seat_acquire(&seat, 4 * BW_SEC, TTL, 4 * BW_SEC), PEER_YES);
    assert_int_equal(seat.token, 5);
    assert_false(peer_seat_free(&seat, 4 * BW_SEC));
}

static void a_renewal_waits_for_the_announcement_that_covers_it(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    hear(&seat, 0, leads(SELF, 5, 0, 11 * BW_SEC));
    assert_int_equal(peer_seat_acquire(&seat, 0, TTL, 0), PEER_YES);
    bw_time sent = 2 * BW_SEC;
    assert_int_equal(peer_seat_renew(&seat, 5, sent, TTL), PEER_WAIT);
    assert_false(hear(&seat, 2 * BW_SEC, leads(SELF, 5, 0, 12 * BW_SEC - 1)));
    assert_int_equal(peer_seat_renew(&seat, 5, sent, TTL), PEER_WAIT);
    hear(&seat, 2 * BW_SEC, leads(SELF, 5, 0, 12 * BW_SEC));
    assert_int_equal(peer_seat_renew(&seat, 5, sent, TTL), PEER_YES);
    assert_int_equal(peer_seat_renew(&seat, 4, sent, TTL), PEER_NO);
}

static void who_lost_the_lead_keeps_its_seat_until_its_work_is_dead(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    hear(&seat, 0, leads(SELF, 5, 0, 20 * BW_SEC));
    peer_seat_acquire(&seat, 0, TTL, 0);
    assert_true(hear(&seat, BW_SEC, leads(BW_NODE_NONE, 0, 0, 0)));
    assert_int_equal(peer_seat_renew(&seat, 5, BW_SEC, TTL), PEER_NO);
    /* Elected anew before the old work is dead: the old token is not revived. */
    hear(&seat, 2 * BW_SEC, leads(SELF, 6, 2 * BW_SEC, 30 * BW_SEC));
    assert_int_equal(peer_seat_renew(&seat, 5, 2 * BW_SEC, TTL), PEER_NO);
    assert_false(peer_seat_free(&seat, 2 * BW_SEC));
    assert_false(peer_seat_release(&seat, 6));
    assert_true(peer_seat_release(&seat, 5));
    assert_true(peer_seat_must_resign(&seat, 2 * BW_SEC));
    seat.line = PEER_LINE_IN;
    assert_true(peer_seat_free(&seat, 2 * BW_SEC));
    assert_int_equal(peer_seat_acquire(&seat, 2 * BW_SEC, TTL, 2 * BW_SEC), PEER_YES);
    assert_int_equal(seat.token, 6);
}

static void a_token_that_grows_while_we_lead_takes_nothing_away(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    hear(&seat, 0, leads(SELF, 7, 0, 20 * BW_SEC));
    assert_int_equal(peer_seat_acquire(&seat, 0, TTL, 0), PEER_YES);
    hear(&seat, BW_SEC, leads(SELF, 9, BW_SEC, 30 * BW_SEC));
    assert_int_equal(peer_seat_renew(&seat, 7, 2 * BW_SEC, TTL), PEER_YES);
    /* But somebody may have led in between: */
    hear(&seat, 3 * BW_SEC, leads(BW_NODE_NONE, 0, 0, 0));
    hear(&seat, 4 * BW_SEC, leads(SELF, 10, 4 * BW_SEC, 40 * BW_SEC));
    assert_int_equal(peer_seat_renew(&seat, 7, 5 * BW_SEC, TTL), PEER_NO);
    assert_true(peer_seat_release(&seat, 7));
}

static void without_tokens_a_lead_lasts_until_another_is_announced(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    hear(&seat, 0, leads(SELF, BW_TOKEN_NONE, 0, BW_TIME_NEVER));
    assert_int_equal(peer_seat_acquire(&seat, 0, TTL, 0), PEER_YES);
    assert_int_equal(peer_seat_renew(&seat, BW_TOKEN_NONE, 900 * BW_SEC, TTL), PEER_YES);
    assert_true(hear(&seat, 901 * BW_SEC, leads(3, BW_TOKEN_NONE, 0, 0)));
    assert_int_equal(peer_seat_renew(&seat, BW_TOKEN_NONE, 901 * BW_SEC, TTL), PEER_NO);
    assert_true(peer_seat_release(&seat, BW_TOKEN_NONE));
    seat.line = PEER_LINE_IN;
    hear(&seat, 902 * BW_SEC, leads(SELF, BW_TOKEN_NONE, 0, BW_TIME_NEVER));
    assert_int_equal(seat.before, 3);
    peer_seat_acquire(&seat, 902 * BW_SEC, TTL, 902 * BW_SEC);
    assert_int_equal(seat.before, BW_NODE_NONE);
}

static void a_recovery_takes_the_lead_away_and_nobody_gets_it_meanwhile(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    hear(&seat, 0, leads(SELF, 5, 0, 100 * BW_SEC));
    assert_int_equal(peer_seat_acquire(&seat, 0, TTL, 0), PEER_YES);
    assert_true(peer_seat_hold(&seat, true, BW_SEC));
    assert_int_equal(peer_seat_renew(&seat, 5, BW_SEC, TTL), PEER_NO);
    assert_true(peer_seat_release(&seat, 5)); /* the work is dead */
    seat.line = PEER_LINE_IN;                 /* and the elector waits for the next */
    assert_int_equal(peer_seat_acquire(&seat, BW_SEC, TTL, BW_SEC), PEER_NO);
    assert_true(peer_seat_hold(&seat, false, 2 * BW_SEC)); /* readers see that it is free again */
    assert_int_equal(peer_seat_acquire(&seat, 2 * BW_SEC, TTL, 2 * BW_SEC), PEER_YES);
}

static void who_is_not_fit_resigns_and_who_resigned_waits_for_others(void **state)
{
    struct peer_seat seat;
    (void)state;
    peer_seat_init(&seat, SELF, TTL);
    hear(&seat, 0, leads(SELF, 5, 0, 20 * BW_SEC));
    assert_false(peer_seat_must_resign(&seat, 0)); /* it may still say that it is ready */
    assert_true(peer_seat_must_resign(&seat, PEER_SEAT_RESIGN_NS));
    seat.line = PEER_LINE_OUT;
    hear(&seat, 0, leads(SELF, 6, 0, 0));
    assert_false(peer_seat_must_resign(&seat, 0)); /* elected, and the others do not know yet */
    hear(&seat, 0, leads(SELF, 6, 0, 20 * BW_SEC));
    assert_true(peer_seat_must_resign(&seat, 0));
    assert_false(peer_seat_free(&seat, 0));
    peer_seat_resigned(&seat, 0);
    assert_false(peer_seat_must_resign(&seat, PEER_SEAT_RESIGN_NS - 1));
    assert_true(peer_seat_must_resign(&seat, PEER_SEAT_RESIGN_NS));
    seat.line = PEER_LINE_IN;
    assert_false(peer_seat_free(&seat, PEER_SEAT_RESIGN_NS - 1));
    assert_int_equal(peer_seat_deadline(&seat, 0), PEER_SEAT_RESIGN_NS);
    assert_true(peer_seat_free(&seat, PEER_SEAT_RESIGN_NS)); /* nobody else wanted it */
    peer_seat_resigned(&seat, 2 * BW_SEC);
    hear(&seat, 2 * BW_SEC, leads(3, 6, 0, 0));
    hear(&seat, 2 * BW_SEC, leads(SELF, 7, 0, 30 * BW_SEC));
    assert_true(peer_seat_free(&seat, 2 * BW_SEC)); /* another leadership */
    seat.line = PEER_LINE_OUT; /* not fit: it resigns, but not to and fro as fast as it can */
    assert_false(peer_seat_must_resign(&seat, 3 * BW_SEC - 1));
    assert_true(peer_seat_must_resign(&seat, 3 * BW_SEC));
}

#define URL "peer:///nightly?id=3&listen=127.0.0.1:7003&data=/d&join=127.0.0.1:7001&expect=3"

static int reads(struct peer_settings *settings, const char *url)
{
    char why[BW_WHY_MAX + 1] = "";
    int error = peer_settings_read(settings, url, why);
    assert_true(error == 0 || why[0]);
    return error;
}

static void a_url_says_who_where_and_how(void **state)
{
    struct peer_settings s;
    struct bw_peer_options options = {.loop = NULL};
    (void)state;
    assert_int_equal(reads(&s, URL "&ttl=4s"), 0);
    assert_string_equal(s.election, "nightly");
    assert_string_equal(s.algorithm->name, "raft");
    assert_true(peer_settings_token(&s));
    peer_settings_fill(&s, &options);
    assert_int_equal(options.self, 3);
    /* What is left of a promise when the next beat is late still covers a lease. */
    assert_true(options.elect.promise_ns >= 4 * BW_SEC + 2 * options.elect.period_ns + 800 * BW_MS);
    assert_int_equal(reads(&s, URL "&algorithm=bully"), 0);
    assert_false(peer_settings_token(&s));
    assert_int_equal(reads(&s, URL "&algorithm=bully&quorum=1"), 0);
    assert_true(peer_settings_token(&s));
    assert_int_equal(reads(&s, "peer://h1:7001,[::1]:7002/n?id=1&listen=127.0.0.1:1&data=/d"), 0);
    assert_string_equal(s.join, "h1:7001,[::1]:7002");
}

static void a_url_that_cannot_be_is_refused(void **state)
{
    static const char *const bad[] = {
        "peer:///n?listen=127.0.0.1:1&data=/d&expect=1",
        "peer:///n?id=1&data=/d&expect=1",
        "peer:///n?id=1&listen=127.0.0.1:1&expect=1",
        "peer:///n?id=1&listen=127.0.0.1:1&data=/d",
        URL "&algorithm=magic",
        URL "&detector=magic",
        URL "&algorithm=bully&detector=none",
        URL "&quorum=1",
        URL "&quorum=yes",
        URL "&period=200ms&detect=500ms",
        URL "&ttl=0s",
        URL "&tls-cert-file=/c",
        URL "&colour=red",
        URL "&drift=50%25",
    };
    struct peer_settings s;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(reads(&s, bad[i]), BW_EINVAL);
}

static void others_can_reach_us_only_with_a_key_or_when_that_is_allowed(void **state)
{
    struct peer_settings s;
    (void)state;
    assert_int_equal(reads(&s, "peer:///n?id=1&listen=0.0.0.0:1&data=/d&expect=1"), BW_EDENIED);
    assert_int_equal(reads(&s, "peer:///n?id=1&listen=[::]:1&data=/d&expect=1"), BW_EDENIED);
    assert_int_equal(reads(&s, "peer:///n?id=1&listen=host:1&data=/d&expect=1"), BW_EDENIED);
    assert_int_equal(reads(&s, "peer:///n?id=1&listen=[::1]:1&data=/d&expect=1"), 0);
    assert_int_equal(reads(&s, "peer:///n?id=1&listen=host:1&data=/d&expect=1&insecure=1"), 0);
    assert_int_equal(reads(&s, "peer:///n?id=1&listen=host:1&data=/d&expect=1&key-file=/k"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_is_free_from_act_from_on_and_for_a_whole_lease),
        cmocka_unit_test(a_renewal_waits_for_the_announcement_that_covers_it),
        cmocka_unit_test(who_lost_the_lead_keeps_its_seat_until_its_work_is_dead),
        cmocka_unit_test(a_token_that_grows_while_we_lead_takes_nothing_away),
        cmocka_unit_test(without_tokens_a_lead_lasts_until_another_is_announced),
        cmocka_unit_test(a_recovery_takes_the_lead_away_and_nobody_gets_it_meanwhile),
        cmocka_unit_test(who_is_not_fit_resigns_and_who_resigned_waits_for_others),
        cmocka_unit_test(a_url_says_who_where_and_how),
        cmocka_unit_test(a_url_that_cannot_be_is_refused),
        cmocka_unit_test(others_can_reach_us_only_with_a_key_or_when_that_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
