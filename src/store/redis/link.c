/* Keeps one Redis instance connected; see link.h. */
#include "store/redis/link.h"

#include "core/base/parse_values.h"
#include "store/redis/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST_MS 20u
#define PAUSE_MOST_MS  1000u
#define PING_MS        1000u /* ping interval of an idle subscriber */
#define LATE_MS        20u /* a timer that fires later than this shows that the loop did not run */

static void connect_now(struct redis_link *link);
static void on_timer(uv_timer_t *timer);

/* ---- commands ---- */

static void append(struct redis_command ***end, struct redis_command *command)
{
    command->next = NULL;
    **end = command;
    *end = &command->next;
}

static struct redis_command *take_first(struct redis_command **first, struct redis_command ***end)
{
    struct redis_command *command = *first;
    if (!(*first = command->next))
        *end = first;
    return command;
}

static void answer(struct redis_command *command, const redisReply *reply, bool sent)
{
    command->link->count--;
    if (command->context)
        command->answer(command, reply, sent);
    free(command);
}

static void fail_all(struct redis_link *link)
{
    while (link->unanswered)
        answer(take_first(&link->unanswered, &link->unanswered_end), NULL, true);
    while (link->waiting)
        answer(take_first(&link->waiting, &link->waiting_end), NULL, false);
}

static void arm(struct redis_link *link, unsigned ms)
{
    link->due_ms = uv_now(link->loop) + ms;
    uv_timer_start(&link->timer, on_timer, ms, 0);
}

static void set_why(struct redis_link *link, const char *why)
{
    snprintf(link->why, sizeof link->why, "%.80s:%u: %.160s", link->host.name,
             (unsigned)link->host.port, why);
}

/* A command is missing on the wire, so later replies would be matched to the wrong commands. The
 * timer ends the connection in the next turn of the loop: the caller may run inside an event of
 * this connection. Until then, the link sends nothing and ignores all replies. */
static void fail_write(struct redis_link *link, const char *why)
{
    link->write_failure = why;
    set_why(link, why);
    arm(link, 0);
}

static void transmit(struct redis_link *link, const struct redis_command *command)
{
    if (link->write_failure)
        return;
    int error = redis_wire_send(link->wire, command->bytes, command->length);
    if (error != 0)
        fail_write(link, error == BW_ELIMIT ? "the server does not read: the send queue is full"
                                            : "cannot send a command to the server");
}

static void put_on_wire(struct redis_link *link, struct redis_command *command)
{
    if (!link->unanswered) {
        uv_update_time(link->loop); /* the caller may not have run the loop for a long time */
        link->received_ms = uv_now(link->loop);
        link->overdue_once = false;
        arm(link, link->timeout_ms);
    }
    command->sent_ms = uv_now(link->loop);
    append(&link->unanswered_end, command);
    transmit(link, command);
}

static struct redis_command *new_command(struct redis_link *link, unsigned count,
                                         const char *const *words, const size_t *lengths)
{
    char *text = NULL;
    long long length = redisFormatCommandArgv(&text, (int)count, (const char **)words, lengths);
    struct redis_command *command = length > 0 ? malloc(sizeof *command + (size_t)length) : NULL;
    if (command) {
        *command = (struct redis_command){.link = link, .length = (size_t)length};
        memcpy(command->bytes, text, (size_t)length);
    }
    redisFreeCommand(text);
    return command;
}

struct redis_command *redis_link_send(struct redis_link *link, unsigned count,
                                      const char *const *words, const size_t *lengths,
                                      void (*on_answer)(struct redis_command *command,
                                                        const redisReply *reply, bool sent),
                                      void *context)
{
    if ((!link->up && !link->connecting) || link->write_failure ||
        link->count >= REDIS_COMMANDS_MAX)
        return NULL;
    struct redis_command *command = new_command(link, count, words, lengths);
    if (!command)
        return NULL;
    command->answer = on_answer;
    command->context = context;
    command->node = link->node;
    link->count++;
    if (link->up)
        put_on_wire(link, command);
    else
        append(&link->waiting_end, command);
    return command;
}

void redis_command_forget(struct redis_command *command)
{
    command->context = NULL;
}

/* ---- connect and disconnect ---- */

bool redis_is_denial(const char *error)
{
    return strncmp(error, "WRONGPASS", 9) == 0 || strncmp(error, "NOAUTH", 6) == 0 ||
           strncmp(error, "NOPERM", 6) == 0;
}

