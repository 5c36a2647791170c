/* Checks the guarantees of leases from outside, on the world's clock.
 *
 * Model: clocks run at rates within 1 +- `bound`. A confirmed renewal counts from the time when its
 * client sent it. A clock that starts to count the TTL later, at the fastest allowed rate, reaches
 * the end at sent + TTL / (1 + bound) at the earliest.
 *
 * Checks that
 *   - a lease does not end before that time unless its client asked for it, even if the
 *     confirmation arrives after the end;
 *   - at most one client may act for an election at any instant;
 *   - the tokens (create revisions) of successive holders grow.
 * registry.c checks that leases do end. */
#ifndef BW_SIM_CHECKS_LEASE_CHECK_H
#define BW_SIM_CHECKS_LEASE_CHECK_H

#include "core/base/types.h"

#define BW_LEASE_CHECK_CLIENTS   32u
#define BW_LEASE_CHECK_ELECTIONS 4u

struct bw_lease_row {
    int64_t id;
    bw_time ttl_ns;
    bw_time sent;  /* when the last confirmed renewal was sent */
    bw_time ended; /* NEVER: has not ended */
    bool given_up; /* its client asked for its end, so it may end at any time */
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
    uint64_t ended, renewed; /* counters that show that the checks happened */
    char found[200];
    bw_time found_at;
};

/* A checker starts as zero bytes; clear keeps its memory. */
void bw_lease_check_clear(struct bw_lease_check *check, double bound);
void bw_lease_check_deinit(struct bw_lease_check *check);

/* The client learns that its grant or renewal, sent at `sent`, succeeded. */
void bw_lease_check_renewed(struct bw_lease_check *check, bw_time at, int64_t lease, bw_time ttl_ns,
                            bw_time sent);
/* The client is about to ask for the end of the lease. */
void bw_lease_check_given_up(struct bw_lease_check *check, int64_t lease);
/* The lease has ended at a node, or a client learned that it has. */
void bw_lease_check_ended(struct bw_lease_check *check, bw_time at, int64_t lease);
/* The client may act with this token in the window [from, until). until <= from: it may no longer
 * act. */
void bw_lease_check_acts(struct bw_lease_check *check, bw_time at, uint32_t client,
                         uint32_t election, int64_t token, struct bw_act_window window);

/* Returns NULL, or the first violation. */
const char *bw_lease_check_violation(const struct bw_lease_check *check, bw_time *at);
void bw_lease_check_violate(struct bw_lease_check *check, bw_time at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
