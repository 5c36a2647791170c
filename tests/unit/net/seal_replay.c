/* Recordings are never accepted: in any order, of any session, after any restart. */
#include "seal_pair.h"

#include "core/base/rng.h"
#include "net/sealed/replay.h"

static void restart(struct bw_seal **seal, bw_node self)
{
    bw_seal_free(*seal);
    *seal = seal_of(self, ring);
}

static void frame_is_received_once(void **state)
{
    (void)state;
    struct frame frame = frame_of(one, 2, "once");
    assert_received(two, &frame, "once");
    for (unsigned i = 0; i < 3; i++)
        assert_dropped(two, &frame, BW_SEAL_DROP_REPLAY);
}

static void frames_within_the_window_are_received_once_in_any_order(void **state)
{
    (void)state;
    enum { COUNT = BW_SEAL_WINDOW };
    static struct frame frames[COUNT];
    struct bw_rng rng;
    bw_rng_init(&rng, 7);
    for (unsigned i = 0; i < COUNT; i++)
        frames[i] = frame_of(one, 2, "any order");
    for (unsigned i = COUNT - 1; i > 0; i--) {
        unsigned other = (unsigned)bw_rng_below(&rng, i + 1);
        struct frame swap = frames[i];
        frames[i] = frames[other];
        frames[other] = swap;
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_received(two, &frames[i], "any order");
    for (unsigned i = 0; i < COUNT; i++)
        assert_dropped(two, &frames[i], BW_SEAL_DROP_REPLAY);
}

static void frame_older_than_the_window_is_dropped(void **state)
{
    (void)state;
    struct frame late = frame_of(one, 2, "late"), edge = frame_of(one, 2, "edge"), newest;
    for (unsigned i = 0; i < BW_SEAL_WINDOW; i++)
        newest = frame_of(one, 2, "newest"); /* all frames before this one are lost */
    assert_received(two, &newest, "newest");
    assert_dropped(two, &late, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &edge, BW_SEAL_DROP_REPLAY);
    struct frame next = frame_of(one, 2, "next");
    assert_received(two, &next, "next");
}

/* Compares the window with a plain list of received counters. */
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

static void recording_of_an_earlier_session_is_dropped(void **state)
{
    (void)state;
    struct frame heard = frame_of(one, 2, "heard"), held_back = frame_of(one, 2, "held back");
    assert_received(two, &heard, "heard");
    restart(&one, 1);
    handshake(one, 2, two);
    assert_dropped(two, &heard, BW_SEAL_DROP_UNVERIFIED);
    assert_dropped(two, &held_back, BW_SEAL_DROP_UNVERIFIED);
    struct frame now = frame_of(one, 2, "now");
    assert_received(two, &now, "now");
}

/* The receiver restarts and loses its memory; the sender continues. Frames recorded before their
 * new handshake are also dropped after it. */
static void restarted_receiver_drops_recordings_of_a_running_session(void **state)
{
    (void)state;
    struct frame heard = frame_of(one, 2, "heard"), held_back = frame_of(one, 2, "held back");
    assert_received(two, &heard, "heard");
    restart(&two, 2);
    assert_dropped(two, &heard, BW_SEAL_DROP_UNVERIFIED);
    handshake(one, 2, two);
    assert_dropped(two, &heard, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &held_back, BW_SEAL_DROP_REPLAY);
    struct frame now = frame_of(one, 2, "now");
    assert_received(two, &now, "now");
}

static void recordings_are_dropped_when_both_restarted(void **state)
{
    (void)state;
    struct frame old = frame_of(one, 2, "old");
    restart(&one, 1);
    restart(&two, 2);
    assert_dropped(two, &old, BW_SEAL_DROP_UNVERIFIED);
    handshake(one, 2, two);
    assert_dropped(two, &old, BW_SEAL_DROP_UNVERIFIED);
}

/* Records the answer that verifies a session. */
static struct frame record_answer(void)
{
    struct bw_sealed out;
    struct frame hello = frame_of(one, 2, "hello"), challenge, answer;
    assert_int_equal(open_frame(two, &hello, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    assert_int_equal(open_frame(one, &challenge, &out), BW_SEAL_REPLY);
    assert_true(out.lost);
    answer = reply_of(&out);
    return answer;
}

static void recorded_answer_does_not_restore_a_session(void **state)
{
    (void)state;
    struct bw_sealed out;
    restart(&one, 1);
    struct frame answer = record_answer(), old;
    assert_int_equal(open_frame(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met && out.restarted);
    old = frame_of(one, 2, "old");
    restart(&one, 1);
    handshake(one, 2, two);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
    assert_dropped(two, &old, BW_SEAL_DROP_UNVERIFIED);
    /* A recorded answer that never arrived is dropped, too, once another answer has verified the
     * node. */
    restart(&one, 1);
    answer = record_answer();
    restart(&one, 1);
    handshake(one, 2, two);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
}

static void late_answer_is_dropped(void **state)
{
    (void)state;
    struct bw_sealed out;
    restart(&one, 1);
    struct frame answer = record_answer();
    bw_seal_clock(two, 1020 * BW_SEC);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
    answer = record_answer();
    bw_seal_clock(two, 1030 * BW_SEC);
    assert_int_equal(open_frame(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met);
}

static void answer_of_or_to_another_process_is_dropped(void **state)
{
    (void)state;
    restart(&one, 1);
    struct frame answer = record_answer();
    struct frame of_another = answer;
    restart(&two, 2); /* the earlier process sent the challenge */
    assert_dropped(two, &of_another, BW_SEAL_DROP_ANSWER);
    bw_seal_forget(two, 1);
    answer = record_answer();
    bw_seal_forget(two, 1); /* forgetting an unknown node changes nothing */
    struct bw_sealed out;
    assert_int_equal(open_frame(two, &answer, &out), BW_SEAL_REPLY);
    bw_seal_forget(two, 1);
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
}

static void kept_frames_are_received_once_in_any_order(void **state)
{
    (void)state;
    struct frame first = keep(one, 2, "dead, said first"), second = keep(one, 2, "dead, again");
    assert_int_equal(first.bytes[47] & 0x80, 0x80); /* the counter's top bit */
    for (unsigned i = 0; i < 3 * BW_SEAL_WINDOW; i++) {
        struct frame beat = frame_of(one, 2, "beat");
        assert_received(two, &beat, "beat");
    }
    assert_received(two, &second, "dead, again");
    assert_received(two, &first, "dead, said first");
    assert_dropped(two, &first, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &second, BW_SEAL_DROP_REPLAY);
}

/* The supervisor is killed and restarts at once. The guardian then sends the death notice of the
 * killed process. */
static void kept_frames_are_accepted_after_their_process_restarted(void **state)
{
    (void)state;
    struct frame death_notice = keep(one, 2, "dead"), ordinary = frame_of(one, 2, "ordinary");
    restart(&one, 1);
    handshake(one, 2, two);
    assert_received(two, &death_notice, "dead");
    assert_dropped(two, &death_notice, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &ordinary, BW_SEAL_DROP_UNVERIFIED);
    restart(&one, 1);
    handshake(one, 2, two);
    assert_dropped(two, &death_notice, BW_SEAL_DROP_UNVERIFIED);
}

static void kept_frames_are_accepted_after_the_receiver_restarted(void **state)
{
    (void)state;
    struct frame death_notice = keep(one, 2, "dead");
    restart(&two, 2);
    handshake(one, 2, two);
    assert_received(two, &death_notice, "dead");
}

static void streams_and_datagrams_have_separate_windows(void **state)
{
    (void)state;
    struct frame by_stream = {.length = 0};
    int made = bw_seal_make_stream(one, 2, 7, "long", 4, by_stream.bytes, sizeof by_stream.bytes);
    by_stream.length = (size_t)made;
    for (unsigned i = 0; i < 2 * BW_SEAL_WINDOW; i++) {
        struct frame beat = frame_of(one, 2, "beat");
        assert_received(two, &beat, "beat");
    }
    assert_received(two, &by_stream, "long");
    assert_dropped(two, &by_stream, BW_SEAL_DROP_REPLAY);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, start_verified, stop)
    const struct CMUnitTest tests[] = {
        STORY(frame_is_received_once),
        STORY(frames_within_the_window_are_received_once_in_any_order),
        STORY(frame_older_than_the_window_is_dropped),
        STORY(the_window_agrees_with_a_list),
        STORY(recording_of_an_earlier_session_is_dropped),
        STORY(restarted_receiver_drops_recordings_of_a_running_session),
        STORY(recordings_are_dropped_when_both_restarted),
        STORY(recorded_answer_does_not_restore_a_session),
        STORY(late_answer_is_dropped),
        STORY(answer_of_or_to_another_process_is_dropped),
        STORY(kept_frames_are_received_once_in_any_order),
        STORY(kept_frames_are_accepted_after_their_process_restarted),
        STORY(kept_frames_are_accepted_after_the_receiver_restarted),
        STORY(streams_and_datagrams_have_separate_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
