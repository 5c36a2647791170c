/* An instance passes each event to the modules it concerns, and spreads leadership if asked to. The
 * detector and the electors are fakes that record what they receive. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/elect/instance.h"

#include <stdlib.h>

#define PERIOD (100 * BW_MS)

struct fake { /* the state of a fake module */
    struct bw_event last;
    unsigned steps;
    bw_time deadline;
    const struct bw_start *start;
};

static struct fake *of(void *self)
{
    return self;
}

static size_t elector_bytes(const struct bw_elector_config *config)
{
    (void)config;
    return sizeof(struct fake);
}

static uint32_t elector_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return 2;
}

static int elector_init(void *memory, const struct bw_elector_config *config)
{
    *of(memory) = (struct fake){.deadline = BW_TIME_NEVER};
    return config->quorum ? BW_EINVAL : 0;
}

/* Announces on CAMPAIGN and sends on HINT. */
static void elector_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    of(self)->last = *event;
    of(self)->steps++;
    if (event->kind == BW_EVENT_START)
        of(self)->start = event->start;
    if (event->kind == BW_EVENT_COMMAND && event->command.kind == BW_COMMAND_CAMPAIGN)
        bw_actions_announce(actions, &(struct bw_announcement){.leader = event->command.node});
    if (event->kind == BW_EVENT_HINT)
        bw_actions_send(actions, BW_MSG_OK, 1, 2, 3);
}

static bw_time elector_deadline(const void *self)
{
    return ((const struct fake *)self)->deadline;
}

static void elector_status(const void *self, struct bw_elector_status *out)
{
    *out = (struct bw_elector_status){.term = ((const struct fake *)self)->steps};
}

static bool no_node(const void *self, bw_node node)
{
    (void)self;
    (void)node;
    return false;
}

static bool only_node_2(const void *self, bw_node node)
{
    (void)self;
    return node == 2;
}

static const struct bw_elector_ops elector = {.name = "fake",
                                              .traits = BW_TRAIT_MAY_SPLIT,
                                              .bytes = elector_bytes,
                                              .actions_max = elector_actions_max,
                                              .init = elector_init,
                                              .step = elector_step,
                                              .deadline = elector_deadline,
                                              .status = elector_status};

static size_t detector_bytes(const struct bw_detector_config *config)
{
    (void)config;
    return sizeof(struct fake);
}

static uint32_t detector_actions_max(const struct bw_detector_config *config)
{
    (void)config;
    return 4;
}

static int detector_init(void *memory, const struct bw_detector_config *config)
{
    *of(memory) = (struct fake){.deadline = BW_TIME_NEVER};
    return config->fanout == 99 ? BW_EINVAL : 0;
}

/* On a heartbeat it trusts the sender; on a failed send it suspects the receiver. */
static void detector_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    of(self)->last = *event;
    of(self)->steps++;
    if (event->kind == BW_EVENT_MESSAGE) {
        bw_actions_add(actions, BW_ACTION_TRUST)->node = event->msg->from;
        bw_actions_send(actions, BW_MSG_ACK, 1, 2, 0);
    } else if (event->kind == BW_EVENT_SEND_FAILED) {
        bw_actions_add(actions, BW_ACTION_SUSPECT)->node = event->msg->to;
    }
}

static double detector_level(const void *self, bw_node node, bw_time now)
{
    (void)self, (void)now;
    return node;
}

static enum bw_member_status detector_member(const void *self, bw_node node)
{
    (void)self;
    return node == 2 ? BW_MEMBER_SUSPECT : BW_MEMBER_ALIVE;
}

static const struct bw_detector_ops detector = {.name = "fake",
                                                .bytes = detector_bytes,
                                                .actions_max = detector_actions_max,
                                                .init = detector_init,
                                                .step = detector_step,
                                                .deadline = elector_deadline,
                                                .level = detector_level,
                                                .member = detector_member};

#define ELECTIONS 4u

struct world {
    struct bw_elector_ops ops; /* of all elections; a copy that a test may change */
    struct bw_member members[3];
    bw_node ids[3];
    struct bw_instance_election elections[ELECTIONS];
    struct bw_instance_config config;
    struct bw_instance *instance;
    void *memory;
    struct bw_action at[64];
    struct bw_actions actions;
};

