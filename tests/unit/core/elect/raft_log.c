/* Raft's log (§5.3, §5.4, §7, thesis §10.2): logs of all shapes converge, committed entries are
 * never lost, entries are acknowledged only when durable, and the pipeline survives faults of links
 * and disks. */
#include "core/base/error.h"
#include "raft_net.h"

#include "unit/unit.h"

static struct bw_message append(bw_term term, bw_index prev, bw_term prev_term)
{
    return (struct bw_message){.kind = BW_MSG_RAFT_APPEND,
                               .from = 2,
                               .term = term,
                               .append = {.prev_index = prev, .prev_term = prev_term}};
}

static struct bw_message with_run(struct bw_message msg, bw_term term, uint32_t count)
{
    msg.append.run[msg.append.runs++] = (struct bw_term_run){.term = term, .count = count};
    return msg;
}

static struct bw_message reply(struct net *net, bw_node from, bw_term term, bw_index index)
{
    return (struct bw_message){
        .kind = BW_MSG_RAFT_APPEND_REPLY,
        .flags = BW_FLAG_YES,
        .from = from,
        .term = term,
        .append_reply = {.index = index, .echo = net_local(net, 1, net->now)}};
}

static void grant(struct net *net, bw_node from)
{
    net_inject(net, 1,
               (struct bw_message){.kind = BW_MSG_RAFT_VOTE_REPLY,
                                   .flags = BW_FLAG_YES,
                                   .from = from,
                                   .term = net_status(net, 1).term});
}

/* Node 1 of `nodes` leads in term `term` + 1; the others exist only as senders. */
static struct net *leading(uint32_t nodes, const char *terms, bw_term term)
{
    struct net *net = net_new(nodes, nodes, 1);
    net->config.pre_vote = false;
    net_disk(net, 1, terms, term);
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    for (bw_node id = 2; id <= nodes / 2 + 1; id++)
        grant(net, id);
    assert_true(net_status(net, 1).leading);
    return net;
}

static struct net *following(const char *terms, bw_term term)
{
    struct net *net = net_new(3, 3, 1);
    net_disk(net, 1, terms, term);
    net_start_as(net, 1, true);
    return net;
}

static bw_index acked(struct net *net)
{
    const struct bw_message *msg = &net->last[BW_MSG_RAFT_APPEND_REPLY];
    return msg->flags & BW_FLAG_YES ? msg->append_reply.index : 0;
}

static void logs_of_figure_7_converge_to_the_leaders(void **state)
{
    (void)state;
    static const char *const logs[] = {"1114455666",   "111445566", "1114",       "11144556666",
                                       "111445566677", "1114444",   "11122233333"};
    struct net *net = net_new(7, 7, 7);
    net->config.pre_vote = false;
    for (bw_node id = 1; id <= 7; id++) {
        net_disk(net, id, logs[id - 1], 7);
        net_start_as(net, id, true);
    }
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    net_run(net, 140 * BW_MS);
    assert_int_equal(net_leader(net), 1);
    for (bw_node id = 1; id <= 7; id++) {
        assert_string_equal(net_terms(net, id), "11144556668");
        assert_int_equal(bw_raft_commit_index(net_raft(net, id)), 11);
    }
    net_free(net);
}

/* (c) and (e) of figure 8: in term 4, S1 has replicated an entry of term 2 to a majority. */
static void an_entry_of_an_older_term_is_not_committed_by_counting_as_in_figure_8(void **state)
{
    (void)state;
    struct net *net = leading(5, "12", 3);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 4, 2));
    net_inject(net, 1, reply(net, 3, 4, 2));
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 0);
    net_inject(net, 1, reply(net, 2, 4, 3));
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 0);
    net_inject(net, 1, reply(net, 3, 4, 3));
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 3);
    net_free(net);
}

static void leaders_own_disk_counts_only_when_its_write_is_durable(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net->config.pre_vote = false;
    net_start_as(net, 1, true);
    net->disk_ns = 20 * BW_MS;
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    grant(net, 2);
    net_inject(net, 1, reply(net, 2, 1, 1));
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 0);
    net_run(net, 45 * BW_MS);
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 1);
    net_propose(net, 1, 1, 5); /* the disks of two others are a majority without ours */
    net_inject(net, 1, reply(net, 2, 1, 2));
    net_inject(net, 1, reply(net, 3, 1, 2));
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 2);
    net_free(net);
}

