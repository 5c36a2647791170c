/* Converts requests into operations on keys; see history.h. */
#include "sim/checks/history.h"

#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

#define LIVE ((uint64_t)1) /* the value of the key that represents a lease */

struct tie { /* a key that was put under a lease */
    int64_t lease;
    uint64_t key;
    bw_time call;
};

struct list { /* operations under construction */
    struct bw_linear_op *at;
    uint32_t count, cap;
    struct tie *ties;
    uint32_t tie_count;
    int64_t *granted; /* leases whose grant is in the history, sorted */
    uint32_t granted_count;
    int error;
};

void bw_history_clear(struct bw_history *history)
{
    history->count = 0;
}

void bw_history_deinit(struct bw_history *history)
{
    free(history->ops);
    *history = (struct bw_history){0};
}

int bw_history_add(struct bw_history *history, const struct bw_history_op *op)
{
    if (history->count == history->cap) {
        uint32_t cap = history->cap ? history->cap * 2 : 256;
        if (cap > BW_LINEAR_OPS_MAX)
            return BW_ELIMIT;
        struct bw_history_op *larger = realloc(history->ops, cap * sizeof *larger);
        if (!larger)
            return BW_ENOMEM;
        history->ops = larger;
        history->cap = cap;
    }
    history->ops[history->count++] = *op;
    return 0;
}

uint64_t bw_history_name(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    hash = (hash ^ hash >> 32) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
    return hash ? hash : 1;
}

static uint64_t lease_key(int64_t lease)
{
    uint64_t key = ((uint64_t)lease ^ 0x6c65617365u) * 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

static void emit(struct list *list, const struct bw_linear_op *op)
{
    if (list->count == list->cap && !list->error) {
        uint32_t cap = list->cap ? list->cap * 2 : 512;
        struct bw_linear_op *larger =
            cap > BW_LINEAR_OPS_MAX ? NULL : realloc(list->at, cap * sizeof *larger);
        list->error = larger ? 0 : BW_ENOMEM;
        list->at = larger ? larger : list->at;
        list->cap = larger ? cap : list->cap;
    }
    if (!list->error)
        list->at[list->count++] = *op;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int by_tie(const void *a, const void *b)
{
    const struct tie *x = a, *y = b;
    if (x->lease != y->lease)
        return x->lease < y->lease ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->call > y->call) - (x->call < y->call);
}

/* Finds the keys that ever belonged to each lease, and the leases that begin in the history. */
static int survey(struct list *list, const struct bw_history *history)
{
    list->ties = calloc(history->count + 1u, sizeof *list->ties);
    list->granted = calloc(history->count + 1u, sizeof *list->granted);
    if (!list->ties || !list->granted)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < history->count; i++) {
        const struct bw_history_op *op = &history->ops[i];
        bool puts = op->kind == BW_HISTORY_PUT || op->kind == BW_HISTORY_CAS;
        if (!op->lease || op->outcome == BW_LINEAR_FAIL)
            continue;
        if (puts)
            list->ties[list->tie_count++] = (struct tie){op->lease, op->key, op->call};
        else if (op->kind == BW_HISTORY_GRANT)
            list->granted[list->granted_count++] = op->lease;
    }
    qsort(list->ties, list->tie_count, sizeof *list->ties, by_tie);
    qsort(list->granted, list->granted_count, sizeof *list->granted, by_number);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->tie_count; i++)
        if (!kept || list->ties[kept - 1].lease != list->ties[i].lease ||
            list->ties[kept - 1].key != list->ties[i].key)
            list->ties[kept++] = list->ties[i];
    list->tie_count = kept;
    return 0;
}

static bool was_granted(const struct list *list, int64_t lease)
{
    return list->granted_count &&
           bsearch(&lease, list->granted, list->granted_count, sizeof lease, by_number);
}

static uint32_t first_tie(const struct list *list, int64_t lease)
{
    uint32_t low = 0, high = list->tie_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->ties[middle].lease < lease)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds the end of a lease to the histories of its keys. */
static void end_keys(struct list *list, struct bw_linear_op op, int64_t lease)
{
    op.kind = BW_LINEAR_END;
    op.lease = lease;
    op.done_known = false;
    op.revision = 0;
    bw_time call = op.call;
    for (uint32_t i = first_tie(list, lease); i < list->tie_count && list->ties[i].lease == lease;
         i++) {
        op.key = list->ties[i].key;
        op.call = op.outcome == BW_LINEAR_UNKNOWN ? bw_time_max(call, list->ties[i].call) : call;
        emit(list, &op);
    }
}

