/* Responses of the status endpoint, see pages.h. */
#include "run/status/pages.h"

#include "core/base/assert.h"
#include "run/status/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    } else if (strcmp(path, "/livez") == 0) {
        bw_page_put(page, "alive\n");
    } else if (strcmp(path, "/healthz") == 0) {
        page->status = view->leading ? 200 : 503;
        bw_page_put(page, view->leading ? "leader\n" : "not leader\n");
    } else {
        page->status = 404;
    }
}

size_t bw_http_answer(const struct bw_status_view *view, int status,
                      const struct bw_status_request *request, char out[BW_HTTP_ANSWER_MAX])
{
    struct bw_page page = {.status = status, .type = "text/plain; charset=utf-8"};
    bool known = status == 200;
    if (known)
        put_page(&page, view, request->path);
    if (known && page.status != 404 && request->method == BW_HTTP_OTHER) {
        page.status = 405;
        page.type = "text/plain; charset=utf-8";
        page.used = 0;
    }
    if (page.used == 0)
        bw_page_put(&page, "%s\n", reason_of(page.status));
    int head = snprintf(out, BW_PAGE_HEAD_MAX,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                        "Cache-Control: no-store\r\n%sConnection: close\r\n\r\n",
                        page.status, reason_of(page.status), page.type, page.used,
                        page.status == 405 ? "Allow: GET, HEAD\r\n" : "");
    BW_ASSERT(head > 0 && (unsigned)head < BW_PAGE_HEAD_MAX);
    if (known && request->method == BW_HTTP_HEAD)
        return (size_t)head;
    memcpy(out + head, page.text, page.used);
    return (size_t)head + page.used;
}
