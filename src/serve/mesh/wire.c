/* One connection between nodes: frames in and out, sealed or in the clear; see state.h. */
#include "core/base/little.h"
#include "serve/mesh/state.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define QUEUE_MAX     ((size_t)256 << 20)
#define READ_BYTES    65536u
#define FRAME_HEAD    5u
#define PIECE_BYTES   16384u /* a record of TLS */
#define HANDSHAKE_MAX 65536u /* bytes of TLS' own at one time: chains of certificates */
#define RECORD_MORE   256u   /* bytes that sealing adds to one, at the most */
#define LASTS_MS      1000u  /* an agreed connection that ends sooner counts as failed */

static void on_wire_closed(uv_handle_t *handle)
{
    struct wire *wire = handle->data;
    struct bw_mesh *mesh = wire->mesh;
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
    bool told = peer ? wire->up : wire->from != BW_NODE_NONE;
    if (wire->closing)
        return;
    wire->closing = true;
    if (peer) {
        peer->wire = NULL;
        peer->connected = false;
        if (wire->up && (!wire->tls || uv_now(mesh->options.loop) - wire->up_ms >= LASTS_MS))
            peer->failures = 0; /* TLS: who refuses our certificate tells after the handshake */
        mesh_try_later(peer);
    } else {
        mesh_forget_incoming(wire);
    }
    uv_close((uv_handle_t *)&wire->tcp, on_wire_closed);
    if (told && !mesh->closing)
        mesh->options.closed(mesh->options.context, node);
}

struct write {
    uv_write_t request;
    unsigned char bytes[];
};

static void on_written(uv_write_t *request, int status)
{
    struct wire *wire = request->handle->data;
    free(request);
    if (status != 0 && status != UV_ECANCELED)
        wire_close(wire);
}

static void put_head(unsigned char *head, size_t length, enum bw_peer_frame kind)
{
    bw_put32(head, (uint32_t)(length + 1));
    head[4] = (unsigned char)kind;
}

static struct write *frame_new(enum bw_peer_frame kind, const struct bw_part *parts, uint32_t count,
                               size_t *size)
{
    size_t length = 0, at = FRAME_HEAD;
    for (uint32_t i = 0; i < count; i++)
        length += parts[i].length;
    struct write *write =
        length + 1 > BW_MESH_FRAME_MAX ? NULL : malloc(sizeof *write + FRAME_HEAD + length);
    if (!write)
        return NULL;
    put_head(write->bytes, length, kind);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].length)
            memcpy(write->bytes + at, parts[i].at, parts[i].length);
        at += parts[i].length;
    }
    *size = at;
    return write;
}

/* What is sealed must be sent, or the other side cannot read what follows: so this one ends. */
static bool fail_wire(struct wire *wire)
{
    int fd;
    if (wire->tls && uv_fileno((uv_handle_t *)&wire->tcp, &fd) == 0)
        shutdown(fd, SHUT_RDWR);
    return false;
}

/* As much as the socket takes at once; the rest waits. */
static bool push(struct wire *wire, struct write *write, size_t length)
{
    uv_buf_t buffer = uv_buf_init((char *)write->bytes, (unsigned)length);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&wire->tcp) == 0) {
        int sent = uv_try_write((uv_stream_t *)&wire->tcp, &buffer, 1);
        if (sent == (int)length) {
            free(write);
            return true;
        }
        if (sent > 0) {
            buffer.base += sent;
            buffer.len -= (size_t)sent;
        }
    }
    if (uv_write(&write->request, (uv_stream_t *)&wire->tcp, &buffer, 1, on_written) == 0)
        return true;
    free(write);
    return fail_wire(wire);
}

