/* The request router between the nodes: forwarded requests and their answers, members, transfers,
 * and what happens without memory, capacity or a leader. */
#include "router_bench.h"

#define OTHER ((bw_node)3)

/* Bytes of a request that node `from` forwards. */
static size_t forwarded(unsigned char *out, bw_node from, uint64_t number,
                        enum bw_replica_kind kind, int64_t lease)
{
    uint64_t id = (uint64_t)from << BW_ROUTER_NODE_SHIFT | number;
    bw_put64(out, id);
    out[8] = (unsigned char)kind;
    if (kind != BW_REPLICA_PROPOSAL && kind != BW_REPLICA_CHANGE) {
        bw_put64(out + 9, (uint64_t)lease);
        return 17;
    }
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = lease, .ttl_ns = TTL}};
    bw_put64(out + 9, id);
    int length = bw_entry_encode(&entry, out + 17, 64);
    assert_true(length > 0);
    return 17 + (size_t)length;
}

static void receive(bw_node from, uint64_t number, enum bw_replica_kind kind, int64_t lease)
{
    unsigned char bytes[128];
    bw_router_receive_request(&b.router, from, bytes, forwarded(bytes, from, number, kind, lease));
}

static void reply(bw_node from, uint64_t id, int error, bw_index index, bw_time ttl_ns)
{
    unsigned char bytes[28];
    bw_put64(bytes, id);
    bw_put32(bytes + 8, (uint32_t)-error);
    bw_put64(bytes + 12, index);
    bw_put64(bytes + 20, (uint64_t)ttl_ns);
    bw_router_receive_reply(&b.router, from, bytes, sizeof bytes);
}

static uint64_t propose(int64_t lease)
{
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = lease, .ttl_ns = TTL}};
    return bw_router_propose(&b.router, &entry, scratch, sizeof scratch);
}

static void raft_answers(uint64_t request, int error, bw_index index)
{
    bw_router_raft_answered(
        &b.router, &(struct bw_answer){.request = request, .error = error, .index = index});
}

static void malformed_requests_of_other_nodes_are_ignored(void **state)
{
    (void)state;
    unsigned char bytes[128];
    bw_router_set_leader(&b.router, SELF);
    size_t length = forwarded(bytes, OTHER, 1, BW_REPLICA_READ, 0);
    bw_router_receive_request(&b.router, OTHER, bytes, 8);
    bw_router_receive_request(&b.router, LEADER, bytes, length); /* the id of another node */
    bw_router_receive_request(&b.router, OTHER, bytes, length - 1);
    bytes[8] = BW_REPLICA_KINDS;
    bw_router_receive_request(&b.router, OTHER, bytes, length);
    length = forwarded(bytes, OTHER, 1, BW_REPLICA_PROPOSAL, 5);
    bw_router_receive_request(&b.router, OTHER, bytes, 9 + BW_ROUTER_HEAD - 1);
    bytes[9] ^= 1; /* its entry belongs to another request */
    bw_router_receive_request(&b.router, OTHER, bytes, length);
    assert_int_equal(b.router.requests, 0);
    bytes[9] ^= 1;
    bw_router_receive_request(&b.router, OTHER, bytes, length);
    bw_router_receive_request(&b.router, OTHER, bytes, length); /* repeated */
    assert_int_equal(b.router.requests, 1);
    assert_int_equal(b.tells, 0);
}

static void a_follower_refuses_requests_of_other_nodes(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, LEADER);
    receive(OTHER, 1, BW_REPLICA_READ, 0);
    assert_int_equal(b.told, OTHER);
    assert_int_equal(b.told_error, BW_ENOTLEADER);
    bw_router_set_leader(&b.router, SELF);
    b.no_memory = true;
    receive(OTHER, 2, BW_REPLICA_READ, 0);
    assert_int_equal(b.told_error, BW_EBUSY);
    assert_int_equal(b.router.requests, 0);
}

