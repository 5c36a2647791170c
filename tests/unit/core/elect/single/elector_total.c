/* What all electors have in common: each refuses settings that make no sense, ignores events that
 * do not concern it, and does nothing after it was stopped. */
#include "one_elector.h"

/* Runs `story` for each elector, started and without a leader. */
static void with_every_elector(void (*story)(struct world *w))
{
    const struct bw_elector_ops *ops;
    for (unsigned i = 0; (ops = bw_elector_at(i)); i++) {
        struct world w;
        prepare(&w, ops);
        assert_int_equal(open(&w), 0);
        start(&w, true);
        story(&w);
        close_world(&w);
    }
}

static int tried(struct world *w)
{
    int error = open(w);
    close_world(w);
    return error;
}

static void every_elector_refuses_senseless_members(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    for (unsigned i = 0; (ops = bw_elector_at(i)); i++) {
        struct world w;
        prepare(&w, ops);
        w.members[1].id = 1; /* twice, and without ourselves */
        assert_int_equal(tried(&w), BW_EINVAL);
        if (ops == &bw_elect_raft) /* whose members are those of its log */
            continue;
        prepare(&w, ops);
        w.config.self = 9;
        assert_int_equal(tried(&w), BW_EINVAL);
        prepare(&w, ops);
        w.config.cap = BW_ELECTOR_MEMBERS_MAX + 1;
        assert_int_equal(tried(&w), BW_ELIMIT);
    }
}

static void commands_of_raft(struct world *w)
{
    static const enum bw_command_kind kinds[] = {BW_COMMAND_PROPOSE, BW_COMMAND_CHANGE,
                                                 BW_COMMAND_READ, BW_COMMAND_COMPACT};
    for (unsigned k = 0; k < 4 && w->ops != &bw_elect_raft; k++)
        ignores(w, (struct bw_event){.kind = BW_EVENT_COMMAND, .command = {.kind = kinds[k]}},
                "a command of Raft");
}

static void electors_without_a_log_ignore_its_commands(void **state)
{
    (void)state;
    with_every_elector(commands_of_raft);
}

static void foreign_events(struct world *w)
{
    ignores(w, (struct bw_event){.kind = BW_EVENT_PERSISTED}, "PERSISTED");
    struct bw_message msg = {.kind = BW_MSG_HEARTBEAT, .from = 1, .to = 2};
    ignores(w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg}, "a detector's message");
    msg = (struct bw_message){.kind = BW_MSG_STORE_ASK, .from = 1, .to = 2};
    ignores(w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg}, "a store's message");
    if (w->ops == &bw_elect_lowest) /* every event about members may show it a first leader */
        return;
    ignores(w, (struct bw_event){.kind = BW_EVENT_LEAVE, .node = 9}, "the leave of a nonmember");
    ignores(w, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 9},
            "the death of a nonmember");
}

static void events_of_others_are_ignored(void **state)
{
    (void)state;
    with_every_elector(foreign_events);
}

static void from_nonmembers(struct world *w)
{
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        if (w->ops == &bw_elect_raft || bw_message_for_detector(kind))
            continue; /* Raft answers nonmembers: entries that it lacks may add them */
        bw_node list[1] = {9};
        struct bw_message msg = {.kind = (uint8_t)kind,
                                 .from = 9,
                                 .to = 2,
                                 .term = 5,
                                 .data = list,
                                 .items = bw_message_item_size(kind) == sizeof list[0]};
        ignores(w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg}, bw_message_name(kind));
    }
}

static void messages_of_nonmembers_are_ignored(void **state)
{
    (void)state;
    with_every_elector(from_nonmembers);
}

static void after_stop(struct world *w)
{
    static const enum bw_event_kind kinds[] = {
        BW_EVENT_TIMEOUT,        BW_EVENT_JOIN, BW_EVENT_LEAVE,   BW_EVENT_SUSPECT, BW_EVENT_TRUST,
        BW_EVENT_CONFIRMED_DEAD, BW_EVENT_HINT, BW_EVENT_COMMAND, BW_EVENT_STOP};
    step(w, (struct bw_event){.kind = BW_EVENT_STOP});
    assert_true(w->ops->deadline(w->memory) == BW_TIME_NEVER);
    for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        ignores(w, (struct bw_event){.kind = kinds[k], .node = 1}, "an event after STOP");
    struct bw_message msg = {.kind = BW_MSG_ELECTION, .from = 1, .to = 2, .term = 5};
    ignores(w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg}, "a message after STOP");
    struct bw_elector_status status;
    w->ops->status(w->memory, &status);
    assert_false(status.leading);
}

static void stopped_electors_do_nothing(void **state)
{
    (void)state;
    with_every_elector(after_stop);
}

static void full_group(struct world *w)
{
    if (w->ops == &bw_elect_raft)
        return;
    about(w, BW_EVENT_JOIN, 4);
    about(w, BW_EVENT_JOIN, 5);
    ignores(w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 6, .member = {.id = 6}},
            "a member beyond its capacity");
}

static void member_beyond_the_capacity_is_ignored(void **state)
{
    (void)state;
    with_every_elector(full_group);
}

/* Node 2 is alone: all others are dead. */
static void alone(struct world *w)
{
    for (bw_node id = 1; id <= MEMBERS; id += 2)
        step(w, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = id});
    step(w, (struct bw_event){.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_CAMPAIGN}});
    for (int i = 0; i < 200 && w->ops->deadline(w->memory) < BW_TIME_NEVER; i++) {
        w->now = bw_time_max(w->now, w->ops->deadline(w->memory));
        step(w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    }
    struct bw_elector_status status;
    w->ops->status(w->memory, &status);
    bool splits = w->ops->traits & BW_TRAIT_MAY_SPLIT;
    if (status.leading != splits)
        fail_msg("%s: the only live member %s", w->ops->name, splits ? "does not lead" : "leads");
    if (!splits)
        return;
    ignores(w,
            (struct bw_event){.kind = BW_EVENT_COMMAND,
                              .command = {.kind = BW_COMMAND_TRANSFER, .node = 9}},
            "a transfer to a nonmember");
    ignores(w,
            (struct bw_event){.kind = BW_EVENT_COMMAND,
                              .command = {.kind = BW_COMMAND_TRANSFER, .node = 2}},
            "a transfer to itself");
    if (w->ops->ready) {
        assert_false(w->ops->ready(w->memory, 9));
        assert_false(w->ops->ready(w->memory, 1)); /* suspected */
    }
}

static void a_lonely_member_leads_only_where_two_sides_may(void **state)
{
    (void)state;
    with_every_elector(alone);
}

static void not_leading(struct world *w)
{
    ignores(w, (struct bw_event){.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_RESIGN}},
            "RESIGN without leadership");
    ignores(w,
            (struct bw_event){.kind = BW_EVENT_COMMAND,
                              .command = {.kind = BW_COMMAND_TRANSFER, .node = 3}},
            "TRANSFER without leadership");
}

static void only_a_leader_gives_up_leadership(void **state)
{
    (void)state;
    with_every_elector(not_leading);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_elector_refuses_senseless_members),
        cmocka_unit_test(electors_without_a_log_ignore_its_commands),
        cmocka_unit_test(events_of_others_are_ignored),
        cmocka_unit_test(messages_of_nonmembers_are_ignored),
        cmocka_unit_test(stopped_electors_do_nothing),
        cmocka_unit_test(member_beyond_the_capacity_is_ignored),
        cmocka_unit_test(a_lonely_member_leads_only_where_two_sides_may),
        cmocka_unit_test(only_a_leader_gives_up_leadership),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