static void a_follower_acknowledges_only_what_is_durable(void **state)
{
    (void)state;
    struct net *net = following("", 1);
    net_inject(net, 1, append(1, 0, 0)); /* from here on the promise is durable */
    net->disk_ns = 10 * BW_MS;
    unsigned before = net->sent[BW_MSG_RAFT_APPEND_REPLY];
    net_inject(net, 1, with_run(append(1, 0, 0), 1, 2));
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND_REPLY], before);
    net_run(net, 5 * BW_MS);
    net_inject(net, 1, with_run(append(1, 2, 1), 1, 3));
    net_inject(net, 1, append(1, 5, 1)); /* a heartbeat is answered at once, with what is durable */
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND_REPLY], before + 1);
    assert_int_equal(acked(net), 0);
    net_run(net, 6 * BW_MS);
    assert_int_equal(acked(net), 2);
    net_run(net, 10 * BW_MS);
    assert_int_equal(acked(net), 5);
    net_free(net);
}

static void stale_acknowledgement_of_a_truncated_write_is_ignored(void **state)
{
    (void)state;
    struct net *net = following("1", 1);
    net_inject(net, 1, append(3, 1, 1));
    struct bw_event stale = {.kind = BW_EVENT_PERSISTED};
    net->disk_ns = 50 * BW_MS;
    net_inject(net, 1, with_run(append(3, 1, 1), 2, 3));     /* 2..4 of term 2 in flight */
    struct bw_message msg = with_run(append(4, 1, 1), 4, 3); /* overwritten by term 4 */
    msg.from = 3;
    net_inject(net, 1, msg);
    stale.persisted.index = 4;
    stale.persisted.term = 2;
    net_step(net, 1, &stale, NULL);
    msg = append(4, 4, 4);
    msg.from = 3;
    net_inject(net, 1, msg);
    net_run(net, 60 * BW_MS); /* the PERSIST of the term is complete, the rewrite is not */
    assert_int_equal(acked(net), 1);
    net_run(net, 100 * BW_MS);
    net_inject(net, 1, msg);
    assert_int_equal(acked(net), 4);
    net_free(net);
}

/* Index and term alone cannot distinguish an entry's first write from its second. */
static void reappended_entry_waits_while_its_first_write_is_in_flight(void **state)
{
    (void)state;
    struct net *net = following("1", 5);
    net_inject(net, 1, append(6, 1, 1));
    net->disk_ns = 50 * BW_MS;
    struct bw_message two = with_run(append(6, 1, 1), 2, 1),
                      three = with_run(append(7, 1, 1), 3, 1);
    three.from = 3;
    net_inject(net, 1, two);   /* write 1: (2, term 2) */
    net_inject(net, 1, three); /* write 2: (2, term 3) */
    two.term = 8;
    net_inject(net, 1, two); /* (2, term 2) again: waits for write 2 */
    assert_string_equal(net_terms(net, 1), "13");
    struct bw_event first = {.kind = BW_EVENT_PERSISTED};
    first.persisted.index = 2;
    first.persisted.term = 2;
    net_step(net, 1, &first, NULL);
    assert_true(acked(net) <= 1);
    net_run(net, 300 * BW_MS);
    net_inject(net, 1, two);
    assert_string_equal(net_terms(net, 1), "12");
    net_run(net, 300 * BW_MS);
    assert_int_equal(acked(net), 2);
    net_free(net);
}

static void a_duplicate_or_shorter_append_truncates_nothing(void **state)
{
    (void)state;
    struct net *net = following("", 1);
    net_inject(net, 1, with_run(append(1, 0, 0), 1, 5));
    net_inject(net, 1, with_run(append(1, 0, 0), 1, 2));
    net_inject(net, 1, with_run(append(1, 1, 1), 1, 3));
    assert_string_equal(net_terms(net, 1), "11111");
    net_free(net);
}

