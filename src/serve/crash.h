/* Named points at which a test ends the node as a crash would: before, behind and in the middle of
 * whatever it writes. In every ordinary build they are nothing at all. A program compiled with
 * BW_CRASH_POINTS (tests/system/serve/crash.c says how one is chosen) has them, and makes segments
 * and snapshots early enough for a test to meet them. */
#ifndef BW_SERVE_CRASH_H
#define BW_SERVE_CRASH_H

#ifdef BW_CRASH_POINTS
#include <stddef.h>

/* Ends the process here if this point was chosen. */
void bw_crash_point(const char *name);
/* The same in the middle of a write: the first half of it is done, or all but the first. */
void bw_crash_torn(const char *name, int fd, const void *bytes, size_t length, long long at);
void bw_crash_hole(const char *name, int fd, const void *bytes, size_t length, long long at);

#define BW_CRASH(name)                             bw_crash_point(name)
#define BW_CRASH_TORN(name, fd, bytes, length, at) bw_crash_torn(name, fd, bytes, length, at)
#define BW_CRASH_HOLE(name, fd, bytes, length, at) bw_crash_hole(name, fd, bytes, length, at)
#define BW_CRASH_OR(ordinary, early)               (early)
#else
#define BW_CRASH(name)                             ((void)0)
#define BW_CRASH_TORN(name, fd, bytes, length, at) ((void)0)
#define BW_CRASH_HOLE(name, fd, bytes, length, at) ((void)0)
#define BW_CRASH_OR(ordinary, early)               (ordinary)
#endif

#endif
