/* Was a recorded history linearizable? Keys of the registry, and leases, each by itself.
 *
 * Model: an operation takes effect at one instant between its call and its return; one whose
 * outcome is unknown at any instant after its call, or never; one that failed not at all. A history
 * is right when the instants can be chosen so that every answer is what the state at its instant
 * gives. Linearizability is local (Herlihy & Wing 1990): each key is judged alone. The search is
 * Wing and Gong's with Lowe's memory of states seen (2017): known operations are tried before
 * unknown ones, and an unknown one only where the next answer needs it.
 *
 * Guarantees: a history called right is right. One called wrong is wrong but for a collision of
 * 64-bit hashes. The search is bounded; beyond the bound it says that it does not know.
 *
 * Revisions stand apart (bw_linear_revisions): no answer may know less than an answer that was
 * there before it was asked, whatever the keys. */
#ifndef BW_SIM_LINEAR_H
#define BW_SIM_LINEAR_H

#include "core/base/types.h"

#define BW_LINEAR_STEPS   2000000u /* of the search of one key, unless told otherwise */
#define BW_LINEAR_ABSENT  ((uint64_t)0)
#define BW_LINEAR_UNTOLD  (-1)
#define BW_LINEAR_OPS_MAX (1u << 22)

enum bw_linear_kind {
    BW_LINEAR_PUT,    /* value, lease */
    BW_LINEAR_GET,    /* value found, or ABSENT; version found, or UNTOLD */
    BW_LINEAR_DELETE, /* done: there was something */
    BW_LINEAR_CAS, /* if the value is `expect` (or the version is `version`): put; done: it was */
    BW_LINEAR_END  /* the lease's end: deletes the key if it belongs to `lease` */
};

enum bw_linear_outcome { BW_LINEAR_OK, BW_LINEAR_FAIL, BW_LINEAR_UNKNOWN };

struct bw_linear_op {
    enum bw_linear_kind kind;
    enum bw_linear_outcome outcome;
    uint32_t client, line; /* for whoever reads the verdict */
    uint64_t key;
    uint64_t value, expect; /* numbers that stand for values */
    int64_t version;        /* CAS: UNTOLD compares values */
    int64_t lease;          /* 0: none */
    bool done, told;        /* DELETE, CAS: `told`: the answer said whether it was done */
    bw_time call, back;     /* on one clock */
    int64_t revision;       /* the answer's; 0: not told */
};

enum bw_linear_judgement { BW_LINEAR_RIGHT, BW_LINEAR_WRONG, BW_LINEAR_UNDECIDED };

struct bw_linear_verdict {
    enum bw_linear_judgement judgement;
    uint32_t undecided;  /* keys */
    uint64_t key;        /* WRONG: whose history */
    uint32_t placed;     /* so many of its known operations had a place at best */
    uint32_t known;      /* of so many */
    uint32_t stuck_line; /* and the first of them that then had none */
    uint32_t stuck_client;
};

/* Judges all keys; `ops` are sorted by key and call on return. `steps`: 0 for the default. Returns
 * 0, BW_ENOMEM or BW_ELIMIT. */
int bw_linear_check(struct bw_linear_op *ops, uint32_t count, uint32_t steps,
                    struct bw_linear_verdict *verdict);

/* The line of the first answer whose revision is below that of an answer known before it was asked,
 * or of a change that got no higher one; 0: none. `ops` are sorted by call on return. Returns
 * BW_ENOMEM too. */
int bw_linear_revisions(struct bw_linear_op *ops, uint32_t count, uint32_t *line);

#endif
