/* Waiting for news. Every script that changes a state publishes it; a second connection per
 * instance listens. A watch is put behind the confirmed subscription and a look at the state after
 * it, so that no change falls in between.
 *
 * What nobody publishes is looked for: a lease that may run out, when its time is over and a little
 * more, drawn by lot; a stranger's lock, every second or so, unless the server tells of deleted and
 * expired keys (notify-keyspace-events with K, g and x). */
#include "store/redis/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRANGER_MS 1000u /* a stranger publishes nothing: how often is looked, at the most */
#define LOT_MS      20u   /* how far apart those who wait look at a lease that ran out */

static void arm_looks(struct bw_store *store)
{
    uint64_t due = UINT64_MAX, now = uv_now(store->loop);
    for (const struct redis_election *e = store->oldest; e; e = e->next)
        if (e->due_ms && e->due_ms < due)
            due = e->due_ms;
    if (due == UINT64_MAX)
        uv_timer_stop(&store->looks);
    else
        uv_timer_start(&store->looks, redis_watch_looks, due > now ? due - now : 0, 0);
}

void redis_watch_looks(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    uint64_t now = uv_now(store->loop);
    for (struct redis_election *e = store->oldest, *next; e; e = next) {
        next = e->next;
        if (e->due_ms && e->due_ms <= now) {
            e->due_ms = 0;
            if (e->watchers)
                redis_ask_look(e);
        }
    }
    arm_looks(store);
}

static bool hears_keys(const struct bw_store *store)
{
    for (unsigned i = 0; i < store->nodes; i++)
        if (!store->node[i].keyspace)
            return false;
    return true;
}

static bool is_denied(const struct redis_election *election)
{
    for (unsigned i = 0; i < election->store->nodes; i++)
        if (election->heard[i] == REDIS_DENIED)
            return true;
    return false;
}

static void plan_look(struct redis_election *election)
{
    struct bw_store *store = election->store;
    const struct redis_state *state = &election->state;
    bool stranger = state->locked && strcmp(state->lock, state->owner) != 0;
    uint64_t lot = bw_rng_below(&store->rng, LOT_MS), due = 0, now = uv_now(store->loop);
    if (state->locked && !state->endless)
        due = election->seen_ms + (uint64_t)(state->left_ns / BW_MS) + 1 + lot;
    uint64_t soon = now + STRANGER_MS / 2 + bw_rng_below(&store->rng, STRANGER_MS / 2);
    if (((stranger && !hears_keys(store)) || is_denied(election)) && (!due || soon < due))
        due = soon;
    if (redis_turn_is(&election->turn, state, now) && (!due || election->turn.until_ms < due))
        due = election->turn.until_ms;
    if (due == election->due_ms)
        return;
    election->due_ms = due;
    uint64_t armed = uv_is_active((uv_handle_t *)&store->looks)
                         ? now + uv_timer_get_due_in(&store->looks)
                         : UINT64_MAX;
    if (due && due < armed)
        uv_timer_start(&store->looks, redis_watch_looks, due > now ? due - now : 0, 0);
}

void redis_watch_news(struct redis_election *election)
{
    struct bw_store_record record;
    uint64_t now = uv_now(election->store->loop);
    redis_state_present(&election->state, &record);
    for (struct redis_ask *ask = election->watchers, *next; ask; ask = next) {
        next = ask->next_watcher;
        const struct bw_store_request *request = &ask->job->request;
        if (request->version != record.version &&
            redis_turn_wait(&election->turn, &election->state, request->candidate, now) == 0)
            redis_ask_done(ask);
    }
    if (election->watchers)
        plan_look(election);
    else
        election->due_ms = 0;
}

/* ---- listening ---- */

static void on_subscribed(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_election *election = command->context;
    uint8_t *heard = &election->heard[command->node];
    (void)sent;
    election->asks--;
    *heard = REDIS_DEAF;
    if (!reply)
        return; /* the link is down: redis_watch_down answers who waits */
    *heard = reply->type == REDIS_REPLY_ERROR ? REDIS_DENIED : REDIS_HEARS;
    if (election->watchers)
        redis_ask_look(election);
}

