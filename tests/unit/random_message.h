/* A random valid message of any kind: the numbers are small, large and at their bounds alike, so
 * that every length of a varint occurs. */
#ifndef BW_TESTS_RANDOM_MESSAGE_H
#define BW_TESTS_RANDOM_MESSAGE_H

#include "base/codec.h"
#include "base/event.h"
#include "base/rng.h"
#include "base/valid.h"

#include <string.h>

union message_list { /* room for the largest list, aligned for every item */
    uint64_t align;
    unsigned char bytes[BW_MESSAGE_DATA_MAX];
};

/* Any number of up to `bits` bits, every length equally likely. */
static uint64_t number(struct bw_rng *rng, unsigned bits)
{
    unsigned length = 1 + (unsigned)bw_rng_below(rng, bits);
    return bw_rng_next(rng) >> (64 - length);
}

static bw_node some_node(struct bw_rng *rng)
{
    bw_node node = (bw_node)number(rng, 32);
    return node ? node : 1;
}

static bw_time some_time(struct bw_rng *rng)
{
    return (bw_time)number(rng, 63);
}

static void fill_append(struct bw_rng *rng, struct bw_message *msg)
{
    struct bw_append_part *part = &msg->append;
    part->prev_index = number(rng, 60);
    part->prev_term = part->prev_index ? 1 + bw_rng_below(rng, msg->term - 8) : 0;
    part->commit = number(rng, 64);
    part->echo = some_time(rng);
    part->runs = (uint32_t)bw_rng_below(rng, BW_RAFT_APPEND_RUNS_MAX + 1);
    bw_term term = part->prev_term;
    uint32_t entries = 0;
    for (uint32_t i = 0; i < part->runs; i++) {
        term += i > 0 || term == 0 ? 1 : bw_rng_below(rng, 2);
        part->run[i].term = term;
        part->run[i].count = 1 + (uint32_t)number(rng, 29);
        entries += part->run[i].count;
    }
    if (entries > 0 && bw_rng_chance(rng, 0.5))
        part->change = (struct bw_change){.op = (uint8_t)(1 + bw_rng_below(rng, BW_CHANGE_REMOVE)),
                                          .entry = (uint32_t)bw_rng_below(rng, entries),
                                          .node = some_node(rng)};
}

static void fill_raft(struct bw_rng *rng, struct bw_message *msg)
{
    msg->term = 16 + number(rng, 60);
    switch (msg->kind) {
    case BW_MSG_RAFT_APPEND:
        fill_append(rng, msg);
        break;
    case BW_MSG_RAFT_APPEND_REPLY:
        msg->append_reply = (struct bw_append_reply_part){number(rng, 64), number(rng, 64),
                                                          number(rng, 64), some_time(rng)};
        break;
    case BW_MSG_RAFT_SNAPSHOT:
        msg->snapshot =
            (struct bw_snapshot_part){1 + number(rng, 63), 1 + bw_rng_below(rng, msg->term),
                                      some_time(rng), 1 + (uint32_t)bw_rng_below(rng, msg->items)};
        break;
    case BW_MSG_RAFT_TIMEOUT_NOW:
        break;
    default:
        msg->vote.last_index = number(rng, 64);
        msg->vote.last_term = msg->vote.last_index ? 1 + bw_rng_below(rng, msg->term) : 0;
        msg->vote.left_ns = some_time(rng);
        break;
    }
}

/* The parts that consist of an id and two numbers without rules. */
static void fill_plain(struct bw_rng *rng, struct bw_message *msg)
{
    switch (msg->kind) {
    case BW_MSG_RING_ELECTION:
    case BW_MSG_RING_COORDINATOR:
        msg->ring =
            (struct bw_ring_part){some_node(rng), some_node(rng), (uint32_t)number(rng, 32)};
        break;
    case BW_MSG_HS_FROM:
    case BW_MSG_HS_OK:
    case BW_MSG_HS_NO:
        msg->hs = (struct bw_hs_part){some_node(rng), (uint32_t)number(rng, 32),
                                      (uint32_t)number(rng, 32)};
        break;
    case BW_MSG_CLAIM:
    case BW_MSG_PROMISE:
    case BW_MSG_RELEASE:
        msg->promise = (struct bw_promise_part){some_node(rng), some_time(rng), some_time(rng)};
        break;
    case BW_MSG_STABLE_START:
    case BW_MSG_STABLE_OK:
    case BW_MSG_STABLE_STOP:
    case BW_MSG_GOSSIP:
        break;
    default:
        if (bw_message_for_detector(msg->kind))
            msg->probe =
                (struct bw_probe){number(rng, 64), some_node(rng), (uint32_t)number(rng, 32)};
        else if (msg->kind >= BW_MSG_ARE_YOU_COORDINATOR)
            msg->group =
                (struct bw_group_part){some_node(rng), (uint32_t)number(rng, 32), number(rng, 64)};
        else
            msg->bully =
                (struct bw_bully_part){some_node(rng), (uint32_t)number(rng, 32), number(rng, 64)};
        break;
    }
}

static void fill_list(struct bw_rng *rng, struct bw_message *msg, union message_list *list)
{
    size_t size = bw_message_item_size(msg->kind);
    memset(list->bytes, 0, msg->items * size);
    for (uint32_t i = 0; i < msg->items; i++) {
        unsigned char *at = list->bytes + i * size;
        bw_node node = some_node(rng);
        struct bw_swim_update update = {node, (uint32_t)number(rng, 32),
                                        (uint32_t)bw_rng_below(rng, BW_MEMBER_DEAD + 1),
                                        (bw_node)number(rng, 32)};
        struct bw_counter counter;
        memset(&counter, 0, sizeof counter);
        counter.node = node;
        counter.value = number(rng, 64);
        if (size == 1)
            *at = (unsigned char)bw_rng_next(rng);
        else if (size == sizeof node)
            memcpy(at, &node, size);
        else if (msg->kind != BW_MSG_GOSSIP)
            memcpy(at, &update, size);
        else
            memcpy(at, &counter, size);
    }
    msg->data = msg->items ? list->bytes : NULL;
}

static void random_message(struct bw_rng *rng, unsigned kind, uint32_t items_at_most,
                           struct bw_message *msg, union message_list *list)
{
    memset(msg, 0, sizeof *msg);
    msg->kind = (uint8_t)kind;
    msg->flags = (uint8_t)bw_rng_below(rng, 16);
    msg->from = some_node(rng);
    msg->to = some_node(rng);
    uint32_t most = bw_message_items_max(kind);
    most = most < items_at_most ? most : items_at_most;
    msg->items = most ? (uint32_t)bw_rng_below(rng, most + 1) : 0;
    if (kind == BW_MSG_RAFT_SNAPSHOT && msg->items == 0)
        msg->items = 1;
    if (!bw_message_for_detector(kind)) {
        msg->election = (uint16_t)bw_rng_below(rng, BW_ELECTIONS_MAX);
        msg->term = number(rng, 64);
    }
    if (kind >= BW_MSG_RAFT_VOTE && kind <= BW_MSG_RAFT_TIMEOUT_NOW)
        fill_raft(rng, msg);
    else
        fill_plain(rng, msg);
    fill_list(rng, msg, list);
}

#endif
