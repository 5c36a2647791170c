/* The HTTP client against a server that misbehaves: responses are bounded, delivered once, and
 * correct about whether the request was sent. */
#include "store/kit/http_client.h"

#include "unit/unit.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

static const char *server_script;
static unsigned port;
static int server_in;

struct result {
    int status, error;
    bool sent;
    unsigned answers, lines;
    unsigned stop_after; /* end the stream after this many lines; 0: never */
    char body[4096], word[64], why[BW_WHY_MAX + 1], last[64];
};

static uv_loop_t loop;
static struct bw_http *http;
static unsigned pending;

static void on_answer(void *context, const struct bw_http_answer *answer)
{
    struct result *result = context;
    result->answers++;
    result->status = answer->status;
    result->error = answer->error;
    result->sent = answer->sent;
    assert_int_equal(answer->body[answer->length], '\0');
    snprintf(result->body, sizeof result->body, "%s", answer->body);
    snprintf(result->why, sizeof result->why, "%s", answer->why);
    const char *word = bw_http_header(answer, "x-word");
    snprintf(result->word, sizeof result->word, "%s", word ? word : "-");
    pending--;
}

static bool on_line(void *context, const char *line, size_t length)
{
    struct result *result = context;
    assert_int_equal(line[length], '\0');
    snprintf(result->last, sizeof result->last, "%s", line);
    return ++result->lines != result->stop_after;
}

static struct bw_http_request *ask(struct result *result, const char *method, const char *path,
                                   bw_time within_ns, bool stream)
{
    char url[256];
    const char *fields[] = {"X-Mine: yes", NULL};
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", port, path);
    struct bw_http_ask asked = {.method = method,
                                .url = url,
                                .headers = fields,
                                .within_ns = within_ns,
                                .answer = on_answer,
                                .line = stream ? on_line : NULL,
                                .context = result};
    struct bw_http_request *request = bw_http_send(http, &asked);
    assert_non_null(request);
    pending++;
    return request;
}

static void wait_all(void)
{
    while (pending)
        uv_run(&loop, UV_RUN_ONCE);
}

static struct result get(const char *path, bw_time within_ns, bool stream)
{
    struct result result = {.status = -1};
    ask(&result, "GET", path, within_ns, stream);
    assert_int_equal(result.answers, 0); /* never from within the call */
    wait_all();
    assert_int_equal(result.answers, 1);
    return result;
}

