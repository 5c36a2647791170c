/* Reads the keys of a range, now or at a kept revision; filters, sorts and cuts them. With a limit,
 * only that many are held: in a heap whose root is the worst of the best. */
#include "core/registry/registry_state.h"

struct query {
    const struct bw_registry *registry;
    const struct bw_range *range;
    enum bw_sort_order order;
    bool natural;            /* the tree's order is the requested order */
    const struct bw_kv **at; /* the best so far */
    uint32_t count, most;    /* most: the capacity, or the limit if that is smaller */
    uint64_t seen, fit;      /* in the range; after the filter */
};

static bool passes(const struct bw_range *range, const struct bw_kv *kv)
{
    return !(range->mod_min && kv->mod_revision < range->mod_min) &&
           !(range->mod_max && kv->mod_revision > range->mod_max) &&
           !(range->create_min && kv->create_revision < range->create_min) &&
           !(range->create_max && kv->create_revision > range->create_max);
}

static int compare_numbers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_target(enum bw_sort_target target, const struct bw_kv *a, const struct bw_kv *b)
{
    switch (target) {
    case BW_SORT_VERSION:
        return compare_numbers(a->version, b->version);
    case BW_SORT_CREATE:
        return compare_numbers(a->create_revision, b->create_revision);
    case BW_SORT_MOD:
        return compare_numbers(a->mod_revision, b->mod_revision);
    case BW_SORT_VALUE:
        return slice_compare(bw_kv_value(a), bw_kv_value(b));
    case BW_SORT_KEY:
        break;
    }
    return slice_compare(bw_kv_key(a), bw_kv_key(b));
}

/* Whether `a` comes before `b` in the result. Ties are ordered by key. */
static bool before(const struct query *q, const struct bw_kv *a, const struct bw_kv *b)
{
    int order = compare_target(q->range->target, a, b);
    if (q->order == BW_SORT_DESCEND)
        order = -order;
    return order ? order < 0 : slice_compare(bw_kv_key(a), bw_kv_key(b)) < 0;
}

static void swap(const struct bw_kv **a, const struct bw_kv **b)
{
    const struct bw_kv *kept = *a;
    *a = *b;
    *b = kept;
}

static void sift_down(const struct query *q, uint32_t at, uint32_t count)
{
    for (;;) {
        uint32_t worst = at, child = 2 * at + 1;
        for (uint32_t i = child; i < child + 2 && i < count; i++)
            if (before(q, q->at[worst], q->at[i]))
                worst = i;
        if (worst == at)
            return;
        swap(&q->at[at], &q->at[worst]);
        at = worst;
    }
}

static void sift_up(const struct query *q, uint32_t at)
{
    while (at > 0 && before(q, q->at[(at - 1) / 2], q->at[at])) {
        swap(&q->at[at], &q->at[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void add(struct query *q, const struct bw_kv *kv)
{
    q->seen++;
    if (q->range->count_only || !passes(q->range, kv))
        return;
    q->fit++;
    if (q->count < q->most) {
        q->at[q->count++] = kv;
        if (!q->natural)
            sift_up(q, q->count - 1);
    } else if (!q->natural && q->most && before(q, kv, q->at[0])) {
        q->at[0] = kv;
        sift_down(q, 0, q->count);
    }
}

static void sort(const struct query *q)
{
    for (uint32_t left = q->count; left > 1; left--) {
        swap(&q->at[0], &q->at[left - 1]);
        sift_down(q, 0, left - 1);
    }
}

static void look_now(struct query *q)
{
    const struct bw_registry *r = q->registry;
    const struct bw_keys *keys = &q->range->keys;
    for (bw_ref at = tree_first(r, keys); at; at = tree_after(r, keys, node_key(r, at)))
        add(q, kv_at(r, node_at(r, at)->kv));
}

/* The state at a past revision: keys unchanged since, and the versions that the first later change
 * replaced. */
static void read_past(struct query *q, int64_t revision)
{
    const struct bw_registry *r = q->registry;
    const struct bw_keys *keys = &q->range->keys;
    struct bw_kv_event event;
    for (bw_ref at = tree_first(r, keys); at; at = tree_after(r, keys, node_key(r, at)))
        if (kv_at(r, node_at(r, at)->kv)->mod_revision <= revision)
            add(q, kv_at(r, node_at(r, at)->kv));
    for (uint64_t i = bw_registry_events_from(r, revision + 1); bw_registry_event(r, i, &event);
         i++) {
        const struct bw_kv *old = event.deleted ? event.kv : event.previous;
        if (old && old->mod_revision <= revision && keys_hold(keys, bw_kv_key(old)))
            add(q, old);
    }
}

enum bw_refusal range_check(const struct bw_registry *r, const struct bw_range *range)
{
    if (range->keys.key.length == 0)
        return BW_REFUSED_NO_KEY;
    if (range->revision > r->revision)
        return BW_REFUSED_FUTURE;
    bool back = range->revision > 0 && range->revision < r->revision;
    return back && range->revision < r->compacted ? BW_REFUSED_COMPACTED : BW_REFUSED_NONE;
}

bool range_read(const struct bw_registry *r, const struct bw_range *range,
                struct bw_results *results, struct bw_op_result *result)
{
    uint32_t left = results->kv_cap - results->kv_count;
    bool limited = range->limit > 0 && range->limit < left;
    bool back = range->revision > 0 && range->revision < r->revision;
    struct query q = {.registry = r,
                      .range = range,
                      .order = range->order,
                      .at = results->kvs + results->kv_count,
                      .most = limited ? (uint32_t)range->limit : left};
    if (q.order == BW_SORT_NONE)
        q.order = BW_SORT_ASCEND;
    q.natural = !back && range->target == BW_SORT_KEY && q.order == BW_SORT_ASCEND;
    if (back)
        read_past(&q, range->revision);
    else
        look_now(&q);
    if (!q.natural)
        sort(&q);
    *result = (struct bw_op_result){.kind = BW_OP_RANGE,
                                    .kvs = q.at,
                                    .kv_count = q.count,
                                    .count = (int64_t)q.seen,
                                    .more = range->limit > 0 && q.fit > (uint64_t)range->limit};
    results->kv_count += q.count;
    return q.count == q.fit || result->more;
}

enum bw_refusal bw_registry_range(struct bw_registry *r, const struct bw_range *range,
                                  struct bw_results *results, struct bw_op_result *result)
{
    enum bw_refusal refusal = range_check(r, range);
    results->kv_count = results->op_count = 0;
    results->revision = r->revision;
    if (refusal)
        return refusal;
    return range_read(r, range, results, result) ? BW_REFUSED_NONE : BW_REFUSED_TOO_LARGE;
}
