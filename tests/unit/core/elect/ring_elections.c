/* The four ring elections: exact message counts, exact times, and faults. */
#include "ring_pump.h"

#include "core/base/rng.h"

static const struct bw_elector_ops *const rings[] = {&bw_elect_ring_list, &bw_elect_ring_max,
                                                     &bw_elect_ring_chang_roberts,
                                                     &bw_elect_ring_hirschberg_sinclair};
#define EVERY(ops) for (size_t k_ = 0; k_ < 4 && (ops = rings[k_]) != NULL; k_++)

static struct pump *all_campaign(const struct bw_elector_ops *ops, uint32_t n, const bw_node *order,
                                 bool announce, bw_time until)
{
    struct pump *p = pump_new(ops, n, order);
    p->config.announce = announce;
    pump_boot_all(p, true, BW_NODE_NONE);
    for (bw_node id = 1; id <= n; id++)
        pump_command(p, id, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    pump_run(p, until);
    return p;
}

static void chang_roberts_costs_what_the_paper_says(void **state)
{
    (void)state;
    bw_node reverse[16], shuffled[16];
    for (uint32_t i = 0; i < 16; i++)
        reverse[i] = 16 - i;
    struct pump *p = all_campaign(&bw_elect_ring_chang_roberts, 16, NULL, false, BW_SEC);
    assert_int_equal(pump_total(p), 31);
    assert_int_equal(p->nodes[16].announced.leader, 16);
    assert_int_equal(p->nodes[1].announced.leader, BW_NODE_NONE);
    pump_free(p);
    p = all_campaign(&bw_elect_ring_chang_roberts, 16, reverse, false, BW_SEC);
    assert_int_equal(pump_total(p), 136);
    pump_free(p);
    p = all_campaign(&bw_elect_ring_chang_roberts, 16, NULL, true, 100 * BW_MS);
    assert_int_equal(pump_total(p), 31 + 16);
    assert_int_equal(pump_agreed(p), 16);
    pump_free(p);

    struct bw_rng rng;
    double total = 0;
    bw_rng_init(&rng, 1);
    for (int run = 0; run < 400; run++) {
        for (uint32_t i = 0; i < 16; i++)
            shuffled[i] = i + 1;
        bw_rng_shuffle(&rng, shuffled, 16);
        p = all_campaign(&bw_elect_ring_chang_roberts, 16, shuffled, false, 100 * BW_MS);
        total += (double)pump_total(p);
        pump_free(p);
    }
    assert_true(total / 400 > 54.09 - 1.6 && total / 400 < 54.09 + 1.6);
}

static void one_chang_roberts_initiator_involves_all_at_the_same_cost(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_ring_chang_roberts, 16, NULL);
    p->config.announce = false;
    pump_boot_all(p, true, BW_NODE_NONE);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    assert_int_equal(pump_total(p), 31);
    assert_int_equal(p->nodes[16].announced.leader, 16);
    pump_free(p);
}

static void hirschberg_sinclair_wins_at_the_predicted_time(void **state)
{
    (void)state;
    struct pump *p = all_campaign(&bw_elect_ring_hirschberg_sinclair, 64, NULL, true, 400 * BW_MS);
    assert_int_equal(p->nodes[64].led_at / BW_MS, 190);
    uint64_t announced = p->sent[BW_MSG_RING_COORDINATOR];
    assert_int_equal(announced, 64);
    assert_true(pump_total(p) - announced < 3584);
    assert_int_equal(pump_agreed(p), 64);
    pump_free(p);
    p = all_campaign(&bw_elect_ring_hirschberg_sinclair, 65, NULL, true, 500 * BW_MS);
    assert_int_equal(p->nodes[65].led_at / BW_MS, 319);
    assert_true(pump_total(p) - p->sent[BW_MSG_RING_COORDINATOR] < 3656);
    assert_int_equal(pump_agreed(p), 65);
    pump_free(p);
}

