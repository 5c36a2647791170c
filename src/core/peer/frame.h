/* The frames between peers, except for the messages of detectors and electors.
 *
 * A frame travels inside a sealed datagram. frame.c documents the byte format. Each frame has
 * exactly one encoding; the decoder rejects everything that a correct peer does not send. Every
 * frame fits into one datagram: lists are split into frames of at most BW_PEER_FRAME_MAX bytes. */
#ifndef BW_CORE_PEER_FRAME_H
#define BW_CORE_PEER_FRAME_H

#include "core/base/types.h"
#include "core/peer/member.h"
#include "core/peer/rules.h"

/* A payload that usual links carry unfragmented: 1,280 bytes minus IPv6 and UDP headers and the
 * seal. */
#define BW_PEER_FRAME_MAX 1168u
/* Maximum number of founders. Their ids fit into one frame. */
#define BW_PEER_FOUNDERS_MAX 256u
/* Maximum number of rows in one frame. With short names about 24 rows fit. */
#define BW_PEER_ROWS_MAX  32u
#define BW_PEER_STATE_MAX 31u

enum bw_peer_frame_kind {
    BW_PEER_INSTANCE = 1, /* one bw_message (core/base/codec.h) */
    BW_PEER_JOIN,         /* announces the sender; answered by ROSTER, FOUND and SYNC */
    BW_PEER_ROSTER,       /* member rows, new or repeated */
    BW_PEER_SYNC,         /* digest of the sender's roster; a receiver with another digest answers
                           * with its rows */
    BW_PEER_FOUND,        /* founding a cluster (founding.h) */
    BW_PEER_DEAD,         /* the work of a node is dead */
    BW_PEER_CLAIM,        /* a node acts as leader */
    BW_PEER_QUERY,        /* a client's query */
    BW_PEER_VIEW,         /* the answer to a query */
    BW_PEER_ORDER,        /* a command to a member, for example to hand over */
    BW_PEER_BATCH,        /* several other frames in one (node_batch.c) */
    BW_PEER_HANDED,       /* like DEAD, from a live leader that hands over to a named successor */
    BW_PEER_FRAME_KINDS
};

struct bw_peer_address {
    uint8_t family; /* 4, 6, or 0: no address */
    uint16_t port;
    uint32_t scope;
    unsigned char bytes[16];
};

/* A member's description of itself. Any member may forward it. */
struct bw_peer_row {
    bw_node id;
    uint32_t incarnation; /* how often its data directory was started; of several rows of one
                           * node, that with the highest incarnation is valid */
    uint64_t directory;   /* random id of its data directory; a new id means that the node lost its
                           * memory */
    uint32_t priority;
    bool ordinary, left;
    struct bw_peer_address address;
    char name[BW_PEER_NAME_MAX + 1];
    char value[BW_PEER_VALUE_MAX + 1];
};

struct bw_peer_rows { /* JOIN (one row, the sender's own), ROSTER */
    uint32_t count;
    struct bw_peer_rules rules; /* JOIN only */
    struct bw_peer_row at[BW_PEER_ROWS_MAX];
};

struct bw_peer_sync {
    bool answer; /* ends the exchange: the receiver does not answer */
    uint32_t members;
    uint64_t digest;
    struct bw_peer_rules rules;
};

enum bw_peer_found_op {
    BW_PEER_FOUND_PROPOSE = 1, /* asks the receiver to accept this set */
    BW_PEER_FOUND_ACCEPT,      /* the sender has accepted durably; also asks whether the round is
                                * still valid */
    BW_PEER_FOUND_HELD,        /* refusal; names the round that the sender has accepted */
    BW_PEER_FOUND_WITHDRAW,    /* the proposer's rounds up to this one will never be founded */
    BW_PEER_FOUND_FOUNDED      /* all nodes have accepted: this set is the cluster */
};

