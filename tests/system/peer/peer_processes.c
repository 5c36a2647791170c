/* Peers as real processes that are killed. Other peers notice the end of a process at once, because
 * its connections close. Its successor waits for the promise to expire, unless death notices report
 * that the work is dead, too. All processes share the host's clock, so windows can be compared. */
#include "peer/node.h"

#include "os/clock.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define NODES   5u
#define HANG_MS 60000

struct word { /* a report of a process to the test */
    bw_node id;
    bool split; /* this process sees two leaders; otherwise: */
    struct bw_announcement said;
};

struct child {
    pid_t pid;
    struct bw_announcement said;
};

struct notices {
    uint32_t count;
    int socket;
    in_port_t port; /* of this node, where it receives notices */
    struct bw_peer_death_notice at[NODES];
};

static struct {
    char dir[SCRATCH_MAX];
    int pipe[2];
    struct child child[NODES + 1];
    struct notices *notices;                  /* shared, one per node */
    char (*address)[BW_PEER_ADDRESS_MAX + 1]; /* shared: address of node 1 */
    uint32_t count;
    const struct bw_elector_ops *algorithm;
    bool quorum;
    bw_time promise;
    unsigned splits;
} w;

/* ---- inside a process ---- */

static struct bw_peer *own;
static bw_node self;
static bool led;

static void on_announced(void *context, uint32_t election, const struct bw_announcement *said)
{
    struct word word = {.id = self, .said = *said};
    (void)context;
    if (led && said->leader != self)
        /* there is no work in this process that could survive */
        bw_peer_dead(own, election, BW_NODE_NONE);
    led = said->leader == self;
    (void)!write(w.pipe[1], &word, sizeof word);
}

static void on_death_notices(void *context, uint32_t election)
{
    struct notices *mine = &w.notices[self];
    (void)context;
    mine->count = bw_peer_death_notices(own, election, mine->at, NODES);
}

static void on_split(void *context, uint32_t election, const struct bw_peer_claim *one,
                     const struct bw_peer_claim *other)
{
    struct word word = {.id = self, .split = true};
    (void)context;
    (void)election;
    if (one->node != other->node)
        (void)!write(w.pipe[1], &word, sizeof word);
}

static void on_ended(void *context, int error, const char *why)
{
    (void)context;
    (void)error;
    fprintf(stderr, "node %u ended: %s\n", self, why);
    _exit(3);
}

static void settings(struct bw_peer_options *o)
{
    o->elect.count = w.count;
    bw_elector_defaults(&o->elect, 5 * BW_MS, 100 * BW_MS);
    o->elect.timeout_min_ns = 500 * BW_MS;
    o->elect.timeout_max_ns = 1000 * BW_MS;
    o->elect.promise_ns = w.promise;
    bw_detector_defaults(&o->detect, 100 * BW_MS);
}

/* Acts as the guardian: waits for the node's end, then sends its death notices. */
static void guard(bw_node id, int leash)
{
    char byte;
    prctl(PR_SET_PDEATHSIG, 0);
    for (int fd = 3; fd < 1024; fd++) /* closes its copies of the node's connections */
        if (fd != leash && fd != w.notices[id].socket)
            close(fd);
    while (read(leash, &byte, 1) > 0)
        ;
    const struct notices *mine = &w.notices[id];
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < mine->count; i++)
            sendto(mine->socket, mine->at[i].bytes, mine->at[i].length, 0,
                   (const struct sockaddr *)&mine->at[i].to, mine->at[i].to_length);
        usleep(5000);
    }
    _exit(0);
}

static in_port_t port_of(int socket)
{
    struct sockaddr_in bound = {0};
    socklen_t length = sizeof bound;
    return getsockname(socket, (struct sockaddr *)&bound, &length) == 0 ? bound.sin_port : 0;
}

static void live(bw_node id, bool guarded)
{
    static char directory[SCRATCH_MAX + 16], why[BW_PEER_WHY_MAX + 1];
    uv_loop_t loop;
    self = id;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(directory, sizeof directory, "%s/%u", w.dir, id);
    mkdir(directory, 0700);
    uv_loop_init(&loop);
    struct bw_peer_options o = {.loop = &loop,
                                .self = id,
                                .listen = "127.0.0.1:0",
                                .join = id == 1 && !w.address[0][0] ? NULL : w.address[0],
                                .directory = directory,
                                .expect = w.count,
                                .algorithm = w.algorithm,
                                .quorum = w.quorum,
                                .detector = &bw_detect_phi_deadline,
                                .announced = on_announced,
                                .death_notices_changed = on_death_notices,
                                .split = on_split,
                                .ended = on_ended};
    settings(&o);
    if (bw_peer_open(&own, &o, why) != 0) {
        fprintf(stderr, "node %u: %s\n", id, why);
        _exit(2);
    }
    if (!w.address[0][0])
        snprintf(w.address[0], sizeof w.address[0], "%s", bw_peer_address(own));
    w.notices[id].count = 0;
    w.notices[id].socket = bw_peer_socket(own);
    w.notices[id].port = port_of(w.notices[id].socket);
    int leash[2];
    if (pipe(leash) != 0)
        _exit(4);
    if (guarded && fork() == 0) {
        close(leash[1]);
        guard(id, leash[0]);
    }
    close(leash[0]);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}

