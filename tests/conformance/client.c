/* A test's connection to a store. Each client has its own loop, like a separate process. */
#include "conformance/client.h"

#include "system/kit/stall.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define TIMEOUT_MS    60000u
#define FIRST_READ_ID (UINT64_C(1) << 40)
#define PAUSE_MS      20
#define TTL_NS        (5 * BW_SEC)
/* Stores derive the timeout of a request from its TTL. With this TTL it is several seconds, so that
 * a slow server is not taken for a lost one. */
#define CONFORMANCE_TTL_NS (30 * BW_SEC)
#define STALL_MS           1000 /* a machine that stalls for so long may cost a request its reply */

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct client *client = context;
    assert_false(client->calling);  /* never from within a call */
    assert_non_null(client->store); /* never after close */
    assert_true(client->count < CLIENT_KEPT_MAX);
    client->kept[client->count++] = *reply;
    client->total++;
    if (reply->op == BW_STORE_LIST && reply->outcome == BW_OUTCOME_DONE) {
        client->listed_count = reply->count;
        for (uint32_t i = 0; i < reply->count && i < 64; i++)
            client->listed[i] = reply->candidates[i];
    }
}

static void on_timeout(uv_timer_t *timer)
{
    ((struct client *)timer->data)->out_of_time = true;
}

void client_open(struct client *client, const char *url, const char *id)
{
    char why[BW_WHY_MAX + 1] = "";
    memset(client, 0, sizeof *client);
    client->id = id;
    client->kept = calloc(CLIENT_KEPT_MAX, sizeof *client->kept);
    assert_non_null(client->kept);
    assert_int_equal(getrandom(&client->next_id, sizeof client->next_id, 0), 8);
    client->next_id |= 1;
    assert_int_equal(uv_loop_init(&client->loop), 0);
    uv_timer_init(&client->loop, &client->timer);
    client->timer.data = client;
    client->ops = bw_store_find(url, why);
    if (!client->ops)
        fail_msg("%s", why);
    struct bw_store_options options = {.context = client, .reply = on_reply};
    if (client->ops->open(&client->store, url, &client->loop, &options, why) != 0)
        fail_msg("%s", why);
}

void client_close(struct client *client)
{
    if (client->store)
        client->ops->close(client->store);
    client->store = NULL;
    uv_close((uv_handle_t *)&client->timer, NULL);
    while (uv_run(&client->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&client->loop), 0);
    free(client->kept);
}

struct bw_store_request client_request(struct client *client, enum bw_store_op op,
                                       const char *election)
{
    bw_time ttl =
        bw_time_max(client->conforms ? CONFORMANCE_TTL_NS : TTL_NS, client->ops->ttl_min_ns);
    if (client->ops->ttl_max_ns)
        ttl = bw_time_min(ttl, client->ops->ttl_max_ns);
    return (struct bw_store_request){.op = op,
                                     .id = client->next_id++,
                                     .election = election,
                                     .candidate = client->id,
                                     .ttl_ns = ttl};
}

static struct bw_store_reply read_until_answered(struct client *client, const char *election);

uint64_t client_send(struct client *client, const struct bw_store_request *request)
{
    if (client->conforms && !client->connected) {
        uint64_t next_id = client->next_id;
        client->connected = true;
        client->next_id = next_id + FIRST_READ_ID;      /* tests count the ids of their requests */
        read_until_answered(client, request->election); /* a URL may serve this election only */
        client->next_id = next_id;
    }
    client->calling = true;
    assert_int_equal(client->ops->request(client->store, request), 0);
    client->calling = false;
    return request->id;
}

static bool take(struct client *client, uint64_t id, struct bw_store_reply *reply)
{
    for (uint32_t i = 0; i < client->count; i++)
        if (client->kept[i].id == id) {
            *reply = client->kept[i];
            memmove(&client->kept[i], &client->kept[i + 1],
                    (client->count - i - 1) * sizeof *client->kept);
            client->count--;
            return true;
        }
    return false;
}