/* Node 1 of three, with four elections. */
static void prepare(struct world *w)
{
    *w = (struct world){.ops = elector};
    for (uint32_t i = 0; i < 3; i++) {
        w->members[i] = (struct bw_member){.id = i + 1};
        w->ids[i] = i + 1;
    }
    for (uint32_t i = 0; i < ELECTIONS; i++)
        w->elections[i] = (struct bw_instance_election){
            .ops = &w->ops,
            .config = {
                .self = 1, .members = w->members, .count = 3, .cap = 3, .period_ns = PERIOD}};
    w->config = (struct bw_instance_config){
        .detector = &detector,
        .detect = {.self = 1, .members = w->ids, .count = 3, .cap = 3, .period_ns = PERIOD},
        .elections = w->elections,
        .count = ELECTIONS};
}

static int open(struct world *w)
{
    w->memory = calloc(1, bw_instance_bytes(&w->config) + 16);
    return bw_instance_init(&w->instance, w->memory, &w->config);
}

static void step(struct world *w, struct bw_event event)
{
    w->actions = (struct bw_actions){.at = w->at, .cap = 64};
    bw_instance_step(w->instance, &event, &w->actions);
    assert_true(w->actions.count <= bw_instance_actions_max(&w->config));
}

static struct fake *at(struct world *w, uint32_t election)
{
    return bw_instance_elector(w->instance, election);
}

static const struct bw_action *first(const struct world *w, enum bw_action_kind kind)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == kind)
            return &w->at[i];
    return NULL;
}

static void senseless_instances_are_refused(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(bw_instance_init(&w.instance, NULL, &w.config), BW_ENOMEM);
    w.config.count = BW_ELECTIONS_MAX + 1;
    assert_int_equal(bw_instance_init(&w.instance, NULL, &w.config), BW_ELIMIT);
    prepare(&w);
    w.config.spread = true;
    w.config.detector = NULL;
    assert_int_equal(bw_instance_init(&w.instance, NULL, &w.config), BW_EINVAL);
    w.config.detector = &detector;
    w.config.count = 0;
    assert_int_equal(bw_instance_init(&w.instance, NULL, &w.config), BW_EINVAL);
    prepare(&w);
    w.config.detect.fanout = 99; /* the detector refuses */
    assert_int_equal(open(&w), BW_EINVAL);
    free(w.memory);
    prepare(&w);
    w.elections[1].config.quorum = 1; /* the second elector refuses */
    assert_int_equal(open(&w), BW_EINVAL);
    free(w.memory);
}

static void verdicts_of_the_detector_reach_every_elector_in_the_same_step(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    struct bw_message msg = {.kind = BW_MSG_HEARTBEAT, .from = 3, .to = 1};
    step(&w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg, .now = 7});
    for (uint32_t i = 0; i < ELECTIONS; i++) {
        assert_int_equal(at(&w, i)->steps, 1);
        assert_int_equal(at(&w, i)->last.kind, BW_EVENT_TRUST);
        assert_int_equal(at(&w, i)->last.node, 3);
        assert_int_equal(at(&w, i)->last.now, 7);
    }
    msg = (struct bw_message){.kind = BW_MSG_HEARTBEAT, .from = 1, .to = 2};
    step(&w, (struct bw_event){.kind = BW_EVENT_SEND_FAILED, .msg = &msg});
    assert_int_equal(at(&w, 3)->last.kind, BW_EVENT_SUSPECT);
    assert_int_equal(at(&w, 3)->last.node, 2);
    free(w.memory);
}

static void messages_and_commands_reach_their_own_elector(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    struct bw_message msg = {.kind = BW_MSG_OK, .from = 3, .to = 1, .election = 2};
    step(&w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg});
    assert_int_equal(at(&w, 2)->steps, 1);
    assert_int_equal(at(&w, 1)->steps, 0);
    msg.election = ELECTIONS;
    step(&w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg});
    assert_int_equal(first(&w, BW_ACTION_TRACE)->trace.code, BW_TRACE_IGNORED_NOT_A_MEMBER);
    step(&w, (struct bw_event){.kind = BW_EVENT_COMMAND,
                               .command = {.kind = BW_COMMAND_CAMPAIGN, .election = 3, .node = 2}});
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->election, 3);
    step(&w, (struct bw_event){.kind = BW_EVENT_PERSISTED, .election = 1});
    assert_int_equal(at(&w, 1)->last.kind, BW_EVENT_PERSISTED);
    assert_int_equal(((struct fake *)bw_instance_detector(w.instance))->steps, 0);
    assert_null(bw_instance_elector(w.instance, ELECTIONS));
    free(w.memory);
}

