/* Candidate entries on the server. An entry lives for three TTLs (at least 3 s). The store renews
 * it after a third of that time while its process runs. Entries are listed in the order in which
 * the candidates entered. */
#include "store/kit/record_json.h"
#include "store/redis/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX     65536u
#define LIFETIME_MIN_MS 3000u
#define TICK_MS         500u
#define DIGITS          24u

static void send_entry(struct redis_ask *ask, bool whole);

/* ---- entries of this process ---- */

static struct redis_entry **find(struct bw_store *store, const char *election, const char *id)
{
    struct redis_entry **at = &store->entries;
    while (*at && (strcmp((*at)->election, election) != 0 || strcmp((*at)->candidate.id, id) != 0))
        at = &(*at)->next;
    return at;
}

static uint64_t lifetime_of(const struct bw_store_request *request)
{
    uint64_t ms = (uint64_t)(request->ttl_ns / BW_MS) * 3;
    return ms > LIFETIME_MIN_MS ? ms : LIFETIME_MIN_MS;
}

static struct redis_entry *keep(struct bw_store *store, const struct bw_store_request *request)
{
    struct redis_entry **at = find(store, request->election, request->candidate);
    if (!*at) {
        if (store->entry_count >= ENTRIES_MAX || !(*at = calloc(1, sizeof **at)))
            return NULL;
        store->entry_count++;
    }
    struct redis_entry *entry = *at;
    struct bw_candidate *candidate = &entry->candidate;
    snprintf(entry->election, sizeof entry->election, "%s", request->election);
    snprintf(candidate->id, sizeof candidate->id, "%s", request->candidate);
    snprintf(candidate->value, sizeof candidate->value, "%s", request->value ? request->value : "");
    candidate->priority = request->priority;
    entry->lifetime_ms = lifetime_of(request);
    entry->due_ms = uv_now(store->loop) + entry->lifetime_ms / 3;
    if (!uv_is_active((uv_handle_t *)&store->renews))
        uv_timer_start(&store->renews, redis_list_renew, TICK_MS, TICK_MS);
    return entry;
}

static void drop(struct bw_store *store, const char *election, const char *id)
{
    struct redis_entry **at = find(store, election, id), *entry = *at;
    if (!entry)
        return;
    *at = entry->next;
    free(entry);
    store->entry_count--;
}

void redis_list_free(struct bw_store *store)
{
    while (store->entries) {
        struct redis_entry *entry = store->entries;
        store->entries = entry->next;
        free(entry);
    }
}

/* ---- the script ---- */

struct entry_words {
    char key[REDIS_KEY_MAX], lifetime[DIGITS], owner[DIGITS];
    char text[BW_RECORD_JSON_MAX + 2 * DIGITS];
};

/* The entry names the process that wrote it. Two candidates may have the same id, and a candidate
 * that leaves must not remove the other's entry. */
static int fill_words(struct entry_words *words, const struct bw_store *store,
                      struct redis_election *election, const struct redis_entry *entry)
{
    char packed[BW_RECORD_JSON_MAX];
    redis_election_candidates(election, words->key);
    words->text[0] = '\0';
    snprintf(words->lifetime, sizeof words->lifetime, "%" PRIu64, entry ? entry->lifetime_ms : 0);
    snprintf(words->owner, sizeof words->owner, "%016" PRIx64, store->nonce);
    int length = entry ? bw_candidate_pack(&entry->candidate, packed, sizeof packed) : 0;
    if (length > 0)
        snprintf(words->text, sizeof words->text, "{\"owner\":\"%s\",%s", words->owner, packed + 1);
    return length < 0 ? length : 0;
}

static void send_words(struct redis_ask *ask, const char *op, const char *id,
                       const struct redis_entry *entry, bool whole,
                       void (*answer)(struct redis_command *command, const redisReply *reply,
                                      bool sent))
{
    struct entry_words filled;
    if (fill_words(&filled, ask->store, ask->election, entry) != 0) {
        snprintf(ask->why, sizeof ask->why, "candidate id or value is not valid UTF-8");
        redis_ask_fail(ask);
        return;
    }
    const char *words[] = {"1", filled.key, op, id, filled.lifetime, filled.text, filled.owner};
    if (redis_ask_send(ask, 0, REDIS_SCRIPT_CANDIDATES, whole, 7, words, answer) != 0)
        redis_ask_fail(ask);
}

