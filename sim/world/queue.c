/* The heap and its slots. */
#include "sim/world/queue.h"

#include "core/base/assert.h"
#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_SLOTS 1024u
#define SLOT_BITS   24u

_Static_assert(sizeof(struct bw_message) <= BW_SIM_SLOT_BODY, "a message fits into a slot");
_Static_assert(BW_SIM_SLOTS_MAX <= 1u << SLOT_BITS, "a slot's index fits into the key");

void bw_sim_queue_reset(struct bw_sim_queue *queue)
{
    queue->count = 0;
    queue->used = 0;
    queue->free = BW_SIM_SLOT_NONE;
    queue->taken = queue->peak = 0;
    queue->slots_max = BW_SIM_SLOTS_MAX;
    queue->sequence = 0;
    queue->error = 0;
    bw_sim_pool_reset(&queue->pool);
}

void bw_sim_queue_deinit(struct bw_sim_queue *queue)
{
    for (uint32_t i = 0; i < queue->chunks_count; i++)
        free(queue->chunks[i]);
    free(queue->chunks);
    free(queue->heap);
    bw_sim_pool_deinit(&queue->pool);
    memset(queue, 0, sizeof *queue);
}

/* Adds a chunk of slots, and heap space for all of them, so that a push never fails. */
static bool grow(struct bw_sim_queue *queue)
{
    uint32_t slots = (queue->chunks_count + 1) * CHUNK_SLOTS;
    if (queue->cap < slots) {
        uint32_t cap = slots + slots / 2;
        struct bw_sim_queue_item *heap = realloc(queue->heap, cap * sizeof *heap);
        if (!heap)
            return false;
        queue->heap = heap;
        queue->cap = cap;
    }
    size_t bytes = (queue->chunks_count + 1) * sizeof(void *);
    struct bw_sim_slot **chunks = realloc(queue->chunks, bytes);
    if (!chunks)
        return false;
    queue->chunks = chunks;
    chunks[queue->chunks_count] = malloc(CHUNK_SLOTS * sizeof **chunks);
    if (!chunks[queue->chunks_count])
        return false;
    queue->chunks_count++;
    return true;
}

static struct bw_sim_slot *fresh(struct bw_sim_queue *queue)
{
    if (queue->used >= queue->slots_max) {
        queue->error = BW_ELIMIT;
        return NULL;
    }
    if (queue->used == queue->chunks_count * CHUNK_SLOTS && !grow(queue)) {
        queue->error = BW_ENOMEM;
        return NULL;
    }
    struct bw_sim_slot *slot = bw_sim_queue_slot(queue, queue->used);
    slot->self = queue->used++;
    return slot;
}

struct bw_sim_slot *bw_sim_queue_take(struct bw_sim_queue *queue)
{
    struct bw_sim_slot *slot;
    if (queue->free != BW_SIM_SLOT_NONE) {
        slot = bw_sim_queue_slot(queue, queue->free);
        queue->free = slot->next;
    } else {
        slot = fresh(queue);
        if (!slot)
            return NULL;
    }
    slot->kind = 0;
    slot->class = 0;
    slot->election = 0;
    slot->node = BW_NODE_NONE;
    slot->incarnation = 0;
    slot->next = BW_SIM_SLOT_NONE;
    slot->bytes = 0;
    slot->extra = 0;
    slot->sent = 0;
    slot->block = NULL;
    if (++queue->taken > queue->peak)
        queue->peak = queue->taken;
    return slot;
}

void bw_sim_queue_give(struct bw_sim_queue *queue, struct bw_sim_slot *slot)
{
    if (slot->block)
        bw_sim_pool_give(&queue->pool, slot->block, slot->class);
    slot->block = NULL;
    slot->next = queue->free;
    queue->free = slot->self;
    queue->taken--;
}

/* One wide comparison without a branch that could be mispredicted. Times are never negative. */
static inline unsigned __int128 key(const struct bw_sim_queue_item *item)
{
    return (unsigned __int128)(uint64_t)item->at << 64 | item->order;
}

static inline bool before(const struct bw_sim_queue_item *a, const struct bw_sim_queue_item *b)
{
    return key(a) < key(b);
}

