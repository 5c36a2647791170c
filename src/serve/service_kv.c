/* Range, Put, DeleteRange, Txn, Compact: etcd's messages as entries and reads of the registry, and
 * results as etcd's messages. */
#include "base/error.h"
#include "serve/service.h"

#include <stdlib.h>
#include <string.h>

static struct bw_slice slice(ProtobufCBinaryData data)
{
    return (struct bw_slice){data.data, data.len};
}

static struct bw_range to_range(const Api__RangeRequest *in)
{
    return (struct bw_range){.keys = {.key = slice(in->key), .end = slice(in->range_end)},
                             .limit = in->limit < 0 ? 0 : in->limit,
                             .revision = in->revision < 0 ? 0 : in->revision,
                             .order = (enum bw_sort_order)in->sort_order,
                             .target = (enum bw_sort_target)in->sort_target,
                             .count_only = in->count_only,
                             .keys_only = in->keys_only,
                             .mod_min = in->min_mod_revision,
                             .mod_max = in->max_mod_revision,
                             .create_min = in->min_create_revision,
                             .create_max = in->max_create_revision};
}

static struct bw_put to_put(const Api__PutRequest *in)
{
    return (struct bw_put){.key = slice(in->key),
                           .value = slice(in->value),
                           .lease = in->lease,
                           .previous = in->prev_kv,
                           .ignore_value = in->ignore_value,
                           .ignore_lease = in->ignore_lease};
}

static struct bw_delete to_delete(const Api__DeleteRangeRequest *in)
{
    return (struct bw_delete){.keys = {.key = slice(in->key), .end = slice(in->range_end)},
                              .previous = in->prev_kv};
}

/* Enums and signs as the log can hold them. */
static bool range_is_sane(const struct bw_range *range)
{
    return range->order <= BW_SORT_DESCEND && range->target <= BW_SORT_VALUE &&
           range->mod_min >= 0 && range->mod_max >= 0 && range->create_min >= 0 &&
           range->create_max >= 0;
}

static Api__KeyValue **to_kvs(struct bw_service *service, const struct bw_op_result *result,
                              bool keys_only)
{
    Api__KeyValue **kvs =
        bw_service_room(service, (result->kv_count + 1) * sizeof(Api__KeyValue *));
    for (uint32_t i = 0; i < result->kv_count; i++)
        kvs[i] = bw_service_kv(service, result->kvs[i], keys_only);
    return kvs;
}

static void fill_range(struct bw_service *service, Api__RangeResponse *out,
                       const struct bw_op_result *result, bool keys_only)
{
    api__range_response__init(out);
    out->kvs = to_kvs(service, result, keys_only);
    out->n_kvs = result->kv_count;
    out->count = result->count;
    out->more = result->more;
}

static void fill_put(struct bw_service *service, Api__PutResponse *out,
                     const struct bw_op_result *result)
{
    api__put_response__init(out);
    if (result->kv_count)
        out->prev_kv = bw_service_kv(service, result->kvs[0], false);
}

static void fill_delete(struct bw_service *service, Api__DeleteRangeResponse *out,
                        const struct bw_op_result *result)
{
    api__delete_range_response__init(out);
    out->deleted = result->count;
    out->prev_kvs = to_kvs(service, result, false);
    out->n_prev_kvs = result->kv_count;
}

/* ── Range ── */

struct range_state { /* the request while the round is under way */
    struct bw_range range;
    unsigned char bytes[];
};

static void answer_range(struct bw_call *call, const struct bw_range *range)
{
    struct bw_service *service = call->service;
    struct bw_op_result result;
    Api__RangeResponse out;
    Api__Header header;
    enum bw_refusal refusal = bw_registry_range(bw_service_registry(service), range,
                                                bw_service_results(service), &result);
    if (refusal) {
        bw_service_refuse(call, refusal);
        return;
    }
    bw_service_room_clear(service);
    fill_range(service, &out, &result, range->keys_only);
    bw_service_header(service, &header, 0);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void on_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct range_state *state = call->state;
    (void)number;
    (void)ttl_ns;
    answer_range(call, &state->range);
}

/* The request's bytes go with its message: keep what a read that waits still needs. */
static struct range_state *keep_range(const struct bw_range *range)
{
    size_t key = range->keys.key.length, end = range->keys.end.length;
    struct range_state *state = malloc(sizeof *state + key + end);
    if (!state)
        return NULL;
    state->range = *range;
    if (key)
        memcpy(state->bytes, range->keys.key.at, key);
    if (end)
        memcpy(state->bytes + key, range->keys.end.at, end);
    state->range.keys.key.at = state->bytes;
    state->range.keys.end.at = state->bytes + key;
    return state;
}

