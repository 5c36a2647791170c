/* Accrual detectors: the published values, and what is and is not a sample. */
#include "core/base/error.h"
#include "core/detect/phi.h"
#include "detect_pump.h"

#include <math.h>

static bw_node ids[] = {1, 2};

static struct bw_detector_config akka(void)
{
    struct bw_detector_config config = {.self = 1, .members = ids, .count = 2, .cap = 2};
    bw_detector_defaults(&config, BW_SEC);
    return config; /* floor 100 ms, pause 3 s, threshold 8 */
}

/* Member 2 beats steadily `beats` times from `from` on; returns when the last one came. */
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

static void phi_never_stops_rising(void **state)
{
    (void)state;
    for (int i = -20; i < 4000; i++) {
        double y = i * .25;
        assert_true(bw_phi_normal(y + .25) > bw_phi_normal(y));
        assert_true(bw_phi_logistic(y + .25) > bw_phi_logistic(y));
        assert_true(isfinite(bw_phi_normal(y)) && isfinite(bw_phi_logistic(y)));
    }
}

static void the_inverse_gives_the_threshold_back(void **state)
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
    solo_tell(&solo, BW_EVENT_START, 0, 0);
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

static void steady_beats_are_missed_when_the_formula_says(void **state)
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

static void the_interval_that_ends_a_suspicion_is_no_sample(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi_logistic, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
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

static void a_repeated_beat_is_no_sample(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi_exponential, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
    bw_time last = beat_steadily(&solo, 1, BW_SEC / 2, 50);
    double before = solo.ops->level(solo.self, 2, last + BW_SEC);
    for (int i = 0; i < 40; i++) {
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 50, last + 1);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_OLD));
    }
    assert_true(solo.ops->level(solo.self, 2, last + BW_SEC) == before);
    solo_close(&solo);
}

/* A pause ends and all that waited behind it arrives at once: the steady beats after it are on
 * time. */
static void beats_that_come_in_a_heap_do_not_make_it_impatient_for_ever(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi_exponential, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
    bw_time last = beat_steadily(&solo, 1, BW_SEC / 2, 3);
    for (uint32_t i = 4; i <= 1000; i++)
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, last + i);
    beat_steadily(&solo, 1001, last + BW_SEC, 50);
    assert_int_equal(solo.count, 0);
    solo_close(&solo);
}

static void jitter_makes_it_patient(void **state)
{
    (void)state;
    struct bw_detector_config config = akka();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
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

/* --- loss --- */

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

/* Two members that listen to each other. Nothing is lost for two seconds; then it begins. */
struct lossy {
    uint32_t suspicions, asked;
    bw_time first; /* suspicion */
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

/* Five hosts that all listen to each other are 20 links, each run here is two: 2,000 links are a
 * hundred times those ten minutes. Expected by the formula: 6,000 beats times 1e-8 a link, 0.12 in
 * all; with the questions it is far less. */
static void twenty_percent_loss_for_ten_minutes_suspects_nobody(void **state)
{
    (void)state;
    uint32_t runs = test_is_small() ? 40 : 1000, suspicions = 0;
    for (uint32_t i = 0; i < runs; i++)
        suspicions += ten_minutes(&bw_detect_phi, .2, 602 * BW_SEC, i + 1).suspicions;
    assert_int_equal(suspicions, 0);
}

/* How long a silence is borne after 1,000 beats of which one in `every` was lost. */
static bw_time patience_after_loss(const struct bw_detector_ops *ops, uint32_t every,
                                   uint32_t beats)
{
    struct bw_detector_config config = peers_default();
    struct solo solo;
    bw_time now = 0;
    solo_open(&solo, ops, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
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

static void a_clean_link_is_given_no_longer_than_the_bound(void **state)
{
    (void)state;
    assert_true(patience_after_loss(&bw_detect_phi, 0, 1000) <= 500 * BW_MS);
    /* one lost long ago */
    assert_true(patience_after_loss(&bw_detect_phi, 900, 1001) <= 500 * BW_MS);
}

static void patience_grows_with_loss_and_is_bounded(void **state)
{
    (void)state;
    bw_time tenth = patience_after_loss(&bw_detect_phi, 10, 1001);
    bw_time fifth = patience_after_loss(&bw_detect_phi, 5, 1001);
    bw_time half = patience_after_loss(&bw_detect_phi, 2, 1001);
    assert_true(tenth > 900 * BW_MS && tenth < 1100 * BW_MS);
    assert_true(fifth > 1250 * BW_MS && fifth < 1450 * BW_MS); /* 8 / 0.699 + 1.5 periods */
    assert_true(half > 2500 * BW_MS && half <= 2700 * BW_MS);
    /* a hard limit stays one */
    assert_true(patience_after_loss(&bw_detect_phi_deadline, 5, 1001) == 600 * BW_MS);
}

static void who_is_overdue_is_asked_until_it_answers(void **state)
{
    (void)state;
    struct bw_detector_config config = peers_default();
    struct solo solo;
    solo_open(&solo, &bw_detect_phi, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
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
        solo_tell(&solo, BW_EVENT_TIMEOUT, BW_NODE_NONE, last);
        const struct bw_message *ping = solo_sent(&solo, BW_MSG_PING, 0);
        if (ping) {
            asked++;
            seq = ping->probe.seq;
        }
    }
    assert_true(asked >= 4);
    solo_probe(&solo, BW_MSG_ACK, 2, seq, 5350 * BW_MS);
    solo_wait(&solo, 5700 * BW_MS); /* 456 ms after the last beat it would have been suspected */
    assert_int_equal(solo.count, 0);
    solo_probe(&solo, BW_MSG_ACK, 2, seq, 5700 * BW_MS); /* the same once more is worth nothing */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    solo_wait(&solo, 6 * BW_SEC);
    assert_int_equal(solo.count, 1);
    solo_probe(&solo, BW_MSG_PING, 2, 7, 6 * BW_SEC);
    assert_int_equal(solo_sent(&solo, BW_MSG_ACK, 0)->probe.seq, 7);
    solo_close(&solo);
}

/* Loss that begins is in no history: without the questions the first seconds would be the
 * dangerous ones. */
static void loss_that_begins_suspects_nobody(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phi_has_the_published_values),
        cmocka_unit_test(phi_never_stops_rising),
        cmocka_unit_test(the_inverse_gives_the_threshold_back),
        cmocka_unit_test(a_window_forgets_its_oldest_sample),
        cmocka_unit_test(steady_beats_are_missed_when_the_formula_says),
        cmocka_unit_test(with_a_deadline_the_earlier_verdict_counts),
        cmocka_unit_test(the_interval_that_ends_a_suspicion_is_no_sample),
        cmocka_unit_test(a_repeated_beat_is_no_sample),
        cmocka_unit_test(beats_that_come_in_a_heap_do_not_make_it_impatient_for_ever),
        cmocka_unit_test(jitter_makes_it_patient),
        cmocka_unit_test(a_clean_link_is_given_no_longer_than_the_bound),
        cmocka_unit_test(patience_grows_with_loss_and_is_bounded),
        cmocka_unit_test(who_is_overdue_is_asked_until_it_answers),
        cmocka_unit_test(loss_that_begins_suspects_nobody),
        cmocka_unit_test(twenty_percent_loss_for_ten_minutes_suspects_nobody),
        cmocka_unit_test(settings_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