static void append_may_span_several_terms_and_overlap_the_log(void **state)
{
    (void)state;
    struct net *net = following("112", 2);
    struct bw_message msg = with_run(with_run(with_run(append(5, 1, 1), 1, 1), 3, 2), 5, 1);
    net_inject(net, 1, msg);
    assert_string_equal(net_terms(net, 1), "11335");
    net_run(net, BW_MS);
    assert_int_equal(acked(net), 5);
    net_free(net);
}

static void rejection_names_the_index_where_the_logs_may_match(void **state)
{
    (void)state;
    struct net *net = following("111222333", 3);
    net_inject(net, 1, append(5, 20, 4));
    const struct bw_append_reply_part *no = &net->last[BW_MSG_RAFT_APPEND_REPLY].append_reply;
    assert_int_equal(no->index, 9);
    assert_int_equal(no->hint_term, 3);
    assert_int_equal(no->rejected, 20);
    net_inject(net, 1, append(5, 8, 1));
    assert_int_equal(no->index, 3);
    assert_int_equal(no->hint_term, 1);
    net_free(net);
}

static void late_rejection_is_recognized_by_its_prev_index(void **state)
{
    (void)state;
    struct net *net = leading(3, "111", 1);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 2, 4));
    struct bw_message no = reply(net, 2, 2, 1);
    no.flags = 0;
    no.append_reply.rejected = 3;
    no.append_reply.hint_term = 1;
    unsigned before = net->sent[BW_MSG_RAFT_APPEND];
    net_inject(net, 1, no);
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND], before);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_LATE);
    net_free(net);
}

static void conflicting_with_a_committed_entry_is_impossible_and_ignored(void **state)
{
    (void)state;
    struct net *net = following("11", 1);
    struct bw_message msg = append(1, 2, 1);
    msg.append.commit = 2;
    net_inject(net, 1, msg);
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 2);
    net_inject(net, 1, with_run(append(3, 1, 1), 3, 1));
    assert_string_equal(net_terms(net, 1), "11");
    net_free(net);
}

static void pipeline_grows_by_one_per_reply_up_to_its_limit(void **state)
{
    (void)state;
    struct net *net = leading(3, "", 0);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 1, 1)); /* from PROBE to REPLICATE */
    unsigned before = net->sent[BW_MSG_RAFT_APPEND];
    for (uint64_t i = 0; i < 40; i++)
        net_propose(net, 1, 100, 10 + i);
    /* Two appends to node 2 with 16 entries each; node 3 is still probed with the append that it
     * has not answered. */
    for (unsigned answered = 0; answered < 80; answered++) {
        unsigned flying = net->sent[BW_MSG_RAFT_APPEND] - before - answered;
        assert_int_equal(flying,
                         answered + 2 < BW_RAFT_INFLIGHT_MAX ? answered + 2 : BW_RAFT_INFLIGHT_MAX);
        assert_int_equal(net->last[BW_MSG_RAFT_APPEND].append.run[0].count, 16);
        net_inject(net, 1, reply(net, 2, 1, 1 + 16 * (answered + 1)));
    }
    net_free(net);
}

static void every_message_lost_from_a_full_pipeline_is_sent_again(void **state)
{
    (void)state;
    struct net *net = net_running(3, 31);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    net_run(net, 50 * BW_MS);
    net->loss = 0.3;
    for (uint64_t i = 0; i < 200; i++) {
        net_propose(net, net_leader(net), 3, 10);
        net_run(net, BW_MS);
    }
    net->loss = 0;
    net_run(net, 200 * BW_MS);
    leader = net_leader(net);
    for (bw_node id = 1; id <= 3; id++)
        assert_int_equal(net->node[id].applied, bw_raft_last_index(net_raft(net, leader)));
    net_free(net);
}

static void reordered_heartbeat_costs_a_probe_and_loses_nothing(void **state)
{
    (void)state;
    struct net *net = net_running(3, 32);
    net_elect(net, 3 * BW_SEC);
    net->latency_max = 40 * BW_MS; /* two heartbeats: messages overtake each other at random */
    for (uint64_t i = 0; i < 100; i++) {
        net_propose(net, net_leader(net), 1, 10);
        net_run(net, 2 * BW_MS);
    }
    net_run(net, 300 * BW_MS);
    for (bw_node id = 1; id <= 3; id++)
        assert_int_equal(net->node[id].applied, net->committed_last);
    assert_true(net->committed_last >= 101);
    net_free(net);
}