static void become_down(struct redis_link *link, const char *why)
{
    if (link->closed || (!link->up && !link->connecting))
        return;
    link->denied = redis_is_denial(why);
    set_why(link, why);
    if (link->wire)
        redis_wire_close(link->wire);
    link->wire = NULL;
    link->write_failure = NULL;
    if (link->sentinel)
        redis_sentinel_stop(link->sentinel);
    link->up = link->connecting = false;
    link->handshake_pending = 0;
    link->started_ms = 0;
    arm(link, (unsigned)bw_rng_between(&link->rng, link->pause_ms / 2, link->pause_ms));
    link->pause_ms = link->pause_ms * 2 < PAUSE_MOST_MS ? link->pause_ms * 2 : PAUSE_MOST_MS;
    fail_all(link);
    link->events.down(link);
}

static void become_up(struct redis_link *link)
{
    link->connecting = false;
    link->up = true;
    link->pause_ms = PAUSE_FIRST_MS;
    link->generation++;
    link->why[0] = '\0';
    link->denied = false;
    uv_timer_stop(&link->timer);
    if (link->events.message)
        arm(link, PING_MS);
    struct redis_command *command = link->waiting;
    link->waiting = NULL;
    link->waiting_end = &link->waiting;
    while (command) {
        struct redis_command *next = command->next;
        if (command->context && link->write_failure) {
            append(&link->waiting_end, command);
        } else if (command->context) {
            put_on_wire(link, command);
        } else {
            link->count--;
            free(command);
        }
        command = next;
    }
    link->events.up(link);
}

void redis_link_drop(struct redis_link *link, const char *why)
{
    become_down(link, why);
}

/* ---- handshake ---- */

/* Copies the value of an INFO line "key:value"; "" if there is no such line. */
static void info_value(const redisReply *info, const char *key, char *value, size_t size)
{
    const char *at = strstr(info->str, key);
    size_t length = strlen(key);
    while (at && at != info->str && at[-1] != '\n')
        at = strstr(at + 1, key);
    snprintf(value, size, "%.*s", at ? (int)strcspn(at + length, "\r\n") : 0,
             at ? at + length : "");
}

static void note_info(struct redis_link *link, const redisReply *info)
{
    char version[32], role[16], replicas[16], uptime[24], evicts[32], appends[8];
    uint64_t now = uv_now(link->loop), seconds;
    info_value(info, "redis_version:", version, sizeof version);
    info_value(info, "role:", role, sizeof role);
    info_value(info, "connected_slaves:", replicas, sizeof replicas);
    info_value(info, "uptime_in_seconds:", uptime, sizeof uptime);
    info_value(info, "maxmemory_policy:", evicts, sizeof evicts);
    info_value(info, "aof_enabled:", appends, sizeof appends);
    if (bw_text_number(uptime, strlen(uptime), now / 1000, &seconds) == 0)
        link->started_ms = now - seconds * 1000;
    snprintf(link->about, sizeof link->about,
             "Redis %s, %s with %s replicas, append-only file %s, maxmemory-policy %s", version,
             role, replicas, strcmp(appends, "1") == 0 ? "on" : "off", evicts);
}

static bool is_replica(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->str &&
           strcmp(reply->element[0]->str, "master") != 0;
}

/* NOPERM is accepted: a user without permission for INFO or ROLE can still lead. */
static void on_handshake_reply(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_link *link = command->link;
    char why[BW_WHY_MAX + 1];
    (void)sent;
    if (!reply)
        return;
    bool denied = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0;
    if (reply->type == REDIS_REPLY_ERROR && !denied) {
        snprintf(why, sizeof why, "%.*s", reply->len < 160 ? (int)reply->len : 160, reply->str);
        become_down(link, why);
        return;
    }
    if (reply->type == REDIS_REPLY_STRING)
        note_info(link, reply);
    if (link->sentinel && is_replica(reply)) {
        become_down(link, "the server is a replica; the sentinels have not finished the failover");
        return;
    }
    if (--link->handshake_pending == 0)
        become_up(link);
}

static void send_handshake(struct redis_link *link, unsigned count, const char *const *words)
{
    struct redis_command *command = new_command(link, count, words, NULL);
    if (!command) {
        fail_write(link, "no memory for a command");
        return;
    }
    command->answer = on_handshake_reply;
    command->context = link;
    link->count++;
    link->handshake_pending++;
    append(&link->unanswered_end, command);
    transmit(link, command);
}

static void on_ready(void *context)
{
    struct redis_link *link = context;
    const struct redis_login *login = link->login;
    char database[16];
    const char *named[] = {"AUTH", login->user, login->password};
    const char *unnamed[] = {"AUTH", login->password};
    const char *select[] = {"SELECT", database};
    const char *ping[] = {"PING"}, *role[] = {"ROLE"}, *info[] = {"INFO"};
    if (login->user[0])
        send_handshake(link, 3, named);
    else if (login->password[0])
        send_handshake(link, 2, unnamed);
    snprintf(database, sizeof database, "%u", login->database);
    if (login->database != 0)
        send_handshake(link, 2, select);
    if (link->sentinel)
        send_handshake(link, 1, role);
    send_handshake(link, 1, link->events.message ? ping : info);
}

