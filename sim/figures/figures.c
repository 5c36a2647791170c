/* Combines the tables of checks into one list, and implements the reports of checks. */
#include "sim/figures/figures.h"

#include "core/base/assert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bw_sim_check *const tables[] = {
#ifdef BW_CHECKS_BULLY
    bw_checks_bully,
#endif
#ifdef BW_CHECKS_RING
    bw_checks_ring,
#endif
#ifdef BW_CHECKS_GROUPS
    bw_checks_groups,
#endif
#ifdef BW_CHECKS_RAFT
    bw_checks_raft,
#endif
#ifdef BW_CHECKS_DETECT
    bw_checks_detect,
#endif
#ifdef BW_CHECKS_LEASE
    bw_checks_lease,
#endif
#ifdef BW_CHECKS_SPLIT
    bw_checks_split,
#endif
    NULL};

/* Returns the next check in the order (number, name), or NULL. */
static const struct bw_sim_check *after(const struct bw_sim_check *last)
{
    const struct bw_sim_check *best = NULL;
    for (const struct bw_sim_check *const *table = tables; *table; table++)
        for (const struct bw_sim_check *c = *table; c->name; c++) {
            bool later = !last || c->number > last->number ||
                         (c->number == last->number && strcmp(c->name, last->name) > 0);
            bool sooner = !best || c->number < best->number ||
                          (c->number == best->number && strcmp(c->name, best->name) < 0);
            if (later && sooner)
                best = c;
        }
    return best;
}

const struct bw_sim_check *bw_sim_check_at(unsigned i)
{
    const struct bw_sim_check *check = after(NULL);
    while (check && i-- > 0)
        check = after(check);
    return check;
}

const struct bw_sim_check *bw_sim_check_find(const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    bool by_number = *name && *end == '\0';
    for (const struct bw_sim_check *c = after(NULL); c; c = after(c))
        if (by_number ? c->number == number : strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

/* ---- rows ---- */

static void add(struct bw_report *report, const char *what, enum bw_relation relation,
                double expected, double measured, double tolerance)
{
    BW_ASSERT(report->count < BW_REPORT_ROWS_MAX);
    struct bw_report_row *row = &report->rows[report->count++];
    snprintf(row->what, sizeof row->what, "%s", what);
    row->relation = relation;
    row->expected = expected;
    row->measured = measured;
    row->tolerance = tolerance;
    switch (relation) {
    case BW_ROW_EQUAL:
    case BW_ROW_NEAR:
        row->pass = fabs(measured - expected) <= tolerance;
        break;
    case BW_ROW_AT_MOST:
        row->pass = measured <= expected;
        break;
    case BW_ROW_AT_LEAST:
        row->pass = measured >= expected;
        break;
    }
    report->failed += !row->pass;
}

void bw_report_equal(struct bw_report *report, const char *what, double expected, double measured)
{
    add(report, what, BW_ROW_EQUAL, expected, measured, 0);
}

void bw_report_near(struct bw_report *report, const char *what, double expected, double measured,
                    double tolerance)
{
    add(report, what, BW_ROW_NEAR, expected, measured, tolerance);
}

void bw_report_near_mean(struct bw_report *report, const char *what, double expected,
                         double measured, double tolerance, double size)
{
    double wider = size > 0 && size < 1 ? sqrt(1 / size) : 1;
    add(report, what, BW_ROW_NEAR, expected, measured, tolerance * wider);
}

void bw_report_at_most(struct bw_report *report, const char *what, double bound, double measured)
{
    add(report, what, BW_ROW_AT_MOST, bound, measured, 0);
}

void bw_report_at_least(struct bw_report *report, const char *what, double bound, double measured)
{
    add(report, what, BW_ROW_AT_LEAST, bound, measured, 0);
}

uint32_t bw_report_runs(uint32_t full, double size, uint32_t least)
{
    double runs = full * size;
    return runs < least ? least : (uint32_t)runs;
}