/* ---- the test ---- */

static void start(bw_node id, bool guarded)
{
    struct child *c = &w.child[id];
    memset(&c->said, 0, sizeof c->said);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0)
        live(id, guarded);
}

static void kill_node(bw_node id)
{
    struct child *c = &w.child[id];
    if (c->pid <= 0)
        return;
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    c->pid = 0;
    memset(&c->said, 0, sizeof c->said);
}

/* Reads one report. Returns false if none arrived in time. */
static bool listen_for(int ms)
{
    struct pollfd poller = {.fd = w.pipe[0], .events = POLLIN};
    struct word word;
    if (poll(&poller, 1, ms) <= 0)
        return false;
    assert_int_equal(read(w.pipe[0], &word, sizeof word), sizeof word);
    if (word.split)
        w.splits++;
    else if (w.child[word.id].pid)
        w.child[word.id].said = word.said;
    return true;
}

static bw_node acting(bw_time at)
{
    for (bw_node id = 1; id <= w.count; id++) {
        const struct bw_announcement *said = &w.child[id].said;
        if (w.child[id].pid && said->leader == id && said->act_from <= at && at < said->act_until)
            return id;
    }
    return BW_NODE_NONE;
}

/* The leader that may act; its window has begun. NONE: no leader in time. */
static bw_node leader_within(bw_time ms)
{
    bw_time begin = bw_clock_boot();
    while (bw_clock_boot() - begin < ms * BW_MS) {
        listen_for(5);
        bw_node leader = acting(bw_clock_boot());
        if (leader)
            return leader;
    }
    return BW_NODE_NONE;
}

static bw_node await_leader(const char *what)
{
    bw_node leader = leader_within(HANG_MS);
    if (!leader)
        fail_msg("waited too long: %s", what);
    return leader;
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    scratch_make(w.dir);
    assert_int_equal(pipe(w.pipe), 0);
    size_t bytes = (NODES + 1) * sizeof *w.notices;
    w.notices = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    w.address = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(w.notices != MAP_FAILED && w.address != MAP_FAILED);
    w.algorithm = &bw_elect_raft;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (bw_node id = 1; id <= NODES; id++)
        kill_node(id);
    munmap(w.notices, (NODES + 1) * sizeof *w.notices);
    munmap(w.address, 4096);
    close(w.pipe[0]);
    close(w.pipe[1]);
    scratch_remove(w.dir);
    return 0;
}

static void start_all(uint32_t count, bool guarded)
{
    w.count = count;
    start(1, guarded);
    for (int i = 0; i < HANG_MS && !w.address[0][0]; i++)
        usleep(1000);
    for (bw_node id = 2; id <= count; id++)
        start(id, guarded);
}

/* Ends all processes and removes their files. */
static void clear(void)
{
    for (bw_node id = 1; id <= NODES; id++)
        kill_node(id);
    while (listen_for(10))
        ;
    memset(w.address[0], 0, sizeof w.address[0]);
    scratch_remove(w.dir);
    mkdir(w.dir, 0700);
}

static void start_five_with_a_leader(void)
{
    start_all(5, true);
    await_leader("a leader of five");
}

static bool notifies(bw_node id, in_port_t port)
{
    const struct notices *mine = &w.notices[id];
    for (uint32_t i = 0; i < mine->count; i++)
        if (((const struct sockaddr_in *)&mine->at[i].to)->sin_port == port)
            return true;
    return false;
}

static bool notifies_all(bw_node id)
{
    for (bw_node other = 1; other <= w.count; other++)
        if (other != id && w.child[other].pid && !notifies(id, w.notices[other].port))
            return false;
    return true;
}

/* Waits until the leader has a death notice for each node that lives. Returns the leader. */
static bw_node await_notices(void)
{
    bw_time begin = bw_clock_boot();
    for (;;) {
        bw_node leader = await_leader("the current leader");
        if (notifies_all(leader))
            return leader;
        assert_true(bw_clock_boot() - begin < HANG_MS * BW_MS);
        listen_for(5);
    }
}

/* With death notices, no peer waits for the promise to expire, which would take longer than the
 * test's timeout. (A restarted node would wait: it cannot know to whom it promised. So the killed
 * nodes are not restarted here.) */
