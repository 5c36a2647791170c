/* Connections of the status endpoint, see http_server.h. Sockets are watched with uv_poll, as
 * everywhere in the supervisor: one timer on CLOCK_BOOTTIME serves all deadlines. */
#include "run/status/http_server.h"

#include "core/base/assert.h"
#include "core/base/error.h"
#include "os/clock.h"
#include "run/contain/proc.h"
#include "run/event_log.h"
#include "run/status/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ACCEPTS_MAX 16u    /* per turn of the loop */
#define BACKLOG     128    /* pending connections */
#define DRAIN_NS    BW_SEC /* time for the client to close after the answer */

#define STREAM_KERNEL_BYTES      32768 /* the kernel's send buffer of a stream */
#define STREAM_UNACKNOWLEDGED_MS 15000

struct connection {
    uv_poll_t poll;
    struct bw_status_server *http;
    int fd;
    bw_time until;
    bool answered;
    bool stream;    /* of /events; `until` is then the time of the next ping */
    bool moved;     /* bytes were sent since the last ping */
    size_t chatter; /* bytes that the client of the stream sent after its request */
    size_t got, sent, length;
    char in[BW_HTTP_REQUEST_MAX];
    char out[BW_HTTP_ANSWER_MAX];
};

struct bw_status_server {
    uv_poll_t poll;
    int fd;
    bw_status_fill_view *fill_view;
    void *context;
    struct connection *at[BW_HTTP_CONNECTIONS_MAX];
    /* A TCP address that only this machine reaches. A web page must not read it through a browser
     * on this machine by a name that resolves to it (DNS rebinding). */
    bool is_local;
    unsigned streams;             /* number of streams in `at` */
    struct bw_status_state state; /* as last sent to the streams */
    bw_time changes_at;           /* when the clock alone changes that state */
    char address_text[160];
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* our socket file; "": none */
    struct stat made;                                     /* identifies that file */
};

/* ---- a connection ---- */

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    close(c->fd);
    free(c);
}

static void drop(struct connection *c)
{
    for (unsigned i = 0; i < BW_HTTP_CONNECTIONS_MAX; i++)
        if (c->http->at[i] == c)
            c->http->at[i] = NULL;
    c->http->streams -= c->stream;
    c->stream = false;
    uv_close((uv_handle_t *)&c->poll, on_connection_closed);
}

static void on_ready(uv_poll_t *handle, int status, int events);

/* All bytes are sent. A stream waits for the next event. Otherwise the server shuts down its side
 * and waits for the client to close: closing with unread bytes would reset the connection and lose
 * the answer. */
static void all_sent(struct connection *c)
{
    if (c->stream) {
        c->sent = c->length = 0;
    } else {
        shutdown(c->fd, SHUT_WR);
        c->until = bw_time_min(c->until, bw_time_add(bw_clock_boot(), DRAIN_NS));
    }
    uv_poll_start(&c->poll, UV_READABLE, on_ready);
}

/* Sends as much as possible. */
static void send_answer(struct connection *c)
{
    while (c->sent < c->length) {
        ssize_t n = send(c->fd, c->out + c->sent, c->length - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            uv_poll_start(&c->poll, UV_WRITABLE | (c->stream ? UV_READABLE : 0), on_ready);
            return;
        }
        if (n < 0) {
            drop(c);
            return;
        }
        c->sent += (size_t)n;
        c->moved = true;
    }
    all_sent(c);
}

static void look(struct bw_status_server *http, struct bw_status_view *view)
{
    *view = (struct bw_status_view){
        .election = "", .id = "", .leader = "", .value = "", .changes_at = BW_TIME_NEVER};
    http->fill_view(http->context, view);
    view->streams_full = http->streams >= BW_HTTP_STREAMS_MAX;
}

/* Turns the connection into a stream. The kernel's buffer is small, so that a client that does not
 * read is noticed; a client that is gone is noticed by unacknowledged pings. */
static void become_stream(struct connection *c, const struct bw_status_view *view)
{
    int buffer = STREAM_KERNEL_BYTES, unacknowledged = STREAM_UNACKNOWLEDGED_MS;
    setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
    if (c->http->streams == 0) {
        bw_http_state(view, &c->http->state);
        c->http->changes_at = view->changes_at;
    }
    c->http->streams++;
    c->stream = true;
    c->moved = false;
    c->until = bw_time_add(bw_clock_boot(), BW_HTTP_PING_NS);
}

static void answer(struct connection *c, int status, const struct bw_status_request *request)
{
    struct bw_status_view view;
    char time[BW_LOG_TIME_MAX];
    bw_status_update(c->http); /* the other streams get this state now, so no change is left out */
    look(c->http, &view);
    view.time = bw_log_time(time);
    c->length = bw_http_answer(&view, status, request, c->out);
    c->answered = true;
    if (bw_http_is_stream(&view, status, request))
        become_stream(c, &view);
    send_answer(c);
}

