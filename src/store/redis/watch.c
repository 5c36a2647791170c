/* Watches. Every script that changes a state publishes it, and a second connection per instance
 * subscribes. The store subscribes, then reads the state, and only then relies on messages, so that
 * no change is missed.
 *
 * Two changes are not published. The store reads the state to find them:
 *   - A lease may expire: one read after its end plus a random delay.
 *   - A foreign client's lock may change: a read every 0.5 to 1 s, unless the server reports
 *     deleted and expired keys (notify-keyspace-events with K, g and x). */
#include "store/redis/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREIGN_MS 1000u /* longest interval between reads of a foreign client's lock */
#define JITTER_MS  20u   /* random delay that spreads the reads of an expired lease */

static void arm_refresh(struct bw_store *store)
{
    uint64_t due = UINT64_MAX, now = uv_now(store->loop);
    for (const struct redis_election *e = store->oldest; e; e = e->next)
        if (e->due_ms && e->due_ms < due)
            due = e->due_ms;
    if (due == UINT64_MAX)
        uv_timer_stop(&store->refreshes);
    else
        uv_timer_start(&store->refreshes, redis_watch_refresh, due > now ? due - now : 0, 0);
}

void redis_watch_refresh(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    uint64_t now = uv_now(store->loop);
    for (struct redis_election *e = store->oldest, *next; e; e = next) {
        next = e->next;
        if (e->due_ms && e->due_ms <= now) {
            e->due_ms = 0;
            if (e->watchers)
                redis_ask_refresh(e);
        }
    }
    arm_refresh(store);
}

static bool all_report_keys(const struct bw_store *store)
{
    for (unsigned i = 0; i < store->nodes; i++)
        if (!store->node[i].keyspace)
            return false;
    return true;
}

static bool is_denied(const struct redis_election *election)
{
    for (unsigned i = 0; i < election->store->nodes; i++)
        if (election->subscription[i] == REDIS_SUBSCRIPTION_DENIED)
            return true;
    return false;
}

static void plan_refresh(struct redis_election *election)
{
    struct bw_store *store = election->store;
    const struct redis_state *state = &election->state;
    bool foreign_holder = state->locked && strcmp(state->lock, state->owner) != 0;
    uint64_t jitter = bw_rng_below(&store->rng, JITTER_MS), due = 0, now = uv_now(store->loop);
    if (state->locked && !state->endless)
        due = election->seen_ms + (uint64_t)(state->left_ns / BW_MS) + 1 + jitter;
    uint64_t soon = now + FOREIGN_MS / 2 + bw_rng_below(&store->rng, FOREIGN_MS / 2);
    if (((foreign_holder && !all_report_keys(store)) || is_denied(election)) &&
        (!due || soon < due))
        due = soon;
    if (redis_turn_is_open(&election->turn, state, now) && (!due || election->turn.until_ms < due))
        due = election->turn.until_ms;
    if (due == election->due_ms)
        return;
    election->due_ms = due;
    uint64_t armed = uv_is_active((uv_handle_t *)&store->refreshes)
                         ? now + uv_timer_get_due_in(&store->refreshes)
                         : UINT64_MAX;
    if (due && due < armed)
        uv_timer_start(&store->refreshes, redis_watch_refresh, due > now ? due - now : 0, 0);
}

void redis_watch_notify(struct redis_election *election)
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
        plan_refresh(election);
    else
        election->due_ms = 0;
}

/* ---- subscribing ---- */

static void on_subscribed(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_election *election = command->context;
    uint8_t *subscription = &election->subscription[command->node];
    (void)sent;
    election->asks--;
    *subscription = REDIS_SUBSCRIPTION_NONE;
    if (!reply)
        return; /* the link is down: redis_watch_down answers the watches */
    *subscription =
        reply->type == REDIS_REPLY_ERROR ? REDIS_SUBSCRIPTION_DENIED : REDIS_SUBSCRIPTION_ACTIVE;
    if (election->watchers)
        redis_ask_refresh(election);
}

static void on_nothing(struct redis_command *command, const redisReply *reply, bool sent)
{
    (void)command;
    (void)reply;
    (void)sent;
}

static void subscribe(struct redis_election *election, unsigned node)
{
    struct bw_store *store = election->store;
    struct redis_link *subscriber = &store->node[node].subscriber;
    char side[REDIS_KEY_MAX], key[REDIS_KEY_MAX], events[REDIS_KEY_MAX + 32];
    const char *words[] = {"SUBSCRIBE", side}, *more[] = {"SUBSCRIBE", events};
    if (election->subscription[node] != REDIS_SUBSCRIPTION_NONE)
        return;
    redis_election_side(election, side);
    redis_election_key(election, key);
    snprintf(events, sizeof events, "__keyspace@%u__:%s", store->settings.login.database, key);
    if (store->node[node].keyspace)
        redis_link_send(subscriber, 2, more, NULL, on_nothing, store);
    if (!redis_link_send(subscriber, 2, words, NULL, on_subscribed, election))
        return;
    election->subscription[node] = REDIS_SUBSCRIPTION_PENDING;
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
        if (election->subscription[i] != REDIS_SUBSCRIPTION_ACTIVE)
            continue;
        redis_link_send(&store->node[i].subscriber, 2, words, NULL, on_nothing, store);
        if (store->node[i].keyspace)
            redis_link_send(&store->node[i].subscriber, 2, more, NULL, on_nothing, store);
    }
}

