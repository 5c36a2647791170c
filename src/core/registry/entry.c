/* Encoding of changes; see entry.h. Each write function and its read function list the same fields
 * in the same order. */
#include "core/registry/entry.h"
#include "core/base/assert.h"

#include "core/base/bug.h"
#include "core/registry/alarm.h"
#include "core/registry/bytes.h"
#include "core/registry/registry_state.h"

enum requester_tag { BY_USER = BW_ENTRY_LEVEL + 1, BY_NODE };

static void write_keys(struct bw_writer *w, const struct bw_keys *keys)
{
    bw_write_slice(w, keys->key);
    bw_write_slice(w, keys->end);
}

static struct bw_keys read_keys(struct bw_reader *r)
{
    struct bw_slice key = bw_read_slice(r);
    return (struct bw_keys){.key = key, .end = bw_read_slice(r)};
}

static void write_put(struct bw_writer *w, const struct bw_put *put)
{
    bw_write_slice(w, put->key);
    bw_write_slice(w, put->value);
    bw_write_number(w, (uint64_t)put->lease);
    bw_write_number(w, (put->previous ? 1u : 0u) | (put->ignore_value ? 2u : 0u) |
                           (put->ignore_lease ? 4u : 0u));
}

static void read_put(struct bw_reader *r, struct bw_put *put)
{
    put->key = bw_read_slice(r);
    put->value = bw_read_slice(r);
    put->lease = bw_read_positive(r);
    uint64_t flags = bw_read_below(r, 7);
    put->previous = flags & 1;
    put->ignore_value = flags >> 1 & 1;
    put->ignore_lease = flags >> 2 & 1;
}

static void write_delete(struct bw_writer *w, const struct bw_delete *delete)
{
    write_keys(w, &delete->keys);
    bw_write_number(w, delete->previous);
}

static void read_delete(struct bw_reader *r, struct bw_delete *delete)
{
    delete->keys = read_keys(r);
    delete->previous = bw_read_bool(r);
}

static void write_range(struct bw_writer *w, const struct bw_range *range)
{
    write_keys(w, &range->keys);
    bw_write_number(w, (uint64_t)range->limit);
    bw_write_number(w, (uint64_t)range->revision);
    bw_write_number(w, range->order);
    bw_write_number(w, range->target);
    bw_write_number(w, (range->count_only ? 1u : 0u) | (range->keys_only ? 2u : 0u));
    const int64_t bounds[] = {range->mod_min, range->mod_max, range->create_min, range->create_max};
    for (unsigned i = 0; i < 4; i++)
        bw_write_number(w, (uint64_t)bounds[i]);
}

static void read_range(struct bw_reader *r, struct bw_range *range)
{
    range->keys = read_keys(r);
    range->limit = bw_read_positive(r);
    range->revision = bw_read_positive(r);
    range->order = (enum bw_sort_order)bw_read_below(r, BW_SORT_DESCEND);
    range->target = (enum bw_sort_target)bw_read_below(r, BW_SORT_VALUE);
    uint64_t flags = bw_read_below(r, 3);
    range->count_only = flags & 1;
    range->keys_only = flags >> 1 & 1;
    int64_t *const bounds[] = {&range->mod_min, &range->mod_max, &range->create_min,
                               &range->create_max};
    for (unsigned i = 0; i < 4; i++)
        *bounds[i] = bw_read_positive(r);
}

struct bw_compare *bw_scratch_compares(struct bw_entry_scratch *scratch, uint64_t count)
{
    struct bw_compare *at = &scratch->compares[scratch->compare_count];
    if (count > BW_TXN_OPS_MAX || count > BW_TXN_ALL_MAX - scratch->compare_count)
        return NULL;
    scratch->compare_count += (uint32_t)count;
    return at;
}

struct bw_op *bw_scratch_ops(struct bw_entry_scratch *scratch, uint64_t count)
{
    struct bw_op *at = &scratch->ops[scratch->op_count];
    if (count > BW_TXN_OPS_MAX || count > BW_TXN_ALL_MAX - scratch->op_count)
        return NULL;
    scratch->op_count += (uint32_t)count;
    return at;
}

static void write_txn(struct bw_writer *w, const struct bw_txn *txn);

