/* All limits in one place, each with its reason. */
#ifndef BW_CORE_BASE_LIMITS_H
#define BW_CORE_BASE_LIMITS_H

/* Members an elector knows. Every broadcast costs O(n) messages; a larger group should elect
 * through a store or a service. */
#define BW_ELECTOR_MEMBERS_MAX 16384u
/* Members a detector knows. Their positions fit into 16 bits in SWIM's tables, so that 10,000 x
 * 10,000 entries fit into memory. */
#define BW_DETECTOR_MEMBERS_MAX 65000u
/* Voters and learners of one Raft group. A larger majority costs more than the extra fault
 * tolerance is worth. */
#define BW_RAFT_MEMBERS_MAX 32u
/* Term changes kept in an uncompacted log. Each takes 16 bytes; compaction drops them. */
#define BW_RAFT_TERM_RUNS_MAX 256u
/* Term changes that one append may span. The bound gives the message a fixed size. */
#define BW_RAFT_APPEND_RUNS_MAX 4u
/* Appends in flight to one follower before the leader waits for a reply. */
#define BW_RAFT_INFLIGHT_MAX 64u
/* ReadIndex rounds in flight, and the requests that wait for them. */
#define BW_RAFT_READS_MAX 256u
/* Membership changes kept above the snapshot. */
#define BW_RAFT_CHANGES_MAX 64u
/* Waits for earlier leaders that one Raft message carries: two with a node id, and one for all
 * others. */
#define BW_RAFT_WAITS_MAX 3u
/* Successors that a leader names in advance. After more dead ones in a row, plain bully is
 * faster. */
#define BW_ALTERNATIVES_MAX 16u
/* Electors of one instance that share a detector: one for each shard (BW_SHARDS_MAX). */
#define BW_ELECTIONS_MAX 1024u
/* Bytes of a frame's variable part: a gossip table of 4,096 members, a ring list of 16,384 members,
 * or a snapshot chunk. */
#define BW_MESSAGE_DATA_MAX 65536u
/* Membership updates piggybacked on one SWIM message. They fit into a 1,400-byte datagram together
 * with the header. */
#define BW_SWIM_UPDATES_MAX 8u
/* Samples in a phi window (Hayashibara et al. use 1,000). */
#define BW_PHI_WINDOW_MAX 1000u
/* The longest lease, one year. A longer one is a typing error, and sums of a few such leases cannot
 * overflow 64-bit nanoseconds. */
#define BW_LEASE_TTL_MAX (INT64_C(365) * 86400 * 1000000000)
/* Keep-alives in flight on one connection. The holder sends one per third of the TTL, so after four
 * without a reply the lease has expired. */
#define BW_LEASE_UNANSWERED_MAX 4u
/* Shards of one election. Each shard a host leads takes a supervisor and a guardian, and a host can
 * run a few thousand processes. Use fewer, larger shards instead of more. */
#define BW_SHARDS_MAX 1024u
/* Candidates that shards are spread over. With at most BW_SHARDS_MAX shards, further candidates
 * would have nothing to lead. */
#define BW_SPREAD_CANDIDATES_MAX 1024u
/* Bytes of a config file and of one of its lines. A shell command for a hook fits; a disk image
 * passed by mistake is rejected. */
#define BW_CONFIG_FILE_MAX 65536u
#define BW_CONFIG_LINE_MAX 4096u

#endif
