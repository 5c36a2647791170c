/* Decides whether a token may act, from the register's state. Pure. */
#include "fence/guard.h"

#include "core/base/bug.h"

#include <inttypes.h>
#include <stdio.h>

struct bw_guard_verdict bw_guard_decide(const struct bw_guard_state *state, bw_token token)
{
    struct bw_guard_verdict verdict = {.token = token, .highest = state->highest};
    bw_token least = state->highest;
    if (BW_BUG(fence_takes_the_one_before) && least > 0)
        least--; /* off by one: the last leader's writes pass */
    if (token == BW_TOKEN_NONE)
        verdict.error = BW_ENOTOKEN;
    else if (token < least)
        verdict.error = BW_ESTALE;
    else if (state->closed && token > state->highest)
        verdict.error = BW_EBUSY;
    else if (BW_BUG(fence_refuses_its_own) && token == state->highest)
        verdict.error = BW_ESTALE; /* a leader could write only once */
    else
        verdict.raise = token > state->highest;
    return verdict;
}

int bw_guard_explain(const struct bw_guard_verdict *verdict, const char *resource, char *why)
{
    size_t size = BW_GUARD_WHY_MAX + 1;
    switch (verdict->error) {
    case 0:
        snprintf(why, size, "token %" PRIu64 " is accepted for %.300s", verdict->token, resource);
        break;
    case BW_ENOTOKEN:
        snprintf(why, size, "no token: %.300s is guarded and accepts no write without one",
                 resource);
        break;
    case BW_ESTALE:
        snprintf(why, size,
                 "token %" PRIu64 " is older than %" PRIu64
                 ", which %.300s has already seen: a newer leadership exists",
                 verdict->token, verdict->highest, resource);
        break;
    default:
        snprintf(why, size,
                 "token %" PRIu64 " must wait: %.300s is closed by a recovery with token %" PRIu64,
                 verdict->token, resource, verdict->highest);
    }
    return verdict->error;
}
