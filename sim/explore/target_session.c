/* The target session: its world, its actions and its digest; see target_session.h. */
#include "sim/explore/target_session.h"

#include "core/base/assert.h"
#include "core/base/little.h"
#include "core/registry/digest.h"
#include "sim/explore/targets.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

/* Scratch memory, private to the process. */
static struct bw_entry_scratch entry_scratch;
static struct bw_op_result op_scratch[4];
static const struct bw_kv *kv_scratch[16];
static unsigned char bytes_scratch[SESSION_BYTES];

static const struct bw_registry_config registry_config = {
    .quota = 65536, .leases_max = 8, .history = 1024};

static struct session_node *node_of(struct session *s, bw_node id)
{
    return &s->node[id - 1];
}

static bool is_up(const struct session *s, bw_node id)
{
    return s->team->node[id - 1].up == BW_TEAM_UP;
}

/* ---- hooks of a router ---- */

static bw_time now(void *context)
{
    return ((const struct session_node *)context)->session->team->now;
}

static void *take(void *context, size_t bytes)
{
    struct session_node *node = context;
    BW_ASSERT(bytes <= SESSION_BLOCK);
    for (uint32_t i = 0; i < SESSION_BLOCKS; i++)
        if (!(node->taken >> i & 1)) {
            node->taken |= UINT64_C(1) << i;
            memset(node->block[i], 0, SESSION_BLOCK);
            return node->block[i];
        }
    return NULL;
}

static void give(void *context, void *block)
{
    struct session_node *node = context;
    size_t i = (size_t)((unsigned char *)block - node->block[0]) / SESSION_BLOCK;
    node->taken &= ~(UINT64_C(1) << i);
    memset(block, 0, SESSION_BLOCK);
}

static struct session_frame *new_frame(struct session_node *node, bw_node to, size_t length)
{
    struct session_link *link = &node->session->link[session_id(node) - 1][to - 1];
    if (link->count == SESSION_FRAMES)
        return NULL;
    struct session_frame *frame = &link->frame[link->count++];
    BW_ASSERT(length <= SESSION_FRAME);
    frame->length = (uint32_t)length;
    return frame;
}

static bool ask(void *context, bw_node to, const unsigned char *head, size_t head_length,
                const unsigned char *rest, size_t length)
{
    struct session_frame *frame = new_frame(context, to, head_length + length);
    if (!frame)
        return false;
    memcpy(frame->bytes, head, head_length);
    memcpy(frame->bytes + head_length, rest, length);
    return true;
}

static bool notify(void *context, bw_node to, const unsigned char *bytes, size_t length)
{
    struct session_frame *frame = new_frame(context, to, length);
    if (!frame)
        return false;
    frame->reply = 1;
    memcpy(frame->bytes, bytes, length);
    return true;
}

static void command(void *context, const struct bw_command *requested)
{
    struct session_node *node = context;
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = *requested};
    char why[BW_EXPLORE_WHY] = "";
    if (!bw_team_step(node->session->team, session_id(node), &event, why))
        session_violate(node->session, "%s", why);
}

static void turn(void *context)
{
    ((struct session_node *)context)->turn = 1;
}

/* ---- the service above the electors ---- */

static void make_registry(struct session *s, struct session_node *node)
{
    unsigned char *memory = s->memory + (session_id(node) - 1) * s->registry_bytes;
    struct bw_registry_extent extent[BW_REGISTRY_EXTENTS];
    if (node->router.registry) {
        bw_registry_extents(node->router.registry, extent);
        for (uint32_t i = BW_REGISTRY_EXTENTS; i > 0; i--)
            memset(extent[i - 1].at, 0, extent[i - 1].length);
    }
    int error =
        bw_registry_init(&node->router.registry, memory, s->registry_bytes, &registry_config);
    BW_ASSERT(error == 0);
}

