/* Internal state of the ZooKeeper store: sessions, elections, candidates of this process, and
 * requests in progress.
 *
 *   store.c        URL, sessions, dispatch of requests
 *   end_session.c  closes an abandoned session
 *   request.c      requests: waiting for a connection, answering; elections and their watches
 *   view.c         reads the tree and derives the record
 *   entry.c        a candidate's node: create, find again, remove
 *   ops.c          ACQUIRE, RENEW, RELEASE
 *   other_ops.c    READ, WATCH, LIST, NOTE, ENTER, LEAVE
 *   election_names.c  ELECTIONS */
#ifndef BW_STORE_ZOOKEEPER_STATE_H
#define BW_STORE_ZOOKEEPER_STATE_H

#include "store/kit/job.h"
#include "store/kit/record.h"
#include "store/kit/url.h"
#include "store/zookeeper/client.h"
#include "store/zookeeper/names.h"

/* Each lease length needs its own session; a process typically uses one or two. */
#define BW_ZK_SESSIONS_MAX 8u
/* Elections kept in memory while no request refers to them. */
#define BW_ZK_ELECTIONS_MAX 4096u
/* Candidates of one election that LIST returns, in queue order. */
#define BW_ZK_LIST_MAX 4096u
/* Attempts per request, when a compare fails or a node disappears. */
#define BW_ZK_TRIES_MAX 8u
#define BW_ZK_BUCKETS   1024u

struct bw_zk_op;
struct bw_zk_view;

struct bw_zk_ops {
    struct bw_zk_op *first, *last;
};

/* What a watch belongs to: an election, for observers, or one waiting candidate. */
struct bw_zk_target {
    uint64_t number;
    struct bw_zk_target *chain;
    struct bw_zk_ops watches; /* pending WATCH requests */
    uint64_t fired;           /* number of times the watches fired */
};

struct bw_zk_session {
    struct bw_zk_client client;
    struct bw_zk_client old; /* resumes an abandoned session to close it */
    bool ending_old;         /* `old` is open or closing */
    struct bw_store *store;
    struct bw_zk_entry *entries;
    struct bw_zk_ops waiting; /* requests that wait for a connection */
};

/* A candidate of this process and its node in the queue. */
struct bw_zk_entry {
    struct bw_zk_entry *next;            /* in the election's list */
    struct bw_zk_entry *next_in_session; /* in the session's list */
    struct bw_zk_election *election;
    struct bw_zk_session *session;
    struct bw_zk_target target;
    struct bw_zk_ops waiting; /* requests that wait for the node */
    unsigned uses;            /* requests that refer to this entry */
    char id[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1];
    int32_t priority;
    char guid[BW_ZK_GUID_MAX + 1];
    char node[BW_ZK_NODE_MAX + 1]; /* "": no node known */
    int64_t czxid;
    bool creating; /* being created or searched */
    bool tried;    /* a create was sent without reply: the node may exist */
    bool left;     /* the candidate has left; freed once its node is gone */
    bool removing;
    bool leads;                     /* the record names this candidate as leader */
    struct bw_store_record *record; /* if it leads: the record as written by this process */
    int32_t record_version;
    /* the last change of the record is not confirmed: it may be missing on the server */
    bool dirty;
    uint64_t requested_at, ttl_ms; /* the entry is removed if no request comes for too long */
    unsigned tries;
    /* The view that a watch read when this node became the first in the queue, for the next
     * acquire. A node stays first, and the write compares everything else. NULL: none. */
    struct bw_zk_view *turn;
};

struct bw_zk_election {
    struct bw_zk_election *chain;
    struct bw_store *store;
    struct bw_zk_target target;
    struct bw_zk_entry *entries;
    unsigned uses; /* requests that refer to this election */
    char name[BW_ELECTION_NAME_MAX + 1];
    struct bw_zk_paths paths;
    /* The first node in the queue as last read, and its candidate's id. The name of a node is never
     * reused. */
    char first[BW_ZK_NODE_MAX + 1], first_id[BW_CANDIDATE_ID_MAX + 1];
    int64_t first_czxid;
    /* The last foreign leader and the highest token that this process has seen. */
    char foreign_leader[BW_CANDIDATE_ID_MAX + 1];
    int64_t foreign_czxid;
    bw_token highest;
};

