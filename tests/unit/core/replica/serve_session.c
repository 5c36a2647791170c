/* The session of a node of the service, by itself: Raft, peers and clients are played by the test.
 */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/registry/expiry.h"
#include "core/replica/session.h"

#include <stdlib.h>

#define SELF   ((bw_node)1)
#define LEADER ((bw_node)2)
#define TTL    (2 * BW_SEC)

struct bench {
    struct bw_session session;
    struct bw_request *buckets[16];
    struct bw_registry_config config;
    void *memory;
    bw_time now;
    struct bw_command command; /* the last one */
    struct bw_command first;   /* of a turn */
    unsigned commands, asks;
    int refuse; /* what Raft says to a batch; 0: it takes it */
    unsigned char logged[4096];
    size_t length; /* of the last entry that Raft took */
    uint64_t done;
    bw_time ttl_ns;
    int error;
    uint64_t forgets; /* whom an answer leads to be forgotten */
    unsigned answers;
};

static struct bench b;
static struct bw_entry_room room;
static struct bw_op_result ops[BW_TXN_OPS_MAX];
static const struct bw_kv *kvs[64];
static unsigned char scratch[BW_REQUEST_MAX];

static bw_time now(void *context)
{
    (void)context;
    return b.now;
}

static void *take(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void give(void *context, void *block)
{
    (void)context;
    free(block);
}

static bool ask(void *context, bw_node to, const unsigned char *head, size_t head_length,
                const unsigned char *rest, size_t length)
{
    (void)context, (void)head, (void)head_length, (void)rest, (void)length;
    assert_int_equal(to, LEADER);
    b.asks++;
    return true;
}

static bool tell(void *context, bw_node to, const unsigned char *bytes, size_t length)
{
    (void)context, (void)to, (void)bytes, (void)length;
    return true;
}

static void command(void *context, const struct bw_command *asked)
{
    (void)context;
    b.command = *asked;
    if (b.commands++ == 0)
        b.first = *asked;
    if (asked->kind != BW_COMMAND_PROPOSE)
        return;
    const struct bw_request *request = bw_session_batch(&b.session, asked->request);
    if (b.refuse) {
        bw_session_answer(&b.session,
                          &(struct bw_answer){.request = asked->request, .error = b.refuse});
        return;
    }
    for (; request; request = request->with) {
        b.length = request->length;
        memcpy(b.logged, request->bytes, request->length);
    }
}

static void turn(void *context)
{
    (void)context;
}

static void applied(void *context, uint64_t request, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    (void)context, (void)entry, (void)refusal, (void)results;
    b.done = request;
}

static void answered(void *context, uint64_t request, bw_time ttl_ns)
{
    (void)context;
    b.done = request;
    b.ttl_ns = ttl_ns;
    b.answers++;
    if (b.forgets)
        bw_session_forget(&b.session, b.forgets);
}

static void failed(void *context, uint64_t request, int error)
{
    (void)context;
    b.done = request;
    b.error = error;
}

static int set_up(void **state)
{
    static const struct bw_session_hooks hooks = {.now = now,
                                                  .take = take,
                                                  .give = give,
                                                  .ask = ask,
                                                  .tell = tell,
                                                  .command = command,
                                                  .turn = turn,
                                                  .applied = applied,
                                                  .answered = answered,
                                                  .failed = failed};
    (void)state;
    memset(&b, 0, sizeof b);
    b.config = (struct bw_registry_config){.quota = 65536, .leases_max = 16, .history = 1024};
    size_t bytes = bw_registry_bytes(&b.config);
    b.memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    memset(b.memory, 0, bytes);
    b.now = 1000 * BW_SEC;
    bw_session_init(&b.session, SELF, 7, &hooks, b.buckets, 16);
    b.session.room = &room;
    b.session.results =
        (struct bw_results){.ops = ops, .op_cap = BW_TXN_OPS_MAX, .kvs = kvs, .kv_cap = 64};
    return bw_registry_init(&b.session.registry, b.memory, bytes, &b.config);
}

static int tear_down(void **state)
{
    (void)state;
    bw_session_clear(&b.session);
    free(b.memory);
    return 0;
}

/* Time goes by as at a node that runs. */
static void run_for(bw_time span)
{
    for (bw_time end = b.now + span; b.now < end;) {
        b.now += 50 * BW_MS;
        bw_session_expire(&b.session, scratch, sizeof scratch);
        bw_session_flush(&b.session);
    }
}

static void grant(int64_t lease)
{
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = lease, .ttl_ns = TTL}};
    uint64_t id = bw_session_propose(&b.session, &entry, scratch, sizeof scratch);
    bw_session_flush(&b.session);
    bw_session_apply(&b.session, b.logged, b.length);
    assert_int_equal(b.done, id);
    b.length = 0;
}

