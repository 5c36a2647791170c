/* Decisions about the members; see membership.h. */
#include "core/replica/membership.h"
#include "core/base/assert.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <string.h>

void bw_membership_init(struct bw_membership *m, bw_node self, bool joins,
                        const struct bw_replica_member *members, uint32_t count)
{
    *m = (struct bw_membership){
        .self = self, .joins = joins, .ours = {BW_MESH_VERSION, BW_MESH_VERSION_MIN}};
    bw_member_list_init(&m->first, members, count);
    m->applied = m->member_list = m->first;
}

static uint16_t incarnation_of(const struct bw_member_list *member_list, bw_node node)
{
    const struct bw_replica_member *member = bw_member_list_find(member_list, node);
    return member ? member->starts : 0;
}

void bw_membership_begin(struct bw_membership *m, uint64_t starts)
{
    m->starts = (uint16_t)(starts < UINT16_MAX ? starts : UINT16_MAX);
    m->heard = m->kept = m->published = false;
}

/* A version that stores no number may have run in between; then the log has the higher number. */
uint64_t bw_membership_last_incarnation(const struct bw_membership *m, uint64_t kept,
                                        uint64_t opened)
{
    uint16_t applied = incarnation_of(&m->applied, m->self),
             logged = incarnation_of(&m->member_list, m->self);
    uint64_t last =
        kept && !BW_BUG(member_takes_a_new_incarnation_with_every_start) ? kept : opened;
    last = applied > last ? applied : last;
    return logged > last ? logged : last;
}

enum bw_incarnation_step bw_membership_incarnation_step(const struct bw_membership *m)
{
    if (m->ours.highest < BW_VERSION_INCARNATIONS)
        return BW_INCARNATION_PUBLISH;
    if (!m->heard && !BW_BUG(member_reports_incarnation_before_receiving))
        return BW_INCARNATION_READ_FROM_LEADER;
    return m->kept ? BW_INCARNATION_PUBLISH : BW_INCARNATION_STORE;
}

/* ── log entries ── */

static bool is_change(const unsigned char *bytes, size_t length, struct bw_member_change *out)
{
    return length > 0 && bytes[0] == BW_MEMBER_CHANGE_RECORD &&
           bw_change_decode(out, bytes, length) == 0;
}

bool bw_membership_learn(struct bw_membership *m, const unsigned char *bytes, size_t length)
{
    struct bw_member_change change;
    if (!is_change(bytes, length, &change))
        return false;
    bw_member_list_apply(&m->member_list, &change);
    return true;
}

void bw_membership_rewind(struct bw_membership *m)
{
    m->member_list = m->applied;
}

void bw_membership_load(struct bw_membership *m, const struct bw_member_list *member_list)
{
    m->applied = *member_list;
}

bool bw_membership_apply(struct bw_membership *m, const unsigned char *bytes, size_t length,
                         struct bw_member_change *out)
{
    if (!is_change(bytes, length, out))
        return false;
    bw_member_list_apply(&m->applied, out);
    return true;
}

/* ── connections ── */

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
    bool unknown = from > m->applied.highest && !is_member(raft, from);
    return bw_membership_is_newcomer(m, raft) ||
           (unknown && !BW_BUG(member_answers_the_known_alone));
}

enum bw_mesh_verdict bw_membership_judge(const struct bw_membership *m, const struct bw_raft *raft,
                                         bw_node from)
{
    bool gone =
        from <= m->applied.highest && !is_member(raft, from) && !bw_membership_is_newcomer(m, raft);
    return gone && !BW_BUG(member_accepts_messages_of_the_removed) ? BW_MESH_REMOVED : BW_MESH_OK;
}

/* Only a member that has never started may begin with an empty directory. Any other member would
 * have forgotten its promises (fault 25). */
enum bw_mesh_verdict bw_membership_joins(const struct bw_membership *m, const char *host,
                                         uint16_t port, bw_node *id)
{
    const struct bw_replica_member *member = bw_member_list_find_address(&m->applied, host, port);
    if (!member)
        return BW_MESH_UNKNOWN;
    if (member->name[0] && !BW_BUG(member_joins_twice))
        return BW_MESH_STARTED;
    *id = member->id;
    return BW_MESH_OK;
}

/* Committed or not: the node itself published it. */
static uint16_t known_incarnation(const struct bw_membership *m, bw_node node)
{
    uint16_t applied = incarnation_of(&m->applied, node),
             logged = incarnation_of(&m->member_list, node);
    return logged > applied ? logged : applied;
}

