/* The digest of the lease elector for the explorer (core/explore/digest.h), and the removal of its
 * random draws. Request ids only ever grow, so they are added through a function of the caller that
 * names them independently of how many came before; versions are added relative to `version`. */
#include "core/explore/digest.h"
#include "core/lease/state.h"

/* The first bytes of a text; the explorer's names are not longer. */
static uint64_t text(const char *from)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < sizeof word && from[i]; i++)
        word |= (uint64_t)(unsigned char)from[i] << (8 * i);
    return word;
}

static void add_pending(const struct lease_pending *pending, const struct bw_lease_naming *naming,
                        struct bw_digest *out)
{
    bw_digest_add(out, pending->id ? naming->name(naming->context, pending->id) : 0);
    bw_digest_age(out, pending->id ? pending->sent : -1);
}

static void add_record(const struct bw_lease *l, const struct bw_lease_naming *naming,
                       struct bw_digest *out)
{
    const struct bw_store_record *seen = &l->seen;
    bw_digest_add(out, seen->version ? naming->version - seen->version : UINT64_MAX);
    bw_digest_add(out, seen->request ? naming->name(naming->context, seen->request) : 0);
    bw_digest_add(out, (uint64_t)seen->held | (uint64_t)seen->clean << 1 | seen->token << 8);
    bw_digest_add(out, text(seen->holder));
    bw_digest_add(out, seen->note.serial);
    bw_digest_age(out, seen->held ? l->seen_since : -1);
}

static void add_leadership(const struct bw_lease *l, struct bw_digest *out)
{
    bool leads = l->state == LEASE_HOLDING || l->state == LEASE_STOPPING;
    bw_digest_add(out, l->token);
    bw_digest_time(out, leads ? l->schedule.renew : 0);
    bw_digest_time(out, leads ? l->schedule.retry : 0);
    bw_digest_time(out, leads ? l->schedule.term : 0);
    bw_digest_time(out, leads ? l->schedule.kill : 0);
    /* a release without an answer is repeated until the end */
    bw_digest_time(out, leads || l->state == LEASE_RELEASING ? l->schedule.end : 0);
    bw_digest_add(out, (uint64_t)l->reason << 8 | (uint64_t)l->renewed_once << 1 | l->unreachable);
    bw_digest_add(out, text(l->previous) | (uint64_t)l->previous_clean << 63);
    bw_digest_add(out, text(l->successor));
    bw_digest_time(out, l->successor_until);
}

/* A server that expires leases proves by time that the holder runs; otherwise renewals do. */
static void add_duplicate(const struct bw_lease *l, const struct bw_lease_naming *naming,
                          struct bw_digest *out)
{
    const struct lease_duplicate *other = &l->duplicate;
    bool observed = l->config.traits & BW_STORE_OBSERVED;
    bw_digest_add(out, (uint64_t)other->renewals << 1 | l->duplicate_reported);
    bw_digest_add(out, other->request ? naming->name(naming->context, other->request) : 0);
    if (!other->request)
        return;
    bw_digest_add(out, naming->version - other->version);
    bw_digest_add(out, other->note_serial);
    bw_digest_age(out, observed ? -1 : other->since);
}

void bw_lease_digest(const struct bw_lease *l, const struct bw_lease_naming *naming,
                     struct bw_digest *out)
{
    bw_digest_add(out, (uint64_t)l->state << 8 | (uint64_t)l->unhealthy |
                           (uint64_t)l->stopping << 1 | (uint64_t)l->registered << 2 |
                           (uint64_t)l->queued << 3 | (uint64_t)l->yielded << 4);
    add_pending(&l->main, naming, out);
    add_pending(&l->watch, naming, out);
    add_pending(&l->acquire, naming, out);
    add_pending(&l->enter, naming, out);
    for (unsigned i = 0; i < LEASE_RENEWALS; i++)
        add_pending(&l->renew[i], naming, out);
    bw_digest_time(out, l->act_at);
    bw_digest_time(out, l->prefer_at);
    bw_digest_time(out, l->not_before);
    bw_digest_time(out, l->cleanup_at);
    bw_digest_add(out, l->released_unused ? naming->name(naming->context, l->released_unused) : 0);
    bw_digest_add(out, (uint64_t)l->failed_cleanups << 32 | l->refusals);
    add_record(l, naming, out);
    add_leadership(l, out);
    bw_digest_add(out, l->note_seen << 8 | l->last_loss);
    add_duplicate(l, naming, out);
}

uint64_t bw_lease_next_id(const struct bw_lease *l)
{
    return l->next_id;
}

void bw_lease_fix_draws(struct bw_lease *l)
{
    l->rng = (struct bw_rng){{0}};
}
