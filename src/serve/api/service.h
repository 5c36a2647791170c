/* The services behind the wire: what a call means, carried to the replica and back.
 *
 *   service.c           waiting for the replica; headers; errors as etcd words them
 *   kv.c        Range, Put, DeleteRange, Compact
 *   txn.c       Txn
 *   lease.c     Grant, Revoke, KeepAlive, TimeToLive, Leases
 *   news.c      watchers are told, a bounded amount in each turn of the loop
 *   watch.c     Watch
 *   cluster.c   members, status, hand-over; what is not there
 *   member.c    changes of the members
 *   snapshot.c  all of it, for a backup
 *   auth_calls.c      users, roles, Authenticate
 *   import.c    the first users, from a file
 *   auth.c              who a caller is, and whether it may
 *   election.c  Campaign, Proclaim, Leader, Observe, Resign; Lock, Unlock */
#ifndef BW_SERVE_SERVICE_H
#define BW_SERVE_SERVICE_H

#include "core/registry/watch.h"
#include "net/api.pb-c.h"
#include "serve/front/call.h"
#include "serve/replica/replica.h"

/* The API that clients are told. */
#define BW_API_VERSION         "3.4.23"
#define BW_API_CLUSTER_VERSION "3.4.0"

struct bw_wait {
    struct bw_call *call;
    uint64_t request;
    int64_t number;               /* the waiter's own */
    struct bw_wait *chain;        /* same bucket */
    struct bw_wait *next, **link; /* of the same call */
    /* One of them, once. */
    bool binds;     /* lease `number`, to the call's connection */
    bool reads;     /* its caller must still be allowed to when it is answered */
    bool large;     /* its response may be large, and is built only if the caller reads others */
    bw_time ttl_ns; /* what the replica answered, while it is held for that */
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
    bool joins; /* these and the next: as of replica.h */
    struct bw_replica_member publish;
    const char *listen_host;
    uint16_t listen_port;
    struct bw_credentials *credentials; /* of nodes among each other; NULL: in the clear */
    const struct bw_users *users;       /* to begin with, if there never were any; NULL: none */
    bw_time heartbeat_ns, timeout_ns, ttl_min_ns;
    struct bw_registry_config registry;
    void *context;
    void (*led)(void *context);                         /* who leads changed */
    void (*users_known)(void *context, uint32_t count); /* from now on there are users */
    void (*ended)(void *context, enum bw_replica_end end, const char *why);
};

struct bw_service;

int bw_service_open(struct bw_service **out, const struct bw_service_options *options, char *why);
void bw_service_close(struct bw_service *service, void (*closed)(void *context));
struct bw_replica *bw_service_replica(struct bw_service *service);
uv_loop_t *bw_service_loop(struct bw_service *service);
uint64_t bw_service_cluster(const struct bw_service *service);
struct bw_passwords *bw_service_passwords(struct bw_service *service);
/* This node ends: that its calls do says nothing of their callers. */
void bw_service_leave(struct bw_service *service);
bool bw_service_is_leaving(const struct bw_service *service);
/* Users were given to begin with, and are not known yet. */
bool bw_service_awaits_users(const struct bw_service *service);
bool bw_service_has_peer_tls(const struct bw_service *service);

/* False: the call has ended, for a node that has no vote serves nobody (as etcd has it). */
bool bw_service_may(struct bw_call *call, const ProtobufCMessage *message);

/* For the methods. A wait for what `request` (0: the replica takes no more) will bring; the call
 * ends with an error if there can be none. Returns NULL then. */
struct bw_wait *bw_service_wait(struct bw_call *call, uint64_t request);
/* The same for a change on behalf of the call's user, and for a read. */
struct bw_wait *bw_service_propose(struct bw_call *call, struct bw_entry *entry,
                                   void (*applied)(struct bw_call *, int64_t,
                                                   const struct bw_entry *, enum bw_refusal,
                                                   const struct bw_results *));
struct bw_wait *bw_service_read(struct bw_call *call,
                                void (*answered)(struct bw_call *, int64_t, bw_time));
