/* The bully family, one instance at a time: messages that are late, repeated or forged, and events
 * in every state. Member 2 of 1, 2, 3, 4; the higher id ranks higher. */
#include "one_bully.h"

static void bully_needs_memory_and_takes_its_capacity_from_the_members(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        prepare_bully(&w, bullies[i]);
        assert_int_equal(w.ops->init(NULL, &w.config), BW_ENOMEM);
        w.config.cap = 0;
        start_with(&w, 4);
        ignores(&w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 5, .member = {.id = 5}},
                "a member beyond its capacity");
        close_world(&w);
    }
}

static void only_the_next_in_rank_is_ready_for_a_transfer(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    assert_true(w.ops->ready(w.memory, 4));
    assert_false(w.ops->ready(w.memory, 3));
    about(&w, BW_EVENT_SUSPECT, 4);
    about(&w, BW_EVENT_SUSPECT, 3);
    about(&w, BW_EVENT_SUSPECT, 1);
    assert_false(w.ops->ready(w.memory, BW_NODE_NONE));
    close_world(&w);
}

static void node_without_a_leader_answers_an_election_of_any_age(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_ELECTION, 1, 3, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_OK)->term, 3);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 6);
    close_world(&w);
}

static void election_of_an_outdated_round_is_not_joined(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_ELECTION, 4, 9, BW_NODE_NONE); /* ranks above us: only its epoch counts */
    assert_int_equal(messages(&w), 0);
    bully(&w, BW_MSG_ELECTION, 1, 7, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_OK)->term, 7);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 10);
    close_world(&w);
}

/* A leader that runs an election because it was asked to keeps its leadership until another member
 * answers. */
static void leader_that_campaigns_steps_down_when_it_is_answered(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 6);
    assert_true(status_of(&w).leading);
    bully(&w, BW_MSG_ELECTION, 1, 6, BW_NODE_NONE);
    assert_int_equal(messages(&w), 1);
    assert_int_equal(sent(&w, BW_MSG_OK)->to, 1);
    bully(&w, BW_MSG_OK, 3, 5, BW_NODE_NONE);
    assert_true(status_of(&w).leading);
    bully(&w, BW_MSG_OK, 3, 6, BW_NODE_NONE);
    assert_int_equal(announced(&w)->reason, BW_LOSS_TAKEN);
    assert_false(status_of(&w).leading);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_OK, 3, 6, BW_NODE_NONE);
    assert_null(announced(&w));
    close_world(&w);
}

static void campaign_command_starts_one_election(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    command(&w, BW_COMMAND_CAMPAIGN, 3); /* not the leader: it stays known */
    assert_int_equal(messages(&w), 2);
    assert_int_equal(status_of(&w).leader, 4);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

static void penalty_without_forgiveness_stays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct world w;
        prepare_bully(&w, &bw_elect_bully);
        w.config.rank = BW_RANK_STABILITY;
        w.config.forgive_ns = i ? BW_SEC : 0;
        w.config.penalty_free = 1;
        assert_int_equal(open(&w), 0);
        struct bw_start begin = {.passive = true, .leader = 4, .durable = {.starts = 6}};
        step(&w, (struct bw_event){.kind = BW_EVENT_START, .start = &begin});
        w.now += 3 * BW_SEC;
        command(&w, BW_COMMAND_CAMPAIGN, 4);
        assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.penalty, i ? 2 : 5);
        close_world(&w);
    }
}

static void suspicion_of_no_node_is_ignored(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    about(&w, BW_EVENT_SUSPECT, BW_NODE_NONE);
    assert_false(acted(&w));
    about(&w, BW_EVENT_HINT, 3);
    assert_false(acted(&w));
    close_world(&w);
    open_bully(&w, &bw_elect_bully, 2);
    about(&w, BW_EVENT_SUSPECT, 2);
    assert_false(acted(&w));
    about(&w, BW_EVENT_HINT, 2);
    assert_false(acted(&w));
    close_world(&w);
}

