/* Whose turn it is; see turn.h. */
#include "store/redis/turn.h"

#include "core/base/bug.h"

#include <string.h>

#define TURN_MS 100u /* what one that is there needs, and a busy machine beside */

void redis_turn_begin(struct redis_turn *turn, const struct redis_next *next, uint64_t n,
                      uint64_t now_ms, struct bw_rng *rng)
{
    uint64_t lot = bw_rng_below(rng, TURN_MS); /* the others do not look together */
    turn->n = n;
    turn->until_ms = now_ms + ((uint64_t)TURN_MS << next->missed) + lot;
    memcpy(turn->candidate, next->candidate, sizeof turn->candidate);
}

bool redis_turn_is(const struct redis_turn *turn, const struct redis_state *state, uint64_t now_ms)
{
    return !state->locked && state->n == turn->n && now_ms < turn->until_ms;
}

uint64_t redis_turn_wait(const struct redis_turn *turn, const struct redis_state *state,
                         const char *candidate, uint64_t now_ms)
{
    bool aside = redis_turn_is(turn, state, now_ms) && candidate &&
                 strcmp(candidate, turn->candidate) != 0 && !BW_BUG(redis_turn_is_everybodys);
    return aside ? turn->until_ms - now_ms : 0;
}