static void a_follower_behind_the_log_gets_the_snapshot_and_then_the_rest(void **state)
{
    (void)state;
    struct net *net = net_running(3, 33);
    bw_node leader = net_elect(net, 3 * BW_SEC), behind = leader == 1 ? 2 : 1;
    net_crash(net, behind);
    for (uint64_t i = 0; i < 50; i++)
        net_propose(net, leader, 2, 10);
    net_run(net, 100 * BW_MS);
    net_command(net, leader,
                (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = 80, .request = 1});
    assert_int_equal(net_answer(net, 1)->error, 0);
    assert_int_equal(bw_raft_snapshot_index(net_raft(net, leader)), 80);
    net->disk_ns = 3 * BW_MS;
    net_start(net, behind);
    net_run(net, 600 * BW_MS);
    assert_int_equal(bw_raft_snapshot_index(net_raft(net, behind)), 80);
    assert_int_equal(net->node[behind].applied, net->node[leader].applied);
    assert_true(net->sent[BW_MSG_RAFT_SNAPSHOT] <= 2);
    net_crash(net, behind); /* the snapshot is on the node's disk, so it survives the crash */
    net_start(net, behind);
    assert_int_equal(bw_raft_snapshot_index(net_raft(net, behind)), 80);
    net_free(net);
}

static void a_snapshot_is_acknowledged_only_when_it_is_durable(void **state)
{
    (void)state;
    static const bw_node list[] = {1, 2, 3};
    struct net *net = following("11", 1);
    net_inject(net, 1, append(1, 2, 1));
    net->disk_ns = 10 * BW_MS;
    struct bw_message msg = {.kind = BW_MSG_RAFT_SNAPSHOT,
                             .from = 2,
                             .term = 1,
                             .data = list,
                             .items = 3,
                             .snapshot = {.last_index = 9, .last_term = 1, .voters = 3}};
    net_inject(net, 1, msg);
    net_inject(net, 1, with_run(append(1, 9, 1), 1, 1));
    assert_int_equal(acked(net), 0);
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), 9);
    net_run(net, 15 * BW_MS);
    assert_int_equal(acked(net), 9);
    msg.items = 0;
    msg.snapshot.last_index = 20;
    net_inject(net, 1, msg); /* without members: ignored */
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), 9);
    net_free(net);
}

static void only_what_is_committed_and_durable_is_compacted(void **state)
{
    (void)state;
    struct net *net = leading(3, "1", 1);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 2, 2));
    net_propose(net, 1, 4, 3);
    struct bw_command compact = {.kind = BW_COMMAND_COMPACT, .index = 3, .request = 4};
    net_command(net, 1, compact);
    assert_int_equal(net_answer(net, 4)->error, BW_EINVAL);
    compact.index = 2;
    net_command(net, 1, compact);
    assert_int_equal(net_answer(net, 4)->error, 0);
    net_command(net, 1, compact);
    assert_int_equal(net_answer(net, 4)->error, BW_ECOMPACTED);
    assert_int_equal(bw_raft_term_at(net_raft(net, 1), 1), 0);
    assert_int_equal(bw_raft_term_at(net_raft(net, 1), 2), 2);
    net_free(net);
}

static void followers_answer_proposals_with_the_leader(void **state)
{
    (void)state;
    struct net *net = net_running(3, 34);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    net_run(net, 50 * BW_MS);
    net_propose(net, leader == 1 ? 2 : 1, 1, 42);
    assert_int_equal(net_answer(net, 42)->error, BW_ENOTLEADER);
    assert_int_equal(net_answer(net, 42)->leader, leader);
    net_propose(net, leader, 0, 43);
    assert_int_equal(net_answer(net, 43)->error, BW_EINVAL);
    net_free(net);
}