static void started(void *owner, bw_node id)
{
    struct session *s = owner;
    struct session_node *node = node_of(s, id);
    struct bw_router_hooks hooks = {.context = node,
                                    .now = now,
                                    .take = take,
                                    .give = give,
                                    .ask = ask,
                                    .notify = notify,
                                    .command = command,
                                    .turn = turn,
                                    .applied = session_on_applied,
                                    .answered = session_on_answered,
                                    .failed = session_on_failed};
    struct bw_registry *before = node->router.registry;
    node->session = s;
    node->term = node->turn = 0;
    bw_router_init(&node->router, id, ++node->incarnation << 8, &hooks, node->buckets,
                   SESSION_BUCKETS);
    node->router.scratch = &entry_scratch;
    node->router.results =
        (struct bw_results){.ops = op_scratch, .op_cap = 4, .kvs = kv_scratch, .kv_cap = 16};
    node->router.registry = before;
    make_registry(s, node);
}

static uint8_t find_payload(const struct session *s, bw_index index, bw_term term)
{
    for (uint64_t i = 0; i < s->payloads; i++)
        if (s->payload[i].index == index && s->payload[i].term == term)
            return (uint8_t)(i + 1);
    return 0;
}

/* Index and term identify an entry (Raft's log matching property). */
static void appended(struct session *s, bw_node id, const struct bw_log_action *log)
{
    struct bw_team_log *own = &s->team->node[id - 1].log;
    const struct bw_request *request =
        log->request ? bw_router_batch(&node_of(s, id)->router, log->request) : NULL;
    for (uint32_t i = 0; i < log->count; i++) {
        bw_index index = log->first + i;
        struct bw_team_entry *entry = &own->at[index - 1];
        if (request) {
            BW_ASSERT(s->payloads < SESSION_PAYLOADS && request->length <= SESSION_BYTES);
            struct session_payload *payload = &s->payload[s->payloads++];
            *payload = (struct session_payload){
                .index = index, .term = entry->term, .length = request->length};
            memcpy(payload->bytes, request->bytes, request->length);
            request = request->with;
        }
        entry->payload = find_payload(s, index, entry->term);
    }
}

static void committed(struct session *s, bw_node id, bw_index until)
{
    struct session_node *node = node_of(s, id);
    struct bw_router *router = &node->router;
    while (router->applied < until) {
        uint8_t number = s->team->node[id - 1].log.at[router->applied].payload;
        const struct session_payload *payload = number ? &s->payload[number - 1] : NULL;
        session_applies(node, payload);
        bw_router_apply(router, payload ? payload->bytes : NULL, payload ? payload->length : 0);
    }
    bw_router_serve_reads(router);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): other targets write to why */
static bool acted(void *owner, bw_node id, const struct bw_action *action, char *why)
{
    struct session *s = owner;
    struct session_node *node = node_of(s, id);
    (void)why;
    if (action->kind == BW_ACTION_LOG_APPEND)
        appended(s, id, &action->log);
    else if (action->kind == BW_ACTION_COMMIT)
        committed(s, id, action->log.first);
    else if (action->kind == BW_ACTION_ANSWER)
        bw_router_raft_answered(&node->router, &action->answer);
    else if (action->kind == BW_ACTION_ANNOUNCE &&
             (action->announce.leader != node->router.leader ||
              action->announce.term != node->term)) {
        node->term = action->announce.term;
        bw_router_set_leader(&node->router, action->announce.leader);
    }
    return true;
}

static bool natural(void *owner, struct bw_explore_action *out)
{
    struct session *s = owner;
    for (bw_node id = 1; id <= SESSION_NODES; id++)
        if (is_up(s, id) && node_of(s, id)->turn) {
            *out = (struct bw_explore_action){SESSION_TURN, (uint8_t)id, 0, 0};
            return true;
        }
    for (uint8_t from = 1; from <= SESSION_NODES; from++)
        for (uint8_t to = 1; to <= SESSION_NODES; to++)
            if (is_up(s, to) && s->link[from - 1][to - 1].count) {
                *out = (struct bw_explore_action){SESSION_PASS, from, to, 0};
                return true;
            }
    return false;
}

