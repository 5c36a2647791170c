/* The leases of a connection, and their end after it; see binding.h. A revocation that fails (no
 * leader now) is tried again for as long as the lease is there and bound so: it names the binding,
 * so a late one does no harm. */
#include "serve/api/binding.h"

#include "serve/api/state.h"

#include <stdlib.h>
#include <sys/random.h>

#define NUMBER_BITS     48u /* above: the node */
#define FIRST_ROOM      4u
#define REVOKES_AT_ONCE 256u /* of one connection */
#define AGAIN_NS        (100 * BW_MS)

struct bw_bindings {
    struct bw_service *service;
    uv_timer_t timer;
    struct bw_binding *ended;
    uint64_t next, armed_ns; /* armed: UINT64_MAX: not */
    uint32_t leases;         /* room for them, of all */
};

struct bw_binding {
    struct bw_bindings *all;
    uint64_t number;
    enum bw_bind bind;
    bw_time hold_off_ns;
    int64_t *leases;
    uint32_t count, room;
    /* after its end */
    struct bw_binding *next, **link;
    struct bw_call call; /* on whose behalf leases are revoked */
    uint64_t due_ns;
    uint32_t asked;
};

/* ---- while the connection is there ---- */

static void on_due(uv_timer_t *timer);

static struct bw_bindings *bindings_of(struct bw_service *service)
{
    struct bw_bindings *all = service->bindings;
    if (all)
        return all;
    all = calloc(1, sizeof *all);
    if (!all || getrandom(&all->next, sizeof all->next, 0) != (ssize_t)sizeof all->next) {
        free(all);
        return NULL;
    }
    all->service = service;
    all->armed_ns = UINT64_MAX;
    uv_timer_init(service->options.loop, &all->timer);
    all->timer.data = all;
    service->bindings = all;
    return all;
}

struct bw_binding *bw_binding_new(struct bw_service *service, bw_time hold_off_ns)
{
    struct bw_bindings *all = bindings_of(service);
    struct bw_binding *binding = all ? calloc(1, sizeof *binding) : NULL;
    if (!binding)
        return NULL;
    binding->all = all;
    binding->hold_off_ns = hold_off_ns;
    /* Numbers begin anywhere: leases outlive this process and keep those of an earlier one. */
    binding->number = (uint64_t)service->options.self << NUMBER_BITS |
                      (++all->next & (((uint64_t)1 << NUMBER_BITS) - 1));
    return binding;
}

void bw_binding_ask(struct bw_binding *binding, enum bw_bind bind)
{
    if (binding->bind != BW_BIND_FAREWELL)
        binding->bind = bind;
}

uint64_t bw_binding_number(const struct bw_binding *binding)
{
    return binding->number;
}

uint32_t bw_binding_hold_off_ms(const struct bw_binding *binding)
{
    return (uint32_t)((binding->hold_off_ns + BW_MS - 1) / BW_MS);
}

static bool is_elsewhere(const struct bw_binding *binding, int64_t lease)
{
    struct bw_lease_view view;
    return bw_registry_lease(bw_service_registry(binding->all->service), lease, &view) &&
           view.binding != binding->number;
}

static bool is_bound(const struct bw_binding *binding, int64_t lease)
{
    struct bw_lease_view view;
    return bw_registry_lease(bw_service_registry(binding->all->service), lease, &view) &&
           view.binding == binding->number;
}

/* Those that ended or were bound elsewhere make room. */
static void forget_others(struct bw_binding *binding)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < binding->count; i++)
        if (is_bound(binding, binding->leases[i]))
            binding->leases[kept++] = binding->leases[i];
    binding->count = kept;
}

static void grow(struct bw_binding *binding)
{
    struct bw_bindings *all = binding->all;
    uint32_t room = binding->room ? 2 * binding->room : FIRST_ROOM;
    if (room > BW_BOUND_MAX || all->leases + room - binding->room > BW_BOUND_ALL_MAX)
        return;
    int64_t *larger = realloc(binding->leases, room * sizeof *larger);
    if (!larger)
        return;
    all->leases += room - binding->room;
    binding->leases = larger;
    binding->room = room;
}

void bw_binding_add(struct bw_binding *binding, int64_t lease)
{
    if (binding->count == binding->room) {
        forget_others(binding);
        if (2 * binding->count >= binding->room)
            grow(binding);
    }
    if (binding->count < binding->room)
        binding->leases[binding->count++] = lease;
}

/* ---- after it ---- */