static void end_by_itself(struct list *list, const struct bw_linear_op *from, int64_t lease)
{
    struct bw_linear_op op = *from;
    op.kind = BW_LINEAR_DELETE;
    op.outcome = BW_LINEAR_UNKNOWN;
    op.lease = 0;
    op.done_known = false;
    op.back = BW_TIME_NEVER;
    op.revision = 0;
    if (was_granted(list, lease)) {
        op.key = lease_key(lease);
        emit(list, &op);
    }
    end_keys(list, op, lease);
}

/* Records that the lease existed when a key was put under it. */
static void saw_lease(struct list *list, const struct bw_linear_op *from, int64_t lease)
{
    struct bw_linear_op op = *from;
    op.kind = BW_LINEAR_GET;
    op.key = lease_key(lease);
    op.value = LIVE;
    op.version = BW_LINEAR_NO_VERSION;
    op.lease = 0;
    op.revision = 0;
    if (was_granted(list, lease) && op.outcome == BW_LINEAR_OK)
        emit(list, &op);
}

static void on_lease(struct list *list, const struct bw_history_op *from, struct bw_linear_op op)
{
    op.key = lease_key(from->lease);
    op.lease = 0;
    op.version = BW_LINEAR_NO_VERSION;
    switch (from->kind) {
    case BW_HISTORY_GRANT:
        op.kind = BW_LINEAR_CAS;
        op.expect = BW_LINEAR_ABSENT;
        op.value = LIVE;
        emit(list, &op);
        end_by_itself(list, &op, from->lease);
        break;
    case BW_HISTORY_KEEP_ALIVE:
        if (from->done)
            saw_lease(list, &op, from->lease);
        break;
    default:
        op.kind = BW_LINEAR_DELETE;
        if (was_granted(list, from->lease))
            emit(list, &op);
        if (from->done || op.outcome == BW_LINEAR_UNKNOWN)
            end_keys(list, op, from->lease);
    }
}

static void on_key(struct list *list, const struct bw_history_op *from, struct bw_linear_op op)
{
    static const enum bw_linear_kind kinds[] = {BW_LINEAR_PUT, BW_LINEAR_GET, BW_LINEAR_DELETE,
                                                BW_LINEAR_CAS};
    op.kind = kinds[from->kind];
    emit(list, &op);
    bool put = op.kind == BW_LINEAR_PUT || (op.kind == BW_LINEAR_CAS && op.done);
    if (put && from->lease)
        saw_lease(list, &op, from->lease);
}

static void expand(struct list *list, const struct bw_history *history)
{
    for (uint32_t i = 0; i < history->count; i++) {
        const struct bw_history_op *from = &history->ops[i];
        struct bw_linear_op op = {.outcome = from->outcome,
                                  .client = from->client,
                                  .line = from->line,
                                  .key = from->key,
                                  .value = from->value,
                                  .expect = from->expect,
                                  .version = from->version,
                                  .lease = from->lease,
                                  .done = from->done,
                                  .done_known = from->outcome == BW_LINEAR_OK,
                                  .call = from->call,
                                  .back = from->back,
                                  .revision = from->revision};
        if (from->outcome == BW_LINEAR_FAIL)
            continue;
        if (from->kind <= BW_HISTORY_CAS)
            on_key(list, from, op);
        else
            on_lease(list, from, op);
    }
    for (uint32_t i = 0; i < list->tie_count; i++) { /* leases from before the history */
        const struct tie *tie = &list->ties[i];
        struct bw_linear_op op = {.version = BW_LINEAR_NO_VERSION, .call = tie->call};
        bool first = i == 0 || list->ties[i - 1].lease != tie->lease;
        if (first && !was_granted(list, tie->lease))
            end_by_itself(list, &op, tie->lease);
    }
}

int bw_history_judge(const struct bw_history *history, uint32_t steps,
                     struct bw_history_verdict *verdict)
{
    struct list list = {0};
    memset(verdict, 0, sizeof *verdict);
    int error = survey(&list, history);
    if (!error)
        expand(&list, history);
    if (!error)
        error = list.error;
    if (!error)
        error = bw_linear_revisions(list.at, list.count, &verdict->backward_line);
    if (!error)
        error = bw_linear_check(list.at, list.count, steps, &verdict->linear);
    free(list.at);
    free(list.ties);
    free(list.granted);
    return error;
}
