/* Who waits for what: watchers of keys and ranges, and which of them has something to be told.
 *
 * Model: nothing is queued per watcher. A watcher knows the revision it has seen; events are read
 * from the registry's history when its owner can take them, so that one who never reads costs
 * nothing, and is told that it came too late once the history has moved on. A change touches the
 * watchers of its key and those of ranges, and puts each that matches into the list of ready ones.
 */
#ifndef BW_REGISTRY_WATCH_H
#define BW_REGISTRY_WATCH_H

#include "core/base/heap.h"
#include "core/registry/registry.h"

struct bw_watches;

struct bw_watcher_spec {
    struct bw_keys keys; /* copied */
    int64_t start;       /* first revision of interest; 0: what happens from now on */
    bool no_put, no_delete;
    void *owner; /* the caller's: whose it is, and which of theirs */
    int64_t id;
};

size_t bw_watches_bytes(uint32_t most);
/* `memory` is zero and 16-byte aligned. Returns 0, BW_EINVAL or BW_ENOMEM. */
int bw_watches_init(struct bw_watches **out, void *memory, size_t bytes, uint32_t most);

/* Of all owners. */
uint32_t bw_watches_count(const struct bw_watches *watches);
/* 0: too many, or keys too long. */
bw_ref bw_watcher_add(struct bw_watches *watches, const struct bw_registry *registry,
                      const struct bw_watcher_spec *watch);
void bw_watcher_remove(struct bw_watches *watches, bw_ref ref);
void *bw_watcher_owner(const struct bw_watches *watches, bw_ref ref);
int64_t bw_watcher_id(const struct bw_watches *watches, bw_ref ref);

/* After changes: finds out who has news. */
void bw_watches_notice(struct bw_watches *watches, const struct bw_registry *registry);
/* The registry was loaded anew: everybody looks again from where they were. */
void bw_watches_reset(struct bw_watches *watches, const struct bw_registry *registry);
/* Work is done in turns. A turn costs at most so many steps: a step is a watcher taken from the
 * list of ready ones, or an event of the history looked at. Without a turn there is no bound. */
void bw_watches_turn(struct bw_watches *watches, uint32_t steps);
uint32_t bw_watches_steps_left(const struct bw_watches *watches);
bool bw_watches_are_idle(const struct bw_watches *watches); /* no watcher is ready */
/* The next that has something to be told, 0: none, or the turn is over. It leaves the list;
 * bw_watcher_next until it says NOTHING or LATER, or bw_watcher_park. */
bw_ref bw_watches_ready(struct bw_watches *watches);
/* Its owner cannot take more now, and comes back to it with bw_watcher_next by itself. Until then
 * it costs nothing, and changes do not make it ready. */
void bw_watcher_park(struct bw_watches *watches, bw_ref ref);

/* What has happened up to now is of no interest to its owner. */
void bw_watcher_skip(struct bw_watches *watches, const struct bw_registry *registry, bw_ref ref);

enum bw_watcher_news {
    BW_WATCHER_NOTHING,  /* it has seen everything up to now */
    BW_WATCHER_LATER,    /* the turn is over; it is back in the list */
    BW_WATCHER_EVENT,    /* *out: the next event; those of one revision come one after the other */
    BW_WATCHER_COMPACTED /* what it waits for next is not kept any more: cancel it */
};

enum bw_watcher_news bw_watcher_next(struct bw_watches *watches, const struct bw_registry *registry,
                                     bw_ref ref, struct bw_happened *out);

#endif
