/* What the bully family and lowest-id share: members and their rank, the epoch, who leads, and the
 * handling of every event that is the same for all of them. A variant adds its rules: how an
 * election is run and which messages it takes.
 *
 * Epochs. `durable.term` is the highest epoch seen or used; it is durable before it is spoken of. A
 * round of an election has one: the initiator takes the next, whoever is drawn in joins it, the
 * winner announces it. An answer carries the round it answers, so a late one is known; an
 * announcement of an older epoch is old news and is answered with the newer one.
 *
 * A leader repeats its announcement to a member the detector trusts again, to one that joins, and
 * every BW_BULLY_REFRESH_PERIODS periods to all that are not suspected. Within the paper's model
 * nobody needs that; outside it (loss, pauses, partitions) it is what brings two leaders together
 * and what tells a follower that the leader it believes in believes it too: a follower that has
 * missed three starts an election. Period 0 turns both off. */
#ifndef BW_ELECT_BULLY_CORE_H
#define BW_ELECT_BULLY_CORE_H

#include "core/base/members.h"
#include "core/elect/elector.h"

#define BW_BULLY_REFRESH_PERIODS 10

enum bw_bully_state {
    BW_BULLY_NORMAL,     /* leads, follows, or waits for a first event */
    BW_BULLY_ELECTING,   /* asked those above; their answers are awaited until T1 */
    BW_BULLY_WAITING,    /* somebody above is alive; its announcement is awaited until T2 */
    BW_BULLY_CONTACTING, /* next-in-line: an alternative was asked to take over */
    BW_BULLY_DELAYING,   /* candidates: the own delta runs */
    BW_BULLY_POLLING,    /* candidates: the candidates were asked who is alive */
    BW_BULLY_STOPPED
};

enum bw_bully_audience {
    BW_TO_LOWER, /* those that rank below the leader: nobody above is alive in the model */
    BW_TO_ALL    /* all but the failed leader */
};

struct bw_bully;

struct bw_bully_rules {
    /* Starts an election. hint > 0: somebody's round, to be joined if nobody leads it yet. */
    void (*campaign)(struct bw_bully *self, bw_term hint, struct bw_actions *out);
    /* Every kind but COORDINATOR and NOTICE; the sender is a member. */
    void (*message)(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out);
    /* The timer of a state other than NORMAL and WAITING. */
    void (*timeout)(struct bw_bully *self, struct bw_actions *out);
    /* Each may be NULL: just before the first announcement of a new leadership; a list to attach to
     * an own announcement; an announcement was accepted; may this one lead though it ranks lower?
     */
    void (*took_lead)(struct bw_bully *self);
    void (*attach)(const struct bw_bully *self, struct bw_message *msg);
    void (*learned)(struct bw_bully *self, const struct bw_message *msg);
    bool (*heir)(const struct bw_bully *self, bw_node node);
    bool appoints; /* an announcement may name a leader that does not know it yet */
    bool classes;  /* candidates rank above ordinary members */
    bool lowest;   /* rank is the smaller id and nothing else */
};

struct bw_bully {
    const struct bw_bully_rules *rules;
    struct bw_elector_config config; /* pointers in it are void after init */
    struct bw_members members;
    struct bw_durable durable;
    bool dirty;   /* durable changed since it was last persisted */
    bool passive; /* started so, and nothing has happened since */
    enum bw_bully_state state;
    bw_time timer; /* of the state */
    bw_time now;   /* of the step under way */
    bw_time started_at;
    bw_node leader;      /* as this instance sees it */
    bw_term leader_term; /* epoch of that, or of the last known, leadership */
    bw_term round;       /* epoch of the election under way */
    bw_node failed;      /* the leader this election replaces */
    bw_node best;        /* best that answered in this round */
    bool abstains;       /* gave leadership away: does not take it back while the successor lives */
};

/* --- laying out ------------------------------------------------------------------------------ */

/* `size` is that of the variant's struct, which begins with a struct bw_bully. */
size_t bw_bully_bytes(const struct bw_elector_config *config, size_t size);
uint32_t bw_bully_actions_max(const struct bw_elector_config *config);
int bw_bully_init(void *memory, const struct bw_elector_config *config, size_t size,
                  const struct bw_bully_rules *rules);
bw_time bw_bully_deadline(const void *memory);
void bw_bully_status(const void *memory, struct bw_elector_status *out);
/* Only the next in rank: anybody else would lose the lead to it at once. */
bool bw_bully_ready(const void *memory, bw_node node);
/* One event for a variant that adds rules to the core. */
void bw_bully_step(void *memory, const struct bw_event *event, struct bw_actions *out);

