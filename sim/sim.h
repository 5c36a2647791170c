/* The interface of the simulated world: a configuration goes in, one run happens, figures come out.
 * The configuration with its seed determines the run completely.
 *
 * The world replaces everything that a host provides: clock, network, disks, processes. It runs the
 * shipped bw_instance objects. Checkers (check.h) watch it only through the observer and do not
 * know its internals. */
#ifndef BW_SIM_SIM_H
#define BW_SIM_SIM_H

#include "core/elect/instance.h"

#include <stdio.h>

#define BW_SIM_FAULTS_MAX 640u
#define BW_SIM_KINDS      (BW_MSG_COUNT)

enum bw_sim_fault_kind {
    BW_FAULT_CRASH,   /* node loses everything that is not durable */
    BW_FAULT_RESTART, /* node starts again */
    BW_FAULT_PAUSE,   /* node stops running; its timers and messages wait (SIGSTOP, VM pause) */
    BW_FAULT_RESUME,  /* end of PAUSE for node */
    /* nodes in different groups cannot communicate; a node in no group is isolated */
    BW_FAULT_PARTITION,
    BW_FAULT_CUT,     /* messages node>peer are lost, in this direction only */
    BW_FAULT_MEND,    /* end of CUT for node>peer */
    BW_FAULT_HEAL,    /* ends every partition and cut */
    BW_FAULT_LOSS,    /* probability `rate` of message loss from now on */
    BW_FAULT_LATENCY, /* `latency` of messages from now on */
    BW_FAULT_DRIFT,   /* node's clock rate is 1 + rate from now on */
    /* node's wall clock jumps by span (monotonic clocks do not jump; only leases with a declared
     * clock uncertainty read wall clocks) */
    BW_FAULT_JUMP,
    BW_FAULT_DISK_FAIL, /* node's next durable write fails; the process must exit, and does */
    BW_FAULT_DISK_SLOW, /* node's durable writes take span from now on (0 = normal) */
    BW_FAULT_HINT,      /* node's connection to peer closes */
    /* all nodes learn that node's work is confirmed dead (node must be crashed) */
    BW_FAULT_CONFIRM,
    BW_FAULT_JOIN,  /* node starts as a new member; all members learn of it */
    BW_FAULT_LEAVE, /* node gets the event STOP and stops; then all members learn that it left */
    /* command to node; peer: the leader that failed, or, for invitation, the node to invite */
    BW_FAULT_CAMPAIGN,
    BW_FAULT_RESIGN, /* command to node */
    /* command to node: transfer leadership to peer; node 0 = the current leader */
    BW_FAULT_TRANSFER,
    BW_FAULT_STORE_DOWN, /* lease: the store becomes unavailable as its model defines it */
    BW_FAULT_STORE_UP,   /* lease: the store is available again */
    /* registry: a crashed node loses its disk; it asks to join and is replaced. lease, with a store
     * as node: its records are deleted as soon as no candidate holds one. others: see members.c */
    BW_FAULT_WIPE,
    BW_FAULT_KILL, /* like CRASH, but node's work runs on until its right to act ends */
    /* Raft: an operator removes node from the group; its process learns nothing of this */
    BW_FAULT_REMOVE,
    BW_FAULT_SECOND, /* a second process starts under node's id; see duplicate_id.c */
    BW_FAULT_UNABLE, /* node's host is drained or unhealthy: it resigns when elected (unable.c) */
    BW_FAULT_ABLE    /* end of UNABLE for node */
};

enum bw_sim_dist { BW_DIST_UNIFORM, BW_DIST_EXPONENTIAL };

struct bw_sim_latency {
    enum bw_sim_dist dist;
    /* uniform: the range (equal = fixed); exponential: min + Exp(mean = max - min) */
    bw_time min, max;
};

