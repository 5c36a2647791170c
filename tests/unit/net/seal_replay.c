/* Recordings: worth nothing, in any order, of any session, after any restart. */
#include "seal_pair.h"

#include "core/base/rng.h"
#include "net/sealed/replay.h"

static void restart(struct bw_seal **seal, bw_node self)
{
    bw_seal_free(*seal);
    *seal = seal_of(self, ring);
}

static void a_frame_is_heard_once(void **state)
{
    (void)state;
    struct frame frame = say(one, 2, "once");
    assert_heard(two, &frame, "once");
    for (unsigned i = 0; i < 3; i++)
        assert_dropped(two, &frame, BW_SEAL_DROP_REPLAY);
}

static void within_the_window_any_order_is_heard_and_each_frame_once(void **state)
{
    (void)state;
    enum { COUNT = BW_SEAL_WINDOW };
    static struct frame frames[COUNT];
    struct bw_rng rng;
    bw_rng_init(&rng, 7);
    for (unsigned i = 0; i < COUNT; i++)
        frames[i] = say(one, 2, "any order");
    for (unsigned i = COUNT - 1; i > 0; i--) {
        unsigned other = (unsigned)bw_rng_below(&rng, i + 1);
        struct frame swap = frames[i];
        frames[i] = frames[other];
        frames[other] = swap;
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_heard(two, &frames[i], "any order");
    for (unsigned i = 0; i < COUNT; i++)
        assert_dropped(two, &frames[i], BW_SEAL_DROP_REPLAY);
}

static void what_is_older_than_the_window_is_not_heard(void **state)
{
    (void)state;
    struct frame late = say(one, 2, "late"), edge = say(one, 2, "edge"), newest;
    for (unsigned i = 0; i < BW_SEAL_WINDOW; i++)
        newest = say(one, 2, "newest"); /* all but the last are lost */
    assert_heard(two, &newest, "newest");
    assert_dropped(two, &late, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &edge, BW_SEAL_DROP_REPLAY);
    struct frame next = say(one, 2, "next");
    assert_heard(two, &next, "next");
}

/* The window against a plain list of what was seen. */
static void the_window_agrees_with_a_list(void **state)
{
    (void)state;
    enum { SPAN = 20000 };
    static bool seen[SPAN];
    struct bw_replay window;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    uint64_t newest = 0;
    bw_replay_init(&window, 0);
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t low = newest > 1500 ? newest - 1500 : 0;
        uint64_t counter = low + bw_rng_below(&rng, i % 100 == 0 ? 4000 : 1510);
        if (counter >= SPAN)
            break;
        bool old = newest >= BW_REPLAY_BITS && counter + BW_REPLAY_BITS <= newest;
        assert_int_equal(bw_replay_is_new(&window, counter), !old && !seen[counter]);
        if (old || seen[counter])
            continue;
        bw_replay_note(&window, counter);
        seen[counter] = true;
        newest = counter > newest ? counter : newest;
    }
    assert_true(newest > SPAN / 2);
}

static void a_recording_of_an_earlier_session_of_the_sender_is_not_believed(void **state)
{
    (void)state;
    struct frame heard = say(one, 2, "heard"), held_back = say(one, 2, "held back");
    assert_heard(two, &heard, "heard");
    restart(&one, 1);
    meet(one, 2, two);
    assert_dropped(two, &heard, BW_SEAL_DROP_STRANGER);
    assert_dropped(two, &held_back, BW_SEAL_DROP_STRANGER);
    struct frame now = say(one, 2, "now");
    assert_heard(two, &now, "now");
}

/* The receiver has forgotten everything, the sender lives on: what was recorded before their new
 * meeting stays worthless after it. */
static void a_restarted_receiver_hears_no_recording_of_a_session_that_goes_on(void **state)
{
    (void)state;
    struct frame heard = say(one, 2, "heard"), held_back = say(one, 2, "held back");
    assert_heard(two, &heard, "heard");
    restart(&two, 2);
    assert_dropped(two, &heard, BW_SEAL_DROP_STRANGER);
    meet(one, 2, two);
    assert_dropped(two, &heard, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &held_back, BW_SEAL_DROP_REPLAY);
    struct frame now = say(one, 2, "now");
    assert_heard(two, &now, "now");
}

static void both_restarted_hear_no_recording(void **state)
{
    (void)state;
    struct frame old = say(one, 2, "old");
    restart(&one, 1);
    restart(&two, 2);
    assert_dropped(two, &old, BW_SEAL_DROP_STRANGER);
    meet(one, 2, two);
    assert_dropped(two, &old, BW_SEAL_DROP_STRANGER);
}