static void binding_free(struct bw_binding *binding)
{
    if (binding->link) {
        *binding->link = binding->next;
        if (binding->next)
            binding->next->link = binding->link;
    }
    binding->all->leases -= binding->room;
    free(binding->leases);
    free(binding);
}

static void arm(struct bw_bindings *all, uint64_t at_ns)
{
    uint64_t now = uv_hrtime();
    if (at_ns >= all->armed_ns)
        return;
    all->armed_ns = at_ns;
    uv_update_time(all->timer.loop); /* a hold-off counts from now, not from when the loop woke */
    uv_timer_start(&all->timer, on_due, at_ns > now ? (at_ns - now) / (uint64_t)BW_MS + 1 : 0, 0);
}

static void on_revoked(struct bw_call *call, int64_t lease, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results);
static void on_not_revoked(struct bw_call *call, int64_t lease, int error);

static bool end_lease(struct bw_binding *binding, int64_t lease)
{
    struct bw_service *service = binding->all->service;
    struct bw_entry entry = {.kind = BW_ENTRY_REVOKE,
                             .by = bw_registry_own(bw_service_registry(service)),
                             .lease = {.id = lease, .binding = binding->number}};
    uint64_t request = bw_replica_propose(service->replica, &entry);
    struct bw_wait *wait = request ? bw_service_wait(&binding->call, request) : NULL;
    binding->call.ended = false; /* no wait, no end: it is tried again */
    if (!wait)
        return false;
    wait->number = lease;
    wait->applied = on_revoked;
    wait->failed = on_not_revoked;
    binding->asked++;
    return true;
}

/* It is gone when nothing is left to do. */
static void revoke_some(struct bw_binding *binding)
{
    while (binding->count > 0 && binding->asked < REVOKES_AT_ONCE) {
        int64_t lease = binding->leases[binding->count - 1];
        if (!is_elsewhere(binding, lease) && !end_lease(binding, lease)) {
            binding->due_ns = uv_hrtime() + (uint64_t)AGAIN_NS;
            arm(binding->all, binding->due_ns);
            return;
        }
        binding->count--;
    }
    binding->due_ns = UINT64_MAX; /* answers carry it on */
    if (binding->count == 0 && binding->asked == 0)
        binding_free(binding);
}

static struct bw_binding *binding_of(struct bw_call *call)
{
    return call->state;
}

static void on_revoked(struct bw_call *call, int64_t lease, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    struct bw_binding *binding = binding_of(call);
    (void)lease;
    (void)entry;
    (void)refusal; /* gone, or bound elsewhere: either way it is not ours to end any more */
    (void)results;
    binding->asked--;
    if (binding->due_ns == UINT64_MAX)
        revoke_some(binding);
}

static void on_not_revoked(struct bw_call *call, int64_t lease, int error)
{
    struct bw_binding *binding = binding_of(call);
    (void)error;
    binding->asked--;
    binding->leases[binding->count++] = lease;
    binding->due_ns = uv_hrtime() + (uint64_t)AGAIN_NS;
    arm(binding->all, binding->due_ns);
}

static void on_due(uv_timer_t *timer)
{
    struct bw_bindings *all = timer->data;
    uint64_t now = uv_hrtime(), next = UINT64_MAX;
    all->armed_ns = UINT64_MAX;
    for (struct bw_binding *at = all->ended, *after; at; at = after) {
        after = at->next;
        if (at->due_ns <= now)
            revoke_some(at);
        else if (at->due_ns < next)
            next = at->due_ns;
    }
    if (next != UINT64_MAX)
        arm(all, next);
}

static void say_nothing(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    (void)code;
    (void)text;
}

void bw_binding_end(struct bw_binding *binding, enum bw_hangup hangup)
{
    struct bw_bindings *all = binding->all;
    if (binding->count == 0 || !bw_bind_ends(binding->bind, hangup)) {
        binding_free(binding);
        return;
    }
    binding->call = (struct bw_call){.service = all->service, .state = binding, .end = say_nothing};
    binding->due_ns = uv_hrtime() + (uint64_t)binding->hold_off_ns;
    binding->next = all->ended;
    binding->link = &all->ended;
    if (binding->next)
        binding->next->link = &binding->next;
    all->ended = binding;
    arm(all, binding->due_ns);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void bw_bindings_close(struct bw_service *service)
{
    struct bw_bindings *all = service->bindings;
    if (!all)
        return;
    while (all->ended) {
        bw_call_gone(&all->ended->call);
        binding_free(all->ended); /* NOLINT(clang-analyzer-unix.Malloc): it unlinks itself */
    }
    service->bindings = NULL;
    uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}