struct bw_sim_fault {
    enum bw_sim_fault_kind kind;
    bw_time at;         /* virtual time since the start */
    bw_node node, peer; /* node 0: the leader at that time, for faults that allow it */
    uint32_t shard;     /* RESIGN: only this election, counted from 1; 0: all elections */
    double rate;
    bw_time span;
    struct bw_sim_latency latency;
    /* PARTITION: [i] is the group of node id i, 0 = none; nodes + spare + 1 entries (lease: one
     * more per store; a store in no group is in the first). Owned by the script that created it. */
    uint8_t *groups;
};

/* Models of the store that keeps leases. Stores are nodes of the world, with ids above all
 * candidates. The models differ in what an outage of the store does. */
enum bw_sim_store {
    /* Loses no write. Outage: it is paused, and serves the waiting requests later. */
    BW_SIM_STORE_QUORUM,
    /* Responds after its writes are durable. Outage: it crashes, and restarts later. */
    BW_SIM_STORE_SINGLE,
    /* Responds before its writes are durable. Outage: it crashes and loses its newest writes. */
    BW_SIM_STORE_FORGETFUL,
    /* Five stores without disks, of which a majority grants a lease. Outage: three crash. */
    BW_SIM_STORE_REDLOCK,
    BW_SIM_STORE_ANY /* storms only: the seed chooses QUORUM or SINGLE */
};

struct bw_sim_lease { /* settings of the algorithm "lease" */
    enum bw_sim_store store;
    bw_time ttl_ns, grace_ns, retry_ns, kill_after_ns, margin_ns;
    /* quorum, single: the store's clock ends leases (else candidates observe them) */
    bool expires;
    bw_time lag_ns; /* forgetful: maximum age of lost writes; 0: a TTL */
    /* declared error of every wall clock, true until one jumps; 0: wall clocks are not used */
    bw_time uncertainty_ns;
};

/* "registry": Raft with the registry of `bellwether serve` and clients (registry.h). */
extern const struct bw_elector_ops bw_sim_registry_ops;
/* Returns whether the algorithm is Raft, alone or under a registry, and so has logs. */
bool bw_sim_is_raft(const struct bw_elector_ops *ops);

struct bw_sim_registry_config { /* clients of the algorithm "registry" */
    uint32_t clients;
    bw_time pace_ns; /* mean pause between a response and the next request */
    bw_time ttl_min, ttl_max;
    bw_time stop; /* time when clients stop; at the end no lease may remain; 0: never */
};

enum bw_sim_order { BW_ORDER_SORTED, BW_ORDER_REVERSE, BW_ORDER_RANDOM };

#define BW_INITIATOR_NONE ((bw_node)0) /* normal start: every node starts by its own rules */
#define BW_INITIATOR_ALL  ((bw_node)UINT32_MAX) /* every node starts an election at time 0 */

struct bw_sim_config {
    const struct bw_elector_ops *algorithm; /* NULL: detectors only; then `until` must be set */
    const struct bw_detector_ops *detector; /* NULL: none */
    uint32_t nodes;                         /* ids 1..nodes */
    /* number of further ids, nodes+1..nodes+spare, that can join later */
    uint32_t spare;
    uint32_t elections; /* electors per instance that share the detector; default 1 */
    bool spread;        /* spread leadership evenly over the members (core/shards/peer_balance.h) */
    uint64_t seed;

    struct bw_sim_latency latency;
    /* probabilities per message; to reorder a message, the network adds a second latency to it */
    double loss, duplicate, reorder;
    double drift;               /* each node's clock rate is drawn from 1 +- drift */
    double drift_bound;         /* drift that the electors assume; default 0.01 */
    bw_time disk_min, disk_max; /* range of the duration of a durable write */
    /* a send to a dead node is reported as SEND_FAILED (TCP); default true */
    bool transport_reports;
    /* after one latency, nodes that a crashed node could reach get a HINT; default false */
    bool transport_hints;

