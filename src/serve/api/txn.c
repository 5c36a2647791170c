/* Txn with nested transactions: converts etcd's messages to a log entry, and its results to
 * messages. */
#include "core/base/error.h"
#include "serve/api/kv.h"

#include <string.h>

static struct bw_slice slice(ProtobufCBinaryData data)
{
    return (struct bw_slice){data.data, data.len};
}

/* ---- results ---- */

struct result_cursor { /* iterates over results in the order of execution */
    struct bw_service *service;
    const struct bw_op_result *next;
    int64_t revision, after; /* of the store after the results so far, and after all of them */
};

static bool is_change(const struct bw_op_result *result)
{
    return result->kind == BW_OP_PUT || (result->kind == BW_OP_DELETE && result->count > 0);
}

static struct result_cursor first_result(struct bw_service *service,
                                         const struct bw_results *results)
{
    bool changed = false;
    for (uint32_t i = 0; i < results->op_count; i++)
        changed |= is_change(&results->ops[i]);
    return (struct result_cursor){.service = service,
                                  .next = results->ops,
                                  .revision = results->revision - changed,
                                  .after = results->revision};
}

static void to_txn_response(struct result_cursor *result_cursor, const struct bw_txn *txn,
                            bool succeeded, Api__TxnResponse *out);

struct op_response { /* response of one operation */
    Api__ResponseOp op;
    Api__RangeResponse range;
    Api__PutResponse put;
    Api__DeleteRangeResponse delete;
    Api__TxnResponse txn;
    Api__Header header;
};

/* The shape of the transaction bounds the recursion. */
static Api__ResponseOp *to_response_op(struct result_cursor *result_cursor, const struct bw_op *op)
{
    const struct bw_op_result *result = result_cursor->next++;
    struct op_response *out = bw_service_scratch(result_cursor->service, sizeof *out);
    api__response_op__init(&out->op);
    api__header__init(&out->header);
    if (is_change(result))
        result_cursor->revision = result_cursor->after;
    out->header.revision = result_cursor->revision; /* and nothing else, as in etcd */
    switch (op->kind) {
    case BW_OP_RANGE:
        bw_kv_fill_range(result_cursor->service, &out->range, result, op->range.keys_only);
        out->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        out->op.response_range = &out->range;
        out->range.header = &out->header;
        break;
    case BW_OP_PUT:
        bw_kv_fill_put(result_cursor->service, &out->put, result);
        out->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
        out->op.response_put = &out->put;
        out->put.header = &out->header;
        break;
    case BW_OP_DELETE:
        bw_kv_fill_delete(result_cursor->service, &out->delete, result);
        out->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
        out->op.response_delete_range = &out->delete;
        out->delete.header = &out->header;
        break;
    case BW_OP_TXN:
        to_txn_response(result_cursor, &op->txn, result->succeeded, &out->txn);
        out->op.response_case = API__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
        out->op.response_txn = &out->txn;
        out->header.revision = 0; /* empty, as in etcd */
        out->txn.header = &out->header;
        break;
    }
    return &out->op;
}

static void to_txn_response(struct result_cursor *result_cursor, const struct bw_txn *txn,
                            bool succeeded, Api__TxnResponse *out)
{
    const struct bw_op *ops = succeeded ? txn->then : txn->otherwise;
    uint32_t count = succeeded ? txn->then_count : txn->otherwise_count;
    api__txn_response__init(out);
    out->succeeded = succeeded;
    out->responses =
        bw_service_scratch(result_cursor->service, (count + 1) * sizeof(Api__ResponseOp *));
    out->n_responses = count;
    for (uint32_t i = 0; i < count; i++)
        out->responses[i] = to_response_op(result_cursor, &ops[i]);
}

/* The reads of a transaction may repeat each other once per operation. A response that exceeds the
 * whole content by more than this is not built. */
#define REPEATED_MAX ((uint64_t)32 << 20)

static bool is_too_large(struct bw_service *service, const Api__TxnResponse *out)
{
    struct bw_registry_status status;
    bw_registry_status(bw_service_registry(service), &status);
    return protobuf_c_message_get_packed_size(&out->base) > status.bytes + REPEATED_MAX;
}

