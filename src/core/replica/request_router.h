/* Routes requests between clients, peers, Raft and the registry of one node: where a request goes,
 * when and how it is answered, and which leases have expired.
 *
 *   request_router.c  requests: ids, forwarding to the leader, batches and rounds, answers
 *   request_apply.c   committed entries; leader changes; expired leases
 *
 * Model. One thread. Hooks carry out the decisions; a hook may submit or cancel requests. Messages
 * between nodes may be lost, delayed, duplicated or reordered. The functions are pure: the replica
 * calls them from its event loop, the simulator in virtual time.
 *
 * Guarantees:
 * - A request of this node is answered exactly once, through `applied`, `answered` or `failed`,
 *   unless it is cancelled.
 * - A proposal is answered when its entry is applied on this node.
 * - A read is answered after a quorum round that began after the read was requested, and after this
 *   node has applied everything that was committed then (Raft §8).
 * - A renewal is answered after such a round at the leader.
 * - BW_ENOTLEADER means that the request was certainly not executed. */
#ifndef BW_CORE_REPLICA_REQUEST_ROUTER_H
#define BW_CORE_REPLICA_REQUEST_ROUTER_H

#include "core/base/action.h"
#include "core/registry/entry.h"
#include "core/registry/registry.h"

/* Limits on unanswered requests, and on bytes of proposals not yet applied: those of this node, and
 * those of all other nodes. Beyond them new requests are refused (BW_EBUSY), so that the accepted
 * ones finish in time.
 *
 * Large proposals of this node's clients share a window: at most that many of their bytes are on
 * the way to the log. The others wait in a queue. So a small proposal waits for a few megabytes at
 * most, and the leader receives no more than the windows of all nodes. */
#define BW_REPLICA_REQUESTS_MAX 65536u
#define BW_REPLICA_RENEWALS     8192u /* reserved for keep-alives */
#define BW_REPLICA_BYTES_MAX    ((size_t)144 << 20)
#define BW_REPLICA_BYTES_SMALL  ((size_t)16 << 20) /* of them, reserved for small proposals */
#define BW_REPLICA_SMALL        32768u             /* a larger proposal uses the window */
#define BW_REPLICA_WINDOW       ((size_t)8 << 20)
#define BW_ROUTER_HEAD          8u  /* an entry's bytes begin with the id of its request */
#define BW_ROUTER_NODE_SHIFT    48u /* the bits of a request id above this one are the node's id */
#define BW_ROUTER_TIMEOUT       (5 * BW_SEC)
#define BW_ROUTER_SWEEP         (200 * BW_MS)
#define BW_ROUTER_STALL         (500 * BW_MS)

enum bw_replica_kind {
    BW_REPLICA_PROPOSAL,
    BW_REPLICA_READ,
    BW_REPLICA_KEEP_ALIVE,
    BW_REPLICA_LEFT,
    BW_REPLICA_CHANGE, /* a membership change */
    BW_REPLICA_KINDS
};

enum bw_request_state {
    BW_REQUEST_NEW,       /* waiting for a leader, or for the window */
    BW_REQUEST_FORWARDED, /* forwarded to the leader */
    BW_REQUEST_LOGGED,    /* proposal: in a batch, or in our log */
    BW_REQUEST_ROUND,     /* read, keep-alive: waiting for a quorum round */
    BW_REQUEST_INDEX      /* read: waiting until `index` is applied here */
};

struct bw_request {
    uint64_t id;
    enum bw_replica_kind kind;
    enum bw_request_state state;
    bool transfer;                      /* transfer of leadership */
    bool revokes;                       /* our own revocation of an expired lease */
    bool in_window;                     /* its bytes are counted in `window_bytes` */
    bw_node origin;                     /* receiver of the answer: this node, or the node that
                                         * forwarded the request */
    struct bw_request *chain;           /* next in the same bucket */
    struct bw_request *next, *previous; /* list of all requests, oldest first */
    struct bw_request_group *group;     /* its round or batch, or `waiting`; NULL: none */
    struct bw_request *with, **link;    /* next request of the group, and the pointer to this one */
    bw_time since;
    bw_index index;
    int64_t lease;
    uint32_t length; /* of a proposal */
    unsigned char *bytes;
};

