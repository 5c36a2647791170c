/* What is still to happen: a 4-ary heap keyed by (time, order of scheduling) over slots of fixed
 * size.
 *
 * Slots come from chunks that never move, so a pointer to one stays good while others are taken. A
 * message is copied into its slot as far as its kind uses it, its list right behind when it fits
 * and into the pool when not. Errors are sticky: after the first, takes return NULL and the world
 * ends the run. */
#ifndef BW_SIM_QUEUE_H
#define BW_SIM_QUEUE_H

#include "core/base/message.h"
#include "sim/world/pool.h"

#define BW_SIM_SLOT_NONE UINT32_MAX
/* Slots at once: 216 bytes each, so 900 MiB at the most. More under way than this is a flood. */
#define BW_SIM_SLOTS_MAX (1u << 22)
#define BW_SIM_SLOT_BODY 232u /* a message, or a SWIM probe with all its updates */

struct bw_sim_slot {
    uint8_t kind; /* whose meaning is the user's */
    uint8_t class;
    uint16_t election;
    bw_node node;   /* whom it happens to */
    uint32_t life;  /* of that node (or timer generation): what is of an earlier life is void */
    uint32_t next;  /* in a list of slots */
    uint32_t self;  /* index */
    uint32_t bytes; /* of the block */
    uint64_t extra;
    void *block; /* from the pool, or NULL */
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
    uint32_t free; /* list of slots given back */
    uint32_t taken, peak;
    uint32_t slots_max; /* this run's bound; BW_SIM_SLOTS_MAX unless a test wants less */
    uint64_t sequence;
    int error; /* 0, BW_ENOMEM or BW_ELIMIT */
    struct bw_sim_pool pool;
};

/* First in, first out, linked through slots. */
struct bw_sim_fifo {
    uint32_t head, tail, count;
};

/* The queue starts as all zero bytes; reset before each run, deinit at the end. */
void bw_sim_queue_reset(struct bw_sim_queue *queue);
void bw_sim_queue_deinit(struct bw_sim_queue *queue);

/* A slot with its header cleared, or NULL with queue->error set. */
struct bw_sim_slot *bw_sim_queue_take(struct bw_sim_queue *queue);
/* Gives a slot (and its block) back. */
void bw_sim_queue_give(struct bw_sim_queue *queue, struct bw_sim_slot *slot);
/* Schedules a taken slot; there is always room for it. */
void bw_sim_queue_push(struct bw_sim_queue *queue, struct bw_sim_slot *slot, bw_time at);
/* The next slot, unscheduled, and when; NULL when nothing is pending. */
struct bw_sim_slot *bw_sim_queue_pop(struct bw_sim_queue *queue, bw_time *at);

static inline bw_time bw_sim_queue_next(const struct bw_sim_queue *queue)
{
    return queue->count ? queue->heap[0].at : BW_TIME_NEVER;
}

static inline struct bw_sim_slot *bw_sim_queue_slot(const struct bw_sim_queue *queue, uint32_t i)
{
    return &queue->chunks[i >> 10][i & 1023u];
}

/* Copies `size` bytes behind the slot; returns the copy or NULL with queue->error set. `from` NULL:
 * not filled. */
void *bw_sim_slot_block(struct bw_sim_queue *queue, struct bw_sim_slot *slot, const void *from,
                        size_t size);
/* Copies a message and its list into the slot. False: out of memory. */
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
/* The oldest, or NULL. */
struct bw_sim_slot *bw_sim_fifo_get(struct bw_sim_queue *queue, struct bw_sim_fifo *fifo);

#endif
