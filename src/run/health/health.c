/* Checks memory, disk space and progress, see health.h. */
#include "run/health/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static bool memory_left(uint64_t *out)
{
    char line[128];
    unsigned long long kb;
    bool found = false;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && !found && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) {
            *out = kb * 1024;
            found = true;
        }
    if (file)
        fclose(file);
    return found;
}

static bool check_memory(const struct bw_health_limits *limits, char *why, unsigned size)
{
    uint64_t left = 0;
    if (limits->memory_bytes == 0 || !memory_left(&left) || left >= limits->memory_bytes)
        return true;
    snprintf(why, size, "only %llu MB of memory are available, %llu MB are required",
             (unsigned long long)(left >> 20), (unsigned long long)(limits->memory_bytes >> 20));
    return false;
}

static bool check_disk(const struct bw_health_limits *limits, char *why, unsigned size)
{
    struct statvfs fs;
    const char *path = limits->disk_path ? limits->disk_path : ".";
    if (limits->disk_bytes == 0)
        return true;
    if (statvfs(path, &fs) != 0) {
        snprintf(why, size, "cannot read the free space of %.100s: %s", path, strerror(errno));
        return false;
    }
    uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left >= limits->disk_bytes)
        return true;
    snprintf(why, size, "only %llu MB are free on %.100s, %llu MB are required",
             (unsigned long long)(left >> 20), path,
             (unsigned long long)(limits->disk_bytes >> 20));
    return false;
}

void bw_health_begin(struct bw_health_progress *progress, bw_time now)
{
    *progress = (struct bw_health_progress){.since = now};
}

static bool check_progress(const struct bw_health_limits *limits,
                           struct bw_health_progress *progress, bw_time now, char *why,
                           unsigned size)
{
    struct stat st;
    if (stat(limits->progress_file, &st) == 0) {
        int64_t stamp = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        if (stamp != progress->stamp_ns || (uint64_t)st.st_size != progress->size) {
            progress->stamp_ns = stamp;
            progress->size = (uint64_t)st.st_size;
            progress->since = now;
        }
    }
    if (now - progress->since < limits->progress_within_ns)
        return true;
    snprintf(why, size, "the work runs but makes no progress: %.100s has not changed for %lld ms",
             limits->progress_file, (long long)((now - progress->since) / BW_MS));
    return false;
}

bool bw_health_check(const struct bw_health_limits *limits, struct bw_health_progress *progress,
                     bool works, bw_time now, char *why, unsigned size)
{
    if (!check_memory(limits, why, size) || !check_disk(limits, why, size))
        return false;
    return !works || !limits->progress_file || check_progress(limits, progress, now, why, size);
}
