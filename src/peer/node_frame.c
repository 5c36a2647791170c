/* Receives and sends frames; all network traffic passes through here. */
#include "core/base/codec.h"
#include "os/clock.h"
#include "peer/node_state.h"

#include <stdio.h>
#include <string.h>

#define PORT_TRIES 64

/* ---- sending ---- */

void peer_count_out(struct bw_peer *p, int error, int length)
{
    if (error) {
        p->counters.not_sent++;
    } else {
        p->counters.frames_out++;
        p->counters.bytes_out += (uint64_t)length;
    }
}

void peer_send_to(struct bw_peer *p, const struct sockaddr *address, bw_node to)
{
    int length = bw_peer_frame_encode(&p->out, p->bytes, BW_DATAGRAM_PAYLOAD_MAX);
    if (length < 0) {
        p->counters.not_sent++;
        return;
    }
    peer_count_out(
        p, bw_datagram_send_to(p->datagram, address, to, p->out.kind, p->bytes, (size_t)length),
        length);
}

void peer_send(struct bw_peer *p, bw_node to)
{
    const struct sockaddr *address = bw_datagram_address(p->datagram, to);
    int length = p->batches ? bw_peer_frame_encode(&p->out, p->bytes, BW_DATAGRAM_PAYLOAD_MAX) : -1;
    if (!address)
        p->counters.not_sent++;
    else if (length < 0 || !peer_batch_add(p, to, p->out.kind, p->bytes, (size_t)length))
        peer_send_to(p, address, to);
}

/* Messages that do not fit into a datagram are sent over a connection. */
void peer_send_bytes(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length)
{
    const struct sockaddr *address = bw_datagram_address(p->datagram, to);
    if (!address) {
        p->counters.not_sent++;
        return;
    }
    if (peer_batch_add(p, to, BW_PEER_INSTANCE, bytes, length) || !peer_sync(p))
        return;
    int error = length <= BW_DATAGRAM_PAYLOAD_MAX
                    ? bw_datagram_send(p->datagram, to, BW_PEER_INSTANCE, bytes, length)
                    : bw_stream_send(p->stream, to, address, BW_PEER_INSTANCE, bytes, length);
    peer_count_out(p, error, (int)length);
}

void peer_send_message(struct bw_peer *p, const struct bw_message *msg)
{
    int length = bw_message_encode(msg, p->bytes, sizeof p->bytes);
    if (length < 0) {
        p->counters.not_sent++;
        return;
    }
    if (!bw_seal_knows(p->seal, msg->to))
        peer_keep(p, msg->to, p->bytes, (size_t)length);
    peer_send_bytes(p, msg->to, p->bytes, (size_t)length);
}

/* ---- receiving ---- */

static void on_message(struct bw_peer *p, const struct bw_sealed *sealed)
{
    struct bw_message msg;
    if (bw_message_decode(&msg, sealed->payload, sealed->length, p->list, sizeof p->list) != 0 ||
        msg.from != sealed->from || msg.to != p->options.self) {
        p->counters.malformed++;
        return;
    }
    if (!p->instance)
        return;
    struct bw_event event = {.kind = BW_EVENT_MESSAGE, .node = msg.from, .msg = &msg};
    peer_step(p, &event);
}

