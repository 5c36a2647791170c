/* Decisions of one node about the members of its cluster: which nodes are members, which may
 * connect, which changes are made, and which node may vote. The functions are pure: the replica
 * calls them with sockets and disks, the simulator in virtual time.
 *
 * Changes. A client or a node sends a change to the leader, which judges it (member_list.h). An
 * accepted change is one log entry that carries the member's name and address.
 *
 * Connections follow the log, committed or not, as majorities do (raft/member.c). A restarted node
 * must reach the nodes whose votes it needs before it can know what is committed. The names and
 * addresses that a node reports to others follow the applied entries.
 *
 * A newcomer (a node that was added later) knows its id and the first members. It connects back to
 * every node that connects to it, until the log names it as a member.
 *
 * Incarnations detect a data directory that was restored from an old copy (fault 25):
 * - Every node publishes its incarnation number in the log, once per incarnation.
 * - A directory restored from a copy of an earlier incarnation starts with a number that was
 *   already published. Every node that knows the published number refuses it.
 * - A node publishes only after the leader has answered it in this incarnation (so the leader did
 *   not refuse it) and after the number is durable.
 * - The log may overtake the report of a healthy node: the node publishes its number after it has
 *   sent its report, and the entry arrives first. So a receiver refuses a node only for a number
 *   that it knew when it accepted the node's connection. The node reports after that, and a healthy
 *   node then reports what it has published. Otherwise the receiver closes the connection, and the
 *   node connects and reports again.
 * - A restored directory that is refused publishes nothing, so it starts with the same number each
 *   time. A number that it only intended to publish does not count as published.
 *
 * Not detected: a copy of the same incarnation. */
#ifndef BW_CORE_REPLICA_MEMBERSHIP_H
#define BW_CORE_REPLICA_MEMBERSHIP_H

#include "core/elect/raft/raft.h"
#include "core/replica/member_list.h"
#include "core/replica/protocol.h"

struct bw_membership { /* the caller's memory; set up by init, then read only */
    bw_node self;
    bool joins;                        /* this node was added after the cluster's first start */
    struct bw_versions ours;           /* protocol versions of this program */
    struct bw_member_list first;       /* members at the cluster's first start */
    struct bw_member_list applied;     /* members according to the applied entries */
    struct bw_member_list member_list; /* members according to the whole log */
    uint16_t starts;                   /* number of this incarnation; 0: not begun */
    bool heard;                        /* the leader has answered in this incarnation */
    bool kept;                         /* the number of this incarnation is durable */
    bool published; /* this node has requested to publish this incarnation in the log */
};

/* About a node that reports its incarnation. */
enum bw_incarnation_verdict {
    BW_INCARNATION_CURRENT,
    BW_INCARNATION_OVERTAKEN, /* the log overtook the report: the node must report again */
    BW_INCARNATION_STALE      /* an old copy of a directory */
};

/* What this node concludes from the reports of another node. */
struct bw_peer_check {
    uint16_t accepted_at; /* its incarnation in the log when its connection was accepted */
    bool refused;         /* its messages are ignored */
    bool published;       /* the refused report, with `starts` */
    uint16_t starts;      /* 0: it was refused for another reason than its incarnation */
};

enum bw_incarnation_step {
    BW_INCARNATION_READ_FROM_LEADER, /* read from the leader */
    BW_INCARNATION_STORE,            /* store the number on disk */
    BW_INCARNATION_PUBLISH           /* nothing is missing: publish */
};

struct bw_membership_view { /* view of a leader */
    struct bw_raft *raft;
    bw_time now;
    void *context;
    bool (*connected)(void *context, bw_node node); /* not called for this node */
};

void bw_membership_init(struct bw_membership *m, bw_node self, bool joins,
                        const struct bw_replica_member *members, uint32_t count);
/* Returns the last incarnation that this directory can have published. `kept` is the number stored
 * in the directory; 0: the directory was written by a version that stored none. `opened` is the
 * number of starts. */
uint64_t bw_membership_last_incarnation(const struct bw_membership *m, uint64_t kept,
                                        uint64_t opened);
/* Begins incarnation number `starts`. */
void bw_membership_begin(struct bw_membership *m, uint64_t starts);

/* ── log entries; `bytes` are the entry without its request number ── */

