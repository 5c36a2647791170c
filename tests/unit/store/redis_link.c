/* The link of the Redis store (link.h) when a command cannot be sent. The functions of the
 * connection (client.h) are replaced: the test decides which writes fail and when replies come. */
#include "store/redis/link.h"
#include "store/redis/sentinel.h"
#include "unit/unit.h"

#define TIMEOUT_MS 60000u /* the link's own timeout never ends a test */

struct redis_wire {
    struct redis_wire_events events;
    unsigned sent;   /* commands that were written */
    int write_error; /* result of each write */
    bool closed;
};

static struct redis_wire wire;

struct redis_wire *redis_wire_open(uv_loop_t *loop, const char *host, uint16_t port,
                                   struct redis_tls_context *tls,
                                   const struct redis_wire_events *events)
{
    (void)loop;
    (void)host;
    (void)port;
    (void)tls;
    wire = (struct redis_wire){.events = *events};
    return &wire;
}

int redis_wire_send(struct redis_wire *used, const char *bytes, size_t length)
{
    (void)bytes;
    (void)length;
    if (used->write_error == 0)
        used->sent++;
    return used->write_error;
}

void redis_wire_close(struct redis_wire *used)
{
    used->closed = true;
}

void redis_sentinel_ask(struct redis_sentinel *sentinel, unsigned share_ms,
                        void (*answer)(void *context, const struct bw_url_host *master,
                                       const char *why),
                        void *context)
{
    (void)sentinel;
    (void)share_ms;
    (void)answer;
    (void)context;
}

void redis_sentinel_stop(struct redis_sentinel *sentinel)
{
    (void)sentinel;
}

struct bench {
    uv_loop_t loop;
    struct redis_link link;
    struct redis_login login;
    unsigned downs;
};

/* A command of the test, and how it ended. */
struct call {
    struct bench *bench;
    struct call *next; /* sent when this one is answered; NULL: none */
    bool next_fails;
    unsigned answers;
    bool replied, sent;
    struct redis_command *accepted;
};

static void on_answer(struct redis_command *command, const redisReply *reply, bool sent);

static void send_call(struct call *call)
{
    static const char *const words[] = {"GET", "e"};
    call->accepted = redis_link_send(&call->bench->link, 2, words, NULL, on_answer, call);
}

static void on_answer(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct call *call = command->context;
    call->answers++;
    call->replied = reply != NULL;
    call->sent = sent;
    if (!call->next)
        return;
    wire.write_error = call->next_fails ? BW_EIO : 0;
    send_call(call->next);
    wire.write_error = 0; /* a single failed write, such as malloc's */
}

static void reply_ok(void)
{
    char text[] = "OK";
    redisReply reply = {.type = REDIS_REPLY_STATUS, .str = text, .len = 2};
    wire.events.reply(wire.events.context, &reply);
}

static void on_up(struct redis_link *link)
{
    (void)link;
}

static void on_down(struct redis_link *link)
{
    struct bench *bench = link->events.context;
    bench->downs++;
}

static void turn(struct bench *bench)
{
    uv_run(&bench->loop, UV_RUN_NOWAIT);
}

static void open_link(struct bench *bench)
{
    *bench = (struct bench){.downs = 0};
    assert_int_equal(uv_loop_init(&bench->loop), 0);
    bench->link = (struct redis_link){.loop = &bench->loop,
                                      .events = {.context = bench, .up = on_up, .down = on_down},
                                      .host = {.name = "redis", .port = 6379},
                                      .login = &bench->login,
                                      .timeout_ms = TIMEOUT_MS};
    redis_link_open(&bench->link, 1);
}

static void open_up(struct bench *bench)
{
    open_link(bench);
    wire.events.ready(wire.events.context);
    reply_ok();
    assert_true(bench->link.up);
}

static void on_closed(struct redis_link *link)
{
    (void)link;
}

static void close_link(struct bench *bench)
{
    redis_link_close(&bench->link, on_closed);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bench->loop), 0);
}

