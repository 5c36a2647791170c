/* An election as one transaction saw it, and the record that follows for a reader.
 *
 * Who leads is what Go's recipe says: the candidate with the smallest create revision. Ours that
 * leads has also written the record: holder, request id, token (its create revision), containment,
 * what is owed. Before it has done so nobody leads yet; who stands in line behind it is shown it as
 * the one to wait for. */
#ifndef BW_STORE_ETCD_VIEW_H
#define BW_STORE_ETCD_VIEW_H

#include "store/etcd/keys.h"

struct etcd_entry {
    bool there;
    int64_t create, mod;
    char key[ETCD_ELECTION_MAX + 32];
    char text[BW_VALUE_MAX + 1]; /* of a candidate: its value, made printable */
};

struct etcd_view {
    int64_t revision;
    uint64_t cluster, term;   /* who answered, in which term of the cluster's own leader */
    bool succeeded;           /* the transaction's compares held */
    struct etcd_entry head;   /* first in line */
    struct etcd_entry own;    /* whose view it is */
    struct etcd_entry before; /* next before that one */
    char head_id[BW_CANDIDATE_ID_MAX + 1]; /* "": it is not ours, or cannot be told */
    bool head_ours, before_ours;
    bool unnamed; /* the head is ours, has not led yet, and was searched for: its id is not here */
    int64_t record_mod, note_mod; /* 0: not there */
    struct bw_store_record kept;  /* as it stands in the record's key */
    struct bw_note note;
};

/* What was seen of a stranger before us, who leaves no record. */
struct etcd_stranger {
    int64_t create; /* 0: nobody */
    char name[BW_CANDIDATE_ID_MAX + 1];
};

/* Places that were seen. Nobody can come before them, so as long as they stand they need not be
 * searched for among a thousand others: that is what a server pays most for. */
struct etcd_known {
    bool valid;
    int64_t own; /* for whose place */
    struct etcd_entry head, before;
};

/* Room for the texts of a view's part of a transaction. */
struct etcd_view_keys {
    struct etcd_key seat, election_end, candidate, record, note, none;
};

/* Adds the view's reads to both branches, behind everything else. `lease` 0: of nobody; `create` 0:
 * its place is not known, so who is before it cannot be asked. `known` NULL: search. */
void etcd_view_ask(struct etcd_txn *txn, struct etcd_view_keys *keys,
                   const struct etcd_names *names, int64_t lease, int64_t create,
                   const struct etcd_known *known);
/* True if places that were known are gone: search. */
bool etcd_view_is_stale(const struct etcd_view *view, const struct etcd_known *known);
/* Returns 0, or BW_EMALFORMED / BW_EDAMAGED with a line in why[BW_WHY_MAX + 1]. */
int etcd_view_read(struct etcd_view *view, const struct etcd_names *names,
                   const Api__TxnResponse *response, char *why);

/* Is `own` first in line? */
bool etcd_view_is_first(const struct etcd_view *view);
/* Does the record speak of the one who is first in line? */
bool etcd_view_is_taken(const struct etcd_view *view);
/* What stands in the record, with a stranger that led after it: before a taking. */
void etcd_view_last(const struct etcd_view *view, const struct etcd_stranger *stranger,
                    struct bw_store_record *record);
/* For a reader. */
void etcd_view_record(const struct etcd_view *view, const struct etcd_stranger *stranger,
                      struct bw_store_record *record);

/* At most `max` bytes, printable, whole UTF-8 signs or '?'. */
void etcd_text(char *out, size_t max, const ProtobufCBinaryData *bytes);

#endif
