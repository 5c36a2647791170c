/* The quorum guard, one instance at a time: claims and refusals that are late, repeated, impossible
 * or about ourselves. */
#include "guard_world.h"

static bool announced(const struct world *w)
{
    return first(w, BW_ACTION_ANNOUNCE) != NULL;
}

static struct bw_elector_status status_of(const struct world *w)
{
    struct bw_elector_status status;
    bw_elect_guard.status(w->memory, &status);
    return status;
}

/* Starts node 1 with these voters. */
static void start_with(struct world *w, const bw_node *voters, uint32_t count)
{
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.voters = voters;
    config.voters_count = count;
    assert_int_equal(bw_elect_guard.init(w->memory, &config), 0);
    step(w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
}

static void refusal_from(struct world *w, bw_time now, bw_node from, bw_term epoch, bw_node holder,
                         bw_time left)
{
    struct bw_message msg = {.kind = BW_MSG_PROMISE, .from = from, .to = 1, .term = epoch};
    msg.promise.leader = holder;
    msg.promise.left_ns = left;
    receive(w, now, &msg);
}

static void senseless_guard_settings_are_refused(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    config.promise_ns = -1;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), BW_EINVAL);
    config = config_for(1);
    config.drift_ppm = 1000000;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), BW_EINVAL);
    config = config_for(1);
    config.quorum = MEMBERS + 1;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), BW_EINVAL);
    static const struct bw_member twice[] = {{.id = 1}, {.id = 1}};
    config = config_for(1);
    config.members = twice;
    config.count = 2;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), BW_EINVAL);
}

static void a_larger_quorum_than_a_majority_can_be_required(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.quorum = 4;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    inner_names(&w, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 3, 1, BW_SEC);
    assert_false(announced(&w));
    promise_from(&w, BW_SEC + BW_MS, 4, 1, BW_SEC);
    assert_true(announced(&w));
}

static void claims_are_repeated_to_voters_and_releases_to_all(void **state)
{
    (void)state;
    static const bw_node voters[] = {1, 2, 3, 4};
    struct world w = {0};
    start_with(&w, voters, 4);
    inner_names(&w, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 3, 1, BW_SEC);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC + BW_MS});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    bw_time now = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), 3); /* 2, 3 and 4, but not 5 */
    step(&w, &(struct bw_event){.kind = BW_EVENT_STOP, .now = now});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
    inner_names(&w, 2, now);
    now = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* The claimant was paused, and its promises have expired when it reads them. */
static void promises_read_after_they_expired_open_no_window(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    promise_from(&w, BW_SEC + T, 2, 1, BW_SEC);
    promise_from(&w, BW_SEC + T, 3, 1, BW_SEC);
    assert_false(announced(&w));
    assert_false(status_of(&w).leading);
}

/* Without latency, a round may begin in the instant of the previous one. Its echo is the same, so
 * the promises count for both. */
static void a_round_in_the_same_instant_keeps_its_promises(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    promise_from(&w, BW_SEC, 2, 1, BW_SEC);
    promise_from(&w, BW_SEC, 3, 1, BW_SEC);
    assert_true(announced(&w));
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    assert_true(announced(&w));
}

static void a_node_outside_its_own_list_needs_the_promises_of_others(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_LEAVE, .node = 1});
    inner_names(&w, 1, BW_SEC); /* of four members three must promise */
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 3, 1, BW_SEC);
    assert_false(announced(&w));
    promise_from(&w, BW_SEC + BW_MS, 4, 1, BW_SEC);
    assert_true(announced(&w));
}

/* The promise to itself has expired, and another member claims a higher epoch. */
static void claimant_or_leader_that_stalled_promises_to_another(void **state)
{
    (void)state;
    for (int leads = 0; leads < 2; leads++) {
        struct world w = {0};
        start(&w, 1, 0);
        inner_names(&w, 1, BW_SEC);
        for (bw_node id = 2; leads && id <= 3; id++)
            promise_from(&w, BW_SEC + BW_MS, id, 1, BW_SEC);
        assert_int_equal(status_of(&w).leading, leads);
        assert_int_equal(status_of(&w).electing, !leads);
        claim_from(&w, BW_SEC + T - 1, 2, 2);
        assert_int_equal(reply(&w)->flags & BW_FLAG_YES, 0);
        claim_from(&w, BW_SEC + T, 2, 2);
        assert_string_equal(status_of(&w).state, "following");
        assert_int_equal(w.disk.promised_to, 2);
        if (leads)
            assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, BW_LOSS_TAKEN);
    }
}

