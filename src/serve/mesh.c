/* Connections between nodes; see mesh.h. Outgoing ones are made again and again with a short,
 * jittered pause: a node that comes back is there within milliseconds. */
#include "serve/mesh.h"

#include "base/error.h"
#include "base/little.h"
#include "serve/roster.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PAUSE_MIN_MS  2u
#define PAUSE_MAX_MS  250u
#define QUEUE_MAX     ((size_t)256 << 20)
#define READ_BYTES    65536u
#define FRAME_HEAD    5u
#define HELLO_BYTES   28u /* and a host */
#define JOIN_BYTES    12u
#define ANSWER_MS     5000u /* a connection that is not agreed on by then is given up */
#define INCOMING_MAX  64u
#define PIECE_BYTES   16384u /* a record of TLS */
#define HANDSHAKE_MAX 65536u /* bytes of TLS' own at one time: chains of certificates */
#define RECORD_MORE   256u   /* bytes that sealing adds to one, at the most */
#define LASTS_MS      1000u  /* an agreed connection that ends sooner counts as failed */

struct peer { /* outgoing */
    struct bw_mesh *mesh;
    struct bw_replica_member member;
    bool used, removed, connected;
    unsigned failures;
    struct wire *wire;
    uv_timer_t timer;
    uv_getaddrinfo_t lookup;
    bool looking;
};

struct wire { /* one TCP connection, either way */
    struct bw_mesh *mesh;
    struct peer *peer; /* outgoing: whose */
    struct wire *next; /* incoming: in the list */
    bw_node from;      /* incoming: who, once it said so */
    bool closing, greeted, up;
    uint64_t up_ms;
    struct bw_tls *tls; /* NULL: in the clear */
    uv_tcp_t tcp;
    uv_connect_t connect;
    unsigned char *in;
    size_t in_used, in_size;
};

struct bw_mesh {
    struct bw_mesh_options options;
    struct peer peer[BW_REPLICA_NODES];
    struct wire *incoming;
    uint32_t incoming_count;
    uv_tcp_t listener;
    uint32_t handles; /* open ones: the memory goes with the last */
    bool closing;
    void (*closed)(void *context);
};

static void dial(struct peer *peer);
static void greet(struct wire *wire);
static void wire_close(struct wire *wire);

static void release(struct bw_mesh *mesh)
{
    if (--mesh->handles > 0)
        return;
    void (*closed)(void *context) = mesh->closed;
    void *context = mesh->options.context;
    free(mesh);
    if (closed)
        closed(context);
}

static struct peer *find(const struct bw_mesh *mesh, bw_node node)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (mesh->peer[i].used && !mesh->peer[i].removed && mesh->peer[i].member.id == node)
            return (struct peer *)&mesh->peer[i];
    return NULL;
}

/* Time to try again, or to give up what was tried. */
static void on_pause(uv_timer_t *timer)
{
    struct peer *peer = timer->data;
    if (peer->wire && !peer->wire->up)
        wire_close(peer->wire);
    else
        dial(peer);
}

static void try_later(struct peer *peer)
{
    if (peer->mesh->closing || peer->removed)
        return;
    uint64_t pause = (uint64_t)PAUSE_MIN_MS << (peer->failures < 7 ? peer->failures : 7);
    peer->failures++;
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    uv_timer_start(&peer->timer, on_pause, pause + (uint64_t)rand() % (pause / 2 + 1), 0);
}

static void on_wire_closed(uv_handle_t *handle)
{
    struct wire *wire = handle->data;
    struct bw_mesh *mesh = wire->mesh;
    bw_tls_free(wire->tls);
    free(wire->in);
    free(wire);
    release(mesh);
}

static void forget_incoming(struct wire *wire)
{
    struct wire **at = &wire->mesh->incoming;
    while (*at && *at != wire)
        at = &(*at)->next;
    if (*at) {
        *at = wire->next;
        wire->mesh->incoming_count--;
    }
}

