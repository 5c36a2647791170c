/* Raft's input: it refuses settings, saved logs and commands that make no sense, and ignores
 * messages that no correct node sends. It also answers the queries of its callers. */
#include "core/base/error.h"
#include "core/elect/raft/raft_state.h"
#include "raft_net.h"

#include "unit/unit.h"

#define NUMBER_MAX ((uint64_t)1 << 62) /* as in raft_state.h */

static struct bw_message append(bw_node from, bw_term term, bw_index prev, bw_term prev_term)
{
    return (struct bw_message){.kind = BW_MSG_RAFT_APPEND,
                               .from = from,
                               .to = 1,
                               .term = term,
                               .append = {.prev_index = prev, .prev_term = prev_term}};
}

static struct bw_message with_run(struct bw_message msg, bw_term term, uint32_t count)
{
    msg.append.run[msg.append.runs++] = (struct bw_term_run){.term = term, .count = count};
    return msg;
}

/* Delivers a message to node 1 as it is, even if its receiver or its number of entries is wrong. */
static void deliver(struct net *net, const struct bw_message *msg)
{
    struct bw_event event = {.kind = BW_EVENT_MESSAGE, .msg = msg};
    net_step(net, 1, &event, NULL);
}

/* Node 1 of three follows no leader yet, with this log. */
static struct net *following(const char *terms, bw_term term)
{
    struct net *net = net_new(3, 3, 1);
    net_disk(net, 1, terms, term);
    net_start_as(net, 1, true);
    return net;
}

/* Node 1 of three leads in term `term` + 1; the others exist only as senders. */
static struct net *leading(const char *terms, bw_term term, bool check_quorum)
{
    struct net *net = net_new(3, 3, 1);
    net->config.pre_vote = false;
    net->config.check_quorum = check_quorum;
    net_disk(net, 1, terms, term);
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    net_inject(
        net, 1,
        (struct bw_message){
            .kind = BW_MSG_RAFT_VOTE_REPLY, .flags = BW_FLAG_YES, .from = 2, .term = term + 1});
    assert_true(net_status(net, 1).leading);
    return net;
}

static int try_init(const struct bw_elector_config *config)
{
    void *memory = malloc(bw_elect_raft.bytes(config));
    int error = bw_elect_raft.init(memory, config);
    free(memory);
    return error;
}

static struct bw_elector_config settings(const struct net *net)
{
    struct bw_elector_config config = net->config;
    config.self = 1;
    config.members = net->members;
    config.count = 3;
    return config;
}

static void every_senseless_setting_is_refused(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    const struct bw_elector_config good = settings(net);
    struct bw_elector_config config = good;
    assert_int_equal(try_init(&config), 0);
    config.timeout_min_ns = 0;
    assert_int_equal(try_init(&config), BW_EINVAL);
    config = good;
    config.period_ns = 0;
    assert_int_equal(try_init(&config), BW_EINVAL);
    config = good;
    config.promise_ns = -1;
    assert_int_equal(try_init(&config), BW_EINVAL);
    config = good;
    config.drift_ppm = 1000000;
    assert_int_equal(try_init(&config), BW_EINVAL);
    config = good;
    config.members = NULL;
    assert_int_equal(try_init(&config), BW_EINVAL);
    config.count = 0; /* a new node that waits to be added */
    assert_int_equal(try_init(&config), 0);
    net_free(net);
}

static void members_must_be_distinct_and_few_enough(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    struct bw_elector_config config = settings(net);
    struct bw_member members[BW_RAFT_MEMBERS_MAX + 1];
    for (bw_node id = 1; id <= BW_RAFT_MEMBERS_MAX + 1; id++)
        members[id - 1] = (struct bw_member){.id = id};
    config.members = members;
    config.count = BW_RAFT_MEMBERS_MAX;
    assert_int_equal(try_init(&config), 0);
    config.count++;
    assert_int_equal(try_init(&config), BW_ELIMIT);
    config.count = 3;
    members[2].id = 1;
    assert_int_equal(try_init(&config), BW_EINVAL);
    members[2].id = BW_NODE_NONE;
    assert_int_equal(try_init(&config), BW_EINVAL);
    members[2].id = 3;
    members[1].id = 1;
    assert_int_equal(try_init(&config), BW_EINVAL);
    net_free(net);
}

