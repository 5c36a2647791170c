/* Sealed frames over UDP; see datagram.h. */
#include "net/sealed/datagram.h"

#include "core/base/error.h"
#include "net/sealed/node_index.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IN_BATCH       32u
#define IN_BYTES       2048u /* longer than any valid frame, so that a truncated one is detected */
#define BATCHES_A_TURN 8u
#define OUT_BATCH      64u
#define OUT_MAX        512u /* two messages to every member of a large cluster */
#define BUFFER_BYTES   (1 << 20)

struct packet {
    struct sockaddr_storage to;
    socklen_t to_length;
    uint32_t length;
    unsigned char bytes[BW_DATAGRAM_MAX];
};

struct bw_datagram {
    struct bw_datagram_options options;
    int fd;
    uv_poll_t poll;
    uv_prepare_t prepare; /* before the loop waits: sends the frames that timers queued */
    uv_check_t check;     /* after the loop waited: sends the frames that its events queued */
    uint32_t handles;
    bool waiting, closing; /* waiting: for space in the socket's buffer */
    void (*closed)(void *context);
    struct sockaddr_storage bound;
    struct bw_node_index index;
    struct sockaddr_storage *addresses; /* by position in the index */
    struct bw_datagram_counts counts;
    struct bw_sealed opened;
    uint32_t first, last; /* range of `out` that is queued */
    struct packet out[OUT_MAX];
    unsigned char in[IN_BATCH][IN_BYTES];
};

socklen_t bw_sockaddr_length(const struct sockaddr *address)
{
    return address->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
           : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : 0;
}

int bw_listen_error(int code)
{
    if (code == EADDRINUSE)
        return BW_EBUSY;
    return code == EADDRNOTAVAIL || code == EACCES || code == EAFNOSUPPORT ? BW_EINVAL : BW_EIO;
}

/* ---- outgoing ---- */

static void on_ready(uv_poll_t *poll, int status, int events);

static void watch_socket(struct bw_datagram *d, bool writable)
{
    d->waiting = writable;
    uv_poll_start(&d->poll, UV_READABLE | (writable ? UV_WRITABLE : 0), on_ready);
}

/* Sends as many as the kernel accepts in one call. Returns false if it accepts no more now. */
static bool push(struct bw_datagram *d)
{
    struct mmsghdr heads[OUT_BATCH];
    struct iovec parts[OUT_BATCH];
    unsigned count = d->last - d->first < OUT_BATCH ? d->last - d->first : OUT_BATCH;
    memset(heads, 0, count * sizeof *heads);
    for (unsigned i = 0; i < count; i++) {
        struct packet *packet = &d->out[d->first + i];
        parts[i] = (struct iovec){packet->bytes, packet->length};
        heads[i].msg_hdr = (struct msghdr){.msg_name = &packet->to,
                                           .msg_namelen = packet->to_length,
                                           .msg_iov = &parts[i],
                                           .msg_iovlen = 1};
    }
    int sent = sendmmsg(d->fd, heads, count, MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS))
        return false;
    if (sent < 0) { /* this one cannot be sent; try the others */
        d->counts.not_sent += errno != EINTR;
        d->first += errno != EINTR;
        return true;
    }
    for (int i = 0; i < sent; i++)
        d->counts.bytes_out += d->out[d->first + (unsigned)i].length;
    d->counts.frames_out += (unsigned)sent;
    d->counts.batches_out++;
    d->first += (unsigned)sent;
    return true;
}

void bw_datagram_flush(struct bw_datagram *d)
{
    bool accepted = true;
    while (d->first < d->last && accepted)
        accepted = push(d);
    if (d->first == d->last)
        d->first = d->last = 0;
    uv_prepare_stop(&d->prepare);
    uv_check_stop(&d->check);
    if (!d->closing && d->waiting == accepted)
        watch_socket(d, !accepted);
}

static void on_prepare(uv_prepare_t *handle)
{
    bw_datagram_flush(handle->data);
}

static void on_check(uv_check_t *handle)
{
    bw_datagram_flush(handle->data);
}

/* An IPv6 socket sends to IPv4 addresses in their mapped form. */
static bool write_address(const struct bw_datagram *d, struct packet *packet,
                          const struct sockaddr *address)
{
    packet->to_length = bw_sockaddr_length(address);
    if (packet->to_length == 0)
        return false;
    memcpy(&packet->to, address, packet->to_length);
    if (address->sa_family == AF_INET && d->bound.ss_family == AF_INET6) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four->sin_port};
        six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&six.sin6_addr.s6_addr[12], &four->sin_addr, 4);
        memcpy(&packet->to, &six, sizeof six);
        packet->to_length = sizeof six;
    }
    return true;
}