/* A voter answers a delayed claim of ours although it has promised us a newer one. */
static void a_refusal_in_favour_of_ourselves_changes_no_epoch(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    refusal_from(&w, BW_SEC + BW_MS, 2, 1, 1, T / 10);
    bw_time at = bw_elect_guard.deadline(w.memory);
    assert_true(at > BW_SEC + BW_MS + T / 10);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = at});
    assert_int_equal(w.disk.promise_epoch, 1);
    promise_from(&w, at + BW_MS, 2, 1, at);
    promise_from(&w, at + BW_MS, 3, 1, at);
    assert_true(announced(&w));
    refusal_from(&w, at + 2 * BW_MS, 4, 1, 1, 0);
    assert_int_equal(w.disk.promise_epoch, 1);
    assert_int_equal(w.actions.count, 0);
}

/* A voter is bound to another claimant. The leader waits; when the voter is free, it claims above
 * that epoch. */
static void leader_outbids_only_a_voter_that_is_free(void **state)
{
    (void)state;
    struct world w = {0};
    make_leader(&w);
    bw_time now = BW_SEC + 9 * BW_MS;
    refusal_from(&w, now, 4, 7, 5, 1);
    assert_int_equal(w.disk.promise_epoch, 1);
    refusal_from(&w, now, 4, 7, 5, T + 1); /* longer than any promise */
    assert_int_equal(w.disk.promise_epoch, 1);
    refusal_from(&w, now, 4, 7, 5, 0);
    assert_int_equal(w.disk.promise_epoch, 8);
    assert_true(bw_elect_guard.deadline(w.memory) == now);
}

static void refusal_with_an_impossible_wait_delays_no_claim(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    bw_time before = bw_elect_guard.deadline(w.memory);
    refusal_from(&w, BW_SEC + BW_MS, 2, 7, 5, T + 1);
    assert_true(bw_elect_guard.deadline(w.memory) == before);
    refusal_from(&w, BW_SEC + BW_MS, 2, 0, 5, T); /* of an older epoch */
    assert_true(bw_elect_guard.deadline(w.memory) == before);
    refusal_from(&w, BW_SEC + BW_MS, 2, 7, 5, T);
    assert_true(bw_elect_guard.deadline(w.memory) > before);
}

/* A refusal ended the claim, but its other answers are still on their way. */
static void promises_of_a_refused_claim_do_not_count(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    refusal_from(&w, BW_SEC + BW_MS, 2, 1, 5, T / 10);
    for (bw_node id = 3; id <= 5; id++) {
        promise_from(&w, BW_SEC + 2 * BW_MS, id, 1, BW_SEC);
        assert_false(announced(&w));
    }
}

static void release_of_an_older_epoch_keeps_the_view_of_the_leader(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    struct bw_message msg = {
        .kind = BW_MSG_CLAIM, .flags = BW_FLAG_YES, .from = 2, .to = 1, .term = 5};
    receive(&w, BW_SEC, &msg);
    assert_int_equal(status_of(&w).leader, 2);
    msg.kind = BW_MSG_RELEASE;
    msg.term = 4;
    receive(&w, BW_SEC + BW_MS, &msg);
    assert_int_equal(status_of(&w).leader, 2);
    msg.term = 5;
    receive(&w, BW_SEC + 2 * BW_MS, &msg);
    assert_int_equal(status_of(&w).leader, BW_NODE_NONE);
}

static void only_resign_and_transfer_give_up_leadership(void **state)
{
    (void)state;
    static const struct {
        enum bw_command_kind command;
        enum bw_loss reason;
    } cases[] = {{BW_COMMAND_CAMPAIGN, BW_LOSS_NONE},
                 {BW_COMMAND_RESIGN, BW_LOSS_RESIGNED},
                 {BW_COMMAND_TRANSFER, BW_LOSS_TRANSFERRED}};
    for (unsigned i = 0; i < 3; i++) {
        struct world w = {0};
        make_leader(&w);
        bw_time now = BW_SEC + 9 * BW_MS;
        step(&w, &(struct bw_event){.kind = BW_EVENT_COMMAND,
                                    .now = now,
                                    .command = {.kind = cases[i].command, .node = 2}});
        assert_int_equal(status_of(&w).leading, cases[i].reason == BW_LOSS_NONE);
        if (cases[i].reason != BW_LOSS_NONE)
            assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, cases[i].reason);
        step(&w, &(struct bw_event){.kind = BW_EVENT_PERSISTED, .now = now});
        assert_int_equal(w.actions.count, 0);
    }
}

static bool only_node_2_is_ready(const void *self, bw_node node)
{
    (void)self;
    return node == 2;
}

