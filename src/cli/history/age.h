/* How long the present leader of an election has led, from the local history of this host.
 *
 * Stores do not keep the time at which a leadership began. A candidate of this host that ran at
 * that time has written it to the history, by the wall clock of this host. So an age is the
 * difference of two readings of one clock; it is for display, and nothing is decided by it. */
#ifndef BW_CLI_HISTORY_AGE_H
#define BW_CLI_HISTORY_AGE_H

#include "cli/history/past.h"

#include <jansson.h>

struct bw_ages {
    struct bw_past_lines lines;
    struct bw_past *past;
    size_t count;
    bw_time now; /* wall clock */
};

struct bw_age {
    bw_time span;    /* NEVER: unknown */
    bool is_minimum; /* the leadership began before the history did */
};

#define BW_AGE_TEXT 36u

/* Reads the history of all elections as bw_past_read_directory does. A history that cannot be read
 * has no ages. */
void bw_ages_init(struct bw_ages *ages, const char *directory);
void bw_ages_deinit(struct bw_ages *ages);

/* The age of the leadership that the record shows. */
struct bw_age bw_ages_find(const struct bw_ages *ages, const char *election,
                           const struct bw_store_record *record);

/* Writes "3m12s", ">3m12s" for a minimum, or "-", and returns `out`. */
const char *bw_age_text(char out[BW_AGE_TEXT], const struct bw_age *age);
/* Sets age_ms and age_is_minimum. */
void bw_age_json(json_t *object, const struct bw_age *age);

#endif
