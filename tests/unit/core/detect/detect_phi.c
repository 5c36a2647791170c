/* Accrual detectors: the published values, and which intervals are samples. */
#include "core/base/error.h"
#include "core/detect/loss_rate.h"
#include "core/detect/phi_math.h"
#include "detect_pump.h"

#include <math.h>

static bw_node ids[] = {1, 2};

static struct bw_detector_config akka(void)
{
    struct bw_detector_config config = {.self = 1, .members = ids, .count = 2, .cap = 2};
    bw_detector_defaults(&config, BW_SEC);
    return config; /* minimum deviation 100 ms, pause 3 s, threshold 8 */
}

/* Member 2 sends `beats` steady beats from `from` on; returns when the last one arrived. */
static bw_time beat_steadily(struct solo *solo, uint64_t seq, bw_time from, uint32_t beats)
{
    bw_time now = from;
    for (uint32_t i = 0; i < beats; i++) {
        now = from + i * BW_SEC;
        solo_wait(solo, now - 1);
        solo_probe(solo, BW_MSG_HEARTBEAT, 2, seq + i, now);
    }
    return now;
}

static void phi_has_the_published_values(void **state)
{
    (void)state;
    static const double normal[] = {.3010, .7995, 1.6430, 2.8697, 4.4993, 6.5426, 9.0059};
    static const double logistic[] = {.3010, .7995, 1.6428, 2.9095, 4.7367, 7.2999, 10.7826};
    for (int y = 0; y <= 6; y++) {
        assert_true(fabs(bw_phi_normal(y) - normal[y]) < 1e-3);
        assert_true(fabs(bw_phi_logistic(y) - logistic[y]) < 1e-3);
    }
    assert_true(fabs(bw_phi_exponential(18.42) - 8) < 1e-3);
}

static void phi_increases_without_bound(void **state)
{
    (void)state;
    for (int i = -20; i < 4000; i++) {
        double y = i * .25;
        assert_true(bw_phi_normal(y + .25) > bw_phi_normal(y));
        assert_true(bw_phi_logistic(y + .25) > bw_phi_logistic(y));
        assert_true(isfinite(bw_phi_normal(y)) && isfinite(bw_phi_logistic(y)));
    }
}

static void phi_of_the_inverse_is_the_threshold(void **state)
{
    (void)state;
    for (int i = 1; i < 800; i++) {
        double phi = i * .5;
        double normal = bw_phi_inverse(BW_PHI_NORMAL, phi);
        assert_true(fabs(bw_phi_normal(normal) - phi) < 1e-6 * phi);
        double logistic = bw_phi_inverse(BW_PHI_LOGISTIC, phi);
        assert_true(fabs(bw_phi_logistic(logistic) - phi) < 1e-6 * phi);
    }
}

static void a_window_forgets_its_oldest_sample(void **state)
{
    (void)state;
    struct bw_phi_window window;
    uint32_t samples[4];
    bw_phi_window_init(&window, 1, 4);
    static const bw_time intervals[] = {900000, 2, 4, 4, 6};
    for (int i = 0; i < 5; i++)
        bw_phi_window_add(&window, samples, intervals[i]);
    assert_true(fabs(bw_phi_window_mean_ns(&window) - 4) < 1e-9);
    assert_true(fabs(bw_phi_window_sd_ns(&window) - sqrt(2)) < 1e-9);
}

static bw_time silence_until_suspected(const struct bw_detector_ops *ops, bw_time limit)
{
    struct bw_detector_config config = akka();
    config.limit_ns = limit;
    struct solo solo;
    solo_open(&solo, ops, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_time last = beat_steadily(&solo, 1, BW_SEC / 2, 1200);
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, last + 60 * BW_SEC);
    assert_int_equal(solo.count, 1);
    assert_true(solo.verdicts[0].suspect && solo.verdicts[0].node == 2);
    assert_true(solo.verdicts[0].level >= 7.999 || ops == &bw_detect_phi_deadline);
    bw_time silence = solo.verdicts[0].at - last;
    solo_close(&solo);
    return silence;
}