/* Recursion depth is bounded by bw_txn_shape. */
static void write_ops(struct bw_writer *w, const struct bw_op *ops, uint32_t count)
{
    bw_write_number(w, count);
    for (uint32_t i = 0; i < count; i++) {
        bw_write_number(w, ops[i].kind);
        switch (ops[i].kind) {
        case BW_OP_PUT:
            write_put(w, &ops[i].put);
            break;
        case BW_OP_DELETE:
            write_delete(w, &ops[i].delete);
            break;
        case BW_OP_RANGE:
            write_range(w, &ops[i].range);
            break;
        case BW_OP_TXN:
            write_txn(w, &ops[i].txn);
            break;
        }
    }
}

static void write_txn(struct bw_writer *w, const struct bw_txn *txn)
{
    bw_write_number(w, txn->compare_count);
    for (uint32_t i = 0; i < txn->compare_count; i++) {
        const struct bw_compare *compare = &txn->compares[i];
        bw_write_number(w, compare->how);
        bw_write_number(w, compare->what);
        write_keys(w, &compare->keys);
        bw_write_number(w, (uint64_t)compare->number);
        bw_write_slice(w, compare->value);
    }
    write_ops(w, txn->then, txn->then_count);
    write_ops(w, txn->otherwise, txn->otherwise_count);
}

static void read_txn(struct bw_reader *r, struct bw_txn *txn, struct bw_entry_scratch *scratch,
                     unsigned depth);

/* Recursion depth is bounded by `depth`. */
static void read_op(struct bw_reader *r, struct bw_op *op, struct bw_entry_scratch *scratch,
                    unsigned depth)
{
    *op = (struct bw_op){.kind = (enum bw_op_kind)bw_read_below(r, BW_OP_TXN)};
    switch (op->kind) {
    case BW_OP_PUT:
        read_put(r, &op->put);
        break;
    case BW_OP_DELETE:
        read_delete(r, &op->delete);
        break;
    case BW_OP_RANGE:
        read_range(r, &op->range);
        break;
    case BW_OP_TXN:
        read_txn(r, &op->txn, scratch, depth + 1);
        break;
    }
}

static const struct bw_op *read_ops(struct bw_reader *r, uint32_t *count,
                                    struct bw_entry_scratch *scratch, unsigned depth)
{
    uint64_t many = bw_read_number(r);
    struct bw_op *ops = bw_scratch_ops(scratch, many);
    *count = 0;
    if (!ops)
        r->failed = true;
    for (; !r->failed && *count < many; ++*count)
        read_op(r, &ops[*count], scratch, depth);
    return ops;
}

static void read_txn(struct bw_reader *r, struct bw_txn *txn, struct bw_entry_scratch *scratch,
                     unsigned depth)
{
    uint64_t many = bw_read_number(r);
    struct bw_compare *compare = bw_scratch_compares(scratch, many);
    if (!compare || depth >= BW_TXN_DEPTH_MAX)
        r->failed = true;
    txn->compares = compare;
    for (; !r->failed && txn->compare_count < many; txn->compare_count++, compare++) {
        compare->how = (enum bw_compare_how)bw_read_below(r, BW_COMPARE_NOT_EQUAL);
        compare->what = (enum bw_compare_what)bw_read_below(r, BW_COMPARE_LEASE);
        compare->keys = read_keys(r);
        compare->number = (int64_t)bw_read_number(r);
        compare->value = bw_read_slice(r);
    }
    txn->then = read_ops(r, &txn->then_count, scratch, depth);
    txn->otherwise = read_ops(r, &txn->otherwise_count, scratch, depth);
}

static void write_lease(struct bw_writer *w, const struct bw_entry *entry)
{
    bw_write_number(w, (uint64_t)entry->lease.id);
    if (entry->kind == BW_ENTRY_GRANT)
        bw_write_number(w, (uint64_t)entry->lease.ttl_ns);
    bw_write_number(w, entry->lease.binding);
}

static void read_lease(struct bw_reader *r, struct bw_entry *entry)
{
    entry->lease.id = bw_read_positive(r);
    if (entry->kind == BW_ENTRY_GRANT)
        entry->lease.ttl_ns = bw_read_positive(r);
    entry->lease.binding = bw_read_number(r);
}

