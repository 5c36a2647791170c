/* Deadlines of leases; see expiry.h. A binary heap of leases by `queued`; each lease stores its
 * index. */
#include "core/registry/expiry.h"

#include "core/base/bug.h"
#include "core/registry/registry_state.h"

static bw_time queued_at(const struct bw_registry *r, uint32_t place)
{
    return lease_at(r, r->queue[place])->queued;
}

static void put(struct bw_registry *r, uint32_t place, bw_ref lease)
{
    r->queue[place] = lease;
    lease_at(r, lease)->place = place;
}

static void sift_up(struct bw_registry *r, uint32_t place)
{
    bw_ref lease = r->queue[place];
    bw_time queued = lease_at(r, lease)->queued;
    for (; place > 1 && queued_at(r, place / 2) > queued; place /= 2)
        put(r, place, r->queue[place / 2]);
    put(r, place, lease);
}

static void sift_down(struct bw_registry *r, uint32_t place)
{
    bw_ref lease = r->queue[place];
    bw_time queued = lease_at(r, lease)->queued;
    for (;;) {
        uint32_t child = 2 * place;
        if (child < r->queued && queued_at(r, child + 1) < queued_at(r, child))
            child++;
        if (child > r->queued || queued_at(r, child) >= queued)
            break;
        put(r, place, r->queue[child]);
        place = child;
    }
    put(r, place, lease);
}

void expiry_add(struct bw_registry *r, bw_ref ref)
{
    struct lease *lease = lease_at(r, ref);
    BW_ASSERT(lease->place == 0 && r->queued < r->config.leases_max);
    lease->queued = lease->deadline;
    put(r, ++r->queued, ref);
    sift_up(r, r->queued);
}

void expiry_remove(struct bw_registry *r, bw_ref ref)
{
    uint32_t place = lease_at(r, ref)->place;
    if (place == 0)
        return;
    bw_ref last = r->queue[r->queued--];
    lease_at(r, ref)->place = 0;
    if (last == ref)
        return;
    put(r, place, last);
    sift_up(r, place);
    sift_down(r, lease_at(r, last)->place);
}

void bw_registry_follow(struct bw_registry *r)
{
    for (uint32_t i = 1; i <= r->queued; i++)
        lease_at(r, r->queue[i])->place = 0;
    r->queued = 0;
    r->leading = false;
}

void bw_registry_lead(struct bw_registry *r, bw_time now)
{
    bw_registry_follow(r);
    r->leading = true;
    for (bw_ref at = r->lease_first; at; at = lease_at(r, at)->next) {
        if (!BW_BUG(expiry_goes_on_after_a_term) || lease_at(r, at)->deadline == BW_TIME_NEVER)
            lease_at(r, at)->deadline = bw_time_add(now, lease_at(r, at)->ttl_ns);
        expiry_add(r, at);
    }
}

void bw_registry_begin(struct bw_registry *r, int64_t id, bw_time now)
{
    bw_ref ref = lease_find(r, id);
    if (!r->leading || !ref || lease_at(r, ref)->place)
        return;
    lease_at(r, ref)->deadline = bw_time_add(now, lease_at(r, ref)->ttl_ns);
    expiry_add(r, ref);
}

bw_time bw_registry_keep_alive(struct bw_registry *r, int64_t id, bw_time now)
{
    bw_ref ref = lease_find(r, id);
    struct lease *lease = ref ? lease_at(r, ref) : NULL;
    if (!lease || !lease->place)
        return 0;
    lease->deadline = bw_time_max(lease->deadline, bw_time_add(now, lease->ttl_ns));
    return lease->ttl_ns;
}

bw_time bw_registry_left(const struct bw_registry *r, int64_t id, bw_time now)
{
    bw_ref ref = lease_find(r, id);
    if (!ref)
        return -1;
    bw_time deadline = lease_at(r, ref)->deadline;
    return lease_at(r, ref)->place && deadline > now ? deadline - now : 0;
}

uint32_t bw_registry_expired(struct bw_registry *r, bw_time now, int64_t *ids, uint32_t cap)
{
    uint32_t count = 0;
    while (count < cap && r->queued && queued_at(r, 1) <= now) {
        bw_ref ref = r->queue[1];
        struct lease *lease = lease_at(r, ref);
        if (lease->deadline > lease->queued &&
            !BW_BUG(expiry_forgets_renewals)) { /* kept alive since it was queued */
            lease->queued = lease->deadline;
            sift_down(r, 1);
        } else {
            expiry_remove(r, ref);
            ids[count++] = lease->id;
        }
    }
    return count;
}

bw_time bw_registry_next_expiry(const struct bw_registry *r)
{
    return r->queued ? queued_at(r, 1) : BW_TIME_NEVER;
}
