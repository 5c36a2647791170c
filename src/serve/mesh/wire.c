/* One connection between nodes: frames in and out, with or without TLS; see state.h. */
#include "core/base/bug.h"
#include "core/base/little.h"
#include "os/grow.h"
#include "serve/mesh/state.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define QUEUE_MAX ((size_t)256 << 20)
/* A BULK frame is given to the connection while at most this much waits there: so much may precede
 * an URGENT frame, apart from one BULK frame. */
#define AHEAD_BYTES ((size_t)64 << 10)
/* Bytes that the kernel accepts in addition to those on the network, where it can limit them. */
#define UNSENT_BYTES (256 << 10)
#define READ_BYTES   65536u
#define FRAME_HEAD   5u
/* Bytes that one connection may process in one turn of the loop. Timers and other connections wait
 * meanwhile. */
#define TURN_BYTES    ((size_t)512 << 10)
#define PIECE_BYTES   16384u /* one TLS record */
#define HANDSHAKE_MAX 65536u /* bytes of the TLS handshake at one time: certificate chains */
#define RECORD_MORE   256u   /* maximum bytes that TLS adds to a record */
#define LASTS_MS      1000u  /* an established connection that ends sooner counts as failed */

struct frame { /* a frame, or TLS records, on their way */
    uv_write_t request;
    struct frame *next; /* waits: the next one of its lane */
    size_t length;
    unsigned char bytes[];
};

static void on_wire_closed(uv_handle_t *handle)
{
    struct wire *wire = handle->data;
    struct bw_mesh *mesh = wire->mesh;
    while (wire->bulk) {
        struct frame *frame = wire->bulk;
        wire->bulk = frame->next;
        free(frame);
    }
    bw_tls_free(wire->tls);
    free(wire->in);
    free(wire);
    mesh_release(mesh);
}

void wire_close(struct wire *wire)
{
    struct bw_mesh *mesh = wire->mesh;
    struct peer *peer = wire->peer;
    bw_node node = peer ? peer->member.id : wire->from;
    bool established = peer ? wire->up : wire->from != BW_NODE_NONE;
    if (wire->closing)
        return;
    wire->closing = true;
    if (peer) {
        peer->wire = NULL;
        peer->connected = false;
        if (wire->up && (!wire->tls || uv_now(mesh->options.loop) - wire->up_ms >= LASTS_MS))
            peer->failures = 0; /* TLS 1.3 refuses a certificate after the handshake */
        mesh_retry_later(peer);
    } else {
        mesh_forget_incoming(wire);
    }
    uv_close((uv_handle_t *)&wire->tcp, on_wire_closed);
    if (established && !mesh->closing)
        mesh->options.closed(mesh->options.context, node);
}

static void send_waiting(struct wire *wire);

static void on_written(uv_write_t *request, int status)
{
    struct wire *wire = request->handle->data;
    free(request);
    if (status != 0 && status != UV_ECANCELED)
        wire_close(wire);
    else if (status == 0)
        send_waiting(wire);
}

static void put_head(unsigned char *head, size_t length, enum bw_mesh_frame kind)
{
    bw_put32(head, (uint32_t)(length + 1));
    head[4] = (unsigned char)kind;
}

static struct frame *frame_new(enum bw_mesh_frame kind, const struct bw_part *parts, uint32_t count)
{
    size_t length = 0, at = FRAME_HEAD;
    for (uint32_t i = 0; i < count; i++)
        length += parts[i].length;
    struct frame *frame =
        length + 1 > BW_MESH_FRAME_MAX ? NULL : malloc(sizeof *frame + FRAME_HEAD + length);
    if (!frame)
        return NULL;
    put_head(frame->bytes, length, kind);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].length)
            memcpy(frame->bytes + at, parts[i].at, parts[i].length);
        at += parts[i].length;
    }
    frame->next = NULL;
    frame->length = at;
    return frame;
}

/* Ends the connection: a part of the frame may be sent already, or of what TLS encrypted, and the
 * other side cannot read what follows. */
static bool fail_wire(struct wire *wire)
{
    int fd;
    if (uv_fileno((uv_handle_t *)&wire->tcp, &fd) == 0)
        shutdown(fd, SHUT_RDWR);
    return false;
}

