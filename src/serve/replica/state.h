/* Internal state of a replica; only src/serve includes this.
 *
 *   replica.c            opening, recovery, closing, status
 *   step.c               steps of Raft and their actions; the turn of the loop
 *   startup_admission.c  a starting node waits until the others admit it
 *   apply.c              applies committed entries
 *   registry_memory.c    memory of the registry
 *   rejoin.c             refuses a node whose disk lost what it promised
 *   incarnation.c        numbers the starts of a directory, and refuses an old copy
 *   bootstrap.c          the nodes of a new cluster confirm that all are new
 *   member.c             membership changes
 *   request.c            carries out what the router (request_router.h) decides about requests
 *   measure.c            figures for /metrics
 *   snapshot.c           writes the registry to disk
 *   snapshot_receive.c   receives a snapshot from the leader
 *   snapshot_send.c      sends a snapshot to another node
 *   send.c               sends messages of Raft: heartbeats at once, entries within a window
 *   snapshot_remove.c    removes files that a newer snapshot replaces
 *   durable_barrier.c    holds back messages until the disk has what they follow from */
#ifndef BW_SERVE_REPLICA_STATE_H
#define BW_SERVE_REPLICA_STATE_H

#include "core/base/action.h"
#include "core/base/codec.h"
#include "core/detect/silence.h"
#include "core/elect/raft/raft.h"
#include "core/registry/snapshot.h"
#include "core/replica/append_window.h"
#include "core/replica/member_list.h"
#include "core/replica/membership.h"
#include "core/replica/request_router.h"
#include "os/crash.h"
#include "serve/mesh/mesh.h"
#include "serve/replica/memory_log.h"
#include "serve/replica/replica.h"
#include "serve/replica/snapshot_file.h"
#include "serve/wal/wal.h"

#define REQUEST_BUCKETS 16384u /* a power of two */
/* Messages and answers that wait for the disk. Raft repeats a message that does not fit. */
#define HELD_MAX BW_CRASH_OR(4096u, 64u)
/* Maximum number of entries in one append. */
#define REPLICA_BATCH_MAX 1024u
/* Turns that a follower's timers wait for messages that have arrived: enough for all entries that a
 * leader sends without an acknowledgement. */
#define POSTPONED_MAX 16u
#define REPLICA_DEPTH 4u /* nested steps: an action of a step may cause another step */

struct peer_record { /* what this node knows about another node (bootstrap.c, rejoin.c) */
    bw_node node;
    /* random number of the node's directory: as it last sent it, and as we confirmed it */
    uint64_t nonce, known;
    bool asked, confirmed;
    bw_term highest_term; /* highest term it sent (rejoin.c) */
    struct bw_peer_check check;
    bool reported; /* this process has reported its durable state to it */
};

struct feed { /* a snapshot that is sent to a node (snapshot_send.c) */
    bw_node node;
    bool sending, sent;
    int fd;
    bw_index index;
    uint64_t at;
    uint32_t asked; /* requests since it was sent completely */
};

struct outgoing { /* appends to a node (send.c) */
    bw_node node;
    struct bw_append_window window;
};

struct bw_registry_memory { /* a registry and its memory (registry_memory.c) */
    struct bw_registry *registry;
    void *at;
    size_t bytes; /* 0: none */
};

struct incoming { /* a snapshot from the leader (snapshot_receive.c) */
    int fd;       /* -1: none */
    bw_node from;
    bw_index index;
    uint64_t size;
    /* a pool thread checks and loads it; it is complete, durable and undamaged */
    bool checking, good;
    uv_work_t work;
    bool found; /* result of the check */
    struct bw_snapshot_head head;
    struct bw_registry_memory loaded;        /* its content; none if it could not be loaded */
    unsigned char message[BW_FRAME_MAX + 4]; /* Raft message that waits for it */
    size_t message_length;
};

struct remover { /* snapshot_remove.c */
    uv_work_t work;
    bool running, again; /* a pool thread removes; start it again afterwards */
    bw_index below;      /* snapshots below this index are removed */
    uint64_t after;      /* commit that makes the newest snapshot's name durable; 0: it is */
};

