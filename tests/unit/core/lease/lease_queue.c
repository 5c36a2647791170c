/* The lease elector on a store with a queue: when a candidate enters, leaves, or moves to the
 * end. */
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

/* Enters the queue while another candidate leads. Returns the watch. */
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

static void first_candidate_in_the_queue_acquires_at_once(void **state)
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

static void refused_enter_is_retried(void **state)
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

static void former_leader_goes_to_the_end_of_the_queue(void **state)
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

static void unhealthy_candidate_leaves_the_queue(void **state)
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

/* The record of a transfer from b to c, which is not first in the queue. */
static struct bw_store_record handed_to(const char *successor, uint64_t version)
{
    struct bw_store_record record = freed("b", version);
    record.note.kind = BW_NOTE_READY;
    record.note.serial = 3;
    snprintf(record.note.from, sizeof record.note.from, "%s", successor);
    snprintf(record.note.to, sizeof record.note.to, "b");
    return record;
}

static void first_candidate_yields_to_a_named_successor(void **state)
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
    assert_true(leave->id < enter->id); /* moves to the end of the queue */
    free(s.lease);
}

static void candidate_that_yielded_in_vain_stays_in_the_queue(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    struct bw_store_request watch = wait_behind(&s, "b");
    answer(&s, &watch, BW_OUTCOME_DONE, handed_to("c", 41));
    struct bw_store_request again = *asks(&s, BW_STORE_WATCH);
    answer(&s, &again, BW_OUTCOME_DONE, handed_to("c", 42)); /* first in the queue again */
    assert_null(asks(&s, BW_STORE_LEAVE));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    time_passes(&s);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, handed_to("c", 42));
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

static void observer_does_not_enter_the_queue(void **state)
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

static void unhealthy_candidate_is_in_no_queue(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = false});
    happens(&s, BW_LEASE_START);
    assert_null(asks(&s, BW_STORE_ENTER));
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 40));
    assert_null(asks(&s, BW_STORE_LEAVE)); /* it never entered */
    const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 41));
    assert_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

/* Where candidates race, the list is only for people: an unhealthy candidate is in it, too. */
static void unhealthy_candidate_registers_where_candidates_race(void **state)
{
    (void)state;
    for (int observer = 0; observer < 2; observer++) {
        struct story s;
        struct bw_lease_config config = config_for("a", 7);
        config.traits = ALL | BW_STORE_LISTS;
        config.observer = observer;
        begin_with(&s, config);
        step(&s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = false});
        happens(&s, BW_LEASE_START);
        assert_int_equal(asks(&s, BW_STORE_ENTER) != NULL, !observer);
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 40));
        s.now += TTL;
        const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
        answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 41));
        assert_int_equal(asks(&s, BW_STORE_ENTER) != NULL, !observer); /* it was not answered */
        free(s.lease);
    }
}

/* The answer to its ACQUIRE is unknown, so it is perhaps not in the queue; it has no turn to give
 * up. */
static void candidate_outside_the_queue_gives_up_no_turn(void **state)
{
    (void)state;
    struct story s;
    begin_in_line(&s, 0);
    struct bw_store_request watch = wait_behind(&s, "b");
    answer(&s, &watch, BW_OUTCOME_DONE, freed("b", 41));
    const struct bw_store_request acquire = *asks(&s, BW_STORE_ACQUIRE);
    answer(&s, &acquire, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    struct bw_store_record reserved = freed("b", 42);
    reserved.note = (struct bw_note){.kind = BW_NOTE_READY, .serial = 3, .from = "c", .to = "b"};
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, reserved);
    assert_null(asks(&s, BW_STORE_ACQUIRE)); /* it yields to "c" */
    assert_null(asks(&s, BW_STORE_LEAVE));
    assert_null(asks(&s, BW_STORE_ENTER));
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_candidate_in_the_queue_acquires_at_once),
        cmocka_unit_test(refused_enter_is_retried),
        cmocka_unit_test(former_leader_goes_to_the_end_of_the_queue),
        cmocka_unit_test(unhealthy_candidate_leaves_the_queue),
        cmocka_unit_test(first_candidate_yields_to_a_named_successor),
        cmocka_unit_test(candidate_that_yielded_in_vain_stays_in_the_queue),
        cmocka_unit_test(observer_does_not_enter_the_queue),
        cmocka_unit_test(unhealthy_candidate_is_in_no_queue),
        cmocka_unit_test(unhealthy_candidate_registers_where_candidates_race),
        cmocka_unit_test(candidate_outside_the_queue_gives_up_no_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
