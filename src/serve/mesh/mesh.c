/* Who is connected to; see mesh.h. Outgoing connections are made again and again with a short,
 * jittered pause: a node that comes back is there within milliseconds. */
#include "serve/mesh/mesh.h"

#include "core/base/error.h"
#include "net/seed.h"
#include "serve/mesh/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_MIN_MS 2u
#define PAUSE_MAX_MS 250u
#define ANSWER_MS    5000u /* a connection that is not agreed on by then is given up */
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

/* Time to try again, or to give up what was tried. */
static void on_pause(uv_timer_t *timer)
{
    struct peer *peer = timer->data;
    if (peer->wire && !peer->wire->up)
        wire_close(peer->wire);
    else
        dial(peer);
}

void mesh_try_later(struct peer *peer)
{
    if (peer->mesh->closing || peer->removed)
        return;
    uint64_t pause = (uint64_t)PAUSE_MIN_MS << (peer->failures < 7 ? peer->failures : 7);
    peer->failures++;
    pause = pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
    uint64_t jitter = bw_rng_below(&peer->mesh->rng, pause / 2 + 1);
    uv_timer_start(&peer->timer, on_pause, pause + jitter, 0);
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
        wire_greet(wire);
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
        mesh_try_later(peer);
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
        mesh_try_later(peer);
    uv_freeaddrinfo(found);
    mesh_release(peer->mesh);
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
        mesh_try_later(peer);
        return;
    }
    peer->looking = true;
    peer->mesh->handles++;
}

int bw_mesh_add(struct bw_mesh *mesh, const struct bw_replica_member *member)
{
    if (mesh_find(mesh, member->id) || member->id == mesh->options.self)
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

bool bw_mesh_send(struct bw_mesh *mesh, bw_node to, enum bw_peer_frame kind,
                  const struct bw_part *parts, uint32_t count)
{
    struct peer *peer = mesh_find(mesh, to);
    return peer && peer->connected && wire_send(peer->wire, kind, parts, count);
}

size_t bw_mesh_backlog(const struct bw_mesh *mesh, bw_node node)
{
    const struct peer *peer = mesh_find(mesh, node);
    return peer && peer->wire ? uv_stream_get_write_queue_size((uv_stream_t *)&peer->wire->tcp) : 0;
}

bool bw_mesh_connected(const struct bw_mesh *mesh, bw_node node)
{
    const struct peer *peer = mesh_find(mesh, node);
    return peer && peer->connected;
}

bool bw_mesh_hears(const struct bw_mesh *mesh, bw_node node)
{
    for (const struct wire *wire = mesh->incoming; wire; wire = wire->next)
        if (wire->from == node)
            return true;
    return false;
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
    wire_begin(wire);
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
    mesh_release(handle->data);
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