struct mark { /* the log is durable up to `index` once `commit` is */
    uint64_t commit;
    bw_index index;
    bw_term term;
};

struct held { /* a message or an answer that waits for a barrier (durable_barrier.c) */
    struct bw_action action;
    bw_node list[BW_RAFT_MEMBERS_MAX];
};

struct bw_replica {
    struct bw_replica_options options;
    int lock_fd;
    int recovery; /* error found while the log was read */
    /* the entries read from the log do not follow on from the snapshot */
    bool diverged;
    bool snapshot_recorded;    /* the log read from disk names the snapshot */
    struct bw_silence silence; /* detects a silent leader */
    uv_timer_t timer, sweeper;
    uv_timer_t start_timer; /* startup_admission.c: limits the wait; bootstrap.c: first election */
    uint32_t first_campaigns;
    uv_check_t check;
    uv_idle_t turn; /* keeps the loop awake for pending work */
    bool closing;
    void (*closed)(void *context);
    uint32_t handles;

    void *raft;
    struct bw_action *actions; /* a list of actions_max for each depth */
    uint32_t actions_max, depth;
    bw_time armed_for;
    bool timer_due;               /* the timer has expired; the end of this turn handles it */
    uint32_t postponed;           /* turns since then (must_read_first) */
    const unsigned char *payload; /* entries that follow the message being stepped */
    bw_term term;
    uint64_t leader_changes;

    struct bw_wal *wal;
    struct bw_log_store log;
    struct bw_durable durable;
    /* commit that is durable; commit that actions wait for (0: none) */
    uint64_t durable_commit, barrier;
    bw_time disk_since, disk_timeout; /* since when a write is pending; 0: none is */
    struct held *held;
    uint32_t held_first, held_count;
    struct bw_announcement announcement; /* held announcement that this node is the leader */
    bool announcement_held;
    bw_index commit_held; /* held commit: entries are committed up to this index; 0: none */
    struct mark marks[1024];
    uint32_t mark_first, mark_count;

    struct bw_mesh *mesh;
    struct bw_membership members; /* names, addresses, versions */
    bool resync;                  /* the set of peers to connect to may have changed */
    bool voter;                   /* according to the latest configuration in the log */
    bool removed;                 /* the removal was reported */
    bw_time promote_at;           /* when to check the learners again */
    uint64_t publishing;          /* the request that publishes this node's data */
    uint64_t incarnation_read;    /* read that the leader must answer */
    bool incarnation_writing,
        incarnation_written; /* a pool thread writes the incarnation; it succeeded */
    bool incarnation_warned; /* the failure to write it was reported */
    uv_work_t incarnation_work;
    bw_term found_term; /* on disk when the log was opened */
    bw_index found_index;
    bool started, admitted; /* Raft runs; a majority admitted this node (startup_admission.c) */
    bw_node incompatible;   /* last node whose protocol version did not match */
    bool bootstrapping;     /* promise nothing until all nodes have confirmed each other */
    uint64_t nonce;
    struct peer_record peers[BW_REPLICA_NODES];

    struct bw_registry_memory memory;
    struct bw_router router; /* registry, requests, leader */
    bw_index commit;
    bw_term applied_term;
    bool changed;           /* keys changed since the watchers were last notified */
    unsigned char *scratch; /* entries of a message being assembled */
    size_t scratch_size;

    bw_index snapshot_index;
    bw_term snapshot_term;
    size_t snapshot_bytes;                /* size of its file */
    uint32_t saved_voters, saved_members; /* as of the snapshot found at start */
    bw_node saved_member[BW_RAFT_MEMBERS_MAX];
    struct incoming incoming;
    struct remover remover;
    struct feed feeds[BW_REPLICA_NODES];
    struct outgoing outgoing[BW_REPLICA_NODES];
    pid_t saver; /* process that writes a snapshot; 0: none */
    bw_index saving_index;
    bw_index saved_index; /* of a durable snapshot that has not replaced the log yet; 0: none */
    bw_term saving_term;
    bw_time save_not_before;
    uv_pipe_t saver_pipe;
    bool saver_pipe_open;
    struct bw_histogram applies;
    struct bw_replica_peer_figures figures[BW_REPLICA_NODES];
    uint64_t measure_at; /* next time to measure, on the loop's clock */
    /* bytes of all entries that were added or dropped so far, at the last measurement and when
     * memory was last returned */
    uint64_t measured, trimmed;
};

