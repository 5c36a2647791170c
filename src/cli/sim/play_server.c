/* The web server of `bellwether sim play`, see play_server.h.
 *
 * Everything is bounded: connections, bytes of a request, and the time of a connection. If all
 * connections are in use, a new one replaces the oldest. */
#include "cli/sim/play_server.h"

#include "os/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 16u
#define REQUEST_MAX     8192u
#define HEAD_MAX        (BW_PLAY_POLICY_MAX + 800u)
#define WITHIN_NS       (10 * BW_SEC) /* for the request and the response */
#define DRAIN_NS        BW_SEC        /* for the client to close after the response */

struct connection {
    int fd; /* -1: free */
    bw_time until;
    bool answered;
    size_t got, head_size, body_size, sent;
    const char *body;
    char in[REQUEST_MAX], head[HEAD_MAX];
};

struct server {
    const struct bw_play_page *page;
    struct connection at[CONNECTIONS_MAX];
};

/* ---- responses ---- */

static const char *reason_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 431:
        return "Request Header Fields Too Large";
    default:
        return "Bad Request";
    }
}

static void put_head(struct connection *c, const struct server *server, int status, size_t size)
{
    bool page = status == 200;
    int n = snprintf(c->head, sizeof c->head,
                     "HTTP/1.1 %d %s\r\n"
                     "Content-Security-Policy: %s; frame-ancestors 'none'\r\n"
                     "X-Content-Type-Options: nosniff\r\n"
                     "X-Frame-Options: DENY\r\n"
                     "Referrer-Policy: no-referrer\r\n"
                     "Cross-Origin-Opener-Policy: same-origin\r\n"
                     "Cross-Origin-Resource-Policy: same-origin\r\n"
                     "Cache-Control: no-cache\r\n"
                     "Connection: close\r\n"
                     "%s%s",
                     status, reason_of(status), page ? server->page->policy : "default-src 'none'",
                     page            ? "Content-Type: text/html; charset=utf-8\r\n"
                                       "Content-Encoding: gzip\r\n"
                     : status == 405 ? "Allow: GET, HEAD\r\n"
                                     : "",
                     status == 204 ? "\r\n" : "");
    c->head_size = (size_t)n;
    if (status != 204)
        c->head_size += (size_t)snprintf(c->head + n, sizeof c->head - (size_t)n,
                                         "Content-Length: %zu\r\n\r\n", size);
}

/* Returns the status for a complete request; `head` is set if the body is not wanted. */
static int judge(const char *request, bool *head)
{
    char method[16], target[128], version[16];
    if (sscanf(request, "%15[^ \r\n] %127[^ \r\n] %15[^ \r\n]", method, target, version) != 3 ||
        strncmp(version, "HTTP/1.", 7) != 0)
        return 400;
    *head = strcmp(method, "HEAD") == 0;
    if (!*head && strcmp(method, "GET") != 0)
        return 405;
    target[strcspn(target, "?")] = '\0';
    if (strcmp(target, "/favicon.ico") == 0)
        return 204; /* a 404 would be an error in the browser's console */
    return strcmp(target, "/") == 0 || strcmp(target, "/index.html") == 0 ? 200 : 404;
}

static void answer(struct connection *c, const struct server *server, int status, bool head)
{
    size_t size = status == 200 ? server->page->size : 0;
    put_head(c, server, status, size);
    c->body = server->page->bytes;
    c->body_size = head ? 0 : size;
    c->answered = true;
}

/* ---- connections ---- */

static void drop(struct connection *c)
{
    close(c->fd);
    c->fd = -1;
}

/* Sends as much as possible. After the last byte it shuts down our side and waits for the client to
 * close: closing with unread bytes would reset the connection and lose the response. */
static void send_more(struct connection *c)
{
    size_t total = c->head_size + c->body_size;
    while (c->sent < total) {
        bool head = c->sent < c->head_size;
        const char *from = head ? c->head + c->sent : c->body + (c->sent - c->head_size);
        size_t size = head ? c->head_size - c->sent : total - c->sent;
        ssize_t n = send(c->fd, from, size, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            drop(c);
            return;
        }
        c->sent += (size_t)n;
    }
    shutdown(c->fd, SHUT_WR);
    c->until = bw_time_min(c->until, bw_time_add(bw_clock_boot(), DRAIN_NS));
}

static bool sending(const struct connection *c)
{
    return c->answered && c->sent < c->head_size + c->body_size;
}

static void read_more(struct connection *c, const struct server *server)
{
    char rest[1024];
    bool head = false;
    char *into = c->answered ? rest : c->in + c->got;
    ssize_t n = recv(c->fd, into, c->answered ? sizeof rest : sizeof c->in - 1 - c->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(c);
        return;
    }
    if (c->answered)
        return;
    c->got += (size_t)n;
    c->in[c->got] = '\0';
    if (memchr(c->in, '\0', c->got))
        answer(c, server, 400, false);
    else if (strstr(c->in, "\r\n\r\n")) {
        int status = judge(c->in, &head);
        answer(c, server, status, head);
    } else if (c->got == sizeof c->in - 1)
        answer(c, server, 431, false);
    if (c->answered)
        send_more(c);
}

static struct connection *free_slot(struct server *server)
{
    struct connection *oldest = &server->at[0];
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        if (server->at[i].fd < 0)
            return &server->at[i];
        if (server->at[i].until < oldest->until)
            oldest = &server->at[i];
    }
    drop(oldest);
    return oldest;
}

static void take_connection(struct server *server, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct connection *c = free_slot(server);
    c->fd = fd;
    c->until = bw_time_add(bw_clock_boot(), WITHIN_NS);
    c->answered = false;
    c->got = c->head_size = c->body_size = c->sent = 0;
}

/* Ends connections that are too old. Returns the time until the next one is. */
static bw_time expire(struct server *server)
{
    bw_time now = bw_clock_boot(), next = BW_TIME_NEVER;
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *c = &server->at[i];
        if (c->fd >= 0 && now >= c->until)
            drop(c);
        if (c->fd >= 0)
            next = bw_time_min(next, c->until - now);
    }
    return next;
}

static void handle(struct server *server, const struct pollfd *polled)
{
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *c = &server->at[i];
        if (c->fd < 0 || polled[i].fd != c->fd || !polled[i].revents)
            continue;
        if (sending(c))
            send_more(c);
        else
            read_more(c, server);
    }
}

int bw_play_serve(int listener, const struct bw_play_page *page,
                  const volatile sig_atomic_t *stopped)
{
    static struct server server;
    struct pollfd polled[CONNECTIONS_MAX + 1];
    sigset_t none;
    int error = 0;
    sigemptyset(&none);
    server.page = page;
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        server.at[i].fd = -1;
    while (!*stopped && !error) {
        bw_time left = expire(&server);
        struct timespec wait = {.tv_sec = left / BW_SEC, .tv_nsec = left % BW_SEC};
        for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
            polled[i] = (struct pollfd){.fd = server.at[i].fd,
                                        .events = sending(&server.at[i]) ? POLLOUT : POLLIN};
        polled[CONNECTIONS_MAX] = (struct pollfd){.fd = listener, .events = POLLIN};
        int n = ppoll(polled, CONNECTIONS_MAX + 1, left == BW_TIME_NEVER ? NULL : &wait, &none);
        if (n < 0 && errno != EINTR)
            error = errno;
        if (n <= 0)
            continue;
        handle(&server, polled);
        if (polled[CONNECTIONS_MAX].revents)
            take_connection(&server, listener);
    }
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        if (server.at[i].fd >= 0)
            drop(&server.at[i]);
    return error;
}
