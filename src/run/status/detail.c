/* See detail.h. */
#include "run/status/detail.h"

#include "core/base/assert.h"
#include "dashboard/page.h"
#include "run/status/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A row at its longest, with every byte of its texts escaped. Rows that do not fit are left out. */
#define ROW_MAX 2400u

static bool has_room(const struct bw_page *page)
{
    return page->used + ROW_MAX + ROW_MAX < sizeof page->text; /* one row, and the end */
}

static void put_key(struct bw_page *page, const char *key, const char *text)
{
    bw_page_put(page, "\"%s\":", key);
    bw_page_put_json(page, text);
    bw_page_put(page, ",");
}

static void put_flag(struct bw_page *page, const char *key, bool value)
{
    bw_page_put(page, "\"%s\":%s,", key, value ? "true" : "false");
}

/* Milliseconds; null: unknown or unlimited. */
static void put_span(struct bw_page *page, const char *key, bw_time span)
{
    if (span == BW_TIME_NEVER)
        bw_page_put(page, "\"%s\":null,", key);
    else
        bw_page_put(page, "\"%s\":%.3f,", key, (double)bw_time_max(span, 0) / 1e6);
}

/* Tokens are strings: JavaScript rounds numbers above 2^53. */
static void put_token(struct bw_page *page, const char *key, uint64_t token)
{
    bw_page_put(page, "\"%s\":\"%" PRIu64 "\",", key, token);
}

/* Replaces the last comma. */
static void put_end(struct bw_page *page, const char *text)
{
    if (page->used && page->text[page->used - 1] == ',')
        page->used--;
    bw_page_put(page, "%s", text);
}

static void put_history(struct bw_page *page, const struct bw_history *history, bw_time now)
{
    bw_page_put(page, "\"dropped\":%" PRIu64 ",\"history\":[", history->dropped);
    for (uint32_t i = 0; i < history->count && has_room(page); i++) {
        const struct bw_leadership *one = &history->at[i];
        bw_page_put(page, "{");
        put_key(page, "holder", one->holder);
        put_token(page, "token", one->token);
        put_span(page, "from_ago_ms", now - one->from);
        put_span(page, "to_ago_ms", one->to == BW_TIME_NEVER ? BW_TIME_NEVER : now - one->to);
        put_flag(page, "first", one->is_first);
        put_key(page, "why", one->why);
        put_end(page, "},");
    }
    put_end(page, "],");
}

static void put_candidates(struct bw_page *page, const struct bw_status_detail *detail, bw_time now)
{
    put_flag(page, "can_list", detail->can_list);
    put_flag(page, "listed", detail->listed);
    put_flag(page, "queue", detail->is_queue);
    bw_page_put(page, "\"candidate_count\":%u,\"candidates\":[", detail->listed_count);
    for (uint32_t i = 0; i < detail->candidates && has_room(page); i++) {
        const struct bw_detail_candidate *one = &detail->candidate[i];
        bw_page_put(page, "{");
        put_key(page, "id", one->id);
        bw_page_put(page, "\"priority\":%d,", (int)one->priority);
        put_flag(page, "holder", one->holder);
        put_flag(page, "first", one->is_first);
        put_span(page, "age_ms", now - one->since);
        put_end(page, "},");
    }
    put_end(page, "],");
}

static void put_member(struct bw_page *page, const struct bw_store_member *member)
{
    bw_page_put(page, "{");
    put_token(page, "id", member->id);
    put_key(page, "name", member->name);
    put_key(page, "address", member->address);
    put_key(page, "status", member->status);
    put_flag(page, "self", member->is_self);
    put_flag(page, "voter", member->is_voter);
    put_span(page, "status_for_ms", member->status_for_ns);
    bw_page_put(page, "\"level\":%.3f,", member->level < 1e6 ? member->level : 1e6);
    if (member->has_view) {
        bw_page_put(page, "\"view\":{");
        put_key(page, "leader", member->leader);
        put_flag(page, "leading", member->leading);
        put_flag(page, "busy", member->busy);
        put_key(page, "state", member->state);
        put_token(page, "term", member->term);
        put_token(page, "token", member->token);
        put_span(page, "left_ms", member->left_ns);
        put_span(page, "age_ms", member->view_age_ns);
        put_end(page, "},");
    }
    put_end(page, "},");
}

static void put_self(struct bw_page *page, const struct bw_status_view *view,
                     const struct bw_status_detail *detail)
{
    put_key(page, "kind", detail->is_peer ? "peer" : "run");
    put_key(page, "version", detail->version);
    char store[256]; /* a URL may be long */
    snprintf(store, sizeof store, "%s", detail->store);
    put_key(page, "store", store);
    put_key(page, "election", view->election);
    put_key(page, "candidate", view->id);
    put_key(page, "state", detail->state);
    put_key(page, "leader", view->leader);
    put_token(page, "token", view->token);
    put_key(page, "value", view->value);
    put_flag(page, "leading", view->leading);
    put_flag(page, "healthy", view->healthy);
    put_flag(page, "stored", view->stored);
    put_flag(page, "command", detail->has_command);
    put_span(page, "valid_ms", view->valid_ns);
    put_span(page, "left_ms", detail->left_ns);
    put_span(page, "ttl_ms", detail->ttl_ns);
    bw_page_put(page, "\"elections\":%" PRIu64 ",\"splits\":%" PRIu64 ",", view->elections,
                view->splits);
    bw_page_put(page, "\"losses\":{");
    for (unsigned i = 0; i < BW_HTTP_LOSSES; i++)
        if (view->losses[i])
            bw_page_put(page, "\"%s\":%" PRIu64 ",", bw_lease_loss_name((enum bw_lease_loss)i),
                        view->losses[i]);
    put_end(page, "},");
}

void bw_page_put_detail(struct bw_page *page, const struct bw_status_view *view,
                        const struct bw_status_detail *detail)
{
    page->type = "application/json";
    bw_page_put(page, "{");
    put_self(page, view, detail);
    put_history(page, detail->history, view->now);
    put_candidates(page, detail, view->now);
    bw_page_put(page, "\"member_count\":%u,\"members\":[", detail->member_count);
    for (uint32_t i = 0; i < detail->members && has_room(page); i++)
        put_member(page, &detail->member[i]);
    put_end(page, "],");
    put_end(page, "}\n");
}

size_t bw_http_dashboard(const struct bw_status_request *request, char *out, size_t size)
{
    const struct bw_web_page *page = &bw_dashboard_run;
    bool packed = request->accepts_gzip;
    size_t length = packed ? page->gzip_length : page->plain_length;
    int head = snprintf(
        out, size,
        "HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\n%sContent-Length: %zu\r\n"
        "Content-Security-Policy: %s\r\nX-Frame-Options: DENY\r\n"
        "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-cache\r\n"
        "Vary: Accept-Encoding\r\nETag: %s\r\nConnection: close\r\n\r\n",
        request->has_page ? "304 Not Modified" : "200 OK",
        packed ? "Content-Encoding: gzip\r\n" : "", length, page->policy, page->etag);
    BW_ASSERT(head > 0 && (size_t)head + length <= size);
    if (request->has_page || request->method == BW_HTTP_HEAD)
        return (size_t)head;
    memcpy(out + head, packed ? page->gzip : page->plain, length);
    return (size_t)head + length;
}