/* Frames of members, and of nodes that want to join. */
static void on_peer_frame(struct bw_peer *p, bw_node from, const struct sockaddr *address)
{
    struct bw_peer_frame *in = &p->in;
    switch (in->kind) {
    case BW_PEER_JOIN:
    case BW_PEER_ROSTER:
        peer_meet_rows(p, from, &in->rows, address, in->kind == BW_PEER_JOIN);
        break;
    case BW_PEER_SYNC:
        peer_meet_sync(p, from, &in->sync, address);
        break;
    case BW_PEER_FOUND:
        peer_meet_found(p, from, &in->founding);
        break;
    case BW_PEER_DEAD:
    case BW_PEER_HANDED:
        peer_answer_dead(p, from, &in->death, in->kind == BW_PEER_HANDED);
        break;
    case BW_PEER_ORDER:
        peer_answer_order(p, from, address, &in->order);
        break;
    case BW_PEER_QUERY:
        peer_answer_query(p, from, address, &in->query);
        break;
    case BW_PEER_CLAIM:
        peer_claims_received(p, from, &in->lead);
        break;
    case BW_PEER_VIEW:
        peer_take_view(p, from, &in->view);
        break;
    case BW_PEER_INSTANCE:
    case BW_PEER_BATCH:
    case BW_PEER_FRAME_KINDS:
        break;
    }
}

/* Asks an unknown or restarted node to introduce itself. */
static void on_unknown_sender(struct bw_peer *p, bw_node from, const struct sockaddr *address)
{
    p->counters.unknown_senders++;
    if (address && p->counters.unknown_senders % 16 == 1)
        peer_meet_hello(p, from, address);
}

/* From a node with other settings we accept only deaths, claims of leadership, and its settings. */
static bool is_ignored(const struct bw_peer *p, const struct bw_sealed *sealed)
{
    bool decides = sealed->kind == BW_PEER_INSTANCE || sealed->kind == BW_PEER_ROSTER ||
                   sealed->kind == BW_PEER_FOUND || sealed->kind == BW_PEER_ORDER;
    return decides && peer_rules_mismatched(p, sealed->from);
}

static void on_one(struct bw_peer *p, const struct bw_sealed *sealed,
                   const struct sockaddr *address)
{
    bw_node from = sealed->from;
    bool client = from == BW_NODE_NONE;
    if (p->dead)
        return;
    if (is_ignored(p, sealed)) {
        on_unknown_sender(p, from, address); /* the sender may have restarted since then */
        return;
    }
    if (sealed->kind == BW_PEER_INSTANCE && !client) {
        if (peer_counts_on(p, from))
            on_message(p, sealed);
        else
            on_unknown_sender(p, from, address);
        return;
    }
    p->in.kind = (enum bw_peer_frame_kind)sealed->kind;
    if (bw_peer_frame_decode(&p->in, sealed->payload, sealed->length) != 0)
        p->counters.malformed++;
    else if (!client || sealed->kind == BW_PEER_QUERY || sealed->kind == BW_PEER_ORDER)
        on_peer_frame(p, from, address);
}

static void on_frame(struct bw_peer *p, const struct bw_sealed *sealed,
                     const struct sockaddr *address)
{
    struct bw_sealed rest = *sealed, one;
    p->counters.frames_in++;
    p->counters.bytes_in += sealed->length;
    if (p->dead)
        return;
    if (sealed->from != BW_NODE_NONE)
        peer_received(p, sealed->from, bw_clock_boot());
    if (sealed->kind != BW_PEER_BATCH) {
        on_one(p, sealed, address);
        return;
    }
    if (sealed->length <= sizeof p->batch_in) {
        memcpy(p->batch_in, sealed->payload, sealed->length);
        rest.payload = p->batch_in;
    }
    while (sealed->length <= sizeof p->batch_in && peer_batch_next(&rest, &one))
        on_one(p, &one, address);
    p->counters.malformed += rest.length > 0;
}

static void on_datagram(void *context, const struct bw_sealed *sealed, const struct sockaddr *from)
{
    on_frame(context, sealed, from);
}

static void on_stream(void *context, const struct bw_sealed *sealed, uint64_t link)
{
    struct bw_peer *p = context;
    (void)link;
    on_frame(p, sealed, bw_datagram_address(p->datagram, sealed->from));
}

/* A handshake with `node` has completed. Members that meet for the first time need not exchange
 * rosters: comparing rosters has its own schedule, and in a large cluster every pair meets once. A
 * restarted node may have missed many changes. */
