/* The first meeting of a new cluster's nodes.
 *
 * A node that finds nothing on its disk is either new, or it was wiped and has forgotten what it
 * promised: then its vote could undo what a majority took for certain (fault 25). It cannot tell by
 * itself, so it asks: every other node must say that it is new too, or that it met this very
 * directory when the cluster began. Until all have said so it takes no part. One that says "you are
 * known to me" ends it, with a sentence that says what to do. A directory is known by a number that
 * is durable before it is told; that all have met, and their numbers, is durable before anything is
 * promised: a node that dies in between, or finds that the others went on, is still new.
 *
 *   new   8 our number
 *   met   4 node, 8 its number, for each other node */
#include "core/base/error.h"
#include "core/base/little.h"
#include "serve/crash.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MEET_BYTES    8u
#define WELCOME_BYTES 9u
#define PAIR_BYTES    12u
#define NUMBER        "new"
#define MARK          "met"
#define HURRY_MS      10u
#define HURRIES       20u

ssize_t replica_file_read(const struct bw_replica *r, const char *name, unsigned char *bytes,
                          size_t size)
{
    char path[4352];
    snprintf(path, sizeof path, "%s/%s", r->options.directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, bytes, size);
    if (fd >= 0)
        close(fd);
    return length;
}

bool replica_file_write(const struct bw_replica *r, const char *name, const unsigned char *bytes,
                        size_t length)
{
    int directory = open(r->options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BW_CRASH("meet.file.before-create");
    char making[32];
    snprintf(making, sizeof making, "%.20s.tmp", name);
    int fd = directory < 0
                 ? -1
                 : openat(directory, making, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    BW_CRASH("meet.file.after-create");
    bool good = fd >= 0 && write(fd, bytes, length) == (ssize_t)length && fsync(fd) == 0;
    BW_CRASH("meet.file.before-rename");
    good = good && renameat(directory, making, directory, name) == 0;
    BW_CRASH("meet.file.after-rename");
    good = good && fsync(directory) == 0;
    BW_CRASH("meet.file.after-sync-of-directory");
    if (fd >= 0)
        close(fd);
    if (directory >= 0)
        close(directory);
    return good;
}

/* With this node; NULL: more nodes than a cluster has. */
struct meeting *replica_meeting_with(struct bw_replica *r, bw_node node)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        if (r->met[i].node == BW_NODE_NONE)
            r->met[i].node = node;
        if (r->met[i].node == node)
            return &r->met[i];
    }
    return NULL;
}

/* The others as we met them, in an earlier life. */
static bool read_mark(struct bw_replica *r)
{
    unsigned char bytes[PAIR_BYTES * BW_REPLICA_NODES];
    ssize_t length = replica_file_read(r, MARK, bytes, sizeof bytes);
    for (size_t at = 0; length > 0 && at + PAIR_BYTES <= (size_t)length; at += PAIR_BYTES) {
        struct meeting *with = replica_meeting_with(r, bw_get32(bytes + at));
        if (with)
            with->known = bw_get64(bytes + at + 4);
    }
    return length >= 0;
}

static bool write_mark(struct bw_replica *r)
{
    unsigned char bytes[PAIR_BYTES * BW_REPLICA_NODES];
    size_t length = 0;
    for (uint32_t i = 0; i < r->members.roster.count; i++) {
        bw_node id = r->members.roster.at[i].id;
        const struct meeting *with = id == r->options.self ? NULL : replica_meeting_with(r, id);
        if (!with)
            continue;
        bw_put32(bytes + length, id);
        bw_put64(bytes + length + 4, with->known);
        length += PAIR_BYTES;
    }
    BW_CRASH("meet.mark.before");
    bool good = replica_file_write(r, MARK, bytes, length);
    BW_CRASH("meet.mark.after");
    return good;
}

/* Ours as it was told already, or a new one. 0 is nobody's. */
static bool find_number(struct bw_replica *r)
{
    unsigned char bytes[8];
    if (replica_file_read(r, NUMBER, bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
        r->nonce = bw_get64(bytes);
        return true;
    }
    if (getrandom(&r->nonce, sizeof r->nonce, 0) != (ssize_t)sizeof r->nonce)
        return false;
    r->nonce |= 1;
    bw_put64(bytes, r->nonce);
    BW_CRASH("meet.number.before");
    bool good = replica_file_write(r, NUMBER, bytes, sizeof bytes);
    BW_CRASH("meet.number.after");
    return good;
}

int replica_meet_begin(struct bw_replica *r, bool empty, char *why)
{
    bool met = read_mark(r);
    r->meeting = empty && r->members.roster.count > 1 && !r->options.joins && !met;
    if (!r->meeting || find_number(r))
        return 0;
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot write in %.300s: %s", r->options.directory,
             strerror(errno));
    return BW_EIO;
}

static void answer(struct bw_replica *r, bw_node node)
{
    unsigned char bytes[WELCOME_BYTES];
    struct meeting *with = replica_meeting_with(r, node);
    if (!with || !with->asked || !bw_mesh_connected(r->mesh, node))
        return;
    if (r->meeting)
        with->known = with->nonce;
    bw_put64(bytes, with->nonce);
    bytes[8] = with->known == with->nonce && with->nonce != 0;
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
    struct meeting *with = replica_meeting_with(r, from);
    if (length != MEET_BYTES || !with)
        return;
    with->nonce = bw_get64(bytes);
    with->asked = true;
    answer(r, from);
}

static bool met_all(struct bw_replica *r)
{
    for (uint32_t i = 0; i < r->members.roster.count; i++) {
        bw_node id = r->members.roster.at[i].id;
        const struct meeting *with = id == r->options.self ? NULL : replica_meeting_with(r, id);
        if (with && !with->welcomed)
            return false;
    }
    return true;
}

static bool is_first(const struct bw_replica *r)
{
    for (uint32_t i = 0; i < r->members.roster.count; i++)
        if (r->members.roster.at[i].id < r->options.self)
            return false;
    return true;
}

/* All are new, so nobody leads: the first by id need not wait for a time-out to find that out. The
 * others may still be meeting; then it asks again, a few times. */
static void on_hurry(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_CAMPAIGN}};
    if (r->session.leader != BW_NODE_NONE || ++r->hurried > HURRIES)
        uv_timer_stop(timer);
    else
        replica_step(r, &event);
}

void replica_meet_welcome(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                          size_t length)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    struct meeting *with = replica_meeting_with(r, from);
    if (length != WELCOME_BYTES || !r->meeting || bw_get64(bytes) != r->nonce || !with)
        return;
    if (!bytes[8]) {
        snprintf(
            why, sizeof why,
            "%.300s is empty, but the other nodes know this one: its data is gone, and with it "
            "what it promised. Bring the data back, or remove this node from the cluster and "
            "add it anew",
            r->options.directory);
        r->options.ended(r->options.context, BW_REPLICA_FORGOTTEN, why);
        return;
    }
    with->welcomed = true;
    if (!met_all(r))
        return;
    if (!write_mark(r)) {
        snprintf(why, sizeof why, "cannot write in %.300s: %s", r->options.directory,
                 strerror(errno));
        r->options.ended(r->options.context, BW_REPLICA_USELESS, why);
        return;
    }
    r->meeting = false;
    r->admitted = true;
    replica_start(r);
    if (is_first(r))
        uv_timer_start(&r->hurry, on_hurry, 0, HURRY_MS);
}
