/* Every bound in one place, with why. */
#ifndef BW_BASE_LIMITS_H
#define BW_BASE_LIMITS_H

/* Members an elector knows. Elections among more than this want a store or a service; every
 * broadcast is O(n). */
#define BW_ELECTOR_MEMBERS_MAX 16384u
/* Members a detector knows: ids fit 16 bits inside SWIM's tables, which keeps 10,000 x 10,000
 * entries in memory. */
#define BW_DETECTOR_MEMBERS_MAX 65000u
/* Voters and learners of one Raft group: majorities beyond this cost more than they protect. */
#define BW_RAFT_MEMBERS_MAX 32u
/* Term changes kept in an uncompacted log: each takes 16 bytes; compaction drops them. */
#define BW_RAFT_TERM_RUNS_MAX 256u
/* Term changes one append may span, so that the message has a fixed size. */
#define BW_RAFT_APPEND_RUNS_MAX 4u
/* Appends in flight to one follower before it must answer. */
#define BW_RAFT_INFLIGHT_MAX 64u
/* ReadIndex rounds and their waiters in flight. */
#define BW_RAFT_READS_MAX 256u
/* Membership changes kept above the snapshot. */
#define BW_RAFT_CHANGES_MAX 64u
/* Waits for earlier leaders that one Raft message carries: two by name, and one for all others. */
#define BW_RAFT_WAITS_MAX 3u
/* Successors a leader names beforehand: beyond a few dead ones in a row plain bully is quicker. */
#define BW_ALTERNATIVES_MAX 16u
/* Electors of one instance that share a detector: one for each of the most shards there may be. */
#define BW_ELECTIONS_MAX 1024u
/* Bytes of a frame's variable part: a gossip table of 4,096 members, a list ring of 16,384, a
 * snapshot chunk. */
#define BW_MESSAGE_DATA_MAX 65536u
/* Membership news piggybacked on one SWIM message: fits a 1,400-byte datagram with room for a
 * header. */
#define BW_SWIM_UPDATES_MAX 8u
/* Samples in a phi window (Hayashibara et al. use 1,000). */
#define BW_PHI_WINDOW_MAX 1000u
/* The longest lease, a year: longer is a typing error, and sums of a few of them stay far from the
 * end of 64-bit nanoseconds. */
#define BW_LEASE_TTL_MAX (INT64_C(365) * 86400 * 1000000000)
/* Keep-alives in flight on one connection: at a third of the TTL each, more than four unanswered
 * means that the lease is over. */
#define BW_LEASE_UNANSWERED_MAX 4u
/* Shards of one election: each one led takes a supervisor and a guardian, and a host has room for a
 * few thousand processes; more shards than this want fewer, larger ones. */
#define BW_SHARDS_MAX 1024u
/* Candidates that shards are spread over: more than there can be shards have nothing to do. */
#define BW_SPREAD_CANDIDATES_MAX 1024u
/* A config file and a line of it: a shell line for a hook fits, a disk image given by mistake does
 * not. */
#define BW_CONFIG_FILE_MAX 65536u
#define BW_CONFIG_LINE_MAX 4096u

#endif
