/* Accrual detectors: the published values, and what is and is not a sample. */
#include "base/error.h"
#include "detect/phi.h"
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
        cmocka_unit_test(settings_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
