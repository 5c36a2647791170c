/* Standing in line, on stores that serve candidates in order.
 *
 * There nobody is asked twice who comes next: the first in line leads, and who may not or will not
 * lead must not stand there. So a candidate enters the line when somebody else leads, leaves it
 * when it is not healthy, and when it is its turn and it stands back for others (a named successor,
 * a better candidate, something it cannot clear), it goes to the end of the line, once, so that
 * those behind it get theirs. If it is then first again, nobody wanted it, and it waits where it
 * stands. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/lease/state.h"

#include <string.h>

void lease_enter(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    lease_ask(l, &l->enter, BW_STORE_ENTER, now, actions)->value = l->config.value;
    l->in_line = true;
}

static void leave(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    lease_ask(l, NULL, BW_STORE_LEAVE, now, actions);
    l->in_line = false;
}

void lease_line_up(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    if (!(l->config.traits & BW_STORE_QUEUE) || l->config.observer || l->stopping)
        return;
    if (l->unhealthy) {
        if (l->in_line)
            leave(l, now, actions);
    } else if (l->seen.held) {
        l->stood_back = false;
        if (!l->in_line)
            lease_enter(l, now, actions);
    } else if (l->in_line && !l->stood_back && !BW_BUG(lease_keeps_its_turn)) {
        l->stood_back = true;
        leave(l, now, actions);
        lease_enter(l, now, actions);
    }
}

static void tell_duplicate(struct bw_lease *l, struct bw_lease_actions *actions)
{
    if (l->duplicate_told)
        return;
    l->duplicate_told = true;
    lease_act(actions, BW_LEASE_DUPLICATE)->leader = l->config.candidate;
}

bool lease_on_enter_answer(struct bw_lease *l, const struct bw_store_reply *reply,
                           struct bw_lease_actions *actions)
{
    if (reply->id != l->enter.id)
        return false;
    l->enter.id = 0;
    l->registered = reply->outcome == BW_OUTCOME_DONE;
    if (!l->registered) /* tried again with the next look */
        l->in_line = false;
    bool taken = reply->outcome == BW_OUTCOME_REFUSED && reply->error == BW_EBUSY;
    l->refusals = taken ? l->refusals + 1 : 0;
    if (l->refusals >= 2) /* the first time it may be a process of ours that is about to end */
        tell_duplicate(l, actions);
    return true;
}

void lease_register(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    bool races = (l->config.traits & BW_STORE_LISTS) && !(l->config.traits & BW_STORE_QUEUE);
    if (races && !l->config.observer && !l->stopping && !l->registered &&
        now >= bw_time_add(l->enter.sent, l->config.terms.ttl_ns))
        lease_enter(l, now, actions);
}

/* A record that is renewed has a living holder; two renewals, since one may have been on its way
 * when its sender died. Where the server expires leases, one that is still held after two TTLs. */
static bool shows_life(const struct bw_lease *l, bw_time now)
{
    bw_time ttl = bw_time_max(l->seen.ttl_ns, l->config.terms.ttl_ns);
    if (l->config.traits & BW_STORE_OBSERVED)
        return l->namesake.renewals >= 2;
    return now >= bw_time_add(bw_time_add(l->namesake.since, 2 * ttl), l->config.grace_ns);
}

void lease_look_for_namesake(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    const struct bw_store_record *seen = &l->seen;
    struct lease_namesake *other = &l->namesake;
    bool same = seen->held && seen->request != 0 && !lease_is_own_request(l, seen->request) &&
                strcmp(seen->holder, l->config.candidate) == 0;
    if (!same || BW_BUG(lease_knows_no_namesake)) {
        other->request = 0;
        return;
    }
    if (other->request != seen->request)
        *other = (struct lease_namesake){.request = seen->request, .since = now};
    else if (other->version != seen->version && other->note_serial == seen->note.serial)
        other->renewals++;
    other->version = seen->version;
    other->note_serial = seen->note.serial;
    if (shows_life(l, now))
        tell_duplicate(l, actions);
}
