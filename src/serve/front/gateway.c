/* Routes paths, reads JSON requests and writes responses; see gateway.h. */
#include "serve/front/gateway.h"

#include "core/base/error.h"
#include "core/registry/alarm.h"
#include "dashboard/page.h"
#include "serve/auth/auth.h"
#include "serve/front/json.h"
#include "serve/front/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES 128u
#define SIZE_TEXT      96u

static const struct {
    unsigned status;
    const char *reason;
} reasons[] = {{200, "OK"},
               {304, "Not Modified"},
               {400, "Bad Request"},
               {401, "Unauthorized"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {408, "Request Timeout"},
               {412, "Precondition Failed"},
               {417, "Expectation Failed"},
               {421, "Misdirected Request"},
               {429, "Too Many Requests"},
               {431, "Request Header Fields Too Large"},
               {500, "Internal Server Error"},
               {501, "Not Implemented"},
               {503, "Service Unavailable"},
               {505, "HTTP Version Not Supported"}};

const char *bw_http_status_text(unsigned status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static unsigned status_of(enum bw_code code)
{
    switch (code) {
    case BW_CODE_OK:
        return 200;
    case BW_CODE_CANCELLED:
        return 408;
    case BW_CODE_INVALID:
    case BW_CODE_OUT_OF_RANGE:
        return 400;
    case BW_CODE_NOT_FOUND:
        return 404;
    case BW_CODE_DENIED:
        return 403;
    case BW_CODE_EXHAUSTED:
        return 429;
    case BW_CODE_PRECONDITION:
        return 412;
    case BW_CODE_UNIMPLEMENTED:
        return 501;
    case BW_CODE_UNAVAILABLE:
        return 503;
    case BW_CODE_UNAUTHENTICATED:
        return 401;
    default:
        return 500;
    }
}

static void respond(struct bw_gateway *gateway, unsigned status, const char *type, const char *body,
                    size_t length)
{
    gateway->begun = true;
    gateway->wire->head(gateway, status, type, (int64_t)length);
    gateway->wire->body(gateway, body, length);
}

static void respond_error(struct bw_gateway *gateway, unsigned status, int code,
                          const char *message)
{
    struct bw_json_text text = {0};
    char digits[32];
    bw_json_put(&text, "{\"error\":");
    bw_json_put_string(&text, message);
    bw_json_put(&text, ",\"message\":");
    bw_json_put_string(&text, message);
    snprintf(digits, sizeof digits, ",\"code\":%d}", code);
    bw_json_put(&text, digits);
    respond(gateway, status, "application/json", text.at, text.failed ? 0 : text.used);
    free(text.at);
}

void bw_gateway_refuse(struct bw_gateway *gateway, unsigned status, const char *message)
{
    enum bw_code code = status == 404                    ? BW_CODE_NOT_FOUND
                        : status == 429                  ? BW_CODE_EXHAUSTED
                        : status == 405 || status == 501 ? BW_CODE_UNIMPLEMENTED
                                                         : BW_CODE_INVALID;
    gateway->call.ended = true;
    respond_error(gateway, status, code, message ? message : bw_http_status_text(status));
    gateway->wire->end(gateway);
}

/* ---- too large requests, in the words of grpc-go ---- */

static void size_text(char out[SIZE_TEXT], uint64_t bytes)
{
    snprintf(out, SIZE_TEXT, "grpc: received message larger than max (%llu vs. %u)",
             (unsigned long long)bytes, BW_FRONT_MESSAGE_MAX);
}

void bw_gateway_refuse_size(struct bw_gateway *gateway, uint64_t bytes)
{
    char text[SIZE_TEXT];
    size_text(text, bytes);
    bw_gateway_refuse(gateway, 429, text);
}

bool bw_call_is_oversize(struct bw_call *call, size_t bytes)
{
    char text[SIZE_TEXT];
    if (bytes <= BW_FRONT_MESSAGE_MAX)
        return false;
    size_text(text, bytes);
    bw_call_end(call, BW_CODE_EXHAUSTED, text);
    return true;
}

/* ---- responses of a method ---- */

static void begin_stream(struct bw_gateway *gateway, unsigned status)
{
    if (!gateway->begun)
        gateway->wire->head(gateway, status, "application/json", -1);
    gateway->begun = true;
}

static void on_send(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_gateway *gateway = call->wire;
    struct bw_json_text text = {0};
    bool streams = bw_method_streams(call->method);
    if (streams)
        bw_json_put(&text, "{\"result\":");
    bw_json_write(&text, message);
    if (streams)
        bw_json_put(&text, "}\n");
    if (text.failed) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: no memory");
    } else if (!gateway->wire->is_admitted(gateway, text.used)) {
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_GATEWAY_UNREAD);
    } else if (streams) {
        begin_stream(gateway, 200);
        gateway->wire->body(gateway, text.at, text.used);
    } else {
        respond(gateway, 200, "application/json", text.at, text.used);
    }
    free(text.at);
}

