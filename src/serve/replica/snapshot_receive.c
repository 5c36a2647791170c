/* Receives a snapshot from the leader. Its pieces become a file. A pool thread syncs the file,
 * checks it, and loads it into a second registry. Then this registry replaces the one in use.
 *
 * To load a gigabyte takes longer than the default election timeout, so the event loop only swaps
 * the registries. If the system permits no memory for a second one, the event loop drops the
 * registry in use and loads the file itself.
 *
 * Raft's message about the snapshot may arrive before the pool thread is done. It is kept and
 * stepped when the file is good; the event loop never waits for the disk. The log's thread makes
 * the file's new name durable before the record that refers to it (bw_wal_snapshot). */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "os/crash.h"
#include "os/journal.h"
#include "serve/replica/snapshot_file.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_HEAD 17u

static void incoming_path(const struct bw_replica *r, char *path, size_t size)
{
    snprintf(path, size, "%s/" BW_SNAPSHOT_INCOMING, r->options.directory);
}

void replica_incoming_forget(struct bw_replica *r)
{
    struct incoming *in = &r->incoming;
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
    in->good = false;
    replica_registry_drop(r, &in->loaded);
}

static void incoming_begin(struct bw_replica *r, bw_node from, bw_index index)
{
    char path[4352];
    struct incoming *in = &r->incoming;
    incoming_path(r, path, sizeof path);
    BW_CRASH("snapshot.incoming.before-create");
    replica_incoming_forget(r);
    in->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    in->from = from;
    in->index = index;
    in->size = 0;
    in->message_length = 0;
    BW_CRASH("snapshot.incoming.after-create");
}

/* Ends the process: this node cannot store the snapshot that it must acknowledge to the leader. */
static void fail(const char *what, const char *why)
{
    bw_print_line(BW_PRIORITY_ERROR, "bellwether: %s: %s", what, why);
    abort();
}

/* Checks the file and loads it. Returns false if it is damaged or cannot be loaded. */
static bool load(struct bw_replica *r, const char *path)
{
    struct incoming *in = &r->incoming;
    char why[BW_REPLICA_WHY_MAX + 1];
    if (BW_BUG(snapshot_loaded_in_one_turn) ||
        bw_registry_memory_make(&in->loaded, &r->options.registry, why) != 0)
        return false;
    if (bw_snapshot_load(path, r->options.cluster, &in->head, in->loaded.registry, why) == 0)
        return true;
    bw_registry_memory_drop(&in->loaded);
    return false;
}

/* Runs on a pool thread, which owns `incoming` while `checking` is set. A good file that cannot be
 * loaded is found again by the event loop, which then reports why. */
static void check(uv_work_t *work)
{
    struct bw_replica *r = work->data;
    struct incoming *in = &r->incoming;
    char path[4352], why[BW_REPLICA_WHY_MAX + 1];
    BW_CRASH("snapshot.install.before-sync");
    if (!BW_BUG(snapshot_received_without_sync) && fsync(in->fd) != 0)
        fail("cannot sync a snapshot", strerror(errno)); /* a retry may falsely succeed */
    BW_CRASH("snapshot.install.after-sync");
    incoming_path(r, path, sizeof path);
    in->found = load(r, path) || bw_snapshot_check(path, r->options.cluster, &in->head, why) == 0;
}

static void on_checked(uv_work_t *work, int status)
{
    struct bw_replica *r = work->data;
    struct incoming *in = &r->incoming;
    in->checking = false;
    in->good = status == 0 && in->found && in->head.index == in->index;
    size_t length = in->message_length;
    in->message_length = 0;
    if (length && in->good && !r->closing)
        replica_message(r, in->from, in->message, length);
    replica_snapshot_expire(r);
    replica_release(r);
}

void replica_snapshot_piece(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                            size_t length)
{
    struct incoming *in = &r->incoming;
    if (length < PIECE_HEAD || in->checking)
        return; /* the leader sends it again if it is still needed */
    bw_index index = bw_get64(bytes);
    uint64_t at = bw_get64(bytes + 8);
    size_t rest = length - PIECE_HEAD;
    if (index <= r->commit)
        return; /* not needed: its entries arrived in another way, or it was sent twice */
    if (at == 0)
        incoming_begin(r, from, index);
    if (in->fd < 0 || in->from != from || in->index != index || at != in->size || in->good)
        return;
    BW_CRASH_TORN("snapshot.incoming.torn-piece", in->fd, bytes + PIECE_HEAD, rest, -1);
    if (write(in->fd, bytes + PIECE_HEAD, rest) != (ssize_t)rest) {
        replica_remove_incoming(r);
        return;
    }
    in->size += rest;
    BW_CRASH("snapshot.incoming.after-piece");
    if (bytes[16] != 1)
        return;
    in->work.data = r;
    in->checking = uv_queue_work(r->options.loop, &in->work, check, on_checked) == 0;
    r->handles += in->checking;
}

void replica_snapshot_expire(struct bw_replica *r)
{
    const struct incoming *in = &r->incoming;
    if (in->fd >= 0 && !in->checking && in->index <= r->commit)
        replica_remove_incoming(r);
}

bool replica_snapshot_ready(const struct bw_replica *r, const struct bw_message *msg)
{
    const struct incoming *in = &r->incoming;
    if (msg->snapshot.last_index <= r->commit)
        return true; /* Raft only replies that we have it */
    return in->good && in->fd >= 0 && in->from == msg->from &&
           in->index == msg->snapshot.last_index && in->head.term == msg->snapshot.last_term;
}

void replica_snapshot_defer(struct bw_replica *r, const struct bw_message *msg,
                            const unsigned char *bytes, size_t length)
{
    struct incoming *in = &r->incoming;
    if (!in->checking || in->from != msg->from || in->index != msg->snapshot.last_index ||
        length > sizeof in->message)
        return; /* Raft repeats it */
    memcpy(in->message, bytes, length);
    in->message_length = length;
}

/* Takes the registry that the pool thread has loaded; without one, loads the file. */
static int take_over(struct bw_replica *r, char *why)
{
    struct incoming *in = &r->incoming;
    if (in->loaded.registry) {
        replica_registry_drop(r, &r->memory);
        r->memory = in->loaded;
        r->router.registry = r->memory.registry;
        in->loaded = (struct bw_registry_memory){0};
        replica_snapshot_adopt(r, &in->head);
        return 0;
    }
    int error = replica_registry_make(r, why);
    return error ? error : replica_snapshot_find(r, why);
}

/* Replaces the whole state with the leader's snapshot. */
void replica_snapshot_install(struct bw_replica *r, bw_index index)
{
    char from[4352], to[4352], why[BW_REPLICA_WHY_MAX + 1] = "";
    incoming_path(r, from, sizeof from);
    bw_snapshot_name(to, sizeof to, r->options.directory, index);
    BW_CRASH("snapshot.install.before-rename");
    bool renamed = rename(from, to) == 0;
    BW_CRASH("snapshot.install.after-rename");
    if (!renamed)
        fail("cannot install a snapshot", strerror(errno));
    if (take_over(r, why) != 0 || r->snapshot_index != index)
        fail("cannot install a snapshot", why);
    replica_incoming_forget(r);
    replica_roster_rebuild(r);
    BW_CRASH("snapshot.install.before-record");
    bw_wal_snapshot(r->wal, index, r->snapshot_term);
    BW_CRASH("snapshot.install.after-record");
    replica_remove_when_durable(r);
    replica_remember(r, index, r->snapshot_term);
    r->options.changed(r->options.context, true);
    bw_router_snapshot_installed(&r->router);
}
