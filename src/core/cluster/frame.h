/* What peers say to each other beside the messages of detectors and electors, as bytes under a
 * seal. The format stands at the top of frame.c; there is one encoding of every frame, and what no
 * correct peer sends is refused.
 *
 * Everything fits a datagram: lists are cut into frames of at most BW_PEER_FRAME_MAX bytes. */
#ifndef BW_PEER_FRAME_H
#define BW_PEER_FRAME_H

#include "core/base/types.h"
#include "core/cluster/member.h"
#include "core/cluster/rules.h"

/* A payload that passes every usual link in one piece: 1,280 bytes less IPv6, UDP and the seal. */
#define BW_PEER_FRAME_MAX 1168u
/* Those who found a cluster: their ids fit one frame. */
#define BW_PEER_FOUNDERS_MAX 256u
/* Rows of one frame: with short names about 24 fit. */
#define BW_PEER_ROWS_MAX  32u
#define BW_PEER_STATE_MAX 31u

enum bw_peer_frame_kind {
    BW_PEER_INSTANCE = 1, /* one bw_message (core/base/codec.h) */
    BW_PEER_JOIN,         /* here I am; who are you? answered by ROSTER, FOUND and SYNC */
    BW_PEER_ROSTER,       /* rows, old or new */
    BW_PEER_SYNC,         /* what my roster comes to; who differs answers with rows */
    BW_PEER_FOUND,        /* founding a cluster (found.h) */
    BW_PEER_DEAD,         /* whose work is dead */
    BW_PEER_CLAIM,        /* somebody leads */
    BW_PEER_QUERY,        /* a client asks */
    BW_PEER_VIEW,         /* and is told what we see */
    BW_PEER_ORDER,        /* hand over, please */
    BW_PEER_BATCH,        /* several of the others in one (node_batch.c) */
    BW_PEER_HANDED,       /* as DEAD, of a leader that lives and hands over to a named successor */
    BW_PEER_FRAME_KINDS
};

struct bw_peer_address {
    uint8_t family; /* 4, 6, or 0: none */
    uint16_t port;
    uint32_t scope;
    unsigned char bytes[16];
};

/* A member's own words about itself, passed on by anybody. */
struct bw_peer_row {
    bw_node id;
    uint32_t incarnation; /* starts of its directory; the newest word counts */
    uint64_t directory;   /* drawn when its directory was made: another one has forgotten all */
    uint32_t priority;
    bool ordinary, left;
    struct bw_peer_address address;
    char name[BW_PEER_NAME_MAX + 1];
    char value[BW_PEER_VALUE_MAX + 1];
};

struct bw_peer_rows { /* JOIN (one, the sender's own), ROSTER */
    uint32_t count;
    struct bw_peer_rules rules; /* JOIN */
    struct bw_peer_row at[BW_PEER_ROWS_MAX];
};

struct bw_peer_sync {
    bool answer; /* ends the exchange: not answered again */
    uint32_t members;
    uint64_t digest;
    struct bw_peer_rules rules;
};

enum bw_peer_found_op {
    BW_PEER_FOUND_PROPOSE = 1, /* accept this set */
    BW_PEER_FOUND_ACCEPT,      /* done, durably; also: does it still stand? */
    BW_PEER_FOUND_HELD,        /* no: this one was accepted before, or we are founded */
    BW_PEER_FOUND_WITHDRAW,    /* rounds of mine up to this one will never be founded */
    BW_PEER_FOUND_FOUNDED      /* all have accepted: this is the cluster */
};

struct bw_peer_founding {
    enum bw_peer_found_op op;
    bw_node proposer; /* whose round it is */
    uint64_t round;
    uint32_t count; /* PROPOSE, FOUNDED: the set, ids in order; else 0 */
    bw_node set[BW_PEER_FOUNDERS_MAX];
};

struct bw_peer_death { /* what `node` ran in this election under terms up to `term` is dead */
    uint16_t election;
    bw_node node;
    uint32_t incarnation; /* of the process whose guardian says so; 0: the node itself does */
    bw_term term;
};

struct bw_peer_lead { /* `node` acts as leader, or did until now: the sender, or whom it heard */
    uint16_t election;
    bw_node node;
    bw_term term;
    bw_token token;
    uint64_t since_ms; /* it had acted for so long when it said so */
    uint64_t ago_ms;   /* which was heard so long ago; 0 of the sender itself */
    bool done;         /* there is nothing to do any more */
    bool ended;        /* it acted until then, and no longer */
};

enum bw_peer_question { BW_PEER_ASK_MEMBERS = 1, BW_PEER_ASK_ELECTIONS };

struct bw_peer_query {
    uint64_t request;
    enum bw_peer_question what;
    uint32_t first; /* of the list: the next part of an answer is asked for */
};

struct bw_peer_seen { /* one member, as the answerer sees it */
    struct bw_peer_row row;
    enum bw_member_status status;
    bool voter;
    uint32_t level_milli;
    uint64_t since_ms; /* so long ago */
};

/* The state of a shard whose work has ended for good. */
#define BW_PEER_STATE_DONE "done"

struct bw_peer_standing { /* one election, likewise */
    uint16_t election;
    bw_node leader;
    bool leading, electing;
    bool busy, held; /* work of ours may run; no work may begin (HOLD) */
    bw_term term;
    bw_token token;
    uint64_t left_ms; /* leading: may act so much longer; UINT64_MAX: no end */
    char state[BW_PEER_STATE_MAX + 1];
};

struct bw_peer_view {
    uint64_t request;
    enum bw_peer_question what;
    bool formed;
    uint32_t first, total; /* this part begins here, of so many */
    uint32_t count;
    union {
        struct bw_peer_seen seen[BW_PEER_ROWS_MAX];
        struct bw_peer_standing standing[BW_PEER_ROWS_MAX];
    };
};

struct bw_peer_hand_over { /* ORDER; answered by an ORDER of the same request with `answer` set */
    uint64_t request;
    uint8_t kind; /* enum bw_peer_order_kind */
    bool answer;
    uint8_t error; /* answer: 0, or minus an enum bw_error */
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
        struct bw_peer_lead lead;
        struct bw_peer_query query;
        struct bw_peer_view view;
        struct bw_peer_hand_over order;
    };
};

/* Every kind but INSTANCE and BATCH. Returns the bytes written, BW_EMALFORMED, or BW_ELIMIT: `cap`
 * is too small. */
int bw_peer_frame_encode(const struct bw_peer_frame *frame, unsigned char *out, size_t cap);
/* frame->kind is set; exactly `length` bytes. Returns 0, BW_ETRUNCATED or BW_EMALFORMED. */
int bw_peer_frame_decode(struct bw_peer_frame *frame, const unsigned char *in, size_t length);

/* Bytes that this row takes in a ROSTER, or in a VIEW. */
size_t bw_peer_row_bytes(const struct bw_peer_row *row);
size_t bw_peer_seen_bytes(const struct bw_peer_seen *seen);

#endif