/* ---- digest ---- */

static void add_bytes(struct bw_digest *out, const unsigned char *bytes, size_t length)
{
    bw_digest_add(out, XXH3_64bits(bytes, length));
}

static void add_group(const struct bw_request_group *group, struct bw_digest *out)
{
    bw_digest_add(out, group ? group->id << 8 | group->count : 0);
    for (const struct bw_request *at = group ? group->first : NULL; at; at = at->with)
        bw_digest_add(out, at->id);
}

static void add_router(const struct bw_router *router, struct bw_digest *out)
{
    bw_digest_add(out,
                  (uint64_t)router->leader << 2 | (uint64_t)router->leading << 1 | router->nudge);
    bw_digest_add(out, router->applied);
    bw_digest_time(out, router->last_turn + router->stall_ns);
    bw_digest_add(out, router->next_request << 32 | router->next_group);
    for (const struct bw_request *at = router->first; at; at = at->next) {
        bw_digest_add(out, at->id);
        bw_digest_add(out, (uint64_t)at->kind << 32 | (uint64_t)at->state << 24 |
                               (uint64_t)at->revokes << 16 | at->origin);
        bw_digest_add(out, at->state == BW_REQUEST_INDEX ? at->index : 0);
        bw_digest_add(out, (uint64_t)at->lease);
        add_bytes(out, at->bytes, at->length);
    }
    bw_digest_add(out, 0);
    add_group(router->batch, out);
    add_group(router->round, out);
    for (const struct bw_request_group *at = router->rounds; at; at = at->next)
        add_group(at, out);
    bw_digest_add(out, 0);
}

static void add_wants(const struct session *s, struct bw_digest *out)
{
    bw_digest_add(out, s->wants << 32 | s->leads);
    for (uint64_t i = 0; i < s->wants; i++) {
        const struct session_want *want = &s->want[i];
        bool waits = want->outcome == SESSION_WAITS;
        bw_digest_add(out, (uint64_t)want->verb << 32 | (uint64_t)want->lease << 24 |
                               (uint64_t)want->node << 16 | (uint64_t)want->outcome << 8 |
                               want->applied);
        bw_digest_add(out, want->id);
        bw_digest_time(out, waits ? want->sent + SESSION_TTL : 0);
        bw_digest_add(out, waits ? want->floor : 0);
    }
    for (uint32_t i = 0; i < SESSION_LEASES; i++) {
        bw_digest_time(out, s->lease[i].until);
        bw_digest_add(out, (uint64_t)s->lease[i].granted << 8 | s->lease[i].given_up);
    }
    bw_digest_add(out, s->seen << 32 | s->judged);
}

static void add_service(void *owner, struct bw_digest *out)
{
    const struct session *s = owner;
    uint64_t sum = 0;
    add_wants(s, out);
    for (uint64_t i = 0; i < s->payloads; i++)
        sum += XXH3_64bits(&s->payload[i], sizeof s->payload[i]);
    bw_digest_add(out, sum);
    for (uint32_t i = 0; i < SESSION_NODES * SESSION_NODES; i++) {
        const struct session_link *link = &s->link[i / SESSION_NODES][i % SESSION_NODES];
        bw_digest_add(out, link->count);
        for (uint64_t k = 0; k < link->count; k++)
            add_bytes(out, link->frame[k].bytes, link->frame[k].length);
    }
    for (uint32_t i = 0; i < SESSION_NODES; i++) {
        bw_digest_add(out, s->node[i].turn << 32 | s->node[i].incarnation);
        if (!s->team->node[i].up)
            continue;
        add_router(&s->node[i].router, out);
        bw_registry_digest(s->node[i].router.registry, out);
    }
}

static void digest(void *state, struct bw_digest *out)
{
    bw_team_digest(((struct session *)state)->team, out);
}

static const struct bw_team_service service = {
    .started = started, .acted = acted, .natural = natural, .digest = add_service};

/* ---- possible actions ---- */

