/* Stories about the leadership slot of the peer store. A lease never lasts longer than the peers
 * announced. A leader that must not lead resigns. A leader that lost leadership keeps its slot
 * until its work is dead. Also: settings in the URL of the peer store. */
#include "unit/unit.h"

#include "core/base/drift.h"
#include "core/peer/leader_slot.h"
#include "store/peer/settings.h"

#include <stdio.h>

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

static bool announce(struct leader_slot *slot, bw_time now, struct bw_announcement announcement)
{
    return leader_slot_announce(slot, &announcement, now);
}

static void slot_is_free_from_act_from_if_a_whole_lease_is_covered(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    assert_false(leader_slot_is_free(&slot, 0));
    slot.line = PEER_QUEUE_IN;
    assert_true(announce(&slot, BW_SEC, leads(SELF, 5, 3 * BW_SEC, 14 * BW_SEC)));
    assert_false(leader_slot_is_free(&slot, BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, BW_SEC, TTL, BW_SEC), PEER_NO);
    assert_int_equal(leader_slot_deadline(&slot, BW_SEC), 3 * BW_SEC);
    assert_true(leader_slot_update(&slot, 3 * BW_SEC)); /* readers see that the slot is free */
    assert_false(leader_slot_update(&slot, 3 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 4 * BW_SEC + 1, TTL, 4 * BW_SEC + 1), PEER_NO);
    assert_int_equal(leader_slot_acquire(&slot, 4 * BW_SEC, TTL, 4 * BW_SEC), PEER_YES);
    assert_int_equal(slot.token, 5);
    assert_false(leader_slot_is_free(&slot, 4 * BW_SEC));
}

static void renewal_waits_for_an_announcement_that_covers_it(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 11 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    bw_time sent = 2 * BW_SEC;
    assert_int_equal(leader_slot_renew(&slot, 5, sent, TTL), PEER_WAIT);
    assert_false(announce(&slot, 2 * BW_SEC, leads(SELF, 5, 0, 12 * BW_SEC - 1)));
    assert_int_equal(leader_slot_renew(&slot, 5, sent, TTL), PEER_WAIT);
    announce(&slot, 2 * BW_SEC, leads(SELF, 5, 0, 12 * BW_SEC));
    assert_int_equal(leader_slot_renew(&slot, 5, sent, TTL), PEER_YES);
    assert_int_equal(leader_slot_renew(&slot, 4, sent, TTL), PEER_NO);
}

static void deposed_leader_keeps_its_slot_until_its_work_is_dead(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 20 * BW_SEC));
    leader_slot_acquire(&slot, 0, TTL, 0);
    assert_true(announce(&slot, BW_SEC, leads(BW_NODE_NONE, 0, 0, 0)));
    assert_int_equal(leader_slot_renew(&slot, 5, BW_SEC, TTL), PEER_NO);
    /* Elected again before the old work is dead: the old token is not revived. */
    announce(&slot, 2 * BW_SEC, leads(SELF, 6, 2 * BW_SEC, 30 * BW_SEC));
    assert_int_equal(leader_slot_renew(&slot, 5, 2 * BW_SEC, TTL), PEER_NO);
    assert_false(leader_slot_is_free(&slot, 2 * BW_SEC));
    assert_false(leader_slot_release(&slot, 6));
    assert_true(leader_slot_release(&slot, 5));
    assert_true(leader_slot_must_resign(&slot, 2 * BW_SEC));
    slot.line = PEER_QUEUE_IN;
    assert_true(leader_slot_is_free(&slot, 2 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 2 * BW_SEC, TTL, 2 * BW_SEC), PEER_YES);
    assert_int_equal(slot.token, 6);
}

