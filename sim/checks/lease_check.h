/* Did leases keep what they promise? Watched from outside, in the world's time.
 *
 * Model: clocks run at rates within 1 +- `bound`. A renewal that was confirmed to its client binds
 * from when the client sent it: whoever counts the TTL from any instant after that, on the fastest
 * clock allowed, comes to sent + TTL / (1 + bound) at the earliest.
 *
 * Holds the registry to: a lease does not end before that unless its client asked for its end, even
 * when the confirmation arrives later than the end; no two clients may act for one election at one
 * instant; tokens (create revisions) of successive holders only grow. That leases do end is looked
 * at by whoever knows when (registry.c). */
#ifndef BW_SIM_LEASE_CHECK_H
#define BW_SIM_LEASE_CHECK_H

#include "core/base/types.h"

#define BW_LEASE_CHECK_CLIENTS   32u
#define BW_LEASE_CHECK_ELECTIONS 4u

struct bw_lease_row {
    int64_t id;
    bw_time ttl_ns;
    bw_time sent;  /* of the last renewal that was confirmed */
    bw_time ended; /* NEVER: not yet */
    bool given_up; /* its client asked for its end: anything may happen */
};

struct bw_act_window { /* when a client may act for its election */
    bw_time from, until;
};

struct bw_lease_check {
    double bound;
    struct bw_lease_row *rows;
    uint32_t count, cap;
    struct bw_act_window windows[BW_LEASE_CHECK_CLIENTS];
    uint32_t election_of[BW_LEASE_CHECK_CLIENTS];
    int64_t token[BW_LEASE_CHECK_ELECTIONS];
    uint64_t ended, renewed; /* how often, to know that something was looked at */
    char found[200];
    bw_time found_at;
};

/* Begins as zero bytes; clear keeps the memory. */
void bw_lease_check_clear(struct bw_lease_check *check, double bound);
void bw_lease_check_deinit(struct bw_lease_check *check);

/* A client is told that its grant or renewal, sent at `sent`, was done. */
void bw_lease_check_renewed(struct bw_lease_check *check, bw_time at, int64_t lease, bw_time ttl_ns,
                            bw_time sent);
/* A client is about to ask for the lease's end. */
void bw_lease_check_given_up(struct bw_lease_check *check, int64_t lease);
/* The lease is gone at some node, or a client was told so. */
void bw_lease_check_ended(struct bw_lease_check *check, bw_time at, int64_t lease);
/* A client may act from `from` until before `until` with this token; until <= from: not any more.
 */
void bw_lease_check_acts(struct bw_lease_check *check, bw_time at, uint32_t client,
                         uint32_t election, int64_t token, struct bw_act_window window);

/* NULL, or the first thing found. */
const char *bw_lease_check_violation(const struct bw_lease_check *check, bw_time *at);
void bw_lease_check_violate(struct bw_lease_check *check, bw_time at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
