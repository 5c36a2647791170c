/* SWIM and Lifeguard: precedence, refutation, probes and helpers, choice of the target, duration of
 * suspicions. */
#include "core/base/error.h"
#include "core/detect/swim/swim.h"
#include "detect_pump.h"

#include <math.h>

#define PERIOD (300 * BW_MS) /* the ack timeout is 100 ms */

static bw_node ids[64];

static struct bw_detector_config some_config(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i + 1;
    struct bw_detector_config config = {
        .self = 1, .members = ids, .count = n, .cap = n + 4, .seed = 5};
    bw_detector_defaults(&config, PERIOD);
    return config;
}

static void open_started(struct solo *solo, uint32_t n)
{
    struct bw_detector_config config = some_config(n);
    solo_open(solo, &bw_detect_swim, &config);
    solo_event(solo, BW_EVENT_START, 0, 0);
}

/* A message from `from` with incarnation 0 that carries one update. */
static void receive_update(struct solo *solo, bw_node from, struct bw_swim_update update,
                           bw_time now)
{
    struct bw_message msg = {
        .kind = BW_MSG_SWIM_PING, .from = from, .to = 1, .items = 1, .data = &update};
    msg.probe = (struct bw_probe){.seq = 99, .target = 1};
    solo_receive(solo, &msg, now);
}

static void receive_ack(struct solo *solo, enum bw_message_kind kind, bw_node from, bw_node target,
                        uint64_t seq, unsigned flags, bw_time now)
{
    struct bw_message msg = {
        .kind = (uint8_t)kind, .flags = (uint8_t)flags, .from = from, .to = solo->config.self};
    msg.probe = (struct bw_probe){.seq = seq, .target = target};
    solo_receive(solo, &msg, now);
}

static const struct bw_swim_update *carried(const struct bw_message *msg, bw_node about)
{
    const struct bw_swim_update *updates = msg->data;
    for (uint32_t i = 0; i < msg->items; i++)
        if (updates[i].node == about)
            return &updates[i];
    return NULL;
}

static void update_precedence_follows_the_paper(void **state)
{
    (void)state;
    enum { A = BW_MEMBER_ALIVE, S = BW_MEMBER_SUSPECT, D = BW_MEMBER_DEAD };
    static const struct {
        uint32_t status, incarnation;
        uint32_t held, held_incarnation;
        bool beats;
    } table[] = {
        {A, 2, A, 1, true},  {A, 1, A, 1, false}, {A, 1, A, 2, false}, {A, 2, S, 1, true},
        {A, 1, S, 1, false}, {A, 1, S, 2, false}, {A, 2, D, 1, true},  {A, 1, D, 1, false},
        {A, 1, D, 2, false}, {S, 2, A, 1, true},  {S, 1, A, 1, true},  {S, 1, A, 2, false},
        {S, 2, S, 1, true},  {S, 1, S, 1, false}, {S, 1, S, 2, false}, {S, 2, D, 1, false},
        {S, 1, D, 1, false}, {S, 1, D, 2, false}, {D, 2, A, 1, true},  {D, 1, A, 1, true},
        {D, 1, A, 2, false}, {D, 2, S, 1, true},  {D, 1, S, 1, true},  {D, 1, S, 2, false},
        {D, 2, D, 1, true},  {D, 1, D, 1, false}, {D, 1, D, 2, false},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct bw_swim_update update = {
            .node = 2, .incarnation = table[i].incarnation, .status = table[i].status};
        enum bw_member_status held = (enum bw_member_status)table[i].held;
        if (bw_swim_overrides(&update, held, table[i].held_incarnation) != table[i].beats)
            fail_msg("row %u", i);
    }
}

static void old_alive_does_not_revive_a_dead_member(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 5);
    receive_update(&solo, 2, (struct bw_swim_update){3, 4, BW_MEMBER_DEAD, 2}, 1);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    receive_update(&solo, 2, (struct bw_swim_update){3, 4, BW_MEMBER_ALIVE, 0}, 2);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    assert_int_equal(solo.count, 1);
    receive_update(&solo, 2, (struct bw_swim_update){3, 5, BW_MEMBER_ALIVE, 0}, 3);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_ALIVE);
    assert_int_equal(solo.count, 2);
    solo_close(&solo);
}