/* Records the answer that made a session believed. */
static struct frame record_answer(void)
{
    struct bw_sealed out;
    struct frame hello = say(one, 2, "hello"), challenge, answer;
    assert_int_equal(hear(two, &hello, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    assert_int_equal(hear(one, &challenge, &out), BW_SEAL_REPLY);
    assert_true(out.lost);
    answer = reply_of(&out);
    return answer;
}

static void a_recorded_answer_does_not_bring_a_session_back(void **state)
{
    (void)state;
    struct bw_sealed out;
    restart(&one, 1);
    struct frame answer = record_answer(), old;
    assert_int_equal(hear(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met && out.restarted);
    old = say(one, 2, "old");
    restart(&one, 1);
    meet(one, 2, two);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
    assert_dropped(two, &old, BW_SEAL_DROP_STRANGER);
    /* Nor does one that never arrived, once the node has been met otherwise. */
    restart(&one, 1);
    answer = record_answer();
    restart(&one, 1);
    meet(one, 2, two);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
}

static void an_answer_that_was_held_back_for_long_is_worth_nothing(void **state)
{
    (void)state;
    struct bw_sealed out;
    restart(&one, 1);
    struct frame answer = record_answer();
    bw_seal_clock(two, 1020 * BW_SEC);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
    answer = record_answer();
    bw_seal_clock(two, 1030 * BW_SEC);
    assert_int_equal(hear(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met);
}

static void an_answer_of_another_process_or_to_another_is_worth_nothing(void **state)
{
    (void)state;
    restart(&one, 1);
    struct frame answer = record_answer();
    struct frame of_another = answer;
    restart(&two, 2); /* the challenge was the earlier process's */
    assert_dropped(two, &of_another, BW_SEAL_DROP_ANSWER);
    bw_seal_forget(two, 1);
    answer = record_answer();
    bw_seal_forget(two, 1); /* was not known: nothing changes */
    struct bw_sealed out;
    assert_int_equal(hear(two, &answer, &out), BW_SEAL_REPLY);
    bw_seal_forget(two, 1);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
}

static void kept_frames_are_good_once_each_in_any_order(void **state)
{
    (void)state;
    struct frame first = keep(one, 2, "dead, said first"), second = keep(one, 2, "dead, again");
    assert_int_equal(first.bytes[47] & 0x80, 0x80); /* the counter's top bit */
    for (unsigned i = 0; i < 3 * BW_SEAL_WINDOW; i++) {
        struct frame beat = say(one, 2, "beat");
        assert_heard(two, &beat, "beat");
    }
    assert_heard(two, &second, "dead, again");
    assert_heard(two, &first, "dead, said first");
    assert_dropped(two, &first, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &second, BW_SEAL_DROP_REPLAY);
}

/* The supervisor was killed and is started again at once; its guardian speaks for the first one. */
static void kept_frames_outlive_their_process_and_the_meeting_of_the_next(void **state)
{
    (void)state;
    struct frame last_words = keep(one, 2, "dead"), ordinary = say(one, 2, "ordinary");
    restart(&one, 1);
    meet(one, 2, two);
    assert_heard(two, &last_words, "dead");
    assert_dropped(two, &last_words, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &ordinary, BW_SEAL_DROP_STRANGER);
    restart(&one, 1);
    meet(one, 2, two);
    assert_dropped(two, &last_words, BW_SEAL_DROP_STRANGER);
}

static void kept_frames_sealed_before_the_receiver_restarted_are_still_good(void **state)
{
    (void)state;
    struct frame last_words = keep(one, 2, "dead");
    restart(&two, 2);
    meet(one, 2, two);
    assert_heard(two, &last_words, "dead");
}

static void streams_and_datagrams_do_not_hold_each_other_up(void **state)
{
    (void)state;
    struct frame by_stream = {.length = 0};
    int made = bw_seal_make_stream(one, 2, 7, "long", 4, by_stream.bytes, sizeof by_stream.bytes);
    by_stream.length = (size_t)made;
    for (unsigned i = 0; i < 2 * BW_SEAL_WINDOW; i++) {
        struct frame beat = say(one, 2, "beat");
        assert_heard(two, &beat, "beat");
    }
    assert_heard(two, &by_stream, "long");
    assert_dropped(two, &by_stream, BW_SEAL_DROP_REPLAY);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, start_acquainted, stop)
    const struct CMUnitTest tests[] = {
        STORY(a_frame_is_heard_once),
        STORY(within_the_window_any_order_is_heard_and_each_frame_once),
        STORY(what_is_older_than_the_window_is_not_heard),
        STORY(the_window_agrees_with_a_list),
        STORY(a_recording_of_an_earlier_session_of_the_sender_is_not_believed),
        STORY(a_restarted_receiver_hears_no_recording_of_a_session_that_goes_on),
        STORY(both_restarted_hear_no_recording),
        STORY(a_recorded_answer_does_not_bring_a_session_back),
        STORY(an_answer_that_was_held_back_for_long_is_worth_nothing),
        STORY(an_answer_of_another_process_or_to_another_is_worth_nothing),
        STORY(kept_frames_are_good_once_each_in_any_order),
        STORY(kept_frames_outlive_their_process_and_the_meeting_of_the_next),
        STORY(kept_frames_sealed_before_the_receiver_restarted_are_still_good),
        STORY(streams_and_datagrams_do_not_hold_each_other_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
