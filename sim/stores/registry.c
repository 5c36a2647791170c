/* Nodes with a registry: the bytes of Raft's entries, snapshots, and the router's hooks. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "sim/stores/registry_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TICK       (25 * BW_MS)
#define TURN_MAX   (300 * BW_US)
#define BYTES_MAX  ((size_t)1 << 30)
#define ENTRY_MARK ((uint64_t)0xb00c << 48)
#define FRAME_ASK  0u
#define FRAME_TOLD 1u
#define FRAME_AWAY 2u

/* ── the algorithm ── */

static size_t raft_bytes(const struct bw_elector_config *config)
{
    return bw_elect_raft.bytes(config);
}

static uint32_t raft_actions_max(const struct bw_elector_config *config)
{
    return bw_elect_raft.actions_max(config);
}

static int raft_init(void *memory, const struct bw_elector_config *config)
{
    return bw_elect_raft.init(memory, config);
}

static void raft_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    bw_elect_raft.step(self, event, actions);
}

static bw_time raft_deadline(const void *self)
{
    return bw_elect_raft.deadline(self);
}

static void raft_status(const void *self, struct bw_elector_status *out)
{
    bw_elect_raft.status(self, out);
}

const struct bw_elector_ops bw_sim_registry_ops = {
    .name = "registry",
    .promise = "only the side with a majority of the voters serves; client histories are "
               "linearizable and leases never end early",
    .traits = BW_TRAIT_TOKEN | BW_TRAIT_OWN_TIMERS,
    .bytes = raft_bytes,
    .actions_max = raft_actions_max,
    .init = raft_init,
    .step = raft_step,
    .deadline = raft_deadline,
    .status = raft_status};

bool bw_sim_is_raft(const struct bw_elector_ops *ops)
{
    return ops == &bw_elect_raft || ops == &bw_sim_registry_ops;
}

/* ── bytes ── */

static bool keep_bytes(struct bw_sim *sim, struct saved_list *list, uint64_t state,
                       const unsigned char *bytes, size_t length)
{
    struct bw_sim_registry *g = sim->registry;
    if (g->used + length > g->size) {
        size_t size = 2 * (g->used + length) + 65536;
        unsigned char *larger = size > BYTES_MAX ? NULL : realloc(g->bytes, size);
        if (!larger) {
            sim->queue.error = BW_ENOMEM;
            return false;
        }
        g->bytes = larger;
        g->size = size;
    }
    if (list->count == list->cap) {
        uint32_t cap = list->cap ? 2 * list->cap : 256;
        struct saved *larger = realloc(list->at, cap * sizeof *larger);
        if (!larger) {
            sim->queue.error = BW_ENOMEM;
            return false;
        }
        list->at = larger;
        list->cap = cap;
    }
    memcpy(g->bytes + g->used, bytes, length);
    list->at[list->count++] = (struct saved){.state = state, .at = g->used, .length = length};
    g->used += length;
    return true;
}

static const struct saved *find_snapshot(const struct bw_sim_registry *g, uint64_t state)
{
    for (uint32_t i = g->snapshots.count; i > 0; i--)
        if (g->snapshots.at[i - 1].state == state)
            return &g->snapshots.at[i - 1];
    return NULL;
}

uint64_t bw_sim_registry_entry(struct bw_sim *sim, bw_node id, uint64_t request, uint32_t i,
                               bool change)
{
    if (!sim->registry || !request)
        return 0;
    const struct bw_router *router = &sim->registry->replicas[id].router;
    const struct bw_request *at =
        change ? bw_router_find(router, request) : bw_router_batch(router, request);
    for (; at && i > 0; i--)
        at = at->with;
    if (!at || !keep_bytes(sim, &sim->registry->entries, 0, at->bytes, at->length))
        return 0;
    return ENTRY_MARK | sim->registry->entries.count;
}

const struct saved *registry_saved_entry(const struct bw_sim_registry *g,
                                         const struct bw_sim_entry *entry)
{
    uint64_t number = entry->hash & ~ENTRY_MARK;
    bool ours =
        (entry->hash & ENTRY_MARK) == ENTRY_MARK && number > 0 && number <= g->entries.count;
    return ours ? &g->entries.at[number - 1] : NULL;
}