/* Do all members understand what this version writes into the log? False: the call has ended. */
bool bw_service_knows(struct bw_call *call, const char *what);
struct bw_registry *bw_service_registry(struct bw_service *service);
struct bw_watches *bw_service_watches(struct bw_service *service);
/* How many waits there are. */
uint32_t bw_service_waiting(const struct bw_service *service);
bw_time bw_service_ttl_min(const struct bw_service *service);
/* Room that lasts until the next call of it: for parts of an answer. */
void *bw_service_room(struct bw_service *service, size_t bytes);
void bw_service_room_clear(struct bw_service *service);
/* A header as of now, or of the given revision. */
void bw_service_header(const struct bw_service *service, Api__Header *header, int64_t revision);
/* The one answer of a call whose message begins with a header; ends it. */
#define BW_SERVICE_ANSWER(call, out)                                                               \
    do {                                                                                           \
        Api__Header header;                                                                        \
        bw_service_header((call)->service, &header, 0);                                            \
        (out).header = &header;                                                                    \
        bw_call_send(call, &(out).base);                                                           \
        bw_call_end(call, BW_CODE_OK, NULL);                                                       \
    } while (0)
/* Ends the call as etcd would. */
void bw_service_refuse(struct bw_call *call, enum bw_refusal refusal);
void bw_service_fail(struct bw_call *call, int error);
/* Room for answers of the registry to reads. */
struct bw_results *bw_service_results(struct bw_service *service);
/* A version as a message, in the room. */
Api__KeyValue *bw_service_kv(struct bw_service *service, const struct bw_kv *kv, bool keys_only);

/* Who is told of a watcher's news: the owner of every watcher begins with this. It reads them with
 * bw_watcher_next until there are none, or says bw_watcher_park. */
struct bw_watching {
    void (*news)(struct bw_watching *watching, bw_ref watcher);
};
/* 0: too many watchers. */
bw_ref bw_service_watch(struct bw_service *service, struct bw_watching *watching,
                        const struct bw_watcher_spec *spec);
/* Tells watchers of what happened: a bounded amount now, the rest in later turns of the loop. An
 * owner that has read watchers it had parked calls it as well. */
void bw_service_news(struct bw_service *service, bool restored);

/* For an owner that wants to know when all watchers that are not parked have been told of
 * everything up to now. Zeros at the beginning. */
struct bw_catch_up {
    void (*caught_up)(struct bw_catch_up *node);
    struct bw_catch_up *next, **link; /* link NULL: it does not wait */
};
/* Once, perhaps from within. */
void bw_service_catch_up(struct bw_service *service, struct bw_catch_up *node);
void bw_service_catch_up_cancel(struct bw_catch_up *node);

/* The methods of each file, named in the table of service.c. */
void bw_kv_range(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_range_gone(struct bw_call *call);
void bw_kv_put(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_delete(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_txn(struct bw_call *call, const ProtobufCMessage *message);
void bw_kv_compact(struct bw_call *call, const ProtobufCMessage *message);
/* Positive, never 0 unless there is no chance to be had, and not guessable: who knows the id may
 * renew the lease. */
int64_t bw_lease_new_id(void);
void bw_lease_grant(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_revoke(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_keep_alive(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_keep_alive_no_more(struct bw_call *call);
void bw_lease_time_to_live(struct bw_call *call, const ProtobufCMessage *message);
void bw_lease_leases(struct bw_call *call, const ProtobufCMessage *message);
void bw_watch_message(struct bw_call *call, const ProtobufCMessage *message);
void bw_watch_gone(struct bw_call *call);
void bw_watch_room(struct bw_call *call);
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
void bw_auth_role_change(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_gone(struct bw_call *call);
void bw_cluster_members(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_add(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_remove(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_update(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_change_gone(struct bw_call *call);
void bw_cluster_promote(struct bw_call *call, const ProtobufCMessage *message);
/* The members as of now, in the room; *count of them. */
Api__Member **bw_cluster_list(struct bw_service *service, size_t *count);
void bw_cluster_status(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_move_leader(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_snapshot(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_snapshot_gone(struct bw_call *call);
void bw_cluster_health(struct bw_call *call, const ProtobufCMessage *message);
void bw_cluster_alarm(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_campaign(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_proclaim(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_leader(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_observe(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_resign(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_lock(struct bw_call *call, const ProtobufCMessage *message);
void bw_election_unlock(struct bw_call *call, const ProtobufCMessage *message);
bool bw_election_is_in_line(const struct bw_call *call); /* and waits for others to go */
void bw_election_gone(struct bw_call *call);
void bw_election_observe_room(struct bw_call *call);

#endif