struct bw_request_group { /* requests that share a step of Raft */
    uint64_t id;          /* the request id that Raft sees */
    uint32_t count;
    struct bw_request *first, **end;
    struct bw_request_group *next;
};

struct bw_router_hooks {
    void *context;
    bw_time (*now)(void *context);
    /* Allocates a request or a group; NULL: the request is refused. */
    void *(*take)(void *context, size_t bytes);
    void (*give)(void *context, void *block);
    /* Sends to another node, which passes the bytes to bw_router_receive_request or
     * bw_router_receive_reply. Returns false if the node is unreachable. */
    bool (*ask)(void *context, bw_node to, const unsigned char *head, size_t head_length,
                const unsigned char *rest, size_t length);
    bool (*notify)(void *context, bw_node to, const unsigned char *bytes, size_t length);
    /* Runs a step of Raft and all its effects. */
    void (*command)(void *context, const struct bw_command *command);
    /* At the leader: makes a change of the members. The hook calls bw_router_fail or
     * bw_router_log, or runs a command under the request's id and sets its state to LOGGED. NULL:
     * changes are not supported. */
    void (*change)(void *context, struct bw_request *request);
    /* Requests were collected: call bw_router_flush before this turn of the loop ends. */
    void (*turn)(void *context);
    /* As in replica.h. */
    void (*applied)(void *context, uint64_t request, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results);
    void (*answered)(void *context, uint64_t request, bw_time ttl_ns);
    void (*failed)(void *context, uint64_t request, int error);
};

struct bw_router { /* the caller's memory; set up by init, then read only */
    struct bw_router_hooks hooks;
    bw_node self, leader;
    bool leading;
    struct bw_registry *registry;     /* set by the caller, again after each load */
    struct bw_entry_scratch *scratch; /* scratch buffer to decode an entry; the caller's */
    struct bw_results results;        /* the arrays belong to the caller */
    bw_index applied;                 /* index of the last applied entry; the caller sets it when it
                                    * loads a registry */
    bw_time last_turn;                /* time of the last turn */
    bw_time stall_ns; /* a node that did not run for this long has missed keep-alives; set by the
                       * caller, longer than a heartbeat */
    bool agreed;      /* every member understands entries up to BW_REGISTRY_LEVEL */
    bool nudge;       /* another node waits to learn that its proposal is committed */
    uint64_t next_request, next_group;
    uint32_t requests;               /* number of requests */
    uint32_t indexed;                /* number of reads that wait for an index */
    size_t request_bytes;            /* of proposals of this node */
    size_t forwarded_bytes;          /* of proposals of other nodes */
    size_t window_bytes;             /* of large proposals that have left `waiting` */
    struct bw_request_group waiting; /* large proposals that wait for the window, oldest first; they
                                      * are not in the list of all requests */
    struct bw_request **buckets;     /* the caller's, all NULL; a power of two */
    uint32_t bucket_count;
    struct bw_request *first, *last;
    bool unplaced;                          /* a change of the members waits for the end of the
                                             * turn */
    struct bw_request_group *batch, *round; /* collected in this turn */
    struct bw_request_group *rounds;        /* handed to Raft */
    struct bw_request_group *proposed;      /* the batch that Raft is processing */
    uint64_t proposals, proposals_failed;
};

/* `seed` is any number that differs in each incarnation of the node. The log contains requests of
 * earlier incarnations, and such an entry must not be taken for the answer to a new request. */
void bw_router_init(struct bw_router *router, bw_node self, uint64_t seed,
                    const struct bw_router_hooks *hooks, struct bw_request **buckets,
                    uint32_t bucket_count);
/* Drops all requests without answering them. */
void bw_router_clear(struct bw_router *router);

