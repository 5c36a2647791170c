/* Watchers in a hash table by key, and in one list of ranges; see watch.h. */
#include "core/registry/watch.h"

#include "core/base/arena.h"
#include "core/registry/registry_state.h"

#include <string.h>

#define KEYS_MAX 65536u /* maximum bytes of a watcher's key and end */

struct watcher {
    bw_ref next, previous; /* next in the bucket, or in the list of ranges */
    bw_ref ready_next, ready_previous;
    bool ready, parked, no_put, no_delete;
    uint32_t key_length, end_length;
    int64_t revision; /* the next revision of interest */
    uint64_t number;  /* the next event to examine; UINT64_MAX: not delivering */
    void *owner;
    int64_t id;
    unsigned char bytes[];
};

struct bw_watches {
    struct bw_heap heap;
    uint32_t count, most, bucket_count;
    bw_ref *buckets; /* by single key; the last bucket holds all ranges */
    bw_ref ready_first, ready_last;
    uint64_t noticed; /* events up to this number were examined */
    uint32_t steps;   /* left in this turn; UINT32_MAX: unlimited */
};

static struct watcher *watcher_at(const struct bw_watches *w, bw_ref ref)
{
    return bw_heap_at(&w->heap, ref);
}

static struct bw_keys keys_of(const struct watcher *watcher)
{
    return (struct bw_keys){.key = {watcher->bytes, watcher->key_length},
                            .end = {watcher->bytes + watcher->key_length, watcher->end_length}};
}

static uint32_t bucket_of(const struct bw_watches *w, struct bw_slice key)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < key.length; i++)
        hash = (hash ^ key.at[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ hash >> 32) & (w->bucket_count - 1);
}

static bw_ref *home_of(struct bw_watches *w, const struct watcher *watcher)
{
    struct bw_keys keys = keys_of(watcher);
    return &w->buckets[keys_are_one(&keys) ? bucket_of(w, keys.key) : w->bucket_count];
}

static struct bw_watches *lay_out(struct bw_arena *arena, uint32_t most)
{
    uint32_t buckets = 64;
    while (buckets < most && buckets < 1u << 20)
        buckets *= 2;
    struct bw_watches *w = bw_arena_take(arena, sizeof *w);
    bw_ref *bucket = bw_arena_take(arena, (buckets + 1u) * sizeof(bw_ref));
    if (!bw_arena_fits(arena))
        return NULL;
    *w = (struct bw_watches){
        .most = most, .buckets = bucket, .bucket_count = buckets, .steps = UINT32_MAX};
    return w;
}

size_t bw_watches_bytes(uint32_t most)
{
    struct bw_arena arena = {0};
    lay_out(&arena, most);
    return arena.used + BW_ARENA_ALIGN + (size_t)most * 1024 + 4 * BW_HEAP_BLOCK_MAX;
}

int bw_watches_init(struct bw_watches **out, void *memory, size_t bytes, uint32_t most)
{
    struct bw_arena arena = {.at = memory, .cap = bytes};
    if (most == 0)
        return BW_EINVAL;
    struct bw_watches *w = bytes < bw_watches_bytes(most) ? NULL : lay_out(&arena, most);
    if (!w)
        return BW_ENOMEM;
    size_t rest = (arena.used + BW_ARENA_ALIGN - 1) & ~(size_t)(BW_ARENA_ALIGN - 1);
    bw_heap_init(&w->heap, arena.at + rest, bytes - rest);
    *out = w;
    return 0;
}

static void become_ready(struct bw_watches *w, bw_ref ref)
{
    struct watcher *watcher = watcher_at(w, ref);
    if (watcher->ready || watcher->parked)
        return;
    watcher->ready = true;
    watcher->ready_next = 0;
    watcher->ready_previous = w->ready_last;
    if (w->ready_last)
        watcher_at(w, w->ready_last)->ready_next = ref;
    else
        w->ready_first = ref;
    w->ready_last = ref;
}

