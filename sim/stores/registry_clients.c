/* Clients of the simulated registry: their requests, and what they do with the responses.
 *
 * A client sends one request at a time to a random node and waits for the response for a while. The
 * response, or its absence, becomes a line of the history. Some clients keep registers. Some
 * compete as in etcd's election recipe: each puts a key under its own lease, the oldest key leads,
 * and the holder acts until its lease could have expired on any allowed clock. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/expiry.h"
#include "sim/stores/registry_state.h"

#include <stdio.h>
#include <string.h>

#define KEY_MAX     32u
#define VERSION_KEY (REGISTRY_KEYS - 1) /* compared by version */
/* Faults have ended for this long before clients stop. */
#define IDLE_NS     (2 * BW_SEC)
#define CLIENT_TICK 0u
#define CLIENT_LATE 1u
#define CLIENT_TOLD 2u

/* ── names ── */

static struct bw_slice key_of(char *out, uint32_t key)
{
    int length = snprintf(out, KEY_MAX, "k%u", key);
    return (struct bw_slice){(const unsigned char *)out, (size_t)length};
}

static struct bw_slice candidate_key(char *out, uint32_t election, int64_t lease)
{
    int length = snprintf(out, KEY_MAX, "e%u/%llx", election, (unsigned long long)lease);
    return (struct bw_slice){(const unsigned char *)out, (size_t)length};
}

static bool of_election(enum ask_kind kind)
{
    return kind == ASK_CAMPAIGN || kind == ASK_LOOK || kind == ASK_RESIGN;
}

static struct bw_slice asked_key(char *out, const struct ask *ask)
{
    return of_election(ask->kind) ? candidate_key(out, ask->key, ask->lease)
                                  : key_of(out, ask->key);
}

/* ── at the node ── */

static void reply(struct bw_sim *sim, const struct ask *ask, struct response *response)
{
    bw_time delay = bw_sim_net_draw(&sim->net);
    response->client = ask->client;
    response->serial = ask->serial;
    struct bw_sim_slot *slot =
        delay == BW_TIME_NEVER
            ? NULL
            : registry_pend(sim, BW_PENDING_CLIENT, BW_NODE_NONE, response, sizeof *response);
    if (!slot)
        return;
    slot->extra = CLIENT_TOLD;
    bw_sim_queue_push(&sim->queue, slot, sim->now + delay);
}

static bool take_asked(struct replica *r, uint64_t request, struct ask *out)
{
    for (uint32_t i = 0; i < r->asked_count; i++)
        if (r->asked[i].request == request) {
            *out = r->asked[i].ask;
            r->asked[i] = r->asked[--r->asked_count];
            return true;
        }
    return false;
}

void registry_on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                         enum bw_refusal refusal, const struct bw_results *results)
{
    struct replica *r = context;
    struct ask ask;
    struct response response = {
        .outcome = BW_LINEAR_OK, .done = true, .version = BW_LINEAR_NO_VERSION};
    if (!take_asked(r, request, &ask))
        return;
    if (entry->kind == BW_ENTRY_GRANT || entry->kind == BW_ENTRY_REVOKE) {
        response.done = refusal == BW_REFUSED_NONE;
        response.ttl_ns = ask.ttl_ns;
    } else if (refusal != BW_REFUSED_NONE) {
        response.outcome = BW_LINEAR_FAIL;
    } else {
        response.revision = results->revision;
        if (entry->kind == BW_ENTRY_TXN)
            response.done = results->succeeded;
        else if (entry->kind == BW_ENTRY_DELETE)
            response.done = results->op_count && results->ops[0].count > 0;
    }
    reply(r->sim, &ask, &response);
}

static void look_at(struct replica *r, const struct ask *ask, const struct bw_kv *kv,
                    struct response *response)
{
    char name[KEY_MAX];
    struct bw_slice own = asked_key(name, ask);
    response->oldest =
        response->oldest
            ? (kv->create_revision < response->oldest ? kv->create_revision : response->oldest)
            : kv->create_revision;
    (void)r;
    if (kv->key_length != own.length || memcmp(kv->bytes, own.at, own.length) != 0)
        return;
    response->there = true;
    response->value = kv->value_length == 8 ? bw_get64(kv->bytes + kv->key_length) : 0;
    response->version = kv->version;
    response->create = kv->create_revision;
}