static void end_stream_with(struct bw_gateway *gateway, enum bw_code code, const char *message)
{
    struct bw_json_text text = {0};
    char numbers[80];
    unsigned status = status_of(code);
    snprintf(numbers, sizeof numbers,
             "{\"error\":{\"grpc_code\":%d,\"http_code\":%u,\"message\":", code, status);
    bw_json_put(&text, numbers);
    bw_json_put_string(&text, message);
    bw_json_put(&text, ",\"http_status\":");
    bw_json_put_string(&text, bw_http_status_text(status));
    bw_json_put(&text, "}}\n");
    begin_stream(gateway, status);
    gateway->wire->body(gateway, text.at, text.failed ? 0 : text.used);
    free(text.at);
}

static void on_end(struct bw_call *call, enum bw_code code, const char *message)
{
    struct bw_gateway *gateway = call->wire;
    if (bw_method_streams(call->method) && code != BW_CODE_OK)
        end_stream_with(gateway, code, message);
    else if (bw_method_streams(call->method))
        begin_stream(gateway, 200);
    else if (!gateway->begun)
        respond_error(gateway, status_of(code), code, message);
    gateway->wire->end(gateway);
}

static bool on_is_crowded(struct bw_call *call)
{
    struct bw_gateway *gateway = call->wire;
    return gateway->wire->is_crowded(gateway);
}

static bool on_is_full(struct bw_call *call)
{
    struct bw_gateway *gateway = call->wire;
    return gateway->wire->is_full(gateway);
}

/* ---- requests ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Accepts the older names of the same paths: /v3beta/…, /v3alpha/…, and leases below kv. */
static const struct bw_method *find_method(const char *path)
{
    char plain[PATH_MAX_BYTES];
    const char *rest = begins(path, "/v3/")        ? path + 4
                       : begins(path, "/v3beta/")  ? path + 8
                       : begins(path, "/v3alpha/") ? path + 9
                                                   : NULL;
    if (!rest)
        return NULL;
    if (begins(rest, "kv/lease/"))
        rest += 3;
    snprintf(plain, sizeof plain, "/v3/%s", rest);
    for (const struct bw_method *method = bw_methods; method->path; method++)
        if (method->json && strcmp(method->json, plain) == 0)
            return method;
    return NULL;
}

/* Passes one message of the body to the method. Returns false at the end of the call or of the
 * body. */
static bool take_message(struct bw_call *call, const char **body, size_t *length)
{
    ProtobufCMessage *message;
    char why[BW_JSON_WHY_MAX + 1];
    size_t used, packed;
    if (!bw_call_may_take(call))
        return false;
    if (bw_json_read(call->method->request, *body, *length, &message, &used, why) != 0) {
        bw_call_end(call, BW_CODE_INVALID, why);
        return false;
    }
    *body += used;
    *length -= used;
    while (*length && **body && strchr(" \t\r\n", **body))
        ++*body, --*length;
    if (*length && call->method->arity != BW_BIDI_STREAM)
        bw_call_end(call, BW_CODE_INVALID, "json: unexpected data after the request");
    else if (!bw_call_is_oversize(call, packed = protobuf_c_message_get_packed_size(message)))
        bw_call_take(call, message, packed);
    protobuf_c_message_free_unpacked(message, NULL);
    return !call->ended && *length;
}

