/* The roster: the newest row of each member counts, whatever the order of arrival, and rows
 * spread. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/peer/roster.h"

#include <stdlib.h>

#define CAP 64u

static struct bw_peer_item memory[8][CAP];

static void start(struct bw_peer_roster *roster, uint32_t which)
{
    bw_peer_roster_init(roster, memory[which], CAP);
}

static struct bw_peer_row row(bw_node id, uint32_t incarnation)
{
    struct bw_peer_row made = {.id = id, .incarnation = incarnation, .directory = id * 1000u};
    made.name[0] = 'n';
    return made;
}

static void row_with_highest_incarnation_wins(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_row old = row(3, 1), young = row(3, 2);
    start(&roster, 0);
    assert_int_equal(bw_peer_roster_take(&roster, &old, false), BW_PEER_ROSTER_CAME);
    assert_int_equal(bw_peer_roster_take(&roster, &young, false), BW_PEER_ROSTER_RENEWED);
    assert_int_equal(bw_peer_roster_take(&roster, &old, false), BW_PEER_ROSTER_SAME);
    assert_int_equal(bw_peer_roster_find(&roster, 3)->incarnation, 2);
}

static void member_that_left_returns_only_after_a_restart(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_row here = row(3, 1), gone = row(3, 1), again = row(3, 2);
    gone.left = true;
    start(&roster, 0);
    bw_peer_roster_take(&roster, &here, false);
    assert_int_equal(bw_peer_roster_take(&roster, &gone, false), BW_PEER_ROSTER_LEFT);
    assert_int_equal(bw_peer_roster_take(&roster, &here, false), BW_PEER_ROSTER_SAME);
    assert_false(bw_peer_roster_has(&roster, 3));
    assert_int_equal(bw_peer_roster_members(&roster), 0);
    assert_int_equal(bw_peer_roster_take(&roster, &again, false), BW_PEER_ROSTER_CAME);
    assert_true(bw_peer_roster_has(&roster, 3));
}

static void node_with_new_directory_is_rejected_unless_trusted_or_left(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_row known = row(3, 5), wiped = row(3, 6), gone = row(3, 5);
    wiped.directory = 77;
    gone.left = true;
    start(&roster, 0);
    bw_peer_roster_take(&roster, &known, false);
    assert_int_equal(bw_peer_roster_take(&roster, &wiped, false), BW_PEER_ROSTER_FORGOT);
    assert_int_equal(bw_peer_roster_find(&roster, 3)->directory, 3000);
    assert_int_equal(bw_peer_roster_take(&roster, &wiped, true), BW_PEER_ROSTER_RENEWED);
    start(&roster, 1);
    bw_peer_roster_take(&roster, &known, false);
    bw_peer_roster_take(&roster, &gone, false);
    assert_int_equal(bw_peer_roster_take(&roster, &wiped, false), BW_PEER_ROSTER_CAME);
}

static void full_roster_reuses_the_row_of_a_member_that_left(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    start(&roster, 0);
    for (bw_node id = 1; id <= CAP; id++) {
        struct bw_peer_row made = row(id, 1);
        assert_int_equal(bw_peer_roster_take(&roster, &made, false), BW_PEER_ROSTER_CAME);
    }
    struct bw_peer_row more = row(CAP + 1, 1), gone = row(5, 1);
    gone.left = true;
    assert_int_equal(bw_peer_roster_take(&roster, &more, false), BW_PEER_ROSTER_FULL);
    bw_peer_roster_take(&roster, &gone, false);
    assert_int_equal(bw_peer_roster_take(&roster, &more, false), BW_PEER_ROSTER_CAME);
    assert_null(bw_peer_roster_find(&roster, 5));
    assert_int_equal(bw_peer_roster_members(&roster), CAP);
}

static void rosters_converge_for_any_order_of_rows(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 11);
    for (int run = 0; run < 300; run++) {
        struct bw_peer_row words[40];
        struct bw_peer_roster one, other;
        start(&one, 0);
        start(&other, 1);
        for (int i = 0; i < 40; i++) {
            words[i] = row((bw_node)(1 + bw_rng_below(&rng, 12)), (uint32_t)bw_rng_below(&rng, 4));
            words[i].left = bw_rng_chance(&rng, 0.2);
        }
        for (int i = 0; i < 40; i++)
            bw_peer_roster_take(&one, &words[i], false);
        for (int i = 40; i-- > 0;)
            bw_peer_roster_take(&other, &words[i], false);
        assert_int_equal(bw_peer_roster_digest(&one), bw_peer_roster_digest(&other));
        assert_int_equal(bw_peer_roster_members(&one), bw_peer_roster_members(&other));
    }
}

static void changed_row_is_sent_a_bounded_number_of_times(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_rows rows;
    uint32_t sent = 0, frames = 0;
    start(&roster, 0);
    for (bw_node id = 1; id <= 50; id++) {
        struct bw_peer_row made = row(id, 1);
        bw_peer_roster_take(&roster, &made, false);
    }
    while (bw_peer_roster_changes(&roster, &rows) > 0 && frames < 1000) {
        sent += rows.count;
        frames++;
    }
    assert_int_equal(sent, 50 * 6);
    assert_true(frames < 30);
    struct bw_peer_row young = row(7, 2);
    bw_peer_roster_take(&roster, &young, false);
    assert_int_equal(bw_peer_roster_changes(&roster, &rows), 1);
    assert_int_equal(rows.at[0].id, 7);
}

static void pages_contain_every_row_once_and_fit_a_frame(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_frame frame = {.kind = BW_PEER_ROSTER};
    unsigned char bytes[BW_PEER_FRAME_MAX];
    uint32_t at = 0, rows = 0;
    start(&roster, 0);
    for (bw_node id = 1; id <= CAP; id++) {
        struct bw_peer_row made = row(id, 1);
        memset(made.name, 'x', id % BW_PEER_NAME_MAX);
        memset(made.value, 'y', 2 * id % BW_PEER_VALUE_MAX);
        made.address.family = 6;
        bw_peer_roster_take(&roster, &made, false);
    }
    while (bw_peer_roster_page(&roster, &at, &frame.rows) > 0) {
        rows += frame.rows.count;
        assert_true(bw_peer_frame_encode(&frame, bytes, sizeof bytes) > 0);
    }
    assert_int_equal(rows, CAP);
}

/* Many nodes join at once. Each knows itself and five founders, and one founder knows it. A node
 * sends changed rows to one member at a time. */