/* An unauthenticated requester writes nothing: the format from before users existed. */
static void write_by(struct bw_writer *w, const struct bw_requester *by)
{
    if (by->kind == BW_REQUESTER_USER) {
        bw_write_number(w, BY_USER);
        bw_write_number(w, by->since);
        bw_write_slice(w, by->name);
    } else if (by->kind == BW_REQUESTER_NODE) {
        bw_write_number(w, BY_NODE);
    }
}

static struct bw_requester read_by(struct bw_reader *r)
{
    struct bw_requester by = {0};
    unsigned char first = r->size ? r->at[0] : 0;
    if (first != BY_USER && first != BY_NODE)
        return by;
    r->used = 1;
    by.kind = first == BY_NODE ? BW_REQUESTER_NODE : BW_REQUESTER_USER;
    if (by.kind == BW_REQUESTER_NODE)
        return by;
    by.since = bw_read_number(r);
    by.name = bw_read_slice(r);
    return by;
}

int bw_entry_encode(const struct bw_entry *entry, unsigned char *out, size_t size)
{
    struct bw_writer w = {.size = size};
    w.at = out;
    if (entry->kind == BW_ENTRY_TXN && bw_txn_shape(&entry->txn) == BW_REFUSED_TOO_MANY)
        return BW_ELIMIT;
    write_by(&w, &entry->by);
    bw_write_number(&w, entry->kind);
    switch (entry->kind) {
    case BW_ENTRY_NOTHING:
        break;
    case BW_ENTRY_PUT:
        write_put(&w, &entry->put);
        break;
    case BW_ENTRY_DELETE:
        write_delete(&w, &entry->delete);
        break;
    case BW_ENTRY_TXN:
        write_txn(&w, &entry->txn);
        break;
    case BW_ENTRY_GRANT:
    case BW_ENTRY_REVOKE:
    case BW_ENTRY_BIND:
        write_lease(&w, entry);
        break;
    case BW_ENTRY_COMPACT:
        bw_write_number(&w, (uint64_t)entry->revision);
        break;
    case BW_ENTRY_USERS:
        bw_users_change_write(&w, &entry->users);
        break;
    case BW_ENTRY_LEVEL:
        bw_write_number(&w, entry->level);
        break;
    case BW_ENTRY_ALARM:
        bw_write_number(&w, entry->alarm.raised);
        bw_write_number(&w, entry->alarm.node);
        break;
    }
    return w.failed || BW_NEVER(w.used > INT32_MAX) ? BW_ELIMIT : (int)w.used;
}

static enum bw_entry_kind read_kind(struct bw_reader *r)
{
    uint64_t kind = bw_read_below(r, BW_ENTRY_ALARM);
    if (kind != BY_USER && kind != BY_NODE)
        return (enum bw_entry_kind)kind;
    r->failed = true; /* a second requester */
    return BW_ENTRY_NOTHING;
}

int bw_entry_decode(struct bw_entry *entry, struct bw_entry_scratch *scratch,
                    const unsigned char *bytes, size_t length)
{
    struct bw_reader r = {.at = bytes, .size = length};
    *entry = (struct bw_entry){.by = read_by(&r)};
    entry->kind = read_kind(&r);
    switch (entry->kind) {
    case BW_ENTRY_NOTHING:
        break;
    case BW_ENTRY_PUT:
        read_put(&r, &entry->put);
        break;
    case BW_ENTRY_DELETE:
        read_delete(&r, &entry->delete);
        break;
    case BW_ENTRY_TXN:
        scratch->compare_count = scratch->op_count = 0;
        read_txn(&r, &entry->txn, scratch, 0);
        break;
    case BW_ENTRY_GRANT:
    case BW_ENTRY_REVOKE:
    case BW_ENTRY_BIND:
        read_lease(&r, entry);
        break;
    case BW_ENTRY_COMPACT:
        entry->revision = bw_read_positive(&r);
        break;
    case BW_ENTRY_USERS:
        bw_users_change_read(&r, &entry->users);
        break;
    case BW_ENTRY_LEVEL:
        entry->level = (uint32_t)bw_read_below(&r, UINT32_MAX);
        break;
    case BW_ENTRY_ALARM:
        entry->alarm.raised = bw_read_bool(&r);
        entry->alarm.node = bw_read_number(&r);
        break;
    }
    return r.failed || r.used != length ? BW_EMALFORMED : 0;
}