static int open_http(void **state)
{
    (void)state;
    char why[BW_WHY_MAX + 1];
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(bw_http_open(&http, &loop, NULL, why), 0);
    pending = 0;
    return 0;
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

static int close_http(void **state)
{
    (void)state;
    bool closed = false;
    if (http)
        bw_http_close(http, on_closed, &closed);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_true(closed || !http);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void response_has_status_body_and_headers(void **state)
{
    (void)state;
    struct result result = get("/echo", 30 * BW_SEC, false);
    assert_int_equal(result.status, 200);
    assert_string_equal(result.word, "bell");
    assert_non_null(strstr(result.body, "GET /echo HTTP/1.1"));
    assert_non_null(strstr(result.body, "X-Mine: yes"));
    assert_int_equal(get("/missing", 30 * BW_SEC, false).status, 404);
}

static void body_is_sent_unchanged_without_content_type(void **state)
{
    (void)state;
    struct result result = {.status = -1};
    ask(&result, "PUT", "/echo", 30 * BW_SEC, false);
    wait_all();
    assert_non_null(strstr(result.body, "PUT /echo HTTP/1.1"));
    assert_non_null(strstr(result.body, "Content-Length: 0"));
    assert_null(strstr(result.body, "Content-Type"));
    assert_null(strstr(result.body, "Expect"));
}

/* http:// carries secrets to this machine only; a proxy is another machine. */
static void plain_http_ignores_the_proxy(void **state)
{
    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1", 1); /* no listener there */
    struct result result = get("/echo", 10 * BW_SEC, false);
    unsetenv("http_proxy");
    assert_int_equal(result.status, 200);
}

static void connections_are_kept_alive(void **state)
{
    (void)state;
    struct result first = get("/echo", 30 * BW_SEC, false),
                  second = get("/echo", 30 * BW_SEC, false);
    unsigned a = 0, b = 0;
    assert_int_equal(sscanf(first.body, "connection %u request 1", &a), 1);
    assert_int_equal(sscanf(second.body, "connection %u request 2", &b), 1);
    assert_int_equal(a, b);
}

static void closed_keepalive_connection_is_replaced(void **state)
{
    (void)state;
    assert_int_equal(get("/once", 30 * BW_SEC, false).status, 200);
    assert_int_equal(get("/once", 30 * BW_SEC, false).status, 200);
    assert_int_equal(get("/echo", 30 * BW_SEC, false).status, 200);
}

static void many_requests_at_once_are_all_answered(void **state)
{
    (void)state;
    static struct result result[500];
    memset(result, 0, sizeof result);
    for (unsigned i = 0; i < 500; i++)
        ask(&result[i], "GET", "/echo", 60 * BW_SEC, false);
    wait_all();
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(result[i].status, 200);
}

static unsigned left_behind;

static void on_urgent(void *context, const struct bw_http_answer *answer)
{
    on_answer(context, answer);
    left_behind = (unsigned)pending;
}

/* 200 requests compete for 64 connections. An urgent request that is sent after them is answered
 * before some of them. */
static void urgent_request_is_sent_before_queued_ones(void **state)
{
    (void)state;
    static struct result result[200], urgent;
    char url[256];
    memset(result, 0, sizeof result);
    for (unsigned i = 0; i < 200; i++)
        ask(&result[i], "GET", "/echo", 60 * BW_SEC, false);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/echo", port);
    struct bw_http_ask asked = {.method = "GET",
                                .url = url,
                                .within_ns = 60 * BW_SEC,
                                .urgent = true,
                                .answer = on_urgent,
                                .context = &urgent};
    assert_non_null(bw_http_send(http, &asked));
    pending++;
    wait_all();
    assert_int_equal(urgent.answers, 1);
    assert_true(left_behind > 0);
}

static void unsent_request_is_reported_as_not_sent(void **state)
{
    (void)state;
    unsigned real = port;
    port = 1; /* no listener there */
    struct result result = get("/echo", 30 * BW_SEC, false);
    port = real;
    assert_int_equal(result.status, 0);
    assert_int_equal(result.error, BW_EIO);
    assert_false(result.sent);
    assert_true(result.why[0] != '\0');
}

static void fails_sent(const char *path, int error, const char *why)
{
    struct result result = get(path, 30 * BW_SEC, false);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.error, error);
    assert_true(result.sent);
    if (!strstr(result.why, why))
        fail_msg("%s: '%s' does not say '%s'", path, result.why, why);
}

static void endless_responses_are_aborted(void **state)
{
    (void)state;
    fails_sent("/endless", BW_ELIMIT, "response too long");
    fails_sent("/headers", BW_ELIMIT, "response headers too long");
    fails_sent("/interim", BW_ELIMIT, "response headers too long");
}

static void malformed_responses_are_errors(void **state)
{
    (void)state;
    fails_sent("/early", BW_EIO, "");
    fails_sent("/garbage", BW_EIO, "");
    fails_sent("/nothing", BW_EIO, "");
    assert_int_equal(get("/echo", 30 * BW_SEC, false).status, 200); /* and the client still works */
}

static void request_times_out_when_server_is_silent(void **state)
{
    (void)state;
    struct result result = get("/silent", 300 * BW_MS, false);
    assert_int_equal(result.error, BW_ETIMEDOUT);
    assert_true(result.sent);
    struct result stream = get("/silent", 300 * BW_MS, true);
    assert_int_equal(stream.error, BW_ETIMEDOUT);
}

/* 64 unanswered requests use all connections; the next one times out by its own timer, and was not
 * sent. */
static void timeout_includes_time_in_the_queue(void **state)
{
    (void)state;
    static struct result silent[64];
    struct result last = {.status = -1};
    for (unsigned i = 0; i < 64; i++)
        ask(&silent[i], "GET", "/silent", 3 * BW_SEC, false);
    ask(&last, "GET", "/echo", 100 * BW_MS, false);
    while (!last.answers)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(last.error, BW_ETIMEDOUT);
    assert_false(last.sent);
    wait_all();
}

static void stream_is_delivered_line_by_line(void **state)
{
    (void)state;
    struct result result = get("/lines", 30 * BW_SEC, true);
    assert_int_equal(result.status, 200);
    assert_int_equal(result.lines, 4); /* one, two, an empty line, three without a newline */
    assert_string_equal(result.last, "three");
    result = get("/many-lines", 30 * BW_SEC, true);
    assert_int_equal(result.status, 200);
    assert_int_equal(result.lines, 4096);
    result = get("/missing", 30 * BW_SEC, true);
    assert_int_equal(result.status, 404);
    assert_string_equal(result.body, "no such thing");
}

static void broken_stream_delivers_complete_lines_then_an_error(void **state)
{
    (void)state;
    struct result result = get("/broken-lines", 30 * BW_SEC, true);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.lines, 1);
    assert_string_equal(result.last, "whole");
    result = get("/long-line", 30 * BW_SEC, true);
    assert_int_equal(result.error, BW_ELIMIT);
    assert_int_equal(result.lines, 0);
}