/* ---- events of the connection and of the sentinels ---- */

static bool is_message(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && reply->element[0]->str &&
           strcmp(reply->element[0]->str, "message") == 0 && reply->element[1]->str &&
           reply->element[2]->str;
}

static void on_reply(void *context, const redisReply *reply)
{
    struct redis_link *link = context;
    if (link->write_failure)
        return;
    link->received_ms = uv_now(link->loop);
    link->overdue_once = false;
    if (link->events.message && is_message(reply)) {
        link->events.message(link, reply->element[1], reply->element[2]);
        return;
    }
    if (!link->unanswered) {
        become_down(link, "unexpected reply from the server; reconnecting");
        return;
    }
    struct redis_command *command = take_first(&link->unanswered, &link->unanswered_end);
    bool moved =
        link->up && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "READONLY", 8) == 0;
    answer(command, reply, true);
    if (moved && link->sentinel)
        become_down(link, "the server became a replica");
}

static void on_end(void *context, const char *why)
{
    become_down(context, why);
}

static void open_wire(struct redis_link *link)
{
    struct redis_wire_events events = {
        .context = link, .ready = on_ready, .reply = on_reply, .end = on_end};
    link->wire = redis_wire_open(link->loop, link->host.name, link->host.port, link->tls, &events);
    if (!link->wire)
        become_down(link, "no memory for a connection");
}

static void on_master(void *context, const struct bw_url_host *master, const char *why)
{
    struct redis_link *link = context;
    if (!master) {
        become_down(link, why);
        return;
    }
    link->host = *master;
    open_wire(link);
}

static void connect_now(struct redis_link *link)
{
    link->connecting = true;
    arm(link, link->timeout_ms);
    if (link->sentinel)
        redis_sentinel_ask(link->sentinel, link->timeout_ms / 3, on_master, link);
    else
        open_wire(link);
}

/* ---- timeouts ---- */

static void on_pong(struct redis_command *command, const redisReply *reply, bool sent)
{
    (void)command;
    (void)reply;
    (void)sent;
}

/* The oldest reply can be overdue even if the server still sends others. If this process was
 * suspended, the reply may already be in the socket. So the first overdue check only waits for the
 * loop to read once more; the second one ends the connection. */
static void check_silence(struct redis_link *link)
{
    static const char *const ping[] = {"PING"};
    uint64_t now = uv_now(link->loop), silent = now - link->received_ms;
    bool overdue =
        link->unanswered && (silent >= link->timeout_ms ||
                             now - link->unanswered->sent_ms >= 2 * (uint64_t)link->timeout_ms);
    if (overdue && !link->overdue_once) {
        link->overdue_once = true;
        arm(link, 1);
    } else if (overdue) {
        become_down(link, "no reply within the timeout");
    } else if (link->unanswered) {
        arm(link, link->timeout_ms - (unsigned)silent);
    } else if (link->events.message) {
        redis_link_send(link, 1, ping, NULL, on_pong, link);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;
    bool late = uv_now(link->loop) - link->due_ms > LATE_MS;
    if (link->write_failure)
        become_down(link, link->write_failure);
    else if (link->up)
        check_silence(link);
    else if (link->connecting && late)
        arm(link, link->timeout_ms); /* our loop was late, so wait for the whole timeout again */
    else if (link->connecting)
        become_down(link, "cannot connect within the timeout");
    else
        connect_now(link);
}

void redis_link_limit_timeout(struct redis_link *link, unsigned ms)
{
    if (ms < link->timeout_ms)
        link->timeout_ms = ms;
}

/* ---- open and close ---- */

void redis_link_open(struct redis_link *link, uint64_t seed)
{
    link->waiting_end = &link->waiting;
    link->unanswered_end = &link->unanswered;
    link->pause_ms = PAUSE_FIRST_MS;
    bw_rng_init(&link->rng, seed);
    uv_timer_init(link->loop, &link->timer);
    link->timer.data = link;
    connect_now(link);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct redis_link *link = handle->data;
    link->on_closed(link);
}

void redis_link_close(struct redis_link *link, void (*closed)(struct redis_link *link))
{
    link->closed = true;
    link->up = link->connecting = false;
    link->on_closed = closed;
    if (link->wire)
        redis_wire_close(link->wire);
    link->wire = NULL;
    for (struct redis_command *c = link->unanswered; c; c = c->next)
        c->context = NULL;
    for (struct redis_command *c = link->waiting; c; c = c->next)
        c->context = NULL;
    fail_all(link);
    uv_close((uv_handle_t *)&link->timer, on_timer_closed);
}
