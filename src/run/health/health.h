/* Local health checks, which need no other process: memory, disk space, and progress of the
 * work. */
#ifndef BW_RUN_HEALTH_HEALTH_H
#define BW_RUN_HEALTH_HEALTH_H

#include "core/base/types.h"

struct bw_health_limits {
    uint64_t memory_bytes;     /* required available memory; 0: not checked */
    uint64_t disk_bytes;       /* required free space on `disk_path`; 0: not checked */
    const char *disk_path;     /* NULL: the working directory */
    const char *progress_file; /* file that the work touches; NULL: not checked */
    /* maximum time between two changes of progress_file while the work runs */
    bw_time progress_within_ns;
};

/* The last observed state of the progress file. */
struct bw_health_progress {
    int64_t stamp_ns;
    uint64_t size;
    bw_time since; /* own clock: when that state was first seen */
};

/* Forgets the last state of the progress file. Call it when the work starts. */
void bw_health_begin(struct bw_health_progress *progress, bw_time now);

/* Returns true, or false with a sentence in `why`. `works`: the work runs, so its progress is
 * checked. Any change of the progress file counts; its time stamp is not compared with a clock. */
bool bw_health_check(const struct bw_health_limits *limits, struct bw_health_progress *progress,
                     bool works, bw_time now, char *why, unsigned size);

#endif
