/* Decisions about the members; see membership.h. */
#include "core/replica/membership.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <string.h>

void bw_membership_init(struct bw_membership *m, bw_node self, bool joins,
                        const struct bw_replica_member *members, uint32_t count)
{
    *m = (struct bw_membership){
        .self = self, .joins = joins, .ours = {BW_MESH_VERSION, BW_MESH_VERSION_MIN}};
    bw_roster_init(&m->first, members, count);
    m->applied = m->roster = m->first;
}

static uint16_t life_of(const struct bw_roster *roster, bw_node node)
{
    const struct bw_replica_member *member = bw_roster_find(roster, node);
    return member ? member->starts : 0;
}

void bw_membership_begin(struct bw_membership *m, uint64_t starts)
{
    m->starts = (uint16_t)(starts < UINT16_MAX ? starts : UINT16_MAX);
    m->heard = m->kept = m->born = false;
}

/* A version that keeps no number may have run in between; then the log tells. */
uint64_t bw_membership_last_life(const struct bw_membership *m, uint64_t kept, uint64_t opened)
{
    uint16_t applied = life_of(&m->applied, m->self), said = life_of(&m->roster, m->self);
    uint64_t last = kept && !BW_BUG(member_lives_with_every_start) ? kept : opened;
    last = applied > last ? applied : last;
    return said > last ? said : last;
}

enum bw_life_step bw_membership_life(const struct bw_membership *m)
{
    if (m->ours.highest < BW_VERSION_LIVES)
        return BW_LIFE_SAY;
    if (!m->heard && !BW_BUG(member_put_back_says_unheard))
        return BW_LIFE_ASK;
    return m->kept ? BW_LIFE_SAY : BW_LIFE_KEEP;
}

/* ── from the log ── */

static bool is_change(const unsigned char *bytes, size_t length, struct bw_member_change *out)
{
    return length > 0 && bytes[0] == BW_ROSTER_RECORD && bw_change_decode(out, bytes, length) == 0;
}

bool bw_membership_learn(struct bw_membership *m, const unsigned char *bytes, size_t length)
{
    struct bw_member_change change;
    if (!is_change(bytes, length, &change))
        return false;
    bw_roster_apply(&m->roster, &change);
    return true;
}

void bw_membership_rewind(struct bw_membership *m)
{
    m->roster = m->applied;
}

void bw_membership_load(struct bw_membership *m, const struct bw_roster *roster)
{
    m->applied = *roster;
}

bool bw_membership_apply(struct bw_membership *m, const unsigned char *bytes, size_t length,
                         struct bw_member_change *out)
{
    if (!is_change(bytes, length, out))
        return false;
    bw_roster_apply(&m->applied, out);
    return true;
}

/* ── who is connected to ── */

