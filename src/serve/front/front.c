/* Client connections: accepts them, detects their protocol, flushes them once per turn and closes
 * them; see front.h. */
#include "serve/front/front.h"

#include "core/base/error.h"
#include "net/loopback.h"
#include "os/grow.h"
#include "os/listen.h"
#include "serve/front/state.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PREFACE       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_BYTES 24u
#define READ_BYTES    65536u
#define SWEEP_MS      1000u
#define PROOF_WAIT_MS 1000u               /* time to read the rest of an invalid stream */
#define BACKLOG_MAX   BW_FRONT_UNREAD_MAX /* no transport queues more than that here */

static void release(struct bw_front *front)
{
    if (--front->handles > 0)
        return;
    void (*closed)(void *context) = front->closed;
    void *context = front->context;
    free(front);
    if (closed)
        closed(context);
}

static void on_conn_closed(uv_handle_t *handle)
{
    struct bw_conn *conn = handle->data;
    struct bw_front *front = conn->front;
    bw_tls_free(conn->tls);
    free(conn->out);
    free(conn);
    release(front);
}

static void leave_dirty(struct bw_conn *conn)
{
    struct bw_conn **at = &conn->front->dirty;
    if (!conn->dirty)
        return;
    while (*at && *at != conn)
        at = &(*at)->next_dirty;
    if (*at)
        *at = conn->next_dirty;
}

static void leave_yielded(struct bw_conn *conn)
{
    struct bw_conn **at = &conn->front->yielding;
    if (!conn->yielded)
        return;
    while (*at && *at != conn)
        at = &(*at)->next_yielded;
    if (*at)
        *at = conn->next_yielded;
}

void bw_conn_close(struct bw_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    if (conn->protocol)
        conn->protocol->gone(conn);
    if (conn->binding)
        bw_binding_end(conn->binding, conn->close_cause, conn->last + BW_BIND_HEAD);
    leave_dirty(conn);
    leave_yielded(conn);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    if (--conn->front->count == 0)
        uv_timer_stop(&conn->front->sweeper);
    if (conn->tls)
        bw_conn_send_close_notify(conn);
    uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

void bw_conn_dirty(struct bw_conn *conn)
{
    if (conn->dirty || conn->closing)
        return;
    conn->dirty = true;
    conn->next_dirty = conn->front->dirty;
    conn->front->dirty = conn;
}

void bw_conn_put(struct bw_conn *conn, const void *bytes, size_t length)
{
    if (conn->incomplete)
        return;
    if (!bw_grow(&conn->out, &conn->out_size, conn->out_used + length, 4096, 1)) {
        conn->incomplete = true;
        bw_conn_dirty(conn);
        return;
    }
    memcpy(conn->out + conn->out_used, bytes, length);
    conn->out_used += length;
}

size_t bw_conn_backlog(const struct bw_conn *conn)
{
    return conn->out_used + uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp);
}

static bool has_close_proof(const struct bw_conn *conn)
{
    return conn->has_proof_hash && bw_bind_is_proof(conn->last, conn->proof_hash);
}

/* Recognizes the errors that mean that the client closed the connection. Timeouts and unreachable
 * networks do not count. */
static void note_end(struct bw_conn *conn, ssize_t error)
{
    if (error == UV_EOF || error == UV_ECONNRESET || error == UV_EPIPE)
        conn->close_cause = has_close_proof(conn) ? BW_CLOSED_CLEANLY : BW_CLOSED_BY_CLIENT;
}

struct write {
    uv_write_t request;
    unsigned char *bytes;
};

static void on_written(uv_write_t *request, int status)
{
    struct write *write = (struct write *)request;
    struct bw_conn *conn = request->handle->data;
    free(write->bytes);
    free(write);
    conn->unread_ms = 0;
    if (status != 0 && status != UV_ECANCELED) {
        note_end(conn, status);
        bw_conn_close(conn);
        return;
    }
    if (!conn->closing && bw_conn_backlog(conn) == 0)
        bw_conn_dirty(conn); /* the transport sends more and resumes calls that wait for it */
}

/* Writes what the socket accepts and hands the rest to libuv together with its buffer. */
static void send_out(struct bw_conn *conn)
{
    uv_buf_t buffer = uv_buf_init((char *)conn->out, (unsigned)conn->out_used);
    int sent = 0;
    conn->front->sent += conn->out_used;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp) == 0)
        sent = uv_try_write((uv_stream_t *)&conn->tcp, &buffer, 1);
    if (sent == (int)conn->out_used) {
        conn->out_used = 0;
        return;
    }
    struct write *write = malloc(sizeof *write);
    if (!write) {
        bw_conn_close(conn);
        return;
    }
    size_t from = sent > 0 ? (size_t)sent : 0;
    write->bytes = conn->out;
    if (!conn->unread_ms)
        conn->unread_ms = uv_now(conn->front->options.loop);
    buffer = uv_buf_init((char *)conn->out + from, (unsigned)(conn->out_used - from));
    conn->out = NULL;
    conn->out_used = conn->out_size = 0;
    if (uv_write(&write->request, (uv_stream_t *)&conn->tcp, &buffer, 1, on_written) != 0) {
        free(write->bytes);
        free(write);
        bw_conn_close(conn);
    }
}

