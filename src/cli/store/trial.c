/* The trial election of `store check`. The first candidate is the client itself. The second
 * candidate has its own connection on the same loop, as if it were on another machine. */
#include "cli/store/trial.h"

#include "os/clock.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPTS 3u /* other checks may use the same store */
#define RENEWALS 5u

struct trial_run {
    struct bw_client *client;
    struct bw_trial *trial;
    struct bw_store *second;
    char id[2][BW_CANDIDATE_ID_MAX + 1];
    bw_time ttl_ns;
    uint64_t awaited; /* request id of the second candidate */
    bool answered;
    struct bw_store_reply reply; /* to the second candidate */
    struct bw_store_record held; /* as the first candidate holds it */
};

static int fail(struct trial_run *trial_run, const char *step, const char *why)
{
    return bw_client_fail(trial_run->client, BW_EXIT_FAILED, "trial election failed: %s%s%s", step,
                          why[0] ? ": " : "", why);
}

/* ---- the second candidate ---- */

/* Keeps the second candidate's reply. It ends the client's pause, but not a request of the client
 * itself. */
static void on_second(void *context, const struct bw_store_reply *reply)
{
    struct trial_run *trial_run = context;
    if (reply->id != trial_run->awaited)
        return;
    trial_run->reply = *reply;
    trial_run->answered = true;
    if (trial_run->client->awaited == 0)
        trial_run->client->answered = true;
}

static int send_second(struct trial_run *trial_run, const struct bw_store_request *request)
{
    trial_run->answered = false;
    trial_run->awaited = request->id;
    int error = trial_run->client->ops->request(trial_run->second, request);
    if (error == BW_EINVAL)
        return fail(trial_run, "the store does not accept a request", bw_error_text(error));
    if (error) { /* this process lacks memory: try again, as if the store were unavailable */
        trial_run->reply = bw_client_not_sent(request, error);
        trial_run->answered = true;
    }
    return BW_GO_ON;
}

static int await_second(struct trial_run *trial_run, const char *step)
{
    struct bw_client *client = trial_run->client;
    if (trial_run->answered)
        return BW_GO_ON;
    enum bw_wait end = bw_client_pause(client, client->look->timeout_ns);
    if (end == BW_WAIT_INTERRUPTED)
        return BW_EXIT_INTERRUPTED;
    if (end == BW_WAIT_LATE)
        client->ops->cancel(trial_run->second, trial_run->awaited);
    return end == BW_WAIT_ANSWERED ? BW_GO_ON : fail(trial_run, step, "no response in time");
}

static int ask_second(struct trial_run *trial_run, struct bw_store_request *request,
                      const char *step)
{
    bw_time until = bw_time_add(bw_clock_boot(), trial_run->client->look->timeout_ns);
    for (;;) {
        int code = send_second(trial_run, request);
        if (code == BW_GO_ON)
            code = await_second(trial_run, step);
        if (code != BW_GO_ON || trial_run->reply.outcome == BW_OUTCOME_DONE ||
            trial_run->reply.outcome == BW_OUTCOME_REFUSED)
            return code;
        if (bw_clock_boot() >= until)
            return fail(trial_run, step, trial_run->reply.why);
        if (bw_client_pause(trial_run->client, 50 * BW_MS) == BW_WAIT_INTERRUPTED)
            return BW_EXIT_INTERRUPTED;
    }
}

/* ---- requests ---- */

static struct bw_store_request request_of(struct trial_run *trial_run, enum bw_store_op op,
                                          unsigned which)
{
    struct bw_store_request request = bw_client_request(trial_run->client, op);
    request.candidate = trial_run->id[which];
    request.value = op == BW_STORE_ACQUIRE || op == BW_STORE_ENTER ? "" : NULL;
    request.ttl_ns = trial_run->ttl_ns;
    return request;
}

static int ask_first(struct trial_run *trial_run, const struct bw_store_request *request,
                     enum bw_outcome wanted, const char *step)
{
    int code = bw_client_ask(trial_run->client, request);
    if (code != BW_GO_ON)
        return code;
    return trial_run->client->reply.outcome == wanted
               ? BW_GO_ON
               : fail(trial_run, step, trial_run->client->reply.why);
}

/* ---- the acts ---- */

/* Registers both candidates, the first one first. Does nothing on a store without a candidate
 * list. */
