/* Distributes elections over members; see peer_balance.h. */
#include "core/shards/peer_balance.h"
#include "core/base/assert.h"

#include "core/base/arena.h"
#include "core/base/bug.h"
#include "core/shards/assignment.h"

#include <string.h>

#define SETTLE_PERIODS 5
/* A move is repeated after this time: ending the work takes a while. */
#define AGAIN_NS       (10 * BW_SEC)
#define REFUSED_NS     (2 * BW_SEC)
#define REFUSED_MAX_NS (300 * BW_SEC)

struct member {
    bw_node id;
    bool alive;
    bw_time ready_from;            /* end of its time as a newcomer */
    bw_time refused_until;         /* it did not keep an election: hand over none before this */
    bw_time wait_ns;               /* how long; doubles each time */
    uint32_t load, capacity, kept; /* while a plan is computed */
};

struct led {
    bw_node leader, target;
    bw_node successor; /* the target if `without` were gone */
    bw_node moved_to;  /* the member to which we last handed the election over */
    bw_time again_at;
};

struct bw_balance {
    bw_node self;
    uint32_t elections, cap, count;
    bw_time period_ns, newcomer_ns, move_at, settled_at;
    bool target_stale, successor_stale; /* the plan is outdated */
    bw_node without;                    /* the member that the plan of successors leaves out */
    struct led *led;
    struct member member[];
};

static struct bw_balance *lay_out(struct bw_arena *arena, uint32_t elections, uint32_t cap)
{
    struct bw_balance *b = bw_arena_take(arena, sizeof *b + cap * sizeof b->member[0]);
    struct led *led = bw_arena_take(arena, elections * sizeof *led);
    if (b) {
        memset(b, 0, sizeof *b);
        memset(led, 0, elections * sizeof *led);
        b->led = led;
    }
    return b;
}

size_t bw_balance_bytes(uint32_t elections, uint32_t cap)
{
    struct bw_arena measure = {0};
    lay_out(&measure, elections, cap);
    return measure.used;
}

/* Members are sorted by id, so that every plan uses the same order. */
static struct member *insert(struct bw_balance *b, bw_node id)
{
    uint32_t at = 0;
    while (at < b->count && b->member[at].id < id)
        at++;
    if (at < b->count && b->member[at].id == id)
        return &b->member[at];
    if (b->count == b->cap)
        return NULL;
    memmove(&b->member[at + 1], &b->member[at], (b->count - at) * sizeof b->member[0]);
    b->count++;
    b->member[at] = (struct member){.id = id};
    return &b->member[at];
}

static struct member *find(struct bw_balance *b, bw_node id)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->member[i].id == id)
            return &b->member[i];
    return NULL;
}

struct bw_balance *bw_balance_init(void *memory, const struct bw_balance_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bw_balance_bytes(config->elections, config->cap)};
    struct bw_balance *b = lay_out(&arena, config->elections, config->cap);
    b->self = config->self;
    b->elections = config->elections;
    b->cap = config->cap;
    b->period_ns = config->period_ns;
    b->newcomer_ns = config->newcomer_ns;
    b->target_stale = b->successor_stale = true;
    for (uint32_t i = 0; i < config->count; i++) {
        struct member *m = insert(b, config->members[i]);
        if (m)
            m->alive = true;
    }
    return b;
}

/* ---- knowledge ---- */

void bw_balance_member(struct bw_balance *b, bw_node node, bool alive, bw_time now)
{
    struct member *m = alive ? insert(b, node) : find(b, node);
    if (!m || m->alive == alive)
        return;
    *m =
        (struct member){.id = node, .alive = alive, .ready_from = bw_time_add(now, b->newcomer_ns)};
    b->target_stale = b->successor_stale = true;
    b->settled_at = bw_time_add(now, SETTLE_PERIODS * b->period_ns);
}

/* We lead again what we handed over: that member did not keep it, and gets nothing for a while. */
static void refused(struct bw_balance *b, struct led *led, bw_time now)
{
    struct member *m = find(b, led->moved_to);
    led->moved_to = BW_NODE_NONE;
    if (BW_NEVER(!m) || BW_BUG(balance_retries_refused_member_at_once))
        return;
    m->wait_ns = m->wait_ns ? bw_time_min(2 * m->wait_ns, REFUSED_MAX_NS) : REFUSED_NS;
    m->refused_until = bw_time_add(now, m->wait_ns);
}

void bw_balance_leads(struct bw_balance *b, uint32_t election, bw_node node, bw_time now)
{
    struct led *led = &b->led[election];
    if (led->leader == node)
        return;
    bool came = node == b->self && led->moved_to != BW_NODE_NONE;
    bool planned = node == led->target;
    led->leader = node;
    led->again_at = 0;
    b->target_stale = b->successor_stale = true;
    if (came)
        refused(b, led, now);
    if (!planned) /* another member moved it against our plan: make no moves for a while */
        b->settled_at = bw_time_max(b->settled_at, bw_time_add(now, SETTLE_PERIODS * b->period_ns));
}