static void hint_about_the_leader_starts_one_election(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    about(&w, BW_EVENT_HINT, 3);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_HINT, 4);
    assert_int_equal(messages(&w), 2);
    about(&w, BW_EVENT_HINT, 4);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

static void leader_announces_itself_to_members_that_return(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    about(&w, BW_EVENT_TRUST, 2);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_TRUST, 9);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_TRUST, 1);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->to, 1);
    about(&w, BW_EVENT_JOIN, 1); /* known already */
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_JOIN, 5);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->to, 5);
    close_world(&w);
}

static void trust_in_the_leader_renews_it_unless_an_election_runs(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    about(&w, BW_EVENT_TRUST, 4); /* passive: no timer before the first message */
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER);
    bully(&w, BW_MSG_COORDINATOR, 4, 5, 4);
    w.now += BW_SEC;
    bw_time before = w.ops->deadline(w.memory);
    about(&w, BW_EVENT_TRUST, 3);
    assert_true(w.ops->deadline(w.memory) == before);
    about(&w, BW_EVENT_TRUST, 4);
    assert_true(w.ops->deadline(w.memory) == before + BW_SEC);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    about(&w, BW_EVENT_TRUST, 4);
    assert_true(status_of(&w).electing);
    close_world(&w);
}

static void leader_that_leaves_hands_over(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    about(&w, BW_EVENT_LEAVE, 2);
    assert_int_equal(sent(&w, BW_MSG_NOTICE)->to, 4);
    assert_int_equal(announced(&w)->reason, BW_LOSS_SHUT_DOWN);
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER);
    close_world(&w);
}

static void best_answer_of_a_member_that_leaves_is_forgotten(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully_notify, BW_NODE_NONE);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
    about(&w, BW_EVENT_LEAVE, 1);
    about(&w, BW_EVENT_LEAVE, 3);
    time_passes(&w);
    assert_null(sent(&w, BW_MSG_NOTICE));
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void messages_that_carry_our_own_id_are_ignored(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_COORDINATOR, 2, 6, 2);
    assert_false(acted(&w));
    assert_int_equal(status_of(&w).leader, 4);
    close_world(&w);
}

/* Only bully-candidates lets one member appoint another. */
static void announcement_that_names_us_appoints_no_plain_bully(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    bully(&w, BW_MSG_COORDINATOR, 3, 5, 2); /* what we know */
    assert_false(acted(&w));
    bully(&w, BW_MSG_COORDINATOR, 3, 8, 2);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, 9);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_COORDINATOR, 3, 8, 2);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 9);
    assert_false(status_of(&w).leading);
    bully(&w, BW_MSG_COORDINATOR, 3, 9, 2); /* an election runs already */
    assert_int_equal(messages(&w), 0);
    close_world(&w);
    open_bully(&w, &bw_elect_bully_candidates, 4);
    bully(&w, BW_MSG_COORDINATOR, 3, 8, 2);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void old_announcements_are_answered_only_if_it_helps(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_COORDINATOR, 1, 4, 1);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->bully.leader, 4);
    bully(&w, BW_MSG_COORDINATOR, 1, 4, 2); /* it takes us for the leader */
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->bully.leader, 4);
    bully(&w, BW_MSG_COORDINATOR, 1, 4, 3);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

static void repeated_announcement_of_a_lower_leader_is_accepted(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 1);
    bully(&w, BW_MSG_COORDINATOR, 1, 5, 1);
    assert_int_equal(messages(&w), 0);
    assert_int_equal(status_of(&w).leader, 1);
    assert_false(status_of(&w).electing);
    bully(&w, BW_MSG_COORDINATOR, 1, 6, 1); /* of a new epoch: we challenge it */
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 7);
    close_world(&w);
}

static void announcement_by_a_third_member_ends_only_a_running_election(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_COORDINATOR, 1, 5, 4);
    assert_int_equal(w.actions.count, 1); /* ignored, with a trace record */
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_COORDINATOR, 1, 6, 4);
    assert_false(status_of(&w).electing);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_COORDINATOR, 3, 7, 4);
    bully(&w, BW_MSG_COORDINATOR, 3, 7, 4);
    assert_int_equal(w.actions.count, 1);
    close_world(&w);
}

