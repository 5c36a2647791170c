/* What a node of the replicated registry decides between its clients, its peers, Raft and the
 * registry: which request goes where, what is answered and when, which leases are over. Pure: the
 * replica runs it on a real loop, the simulator in virtual time.
 *
 *   session.c        requests: numbers, passing on to whoever leads, batches and rounds, answers
 *   session_apply.c  committed entries into the registry; who leads; leases that are over
 *
 * Model: one thread. Hooks carry out what was decided; a hook may ask for more, or forget requests.
 * A message between nodes may be lost, late, twice or reordered.
 *
 * Guarantees: a request of this node is answered once, by `applied`, `answered` or `failed`, unless
 * it is forgotten. A proposal is answered when its entry is applied here; a read after a quorum
 * round that began after it was asked, once what was committed then is applied here; a renewal
 * after such a round at the node that leads. BW_ENOTLEADER means certainly not done. */
#ifndef BW_SERVE_SESSION_H
#define BW_SERVE_SESSION_H

#include "core/base/action.h"
#include "core/registry/entry.h"
#include "core/registry/registry.h"

/* Requests unanswered at one time, and bytes of proposals not yet applied: beyond it new ones are
 * refused (BW_EBUSY), so that what is under way still ends in time. */
#define BW_REPLICA_REQUESTS_MAX 65536u
#define BW_REPLICA_RENEWALS     8192u /* of them, for keep-alives alone */
#define BW_REPLICA_BYTES_MAX    ((size_t)64 << 20)
#define BW_SESSION_HEAD         8u  /* an entry's bytes begin with the number of its request */
#define BW_SESSION_NODE         48u /* whose number it is: bits above this */
#define BW_SESSION_PATIENCE     (5 * BW_SEC)
#define BW_SESSION_SWEEP        (200 * BW_MS)
#define BW_SESSION_STALL        (500 * BW_MS)

enum bw_replica_kind {
    BW_REPLICA_PROPOSAL,
    BW_REPLICA_READ,
    BW_REPLICA_KEEP_ALIVE,
    BW_REPLICA_LEFT,
    BW_REPLICA_CHANGE, /* of the members */
    BW_REPLICA_KINDS
};

enum bw_request_state {
    BW_REQUEST_NEW,    /* waits for somebody who leads */
    BW_REQUEST_PASSED, /* with the node that leads */
    BW_REQUEST_LOGGED, /* proposal: in a batch, or in our log */
    BW_REQUEST_ROUND,  /* read, keep-alive: waits for a quorum round */
    BW_REQUEST_INDEX   /* read: waits until `index` is applied here */
};

struct bw_request {
    uint64_t id;
    enum bw_replica_kind kind;
    enum bw_request_state state;
    bool transfer;                      /* of the lead */
    bool revokes;                       /* our own, of a lease that is over */
    bw_node origin;                     /* who must be told: us, or the node that passed it on */
    struct bw_request *chain;           /* same bucket */
    struct bw_request *next, *previous; /* all, oldest first */
    struct bw_request *with;            /* the next of the same round or batch */
    bw_time since;
    bw_index index;
    int64_t lease;
    uint32_t length; /* of a proposal */
    unsigned char *bytes;
};

struct bw_request_group { /* requests that share a step of Raft */
    uint64_t id;          /* what Raft knows them by */
    uint32_t count;
    struct bw_request *first, **end;
    struct bw_request_group *next;
};

struct bw_session_hooks {
    void *context;
    bw_time (*now)(void *context);
    /* Memory for a request or a group; NULL: the request is refused. */
    void *(*take)(void *context, size_t bytes);
    void (*give)(void *context, void *block);
    /* To another node, for its bw_session_asked or bw_session_told. False: no way there now. */
    bool (*ask)(void *context, bw_node to, const unsigned char *head, size_t head_length,
                const unsigned char *rest, size_t length);
    bool (*tell)(void *context, bw_node to, const unsigned char *bytes, size_t length);
    /* A step of Raft, with all that follows from it. */
    void (*command)(void *context, const struct bw_command *command);
    /* At the node that leads: a change of the members is to be made (bw_session_fail, _log, or a
     * command of its number, with its state LOGGED). NULL: there are none. */
    void (*change)(void *context, struct bw_request *request);
    /* Something was collected: bw_session_flush before this turn ends. */
    void (*turn)(void *context);
    /* As in replica.h. */
    void (*applied)(void *context, uint64_t request, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results);
    void (*answered)(void *context, uint64_t request, bw_time ttl_ns);
    void (*failed)(void *context, uint64_t request, int error);
};

