/* What a peer must never forget, in its own directory.
 *
 *   lock       one process at a time
 *   identity   whose directory this is; written once, last
 *   elections  what was promised, per election: two slots, written in turn
 *   members    starts, founding, roster: replaced as a whole
 *
 * Every write is durable when the call returns, and torn by a crash it leaves what was there
 * before; the formats stand at the top of disk.c and slots.c. A directory of another node or
 * cluster, a copy (its identity has another inode) and a damaged one are refused with a sentence.
 *
 * Calls block: a record is a few hundred bytes and one fdatasync. Nothing is allocated after open.
 */
#ifndef BW_PEER_DISK_H
#define BW_PEER_DISK_H

#include "core/base/event.h"
#include "core/cluster/found.h"
#include "core/cluster/roster.h"
#include "core/elect/raft/raft.h"

#define BW_PEER_DISK_WHY_MAX 511u

/* Raft's log as it is: terms and membership changes; its entries have no bytes. */
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

/* Returns 0, or an error with a line in why[BW_PEER_DISK_WHY_MAX + 1]: BW_EBUSY (in use),
 * BW_EDAMAGED (not ours, copied, broken), BW_EIO, BW_ENOMEM. */
int bw_peer_disk_open(struct bw_peer_disk **out, const struct bw_peer_disk_options *options,
                      char *why);
void bw_peer_disk_close(struct bw_peer_disk *disk);

/* Drawn when the directory was made. */
uint64_t bw_peer_disk_id(const struct bw_peer_disk *disk);

/* As last written; all zero before that. */
const struct bw_peer_record *bw_peer_disk_record(const struct bw_peer_disk *disk,
                                                 uint32_t election);
/* 0 or BW_EIO: nothing is known of what is on the disk now; the process must end. */
int bw_peer_disk_write_record(struct bw_peer_disk *disk, uint32_t election,
                              const struct bw_peer_record *record);

/* The same in two steps, so that many records cost one sync: what was put is durable after it. */
int bw_peer_disk_put_record(struct bw_peer_disk *disk, uint32_t election,
                            const struct bw_peer_record *record);
int bw_peer_disk_sync(struct bw_peer_disk *disk);

/* What `members` held when it was opened; rows go into the roster. 0 also if it was never written;
 * BW_EDAMAGED. */
int bw_peer_disk_read_members(struct bw_peer_disk *disk, uint32_t *starts,
                              struct bw_peer_found_saved *found, struct bw_peer_roster *roster);
/* 0 or BW_EIO: what was there before still stands. */
int bw_peer_disk_write_members(struct bw_peer_disk *disk, uint32_t starts,
                               const struct bw_peer_found_saved *found,
                               const struct bw_peer_roster *roster);

/* slots.c: one slot as bytes, pure. Returns the bytes written. */
#define BW_PEER_SLOT_BYTES 8192u
size_t bw_peer_slot_encode(unsigned char out[BW_PEER_SLOT_BYTES], uint64_t directory,
                           uint32_t election, uint64_t sequence,
                           const struct bw_peer_record *record);
/* False: not a whole slot of this directory and election. */
bool bw_peer_slot_decode(const unsigned char in[BW_PEER_SLOT_BYTES], uint64_t directory,
                         uint32_t election, uint64_t *sequence, struct bw_peer_record *record);

#endif
