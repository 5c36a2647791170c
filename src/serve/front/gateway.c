/* Paths, JSON requests and answers; see gateway.h. */
#include "serve/front/gateway.h"

#include "core/base/error.h"
#include "serve/api/auth.h"
#include "serve/api/metrics.h"
#include "serve/front/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MAX_BYTES 128u

static const struct {
    unsigned status;
    const char *reason;
} reasons[] = {{200, "OK"},
               {400, "Bad Request"},
               {401, "Unauthorized"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {408, "Request Timeout"},
               {412, "Precondition Failed"},
               {413, "Content Too Large"},
               {417, "Expectation Failed"},
               {429, "Too Many Requests"},
               {431, "Request Header Fields Too Large"},
               {500, "Internal Server Error"},
               {501, "Not Implemented"},
               {503, "Service Unavailable"},
               {505, "HTTP Version Not Supported"}};

const char *bw_http_reason(unsigned status)
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

static void say(struct bw_gateway *gateway, unsigned status, const char *type, const char *body,
                size_t length)
{
    gateway->begun = true;
    gateway->wire->head(gateway, status, type, (int64_t)length);
    gateway->wire->body(gateway, body, length);
}

static void say_error(struct bw_gateway *gateway, unsigned status, int code, const char *message)
{
    struct bw_json_text text = {0};
    char digits[32];
    bw_json_put(&text, "{\"error\":");
    bw_json_put_string(&text, message);
    bw_json_put(&text, ",\"message\":");
    bw_json_put_string(&text, message);
    snprintf(digits, sizeof digits, ",\"code\":%d}", code);
    bw_json_put(&text, digits);
    say(gateway, status, "application/json", text.at, text.failed ? 0 : text.used);
    free(text.at);
}

void bw_gateway_refuse(struct bw_gateway *gateway, unsigned status, const char *message)
{
    enum bw_code code = status == 404                    ? BW_CODE_NOT_FOUND
                        : status == 405 || status == 501 ? BW_CODE_UNIMPLEMENTED
                                                         : BW_CODE_INVALID;
    gateway->call.ended = true;
    say_error(gateway, status, code, message ? message : bw_http_reason(status));
    gateway->wire->end(gateway);
}

/* ── answers of a method ── */

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
        say(gateway, 200, "application/json", text.at, text.used);
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
    bw_json_put_string(&text, bw_http_reason(status));
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
        say_error(gateway, status_of(code), code, message);
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

/* ── requests ── */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Older names of the same paths: /v3beta/…, /v3alpha/…, and leases below kv. */
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

/* One message of the body to the method; false: the call has ended, or the body has. */
static bool take_message(struct bw_call *call, const char **body, size_t *length)
{
    ProtobufCMessage *message;
    char why[BW_JSON_WHY_MAX + 1];
    size_t used;
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
    else
        bw_call_take(call, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return !call->ended && *length;
}

static void ask_method(struct bw_gateway *gateway, const struct bw_method *method, const char *body,
                       size_t length)
{
    struct bw_replica_status status;
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
    bw_replica_status(bw_service_replica(call->service), &status);
    if (status.leader == BW_NODE_NONE)
        bw_call_leaderless(call);
    if (call->ended)
        return;
    if (bw_method_streams(method) && length == 0) {
        bw_call_end(call, BW_CODE_INVALID, "json: no request in the body");
        return;
    }
    if (!bw_auth_may(call)) /* nothing is parsed for a caller without the right to ask */
        return;
    if (!bw_json_is_bounded(body, length)) {
        bw_call_end(call, BW_CODE_INVALID, "json: too many messages or fields in one body");
        return;
    }
    while (take_message(call, &body, &length))
        ;
    bw_call_no_more(call);
}

static void say_version(struct bw_gateway *gateway)
{
    static const char text[] =
        "{\"etcdserver\":\"" BW_API_VERSION "\",\"etcdcluster\":\"" BW_API_CLUSTER_VERSION "\"}";
    say(gateway, 200, "application/json", text, sizeof text - 1);
}

static void say_health(struct bw_gateway *gateway)
{
    struct bw_replica_status status;
    bw_replica_status(bw_service_replica(gateway->front->options.service), &status);
    bool healthy = status.leader && !bw_service_awaits_users(gateway->front->options.service);
    const char *text = healthy ? "{\"health\":\"true\"}" : "{\"health\":\"false\"}";
    say(gateway, healthy ? 200 : 503, "application/json", text, strlen(text));
}

static void say_metrics(struct bw_gateway *gateway)
{
    struct bw_json_text text = {0};
    bw_metrics_write(&text, gateway->front);
    say(gateway, text.failed ? 503 : 200, "text/plain; version=0.0.4; charset=utf-8", text.at,
        text.failed ? 0 : text.used);
    free(text.at);
}

static const struct {
    const char *path;
    void (*say)(struct bw_gateway *gateway);
} plain_paths[] = {{"/version", say_version}, {"/health", say_health}, {"/metrics", say_metrics}};

static bool ask_plain(struct bw_gateway *gateway, enum bw_verb verb, const char *path)
{
    for (size_t i = 0; i < sizeof plain_paths / sizeof plain_paths[0]; i++) {
        if (strcmp(path, plain_paths[i].path) != 0)
            continue;
        if (verb != BW_VERB_GET && verb != BW_VERB_HEAD) {
            gateway->allow = "GET, HEAD";
            bw_gateway_refuse(gateway, 405, NULL);
            return true;
        }
        gateway->call.ended = true;
        plain_paths[i].say(gateway);
        gateway->wire->end(gateway);
        return true;
    }
    return false;
}

void bw_gateway_ask(struct bw_gateway *gateway, enum bw_verb verb, const char *path,
                    const char *body, size_t length)
{
    char plain[PATH_MAX_BYTES] = "";
    size_t end = strcspn(path, "?");
    if (end < sizeof plain)
        memcpy(plain, path, end);
    if (ask_plain(gateway, verb, plain))
        return;
    const struct bw_method *method = find_method(plain);
    if (!method)
        bw_gateway_refuse(gateway, 404, NULL);
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
