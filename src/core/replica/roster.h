/* Who the members are, beyond the numbers that Raft knows: names and addresses, as values.
 *
 * Who votes is Raft's business (raft.h). What goes along with a number (where its node is reached,
 * what it is called, whether it is to vote once it has caught up) travels in the log with the
 * change, is kept in snapshots, and is the same on every node that applied the same log. Numbers
 * are given once: `highest` only grows, so a number that is not there but not above it is of a
 * node that was removed.
 *
 * `level` is the version of the protocol that every member has said it speaks (protocol.h): what it
 * brought, new kinds of entries above all, may be used from then on. It only grows, and who does
 * not know it is let in no more.
 *
 *   member   4 id, 4 flags (1: is to vote; from bit 8 on 8 version, from 16 on 16 starts), 4 port,
 *            4 + 4 + 4 lengths, name, host, client's URL
 *   roster   4 highest, 2 members, 2 level (0: 1), member each
 *   change   1 BW_ROSTER_RECORD, 1 operation, member */
#ifndef BW_SERVE_ROSTER_H
#define BW_SERVE_ROSTER_H

#include "core/base/types.h"

#include <stdbool.h>
#include <stddef.h>

#define BW_REPLICA_NAME_MAX   63u
#define BW_REPLICA_HOST_MAX   255u
#define BW_REPLICA_CLIENT_MAX 299u
#define BW_REPLICA_NODES      32u

struct bw_replica_member {
    bw_node id;
    char name[BW_REPLICA_NAME_MAX + 1];
    char host[BW_REPLICA_HOST_MAX + 1]; /* where its peers reach it */
    uint16_t port;
    char client[BW_REPLICA_CLIENT_MAX + 1]; /* where clients reach it: "http://HOST:PORT" */
    bool wants_vote;                        /* a learner that is to vote once it has caught up */
    uint8_t version;                        /* the highest it speaks; 0: it never said */
    uint16_t starts;                        /* how often it did; 0: it never said */
};

enum bw_member_op {
    BW_MEMBER_ADD = 1, /* address, wants_vote: a learner; its number is given by who leads */
    BW_MEMBER_PROMOTE, /* id: a learner becomes a voter */
    BW_MEMBER_REMOVE,  /* id */
    BW_MEMBER_UPDATE   /* id, and what is to change: name, address, client's URL, version, starts */
};

struct bw_member_change {
    enum bw_member_op op;
    struct bw_replica_member member;
};

#define BW_MEMBER_BYTES_MAX                                                                        \
    (24u + BW_REPLICA_NAME_MAX + BW_REPLICA_HOST_MAX + BW_REPLICA_CLIENT_MAX)
#define BW_ROSTER_BYTES_MAX (8u + BW_REPLICA_NODES * BW_MEMBER_BYTES_MAX)
#define BW_CHANGE_BYTES_MAX (2u + BW_MEMBER_BYTES_MAX)
/* The first byte of a change: none of the registry's entries begins with it. */
#define BW_ROSTER_RECORD 0xb5u
/* Request numbers have 16 bits for the node (serve/replica/state.h). */
#define BW_MEMBER_ID_MAX 65535u

struct bw_roster {
    bw_node highest;
    uint32_t count, level;
    struct bw_replica_member at[BW_REPLICA_NODES];
};

/* As a first start has it: these members and no others ever. */
void bw_roster_init(struct bw_roster *roster, const struct bw_replica_member *members,
                    uint32_t count);
/* NULL: not there. */
const struct bw_replica_member *bw_roster_find(const struct bw_roster *roster, bw_node id);
const struct bw_replica_member *bw_roster_find_address(const struct bw_roster *roster,
                                                       const char *host, uint16_t port);
/* What a change makes of it; one that makes no sense changes nothing. */
void bw_roster_apply(struct bw_roster *roster, const struct bw_member_change *change);

/* Each returns the length; `out` has room for the most there can be. */
size_t bw_roster_encode(const struct bw_roster *roster, unsigned char *out);
size_t bw_change_encode(const struct bw_member_change *change, unsigned char *out);
/* Return 0 or BW_EMALFORMED. */
int bw_roster_decode(struct bw_roster *roster, const unsigned char *bytes, size_t length);
int bw_change_decode(struct bw_member_change *change, const unsigned char *bytes, size_t length);

/* May this change be made now? The facts are the leader's. */
struct bw_change_facts {
    bool under_way;           /* a change before it is not committed */
    bool known, voter, ready; /* the member; of a learner: it has caught up */
    bool live;                /* it was heard lately */
    uint32_t voters, alive;   /* how many there are; of them heard lately */
};

/* 0, or BW_EBUSY (another change is under way), BW_ENOTMEMBER, BW_ESTALE (it has not caught up),
 * BW_EINVAL (it votes already), BW_ENOQUORUM (too few would be left to agree). */
int bw_change_judge(enum bw_member_op op, const struct bw_change_facts *facts);

#endif
