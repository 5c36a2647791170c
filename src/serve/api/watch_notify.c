/* Notifies watchers of changes.
 *
 * Watchers are served in the order in which they became ready. Notifying costs at most TURN_STEPS
 * steps (core/registry/watch.h) per turn of the loop, whatever caused it. The rest follows in the
 * next turn, after all other events. A watcher whose owner cannot accept more is parked: it costs
 * nothing until its owner resumes it. So a pass never visits a watcher in vain, even if clients do
 * not read. */
#include "core/base/bug.h"
#include "serve/api/service.h"
#include "serve/api/state.h"

#include <stdlib.h>

#define TURN_STEPS 65536u /* a few milliseconds */
/* A response costs as much time as this many steps: it is encoded and framed. */
#define RESPONSE_STEPS 32u

bw_ref bw_service_watch(struct bw_service *service, struct bw_watching *watching,
                        const struct bw_watcher_spec *spec)
{
    struct bw_watcher_spec own = *spec;
    own.owner = watching;
    return bw_watcher_add(service->watches, bw_service_registry(service), &own);
}

static void notify_some(struct bw_service *service);

static void renew_budget(struct bw_service *service)
{
    bw_watches_turn(service->watches,
                    BW_BUG(updates_are_sent_without_a_limit) ? UINT32_MAX : TURN_STEPS);
}

static void on_busy(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    renew_budget(idle->data);
    notify_some(idle->data);
}

static bool is_busy(const struct bw_service *service)
{
    return service->busy && uv_is_active((const uv_handle_t *)service->busy);
}

/* Continues in the next turn, without waiting for events. If memory is exhausted, does all the work
 * now, without a bound. */
static void continue_later(struct bw_service *service)
{
    if (!service->busy) {
        service->busy = malloc(sizeof *service->busy);
        if (!service->busy) {
            bw_watches_turn(service->watches, UINT32_MAX);
            return;
        }
        uv_idle_init(service->options.loop, service->busy);
        service->busy->data = service;
    }
    uv_idle_start(service->busy, on_busy);
}

void bw_service_catch_up_cancel(struct bw_catch_up *node)
{
    if (!node->link)
        return;
    *node->link = node->next;
    if (node->next)
        node->next->link = node->link;
    node->link = NULL;
}

void bw_service_catch_up(struct bw_service *service, struct bw_catch_up *node)
{
    if (node->link)
        return;
    if (bw_watches_are_idle(service->watches)) {
        node->caught_up(node);
        return;
    }
    node->next = service->behind;
    node->link = &service->behind;
    if (node->next)
        node->next->link = &node->next;
    service->behind = node;
}

static void notify_some(struct bw_service *service)
{
    bw_ref ref;
    while ((ref = bw_watches_ready(service->watches))) {
        struct bw_watching *watching = bw_watcher_owner(service->watches, ref);
        watching->notify(watching, ref);
        bw_watches_spend(service->watches, RESPONSE_STEPS);
    }
    if (bw_watches_steps_left(service->watches) < TURN_STEPS / 2)
        continue_later(service);
    if (!bw_watches_are_idle(service->watches))
        return;
    while (service->behind) {
        struct bw_catch_up *node = service->behind;
        bw_service_catch_up_cancel(node);
        node->caught_up(node);
    }
}

void bw_service_notify_watchers(struct bw_service *service, bool restored)
{
    struct bw_registry *registry = bw_service_registry(service);
    if (restored)
        bw_watches_reset(service->watches, registry);
    else
        bw_watches_scan(service->watches, registry);
    if (!is_busy(service))
        notify_some(service);
}

static void on_busy_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_service_notify_open(struct bw_service *service)
{
    renew_budget(service);
}

void bw_service_notify_close(struct bw_service *service)
{
    if (service->busy)
        uv_close((uv_handle_t *)service->busy, on_busy_closed);
    service->busy = NULL;
}
