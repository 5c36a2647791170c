/* The order in which calls of a channel arrive at a server, and a server that is slow to greet. An
 * HTTP/2 server on the same loop records every request and answers when the test requests it. */
#include "net/api.pb-c.h"
#include "store/etcd/client.h"
#include "unit/unit.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define SEEN_MAX 1024u
#define ASKED    (BW_GRPC_AT_ONCE + 200) /* ordinary calls: more than may be in progress at once */
#define LONG_MS  600000u

struct request {
    int32_t stream;
    char name[64]; /* its path, or the text in its message */
};

static uv_loop_t loop;
static uv_tcp_t listener, connection;
static nghttp2_session *session;
static unsigned port, open_handles;
static struct request seen[SEEN_MAX];
static unsigned seen_count, answered, ended;
static bool is_slow;
/* the channel of the current test; closed after the test, even if it failed */
static struct bw_grpc *channel;
static struct etcd_client *client; /* the etcd client of the current test; closed likewise */

/* ---- the server ---- */

static struct request *request_of(int32_t stream)
{
    for (unsigned i = 0; i < seen_count; i++)
        if (seen[i].stream == stream)
            return &seen[i];
    assert_true(seen_count < SEEN_MAX);
    seen[seen_count] = (struct request){.stream = stream};
    return &seen[seen_count++];
}

static int on_header(nghttp2_session *from, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *context)
{
    (void)from;
    (void)flags;
    (void)context;
    if (name_length == 5 && memcmp(name, ":path", 5) == 0)
        snprintf(request_of(frame->hd.stream_id)->name, 64, "%.*s", (int)length,
                 (const char *)value);
    return 0;
}

/* The only field of an etcd client's message is its name. */
static int on_data(nghttp2_session *from, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t length, void *context)
{
    (void)from;
    (void)flags;
    (void)context;
    struct request *request = request_of(stream);
    if (strncmp(request->name, "/etcdserverpb", 13) == 0 && length > 7)
        snprintf(request->name, 64, "%.*s", (int)(length - 7), (const char *)bytes + 7);
    return 0;
}

static void free_write(uv_write_t *write, int status)
{
    (void)status;
    free(write);
}

static void flush(void)
{
    const uint8_t *bytes;
    ssize_t length;
    while ((length = nghttp2_session_mem_send(session, &bytes)) > 0) {
        uv_write_t *write = malloc(sizeof *write + (size_t)length);
        assert_non_null(write);
        char *copy = (char *)(write + 1);
        memcpy(copy, bytes, (size_t)length);
        uv_buf_t buffer = uv_buf_init(copy, (unsigned)length);
        assert_int_equal(uv_write(write, (uv_stream_t *)&connection, &buffer, 1, free_write), 0);
    }
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    static char bytes[65536];
    (void)handle;
    (void)size;
    *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void on_bytes(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    if (length < 0) {
        uv_read_stop(stream);
        return;
    }
    assert_true(nghttp2_session_mem_recv(session, (const uint8_t *)buffer->base, (size_t)length) ==
                length);
    flush();
}

static void on_slow_connection(uv_stream_t *stream, int status);

static void on_connection(uv_stream_t *stream, int status)
{
    nghttp2_session_callbacks *callbacks;
    if (is_slow) {
        on_slow_connection(stream, status);
        return;
    }
    assert_int_equal(status, 0);
    uv_tcp_init(&loop, &connection);
    open_handles++;
    assert_int_equal(uv_accept(stream, (uv_stream_t *)&connection), 0);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_server_new(&session, callbacks, NULL);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0);
    uv_read_start((uv_stream_t *)&connection, on_alloc, on_bytes);
    flush();
}

#define HEADER(name, value)                                                                        \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,                \
            NGHTTP2_NV_FLAG_NONE                                                                   \
    }

