/* Tests that pending events come in order of time, then in the order of scheduling. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "sim/world/queue.h"

static void events_pop_by_time_then_by_order_of_scheduling(void **state)
{
    (void)state;
    struct bw_sim_queue queue = {0};
    struct bw_rng rng;
    bw_sim_queue_reset(&queue);
    bw_rng_init(&rng, 7);
    for (uint32_t i = 0; i < 5000; i++) {
        struct bw_sim_slot *slot = bw_sim_queue_take(&queue);
        slot->extra = i;
        bw_sim_queue_push(&queue, slot, (bw_time)bw_rng_below(&rng, 300));
    }
    bw_time at, last_at = -1;
    uint64_t last = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        struct bw_sim_slot *slot = bw_sim_queue_pop(&queue, &at);
        assert_true(at > last_at || (at == last_at && slot->extra > last));
        last_at = at;
        last = slot->extra;
        bw_sim_queue_give(&queue, slot);
    }
    assert_null(bw_sim_queue_pop(&queue, &at));
    assert_int_equal(queue.taken, 0);
    bw_sim_queue_deinit(&queue);
}

static void freed_slots_are_reused(void **state)
{
    (void)state;
    struct bw_sim_queue queue = {0};
    bw_sim_queue_reset(&queue);
    for (uint32_t i = 0; i < 100000; i++) {
        struct bw_sim_slot *slot = bw_sim_queue_take(&queue);
        assert_non_null(bw_sim_slot_block(&queue, slot, NULL, 5000));
        bw_sim_queue_push(&queue, slot, i);
        bw_time at;
        bw_sim_queue_give(&queue, bw_sim_queue_pop(&queue, &at));
    }
    assert_int_equal(queue.peak, 1);
    assert_int_equal(queue.used, 1);
    bw_sim_queue_deinit(&queue);
}

static void message_keeps_its_list_in_slot_or_pool(void **state)
{
    (void)state;
    struct bw_sim_queue queue = {0};
    bw_node list[600];
    bw_sim_queue_reset(&queue);
    for (uint32_t items = 0; items <= 600; items += 40) {
        struct bw_message msg = {.kind = BW_MSG_RING_ELECTION, .from = 1, .to = 2, .items = items};
        for (uint32_t i = 0; i < items; i++)
            list[i] = i * 3;
        msg.data = list;
        msg.ring.best = 77;
        struct bw_sim_slot *slot = bw_sim_queue_take(&queue);
        assert_true(bw_sim_slot_message(&queue, slot, &msg));
        memset(list, 0xff, sizeof list); /* the queue must have copied the sender's list */
        const struct bw_message *copy = bw_sim_slot_msg(slot);
        assert_int_equal(copy->ring.best, 77);
        for (uint32_t i = 0; i < items; i++)
            assert_int_equal(((const bw_node *)copy->data)[i], i * 3);
    }
    bw_sim_queue_deinit(&queue);
}

static void queue_overflow_is_a_sticky_error(void **state)
{
    (void)state;
    struct bw_sim_queue queue = {0};
    bw_sim_queue_reset(&queue);
    queue.slots_max = 2000;
    for (uint32_t i = 0; i < 2000; i++)
        bw_sim_queue_push(&queue, bw_sim_queue_take(&queue), 1);
    assert_null(bw_sim_queue_take(&queue));
    assert_int_equal(queue.error, BW_ELIMIT);
    bw_sim_queue_deinit(&queue);
}

static void slot_list_is_first_in_first_out(void **state)
{
    (void)state;
    struct bw_sim_queue queue = {0};
    struct bw_sim_fifo fifo;
    bw_sim_queue_reset(&queue);
    bw_sim_fifo_init(&fifo);
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 5; i++) {
            struct bw_sim_slot *slot = bw_sim_queue_take(&queue);
            slot->extra = i;
            bw_sim_fifo_put(&queue, &fifo, slot);
        }
        assert_int_equal(fifo.count, 5);
        for (uint64_t i = 0; i < 5; i++) {
            struct bw_sim_slot *slot = bw_sim_fifo_get(&queue, &fifo);
            assert_int_equal(slot->extra, i);
            bw_sim_queue_give(&queue, slot);
        }
        assert_null(bw_sim_fifo_get(&queue, &fifo));
    }
    bw_sim_queue_deinit(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_pop_by_time_then_by_order_of_scheduling),
        cmocka_unit_test(freed_slots_are_reused),
        cmocka_unit_test(message_keeps_its_list_in_slot_or_pool),
        cmocka_unit_test(queue_overflow_is_a_sticky_error),
        cmocka_unit_test(slot_list_is_first_in_first_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