static void suspected_member_refutes_with_a_higher_incarnation(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 5);
    receive_update(&solo, 2, (struct bw_swim_update){1, 7, BW_MEMBER_SUSPECT, 3}, 1);
    const struct bw_message *ack = solo_sent(&solo, BW_MSG_SWIM_ACK, 0);
    assert_int_equal(ack->probe.incarnation, 8);
    const struct bw_swim_update *refutation = carried(ack, 1);
    assert_non_null(refutation);
    assert_true(refutation->status == BW_MEMBER_ALIVE && refutation->incarnation == 8);
    receive_update(&solo, 2, (struct bw_swim_update){1, 7, BW_MEMBER_DEAD, 3}, 2);
    /* the old update is ignored */
    assert_int_equal(solo_sent(&solo, BW_MSG_SWIM_ACK, 0)->probe.incarnation, 8);
    solo_close(&solo);
}

static void restarted_member_has_a_later_incarnation(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(3);
    config.starts = 2;
    struct solo solo;
    solo_open(&solo, &bw_detect_swim, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    solo_wait(&solo, PERIOD);
    const struct bw_message *ping = solo_sent(&solo, BW_MSG_SWIM_PING, 0);
    assert_true(ping->probe.incarnation > 1 << 12);
    assert_non_null(carried(ping, 1));
    assert_true(ping->probe.seq >> 32 == 2);
    solo_close(&solo);
}

/* Waits for the next own ping and returns a copy. */
static struct bw_message next_ping(struct solo *solo, bw_time now)
{
    solo_wait(solo, now);
    const struct bw_message *ping = solo_sent(solo, BW_MSG_SWIM_PING, 0);
    assert_non_null(ping);
    return *ping;
}

static void unacknowledged_probe_causes_suspicion_at_period_end(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 6);
    assert_true(solo.ops->deadline(solo.self) == PERIOD); /* no probe before */
    struct bw_message ping = next_ping(&solo, PERIOD);
    solo_wait(&solo, PERIOD + 100 * BW_MS);
    bw_node helpers[3];
    for (uint32_t i = 0; i < 3; i++) {
        const struct bw_message *ask = solo_sent(&solo, BW_MSG_SWIM_PING_REQ, i);
        assert_non_null(ask);
        assert_true(ask->probe.target == ping.to && ask->probe.seq == ping.probe.seq);
        helpers[i] = ask->to;
        assert_true(helpers[i] != ping.to && helpers[i] != 1);
    }
    assert_true(helpers[0] != helpers[1] && helpers[1] != helpers[2] && helpers[0] != helpers[2]);
    solo_wait(&solo, 2 * PERIOD - 1);
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, 2 * PERIOD);
    assert_int_equal(solo.count, 1);
    assert_true(solo.verdicts[0].node == ping.to && solo.verdicts[0].at == 2 * PERIOD);
    assert_int_equal(solo_status(&solo, ping.to), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void ack_through_a_helper_prevents_suspicion(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 6);
    struct bw_message ping = next_ping(&solo, PERIOD);
    solo_wait(&solo, PERIOD + 100 * BW_MS);
    bw_node helper = solo_sent(&solo, BW_MSG_SWIM_PING_REQ, 0)->to;
    receive_ack(&solo, BW_MSG_SWIM_ACK, helper, ping.to, ping.probe.seq, BW_FLAG_FORWARDED,
                2 * PERIOD - 1);
    solo_wait(&solo, 2 * PERIOD);
    assert_int_equal(solo.count, 0);
    solo_close(&solo);
}