/* --- rank ------------------------------------------------------------------------------------ */

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
/* The best other one that is alive, or none. */
bw_node bw_bully_best_other(const struct bw_bully *self);

/* --- epoch ----------------------------------------------------------------------------------- */

void bw_bully_adopt(struct bw_bully *self, bw_term term);
/* Sets `round`: joins `hint` if it is the newest and nobody leads it yet, else takes the next. */
void bw_bully_open_round(struct bw_bully *self, bw_term hint, struct bw_actions *out);
/* The epoch under which this round's winner leads: newer than any seen to lead or to be asked for.
 */
bw_term bw_bully_close_round(struct bw_bully *self);
/* Every step ends with it; every send begins with it. */
void bw_bully_flush(struct bw_bully *self, struct bw_actions *out);

/* --- speaking -------------------------------------------------------------------------------- */

/* Carries the own demerits and, in `leader`, who failed. */
struct bw_message *bw_bully_send(struct bw_bully *self, enum bw_message_kind kind, bw_node to,
                                 bw_term term, struct bw_actions *out);
/* COORDINATOR: `leader` leads `term`. */
void bw_bully_tell(struct bw_bully *self, bw_node to, bw_node leader, bw_term term,
                   struct bw_actions *out);
/* What is known here: COORDINATOR with the leader of the newest epoch, or ALIVE with that epoch. */
void bw_bully_tell_known(struct bw_bully *self, bw_node to, struct bw_actions *out);
void bw_bully_ignore(struct bw_bully *self, enum bw_trace_code code, const struct bw_message *msg,
                     struct bw_actions *out);

/* --- becoming -------------------------------------------------------------------------------- */

/* An election's state with its timer, `wait_ns` from now. */
void bw_bully_become_busy(struct bw_bully *self, enum bw_bully_state state, bw_time wait_ns,
                          struct bw_actions *out);
void bw_bully_become_leader(struct bw_bully *self, bw_term term, struct bw_actions *out);
void bw_bully_become_follower(struct bw_bully *self, bw_node leader, bw_term term,
                              struct bw_actions *out);
/* The view becomes "nobody"; state and timer stay. */
void bw_bully_become_leaderless(struct bw_bully *self, enum bw_loss reason, struct bw_actions *out);
/* Hands leadership to `heir` (or to nobody) and waits for its announcement; SHUT_DOWN ends for
 * good.
 */
void bw_bully_become_retired(struct bw_bully *self, bw_node heir, enum bw_loss reason,
                             struct bw_actions *out);

/* Takes the lead and announces it. */
void bw_bully_lead(struct bw_bully *self, bw_term term, enum bw_bully_audience audience,
                   struct bw_actions *out);
/* A sitting leader repeats its claim under a newer epoch, because others know of one. */
void bw_bully_lead_again(struct bw_bully *self, bw_term term, struct bw_actions *out);

/* --- events every variant handles alike (events.c) -------------------------------------- */

void bw_bully_campaign(struct bw_bully *self, bw_term hint, struct bw_actions *out);
/* START up to the point where algorithms differ; true: an election is to be started. */
bool bw_bully_start(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out);
/* ALIVE to a leader that is not looking for answers: others know of a newer epoch than its own, so
 * its announcements are old news to them. True if that was it. */
bool bw_bully_outdated(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out);
/* Before a message is looked at: true if it comes from a member. Takes in its demerits. */
bool bw_bully_hear(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out);
/* RESIGN, TRANSFER, STOP of whoever leads; others' are ignored. */
void bw_bully_hand_over(struct bw_bully *self, const struct bw_event *event,
                        struct bw_actions *out);

/* --- the plain cascade, which the variants fall back on (bully.c) ------------------------------
 */

void bw_bully_cascade(struct bw_bully *self, bw_term hint, struct bw_actions *out);
void bw_bully_cascade_message(struct bw_bully *self, const struct bw_message *msg,
                              struct bw_actions *out);
void bw_bully_cascade_timeout(struct bw_bully *self, struct bw_actions *out);
/* Was the round this message belongs to won already by somebody its sender does not hold for dead?
 */
bool bw_bully_decided(const struct bw_bully *self, const struct bw_message *msg);
/* May this ELECTION be answered at all: the sender does not outrank us, we take part, and the round
 * is not decided already (then the sender is told). */
bool bw_bully_may_answer(struct bw_bully *self, const struct bw_message *msg,
                         struct bw_actions *out);
/* ELECTION to everybody that does not rank below; the number asked. */
uint32_t bw_bully_ask_above(struct bw_bully *self, struct bw_actions *out);

#endif