static void the_leader_answers_reads_and_renewals_of_other_nodes(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    receive(OTHER, 1, BW_REPLICA_READ, 0);
    receive(OTHER, 2, BW_REPLICA_KEEP_ALIVE, 5);
    bw_router_flush(&b.router);
    raft_answers(b.command.request, 0, 77);
    assert_int_equal(b.tells, 2);
    assert_int_equal(b.told_ttl, TTL);
    receive(OTHER, 3, BW_REPLICA_READ, 0);
    bw_router_flush(&b.router);
    raft_answers(b.command.request, 0, 77);
    assert_int_equal(b.told_index, 77); /* the other node waits until it has applied that */
    receive(OTHER, 4, BW_REPLICA_READ, 0);
    bw_router_flush(&b.router);
    raft_answers(b.command.request, BW_ENOTLEADER, 0);
    assert_int_equal(b.told_error, BW_ENOTLEADER);
    assert_int_equal(b.router.requests, 0);
}

/* The other node answers its client when it applies the entry, so the leader sends it a round. */
static void proposals_of_other_nodes_are_nudged_when_committed(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    receive(OTHER, 1, BW_REPLICA_PROPOSAL, 5);
    bw_router_flush(&b.router);
    assert_int_equal(b.command.kind, BW_COMMAND_PROPOSE);
    b.commands = 0;
    bw_router_apply(&b.router, b.logged, b.length);
    assert_int_equal(b.done, 0);
    bw_router_flush(&b.router);
    assert_int_equal(b.commands, 1);
    assert_int_equal(b.command.kind, BW_COMMAND_READ);
    assert_int_equal(b.command.request, 0);
    bw_router_flush(&b.router);
    assert_int_equal(b.commands, 1);
    receive(OTHER, 2, BW_REPLICA_PROPOSAL, 6);
    bw_router_flush(&b.router);
    bw_router_apply(&b.router, b.logged, b.length);
    bw_router_set_leader(&b.router, LEADER); /* a follower wakes no other node */
    b.commands = 0;
    bw_router_flush(&b.router);
    assert_int_equal(b.commands, 0);
}

static void refused_batch_is_reported_to_other_nodes_and_kept_for_ours(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    receive(OTHER, 1, BW_REPLICA_PROPOSAL, 5);
    uint64_t id = propose(6);
    b.refuse = BW_ETRANSFERRING;
    bw_router_flush(&b.router);
    assert_int_equal(b.told_error, BW_ENOTLEADER);
    assert_int_equal(b.router.requests, 1);
    assert_int_equal(b.done, 0);
    b.refuse = 0;
    bw_router_sweep(&b.router); /* tried again */
    bw_router_flush(&b.router);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_int_equal(b.done, id);
}

static void answers_of_the_leader_reach_the_client(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, LEADER);
    uint64_t read = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    uint64_t left = bw_router_ask(&b.router, BW_REPLICA_LEFT, 5);
    unsigned char cut[27] = {0};
    bw_router_receive_reply(&b.router, LEADER, cut, sizeof cut);
    reply(LEADER, left + 100, 0, 0, 0); /* unknown */
    assert_int_equal(b.done, 0);
    reply(LEADER, left, 0, 0, 3);
    assert_int_equal(b.done, left);
    assert_int_equal(b.ttl_ns, 3);
    reply(LEADER, read, 0, 2, 0);
    assert_int_equal(b.done, left); /* waits until index 2 is applied here */
    reply(LEADER, read, 0, 0, 0);   /* repeated: it is no longer forwarded */
    bw_router_serve_reads(&b.router);
    assert_int_equal(b.done, left);
    bw_router_apply(&b.router, NULL, 0);
    bw_router_serve_reads(&b.router);
    assert_int_equal(b.done, left);
    bw_router_apply(&b.router, NULL, 0);
    bw_router_serve_reads(&b.router);
    assert_int_equal(b.done, read);
}

