/* Tests the world from its nodes' view: what a barrier holds back, what a pause delays, which nodes
 * can communicate, when a run ends. */
#include "sim_probe.h"

#include <stdlib.h>

/* What the observer saw. */
static struct {
    uint32_t delivered, sent, announced, faulted;
    bw_time delivered_at[64], announced_at[64];
    uint64_t terms[64];
} seen;

static void saw_delivered(void *context, bw_time at, const struct bw_message *msg)
{
    (void)context;
    if (seen.delivered < 64) {
        seen.delivered_at[seen.delivered] = at;
        seen.terms[seen.delivered] = msg->term;
    }
    seen.delivered++;
}

static void saw_announced(void *context, bw_time at, bw_node node, uint32_t election,
                          const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    (void)context, (void)node, (void)election, (void)a, (void)act_from, (void)act_until;
    if (seen.announced < 64)
        seen.announced_at[seen.announced] = at;
    seen.announced++;
}

static void saw_fault(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node)
{
    (void)context, (void)at, (void)fault, (void)node;
    seen.faulted++;
}

static const struct bw_sim_observer observer = {
    .delivered = saw_delivered, .announced = saw_announced, .faulted = saw_fault};

static int forget(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    return 0;
}

static void send(struct bw_actions *actions, bw_node from, bw_node to, bw_term term)
{
    bw_actions_send(actions, BW_MSG_ELECTION, from, to, term);
}

/* Node 1 sends, persists, sends, persists, sends. */
static void plan_barrier(struct probe *self, const struct bw_event *event,
                         struct bw_actions *actions)
{
    if (event->kind != BW_EVENT_START || self->self != 1)
        return;
    struct bw_durable record = {.term = event->start->durable.term + 1};
    send(actions, 1, 2, 1);
    bw_actions_persist(actions, &record);
    send(actions, 1, 2, 2);
    record.term++;
    bw_actions_persist(actions, &record);
    send(actions, 1, 2, 3);
}

static void actions_after_persist_wait_until_it_is_durable(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    probe_plan = plan_barrier;
    config.disk_min = config.disk_max = 5 * BW_MS;
    config.observer = &observer;
    probe_run(&config);
    assert_int_equal(seen.delivered, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(seen.terms[i], i + 1);
        assert_int_equal(seen.delivered_at[i], 10 * BW_MS + (bw_time)i * 5 * BW_MS);
    }
}

static void crash_before_durability_drops_the_held_actions(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    struct bw_sim_fault crash = {.kind = BW_FAULT_CRASH, .node = 1, .at = 3 * BW_MS};
    probe_plan = plan_barrier;
    config.disk_min = config.disk_max = 5 * BW_MS;
    config.faults = &crash;
    config.faults_count = 1;
    config.observer = &observer;
    probe_run(&config);
    assert_int_equal(seen.delivered, 1);
}

static void failed_write_kills_the_process_and_drops_held_actions(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_CRASH, .node = 1, .at = 0},
                                    {.kind = BW_FAULT_RESTART, .node = 1, .at = 100 * BW_MS},
                                    {.kind = BW_FAULT_DISK_FAIL, .node = 1, .at = 103 * BW_MS}};
    probe_plan = plan_barrier;
    config.disk_min = config.disk_max = 5 * BW_MS;
    config.faults = faults;
    config.faults_count = 3;
    config.observer = &observer;
    struct bw_sim_result result = probe_run(&config);
    assert_int_equal(result.delivered, 3); /* one of the first incarnation, two of the second */
    assert_int_equal(seen.faulted, 4);     /* the observer is notified of the death */
}

/* Node 1 stores in its record how often it was started, and sends that to node 2. */
static void plan_restart(struct probe *self, const struct bw_event *event,
                         struct bw_actions *actions)
{
    if (event->kind != BW_EVENT_START || self->self != 1)
        return;
    struct bw_durable record = event->start->durable;
    assert_int_equal(record.starts, record.term);
    record.term++;
    bw_actions_persist(actions, &record);
    send(actions, 1, 2, record.term);
}