/* An entry was appended. Returns whether it changes the members. */
bool bw_membership_learn(struct bw_membership *m, const unsigned char *bytes, size_t length);
/* The log was truncated or replaced by a snapshot: forget the unapplied changes. The caller passes
 * the entries above the applied ones to bw_membership_learn again. */
void bw_membership_rewind(struct bw_membership *m);
void bw_membership_load(struct bw_membership *m, const struct bw_member_list *member_list);
/* Applies the next entry. Returns whether it changes the members; *out is the change. */
bool bw_membership_apply(struct bw_membership *m, const unsigned char *bytes, size_t length,
                         struct bw_member_change *out);

/* ── connections ── */

/* The nodes to connect to: the members according to the whole log, then members whose removal is
 * not committed. `out` has space for 2 * BW_RAFT_MEMBERS_MAX. */
uint32_t bw_membership_nodes(const struct bw_raft *raft, bw_node *out);
/* This node was added later, and its log does not name it yet. */
bool bw_membership_is_newcomer(const struct bw_membership *m, const struct bw_raft *raft);
/* Whether to connect back to `from`, at the address it reports, although the log does not name it.
 * A newcomer connects back to every node. A member whose log is behind connects back to nodes that
 * were added since: one of them may be the leader, and it must receive answers before it can send
 * the missing entries. */
bool bw_membership_connects_back(const struct bw_membership *m, const struct bw_raft *raft,
                                 bw_node from);
/* Decides about a node that connects: BW_MESH_REMOVED if it is no longer a member, else
 * BW_MESH_OK. */
enum bw_mesh_verdict bw_membership_judge(const struct bw_membership *m, const struct bw_raft *raft,
                                         bw_node from);
/* Finds the member id for a node that joins and is reachable at host:port. */
enum bw_mesh_verdict bw_membership_joins(const struct bw_membership *m, const char *host,
                                         uint16_t port, bw_node *id);
/* Whether `node` runs on an old copy of its directory. It reports incarnation `starts`, and
 * `published` if it has published that incarnation. The report must be as new as the log. */
bool bw_membership_is_stale(const struct bw_membership *m, bw_node node, uint64_t starts,
                            bool published);
/* A connection from `node` is accepted; it replaces the earlier one. */
void bw_membership_accepted(const struct bw_membership *m, bw_node node,
                            struct bw_peer_check *check);
/* `node` reports its incarnation on that connection; the log may be newer than the report. */
enum bw_incarnation_verdict bw_membership_reported(const struct bw_membership *m, bw_node node,
                                                   struct bw_peer_check *check, uint64_t starts,
                                                   bool published);
/* Its first report shows that its disk lost what it had promised. */
void bw_membership_lost_data(struct bw_peer_check *check);
/* Whether a refusal that names this report is about this process: it may be about another process
 * with the same id. `starts` 0: no report is named. */
bool bw_membership_is_refused(const struct bw_membership *m, uint64_t starts, bool published);

/* ── changes of the members ── */

/* Whether this leader may make the change now. Assigns the id of an added member. Returns 0, an
 * error of bw_change_judge, BW_ELIMIT (too many members) or BW_EVERSION (its version is too
 * old). */
int bw_membership_try(const struct bw_membership *m, const struct bw_membership_view *view,
                      struct bw_member_change *change);
/* Like bw_membership_try, for an encoded change in a request. Writes the assigned id into
 * `bytes`. */
int bw_membership_try_written(const struct bw_membership *m, const struct bw_membership_view *view,
                              unsigned char *bytes, size_t length, struct bw_member_change *out);
/* Raft's operation for a change; BW_CHANGE_NONE: Raft is not involved. */
enum bw_change_op bw_membership_op(enum bw_member_op op);
/* At the leader: a learner that wants to vote and has caught up, or BW_NODE_NONE. */
bw_node bw_membership_promotable(const struct bw_membership *m,
                                 const struct bw_membership_view *view);
/* The next step before this node may publish its incarnation. */
enum bw_incarnation_step bw_membership_incarnation_step(const struct bw_membership *m);
/* Returns whether this node must update its entry in the member list, and the change to request.
 * `own` is the node's own name and addresses. */
bool bw_membership_publish(const struct bw_membership *m, const struct bw_replica_member *own,
                           struct bw_member_change *out);

#endif
