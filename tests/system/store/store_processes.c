/* Real processes that race, are killed at any instant, and restart. */
#include "conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RACES 1000u
#define KILLS 60

static unsigned long long number_in(const char *line)
{
    const char *space = strchr(line, ' ');
    return space ? strtoull(space, NULL, 10) : 0;
}

static void pause_up_to(unsigned most_us)
{
    struct timespec span = {.tv_nsec = (long)(rand() % (int)most_us) * 1000};
    nanosleep(&span, NULL);
}

/* Gives both the order and returns the winner; -1: none. Both never win. */
static int race_once(struct helper *two, unsigned race, char order, unsigned long long *last)
{
    char line[2][64];
    int winner = -1;
    for (int i = 0; i < 2; i++)
        helper_order(&two[(race + (unsigned)i) % 2], order);
    for (int i = 0; i < 2; i++) {
        assert_true(helper_line(&two[i], line[i], sizeof line[i]));
        if (strncmp(line[i], "won", 3) != 0)
            continue;
        assert_int_equal(winner, -1);
        winner = i;
        assert_true(number_in(line[i]) > *last || number_in(line[i]) == 0);
        *last = number_in(line[i]);
    }
    if (winner < 0)
        print_message("# race %u: no winner: %s, %s\n", race, line[0], line[1]);
    return winner;
}

/* In a store with a queue, the server of the first candidate may be behind, so that both are
 * refused. As electors do, both then wait for a change and ask again: now one must win. In other
 * stores one of the two must win at the first attempt. */
static bool may_refuse_both(void)
{
    struct client client;
    client_open(&client, conformance_url, "witness");
    bool queue = (client.ops->traits & BW_STORE_QUEUE) != 0;
    client_close(&client);
    return queue;
}

static void of_two_racing_processes_exactly_one_wins(void **state)
{
    (void)state;
    bool again = may_refuse_both();
    struct helper two[2];
    char line[64];
    const char *election = conformance_election();
    unsigned long long last = 0, wins[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        helper_start(&two[i], "race", election, i ? "ben" : "ada");
    for (int i = 0; i < 2; i++)
        assert_true(helper_line(&two[i], line, sizeof line));
    unsigned race = 0;
    for (uint64_t begun = uv_hrtime(); !conformance_enough(race, RACES, begun); race++) {
        int winner = race_once(two, race, 'g', &last);
        for (bool more = again; winner < 0 && more; more = client_was_stalled("a change")) {
            client_measure_stalls();
            winner = race_once(two, race, 'w', &last);
        }
        assert_true(winner >= 0);
        wins[winner]++;
        helper_order(&two[winner], 'r');
        assert_true(helper_line(&two[winner], line, sizeof line));
    }
    print_message("# of %u races the two won %llu and %llu\n", race, wins[0], wins[1]);
    helper_end(&two[0]);
    helper_end(&two[1]);
}

static void tokens_grow_when_processes_are_killed_at_any_instant(void **state)
{
    (void)state;
    struct client client;
    char line[64];
    const char *election = conformance_election();
    client_open_for_conformance(&client, conformance_url, "witness");
    needs_traits(&client, BW_STORE_TOKEN);
    unsigned long long highest = 0;
    uint64_t told = 0;
    srand(7);
    /* on a store without this trait, each kill costs a TTL */
    bool observed = (client.ops->traits & BW_STORE_OBSERVED) != 0;
    bw_time ttl = bw_time_max(client.ops->ttl_min_ns, HELPER_CYCLE_TTL);
    int kills = observed ? KILLS : (int)bw_time_max(3, bw_time_min(KILLS, 15 * BW_SEC / ttl));
    for (int i = 0; i < kills; i++) {
        struct helper helper;
        helper_start(&helper, "cycle", election, "ada");
        if (helper_line(&helper, line, sizeof line)) {
            assert_true(number_in(line) > highest);
            highest = number_in(line);
        }
        pause_up_to(20000);
        helper_kill(&helper);
        while (helper_line(&helper, line, sizeof line)) {
            assert_true(number_in(line) > highest);
            highest = number_in(line);
            told++;
        }
        helper_end(&helper);
        struct bw_store_reply seen = client_do(&client, BW_STORE_READ, election);
        assert_int_equal(seen.outcome, BW_OUTCOME_DONE);
        assert_true(seen.record.token >= highest);
    }
    print_message("# %d kills, %llu leaderships\n", kills, (unsigned long long)told);
    client_close(&client);
}

static void token_grows_when_all_processes_restart(void **state)
{
    (void)state;
    struct client client;
    const char *election = conformance_election();
    bw_token last = 0;
    for (int i = 0; i < 5; i++) {
        client_open_for_conformance(&client, conformance_url, "ada");
        needs_traits(&client, BW_STORE_TOKEN);
        struct bw_store_reply held = client_acquire(&client, election, 0);
        assert_true(held.record.token > last);
        last = held.record.token;
        client_release(&client, election, last, true);
        client_close(&client); /* the last connection */
    }
}

static void watch_is_answered_when_holders_death_is_proved(void **state)
{
    (void)state;
    struct client client;
    struct helper helper;
    char line[64];
    const char *election = conformance_election();
    client_open_for_conformance(&client, conformance_url, "ben");
    needs_traits(&client, BW_STORE_PROVES_DEATH | BW_STORE_NOTIFIES);
    helper_start(&helper, "hold", election, "ada");
    assert_true(helper_line(&helper, line, sizeof line));
    struct bw_store_reply held = client_do(&client, BW_STORE_READ, election);
    assert_true(held.record.held);
    assert_false(held.record.proved_dead);
    uint64_t watch = client_watch(&client, election, held.record.version);
    client_idle(&client, 50);
    helper_kill(&helper);
    struct bw_store_reply reply;
    assert_true(client_wait(&client, watch, 60000, &reply));
    assert_true(reply.record.held);
    assert_true(reply.record.proved_dead);
    struct bw_store_reply taken = client_acquire(&client, election, reply.record.version);
    assert_int_equal(taken.outcome, BW_OUTCOME_DONE);
    assert_true(taken.record.token > held.record.token);
    assert_string_equal(taken.record.unconfirmed, "ada\t\n");
    helper_end(&helper);
    client_close(&client);
}

static void a_dead_candidate_is_not_listed(void **state)
{
    (void)state;
    struct client client;
    struct helper helper;
    char line[64];
    const char *election = conformance_election();
    client_open_for_conformance(&client, conformance_url, "ben");
    needs_traits(&client, BW_STORE_LISTS | BW_STORE_PROVES_DEATH);
    helper_start(&helper, "enter", election, "ada");
    assert_true(helper_line(&helper, line, sizeof line));
    client_do(&client, BW_STORE_ENTER, election);
    assert_int_equal(client_do(&client, BW_STORE_LIST, election).count, 2);
    helper_kill(&helper);
    assert_int_equal(client_do(&client, BW_STORE_LIST, election).count, 1);
    assert_string_equal(client.listed[0].id, "ben");
    helper_end(&helper);
    client_close(&client);
}

const struct CMUnitTest *conformance_processes(size_t *count)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_racing_processes_exactly_one_wins),
        cmocka_unit_test(tokens_grow_when_processes_are_killed_at_any_instant),
        cmocka_unit_test(token_grows_when_all_processes_restart),
        cmocka_unit_test(watch_is_answered_when_holders_death_is_proved),
        cmocka_unit_test(a_dead_candidate_is_not_listed),
    };
    *count = sizeof tests / sizeof tests[0];
    return tests;
}
