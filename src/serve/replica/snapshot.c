/* When the registry is written to disk, and how it is found at the next start. It is written by a
 * forked copy of the process, so that nobody waits. */
#include "core/base/error.h"
#include "serve/crash.h"
#include "serve/replica/snapshot_file.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A snapshot is worth its cost when so much log lies behind it. */
#define LOG_BYTES   BW_CRASH_OR((size_t)48 << 20, (size_t)1 << 20)
#define LOG_ENTRIES BW_CRASH_OR(100000u, 40u)
/* Terms are counted too: Raft keeps a bounded list of them, and takes part in no election when it
 * is full. */
#define LOG_TERMS   BW_CRASH_OR(BW_RAFT_TERM_RUNS_MAX / 2, 8u)
#define LOG_CHANGES (BW_RAFT_CHANGES_MAX / 2) /* of the members, likewise */
/* After one that could not be written: not at once again. */
#define SAVE_AGAIN (5 * BW_SEC)

static void on_saved(struct bw_replica *r, bool good)
{
    bw_index index = r->saving_index;
    if (!good) {
        fprintf(
            stderr,
            "bellwether: cannot write a snapshot in %s; the log grows until one can be written\n",
            r->options.directory);
        r->save_not_before = replica_now() + SAVE_AGAIN;
        return;
    }
    if (index <= r->snapshot_index)
        return; /* one from the leader came meanwhile */
    BW_CRASH("snapshot.saved.before-record");
    bw_wal_snapshot(r->wal, index, r->saving_term);
    struct bw_event event = {.kind = BW_EVENT_COMMAND,
                             .command = {.kind = BW_COMMAND_COMPACT, .index = index}};
    replica_step(r, &event);
    if (bw_raft_snapshot_index(r->raft) != index) { /* its log is not yet durable so far */
        r->save_not_before = replica_now() + SAVE_AGAIN;
        return;
    }
    r->snapshot_index = index;
    r->snapshot_term = r->saving_term;
    BW_CRASH("snapshot.saved.before-drop");
    bw_wal_drop(r->wal, index);
    bw_snapshot_drop_older(r->options.directory, index);
    BW_CRASH("snapshot.saved.after-drop");
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct bw_replica *r = handle->data;
    r->saver_pipe_open = false;
    replica_release(r);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char bytes[16];
    (void)handle;
    (void)suggested;
    *out = uv_buf_init(bytes, sizeof bytes);
}

/* The writer's end of the pipe closes when it is done, however it ends. */
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
                                      .index = r->session.applied,
                                      .term = r->applied_term,
                                      .roster = r->members.applied};
    head->members = bw_raft_members_at(r->raft, r->session.applied, head->member, &head->voters);
}

static bool is_due(const struct bw_replica *r)
{
    bool much = r->log.bytes > LOG_BYTES || r->session.applied > r->snapshot_index + LOG_ENTRIES ||
                bw_raft_terms(r->raft) > LOG_TERMS || bw_raft_changes(r->raft) > LOG_CHANGES;
    return much && !r->saver && !r->saver_pipe_open && !r->closing &&
           r->session.applied > r->snapshot_index && replica_now() >= r->save_not_before;
}

/* The forked copy. It ends with the node, whose lock it holds until then, and keeps none of its
 * connections open: peers and clients must see at once that the node is gone. */
static void be_the_copy(const struct bw_replica *r, pid_t node, int pipe_end)
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
}

static _Noreturn void save(const struct bw_replica *r, const struct bw_snapshot_head *head,
                           pid_t node, int pipe_end)
{
    be_the_copy(r, node, pipe_end);
    _exit(bw_snapshot_write(r->options.directory, head, r->session.registry) == 0 ? 0 : 1);
}

void replica_snapshot_consider(struct bw_replica *r)
{
    int ends[2];
    struct bw_snapshot_head head;
    if (!is_due(r) || pipe(ends) != 0)
        return;
    describe(r, &head);
    pid_t node = getpid(), pid = fork();
    if (pid == 0)
        save(r, &head, node, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
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
    uv_read_start((uv_stream_t *)&r->saver_pipe, on_room, on_pipe);
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
        be_the_copy(r, node, ends[1]);
        _exit(bw_snapshot_stream(ends[1], &head, r->session.registry) == 0 ? 0 : 1);
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

int replica_snapshot_find(struct bw_replica *r, char *why)
{
    struct bw_snapshot_head head;
    int error =
        bw_snapshot_read(r->options.directory, r->options.cluster, &head, r->session.registry, why);
    if (error || head.index == 0)
        return error;
    r->snapshot_index = r->session.applied = r->commit = head.index;
    r->snapshot_term = r->applied_term = head.term;
    r->saved_voters = head.voters;
    r->saved_members = head.members;
    memcpy(r->saved_member, head.member, sizeof head.member);
    if (head.roster.count)
        bw_membership_load(&r->members, &head.roster);
    bw_log_restart(&r->log, head.index);
    return 0;
}