static void refusals_of_the_leader_are_passed_on_or_retried(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, LEADER);
    uint64_t id = propose(5);
    assert_int_equal(b.asks, 1);
    reply(LEADER, id, BW_ENOTLEADER, 0, 0);
    assert_int_equal(b.asks, 1); /* the same node would refuse it again */
    bw_router_sweep(&b.router);
    assert_int_equal(b.asks, 2);
    reply(OTHER, id, BW_ENOTLEADER, 0, 0); /* a former leader: ask the current one at once */
    assert_int_equal(b.asks, 3);
    reply(LEADER, id, BW_EBUSY, 0, 0);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_EBUSY);
}

static void reads_are_routed_again_to_the_next_leader(void **state)
{
    (void)state;
    b.unreachable = true;
    bw_router_set_leader(&b.router, LEADER);
    uint64_t id = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_NEW);
    b.unreachable = false;
    bw_router_reroute(&b.router); /* the connection is back */
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_FORWARDED);
    bw_router_set_leader(&b.router, BW_NODE_NONE);
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_NEW);
    bw_router_set_leader(&b.router, SELF);
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_ROUND);
    bw_router_set_leader(&b.router, SELF); /* no new term for the leases */
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_ROUND);
}

/* Its batch was given to the log, so the outcome is unknown. */
static void logged_proposal_is_lost_with_the_leadership(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    uint64_t id = propose(5);
    bw_router_set_leader(&b.router, LEADER);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ELOST);
    b.commands = 0;
    bw_router_flush(&b.router); /* its batch is empty */
    assert_int_equal(b.commands, 0);
    bw_router_set_leader(&b.router, SELF);
    id = propose(5);
    bw_router_reroute(&b.router); /* still the leader: nothing is lost */
    assert_non_null(bw_router_find(&b.router, id));
}

static void cancelled_requests_leave_their_groups(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    uint64_t first = bw_router_ask(&b.router, BW_REPLICA_LEFT, 5);
    uint64_t second = bw_router_ask(&b.router, BW_REPLICA_LEFT, 5);
    uint64_t logged_id = propose(6);
    bw_router_cancel(&b.router, first);
    bw_router_cancel(&b.router, first); /* unknown now */
    bw_router_cancel(&b.router, logged_id);
    assert_non_null(bw_router_find(&b.router, logged_id)); /* its entry may be committed */
    bw_router_flush(&b.router);
    raft_answers(b.first.request, 0, 0);
    assert_int_equal(b.done, second);
    assert_int_equal(b.answers, 1);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_int_equal(b.done, second); /* no client waits for it */
    assert_false(b.router.nudge);
    propose(7); /* stays in its batch: the teardown frees it */
}

static void rounds_are_answered_in_any_order(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    uint64_t ids[3], rounds[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = bw_router_ask(&b.router, BW_REPLICA_LEFT, 5);
        bw_router_flush(&b.router);
        rounds[i] = b.command.request;
        assert_true(bw_router_is_round(&b.router, rounds[i]));
    }
    raft_answers(rounds[0], 0, 0);
    assert_int_equal(b.done, ids[0]);
    raft_answers(rounds[2], 0, 0);
    assert_int_equal(b.done, ids[2]);
    bw_router_cancel(&b.router, ids[1]);
    raft_answers(rounds[1], 0, 0);
    assert_int_equal(b.done, ids[2]);
    assert_false(bw_router_is_round(&b.router, rounds[1]));
}

static void a_group_of_one_applies_within_its_own_batch(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    b.commits = true;
    propose(5);
    uint64_t second = propose(6);
    bw_router_flush(&b.router);
    assert_int_equal(b.done, second);
    assert_int_equal(b.router.requests, 0);
    assert_null(bw_router_batch(&b.router, b.command.request)); /* it is over */
}