/* ---- the plan ---- */

/* Computes the shares. The larger shares go to the members that lead most, so that nothing moves
 * only because of the remainder. */
static void assign_capacity(struct bw_balance *b, bw_node without)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < b->count; i++)
        alive += b->member[i].alive && b->member[i].id != without;
    uint32_t each = alive ? b->elections / alive : 0, more = alive ? b->elections % alive : 0;
    for (uint32_t i = 0; i < b->count; i++) {
        struct member *m = &b->member[i];
        uint32_t above = 0;
        for (uint32_t k = 0; k < b->count; k++)
            above += b->member[k].alive && b->member[k].id != without &&
                     (b->member[k].load > m->load || (b->member[k].load == m->load && k < i));
        m->kept = 0;
        m->capacity = m->alive && m->id != without ? each + (above < more) : 0;
    }
}

static void count_loads(struct bw_balance *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        b->member[i].load = 0;
    for (uint32_t e = 0; e < b->elections; e++) {
        struct member *m = find(b, b->led[e].leader);
        if (m)
            m->load++;
    }
}

/* The member with capacity that rendezvous hashing ranks first. */
static struct member *best_member(struct bw_balance *b, uint32_t election)
{
    struct member *best = NULL;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        struct member *m = &b->member[i];
        uint64_t score = bw_spread_score(election, m->id);
        if (m->kept >= m->capacity || (best && score <= highest))
            continue;
        best = m;
        highest = score;
    }
    return best;
}

static void set(struct led *led, struct member *m, bool target)
{
    bw_node id = m ? m->id : BW_NODE_NONE;
    if (m)
        m->kept++;
    if (target)
        led->target = id;
    else
        led->successor = id;
}

/* Fills in the targets, or the successors of `without`. */
static void plan(struct bw_balance *b, bw_node without)
{
    bool target = without == BW_NODE_NONE;
    count_loads(b);
    assign_capacity(b, without);
    for (uint32_t e = 0; e < b->elections; e++) {
        struct member *m = find(b, b->led[e].leader);
        bool keeps = m && m->kept < m->capacity && !BW_BUG(balance_forgets_who_leads);
        set(&b->led[e], keeps ? m : NULL, target);
    }
    for (uint32_t e = 0; e < b->elections; e++)
        if ((target ? b->led[e].target : b->led[e].successor) == BW_NODE_NONE)
            set(&b->led[e], best_member(b, e), target);
}

static void plan_targets(struct bw_balance *b)
{
    if (b->target_stale)
        plan(b, BW_NODE_NONE);
    b->target_stale = false;
}

bw_node bw_balance_successor(struct bw_balance *b, uint32_t election, bw_node gone)
{
    plan_targets(b);
    if (b->led[election].target != gone || gone == BW_NODE_NONE)
        return b->led[election].target;
    if (b->successor_stale || b->without != gone)
        plan(b, gone);
    b->successor_stale = false;
    b->without = gone;
    return b->led[election].successor;
}

/* ---- moves ---- */

static bool due(struct bw_balance *b, struct led *led, bw_time now)
{
    if (led->leader != b->self || led->target == b->self || now < led->again_at)
        return false;
    const struct member *to = find(b, led->target);
    return to && now >= to->refused_until &&
           (now >= to->ready_from || BW_BUG(balance_trusts_a_newcomer));
}

bool bw_balance_next(struct bw_balance *b, bw_time now,
                     bool (*ready)(void *context, uint32_t election, bw_node to), void *context,
                     uint32_t *election, bw_node *to)
{
    if (now < b->settled_at || now < b->move_at)
        return false;
    plan_targets(b);
    for (uint32_t e = 0; e < b->elections; e++) {
        struct led *led = &b->led[e];
        if (!due(b, led, now) || !ready(context, e, led->target))
            continue;
        led->moved_to = led->target;
        led->again_at = bw_time_add(now, AGAIN_NS);
        b->move_at = BW_BUG(balance_moves_all_at_once) ? now : bw_time_add(now, b->period_ns);
        *election = e;
        *to = led->target;
        return true;
    }
    b->move_at = bw_time_add(now, b->period_ns); /* members that were not ready are checked again
                                                  * then */
    return false;
}

bw_time bw_balance_deadline(struct bw_balance *b)
{
    bw_time at = BW_TIME_NEVER;
    plan_targets(b);
    for (uint32_t e = 0; e < b->elections; e++) {
        const struct led *led = &b->led[e];
        if (led->leader != b->self || led->target == b->self)
            continue;
        const struct member *to = find(b, led->target);
        if (to)
            at = bw_time_min(
                at, bw_time_max(led->again_at, bw_time_max(to->refused_until, to->ready_from)));
    }
    return at == BW_TIME_NEVER ? at : bw_time_max(at, bw_time_max(b->settled_at, b->move_at));
}