static void wire_close(struct wire *wire)
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
        try_later(peer);
    } else {
        forget_incoming(wire);
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

/* Takes the frame; what TLS has to say itself goes before it. */
static bool push_sealed(struct wire *wire, const unsigned char *clear, size_t length)
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

static bool wire_send(struct wire *wire, enum bw_peer_frame kind, const struct bw_part *parts,
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
    bool sent = push_sealed(wire, write->bytes, size);
    free(write);
    return sent;
}

static enum bw_mesh_verdict judge_versions(const unsigned char *bytes)
{
    struct bw_versions ours = {BW_MESH_VERSION, BW_MESH_VERSION_MIN};
    struct bw_versions theirs = {bw_get32(bytes), bw_get32(bytes + 4)};
    return bw_versions_judge(&ours, &theirs, 1);
}

static void say_answer(struct wire *wire, enum bw_mesh_verdict verdict, const unsigned char *more,
                       size_t length)
{
    unsigned char answer[BW_MESH_ANSWER];
    bw_put32(answer, BW_MESH_VERSION);
    bw_put32(answer + 4, BW_MESH_VERSION_MIN);
    bw_put32(answer + 8, verdict);
    struct bw_part parts[] = {{answer, sizeof answer}, {more, length}};
    wire_send(wire, BW_FRAME_ANSWER, parts, 2);
}

/* Is its certificate one of the node it says it is? */
static bool may_be(const struct wire *wire, const struct bw_replica_member *from)
{
    const struct peer *peer = from->id ? find(wire->mesh, from->id) : NULL;
    bool may = !wire->tls || (peer ? bw_tls_peer_is_host(wire->tls, peer->member.host)
                                   : bw_tls_peer_is_host(wire->tls, from->host) &&
                                         bw_tls_peer_may_serve(wire->tls));
    if (!may)
        bw_credentials_refused(wire->mesh->options.credentials,
                               "its certificate is not for the host of the node it says it is");
    return may;
}

/* The address at the end of HELLO and JOIN: 4 port, host. */
static bool take_address(struct bw_replica_member *out, const unsigned char *bytes, size_t length)
{
    if (length < 4 || length - 4 > BW_REPLICA_HOST_MAX || bw_get32(bytes) > 65535 ||
        memchr(bytes + 4, '\0', length - 4))
        return false;
    out->port = (uint16_t)bw_get32(bytes);
    memcpy(out->host, bytes + 4, length - 4);
    return true;
}

static enum bw_mesh_verdict judge(const struct wire *wire, const unsigned char *bytes,
                                  const struct bw_replica_member *from)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    enum bw_mesh_verdict verdict = judge_versions(bytes);
    if (verdict == BW_MESH_OK &&
        (bw_get64(bytes + 8) != options->cluster || bw_get32(bytes + 20) != options->self))
        verdict = BW_MESH_FOREIGN;
    if (verdict == BW_MESH_OK && !may_be(wire, from))
        verdict = BW_MESH_CERTIFICATE;
    return verdict == BW_MESH_OK ? options->judge(options->context, from) : verdict;
}

static bool take_hello(struct wire *wire, const unsigned char *bytes, size_t length)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    struct bw_replica_member from = {0};
    if (length < HELLO_BYTES || !take_address(&from, bytes + 24, length - 24))
        return false;
    from.id = bw_get32(bytes + 16);
    if (from.id == BW_NODE_NONE || from.id == options->self)
        return false;
    enum bw_mesh_verdict verdict = judge(wire, bytes, &from);
    say_answer(wire, verdict, NULL, 0);
    if (verdict != BW_MESH_OK)
        return false;
    wire->from = from.id;
    options->opened(options->context, wire->from);
    return true;
}

/* Somebody wants to know which member it is. */
static bool take_join(struct wire *wire, const unsigned char *bytes, size_t length)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    static unsigned char more[12 + BW_ROSTER_BYTES_MAX];
    struct bw_replica_member from = {0};
    bw_node id = BW_NODE_NONE;
    size_t rest = 0;
    if (length < JOIN_BYTES || !take_address(&from, bytes + 8, length - 8))
        return false;
    enum bw_mesh_verdict verdict = judge_versions(bytes);
    if (verdict == BW_MESH_OK && !may_be(wire, &from))
        verdict = BW_MESH_CERTIFICATE;
    if (verdict == BW_MESH_OK)
        verdict = options->joins(options->context, from.host, from.port, &id, more + 12, &rest);
    bw_put64(more, options->cluster);
    bw_put32(more + 8, id);
    say_answer(wire, verdict, more, verdict == BW_MESH_OK ? 12 + rest : 0);
    return true;
}

/* What the node that we connected to says to our HELLO. */
static bool take_answer(struct wire *wire, const unsigned char *bytes, size_t length)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    bw_node node = wire->peer->member.id;
    if (length != BW_MESH_ANSWER || bw_get32(bytes + 8) >= BW_MESH_VERDICTS)
        return false;
    if (bw_get32(bytes + 8) != BW_MESH_OK) {
        options->refused(options->context, node, (enum bw_mesh_verdict)bw_get32(bytes + 8));
        return false;
    }
    wire->up = true;
    wire->up_ms = uv_now(options->loop);
    uv_timer_stop(&wire->peer->timer);
    wire->peer->connected = true;
    options->opened(options->context, node);
    return true;
}

