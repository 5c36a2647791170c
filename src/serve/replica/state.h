/* The inside of a replica; nobody outside src/serve includes this.
 *
 *   replica.c           opening, recovering, closing, facts
 *   step.c      Raft's steps and their actions; the turn of the loop
 *   admit.c     a node that starts, and whether the others let it in
 *   apply.c     the registry's memory; committed entries into it
 *   back.c      a node that comes back with less than it promised
 *   life.c      which life of its directory a node lives, and whether it may
 *   meet.c      the first meeting of a new cluster's nodes
 *   member.c    members that come and go
 *   request.c   requests: what the session (session.h) decides is carried out
 *   snapshot.c  the registry on disk
 *   incoming.c  and on its way from another node
 *   feed.c      and to another node
 *   held.c      what must not be heard before the disk has what it follows from */
#ifndef BW_SERVE_REPLICA_STATE_H
#define BW_SERVE_REPLICA_STATE_H

#include "core/base/action.h"
#include "core/base/codec.h"
#include "core/detect/silence.h"
#include "core/elect/raft/raft.h"
#include "core/registry/snapshot.h"
#include "core/replica/membership.h"
#include "core/replica/roster.h"
#include "core/replica/session.h"
#include "serve/crash.h"
#include "serve/mesh/mesh.h"
#include "serve/replica/log.h"
#include "serve/replica/replica.h"
#include "serve/replica/snapshot_file.h"
#include "serve/wal/wal.h"

#define REQUEST_BUCKETS 16384u /* a power of two */
/* Messages and answers that wait for the disk. Raft repeats a message that does not fit. */
#define HELD_MAX      BW_CRASH_OR(4096u, 64u)
#define REPLICA_DEPTH 4u /* steps that an action of a step may lead to */

struct meeting { /* with another node, when a cluster begins (meet.c) */
    bw_node node;
    uint64_t nonce, known; /* of its directory, which asks; of the one we met */
    bool asked, welcomed;
    bw_term heard; /* the highest that it spoke in (back.c) */
    bool deaf;     /* to what it says: it forgot what it promised */
    bool spoken;   /* it was told in this life how far our disk is */
};

struct feed { /* a snapshot on its way to a node (feed.c) */
    bw_node node;
    bool sending, sent;
    int fd;
    bw_index index;
    uint64_t at;
    uint32_t asked; /* since it was sent */
};

struct incoming { /* a snapshot on its way to us (incoming.c) */
    int fd;       /* -1: none */
    bw_node from;
    bw_index index;
    uint64_t size;
    bool checking, good; /* the pool has it; it is whole, durable and undamaged */
    uv_work_t work;
    bool found; /* by the pool */
    struct bw_snapshot_head head;
    unsigned char message[BW_FRAME_MAX + 4]; /* of Raft, that waits for it */
    size_t message_length;
};

struct mark { /* the log is durable up to here once this commit is */
    uint64_t commit;
    bw_index index;
    bw_term term;
};

struct held { /* a message or an answer that waits for a barrier (held.c) */
    struct bw_action action;
    bw_node list[BW_RAFT_MEMBERS_MAX];
};

struct bw_replica {
    struct bw_replica_options options;
    int lock_fd;
    int recovery;              /* what was found to be wrong while the log was read */
    bool strays;               /* what is read continues something else than the snapshot */
    struct bw_silence silence; /* of the leader */
    uv_timer_t timer, sweeper;
    uv_timer_t hurry; /* admit.c, or a new cluster's first election: meet.c */
    uint32_t hurried;
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
    uint64_t leader_changes;

    struct bw_wal *wal;
    struct bw_log_store log;
    struct bw_durable durable;
    uint64_t durable_commit, barrier;  /* actions wait until `barrier` is durable; 0: none */
    bw_time disk_since, disk_patience; /* since when the disk owes us something; 0: it does not */
    struct held *held;
    uint32_t held_first, held_count;
    struct bw_announcement lead; /* held: this node leads */
    bool lead_held;
    bw_index commit_held; /* held: committed up to here; 0: nothing */
    struct mark marks[1024];
    uint32_t mark_first, mark_count;

    struct bw_mesh *mesh;
    struct bw_membership members; /* who they are */
    bool resync;                  /* who is connected to may have changed */
    bool voter;                   /* of the log as it stands */
    bool removed;                 /* it was told that it is no member any more */
    bw_time promote_at;           /* learners are looked at again */
    uint64_t publishing;          /* the request that says who this is */
    uint64_t life_asked;          /* a read: does whoever leads hear us? (life.c) */
    bool life_keeping, life_kept; /* the pool writes which life this is; it did */
    bool life_silent;             /* it was told that this cannot be written */
    uv_work_t life_work;
    bw_term found_term; /* what was on the disk when it was opened */
    bw_index found_index;
    bool started, admitted; /* Raft runs; a majority let it in (admit.c) */
    bw_node misfit;         /* who last spoke no version of ours */
    bool meeting;           /* nothing is promised before all have met */
    uint64_t nonce;
    struct meeting met[BW_REPLICA_NODES];

    void *memory;
    size_t memory_bytes;
    struct bw_session session; /* the registry, requests, who leads */
    bw_index commit;
    bw_term applied_term;
    bool changed;           /* since watchers were last told */
    unsigned char *scratch; /* entries of a message being put together */
    size_t scratch_size;