/* Closes the connection, possibly because the client sent invalid data. If a lease of the client
 * ends by a clean close, the client may have died in the middle of a record or frame. The server
 * then reads the rest of the stream, only to find the proof. */
static void close_or_await_proof(struct bw_conn *conn)
{
    if (has_close_proof(conn))
        conn->close_cause = BW_CLOSED_CLEANLY;
    if (has_close_proof(conn) || !conn->has_proof_hash) {
        bw_conn_close(conn);
        return;
    }
    conn->broken = true;
    conn->deadline_ms = uv_now(conn->front->options.loop) + PROOF_WAIT_MS;
}

static void flush(struct bw_conn *conn)
{
    if (conn->broken)
        return;
    if (conn->protocol)
        conn->protocol->flush(conn);
    bool more = bw_conn_backlog(conn) >= BW_FRONT_QUEUE_MAX;
    if (conn->tls && !bw_conn_seal(conn)) {
        bw_conn_close(conn);
        return;
    }
    if (conn->out_used)
        send_out(conn);
    if (conn->incomplete)
        bw_conn_close(conn);
    if (conn->closing)
        return;
    if (more && bw_conn_backlog(conn) == 0)
        bw_conn_dirty(conn); /* the socket accepted everything: the transport may have more */
    if (conn->out_used == 0 && conn->out_size > 65536) {
        free(conn->out); /* idle connections hold little memory */
        conn->out = NULL;
        conn->out_size = 0;
    }
    if (bw_conn_backlog(conn) > BACKLOG_MAX)
        bw_conn_close(conn);
    else if (conn->close_when_sent && !more && bw_conn_backlog(conn) == 0)
        close_or_await_proof(conn);
}

static void read_on(struct bw_conn *conn);

static void on_prepare(uv_prepare_t *prepare)
{
    struct bw_front *front = prepare->data;
    struct bw_conn *conn;
    front->turn++;
    uv_idle_stop(&front->waker);
    while ((conn = front->yielding)) {
        front->yielding = conn->next_yielded;
        conn->yielded = false;
        read_on(conn);
        bw_conn_dirty(conn);
    }
    while ((conn = front->dirty)) {
        front->dirty = conn->next_dirty;
        conn->dirty = false;
        flush(conn);
    }
}

/* Chooses the protocol when enough bytes have arrived. Returns false to close the connection. */
static bool choose_protocol(struct bw_conn *conn)
{
    bool may_be_h2 = memcmp(conn->first, PREFACE, conn->first_used) == 0;
    if (may_be_h2 && conn->first_used < PREFACE_BYTES)
        return true; /* not yet */
    if (may_be_h2 ? !bw_h2_begin(conn) : !bw_http1_begin(conn))
        return false;
    conn->protocol = may_be_h2 ? &bw_protocol_h2 : &bw_protocol_http1;
    if (may_be_h2)
        conn->deadline_ms = 0;
    return conn->protocol->bytes(conn, conn->first, conn->first_used);
}

bool bw_conn_take(struct bw_conn *conn, const unsigned char *bytes, size_t length)
{
    if (!conn->protocol) {
        size_t want = PREFACE_BYTES - conn->first_used, take = length < want ? length : want;
        memcpy(conn->first + conn->first_used, bytes, take);
        conn->first_used += take;
        if (!choose_protocol(conn))
            return false;
        bytes += take;
        length -= take;
    }
    return length == 0 || !conn->protocol || conn->closing ||
           conn->protocol->bytes(conn, bytes, length);
}

/* Keeps the last bytes of the TCP stream, before TLS. A guardian appends the proof to whatever its
 * client was sending when it died. */
static void note_last(struct bw_conn *conn, const unsigned char *bytes, size_t length)
{
    size_t keep = length < BW_BIND_BYTES ? BW_BIND_BYTES - length : 0;
    memmove(conn->last, conn->last + BW_BIND_BYTES - keep, keep);
    memcpy(conn->last + keep, bytes + length - (BW_BIND_BYTES - keep), BW_BIND_BYTES - keep);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char buffer[READ_BYTES]; /* callers use its content before the next read */
    (void)handle;
    (void)suggested;
    *out = uv_buf_init(buffer, sizeof buffer);
}