/* The lowest role for each kind of entry. Only nodes change the level. */
static const enum bw_role least[] = {
    [BW_ENTRY_NOTHING] = BW_ROLE_NONE,    [BW_ENTRY_PUT] = BW_ROLE_CAMPAIGN,
    [BW_ENTRY_DELETE] = BW_ROLE_CAMPAIGN, [BW_ENTRY_TXN] = BW_ROLE_CAMPAIGN,
    [BW_ENTRY_GRANT] = BW_ROLE_CAMPAIGN,  [BW_ENTRY_REVOKE] = BW_ROLE_CAMPAIGN,
    [BW_ENTRY_BIND] = BW_ROLE_CAMPAIGN,   [BW_ENTRY_COMPACT] = BW_ROLE_ADMIN,
    [BW_ENTRY_USERS] = BW_ROLE_ADMIN,     [BW_ENTRY_LEVEL] = BW_ROLE_NONE,
    [BW_ENTRY_ALARM] = BW_ROLE_ADMIN};

/* Recursion depth is bounded by bw_txn_shape. */
static bool only_reads(const struct bw_op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_txn *txn = &ops[i].txn;
        if (ops[i].kind == BW_OP_TXN ? !only_reads(txn->then, txn->then_count) ||
                                           !only_reads(txn->otherwise, txn->otherwise_count)
                                     : ops[i].kind != BW_OP_RANGE)
            return false;
    }
    return true;
}

/* A transaction that only reads needs only the role for reading. */
static enum bw_role role_for(const struct bw_entry *entry)
{
    const struct bw_txn *txn = &entry->txn;
    bool reads = entry->kind == BW_ENTRY_TXN && only_reads(txn->then, txn->then_count) &&
                 only_reads(txn->otherwise, txn->otherwise_count);
    return reads ? BW_ROLE_OBSERVE : least[entry->kind];
}

static enum bw_refusal apply_other(struct bw_registry *registry, const struct bw_entry *entry)
{
    switch (entry->kind) {
    case BW_ENTRY_GRANT:
        return bw_registry_grant(registry, entry->lease.id, entry->lease.ttl_ns,
                                 entry->lease.binding);
    case BW_ENTRY_REVOKE:
        return bw_registry_revoke(registry, entry->lease.id, entry->lease.binding);
    case BW_ENTRY_BIND:
        return bw_registry_bind(registry, entry->lease.id, entry->lease.binding);
    case BW_ENTRY_COMPACT:
        return bw_registry_compact(registry, entry->revision);
    case BW_ENTRY_USERS:
        return bw_registry_users_change(registry, &entry->users);
    case BW_ENTRY_LEVEL:
        bw_registry_raise(registry, entry->level);
        break;
    case BW_ENTRY_ALARM:
        return bw_registry_alarm_change(registry, &entry->alarm);
    default:
        break;
    }
    return BW_REFUSED_NONE;
}

enum bw_refusal bw_registry_apply(struct bw_registry *registry, const struct bw_entry *entry,
                                  struct bw_results *results)
{
    enum bw_refusal refusal = BW_BUG(users_checked_on_arrival)
                                  ? BW_REFUSED_NONE
                                  : bw_registry_authorize(registry, &entry->by, role_for(entry));
    if (!refusal)
        refusal = roles_permit(registry, entry);
    results->op_count = results->kv_count = 0;
    results->succeeded = results->truncated = false;
    history_trim(registry);
    if (!refusal && registry->alarms.count && bw_entry_space(entry))
        refusal = BW_REFUSED_NO_SPACE;
    if (!refusal && entry->kind == BW_ENTRY_PUT)
        return bw_registry_put(registry, &entry->put, results);
    if (!refusal && entry->kind == BW_ENTRY_DELETE)
        return bw_registry_delete(registry, &entry->delete, results);
    if (!refusal && entry->kind == BW_ENTRY_TXN)
        return bw_registry_txn(registry, &entry->txn, results);
    if (!refusal)
        refusal = apply_other(registry, entry);
    struct bw_registry_status status;
    bw_registry_status(registry, &status);
    results->revision = status.revision;
    return refusal;
}