static void higher_token_while_leading_does_not_end_the_lease(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 7, 0, 20 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    announce(&slot, BW_SEC, leads(SELF, 9, BW_SEC, 30 * BW_SEC));
    assert_int_equal(leader_slot_renew(&slot, 7, 2 * BW_SEC, TTL), PEER_YES);
    /* Another node may have led in between: */
    announce(&slot, 3 * BW_SEC, leads(BW_NODE_NONE, 0, 0, 0));
    announce(&slot, 4 * BW_SEC, leads(SELF, 10, 4 * BW_SEC, 40 * BW_SEC));
    assert_int_equal(leader_slot_renew(&slot, 7, 5 * BW_SEC, TTL), PEER_NO);
    assert_true(leader_slot_release(&slot, 7));
}

static void without_tokens_leadership_lasts_until_another_leader_is_announced(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, BW_TOKEN_NONE, 0, BW_TIME_NEVER));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    assert_int_equal(leader_slot_renew(&slot, BW_TOKEN_NONE, 900 * BW_SEC, TTL), PEER_YES);
    assert_true(announce(&slot, 901 * BW_SEC, leads(3, BW_TOKEN_NONE, 0, 0)));
    assert_int_equal(leader_slot_renew(&slot, BW_TOKEN_NONE, 901 * BW_SEC, TTL), PEER_NO);
    assert_true(leader_slot_release(&slot, BW_TOKEN_NONE));
    slot.line = PEER_QUEUE_IN;
    announce(&slot, 902 * BW_SEC, leads(SELF, BW_TOKEN_NONE, 0, BW_TIME_NEVER));
    assert_int_equal(slot.before_count, 1);
    assert_int_equal(slot.before[0], 3);
    leader_slot_acquire(&slot, 902 * BW_SEC, TTL, 902 * BW_SEC);
    assert_int_equal(slot.unsettled, 1);
    leader_slot_settled(&slot);
    assert_int_equal(slot.before_count, 0);
}

static void recovery_ends_the_lease_and_grants_none_meanwhile(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 100 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    assert_true(leader_slot_hold(&slot, true, BW_SEC));
    assert_int_equal(leader_slot_renew(&slot, 5, BW_SEC, TTL), PEER_NO);
    assert_true(leader_slot_release(&slot, 5)); /* the work is dead */
    slot.line = PEER_QUEUE_IN;                  /* the elector waits for the next leadership */
    assert_int_equal(leader_slot_acquire(&slot, BW_SEC, TTL, BW_SEC), PEER_NO);
    assert_true(leader_slot_hold(&slot, false, 2 * BW_SEC)); /* readers see that the slot is free
                                                            * again */
    assert_int_equal(leader_slot_acquire(&slot, 2 * BW_SEC, TTL, 2 * BW_SEC), PEER_YES);
}

static void leader_unable_to_lead_resigns_at_most_once_a_second(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 20 * BW_SEC));
    assert_false(leader_slot_must_resign(&slot, 0)); /* the elector may still report that it is
                                                    * ready */
    assert_true(leader_slot_must_resign(&slot, LEADER_SLOT_RESIGN_NS));
    slot.line = PEER_QUEUE_OUT;
    announce(&slot, 0, leads(SELF, 6, 0, 0));
    assert_false(leader_slot_must_resign(&slot, 0)); /* elected, but the others do not know yet */
    announce(&slot, 0, leads(SELF, 6, 0, 20 * BW_SEC));
    assert_true(leader_slot_must_resign(&slot, 0));
    assert_false(leader_slot_is_free(&slot, 0));
    leader_slot_resigned(&slot, 0);
    assert_false(leader_slot_must_resign(&slot, LEADER_SLOT_RESIGN_NS - 1));
    assert_true(leader_slot_must_resign(&slot, LEADER_SLOT_RESIGN_NS));
    slot.line = PEER_QUEUE_IN;
    assert_false(leader_slot_is_free(&slot, LEADER_SLOT_RESIGN_NS - 1));
    assert_int_equal(leader_slot_deadline(&slot, 0), LEADER_SLOT_RESIGN_NS);
    assert_true(
        leader_slot_is_free(&slot, LEADER_SLOT_RESIGN_NS)); /* no other node wanted to lead */
    leader_slot_resigned(&slot, 2 * BW_SEC);
    announce(&slot, 2 * BW_SEC, leads(3, 6, 0, 0));
    announce(&slot, 2 * BW_SEC, leads(SELF, 7, 0, 30 * BW_SEC));
    assert_true(leader_slot_is_free(&slot, 2 * BW_SEC)); /* a new leadership */
    slot.line = PEER_QUEUE_OUT; /* unable to lead: resigns, at most once a second */
    assert_false(leader_slot_must_resign(&slot, 3 * BW_SEC - 1));
    assert_true(leader_slot_must_resign(&slot, 3 * BW_SEC));
}