struct list {
    struct bw_team *team;
    struct bw_explore_action *at;
    uint32_t count;
};

/* Requests of clients and cuts cost a delay; frames, turns and expiries do unless they are
 * natural. */
static bool is_delay(struct session *s, struct bw_explore_action action)
{
    struct bw_explore_action first;
    if (!bw_team_bounded(s->team) || action.kind == SESSION_SWEEP)
        return false;
    return !natural(s, &first) || memcmp(&first, &action, sizeof action) != 0;
}

static void add(struct list *list, struct session *s, unsigned verb, bw_node a, bw_node b)
{
    struct bw_explore_action action = {(uint8_t)verb, (uint8_t)a, (uint8_t)b, 0};
    if (is_delay(s, action) && s->team->delays == 0)
        return;
    BW_ASSERT(list->count < BW_EXPLORE_CHOICES_MAX);
    list->at[list->count++] = action;
}

static void add_requests(struct list *list, struct session *s, bw_node id)
{
    add(list, s, SESSION_READ, id, 0);
    for (bw_node lease = 1; lease <= SESSION_LEASES; lease++) {
        const struct session_lease *known = &s->lease[lease - 1];
        if (!known->granted && (lease == 1 || s->lease[lease - 2].granted))
            add(list, s, SESSION_GRANT, id, lease);
        if (!known->granted || known->given_up)
            continue;
        add(list, s, SESSION_RENEW, id, lease);
        add(list, s, SESSION_CAMPAIGN, id, lease);
        add(list, s, SESSION_REVOKE, id, lease);
    }
}

static uint32_t choices(void *state, struct bw_explore_action *out)
{
    struct session *s = state;
    struct list list = {.team = s->team, .at = out, .count = bw_team_choices(s->team, out)};
    for (bw_node id = 1; s->team->begun && id <= SESSION_NODES; id++) {
        const struct session_node *node = node_of(s, id);
        for (bw_node from = 1; from <= SESSION_NODES; from++) {
            if (s->link[from - 1][id - 1].count && is_up(s, id))
                add(&list, s, SESSION_PASS, from, id);
            if (s->link[from - 1][id - 1].count + s->link[id - 1][from - 1].count > 0)
                add(&list, s, SESSION_CUT, from, id);
        }
        if (!is_up(s, id))
            continue;
        if (node->turn)
            add(&list, s, SESSION_TURN, id, 0);
        if (id <= SESSION_FRONTS)
            add_requests(&list, s, id);
        if (bw_router_deadline(&node->router) < BW_TIME_NEVER)
            add(&list, s, SESSION_EXPIRE, id, 0);
        for (const struct bw_request *at = node->router.first; at; at = at->next)
            if (at->state == BW_REQUEST_NEW && node->router.leader != BW_NODE_NONE) {
                add(&list, s, SESSION_SWEEP, id, 0);
                break;
            }
    }
    return list.count;
}

/* ---- effects ---- */

/* A turn without requests only records that the loop runs. */
static void end_step(struct session *s, bw_node id)
{
    struct session_node *node = node_of(s, id);
    const struct bw_router *router = &node->router;
    if (!is_up(s, id))
        return;
    if (router->batch || router->round || router->unplaced || router->nudge) {
        node->turn = 1;
        return;
    }
    node->turn = 0;
    bw_router_flush(&node->router);
}

static bool pass(struct session *s, bw_node from, bw_node to)
{
    struct session_link *link = &s->link[from - 1][to - 1];
    struct session_frame frame = link->frame[0];
    struct bw_router *router = &node_of(s, to)->router;
    if (link->count == 0 || !is_up(s, to))
        return false;
    memmove(&link->frame[0], &link->frame[1], (SESSION_FRAMES - 1) * sizeof link->frame[0]);
    memset(&link->frame[--link->count], 0, sizeof link->frame[0]);
    if (frame.reply)
        bw_router_receive_reply(router, from, frame.bytes, frame.length);
    else
        bw_router_receive_request(router, from, frame.bytes, frame.length);
    return true;
}

