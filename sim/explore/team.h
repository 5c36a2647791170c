/* The world of the targets raft, raft-reconfigure, guard and session: a few nodes that run the
 * shipped bw_instance, the messages between them, their disks, and what judges them.
 *
 * Model:
 * - Time is discrete. All clocks show the same time, a multiple of TICK, and messages take no time
 *   or any time. Time passes only by `advance`, which goes to the next time that any node or window
 *   waits for, and by a `timeout` whose deadline is in the future.
 * - No node is ever obliged to act: a timeout may come late, a message may stay undelivered. That
 *   covers pauses, partitions, loss and slow hosts, and every longer random timeout. Random draws
 *   yield their lower bound.
 * - A link holds at most `links` messages, in no order. A further message replaces the oldest one.
 *   In a scripted beginning a link holds one message, so that every `links` has the same
 *   beginnings.
 * - Bounded delays: the natural next action is to deliver the oldest message in flight; without
 *   one, to make the first log durable; without one, the timeout with the earliest deadline. Each
 *   action that differs from it costs one delay, and so does the loss of a message. Faults and
 *   commands have their own budgets. With unlimited delays every order is possible, also a loss: an
 *   undelivered message.
 * - A PERSIST is durable at once. That loses nothing: no other node sees what is behind an
 *   unfinished PERSIST, so the step might as well have come later, or, with a crash, never.
 * - Raft's log becomes durable by a separate action (`persist`), unless `eager`. A crash loses the
 *   rest.
 * - The work of a leader runs in its announced window and may ignore everything else: a crash, a
 *   pause and the loss of leadership do not end it before act_until.
 *
 * A target may put a service above the electors (the target session does): it sees every action of
 * an elector, and its own actions belong to the same search. */
#ifndef BW_SIM_EXPLORE_TEAM_H
#define BW_SIM_EXPLORE_TEAM_H

#include "core/elect/instance.h"
#include "sim/explore/explore.h"

#define BW_TEAM_NODES 5u
#define BW_TEAM_LOG   16u
#define BW_TEAM_TERMS 32u
#define BW_TEAM_TICK  (100 * BW_MS)

enum bw_team_verb {
    BW_TEAM_ADVANCE,
    BW_TEAM_TIMEOUT,
    BW_TEAM_DELIVER,
    BW_TEAM_PERSIST, /* the log of the node becomes durable */
    BW_TEAM_RESTART,
    BW_TEAM_LOSE, /* a message is lost */
    BW_TEAM_NAME, /* guard: the inner elector of A names B */
    BW_TEAM_ADD,
    BW_TEAM_PROMOTE,
    BW_TEAM_REMOVE,
    BW_TEAM_PROPOSE,
    BW_TEAM_DUPLICATE, /* deliver, and leave a copy in flight */
    BW_TEAM_SUSPECT,   /* the node suspects its leader */
    BW_TEAM_CRASH,
    BW_TEAM_TRANSFER,
    BW_TEAM_RESIGN,
    BW_TEAM_KILL, /* the work of a deposed or crashed leader is confirmed dead */
    BW_TEAM_DEAD, /* A learns that the work of B is dead */
    BW_TEAM_JOIN, /* guard: A learns that B joined */
    BW_TEAM_LEAVE,
    BW_TEAM_PAUSE, /* the process of a leader takes no further step, its work goes on */
    BW_TEAM_BEGIN, /* the first action, if there are several beginnings: plays prefix A */
    BW_TEAM_VERBS
};

struct bw_team_service { /* runs above the electors; `owner` is the state of the target */
    void (*started)(void *owner, bw_node id);
    /* The elector of `id` asked for the action; the group has carried out its own part. */
    bool (*acted)(void *owner, bw_node id, const struct bw_action *action, char *why);
    /* The natural next action of the service. Returns false if it has none. */
    bool (*natural)(void *owner, struct bw_explore_action *out);
    void (*digest)(void *owner, struct bw_digest *out);
};