/* Returns the next free, addressed packet; NULL with an error if the queue is full. */
static struct packet *next_packet(struct bw_datagram *d, const struct sockaddr *address, int *error)
{
    if (d->last == OUT_MAX)
        bw_datagram_flush(d);
    if (d->last == OUT_MAX) {
        d->counts.queue_full++;
        *error = BW_ELIMIT;
        return NULL;
    }
    struct packet *packet = &d->out[d->last];
    *error = write_address(d, packet, address) ? 0 : BW_EINVAL;
    return *error ? NULL : packet;
}

static int queue_packet(struct bw_datagram *d, struct packet *packet, int length)
{
    if (length < 0)
        return length;
    packet->length = (uint32_t)length;
    d->last++;
    if (!d->closing) {
        uv_prepare_start(&d->prepare, on_prepare);
        uv_check_start(&d->check, on_check);
    }
    return 0;
}

int bw_datagram_send_to(struct bw_datagram *d, const struct sockaddr *address, bw_node to,
                        unsigned kind, const void *payload, size_t length)
{
    int error;
    struct packet *packet = next_packet(d, address, &error);
    if (!packet)
        return error;
    return queue_packet(d, packet,
                        bw_seal_make(d->options.seal, to, kind, payload, length, packet->bytes,
                                     sizeof packet->bytes));
}

int bw_datagram_send(struct bw_datagram *d, bw_node to, unsigned kind, const void *payload,
                     size_t length)
{
    const struct sockaddr *address = bw_datagram_address(d, to);
    return address ? bw_datagram_send_to(d, address, to, kind, payload, length) : BW_ENOTMEMBER;
}

int bw_datagram_start_handshake(struct bw_datagram *d, const struct sockaddr *address, bw_node to)
{
    int error;
    struct packet *packet = next_packet(d, address, &error);
    if (!packet)
        return error;
    return queue_packet(
        d, packet,
        bw_seal_start_handshake(d->options.seal, to, packet->bytes, sizeof packet->bytes));
}

static void send_reply(struct bw_datagram *d, const struct sockaddr *address)
{
    int error;
    struct packet *packet = next_packet(d, address, &error);
    if (!packet)
        return;
    memcpy(packet->bytes, d->opened.reply, d->opened.reply_length);
    queue_packet(d, packet, (int)d->opened.reply_length);
}

/* ---- incoming ---- */

static void unmap(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six->sin6_port};
    memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], 4);
    memcpy(address, &four, sizeof four);
}

static void take(struct bw_datagram *d, const unsigned char *bytes, size_t length,
                 struct sockaddr_storage *from)
{
    const struct bw_datagram_options *options = &d->options;
    struct bw_sealed *opened = &d->opened;
    const struct sockaddr *address = (const struct sockaddr *)from;
    int result = bw_seal_open(options->seal, bytes, length, opened);
    if (result < 0)
        return;
    unmap(from);
    if (result == BW_SEAL_REPLY)
        send_reply(d, address);
    if (result == BW_SEAL_FRAME && opened->kind <= BW_SEAL_KIND_MAX)
        options->frame(options->context, opened, address);
    if (opened->met && options->met)
        options->met(options->context, opened->from, opened->restarted, address);
    if (opened->lost && options->lost && !d->closing)
        options->lost(options->context, opened->from, address);
}

/* Receives one batch. Returns false if nothing more is waiting. */
static bool pull(struct bw_datagram *d)
{
    struct mmsghdr heads[IN_BATCH];
    struct iovec parts[IN_BATCH];
    struct sockaddr_storage from[IN_BATCH];
    memset(heads, 0, sizeof heads);
    for (unsigned i = 0; i < IN_BATCH; i++) {
        parts[i] = (struct iovec){d->in[i], IN_BYTES};
        heads[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                           .msg_namelen = sizeof from[i],
                                           .msg_iov = &parts[i],
                                           .msg_iovlen = 1};
    }
    int got = recvmmsg(d->fd, heads, IN_BATCH, MSG_DONTWAIT, NULL);
    if (got <= 0)
        return false;
    d->counts.batches_in++;
    bw_seal_clock(d->options.seal, (bw_time)uv_hrtime());
    for (int i = 0; i < got && !d->closing; i++) {
        d->counts.frames_in++;
        d->counts.bytes_in += heads[i].msg_len;
        if (heads[i].msg_hdr.msg_flags & MSG_TRUNC || heads[i].msg_len > BW_DATAGRAM_MAX)
            d->counts.truncated++;
        else
            take(d, d->in[i], heads[i].msg_len, &from[i]);
    }
    return (unsigned)got == IN_BATCH;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct bw_datagram *d = poll->data;
    if (status < 0)
        return;
    if (events & UV_WRITABLE)
        bw_datagram_flush(d);
    if (events & UV_READABLE)
        for (unsigned i = 0; i < BATCHES_A_TURN && !d->closing && pull(d); i++)
            ;
}

/* ---- addresses ---- */

