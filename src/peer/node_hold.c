/* Work held by a recovery. From HOLD to RESUME, no work of this election may run anywhere, so that
 * states can be compared and reconciled. The recovery repeats HOLD. When it stops, the hold ends
 * after a timeout; otherwise a dead recovery would block the election forever.
 *
 * Elections continue during a hold: there is a leader, but it does not act. */
#include "os/clock.h"
#include "peer/node_state.h"

#define HOLD_NS (15 * BW_SEC)

static void notify(struct bw_peer *p, uint32_t election, bool held)
{
    if (p->options.held)
        p->options.held(p->options.context, election, held);
}

void peer_hold(struct bw_peer *p, uint32_t election, bool hold)
{
    struct peer_election *e = &p->election[election];
    bool was = e->held_until != 0;
    e->held_until = hold ? bw_clock_boot() + HOLD_NS : 0;
    if (was != hold)
        notify(p, election, hold);
}

void peer_hold_tick(struct bw_peer *p, bw_time now)
{
    for (uint32_t e = 0; e < p->elections; e++)
        if (p->election[e].held_until && now >= p->election[e].held_until)
            peer_hold(p, e, false);
}

bw_time peer_hold_deadline(const struct bw_peer *p)
{
    bw_time at = BW_TIME_NEVER;
    for (uint32_t e = 0; e < p->elections; e++)
        if (p->election[e].held_until)
            at = bw_time_min(at, p->election[e].held_until);
    return at;
}

void bw_peer_busy(struct bw_peer *p, uint32_t election, bw_time until)
{
    if (election >= p->elections)
        return;
    struct peer_election *e = &p->election[election];
    e->busy_until = until;
    if (until != 0 && until != BW_TIME_NEVER)
        e->lease_ns = bw_time_max(e->lease_ns, until - bw_clock_boot());
}