static void lose_frames(struct session *s, bw_node a, bw_node b)
{
    memset(&s->link[a - 1][b - 1], 0, sizeof(struct session_link));
    memset(&s->link[b - 1][a - 1], 0, sizeof(struct session_link));
}

static void cut(struct session *s, bw_node a, bw_node b)
{
    lose_frames(s, a, b);
    if (is_up(s, a) && node_of(s, a)->router.leader == b)
        bw_router_reroute(&node_of(s, a)->router);
    if (is_up(s, b) && node_of(s, b)->router.leader == a)
        bw_router_reroute(&node_of(s, b)->router);
}

static uint64_t propose(struct bw_router *router, const struct session_want *want)
{
    struct bw_slice key = {(const unsigned char *)"e", 1};
    struct bw_compare compare = {.what = BW_COMPARE_CREATE, .keys = {.key = key}};
    struct bw_op op = {.kind = BW_OP_PUT, .put = {.key = key, .value = key, .lease = want->lease}};
    struct bw_entry entry = {.kind = want->verb == SESSION_GRANT    ? BW_ENTRY_GRANT
                                     : want->verb == SESSION_REVOKE ? BW_ENTRY_REVOKE
                                                                    : BW_ENTRY_TXN};
    if (entry.kind == BW_ENTRY_TXN) {
        entry.txn =
            (struct bw_txn){.compares = &compare, .compare_count = 1, .then = &op, .then_count = 1};
    } else {
        entry.lease.id = want->lease;
        entry.lease.ttl_ns = entry.kind == BW_ENTRY_GRANT ? SESSION_TTL : 0;
    }
    return bw_router_propose(router, &entry, bytes_scratch, sizeof bytes_scratch);
}

static bool request(struct session *s, struct bw_explore_action action)
{
    struct bw_router *router = &node_of(s, action.a)->router;
    bool known = action.kind == SESSION_READ || (action.b >= 1 && action.b <= SESSION_LEASES);
    if (!is_up(s, action.a) || !known || s->wants == SESSION_WANTS)
        return false;
    struct session_want want = {.verb = action.kind,
                                .lease = action.b,
                                .node = action.a,
                                .sent = ++s->team->now,
                                .floor = s->seen};
    if (action.kind == SESSION_REVOKE) {
        s->lease[action.b - 1].given_up = 1;
        s->lease[action.b - 1].until = 0;
    }
    if (action.kind == SESSION_READ)
        want.id = bw_router_ask(router, BW_REPLICA_READ, 0);
    else if (action.kind == SESSION_RENEW)
        want.id = bw_router_ask(router, BW_REPLICA_KEEP_ALIVE, action.b);
    else
        want.id = propose(router, &want);
    s->want[s->wants++] = want;
    return want.id != 0;
}

static bool expire(struct session *s, bw_node id)
{
    struct bw_router *router = &node_of(s, id)->router;
    bw_time at = bw_router_deadline(router);
    if (!is_up(s, id) || at == BW_TIME_NEVER)
        return false;
    s->team->now = bw_time_max(s->team->now, at);
    bw_router_expire(router, bytes_scratch, sizeof bytes_scratch);
    return true;
}

static bool carry_out(struct session *s, struct bw_explore_action action)
{
    struct session_node *node = node_of(s, action.a);
    switch ((enum session_verb)action.kind) {
    case SESSION_TURN:
        if (!node->turn || !is_up(s, action.a))
            return false;
        node->turn = 0;
        bw_router_flush(&node->router);
        return true;
    case SESSION_PASS:
        return pass(s, action.a, action.b);
    case SESSION_CUT:
        cut(s, action.a, action.b);
        return true;
    case SESSION_EXPIRE:
        return expire(s, action.a);
    case SESSION_SWEEP:
        if (!is_up(s, action.a))
            return false;
        bw_router_sweep(&node->router);
        return true;
    default:
        return request(s, action);
    }
}

