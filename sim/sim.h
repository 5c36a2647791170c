/* The simulated world, seen from outside: a configuration in, one run, figures out. A run is a
 * function of its configuration and seed.
 *
 * The world replaces everything below the line of the design: clock, network, disks, processes. It
 * runs the shipped bw_instance objects. Checkers (check.h) watch it through the observer and know
 * nothing of its insides. */
#ifndef BW_SIM_SIM_H
#define BW_SIM_SIM_H

#include "core/elect/instance.h"

#include <stdio.h>

#define BW_SIM_FAULTS_MAX 512u
#define BW_SIM_KINDS      (BW_MSG_COUNT)

enum bw_sim_fault_kind {
    BW_FAULT_CRASH,     /* node: loses all but what was durable */
    BW_FAULT_RESTART,   /* node */
    BW_FAULT_PAUSE,     /* node: stops running; timers and messages wait (SIGSTOP, VM pause) */
    BW_FAULT_RESUME,    /* node */
    BW_FAULT_PARTITION, /* groups: nodes in different groups cannot talk; nodes in no group are
                           alone */
    BW_FAULT_CUT,       /* node>peer: that one direction is lost */
    BW_FAULT_MEND,      /* node>peer */
    BW_FAULT_HEAL,      /* every partition and cut ends */
    BW_FAULT_LOSS,      /* rate: message loss from now on */
    BW_FAULT_LATENCY,   /* latency: from now on */
    BW_FAULT_DRIFT,     /* node: clock rate 1 + rate from now on */
    BW_FAULT_JUMP, /* node: wall clock jumps by span (monotonic clocks do not jump; shipped code has
                      no wall clock) */
    BW_FAULT_DISK_FAIL, /* node: the next durable write fails; the process must die, and does */
    BW_FAULT_DISK_SLOW, /* node: durable writes take span from now on (0 = normal) */
    BW_FAULT_HINT,      /* node sees its connection to peer close */
    BW_FAULT_CONFIRM,   /* everybody is told that node's work is confirmed dead (it must be crashed)
                         */
    BW_FAULT_JOIN,      /* node: a new member starts; all are told */
    BW_FAULT_LEAVE,     /* node: stops in good order (STOP), then all are told */
    BW_FAULT_CAMPAIGN, /* node: command; peer: the leader known to have failed, or, invitation: whom
                          to invite */
    BW_FAULT_RESIGN,   /* node: command */
    BW_FAULT_TRANSFER, /* node asked to hand over to peer; node 0 = whoever leads */
    BW_FAULT_STORE_DOWN, /* lease: the store goes away, as its model does */
    BW_FAULT_STORE_UP,   /* and is back */
    BW_FAULT_WIPE /* registry: a crashed node's disk is lost; it asks to join, and is replaced.
                     lease, a store: its records are deleted as soon as nobody holds one */
};

enum bw_sim_dist { BW_DIST_UNIFORM, BW_DIST_EXPONENTIAL };

struct bw_sim_latency {
    enum bw_sim_dist dist;
    bw_time min,
        max; /* uniform: the range (equal = fixed); exponential: min + Exp(mean = max - min) */
};

struct bw_sim_fault {
    enum bw_sim_fault_kind kind;
    bw_time at;         /* virtual time since the start */
    bw_node node, peer; /* node 0 where a leader makes sense: whoever leads then */
    double rate;
    bw_time span;
    struct bw_sim_latency latency;
    uint8_t *groups; /* PARTITION: group number of node id i at [i], 0 = in none, nodes + spare + 1
                        of them (lease: and one per store; stores in no group are with the first);
                        owned by the script that made it */
};

/* What keeps the leases. Stores are nodes of the world, ids above all candidates. */
enum bw_sim_store {
    BW_SIM_STORE_QUORUM,    /* forgets nothing; away: stands still, and serves late what waited */
    BW_SIM_STORE_SINGLE,    /* durable before it answers; away: crashed, then restarted */
    BW_SIM_STORE_FORGETFUL, /* answers first, writes later; away: its newest writes are lost */
    BW_SIM_STORE_REDLOCK,   /* five that keep nothing, asked for a majority; away: three crashed */
    BW_SIM_STORE_ANY        /* storms: drawn by the seed, quorum or single */
};