void bw_sim_queue_push(struct bw_sim_queue *queue, struct bw_sim_slot *slot, bw_time at)
{
    BW_ASSERT(queue->count < queue->cap);
    struct bw_sim_queue_item item = {.at = at,
                                     .order = queue->sequence++ << SLOT_BITS | slot->self};
    struct bw_sim_queue_item *heap = queue->heap;
    uint32_t i = queue->count++;
    while (i > 0) {
        uint32_t parent = (i - 1) / 4;
        if (!before(&item, &heap[parent]))
            break;
        heap[i] = heap[parent];
        i = parent;
    }
    heap[i] = item;
}

/* Places `item` after the root was removed. */
static void sift_down(struct bw_sim_queue_item *heap, uint32_t count, struct bw_sim_queue_item item)
{
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 4 * i + 1;
        if (child >= count)
            break;
        uint32_t end = child + 4 < count ? child + 4 : count;
        uint32_t least = child;
        for (uint32_t k = child + 1; k < end; k++)
            least = before(&heap[k], &heap[least]) ? k : least;
        if (!before(&heap[least], &item))
            break;
        heap[i] = heap[least];
        i = least;
    }
    heap[i] = item;
}

struct bw_sim_slot *bw_sim_queue_of(const struct bw_sim_queue *queue,
                                    const struct bw_sim_queue_item *item)
{
    return bw_sim_queue_slot(queue, (uint32_t)(item->order & ((1u << SLOT_BITS) - 1)));
}

struct bw_sim_slot *bw_sim_queue_pop(struct bw_sim_queue *queue, bw_time *at)
{
    if (!queue->count)
        return NULL;
    struct bw_sim_queue_item top = queue->heap[0];
    queue->count--;
    if (queue->count)
        sift_down(queue->heap, queue->count, queue->heap[queue->count]);
    *at = top.at;
    return bw_sim_queue_of(queue, &top);
}

void *bw_sim_slot_block(struct bw_sim_queue *queue, struct bw_sim_slot *slot, const void *from,
                        size_t size)
{
    BW_ASSERT(!slot->block);
    slot->block = bw_sim_pool_take(&queue->pool, size, &slot->class);
    if (!slot->block) {
        queue->error = BW_ENOMEM;
        return NULL;
    }
    slot->bytes = (uint32_t)size;
    if (from && size)
        memcpy(slot->block, from, size);
    return slot->block;
}

bool bw_sim_slot_message(struct bw_sim_queue *queue, struct bw_sim_slot *slot,
                         const struct bw_message *msg)
{
    size_t used = bw_message_used(msg->kind);
    memcpy(slot->body, msg, used);
    struct bw_message *copy = bw_sim_slot_msg(slot);
    if (!msg->items) {
        copy->data = NULL;
        return true;
    }
    size_t bytes = msg->items * bw_message_item_size(msg->kind);
    if (used + bytes <= BW_SIM_SLOT_BODY) {
        copy->data = memcpy(slot->body + used, msg->data, bytes);
        return true;
    }
    copy->data = bw_sim_slot_block(queue, slot, msg->data, bytes);
    return copy->data != NULL;
}

void bw_sim_fifo_put(struct bw_sim_queue *queue, struct bw_sim_fifo *fifo, struct bw_sim_slot *slot)
{
    slot->next = BW_SIM_SLOT_NONE;
    if (fifo->tail == BW_SIM_SLOT_NONE)
        fifo->head = slot->self;
    else
        bw_sim_queue_slot(queue, fifo->tail)->next = slot->self;
    fifo->tail = slot->self;
    fifo->count++;
}

struct bw_sim_slot *bw_sim_fifo_get(struct bw_sim_queue *queue, struct bw_sim_fifo *fifo)
{
    if (fifo->head == BW_SIM_SLOT_NONE)
        return NULL;
    struct bw_sim_slot *slot = bw_sim_queue_slot(queue, fifo->head);
    fifo->head = slot->next;
    if (fifo->head == BW_SIM_SLOT_NONE)
        fifo->tail = BW_SIM_SLOT_NONE;
    fifo->count--;
    return slot;
}
