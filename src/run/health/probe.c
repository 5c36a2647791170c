/* Health check over HTTP, see probe.h. */
#include "run/health/probe.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_clean(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f || *text == '#')
            return false;
    return true;
}

/* HOST, HOST:PORT, [V6] or [V6]:PORT. */
static int read_authority(struct bw_probe_url *out)
{
    uint64_t port = 80;
    const char *host = out->authority, *rest;
    size_t length;
    if (host[0] == '[') {
        length = strcspn(++host, "]");
        rest = host[length] ? host + length + 1 : NULL;
    } else {
        length = strcspn(host, ":");
        rest = host + length;
    }
    if (!rest || length == 0 || length >= sizeof out->host || (*rest && *rest != ':'))
        return BW_EINVAL;
    if (*rest && (bw_text_number(rest + 1, strlen(rest + 1), 65535, &port) != 0 || port == 0))
        return BW_EINVAL;
    memcpy(out->host, host, length);
    out->host[length] = '\0';
    snprintf(out->port, sizeof out->port, "%u", (unsigned)port);
    return 0;
}

int bw_probe_url_read(const char *text, struct bw_probe_url *out)
{
    static const char scheme[] = "http://";
    if (strncmp(text, scheme, sizeof scheme - 1) != 0 || !is_clean(text))
        return BW_EINVAL;
    const char *begin = text + sizeof scheme - 1;
    size_t length = strcspn(begin, "/?");
    if (length >= sizeof out->authority || memchr(begin, '@', length))
        return BW_EINVAL;
    memcpy(out->authority, begin, length);
    out->authority[length] = '\0';
    out->target = begin + length;
    return read_authority(out);
}

int bw_probe_status(const char *line, size_t length)
{
    uint64_t code = 0;
    bool http = length >= 12 && memcmp(line, "HTTP/1.", 7) == 0 && line[8] == ' ';
    bool ends = http && (length == 12 || line[12] == ' ' || line[12] == '\r');
    if (!ends || bw_text_number(line + 9, 3, 999, &code) != 0)
        return 0;
    return (int)code;
}

static int connect_to(const struct bw_probe_url *url)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int fd = -1;
    if (getaddrinfo(url->host, url->port, &hints, &list) != 0)
        return -1;
    for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static bool send_text(int fd, const char *text)
{
    size_t length = strlen(text);
    while (length > 0) {
        ssize_t n = send(fd, text, length, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        text += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool send_request(int fd, const struct bw_probe_url *url)
{
    char head[400];
    snprintf(head, sizeof head,
             " HTTP/1.1\r\nHost: %s\r\nUser-Agent: bellwether\r\nConnection: close\r\n\r\n",
             url->authority);
    return send_text(fd, url->target[0] == '/' ? "GET " : "GET /") && send_text(fd, url->target) &&
           send_text(fd, head);
}

/* Reads the status line; the rest of the response is ignored. */
static int read_status(int fd)
{
    char line[512];
    size_t got = 0;
    while (got < sizeof line) {
        ssize_t n = recv(fd, line + got, sizeof line - got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        got += (size_t)n;
        const char *end = memchr(line, '\n', got);
        if (end)
            return bw_probe_status(line, (size_t)(end - line));
    }
    return 0;
}

int bw_probe(const char *url)
{
    struct bw_probe_url to;
    if (bw_probe_url_read(url, &to) != 0)
        return 64;
    int fd = connect_to(&to);
    if (fd < 0)
        return 1;
    int status = send_request(fd, &to) ? read_status(fd) : 0;
    close(fd);
    return status >= 200 && status <= 299 ? 0 : 1;
}