struct bw_team_settings { /* of a target */
    const struct bw_explore_target *target;
    const struct bw_team_service *service; /* NULL: none */
    const struct bw_elector_ops *ops;
    uint32_t nodes, voters; /* ids 1..nodes, of which 1..voters vote at first */
    bw_time period, timeout, promise;
    bool eager, raft;
    bool untimed; /* nodes promise nothing, and windows are not judged */
    uint32_t links;
    uint32_t verbs;   /* a bit for each possible verb */
    uint64_t faults;  /* how many faults may happen: the verbs from DUPLICATE on */
    uint64_t changes; /* how many membership changes, or names under the guard, may happen */
    uint64_t delays;  /* how many actions may differ from the natural one */
    bool joint;       /* faults and changes count as delays */
    /* the beginnings: actions before the first free choice, up to NULL; up to NULL. The action
     * "settle" takes natural actions until only timeouts are left; "budget F C" replaces the
     * numbers of faults and changes. */
    const char *const *const *prefixes;
};

struct bw_team_entry {
    uint8_t term, op, node;
    uint8_t payload; /* number that the service gives to the bytes of the entry; 0: none */
};

struct bw_team_log {
    uint32_t count, unused;
    struct bw_team_entry at[BW_TEAM_LOG];
};

struct bw_team_window { /* of a node's work */
    bw_time from, until;
    bw_term term;
};

enum bw_team_process { BW_TEAM_DOWN, BW_TEAM_UP, BW_TEAM_PAUSED };

struct bw_team_node {
    uint64_t up;   /* enum bw_team_process */
    bw_term led;   /* the newest term in which it announced a window */
    bw_term asked; /* the newest term in which it was asked to step down, its work stopped */
    bw_term dead;  /* its work of terms up to this one is confirmed dead */
    struct bw_durable disk;
    struct bw_team_log log, durable;
    struct bw_team_window window;
};

struct bw_team {
    void *owner; /* the state of the target; set before bw_team_begin if it is another one */
    const struct bw_team_settings *settings;
    struct bw_actions actions; /* scratch, private to the process */
    uint32_t links;
    bool playing;          /* a prefix, in which a link holds one message whatever `links` is */
    uint64_t delays_given; /* number of delays from the command line, or that of the target */
    size_t block;          /* bytes of one instance */
    struct bw_instance *instance[BW_TEAM_NODES];
    unsigned char *memory;      /* blocks of the instances */
    struct bw_message *message; /* [from][to][links] */
    uint64_t *sent;             /* [from][to][links]: the number of each message */
    /* From here on the state changes. */
    bw_time now;
    uint64_t faults, changes, delays; /* how many are left */
    uint64_t begun;                   /* the prefix was played */
    uint64_t sends;                   /* number of messages sent */
    uint8_t in_flight[32];            /* [from][to] */
    struct bw_team_node node[BW_TEAM_NODES];
    /* Kept for the judges: the leader of each term, the committed entries, the highest token. */
    uint8_t leader_of[BW_TEAM_TERMS];
    struct bw_team_log committed;
    bw_token token;
    uint64_t token_holder;
    bw_time token_from; /* start of its window */
    /* Under the guard: the newest epoch of B whose release A received; B = A: that A sent. */
    uint8_t released[BW_TEAM_NODES][BW_TEAM_NODES];
};

static inline bool bw_team_bounded(const struct bw_team *team)
{
    return team->delays < BW_EXPLORE_UNLIMITED;
}

/* The number of times that the verb may still happen; NULL: always. */
static inline uint64_t *bw_team_left(struct bw_team *team, unsigned verb)
{
    bool fault = verb >= BW_TEAM_DUPLICATE && verb < BW_TEAM_BEGIN;
    bool change = verb >= BW_TEAM_NAME && verb <= BW_TEAM_REMOVE;
    if (team->settings->joint)
        return (fault || change) && bw_team_bounded(team) ? &team->delays : NULL;
    return fault ? &team->faults : change ? &team->changes : NULL;
}

/* team.c */
size_t bw_team_bytes(const struct bw_team_settings *settings, uint32_t links);
const char *bw_team_begin(struct bw_team *team, const struct bw_team_settings *settings,
                          const struct bw_explore_options *options, char *why);
