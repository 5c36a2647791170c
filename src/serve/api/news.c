/* Watchers are told of what happened.
 *
 * Watchers are taken in the order in which they became ready. All that is told in one turn of the
 * loop costs at most TURN_STEPS steps (core/registry/watch.h), whoever caused it; what is left goes
 * on in the next turn, after all other events. A watcher whose owner cannot take more is parked: it
 * costs nothing until its owner comes back to it. So a pass never looks at a watcher for nothing,
 * whatever clients do not read.
 */
#include "core/base/bug.h"
#include "serve/api/service.h"
#include "serve/api/state.h"

#include <stdlib.h>

#define TURN_STEPS 65536u /* some milliseconds */

bw_ref bw_service_watch(struct bw_service *service, struct bw_watching *watching,
                        const struct bw_watcher_spec *spec)
{
    struct bw_watcher_spec own = *spec;
    own.owner = watching;
    return bw_watcher_add(service->watches, bw_service_registry(service), &own);
}

static void tell_some(struct bw_service *service);

static void renew(struct bw_service *service)
{
    bw_watches_turn(service->watches,
                    BW_BUG(news_are_told_without_a_bound) ? UINT32_MAX : TURN_STEPS);
}

static void on_busy(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    renew(idle->data);
    tell_some(idle->data);
}

static bool is_busy(const struct bw_service *service)
{
    return service->busy && uv_is_active((const uv_handle_t *)service->busy);
}

/* In the next turn, which does not wait for events. Without memory for the handle there is no
 * bound.
 */
static void go_on_later(struct bw_service *service)
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

static void tell_some(struct bw_service *service)
{
    bw_ref ref;
    while ((ref = bw_watches_ready(service->watches))) {
        struct bw_watching *watching = bw_watcher_owner(service->watches, ref);
        watching->news(watching, ref);
    }
    if (bw_watches_steps_left(service->watches) < TURN_STEPS / 2)
        go_on_later(service);
    if (!bw_watches_are_idle(service->watches))
        return;
    while (service->behind) {
        struct bw_catch_up *node = service->behind;
        bw_service_catch_up_cancel(node);
        node->caught_up(node);
    }
}

void bw_service_news(struct bw_service *service, bool restored)
{
    struct bw_registry *registry = bw_service_registry(service);
    if (restored)
        bw_watches_reset(service->watches, registry);
    else
        bw_watches_notice(service->watches, registry);
    if (!is_busy(service))
        tell_some(service);
}

static void on_busy_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_service_news_open(struct bw_service *service)
{
    renew(service);
}

void bw_service_news_close(struct bw_service *service)
{
    if (service->busy)
        uv_close((uv_handle_t *)service->busy, on_busy_closed);
    service->busy = NULL;
}
