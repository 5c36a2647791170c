/* Crash points: named places in the code at which a test can end the node: before, after and in the
 * middle of each write to disk.
 *
 * In an ordinary build they compile to nothing. A program compiled with BW_CRASH_POINTS has them;
 * tests/system/serve/crash.c chooses the point. Such a program also starts new segments and
 * snapshots early, so that a short test reaches every point. */
#ifndef BW_OS_CRASH_H
#define BW_OS_CRASH_H

#ifdef BW_CRASH_POINTS
#include <stddef.h>

/* Ends the process here if the test chose this point. */
void bw_crash_point(const char *name);
/* Like bw_crash_point, for the point named "`file`.`step`". Does nothing if `file` is NULL. */
void bw_crash_step(const char *file, const char *step);
/* Both end the process in the middle of a write if the test chose this point. bw_crash_torn has
 * then written only the first half of `bytes`, bw_crash_hole everything except the first half. */
void bw_crash_torn(const char *name, int fd, const void *bytes, size_t length, long long at);
void bw_crash_hole(const char *name, int fd, const void *bytes, size_t length, long long at);

#define BW_CRASH(name)                             bw_crash_point(name)
#define BW_CRASH_FILE(file)                        (file)
#define BW_CRASH_STEP(file, step)                  bw_crash_step(file, step)
#define BW_CRASH_TORN(name, fd, bytes, length, at) bw_crash_torn(name, fd, bytes, length, at)
#define BW_CRASH_HOLE(name, fd, bytes, length, at) bw_crash_hole(name, fd, bytes, length, at)
#define BW_CRASH_OR(ordinary, early)               (early)
#else
#define BW_CRASH(name)                             ((void)0)
#define BW_CRASH_FILE(file)                        NULL
#define BW_CRASH_STEP(file, step)                  ((void)0)
#define BW_CRASH_TORN(name, fd, bytes, length, at) ((void)0)
#define BW_CRASH_HOLE(name, fd, bytes, length, at) ((void)0)
#define BW_CRASH_OR(ordinary, early)               (ordinary)
#endif

#endif