/* ── hooks ── */

struct bw_sim_slot *registry_pend(struct bw_sim *sim, enum bw_sim_pending kind, bw_node node,
                                  const void *body, size_t bytes)
{
    struct bw_sim_slot *slot = bw_sim_pend(sim, kind, node);
    BW_ASSERT(bytes <= BW_SIM_SLOT_BODY);
    if (slot && bytes)
        memcpy(slot->body, body, bytes);
    return slot;
}

static bw_time now(void *context)
{
    const struct replica *r = context;
    return bw_sim_clock_local(&r->sim->nodes[r->id].clock, r->sim->now);
}

static void *take(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void give(void *context, void *block)
{
    (void)context;
    free(block);
}

static uint8_t *way(struct bw_sim *sim, bw_node from, bw_node to)
{
    return &sim->registry->broken[from * (sim->cap + 1) + to];
}

static void carry(struct bw_sim *sim, const struct replica *r, bw_node to, unsigned char *frame,
                  size_t length, bw_time delay)
{
    struct bw_sim_slot *slot = registry_pend(sim, BW_PENDING_FRAME, to, &r->id, sizeof r->id);
    if (slot && bw_sim_slot_block(&sim->queue, slot, frame, length))
        bw_sim_queue_push(&sim->queue, slot, sim->now + delay);
}

/* Sends a frame. A lost frame breaks the connection: nothing is sent that way until a message from
 * the other node arrives. */
static bool send(const struct replica *r, bw_node to, unsigned kind, const unsigned char *head,
                 size_t head_length, const unsigned char *rest, size_t length)
{
    struct bw_sim *sim = r->sim;
    unsigned char *frame = sim->registry->scratch;
    if (!to || to > sim->cap || to == r->id || *way(sim, r->id, to))
        return false;
    frame[0] = (unsigned char)kind;
    memcpy(frame + 1, head, head_length);
    if (length)
        memcpy(frame + 1 + head_length, rest, length);
    bool open = bw_sim_net_open(&sim->net, r->id, to) && sim->nodes[to].up;
    bw_time delay = open ? bw_sim_net_draw(&sim->net) : BW_TIME_NEVER;
    if (delay == BW_TIME_NEVER)
        *way(sim, r->id, to) = 1;
    else
        carry(sim, r, to, frame, 1 + head_length + length, delay);
    return true;
}

static bool pass_on(void *context, bw_node to, const unsigned char *head, size_t head_length,
                    const unsigned char *rest, size_t length)
{
    return send(context, to, FRAME_ASK, head, head_length, rest, length);
}

static bool notify(void *context, bw_node to, const unsigned char *bytes, size_t length)
{
    return send(context, to, FRAME_TOLD, bytes, length, NULL, 0);
}

/* Sent on the connection that the other node opened. It receives it, or connects again and then
 * receives it. */
void registry_turn_away(struct bw_sim *sim, const struct replica *r, bw_node to)
{
    unsigned char frame[1] = {FRAME_AWAY};
    bool open = bw_sim_net_open(&sim->net, r->id, to) && sim->nodes[to].up;
    bw_time delay = open ? bw_sim_net_draw(&sim->net) : BW_TIME_NEVER;
    if (delay != BW_TIME_NEVER)
        carry(sim, r, to, frame, sizeof frame, delay);
}

static void command(void *context, const struct bw_command *asked)
{
    const struct replica *r = context;
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .node = r->id, .command = *asked};
    bw_sim_node_step(r->sim, r->id, &event, 0);
}

static void turn(void *context)
{
    struct replica *r = context;
    struct bw_sim_slot *slot =
        r->turn ? NULL : registry_pend(r->sim, BW_PENDING_TURN, r->id, NULL, 0);
    if (!slot)
        return;
    r->turn = true;
    bw_time delay = bw_rng_between(&r->sim->registry->rng, 0, TURN_MAX);
    bw_sim_queue_push(&r->sim->queue, slot, r->sim->now + delay);
}

