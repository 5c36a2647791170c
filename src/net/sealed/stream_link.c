/* One connection of a stream: its socket, TLS, and bytes; see stream.h. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "net/sealed/stream_state.h"
#include "os/grow.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES   16384u /* one TLS record */
#define SEALED_BYTES  (PIECE_BYTES + 256u)
#define KEEP_ALIVE_S  2u
#define NO_ACK_MS     5000
#define IDLE_IN_BYTES 4096u /* buffer kept by an idle connection */

struct writing {
    uv_write_t request;
    unsigned char bytes[];
};

static void unlink_link(struct link *link)
{
    for (struct link **at = &link->stream->links; *at; at = &(*at)->next)
        if (*at == link) {
            *at = link->next;
            return;
        }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    struct bw_stream *stream = link->stream;
    if (--link->handles > 0)
        return;
    while (link->first) {
        struct waiting *next = link->first->next;
        free(link->first);
        link->first = next;
    }
    bw_tls_free(link->tls);
    free(link->in);
    free(link);
    stream_release(stream);
}

void stream_link_close(struct link *link)
{
    if (link->closing)
        return;
    link->closing = true;
    unlink_link(link);
    link->stream->counts.links--;
    uv_close((uv_handle_t *)&link->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&link->timer, on_handle_closed);
}

static void gone(struct link *link, const char *why)
{
    if (link->closing)
        return;
    stream_link_close(link);
    stream_on_gone(link, why);
}

static void on_timer(uv_timer_t *timer)
{
    stream_on_time(timer->data);
}

void stream_link_time(struct link *link, uint64_t ms)
{
    uv_timer_start(&link->timer, on_timer, ms, 0);
}

struct link *stream_link_new(struct bw_stream *stream)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->stream = stream;
    link->id = ++stream->next_id;
    uv_tcp_init(stream->options.loop, &link->tcp);
    uv_timer_init(stream->options.loop, &link->timer);
    link->tcp.data = link->timer.data = link;
    link->handles = 2;
    link->next = stream->links;
    stream->links = link;
    stream->handles++;
    stream->counts.links++;
    return link;
}

/* ---- outgoing ---- */

static void on_written(uv_write_t *request, int status)
{
    (void)status; /* the reading side notices it too and reports it */
    free(request);
}

/* Fails the connection by ending the reading side: no hook is called from within a call. */
static bool fail(struct link *link)
{
    int fd;
    if (uv_fileno((uv_handle_t *)&link->tcp, &fd) == 0)
        shutdown(fd, SHUT_RDWR);
    return false;
}

static bool write_socket(struct link *link, const unsigned char *bytes, size_t length)
{
    uv_stream_t *tcp = (uv_stream_t *)&link->tcp;
    uv_buf_t all = uv_buf_init((char *)bytes, (unsigned)length);
    int done = uv_stream_get_write_queue_size(tcp) ? 0 : uv_try_write(tcp, &all, 1);
    size_t sent = done > 0 ? (size_t)done : 0;
    link->stream->counts.bytes_out += length;
    if (sent == length)
        return true;
    struct writing *writing = NULL;
    if (uv_stream_get_write_queue_size(tcp) + length <= BW_STREAM_QUEUE_MAX)
        writing = malloc(sizeof *writing + length - sent);
    if (!writing) {
        link->stream->counts.queue_full++;
        return fail(link);
    }
    memcpy(writing->bytes, bytes + sent, length - sent);
    uv_buf_t rest = uv_buf_init((char *)writing->bytes, (unsigned)(length - sent));
    if (uv_write(&writing->request, tcp, &rest, 1, on_written) == 0)
        return true;
    free(writing);
    return fail(link);
}

static bool flush_tls(struct link *link)
{
    unsigned char sealed[SEALED_BYTES];
    size_t got;
    while ((got = bw_tls_take(link->tls, sealed, sizeof sealed)) > 0)
        if (!write_socket(link, sealed, got))
            return false;
    return true;
}

bool stream_link_write(struct link *link, const unsigned char *bytes, size_t length)
{
    if (!link->tls)
        return write_socket(link, bytes, length);
    for (size_t at = 0; at < length; at += PIECE_BYTES) {
        size_t piece = length - at < PIECE_BYTES ? length - at : PIECE_BYTES;
        if (bw_tls_write(link->tls, bytes + at, piece) != 0 || !flush_tls(link))
            return fail(link);
    }
    return true;
}

/* ---- incoming ---- */

