/* A peer with shards obeys `bellwether drain` (run/drain/drain.h): it ends all its supervisors and
 * leaves the queue of each shard, so that the other peers lead them, until the host is undrained.
 * The lock of this process goes when the last supervisor has released its shard. Each supervisor
 * has a lock of its own. (The supervisors of `run --shards` obey by themselves.) */
#include "run/shards/state.h"

#include "run/drain/drain_log.h"
#include "run/shards/peer_shards.h"

#define HAND_OVER_POLL_NS (100 * BW_MS) /* `bellwether drain` waits for the lock to go */

void bw_launcher_drain_look(struct launcher *l, bw_time now)
{
    bool before = l->drain.drained, readable = l->drain.error == 0;
    bool drained = bw_drain_watch(&l->drain);
    if (readable && l->drain.error != 0)
        bw_drain_log_unreadable(&l->drain, &l->log);
    if (before != drained) {
        bw_drain_log_change(&l->drain, &l->log, &l->manager);
        bw_peer_shards_drain(l->peer_shards, drained);
    }
    if (drained && !bw_launcher_any_left(l))
        bw_drain_unlock(&l->drain);
    else
        bw_drain_lock(&l->drain);
    bool handing_over = drained && l->drain.locked;
    l->drain_at = bw_time_add(now, handing_over ? HAND_OVER_POLL_NS : BW_DRAIN_POLL_NS);
}
