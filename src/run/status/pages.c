/* Responses of the status endpoint, see pages.h. */
#include "run/status/pages.h"

#include "core/base/assert.h"
#include "run/status/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char stream_type[] = "text/event-stream";

bw_time bw_http_first_yes_after(const struct bw_lease_terms *terms)
{
    double drift = (double)terms->drift_ppm / 1e6;
    double more = (double)terms->kill_after_ns * 2 * drift / (1 - drift);
    bw_time longest = bw_time_add(terms->kill_after_ns, (bw_time)more + 1);
    return bw_time_add(longest, terms->margin_ns);
}

static void put_leader(struct bw_page *page, const struct bw_status_view *view)
{
    page->type = "application/json";
    bw_page_put(page, "{\"election\":");
    bw_page_put_json(page, view->election);
    bw_page_put(page, ",\"id\":");
    bw_page_put_json(page, view->leader);
    bw_page_put(page, ",\"token\":%" PRIu64 ",\"value\":", (uint64_t)view->token);
    bw_page_put_json(page, view->value);
    bw_page_put(page, ",\"valid_ms\":%lld,\"leading\":%s,\"candidate\":",
                (long long)(view->valid_ns / BW_MS), view->leading ? "true" : "false");
    bw_page_put_json(page, view->id);
    bw_page_put(page, "}\n");
}

void bw_http_state(const struct bw_status_view *view, struct bw_status_state *out)
{
    out->leading = view->leading;
    out->healthy = view->healthy;
    out->stored = view->stored;
    out->token = view->token;
    snprintf(out->leader, sizeof out->leader, "%s", view->leader);
    snprintf(out->value, sizeof out->value, "%s", view->value);
}

bool bw_http_state_equals(const struct bw_status_state *a, const struct bw_status_state *b)
{
    return a->leading == b->leading && a->healthy == b->healthy && a->stored == b->stored &&
           a->token == b->token && strcmp(a->leader, b->leader) == 0 &&
           strcmp(a->value, b->value) == 0;
}

/* The fields that the log event `leader` has, too, have the same names here. */
static void put_state(struct bw_page *page, const struct bw_status_view *view)
{
    bw_page_put(page, "event: status\ndata: {\"time\":");
    bw_page_put_json(page, view->time ? view->time : "");
    bw_page_put(page, ",\"event\":\"status\",\"election\":");
    bw_page_put_json(page, view->election);
    bw_page_put(page, ",\"id\":");
    bw_page_put_json(page, view->id);
    bw_page_put(page, ",\"leader\":");
    bw_page_put_json(page, view->leader);
    bw_page_put(page, ",\"token\":%" PRIu64 ",\"value\":", (uint64_t)view->token);
    bw_page_put_json(page, view->value);
    bw_page_put(page, ",\"leading\":%s,\"healthy\":%s,\"stored\":%s}\n\n",
                view->leading ? "true" : "false", view->healthy ? "true" : "false",
                view->stored ? "true" : "false");
}

static void put_stream(struct bw_page *page, const struct bw_status_view *view)
{
    page->type = stream_type;
    bw_page_put(page, "retry: 1000\n\n");
    put_state(page, view);
}

size_t bw_http_state_event(const struct bw_status_view *view, char out[BW_HTTP_ANSWER_MAX])
{
    struct bw_page page = {.status = 200};
    put_state(&page, view);
    memcpy(out, page.text, page.used);
    return page.used;
}

bool bw_http_is_stream(const struct bw_status_view *view, int status,
                       const struct bw_status_request *request)
{
    return status == 200 && request->method == BW_HTTP_GET && !view->streams_full &&
           strcmp(request->path, "/events") == 0;
}

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {400, "Bad Request"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {414, "URI Too Long"},
                   {421, "Misdirected Request"},
                   {431, "Request Header Fields Too Large"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Error";
}

static void put_page(struct bw_page *page, const struct bw_status_view *view, const char *path)
{
    if (strcmp(path, "/leader") == 0) {
        put_leader(page, view);
    } else if (strcmp(path, "/metrics") == 0) {
        bw_page_put_metrics(page, view);
    } else if (strcmp(path, "/state") == 0 && view->detail) {
        bw_page_put_detail(page, view, view->detail(view->detail_context));
    } else if (strcmp(path, "/") == 0) {
        page->status = 200; /* GET and HEAD are answered by bw_http_dashboard */
    } else if (strcmp(path, "/livez") == 0) {
        bw_page_put(page, "alive\n");
    } else if (strcmp(path, "/healthz") == 0) {
        page->status = view->leading ? 200 : 503;
        bw_page_put(page, view->leading ? "leader\n" : "not leader\n");
    } else if (strcmp(path, "/events") == 0) {
        page->status = view->streams_full ? 503 : 200;
        if (!view->streams_full)
            put_stream(page, view);
    } else {
        page->status = 404;
    }
}

size_t bw_http_answer(const struct bw_status_view *view, int status,
                      const struct bw_status_request *request, char out[BW_HTTP_ANSWER_MAX])
{
    struct bw_page page = {.status = status, .type = "text/plain; charset=utf-8"};
    bool known = status == 200;
    if (known && strcmp(request->path, "/") == 0 && request->method != BW_HTTP_OTHER)
        return bw_http_dashboard(request, out, BW_HTTP_ANSWER_MAX);
    if (known)
        put_page(&page, view, request->path);
    if (known && page.status != 404 && request->method == BW_HTTP_OTHER) {
        page.status = 405;
        page.type = "text/plain; charset=utf-8";
        page.used = 0;
    }
    if (page.used == 0)
        bw_page_put(&page, "%s\n", reason_of(page.status));
    char length[48] = ""; /* a stream ends when the connection does */
    if (page.type != stream_type)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", page.used);
    int head = snprintf(out, BW_PAGE_HEAD_MAX,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s"
                        "Cache-Control: no-store\r\n%sConnection: close\r\n\r\n",
                        page.status, reason_of(page.status), page.type, length,
                        page.status == 405 ? "Allow: GET, HEAD\r\n" : "");
    BW_ASSERT(head > 0 && (unsigned)head < BW_PAGE_HEAD_MAX);
    if (known && request->method == BW_HTTP_HEAD)
        return (size_t)head;
    memcpy(out + head, page.text, page.used);
    return (size_t)head + page.used;
}
