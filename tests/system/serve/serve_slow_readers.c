/* Clients of HTTP/1.1 that read their responses late. The service, its disk and its sockets are the
 * real ones. The clients share the server's thread: they act between two turns of its loop, so that
 * every state is reached on every run. Their reads are serializable and do not need the disk. */
#include "serve/front/state.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#define KEYS         48u
#define VALUE_TEXT   1000000u /* base64: a response with all keys has 48 MB */
#define SOCKET_BYTES 262144
#define QUIET_TURNS  50u
#define LARGE        4u
#define HANG_MS      60000u

#define REQUEST(body, length)                                                                      \
    "POST /v3/kv/range HTTP/1.1\r\nHost: a\r\nContent-Length: " length "\r\n\r\n" body
#define SMALL_READ REQUEST("{\"serializable\":true,\"key\":\"eA==\"}", "34")
#define LARGE_READ REQUEST("{\"serializable\":true,\"key\":\"AA==\",\"range_end\":\"AA==\"}", "53")

static struct {
    uv_loop_t loop;
    uv_timer_t timeout;
    char dir[SCRATCH_MAX];
    struct bw_service *service;
    struct bw_front *front;
    bool out_of_time;
    char why[BW_REPLICA_WHY_MAX + 1];
} w;

static void on_timeout(uv_timer_t *timer)
{
    (void)timer;
    w.out_of_time = true;
}

static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    (void)context;
    (void)end;
    snprintf(w.why, sizeof w.why, "%s", why);
}

/* The client got further: the server has HANG_MS from now on for the next part. */
static void note_progress(void)
{
    uv_update_time(&w.loop);
    uv_timer_start(&w.timeout, on_timeout, HANG_MS, 0);
}

/* One turn of the loop. */
static void turn(uv_run_mode mode)
{
    uv_run(&w.loop, mode);
    assert_false(w.out_of_time);
    assert_string_equal(w.why, "");
}

/* ---- a client ---- */

/* Connects with small buffers at both ends, so that most of a response stays in the server. */
static int connect_client(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(bw_front_port(w.front))};
    int server, bytes = SOCKET_BYTES, fd = socket(AF_INET, SOCK_STREAM, 0);
    uint32_t count = w.front->count;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (w.front->count == count)
        turn(UV_RUN_ONCE);
    assert_int_equal(uv_fileno((uv_handle_t *)&w.front->conns->tcp, &server), 0);
    assert_int_equal(setsockopt(server, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    return fd;
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0)
            assert_int_equal(errno, EAGAIN);
        else
            bytes += sent, length -= (size_t)sent, note_progress();
        turn(UV_RUN_NOWAIT);
    }
}

/* Closes the connection and waits until the server has done so, too. */
static void disconnect(int fd)
{
    close(fd);
    note_progress();
    while (w.front->count)
        turn(UV_RUN_ONCE);
}