static void idle_heartbeats_carry_no_entries_and_extend_the_window(void **state)
{
    (void)state;
    struct net *net = net_running(5, 35);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    net_run(net, 100 * BW_MS);
    memset(net->sent, 0, sizeof net->sent);
    for (bw_node id = 1; id <= 5; id++)
        net->node[id].announcements = 0;
    net_run(net, BW_SEC);
    assert_in_range(net->sent[BW_MSG_RAFT_APPEND], 196, 204);
    assert_in_range(net->sent[BW_MSG_RAFT_APPEND_REPLY], 192, 204);
    for (bw_node id = 1; id <= 5; id++)
        assert_in_range(net->node[id].announcements, id == leader ? 48 : 0, id == leader ? 52 : 0);
    net_free(net);
}

/* A leader that contradicts itself must not make the follower acknowledge entries that it
 * truncated. */
static void truncated_entries_are_no_longer_acknowledged(void **state)
{
    (void)state;
    struct net *net = following("1", 1);
    net_inject(net, 1, with_run(append(3, 1, 1), 2, 3));
    net_run(net, 0);
    assert_int_equal(acked(net), 4);
    net->disk_ns = 10 * BW_MS;
    net_inject(net, 1, with_run(append(3, 2, 2), 3, 1));
    assert_string_equal(net_terms(net, 1), "123");
    net_inject(net, 1, append(3, 1, 1));
    assert_int_equal(acked(net), 2);
    net_free(net);
}

/* Node 1 follows with as many terms in its log as its table holds. */
static struct net *full_of_terms(void)
{
    struct net *net = net_new(3, 3, 1);
    struct net_log *disk = &net->node[1].disk;
    for (disk->last = 0; disk->last < BW_RAFT_TERM_RUNS_MAX;) {
        disk->last++;
        disk->at[disk->last] = (struct net_entry){.term = disk->last};
    }
    net->node[1].durable = (struct bw_durable){.term = BW_RAFT_TERM_RUNS_MAX, .starts = 1};
    net_start_as(net, 1, true);
    return net;
}

static void a_follower_appends_no_new_term_while_its_table_is_full(void **state)
{
    (void)state;
    bw_index last = BW_RAFT_TERM_RUNS_MAX;
    struct net *net = full_of_terms();
    net_inject(net, 1, with_run(append(last + 1, last, last), last + 1, 1));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_FULL);
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), last);
    struct bw_message two = with_run(append(last + 1, last, last), last, 2);
    net_inject(net, 1, with_run(two, last + 1, 1)); /* its last term may still grow */
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), last + 2);
    net_run(net, 0);
    assert_int_equal(acked(net), last + 2);
    net_free(net);
}

static void a_node_whose_table_of_terms_is_full_does_not_campaign(void **state)
{
    (void)state;
    struct net *net = full_of_terms();
    bw_time before = bw_elect_raft.deadline(net->node[1].memory);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    assert_int_equal(net->traced, BW_TRACE_IGNORED_FULL);
    assert_false(net_status(net, 1).electing);
    assert_true(bw_elect_raft.deadline(net->node[1].memory) < before); /* it tries again */
    net_free(net);
}

/* Index 3 is rewritten while its first write is in flight. The acknowledgement of index 2 must not
 * let it be rewritten once more. */
static void earlier_acknowledgement_does_not_end_a_rewrite(void **state)
{
    (void)state;
    struct net *net = following("1", 5);
    net_inject(net, 1, append(6, 1, 1));
    net->disk_ns = 50 * BW_MS;
    net_inject(net, 1, with_run(append(6, 1, 1), 2, 1));
    net_inject(net, 1, with_run(append(6, 2, 2), 2, 1));
    struct bw_message msg = with_run(append(7, 2, 2), 3, 1);
    net_inject(net, 1, msg);
    assert_string_equal(net_terms(net, 1), "123");
    struct bw_event second = {.kind = BW_EVENT_PERSISTED};
    second.persisted.index = 2;
    second.persisted.term = 2;
    net_step(net, 1, &second, NULL);
    net_inject(net, 1, with_run(append(8, 2, 2), 2, 1));
    assert_string_equal(net_terms(net, 1), "123");
    net_free(net);
}

static void a_repeated_acknowledgement_is_ignored(void **state)
{
    (void)state;
    struct net *net = following("11", 1);
    struct bw_event again = {.kind = BW_EVENT_PERSISTED};
    again.persisted.index = 2;
    again.persisted.term = 1;
    net_step(net, 1, &again, NULL);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_LATE);
    net_free(net);
}