static void txn_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                        enum bw_refusal refusal, const struct bw_results *results)
{
    struct result_cursor result_cursor = first_result(call->service, results);
    Api__TxnResponse out;
    Api__Header header;
    (void)number;
    if (bw_kv_was_refused(call, refusal, results))
        return;
    if (!bw_service_reserve(call, (size_t)results->kv_count + results->op_count,
                            sizeof(struct op_response) + sizeof(Api__KeyValue), BW_NO_MEMORY_DONE))
        return;
    to_txn_response(&result_cursor, &entry->txn, results->succeeded, &out);
    bw_service_header(call->service, &header, results->revision);
    out.header = &header;
    if (is_too_large(call->service, &out)) {
        bw_call_end(call, BW_CODE_EXHAUSTED,
                    "bellwether: the transaction was applied; its response is too large to send");
        return;
    }
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

/* ---- requests ---- */

static bool fill_compares(Api__Compare **in, size_t count, struct bw_compare *out)
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

struct taking {
    struct bw_entry_scratch *scratch;
    enum bw_refusal refusal; /* why the request is refused */
    bool unknown;            /* contains something that the log cannot represent */
    bool nested;
};

static bool take_txn(struct taking *taking, const Api__TxnRequest *in, struct bw_txn *out);

/* Refusals that need no keys, so that they also apply in the branch that is not taken. */
static enum bw_refusal contradiction_of(const struct bw_put *put)
{
    if (put->key.length == 0)
        return BW_REFUSED_NO_KEY;
    if (put->ignore_value && put->value.length)
        return BW_REFUSED_VALUE_GIVEN;
    if (put->ignore_lease && put->lease)
        return BW_REFUSED_LEASE_GIVEN;
    return put->lease < 0 ? BW_REFUSED_NO_LEASE : BW_REFUSED_NONE;
}

/* bw_txn_is_shallow has bounded the recursion. */
static bool take_op(struct taking *taking, const Api__RequestOp *in, struct bw_op *out)
{
    size_t key = 1;
    switch (in->request_case) {
    case API__REQUEST_OP__REQUEST_REQUEST_RANGE:
        *out = (struct bw_op){.kind = BW_OP_RANGE, .range = bw_kv_to_range(in->request_range)};
        taking->unknown |= !bw_kv_range_is_sane(&out->range);
        key = in->request_range->key.len;
        break;
    case API__REQUEST_OP__REQUEST_REQUEST_PUT:
        *out = (struct bw_op){.kind = BW_OP_PUT, .put = bw_kv_to_put(in->request_put)};
        taking->refusal = contradiction_of(&out->put);
        key = in->request_put->key.len;
        break;
    case API__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        *out = (struct bw_op){.kind = BW_OP_DELETE,
                              .delete = bw_kv_to_delete(in->request_delete_range)};
        key = in->request_delete_range->key.len;
        break;
    case API__REQUEST_OP__REQUEST_REQUEST_TXN:
        *out = (struct bw_op){.kind = BW_OP_TXN};
        taking->nested = true;
        return take_txn(taking, in->request_txn, &out->txn);
    default:
        taking->refusal = BW_REFUSED_KEY_UNKNOWN;
    }
    if (!taking->refusal && key == 0)
        taking->refusal = BW_REFUSED_NO_KEY;
    return !taking->refusal && !taking->unknown;
}

static bool take_ops(struct taking *taking, Api__RequestOp **in, size_t count,
                     const struct bw_op **out, uint32_t *many)
{
    struct bw_op *ops = bw_scratch_ops(taking->scratch, count);
    if (!ops) {
        taking->refusal = BW_REFUSED_TOO_MANY;
        return false;
    }
    *out = ops;
    *many = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        if (!take_op(taking, in[i], &ops[i]))
            return false;
    return true;
}

static bool take_txn(struct taking *taking, const Api__TxnRequest *in, struct bw_txn *out)
{
    struct bw_compare *compares = bw_scratch_compares(taking->scratch, in->n_compare);
    if (!compares) {
        taking->refusal = BW_REFUSED_TOO_MANY;
        return false;
    }
    *out = (struct bw_txn){.compares = compares, .compare_count = (uint32_t)in->n_compare};
    if (!fill_compares(in->compare, in->n_compare, compares)) {
        taking->unknown = true;
        return false;
    }
    return take_ops(taking, in->success, in->n_success, &out->then, &out->then_count) &&
           take_ops(taking, in->failure, in->n_failure, &out->otherwise, &out->otherwise_count);
}

void bw_kv_txn(struct bw_call *call, const ProtobufCMessage *message)
{
    static struct bw_entry_scratch scratch;
    struct bw_entry entry = {.kind = BW_ENTRY_TXN};
    struct taking taking = {.scratch = &scratch};
    scratch.compare_count = scratch.op_count = 0;
    bool taken = take_txn(&taking, (const Api__TxnRequest *)message, &entry.txn);
    if (taken)
        taking.refusal = bw_txn_shape(&entry.txn);
    if (taking.unknown)
        bw_call_end(call, BW_CODE_UNIMPLEMENTED,
                    "bellwether: unknown operation or option in the transaction");
    else if (taking.refusal)
        bw_service_refuse(call, taking.refusal);
    else
        bw_service_propose_at_level(
            call,
            &(struct bw_proposal){.level = taking.nested ? BW_REGISTRY_LEVEL_USERS : 0,
                                  .what = "a transaction inside a transaction",
                                  .applied = txn_applied},
            &entry);
}

/* ---- bytes ---- */

/* Reads a varint. Returns false at the end of the bytes. */
static bool take_number(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* Reads one field: its number, and its bytes if it is length-delimited. Returns false if the
 * message is malformed. */
static bool take_field(const uint8_t **at, const uint8_t *end, uint64_t *field,
                       const uint8_t **bytes, size_t *length)
{
    static const uint8_t fixed[] = {[1] = 8, [5] = 4};
    uint64_t tag, number;
    if (!take_number(at, end, &tag))
        return false;
    *field = tag >> 3;
    *bytes = NULL;
    uint64_t kind = tag & 7;
    if (kind == 0)
        return take_number(at, end, &number);
    if (kind == 2 && !take_number(at, end, &number))
        return false;
    if (kind != 2)
        number = kind == 1 || kind == 5 ? fixed[kind] : UINT64_MAX;
    if (number > (uint64_t)(end - *at))
        return false;
    if (kind == 2) {
        *bytes = *at;
        *length = (size_t)number;
    }
    *at += number;
    return true;
}

/* A TxnRequest holds operations in fields 2 and 3; an operation holds a TxnRequest in field 4.
 * `depth` bounds the recursion. */
static bool is_shallow(const uint8_t *at, size_t size, bool txn, unsigned depth)
{
    const uint8_t *end = at + size, *bytes;
    uint64_t field;
    size_t length;
    if (depth > 2 * BW_TXN_DEPTH_MAX)
        return false;
    while (at < end) {
        if (!take_field(&at, end, &field, &bytes, &length))
            return false;
        bool inside = bytes && (txn ? field == 2 || field == 3 : field == 4);
        if (inside && !is_shallow(bytes, length, !txn, depth + 1))
            return false;
    }
    return true;
}

bool bw_txn_is_shallow(const uint8_t *bytes, size_t length)
{
    return is_shallow(bytes, length, true, 0);
}
