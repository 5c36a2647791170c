/* The services behind the wire: they turn calls into requests to the replica, and its results into
 * responses.
 *
 *   service.c       waiting for the replica; headers; errors in etcd's words
 *   methods.c       the table of all methods
 *   kv.c            Range, Put, DeleteRange, Compact
 *   txn.c           Txn
 *   compact.c       automatic compaction
 *   lease.c         Grant, Revoke, KeepAlive, TimeToLive, Leases
 *   binding.c       leases that end with their client's connection
 *   death_proof.c   puts the proof that the work of such a lease's leader is dead
 *   watch.c         Watch
 *   watch_notify.c  notifies watchers, a bounded amount in each turn of the loop
 *   cluster.c       members, status, leadership transfer, health
 *   member.c        membership changes
 *   snapshot.c      the whole content, for a backup
 *   hash.c          Hash, HashKV: a hash of the content
 *   alarm.c         quota, Alarm
 *   await_level.c   changes that wait until all members understand them
 *   pace.c          spreads large responses over the turns of the loop
 *   dashboard.c     what the dashboard shows about this node
 *   election.c      Campaign, Proclaim, Leader, Observe, Resign; Lock, Unlock
 *
 * Users and roles are in ../auth:
 *   auth.c          identity and rights of a caller
 *   auth_calls.c    users, Authenticate
 *   role_calls.c    roles
 *   password.c      hashes passwords in the thread pool
 *   users.c         reads a users file
 *   import.c        the first users, from a file */
#ifndef BW_SERVE_API_SERVICE_H
#define BW_SERVE_API_SERVICE_H

#include "core/registry/watch.h"
#include "net/api.pb-c.h"
#include "serve/front/call.h"
#include "serve/replica/replica.h"

/* The API version reported to clients. */
#define BW_API_VERSION         "3.4.23"
#define BW_API_CLUSTER_VERSION "3.4.0"
#define BW_API_CLUSTER_MINOR   "3.4"

struct bw_wait {
    struct bw_call *call;
    uint64_t request;
    int64_t number;               /* not used here: the waiting method stores its own data in it */
    struct bw_wait *chain;        /* next in the same hash bucket */
    struct bw_wait *next, **link; /* list of the call's waits */
    bool binds;                   /* binds lease `number` to the call's connection */
    bool reads;                   /* check the caller's rights again before the response */
    bool large;     /* the response may be large: build it only while the client reads */
    bw_time ttl_ns; /* the replica's answer, while the wait is held for that */
    /* Exactly one of these three functions is called, once. */
    void (*applied)(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results);
    void (*answered)(struct bw_call *call, int64_t number, bw_time ttl_ns);
    void (*failed)(struct bw_call *call, int64_t number, int error); /* NULL: the call ends */
};

struct bw_service_options {
    uv_loop_t *loop;
    const char *directory;
    uint64_t cluster;
    bw_node self;
    const struct bw_replica_member *members;
    uint32_t count;
    bool joins; /* from here to listen_port: see replica.h */
    struct bw_replica_member publish;
    const char *listen_host;
    uint16_t listen_port;
    struct bw_credentials *credentials; /* for connections between nodes; NULL: no TLS */
    const struct bw_users *users;       /* imported if the cluster never had users; NULL: none */
    bw_time heartbeat_ns, timeout_ns, ttl_min_ns;
    bw_time progress_ns; /* between progress notifications of a watch; 0: 10 minutes, as in etcd */
    /* Automatic compaction keeps this much of the history; both 0: it keeps everything. */
    bw_time compact_period_ns;
    int64_t compact_revisions;
    struct bw_registry_config registry; /* bw_service_open draws its hash_key */
    uint64_t quota; /* bytes of content beyond which this node raises the alarm; 0: never */
    void *context;
    void (*led)(void *context);                         /* the leader changed */
    void (*users_known)(void *context, uint32_t count); /* the cluster has users from now on */
    void (*ended)(void *context, enum bw_replica_end end, const char *why);
};

struct bw_service;

#define BW_CODES 17u     /* gRPC's status codes */
struct bw_call_figures { /* of a method */
    uint64_t started, handled[BW_CODES];
    struct bw_histogram seconds; /* from the first message to the end */
};
/* One for each of bw_methods; NULL: no memory for them. */
const struct bw_call_figures *bw_service_figures(const struct bw_service *service);
uint64_t bw_service_quota(const struct bw_service *service);

struct bw_client_view { /* a connected client */
    char address[64];
    char user[BW_USER_NAME_MAX + 1]; /* by its certificate; "": not identified by one */
    const char *protocol;
    bool tls;
};

/* The front tells the service which clients are connected: `list` returns their number and writes
 * at most `size` of them to `out`. */
void bw_service_list_clients(struct bw_service *service,
                             uint32_t (*list)(void *context, struct bw_client_view *out,
                                              uint32_t size),
                             void *context);