static const bw_node three[] = {1, 2, 3};

static struct bw_message snapshot(bw_term term, bw_index last, bw_term last_term)
{
    return (struct bw_message){
        .kind = BW_MSG_RAFT_SNAPSHOT,
        .from = 2,
        .term = term,
        .data = three,
        .items = 3,
        .snapshot = {.last_index = last, .last_term = last_term, .voters = 3}};
}

static void snapshot_of_entries_in_the_log_only_commits_them(void **state)
{
    (void)state;
    struct net *net = following("111", 1);
    net_inject(net, 1, snapshot(1, 2, 1));
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 2);
    assert_int_equal(bw_raft_snapshot_index(net_raft(net, 1)), 0);
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), 3);
    net_run(net, 0);
    assert_int_equal(acked(net), 2);
    net_inject(net, 1, append(1, 1, 1)); /* up to 2 the logs are known to match */
    assert_int_equal(acked(net), 2);
    net_free(net);
}

static void snapshot_waits_while_a_rewrite_is_in_flight(void **state)
{
    (void)state;
    struct net *net = following("1", 5);
    net_inject(net, 1, append(6, 1, 1));
    net->disk_ns = 50 * BW_MS;
    net_inject(net, 1, with_run(append(6, 1, 1), 2, 1));
    net_inject(net, 1, with_run(append(7, 1, 1), 3, 1));
    net_inject(net, 1, snapshot(7, 9, 3));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_FULL);
    assert_string_equal(net_terms(net, 1), "13");
    net_run(net, 300 * BW_MS);
    net_inject(net, 1, snapshot(7, 9, 3));
    assert_int_equal(bw_raft_snapshot_index(net_raft(net, 1)), 9);
    net_free(net);
}

/* Without a limit from the caller an append carries many entries; a report that it was lost makes
 * the leader probe again, unless the report is about another term or node. */
static void lost_append_is_probed_again_only_if_it_is_current(void **state)
{
    (void)state;
    struct net *net = leading(3, "1", 1);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 2, 2)); /* node 2 is in pipeline mode */
    net_propose(net, 1, 3, 9);
    struct bw_message lost = net->last[BW_MSG_RAFT_APPEND];
    lost.to = 2;
    struct bw_event event = {.kind = BW_EVENT_SEND_FAILED, .msg = &lost};
    lost.term = 1;
    net->traced = BW_TRACE_COUNT;
    net_step(net, 1, &event, NULL);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    lost.term = 2;
    lost.to = 9;
    net->traced = BW_TRACE_COUNT;
    net_step(net, 1, &event, NULL);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    lost.to = 2;
    net->traced = BW_TRACE_COUNT;
    net_step(net, 1, &event, NULL);
    assert_int_equal(net->traced, BW_TRACE_COUNT);
    net->hold_kind = BW_MSG_RAFT_APPEND;
    net_run(net, 20 * BW_MS); /* the next heartbeat carries the entries again */
    const struct bw_message *again = NULL;
    for (uint32_t i = 0; i < net->count; i++)
        if (net->items[i].held && net->items[i].msg.to == 2)
            again = &net->items[i].msg;
    assert_non_null(again);
    assert_int_equal(again->append.prev_index, 2);
    assert_int_equal(again->append.run[0].count, 3);
    net_free(net);
}

static void without_a_limit_an_append_carries_many_entries(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net->config.pre_vote = false;
    net->config.batch_max = 0;
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    grant(net, 2);
    net_propose(net, 1, 40, 1);
    net_inject(net, 1, reply(net, 2, 1, 1));
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].append.run[0].count, 40);
    net_free(net);
}

/* What a follower acknowledged in an earlier term of this leader may have been truncated since. */
static void acknowledgements_of_an_earlier_leadership_do_not_count(void **state)
{
    (void)state;
    struct net *net = leading(3, "1", 1);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 2, 2));
    assert_int_equal(bw_raft_match(net_raft(net, 1), 2), 2);
    struct bw_message other = append(3, 1, 1);
    other.from = 3;
    net_inject(net, 1, other); /* node 3 leads in term 3 */
    net_event(net, 1, BW_EVENT_HINT, 3);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    grant(net, 2);
    assert_true(net_status(net, 1).leading);
    assert_int_equal(bw_raft_match(net_raft(net, 1), 2), 0);
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), 2);
    net_free(net);
}