static enum bw_explore_result apply_own(struct session *s, struct bw_explore_action action)
{
    bool two = action.kind == SESSION_PASS || action.kind == SESSION_CUT;
    if (!s->team->begun || action.a < 1 || action.a > SESSION_NODES ||
        (two && (action.b < 1 || action.b > SESSION_NODES)))
        return BW_EXPLORE_IMPOSSIBLE;
    if (is_delay(s, action) && s->team->delays == 0)
        return BW_EXPLORE_IMPOSSIBLE;
    s->team->delays -= is_delay(s, action);
    return carry_out(s, action) ? BW_EXPLORE_DONE : BW_EXPLORE_IMPOSSIBLE;
}

static void crashed(struct session *s, bw_node id)
{
    session_forgets(node_of(s, id));
    bw_router_clear(&node_of(s, id)->router);
    node_of(s, id)->turn = 0;
    for (bw_node other = 1; other <= SESSION_NODES; other++)
        lose_frames(s, id, other);
}

static enum bw_explore_result apply(void *state, struct bw_explore_action action, char *why)
{
    struct session *s = state;
    enum bw_explore_result result =
        action.kind < BW_TEAM_VERBS ? bw_team_apply(s->team, action, why) : apply_own(s, action);
    if (result == BW_EXPLORE_DONE && action.kind == BW_TEAM_CRASH)
        crashed(s, action.a);
    for (bw_node id = 1; result == BW_EXPLORE_DONE && id <= SESSION_NODES; id++)
        end_step(s, id);
    if (result == BW_EXPLORE_DONE)
        session_judge(s);
    if (result != BW_EXPLORE_DONE || !s->wrong[0])
        return result;
    memcpy(why, s->wrong, sizeof s->wrong);
    return BW_EXPLORE_VIOLATION;
}

/* ---- the first state ---- */

/* Node 1 leads, and all nodes know that. */
static const char *const led[] = {"timeout 1", "settle", NULL};
/* A client of node 1 holds lease 1; every node has applied the grant. */
#define HELD "timeout 1", "settle", "grant 1 1", "settle", "timeout 1", "settle"
static const char *const held[] = {HELD, NULL};
/* Node 2 leads term 2 for a while; node 1 does not know it and still leads term 1. */
static const char *const deposed[] = {HELD,
                                      "suspect 2",
                                      "suspect 3",
                                      "timeout 2",
                                      "deliver 2>3 0",
                                      "deliver 3>2 0",
                                      "deliver 2>3 0",
                                      "deliver 3>2 0",
                                      "timeout 2",
                                      "deliver 2>3 0",
                                      "deliver 3>2 0",
                                      NULL};
/* A client of node 2 campaigns: node 1 has logged its entry, and node 3 has acknowledged it. */
static const char *const unsure[] = {HELD,     "campaign 2 1",  "pass 2>1",
                                     "turn 1", "deliver 1>3 0", NULL};
/* The same, and the entry is committed; node 2 does not know it. */
static const char *const lagging[] = {
    HELD, "campaign 1 1", "turn 1", "deliver 1>3 0", "deliver 3>1 0", NULL};

static const char *const *const prefixes[] = {led, held, deposed, unsure, lagging, NULL};

#define VERB(name) (1u << BW_TEAM_##name)