static void ack_of_another_probe_does_not_prevent_suspicion(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 2);
    struct bw_message ping = next_ping(&solo, PERIOD);
    receive_ack(&solo, BW_MSG_SWIM_ACK, 2, 2, ping.probe.seq - 1, 0, PERIOD + 1);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    solo_wait(&solo, 2 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void helper_probes_and_sends_ack_or_nack(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 6);
    for (int answered = 0; answered < 2; answered++) {
        bw_time now = answered ? 20 * BW_MS : 10 * BW_MS;
        receive_ack(&solo, BW_MSG_SWIM_PING_REQ, 2, 3, 70, 0, now);
        struct bw_message ping = *solo_sent(&solo, BW_MSG_SWIM_PING, 0);
        assert_true(ping.to == 3 && ping.probe.target == 3);
        if (answered) {
            receive_ack(&solo, BW_MSG_SWIM_ACK, 3, 3, ping.probe.seq, 0, now + 1);
            const struct bw_message *ack = solo_sent(&solo, BW_MSG_SWIM_ACK, 0);
            assert_true(ack->to == 2 && ack->probe.seq == 70 && ack->probe.target == 3);
            assert_int_equal(ack->flags, BW_FLAG_FORWARDED);
            solo_wait(&solo, PERIOD - 1);
            assert_null(solo_sent(&solo, BW_MSG_SWIM_NACK, 0));
            continue;
        }
        assert_true(solo.ops->deadline(solo.self) == now + 80 * BW_MS);
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, now + 80 * BW_MS);
        const struct bw_message *nack = solo_sent(&solo, BW_MSG_SWIM_NACK, 0);
        assert_true(nack->to == 2 && nack->probe.seq == 70);
    }
    solo_close(&solo);
}

static bw_time period_after_failed_probe(uint32_t nacks)
{
    struct solo solo;
    open_started(&solo, 6);
    struct bw_message ping = next_ping(&solo, PERIOD);
    solo_wait(&solo, PERIOD + 100 * BW_MS);
    bw_node helpers[3];
    for (uint32_t i = 0; i < 3; i++)
        helpers[i] = solo_sent(&solo, BW_MSG_SWIM_PING_REQ, i)->to;
    for (uint32_t i = 0; i < nacks; i++)
        receive_ack(&solo, BW_MSG_SWIM_NACK, helpers[i], ping.to, ping.probe.seq, 0,
                    PERIOD + 200 * BW_MS);
    struct bw_message second = next_ping(&solo, 2 * PERIOD);
    receive_ack(&solo, BW_MSG_SWIM_ACK, second.to, second.to, second.probe.seq, 0, 2 * PERIOD + 1);
    bw_time next = solo.ops->deadline(solo.self) - 2 * PERIOD;
    solo_close(&solo);
    return next;
}

static void prober_lowers_its_health_when_nacks_are_missing(void **state)
{
    (void)state;
    assert_true(period_after_failed_probe(3) == PERIOD);
    assert_true(period_after_failed_probe(2) == 2 * PERIOD);
    assert_true(period_after_failed_probe(0) == 4 * PERIOD);
}

static void health_multiplier_stays_between_zero_and_eight(void **state)
{
    (void)state;
    struct bw_lifeguard health = {0};
    bw_lifeguard_better(&health);
    assert_int_equal(health.score, 0);
    bw_lifeguard_worse(&health, 5);
    bw_lifeguard_worse(&health, 5);
    assert_int_equal(health.score, 8);
    assert_true(bw_lifeguard_stretch(&health, 10) == 90);
    bw_lifeguard_better(&health);
    assert_int_equal(health.score, 7);
}

static void suspicion_shortens_with_independent_reports(void **state)
{
    (void)state;
    static const double expected[] = {63.22, 36.88, 21.47, 10.54, 10.54};
    for (uint32_t c = 0; c < 5; c++) {
        double lasts = (double)bw_lifeguard_suspicion_ns(128, BW_SEC, 5, 6, c) / BW_SEC;
        assert_true(fabs(lasts - expected[c]) < .006);
    }
    /* no other member can confirm */
    assert_true(bw_lifeguard_suspicion_ns(2, BW_SEC, 5, 6, 0) == 5 * BW_SEC);
    assert_true(bw_lifeguard_suspicion_ns(3, BW_SEC, 5, 6, 1) == 5 * BW_SEC);
}

