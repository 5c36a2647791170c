/* Reads and changes of keys between etcd's messages and the registry: what Txn shares with the
 * single calls. */
#ifndef BW_SERVE_SERVICE_KV_H
#define BW_SERVE_SERVICE_KV_H

#include "serve/api/service.h"

struct bw_range bw_kv_to_range(const Api__RangeRequest *in);
struct bw_put bw_kv_to_put(const Api__PutRequest *in);
struct bw_delete bw_kv_to_delete(const Api__DeleteRangeRequest *in);
/* Enums and signs as the log can hold them. */
bool bw_kv_range_is_sane(const struct bw_range *range);

/* Results as messages, their parts in the service's room. */
void bw_kv_fill_range(struct bw_service *service, Api__RangeResponse *out,
                      const struct bw_op_result *result, bool keys_only);
void bw_kv_fill_put(struct bw_service *service, Api__PutResponse *out,
                    const struct bw_op_result *result);
void bw_kv_fill_delete(struct bw_service *service, Api__DeleteRangeResponse *out,
                       const struct bw_op_result *result);
/* True: refused, and the call has ended. */
bool bw_kv_was_refused(struct bw_call *call, enum bw_refusal refusal,
                       const struct bw_results *results);

/* txn.c: are the transactions inside one, as bytes, few enough in depth to be read? */
bool bw_txn_is_shallow(const uint8_t *bytes, size_t length);

#endif