static void sent_messages_carry_the_number_of_their_elector(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    step(&w, (struct bw_event){.kind = BW_EVENT_HINT, .node = 2});
    assert_int_equal(w.actions.count, ELECTIONS);
    for (uint16_t i = 0; i < ELECTIONS; i++)
        assert_int_equal(w.at[i].msg.election, i);
    free(w.memory);
}

static void events_about_members_reach_all_modules(void **state)
{
    (void)state;
    static const enum bw_event_kind kinds[] = {BW_EVENT_JOIN, BW_EVENT_LEAVE, BW_EVENT_HINT,
                                               BW_EVENT_STOP, BW_EVENT_CONFIRMED_DEAD};
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    struct fake *seen = bw_instance_detector(w.instance);
    for (unsigned i = 0; i < 5; i++) {
        step(&w, (struct bw_event){.kind = kinds[i], .node = 2, .member = {.id = 2}});
        assert_int_equal(seen->last.kind, kinds[i]);
        assert_int_equal(at(&w, 3)->last.kind, kinds[i]);
    }
    unsigned steps = seen->steps;
    step(&w, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 2}); /* a verdict from outside */
    step(&w, (struct bw_event){.kind = BW_EVENT_TRUST, .node = 2});
    assert_int_equal(seen->steps, steps);
    assert_int_equal(at(&w, 3)->last.kind, BW_EVENT_TRUST);
    free(w.memory);
}

/* The work of one election is dead. A leader that resigns or hands over is alive, so an elector
 * without promises must not learn of it. */
static void dead_work_reaches_its_own_elector_unless_its_node_runs(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    struct bw_event dead = {
        .kind = BW_EVENT_CONFIRMED_DEAD, .node = 2, .alone = true, .election = 1};
    step(&w, dead);
    assert_int_equal(at(&w, 1)->steps, 1);
    assert_int_equal(at(&w, 0)->steps, 0);
    dead.runs = true;
    step(&w, dead);
    assert_int_equal(at(&w, 1)->steps, 1);
    w.ops.traits = 0; /* an elector with promises */
    step(&w, dead);
    assert_int_equal(at(&w, 1)->steps, 2);
    dead.election = ELECTIONS;
    step(&w, dead);
    assert_non_null(first(&w, BW_ACTION_TRACE));
    free(w.memory);
}

static void timers_step_only_the_modules_that_are_due(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    struct fake *seen = bw_instance_detector(w.instance);
    assert_int_equal(bw_instance_deadline(w.instance), BW_TIME_NEVER);
    seen->deadline = 30;
    at(&w, 1)->deadline = 20;
    at(&w, 2)->deadline = 40;
    assert_int_equal(bw_instance_deadline(w.instance), 20);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = 20});
    assert_int_equal(at(&w, 1)->steps, 1);
    assert_int_equal(seen->steps, 0);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = 35});
    assert_int_equal(seen->steps, 1);
    assert_int_equal(at(&w, 2)->steps, 0);
    free(w.memory);
}

static void each_elector_starts_with_its_own_record(void **state)
{
    (void)state;
    struct world w;
    struct bw_start starts[ELECTIONS] = {{.passive = false}};
    prepare(&w);
    assert_int_equal(open(&w), 0);
    step(&w, (struct bw_event){.kind = BW_EVENT_START, .start = starts});
    for (uint32_t i = 0; i < ELECTIONS; i++)
        assert_ptr_equal(at(&w, i)->start, &starts[i]);
    assert_int_equal(((struct fake *)bw_instance_detector(w.instance))->steps, 1);
    free(w.memory);
}

