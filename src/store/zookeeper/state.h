/* The ZooKeeper store's insides: what it keeps in memory about sessions, elections, its own
 * candidates, and requests on their way.
 *
 *   store.c         URL, sessions, and who does what
 *   bury.c    ends a session that was given up
 *   request.c      requests: waiting for a connection, answering, elections and their watches
 *   look.c    what stands in the tree, and the record it makes
 *   entry.c   a candidate's node: created once, found again, given up
 *   ops.c    ACQUIRE, RENEW, RELEASE
 *   ask.c     READ, WATCH, LIST, NOTE, ENTER, LEAVE */
#ifndef BW_STORE_ZOOKEEPER_STATE_H
#define BW_STORE_ZOOKEEPER_STATE_H

#include "store/kit/job.h"
#include "store/kit/record.h"
#include "store/kit/url.h"
#include "store/zookeeper/client.h"
#include "store/zookeeper/names.h"

/* Leases of different lengths each need a session; a process uses one or two. */
#define BW_ZK_SESSIONS_MAX 8u
/* Elections remembered while nobody asks for them. */
#define BW_ZK_ELECTIONS_MAX 4096u
/* Candidates of one election that LIST shows, in order. */
#define BW_ZK_LIST_MAX 4096u
/* A compare that failed, a node that went: how often a request begins again. */
#define BW_ZK_TRIES_MAX 8u
#define BW_ZK_BUCKETS   1024u

struct bw_zk_op;
struct bw_zk_view;

struct bw_zk_ops {
    struct bw_zk_op *first, *last;
};

/* What a watch belongs to: an election as onlookers see it, or a waiting candidate. */
struct bw_zk_target {
    uint64_t number;
    struct bw_zk_target *chain;
    struct bw_zk_ops watches; /* WATCH requests that wait for it */
    uint64_t fired;           /* how often */
};

struct bw_zk_session {
    struct bw_zk_client client;
    struct bw_zk_client old; /* goes on with a session that was given up, to end it */
    bool burying;            /* `old` is open, or closing */
    struct bw_store *store;
    struct bw_zk_entry *entries;
    struct bw_zk_ops waiting; /* for a connection */
};

/* A candidate of this process, and its place in the line. */
struct bw_zk_entry {
    struct bw_zk_entry *next;      /* of the election */
    struct bw_zk_entry *next_here; /* of the session */
    struct bw_zk_election *election;
    struct bw_zk_session *session;
    struct bw_zk_target target;
    struct bw_zk_ops waiting; /* for the node */
    unsigned uses;            /* by requests on their way */
    char id[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1];
    int32_t priority;
    char guid[BW_ZK_GUID_MAX + 1];
    char node[BW_ZK_NODE_MAX + 1]; /* "" = does not stand, as far as is known */
    int64_t czxid;
    bool creating; /* being created or looked for */
    bool tried;    /* a create was sent and not answered: its node may stand */
    bool left;     /* nobody wants it any more; it is there until its node is not */
    bool removing;
    bool leads;                     /* the record names it */
    struct bw_store_record *record; /* leads: as this process wrote it */
    int32_t record_version;
    bool dirty;                /* ... and a change of it may not have arrived */
    uint64_t asked_at, ttl_ms; /* it lapses when nobody asks for it any more */
    unsigned tries;
    /* What a watch saw when the node was the first in line, for the acquire that follows: a node
     * stays first, and whether the rest is still so is compared when it is written. NULL: none. */
    struct bw_zk_view *turn;
};

struct bw_zk_election {
    struct bw_zk_election *chain;
    struct bw_store *store;
    struct bw_zk_target target;
    struct bw_zk_entry *entries;
    unsigned uses; /* by requests on their way */
    char name[BW_ELECTION_NAME_MAX + 1];
    struct bw_zk_paths paths;
    /* The first in line as last looked up: its name is for ever. */
    char first[BW_ZK_NODE_MAX + 1], first_id[BW_CANDIDATE_ID_MAX + 1];
    int64_t first_czxid;
    /* The last leader that was not ours, and the highest token, that this process saw. */
    char stranger[BW_CANDIDATE_ID_MAX + 1];
    int64_t stranger_czxid;
    bw_token highest;
};

