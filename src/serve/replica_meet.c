/* The first meeting of a new cluster's nodes.
 *
 * A node that finds nothing on its disk is either new, or it was wiped and has forgotten what it
 * promised: then its vote could undo what a majority took for certain (fault 25). It cannot tell by
 * itself, so it asks: every other node must say that it is new too, or that it met this very
 * process when the cluster began. Until all have said so it takes no part. One that says "you are
 * known to me" ends it, with a sentence that says what to do. That all have met is written down
 * before anything is promised: a node that dies in between is still new. */
#include "base/error.h"
#include "base/little.h"
#include "serve/replica_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MEET_BYTES    8u
#define WELCOME_BYTES 9u
#define MARK          "met"

static bool has_mark(const struct bw_replica *r)
{
    char path[4352];
    snprintf(path, sizeof path, "%s/" MARK, r->options.directory);
    return access(path, F_OK) == 0;
}

/* Durable when it returns. */
static bool make_mark(const struct bw_replica *r)
{
    int directory = open(r->options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = directory < 0 ? -1 : openat(directory, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && fsync(fd) == 0 && fsync(directory) == 0;
    if (fd >= 0)
        close(fd);
    if (directory >= 0)
        close(directory);
    return good;
}

void replica_meet_begin(struct bw_replica *r, bool empty)
{
    if (getrandom(&r->nonce, sizeof r->nonce, 0) != (ssize_t)sizeof r->nonce)
        r->nonce = (uint64_t)replica_now();
    r->meeting = empty && r->member_count > 1 && !has_mark(r);
}

static void answer(struct bw_replica *r, bw_node node)
{
    unsigned char bytes[WELCOME_BYTES];
    struct meeting *with = &r->met[node % BW_REPLICA_NODES];
    if (!with->asked || !bw_mesh_connected(r->mesh, node))
        return;
    if (r->meeting)
        with->known = with->nonce;
    bw_put64(bytes, with->nonce);
    bytes[8] = with->known == with->nonce;
    with->asked =
        !bw_mesh_send(r->mesh, node, BW_FRAME_WELCOME, &(struct bw_part){bytes, sizeof bytes}, 1);
}

static void ask(struct bw_replica *r, bw_node node)
{
    unsigned char bytes[MEET_BYTES];
    bw_put64(bytes, r->nonce);
    bw_mesh_send(r->mesh, node, BW_FRAME_MEET, &(struct bw_part){bytes, sizeof bytes}, 1);
}

void replica_meet_opened(struct bw_replica *r, bw_node node)
{
    if (r->meeting)
        ask(r, node);
    answer(r, node);
}

void replica_meet_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                        size_t length)
{
    struct meeting *with = &r->met[from % BW_REPLICA_NODES];
    if (length != MEET_BYTES)
        return;
    with->nonce = bw_get64(bytes);
    with->asked = true;
    answer(r, from);
}

static bool met_all(const struct bw_replica *r)
{
    for (uint32_t i = 0; i < r->member_count; i++) {
        bw_node id = r->members[i].id;
        if (id != r->options.self && !r->met[id % BW_REPLICA_NODES].welcomed)
            return false;
    }
    return true;
}

void replica_meet_welcome(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                          size_t length)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    if (length != WELCOME_BYTES || !r->meeting || bw_get64(bytes) != r->nonce)
        return;
    if (!bytes[8]) {
        snprintf(
            why, sizeof why,
            "%.300s is empty, but the other nodes know this one: its data is gone, and with it "
            "what it promised. Bring the data back, or remove this node from the cluster and "
            "add it anew",
            r->options.directory);
        r->options.ended(r->options.context, why);
        return;
    }
    r->met[from % BW_REPLICA_NODES].welcomed = true;
    if (!met_all(r))
        return;
    if (!make_mark(r)) {
        snprintf(why, sizeof why, "cannot write in %.300s: %s", r->options.directory,
                 strerror(errno));
        r->options.ended(r->options.context, why);
        return;
    }
    r->meeting = false;
    replica_start(r);
}
