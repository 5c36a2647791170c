/* The leaderships that one candidate has seen: a bounded list, the newest last.
 *
 * The source are the records that the store returns to this candidate's own requests. So a
 * leadership begins and ends here when this candidate learns of it, and a leadership that begins
 * and ends between two replies is missing. The reason of an end is what the record shows:
 *
 *   - not held and clean: the holder, or its guardian, released after confirmed death; with a note
 *     to it: it resigned or handed over
 *   - not held and not clean, or listed as unconfirmed work by its successor: the lease expired, or
 *     the holder died
 *   - our own leaderships: the reason with which we stepped down
 *
 * Peers show a record without a leader as held by an empty name; that counts as not held.
 *
 * Pure: no clock, no I/O. */
#ifndef BW_RUN_STATUS_HISTORY_H
#define BW_RUN_STATUS_HISTORY_H

#include "core/lease/record.h"

#define BW_HISTORY_MAX     32u
#define BW_HISTORY_WHY_MAX 159u

struct bw_leadership {
    char holder[BW_CANDIDATE_ID_MAX + 1];
    bw_token token;
    uint64_t request;                 /* identifies the leadership where the store gives no token */
    bw_time from, to;                 /* `to` is NEVER until it ends */
    bool is_first;                    /* it had begun before this candidate first read a record */
    char why[BW_HISTORY_WHY_MAX + 1]; /* reason of its end; "": unknown, or not ended */
    bool is_given_up; /* ours, and we have ended it, whatever the record still shows */
};

/* Invariants: at most the last leadership lasts; `from` and `to` never decrease. */
struct bw_history {
    struct bw_leadership at[BW_HISTORY_MAX];
    uint32_t count;   /* rows used */
    uint64_t dropped; /* older leaderships that did not fit */
    bool seen;        /* the store has returned a record */
    /* The last record: its TTL, the time left of its lease, and when it was read. */
    bw_time ttl_ns, left_ns, left_at;
};

/* What a record has changed. */
enum bw_history_change {
    BW_HISTORY_BEGAN = 1, /* the last row is new, or lasts again */
    BW_HISTORY_ENDED = 2, /* the last row ended; with BEGAN: the one before it */
    BW_HISTORY_VACANT = 4 /* the first record shows no leader */
};

/* Takes a record that the store returned at `now`. Returns a set of enum bw_history_change. */
unsigned bw_history_record(struct bw_history *history, const struct bw_store_record *record,
                           bw_time now);
/* Records why our own current leadership ends. */
void bw_history_step_down(struct bw_history *history, const char *self, const char *reason);
/* Ends our own current leadership, if the store has not confirmed that: it may be unreachable.
 * Returns a set of enum bw_history_change. */
unsigned bw_history_give_up(struct bw_history *history, const char *self, bw_time now);

#endif
