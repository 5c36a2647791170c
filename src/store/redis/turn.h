/* Turns after a release: the next candidate in the queue gets a head start, and the other
 * candidates learn of the release later. So a release makes one candidate send a request instead of
 * all, and candidates lead in turn.
 *
 * Not guaranteed: a turn is not a lock. A candidate that did not receive the release message
 * ignores the turn and may acquire at once.
 *
 * The head start doubles with each turn that the same candidate misses, so that a slow candidate is
 * elected in the end. After REDIS_MISSED_MOST missed turns the script moves the candidate to the
 * end of the queue. So a candidate that is gone or cannot lead does not delay every election. */
#ifndef BW_STORE_REDIS_TURN_H
#define BW_STORE_REDIS_TURN_H

#include "core/base/rng.h"
#include "store/redis/view.h"

struct redis_turn {
    uint64_t n;        /* the state this turn belongs to; a later state ends the turn */
    uint64_t until_ms; /* on the loop's clock */
    char candidate[BW_CANDIDATE_ID_MAX + 1];
};

/* Begins the turn of candidate `next`, after the release that led to state `n`. */
void redis_turn_begin(struct redis_turn *turn, const struct redis_next *next, uint64_t n,
                      uint64_t now_ms, struct bw_rng *rng);
/* True if the lock is free and the turn has not ended. */
bool redis_turn_is_open(const struct redis_turn *turn, const struct redis_state *state,
                        uint64_t now_ms);
/* How long the candidate must wait, 0 if not at all. `candidate` is NULL for a client that only
 * observes. */
uint64_t redis_turn_wait(const struct redis_turn *turn, const struct redis_state *state,
                         const char *candidate, uint64_t now_ms);

#endif