static int enter(struct trial_run *trial_run)
{
    if (!(trial_run->client->ops->traits & (BW_STORE_LISTS | BW_STORE_QUEUE)))
        return BW_GO_ON;
    struct bw_store_request first = request_of(trial_run, BW_STORE_ENTER, 0);
    struct bw_store_request second = request_of(trial_run, BW_STORE_ENTER, 1);
    int code = ask_first(trial_run, &first, BW_OUTCOME_DONE, "a candidate cannot register");
    if (code == BW_GO_ON)
        code = ask_second(trial_run, &second, "the other candidate cannot register");
    return code;
}

/* Waits until another check, or the lease of a killed check, no longer holds the election. */
static int wait_for_others(struct trial_run *trial_run, uint64_t *steal)
{
    struct bw_client *client = trial_run->client;
    struct bw_store_record seen = client->reply.record;
    bw_time span = seen.ttl_ns + seen.ttl_ns / 10 + BW_SEC;
    enum bw_wait end =
        bw_client_wait_change(client, seen.version, bw_time_add(bw_clock_boot(), span));
    if (end == BW_WAIT_INTERRUPTED)
        return BW_EXIT_INTERRUPTED;
    bool still = end == BW_WAIT_LATE && client->ops->traits & BW_STORE_OBSERVED;
    *steal = still ? seen.version : 0;
    return BW_GO_ON;
}

static int acquire(struct trial_run *trial_run)
{
    uint64_t steal = 0;
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        struct bw_store_request request = request_of(trial_run, BW_STORE_ACQUIRE, 0);
        request.steal = steal;
        bw_time sent = bw_clock_boot();
        int code = bw_client_ask(trial_run->client, &request);
        if (code != BW_GO_ON)
            return code;
        trial_run->held = trial_run->client->reply.record;
        if (trial_run->client->reply.outcome == BW_OUTCOME_DONE) {
            trial_run->trial->acquire_ns = bw_clock_boot() - sent;
            return BW_GO_ON;
        }
        if (!trial_run->client->reply.record.held)
            return fail(trial_run, "the store refuses a free leadership",
                        trial_run->client->reply.why);
        code = wait_for_others(trial_run, &steal);
        if (code != BW_GO_ON)
            return code;
    }
    return bw_client_fail(trial_run->client, BW_EXIT_LATE, "other checks hold '%s' all the time",
                          trial_run->client->look->election);
}

static int exclude(struct trial_run *trial_run)
{
    struct bw_store_request request = request_of(trial_run, BW_STORE_ACQUIRE, 1);
    int code = ask_second(trial_run, &request, "the store gives no answer about a held leadership");
    if (code == BW_GO_ON && trial_run->reply.outcome != BW_OUTCOME_REFUSED)
        return fail(trial_run, "two leaders at the same time", "");
    return code;
}

static int renew(struct trial_run *trial_run)
{
    bw_time spans[RENEWALS];
    for (unsigned i = 0; i < RENEWALS; i++) {
        struct bw_store_request request = request_of(trial_run, BW_STORE_RENEW, 0);
        request.token = trial_run->held.token;
        bw_time sent = bw_clock_boot();
        int code = ask_first(trial_run, &request, BW_OUTCOME_DONE, "the store refuses a renewal");
        if (code != BW_GO_ON)
            return code;
        spans[i] = bw_clock_boot() - sent;
        trial_run->held = trial_run->client->reply.record;
    }
    trial_run->trial->renew_ns = bw_client_median(spans, RENEWALS);
    return BW_GO_ON;
}

static int release_and_wait(struct trial_run *trial_run, bw_time *sent)
{
    bool notifies = trial_run->client->ops->traits & BW_STORE_NOTIFIES;
    struct bw_store_request watch = request_of(trial_run, BW_STORE_WATCH, 1);
    struct bw_store_request request = request_of(trial_run, BW_STORE_RELEASE, 0);
    watch.version = trial_run->held.version;
    request.token = trial_run->held.token;
    request.clean = true;
    int code = notifies ? send_second(trial_run, &watch) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    *sent = bw_clock_boot();
    code = ask_first(trial_run, &request, BW_OUTCOME_DONE, "the store refuses a release");
    if (code == BW_GO_ON && notifies)
        code = await_second(trial_run, "the second candidate is not notified of the release");
    trial_run->trial->notified_ns = notifies ? bw_clock_boot() - *sent : -1;
    return code;
}

