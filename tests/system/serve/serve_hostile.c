/* Clients that break the protocol get the status that gRPC defines, and other clients are not
 * affected. */
#include "core/replica/request_router.h"
#include "fuzz/front_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#define INTERNAL  13
#define EXHAUSTED 8
#define PROGRAMS  2000u
#define ACTIONS   200u
#define TRIES     3u

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
    assert_int_equal(keys_of_election(), 1); /* the candidate left the queue; the leader stays */
    assert_false(c.broken);
    client_close(&c);
}

static const unsigned char with_lease[] = "\x0a\x01"
                                          "e\x10\x07\x1a\x05value";

/* Opens a client and grants it lease 7. */
static void open_with_lease(struct client *c)
{
    static const unsigned char grant[] = "\x08\x3c\x10\x07";
    client_open(c, &front);
    uint32_t id = client_call(c, "/etcdserverpb.Lease/LeaseGrant", "application/grpc");
    client_message(c, id, 1, grant, sizeof grant - 1);
    client_turn(c);
    assert_int_equal(c->streams[id / 2].status, 0);
}

/* Sends a campaign and the reset of its stream at once: the server proposes the key, and learns
 * that the client has gone before the key exists. */
static void campaign_and_leave(struct client *c)
{
    uint32_t id = client_call(c, "/v3electionpb.Election/Campaign", "application/grpc");
    client_message(c, id, 0, with_lease, sizeof with_lease - 1);
    client_reset(c, id);
    for (unsigned i = 0; i < 10; i++)
        client_turn(c);
}

static void leader_stays_when_a_second_campaign_of_its_lease_is_cancelled(void **state)
{
    static struct client c;
    (void)state;
    open_with_lease(&c);
    uint32_t leads = client_call(&c, "/v3electionpb.Election/Campaign", "application/grpc");
    client_message(&c, leads, 1, with_lease, sizeof with_lease - 1);
    client_turn(&c);
    assert_int_equal(c.streams[leads / 2].status, 0);
    campaign_and_leave(&c);
    assert_int_equal(keys_of_election(), 1);
    client_close(&c);
}

/* The server pauses reading when a client pipelines much behind a request. It must not do so while
 * the client waits in a queue, because it would not notice that the client disconnects. */
static void candidate_that_pipelines_much_is_disconnected(void **state)
{
    static const char request[] =
        "POST /v3/election/campaign HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n"
        "{\"name\":\"ZQ==\"}";
    static unsigned char ahead[100000];
    (void)state;
    struct bw_conn *conn = conn_new(&front, &bw_protocol_http1);
    assert_true(conn->protocol->bytes(conn, (const unsigned char *)request, sizeof request - 1));
    assert_false(conn->protocol->bytes(conn, ahead, sizeof ahead));
    conn_end(conn);
}

