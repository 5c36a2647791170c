/* The identity of a data directory: which node of which cluster owns it. The node writes it once,
 * before anything else, and reads it at every start.
 *
 * With an identity a node needs no list of members at later starts. A directory of another node or
 * cluster is refused before it is changed (fault 25 in docs/reference/faults.md).
 *
 *   identity   8 "BWNODE\0\1", 8 cluster, 4 self, 4 flags (1: joined later), 64 name, 4 length,
 *              the members of the cluster's first start (member_list.h), 8 checksum */
#ifndef BW_SERVE_REPLICA_IDENTITY_H
#define BW_SERVE_REPLICA_IDENTITY_H

#include "serve/replica/replica.h"

struct bw_identity {
    uint64_t cluster; /* 0: no identity */
    bw_node self;
    bool joined;
    char name[BW_REPLICA_NAME_MAX + 1];
    struct bw_member_list first;
};

/* Returns 0, BW_EDAMAGED, BW_EVERSION or BW_EIO with the reason in why[BW_REPLICA_WHY_MAX + 1].
 * Without a directory or a file it returns 0 and cluster 0. A log without an identity is damage. */
int bw_identity_read(struct bw_identity *out, const char *directory, char *why);
/* Durable when it returns 0. BW_EBUSY: the directory has an identity already, or is in use. */
int bw_identity_make(const struct bw_identity *identity, const char *directory, char *why);
/* Reverts the bw_identity_make of this start and removes the empty log made after it. Only for a
 * node that was refused before it promised anything. Other files in the directory stay. */
void bw_identity_unmake(const char *directory);

/* Locks a directory for one process. Returns the fd that holds the lock, or -1 with errno;
 * EWOULDBLOCK: another process holds it. */
int bw_directory_lock(int directory);

#endif
