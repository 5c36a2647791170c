/* The handshake of a connection: both sides exchange versions and identities before they accept
 * anything else; see state.h. */
#include "core/base/little.h"
#include "core/replica/member_list.h"
#include "serve/mesh/state.h"

#include <string.h>

#define HELLO_BYTES 28u /* plus a host */
#define JOIN_BYTES  12u

static enum bw_mesh_verdict judge_versions(const struct wire *wire, const unsigned char *bytes)
{
    struct bw_versions ours = {BW_MESH_VERSION, BW_MESH_VERSION_MIN};
    struct bw_versions theirs = {bw_get32(bytes), bw_get32(bytes + 4)};
    return bw_versions_judge(&ours, &theirs, wire->mesh->level);
}

static void send_answer(struct wire *wire, enum bw_mesh_verdict verdict, const unsigned char *more,
                        size_t length)
{
    unsigned char answer[BW_MESH_ANSWER];
    bw_put32(answer, BW_MESH_VERSION);
    bw_put32(answer + 4, BW_MESH_VERSION_MIN);
    bw_put32(answer + 8, verdict);
    struct bw_part parts[] = {{answer, sizeof answer}, {more, length}};
    wire_send(wire, BW_FRAME_ANSWER, BW_LANE_URGENT, parts, 2);
}

/* Returns true if the certificate is valid for the node that the sender claims to be. */
static bool certificate_matches(const struct wire *wire, const struct bw_replica_member *from)
{
    const struct peer *peer = from->id ? mesh_find(wire->mesh, from->id) : NULL;
    bool matches = !wire->tls || (peer ? bw_tls_peer_is_host(wire->tls, peer->member.host)
                                       : bw_tls_peer_is_host(wire->tls, from->host) &&
                                             bw_tls_peer_may_serve(wire->tls));
    if (!matches)
        bw_credentials_refused(
            wire->mesh->options.credentials,
            "its certificate is not valid for the host of the node it claims to be");
    return matches;
}

/* Parses the address at the end of HELLO and JOIN: 4 port, host. */
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
    enum bw_mesh_verdict verdict = judge_versions(wire, bytes);
    if (verdict == BW_MESH_OK &&
        (bw_get64(bytes + 8) != options->cluster || bw_get32(bytes + 20) != options->self))
        verdict = BW_MESH_FOREIGN;
    if (verdict == BW_MESH_OK && !certificate_matches(wire, from))
        verdict = BW_MESH_CERTIFICATE;
    return verdict == BW_MESH_OK ? options->judge(options->context, from) : verdict;
}

/* A node that moved cannot report its new address through the log before the others reach it. So
 * they try the address of its HELLO while the one they know does not answer. */
static void try_address(struct bw_mesh *mesh, const struct bw_replica_member *from)
{
    const struct peer *peer = mesh_find(mesh, from->id);
    if (peer && !peer->connected && from->port && from->host[0])
        bw_mesh_move(mesh, from);
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
    send_answer(wire, verdict, NULL, 0);
    if (verdict != BW_MESH_OK)
        return false;
    wire->from = from.id;
    wire->version = bw_get32(bytes);
    mesh_close_incoming(wire->mesh, from.id, wire);
    try_address(wire->mesh, &from);
    options->opened(options->context, wire->from);
    return true;
}

/* Answers a node that asks which member it is. */
static bool take_join(struct wire *wire, const unsigned char *bytes, size_t length)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    static unsigned char more[12 + BW_MEMBER_LIST_BYTES_MAX];
    struct bw_replica_member from = {0};
    bw_node id = BW_NODE_NONE;
    size_t rest = 0;
    if (length < JOIN_BYTES || !take_address(&from, bytes + 8, length - 8))
        return false;
    enum bw_mesh_verdict verdict = judge_versions(wire, bytes);
    if (verdict == BW_MESH_OK && !certificate_matches(wire, &from))
        verdict = BW_MESH_CERTIFICATE;
    if (verdict == BW_MESH_OK)
        verdict = options->joins(options->context, from.host, from.port, &id, more + 12, &rest);
    bw_put64(more, options->cluster);
    bw_put32(more + 8, id);
    send_answer(wire, verdict, more, verdict == BW_MESH_OK ? 12 + rest : 0);
    return true;
}

/* Processes the answer to our HELLO. */
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
    wire->version = bw_get32(bytes);
    wire->up_ms = uv_now(options->loop);
    uv_timer_stop(&wire->peer->timer);
    wire->peer->connected = true;
    options->opened(options->context, node);
    return true;
}

bool wire_take_frame(struct wire *wire, enum bw_mesh_frame kind, const unsigned char *bytes,
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

/* The side that connected sends the first frame. */
void wire_handshake(struct wire *wire)
{
    const struct bw_mesh_options *options = &wire->mesh->options;
    unsigned char hello[HELLO_BYTES];
    if (!wire->peer || wire->hello_sent)
        return;
    wire->hello_sent = true;
    bw_put32(hello, BW_MESH_VERSION);
    bw_put32(hello + 4, BW_MESH_VERSION_MIN);
    bw_put64(hello + 8, options->cluster);
    bw_put32(hello + 16, options->self);
    bw_put32(hello + 20, wire->peer->member.id);
    bw_put32(hello + 24, options->own_port);
    struct bw_part parts[] = {{hello, sizeof hello},
                              {options->own_host, strlen(options->own_host)}};
    wire_send(wire, BW_FRAME_HELLO, BW_LANE_URGENT, parts, 2);
}
