/* Packs frames to one member into one datagram. With many elections, most frames go to the same few
 * members at the same time (heartbeats, their answers, claims). All frames of one turn of the loop
 * wait until its end. Before they are sent, one sync makes the records they depend on durable.
 *
 *   BATCH   kind 1, length 2 little-endian, payload; repeated */
#include "peer/node_state.h"

#include <string.h>

#define HEAD 3u

bool peer_sync(struct bw_peer *p)
{
    if (!p->broken && bw_peer_disk_sync(p->disk) != 0)
        peer_disk_failed(p);
    return !p->broken;
}

static void send_batch(struct bw_peer *p, struct peer_batch *batch)
{
    if (batch->used == 0)
        return;
    int error = bw_datagram_send(p->datagram, batch->to, BW_PEER_BATCH, batch->bytes, batch->used);
    peer_count_out(p, error, (int)batch->used);
    batch->used = 0;
}

void peer_batch_flush(struct bw_peer *p)
{
    if (!p->batches)
        return;
    bool durable = peer_sync(p);
    for (uint32_t i = 0; durable && i < p->batches_used; i++)
        send_batch(p, &p->batches[i]);
    p->batches_used = 0;
}

static struct peer_batch *batch_of(struct bw_peer *p, bw_node to)
{
    for (uint32_t i = 0; i < p->batches_used; i++)
        if (p->batches[i].to == to)
            return &p->batches[i];
    if (p->batches_used == PEER_BATCHES)
        peer_batch_flush(p);
    struct peer_batch *batch = &p->batches[p->batches_used++];
    batch->to = to;
    batch->used = 0;
    return batch;
}

bool peer_batch_add(struct bw_peer *p, bw_node to, unsigned kind, const unsigned char *payload,
                    size_t length)
{
    if (!p->batches || HEAD + length > sizeof p->batches[0].bytes)
        return false;
    struct peer_batch *batch = batch_of(p, to);
    if (batch->used + HEAD + length > sizeof batch->bytes) {
        if (!peer_sync(p))
            return true;
        send_batch(p, batch);
    }
    batch->bytes[batch->used] = (unsigned char)kind;
    batch->bytes[batch->used + 1] = (unsigned char)length;
    batch->bytes[batch->used + 2] = (unsigned char)(length >> 8);
    memcpy(batch->bytes + batch->used + HEAD, payload, length);
    batch->used += HEAD + length;
    return true;
}

bool peer_batch_next(struct bw_sealed *rest, struct bw_sealed *one)
{
    if (rest->length < HEAD)
        return false;
    size_t length = rest->payload[1] | (size_t)rest->payload[2] << 8;
    if (rest->length - HEAD < length || rest->payload[0] == BW_PEER_BATCH)
        return false;
    *one = *rest;
    one->kind = rest->payload[0];
    one->payload = rest->payload + HEAD;
    one->length = length;
    rest->payload += HEAD + length;
    rest->length -= HEAD + length;
    return true;
}
