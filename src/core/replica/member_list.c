/* The member list; see member_list.h. */
#include "core/replica/member_list.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"

#include <string.h>

#define MEMBER_HEAD 24u
#define WANTS_VOTE  1u
#define VERSION_BIT 8u
#define STARTS_BIT  16u
#define LEVEL_BIT   16u
#define COUNT_MASK  0xffffu

void bw_member_list_init(struct bw_member_list *member_list,
                         const struct bw_replica_member *members, uint32_t count)
{
    *member_list = (struct bw_member_list){.count = count, .level = 1};
    for (uint32_t i = 0; i < count; i++) {
        member_list->at[i] = members[i];
        member_list->highest =
            members[i].id > member_list->highest ? members[i].id : member_list->highest;
    }
}

const struct bw_replica_member *bw_member_list_find(const struct bw_member_list *member_list,
                                                    bw_node id)
{
    for (uint32_t i = 0; i < member_list->count; i++)
        if (member_list->at[i].id == id)
            return &member_list->at[i];
    return NULL;
}

const struct bw_replica_member *
bw_member_list_find_address(const struct bw_member_list *member_list, const char *host,
                            uint16_t port)
{
    for (uint32_t i = 0; i < member_list->count; i++)
        if (member_list->at[i].port == port && strcmp(member_list->at[i].host, host) == 0)
            return &member_list->at[i];
    return NULL;
}

static void add(struct bw_member_list *member_list, const struct bw_replica_member *member)
{
    if (member->id == BW_NODE_NONE || bw_member_list_find(member_list, member->id) ||
        member_list->count == BW_REPLICA_NODES)
        return;
    member_list->at[member_list->count++] = *member;
    member_list->highest = member->id > member_list->highest ? member->id : member_list->highest;
}

static void remove_member(struct bw_member_list *member_list,
                          const struct bw_replica_member *member)
{
    uint32_t i = (uint32_t)(member - member_list->at);
    member_list->count--;
    memmove(&member_list->at[i], &member_list->at[i + 1],
            (member_list->count - i) * sizeof member_list->at[0]);
}

/* Empty fields stay unchanged. */
static void update(struct bw_replica_member *member, const struct bw_replica_member *to)
{
    if (to->name[0])
        memcpy(member->name, to->name, sizeof member->name);
    if (to->client[0])
        memcpy(member->client, to->client, sizeof member->client);
    if (to->host[0]) {
        memcpy(member->host, to->host, sizeof member->host);
        member->port = to->port;
    }
    member->version = to->version ? to->version : member->version;
    member->starts = to->starts ? to->starts : member->starts;
}

/* The level is the lowest version of all members. A member that never published one counts as 1. */
static void raise_level(struct bw_member_list *member_list)
{
    uint32_t lowest = member_list->count ? UINT8_MAX : 0;
    for (uint32_t i = 0; i < member_list->count; i++) {
        uint32_t version = member_list->at[i].version ? member_list->at[i].version : 1;
        lowest = version < lowest ? version : lowest;
    }
    if (lowest > member_list->level || (BW_BUG(level_falls_again) && lowest))
        member_list->level = lowest;
}

void bw_member_list_apply(struct bw_member_list *member_list, const struct bw_member_change *change)
{
    struct bw_replica_member *member =
        (struct bw_replica_member *)bw_member_list_find(member_list, change->member.id);
    switch (change->op) {
    case BW_MEMBER_ADD:
        add(member_list, &change->member);
        break;
    case BW_MEMBER_PROMOTE:
        if (member)
            member->wants_vote = false;
        break;
    case BW_MEMBER_REMOVE:
        if (member)
            remove_member(member_list, member);
        break;
    case BW_MEMBER_UPDATE:
        if (member)
            update(member, &change->member);
        break;
    }
    raise_level(member_list);
}

/* ── byte format ── */

static size_t put_text(unsigned char *length_at, unsigned char *out, const char *text)
{
    size_t length = strlen(text);
    bw_put32(length_at, (uint32_t)length);
    for (size_t i = 0; i < length; i++)
        out[i] = (unsigned char)text[i];
    return length;
}

static size_t put_member(const struct bw_replica_member *member, unsigned char *out)
{
    size_t at = MEMBER_HEAD;
    bw_put32(out, member->id);
    bw_put32(out + 4, (member->wants_vote ? WANTS_VOTE : 0) |
                          (uint32_t)member->version << VERSION_BIT |
                          (uint32_t)member->starts << STARTS_BIT);
    bw_put32(out + 8, member->port);
    at += put_text(out + 12, out + at, member->name);
    at += put_text(out + 16, out + at, member->host);
    at += put_text(out + 20, out + at, member->client);
    return at;
}

struct input {
    const unsigned char *at;
    size_t length;
    bool failed;
};