static void on_met(void *context, bw_node node, bool restarted, const struct sockaddr *from)
{
    struct bw_peer *p = context;
    if (p->dead || node == BW_NODE_NONE)
        return;
    if (!p->formed || !bw_peer_roster_has(&p->roster, node))
        peer_meet_hello(p, node, from);
    else if (restarted)
        peer_meet_compare(p, node, from);
}

/* Our frames were dropped by the handshake. Messages of the instance are sent again, because an
 * unanswered first ping would raise a suspicion. */
static void on_lost(void *context, bw_node node, const struct sockaddr *from)
{
    struct bw_peer *p = context;
    if (!peer_keep_again(p, node))
        on_met(context, node, false, from);
}

/* A connection to the leader closed: a hint to check soon, but no proof of its death. */
static void on_down(void *context, bw_node node)
{
    struct bw_event event = {.kind = BW_EVENT_HINT, .node = node};
    peer_step(context, &event);
}

/* ---- opening ---- */

static int open_seal(struct bw_peer *p, char *why)
{
    struct bw_keyring *ring = p->options.keyring;
    if (!ring)
        ring = p->own_ring = bw_keyring_public();
    struct bw_seal_options options = {.ring = ring,
                                      .cluster = bw_seal_cluster(p->cluster),
                                      .self = p->options.self,
                                      .peers_max = p->cap};
    int error = ring && options.cluster ? bw_seal_new(&p->seal, &options) : BW_ENOMEM;
    if (error)
        snprintf(why, BW_PEER_WHY_MAX + 1, "cannot seal frames: %s", bw_error_text(error));
    return error;
}

static int open_sockets(struct bw_peer *p, const struct sockaddr *listen, char *why)
{
    struct bw_datagram_options udp = {.loop = p->options.loop,
                                      .seal = p->seal,
                                      .listen = listen,
                                      .peers_max = p->cap,
                                      .context = p,
                                      .frame = on_datagram,
                                      .met = on_met,
                                      .lost = on_lost};
    int error = bw_datagram_open(&p->datagram, &udp, why);
    if (error)
        return error;
    const struct sockaddr *bound = bw_datagram_bound(p->datagram);
    memcpy(&p->bound, bound, bw_sockaddr_length(bound));
    struct bw_stream_options tcp = {.loop = p->options.loop,
                                    .seal = p->seal,
                                    .listen = bound,
                                    .credentials = p->options.credentials,
                                    .links_max = 2 * p->cap,
                                    .context = p,
                                    .frame = on_stream,
                                    .down = on_down};
    return bw_stream_open(&p->stream, &tcp, why);
}

/* Opens the sockets. If the kernel chose a UDP port that another process uses for TCP, tries
 * another port. */
int peer_net_open(struct bw_peer *p, char *why)
{
    struct sockaddr_storage listen;
    struct bw_peer_address plain;
    if (bw_peer_address_find(p->options.listen, &listen) != 0) {
        snprintf(why, BW_PEER_WHY_MAX + 1, "invalid --listen address '%.200s': expected HOST:PORT",
                 p->options.listen);
        return BW_EINVAL;
    }
    int error = open_seal(p, why);
    bw_peer_address_from(&plain, (struct sockaddr *)&listen);
    for (int i = 0; !error; i++) {
        error = open_sockets(p, (struct sockaddr *)&listen, why);
        if (!error || !p->datagram || plain.port != 0 || i == PORT_TRIES)
            break;
        bw_datagram_close(p->datagram, NULL);
        p->datagram = NULL;
        error = 0;
    }
    return error;
}

static void on_closed(void *context)
{
    struct bw_peer *p = context;
    p->handles--;
    peer_net_closed(p);
}

void peer_net_close(struct bw_peer *p)
{
    if (p->stream) {
        p->handles++;
        bw_stream_close(p->stream, on_closed);
    }
    if (p->datagram) {
        p->handles++;
        bw_datagram_close(p->datagram, on_closed);
    }
}