static void on_nothing(struct redis_command *command, const redisReply *reply, bool sent)
{
    (void)command;
    (void)reply;
    (void)sent;
}

static void listen_to(struct redis_election *election, unsigned node)
{
    struct bw_store *store = election->store;
    struct redis_link *ear = &store->node[node].ear;
    char side[REDIS_KEY_MAX], key[REDIS_KEY_MAX], events[REDIS_KEY_MAX + 32];
    const char *words[] = {"SUBSCRIBE", side}, *more[] = {"SUBSCRIBE", events};
    if (election->heard[node] != REDIS_DEAF)
        return;
    redis_election_side(election, side);
    redis_election_key(election, key);
    snprintf(events, sizeof events, "__keyspace@%u__:%s", store->settings.login.database, key);
    if (store->node[node].keyspace)
        redis_link_send(ear, 2, more, NULL, on_nothing, store);
    if (!redis_link_send(ear, 2, words, NULL, on_subscribed, election))
        return;
    election->heard[node] = REDIS_ASKED;
    election->asks++;
}

void redis_watch_forget(struct redis_election *election)
{
    char side[REDIS_KEY_MAX], key[REDIS_KEY_MAX], events[REDIS_KEY_MAX + 32];
    const char *words[] = {"UNSUBSCRIBE", side}, *more[] = {"UNSUBSCRIBE", events};
    struct bw_store *store = election->store;
    redis_election_side(election, side);
    redis_election_key(election, key);
    snprintf(events, sizeof events, "__keyspace@%u__:%s", store->settings.login.database, key);
    for (unsigned i = 0; i < store->nodes; i++) {
        if (election->heard[i] != REDIS_HEARS)
            continue;
        redis_link_send(&store->node[i].ear, 2, words, NULL, on_nothing, store);
        if (store->node[i].keyspace)
            redis_link_send(&store->node[i].ear, 2, more, NULL, on_nothing, store);
    }
}

static unsigned ears_open(const struct bw_store *store)
{
    unsigned open = 0;
    for (unsigned i = 0; i < store->nodes; i++) {
        const struct redis_node *node = &store->node[i];
        open += (node->ear.up || node->ear.connecting) && (node->link.up || node->link.connecting);
    }
    return open;
}

/* ---- a watch ---- */

static void park(struct redis_ask *ask)
{
    ask->parked = true;
    ask->next_watcher = ask->election->watchers;
    ask->election->watchers = ask;
}

void redis_watch_stop(struct redis_ask *ask)
{
    struct redis_ask **at = &ask->election->watchers;
    while (*at != ask)
        at = &(*at)->next_watcher;
    *at = ask->next_watcher;
    ask->parked = false;
}

void redis_watch_start(struct redis_ask *ask)
{
    struct redis_election *election = ask->election;
    struct bw_store *store = ask->store;
    if (ears_open(store) < store->majority) {
        const struct redis_node *node = &store->node[0];
        snprintf(ask->why, sizeof ask->why, "%s",
                 node->ear.why[0] ? node->ear.why : node->link.why);
        redis_ask_fail(ask);
        return;
    }
    bool hears = election->known;
    for (unsigned i = 0; i < store->nodes; i++) {
        hears &= election->heard[i] == REDIS_HEARS;
        listen_to(election, i);
    }
    park(ask);
    if (hears)
        redis_watch_news(election);
    else
        redis_ask_look(election);
}

/* ---- the ears' news ---- */

static bool starts_with(const redisReply *text, const char *start)
{
    return strncmp(text->str, start, strlen(start)) == 0;
}

/* The state is not what it was; what it is now is read at once if somebody waits, else when
 * somebody asks. */