/* ---- incarnations of a node ---- */

static void registry_make(struct bw_sim *sim, struct replica *r)
{
    struct bw_sim_registry *g = sim->registry;
    if (!r->memory) {
        r->memory = mmap(NULL, g->memory_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        r->memory = r->memory == MAP_FAILED ? NULL : r->memory;
    } else if (madvise(r->memory, g->memory_bytes, MADV_DONTNEED) != 0) {
        sim->queue.error = BW_ENOMEM;
    }
    if (!r->memory ||
        bw_registry_init(&r->router.registry, r->memory, g->memory_bytes, &g->config) != 0)
        sim->queue.error = BW_ENOMEM;
}

static void load(struct bw_sim *sim, struct replica *r, bw_index applied, uint64_t state)
{
    struct bw_sim_registry *g = sim->registry;
    struct bw_loading loading = {0};
    registry_make(sim, r);
    r->router.applied = applied;
    if (!applied || sim->queue.error)
        return;
    const struct saved *saved = find_snapshot(g, state);
    struct bw_member_list member_list;
    size_t members = saved ? bw_get32(g->bytes + saved->at) : 0;
    int64_t used = BW_EINVAL;
    if (saved && bw_member_list_decode(&member_list, g->bytes + saved->at + 4, members) == 0)
        used = bw_registry_load(r->router.registry, &loading, g->bytes + saved->at + 4 + members,
                                saved->length - 4 - members);
    bw_membership_load(&r->members, &member_list);
    if (used < 0 || !loading.ended)
        bw_sim_fail(sim, BW_EDAMAGED, "node %u cannot load the snapshot up to %llu", r->id,
                    (unsigned long long)applied);
}

void bw_sim_registry_boot(struct bw_sim *sim, bw_node id, bw_index applied, uint64_t state)
{
    struct bw_router_hooks hooks = {.now = now,
                                    .take = take,
                                    .give = give,
                                    .ask = pass_on,
                                    .notify = notify,
                                    .command = command,
                                    .change = registry_on_change,
                                    .turn = turn,
                                    .applied = registry_on_applied,
                                    .answered = registry_on_answered,
                                    .failed = registry_on_failed};
    if (!sim->registry)
        return;
    struct bw_sim_registry *g = sim->registry;
    struct replica *r = &g->replicas[id];
    hooks.context = r;
    r->sim = sim;
    r->id = id;
    r->turn = false;
    r->term = 0;
    r->swept = 0;
    r->asked_count = 0;
    memset(r->buckets, 0, sizeof r->buckets);
    bw_router_init(&r->router, id, bw_rng_next(&g->rng), &hooks, r->buckets, REGISTRY_BUCKETS);
    r->router.scratch = g->entry_scratch;
    r->router.results = (struct bw_results){
        .ops = g->ops, .op_cap = BW_TXN_ALL_MAX, .kvs = g->kvs, .kv_cap = REGISTRY_KVS};
    registry_members_boot(sim, r);
    load(sim, r, applied, state);
    bw_sim_registry_relearn(sim, id);
    struct bw_sim_slot *slot = registry_pend(sim, BW_PENDING_TICK, id, NULL, 0);
    if (slot)
        bw_sim_queue_push(&sim->queue, slot, sim->now + TICK);
}

void bw_sim_registry_crash(struct bw_sim *sim, bw_node id)
{
    if (!sim->registry)
        return;
    struct replica *r = &sim->registry->replicas[id];
    registry_clients_cut(sim, r);
    bw_router_clear(&r->router);
}

void bw_sim_registry_restore(struct bw_sim *sim, bw_node id, bw_index applied, uint64_t state)
{
    if (!sim->registry)
        return;
    struct replica *r = &sim->registry->replicas[id];
    load(sim, r, applied, state);
    bw_sim_registry_relearn(sim, id);
    bw_router_snapshot_installed(&r->router);
}

void bw_sim_registry_save(struct bw_sim *sim, bw_node id, uint64_t state)
{
    struct bw_sim_registry *g = sim->registry;
    if (!g || find_snapshot(g, state))
        return;
    struct bw_saving saving;
    struct bw_registry *registry = g->replicas[id].router.registry;
    bw_registry_save_begin(registry, &saving);
    size_t at = g->used, piece;
    size_t length = 4 + bw_member_list_encode(&g->replicas[id].members.applied, g->scratch + 4);
    bw_put32(g->scratch, (uint32_t)(length - 4));
    if (!keep_bytes(sim, &g->snapshots, 0, g->scratch, length))
        return;
    g->snapshots.count--;
    while ((piece = bw_registry_save(registry, &saving, g->scratch, REGISTRY_SCRATCH)) > 0) {
        if (!keep_bytes(sim, &g->snapshots, 0, g->scratch, piece))
            return;
        g->snapshots.count--;
        length += piece;
    }
    g->snapshots.at[g->snapshots.count++] =
        (struct saved){.state = state, .at = at, .length = length};
}

/* ---- actions of Raft ---- */

void bw_sim_registry_apply(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entry)
{
    struct bw_sim_registry *g = sim->registry;
    if (!g)
        return;
    struct replica *r = &g->replicas[id];
    const struct saved *saved = registry_saved_entry(g, entry);
    if (registry_member_applied(sim, id, entry))
        return;
    struct bw_entry what = {0};
    struct bw_lease_view lease;
    bool ends = saved &&
                bw_entry_decode(&what, g->entry_scratch, g->bytes + saved->at + BW_ROUTER_HEAD,
                                saved->length - BW_ROUTER_HEAD) == 0 &&
                what.kind == BW_ENTRY_REVOKE &&
                bw_registry_lease(r->router.registry, what.lease.id, &lease);
    int64_t ending = what.lease.id;
    bw_router_apply(&r->router, saved ? g->bytes + saved->at : NULL, saved ? saved->length : 0);
    if (ends)
        bw_lease_check_ended(&g->leases, sim->now, ending);
    sim->result->leases_ended = g->leases.ended;
}

void bw_sim_registry_applied(struct bw_sim *sim, bw_node id)
{
    if (sim->registry)
        bw_router_serve_reads(&sim->registry->replicas[id].router);
    if (sim->registry && sim->registry->replicas[id].router.nudge)
        turn(&sim->registry->replicas[id]);
}

void bw_sim_registry_led(struct bw_sim *sim, bw_node id, const struct bw_announcement *a)
{
    if (!sim->registry)
        return;
    struct replica *r = &sim->registry->replicas[id];
    if (r->router.leader == a->leader && r->term == a->term)
        return;
    r->term = a->term;
    bw_router_set_leader(&r->router, a->leader);
    registry_publish(r);
}

void bw_sim_registry_answered(struct bw_sim *sim, bw_node id, const struct bw_answer *answer)
{
    if (sim->registry)
        bw_router_raft_answered(&sim->registry->replicas[id].router, answer);
}

void bw_sim_registry_received(struct bw_sim *sim, bw_node id, bw_node from)
{
    if (!sim->registry || !*way(sim, id, from))
        return;
    *way(sim, id, from) = 0;
    if (sim->registry->replicas[id].router.leader == from)
        bw_router_reroute(&sim->registry->replicas[id].router);
}

/* ── pending events ── */

void bw_sim_registry_frame(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node from;
    const unsigned char *bytes = slot->block;
    struct replica *r = &sim->registry->replicas[slot->node];
    memcpy(&from, slot->body, sizeof from);
    bw_sim_trace_stepped(&sim->trace, sim->now, slot->node,
                         bytes[0] == FRAME_ASK ? "receives a request of" : "receives a reply of",
                         from);
    if (bytes[0] == FRAME_AWAY)
        registry_turned_away(sim, slot->node);
    else if (!bw_sim_registry_admits(sim, slot->node, from))
        ;
    else if (bytes[0] == FRAME_ASK)
        bw_router_receive_request(&r->router, from, bytes + 1, slot->bytes - 1);
    else
        bw_router_receive_reply(&r->router, from, bytes + 1, slot->bytes - 1);
    bw_sim_queue_give(&sim->queue, slot);
}

void bw_sim_registry_turn(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct replica *r = &sim->registry->replicas[slot->node];
    bw_sim_queue_give(&sim->queue, slot);
    r->turn = false;
    bw_router_flush(&r->router);
}

void bw_sim_registry_tick(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct replica *r = &sim->registry->replicas[slot->node];
    bw_time local = now(r);
    if (local >= bw_router_deadline(&r->router))
        bw_router_expire(&r->router, sim->registry->scratch, REGISTRY_SCRATCH);
    if (local - r->swept >= BW_ROUTER_SWEEP) {
        r->swept = local;
        bw_router_sweep(&r->router);
        registry_publish(r);
    }
    registry_dial(r);
    registry_promote(r);
    bw_router_flush(&r->router);
    if (sim->nodes[slot->node].up)
        bw_sim_queue_push(&sim->queue, slot, sim->now + TICK);
    else
        bw_sim_queue_give(&sim->queue, slot);
}

/* ── the run ── */

static int grow_replicas(struct bw_sim *sim)
{
    struct bw_sim_registry *g = sim->registry;
    uint32_t count = sim->cap + 1;
    if (count <= g->replica_count)
        return 0;
    struct replica *replicas = realloc(g->replicas, count * sizeof *replicas);
    if (!replicas)
        return BW_ENOMEM;
    g->replicas = replicas;
    memset(replicas + g->replica_count, 0, (count - g->replica_count) * sizeof *replicas);
    g->replica_count = count;
    free(g->broken);
    g->broken = malloc((size_t)count * count);
    return g->broken ? 0 : BW_ENOMEM;
}

static struct bw_sim_registry *registry_new(void)
{
    struct bw_sim_registry *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->config = (struct bw_registry_config){.quota = 1 << 20, .leases_max = 512, .history = 1024};
    g->memory_bytes = bw_registry_bytes(&g->config);
    g->scratch = malloc(REGISTRY_SCRATCH);
    g->entry_scratch = malloc(sizeof *g->entry_scratch);
    g->ops = malloc(BW_TXN_ALL_MAX * sizeof *g->ops);
    g->kvs = malloc(REGISTRY_KVS * sizeof(const struct bw_kv *));
    return g;
}

/* Clears the state of the last run before any memory moves. */
static void clear_sessions(struct bw_sim_registry *g)
{
    for (uint32_t i = 0; i < g->replica_count; i++)
        bw_router_clear(&g->replicas[i].router);
}

void bw_sim_registry_free(struct bw_sim *sim)
{
    struct bw_sim_registry *g = sim->registry_kept;
    if (!g)
        return;
    clear_sessions(g);
    for (uint32_t i = 0; i < g->replica_count; i++)
        if (g->replicas[i].memory)
            munmap(g->replicas[i].memory, g->memory_bytes);
    bw_history_deinit(&g->history);
    bw_lease_check_deinit(&g->leases);
    free(g->replicas);
    free(g->entries.at);
    free(g->snapshots.at);
    free(g->bytes);
    free(g->scratch);
    free(g->entry_scratch);
    free(g->ops);
    free((void *)g->kvs);
    free(g->broken);
    free(g);
}

int bw_sim_registry_found(struct bw_sim *sim)
{
    sim->registry = NULL;
    if (sim->config->algorithm != &bw_sim_registry_ops)
        return 0;
    if (!sim->registry_kept)
        sim->registry_kept = registry_new();
    struct bw_sim_registry *g = sim->registry = sim->registry_kept;
    if (!g || !g->scratch || !g->entry_scratch || !g->ops || !g->kvs)
        return BW_ENOMEM;
    clear_sessions(g);
    if (grow_replicas(sim) || !g->broken)
        return BW_ENOMEM;
    memset(g->broken, 0, (size_t)(sim->cap + 1) * (sim->cap + 1));
    g->entries.count = g->snapshots.count = 0;
    g->used = 0;
    g->want_count = g->next_port = 0;
    memset(g->given, 0, sizeof g->given);
    bw_rng_init(&g->rng, sim->config->seed ^ 0x7265676973747279u);
    bw_history_clear(&g->history);
    bw_lease_check_clear(&g->leases, sim->config->drift_bound);
    sim->requests = (uint64_t)1 << 40; /* distinct from the numbers of groups */
    registry_clients_found(sim);
    return 0;
}

void bw_sim_registry_start(struct bw_sim *sim)
{
    struct bw_sim_slot *slot =
        sim->registry ? bw_sim_pend(sim, BW_PENDING_CHANGE, BW_NODE_NONE) : NULL;
    if (sim->registry)
        registry_clients_start(sim);
    if (slot)
        bw_sim_queue_push(&sim->queue, slot, sim->now + TICK);
}

bool bw_sim_registry_found_wrong(const struct bw_sim *sim)
{
    return sim->registry && sim->registry->leases.found[0];
}

/* ── the end ── */

static uint64_t fold(uint64_t hash, const void *bytes, size_t length)
{
    return (hash ^ bw_history_name(bytes, length)) * 0x9e3779b97f4a7c15u;
}

/* Returns a hash of everything that clients can see of a registry, independent of the memory
 * layout. */
static uint64_t digest(struct bw_sim_registry *g, const struct replica *r)
{
    struct bw_registry *registry = r->router.registry;
    struct bw_results results = {.kvs = g->kvs, .kv_cap = REGISTRY_KVS};
    struct bw_op_result found = {0};
    struct bw_registry_status status;
    static const unsigned char zero[1];
    struct bw_range all = {.keys = {{zero, 1}, {zero, 1}}};
    bw_registry_status(registry, &status);
    uint64_t hash = (uint64_t)status.revision, leases = 0, cursor = 0;
    bw_registry_range(registry, &all, &results, &found);
    for (uint32_t i = 0; i < found.kv_count; i++) {
        const struct bw_kv *kv = found.kvs[i];
        const int64_t numbers[] = {kv->create_revision, kv->mod_revision, kv->version, kv->lease};
        hash = fold(hash, kv->bytes, kv->key_length + (size_t)kv->value_length);
        hash = fold(hash, numbers, sizeof numbers);
    }
    struct bw_lease_view lease;
    while (bw_registry_next_lease(registry, &cursor, &lease)) {
        const int64_t numbers[] = {lease.id, lease.ttl_ns};
        leases += fold(1, numbers, sizeof numbers);
    }
    size_t members = bw_member_list_encode(&r->members.applied, g->scratch);
    return fold(hash ^ leases, g->scratch, members);
}

/* After the idle time all nodes hold the same data, and no lease that is not renewed. */
static void check_nodes(struct bw_sim *sim)
{
    struct bw_sim_registry *g = sim->registry;
    const struct replica *first = NULL;
    uint64_t same = 0;
    for (bw_node id = 1; id <= sim->cap; id++) {
        const struct replica *r = &g->replicas[id];
        struct bw_registry_status status;
        if (!sim->nodes[id].up || sim->nodes[id].leaving)
            continue;
        uint64_t hash = digest(g, r);
        if (first && first->router.applied == r->router.applied && same != hash)
            bw_lease_check_violate(&g->leases, sim->now, "nodes %u and %u differ after entry %llu",
                                   first->id, id, (unsigned long long)r->router.applied);
        first = r;
        same = hash;
        bw_registry_status(r->router.registry, &status);
        if (sim->config->registry.stop && status.leases)
            bw_lease_check_violate(&g->leases, sim->now,
                                   "at the end node %u still has %llu leases that no client renews",
                                   id, (unsigned long long)status.leases);
    }
}

const char *bw_sim_registry_finish(struct bw_sim *sim, bw_time *at)
{
    if (!sim->registry)
        return NULL;
    if (!bw_sim_registry_found_wrong(sim)) {
        check_nodes(sim);
        registry_check_members(sim);
    }
    return registry_clients_judge(sim, at);
}
