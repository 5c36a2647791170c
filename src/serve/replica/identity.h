/* Whose data a directory holds: written once, before anything else is, and read at every start.
 * With it a node needs no list of members again, and a directory of another node or cluster is
 * refused before it is touched (fault 25).
 *
 *   identity   8 "BWNODE\0\1", 8 cluster, 4 self, 4 flags (1: joined later), 64 name, 4 length,
 *              the members of the cluster's first start (roster.h), 8 checksum */
#ifndef BW_SERVE_IDENTITY_H
#define BW_SERVE_IDENTITY_H

#include "serve/replica/replica.h"

struct bw_identity {
    uint64_t cluster; /* 0: there is none */
    bw_node self;
    bool joined;
    char name[BW_REPLICA_NAME_MAX + 1];
    struct bw_roster first;
};

/* Returns 0, BW_EDAMAGED, BW_EVERSION or BW_EIO with a line in why[BW_REPLICA_WHY_MAX + 1]. Without
 * a directory or a file there is none; a log without one is damage. */
int bw_identity_read(struct bw_identity *out, const char *directory, char *why);
/* Durable when it returns 0. BW_EBUSY: there is one already, or the directory is in use. */
int bw_identity_make(const struct bw_identity *identity, const char *directory, char *why);
/* Takes back a bw_identity_make of this start, and the empty log made after it: the node was
 * refused before it promised anything. The directory is empty again, unless something else was in
 * it. */
void bw_identity_unmake(const char *directory);

/* The lock of whoever runs in a directory: the fd that holds it; -1 with errno, EWOULDBLOCK if
 * another process has it. */
int bw_directory_lock(int directory);

#endif
