/* The actions that a decision module asks its caller to carry out, in order.
 *
 * The caller carries out the actions of a step in the order of the list.
 * PERSIST is a barrier: the caller carries out no later action, of this step or of a later one,
 * before the record is durable. A crash before that loses the record and every action behind it.
 * LOG_* actions are not barriers: several may be in flight. They become durable in order, and the
 * caller reports their progress with PERSISTED events. */
#ifndef BW_CORE_BASE_ACTION_H
#define BW_CORE_BASE_ACTION_H

#include "core/base/assert.h"
#include "core/base/event.h"
#include "core/base/message.h"
#include "core/base/trace.h"
#include "core/base/types.h"

enum bw_action_kind {
    BW_ACTION_PERSIST,  /* make `durable` durable before any later action */
    BW_ACTION_SEND,     /* send `msg` */
    BW_ACTION_ANNOUNCE, /* report `announce`: the known leader, or the window in which we may act */
    BW_ACTION_SUSPECT,  /* detector: suspects `node`, with `level` */
    BW_ACTION_TRUST,    /* detector: trusts `node` again, with `level` */
    /* Raft: append log.count entries from log.first on, ending in log.term; their bytes are in the
     * step's message or request */
    BW_ACTION_LOG_APPEND,
    BW_ACTION_LOG_TRUNCATE, /* Raft: drop the entries from log.first on */
    /* Raft: replace the whole log by the snapshot in the step's message, which ends at log.first */
    BW_ACTION_LOG_RESTORE,
    BW_ACTION_LOG_COMPACT, /* Raft: entries up to log.first are no longer needed */
    BW_ACTION_COMMIT,      /* Raft: entries up to log.first may be applied */
    BW_ACTION_ANSWER, /* Raft: reply to command answer.request: answer.index, or answer.error */
    /* instance: we lead `election`, but `node` should; stop the work, then send the command
     * TRANSFER */
    BW_ACTION_MOVE,
    BW_ACTION_TRACE /* record `trace` */
};

/* Why a leadership ended; NONE while it lasts. */
enum bw_loss {
    BW_LOSS_NONE,
    BW_LOSS_EXPIRED,
    BW_LOSS_TAKEN,
    BW_LOSS_RESIGNED,
    BW_LOSS_TRANSFERRED,
    BW_LOSS_UNHEALTHY,
    BW_LOSS_UNREACHABLE, /* the store or the quorum is unreachable */
    BW_LOSS_SHUT_DOWN
};

/* The current leader, as this instance knows it.
 *
 * If this instance is the leader: it may act from act_from (inclusive) until act_until (exclusive)
 * on its own clock, and its work carries `token`. act_until == BW_TIME_NEVER means that the
 * algorithm does not guarantee a single leader. A renewal repeats the announcement with a later
 * act_until.
 * If another instance is the leader, act_from and act_until are 0. */
struct bw_announcement {
    bw_node leader; /* BW_NODE_NONE: no leader known */
    enum bw_loss reason;
    bw_term term;
    bw_token token; /* BW_TOKEN_NONE: this algorithm issues no tokens */
    bw_time act_from, act_until;
};

struct bw_log_action {
    bw_index first;
    uint32_t count;
    uint32_t skip; /* APPEND from a message: its first `skip` entries are already in the log */
    bw_term term;  /* of the last entry */
    /* APPEND of a proposal: the request that holds the bytes; 0: Raft's own entry */
    uint64_t request;
    struct bw_change change; /* the membership change among the entries; op 0: none */
};

struct bw_answer {
    uint64_t request;
    int error; /* 0 or enum bw_error */
    bw_index index;
    bw_term term;
    bw_node leader; /* leader to ask instead, if known */
};

struct bw_action {
    enum bw_action_kind kind;
    uint16_t election; /* the instance's elector that issued the action; set by instance.c */
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

/* A bounded list in the caller's memory. Each module declares the maximum that one step can add; a
 * full list is a bug of ours, and BW_ASSERT traps. */
struct bw_actions {
    struct bw_action *at;
    uint32_t count, cap;
};

/* Returns the next free action with its kind set. The other fields hold old values: the caller sets
 * all that the kind uses. */
static inline struct bw_action *bw_actions_add(struct bw_actions *actions, enum bw_action_kind kind)
{
    BW_ASSERT(actions->count < actions->cap);
    struct bw_action *action = &actions->at[actions->count++];
    action->kind = kind;
    action->election = 0;
    action->node = BW_NODE_NONE;
    return action;
}

/* Adds a SEND action and returns its message to fill in: header set, list empty, fixed part
 * zeroed. */
struct bw_message *bw_actions_send(struct bw_actions *actions, enum bw_message_kind kind,
                                   bw_node from, bw_node to, bw_term term);
void bw_actions_persist(struct bw_actions *actions, const struct bw_durable *durable);
void bw_actions_announce(struct bw_actions *actions, const struct bw_announcement *announcement);
void bw_actions_trace(struct bw_actions *actions, enum bw_trace_code code, bw_node node, uint64_t a,
                      uint64_t b);

#endif
