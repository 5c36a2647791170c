/* Puts the death proof of a leadership, whose work a guardian has confirmed dead, before the lease
 * is revoked; see net/death_proof.h.
 *
 * The lease shows the leadership: a key PATH/LEASE of the lease is a candidate in the election PATH
 * (store/etcd/keys.h), and its create revision is the token. The record of that election asks for
 * the proof by containing its hash. So nothing is put for other clients, for candidates that only
 * wait, and for versions that do not use the proof.
 *
 * The transaction has an effect only while the candidate's key exists with that create revision. If
 * it does not precede the revocation in the log, it has none. It is requested as the user of the
 * connection, like the revocation. */
#include "net/death_proof.h"

#include "net/election_keys.h"
#include "serve/api/binding.h"
#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES 512u /* longer than every path of an election */
#define KEYS_MAX       16u  /* keys of a lease that are examined; a leader has few */

static struct bw_slice slice_of(const char *text)
{
    return (struct bw_slice){(const unsigned char *)text, strlen(text)};
}

static const struct bw_kv *read_key(struct bw_call *call, struct bw_slice key)
{
    const struct bw_kv *found = NULL;
    struct bw_results memory = {.kvs = &found, .kv_cap = 1};
    struct bw_op_result result;
    struct bw_range range = {.keys = {.key = key}, .limit = 1};
    if (bw_registry_range(bw_service_registry(call->service), &range, &memory, &result) !=
        BW_REFUSED_NONE)
        return NULL;
    return result.kv_count ? result.kvs[0] : NULL;
}

/* Returns the length of PATH if the key is PATH/LEASE; 0: it is not. */
static size_t path_length(struct bw_slice key, int64_t lease)
{
    char end[24];
    size_t length = (size_t)snprintf(end, sizeof end, "/%" PRIx64, (uint64_t)lease);
    if (key.length <= length || key.length - length > PATH_MAX_BYTES ||
        memcmp(key.at + key.length - length, end, length) != 0)
        return 0;
    return key.length - length;
}

/* Does the record ask for this proof? */
static bool is_asked_for(struct bw_call *call, const char *prefix, const char *proof)
{
    char key[BW_ELECTION_KEYS_BYTES(PATH_MAX_BYTES) + sizeof "record"];
    char hash[BW_DEATH_PROOF_TEXT + 1];
    snprintf(key, sizeof key, "%srecord", prefix);
    const struct bw_kv *record = read_key(call, slice_of(key));
    if (!record || !bw_death_hash(proof, hash))
        return false;
    struct bw_slice value = bw_kv_value(record);
    return memmem(value.at, value.length, hash, BW_DEATH_PROOF_TEXT) != NULL;
}

static void put(struct bw_call *call, const struct bw_kv *candidate, const char *prefix,
                const char *proof)
{
    char key[BW_ELECTION_KEYS_BYTES(PATH_MAX_BYTES) + sizeof BW_DEATH_PROOF_KEY];
    snprintf(key, sizeof key, "%s" BW_DEATH_PROOF_KEY, prefix);
    struct bw_compare same = {.what = BW_COMPARE_CREATE,
                              .keys = {.key = bw_kv_key(candidate)},
                              .number = candidate->create_revision};
    struct bw_op op = {.kind = BW_OP_PUT, .put = {.key = slice_of(key), .value = slice_of(proof)}};
    struct bw_entry entry = {
        .kind = BW_ENTRY_TXN,
        .by = bw_auth_by(call),
        .txn = {.compares = &same, .compare_count = 1, .then = &op, .then_count = 1}};
    bw_replica_propose(bw_service_replica(call->service), &entry);
}

void bw_death_proof_put(struct bw_call *call, int64_t lease,
                        const unsigned char secret[BW_BIND_PROOF])
{
    struct bw_slice keys[KEYS_MAX];
    uint32_t count =
        bw_registry_lease_keys(bw_service_registry(call->service), lease, keys, KEYS_MAX);
    for (uint32_t i = 0; i < count && i < KEYS_MAX; i++) {
        char prefix[BW_ELECTION_KEYS_BYTES(PATH_MAX_BYTES)], proof[BW_DEATH_PROOF_TEXT + 1];
        size_t length = path_length(keys[i], lease);
        const struct bw_kv *candidate = length ? read_key(call, keys[i]) : NULL;
        if (!candidate || !bw_death_proof(secret, (uint64_t)candidate->create_revision, proof))
            continue;
        bw_election_keys(prefix, (const char *)keys[i].at, length);
        if (is_asked_for(call, prefix, proof)) {
            put(call, candidate, prefix, proof);
            return; /* a lease holds one leadership; the slices may have become invalid */
        }
    }
}