/* ---- streams ---- */

/* Appends to the buffer of a stream. A client that reads too slowly loses the stream; it starts
 * again with the state of that time. Returns false if so. */
static bool append(struct connection *c, const char *text, size_t length)
{
    memmove(c->out, c->out + c->sent, c->length - c->sent);
    c->length -= c->sent;
    c->sent = 0;
    if (length > sizeof c->out - c->length) {
        drop(c);
        return false;
    }
    memcpy(c->out + c->length, text, length);
    c->length += length;
    return true;
}

static struct connection *stream_at(const struct bw_status_server *http, unsigned i)
{
    return http->at[i] && http->at[i]->stream ? http->at[i] : NULL;
}

/* Only appends: bw_status_update() sends. */
void bw_status_publish(struct bw_status_server *http, const char *json, size_t length)
{
    static const char begin[] = "event: log\ndata: ", end[] = "\n\n";
    for (unsigned i = 0; http && http->streams && i < BW_HTTP_CONNECTIONS_MAX; i++) {
        struct connection *c = stream_at(http, i);
        if (c && append(c, begin, sizeof begin - 1) && append(c, json, length))
            append(c, end, sizeof end - 1);
    }
}

void bw_status_update(struct bw_status_server *http)
{
    struct bw_status_view view;
    struct bw_status_state state;
    char time[BW_LOG_TIME_MAX], event[BW_HTTP_ANSWER_MAX];
    size_t length = 0;
    if (!http || http->streams == 0)
        return;
    look(http, &view);
    bw_http_state(&view, &state);
    http->changes_at = view.changes_at;
    if (!bw_http_state_equals(&state, &http->state)) {
        view.time = bw_log_time(time);
        length = bw_http_state_event(&view, event);
        http->state = state;
    }
    for (unsigned i = 0; i < BW_HTTP_CONNECTIONS_MAX; i++) {
        struct connection *c = stream_at(http, i);
        if (c && (length == 0 || append(c, event, length)) && c->sent < c->length)
            send_answer(c);
    }
}

static void ping(struct connection *c, bw_time now)
{
    static const char comment[] = ": alive\n\n";
    bool stalled = c->sent < c->length && !c->moved;
    if (stalled) {
        drop(c);
        return;
    }
    c->moved = false;
    c->until = bw_time_add(now, BW_HTTP_PING_NS);
    if (append(c, comment, sizeof comment - 1))
        send_answer(c);
}

/* ---- reading ---- */

/* Reads once per call, so that no client can occupy the loop. */
static void read_more(struct connection *c)
{
    struct bw_status_request request = {.method = BW_HTTP_OTHER};
    char rest[1024];
    char *into = c->answered ? rest : c->in + c->got;
    ssize_t n = recv(c->fd, into, c->answered ? sizeof rest : sizeof c->in - c->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(c);
        return;
    }
    c->chatter += c->stream ? (size_t)n : 0;
    if (c->chatter > BW_HTTP_CHATTER_MAX)
        drop(c);
    if (c->answered)
        return;
    c->got += (size_t)n;
    int status = bw_http_request_parse(c->in, c->got, &request);
    if (status == 200 && request.by_name && c->http->is_local)
        status = 421;
    if (status != BW_HTTP_MORE)
        answer(c, status, &request);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    struct connection *c = handle->data;
    if (status < 0)
        drop(c);
    else if (events & UV_READABLE)
        read_more(c);
    else
        send_answer(c);
}

/* ---- the listener ---- */

static struct connection **free_slot(struct bw_status_server *http)
{
    unsigned oldest = BW_HTTP_CONNECTIONS_MAX;
    for (unsigned i = 0; i < BW_HTTP_CONNECTIONS_MAX; i++) {
        if (!http->at[i])
            return &http->at[i];
        if (!http->at[i]->stream &&
            (oldest == BW_HTTP_CONNECTIONS_MAX || http->at[i]->until < http->at[oldest]->until))
            oldest = i;
    }
    BW_ASSERT(oldest < BW_HTTP_CONNECTIONS_MAX); /* streams are fewer than connections */
    drop(http->at[oldest]);
    return &http->at[oldest];
}

static int begin(struct bw_status_server *http, int fd)
{
    struct connection *c = malloc(sizeof *c);
    if (!c || uv_poll_init(http->poll.loop, &c->poll, fd) != 0) {
        free(c);
        return BW_ENOMEM;
    }
    c->poll.data = c;
    c->http = http;
    c->fd = fd;
    c->until = bw_time_add(bw_clock_boot(), BW_HTTP_WITHIN_NS);
    c->answered = c->stream = c->moved = false;
    c->chatter = 0;
    c->got = c->sent = c->length = 0;
    *free_slot(http) = c;
    uv_poll_start(&c->poll, UV_READABLE, on_ready);
    return 0;
}

