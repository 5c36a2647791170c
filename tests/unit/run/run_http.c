/* Requests and answers of the status endpoint as bytes: whole, in pieces, too long, wrong. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "run/health/probe.h"
#include "run/status/answer.h"

#include <stdio.h>
#include <stdlib.h>

static int parse(const char *text, struct bw_http_request *out)
{
    return bw_http_request_parse(text, strlen(text), out);
}

static int judged(const char *text)
{
    struct bw_http_request request;
    return parse(text, &request);
}

static void a_probe_is_understood(void **state)
{
    struct bw_http_request r;
    (void)state;
    assert_int_equal(parse("GET /healthz HTTP/1.1\r\nHost: x\r\nUser-Agent: kube\r\n\r\n", &r),
                     200);
    assert_int_equal(r.method, BW_HTTP_GET);
    assert_string_equal(r.path, "/healthz");
    assert_int_equal(parse("HEAD /leader?pretty=1 HTTP/1.0\r\n\r\n", &r), 200);
    assert_int_equal(r.method, BW_HTTP_HEAD);
    assert_string_equal(r.path, "/leader");
    assert_int_equal(parse("POST / HTTP/1.1\r\nhOsT:\r\n\r\n", &r), 200);
    assert_int_equal(r.method, BW_HTTP_OTHER);
    assert_int_equal(parse("GET http://a:1/livez HTTP/1.1\r\nHost: a\r\n\r\n", &r), 200);
    assert_string_equal(r.path, "/livez");
}

static void a_truncated_request_waits_for_more_at_every_byte(void **state)
{
    static const char text[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
    struct bw_http_request r;
    (void)state;
    for (size_t length = 0; length < sizeof text - 1; length++)
        assert_int_equal(bw_http_request_parse(text, length, &r), BW_HTTP_MORE);
    assert_int_equal(bw_http_request_parse(text, sizeof text - 1, &r), 200);
}

static void an_oversized_request_is_refused_when_the_buffer_is_full(void **state)
{
    static char text[BW_HTTP_REQUEST_MAX];
    struct bw_http_request r;
    (void)state;
    int used = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: x\r\nCookie: ");
    memset(text + used, 'a', sizeof text - (size_t)used);
    assert_int_equal(bw_http_request_parse(text, sizeof text - 1, &r), BW_HTTP_MORE);
    assert_int_equal(bw_http_request_parse(text, sizeof text, &r), 431);
    memset(text, 'A', sizeof text); /* not even a first line */
    assert_int_equal(bw_http_request_parse(text, sizeof text, &r), 431);
}

static void a_path_that_is_too_long_is_414_and_one_that_fits_is_not(void **state)
{
    char path[BW_HTTP_PATH_MAX + 2], text[512];
    (void)state;
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[BW_HTTP_PATH_MAX] = '\0';
    snprintf(text, sizeof text, "GET %s HTTP/1.0\r\n\r\n", path);
    assert_int_equal(judged(text), 200);
    path[BW_HTTP_PATH_MAX] = 'p';
    path[BW_HTTP_PATH_MAX + 1] = '\0';
    snprintf(text, sizeof text, "GET %s HTTP/1.0\r\n\r\n", path);
    assert_int_equal(judged(text), 414);
}

