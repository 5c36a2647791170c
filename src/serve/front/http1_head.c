/* See http1_head.h. */
#include "serve/front/http1_head.h"

#include "dashboard/page.h"

#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t length;
};

static bool same(struct span span, const char *text)
{
    return span.length == strlen(text) && strncasecmp(span.at, text, span.length) == 0;
}

/* The fields that bw_origin_judge compares, in the text of the head. */
struct origin_fields {
    struct span origin, host;
};

enum bw_verb bw_verb_of(const char *text, size_t length)
{
    if (length == 3 && memcmp(text, "GET", 3) == 0)
        return BW_VERB_GET;
    if (length == 4 && memcmp(text, "HEAD", 4) == 0)
        return BW_VERB_HEAD;
    return length == 4 && memcmp(text, "POST", 4) == 0 ? BW_VERB_POST : BW_VERB_OTHER;
}

static bool is_token(struct span span)
{
    for (size_t i = 0; i < span.length; i++) {
        char c = span.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return span.length > 0;
}

static bool is_text(struct span span)
{
    for (size_t i = 0; i < span.length; i++)
        if (((unsigned char)span.at[i] < 0x20 && span.at[i] != '\t') || span.at[i] == 0x7f)
            return false;
    return true;
}

static bool take_number(struct span span, unsigned base, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < span.length; i++) {
        char c = span.at[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 99;
        if (digit >= base || value > UINT64_MAX / 16 - 1)
            return false;
        value = value * base + digit;
    }
    *out = value;
    return span.length > 0;
}

bool bw_http1_chunk_read(const char *line, size_t length, uint64_t *size)
{
    struct span span = {line, length};
    const char *extension = memchr(line, ';', length);
    if (!is_text(span))
        return false;
    if (extension)
        span.length = (size_t)(extension - line);
    while (span.length && (span.at[span.length - 1] == ' ' || span.at[span.length - 1] == '\t'))
        span.length--;
    return take_number(span, 16, size);
}

static unsigned take_first_line(struct bw_http1_head *head, struct span line)
{
    const char *space = memchr(line.at, ' ', line.length);
    if (!space)
        return 400;
    struct span verb = {line.at, (size_t)(space - line.at)};
    struct span rest = {space + 1, line.length - verb.length - 1};
    const char *end = memchr(rest.at, ' ', rest.length);
    if (!is_token(verb) || !end || !is_text(rest))
        return 400;
    struct span path = {rest.at, (size_t)(end - rest.at)};
    struct span version = {end + 1, rest.length - path.length - 1};
    if (version.length != 8 || memcmp(version.at, "HTTP/", 5) != 0 || version.at[6] != '.')
        return 400;
    if (version.at[5] != '1' || version.at[7] < '0' || version.at[7] > '9')
        return 505;
    if (path.length == 0 || (path.at[0] != '/' && path.at[0] != '*'))
        return 400;
    head->verb = bw_verb_of(verb.at, verb.length);
    head->is_http10 = head->close = version.at[7] == '0';
    if (path.length <= BW_HTTP1_PATH_MAX)
        memcpy(head->path, path.at, path.length);
    return 0;
}

/* The Connection field holds a comma-separated list of options. */
static void take_connection(struct bw_http1_head *head, struct span value)
{
    while (value.length) {
        const char *comma = memchr(value.at, ',', value.length);
        struct span one = {value.at, comma ? (size_t)(comma - value.at) : value.length};
        size_t step = one.length + (comma ? 1 : 0);
        while (one.length && (one.at[0] == ' ' || one.at[0] == '\t'))
            one.at++, one.length--;
        while (one.length && (one.at[one.length - 1] == ' ' || one.at[one.length - 1] == '\t'))
            one.length--;
        if (same(one, "close"))
            head->close = true;
        else if (same(one, "keep-alive") && head->is_http10)
            head->close = false;
        value.at += step;
        value.length -= step;
    }
}

static unsigned take_field(struct bw_http1_head *head, struct origin_fields *fields,
                           struct span name, struct span value)
{
    if (same(name, "content-length")) {
        uint64_t length;
        if (!take_number(value, 10, &length) || (head->has_length && length != head->length))
            return 400;
        head->has_length = true;
        head->length = length;
    } else if (same(name, "transfer-encoding")) {
        if (head->chunked)
            return 400;
        head->chunked = same(value, "chunked");
        return head->chunked ? 0 : 501;
    } else if (same(name, "connection")) {
        take_connection(head, value);
    } else if (same(name, "expect")) {
        head->expects_continue = same(value, "100-continue");
        return head->expects_continue ? 0 : 417;
    } else if (same(name, "host")) {
        if (head->has_host)
            return 400;
        head->has_host = true;
        fields->host = value;
    } else if (same(name, "origin")) {
        if (fields->origin.at)
            return 400;
        fields->origin = value;
    } else if (same(name, "accept-encoding")) {
        head->accepts_gzip |= bw_web_accepts_gzip(value.at, value.length);
    } else if (same(name, "if-none-match")) {
        head->has_page |= bw_web_has_tag(value.at, value.length, bw_dashboard_serve.etag);
    } else if (same(name, "grpc-metadata-hasleader")) {
        head->needs_leader = same(value, "true");
    } else if (same(name, "authorization") || same(name, "grpc-metadata-token")) {
        size_t take = value.length < BW_HTTP1_TOKEN_MAX ? value.length : BW_HTTP1_TOKEN_MAX;
        memcpy(head->token, value.at, take);
        head->token[take] = '\0';
    }
    return 0;
}

static unsigned take_line(struct bw_http1_head *head, struct origin_fields *fields,
                          struct span line)
{
    const char *colon = memchr(line.at, ':', line.length);
    if (!colon)
        return 400;
    struct span name = {line.at, (size_t)(colon - line.at)};
    struct span value = {colon + 1, line.length - name.length - 1};
    if (!is_token(name) || !is_text(value))
        return 400;
    while (value.length && (value.at[0] == ' ' || value.at[0] == '\t'))
        value.at++, value.length--;
    while (value.length &&
           (value.at[value.length - 1] == ' ' || value.at[value.length - 1] == '\t'))
        value.length--;
    return take_field(head, fields, name, value);
}

unsigned bw_http1_head_read(struct bw_http1_head *head, const char *text, size_t length)
{
    const char *end = text + length;
    struct origin_fields fields = {{NULL, 0}, {NULL, 0}};
    bool first = true;
    *head = (struct bw_http1_head){0};
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop || stop == text || stop[-1] != '\r')
            return 400;
        struct span line = {text, (size_t)(stop - 1 - text)};
        if (line.length == 0)
            break;
        unsigned status = first ? take_first_line(head, line) : take_line(head, &fields, line);
        if (status)
            return status;
        first = false;
        text = stop + 1;
    }
    head->origin =
        bw_origin_judge(fields.origin.at, fields.origin.length, fields.host.at, fields.host.length);
    head->by_name = fields.host.at && !bw_web_is_address(fields.host.at, fields.host.length);
    if (first || (head->chunked && (head->has_length || head->is_http10)))
        return 400;
    return head->has_host || head->is_http10 ? 0 : 400;
}
