/* The set of peers; see mesh.h. Outgoing connections are retried after a short pause with jitter,
 * so a node that returns is connected within milliseconds. */
#include "serve/mesh/mesh.h"

#include "core/base/error.h"
#include "net/seed.h"
#include "os/listen.h"
#include "serve/mesh/state.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MIN_MS 2u
#define PAUSE_MAX_MS 250u
#define ANSWER_MS    5000u /* timeout of connecting and handshake */
#define INCOMING_MAX 64u

static void dial(struct peer *peer);

void mesh_release(struct bw_mesh *mesh)
{
    if (--mesh->handles > 0)
        return;
    void (*closed)(void *context) = mesh->closed;
    void *context = mesh->options.context;
    free(mesh);
    if (closed)
        closed(context);
}

struct peer *mesh_find(const struct bw_mesh *mesh, bw_node node)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (mesh->peer[i].used && !mesh->peer[i].removed && mesh->peer[i].member.id == node)
            return (struct peer *)&mesh->peer[i];
    return NULL;
}

/* Retries, or gives up a connection attempt. */
static void on_retry(uv_timer_t *timer)
{
    struct peer *peer = timer->data;
    if (peer->wire && !peer->wire->up)
        wire_close(peer->wire);
    else
        dial(peer);
}

void mesh_retry_later(struct peer *peer)
{
    if (peer->mesh->closing || peer->removed)
        return;
    uint64_t pause = (uint64_t)PAUSE_MIN_MS << (peer->failures < 7 ? peer->failures : 7);
    peer->failures++;
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    uint64_t jitter = bw_rng_below(&peer->mesh->rng, pause / 2 + 1);
    uv_timer_start(&peer->timer, on_retry, pause + jitter, 0);
}

void mesh_forget_incoming(struct wire *wire)
{
    struct wire **at = &wire->mesh->incoming;
    while (*at && *at != wire)
        at = &(*at)->next;
    if (*at) {
        *at = wire->next;
        wire->mesh->incoming_count--;
    }
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
    wire_begin(wire);
    if (!credentials) {
        wire_handshake(wire);
        return;
    }
    wire->tls = bw_tls_new(bw_credentials_client(credentials), wire->peer->member.host);
    if (!wire->tls || !wire_push_sealed(wire, NULL, 0))
        wire_close(wire);
}

static void connect_to(struct peer *peer, const struct sockaddr *address)
{
    struct wire *wire = wire_new(peer->mesh, peer);
    if (!wire) {
        mesh_retry_later(peer);
        return;
    }
    peer->wire = wire;
    wire->connect.data = wire;
    uv_timer_start(&peer->timer, on_retry, ANSWER_MS, 0);
    if (uv_tcp_connect(&wire->connect, &wire->tcp, address, on_connected) != 0)
        wire_close(wire);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct peer *peer = request->data;
    peer->resolving = false;
    if (status == 0 && !peer->removed && !peer->mesh->closing)
        connect_to(peer, found->ai_addr);
    else if (status != 0)
        mesh_retry_later(peer);
    uv_freeaddrinfo(found);
    mesh_release(peer->mesh);
}

static void dial(struct peer *peer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];
    if (peer->wire || peer->resolving || peer->removed)
        return;
    snprintf(port, sizeof port, "%u", peer->member.port);
    peer->lookup.data = peer;
    if (uv_getaddrinfo(peer->mesh->options.loop, &peer->lookup, on_resolved, peer->member.host,
                       port, &hints) != 0) {
        mesh_retry_later(peer);
        return;
    }
    peer->resolving = true;
    peer->mesh->handles++;
}

int bw_mesh_add(struct bw_mesh *mesh, const struct bw_replica_member *member)
{
    if (mesh_find(mesh, member->id) || member->id == mesh->options.self)
        return 0;
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        struct peer *peer = &mesh->peer[i];
        if (peer->used || peer->resolving)
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
    mesh_release(mesh);
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
    struct peer *peer = mesh_find(mesh, member->id);
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

void bw_mesh_level(struct bw_mesh *mesh, uint32_t level)
{
    if (level <= mesh->level)
        return;
    mesh->level = level;
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        struct wire *wire = mesh->peer[i].used ? mesh->peer[i].wire : NULL;
        if (wire && wire->up && wire->version < level)
            wire_close(wire);
    }
    for (struct wire *wire = mesh->incoming, *next; wire; wire = next) {
        next = wire->next;
        if (wire->from != BW_NODE_NONE && wire->version < level)
            wire_close(wire);
    }
}

bool bw_mesh_knows(const struct bw_mesh *mesh, bw_node node)
{
    return mesh_find(mesh, node);
}