static void on_connection(uv_poll_t *handle, int status, int events)
{
    struct bw_status_server *http = handle->data;
    (void)events;
    for (unsigned i = 0; status >= 0 && i < ACCEPTS_MAX; i++) {
        int fd = accept4(http->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (begin(http, fd) != 0)
            close(fd);
    }
}

/* Removes a socket file that refuses connections: its process was killed. */
static void remove_stale(const struct bw_http_address *address, const char *path)
{
    struct stat st;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe >= 0 && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(probe, (const struct sockaddr *)&address->bytes, address->length) != 0 &&
        errno == ECONNREFUSED)
        unlink(path);
    if (probe >= 0)
        close(probe);
}

static int listen_at(struct bw_status_server *http, const struct bw_http_address *address)
{
    int on = 1, family = address->bytes.ss_family;
    http->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (http->fd < 0)
        return -1;
    if (family == AF_UNIX)
        remove_stale(address,
                     ((const struct sockaddr_un *)(const void *)&address->bytes)->sun_path);
    else
        setsockopt(http->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(http->fd, (const struct sockaddr *)&address->bytes, address->length) != 0)
        return -1;
    if (family == AF_UNIX) {
        const struct sockaddr_un *name = (const void *)&address->bytes;
        memcpy(http->path, name->sun_path, sizeof http->path);
        if (stat(http->path, &http->made) != 0)
            return -1;
    }
    return listen(http->fd, BACKLOG);
}

static void set_address(struct bw_status_server *http)
{
    char host[INET6_ADDRSTRLEN] = "";
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof name;
    getsockname(http->fd, (struct sockaddr *)&name, &length);
    const struct sockaddr_in *v4 = (const void *)&name;
    const struct sockaddr_in6 *v6 = (const void *)&name;
    if (name.ss_family == AF_INET)
        snprintf(http->address_text, sizeof http->address_text, "%s:%u",
                 inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host), ntohs(v4->sin_port));
    else if (name.ss_family == AF_INET6)
        snprintf(http->address_text, sizeof http->address_text, "[%s]:%u",
                 inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host), ntohs(v6->sin6_port));
    else
        snprintf(http->address_text, sizeof http->address_text, "unix:%s", http->path);
}

static void discard(struct bw_status_server *http)
{
    struct stat now;
    if (http->fd >= 0)
        close(http->fd);
    if (http->path[0] && stat(http->path, &now) == 0 && now.st_ino == http->made.st_ino &&
        now.st_dev == http->made.st_dev)
        unlink(http->path); /* only if it is our file, not a successor's */
    free(http);
}

int bw_status_open(struct bw_status_server **out, uv_loop_t *loop, const char *address,
                   bw_status_fill_view *fill_view, void *context, char *why, size_t size)
{
    struct bw_http_address parsed;
    struct bw_status_server *http = calloc(1, sizeof *http);
    *out = NULL;
    if (!http)
        return BW_ENOMEM;
    http->fd = -1;
    http->fill_view = fill_view;
    http->context = context;
    if (bw_http_address_read(address, &parsed) != 0 || listen_at(http, &parsed) != 0 ||
        uv_poll_init(loop, &http->poll, http->fd) != 0) {
        snprintf(why, size, "cannot listen on %.100s: %s", address, strerror(errno));
        discard(http);
        return BW_EIO;
    }
    http->is_local = parsed.loopback && parsed.bytes.ss_family != AF_UNIX;
    http->poll.data = http;
    uv_poll_start(&http->poll, UV_READABLE, on_connection);
    set_address(http);
    *out = http;
    return 0;
}

const char *bw_status_address(const struct bw_status_server *http)
{
    return http->address_text;
}

void bw_status_tick(struct bw_status_server *http, bw_time now)
{
    for (unsigned i = 0; http && i < BW_HTTP_CONNECTIONS_MAX; i++)
        if (http->at[i] && now >= http->at[i]->until) {
            if (http->at[i]->stream)
                ping(http->at[i], now);
            else
                drop(http->at[i]);
        }
}

bw_time bw_status_deadline(const struct bw_status_server *http)
{
    bw_time next = http && http->streams ? http->changes_at : BW_TIME_NEVER;
    for (unsigned i = 0; http && i < BW_HTTP_CONNECTIONS_MAX; i++)
        if (http->at[i])
            next = bw_time_min(next, http->at[i]->until);
    return next;
}

static void on_listener_closed(uv_handle_t *handle)
{
    discard(handle->data);
}

void bw_status_close(struct bw_status_server *http)
{
    bw_status_update(http); /* the last events */
    for (unsigned i = 0; http && i < BW_HTTP_CONNECTIONS_MAX; i++)
        if (http->at[i])
            drop(http->at[i]);
    if (http)
        uv_close((uv_handle_t *)&http->poll, on_listener_closed);
}