static bool take_frame(struct wire *wire, enum bw_peer_frame kind, const unsigned char *bytes,
                       size_t length)
{
    if (wire->peer)
        return kind == BW_FRAME_ANSWER && !wire->up && take_answer(wire, bytes, length);
    if (wire->from != BW_NODE_NONE) {
        if (kind != BW_FRAME_HELLO && kind != BW_FRAME_ANSWER && kind != BW_FRAME_JOIN)
            wire->mesh->options.frame(wire->mesh->options.context, wire->from, kind, bytes, length);
        return kind != BW_FRAME_HELLO;
    }
    if (kind == BW_FRAME_JOIN)
        return take_join(wire, bytes, length);
    return kind == BW_FRAME_HELLO && take_hello(wire, bytes, length);
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
        if (!take_frame(wire, (enum bw_peer_frame)at[4], at + 5, length - 1))
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
    push_sealed(wire, NULL, 0);
    if (error) {
        bw_credentials_refused(wire->mesh->options.credentials, why);
        return false;
    }
    if (!bw_tls_is_up(wire->tls))
        return true;
    greet(wire);
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

static struct wire *wire_new(struct bw_mesh *mesh, struct peer *peer)
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

/* A dead host is noticed by the kernel too, within seconds. */
static void set_socket(uv_tcp_t *tcp)
{
    int fd, unacknowledged_ms = 5000;
    uv_tcp_nodelay(tcp, 1);
    uv_tcp_keepalive(tcp, 1, 2);
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

/* The first to speak is who connected. */
static void greet(struct wire *wire)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    unsigned char hello[HELLO_BYTES];
    if (!wire->peer || wire->greeted)
        return;
    wire->greeted = true;
    bw_put32(hello, BW_MESH_VERSION);
    bw_put32(hello + 4, BW_MESH_VERSION_MIN);
    bw_put64(hello + 8, options->cluster);
    bw_put32(hello + 16, options->self);
    bw_put32(hello + 20, wire->peer->member.id);
    bw_put32(hello + 24, options->own_port);
    struct bw_part parts[] = {{hello, sizeof hello},
                              {options->own_host, strlen(options->own_host)}};
    wire_send(wire, BW_FRAME_HELLO, parts, 2);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct wire *wire = request->data;
    if (wire->closing)
        return;
    if (status != 0) {
        wire_close(wire);
        return;
    }
    struct bw_credentials *credentials = wire->mesh->options.credentials;
    set_socket(&wire->tcp);
    uv_read_start((uv_stream_t *)&wire->tcp, on_room, on_bytes);
    if (!credentials) {
        greet(wire);
        return;
    }
    wire->tls = bw_tls_new(bw_credentials_client(credentials), wire->peer->member.host);
    if (!wire->tls || !push_sealed(wire, NULL, 0))
        wire_close(wire);
}

static void connect_to(struct peer *peer, const struct sockaddr *address)
{
    struct wire *wire = wire_new(peer->mesh, peer);
    if (!wire) {
        try_later(peer);
        return;
    }
    peer->wire = wire;
    wire->connect.data = wire;
    uv_timer_start(&peer->timer, on_pause, ANSWER_MS, 0);
    if (uv_tcp_connect(&wire->connect, &wire->tcp, address, on_connected) != 0)
        wire_close(wire);
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct peer *peer = request->data;
    peer->looking = false;
    if (status == 0 && !peer->removed && !peer->mesh->closing)
        connect_to(peer, found->ai_addr);
    else if (status != 0)
        try_later(peer);
    uv_freeaddrinfo(found);
    release(peer->mesh);
}

static void dial(struct peer *peer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];
    if (peer->wire || peer->looking || peer->removed)
        return;
    snprintf(port, sizeof port, "%u", peer->member.port);
    peer->lookup.data = peer;
    if (uv_getaddrinfo(peer->mesh->options.loop, &peer->lookup, on_found, peer->member.host, port,
                       &hints) != 0) {
        try_later(peer);
        return;
    }
    peer->looking = true;
    peer->mesh->handles++;
}

int bw_mesh_add(struct bw_mesh *mesh, const struct bw_replica_member *member)
{
    if (find(mesh, member->id) || member->id == mesh->options.self)
        return 0;
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        struct peer *peer = &mesh->peer[i];
        if (peer->used || peer->looking)
            continue;
        *peer = (struct peer){.mesh = mesh, .member = *member, .used = true};
        uv_timer_init(mesh->options.loop, &peer->timer);
        peer->timer.data = peer;
        mesh->handles++;
        dial(peer);
        return 0;
    }
    return BW_ELIMIT;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    struct bw_mesh *mesh = peer->mesh;
    peer->used = false;
    release(mesh);
}

static void drop(struct peer *peer)
{
    if (peer->removed)
        return;
    peer->removed = true;
    if (peer->wire)
        wire_close(peer->wire);
    uv_close((uv_handle_t *)&peer->timer, on_timer_closed);
}

