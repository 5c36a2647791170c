/* The checks of the algorithms page by name: a claim, and rows of expected, measured, tolerance,
 * verdict.
 *
 * `size` scales the statistical ones: 1 is the full published size, the tests use less. A row's
 * tolerance belongs to the full size; a smaller run widens it by sqrt(1/size) through
 * bw_report_near_mean only. */
#ifndef BW_SIM_CHECKS_CHECKS_H
#define BW_SIM_CHECKS_CHECKS_H

#include "core/base/types.h"

#include <stdbool.h>
#include <stdint.h>

struct bw_report;

struct bw_sim_check {
    unsigned number;  /* in the list of the algorithms page */
    const char *name; /* words-with-dashes, stable: people type it */
    const char *claim;
    const char *waits_for; /* NULL, or what must exist before it can run: shown as waiting, neither
                              passed nor failed */
    void (*run)(struct bw_report *report, double size);
};

enum bw_relation { BW_ROW_EQUAL, BW_ROW_NEAR, BW_ROW_AT_MOST, BW_ROW_AT_LEAST };

struct bw_report_row {
    char what[96];
    enum bw_relation relation;
    double expected, measured, tolerance;
    bool pass;
};

#define BW_REPORT_ROWS_MAX 64u

struct bw_report {
    uint32_t count, failed;
    struct bw_report_row rows[BW_REPORT_ROWS_MAX];
};

void bw_report_equal(struct bw_report *report, const char *what, double expected, double measured);
void bw_report_near(struct bw_report *report, const char *what, double expected, double measured,
                    double tolerance);
/* As near, for a mean over size * full samples: the tolerance widens by sqrt(1 / size) when size
 * < 1. */
void bw_report_near_mean(struct bw_report *report, const char *what, double expected,
                         double measured, double tolerance, double size);
void bw_report_at_most(struct bw_report *report, const char *what, double bound, double measured);
void bw_report_at_least(struct bw_report *report, const char *what, double bound, double measured);

/* How many runs: full * size, at least `least`. */
uint32_t bw_report_runs(uint32_t full, double size, uint32_t least);

/* Tables, each ended by a row without a name. */
extern const struct bw_sim_check bw_checks_bully[], bw_checks_ring[], bw_checks_groups[],
    bw_checks_raft[], bw_checks_detect[], bw_checks_lease[], bw_checks_split[];

/* The i-th of all in order of number, or NULL; by name or number ("12"), or NULL. */
const struct bw_sim_check *bw_sim_check_at(unsigned i);
const struct bw_sim_check *bw_sim_check_find(const char *name);

#endif