static void silence_after_steady_beats_is_suspected_at_the_published_time(void **state)
{
    (void)state;
    bw_time logistic = silence_until_suspected(&bw_detect_phi_logistic, BW_SEC);
    assert_true(llabs(logistic - 4523 * BW_MS) <= BW_MS);
    bw_time normal = silence_until_suspected(&bw_detect_phi, BW_SEC);
    assert_true(llabs(normal - 4561 * BW_MS) <= BW_MS); /* y = 5.612 */
    bw_time exponential = silence_until_suspected(&bw_detect_phi_exponential, BW_SEC);
    assert_true(llabs(exponential - 18421 * BW_MS) <= BW_MS);
}

static void with_a_deadline_the_earlier_verdict_counts(void **state)
{
    (void)state;
    bw_time phi = silence_until_suspected(&bw_detect_phi, 6 * BW_SEC);
    assert_true(silence_until_suspected(&bw_detect_phi_deadline, 6 * BW_SEC) == phi);
    assert_true(silence_until_suspected(&bw_detect_phi_deadline, 4 * BW_SEC) == 4 * BW_SEC);
    assert_true(silence_until_suspected(&bw_detect_phi, 4 * BW_SEC) == phi);
}

static void interval_that_ends_a_suspicion_is_not_recorded(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi_logistic, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_time last = beat_steadily(&solo, 1, BW_SEC / 2, 100);
    bw_time back = last + 30 * BW_SEC;
    solo_wait(&solo, back - 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    last = beat_steadily(&solo, 130, back, 20);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo.count = 0;
    solo_wait(&solo, last + 4523 * BW_MS - BW_MS);
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, last + 4523 * BW_MS + BW_MS);
    assert_int_equal(solo.count, 1);
    solo_close(&solo);
}

static void repeated_beat_is_not_recorded(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi_exponential, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_time last = beat_steadily(&solo, 1, BW_SEC / 2, 50);
    double before = solo.ops->level(solo.self, 2, last + BW_SEC);
    for (int i = 0; i < 40; i++) {
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 50, last + 1);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_OLD));
    }
    assert_true(solo.ops->level(solo.self, 2, last + BW_SEC) == before);
    solo_close(&solo);
}

/* After a pause all delayed beats arrive at once. The steady beats after them are on time. */
static void burst_after_a_pause_does_not_cause_later_suspicions(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi_exponential, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_time last = beat_steadily(&solo, 1, BW_SEC / 2, 3);
    for (uint32_t i = 4; i <= 1000; i++)
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, last + i);
    beat_steadily(&solo, 1001, last + BW_SEC, 50);
    assert_int_equal(solo.count, 0);
    solo_close(&solo);
}

static void jitter_extends_the_allowed_silence(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_time now = 0;
    for (uint32_t i = 1; i <= 1000; i++) {
        now = i * BW_SEC + (i % 2 ? 0 : 400 * BW_MS);
        solo_wait(&solo, now - 1);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, now);
    }
    assert_int_equal(solo.count, 0); /* intervals 600 and 1400 ms: sd 400 */
    solo_wait(&solo, now + 4000 * BW_MS + 2200 * BW_MS);
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, now + 4000 * BW_MS + 2300 * BW_MS); /* 5.612 sd */
    assert_int_equal(solo.count, 1);
    solo_close(&solo);
}

/* ---- loss ---- */

static bool test_is_small(void)
{
    const char *size = getenv("TEST_SIZE");
    return size && strcmp(size, "small") == 0;
}

static struct bw_detector_config peers_default(void)
{
    struct bw_detector_config config = {.self = 1, .members = ids, .count = 2, .cap = 2};
    bw_detector_defaults(&config, 100 * BW_MS); /* bellwether peer: --period 100ms */
    return config;
}

/* Result of a run in which two members exchange beats. Loss begins after two seconds. */
struct lossy {
    uint32_t suspicions, asked;
    bw_time first; /* time of the first suspicion */
};