/* Ends the oldest unanswered call, without a message. */
static void answer_one(void)
{
    static nghttp2_nv head[] = {HEADER(":status", "200"), HEADER("grpc-status", "13")};
    assert_true(answered < seen_count);
    nghttp2_submit_response(session, seen[answered++].stream, head, 2, NULL);
    flush();
}

/* ---- the client ---- */

static int open_server(void **state)
{
    struct sockaddr_in address;
    int length = sizeof address;
    (void)state;
    session = NULL;
    channel = NULL;
    client = NULL;
    is_slow = false;
    seen_count = answered = ended = 0;
    memset(seen, 0, sizeof seen);
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &listener);
    open_handles = 1;
    uv_ip4_addr("127.0.0.1", 0, &address);
    assert_int_equal(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&listener, 8, on_connection), 0);
    uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &length);
    port = ntohs(address.sin_port);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    if (channel)
        bw_grpc_close(channel);
    if (client)
        etcd_client_close(client);
    uv_close((uv_handle_t *)&listener, NULL);
    if (open_handles == 2)
        uv_close((uv_handle_t *)&connection, NULL);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    nghttp2_session_del(session);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void run_until_seen(unsigned count)
{
    while (seen_count < count)
        uv_run(&loop, UV_RUN_ONCE);
}

static bool always_ready(void *context)
{
    (void)context;
    return true;
}

static void ignore_down(void *context, const char *why)
{
    (void)context;
    fail_msg("the connection ended: %s", why);
}

static void set_endpoint(struct bw_grpc_options *options)
{
    options->loop = &loop;
    options->count = 1;
    options->endpoints[0].port = (uint16_t)port;
    snprintf(options->endpoints[0].host, sizeof options->endpoints[0].host, "127.0.0.1");
}

static void on_message(void *context, const uint8_t *bytes, size_t length)
{
    (void)context;
    (void)bytes;
    (void)length;
}

static void on_done(void *context, const struct bw_grpc_result *result)
{
    (void)context;
    (void)result;
    ended++;
}

static void call(const char *name, unsigned number, bool urgent)
{
    static const struct bw_grpc_hooks hooks = {.message = on_message, .done = on_done};
    char path[64], why[BW_GRPC_WHY_MAX + 1];
    snprintf(path, sizeof path, "%s%u", name, number);
    struct bw_grpc_head head = {.path = path, .within_ms = LONG_MS, .urgent = urgent};
    struct bw_grpc_call *made = bw_grpc_call(channel, &head, &hooks, NULL, why);
    if (!made)
        fail_msg("%s", why);
    assert_int_equal(bw_grpc_send(made, (const uint8_t *)"x", 1, true), 0);
}

static void assert_seen(unsigned at, const char *name, unsigned number)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s%u", name, number);
    if (strcmp(seen[at].name, wanted) != 0)
        fail_msg("request %u at the server is %s instead of %s", at, seen[at].name, wanted);
}

static void open_channel(void)
{
    struct bw_grpc_options options = {.up = always_ready, .down = ignore_down};
    set_endpoint(&options);
    assert_int_equal(bw_grpc_open(&channel, &options), 0);
    bw_grpc_set_timeout(channel, LONG_MS);
}

static void urgent_call_is_sent_before_all_waiting_calls(void **state)
{
    (void)state;
    open_channel();
    call("/first", 0, false);
    run_until_seen(1);
    for (unsigned i = 1; i < ASKED; i++)
        call("/first", i, false);
    run_until_seen(BW_GRPC_AT_ONCE);
    call("/urgent", 0, true);
    call("/urgent", 1, true);
    for (unsigned i = 0; i < 3; i++)
        answer_one();
    run_until_seen(BW_GRPC_AT_ONCE + 3);
    for (unsigned i = 0; i < BW_GRPC_AT_ONCE; i++)
        assert_seen(i, "/first", i);
    assert_seen(BW_GRPC_AT_ONCE, "/urgent", 0);
    assert_seen(BW_GRPC_AT_ONCE + 1, "/urgent", 1);
    assert_seen(BW_GRPC_AT_ONCE + 2, "/first", BW_GRPC_AT_ONCE);
}