static bw_time death_after_reports(const bw_node *by, uint32_t reports)
{
    struct solo solo;
    open_started(&solo, 20);
    for (uint32_t i = 0; i < reports; i++)
        receive_update(&solo, 5, (struct bw_swim_update){3, 0, BW_MEMBER_SUSPECT, by[i]},
                       1 + (bw_time)i);
    assert_int_equal(solo.count, 1);
    bw_time now = 0;
    while (solo_status(&solo, 3) == BW_MEMBER_SUSPECT) {
        now = solo.ops->deadline(solo.self);
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, now);
        const struct bw_message *ping = solo_sent(&solo, BW_MSG_SWIM_PING, 0);
        if (!ping)
            continue;
        struct bw_message copy = *ping; /* all members reply, but 3 does not refute the suspicion */
        receive_ack(&solo, BW_MSG_SWIM_ACK, copy.to, copy.to, copy.probe.seq, 0, now + 1);
    }
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    assert_int_equal(solo.count, 1); /* the electors learned of it at the suspicion */
    solo_close(&solo);
    return now - 1;
}

static void repeated_report_by_one_member_counts_once(void **state)
{
    (void)state;
    static const bw_node alone[] = {7, 7, 7, 7}, many[] = {7, 8, 9, 10};
    double min = 5 * log10(20) * (double)PERIOD;
    assert_true(fabs((double)death_after_reports(alone, 4) - 6 * min) < 1e3);
    assert_true(fabs((double)death_after_reports(many, 4) - min) < 1e3);
    assert_true(fabs((double)death_after_reports(many, 2) - 3.5 * min) < 1e3);
}

