/* Which life of its directory a node lives, and whether it may (fault 25; membership.h).
 *
 * Before a node says in the log which life it lives, whoever leads must have answered it: a read.
 * The way there begins with how far its disk is and which life it believes to live
 * (back.c), so who leads would not have heard it if that life was there already. Then the
 * number is durable, before it is said. From then on the node tells the others that it said it.
 *
 * A directory that was refused stays so: meanwhile the node may have heard what it had forgotten,
 * and would be taken for a good one at the next start.
 *
 *   life      8 the last life that may have been told of, 8 hash
 *   refused   a line */
#include "core/base/error.h"
#include "core/base/little.h"
#include "serve/crash.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define LIFE       "life"
#define LIFE_BYTES 16u
#define REFUSED    "refused"

int replica_life_allowed(struct bw_replica *r, char *why)
{
    unsigned char byte;
    if (replica_file_read(r, REFUSED, &byte, 1) < 0)
        return 0;
    replica_back_explain(r, why);
    return BW_ESTALE;
}

/* If it cannot be written, the life still tells. */
void replica_life_refused(struct bw_replica *r)
{
    static const char line[] = "put back from a copy, or the disk forgot: of no use any more\n";
    replica_file_write(r, REFUSED, (const unsigned char *)line, sizeof line - 1);
}

int replica_life_begin(struct bw_replica *r, char *why)
{
    unsigned char bytes[LIFE_BYTES + 1];
    ssize_t length = replica_file_read(r, LIFE, bytes, sizeof bytes);
    uint64_t kept = length == LIFE_BYTES ? bw_get64(bytes) : 0;
    if (length >= 0 && (length != LIFE_BYTES || bw_get64(bytes + 8) != XXH3_64bits(bytes, 8))) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "%.300s/" LIFE " is damaged", r->options.directory);
        return BW_EDAMAGED;
    }
    bw_membership_begin(&r->members,
                        bw_membership_last_life(&r->members, kept, r->durable.starts) + 1);
    return 0;
}

static void keep(uv_work_t *work)
{
    struct bw_replica *r = work->data;
    unsigned char bytes[LIFE_BYTES];
    bw_put64(bytes, r->members.starts);
    bw_put64(bytes + 8, XXH3_64bits(bytes, 8));
    BW_CRASH("life.before");
    r->life_kept = replica_file_write(r, LIFE, bytes, sizeof bytes);
    BW_CRASH("life.after");
}

static void on_kept(uv_work_t *work, int status)
{
    struct bw_replica *r = work->data;
    r->life_keeping = false;
    r->members.kept = status == 0 && r->life_kept;
    if (r->members.kept)
        replica_publish(r);
    else if (!r->closing && !r->life_silent)
        fprintf(stderr,
                "bellwether: cannot write " LIFE " in %s: others do not hear that it began\n",
                r->options.directory);
    r->life_silent |= !r->members.kept;
    replica_release(r);
}

bool replica_life_may_say(struct bw_replica *r)
{
    switch (bw_membership_life(&r->members)) {
    case BW_LIFE_ASK:
        if (!bw_session_find(&r->session, r->life_asked))
            r->life_asked = bw_replica_read(r);
        return false;
    case BW_LIFE_KEEP:
        r->life_work.data = r;
        if (!r->life_keeping)
            r->handles += r->life_keeping =
                uv_queue_work(r->options.loop, &r->life_work, keep, on_kept) == 0;
        return false;
    case BW_LIFE_SAY:
        break;
    }
    return true;
}

bool replica_life_answered(struct bw_replica *r, uint64_t request, bool good)
{
    if (!request || request != r->life_asked)
        return false;
    r->life_asked = 0;
    r->members.heard |= good;
    if (good)
        replica_publish(r);
    return true;
}