struct bw_peer_founding {
    enum bw_peer_found_op op;
    bw_node proposer; /* owner of the round */
    uint64_t round;
    uint32_t count; /* PROPOSE, FOUNDED: number of ids in `set`, ascending; else 0 */
    bw_node set[BW_PEER_FOUNDERS_MAX];
};

struct bw_peer_death { /* the work of `node` in this election, under terms up to `term`, is dead */
    uint16_t election;
    bw_node node;
    uint32_t incarnation; /* of the process whose guardian reports the death; 0: the node reports it
                           * itself */
    bw_term term;
};

/* `node` acts as leader, or did until now. The sender may forward a claim it received. */
struct bw_peer_claim_frame {
    uint16_t election;
    bw_node node;
    bw_term term;
    bw_token token;
    uint64_t since_ms; /* how long the leader had been acting when it sent the claim */
    uint64_t ago_ms;   /* how long ago a forwarding sender received the claim; 0: the sender's
                        * own */
    bool done;         /* the work has ended for good */
    bool ended;        /* the leader has stopped acting */
};

enum bw_peer_question { BW_PEER_ASK_MEMBERS = 1, BW_PEER_ASK_ELECTIONS };

struct bw_peer_query {
    uint64_t request;
    enum bw_peer_question what;
    uint32_t first; /* index of the first list entry requested */
};

struct bw_peer_member_view { /* one member, as the answering node sees it */
    struct bw_peer_row row;
    enum bw_member_status status;
    bool voter;
    uint32_t level_milli;
    uint64_t since_ms; /* time since the status last changed */
};

/* The state text of a shard whose work has ended for good. */
#define BW_PEER_STATE_DONE "done"

struct bw_peer_election_view { /* one election, as the answering node sees it */
    uint16_t election;
    bw_node leader;
    bool leading, electing;
    bool busy; /* the work of the answering node may be running */
    bool held; /* a recovery (order HOLD) forbids the node to start work */
    bw_term term;
    bw_token token;
    uint64_t left_ms; /* leading: remaining time to act; UINT64_MAX: unlimited */
    char state[BW_PEER_STATE_MAX + 1];
};

struct bw_peer_view {
    uint64_t request;
    enum bw_peer_question what;
    bool formed;
    uint32_t first, total; /* index of this part's first entry, and size of the whole list */
    uint32_t count;
    union {
        struct bw_peer_member_view seen[BW_PEER_ROWS_MAX];
        struct bw_peer_election_view standing[BW_PEER_ROWS_MAX];
    };
};

struct bw_peer_hand_over { /* ORDER; the answer repeats `request` and sets `answer` */
    uint64_t request;
    uint8_t kind; /* enum bw_peer_order_kind */
    bool answer;
    uint8_t error; /* in an answer: 0 or a negated enum bw_error */
    uint16_t election;
    bw_node node;
};

struct bw_peer_frame {
    enum bw_peer_frame_kind kind;
    union {
        struct bw_peer_rows rows;
        struct bw_peer_sync sync;
        struct bw_peer_founding founding;
        struct bw_peer_death death;
        struct bw_peer_claim_frame lead;
        struct bw_peer_query query;
        struct bw_peer_view view;
        struct bw_peer_hand_over order;
    };
};

/* Encodes every kind except INSTANCE and BATCH. Returns the number of bytes written, BW_EMALFORMED,
 * or BW_ELIMIT if `cap` is too small. */
int bw_peer_frame_encode(const struct bw_peer_frame *frame, unsigned char *out, size_t cap);
/* Decodes exactly `length` bytes; the caller sets frame->kind. Returns 0, BW_ETRUNCATED or
 * BW_EMALFORMED. */
int bw_peer_frame_decode(struct bw_peer_frame *frame, const unsigned char *in, size_t length);

/* Encoded size of a row in a ROSTER or a VIEW. */
size_t bw_peer_row_bytes(const struct bw_peer_row *row);
size_t bw_peer_member_view_bytes(const struct bw_peer_member_view *seen);

#endif
