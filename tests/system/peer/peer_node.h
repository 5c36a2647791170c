/* Peers on one loop over loopback, for peer_node.c: opening, closing, waiting for a condition, and
 * invariants checked at every announcement. */
#ifndef BW_TESTS_SYSTEM_PEER_PEER_NODE_H
#define BW_TESTS_SYSTEM_PEER_PEER_NODE_H

#include "peer/node.h"

#include "core/base/error.h"
#include "net/sealed/datagram.h"
#include "os/clock.h"
#include "peer/address.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES   40u
#define PERIOD  (20 * BW_MS)
#define HANG_MS 60000u

struct node {
    bw_node id;
    struct bw_peer *peer;
    struct bw_announcement said;
    unsigned announcements, ends, formed, notices;
    bool leading, closed;
    bool formed_as_voter;
    int ended_with;
    char why[BW_PEER_WHY_MAX + 1];
};

static struct {
    uv_loop_t loop;
    uv_timer_t patience;
    bool out_of_time;
    char dir[SCRATCH_MAX];
    struct node node[NODES + 1];
    const struct bw_elector_ops *algorithm;
    const struct bw_detector_ops *detector;
    bool quorum;
    uint32_t expect, cap;
    char first[BW_PEER_ADDRESS_MAX + 1]; /* address to join */
    const char *cluster, *members_file;
    struct bw_keyring *keyring;
    bw_token highest;
    unsigned splits;
} w;

static bool small(void)
{
    const char *size = getenv("TEST_SIZE");
    return size && strcmp(size, "small") == 0;
}

static bool acts(const struct node *n, bw_time at)
{
    return n->peer && n->said.leader == n->id && n->said.act_from <= at && at < n->said.act_until;
}

/* Tokens only grow from one leader to the next, and the windows of two leaders never overlap. */
static void check_window(struct node *n)
{
    if (!w.algorithm || !n->said.token || n->said.leader != n->id)
        return;
    bw_time now = bw_clock_boot();
    assert_true(n->said.token >= w.highest);
    w.highest = n->said.token;
    for (uint32_t i = 1; i <= NODES; i++)
        if (&w.node[i] != n && acts(&w.node[i], now))
            assert_false(acts(n, now));
}

static void on_announced(void *context, uint32_t election, const struct bw_announcement *said)
{
    struct node *n = context;
    assert_int_equal(election, 0);
    n->said = *said;
    n->announcements++;
    n->leading = said->leader == n->id;
    check_window(n);
}

static void on_ended(void *context, int error, const char *why)
{
    struct node *n = context;
    n->ended_with = error;
    n->ends++;
    snprintf(n->why, sizeof n->why, "%s", why);
}

static void on_formed(void *context)
{
    struct node *n = context;
    struct bw_peer_member members[NODES + 1];
    uint32_t count = n->peer ? bw_peer_members(n->peer, members, NODES) : 0;
    n->formed++;
    n->formed_as_voter = false;
    for (uint32_t i = 0; i < count; i++)
        n->formed_as_voter |= members[i].id == n->id && members[i].voter;
}

static void on_death_notices(void *context, uint32_t election)
{
    assert_int_equal(election, 0);
    ((struct node *)context)->notices++;
}

static void on_patience(uv_timer_t *timer)
{
    (void)timer;
    w.out_of_time = true;
}

/* Runs the loop until `done` returns true. */
static void until(bool (*done)(void), const char *what)
{
    w.out_of_time = false;
    uv_timer_start(&w.patience, on_patience, HANG_MS, 0);
    while (!done() && !w.out_of_time)
        uv_run(&w.loop, UV_RUN_ONCE);
    uv_timer_stop(&w.patience);
    if (w.out_of_time)
        fail_msg("waited too long: %s", what);
}