static void suspect_is_dead_at_once_without_a_suspicion_time(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(4);
    config.suspicion_min = 0;
    struct solo solo;
    solo_open(&solo, &bw_detect_swim, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    struct bw_message ping = next_ping(&solo, PERIOD);
    solo_wait(&solo, 2 * PERIOD);
    assert_int_equal(solo_status(&solo, ping.to), BW_MEMBER_DEAD);
    assert_int_equal(solo.count, 1);
    assert_true(solo.verdicts[0].suspect);
    solo_close(&solo);
}

static void ping_to_a_suspect_carries_the_suspicion_first(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 2);
    receive_update(&solo, 2, (struct bw_swim_update){2, 0, BW_MEMBER_SUSPECT, 9}, 1);
    struct bw_message ping = next_ping(&solo, PERIOD);
    const struct bw_swim_update *updates = ping.data;
    assert_true(ping.items >= 1 && updates[0].node == 2 && updates[0].status == BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void hinted_member_is_probed_next(void **state)
{
    (void)state;
    for (bw_node node = 2; node <= 40; node++) {
        struct solo solo;
        open_started(&solo, 40);
        solo_event(&solo, BW_EVENT_HINT, node, 1);
        assert_int_equal(solo.count, 0); /* a hint is not proof */
        assert_int_equal(next_ping(&solo, PERIOD).to, node);
        solo_close(&solo);
    }
}

static void every_member_is_probed_within_about_three_rounds(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(33);
    unsigned char memory[33 * 16 + 64];
    struct bw_arena arena = {.at = memory, .cap = sizeof memory};
    struct bw_swim_members members;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    assert_int_equal(bw_swim_members_init(&members, &arena, &config, &rng), 0);
    uint32_t last[34] = {0}, worst = 0, chosen[34] = {0};
    for (uint32_t period = 1; period <= 32000; period++) {
        bw_node node = bw_swim_members_choose(&members, &rng)->id;
        uint32_t waited = period - last[node];
        worst = waited > worst ? waited : worst;
        last[node] = period;
        chosen[node]++;
    }
    assert_in_range(worst, 3 * 32, 4 * 32);
    for (bw_node node = 2; node <= 33; node++)
        assert_in_range(chosen[node], 900, 1100);
}

static void update_is_sent_a_logarithmic_number_of_times(void **state)
{
    (void)state;
    struct bw_swim_gossip gossip = {0};
    struct bw_swim_update out[BW_SWIM_UPDATES_MAX];
    for (bw_node node = 1; node <= 20; node++) {
        struct bw_swim_update update = {node, 1, BW_MEMBER_DEAD, 1};
        bw_swim_gossip_add(&gossip, &update);
    }
    uint32_t sent[21] = {0}, most = 0;
    for (uint32_t taken; (taken = bw_swim_gossip_take(&gossip, 99, out, BW_SWIM_UPDATES_MAX));)
        for (uint32_t i = 0; i < taken; i++) {
            sent[out[i].node]++;
            most = sent[out[i].node] > most ? sent[out[i].node] : most;
            for (bw_node node = 1; node <= 20; node++) /* least often sent updates go first */
                assert_true(sent[node] + 2 >= most);
        }
    for (bw_node node = 1; node <= 20; node++)
        assert_int_equal(sent[node], 6); /* 3 log10(100) */
}

static void newer_update_supersedes_older_and_the_list_is_bounded(void **state)
{
    (void)state;
    struct bw_swim_gossip gossip = {0};
    struct bw_swim_update out[BW_SWIM_UPDATES_MAX];
    bw_swim_gossip_add(&gossip, &(struct bw_swim_update){3, 1, BW_MEMBER_SUSPECT, 5});
    bw_swim_gossip_add(&gossip, &(struct bw_swim_update){3, 1, BW_MEMBER_SUSPECT, 6});
    assert_int_equal(gossip.count, 2); /* reports of two members */
    bw_swim_gossip_add(&gossip, &(struct bw_swim_update){3, 2, BW_MEMBER_ALIVE, 0});
    assert_int_equal(bw_swim_gossip_take(&gossip, 9, out, BW_SWIM_UPDATES_MAX), 1);
    assert_int_equal(out[0].status, BW_MEMBER_ALIVE);
    for (bw_node node = 1; node <= 200; node++)
        bw_swim_gossip_add(&gossip, &(struct bw_swim_update){node, 1, BW_MEMBER_DEAD, 1});
    assert_int_equal(gossip.count, BW_SWIM_GOSSIP_MAX);
    bw_swim_gossip_take(&gossip, 9, out, 1);
    assert_int_equal(out[0].node, 200);
}

static void members_come_and_go_in_any_order(void **state)
{
    (void)state;
    bw_node some[] = {40, 7, 22, 3, 15};
    struct bw_detector_config config = {.self = 22, .members = some, .count = 5, .cap = 12};
    unsigned char memory[12 * 16];
    struct bw_arena arena = {.at = memory, .cap = sizeof memory};
    struct bw_swim_members members;
    struct bw_rng rng;
    bw_rng_init(&rng, 8);
    assert_int_equal(bw_swim_members_init(&members, &arena, &config, &rng), 0);
    assert_int_equal(sizeof(struct bw_swim_member), 16);
    bool in[64] = {[40] = true, [7] = true, [3] = true, [15] = true};
    for (int i = 0; i < 5000; i++) {
        bw_node node = 1 + (bw_node)bw_rng_below(&rng, 63);
        struct bw_swim_member *member = bw_swim_members_find(&members, node);
        assert_true((member != NULL) == in[node]);
        if (member && i % 3)
            bw_swim_members_become(&members, member, (enum bw_member_status)bw_rng_below(&rng, 3));
        else if (member)
            in[node] = !bw_swim_members_remove(&members, node);
        else
            in[node] = bw_swim_members_add(&members, node) != NULL;
        uint32_t walked = 0, dead = 0;
        for (uint16_t k = members.live.head; k != BW_SWIM_NONE; k = members.at[k].after, walked++)
            assert_true(members.at[k].status != BW_MEMBER_DEAD);
        for (uint16_t k = members.dead.head; k != BW_SWIM_NONE; k = members.at[k].after, dead++)
            assert_true(members.at[k].status == BW_MEMBER_DEAD);
        assert_true(walked == members.live.count && dead == members.dead.count);
        assert_int_equal(walked + dead, members.count);
        if (members.count)
            assert_non_null(bw_swim_members_choose(&members, &rng));
    }
}

static void suspicions_end_when_the_table_overflows(void **state)
{
    (void)state;
    static bw_node many[600];
    for (uint32_t i = 0; i < 600; i++)
        many[i] = i + 1;
    struct bw_detector_config config = {.self = 1, .members = many, .count = 600, .cap = 600};
    bw_detector_defaults(&config, PERIOD);
    struct solo solo;
    solo_open(&solo, &bw_detect_swim, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    for (bw_node node = 3; node <= 600; node++)
        receive_update(&solo, 2, (struct bw_swim_update){node, 0, BW_MEMBER_SUSPECT, 2}, node);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    assert_int_equal(solo_status(&solo, 600), BW_MEMBER_SUSPECT);
    for (bw_time now; (now = solo.ops->deadline(solo.self)) < 300 * PERIOD;)
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, now);
    for (bw_node node = 3; node <= 600; node++)
        assert_int_equal(solo_status(&solo, node), BW_MEMBER_DEAD);
    solo_close(&solo);
}

static void a_quiet_group_sends_one_ping_and_one_ack_per_member_and_period(void **state)
{
    (void)state;
    struct bw_detector_config config = {.seed = 1};
    bw_detector_defaults(&config, PERIOD);
    struct group group;
    group_open(&group, &bw_detect_swim, 16, &config, BW_MS);
    group_start(&group);
    group_run(&group, 100 * PERIOD + PERIOD / 2);
    assert_int_equal(group.sent[BW_MSG_SWIM_PING], 16 * 100);
    assert_int_equal(group.sent[BW_MSG_SWIM_ACK], 16 * 100);
    assert_int_equal(group.sent[BW_MSG_SWIM_PING_REQ], 0);
    group_close(&group);
}

static void false_suspicion_is_refuted_by_its_target(void **state)
{
    (void)state;
    struct bw_detector_config config = {.seed = 2};
    bw_detector_defaults(&config, PERIOD);
    struct group group;
    group_open(&group, &bw_detect_swim, 16, &config, BW_MS);
    group_start(&group);
    group_run(&group, 10 * PERIOD);
    for (bw_node i = 2; i <= 16; i++) { /* for a while no member receives from 1 */
        group_cut(&group, 1, i, true);
        group_cut(&group, i, 1, true);
    }
    group_run(&group, group.now + 4 * PERIOD);
    assert_true(group_suspecting(&group, 1) > 0);
    for (bw_node i = 2; i <= 16; i++) {
        group_cut(&group, 1, i, false);
        group_cut(&group, i, 1, false);
    }
    group_run(&group, group.now + 25 * PERIOD);
    assert_int_equal(group_suspicions(&group), 0);
    for (uint32_t i = 1; i < 16; i++)
        assert_int_equal(solo_status(&group.at[i], 1), BW_MEMBER_ALIVE);
    group_close(&group);
}

static void a_large_partition_heals_by_itself(void **state)
{
    (void)state;
    struct bw_detector_config config = {.seed = 3};
    bw_detector_defaults(&config, PERIOD);
    struct group group;
    group_open(&group, &bw_detect_swim, 24, &config, BW_MS);
    group_start(&group);
    group_run(&group, 5 * PERIOD);
    group_split(&group, 12, true);
    group_run(&group, group.now + 400 * PERIOD);
    assert_int_equal(group_suspicions(&group), 2 * 12 * 12);
    for (bw_node i = 13; i <= 24; i++)
        assert_int_equal(solo_status(&group.at[0], i), BW_MEMBER_DEAD);
    group_split(&group, 12, false);
    group_run(&group, group.now + 60 * PERIOD);
    assert_int_equal(group_suspicions(&group), 0);
    group_close(&group);
}

/* Sixty members with ten per cent loss. Some crash, and a partition outlasts all suspicions. After
 * healing, every member holds exactly the crashed ones dead. */
static void large_group_recovers_from_loss_crashes_and_partition(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(60);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct group group;
        struct bw_rng rng;
        bw_rng_init(&rng, seed);
        config.seed = seed;
        group_open(&group, &bw_detect_swim, 60, &config, 5 * BW_MS);
        group.rng = &rng;
        group.loss = .1;
        group_start(&group);
        group_run(&group, 30 * BW_SEC);
        group_crash(&group, 7);
        group_crash(&group, 42);
        group_run(&group, 60 * BW_SEC);
        assert_int_equal(group_suspecting(&group, 7), 58);
        assert_int_equal(group_suspecting(&group, 42), 58);
        group_split(&group, 30, true);
        group_run(&group, 150 * BW_SEC);
        assert_true(group_suspicions(&group) > 1000); /* nearly all members of the other side */
        group_split(&group, 30, false);
        group.loss = 0;
        group_restart(&group, 7);
        group.at[6].down = false;
        group_run(&group, 240 * BW_SEC);
        assert_int_equal(group_suspecting(&group, 42), 59);
        assert_int_equal(group_suspicions(&group), 59); /* no other member is suspected */
        group_close(&group);
    }
}

static void level_rises_while_a_suspicion_lasts(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 5);
    assert_true(bw_detect_swim.level(solo.self, 3, 0) == 0);
    receive_update(
        &solo, 2, (struct bw_swim_update){.node = 3, .status = BW_MEMBER_SUSPECT, .by = 2}, BW_SEC);
    double first = bw_detect_swim.level(solo.self, 3, BW_SEC);
    double later = bw_detect_swim.level(solo.self, 3, 2 * BW_SEC);
    assert_true(first == 1 && later > first && later < 2);
    receive_update(&solo, 2, (struct bw_swim_update){.node = 3, .status = BW_MEMBER_DEAD, .by = 2},
                   2 * BW_SEC);
    assert_true(bw_detect_swim.level(solo.self, 3, 2 * BW_SEC) == 2);
    solo_event(&solo, BW_EVENT_CONFIRMED_DEAD, 3, 2 * BW_SEC); /* it is dead already */
    assert_int_equal(solo.out.count, 0);
    solo_close(&solo);
}

