/* Clients that break the protocol get the status that gRPC has for it, and nobody else notices. */
#include "fuzz/front_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define INTERNAL 13
#define PROGRAMS 2000u
#define ACTIONS  200u

static const unsigned char campaign[] = "\x0a\x01"
                                        "e\x1a\x05value";
static const unsigned char everything[] = "\x0a\x01\x00\x12\x01\x00";

static struct bw_front front;
static bool closed;

static int open_world(void **state)
{
    (void)state;
    world_open(&front, &closed);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&front, &closed);
    return 0;
}

static int64_t keys_of_election(void)
{
    static const struct bw_kv *kvs[64];
    struct bw_results results = {.kvs = kvs, .kv_cap = 64};
    struct bw_op_result result;
    struct bw_range range = {
        .keys = {.key = {(const unsigned char *)"e/", 2}, .end = {(const unsigned char *)"e0", 2}}};
    assert_int_equal(
        bw_registry_range(bw_service_registry(front.options.service), &range, &results, &result),
        0);
    return result.count;
}

static void second_message_on_a_waiting_campaign_ends_it_with_internal(void **state)
{
    static struct client c;
    (void)state;
    client_open(&c, &front);
    uint32_t leads = client_call(&c, "/v3electionpb.Election/Campaign", "application/grpc");
    client_message(&c, leads, 1, campaign, sizeof campaign - 1);
    client_turn(&c);
    assert_int_equal(c.streams[leads / 2].status, 0);
    uint32_t waits = client_call(&c, "/v3electionpb.Election/Campaign", "application/grpc");
    client_message(&c, waits, 0, campaign, sizeof campaign - 1);
    client_turn(&c);
    assert_int_equal(c.streams[waits / 2].status, -1);
    assert_int_equal(keys_of_election(), 2);
    client_message(&c, waits, 0, campaign, sizeof campaign - 1);
    client_turn(&c);
    assert_int_equal(c.streams[waits / 2].status, INTERNAL);
    client_reset(&c, waits);
    client_turn(&c);
    assert_int_equal(keys_of_election(), 1); /* it left the queue; the leader stays */
    assert_false(c.broken);
    client_close(&c);
}

static void two_messages_at_once_on_a_read_end_it_with_internal(void **state)
{
    static struct client c;
    (void)state;
    client_open(&c, &front);
    uint32_t id = client_call(&c, "/etcdserverpb.KV/Range", "application/grpc");
    client_message(&c, id, 0, everything, sizeof everything - 1);
    client_message(&c, id, 1, everything, sizeof everything - 1);
    client_turn(&c);
    assert_int_equal(c.streams[id / 2].status, INTERNAL);
    uint32_t next = client_call(&c, "/etcdserverpb.KV/Range", "application/grpc");
    client_message(&c, next, 1, everything, sizeof everything - 1);
    client_turn(&c);
    assert_int_equal(c.streams[next / 2].status, 0);
    client_close(&c);
}

static void call_without_a_message_ends_with_internal(void **state)
{
    static struct client c;
    (void)state;
    client_open(&c, &front);
    uint32_t id = client_call(&c, "/etcdserverpb.KV/Range", "application/grpc");
    client_frame(&c, F_DATA, 1, id, NULL, 0);
    client_turn(&c);
    assert_int_equal(c.streams[id / 2].status, INTERNAL);
    client_close(&c);
}

static void second_message_on_a_server_stream_ends_it_with_internal(void **state)
{
    static struct client c;
    (void)state;
    client_open(&c, &front);
    uint32_t id = client_call(&c, "/v3electionpb.Election/Observe", "application/grpc");
    client_message(&c, id, 0, campaign, 3);
    client_turn(&c);
    client_message(&c, id, 0, campaign, 3);
    client_turn(&c);
    assert_int_equal(c.streams[id / 2].status, INTERNAL);
    client_close(&c);
}

/* Random programs of all actions. Sanitizers see what goes wrong; without them a crash does. */
static void random_clients_never_crash_the_service(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (unsigned seed = 0; seed < PROGRAMS; seed++) {
        unsigned char bytes[3 * ACTIONS];
        struct bw_front own;
        bool gone;
        for (size_t i = 0; i < sizeof bytes; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[i] = (unsigned char)(random >> 56);
        }
        world_open(&own, &gone);
        play(&own, bytes, sizeof bytes);
        world_close(&own, &gone);
    }
}

#define in_world(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_world(second_message_on_a_waiting_campaign_ends_it_with_internal),
        in_world(two_messages_at_once_on_a_read_end_it_with_internal),
        in_world(call_without_a_message_ends_with_internal),
        in_world(second_message_on_a_server_stream_ends_it_with_internal),
        cmocka_unit_test(random_clients_never_crash_the_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
