/* One node of the replicated registry: Raft, its log on disk and in memory, its peers, and the
 * registry that results from the committed entries. This is the interface for the service.
 *
 * Model. Everything runs on the loop's thread; the write-ahead log has its own thread for the disk.
 * Proposals of one turn of the loop form one batch: one append to each peer, one write, one sync.
 *
 * Guarantees. A change is answered after it is committed and applied on this node. A read or a
 * keep-alive is answered after a quorum round (Raft dissertation §6.4, ReadIndex); all requests of
 * one turn share the round. A follower forwards requests to the leader, and answers from its own
 * registry once it has caught up. */
#ifndef BW_SERVE_REPLICA_REPLICA_H
#define BW_SERVE_REPLICA_REPLICA_H

#include "core/registry/entry.h"
#include "core/registry/registry.h"
#include "core/replica/member_list.h"
#include "core/replica/request_router.h"
#include "os/histogram.h"

#include <uv.h>

#define BW_REPLICA_WHY_MAX   511u
#define BW_REPLICA_HEARTBEAT (100 * BW_MS)
#define BW_REPLICA_TIMEOUT   (250 * BW_MS) /* a silent leader is suspected within twice this */

struct bw_replica;
struct bw_credentials;

enum bw_replica_end {
    BW_REPLICA_UNUSABLE,  /* its data is unusable, or its protocol version is incompatible */
    BW_REPLICA_DATA_LOST, /* the others know this node, but its directory was empty */
    BW_REPLICA_REMOVED    /* this node is no longer a member, which is not an error */
};

struct bw_replica_options {
    uv_loop_t *loop;
    const char *directory; /* must exist; locked while the replica is open */
    uint64_t cluster;
    bw_node self;
    /* members at the first start; later members are in the log */
    const struct bw_replica_member *members;
    uint32_t count;
    bool joins; /* self was added later: it is not among `members` and waits for the leader's log */
    /* What this node publishes about itself once there is a leader: its name, its client URL, and
     * its peer address if that changes. */
    struct bw_replica_member publish;
    const char *listen_host; /* peer listener; NULL: the published address */
    uint16_t listen_port;
    struct bw_credentials *credentials; /* for connections between nodes; NULL: no TLS */
    bw_time heartbeat_ns, timeout_ns;   /* 0: BW_REPLICA_HEARTBEAT, BW_REPLICA_TIMEOUT */
    struct bw_registry_config registry;
    void *context;
    /* The entry of our request was applied. The results are valid during the call. */
    void (*applied)(void *context, uint64_t request, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results);
    /* The request was successful. `ttl_ns` by kind of request: read: unused, the registry may be
     * read now; keep-alive: the granted TTL (0: no such lease); left: the remaining time (-1: no
     * such lease); membership change: the id of the member. */
    void (*answered)(void *context, uint64_t request, bw_time ttl_ns);
    /* The request failed. BW_ENOTLEADER: there is no leader, and it was not executed. BW_ELOST: the
     * leader changed, and it may have been executed. BW_ETIMEDOUT: no answer in time, and it may
     * have been executed. */
    void (*failed)(void *context, uint64_t request, int error);
    /* Keys may have changed: notify the watchers. `restored`: the whole content was replaced. */
    void (*changed)(void *context, bool restored);
    /* The leader, the term or the membership changed. */
    void (*led)(void *context);
    /* The replica cannot take part any more. `why` gives the reason and what to do. Close it. */
    void (*ended)(void *context, enum bw_replica_end end, const char *why);
};

/* Returns 0, or an error with the reason in why[BW_REPLICA_WHY_MAX + 1]. */
int bw_replica_open(struct bw_replica **out, const struct bw_replica_options *options, char *why);
/* Transfers leadership if this node is the leader, writes the collected records, and closes. Calls
 * `closed` from the loop. */
void bw_replica_close(struct bw_replica *replica, void (*closed)(void *context));

/* These functions start a request and return its number, or 0 if too many requests are in progress.
 * One of the hooks `applied`, `answered` and `failed` reports the result exactly once, never from
 * within the call. */
uint64_t bw_replica_propose(struct bw_replica *replica, const struct bw_entry *entry);
uint64_t bw_replica_read(struct bw_replica *replica);
uint64_t bw_replica_keep_alive(struct bw_replica *replica, int64_t lease);
uint64_t bw_replica_left(struct bw_replica *replica, int64_t lease);
/* Forgets a request: no hook will report its result. */
void bw_replica_forget(struct bw_replica *replica, uint64_t id);

struct bw_registry *bw_replica_registry(struct bw_replica *replica);

struct bw_replica_status {
    bw_node self, leader;
    bool leading;
    bw_term term;
    bw_index commit, applied, last;
    uint64_t leader_changes, proposals, proposals_failed;
    uint64_t log_bytes;   /* on disk */
    uint32_t level;       /* protocol version that all members support; its features may be used */
    uint32_t incarnation; /* incarnation of this node according to the log; 0: not in the log yet */
};

struct bw_replica_peer_figures {
    bw_node node;
    uint64_t sent, received; /* bytes */
    uint64_t unsent;         /* messages that could not be sent */
    struct bw_histogram round_trips;
};

struct bw_replica_figures {      /* measured since the start of the process */
    struct bw_histogram syncs;   /* of the log */
    struct bw_histogram applies; /* of batches of committed entries to the registry */
    struct bw_replica_peer_figures peer[BW_REPLICA_NODES];
    uint32_t peers;
};

struct bw_replica_peer {
    bool connected;
    bw_index match;        /* at the leader: its log is durable up to here; 0: unknown */
    bw_time round_trip_ns; /* kernel's estimate; 0: unknown */
};

/* What this node knows about another node now. */
void bw_replica_peer(const struct bw_replica *replica, bw_node node, struct bw_replica_peer *out);
void bw_replica_figures(struct bw_replica *replica, struct bw_replica_figures *out);
void bw_replica_status(const struct bw_replica *replica, struct bw_replica_status *out);
/* Returns true once Raft runs. Before that a node has promised nothing. */
bool bw_replica_has_started(const struct bw_replica *replica);
/* Returns true if this node serves clients. Learners and nodes that are not members yet do not. */
bool bw_replica_is_voter(const struct bw_replica *replica);
/* The current members; returns their number. The first *voters of them are voters. */
uint32_t bw_replica_members(const struct bw_replica *replica, struct bw_replica_member *out,
                            uint32_t *voters);
/* Forks a copy of the process that writes a snapshot (snapshot_file.h) of the applied state to *fd.
 * It exits with 0 if the snapshot is complete. The caller reads, closes and waits for *pid. Returns
 * 0 or BW_EIO. */
int bw_replica_backup(struct bw_replica *replica, int *fd, pid_t *pid);
/* Transfers leadership to `to`; only on the leader. The result comes by the hook `answered` or
 * `failed`. Returns the number of the request, or 0 if too many requests are in progress. */
uint64_t bw_replica_transfer(struct bw_replica *replica, bw_node to);
/* Changes the membership. Calls the hook `answered` with the member's id, or `failed` with an error
 * of that hook or one of these:
 *   - BW_EBUSY: another change is in progress
 *   - BW_ENOQUORUM: too few reachable members would remain
 *   - BW_ENOTMEMBER: there is no such member
 *   - BW_EINVAL: the member is already a voter
 *   - BW_ESTALE: the member has not caught up
 *   - BW_ELIMIT: too many members
 * Returns the number of the request, or 0 if too many requests are in progress. */
uint64_t bw_replica_change(struct bw_replica *replica, const struct bw_member_change *change);

#endif