static bool is_older(uint16_t known, uint64_t starts, bool published)
{
    if (known == UINT16_MAX || BW_BUG(member_restored_from_backup_is_accepted))
        return false;
    return starts < known || (starts == known && known && !published);
}

bool bw_membership_is_stale(const struct bw_membership *m, bw_node node, uint64_t starts,
                            bool published)
{
    return is_older(known_incarnation(m, node), starts, published);
}

/* A node reports its incarnation on every connection, so this refusal ends here. Any other refusal
 * lasts: only the first report shows what was on the disk. */
void bw_membership_accepted(const struct bw_membership *m, bw_node node,
                            struct bw_peer_check *check)
{
    check->accepted_at = known_incarnation(m, node);
    if (check->starts && !BW_BUG(member_refuses_the_next_process))
        check->refused = false;
}

enum bw_incarnation_verdict bw_membership_reported(const struct bw_membership *m, bw_node node,
                                                   struct bw_peer_check *check, uint64_t starts,
                                                   bool published)
{
    if (!bw_membership_is_stale(m, node, starts, published))
        return BW_INCARNATION_CURRENT;
    if (check->refused)
        return BW_INCARNATION_STALE;
    if (!is_older(check->accepted_at, starts, published) &&
        !BW_BUG(member_refuses_an_overtaken_report))
        return BW_INCARNATION_OVERTAKEN;
    check->refused = true;
    check->starts = (uint16_t)starts;
    check->published = published;
    return BW_INCARNATION_STALE;
}

void bw_membership_lost_data(struct bw_peer_check *check)
{
    check->refused = true;
    check->starts = 0;
    check->published = false;
}

bool bw_membership_is_refused(const struct bw_membership *m, uint64_t starts, bool published)
{
    return starts == 0 || (starts == m->starts && published == m->published) ||
           BW_BUG(member_obeys_the_refusal_of_another);
}

/* ── changes of the members ── */

static void gather(const struct bw_membership *m, const struct bw_membership_view *view,
                   bw_node node, struct bw_change_facts *facts)
{
    bw_node ids[BW_RAFT_MEMBERS_MAX];
    const struct bw_replica_member *member = bw_member_list_find(&m->applied, node);
    uint32_t count =
        bw_raft_members_at(view->raft, bw_raft_commit_index(view->raft), ids, &facts->voters);
    for (uint32_t i = 0; i < count; i++) {
        bool heard = bw_raft_is_responsive(view->raft, ids[i], view->now) &&
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

/* Assigns the next id, which was never used before. */
static int assign_id(const struct bw_membership *m, struct bw_member_change *change)
{
    bw_node highest =
        m->member_list.highest > m->applied.highest ? m->member_list.highest : m->applied.highest;
    if (highest >= BW_MEMBER_ID_MAX || m->member_list.count >= BW_REPLICA_NODES)
        return BW_ELIMIT;
    change->member.id = highest + 1;
    if (BW_BUG(member_number_again))
        for (bw_node id = highest; id > 0; id--)
            if (!bw_member_list_find(&m->member_list, id))
                change->member.id = id;
    return 0;
}

/* A member must not fall below the version that the cluster relies on. */
static int judge_version(const struct bw_membership *m, const struct bw_replica_member *member)
{
    bool older = member->name[0] && (member->version ? member->version : 1) < m->member_list.level;
    return older ? BW_EVERSION : 0;
}

int bw_membership_try(const struct bw_membership *m, const struct bw_membership_view *view,
                      struct bw_member_change *change)
{
    struct bw_change_facts facts = {0};
    gather(m, view, change->member.id, &facts);
    int error = bw_change_judge(change->op, &facts);
    if (!error && change->op == BW_MEMBER_ADD)
        error = assign_id(m, change);
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

static bool differs(const char *own, const char *known)
{
    return own[0] && strcmp(own, known) != 0;
}

bool bw_membership_publish(const struct bw_membership *m, const struct bw_replica_member *own,
                           struct bw_member_change *out)
{
    const struct bw_replica_member *known = bw_member_list_find(&m->applied, m->self);
    bool publishes = m->ours.highest >= BW_VERSION_INCARNATIONS;
    if (!known)
        return false;
    bool changed = differs(own->name, known->name) || differs(own->client, known->client) ||
                   differs(own->host, known->host) || (own->host[0] && own->port != known->port);
    if (!changed &&
        (!publishes || (known->starts == m->starts && known->version == m->ours.highest)))
        return false;
    *out = (struct bw_member_change){.op = BW_MEMBER_UPDATE, .member = *own};
    out->member.id = m->self;
    out->member.version = publishes ? (uint8_t)m->ours.highest : 0;
    out->member.starts = publishes ? m->starts : 0;
    return true;
}