static bool is_among(bw_node node, const bw_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

uint32_t bw_membership_nodes(const struct bw_raft *raft, bw_node *out)
{
    bw_node committed[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    bw_index last = BW_BUG(member_reaches_the_committed) ? bw_raft_commit_index(raft)
                                                         : bw_raft_last_index(raft);
    uint32_t active = bw_raft_members_at(raft, last, out, &voters), count = active;
    uint32_t others = bw_raft_members_at(raft, bw_raft_commit_index(raft), committed, &voters);
    for (uint32_t i = 0; i < others; i++)
        if (!is_among(committed[i], out, active))
            out[count++] = committed[i];
    return count;
}

static bool is_member(const struct bw_raft *raft, bw_node node)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    return is_among(node, ids, bw_membership_nodes(raft, ids));
}

bool bw_membership_is_newcomer(const struct bw_membership *m, const struct bw_raft *raft)
{
    return m->joins && !is_member(raft, m->self);
}

bool bw_membership_connects_back(const struct bw_membership *m, const struct bw_raft *raft,
                                 bw_node from)
{
    bool unheard_of = from > m->applied.highest && !is_member(raft, from);
    return bw_membership_is_newcomer(m, raft) ||
           (unheard_of && !BW_BUG(member_answers_the_known_alone));
}

enum bw_mesh_verdict bw_membership_judge(const struct bw_membership *m, const struct bw_raft *raft,
                                         bw_node from)
{
    bool gone =
        from <= m->applied.highest && !is_member(raft, from) && !bw_membership_is_newcomer(m, raft);
    return gone && !BW_BUG(member_hears_the_removed) ? BW_MESH_REMOVED : BW_MESH_OK;
}

/* Only a member that never was there may begin with nothing: another has promised things that it
 * has forgotten (fault 25). */
enum bw_mesh_verdict bw_membership_joins(const struct bw_membership *m, const char *host,
                                         uint16_t port, bw_node *id)
{
    const struct bw_replica_member *member = bw_roster_find_address(&m->applied, host, port);
    if (!member)
        return BW_MESH_UNKNOWN;
    if (member->name[0] && !BW_BUG(member_joins_twice))
        return BW_MESH_STARTED;
    *id = member->id;
    return BW_MESH_OK;
}

bool bw_membership_is_stale(const struct bw_membership *m, bw_node node, uint64_t starts, bool born)
{
    uint16_t known = life_of(&m->applied, node), said = life_of(&m->roster, node);
    known = said > known ? said : known; /* committed or not: the node itself said so */
    if (known == UINT16_MAX || BW_BUG(member_put_back_is_heard))
        return false;
    return starts < known || (starts == known && known && !born);
}

/* ── changes ── */

static void gather(const struct bw_membership *m, const struct bw_membership_view *view,
                   bw_node node, struct bw_change_facts *facts)
{
    bw_node ids[BW_RAFT_MEMBERS_MAX];
    const struct bw_replica_member *member = bw_roster_find(&m->applied, node);
    uint32_t count =
        bw_raft_members_at(view->raft, bw_raft_commit_index(view->raft), ids, &facts->voters);
    for (uint32_t i = 0; i < count; i++) {
        bool heard = bw_raft_is_heard(view->raft, ids[i], view->now) &&
                     (ids[i] == m->self || view->connected(view->context, ids[i]));
        facts->alive += i < facts->voters && heard;
        if (ids[i] != node)
            continue;
        facts->known = true;
        facts->voter = i < facts->voters;
        facts->live = heard;
    }
    facts->under_way = bw_raft_is_changing(view->raft);
    facts->ready = member && member->name[0] && bw_raft_is_caught_up(view->raft, node, view->now);
}

/* The next number; nobody had it before. */
static int name_newcomer(const struct bw_membership *m, struct bw_member_change *change)
{
    bw_node highest =
        m->roster.highest > m->applied.highest ? m->roster.highest : m->applied.highest;
    if (highest >= BW_MEMBER_ID_MAX || m->roster.count >= BW_REPLICA_NODES)
        return BW_ELIMIT;
    change->member.id = highest + 1;
    for (bw_node id = 1; id <= highest && BW_BUG(member_number_again); id++)
        if (!bw_roster_find(&m->roster, id)) {
            change->member.id = id;
            break;
        }
    return 0;
}

/* A version that was relied on already does not get lost again. */
static int judge_version(const struct bw_membership *m, const struct bw_replica_member *member)
{
    bool older = member->name[0] && (member->version ? member->version : 1) < m->roster.level;
    return older ? BW_EVERSION : 0;
}

int bw_membership_try(const struct bw_membership *m, const struct bw_membership_view *view,
                      struct bw_member_change *change)
{
    struct bw_change_facts facts = {0};
    gather(m, view, change->member.id, &facts);
    int error = bw_change_judge(change->op, &facts);
    if (!error && change->op == BW_MEMBER_ADD)
        error = name_newcomer(m, change);
    if (!error && change->op == BW_MEMBER_UPDATE)
        error = judge_version(m, &change->member);
    return error;
}

int bw_membership_try_written(const struct bw_membership *m, const struct bw_membership_view *view,
                              unsigned char *bytes, size_t length, struct bw_member_change *out)
{
    int error = bw_change_decode(out, bytes, length);
    if (!error)
        error = bw_membership_try(m, view, out);
    if (!error)
        bw_change_encode(out, bytes);
    return error;
}

enum bw_change_op bw_membership_op(enum bw_member_op op)
{
    switch (op) {
    case BW_MEMBER_ADD:
        return BW_CHANGE_ADD_LEARNER;
    case BW_MEMBER_PROMOTE:
        return BW_CHANGE_PROMOTE;
    case BW_MEMBER_REMOVE:
        return BW_CHANGE_REMOVE;
    case BW_MEMBER_UPDATE:
        break;
    }
    return BW_CHANGE_NONE;
}

bw_node bw_membership_promotable(const struct bw_membership *m,
                                 const struct bw_membership_view *view)
{
    for (uint32_t i = 0; i < m->applied.count; i++) {
        const struct bw_replica_member *member = &m->applied.at[i];
        struct bw_change_facts facts = {0};
        if (!member->wants_vote)
            continue;
        gather(m, view, member->id, &facts);
        if (bw_change_judge(BW_MEMBER_PROMOTE, &facts) == 0)
            return member->id;
    }
    return BW_NODE_NONE;
}

static bool differs(const char *said, const char *known)
{
    return said[0] && strcmp(said, known) != 0;
}

bool bw_membership_publish(const struct bw_membership *m, const struct bw_replica_member *said,
                           struct bw_member_change *out)
{
    const struct bw_replica_member *known = bw_roster_find(&m->applied, m->self);
    bool says = m->ours.highest >= BW_VERSION_LIVES;
    if (!known)
        return false;
    bool news = differs(said->name, known->name) || differs(said->client, known->client) ||
                differs(said->host, known->host) || (said->host[0] && said->port != known->port);
    if (!news && (!says || (known->starts == m->starts && known->version == m->ours.highest)))
        return false;
    *out = (struct bw_member_change){.op = BW_MEMBER_UPDATE, .member = *said};
    out->member.id = m->self;
    out->member.version = says ? (uint8_t)m->ours.highest : 0;
    out->member.starts = says ? m->starts : 0;
    return true;
}
