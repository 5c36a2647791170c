/* Makes sure that the nodes of a new cluster are all new.
 *
 * A node with an empty directory is either new, or it was wiped and lost what it promised. In the
 * second case its vote could undo what a majority had decided (fault 25 in
 * docs/reference/faults.md). The node cannot tell the difference by itself, so it asks. Every other
 * node must confirm that it is new too, or that it confirmed this very directory when the cluster
 * began. Until all have confirmed, the node takes no part. If one answers that it knows this node
 * with another directory, the node ends and reports what to do.
 *
 * A random number identifies a directory; it is durable before it is sent. The confirmation by all
 * nodes, with their numbers, is durable before the node promises anything. So a node that dies in
 * between is still new, even if the others went on.
 *
 *   new   8 our number
 *   met   4 node, 8 its number, for each other node */
#include "core/base/error.h"
#include "core/base/little.h"
#include "os/file.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MEET_BYTES        8u
#define WELCOME_BYTES     9u
#define PAIR_BYTES        12u
#define NUMBER            "new"
#define MARK              "met"
#define CAMPAIGN_EVERY_MS 10u
#define CAMPAIGNS_MAX     20u

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
    char temporary[32];
    snprintf(temporary, sizeof temporary, "%.20s.tmp", name);
    bool good = directory >= 0 && bw_file_replace(directory, temporary, name, 0600, bytes, length,
                                                  BW_CRASH_FILE("meet.file"));
    if (directory >= 0)
        close(directory);
    return good;
}

struct peer_record *replica_peer(struct bw_replica *r, bw_node node)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        if (r->peers[i].node == BW_NODE_NONE)
            r->peers[i].node = node;
        if (r->peers[i].node == node)
            return &r->peers[i];
    }
    return NULL;
}

/* Reads the numbers of the other nodes that this directory confirmed earlier. */
static bool read_mark(struct bw_replica *r)
{
    unsigned char bytes[PAIR_BYTES * BW_REPLICA_NODES];
    ssize_t length = replica_file_read(r, MARK, bytes, sizeof bytes);
    for (size_t at = 0; length > 0 && at + PAIR_BYTES <= (size_t)length; at += PAIR_BYTES) {
        struct peer_record *peer = replica_peer(r, bw_get32(bytes + at));
        if (peer)
            peer->known = bw_get64(bytes + at + 4);
    }
    return length >= 0;
}

static bool write_mark(struct bw_replica *r)
{
    unsigned char bytes[PAIR_BYTES * BW_REPLICA_NODES];
    size_t length = 0;
    for (uint32_t i = 0; i < r->members.member_list.count; i++) {
        bw_node id = r->members.member_list.at[i].id;
        const struct peer_record *peer = id == r->options.self ? NULL : replica_peer(r, id);
        if (!peer)
            continue;
        bw_put32(bytes + length, id);
        bw_put64(bytes + length + 4, peer->known);
        length += PAIR_BYTES;
    }
    BW_CRASH("meet.mark.before");
    bool good = replica_file_write(r, MARK, bytes, length);
    BW_CRASH("meet.mark.after");
    return good;
}

/* Reads the number of this directory, or creates one. 0 is never used. */
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

int replica_bootstrap_begin(struct bw_replica *r, bool empty, char *why)
{
    bool completed = read_mark(r);
    r->bootstrapping = empty && r->members.member_list.count > 1 && !r->options.joins && !completed;
    if (!r->bootstrapping || find_number(r))
        return 0;
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot write in %.300s: %s", r->options.directory,
             strerror(errno));
    return BW_EIO;
}

static void answer(struct bw_replica *r, bw_node node)
{
    unsigned char bytes[WELCOME_BYTES];
    struct peer_record *peer = replica_peer(r, node);
    if (!peer || !peer->asked || !bw_mesh_connected(r->mesh, node))
        return;
    if (r->bootstrapping)
        peer->known = peer->nonce;
    bw_put64(bytes, peer->nonce);
    bytes[8] = peer->known == peer->nonce && peer->nonce != 0;
    peer->asked = !bw_mesh_send(r->mesh, node, BW_FRAME_WELCOME, BW_LANE_URGENT,
                                &(struct bw_part){bytes, sizeof bytes}, 1);
}

static void ask(struct bw_replica *r, bw_node node)
{
    unsigned char bytes[MEET_BYTES];
    bw_put64(bytes, r->nonce);
    bw_mesh_send(r->mesh, node, BW_FRAME_MEET, BW_LANE_URGENT,
                 &(struct bw_part){bytes, sizeof bytes}, 1);
}

void replica_bootstrap_opened(struct bw_replica *r, bw_node node)
{
    if (r->bootstrapping)
        ask(r, node);
    answer(r, node);
}

void replica_bootstrap_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                             size_t length)
{
    struct peer_record *peer = replica_peer(r, from);
    if (length != MEET_BYTES || !peer)
        return;
    peer->nonce = bw_get64(bytes);
    peer->asked = true;
    answer(r, from);
}

static bool confirmed_by_all(struct bw_replica *r)
{
    for (uint32_t i = 0; i < r->members.member_list.count; i++) {
        bw_node id = r->members.member_list.at[i].id;
        const struct peer_record *peer = id == r->options.self ? NULL : replica_peer(r, id);
        if (peer && !peer->confirmed)
            return false;
    }
    return true;
}

static bool is_first(const struct bw_replica *r)
{
    for (uint32_t i = 0; i < r->members.member_list.count; i++)
        if (r->members.member_list.at[i].id < r->options.self)
            return false;
    return true;
}

/* All nodes are new, so there is no leader, and the node with the lowest id campaigns without
 * waiting for a timeout. The others may not be ready yet, so it campaigns a few times. */
static void on_first_campaign(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_CAMPAIGN}};
    if (r->router.leader != BW_NODE_NONE || ++r->first_campaigns > CAMPAIGNS_MAX)
        uv_timer_stop(timer);
    else
        replica_step(r, &event);
}

void replica_bootstrap_confirmed(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                                 size_t length)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    struct peer_record *peer = replica_peer(r, from);
    if (length != WELCOME_BYTES || !r->bootstrapping || bw_get64(bytes) != r->nonce || !peer)
        return;
    if (!bytes[8]) {
        snprintf(
            why, sizeof why,
            "%.300s is empty, but the other nodes already know this node, so its data is lost. "
            "Restore the data, or remove this node from the cluster and add it again",
            r->options.directory);
        r->options.ended(r->options.context, BW_REPLICA_DATA_LOST, why);
        return;
    }
    peer->confirmed = true;
    if (!confirmed_by_all(r))
        return;
    if (!write_mark(r)) {
        snprintf(why, sizeof why, "cannot write in %.300s: %s", r->options.directory,
                 strerror(errno));
        r->options.ended(r->options.context, BW_REPLICA_UNUSABLE, why);
        return;
    }
    r->bootstrapping = false;
    r->admitted = true;
    replica_start(r);
    if (is_first(r))
        uv_timer_start(&r->start_timer, on_first_campaign, 0, CAMPAIGN_EVERY_MS);
}
