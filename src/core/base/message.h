/* Messages between instances: one fixed-size struct with a kind, and for some kinds a list.
 *
 * A decision module fills in a message and adds it to its actions. The caller encodes it (codec.h);
 * the simulator passes a copy. `data` belongs to the sender until its actions have been carried
 * out. On the receiving side `data` belongs to the caller and is valid for one step.
 *
 * `term` lets a receiver recognize stale messages. It is the epoch (bully, ring, lowest id), the
 * round (stable leader), the group counter (invitation), the epoch of a promise (quorum guard) or
 * the term (Raft). Detectors leave it 0. */
#ifndef BW_CORE_BASE_MESSAGE_H
#define BW_CORE_BASE_MESSAGE_H

#include "core/base/limits.h"
#include "core/base/types.h"

/* X(constant, name for users, module it is for, its fixed part, its list) */
#define BW_MESSAGE_MAP(X)                                                                          \
    X(PING, "PING", DETECTOR, PROBE, NONE)                                                         \
    X(ACK, "ACK", DETECTOR, PROBE, NONE)                                                           \
    X(HEARTBEAT, "HEARTBEAT", DETECTOR, PROBE, NONE)                                               \
    X(HEARTBEAT_PATH, "HEARTBEAT_PATH", DETECTOR, PROBE, NODES)                                    \
    X(GOSSIP, "GOSSIP", DETECTOR, NOTHING, COUNTERS)                                               \
    X(SWIM_PING, "PING", DETECTOR, PROBE, UPDATES)                                                 \
    X(SWIM_ACK, "ACK", DETECTOR, PROBE, UPDATES)                                                   \
    X(SWIM_NACK, "NACK", DETECTOR, PROBE, UPDATES)                                                 \
    X(SWIM_PING_REQ, "PING_REQ", DETECTOR, PROBE, UPDATES)                                         \
    X(ELECTION, "ELECTION", ELECTOR, BULLY, NONE)                                                  \
    X(OK, "OK", ELECTOR, BULLY, NONE)                                                              \
    X(COORDINATOR, "COORDINATOR", ELECTOR, BULLY, NODES)                                           \
    X(ALIVE, "ALIVE", ELECTOR, BULLY, NONE)                                                        \
    X(NOTICE, "NOTICE", ELECTOR, BULLY, NONE)                                                      \
    X(FAILOVER, "FAILOVER", ELECTOR, BULLY, NONE)                                                  \
    X(POLL, "POLL", ELECTOR, BULLY, NONE)                                                          \
    X(ANSWER, "ANSWER", ELECTOR, BULLY, NONE)                                                      \
    X(RING_ELECTION, "ELECTION", ELECTOR, RING, NODES)                                             \
    X(RING_COORDINATOR, "COORDINATOR", ELECTOR, RING, NODES)                                       \
    X(HS_FROM, "FROM", ELECTOR, HS, NONE)                                                          \
    X(HS_OK, "OK", ELECTOR, HS, NONE)                                                              \
    X(HS_NO, "NO", ELECTOR, HS, NONE)                                                              \
    X(ARE_YOU_COORDINATOR, "ARE_YOU_COORDINATOR", ELECTOR, GROUP, NONE)                            \
    X(COORDINATOR_ANSWER, "COORDINATOR_ANSWER", ELECTOR, GROUP, NONE)                              \
    X(INVITATION, "INVITATION", ELECTOR, GROUP, NONE)                                              \
    X(ACCEPT, "ACCEPT", ELECTOR, GROUP, NONE)                                                      \
    X(READY, "READY", ELECTOR, GROUP, NODES)                                                       \
    X(ARE_YOU_THERE, "ARE_YOU_THERE", ELECTOR, GROUP, NONE)                                        \
    X(THERE_ANSWER, "THERE_ANSWER", ELECTOR, GROUP, NONE)                                          \
    X(STABLE_START, "START", ELECTOR, BULLY, NONE)                                                 \
    X(STABLE_OK, "OK", ELECTOR, BULLY, NONE)                                                       \
    X(STABLE_STOP, "STOP", ELECTOR, BULLY, NONE)                                                   \
    X(CLAIM, "CLAIM", ELECTOR, PROMISE, NONE)                                                      \
    X(PROMISE, "PROMISE", ELECTOR, PROMISE, NONE)                                                  \
    X(RELEASE, "RELEASE", ELECTOR, PROMISE, NONE)                                                  \
    X(RAFT_VOTE, "VOTE", ELECTOR, VOTE, NONE)                                                      \
    X(RAFT_VOTE_REPLY, "VOTE_REPLY", ELECTOR, VOTE, NONE)                                          \
    X(RAFT_PREVOTE, "PREVOTE", ELECTOR, VOTE, NONE)                                                \
    X(RAFT_PREVOTE_REPLY, "PREVOTE_REPLY", ELECTOR, VOTE, NONE)                                    \
    X(RAFT_APPEND, "APPEND", ELECTOR, APPEND, BYTES)                                               \
    X(RAFT_APPEND_REPLY, "APPEND_REPLY", ELECTOR, APPEND_REPLY, NONE)                              \
    X(RAFT_SNAPSHOT, "SNAPSHOT", ELECTOR, SNAPSHOT, NODES)                                         \
    X(RAFT_TIMEOUT_NOW, "TIMEOUT_NOW", ELECTOR, PROMISE, NONE)                                     \
    X(STORE_ASK, "STORE_ASK", ELECTOR, NOTHING, BYTES)                                             \
    X(STORE_ANSWER, "STORE_ANSWER", ELECTOR, NOTHING, BYTES)

