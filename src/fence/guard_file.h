/* The inside of the register as a file, shared by its few source files. */
#ifndef BW_FENCE_GUARD_FILE_H
#define BW_FENCE_GUARD_FILE_H

#include "fence/register.h"

#include <limits.h>

struct bw_guard {
    int look_fd; /* two descriptions of the lock file: one for looking ... */
    int work_fd; /* ... and one that work inherits */
    char path[PATH_MAX];
    char register_path[PATH_MAX + 16], lock_path[PATH_MAX + 16];
};

int bw_guard_say(char *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Replace a file as a whole, durably, with the lock file's rights. The caller has the look lock. */
int bw_guard_replace(const struct bw_guard *guard, const char *path, const void *bytes,
                     size_t length, char *why);

/* bw_guard_count with the look lock held. */
int bw_guard_count_one(const struct bw_guard *guard, const char *metrics_path, char *why);

#endif