static void without_a_detector_every_member_is_alive(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    assert_int_equal(bw_instance_member(w.instance, 2), BW_MEMBER_SUSPECT);
    assert_true(bw_instance_level(w.instance, 2, 0) == 2);
    struct bw_elector_status status;
    bw_instance_status(w.instance, 1, &status);
    assert_int_equal(status.term, 0);
    free(w.memory);
    w.config.detector = NULL;
    assert_int_equal(open(&w), 0);
    assert_int_equal(bw_instance_member(w.instance, 2), BW_MEMBER_ALIVE);
    assert_true(bw_instance_level(w.instance, 2, 0) == 0);
    assert_int_equal(bw_instance_deadline(w.instance), BW_TIME_NEVER);
    step(&w, (struct bw_event){.kind = BW_EVENT_LEAVE, .node = 2});
    assert_int_equal(at(&w, 0)->steps, 1);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = 1});
    assert_int_equal(at(&w, 0)->steps, 1);
    free(w.memory);
}

static void elector_decides_who_is_ready_for_a_transfer(void **state)
{
    (void)state;
    struct world w;
    prepare(&w);
    assert_int_equal(open(&w), 0);
    assert_true(bw_instance_ready(w.instance, 0, 3));
    w.ops.ready = only_node_2;
    assert_true(bw_instance_ready(w.instance, 0, 2));
    assert_false(bw_instance_ready(w.instance, 0, 3));
    free(w.memory);
}

/* ---- spreading ---- */

static void open_spread(struct world *w)
{
    prepare(w);
    w->config.spread = true;
    w->members[2].ordinary = true; /* node 3 is not a candidate */
    assert_int_equal(open(w), 0);
}

static bw_node next_after(struct world *w, struct bw_event event, uint32_t election)
{
    step(w, event);
    return at(w, election)->last.next_leader;
}

static void events_name_the_member_that_should_lead_next(void **state)
{
    (void)state;
    struct world w;
    struct bw_start starts[ELECTIONS] = {{.passive = false}};
    open_spread(&w);
    unsigned for_1 = 0;
    for (uint32_t i = 0; i < ELECTIONS; i++) {
        bw_node next =
            next_after(&w, (struct bw_event){.kind = BW_EVENT_START, .start = starts}, i);
        assert_true(next == 1 || next == 2); /* never node 3 */
        for_1 += next == 1;
    }
    assert_int_equal(for_1, 2);
    static const enum bw_event_kind gone[] = {BW_EVENT_HINT, BW_EVENT_CONFIRMED_DEAD,
                                              BW_EVENT_SUSPECT};
    for (unsigned k = 0; k < 3; k++)
        for (uint32_t i = 0; i < ELECTIONS; i++)
            assert_int_equal(next_after(&w, (struct bw_event){.kind = gone[k], .node = 2}, i), 1);
    step(&w, (struct bw_event){.kind = BW_EVENT_TRUST, .node = 2});
    assert_int_equal(at(&w, 0)->last.next_leader, BW_NODE_NONE);
    for (uint32_t i = 0; i < ELECTIONS; i++)
        assert_int_equal(next_after(&w, (struct bw_event){.kind = BW_EVENT_STOP}, i), 2);
    struct bw_event command = {.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_RESIGN}};
    assert_int_equal(next_after(&w, command, 0), 2);
    command.command.kind = BW_COMMAND_TRANSFER;
    assert_int_equal(next_after(&w, command, 0), BW_NODE_NONE);
    step(&w, (struct bw_event){.kind = BW_EVENT_LEAVE, .node = 2});
    assert_int_equal(next_after(&w, (struct bw_event){.kind = BW_EVENT_STOP}, 0), BW_NODE_NONE);
    free(w.memory);
}