static void nacks_and_pings_for_others_are_ignored(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 5);
    solo_wait(&solo, PERIOD);
    receive_ack(&solo, BW_MSG_SWIM_NACK, 2, 3, 12345, 0, PERIOD); /* of another probe */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    receive_ack(&solo, BW_MSG_SWIM_PING, 2, 4, 7, 0, PERIOD); /* meant for node 4 */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_NOT_A_MEMBER));
    assert_null(solo_sent(&solo, BW_MSG_SWIM_ACK, 0));
    receive_ack(&solo, BW_MSG_SWIM_PING_REQ, 2, 99, 7, 0,
                PERIOD); /* about a node that is not a member */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_NOT_A_MEMBER));
    receive_ack(&solo, BW_MSG_HEARTBEAT, 2, 1, 7, 0, PERIOD); /* of another detector */
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_STATE));
    solo_close(&solo);
}

/* Each helper has one answer to give. */
static void surplus_nacks_are_ignored(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 6);
    struct bw_message ping = next_ping(&solo, PERIOD);
    solo_wait(&solo, PERIOD + 100 * BW_MS); /* asks three helpers */
    for (uint32_t i = 0; i < 4; i++) {
        receive_ack(&solo, BW_MSG_SWIM_NACK, 2, ping.to, ping.probe.seq, 0, PERIOD + 101 * BW_MS);
        assert_int_equal(solo_noted(&solo, BW_TRACE_IGNORED_LATE), i == 3);
    }
    solo_close(&solo);
}