enum bw_message_kind {
    BW_MSG_NONE,
#define X(constant, name, owner, fixed, list) BW_MSG_##constant,
    BW_MESSAGE_MAP(X)
#undef X
        BW_MSG_COUNT
};

enum bw_message_flag {
    BW_FLAG_YES = 1,  /* granted, accepted or agreed */
    BW_FLAG_LEFT = 2, /* Hirschberg-Sinclair: travels to the left neighbour */
    /* Raft: a transfer caused this vote request; it bypasses the rule that a voter ignores
     * candidates while it has a leader */
    BW_FLAG_TRANSFER = 4,
    BW_FLAG_FORWARDED =
        8, /* invitation: forwarded by the receiver's coordinator; SWIM: a relayed probe */
    /* Raft: the message carries a list of waits (APPEND, SNAPSHOT, VOTE_REPLY) */
    BW_FLAG_WAITS = 16
};

struct bw_probe {         /* the fixed part of every detector */
    uint64_t seq;         /* number of the probe or heartbeat; the reply echoes it */
    bw_node target;       /* SWIM: the member probed */
    uint32_t incarnation; /* SWIM: the sender's incarnation */
};

struct bw_bully_part { /* bully and its variants, lowest id, stable leader */
    /* COORDINATOR: the leader; FAILOVER, NOTICE: the failed leader; stable leader: the round's
     * candidate */
    bw_node leader;
    /* the sender's flapping penalty, when ranked by stability; lower is better */
    uint32_t penalty;
    uint64_t version; /* next-in-line: version of the list of alternatives */
};

struct bw_ring_part {
    bw_node initiator;
    bw_node best; /* ring-max, Chang-Roberts: the largest id so far; COORDINATOR: the leader */
    uint32_t hops;
};

struct bw_hs_part {
    bw_node value;
    uint32_t num, max;
};

struct bw_group_part { /* invitation: a group is (leader, counter); the counter travels in `term` */
    bw_node leader;    /* the group's coordinator */
    uint32_t size;     /* number of members of the sender's group */
    /* ACCEPT, READY, THERE_ANSWER: the group that the reply is about, if it is not the sender's;
     * ARE_YOU_COORDINATOR: number of the check, which the reply echoes */
    bw_term counter;
};

struct bw_promise_part { /* quorum guard; `term` is the epoch */
    bw_node leader;      /* PROMISE refused: the holder of the promise */
    bw_time left_ns; /* PROMISE refused: how long that promise still binds, on the sender's clock */
    bw_time echo;    /* the claimant's send time, echoed unchanged */
};