/* Serves a read from the current state of the registry. */
static void serve_read(struct replica *r, const struct ask *ask)
{
    struct bw_sim_registry *g = r->sim->registry;
    struct response response = {.outcome = BW_LINEAR_OK};
    char name[KEY_MAX], end[KEY_MAX];
    struct bw_results results = {.kvs = g->kvs, .kv_cap = REGISTRY_KVS};
    struct bw_op_result found = {0};
    struct bw_registry_status status;
    struct bw_range range = {.keys = {.key = asked_key(name, ask)}};
    if (ask->kind == ASK_LOOK) {
        range.keys.key.length = (size_t)snprintf(name, sizeof name, "e%u/", ask->key);
        range.keys.end.length = (size_t)snprintf(end, sizeof end, "e%u0", ask->key);
        range.keys.end.at = (const unsigned char *)end;
    }
    bw_registry_status(r->router.registry, &status);
    response.revision = status.revision;
    bw_registry_range(r->router.registry, &range, &results, &found);
    for (uint32_t i = 0; i < found.kv_count; i++)
        look_at(r, ask, found.kvs[i], &response);
    reply(r->sim, ask, &response);
}

void registry_on_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    struct replica *r = context;
    struct ask ask;
    if (registry_operator_reply(r, request, 0) || !take_asked(r, request, &ask))
        return;
    struct response response = {.outcome = BW_LINEAR_OK, .done = ttl_ns > 0, .ttl_ns = ttl_ns};
    if (ask.kind == ASK_KEEP_ALIVE)
        reply(r->sim, &ask, &response);
    else
        serve_read(r, &ask);
}

void registry_on_failed(void *context, uint64_t request, int error)
{
    struct replica *r = context;
    struct ask ask;
    struct response response = {.outcome =
                                    error == BW_ENOTLEADER ? BW_LINEAR_FAIL : BW_LINEAR_UNKNOWN};
    if (!registry_operator_reply(r, request, error) && take_asked(r, request, &ask))
        reply(r->sim, &ask, &response);
}

static void transaction(const struct ask *ask, struct bw_compare *compare, struct bw_op *op,
                        struct bw_slice key, struct bw_slice value, const unsigned char *expect)
{
    *compare = (struct bw_compare){.keys = {.key = key}};
    *op =
        (struct bw_op){.kind = BW_OP_PUT, .put = {.key = key, .value = value, .lease = ask->lease}};
    if (ask->kind == ASK_CAS && ask->expect != BW_LINEAR_ABSENT) {
        compare->what = BW_COMPARE_VALUE;
        compare->value = (struct bw_slice){expect, 8};
    } else if (ask->kind == ASK_VERSION) {
        compare->what = BW_COMPARE_VERSION;
        compare->number = ask->version;
    } else {
        compare->what = BW_COMPARE_CREATE;
        compare->number = ask->kind == ASK_RESIGN ? ask->create : 0;
    }
    if (ask->kind == ASK_RESIGN)
        *op = (struct bw_op){.kind = BW_OP_DELETE, .delete = {.keys = {.key = key}}};
}

static uint64_t propose(struct replica *r, const struct ask *ask)
{
    char name[KEY_MAX];
    unsigned char value[8], expect[8];
    struct bw_compare compare;
    struct bw_op op;
    struct bw_slice key = asked_key(name, ask), bytes = {value, sizeof value};
    struct bw_entry entry = {.kind = BW_ENTRY_TXN};
    bw_put64(value, ask->value);
    bw_put64(expect, ask->expect);
    switch (ask->kind) {
    case ASK_PUT:
        entry.kind = BW_ENTRY_PUT;
        entry.put = (struct bw_put){.key = key, .value = bytes, .lease = ask->lease};
        break;
    case ASK_DELETE:
        entry.kind = BW_ENTRY_DELETE;
        entry.delete = (struct bw_delete){.keys = {.key = key}};
        break;
    case ASK_GRANT:
    case ASK_REVOKE:
        entry.kind = ask->kind == ASK_GRANT ? BW_ENTRY_GRANT : BW_ENTRY_REVOKE;
        entry.lease.id = ask->lease;
        entry.lease.ttl_ns = ask->ttl_ns;
        break;
    default:
        transaction(ask, &compare, &op, key, bytes, expect);
        entry.txn =
            (struct bw_txn){.compares = &compare, .compare_count = 1, .then = &op, .then_count = 1};
    }
    return bw_router_propose(&r->router, &entry, r->sim->registry->scratch, REGISTRY_SCRATCH);
}