#define CROWD 200u

struct crowd {
    struct bw_peer_item memory[CROWD][CROWD];
    struct bw_peer_roster at[CROWD];
    uint32_t sent[CROWD];
};

/* One round: every node with changed rows sends them to one member it knows, which receives them at
 * once. Returns whether any node sent rows. */
static bool gossip_round(struct crowd *crowd, struct bw_rng *rng)
{
    struct bw_peer_rows rows;
    bool any = false;
    for (uint32_t i = 0; i < CROWD; i++) {
        struct bw_peer_roster *own = &crowd->at[i];
        bw_node to = own->at[bw_rng_below(rng, own->count)].row.id;
        if (to == i + 1 || bw_peer_roster_changes(own, &rows) == 0)
            continue;
        any = true;
        crowd->sent[i]++;
        for (uint32_t r = 0; r < rows.count; r++)
            bw_peer_roster_take(&crowd->at[to - 1], &rows.at[r], false);
    }
    return any;
}

static uint32_t incomplete(const struct crowd *crowd)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CROWD; i++)
        count += crowd->at[i].count != CROWD;
    return count;
}

static void send_all(const struct bw_peer_roster *from, struct bw_peer_roster *to)
{
    struct bw_peer_rows rows;
    for (uint32_t at = 0; bw_peer_roster_page(from, &at, &rows) > 0;)
        for (uint32_t r = 0; r < rows.count; r++)
            bw_peer_roster_take(to, &rows.at[r], false);
}

/* Every node compares digests with a random node; if they differ, both send all rows. */
static void compare_round(struct crowd *crowd, struct bw_rng *rng)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        struct bw_peer_roster *own = &crowd->at[i], *other = &crowd->at[bw_rng_below(rng, CROWD)];
        if (bw_peer_roster_digest(own) == bw_peer_roster_digest(other))
            continue;
        send_all(own, other);
        send_all(other, own);
    }
}