#define URL "peer:///nightly?id=3&listen=127.0.0.1:7003&data=/d&join=127.0.0.1:7001&expect=3"

static int reads(struct peer_settings *settings, const char *url)
{
    char why[BW_WHY_MAX + 1] = "";
    int error = peer_settings_read(settings, url, why);
    assert_true(error == 0 || why[0]);
    return error;
}

static void peer_url_sets_identity_addresses_and_options(void **state)
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
    /* The rest of a promise covers a lease even if the next beat is late. */
    assert_true(options.elect.promise_ns >= 4 * BW_SEC + 2 * options.elect.period_ns + 800 * BW_MS);
    assert_int_equal(reads(&s, URL "&algorithm=bully"), 0);
    assert_false(peer_settings_token(&s));
    assert_int_equal(reads(&s, URL "&algorithm=bully&quorum=1"), 0);
    assert_true(peer_settings_token(&s));
    assert_int_equal(reads(&s, "peer://h1:7001,[::1]:7002/n?id=1&listen=127.0.0.1:1&data=/d"), 0);
    assert_string_equal(s.join, "h1:7001,[::1]:7002");
}

/* A renewal arrives up to a period after the heartbeat that the promise answered. The clocks of the
 * voter and of the leader drift in opposite directions. */
static void promise_leaves_a_whole_ttl_with_any_drift(void **state)
{
    static const char *const drifts[] = {"0", "0.01", "0.09", "90001ppm", "0.2", "0.3"};
    struct peer_settings s;
    (void)state;
    for (unsigned i = 0; i < sizeof drifts / sizeof drifts[0]; i++) {
        struct bw_peer_options options = {.loop = NULL};
        char url[256];
        snprintf(url, sizeof url, URL "&ttl=60s&drift=%s", drifts[i]);
        assert_int_equal(reads(&s, url), 0);
        peer_settings_fill(&s, &options);
        bw_time left = bw_drift_shorten(options.elect.promise_ns, s.drift_ppm);
        assert_true(left >= 60 * BW_SEC + options.elect.period_ns);
    }
}

static void invalid_peer_url_is_rejected(void **state)
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

static void peer_url_beyond_loopback_needs_a_key_or_insecure(void **state)
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

static void slot_of_a_follower_has_no_deadline_and_never_resigns(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(3, 5, 0, 20 * BW_SEC));
    slot.line = PEER_QUEUE_OUT;
    assert_false(leader_slot_must_resign(&slot, 10 * BW_SEC));
    assert_int_equal(leader_slot_deadline(&slot, 0), BW_TIME_NEVER);
    announce(&slot, 0, leads(4, 6, 0, 20 * BW_SEC)); /* from one other leader to the next */
    assert_int_equal(slot.before[0], 3);
    assert_int_equal(slot.led_since, 0);
}