static void pass(unsigned ms)
{
    w.out_of_time = false;
    uv_timer_start(&w.patience, on_patience, ms, 0);
    while (!w.out_of_time)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static void make_directory(bw_node id, char *out, size_t size)
{
    snprintf(out, size, "%s/%u", w.dir, id);
    mkdir(out, 0700);
}

static int try_open(bw_node id, char *why)
{
    static char directories[NODES + 1][SCRATCH_MAX + 16];
    struct node *n = &w.node[id];
    make_directory(id, directories[id], sizeof directories[id]);
    struct bw_peer_options o = {.loop = &w.loop,
                                .self = id,
                                .cluster = w.cluster,
                                .listen = "127.0.0.1:0",
                                .join = w.first[0] ? w.first : NULL,
                                .members_file = w.members_file,
                                .directory = directories[id],
                                .expect = w.expect,
                                .cap = w.cap,
                                .algorithm = w.algorithm,
                                .detector = w.detector,
                                .quorum = w.quorum,
                                .keyring = w.keyring,
                                .context = n,
                                .announced = on_announced,
                                .formed = on_formed,
                                .death_notices_changed = on_death_notices,
                                .ended = on_ended};
    o.elect.count = w.expect ? w.expect : 5;
    bw_elector_defaults(&o.elect, 5 * BW_MS, PERIOD);
    o.elect.timeout_min_ns = 10 * PERIOD;
    o.elect.timeout_max_ns = 20 * PERIOD;
    o.elect.promise_ns = 15 * PERIOD;
    bw_detector_defaults(&o.detect, PERIOD);
    o.detect.timeout_ns = 10 * PERIOD;
    memset(n, 0, sizeof *n);
    n->id = id;
    int error = bw_peer_open(&n->peer, &o, why);
    if (!error && !w.first[0])
        snprintf(w.first, sizeof w.first, "%s", bw_peer_address(n->peer));
    return error;
}

static void open_node(bw_node id)
{
    char why[BW_PEER_WHY_MAX + 1] = "";
    int error = try_open(id, why);
    if (error)
        fail_msg("node %u: %s", id, why);
}

static void on_closed(void *context)
{
    struct node *n = context;
    n->peer = NULL;
    n->closed = true;
}

static struct node *closing;
static bool is_closed(void)
{
    return closing->closed;
}

static void close_node(bw_node id, bool leave)
{
    closing = &w.node[id];
    if (!closing->peer)
        return;
    memset(&closing->said, 0, sizeof closing->said); /* its work is dead before it is closed */
    bw_peer_close(closing->peer, leave, on_closed);
    until(is_closed, "a node closes");
}

static int setup(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    uv_loop_init(&w.loop);
    uv_timer_init(&w.loop, &w.patience);
    scratch_make(w.dir);
    w.algorithm = &bw_elect_raft;
    w.detector = &bw_detect_phi_deadline;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (bw_node id = 1; id <= NODES; id++)
        close_node(id, false);
    uv_close((uv_handle_t *)&w.patience, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    if (w.keyring)
        bw_keyring_free(w.keyring);
    scratch_remove(w.dir);
    return 0;
}

/* All open nodes name the same leader, which is open and may act. */
static bool settled(void)
{
    bw_node leader = BW_NODE_NONE;
    for (bw_node id = 1; id <= NODES; id++) {
        const struct node *n = &w.node[id];
        if (!n->peer)
            continue;
        if (n->said.leader == BW_NODE_NONE || (leader && n->said.leader != leader))
            return false;
        leader = n->said.leader;
    }
    return leader && leader <= NODES && w.node[leader].peer &&
           acts(&w.node[leader], bw_clock_boot());
}

static bw_node leader(void)
{
    for (bw_node id = 1; id <= NODES; id++)
        if (w.node[id].peer)
            return w.node[id].said.leader;
    return BW_NODE_NONE;
}

static void open_all(uint32_t count)
{
    w.expect = count;
    for (bw_node id = 1; id <= count; id++)
        open_node(id);
    until(settled, "the nodes agree on a leader that may act");
}

static void close_all(bool forget)
{
    for (bw_node id = 1; id <= NODES; id++)
        close_node(id, false);
    w.first[0] = '\0';
    if (!forget)
        return;
    scratch_remove(w.dir);
    mkdir(w.dir, 0700);
    w.highest = 0;
}

#endif