/* step.c */
void replica_step(struct bw_replica *r, struct bw_event *event);
/* Carries out an action that others can observe: a message, an answer, an announcement, a
 * commit. */
void replica_carry_out(struct bw_replica *r, const struct bw_action *action);
void replica_message(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_durable(struct bw_replica *r, uint64_t commit);
/* Sends the heartbeats of a leader if they are due. A turn of the loop that handles megabytes may
 * take longer than a heartbeat if the CPU is busy, so this is called before each frame and each
 * proposal. It never ends a leadership: messages that prove a quorum may still be unread. */
void replica_beat(struct bw_replica *r);
void replica_turn(struct bw_replica *r);
void replica_arm(struct bw_replica *r);
/* Remembers that the log is durable up to `index` once the records collected so far are durable. */
void replica_remember(struct bw_replica *r, bw_index index, bw_term term);
void replica_timer(uv_timer_t *timer);
void replica_check(uv_check_t *check);

/* send.c: sends a message of Raft. */
void replica_send(struct bw_replica *r, const struct bw_message *msg);
/* The node acknowledged entries: sends those that waited for it. */
void replica_send_more(struct bw_replica *r, bw_node to);
/* The connection to the node ended: the appends on their way are lost. */
void replica_send_lost(struct bw_replica *r, bw_node to);
/* The leadership ended: no append is sent any more. */
void replica_send_stop(struct bw_replica *r);

/* durable_barrier.c: carries out the action now, or when the barrier is durable. */
void replica_act_when_durable(struct bw_replica *r, const struct bw_action *action);
/* Carries out the held actions whose barrier is durable. */
void replica_held_release(struct bw_replica *r);

/* replica.c */
void replica_release(struct bw_replica *r);
void replica_start(struct bw_replica *r);

/* startup_admission.c */
void replica_admit_begin(struct bw_replica *r);
void replica_admit_opened(struct bw_replica *r);
void replica_admit_refused(struct bw_replica *r, bw_node node, enum bw_mesh_verdict verdict);

/* incarnation.c */
/* Returns BW_ESTALE if this directory was refused earlier, else 0. */
int replica_incarnation_allowed(struct bw_replica *r, char *why);
void replica_incarnation_refused(struct bw_replica *r);
/* Call after the log was read. */
int replica_incarnation_begin(struct bw_replica *r, char *why);
/* Returns true if this incarnation may be published in the log. Otherwise starts what is missing
 * and calls replica_publish when it is done. */
bool replica_incarnation_may_publish(struct bw_replica *r);
/* A read was answered or failed. Returns true if it was the one of this file. */
bool replica_incarnation_answered(struct bw_replica *r, uint64_t request, bool good);

/* rejoin.c */
void replica_rejoin_opened(struct bw_replica *r, bw_node node);
/* A connection from this node is accepted; it reports after that. */
void replica_rejoin_accepted(struct bw_replica *r, bw_node from);
void replica_rejoin_closed(struct bw_replica *r, bw_node node);
/* Explains what to do with a directory that lost what it promised. */
void replica_rejoin_explain(const struct bw_replica *r, char *why);
void replica_rejoin_note(struct bw_replica *r, const struct bw_message *msg);
bool replica_rejoin_is_refused(struct bw_replica *r, bw_node node);
/* This node's own disk lost what it promised: ends the replica. */
void replica_rejoin_end(struct bw_replica *r);
void replica_rejoin_received(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                             size_t length);

/* bootstrap.c */
/* Returns the length of a file in our directory; -1: no such file. */
ssize_t replica_file_read(const struct bw_replica *r, const char *name, unsigned char *bytes,
                          size_t size);
/* Writes a file completely before it gets its name; durable when it returns true. */
bool replica_file_write(const struct bw_replica *r, const char *name, const unsigned char *bytes,
                        size_t length);
/* Finds or creates the record of a node. NULL: too many nodes. */
struct peer_record *replica_peer(struct bw_replica *r, bw_node node);
int replica_bootstrap_begin(struct bw_replica *r, bool empty, char *why);
void replica_bootstrap_opened(struct bw_replica *r, bw_node node);
void replica_bootstrap_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                             size_t length);
void replica_bootstrap_confirmed(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                                 size_t length);

