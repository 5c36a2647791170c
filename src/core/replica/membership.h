/* What a node decides about who the members are: who is one, who may connect, which change is made,
 * who may vote. Pure: the replica runs it on sockets and disks, the simulator in virtual time.
 *
 * A change is asked of whoever leads, judged there (roster.h), and is one entry of the log that
 * carries the member's name and address. Who is connected to follows the log as it stands,
 * committed or not, as majorities do (raft/member.c): a node that starts again must reach those
 * whose votes it needs before it can know what is committed. What members are called and told to
 * others follows what is applied.
 *
 * A node that was added waits to be fed: it knows its number and the first members, and connects
 * back to whoever connects to it until it finds itself among the members.
 *
 * Every node says in the log which life it lives, once in each. A directory that is put back from a
 * copy of an earlier life begins with a number that was there already, and is refused by whoever
 * knows that (fault 25). A copy of the same life is not told apart by this. A life counts once it
 * is to be said: whoever leads has answered the node before, so it was not refused there, and the
 * number is durable. One that is put back so begins with the same number however often it starts,
 * and what it merely wanted to say is never taken for what it said. */
#ifndef BW_SERVE_MEMBERSHIP_H
#define BW_SERVE_MEMBERSHIP_H

#include "core/elect/raft/raft.h"
#include "core/replica/protocol.h"
#include "core/replica/roster.h"

struct bw_membership { /* the caller's memory; set up by init, then read only */
    bw_node self;
    bool joins;               /* self was added later */
    struct bw_versions ours;  /* that this program speaks */
    struct bw_roster first;   /* of the cluster's first start */
    struct bw_roster applied; /* as of what is applied */
    struct bw_roster roster;  /* as of the log's end */
    uint16_t starts;          /* of this life; 0: it has not begun */
    bool heard;               /* whoever leads answered it in this life */
    bool kept;                /* the number of this life is durable */
    bool born;                /* it has asked in this life to say so in the log */
};

enum bw_life_step {
    BW_LIFE_ASK,  /* a read of whoever leads */
    BW_LIFE_KEEP, /* the number on the disk */
    BW_LIFE_SAY   /* nothing */
};

struct bw_membership_view { /* a leader's */
    struct bw_raft *raft;
    bw_time now;
    void *context;
    bool (*connected)(void *context, bw_node node); /* others than self */
};

void bw_membership_init(struct bw_membership *m, bw_node self, bool joins,
                        const struct bw_replica_member *members, uint32_t count);
/* The last life that a directory can have told of. `kept`: what it noted itself, 0: nothing, for it
 * comes from a version that did not; `opened`: how often it was started. */
uint64_t bw_membership_last_life(const struct bw_membership *m, uint64_t kept, uint64_t opened);
/* The node begins its `starts`-th life. */
void bw_membership_begin(struct bw_membership *m, uint64_t starts);

/* ── from the log: the bytes of an entry behind its head ── */

/* An entry was appended. True: it is a change. */
bool bw_membership_learn(struct bw_membership *m, const unsigned char *bytes, size_t length);
/* The log was cut, or a snapshot taken over: what stands above what is applied is learnt anew. */
void bw_membership_rewind(struct bw_membership *m);
void bw_membership_load(struct bw_membership *m, const struct bw_roster *roster);
/* The next entry is applied. True: it is a change, which is told. */
bool bw_membership_apply(struct bw_membership *m, const unsigned char *bytes, size_t length,
                         struct bw_member_change *out);

/* ── who is connected to ── */

/* Of the log as it stands, then those that were before and whose removal is not committed. `out`
 * has room for 2 * BW_RAFT_MEMBERS_MAX. */
uint32_t bw_membership_nodes(const struct bw_raft *raft, bw_node *out);
/* It was added, and does not find itself among the members yet. */
bool bw_membership_is_newcomer(const struct bw_membership *m, const struct bw_raft *raft);
/* Is a node to be connected back to, where it says it is, although the log does not name it? To a
 * newcomer all are; to a member whose log ends early, those that were added since: one of them may
 * lead, and its answers must get there before the log can tell who it is. */
bool bw_membership_connects_back(const struct bw_membership *m, const struct bw_raft *raft,
                                 bw_node from);
/* A node connects: is it one of us? OK or REMOVED. */
enum bw_mesh_verdict bw_membership_judge(const struct bw_membership *m, const struct bw_raft *raft,
                                         bw_node from);
/* Who is to be reached there asks which member it is. */
enum bw_mesh_verdict bw_membership_joins(const struct bw_membership *m, const char *host,
                                         uint16_t port, bw_node *id);
/* Does a node that says it lives its `starts`-th life, and `born` of it, come from an older copy?
 */
bool bw_membership_is_stale(const struct bw_membership *m, bw_node node, uint64_t starts,
                            bool born);

/* ── changes ── */

/* May it be made, by this leader and now? One that adds is given its number. 0, or as
 * bw_change_judge; BW_ELIMIT: too many members; BW_EVERSION: it speaks too old a version. */
int bw_membership_try(const struct bw_membership *m, const struct bw_membership_view *view,
                      struct bw_member_change *change);
/* The same for a change as it is written in a request, where its number is put in. */
int bw_membership_try_written(const struct bw_membership *m, const struct bw_membership_view *view,
                              unsigned char *bytes, size_t length, struct bw_member_change *out);
/* Raft's command for it; BW_CHANGE_NONE: it is none of Raft's. */
enum bw_change_op bw_membership_op(enum bw_member_op op);
/* A learner that was added to vote and can, at the leader; BW_NODE_NONE: there is none. */
bw_node bw_membership_promotable(const struct bw_membership *m,
                                 const struct bw_membership_view *view);
/* What is missing before this node may say which life it lives. */
enum bw_life_step bw_membership_life(const struct bw_membership *m);
/* What this node has to say of itself: true, and the change to ask for. `said` names what it wants
 * others to know. */
bool bw_membership_publish(const struct bw_membership *m, const struct bw_replica_member *said,
                           struct bw_member_change *out);

#endif