/* The window of an earlier Raft leader that may still be open (core/elect/raft/window.c). The
 * receiver counts left_ns from receipt on its own clock. */
struct bw_raft_wait {
    bw_node node;    /* that leader; NONE: unknown, or several leaders */
    bw_term term;    /* the newest term in which it led */
    bw_time left_ns; /* time left on the sender's clock; 0 < left_ns <= span_ns */
};

struct bw_raft_waits {
    uint32_t count;  /* nonzero if and only if the message has BW_FLAG_WAITS */
    bw_time span_ns; /* duration of the longest promise behind the waits, not its rest */
    struct bw_raft_wait at[BW_RAFT_WAITS_MAX];
};

struct bw_vote_part {
    bw_index last_index; /* of the candidate's log */
    bw_term last_term;
    bw_time left_ns;            /* reply: the longest of `waits` */
    bw_time ended;              /* VOTE in a transfer: the echo of its TIMEOUT_NOW */
    struct bw_raft_waits waits; /* reply: open windows of earlier leaders */
};

struct bw_term_run { /* `count` log entries of one term */
    bw_term term;
    uint32_t count;
};

struct bw_change {  /* a membership change in a log entry */
    uint8_t op;     /* enum bw_change_op */
    uint32_t entry; /* APPEND: index of the entry in the batch, from 0 */
    bw_node node;
};

struct bw_append_part {
    bw_index prev_index;
    bw_term prev_term;
    bw_index commit;
    bw_time echo; /* the leader's send time, echoed unchanged; leases and reads count from it */
    struct bw_change change; /* at most one per batch; op 0: none */
    uint32_t runs;
    struct bw_term_run run[BW_RAFT_APPEND_RUNS_MAX];
    struct bw_raft_waits waits; /* the leader's waits */
};

struct bw_append_reply_part {
    bw_index index;    /* yes: entries up to here are durable; no: retry from here */
    bw_term hint_term; /* no: the follower's term at `index`; 0: none */
    /* no: the rejected prev_index, by which the leader recognizes late rejections */
    bw_index rejected;
    bw_time echo;
};

struct bw_snapshot_part { /* the list holds the members: voters first, then learners */
    bw_index last_index;
    bw_term last_term;
    bw_time echo;
    uint32_t voters;
    struct bw_raft_waits waits; /* the leader's waits */
};

enum bw_member_status { BW_MEMBER_ALIVE, BW_MEMBER_SUSPECT, BW_MEMBER_DEAD };

struct bw_swim_update { /* item of a list UPDATES */
    bw_node node;
    uint32_t incarnation;
    uint32_t status; /* enum bw_member_status */
    /* SUSPECT, DEAD: the first member that reported it; independent reports shorten a suspicion */
    bw_node by;
};

struct bw_counter { /* item of a list COUNTERS */
    bw_node node;
    uint64_t value;
};

struct bw_message {
    uint8_t kind;
    uint8_t flags;
    uint16_t election; /* the elector, among those that share a connection and a detector */
    bw_node from, to;
    uint32_t items; /* number of list items in `data` (bytes for a list BYTES) */
    bw_term term;
    const void *data;
    union {
        struct bw_probe probe;
        struct bw_bully_part bully;
        struct bw_ring_part ring;
        struct bw_hs_part hs;
        struct bw_group_part group;
        struct bw_promise_part promise;
        struct bw_vote_part vote;
        struct bw_append_part append;
        struct bw_append_reply_part append_reply;
        struct bw_snapshot_part snapshot;
    };
};

const char *bw_message_name(unsigned kind);
bool bw_message_for_detector(unsigned kind);
/* Bytes of one list item of this kind; 0: the kind has no list. */
size_t bw_message_item_size(unsigned kind);
/* Bytes from the start of the struct that a message of this kind uses; a copy needs only these. */
size_t bw_message_used(unsigned kind);
/* Offset of the struct bw_raft_waits in a message of this kind; 0: the kind carries no waits. */
size_t bw_message_waits_at(unsigned kind);
/* The waits of a message; NULL if its kind carries none. */
const struct bw_raft_waits *bw_message_waits(const struct bw_message *msg);

#endif
