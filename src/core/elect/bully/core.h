/* The common part of the bully family and of lowest-id: members and their rank, the epoch, the
 * current leader, and the events that all variants handle alike. A variant adds its rules: how it
 * runs an election and which messages it accepts.
 *
 * Epochs. `durable.term` is the highest epoch seen or used; it is durable before it is sent. Each
 * round of an election has an epoch. The initiator takes the next one, members that are drawn in
 * join it, and the winner announces it. A reply carries the epoch of its round, so late replies are
 * recognized. A node answers an announcement of an older epoch with the newer one.
 *
 * Refresh. A leader repeats its announcement every BW_BULLY_REFRESH_PERIODS periods to all members
 * that are not suspected, and at once to a member that joins or is trusted again. The paper's model
 * does not need this. Outside the model (loss, pauses, partitions) it resolves two leaders, and it
 * shows a follower that its leader still considers itself leader. A follower that misses ten
 * refreshes starts an election. Period 0 turns both off. */
#ifndef BW_CORE_ELECT_BULLY_CORE_H
#define BW_CORE_ELECT_BULLY_CORE_H

#include "core/base/members.h"
#include "core/elect/elector.h"

#define BW_BULLY_REFRESH_PERIODS 10

enum bw_bully_state {
    BW_BULLY_NORMAL,     /* leads, follows, or waits for a first event */
    BW_BULLY_ELECTING,   /* asked the higher-ranked members; waits for replies until T1 */
    BW_BULLY_WAITING,    /* a higher-ranked member is alive; waits for its announcement until T2 */
    BW_BULLY_CONTACTING, /* next-in-line: asked an alternative to take over */
    BW_BULLY_DELAYING,   /* candidates: waits its own delta */
    BW_BULLY_POLLING,    /* candidates: asked which candidates are alive */
    BW_BULLY_STOPPED
};

enum bw_bully_audience {
    /* members that rank below the leader: in the model no higher-ranked one is alive */
    BW_TO_LOWER,
    BW_TO_ALL /* all members except the failed leader */
};

struct bw_bully;

struct bw_bully_rules {
    /* Starts an election. hint > 0: the round of another node, to be joined if it has no leader
     * yet. */
    void (*campaign)(struct bw_bully *self, bw_term hint, struct bw_actions *out);
    /* Handles all message kinds except COORDINATOR and NOTICE; the sender is a member. */
    void (*message)(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out);
    /* Handles the timer of a state other than NORMAL and WAITING. */
    void (*timeout)(struct bw_bully *self, struct bw_actions *out);
    /* Hooks; each may be NULL.
     *   took_lead    just before the first announcement of a new leadership
     *   attach       adds a list to an own announcement
     *   learned      an announcement was accepted
     *   may_succeed  whether this member may lead although it ranks lower */
    void (*took_lead)(struct bw_bully *self);
    void (*attach)(const struct bw_bully *self, struct bw_message *msg);
    void (*learned)(struct bw_bully *self, const struct bw_message *msg);
    bool (*may_succeed)(const struct bw_bully *self, bw_node node);
    bool appoints; /* an announcement may name a leader that does not know it yet */
    bool classes;  /* candidates rank above ordinary members */
    bool lowest;   /* the smaller id ranks higher; nothing else counts */
};

struct bw_bully {
    const struct bw_bully_rules *rules;
    struct bw_elector_config config; /* its pointers are invalid after init */
    struct bw_members members;
    struct bw_durable durable;
    bool dirty;   /* durable changed since it was last persisted */
    bool passive; /* started passively, and no event since */
    enum bw_bully_state state;
    bw_time timer; /* of the current state */
    bw_time now;   /* time of the current step */
    bw_time started_at;
    bw_node leader;      /* as this instance knows it */
    bw_term leader_term; /* epoch of the current or last known leadership */
    bw_term round;       /* epoch of the current election */
    bw_node failed;      /* the leader that this election replaces */
    bw_node best;        /* best member that replied in this round */
    bool abstains; /* handed over leadership: does not take it back while the successor is alive */
};

/* ---- layout ---- */

/* `size` is the size of the variant's struct, which begins with a struct bw_bully. */
size_t bw_bully_bytes(const struct bw_elector_config *config, size_t size);
uint32_t bw_bully_actions_max(const struct bw_elector_config *config);
int bw_bully_init(void *memory, const struct bw_elector_config *config, size_t size,
                  const struct bw_bully_rules *rules);
bw_time bw_bully_deadline(const void *memory);
void bw_bully_status(const void *memory, struct bw_elector_status *out);
/* True only for the member that ranks next: any other would lose leadership to it at once. */
bool bw_bully_ready(const void *memory, bw_node node);
/* Handles one event for a variant that adds rules to the core. */
void bw_bully_step(void *memory, const struct bw_event *event, struct bw_actions *out);

/* ---- rank ---- */

static inline bool bw_bully_leading(const struct bw_bully *self)
{
    return self->leader == self->config.self;
}

static inline struct bw_member_row *bw_bully_row(const struct bw_bully *self, bw_node id)
{
    return bw_members_find(&self->members, id);
}

static inline struct bw_member_row *bw_bully_me(const struct bw_bully *self)
{
    return bw_bully_row(self, self->config.self);
}

