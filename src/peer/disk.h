/* Durable state of a peer, in its own directory.
 *
 *   lock       allows one process at a time
 *   identity   owner of the directory; written once, last
 *   elections  promises per election: two slots, written alternately
 *   members    starts, founding and roster: replaced as a whole
 *
 * Guarantees:
 * - A write is durable when its function returns.
 * - A crash during a write leaves the previous state. disk.c and disk_record.c describe the
 *   formats.
 * - bw_peer_disk_open rejects the directory of another node or cluster, a copy (whose identity file
 *   has another inode) and a damaged directory, and explains why.
 *
 * Calls block: a record is a few hundred bytes and one fdatasync. After bw_peer_disk_open, nothing
 * is allocated. */
#ifndef BW_PEER_DISK_H
#define BW_PEER_DISK_H

#include "core/base/event.h"
#include "core/elect/raft/raft.h"
#include "core/peer/founding.h"
#include "core/peer/roster.h"

#define BW_PEER_DISK_WHY_MAX 511u

/* Raft's log: terms and membership changes. Its entries carry no data. */
struct bw_peer_log {
    bw_index snapshot_index;
    bw_term snapshot_term;
    uint32_t voters, learners;
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t runs_count;
    struct bw_term_run runs[BW_RAFT_TERM_RUNS_MAX];
    uint32_t changes_count;
    struct bw_raft_change changes[BW_RAFT_CHANGES_MAX];
};

struct bw_peer_record {
    struct bw_durable durable;
    struct bw_peer_log log;
};

struct bw_peer_disk;

struct bw_peer_disk_options {
    const char *directory;
    bw_node self;
    const char *cluster;
    uint32_t elections;
};

/* Opens the directory. Returns 0, or an error with a line in why[BW_PEER_DISK_WHY_MAX + 1]:
 * BW_EBUSY (in use), BW_EDAMAGED (not ours, copied, damaged), BW_EIO, BW_ENOMEM. */
int bw_peer_disk_open(struct bw_peer_disk **out, const struct bw_peer_disk_options *options,
                      char *why);
void bw_peer_disk_close(struct bw_peer_disk *disk);

/* Random id of the directory, chosen at its creation. */
uint64_t bw_peer_disk_id(const struct bw_peer_disk *disk);

/* The record as last written; all zero before the first write. */
const struct bw_peer_record *bw_peer_disk_record(const struct bw_peer_disk *disk,
                                                 uint32_t election);
/* Writes a record and makes it durable. Returns 0 or BW_EIO. After BW_EIO the state on the disk is
 * unknown, and the process must end. */
int bw_peer_disk_write_record(struct bw_peer_disk *disk, uint32_t election,
                              const struct bw_peer_record *record);

/* Write records in two steps, so that many of them need only one sync: records written by
 * bw_peer_disk_put_record are durable after bw_peer_disk_sync returned 0. */
int bw_peer_disk_put_record(struct bw_peer_disk *disk, uint32_t election,
                            const struct bw_peer_record *record);
int bw_peer_disk_sync(struct bw_peer_disk *disk);

/* Reads `members` as it was at open; rows go into the roster. Returns 0, also if the file was never
 * written; or BW_EDAMAGED. */
int bw_peer_disk_read_members(struct bw_peer_disk *disk, uint32_t *starts,
                              struct bw_peer_found_saved *found, struct bw_peer_roster *roster);
/* Replaces the file `members`. Returns 0, or BW_EIO; then the previous file is unchanged. */
int bw_peer_disk_write_members(struct bw_peer_disk *disk, uint32_t starts,
                               const struct bw_peer_found_saved *found,
                               const struct bw_peer_roster *roster);

/* disk_record.c: encodes one slot; pure. Returns the number of bytes. */
#define BW_PEER_SLOT_BYTES 8192u
size_t bw_peer_slot_encode(unsigned char out[BW_PEER_SLOT_BYTES], uint64_t directory,
                           uint32_t election, uint64_t sequence,
                           const struct bw_peer_record *record);
/* disk_record.c: decodes one slot. Returns false if it is not a complete slot of this directory and
 * election. */
bool bw_peer_slot_decode(const unsigned char in[BW_PEER_SLOT_BYTES], uint64_t directory,
                         uint32_t election, uint64_t *sequence, struct bw_peer_record *record);

#endif
