/* Validates messages independently of the receiver's state.
 *
 * Model: a peer may be outdated, broken or hostile. The wire format admits values that no correct
 * peer sends: a log whose terms decrease, a membership change without an entry, a list beyond every
 * limit. This file rejects them, so that decision modules only see possible messages. The modules
 * themselves check what depends on their state: unknown senders, old terms, late replies. */
#include "core/base/valid.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/event.h"
#include "core/base/limits.h"

#include <string.h>

#define FLAGS_KNOWN                                                                                \
    (BW_FLAG_YES | BW_FLAG_LEFT | BW_FLAG_TRANSFER | BW_FLAG_FORWARDED | BW_FLAG_WAITS)

enum part {
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

enum list { LIST_NONE, LIST_BYTES, LIST_NODES, LIST_UPDATES, LIST_COUNTERS };

struct row {
    uint8_t part, list;
};

static const struct row rows[BW_MSG_COUNT] = {
#define X(constant, name, owner, fixed, list) [BW_MSG_##constant] = {PART_##fixed, LIST_##list},
    BW_MESSAGE_MAP(X)
#undef X
};

/* The id that a message of this kind must contain besides its addresses; `from` if there is no
 * further one. */
static bw_node subject(const struct bw_message *msg)
{
    switch (msg->kind) {
    case BW_MSG_SWIM_PING_REQ:
        return msg->probe.target;
    case BW_MSG_COORDINATOR:
    case BW_MSG_STABLE_START:
    case BW_MSG_STABLE_OK:
    case BW_MSG_STABLE_STOP:
        return msg->bully.leader;
    case BW_MSG_RING_ELECTION:
        return msg->ring.initiator;
    case BW_MSG_RING_COORDINATOR:
        return msg->ring.best;
    case BW_MSG_HS_FROM:
    case BW_MSG_HS_OK:
    case BW_MSG_HS_NO:
        return msg->hs.value;
    case BW_MSG_INVITATION:
    case BW_MSG_COORDINATOR_ANSWER:
        return msg->group.leader;
    default:
        return msg->from;
    }
}

/* A log position: index 0 is before the first entry and has term 0. Every other index has a term
 * that is not later than the sender's. */
static bool position_possible(bw_index index, bw_term term, bw_term now)
{
    return (index == 0) == (term == 0) && term <= now;
}

static int check_append(const struct bw_message *msg)
{
    const struct bw_append_part *part = &msg->append;
    if (part->runs > BW_RAFT_APPEND_RUNS_MAX)
        return BW_ELIMIT;
    if (part->echo < 0 || !position_possible(part->prev_index, part->prev_term, msg->term))
        return BW_EMALFORMED;
    uint64_t entries = 0;
    bw_term before = part->prev_term;
    for (uint32_t i = 0; i < part->runs; i++) {
        const struct bw_term_run *run = &part->run[i];
        bool grows = run->term > before || (i == 0 && run->term == before);
        if (run->count == 0 || run->term == 0 || !grows || run->term > msg->term)
            return BW_EMALFORMED;
        entries += run->count;
        before = run->term;
    }
    if (entries > UINT32_MAX || part->prev_index > UINT64_MAX - entries)
        return BW_EMALFORMED;
    const struct bw_change *change = &part->change;
    bool right = change->op == BW_CHANGE_NONE
                     ? change->entry == 0 && change->node == BW_NODE_NONE
                     : change->op <= BW_CHANGE_REMOVE && change->entry < entries &&
                           change->node != BW_NODE_NONE;
    return right ? 0 : BW_EMALFORMED;
}

static int check_snapshot(const struct bw_message *msg)
{
    const struct bw_snapshot_part *part = &msg->snapshot;
    if (part->echo < 0 || part->last_index == 0 ||
        !position_possible(part->last_index, part->last_term, msg->term))
        return BW_EMALFORMED;
    return part->voters > 0 && part->voters <= msg->items ? 0 : BW_EMALFORMED;
}

static int check_vote(const struct bw_message *msg)
{
    bool asks = msg->kind == BW_MSG_RAFT_VOTE || msg->kind == BW_MSG_RAFT_PREVOTE;
    if (msg->vote.left_ns < 0 || msg->vote.ended < 0)
        return BW_EMALFORMED;
    if (asks && !position_possible(msg->vote.last_index, msg->vote.last_term, msg->term))
        return BW_EMALFORMED;
    return 0;
}

static int check_waits(const struct bw_message *msg)
{
    const struct bw_raft_waits *waits = bw_message_waits(msg);
    uint32_t count = waits ? waits->count : 0;
    if ((count > 0) != ((msg->flags & BW_FLAG_WAITS) != 0))
        return BW_EMALFORMED;
    if (count > BW_RAFT_WAITS_MAX)
        return BW_ELIMIT;
    for (uint32_t i = 0; i < count; i++)
        if (waits->at[i].left_ns <= 0 || waits->at[i].left_ns > waits->span_ns)
            return BW_EMALFORMED;
    return 0;
}

static int check_part(const struct bw_message *msg)
{
    switch (rows[msg->kind].part) {
    case PART_PROMISE:
        return msg->promise.left_ns >= 0 && msg->promise.echo >= 0 ? 0 : BW_EMALFORMED;
    case PART_VOTE:
        return check_vote(msg);
    case PART_APPEND:
        return check_append(msg);
    case PART_APPEND_REPLY:
        return msg->append_reply.echo >= 0 ? 0 : BW_EMALFORMED;
    case PART_SNAPSHOT:
        return check_snapshot(msg);
    default:
        return 0;
    }
}

uint32_t bw_message_items_max(unsigned kind)
{
    if (kind >= BW_MSG_COUNT || rows[kind].list == LIST_NONE)
        return 0;
    if (kind == BW_MSG_RAFT_SNAPSHOT)
        return BW_RAFT_MEMBERS_MAX;
    if (rows[kind].list == LIST_UPDATES)
        return BW_SWIM_UPDATES_MAX;
    if (rows[kind].list == LIST_NODES && !bw_message_for_detector(kind))
        return BW_ELECTOR_MEMBERS_MAX;
    return BW_MESSAGE_DATA_MAX / (uint32_t)bw_message_item_size(kind);
}

/* Checks the ids of a list. In every list that names members, each item begins with the id. */
static int check_items(const struct bw_message *msg)
{
    unsigned list = rows[msg->kind].list;
    if (msg->items > bw_message_items_max(msg->kind))
        return BW_ELIMIT;
    if (msg->items > 0 && !msg->data)
        return BW_EMALFORMED;
    if (list == LIST_NONE || list == LIST_BYTES)
        return 0;
    const unsigned char *item = msg->data;
    size_t size = bw_message_item_size(msg->kind);
    for (uint32_t i = 0; i < msg->items; i++, item += size) {
        bw_node node;
        memcpy(&node, item, sizeof node);
        if (node == BW_NODE_NONE)
            return BW_EMALFORMED;
        if (list == LIST_UPDATES) {
            struct bw_swim_update update;
            memcpy(&update, item, sizeof update);
            if (update.status > BW_MEMBER_DEAD)
                return BW_EMALFORMED;
        }
    }
    return 0;
}

int bw_message_check(const struct bw_message *msg)
{
    if (msg->kind == BW_MSG_NONE || msg->kind >= BW_MSG_COUNT)
        return BW_EMALFORMED;
    if ((msg->flags & ~(unsigned)FLAGS_KNOWN) != 0 && !BW_BUG(codec_takes_unknown_flags))
        return BW_EMALFORMED;
    if (msg->election >= BW_ELECTIONS_MAX)
        return BW_ELIMIT;
    if (msg->from == BW_NODE_NONE || msg->to == BW_NODE_NONE || subject(msg) == BW_NODE_NONE)
        return BW_EMALFORMED;
    if (bw_message_for_detector(msg->kind) && (msg->term != 0 || msg->election != 0))
        return BW_EMALFORMED;
    int error = check_waits(msg);
    if (!error)
        error = check_part(msg);
    return error ? error : check_items(msg);
}
