/* Whose turn it is after a release: who is next in line has a while before the others learn that it
 * is free. So a release makes one candidate ask, not all, and candidates lead in turn. It is a
 * courtesy and no lock: whoever did not hear of the release knows of no turn.
 *
 * The while doubles with each turn that the same candidate has missed, so that one that is only
 * slow gets the lead in the end; after REDIS_MISSED_MOST it goes to the end of the line (in the
 * script), so that one that is gone or may not lead does not hold the others up each time. */
#ifndef BW_STORE_REDIS_TURN_H
#define BW_STORE_REDIS_TURN_H

#include "core/base/rng.h"
#include "store/redis/view.h"

struct redis_turn {
    uint64_t n;        /* of the state that it is about: any later one ends it */
    uint64_t until_ms; /* on the loop's clock */
    char candidate[BW_CANDIDATE_ID_MAX + 1];
};

/* State `n` is free, and somebody is next. */
void redis_turn_begin(struct redis_turn *turn, const struct redis_next *next, uint64_t n,
                      uint64_t now_ms, struct bw_rng *rng);
/* It is free, and somebody's turn. */
bool redis_turn_is(const struct redis_turn *turn, const struct redis_state *state, uint64_t now_ms);
/* How long the candidate stands aside, 0: not at all. NULL: one that does not contend. */
uint64_t redis_turn_wait(const struct redis_turn *turn, const struct redis_state *state,
                         const char *candidate, uint64_t now_ms);

#endif
