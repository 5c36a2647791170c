/* The inside of a replica; nobody outside src/serve includes this.
 *
 *   replica.c           opening, recovering, closing, facts
 *   replica_step.c      Raft's steps and their actions; the turn of the loop
 *   replica_apply.c     committed entries into the registry; leases that are over
 *   replica_meet.c      the first meeting of a new cluster's nodes
 *   replica_request.c   proposals, reads and keep-alives, here and for other nodes
 *   replica_snapshot.c  the registry on disk, and on its way to another node */
#ifndef BW_SERVE_REPLICA_STATE_H
#define BW_SERVE_REPLICA_STATE_H

#include "base/action.h"
#include "elect/raft/raft.h"
#include "registry/snapshot.h"
#include "serve/log.h"
#include "serve/mesh.h"
#include "serve/replica.h"
#include "serve/wal.h"

#define REQUEST_BUCKETS  16384u /* a power of two */
#define REQUEST_HEAD     8u     /* an entry's bytes begin with the number of its request */
#define REQUEST_NODE     48u    /* whose number it is: bits above this */
#define REQUEST_PATIENCE (5 * BW_SEC)
#define HELD_MAX         65536u
#define REPLICA_DEPTH    4u /* steps that an action of a step may lead to */

enum request_state {
    REQUEST_NEW,    /* waits for somebody who leads */
    REQUEST_PASSED, /* with the node that leads */
    REQUEST_LOGGED, /* proposal: in a batch, or in our log */
    REQUEST_ROUND,  /* read, keep-alive: waits for a quorum round */
    REQUEST_INDEX   /* read: waits until `index` is applied here */
};

struct request {
    uint64_t id;
    enum bw_replica_kind kind;
    enum request_state state;
    bool change;                     /* a transfer or a membership change */
    bw_node origin;                  /* who must be told: us, or the node that passed it on */
    struct request *chain;           /* same bucket */
    struct request *next, *previous; /* all, oldest first */
    struct request *with;            /* the next of the same round or batch */
    bw_time since;
    bw_index index;
    int64_t lease;
    uint32_t length; /* of a proposal */
    unsigned char *bytes;
};

struct group {   /* requests that share a step of Raft */
    uint64_t id; /* what Raft knows them by */
    uint32_t count;
    struct request *first, **end;
    struct group *next;
};

struct meeting {           /* with another node, when a cluster begins (replica_meet.c) */
    uint64_t nonce, known; /* which process of it asks; which one we met */
    bool asked, welcomed;
};

struct mark { /* the log is durable up to here once this commit is */
    uint64_t commit;
    bw_index index;
    bw_term term;
};

struct held { /* an action that waits for a barrier */
    struct bw_action action;
    bw_node list[BW_RAFT_MEMBERS_MAX];
};

struct bw_replica {
    struct bw_replica_options options;
    int lock_fd;
    int recovery; /* what was found to be wrong while the log was read */
    uv_timer_t timer, sweeper;
    uv_check_t check;
    uv_idle_t turn; /* something to do although no socket spoke */
    bool closing;
    void (*closed)(void *context);
    uint32_t handles;

    void *raft;
    struct bw_action *actions; /* a list of actions_max for each depth */
    uint32_t actions_max, depth;
    bw_time armed_for;
    const unsigned char *payload; /* entries behind the message being stepped */
    bw_term term;
    bw_node leader;
    bool leading;
    uint64_t leader_changes, proposals, proposals_failed;

    struct bw_wal *wal;
    struct bw_log_store log;
    struct bw_durable durable;
    uint64_t durable_commit, barrier; /* actions wait until `barrier` is durable; 0: none */
    struct held *held;
    uint32_t held_first, held_count;
    struct mark marks[1024];
    uint32_t mark_first, mark_count;

    struct bw_mesh *mesh;
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t member_count;
    bool meeting; /* nothing is promised before all have met */
    uint64_t nonce;
    struct meeting met[BW_REPLICA_NODES];

    void *memory;
    size_t memory_bytes;
    struct bw_registry *registry;
    struct bw_entry_room *room;
    struct bw_results results;
    bw_index applied, commit;
    bw_term applied_term;
    bool changed; /* since watchers were last told */
    bool nudge;   /* another node waits to hear that its proposal is committed */
    bw_time last_turn;

    uint64_t next_request, next_group;
    uint32_t requests;
    size_t request_bytes;
    struct request **buckets;
    struct request *first, *last;
    struct group *batch, *round; /* of this turn */
    struct group *rounds;        /* with Raft */
    struct group *proposed;      /* being stepped */
    unsigned char *scratch;      /* entries of a message being put together */
    size_t scratch_size;

    bw_index snapshot_index;
    bw_term snapshot_term;
    uint32_t saved_voters, saved_members; /* as of the snapshot found at start */
    bw_node saved_member[BW_RAFT_MEMBERS_MAX];
    struct {    /* a snapshot on its way to us */
        int fd; /* -1: none */
        bw_node from;
        bw_index index;
        uint64_t size;
        bool whole;
    } incoming;
    pid_t saver; /* writes a snapshot; 0: nobody */
    bw_index saving_index;
    bw_term saving_term;
    uv_pipe_t saver_pipe;
    bool saver_pipe_open;
};

bw_time replica_now(void);

/* replica_step.c */
void replica_step(struct bw_replica *r, struct bw_event *event);
void replica_message(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_durable(struct bw_replica *r, uint64_t commit);
void replica_turn(struct bw_replica *r);
void replica_arm(struct bw_replica *r);
/* The log is durable up to here once what is collected now is. */
void replica_remember(struct bw_replica *r, bw_index index, bw_term term);
void replica_timer(uv_timer_t *timer);
void replica_check(uv_check_t *check);

/* replica.c */
void replica_release(struct bw_replica *r);
void replica_membership(struct bw_replica *r);
void replica_start(struct bw_replica *r);

/* replica_meet.c */
void replica_meet_begin(struct bw_replica *r, bool empty);
void replica_meet_opened(struct bw_replica *r, bw_node node);
void replica_meet_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                        size_t length);
void replica_meet_welcome(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                          size_t length);

/* replica_apply.c */
int replica_registry_make(struct bw_replica *r);
void replica_apply(struct bw_replica *r, bw_index until);
void replica_expire(struct bw_replica *r, bw_time now);

/* replica_request.c */
void replica_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_told(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_answer(struct bw_replica *r, const struct bw_answer *told);
void replica_flush(struct bw_replica *r);
void replica_led(struct bw_replica *r);
void replica_reads(struct bw_replica *r);
struct request *request_find(const struct bw_replica *r, uint64_t id);
void request_end(struct bw_replica *r, struct request *request);
void replica_revoke(struct bw_replica *r, int64_t lease);
/* The proposals of the batch that Raft is appending, in order. */
struct group *replica_batch(struct bw_replica *r, uint64_t id);

/* replica_snapshot.c */
int replica_snapshot_find(struct bw_replica *r, char *why);
void replica_snapshot_consider(struct bw_replica *r);
void replica_snapshot_stop(struct bw_replica *r);
void replica_snapshot_send(struct bw_replica *r, bw_node to);
void replica_snapshot_piece(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                            size_t length);
/* Is the snapshot that this message speaks of here, whole? */
bool replica_snapshot_ready(struct bw_replica *r, const struct bw_message *msg);
void replica_snapshot_install(struct bw_replica *r, bw_index index);

#endif