static void a_revoke_that_raft_refuses_is_tried_again(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    grant(5);
    b.refuse = BW_ETRANSFERRING;
    run_for(TTL + BW_SEC);
    assert_int_equal(b.length, 0);
    b.refuse = 0;
    run_for(TTL + BW_SEC);
    assert_int_not_equal(b.length, 0);
    assert_true(bw_session_apply(&b.session, b.logged, b.length));
    struct bw_lease_view lease;
    assert_false(bw_registry_lease(b.session.registry, 5, &lease));
}

static void after_a_stall_all_leases_count_anew_whatever_runs_first(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    grant(5);
    b.now += 2 * TTL;
    bw_session_flush(&b.session);
    bw_session_expire(&b.session, scratch, sizeof scratch);
    bw_session_flush(&b.session);
    assert_int_equal(b.length, 0);
    run_for(TTL + BW_SEC);
    assert_int_not_equal(b.length, 0);
}

static void a_read_waits_for_its_round_and_for_what_was_committed_then(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    uint64_t id = bw_session_ask(&b.session, BW_REPLICA_READ, 0);
    bw_session_flush(&b.session);
    assert_int_equal(b.command.kind, BW_COMMAND_READ);
    assert_int_equal(b.done, 0);
    bw_session_answer(&b.session, &(struct bw_answer){.request = b.command.request, .index = 1});
    assert_int_equal(b.done, 0);
    bw_session_apply(&b.session, NULL, 0);
    bw_session_reads(&b.session);
    assert_int_equal(b.done, id);
}

static void a_renewal_of_a_round_that_failed_renews_nothing(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    grant(5);
    b.done = 0;
    uint64_t id = bw_session_ask(&b.session, BW_REPLICA_KEEP_ALIVE, 5);
    bw_session_flush(&b.session);
    bw_session_answer(&b.session,
                      &(struct bw_answer){.request = b.command.request, .error = BW_ENOTLEADER});
    assert_int_equal(b.done, 0);
    bw_session_led(&b.session, LEADER); /* passed on to who leads instead */
    assert_int_equal(b.asks, 1);
    assert_non_null(bw_session_find(&b.session, id));
}

static void a_renewal_goes_to_raft_before_new_work_that_came_earlier(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 6, .ttl_ns = TTL}};
    bw_session_led(&b.session, SELF);
    grant(5);
    for (unsigned i = 0; i < 100; i++)
        assert_int_not_equal(bw_session_propose(&b.session, &entry, scratch, sizeof scratch), 0);
    uint64_t id = bw_session_ask(&b.session, BW_REPLICA_KEEP_ALIVE, 5);
    b.commands = 0;
    bw_session_flush(&b.session);
    assert_int_equal(b.commands, 2); /* one round, and behind it one batch in the same turn */
    assert_int_equal(b.first.kind, BW_COMMAND_READ);
    assert_int_equal(b.command.kind, BW_COMMAND_PROPOSE);
    assert_int_equal(b.command.count, 100);
    bw_session_answer(&b.session, &(struct bw_answer){.request = b.first.request});
    assert_int_equal(b.done, id); /* though nothing of the batch is committed */
    assert_int_equal(b.ttl_ns, TTL);
}

static void what_was_with_a_leader_that_is_gone_is_unknown(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = TTL}};
    bw_session_led(&b.session, LEADER);
    uint64_t id = bw_session_propose(&b.session, &entry, scratch, sizeof scratch);
    assert_int_equal(b.asks, 1);
    bw_session_led(&b.session, BW_NODE_NONE);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ELOST);
    assert_int_equal(b.asks, 1);
}

static void what_nobody_took_in_time_was_certainly_not_done(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = TTL}};
    uint64_t id = bw_session_propose(&b.session, &entry, scratch, sizeof scratch);
    b.now += BW_SESSION_PATIENCE;
    bw_session_sweep(&b.session);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ENOTLEADER);
}

