/* Sends the messages of Raft to other nodes: small ones at once, entries within a window for each
 * follower (append_window.h).
 *
 * A connection has two lanes (mesh.h). Appends with entries use BULK; they keep their order. All
 * other messages use URGENT and may overtake them, which Raft permits: it assumes nothing about the
 * order of messages. Two messages without entries use BULK on purpose: a check must follow the
 * entries that it asks about, and the announcement of a snapshot must follow its pieces. */
#include "core/base/codec.h"
#include "core/base/little.h"
#include "os/clock.h"
#include "serve/replica/state.h"

/* Raft puts at most this many entries into an append (batch_max). */
#define ENTRIES_MAX REPLICA_BATCH_MAX
/* While entries are on their way, contacts are at least this far apart: each entry's append would
 * otherwise cause one. */
#define CONTACT_NS (20 * BW_MS)

static struct bw_append_window *window_of(struct bw_replica *r, bw_node node)
{
    struct outgoing *unused = NULL;
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        if (r->outgoing[i].node == node)
            return &r->outgoing[i].window;
        if (!unused &&
            (r->outgoing[i].node == BW_NODE_NONE || !bw_mesh_knows(r->mesh, r->outgoing[i].node)))
            unused = &r->outgoing[i];
    }
    if (!unused)
        return NULL;
    unused->node = node;
    bw_append_window_reset(&unused->window);
    return &unused->window;
}

static uint32_t entries_of(const struct bw_message *msg)
{
    uint32_t count = 0;
    if (msg->kind == BW_MSG_RAFT_APPEND)
        for (uint32_t i = 0; i < msg->append.runs; i++)
            count += msg->append.run[i].count;
    return count;
}

/* Sends the message with its entries: the length and the bytes of each. Returns false if the log
 * does not have them, or if the node is not connected. */
static bool transmit(struct bw_replica *r, const struct bw_message *msg, enum bw_mesh_lane lane)
{
    static unsigned char head[4], frame[BW_FRAME_MAX], lengths[ENTRIES_MAX][4];
    static struct bw_part parts[2 + 2 * ENTRIES_MAX];
    uint32_t count = entries_of(msg), used = 2;
    int length = bw_message_encode(msg, frame, sizeof frame);
    if (length < 0 || count > ENTRIES_MAX)
        return false;
    bw_put32(head, (uint32_t)length);
    parts[0] = (struct bw_part){head, sizeof head};
    parts[1] = (struct bw_part){frame, (size_t)length};
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, msg->append.prev_index + 1 + i);
        if (!entry)
            return false;
        bw_put32(lengths[i], entry->length);
        parts[used++] = (struct bw_part){lengths[i], sizeof lengths[i]};
        parts[used++] = (struct bw_part){entry->bytes, entry->length};
    }
    return bw_mesh_send(r->mesh, msg->to, BW_FRAME_RAFT, lane, parts, used);
}

static uint64_t unacknowledged(struct bw_replica *r, const struct bw_append_window *window,
                               bw_node to)
{
    bw_index match = bw_raft_match(r->raft, to);
    return bw_log_bytes_between(&r->log, match > window->start ? match : window->start,
                                window->sent);
}

/* The number of entries of the next piece: as many as fit, at least one. */
static uint32_t piece_of(const struct bw_replica *r, const struct bw_append_window *window)
{
    uint32_t all = bw_append_window_entries(window), count = 1;
    while (count < all &&
           bw_log_bytes_between(&r->log, window->sent, window->sent + count + 1) <= BW_APPEND_PIECE)
        count++;
    return count;
}

/* Sends pending appends as far as the window allows. */
static void pump(struct bw_replica *r, bw_node to, struct bw_append_window *window)
{
    struct bw_message piece;
    while (window->count) {
        uint32_t count = piece_of(r, window);
        uint64_t bytes = bw_log_bytes_between(&r->log, window->sent, window->sent + count);
        if (!bw_append_window_allows(unacknowledged(r, window, to), bytes))
            return;
        bw_append_window_take(window, count, &piece);
        if (!transmit(r, &piece, BW_LANE_BULK)) {
            bw_append_window_reset(window); /* a heartbeat will show Raft what is missing */
            return;
        }
    }
}

/* Whether so many bytes are on their way that a message behind them would be late. */
static bool is_busy(struct bw_replica *r, const struct bw_append_window *window, bw_node to)
{
    return window->count || unacknowledged(r, window, to) > BW_APPEND_LITTLE;
}

static void send_contact(struct bw_replica *r, struct bw_append_window *window,
                         const struct bw_message *append)
{
    struct bw_message contact = *append;
    bw_index match = bw_raft_match(r->raft, append->to);
    bw_term term = bw_raft_term_at(r->raft, match);
    bw_append_without_entries(&contact, term ? match : 0, term);
    window->contacted = append->append.echo;
    transmit(r, &contact, BW_LANE_URGENT);
}

static void send_entries(struct bw_replica *r, struct bw_append_window *window,
                         const struct bw_message *append)
{
    struct bw_message without = *append;
    if (!bw_append_window_push(window, append)) {
        bw_append_without_entries(&without, append->append.prev_index, append->append.prev_term);
        transmit(r, &without, BW_LANE_BULK);
        return;
    }
    pump(r, append->to, window);
    if (is_busy(r, window, append->to) && append->append.echo >= window->contacted + CONTACT_NS)
        send_contact(r, window, append);
}

/* Sends an append without entries: a heartbeat, or a round of reads. */
static void send_heartbeat(struct bw_replica *r, struct bw_append_window *window,
                           const struct bw_message *append)
{
    struct bw_message check = *append;
    bw_term term = bw_raft_term_at(r->raft, window->sent);
    bool used = window->term == append->term && window->sent > window->start;
    if (!used || !is_busy(r, window, append->to)) {
        bool alone = !used || unacknowledged(r, window, append->to) == 0;
        transmit(r, append, alone ? BW_LANE_URGENT : BW_LANE_BULK);
        return;
    }
    send_contact(r, window, append);
    if (!term)
        return;
    bw_append_without_entries(&check, window->sent, term);
    transmit(r, &check, BW_LANE_BULK);
}

void replica_send(struct bw_replica *r, const struct bw_message *msg)
{
    struct bw_append_window *window =
        msg->kind == BW_MSG_RAFT_APPEND ? window_of(r, msg->to) : NULL;
    if (msg->kind == BW_MSG_RAFT_SNAPSHOT)
        replica_snapshot_send(r, msg->to);
    if (!window)
        transmit(r, msg, msg->kind == BW_MSG_RAFT_SNAPSHOT ? BW_LANE_BULK : BW_LANE_URGENT);
    else if (entries_of(msg))
        send_entries(r, window, msg);
    else
        send_heartbeat(r, window, msg);
}

void replica_send_more(struct bw_replica *r, bw_node to)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (r->outgoing[i].node == to && r->outgoing[i].window.count)
            pump(r, to, &r->outgoing[i].window);
}

void replica_send_lost(struct bw_replica *r, bw_node to)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (r->outgoing[i].node == to)
            bw_append_window_reset(&r->outgoing[i].window);
}

void replica_send_stop(struct bw_replica *r)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        bw_append_window_reset(&r->outgoing[i].window);
}