static void leave_ready(struct bw_watches *w, bw_ref ref)
{
    struct watcher *watcher = watcher_at(w, ref);
    bw_ref before = watcher->ready_previous, after = watcher->ready_next;
    if (before)
        watcher_at(w, before)->ready_next = after;
    else
        w->ready_first = after;
    if (after)
        watcher_at(w, after)->ready_previous = before;
    else
        w->ready_last = before;
    watcher->ready = false;
}

void bw_watches_turn(struct bw_watches *w, uint32_t steps)
{
    w->steps = steps;
}

void bw_watches_spend(struct bw_watches *w, uint32_t steps)
{
    if (w->steps != UINT32_MAX)
        w->steps -= steps < w->steps ? steps : w->steps;
}

uint32_t bw_watches_steps_left(const struct bw_watches *w)
{
    return w->steps;
}

bool bw_watches_are_idle(const struct bw_watches *w)
{
    return w->ready_first == 0;
}

/* Returns false if the turn is over. */
static bool take_step(struct bw_watches *w)
{
    if (w->steps == UINT32_MAX)
        return true;
    if (w->steps == 0)
        return false;
    w->steps--;
    return true;
}

bw_ref bw_watches_ready(struct bw_watches *w)
{
    bw_ref ref = w->ready_first;
    if (!ref || !take_step(w))
        return 0;
    leave_ready(w, ref);
    return ref;
}

void bw_watcher_park(struct bw_watches *w, bw_ref ref)
{
    struct watcher *watcher = watcher_at(w, ref);
    if (watcher->ready)
        leave_ready(w, ref);
    watcher->parked = true;
}

static size_t bytes_of(const struct watcher *watcher)
{
    return sizeof *watcher + watcher->key_length + watcher->end_length;
}

bw_ref bw_watcher_add(struct bw_watches *w, const struct bw_registry *r,
                      const struct bw_watcher_spec *watch)
{
    const struct bw_keys *keys = &watch->keys;
    if (w->count == w->most || keys->key.length + keys->end.length > KEYS_MAX)
        return 0;
    bw_ref ref =
        bw_heap_take(&w->heap, sizeof(struct watcher) + keys->key.length + keys->end.length);
    if (!ref)
        return 0;
    struct watcher *watcher = watcher_at(w, ref);
    *watcher = (struct watcher){.key_length = (uint32_t)keys->key.length,
                                .end_length = (uint32_t)keys->end.length,
                                .no_put = watch->no_put,
                                .no_delete = watch->no_delete,
                                .revision = watch->start ? watch->start : r->revision + 1,
                                .number = UINT64_MAX,
                                .owner = watch->owner,
                                .id = watch->id};
    if (keys->key.length)
        memcpy(watcher->bytes, keys->key.at, keys->key.length);
    if (keys->end.length)
        memcpy(watcher->bytes + keys->key.length, keys->end.at, keys->end.length);
    bw_ref *home = home_of(w, watcher);
    watcher->next = *home;
    if (*home)
        watcher_at(w, *home)->previous = ref;
    *home = ref;
    w->count++;
    if (watcher->revision <= r->revision)
        become_ready(w, ref);
    return ref;
}

void bw_watcher_remove(struct bw_watches *w, bw_ref ref)
{
    struct watcher *watcher = watcher_at(w, ref);
    if (watcher->ready)
        leave_ready(w, ref);
    if (watcher->previous)
        watcher_at(w, watcher->previous)->next = watcher->next;
    else
        *home_of(w, watcher) = watcher->next;
    if (watcher->next)
        watcher_at(w, watcher->next)->previous = watcher->previous;
    bw_heap_give(&w->heap, ref, bytes_of(watcher));
    w->count--;
}

void *bw_watcher_owner(const struct bw_watches *w, bw_ref ref)
{
    return watcher_at(w, ref)->owner;
}

struct bw_keys bw_watcher_keys(const struct bw_watches *w, bw_ref ref)
{
    return keys_of(watcher_at(w, ref));
}

