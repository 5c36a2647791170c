/* See metrics.h. */
#include "serve/front/metrics.h"

#include "core/registry/alarm.h"
#include "serve/front/state.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef BW_VERSION
#define BW_VERSION "unknown" /* a build without Meson's project version */
#endif

struct metric {
    const char *name, *type, *help;
    double value;
};

static void put(struct bw_json_text *text, const struct metric *metric)
{
    char line[320];
    snprintf(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", metric->name,
             metric->help, metric->name, metric->type, metric->name, metric->value);
    bw_json_put(text, line);
}

static void put_all(struct bw_json_text *text, const struct metric *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(text, &metrics[i]);
}

static void put_head(struct bw_json_text *text, const char *name, const char *type,
                     const char *help)
{
    char line[320];
    snprintf(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    bw_json_put(text, line);
}

/* `labels` are those of the series, for example To="2", or empty. */
static void put_series(struct bw_json_text *text, const char *name, const char *labels,
                       double value)
{
    char line[400];
    snprintf(line, sizeof line, "%s{%s} %.17g\n", name, labels, value);
    bw_json_put(text, line);
}

static void put_histogram(struct bw_json_text *text, const char *name, const char *labels,
                          const struct bw_histogram_bounds *bounds,
                          const struct bw_histogram *histogram)
{
    char line[400];
    const char *comma = labels[0] ? "," : "";
    uint64_t below = 0;
    for (uint32_t i = 0; i < bounds->count; i++) {
        below += histogram->within[i];
        snprintf(line, sizeof line, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", name, labels, comma,
                 (double)bounds->at[i] / 1e9, below);
        bw_json_put(text, line);
    }
    snprintf(line, sizeof line, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma,
             histogram->count);
    bw_json_put(text, line);
    const char *open = labels[0] ? "{" : "", *close = labels[0] ? "}" : "";
    snprintf(line, sizeof line, "%s_sum%s%s%s %.9f\n%s_count%s%s%s %" PRIu64 "\n", name, open,
             labels, close, (double)histogram->sum_ns / 1e9, name, open, labels, close,
             histogram->count);
    bw_json_put(text, line);
}

/* The version of the program, and that of etcd's API that clients see. */
static void put_version(struct bw_json_text *text)
{
    bw_json_put(text, "# HELP bellwether_build_info Version of bellwether\n"
                      "# TYPE bellwether_build_info gauge\n"
                      "bellwether_build_info{version=\"" BW_VERSION "\"} 1\n"
                      "# HELP etcd_server_version Version of etcd's API.\n"
                      "# TYPE etcd_server_version gauge\n"
                      "etcd_server_version{server_version=\"" BW_API_VERSION "\"} 1\n"
                      "# HELP etcd_cluster_version Version of etcd's API in the cluster.\n"
                      "# TYPE etcd_cluster_version gauge\n"
                      "etcd_cluster_version{cluster_version=\"" BW_API_CLUSTER_MINOR "\"} 1\n");
}

static void put_replica(struct bw_json_text *text, struct bw_service *service)
{
    struct bw_replica_status s;
    bw_replica_status(bw_service_replica(service), &s);
    const struct metric metrics[] = {
        {"etcd_server_has_leader", "gauge", "1 if there is a leader.", s.leader != BW_NODE_NONE},
        {"etcd_server_is_learner", "gauge", "1 if this node is a learner.",
         !bw_replica_is_voter(bw_service_replica(service))},
        {"etcd_server_quota_backend_bytes", "gauge", "Quota of the content (--quota-bytes).",
         (double)bw_service_quota(service)},
        {"etcd_server_is_leader", "gauge", "1 if this node is the leader.", s.leading},
        {"etcd_server_leader_changes_seen_total", "counter", "Leader changes seen.",
         (double)s.leader_changes},
        {"etcd_server_proposals_committed_total", "counter", "Committed log entries.",
         (double)s.commit},
        {"etcd_server_proposals_applied_total", "counter", "Applied log entries.",
         (double)s.applied},
        {"etcd_server_proposals_failed_total", "counter",
         "Proposals that were not committed in time.", (double)s.proposals_failed},
        {"etcd_server_proposals_pending", "gauge", "Requests waiting for the cluster.",
         bw_service_waiting(service)},
        {"bellwether_raft_term", "gauge", "Current Raft term.", (double)s.term},
        {"bellwether_protocol_level", "gauge", "Protocol version that all members support.",
         s.level},
        {"bellwether_incarnation", "gauge", "Incarnation of this node according to the log.",
         s.incarnation},
        {"bellwether_log_bytes", "gauge", "Size of the log on disk.", (double)s.log_bytes}};
    put_all(text, metrics, sizeof metrics / sizeof metrics[0]);
}

static void put_registry(struct bw_json_text *text, const struct bw_front *front)
{
    struct bw_service *service = front->options.service;
    struct bw_registry_status s;
    bw_registry_status(bw_service_registry(service), &s);
    const struct metric metrics[] = {
        {"etcd_mvcc_db_total_size_in_bytes", "gauge", "Size of keys, leases and history.",
         (double)s.bytes},
        {"etcd_mvcc_db_total_size_in_use_in_bytes", "gauge", "The same: nothing is fragmented.",
         (double)s.bytes},
        {"etcd_debugging_mvcc_db_total_size_in_bytes", "gauge",
         "The same, under its name in etcd 3.3.", (double)s.bytes},
        {"etcd_network_client_grpc_received_bytes_total", "counter", "Bytes received from clients.",
         (double)front->received},
        {"etcd_network_client_grpc_sent_bytes_total", "counter", "Bytes sent to clients.",
         (double)front->sent},
        {"bellwether_alarms", "gauge", "Number of nodes with the alarm NOSPACE.",
         bw_registry_alarms(bw_service_registry(service))->count},
        {"bellwether_history_bytes", "gauge", "Size of replaced and deleted versions and events.",
         (double)s.history_bytes},
        {"etcd_debugging_mvcc_keys_total", "gauge", "Number of keys.", (double)s.keys},
        {"etcd_debugging_mvcc_watcher_total", "gauge", "Number of watchers.",
         bw_watches_count(bw_service_watches(service))},
        {"etcd_debugging_mvcc_current_revision", "gauge", "Current revision.", (double)s.revision},
        {"etcd_debugging_mvcc_compact_revision", "gauge", "Oldest revision with complete history.",
         (double)s.floor},
        {"bellwether_leases", "gauge", "Number of leases.", (double)s.leases},
        {"bellwether_content_bytes", "gauge", "Size of keys, leases and history.", (double)s.bytes},
        {"bellwether_connections", "gauge", "Number of client connections.", front->count}};
    put_all(text, metrics, sizeof metrics / sizeof metrics[0]);
}

static void put_disk(struct bw_json_text *text, const struct bw_replica_figures *figures)
{
    static const char sync[] = "etcd_disk_wal_fsync_duration_seconds",
                      commit[] = "etcd_disk_backend_commit_duration_seconds";
    put_head(text, sync, "histogram", "Durations of syncs of the log.");
    put_histogram(text, sync, "", &bw_bounds_disk, &figures->syncs);
    put_head(text, commit, "histogram", "Durations of applying batches of committed entries.");
    put_histogram(text, commit, "", &bw_bounds_disk, &figures->applies);
}

struct peer_counter {
    const char *name, *label, *help;
    size_t offset; /* in struct bw_replica_peer_figures */
};

static void put_counter(struct bw_json_text *text, const struct bw_replica_figures *figures,
                        const struct peer_counter *counter)
{
    char labels[48];
    if (figures->peers)
        put_head(text, counter->name, "counter", counter->help);
    for (uint32_t i = 0; i < figures->peers; i++) {
        const struct bw_replica_peer_figures *peer = &figures->peer[i];
        snprintf(labels, sizeof labels, "%s=\"%x\"", counter->label, peer->node);
        put_series(text, counter->name, labels,
                   (double)*(const uint64_t *)((const char *)peer + counter->offset));
    }
}

static void put_peers(struct bw_json_text *text, const struct bw_replica_figures *figures)
{
    static const char rtt[] = "etcd_network_peer_round_trip_time_seconds";
    static const struct peer_counter counters[] = {
        {"etcd_network_peer_sent_bytes_total", "To", "Bytes sent to other nodes.",
         offsetof(struct bw_replica_peer_figures, sent)},
        {"etcd_network_peer_received_bytes_total", "From", "Bytes received from other nodes.",
         offsetof(struct bw_replica_peer_figures, received)},
        {"etcd_network_peer_sent_failures_total", "To", "Messages that could not be sent.",
         offsetof(struct bw_replica_peer_figures, unsent)}};
    char labels[48];
    if (figures->peers)
        put_head(text, rtt, "histogram", "Round-trip times to other nodes.");
    for (uint32_t i = 0; i < figures->peers; i++) {
        snprintf(labels, sizeof labels, "To=\"%x\"", figures->peer[i].node);
        put_histogram(text, rtt, labels, &bw_bounds_peer, &figures->peer[i].round_trips);
    }
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        put_counter(text, figures, &counters[i]);
}

/* The labels of go-grpc-prometheus, from a path like "/etcdserverpb.KV/Range". */
static void label_method(const struct bw_method *method, char *labels, size_t size)
{
    static const char *const types[] = {[BW_UNARY] = "unary",
                                        [BW_SERVER_STREAM] = "server_stream",
                                        [BW_BIDI_STREAM] = "bidi_stream"};
    const char *service = method->path + 1, *slash = strchr(service, '/');
    snprintf(labels, size, "grpc_method=\"%s\",grpc_service=\"%.*s\",grpc_type=\"%s\"", slash + 1,
             (int)(slash - service), service, types[method->arity]);
}

/* A method that was called has a series for each code. Otherwise rate() would miss the first
 * failure, and a panel of failures would show no data before it. */
static void put_handled(struct bw_json_text *text, const struct bw_call_figures *figures,
                        const char *labels)
{
    static const char *const codes[BW_CODES] = {
        "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
        "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
        "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
        "DataLoss", "Unauthenticated"};
    char with_code[320];
    for (uint32_t code = 0; code < BW_CODES; code++) {
        if (code != BW_CODE_OK && figures->handled[code] == 0 && figures->started == 0)
            continue;
        snprintf(with_code, sizeof with_code, "grpc_code=\"%s\",%s", codes[code], labels);
        put_series(text, "grpc_server_handled_total", with_code, (double)figures->handled[code]);
    }
}

/* Calls of the JSON gateway count as calls of their method, as in etcd. */
static void put_calls(struct bw_json_text *text, struct bw_service *service)
{
    static const char started[] = "grpc_server_started_total",
                      seconds[] = "grpc_server_handling_seconds";
    const struct bw_call_figures *figures = bw_service_figures(service);
    char labels[256];
    if (!figures)
        return;
    put_head(text, started, "counter", "Calls started.");
    for (size_t i = 0; bw_methods[i].path; i++) {
        label_method(&bw_methods[i], labels, sizeof labels);
        put_series(text, started, labels, (double)figures[i].started);
    }
    put_head(text, "grpc_server_handled_total", "counter", "Calls ended, by status.");
    for (size_t i = 0; bw_methods[i].path; i++) {
        label_method(&bw_methods[i], labels, sizeof labels);
        put_handled(text, &figures[i], labels);
    }
    put_head(text, seconds, "histogram", "Durations of calls, of methods that were called.");
    for (size_t i = 0; bw_methods[i].path; i++) {
        label_method(&bw_methods[i], labels, sizeof labels);
        if (figures[i].seconds.count)
            put_histogram(text, seconds, labels, &bw_bounds_call, &figures[i].seconds);
    }
}

static double open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    double count = -3; /* ".", ".." and the directory itself */
    if (!directory)
        return 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void memory_bytes(double *virtual, double *resident)
{
    unsigned long pages[2] = {0, 0};
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%lu %lu", &pages[0], &pages[1]) != 2)
        pages[0] = pages[1] = 0;
    if (file)
        fclose(file);
    *virtual = (double)pages[0] * (double)sysconf(_SC_PAGESIZE);
    *resident = (double)pages[1] * (double)sysconf(_SC_PAGESIZE);
}

/* Seconds since the epoch: the boot time plus the start tick (field 22 of /proc/self/stat). */
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
    double virtual, resident;
    memory_bytes(&virtual, &resident);
    const struct metric metrics[] = {
        {"process_cpu_seconds_total", "counter", "CPU time.",
         (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6},
        {"process_resident_memory_bytes", "gauge", "Resident memory.", resident},
        {"process_virtual_memory_bytes", "gauge",
         "Address space; most of it is reserved and has no memory.", virtual},
        {"process_open_fds", "gauge", "Open file descriptors.", open_files()},
        {"process_max_fds", "gauge", "Limit of open file descriptors.", (double)files.rlim_cur},
        {"process_start_time_seconds", "gauge", "Start time in seconds since the epoch.",
         started_at()}};
    put_all(text, metrics, sizeof metrics / sizeof metrics[0]);
}

void bw_metrics_write(struct bw_json_text *text, const struct bw_front *front)
{
    put_version(text);
    put_replica(text, front->options.service);
    put_registry(text, front);
    struct bw_replica_figures figures;
    bw_replica_figures(bw_service_replica(front->options.service), &figures);
    put_disk(text, &figures);
    put_peers(text, &figures);
    put_calls(text, front->options.service);
    put_process(text);
}