    bw_time period_ns;                /* interval of heartbeats and probes */
    bw_time timeout_min, timeout_max; /* 0: derived from latency and period */
    /* Raft: every follower's timer restarts when the leader crashes (textbook model) */
    bool fresh_timers;
    bool no_announce;
    bool pre_vote_off;
    bool guard;         /* add the quorum guard to the algorithm */
    bool founders_vote; /* guard: only the promises of ids 1..nodes count, as in `peer` */
    /* members leave, are removed and return as in `peer`; see members.c */
    bool peer_rules;
    /* the highest spare id is not a member, but the place of a second process under another id */
    bool second;
    uint32_t quorum;    /* number of promises that the guard needs; 0 = majority */
    bw_time promise_ns; /* 0: derived from the timeouts */
    struct bw_sim_lease lease;
    struct bw_sim_registry_config registry;
    enum bw_rank rank;
    uint32_t indirect; /* k of SWIM */
    enum bw_sim_order order;
    bw_node initiator;
    const bw_node *initiators; /* list of several initiators; the first equals `initiator` */
    uint32_t initiators_count;
    const bw_node *crashed, *candidates, *alternatives; /* lists of ids; borrowed */
    uint32_t crashed_count, candidates_count, alternatives_count;

    const struct bw_sim_fault *faults; /* sorted by `at`; borrowed */
    uint32_t faults_count;
    /* 0: the run ends when all live nodes agree on a live leader, every fault has happened, and the
     * electors' pending messages have arrived (at most the time of one ring lap later) */
    bw_time until;
    bw_time limit; /* with until 0: maximum virtual time; default 10 min */
    /* with until 0: after the end the observer sees the world for this part of the run's time more
     * (0.1: for 10 %). The figures and the trace cover only the run itself. */
    double run_on;

    bw_time stop_ns; /* time until a deposed leader's work is confirmed dead to its own elector */
    bool lingers;    /* for this time the work still acts, but never longer than its lease */
    bw_time news_ns; /* Raft: maximum delay of a report that a leader's work is dead */
    /* until `timers_late_until`, each timer fires up to this much late, as in a busy event loop */
    bw_time timers_late_ns, timers_late_until;
    /* interval at which a leader that may act writes to the resource; 0: no work */
    bw_time work_ns;
    bool fencing_off;       /* the resource checks no tokens (an anti-pattern) */
    bw_time propose_ns;     /* Raft: interval between proposals to the leader; 0: none */
    uint32_t propose_count; /* entries per proposal */
    bw_time read_ns; /* Raft: interval between reads at every node that claims to lead; 0: none */
    uint32_t compact_every; /* Raft: a node compacts after this many applied entries; 0: never */
    bool codec;             /* encode and decode every message (slower; tests the codec) */

    FILE *trace; /* gets one line per event, or NULL; the trace's hash is always computed */
    const struct bw_sim_observer *observer; /* sees all events (timeline, story), or NULL */
    unsigned checks; /* bits of enum bw_check (check.h): the checkers to run */
};

struct bw_sim_stats { /* over many runs; in ms */
    double min, mean, median, p99, max;
};

struct bw_sim_result { /* figures of one run */
    bw_node leader;    /* the leader agreed on at the end, or none */
    /* highest number of nodes that claimed to lead at once */
    uint32_t max_leaders;
    bw_term term; /* highest term at the end */
    /* Times; figures/metrics.h defines each of them. NEVER: it did not happen. */
    bw_time noticed, time_to_leader, time_to_act, time_to_agree;
    bw_time leaderless, longest_gap, none_acted, split_brain;
    uint64_t sent, delivered, failed_sends; /* messages of the electors only */
    uint64_t by_kind[BW_SIM_KINDS];         /* messages sent */
    uint64_t detector_sent;
    uint64_t elections, leader_changes;
    uint64_t writes_tried, stale_tried, stale_accepted;
    /* crash (or cut, pause) to the first / last live observer's suspicion; NEVER: none */
    bw_time detection_first, detection_all;
    uint64_t false_suspicions;
    uint64_t member_periods; /* number of members times periods observed */
    uint64_t events;
    uint64_t committed; /* Raft */
    /* Raft: number of reads that were answered, and of those with an index older than the one
     * committed when the read was sent */
    uint64_t reads, stale_reads;
    uint64_t asked, asked_ok, asked_unknown; /* registry: requests of clients */
    uint64_t leases_ended;                   /* registry */
    uint32_t undecided; /* registry: keys whose history exceeded the checker's bound */
    bw_time virtual_ns;
    /* with until 0: all nodes agreed when the last fault happened and until the run ended, so the
     * run shows no effect of this fault on the election */
    bool last_fault_unseen;
    uint64_t trace_hash;
    const char *violation; /* NULL, or the text of a checker (static or in violation_text) */
    char violation_text[200];
    bw_time violation_at;
};