static void saved_log_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    static const bw_node members[] = {1, 2, 3, 3};
    static const struct bw_term_run empty[] = {{.term = 1, .count = 0}};
    static const struct bw_term_run no_term[] = {{.term = 0, .count = 1}};
    static const struct bw_term_run older[] = {{.term = 2, .count = 1}, {.term = 1, .count = 1}};
    static const struct bw_term_run huge[] = {{.term = NUMBER_MAX + 1, .count = 1}};
    struct bw_elector_config config = settings(net);
    struct bw_raft_saved saved = {.snapshot_index = NUMBER_MAX + 1, .snapshot_term = 1};
    config.saved = &saved;
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved = (struct bw_raft_saved){.snapshot_term = 1};
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved = (struct bw_raft_saved){.snapshot_index = 1};
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved = (struct bw_raft_saved){.runs = empty, .runs_count = 1};
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved.runs = no_term;
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved.runs = huge;
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved = (struct bw_raft_saved){.runs = older, .runs_count = 2};
    assert_int_equal(try_init(&config), BW_EINVAL);
    saved = (struct bw_raft_saved){
        .snapshot_index = 4, .snapshot_term = 1, .members = members, .voters = 2, .learners = 1};
    assert_int_equal(try_init(&config), 0);
    saved.learners = 2; /* node 3 twice */
    assert_int_equal(try_init(&config), BW_EINVAL);
    static const bw_node first_twice[] = {1, 1, 2};
    saved.members = first_twice;
    saved.learners = 2;
    assert_int_equal(try_init(&config), BW_EINVAL);
    net_free(net);
}

static void saved_log_with_too_many_terms_is_refused(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    struct bw_term_run runs[BW_RAFT_TERM_RUNS_MAX + 1];
    struct bw_elector_config config = settings(net);
    struct bw_raft_saved saved = {.runs = runs, .runs_count = BW_RAFT_TERM_RUNS_MAX};
    for (uint32_t i = 0; i <= BW_RAFT_TERM_RUNS_MAX; i++)
        runs[i] = (struct bw_term_run){.term = i + 1, .count = 1};
    config.saved = &saved;
    assert_int_equal(try_init(&config), 0);
    saved.runs_count++;
    assert_int_equal(try_init(&config), BW_ELIMIT);
    net_free(net);
}

static void saved_changes_must_lie_in_the_log_in_order(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    static const bw_node members[] = {1, 2, 3};
    static const struct bw_term_run runs[] = {{.term = 1, .count = 200}};
    struct bw_raft_change changes[BW_RAFT_CHANGES_MAX + 1];
    struct bw_elector_config config = settings(net);
    struct bw_raft_saved saved = {.snapshot_index = 4,
                                  .snapshot_term = 1,
                                  .members = members,
                                  .voters = 3,
                                  .runs = runs,
                                  .runs_count = 1,
                                  .changes = changes,
                                  .changes_count = BW_RAFT_CHANGES_MAX};
    config.saved = &saved;
    for (uint32_t i = 0; i <= BW_RAFT_CHANGES_MAX; i++)
        changes[i] = (struct bw_raft_change){
            .index = 5 + i, .op = i % 2 ? BW_CHANGE_REMOVE : BW_CHANGE_ADD_LEARNER, .node = 4};
    assert_int_equal(try_init(&config), 0);
    saved.changes_count++;
    assert_int_equal(try_init(&config), BW_ELIMIT);
    saved.changes_count = 2;
    changes[1].index = 5;
    assert_int_equal(try_init(&config), BW_EINVAL);
    changes[1].index = 205;
    assert_int_equal(try_init(&config), BW_EINVAL);
    changes[1].index = 204;
    assert_int_equal(try_init(&config), 0);
    changes[0].index = 4; /* in the snapshot */
    assert_int_equal(try_init(&config), BW_EINVAL);
    net_free(net);
}

