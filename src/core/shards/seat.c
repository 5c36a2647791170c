/* A seat among peers; see seat.h. */
#include "core/shards/seat.h"

#include <string.h>

void peer_seat_init(struct peer_seat *seat, bw_node self, bw_time ttl_ns)
{
    memset(seat, 0, sizeof *seat);
    seat->self = self;
    seat->ttl_ns = ttl_ns;
}

bool peer_seat_leads(const struct peer_seat *seat)
{
    return seat->told.leader == seat->self;
}

/* May we act for all of a lease that was asked for at `sent`? */
static bool covered(const struct peer_seat *seat, bw_time sent, bw_time ttl_ns)
{
    return seat->told.act_until == BW_TIME_NEVER ||
           seat->told.act_until >= bw_time_add(sent, ttl_ns);
}

bool peer_seat_free(const struct peer_seat *seat, bw_time now)
{
    return peer_seat_leads(seat) && seat->line != PEER_LINE_OUT && !seat->holds && !seat->held &&
           now >= seat->resigned_until && now >= seat->told.act_from &&
           covered(seat, now, seat->ttl_ns);
}

/* When one that has not said that it is ready is taken for one that is not. */
static bw_time patience_ends(const struct peer_seat *seat)
{
    return bw_time_add(seat->led_since, PEER_SEAT_RESIGN_NS);
}

/* Not before it could act: whose election has not reached the others yet would be the only one whom
 * they can elect, again and again. And at most once a second, or two peers that are not fit would
 * hand the lead to and fro as fast as they can. */
bool peer_seat_must_resign(const struct peer_seat *seat, bw_time now)
{
    bool reached = seat->told.act_until > seat->told.act_from;
    bool unfit = seat->line == PEER_LINE_OUT ||
                 (seat->line == PEER_LINE_UNKNOWN && now >= patience_ends(seat));
    return peer_seat_leads(seat) && reached && unfit && !seat->holds &&
           now >= seat->resigned_until && now >= seat->patient_until;
}

bool peer_seat_look(struct peer_seat *seat, bw_time now)
{
    bool is_free = peer_seat_free(seat, now), changed = is_free != seat->was_free;
    seat->was_free = is_free;
    return changed;
}

bool peer_seat_hear(struct peer_seat *seat, const struct bw_announcement *told, bw_time now)
{
    bool other = told->leader != seat->told.leader || told->token != seat->told.token;
    bool led = peer_seat_leads(seat);
    if (seat->told.leader != BW_NODE_NONE && !led)
        seat->before = seat->told.leader;
    seat->told = *told;
    if (!led && peer_seat_leads(seat))
        seat->led_since = now;
    if (!peer_seat_leads(seat) || other)
        seat->resigned_until = 0;
    /* A higher token while we lead is the guard's, which asked again to take in who once promised a
     * higher one in vain: nobody else led, and the work goes on under the token that it has. */
    bool gone = !peer_seat_leads(seat) || told->token < seat->token;
    bool lost = seat->lost || (seat->holds && gone);
    other = other || lost != seat->lost;
    seat->lost = lost;
    return peer_seat_look(seat, now) || other;
}

bool peer_seat_hold(struct peer_seat *seat, bool held, bw_time now)
{
    bool lost = held && seat->holds && !seat->lost;
    seat->held = held;
    seat->lost = seat->lost || lost;
    return peer_seat_look(seat, now) || lost;
}

bw_time peer_seat_deadline(const struct peer_seat *seat, bw_time now)
{
    bw_time at = bw_time_max(seat->told.act_from, seat->resigned_until), next = BW_TIME_NEVER;
    if (seat->line != PEER_LINE_IN)
        at = bw_time_max(at, seat->patient_until);
    if (!peer_seat_leads(seat) || seat->holds)
        return BW_TIME_NEVER;
    if (at > now)
        next = at;
    if (seat->line == PEER_LINE_UNKNOWN && patience_ends(seat) > now)
        next = bw_time_min(next, patience_ends(seat));
    return next;
}

enum peer_verdict peer_seat_acquire(struct peer_seat *seat, bw_time sent, bw_time ttl_ns,
                                    bw_time now)
{
    if (!peer_seat_free(seat, now) || !covered(seat, sent, ttl_ns))
        return PEER_NO;
    seat->holds = true;
    seat->line = PEER_LINE_IN;
    seat->lost = seat->was_free = false;
    seat->token = seat->told.token;
    seat->before = BW_NODE_NONE;
    return PEER_YES;
}

enum peer_verdict peer_seat_renew(const struct peer_seat *seat, bw_token token, bw_time sent,
                                  bw_time ttl_ns)
{
    if (!seat->holds || seat->lost || token != seat->token)
        return PEER_NO;
    return covered(seat, sent, ttl_ns) ? PEER_YES : PEER_WAIT;
}

bool peer_seat_release(struct peer_seat *seat, bw_token token)
{
    if (!seat->holds || token != seat->token)
        return false;
    seat->holds = seat->lost = false;
    seat->line = PEER_LINE_OUT; /* until it says that it is ready for another */
    return true;
}

void peer_seat_resigned(struct peer_seat *seat, bw_time now)
{
    seat->resigned_until = seat->patient_until = bw_time_add(now, PEER_SEAT_RESIGN_NS);
    seat->was_free = false;
}
