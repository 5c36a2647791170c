/* The order in which the embedded store serves requests: renewals and releases come before others,
 * and a process that sends requests without pause does not keep another from releasing. */
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

#define CROWD  3000 /* more than fit into one transaction */
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

/* Returns how many answers came before that to `id`. */
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

static void renewal_is_served_before_queued_acquires(void **state)
{
    (void)state;
    is_served_first(BW_STORE_RENEW);
}

static void release_is_served_before_queued_acquires(void **state)
{
    (void)state;
    is_served_first(BW_STORE_RELEASE);
}

static void queued_requests_are_served_in_order(void **state)
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

/* Keeps at least a whole transaction waiting behind the current one, on a slow disk: the database
 * is locked almost always. */
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

static void busy_process_does_not_starve_release_of_another(void **state)
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
        cmocka_unit_test_setup_teardown(renewal_is_served_before_queued_acquires, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(release_is_served_before_queued_acquires, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(queued_requests_are_served_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(busy_process_does_not_starve_release_of_another, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