static bool needs_whole(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

/* Returns false if it has answered the request with the failure. */
static bool check_reply(struct redis_ask *ask, const struct redis_command *command,
                        const redisReply *reply, bool sent, int type)
{
    ask->vote[0].command = NULL;
    ask->open = 0;
    if (reply && reply->type == type)
        return true;
    ask->lost = sent;
    ask->vote[0].denied = !reply ? command->link->denied
                                 : reply->type == REDIS_REPLY_ERROR && redis_is_denial(reply->str);
    snprintf(ask->why, sizeof ask->why, "%.200s",
             !reply                             ? command->link->why
             : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                : "unexpected reply from Redis");
    redis_ask_fail(ask);
    return false;
}

/* ---- enter and leave ---- */

static void on_entered(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_ask *ask = command->context;
    if (needs_whole(reply)) {
        ask->vote[0].command = NULL;
        send_entry(ask, true);
    } else if (check_reply(ask, command, reply, sent, REDIS_REPLY_INTEGER)) {
        redis_ask_done(ask);
    }
}

static void send_entry(struct redis_ask *ask, bool whole)
{
    const struct bw_store_request *request = &ask->job->request;
    const struct redis_entry *entry = *find(ask->store, request->election, request->candidate);
    bool enters = request->op == BW_STORE_ENTER && entry;
    send_words(ask, enters ? "enter" : "leave", request->candidate, enters ? entry : NULL, whole,
               on_entered);
}

/* ---- list ---- */

struct listed {
    uint64_t serial;
    struct bw_candidate candidate;
};

static int by_serial(const void *a, const void *b)
{
    const struct listed *left = a, *right = b;
    return (left->serial > right->serial) - (left->serial < right->serial);
}

static uint32_t read_list(const redisReply *reply, struct listed *listed)
{
    uint32_t count = 0;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *serial = reply->element[i], *text = reply->element[i + 1];
        struct listed *next = &listed[count];
        memset(next, 0, sizeof *next);
        if (serial->type != REDIS_REPLY_STRING || text->type != REDIS_REPLY_STRING ||
            bw_candidate_unpack(text->str, text->len, &next->candidate) != 0)
            continue; /* not a Bellwether entry */
        next->serial = strtoull(serial->str, NULL, 10);
        count++;
    }
    qsort(listed, count, sizeof *listed, by_serial);
    return count;
}

static void answer_list(struct redis_ask *ask, const redisReply *reply)
{
    struct bw_store_record record;
    struct bw_job *job = ask->job;
    size_t most = reply->type == REDIS_REPLY_ARRAY ? reply->elements / 2 : 0;
    struct listed *listed = calloc(most + 1, sizeof *listed);
    struct bw_candidate *candidates = calloc(most + 1, sizeof *candidates);
    uint32_t count = listed && candidates && most ? read_list(reply, listed) : 0;
    redis_state_present(&ask->election->state, &record);
    for (uint32_t i = 0; i < count; i++) {
        candidates[i] = listed[i].candidate;
        candidates[i].holder = record.held && strcmp(record.holder, candidates[i].id) == 0;
    }
    free(listed);
    job->context = NULL;
    ask->job = NULL;
    if (candidates)
        bw_job_list(job, candidates, count);
    else
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the candidates");
    free(candidates);
    redis_ask_free(ask);
}

static void on_listed(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_ask *ask = command->context;
    if (needs_whole(reply)) {
        ask->vote[0].command = NULL;
        send_words(ask, "list", "", NULL, true, on_listed);
    } else if (check_reply(ask, command, reply, sent, REDIS_REPLY_ARRAY)) {
        answer_list(ask, reply);
    }
}

static void after_read(struct redis_ask *ask)
{
    if (redis_ask_learn(ask))
        send_words(ask, "list", "", NULL, false, on_listed);
    else
        redis_ask_fail(ask);
}

void redis_list_start(struct redis_ask *ask)
{
    const struct bw_store_request *request = &ask->job->request;
    struct bw_store *store = ask->store;
    if (store->nodes > 1 && request->op != BW_STORE_LEAVE) {
        redis_ask_refuse(ask, BW_EUNSUPPORTED, "Redlock does not store candidates; ");
    } else if (store->nodes > 1) {
        redis_ask_done(ask); /* Redlock has no entries */
    } else if (request->op == BW_STORE_LIST) {
        redis_ask_round(ask, "read", 0, 0, after_read);
    } else if (request->op == BW_STORE_ENTER && !keep(store, request)) {
        snprintf(ask->why, sizeof ask->why, "too many candidates in this process (limit: %u)",
                 ENTRIES_MAX);
        redis_ask_fail(ask);
    } else {
        if (request->op == BW_STORE_LEAVE)
            drop(store, request->election, request->candidate);
        send_entry(ask, false);
    }
}

/* ---- renewing entries ---- */

static void on_renewed(struct redis_command *command, const redisReply *reply, bool sent)
{
    (void)command;
    (void)reply;
    (void)sent;
}

static void renew(struct bw_store *store, struct redis_entry *entry)
{
    struct entry_words filled;
    struct redis_election *election = redis_election_get(store, entry->election);
    if (!election || fill_words(&filled, store, election, entry) != 0)
        return;
    const char *words[] = {"EVAL",
                           redis_script_text(REDIS_SCRIPT_CANDIDATES),
                           "1",
                           filled.key,
                           "enter",
                           entry->candidate.id,
                           filled.lifetime,
                           filled.text,
                           filled.owner};
    redis_link_send(&store->node[0].link, 9, words, NULL, on_renewed, store);
}

void redis_list_renew(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    uint64_t now = uv_now(store->loop);
    for (struct redis_entry *entry = store->entries; entry; entry = entry->next)
        if (entry->due_ms <= now) {
            entry->due_ms = now + entry->lifetime_ms / 3;
            renew(store, entry);
        }
    if (!store->entries)
        uv_timer_stop(timer);
}