static void two_laps_skip_two_dead_nodes_for_every_initiator(void **state)
{
    (void)state;
    const struct bw_elector_ops *two[] = {&bw_elect_ring_list, &bw_elect_ring_max};
    for (int k = 0; k < 2; k++) {
        for (bw_node dead = 1; dead <= 9; dead++) {
            bw_node also = dead % 9 + 1, highest = 9;
            while (highest == dead || highest == also)
                highest--;
            for (bw_node initiator = 1; initiator <= 9; initiator++) {
                if (initiator == dead || initiator == also)
                    continue;
                struct pump *p = pump_new(two[k], 9, NULL);
                pump_boot_all(p, true, 9);
                pump_kill(p, dead);
                pump_kill(p, also);
                pump_command(p, initiator, BW_COMMAND_CAMPAIGN, dead);
                pump_run(p, 100 * BW_MS);
                assert_int_equal(p->delivered, 14);
                assert_int_equal(p->failed, 4);
                assert_int_equal(pump_agreed(p), highest);
                pump_free(p);
            }
        }
    }
}

static void concurrent_initiators_each_cost_two_laps_and_agree(void **state)
{
    (void)state;
    struct pump *p = all_campaign(&bw_elect_ring_list, 5, NULL, true, 100 * BW_MS);
    assert_int_equal(pump_total(p), 5 * 10);
    assert_int_equal(pump_agreed(p), 5);
    for (bw_node id = 1; id <= 5; id++)
        assert_int_equal(p->nodes[id].losses, 0);
    pump_free(p);
}

static void a_fresh_group_agrees_on_the_highest(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        for (uint32_t n = 1; n <= 6; n++) {
            struct pump *p = pump_new(ops, n, NULL);
            pump_boot_all(p, false, BW_NODE_NONE);
            pump_run(p, BW_SEC);
            assert_int_equal(pump_agreed(p), n);
            assert_true(pump_status(p, n).leading);
            pump_free(p);
        }
    }
}

static void ring_ranks_priority_before_id(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        p->members[1].priority = 7;
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        assert_int_equal(pump_agreed(p), 2);
        pump_free(p);
    }
}

static void a_suspected_leader_is_replaced_and_comes_back(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        pump_kill(p, 5);
        pump_event_all(p, BW_EVENT_SUSPECT, 5);
        assert_int_equal(p->nodes[1].announced.leader, BW_NODE_NONE);
        pump_run(p, 2 * BW_SEC);
        assert_int_equal(pump_agreed(p), 4);
        bw_term before = p->nodes[5].durable.term;
        pump_boot(p, 5, false, BW_NODE_NONE);
        assert_true(p->nodes[5].durable.term > before);
        pump_event_all(p, BW_EVENT_TRUST, 5);
        pump_run(p, 4 * BW_SEC);
        assert_int_equal(pump_agreed(p), 5);
        assert_int_equal(p->nodes[4].last_loss, BW_LOSS_TAKEN);
        assert_int_equal(p->leaders_most, 1); /* 4 stepped down before 5 led */
        pump_free(p);
    }
}

static bw_node doomed;
static struct pump *doomed_pump;

/* The highest node dies when its id has passed all others and only the last hop is left. */
static bool dies_at_the_last_hop(const struct bw_message *msg)
{
    bool last = msg->kind == BW_MSG_RING_ELECTION && msg->to == doomed && msg->ring.best == doomed;
    if (last)
        pump_kill(doomed_pump, doomed);
    return false;
}

static void a_dead_winners_id_does_not_circle(void **state)
{
    (void)state;
    struct pump *p = doomed_pump = pump_new(&bw_elect_ring_chang_roberts, 8, NULL);
    doomed = 8;
    p->lost = dies_at_the_last_hop;
    pump_boot_all(p, true, BW_NODE_NONE);
    for (bw_node id = 1; id <= 8; id++)
        pump_command(p, id, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    pump_run(p, 500 * BW_MS);
    assert_int_equal(pump_agreed(p), 7);
    pump_free(p);
}

static void message_of_a_dead_initiator_ends_after_one_lap(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, true, BW_NODE_NONE);
        for (bw_node id = 1; id <= 4; id++)
            pump_step(p, id, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 5});
        pump_kill(p, 5);
        struct bw_message stray = {.kind = BW_MSG_RING_COORDINATOR, .from = 4, .to = 1, .term = 3};
        stray.ring = (struct bw_ring_part){.initiator = 5, .best = 4, .hops = 1};
        pump_post(p, &stray, p->now, false);
        pump_run(p, 50 * BW_MS);
        assert_true(p->sent[BW_MSG_RING_COORDINATOR] <= 6);
        pump_free(p);
    }
}