/* Writes as much as the socket accepts; the rest is queued. */
static bool push(struct wire *wire, struct frame *frame)
{
    size_t length = frame->length;
    uv_buf_t buffer = uv_buf_init((char *)frame->bytes, (unsigned)length);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&wire->tcp) == 0) {
        int sent = uv_try_write((uv_stream_t *)&wire->tcp, &buffer, 1);
        if (sent == (int)length) {
            free(frame);
            return true;
        }
        if (sent > 0) {
            buffer.base += sent;
            buffer.len -= (size_t)sent;
        }
    }
    if (uv_write(&frame->request, (uv_stream_t *)&wire->tcp, &buffer, 1, on_written) == 0)
        return true;
    free(frame);
    return fail_wire(wire);
}

bool wire_push_sealed(struct wire *wire, const unsigned char *clear, size_t length)
{
    size_t capacity = length + (length / PIECE_BYTES + 8) * RECORD_MORE, used = 0, got;
    capacity = length ? capacity : HANDSHAKE_MAX;
    struct frame *sealed = malloc(sizeof *sealed + capacity);
    if (!sealed)
        return fail_wire(wire);
    for (size_t at = 0; at < length; at += PIECE_BYTES) {
        size_t piece = length - at < PIECE_BYTES ? length - at : PIECE_BYTES;
        if (bw_tls_write(wire->tls, clear + at, piece) != 0) {
            free(sealed);
            return fail_wire(wire);
        }
        used += bw_tls_take(wire->tls, sealed->bytes + used, capacity - used);
    }
    while (used < capacity &&
           (got = bw_tls_take(wire->tls, sealed->bytes + used, capacity - used)) > 0)
        used += got;
    sealed->length = used;
    if (used)
        return push(wire, sealed);
    free(sealed);
    return true;
}

/* Gives the frame to the connection, and frees it. */
static bool transmit(struct wire *wire, struct frame *frame)
{
    if (!wire->tls)
        return push(wire, frame);
    bool sent = wire_push_sealed(wire, frame->bytes, frame->length);
    free(frame);
    return sent;
}

static bool has_room(const struct wire *wire)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&wire->tcp) <= AHEAD_BYTES;
}

/* Gives BULK frames to the connection. If some still wait afterwards, a write is in progress, and
 * its end calls this function again. */
static void send_waiting(struct wire *wire)
{
    while (wire->bulk && !wire->closing && has_room(wire)) {
        struct frame *frame = wire->bulk;
        wire->bulk = frame->next;
        wire->bulk_bytes -= frame->length;
        transmit(wire, frame); /* if it fails, the connection ends */
    }
}

size_t wire_queued(const struct wire *wire)
{
    return wire->bulk_bytes + uv_stream_get_write_queue_size((const uv_stream_t *)&wire->tcp);
}

bool wire_send(struct wire *wire, enum bw_mesh_frame kind, enum bw_mesh_lane lane,
               const struct bw_part *parts, uint32_t count)
{
    if (wire_queued(wire) > QUEUE_MAX)
        return false;
    struct frame *frame = frame_new(kind, parts, count);
    if (!frame)
        return false;
    bool is_urgent = lane == BW_LANE_URGENT && !BW_BUG(mesh_has_one_lane);
    if (is_urgent || (!wire->bulk && has_room(wire)))
        return transmit(wire, frame);
    *(wire->bulk ? wire->bulk_end : &wire->bulk) = frame;
    wire->bulk_end = &frame->next;
    wire->bulk_bytes += frame->length;
    return true;
}

/* Processes complete frames. Returns false to close the connection. */
static bool take_frames(struct wire *wire)
{
    size_t used = 0;
    while (!wire->closing && wire->in_used - used >= FRAME_HEAD) {
        const unsigned char *at = wire->in + used;
        size_t length = bw_get32(at);
        if (length == 0 || length > BW_MESH_FRAME_MAX || at[4] >= BW_FRAME_KINDS)
            return false;
        if (wire->in_used - used < 4 + length)
            break;
        if (!wire_take_frame(wire, (enum bw_mesh_frame)at[4], at + 5, length - 1))
            return false;
        used += 4 + length;
    }
    if (!wire->closing) {
        memmove(wire->in, wire->in + used, wire->in_used - used);
        wire->in_used -= used;
    }
    return true;
}