static void ask_method(struct bw_gateway *gateway, const struct bw_method *method, const char *body,
                       size_t length)
{
    struct bw_call *call = &gateway->call;
    *call = (struct bw_call){.service = gateway->front->options.service,
                             .method = method,
                             .needs_leader = gateway->needs_leader,
                             .caller = gateway->caller,
                             .wire = gateway,
                             .send = on_send,
                             .end = on_end,
                             .is_full = on_is_full,
                             .is_crowded = on_is_crowded};
    bw_call_check_leader(call);
    if (call->ended)
        return;
    if (bw_method_streams(method) && length == 0) {
        bw_call_end(call, BW_CODE_INVALID, "json: no request in the body");
        return;
    }
    if (!bw_auth_may(call)) /* parse nothing for an unauthorized caller */
        return;
    if (!bw_json_is_bounded(body, length)) {
        bw_call_end(call, BW_CODE_INVALID, "json: too many messages or fields in one body");
        return;
    }
    while (take_message(call, &body, &length))
        ;
    bw_call_no_more(call);
}

static void respond_version(struct bw_gateway *gateway, const char *query)
{
    (void)query;
    static const char text[] =
        "{\"etcdserver\":\"" BW_API_VERSION "\",\"etcdcluster\":\"" BW_API_CLUSTER_VERSION "\"}";
    respond(gateway, 200, "application/json", text, sizeof text - 1);
}

/* Whether the query has this parameter: `word` is its name and value. */
static bool asks_for(const char *query, const char *word)
{
    size_t length = strlen(word);
    for (; *query; query += strcspn(query, "&")) {
        query += strspn(query, "?&");
        if (strncmp(query, word, length) == 0 && (query[length] == '&' || query[length] == '\0'))
            return true;
    }
    return false;
}

/* As in etcd, a node is unhealthy while there is an alarm, except if the client excludes it. */
static void respond_health(struct bw_gateway *gateway, const char *query)
{
    struct bw_replica_status status;
    bw_replica_status(bw_service_replica(gateway->front->options.service), &status);
    struct bw_service *service = gateway->front->options.service;
    bool alarm = bw_registry_alarms(bw_service_registry(service))->count > 0 &&
                 !asks_for(query, "exclude=NOSPACE");
    bool healthy = status.leader && !bw_service_awaits_users(service) && !alarm;
    const char *text = healthy ? "{\"health\":\"true\"}" : "{\"health\":\"false\"}";
    respond(gateway, healthy ? 200 : 503, "application/json", text, strlen(text));
}

static void respond_metrics(struct bw_gateway *gateway, const char *query)
{
    (void)query;
    struct bw_json_text text = {0};
    bw_metrics_write(&text, gateway->front);
    respond(gateway, text.failed ? 503 : 200, "text/plain; version=0.0.4; charset=utf-8", text.at,
            text.failed ? 0 : text.used);
    free(text.at);
}

/* The page is static: it asks the API for everything that it shows. Browsers check for a new
 * version of the program at every visit, and get 304 if they have the current one. */