static void gossip_of_200_joins_reaches_all_and_stops(void **state)
{
    (void)state;
    struct crowd *crowd = calloc(1, sizeof *crowd);
    struct bw_rng rng;
    uint32_t rounds = 0, most = 0;
    bw_rng_init(&rng, 7);
    for (uint32_t i = 0; i < CROWD; i++) {
        struct bw_peer_row own = row(i + 1, 1);
        bw_peer_roster_init(&crowd->at[i], crowd->memory[i], CROWD);
        bw_peer_roster_take(&crowd->at[i], &own, false);
        for (bw_node id = 1; id <= 5; id++) {
            struct bw_peer_row founder = row(id, 1);
            bw_peer_roster_take(&crowd->at[i], &founder, false);
        }
        bw_peer_roster_take(&crowd->at[i % 5], &own, false); /* its JOIN */
    }
    while (gossip_round(crowd, &rng))
        assert_true(++rounds < 1000);
    assert_true(incomplete(crowd) <= CROWD / 10); /* the digests find the rows that gossip missed */
    for (rounds = 0; incomplete(crowd) > 0; rounds++)
        compare_round(crowd, &rng);
    assert_true(rounds <= 8);
    for (uint32_t i = 0; i < CROWD; i++)
        most = crowd->sent[i] > most ? crowd->sent[i] : most;
    assert_true(most <= 9 * CROWD / 20); /* each row 9 times, more than 20 rows in a frame */
    while (gossip_round(crowd, &rng))
        ;
    assert_false(gossip_round(crowd, &rng));
    free(crowd);
}

static void unknown_member_is_not_here(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    start(&roster, 0);
    assert_false(bw_peer_roster_has(&roster, 3));
    assert_null(bw_peer_roster_find(&roster, 3));
}

/* Of two members that left, the one whose row was sent more often makes space. */
static void full_roster_drops_the_departure_that_is_known_best(void **state)
{
    (void)state;
    for (bw_node known = 5; known <= 6; known++) {
        struct bw_peer_roster roster;
        start(&roster, 0);
        for (bw_node id = 1; id <= CAP; id++) {
            struct bw_peer_row made = row(id, 1);
            made.left = id == 5 || id == 6;
            bw_peer_roster_take(&roster, &made, false);
        }
        for (uint32_t i = 0; i < roster.count; i++)
            roster.at[i].sent = roster.at[i].row.id == known ? 3 : 1;
        struct bw_peer_row more = row(CAP + 1, 1), gone = row(CAP + 2, 1);
        gone.left = true;
        assert_int_equal(bw_peer_roster_take(&roster, &gone, false), BW_PEER_ROSTER_SAME);
        assert_null(bw_peer_roster_find(&roster, CAP + 2)); /* it takes no space of a member */
        assert_int_equal(bw_peer_roster_take(&roster, &more, false), BW_PEER_ROSTER_CAME);
        assert_null(bw_peer_roster_find(&roster, known));
        assert_non_null(bw_peer_roster_find(&roster, 11 - known));
    }
}

/* Directory 0 stands in rows that were read from a file. */
static void row_from_a_file_is_never_a_lost_directory(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_row file = row(3, 1), own = row(3, 2), again = row(3, 3);
    file.directory = again.directory = 0;
    start(&roster, 0);
    bw_peer_roster_take(&roster, &file, false);
    assert_int_equal(bw_peer_roster_take(&roster, &own, false), BW_PEER_ROSTER_RENEWED);
    assert_int_equal(bw_peer_roster_take(&roster, &again, false), BW_PEER_ROSTER_RENEWED);
}

static void older_row_from_another_directory_is_rejected_even_if_trusted_or_left(void **state)
{
    (void)state;
    struct bw_peer_roster roster;
    struct bw_peer_row known = row(3, 5), wiped = row(3, 5), gone = row(3, 5);
    wiped.directory = 77;
    gone.left = true;
    start(&roster, 0);
    bw_peer_roster_take(&roster, &known, false);
    assert_int_equal(bw_peer_roster_take(&roster, &wiped, true), BW_PEER_ROSTER_FORGOT);
    bw_peer_roster_take(&roster, &gone, false);
    assert_int_equal(bw_peer_roster_take(&roster, &wiped, false), BW_PEER_ROSTER_FORGOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_with_highest_incarnation_wins),
        cmocka_unit_test(member_that_left_returns_only_after_a_restart),
        cmocka_unit_test(node_with_new_directory_is_rejected_unless_trusted_or_left),
        cmocka_unit_test(full_roster_reuses_the_row_of_a_member_that_left),
        cmocka_unit_test(rosters_converge_for_any_order_of_rows),
        cmocka_unit_test(changed_row_is_sent_a_bounded_number_of_times),
        cmocka_unit_test(gossip_of_200_joins_reaches_all_and_stops),
        cmocka_unit_test(pages_contain_every_row_once_and_fit_a_frame),
        cmocka_unit_test(unknown_member_is_not_here),
        cmocka_unit_test(full_roster_drops_the_departure_that_is_known_best),
        cmocka_unit_test(row_from_a_file_is_never_a_lost_directory),
        cmocka_unit_test(older_row_from_another_directory_is_rejected_even_if_trusted_or_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
