/* The users of a file become the cluster's first ones: as one entry of the log, which is refused if
 * there have been users before. Until there are some nobody is served by a node that was given a
 * file: an operator who names users wants everybody asked, from the first request on. */
#include "serve/api/state.h"

#include <stdlib.h>

#define AGAIN_MS 20u

bool bw_service_awaits_users(const struct bw_service *service)
{
    struct bw_users_status status;
    if (!service->options.users)
        return false;
    bw_registry_users_status(bw_replica_registry(service->replica), &status);
    return status.revision == 0;
}

static void say_nothing(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    (void)code;
    (void)text;
}

static void taken(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                  enum bw_refusal refusal, const struct bw_results *results)
{
    (void)call;
    (void)number;
    (void)entry;
    (void)refusal; /* another node's came first */
    (void)results;
}

static void not_taken(struct bw_call *call, int64_t number, int error)
{
    (void)call;
    (void)number;
    (void)error; /* tried again */
}

static void propose(struct bw_service *service)
{
    struct bw_call *call = &service->import;
    const struct bw_users *users = service->options.users;
    size_t size = users->count * (size_t)BW_USER_BYTES;
    struct bw_writer list = {.at = malloc(size), .size = size};
    if (!list.at)
        return;
    for (uint32_t i = 0; i < users->count; i++)
        bw_user_write(&list, &users->at[i]);
    struct bw_entry entry = {
        .kind = BW_ENTRY_USERS,
        .users = {.act = BW_USERS_IMPORT, .list = {.at = list.at, .length = list.used}}};
    uint64_t request = bw_replica_propose(service->replica, &entry);
    free(list.at);
    struct bw_wait *wait = request ? bw_service_wait(call, request) : NULL;
    call->ended = false;
    if (!wait)
        return;
    wait->applied = taken;
    wait->failed = not_taken;
}

static void on_timer(uv_timer_t *timer)
{
    struct bw_service *service = timer->data;
    struct bw_registry_status status;
    bw_registry_status(bw_replica_registry(service->replica), &status);
    if (!bw_service_awaits_users(service))
        uv_timer_stop(timer);
    else if (!service->import.waits && status.level >= BW_REGISTRY_LEVEL)
        propose(service);
}

void bw_service_import_open(struct bw_service *service)
{
    service->import = (struct bw_call){.service = service, .end = say_nothing};
    uv_timer_t *timer = service->options.users ? malloc(sizeof *timer) : NULL;
    service->import_timer = timer;
    if (!timer)
        return;
    uv_timer_init(service->options.loop, timer);
    timer->data = service;
    uv_timer_start(timer, on_timer, AGAIN_MS, AGAIN_MS);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_service_import_close(struct bw_service *service)
{
    bw_call_gone(&service->import);
    if (service->import_timer)
        uv_close((uv_handle_t *)service->import_timer, on_closed);
}
