/* Recent events, in a ring. A full ring drops the oldest event; requests for older ones fail. A
 * second bound counts bytes.
 *
 * The bound of bytes decides which revisions a transaction can still read, so it must not differ
 * between nodes: it depends only on the state, and it begins with an entry of the log (level 3). */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/registry/registry_state.h"

bool history_drop(struct bw_registry *r)
{
    if (r->event_first == r->event_end)
        return false;
    const struct event *event = event_at(r, r->event_first++);
    r->compacted = event->revision + 1;
    kv_drop(r, event->kv);
    if (event->previous)
        kv_drop(r, event->previous);
    r->bytes -= EVENT_COST;
    return true;
}

void history_add(struct bw_registry *r, const struct event *event)
{
    if (r->event_end - r->event_first == r->config.history)
        history_drop(r);
    *event_at(r, r->event_end++) = *event;
    kv_hold(r, event->kv);
    if (event->previous)
        kv_hold(r, event->previous);
    r->bytes += EVENT_COST;
}

uint64_t history_size(const struct bw_registry *r)
{
    return r->bytes - r->current - r->permissions - r->keys * NODE_COST - r->leases * LEASE_COST;
}

void history_trim(struct bw_registry *r)
{
    if (r->config.history_bytes == 0 ||
        (r->level < BW_REGISTRY_LEVEL_HISTORY && !BW_BUG(history_bound_ignores_the_level)))
        return;
    while (history_size(r) > r->config.history_bytes && BW_ALWAYS(history_drop(r)))
        ;
}

uint64_t bw_registry_events_from(const struct bw_registry *r, int64_t revision)
{
    uint64_t low = r->event_first, high = r->event_end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (event_at(r, middle)->revision < revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool bw_registry_event(const struct bw_registry *r, uint64_t number, struct bw_kv_event *out)
{
    if (number < r->event_first || number >= r->event_end)
        return false;
    const struct event *event = event_at(r, number);
    *out = (struct bw_kv_event){.revision = event->revision,
                                .deleted = event->deleted,
                                .kv = kv_at(r, event->kv),
                                .previous = event->previous ? kv_at(r, event->previous) : NULL};
    return true;
}

const struct bw_kv *bw_registry_created_before(const struct bw_registry *r,
                                               const struct bw_keys *keys, int64_t revision,
                                               uint32_t most)
{
    uint64_t number = bw_registry_events_from(r, revision);
    for (; most > 0 && number > r->event_first; most--) {
        const struct event *event = event_at(r, --number);
        struct bw_slice key = bw_kv_key(kv_at(r, event->kv));
        if (event->deleted || event->previous || !keys_hold(keys, key))
            continue;
        bw_ref found = tree_find(r, key);
        const struct bw_kv *kv = found ? kv_at(r, node_at(r, found)->kv) : NULL;
        if (kv && kv->create_revision == event->revision)
            return kv;
    }
    return NULL;
}

enum bw_refusal bw_registry_compact(struct bw_registry *r, int64_t revision)
{
    if (revision > r->revision)
        return BW_REFUSED_FUTURE;
    if (revision <= r->compacted)
        return BW_REFUSED_COMPACTED;
    while (r->event_first < r->event_end && event_at(r, r->event_first)->revision < revision)
        history_drop(r);
    r->compacted = revision;
    return BW_REFUSED_NONE;
}
