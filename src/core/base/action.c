/* Helpers that add actions to a list. */
#include "core/base/action.h"

#include <string.h>

struct bw_message *bw_actions_send(struct bw_actions *actions, enum bw_message_kind kind,
                                   bw_node from, bw_node to, bw_term term)
{
    struct bw_message *msg = &bw_actions_add(actions, BW_ACTION_SEND)->msg;
    memset(msg, 0, bw_message_used(kind));
    msg->kind = (uint8_t)kind;
    msg->from = from;
    msg->to = to;
    msg->term = term;
    return msg;
}

void bw_actions_persist(struct bw_actions *actions, const struct bw_durable *durable)
{
    bw_actions_add(actions, BW_ACTION_PERSIST)->durable = *durable;
}

void bw_actions_announce(struct bw_actions *actions, const struct bw_announcement *announcement)
{
    bw_actions_add(actions, BW_ACTION_ANNOUNCE)->announce = *announcement;
}

void bw_actions_trace(struct bw_actions *actions, enum bw_trace_code code, bw_node node, uint64_t a,
                      uint64_t b)
{
    struct bw_action *action = bw_actions_add(actions, BW_ACTION_TRACE);
    action->trace = (struct bw_trace_note){.code = code, .node = node, .a = a, .b = b};
}