static void restarted_node_gets_its_durable_state_and_start_count(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_CRASH, .node = 1, .at = 100 * BW_MS},
                                    {.kind = BW_FAULT_RESTART, .node = 1, .at = 200 * BW_MS},
                                    {.kind = BW_FAULT_CRASH, .node = 1, .at = 300 * BW_MS},
                                    {.kind = BW_FAULT_RESTART, .node = 1, .at = 400 * BW_MS}};
    probe_plan = plan_restart;
    config.faults = faults;
    config.faults_count = 4;
    config.observer = &observer;
    probe_run(&config);
    assert_int_equal(seen.delivered, 3);
    assert_int_equal(seen.terms[2], 3);
}

/* Every node sends to every node each 100 ms of its own time. */
static void plan_beat(struct probe *self, const struct bw_event *event, struct bw_actions *actions)
{
    if (event->kind != BW_EVENT_START && event->kind != BW_EVENT_TIMEOUT)
        return;
    assert_true(event->kind == BW_EVENT_START || event->now >= self->deadline);
    self->deadline = event->now + 100 * BW_MS;
    for (bw_node to = 1; to <= self->members; to++)
        if (to != self->self)
            send(actions, self->self, to, ++self->a);
}

static void paused_node_receives_waiting_messages_when_it_resumes(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_PAUSE, .node = 2, .at = 50 * BW_MS},
                                    {.kind = BW_FAULT_RESUME, .node = 2, .at = 550 * BW_MS}};
    probe_plan = plan_beat;
    config.faults = faults;
    config.faults_count = 2;
    config.until = 555 * BW_MS;
    config.observer = &observer;
    struct bw_sim_result result = probe_run(&config);
    assert_int_equal(result.sent, 6 + 2); /* 1: six beats; 2: at the start and on resuming */
    unsigned late = 0;
    for (unsigned i = 0; i < seen.delivered; i++)
        late += seen.delivered_at[i] == 550 * BW_MS;
    assert_int_equal(late, 5); /* the beats of 100..500 ms, all at once */
}

static void queue_of_a_paused_node_is_bounded(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(40);
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_PAUSE, .node = 2, .at = 50 * BW_MS},
                                    {.kind = BW_FAULT_RESUME, .node = 2, .at = 9 * BW_SEC}};
    probe_plan = plan_beat;
    config.faults = faults;
    config.faults_count = 2;
    config.until = 9 * BW_SEC;
    config.observer = &observer;
    struct bw_sim_result paused = probe_run(&config);
    config.faults_count = 0;
    struct bw_sim_result free_run = probe_run(&config);
    uint64_t to_it = UINT64_C(39) * 89, dropped = to_it - 1024;
    uint64_t unsent = free_run.sent - paused.sent; /* its own, while it was paused */
    assert_in_range(unsent, 39 * 88, 39 * 90);
    assert_in_range(free_run.delivered - paused.delivered, dropped + unsent - 80,
                    dropped + unsent + 80);
}

static void partitions_cuts_and_heals_control_delivery(void **state)
{
    (void)state;
    uint8_t sides[] = {0, 1, 1, 2};
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_PARTITION, .at = 50 * BW_MS, .groups = sides},
        {.kind = BW_FAULT_HEAL, .at = 150 * BW_MS},
        {.kind = BW_FAULT_CUT, .node = 1, .peer = 3, .at = 250 * BW_MS},
        {.kind = BW_FAULT_MEND, .node = 1, .peer = 3, .at = 350 * BW_MS}};
    struct bw_sim_config config = probe_world(3);
    probe_plan = plan_beat;
    config.faults = faults;
    config.faults_count = 4;
    config.until = 450 * BW_MS;
    struct bw_sim_result result = probe_run(&config);
    assert_int_equal(result.sent, 5 * 6);
    assert_int_equal(result.delivered, 5 * 6 - 4 - 1);
    assert_int_equal(result.failed_sends, 0); /* a partition is not reported to the sender */
}