static void a_change_that_does_not_fit_the_group_has_no_effect(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    static const struct bw_raft_change changes[] = {
        {.index = 1, .op = BW_CHANGE_ADD_LEARNER, .node = 4},
        {.index = 2, .op = BW_CHANGE_ADD_LEARNER, .node = 4},
        {.index = 3, .op = BW_CHANGE_PROMOTE, .node = 9},
        {.index = 4, .op = BW_CHANGE_PROMOTE, .node = 1},
        {.index = 5, .op = BW_CHANGE_REMOVE, .node = 9},
        {.index = 6, .op = BW_CHANGE_REMOVE + 1, .node = 1},
    };
    static const struct bw_term_run runs[] = {{.term = 1, .count = 6}};
    struct bw_raft_saved saved = {
        .runs = runs, .runs_count = 1, .changes = changes, .changes_count = 6};
    struct bw_elector_config config = settings(net);
    config.saved = &saved;
    void *memory = malloc(bw_elect_raft.bytes(&config));
    assert_int_equal(bw_elect_raft.init(memory, &config), 0);
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    assert_int_equal(bw_raft_members_at(memory, 6, members, &voters), 4);
    assert_int_equal(voters, 3);
    for (bw_node id = 1; id <= 4; id++)
        assert_int_equal(members[id - 1], id);
    free(memory);
    net_free(net);
}

static void a_full_group_takes_no_further_member(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    struct bw_member all[BW_RAFT_MEMBERS_MAX];
    for (bw_node id = 1; id <= BW_RAFT_MEMBERS_MAX; id++)
        all[id - 1] = (struct bw_member){.id = id};
    static const struct bw_raft_change change = {
        .index = 1, .op = BW_CHANGE_ADD_LEARNER, .node = 100};
    static const struct bw_term_run runs[] = {{.term = 1, .count = 1}};
    struct bw_raft_saved saved = {
        .runs = runs, .runs_count = 1, .changes = &change, .changes_count = 1};
    struct bw_elector_config config = settings(net);
    config.members = all;
    config.count = BW_RAFT_MEMBERS_MAX;
    config.saved = &saved;
    void *memory = malloc(bw_elect_raft.bytes(&config));
    assert_int_equal(bw_elect_raft.init(memory, &config), 0);
    assert_false(bw_raft_is_voter(memory, 100));
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    assert_int_equal(bw_raft_members_at(memory, 1, members, &voters), BW_RAFT_MEMBERS_MAX);
    free(memory);
    net_free(net);
}

/* After this, the node still has no leader and an unchanged log. */
static void ignored(struct net *net, const struct bw_message *msg)
{
    net->traced = BW_TRACE_COUNT;
    deliver(net, msg);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_int_equal(net_status(net, 1).leader, BW_NODE_NONE);
    assert_string_equal(net_terms(net, 1), "11");
}

static void appends_that_no_leader_sends_are_ignored(void **state)
{
    (void)state;
    struct net *net = following("11", 1);
    struct bw_message msg = append(2, 2, NUMBER_MAX + 1, 1);
    ignored(net, &msg);
    msg = append(2, 2, 2, 1);
    msg.append.commit = NUMBER_MAX + 1;
    ignored(net, &msg);
    msg = append(2, 2, 2, 1);
    msg.append.echo = -1;
    ignored(net, &msg);
    msg = with_run(with_run(append(2, 2, 2, 1), 2, 1), 1, 1); /* terms fall */
    ignored(net, &msg);
    msg = with_run(append(2, 2, 2, 1), 2, 0);
    ignored(net, &msg);
    msg = with_run(append(2, 2, 2, 1), 2, 1);
    msg.append.change = (struct bw_change){.op = BW_CHANGE_REMOVE + 1, .node = 4};
    ignored(net, &msg);
    msg.append.change = (struct bw_change){.op = BW_CHANGE_ADD_LEARNER, .entry = 1, .node = 4};
    ignored(net, &msg);
    msg.append.change = (struct bw_change){.op = BW_CHANGE_ADD_LEARNER};
    ignored(net, &msg);
    msg = append(2, 2, 2, 1);
    for (int i = 0; i < 3; i++)
        msg = with_run(msg, 2, UINT32_MAX);
    ignored(net, &msg);
    msg = append(2, 2, 2, 1);
    msg.to = 3;
    ignored(net, &msg);
    msg = append(BW_NODE_NONE, 2, 2, 1);
    ignored(net, &msg);
    msg = (struct bw_message){.kind = BW_MSG_RING_ELECTION, .from = 2, .to = 1, .term = 2};
    ignored(net, &msg);
    net_inject(net, 1, append(2, 2, 2, 1));
    assert_int_equal(net_status(net, 1).leader, 2);
    net_free(net);
}

