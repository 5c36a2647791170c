/* The target session: the shipped request router and registry (src/core/replica, src/core/registry)
 * above the shipped Raft, in the world of team.h.
 *
 * Model:
 * - Clients send grants, renewals, revocations, campaigns and reads to nodes 1 and 2, at any time:
 *   to a leader, a former leader or a follower. Leases have the numbers 1 and 2. A campaign is
 *   etcd's election recipe: it creates the key of the election under a lease if the key does not
 *   exist.
 * - Nodes forward requests in frames. A connection delivers its frames in order and never twice; a
 *   frame may arrive late or never. A cut loses the frames of a connection, which then opens again.
 * - What a node collects in one turn of its event loop goes to Raft with a separate action, so
 *   anything may happen before it.
 * - Every client request happens at a time of its own, one nanosecond after the step before.
 * - Not covered: snapshots, membership changes, watches, users, and requests that wait longer than
 *   BW_ROUTER_TIMEOUT. */
#ifndef BW_SIM_EXPLORE_TARGET_SESSION_H
#define BW_SIM_EXPLORE_TARGET_SESSION_H

#include "core/replica/request_router.h"
#include "sim/explore/team.h"

#define SESSION_NODES    3u
#define SESSION_LEASES   2u
#define SESSION_FRONTS   2u /* nodes that receive requests of clients */
#define SESSION_BUCKETS  4u
#define SESSION_BLOCKS   12u
#define SESSION_BLOCK    256u
#define SESSION_FRAMES   2u /* in flight per connection and direction */
#define SESSION_FRAME    96u
#define SESSION_PAYLOADS 16u
#define SESSION_BYTES    80u
#define SESSION_WANTS    8u
#define SESSION_TTL      (4 * BW_TEAM_TICK)

enum session_verb {
    SESSION_TURN = BW_TEAM_VERBS, /* the end of a turn: collected requests go to Raft */
    SESSION_PASS,                 /* the next frame from A to B arrives */
    SESSION_CUT,                  /* the connection from A to B is lost and restored */
    SESSION_GRANT,
    SESSION_RENEW,
    SESSION_REVOKE,
    SESSION_CAMPAIGN,
    SESSION_READ,
    SESSION_EXPIRE, /* node A revokes expired leases */
    SESSION_SWEEP,  /* node A routes waiting requests again */
    SESSION_VERBS
};

enum session_outcome {
    SESSION_WAITS,
    SESSION_DONE,
    SESSION_UNKNOWN, /* it may have been executed, or may be later */
    SESSION_REFUSED  /* it was certainly not executed */
};

struct session_want { /* a client's request */
    uint64_t id;
    uint8_t verb, lease, node, outcome;
    uint32_t applied; /* number of times that its entry was committed */
    bw_time sent;
    bw_index floor; /* READ: what clients had seen before */
};

struct session_payload { /* the bytes of a log entry */
    bw_index index;
    bw_term term;
    uint64_t length;
    unsigned char bytes[SESSION_BYTES];
};

struct session_frame {
    uint32_t reply; /* 1: an answer, 0: a request */
    uint32_t length;
    unsigned char bytes[SESSION_FRAME];
};

struct session_link {
    uint64_t count;
    struct session_frame frame[SESSION_FRAMES];
};

struct session_node {
    struct session *session;
    struct bw_router router;
    struct bw_request *buckets[SESSION_BUCKETS];
    bw_term term;
    uint64_t turn;        /* a turn is due */
    uint64_t incarnation; /* number of starts */
    uint64_t taken;       /* a bit per block */
    _Alignas(16) unsigned char block[SESSION_BLOCKS][SESSION_BLOCK];
};

struct session_lease {         /* what its client knows */
    bw_time until;             /* it holds the lease at least until then; 0: it does not hold it */
    uint8_t granted, given_up; /* it was granted; its client asked for its end */
};

struct session {
    struct bw_team *team;
    unsigned char *memory; /* of the registries */
    size_t registry_bytes;
    /* From here on the state changes. */
    struct session_node node[SESSION_NODES];
    struct session_link link[SESSION_NODES][SESSION_NODES];
    uint64_t payloads, wants;
    struct session_payload payload[SESSION_PAYLOADS];
    struct session_want want[SESSION_WANTS];
    struct session_lease lease[SESSION_LEASES];
    uint64_t leads; /* the lease of the client that won the election */
    bw_index seen;  /* the newest entry whose effect a client has seen */
    bw_index judged;
    char wrong[BW_EXPLORE_WHY]; /* the violation of this action */
};

/* target_session_judge.c */
void session_violate(struct session *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The hooks of a node's router that answer clients; `context` is the node. */
void session_on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                        enum bw_refusal refusal, const struct bw_results *results);
void session_on_answered(void *context, uint64_t request, bw_time ttl_ns);
void session_on_failed(void *context, uint64_t request, int error);
/* The entry after `router.applied` is about to be applied at the node. */
void session_applies(struct session_node *node, const struct session_payload *payload);
/* The node crashed: its clients do not learn the outcome of their requests. */
void session_forgets(struct session_node *node);
void session_judge(struct session *s);

static inline bw_node session_id(const struct session_node *node)
{
    return (bw_node)(node - node->session->node) + 1;
}

#endif
