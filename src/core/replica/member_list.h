/* The member list of a service: ids, names and addresses, and their byte format.
 *
 * Raft decides which ids vote (raft.h). The rest (address, name, whether a learner wants to vote)
 * travels in the log with the change and is part of snapshots. It is therefore the same on every
 * node that applied the same log.
 *
 * Invariants:
 * - An id is assigned once: `highest` only grows. An id at most `highest` that is not in the list
 *   belongs to a removed node.
 * - `level` only grows.
 *
 * `level` is the protocol version that every member has published (protocol.h). Features of that
 * version, above all new kinds of log entries, may be used from then on. A node that does not
 * support the level can no longer join.
 *
 *   member   4 id, 4 flags (1: wants to vote; from bit 8 on 8 version, from 16 on 16 starts),
 *            4 port, 4 + 4 + 4 lengths, name, host, client URL
 *   list     4 highest, 2 members, 2 level (0: 1), then the members
 *   change   1 BW_MEMBER_CHANGE_RECORD, 1 operation, member */
#ifndef BW_CORE_REPLICA_MEMBER_LIST_H
#define BW_CORE_REPLICA_MEMBER_LIST_H

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
    char host[BW_REPLICA_HOST_MAX + 1]; /* address for other nodes */
    uint16_t port;
    char client[BW_REPLICA_CLIENT_MAX + 1]; /* address for clients: "http://HOST:PORT" */
    bool wants_vote;                        /* a learner that becomes a voter once it has caught
                                             * up */
    uint8_t version;                        /* highest protocol version; 0: not published */
    uint16_t starts;                        /* incarnation number; 0: not published */
};

enum bw_member_op {
    BW_MEMBER_ADD = 1, /* address, wants_vote: adds a learner; the leader assigns its id */
    BW_MEMBER_PROMOTE, /* id: the learner becomes a voter */
    BW_MEMBER_REMOVE,  /* id */
    BW_MEMBER_UPDATE   /* id, and the fields to change: name, address, client URL, version,
                        * starts */
};

struct bw_member_change {
    enum bw_member_op op;
    struct bw_replica_member member;
};

#define BW_MEMBER_BYTES_MAX                                                                        \
    (24u + BW_REPLICA_NAME_MAX + BW_REPLICA_HOST_MAX + BW_REPLICA_CLIENT_MAX)
#define BW_MEMBER_LIST_BYTES_MAX (8u + BW_REPLICA_NODES * BW_MEMBER_BYTES_MAX)
#define BW_CHANGE_BYTES_MAX      (2u + BW_MEMBER_BYTES_MAX)
/* The first byte of an encoded change. No entry of the registry begins with it. */
#define BW_MEMBER_CHANGE_RECORD 0xb5u
/* Request numbers have 16 bits for the node (serve/replica/state.h). */
#define BW_MEMBER_ID_MAX 65535u

struct bw_member_list {
    bw_node highest;
    uint32_t count, level;
    struct bw_replica_member at[BW_REPLICA_NODES];
};

/* The member list of a first start: these members, and no earlier ones. */
void bw_member_list_init(struct bw_member_list *member_list,
                         const struct bw_replica_member *members, uint32_t count);
/* Return the member, or NULL. */
const struct bw_replica_member *bw_member_list_find(const struct bw_member_list *member_list,
                                                    bw_node id);
const struct bw_replica_member *
bw_member_list_find_address(const struct bw_member_list *member_list, const char *host,
                            uint16_t port);
/* Applies a change. A change that does not fit the list has no effect. */
void bw_member_list_apply(struct bw_member_list *member_list,
                          const struct bw_member_change *change);

/* Return the length. `out` has space for the maximum. */
size_t bw_member_list_encode(const struct bw_member_list *member_list, unsigned char *out);
size_t bw_change_encode(const struct bw_member_change *change, unsigned char *out);
/* Return 0 or BW_EMALFORMED. */
int bw_member_list_decode(struct bw_member_list *member_list, const unsigned char *bytes,
                          size_t length);
int bw_change_decode(struct bw_member_change *change, const unsigned char *bytes, size_t length);

/* Facts about a requested change, as the leader knows them. */
struct bw_change_facts {
    bool under_way;    /* an earlier change is not committed */
    bool known, voter; /* the node is a member; it is a voter */
    bool ready;        /* it is a learner that has caught up */
    bool live;         /* the leader received something from it recently */
    uint32_t voters;   /* number of voters */
    uint32_t alive;    /* voters from which the leader received something recently */
};

/* Returns 0 if the change may be made now, or:
 *   BW_EBUSY       another change is under way
 *   BW_ENOTMEMBER  the member is unknown
 *   BW_ESTALE      the learner has not caught up
 *   BW_EINVAL      the member is already a voter
 *   BW_ENOQUORUM   too few voters would remain to form a quorum */
int bw_change_judge(enum bw_member_op op, const struct bw_change_facts *facts);

#endif