static const struct bw_team_settings settings = {
    .target = &bw_explore_session,
    .service = &service,
    .ops = &bw_elect_raft,
    .raft = true,
    .untimed = true,
    .nodes = SESSION_NODES,
    .voters = SESSION_NODES,
    .period = 2 * BW_TEAM_TICK,
    .timeout = 4 * BW_TEAM_TICK,
    .promise = 4 * BW_TEAM_TICK,
    .links = 1,
    .eager = true,
    .joint = true,
    .delays = 3,
    .verbs = VERB(ADVANCE) | VERB(TIMEOUT) | VERB(DELIVER) | VERB(RESTART) | VERB(LOSE) |
             VERB(CRASH) | VERB(SUSPECT) | VERB(TRANSFER),
    .prefixes = prefixes,
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static uint32_t links_of(const struct bw_explore_options *options)
{
    return options->links ? options->links : settings.links;
}

static size_t bytes(const struct bw_explore_options *options)
{
    return round_up(sizeof(struct session)) +
           round_up(bw_team_bytes(&settings, links_of(options))) +
           SESSION_NODES * round_up(bw_registry_bytes(&registry_config));
}

static const char *begin(void *state, const struct bw_explore_options *options, char *why)
{
    struct session *s = state;
    unsigned char *at = (unsigned char *)state + round_up(sizeof *s);
    s->team = (struct bw_team *)(void *)at;
    s->memory = at + round_up(bw_team_bytes(&settings, links_of(options)));
    s->registry_bytes = round_up(bw_registry_bytes(&registry_config));
    s->team->owner = s;
    return bw_team_begin(s->team, &settings, options, why);
}

static void add_span(struct bw_explore_span *out, uint32_t *count, size_t from, size_t length)
{
    size_t to = (from + length + 7) / 8 * 8;
    from = from / 8 * 8;
    BW_ASSERT(*count < BW_EXPLORE_SPANS_MAX);
    out[(*count)++] = (struct bw_explore_span){.at = from, .length = to - from};
}

static uint32_t spans(const void *state, struct bw_explore_span *out)
{
    const struct session *s = state;
    const unsigned char *origin = state;
    uint32_t count = bw_team_spans(s->team, out);
    for (uint32_t i = 0; i < count; i++)
        out[i].at += (size_t)((const unsigned char *)s->team - origin);
    add_span(out, &count, offsetof(struct session, node),
             sizeof *s - offsetof(struct session, node));
    for (uint32_t i = 0; i < SESSION_NODES; i++) {
        struct bw_registry_extent extent[BW_REGISTRY_EXTENTS];
        bw_registry_extents(s->node[i].router.registry, extent);
        for (uint32_t k = 0; k < BW_REGISTRY_EXTENTS; k++)
            add_span(out, &count, (size_t)((const unsigned char *)extent[k].at - origin),
                     extent[k].length);
    }
    return count;
}

static void describe(void *state, char *out, size_t size)
{
    const struct session *s = state;
    bw_team_describe(s->team, out, size);
    size_t length = strlen(out);
    for (uint64_t i = 0; i < s->wants && length < size; i++) {
        static const char *const outcome[] = {"waits", "done", "unknown", "refused"};
        int added = snprintf(out + length, size - length, "  request %llu: %s",
                             (unsigned long long)i + 1, outcome[s->want[i].outcome]);
        length += added > 0 ? (size_t)added : 0;
    }
}

static const struct bw_explore_verb verbs[SESSION_VERBS] = {
    BW_TEAM_VERB_TABLE,
    [SESSION_TURN] = {"turn", "A"},
    [SESSION_PASS] = {"pass", "A>B"},
    [SESSION_CUT] = {"cut", "A>B"},
    [SESSION_GRANT] = {"grant", "A B"},
    [SESSION_RENEW] = {"renew", "A B"},
    [SESSION_REVOKE] = {"revoke", "A B"},
    [SESSION_CAMPAIGN] = {"campaign", "A B"},
    [SESSION_READ] = {"read", "A"},
    [SESSION_EXPIRE] = {"expire", "A"},
    [SESSION_SWEEP] = {"sweep", "A"},
};

const struct bw_explore_target bw_explore_session = {
    .name = "session",
    .about = "requests and leases of `serve` above Raft (src/core/replica, src/core/registry)",
    .bounds =
        "3 nodes, 2 leases; 3 of: client request, crash, suspicion, transfer, cut connection, "
        "delay",
    .depth = 8,
    .verbs = verbs,
    .verbs_count = SESSION_VERBS,
    .bytes = bytes,
    .begin = begin,
    .spans = spans,
    .choices = choices,
    .apply = apply,
    .digest = digest,
    .describe = describe,
};
