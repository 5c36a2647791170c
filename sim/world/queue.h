/* The queue of pending events: a 4-ary heap, ordered by (time, order of scheduling), over slots of
 * fixed size.
 *
 * Slots come from chunks that never move, so a pointer to a slot stays valid while others are
 * taken. A slot contains only those fields of a message that its kind uses. The message's list
 * follows in the same slot if it fits, otherwise it is in the pool. Errors are sticky: after the
 * first one, the queue gives out no more slots (NULL), and the world ends the run. */
#ifndef BW_SIM_WORLD_QUEUE_H
#define BW_SIM_WORLD_QUEUE_H

#include "core/base/message.h"
#include "sim/world/pool.h"

#define BW_SIM_SLOT_NONE UINT32_MAX
/* Maximum number of slots, 280 bytes each, so at most 1120 MiB. More pending events than that are a
 * flood. */
#define BW_SIM_SLOTS_MAX (1u << 22)
#define BW_SIM_SLOT_BODY 232u /* fits a message, or a SWIM probe with all its updates */

struct bw_sim_slot {
    uint8_t kind; /* defined by the user of the queue */
    uint8_t class;
    uint16_t election;
    bw_node node; /* the node that it concerns */
    /* incarnation of that node (or timer generation); events of an earlier incarnation are void */
    uint32_t incarnation;
    uint32_t next;  /* in a list of slots */
    uint32_t self;  /* index */
    uint32_t bytes; /* size of the block */
    uint64_t extra;
    bw_time sent; /* a message: when it was sent */
    void *block;  /* from the pool, or NULL */
    _Alignas(8) unsigned char body[BW_SIM_SLOT_BODY];
};

struct bw_sim_queue_item {
    bw_time at;
    uint64_t order; /* sequence << 24 | slot */
};

struct bw_sim_queue {
    struct bw_sim_queue_item *heap;
    uint32_t count, cap;
    struct bw_sim_slot **chunks;
    uint32_t chunks_count;
    uint32_t used; /* slots ever taken in this run */
    uint32_t free; /* list of freed slots */
    uint32_t taken, peak;
    uint32_t slots_max; /* bound for this run; BW_SIM_SLOTS_MAX unless a test sets less */
    uint64_t sequence;
    int error; /* 0, BW_ENOMEM or BW_ELIMIT */
    struct bw_sim_pool pool;
};

/* A FIFO list, linked through slots. */
struct bw_sim_fifo {
    uint32_t head, tail, count;
};

/* The queue starts as zero bytes; reset it before each run, deinit it at the end. */
void bw_sim_queue_reset(struct bw_sim_queue *queue);
void bw_sim_queue_deinit(struct bw_sim_queue *queue);

/* Returns a slot with a cleared header, or NULL with queue->error set. */
struct bw_sim_slot *bw_sim_queue_take(struct bw_sim_queue *queue);
/* Frees a slot and its block. */
void bw_sim_queue_give(struct bw_sim_queue *queue, struct bw_sim_slot *slot);
/* Schedules a taken slot; never fails. */
void bw_sim_queue_push(struct bw_sim_queue *queue, struct bw_sim_slot *slot, bw_time at);
/* Returns the next slot, no longer scheduled, and its time; NULL if no event is pending. */
struct bw_sim_slot *bw_sim_queue_pop(struct bw_sim_queue *queue, bw_time *at);

static inline bw_time bw_sim_queue_next(const struct bw_sim_queue *queue)
{
    return queue->count ? queue->heap[0].at : BW_TIME_NEVER;
}

static inline struct bw_sim_slot *bw_sim_queue_slot(const struct bw_sim_queue *queue, uint32_t i)
{
    return &queue->chunks[i >> 10][i & 1023u];
}

/* Returns the slot of an item of the heap. */
struct bw_sim_slot *bw_sim_queue_of(const struct bw_sim_queue *queue,
                                    const struct bw_sim_queue_item *item);

/* Copies `size` bytes into a block of the slot. Returns the copy, or NULL with queue->error set.
 * `from` NULL: the block is not initialized. */
void *bw_sim_slot_block(struct bw_sim_queue *queue, struct bw_sim_slot *slot, const void *from,
                        size_t size);
/* Copies a message and its list into the slot. Returns false if out of memory. */
bool bw_sim_slot_message(struct bw_sim_queue *queue, struct bw_sim_slot *slot,
                         const struct bw_message *msg);

static inline struct bw_message *bw_sim_slot_msg(struct bw_sim_slot *slot)
{
    return (struct bw_message *)(void *)slot->body;
}

static inline void bw_sim_fifo_init(struct bw_sim_fifo *fifo)
{
    fifo->head = fifo->tail = BW_SIM_SLOT_NONE;
    fifo->count = 0;
}

void bw_sim_fifo_put(struct bw_sim_queue *queue, struct bw_sim_fifo *fifo,
                     struct bw_sim_slot *slot);
/* Returns the oldest slot, or NULL. */
struct bw_sim_slot *bw_sim_fifo_get(struct bw_sim_queue *queue, struct bw_sim_fifo *fifo);

#endif