static void respond_page(struct bw_gateway *gateway, const char *query)
{
    const struct bw_web_page *page = &bw_dashboard_serve;
    bool packed = gateway->accepts_gzip;
    size_t length = packed ? page->gzip_length : page->plain_length;
    const struct bw_http_field fields[] = {{"content-security-policy", page->policy},
                                           {"x-frame-options", "DENY"},
                                           {"x-content-type-options", "nosniff"},
                                           {"referrer-policy", "no-referrer"},
                                           {"cross-origin-opener-policy", "same-origin"},
                                           {"cache-control", "no-cache"},
                                           {"vary", "accept-encoding"},
                                           {"etag", page->etag},
                                           {packed ? "content-encoding" : NULL, "gzip"},
                                           {NULL, NULL}};
    static const char type[] = "text/html; charset=utf-8";
    (void)query;
    gateway->fields = fields; /* the head is written before this function returns */
    if (gateway->has_page) {
        gateway->begun = true;
        gateway->wire->head(gateway, 304, type, (int64_t)length);
    } else {
        respond(gateway, 200, type, packed ? page->gzip : page->plain, length);
    }
    gateway->fields = NULL;
}

static const struct {
    const char *path;
    void (*respond)(struct bw_gateway *gateway, const char *query);
} plain_paths[] = {{"/", respond_page},
                   {"/version", respond_version},
                   {"/health", respond_health},
                   {"/metrics", respond_metrics}};

/* Browsers send no Origin with a GET to the page's own site, so Host alone shows that a site lets
 * its name resolve to this machine (origin.h). Other machines may scrape a node by its name. */
static bool refuses_name(struct bw_gateway *gateway)
{
    if (!gateway->by_name || !gateway->front->is_local)
        return false;
    bw_gateway_refuse(gateway, 421,
                      "bellwether: refused a request by host name on a loopback address; use the "
                      "IP address or localhost");
    return true;
}

static bool ask_plain(struct bw_gateway *gateway, enum bw_verb verb, const char *path,
                      const char *query)
{
    for (size_t i = 0; i < sizeof plain_paths / sizeof plain_paths[0]; i++) {
        if (strcmp(path, plain_paths[i].path) != 0)
            continue;
        if (verb != BW_VERB_GET && verb != BW_VERB_HEAD) {
            gateway->allow = "GET, HEAD";
            bw_gateway_refuse(gateway, 405, NULL);
            return true;
        }
        if (plain_paths[i].respond != respond_page && refuses_name(gateway))
            return true;
        gateway->call.ended = true;
        plain_paths[i].respond(gateway, query);
        gateway->wire->end(gateway);
        return true;
    }
    return false;
}

/* Refuses requests that pages of other sites make a browser send (origin.h). With TLS, a foreign
 * name does not match the certificate; with users, a foreign page has no token. */
static bool refuses_origin(struct bw_gateway *gateway)
{
    struct bw_users_status users;
    bw_registry_users_status(bw_service_registry(gateway->front->options.service), &users);
    if (gateway->origin == BW_ORIGIN_FOREIGN)
        bw_gateway_refuse(gateway, 403,
                          "bellwether: refused a request from a page of another site (the Origin "
                          "field differs from Host)");
    else if (gateway->origin == BW_ORIGIN_NAME && !gateway->front->options.credentials &&
             !users.enabled)
        bw_gateway_refuse(
            gateway, 403,
            "bellwether: refused a request from a browser by host name; open the page "
            "by IP address or localhost, or enable TLS or users");
    else
        return false;
    return true;
}

void bw_gateway_ask(struct bw_gateway *gateway, enum bw_verb verb, const char *path,
                    const char *body, size_t length)
{
    char plain[PATH_MAX_BYTES] = "";
    size_t end = strcspn(path, "?");
    if (end < sizeof plain)
        memcpy(plain, path, end);
    if (ask_plain(gateway, verb, plain, path + end))
        return;
    const struct bw_method *method = find_method(plain);
    if (!method)
        bw_gateway_refuse(gateway, 404, NULL);
    else if (refuses_origin(gateway))
        return;
    else if (verb == BW_VERB_POST)
        ask_method(gateway, method, length ? body : "", length);
    else {
        gateway->allow = "POST";
        bw_gateway_refuse(gateway, 405, NULL);
    }
}

void bw_gateway_gone(struct bw_gateway *gateway)
{
    if (gateway->call.method)
        bw_call_gone(&gateway->call);
    gateway->call = (struct bw_call){0};
}
