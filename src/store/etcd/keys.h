/* Where an election lies in etcd, and transactions over such keys.
 *
 *   PREFIX/NAME/LEASE                     one candidate, as Go's concurrency.Election has it: LEASE
 * in hexadecimal; the value is what it publishes; the smallest create revision leads
 *   /bellwether/ELECTION/candidates/LEASE id, value and priority of that candidate (JSON)
 *   /bellwether/ELECTION/mail/ID          touched when candidate ID is asked to prepare
 *   /bellwether/ELECTION/note             the last note (JSON)
 *   /bellwether/ELECTION/record           who led last, with which token, how it ended (JSON)
 *
 * ELECTION is PREFIX/NAME with '/' as %2F and '%' as %25. Names hold no '/', so nothing of ours
 * ever begins like an election without a prefix, and no two elections share a key. */
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
void etcd_key_seat(struct etcd_key *key, const struct etcd_names *names, int64_t lease);
void etcd_key_candidate(struct etcd_key *key, const struct etcd_names *names, int64_t lease);
void etcd_key_mail(struct etcd_key *key, const struct etcd_names *names, const char *id);
/* Lease ids are chosen by us, so that a key tells whose it is: 32 bits that say so, 32 of chance.
 */
#define ETCD_LEASE_OURS INT64_C(0x62777468)
bool etcd_key_is_ours(const struct etcd_names *names, const char *seat_key);
/* The candidate's key that belongs to a place's. */
void etcd_key_candidate_of(struct etcd_key *key, const struct etcd_names *names,
                           const char *seat_key);
/* "record", "note", "candidates/"; "none" is never there. */
void etcd_key_side(struct etcd_key *key, const struct etcd_names *names, const char *what);
/* The end of all keys that begin with a text that ends in '/'. */
void etcd_key_after(struct etcd_key *end, const char *prefix);

/* A transaction in fixed memory. Its texts must live until it is packed. */
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
/* To refine; `end` NULL: one key. */
Api__RangeRequest *etcd_txn_range(struct etcd_txn *txn, enum etcd_branch branch, const char *key,
                                  const char *end);
void etcd_txn_put(struct etcd_txn *txn, enum etcd_branch branch, const char *key, const char *value,
                  int64_t lease);
void etcd_txn_delete(struct etcd_txn *txn, enum etcd_branch branch, const char *key);

#endif
