/* The elections that a store has seen, indexed by name. An election stays in memory while a request
 * refers to it. Up to REDIS_IDLE_MAX more stay by last use, so that their next request can skip the
 * read. */
#include "store/redis/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS (sizeof((struct bw_store *)0)->bucket / sizeof(struct redis_election *))
#define SIDE    "}/bellwether"
/* Elections that one request examines to find idle ones. */
#define EVICT_LOOKS 8u
/* Added to the TTL for clock drift. */
#define FORGOTTEN_MS 50u

static struct redis_election **bucket_of(struct bw_store *store, const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &store->bucket[hash % BUCKETS];
}

static struct redis_election *find(struct bw_store *store, const char *name)
{
    struct redis_election *election = *bucket_of(store, name);
    while (election && strcmp(election->name, name) != 0)
        election = election->chain;
    return election;
}

static void unlink_use(struct redis_election *election)
{
    struct bw_store *store = election->store;
    *(election->previous ? &election->previous->next : &store->oldest) = election->next;
    *(election->next ? &election->next->previous : &store->newest) = election->previous;
}

static void link_newest(struct redis_election *election)
{
    struct bw_store *store = election->store;
    election->next = NULL;
    election->previous = store->newest;
    *(store->newest ? &store->newest->next : &store->oldest) = election;
    store->newest = election;
}

static void drop(struct redis_election *election)
{
    struct redis_election **at = bucket_of(election->store, election->name);
    while (*at != election)
        at = &(*at)->chain;
    *at = election->chain;
    unlink_use(election);
    election->store->elections--;
    free(election);
}

/* Frees idle elections, oldest first, until there is space for one more. An election in use counts
 * as used now, so that it does not hide idle ones. Looks at EVICT_LOOKS elections at most: the cost
 * of a request does not grow with the number of elections in use. */
static void evict_idle(struct bw_store *store)
{
    for (unsigned i = 0; i < EVICT_LOOKS && store->elections >= REDIS_IDLE_MAX; i++) {
        struct redis_election *election = store->oldest;
        if (election->asks == 0) { /* NOLINT(clang-analyzer-unix.Malloc): drop unlinks it */
            redis_watch_forget(election);
            drop(election);
        } else {
            unlink_use(election);
            link_newest(election);
        }
    }
}

struct redis_election *redis_election_get(struct bw_store *store, const char *name)
{
    struct redis_election *election = find(store, name);
    if (election) {
        unlink_use(election);
        link_newest(election);
        return election;
    }
    evict_idle(store);
    election = calloc(1, sizeof *election);
    if (!election)
        return NULL;
    election->store = store;
    snprintf(election->name, sizeof election->name, "%s", name);
    struct redis_election **bucket = bucket_of(store, name);
    election->chain = *bucket;
    *bucket = election;
    link_newest(election);
    store->elections++;
    return election;
}

void redis_election_key(const struct redis_election *election, char key[REDIS_KEY_MAX])
{
    snprintf(key, REDIS_KEY_MAX, "%s%s", election->store->settings.prefix, election->name);
}

void redis_election_side(const struct redis_election *election, char key[REDIS_KEY_MAX])
{
    snprintf(key, REDIS_KEY_MAX, "{%s%s" SIDE, election->store->settings.prefix, election->name);
}

void redis_election_candidates(const struct redis_election *election, char key[REDIS_KEY_MAX])
{
    snprintf(key, REDIS_KEY_MAX, "{%s%s}/candidates", election->store->settings.prefix,
             election->name);
}

struct redis_election *redis_election_of_side(struct bw_store *store, const char *key)
{
    size_t prefix = strlen(store->settings.prefix), end = strlen(SIDE), length = strlen(key);
    char name[BW_ELECTION_NAME_MAX + 1];
    if (length <= 1 + prefix + end || key[0] != '{' ||
        strncmp(key + 1, store->settings.prefix, prefix) != 0 ||
        strcmp(key + length - end, SIDE) != 0 || length - 1 - prefix - end >= sizeof name)
        return NULL;
    memcpy(name, key + 1 + prefix, length - 1 - prefix - end);
    name[length - 1 - prefix - end] = '\0';
    return find(store, name);
}

bool redis_election_lock_is_forgotten(const struct redis_election *election)
{
    return uv_now(election->store->loop) < election->forgotten_until_ms && election->state.locked &&
           election->state.lock_hash == election->forgotten_hash;
}

/* A failover or a restart can lose writes that the server had confirmed. The holder of a lost lock
 * may still work until its TTL expires, so other stores treat the lock as held until then. A lock
 * of this store is not restored: the holder's own process knows its state. */
static void note_forgotten(struct redis_election *election, const struct redis_state *state)
{
    const struct redis_state *before = &election->state;
    bw_time ttl = bw_time_max(before->kept.ttl_ns, before->left_ns);
    if (!election->known || state->n >= before->n || !before->locked || before->endless ||
        redis_lock_is_ours(before->lock, election->store->nonce))
        return;
    memcpy(election->forgotten, before->lock, sizeof election->forgotten);
    election->forgotten_hash = before->lock_hash;
    election->forgotten_until_ms =
        uv_now(election->store->loop) + (uint64_t)(ttl / BW_MS) + FORGOTTEN_MS;
}

static void restore_forgotten(struct redis_election *election)
{
    struct redis_state *state = &election->state;
    uint64_t now = uv_now(election->store->loop);
    if (state->locked || now >= election->forgotten_until_ms)
        return;
    state->locked = true;
    memcpy(state->lock, election->forgotten, sizeof state->lock);
    state->lock_hash = election->forgotten_hash;
    state->left_ns = (bw_time)(election->forgotten_until_ms - now) * BW_MS;
}

void redis_election_set(struct redis_election *election, const struct redis_state *state)
{
    struct redis_state before = election->state;
    note_forgotten(election, state);
    election->state = *state;
    restore_forgotten(election);
    redis_state_follow(&election->state, &before);
    election->known = true;
    election->seen_ms = uv_now(election->store->loop);
    if (state->token > election->highest)
        election->highest = state->token;
    redis_watch_notify(election);
}

void redis_elections_free(struct bw_store *store)
{
    for (struct redis_election *election = store->oldest, *next; election; election = next) {
        next = election->next;
        free(election);
    }
    memset(store->bucket, 0, sizeof store->bucket);
    store->oldest = store->newest = NULL;
}