static void stream_has_no_timeout_after_headers_and_ends_when_reader_stops(void **state)
{
    (void)state;
    struct result result = {.stop_after = 2};
    ask(&result, "GET", "/quiet-lines", 250 * BW_MS, true);
    wait_all();
    assert_int_equal(result.status, 200);
    assert_int_equal(result.lines, 2);
    assert_string_equal(result.last, "second");
}

static void cancelled_request_gets_no_answer(void **state)
{
    (void)state;
    struct result result = {.status = -1}, other = {.status = -1};
    struct bw_http_request *request = ask(&result, "GET", "/silent", 200 * BW_MS, false);
    uv_run(&loop, UV_RUN_NOWAIT);
    bw_http_cancel(http, request);
    pending--;
    ask(&other, "GET", "/silent", 400 * BW_MS, false);
    wait_all();
    assert_int_equal(result.answers, 0);
}

static void close_within(void *context, const struct bw_http_answer *answer)
{
    (void)answer;
    bw_http_close(http, NULL, NULL);
    http = NULL;
    on_answer(context, answer);
}

static void client_may_be_closed_from_a_callback(void **state)
{
    (void)state;
    char url[256];
    struct result result = {.status = -1}, other = {.status = -1};
    snprintf(url, sizeof url, "http://127.0.0.1:%u/echo", port);
    struct bw_http_ask asked = {.method = "GET",
                                .url = url,
                                .within_ns = 30 * BW_SEC,
                                .answer = close_within,
                                .context = &result};
    assert_non_null(bw_http_send(http, &asked));
    ask(&other, "GET", "/silent", 30 * BW_SEC, false);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(result.status, 200);
    assert_int_equal(other.answers, 0);
}

/* ---- failed allocations ---- */

static unsigned fail_in; /* this allocation from now on fails; 0: none */
static unsigned failures;

static bool fails(void)
{
    bool now = fail_in > 0 && --fail_in == 0;
    failures += now;
    return now;
}

/* calloc of this program, and of the client in it: the linker's option --wrap=calloc. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

/* The allocations of libcurl. */
static void *curl_malloc(size_t size)
{
    return fails() ? NULL : malloc(size);
}

static void *curl_realloc(void *old, size_t size)
{
    return fails() ? NULL : realloc(old, size);
}

static char *curl_strdup(const char *text)
{
    return fails() ? NULL : strdup(text);
}

static void *curl_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