/* A client's connection closed: drops its pending requests. */
static void forget(struct replica *r, const struct ask *ask)
{
    for (uint32_t i = 0; i < r->asked_count; i++)
        if (r->asked[i].ask.client == ask->client && r->asked[i].ask.serial == ask->serial) {
            bw_router_cancel(&r->router, r->asked[i].request);
            r->asked[i] = r->asked[--r->asked_count];
            return;
        }
}

void bw_sim_registry_asked(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct replica *r = &sim->registry->replicas[slot->node];
    struct ask ask;
    struct response refused = {.outcome = BW_LINEAR_FAIL};
    memcpy(&ask, slot->body, sizeof ask);
    bw_sim_trace_stepped(&sim->trace, sim->now, slot->node, "receives a request of client",
                         (uint64_t)ask.kind << 32 | ask.client);
    bw_sim_queue_give(&sim->queue, slot);
    if (ask.kind == ASK_FORGET) {
        forget(r, &ask);
        return;
    }
    uint64_t request = 0;
    if (r->asked_count == REGISTRY_ASKED)
        ; /* like a full front end */
    else if (ask.kind == ASK_GET || ask.kind == ASK_LOOK)
        request = bw_router_ask(&r->router, BW_REPLICA_READ, 0);
    else if (ask.kind == ASK_KEEP_ALIVE)
        request = bw_router_ask(&r->router, BW_REPLICA_KEEP_ALIVE, ask.lease);
    else
        request = propose(r, &ask);
    if (request)
        r->asked[r->asked_count++] = (struct asked){.request = request, .ask = ask};
    else
        reply(sim, &ask, &refused);
}

void registry_clients_cut(struct bw_sim *sim, struct replica *r)
{
    struct response response = {.outcome = BW_LINEAR_UNKNOWN};
    while (r->asked_count > 0)
        reply(sim, &r->asked[--r->asked_count].ask, &response);
}

/* ── the client ── */

static bw_time local(const struct bw_sim *sim, const struct client *c)
{
    return bw_sim_clock_local(&c->clock, sim->now);
}

static void schedule(struct bw_sim *sim, uint32_t client, uint64_t what, bw_time after)
{
    struct response body = {.client = client, .serial = sim->registry->clients[client].serial};
    struct bw_sim_slot *slot =
        registry_pend(sim, BW_PENDING_CLIENT, BW_NODE_NONE, &body, sizeof body);
    if (!slot)
        return;
    slot->extra = what;
    bw_sim_queue_push(&sim->queue, slot, sim->now + after);
}

/* Returns a random node; 0 if that node does not run. */
static bw_node any_node(struct bw_sim *sim)
{
    bw_node id = 1 + (bw_node)bw_rng_below(&sim->registry->rng, sim->cap);
    return sim->nodes[id].up && !sim->nodes[id].leaving ? id : BW_NODE_NONE;
}

static void send_to(struct bw_sim *sim, bw_node node, const struct ask *ask)
{
    bw_time delay = bw_sim_net_draw(&sim->net);
    struct bw_sim_slot *slot = delay == BW_TIME_NEVER
                                   ? NULL
                                   : registry_pend(sim, BW_PENDING_ASKED, node, ask, sizeof *ask);
    if (slot)
        bw_sim_queue_push(&sim->queue, slot, sim->now + delay);
}

static void act(struct bw_sim *sim, uint32_t client, bool may)
{
    struct client *c = &sim->registry->clients[client];
    double bound = sim->config->drift_bound;
    bw_time lasts = (bw_time)((double)c->ttl_ns * (1 - bound) / (1 + bound));
    struct bw_act_window window = {0};
    if (may)
        window = (struct bw_act_window){
            .from = sim->now, .until = bw_sim_clock_world(&c->clock, c->sent_local + lasts)};
    bw_lease_check_acts(&sim->registry->leases, sim->now, client, c->election, c->create, window);
}

static void let_go(struct bw_sim *sim, uint32_t client)
{
    struct client *c = &sim->registry->clients[client];
    act(sim, client, false);
    c->lease = c->create = 0;
    c->holds = false;
}