/* The pause begins with a put that waits for the replica. The watch behind the put never ends. */
static void reading_continues_when_a_stream_begins_behind_a_pause(void **state)
{
    static const char requests[] =
        "POST /v3/kv/put HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n\r\n{\"key\":\"ZQ==\"}"
        "POST /v3/watch HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\n"
        "{\"create_request\":{\"key\":\"ZQ==\"}}     ";
    static unsigned char ahead[100000];
    (void)state;
    struct bw_conn *conn = conn_new(&front, &bw_protocol_http1);
    assert_true(conn->protocol->bytes(conn, (const unsigned char *)requests, sizeof requests - 1));
    assert_true(conn->protocol->bytes(conn, ahead, sizeof ahead));
    assert_true(conn->paused);
    decide_all(bw_service_replica(front.options.service));
    uv_run(front.options.loop, UV_RUN_NOWAIT);
    conn->protocol->flush(conn);
    assert_false(conn->paused);
    assert_false(conn->protocol->bytes(conn, ahead, 1));
    conn_end(conn);
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

/* ---- work in proportion to the request ----
 *
 * Measures the CPU time of this thread for a request and for one of twice its size, and takes the
 * minimum of several runs: twice as much is linear, four times as much is quadratic. */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Eight times as much may cost 24 times as much CPU time: it may no longer fit the processor's
 * cache, which other programs use as well. If each part looked at all others, it would cost 64
 * times as much. */
static void assert_linear(double (*cost)(unsigned size), unsigned size)
{
    double little = 1e9, much = 1e9;
    for (unsigned i = 0; i < TRIES; i++) {
        little = fmin(little, cost(size / 4));
        much = fmin(much, cost(2 * size));
    }
    if (much > 24 * little)
        fail_msg("%u: %.3f ms, %u: %.3f ms of CPU time", size / 4, 1e3 * little, 2 * size,
                 1e3 * much);
}

/* A JSON body with `count` empty messages, each padded to 100 bytes. */
static double cost_of_json_messages(unsigned count)
{
    size_t length = 100 * (size_t)count;
    char head[128], *body = malloc(length);
    assert_non_null(body);
    memset(body, ' ', length);
    for (unsigned i = 0; i < count; i++)
        body[100 * (size_t)i] = '{', body[100 * (size_t)i + 1] = '}';
    int used =
        snprintf(head, sizeof head,
                 "POST /v3/watch HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", length);
    struct bw_conn *conn = conn_new(&front, &bw_protocol_http1);
    double begun = now_s();
    assert_true(conn->protocol->bytes(conn, (const unsigned char *)head, (size_t)used));
    assert_true(conn->protocol->bytes(conn, (const unsigned char *)body, length));
    double spent = now_s() - begun;
    conn_end(conn);
    free(body);
    return spent;
}

static void json_messages_cost_time_in_proportion_to_their_body(void **state)
{
    (void)state;
    assert_linear(cost_of_json_messages, 4096);
}

/* One gRPC message, with one byte in each DATA frame. */
static double cost_of_small_frames(unsigned count)
{
    static struct client c;
    client_open(&c, &front);
    uint32_t id = client_call(&c, "/etcdserverpb.KV/Put", "application/grpc");
    unsigned char head[5] = {0, (unsigned char)(count >> 24), (unsigned char)(count >> 16),
                             (unsigned char)(count >> 8), (unsigned char)count};
    client_frame(&c, F_DATA, 0, id, head, sizeof head);
    double begun = now_s();
    for (unsigned i = 1; i < count; i++)
        client_frame(&c, F_DATA, 0, id, (const unsigned char *)"x", 1);
    double spent = now_s() - begun;
    assert_false(c.broken);
    client_close(&c);
    return spent;
}

static void message_in_small_frames_costs_time_in_proportion_to_its_length(void **state)
{
    (void)state;
    assert_linear(cost_of_small_frames, 100000);
}

/* One round of a quorum that answers `count` requests, without the service around it. */

static unsigned notified;
static uint64_t round_id;

static bw_time router_now(void *context)
{
    (void)context;
    return BW_SEC;
}

static void *router_take(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void router_give(void *context, void *block)
{
    (void)context;
    free(block);
}

static void router_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    (void)context;
    (void)request;
    (void)ttl_ns;
    notified++;
}

static void router_command(void *context, const struct bw_command *command)
{
    (void)context;
    round_id = command->request;
}

static void router_turn(void *context)
{
    (void)context;
}

static double cost_of_round(unsigned count)
{
    static struct bw_request *buckets[65536];
    struct bw_router router;
    const struct bw_router_hooks hooks = {.now = router_now,
                                          .take = router_take,
                                          .give = router_give,
                                          .answered = router_answered,
                                          .command = router_command,
                                          .turn = router_turn};
    memset(buckets, 0, sizeof buckets);
    bw_router_init(&router, 1, 7, &hooks, buckets, 65536);
    router.leading = true;
    notified = 0;
    for (unsigned i = 0; i < count; i++)
        assert_true(bw_router_ask(&router, BW_REPLICA_READ, 0));
    double begun = now_s();
    bw_router_flush(&router);
    bw_router_raft_answered(&router, &(struct bw_answer){.request = round_id});
    double spent = now_s() - begun;
    assert_int_equal(notified, count);
    bw_router_clear(&router);
    return spent;
}

static void requests_of_a_round_cost_time_in_proportion_to_their_number(void **state)
{
    (void)state;
    assert_linear(cost_of_round, 16000);
}

static unsigned answered;

static void count_answer(const unsigned char *bytes, size_t length)
{
    answered += length > 12 && memcmp(bytes, "HTTP/1.1 200", 12) == 0;
}

/* Pipelined requests are cheap to send, and the server could answer all of them at once. */
static void requests_sent_ahead_are_answered_in_bounded_turns(void **state)
{
    static const char one[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    unsigned char many[100 * (sizeof one - 1)];
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        memcpy(many + i * (sizeof one - 1), one, sizeof one - 1);
    answered = 0;
    on_put = count_answer;
    struct bw_conn *conn = conn_new(&front, &bw_protocol_http1);
    assert_true(conn->protocol->bytes(conn, many, sizeof many));
    assert_int_equal(answered, BW_FRONT_TURN_REQUESTS);
    for (unsigned turn = 2; turn <= 100 / BW_FRONT_TURN_REQUESTS + 1; turn++) {
        conn->protocol->flush(conn);
        assert_true(answered <= turn * BW_FRONT_TURN_REQUESTS);
    }
    assert_int_equal(answered, 100);
    on_put = NULL;
    conn_end(conn);
}

/* ---- clients that do not read ---- */

#define SLACK (64u << 10)

static void put_key(struct client *c, const char *key, size_t value)
{
    static unsigned char body[BW_REQUEST_MAX];
    size_t key_length = strlen(key), at = 5;
    body[at++] = 0x0a;
    body[at++] = (unsigned char)key_length;
    memcpy(body + at, key, key_length);
    at += key_length;
    body[at++] = 0x12;
    for (size_t left = value;; left >>= 7) {
        body[at++] = (unsigned char)((left & 127) | (left > 127 ? 128 : 0));
        if (left <= 127)
            break;
    }
    memset(body + at, 'v', value);
    at += value;
    body[0] = 0;
    for (unsigned i = 0; i < 4; i++)
        body[1 + i] = (unsigned char)((at - 5) >> (24 - 8 * i));
    uint32_t id = client_call(c, "/etcdserverpb.KV/Put", "application/grpc");
    for (size_t sent = 0; sent < at; sent += 16384)
        client_frame(c, F_DATA, at - sent <= 16384 ? 1 : 0, id, body + sent,
                     at - sent < 16384 ? at - sent : 16384);
    client_turn(c);
    assert_int_equal(c->streams[id / 2].status, 0);
}

#define WATCHES 50u
#define PUTS    200u

static struct {
    unsigned created, events[WATCHES], progress;
    int64_t last[WATCHES];
} seen;

static struct client *watching;

static void see_watch(uint32_t id, const unsigned char *bytes, size_t length)
{
    (void)id;
    if (reader != watching)
        return;
    Api__WatchResponse *in = api__watch_response__unpack(NULL, length, bytes);
    assert_non_null(in);
    seen.created += in->created != 0;
    seen.progress += in->watch_id == -1;
    for (size_t i = 0; i < in->n_events; i++) {
        assert_in_range(in->watch_id, 0, WATCHES - 1);
        assert_true(in->events[i]->kv->mod_revision > seen.last[in->watch_id]);
        seen.last[in->watch_id] = in->events[i]->kv->mod_revision;
        seen.events[in->watch_id]++;
    }
    api__watch_response__free_unpacked(in, NULL);
}

static void watch_key(struct client *c, uint32_t id, const char *key, bool from_the_start)
{
    unsigned char body[64] = {0x0a, (unsigned char)(2 + strlen(key)), 0x0a,
                              (unsigned char)strlen(key)};
    size_t used = 4;
    while (*key)
        body[used++] = (unsigned char)*key++;
    if (from_the_start) {
        body[1] = (unsigned char)(body[1] + 2);
        body[used++] = 0x18;
        body[used++] = 1;
    }
    client_message(c, id, 0, body, used);
}

static void ask_progress(struct client *c, uint32_t id)
{
    client_message(c, id, 0, (const unsigned char *)"\x1a\x00", 2);
}

static void unread_watches_receive_all_events_in_order_later(void **state)
{
    static struct client c, other;
    (void)state;
    memset(&seen, 0, sizeof seen);
    watching = &c;
    client_open(&other, &front);
    client_open(&c, &front);
    on_message = see_watch;
    client_window(&c, 0);
    uint32_t id = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    for (unsigned i = 0; i < WATCHES; i++)
        watch_key(&c, id, "k", false);
    client_turn(&c);
    reader = &other;
    for (unsigned i = 0; i < PUTS; i++)
        put_key(&other, "k", 1024);
    reader = &c;
    assert_in_range(bw_account_total(&c.conn->account), BW_FRONT_QUEUE_MAX / 2,
                    BW_FRONT_QUEUE_MAX + (2u << 20));
    ask_progress(&c, id);
    ask_progress(&c, id);
    client_open_windows(&c);
    for (unsigned i = 0; i < 100; i++)
        client_turn(&c);
    assert_int_equal(seen.created, WATCHES);
    for (unsigned i = 0; i < WATCHES; i++)
        assert_int_equal(seen.events[i], PUTS);
    assert_in_range(seen.progress, 1, 2);
    assert_true(bw_account_total(&c.conn->account) < SLACK);
    on_message = NULL;
    client_close(&c);
    reader = &other;
    client_close(&other);
}

/* `size` watches that are behind because their client does not read, and as many progress
 * requests. */
static double cost_of_progress(unsigned size)
{
    static struct client c, other;
    client_open(&other, &front);
    client_open(&c, &front);
    client_window(&c, 0);
    uint32_t full = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    for (unsigned i = 0; i < WATCHES; i++)
        watch_key(&c, full, "k", false);
    client_turn(&c);
    reader = &other;
    for (unsigned i = 0; i < 20; i++)
        put_key(&other, "k", 10000);
    reader = &c;
    uint32_t id = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    for (unsigned i = 0; i < size; i++)
        watch_key(&c, id, "k", true);
    client_turn(&c);
    double begun = now_s();
    for (unsigned i = 0; i < size; i++)
        ask_progress(&c, id);
    double spent = now_s() - begun;
    assert_false(c.broken);
    client_close(&c);
    reader = &other;
    client_close(&other);
    return spent;
}

static void progress_requests_cost_time_in_proportion_to_their_number(void **state)
{
    (void)state;
    assert_linear(cost_of_progress, 2000);
}

/* Creates watches on a stream that already has many. */
static double cost_of_watches(unsigned size)
{
    static struct client c;
    client_open(&c, &front);
    client_open_windows(&c);
    uint32_t id = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    double begun = now_s();
    for (unsigned i = 0; i < size; i++)
        watch_key(&c, id, "k", false);
    double spent = now_s() - begun;
    client_close(&c);
    return spent;
}

static void watches_cost_time_in_proportion_to_their_number(void **state)
{
    (void)state;
    assert_linear(cost_of_watches, 4000);
}

/* Each watch searches the whole history and finds nothing: 500,000 steps. */
static void history_is_searched_in_bounded_turns(void **state)
{
    static struct client c;
    unsigned turns = 0;
    (void)state;
    memset(&seen, 0, sizeof seen);
    watching = &c;
    client_open(&c, &front);
    client_open_windows(&c);
    for (unsigned i = 0; i < 500; i++)
        put_key(&c, "k", 1);
    on_message = see_watch;
    uint32_t id = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    for (unsigned i = 0; i < 1000; i++)
        watch_key(&c, id, "other", true);
    ask_progress(&c, id);
    for (; !seen.progress && turns < 1000; turns++)
        client_turn(&c);
    assert_int_equal(seen.progress, 1);
    assert_in_range(turns, 4, 100);
    on_message = NULL;
    client_close(&c);
}

#define READS 100u

static void reads_are_held_while_their_client_does_not_read(void **state)
{
    static struct client c;
    uint32_t ids[READS];
    char key[8];
    (void)state;
    client_open(&c, &front);
    for (unsigned i = 0; i < 60; i++) {
        snprintf(key, sizeof key, "k%u", i);
        put_key(&c, key, 50000);
    }
    client_window(&c, 0);
    for (unsigned i = 0; i < READS; i++) {
        ids[i] = client_call(&c, "/etcdserverpb.KV/Range", "application/grpc");
        client_message(&c, ids[i], 1, everything, sizeof everything - 1);
        client_turn(&c);
        assert_true(bw_account_total(&c.conn->account) <= BW_FRONT_QUEUE_MAX + 4000000);
    }
    client_open_windows(&c);
    for (unsigned i = 0; i < 300; i++)
        client_turn(&c);
    for (unsigned i = 0; i < READS; i++) {
        assert_int_equal(c.streams[ids[i] / 2].status, 0);
        assert_true(c.streams[ids[i] / 2].bytes > 3000000);
    }
    assert_true(bw_account_total(&c.conn->account) <= READS * 4096u + SLACK);
    client_close(&c);
}

/* One transaction that reads everything `times` times. */
static uint32_t read_often(struct client *c, unsigned times)
{
    static const unsigned char operation[] = {0x12, 8, 0x0a, 6, 0x0a, 1, 0, 0x12, 1, 0};
    unsigned char body[1000];
    size_t used = 0;
    for (unsigned i = 0; i < times; i++, used += sizeof operation)
        memcpy(body + used, operation, sizeof operation);
    uint32_t id = client_call(c, "/etcdserverpb.KV/Txn", "application/grpc");
    client_message(c, id, 1, body, used);
    client_turn(c);
    return id;
}

static void fill_registry(struct client *c)
{
    char key[8];
    for (unsigned i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "k%u", i);
        put_key(c, key, 1000000);
    }
}

/* A client that reads a large response slowly can still use the connection for everything else. */
static void unread_large_response_does_not_block_other_responses(void **state)
{
    static struct client c;
    static const unsigned char lease[] = "\x08\x0a\x10\x07";
    (void)state;
    client_open(&c, &front);
    client_open_windows(&c);
    fill_registry(&c);
    uint32_t grant = client_call(&c, "/etcdserverpb.Lease/LeaseGrant", "application/grpc");
    client_message(&c, grant, 1, lease, sizeof lease - 1);
    uint32_t watch = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    watch_key(&c, watch, "k0", false);
    client_turn(&c);
    assert_int_equal(c.streams[grant / 2].status, 0);
    client_window(&c, 0);
    uint32_t large = read_often(&c, 9);
    assert_true(bw_account_total(&c.conn->account) > BW_FRONT_UNREAD_MAX);
    size_t before = c.streams[watch / 2].bytes;
    client_widen(&c, watch, 1 << 20);
    client_window(&c, 1 << 10); /* for new calls; the large one uses a little of it */
    uint32_t keep = client_call(&c, "/etcdserverpb.Lease/LeaseKeepAlive", "application/grpc");
    client_message(&c, keep, 0, (const unsigned char *)"\x08\x07", 2);
    put_key(&c, "k0", 1);
    client_turn(&c);
    assert_true(c.streams[keep / 2].bytes > 0);
    assert_int_equal(c.streams[keep / 2].status, -1);
    assert_true(c.streams[watch / 2].bytes > before);
    assert_int_equal(c.streams[watch / 2].status, -1);
    assert_int_equal(c.streams[large / 2].status, -1);
    client_widen(&c, large, 64 << 20);
    for (unsigned i = 0; i < 20; i++)
        client_turn(&c);
    assert_int_equal(c.streams[large / 2].status, 0);
    assert_true(c.streams[large / 2].bytes > 9 * 4 * 1000000u);
    client_close(&c);
}

static void transaction_that_reads_everything_often_is_not_answered_in_full(void **state)
{
    static struct client c;
    (void)state;
    client_open(&c, &front);
    fill_registry(&c);
    client_window(&c, 0);
    uint32_t id = read_often(&c, 100);
    assert_true(bw_account_total(&c.conn->account) < SLACK);
    assert_int_equal(c.streams[id / 2].status, EXHAUSTED);
    client_close(&c);
}

/* The client keeps its flow-control windows closed, so the server never has anything to send on the
 * socket. */
static void responses_that_are_never_read_are_reset_after_a_minute(void **state)
{
    static struct client c;
    uint32_t ids[4];
    (void)state;
    client_open(&c, &front);
    fill_registry(&c);
    client_window(&c, 0);
    uint32_t watch = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    watch_key(&c, watch, "k0", true);
    for (unsigned i = 0; i < 4; i++) {
        ids[i] = client_call(&c, "/etcdserverpb.KV/Range", "application/grpc");
        client_message(&c, ids[i], 1, everything, sizeof everything - 1);
    }
    for (uint64_t now = 1000; now < 200000; now += 1000) {
        if (now % 30000 == 0)
            client_widen(&c, ids[0], 1); /* a slow reader counts as a reader */
        client_turn(&c);
        assert_true(c.conn->protocol->sweep(c.conn, now, false));
    }
    client_turn(&c);
    assert_false(c.streams[ids[0] / 2].reset);
    for (unsigned i = 1; i < 4; i++)
        assert_true(c.streams[ids[i] / 2].reset);
    /* only unary responses are reset: a client may leave a stream unread */
    assert_false(c.streams[watch / 2].reset);
    assert_true(bw_account_total(&c.conn->account) < 6000000);
    client_close(&c);
}

/* The client sends many cheap requests on a stream and does not read the small responses. */
static void requests_of_an_unread_stream_are_held(void **state)
{
    static struct client c;
    unsigned asked = 20000;
    (void)state;
    client_open(&c, &front);
    client_window(&c, 0);
    uint32_t id = client_call(&c, "/etcdserverpb.Watch/Watch", "application/grpc");
    for (unsigned i = 0; i < asked; i++) {
        watch_key(&c, id, "k", false);
        if (i % 100 == 99)
            client_turn(&c);
    }
    assert_true(bw_account_total(&c.conn->account) <= 2 * BW_FRONT_STREAM_QUEUE + SLACK);
    client_open_windows(&c);
    for (unsigned i = 0; i < 1000 && c.streams[id / 2].bytes < 15 * (size_t)asked; i++)
        client_turn(&c);
    assert_true(c.streams[id / 2].bytes > 15 * (size_t)asked);
    client_close(&c);
}

/* Runs random sequences of all client actions. With sanitizers, this detects memory errors; without
 * them, only crashes. */
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
        in_world(leader_stays_when_a_second_campaign_of_its_lease_is_cancelled),
        in_world(candidate_that_pipelines_much_is_disconnected),
        in_world(reading_continues_when_a_stream_begins_behind_a_pause),
        in_world(two_messages_at_once_on_a_read_end_it_with_internal),
        in_world(call_without_a_message_ends_with_internal),
        in_world(second_message_on_a_server_stream_ends_it_with_internal),
        in_world(json_messages_cost_time_in_proportion_to_their_body),
        in_world(message_in_small_frames_costs_time_in_proportion_to_its_length),
        cmocka_unit_test(requests_of_a_round_cost_time_in_proportion_to_their_number),
        in_world(requests_sent_ahead_are_answered_in_bounded_turns),
        in_world(unread_watches_receive_all_events_in_order_later),
        in_world(progress_requests_cost_time_in_proportion_to_their_number),
        in_world(watches_cost_time_in_proportion_to_their_number),
        in_world(history_is_searched_in_bounded_turns),
        in_world(reads_are_held_while_their_client_does_not_read),
        in_world(unread_large_response_does_not_block_other_responses),
        in_world(transaction_that_reads_everything_often_is_not_answered_in_full),
        in_world(responses_that_are_never_read_are_reset_after_a_minute),
        in_world(requests_of_an_unread_stream_are_held),
        cmocka_unit_test(random_clients_never_crash_the_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
