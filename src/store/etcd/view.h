/* An election as one transaction saw it, and the record for a reader.
 *
 * The leader is the one that Go's concurrency.Election defines: the candidate with the smallest
 * create revision. If it is one of ours, it also writes the record: holder, request id, token (its
 * create revision), containment, unconfirmed work. Until then there is no leader; the candidates
 * behind it see it as the holder, so that they wait for it. */
#ifndef BW_STORE_ETCD_VIEW_H
#define BW_STORE_ETCD_VIEW_H

#include "store/etcd/keys.h"

struct etcd_entry {
    bool there;
    int64_t create, mod;
    char key[ETCD_ELECTION_MAX + 32];
    char text[BW_VALUE_MAX + 1]; /* value of a candidate, made printable */
};

struct etcd_view {
    int64_t revision;
    uint64_t cluster, term;                /* responding cluster, and its Raft term */
    bool succeeded;                        /* all comparisons of the transaction were true */
    struct etcd_entry head;                /* first in the queue */
    struct etcd_entry own;                 /* the reader's own key */
    struct etcd_entry before;              /* the key just before the own one */
    char head_id[BW_CANDIDATE_ID_MAX + 1]; /* candidate id of the head; "": foreign or unknown */
    bool head_ours, before_ours;
    bool unnamed; /* the head is ours and has not led yet, but a search does not show its id */
    int64_t record_mod, note_mod; /* 0: does not exist */
    int64_t proof_mod;            /* of the key with a death proof; 0: does not exist */
    struct bw_store_record kept;  /* content of the record's key */
    bool proved_dead;             /* the death proof is the one that `kept` asks for */
    struct bw_note note;
};

/* A foreign candidate before us. It leaves no record. */
struct etcd_foreign {
    int64_t create; /* create revision; 0: none */
    char name[BW_CANDIDATE_ID_MAX + 1];
};

/* Keys that were seen. No candidate can get before them. While they exist, the server can read them
 * directly instead of searching all candidates, which is its most expensive operation. */
struct etcd_known {
    bool valid;
    int64_t own; /* create revision of the own key */
    struct etcd_entry head, before;
};

/* Memory for the keys of a view's part of a transaction. */
struct etcd_view_keys {
    struct etcd_key campaign, election_end, candidate, record, note, proof, none;
};

/* Adds the view's reads to both branches, after everything else. `lease` 0: no own key. `create` 0:
 * the own position is unknown, so the predecessor cannot be read. `known` NULL: search. */
void etcd_view_ask(struct etcd_txn *txn, struct etcd_view_keys *keys,
                   const struct etcd_names *names, int64_t lease, int64_t create,
                   const struct etcd_known *known);
/* Returns true if known keys are gone: search again. */
bool etcd_view_is_stale(const struct etcd_view *view, const struct etcd_known *known);
/* Returns 0, or BW_EMALFORMED / BW_EDAMAGED and a line in why[BW_WHY_MAX + 1]. */
int etcd_view_read(struct etcd_view *view, const struct etcd_names *names,
                   const Api__TxnResponse *response, char *why);

/* Is `own` first in the queue? */
bool etcd_view_is_first(const struct etcd_view *view);
/* Does the record belong to the head of the queue? */
bool etcd_view_is_taken(const struct etcd_view *view);
/* Describes the latest leadership, for an ACQUIRE that follows it: the one in the record, or that
 * of a foreign candidate that led after it. */
void etcd_view_last(const struct etcd_view *view, const struct etcd_foreign *foreign,
                    struct bw_store_record *record);
/* Computes the record that a reader gets. */
void etcd_view_record(const struct etcd_view *view, const struct etcd_foreign *foreign,
                      struct bw_store_record *record);

/* Copies at most `max` bytes of text, printable: whole UTF-8 characters, or '?'. */
void etcd_text(char *out, size_t max, const ProtobufCBinaryData *bytes);

#endif
