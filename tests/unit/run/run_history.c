/* The history of leaderships, and the fields of a request for a page. */
#include "unit/unit.h"

#include "dashboard/page.h"
#include "run/status/history.h"

#include <stdio.h>

static struct bw_store_record held(const char *holder, bw_token token)
{
    struct bw_store_record record = {.held = true, .token = token, .request = token, .ttl_ns = 10};
    snprintf(record.holder, sizeof record.holder, "%s", holder);
    return record;
}

static struct bw_store_record unheld(const char *holder, bw_token token, bool clean)
{
    struct bw_store_record record = held(holder, token);
    record.held = false;
    record.clean = clean;
    return record;
}

static void take(struct bw_history *history, struct bw_store_record record, bw_time now)
{
    bw_history_record(history, &record, now);
}

static void leadership_that_lasts_is_one_row(void **state)
{
    struct bw_history history = {.count = 0};
    (void)state;
    for (bw_time now = 1; now < 9; now++)
        take(&history, held("a", 1), now);
    assert_int_equal(history.count, 1);
    assert_string_equal(history.at[0].holder, "a");
    assert_int_equal(history.at[0].from, 1);
    assert_true(history.at[0].to == BW_TIME_NEVER && history.at[0].is_first);
}

static void end_has_the_reason_that_the_record_shows(void **state)
{
    struct bw_store_record record;
    struct bw_history history = {.count = 0};
    (void)state;
    take(&history, held("a", 1), 1);
    take(&history, unheld("a", 1, true), 2);
    assert_string_equal(history.at[0].why, "released: its work is confirmed dead");
    take(&history, held("b", 2), 3);
    assert_false(history.at[1].is_first);
    take(&history, unheld("b", 2, false), 4);
    assert_non_null(strstr(history.at[1].why, "not released"));
    take(&history, held("c", 3), 5);
    record = held("d", 4);
    snprintf(record.unconfirmed, sizeof record.unconfirmed, "x\t\nc\tcgroup:/c\n");
    take(&history, record, 6);
    assert_non_null(strstr(history.at[2].why, "not released"));
    assert_int_equal(history.at[2].to, 6);
    record = unheld("d", 4, true);
    record.note = (struct bw_note){.kind = BW_NOTE_RESIGN, .from = "ann", .token = 4};
    take(&history, record, 7);
    assert_string_equal(history.at[3].why, "resigned, asked by ann");
    take(&history, held("e", 5), 8);
    take(&history, held("f", 6), 9); /* nothing tells how it ended */
    assert_string_equal(history.at[4].why, "");
}

static void own_reason_is_kept(void **state)
{
    struct bw_history history = {.count = 0};
    (void)state;
    bw_history_step_down(&history, "me", "unhealthy"); /* nothing to end */
    take(&history, held("me", 1), 1);
    bw_history_step_down(&history, "other", "taken");
    assert_string_equal(history.at[0].why, "");
    bw_history_step_down(&history, "me", "unhealthy");
    take(&history, unheld("me", 1, true), 2);
    assert_string_equal(history.at[0].why, "unhealthy");
}

static void own_leadership_ends_although_the_store_still_shows_it(void **state)
{
    struct bw_history history = {.count = 0};
    struct bw_store_record again = held("me", 2);
    (void)state;
    take(&history, held("other", 1), 1);
    assert_int_equal(bw_history_give_up(&history, "me", 2), 0); /* nothing to end */
    take(&history, held("me", 2), 3);
    bw_history_step_down(&history, "me", "unreachable");
    assert_int_equal(bw_history_give_up(&history, "me", 4), BW_HISTORY_ENDED);
    assert_int_equal(bw_history_give_up(&history, "me", 5), 0);
    take(&history, held("me", 2), 6); /* the store is back, and has not expired the lease yet */
    assert_int_equal(history.count, 2);
    assert_int_equal(history.at[1].to, 4);
    assert_string_equal(history.at[1].why, "unreachable");
    again.request = 9; /* peers: acquired again with the same token */
    take(&history, again, 7);
    assert_int_equal(history.count, 2);
    assert_true(history.at[1].to == BW_TIME_NEVER);
    assert_int_equal(bw_history_give_up(&history, "me", 8), BW_HISTORY_ENDED);
    take(&history, held("other", 3), 9);
    assert_int_equal(history.count, 3);
    assert_int_equal(history.at[1].to, 8);
}

static void empty_holder_of_peers_is_no_leader(void **state)
{
    struct bw_history history = {.count = 0};
    (void)state;
    take(&history, held("", 0), 1);
    assert_int_equal(history.count, 0);
    take(&history, held("a", 0), 2);
    take(&history, held("", 0), 3);
    assert_int_equal(history.at[0].to, 3);
    take(&history, held("a", 0), 4);
    assert_int_equal(history.count, 2);
}

static void leadership_without_token_is_told_apart_by_its_request(void **state)
{
    struct bw_store_record record = held("a", 0);
    struct bw_history history = {.count = 0};
    (void)state;
    take(&history, record, 1);
    record.request = 7;
    take(&history, record, 2);
    assert_int_equal(history.count, 2);
}

static void leadership_with_the_same_token_goes_on(void **state)
{
    struct bw_history history = {.count = 0};
    (void)state;
    take(&history, held("a", 2), 1);
    take(&history, unheld("a", 2, true), 2);
    take(&history, held("a", 2), 3);
    assert_int_equal(history.count, 1);
    assert_true(history.at[0].to == BW_TIME_NEVER && history.at[0].from == 1);
    assert_string_equal(history.at[0].why, "");
}

static void history_is_bounded(void **state)
{
    struct bw_history history = {.count = 0};
    (void)state;
    for (unsigned i = 1; i <= BW_HISTORY_MAX + 3; i++)
        take(&history, held("a", i), i);
    assert_int_equal(history.count, BW_HISTORY_MAX);
    assert_int_equal(history.dropped, 3);
    assert_int_equal(history.at[0].token, 4);
    assert_int_equal(history.at[BW_HISTORY_MAX - 1].token, BW_HISTORY_MAX + 3);
}

static bool packs(const char *value)
{
    return bw_web_accepts_gzip(value, strlen(value));
}

static bool matches(const char *value)
{
    return bw_web_has_tag(value, strlen(value), "W/\"ab\"");
}

static void fields_of_a_request_are_understood(void **state)
{
    (void)state;
    assert_true(packs("gzip") && packs(" GZIP ") && packs("br, gzip;q=0.001") &&
                packs("a,gzip; q=1"));
    assert_false(packs("") || packs("gzip;q=0") || packs("gzip;q=0.000") || packs("xgzip") ||
                 packs("gzipx") || packs("br;q=1") || packs(",,") || packs("gzip;") ||
                 packs("gzip;q="));
    assert_true(matches("\"ab\"") && matches("W/\"ab\"") && matches("\"x\", W/\"ab\" "));
    assert_false(matches("") || matches("ab") || matches("\"a\"") || matches("W/") || matches("*"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leadership_that_lasts_is_one_row),
        cmocka_unit_test(end_has_the_reason_that_the_record_shows),
        cmocka_unit_test(own_reason_is_kept),
        cmocka_unit_test(own_leadership_ends_although_the_store_still_shows_it),
        cmocka_unit_test(empty_holder_of_peers_is_no_leader),
        cmocka_unit_test(leadership_without_token_is_told_apart_by_its_request),
        cmocka_unit_test(leadership_with_the_same_token_goes_on),
        cmocka_unit_test(history_is_bounded),
        cmocka_unit_test(fields_of_a_request_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
