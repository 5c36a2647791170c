/* Look-ups in the table of messages. */
#include "core/base/message.h"

enum owner { OWNER_DETECTOR, OWNER_ELECTOR };

#define FIXED_NOTHING      offsetof(struct bw_message, probe)
#define FIXED_PROBE        (FIXED_NOTHING + sizeof(struct bw_probe))
#define FIXED_BULLY        (FIXED_NOTHING + sizeof(struct bw_bully_part))
#define FIXED_RING         (FIXED_NOTHING + sizeof(struct bw_ring_part))
#define FIXED_HS           (FIXED_NOTHING + sizeof(struct bw_hs_part))
#define FIXED_GROUP        (FIXED_NOTHING + sizeof(struct bw_group_part))
#define FIXED_PROMISE      (FIXED_NOTHING + sizeof(struct bw_promise_part))
#define FIXED_VOTE         (FIXED_NOTHING + sizeof(struct bw_vote_part))
#define FIXED_APPEND       (FIXED_NOTHING + sizeof(struct bw_append_part))
#define FIXED_APPEND_REPLY (FIXED_NOTHING + sizeof(struct bw_append_reply_part))
#define FIXED_SNAPSHOT     (FIXED_NOTHING + sizeof(struct bw_snapshot_part))

#define ITEM_NONE     0
#define ITEM_BYTES    1
#define ITEM_NODES    sizeof(bw_node)
#define ITEM_UPDATES  sizeof(struct bw_swim_update)
#define ITEM_COUNTERS sizeof(struct bw_counter)

struct row {
    const char *name;
    enum owner owner;
    uint16_t used, item;
};

static const struct row rows[BW_MSG_COUNT] = {
    [BW_MSG_NONE] = {"NONE", OWNER_ELECTOR, sizeof(struct bw_message), 0},
#define X(constant, name, owner, fixed, list)                                                      \
    [BW_MSG_##constant] = {name, OWNER_##owner, FIXED_##fixed, ITEM_##list},
    BW_MESSAGE_MAP(X)
#undef X
};

static const struct row *find(unsigned kind)
{
    return &rows[kind < BW_MSG_COUNT ? kind : BW_MSG_NONE];
}

const char *bw_message_name(unsigned kind)
{
    return find(kind)->name;
}

bool bw_message_for_detector(unsigned kind)
{
    return find(kind)->owner == OWNER_DETECTOR;
}

size_t bw_message_item_size(unsigned kind)
{
    return find(kind)->item;
}

size_t bw_message_used(unsigned kind)
{
    return find(kind)->used;
}

size_t bw_message_waits_at(unsigned kind)
{
    switch (kind) {
    case BW_MSG_RAFT_VOTE_REPLY:
        return offsetof(struct bw_message, vote.waits);
    case BW_MSG_RAFT_APPEND:
        return offsetof(struct bw_message, append.waits);
    case BW_MSG_RAFT_SNAPSHOT:
        return offsetof(struct bw_message, snapshot.waits);
    default:
        return 0;
    }
}

const struct bw_raft_waits *bw_message_waits(const struct bw_message *msg)
{
    size_t at = bw_message_waits_at(msg->kind);
    return at ? (const void *)((const unsigned char *)msg + at) : NULL;
}