static void an_old_rounds_announcement_changes_nothing(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        p->nodes[2].durable.term = 4; /* the group has seen rounds before */
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, 500 * BW_MS);
        assert_int_equal(pump_agreed(p), 5);
        struct bw_message old = {.kind = BW_MSG_RING_COORDINATOR, .from = 4, .to = 1, .term = 1};
        old.ring = (struct bw_ring_part){.initiator = 4, .best = 4, .hops = 1};
        pump_post(p, &old, p->now, false);
        pump_run(p, 501 * BW_MS);
        assert_int_equal(p->nodes[1].announced.leader, 5);
        pump_run(p, 600 * BW_MS);
        assert_int_equal(pump_agreed(p), 5);
        pump_free(p);
    }
}

static bool all_lost(const struct bw_message *msg)
{
    (void)msg;
    return true;
}

static void a_lost_round_is_followed_by_another(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, true, BW_NODE_NONE);
        p->lost = all_lost;
        pump_command(p, 2, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
        pump_run(p, BW_MS);
        p->lost = NULL;
        pump_run(p, 2 * p->config.announce_ns);
        assert_int_equal(pump_agreed(p), 5);
        assert_true(p->nodes[2].durable.term >= 2);
        pump_free(p);
    }
}

/* Two members with different orders, for example before one learns of a join, pass a message to and
 * fro past its initiator. */
static void a_message_between_two_orders_ends(void **state)
{
    (void)state;
    static const bw_node one[] = {1, 2, 3}, other[] = {2, 1, 3};
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 3, one);
        pump_boot(p, 1, true, BW_NODE_NONE);
        p->config.order = other;
        pump_boot(p, 2, true, BW_NODE_NONE);
        struct bw_message msg = {.kind = BW_MSG_RING_COORDINATOR, .from = 3, .to = 1, .term = 1};
        msg.ring = (struct bw_ring_part){.initiator = 3, .best = 3, .hops = 1};
        pump_post(p, &msg, p->now, false);
        pump_run(p, 50 * BW_MS);
        assert_int_equal(p->sent[BW_MSG_RING_COORDINATOR], 2);
        pump_free(p);
    }
}

static void candidate_stops_after_a_no(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_ring_hirschberg_sinclair, 8, NULL);
    pump_boot_all(p, true, BW_NODE_NONE);
    p->lost = all_lost;
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(p->sent[BW_MSG_HS_FROM], 2);
    struct bw_message answer = {.kind = BW_MSG_HS_OK, .flags = BW_FLAG_LEFT, .from = 5, .to = 4};
    answer.term = 1;
    answer.hs = (struct bw_hs_part){.value = 4, .max = 1};
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 5, .msg = &answer});
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 5, .msg = &answer});
    /* two replies from one side do not count as both sides */
    assert_int_equal(p->sent[BW_MSG_HS_FROM], 2);
    answer.kind = BW_MSG_HS_NO;
    answer.flags = 0;
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 3, .msg = &answer});
    assert_int_equal(p->sent[BW_MSG_HS_FROM], 2);
    pump_free(p);
}

static bool between_sides(const struct bw_message *msg)
{
    return (msg->from <= 3) != (msg->to <= 3);
}

static void detect_sides(struct pump *p, enum bw_event_kind kind)
{
    for (bw_node id = 1; id <= 5; id++)
        for (bw_node other = 1; other <= 5; other++)
            if ((id <= 3) != (other <= 3))
                pump_step(p, id, (struct bw_event){.kind = kind, .node = other});
}

static void a_partition_has_two_leaders_and_healing_one(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        p->lost = between_sides;
        detect_sides(p, BW_EVENT_SUSPECT);
        pump_run(p, 5 * BW_SEC);
        assert_true(pump_status(p, 3).leading);
        assert_true(pump_status(p, 5).leading);
        assert_int_equal(p->nodes[1].announced.leader, 3);
        assert_int_equal(p->nodes[4].announced.leader, 5);
        p->lost = NULL;
        detect_sides(p, BW_EVENT_TRUST);
        pump_run(p, 6 * BW_SEC);
        assert_int_equal(pump_agreed(p), 5);
        assert_false(pump_status(p, 3).leading);
        pump_free(p);
    }
}

static void leaders_that_never_suspected_each_other_meet(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        /* 1..4 ran an election of which 5 received nothing, and no node suspects another. */
        p->lost = all_lost;
        for (bw_node id = 1; id <= 4; id++) {
            struct bw_message msg = {
                .kind = BW_MSG_RING_COORDINATOR, .from = 3, .to = id, .term = 99};
            msg.ring = (struct bw_ring_part){.initiator = id, .best = 4, .hops = 1};
            pump_step(p, id, (struct bw_event){.kind = BW_EVENT_MESSAGE, .msg = &msg, .node = 3});
        }
        p->lost = NULL;
        assert_true(pump_status(p, 5).leading && pump_status(p, 4).leading);
        pump_run(p, 4 * BW_SEC);
        assert_int_equal(pump_agreed(p), 5);
        pump_free(p);
    }
}

