/* The request router of a service node; the test plays Raft, peers and clients. */
#include "router_bench.h"

static void refused_revocation_is_retried(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    b.refuse = BW_ETRANSFERRING;
    run_for(TTL + BW_SEC);
    assert_int_equal(b.length, 0);
    b.refuse = 0;
    run_for(TTL + BW_SEC);
    assert_int_not_equal(b.length, 0);
    assert_true(bw_router_apply(&b.router, b.logged, b.length));
    struct bw_lease_view lease;
    assert_false(bw_registry_lease(b.router.registry, 5, &lease));
}

static void all_leases_restart_after_a_stall(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    b.now += 2 * TTL;
    bw_router_flush(&b.router);
    bw_router_expire(&b.router, scratch, sizeof scratch);
    bw_router_flush(&b.router);
    assert_int_equal(b.length, 0);
    run_for(TTL + BW_SEC);
    assert_int_not_equal(b.length, 0);
}

static void read_waits_for_quorum_round_and_commit_index(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    uint64_t id = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    bw_router_flush(&b.router);
    assert_int_equal(b.command.kind, BW_COMMAND_READ);
    assert_int_equal(b.done, 0);
    bw_router_raft_answered(&b.router,
                            &(struct bw_answer){.request = b.command.request, .index = 1});
    assert_int_equal(b.done, 0);
    bw_router_apply(&b.router, NULL, 0);
    bw_router_serve_reads(&b.router);
    assert_int_equal(b.done, id);
}

static void renewal_has_no_effect_when_its_round_failed(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    b.done = 0;
    uint64_t id = bw_router_ask(&b.router, BW_REPLICA_KEEP_ALIVE, 5);
    bw_router_flush(&b.router);
    bw_router_raft_answered(
        &b.router, &(struct bw_answer){.request = b.command.request, .error = BW_ENOTLEADER});
    assert_int_equal(b.done, 0);
    bw_router_set_leader(&b.router, LEADER); /* forwarded to the new leader instead */
    assert_int_equal(b.asks, 1);
    assert_non_null(bw_router_find(&b.router, id));
}

static void renewal_precedes_earlier_proposals(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 6, .ttl_ns = TTL}};
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    for (unsigned i = 0; i < 100; i++)
        assert_int_not_equal(bw_router_propose(&b.router, &entry, scratch, sizeof scratch), 0);
    uint64_t id = bw_router_ask(&b.router, BW_REPLICA_KEEP_ALIVE, 5);
    b.commands = 0;
    bw_router_flush(&b.router);
    assert_int_equal(b.commands, 2); /* one round, then one batch in the same turn */
    assert_int_equal(b.first.kind, BW_COMMAND_READ);
    assert_int_equal(b.command.kind, BW_COMMAND_PROPOSE);
    assert_int_equal(b.command.count, 100);
    bw_router_raft_answered(&b.router, &(struct bw_answer){.request = b.first.request});
    assert_int_equal(b.done, id); /* although no entry of the batch is committed */
    assert_int_equal(b.ttl_ns, TTL);
}

static void forwarded_proposal_is_lost_when_leader_is_gone(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = TTL}};
    bw_router_set_leader(&b.router, LEADER);
    uint64_t id = bw_router_propose(&b.router, &entry, scratch, sizeof scratch);
    assert_int_equal(b.asks, 1);
    bw_router_set_leader(&b.router, BW_NODE_NONE);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ELOST);
    assert_int_equal(b.asks, 1);
}

static void proposal_without_leader_fails_as_not_executed(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = TTL}};
    uint64_t id = bw_router_propose(&b.router, &entry, scratch, sizeof scratch);
    b.now += BW_ROUTER_TIMEOUT;
    bw_router_sweep(&b.router);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ENOTLEADER);
}

static void forwarded_proposal_is_lost_when_snapshot_is_installed(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = TTL}};
    bw_router_set_leader(&b.router, LEADER);
    uint64_t id = bw_router_propose(&b.router, &entry, scratch, sizeof scratch);
    bw_router_snapshot_installed(&b.router);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ELOST);
}

static void hook_may_cancel_requests_of_the_same_round(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    bw_router_ask(&b.router, BW_REPLICA_LEFT, 5);
    b.cancels = bw_router_ask(&b.router, BW_REPLICA_LEFT, 5);
    bw_router_flush(&b.router);
    bw_router_raft_answered(&b.router, &(struct bw_answer){.request = b.command.request});
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.router.requests, 0);
}

static void hook_may_cancel_other_reads(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    uint64_t other = bw_router_ask(&b.router, BW_REPLICA_READ, 0);
    bw_router_flush(&b.router);
    bw_router_raft_answered(&b.router,
                            &(struct bw_answer){.request = b.command.request, .index = 1});
    b.cancels = other;
    bw_router_apply(&b.router, NULL, 0);
    bw_router_serve_reads(&b.router);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.router.requests, 0);
}

static uint32_t level(void)
{
    struct bw_registry_status status;
    bw_registry_status(b.router.registry, &status);
    return status.level;
}

static void a_leader_raises_the_level_when_all_understand_it(void **state)
{
    (void)state;
    bw_router_set_leader(&b.router, SELF);
    bw_router_set_agreed(&b.router, false);
    run_for(BW_SEC);
    assert_int_equal(b.length, 0);
    bw_router_set_agreed(&b.router, true);
    run_for(BW_SEC);
    assert_int_equal(logged().kind, BW_ENTRY_LEVEL);
    assert_int_equal(level(), 1);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_int_equal(level(), BW_REGISTRY_LEVEL);
    b.length = 0;
    bw_router_set_leader(&b.router, LEADER);
    bw_router_set_leader(&b.router, SELF);
    run_for(BW_SEC);
    assert_int_equal(b.length, 0); /* only once */
}

static void change_users(enum bw_users_act act)
{
    struct bw_users_change change = {.act = act,
                                     .user = {.name = "root", .roles = 1u << BW_ROLE_ADMIN}};
    assert_int_equal(bw_registry_users_change(b.router.registry, &change), 0);
}

/* Users are enabled after the revocation is proposed and before it is applied. */
static void expired_leases_are_revoked_after_users_are_enabled(void **state)
{
    (void)state;
    struct bw_lease_view lease;
    bw_router_set_leader(&b.router, SELF);
    grant(5);
    run_for(TTL + BW_SEC);
    assert_int_equal(logged().by.kind, BW_REQUESTER_UNKNOWN);
    change_users(BW_USERS_ADD);
    change_users(BW_USERS_ENABLE);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_true(bw_registry_lease(b.router.registry, 5, &lease));
    b.length = 0;
    run_for(TTL + BW_SEC);
    assert_int_equal(logged().by.kind, BW_REQUESTER_NODE);
    bw_router_apply(&b.router, b.logged, b.length);
    assert_false(bw_registry_lease(b.router.registry, 5, &lease));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(refused_revocation_is_retried),
        TEST(all_leases_restart_after_a_stall),
        TEST(read_waits_for_quorum_round_and_commit_index),
        TEST(renewal_has_no_effect_when_its_round_failed),
        TEST(renewal_precedes_earlier_proposals),
        TEST(forwarded_proposal_is_lost_when_leader_is_gone),
        TEST(proposal_without_leader_fails_as_not_executed),
        TEST(forwarded_proposal_is_lost_when_snapshot_is_installed),
        TEST(hook_may_cancel_requests_of_the_same_round),
        TEST(a_leader_raises_the_level_when_all_understand_it),
        TEST(expired_leases_are_revoked_after_users_are_enabled),
        TEST(hook_may_cancel_other_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
