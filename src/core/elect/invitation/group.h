/* A node's place among the groups of the invitation algorithm: its group, what it is about, and the
 * only functions that change them. What the algorithm is, assumes and promises: invitation.c. */
#ifndef BW_ELECT_INVITATION_GROUP_H
#define BW_ELECT_INVITATION_GROUP_H

#include "core/base/members.h"
#include "core/base/rng.h"
#include "core/elect/elector.h"

/* Between a member's AreYouThere. */
#define BW_GROUP_ASK_PERIODS 2
/* Unanswered questions before a member recovers, and answer times before a coordinator goes on
 * without those who have not answered. */
#define BW_GROUP_PATIENCE 4u
/* Answer times before one that has accepted goes its own way: the inviter's patience, and the ways
 * there and back. */
#define BW_GROUP_JOIN_ANSWERS 6

enum bw_group_state {
    BW_GROUP_IDLE,         /* not started */
    BW_GROUP_COORDINATING, /* of a group that may be of one */
    BW_GROUP_MEMBER,       /* READY was heard */
    BW_GROUP_JOINING,      /* accepted, READY is awaited */
    BW_GROUP_HANDING,      /* gave the leadership away, the successor's invitation is awaited */
    BW_GROUP_STOPPED
};

/* What a coordinator is about. */
enum bw_group_phase { BW_GROUP_RESTING, BW_GROUP_ASKING, BW_GROUP_DELAYING, BW_GROUP_INVITING };

struct bw_group_mate {
    bw_node id;
    bool told;    /* READY was sent */
    bw_term look; /* the newest look when it joined */
};

struct bw_group_other { /* a coordinator found, or invited */
    bw_node id;
    bool invited;
};

struct bw_group {
    bw_node self;
    struct bw_members members;
    struct bw_group_mate *up; /* coordinator: the others of the group */
    uint32_t up_count;
    struct bw_group_other *others;
    uint32_t others_count;
    bw_node *list; /* a list being sent */
    struct bw_rng rng;
    bw_time answer_ns, period_ns, join_ns;
    struct bw_durable durable; /* term: highest counter used or joined */
    enum bw_group_state state;
    enum bw_group_phase phase;
    bw_node leader;  /* of the group we are in or join */
    bw_term counter; /* its number */
    bool claimed;    /* coordinator: has announced itself */
    bw_time act_from;
    uint32_t asks;
    bw_time next_at;                /* the one timer: next phase, next question, READY overdue */
    bw_term look;                   /* how often we looked around */
    bw_node lost;                   /* whom we recovered from: its answer is not awaited */
    bw_term lost_counter;           /* the number of its group */
    bw_time answer_at, patience_at; /* asking, inviting: the earliest and the latest end */
};

size_t bw_group_bytes(const struct bw_elector_config *config);
int bw_group_init(void *memory, const struct bw_elector_config *config);
bool bw_group_coordinates(const struct bw_group *v);
/* Members that are thought alive, the coordinator included. */
uint32_t bw_group_size(const struct bw_group *v);
/* The other members of a group we coordinate. */
struct bw_group_mate *bw_group_find_mate(const struct bw_group *v, bw_node id);
void bw_group_drop_mate(struct bw_group *v, bw_node id);
struct bw_group_mate *bw_group_add_mate(struct bw_group *v, bw_node id);
/* Other coordinators, found or invited. */
struct bw_group_other *bw_group_find_other(const struct bw_group *v, bw_node id);
struct bw_group_other *bw_group_add_other(struct bw_group *v, bw_node id);
/* Answers are awaited from now on. */
void bw_group_await(struct bw_group *v, bw_time now);
/* Has somebody who is thought alive not answered yet? */
bool bw_group_awaits(const struct bw_group *v);
/* With everybody heard the wait need not be longer than the answer time. */
void bw_group_hurry(struct bw_group *v, bw_time now);
/* An answer has come. */
void bw_group_answered(struct bw_group *v, bw_node id, bw_time now);
/* A random part of `span`. */
bw_time bw_group_share(struct bw_group *v, bw_time span);
/* A message that carries the own group and its size, to be filled in further. */
struct bw_message *bw_group_say(const struct bw_group *v, enum bw_message_kind kind, bw_node to,
                                struct bw_actions *actions);
/* Into a fresh group of one, with a number never used before; it is not yet claimed. */
void bw_group_become_coordinator(struct bw_group *v, bw_time now, struct bw_actions *actions);
/* The same, because our leader is silent or dead. */
void bw_group_recover(struct bw_group *v, bw_time now, struct bw_actions *actions);
/* The invitation to (leader, counter) is accepted: READY is awaited. */
void bw_group_become_joining(struct bw_group *v, bw_node leader, bw_term counter, bw_time now,
                             struct bw_actions *actions);
/* READY: the group joined has a leader. */
void bw_group_become_member(struct bw_group *v, bw_time now, struct bw_actions *actions);
/* The leadership was given away: the successor's invitation is awaited. */
void bw_group_become_handing(struct bw_group *v, enum bw_loss reason, bw_time now,
                             struct bw_actions *actions);
void bw_group_become_stopped(struct bw_group *v, struct bw_actions *actions);
/* Announces itself as leader of the own group, once. */
void bw_group_claim(struct bw_group *v, bw_time now, struct bw_actions *actions);

#endif
