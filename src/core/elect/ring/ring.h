/* The common part of the four ring elections: ring order, laps, rounds, announcements, and all
 * events that are not election messages. A variant adds how a round chooses the winner.
 *
 * Model: members know the order of the ring; links lose, duplicate, delay and reorder; nodes crash,
 * pause and restart. The transport may report a failed send: the node then tries the next member on
 * the ring, and remembers nothing. Members that the detector suspects are skipped.
 *
 * Rounds. A round has a durable number (the term). Messages of older rounds are dropped, and a node
 * that is behind gets the current leader. A node that took part in a round and receives no
 * announcement in time starts the next round, with a growing delay.
 *
 * Refresh. The leader repeats its announcement every ten periods. A follower that misses three of
 * them starts an election, which a working leader wins again. When a member is trusted again or
 * joins, the leader starts an election, so that the leaders of a healed partition meet.
 *
 * Guarantees: with crashes only, all live nodes end with the highest-ranked live one (priority,
 * then id) as leader.
 *
 * Not guaranteed:
 * - A single leader. Each side of a partition elects its own; the quorum guard lets only one act.
 * - Progress if the link between two neighbours is cut while neither is suspected. A round cannot
 *   finish until the detector notices.
 * - A lasting transfer to a lower-ranked node. It ends with the next election. */
#ifndef BW_CORE_ELECT_RING_RING_H
#define BW_CORE_ELECT_RING_RING_H

#include "core/base/members.h"
#include "core/base/rng.h"
#include "core/elect/elector.h"

enum bw_ring_state { BW_RING_IDLE, BW_RING_ELECTING, BW_RING_SETTLED, BW_RING_STOPPED };

struct bw_ring;

/* The rules of a variant. */
struct bw_ring_rules {
    /* This node takes part in the round that it has just entered, on its own initiative. */
    void (*begin)(struct bw_ring *ring, bw_time now, struct bw_actions *actions);
    /* Handles an election message of the current round. */
    void (*message)(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions);
};

struct bw_ring {
    const struct bw_ring_rules *rules;
    bw_node self;
    struct bw_members members;
    bw_node *order;  /* the members in ring order */
    uint32_t length; /* length of `order`, equal to the number of members */
    bool configured; /* `order` was configured; false: ordered by id */
    uint32_t place;  /* own index in `order` */
    bw_node *list;   /* list ring: the list as sent */
    struct bw_rng rng;
    bw_time answer_ns, round_ns, repeat_ns, suspect_ns;
    bool announce;

    enum bw_ring_state state;
    struct bw_durable durable; /* term: the round */
    bw_term seen;              /* highest round seen, including rounds without participation */
    bw_node leader;
    bw_term leader_term; /* the round that elected `leader` */
    bw_time act_from;    /* when this node became leader */
    bool appointed;      /* the previous leader appointed the leader; not chosen by rank */
    bool withdrawn;      /* resigned: forwards messages, but is not a candidate */
    uint32_t attempts;   /* number of failed rounds in a row */
    bw_time round_at;    /* when the current round counts as failed */
    bw_time meet_at;     /* when to start a round because a member is back */
    bw_time beat_at;     /* leader: when to repeat the announcement; others: when it is overdue */

    /* State of the current round. */
    bool marked;    /* has sent its own message, or has decided not to */
    bool initiator; /* list, max: own message is in flight */
    bool done;      /* own message has returned */
    /* State of Hirschberg-Sinclair. */
    bool candidate;
    uint32_t reach;   /* how far own messages travel in this phase */
    uint32_t replies; /* bit mask of the sides that answered OK in this phase */
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

/* ---- order.c: order and rank ---- */

/* Sets up the order. Returns 0, or BW_EINVAL if config->order is not a permutation of the
 * members. */
int bw_ring_order_init(struct bw_ring *ring, const struct bw_elector_config *config);
void bw_ring_order_add(struct bw_ring *ring, bw_node node);
void bw_ring_order_remove(struct bw_ring *ring, bw_node node);
/* The first member after `after` that is not suspected; to the left if `left` is set. `keep` is
 * returned even if it is suspected. Returns the own id if no other member is left. */
bw_node bw_ring_next(const struct bw_ring *ring, bw_node after, bool left, bw_node keep);
/* Whether `a` ranks above `b`; every member ranks above none. */
bool bw_ring_outranks(const struct bw_ring *ring, bw_node a, bw_node b);
/* Whether `node` ranks above this node. A withdrawn node ranks below all. */
bool bw_ring_outranks_self(const struct bw_ring *ring, bw_node node);
/* The highest-ranked other member that is not suspected, or none. */
bw_node bw_ring_successor(const struct bw_ring *ring);
/* The highest-ranked member that is not suspected and ranks below this one; after the lowest comes
 * the highest. */
bw_node bw_ring_next_in_turn(const struct bw_ring *ring);

/* ---- ring.c: functions for the variants ---- */

/* Adds a message to the next member, to be filled in. Returns NULL if this node is alone. */
struct bw_message *bw_ring_pass(struct bw_ring *ring, enum bw_message_kind kind, bool left,
                                bw_node keep, struct bw_actions *actions);
/* Sends RING_ELECTION to the next member, for the variants that use it. Returns false if this node
 * is alone. */
bool bw_ring_pass_election(struct bw_ring *ring, const struct bw_ring_part *part,
                           struct bw_actions *actions);
/* Whether a message has travelled around the whole ring without meeting its initiator. */
bool bw_ring_circled(const struct bw_ring *ring, uint32_t hops);
/* A higher-ranked candidate takes part in this round: a leader stops leading and waits for the
 * result. */
void bw_ring_yield(struct bw_ring *ring, bw_node better, bw_time now, struct bw_actions *actions);
/* The round is decided, and this node announces the result. BW_NODE_NONE: all members are
 * withdrawn. Then the next one in turn leads, so that each one that is able to lead gets its
 * turn. */
void bw_ring_decide(struct bw_ring *ring, bw_node leader, bw_time now, struct bw_actions *actions);

#endif