int64_t bw_watcher_id(const struct bw_watches *w, bw_ref ref)
{
    return watcher_at(w, ref)->id;
}

static bool concerns(const struct watcher *watcher, const struct bw_kv_event *event)
{
    struct bw_keys keys = keys_of(watcher);
    return event->revision >= watcher->revision &&
           !(event->deleted ? watcher->no_delete : watcher->no_put) &&
           keys_hold(&keys, bw_kv_key(event->kv));
}

/* Events before the first matching one do not concern the watcher, so it starts at that event's
 * revision. */
static void notice_event(struct bw_watches *w, bw_ref first, const struct bw_kv_event *event)
{
    for (bw_ref at = first; at; at = watcher_at(w, at)->next) {
        struct watcher *watcher = watcher_at(w, at);
        if (watcher->ready || watcher->parked || !concerns(watcher, event))
            continue;
        if (watcher->number == UINT64_MAX)
            watcher->revision = event->revision;
        become_ready(w, at);
    }
}

void bw_watches_scan(struct bw_watches *w, const struct bw_registry *r)
{
    struct bw_kv_event event;
    if (w->noticed < r->event_first)
        w->noticed = r->event_first;
    for (; bw_registry_event(r, w->noticed, &event); w->noticed++) {
        notice_event(w, w->buckets[bucket_of(w, bw_kv_key(event.kv))], &event);
        notice_event(w, w->buckets[w->bucket_count], &event);
    }
}

void bw_watches_reset(struct bw_watches *w, const struct bw_registry *r)
{
    for (uint32_t i = 0; i <= w->bucket_count; i++)
        for (bw_ref at = w->buckets[i]; at; at = watcher_at(w, at)->next) {
            watcher_at(w, at)->number = UINT64_MAX;
            if (watcher_at(w, at)->revision <= r->revision)
                become_ready(w, at);
        }
    w->noticed = r->event_end;
}

static bool begins_revision(const struct bw_registry *r, uint64_t number, int64_t revision)
{
    struct bw_kv_event before;
    return number == 0 || !bw_registry_event(r, number - 1, &before) || before.revision != revision;
}

/* A turn ends between two revisions, so that the events of one revision stay together. While events
 * are delivered, `number` is the position in the history. A revision is split only if the owner
 * cannot accept more events. */
enum bw_watcher_result bw_watcher_next(struct bw_watches *w, const struct bw_registry *r,
                                       bw_ref ref, struct bw_kv_event *out)
{
    struct watcher *watcher = watcher_at(w, ref);
    bool compacted = watcher->revision < r->compacted;
    watcher->parked = false;
    if (watcher->number != UINT64_MAX)
        compacted = watcher->number < r->event_first;
    if (compacted)
        return BW_WATCHER_COMPACTED;
    if (watcher->number == UINT64_MAX)
        watcher->number = bw_registry_events_from(r, watcher->revision);
    while (bw_registry_event(r, watcher->number, out)) {
        if (!take_step(w) && begins_revision(r, watcher->number, out->revision)) {
            become_ready(w, ref);
            return BW_WATCHER_LATER;
        }
        watcher->number++;
        if (concerns(watcher, out))
            return BW_WATCHER_EVENT;
    }
    watcher->number = UINT64_MAX;
    watcher->revision = bw_time_max(watcher->revision, r->revision + 1);
    return BW_WATCHER_NOTHING;
}

void bw_watcher_put_back(struct bw_watches *w, bw_ref ref)
{
    watcher_at(w, ref)->number--;
}

void bw_watcher_skip(struct bw_watches *w, const struct bw_registry *r, bw_ref ref)
{
    struct watcher *watcher = watcher_at(w, ref);
    watcher->number = UINT64_MAX;
    watcher->parked = false;
    watcher->revision = bw_time_max(watcher->revision, r->revision + 1);
}

uint32_t bw_watches_count(const struct bw_watches *w)
{
    return w->count;
}
