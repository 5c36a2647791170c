/* One outgoing connection; see link.h. The socket has its own memory block, so that a failed
 * address can be closed while the next one is tried. */
#include "net/grpc/link.h"

#include "core/base/error.h"
#include "os/loop.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESSES_MAX 8u
#define CHUNK         65536u

/* libuv completes the connect request even after the link is gone. */
struct connection {
    uv_tcp_t tcp; /* must be first: its address is the block's */
    uv_connect_t connecting;
};

struct resolving {
    uv_getaddrinfo_t request;
    struct bw_link *link; /* NULL: the link is gone */
};

struct bw_link {
    struct bw_link_options options;
    char host[256];
    uv_timer_t timer; /* before `up`: the time limit; afterwards: reports a failure from the loop */
    uv_tcp_t *tcp;    /* part of a struct connection */
    struct resolving *resolving;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    uint32_t count, tried;
    struct bw_tls *tls;
    bool up, failed, closed;
    bool heard; /* the server has sent something */
    char why[BW_LINK_WHY_MAX + 1];
    char chunk[CHUNK];
};

static void try_next(struct bw_link *link);

static void free_socket(uv_handle_t *handle)
{
    free(handle);
}

static void drop_socket(struct bw_link *link)
{
    if (!link->tcp)
        return;
    link->tcp->data = NULL;
    uv_close((uv_handle_t *)link->tcp, free_socket);
    link->tcp = NULL;
}

static void on_failed(uv_timer_t *timer)
{
    struct bw_link *link = timer->data;
    link->options.down(link->options.context, link->why);
}

/* Reports the failure from the loop, once. */
static void fail(struct bw_link *link, const char *what, const char *why)
{
    if (link->failed || link->closed)
        return;
    link->failed = true;
    snprintf(link->why, sizeof link->why, "%s%s%s", what, why ? ": " : "", why ? why : "");
    drop_socket(link);
    uv_timer_start(&link->timer, on_failed, 0, 0);
}

static void on_late(uv_timer_t *timer)
{
    struct bw_link *link = timer->data;
    char what[BW_LINK_WHY_MAX / 2];
    snprintf(what, sizeof what, "%s within %llu ms",
             link->resolving ? "host name not resolved"
             : link->tls     ? "no TLS handshake"
                             : "no connection",
             (unsigned long long)(link->tls ? link->options.setup_ms : link->options.within_ms));
    fail(link, what, NULL);
}

/* ---- bytes out ---- */

struct writing {
    uv_write_t request;
    uint8_t bytes[];
};

static void on_written(uv_write_t *request, int status)
{
    struct bw_link *link = request->handle->data;
    if (link && status < 0)
        fail(link, "cannot write", uv_strerror(status));
    free(request);
}

static int write_socket(struct bw_link *link, const uint8_t *bytes, size_t length)
{
    uv_stream_t *stream = (uv_stream_t *)link->tcp;
    uv_buf_t now = uv_buf_init((char *)bytes, (unsigned)length);
    int done = uv_try_write(stream, &now, 1);
    size_t written = done > 0 ? (size_t)done : 0;
    if (written == length)
        return 0;
    struct writing *writing = NULL;
    if (uv_stream_get_write_queue_size(stream) + length <= BW_LINK_QUEUE_MAX)
        writing = malloc(sizeof *writing + length - written);
    if (!writing) {
        fail(link, "the server does not read; too many bytes are queued", NULL);
        return BW_ELIMIT;
    }
    memcpy(writing->bytes, bytes + written, length - written);
    uv_buf_t rest = uv_buf_init((char *)writing->bytes, (unsigned)(length - written));
    int status = uv_write(&writing->request, stream, &rest, 1, on_written);
    if (status == 0)
        return 0;
    free(writing);
    fail(link, "cannot write", uv_strerror(status));
    return BW_EIO;
}

static int flush_tls(struct bw_link *link)
{
    uint8_t bytes[16384];
    size_t length;
    int error = 0;
    while (error == 0 && (length = bw_tls_take(link->tls, bytes, sizeof bytes)) > 0)
        error = write_socket(link, bytes, length);
    return error;
}

int bw_link_write(struct bw_link *link, const uint8_t *bytes, size_t length)
{
    if (!link->up || link->failed || link->closed)
        return BW_EIO;
    if (!link->tls)
        return write_socket(link, bytes, length);
    if (bw_tls_write(link->tls, bytes, length) != 0) {
        fail(link, "cannot write", "TLS failed");
        return BW_EIO;
    }
    return flush_tls(link);
}

int bw_link_fd(const struct bw_link *link)
{
    int fd;
    bool there = link->up && !link->failed && !link->closed && link->tcp;
    return there && uv_fileno((const uv_handle_t *)link->tcp, &fd) == 0 ? fd : -1;
}

/* ---- bytes in ---- */

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    struct bw_link *link = handle->data;
    (void)size;
    *buffer = link ? uv_buf_init(link->chunk, CHUNK) : uv_buf_init(NULL, 0);
}

static void become_up(struct bw_link *link)
{
    link->up = true;
    uv_timer_stop(&link->timer);
    link->options.up(link->options.context);
}

static void read_tls(struct bw_link *link, const uint8_t *bytes, size_t length)
{
    uint8_t clear[16384];
    char why[BW_TLS_WHY_MAX + 1] = "";
    int error = bw_tls_feed(link->tls, bytes, length, why);
    flush_tls(link); /* also sends an alert to the server */
    if (error == 0 && !link->up && bw_tls_is_up(link->tls))
        become_up(link);
    int got = 0;
    while (error == 0 && link->up && !link->closed && !link->failed &&
           (got = bw_tls_read(link->tls, clear, sizeof clear, why)) > 0)
        link->options.bytes(link->options.context, clear, (size_t)got);
    if (error != 0 || got < 0)
        fail(link, why, NULL);
}

