/* Checks whether a recorded history is linearizable: keys of the registry, and leases, each by
 * itself.
 *
 * Model: an operation takes effect at one instant between its call and its return. An operation
 * with unknown outcome takes effect at any instant after its call, or never. A failed operation has
 * no effect. A history is right if the instants can be chosen so that every response fits the state
 * at its instant.
 *
 * Linearizability is local (Herlihy and Wing 1990), so each key is judged alone. The search is that
 * of Wing and Gong with Lowe's memory of visited states (2017). It tries known operations before
 * unknown ones, and an unknown one only where the next response needs it. It first tries only
 * orders in which the revisions of the known changes grow. If it finds none, it tries all orders,
 * so the revisions save time, but are not part of the judgement.
 *
 * Guarantees: a history that is reported as right is right. A history that is reported as wrong is
 * wrong, except for a collision of 64-bit hashes. The search is bounded; beyond the bound the
 * result is UNDECIDED.
 *
 * bw_linear_revisions checks revisions separately: no response may have a smaller revision than a
 * response that arrived before its request was sent, for any keys. */
#ifndef BW_SIM_CHECKS_LINEAR_H
#define BW_SIM_CHECKS_LINEAR_H

#include "core/base/types.h"

#define BW_LINEAR_STEPS      2000000u /* default bound for the search of one key */
#define BW_LINEAR_ABSENT     ((uint64_t)0)
#define BW_LINEAR_NO_VERSION (-1)
#define BW_LINEAR_OPS_MAX    (1u << 22)

enum bw_linear_kind {
    BW_LINEAR_PUT,    /* writes `value`, attached to `lease` */
    BW_LINEAR_GET,    /* `value`: the value found, or ABSENT; `version`: found, or NO_VERSION */
    BW_LINEAR_DELETE, /* done: the key existed */
    /* compare and swap: puts `value` if the key has the value `expect`, or the version `version`;
     * done: the comparison was true */
    BW_LINEAR_CAS,
    BW_LINEAR_END /* end of a lease: deletes the key if it belongs to `lease` */
};

enum bw_linear_outcome { BW_LINEAR_OK, BW_LINEAR_FAIL, BW_LINEAR_UNKNOWN };

struct bw_linear_op {
    enum bw_linear_kind kind;
    enum bw_linear_outcome outcome;
    uint32_t client, line; /* for the report */
    uint64_t key;
    uint64_t value, expect; /* numbers that stand for values */
    int64_t version;        /* CAS: NO_VERSION compares values */
    int64_t lease;          /* 0: none */
    bool done;              /* DELETE, CAS: see enum bw_linear_kind */
    bool done_known;        /* DELETE, CAS: the response contains `done` */
    bw_time call, back;     /* when the request was sent and the response arrived, on one clock */
    int64_t revision;       /* from the response; 0: unknown */
};

enum bw_linear_judgement { BW_LINEAR_RIGHT, BW_LINEAR_WRONG, BW_LINEAR_UNDECIDED };

struct bw_linear_verdict {
    enum bw_linear_judgement judgement;
    uint32_t undecided;  /* number of undecided keys */
    uint64_t key;        /* WRONG: the key whose history is wrong */
    uint32_t placed;     /* largest number of its known operations that found a place */
    uint32_t known;      /* total number of its known operations */
    uint32_t stuck_line; /* the first operation that then found no place */
    uint32_t stuck_client;
};

/* Checks the histories of all keys. Sorts `ops` by key and call. `steps` is the bound of each
 * search for one key: with the revisions, then without; 0: BW_LINEAR_STEPS. Returns 0, BW_ENOMEM or
 * BW_ELIMIT. */
int bw_linear_check(struct bw_linear_op *ops, uint32_t count, uint32_t steps,
                    struct bw_linear_verdict *verdict);

/* Finds the first response with a wrong revision: smaller than that of a response that arrived
 * before its request was sent, or, for a change, not larger. Writes its line number to *line, or 0
 * if there is none. Sorts `ops` by call. Returns 0 or BW_ENOMEM. */
int bw_linear_revisions(struct bw_linear_op *ops, uint32_t count, uint32_t *line);

#endif