/* The election replaces 4, but another member has heard of it since. */
static void leader_that_was_taken_for_dead_may_be_announced_by_another_member(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    command(&w, BW_COMMAND_CAMPAIGN, 4);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, 4);
    bully(&w, BW_MSG_COORDINATOR, 3, 6, 4);
    assert_int_equal(status_of(&w).leader, 4);
    about(&w, BW_EVENT_HINT, 4);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, BW_NODE_NONE);
    close_world(&w);
}

static void notice_makes_us_lead_unless_it_is_old_or_decided(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_NOTICE, 3, 4, BW_NODE_NONE);
    assert_false(status_of(&w).leading);
    bully(&w, BW_MSG_NOTICE, 3, 5, BW_NODE_NONE);
    assert_true(status_of(&w).leading);
    /* 1, which ranks below us, 3, which gave up, and 4, which may have given up before */
    assert_int_equal(messages(&w), 3);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_NOTICE, 3, 5, BW_NODE_NONE);
    assert_false(status_of(&w).leading);
    bully(&w, BW_MSG_NOTICE, 1, 6, BW_NODE_NONE); /* a lower member gave up */
    assert_int_equal(messages(&w), 1);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void leader_outbids_only_a_newer_epoch(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    bully(&w, BW_MSG_ALIVE, 3, 5, BW_NODE_NONE);
    assert_false(acted(&w));
    bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, 7);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

static void timer_that_fires_early_does_nothing(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    assert_false(acted(&w));
    time_passes(&w);
    assert_int_equal(messages(&w), 3);
    close_world(&w);
}

static void unknown_leader_at_the_start_is_kept(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 9);
    assert_int_equal(status_of(&w).leader, 9);
    close_world(&w);
}

/* ---- bully-notify ---- */

static void initiator_counts_only_answers_to_its_present_round(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully_notify, BW_NODE_NONE);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 3, 5, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 4, 5, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 4, 6, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_NOTICE)->to, 4);
    assert_null(announced(&w));
    close_world(&w);
}

static void leader_of_bully_notify_answers_and_yields_to_an_answer(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully_notify, 2);
    bully(&w, BW_MSG_ELECTION, 1, 6, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_ALIVE)->to, 1);
    assert_false(status_of(&w).electing);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 3, 7, BW_NODE_NONE);
    assert_true(status_of(&w).leading);
    time_passes(&w);
    assert_int_equal(announced(&w)->reason, BW_LOSS_TAKEN);
    assert_int_equal(sent(&w, BW_MSG_NOTICE)->to, 3);
    close_world(&w);
}

/* ---- bully-next-in-line ---- */

static void coordinator_with_list(struct world *w, bw_node from, bw_term term, const bw_node *list,
                                  uint32_t items)
{
    receive(w, (struct bw_message){.kind = BW_MSG_COORDINATOR,
                                   .from = from,
                                   .term = term,
                                   .data = list,
                                   .items = items,
                                   .bully = {.leader = from, .version = 9}});
}

static void nonmembers_in_the_list_of_alternatives_are_skipped(void **state)
{
    (void)state;
    static const bw_node list[] = {9, 3, 1};
    struct world w;
    open_bully(&w, &bw_elect_bully_next, 4);
    coordinator_with_list(&w, 4, 6, list, 3);
    about(&w, BW_EVENT_SUSPECT, 4);
    assert_int_equal(sent(&w, BW_MSG_FAILOVER)->to, 3);
    bully(&w, BW_MSG_OK, 3, 6, BW_NODE_NONE); /* not our round */
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_FAILOVER)->to, 1);
    bully(&w, BW_MSG_OK, 1, 7, BW_NODE_NONE);
    assert_string_equal(status_of(&w).state, "waiting");
    close_world(&w);
}