static void look_or_doubt(struct redis_election *election)
{
    if (election->watchers) {
        redis_ask_look(election);
    } else {
        election->known = false;
        election->doubts++;
    }
}

/* What candidates do with their locks they publish themselves, with whose turn it is then. */
static bool is_published(const struct redis_election *election)
{
    const struct redis_state *state = &election->state;
    return election->known && state->locked && strcmp(state->lock, state->owner) == 0;
}

/* "__keyspace@0__:KEY": only what takes a key away or puts it there. */
static void on_key(struct bw_store *store, const redisReply *channel, const redisReply *payload)
{
    const char *key = strstr(channel->str, "__:");
    char side[REDIS_KEY_MAX];
    bool expired = strcmp(payload->str, "expired") == 0;
    bool changed = strcmp(payload->str, "del") == 0 || strcmp(payload->str, "set") == 0;
    if (!key || !(expired || changed))
        return;
    snprintf(side, sizeof side, "{%s}/bellwether", key + 3);
    struct redis_election *election = redis_election_of_side(store, side);
    if (election && (expired || !is_published(election)))
        look_or_doubt(election);
}

/* A published state is as good as one that was read, unless it is older than what we know: two
 * connections keep no order between them. */
void redis_watch_message(struct redis_link *ear, const redisReply *channel,
                         const redisReply *payload)
{
    struct bw_store *store = ear->events.context;
    struct redis_state state;
    struct redis_next next;
    if (starts_with(channel, "__keyspace@")) {
        on_key(store, channel, payload);
        return;
    }
    struct redis_election *election = redis_election_of_side(store, channel->str);
    if (!election)
        return;
    if (store->nodes > 1 ||
        redis_state_parse_told(payload->str, payload->len, &state, &next) != 0 ||
        !election->known || state.n < election->state.n) {
        look_or_doubt(election);
    } else if (state.n > election->state.n) {
        if (next.candidate[0])
            redis_turn_begin(&election->turn, &next, state.n, uv_now(store->loop), &store->rng);
        election->told++;
        redis_election_set(election, &state);
    }
}

void redis_watch_up(struct redis_link *ear)
{
    struct bw_store *store = ear->events.context;
    for (struct redis_election *e = store->oldest; e; e = e->next)
        if (e->watchers)
            listen_to(e, ear->node);
}

void redis_watch_fail(struct bw_store *store, const char *why)
{
    if (ears_open(store) >= store->majority)
        return;
    for (struct redis_ask *ask = store->asks, *next; ask; ask = next) {
        next = ask->next;
        if (!ask->parked)
            continue;
        snprintf(ask->why, sizeof ask->why, "%s", why);
        redis_ask_fail(ask);
    }
}

void redis_watch_down(struct redis_link *ear)
{
    struct bw_store *store = ear->events.context;
    for (struct redis_election *e = store->oldest; e; e = e->next)
        e->heard[ear->node] = REDIS_DEAF;
    redis_watch_fail(store, ear->why);
}

/* ---- does the server tell of keys? ---- */

static void on_config(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct bw_store *store = command->context;
    struct redis_node *node = &store->node[command->node];
    (void)sent;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !reply->element[1]->str)
        return;
    const char *flags = reply->element[1]->str;
    bool all = strchr(flags, 'A') != NULL;
    bool tells = strchr(flags, 'K') && (all || (strchr(flags, 'g') && strchr(flags, 'x')));
    if (!tells || node->keyspace)
        return;
    node->keyspace = true;
    for (struct redis_election *e = store->oldest; e; e = e->next)
        if (e->heard[command->node] == REDIS_HEARS) {
            e->heard[command->node] = REDIS_DEAF; /* once more, with its keys */
            listen_to(e, command->node);
        }
}

void redis_watch_ask_keyspace(struct bw_store *store, struct redis_node *node)
{
    static const char *const words[] = {"CONFIG", "GET", "notify-keyspace-events"};
    node->keyspace = false;
    redis_link_send(&node->link, 3, words, NULL, on_config, store);
}