uint32_t bw_team_spans(const void *state, struct bw_explore_span *out);
/* Steps node `id`. Returns false with a violation in `why`. */
bool bw_team_step(struct bw_team *team, bw_node id, struct bw_event *event, char *why);
bool bw_team_start(struct bw_team *team, bw_node id, char *why);
void bw_team_crash(struct bw_team *team, bw_node id);
struct bw_raft *bw_team_raft(const struct bw_team *team, bw_node id);
static inline uint32_t bw_team_link(const struct bw_team *team, bw_node from, bw_node to)
{
    return (from - 1) * team->settings->nodes + (to - 1);
}
void bw_team_describe(void *state, char *out, size_t size);

/* Plays prefix `number`, from 1. Returns a violation, or BW_EXPLORE_BROKEN, with the reason in
 * `why`. */
enum bw_explore_result bw_team_play(struct bw_team *team, uint32_t number, char *why);

/* team_choices.c */
extern const struct bw_explore_verb bw_team_verbs[BW_TEAM_VERBS];
#define BW_TEAM_VERB_TABLE                                                                         \
    [BW_TEAM_ADVANCE] = {"advance", ""}, [BW_TEAM_TIMEOUT] = {"timeout", "A"},                     \
    [BW_TEAM_DELIVER] = {"deliver", "A>B C"}, [BW_TEAM_DUPLICATE] = {"duplicate", "A>B C"},        \
    [BW_TEAM_PERSIST] = {"persist", "A"}, [BW_TEAM_SUSPECT] = {"suspect", "A"},                    \
    [BW_TEAM_CRASH] = {"crash", "A"}, [BW_TEAM_RESTART] = {"restart", "A"},                        \
    [BW_TEAM_ADD] = {"add", "A B"}, [BW_TEAM_PROMOTE] = {"promote", "A B"},                        \
    [BW_TEAM_REMOVE] = {"remove", "A B"}, [BW_TEAM_TRANSFER] = {"transfer", "A>B"},                \
    [BW_TEAM_RESIGN] = {"resign", "A"}, [BW_TEAM_KILL] = {"kill", "A"},                            \
    [BW_TEAM_DEAD] = {"confirm-dead", "A B"}, [BW_TEAM_NAME] = {"name", "A B"},                    \
    [BW_TEAM_JOIN] = {"join", "A B"}, [BW_TEAM_LEAVE] = {"leave", "A B"},                          \
    [BW_TEAM_LOSE] = {"lose", "A>B C"}, [BW_TEAM_BEGIN] = {"begin", "A"},                          \
    [BW_TEAM_PROPOSE] = {"propose", "A"}, [BW_TEAM_PAUSE] = {"pause", "A"}
/* The natural next action. */
struct bw_explore_action bw_team_natural(const struct bw_team *team);
uint32_t bw_team_choices(void *state, struct bw_explore_action *out);
enum bw_explore_result bw_team_apply(void *state, struct bw_explore_action action, char *why);
void bw_team_digest(void *state, struct bw_digest *out);

/* team_judge.c: false with a violation in `why` */
bool bw_team_announced(struct bw_team *team, bw_node id, const struct bw_announcement *a,
                       char *why);
bool bw_team_committed(struct bw_team *team, bw_node id, bw_index index, char *why);
bool bw_team_recorded(struct bw_team *team, bw_node id, const struct bw_durable *record, char *why);
bool bw_team_sends(struct bw_team *team, bw_node id, const struct bw_message *msg, char *why);
void bw_team_receives(struct bw_team *team, const struct bw_message *msg);
bool bw_team_timed_out(const struct bw_team *team, bw_node id, char *why);
bool bw_team_judge(struct bw_team *team, char *why);

/* An elector without rules: it names the node that a CAMPAIGN command gives. Under the guard it
 * stands for every elector. */
extern const struct bw_elector_ops bw_team_oracle;
/* The node that the oracle of `id` names. */
bw_node bw_team_named(const struct bw_team *team, bw_node id);

#endif
