/* Snapshots as files of a directory. A file with a snapshot's name is always complete.
 *
 *   snapshot-INDEX (16 hexadecimal digits)
 *   8 "BWSNAP\0\2", 8 cluster, 8 index, 8 term, 4 voters, 4 members, 4 each member up to 32
 *   4 length, the members' names and addresses (member_list.h); version 1 had neither
 *   the registry (core/registry/snapshot.h)
 *   8 checksum of everything before it
 *
 * A backup consists of: a snapshot; zeros up to a multiple of 512; a block of 512 bytes that begins
 * with "BWBACKUP" and the snapshot's length in 8 bytes; 32 bytes of SHA-256 over all of it. */
#ifndef BW_SERVE_REPLICA_SNAPSHOT_FILE_H
#define BW_SERVE_REPLICA_SNAPSHOT_FILE_H

#include "core/base/limits.h"
#include "core/registry/registry.h"
#include "serve/replica/replica.h"

/* Unfinished snapshots: written by this node, and received from the leader. */
#define BW_SNAPSHOT_NEXT     "snapshot-next.tmp"
#define BW_SNAPSHOT_INCOMING "snapshot-incoming.tmp"
#define BW_SNAPSHOT_HEAD     (40u + 4u * BW_RAFT_MEMBERS_MAX)

struct bw_snapshot_head {
    uint64_t cluster;
    bw_index index; /* 0: no snapshot */
    bw_term term;
    uint32_t voters, members; /* voters first */
    bw_node member[BW_RAFT_MEMBERS_MAX];
    struct bw_member_list member_list; /* empty: file of version 1 */
};

void bw_snapshot_name(char *path, size_t size, const char *directory, bw_index index);
/* Durable when it returns 0; else returns BW_EIO. */
int bw_snapshot_write(const char *directory, const struct bw_snapshot_head *head,
                      struct bw_registry *registry);
/* Writes a backup to a pipe, without the SHA-256 at its end, which the reader adds. Returns 0 or
 * BW_EIO. Like bw_snapshot_write it may be called in a forked copy of a process with threads. */
int bw_snapshot_stream(int fd, const struct bw_snapshot_head *head, struct bw_registry *registry);
/* Copies a snapshot into a directory of another cluster. It keeps the registry, index and term;
 * `head` supplies everything else. Durable when it returns 0; errors as below. */
int bw_snapshot_adopt(const char *path, const char *directory, struct bw_snapshot_head *head,
                      char *why);
/* Loads the newest snapshot into a newly initialized registry; head->index is 0 if there is none.
 * Returns 0, BW_EDAMAGED, BW_EDENIED (another cluster), BW_EVERSION, BW_ELIMIT or BW_EIO (the
 * directory or the file cannot be opened) with the reason in `why`. */
int bw_snapshot_read(const char *directory, uint64_t cluster, struct bw_snapshot_head *head,
                     struct bw_registry *registry, char *why);
/* The same with the snapshot of this name; cluster 0 matches any. May be called on any thread. */
int bw_snapshot_load(const char *path, uint64_t cluster, struct bw_snapshot_head *head,
                     struct bw_registry *registry, char *why);
/* Checks only the head and checksum of a file; cluster 0 matches any. */
int bw_snapshot_check(const char *path, uint64_t cluster, struct bw_snapshot_head *head, char *why);
/* Removes the snapshots below `index`. The snapshot `index` and its name must be durable. */
void bw_snapshot_drop_older(const char *directory, bw_index index);

#endif