bool bw_bully_outranks(const struct bw_bully *self, const struct bw_member_row *a,
                       const struct bw_member_row *b);
/* Neither suspected nor the leader being replaced. */
bool bw_bully_alive(const struct bw_bully *self, const struct bw_member_row *row);
/* The highest-ranked other member that is alive, or none. */
bw_node bw_bully_best_other(const struct bw_bully *self);
/* The next member that is alive, in order of rank; after the lowest comes the highest. Candidates
 * hand over to candidates. A member that is unable to lead resigns again, so each gets its turn: if
 * the highest always succeeded, two such members could hand over to each other without end. The
 * order ignores the flapping penalty, which members learn at different times. */
bw_node bw_bully_next_in_turn(const struct bw_bully *self);

/* ---- epoch ---- */

void bw_bully_adopt(struct bw_bully *self, bw_term term);
/* Sets `round`: joins `hint` if it is the newest epoch and has no leader yet, otherwise takes the
 * next epoch. */
void bw_bully_open_round(struct bw_bully *self, bw_term hint, struct bw_actions *out);
/* The epoch under which the winner of this round leads. It is newer than all epochs in which a
 * leader or a request was seen. */
bw_term bw_bully_close_round(struct bw_bully *self);
/* Persists the durable record if it changed. Every send begins with this, and every step ends with
 * it. */
void bw_bully_flush(struct bw_bully *self, struct bw_actions *out);

/* ---- messages ---- */

/* Sends a message with the own flapping penalty and, in `leader`, the failed leader. */
struct bw_message *bw_bully_send(struct bw_bully *self, enum bw_message_kind kind, bw_node to,
                                 bw_term term, struct bw_actions *out);
/* Sends COORDINATOR: `leader` leads `term`. */
void bw_bully_send_coordinator(struct bw_bully *self, bw_node to, bw_node leader, bw_term term,
                               struct bw_actions *out);
/* Sends what this node knows: COORDINATOR with the leader of the newest epoch, or ALIVE with that
 * epoch. */
void bw_bully_send_known(struct bw_bully *self, bw_node to, struct bw_actions *out);
void bw_bully_ignore(struct bw_bully *self, enum bw_trace_code code, const struct bw_message *msg,
                     struct bw_actions *out);

/* ---- state changes ---- */

/* Enters a state of an election and sets its timer to `wait_ns` from now. */
void bw_bully_become_busy(struct bw_bully *self, enum bw_bully_state state, bw_time wait_ns,
                          struct bw_actions *out);
void bw_bully_become_leader(struct bw_bully *self, bw_term term, struct bw_actions *out);
void bw_bully_become_follower(struct bw_bully *self, bw_node leader, bw_term term,
                              struct bw_actions *out);
/* Forgets the leader. Keeps the state and the timer. */
void bw_bully_become_leaderless(struct bw_bully *self, enum bw_loss reason, struct bw_actions *out);
/* Hands over leadership to `successor` (or to no member) and waits for its announcement. With
 * SHUT_DOWN the node stops. */
void bw_bully_become_retired(struct bw_bully *self, bw_node successor, enum bw_loss reason,
                             struct bw_actions *out);

/* Takes leadership and announces it. */
void bw_bully_lead(struct bw_bully *self, bw_term term, enum bw_bully_audience audience,
                   struct bw_actions *out);
/* A leader announces itself again under a newer epoch, because other nodes know of one. */
void bw_bully_lead_again(struct bw_bully *self, bw_term term, struct bw_actions *out);

/* ---- events that all variants handle alike (events.c) ---- */

void bw_bully_campaign(struct bw_bully *self, bw_term hint, struct bw_actions *out);
/* Handles START up to the point where the algorithms differ. Returns true if an election is to be
 * started. */
bool bw_bully_start(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out);
/* Handles ALIVE at a leader that runs no election: other nodes know a newer epoch and reject its
 * announcements as stale. Returns true if it handled the message. */
bool bw_bully_outdated(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out);
/* Called before a message is processed: records the sender's flapping penalty. Returns true if the
 * sender is a member. */
bool bw_bully_receive(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out);
/* RESIGN, TRANSFER and STOP at a leader. Other nodes ignore RESIGN and TRANSFER. Returns the
 * successor, or none. */
bw_node bw_bully_hand_over(struct bw_bully *self, const struct bw_event *event,
                           struct bw_actions *out);

/* ---- the plain cascade, to which the variants fall back (bully.c) ---- */

void bw_bully_cascade(struct bw_bully *self, bw_term hint, struct bw_actions *out);
void bw_bully_cascade_message(struct bw_bully *self, const struct bw_message *msg,
                              struct bw_actions *out);
void bw_bully_cascade_timeout(struct bw_bully *self, struct bw_actions *out);
/* Whether the round of this message was already won by a node that its sender does not consider
 * dead. */
bool bw_bully_decided(const struct bw_bully *self, const struct bw_message *msg);
/* Whether this node may answer an ELECTION: the sender does not outrank it, it takes part, and the
 * round is not decided. (If the round is decided, the sender gets the result.) */
bool bw_bully_may_answer(struct bw_bully *self, const struct bw_message *msg,
                         struct bw_actions *out);
/* Sends ELECTION to all members that do not rank below this one; returns how many. */
uint32_t bw_bully_ask_above(struct bw_bully *self, struct bw_actions *out);

#endif
