/* Three nodes with real disks and sockets on one loop. A value written through one node can be read
 * through all nodes: also after restarts, after the leader is gone, and through a node that returns
 * far behind. */
#include "serve/replica/replica.h"
#include "serve/replica/state.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "system/kit/disk_stall.h"
#include "system/kit/ports.h"
#include "system/kit/scratch.h"
#include "system/kit/stall.h"
#include "unit/unit.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define NODES    3u
#define HANG_MS  120000 /* of one test */
#define STALL_MS 200    /* a machine that stalls for so long may cost a node its leadership */
/* A leader steps down if its disk does not complete a write for 1 s. */
#define DISK_STALL_MS 500

struct node {
    struct bw_replica *replica;
    char dir[SCRATCH_MAX + 16];
    uint64_t waiting; /* request */
    int outcome;      /* 1: done; else an error */
    uint64_t early;   /* the last request that ended before it was waited for */
    int early_outcome;
    enum bw_refusal refusal;
    int64_t revision;
    bw_time ttl_ns;
    unsigned changes;
    bool ended;
    char why[BW_REPLICA_WHY_MAX + 1]; /* it ended */
};

static struct {
    uv_loop_t loop;
    uv_timer_t timeout;
    char dir[SCRATCH_MAX];
    struct bw_replica_member members[NODES];
    struct node node[NODES];
    uint32_t count;
    bool out_of_time, open;
} w;

static bw_time patience; /* election timeout of the nodes that start; 0: the default */

static void on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    struct node *node = context;
    (void)entry;
    if (request != node->waiting)
        return;
    node->outcome = 1;
    node->refusal = refusal;
    node->revision = results->revision;
}

static void note_end(struct node *node, uint64_t request, int outcome)
{
    if (request == node->waiting) {
        node->outcome = outcome;
    } else {
        node->early = request;
        node->early_outcome = outcome;
    }
}

static void on_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    struct node *node = context;
    note_end(node, request, 1);
    if (request == node->waiting)
        node->ttl_ns = ttl_ns;
}

static void on_failed(void *context, uint64_t request, int error)
{
    note_end(context, request, error);
}

static void on_changed(void *context, bool restored)
{
    (void)restored;
    ((struct node *)context)->changes++;
}

static void on_led(void *context)
{
    (void)context;
}

static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    (void)end;
    struct node *node = context;
    node->ended = true;
    snprintf(node->why, sizeof node->why, "%s", why);
}

static void on_timeout(uv_timer_t *timer)
{
    (void)timer;
    w.out_of_time = true;
}

static void node_start(uint32_t i)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    struct node *node = &w.node[i];
    struct bw_replica_options options = {
        .loop = &w.loop,
        .directory = node->dir,
        .cluster = 77,
        .self = i + 1,
        .members = w.members,
        .count = w.count,
        .registry = {.quota = 256 << 20, .leases_max = 100000, .history = 10000},
        .timeout_ns = patience,
        .context = node,
        .applied = on_applied,
        .answered = on_answered,
        .failed = on_failed,
        .changed = on_changed,
        .led = on_led,
        .ended = on_ended};
    if (bw_replica_open(&node->replica, &options, why) != 0)
        fail_msg("node %u: %s", i + 1, why);
}

static void on_closed(void *context)
{
    ((struct node *)context)->replica = NULL;
}

