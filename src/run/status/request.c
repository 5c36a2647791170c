/* Parses HTTP requests, see request.h. */
#include "run/status/request.h"

#include "dashboard/page.h"

#include <string.h>
#include <strings.h>

/* The part of the request that is still to be parsed. */
struct slice {
    const char *at, *end;
};

static bool is_token(char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_visible(char c)
{
    return c > ' ' && c < 0x7f;
}

static bool is_control(char c)
{
    return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

/* Takes the next line without its CRLF. Returns false if the line is incomplete. */
static bool take_line(struct slice *text, struct slice *line)
{
    for (const char *at = text->at; at + 1 < text->end; at++)
        if (at[0] == '\r' && at[1] == '\n') {
            *line = (struct slice){text->at, at};
            text->at = at + 2;
            return true;
        }
    return false;
}

/* Takes the text before the next `c` and skips `c`. Returns false if there is no `c`, or no text
 * before it. */
static bool take_until(struct slice *text, char c, struct slice *out)
{
    const char *found = memchr(text->at, c, (size_t)(text->end - text->at));
    if (!found || found == text->at)
        return false;
    *out = (struct slice){text->at, found};
    text->at = found + 1;
    return true;
}

static bool is_word(const struct slice *text, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(text->end - text->at) == length && memcmp(text->at, word, length) == 0;
}

/* "/path?query", optionally with scheme and host, as sent to proxies. */
static int read_target(struct slice target, struct bw_status_request *out)
{
    static const char scheme[] = "http://";
    size_t length = sizeof scheme - 1;
    for (const char *at = target.at; at < target.end; at++)
        if (!is_visible(*at))
            return 400;
    if ((size_t)(target.end - target.at) > length && memcmp(target.at, scheme, length) == 0) {
        target.at = memchr(target.at + length, '/', (size_t)(target.end - target.at) - length);
        if (!target.at)
            return 400;
    }
    if (target.at == target.end || *target.at != '/')
        return 400;
    const char *query = memchr(target.at, '?', (size_t)(target.end - target.at));
    length = (size_t)((query ? query : target.end) - target.at);
    if (length > BW_HTTP_PATH_MAX)
        return 414;
    memcpy(out->path, target.at, length);
    out->path[length] = '\0';
    return 200;
}

static int read_version(const struct slice *version, bool *host_needed)
{
    *host_needed = is_word(version, "HTTP/1.1");
    if (*host_needed || is_word(version, "HTTP/1.0"))
        return 200;
    bool http = version->end - version->at == 8 && memcmp(version->at, "HTTP/", 5) == 0;
    return http ? 505 : 400;
}

static int read_first_line(struct slice line, struct bw_status_request *out, bool *host_needed)
{
    struct slice method, target;
    if (!take_until(&line, ' ', &method) || !take_until(&line, ' ', &target))
        return 400;
    for (const char *at = method.at; at < method.end; at++)
        if (!is_token(*at))
            return 400;
    out->method = is_word(&method, "GET")    ? BW_HTTP_GET
                  : is_word(&method, "HEAD") ? BW_HTTP_HEAD
                                             : BW_HTTP_OTHER;
    int status = read_version(&line, host_needed);
    return status == 200 ? read_target(target, out) : status;
}

static bool is_name(const struct slice *name, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(name->end - name->at) == length && strncasecmp(name->at, text, length) == 0;
}

static bool is_address(struct slice value)
{
    while (value.at < value.end && (value.at[0] == ' ' || value.at[0] == '\t'))
        value.at++;
    while (value.end > value.at && (value.end[-1] == ' ' || value.end[-1] == '\t'))
        value.end--;
    return bw_web_is_address(value.at, (size_t)(value.end - value.at));
}

/* Checks one header and counts Host headers. */
static int read_header(struct slice line, struct bw_status_request *out, unsigned *hosts)
{
    struct slice name;
    if (!take_until(&line, ':', &name))
        return 400;
    for (const char *at = name.at; at < name.end; at++)
        if (!is_token(*at)) /* also rejects blanks: folded lines, "Host :" */
            return 400;
    for (const char *at = line.at; at < line.end; at++)
        if (is_control(*at))
            return 400;
    size_t length = (size_t)(line.end - line.at);
    if (is_name(&name, "host")) {
        ++*hosts;
        out->by_name = !is_address(line);
    }
    if (is_name(&name, "accept-encoding"))
        out->accepts_gzip |= bw_web_accepts_gzip(line.at, length);
    if (is_name(&name, "if-none-match"))
        out->has_page |= bw_web_has_tag(line.at, length, bw_dashboard_run.etag);
    return 200;
}

int bw_http_request_parse(const char *bytes, size_t length, struct bw_status_request *out)
{
    struct slice text = {bytes, bytes + length}, line;
    int more = length >= BW_HTTP_REQUEST_MAX ? 431 : BW_HTTP_MORE;
    bool host_needed = false;
    unsigned hosts = 0;
    out->accepts_gzip = out->has_page = out->by_name = false;
    if (length > 0 && !is_token(bytes[0]))
        return 400; /* TLS or garbage: more bytes cannot help */
    if (!take_line(&text, &line))
        return more;
    int status = read_first_line(line, out, &host_needed);
    while (status == 200) {
        if (!take_line(&text, &line))
            return more;
        if (line.at == line.end)
            return hosts == 1 || (hosts == 0 && !host_needed) ? 200 : 400;
        status = read_header(line, out, &hosts);
    }
    return status;
}