/* Makes sure that `more` bytes fit. */
static bool reserve_input(struct link *link, size_t more)
{
    return bw_grow(&link->in, &link->in_size, link->in_used + more, link->in_used + more, 1);
}

/* Plaintext arrived. Returns false to close the connection. */
static bool take(struct link *link, const unsigned char *bytes, size_t length)
{
    if (!reserve_input(link, length))
        return false;
    memcpy(link->in + link->in_used, bytes, length);
    link->in_used += length;
    if (!stream_on_bytes(link) || link->closing)
        return false;
    if (link->in_used == 0 && link->in_size > IDLE_IN_BYTES) {
        free(link->in);
        link->in = NULL;
        link->in_size = 0;
    }
    return true;
}

static bool refuse(struct link *link, const char *why)
{
    bw_credentials_refused(link->stream->options.credentials, why);
    return false;
}

static bool come_up(struct link *link)
{
    if (!link->dialled && !bw_tls_peer_may_serve(link->tls))
        return refuse(link, "its certificate is not valid for a node (server)");
    stream_on_up(link);
    return true;
}

static bool take_sealed(struct link *link, const unsigned char *bytes, size_t length)
{
    unsigned char clear[PIECE_BYTES];
    char why[BW_TLS_WHY_MAX + 1] = "";
    int error = bw_tls_feed(link->tls, bytes, length, why), got = 0;
    flush_tls(link); /* also sends an alert */
    if (error)
        return refuse(link, why);
    if (!bw_tls_is_up(link->tls))
        return true;
    if (!link->up && !come_up(link))
        return false;
    while ((got = bw_tls_read(link->tls, clear, sizeof clear, why)) > 0)
        if (!take(link, clear, (size_t)got))
            return false;
    return got == 0;
}

static void on_read(uv_stream_t *tcp, ssize_t got, const uv_buf_t *buffer)
{
    struct link *link = tcp->data;
    const unsigned char *bytes = (const unsigned char *)buffer->base;
    if (got == 0)
        return;
    if (got < 0) {
        gone(link, got == UV_EOF ? "the other side closed the connection" : uv_strerror((int)got));
        return;
    }
    link->stream->counts.bytes_in += (size_t)got;
    if (!(link->tls ? take_sealed(link, bytes, (size_t)got) : take(link, bytes, (size_t)got)) &&
        !link->closing) {
        link->stream->counts.refused++;
        gone(link, "the other side sent invalid frames");
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct link *link = handle->data;
    (void)suggested;
    *out = uv_buf_init((char *)link->stream->chunk, sizeof link->stream->chunk);
}

/* ---- connecting ---- */

/* The kernel also detects a silent host, within seconds. */
static void set_socket(uv_tcp_t *tcp)
{
    int fd, no_ack_ms = NO_ACK_MS;
    uv_tcp_nodelay(tcp, 1);
    uv_tcp_keepalive(tcp, 1, KEEP_ALIVE_S);
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &no_ack_ms, sizeof no_ack_ms);
}

static void begin(struct link *link)
{
    set_socket(&link->tcp);
    uv_read_start((uv_stream_t *)&link->tcp, on_alloc, on_read);
    if (!link->stream->options.credentials)
        stream_on_up(link);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct link *link = request->data;
    struct bw_credentials *credentials = link->stream->options.credentials;
    if (link->closing)
        return;
    if (status == 0 && credentials)
        link->tls = bw_tls_new(bw_credentials_client(credentials), link->host);
    if (status != 0 || (credentials && !link->tls)) {
        gone(link, status ? uv_strerror(status) : "out of memory for TLS");
        return;
    }
    begin(link);
    if (link->tls)
        flush_tls(link);
}

static void on_no_socket(uv_timer_t *timer)
{
    gone(timer->data, "cannot connect to this address");
}

void stream_link_dial(struct link *link)
{
    link->dialled = true;
    link->connect.data = link;
    link->stream->counts.dialled++;
    if (uv_tcp_connect(&link->connect, &link->tcp, (struct sockaddr *)&link->address,
                       on_connected) != 0)
        uv_timer_start(&link->timer, on_no_socket, 0, 0);
}

bool stream_link_accept(struct link *link, uv_stream_t *listener)
{
    struct bw_credentials *credentials = link->stream->options.credentials;
    bool good = uv_accept(listener, (uv_stream_t *)&link->tcp) == 0;
    if (good && credentials)
        link->tls = bw_tls_new_server(bw_credentials_server(credentials));
    if (!good || (credentials && !link->tls)) {
        stream_link_close(link);
        return false;
    }
    link->stream->counts.accepted++;
    begin(link);
    return true;
}
