/* Standing in line, on stores that serve candidates in order.
 *
 * There nobody is asked twice who comes next: the first in line leads, and who may not or will not
 * lead must not stand there. So a candidate enters the line when somebody else leads, leaves it
 * when it is not healthy, and when it is its turn and it stands back for others (a named successor,
 * a better candidate, something it cannot clear), it goes to the end of the line, once, so that
 * those behind it get theirs. If it is then first again, nobody wanted it, and it waits where it
 * stands. */
#include "base/bug.h"
#include "lease/lease_state.h"

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

bool lease_on_enter_answer(struct bw_lease *l, const struct bw_store_reply *reply)
{
    if (reply->id != l->enter.id)
        return false;
    l->enter.id = 0;
    if (reply->outcome != BW_OUTCOME_DONE) /* tried again with the next look */
        l->in_line = false;
    return true;
}
