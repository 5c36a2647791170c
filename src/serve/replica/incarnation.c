/* Numbers the incarnations of a node (the starts of its directory), so that the others can refuse
 * an old copy of it (fault 25 in docs/reference/faults.md; membership.h).
 *
 * Before a node publishes its incarnation in the log, the leader must have answered one read of
 * this node. The node's first message to the leader reports its durable state and its incarnation
 * (rejoin.c). The leader would not have answered if the log already had that incarnation. Then the
 * node makes the number durable, and only then publishes it. From then on it reports to the others
 * that the log has it.
 *
 * A refused directory stays refused: the node may have received meanwhile what its disk had lost,
 * and would pass the check at the next start.
 *
 *   life      8 the last incarnation that may have been published, 8 hash
 *   refused   a line of text */
#include "core/base/error.h"
#include "core/base/little.h"
#include "os/crash.h"
#include "os/journal.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define LIFE       "life"
#define LIFE_BYTES 16u
#define REFUSED    "refused"

int replica_incarnation_allowed(struct bw_replica *r, char *why)
{
    unsigned char byte;
    if (replica_file_read(r, REFUSED, &byte, 1) < 0)
        return 0;
    replica_rejoin_explain(r, why);
    return BW_ESTALE;
}

/* If the file cannot be written, the incarnation still shows it. */
void replica_incarnation_refused(struct bw_replica *r)
{
    static const char line[] = "put back from a copy, or the disk forgot: of no use any more\n";
    replica_file_write(r, REFUSED, (const unsigned char *)line, sizeof line - 1);
}

int replica_incarnation_begin(struct bw_replica *r, char *why)
{
    unsigned char bytes[LIFE_BYTES + 1];
    ssize_t length = replica_file_read(r, LIFE, bytes, sizeof bytes);
    uint64_t kept = length == LIFE_BYTES ? bw_get64(bytes) : 0;
    if (length >= 0 && (length != LIFE_BYTES || bw_get64(bytes + 8) != XXH3_64bits(bytes, 8))) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1,
                 "%.300s/" LIFE " is damaged; remove this node from the cluster and add it again",
                 r->options.directory);
        return BW_EDAMAGED;
    }
    bw_membership_begin(&r->members,
                        bw_membership_last_incarnation(&r->members, kept, r->durable.starts) + 1);
    return 0;
}

static void write_incarnation(uv_work_t *work)
{
    struct bw_replica *r = work->data;
    unsigned char bytes[LIFE_BYTES];
    bw_put64(bytes, r->members.starts);
    bw_put64(bytes + 8, XXH3_64bits(bytes, 8));
    BW_CRASH("life.before");
    r->incarnation_written = replica_file_write(r, LIFE, bytes, sizeof bytes);
    BW_CRASH("life.after");
}

static void on_written(uv_work_t *work, int status)
{
    struct bw_replica *r = work->data;
    r->incarnation_writing = false;
    r->members.kept = status == 0 && r->incarnation_written;
    if (r->members.kept)
        replica_publish(r);
    else if (!r->closing && !r->incarnation_warned)
        bw_print_line(BW_PRIORITY_ERROR,
                      "bellwether: cannot write " LIFE
                      " in %s: this start is not published to the others",
                      r->options.directory);
    r->incarnation_warned |= !r->members.kept;
    replica_release(r);
}

bool replica_incarnation_may_publish(struct bw_replica *r)
{
    switch (bw_membership_incarnation_step(&r->members)) {
    case BW_INCARNATION_READ_FROM_LEADER:
        if (!bw_router_find(&r->router, r->incarnation_read))
            r->incarnation_read = bw_replica_read(r);
        return false;
    case BW_INCARNATION_STORE:
        if (r->incarnation_writing)
            return false; /* the pool's thread reads incarnation_work now */
        r->incarnation_work.data = r;
        r->handles += r->incarnation_writing = uv_queue_work(r->options.loop, &r->incarnation_work,
                                                             write_incarnation, on_written) == 0;
        return false;
    case BW_INCARNATION_PUBLISH:
        break;
    }
    return true;
}

bool replica_incarnation_answered(struct bw_replica *r, uint64_t request, bool good)
{
    if (!request || request != r->incarnation_read)
        return false;
    r->incarnation_read = 0;
    r->members.heard |= good;
    if (good)
        replica_publish(r);
    return true;
}