/* What stands in the tree. */
struct bw_zk_view {
    bool other_recipe; /* nodes of the other kind are there */
    bool has_first, has_before, own_found, own_first;
    struct bw_zk_node first, before; /* before: the one in front of our own */
    struct bw_zk_node *nodes;        /* LIST: all, sorted */
    unsigned count;
    int64_t first_czxid;
    char first_id[BW_CANDIDATE_ID_MAX + 1];
    bool has_record, has_note, has_mail, damaged;
    struct bw_store_record record;
    struct bw_note note;
    int32_t record_version, note_version;
    int64_t record_mzxid, note_mzxid;
};

/* A request on its way. It is in at most one list, and then nothing of it is at a server. */
struct bw_zk_op {
    struct bw_store *store;
    struct bw_zk_session *session;
    struct bw_zk_election *election;
    struct bw_zk_entry *entry; /* counted in its `uses`; may be NULL */
    struct bw_job *job;        /* NULL: nobody waits for the answer */
    struct bw_zk_ops *list;
    struct bw_zk_op *next, *previous;
    void (*start)(struct bw_zk_op *op); /* from the beginning */
    void (*then)(struct bw_zk_op *op);  /* when all calls of a step were answered */
    void (*looked)(struct bw_zk_op *op);
    void (*placed)(struct bw_zk_op *op);
    unsigned waits, tries;
    int rc;
    bool wrote;                  /* something was sent that may have changed the store */
    bool wrote_record;           /* ... the record among it */
    bool fresh;                  /* follows a watch that fired: no need to sync */
    uint64_t since;              /* waits for a connection since then, uv_now() */
    struct bw_zk_target *target; /* WATCH: what its watches are set for */
    bool watch_all;              /* ... everything, not only the one in front and the mail */
    bool first_watched;          /* ... as its candidate is the first in line */
    uint64_t fired;              /* ... and how often they had fired when it began to look */
    struct bw_candidate *candidates;
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
    bool base_made; /* what all elections stand under was there */
    struct bw_zk_election *elections[BW_ZK_BUCKETS];
    unsigned election_count;
    struct bw_zk_target *targets[BW_ZK_BUCKETS];
    uint64_t next_target;
};

/* bury.c */
void bw_zk_bury(struct bw_zk_session *session);
/* The store closes: so does what is under way. `closed` follows for each. */
void bw_zk_bury_stop(struct bw_zk_session *session, void (*closed)(struct bw_zk_client *client));

/* request.c */
struct bw_zk_election *bw_zk_election(struct bw_store *store, const char *name);
void bw_zk_elections_free(struct bw_store *store);
void bw_zk_target_add(struct bw_store *store, struct bw_zk_target *target);
void bw_zk_target_remove(struct bw_store *store, struct bw_zk_target *target);
void bw_zk_ops_add(struct bw_zk_ops *list, struct bw_zk_op *op);
void bw_zk_ops_remove(struct bw_zk_op *op);
/* NULL: no memory. */
struct bw_zk_op *bw_zk_op_new(struct bw_zk_session *session, struct bw_zk_election *election,
                              struct bw_job *job);
void bw_zk_op_use(struct bw_zk_op *op, struct bw_zk_entry *entry);
/* Starts it, or waits for the connection. */
void bw_zk_op_start(struct bw_zk_op *op);
/* From the beginning, after a compare failed; gives up after a few times. */
void bw_zk_op_again(struct bw_zk_op *op);
/* The answers; the op is gone afterwards. */
void bw_zk_op_done(struct bw_zk_op *op);
void bw_zk_op_refuse(struct bw_zk_op *op, int error, const char *why);
void bw_zk_op_fail(struct bw_zk_op *op, int error, const char *why);
void bw_zk_op_list(struct bw_zk_op *op, uint32_t count);
/* The library's code says why. A lost connection lets it wait for the next one, unless it may have
 * changed something. */