void bw_kv_range(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__RangeRequest *in = (const Api__RangeRequest *)message;
    struct bw_range range = to_range(in);
    if (!range_is_sane(&range)) {
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: invalid sort option");
        return;
    }
    if (in->key.len == 0) {
        bw_service_refuse(call, BW_REFUSED_NO_KEY);
        return;
    }
    if (in->serializable) {
        answer_range(call, &range);
        return;
    }
    call->state = keep_range(&range);
    if (!call->state) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: no memory");
        return;
    }
    bw_service_read(call, on_readable);
}

void bw_kv_range_gone(struct bw_call *call)
{
    free(call->state);
}

/* ── changes ── */

/* True: refused, and the call has ended. */
static bool was_refused(struct bw_call *call, enum bw_refusal refusal,
                        const struct bw_results *results)
{
    if (refusal)
        bw_service_refuse(call, refusal);
    else if (results->truncated)
        bw_service_refuse(call, BW_REFUSED_TOO_LARGE);
    return refusal || results->truncated;
}

static void put_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                        enum bw_refusal refusal, const struct bw_results *results)
{
    Api__PutResponse out;
    Api__Header header;
    (void)number;
    (void)entry;
    if (was_refused(call, refusal, results))
        return;
    bw_service_room_clear(call->service);
    fill_put(call->service, &out, &results->ops[0]);
    bw_service_header(call->service, &header, results->revision);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_kv_put(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__PutRequest *in = (const Api__PutRequest *)message;
    if (in->key.len == 0)
        bw_service_refuse(call, BW_REFUSED_NO_KEY);
    else if (in->key.len + in->value.len > BW_REQUEST_MAX)
        bw_service_refuse(call, BW_REFUSED_TOO_LARGE);
    else if (in->lease < 0)
        bw_service_refuse(call, BW_REFUSED_NO_LEASE);
    else
        bw_service_propose(call, &(struct bw_entry){.kind = BW_ENTRY_PUT, .put = to_put(in)},
                           put_applied);
}

static void delete_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                           enum bw_refusal refusal, const struct bw_results *results)
{
    Api__DeleteRangeResponse out;
    Api__Header header;
    (void)number;
    (void)entry;
    if (was_refused(call, refusal, results))
        return;
    bw_service_room_clear(call->service);
    fill_delete(call->service, &out, &results->ops[0]);
    bw_service_header(call->service, &header, results->revision);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_kv_delete(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__DeleteRangeRequest *in = (const Api__DeleteRangeRequest *)message;
    if (in->key.len == 0)
        bw_service_refuse(call, BW_REFUSED_NO_KEY);
    else
        bw_service_propose(call,
                           &(struct bw_entry){.kind = BW_ENTRY_DELETE, .delete = to_delete(in)},
                           delete_applied);
}

/* ── Txn ── */

static Api__ResponseOp *to_response(struct bw_service *service, const struct bw_op_result *result,
                                    bool keys_only)
{
    struct {
        Api__ResponseOp op;
        Api__RangeResponse range;
        Api__PutResponse put;
        Api__DeleteRangeResponse delete;
        Api__Header header;
    } *room = bw_service_room(service, sizeof *room);
    api__response_op__init(&room->op);
    bw_service_header(service, &room->header, 0);
    if (result->kind == BW_OP_RANGE) {
        fill_range(service, &room->range, result, keys_only);
        room->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        room->op.response_range = &room->range;
        room->range.header = &room->header;
    } else if (result->kind == BW_OP_PUT) {
        fill_put(service, &room->put, result);
        room->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        room->op.response_put = &room->put;
        room->put.header = &room->header;
    } else {
        fill_delete(service, &room->delete, result);
        room->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
        room->op.response_delete_range = &room->delete;
        room->delete.header = &room->header;
    }
    return &room->op;
}

static void txn_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                        enum bw_refusal refusal, const struct bw_results *results)
{
    struct bw_service *service = call->service;
    Api__TxnResponse out;
    Api__Header header;
    (void)number;
    if (was_refused(call, refusal, results))
        return;
    bw_service_room_clear(service);
    const struct bw_op *ops = results->succeeded ? entry->txn.then : entry->txn.otherwise;
    api__txn_response__init(&out);
    out.succeeded = results->succeeded;
    out.responses = bw_service_room(service, (results->op_count + 1) * sizeof(Api__ResponseOp *));
    out.n_responses = results->op_count;
    for (uint32_t i = 0; i < results->op_count; i++) {
        bool keys_only = ops[i].kind == BW_OP_RANGE && ops[i].range.keys_only;
        out.responses[i] = to_response(service, &results->ops[i], keys_only);
    }
    bw_service_header(service, &header, results->revision);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

/* Returns false if an operation is none that the log can hold. */
static bool to_ops(Api__RequestOp **in, size_t count, struct bw_op *out)
{
    for (size_t i = 0; i < count; i++) {
        switch (in[i]->request_case) {
        case API__REQUEST_OP__REQUEST_REQUEST_RANGE:
            out[i] = (struct bw_op){.kind = BW_OP_RANGE, .range = to_range(in[i]->request_range)};
            if (!range_is_sane(&out[i].range))
                return false;
            break;
        case API__REQUEST_OP__REQUEST_REQUEST_PUT:
            out[i] = (struct bw_op){.kind = BW_OP_PUT, .put = to_put(in[i]->request_put)};
            if (in[i]->request_put->lease < 0)
                return false;
            break;
        case API__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
            out[i] = (struct bw_op){.kind = BW_OP_DELETE,
                                    .delete = to_delete(in[i]->request_delete_range)};
            break;
        default:
            return false;
        }
    }
    return true;
}

static bool to_compares(Api__Compare **in, size_t count, struct bw_compare *out)
{
    for (size_t i = 0; i < count; i++) {
        const Api__Compare *from = in[i];
        out[i] =
            (struct bw_compare){.how = (enum bw_compare_how)from->result,
                                .what = (enum bw_compare_what)from->target,
                                .keys = {.key = slice(from->key), .end = slice(from->range_end)}};
        switch (from->target_union_case) {
        case API__COMPARE__TARGET_UNION_VERSION:
            out[i].number = from->version;
            break;
        case API__COMPARE__TARGET_UNION_CREATE_REVISION:
            out[i].number = from->create_revision;
            break;
        case API__COMPARE__TARGET_UNION_MOD_REVISION:
            out[i].number = from->mod_revision;
            break;
        case API__COMPARE__TARGET_UNION_LEASE:
            out[i].number = from->lease;
            break;
        case API__COMPARE__TARGET_UNION_VALUE:
            out[i].value = slice(from->value);
            break;
        default:
            break;
        }
        if (out[i].how > BW_COMPARE_NOT_EQUAL || out[i].what > BW_COMPARE_LEASE)
            return false;
    }
    return true;
}

void bw_kv_txn(struct bw_call *call, const ProtobufCMessage *message)
{
    static struct bw_entry_room room;
    const Api__TxnRequest *in = (const Api__TxnRequest *)message;
    if (in->n_compare > BW_TXN_OPS_MAX || in->n_success > BW_TXN_OPS_MAX ||
        in->n_failure > BW_TXN_OPS_MAX) {
        bw_service_refuse(call, BW_REFUSED_TOO_MANY);
        return;
    }
    if (!to_compares(in->compare, in->n_compare, room.compares) ||
        !to_ops(in->success, in->n_success, room.then) ||
        !to_ops(in->failure, in->n_failure, room.otherwise)) {
        bw_call_end(call, BW_CODE_UNIMPLEMENTED,
                    "bellwether: a transaction inside a transaction, or an unknown operation");
        return;
    }
    struct bw_entry entry = {.kind = BW_ENTRY_TXN,
                             .txn = {.compares = room.compares,
                                     .compare_count = (uint32_t)in->n_compare,
                                     .then = room.then,
                                     .then_count = (uint32_t)in->n_success,
                                     .otherwise = room.otherwise,
                                     .otherwise_count = (uint32_t)in->n_failure}};
    bw_service_propose(call, &entry, txn_applied);
}

static void compact_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                            enum bw_refusal refusal, const struct bw_results *results)
{
    Api__CompactionResponse out = API__COMPACTION_RESPONSE__INIT;
    Api__Header header;
    (void)number;
    (void)entry;
    if (was_refused(call, refusal, results))
        return;
    bw_service_header(call->service, &header, results->revision);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_kv_compact(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__CompactionRequest *in = (const Api__CompactionRequest *)message;
    struct bw_entry entry = {.kind = BW_ENTRY_COMPACT,
                             .revision = in->revision < 0 ? 0 : in->revision};
    bw_service_propose(call, &entry, compact_applied);
}
