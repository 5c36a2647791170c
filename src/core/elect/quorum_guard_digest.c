/* The digest of the quorum guard for the explorer (core/explore/digest.h), and the removal of its
 * random draws. */
#include "core/elect/quorum_guard_state.h"
#include "core/explore/digest.h"

static void digest_claimant(const struct guard *g, struct bw_digest *out)
{
    bool claims = g->state != FOLLOWING;
    /* otherwise the next claim begins with no answers */
    bool counts = (claims && g->begun) || g->round_at == out->now;
    bw_digest_add(out, (uint64_t)g->state << 1 | g->begun);
    bw_digest_add(out, g->dying_until > 0);
    bw_digest_time(out, g->dying_until);
    bw_digest_add(out, counts ? g->answers : 0);
    bw_digest_time(out, claims ? BW_TIME_NEVER : g->release_at);
    bw_digest_time(out, claims || g->release_at == BW_TIME_NEVER ? 0 : g->release_until);
    bw_digest_add(out, claims || g->release_at == BW_TIME_NEVER ? 0 : (uint64_t)g->release_pause);
    bw_digest_add(out, g->epoch);
    if (!claims)
        return;
    bw_digest_add(out, counts && g->complete);
    bw_digest_add(out, g->state == HOLDING ? g->token << 8 | g->repeats : 0);
    bw_digest_time(out, g->claim_at);
    bw_digest_time(out, g->state == HOLDING ? g->repeat_at : 0);
    bw_digest_time(out, g->act_until);
    bw_digest_age(out, counts ? g->round_at : -1);
    for (uint32_t i = 0; i < g->members.count; i++)
        bw_digest_add(out, counts && g->promised[i] == g->round_at);
}

/* Rows of `promised` are compared only with the newest round. */
void bw_guard_digest(const void *self, struct bw_digest *out)
{
    const struct guard *g = self;
    bw_digest_add(out, g->members.count);
    for (uint32_t i = 0; i < g->members.count; i++)
        bw_digest_add(out, g->members.at[i].id);
    bw_digest_add(out, g->durable.promise_epoch << 32 | g->durable.promised_to);
    bw_digest_add(out, (uint64_t)g->durable.promised_ns);
    bw_digest_add(out, g->durable.token);
    bw_digest_time(out, g->bound_until);
    bw_digest_add(out, g->released_epoch << 32 | g->released_by);
    digest_claimant(g, out);
    bw_digest_add(out, (uint64_t)g->inner_leader << 32 | g->view);
    bw_digest_add(out, g->view_epoch);
    bw_digest_time(out, g->view_until);
    if (g->inner_ops->digest)
        g->inner_ops->digest(g->inner, out);
}

void bw_guard_fix_draws(void *self)
{
    struct guard *g = self;
    g->rng = (struct bw_rng){{0}};
    if (g->inner_ops->fix_draws)
        g->inner_ops->fix_draws(g->inner);
}
