/* Random plans that are run in a process of their own, crashed at every place, and shortened when
 * they fail. A plan depends only on its seed, so `--seed N` repeats it. */
#ifndef BW_TESTS_SYSTEM_DISK_PLAN_H
#define BW_TESTS_SYSTEM_DISK_PLAN_H

#include "core/base/rng.h"
#include "system/disk/recorded_disk.h"
#include "system/disk/schedule.h"

#define PLAN_STEPS 64u

struct plan_step {
    uint32_t kind;
    uint64_t draw[4]; /* random numbers from which the step takes its parameters */
};

struct plan {
    uint64_t seed;
    struct plan_step step[PLAN_STEPS];
    uint32_t steps;
    uint64_t fail_at;      /* the change with this number fails; 0: none */
    int fail_with;         /* errno, or DISK_SHORT */
    uint32_t check_one_in; /* how often a crash is tried at a change; 0: never */
};

/* What the model supplies. All functions run in the process of one plan. */
struct plan_model {
    const char *name;
    const char *const *kinds; /* names of the steps */
    /* Fills in steps and limits. The generator depends only on the seed. */
    void (*draw)(struct plan *plan, struct bw_rng *rng);
    void (*begin)(const struct plan *plan);
    void (*take)(const struct plan_step *step);
    /* The process or the machine died: start again in disk_directory() and compare. */
    void (*recover)(void);
    /* After a recovery: some more steps. */
    void (*go_on)(struct bw_rng *rng);
    void (*end)(void);
};

/* Runs the tests that the command line asks for; returns the exit code.
 *   --seeds A..B   random plans (default: `short_seeds`), with a crash at every change
 *   --seed N       one plan, with all its steps and changes
 *   --orders A..B  small plans in every order of the threads with at most two preemptions */
int plan_main(int argc, char **argv, const struct plan_model *model, uint64_t short_seeds,
              uint64_t short_orders);

/* Ends the plan with a violation. */
void plan_violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Prints a line if the plan was asked for by --seed. */
void plan_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A named place in the program (os/crash.h) at which a crash may be tried. */
void plan_point(const char *name);
/* The same, in the middle of a write that has written these bytes. `at` < 0: at the current
 * offset. */
void plan_torn(const char *name, int fd, const void *bytes, size_t length, long long at);
/* Loses power or kills the process here, in the running plan. */
void plan_crash(uint64_t draw);
/* From now on this plan tries no crash. */
void plan_stop_crashing(void);
struct bw_rng *plan_rng(void);
/* Returns true if an operation has failed on purpose in this plan. */
bool plan_has_failed(void);
/* Ends the plan: it passed. */
_Noreturn void plan_end(void);
/* Ends the plan after a failure: what was durable must have survived. */
_Noreturn void plan_died(void);

#endif