static void connection_ends_when_a_write_fails_inside_an_answer(void **unused)
{
    (void)unused;
    struct bench bench;
    open_up(&bench);
    struct call failed = {.bench = &bench}, other = {.bench = &bench};
    struct call first = {.bench = &bench, .next = &failed, .next_fails = true};
    send_call(&first);
    send_call(&other);
    reply_ok();
    assert_true(first.replied);
    assert_int_equal(failed.answers, 0); /* never from within the call that sends */
    reply_ok();                          /* the reply to `other` was in the same read */
    turn(&bench);
    assert_int_equal(bench.downs, 1);
    assert_true(wire.closed);
    assert_non_null(strstr(bench.link.why, "redis:6379: cannot send a command"));
    assert_int_equal(failed.answers, 1);
    assert_false(failed.replied);
    assert_true(failed.sent); /* a part may have reached the server */
    assert_int_equal(other.answers, 1);
    close_link(&bench);
}

static void reply_is_not_matched_to_the_command_that_was_not_sent(void **unused)
{
    (void)unused;
    struct bench bench;
    open_up(&bench);
    struct call later = {.bench = &bench}, failed = {.bench = &bench};
    struct call first = {.bench = &bench, .next = &failed, .next_fails = true};
    send_call(&first);
    reply_ok();
    unsigned sent = wire.sent;
    send_call(&later);
    assert_null(later.accepted); /* rejected, and certainly not sent */
    assert_int_equal(wire.sent, sent);
    assert_non_null(strstr(bench.link.why, "cannot send a command"));
    reply_ok();
    assert_int_equal(failed.answers, 0);
    turn(&bench);
    assert_int_equal(failed.answers, 1);
    assert_false(failed.replied);
    close_link(&bench);
}

static void connection_ends_when_the_send_queue_is_full(void **unused)
{
    (void)unused;
    struct bench bench;
    open_up(&bench);
    struct call call = {.bench = &bench};
    wire.write_error = BW_ELIMIT;
    send_call(&call);
    turn(&bench);
    assert_int_equal(bench.downs, 1);
    assert_non_null(strstr(bench.link.why, "the send queue is full"));
    assert_int_equal(call.answers, 1);
    assert_false(call.replied);
    close_link(&bench);
}

static void attempt_ends_when_the_handshake_cannot_be_sent(void **unused)
{
    (void)unused;
    struct bench bench;
    open_link(&bench);
    struct call call = {.bench = &bench};
    send_call(&call);
    wire.write_error = BW_EIO;
    wire.events.ready(wire.events.context);
    turn(&bench);
    assert_int_equal(bench.downs, 1);
    assert_false(bench.link.up);
    assert_int_equal(call.answers, 1);
    assert_false(call.sent);
    close_link(&bench);
}

static void waiting_commands_are_not_sent_after_a_failed_write(void **unused)
{
    (void)unused;
    struct bench bench;
    open_link(&bench);
    struct call first = {.bench = &bench}, second = {.bench = &bench};
    send_call(&first);
    send_call(&second);
    wire.events.ready(wire.events.context);
    wire.write_error = BW_EIO;
    reply_ok(); /* the handshake is complete */
    turn(&bench);
    assert_int_equal(bench.downs, 1);
    assert_true(first.answers == 1 && !first.replied && first.sent);
    assert_true(second.answers == 1 && !second.replied && !second.sent);
    close_link(&bench);
}

static void link_reconnects_and_sends_after_a_failed_write(void **unused)
{
    (void)unused;
    struct bench bench;
    open_up(&bench);
    struct call failed = {.bench = &bench}, later = {.bench = &bench};
    wire.write_error = BW_EIO;
    send_call(&failed);
    turn(&bench);
    assert_int_equal(bench.downs, 1);
    while (!bench.link.connecting) /* bounded by the backoff, at most PAUSE_FIRST_MS */
        uv_run(&bench.loop, UV_RUN_ONCE);
    assert_false(wire.closed);
    wire.events.ready(wire.events.context);
    reply_ok();
    send_call(&later);
    reply_ok();
    assert_true(later.replied);
    close_link(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_ends_when_a_write_fails_inside_an_answer),
        cmocka_unit_test(reply_is_not_matched_to_the_command_that_was_not_sent),
        cmocka_unit_test(connection_ends_when_the_send_queue_is_full),
        cmocka_unit_test(attempt_ends_when_the_handshake_cannot_be_sent),
        cmocka_unit_test(waiting_commands_are_not_sent_after_a_failed_write),
        cmocka_unit_test(link_reconnects_and_sends_after_a_failed_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