/* Intervals that metrics.c measures. The figures of a run are sums of them; pictures and stories
 * are made of them. */
enum bw_sim_measure {
    BW_MEASURE_LED,   /* node claimed to lead in `term`; it may have been paused */
    BW_MEASURE_ACTED, /* node led, ran and was allowed to act */
    BW_MEASURE_NONE_ACTED,
    BW_MEASURE_ONE_ACTED, /* exactly one node acted */
    BW_MEASURE_TWO_ACTED, /* two or more acted; node and other did at its start */
    BW_MEASURE_AGREED     /* all running nodes followed node; count: their number at its start */
};

struct bw_sim_interval {
    enum bw_sim_measure kind;
    bw_node node, other;
    bw_time from, to; /* from < to; AGREED: at the end of a run from == to is possible */
    bw_term term;     /* LED, ACTED */
    uint32_t count;   /* AGREED */
};

/* Callbacks for events, in order. All times are on the world's clock unless noted. */
struct bw_sim_observer {
    void *context;
    /* arrives NEVER: the message is lost. */
    void (*sent)(void *context, bw_time at, const struct bw_message *msg, bw_time arrives);
    void (*delivered)(void *context, bw_time at, const struct bw_message *msg);
    /* act_from and act_until are on the world's clock; those in `a` are on the node's clock. */
    void (*announced)(void *context, bw_time at, bw_node node, uint32_t election,
                      const struct bw_announcement *a, bw_time act_from, bw_time act_until);
    void (*suspected)(void *context, bw_time at, bw_node node, bw_node target, bool suspect,
                      double level);
    void (*faulted)(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node);
    void (*wrote)(void *context, bw_time at, bw_node node, bw_token token, bool accepted,
                  bool stale);
    void (*traced)(void *context, bw_time at, bw_node node, const struct bw_trace_note *note);
    /* hash: of everything applied up to index. Equal hashes at an index mean equal logs up to it. A
     * restarted node reports again from its snapshot on. A node that installs a snapshot reports
     * only the snapshot's last index. */
    void (*committed)(void *context, bw_time at, bw_node node, uint32_t election, bw_index index,
                      uint64_t hash);
    /* An interval has ended. It may have ended before the event that made this known. Only for the
     * observer of the configuration. */
    void (*measured)(void *context, const struct bw_sim_interval *interval);
};

/* Returns whether the algorithm's elections can be spread over the members. They cannot where one
 * leader leads all elections, nor with stores. */
bool bw_sim_can_spread(const struct bw_elector_ops *algorithm);

/* Sets the defaults: bully, deadline, 5 nodes, 1..5 ms latency, 100 ms period. */
void bw_sim_defaults(struct bw_sim_config *config);

/* Runs once. Returns 0, or BW_EINVAL / BW_ELIMIT / BW_ENOMEM with a reason in `why` (200 bytes)
 * that names the setting. */
int bw_sim_run(const struct bw_sim_config *config, struct bw_sim_result *result, char *why);

/* A struct bw_sim keeps and reuses the world's memory for many runs. bw_sim_run_in is otherwise the
 * same as bw_sim_run. bw_sim_new returns NULL without memory. */
struct bw_sim;
struct bw_sim *bw_sim_new(void);
void bw_sim_free(struct bw_sim *sim);
int bw_sim_run_in(struct bw_sim *sim, const struct bw_sim_config *config,
                  struct bw_sim_result *result, char *why);

#endif