static struct ask lease_ask(struct bw_sim *sim, struct client *c)
{
    struct bw_sim_registry *g = sim->registry;
    struct ask ask = {.kind = ASK_GRANT};
    const struct bw_sim_registry_config *config = &sim->config->registry;
    ask.lease = ++g->next_lease;
    ask.ttl_ns = bw_rng_between(&g->rng, config->ttl_min, config->ttl_max);
    c->careless = bw_rng_chance(&g->rng, 0.25);
    return ask;
}

static struct ask candidate_ask(struct bw_sim *sim, uint32_t client)
{
    struct bw_sim_registry *g = sim->registry;
    struct client *c = &g->clients[client];
    struct ask ask = {.kind = ASK_LOOK, .key = c->election, .lease = c->lease};
    bool unsure = of_election(c->ask.kind) && c->ask.kind != ASK_LOOK;
    if (c->create == 0 && !unsure) {
        ask.kind = ASK_CAMPAIGN;
        ask.value = ++g->next_value;
    } else if (c->holds && bw_rng_chance(&g->rng, 0.1)) {
        ask.kind = ASK_RESIGN;
        ask.create = c->create;
        act(sim, client, false);
        c->holds = false;
        c->create = 0;
    }
    return ask;
}

static struct ask register_ask(struct bw_sim *sim, struct client *c)
{
    static const enum ask_kind kinds[] = {ASK_PUT, ASK_PUT, ASK_GET, ASK_GET,
                                          ASK_GET, ASK_CAS, ASK_CAS, ASK_DELETE};
    struct bw_sim_registry *g = sim->registry;
    struct ask ask = {.kind = kinds[bw_rng_below(&g->rng, sizeof kinds / sizeof *kinds)],
                      .key = (uint32_t)bw_rng_below(&g->rng, REGISTRY_KEYS),
                      .value = ++g->next_value,
                      .version = BW_LINEAR_NO_VERSION};
    bool puts = ask.kind == ASK_PUT || ask.kind == ASK_CAS;
    if (puts && c->lease && bw_rng_chance(&g->rng, 0.4))
        ask.lease = c->lease;
    ask.expect = bw_rng_chance(&g->rng, 0.3) ? BW_LINEAR_ABSENT : c->seen;
    if (ask.kind == ASK_CAS && ask.key == VERSION_KEY) {
        ask.kind = ASK_VERSION;
        ask.version = bw_rng_chance(&g->rng, 0.3) ? 0 : c->seen_version;
    }
    return ask;
}

/* Returns the client's next request. */
static struct ask next_ask(struct bw_sim *sim, uint32_t client)
{
    struct bw_sim_registry *g = sim->registry;
    struct client *c = &g->clients[client];
    struct ask ask = {.lease = c->lease, .ttl_ns = c->ttl_ns};
    bw_time age = c->lease ? local(sim, c) - c->sent_local : 0;
    if (c->lease && age >= c->ttl_ns) { /* the lease may have expired */
        let_go(sim, client);
        age = 0;
    }
    if (!c->lease && (c->candidate || bw_rng_chance(&g->rng, 0.1)))
        return lease_ask(sim, c);
    if (c->lease && !c->careless && age >= c->ttl_ns / 3) {
        ask.kind = ASK_KEEP_ALIVE;
        return ask;
    }
    if (c->lease && bw_rng_chance(&g->rng, 0.01)) {
        ask.kind = ASK_REVOKE;
        bw_lease_check_given_up(&g->leases, c->lease);
        let_go(sim, client);
        return ask;
    }
    return c->candidate ? candidate_ask(sim, client) : register_ask(sim, c);
}

static void think(struct bw_sim *sim, uint32_t client)
{
    bw_time pace = sim->config->registry.pace_ns;
    schedule(sim, client, CLIENT_TICK, bw_rng_between(&sim->registry->rng, 0, 2 * pace));
}

