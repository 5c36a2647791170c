/* The state of one node in the invitation algorithm: its group, its current activity, and the only
 * functions that change them. invitation.c describes the algorithm. */
#ifndef BW_CORE_ELECT_INVITATION_GROUP_H
#define BW_CORE_ELECT_INVITATION_GROUP_H

#include "core/base/members.h"
#include "core/base/rng.h"
#include "core/elect/elector.h"

/* Periods between a member's AreYouThere questions. */
#define BW_GROUP_ASK_PERIODS 2
/* Number of unanswered questions before a member recovers; and number of answer times before a
 * coordinator continues without the missing replies. */
#define BW_GROUP_ANSWER_TIMES 4u
/* Answer times before a node that has accepted an invitation gives up: the inviter's timeout plus
 * the way there and back. */
#define BW_GROUP_JOIN_ANSWERS 6

enum bw_group_state {
    BW_GROUP_IDLE,         /* not started */
    BW_GROUP_COORDINATING, /* coordinator of a group, perhaps a group of one */
    BW_GROUP_MEMBER,       /* member of a group; READY has arrived */
    BW_GROUP_JOINING,      /* accepted an invitation; waits for READY */
    BW_GROUP_HANDING,      /* handed over leadership; waits for the successor's invitation */
    BW_GROUP_STOPPED
};

/* The current activity of a coordinator. */
enum bw_group_phase { BW_GROUP_PAUSING, BW_GROUP_ASKING, BW_GROUP_DELAYING, BW_GROUP_INVITING };

struct bw_group_peer {
    bw_node id;
    bool ready_sent; /* READY was sent */
    bw_term check;   /* number of the newest check when it joined */
};

struct bw_group_other { /* a coordinator that was found or invited */
    bw_node id;
    bool invited;
};

struct bw_group {
    bw_node self;
    struct bw_members members;
    struct bw_group_peer *up; /* coordinator: the other members of the group */
    uint32_t up_count;
    struct bw_group_other *others;
    uint32_t others_count;
    bw_node *list; /* a list as sent */
    struct bw_rng rng;
    bw_time answer_ns, period_ns, join_ns;
    struct bw_durable durable; /* term: highest counter used or joined */
    enum bw_group_state state;
    enum bw_group_phase phase;
    bw_node leader;  /* of the group that we are in or join */
    bw_term counter; /* of that group */
    bool claimed;    /* coordinator: has announced itself */
    bw_time act_from;
    uint32_t asks;
    bw_time next_at;      /* the only timer: next phase, next question, or READY overdue */
    bw_term check;        /* number of checks for other groups so far */
    bw_node lost;         /* the coordinator we recovered from; we do not wait for its reply */
    bw_term lost_counter; /* counter of its group */
    bw_time answer_at, timeout_at; /* asking, inviting: earliest and latest end */
};

size_t bw_group_bytes(const struct bw_elector_config *config);
int bw_group_init(void *memory, const struct bw_elector_config *config);
bool bw_group_coordinates(const struct bw_group *v);
/* The number of members that are not suspected, including the coordinator. */
uint32_t bw_group_size(const struct bw_group *v);
/* The other members of the group that we coordinate. */
struct bw_group_peer *bw_group_find_peer(const struct bw_group *v, bw_node id);
void bw_group_drop_peer(struct bw_group *v, bw_node id);
struct bw_group_peer *bw_group_add_peer(struct bw_group *v, bw_node id);
/* Other coordinators that were found or invited. */
struct bw_group_other *bw_group_find_other(const struct bw_group *v, bw_node id);
struct bw_group_other *bw_group_add_other(struct bw_group *v, bw_node id);
/* Starts to wait for replies. */
void bw_group_await(struct bw_group *v, bw_time now);
/* Whether the reply of a member that is not suspected is still missing. */
bool bw_group_awaits(const struct bw_group *v);
/* If all replies have arrived, the wait ends at the answer time. */
void bw_group_shorten_wait(struct bw_group *v, bw_time now);
/* Records a reply. */
void bw_group_answered(struct bw_group *v, bw_node id, bw_time now);
/* A random part of `span`. */
bw_time bw_group_random_share(struct bw_group *v, bw_time span);
/* A message with the own group and its size, to be filled in further. */
struct bw_message *bw_group_send(const struct bw_group *v, enum bw_message_kind kind, bw_node to,
                                 struct bw_actions *actions);
/* Enters a new group of one with an unused counter, not yet claimed. */
void bw_group_become_coordinator(struct bw_group *v, bw_time now, struct bw_actions *actions);
/* Leaves a group whose leader is silent or dead, and enters a new group of one. */
void bw_group_recover(struct bw_group *v, bw_time now, struct bw_actions *actions);
/* The invitation to (leader, counter) is accepted: waits for READY. */
void bw_group_become_joining(struct bw_group *v, bw_node leader, bw_term counter, bw_time now,
                             struct bw_actions *actions);
/* READY has arrived: the group has a leader. */
void bw_group_become_member(struct bw_group *v, bw_time now, struct bw_actions *actions);
/* Leadership was handed over: waits for the successor's invitation. */
void bw_group_become_handing(struct bw_group *v, enum bw_loss reason, bw_time now,
                             struct bw_actions *actions);
void bw_group_become_stopped(struct bw_group *v, struct bw_actions *actions);
/* Announces itself as leader of its group, once. */
void bw_group_claim(struct bw_group *v, bw_time now, struct bw_actions *actions);

#endif