/* Submit a request. Each returns the request's id, or 0 if too many requests are under way. A hook
 * answers the request once, never from within the call. `scratch` is the buffer for encoding the
 * proposal. */
uint64_t bw_router_propose(struct bw_router *router, const struct bw_entry *entry,
                           unsigned char *scratch, size_t size);
uint64_t bw_router_ask(struct bw_router *router, enum bw_replica_kind kind, int64_t lease);
/* Transfers leadership; at the leader only. Fills in the command's request id. */
uint64_t bw_router_transfer(struct bw_router *router, struct bw_command *command);
/* Submits a change of the members: the bytes of an entry without its request id. `origin` is this
 * node, or BW_NODE_NONE if no node receives the answer. */
uint64_t bw_router_change(struct bw_router *router, const unsigned char *bytes, size_t length,
                          bw_node origin);
void bw_router_cancel(struct bw_router *router, uint64_t id);

/* Reports whether every member is known to understand the entries of this version. The leader then
 * raises the registry's level. */
void bw_router_set_agreed(struct bw_router *router, bool agreed);

/* Messages from other nodes. */
void bw_router_receive_request(struct bw_router *router, bw_node from, const unsigned char *bytes,
                               size_t length);
void bw_router_receive_reply(struct bw_router *router, bw_node from, const unsigned char *bytes,
                             size_t length);

/* Raft's answer to a command. */
void bw_router_raft_answered(struct bw_router *router, const struct bw_answer *reply);
/* Whether `id` is a round of reads and renewals that Raft has not answered yet. */
bool bw_router_is_round(const struct bw_router *router, uint64_t id);
/* The first proposal of batch `id`, while Raft appends the batch; the others follow in `with`.
 * NULL: not a batch of this node. */
const struct bw_request *bw_router_batch(const struct bw_router *router, uint64_t id);
void bw_router_set_leader(struct bw_router *router, bw_node leader);
/* Call when the leader changes or the connection to it is restored. Forwarded proposals,
 * and logged ones of a lost leadership, fail with BW_ELOST: their outcome is unknown. All other
 * requests are routed again. */
void bw_router_reroute(struct bw_router *router);
/* Applies the committed entry after `applied`: its bytes, or none for an entry of Raft's own.
 * Returns false if the entry has no visible effect. */
bool bw_router_apply(struct bw_router *router, const unsigned char *bytes, size_t length);
/* Entries were applied: answers the reads that waited for them. */
void bw_router_serve_reads(struct bw_router *router);
/* A snapshot replaced the registry. It may contain forwarded proposals, which can no longer be
 * answered: their outcome is unknown. */
void bw_router_snapshot_installed(struct bw_router *router);

/* Call at the end of each turn. Sends the collected requests to Raft: first renewals and reads as
 * one round, then proposals as one batch. */
void bw_router_flush(struct bw_router *router);
/* Call every BW_ROUTER_SWEEP while requests exist: fails those that waited too long. */
void bw_router_sweep(struct bw_router *router);
/* The next time to call bw_router_expire; BW_TIME_NEVER unless this node is the leader. */
bw_time bw_router_deadline(const struct bw_router *router);
/* Proposes to revoke expired leases. `scratch` holds one entry. */
void bw_router_expire(struct bw_router *router, unsigned char *scratch, size_t size);

/* For changes of the members: refuse; add to this turn's batch; the entry was applied. */
void bw_router_fail(struct bw_router *router, struct bw_request *request, int error);
void bw_router_log(struct bw_router *router, struct bw_request *request);
void bw_router_complete(struct bw_router *router, uint64_t id, bw_time value);

/* request_router.c, for request_apply.c */
struct bw_request *bw_router_find(const struct bw_router *router, uint64_t id);
void bw_router_end(struct bw_router *router, struct bw_request *request);
/* request_apply.c: records that the loop runs. Returns true if it had paused longer than
 * stall_ns: all leases were restarted. */
bool bw_router_stalled(struct bw_router *router);

#endif