static struct lossy ten_minutes(const struct bw_detector_ops *ops, double rate, bw_time until,
                                uint64_t seed)
{
    struct bw_detector_config config = peers_default();
    struct lossy seen = {.first = BW_TIME_NEVER};
    struct group group;
    struct bw_rng rng;
    bw_rng_init(&rng, seed);
    group_open(&group, ops, 2, &config, 2 * BW_MS);
    group.rng = &rng;
    group_start(&group);
    group_run(&group, 2 * BW_SEC);
    group.loss = rate;
    group_run(&group, until);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t v = 0; v < group.at[i].count; v++)
            if (group.at[i].verdicts[v].suspect) {
                seen.suspicions++;
                seen.first = bw_time_min(seen.first, group.at[i].verdicts[v].at);
            }
    seen.asked = (uint32_t)group.sent[BW_MSG_PING];
    group_close(&group);
    return seen;
}

/* Five hosts that send beats to each other have 20 links, and each run here has two. So 2,000 links
 * correspond to a hundred such groups for ten minutes. The formula predicts 6,000 beats times 1e-8
 * per link, 0.12 suspicions in all; pings reduce that further. */
static void no_suspicion_at_twenty_percent_loss_for_ten_minutes(void **state)
{
    (void)state;
    uint32_t runs = test_is_small() ? 40 : 1000, suspicions = 0;
    for (uint32_t i = 0; i < runs; i++)
        suspicions += ten_minutes(&bw_detect_phi, .2, 602 * BW_SEC, i + 1).suspicions;
    assert_int_equal(suspicions, 0);
}

/* The allowed silence after 1,000 beats, one in `every` of them lost. */
static bw_time allowed_silence_after_loss(const struct bw_detector_ops *ops, uint32_t every,
                                          uint32_t beats)
{
    struct bw_detector_config config = peers_default();
    struct solo solo;
    bw_time now = 0;
    solo_open(&solo, ops, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    for (uint32_t i = 1; i <= beats; i++) {
        if (every && i % every == 0 && i < beats)
            continue;
        now = i * 100 * BW_MS;
        solo_wait(&solo, now - 1);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, now);
    }
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, now + 60 * BW_SEC);
    assert_int_equal(solo.count, 1);
    bw_time silence = solo.verdicts[0].at - now;
    solo_close(&solo);
    return silence;
}

static void clean_link_gets_no_extra_time(void **state)
{
    (void)state;
    assert_true(allowed_silence_after_loss(&bw_detect_phi, 0, 1000) <= 500 * BW_MS);
    /* one beat lost long ago */
    assert_true(allowed_silence_after_loss(&bw_detect_phi, 900, 1001) <= 500 * BW_MS);
}

static void allowed_silence_grows_with_loss_and_is_bounded(void **state)
{
    (void)state;
    bw_time tenth = allowed_silence_after_loss(&bw_detect_phi, 10, 1001);
    bw_time fifth = allowed_silence_after_loss(&bw_detect_phi, 5, 1001);
    bw_time half = allowed_silence_after_loss(&bw_detect_phi, 2, 1001);
    assert_true(tenth > 900 * BW_MS && tenth < 1100 * BW_MS);
    assert_true(fifth > 1250 * BW_MS && fifth < 1450 * BW_MS); /* 8 / 0.699 + 1.5 periods */
    assert_true(half > 2500 * BW_MS && half <= 2700 * BW_MS);
    /* the limit applies despite the loss */
    assert_true(allowed_silence_after_loss(&bw_detect_phi_deadline, 5, 1001) == 600 * BW_MS);
}