static void what_is_wrong_is_refused(void **state)
{
    static const char *const wrong[] = {
        "\x16\x03\x01",                                    /* TLS */
        " GET / HTTP/1.0\r\n\r\n",                         /* blank first */
        "GET / HTTP/1.1\r\n\r\n",                          /* no Host */
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",    /* two of them */
        "GET / HTTP/1.0\r\nHost: a\r\n folded: b\r\n\r\n", /* folded */
        "GET / HTTP/1.0\r\nHost : a\r\n\r\n",              /* blank before the colon */
        "GET / HTTP/1.0\r\n: a\r\n\r\n",                   /* no name */
        "GET / HTTP/1.0\r\nA: b\rc\r\n\r\n",               /* bare CR */
        "GET / HTTP/1.0\nHost: a\n\r\n\r\n",               /* bare LF */
        "GET  / HTTP/1.0\r\n\r\n",                         /* two blanks */
        "GET healthz HTTP/1.0\r\n\r\n",                    /* no slash */
        "GET http://a HTTP/1.0\r\n\r\n",                   /* no path */
        "GET /a\x01 HTTP/1.0\r\n\r\n",
        "GET /\r\n\r\n", /* HTTP/0.9 */
        "GET / HTTPS/1.1\r\n\r\n",
        "G@T / HTTP/1.0\r\n\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (judged(wrong[i]) != 400)
            fail_msg("case '%s' gives %d", wrong[i], judged(wrong[i]));
    assert_int_equal(judged("GET / HTTP/2.0\r\n\r\n"), 505);
}

static void any_bytes_get_a_decision(void **state)
{
    static const char seed[] = "GET /leader HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
    struct bw_rng rng;
    struct bw_http_request r;
    (void)state;
    bw_rng_init(&rng, 7);
    for (unsigned round = 0; round < 20000; round++) {
        size_t length = sizeof seed - 1;
        char *text = malloc(length); /* its end is watched by the sanitizer */
        assert_non_null(text);
        memcpy(text, seed, length);
        for (unsigned i = 0; i < 3; i++)
            text[bw_rng_below(&rng, length)] = (char)bw_rng_below(&rng, 256);
        int status = bw_http_request_parse(text, length, &r);
        assert_true(status == BW_HTTP_MORE || status == 200 || status == 400 || status == 505);
        free(text);
    }
}

/* ---- answers ---- */

static char page[BW_HTTP_ANSWER_MAX + 1];

static struct bw_http_view leader(void)
{
    return (struct bw_http_view){.election = "e",
                                 .id = "a",
                                 .leading = true,
                                 .valid_ns = 1500 * BW_MS,
                                 .leader = "a",
                                 .value = "10.0.0.1:80",
                                 .token = 7,
                                 .healthy = true,
                                 .stored = true,
                                 .elections = 2};
}

static const char *asked(const struct bw_http_view *view, enum bw_http_method method,
                         const char *path)
{
    struct bw_http_request request = {.method = method};
    snprintf(request.path, sizeof request.path, "%s", path);
    page[bw_http_answer(view, 200, &request, page)] = '\0';
    return page;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void only_a_leader_is_ready_and_everybody_is_alive(void **state)
{
    struct bw_http_view view = leader();
    (void)state;
    assert_true(begins(asked(&view, BW_HTTP_GET, "/healthz"), "HTTP/1.1 200 OK\r\n"));
    view.leading = false;
    assert_true(begins(asked(&view, BW_HTTP_GET, "/healthz"), "HTTP/1.1 503 "));
    assert_true(begins(asked(&view, BW_HTTP_GET, "/livez"), "HTTP/1.1 200 "));
    assert_true(begins(asked(&view, BW_HTTP_GET, "/"), "HTTP/1.1 404 "));
    assert_true(begins(asked(&view, BW_HTTP_OTHER, "/nothing"), "HTTP/1.1 404 "));
}

static void other_methods_are_told_which_ones_there_are(void **state)
{
    struct bw_http_view view = leader();
    (void)state;
    assert_true(begins(asked(&view, BW_HTTP_OTHER, "/healthz"), "HTTP/1.1 405 "));
    assert_non_null(strstr(page, "\r\nAllow: GET, HEAD\r\n"));
}

static void head_is_get_without_the_body(void **state)
{
    struct bw_http_view view = leader();
    (void)state;
    char head[BW_HTTP_ANSWER_MAX + 1];
    snprintf(head, sizeof head, "%s", asked(&view, BW_HTTP_HEAD, "/leader"));
    asked(&view, BW_HTTP_GET, "/leader");
    assert_true(begins(page, head));
    assert_true(strlen(page) > strlen(head));
}

static void the_leader_is_told_as_json(void **state)
{
    struct bw_http_view view = leader();
    (void)state;
    view.value = "say \"hi\"\n\xff\xc3\xa4";
    asked(&view, BW_HTTP_GET, "/leader");
    assert_non_null(strstr(page, "{\"election\":\"e\",\"id\":\"a\",\"token\":7,"
                                 "\"value\":\"say \\\"hi\\\"\\u000a?\xc3\xa4\",\"valid_ms\":1500,"
                                 "\"leading\":true,\"candidate\":\"a\"}\n"));
}

static void metrics_count_by_reason(void **state)
{
    struct bw_http_view view = leader();
    (void)state;
    view.losses[BW_LEASE_UNHEALTHY] = 3;
    asked(&view, BW_HTTP_GET, "/metrics");
    assert_non_null(strstr(page, "\nbellwether_leader{election=\"e\"} 1\n"));
    assert_non_null(strstr(page, "\nbellwether_token{election=\"e\"} 7\n"));
    assert_non_null(strstr(page, "\nbellwether_valid_seconds{election=\"e\"} 1.500\n"));
    assert_non_null(strstr(page, "\nbellwether_elections_total{election=\"e\"} 2\n"));
    assert_non_null(
        strstr(page, "\nbellwether_losses_total{election=\"e\",reason=\"unhealthy\"} 3\n"));
}

static void the_longest_names_fit(void **state)
{
    char election[BW_ELECTION_NAME_MAX + 1], value[BW_VALUE_MAX + 1], id[BW_CANDIDATE_ID_MAX + 1];
    struct bw_http_view view = leader();
    (void)state;
    memset(election, '"', sizeof election);
    memset(value, 1, sizeof value);
    memset(id, '\\', sizeof id);
    election[BW_ELECTION_NAME_MAX] = value[BW_VALUE_MAX] = id[BW_CANDIDATE_ID_MAX] = '\0';
    view.election = election;
    view.value = value;
    view.id = view.leader = id;
    view.token = UINT64_MAX;
    asked(&view, BW_HTTP_GET, "/leader");
    assert_true(strlen(page) > 6 * BW_VALUE_MAX);
    asked(&view, BW_HTTP_GET, "/metrics");
}

static void a_refused_request_is_answered_with_its_status(void **state)
{
    struct bw_http_view view = leader();
    struct bw_http_request request = {.method = BW_HTTP_OTHER};
    (void)state;
    page[bw_http_answer(&view, 431, &request, page)] = '\0';
    assert_true(begins(page, "HTTP/1.1 431 "));
    assert_non_null(strstr(page, "\r\nConnection: close\r\n"));
}

static void a_new_leader_waits_until_the_slowest_asker_is_done(void **state)
{
    (void)state;
    for (uint32_t ppm = 0; ppm <= 100000; ppm += 10000)
        for (bw_time span = BW_MS; span <= 1000000 * BW_SEC; span *= 10) {
            struct bw_lease_terms terms = {.kill_after_ns = span, .drift_ppm = ppm};
            double drift = (double)ppm / 1e6;
            double waited = (double)bw_http_yes_after(&terms) / (1 + drift); /* ours is fast */
            double used = (double)span / (1 - drift);                        /* theirs is slow */
            assert_true(waited > used * (1 - 1e-12) && waited < used * 1.01 + 10);
        }
}

/* ---- asking for health ---- */

static void health_urls_are_read(void **state)
{
    struct bw_probe_url url;
    (void)state;
    assert_int_equal(bw_probe_url_read("http://app:8080/fit?x=1", &url), 0);
    assert_string_equal(url.host, "app");
    assert_string_equal(url.port, "8080");
    assert_string_equal(url.authority, "app:8080");
    assert_string_equal(url.target, "/fit?x=1");
    assert_int_equal(bw_probe_url_read("http://[::1]:90", &url), 0);
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.port, "90");
    assert_string_equal(url.target, "");
    assert_int_equal(bw_probe_url_read("http://127.0.0.1/", &url), 0);
    assert_string_equal(url.port, "80");
}

static void what_is_no_health_url_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",           "app",        "https://app/",      "http://",           "http:///x",
        "http://:80", "http://a:",  "http://a:0/",       "http://a:65536/",   "http://[::1/",
        "http://[]/", "http://a b", "http://user@host/", "http://a/\r\nX: y", "http://[::1]x/"};
    struct bw_probe_url url;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (bw_probe_url_read(wrong[i], &url) == 0)
            fail_msg("'%s' was taken for a URL", wrong[i]);
}

