/* The state of the quorum guard. Only quorum_guard.c and its digest include this header. */
#ifndef BW_CORE_ELECT_QUORUM_GUARD_STATE_H
#define BW_CORE_ELECT_QUORUM_GUARD_STATE_H

#include "core/base/members.h"
#include "core/base/rng.h"
#include "core/elect/elector.h"

enum state { FOLLOWING, CLAIMING, HOLDING };

/* Invariants between two steps:
 *   durable.promise_epoch never decreases, and an epoch is promised to one claimant only
 *   before bound_until, only durable.promised_to gets a promise
 *   `epoch` never decreases; it is durable here before a claim with it is sent
 *   token <= epoch
 *   FOLLOWING or CLAIMING: act_until is 0; HOLDING: the node may act until act_until
 *   promised[i] belongs to members.at[i]; a promise of the newest round equals round_at */
struct guard {
    const struct bw_elector_ops *inner_ops;
    void *inner;
    bw_node self;
    uint32_t quorum;       /* configured quorum; 0: a majority */
    const bw_node *voters; /* NULL: all members vote */
    uint32_t voters_count;
    uint32_t drift_ppm;
    bw_time promise_ns, answer_ns;
    struct bw_members members;
    struct bw_rng rng;
    struct bw_durable durable;
    /* As a voter. The promise in `durable` binds until bound_until. Claims of released_by up to
     * released_epoch are void, whenever they arrive. */
    bw_time bound_until;
    bw_node released_by;
    bw_term released_epoch;
    /* As a claimant. */
    enum state state;
    bool begun; /* `epoch` is durable and promised to ourselves */
    /* The node releases no promises before this time: the work of a lost leadership may still be
     * running. A later claim does not change that. 0: the work is dead. */
    bw_time dying_until;
    /* After releasing a claim: the time of the next repeat, the pause after that, and the time when
     * all promises have expired. release_at == NEVER: no more repeats. */
    bw_time release_at, release_pause, release_until;
    bw_term epoch;
    /* epoch of the newest window; lower than `epoch` while that is being claimed */
    bw_token token;
    bw_time claim_at;  /* next claim or renewal */
    bw_time repeat_at; /* next repeat of the newest claim by a leader; NEVER: no more repeats */
    uint32_t repeats;  /* number of repeats so far */
    bw_time act_until;
    bw_time round_at; /* send time of the newest round of claims */
    bool complete;    /* a quorum has answered the newest round */
    /* upper bound of the promises in the newest round; the table is counted only when it reaches a
     * quorum */
    uint32_t answers;
    /* per member row: the newest of our send times that the member answered; -1: none */
    bw_time *promised;
    /* As an observer: the leader according to the inner elector, and according to the claims of the
     * node that holds leadership. */
    bw_node inner_leader;
    bw_node view;
    bw_term view_epoch;
    bw_time view_until;
};

/* quorum_guard_digest.c */
void bw_guard_digest(const void *self, struct bw_digest *out);
void bw_guard_fix_draws(void *self);

#endif