    bw_index snapshot_index;
    bw_term snapshot_term;
    uint32_t saved_voters, saved_members; /* as of the snapshot found at start */
    bw_node saved_member[BW_RAFT_MEMBERS_MAX];
    struct incoming incoming;
    struct feed feeds[BW_REPLICA_NODES];
    pid_t saver; /* writes a snapshot; 0: nobody */
    bw_index saving_index;
    bw_term saving_term;
    bw_time save_not_before;
    uv_pipe_t saver_pipe;
    bool saver_pipe_open;
};

bw_time replica_now(void);

/* step.c */
void replica_step(struct bw_replica *r, struct bw_event *event);
/* An action that others can notice: a message, an answer, an announcement, a commit. */
void replica_carry_out(struct bw_replica *r, const struct bw_action *action);
void replica_message(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_durable(struct bw_replica *r, uint64_t commit);
void replica_turn(struct bw_replica *r);
void replica_arm(struct bw_replica *r);
/* The log is durable up to here once what is collected now is. */
void replica_remember(struct bw_replica *r, bw_index index, bw_term term);
void replica_timer(uv_timer_t *timer);
void replica_check(uv_check_t *check);

/* held.c: carries the action out, now or when the barrier is durable. */
void replica_say(struct bw_replica *r, const struct bw_action *action);
/* The barrier may be durable now. */
void replica_held_release(struct bw_replica *r);

/* replica.c */
void replica_release(struct bw_replica *r);
void replica_start(struct bw_replica *r);

/* admit.c */
void replica_admit_begin(struct bw_replica *r);
void replica_admit_opened(struct bw_replica *r);
void replica_admit_refused(struct bw_replica *r, bw_node node, enum bw_mesh_verdict verdict);

/* life.c */
/* Was this directory refused already? 0 or BW_ESTALE. */
int replica_life_allowed(struct bw_replica *r, char *why);
void replica_life_refused(struct bw_replica *r);
/* The log was read. */
int replica_life_begin(struct bw_replica *r, char *why);
/* May it be said in the log which life this is? If not, what is missing is begun, and
 * replica_publish called when it is there. */
bool replica_life_may_say(struct bw_replica *r);
/* A read was answered, or failed; true: it was ours. */
bool replica_life_answered(struct bw_replica *r, uint64_t request, bool good);

/* back.c */
void replica_back_opened(struct bw_replica *r, bw_node node);
void replica_back_closed(struct bw_replica *r, bw_node node);
/* What to say of a directory that forgot. */
void replica_back_explain(const struct bw_replica *r, char *why);
void replica_back_note(struct bw_replica *r, const struct bw_message *msg);
bool replica_back_is_deaf(struct bw_replica *r, bw_node node);
/* This node is the one that forgot. */
void replica_back_end(struct bw_replica *r);
void replica_back_heard(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                        size_t length);

/* meet.c */
/* Length of a file in our directory, -1: there is none. */
ssize_t replica_file_read(const struct bw_replica *r, const char *name, unsigned char *bytes,
                          size_t size);
/* Under its name only when it is whole; durable when it returns true. */
bool replica_file_write(const struct bw_replica *r, const char *name, const unsigned char *bytes,
                        size_t length);
/* NULL: there are too many. */
struct meeting *replica_meeting_with(struct bw_replica *r, bw_node node);
int replica_meet_begin(struct bw_replica *r, bool empty, char *why);
void replica_meet_opened(struct bw_replica *r, bw_node node);
void replica_meet_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                        size_t length);
void replica_meet_welcome(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                          size_t length);

/* member.c */
void replica_roster_learn(struct bw_replica *r, const struct bw_log_entry *entry);
void replica_roster_rebuild(struct bw_replica *r);
void replica_mesh_sync(struct bw_replica *r);
/* Has every member said in the log that it understands what this version writes? */
void replica_agree(struct bw_replica *r);
enum bw_mesh_verdict replica_judge(struct bw_replica *r, const struct bw_replica_member *from);
enum bw_mesh_verdict replica_joins(struct bw_replica *r, const char *host, uint16_t port,
                                   bw_node *id, unsigned char *out, size_t *length);
void replica_refused(struct bw_replica *r, bw_node node, enum bw_mesh_verdict verdict);
void replica_removed(struct bw_replica *r);
void replica_change_try(struct bw_replica *r, struct bw_request *request);
void replica_promote_ready(struct bw_replica *r);
void replica_publish(struct bw_replica *r);
bool replica_is_member_entry(const struct bw_log_entry *entry);
void replica_member_applied(struct bw_replica *r, const struct bw_log_entry *entry);

/* apply.c */
int replica_registry_make(struct bw_replica *r);
void replica_apply(struct bw_replica *r, bw_index until);

/* request.c */
int replica_session_init(struct bw_replica *r);
void replica_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_expire(struct bw_replica *r);
void replica_keep_sweeping(struct bw_replica *r);

/* snapshot.c */
int replica_snapshot_find(struct bw_replica *r, char *why);
void replica_snapshot_consider(struct bw_replica *r);
void replica_snapshot_stop(struct bw_replica *r);
/* feed.c: begins, or goes on; once per turn of the loop; ends all. */
void replica_snapshot_send(struct bw_replica *r, bw_node to);
void replica_feed(struct bw_replica *r);
void replica_feed_stop(struct bw_replica *r);

/* incoming.c */
void replica_snapshot_piece(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                            size_t length);
/* Is the snapshot that this message speaks of here, whole and durable? */
bool replica_snapshot_ready(const struct bw_replica *r, const struct bw_message *msg);
/* It is not yet: the message, as it came, is taken up again when it is. */
void replica_snapshot_defer(struct bw_replica *r, const struct bw_message *msg,
                            const unsigned char *bytes, size_t length);
void replica_snapshot_install(struct bw_replica *r, bw_index index);

#endif