static void only_a_status_line_has_a_status(void **state)
{
    (void)state;
    assert_int_equal(bw_probe_status("HTTP/1.1 204 No Content", 23), 204);
    assert_int_equal(bw_probe_status("HTTP/1.0 500", 12), 500);
    assert_int_equal(bw_probe_status("HTTP/1.1 200", 11), 0);
    assert_int_equal(bw_probe_status("HTTP/1.1 2000 ", 14), 0);
    assert_int_equal(bw_probe_status("SSH-2.0-OpenSSH_9", 17), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_probe_is_understood),
        cmocka_unit_test(a_truncated_request_waits_for_more_at_every_byte),
        cmocka_unit_test(an_oversized_request_is_refused_when_the_buffer_is_full),
        cmocka_unit_test(a_path_that_is_too_long_is_414_and_one_that_fits_is_not),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(any_bytes_get_a_decision),
        cmocka_unit_test(only_a_leader_is_ready_and_everybody_is_alive),
        cmocka_unit_test(other_methods_are_told_which_ones_there_are),
        cmocka_unit_test(head_is_get_without_the_body),
        cmocka_unit_test(the_leader_is_told_as_json),
        cmocka_unit_test(metrics_count_by_reason),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(a_refused_request_is_answered_with_its_status),
        cmocka_unit_test(a_new_leader_waits_until_the_slowest_asker_is_done),
        cmocka_unit_test(health_urls_are_read),
        cmocka_unit_test(what_is_no_health_url_is_refused),
        cmocka_unit_test(only_a_status_line_has_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
