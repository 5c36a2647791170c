/* Asks sentinels for the master; see sentinel.h. */
#include "store/redis/sentinel.h"

#include "core/base/parse_values.h"

#include <stdio.h>
#include <string.h>

static void try_next(struct redis_sentinel *sentinel);

static void stop_wire(struct redis_sentinel *sentinel)
{
    uv_timer_stop(&sentinel->timer);
    if (sentinel->wire)
        redis_wire_close(sentinel->wire);
    sentinel->wire = NULL;
}

static const struct bw_url_host *present(const struct redis_sentinel *sentinel)
{
    return &sentinel->host[(sentinel->first + sentinel->tried) % sentinel->hosts];
}

static void on_end(void *context, const char *why)
{
    struct redis_sentinel *sentinel = context;
    const struct bw_url_host *host = present(sentinel);
    snprintf(sentinel->why, sizeof sentinel->why, "sentinel %.80s:%u: %.150s", host->name,
             (unsigned)host->port, why);
    stop_wire(sentinel);
    sentinel->tried++;
    try_next(sentinel);
}

static void on_timer(uv_timer_t *timer)
{
    on_end(timer->data, "no reply within the timeout");
}

static bool read_master(const redisReply *reply, struct bw_url_host *master)
{
    uint64_t port;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !reply->element[0]->str ||
        !reply->element[1]->str || reply->element[0]->len == 0 ||
        reply->element[0]->len >= sizeof master->name ||
        bw_text_number(reply->element[1]->str, reply->element[1]->len, 65535, &port) != 0)
        return false;
    snprintf(master->name, sizeof master->name, "%s", reply->element[0]->str);
    master->port = (uint16_t)port;
    return true;
}

static void on_reply(void *context, const redisReply *reply)
{
    struct redis_sentinel *sentinel = context;
    struct bw_url_host master;
    char why[BW_WHY_MAX + 1] = "unknown master name";
    if (reply->type == REDIS_REPLY_ERROR) {
        snprintf(why, sizeof why, "%.160s", reply->str);
        on_end(sentinel, why);
    } else if (--sentinel->replies > 0) {
        return; /* reply to AUTH */
    } else if (!read_master(reply, &master)) {
        on_end(sentinel, why);
    } else {
        sentinel->first = (sentinel->first + sentinel->tried) % sentinel->hosts;
        stop_wire(sentinel);
        sentinel->answer(sentinel->context, &master, "");
    }
}

static void send_words(struct redis_sentinel *sentinel, int count, const char **words)
{
    char *text = NULL;
    long long length = redisFormatCommandArgv(&text, count, words, NULL);
    sentinel->replies++;
    if (length > 0)
        redis_wire_send(sentinel->wire, text, (size_t)length);
    redisFreeCommand(text);
}

static void on_ready(void *context)
{
    struct redis_sentinel *sentinel = context;
    const char *auth[] = {"AUTH", sentinel->password};
    const char *ask[] = {"SENTINEL", "get-master-addr-by-name", sentinel->master};
    sentinel->replies = 0;
    if (sentinel->password[0])
        send_words(sentinel, 2, auth);
    send_words(sentinel, 3, ask);
}

static void try_next(struct redis_sentinel *sentinel)
{
    struct redis_wire_events events = {
        .context = sentinel, .ready = on_ready, .reply = on_reply, .end = on_end};
    if (sentinel->tried == sentinel->hosts) {
        sentinel->answer(sentinel->context, NULL, sentinel->why);
        return;
    }
    const struct bw_url_host *host = present(sentinel);
    sentinel->wire =
        redis_wire_open(sentinel->loop, host->name, host->port, sentinel->tls, &events);
    uv_timer_start(&sentinel->timer, on_timer, sentinel->wire ? sentinel->share_ms : 0, 0);
}

void redis_sentinel_open(struct redis_sentinel *sentinel)
{
    uv_timer_init(sentinel->loop, &sentinel->timer);
    sentinel->timer.data = sentinel;
}

void redis_sentinel_ask(struct redis_sentinel *sentinel, unsigned share_ms,
                        void (*answer)(void *context, const struct bw_url_host *master,
                                       const char *why),
                        void *context)
{
    stop_wire(sentinel);
    sentinel->answer = answer;
    sentinel->context = context;
    sentinel->share_ms = share_ms;
    sentinel->tried = 0;
    try_next(sentinel);
}

void redis_sentinel_stop(struct redis_sentinel *sentinel)
{
    stop_wire(sentinel);
}

static void on_closed(uv_handle_t *handle)
{
    struct redis_sentinel *sentinel = handle->data;
    sentinel->on_closed(sentinel);
}

void redis_sentinel_close(struct redis_sentinel *sentinel,
                          void (*closed)(struct redis_sentinel *sentinel))
{
    stop_wire(sentinel);
    sentinel->on_closed = closed;
    uv_close((uv_handle_t *)&sentinel->timer, on_closed);
}