static void before_is(const struct leader_slot *slot, uint32_t count, const bw_node *expected)
{
    assert_int_equal(slot->before_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(slot->before[i], expected[i]);
}

#define LONG (2 * TTL + LEADER_SLOT_SURE)

/* Node 3 acts and vanishes. Node 4 is elected and loses leadership while it waits, so it never made
 * sure that the work of node 3 is dead. */
static void leader_that_never_acted_does_not_hide_the_one_before_it(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(2, 1, 0, 0));
    announce(&slot, BW_MS, leads(3, 2, 0, 0));
    announce(&slot, LONG + 10 * TTL, leads(BW_NODE_NONE, 0, 0, 0)); /* node 3 dealt with node 2 */
    before_is(&slot, 1, (bw_node[]){3});
    announce(&slot, LONG + 10 * TTL, leads(4, 3, 0, 0));
    announce(&slot, LONG + 11 * TTL, leads(SELF, 4, LONG + 11 * TTL, LONG + 20 * TTL));
    before_is(&slot, 2, (bw_node[]){3, 4});
    slot.line = PEER_QUEUE_IN;
    assert_int_equal(leader_slot_acquire(&slot, LONG + 11 * TTL, TTL, LONG + 11 * TTL), PEER_YES);
    assert_int_equal(slot.unsettled, 2);
    announce(&slot, LONG + 12 * TTL, leads(4, 5, 0, 0)); /* we lost before we had settled */
    announce(&slot, LONG + 12 * TTL, leads(5, 6, 0, 0));
    before_is(&slot, 2, (bw_node[]){3, 4});
    assert_int_equal(slot.unsettled, 1);
    leader_slot_settled(&slot);
    before_is(&slot, 1, (bw_node[]){4});
}

/* A leader whose fence command hangs and fails leads for longer than two TTLs. */
static void leader_that_failed_to_fence_does_not_hide_the_one_before_it(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(5, 1, 0, 0));
    announce(&slot, BW_SEC, leads(3, 2, 0, 0));
    announce(&slot, BW_SEC + LONG - 1, leads(SELF, 3, 0, 2 * LONG));
    before_is(&slot, 2, (bw_node[]){5, 3});
    announce(&slot, 2 * LONG, leads(4, 4, 0, 0));
    announce(&slot, 3 * LONG, leads(SELF, 5, 0, 4 * LONG));
    before_is(&slot, 1, (bw_node[]){4});
}

static void oldest_leader_keeps_its_place_when_too_many_led(void **state)
{
    struct leader_slot slot;
    bw_node expected[LEADER_SLOT_BEFORE] = {3};
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    bw_node last = 3 + LEADER_SLOT_BEFORE + 1;
    for (bw_node id = 3; id <= last; id++)
        announce(&slot, id, leads(id, id, 0, 0));
    announce(&slot, last + 1, leads(BW_NODE_NONE, 0, 0, 0));
    for (uint32_t i = 1; i < LEADER_SLOT_BEFORE; i++)
        expected[i] = last - (LEADER_SLOT_BEFORE - 1) + i;
    before_is(&slot, LEADER_SLOT_BEFORE, expected);
}

static void holder_neither_resigns_nor_waits(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 20 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL + BW_SEC, 5 * BW_SEC), PEER_YES);
    slot.line = PEER_QUEUE_OUT; /* it became unhealthy: its elector releases first */
    assert_false(leader_slot_must_resign(&slot, 10 * BW_SEC));
    assert_int_equal(leader_slot_deadline(&slot, 0), BW_TIME_NEVER);
}

static void a_healthy_leader_does_not_resign(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 20 * BW_SEC));
    slot.line = PEER_QUEUE_IN;
    assert_false(leader_slot_must_resign(&slot, 10 * BW_SEC));
    assert_int_equal(leader_slot_deadline(&slot, 0), BW_TIME_NEVER); /* nothing to wait for */
}

/* The elector asks for longer than the slot expected, and later than the promise allows. */
static void lease_longer_than_the_promise_is_refused(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 5, 0, 12 * BW_SEC));
    assert_true(leader_slot_is_free(&slot, BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, BW_SEC, 12 * BW_SEC, BW_SEC), PEER_NO);
    assert_int_equal(leader_slot_acquire(&slot, BW_SEC, 11 * BW_SEC, BW_SEC), PEER_YES);
}

static void renewal_and_release_without_a_lease_are_refused(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, BW_TOKEN_NONE, 0, BW_TIME_NEVER));
    assert_int_equal(leader_slot_renew(&slot, BW_TOKEN_NONE, 0, TTL), PEER_NO);
    assert_false(leader_slot_release(&slot, BW_TOKEN_NONE));
}