void bw_zk_op_broken(struct bw_zk_op *op, int rc);
void bw_zk_op_free(struct bw_zk_op *op);
/* A call of the op: counts it, or keeps the error. */
void bw_zk_op_called(struct bw_zk_op *op, int rc);
/* One answer came; the last one runs `then`. */
void bw_zk_op_came(struct bw_zk_op *op);
void bw_zk_forget(struct bw_job *job);
/* The connection is there; or it is not, and those that waited too long are told. */
void bw_zk_waiting_start(struct bw_zk_session *session);
void bw_zk_waiting_expire(struct bw_zk_session *session);
void bw_zk_watches_fire(struct bw_store *store, uint64_t number);
/* Watches are gone with the connection: all WATCH requests of the session look again. */
void bw_zk_watches_renew(struct bw_zk_session *session);

/* look.c */
/* Reads everything, and sets watches if the op has a target for them; `looked` follows with
 * op->view, or the op ends with what went wrong. Nothing older than now is seen. */
void bw_zk_look(struct bw_zk_op *op, void (*looked)(struct bw_zk_op *op));
/* Calls for record and note only, to go behind a write of the same step. */
void bw_zk_look_record(struct bw_zk_op *op);
/* The record as the one who asks may see it. */
void bw_zk_view_record(const struct bw_zk_op *op, struct bw_store_record *record);
/* The same, not held, for the one who is about to take it. */
void bw_zk_view_base(const struct bw_zk_op *op, struct bw_store_record *record);

/* entry.c */
struct bw_zk_entry *bw_zk_entry_find(const struct bw_zk_election *election, const char *id);
struct bw_zk_entry *bw_zk_entry_make(struct bw_zk_session *session, struct bw_zk_election *election,
                                     const char *id);
/* The node stands, or is made to: `placed` follows, or the op ends with what went wrong. */
void bw_zk_entry_place(struct bw_zk_op *op, void (*placed)(struct bw_zk_op *op));
void bw_zk_entry_path(const struct bw_zk_entry *entry, char path[BW_ZK_PATH_MAX + 1]);
/* Value and priority, for LIST. */
void bw_zk_entry_describe(struct bw_zk_entry *entry);
/* Its node is not there after all: the next place is behind all others. */
void bw_zk_entry_lost(struct bw_zk_entry *entry);
/* Nobody wants it any more; `standing`: its node is to be removed. */
void bw_zk_entry_leave(struct bw_zk_entry *entry, bool standing);
void bw_zk_entry_free_if_left(struct bw_zk_entry *entry);
/* A write was refused, as op->rc says: what the election's nodes stand under is made if it is not
 * there, and the op begins again. */
void bw_zk_op_compare_failed(struct bw_zk_op *op);
/* The session is new: its old nodes are gone. */
void bw_zk_entries_expired(struct bw_zk_session *session);
void bw_zk_entries_replace(struct bw_zk_session *session);
/* Gives up those nobody asks for any more. True if one leads. */
bool bw_zk_entries_lapse(struct bw_zk_session *session);
void bw_zk_entries_free(struct bw_zk_session *session);

/* What requests do; ops.c and ask.c. */
void bw_zk_acquire(struct bw_zk_op *op);
/* The session must outlive the lease; servers shorten and lengthen what they are asked for. False:
 * the op has ended with that. */
bool bw_zk_session_serves(struct bw_zk_op *op);
void bw_zk_renew(struct bw_zk_op *op);
void bw_zk_release(struct bw_zk_op *op);
void bw_zk_read(struct bw_zk_op *op);
void bw_zk_watch(struct bw_zk_op *op);
void bw_zk_list(struct bw_zk_op *op);
void bw_zk_note(struct bw_zk_op *op);
void bw_zk_enter(struct bw_zk_op *op);
void bw_zk_leave(struct bw_zk_op *op);

#endif