static void inner_elector_decides_who_is_ready_for_a_transfer(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    assert_true(bw_elect_guard.ready(w.memory, 3)); /* it has no opinion */
    struct bw_elector_ops ops = inner;
    ops.ready = only_node_2_is_ready;
    struct bw_elector_config config = config_for(1);
    config.inner = &ops;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    assert_true(bw_elect_guard.ready(w.memory, 2));
    assert_false(bw_elect_guard.ready(w.memory, 3));
}

static void status_electing(const void *self, struct bw_elector_status *out)
{
    inner_status(self, out);
    out->electing = true;
}

static void an_election_of_the_inner_elector_shows_in_the_status(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_elector_ops ops = inner;
    ops.status = status_electing;
    struct bw_elector_config config = config_for(1);
    config.inner = &ops;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    assert_true(status_of(&w).electing);
}

static void only_a_leaders_claims_name_it_as_leader(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.flags & BW_FLAG_YES, 0);
    assert_int_equal(status_of(&w).token, BW_TOKEN_NONE);
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 3, 1, BW_SEC);
    assert_int_equal(status_of(&w).token, 1);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC + BW_MS});
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.flags & BW_FLAG_YES, BW_FLAG_YES);
}

static void observer_announces_each_epoch_of_a_leader_once(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    struct bw_message msg = {
        .kind = BW_MSG_CLAIM, .flags = BW_FLAG_YES, .from = 2, .to = 1, .term = 5};
    receive(&w, BW_SEC, &msg);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.token, 5);
    receive(&w, BW_SEC + BW_MS, &msg);
    assert_false(announced(&w));
    msg.term = 6;
    receive(&w, BW_SEC + 2 * BW_MS, &msg);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.token, 6);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC + 2 * BW_MS + T});
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.leader, BW_NODE_NONE);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.token, BW_TOKEN_NONE);
}

/* Without a quorum the leader repeats until the next round, with one only a few times. */
static void claims_are_repeated_until_a_quorum_has_answered(void **state)
{
    (void)state;
    for (int answered = 0; answered < 2; answered++) {
        struct world w = {0};
        make_leader(&w);
        bw_time round = BW_SEC + 8 * BW_MS;
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = round});
        for (bw_node id = 2; answered && id <= 3; id++)
            promise_from(&w, round + BW_MS, id, 1, round);
        unsigned repeats = 0;
        for (;;) {
            bw_time now = bw_elect_guard.deadline(w.memory);
            if (now >= round + T / 3)
                break;
            step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
            assert_int_equal(count_sent(&w, BW_MSG_CLAIM), answered ? 2 : 4);
            repeats++;
        }
        if (answered)
            assert_int_equal(repeats, 3); /* the first, and two more */
        else
            assert_true(repeats > 3);
    }
}

/* The inner elector announces, then sends and persists: its announcement is replaced, the rest
 * stays in order. */
static void step_of_many(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    inner_step(self, event, actions);
    if (event->kind != BW_EVENT_HINT)
        return;
    bw_actions_persist(actions, &(struct bw_durable){.term = 7, .starts = 3});
    bw_actions_send(actions, BW_MSG_OK, 1, 4, 9);
}

static void other_actions_of_the_inner_elector_keep_their_order(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_elector_ops ops = inner;
    ops.step = step_of_many;
    struct bw_elector_config config = config_for(1);
    config.inner = &ops;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    inner_names(&w, 2, BW_SEC);
    assert_int_equal(w.actions.count, 2);
    assert_int_equal(w.at[0].kind, BW_ACTION_PERSIST);
    assert_int_equal(w.at[0].durable.term, 7);
    assert_int_equal(w.at[1].kind, BW_ACTION_SEND);
    assert_int_equal(w.at[1].msg.to, 4);
}

static unsigned deaths;

static void step_counting_deaths(void *self, const struct bw_event *event,
                                 struct bw_actions *actions)
{
    inner_step(self, event, actions);
    deaths += event->kind == BW_EVENT_CONFIRMED_DEAD;
}

/* The dead work of a leader that runs is no reason for an election: it hands over. */
static void inner_elector_learns_of_deaths_but_not_of_dead_work_of_a_node_that_runs(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_elector_ops ops = inner;
    ops.step = step_counting_deaths;
    struct bw_elector_config config = config_for(1);
    config.inner = &ops;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    deaths = 0;
    step(&w, &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 2, .runs = true});
    assert_int_equal(deaths, 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 2});
    assert_int_equal(deaths, 1);
}