static unsigned returned;

static void plan_return(struct probe *self, const struct bw_event *event,
                        struct bw_actions *actions)
{
    if (event->kind == BW_EVENT_START && self->self == 1)
        send(actions, 1, 2, 7);
    if (event->kind == BW_EVENT_SEND_FAILED) {
        assert_int_equal(event->msg->to, 2);
        assert_int_equal(event->msg->term, 7);
        returned++;
    }
}

static void send_to_a_dead_node_fails_when_the_transport_reports(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    bw_node dead = 2;
    probe_plan = plan_return;
    config.crashed = &dead;
    config.crashed_count = 1;
    config.until = 19 * BW_MS;
    returned = 0;
    assert_int_equal(probe_run(&config).failed_sends, 1);
    assert_int_equal(returned, 0); /* the round trip takes 20 ms */
    config.until = 20 * BW_MS;
    probe_run(&config);
    assert_int_equal(returned, 1);
    config.transport_reports = false;
    probe_run(&config);
    assert_int_equal(returned, 1);
}

static unsigned wakes;

static void plan_wake(struct probe *self, const struct bw_event *event, struct bw_actions *actions)
{
    (void)actions;
    if (event->kind == BW_EVENT_START)
        self->a = (uint64_t)event->now;
    if (event->kind == BW_EVENT_TIMEOUT)
        wakes++;
    self->deadline = event->now + 100 * BW_MS;
}

static void timers_follow_the_clock_of_their_node(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(1);
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_DRIFT, .node = 1, .rate = 1.0, .at = 0},
        {.kind = BW_FAULT_DRIFT, .node = 1, .rate = -0.5, .at = 1000 * BW_MS}};
    probe_plan = plan_wake;
    config.faults = faults;
    config.faults_count = 2;
    wakes = 0;
    config.until = 999 * BW_MS;
    probe_run(&config);
    assert_int_equal(wakes, 19); /* twice as fast */
    wakes = 0;
    config.until = 2001 * BW_MS;
    probe_run(&config);
    assert_int_equal(wakes, 20 + 5); /* then half as fast */
}

/* Node 3 leads from 30 ms on and notifies the others, which then follow it. */
static void plan_agree(struct probe *self, const struct bw_event *event, struct bw_actions *actions)
{
    if (event->kind == BW_EVENT_START && self->self == 3)
        self->deadline = event->now + 30 * BW_MS;
    if (event->kind == BW_EVENT_TIMEOUT) {
        self->deadline = BW_TIME_NEVER;
        probe_names(actions, 3, event->now, BW_TIME_NEVER);
        send(actions, 3, 1, 1);
        send(actions, 3, 2, 1);
    }
    if (event->kind == BW_EVENT_MESSAGE)
        probe_names(actions, 3, 0, 0);
}

static void run_ends_when_all_agree_and_pending_messages_arrived(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(3);
    probe_plan = plan_agree;
    config.until = 0;
    struct bw_sim_result result = probe_run(&config);
    assert_int_equal(result.leader, 3);
    assert_int_equal(result.time_to_leader, 30 * BW_MS);
    assert_int_equal(result.leaderless, 30 * BW_MS);
    assert_int_equal(result.virtual_ns, 40 * BW_MS);
    assert_int_equal(result.delivered, 2);
}

static void run_without_agreement_ends_at_its_limit(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(3);
    struct bw_sim_fault cut = {.kind = BW_FAULT_CUT, .node = 3, .peer = 2};
    probe_plan = plan_agree;
    config.until = 0;
    config.limit = 5 * BW_SEC;
    config.faults = &cut;
    config.faults_count = 1;
    struct bw_sim_result result = probe_run(&config);
    assert_int_equal(result.leader, BW_NODE_NONE);
    assert_int_equal(result.virtual_ns, 5 * BW_SEC);
}