static int follow(struct trial_run *trial_run, bw_time released)
{
    struct bw_trial *trial = trial_run->trial;
    struct bw_store_request request = request_of(trial_run, BW_STORE_ACQUIRE, 1);
    int code = ask_second(trial_run, &request, "the second candidate cannot acquire leadership");
    if (code != BW_GO_ON)
        return code;
    if (trial_run->reply.outcome != BW_OUTCOME_DONE)
        return fail(trial_run, "the store refuses the second candidate", trial_run->reply.why);
    trial->handover_ns = bw_clock_boot() - released;
    trial->first = trial_run->held.token;
    trial->second = trial_run->reply.record.token;
    if (trial_run->client->ops->traits & BW_STORE_TOKEN && trial->second <= trial->first)
        return fail(trial_run, "the token does not grow", "");
    request = request_of(trial_run, BW_STORE_RENEW, 0);
    request.token = trial->first;
    return ask_first(trial_run, &request, BW_OUTCOME_REFUSED,
                     "the store accepts a renewal of a former leader");
}

static int leave(struct trial_run *trial_run)
{
    struct bw_store_request request = request_of(trial_run, BW_STORE_RELEASE, 1);
    request.token = trial_run->trial->second;
    request.clean = true;
    int code = ask_second(trial_run, &request, "the store refuses the last release");
    if (!(trial_run->client->ops->traits & (BW_STORE_LISTS | BW_STORE_QUEUE)) || code != BW_GO_ON)
        return code;
    request = request_of(trial_run, BW_STORE_LEAVE, 1);
    code = ask_second(trial_run, &request, "a candidate cannot leave");
    request = request_of(trial_run, BW_STORE_LEAVE, 0);
    return code == BW_GO_ON
               ? ask_first(trial_run, &request, BW_OUTCOME_DONE, "a candidate cannot leave")
               : code;
}

static int run_trial(struct trial_run *trial_run)
{
    bw_time released = 0;
    int code = enter(trial_run);
    if (code == BW_GO_ON)
        code = acquire(trial_run);
    if (code == BW_GO_ON)
        code = exclude(trial_run);
    if (code == BW_GO_ON)
        code = renew(trial_run);
    if (code == BW_GO_ON)
        code = release_and_wait(trial_run, &released);
    if (code == BW_GO_ON)
        code = follow(trial_run, released);
    return code == BW_GO_ON ? leave(trial_run) : code;
}

/* Sends a request without waiting for its reply. */
static void send_only(struct trial_run *trial_run, const struct bw_store_request *request)
{
    const struct bw_client *client = trial_run->client;
    bool second = request->candidate == trial_run->id[1];
    client->ops->request(second ? trial_run->second : client->store, request);
}

/* Releases what the candidates hold and removes them after a failure. Otherwise other candidates,
 * also those of the next check, would wait until the leases expire. Ignores errors. */
static void clean_up(struct trial_run *trial_run)
{
    uint64_t tokens[2] = {trial_run->held.token, trial_run->trial->second};
    bool holds = trial_run->held.held && strcmp(trial_run->held.holder, trial_run->id[0]) == 0;
    bool lists = trial_run->client->ops->traits & (BW_STORE_LISTS | BW_STORE_QUEUE);
    for (unsigned i = 0; i < 2; i++) {
        struct bw_store_request request = request_of(trial_run, BW_STORE_RELEASE, i);
        request.token = tokens[i];
        request.clean = true;
        if (i == 0 ? holds : tokens[1] != 0)
            send_only(trial_run, &request);
        request = request_of(trial_run, BW_STORE_LEAVE, i);
        if (lists)
            send_only(trial_run, &request);
    }
    bw_client_pause(trial_run->client, 200 * BW_MS);
}

int bw_trial_election(struct bw_client *client, bw_time ttl_ns, struct bw_trial *trial)
{
    char why[BW_WHY_MAX + 1] = "";
    struct trial_run trial_run = {.client = client, .trial = trial};
    struct bw_store_options options = {.context = &trial_run, .reply = on_second};
    bw_time unit = client->ops->ttl_unit_ns > 0 ? client->ops->ttl_unit_ns : 1;
    trial_run.ttl_ns = ttl_ns ? ttl_ns : bw_store_ttl_default(client->ops);
    trial_run.ttl_ns = (trial_run.ttl_ns + unit - 1) / unit * unit;
    for (unsigned i = 0; i < 2; i++)
        snprintf(trial_run.id[i], sizeof trial_run.id[i], "checker-%u-%d", i + 1, (int)getpid());
    int error =
        client->ops->open(&trial_run.second, client->look->store, &client->loop, &options, why);
    if (error != 0)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", why);
    int code = run_trial(&trial_run);
    if (code != BW_GO_ON)
        clean_up(&trial_run);
    client->ops->close(trial_run.second);
    return code;
}