struct bw_session { /* the caller's memory; set up by init, then read only */
    struct bw_session_hooks hooks;
    bw_node self, leader;
    bool leading;
    struct bw_registry *registry; /* set by the caller, also when it is loaded anew */
    struct bw_entry_room *room;   /* the caller's */
    struct bw_results results;    /* the arrays are the caller's */
    bw_index applied;             /* set by the caller with a registry that was loaded */
    bw_time last_turn;            /* when the node last ran */
    bw_time stall_ns; /* one that did not run for so long heard no keep-alives; set by the caller,
                         longer than a heartbeat */
    bool agreed;      /* every member understands entries up to BW_REGISTRY_LEVEL */
    bool nudge;       /* another node waits to hear that its proposal is committed */
    uint64_t next_request, next_group;
    uint32_t requests, indexed; /* of them, reads that wait for an index */
    size_t request_bytes;
    struct bw_request **buckets; /* the caller's, all NULL; a power of two */
    uint32_t bucket_count;
    struct bw_request *first, *last;
    bool unplaced;                          /* a change waits for the end of the turn */
    struct bw_request_group *batch, *round; /* of this turn */
    struct bw_request_group *rounds;        /* with Raft */
    struct bw_request_group *proposed;      /* being stepped */
    uint64_t proposals, proposals_failed;
};

/* `seed`: any number, another one in each life of the node. The log holds requests of an earlier
 * life, and an entry of it that is applied after a restart must not pass for the answer to a new
 * request. */
void bw_session_init(struct bw_session *session, bw_node self, uint64_t seed,
                     const struct bw_session_hooks *hooks, struct bw_request **buckets,
                     uint32_t bucket_count);
/* Ends all requests without a word. */
void bw_session_clear(struct bw_session *session);

/* Each returns the number of the request, answered once by a hook, never from within the call; 0:
 * too many are under way. A proposal is put together in `scratch`. */
uint64_t bw_session_propose(struct bw_session *session, const struct bw_entry *entry,
                            unsigned char *scratch, size_t size);
uint64_t bw_session_ask(struct bw_session *session, enum bw_replica_kind kind, int64_t lease);
/* A transfer, at the leader only; the request's number is filled in. */
uint64_t bw_session_transfer(struct bw_session *session, struct bw_command *command);
/* A change of the members, as bytes of an entry behind its head. `origin`: us, or BW_NODE_NONE if
 * nobody is to be told. */
uint64_t bw_session_change(struct bw_session *session, const unsigned char *bytes, size_t length,
                           bw_node origin);
void bw_session_forget(struct bw_session *session, uint64_t id);

/* Is every member known to understand what this version writes? Then who leads raises the level. */
void bw_session_agree(struct bw_session *session, bool agreed);

/* From other nodes. */
void bw_session_asked(struct bw_session *session, bw_node from, const unsigned char *bytes,
                      size_t length);
void bw_session_told(struct bw_session *session, bw_node from, const unsigned char *bytes,
                     size_t length);

/* From Raft. */
void bw_session_answer(struct bw_session *session, const struct bw_answer *told);
/* Is this the number of a round of reads and renewals that Raft has not answered yet? */
bool bw_session_is_round(const struct bw_session *session, uint64_t id);
/* The proposals of the batch that Raft is appending, in order; NULL: not one of ours. */
const struct bw_request *bw_session_batch(const struct bw_session *session, uint64_t id);
void bw_session_led(struct bw_session *session, bw_node leader);
/* What was with the node that leads is unknown; the rest is placed anew: also when a connection to
 * it is back. */
void bw_session_place(struct bw_session *session);
/* The entry behind `applied` is committed: its bytes, or none of Raft's own. False: it changes
 * nothing that anybody could see. */
bool bw_session_apply(struct bw_session *session, const unsigned char *bytes, size_t length);
/* Entries were applied: reads may be served. */
void bw_session_reads(struct bw_session *session);
/* A snapshot replaced the registry: what was passed on may be part of it, and nobody will ever
 * tell.
 */
void bw_session_restored(struct bw_session *session);

/* At the end of each turn: what came in it goes to Raft, renewals and reads as one round, then
 * proposals as one batch. */
void bw_session_flush(struct bw_session *session);
/* Every BW_SESSION_SWEEP while there are requests: gives up what waited too long. */
void bw_session_sweep(struct bw_session *session);
/* When bw_session_expire is worth calling; NEVER at a node that does not lead. */
bw_time bw_session_deadline(const struct bw_session *session);
/* Proposes the end of leases that are over. `scratch` holds one entry. */
void bw_session_expire(struct bw_session *session, unsigned char *scratch, size_t size);

/* Of a change: it is refused; it goes into this turn's batch; its entry was applied. */
void bw_session_fail(struct bw_session *session, struct bw_request *request, int error);
void bw_session_log(struct bw_session *session, struct bw_request *request);
void bw_session_done(struct bw_session *session, uint64_t id, bw_time value);

/* session.c, for session_apply.c */
struct bw_request *bw_session_find(const struct bw_session *session, uint64_t id);
void bw_session_end(struct bw_session *session, struct bw_request *request);
/* session_apply.c: it runs; true: after so long that all leases count anew. */
bool bw_session_stalled(struct bw_session *session);

#endif