static void overdue_member_is_pinged_until_it_replies(void **state)
{
    (void)state;
    struct bw_detector_config config = peers_default();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    for (uint32_t i = 1; i <= 50; i++) {
        solo_wait(&solo, i * 100 * BW_MS - 1);
        assert_null(solo_sent(&solo, BW_MSG_PING, 0));
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, i * 100 * BW_MS);
    }
    uint32_t asked = 0;
    uint64_t seq = 0;
    bw_time last = 0;
    while (solo.ops->deadline(solo.self) < 5350 * BW_MS) {
        last = solo.ops->deadline(solo.self);
        solo_event(&solo, BW_EVENT_TIMEOUT, BW_NODE_NONE, last);
        const struct bw_message *ping = solo_sent(&solo, BW_MSG_PING, 0);
        if (ping) {
            asked++;
            seq = ping->probe.seq;
        }
    }
    assert_true(asked >= 4);
    solo_probe(&solo, BW_MSG_ACK, 2, seq, 5350 * BW_MS);
    /* without the reply it would have been suspected 456 ms after the last beat */
    solo_wait(&solo, 5700 * BW_MS);
    assert_int_equal(solo.count, 0);
    solo_probe(&solo, BW_MSG_ACK, 2, seq, 5700 * BW_MS); /* a duplicate reply does not count */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    solo_wait(&solo, 6 * BW_SEC);
    assert_int_equal(solo.count, 1);
    solo_probe(&solo, BW_MSG_PING, 2, 7, 6 * BW_SEC);
    assert_int_equal(solo_sent(&solo, BW_MSG_ACK, 0)->probe.seq, 7);
    solo_close(&solo);
}

/* A loss that has just begun is not in the history. Without pings, false suspicions would be likely
 * in its first seconds. */
static void no_suspicion_when_loss_begins(void **state)
{
    (void)state;
    uint32_t suspicions = 0, asked = 0, runs = test_is_small() ? 500 : 20000;
    for (uint32_t i = 0; i < runs; i++) {
        struct lossy seen = ten_minutes(&bw_detect_phi, .2, 4 * BW_SEC, i + 1);
        suspicions += seen.suspicions;
        asked += seen.asked;
    }
    assert_true(asked > runs);
    assert_true(suspicions <= runs / 1000);
}

static void settings_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    void *memory = aligned_alloc(16, 1 << 16);
    struct bw_detector_config config = akka();
    config.window = 1;
    assert_int_equal(bw_detect_phi.init(memory, &config), BW_ELIMIT);
    config.window = BW_PHI_WINDOW_MAX + 1;
    assert_int_equal(bw_detect_phi.init(memory, &config), BW_ELIMIT);
    config = akka();
    config.threshold = 0;
    assert_int_equal(bw_detect_phi.init(memory, &config), BW_EINVAL);
    config = akka();
    config.min_sd_ns = 0;
    assert_int_equal(bw_detect_phi.init(memory, &config), BW_EINVAL);
    free(memory);
}

static void windows_hold_samples_of_any_length(void **state)
{
    (void)state;
    uint32_t samples[2];
    struct bw_phi_window window;
    bw_phi_window_init(&window, BW_MS, 2);
    assert_true(bw_phi_window_mean_ns(&window) == 0); /* empty */
    assert_true(bw_phi_window_sd_ns(&window) == 0);
    bw_phi_window_add(&window, samples, -BW_SEC); /* a clock that was set back counts as 0 */
    assert_true(bw_phi_window_mean_ns(&window) == 0);
    bw_phi_window_add(&window, samples, BW_TIME_NEVER / 2);
    assert_true(bw_phi_window_mean_ns(&window) == ((1u << 27) - 1) / 2.0 * BW_MS);
}

/* Many beats were lost at once: a silence of hours counts as 64 lost beats. */
static void a_long_silence_does_not_dominate_the_loss_rate(void **state)
{
    (void)state;
    struct bw_missed missed, other;
    bw_missed_init(&missed);
    bw_missed_init(&other);
    bw_missed_received(&missed, 1000000);
    bw_missed_received(&other, 64);
    assert_true(bw_missed_rate(&missed) == bw_missed_rate(&other));
}

