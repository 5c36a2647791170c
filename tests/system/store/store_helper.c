/* A helper process with its own connection to the store, controlled by orders. */
#include "conformance/conformance.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than a server is behind; shorter than the TTL, because a holder that waits for orders does
 * not renew. */
#define CHANGE_MS 2000u

void helper_start(struct helper *helper, const char *part, const char *election, const char *id)
{
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    helper->pid = fork();
    assert_true(helper->pid >= 0);
    if (helper->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        execl("/proc/self/exe", "helper", "--part", part, conformance_url, election, id,
              (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    helper->to = to[1];
    helper->from = from[0];
}

void helper_order(struct helper *helper, char order)
{
    assert_int_equal(write(helper->to, &order, 1), 1);
}

bool helper_line(struct helper *helper, char *line, size_t size)
{
    size_t used = 0;
    char sign;
    ssize_t got;
    while ((got = read(helper->from, &sign, 1)) == 1 || (got < 0 && errno == EINTR)) {
        if (got < 0)
            continue;
        if (sign == '\n') {
            line[used] = '\0';
            return true;
        }
        if (used + 1 < size)
            line[used++] = sign;
    }
    return false;
}

void helper_kill(struct helper *helper)
{
    kill(helper->pid, SIGKILL);
    assert_int_equal(waitpid(helper->pid, NULL, 0), helper->pid);
    helper->pid = 0;
}

void helper_end(struct helper *helper)
{
    close(helper->to);
    if (helper->pid)
        helper_kill(helper);
    close(helper->from);
}

static void report(const char *word, uint64_t number)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %llu\n", word, (unsigned long long)number);
    if (write(1, line, (size_t)length) != length)
        _exit(1);
}

static char next_order(void)
{
    char order;
    return read(0, &order, 1) == 1 ? order : '\0';
}

/* Waits until the record no longer has this version. Returns false if it keeps it. */
static bool await_change(struct client *client, const char *election, uint64_t version)
{
    struct bw_store_reply reply;
    uint64_t watch = client_watch(client, election, version);
    bool changed = client_wait(client, watch, CHANGE_MS, &reply);
    if (!changed)
        client->ops->cancel(client->store, watch);
    return changed;
}

/* g: send ACQUIRE and report the result; w: the same after the record has changed; r: release. */
static void race(struct client *client, const char *election)
{
    bw_token token = 0;
    uint64_t version = 0;
    report("ready", 0);
    for (char order; (order = next_order());) {
        if (order == 'w' && !await_change(client, election, version)) {
            report("unchanged", token);
        } else if (order != 'r') {
            struct bw_store_reply reply = client_acquire(client, election, 0);
            if (reply.outcome != BW_OUTCOME_DONE && reply.outcome != BW_OUTCOME_REFUSED)
                fprintf(stderr, "# ACQUIRE: outcome %d: %s\n", (int)reply.outcome, reply.why);
            token = reply.record.token;
            version = reply.record.version;
            report(reply.outcome == BW_OUTCOME_DONE      ? "won"
                   : reply.outcome == BW_OUTCOME_REFUSED ? "lost"
                                                         : "unanswered",
                   token);
        } else {
            client_release(client, election, token, true);
            report("released", token);
        }
    }
}

/* Acquires, and then does nothing. */
static void hold(struct client *client, const char *election)
{
    report("held", client_acquire(client, election, 0).record.token);
    next_order();
}

static struct bw_store_reply take_for_a_while(struct client *client, const char *election,
                                              uint64_t steal)
{
    struct bw_store_request request = client_request(client, BW_STORE_ACQUIRE, election);
    request.steal = steal;
    request.ttl_ns = bw_time_max(client->ops->ttl_min_ns, HELPER_CYCLE_TTL);
    return client_ask(client, &request);
}

/* Acquires, renews and releases as fast as possible, and reports each token immediately. On a store
 * whose server ends leases, the next process must wait for the lease of a killed one: the lease is
 * therefore short. */
static void cycle(struct client *client, const char *election)
{
    struct bw_store_reply seen = client_do(client, BW_STORE_READ, election);
    for (;;) {
        seen = take_for_a_while(client, election, seen.record.held ? seen.record.version : 0);
        if (seen.outcome != BW_OUTCOME_DONE)
            continue;
        bw_token token = seen.record.token;
        report("token", token);
        struct bw_store_request renewal = client_request(client, BW_STORE_RENEW, election);
        renewal.token = token;
        renewal.ttl_ns = bw_time_max(client->ops->ttl_min_ns, HELPER_CYCLE_TTL);
        client_ask(client, &renewal);
        seen = client_release(client, election, token, true);
    }
}

static void enter(struct client *client, const char *election)
{
    client_do(client, BW_STORE_ENTER, election);
    report("entered", 0);
    next_order();
}

int helper_play(const char *part, const char *url, const char *election, const char *id)
{
    struct client client;
    if (strcmp(part, "race") == 0)
        client_open_for_conformance(&client, url, id);
    else
        client_open(&client, url, id);
    if (strcmp(part, "race") == 0)
        race(&client, election);
    else if (strcmp(part, "hold") == 0)
        hold(&client, election);
    else if (strcmp(part, "cycle") == 0)
        cycle(&client, election);
    else if (strcmp(part, "enter") == 0)
        enter(&client, election);
    client_close(&client);
    return 0;
}