/* member.c */
void replica_roster_learn(struct bw_replica *r, const struct bw_log_entry *entry);
void replica_roster_rebuild(struct bw_replica *r);
void replica_mesh_sync(struct bw_replica *r);
/* Updates the version that every member has confirmed in the log. */
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
void replica_apply(struct bw_replica *r, bw_index until);

/* registry_memory.c */
/* Makes an empty registry. Returns 0, BW_EINVAL or BW_ENOMEM. Sets `why` if a limit of the system
 * is the cause. */
int bw_registry_memory_make(struct bw_registry_memory *memory,
                            const struct bw_registry_config *config, char *why);
void bw_registry_memory_drop(struct bw_registry_memory *memory);
/* Replaces the registry of the replica with an empty one. Errors as above. */
int replica_registry_make(struct bw_replica *r, char *why);
/* Drops a registry on a pool thread: a gigabyte takes long. */
void replica_registry_drop(struct bw_replica *r, struct bw_registry_memory *memory);
/* Returns memory of dropped versions to the system: a bounded amount now, the rest in later
 * turns. */
void replica_release_memory(struct bw_replica *r);

/* request.c */
int replica_session_init(struct bw_replica *r);
void replica_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length);
void replica_expire(struct bw_replica *r);
void replica_keep_sweeping(struct bw_replica *r);

/* measure.c */
void replica_measure_received(struct bw_replica *r, bw_node from, size_t length);
/* Returns free memory of the heap to the system when large changes are over. */
void replica_return_memory(struct bw_replica *r);
/* Called once per turn of the loop. */
void replica_measure(struct bw_replica *r);

/* snapshot.c */
int replica_snapshot_find(struct bw_replica *r, char *why);
/* The registry was loaded from the snapshot with this head, which is in its place. */
void replica_snapshot_adopt(struct bw_replica *r, const struct bw_snapshot_head *head);
void replica_snapshot_consider(struct bw_replica *r);
/* Drops the entries that the last snapshot covers, unless a follower still needs them. Called once
 * per turn of the loop. */
void replica_compact_when_possible(struct bw_replica *r);
void replica_snapshot_stop(struct bw_replica *r);
/* snapshot_send.c */
/* Begins to send the snapshot to a node, unless a transfer to it is in progress. */
void replica_snapshot_send(struct bw_replica *r, bw_node to);
/* Sends more pieces of all transfers; called once per turn of the loop. */
void replica_feed(struct bw_replica *r);
/* Ends all transfers. */
void replica_feed_stop(struct bw_replica *r);

/* snapshot_remove.c */
/* Removes what the snapshot `snapshot_index` replaces, once its name is durable. */
void replica_remove_old(struct bw_replica *r);
/* The records collected now make the name of the newest snapshot durable. */
void replica_remove_when_durable(struct bw_replica *r);
void replica_remove_durable(struct bw_replica *r, uint64_t commit);
/* Drops the snapshot that is being received. No pool thread may use it. */
void replica_remove_incoming(struct bw_replica *r);
/* At start. Opening the log has made the name of the newest snapshot durable. */
void replica_remove_leftovers(struct bw_replica *r);

/* snapshot_receive.c */
/* Closes the file of the snapshot that is being received and drops its content. No pool thread may
 * use it. */
void replica_incoming_forget(struct bw_replica *r);
/* Drops a snapshot that is no longer needed: its entries arrived in another way. */
void replica_snapshot_expire(struct bw_replica *r);
void replica_snapshot_piece(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                            size_t length);
/* Returns true if the snapshot that this message announces is complete and durable. */
bool replica_snapshot_ready(const struct bw_replica *r, const struct bw_message *msg);
/* Keeps the message until its snapshot is ready, and then passes it to Raft. */
void replica_snapshot_defer(struct bw_replica *r, const struct bw_message *msg,
                            const unsigned char *bytes, size_t length);
void replica_snapshot_install(struct bw_replica *r, bw_index index);

#endif