static void snapshots_that_no_leader_sends_are_ignored(void **state)
{
    (void)state;
    struct net *net = following("11", 1);
    static const bw_node group[] = {1, 2, 3}, twice[] = {1, 2, 2}, none[] = {1, BW_NODE_NONE, 3};
    const struct bw_message good = {.kind = BW_MSG_RAFT_SNAPSHOT,
                                    .from = 2,
                                    .to = 1,
                                    .term = 2,
                                    .data = group,
                                    .items = 3,
                                    .snapshot = {.last_index = 9, .last_term = 1, .voters = 3}};
    struct bw_message msg = good;
    msg.snapshot.last_index = 0;
    ignored(net, &msg);
    msg.snapshot.last_index = NUMBER_MAX + 1;
    ignored(net, &msg);
    msg = good;
    msg.snapshot.last_term = 0;
    ignored(net, &msg);
    msg.snapshot.last_term = 3;
    ignored(net, &msg);
    msg = good;
    msg.snapshot.echo = -1;
    ignored(net, &msg);
    msg = good;
    msg.items = BW_RAFT_MEMBERS_MAX + 1;
    ignored(net, &msg);
    msg = good;
    msg.data = NULL;
    ignored(net, &msg);
    msg = good;
    msg.snapshot.voters = 0;
    ignored(net, &msg);
    msg.snapshot.voters = 4;
    ignored(net, &msg);
    msg = good;
    msg.data = twice;
    ignored(net, &msg);
    msg.data = none;
    ignored(net, &msg);
    net_inject(net, 1, good);
    assert_int_equal(bw_raft_snapshot_index(net_raft(net, 1)), 9);
    net_free(net);
}

static void a_second_leader_of_a_term_is_reported_and_not_followed(void **state)
{
    (void)state;
    struct net *net = following("11", 1);
    net_inject(net, 1, append(2, 2, 2, 1));
    net_inject(net, 1, with_run(append(3, 2, 2, 1), 2, 1));
    assert_int_equal(net->traced, BW_TRACE_SPLIT_BRAIN);
    assert_int_equal(net_status(net, 1).leader, 2);
    assert_string_equal(net_terms(net, 1), "11");
    net_free(net);
}

static void append_reply_that_no_follower_sends_changes_nothing(void **state)
{
    (void)state;
    struct net *net = leading("11", 1, true);
    const struct bw_message good = {.kind = BW_MSG_RAFT_APPEND_REPLY,
                                    .flags = BW_FLAG_YES,
                                    .from = 2,
                                    .to = 1,
                                    .term = 2,
                                    .append_reply = {.index = 3, .echo = net_local(net, 1, 0)}};
    struct bw_message msg = good;
    msg.append_reply.echo = -1;
    deliver(net, &msg);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    msg = good;
    msg.append_reply.index = 4;
    net->traced = BW_TRACE_COUNT;
    deliver(net, &msg);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    msg = good;
    msg.append_reply.rejected = 4;
    net->traced = BW_TRACE_COUNT;
    deliver(net, &msg);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    msg.flags = 0; /* a late rejection of entries that were truncated since is not worth a report */
    net->traced = BW_TRACE_COUNT;
    deliver(net, &msg);
    assert_int_equal(net->traced, BW_TRACE_COUNT);
    msg.append_reply.echo = net_local(net, 1, net->now) + 1;
    deliver(net, &msg);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_int_equal(bw_raft_match(net_raft(net, 1), 2), 0);
    deliver(net, &good);
    assert_int_equal(bw_raft_match(net_raft(net, 1), 2), 3);
    net_free(net);
}