bool client_wait(struct client *client, uint64_t id, unsigned ms, struct bw_store_reply *reply)
{
    client->out_of_time = false;
    uv_update_time(&client->loop);
    uv_timer_start(&client->timer, on_timeout, ms, 0);
    bool found;
    while (!(found = take(client, id, reply)) && !client->out_of_time)
        uv_run(&client->loop, UV_RUN_ONCE);
    uv_timer_stop(&client->timer);
    return found;
}

void client_idle(struct client *client, unsigned ms)
{
    struct bw_store_reply none;
    assert_false(client_wait(client, 0, ms, &none));
}

static struct bw_store_reply ask_once(struct client *client, const struct bw_store_request *request)
{
    struct bw_store_reply reply;
    uint64_t id = client_send(client, request);
    if (!client_wait(client, id, TIMEOUT_MS, &reply))
        fail_msg("no answer to request %d", (int)request->op);
    return reply;
}

static bool is_open(const struct bw_store_reply *reply)
{
    return reply->outcome == BW_OUTCOME_UNKNOWN || reply->outcome == BW_OUTCOME_UNAVAILABLE;
}

static struct bw_store_reply read_until_answered(struct client *client, const char *election)
{
    uint64_t begun = uv_hrtime();
    struct bw_store_reply seen;
    for (;;) {
        struct bw_store_request read = client_request(client, BW_STORE_READ, election);
        seen = ask_once(client, &read);
        if (!is_open(&seen))
            return seen;
        if (uv_hrtime() - begun > TIMEOUT_MS * UINT64_C(1000000))
            fail_msg("the store does not answer: %s", seen.why);
        client_idle(client, PAUSE_MS);
    }
}

void client_measure_stalls(void)
{
    stall_watch();
}

bool client_was_stalled(const char *what)
{
    return stall_excuses(STALL_MS, what);
}

/* Like an elector after UNKNOWN: reads whether an ACQUIRE took effect, and sends the request again
 * if not. */
static struct bw_store_reply settle(struct client *client, const struct bw_store_request *request)
{
    struct bw_store_reply seen = read_until_answered(client, request->election);
    bool done =
        seen.record.held && request->op == BW_STORE_ACQUIRE && seen.record.request == request->id;
    return done ? seen : ask_once(client, request);
}

struct bw_store_reply client_ask(struct client *client, const struct bw_store_request *request)
{
    client_measure_stalls();
    struct bw_store_reply reply = ask_once(client, request);
    bool repeats = client->conforms && is_open(&reply) && client_was_stalled(reply.why);
    return repeats ? settle(client, request) : reply;
}

void client_open_for_conformance(struct client *client, const char *url, const char *id)
{
    client_open(client, url, id);
    client->conforms = true;
}

struct bw_store_reply client_do(struct client *client, enum bw_store_op op, const char *election)
{
    struct bw_store_request request = client_request(client, op, election);
    return client_ask(client, &request);
}

struct bw_store_reply client_acquire(struct client *client, const char *election, uint64_t steal)
{
    struct bw_store_request request = client_request(client, BW_STORE_ACQUIRE, election);
    request.steal = steal;
    return client_ask(client, &request);
}

struct bw_store_reply client_renew(struct client *client, const char *election, bw_token token)
{
    struct bw_store_request request = client_request(client, BW_STORE_RENEW, election);
    request.token = token;
    return client_ask(client, &request);
}

struct bw_store_reply client_release(struct client *client, const char *election, bw_token token,
                                     bool clean)
{
    struct bw_store_request request = client_request(client, BW_STORE_RELEASE, election);
    request.token = token;
    request.clean = clean;
    return client_ask(client, &request);
}

struct bw_store_reply client_note(struct client *client, const char *election,
                                  enum bw_note_kind kind, const char *to)
{
    struct bw_store_request request = client_request(client, BW_STORE_NOTE, election);
    request.note.kind = kind;
    snprintf(request.note.from, sizeof request.note.from, "%s", client->id);
    snprintf(request.note.to, sizeof request.note.to, "%s", to);
    return client_ask(client, &request);
}

uint64_t client_watch(struct client *client, const char *election, uint64_t version)
{
    struct bw_store_request request = client_request(client, BW_STORE_WATCH, election);
    request.version = version;
    return client_send(client, &request);
}