/* A token below ours can only come from a cluster that lost its memory. */
static void lower_token_while_leading_ends_the_lease(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 7, 0, 20 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    assert_true(announce(&slot, BW_SEC, leads(SELF, 6, 0, 20 * BW_SEC)));
    assert_int_equal(leader_slot_renew(&slot, 7, BW_SEC, TTL), PEER_NO);
}

/* The guard raised the token once and repeats the first one; only the lease's own end changes. */
static void readers_see_that_a_lease_was_lost_without_a_new_leader(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 0, leads(SELF, 7, 0, 20 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    slot.token = 8; /* acquired under a token that the peers never announced again */
    assert_true(announce(&slot, BW_SEC, leads(SELF, 7, 0, 20 * BW_SEC)));
    assert_true(slot.lost);
}

static void recovery_without_a_lease_or_twice_changes_little(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    assert_false(leader_slot_hold(&slot, true, 0));
    assert_false(slot.lost);
    leader_slot_hold(&slot, false, 0);
    announce(&slot, 0, leads(SELF, 7, 0, 100 * BW_SEC));
    assert_int_equal(leader_slot_acquire(&slot, 0, TTL, 0), PEER_YES);
    assert_true(leader_slot_hold(&slot, true, 0));
    assert_false(leader_slot_hold(&slot, true, 0)); /* already lost */
    assert_true(slot.lost);
}

static void leader_that_has_not_reported_waits_for_its_elector(void **state)
{
    struct leader_slot slot;
    (void)state;
    leader_slot_init(&slot, SELF, TTL);
    announce(&slot, 5 * BW_SEC, leads(SELF, 7, 0, 100 * BW_SEC));
    assert_int_equal(leader_slot_deadline(&slot, 5 * BW_SEC), 6 * BW_SEC);
    assert_int_equal(leader_slot_deadline(&slot, 6 * BW_SEC), BW_TIME_NEVER);
    leader_slot_resigned(&slot, 6 * BW_SEC);
    assert_int_equal(leader_slot_deadline(&slot, 6 * BW_SEC), 7 * BW_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_is_free_from_act_from_if_a_whole_lease_is_covered),
        cmocka_unit_test(renewal_waits_for_an_announcement_that_covers_it),
        cmocka_unit_test(deposed_leader_keeps_its_slot_until_its_work_is_dead),
        cmocka_unit_test(higher_token_while_leading_does_not_end_the_lease),
        cmocka_unit_test(without_tokens_leadership_lasts_until_another_leader_is_announced),
        cmocka_unit_test(recovery_ends_the_lease_and_grants_none_meanwhile),
        cmocka_unit_test(leader_unable_to_lead_resigns_at_most_once_a_second),
        cmocka_unit_test(peer_url_sets_identity_addresses_and_options),
        cmocka_unit_test(promise_leaves_a_whole_ttl_with_any_drift),
        cmocka_unit_test(invalid_peer_url_is_rejected),
        cmocka_unit_test(peer_url_beyond_loopback_needs_a_key_or_insecure),
        cmocka_unit_test(slot_of_a_follower_has_no_deadline_and_never_resigns),
        cmocka_unit_test(leader_that_never_acted_does_not_hide_the_one_before_it),
        cmocka_unit_test(leader_that_failed_to_fence_does_not_hide_the_one_before_it),
        cmocka_unit_test(oldest_leader_keeps_its_place_when_too_many_led),
        cmocka_unit_test(holder_neither_resigns_nor_waits),
        cmocka_unit_test(a_healthy_leader_does_not_resign),
        cmocka_unit_test(lease_longer_than_the_promise_is_refused),
        cmocka_unit_test(renewal_and_release_without_a_lease_are_refused),
        cmocka_unit_test(lower_token_while_leading_ends_the_lease),
        cmocka_unit_test(readers_see_that_a_lease_was_lost_without_a_new_leader),
        cmocka_unit_test(recovery_without_a_lease_or_twice_changes_little),
        cmocka_unit_test(leader_that_has_not_reported_waits_for_its_elector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
