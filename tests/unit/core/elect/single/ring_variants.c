/* The election messages of the four rings, one instance at a time: late, repeated or forged ones,
 * and those of a node that resigned. */
#include "one_ring.h"

static void rings_ignore_the_messages_of_each_other(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        open_ring(&w, rings[i]);
        command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
        if (rings[i] == &bw_elect_ring_hirschberg_sinclair)
            election(&w, 1, 2, 2, 4);
        else
            hs(&w, BW_MSG_HS_FROM, 1, (struct bw_hs_part){.value = 2, .max = 1}, 0);
        assert_false(acted(&w));
        close_world(&w);
    }
}

static void own_message_counts_once_and_only_if_it_was_sent(void **state)
{
    (void)state;
    static const bw_node list[] = {1, 2};
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        open_ring(&w, rings[i]);
        receive(&w, (struct bw_message){.kind = BW_MSG_RING_ELECTION,
                                        .from = 1,
                                        .term = 3,
                                        .data = list,
                                        .items = i ? 0 : 2,
                                        .ring = {.initiator = 2, .best = 2, .hops = 4}});
        assert_int_equal(messages(&w), 0);
        assert_false(status_of(&w).leading);
        command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
        w.now = w.ops->deadline(w.memory);
        step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT}); /* round 4 */
        for (unsigned k = 0; k < 2; k++) {
            receive(&w, (struct bw_message){.kind = BW_MSG_RING_ELECTION,
                                            .from = 1,
                                            .term = 4,
                                            .data = list,
                                            .items = i ? 0 : 2,
                                            .ring = {.initiator = 2, .best = 2, .hops = 4}});
            assert_int_equal(messages(&w), k == 0);
        }
        assert_true(status_of(&w).leading);
        close_world(&w);
    }
}

static void message_of_a_dead_initiator_ends_after_one_lap(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        open_ring(&w, rings[i]);
        election(&w, 1, 3, 3, 3);
        assert_non_null(sent(&w, BW_MSG_RING_ELECTION));
        election(&w, 1, 3, 3, 4);
        assert_int_equal(messages(&w), 0);
        close_world(&w);
    }
}

static void list_that_holds_us_or_too_many_members_is_dropped(void **state)
{
    (void)state;
    static const bw_node list[] = {1, 2, 3, 4, 1, 3};
    struct world w;
    open_ring(&w, &bw_elect_ring_list);
    election_with_list(&w, 1, 3, list, 1);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->items, 2);
    election_with_list(&w, 1, 3, list, 2); /* we are in it: its initiator is dead */
    assert_int_equal(messages(&w), 0);
    election_with_list(&w, 1, 3, list + 2, 2);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->items, 3);
    election_with_list(&w, 1, 3, (const bw_node[]){1, 3, 4, 1, 3}, CAP);
    assert_int_equal(messages(&w), 0); /* no space for our own id */
    w.now = w.ops->deadline(w.memory);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT}); /* round 2 is ours */
    election_with_list(&w, 2, 2, list, CAP + 1);
    assert_int_equal(messages(&w), 0);
    election_with_list(&w, 2, 2, list, CAP);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->ring.best, 4);
    close_world(&w);
}

/* All members have resigned: leadership goes to the next in turn. */
static void hands_over_to_the_next_in_turn(const struct world *w)
{
    const struct bw_message *msg = sent(w, BW_MSG_RING_COORDINATOR);
    assert_int_equal(msg->to, 1);
    assert_int_equal(msg->ring.best, 1);
    assert_true(msg->flags & BW_FLAG_TRANSFER);
    assert_false(status_of(w).leading);
}

/* Chang-Roberts: it sent no id of its own in this round. */
static void withdrawn_node_does_not_win_with_a_forged_id(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_chang_roberts);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    election(&w, 1, 2, 2, 4);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->ring.best, BW_NODE_NONE);
    election(&w, 2, 2, 2, 4);
    assert_false(acted(&w));
    election(&w, 2, 2, BW_NODE_NONE, 4); /* no other candidate */
    hands_over_to_the_next_in_turn(&w);
    close_world(&w);
}

static void open_sinclair(struct world *w)
{
    open_ring(w, &bw_elect_ring_hirschberg_sinclair);
    command(w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(messages(w), 2);
}

static void candidate_counts_only_answers_to_its_present_reach(void **state)
{
    (void)state;
    struct world w;
    const struct bw_hs_part near = {.value = 2, .max = 1}, far = {.value = 2, .max = 2};
    open_sinclair(&w);
    hs(&w, BW_MSG_HS_OK, 1, far, 0); /* of no phase of ours */
    hs(&w, BW_MSG_HS_OK, 1, far, BW_FLAG_LEFT);
    assert_int_equal(messages(&w), 0);
    hs(&w, BW_MSG_HS_OK, 1, near, 0);
    hs(&w, BW_MSG_HS_OK, 1, near, 0);
    assert_int_equal(messages(&w), 0);
    hs(&w, BW_MSG_HS_OK, 1, near, BW_FLAG_LEFT);
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.max, 2);
    hs(&w, BW_MSG_HS_FROM, 1, far, 0); /* our own message has returned */
    assert_true(status_of(&w).leading);
    hs(&w, BW_MSG_HS_NO, 1, far, 0);
    assert_false(acted(&w));
    hs(&w, BW_MSG_HS_OK, 1, far, 0);
    hs(&w, BW_MSG_HS_OK, 1, far, BW_FLAG_LEFT);
    assert_false(acted(&w));
    hs(&w, BW_MSG_HS_FROM, 1, far, 0);
    assert_false(acted(&w));
    close_world(&w);
}