static void urgent_calls_made_before_the_connection_is_up_are_sent_first(void **state)
{
    (void)state;
    open_channel();
    for (unsigned i = 0; i < ASKED; i++)
        call("/first", i, false);
    call("/urgent", 0, true);
    run_until_seen(BW_GRPC_AT_ONCE);
    assert_seen(0, "/urgent", 0);
    for (unsigned i = 1; i < BW_GRPC_AT_ONCE; i++)
        assert_seen(i, "/first", i - 1);
}

static void all_calls_are_sent_once_and_in_order(void **state)
{
    (void)state;
    open_channel();
    for (unsigned i = 0; i < ASKED; i++)
        call("/first", i, false);
    for (unsigned i = 0; i < ASKED; i++) {
        run_until_seen(i + 1);
        answer_one();
    }
    while (ended < ASKED)
        uv_run(&loop, UV_RUN_ONCE);
    for (unsigned i = 0; i < ASKED; i++)
        assert_seen(i, "/first", i);
    assert_int_equal(seen_count, ASKED);
}

static void calls_that_are_cancelled_while_they_wait_are_not_sent(void **state)
{
    (void)state;
    static const struct bw_grpc_hooks hooks = {.message = on_message, .done = on_done};
    static struct bw_grpc_call *calls[BW_GRPC_AT_ONCE + 6];
    open_channel();
    char path[64], why[BW_GRPC_WHY_MAX + 1];
    for (unsigned i = 0; i < BW_GRPC_AT_ONCE + 6; i++) {
        snprintf(path, sizeof path, "/first%u", i);
        struct bw_grpc_head head = {.path = path, .within_ms = LONG_MS};
        calls[i] = bw_grpc_call(channel, &head, &hooks, NULL, why);
        assert_non_null(calls[i]);
        assert_int_equal(bw_grpc_send(calls[i], (const uint8_t *)"x", 1, true), 0);
    }
    bw_grpc_cancel(calls[BW_GRPC_AT_ONCE]);     /* the first that waits, */
    bw_grpc_cancel(calls[BW_GRPC_AT_ONCE + 3]); /* one in the middle, */
    bw_grpc_cancel(calls[BW_GRPC_AT_ONCE + 5]); /* and the last */
    run_until_seen(BW_GRPC_AT_ONCE);
    for (unsigned i = 0; i < BW_GRPC_AT_ONCE; i++)
        answer_one();
    run_until_seen(BW_GRPC_AT_ONCE + 3);
    assert_seen(BW_GRPC_AT_ONCE, "/first", BW_GRPC_AT_ONCE + 1);
    assert_seen(BW_GRPC_AT_ONCE + 1, "/first", BW_GRPC_AT_ONCE + 2);
    assert_seen(BW_GRPC_AT_ONCE + 2, "/first", BW_GRPC_AT_ONCE + 4);
}

/* ---- a slow server ---- */

#define SLOW_MS     400u
#define PATIENCE_MS 50u
#define ATTEMPTS    12u

struct slow_connection {
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    unsigned handles;
};

static unsigned attempts;
static bool greeted;

static void on_slow_closed(uv_handle_t *handle)
{
    struct slow_connection *slow = handle->data;
    if (--slow->handles == 0)
        free(slow);
}

static void close_slow(struct slow_connection *slow)
{
    if (uv_is_closing((uv_handle_t *)&slow->tcp))
        return;
    uv_close((uv_handle_t *)&slow->tcp, on_slow_closed);
    uv_close((uv_handle_t *)&slow->timer, on_slow_closed);
}

static void on_slow_bytes(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    (void)buffer;
    if (length < 0)
        close_slow(stream->data);
}

static void on_slow_timer(uv_timer_t *timer)
{
    static char settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    struct slow_connection *slow = timer->data;
    uv_buf_t buffer = uv_buf_init(settings, sizeof settings);
    uv_write(&slow->write, (uv_stream_t *)&slow->tcp, &buffer, 1, NULL);
}

