/* AWS keys from the container's or the machine's endpoint; see credentials.h. */
#include "store/dynamodb/credentials.h"

#include "net/seed.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WITHIN_NS  (5 * BW_SEC)
#define AGAIN_MS   1000u   /* delay after a failure, plus up to half of it at random */
#define REFRESH_MS 240000u /* AWS issues new keys five minutes before the old ones expire */
#define ROLES      "/latest/meta-data/iam/security-credentials/"

static void begin(struct dynamodb_asker *asker);

static void on_timer(uv_timer_t *timer)
{
    begin(timer->data);
}

static void failed(struct dynamodb_asker *asker, const struct bw_http_answer *answer)
{
    if (answer->status)
        snprintf(asker->why, sizeof asker->why, "no AWS keys: their endpoint returned HTTP %d",
                 answer->status);
    else
        snprintf(asker->why, sizeof asker->why, "no AWS keys: %.200s", answer->why);
    uv_timer_start(asker->timer, on_timer, AGAIN_MS + bw_rng_below(&asker->rng, AGAIN_MS / 2), 0);
}

static void ask(struct dynamodb_asker *asker, const char *method, const char *url,
                const char *header, void (*answer)(void *, const struct bw_http_answer *))
{
    const char *headers[] = {header, NULL};
    struct bw_http_ask asks = {.method = method,
                               .url = url,
                               .headers = header && *header ? headers : NULL,
                               .within_ns = WITHIN_NS,
                               .urgent = true, /* all other requests wait for it */
                               .answer = answer,
                               .context = asker};
    asker->asked = bw_http_send(asker->http, &asks);
    if (!asker->asked)
        uv_timer_start(asker->timer, on_timer, AGAIN_MS, 0);
}

static void on_keys(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_asker *asker = context;
    asker->asked = NULL;
    json_t *json = json_loadb(answer->body, answer->length, 0, NULL);
    bool good = answer->status == 200 &&
                bw_dynamodb_set_keys(&asker->settings->keys,
                                     json_string_value(json_object_get(json, "AccessKeyId")),
                                     json_string_value(json_object_get(json, "SecretAccessKey")),
                                     json_string_value(json_object_get(json, "Token")));
    json_decref(json);
    if (good)
        uv_timer_start(asker->timer, on_timer, REFRESH_MS, 0);
    else
        failed(asker, answer);
}

static void on_role(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_asker *asker = context;
    char url[1024];
    size_t length = strcspn(answer->body, "\r\n");
    asker->asked = NULL;
    if (answer->status != 200 || length == 0 || length > 128 || memchr(answer->body, '/', length) ||
        memchr(answer->body, '?', length)) {
        failed(asker, answer);
        return;
    }
    snprintf(url, sizeof url, "%s" ROLES "%.*s", asker->settings->metadata, (int)length,
             answer->body);
    ask(asker, "GET", url, asker->session, on_keys);
}

static void on_session(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_asker *asker = context;
    char url[1024];
    asker->asked = NULL;
    if (answer->status != 200 || answer->length == 0 || answer->length > 400 ||
        strpbrk(answer->body, "\r\n")) {
        failed(asker, answer);
        return;
    }
    snprintf(asker->session, sizeof asker->session, "X-aws-ec2-metadata-token: %.400s",
             answer->body);
    snprintf(url, sizeof url, "%s" ROLES, asker->settings->metadata);
    ask(asker, "GET", url, asker->session, on_role);
}

static void begin(struct dynamodb_asker *asker)
{
    char url[1024], header[600] = "";
    const char *token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (asker->settings->container_url[0]) {
        if (token && strlen(token) < 500 && !strpbrk(token, "\r\n"))
            snprintf(header, sizeof header, "Authorization: %s", token);
        ask(asker, "GET", asker->settings->container_url, header, on_keys);
        return;
    }
    snprintf(url, sizeof url, "%s/latest/api/token", asker->settings->metadata);
    ask(asker, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", on_session);
}

int bw_dynamodb_asker_open(struct dynamodb_asker *asker, uv_loop_t *loop, struct bw_http *http,
                           struct dynamodb_settings *settings)
{
    memset(asker, 0, sizeof *asker);
    if (settings->keys.user[0])
        return 0;
    bw_net_seed(&asker->rng);
    asker->http = http;
    asker->settings = settings;
    asker->timer = calloc(1, sizeof *asker->timer);
    if (!asker->timer)
        return BW_ENOMEM;
    uv_timer_init(loop, asker->timer);
    asker->timer->data = asker;
    snprintf(asker->why, sizeof asker->why, "no AWS keys yet");
    begin(asker);
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_dynamodb_asker_close(struct dynamodb_asker *asker)
{
    if (asker->timer)
        uv_close((uv_handle_t *)asker->timer, on_timer_closed);
    if (asker->asked)
        bw_http_cancel(asker->http, asker->asked);
    explicit_bzero(asker->session, sizeof asker->session);
}