/* A server that requires TLS closes a connection that begins without it, and sends nothing. */
static const char *explain_loss(const struct bw_link *link, int error)
{
    if (!link->tls && !link->heard && (error == UV_EOF || error == UV_ECONNRESET))
        return "closed by the server without an answer; it may require TLS (https://, etcds://, "
               "bellwethers:// or --ca)";
    if (link->tls && !link->up && error == UV_EOF)
        return "closed by the server during the TLS handshake; it may not use TLS";
    return error == UV_EOF ? "closed by the server" : uv_strerror(error);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct bw_link *link = stream->data;
    if (!link || got == 0)
        return;
    if (got < 0) {
        fail(link, "connection lost", explain_loss(link, (int)got));
        return;
    }
    link->heard = true;
    if (link->tls)
        read_tls(link, (const uint8_t *)buffer->base, (size_t)got);
    else
        link->options.bytes(link->options.context, (const uint8_t *)buffer->base, (size_t)got);
}

/* ---- connecting ---- */

static void on_connected(uv_connect_t *request, int status)
{
    struct bw_link *link = request->handle->data;
    if (!link || link->failed)
        return;
    if (status < 0) {
        snprintf(link->why, sizeof link->why, "%s", uv_strerror(status));
        drop_socket(link);
        try_next(link);
        return;
    }
    uv_timer_start(&link->timer, on_late, link->options.setup_ms, 0);
    uv_tcp_nodelay(link->tcp, 1);
    uv_read_start((uv_stream_t *)link->tcp, on_alloc, on_read);
    if (!link->options.tls)
        become_up(link);
    else if (!(link->tls = bw_tls_new(link->options.tls, link->host)))
        fail(link, "out of memory for TLS", NULL);
    else
        flush_tls(link);
}

static void try_next(struct bw_link *link)
{
    while (link->tried < link->count) {
        const struct sockaddr *address = (struct sockaddr *)&link->addresses[link->tried++];
        struct connection *new = malloc(sizeof *new);
        if (!new || uv_tcp_init(link->options.loop, &new->tcp) != 0) {
            free(new);
            fail(link, "out of memory for a connection", NULL);
            return;
        }
        link->tcp = &new->tcp;
        link->tcp->data = link;
        int status = uv_tcp_connect(&new->connecting, &new->tcp, address, on_connected);
        if (status == 0)
            return;
        snprintf(link->why, sizeof link->why, "%s", uv_strerror(status));
        drop_socket(link);
    }
    char why[BW_LINK_WHY_MAX + 1];
    memcpy(why, link->why, sizeof why);
    fail(link, "cannot connect", why);
}

static void add_address(struct bw_link *link, const struct sockaddr *address, size_t length)
{
    if (link->count < ADDRESSES_MAX && length <= sizeof link->addresses[0])
        memcpy(&link->addresses[link->count++], address, length);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct resolving *resolving = (struct resolving *)request;
    struct bw_link *link = resolving->link;
    if (link) {
        link->resolving = NULL;
        for (const struct addrinfo *at = found; status == 0 && at; at = at->ai_next)
            add_address(link, at->ai_addr, at->ai_addrlen);
        if (status != 0)
            fail(link, "cannot resolve the host", uv_strerror(status));
        else if (!link->failed)
            try_next(link);
    }
    uv_freeaddrinfo(found);
    free(resolving);
}

/* Numeric addresses need no resolver and no thread for it. */
static bool is_address(struct bw_link *link)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (uv_ip4_addr(link->host, link->options.port, &four) == 0)
        add_address(link, (const struct sockaddr *)&four, sizeof four);
    else if (uv_ip6_addr(link->host, link->options.port, &six) == 0)
        add_address(link, (const struct sockaddr *)&six, sizeof six);
    return link->count > 0;
}

static void resolve(struct bw_link *link)
{
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%u", link->options.port);
    struct resolving *resolving = calloc(1, sizeof *resolving);
    if (resolving && bw_loop_look_up(link->options.loop, &resolving->request, on_resolved,
                                     link->host, port, &hints) == 0) {
        resolving->link = link;
        link->resolving = resolving;
        return;
    }
    free(resolving);
    fail(link, "cannot resolve the host", NULL);
}

struct bw_link *bw_link_open(const struct bw_link_options *options)
{
    struct bw_link *link = calloc(1, sizeof *link);
    if (!link || uv_timer_init(options->loop, &link->timer) != 0) {
        free(link);
        return NULL;
    }
    link->options = *options;
    link->timer.data = link;
    snprintf(link->host, sizeof link->host, "%s", options->host);
    link->options.host = link->host;
    uv_timer_start(&link->timer, on_late, options->within_ms, 0);
    if (is_address(link))
        try_next(link);
    else
        resolve(link);
    return link;
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_link *link = handle->data;
    bw_tls_free(link->tls);
    free(link);
}

void bw_link_close(struct bw_link *link)
{
    link->closed = true;
    if (link->resolving) {
        link->resolving->link = NULL;
        uv_cancel((uv_req_t *)&link->resolving->request);
    }
    drop_socket(link);
    uv_close((uv_handle_t *)&link->timer, on_closed);
}
