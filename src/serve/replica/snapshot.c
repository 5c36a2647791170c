/* Decides when to write the registry to disk, and loads it at the next start. A forked copy of the
 * process writes it, so that the node never waits.
 *
 * A snapshot costs as much as the whole state, so it is due when the log is as large as the last
 * snapshot. The cost per byte of the log is then constant, whatever the size of the state, and the
 * log takes at most as much memory as the state. A small state has a minimum (LOG_BYTES).
 *
 * A leader keeps the entries that the snapshot covers until every follower that responds has them.
 * Otherwise a follower that is a few entries behind would need the whole snapshot. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "os/clock.h"
#include "os/crash.h"
#include "os/journal.h"
#include "serve/replica/snapshot_file.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A log of this size is worth the cost of a snapshot of a small state. */
#define LOG_BYTES   BW_CRASH_OR((size_t)48 << 20, (size_t)1 << 20)
#define LOG_ENTRIES BW_CRASH_OR(100000u, 40u)
/* An entry costs at least this much memory and time, however short it is. */
#define ENTRY_COST BW_CRASH_OR(512u, 1u << 20)
/* The number of terms counts too: Raft keeps a bounded list of them, and joins no election when the
 * list is full. */
#define LOG_TERMS   BW_CRASH_OR(BW_RAFT_TERM_RUNS_MAX / 2, 8u)
#define LOG_CHANGES (BW_RAFT_CHANGES_MAX / 2) /* membership changes, likewise */
/* A snapshot that is larger than twice the content by this much is replaced, so that a compaction
 * gives disk space back. */
#define SHRUNK_BYTES BW_CRASH_OR((uint64_t)64 << 20, (uint64_t)1 << 20)
/* Delay after a snapshot that could not be written. */
#define SAVE_RETRY (5 * BW_SEC)
#define COPY_NICE  10

/* Size of the snapshot at r->snapshot_index; 0: none. */
static void measure_snapshot(struct bw_replica *r)
{
    char path[4352];
    struct stat found;
    bw_snapshot_name(path, sizeof path, r->options.directory, r->snapshot_index);
    r->snapshot_bytes = stat(path, &found) == 0 ? (size_t)found.st_size : 0;
}

/* Returns true if this node leads and a follower that responds lacks entries up to `index`. */
static bool followers_lack(const struct bw_replica *r, bw_index index)
{
    bw_node ids[BW_RAFT_MEMBERS_MAX];
    uint32_t voters, count = bw_raft_members_at(r->raft, r->router.applied, ids, &voters);
    bw_time now = bw_clock_boot();
    for (uint32_t i = 0; i < count && r->router.leading; i++)
        if (ids[i] != r->options.self && bw_raft_match(r->raft, ids[i]) < index &&
            bw_raft_is_responsive(r->raft, ids[i], now))
            return true;
    return false;
}

static bool is_log_large(const struct bw_replica *r, size_t times)
{
    bool by_size = r->snapshot_bytes > LOG_BYTES && !BW_BUG(snapshot_ignores_the_size);
    size_t bytes = by_size ? r->snapshot_bytes : LOG_BYTES;
    size_t entries = r->snapshot_bytes / ENTRY_COST;
    entries = entries > LOG_ENTRIES ? entries : LOG_ENTRIES;
    return r->log.bytes > times * bytes || r->log.count > times * entries;
}

/* The snapshot that was saved last replaces the log up to its index. */
static void compact_log(struct bw_replica *r)
{
    bw_index index = r->saved_index;
    struct bw_event event = {.kind = BW_EVENT_COMMAND,
                             .command = {.kind = BW_COMMAND_COMPACT, .index = index}};
    r->saved_index = 0;
    if (index <= r->snapshot_index) { /* a snapshot from the leader arrived meanwhile */
        replica_remove_old(r);
        return;
    }
    BW_CRASH("snapshot.saved.before-record");
    bw_wal_snapshot(r->wal, index, r->saving_term);
    replica_step(r, &event);
    if (bw_raft_snapshot_index(r->raft) != index) { /* the log is not durable up to there yet */
        r->save_not_before = bw_clock_boot() + SAVE_RETRY;
        return;
    }
    r->snapshot_index = index;
    r->snapshot_term = r->saving_term;
    measure_snapshot(r);
    BW_CRASH("snapshot.saved.before-drop");
    bw_wal_drop(r->wal, index);
    replica_remove_old(r);
    BW_CRASH("snapshot.saved.after-drop");
}

void replica_compact_when_possible(struct bw_replica *r)
{
    if (r->saved_index && (!followers_lack(r, r->saved_index) || is_log_large(r, 2)))
        compact_log(r);
}

static void on_saved(struct bw_replica *r, bool good)
{
    if (!good) {
        bw_print_line(
            BW_PRIORITY_ERROR,
            "bellwether: cannot write a snapshot in %s; the log grows until one can be written",
            r->options.directory);
        r->save_not_before = bw_clock_boot() + SAVE_RETRY;
        return;
    }
    r->saved_index = r->saving_index;
    replica_compact_when_possible(r);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct bw_replica *r = handle->data;
    r->saver_pipe_open = false;
    replica_release(r);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char bytes[16];
    (void)handle;
    (void)suggested;
    *out = uv_buf_init(bytes, sizeof bytes);
}