/* All nodes lead at once, with a window from 100 to 300 ms after the start, and write every 20
 * ms. */
static void plan_split(struct probe *self, const struct bw_event *event, struct bw_actions *actions)
{
    if (event->kind == BW_EVENT_START)
        probe_names(actions, self->self, event->now + 100 * BW_MS, event->now + 300 * BW_MS);
}

static void leaders_write_only_within_their_windows(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(2);
    probe_plan = plan_split;
    config.work_ns = 20 * BW_MS;
    struct bw_sim_result result = probe_run(&config);
    assert_int_equal(result.writes_tried, 2 * 10);
    assert_int_equal(result.split_brain, 200 * BW_MS);
    assert_int_equal(result.max_leaders, 2);
    assert_true(result.stale_tried > 0); /* the first one's writes come after the second's */
    assert_int_equal(result.stale_accepted,
                     result.stale_tried); /* without tokens no write is refused */
}

static void plan_chaos(struct probe *self, const struct bw_event *event, struct bw_actions *actions)
{
    plan_beat(self, event, actions);
    if (event->kind == BW_EVENT_MESSAGE && event->msg->term % 3 == 0) {
        struct bw_durable record = {.term = event->msg->term};
        bw_actions_persist(actions, &record);
        probe_names(actions, event->msg->from, 0, 0);
        send(actions, self->self, event->msg->from, event->msg->term + 1);
    }
}

static struct bw_sim_config chaos(struct bw_sim_fault *faults)
{
    struct bw_sim_config config = probe_world(5);
    faults[0] = (struct bw_sim_fault){.kind = BW_FAULT_PAUSE, .node = 2, .at = 500 * BW_MS};
    faults[1] = (struct bw_sim_fault){.kind = BW_FAULT_CRASH, .node = 3, .at = 600 * BW_MS};
    faults[2] = (struct bw_sim_fault){.kind = BW_FAULT_RESUME, .node = 2, .at = 900 * BW_MS};
    faults[3] = (struct bw_sim_fault){.kind = BW_FAULT_RESTART, .node = 3, .at = 1200 * BW_MS};
    probe_plan = plan_chaos;
    config.latency.min = BW_MS;
    config.loss = 0.1;
    config.duplicate = 0.1;
    config.reorder = 0.1;
    config.drift = 0.01;
    config.disk_max = 3 * BW_MS;
    config.until = 3 * BW_SEC;
    config.faults = faults;
    config.faults_count = 4;
    return config;
}

static char *traced(struct bw_sim *sim, struct bw_sim_config *config, struct bw_sim_result *result)
{
    char *text = NULL, why[200];
    size_t length;
    config->trace = open_memstream(&text, &length);
    assert_int_equal(bw_sim_run_in(sim, config, result, why), 0);
    fclose(config->trace);
    config->trace = NULL;
    return text;
}

static void same_seed_gives_the_same_trace_after_any_other_run(void **state)
{
    (void)state;
    struct bw_sim_fault faults[4];
    struct bw_sim_config config = chaos(faults), other = chaos(faults);
    struct bw_sim_result first, second, third, silent;
    struct bw_sim *sim = bw_sim_new(), *fresh = bw_sim_new();
    char why[200];
    char *a = traced(sim, &config, &first);
    other.seed = 99;
    other.nodes = 9;
    assert_int_equal(bw_sim_run_in(sim, &other, &third, why), 0);
    char *b = traced(sim, &config, &second);
    assert_string_equal(a, b);
    assert_true(first.trace_hash == second.trace_hash);
    assert_true(first.trace_hash != third.trace_hash);
    free(b);
    b = traced(fresh, &config, &second);
    assert_string_equal(a, b);
    assert_int_equal(bw_sim_run_in(fresh, &config, &silent, why), 0);
    assert_true(first.trace_hash == silent.trace_hash); /* observers do not change the run */
    free(a);
    free(b);
    bw_sim_free(sim);
    bw_sim_free(fresh);
}