/* Node 1 leads everything; half of it belongs to node 2. */
static void surplus_elections_are_moved_one_by_one(void **state)
{
    (void)state;
    struct world w;
    open_spread(&w);
    for (uint16_t i = 0; i < ELECTIONS; i++)
        step(&w,
             (struct bw_event){.kind = BW_EVENT_COMMAND,
                               .command = {.kind = BW_COMMAND_CAMPAIGN, .election = i, .node = 1}});
    bw_time now = bw_instance_deadline(w.instance);
    assert_true(now < BW_TIME_NEVER);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now - 1});
    assert_null(first(&w, BW_ACTION_MOVE));
    step(&w, (struct bw_event){.kind = BW_EVENT_PERSISTED, .now = now}); /* only timers move */
    assert_null(first(&w, BW_ACTION_MOVE));
    w.ops.ready = no_node;
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    assert_null(first(&w, BW_ACTION_MOVE));
    now = bw_instance_deadline(w.instance);
    w.ops.ready = only_node_2;
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    assert_int_equal(first(&w, BW_ACTION_MOVE)->node, 2);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    assert_null(first(&w, BW_ACTION_MOVE)); /* not two at once */
    free(w.memory);
}

static void members_that_join_or_are_trusted_again_get_their_share(void **state)
{
    (void)state;
    struct world w;
    open_spread(&w);
    struct bw_event stop = {.kind = BW_EVENT_STOP};
    struct bw_message msg = {.kind = BW_MSG_HEARTBEAT, .from = 1, .to = 2};
    step(&w, (struct bw_event){.kind = BW_EVENT_SEND_FAILED, .msg = &msg}); /* suspected */
    assert_int_equal(next_after(&w, stop, 0), BW_NODE_NONE);
    msg = (struct bw_message){.kind = BW_MSG_HEARTBEAT, .from = 2, .to = 1};
    step(&w, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg}); /* trusted */
    assert_int_equal(next_after(&w, stop, 0), 2);
    step(&w, (struct bw_event){.kind = BW_EVENT_LEAVE, .node = 2});
    step(&w, (struct bw_event){
                 .kind = BW_EVENT_JOIN, .node = 2, .member = {.id = 2, .ordinary = true}});
    assert_int_equal(next_after(&w, stop, 0), BW_NODE_NONE); /* not as a candidate */
    step(&w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 2, .member = {.id = 2}});
    assert_int_equal(next_after(&w, stop, 0), 2);
    free(w.memory);
}

/* A newcomer may have promised before its restart, so it gets nothing for the promise and an
 * eighth. */
static void newcomers_wait_longer_if_the_elector_promises(void **state)
{
    (void)state;
    bw_time waits[2];
    for (unsigned promises = 0; promises < 2; promises++) {
        struct world w;
        prepare(&w);
        w.config.spread = true;
        w.config.detect.count = 1;
        w.ops.traits = promises ? 0 : BW_TRAIT_MAY_SPLIT;
        for (uint32_t i = 0; i < ELECTIONS; i++)
            w.elections[i].config.promise_ns = 8 * BW_SEC;
        assert_int_equal(open(&w), 0);
        for (uint16_t i = 0; i < ELECTIONS; i++)
            step(&w, (struct bw_event){
                         .kind = BW_EVENT_COMMAND,
                         .command = {.kind = BW_COMMAND_CAMPAIGN, .election = i, .node = 1}});
        step(&w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 2, .member = {.id = 2}});
        waits[promises] = bw_instance_deadline(w.instance);
        free(w.memory);
    }
    assert_int_equal(waits[0], 5 * PERIOD);
    assert_int_equal(waits[1], 9 * BW_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_instances_are_refused),
        cmocka_unit_test(verdicts_of_the_detector_reach_every_elector_in_the_same_step),
        cmocka_unit_test(messages_and_commands_reach_their_own_elector),
        cmocka_unit_test(sent_messages_carry_the_number_of_their_elector),
        cmocka_unit_test(events_about_members_reach_all_modules),
        cmocka_unit_test(dead_work_reaches_its_own_elector_unless_its_node_runs),
        cmocka_unit_test(timers_step_only_the_modules_that_are_due),
        cmocka_unit_test(each_elector_starts_with_its_own_record),
        cmocka_unit_test(without_a_detector_every_member_is_alive),
        cmocka_unit_test(elector_decides_who_is_ready_for_a_transfer),
        cmocka_unit_test(events_name_the_member_that_should_lead_next),
        cmocka_unit_test(surplus_elections_are_moved_one_by_one),
        cmocka_unit_test(members_that_join_or_are_trusted_again_get_their_share),
        cmocka_unit_test(newcomers_wait_longer_if_the_elector_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
