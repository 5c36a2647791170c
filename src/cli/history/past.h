/* Derives the leaderships of the past from lines of the local history (run/history/history_log.h)
 * or of `observe --json`. Several observers may have written the lines, and each leadership is then
 * reported several times.
 *
 * A leadership is an election, a store, a leader, a token and a request. Observers may write
 * different URLs of one store: stores whose lines share a request are one store. The earliest line
 * that shows its begin and the earliest line that shows its end count; the reason of the leader
 * itself precedes that of others. If no observer saw the end, it is known only that another
 * leadership followed.
 *
 * Not guaranteed: that the clocks of observers on different hosts agree. */
#ifndef BW_CLI_HISTORY_PAST_H
#define BW_CLI_HISTORY_PAST_H

#include "store/store.h"

#define BW_PAST_LINES_MAX 200000u
#define BW_PAST_LINE_MAX  65536u
#define BW_PAST_WHY_MAX   159u
#define BW_PAST_STORES    256u /* further stores count as unknown */

enum bw_past_kind { BW_PAST_FOUND, BW_PAST_ELECTED, BW_PAST_LOST };

struct bw_past_line {
    enum bw_past_kind kind;
    bw_time at; /* wall clock of the observer */
    char election[BW_ELECTION_NAME_MAX + 1];
    char leader[BW_CANDIDATE_ID_MAX + 1]; /* "": FOUND without a leader */
    bw_token token;
    unsigned store;                        /* index in `stores`; 0: unknown */
    char request[24];                      /* "": unknown */
    char seen_by[BW_CANDIDATE_ID_MAX + 1]; /* "": unknown */
    char why[BW_PAST_WHY_MAX + 1];
    size_t order; /* place among all lines read */
};

/* A leadership, or (leader "") a time without a leader that was found at the start. */
struct bw_past {
    const struct bw_past_line *first; /* the line that shows its begin */
    bw_time from, to;                 /* `to` NEVER: it lasts, as far as known */
    bool is_found;                    /* it began before `from` */
    bool end_unseen;                  /* no observer saw its end: it was before `to` */
    const char *why, *ended_by;       /* reason and observer of its end; "": unknown */
};

struct bw_past_lines {
    struct bw_past_line *at;
    size_t count, size;
    uint64_t skipped;                    /* lines that are not of this form, or of another event */
    char *stores[BW_PAST_STORES];        /* URLs; [0]: NULL, unknown */
    unsigned store_count;                /* used, with [0]; 0: none yet */
    unsigned same_store[BW_PAST_STORES]; /* after deriving: the first URL of the same store */
};

/* Adds the lines of a file ("-": standard input). `election` NULL: all elections. Returns 0, or a
 * negative errno (-ENOBUFS: too many lines). */
int bw_past_read(struct bw_past_lines *lines, const char *path, const char *election);
void bw_past_deinit(struct bw_past_lines *lines);

/* After deriving: whether both lines are of one election in one store. */
bool bw_past_is_same_election(const struct bw_past_line *a, const struct bw_past_line *b);

/* The index of a store's URL, 0 if no line names it. */
unsigned bw_past_find_store(const struct bw_past_lines *lines, const char *url);

/* Sorts the lines, and derives the leaderships, ordered by election, store and time. Returns their
 * number and the array, which the caller frees; -1 if memory is exhausted. */
long bw_past_derive(struct bw_past_lines *lines, struct bw_past **out);

#endif