static void requests_for_help_are_bounded(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 5);
    for (uint64_t i = 0; i < BW_SWIM_RELAYS_MAX; i++) {
        receive_ack(&solo, BW_MSG_SWIM_PING_REQ, 2, 3, 100 + i, 0, 0);
        assert_non_null(solo_sent(&solo, BW_MSG_SWIM_PING, 0));
    }
    receive_ack(&solo, BW_MSG_SWIM_PING_REQ, 2, 3, 999, 0, 0);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_FULL));
    solo_event(&solo, BW_EVENT_LEAVE, 3, 0); /* its target leaves: all of them end */
    receive_ack(&solo, BW_MSG_SWIM_PING_REQ, 2, 4, 1000, 0, 0);
    struct bw_message relayed = *solo_sent(&solo, BW_MSG_SWIM_PING, 0);
    receive_ack(&solo, BW_MSG_SWIM_ACK, 5, 5, relayed.probe.seq, 0, 0); /* not by the target */
    assert_null(solo_sent(&solo, BW_MSG_SWIM_ACK, 0));
    solo_event(&solo, BW_EVENT_LEAVE, 2, 0); /* the asker leaves */
    receive_ack(&solo, BW_MSG_SWIM_ACK, 4, 4, relayed.probe.seq, 0, 0);
    assert_null(solo_sent(&solo, BW_MSG_SWIM_ACK, 0));
    solo_close(&solo);
}

