/* Requests to an API server; see client.h. */
#include "store/kubernetes/client.h"

#include "core/base/parse_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define COLLECTION        "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
#define ADDRESS_MAX       2048u
#define RETRY_AFTER_MAX_S 10u /* longest Retry-After that is obeyed */
#define BEARER            "Authorization: Bearer "
#define NEEDED_VERBS      " (the Role needs list (or get), watch, update and create on leases)"

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
        return bw_store_explain(why, BW_EDENIED, "the token is empty or has more than one line");
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

/* A pod's token is a few hundred bytes on a memory file system, so reading it does not block. */
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
        return api->bearer ? 0 : BW_EDENIED; /* the old token may still be valid */
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

/* ---- sending ---- */

bool bw_kube_api_must_wait(const struct bw_kube_api *api)
{
    return now_ms() < api->retry_after_ms;
}

static void write_address(char *out, const struct bw_kube_api *api, const struct bw_kube_ask *ask)
{
    snprintf(out, ADDRESS_MAX, "%s" COLLECTION "%s%s%s%s", api->config.server, api->namespace,
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
        bw_store_explain(why, BW_EINVAL, "out of memory, or a text is not valid UTF-8");
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
        bw_store_explain(why, BW_ELIMIT, "too many requests in progress");
    return request;
}

/* ---- failed answers ---- */

static void obey_retry_after(struct bw_kube_api *api, const struct bw_http_answer *answer)
{
    const char *text = bw_http_header(answer, "Retry-After");
    uint64_t seconds;
    if (!text || bw_text_number(text, strlen(text), UINT32_MAX, &seconds) != 0)
        return; /* missing, or a date, which would need a wall clock */
    if (seconds > RETRY_AFTER_MAX_S)
        seconds = RETRY_AFTER_MAX_S;
    api->retry_after_ms = now_ms() + seconds * 1000;
}

/* Copies the message of the Status in the body, as one line. */
static void copy_message(char *out, size_t size, const struct bw_http_answer *answer)
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
    char message_text[160];
    int status = answer->status;
    api->unreachable = true;
    bool undone = status ? status >= 300 && status < 500 && status != 408 : !answer->sent;
    verdict->outcome = undone || !wrote ? BW_OUTCOME_UNAVAILABLE : BW_OUTCOME_UNKNOWN;
    if (status == 0) {
        verdict->error = answer->error ? answer->error : BW_EIO;
        bw_store_explain(verdict->why, 0, "%.60s: %.180s", api->config.server, answer->why);
        return;
    }
    verdict->error = error_of(status);
    if (status == 429 || status == 503)
        obey_retry_after(api, answer);
    if (status == 401 && api->config.token_file)
        forget_bearer(api);
    copy_message(message_text, sizeof message_text, answer);
    if (verdict->error == BW_EMALFORMED)
        bw_store_explain(verdict->why, 0, "the API server's answer is not a valid Lease");
    else
        bw_store_explain(verdict->why, 0, "the API server returned HTTP %d%s%s%s", status,
                         status == 403 ? NEEDED_VERBS : "", message_text[0] ? ": " : "",
                         message_text);
}
