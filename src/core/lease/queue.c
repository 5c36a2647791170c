/* The candidate's place in the queue, on stores that serve candidates in order; and the detection
 * of another candidate with the same id.
 *
 * The first candidate in the queue becomes leader without another question. A candidate that may
 * not or does not want to lead must therefore not be in the queue:
 * - A candidate enters the queue when another candidate leads.
 * - An unhealthy candidate leaves the queue.
 * - A candidate may yield at its turn: to a named successor, to a higher priority, or because it
 *   cannot clean up a predecessor's work. It then moves to the end of the queue once, so that
 *   the others get their turn. If it becomes first again, no other candidate took over, and it
 *   stays. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/lease/state.h"

#include <string.h>

void lease_enter(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    lease_ask(l, &l->enter, BW_STORE_ENTER, now, actions)->value = l->config.value;
    l->queued = true;
}

static void leave(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    lease_ask(l, NULL, BW_STORE_LEAVE, now, actions);
    l->queued = false;
}

void lease_update_queue(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if (!(l->config.traits & BW_STORE_QUEUE) || l->config.observer || BW_NEVER(l->stopping))
        return;
    if (l->unhealthy) {
        if (l->queued)
            leave(l, now, actions);
    } else if (l->seen.held) {
        l->yielded = false;
        if (!l->queued)
            lease_enter(l, now, actions);
    } else if (l->queued && !l->yielded && !BW_BUG(lease_keeps_its_turn)) {
        l->yielded = true;
        leave(l, now, actions);
        lease_enter(l, now, actions);
    }
}

static void report_duplicate(struct bw_lease *l, struct bw_lease_actions *actions)
{
    if (l->duplicate_reported)
        return;
    l->duplicate_reported = true;
    lease_act(actions, BW_LEASE_DUPLICATE)->leader = l->config.candidate;
}

bool lease_on_enter_answer(struct bw_lease *l, const struct bw_store_reply *reply,
                           struct bw_lease_actions *actions)
{
    if (reply->id != l->enter.id)
        return false;
    l->enter.id = 0;
    l->registered = reply->outcome == BW_OUTCOME_DONE;
    if (!l->registered) /* ENTER is retried after the next read */
        l->queued = false;
    bool taken = reply->outcome == BW_OUTCOME_REFUSED && reply->error == BW_EBUSY;
    l->refusals = taken ? l->refusals + 1 : 0;
    if (l->refusals >= 2) /* the first time it may be an earlier process of ours that is still
                           * ending */
        report_duplicate(l, actions);
    return true;
}

void lease_register(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    bool races = (l->config.traits & BW_STORE_LISTS) && !(l->config.traits & BW_STORE_QUEUE);
    if (races && !l->config.observer && BW_ALWAYS(!l->stopping) && !l->registered &&
        now >= bw_time_add(l->enter.sent, l->config.terms.ttl_ns))
        lease_enter(l, now, actions);
}

/* A record that is renewed has a running holder. Two renewals are required, since one may have been
 * in flight when its sender died. Where the server expires leases, a record that is still held
 * after two TTLs has a running holder. */
static bool is_running(const struct bw_lease *l, bw_time now)
{
    bw_time ttl = bw_time_max(l->seen.ttl_ns, l->config.terms.ttl_ns);
    if (l->config.traits & BW_STORE_OBSERVED)
        return l->duplicate.renewals >= 2;
    return now >= bw_time_add(bw_time_add(l->duplicate.since, 2 * ttl), l->config.grace_ns);
}

void lease_check_duplicate(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    const struct bw_store_record *seen = &l->seen;
    struct lease_duplicate *other = &l->duplicate;
    bool same = seen->held && seen->request != 0 && !lease_is_own_request(l, seen->request) &&
                strcmp(seen->holder, l->config.candidate) == 0;
    if (!same || BW_BUG(lease_ignores_duplicate_id)) {
        other->request = 0;
        return;
    }
    if (other->request != seen->request)
        *other = (struct lease_duplicate){.request = seen->request, .since = now};
    else if (other->version != seen->version && other->note_serial == seen->note.serial)
        other->renewals++;
    other->version = seen->version;
    other->note_serial = seen->note.serial;
    if (is_running(l, now))
        report_duplicate(l, actions);
}
