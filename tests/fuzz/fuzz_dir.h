/* A private directory for a harness that reads files: in memory if possible, created once and
 * removed when the program ends normally. */
#ifndef BW_TESTS_FUZZ_FUZZ_DIR_H
#define BW_TESTS_FUZZ_FUZZ_DIR_H

#include "core/base/assert.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fuzz_dir[64];

/* Call after every input. */
static inline void fuzz_dir_empty(void)
{
    DIR *dir = opendir(fuzz_dir);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

static inline void fuzz_dir_leave(void)
{
    fuzz_dir_empty();
    rmdir(fuzz_dir);
}

static inline void fuzz_dir_make(void)
{
    if (fuzz_dir[0])
        return;
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/bellwether-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    BW_ASSERT(mkdtemp(fuzz_dir));
    atexit(fuzz_dir_leave);
}

static inline void fuzz_dir_write(const char *name, const void *bytes, size_t length)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    BW_ASSERT(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    close(fd);
}

#endif
