/* What the four ring elections share: the ring's order, laps, rounds, announcements, and every
 * event that is not an election message. A variant adds how a round picks the winner.
 *
 * Model: members know the ring's order; links may lose, duplicate, delay and reorder; nodes crash,
 * pause and restart. The transport may tell of a send that failed: the next one on the ring is
 * then tried, and nothing is remembered. Members that the detector suspects are passed over
 * without trying. Under crashes alone all live nodes end with the highest-ranked live one
 * (priority, then id).
 *
 * A round has a durable number (the term). Messages of older rounds are dropped; a sender that is
 * left behind is told the present leader. Whoever has taken part in a round and hears no
 * announcement in time starts the next one, later each time. The leader repeats its announcement
 * every ten periods; who misses three of them starts an election, which a working leader wins
 * again. When a member comes back to trust or joins, the leader starts an election, so that the
 * leaders of a healed partition meet.
 *
 * Not promised: one leader. Every side of a partition elects its own (the quorum guard helps). A
 * ring whose only link between two neighbours is cut while neither is suspected cannot finish a
 * round until the detector notices. A transfer to a lower-ranked node lasts until the next
 * election. */
#ifndef BW_ELECT_RING_H
#define BW_ELECT_RING_H

#include "core/base/members.h"
#include "core/base/rng.h"
#include "core/elect/elector.h"

enum bw_ring_state { BW_RING_IDLE, BW_RING_ELECTING, BW_RING_SETTLED, BW_RING_STOPPED };

struct bw_ring;

/* What a variant adds. */
struct bw_ring_rules {
    /* This node takes part in the round it has just entered, of its own accord. */
    void (*begin)(struct bw_ring *ring, bw_time now, struct bw_actions *actions);
    /* An election message of the present round. */
    void (*message)(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions);
};

struct bw_ring {
    const struct bw_ring_rules *rules;
    bw_node self;
    struct bw_members members;
    bw_node *order;  /* the members in ring order */
    uint32_t length; /* of order; as many as members */
    bool configured; /* order was given; else it is by id */
    uint32_t place;  /* own place in order */
    bw_node *list;   /* list ring: the list being sent */
    struct bw_rng rng;
    bw_time answer_ns, round_ns, repeat_ns, doubt_ns;
    bool announce;

    enum bw_ring_state state;
    struct bw_durable durable; /* term: the round */
    bw_term seen;              /* highest round heard of, also of those not taken part in */
    bw_node leader;
    bw_term leader_term; /* round that `leader` comes from */
    bw_time act_from;    /* since when this node leads */
    bool appointed;      /* the leader was named by its predecessor, not by rank */
    bool withdrawn;      /* resigned: passes messages on, stands for nothing */
    uint32_t attempts;   /* rounds in a row that came to nothing */
    bw_time round_at;    /* the round has failed */
    bw_time meet_at;     /* start a round: somebody is back */
    bw_time beat_at;     /* leader: repeat the announcement; others: it stayed away */

    /* Of the present round. */
    bool marked;    /* stands for election or has given up doing so */
    bool initiator; /* list, max: our own message is under way */
    bool done;      /* our own message came home */
    /* Hirschberg-Sinclair. */
    bool candidate;
    uint32_t reach;   /* how far our messages go in this phase */
    uint32_t replies; /* sides that said OK in this phase */
};

size_t bw_ring_bytes(const struct bw_elector_config *config);
uint32_t bw_ring_actions_max(const struct bw_elector_config *config);
int bw_ring_init(void *memory, const struct bw_elector_config *config,
                 const struct bw_ring_rules *rules);
void bw_ring_step(void *self, const struct bw_event *event, struct bw_actions *actions);
bw_time bw_ring_deadline(const void *self);
void bw_ring_status(const void *self, struct bw_elector_status *out);
/* Any member that is not suspected may be appointed. */
bool bw_ring_ready(const void *self, bw_node node);

/* ---- order.c: who is next ---- */

/* Lays the order out; returns 0 or BW_EINVAL (config->order is no permutation of the members). */
int bw_ring_order_init(struct bw_ring *ring, const struct bw_elector_config *config);
void bw_ring_order_add(struct bw_ring *ring, bw_node node);
void bw_ring_order_remove(struct bw_ring *ring, bw_node node);
/* The first one behind `after` (to its left if so asked) that is not suspected; `keep` is taken
 * even if it is; the own id when there is nobody. */
bw_node bw_ring_next(const struct bw_ring *ring, bw_node after, bool left, bw_node keep);
/* a ranks above b; anybody above none. */
bool bw_ring_outranks(const struct bw_ring *ring, bw_node a, bw_node b);
/* `node` ranks above this one, which may stand for nothing. */
bool bw_ring_outranks_self(const struct bw_ring *ring, bw_node node);
/* The highest-ranked other member that is not suspected, or none. */
bw_node bw_ring_heir(const struct bw_ring *ring);

/* ---- ring.c, for the variants ---- */

/* A message to whoever follows, to be filled in, or NULL when this node is alone. */
struct bw_message *bw_ring_pass(struct bw_ring *ring, enum bw_message_kind kind, bool left,
                                bw_node keep, struct bw_actions *actions);
/* RING_ELECTION for those three: to the next one; false when this node is alone. */
bool bw_ring_pass_election(struct bw_ring *ring, const struct bw_ring_part *part,
                           struct bw_actions *actions);
/* A message has gone round the whole ring without meeting its initiator. */
bool bw_ring_circled(const struct bw_ring *ring, uint32_t hops);
/* A better one stands in this round: a leader stops leading and awaits the outcome. */
void bw_ring_yield(struct bw_ring *ring, bw_node better, bw_time now, struct bw_actions *actions);
/* The round is decided and this node is the one to say so. None: nobody stands, so it does. */
void bw_ring_decide(struct bw_ring *ring, bw_node leader, bw_time now, struct bw_actions *actions);

#endif