struct bw_sim_lease { /* the algorithm "lease" */
    enum bw_sim_store store;
    bw_time ttl_ns, grace_ns, retry_ns, kill_after_ns, margin_ns;
    bool expires;   /* quorum, single: the store's clock ends a lease (else candidates watch it) */
    bw_time lag_ns; /* forgetful: at most this much of the newest is lost; 0: a TTL */
    bw_time uncertainty_ns; /* declared of every wall clock, and true until one jumps; 0: none is
                               looked at */
};

/* "registry": Raft with the service's registry on it, and clients (registry.h). */
extern const struct bw_elector_ops bw_sim_registry_ops;
/* Raft, alone or under a registry: there are logs. */
bool bw_sim_is_raft(const struct bw_elector_ops *ops);

struct bw_sim_registry_config { /* the algorithm "registry": its clients */
    uint32_t clients;
    bw_time pace_ns; /* between an answer and the next question, on average */
    bw_time ttl_min, ttl_max;
    bw_time stop; /* they ask nothing from then on, and at the end all leases must be gone; 0: never
                   */
};

enum bw_sim_order { BW_ORDER_SORTED, BW_ORDER_REVERSE, BW_ORDER_RANDOM };

#define BW_INITIATOR_NONE ((bw_node)0) /* ordinary start: every node starts by its own rules */
#define BW_INITIATOR_ALL  ((bw_node)UINT32_MAX) /* everybody starts an election at time 0 */

struct bw_sim_config {
    const struct bw_elector_ops *algorithm; /* NULL: none, detectors alone; then `until` is set */
    const struct bw_detector_ops *detector; /* NULL: none */
    uint32_t nodes;                         /* ids 1..nodes */
    uint32_t spare;                         /* further ids nodes+1..nodes+spare may join later */
    uint32_t elections; /* electors per instance that share the detector, default 1 */
    bool spread;        /* all members lead about as many of them (core/shards/balance.h) */
    uint64_t seed;

    struct bw_sim_latency latency;
    double loss, duplicate, reorder; /* chances per message; a reordered one is delayed once more */
    double drift;                    /* each node's clock rate is drawn from 1 +- drift */
    double drift_bound;              /* what the electors are told; default 0.01 */
    bw_time disk_min, disk_max;      /* a durable write takes this long */
    bool transport_tells; /* a send to a dead node comes back as SEND_FAILED (TCP); default true */
    bool transport_hints; /* a crash is seen as HINT by all it could reach after one latency;
                             default false */

    bw_time period_ns;                /* heartbeats and probes */
    bw_time timeout_min, timeout_max; /* 0: follow from latency and period */
    bool fresh_timers; /* Raft: at the leader's crash every follower's timer starts anew (textbook
                          model) */
    bool no_announce;
    bool pre_vote_off;
    bool guard;         /* quorum guard around the algorithm */
    uint32_t quorum;    /* promises the guard wants; 0 = majority */
    bw_time promise_ns; /* 0: follows from timeouts */
    struct bw_sim_lease lease;
    struct bw_sim_registry_config registry;
    enum bw_rank rank;
    uint32_t indirect; /* SWIM's k */
    enum bw_sim_order order;
    bw_node initiator;
    const bw_node *initiators; /* with `initiator` the first of them: further ones start too */
    uint32_t initiators_count;
    const bw_node *crashed, *candidates, *alternatives; /* lists of ids, borrowed */
    uint32_t crashed_count, candidates_count, alternatives_count;

    const struct bw_sim_fault *faults; /* sorted by `at`; borrowed */
    uint32_t faults_count;
    bw_time
        until; /* 0: ends when all live nodes agree on a live leader, every fault has happened, and
                  the electors' messages then under way have come (at most a lap's time later) */
    bw_time limit; /* with until 0: give up here; default 10 min of virtual time */

    bw_time stop_ns;  /* a deposed leader's work is confirmed dead to its own elector after this */
    bw_time work_ns;  /* a leader that may act writes to the resource this often; 0: no work */
    bool fencing_off; /* the resource checks no tokens (anti-pattern) */
    bw_time propose_ns;     /* Raft: the leader is given a proposal this often; 0: none */
    uint32_t propose_count; /* entries per proposal */
    bw_time read_ns; /* Raft: everybody who believes to lead is asked to read this often; 0: no
                        reads */
    uint32_t compact_every; /* Raft: a node compacts after so many applied entries; 0: never */
    bool codec; /* every message goes through encode and decode (slower, proves the codec) */

