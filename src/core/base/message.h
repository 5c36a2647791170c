/* What instances say to each other: one fixed-size struct, a kind, and for a few kinds a list
 * behind it.
 *
 * A decision module fills one in and puts it into its actions; the caller encodes it (codec.h) or,
 * in the simulator, hands a copy over. `data` is borrowed from the sender until its actions have
 * been carried out, and from the caller for the length of a step on the receiving side.
 *
 * `term` is the number that makes old news old: epoch (bully, ring, lowest id), round (stable
 * leader), group counter (invitation), epoch of a promise (guard), term (Raft); detectors leave it
 * 0. */
#ifndef BW_BASE_MESSAGE_H
#define BW_BASE_MESSAGE_H

#include "core/base/limits.h"
#include "core/base/types.h"

/* X(constant, name for people, who it belongs to, its fixed part, its list) */
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
    BW_FLAG_YES = 1,  /* granted, accepted, agreed: the answer is yes */
    BW_FLAG_LEFT = 2, /* Hirschberg-Sinclair: travels to the left neighbour */
    BW_FLAG_TRANSFER =
        4, /* Raft: this vote was asked for by a transfer and bypasses the vote-ignore rule */
    BW_FLAG_FORWARDED =
        8, /* invitation: passed on by the coordinator of the one it reaches; SWIM: relayed probe */
    BW_FLAG_WAITS = 16 /* Raft: a list of waits travels along (APPEND, SNAPSHOT, VOTE_REPLY) */
};

struct bw_probe {         /* every detector's fixed part */
    uint64_t seq;         /* probe or heartbeat number; echoed by the answer */
    bw_node target;       /* SWIM: whom the probe is about */
    uint32_t incarnation; /* SWIM: the sender's own */
};

struct bw_bully_part { /* bully and its variants, lowest id, stable leader */
    bw_node leader;    /* COORDINATOR: who leads; FAILOVER, NOTICE: who failed; stable: the
                          round's candidate */
    uint32_t demerits; /* the sender's flapping, when ranked by stability: fewer is better */
    uint64_t version;  /* next-in-line: version of the list of alternatives */
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

struct bw_group_part { /* invitation: a group is (leader, counter); the counter travels as `term` */
    bw_node leader;    /* the group's coordinator */
    uint32_t size;     /* members of the sender's group */
    bw_term counter;   /* ACCEPT, READY, THERE_ANSWER: the group answered for, when it is not the
                          sender's; ARE_YOU_COORDINATOR: the look, echoed by its answer */
};

struct bw_promise_part { /* quorum guard; term is the epoch */
    bw_node leader;      /* PROMISE refused: who holds the promise */
    bw_time left_ns;     /* PROMISE refused: how long it still binds, on the sender's clock */
    bw_time echo;        /* the claimant's send time, given back untouched */
};

/* A window of an earlier Raft leader that may still be open (core/elect/raft/window.c). The
 * receiver counts left_ns from receipt on its own clock. */
struct bw_raft_wait {
    bw_node node;    /* that leader; NONE: not known, or one of several */
    bw_term term;    /* the newest term in which it led */
    bw_time left_ns; /* as the sender's clock measures it; 0 < left_ns <= span_ns */
};

struct bw_raft_waits {
    uint32_t count;  /* not 0 if and only if the message has BW_FLAG_WAITS */
    bw_time span_ns; /* length of the longest whole promise among them */
    struct bw_raft_wait at[BW_RAFT_WAITS_MAX];
};

struct bw_vote_part {
    bw_index last_index; /* of the candidate's log */
    bw_term last_term;
    bw_time left_ns;            /* reply: the longest of `waits` */
    bw_time ended;              /* VOTE of a transfer: the echo of its TIMEOUT_NOW */
    struct bw_raft_waits waits; /* reply */
};

struct bw_term_run { /* `count` log entries of one term */
    bw_term term;
    uint32_t count;
};

struct bw_change {  /* a membership change held by a log entry */
    uint8_t op;     /* enum bw_change_op */
    uint32_t entry; /* APPEND: which of the batch's entries, from 0 */
    bw_node node;
};

struct bw_append_part {
    bw_index prev_index;
    bw_term prev_term;
    bw_index commit;
    bw_time echo; /* the leader's send time, given back untouched: leases and reads count from it */
    struct bw_change change; /* at most one per batch; op 0 = none */
    uint32_t runs;
    struct bw_term_run run[BW_RAFT_APPEND_RUNS_MAX];
    struct bw_raft_waits waits; /* of the leader */
};

struct bw_append_reply_part {
    bw_index index;    /* yes: entries up to here are durable; no: try from here */
    bw_term hint_term; /* no: the follower's term at index, 0 = none */
    bw_index rejected; /* no: the prev_index that was refused, so that late refusals are known */
    bw_time echo;
};

struct bw_snapshot_part { /* the list names members: voters first, then learners */
    bw_index last_index;
    bw_term last_term;
    bw_time echo;
    uint32_t voters;
    struct bw_raft_waits waits; /* of the leader */
};

enum bw_member_status { BW_MEMBER_ALIVE, BW_MEMBER_SUSPECT, BW_MEMBER_DEAD };

struct bw_swim_update { /* list item UPDATES */
    bw_node node;
    uint32_t incarnation;
    uint32_t status; /* enum bw_member_status */
    bw_node by;      /* SUSPECT, DEAD: who first said so; independent voices shorten a suspicion */
};

struct bw_counter { /* list item COUNTERS */
    bw_node node;
    uint64_t value;
};

struct bw_message {
    uint8_t kind;
    uint8_t flags;
    uint16_t election; /* which of the electors that share a connection and a detector */
    bw_node from, to;
    uint32_t items; /* list items (bytes for BYTES) behind data */
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
/* Bytes of one list item of this kind; 0 when it has no list. */
size_t bw_message_item_size(unsigned kind);
/* Bytes from the start of the struct that a message of this kind uses: what a copy must take along.
 */
size_t bw_message_used(unsigned kind);
/* Where the struct bw_raft_waits of a message of this kind is; 0: it carries none. */
size_t bw_message_waits_at(unsigned kind);
/* The waits of a message; NULL for a kind that carries none. */
const struct bw_raft_waits *bw_message_waits(const struct bw_message *msg);

#endif
