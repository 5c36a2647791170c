/* The set of nodes with an alarm, and the requests that it stops; see alarm.h. */
#include "core/registry/alarm.h"

#include "core/base/bug.h"
#include "core/registry/registry_state.h"

#include <string.h>

const struct bw_alarms *bw_registry_alarms(const struct bw_registry *r)
{
    return &r->alarms;
}

static void insert(struct bw_alarms *alarms, uint32_t at, uint64_t node)
{
    memmove(&alarms->nodes[at + 1], &alarms->nodes[at],
            (alarms->count - at) * sizeof alarms->nodes[0]);
    alarms->nodes[at] = node;
    alarms->count++;
}

static void erase(struct bw_alarms *alarms, uint32_t at)
{
    alarms->count--;
    memmove(&alarms->nodes[at], &alarms->nodes[at + 1],
            (alarms->count - at) * sizeof alarms->nodes[0]);
}

enum bw_refusal bw_registry_alarm_change(struct bw_registry *r,
                                         const struct bw_alarm_change *change)
{
    struct bw_alarms *alarms = &r->alarms;
    uint32_t at = 0;
    while (at < alarms->count && alarms->nodes[at] < change->node)
        at++;
    bool found = at < alarms->count && alarms->nodes[at] == change->node;
    if (change->raised && !found && alarms->count == BW_ALARMS_MAX)
        return BW_REFUSED_NO_SPACE;
    if (change->raised && !found)
        insert(alarms, at, change->node);
    else if (!change->raised && found)
        erase(alarms, at);
    return BW_REFUSED_NONE;
}

static uint64_t put_space(const struct bw_put *put)
{
    return kv_bytes(put->key.length, put->value.length) + NODE_COST + EVENT_COST;
}

static uint64_t txn_space(const struct bw_txn *txn);

/* Recursion depth is bounded by bw_txn_shape. */
static uint64_t ops_space(const struct bw_op *ops, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind == BW_OP_PUT)
            bytes += put_space(&ops[i].put);
        else if (ops[i].kind == BW_OP_TXN)
            bytes += txn_space(&ops[i].txn);
    }
    return bytes;
}

static uint64_t txn_space(const struct bw_txn *txn)
{
    uint64_t then = ops_space(txn->then, txn->then_count);
    uint64_t otherwise = ops_space(txn->otherwise, txn->otherwise_count);
    return then > otherwise ? then : otherwise;
}

uint64_t bw_entry_space(const struct bw_entry *entry)
{
    switch (entry->kind) {
    case BW_ENTRY_PUT:
        return put_space(&entry->put);
    case BW_ENTRY_TXN:
        return BW_BUG(alarm_lets_transactions_put) ? 0 : txn_space(&entry->txn);
    case BW_ENTRY_GRANT:
        return LEASE_COST;
    default:
        return 0;
    }
}
