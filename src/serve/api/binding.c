/* The leases of a connection, and their revocation after it closes; see binding.h.
 *
 * A failed revocation (for example without a leader) is retried while the lease exists and is still
 * bound to this connection. It names the binding, so a late revocation is harmless. After a clean
 * close, a death proof is put before it (death_proof.c).
 *
 * The revocation is requested as the user of the connection: another user may have attached keys
 * to the lease since, and a user must not delete keys that it may not write. */
#include "serve/api/binding.h"

#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NUMBER_BITS     48u /* the bits above hold the node id */
#define FIRST_CAPACITY  4u
#define REVOKES_AT_ONCE 256u /* revocations in flight per connection */
#define RETRY_NS        (100 * BW_MS)

struct bw_bindings {
    struct bw_service *service;
    uv_timer_t timer;
    struct bw_binding *ended;
    uint64_t next, armed_ns; /* armed_ns: UINT64_MAX: timer not armed */
    uint32_t leases;         /* capacity of all bindings together */
};

struct bw_binding {
    struct bw_bindings *all;
    uint64_t number;
    enum bw_bind bind;
    bw_time hold_off_ns;
    int64_t *leases;
    uint32_t count, capacity;
    struct bw_caller caller; /* the user that bound the leases */
    /* used after the connection has closed: */
    struct bw_binding *next, **link;
    struct bw_call call; /* the revocations belong to this call */
    bool closed_cleanly; /* with this proof: */
    unsigned char proof[BW_BIND_PROOF];
    uint64_t due_ns;
    uint32_t in_flight;
};

/* ---- while the connection is open ---- */

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
    /* Numbers start at a random value: leases outlive this process and keep its earlier numbers. */
    binding->number = (uint64_t)service->options.self << NUMBER_BITS |
                      (++all->next & (((uint64_t)1 << NUMBER_BITS) - 1));
    return binding;
}

void bw_binding_ask(struct bw_binding *binding, enum bw_bind bind)
{
    if (binding->bind != BW_BIND_CLEAN_CLOSE)
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

/* Drops leases that ended or were bound to another connection. */
static void drop_others(struct bw_binding *binding)
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
    uint32_t capacity = binding->capacity ? 2 * binding->capacity : FIRST_CAPACITY;
    if (capacity > BW_BOUND_MAX || all->leases + capacity - binding->capacity > BW_BOUND_ALL_MAX)
        return;
    int64_t *larger = realloc(binding->leases, capacity * sizeof *larger);
    if (!larger)
        return;
    all->leases += capacity - binding->capacity;
    binding->leases = larger;
    binding->capacity = capacity;
}

/* The leases of a second user on the same connection end by their TTL. */
static bool remember_caller(struct bw_binding *binding, const struct bw_caller *caller)
{
    if (binding->caller.name[0] && strcmp(binding->caller.name, caller->name) != 0)
        return false;
    binding->caller = *caller;
    return true;
}

void bw_binding_add(struct bw_binding *binding, const struct bw_caller *caller, int64_t lease)
{
    if (!remember_caller(binding, caller))
        return;
    if (binding->count == binding->capacity) {
        drop_others(binding);
        if (2 * binding->count >= binding->capacity)
            grow(binding);
    }
    if (binding->count < binding->capacity)
        binding->leases[binding->count++] = lease;
}

/* ---- after it has closed ---- */

static void binding_free(struct bw_binding *binding)
{
    if (binding->link) {
        *binding->link = binding->next;
        if (binding->next)
            binding->next->link = binding->link;
    }
    binding->all->leases -= binding->capacity;
    free(binding->leases);
    free(binding);
}

static void arm(struct bw_bindings *all, uint64_t at_ns)
{
    uint64_t now = uv_hrtime();
    if (at_ns >= all->armed_ns)
        return;
    all->armed_ns = at_ns;
    uv_update_time(all->timer.loop); /* the hold-off starts now, not when the loop woke up */
    uv_timer_start(&all->timer, on_due, at_ns > now ? (at_ns - now) / (uint64_t)BW_MS + 1 : 0, 0);
}

static void on_revoked(struct bw_call *call, int64_t lease, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results);
static void on_not_revoked(struct bw_call *call, int64_t lease, int error);

static bool end_lease(struct bw_binding *binding, int64_t lease)
{
    struct bw_service *service = binding->all->service;
    struct bw_entry entry = {.kind = BW_ENTRY_REVOKE,
                             .by = bw_auth_by(&binding->call),
                             .lease = {.id = lease, .binding = binding->number}};
    uint64_t request = bw_replica_propose(service->replica, &entry);
    struct bw_wait *wait = request ? bw_service_wait(&binding->call, request) : NULL;
    binding->call.ended = false; /* without a wait the call goes on: it is retried */
    if (!wait)
        return false;
    wait->number = lease;
    wait->applied = on_revoked;
    wait->failed = on_not_revoked;
    binding->in_flight++;
    return true;
}

/* Frees the binding when nothing is left to do. */
static void revoke_some(struct bw_binding *binding)
{
    while (binding->count > 0 && binding->in_flight < REVOKES_AT_ONCE) {
        int64_t lease = binding->leases[binding->count - 1];
        if (!is_elsewhere(binding, lease) && binding->closed_cleanly)
            bw_death_proof_put(&binding->call, lease, binding->proof);
        if (!is_elsewhere(binding, lease) && !end_lease(binding, lease)) {
            binding->due_ns = uv_hrtime() + (uint64_t)RETRY_NS;
            arm(binding->all, binding->due_ns);
            return;
        }
        binding->count--;
    }
    binding->due_ns = UINT64_MAX; /* the next response continues */
    if (binding->count == 0 && binding->in_flight == 0)
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
    (void)refusal; /* gone, bound elsewhere, or with keys of others: not ours to revoke */
    (void)results;
    binding->in_flight--;
    if (binding->due_ns == UINT64_MAX)
        revoke_some(binding);
}

static void on_not_revoked(struct bw_call *call, int64_t lease, int error)
{
    struct bw_binding *binding = binding_of(call);
    (void)error;
    binding->in_flight--;
    binding->leases[binding->count++] = lease;
    binding->due_ns = uv_hrtime() + (uint64_t)RETRY_NS;
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

static void ignore_end(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    (void)code;
    (void)text;
}

void bw_binding_end(struct bw_binding *binding, enum bw_close_cause close_cause,
                    const unsigned char proof[BW_BIND_PROOF])
{
    struct bw_bindings *all = binding->all;
    if (binding->count == 0 || !bw_bind_ends(binding->bind, close_cause)) {
        binding_free(binding);
        return;
    }
    binding->call = (struct bw_call){
        .service = all->service, .state = binding, .end = ignore_end, .caller = binding->caller};
    binding->closed_cleanly = close_cause == BW_CLOSED_CLEANLY;
    if (binding->closed_cleanly)
        memcpy(binding->proof, proof, sizeof binding->proof);
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
