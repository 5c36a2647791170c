/* The leadership slot of the peer store; see leader_slot.h. */
#include "core/peer/leader_slot.h"

#include "core/base/bug.h"

#include <string.h>

void leader_slot_init(struct leader_slot *slot, bw_node self, bw_time ttl_ns)
{
    memset(slot, 0, sizeof *slot);
    slot->self = self;
    slot->ttl_ns = ttl_ns;
}

bool leader_slot_leads(const struct leader_slot *slot)
{
    return slot->announced.leader == slot->self;
}

/* Whether we may act for the whole lease that was requested at `sent`. */
static bool covered(const struct leader_slot *slot, bw_time sent, bw_time ttl_ns)
{
    return slot->announced.act_until == BW_TIME_NEVER ||
           slot->announced.act_until >= bw_time_add(sent, ttl_ns);
}

bool leader_slot_is_free(const struct leader_slot *slot, bw_time now)
{
    return leader_slot_leads(slot) && slot->line != PEER_QUEUE_OUT && !slot->holds && !slot->held &&
           now >= slot->resigned_until && now >= slot->announced.act_from &&
           covered(slot, now, slot->ttl_ns);
}

/* When an elector that has not reported yet counts as unable to lead. */
static bw_time report_deadline(const struct leader_slot *slot)
{
    return bw_time_add(slot->led_since, LEADER_SLOT_RESIGN_NS);
}

/* Two limits on resigning:
 * - Not before this node could act. Its election may not have reached the others yet, and they
 *   would elect it again and again.
 * - At most once a second. Otherwise two peers that are unable to lead would pass leadership back
 *   and forth without pause. */
bool leader_slot_must_resign(const struct leader_slot *slot, bw_time now)
{
    bool reached = slot->announced.act_until > slot->announced.act_from;
    bool unfit = slot->line == PEER_QUEUE_OUT ||
                 (slot->line == PEER_QUEUE_UNKNOWN && now >= report_deadline(slot));
    return leader_slot_leads(slot) && reached && unfit && !slot->holds &&
           now >= slot->resigned_until && now >= slot->no_resign_before;
}

bool leader_slot_update(struct leader_slot *slot, bw_time now)
{
    bool is_free = leader_slot_is_free(slot, now), changed = is_free != slot->was_free;
    slot->was_free = is_free;
    return changed;
}

static void drop_before(struct leader_slot *slot, uint32_t i)
{
    slot->before_count--;
    slot->unsettled -= i < slot->unsettled;
    memmove(slot->before + i, slot->before + i + 1,
            (slot->before_count - i) * sizeof slot->before[0]);
}

/* Another node led until now. */
static void add_before(struct leader_slot *slot, bw_time now)
{
    bw_node node = slot->announced.leader;
    bw_time sure = bw_time_add(2 * slot->ttl_ns, LEADER_SLOT_SURE);
    bool acted = now - slot->led_since >= sure || BW_BUG(peer_fences_the_last_leader);
    for (uint32_t i = slot->before_count; i > 0; i--)
        if (acted || slot->before[i - 1] == node)
            drop_before(slot, i - 1);
    if (slot->before_count == LEADER_SLOT_BEFORE)
        drop_before(slot, 1);
    slot->before[slot->before_count++] = node;
}

bool leader_slot_announce(struct leader_slot *slot, const struct bw_announcement *announcement,
                          bw_time now)
{
    bool other = announcement->leader != slot->announced.leader ||
                 announcement->token != slot->announced.token;
    bool led = leader_slot_leads(slot);
    if (announcement->leader != slot->announced.leader) {
        if (slot->announced.leader != BW_NODE_NONE && !led)
            add_before(slot, now);
        slot->led_since = now;
    }
    slot->announced = *announcement;
    if (!leader_slot_leads(slot) || other)
        slot->resigned_until = 0;
    /* A higher token while we lead comes from the quorum guard. It repeated its request to include
     * a voter that had promised a higher epoch in vain. No other node led, and the work continues
     * under its old token. */
    bool gone = !leader_slot_leads(slot) || announcement->token < slot->token;
    bool lost = slot->lost || (slot->holds && gone);
    other = other || lost != slot->lost;
    slot->lost = lost;
    return leader_slot_update(slot, now) || other;
}

bool leader_slot_hold(struct leader_slot *slot, bool held, bw_time now)
{
    bool lost = held && slot->holds && !slot->lost;
    slot->held = held;
    slot->lost = slot->lost || lost;
    return leader_slot_update(slot, now) || lost;
}

bw_time leader_slot_deadline(const struct leader_slot *slot, bw_time now)
{
    bw_time at = bw_time_max(slot->announced.act_from, slot->resigned_until), next = BW_TIME_NEVER;
    if (slot->line != PEER_QUEUE_IN)
        at = bw_time_max(at, slot->no_resign_before);
    if (!leader_slot_leads(slot) || slot->holds)
        return BW_TIME_NEVER;
    if (at > now)
        next = at;
    if (slot->line == PEER_QUEUE_UNKNOWN && report_deadline(slot) > now)
        next = bw_time_min(next, report_deadline(slot));
    return next;
}

enum peer_verdict leader_slot_acquire(struct leader_slot *slot, bw_time sent, bw_time ttl_ns,
                                      bw_time now)
{
    if (!leader_slot_is_free(slot, now) || !covered(slot, sent, ttl_ns))
        return PEER_NO;
    slot->holds = true;
    slot->line = PEER_QUEUE_IN;
    slot->lost = slot->was_free = false;
    slot->token = slot->announced.token;
    slot->unsettled = slot->before_count;
    return PEER_YES;
}

void leader_slot_settled(struct leader_slot *slot)
{
    while (slot->unsettled > 0)
        drop_before(slot, 0);
}

enum peer_verdict leader_slot_renew(const struct leader_slot *slot, bw_token token, bw_time sent,
                                    bw_time ttl_ns)
{
    if (!slot->holds || slot->lost || token != slot->token)
        return PEER_NO;
    return covered(slot, sent, ttl_ns) ? PEER_YES : PEER_WAIT;
}

bool leader_slot_release(struct leader_slot *slot, bw_token token)
{
    if (!slot->holds || token != slot->token)
        return false;
    slot->holds = slot->lost = false;
    slot->line = PEER_QUEUE_OUT; /* until the elector reports that it is ready again */
    return true;
}

void leader_slot_resigned(struct leader_slot *slot, bw_time now)
{
    slot->resigned_until = slot->no_resign_before = bw_time_add(now, LEADER_SLOT_RESIGN_NS);
    slot->was_free = false;
}
