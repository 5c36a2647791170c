/* Records the requests of clients to a registry and the responses, and then judges them (linear.h).
 *
 * A record is one request. Each lease is represented by a key of its own: a grant creates it, a
 * renewal reads it, a revoke deletes it. The keys under a lease end with it. A lease may also
 * expire by itself: from its grant on it may end once, at any instant. This checker does not judge
 * whether it ended too early; lease_check.h does.
 *
 * Guarantees: a history that is reported as wrong is wrong. A history that is reported as right may
 * still be wrong in relations between two keys, except in their revisions, which are compared
 * across all keys. */
#ifndef BW_SIM_CHECKS_HISTORY_H
#define BW_SIM_CHECKS_HISTORY_H

#include "sim/checks/linear.h"

enum bw_history_kind {
    BW_HISTORY_PUT,
    BW_HISTORY_GET,
    BW_HISTORY_DELETE,
    BW_HISTORY_CAS,
    BW_HISTORY_GRANT, /* done: granted; not done: the id existed already */
    /* done: renewed; not done: no such lease, or about to expire, which proves nothing */
    BW_HISTORY_KEEP_ALIVE,
    BW_HISTORY_REVOKE /* done: revoked; not done: no such lease */
};

struct bw_history_op {
    enum bw_history_kind kind;
    enum bw_linear_outcome outcome;
    uint32_t client, line;
    uint64_t key;           /* number of the key (bw_history_name) */
    uint64_t value, expect; /* numbers that stand for values; BW_LINEAR_ABSENT: no value */
    /* GET: the version found; CAS: the version to compare instead of the value; or NO_VERSION */
    int64_t version;
    int64_t lease; /* 0: none */
    bool done;
    bw_time call, back;
    int64_t revision; /* 0: unknown */
};

struct bw_history {
    struct bw_history_op *ops;
    uint32_t count, cap;
};

/* A history starts as zero bytes. */
void bw_history_clear(struct bw_history *history);
void bw_history_deinit(struct bw_history *history);
/* Returns 0, BW_ENOMEM or BW_ELIMIT. */
int bw_history_add(struct bw_history *history, const struct bw_history_op *op);

/* Returns a number for a name, never 0. */
uint64_t bw_history_name(const void *bytes, size_t length);

struct bw_history_verdict {
    struct bw_linear_verdict linear;
    /* first response with a smaller revision than an earlier response; 0: none */
    uint32_t backward_line;
};

/* Judges the history. `steps` as for bw_linear_check. Returns 0, BW_ENOMEM or BW_ELIMIT. */
int bw_history_judge(const struct bw_history *history, uint32_t steps,
                     struct bw_history_verdict *verdict);

#endif