int bw_service_open(struct bw_service **out, const struct bw_service_options *options, char *why);
void bw_service_close(struct bw_service *service, void (*closed)(void *context));
struct bw_replica *bw_service_replica(struct bw_service *service);
uv_loop_t *bw_service_loop(struct bw_service *service);
uint64_t bw_service_cluster(const struct bw_service *service);
struct bw_passwords *bw_service_passwords(struct bw_service *service);
/* This node shuts down: calls end although their clients are still there. */
void bw_service_leave(struct bw_service *service);
bool bw_service_is_leaving(const struct bw_service *service);
/* Returns true if a users file was given and its users are not imported yet. */
bool bw_service_awaits_users(const struct bw_service *service);
/* Returns true if there has been no leader for this time, or for --detect if that is longer. An
 * election takes milliseconds: a client that requires a leader is not disturbed by one. */
bool bw_service_is_leaderless(const struct bw_service *service, uint64_t ms);
bool bw_service_has_peer_tls(const struct bw_service *service);

/* Returns false after ending the call: a node without a vote serves no clients, as in etcd. */
bool bw_service_may(struct bw_call *call, const ProtobufCMessage *message);

/* For methods. Creates a wait for the result of `request` (0: the replica accepts no more). Ends
 * the call with an error and returns NULL if that is not possible. */
struct bw_wait *bw_service_wait(struct bw_call *call, uint64_t request);
/* Propose a change on behalf of the call's user, or start a read, and create the wait for the
 * result. They return NULL like bw_service_wait. */
struct bw_wait *bw_service_propose(struct bw_call *call, struct bw_entry *entry,
                                   void (*applied)(struct bw_call *, int64_t,
                                                   const struct bw_entry *, enum bw_refusal,
                                                   const struct bw_results *));
struct bw_wait *bw_service_read(struct bw_call *call,
                                void (*answered)(struct bw_call *, int64_t, bw_time));
/* pace.c: for reads with a response of this size. Returns true if it must not be built
 * now, because other large ones were; `answered` is called later. After each response that is built
 * the method calls bw_service_built. */
bool bw_service_postpone(struct bw_call *call, size_t bytes,
                         void (*answered)(struct bw_call *, int64_t, bw_time));
void bw_service_built(struct bw_service *service, size_t bytes);
/* await_level.c: a change that requires a level of the registry. */
struct bw_proposal {
    uint32_t level;
    const char *what; /* names the change in the refusal; a constant */
    void (*applied)(struct bw_call *, int64_t, const struct bw_entry *, enum bw_refusal,
                    const struct bw_results *);
    int64_t number; /* for `applied` */
};
/* Proposes the entry when all members understand the level: at once, or some seconds later. Ends
 * the call if they do not. */
void bw_service_propose_at_level(struct bw_call *call, const struct bw_proposal *proposal,
                                 struct bw_entry *entry);
struct bw_registry *bw_service_registry(struct bw_service *service);
struct bw_watches *bw_service_watches(struct bw_service *service);
/* The number of waits. */
uint32_t bw_service_waiting(const struct bw_service *service);
bw_time bw_service_ttl_min(const struct bw_service *service);
/* Scratch memory for parts of a response, valid until the next clear. A response whose size depends
 * on the content must reserve its memory first: without memory bw_service_scratch aborts. */
void *bw_service_scratch(struct bw_service *service, size_t bytes);
void bw_service_scratch_clear(struct bw_service *service);
/* Clears the scratch memory and reserves room for `count` parts of `bytes` each, beside those of
 * ordinary size. Without memory it ends the call with the given text and returns false. */
bool bw_service_reserve(struct bw_call *call, size_t count, size_t bytes, const char *without);
/* The same without clearing what the scratch memory holds. */
bool bw_service_extend(struct bw_call *call, size_t count, size_t bytes, const char *without);
#define BW_NO_MEMORY      "etcdserver: no memory"
#define BW_NO_MEMORY_DONE "bellwether: the change was applied; no memory for its response"
/* Fills a header for the given revision; 0: for the current one. */
void bw_service_header(const struct bw_service *service, Api__Header *header, int64_t revision);
/* Sends the only response of a call whose message begins with a header, and ends the call. */
#define BW_SERVICE_ANSWER(call, out)                                                               \
    do {                                                                                           \
        Api__Header header;                                                                        \
        bw_service_header((call)->service, &header, 0);                                            \
        (out).header = &header;                                                                    \
        bw_call_send(call, &(out).base);                                                           \
        bw_call_end(call, BW_CODE_OK, NULL);                                                       \
    } while (0)
/* Ends the call with etcd's error. */
void bw_service_refuse(struct bw_call *call, enum bw_refusal refusal);
void bw_service_fail(struct bw_call *call, int error);
/* Memory for the registry's results of reads. */
struct bw_results *bw_service_results(struct bw_service *service);
/* A key's version as a message, in scratch memory. */
Api__KeyValue *bw_service_kv(struct bw_service *service, const struct bw_kv *kv, bool keys_only);

/* alarm.c */
#define BW_QUOTA_DEFAULT ((uint64_t)2 << 30) /* etcd's default */
#define BW_QUOTA_MAX     ((uint64_t)8 << 30) /* etcd's recommended maximum */