static void list_of_alternatives_is_bounded(void **state)
{
    (void)state;
    bw_node list[BW_ALTERNATIVES_MAX + 2];
    for (uint32_t i = 0; i < BW_ALTERNATIVES_MAX + 2; i++)
        list[i] = i < BW_ALTERNATIVES_MAX ? 9 : 3;
    struct world w;
    open_bully(&w, &bw_elect_bully_next, 4);
    coordinator_with_list(&w, 4, 6, list, BW_ALTERNATIVES_MAX + 2);
    about(&w, BW_EVENT_SUSPECT, 4); /* 3 is beyond the end: plain bully decides */
    assert_null(sent(&w, BW_MSG_FAILOVER));
    assert_non_null(sent(&w, BW_MSG_ELECTION));
    close_world(&w);
    struct bw_member many[BW_ALTERNATIVES_MAX + 3];
    for (uint32_t i = 0; i < BW_ALTERNATIVES_MAX + 3; i++)
        many[i] = (struct bw_member){.id = i + 1};
    prepare_bully(&w, &bw_elect_bully_next);
    w.config.members = many;
    w.config.count = w.config.cap = BW_ALTERNATIVES_MAX + 3;
    start_with(&w, BW_NODE_NONE);
    bully(&w, BW_MSG_NOTICE, 3, 6, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->items, BW_ALTERNATIVES_MAX);
    close_world(&w);
}

static void leader_lists_the_best_members_that_are_there(void **state)
{
    (void)state;
    static const bw_node alternatives[] = {3, 1};
    struct world w;
    prepare_bully(&w, &bw_elect_bully_next);
    w.members[0].priority = 7;
    start_with(&w, 2);
    about(&w, BW_EVENT_JOIN, 5);
    const bw_node *list = sent(&w, BW_MSG_COORDINATOR)->data;
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->items, 4);
    assert_true(list[0] == 1 && list[1] == 5 && list[2] == 4 && list[3] == 3);
    close_world(&w);
    prepare_bully(&w, &bw_elect_bully_next);
    w.config.alternatives = alternatives;
    w.config.alternatives_count = 2;
    start_with(&w, 2);
    about(&w, BW_EVENT_LEAVE, 3);
    about(&w, BW_EVENT_TRUST, 4);
    list = sent(&w, BW_MSG_COORDINATOR)->data;
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->items, 1);
    assert_int_equal(list[0], 1);
    close_world(&w);
}

/* A member that is not in the list announces itself: plain bully decides. */
static void announcement_outside_the_list_is_challenged(void **state)
{
    (void)state;
    static const bw_node list[] = {3};
    struct world w;
    open_bully(&w, &bw_elect_bully_next, 4);
    coordinator_with_list(&w, 4, 6, list, 1);
    bully(&w, BW_MSG_COORDINATOR, 1, 7, 1);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 8);
    assert_null(sent(&w, BW_MSG_FAILOVER));
    close_world(&w);
}

static void failover(struct world *w, bw_node from, bw_term term, bw_node failed, uint64_t version)
{
    receive(w, (struct bw_message){.kind = BW_MSG_FAILOVER,
                                   .from = from,
                                   .term = term,
                                   .bully = {.leader = failed, .version = version}});
}