static unsigned subscribers_open(const struct bw_store *store)
{
    unsigned open = 0;
    for (unsigned i = 0; i < store->nodes; i++) {
        const struct redis_node *node = &store->node[i];
        open += (node->subscriber.up || node->subscriber.connecting) &&
                (node->link.up || node->link.connecting);
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
    if (subscribers_open(store) < store->majority) {
        const struct redis_node *node = &store->node[0];
        snprintf(ask->why, sizeof ask->why, "%s",
                 node->subscriber.why[0] ? node->subscriber.why : node->link.why);
        redis_ask_fail(ask);
        return;
    }
    bool subscribed = election->known;
    for (unsigned i = 0; i < store->nodes; i++) {
        subscribed &= election->subscription[i] == REDIS_SUBSCRIPTION_ACTIVE;
        subscribe(election, i);
    }
    park(ask);
    if (subscribed)
        redis_watch_notify(election);
    else
        redis_ask_refresh(election);
}

/* ---- pub/sub messages ---- */

static bool starts_with(const redisReply *text, const char *start)
{
    return strncmp(text->str, start, strlen(start)) == 0;
}

/* The known state is out of date. It is read at once if a watch waits, otherwise by the next
 * request. */
static void read_or_invalidate(struct redis_election *election)
{
    if (election->watchers) {
        redis_ask_refresh(election);
    } else {
        election->known = false;
        election->invalidations++;
    }
}

/* True if the lock is one of ours. Candidates publish changes of their own locks, with the next
 * candidate. */
static bool is_published(const struct redis_election *election)
{
    const struct redis_state *state = &election->state;
    return election->known && state->locked && strcmp(state->lock, state->owner) == 0;
}

/* "__keyspace@0__:KEY": only events that delete, expire or set the key matter. */
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
        read_or_invalidate(election);
}

/* A published state counts like one that was read, unless it is older than the known one: messages
 * and replies use two connections, which have no common order. */
void redis_watch_message(struct redis_link *subscriber, const redisReply *channel,
                         const redisReply *payload)
{
    struct bw_store *store = subscriber->events.context;
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
        redis_state_parse_published(payload->str, payload->len, &state, &next) != 0 ||
        !election->known || state.n < election->state.n) {
        read_or_invalidate(election);
    } else if (state.n > election->state.n) {
        if (next.candidate[0])
            redis_turn_begin(&election->turn, &next, state.n, uv_now(store->loop), &store->rng);
        election->published_states++;
        redis_election_set(election, &state);
    }
}

void redis_watch_up(struct redis_link *subscriber)
{
    struct bw_store *store = subscriber->events.context;
    for (struct redis_election *e = store->oldest; e; e = e->next)
        if (e->watchers)
            subscribe(e, subscriber->node);
}

void redis_watch_fail(struct bw_store *store, const char *why)
{
    if (subscribers_open(store) >= store->majority)
        return;
    for (struct redis_ask *ask = store->asks, *next; ask; ask = next) {
        next = ask->next;
        if (!ask->parked)
            continue;
        snprintf(ask->why, sizeof ask->why, "%s", why);
        redis_ask_fail(ask);
    }
}

void redis_watch_down(struct redis_link *subscriber)
{
    struct bw_store *store = subscriber->events.context;
    for (struct redis_election *e = store->oldest; e; e = e->next)
        e->subscription[subscriber->node] = REDIS_SUBSCRIPTION_NONE;
    redis_watch_fail(store, subscriber->why);
}

/* ---- does the server report key events? ---- */

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
    bool reports = strchr(flags, 'K') && (all || (strchr(flags, 'g') && strchr(flags, 'x')));
    if (!reports || node->keyspace)
        return;
    node->keyspace = true;
    for (struct redis_election *e = store->oldest; e; e = e->next)
        if (e->subscription[command->node] == REDIS_SUBSCRIPTION_ACTIVE) {
            /* subscribe again, with the key events */
            e->subscription[command->node] = REDIS_SUBSCRIPTION_NONE;
            subscribe(e, command->node);
        }
}

void redis_watch_ask_keyspace(struct bw_store *store, struct redis_node *node)
{
    static const char *const words[] = {"CONFIG", "GET", "notify-keyspace-events"};
    node->keyspace = false;
    redis_link_send(&node->link, 3, words, NULL, on_config, store);
}