/* Refuses the first connection: its time limit is not yet the one of the test. */
static void on_slow_connection(uv_stream_t *stream, int status)
{
    struct slow_connection *slow = calloc(1, sizeof *slow);
    assert_non_null(slow);
    assert_int_equal(status, 0);
    uv_tcp_init(&loop, &slow->tcp);
    uv_timer_init(&loop, &slow->timer);
    slow->handles = 2;
    slow->tcp.data = slow->timer.data = slow;
    assert_int_equal(uv_accept(stream, (uv_stream_t *)&slow->tcp), 0);
    if (attempts++ == 0) {
        close_slow(slow);
        return;
    }
    uv_read_start((uv_stream_t *)&slow->tcp, on_alloc, on_slow_bytes);
    uv_timer_start(&slow->timer, on_slow_timer, SLOW_MS, 0);
}

static bool on_greeted(void *context)
{
    (void)context;
    greeted = true;
    return true;
}

static void ignore_failure(void *context, const char *why)
{
    (void)context;
    (void)why;
}

static void slow_server_is_given_more_time_in_each_round(void **state)
{
    struct bw_grpc_options options = {.up = on_greeted, .down = ignore_failure};
    (void)state;
    is_slow = true;
    attempts = 0;
    greeted = false;
    set_endpoint(&options);
    assert_int_equal(bw_grpc_open(&channel, &options), 0);
    bw_grpc_set_timeout(channel, PATIENCE_MS);
    while (!greeted && attempts < ATTEMPTS)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(greeted);
}

/* ---- the order of requests through the etcd client ---- */

static void on_up(void *context)
{
    (void)context;
}

static void on_etcd_done(void *context, const ProtobufCMessage *message,
                         const struct bw_grpc_result *result)
{
    (void)context;
    (void)message;
    (void)result;
    ended++;
}

static void ask_etcd(const char *name, unsigned number, bool urgent)
{
    char text[64], why[BW_GRPC_WHY_MAX + 1];
    Api__AuthenticateRequest request = API__AUTHENTICATE_REQUEST__INIT;
    snprintf(text, sizeof text, "%s%u", name, number);
    request.name = text;
    if (etcd_client_ask(client, &etcd_txn_method, &request.base, urgent, on_etcd_done, NULL, why))
        fail_msg("%s", why);
}

static void urgent_request_of_the_etcd_client_is_sent_before_all_waiting_requests(void **state)
{
    (void)state;
    struct etcd_client_options options = {.up = on_up, .down = on_up};
    set_endpoint(&options.grpc);
    assert_int_equal(etcd_client_open(&client, &options), 0);
    etcd_client_set_timeout(client, LONG_MS);
    ask_etcd("read", 0, false);
    run_until_seen(1);
    for (unsigned i = 1; i < ASKED; i++)
        ask_etcd("read", i, false);
    run_until_seen(BW_GRPC_AT_ONCE);
    ask_etcd("renew", 0, true);
    answer_one();
    run_until_seen(BW_GRPC_AT_ONCE + 1);
    while (strncmp(seen[BW_GRPC_AT_ONCE].name, "/", 1) == 0) /* its message has not arrived yet */
        uv_run(&loop, UV_RUN_ONCE);
    assert_seen(BW_GRPC_AT_ONCE, "renew", 0);
}

#define with_server(test) cmocka_unit_test_setup_teardown(test, open_server, close_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_server(urgent_call_is_sent_before_all_waiting_calls),
        with_server(urgent_calls_made_before_the_connection_is_up_are_sent_first),
        with_server(all_calls_are_sent_once_and_in_order),
        with_server(calls_that_are_cancelled_while_they_wait_are_not_sent),
        with_server(slow_server_is_given_more_time_in_each_round),
        with_server(urgent_request_of_the_etcd_client_is_sent_before_all_waiting_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
