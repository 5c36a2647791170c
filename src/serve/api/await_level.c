/* Holds proposals that not every member is known to understand yet.
 *
 * The content of the log must be readable by every member. Each node publishes its version in the
 * log after its start, so a new cluster knows the versions of all members only some milliseconds
 * after its first election. Clients of etcd do not expect that moment: `etcdctl user add` directly
 * after the start must succeed. So a proposal waits until the level of the registry is reached, for
 * AWAIT_MS at most. After that it is refused: a member is missing or runs an older version.
 *
 * A waiting proposal is kept in its encoded form, because the client's message is gone by then. */
#include "core/base/assert.h"
#include "core/base/error.h"
#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <stdio.h>
#include <stdlib.h>

#define AWAIT_MS 5000u /* a client of etcd waits 5 s for a command by default */
#define LOOK_MS  10u
/* Proposals that wait at a time; more are refused at once, so that memory is bounded. */
#define AWAITING_MAX 16u

struct bw_awaiting {
    struct bw_awaiting *next;
    struct bw_call *call;
    struct bw_proposal proposal; /* its entry is in `bytes` */
    uint64_t until_ms;
    size_t length;
    unsigned char bytes[];
};

static uint32_t level_of(struct bw_service *service)
{
    struct bw_registry_status status;
    bw_registry_status(bw_service_registry(service), &status);
    return status.level;
}

static void refuse(struct bw_call *call, const char *what)
{
    char text[160];
    snprintf(text, sizeof text,
             "bellwether: %s: every member must run this version and have joined once", what);
    bw_call_end(call, BW_CODE_UNAVAILABLE, text);
}

static void propose(struct bw_call *call, const struct bw_proposal *proposal,
                    struct bw_entry *entry)
{
    struct bw_wait *wait = bw_service_propose(call, entry, proposal->applied);
    if (wait)
        wait->number = proposal->number;
}

static void resume(const struct bw_awaiting *awaiting)
{
    struct bw_entry_scratch *scratch = calloc(1, sizeof *scratch);
    struct bw_entry entry;
    if (!scratch) {
        bw_call_end(awaiting->call, BW_CODE_EXHAUSTED, BW_NO_MEMORY);
        return;
    }
    int error = bw_entry_decode(&entry, scratch, awaiting->bytes, awaiting->length);
    BW_ASSERT(!error); /* keep() encoded it */
    propose(awaiting->call, &awaiting->proposal, &entry);
    free(scratch);
}

/* Removes the first proposal that need not wait any longer. NULL: there is none. */
static struct bw_awaiting *take_ready(struct bw_service *service, uint32_t level)
{
    uint64_t now_ms = uv_now(service->options.loop);
    for (struct bw_awaiting **at = &service->awaiting; *at; at = &(*at)->next) {
        struct bw_awaiting *awaiting = *at;
        if (level < awaiting->proposal.level && now_ms < awaiting->until_ms)
            continue;
        *at = awaiting->next;
        service->awaiting_count--;
        return awaiting;
    }
    return NULL;
}

static void on_timer(uv_timer_t *timer)
{
    struct bw_service *service = timer->data;
    struct bw_awaiting *awaiting;
    uint32_t level = level_of(service);
    /* Ending a call may remove others from the list, so each search begins at its head. */
    while ((awaiting = take_ready(service, level))) {
        if (level >= awaiting->proposal.level)
            resume(awaiting);
        else
            refuse(awaiting->call, awaiting->proposal.what);
        free(awaiting);
    }
    if (!service->awaiting)
        uv_timer_stop(timer);
}

/* Returns false if memory is exhausted. */
static bool start_timer(struct bw_service *service)
{
    if (!service->await_timer) {
        service->await_timer = malloc(sizeof *service->await_timer);
        if (!service->await_timer)
            return false;
        uv_timer_init(service->options.loop, service->await_timer);
        service->await_timer->data = service;
    }
    uv_timer_start(service->await_timer, on_timer, LOOK_MS, LOOK_MS);
    return true;
}

/* Encodes the entry at the end of the list. Returns 0, BW_ENOMEM or BW_ELIMIT. */
static int keep(struct bw_call *call, const struct bw_proposal *proposal,
                const struct bw_entry *entry)
{
    size_t size = BW_REQUEST_MAX + 4096u; /* the request, and the name of its user */
    struct bw_service *service = call->service;
    struct bw_awaiting *awaiting = malloc(sizeof *awaiting + size), **end = &service->awaiting;
    if (!awaiting || !start_timer(service)) {
        free(awaiting);
        return BW_ENOMEM;
    }
    int length = bw_entry_encode(entry, awaiting->bytes, size);
    if (length < 0) {
        free(awaiting);
        return length;
    }
    struct bw_awaiting *smaller = realloc(awaiting, sizeof *awaiting + (size_t)length);
    awaiting = smaller ? smaller : awaiting;
    awaiting->next = NULL;
    awaiting->call = call;
    awaiting->proposal = *proposal;
    awaiting->until_ms = uv_now(service->options.loop) + AWAIT_MS;
    awaiting->length = (size_t)length;
    while (*end)
        end = &(*end)->next;
    *end = awaiting;
    service->awaiting_count++;
    return 0;
}

void bw_service_propose_at_level(struct bw_call *call, const struct bw_proposal *proposal,
                                 struct bw_entry *entry)
{
    if (level_of(call->service) >= proposal->level) {
        propose(call, proposal, entry);
        return;
    }
    entry->by = bw_auth_by(call);
    int error =
        call->service->awaiting_count < AWAITING_MAX ? keep(call, proposal, entry) : BW_ELIMIT;
    if (error == BW_ENOMEM)
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_NO_MEMORY);
    else if (error)
        refuse(call, proposal->what);
}

void bw_service_await_forget(struct bw_call *call)
{
    struct bw_awaiting **at = &call->service->awaiting;
    while (*at) {
        struct bw_awaiting *awaiting = *at;
        if (awaiting->call != call) {
            at = &awaiting->next;
            continue;
        }
        *at = awaiting->next;
        call->service->awaiting_count--;
        free(awaiting);
    }
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_service_await_close(struct bw_service *service)
{
    while (service->awaiting) {
        struct bw_awaiting *awaiting = service->awaiting;
        service->awaiting = awaiting->next;
        free(awaiting);
    }
    service->awaiting_count = 0;
    if (service->await_timer)
        uv_close((uv_handle_t *)service->await_timer, on_closed);
}
