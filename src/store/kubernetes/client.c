/* Requests to an API server; see client.h. */
#include "store/kubernetes/client.h"

#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define COLLECTION  "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
#define ADDRESS_MAX 2048u
#define QUIET_MAX_S 10u /* no server may silence a candidate for longer */
#define BEARER      "Authorization: Bearer "

static const char agent[] = "User-Agent: bellwether/" BW_VERSION;

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* ---- credentials ---- */

static void forget_bearer(struct bw_kube_api *api)
{
    if (api->bearer)
        explicit_bzero(api->bearer, strlen(api->bearer));
    free(api->bearer);
    api->bearer = NULL;
}

static int set_bearer(struct bw_kube_api *api, const char *token, char *why)
{
    size_t length = strcspn(token, "\r\n");
    if (length == 0 || token[length + strspn(token + length, "\r\n")])
        return bw_store_say(why, BW_EDENIED, "the token is empty or has several lines");
    forget_bearer(api);
    if (asprintf(&api->bearer, BEARER "%.*s", (int)length, token) < 0)
        api->bearer = NULL;
    return api->bearer ? 0 : BW_ENOMEM;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A pod's token lies in memory and is a few hundred bytes: reading it delays nobody. */
static int refresh_bearer(struct bw_kube_api *api, char *why)
{
    const char *path = api->config.token_file;
    struct stat now;
    size_t length;
    if (!path)
        return api->bearer || !api->config.token ? 0 : set_bearer(api, api->config.token, why);
    if (stat(path, &now) == 0 && api->bearer && is_same_file(&now, &api->token_file))
        return 0;
    char *token = bw_kube_read_file(path, BW_KUBE_TOKEN_MAX, &length, why);
    if (!token)
        return api->bearer ? 0 : BW_EDENIED; /* the old one may still do */
    int error = set_bearer(api, token, why);
    explicit_bzero(token, length);
    free(token);
    if (error == 0)
        api->token_file = now;
    return error;
}

int bw_kube_api_open(struct bw_kube_api *api, struct uv_loop_s *loop, char *why)
{
    const struct bw_kube_config *config = &api->config;
    struct bw_http_options options = {.ca_file = config->ca_file,
                                      .ca_pem = config->ca_pem,
                                      .cert_file = config->cert_file,
                                      .cert_pem = config->cert_pem,
                                      .key_file = config->key_file,
                                      .key_pem = config->key_pem,
                                      .verify_off = config->verify_off};
    int error = refresh_bearer(api, why);
    if (error == 0)
        error = bw_http_open(&api->http, loop, &options, why);
    if (error != 0)
        forget_bearer(api);
    return error;
}

void bw_kube_api_close(struct bw_kube_api *api, void (*closed)(void *context), void *context)
{
    forget_bearer(api);
    bw_kube_config_clear(&api->config);
    bw_http_close(api->http, closed, context);
}

/* ---- asking ---- */

bool bw_kube_api_is_quiet(const struct bw_kube_api *api)
{
    return now_ms() < api->quiet_until_ms;
}

static void write_address(char *out, const struct bw_kube_api *api, const struct bw_kube_ask *ask)
{
    snprintf(out, ADDRESS_MAX, "%s" COLLECTION "%s%s%s%s", api->config.server, api->space,
             ask->name ? "/" : "", ask->name ? ask->name : "", ask->query ? "?" : "",
             ask->query ? ask->query : "");
}

struct bw_http_request *bw_kube_api_send(struct bw_kube_api *api, const struct bw_kube_ask *ask,
                                         char *why)
{
    char address[ADDRESS_MAX];
    if (refresh_bearer(api, why) != 0)
        return NULL;
    const char *headers[] = {"Accept: application/json", agent,
                             ask->body ? "Content-Type: application/json" : api->bearer,
                             ask->body ? api->bearer : NULL, NULL};
    char *body = ask->body ? json_dumps(ask->body, JSON_COMPACT) : NULL;
    if (ask->body && !body) {
        bw_store_say(why, BW_EINVAL, "no memory, or a text that is not UTF-8");
        return NULL;
    }
    write_address(address, api, ask);
    struct bw_http_ask http = {.method = ask->method,
                               .url = address,
                               .headers = headers,
                               .body = body,
                               .length = body ? strlen(body) : 0,
                               .within_ns = ask->within_ns,
                               .urgent = ask->urgent,
                               .answer = ask->answer,
                               .line = ask->line,
                               .context = ask->context};
    struct bw_http_request *request = bw_http_send(api->http, &http);
    free(body);
    if (!request)
        bw_store_say(why, BW_ELIMIT, "too many requests at once");
    return request;
}

/* ---- judging ---- */

static void keep_quiet(struct bw_kube_api *api, const struct bw_http_answer *answer)
{
    const char *text = bw_http_header(answer, "Retry-After");
    uint64_t seconds;
    if (!text || bw_text_number(text, strlen(text), UINT32_MAX, &seconds) != 0)
        return; /* none, or a date, which would need a clock */
    if (seconds > QUIET_MAX_S)
        seconds = QUIET_MAX_S;
    api->quiet_until_ms = now_ms() + seconds * 1000;
}

/* The message of the Status in the body, one line of it. */
static void server_says(char *out, size_t size, const struct bw_http_answer *answer)
{
    json_t *status = json_loadb(answer->body, answer->length, 0, NULL);
    const char *message = json_string_value(json_object_get(status, "message"));
    snprintf(out, size, "%s", message ? message : "");
    for (char *at = out; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' ';
    json_decref(status);
}

static int error_of(int status)
{
    if (status == 401 || status == 403)
        return BW_EDENIED;
    if (status >= 200 && status < 300)
        return BW_EMALFORMED;
    return status >= 400 && status < 429 ? BW_EINVAL : BW_EIO;
}

void bw_kube_judge(struct bw_kube_api *api, const struct bw_http_answer *answer, bool wrote,
                   struct bw_kube_verdict *verdict)
{
    char said[160];
    int status = answer->status;
    api->away = true;
    bool undone = status ? status >= 300 && status < 500 && status != 408 : !answer->sent;
    verdict->outcome = undone || !wrote ? BW_OUTCOME_UNAVAILABLE : BW_OUTCOME_UNKNOWN;
    if (status == 0) {
        verdict->error = answer->error ? answer->error : BW_EIO;
        bw_store_say(verdict->why, 0, "%.60s: %.180s", api->config.server, answer->why);
        return;
    }
    verdict->error = error_of(status);
    if (status == 429 || status == 503)
        keep_quiet(api, answer);
    if (status == 401 && api->config.token_file)
        forget_bearer(api);
    server_says(said, sizeof said, answer);
    if (verdict->error == BW_EMALFORMED)
        bw_store_say(verdict->why, 0, "the API server's answer is not what Leases look like");
    else
        bw_store_say(verdict->why, 0, "the API server answers %d%s%s", status, said[0] ? ": " : "",
                     said);
}