static void on_wake(uv_idle_t *waker)
{
    (void)waker;
}

void bw_conn_yield(struct bw_conn *conn)
{
    struct bw_front *front = conn->front;
    if (conn->closing || conn->yielded)
        return;
    uv_read_stop((uv_stream_t *)&conn->tcp);
    conn->yielded = true;
    conn->next_yielded = front->yielding;
    front->yielding = conn;
    uv_idle_start(&front->waker, on_wake);
}

/* Keeps one connection from delaying the others: libuv would read on while data is available. */
static void yield_after(struct bw_conn *conn, size_t bytes)
{
    struct bw_front *front = conn->front;
    conn->turn_bytes = conn->turn == front->turn ? conn->turn_bytes + bytes : bytes;
    conn->turn = front->turn;
    if (conn->turn_bytes >= BW_FRONT_TURN_BYTES)
        bw_conn_yield(conn);
}

static void on_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct bw_conn *conn = stream->data;
    const unsigned char *bytes = (const unsigned char *)buffer->base;
    if (count > 0)
        conn->front->received += (size_t)count;
    if (count > 0 && conn->binding)
        note_last(conn, bytes, (size_t)count);
    if (count == UV_EOF && !conn->broken && conn->protocol && conn->protocol->no_more &&
        conn->protocol->no_more(conn))
        return;
    if (count < 0) {
        note_end(conn, count);
        bw_conn_close(conn);
    } else if (!conn->broken &&
               !(conn->tls ? bw_conn_open_bytes : bw_conn_take)(conn, bytes, (size_t)count)) {
        close_or_await_proof(conn);
    } else {
        yield_after(conn, (size_t)count);
    }
}

void bw_conn_pause(struct bw_conn *conn)
{
    conn->paused = true;
    uv_read_stop((uv_stream_t *)&conn->tcp);
}

static void read_on(struct bw_conn *conn)
{
    if (!conn->closing && !conn->yielded && !conn->paused)
        uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_bytes);
}

void bw_conn_resume(struct bw_conn *conn)
{
    conn->paused = false;
    read_on(conn);
}

/* JSON clients send header and body separately. The kernel clears this flag on its own, so set it
 * again and again. */
void bw_conn_quick(struct bw_conn *conn)
{
    int fd, one = 1;
    if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return address->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

/* All leases of a connection share one proof. */
static bool takes_proof(struct bw_conn *conn, const unsigned char hash[BW_BIND_PROOF])
{
    if (!conn->has_proof_hash)
        memcpy(conn->proof_hash, hash, BW_BIND_PROOF);
    conn->has_proof_hash = true;
    return memcmp(conn->proof_hash, hash, BW_BIND_PROOF) == 0;
}

struct bw_binding *bw_conn_binding(struct bw_conn *conn, enum bw_bind bind,
                                   const unsigned char hash[BW_BIND_PROOF])
{
    struct sockaddr_storage address;
    int length = sizeof address;
    if (!conn->binding &&
        uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &length) == 0) {
        bw_time hold_off =
            bw_bind_hold_off(is_loopback(&address), conn->front->options.bind_hold_off_ns);
        if (hold_off > 0)
            conn->binding = bw_binding_new(conn->front->options.service, hold_off);
    }
    if (!conn->binding || (bind == BW_BIND_CLEAN_CLOSE && !takes_proof(conn, hash)))
        return NULL;
    bw_binding_ask(conn->binding, bind);
    return conn->binding;
}

/* A client that reads slowly is not disconnected. */
static void check_progress(struct bw_conn *conn, uint64_t now)
{
    size_t size = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);
    if (conn->unread_ms && size != conn->unread_size)
        conn->unread_ms = now;
    conn->unread_size = size;
}

static void on_sweep(uv_timer_t *timer)
{
    struct bw_front *front = timer->data;
    uint64_t now = uv_now(timer->loop);
    bool leaderless = bw_service_is_leaderless(front->options.service, BW_FRONT_LEADERLESS_MS);
    for (struct bw_conn *conn = front->conns, *next; conn; conn = next) {
        next = conn->next;
        check_progress(conn, now);
        if ((conn->deadline_ms && now >= conn->deadline_ms) ||
            (conn->unread_ms && now >= conn->unread_ms + BW_FRONT_UNREAD_MS) ||
            (conn->protocol && !conn->protocol->sweep(conn, now, leaderless)))
            bw_conn_close(conn);
    }
}