static void a_leader_that_stops_hands_over_at_once(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        pump_step(p, 5, (struct bw_event){.kind = BW_EVENT_STOP});
        assert_int_equal(p->nodes[5].last_loss, BW_LOSS_SHUT_DOWN);
        pump_kill(p, 5);
        pump_run(p, BW_SEC + 2 * PUMP_LATENCY);
        assert_true(pump_status(p, 4).leading);
        pump_event_all(p, BW_EVENT_LEAVE, 5);
        pump_run(p, 2 * BW_SEC);
        assert_int_equal(pump_agreed(p), 4);
        pump_free(p);
    }
}

static void next_rank_leads_after_a_resignation(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
        assert_int_equal(p->nodes[5].last_loss, BW_LOSS_RESIGNED);
        pump_run(p, 9 * BW_SEC);
        assert_int_equal(pump_agreed(p), 4);
        pump_free(p);
    }
}

static void repeated_resignations_reach_every_member(void **state)
{
    (void)state;
    static const bw_node turns[] = {5, 4, 3, 1, 2, 5, 4, 3, 1, 2, 5};
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        p->members[0].priority = p->members[2].priority = 1; /* 1 and 3 rank above 2 */
        p->members[3].priority = p->members[4].priority = 2;
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        for (unsigned turn = 0; turn < sizeof turns / sizeof *turns; turn++) {
            assert_int_equal(pump_agreed(p), turns[turn]);
            pump_command(p, turns[turn], BW_COMMAND_RESIGN, BW_NODE_NONE);
            pump_run(p, p->now + BW_SEC);
        }
        pump_free(p);
    }
}

static void lone_member_that_resigns_leads_again(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 2, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        pump_step(p, 2, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 1});
        pump_command(p, 2, BW_COMMAND_RESIGN, BW_NODE_NONE);
        assert_int_equal(p->nodes[2].last_loss, BW_LOSS_RESIGNED);
        assert_true(pump_status(p, 2).leading);
        pump_free(p);
    }
}

static void transfer_to_a_lower_node_lasts(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        pump_command(p, 5, BW_COMMAND_TRANSFER, 2);
        assert_int_equal(p->nodes[5].last_loss, BW_LOSS_TRANSFERRED);
        pump_run(p, 9 * BW_SEC);
        assert_int_equal(pump_agreed(p), 2);
        pump_free(p);
    }
}

static void a_transfer_to_a_dead_node_ends_with_a_live_leader(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        pump_kill(p, 2);
        pump_command(p, 5, BW_COMMAND_TRANSFER, 2);
        pump_run(p, 2 * BW_SEC);
        assert_int_equal(pump_agreed(p), 5);
        pump_free(p);
    }
}

static void leader_repeats_its_announcement_every_ten_periods(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 5, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, 500 * BW_MS);
        uint64_t before = pump_total(p), elections = p->elections;
        pump_run(p, 900 * BW_MS);
        assert_int_equal(pump_total(p), before);
        pump_run(p, 20 * BW_SEC);
        assert_int_equal(p->elections, elections);
        assert_in_range(pump_total(p) - before, 16 * 5, 20 * 5);
        pump_free(p);
    }
}

static void joined_member_takes_its_place_in_the_ring(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 4, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        p->config.count = p->count = 5;
        pump_boot(p, 5, false, BW_NODE_NONE);
        for (bw_node id = 1; id <= 4; id++)
            pump_step(p, id,
                      (struct bw_event){.kind = BW_EVENT_JOIN, .node = 5, .member = {.id = 5}});
        pump_run(p, 3 * BW_SEC);
        assert_int_equal(pump_agreed(p), 5);
        pump_free(p);
    }
}