/* Without a known latency the pause after a refusal has no random part. */
static void refused_claimant_waits_exactly_without_a_latency(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.answer_ns = 0;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    inner_names(&w, 1, BW_SEC);
    refusal_from(&w, BW_SEC, 2, 7, 5, T / 10);
    assert_true(bw_elect_guard.deadline(w.memory) ==
                BW_SEC + bw_drift_lengthen(T / 10, config.drift_ppm));
}

/* Obeying them would free our own promise while we act, or bind us to an epoch that we never
 * claimed. */
static void messages_that_carry_our_own_id_are_ignored(void **state)
{
    (void)state;
    static const enum bw_message_kind kinds[] = {BW_MSG_CLAIM, BW_MSG_PROMISE, BW_MSG_RELEASE};
    for (unsigned i = 0; i < 3; i++)
        for (bw_term epoch = 1; epoch <= 2; epoch++) {
            struct world w = {0};
            make_leader(&w);
            struct bw_message msg = {
                .kind = (uint8_t)kinds[i], .from = 1, .to = 1, .term = epoch, .flags = BW_FLAG_YES};
            receive(&w, BW_SEC + 9 * BW_MS, &msg);
            assert_int_equal(w.actions.count, 1);
            assert_int_equal(w.at[0].kind, BW_ACTION_TRACE);
            assert_true(status_of(&w).leading);
            claim_from(&w, BW_SEC + 10 * BW_MS, 2, 9); /* we are bound to ourselves */
            assert_false(reply(&w)->flags & BW_FLAG_YES);
            inner_names(&w, 2, BW_SEC + 11 * BW_MS);
            assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, BW_LOSS_TAKEN);
            step(&w, &(struct bw_event){
                         .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 12 * BW_MS, .node = 1});
            assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
            claim_from(&w, BW_SEC + 13 * BW_MS, 2, 9);
            assert_true(reply(&w)->flags & BW_FLAG_YES);
        }
}

/* It cannot end the claim: its promise would not count either. */
static void refusal_of_a_member_without_a_vote_does_not_delay_a_claim(void **state)
{
    (void)state;
    static const bw_node voters[] = {1, 2, 3};
    struct world w = {0};
    start_with(&w, voters, 3);
    inner_names(&w, 1, BW_SEC);
    bw_time before = bw_elect_guard.deadline(w.memory);
    refusal_from(&w, BW_SEC + BW_MS, 5, 7, 5, T / 2);
    assert_true(bw_elect_guard.deadline(w.memory) == before);
    promise_from(&w, BW_SEC + 2 * BW_MS, 2, 1, BW_SEC);
    assert_true(status_of(&w).leading);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_guard_settings_are_refused),
        cmocka_unit_test(a_larger_quorum_than_a_majority_can_be_required),
        cmocka_unit_test(claims_are_repeated_to_voters_and_releases_to_all),
        cmocka_unit_test(promises_read_after_they_expired_open_no_window),
        cmocka_unit_test(a_round_in_the_same_instant_keeps_its_promises),
        cmocka_unit_test(a_node_outside_its_own_list_needs_the_promises_of_others),
        cmocka_unit_test(claimant_or_leader_that_stalled_promises_to_another),
        cmocka_unit_test(a_refusal_in_favour_of_ourselves_changes_no_epoch),
        cmocka_unit_test(leader_outbids_only_a_voter_that_is_free),
        cmocka_unit_test(refusal_with_an_impossible_wait_delays_no_claim),
        cmocka_unit_test(promises_of_a_refused_claim_do_not_count),
        cmocka_unit_test(release_of_an_older_epoch_keeps_the_view_of_the_leader),
        cmocka_unit_test(only_resign_and_transfer_give_up_leadership),
        cmocka_unit_test(inner_elector_decides_who_is_ready_for_a_transfer),
        cmocka_unit_test(an_election_of_the_inner_elector_shows_in_the_status),
        cmocka_unit_test(only_a_leaders_claims_name_it_as_leader),
        cmocka_unit_test(observer_announces_each_epoch_of_a_leader_once),
        cmocka_unit_test(claims_are_repeated_until_a_quorum_has_answered),
        cmocka_unit_test(other_actions_of_the_inner_elector_keep_their_order),
        cmocka_unit_test(inner_elector_learns_of_deaths_but_not_of_dead_work_of_a_node_that_runs),
        cmocka_unit_test(refused_claimant_waits_exactly_without_a_latency),
        cmocka_unit_test(messages_that_carry_our_own_id_are_ignored),
        cmocka_unit_test(refusal_of_a_member_without_a_vote_does_not_delay_a_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
