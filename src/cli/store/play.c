/* The election that `store check` plays. The first candidate is the client itself, the second has a
 * connection of its own on the same loop, as if it stood elsewhere. */
#include "cli/store/play.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPTS 3u /* others may check the same store */
#define RENEWALS 5u

struct stage {
    struct bw_client *client;
    struct bw_play *play;
    struct bw_store *second;
    char id[2][BW_CANDIDATE_ID_MAX + 1];
    bw_time ttl_ns;
    uint64_t awaited; /* by the second candidate */
    bool answered;
    struct bw_store_reply reply; /* to it */
    struct bw_store_record held; /* as the first one holds it */
};

static int fail(struct stage *stage, const char *step, const char *why)
{
    return bw_client_fail(stage->client, BW_EXIT_FAILED, "the election went wrong: %s%s%s", step,
                          why[0] ? ": " : "", why);
}

/* ---- the second candidate ---- */

/* Its answer ends the client's pause, not the client's own question. */
static void on_second(void *context, const struct bw_store_reply *reply)
{
    struct stage *stage = context;
    if (reply->id != stage->awaited)
        return;
    stage->reply = *reply;
    stage->answered = true;
    if (stage->client->awaited == 0)
        stage->client->answered = true;
}

static int send_second(struct stage *stage, const struct bw_store_request *request)
{
    stage->answered = false;
    stage->awaited = request->id;
    int error = stage->client->ops->request(stage->second, request);
    return error == 0 ? BW_GO_ON : fail(stage, "a request is not taken", bw_error_text(error));
}

static int await_second(struct stage *stage, const char *step)
{
    struct bw_client *client = stage->client;
    if (stage->answered)
        return BW_GO_ON;
    enum bw_wait end = bw_client_pause(client, client->look->timeout_ns);
    if (end == BW_WAIT_INTERRUPTED)
        return BW_EXIT_INTERRUPTED;
    if (end == BW_WAIT_LATE)
        client->ops->cancel(stage->second, stage->awaited);
    return end == BW_WAIT_ANSWERED ? BW_GO_ON : fail(stage, step, "no answer in time");
}

static int ask_second(struct stage *stage, struct bw_store_request *request, const char *step)
{
    bw_time until = bw_time_add(bw_client_now(), stage->client->look->timeout_ns);
    for (;;) {
        int code = send_second(stage, request);
        if (code == BW_GO_ON)
            code = await_second(stage, step);
        if (code != BW_GO_ON || stage->reply.outcome == BW_OUTCOME_DONE ||
            stage->reply.outcome == BW_OUTCOME_REFUSED)
            return code;
        if (bw_client_now() >= until)
            return fail(stage, step, stage->reply.why);
        if (bw_client_pause(stage->client, 50 * BW_MS) == BW_WAIT_INTERRUPTED)
            return BW_EXIT_INTERRUPTED;
    }
}

/* ---- requests ---- */

static struct bw_store_request request_of(struct stage *stage, enum bw_store_op op, unsigned who)
{
    struct bw_store_request request = bw_client_request(stage->client, op);
    request.candidate = stage->id[who];
    request.value = op == BW_STORE_ACQUIRE || op == BW_STORE_ENTER ? "" : NULL;
    request.ttl_ns = stage->ttl_ns;
    return request;
}

static int ask_first(struct stage *stage, const struct bw_store_request *request,
                     enum bw_outcome wanted, const char *step)
{
    int code = bw_client_ask(stage->client, request);
    if (code != BW_GO_ON)
        return code;
    return stage->client->reply.outcome == wanted ? BW_GO_ON
                                                  : fail(stage, step, stage->client->reply.why);
}

/* ---- the acts ---- */

/* Both register, the first one first; a store that keeps no list has nothing to say to it. */
static int enter(struct stage *stage)
{
    if (!(stage->client->ops->traits & (BW_STORE_LISTS | BW_STORE_QUEUE)))
        return BW_GO_ON;
    struct bw_store_request first = request_of(stage, BW_STORE_ENTER, 0);
    struct bw_store_request second = request_of(stage, BW_STORE_ENTER, 1);
    int code = ask_first(stage, &first, BW_OUTCOME_DONE, "a candidate cannot register");
    if (code == BW_GO_ON)
        code = ask_second(stage, &second, "the other candidate cannot register");
    return code;
}

/* Another check may hold the election, or one that was killed: its lease is waited out. */
static int wait_for_others(struct stage *stage, uint64_t *steal)
{
    struct bw_client *client = stage->client;
    struct bw_store_record seen = client->reply.record;
    bw_time span = seen.ttl_ns + seen.ttl_ns / 10 + BW_SEC;
    enum bw_wait end = bw_client_news(client, seen.version, bw_time_add(bw_client_now(), span));
    if (end == BW_WAIT_INTERRUPTED)
        return BW_EXIT_INTERRUPTED;
    bool still = end == BW_WAIT_LATE && client->ops->traits & BW_STORE_OBSERVED;
    *steal = still ? seen.version : 0;
    return BW_GO_ON;
}

static int acquire(struct stage *stage)
{
    uint64_t steal = 0;
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        struct bw_store_request request = request_of(stage, BW_STORE_ACQUIRE, 0);
        request.steal = steal;
        bw_time sent = bw_client_now();
        int code = bw_client_ask(stage->client, &request);
        if (code != BW_GO_ON)
            return code;
        stage->held = stage->client->reply.record;
        if (stage->client->reply.outcome == BW_OUTCOME_DONE) {
            stage->play->acquire_ns = bw_client_now() - sent;
            return BW_GO_ON;
        }
        if (!stage->client->reply.record.held)
            return fail(stage, "a free leadership is refused", stage->client->reply.why);
        code = wait_for_others(stage, &steal);
        if (code != BW_GO_ON)
            return code;
    }
    return bw_client_fail(stage->client, BW_EXIT_LATE, "'%s' is held by others again and again",
                          stage->client->look->election);
}