bool bw_mesh_send(struct bw_mesh *mesh, bw_node to, enum bw_mesh_frame kind, enum bw_mesh_lane lane,
                  const struct bw_part *parts, uint32_t count)
{
    struct peer *peer = mesh_find(mesh, to);
    if (!peer)
        return false;
    if (!peer->connected || !wire_send(peer->wire, kind, lane, parts, count)) {
        peer->unsent++;
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        peer->sent += parts[i].length;
    return true;
}

void bw_mesh_traffic(const struct bw_mesh *mesh, bw_node node, uint64_t *sent, uint64_t *unsent)
{
    const struct peer *peer = mesh_find(mesh, node);
    *sent = peer ? peer->sent : 0;
    *unsent = peer ? peer->unsent : 0;
}

bool bw_mesh_round_trip(const struct bw_mesh *mesh, bw_node node, bw_time *out)
{
    const struct peer *peer = mesh_find(mesh, node);
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    uv_os_fd_t fd;
    if (!peer || !peer->connected || uv_fileno((const uv_handle_t *)&peer->wire->tcp, &fd) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    *out = (bw_time)info.tcpi_rtt * 1000;
    return true;
}

bool bw_mesh_is_behind(const struct bw_mesh *mesh)
{
    return mesh->behind || uv_is_active((const uv_handle_t *)&mesh->waker);
}

size_t bw_mesh_backlog(const struct bw_mesh *mesh, bw_node node)
{
    const struct peer *peer = mesh_find(mesh, node);
    return peer && peer->wire ? wire_queued(peer->wire) : 0;
}

bool bw_mesh_connected(const struct bw_mesh *mesh, bw_node node)
{
    const struct peer *peer = mesh_find(mesh, node);
    return peer && peer->connected;
}

bool bw_mesh_receives_from(const struct bw_mesh *mesh, bw_node node)
{
    for (const struct wire *wire = mesh->incoming; wire; wire = wire->next)
        if (wire->from == node)
            return true;
    return false;
}

void mesh_close_incoming(struct bw_mesh *mesh, bw_node node, const struct wire *except)
{
    for (struct wire *wire = mesh->incoming, *next; wire; wire = next) {
        next = wire->next;
        if (wire->from == node && wire != except)
            wire_close(wire);
    }
}

void bw_mesh_disconnect_from(struct bw_mesh *mesh, bw_node node)
{
    mesh_close_incoming(mesh, node, NULL);
}

/* If there are too many incoming connections, closes the oldest one whose sender has not identified
 * itself. A node of the cluster identifies itself as soon as it is connected. */
static void evict_unidentified(struct bw_mesh *mesh)
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
    if (!wire) {
        if (status == 0)
            bw_refuse(&mesh->refuser);
        return;
    }
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
    wire_begin(wire);
    evict_unidentified(mesh);
}

static int listen_on(struct bw_mesh *mesh, char *why)
{
    const struct bw_mesh_options *options = &mesh->options;
    int error = bw_listen(&mesh->listener, options->host, options->port, 128, on_accept);
    if (error)
        snprintf(why, BW_REPLICA_WHY_MAX + 1,
                 "cannot listen for peers on %s:%u: %s; --peer-listen gives another address",
                 options->host, options->port, uv_strerror(error));
    return error ? BW_EIO : 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    mesh_release(handle->data);
}

static void close_handles(struct bw_mesh *mesh)
{
    uv_close((uv_handle_t *)&mesh->listener, on_handle_closed);
    uv_close((uv_handle_t *)&mesh->waker, on_handle_closed);
    uv_close((uv_handle_t *)&mesh->turn, on_handle_closed);
}

/* A turn of the loop ends: connections that had more to read than one turn allows go on. */
static void on_turn(uv_check_t *turn)
{
    struct bw_mesh *mesh = turn->data;
    mesh->behind = uv_is_active((uv_handle_t *)&mesh->waker);
    uv_idle_stop(&mesh->waker);
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (mesh->peer[i].used && mesh->peer[i].wire)
            wire_continue(mesh->peer[i].wire);
    for (struct wire *wire = mesh->incoming; wire; wire = wire->next)
        wire_continue(wire);
}

int bw_mesh_open(struct bw_mesh **out, const struct bw_mesh_options *options, char *why)
{
    struct bw_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return BW_ENOMEM;
    mesh->options = *options;
    bw_net_seed(&mesh->rng);
    mesh->level = 1;
    uv_tcp_init(options->loop, &mesh->listener);
    uv_idle_init(options->loop, &mesh->waker);
    uv_check_init(options->loop, &mesh->turn);
    uv_check_start(&mesh->turn, on_turn);
    mesh->listener.data = mesh->waker.data = mesh->turn.data = mesh;
    mesh->handles = 3;
    mesh->refuser = (struct bw_refuser){.listener = (uv_stream_t *)&mesh->listener,
                                        .handles = &mesh->handles,
                                        .released = on_handle_closed};
    int error = options->port ? listen_on(mesh, why) : 0;
    if (error)
        close_handles(mesh);
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
    close_handles(mesh);
}