/* Returns false after refusing the call: the entry would exceed this node's quota. */
bool bw_service_has_space(struct bw_call *call, const struct bw_entry *entry);
/* The registry has changed: raises the alarm if it exceeds this node's quota. */
void bw_service_check_quota(struct bw_service *service);
/* A request of this node was applied or failed. */
void bw_service_alarm_ended(struct bw_service *service, uint64_t request);
/* The alarms in etcd's words, in scratch memory. `texts` has space for BW_ALARMS_MAX. Returns their
 * number. */
size_t bw_service_alarm_texts(struct bw_service *service, char **texts);

/* The owner of a watcher begins with this struct. When `notify` is called, the owner reads events
 * with bw_watcher_next until there are none, or calls bw_watcher_park. */
struct bw_watching {
    void (*notify)(struct bw_watching *watching, bw_ref watcher);
};
/* Returns 0 if there are too many watchers. */
bw_ref bw_service_watch(struct bw_service *service, struct bw_watching *watching,
                        const struct bw_watcher_spec *spec);
/* Notifies watchers of changes: a bounded amount now, the rest in later turns of the loop. An owner
 * that has read watchers it had parked calls it too. */
void bw_service_notify_watchers(struct bw_service *service, bool restored);

/* For an owner that waits until all watchers that are not parked have received everything up to
 * now. Initialize to zeros. */
struct bw_catch_up {
    void (*caught_up)(struct bw_catch_up *node);
    struct bw_catch_up *next, **link; /* link NULL: not waiting */
};
/* Calls `caught_up` once, possibly from within. */
void bw_service_catch_up(struct bw_service *service, struct bw_catch_up *node);
void bw_service_catch_up_cancel(struct bw_catch_up *node);

/* The methods of each file; the table is in methods.c. */
void bw_kv_range(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_range_gone(struct bw_call *call);
void bw_kv_put(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_delete(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_txn(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_compact(struct bw_call *call, const ProtobufCMessage *message);
/* Returns a random positive id, or 0 if the kernel has no random numbers. The id must not be
 * guessable: a client that knows it can renew the lease. */
int64_t bw_lease_new_id(void);
void bw_lease_grant(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_revoke(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_keep_alive(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_keep_alive_half_closed(struct bw_call *call);
void bw_lease_time_to_live(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_leases(struct bw_call *call, const ProtobufCMessage *message);
void bw_watch_message(struct bw_call *call, const ProtobufCMessage *message);
void bw_watch_gone(struct bw_call *call);
void bw_watch_writable(struct bw_call *call);
void bw_auth_authenticate(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_enable(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_disable(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_status(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_add(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_get(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_list(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_delete(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_password(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_grant(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_user_revoke(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_role_get(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_role_list(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_role_gone(struct bw_call *call);
void bw_auth_role_add(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_role_delete(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_role_allow(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_role_disallow(struct bw_call *call, const ProtobufCMessage *message);
/* Proposes a change of users or roles; its response is just a header. */
void bw_auth_propose(struct bw_call *call, const struct bw_users_change *change);
/* Copies the name of a role with permissions. Returns false after ending the call: with `otherwise`
 * if it is invalid, or with a text about names if that is BW_REFUSED_NONE. */
bool bw_role_take_name(struct bw_call *call, const char *name, struct bw_users_change *change,
                       enum bw_refusal otherwise);
/* The names of a user's roles, in scratch memory. */
char **bw_role_names(struct bw_service *service, const struct bw_user *user, size_t *count);
void bw_auth_gone(struct bw_call *call);
void bw_dashboard_observe(struct bw_call *call, const ProtobufCMessage *message);
void bw_dashboard_gone(struct bw_call *call);
void bw_cluster_members(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_add(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_remove(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_update(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_change_gone(struct bw_call *call);
void bw_cluster_promote(struct bw_call *call, const ProtobufCMessage *message);
/* The current members, in scratch memory; *count of them. */
Api__Member **bw_cluster_list(struct bw_service *service, size_t *count);
void bw_cluster_status(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_move_leader(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_snapshot(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_snapshot_gone(struct bw_call *call);
void bw_cluster_defragment(struct bw_call *call, const ProtobufCMessage *message);
void bw_hash_all(struct bw_call *call, const ProtobufCMessage *message);
void bw_hash_kv(struct bw_call *call, const ProtobufCMessage *message);
void bw_hash_gone(struct bw_call *call);
void bw_cluster_health(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_alarm(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_campaign(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_proclaim(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_leader(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_observe(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_resign(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_lock(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_unlock(struct bw_call *call, const ProtobufCMessage *message);
/* true if the call waits in the queue of an election */
bool bw_election_is_queued(const struct bw_call *call);
/* Returns true for methods whose response may never come: the client waits until it is elected. */
bool bw_election_may_wait(const struct bw_call *call);
void bw_election_gone(struct bw_call *call);
void bw_election_observe_writable(struct bw_call *call);

#endif