static void get_text(struct input *in, uint32_t length, char *out, size_t size)
{
    in->failed |= length >= size || length > in->length || memchr(in->at, '\0', length);
    if (in->failed)
        return;
    memcpy(out, in->at, length);
    out[length] = '\0';
    in->at += length;
    in->length -= length;
}

static void get_member(struct input *in, struct bw_replica_member *out)
{
    unsigned char head[MEMBER_HEAD];
    *out = (struct bw_replica_member){0};
    in->failed |= in->length < MEMBER_HEAD;
    if (in->failed)
        return;
    memcpy(head, in->at, MEMBER_HEAD);
    in->at += MEMBER_HEAD;
    in->length -= MEMBER_HEAD;
    out->id = bw_get32(head);
    out->wants_vote = bw_get32(head + 4) & WANTS_VOTE;
    out->version = (uint8_t)(bw_get32(head + 4) >> VERSION_BIT);
    out->starts = (uint16_t)(bw_get32(head + 4) >> STARTS_BIT);
    out->port = (uint16_t)bw_get32(head + 8);
    in->failed |= out->id > BW_MEMBER_ID_MAX || bw_get32(head + 8) > 65535u;
    get_text(in, bw_get32(head + 12), out->name, sizeof out->name);
    get_text(in, bw_get32(head + 16), out->host, sizeof out->host);
    get_text(in, bw_get32(head + 20), out->client, sizeof out->client);
}

size_t bw_member_list_encode(const struct bw_member_list *member_list, unsigned char *out)
{
    size_t at = 8;
    bw_put32(out, member_list->highest);
    bw_put32(out + 4,
             member_list->count | (member_list->level > 1 ? member_list->level << LEVEL_BIT : 0));
    for (uint32_t i = 0; i < member_list->count; i++)
        at += put_member(&member_list->at[i], out + at);
    return at;
}

int bw_member_list_decode(struct bw_member_list *member_list, const unsigned char *bytes,
                          size_t length)
{
    struct bw_replica_member member;
    *member_list = (struct bw_member_list){0};
    uint32_t count = length < 8 ? 0 : bw_get32(bytes + 4) & COUNT_MASK;
    if (length < 8 || count > BW_REPLICA_NODES || bw_get32(bytes) > BW_MEMBER_ID_MAX)
        return BW_EMALFORMED;
    struct input in = {.at = bytes + 8, .length = length - 8};
    for (uint32_t i = 0; i < count && !in.failed; i++) {
        get_member(&in, &member);
        in.failed |= member.id == BW_NODE_NONE ||
                     bw_member_list_find(member_list, member.id) != NULL ||
                     member.id > bw_get32(bytes);
        if (!in.failed)
            member_list->at[member_list->count++] = member;
    }
    member_list->highest = bw_get32(bytes);
    member_list->level = bw_get32(bytes + 4) >> LEVEL_BIT;
    member_list->level = member_list->level ? member_list->level : 1;
    return in.failed || in.length ? BW_EMALFORMED : 0;
}

size_t bw_change_encode(const struct bw_member_change *change, unsigned char *out)
{
    out[0] = BW_MEMBER_CHANGE_RECORD;
    out[1] = (unsigned char)change->op;
    return 2 + put_member(&change->member, out + 2);
}

int bw_change_decode(struct bw_member_change *change, const unsigned char *bytes, size_t length)
{
    *change = (struct bw_member_change){0};
    if (length < 2 || bytes[0] != BW_MEMBER_CHANGE_RECORD || bytes[1] < BW_MEMBER_ADD ||
        bytes[1] > BW_MEMBER_UPDATE)
        return BW_EMALFORMED;
    struct input in = {.at = bytes + 2, .length = length - 2};
    change->op = (enum bw_member_op)bytes[1];
    get_member(&in, &change->member);
    return in.failed || in.length ? BW_EMALFORMED : 0;
}

/* ── permission ── */

/* The remaining voters must be able to form a quorum without the removed one (fault 35). */
static int judge_remove(const struct bw_change_facts *facts)
{
    if (!facts->voter || BW_BUG(member_leaves_too_few))
        return 0;
    uint32_t left = facts->voters - 1, alive = facts->alive - facts->live;
    return left == 0 || alive < left / 2 + 1 ? BW_ENOQUORUM : 0;
}

int bw_change_judge(enum bw_member_op op, const struct bw_change_facts *facts)
{
    if (facts->under_way && op != BW_MEMBER_UPDATE && !BW_BUG(member_changes_at_once))
        return BW_EBUSY;
    if (op == BW_MEMBER_ADD)
        return 0;
    if (!facts->known)
        return BW_ENOTMEMBER;
    if (op == BW_MEMBER_REMOVE)
        return judge_remove(facts);
    if (op == BW_MEMBER_PROMOTE)
        return facts->voter                                   ? BW_EINVAL
               : facts->ready || BW_BUG(member_votes_unready) ? 0
                                                              : BW_ESTALE;
    return 0;
}
