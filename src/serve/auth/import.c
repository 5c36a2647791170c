/* Imports the users of a file as the cluster's first users, in one log entry. The entry is refused
 * if the cluster ever had users.
 *
 * A node with a users file serves no requests until users exist: an operator who names users
 * requires authentication from the first request. */
#include "serve/api/state.h"

#include <stdlib.h>

#define RETRY_MS 20u

bool bw_service_awaits_users(const struct bw_service *service)
{
    struct bw_users_status status;
    if (!service->options.users)
        return false;
    bw_registry_users_status(bw_replica_registry(service->replica), &status);
    return status.revision == 0;
}

static void ignore_end(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    (void)code;
    (void)text;
}

static void imported(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                     enum bw_refusal refusal, const struct bw_results *results)
{
    (void)call;
    (void)number;
    (void)entry;
    (void)refusal; /* another node imported first */
    (void)results;
}

static void not_imported(struct bw_call *call, int64_t number, int error)
{
    (void)call;
    (void)number;
    (void)error; /* the timer retries */
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
    wait->applied = imported;
    wait->failed = not_imported;
}

static void on_timer(uv_timer_t *timer)
{
    struct bw_service *service = timer->data;
    struct bw_registry_status status;
    bw_registry_status(bw_replica_registry(service->replica), &status);
    if (!bw_service_awaits_users(service))
        uv_timer_stop(timer);
    else if (!service->import.waits && status.level >= BW_REGISTRY_LEVEL_USERS)
        propose(service);
}

void bw_service_import_open(struct bw_service *service)
{
    service->import = (struct bw_call){.service = service, .end = ignore_end};
    uv_timer_t *timer = service->options.users ? malloc(sizeof *timer) : NULL;
    service->import_timer = timer;
    if (!timer)
        return;
    uv_timer_init(service->options.loop, timer);
    timer->data = service;
    uv_timer_start(timer, on_timer, RETRY_MS, RETRY_MS);
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