static void failover_of_an_old_round_or_list_leads_to_a_plain_election(void **state)
{
    (void)state;
    static const bw_node list[] = {2, 3};
    struct world w;
    for (unsigned i = 0; i < 2; i++) {
        open_bully(&w, &bw_elect_bully_next, 4);
        coordinator_with_list(&w, 4, 6, list, 2);
        bully(&w, BW_MSG_ELECTION, 3, 9, BW_NODE_NONE); /* 3 knows epoch 9 */
        failover(&w, 1, i ? 9 : 8, 4, i ? 8 : 9);
        assert_int_equal(sent(&w, BW_MSG_OK)->to, 1);
        assert_non_null(sent(&w, BW_MSG_ELECTION));
        failover(&w, 1, i ? 9 : 8, 4, 8); /* the election runs already */
        assert_int_equal(messages(&w), 1);
        close_world(&w);
    }
    open_bully(&w, &bw_elect_bully_next, 4);
    coordinator_with_list(&w, 4, 6, list, 2);
    failover(&w, 1, 7, 4, 9);
    assert_true(status_of(&w).leading);
    assert_int_equal(messages(&w), 3); /* OK to 1, announcements to 1 and 3 */
    failover(&w, 1, 8, 2, 1);          /* 1 takes us for dead, with an old list */
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, 8);
    assert_true(status_of(&w).leading);
    failover(&w, 1, 9, 2, 99); /* with our list: we are alive, and lead on */
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, 9);
    assert_int_equal(messages(&w), 4);
    close_world(&w);
}

static void leader_that_resigned_refuses_a_failover(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully_next, 2);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    failover(&w, 1, 8, 4, 9);
    assert_int_equal(messages(&w), 0);
    assert_false(status_of(&w).leading);
    close_world(&w);
}

/* ---- bully-candidates ---- */

/* Members 3 and 4 are candidates, and 2 as well if it is not ordinary. */
static void open_candidates(struct world *w, bool ordinary, bw_node leader)
{
    prepare_bully(w, &bw_elect_bully_candidates);
    w->members[0].ordinary = 1;
    w->members[1].ordinary = ordinary;
    start_with(w, leader);
}