/* The writer's end of the pipe closes when the writer ends, however it ends. */
static void on_pipe(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct bw_replica *r = stream->data;
    int status = -1;
    (void)buffer;
    if (count >= 0)
        return;
    uv_close((uv_handle_t *)stream, on_pipe_closed);
    while (waitpid(r->saver, &status, 0) < 0 && errno == EINTR)
        ;
    r->saver = 0;
    on_saved(r, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void describe(const struct bw_replica *r, struct bw_snapshot_head *head)
{
    *head = (struct bw_snapshot_head){.cluster = r->options.cluster,
                                      .index = r->router.applied,
                                      .term = r->applied_term,
                                      .member_list = r->members.applied};
    head->members = bw_raft_members_at(r->raft, r->router.applied, head->member, &head->voters);
}

static bool has_shrunk(const struct bw_replica *r)
{
    struct bw_registry_status status;
    bw_registry_status(r->router.registry, &status);
    return r->snapshot_bytes > 2 * status.bytes + SHRUNK_BYTES;
}

static bool is_due(const struct bw_replica *r)
{
    bool much = is_log_large(r, 1) || has_shrunk(r) || bw_raft_terms(r->raft) > LOG_TERMS ||
                bw_raft_changes(r->raft) > LOG_CHANGES;
    return much && !r->saver && !r->saver_pipe_open && !r->closing && !r->saved_index &&
           r->router.applied > r->snapshot_index && bw_clock_boot() >= r->save_not_before;
}

/* Prepares the forked copy. It ends with the node, whose lock it holds until then. It closes the
 * node's connections: peers and clients must notice at once when the node dies. */
static void detach_copy(const struct bw_replica *r, pid_t node, int pipe_end)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != node)
        _exit(1);
    int low = pipe_end < r->lock_fd ? pipe_end : r->lock_fd;
    int high = pipe_end < r->lock_fd ? r->lock_fd : pipe_end;
    if (low > 3)
        close_range(3, (unsigned)low - 1, 0);
    if (high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)high + 1, ~0u, 0);
    setpriority(PRIO_PROCESS, 0, COPY_NICE); /* heartbeats do not wait for it */
}

static _Noreturn void save(const struct bw_replica *r, const struct bw_snapshot_head *head,
                           pid_t node, int pipe_end)
{
    detach_copy(r, node, pipe_end);
    _exit(bw_snapshot_write(r->options.directory, head, r->router.registry) == 0 ? 0 : 1);
}

void replica_snapshot_consider(struct bw_replica *r)
{
    int ends[2];
    struct bw_snapshot_head head;
    if (!is_due(r))
        return;
    if (pipe(ends) != 0) {
        r->save_not_before = bw_clock_boot() + SAVE_RETRY;
        return;
    }
    describe(r, &head);
    pid_t node = getpid(), pid = fork();
    if (pid == 0)
        save(r, &head, node, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        r->save_not_before = bw_clock_boot() + SAVE_RETRY;
        return;
    }
    r->saver = pid;
    r->saving_index = head.index;
    r->saving_term = head.term;
    uv_pipe_init(r->options.loop, &r->saver_pipe, 0);
    r->saver_pipe.data = r;
    r->saver_pipe_open = true;
    r->handles++;
    uv_pipe_open(&r->saver_pipe, ends[0]);
    uv_read_start((uv_stream_t *)&r->saver_pipe, on_alloc, on_pipe);
}

int bw_replica_backup(struct bw_replica *r, int *fd, pid_t *pid)
{
    int ends[2];
    static struct bw_snapshot_head head;
    pid_t node = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return BW_EIO;
    describe(r, &head);
    *pid = fork();
    if (*pid == 0) {
        detach_copy(r, node, ends[1]);
        _exit(bw_snapshot_stream(ends[1], &head, r->router.registry) == 0 ? 0 : 1);
    }
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return BW_EIO;
    }
    *fd = ends[0];
    return 0;
}

void replica_snapshot_stop(struct bw_replica *r)
{
    if (!r->saver_pipe_open)
        return;
    uv_close((uv_handle_t *)&r->saver_pipe, on_pipe_closed);
    while (waitpid(r->saver, NULL, 0) < 0 && errno == EINTR)
        ;
    r->saver = 0;
}

void replica_snapshot_adopt(struct bw_replica *r, const struct bw_snapshot_head *head)
{
    r->snapshot_index = r->router.applied = r->commit = head->index;
    r->snapshot_term = r->applied_term = head->term;
    r->saved_voters = head->voters;
    r->saved_members = head->members;
    memcpy(r->saved_member, head->member, sizeof head->member);
    if (head->member_list.count)
        bw_membership_load(&r->members, &head->member_list);
    bw_log_restart(&r->log, head->index);
    measure_snapshot(r);
}

int replica_snapshot_find(struct bw_replica *r, char *why)
{
    struct bw_snapshot_head head;
    int error =
        bw_snapshot_read(r->options.directory, r->options.cluster, &head, r->router.registry, why);
    if (!error && head.index)
        replica_snapshot_adopt(r, &head);
    return error;
}
