/* Who leads? The interface every election algorithm shares.
 *
 * An elector hears of suspicions from whichever detector the instance runs, speaks through actions,
 * and announces who leads. What it promises in a partition stands in its ops, because users choose
 * by it. */
#ifndef BW_ELECT_ELECTOR_H
#define BW_ELECT_ELECTOR_H

#include "core/base/action.h"
#include "core/base/event.h"
#include "core/base/types.h"

enum bw_rank { BW_RANK_ID, BW_RANK_STABILITY };

enum bw_elector_trait {
    BW_TRAIT_MAY_SPLIT = 1,     /* two leaders in a partition unless guarded */
    BW_TRAIT_TOKEN = 2,         /* announcements carry a token */
    BW_TRAIT_DETERMINISTIC = 4, /* the same failure gives the same leader, whatever the timing */
    BW_TRAIT_GUARDABLE = 8,     /* the quorum guard can stand around it */
    BW_TRAIT_OWN_TIMERS = 16    /* notices a dead leader without a detector */
};

struct bw_elector_ops;
struct bw_raft_saved;

/* One struct for all; bw_elector_defaults fills it in, an elector reads what concerns it. */
struct bw_elector_config {
    bw_node self;
    const struct bw_member *members; /* all configured, self included; borrowed for init */
    uint32_t count, cap;             /* cap: the most there may ever be */
    const bw_node *order; /* rings: the members in ring order, `count` long; NULL = by id */
    uint64_t seed;
    bw_time latency_ns;  /* assumed bound on a message's way; bully's T1 = 2 latency_ns + margin */
    bw_time answer_ns;   /* how long an answer is awaited: bully's T1, poll, contact */
    bw_time announce_ns; /* bully's T2: how long, after an OK, the announcement is awaited; rings: a
                            lap */
    bw_time timeout_min_ns, timeout_max_ns; /* Raft: election time-out drawn from here */
    bw_time period_ns; /* Raft: heartbeat; stable leader: delta; invitation: how often groups look
                          for each other */
    bool together;     /* Raft: heartbeats at whole periods of the clock, so that those of many
                          elections go as one */
    bool announce;     /* rings: the winner sends an announcement lap (off: only it knows) */
    bool pre_vote, check_quorum; /* Raft */
    bool hints;        /* Raft: a closed connection makes a voter forget that it heard the leader */
    bool untimed;      /* Raft: nothing acts by its windows, so nothing is promised or waited for */
    enum bw_rank rank; /* bully */
    bw_time forgive_ns;          /* bully by stability: uptime that takes one demerit away */
    const bw_node *alternatives; /* next-in-line: the first list, best first; NULL = highest ids */
    uint32_t alternatives_count;
    uint32_t demerits_free; /* bully by stability: restarts that cost no rank */
    /* Timed promises (quorum guard, Raft's act_until): length T, drift bound rho in parts per
     * million. 0: Raft: the shortest time-out; others: as bw_elector_promise says. */
    bw_time promise_ns;
    uint32_t drift_ppm;
    uint32_t quorum;       /* guard: promises needed, at least a majority; 0 = majority */
    const bw_node *voters; /* guard: whose promises count, whoever joins or leaves; borrowed for
                              its life; NULL: the members' */
    uint32_t voters_count;
    const struct bw_elector_ops *inner; /* guard: what it stands around */
    const struct bw_raft_saved *saved;  /* Raft: the log as found on disk; NULL = empty */
    uint32_t batch_max;                 /* Raft: entries in one append */
    const void *host; /* what a caller's own elector needs besides; borrowed for its life */
};

struct bw_elector_status {
    bw_node leader;
    bool leading;  /* leads by the algorithm, whether or not it may act yet */
    bool electing; /* an election is under way */
    bw_term term;
    bw_token token;
    bw_time act_from, act_until; /* when leading */
    const char *state;           /* the module's own name of its state */
};

struct bw_elector_ops {
    const char *name;
    const char *promise; /* one sentence: what happens in a partition */
    unsigned traits;
    size_t (*bytes)(const struct bw_elector_config *config);
    uint32_t (*actions_max)(const struct bw_elector_config *config);
    /* Lays the state out in `memory` (bytes() long, 16-byte aligned). Returns 0, BW_EINVAL,
     * BW_ELIMIT or BW_ENOMEM. */
    int (*init)(void *memory, const struct bw_elector_config *config);
    void (*step)(void *self, const struct bw_event *event, struct bw_actions *actions);
    bw_time (*deadline)(const void *self);
    void (*status)(const void *self, struct bw_elector_status *out);
    /* Optional: we lead; would a TRANSFER to `node` be carried out at once? NULL: to anybody. */
    bool (*ready)(const void *self, bw_node node);
};

extern const struct bw_elector_ops bw_elect_bully, bw_elect_bully_notify, bw_elect_bully_next,
    bw_elect_bully_candidates, bw_elect_ring_list, bw_elect_ring_max, bw_elect_ring_chang_roberts,
    bw_elect_ring_hirschberg_sinclair, bw_elect_invitation, bw_elect_lowest, bw_elect_stable,
    bw_elect_raft, bw_elect_guard;

/* By name ("bully-next-in-line", ...), or NULL; and the i-th of all, NULL past the last. The guard
 * is not listed: it is asked for with `quorum`. */
const struct bw_elector_ops *bw_elector_find(const char *name);
const struct bw_elector_ops *bw_elector_at(unsigned i);

/* Time-outs that follow from a latency bound and a period; announce, pre-vote, check-quorum and
 * hints on; drift 1 %. Identity and membership are left alone; `count` must be set. */
void bw_elector_defaults(struct bw_elector_config *config, bw_time latency_ns, bw_time period_ns);
/* How long a promise binds: as set, or 10 periods, or 20 latencies if that is more. */
bw_time bw_elector_promise(const struct bw_elector_config *config);

#endif
