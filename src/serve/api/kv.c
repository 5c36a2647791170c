/* Range, Put, DeleteRange, Compact: converts etcd's messages to log entries and registry reads, and
 * results to etcd's messages. */
#include "serve/api/kv.h"
#include "core/base/error.h"
#include "serve/auth/auth.h"

#include <stdlib.h>
#include <string.h>

static struct bw_slice slice(ProtobufCBinaryData data)
{
    return (struct bw_slice){data.data, data.len};
}

struct bw_range bw_kv_to_range(const Api__RangeRequest *in)
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

struct bw_put bw_kv_to_put(const Api__PutRequest *in)
{
    return (struct bw_put){.key = slice(in->key),
                           .value = slice(in->value),
                           .lease = in->lease,
                           .previous = in->prev_kv,
                           .ignore_value = in->ignore_value,
                           .ignore_lease = in->ignore_lease};
}

struct bw_delete bw_kv_to_delete(const Api__DeleteRangeRequest *in)
{
    return (struct bw_delete){.keys = {.key = slice(in->key), .end = slice(in->range_end)},
                              .previous = in->prev_kv};
}

bool bw_kv_range_is_sane(const struct bw_range *range)
{
    return range->order <= BW_SORT_DESCEND && range->target <= BW_SORT_VALUE &&
           range->mod_min >= 0 && range->mod_max >= 0 && range->create_min >= 0 &&
           range->create_max >= 0;
}

static Api__KeyValue **to_kvs(struct bw_service *service, const struct bw_op_result *result,
                              bool keys_only)
{
    Api__KeyValue **kvs =
        bw_service_scratch(service, (result->kv_count + 1) * sizeof(Api__KeyValue *));
    for (uint32_t i = 0; i < result->kv_count; i++)
        kvs[i] = bw_service_kv(service, result->kvs[i], keys_only);
    return kvs;
}

void bw_kv_fill_range(struct bw_service *service, Api__RangeResponse *out,
                      const struct bw_op_result *result, bool keys_only)
{
    api__range_response__init(out);
    out->kvs = to_kvs(service, result, keys_only);
    out->n_kvs = result->kv_count;
    out->count = result->count;
    out->more = result->more;
}

void bw_kv_fill_put(struct bw_service *service, Api__PutResponse *out,
                    const struct bw_op_result *result)
{
    api__put_response__init(out);
    if (result->kv_count)
        out->prev_kv = bw_service_kv(service, result->kvs[0], false);
}

void bw_kv_fill_delete(struct bw_service *service, Api__DeleteRangeResponse *out,
                       const struct bw_op_result *result)
{
    api__delete_range_response__init(out);
    out->deleted = result->count;
    out->prev_kvs = to_kvs(service, result, false);
    out->n_prev_kvs = result->kv_count;
}

/* ---- Range ---- */

struct range_state { /* the request while the quorum is asked */
    struct bw_range range;
    unsigned char bytes[];
};

static size_t size_of(const struct bw_op_result *result, bool keys_only)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < result->kv_count; i++)
        bytes += sizeof(Api__KeyValue) + bw_kv_key(result->kvs[i]).length +
                 (keys_only ? 0 : bw_kv_value(result->kvs[i]).length);
    return bytes;
}

static void on_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    const struct bw_range *range = &((struct range_state *)call->state)->range;
    struct bw_service *service = call->service;
    struct bw_op_result result;
    Api__RangeResponse out;
    Api__Header header;
    (void)number;
    (void)ttl_ns;
    if (!bw_auth_permits(call, BW_PERM_READ, &range->keys))
        return;
    enum bw_refusal refusal = bw_registry_range(bw_service_registry(service), range,
                                                bw_service_results(service), &result);
    if (refusal) {
        bw_service_refuse(call, refusal);
        return;
    }
    size_t bytes = size_of(&result, range->keys_only);
    if (bw_service_postpone(call, bytes, on_readable) ||
        !bw_service_reserve(call, result.kv_count, sizeof(Api__KeyValue), BW_NO_MEMORY))
        return;
    bw_kv_fill_range(service, &out, &result, range->keys_only);
    bw_service_header(service, &header, 0);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
    bw_service_built(service, bytes);
}

/* Copies what a waiting read still needs: the message's bytes are freed earlier. */
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
    struct bw_range range = bw_kv_to_range(in);
    if (!bw_kv_range_is_sane(&range)) {
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: invalid sort option");
        return;
    }
    if (in->key.len == 0) {
        bw_service_refuse(call, BW_REFUSED_NO_KEY);
        return;
    }
    call->state = keep_range(&range);
    if (!call->state) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: no memory");
        return;
    }
    if (in->serializable)
        on_readable(call, 0, 0);
    else
        bw_service_read(call, on_readable);
}

void bw_kv_range_gone(struct bw_call *call)
{
    free(call->state);
}

/* ---- changes ---- */

bool bw_kv_was_refused(struct bw_call *call, enum bw_refusal refusal,
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
    if (bw_kv_was_refused(call, refusal, results))
        return;
    bw_service_scratch_clear(call->service);
    bw_kv_fill_put(call->service, &out, &results->ops[0]);
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
        bw_service_propose(call, &(struct bw_entry){.kind = BW_ENTRY_PUT, .put = bw_kv_to_put(in)},
                           put_applied);
}

static void delete_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                           enum bw_refusal refusal, const struct bw_results *results)
{
    Api__DeleteRangeResponse out;
    Api__Header header;
    (void)number;
    (void)entry;
    if (bw_kv_was_refused(call, refusal, results))
        return;
    if (!bw_service_reserve(call, results->ops[0].kv_count, sizeof(Api__KeyValue),
                            BW_NO_MEMORY_DONE))
        return;
    bw_kv_fill_delete(call->service, &out, &results->ops[0]);
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
        bw_service_propose(
            call, &(struct bw_entry){.kind = BW_ENTRY_DELETE, .delete = bw_kv_to_delete(in)},
            delete_applied);
}

/* ---- Compact ---- */

static void compact_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                            enum bw_refusal refusal, const struct bw_results *results)
{
    Api__CompactionResponse out = API__COMPACTION_RESPONSE__INIT;
    Api__Header header;
    (void)number;
    (void)entry;
    if (bw_kv_was_refused(call, refusal, results))
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