/* Makes sure that the incoming frame fits: its length is known once its head has arrived. */
static size_t reserve_input(struct wire *wire)
{
    size_t need = wire->in_used + READ_BYTES;
    if (wire->in_used >= 4 && bw_get32(wire->in) <= BW_MESH_FRAME_MAX &&
        need < 4 + (size_t)bw_get32(wire->in))
        need = 4 + (size_t)bw_get32(wire->in);
    /* without more memory, the existing buffer is used */
    bw_grow(&wire->in, &wire->in_size, need, need, 1);
    return wire->in_size - wire->in_used;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char sealed[READ_BYTES]; /* its content is used before the next read */
    struct wire *wire = handle->data;
    (void)suggested;
    if (wire->tls) {
        *out = uv_buf_init(sealed, sizeof sealed);
        return;
    }
    size_t capacity = reserve_input(wire);
    if (capacity > wire->turn_left)
        capacity = wire->turn_left;
    *out = uv_buf_init((char *)wire->in + wire->in_used, (unsigned)capacity);
}

/* Plaintext arrived. Returns false to close the connection. */
static bool take_bytes(struct wire *wire, size_t count)
{
    wire->in_used += count;
    return count == 0 || take_frames(wire);
}

static bool take_sealed(struct wire *wire, const unsigned char *bytes, size_t count)
{
    char why[BW_TLS_WHY_MAX + 1] = "";
    int got = 0;
    int error = bw_tls_feed(wire->tls, bytes, count, why);
    wire_push_sealed(wire, NULL, 0);
    if (error) {
        bw_credentials_refused(wire->mesh->options.credentials, why);
        return false;
    }
    if (!bw_tls_is_up(wire->tls))
        return true;
    wire_handshake(wire);
    do {
        size_t capacity = wire->closing ? 0 : reserve_input(wire);
        if (capacity == 0)
            return wire->closing;
        got = bw_tls_read(wire->tls, wire->in + wire->in_used,
                          capacity < PIECE_BYTES ? capacity : PIECE_BYTES, why);
    } while (got > 0 && take_bytes(wire, (size_t)got));
    if (got < 0 && wire->peer) /* our certificate is refused: the other side sends the reason */
        bw_credentials_refused(wire->mesh->options.credentials, why);
    return got == 0;
}

static void on_wake(uv_idle_t *waker)
{
    (void)waker; /* the end of this turn does the work */
}

/* Keeps one connection from delaying the others: libuv would read on while data is available. */
static void yield_after(struct wire *wire, size_t count)
{
    wire->turn_left -= count < wire->turn_left ? count : wire->turn_left;
    if (wire->turn_left || wire->closing)
        return;
    uv_read_stop((uv_stream_t *)&wire->tcp);
    wire->yielded = true;
    uv_idle_start(&wire->mesh->waker, on_wake);
}

static void on_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct wire *wire = stream->data;
    if (count < 0 ||
        !(wire->tls ? take_sealed(wire, (const unsigned char *)buffer->base, (size_t)count)
                    : take_bytes(wire, (size_t)count)))
        wire_close(wire);
    else
        yield_after(wire, (size_t)count);
}

void wire_continue(struct wire *wire)
{
    wire->turn_left = TURN_BYTES;
    if (!wire->yielded || wire->closing)
        return;
    wire->yielded = false;
    uv_read_start((uv_stream_t *)&wire->tcp, on_alloc, on_bytes);
}

struct wire *wire_new(struct bw_mesh *mesh, struct peer *peer)
{
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return NULL;
    wire->mesh = mesh;
    wire->peer = peer;
    wire->turn_left = TURN_BYTES;
    uv_tcp_init(mesh->options.loop, &wire->tcp);
    wire->tcp.data = wire;
    mesh->handles++;
    return wire;
}

/* Starts reading. The kernel also detects a dead host, within seconds. */
void wire_begin(struct wire *wire)
{
    uv_tcp_t *tcp = &wire->tcp;
    int fd, unacknowledged_ms = 5000, unsent = UNSENT_BYTES;
    uv_tcp_nodelay(tcp, 1);
    uv_tcp_keepalive(tcp, 1, 2);
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    }
    uv_read_start((uv_stream_t *)tcp, on_alloc, on_bytes);
}
