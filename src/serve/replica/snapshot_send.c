/* Sends a snapshot to a node that lags or is new. It sends a window at a time, so that heartbeats
 * do not queue behind the whole snapshot and no queue limits its size. Raft requests the snapshot
 * until the node has it; a transfer in progress ignores these requests. */
#include "core/base/little.h"
#include "serve/replica/snapshot_file.h"
#include "serve/replica/state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE_BYTES  ((size_t)1 << 20)
#define PIECE_HEAD   17u
#define WINDOW_BYTES ((size_t)4 << 20)
/* If Raft requests a snapshot more often than this after its last piece was sent, the snapshot
 * counts as lost and is sent again. */
#define ASKED_MAX 4u

static struct feed *find_feed(struct bw_replica *r, bw_node node)
{
    struct feed *idle = NULL;
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        if (r->feeds[i].node == node)
            return &r->feeds[i];
        if (!r->feeds[i].sending)
            idle = &r->feeds[i];
    }
    if (idle)
        *idle = (struct feed){.node = node};
    return idle;
}

static void end(struct feed *feed, bool sent)
{
    close(feed->fd);
    feed->sending = false;
    feed->sent = sent;
    feed->asked = 0;
}

/* Sends one piece. Returns false if there is nothing more to send now. */
static bool send_piece(struct bw_replica *r, struct feed *feed, unsigned char *bytes)
{
    unsigned char head[PIECE_HEAD];
    ssize_t length = pread(feed->fd, bytes, PIECE_BYTES, (off_t)feed->at);
    if (length < 0) {
        end(feed, false);
        return false;
    }
    bw_put64(head, feed->index);
    bw_put64(head + 8, feed->at);
    head[16] = (size_t)length < PIECE_BYTES;
    struct bw_part parts[] = {{head, sizeof head}, {bytes, (size_t)length}};
    if (!bw_mesh_send(r->mesh, feed->node, BW_FRAME_PIECE, BW_LANE_BULK, parts, 2)) {
        end(feed, false); /* disconnected: restart when Raft requests it again */
        return false;
    }
    feed->at += (uint64_t)length;
    if (head[16])
        end(feed, true);
    return feed->sending;
}

static void feed_more(struct bw_replica *r, struct feed *feed)
{
    unsigned char *bytes = malloc(PIECE_BYTES);
    while (bytes && bw_mesh_backlog(r->mesh, feed->node) < WINDOW_BYTES &&
           send_piece(r, feed, bytes))
        ;
    free(bytes);
}

void replica_snapshot_send(struct bw_replica *r, bw_node to)
{
    char path[4352];
    struct feed *feed = find_feed(r, to);
    if (!feed || feed->sending)
        return;
    if (feed->sent && feed->index == r->snapshot_index && feed->asked++ < ASKED_MAX)
        return;
    bw_snapshot_name(path, sizeof path, r->options.directory, r->snapshot_index);
    *feed = (struct feed){
        .node = to, .index = r->snapshot_index, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    feed->sending = feed->fd >= 0;
    if (feed->sending)
        feed_more(r, feed);
}

void replica_feed(struct bw_replica *r)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (r->feeds[i].sending)
            feed_more(r, &r->feeds[i]);
}

void replica_feed_stop(struct bw_replica *r)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++)
        if (r->feeds[i].sending)
            end(&r->feeds[i], false);
}
