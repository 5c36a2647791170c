/* The window for large proposals of this node's clients. */
#include "router_bench.h"

#define LARGE ((size_t)1400000)
#define FIT   (BW_REPLICA_WINDOW / LARGE)

static uint64_t put(size_t length)
{
    static unsigned char value[LARGE];
    struct bw_entry entry = {.kind = BW_ENTRY_PUT,
                             .put = {.key = {value, 1}, .value = {value, (uint32_t)length}}};
    return bw_router_propose(&b.router, &entry, scratch, sizeof scratch);
}

static enum bw_request_state state_of(uint64_t id)
{
    const struct bw_request *request = bw_router_find(&b.router, id);
    assert_non_null(request);
    return request->state;
}

static void reply(uint64_t id, int error)
{
    unsigned char bytes[28] = {0};
    bw_put64(bytes, id);
    bw_put32(bytes + 8, (uint32_t)-error);
    bw_router_receive_reply(&b.router, LEADER, bytes, sizeof bytes);
}

static void large_proposals_wait_for_the_window_and_small_ones_do_not(void **state)
{
    (void)state;
    uint64_t ids[FIT + 2];
    bw_router_set_leader(&b.router, LEADER);
    for (unsigned i = 0; i < FIT + 2; i++)
        ids[i] = put(LARGE);
    assert_int_equal(b.asks, FIT);
    assert_int_equal(state_of(ids[FIT]), BW_REQUEST_NEW);
    assert_int_equal(state_of(put(100)), BW_REQUEST_FORWARDED);
    assert_int_equal(state_of(put(BW_REPLICA_SMALL + 1)), BW_REQUEST_NEW); /* behind the others */
    reply(ids[3], BW_ETIMEDOUT);
    assert_int_equal(b.done, ids[3]);
    bw_router_flush(&b.router);
    assert_int_equal(state_of(ids[FIT]), BW_REQUEST_FORWARDED);
    assert_int_equal(state_of(ids[FIT + 1]), BW_REQUEST_NEW);
    assert_true(b.router.window_bytes <= BW_REPLICA_WINDOW);
}

static void cancelled_proposals_leave_the_queue_and_the_window(void **state)
{
    (void)state;
    uint64_t ids[FIT + 3];
    bw_router_set_leader(&b.router, LEADER);
    for (unsigned i = 0; i < FIT + 3; i++)
        ids[i] = put(LARGE);
    bw_router_cancel(&b.router, ids[FIT + 1]);
    bw_router_cancel(&b.router, ids[0]);
    bw_router_cancel(&b.router, ids[1]);
    bw_router_flush(&b.router);
    assert_int_equal(state_of(ids[FIT]), BW_REQUEST_FORWARDED);
    assert_int_equal(state_of(ids[FIT + 2]), BW_REQUEST_FORWARDED);
    for (unsigned i = 2; i < FIT + 3; i++)
        bw_router_cancel(&b.router, ids[i]);
    assert_int_equal(b.router.requests, 0);
    assert_int_equal(b.router.window_bytes, 0);
    assert_int_equal(b.router.request_bytes, 0);
}

static void waiting_proposals_survive_a_change_of_leader(void **state)
{
    (void)state;
    uint64_t ids[FIT + 1];
    bw_router_set_leader(&b.router, LEADER);
    for (unsigned i = 0; i < FIT + 1; i++)
        ids[i] = put(LARGE);
    bw_router_set_leader(&b.router, BW_NODE_NONE); /* the outcome of the forwarded is unknown */
    assert_int_equal(b.error, BW_ELOST);
    assert_int_equal(b.router.requests, 1);
    bw_router_flush(&b.router);
    bw_router_set_leader(&b.router, LEADER);
    assert_int_equal(state_of(ids[FIT]), BW_REQUEST_FORWARDED);
}

/* Every answer comes within the time-out, but the last proposal waits for longer. */
static void proposals_wait_as_long_as_the_window_makes_progress(void **state)
{
    (void)state;
    uint64_t ids[4 * FIT];
    bw_router_set_leader(&b.router, LEADER);
    for (unsigned i = 0; i < 4 * FIT; i++)
        ids[i] = put(LARGE);
    for (unsigned i = 0; i < 3 * FIT; i++) {
        b.now += BW_ROUTER_TIMEOUT / (bw_time)(2 * FIT);
        bw_router_cancel(&b.router, ids[i]); /* as if it were applied */
        bw_router_flush(&b.router);
        bw_router_sweep(&b.router);
    }
    assert_int_equal(b.error, 0);
    assert_int_equal(state_of(ids[4 * FIT - 1]), BW_REQUEST_FORWARDED);
}

static void waiting_proposals_fail_with_those_before_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FIT + 5; i++) /* there is no leader */
        assert_int_not_equal(put(LARGE), 0);
    b.now += BW_ROUTER_TIMEOUT - 1;
    bw_router_sweep(&b.router);
    uint64_t late = put(LARGE);
    assert_int_equal(b.router.requests, FIT + 6);
    b.now += 1;
    bw_router_sweep(&b.router);
    assert_int_equal(b.error, BW_ENOTLEADER);
    assert_int_equal(b.router.requests, 1);
    assert_int_equal(state_of(late), BW_REQUEST_NEW);
}

static void large_proposals_leave_capacity_to_small_ones_and_other_nodes(void **state)
{
    (void)state;
    unsigned accepted = 0;
    while (put(LARGE))
        accepted++;
    assert_true(accepted > 64 && accepted * LARGE <= BW_REPLICA_BYTES_MAX);
    assert_int_not_equal(put(100), 0);
    bw_router_set_leader(&b.router, SELF);
    uint64_t id = (uint64_t)LEADER << BW_ROUTER_NODE_SHIFT | 1;
    static unsigned char bytes[17 + LARGE];
    bw_put64(bytes, id);
    bytes[8] = BW_REPLICA_PROPOSAL;
    bw_put64(bytes + 9, id);
    bw_router_receive_request(&b.router, LEADER, bytes, sizeof bytes);
    assert_int_equal(b.tells, 0);
    assert_int_equal(state_of(id), BW_REQUEST_LOGGED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(large_proposals_wait_for_the_window_and_small_ones_do_not),
        TEST(cancelled_proposals_leave_the_queue_and_the_window),
        TEST(waiting_proposals_survive_a_change_of_leader),
        TEST(proposals_wait_as_long_as_the_window_makes_progress),
        TEST(waiting_proposals_fail_with_those_before_them),
        TEST(large_proposals_leave_capacity_to_small_ones_and_other_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
