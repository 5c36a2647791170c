/* Conversion of key reads and changes between etcd's messages and the registry, shared by Txn and
 * the single calls. */
#ifndef BW_SERVE_API_KV_H
#define BW_SERVE_API_KV_H

#include "serve/api/service.h"

struct bw_range bw_kv_to_range(const Api__RangeRequest *in);
struct bw_put bw_kv_to_put(const Api__PutRequest *in);
struct bw_delete bw_kv_to_delete(const Api__DeleteRangeRequest *in);
/* Returns true if enums and signs are in the range that the log can represent. */
bool bw_kv_range_is_sane(const struct bw_range *range);

/* Results as messages; their parts are in the service's scratch memory. */
void bw_kv_fill_range(struct bw_service *service, Api__RangeResponse *out,
                      const struct bw_op_result *result, bool keys_only);
void bw_kv_fill_put(struct bw_service *service, Api__PutResponse *out,
                    const struct bw_op_result *result);
void bw_kv_fill_delete(struct bw_service *service, Api__DeleteRangeResponse *out,
                       const struct bw_op_result *result);
/* Returns true if the change was refused; the call has ended. */
bool bw_kv_was_refused(struct bw_call *call, enum bw_refusal refusal,
                       const struct bw_results *results);

/* txn.c: returns true if the transactions nested in these bytes are shallow enough to unpack. */
bool bw_txn_is_shallow(const uint8_t *bytes, size_t length);

#endif