static void requests_without_memory_or_capacity_are_refused(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    b.no_memory = true;
    assert_int_equal(propose(5), 0);
    assert_int_equal(bw_router_ask(&b.router, BW_REPLICA_READ, 0), 0);
    struct bw_command move = {.kind = BW_COMMAND_TRANSFER};
    assert_int_equal(bw_router_transfer(&b.router, &move), 0);
    assert_int_equal(bw_router_change(&b.router, scratch, 4, SELF), 0);
    b.no_memory = false;
    struct bw_entry entry = {.kind = BW_ENTRY_PUT,
                             .put = {.key = {scratch, 1}, .value = {scratch, 1000}}};
    static unsigned char small[64];
    assert_int_equal(bw_router_propose(&b.router, &entry, small, sizeof small), 0);
    b.router.request_bytes = BW_REPLICA_BYTES_MAX - 15;
    assert_int_equal(propose(5), 0);
    assert_int_not_equal(bw_router_ask(&b.router, BW_REPLICA_READ, 0), 0);
    b.router.request_bytes = 0;
    b.router.requests += BW_REPLICA_REQUESTS_MAX - BW_REPLICA_RENEWALS;
    assert_int_equal(propose(5), 0);
    assert_int_not_equal(bw_router_ask(&b.router, BW_REPLICA_KEEP_ALIVE, 5), 0);
    b.router.requests -= BW_REPLICA_REQUESTS_MAX - BW_REPLICA_RENEWALS;
}

/* An allocator with space for requests, but not for their groups. */
static void *take_only_requests(void *context, size_t bytes)
{
    (void)context;
    return bytes < sizeof(struct bw_request) ? NULL : malloc(bytes);
}

static void request_without_a_group_stays_new(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    b.router.hooks.take = take_only_requests;
    uint64_t id = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    receive(OTHER, 1, BW_REPLICA_READ, 0);
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_NEW);
    b.router.hooks.take = take;
    bw_router_set_leader(&b.router, LEADER);
    assert_int_equal(b.asks, 1); /* only ours is forwarded */
    bw_router_set_leader(&b.router, SELF);
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_ROUND);
}

static void requests_time_out_after_five_seconds(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, LEADER);
    uint64_t id = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    b.now += BW_ROUTER_TIMEOUT - 1;
    bw_router_sweep(&b.router);
    assert_int_equal(b.done, 0);
    b.now++;
    bw_router_sweep(&b.router);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ETIMEDOUT); /* the leader may have answered it */
}

static void changes_of_members_are_routed_at_the_end_of_the_turn(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0xb5, 1, 2, 3};
    bw_router_set_leader(&b.router, SELF);
    uint64_t id = bw_router_change(&b.router, bytes, sizeof bytes, SELF);
    assert_int_equal(b.done, 0);
    bw_router_flush(&b.router);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_EUNSUPPORTED); /* without a hook */
    b.router.hooks.change = change;
    b.change_error = BW_ENOTMEMBER;
    id = bw_router_change(&b.router, bytes, sizeof bytes, SELF);
    uint64_t waits = bw_router_change(&b.router, bytes, sizeof bytes, SELF);
    bw_router_flush(&b.router);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ENOTMEMBER);
    b.change_error = 0;
    bw_router_sweep(&b.router); /* the second one waited, because the hook freed a request */
    bw_router_flush(&b.router);
    assert_memory_equal(b.logged + BW_ROUTER_HEAD, bytes, sizeof bytes);
    bw_router_complete(&b.router, waits, 9);
    assert_int_equal(b.done, waits);
    assert_int_equal(b.ttl_ns, 9);
    bw_router_complete(&b.router, waits, 8); /* unknown now */
    assert_int_equal(b.ttl_ns, 9);
    bw_router_set_leader(&b.router, LEADER);
    bw_router_change(&b.router, bytes, sizeof bytes, SELF);
    bw_router_flush(&b.router);
    assert_int_equal(b.asks, 1);
}

static void change_of_another_node_is_completed_with_a_nudge(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    b.router.hooks.change = change;
    receive(OTHER, 1, BW_REPLICA_CHANGE, 5);
    bw_router_flush(&b.router);
    bw_router_complete(&b.router, (uint64_t)OTHER << BW_ROUTER_NODE_SHIFT | 1, 0);
    assert_true(b.router.nudge);
    assert_int_equal(b.done, 0);
    b.router.nudge = false;
    static const unsigned char bytes[] = {0xb5, 1, 2, 3};
    uint64_t id = bw_router_change(&b.router, bytes, sizeof bytes, BW_NODE_NONE);
    bw_router_flush(&b.router);
    bw_router_complete(&b.router, id, 0); /* no client waits */
    assert_false(b.router.nudge);
    assert_int_equal(b.done, 0);
}

