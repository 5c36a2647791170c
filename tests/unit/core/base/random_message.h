/* Makes a random valid message of any kind. Its numbers are small, large and at their limits, so
 * that varints of every length occur. */
#ifndef BW_TESTS_UNIT_CORE_BASE_RANDOM_MESSAGE_H
#define BW_TESTS_UNIT_CORE_BASE_RANDOM_MESSAGE_H

#include "core/base/codec.h"
#include "core/base/event.h"
#include "core/base/rng.h"
#include "core/base/valid.h"

#include <string.h>

union message_list { /* large enough for the longest list, aligned for every item */
    uint64_t align;
    unsigned char bytes[BW_MESSAGE_DATA_MAX];
};

/* A number of up to `bits` bits; every length is equally likely. */
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

enum message_part {
    PART_NOTHING,
    PART_PROBE,
    PART_BULLY,
    PART_RING,
    PART_HS,
    PART_GROUP,
    PART_PROMISE,
    PART_VOTE,
    PART_APPEND,
    PART_APPEND_REPLY,
    PART_SNAPSHOT
};
enum message_items { LIST_NONE, LIST_BYTES, LIST_NODES, LIST_UPDATES, LIST_COUNTERS };

static const struct {
    uint8_t part, list;
} shapes[BW_MSG_COUNT] = {
#define X(constant, name, owner, fixed, list) [BW_MSG_##constant] = {PART_##fixed, LIST_##list},
    BW_MESSAGE_MAP(X)
#undef X
};

static void fill_part(struct bw_rng *rng, struct bw_message *msg)
{
    bw_node node = some_node(rng);
    uint32_t small = (uint32_t)number(rng, 32);
    bw_index index = 1 + number(rng, 63);
    bw_term term = msg->term ? 1 + bw_rng_below(rng, msg->term) : 0;
    switch (shapes[msg->kind].part) {
    case PART_PROBE:
        msg->probe = (struct bw_probe){number(rng, 64), node, small};
        break;
    case PART_BULLY:
        msg->bully = (struct bw_bully_part){node, small, number(rng, 64)};
        break;
    case PART_RING:
        msg->ring = (struct bw_ring_part){node, some_node(rng), small};
        break;
    case PART_HS:
        msg->hs = (struct bw_hs_part){node, small, (uint32_t)number(rng, 32)};
        break;
    case PART_GROUP:
        msg->group = (struct bw_group_part){node, small, number(rng, 64)};
        break;
    case PART_PROMISE:
        msg->promise = (struct bw_promise_part){node, some_time(rng), some_time(rng)};
        break;
    case PART_VOTE:
        msg->vote.last_index = index;
        msg->vote.last_term = term;
        msg->vote.left_ns = some_time(rng);
        msg->vote.ended = some_time(rng);
        break;
    case PART_APPEND:
        fill_append(rng, msg);
        break;
    case PART_APPEND_REPLY:
        msg->append_reply =
            (struct bw_append_reply_part){index, number(rng, 64), number(rng, 64), some_time(rng)};
        break;
    case PART_SNAPSHOT:
        msg->snapshot.last_index = index;
        msg->snapshot.last_term = term;
        msg->snapshot.echo = some_time(rng);
        msg->snapshot.voters = 1 + (uint32_t)bw_rng_below(rng, msg->items);
        break;
    default:
        break;
    }
}

static void fill_item(struct bw_rng *rng, unsigned list, unsigned char *at)
{
    bw_node node = some_node(rng);
    struct bw_swim_update update = {.node = node,
                                    .incarnation = (uint32_t)number(rng, 32),
                                    .status = (uint32_t)bw_rng_below(rng, BW_MEMBER_DEAD + 1),
                                    .by = (bw_node)number(rng, 32)};
    struct bw_counter counter;
    memset(&counter, 0, sizeof counter); /* the test compares the padding too */
    counter.node = node;
    counter.value = number(rng, 64);
    if (list == LIST_BYTES)
        *at = (unsigned char)bw_rng_next(rng);
    else if (list == LIST_NODES)
        memcpy(at, &node, sizeof node);
    else if (list == LIST_UPDATES)
        memcpy(at, &update, sizeof update);
    else if (list == LIST_COUNTERS)
        memcpy(at, &counter, sizeof counter);
}

static void fill_list(struct bw_rng *rng, struct bw_message *msg, union message_list *list)
{
    for (uint32_t i = 0; i < msg->items; i++)
        fill_item(rng, shapes[msg->kind].list, list->bytes + i * bw_message_item_size(msg->kind));
    msg->data = msg->items ? list->bytes : NULL;
}

static void fill_waits(struct bw_rng *rng, struct bw_message *msg)
{
    size_t at = bw_message_waits_at(msg->kind);
    struct bw_raft_waits *waits = (void *)((unsigned char *)msg + at);
    if (at == 0 || bw_rng_chance(rng, 0.5))
        return;
    msg->flags |= BW_FLAG_WAITS;
    waits->count = 1 + (uint32_t)bw_rng_below(rng, BW_RAFT_WAITS_MAX);
    waits->span_ns = 1 + (bw_time)number(rng, 62);
    for (uint32_t i = 0; i < waits->count; i++) {
        waits->at[i].node = bw_rng_chance(rng, 0.2) ? BW_NODE_NONE : some_node(rng);
        waits->at[i].term = number(rng, 64);
        waits->at[i].left_ns = 1 + (bw_time)bw_rng_below(rng, (uint64_t)waits->span_ns);
    }
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
    if (shapes[kind].part == PART_SNAPSHOT && msg->items == 0)
        msg->items = 1;
    if (!bw_message_for_detector(kind)) {
        msg->election = (uint16_t)bw_rng_below(rng, BW_ELECTIONS_MAX);
        msg->term = 16 + number(rng, 63);
    }
    fill_part(rng, msg);
    fill_waits(rng, msg);
    fill_list(rng, msg, list);
}

#endif