int bw_datagram_set_address(struct bw_datagram *d, bw_node node, const struct sockaddr *address)
{
    socklen_t length = bw_sockaddr_length(address);
    if (length == 0 || node == BW_NODE_NONE)
        return BW_EINVAL;
    uint32_t at = bw_node_index_find(&d->index, node);
    if (at == BW_NODE_INDEX_NONE)
        at = bw_node_index_add(&d->index, node);
    if (at == BW_NODE_INDEX_NONE)
        return BW_ELIMIT;
    memcpy(&d->addresses[at], address, length);
    return 0;
}

const struct sockaddr *bw_datagram_address(const struct bw_datagram *d, bw_node node)
{
    uint32_t at = bw_node_index_find(&d->index, node);
    return at == BW_NODE_INDEX_NONE ? NULL : (const struct sockaddr *)&d->addresses[at];
}

void bw_datagram_forget(struct bw_datagram *d, bw_node node)
{
    uint32_t at = bw_node_index_find(&d->index, node);
    if (at == BW_NODE_INDEX_NONE)
        return;
    bw_node_index_remove(&d->index, at);
    d->addresses[at] = d->addresses[d->index.count];
}

void bw_datagram_sweep(struct bw_datagram *d, bool (*keeps)(void *context, bw_node node),
                       void *context)
{
    for (uint32_t i = d->index.count; i > 0; i--) {
        bw_node node = d->index.nodes[i - 1];
        if (!keeps(context, node))
            bw_datagram_forget(d, node);
    }
}

/* ---- opening and closing ---- */

static int open_socket(struct bw_datagram *d, char *why)
{
    const struct sockaddr *listen = d->options.listen;
    int size = BUFFER_BYTES;
    socklen_t length = sizeof d->bound;
    d->fd = socket(listen->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd >= 0) {
        setsockopt(d->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        setsockopt(d->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
    if (d->fd < 0 || bind(d->fd, listen, bw_sockaddr_length(listen)) != 0 ||
        getsockname(d->fd, (struct sockaddr *)&d->bound, &length) != 0) {
        int error = bw_listen_error(errno);
        snprintf(why, BW_DATAGRAM_WHY_MAX + 1, "cannot listen for datagrams: %s", strerror(errno));
        return error;
    }
    return 0;
}

static void release(struct bw_datagram *d)
{
    if (d->fd >= 0)
        close(d->fd);
    bw_node_index_deinit(&d->index);
    free(d->addresses);
    free(d);
}

static int start(struct bw_datagram *d, char *why)
{
    uv_loop_t *loop = d->options.loop;
    int error = uv_poll_init(loop, &d->poll, d->fd);
    if (error) {
        snprintf(why, BW_DATAGRAM_WHY_MAX + 1, "cannot wait for datagrams: %s", uv_strerror(error));
        return BW_EIO;
    }
    uv_prepare_init(loop, &d->prepare);
    uv_check_init(loop, &d->check);
    d->poll.data = d->prepare.data = d->check.data = d;
    d->handles = 3;
    watch_socket(d, false);
    return 0;
}

int bw_datagram_open(struct bw_datagram **out, const struct bw_datagram_options *options, char *why)
{
    struct bw_datagram *d = NULL;
    int error = BW_EINVAL;
    if (bw_sockaddr_length(options->listen) == 0 || options->peers_max == 0) {
        snprintf(why, BW_DATAGRAM_WHY_MAX + 1, "invalid listen address: expected IPv4 or IPv6");
        return error;
    }
    d = calloc(1, sizeof *d);
    if (d) {
        d->options = *options;
        d->fd = -1;
        d->addresses = calloc(options->peers_max, sizeof *d->addresses);
    }
    if (!d || !d->addresses || bw_node_index_init(&d->index, options->peers_max) != 0) {
        snprintf(why, BW_DATAGRAM_WHY_MAX + 1, "out of memory for datagrams");
        error = BW_ENOMEM;
    } else if ((error = open_socket(d, why)) == 0) {
        error = start(d, why);
    }
    if (error && d)
        release(d);
    if (!error)
        *out = d;
    return error;
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_datagram *d = handle->data;
    if (--d->handles > 0)
        return;
    void (*closed)(void *context) = d->closed;
    void *context = d->options.context;
    release(d);
    if (closed)
        closed(context);
}

void bw_datagram_close(struct bw_datagram *d, void (*closed)(void *context))
{
    d->closing = true;
    d->closed = closed;
    bw_datagram_flush(d);
    uv_close((uv_handle_t *)&d->poll, on_closed);
    uv_close((uv_handle_t *)&d->prepare, on_closed);
    uv_close((uv_handle_t *)&d->check, on_closed);
}

int bw_datagram_socket(const struct bw_datagram *d)
{
    return d->fd;
}

const struct sockaddr *bw_datagram_bound(const struct bw_datagram *d)
{
    return (const struct sockaddr *)&d->bound;
}

void bw_datagram_counts(const struct bw_datagram *d, struct bw_datagram_counts *out)
{
    *out = d->counts;
}
