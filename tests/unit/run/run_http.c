/* Requests and responses of the status endpoint as bytes: complete, in pieces, too long,
 * invalid. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "run/health/probe.h"
#include "run/status/pages.h"

#include <stdio.h>
#include <stdlib.h>

static int parse(const char *text, struct bw_status_request *out)
{
    return bw_http_request_parse(text, strlen(text), out);
}

static int judged(const char *text)
{
    struct bw_status_request request;
    return parse(text, &request);
}

static void probe_request_is_parsed(void **state)
{
    struct bw_status_request r;
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

static bool is_by_name(const char *host)
{
    struct bw_status_request r;
    char text[256];
    snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost:%s\r\nA: b\r\n\r\n", host);
    assert_int_equal(parse(text, &r), 200);
    return r.by_name;
}

static void host_that_is_no_address_is_recognized(void **state)
{
    static const char *const addresses[] = {" localhost",     "LocalHost:80", " \t127.0.0.1\t ",
                                            " 10.0.0.1:8080", " [::1]",       "[fe80::1]:80"};
    static const char *const names[] = {"",
                                        " evil.example",
                                        " 127.0.0.1.evil.example:80",
                                        " localhost.evil.example",
                                        " [evil.example]",
                                        " [::1",
                                        " ::1",
                                        " 127.1",
                                        " :80"};
    struct bw_status_request r;
    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        if (is_by_name(addresses[i]))
            fail_msg("'%s' is an address", addresses[i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!is_by_name(names[i]))
            fail_msg("'%s' is not an address", names[i]);
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n", &r), 200);
    assert_false(r.by_name);
}

static void truncated_request_asks_for_more_at_every_byte(void **state)
{
    static const char text[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
    struct bw_status_request r;
    (void)state;
    for (size_t length = 0; length < sizeof text - 1; length++)
        assert_int_equal(bw_http_request_parse(text, length, &r), BW_HTTP_MORE);
    assert_int_equal(bw_http_request_parse(text, sizeof text - 1, &r), 200);
}

static void oversized_request_is_refused_when_the_buffer_is_full(void **state)
{
    static char text[BW_HTTP_REQUEST_MAX];
    struct bw_status_request r;
    (void)state;
    int used = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: x\r\nCookie: ");
    memset(text + used, 'a', sizeof text - (size_t)used);
    assert_int_equal(bw_http_request_parse(text, sizeof text - 1, &r), BW_HTTP_MORE);
    assert_int_equal(bw_http_request_parse(text, sizeof text, &r), 431);
    memset(text, 'A', sizeof text); /* without a complete first line */
    assert_int_equal(bw_http_request_parse(text, sizeof text, &r), 431);
}

static void path_is_refused_with_414_only_when_too_long(void **state)
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