static void probe_of_a_member_that_left_has_no_verdict(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 3);
    struct bw_message ping = next_ping(&solo, PERIOD);
    solo_event(&solo, BW_EVENT_LEAVE, ping.to, PERIOD + 1);
    solo_wait(&solo, 3 * PERIOD);
    for (uint32_t i = 0; i < solo.count; i++)
        assert_int_not_equal(solo.verdicts[i].node, ping.to);
    solo_close(&solo);
}

/* The highest incarnation cannot be raised; the refutation still goes out. */
static void refutation_at_the_highest_incarnation_does_not_overflow(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, 3);
    receive_update(&solo, 2,
                   (struct bw_swim_update){
                       .node = 1, .status = BW_MEMBER_SUSPECT, .by = 2, .incarnation = UINT32_MAX},
                   0);
    const struct bw_message *ack = solo_sent(&solo, BW_MSG_SWIM_ACK, 0);
    assert_non_null(ack);
    assert_int_equal(carried(ack, 1)->incarnation, UINT32_MAX);
    receive_update(&solo, 2, (struct bw_swim_update){.node = 99},
                   0); /* about a node that is not a member */
    assert_int_equal(solo_status(&solo, 99), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_precedence_follows_the_paper),
        cmocka_unit_test(old_alive_does_not_revive_a_dead_member),
        cmocka_unit_test(suspected_member_refutes_with_a_higher_incarnation),
        cmocka_unit_test(restarted_member_has_a_later_incarnation),
        cmocka_unit_test(unacknowledged_probe_causes_suspicion_at_period_end),
        cmocka_unit_test(ack_through_a_helper_prevents_suspicion),
        cmocka_unit_test(ack_of_another_probe_does_not_prevent_suspicion),
        cmocka_unit_test(helper_probes_and_sends_ack_or_nack),
        cmocka_unit_test(prober_lowers_its_health_when_nacks_are_missing),
        cmocka_unit_test(health_multiplier_stays_between_zero_and_eight),
        cmocka_unit_test(suspicion_shortens_with_independent_reports),
        cmocka_unit_test(repeated_report_by_one_member_counts_once),
        cmocka_unit_test(suspect_is_dead_at_once_without_a_suspicion_time),
        cmocka_unit_test(ping_to_a_suspect_carries_the_suspicion_first),
        cmocka_unit_test(hinted_member_is_probed_next),
        cmocka_unit_test(every_member_is_probed_within_about_three_rounds),
        cmocka_unit_test(update_is_sent_a_logarithmic_number_of_times),
        cmocka_unit_test(newer_update_supersedes_older_and_the_list_is_bounded),
        cmocka_unit_test(members_come_and_go_in_any_order),
        cmocka_unit_test(suspicions_end_when_the_table_overflows),
        cmocka_unit_test(a_quiet_group_sends_one_ping_and_one_ack_per_member_and_period),
        cmocka_unit_test(false_suspicion_is_refuted_by_its_target),
        cmocka_unit_test(a_large_partition_heals_by_itself),
        cmocka_unit_test(large_group_recovers_from_loss_crashes_and_partition),
        cmocka_unit_test(level_rises_while_a_suspicion_lasts),
        cmocka_unit_test(nacks_and_pings_for_others_are_ignored),
        cmocka_unit_test(surplus_nacks_are_ignored),
        cmocka_unit_test(requests_for_help_are_bounded),
        cmocka_unit_test(probe_of_a_member_that_left_has_no_verdict),
        cmocka_unit_test(refutation_at_the_highest_incarnation_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
