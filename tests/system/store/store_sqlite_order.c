/* Who is served first by the embedded store: renewals and releases go ahead of what can wait, and a
 * process that asks without pause does not keep another from giving back what it holds. */
#include "conformance/client.h"
#include "system/kit/scratch.h"
#include "system/kit/shim.h"
#include "unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CROWD  3000 /* more than go into one transaction */
#define ROUNDS 15

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 32];

static int set_up(void **state)
{
    (void)state;
    shim_reset();
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/elections.db", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

/* How many answers came before that of `id`. */
static uint32_t answers_before(struct client *client, uint64_t id)
{
    for (;;) {
        for (uint32_t i = 0; i < client->count; i++)
            if (client->kept[i].id == id)
                return i;
        uv_run(&client->loop, UV_RUN_ONCE);
    }
}

static void ask_crowd(struct client *client, enum bw_store_op op)
{
    char name[32];
    for (int i = 0; i < CROWD; i++) {
        snprintf(name, sizeof name, "other-%d", i);
        struct bw_store_request request = client_request(client, op, name);
        client_send(client, &request);
    }
}

static void is_served_first(enum bw_store_op op)
{
    struct client client;
    client_open(&client, path, "ada");
    struct bw_store_reply held = client_acquire(&client, "mine", 0);
    ask_crowd(&client, BW_STORE_ACQUIRE);
    struct bw_store_request request = client_request(&client, op, "mine");
    request.token = held.record.token;
    request.clean = true;
    assert_int_equal(answers_before(&client, client_send(&client, &request)), 0);
    client_close(&client);
}

static void a_renewal_goes_ahead_of_a_crowd_of_acquisitions(void **state)
{
    (void)state;
    is_served_first(BW_STORE_RENEW);
}

static void a_release_goes_ahead_of_a_crowd_of_acquisitions(void **state)
{
    (void)state;
    is_served_first(BW_STORE_RELEASE);
}

static void what_waits_comes_in_the_order_it_was_asked(void **state)
{
    (void)state;
    struct client client;
    client_open(&client, path, "ada");
    uint64_t first = client.next_id;
    ask_crowd(&client, BW_STORE_READ);
    answers_before(&client, first + CROWD - 1);
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(client.kept[i].id, first + i);
    client_close(&client);
}

/* Never less than a whole transaction waits behind the one at work, and its disk is slow: the
 * database is locked but for moments. */
static _Noreturn void hammer(void)
{
    struct client client;
    char name[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    client_open(&client, path, "hammer");
    uint64_t first = client.next_id;
    atomic_store(&shim.sync_delay_ms, 40);
    for (;;) {
        while (client.next_id - first - client.total < 2) {
            snprintf(name, sizeof name, "hammered-%llu", (unsigned long long)client.next_id);
            struct bw_store_request request = client_request(&client, BW_STORE_ACQUIRE, name);
            client_send(&client, &request);
        }
        client.count = 0;
        uv_run(&client.loop, UV_RUN_ONCE);
    }
}

static void one_that_asks_without_pause_starves_nobodys_release(void **state)
{
    (void)state;
    struct client client;
    pid_t pid = fork();
    if (pid == 0)
        hammer();
    client_open(&client, path, "ada");
    for (int i = 0; i < ROUNDS; i++) {
        struct bw_store_reply taken;
        do
            taken = client_acquire(&client, "mine", 0);
        while (taken.outcome != BW_OUTCOME_DONE);
        struct bw_store_reply given = client_release(&client, "mine", taken.record.token, true);
        assert_int_equal(given.outcome, BW_OUTCOME_DONE);
    }
    client_close(&client);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_renewal_goes_ahead_of_a_crowd_of_acquisitions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_release_goes_ahead_of_a_crowd_of_acquisitions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_waits_comes_in_the_order_it_was_asked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_asks_without_pause_starves_nobodys_release, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
