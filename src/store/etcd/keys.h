/* Keys of an election in etcd, and transactions over them.
 *
 *   PREFIX/NAME/LEASE                      one candidate, as in Go's concurrency.Election. LEASE is
 *                                          its lease id in hexadecimal; the value is what it
 *                                          publishes. The candidate with the smallest create
 *                                          revision leads.
 *   /bellwether/ELECTION/candidates/LEASE  id, value and priority of that candidate (JSON)
 *   /bellwether/ELECTION/death-proof       proof that the last leader's work is dead; only on
 *                                          `serve`, until the next leader (net/death_proof.h)
 *   /bellwether/ELECTION/mail/ID           written to wake candidate ID when it is asked to prepare
 *   /bellwether/ELECTION/note              the last note (JSON)
 *   /bellwether/ELECTION/record            the last leader, its token, and how it ended (JSON)
 *
 * ELECTION is PREFIX/NAME with '/' as %2F and '%' as %25. Names contain no '/'. So none of our own
 * keys has the form of an election key without a prefix, and no two elections share a key. */
#ifndef BW_STORE_ETCD_KEYS_H
#define BW_STORE_ETCD_KEYS_H

#include "net/api.pb-c.h"
#include "store/store.h"

#define ETCD_PREFIX_MAX   255u
#define ETCD_ELECTION_MAX (ETCD_PREFIX_MAX + BW_ELECTION_NAME_MAX + 2)
#define ETCD_KEY_MAX      (ETCD_ELECTION_MAX * 3 + 64u + BW_CANDIDATE_ID_MAX)

struct etcd_names {
    char election[ETCD_ELECTION_MAX + 1]; /* ends in '/' */
    char side[ETCD_KEY_MAX + 1];          /* ends in '/' */
};

struct etcd_key {
    char text[ETCD_KEY_MAX + BW_CANDIDATE_ID_MAX + 32];
};

void etcd_names_make(struct etcd_names *names, const char *prefix, const char *election);
void etcd_key_campaign(struct etcd_key *key, const struct etcd_names *names, int64_t lease);
void etcd_key_candidate(struct etcd_key *key, const struct etcd_names *names, int64_t lease);
void etcd_key_mail(struct etcd_key *key, const struct etcd_names *names, const char *id);
/* We choose the lease ids, so that a key shows that it is ours: 32 fixed bits, then 32 random
 * bits. */
#define ETCD_LEASE_OURS INT64_C(0x62777468)
bool etcd_key_is_ours(const struct etcd_names *names, const char *campaign_key);
/* The key candidates/LEASE that belongs to an election key. */
void etcd_key_candidate_of(struct etcd_key *key, const struct etcd_names *names,
                           const char *campaign_key);
/* A key below /bellwether/ELECTION/: "record", "note" or "candidates/". "none" never exists. */
void etcd_key_side(struct etcd_key *key, const struct etcd_names *names, const char *what);
/* The range end for all keys with a prefix that ends in '/'. */
void etcd_key_after(struct etcd_key *end, const char *prefix);

/* A transaction in fixed memory. Its texts must stay valid until it is packed. */
#define ETCD_OPS_MAX      24u
#define ETCD_COMPARES_MAX 2u

enum etcd_branch { ETCD_THEN = 1, ETCD_ELSE = 2, ETCD_BOTH = 3 };

struct etcd_txn {
    Api__TxnRequest request;
    Api__Compare compares[ETCD_COMPARES_MAX], *compare_list[ETCD_COMPARES_MAX];
    Api__RequestOp ops[ETCD_OPS_MAX], *then_list[ETCD_OPS_MAX], *else_list[ETCD_OPS_MAX];
    union {
        Api__RangeRequest range;
        Api__PutRequest put;
        Api__DeleteRangeRequest delete_range;
    } bodies[ETCD_OPS_MAX];
    unsigned used;
};

void etcd_txn_init(struct etcd_txn *txn);
void etcd_txn_if_create(struct etcd_txn *txn, const char *key, int64_t revision);
void etcd_txn_if_mod(struct etcd_txn *txn, const char *key, int64_t revision);
/* Adds a range request, which the caller may refine. `end` NULL: a single key. */
Api__RangeRequest *etcd_txn_range(struct etcd_txn *txn, enum etcd_branch branch, const char *key,
                                  const char *end);
void etcd_txn_put(struct etcd_txn *txn, enum etcd_branch branch, const char *key, const char *value,
                  int64_t lease);
void etcd_txn_delete(struct etcd_txn *txn, enum etcd_branch branch, const char *key);

#endif
