/* Watchers of keys and ranges, and the list of those with pending events.
 *
 * Model. Nothing is queued per watcher. A watcher stores the revision it has seen. When its owner
 * can accept events, they are read from the registry's history. A watcher that never reads
 * therefore costs nothing; once the history has moved past its revision it receives
 * BW_WATCHER_COMPACTED. A change is compared with the watchers of its key and with all ranges;
 * matching ones become ready. */
#ifndef BW_CORE_REGISTRY_WATCH_H
#define BW_CORE_REGISTRY_WATCH_H

#include "core/base/heap.h"
#include "core/registry/registry.h"

struct bw_watches;

struct bw_watcher_spec {
    struct bw_keys keys; /* copied */
    int64_t start;       /* first revision of interest; 0: the next one */
    bool no_put, no_delete;
    void *owner; /* the caller's identification of the watcher */
    int64_t id;
};

size_t bw_watches_bytes(uint32_t most);
/* `memory` must be zeroed and 16-byte aligned. Returns 0, BW_EINVAL or BW_ENOMEM. */
int bw_watches_init(struct bw_watches **out, void *memory, size_t bytes, uint32_t most);

/* Number of watchers of all owners. */
uint32_t bw_watches_count(const struct bw_watches *watches);
/* Returns 0 if there are too many watchers or the keys are too long. */
bw_ref bw_watcher_add(struct bw_watches *watches, const struct bw_registry *registry,
                      const struct bw_watcher_spec *watch);
void bw_watcher_remove(struct bw_watches *watches, bw_ref ref);
void *bw_watcher_owner(const struct bw_watches *watches, bw_ref ref);
struct bw_keys bw_watcher_keys(const struct bw_watches *watches, bw_ref ref);
int64_t bw_watcher_id(const struct bw_watches *watches, bw_ref ref);

/* Call after changes: finds the watchers that have new events. */
void bw_watches_scan(struct bw_watches *watches, const struct bw_registry *registry);
/* The registry was loaded again: every watcher resumes at its revision. */
void bw_watches_reset(struct bw_watches *watches, const struct bw_registry *registry);
/* Limits the work of one turn to `steps`. A step takes a watcher from the ready list, or examines
 * one event of the history. Without a call the work is unlimited. */
void bw_watches_turn(struct bw_watches *watches, uint32_t steps);
/* Counts work of the caller, such as a response, as `steps` of this turn. */
void bw_watches_spend(struct bw_watches *watches, uint32_t steps);
uint32_t bw_watches_steps_left(const struct bw_watches *watches);
bool bw_watches_are_idle(const struct bw_watches *watches); /* no watcher is ready */
/* Takes the next ready watcher from the list; 0: none, or the turn is over. The caller then calls
 * bw_watcher_next until it returns NOTHING or LATER, or calls bw_watcher_park. */
bw_ref bw_watches_ready(struct bw_watches *watches);
/* The owner cannot accept more events now and will call bw_watcher_next by itself. Until then the
 * watcher costs nothing, and changes do not make it ready. */
void bw_watcher_park(struct bw_watches *watches, bw_ref ref);

/* Skips all events up to now. */
void bw_watcher_skip(struct bw_watches *watches, const struct bw_registry *registry, bw_ref ref);

enum bw_watcher_result {
    BW_WATCHER_NOTHING,  /* all events up to now were delivered */
    BW_WATCHER_LATER,    /* the turn is over; the watcher is ready again */
    BW_WATCHER_EVENT,    /* *out is the next event; events of one revision follow each other */
    BW_WATCHER_COMPACTED /* the next event is no longer kept: cancel the watcher */
};

enum bw_watcher_result bw_watcher_next(struct bw_watches *watches,
                                       const struct bw_registry *registry, bw_ref ref,
                                       struct bw_kv_event *out);
/* Only right after bw_watcher_next returned an event: the next call returns that event again. */
void bw_watcher_put_back(struct bw_watches *watches, bw_ref ref);

#endif