static void joined_member_is_last_in_a_configured_order(void **state)
{
    (void)state;
    static const bw_node order[] = {3, 1, 4, 2, 6, 5};
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 4, order);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        p->count = 6;
        for (uint32_t i = 4; i < 6; i++) { /* 6, then 5 */
            struct bw_member member = {.id = order[i]};
            p->members[4] = (struct bw_member){.id = order[4]};
            p->members[5] = (struct bw_member){.id = order[5]};
            p->config.count = i + 1;
            pump_boot(p, member.id, false, BW_NODE_NONE);
            for (uint32_t k = 0; k < i; k++)
                pump_step(
                    p, order[k],
                    (struct bw_event){.kind = BW_EVENT_JOIN, .node = member.id, .member = member});
            pump_run(p, p->now + BW_SEC);
            assert_int_equal(pump_agreed(p), 6);
        }
        pump_free(p);
    }
}

static void unknown_senders_and_invalid_messages_are_ignored(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    EVERY(ops)
    {
        struct pump *p = pump_new(ops, 3, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        struct bw_message msg = {.kind = BW_MSG_RING_COORDINATOR, .from = 9, .to = 1, .term = 50};
        msg.ring = (struct bw_ring_part){.initiator = 9, .best = 9};
        pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 9, .msg = &msg});
        msg = (struct bw_message){.kind = BW_MSG_CLAIM, .from = 2, .to = 1, .term = 50};
        pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 2, .msg = &msg});
        pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_PERSISTED});
        pump_command(p, 1, BW_COMMAND_RESIGN, BW_NODE_NONE);
        pump_command(p, 1, BW_COMMAND_PROPOSE, BW_NODE_NONE);
        pump_command(p, 3, BW_COMMAND_TRANSFER, 3);
        pump_command(p, 3, BW_COMMAND_TRANSFER, 44);
        pump_run(p, 2 * BW_SEC);
        assert_int_equal(pump_agreed(p), 3);
        pump_free(p);
    }
}

static void a_wrong_order_is_refused(void **state)
{
    (void)state;
    static const bw_node twice[] = {1, 2, 2};
    struct bw_member members[] = {{.id = 1}, {.id = 2}, {.id = 3}};
    struct bw_elector_config config = {
        .self = 1, .members = members, .count = 3, .cap = 3, .order = twice};
    bw_elector_defaults(&config, BW_MS, 100 * BW_MS);
    void *memory = malloc(bw_elect_ring_list.bytes(&config));
    assert_true(bw_elect_ring_list.init(memory, &config) < 0);
    config.order = NULL;
    config.self = 4;
    assert_true(bw_elect_ring_list.init(memory, &config) < 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chang_roberts_costs_what_the_paper_says),
        cmocka_unit_test(one_chang_roberts_initiator_involves_all_at_the_same_cost),
        cmocka_unit_test(hirschberg_sinclair_wins_at_the_predicted_time),
        cmocka_unit_test(two_laps_skip_two_dead_nodes_for_every_initiator),
        cmocka_unit_test(concurrent_initiators_each_cost_two_laps_and_agree),
        cmocka_unit_test(a_fresh_group_agrees_on_the_highest),
        cmocka_unit_test(ring_ranks_priority_before_id),
        cmocka_unit_test(a_suspected_leader_is_replaced_and_comes_back),
        cmocka_unit_test(a_dead_winners_id_does_not_circle),
        cmocka_unit_test(message_of_a_dead_initiator_ends_after_one_lap),
        cmocka_unit_test(an_old_rounds_announcement_changes_nothing),
        cmocka_unit_test(a_message_between_two_orders_ends),
        cmocka_unit_test(candidate_stops_after_a_no),
        cmocka_unit_test(a_lost_round_is_followed_by_another),
        cmocka_unit_test(a_partition_has_two_leaders_and_healing_one),
        cmocka_unit_test(leaders_that_never_suspected_each_other_meet),
        cmocka_unit_test(a_leader_that_stops_hands_over_at_once),
        cmocka_unit_test(next_rank_leads_after_a_resignation),
        cmocka_unit_test(repeated_resignations_reach_every_member),
        cmocka_unit_test(lone_member_that_resigns_leads_again),
        cmocka_unit_test(transfer_to_a_lower_node_lasts),
        cmocka_unit_test(a_transfer_to_a_dead_node_ends_with_a_live_leader),
        cmocka_unit_test(leader_repeats_its_announcement_every_ten_periods),
        cmocka_unit_test(joined_member_takes_its_place_in_the_ring),
        cmocka_unit_test(joined_member_is_last_in_a_configured_order),
        cmocka_unit_test(unknown_senders_and_invalid_messages_are_ignored),
        cmocka_unit_test(a_wrong_order_is_refused),
    };
    return cmocka_run_group_tests_name("ring_elections", tests, NULL, NULL);
}