static void on_accept(uv_stream_t *listener, int status)
{
    struct bw_front *front = listener->data;
    struct bw_conn *conn = status == 0 ? calloc(1, sizeof *conn) : NULL;
    if (!conn) {
        if (status == 0)
            bw_refuse(&front->refuser);
        return;
    }
    conn->front = front;
    uv_tcp_init(front->options.loop, &conn->tcp);
    conn->tcp.data = conn;
    front->handles++;
    front->count++;
    conn->next = front->conns;
    conn->link = &front->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    front->conns = conn;
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) != 0 ||
        front->count > BW_FRONT_CONNECTIONS_MAX || !bw_conn_secure(conn)) {
        bw_conn_close(conn);
        return;
    }
    uv_tcp_nodelay(&conn->tcp, 1);
    uv_tcp_keepalive(&conn->tcp, 1, 30);
    bw_conn_quick(conn);
    conn->deadline_ms = uv_now(front->options.loop) + BW_FRONT_IDLE_MS;
    if (!uv_is_active((uv_handle_t *)&front->sweeper))
        uv_timer_start(&front->sweeper, on_sweep, SWEEP_MS, SWEEP_MS);
    uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_bytes);
}

static int listen_on(struct bw_front *front, char *why)
{
    struct sockaddr_storage address;
    const struct bw_front_options *options = &front->options;
    int length = sizeof address;
    int error = bw_listen(&front->listener, options->host, options->port, 1024, on_accept);
    if (!error)
        error = uv_tcp_getsockname(&front->listener, (struct sockaddr *)&address, &length);
    if (error) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot listen on %s:%u: %s", options->host,
                 options->port, uv_strerror(error));
        return BW_EIO;
    }
    uint16_t port = address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                  : ((struct sockaddr_in *)&address)->sin_port;
    front->port = ntohs(port);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void describe(const struct bw_conn *conn, struct bw_client_view *out)
{
    struct sockaddr_storage address;
    int length = sizeof address;
    char host[INET6_ADDRSTRLEN] = "";
    *out = (struct bw_client_view){.protocol = conn->protocol == &bw_protocol_h2      ? "HTTP/2"
                                               : conn->protocol == &bw_protocol_http1 ? "HTTP/1.1"
                                                                                      : "",
                                   .tls = conn->tls};
    memcpy(out->user, conn->caller.name, sizeof out->user);
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &length) != 0)
        return;
    uv_ip_name((struct sockaddr *)&address, host, sizeof host);
    bool six = address.ss_family == AF_INET6;
    unsigned port = ntohs(six ? ((struct sockaddr_in6 *)&address)->sin6_port
                              : ((struct sockaddr_in *)&address)->sin_port);
    snprintf(out->address, sizeof out->address, six ? "[%s]:%u" : "%s:%u", host, port);
}

static uint32_t list_clients(void *context, struct bw_client_view *out, uint32_t size)
{
    const struct bw_front *front = context;
    uint32_t used = 0;
    for (const struct bw_conn *conn = front->conns; conn && used < size; conn = conn->next)
        describe(conn, &out[used++]);
    return front->count;
}

int bw_front_open(struct bw_front **out, const struct bw_front_options *options, char *why)
{
    struct bw_front *front = calloc(1, sizeof *front);
    if (!front)
        return BW_ENOMEM;
    front->options = *options;
    front->is_local = !options->credentials && bw_net_host_is_loopback(options->host);
    uv_tcp_init(options->loop, &front->listener);
    uv_prepare_init(options->loop, &front->sender);
    uv_timer_init(options->loop, &front->sweeper);
    uv_idle_init(options->loop, &front->waker);
    front->listener.data = front->sender.data = front->sweeper.data = front->waker.data = front;
    front->handles = 4;
    front->refuser = (struct bw_refuser){.listener = (uv_stream_t *)&front->listener,
                                         .handles = &front->handles,
                                         .released = on_handle_closed};
    int error = listen_on(front, why);
    if (error) {
        bw_front_close(front, NULL, NULL);
        return error;
    }
    uv_prepare_start(&front->sender, on_prepare);
    bw_service_list_clients(options->service, list_clients, front);
    *out = front;
    return 0;
}

uint16_t bw_front_port(const struct bw_front *front)
{
    return front->port;
}

void bw_front_close(struct bw_front *front, void (*closed)(void *context), void *context)
{
    front->closing = true;
    bw_service_leave(front->options.service);
    bw_service_list_clients(front->options.service, NULL, NULL);
    front->closed = closed;
    front->context = context;
    while (front->conns)
        bw_conn_close(front->conns);
    uv_close((uv_handle_t *)&front->listener, on_handle_closed);
    uv_close((uv_handle_t *)&front->sender, on_handle_closed);
    uv_close((uv_handle_t *)&front->sweeper, on_handle_closed);
    uv_close((uv_handle_t *)&front->waker, on_handle_closed);
}