/* Sends without a turn of the loop. */
static void send_text(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until `length` bytes or, with MSG_PEEK, one byte has arrived. */
static void receive(int fd, char *to, size_t length, int flags)
{
    while (length) {
        ssize_t got = recv(fd, to, length, flags);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            fail_msg("the server closed the connection; %zu bytes are missing", length);
        if (got > 0 && (flags & MSG_PEEK))
            return;
        if (got > 0)
            to += got, length -= (size_t)got, note_progress();
        else
            turn(UV_RUN_ONCE);
    }
}

/* Reads a response and returns the size of its body; 0: the status is not 200. */
static size_t receive_response(int fd)
{
    static char body[65536];
    char head[512] = "";
    unsigned long long size = 0;
    for (size_t used = 0; !strstr(head, "\r\n\r\n"); used++) {
        assert_true(used + 1 < sizeof head);
        receive(fd, head + used, 1, 0);
    }
    const char *length = strstr(head, "Content-Length: ");
    assert_true(length && sscanf(length, "Content-Length: %llu", &size) == 1);
    for (size_t left = (size_t)size; left;) {
        size_t piece = left < sizeof body ? left : sizeof body;
        receive(fd, body, piece, 0);
        left -= piece;
    }
    if (strncmp(head, "HTTP/1.1 200 ", 13) == 0)
        return (size_t)size;
    print_message("# %.*s: %.200s\n", (int)strcspn(head, "\r"), head, body);
    return 0;
}

static void post(int fd, const char *path, const char *body)
{
    char head[256];
    int used = snprintf(head, sizeof head,
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
                        strlen(body));
    send_all(fd, head, (size_t)used);
    send_all(fd, body, strlen(body));
}

static void ask_for_everything(int fd)
{
    send_all(fd, LARGE_READ, strlen(LARGE_READ));
}

/* Waits until the response has begun and the server can send no more of it. */
static void wait_until_stuck(int fd)
{
    char first;
    receive(fd, &first, 1, MSG_PEEK);
    struct bw_conn *conn = w.front->conns;
    for (unsigned quiet = 0; quiet < QUIET_TURNS; quiet++) {
        size_t before = bw_conn_backlog(conn);
        turn(UV_RUN_NOWAIT);
        assert_ptr_equal(w.front->conns, conn); /* the server has not closed it */
        if (bw_conn_backlog(conn) != before)
            quiet = 0;
    }
    assert_true(bw_conn_backlog(conn) > 0);
}

/* ---- the world ---- */

static void fill(void)
{
    static char body[VALUE_TEXT + 100];
    int fd = connect_client();
    for (unsigned i = 0; i < KEYS; i++) {
        int used = snprintf(body, sizeof body, "{\"key\":\"AA%02u\",\"value\":\"", i);
        memset(body + used, 'A', VALUE_TEXT);
        snprintf(body + used + VALUE_TEXT, sizeof body - (size_t)used - VALUE_TEXT, "\"}");
        do /* a disk that stalls may cost the node its lead for a moment */
            post(fd, "/v3/kv/put", body);
        while (receive_response(fd) == 0);
    }
    disconnect(fd);
}

static int open_world(void **state)
{
    struct bw_replica_member self = {.id = 1, .host = "127.0.0.1"};
    struct bw_service_options service = {
        .loop = &w.loop,
        .directory = w.dir,
        .cluster = 77,
        .self = 1,
        .members = &self,
        .count = 1,
        .ttl_min_ns = BW_SEC,
        .registry = {.quota = 256 << 20, .leases_max = 1000, .history = 10000},
        .ended = on_ended};
    struct bw_replica_status status = {0};
    (void)state;
    scratch_make(w.dir);
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(uv_timer_init(&w.loop, &w.timeout), 0);
    if (bw_service_open(&w.service, &service, w.why) != 0)
        fail_msg("%s", w.why);
    struct bw_front_options front = {.loop = &w.loop, .service = w.service, .host = "127.0.0.1"};
    if (bw_front_open(&w.front, &front, w.why) != 0)
        fail_msg("%s", w.why);
    note_progress();
    while (!status.leading) {
        turn(UV_RUN_ONCE);
        bw_replica_status(bw_service_replica(w.service), &status);
    }
    fill();
    return 0;
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

static void on_service_closed(void *context)
{
    (void)context;
    w.service = NULL;
}

static int close_world(void **state)
{
    bool closed = false;
    (void)state;
    bw_front_close(w.front, on_closed, &closed);
    while (!closed)
        uv_run(&w.loop, UV_RUN_ONCE);
    bw_service_close(w.service, on_service_closed);
    while (w.service)
        uv_run(&w.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&w.timeout, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    scratch_remove(w.dir);
    return 0;
}

/* ---- the tests ---- */

/* The connection queues a bounded part of the response, and the client still gets all of it. */
static void response_larger_than_the_queue_arrives_when_its_client_reads_late(void **state)
{
    (void)state;
    int fd = connect_client();
    ask_for_everything(fd);
    wait_until_stuck(fd);
    assert_true(bw_conn_backlog(w.front->conns) < 2 * BW_FRONT_QUEUE_MAX);
    assert_true(receive_response(fd) > (size_t)KEYS * VALUE_TEXT);
    disconnect(fd);
}

/* The next request arrives while the connection's queue has space for more of the response. */
static void response_continues_when_its_client_sends_another_request(void **state)
{
    (void)state;
    int fd = connect_client();
    ask_for_everything(fd);
    wait_until_stuck(fd);
    ask_for_everything(fd);
    wait_until_stuck(fd);
    for (unsigned i = 0; i < 2; i++)
        assert_true(receive_response(fd) > (size_t)KEYS * VALUE_TEXT);
    disconnect(fd);
}

/* Counts the connections that have a part of a large response. */
static unsigned count_answered(void)
{
    unsigned count = 0;
    for (struct bw_conn *conn = w.front->conns; conn; conn = conn->next)
        count += bw_conn_backlog(conn) + bw_account_total(&conn->account) > VALUE_TEXT;
    return count;
}

/* Large responses are built one per turn, and a small one between them. */
static void large_responses_of_one_turn_are_built_one_by_one(void **state)
{
    int fd[LARGE], small = connect_client();
    char first;
    (void)state;
    for (unsigned i = 0; i < LARGE; i++)
        fd[i] = connect_client();
    for (unsigned i = 0; i < LARGE; i++)
        send_text(fd[i], LARGE_READ);
    send_text(small, SMALL_READ);
    note_progress();
    bool answered = false;
    for (unsigned before = 0; before < LARGE;) {
        turn(UV_RUN_ONCE);
        unsigned now = count_answered();
        assert_true(now <= before + 1);
        if (!answered && recv(small, &first, 1, MSG_PEEK) == 1) {
            answered = true;
            assert_true(now < LARGE);
        }
        before = now;
    }
    assert_true(answered);
    assert_true(receive_response(small) > 0);
    for (unsigned i = 0; i < LARGE; i++)
        assert_true(receive_response(fd[i]) > (size_t)KEYS * VALUE_TEXT);
    for (unsigned i = 0; i < LARGE; i++)
        close(fd[i]);
    disconnect(small);
}

/* Half of the clients disconnect while their reads wait. */
static void reads_that_wait_end_with_their_clients(void **state)
{
    int fd[LARGE];
    (void)state;
    for (unsigned i = 0; i < LARGE; i++)
        fd[i] = connect_client();
    for (unsigned i = 0; i < LARGE; i++)
        send_text(fd[i], LARGE_READ);
    note_progress();
    while (count_answered() == 0)
        turn(UV_RUN_ONCE);
    for (unsigned i = 1; i < LARGE; i += 2)
        close(fd[i]);
    for (unsigned i = 0; i < LARGE; i += 2)
        assert_true(receive_response(fd[i]) > (size_t)KEYS * VALUE_TEXT);
    for (unsigned i = 2; i < LARGE; i += 2)
        close(fd[i]);
    disconnect(fd[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(response_larger_than_the_queue_arrives_when_its_client_reads_late),
        cmocka_unit_test(response_continues_when_its_client_sends_another_request),
        cmocka_unit_test(large_responses_of_one_turn_are_built_one_by_one),
        cmocka_unit_test(reads_that_wait_end_with_their_clients),
    };
    signal(SIGPIPE, SIG_IGN); /* as `serve` does */
    return cmocka_run_group_tests(tests, open_world, close_world);
}
