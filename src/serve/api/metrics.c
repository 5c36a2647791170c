/* See metrics.h. */
#include "serve/api/metrics.h"

#include "serve/front/state.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct figure {
    const char *name, *type, *help;
    double value;
};

static void put(struct bw_json_text *text, const struct figure *figure)
{
    char line[320];
    snprintf(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", figure->name,
             figure->help, figure->name, figure->type, figure->name, figure->value);
    bw_json_put(text, line);
}

static void put_all(struct bw_json_text *text, const struct figure *figures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(text, &figures[i]);
}

/* Of etcd, as clients find it. */
static void put_version(struct bw_json_text *text)
{
    bw_json_put(text, "# HELP etcd_server_version Which version of etcd's interface this is.\n"
                      "# TYPE etcd_server_version gauge\n"
                      "etcd_server_version{server_version=\"" BW_API_VERSION "\"} 1\n");
}

static void put_replica(struct bw_json_text *text, struct bw_service *service)
{
    struct bw_replica_status s;
    bw_replica_status(bw_service_replica(service), &s);
    const struct figure figures[] = {
        {"etcd_server_has_leader", "gauge", "1: somebody leads.", s.leader != BW_NODE_NONE},
        {"etcd_server_is_leader", "gauge", "1: this node leads.", s.leading},
        {"etcd_server_leader_changes_seen_total", "counter", "Changes of leader seen.",
         (double)s.leader_changes},
        {"etcd_server_proposals_committed_total", "counter", "Entries of the log that are decided.",
         (double)s.commit},
        {"etcd_server_proposals_applied_total", "counter", "Entries of the log that are applied.",
         (double)s.applied},
        {"etcd_server_proposals_failed_total", "counter", "Changes that were not decided in time.",
         (double)s.proposals_failed},
        {"etcd_server_proposals_pending", "gauge", "Requests that wait for the cluster.",
         bw_service_waiting(service)},
        {"bellwether_raft_term", "gauge", "The term.", (double)s.term},
        {"bellwether_protocol_level", "gauge",
         "The version of the protocol that all members speak.", s.level},
        {"bellwether_life", "gauge", "Which of its lives this node lives, as the log tells.",
         s.life},
        {"bellwether_log_bytes", "gauge", "The log on disk.", (double)s.log_bytes}};
    put_all(text, figures, sizeof figures / sizeof figures[0]);
}

static void put_registry(struct bw_json_text *text, const struct bw_front *front)
{
    struct bw_service *service = front->options.service;
    struct bw_registry_status s;
    bw_registry_status(bw_service_registry(service), &s);
    const struct figure figures[] = {
        {"etcd_debugging_mvcc_keys_total", "gauge", "Keys.", (double)s.keys},
        {"etcd_debugging_mvcc_watcher_total", "gauge", "Watchers.",
         bw_watches_count(bw_service_watches(service))},
        {"etcd_debugging_mvcc_current_revision", "gauge", "The revision.", (double)s.revision},
        {"etcd_debugging_mvcc_compact_revision", "gauge", "The oldest revision that is kept whole.",
         (double)s.floor},
        {"bellwether_leases", "gauge", "Leases.", (double)s.leases},
        {"bellwether_content_bytes", "gauge", "Keys, leases and history.", (double)s.bytes},
        {"bellwether_connections", "gauge", "Connections of clients.", front->count}};
    put_all(text, figures, sizeof figures / sizeof figures[0]);
}

static double open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    double count = -3; /* ".", ".." and the one that looks */
    if (!directory)
        return 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static double resident_bytes(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Since the epoch: the boot's, and the tick of field 22 behind it. */
static double started_at(void)
{
    struct timespec real, boot;
    unsigned long long ticks = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    if (file && fscanf(file,
                       "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                       "%*d %*d %*d %*d %llu",
                       &ticks) != 1)
        ticks = 0;
    if (file)
        fclose(file);
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    return (double)(real.tv_sec - boot.tv_sec) + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static void put_process(struct bw_json_text *text)
{
    struct rusage usage = {0};
    struct rlimit files = {0};
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &files);
    const struct figure figures[] = {
        {"process_cpu_seconds_total", "counter", "CPU time.",
         (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6},
        {"process_resident_memory_bytes", "gauge", "Memory that is resident.", resident_bytes()},
        {"process_open_fds", "gauge", "Files open.", open_files()},
        {"process_max_fds", "gauge", "Files that may be open.", (double)files.rlim_cur},
        {"process_start_time_seconds", "gauge", "Start, since the epoch.", started_at()}};
    put_all(text, figures, sizeof figures / sizeof figures[0]);
}

void bw_metrics_write(struct bw_json_text *text, const struct bw_front *front)
{
    put_version(text);
    put_replica(text, front->options.service);
    put_registry(text, front);
    put_process(text);
}
