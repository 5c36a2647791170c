/* The token of a managed identity; see managed_identity.h. */
#include "store/azure/managed_identity.h"

#include "net/seed.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WITHIN_NS  (5 * BW_SEC)
#define AGAIN_MS   1000u /* delay after a failure, plus up to half of it at random */
#define LONGEST_S  86400
#define SHORTEST_S 60

static void ask(struct azure_identity *identity);

static void on_timer(uv_timer_t *timer)
{
    ask(timer->data);
}

static void ask_later(struct azure_identity *identity, uint64_t ms)
{
    uv_timer_start(identity->timer, on_timer, ms, 0);
}

static long long seconds_of(const json_t *value)
{
    const char *text = json_string_value(value);
    long long seconds = text ? strtoll(text, NULL, 10) : json_integer_value(value);
    return seconds > LONGEST_S ? LONGEST_S : seconds;
}

/* Returns true if the answer contains a valid token. */
static bool keep(struct azure_identity *identity, const struct bw_http_answer *answer)
{
    json_t *json = json_loadb(answer->body, answer->length, 0, NULL);
    const char *token = json_string_value(json_object_get(json, "access_token"));
    long long seconds = seconds_of(json_object_get(json, "expires_in"));
    bool good = answer->status == 200 && token && strlen(token) <= AZURE_TOKEN_MAX &&
                strcspn(token, " \r\n") == strlen(token) && seconds >= SHORTEST_S;
    if (good) {
        snprintf(identity->token, sizeof identity->token, "%s", token);
        identity->expires_ms = uv_now(identity->timer->loop) + (uint64_t)seconds * 1000;
        ask_later(identity, (uint64_t)seconds * 500);
    }
    json_decref(json);
    return good;
}

static void on_answer(void *context, const struct bw_http_answer *answer)
{
    struct azure_identity *identity = context;
    identity->asked = NULL;
    if (keep(identity, answer))
        return;
    if (answer->status)
        snprintf(identity->why, sizeof identity->why,
                 "the managed identity's endpoint returned HTTP %d and no valid token",
                 answer->status);
    else
        snprintf(identity->why, sizeof identity->why,
                 "cannot get a token of the managed identity: %.180s", answer->why);
    ask_later(identity, AGAIN_MS + bw_rng_below(&identity->rng, AGAIN_MS / 2));
}

static void ask(struct azure_identity *identity)
{
    const char *headers[] = {"Metadata: true", NULL};
    struct bw_http_ask asks = {.method = "GET",
                               .url = identity->url,
                               .headers = headers,
                               .within_ns = WITHIN_NS,
                               .urgent = true, /* all other requests wait for it */
                               .answer = on_answer,
                               .context = identity};
    if (!identity->asked)
        identity->asked = bw_http_send(identity->http, &asks);
    if (!identity->asked)
        ask_later(identity, AGAIN_MS);
}

int bw_azure_identity_open(struct azure_identity *identity, uv_loop_t *loop, struct bw_http *http,
                           const char *url)
{
    memset(identity, 0, sizeof *identity);
    bw_net_seed(&identity->rng);
    identity->http = http;
    identity->url = url;
    identity->timer = calloc(1, sizeof *identity->timer);
    if (!identity->timer)
        return BW_ENOMEM;
    uv_timer_init(loop, identity->timer);
    identity->timer->data = identity;
    snprintf(identity->why, sizeof identity->why, "no token of the managed identity yet");
    ask(identity);
    return 0;
}

const char *bw_azure_identity_token(const struct azure_identity *identity)
{
    bool fresh = identity->token[0] && uv_now(identity->timer->loop) < identity->expires_ms;
    return fresh ? identity->token : NULL;
}

void bw_azure_identity_refused(struct azure_identity *identity)
{
    if (identity->timer && !identity->asked)
        ask_later(identity, AGAIN_MS);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_azure_identity_close(struct azure_identity *identity)
{
    if (identity->timer)
        uv_close((uv_handle_t *)identity->timer, on_timer_closed);
    if (identity->asked)
        bw_http_cancel(identity->http, identity->asked);
    explicit_bzero(identity->token, sizeof identity->token);
}
