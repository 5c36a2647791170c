/* What clients asked of a registry and what they were told: recorded, then judged (linear.h).
 *
 * A record is one request. Leases are seen as keys of their own: a grant creates it, a renewal
 * reads it, a revoke deletes it; the keys put under a lease end with it. That a lease may expire by
 * itself is part of the judgement: from its grant on it may end once, at any instant. That it does
 * not end too early is not (lease_check.h knows of clocks).
 *
 * Guarantees: what is called wrong is wrong. What is called right may still be wrong in what ties
 * two keys together, except by their revisions, which are compared across all of them. */
#ifndef BW_SIM_HISTORY_H
#define BW_SIM_HISTORY_H

#include "sim/checks/linear.h"

enum bw_history_kind {
    BW_HISTORY_PUT,
    BW_HISTORY_GET,
    BW_HISTORY_DELETE,
    BW_HISTORY_CAS,
    BW_HISTORY_GRANT,      /* done: granted; not: there was one of this id */
    BW_HISTORY_KEEP_ALIVE, /* done: renewed; not: none, or about to end: proves nothing */
    BW_HISTORY_REVOKE      /* done: revoked; not: no such lease */
};

struct bw_history_op {
    enum bw_history_kind kind;
    enum bw_linear_outcome outcome;
    uint32_t client, line;
    uint64_t key;           /* a number that stands for it (bw_history_name) */
    uint64_t value, expect; /* likewise; BW_LINEAR_ABSENT: nothing */
    int64_t version;        /* GET: found; CAS: compared instead of the value; or UNTOLD */
    int64_t lease;          /* 0: none */
    bool done;
    bw_time call, back;
    int64_t revision; /* 0: not told */
};

struct bw_history {
    struct bw_history_op *ops;
    uint32_t count, cap;
};

/* Begins as zero bytes. */
void bw_history_clear(struct bw_history *history);
void bw_history_deinit(struct bw_history *history);
/* Returns 0, BW_ENOMEM or BW_ELIMIT. */
int bw_history_add(struct bw_history *history, const struct bw_history_op *op);

/* A number for a name, never 0. */
uint64_t bw_history_name(const void *bytes, size_t length);

struct bw_history_verdict {
    struct bw_linear_verdict linear;
    uint32_t backward_line; /* the first answer that knew less than one before it; 0: none */
};

/* Judges it. `steps` as for bw_linear_check. Returns 0, BW_ENOMEM or BW_ELIMIT. */
int bw_history_judge(const struct bw_history *history, uint32_t steps,
                     struct bw_history_verdict *verdict);

#endif
