/* One node of the replicated registry: Raft, its log on disk and in memory, its peers, and the
 * registry that the committed entries make. What the service's front asks, and what it is told.
 *
 * Everything happens on the loop's thread; the log has a thread for its disk. Proposals of one turn
 * of the loop become one batch: one append to each peer, one write, one sync. Nothing is answered
 * before it is committed and applied here; a read or a keep-alive is answered after one quorum
 * round that all who ask in the same turn share. A node that does not lead passes requests on to
 * the one that does, and answers from its own registry once it has caught up. */
#ifndef BW_SERVE_REPLICA_H
#define BW_SERVE_REPLICA_H

#include "core/registry/entry.h"
#include "core/registry/registry.h"
#include "core/replica/roster.h"
#include "core/replica/session.h"

#include <uv.h>

#define BW_REPLICA_WHY_MAX   511u
#define BW_REPLICA_HEARTBEAT (100 * BW_MS)
#define BW_REPLICA_TIMEOUT   (250 * BW_MS)

struct bw_replica;
struct bw_credentials;

enum bw_replica_end {
    BW_REPLICA_USELESS,   /* its data is gone, or it does not speak with the others */
    BW_REPLICA_FORGOTTEN, /* the others know this node, and its directory was empty */
    BW_REPLICA_REMOVED    /* it is no member any more: nothing is wrong */
};

struct bw_replica_options {
    uv_loop_t *loop;
    const char *directory; /* exists; locked while it is open */
    uint64_t cluster;
    bw_node self;
    const struct bw_replica_member *members; /* of the cluster's first start; the log knows more */
    uint32_t count;
    bool joins; /* self was added later: it is not among them, and waits to be fed */
    /* What this node says of itself once somebody leads: name, client's URL, and its address if
     * that is to change. */
    struct bw_replica_member publish;
    const char *listen_host; /* for its peers; NULL: where they reach it */
    uint16_t listen_port;
    struct bw_credentials *credentials; /* of nodes among each other; NULL: in the clear */
    bw_time heartbeat_ns,
        timeout_ns; /* 0: 100 ms; 250 ms: a silent leader is found within twice that */
    struct bw_registry_config registry;
    void *context;
    /* Our request's entry was applied: what came of it, valid for the call. */
    void (*applied)(void *context, uint64_t request, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results);
    /* A read may be served from the registry now; a keep-alive gave `ttl_ns` (0: no such lease); so
     * much is left of a lease (-1: no such lease); a change of members was made to this number. */
    void (*answered)(void *context, uint64_t request, bw_time ttl_ns);
    /* BW_ENOTLEADER: nobody leads, certainly not done. BW_ELOST: the leader changed, it may have
     * been done. BW_ETIMEDOUT: no answer in time, likewise. */
    void (*failed)(void *context, uint64_t request, int error);
    /* Keys may have changed: look for watchers with news. `restored`: all of it was replaced. */
    void (*changed)(void *context, bool restored);
    /* Who leads, the term or the membership changed. */
    void (*led)(void *context);
    /* It can take no part, for good: the line says why and what to do. Close it. */
    void (*ended)(void *context, enum bw_replica_end end, const char *why);
};

/* Returns 0, or an error with a line in why[BW_REPLICA_WHY_MAX + 1]. */
int bw_replica_open(struct bw_replica **out, const struct bw_replica_options *options, char *why);
/* Hands leadership on if it has it, writes what is collected, lets go. `closed` comes from the
 * loop. */
void bw_replica_close(struct bw_replica *replica, void (*closed)(void *context));

/* Each returns the number of the request, answered exactly once by a hook, never from within the
 * call; 0: too many are under way. */
uint64_t bw_replica_propose(struct bw_replica *replica, const struct bw_entry *entry);
uint64_t bw_replica_read(struct bw_replica *replica);
uint64_t bw_replica_keep_alive(struct bw_replica *replica, int64_t lease);
uint64_t bw_replica_left(struct bw_replica *replica, int64_t lease);
/* Nobody waits for it any more. */
void bw_replica_forget(struct bw_replica *replica, uint64_t id);

struct bw_registry *bw_replica_registry(struct bw_replica *replica);

struct bw_replica_status {
    bw_node self, leader;
    bool leading;
    bw_term term;
    bw_index commit, applied, last;
    uint64_t leader_changes, proposals, proposals_failed;
    uint64_t log_bytes; /* on disk */
    uint32_t level;     /* the version that all members speak: what it brought may be used */
    uint32_t life;      /* of this node, as the log tells; 0: it does not yet */
};

void bw_replica_status(const struct bw_replica *replica, struct bw_replica_status *out);
/* Does Raft run? Before that a node has promised nothing. */
bool bw_replica_has_started(const struct bw_replica *replica);
/* May clients be served here? Not by a learner, nor by one who is no member yet. */
bool bw_replica_is_voter(const struct bw_replica *replica);
/* Members as they are now; returns how many, *voters of them first. */
uint32_t bw_replica_members(const struct bw_replica *replica, struct bw_replica_member *out,
                            uint32_t *voters);
/* A copy of the process writes a snapshot (snapshot_file.h) of what is applied to *fd and ends,
 * with 0 if it is whole. The caller reads, closes and waits for *pid. Returns 0 or BW_EIO. */
int bw_replica_backup(struct bw_replica *replica, int *fd, pid_t *pid);
/* Only at the leader; `failed` or, when it was done, `answered` tells. 0 as above. */
uint64_t bw_replica_transfer(struct bw_replica *replica, bw_node to);
/* `answered` tells that it was made, and the member's number. `failed`: as above, or BW_EBUSY:
 * another change is not complete; BW_ENOQUORUM: too few would be left; BW_ENOTMEMBER; BW_EINVAL: it
 * votes already; BW_ESTALE: it has not caught up; BW_ELIMIT: too many members. 0 as above. */
uint64_t bw_replica_change(struct bw_replica *replica, const struct bw_member_change *change);

#endif
