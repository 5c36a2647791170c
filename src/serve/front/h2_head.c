/* Rules of an HTTP/2 request's head; see h2_head.h. */
#include "serve/front/h2_head.h"

#include "dashboard/page.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

enum { METHOD = 1, SCHEME = 2, PATH = 4, AUTHORITY = 8 };

static bool is(const uint8_t *at, size_t length, const char *text)
{
    return length == strlen(text) && memcmp(at, text, length) == 0;
}

static unsigned pseudo(const uint8_t *name, size_t length)
{
    return is(name, length, ":method")      ? METHOD
           : is(name, length, ":scheme")    ? SCHEME
           : is(name, length, ":path")      ? PATH
           : is(name, length, ":authority") ? AUTHORITY
                                            : 0;
}

/* Fields that describe an HTTP/1.1 connection. A proxy that forwards them has translated the
 * request wrongly, so the request is malformed (RFC 9113, section 8.2.2). */
static bool is_connection_specific(const uint8_t *name, size_t name_length, const uint8_t *value,
                                   size_t value_length)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is(name, name_length, names[i]))
            return true;
    return is(name, name_length, "te") && !is(value, value_length, "trailers");
}

static bool take_length(struct bw_h2_head *head, const uint8_t *value, size_t length)
{
    uint64_t number = 0;
    if (head->has_length || length == 0 || length > 18)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (value[i] < '0' || value[i] > '9')
            return false;
        number = 10 * number + (uint64_t)(value[i] - '0');
    }
    head->has_length = true;
    head->length = number;
    return true;
}

/* A longer authority is kept as empty, which equals no origin. */
static void take_authority(struct bw_h2_head *head, const uint8_t *value, size_t length)
{
    head->authority_length = length <= sizeof head->authority ? length : 0;
    memcpy(head->authority, value, head->authority_length);
}

static enum bw_h2_field pseudo_field(struct bw_h2_head *head, unsigned which, const uint8_t *value,
                                     size_t length)
{
    bool bad = !which || (head->seen & which) || head->regular || head->ended ||
               !nghttp2_check_header_value(value, length) ||
               ((which & (METHOD | SCHEME | PATH)) && length == 0);
    head->seen |= which;
    if (which == AUTHORITY && !bad)
        take_authority(head, value, length);
    return bad ? BW_H2_BAD : BW_H2_TAKE;
}

static bool take_origin(struct bw_h2_head *head, const uint8_t *value, size_t length)
{
    if (head->origin != BW_ORIGIN_NONE)
        return false;
    head->origin =
        bw_origin_judge((const char *)value, length, head->authority, head->authority_length);
    return true;
}

enum bw_h2_field bw_h2_head_field(struct bw_h2_head *head, const uint8_t *name, size_t name_length,
                                  const uint8_t *value, size_t value_length)
{
    if (name_length && name[0] == ':')
        return pseudo_field(head, pseudo(name, name_length), value, value_length);
    head->regular = true;
    if (!nghttp2_check_header_name(name, name_length) ||
        !nghttp2_check_header_value(value, value_length))
        return BW_H2_PASS;
    if (is_connection_specific(name, name_length, value, value_length))
        return BW_H2_BAD;
    if (!head->ended && is(name, name_length, "origin"))
        return take_origin(head, value, value_length) ? BW_H2_TAKE : BW_H2_BAD;
    if (!head->ended && is(name, name_length, "content-length"))
        return take_length(head, value, value_length) ? BW_H2_TAKE : BW_H2_BAD;
    if (!head->ended && is(name, name_length, "accept-encoding"))
        head->accepts_gzip |= bw_web_accepts_gzip((const char *)value, value_length);
    if (!head->ended && is(name, name_length, "if-none-match"))
        head->has_page |=
            bw_web_has_tag((const char *)value, value_length, bw_dashboard_serve.etag);
    return BW_H2_TAKE;
}

bool bw_h2_head_end(struct bw_h2_head *head)
{
    head->ended = true;
    return (head->seen & (METHOD | SCHEME | PATH)) == (METHOD | SCHEME | PATH);
}

bool bw_h2_head_body(struct bw_h2_head *head, size_t length)
{
    head->body += length;
    return !head->has_length || head->body <= head->length;
}

bool bw_h2_head_whole(const struct bw_h2_head *head)
{
    return !head->has_length || head->body == head->length;
}