/* Raft knows the change by the id of its request. */
static void change_that_raft_refuses_is_retried_or_fails(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0xb5, 1, 2, 3};
    static const int errors[] = {BW_EBUSY, BW_ETRANSFERRING, BW_ENOTLEADER, 0, BW_ENOQUORUM};
    b.router.hooks.change = change;
    bw_router_set_leader(&b.router, SELF);
    uint64_t id = bw_router_change(&b.router, bytes, sizeof bytes, SELF);
    bw_router_flush(&b.router);
    for (unsigned i = 0; i < 5; i++) {
        struct bw_request *request = bw_router_find(&b.router, id);
        request->state = BW_REQUEST_LOGGED; /* as the hook sets it */
        raft_answers(id, errors[i], 0);
        if (i < 3)
            assert_int_equal(request->state, BW_REQUEST_NEW);
        else if (i == 3)
            assert_int_equal(request->state, BW_REQUEST_LOGGED);
    }
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ENOQUORUM);
}

static void a_transfer_is_answered_by_raft_alone(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        b.done = 0;
        bw_router_set_leader(&b.router, SELF);
        struct bw_command move = {.kind = BW_COMMAND_TRANSFER, .node = OTHER};
        uint64_t id = bw_router_transfer(&b.router, &move);
        assert_int_equal(b.command.request, id);
        bw_router_set_leader(&b.router, LEADER); /* it is not forwarded */
        assert_int_equal(b.asks, 0);
        raft_answers(id, fails ? BW_ENOQUORUM : 0, 0);
        assert_int_equal(b.done, id);
        assert_int_equal(b.error, fails ? BW_ENOQUORUM : 0);
    }
    raft_answers(12345, 0, 0); /* unknown */
    uint64_t read = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    raft_answers(read, 0, 0); /* not a command of ours */
    assert_int_not_equal(b.done, read);
}

/* Raft accepts the batch and later answers its command. */
static void acceptance_of_a_batch_changes_nothing(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    uint64_t id = propose(5);
    bw_router_flush(&b.router);
    raft_answers(b.command.request, 0, 1);
    assert_int_equal(b.done, 0);
    assert_int_equal(bw_router_find(&b.router, id)->state, BW_REQUEST_LOGGED);
}

static void entries_that_cannot_be_decoded_are_skipped(void **state)
{
    (void)state;
    unsigned char bytes[] = {0, 0, 0, 0, 0, 0, 0, 0, 99};
    bw_index before = b.router.applied;
    assert_false(bw_router_apply(&b.router, bytes, sizeof bytes));
    assert_int_equal(b.router.applied, before + 1);
}

static void followers_keep_no_deadlines(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    propose(5);
    bw_router_flush(&b.router);
    bw_router_set_leader(&b.router, LEADER);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_int_equal(bw_router_deadline(&b.router), BW_TIME_NEVER);
    b.now += 10 * TTL;
    bw_router_expire(&b.router, scratch, sizeof scratch);
    assert_int_equal(b.router.requests, 0);
    bw_router_set_leader(&b.router, SELF);
    assert_int_equal(bw_router_deadline(&b.router), b.now + TTL);
}

static void refused_grant_starts_no_deadline(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    b.now += 100 * BW_MS;
    grant(5); /* it exists */
    assert_int_equal(bw_router_deadline(&b.router), b.now - 100 * BW_MS + TTL);
}