static void reply_to_a_ping_of_an_earlier_start_does_not_count(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bw_detector_config config = peers_default();
        struct solo solo;
        config.starts = 3;
        solo_open(&solo, &bw_detect_phi, &config);
        solo_event(&solo, BW_EVENT_START, 0, 0);
        bw_time now = 0;
        for (uint32_t beat = 1; beat <= 50; beat++) {
            now = beat * 100 * BW_MS;
            solo_wait(&solo, now - 1);
            solo_probe(&solo, BW_MSG_HEARTBEAT, 2, beat, now);
        }
        const struct bw_message *ping = NULL;
        for (int k = 0; k < 1000 && !(ping = solo_sent(&solo, BW_MSG_PING, 0)); k++)
            solo_event(&solo, BW_EVENT_TIMEOUT, 0, now = solo.ops->deadline(solo.self));
        assert_non_null(ping);
        assert_int_equal(ping->probe.seq >> 32, 3);
        uint64_t seq = (uint64_t)(i ? 3 : 2) << 32 | (uint32_t)ping->probe.seq;
        struct bw_message ack = {.kind = BW_MSG_ACK, .from = 2, .to = 1, .probe = {.seq = seq}};
        solo_receive(&solo, &ack, now);
        assert_int_equal(solo_noted(&solo, BW_TRACE_IGNORED_LATE), i == 0);
        solo_close(&solo);
    }
}

static void tiny_threshold_still_leaves_a_moment(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    config.threshold = 1e-12;
    solo_open(&solo, &bw_detect_phi_exponential, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    solo_wait(&solo, BW_MS - 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 1, BW_MS);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    assert_true(solo.ops->deadline(solo.self) == BW_MS + 1);
    solo_close(&solo);
}

/* On a lossy link the silence counts in lost beats, and within 1.5 periods none is lost. */
static void level_is_zero_until_a_beat_may_be_lost(void **state)
{
    (void)state;
    struct bw_detector_config config = peers_default();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    bw_time now = 0;
    for (uint32_t i = 1; i <= 1000; i++) {
        now = i * 100 * BW_MS;
        solo_wait(&solo, now - 1);
        if (i % 5)
            solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, now);
    }
    now -= 100 * BW_MS; /* the last beat */
    assert_true(solo.ops->level(solo.self, 2, now + 140 * BW_MS) == 0);
    assert_true(solo.ops->level(solo.self, 2, now + 400 * BW_MS) > 0);
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phi_has_the_published_values),
        cmocka_unit_test(phi_increases_without_bound),
        cmocka_unit_test(phi_of_the_inverse_is_the_threshold),
        cmocka_unit_test(a_window_forgets_its_oldest_sample),
        cmocka_unit_test(silence_after_steady_beats_is_suspected_at_the_published_time),
        cmocka_unit_test(with_a_deadline_the_earlier_verdict_counts),
        cmocka_unit_test(interval_that_ends_a_suspicion_is_not_recorded),
        cmocka_unit_test(repeated_beat_is_not_recorded),
        cmocka_unit_test(burst_after_a_pause_does_not_cause_later_suspicions),
        cmocka_unit_test(jitter_extends_the_allowed_silence),
        cmocka_unit_test(clean_link_gets_no_extra_time),
        cmocka_unit_test(allowed_silence_grows_with_loss_and_is_bounded),
        cmocka_unit_test(overdue_member_is_pinged_until_it_replies),
        cmocka_unit_test(no_suspicion_when_loss_begins),
        cmocka_unit_test(no_suspicion_at_twenty_percent_loss_for_ten_minutes),
        cmocka_unit_test(settings_that_make_no_sense_are_refused),
        cmocka_unit_test(windows_hold_samples_of_any_length),
        cmocka_unit_test(a_long_silence_does_not_dominate_the_loss_rate),
        cmocka_unit_test(reply_to_a_ping_of_an_earlier_start_does_not_count),
        cmocka_unit_test(tiny_threshold_still_leaves_a_moment),
        cmocka_unit_test(level_is_zero_until_a_beat_may_be_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