static void invalid_http_requests_are_refused(void **state)
{
    static const char *const wrong[] = {
        "\x16\x03\x01",                                    /* TLS */
        " GET / HTTP/1.0\r\n\r\n",                         /* blank first */
        "GET / HTTP/1.1\r\n\r\n",                          /* no Host */
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",    /* two Host headers */
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

static void parser_decides_for_any_bytes(void **state)
{
    static const char seed[] = "GET /leader HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
    struct bw_rng rng;
    struct bw_status_request r;
    (void)state;
    bw_rng_init(&rng, 7);
    for (unsigned round = 0; round < 20000; round++) {
        size_t length = sizeof seed - 1;
        char *text = malloc(length); /* the sanitizer detects a read past its end */
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

static struct bw_tally tally;

static struct bw_status_view leader(void)
{
    memset(&tally, 0, sizeof tally);
    return (struct bw_status_view){.election = "e",
                                   .id = "a",
                                   .leading = true,
                                   .valid_ns = 1500 * BW_MS,
                                   .leader = "a",
                                   .value = "10.0.0.1:80",
                                   .token = 7,
                                   .healthy = true,
                                   .stored = true,
                                   .elections = 2,
                                   .tally = &tally};
}

static const char *asked(const struct bw_status_view *view, enum bw_http_method method,
                         const char *path)
{
    struct bw_status_request request = {.method = method};
    snprintf(request.path, sizeof request.path, "%s", path);
    page[bw_http_answer(view, 200, &request, page)] = '\0';
    return page;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void healthz_is_200_only_for_a_leader_and_livez_always(void **state)
{
    struct bw_status_view view = leader();
    (void)state;
    assert_true(begins(asked(&view, BW_HTTP_GET, "/healthz"), "HTTP/1.1 200 OK\r\n"));
    view.leading = false;
    assert_true(begins(asked(&view, BW_HTTP_GET, "/healthz"), "HTTP/1.1 503 "));
    assert_true(begins(asked(&view, BW_HTTP_GET, "/livez"), "HTTP/1.1 200 "));
    assert_true(begins(asked(&view, BW_HTTP_GET, "/nosuch"), "HTTP/1.1 404 "));
    assert_true(begins(asked(&view, BW_HTTP_OTHER, "/nothing"), "HTTP/1.1 404 "));
}

static void other_methods_get_405_with_the_allowed_ones(void **state)
{
    struct bw_status_view view = leader();
    (void)state;
    assert_true(begins(asked(&view, BW_HTTP_OTHER, "/healthz"), "HTTP/1.1 405 "));
    assert_non_null(strstr(page, "\r\nAllow: GET, HEAD\r\n"));
}

static void head_returns_get_without_the_body(void **state)
{
    struct bw_status_view view = leader();
    (void)state;
    char head[BW_HTTP_ANSWER_MAX + 1];
    snprintf(head, sizeof head, "%s", asked(&view, BW_HTTP_HEAD, "/leader"));
    asked(&view, BW_HTTP_GET, "/leader");
    assert_true(begins(page, head));
    assert_true(strlen(page) > strlen(head));
}

static void leader_is_returned_as_json(void **state)
{
    struct bw_status_view view = leader();
    (void)state;
    view.value = "say \"hi\"\n\xff\xc3\xa4";
    asked(&view, BW_HTTP_GET, "/leader");
    assert_non_null(strstr(page, "{\"election\":\"e\",\"id\":\"a\",\"token\":7,"
                                 "\"value\":\"say \\\"hi\\\"\\u000a?\xc3\xa4\",\"valid_ms\":1500,"
                                 "\"leading\":true,\"candidate\":\"a\"}\n"));
}

static void metrics_count_losses_by_reason(void **state)
{
    struct bw_status_view view = leader();
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

/* ---- what a candidate has seen ---- */

static void gap_lasts_from_the_last_leader_to_the_next(void **state)
{
    struct bw_tally seen = {0};
    (void)state;
    bw_tally_leader(&seen, "", 1 * BW_SEC); /* there was no leader before: not a gap */
    bw_tally_leader(&seen, "a", 2 * BW_SEC);
    assert_int_equal(seen.gaps.count, 0);
    bw_tally_leader(&seen, "", 10 * BW_SEC);
    bw_tally_leader(&seen, "", 11 * BW_SEC); /* reported again: the gap began before */
    bw_tally_leader(&seen, "a", 14 * BW_SEC);
    assert_int_equal(seen.gaps.count, 1);
    assert_int_equal(seen.gaps.sum_ns, 4 * BW_SEC);
    assert_int_equal(seen.leader_changes, 0);
    bw_tally_leader(&seen, "b", 15 * BW_SEC); /* a hand-over */
    assert_int_equal(seen.gaps.count, 1);
    assert_int_equal(seen.leader_changes, 1);
    assert_string_equal(seen.leader, "b");
}

static void failover_lasts_until_the_work_starts(void **state)
{
    struct bw_tally seen = {0};
    (void)state;
    bw_tally_leader(&seen, "a", 2 * BW_SEC);
    bw_tally_leader(&seen, "", 10 * BW_SEC);
    bw_tally_elected(&seen, 11 * BW_SEC);
    bw_tally_leader(&seen, "b", 11 * BW_SEC);
    assert_int_equal(seen.failovers.count, 0);
    bw_tally_started(&seen, 13 * BW_SEC);
    bw_tally_started(&seen, 20 * BW_SEC); /* the work was started again */
    assert_int_equal(seen.failovers.count, 1);
    assert_int_equal(seen.failovers.sum_ns, 3 * BW_SEC);
    assert_int_equal(seen.renewed, 11 * BW_SEC);
    bw_tally_elected(&seen, 30 * BW_SEC); /* handed over: no time without a leader */
    bw_tally_started(&seen, 31 * BW_SEC);
    assert_int_equal(seen.failovers.sum_ns, 4 * BW_SEC);
}

static void only_the_answer_to_the_last_request_is_timed(void **state)
{
    struct bw_tally seen = {0};
    struct bw_store_reply *reply = calloc(1, sizeof *reply);
    (void)state;
    assert_non_null(reply);
    reply->id = 7;
    bw_tally_answered(&seen, reply, 1);
    struct bw_store_request watch = {.op = BW_STORE_WATCH, .id = 7};
    bw_tally_asked(&seen, &watch, 10);
    bw_tally_answered(&seen, reply, 20);
    assert_int_equal(seen.answers.count, 0);
    static const enum bw_store_op timed[] = {BW_STORE_ACQUIRE, BW_STORE_RENEW, BW_STORE_RELEASE};
    for (uint64_t i = 0; i < 3; i++) {
        struct bw_store_request request = {.op = timed[i], .id = 8 + i};
        bw_tally_asked(&seen, &request, 100);
        bw_tally_answered(&seen, reply, 110); /* of an earlier request */
        reply->id = 8 + i;
        bw_tally_answered(&seen, reply, 130);
        bw_tally_answered(&seen, reply, 140);
        assert_int_equal(seen.answers.count, i + 1);
        assert_int_equal(seen.answers.sum_ns, 30 * (i + 1));
    }
    free(reply);
}

static void metrics_show_the_leader_and_the_histograms(void **state)
{
    struct bw_status_view view = leader();
    (void)state;
    tally.renewed = 5 * BW_SEC;
    view.now = 7250 * BW_MS;
    tally.leader_changes = 3;
    bw_histogram_add(&tally.gaps, &bw_bounds_gap, 2 * BW_SEC);
    bw_histogram_add(&tally.gaps, &bw_bounds_gap, 1000 * BW_SEC);
    asked(&view, BW_HTTP_GET, "/metrics");
    assert_non_null(strstr(page, "\nbellwether_leader_info{election=\"e\",leader=\"a\"} 1\n"));
    assert_non_null(strstr(page, "\nbellwether_renewal_age_seconds{election=\"e\"} 2.250\n"));
    assert_non_null(strstr(page, "\nbellwether_leader_changes_total{election=\"e\"} 3\n"));
    assert_non_null(strstr(page, "\nbellwether_gap_seconds_bucket{election=\"e\",le=\"1\"} 0\n"
                                 "bellwether_gap_seconds_bucket{election=\"e\",le=\"2\"} 1\n"));
    assert_non_null(strstr(page, "le=\"300\"} 1\n"
                                 "bellwether_gap_seconds_bucket{election=\"e\",le=\"+Inf\"} 2\n"
                                 "bellwether_gap_seconds_sum{election=\"e\"} 1002.000000000\n"
                                 "bellwether_gap_seconds_count{election=\"e\"} 2\n"));
    view.leader = "";
    view.leading = false;
    asked(&view, BW_HTTP_GET, "/metrics");
    assert_null(strstr(page, "leader_info"));
    assert_null(strstr(page, "renewal_age"));
}

static void longest_names_fit_into_the_response(void **state)
{
    char election[BW_ELECTION_NAME_MAX + 1], value[BW_VALUE_MAX + 1], id[BW_CANDIDATE_ID_MAX + 1];
    struct bw_status_view view = leader();
    (void)state;
    memset(election, '"', sizeof election);
    memset(value, 1, sizeof value);
    memset(id, '\\', sizeof id);
    election[BW_ELECTION_NAME_MAX] = value[BW_VALUE_MAX] = id[BW_CANDIDATE_ID_MAX] = '\0';
    view.election = election;
    view.value = value;
    view.id = view.leader = id;
    view.token = UINT64_MAX;
    memset(&tally.gaps, 0xff, sizeof tally.gaps);
    tally.failovers = tally.answers = tally.gaps;
    view.counts = BW_STORE_COUNTS_MAX;
    for (uint32_t i = 0; i < view.counts; i++)
        view.count[i] = (struct bw_store_count){.name = "peer_frames_dropped_total",
                                                .help = "Frames that were dropped, by reason",
                                                .reason = "a reason of usual length",
                                                .value = UINT64_MAX};
    asked(&view, BW_HTTP_GET, "/leader");
    assert_true(strlen(page) > 6 * BW_VALUE_MAX);
    asked(&view, BW_HTTP_GET, "/metrics");
}

static void stream_begins_with_the_state_and_has_no_length(void **state)
{
    struct bw_status_view view = leader();
    struct bw_status_request get = {.method = BW_HTTP_GET, .path = "/events"};
    (void)state;
    view.time = "2026-11-16T03:58:54.542754Z";
    view.value = "a\nb";
    assert_true(bw_http_is_stream(&view, 200, &get));
    const char *text = asked(&view, BW_HTTP_GET, "/events");
    assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
    assert_null(strstr(text, "Content-Length"));
    assert_string_equal(strstr(text, "\r\n\r\n") + 4,
                        "retry: 1000\n\nevent: status\ndata: "
                        "{\"time\":\"2026-11-16T03:58:54.542754Z\",\"event\":\"status\","
                        "\"election\":\"e\",\"id\":\"a\",\"leader\":\"a\",\"token\":7,"
                        "\"value\":\"a\\u000ab\",\"leading\":true,\"healthy\":true,"
                        "\"stored\":true}\n\n");
}

static void stream_is_refused_to_other_methods_and_when_there_are_too_many(void **state)
{
    struct bw_status_view view = leader();
    struct bw_status_request request = {.method = BW_HTTP_HEAD, .path = "/events"};
    (void)state;
    assert_false(bw_http_is_stream(&view, 200, &request));
    assert_string_equal(strstr(asked(&view, BW_HTTP_HEAD, "/events"), "\r\n\r\n"), "\r\n\r\n");
    assert_non_null(strstr(asked(&view, BW_HTTP_OTHER, "/events"), " 405 "));
    request.method = BW_HTTP_GET;
    assert_false(bw_http_is_stream(&view, 400, &request));
    view.streams_full = true;
    assert_false(bw_http_is_stream(&view, 200, &request));
    const char *text = asked(&view, BW_HTTP_GET, "/events");
    assert_non_null(strstr(text, " 503 "));
    assert_non_null(strstr(text, "Content-Length: 20\r\n"));
}

static void any_change_of_the_state_is_seen(void **state)
{
    struct bw_status_view view = leader();
    struct bw_status_state one, other;
    (void)state;
    bw_http_state(&view, &one);
    view.valid_ns = 1; /* not part of the state */
    bw_http_state(&view, &other);
    assert_true(bw_http_state_equals(&one, &other));
    view.value = "10.0.0.1:8";
    bw_http_state(&view, &other);
    assert_false(bw_http_state_equals(&one, &other));
    view = leader();
    view.leading = false;
    bw_http_state(&view, &other);
    assert_false(bw_http_state_equals(&one, &other));
}

static void refused_request_is_answered_with_its_status(void **state)
{
    struct bw_status_view view = leader();
    struct bw_status_request request = {.method = BW_HTTP_OTHER};
    (void)state;
    page[bw_http_answer(&view, 431, &request, page)] = '\0';
    assert_true(begins(page, "HTTP/1.1 431 "));
    assert_non_null(strstr(page, "\r\nConnection: close\r\n"));
}

static void new_sidecar_leader_waits_until_the_slowest_client_stopped(void **state)
{
    (void)state;
    for (uint32_t ppm = 0; ppm <= 100000; ppm += 10000)
        for (bw_time span = BW_MS; span <= 1000000 * BW_SEC; span *= 10) {
            struct bw_lease_terms terms = {.kill_after_ns = span, .drift_ppm = ppm};
            double drift = (double)ppm / 1e6;
            double waited =
                (double)bw_http_first_yes_after(&terms) / (1 + drift); /* our clock is fast */
            /* the client's clock is slow */
            double used = (double)span / (1 - drift);
            assert_true(waited > used * (1 - 1e-12) && waited < used * 1.01 + 10);
        }
}

/* ---- health checks over HTTP ---- */

static void health_urls_are_parsed(void **state)
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

static void invalid_health_url_is_refused(void **state)
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

static void status_is_read_only_from_a_valid_status_line(void **state)
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
        cmocka_unit_test(probe_request_is_parsed),
        cmocka_unit_test(host_that_is_no_address_is_recognized),
        cmocka_unit_test(truncated_request_asks_for_more_at_every_byte),
        cmocka_unit_test(oversized_request_is_refused_when_the_buffer_is_full),
        cmocka_unit_test(path_is_refused_with_414_only_when_too_long),
        cmocka_unit_test(invalid_http_requests_are_refused),
        cmocka_unit_test(parser_decides_for_any_bytes),
        cmocka_unit_test(healthz_is_200_only_for_a_leader_and_livez_always),
        cmocka_unit_test(other_methods_get_405_with_the_allowed_ones),
        cmocka_unit_test(head_returns_get_without_the_body),
        cmocka_unit_test(leader_is_returned_as_json),
        cmocka_unit_test(metrics_count_losses_by_reason),
        cmocka_unit_test(gap_lasts_from_the_last_leader_to_the_next),
        cmocka_unit_test(failover_lasts_until_the_work_starts),
        cmocka_unit_test(only_the_answer_to_the_last_request_is_timed),
        cmocka_unit_test(metrics_show_the_leader_and_the_histograms),
        cmocka_unit_test(longest_names_fit_into_the_response),
        cmocka_unit_test(stream_begins_with_the_state_and_has_no_length),
        cmocka_unit_test(stream_is_refused_to_other_methods_and_when_there_are_too_many),
        cmocka_unit_test(any_change_of_the_state_is_seen),
        cmocka_unit_test(refused_request_is_answered_with_its_status),
        cmocka_unit_test(new_sidecar_leader_waits_until_the_slowest_client_stopped),
        cmocka_unit_test(health_urls_are_parsed),
        cmocka_unit_test(invalid_health_url_is_refused),
        cmocka_unit_test(status_is_read_only_from_a_valid_status_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