/* Until the snapshot has had time to arrive, the follower gets only heartbeats. */
static void snapshot_is_repeated_after_a_timeout_only(void **state)
{
    (void)state;
    struct net *net = leading(3, "1", 1);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 2, 2));
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = 2});
    for (int i = 0; i < 15; i++) { /* node 3 answers nothing; node 2 keeps the leader in office */
        net_run(net, 20 * BW_MS);
        net_inject(net, 1, reply(net, 2, 2, 2));
    }
    assert_int_equal(net->sent[BW_MSG_RAFT_SNAPSHOT], 1);
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].to, 3);
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].append.prev_index, 2);
    net_run(net, 40 * BW_MS);
    assert_int_equal(net->sent[BW_MSG_RAFT_SNAPSHOT], 2);
    net_free(net);
}

static void only_a_failed_compaction_without_a_request_is_traced(void **state)
{
    (void)state;
    struct net *net = leading(3, "1", 1);
    net_run(net, BW_MS);
    net_inject(net, 1, reply(net, 2, 2, 2));
    net->traced = BW_TRACE_COUNT;
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = 2});
    assert_int_equal(net->traced, BW_TRACE_COUNT);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = 2});
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_of_figure_7_converge_to_the_leaders),
        cmocka_unit_test(an_entry_of_an_older_term_is_not_committed_by_counting_as_in_figure_8),
        cmocka_unit_test(leaders_own_disk_counts_only_when_its_write_is_durable),
        cmocka_unit_test(a_follower_acknowledges_only_what_is_durable),
        cmocka_unit_test(stale_acknowledgement_of_a_truncated_write_is_ignored),
        cmocka_unit_test(reappended_entry_waits_while_its_first_write_is_in_flight),
        cmocka_unit_test(a_duplicate_or_shorter_append_truncates_nothing),
        cmocka_unit_test(append_may_span_several_terms_and_overlap_the_log),
        cmocka_unit_test(rejection_names_the_index_where_the_logs_may_match),
        cmocka_unit_test(late_rejection_is_recognized_by_its_prev_index),
        cmocka_unit_test(conflicting_with_a_committed_entry_is_impossible_and_ignored),
        cmocka_unit_test(pipeline_grows_by_one_per_reply_up_to_its_limit),
        cmocka_unit_test(every_message_lost_from_a_full_pipeline_is_sent_again),
        cmocka_unit_test(reordered_heartbeat_costs_a_probe_and_loses_nothing),
        cmocka_unit_test(a_follower_behind_the_log_gets_the_snapshot_and_then_the_rest),
        cmocka_unit_test(a_snapshot_is_acknowledged_only_when_it_is_durable),
        cmocka_unit_test(only_what_is_committed_and_durable_is_compacted),
        cmocka_unit_test(followers_answer_proposals_with_the_leader),
        cmocka_unit_test(idle_heartbeats_carry_no_entries_and_extend_the_window),
        cmocka_unit_test(truncated_entries_are_no_longer_acknowledged),
        cmocka_unit_test(a_follower_appends_no_new_term_while_its_table_is_full),
        cmocka_unit_test(a_node_whose_table_of_terms_is_full_does_not_campaign),
        cmocka_unit_test(earlier_acknowledgement_does_not_end_a_rewrite),
        cmocka_unit_test(a_repeated_acknowledgement_is_ignored),
        cmocka_unit_test(snapshot_of_entries_in_the_log_only_commits_them),
        cmocka_unit_test(snapshot_waits_while_a_rewrite_is_in_flight),
        cmocka_unit_test(lost_append_is_probed_again_only_if_it_is_current),
        cmocka_unit_test(without_a_limit_an_append_carries_many_entries),
        cmocka_unit_test(acknowledgements_of_an_earlier_leadership_do_not_count),
        cmocka_unit_test(snapshot_is_repeated_after_a_timeout_only),
        cmocka_unit_test(only_a_failed_compaction_without_a_request_is_traced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
