/* Turns after a release; see turn.h. */
#include "store/redis/turn.h"

#include "core/base/bug.h"

#include <string.h>

#define TURN_MS 100u /* head start of the next candidate; long enough on a busy machine */

void redis_turn_begin(struct redis_turn *turn, const struct redis_next *next, uint64_t n,
                      uint64_t now_ms, struct bw_rng *rng)
{
    /* random part, so that the other candidates do not all read at the same time */
    uint64_t jitter = bw_rng_below(rng, TURN_MS);
    turn->n = n;
    turn->until_ms = now_ms + ((uint64_t)TURN_MS << next->missed) + jitter;
    memcpy(turn->candidate, next->candidate, sizeof turn->candidate);
}

bool redis_turn_is_open(const struct redis_turn *turn, const struct redis_state *state,
                        uint64_t now_ms)
{
    return !state->locked && state->n == turn->n && now_ms < turn->until_ms;
}

uint64_t redis_turn_wait(const struct redis_turn *turn, const struct redis_state *state,
                         const char *candidate, uint64_t now_ms)
{
    bool waits = redis_turn_is_open(turn, state, now_ms) && candidate &&
                 strcmp(candidate, turn->candidate) != 0 && !BW_BUG(redis_turn_is_everybodys);
    return waits ? turn->until_ms - now_ms : 0;
}