/* The contents of the tree. */
struct bw_zk_view {
    bool other_recipe; /* the path has nodes of the other recipe */
    bool has_first, has_before, own_found, own_first;
    struct bw_zk_node first, before; /* before: the node in front of ours */
    struct bw_zk_node *nodes;        /* all nodes; sorted for LIST */
    unsigned count;
    int64_t first_czxid;
    char first_id[BW_CANDIDATE_ID_MAX + 1];
    bool has_record, has_note, has_wakeup, damaged;
    struct bw_store_record record;
    struct bw_note note;
    int32_t record_version, note_version;
    int64_t record_mzxid, note_mzxid;
};

/* A request in progress.
 *
 * Invariants:
 *   - An op is in at most one list.
 *   - While it is in a list, it has no call pending at a server. */
struct bw_zk_op {
    struct bw_store *store;
    struct bw_zk_session *session;
    struct bw_zk_election *election;
    struct bw_zk_entry *entry; /* counted in `uses`; may be NULL */
    struct bw_job *job;        /* NULL: the caller no longer waits for the answer */
    struct bw_zk_ops *list;
    struct bw_zk_op *next, *previous;
    void (*start)(struct bw_zk_op *op); /* runs the request from its first step */
    void (*then)(struct bw_zk_op *op);  /* called when all calls of a step have a reply */
    void (*viewed)(struct bw_zk_op *op);
    void (*placed)(struct bw_zk_op *op);
    unsigned waits, tries;
    int rc;
    bool wrote;                  /* a call was sent that may have changed the store */
    bool wrote_record;           /* that call included the record */
    bool fresh;                  /* follows a watch that fired: no sync needed */
    uint64_t since;              /* start of waiting for a connection, uv_now() */
    struct bw_zk_target *target; /* WATCH: owner of the watches */
    bool watch_all;     /* WATCH: watch everything, not only the predecessor and the wake-up node */
    bool first_watched; /* WATCH: watches are set for the first in the queue */
    uint64_t fired;     /* WATCH: target->fired when the read began */
    struct bw_candidate *candidates;
    struct bw_election_name *names; /* ELECTIONS: ours, sorted, then those of foreign clients */
    uint32_t name_count, own_names;
    struct bw_zk_view view;
};

struct bw_store {
    uv_loop_t *loop;
    struct bw_jobs jobs;
    struct bw_url url;
    char base[BW_ZK_BASE_MAX + 1];
    enum bw_zk_recipe recipe;
    char auth[700];
    const struct ACL_vector *acl;
    struct ACL_vector own_acl;
    struct ACL acls[2];
    struct bw_zk_session *sessions[BW_ZK_SESSIONS_MAX];
    unsigned session_count, closing;
    bool base_made; /* the parent of all elections exists */
    struct bw_zk_election *elections[BW_ZK_BUCKETS];
    unsigned election_count;
    struct bw_zk_target *targets[BW_ZK_BUCKETS];
    uint64_t next_target;
};

/* end_session.c */
void bw_zk_end_old_session(struct bw_zk_session *session);
/* The store closes and stops this work too. `closed` is called for each session. */
void bw_zk_end_old_session_stop(struct bw_zk_session *session,
                                void (*closed)(struct bw_zk_client *client));

/* request.c */
struct bw_zk_election *bw_zk_election(struct bw_store *store, const char *name);
void bw_zk_elections_free(struct bw_store *store);
void bw_zk_target_add(struct bw_store *store, struct bw_zk_target *target);
void bw_zk_target_remove(struct bw_store *store, struct bw_zk_target *target);
void bw_zk_ops_add(struct bw_zk_ops *list, struct bw_zk_op *op);
void bw_zk_ops_remove(struct bw_zk_op *op);
/* Returns NULL if memory is exhausted. */
struct bw_zk_op *bw_zk_op_new(struct bw_zk_session *session, struct bw_zk_election *election,
                              struct bw_job *job);
void bw_zk_op_use(struct bw_zk_op *op, struct bw_zk_entry *entry);
/* Starts the op, or queues it until the connection is ready. */
void bw_zk_op_start(struct bw_zk_op *op);
/* Restarts the op after a failed compare; fails it after BW_ZK_TRIES_MAX attempts. */
void bw_zk_op_again(struct bw_zk_op *op);
/* These answer the request and free the op. */
void bw_zk_op_done(struct bw_zk_op *op);
void bw_zk_op_refuse(struct bw_zk_op *op, int error, const char *why);
void bw_zk_op_fail(struct bw_zk_op *op, int error, const char *why);
void bw_zk_op_list(struct bw_zk_op *op, uint32_t count);
void bw_zk_op_elections(struct bw_zk_op *op);
/* Handles the library's error code. If the connection was lost and the op has changed nothing, it
 * waits for the next connection; otherwise it fails. */