static void ordinary_member_or_one_that_resigned_does_not_answer_a_poll(void **state)
{
    (void)state;
    struct world w;
    open_candidates(&w, true, BW_NODE_NONE);
    bully(&w, BW_MSG_POLL, 1, 6, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
    open_candidates(&w, false, 2);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_POLL, 1, 9, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

static void candidate_that_polls_answers_another_poll_and_goes_on(void **state)
{
    (void)state;
    struct world w;
    open_candidates(&w, false, 4);
    about(&w, BW_EVENT_SUSPECT, 4);
    assert_string_equal(status_of(&w).state, "delaying");
    time_passes(&w);
    assert_string_equal(status_of(&w).state, "polling");
    bully(&w, BW_MSG_POLL, 1, 6, 4);
    assert_int_equal(sent(&w, BW_MSG_ANSWER)->to, 1);
    assert_string_equal(status_of(&w).state, "polling");
    bully(&w, BW_MSG_ANSWER, 3, 5, BW_NODE_NONE); /* not our round */
    assert_string_equal(status_of(&w).state, "polling");
    bully(&w, BW_MSG_ANSWER, 3, 6, BW_NODE_NONE);
    assert_int_equal(status_of(&w).leader, 3);
    close_world(&w);
    open_candidates(&w, false, 2);
    bully(&w, BW_MSG_POLL, 1, 6, BW_NODE_NONE);
    assert_false(status_of(&w).electing);
    close_world(&w);
}

static void announcement_by_a_third_member_ends_a_delay(void **state)
{
    (void)state;
    struct world w;
    open_candidates(&w, false, 4);
    about(&w, BW_EVENT_HINT, 4);
    assert_string_equal(status_of(&w).state, "delaying");
    bully(&w, BW_MSG_COORDINATOR, 3, 5, 4); /* known already, but new during a delay */
    assert_string_equal(status_of(&w).state, "normal");
    close_world(&w);
}

/* The successor is silent for a moment. We gave up leadership to it and do not take it back. */
static void candidate_that_resigned_does_not_appoint_itself(void **state)
{
    (void)state;
    struct world w;
    open_candidates(&w, false, 2);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_COORDINATOR, 4, 6, 4);
    about(&w, BW_EVENT_HINT, 4);
    time_passes(&w);
    assert_non_null(sent(&w, BW_MSG_POLL));
    time_passes(&w); /* no candidate answers */
    assert_false(status_of(&w).leading);
    assert_non_null(sent(&w, BW_MSG_ELECTION));
    close_world(&w);
}

static void ordinary_members_elect_one_of_them_without_candidates(void **state)
{
    (void)state;
    struct world w;
    open_candidates(&w, true, 4);
    about(&w, BW_EVENT_CONFIRMED_DEAD, 3);
    about(&w, BW_EVENT_SUSPECT, 4); /* the highest ordinary member does not wait */
    assert_true(status_of(&w).leading);
    close_world(&w);
    prepare_bully(&w, &bw_elect_bully_candidates);
    for (unsigned i = 0; i < 3; i++)
        w.members[i].ordinary = 1;
    start_with(&w, 4);
    about(&w, BW_EVENT_SUSPECT, 4); /* 3 waits less than we do */
    assert_string_equal(status_of(&w).state, "delaying");
    bully(&w, BW_MSG_ELECTION, 1, 6, 4);
    assert_int_equal(sent(&w, BW_MSG_OK)->to, 1);
    assert_string_equal(status_of(&w).state, "electing");
    time_passes(&w); /* 3 does not answer */
    assert_true(status_of(&w).leading);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bully_needs_memory_and_takes_its_capacity_from_the_members),
        cmocka_unit_test(only_the_next_in_rank_is_ready_for_a_transfer),
        cmocka_unit_test(node_without_a_leader_answers_an_election_of_any_age),
        cmocka_unit_test(election_of_an_outdated_round_is_not_joined),
        cmocka_unit_test(leader_that_campaigns_steps_down_when_it_is_answered),
        cmocka_unit_test(campaign_command_starts_one_election),
        cmocka_unit_test(penalty_without_forgiveness_stays),
        cmocka_unit_test(suspicion_of_no_node_is_ignored),
        cmocka_unit_test(hint_about_the_leader_starts_one_election),
        cmocka_unit_test(leader_announces_itself_to_members_that_return),
        cmocka_unit_test(trust_in_the_leader_renews_it_unless_an_election_runs),
        cmocka_unit_test(leader_that_leaves_hands_over),
        cmocka_unit_test(best_answer_of_a_member_that_leaves_is_forgotten),
        cmocka_unit_test(messages_that_carry_our_own_id_are_ignored),
        cmocka_unit_test(announcement_that_names_us_appoints_no_plain_bully),
        cmocka_unit_test(old_announcements_are_answered_only_if_it_helps),
        cmocka_unit_test(repeated_announcement_of_a_lower_leader_is_accepted),
        cmocka_unit_test(announcement_by_a_third_member_ends_only_a_running_election),
        cmocka_unit_test(leader_that_was_taken_for_dead_may_be_announced_by_another_member),
        cmocka_unit_test(notice_makes_us_lead_unless_it_is_old_or_decided),
        cmocka_unit_test(leader_outbids_only_a_newer_epoch),
        cmocka_unit_test(timer_that_fires_early_does_nothing),
        cmocka_unit_test(unknown_leader_at_the_start_is_kept),
        cmocka_unit_test(initiator_counts_only_answers_to_its_present_round),
        cmocka_unit_test(leader_of_bully_notify_answers_and_yields_to_an_answer),
        cmocka_unit_test(nonmembers_in_the_list_of_alternatives_are_skipped),
        cmocka_unit_test(list_of_alternatives_is_bounded),
        cmocka_unit_test(leader_lists_the_best_members_that_are_there),
        cmocka_unit_test(announcement_outside_the_list_is_challenged),
        cmocka_unit_test(failover_of_an_old_round_or_list_leads_to_a_plain_election),
        cmocka_unit_test(leader_that_resigned_refuses_a_failover),
        cmocka_unit_test(ordinary_member_or_one_that_resigned_does_not_answer_a_poll),
        cmocka_unit_test(candidate_that_polls_answers_another_poll_and_goes_on),
        cmocka_unit_test(announcement_by_a_third_member_ends_a_delay),
        cmocka_unit_test(candidate_that_resigned_does_not_appoint_itself),
        cmocka_unit_test(ordinary_members_elect_one_of_them_without_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