    FILE *trace; /* one line per event, or NULL; the trace's hash is computed either way */
    const struct bw_sim_observer
        *observer;   /* or NULL; sees everything (checkers, timeline, story) */
    unsigned checks; /* bits of enum bw_check (check.h): checkers to run */
};

struct bw_sim_stats { /* over runs; ms */
    double min, mean, median, p99, max;
};

struct bw_sim_result {                      /* of one run */
    bw_node leader;                         /* agreed at the end, or none */
    uint32_t max_leaders;                   /* at once, by claim */
    bw_term term;                           /* highest at the end */
    bw_time time_to_leader;                 /* see sim run; BW_TIME_NEVER if none came */
    bw_time leaderless;                     /* time without any live, unpaused leader */
    bw_time longest_gap;                    /* of it, the longest at a stretch after the first */
    bw_time split_brain;                    /* time with two or more that may act */
    uint64_t sent, delivered, failed_sends; /* the electors' messages alone */
    uint64_t by_kind[BW_SIM_KINDS];         /* sent */
    uint64_t detector_sent;
    uint64_t elections, leader_changes;
    uint64_t writes_tried, stale_tried, stale_accepted;
    bw_time detection_first, detection_all; /* crash (or cut, pause) to first / last live observer's
                                               suspicion; NEVER: none */
    uint64_t false_suspicions;
    uint64_t member_periods; /* members x periods observed */
    uint64_t events;
    uint64_t committed;          /* Raft */
    uint64_t reads, stale_reads; /* Raft: answered; below what was committed when they were asked */
    uint64_t asked, asked_ok, asked_unknown; /* registry: by clients */
    uint64_t leases_ended;                   /* registry */
    uint32_t undecided; /* registry: keys whose history was too hard to judge */
    bw_time virtual_ns;
    uint64_t trace_hash;
    const char *violation; /* NULL, or what a checker found (static or in violation_text) */
    char violation_text[200];
    bw_time violation_at;
};

/* What happened, told to observers in order. All times are the world's; a node's clock is its own
 * business. */
struct bw_sim_observer {
    void *context;
    void (*sent)(void *context, bw_time at, const struct bw_message *msg,
                 bw_time arrives); /* NEVER: lost */
    void (*delivered)(void *context, bw_time at, const struct bw_message *msg);
    void (*announced)(void *context, bw_time at, bw_node node, uint32_t election,
                      const struct bw_announcement *a, bw_time act_from,
                      bw_time act_until); /* the last two in the world's time */
    void (*suspected)(void *context, bw_time at, bw_node node, bw_node whom, bool suspect,
                      double level);
    void (*faulted)(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node);
    void (*wrote)(void *context, bw_time at, bw_node node, bw_token token, bool accepted,
                  bool stale);
    void (*traced)(void *context, bw_time at, bw_node node, const struct bw_trace_note *note);
    /* hash: of all that was applied up to index, so equal hashes at an index mean equal logs up to
     * it. A restarted node reports again from its snapshot on; one that takes a snapshot over
     * reports its last index only. */
    void (*committed)(void *context, bw_time at, bw_node node, uint32_t election, bw_index index,
                      uint64_t hash);
};

/* May many of its elections be spread over the members? Not where the same one leads all, nor over
 * stores. */
bool bw_sim_can_spread(const struct bw_elector_ops *algorithm);

/* Fills in the defaults named above: bully, deadline, 5 nodes, 1..5 ms latency, 100 ms period. */
void bw_sim_defaults(struct bw_sim_config *config);

/* Returns 0, or BW_EINVAL / BW_ELIMIT / BW_ENOMEM with a sentence in `why` (200 bytes) naming the
 * setting. */
int bw_sim_run(const struct bw_sim_config *config, struct bw_sim_result *result, char *why);

/* The same for loops of many runs: the world's memory is kept and used again. new: NULL without
 * memory. */
struct bw_sim;
struct bw_sim *bw_sim_new(void);
void bw_sim_free(struct bw_sim *sim);
int bw_sim_run_in(struct bw_sim *sim, const struct bw_sim_config *config,
                  struct bw_sim_result *result, char *why);

#endif
