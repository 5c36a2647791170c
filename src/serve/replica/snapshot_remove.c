/* Removes the files that a newer snapshot replaces, so that the directory holds little more than
 * the live data.
 *
 * A file is removed only when the name of the newer snapshot is durable; after a crash at any point
 * the newest snapshot is complete. What a crash leaves behind is removed at the next start. A pool
 * thread removes, because that takes time for a large file. */
#include "core/base/bug.h"
#include "os/crash.h"
#include "serve/replica/snapshot_file.h"
#include "serve/replica/state.h"

#include <stdio.h>
#include <unistd.h>

#define PATH_SIZE 4352u

/* A file to remove is renamed first, so that its old name can be used again at once. */
static const struct {
    const char *name, *unwanted;
} unfinished[] = {{BW_SNAPSHOT_NEXT, "snapshot-unwanted-next.tmp"},
                  {BW_SNAPSHOT_INCOMING, "snapshot-unwanted-incoming.tmp"}};
#define UNFINISHED (sizeof unfinished / sizeof unfinished[0])

static void path_of(const struct bw_replica *r, const char *name, char *path)
{
    snprintf(path, PATH_SIZE, "%s/%s", r->options.directory, name);
}

static void set_aside(const struct bw_replica *r, unsigned i)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    path_of(r, unfinished[i].name, from);
    path_of(r, unfinished[i].unwanted, to);
    rename(from, to);
}

/* Runs on a pool thread. */
static void carry_out(uv_work_t *work)
{
    const struct bw_replica *r = work->data;
    char path[PATH_SIZE];
    for (unsigned i = 0; i < UNFINISHED; i++) {
        path_of(r, unfinished[i].unwanted, path);
        unlink(path);
    }
    bw_snapshot_drop_older(r->options.directory, r->remover.below);
}

static void on_done(uv_work_t *work, int status)
{
    struct bw_replica *r = work->data;
    (void)status;
    r->remover.running = false;
    if (r->remover.again && !r->closing)
        replica_remove_old(r);
    replica_release(r);
}

void replica_remove_old(struct bw_replica *r)
{
    struct remover *remover = &r->remover;
    remover->again = remover->running;
    if (remover->running || remover->after)
        return; /* later: when the pool thread is done, or the newest snapshot's name is durable */
    remover->below = r->snapshot_index;
    remover->work.data = r;
    remover->running = uv_queue_work(r->options.loop, &remover->work, carry_out, on_done) == 0;
    r->handles += remover->running;
}

void replica_remove_when_durable(struct bw_replica *r)
{
    r->remover.after = bw_wal_next(r->wal);
    if (BW_BUG(snapshot_replaces_the_log_at_once))
        replica_remove_durable(r, r->remover.after);
}

void replica_remove_durable(struct bw_replica *r, uint64_t commit)
{
    if (r->remover.after == 0 || commit < r->remover.after)
        return;
    BW_CRASH("snapshot.install.before-drop");
    r->remover.after = 0;
    bw_wal_drop(r->wal, r->snapshot_index);
    replica_remove_old(r);
}

void replica_remove_incoming(struct bw_replica *r)
{
    replica_incoming_forget(r);
    set_aside(r, 1);
    replica_remove_old(r);
}

void replica_remove_leftovers(struct bw_replica *r)
{
    if (BW_BUG(snapshot_leftovers_stay))
        return;
    for (unsigned i = 0; i < UNFINISHED; i++)
        set_aside(r, i);
    replica_remove_old(r);
}