/* Sends a request whose n-th allocation fails. Returns false if it makes fewer than n. */
static bool request_loses_allocation(unsigned n, bool stream)
{
    static struct result result;
    const unsigned before = failures;
    char url[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/%s", port, stream ? "lines" : "echo");
    struct bw_http_ask asked = {.method = "GET",
                                .url = url,
                                .within_ns = 30 * BW_SEC,
                                .answer = on_answer,
                                .line = stream ? on_line : NULL,
                                .context = &result};
    memset(&result, 0, sizeof result);
    fail_in = n;
    if (bw_http_send(http, &asked))
        pending++;
    wait_all();
    fail_in = 0;
    if (result.error == BW_ETIMEDOUT)
        fail_msg("the request without its allocation %u is answered only by its timeout", n);
    return failures > before;
}

static void client_works_after_any_allocation_of_a_request_failed(void **state)
{
    for (unsigned n = 1, lost = 2; lost; n++) {
        lost = 0;
        for (unsigned stream = 0; stream < 2; stream++) {
            lost += request_loses_allocation(n, stream != 0);
            struct result next = get("/echo", 30 * BW_SEC, false);
            if (next.status != 200)
                fail_msg("allocation %u failed, and the next request: %s", n, next.why);
        }
        close_http(state); /* a new connection for each */
        open_http(state);
    }
}

/* An option that is lost would be a security problem: a missing CA file means the system's CAs. */
static void client_does_not_open_if_an_allocation_fails(void **state)
{
    const struct bw_http_options options = {.ca_file = "/ca",
                                            .ca_directory = "/cas",
                                            .cert_file = "/cert",
                                            .key_file = "/key",
                                            .ca_pem = "ca",
                                            .cert_pem = "cert",
                                            .key_pem = "key",
                                            .unix_socket = "/socket"};
    for (unsigned n = 1;; n++) {
        char why[BW_WHY_MAX + 1] = "";
        const unsigned before = failures;
        close_http(state);
        http = NULL;
        assert_int_equal(uv_loop_init(&loop), 0);
        fail_in = n;
        int error = bw_http_open(&http, &loop, &options, why);
        fail_in = 0;
        if (failures == before) {
            assert_int_equal(error, 0);
            return;
        }
        if (error != BW_ENOMEM)
            fail_msg("the client opens although allocation %u failed", n);
        assert_non_null(strstr(why, "out of memory"));
    }
}

static int start_server(void **state)
{
    (void)state;
    int to[2], from[2];
    char line[32] = "";
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        execlp("python3", "python3", server_script, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    server_in = to[1];
    assert_true(read(from[0], line, sizeof line - 1) > 0);
    port = (unsigned)strtoul(line, NULL, 10);
    close(from[0]);
    return 0;
}

static int end_server(void **state)
{
    (void)state;
    close(server_in);
    wait(NULL);
    return 0;
}

#define with_http(test) cmocka_unit_test_setup_teardown(test, open_http, close_http)

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    server_script = arguments[1];
    const struct CMUnitTest tests[] = {
        with_http(response_has_status_body_and_headers),
        with_http(body_is_sent_unchanged_without_content_type),
        with_http(plain_http_ignores_the_proxy),
        with_http(connections_are_kept_alive),
        with_http(closed_keepalive_connection_is_replaced),
        with_http(many_requests_at_once_are_all_answered),
        with_http(urgent_request_is_sent_before_queued_ones),
        with_http(unsent_request_is_reported_as_not_sent),
        with_http(endless_responses_are_aborted),
        with_http(malformed_responses_are_errors),
        with_http(request_times_out_when_server_is_silent),
        with_http(timeout_includes_time_in_the_queue),
        with_http(stream_is_delivered_line_by_line),
        with_http(broken_stream_delivers_complete_lines_then_an_error),
        with_http(stream_has_no_timeout_after_headers_and_ends_when_reader_stops),
        with_http(cancelled_request_gets_no_answer),
        with_http(client_may_be_closed_from_a_callback),
        with_http(client_works_after_any_allocation_of_a_request_failed),
        with_http(client_does_not_open_if_an_allocation_fails),
    };
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, curl_malloc, free, curl_realloc, curl_strdup,
                             curl_calloc) != 0)
        return 2;
    return cmocka_run_group_tests(tests, start_server, end_server);
}
