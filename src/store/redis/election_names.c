/* ELECTIONS: the names of the elections, from the keys of every instance.
 *
 *   {K}/bellwether, {K}/candidates   elections of Bellwether, also without a leader
 *   K                                locks of foreign clients: strings with an expiry; only with a
 *                                    prefix: without one, every such key could be a lock
 *
 * Each instance is scanned in pages, so that it serves other clients between two pages. SCAN
 * returns every key that exists during the whole scan, some of them several times.
 *
 * Redlock: a majority of the instances must be scanned to the end. Every lock and every record of a
 * majority is on one of them. */
#include "store/kit/names.h"
#include "store/redis/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_KEYS   "1000" /* keys that an instance examines per page */
#define CURSOR_SIZE 24u

struct redis_names {
    struct bw_names found;
    bool denied; /* an instance does not permit SCAN; the line is in ask->why */
    char pattern[2 * REDIS_PREFIX_MAX + 8];
    char cursor[REDIS_NODES_MAX][CURSOR_SIZE];
};

static void send_page(struct redis_ask *ask, unsigned node, bool whole);

void redis_names_free(struct redis_names *names)
{
    if (names)
        bw_names_free(&names->found);
    free(names);
}

/* Writes the pattern for K and {K}/...: the prefix, literally, anywhere in the key. Without a
 * prefix, the pattern for {K}/... */
static void write_pattern(char *out, const char *prefix)
{
    *out++ = prefix[0] ? '*' : '{';
    for (; *prefix; prefix++) {
        if (strchr("*?[]\\", *prefix))
            *out++ = '\\';
        *out++ = *prefix;
    }
    snprintf(out, 2, "*");
}

static bool ends_with(const char *key, size_t length, const char *end)
{
    size_t size = strlen(end);
    return length >= size && memcmp(key + length - size, end, size) == 0;
}

static int add_key(struct redis_ask *ask, const char *key, size_t length)
{
    static const char *const ends[] = {"}/bellwether", "}/candidates"};
    const char *prefix = ask->store->settings.prefix;
    size_t skip = strlen(prefix);
    for (unsigned i = 0; i < 2; i++)
        if (length > 1 + skip + strlen(ends[i]) && key[0] == '{' &&
            memcmp(key + 1, prefix, skip) == 0 && ends_with(key, length, ends[i]))
            return bw_names_add(&ask->names->found, key + 1 + skip,
                                length - 1 - skip - strlen(ends[i]));
    if (skip > 0 && length > skip && memcmp(key, prefix, skip) == 0)
        return bw_names_add(&ask->names->found, key + skip, length - skip);
    return 0;
}

static void finish(struct redis_ask *ask)
{
    struct bw_job *job = ask->job;
    if (ask->done < ask->store->majority) {
        if (ask->names->denied)
            redis_ask_refuse(ask, BW_EDENIED, ask->why);
        else
            redis_ask_fail(ask);
        return;
    }
    job->context = NULL;
    ask->job = NULL;
    bw_names_answer(&ask->names->found, job);
    redis_ask_free(ask);
}

/* ---- one page ---- */

/* Takes the page: the next cursor and the keys. Returns BW_EMALFORMED, BW_ENOMEM or 0. */
static int take_page(struct redis_ask *ask, unsigned node, const redisReply *reply)
{
    const redisReply *cursor = reply->elements == 2 ? reply->element[0] : NULL;
    const redisReply *keys = cursor ? reply->element[1] : NULL;
    if (!cursor || cursor->type != REDIS_REPLY_STRING || cursor->len >= CURSOR_SIZE ||
        keys->type != REDIS_REPLY_ARRAY)
        return BW_EMALFORMED;
    int error = 0;
    for (size_t i = 0; i < keys->elements && error == 0; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING)
            error = add_key(ask, keys->element[i]->str, keys->element[i]->len);
    snprintf(ask->names->cursor[node], CURSOR_SIZE, "%s", cursor->str);
    return error;
}

/* True if the server's ACL does not permit the script's SCAN. Redis 6 and 7 word it differently. */
static bool is_scan_denied(const char *error)
{
    return strncmp(error, "NOPERM", 6) == 0 || strstr(error, "ACL failure") ||
           strstr(error, "can't run this command");
}

static void on_error(struct redis_ask *ask, struct redis_vote *vote, const char *error)
{
    vote->denied = redis_is_denial(error);
    if (is_scan_denied(error)) {
        ask->names->denied = true;
        snprintf(
            ask->why, sizeof ask->why,
            "cannot list the elections: the Redis user may not run SCAN in a script; add +scan "
            "to its ACL rules, or give --election NAME: %.80s",
            error);
    } else {
        snprintf(ask->why, sizeof ask->why, "cannot list the elections: Redis error: %.180s",
                 error);
    }
}

static void on_page(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_ask *ask = command->context;
    unsigned node = command->node;
    struct redis_vote *vote = &ask->vote[node];
    int error = 0;
    (void)sent;
    vote->command = NULL;
    vote->outcome = REDIS_UNSENT; /* whatever happened, nothing was changed */
    ask->open--;
    if (!reply) {
        vote->denied = command->link->denied;
        snprintf(ask->why, sizeof ask->why, "%s", command->link->why);
    } else if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        send_page(ask, node, true);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        on_error(ask, vote, reply->str);
    } else if ((error = take_page(ask, node, reply)) != 0) {
        snprintf(ask->why, sizeof ask->why, "cannot list the elections: %s",
                 error == BW_ENOMEM ? "out of memory" : "unexpected reply from Redis");
    } else if (ask->names->found.full || strcmp(ask->names->cursor[node], "0") == 0) {
        vote->outcome = REDIS_REPLIED;
        vote->verdict = REDIS_READ;
    } else {
        send_page(ask, node, false);
    }
    redis_ask_check_round(ask);
}

/* If the page cannot be sent, the vote says so. */
static void send_page(struct redis_ask *ask, unsigned node, bool whole)
{
    const struct redis_names *names = ask->names;
    const char *words[] = {"0", names->cursor[node], names->pattern, PAGE_KEYS,
                           ask->store->settings.prefix};
    redis_ask_send(ask, node, REDIS_SCRIPT_NAMES, whole, sizeof words / sizeof words[0], words,
                   on_page);
}

void redis_names_start(struct redis_ask *ask)
{
    ask->names = calloc(1, sizeof *ask->names);
    if (!ask->names) {
        snprintf(ask->why, sizeof ask->why, "no memory for the elections");
        redis_ask_fail(ask);
        return;
    }
    write_pattern(ask->names->pattern, ask->store->settings.prefix);
    ask->then = finish;
    for (unsigned i = 0; i < ask->store->nodes; i++) {
        snprintf(ask->names->cursor[i], CURSOR_SIZE, "0");
        send_page(ask, i, false);
    }
    redis_ask_check_round(ask);
}