void bw_zk_op_broken(struct bw_zk_op *op, int rc);
void bw_zk_op_free(struct bw_zk_op *op);
/* Takes the return code of a call: counts a pending call, or stores the error. */
void bw_zk_op_called(struct bw_zk_op *op, int rc);
/* A reply arrived; after the last one `then` is called. */
void bw_zk_op_replied(struct bw_zk_op *op);
void bw_zk_forget(struct bw_job *job);
/* bw_zk_waiting_start: the connection is ready. bw_zk_waiting_expire: it is not, and requests that
 * waited too long fail. */
void bw_zk_waiting_start(struct bw_zk_session *session);
void bw_zk_waiting_expire(struct bw_zk_session *session);
void bw_zk_watches_fire(struct bw_store *store, uint64_t number);
/* Watches are lost with the connection: all WATCH requests of the session read again. */
void bw_zk_watches_renew(struct bw_zk_session *session);

/* view.c */
/* Reads the whole tree, and sets watches if the op has a target. Then calls `viewed`, unless the op
 * fails. */
void bw_zk_read_tree(struct bw_zk_op *op, void (*viewed)(struct bw_zk_op *op));
/* Reads record and note only, after a write of the same step. */
void bw_zk_read_record(struct bw_zk_op *op);
/* Derives the record as the requesting candidate or observer sees it. */
void bw_zk_view_record(const struct bw_zk_op *op, struct bw_store_record *record);
/* Derives the record that an acquisition starts from: the last leadership, not held. */
void bw_zk_view_base(const struct bw_zk_op *op, struct bw_store_record *record);

/* entry.c */
struct bw_zk_entry *bw_zk_entry_find(const struct bw_zk_election *election, const char *id);
struct bw_zk_entry *bw_zk_entry_make(struct bw_zk_session *session, struct bw_zk_election *election,
                                     const char *id);
/* Ensures that the node exists, then calls `placed`; or fails the op. */
void bw_zk_entry_place(struct bw_zk_op *op, void (*placed)(struct bw_zk_op *op));
void bw_zk_entry_path(const struct bw_zk_entry *entry, char path[BW_ZK_PATH_MAX + 1]);
/* Stores value and priority, for LIST. */
void bw_zk_entry_describe(struct bw_zk_entry *entry);
/* The node no longer exists. The next one is created at the end of the queue. */
void bw_zk_entry_lost(struct bw_zk_entry *entry);
/* The candidate leaves. `has_node`: its node exists and is removed. */
void bw_zk_entry_leave(struct bw_zk_entry *entry, bool has_node);
void bw_zk_entry_free_if_left(struct bw_zk_entry *entry);
/* A write was rejected with op->rc. Creates missing parent nodes and restarts the op. */
void bw_zk_op_compare_failed(struct bw_zk_op *op);
/* The session has expired, and its nodes are gone. */
void bw_zk_entries_expired(struct bw_zk_session *session);
void bw_zk_entries_replace(struct bw_zk_session *session);
/* Removes entries without recent requests. Returns true if a remaining one leads. */
bool bw_zk_entries_lapse(struct bw_zk_session *session);
void bw_zk_entries_free(struct bw_zk_session *session);

/* Requests, in ops.c, other_ops.c and election_names.c. */
void bw_zk_acquire(struct bw_zk_op *op);
/* Checks that the session outlives the lease; servers may grant another timeout than requested.
 * Returns false if it has failed the op. */
bool bw_zk_session_serves(struct bw_zk_op *op);
void bw_zk_renew(struct bw_zk_op *op);
void bw_zk_release(struct bw_zk_op *op);
void bw_zk_read(struct bw_zk_op *op);
void bw_zk_watch(struct bw_zk_op *op);
void bw_zk_list(struct bw_zk_op *op);
void bw_zk_note(struct bw_zk_op *op);
void bw_zk_enter(struct bw_zk_op *op);
void bw_zk_leave(struct bw_zk_op *op);
void bw_zk_elections(struct bw_zk_op *op);

#endif
