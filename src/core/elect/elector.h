/* The interface that all election algorithms share: which member leads?
 *
 * An elector receives suspicions from the detector of the instance, sends messages through actions,
 * and announces the leader. `promise` in its ops states what it guarantees in a partition, because
 * users choose by that. */
#ifndef BW_CORE_ELECT_ELECTOR_H
#define BW_CORE_ELECT_ELECTOR_H

#include "core/base/action.h"
#include "core/base/event.h"
#include "core/base/types.h"

enum bw_rank { BW_RANK_ID, BW_RANK_STABILITY };

enum bw_elector_trait {
    BW_TRAIT_MAY_SPLIT = 1,     /* two leaders in a partition, unless guarded */
    BW_TRAIT_TOKEN = 2,         /* announcements carry a fencing token */
    BW_TRAIT_DETERMINISTIC = 4, /* the same failure gives the same leader, whatever the timing */
    BW_TRAIT_GUARDABLE = 8,     /* the quorum guard can wrap it */
    BW_TRAIT_OWN_TIMERS = 16    /* notices a dead leader without a detector */
};

struct bw_digest;
struct bw_elector_ops;
struct bw_raft_saved;

/* One struct for all electors. bw_elector_defaults fills it in; each elector reads the fields that
 * concern it. */
struct bw_elector_config {
    bw_node self;
    const struct bw_member *members; /* all configured members including self; borrowed for init */
    uint32_t count, cap;             /* cap: maximum number of members ever */
    const bw_node *order;            /* rings: the `count` members in ring order; NULL: by id */
    uint64_t seed;
    bw_time latency_ns; /* assumed maximum delay of a message; bully's T1 = 2 latency_ns + margin */
    bw_time answer_ns;  /* time to wait for a reply: bully's T1, poll, contact */
    /* bully's T2: time to wait for the announcement after an OK; rings: one lap */
    bw_time announce_ns;
    bw_time timeout_min_ns, timeout_max_ns; /* Raft: range of the random election timeout */
    /* Raft: heartbeat period; stable leader: delta; invitation: period of the search for other
     * groups */
    bw_time period_ns;
    /* Raft: send heartbeats at whole periods of the clock, so that those of many elections share
     * packets */
    bool together;
    bool announce; /* rings: the winner sends an announcement lap (false: only the winner knows) */
    bool pre_vote, check_quorum; /* Raft */
    /* Raft: a closed connection makes a voter forget that it received from the leader */
    bool hints;
    bool untimed;      /* Raft: no work depends on the windows, so nodes neither promise nor wait */
    enum bw_rank rank; /* bully */
    /* bully by stability: uptime that removes one unit of the flapping penalty */
    bw_time forgive_ns;
    /* next-in-line: the first list of alternatives, best first; NULL: the highest ids */
    const bw_node *alternatives;
    uint32_t alternatives_count;
    uint32_t penalty_free; /* bully by stability: number of restarts without penalty */
    /* Timed promises (quorum guard, Raft's act_until): their length T, and the drift bound rho in
     * parts per million. promise_ns == 0: Raft uses timeout_min_ns, the guard the default of
     * bw_elector_promise. */
    bw_time promise_ns;
    uint32_t drift_ppm;
    uint32_t quorum; /* guard: number of promises needed, at least a majority; 0: a majority */
    /* guard: the members whose promises count, independent of joins and leaves; borrowed for the
     * elector's lifetime; NULL: all members */
    const bw_node *voters;
    uint32_t voters_count;
    const struct bw_elector_ops *inner; /* guard: the elector that it wraps */
    const struct bw_raft_saved *saved;  /* Raft: the log found on disk; NULL: empty */
    uint32_t batch_max;                 /* Raft: maximum number of entries in one append */
    const void *host; /* data for a caller's own elector; borrowed for its lifetime */
};

struct bw_elector_status {
    bw_node leader;
    bool leading;  /* leader by the algorithm, even if it may not act yet */
    bool electing; /* an election is in progress */
    bw_term term;
    bw_token token;
    bw_time act_from, act_until; /* if leading */
    const char *state;           /* the module's name of its state */
};

struct bw_elector_ops {
    const char *name;
    const char *promise; /* one sentence: what happens in a partition */
    unsigned traits;
    size_t (*bytes)(const struct bw_elector_config *config);
    uint32_t (*actions_max)(const struct bw_elector_config *config);
    /* Lays out the state in `memory`, which has bytes() bytes and is 16-byte aligned. Returns 0,
     * BW_EINVAL, BW_ELIMIT or BW_ENOMEM. */
    int (*init)(void *memory, const struct bw_elector_config *config);
    void (*step)(void *self, const struct bw_event *event, struct bw_actions *actions);
    bw_time (*deadline)(const void *self);
    void (*status)(const void *self, struct bw_elector_status *out);
    /* Optional: whether we, the leader, would carry out a TRANSFER to `node` at once. NULL: to any
     * member. */
    bool (*ready)(const void *self, bw_node node);
    /* Optional, for the explorer only: adds the state to a digest; and makes every later random
     * draw yield its lower bound. */
    void (*digest)(const void *self, struct bw_digest *out);
    void (*fix_draws)(void *self);
};

extern const struct bw_elector_ops bw_elect_bully, bw_elect_bully_notify, bw_elect_bully_next,
    bw_elect_bully_candidates, bw_elect_ring_list, bw_elect_ring_max, bw_elect_ring_chang_roberts,
    bw_elect_ring_hirschberg_sinclair, bw_elect_invitation, bw_elect_lowest, bw_elect_stable,
    bw_elect_raft, bw_elect_guard;

/* The elector with this name ("bully-next-in-line", ...), or NULL; and the i-th elector, NULL past
 * the last. The quorum guard is not in this table; the option `quorum` selects it. */
const struct bw_elector_ops *bw_elector_find(const char *name);
const struct bw_elector_ops *bw_elector_at(unsigned i);

/* Sets timeouts that follow from a latency bound and a period; turns on announce, pre-vote,
 * check-quorum and hints; sets the drift bound to 1 %. Does not change identity and membership.
 * `count` must be set before. */
void bw_elector_defaults(struct bw_elector_config *config, bw_time latency_ns, bw_time period_ns);
/* The length of a promise: promise_ns if set, otherwise the larger of 10 periods and 20
 * latencies. */
bw_time bw_elector_promise(const struct bw_elector_config *config);

#endif