static void expiry_waits_after_a_stall_and_without_capacity(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    b.now += 2 * TTL;
    bw_router_expire(&b.router, scratch, sizeof scratch); /* the stall is noticed here */
    assert_int_equal(b.router.requests, 0);
    for (int i = 0; i < 50; i++) {
        b.now += 50 * BW_MS;
        bw_router_flush(&b.router);
    }
    b.no_memory = true;
    bw_router_expire(&b.router, scratch, sizeof scratch);
    assert_int_equal(bw_router_deadline(&b.router), b.now + TTL); /* tried again later */
    b.no_memory = false;
    b.length = 0;
    run_for(TTL + BW_SEC);
    assert_int_equal(logged().kind, BW_ENTRY_REVOKE);
}

static void level_is_proposed_once_all_agree_and_there_is_space(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    b.no_memory = true;
    bw_router_set_agreed(&b.router, true);
    bw_router_flush(&b.router);
    assert_int_equal(b.length, 0);
    b.no_memory = false;
    bw_router_set_agreed(&b.router, true); /* nothing new */
    bw_router_flush(&b.router);
    assert_int_equal(b.length, 0);
    bw_router_set_leader(&b.router, SELF);
    bw_router_flush(&b.router);
    assert_int_equal(logged().kind, BW_ENTRY_LEVEL);
    bw_router_set_leader(&b.router, LEADER); /* lost, and no client learns it */
    assert_int_equal(b.tells, 0);
    assert_int_equal(b.done, 0);
}

/* The entry of a forwarded proposal arrives with the leader's log. */
static void a_follower_answers_its_client_when_it_applies_the_entry(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, LEADER);
    uint64_t id = propose(5);
    const struct bw_request *request = bw_router_find(&b.router, id);
    unsigned char bytes[64];
    size_t length = request->length;
    memcpy(bytes, request->bytes, length);
    bw_router_apply(&b.router, bytes, length);
    assert_int_equal(b.done, id);
    assert_int_equal(b.router.requests, 0);
}

static void only_reads_whose_index_is_applied_are_served(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, LEADER);
    uint64_t first = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    uint64_t second = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    uint64_t third = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    reply(LEADER, second, 0, 1, 0);
    bw_router_apply(&b.router, NULL, 0);
    bw_router_serve_reads(&b.router);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.done, second);
    assert_int_equal(bw_router_find(&b.router, first)->state, BW_REQUEST_FORWARDED);
    assert_int_equal(bw_router_find(&b.router, third)->state, BW_REQUEST_FORWARDED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(malformed_requests_of_other_nodes_are_ignored),
        TEST(a_follower_refuses_requests_of_other_nodes),
        TEST(the_leader_answers_reads_and_renewals_of_other_nodes),
        TEST(proposals_of_other_nodes_are_nudged_when_committed),
        TEST(refused_batch_is_reported_to_other_nodes_and_kept_for_ours),
        TEST(answers_of_the_leader_reach_the_client),
        TEST(refusals_of_the_leader_are_passed_on_or_retried),
        TEST(reads_are_routed_again_to_the_next_leader),
        TEST(logged_proposal_is_lost_with_the_leadership),
        TEST(cancelled_requests_leave_their_groups),
        TEST(rounds_are_answered_in_any_order),
        TEST(a_group_of_one_applies_within_its_own_batch),
        TEST(requests_without_memory_or_capacity_are_refused),
        TEST(request_without_a_group_stays_new),
        TEST(requests_time_out_after_five_seconds),
        TEST(changes_of_members_are_routed_at_the_end_of_the_turn),
        TEST(change_of_another_node_is_completed_with_a_nudge),
        TEST(change_that_raft_refuses_is_retried_or_fails),
        TEST(a_transfer_is_answered_by_raft_alone),
        TEST(acceptance_of_a_batch_changes_nothing),
        TEST(entries_that_cannot_be_decoded_are_skipped),
        TEST(followers_keep_no_deadlines),
        TEST(refused_grant_starts_no_deadline),
        TEST(expiry_waits_after_a_stall_and_without_capacity),
        TEST(level_is_proposed_once_all_agree_and_there_is_space),
        TEST(a_follower_answers_its_client_when_it_applies_the_entry),
        TEST(only_reads_whose_index_is_applied_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
