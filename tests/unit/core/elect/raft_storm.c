/* Random faults on a small cluster: crashes, cuts, loss, duplicates, slow disks, drifting clocks,
 * hints, transfers and membership changes. The net checks safety at every event. This test checks
 * liveness: when the faults end, a leader is elected and commits, and all nodes get the same
 * log. */
#include "raft_net.h"

#include "unit/unit.h"

static void random_fault(struct net *net, struct bw_rng *rng)
{
    bw_node a = 1 + (bw_node)bw_rng_below(rng, net->nodes);
    bw_node b = 1 + (bw_node)bw_rng_below(rng, net->nodes);
    bw_node leader = net_leader(net);
    switch (bw_rng_below(rng, 14)) {
    case 0:
        if (net->node[a].up)
            net_crash(net, a);
        break;
    case 1:
        if (net->node[a].up) {
            net_crash(net, a);
            net_start(net, a);
        }
        break;
    case 2:
    case 3:
    case 4:
        if (!net->node[a].up)
            net_start(net, a);
        break;
    case 5:
        net->cut[a][b] = true;
        break;
    case 6:
        net_isolate(net, leader ? leader : a, true);
        break;
    case 7:
        net_heal(net);
        break;
    case 8:
        net->disk_ns = (bw_time)bw_rng_below(rng, 4) * 3 * BW_MS;
        break;
    case 9:
        for (bw_node id = 1; id <= net->nodes; id++)
            net_event(net, id, BW_EVENT_HINT, leader);
        break;
    case 10:
        net_command(net, leader ? leader : a,
                    (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = b});
        break;
    case 11:
        net->latency_max = (1 + (bw_time)bw_rng_below(rng, 60)) * BW_MS;
        break;
    case 12:
        if (leader)
            net_change(net, leader,
                       (enum bw_change_op)(BW_CHANGE_ADD_LEARNER + bw_rng_below(rng, 3)), a, 7);
        break;
    default:
        if (net->node[a].up)
            net_command(
                net, a,
                (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = net->node[a].applied});
    }
}

static void propose_somewhere(struct net *net, struct bw_rng *rng)
{
    for (bw_node id = 1; id <= net->nodes; id++)
        if (net->node[id].up && net_status(net, id).leading) {
            net_propose(net, id, 1 + (uint32_t)bw_rng_below(rng, 5), 99);
            net_read(net, id);
        }
}

static void end_faults(struct net *net)
{
    net_heal(net);
    net->loss = net->duplicate = 0;
    net->latency_max = 2 * BW_MS;
    net->disk_ns = 0;
    for (bw_node id = 1; id <= net->nodes; id++)
        if (!net->node[id].up)
            net_start(net, id);
}

static void storm(uint64_t seed)
{
    struct bw_rng rng;
    bw_rng_init(&rng, seed ^ 0x5eed);
    uint32_t nodes = 3 + (uint32_t)bw_rng_below(&rng, 3);
    struct net *net = net_new(nodes, nodes - (uint32_t)bw_rng_below(&rng, 2), seed);
    net->loss = bw_rng_unit(&rng) * 0.2;
    net->duplicate = bw_rng_unit(&rng) * 0.1;
    net->config.pre_vote = bw_rng_chance(&rng, 0.7);
    for (bw_node id = 1; id <= net->nodes; id++) {
        net->node[id].rate = 1 + (bw_rng_unit(&rng) * 2 - 1) * 0.01;
        net_start(net, id);
    }
    bool fast = bw_rng_chance(&rng, 0.5);
    for (int i = 0; i < 150; i++) {
        net_run(net, (bw_time)bw_rng_below(&rng, fast ? 20 : 120) * BW_MS);
        random_fault(net, &rng);
        if (bw_rng_chance(&rng, 0.7))
            propose_somewhere(net, &rng);
    }
    end_faults(net);
    net_run(net, 4 * BW_SEC);
    bw_node leader = net_elect(net, BW_SEC);
    if (bw_raft_needs_snapshot(net_raft(net, leader)))
        net_command(
            net, leader,
            (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = net->node[leader].applied});
    net_propose(net, leader, 3, 100);
    net_run(net, BW_SEC);
    assert_int_equal(net_answer(net, 100)->error, 0);
    bw_index last = net_answer(net, 100)->index;
    assert_true(net->node[leader].applied >= last);
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters, count = bw_raft_members_at(net_raft(net, leader), last, members, &voters);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(net->node[members[i]].applied, net->node[leader].applied);
    net_free(net);
}

static uint64_t playing;

/* BW_SEED replays one storm; BW_SEEDS sets the number of seeds from there. */
static void random_faults_never_break_safety_and_end_in_agreement(void **state)
{
    (void)state;
    const char *from = getenv("BW_SEED"), *count = getenv("BW_SEEDS");
    uint64_t first = from ? strtoull(from, NULL, 0) : 1;
    uint64_t seeds = count ? strtoull(count, NULL, 0) : from ? 1 : 2000;
    for (playing = first; playing < first + seeds; playing++)
        storm(playing);
    playing = 0;
}

static int print_seed(void **state)
{
    (void)state;
    if (playing)
        print_message("# replay with BW_SEED=%llu\n", (unsigned long long)playing);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(random_faults_never_break_safety_and_end_in_agreement,
                                  print_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
