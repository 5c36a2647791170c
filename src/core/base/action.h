/* What a decision module wants done, in the order in which it must be done.
 *
 * PERSIST is a barrier: no later action of this or any later step is carried out before the record
 * is durable; a crash in between loses the record and all that waited behind it. LOG_* actions are
 * no barrier: they become durable in order, several in flight, and are acknowledged by PERSISTED
 * events. */
#ifndef BW_BASE_ACTION_H
#define BW_BASE_ACTION_H

#include "core/base/assert.h"
#include "core/base/event.h"
#include "core/base/message.h"
#include "core/base/trace.h"
#include "core/base/types.h"

enum bw_action_kind {
    BW_ACTION_PERSIST,      /* durable */
    BW_ACTION_SEND,         /* msg */
    BW_ACTION_ANNOUNCE,     /* announce */
    BW_ACTION_SUSPECT,      /* detector: node, level */
    BW_ACTION_TRUST,        /* detector: node, level */
    BW_ACTION_LOG_APPEND,   /* Raft: log.first .. first+count-1 of log.term, from the step's message
                               or request */
    BW_ACTION_LOG_TRUNCATE, /* Raft: drop the entries from log.first on */
    BW_ACTION_LOG_RESTORE,  /* Raft: replace all by the snapshot in the step's message, up to
                               log.first */
    BW_ACTION_LOG_COMPACT,  /* Raft: entries up to log.first are no longer needed */
    BW_ACTION_COMMIT,       /* Raft: entries up to log.first may be applied */
    BW_ACTION_ANSWER, /* Raft: to a command: answer.request got answer.index, or answer.error */
    BW_ACTION_MOVE, /* instance: we lead `election`, and `node` should: end the work, then TRANSFER
                     */
    BW_ACTION_TRACE /* trace */
};

/* Why a leadership ended; NONE while it lasts. */
enum bw_loss {
    BW_LOSS_NONE,
    BW_LOSS_EXPIRED,
    BW_LOSS_TAKEN,
    BW_LOSS_RESIGNED,
    BW_LOSS_TRANSFERRED,
    BW_LOSS_UNHEALTHY,
    BW_LOSS_UNREACHABLE, /* store or quorum */
    BW_LOSS_SHUT_DOWN
};

/* Who leads, as this instance knows it. To the leader itself: it may act from act_from until before
 * act_until on its own clock, carrying token. act_until NEVER: this algorithm promises no
 * exclusion. An extension repeats the announcement with a later act_until. To the others act_from
 * and act_until are 0. */
struct bw_announcement {
    bw_node leader; /* BW_NODE_NONE: nobody known */
    enum bw_loss reason;
    bw_term term;
    bw_token token; /* BW_TOKEN_NONE: this algorithm gives none */
    bw_time act_from, act_until;
};

struct bw_log_action {
    bw_index first;
    uint32_t count;
    uint32_t skip;           /* APPEND from a message: how many of its entries were there already */
    bw_term term;            /* of the (last) entry */
    uint64_t request;        /* APPEND of a proposal: whose bytes; 0: an entry of Raft's own */
    struct bw_change change; /* what the batch's membership entry says; op 0 = none */
};

struct bw_answer {
    uint64_t request;
    int error; /* 0 or enum bw_error */
    bw_index index;
    bw_term term;
    bw_node leader; /* where to ask instead, if known */
};

struct bw_action {
    enum bw_action_kind kind;
    uint16_t election; /* which elector of the instance it comes from; set by instance.c */
    bw_node node;
    union {
        struct bw_durable durable;
        struct bw_message msg;
        struct bw_announcement announce;
        double level;
        struct bw_log_action log;
        struct bw_answer answer;
        struct bw_trace_note trace;
    };
};

/* Caller-owned and bounded. A module declares the most one step can need; a full list is our own
 * bug. */
struct bw_actions {
    struct bw_action *at;
    uint32_t count, cap;
};

/* The next free action, its kind set and the rest as it was left: the caller fills in all that the
 * kind uses. */
static inline struct bw_action *bw_actions_add(struct bw_actions *actions, enum bw_action_kind kind)
{
    BW_ASSERT(actions->count < actions->cap);
    struct bw_action *action = &actions->at[actions->count++];
    action->kind = kind;
    action->election = 0;
    action->node = BW_NODE_NONE;
    return action;
}

/* A message to fill in: header set, list empty, fixed part zeroed. */
struct bw_message *bw_actions_send(struct bw_actions *actions, enum bw_message_kind kind,
                                   bw_node from, bw_node to, bw_term term);
void bw_actions_persist(struct bw_actions *actions, const struct bw_durable *durable);
void bw_actions_announce(struct bw_actions *actions, const struct bw_announcement *announcement);
void bw_actions_trace(struct bw_actions *actions, enum bw_trace_code code, bw_node node, uint64_t a,
                      uint64_t b);

#endif