static void ask_next(struct bw_sim *sim, uint32_t client)
{
    struct bw_sim_registry *g = sim->registry;
    struct client *c = &g->clients[client];
    bw_node node = any_node(sim);
    bw_time stop = sim->config->registry.stop;
    if (stop && sim->now >= stop) {
        act(sim, client, false);
        return;
    }
    if (!node) { /* connection refused */
        think(sim, client);
        return;
    }
    c->ask = next_ask(sim, client);
    c->ask.client = client;
    c->ask.serial = ++c->serial;
    c->waiting = true;
    c->call = sim->now;
    c->asked = node;
    send_to(sim, node, &c->ask);
    schedule(sim, client, CLIENT_LATE, bw_rng_between(&g->rng, 200 * BW_MS, 3 * BW_SEC));
    bool idle = stop && sim->now >= stop - IDLE_NS;
    /* sometimes the client then closes its connection, and the node forgets the request */
    if (!idle && bw_rng_chance(&g->rng, 0.02)) {
        struct ask forgotten = c->ask;
        forgotten.kind = ASK_FORGET;
        send_to(sim, node, &forgotten);
    }
}

static void record(struct bw_sim *sim, const struct client *c, const struct response *response)
{
    static const enum bw_history_kind kinds[] = {
        BW_HISTORY_PUT,   BW_HISTORY_GET,        BW_HISTORY_DELETE, BW_HISTORY_CAS,
        BW_HISTORY_CAS,   BW_HISTORY_CAS,        BW_HISTORY_GET,    BW_HISTORY_DELETE,
        BW_HISTORY_GRANT, BW_HISTORY_KEEP_ALIVE, BW_HISTORY_REVOKE};
    struct bw_sim_registry *g = sim->registry;
    char name[KEY_MAX];
    struct bw_slice key = asked_key(name, &c->ask);
    struct bw_history_op op = {.kind = kinds[c->ask.kind],
                               .outcome = response->outcome,
                               .client = c->ask.client,
                               .line = g->history.count + 1,
                               .key = bw_history_name(key.at, key.length),
                               .value = c->ask.value,
                               .expect = c->ask.expect,
                               .version = BW_LINEAR_NO_VERSION,
                               .lease = c->ask.lease,
                               .done = response->done,
                               .call = c->call,
                               .back = sim->now,
                               .revision = response->revision};
    if (op.kind == BW_HISTORY_GET) {
        op.value = response->there ? response->value : BW_LINEAR_ABSENT;
        op.lease = 0;
        if (c->ask.kind == ASK_GET && c->ask.key == VERSION_KEY)
            op.version = response->there ? response->version : 0;
    } else if (c->ask.kind == ASK_VERSION) {
        op.version = c->ask.version;
    } else if (c->ask.kind == ASK_CAMPAIGN) {
        op.expect = BW_LINEAR_ABSENT;
    } else if (op.kind == BW_HISTORY_DELETE) {
        op.lease = 0;
    }
    if (bw_history_add(&g->history, &op) != 0)
        sim->queue.error = BW_ENOMEM;
    sim->result->asked++;
    sim->result->asked_ok += response->outcome == BW_LINEAR_OK;
    sim->result->asked_unknown += response->outcome == BW_LINEAR_UNKNOWN;
}

/* ---- handling of responses ---- */

static void on_renewed(struct bw_sim *sim, struct client *c, const struct response *response)
{
    struct bw_sim_registry *g = sim->registry;
    if (!response->done) {
        if (c->ask.kind == ASK_KEEP_ALIVE)
            bw_lease_check_ended(&g->leases, sim->now, c->ask.lease);
        let_go(sim, c->ask.client);
        return;
    }
    c->lease = c->ask.lease;
    c->ttl_ns = response->ttl_ns;
    c->sent = c->call;
    c->sent_local = bw_sim_clock_local(&c->clock, c->call);
    bw_lease_check_renewed(&g->leases, sim->now, c->lease, c->ttl_ns, c->sent);
    if (c->holds)
        act(sim, c->ask.client, true);
}

static void on_look(struct bw_sim *sim, struct client *c, const struct response *response)
{
    struct bw_sim_registry *g = sim->registry;
    if (c->create && !response->there)
        bw_lease_check_ended(&g->leases, sim->now, c->lease);
    if (c->create && response->there && response->create != c->create)
        bw_lease_check_violate(&g->leases, sim->now,
                               "the key of client %u was created at %lld and again at %lld",
                               c->ask.client, (long long)c->create, (long long)response->create);
    c->create = response->there ? response->create : 0;
    c->holds = response->there && response->create == response->oldest;
    act(sim, c->ask.client, c->holds);
}

