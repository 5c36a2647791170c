/* Internals of the register file, shared by its source files. */
#ifndef BW_FENCE_GUARD_FILE_H
#define BW_FENCE_GUARD_FILE_H

#include "fence/register.h"

#include <limits.h>

struct bw_guard {
    int check_fd; /* open file description for the check lock */
    int work_fd;  /* separate one for the work lock, inherited by the work */
    bool held;    /* bw_guard_hold took the work lock */
    char path[PATH_MAX];
    char register_path[PATH_MAX + 16], lock_path[PATH_MAX + 16];
};

int bw_guard_error(char *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Replaces a file as a whole, durably, with the lock file's permissions. The caller holds the check
 * lock. */
int bw_guard_replace(const struct bw_guard *guard, const char *path, const void *bytes,
                     size_t length, char *why);

/* bw_guard_count; the caller holds the check lock. */
int bw_guard_count_one(const struct bw_guard *guard, const char *metrics_path, char *why);

#endif
