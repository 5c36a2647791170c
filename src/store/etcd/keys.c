/* Keys and transactions; see keys.h. */
#include "store/etcd/keys.h"

#include "core/base/assert.h"
#include "net/election_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void etcd_names_make(struct etcd_names *names, const char *prefix, const char *election)
{
    char path[ETCD_ELECTION_MAX + 1];
    snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "/" : "", election);
    snprintf(names->election, sizeof names->election, "%.*s/", (int)ETCD_ELECTION_MAX - 1, path);
    bw_election_keys(names->side, path, strlen(path));
}

void etcd_key_campaign(struct etcd_key *key, const struct etcd_names *names, int64_t lease)
{
    snprintf(key->text, sizeof key->text, "%s%" PRIx64, names->election, (uint64_t)lease);
}

void etcd_key_candidate(struct etcd_key *key, const struct etcd_names *names, int64_t lease)
{
    snprintf(key->text, sizeof key->text, "%scandidates/%" PRIx64, names->side, (uint64_t)lease);
}

bool etcd_key_is_ours(const struct etcd_names *names, const char *campaign_key)
{
    char mark[16];
    size_t length = strlen(names->election);
    snprintf(mark, sizeof mark, "%" PRIx64, (uint64_t)ETCD_LEASE_OURS);
    return strlen(campaign_key) == length + 16 &&
           strncmp(campaign_key + length, mark, strlen(mark)) == 0;
}

void etcd_key_candidate_of(struct etcd_key *key, const struct etcd_names *names,
                           const char *campaign_key)
{
    snprintf(key->text, sizeof key->text, "%scandidates/%.64s", names->side,
             campaign_key + strlen(names->election));
}

void etcd_key_mail(struct etcd_key *key, const struct etcd_names *names, const char *id)
{
    snprintf(key->text, sizeof key->text, "%smail/%.63s", names->side, id);
}

void etcd_key_side(struct etcd_key *key, const struct etcd_names *names, const char *what)
{
    snprintf(key->text, sizeof key->text, "%s%s", names->side, what);
}

void etcd_key_after(struct etcd_key *end, const char *prefix)
{
    snprintf(end->text, sizeof end->text, "%s", prefix);
    end->text[strlen(end->text) - 1]++; /* '/' becomes '0' */
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

void etcd_txn_init(struct etcd_txn *txn)
{
    api__txn_request__init(&txn->request);
    txn->request.compare = txn->compare_list;
    txn->request.success = txn->then_list;
    txn->request.failure = txn->else_list;
    txn->used = 0;
}

static Api__Compare *compare(struct etcd_txn *txn, const char *key)
{
    BW_ASSERT(txn->request.n_compare < ETCD_COMPARES_MAX);
    Api__Compare *new = &txn->compares[txn->request.n_compare];
    txn->compare_list[txn->request.n_compare++] = new;
    api__compare__init(new);
    new->key = bytes_of(key);
    return new;
}

void etcd_txn_if_create(struct etcd_txn *txn, const char *key, int64_t revision)
{
    Api__Compare *new = compare(txn, key);
    new->target = API__COMPARE__COMPARE_TARGET__CREATE;
    new->target_union_case = API__COMPARE__TARGET_UNION_CREATE_REVISION;
    new->create_revision = revision;
}

void etcd_txn_if_mod(struct etcd_txn *txn, const char *key, int64_t revision)
{
    Api__Compare *new = compare(txn, key);
    new->target = API__COMPARE__COMPARE_TARGET__MOD;
    new->target_union_case = API__COMPARE__TARGET_UNION_MOD_REVISION;
    new->mod_revision = revision;
}

/* Reserves the memory of one operation. Both branches may share an operation. */
static unsigned add(struct etcd_txn *txn, enum etcd_branch branch)
{
    BW_ASSERT(txn->used < ETCD_OPS_MAX);
    Api__RequestOp *op = &txn->ops[txn->used];
    api__request_op__init(op);
    if (branch & ETCD_THEN)
        txn->then_list[txn->request.n_success++] = op;
    if (branch & ETCD_ELSE)
        txn->else_list[txn->request.n_failure++] = op;
    return txn->used++;
}

Api__RangeRequest *etcd_txn_range(struct etcd_txn *txn, enum etcd_branch branch, const char *key,
                                  const char *end)
{
    unsigned at = add(txn, branch);
    Api__RangeRequest *range = &txn->bodies[at].range;
    api__range_request__init(range);
    range->key = bytes_of(key);
    if (end)
        range->range_end = bytes_of(end);
    txn->ops[at].request_case = API__REQUEST_OP__REQUEST_REQUEST_RANGE;
    txn->ops[at].request_range = range;
    return range;
}

void etcd_txn_put(struct etcd_txn *txn, enum etcd_branch branch, const char *key, const char *value,
                  int64_t lease)
{
    unsigned at = add(txn, branch);
    Api__PutRequest *put = &txn->bodies[at].put;
    api__put_request__init(put);
    put->key = bytes_of(key);
    put->value = bytes_of(value);
    put->lease = lease;
    txn->ops[at].request_case = API__REQUEST_OP__REQUEST_REQUEST_PUT;
    txn->ops[at].request_put = put;
}

void etcd_txn_delete(struct etcd_txn *txn, enum etcd_branch branch, const char *key)
{
    unsigned at = add(txn, branch);
    Api__DeleteRangeRequest *gone = &txn->bodies[at].delete_range;
    api__delete_range_request__init(gone);
    gone->key = bytes_of(key);
    txn->ops[at].request_case = API__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    txn->ops[at].request_delete_range = gone;
}