bool wire_push_sealed(struct wire *wire, const unsigned char *clear, size_t length)
{
    size_t room = length + (length / PIECE_BYTES + 8) * RECORD_MORE, used = 0, got;
    room = length ? room : HANDSHAKE_MAX;
    struct write *write = malloc(sizeof *write + room);
    if (!write)
        return fail_wire(wire);
    for (size_t at = 0; at < length; at += PIECE_BYTES) {
        size_t piece = length - at < PIECE_BYTES ? length - at : PIECE_BYTES;
        if (bw_tls_write(wire->tls, clear + at, piece) != 0) {
            free(write);
            return fail_wire(wire);
        }
        used += bw_tls_take(wire->tls, write->bytes + used, room - used);
    }
    while (used < room && (got = bw_tls_take(wire->tls, write->bytes + used, room - used)) > 0)
        used += got;
    if (used)
        return push(wire, write, used);
    free(write);
    return true;
}

bool wire_send(struct wire *wire, enum bw_peer_frame kind, const struct bw_part *parts,
               uint32_t count)
{
    size_t size;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&wire->tcp) > QUEUE_MAX)
        return false;
    struct write *write = frame_new(kind, parts, count, &size);
    if (!write)
        return false;
    if (!wire->tls)
        return push(wire, write, size);
    bool sent = wire_push_sealed(wire, write->bytes, size);
    free(write);
    return sent;
}

/* Frames that are whole; false: hang up. */
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
        if (!wire_take_frame(wire, (enum bw_peer_frame)at[4], at + 5, length - 1))
            return false;
        used += 4 + length;
    }
    if (!wire->closing) {
        memmove(wire->in, wire->in + used, wire->in_used - used);
        wire->in_used -= used;
    }
    return true;
}

/* Room for the frame that is coming: its length is known once its head is here. */
static size_t make_room(struct wire *wire)
{
    size_t need = wire->in_used + READ_BYTES;
    if (wire->in_used >= 4 && bw_get32(wire->in) <= BW_MESH_FRAME_MAX &&
        need < 4 + (size_t)bw_get32(wire->in))
        need = 4 + (size_t)bw_get32(wire->in);
    if (need > wire->in_size) {
        unsigned char *larger = realloc(wire->in, need);
        if (larger) {
            wire->in = larger;
            wire->in_size = need;
        }
    }
    return wire->in_size - wire->in_used;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char sealed[READ_BYTES]; /* all of it is used before the next read */
    struct wire *wire = handle->data;
    (void)suggested;
    if (wire->tls) {
        *out = uv_buf_init(sealed, sizeof sealed);
        return;
    }
    size_t room = make_room(wire);
    *out = uv_buf_init((char *)wire->in + wire->in_used, (unsigned)room);
}

/* In the clear. False: hang up. */
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
    wire_greet(wire);
    do {
        size_t room = wire->closing ? 0 : make_room(wire);
        if (room == 0)
            return wire->closing;
        got = bw_tls_read(wire->tls, wire->in + wire->in_used,
                          room < PIECE_BYTES ? room : PIECE_BYTES, why);
    } while (got > 0 && take_bytes(wire, (size_t)got));
    if (got < 0 && wire->peer) /* our own certificate is refused: the other side says why */
        bw_credentials_refused(wire->mesh->options.credentials, why);
    return got == 0;
}

static void on_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct wire *wire = stream->data;
    if (count < 0 ||
        !(wire->tls ? take_sealed(wire, (const unsigned char *)buffer->base, (size_t)count)
                    : take_bytes(wire, (size_t)count)))
        wire_close(wire);
}

struct wire *wire_new(struct bw_mesh *mesh, struct peer *peer)
{
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return NULL;
    wire->mesh = mesh;
    wire->peer = peer;
    uv_tcp_init(mesh->options.loop, &wire->tcp);
    wire->tcp.data = wire;
    mesh->handles++;
    return wire;
}

/* Reads from now on. A dead host is noticed by the kernel too, within seconds. */
void wire_begin(struct wire *wire)
{
    uv_tcp_t *tcp = &wire->tcp;
    int fd, unacknowledged_ms = 5000;
    uv_tcp_nodelay(tcp, 1);
    uv_tcp_keepalive(tcp, 1, 2);
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
    uv_read_start((uv_stream_t *)tcp, on_room, on_bytes);
}
