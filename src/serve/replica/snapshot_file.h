/* Snapshots as files of a directory: each complete under its own name, or not there.
 *
 *   snapshot-INDEX (16 hexadecimal digits)
 *   8 "BWSNAP\0\2", 8 cluster, 8 index, 8 term, 4 voters, 4 members, 4 each member up to 32
 *   4 length, the members' names and addresses (roster.h); version 1 had neither
 *   the registry (core/registry/snapshot.h)
 *   8 checksum of everything before it
 *
 * A backup is a snapshot, zeros up to a multiple of 512, a block of 512 that begins with "BWBACKUP"
 * and the 8 bytes of the snapshot's length, and 32 bytes of SHA-256 over all of it. */
#ifndef BW_SERVE_SNAPSHOT_FILE_H
#define BW_SERVE_SNAPSHOT_FILE_H

#include "core/base/limits.h"
#include "core/registry/registry.h"
#include "serve/replica/replica.h"

#define BW_SNAPSHOT_HEAD (40u + 4u * BW_RAFT_MEMBERS_MAX)

struct bw_snapshot_head {
    uint64_t cluster;
    bw_index index; /* 0: there is no snapshot */
    bw_term term;
    uint32_t voters, members; /* voters first */
    bw_node member[BW_RAFT_MEMBERS_MAX];
    struct bw_roster roster; /* empty: of version 1 */
};

void bw_snapshot_name(char *path, size_t size, const char *directory, bw_index index);
/* Durable when it returns 0; BW_EIO else. */
int bw_snapshot_write(const char *directory, const struct bw_snapshot_head *head,
                      struct bw_registry *registry);
/* A backup, to a pipe, without the SHA-256 at its end: the reader adds it. Returns 0 or BW_EIO.
 * Like bw_snapshot_write it may be called in a forked copy of a process with threads. */
int bw_snapshot_stream(int fd, const struct bw_snapshot_head *head, struct bw_registry *registry);
/* Copies a snapshot into a directory as another cluster's: the registry as it is, everything else
 * as the head has it but index and term, which stay. Durable when it returns 0; errors as below. */
int bw_snapshot_adopt(const char *path, const char *directory, struct bw_snapshot_head *head,
                      char *why);
/* The newest one into a registry fresh from init; head->index 0 if there is none. Returns 0,
 * BW_EDAMAGED, BW_EDENIED (another cluster), BW_EVERSION, BW_ELIMIT or BW_EIO with a line in why.
 */
int bw_snapshot_read(const char *directory, uint64_t cluster, struct bw_snapshot_head *head,
                     struct bw_registry *registry, char *why);
/* Checks a file's head and checksum only; a cluster of 0 is any. */
int bw_snapshot_check(const char *path, uint64_t cluster, struct bw_snapshot_head *head, char *why);
void bw_snapshot_drop_older(const char *directory, bw_index index);

#endif