static void own_message_does_not_win_after_a_refusal_or_a_resignation(void **state)
{
    (void)state;
    struct world w;
    const struct bw_hs_part own = {.value = 2, .max = 1}, wake = {.value = 2};
    open_sinclair(&w);
    hs(&w, BW_MSG_HS_FROM, 1, wake, 0); /* we woke no one */
    assert_false(acted(&w));
    hs(&w, BW_MSG_HS_NO, 1, own, 0);
    hs(&w, BW_MSG_HS_FROM, 1, own, 0);
    assert_false(status_of(&w).leading);
    hs(&w, BW_MSG_HS_OK, 1, own, 0);
    hs(&w, BW_MSG_HS_OK, 1, own, BW_FLAG_LEFT);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
    open_sinclair(&w);
    hs(&w, BW_MSG_HS_FROM, 1, own, 0);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.max, 0);
    hs(&w, BW_MSG_HS_FROM, 2, own, 0);
    assert_false(status_of(&w).leading);
    hs(&w, BW_MSG_HS_FROM, 2, wake, 0); /* no other candidate */
    hands_over_to_the_next_in_turn(&w);
    time_passes(&w); /* the successor is silent: this node is a candidate again */
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.max, 1);
    close_world(&w);
}

static void questions_and_answers_without_an_owner_end_after_one_lap(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_hirschberg_sinclair);
    struct bw_hs_part part = {.value = 3, .num = 2, .max = 8};
    hs(&w, BW_MSG_HS_FROM, 1, part, 0);
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.num, 3);
    hs(&w, BW_MSG_HS_OK, 1, part, 0);
    assert_int_equal(sent(&w, BW_MSG_HS_OK)->hs.num, 3);
    part.num = 3;
    hs(&w, BW_MSG_HS_FROM, 1, part, 0);
    assert_int_equal(messages(&w), 0);
    hs(&w, BW_MSG_HS_OK, 1, part, 0);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

static void lonely_node_that_resigns_leads_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        open_ring(&w, rings[i]);
        about(&w, BW_EVENT_SUSPECT, 1);
        about(&w, BW_EVENT_SUSPECT, 3);
        about(&w, BW_EVENT_SUSPECT, 4);
        command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
        assert_true(status_of(&w).leading);
        command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
        assert_int_equal(announced(&w)->leader, 2);
        assert_int_equal(status_of(&w).term, 2);
        close_world(&w);
    }
}

/* The transport owns the list of the message that failed. */
static void list_of_a_message_that_is_sent_again_is_copied(void **state)
{
    (void)state;
    bw_node list[] = {2, 1};
    struct world w;
    open_ring(&w, &bw_elect_ring_list);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    struct bw_message msg = undelivered(BW_MSG_RING_ELECTION, 1, 3, 2);
    msg.data = list;
    msg.items = 2;
    send_failed(&w, msg);
    list[0] = 9;
    const bw_node *again = sent(&w, BW_MSG_RING_ELECTION)->data;
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->items, 2);
    assert_int_equal(again[0], 2);
    close_world(&w);
}

/* Chang-Roberts */
static void withdrawn_node_passes_ids_on_without_one_of_its_own(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_chang_roberts);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    election(&w, 1, 2, 2, 4);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    election(&w, 3, 1, 1, 1); /* a newer round */
    assert_int_equal(messages(&w), 1);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->ring.best, 1);
    close_world(&w);
}

static void wake_up_makes_a_node_a_candidate_and_is_not_refused(void **state)
{
    (void)state;
    struct world w;
    const struct bw_hs_part wake = {.value = 1}, lower = {.value = 1, .max = 1};
    open_ring(&w, &bw_elect_ring_hirschberg_sinclair);
    hs(&w, BW_MSG_HS_FROM, 1, wake, 0);
    assert_int_equal(messages(&w), 2); /* our own questions to both sides */
    assert_null(sent(&w, BW_MSG_HS_NO));
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.value, 2);
    hs(&w, BW_MSG_HS_FROM, 1, wake, 0);
    assert_int_equal(messages(&w), 0);
    hs(&w, BW_MSG_HS_FROM, 1, lower, 0);
    assert_int_equal(sent(&w, BW_MSG_HS_NO)->hs.value, 1);
    close_world(&w);
    open_ring(&w, &bw_elect_ring_hirschberg_sinclair);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    hs(&w, BW_MSG_HS_FROM, 1, (struct bw_hs_part){.value = 2, .max = 1}, 0);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    hs(&w, BW_MSG_HS_FROM, 2, wake, 0); /* withdrawn: passes it on */
    assert_int_equal(messages(&w), 1);
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.value, 1);
    assert_int_equal(sent(&w, BW_MSG_HS_FROM)->hs.num, 1);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_ignore_the_messages_of_each_other),
        cmocka_unit_test(own_message_counts_once_and_only_if_it_was_sent),
        cmocka_unit_test(message_of_a_dead_initiator_ends_after_one_lap),
        cmocka_unit_test(list_that_holds_us_or_too_many_members_is_dropped),
        cmocka_unit_test(withdrawn_node_does_not_win_with_a_forged_id),
        cmocka_unit_test(candidate_counts_only_answers_to_its_present_reach),
        cmocka_unit_test(own_message_does_not_win_after_a_refusal_or_a_resignation),
        cmocka_unit_test(questions_and_answers_without_an_owner_end_after_one_lap),
        cmocka_unit_test(lonely_node_that_resigns_leads_again),
        cmocka_unit_test(list_of_a_message_that_is_sent_again_is_copied),
        cmocka_unit_test(withdrawn_node_passes_ids_on_without_one_of_its_own),
        cmocka_unit_test(wake_up_makes_a_node_a_candidate_and_is_not_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