static void another_seed_gives_another_run(void **state)
{
    (void)state;
    struct bw_sim_fault faults[4];
    struct bw_sim_config config = chaos(faults);
    uint64_t hashes[20];
    for (unsigned i = 0; i < 20; i++) {
        config.seed = i;
        hashes[i] = probe_run(&config).trace_hash;
        for (unsigned k = 0; k < i; k++)
            assert_true(hashes[i] != hashes[k]);
    }
}

static void encoding_messages_does_not_change_a_run(void **state)
{
    (void)state;
    struct bw_sim_fault faults[4];
    struct bw_sim_config config = chaos(faults);
    uint64_t plain = probe_run(&config).trace_hash;
    config.codec = true;
    assert_true(probe_run(&config).trace_hash == plain);
}

static unsigned joined, left, stopped;

static void plan_members(struct probe *self, const struct bw_event *event,
                         struct bw_actions *actions)
{
    (void)actions;
    if (event->kind == BW_EVENT_START && self->self == 4)
        assert_int_equal(self->members, 4);
    if (event->kind == BW_EVENT_JOIN && event->member.id == 4)
        joined++;
    if (event->kind == BW_EVENT_LEAVE && event->node == 2)
        left++;
    if (event->kind == BW_EVENT_STOP && self->self == 2)
        stopped++;
}

static void all_nodes_are_notified_of_joins_and_leaves(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(3);
    struct bw_sim_fault faults[] = {{.kind = BW_FAULT_JOIN, .node = 4, .at = 100 * BW_MS},
                                    {.kind = BW_FAULT_LEAVE, .node = 2, .at = 200 * BW_MS}};
    probe_plan = plan_members;
    config.spare = 1;
    config.faults = faults;
    config.faults_count = 2;
    config.until = 209 * BW_MS;
    probe_run(&config);
    assert_int_equal(joined, 3);
    assert_int_equal(stopped, 1);
    assert_int_equal(left, 0); /* it gets the time of one latency */
    config.until = 210 * BW_MS;
    probe_run(&config);
    assert_int_equal(left, 3);
}

/* An elector that never stops acting. */
static void plan_endless(struct probe *self, const struct bw_event *event,
                         struct bw_actions *actions)
{
    (void)self;
    (void)actions;
    self->deadline = event->now;
}

static void endless_events_at_one_instant_end_the_run_with_an_error(void **state)
{
    (void)state;
    struct bw_sim_config config = probe_world(1);
    struct bw_sim_result result;
    char why[200];
    probe_plan = plan_endless;
    assert_int_equal(bw_sim_run(&config, &result, why), BW_ELIMIT);
    assert_non_null(strstr(why, "no progress"));
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup(name, forget)
    const struct CMUnitTest tests[] = {
        STORY(actions_after_persist_wait_until_it_is_durable),
        STORY(crash_before_durability_drops_the_held_actions),
        STORY(failed_write_kills_the_process_and_drops_held_actions),
        STORY(restarted_node_gets_its_durable_state_and_start_count),
        STORY(paused_node_receives_waiting_messages_when_it_resumes),
        STORY(queue_of_a_paused_node_is_bounded),
        STORY(partitions_cuts_and_heals_control_delivery),
        STORY(send_to_a_dead_node_fails_when_the_transport_reports),
        STORY(timers_follow_the_clock_of_their_node),
        STORY(run_ends_when_all_agree_and_pending_messages_arrived),
        STORY(run_without_agreement_ends_at_its_limit),
        STORY(leaders_write_only_within_their_windows),
        STORY(same_seed_gives_the_same_trace_after_any_other_run),
        STORY(another_seed_gives_another_run),
        STORY(encoding_messages_does_not_change_a_run),
        STORY(all_nodes_are_notified_of_joins_and_leaves),
        STORY(endless_events_at_one_instant_end_the_run_with_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
