/* Answers, see answer.h. */
#include "run/status/answer.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HEAD_MAX 512u

bw_time bw_http_yes_after(const struct bw_lease_terms *terms)
{
    double drift = (double)terms->drift_ppm / 1e6;
    double more = (double)terms->kill_after_ns * 2 * drift / (1 - drift);
    bw_time longest = bw_time_add(terms->kill_after_ns, (bw_time)more + 1);
    return bw_time_add(longest, terms->margin_ns);
}

struct page {
    int status;
    const char *type;
    size_t used;
    char text[BW_HTTP_ANSWER_MAX - HEAD_MAX];
};

__attribute__((format(printf, 2, 3))) static void put(struct page *page, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t room = sizeof page->text - page->used;
    int length = vsnprintf(page->text + page->used, room, format, list);
    va_end(list);
    BW_ASSERT(length >= 0 && (size_t)length < room);
    page->used += (size_t)length;
}

/* Bytes of the UTF-8 character there; 0: it is none. */
static size_t sequence(const unsigned char *at)
{
    size_t length = at[0] < 0x80                     ? 1
                    : at[0] >= 0xc2 && at[0] <= 0xdf ? 2
                    : (at[0] & 0xf0) == 0xe0         ? 3
                    : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                     : 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if (length == 3 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f)))
        return 0; /* overlong, or a surrogate */
    if (length == 4 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)))
        return 0;
    return length;
}

/* In quotes. Bytes that are no UTF-8 become '?'. */
static void put_json(struct page *page, const char *text)
{
    put(page, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t length = sequence(at);
        if (*at == '"' || *at == '\\')
            put(page, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            put(page, "\\u%04x", *at);
        else if (length == 0)
            put(page, "?");
        else
            put(page, "%.*s", (int)length, (const char *)at);
        at += length ? length : 1;
    }
    put(page, "\"");
}

/* A label's value as Prometheus wants it. */
static void put_label(struct page *page, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t length = sequence(at);
        if (*at == '"' || *at == '\\')
            put(page, "\\%c", *at);
        else if (*at == '\n')
            put(page, "\\n");
        else if (length == 0)
            put(page, "?");
        else
            put(page, "%.*s", (int)length, (const char *)at);
        at += length ? length : 1;
    }
}

static void put_leader(struct page *page, const struct bw_http_view *view)
{
    page->type = "application/json";
    put(page, "{\"election\":");
    put_json(page, view->election);
    put(page, ",\"id\":");
    put_json(page, view->leader);
    put(page, ",\"token\":%" PRIu64 ",\"value\":", (uint64_t)view->token);
    put_json(page, view->value);
    put(page,
        ",\"valid_ms\":%lld,\"leading\":%s,\"candidate\":", (long long)(view->valid_ns / BW_MS),
        view->leading ? "true" : "false");
    put_json(page, view->id);
    put(page, "}\n");
}

static void put_metric(struct page *page, const struct bw_http_view *view, const char *name,
                       const char *kind, const char *help)
{
    put(page, "# HELP bellwether_%s %s\n# TYPE bellwether_%s %s\n", name, help, name, kind);
    put(page, "bellwether_%s{election=\"", name);
    put_label(page, view->election);
    put(page, "\"} ");
}

static void put_losses(struct page *page, const struct bw_http_view *view)
{
    put(page, "# HELP bellwether_losses_total Leaderships of this candidate that ended, by reason\n"
              "# TYPE bellwether_losses_total counter\n");
    for (unsigned i = BW_LEASE_KEPT + 1; i < BW_HTTP_LOSSES; i++) {
        put(page, "bellwether_losses_total{election=\"");
        put_label(page, view->election);
        put(page, "\",reason=\"%s\"} %" PRIu64 "\n", bw_lease_loss_name((enum bw_lease_loss)i),
            view->losses[i]);
    }
}

static void put_counts(struct page *page, const struct bw_http_view *view)
{
    const char *last = "";
    for (uint32_t i = 0; i < view->counts; i++) {
        const struct bw_store_count *count = &view->count[i];
        if (strcmp(count->name, last) != 0)
            put(page, "# HELP bellwether_%s %s\n# TYPE bellwether_%s counter\n", count->name,
                count->help, count->name);
        last = count->name;
        put(page, "bellwether_%s{election=\"", count->name);
        put_label(page, view->election);
        if (count->reason)
            put(page, "\",reason=\"%s", count->reason);
        put(page, "\"} %" PRIu64 "\n", count->value);
    }
}

static void put_metrics(struct page *page, const struct bw_http_view *view)
{
    page->type = "text/plain; version=0.0.4; charset=utf-8";
    put_metric(page, view, "leader", "gauge", "1 while this candidate leads");
    put(page, "%d\n", view->leading);
    put_metric(page, view, "token", "gauge", "Fencing token of the leadership last seen");
    put(page, "%" PRIu64 "\n", (uint64_t)view->token);
    put_metric(page, view, "valid_seconds", "gauge", "How long this candidate may still lead");
    put(page, "%lld.%03lld\n", (long long)(view->valid_ns / BW_SEC),
        (long long)(view->valid_ns % BW_SEC / BW_MS));
    put_metric(page, view, "healthy", "gauge", "1 while this candidate is fit to lead");
    put(page, "%d\n", view->healthy);
    put_metric(page, view, "store_up", "gauge", "1 while the store answers");
    put(page, "%d\n", view->stored);
    put_metric(page, view, "elections_total", "counter", "Times this candidate was elected");
    put(page, "%" PRIu64 "\n", view->elections);
    put_metric(page, view, "splits_total", "counter", "Times two were seen to lead");
    put(page, "%" PRIu64 "\n", view->splits);
    put_losses(page, view);
    put_counts(page, view);
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

static void put_page(struct page *page, const struct bw_http_view *view, const char *path)
{
    if (strcmp(path, "/leader") == 0) {
        put_leader(page, view);
    } else if (strcmp(path, "/metrics") == 0) {
        put_metrics(page, view);
    } else if (strcmp(path, "/livez") == 0) {
        put(page, "alive\n");
    } else if (strcmp(path, "/healthz") == 0) {
        page->status = view->leading ? 200 : 503;
        put(page, view->leading ? "leader\n" : "not leader\n");
    } else {
        page->status = 404;
    }
}

size_t bw_http_answer(const struct bw_http_view *view, int status,
                      const struct bw_http_request *request, char out[BW_HTTP_ANSWER_MAX])
{
    struct page page = {.status = status, .type = "text/plain; charset=utf-8"};
    bool known = status == 200;
    if (known)
        put_page(&page, view, request->path);
    if (known && page.status != 404 && request->method == BW_HTTP_OTHER) {
        page.status = 405;
        page.type = "text/plain; charset=utf-8";
        page.used = 0;
    }
    if (page.used == 0)
        put(&page, "%s\n", reason_of(page.status));
    int head = snprintf(out, HEAD_MAX,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                        "Cache-Control: no-store\r\n%sConnection: close\r\n\r\n",
                        page.status, reason_of(page.status), page.type, page.used,
                        page.status == 405 ? "Allow: GET, HEAD\r\n" : "");
    BW_ASSERT(head > 0 && (unsigned)head < HEAD_MAX);
    if (known && request->method == BW_HTTP_HEAD)
        return (size_t)head;
    memcpy(out + head, page.text, page.used);
    return (size_t)head + page.used;
}