static void a_snapshot_leaves_what_was_passed_on_unknown(void **state)
{
    (void)state;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = TTL}};
    bw_session_led(&b.session, LEADER);
    uint64_t id = bw_session_propose(&b.session, &entry, scratch, sizeof scratch);
    bw_session_restored(&b.session);
    assert_int_equal(b.done, id);
    assert_int_equal(b.error, BW_ELOST);
}

static void an_answer_may_lead_others_of_its_round_to_be_forgotten(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    bw_session_ask(&b.session, BW_REPLICA_LEFT, 5);
    b.forgets = bw_session_ask(&b.session, BW_REPLICA_LEFT, 5);
    bw_session_flush(&b.session);
    bw_session_answer(&b.session, &(struct bw_answer){.request = b.command.request});
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.session.requests, 0);
}

static void an_answer_may_lead_other_reads_to_be_forgotten(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    bw_session_ask(&b.session, BW_REPLICA_READ, 0);
    uint64_t other = bw_session_ask(&b.session, BW_REPLICA_READ, 0);
    bw_session_flush(&b.session);
    bw_session_answer(&b.session, &(struct bw_answer){.request = b.command.request, .index = 1});
    b.forgets = other;
    bw_session_apply(&b.session, NULL, 0);
    bw_session_reads(&b.session);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.session.requests, 0);
}

static struct bw_entry logged(void)
{
    struct bw_entry entry;
    assert_true(b.length > BW_SESSION_HEAD);
    assert_int_equal(
        bw_entry_decode(&entry, &room, b.logged + BW_SESSION_HEAD, b.length - BW_SESSION_HEAD), 0);
    return entry;
}

static uint32_t level(void)
{
    struct bw_registry_status status;
    bw_registry_status(b.session.registry, &status);
    return status.level;
}

static void a_leader_raises_the_level_when_all_understand_it(void **state)
{
    (void)state;
    bw_session_led(&b.session, SELF);
    bw_session_agree(&b.session, false);
    run_for(BW_SEC);
    assert_int_equal(b.length, 0);
    bw_session_agree(&b.session, true);
    run_for(BW_SEC);
    assert_int_equal(logged().kind, BW_ENTRY_LEVEL);
    assert_int_equal(level(), 1);
    bw_session_apply(&b.session, b.logged, b.length);
    assert_int_equal(level(), BW_REGISTRY_LEVEL);
    b.length = 0;
    bw_session_led(&b.session, LEADER);
    bw_session_led(&b.session, SELF);
    run_for(BW_SEC);
    assert_int_equal(b.length, 0); /* once is enough */
}

static void change_users(enum bw_users_act act)
{
    struct bw_users_change change = {.act = act,
                                     .user = {.name = "root", .roles = 1u << BW_ROLE_ADMIN}};
    assert_int_equal(bw_registry_users_change(b.session.registry, &change), 0);
}

/* Users are enabled between the revocation and its place in the log. */
static void leases_end_whoever_is_asked(void **state)
{
    (void)state;
    struct bw_lease_view lease;
    bw_session_led(&b.session, SELF);
    grant(5);
    run_for(TTL + BW_SEC);
    assert_int_equal(logged().by.kind, BW_BY_ANYBODY);
    change_users(BW_USERS_ADD);
    change_users(BW_USERS_ENABLE);
    bw_session_apply(&b.session, b.logged, b.length);
    assert_true(bw_registry_lease(b.session.registry, 5, &lease));
    b.length = 0;
    run_for(TTL + BW_SEC);
    assert_int_equal(logged().by.kind, BW_BY_NODE);
    bw_session_apply(&b.session, b.logged, b.length);
    assert_false(bw_registry_lease(b.session.registry, 5, &lease));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_revoke_that_raft_refuses_is_tried_again),
        TEST(after_a_stall_all_leases_count_anew_whatever_runs_first),
        TEST(a_read_waits_for_its_round_and_for_what_was_committed_then),
        TEST(a_renewal_of_a_round_that_failed_renews_nothing),
        TEST(a_renewal_goes_to_raft_before_new_work_that_came_earlier),
        TEST(what_was_with_a_leader_that_is_gone_is_unknown),
        TEST(what_nobody_took_in_time_was_certainly_not_done),
        TEST(a_snapshot_leaves_what_was_passed_on_unknown),
        TEST(an_answer_may_lead_others_of_its_round_to_be_forgotten),
        TEST(a_leader_raises_the_level_when_all_understand_it),
        TEST(leases_end_whoever_is_asked),
        TEST(an_answer_may_lead_other_reads_to_be_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