/* The follower asks for entries from an index that it has just rejected. */
static void rejection_with_too_high_a_hint_probes_below_it(void **state)
{
    (void)state;
    struct net *net = leading("11", 1, true);
    net_run(net, BW_MS);
    struct bw_message no = {
        .kind = BW_MSG_RAFT_APPEND_REPLY,
        .from = 2,
        .term = 2,
        .append_reply = {
            .index = 3, .hint_term = 2, .rejected = 2, .echo = net_local(net, 1, net->now)}};
    net_inject(net, 1, no);
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].to, 2);
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].append.prev_index, 1);
    net_free(net);
}

static void the_log_does_not_grow_past_the_greatest_index(void **state)
{
    (void)state;
    struct net *net = net_new(1, 1, 1);
    static const bw_node members[] = {1};
    struct bw_raft_saved saved = {
        .snapshot_index = NUMBER_MAX - 3, .snapshot_term = 1, .members = members, .voters = 1};
    struct bw_elector_config config = settings(net);
    config.saved = &saved;
    void *memory = malloc(bw_elect_raft.bytes(&config));
    assert_int_equal(bw_elect_raft.init(memory, &config), 0);
    struct bw_actions out = {.at = net->actions, .cap = bw_elect_raft.actions_max(&config)};
    struct bw_start start = {.durable = {.term = 1}};
    struct bw_event event = {.kind = BW_EVENT_START, .start = &start};
    bw_elect_raft.step(memory, &event, &out); /* leads at once, with one entry */
    event = (struct bw_event){.kind = BW_EVENT_COMMAND,
                              .command = {.kind = BW_COMMAND_PROPOSE, .count = 3, .request = 7}};
    out.count = 0;
    bw_elect_raft.step(memory, &event, &out);
    assert_int_equal(out.at[0].kind, BW_ACTION_ANSWER);
    assert_int_equal(out.at[0].answer.error, BW_ELIMIT);
    event.command.count = 2;
    out.count = 0;
    bw_elect_raft.step(memory, &event, &out);
    assert_true(bw_raft_last_index(memory) == NUMBER_MAX);
    free(memory);
    net_free(net);
}

static void queries_answer_for_a_leader_and_its_members(void **state)
{
    (void)state;
    struct net *net = net_running(3, 5);
    bw_node leader = net_elect(net, 3 * BW_SEC), other = leader == 1 ? 2 : 1;
    net_run(net, 100 * BW_MS);
    struct bw_raft *raft = net_raft(net, leader);
    bw_time now = net_local(net, leader, net->now);
    assert_int_equal(bw_raft_match(raft, other), bw_raft_last_index(raft));
    assert_int_equal(bw_raft_match(raft, 9), 0);
    assert_int_equal(bw_raft_match(net_raft(net, other), leader), 0);
    assert_true(bw_raft_is_responsive(raft, other, now));
    assert_true(bw_raft_is_responsive(raft, leader, now));
    assert_false(bw_raft_is_responsive(raft, 9, now));
    assert_false(bw_raft_is_responsive(raft, other, now + 400 * BW_MS));
    assert_false(bw_raft_is_responsive(net_raft(net, other), leader, now));
    assert_true(bw_raft_is_caught_up(raft, other, now));
    assert_false(bw_raft_is_caught_up(raft, 9, now));
    assert_false(bw_raft_is_caught_up(raft, other, now + 200 * BW_MS));
    assert_false(bw_raft_is_caught_up(net_raft(net, other), leader, now));
    assert_true(bw_elect_raft.ready(raft, other));
    assert_false(bw_elect_raft.ready(raft, 9));
    assert_false(bw_elect_raft.ready(net_raft(net, other), leader));
    assert_false(bw_raft_is_changing(raft));
    assert_int_equal(bw_raft_terms(raft), 1);
    net_free(net);
}