static int exclude(struct stage *stage)
{
    struct bw_store_request request = request_of(stage, BW_STORE_ACQUIRE, 1);
    int code = ask_second(stage, &request, "a held leadership is asked for");
    if (code == BW_GO_ON && stage->reply.outcome != BW_OUTCOME_REFUSED)
        return fail(stage, "two lead at once", "");
    return code;
}

static int renew(struct stage *stage)
{
    bw_time spans[RENEWALS];
    for (unsigned i = 0; i < RENEWALS; i++) {
        struct bw_store_request request = request_of(stage, BW_STORE_RENEW, 0);
        request.token = stage->held.token;
        bw_time sent = bw_client_now();
        int code = ask_first(stage, &request, BW_OUTCOME_DONE, "a renewal is refused");
        if (code != BW_GO_ON)
            return code;
        spans[i] = bw_client_now() - sent;
        stage->held = stage->client->reply.record;
    }
    stage->play->renew_ns = bw_client_median(spans, RENEWALS);
    return BW_GO_ON;
}

static int release_and_hear(struct stage *stage, bw_time *sent)
{
    bool notifies = stage->client->ops->traits & BW_STORE_NOTIFIES;
    struct bw_store_request watch = request_of(stage, BW_STORE_WATCH, 1);
    struct bw_store_request request = request_of(stage, BW_STORE_RELEASE, 0);
    watch.version = stage->held.version;
    request.token = stage->held.token;
    request.clean = true;
    int code = notifies ? send_second(stage, &watch) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    *sent = bw_client_now();
    code = ask_first(stage, &request, BW_OUTCOME_DONE, "a release is refused");
    if (code == BW_GO_ON && notifies)
        code = await_second(stage, "a release is not heard");
    stage->play->heard_ns = notifies ? bw_client_now() - *sent : -1;
    return code;
}

static int follow(struct stage *stage, bw_time released)
{
    struct bw_play *play = stage->play;
    struct bw_store_request request = request_of(stage, BW_STORE_ACQUIRE, 1);
    int code = ask_second(stage, &request, "the next candidate cannot lead");
    if (code != BW_GO_ON)
        return code;
    if (stage->reply.outcome != BW_OUTCOME_DONE)
        return fail(stage, "the next candidate is refused", stage->reply.why);
    play->handover_ns = bw_client_now() - released;
    play->first = stage->held.token;
    play->second = stage->reply.record.token;
    if (stage->client->ops->traits & BW_STORE_TOKEN && play->second <= play->first)
        return fail(stage, "the token does not grow", "");
    request = request_of(stage, BW_STORE_RENEW, 0);
    request.token = play->first;
    return ask_first(stage, &request, BW_OUTCOME_REFUSED, "a former leader could renew");
}

static int leave(struct stage *stage)
{
    struct bw_store_request request = request_of(stage, BW_STORE_RELEASE, 1);
    request.token = stage->play->second;
    request.clean = true;
    int code = ask_second(stage, &request, "the last release");
    if (!(stage->client->ops->traits & (BW_STORE_LISTS | BW_STORE_QUEUE)) || code != BW_GO_ON)
        return code;
    request = request_of(stage, BW_STORE_LEAVE, 1);
    code = ask_second(stage, &request, "a candidate cannot leave");
    request = request_of(stage, BW_STORE_LEAVE, 0);
    return code == BW_GO_ON
               ? ask_first(stage, &request, BW_OUTCOME_DONE, "a candidate cannot leave")
               : code;
}

static int act(struct stage *stage)
{
    bw_time released = 0;
    int code = enter(stage);
    if (code == BW_GO_ON)
        code = acquire(stage);
    if (code == BW_GO_ON)
        code = exclude(stage);
    if (code == BW_GO_ON)
        code = renew(stage);
    if (code == BW_GO_ON)
        code = release_and_hear(stage, &released);
    if (code == BW_GO_ON)
        code = follow(stage, released);
    return code == BW_GO_ON ? leave(stage) : code;
}

/* Something went wrong on the way: nobody shall have to wait for what we hold. Without answers
 * there is nothing more to be done. */
static void let_go(struct stage *stage)
{
    const struct bw_client *client = stage->client;
    struct bw_store_request request = request_of(stage, BW_STORE_RELEASE, 0);
    request.token = stage->held.token;
    request.clean = true;
    if (stage->held.held && strcmp(stage->held.holder, stage->id[0]) == 0)
        client->ops->request(client->store, &request);
    bw_client_pause(stage->client, 200 * BW_MS);
}

int bw_play_election(struct bw_client *client, struct bw_play *play)
{
    char why[BW_WHY_MAX + 1] = "";
    struct stage stage = {.client = client, .play = play};
    struct bw_store_options options = {.context = &stage, .reply = on_second};
    bw_time unit = client->ops->ttl_unit_ns > 0 ? client->ops->ttl_unit_ns : 1;
    stage.ttl_ns = bw_store_ttl_default(client->ops);
    stage.ttl_ns = (stage.ttl_ns + unit - 1) / unit * unit;
    for (unsigned i = 0; i < 2; i++)
        snprintf(stage.id[i], sizeof stage.id[i], "checker-%u-%d", i + 1, (int)getpid());
    int error = client->ops->open(&stage.second, client->look->store, &client->loop, &options, why);
    if (error != 0)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", why);
    int code = act(&stage);
    if (code == BW_EXIT_FAILED)
        let_go(&stage);
    client->ops->close(stage.second);
    return code;
}