void bw_mesh_move(struct bw_mesh *mesh, const struct bw_replica_member *member)
{
    struct peer *peer = find(mesh, member->id);
    if (!peer ||
        (peer->member.port == member->port && strcmp(peer->member.host, member->host) == 0))
        return;
    peer->member = *member;
    peer->failures = 0;
    if (peer->wire)
        wire_close(peer->wire);
}

static bool is_among(bw_node node, const bw_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

void bw_mesh_keep(struct bw_mesh *mesh, const bw_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        struct peer *peer = &mesh->peer[i];
        if (peer->used && !peer->removed && !is_among(peer->member.id, nodes, count))
            drop(peer);
    }
    for (struct wire *wire = mesh->incoming, *next; wire; wire = next) {
        next = wire->next;
        if (wire->from != BW_NODE_NONE && !is_among(wire->from, nodes, count))
            wire_close(wire);
    }
}

bool bw_mesh_knows(const struct bw_mesh *mesh, bw_node node)
{
    return find(mesh, node);
}

bool bw_mesh_send(struct bw_mesh *mesh, bw_node to, enum bw_peer_frame kind,
                  const struct bw_part *parts, uint32_t count)
{
    struct peer *peer = find(mesh, to);
    return peer && peer->connected && wire_send(peer->wire, kind, parts, count);
}

size_t bw_mesh_backlog(const struct bw_mesh *mesh, bw_node node)
{
    const struct peer *peer = find(mesh, node);
    return peer && peer->wire ? uv_stream_get_write_queue_size((uv_stream_t *)&peer->wire->tcp) : 0;
}

bool bw_mesh_connected(const struct bw_mesh *mesh, bw_node node)
{
    const struct peer *peer = find(mesh, node);
    return peer && peer->connected;
}

/* Too many: the oldest that has not said who it is goes, for whoever connects must do so at once.
 */
static void make_way(struct bw_mesh *mesh)
{
    struct wire *oldest = NULL;
    for (struct wire *wire = mesh->incoming; wire; wire = wire->next)
        if (wire->from == BW_NODE_NONE)
            oldest = wire;
    if (oldest && mesh->incoming_count > INCOMING_MAX)
        wire_close(oldest);
}

static void on_accept(uv_stream_t *listener, int status)
{
    struct bw_mesh *mesh = listener->data;
    struct wire *wire = status == 0 ? wire_new(mesh, NULL) : NULL;
    if (!wire)
        return;
    wire->next = mesh->incoming;
    mesh->incoming = wire;
    mesh->incoming_count++;
    if (mesh->options.credentials)
        wire->tls = bw_tls_new_server(bw_credentials_server(mesh->options.credentials));
    if (uv_accept(listener, (uv_stream_t *)&wire->tcp) != 0 ||
        (mesh->options.credentials && !wire->tls)) {
        wire_close(wire);
        return;
    }
    set_socket(&wire->tcp);
    uv_read_start((uv_stream_t *)&wire->tcp, on_room, on_bytes);
    make_way(mesh);
}

static int listen_on(struct bw_mesh *mesh, char *why)
{
    struct sockaddr_storage address;
    const struct bw_mesh_options *options = &mesh->options;
    int error = uv_ip4_addr(options->host, options->port, (struct sockaddr_in *)&address);
    if (error)
        error = uv_ip6_addr(options->host, options->port, (struct sockaddr_in6 *)&address);
    if (!error)
        error = uv_tcp_bind(&mesh->listener, (struct sockaddr *)&address, 0);
    if (!error)
        error = uv_listen((uv_stream_t *)&mesh->listener, 128, on_accept);
    if (error)
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot listen for peers on %s:%u: %s", options->host,
                 options->port, uv_strerror(error));
    return error ? BW_EIO : 0;
}

static void on_listener_closed(uv_handle_t *handle)
{
    release(handle->data);
}

int bw_mesh_open(struct bw_mesh **out, const struct bw_mesh_options *options, char *why)
{
    struct bw_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return BW_ENOMEM;
    mesh->options = *options;
    uv_tcp_init(options->loop, &mesh->listener);
    mesh->listener.data = mesh;
    mesh->handles = 1;
    int error = options->port ? listen_on(mesh, why) : 0;
    if (error)
        uv_close((uv_handle_t *)&mesh->listener, on_listener_closed);
    else
        *out = mesh;
    return error;
}

void bw_mesh_close(struct bw_mesh *mesh, void (*closed)(void *context))
{
    mesh->closing = true;
    mesh->closed = closed;
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (mesh->peer[i].used)
            drop(&mesh->peer[i]);
    while (mesh->incoming) /* each unlinks itself */
        wire_close(mesh->incoming);
    uv_close((uv_handle_t *)&mesh->listener, on_listener_closed);
}
