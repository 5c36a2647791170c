/* The checks of the algorithms page. Each has a claim, and rows with the expected value, the
 * measured value, the tolerance and the verdict.
 *
 * `size` scales statistical checks: 1 is the published size, the tests use less. A row's
 * tolerance applies to the full size. Only bw_report_near_mean widens it for a smaller run, by
 * sqrt(1/size). */
#ifndef BW_SIM_FIGURES_FIGURES_H
#define BW_SIM_FIGURES_FIGURES_H

#include "core/base/types.h"

#include <stdbool.h>
#include <stdint.h>

struct bw_report;

struct bw_sim_check {
    unsigned number;  /* in the list of the algorithms page */
    const char *name; /* words-with-dashes, stable because users type it */
    const char *claim;
    /* NULL, or what the check needs before it can run; then it is shown as waiting, neither passed
     * nor failed */
    const char *waits_for;
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
/* Like near, for a mean over size * full samples: widens the tolerance by sqrt(1 / size) if size <
 * 1. */
void bw_report_near_mean(struct bw_report *report, const char *what, double expected,
                         double measured, double tolerance, double size);
void bw_report_at_most(struct bw_report *report, const char *what, double bound, double measured);
void bw_report_at_least(struct bw_report *report, const char *what, double bound, double measured);

/* Returns the number of runs: full * size, at least `least`. */
uint32_t bw_report_runs(uint32_t full, double size, uint32_t least);

/* Tables of checks; each ends with a row without a name. */
extern const struct bw_sim_check bw_checks_bully[], bw_checks_ring[], bw_checks_groups[],
    bw_checks_raft[], bw_checks_detect[], bw_checks_lease[], bw_checks_split[];

/* Returns the i-th check, ordered by check number, or NULL. */
const struct bw_sim_check *bw_sim_check_at(unsigned i);
/* Returns the check with this name or number ("12"), or NULL. */
const struct bw_sim_check *bw_sim_check_find(const char *name);

#endif