static void learn(struct bw_sim *sim, struct client *c, const struct response *response)
{
    switch (c->ask.kind) {
    case ASK_GRANT:
    case ASK_KEEP_ALIVE:
        on_renewed(sim, c, response);
        break;
    case ASK_GET:
        c->seen = response->there ? response->value : BW_LINEAR_ABSENT;
        c->seen_version = response->there ? response->version : 0;
        break;
    case ASK_CAMPAIGN:
        if (response->done)
            c->create = response->revision;
        break;
    case ASK_LOOK:
        on_look(sim, c, response);
        break;
    default:
        if (response->done && c->ask.value)
            c->seen = c->ask.value;
    }
}

void bw_sim_registry_client(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct response response;
    uint64_t what = slot->extra;
    memcpy(&response, slot->body, sizeof response);
    bw_sim_queue_give(&sim->queue, slot);
    struct client *c = &sim->registry->clients[response.client];
    if (response.serial != c->serial || (what != CLIENT_TICK && !c->waiting))
        return; /* too late */
    if (what == CLIENT_TICK) {
        ask_next(sim, response.client);
        return;
    }
    bw_time stop = sim->config->registry.stop;
    if (what == CLIENT_LATE)
        response.outcome = BW_LINEAR_UNKNOWN;
    /* A removed node exits, even in the idle time, and its clients lose their connection. */
    if (what == CLIENT_LATE && stop && c->call >= stop - IDLE_NS && sim->nodes[c->asked].up)
        bw_lease_check_violate(
            &sim->registry->leases, sim->now,
            "client %u sent a request at %.3f s in the idle time and got no response",
            response.client, (double)c->call / (double)BW_SEC);
    c->waiting = false;
    bw_sim_trace_stepped(&sim->trace, sim->now, response.client,
                         response.outcome == BW_LINEAR_OK ? "client gets a response"
                                                          : "client gets no response",
                         (uint64_t)response.revision);
    record(sim, c, &response);
    if (response.outcome == BW_LINEAR_OK)
        learn(sim, c, &response);
    /* the outcome of RESIGN is unknown: the client's key may disappear at any time, so it drops the
     * lease */
    else if (c->ask.kind == ASK_RESIGN)
        let_go(sim, response.client);
    think(sim, response.client);
}

/* ── the run ── */

void registry_clients_found(struct bw_sim *sim)
{
    struct bw_sim_registry *g = sim->registry;
    g->client_count = sim->config->registry.clients;
    g->next_value = 0;
    g->next_lease = 0;
    for (uint32_t i = 0; i < g->client_count; i++) {
        struct client *c = &g->clients[i];
        double drift = (2 * bw_rng_unit(&g->rng) - 1) * sim->config->drift;
        memset(c, 0, sizeof *c);
        bw_sim_clock_init(&c->clock, bw_rng_between(&g->rng, BW_SEC, 1000 * BW_SEC), drift);
        c->candidate = i % 2;
        c->election = i / 2 % 2;
    }
}

void registry_clients_start(struct bw_sim *sim)
{
    for (uint32_t i = 0; i < sim->registry->client_count; i++)
        think(sim, i);
}

const char *registry_clients_judge(struct bw_sim *sim, bw_time *at)
{
    struct bw_sim_registry *g = sim->registry;
    struct bw_history_verdict verdict;
    if (!bw_sim_registry_found_wrong(sim)) {
        if (bw_history_judge(&g->history, 200000, &verdict) != 0)
            bw_lease_check_violate(&g->leases, sim->now, "out of memory for judging the history");
        else if (verdict.backward_line)
            bw_lease_check_violate(
                &g->leases, sim->now,
                "not linearizable: response %u has a smaller revision than an earlier one",
                verdict.backward_line);
        else if (verdict.linear.judgement == BW_LINEAR_WRONG)
            bw_lease_check_violate(&g->leases, sim->now,
                                   "not linearizable: response %u, to client %u, has no place (%u "
                                   "of %u on its key have)",
                                   verdict.linear.stuck_line, verdict.linear.stuck_client,
                                   verdict.linear.placed, verdict.linear.known);
        sim->result->undecided = verdict.linear.undecided;
    }
    return bw_lease_check_violation(&g->leases, at);
}
