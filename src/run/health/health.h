/* Is this candidate fit to lead? What can be looked at without asking anybody: memory, disk space,
 * and whether the work makes progress. */
#ifndef BW_RUN_HEALTH_H
#define BW_RUN_HEALTH_H

#include "core/base/types.h"

struct bw_health_limits {
    uint64_t memory_bytes;      /* available memory at least; 0: any */
    uint64_t disk_bytes;        /* free for us on `disk_path` at least; 0: any */
    const char *disk_path;      /* NULL: the working directory */
    const char *progress_file;  /* touched by the work; NULL: none */
    bw_time progress_within_ns; /* at least this often while it runs */
};

/* What was last seen of the progress file. */
struct bw_health_progress {
    int64_t stamp_ns;
    uint64_t size;
    bw_time since; /* own clock: when that was new */
};

/* The work has just started. */
void bw_health_begin(struct bw_health_progress *progress, bw_time now);

/* Returns true, or false with a sentence. `works`: the work runs, so its progress counts. The
 * file's time is only compared with itself: a change is progress, whatever it says. */
bool bw_health_look(const struct bw_health_limits *limits, struct bw_health_progress *progress,
                    bool works, bw_time now, char *why, unsigned size);

#endif
