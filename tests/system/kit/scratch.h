/* A scratch directory for one test, removed afterwards. */
#ifndef BW_TESTS_SYSTEM_KIT_SCRATCH_H
#define BW_TESTS_SYSTEM_KIT_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH_MAX 256

/* TMPDIR or /tmp; TMPDIR chooses the file system under test. */
static inline void scratch_make(char dir[SCRATCH_MAX])
{
    const char *base = getenv("TMPDIR");
    snprintf(dir, SCRATCH_MAX, "%.200s/bellwether-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        exit(1);
    }
}

static inline int scratch_unlink(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void scratch_remove(const char *dir)
{
    nftw(dir, scratch_unlink, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

#endif