static void kill_two_leaders(void)
{
    bw_token token = 0;
    w.promise = 600 * BW_SEC;
    start_five_with_a_leader();
    for (int i = 0; i < 2; i++) {
        bw_node before = await_notices();
        token = w.child[before].said.token;
        bw_time killed = bw_clock_boot();
        kill_node(before);
        bw_node leader = await_leader("a successor that need not wait");
        assert_int_not_equal(leader, before);
        assert_true(w.child[leader].said.token > token);
        print_message("# from the kill until the next may act: %.1f ms\n",
                      (double)(w.child[leader].said.act_from - killed) / 1e6);
    }
}

static void successor_leads_at_once_when_death_notices_arrive(void **state)
{
    (void)state;
    kill_two_leaders();
}

static void successor_of_a_guarded_leader_leads_at_once_when_death_notices_arrive(void **state)
{
    (void)state;
    w.algorithm = &bw_elect_bully;
    w.quorum = true;
    kill_two_leaders();
}

static bool all_follow(bw_node leader, bw_node but)
{
    for (bw_node id = 1; id <= w.count; id++)
        if (id != but && w.child[id].said.leader != leader)
            return false;
    return leader != BW_NODE_NONE;
}

static bw_node await_followed_leader(void)
{
    bw_time begin = bw_clock_boot();
    bw_node leader;
    while (!all_follow(leader = await_leader("a first leader"), BW_NODE_NONE)) {
        assert_true(bw_clock_boot() - begin < HANG_MS * BW_MS);
        listen_for(5);
    }
    return leader;
}

/* Without them, the successor waits for the promise to expire: the windows of the two never
 * overlap. */
static void successor_waits_for_the_promise_when_no_death_notice_arrives(void **state)
{
    (void)state;
    const struct bw_elector_ops *algorithms[] = {&bw_elect_raft, &bw_elect_bully};
    for (int i = 0; i < 2; i++) {
        w.algorithm = algorithms[i];
        w.quorum = i == 1;
        w.promise = 2 * BW_SEC;
        start_all(3, false);
        bw_node before = await_followed_leader(); /* all three have founded the group */
        while (listen_for(100))
            if (acting(bw_clock_boot()) == before &&
                w.child[before].said.act_until - bw_clock_boot() > BW_SEC)
                break;
        bw_time until = w.child[before].said.act_until;
        while (listen_for(0)) /* its last reports */
            until = bw_time_max(until, w.child[before].said.act_until);
        kill_node(before);
        bw_node leader = await_leader("a successor");
        assert_int_not_equal(leader, before);
        assert_true(w.child[leader].said.act_from >= until);
        clear();
    }
}

static void promises_survive_when_all_peers_are_killed_at_once(void **state)
{
    (void)state;
    w.promise = BW_SEC;
    start_all(5, false);
    bw_token token = 0;
    for (int i = 0; i < 3; i++) {
        bw_node leader = await_leader("a leader");
        assert_true(w.child[leader].said.token > token);
        token = w.child[leader].said.token;
        for (bw_node id = 1; id <= w.count; id++)
            kill_node(id);
        while (listen_for(10))
            ;
        memset(w.address[0], 0, sizeof w.address[0]);
        start_all(5, false);
    }
    await_leader("a leader in the end");
}

static void until_followed(bw_node leader, bw_node but)
{
    bw_time begin = bw_clock_boot();
    while (!all_follow(leader, but)) {
        assert_true(bw_clock_boot() - begin < HANG_MS * BW_MS);
        listen_for(5);
    }
}

/* An unguarded leader that was paused does not know that it has a successor: two lead, and the
 * peers detect it. With the quorum guard, no peer ever sees two leaders. */
static void split_is_reported_when_a_paused_leader_resumes(void **state)
{
    (void)state;
    w.algorithm = &bw_elect_bully;
    start_all(3, false);
    until_followed(3, BW_NODE_NONE);
    kill(w.child[3].pid, SIGSTOP);
    until_followed(2, 3);
    for (bw_time begin = bw_clock_boot(); bw_clock_boot() - begin < 3 * BW_SEC;)
        listen_for(50);
    assert_int_equal(w.splits, 0);
    kill(w.child[3].pid, SIGCONT);
    for (bw_time begin = bw_clock_boot(); w.splits == 0;) {
        assert_true(bw_clock_boot() - begin < HANG_MS * BW_MS);
        listen_for(50);
    }
    until_followed(3, BW_NODE_NONE); /* and the cluster recovers by itself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(successor_leads_at_once_when_death_notices_arrive, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            successor_of_a_guarded_leader_leads_at_once_when_death_notices_arrive, setup, teardown),
        cmocka_unit_test_setup_teardown(
            successor_waits_for_the_promise_when_no_death_notice_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(promises_survive_when_all_peers_are_killed_at_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(split_is_reported_when_a_paused_leader_resumes, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
