/* The lease elector on a store that serves in order: who stands in line, when, and at which end. */
#include "lease_story.h"

#define IN_ORDER                                                                                   \
    (BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_NOTES | BW_STORE_QUEUE | BW_STORE_LISTS)

static void begin_in_line(struct story *s, int32_t priority)
{
    struct bw_lease_config config = config_for("a", 7);
    config.traits = IN_ORDER;
    config.priority = priority;
    begin_with(s, config);
}

/* Entered, and somebody else leads. Returns the watch. */
static struct bw_store_request wait_behind(struct story *s, const char *leader)
{
    happens(s, BW_LEASE_START);
    const struct bw_store_request enter = *asks(s, BW_STORE_ENTER);
    const struct bw_store_request read = *asks(s, BW_STORE_READ);
    answer(s, &enter, BW_OUTCOME_DONE, (struct bw_store_record){0});
    answer(s, &read, BW_OUTCOME_DONE, held_by(leader, 4, 40));
    assert_null(asks(s, BW_STORE_ENTER));
    assert_non_null(asks(s, BW_STORE_WATCH));
    return *asks(s, BW_STORE_WATCH);
}

static struct bw_store_record freed(const char *last, uint64_t version)
{
    struct bw_store_record record = held_by(last, 4, version);
    record.held = false;
    record.clean = true;
    return record;
}

static void whose_turn_it_is_takes_it_at_once(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    struct bw_store_request watch = wait_behind(&s, "b");
    answer(&s, &watch, BW_OUTCOME_DONE, freed("b", 41));
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    assert_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

static void a_place_that_was_not_given_is_asked_for_again(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    happens(&s, BW_LEASE_START);
    const struct bw_store_request enter = *asks(&s, BW_STORE_ENTER);
    const struct bw_store_request read = *asks(&s, BW_STORE_READ);
    answer(&s, &enter, BW_OUTCOME_UNAVAILABLE, (struct bw_store_record){0});
    answer(&s, &read, BW_OUTCOME_DONE, held_by("b", 4, 40));
    assert_non_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

static void who_led_goes_to_the_end_of_the_line(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    struct bw_store_request watch = wait_behind(&s, "b");
    answer(&s, &watch, BW_OUTCOME_DONE, freed("b", 41));
    const struct bw_store_request acquire = *asks(&s, BW_STORE_ACQUIRE);
    struct bw_store_record ours = held_by("a", 5, 42);
    ours.request = acquire.id;
    answer(&s, &acquire, BW_OUTCOME_DONE, ours);
    happens(&s, BW_LEASE_RESIGN);
    happens(&s, BW_LEASE_WORK_DEAD);
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, freed("a", 43));
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("c", 6, 44));
    assert_non_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

static void who_is_not_healthy_does_not_stand_in_line(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    wait_behind(&s, "b");
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = false});
    assert_non_null(asks(&s, BW_STORE_LEAVE));
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = true});
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 41));
    assert_non_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

/* The record of a transfer from b to c, whose turn it is not. */
static struct bw_store_record handed_to(const char *successor, uint64_t version)
{
    struct bw_store_record record = freed("b", version);
    record.note.kind = BW_NOTE_READY;
    record.note.serial = 3;
    snprintf(record.note.from, sizeof record.note.from, "%s", successor);
    snprintf(record.note.to, sizeof record.note.to, "b");
    return record;
}

static void whose_turn_it_is_lets_a_named_successor_go_first(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    struct bw_store_request watch = wait_behind(&s, "b");
    answer(&s, &watch, BW_OUTCOME_DONE, handed_to("c", 41));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    const struct bw_store_request *leave = asks(&s, BW_STORE_LEAVE);
    const struct bw_store_request *enter = asks(&s, BW_STORE_ENTER);
    assert_non_null(leave);
    assert_non_null(enter);
    assert_true(leave->id < enter->id); /* to the end of the line */
    free(s.lease);
}

static void who_stood_back_for_nobody_waits_where_it_stands(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    struct bw_store_request watch = wait_behind(&s, "b");
    answer(&s, &watch, BW_OUTCOME_DONE, handed_to("c", 41));
    struct bw_store_request again = *asks(&s, BW_STORE_WATCH);
    answer(&s, &again, BW_OUTCOME_DONE, handed_to("c", 42)); /* first again */
    assert_null(asks(&s, BW_STORE_LEAVE));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    time_passes(&s);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, handed_to("c", 42));
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

static void an_observer_stands_in_no_line(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.traits = IN_ORDER;
    config.observer = true;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    assert_null(asks(&s, BW_STORE_ENTER));
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 40));
    assert_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whose_turn_it_is_takes_it_at_once),
        cmocka_unit_test(a_place_that_was_not_given_is_asked_for_again),
        cmocka_unit_test(who_led_goes_to_the_end_of_the_line),
        cmocka_unit_test(who_is_not_healthy_does_not_stand_in_line),
        cmocka_unit_test(whose_turn_it_is_lets_a_named_successor_go_first),
        cmocka_unit_test(who_stood_back_for_nobody_waits_where_it_stands),
        cmocka_unit_test(an_observer_stands_in_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