static void heartbeat_is_due_until_the_leader_would_step_down_or_end_a_transfer(void **state)
{
    (void)state;
    struct net *net = net_running(3, 5);
    bw_node leader = net_elect(net, 3 * BW_SEC), other = leader == 1 ? 2 : 1;
    net_run(net, 100 * BW_MS);
    struct bw_raft *raft = net_raft(net, leader);
    bw_time due = raft->heartbeat_at, lost = bw_raft_lost_at(raft);
    assert_true(raft->check_quorum && due < lost);
    assert_false(bw_raft_is_heartbeat_due(raft, due - 1));
    assert_true(bw_raft_is_heartbeat_due(raft, due));
    assert_true(bw_raft_is_heartbeat_due(raft, lost - 1));
    assert_false(bw_raft_is_heartbeat_due(raft, lost));
    assert_false(bw_raft_is_heartbeat_due(net_raft(net, other), lost));
    raft->check_quorum = false;
    assert_true(bw_raft_is_heartbeat_due(raft, lost));
    raft->transfer_until = lost;
    assert_true(bw_raft_is_heartbeat_due(raft, lost));
    raft->transfer_to = other;
    assert_true(bw_raft_is_heartbeat_due(raft, lost - 1));
    assert_false(bw_raft_is_heartbeat_due(raft, lost));
    net_free(net);
}

static void a_silent_or_lagging_member_is_neither_responsive_nor_caught_up(void **state)
{
    (void)state;
    struct net *net = leading("1", 1, true);
    struct bw_raft *raft = net_raft(net, 1);
    bw_time now = net_local(net, 1, net->now);
    assert_false(bw_raft_is_responsive(raft, 2, now)); /* it never answered */
    assert_false(bw_raft_is_caught_up(raft, 2, now));
    struct bw_message yes = {.kind = BW_MSG_RAFT_APPEND_REPLY,
                             .flags = BW_FLAG_YES,
                             .from = 2,
                             .term = 2,
                             .append_reply = {.index = 2, .echo = now}};
    net_run(net, 0); /* its own write is durable */
    net_inject(net, 1, yes);
    assert_true(bw_raft_is_caught_up(raft, 2, now));
    net_change(net, 1, BW_CHANGE_ADD_LEARNER, 4, 1);
    assert_true(bw_raft_is_changing(raft));
    yes.append_reply.index = 3;
    net_run(net, 0);
    net_inject(net, 1, yes);
    assert_false(bw_raft_is_changing(raft));
    net_propose(net, 1, 40, 2);
    yes.append_reply.index = 43;
    yes.from = 3;
    net_run(net, 0);
    net_inject(net, 1, yes); /* a majority without node 2 */
    assert_int_equal(bw_raft_commit_index(raft), 43);
    assert_false(bw_raft_is_caught_up(raft, 2, now));
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_senseless_setting_is_refused),
        cmocka_unit_test(members_must_be_distinct_and_few_enough),
        cmocka_unit_test(saved_log_that_cannot_be_is_refused),
        cmocka_unit_test(saved_log_with_too_many_terms_is_refused),
        cmocka_unit_test(saved_changes_must_lie_in_the_log_in_order),
        cmocka_unit_test(a_change_that_does_not_fit_the_group_has_no_effect),
        cmocka_unit_test(a_full_group_takes_no_further_member),
        cmocka_unit_test(appends_that_no_leader_sends_are_ignored),
        cmocka_unit_test(snapshots_that_no_leader_sends_are_ignored),
        cmocka_unit_test(a_second_leader_of_a_term_is_reported_and_not_followed),
        cmocka_unit_test(append_reply_that_no_follower_sends_changes_nothing),
        cmocka_unit_test(rejection_with_too_high_a_hint_probes_below_it),
        cmocka_unit_test(the_log_does_not_grow_past_the_greatest_index),
        cmocka_unit_test(queries_answer_for_a_leader_and_its_members),
        cmocka_unit_test(heartbeat_is_due_until_the_leader_would_step_down_or_end_a_transfer),
        cmocka_unit_test(a_silent_or_lagging_member_is_neither_responsive_nor_caught_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
