/* The internals of the simulated registry: nodes (registry.c), membership (registry_members.c) and
 * clients (registry_clients.c). */
#ifndef BW_SIM_STORES_REGISTRY_STATE_H
#define BW_SIM_STORES_REGISTRY_STATE_H

#include "core/registry/snapshot.h"
#include "core/replica/membership.h"
#include "core/replica/request_router.h"
#include "sim/checks/history.h"
#include "sim/checks/lease_check.h"
#include "sim/stores/registry.h"

#define REGISTRY_BUCKETS 64u
#define REGISTRY_ASKED   64u /* client requests at one node at one time */
#define REGISTRY_SCRATCH (BW_SNAPSHOT_PIECE_MAX + 4096u)
#define REGISTRY_CLIENTS 16u
#define REGISTRY_KEYS    4u
#define REGISTRY_KVS     4096u
#define REGISTRY_WANTS   16u
#define REGISTRY_NUMBERS 64u

enum ask_kind { /* requests of clients */
                ASK_PUT,
                ASK_GET,
                ASK_DELETE,
                ASK_CAS,     /* by value */
                ASK_VERSION, /* by version */
                ASK_CAMPAIGN,
                ASK_LOOK, /* find the oldest key of the election */
                ASK_RESIGN,
                ASK_GRANT,
                ASK_KEEP_ALIVE,
                ASK_REVOKE,
                ASK_FORGET /* the connection closed */
};

struct ask { /* in a slot's body */
    enum ask_kind kind;
    uint32_t client, serial;
    uint32_t key; /* one of REGISTRY_KEYS, or the election */
    uint64_t value, expect;
    int64_t version, lease, create;
    bw_time ttl_ns;
};

struct response { /* the response, in a slot's body */
    uint32_t client, serial;
    enum bw_linear_outcome outcome;
    bool done;
    bool there; /* LOOK: the client's own key exists */
    uint64_t value;
    int64_t version, revision, create;
    int64_t oldest; /* create revision of the oldest key of the election */
    bw_time ttl_ns;
};

struct asked { /* a request that a client waits for */
    uint64_t request;
    struct ask ask;
};

struct replica {
    struct bw_sim *sim;
    bw_node id;
    struct bw_router router;
    struct bw_request *buckets[REGISTRY_BUCKETS];
    void *memory;
    bool turn; /* an iteration is scheduled */
    bw_time swept;
    bw_term term;
    struct bw_membership members;
    uint64_t publishing; /* the request that publishes this node's name */
    bool ended;          /* was asked to end */
    uint32_t asked_count;
    struct asked asked[REGISTRY_ASKED];
};

struct want { /* a change that the operator wants */
    enum bw_member_op op;
    bw_node node; /* the node to add, promote or remove */
    bw_node at;   /* the node that received the request */
    uint16_t port;
    bool learner, done;
    uint64_t request;
    bw_time since;
    uint32_t tries;
};

struct client {
    struct bw_sim_clock clock;
    bool candidate, waiting, careless; /* careless: lets leases expire */
    uint32_t serial, election;
    struct ask ask; /* the last request */
    bw_node asked;  /* the node that was asked */
    bw_time call;
    int64_t lease;
    bw_time ttl_ns, sent; /* of the last confirmed renewal, on the world's clock */
    bw_time sent_local;
    int64_t create; /* create revision of its key, 0: none */
    bool holds;
    uint64_t seen; /* the last value seen of a key, for comparison */
    int64_t seen_version;
};

struct saved { /* position of the bytes of a snapshot or an entry */
    uint64_t state;
    size_t at, length;
};

struct saved_list {
    struct saved *at;
    uint32_t count, cap;
};

struct bw_sim_registry {
    struct replica *replicas; /* [0..cap] */
    uint32_t replica_count;
    size_t memory_bytes;
    struct bw_registry_config config;
    struct saved_list entries, snapshots;
    unsigned char *bytes; /* bytes of both */
    size_t used, size;
    unsigned char *scratch;
    struct bw_entry_scratch *entry_scratch;
    struct bw_op_result *ops;
    const struct bw_kv **kvs;
    uint8_t *broken; /* [from][to]: a frame was lost in this direction */
    struct client clients[REGISTRY_CLIENTS];
    uint32_t client_count;
    uint64_t next_value;
    int64_t next_lease;
    struct bw_rng rng;
    struct bw_history history;
    struct bw_lease_check leases;
    struct want wants[REGISTRY_WANTS];
    uint32_t want_count, next_port;
    bw_index given[REGISTRY_NUMBERS]; /* the entry that assigned a number */
};

/* registry.c */
struct bw_sim_slot *registry_pend(struct bw_sim *sim, enum bw_sim_pending kind, bw_node node,
                                  const void *body, size_t bytes);

/* Returns the saved bytes of a registry entry; NULL: the entry is one of Raft's own. */
const struct saved *registry_saved_entry(const struct bw_sim_registry *g,
                                         const struct bw_sim_entry *entry);
/* Notifies `to` that it is not a member. */
void registry_turn_away(struct bw_sim *sim, const struct replica *r, bw_node to);

/* registry_members.c */
void registry_members_boot(struct bw_sim *sim, struct replica *r);
bool registry_member_applied(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entry);
void registry_on_change(void *context, struct bw_request *request);
void registry_publish(struct replica *r);
void registry_promote(struct replica *r);
void registry_dial(struct replica *r);
void registry_turned_away(struct bw_sim *sim, bw_node id);
bool registry_operator_reply(struct replica *r, uint64_t request, int error);
void registry_check_members(struct bw_sim *sim);

/* registry_clients.c */
void registry_clients_found(struct bw_sim *sim);
void registry_clients_start(struct bw_sim *sim);
/* The node's hooks. */
void registry_on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                         enum bw_refusal refusal, const struct bw_results *results);
void registry_on_answered(void *context, uint64_t request, bw_time ttl_ns);
void registry_on_failed(void *context, uint64_t request, int error);
/* Closes the connections of clients to a node that died. */
void registry_clients_cut(struct bw_sim *sim, struct replica *r);
const char *registry_clients_judge(struct bw_sim *sim, bw_time *at);

#endif