static void node_stop(uint32_t i)
{
    struct bw_replica *replica = w.node[i].replica;
    if (!replica)
        return;
    bw_replica_close(replica, on_closed);
    while (w.node[i].replica)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static void world_open(uint32_t count)
{
    memset(&w, 0, sizeof w);
    scratch_make(w.dir);
    uv_loop_init(&w.loop);
    uv_timer_init(&w.loop, &w.timeout);
    w.count = count;
    w.open = true;
    for (uint32_t i = 0; i < count; i++) {
        w.members[i] = (struct bw_replica_member){.id = i + 1, .port = free_port()};
        snprintf(w.members[i].host, sizeof w.members[i].host, "127.0.0.1");
        snprintf(w.node[i].dir, sizeof w.node[i].dir, "%s/%u", w.dir, i + 1);
        assert_int_equal(mkdir(w.node[i].dir, 0700), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        node_start(i);
    uv_update_time(&w.loop);
    uv_timer_start(&w.timeout, on_timeout, HANG_MS, 0);
}

/* Also after a failed assertion, which leaves the test at once. */
static int world_close(void **state)
{
    (void)state;
    if (!w.open)
        return 0;
    w.open = false;
    patience = 0;
    for (uint32_t i = 0; i < w.count; i++)
        node_stop(i);
    uv_close((uv_handle_t *)&w.timeout, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    scratch_remove(w.dir);
    return 0;
}

/* One turn of the loop; fails the test if it takes very long, or if a node ends that has not lost
 * its disk. Callbacks only record: an assertion that fails in one would leave the loop
 * in the middle of its work, and the teardown could wait for ever. */
static void turn(void)
{
    uv_run(&w.loop, UV_RUN_ONCE);
    assert_false(w.out_of_time);
    for (uint32_t i = 0; i < w.count; i++)
        if (w.node[i].ended && !strstr(w.node[i].why, "its data is lost"))
            fail_msg("node %u ended: %s", i + 1, w.node[i].why);
}

static int wait_for(uint32_t i, uint64_t request)
{
    struct node *node = &w.node[i];
    node->waiting = request;
    node->outcome = 0;
    assert_true(request != 0);
    while (node->outcome == 0)
        turn();
    return node->outcome;
}

static struct bw_slice text(const char *string)
{
    return (struct bw_slice){(const unsigned char *)string, strlen(string)};
}

static struct bw_replica_status status_of(uint32_t i)
{
    struct bw_replica_status status;
    bw_replica_status(w.node[i].replica, &status);
    return status;
}

static uint32_t leader(void)
{
    for (;;) {
        for (uint32_t i = 0; i < w.count; i++)
            if (w.node[i].replica && status_of(i).leading)
                return i;
        turn();
    }
}

/* Waits until a node other than `gone` leads and node `i` knows it. A request that is sent to a
 * leader that dies is lost. */
static void until_follows_another(uint32_t i, uint32_t gone)
{
    while (status_of(i).leader == BW_NODE_NONE || status_of(i).leader == gone + 1)
        turn();
}

/* Waits until a node that was away has applied what the leader has. */
static void until_caught_up(uint32_t i)
{
    while (status_of(i).applied < status_of(leader()).commit)
        turn();
}

static void watch_machine(void)
{
    stall_watch();
    disk_stall_watch();
}

/* True if the machine may have cost a node its leadership since watch_machine. */
static bool machine_excuses(const char *what)
{
    return stall_excuses(STALL_MS, what) || disk_stall_excuses(DISK_STALL_MS, what);
}

static int propose(uint32_t i, const struct bw_entry *entry)
{
    watch_machine();
    int outcome = wait_for(i, bw_replica_propose(w.node[i].replica, entry));
    while (outcome == BW_ELOST && machine_excuses("a proposal")) {
        watch_machine();
        outcome = wait_for(i, bw_replica_propose(w.node[i].replica, entry));
    }
    return outcome;
}

static void put(uint32_t i, const char *key, const char *value)
{
    struct bw_entry entry = {.kind = BW_ENTRY_PUT, .put = {.key = text(key), .value = text(value)}};
    assert_int_equal(propose(i, &entry), 1);
    assert_int_equal(w.node[i].refusal, 0);
}

static void has(uint32_t i, const char *key, const char *value)
{
    const struct bw_kv *kvs[1];
    struct bw_results results = {.kvs = kvs, .kv_cap = 1};
    struct bw_op_result found;
    struct bw_range range = {.keys = {.key = text(key)}};
    bw_registry_range(bw_replica_registry(w.node[i].replica), &range, &results, &found);
    assert_int_equal(found.kv_count, value != NULL);
    if (value)
        assert_memory_equal(bw_kv_value(found.kvs[0]).at, value, strlen(value));
}

/* A linearizable read. */
static void reads(uint32_t i, const char *key, const char *value)
{
    assert_int_equal(wait_for(i, bw_replica_read(w.node[i].replica)), 1);
    has(i, key, value);
}

/* A linearizable read at a node that is far behind: right, or not answered in time. */
static void reads_or_times_out(uint32_t i, const char *key, const char *value)
{
    int outcome = wait_for(i, bw_replica_read(w.node[i].replica));
    if (outcome == 1)
        has(i, key, value);
    else
        assert_int_equal(outcome, BW_ETIMEDOUT);
}

static void one_node_alone_serves(void **state)
{
    (void)state;
    world_open(1);
    put(0, "a", "1");
    reads(0, "a", "1");
    node_stop(0);
    node_start(0);
    reads(0, "a", "1");
    put(0, "a", "2");
    assert_int_equal(w.node[0].revision, 3);
}

static int sleeps_ms;

static void on_prepare(uv_prepare_t *prepare)
{
    sleeps_ms = uv_backend_timeout(prepare->loop);
    uv_prepare_stop(prepare);
}

/* Like a timer that ends a lease: no socket is ready in this turn. */
static void request_between_turns_is_sent_before_the_loop_sleeps(void **state)
{
    (void)state;
    static uv_prepare_t prepare;
    struct bw_entry entry = {.kind = BW_ENTRY_PUT, .put = {.key = text("a"), .value = text("1")}};
    world_open(1);
    put(0, "a", "0");
    uv_prepare_init(&w.loop, &prepare);
    uv_prepare_start(&prepare, on_prepare);
    sleeps_ms = -2;
    assert_int_equal(wait_for(0, bw_replica_propose(w.node[0].replica, &entry)), 1);
    assert_int_equal(sleeps_ms, 0);
    uv_close((uv_handle_t *)&prepare, NULL);
}

/* All nodes are in this process, and so are both ends of every connection between them. */
static void break_connections(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.ss_family == AF_INET)
            shutdown(fd, SHUT_RDWR);
    }
}

/* What a founder found on its disk was nothing. It must not report that when it connects again: to
 * the others it would look as if it had lost its data. */
static void founders_stay_members_when_their_connections_break(void **state)
{
    (void)state;
    world_open(3);
    put(0, "a", "1");
    for (uint32_t i = 0; i < 3; i++)
        until_caught_up(i);
    break_connections();
    for (bw_time until = bw_clock_boot() + BW_SEC; bw_clock_boot() < until;)
        turn();
    put(leader(), "a", "2");
    for (uint32_t i = 0; i < 3; i++) {
        until_caught_up(i);
        has(i, "a", "2");
        assert_false(w.node[i].ended);
    }
}

static void write_at_one_node_is_read_at_all(void **state)
{
    (void)state;
    char key[16];
    world_open(3);
    for (unsigned i = 0; i < 30; i++) {
        snprintf(key, sizeof key, "k%u", i);
        put(i % 3, key, key);
        reads((i + 1) % 3, key, key);
        reads((i + 2) % 3, key, key);
    }
}

static void another_node_leads_when_the_leader_stops(void **state)
{
    (void)state;
    world_open(3);
    put(0, "a", "1");
    for (unsigned round = 0; round < 6; round++) {
        char value[8];
        uint32_t gone = leader();
        node_stop(gone);
        snprintf(value, sizeof value, "%u", round);
        until_follows_another((gone + 1) % 3, gone);
        put((gone + 1) % 3, "a", value);
        reads((gone + 2) % 3, "a", value);
        node_start(gone);
        reads(gone, "a", value);
    }
}

static void everything_survives_a_restart_of_all(void **state)
{
    (void)state;
    world_open(3);
    for (unsigned round = 0; round < 3; round++) {
        char value[8];
        snprintf(value, sizeof value, "%u", round);
        put(round, "a", value);
        for (uint32_t i = 0; i < 3; i++)
            node_stop(i);
        for (uint32_t i = 0; i < 3; i++)
            node_start(i);
        reads((round + 1) % 3, "a", value);
    }
}

static void lease_expires_when_it_is_not_renewed(void **state)
{
    (void)state;
    world_open(3);
    const bw_time ttl = 2 * BW_SEC;
    struct bw_entry grant = {.kind = BW_ENTRY_GRANT, .lease = {.id = 5, .ttl_ns = ttl}};
    assert_int_equal(wait_for(0, bw_replica_propose(w.node[0].replica, &grant)), 1);
    struct bw_entry held = {.kind = BW_ENTRY_PUT, .put = {.key = text("l"), .lease = 5}};
    assert_int_equal(wait_for(1, bw_replica_propose(w.node[1].replica, &held)), 1);
    bw_time begun = bw_clock_boot();
    for (unsigned i = 0; bw_clock_boot() - begun < ttl + ttl / 4; i++) {
        for (unsigned turns = 0; turns < 5; turns++)
            turn();
        assert_int_equal(wait_for(i % 3, bw_replica_keep_alive(w.node[i % 3].replica, 5)), 1);
        assert_int_equal(w.node[i % 3].ttl_ns, ttl);
    }
    reads(2, "l", "");
    struct bw_lease_view view;
    while (bw_registry_lease(bw_replica_registry(w.node[2].replica), 5, &view))
        turn();
    reads(0, "l", NULL);
    assert_int_equal(wait_for(1, bw_replica_keep_alive(w.node[1].replica, 5)), 1);
    assert_int_equal(w.node[1].ttl_ns, 0);
}

/* Enough data for snapshots; one node is away meanwhile. */
static void node_that_was_away_long_gets_a_snapshot(void **state)
{
    (void)state;
    static char large[200001];
    char key[16];
    world_open(3);
    put(0, "first", "1");
    uint32_t away = (leader() + 1) % 3, writer = leader();
    node_stop(away);
    memset(large, 'x', 200000);
    for (unsigned i = 0; i < 600; i++) { /* 120 MB of log */
        snprintf(key, sizeof key, "k%u", i % 50);
        put(writer, key, large);
    }
    put(writer, "last", "2");
    for (uint64_t bytes = UINT64_MAX; bytes > (100u << 20); bytes = status_of(writer).log_bytes)
        turn();
    node_start(away);
    reads_or_times_out(away, "last", "2");
    until_caught_up(away);
    reads(away, "first", "1");
    reads(away, "last", "2");
    node_stop(away);
    node_start(away);
    reads(away, "last", "2");
    node_stop(writer);
    node_start(writer);
    reads(writer, "last", "2");
}

static bw_time cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

/* CPU time that one turn of the loop would take to load this node's snapshot. */
static bw_time cpu_to_load(uint32_t i)
{
    static const struct bw_registry_config config = {
        .quota = 256 << 20, .leases_max = 100000, .history = 10000};
    struct bw_registry_memory memory;
    struct bw_snapshot_head head;
    char why[BW_REPLICA_WHY_MAX + 1];
    bw_time begun = cpu_now();
    assert_int_equal(bw_registry_memory_make(&memory, &config, why), 0);
    assert_int_equal(bw_snapshot_read(w.node[i].dir, 77, &head, memory.registry, why), 0);
    bw_time took = cpu_now() - begun;
    assert_true(head.index > 0);
    bw_registry_memory_drop(&memory);
    return took;
}

/* The nodes share one thread: its CPU time bounds that of the node that installs the snapshot. */
static void loop_turns_while_a_snapshot_is_loaded(void **state)
{
    (void)state;
    static char large[200001];
    bw_time longest = 0;
    char key[16];
    patience = 10 * BW_SEC; /* a slow disk must not cost the leader its leadership */
    world_open(3);
    put(0, "first", "1");
    uint32_t away = (leader() + 1) % 3, writer = leader();
    node_stop(away);
    memset(large, 'x', 200000);
    for (unsigned i = 0; i < 800; i++) { /* 160 MB that are all live */
        snprintf(key, sizeof key, "k%u", i);
        put(writer, key, large);
    }
    for (uint64_t bytes = UINT64_MAX; bytes > (120u << 20); bytes = status_of(writer).log_bytes)
        turn();
    node_start(away);
    const struct bw_replica *r = w.node[away].replica;
    while (status_of(away).applied < status_of(leader()).commit) {
        bw_index before = r->snapshot_index;
        bw_time begun = cpu_now();
        turn();
        bw_time took = cpu_now() - begun;
        if (r->snapshot_index != before && took > longest)
            longest = took;
    }
    assert_true(longest > 0);
    has(away, "first", "1");
    has(away, "k799", large);
    bw_time load = cpu_to_load(away);
    print_message("# turn with the snapshot: %lld ms, loading: %lld ms of CPU time\n",
                  (long long)(longest / BW_MS), (long long)(load / BW_MS));
    assert_true(longest < load / 2);
}

/* Bytes that a node has sent to another one. */
static uint64_t sent_to(uint32_t i, uint32_t other)
{
    uint64_t sent, unsent;
    bw_mesh_traffic(w.node[i].replica->mesh, other + 1, &sent, &unsent);
    return sent;
}

/* Takes proposals for two heartbeat intervals without a turn of the loop. Returns true if the
 * follower got something meanwhile: proposals go to the log only at the end of the turn. */
static bool beats_in_one_turn(uint32_t i, uint32_t follower)
{
    struct bw_entry entry = {.kind = BW_ENTRY_PUT,
                             .put = {.key = text("key"), .value = text("value")}};
    put(i, "before", "1"); /* the followers have just answered */
    uint64_t before = sent_to(i, follower);
    bw_time begun = bw_clock_boot();
    while (sent_to(i, follower) == before && bw_clock_boot() - begun < 2 * BW_REPLICA_HEARTBEAT) {
        bw_replica_propose(w.node[i].replica, &entry);
        usleep(5000);
    }
    return sent_to(i, follower) > before;
}

static void leader_sends_heartbeats_in_a_long_turn(void **state)
{
    (void)state;
    world_open(3);
    put(0, "first", "1");
    stall_watch();
    while (!beats_in_one_turn(leader(), (leader() + 1) % 3)) {
        assert_true(stall_excuses(STALL_MS / 2, "a heartbeat"));
        stall_watch();
    }
}

/* A snapshot is due when the log is as large as the last snapshot, so the cost of snapshots is in
 * proportion to what is written. */
static void a_large_state_is_saved_only_after_as_much_log(void **state)
{
    (void)state;
    static char large[1000001];
    uint64_t since = 0, bytes = 0;
    char key[16];
    world_open(1);
    const struct bw_replica *r = w.node[0].replica;
    memset(large, 'x', 1000000);
    for (unsigned i = 0, saved = 0; saved < 3; i++) {
        assert_true(i < 300);
        snprintf(key, sizeof key, "k%u", i % 100);
        put(0, key, large);
        while (r->saver_pipe_open) /* on a slow disk, the puts would run ahead of the snapshot */
            turn();
        if (r->snapshot_index == since)
            continue;
        assert_true((r->snapshot_index - since + 2) * 1000000 >= bytes);
        since = r->snapshot_index;
        bytes = r->snapshot_bytes;
        saved++;
    }
    assert_true(bytes > (90u << 20));
}

/* Fault 25 in docs/reference/faults.md: a node that lost its disk must not vote as if it had
 * promised nothing. */
static void a_wiped_node_takes_no_part(void **state)
{
    (void)state;
    world_open(3);
    put(0, "a", "1");
    uint32_t wiped = (leader() + 1) % 3;
    node_stop(wiped);
    scratch_remove(w.node[wiped].dir);
    assert_int_equal(mkdir(w.node[wiped].dir, 0700), 0);
    node_start(wiped);
    while (!w.node[wiped].ended)
        turn();
    assert_int_equal(status_of(wiped).term, 0);
    put((wiped + 1) % 3, "a", "2");
}

static uint64_t ask_change(uint32_t i, enum bw_member_op op, bw_node id, uint16_t port)
{
    struct bw_member_change change = {.op = op, .member = {.id = id, .port = port}};
    if (op == BW_MEMBER_ADD)
        snprintf(change.member.host, sizeof change.member.host, "127.0.0.1");
    return bw_replica_change(w.node[i].replica, &change);
}

/* A leader that loses its office, because the machine stalled, loses the changes under way. */
static bool is_lost(int outcome)
{
    if (outcome != BW_ELOST)
        return false;
    assert_true(machine_excuses("a change of the members"));
    return true;
}

/* False: a change was lost in a stall. */
static bool change_twice_at_once(void)
{
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t voters, l = leader();
    watch_machine();
    uint64_t first = ask_change(l, BW_MEMBER_ADD, 0, 1);
    assert_true(first != 0);
    int second = wait_for(l, ask_change(l, BW_MEMBER_ADD, 0, 2));
    if (is_lost(second))
        return false;
    assert_int_equal(second, BW_EBUSY);
    int outcome = w.node[l].early == first ? w.node[l].early_outcome : wait_for(l, first);
    if (is_lost(outcome))
        return false;
    assert_int_equal(outcome, 1);
    assert_int_equal(bw_replica_members(w.node[l].replica, members, &voters), 4);
    assert_int_equal(voters, 3);
    assert_int_equal(members[3].id, 4);
    assert_int_equal(members[3].port, 1);
    /* the follower forwards the change */
    uint32_t follower = (l + 1) % 3;
    outcome = wait_for(follower, ask_change(follower, BW_MEMBER_REMOVE, 4, 0));
    if (is_lost(outcome))
        return false;
    assert_int_equal(outcome, 1);
    assert_int_equal(w.node[follower].ttl_ns, 4);
    return true;
}

/* Fault 35 in docs/reference/faults.md: two membership changes at once. The second one is refused;
 * the first one takes effect. */
static void second_concurrent_membership_change_is_refused(void **state)
{
    (void)state;
    for (;;) {
        world_open(3);
        put(0, "a", "1");
        if (change_twice_at_once())
            return;
        world_close(NULL);
    }
}

#define WITH_WORLD(test) cmocka_unit_test_teardown(test, world_close)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        WITH_WORLD(one_node_alone_serves),
        WITH_WORLD(request_between_turns_is_sent_before_the_loop_sleeps),
        WITH_WORLD(founders_stay_members_when_their_connections_break),
        WITH_WORLD(write_at_one_node_is_read_at_all),
        WITH_WORLD(another_node_leads_when_the_leader_stops),
        WITH_WORLD(everything_survives_a_restart_of_all),
        WITH_WORLD(lease_expires_when_it_is_not_renewed),
        WITH_WORLD(node_that_was_away_long_gets_a_snapshot),
        WITH_WORLD(leader_sends_heartbeats_in_a_long_turn),
        WITH_WORLD(a_large_state_is_saved_only_after_as_much_log),
        WITH_WORLD(loop_turns_while_a_snapshot_is_loaded),
        WITH_WORLD(a_wiped_node_takes_no_part),
        WITH_WORLD(second_concurrent_membership_change_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
