/* The wider plan of storms. Half of the seeds use it, for all algorithms except leases and the
 * registry. It adds to the faults of storm.c:
 *
 * - promises that are much longer than election timeouts, and pauses longer than a promise
 * - leaders whose process is killed while their work runs on, and work that takes time to end
 * - several membership changes in flight: members join, leave, are removed by an operator, lose
 *   their disk, and return under the same id
 * - late timers, late reports of dead work, and up to half of all messages duplicated
 *
 * The world skips what `peer` refuses (sim/world/members.c), so the guarantees stay the same. */
#include "sim/faults/storm_plan.h"

#include <string.h>

/* The last event of the idle time, before its end. A leader must be able to act within it, however
 * long its promises are, because nobody dies. */
#define LAST_EVENT (6 * BW_SEC)
#define CONTENTION (1500 * BW_MS)
#define LATE       (300 * BW_MS)
#define BURST_MAX  12u
/* After a longer pause, the adaptive detectors need more than the idle time to notice a node that
 * died meanwhile. */
#define PAUSE_MAX   (10 * BW_SEC)
#define CHANGES_MAX 4u /* joins to try, because most ids are members at most times */

bool bw_storm_is_wide(struct storm *s, const struct bw_elector_ops *algorithm,
                      const struct bw_storm_fixed *fixed, uint64_t seed)
{
    bw_rng_init(&s->wide_rng, seed ^ 0x7769646572u);
    bool half = bw_rng_chance(&s->wide_rng, 0.5);
    return half && !fixed->shards && !bw_sim_is_lease(algorithm) &&
           algorithm != &bw_sim_registry_ops;
}

static bw_time draw_promise(struct bw_rng *rng, bw_time least)
{
    static const bw_time longest[] = {BW_SEC, 4 * BW_SEC, 12 * BW_SEC, 12 * BW_SEC};
    bw_time most = longest[bw_rng_below(rng, sizeof longest / sizeof longest[0])];
    return bw_rng_between(rng, least, bw_time_max(least, most));
}

void bw_storm_wide_config(struct storm *s)
{
    struct bw_sim_config *c = &s->config;
    struct bw_rng *rng = &s->wide_rng;
    bool timed = c->guard || bw_sim_is_raft(c->algorithm);
    c->spare = BW_STORM_NODES_MAX - c->nodes;
    s->present = BW_STORM_NODES_MAX; /* faults on absent nodes are skipped */
    c->peer_rules = true;
    c->founders_vote = c->guard && bw_rng_chance(rng, 0.8);
    /* a voter must be able to answer within a third of its promise */
    bw_time least = 30 * (2 * c->latency.max + c->disk_max);
    c->promise_ns = timed ? draw_promise(rng, bw_time_max(least, 300 * BW_MS)) : 0;
    c->lingers = true;
    c->stop_ns = bw_rng_chance(rng, 0.5) ? bw_rng_between(rng, 0, c->promise_ns / 2) : 0;
    c->news_ns = bw_rng_chance(rng, 0.7) ? bw_rng_between(rng, 1, 4 * BW_SEC) : 0;
    c->timers_late_ns = bw_rng_chance(rng, 0.5) ? bw_rng_between(rng, 1, 3 * BW_MS) : 0;
    if (bw_rng_chance(rng, 0.3))
        c->duplicate = bw_rng_unit(rng) * 0.5;
    /* the other storms test the log; here few entries leave time for more seeds */
    c->propose_ns = bw_rng_between(rng, 20 * BW_MS, 200 * BW_MS);
    c->read_ns = bw_rng_between(rng, 50 * BW_MS, 500 * BW_MS);
}

/* Returns whether the algorithm supports many membership changes. Without fixed voters the quorum
 * guard supports one only, which storm.c draws. */
static bool may_change(const struct storm *s)
{
    return !s->config.guard || s->config.founders_vote;
}

static bw_node any_id(struct storm *s)
{
    return 1 + (bw_node)bw_rng_below(&s->wide_rng, BW_STORM_NODES_MAX);
}

/* Mostly the leader: the node whose loss matters. */
static bw_node victim(struct storm *s)
{
    return bw_rng_chance(&s->wide_rng, 0.6) ? BW_NODE_NONE : any_id(s);
}

/* A span around the length of a promise: from much shorter to longer. */
static bw_time around_promise(struct storm *s)
{
    bw_time promise = bw_time_max(s->config.promise_ns, BW_SEC);
    return bw_rng_between(&s->wide_rng, BW_MS, 2 * promise);
}

static void join_some(struct storm *s, bw_time at)
{
    for (uint32_t i = 0; i < CHANGES_MAX; i++)
        bw_storm_add(s, BW_FAULT_JOIN, bw_time_min(at + (bw_time)i * BW_MS, s->end), any_id(s));
}

/* A node loses its disk while it is down, and comes back. */
static void lose_disk(struct storm *s, bw_time at)
{
    bw_node node = any_id(s);
    bw_storm_add(s, BW_FAULT_CRASH, at, node);
    bw_storm_add(s, BW_FAULT_WIPE, at + BW_MS, node);
    bw_time back = bw_time_min(at + around_promise(s), s->end);
    bw_storm_add(s, BW_FAULT_RESTART, back, node);
    bw_storm_add(s, BW_FAULT_JOIN, back, node);
}

static void change(struct storm *s, bw_time at)
{
    bw_node node = victim(s);
    switch (bw_rng_below(&s->wide_rng, 8)) {
    case 0:
    case 1:
    case 2:
        join_some(s, at);
        break;
    case 3:
    case 4:
        bw_storm_add(s, BW_FAULT_LEAVE, at, node);
        break;
    case 5:
    case 6:
        bw_storm_add(s, BW_FAULT_REMOVE, at, node);
        break;
    default:
        lose_disk(s, at);
    }
}

/* Pauses a node, mostly the leader. Which node that is becomes known only in the run, so all nodes
 * resume at the end of the pause. */
static void pause_for(struct storm *s, bw_time at, bw_node node, bw_time span)
{
    bw_time until = bw_time_min(at + bw_time_min(span, PAUSE_MAX), s->end);
    bw_storm_add(s, BW_FAULT_PAUSE, at, node);
    for (bw_node id = node ? node : 1; id <= (node ? node : BW_STORM_NODES_MAX); id++)
        bw_storm_add(s, BW_FAULT_RESUME, until, id);
}

static void pause_long(struct storm *s, bw_time at)
{
    bw_node node = victim(s);
    pause_for(s, at, node, around_promise(s));
}

static void kill_supervisor(struct storm *s, bw_time at)
{
    bw_node node = victim(s);
    bw_storm_add(s, BW_FAULT_KILL, at, node);
    bw_storm_add(s, BW_FAULT_RESTART, bw_time_min(at + around_promise(s), s->end), node);
}

/* The leader's process is busy while members change: it gets the news and the messages of that time
 * at once. */
static void change_while_busy(struct storm *s, bw_time at)
{
    bw_time busy = bw_rng_between(&s->wide_rng, BW_MS, 60 * BW_MS);
    pause_for(s, at, BW_NODE_NONE, busy);
    change(s, at + bw_rng_between(&s->wide_rng, 0, busy));
}

static void one_step(struct storm *s, bw_time at)
{
    switch (bw_rng_below(&s->wide_rng, 8)) {
    case 0:
        bw_storm_add(s, BW_FAULT_RESIGN, at, BW_NODE_NONE);
        break;
    case 1:
        bw_storm_add(s, BW_FAULT_TRANSFER, at, BW_NODE_NONE)->peer = any_id(s);
        break;
    case 2:
        kill_supervisor(s, at);
        break;
    default:
        change(s, at);
    }
}

/* All members are replaced within one promise: new ones join, then the old ones leave or are
 * removed, one after the other. */
static void replace_group(struct storm *s, bw_time at)
{
    bw_time promise = bw_time_max(s->config.promise_ns, BW_SEC);
    bw_node ids[BW_STORM_NODES_MAX];
    for (uint32_t i = 0; i < BW_STORM_NODES_MAX; i++) {
        ids[i] = i + 1;
        bw_storm_add(s, BW_FAULT_JOIN, bw_time_min(at, s->end), ids[i]);
    }
    bw_rng_shuffle(&s->wide_rng, ids, BW_STORM_NODES_MAX);
    bw_time pause = promise / (2 * (bw_time)BW_STORM_NODES_MAX);
    for (uint32_t i = 0; i < BW_STORM_NODES_MAX; i++) {
        bool removed = bw_rng_chance(&s->wide_rng, 0.4);
        at += bw_rng_between(&s->wide_rng, pause / 2, 2 * pause);
        bw_storm_add(s, removed ? BW_FAULT_REMOVE : BW_FAULT_LEAVE, bw_time_min(at, s->end),
                     ids[i]);
    }
}

/* Leadership passes between a few nodes, many times within one promise. Then the leader stops. */
static void pass_around(struct storm *s, bw_time at)
{
    uint64_t steps = 3 + bw_rng_below(&s->wide_rng, 8);
    for (uint64_t i = 0; i < steps; i++) {
        bool named = bw_rng_chance(&s->wide_rng, 0.6);
        struct bw_sim_fault *fault = bw_storm_add(s, named ? BW_FAULT_TRANSFER : BW_FAULT_RESIGN,
                                                  bw_time_min(at, s->end), 0);
        if (named)
            fault->peer = 1 + (bw_node)bw_rng_below(&s->wide_rng, 3);
        at += bw_rng_between(&s->wide_rng, 20 * BW_MS, 600 * BW_MS);
    }
    bool killed = bw_rng_chance(&s->wide_rng, 0.5);
    at = bw_time_min(at, s->end);
    if (may_change(s) && bw_rng_chance(&s->wide_rng, 0.4))
        bw_storm_add(s, BW_FAULT_REMOVE, at - bw_rng_between(&s->wide_rng, 0, 500 * BW_MS), 0);
    if (killed)
        kill_supervisor(s, at);
    else
        pause_for(s, at, BW_NODE_NONE, around_promise(s));
}

static uint8_t *partition(struct storm *s, bw_time at, bw_time until)
{
    uint8_t *groups = s->groups[s->partitions++];
    memset(groups, 1, sizeof s->groups[0]);
    bw_storm_add(s, BW_FAULT_PARTITION, at, BW_NODE_NONE)->groups = groups;
    bw_storm_add(s, BW_FAULT_HEAL, until, BW_NODE_NONE);
    return groups;
}

/* A node that leads is cut off or paused until the others have replaced it, and leads again while
 * its host may still be ending the first work. Before that, voters restart: they wait for a promise
 * that they may have given. Then anything may follow. */
static void lead_again(struct storm *s, bw_time at)
{
    struct bw_rng *rng = &s->wide_rng;
    bw_node node = any_id(s);
    bw_time promise = bw_time_max(s->config.promise_ns, BW_SEC);
    bw_storm_add(s, BW_FAULT_TRANSFER, bw_time_min(at, s->end), BW_NODE_NONE)->peer = node;
    for (uint64_t i = 0; i < 2; i++) {
        bw_node voter = any_id(s);
        bw_time crash_at =
            at + bw_rng_between(rng, 100 * BW_MS, s->lasting ? promise / 2 : promise);
        if (voter == node)
            continue;
        bw_storm_add(s, BW_FAULT_CRASH, bw_time_min(crash_at, s->end), voter);
        bw_storm_add(s, BW_FAULT_RESTART, bw_time_min(crash_at + 20 * BW_MS, s->end), voter);
    }
    at += bw_rng_between(rng, promise / 4, 5 * promise / 4);
    if (at >= s->end)
        return;
    bw_time back = at + bw_rng_between(rng, 200 * BW_MS, 2 * BW_SEC);
    if (bw_rng_chance(rng, 0.5) && s->partitions < BW_STORM_PARTITIONS_MAX)
        partition(s, bw_time_min(at, s->end), bw_time_min(back, s->end))[node] = 2;
    else
        pause_for(s, at, node, back - at);
    for (uint64_t i = 0; i < 3; i++) {
        back += bw_rng_between(rng, 20 * BW_MS, 300 * BW_MS);
        bw_storm_add(s, BW_FAULT_TRANSFER, bw_time_min(back, s->end), BW_NODE_NONE)->peer = node;
    }
    back += bw_rng_between(rng, 20 * BW_MS, 500 * BW_MS);
    if (!may_change(s))
        kill_supervisor(s, bw_time_min(back, s->end));
    else if (bw_rng_chance(rng, 0.5))
        bw_storm_add(s, BW_FAULT_REMOVE, bw_time_min(back, s->end), BW_NODE_NONE);
    else
        one_step(s, bw_time_min(back, s->end));
}

/* A host dies while its work runs on. An operator removes the member, and another host joins under
 * the same id. */
static void replace_host(struct storm *s, bw_time at)
{
    bw_node node = any_id(s);
    bw_storm_add(s, BW_FAULT_TRANSFER, at, BW_NODE_NONE)->peer = node;
    at += bw_rng_between(&s->wide_rng, 100 * BW_MS, BW_SEC);
    bw_storm_add(s, BW_FAULT_KILL, bw_time_min(at, s->end), node);
    for (uint32_t i = 0; i < CHANGES_MAX; i++) {
        at += bw_rng_between(&s->wide_rng, 50 * BW_MS, BW_SEC);
        bw_storm_add(s, BW_FAULT_REMOVE, bw_time_min(at, s->end), node);
        at += bw_rng_between(&s->wide_rng, 50 * BW_MS, 500 * BW_MS);
        bw_storm_add(s, BW_FAULT_JOIN, bw_time_min(at, s->end), node);
    }
    bw_storm_add(s, BW_FAULT_RESTART, bw_time_min(at, s->end), node);
}

/* A leader stops, and while its right to act has not ended, one change follows the other. */
static void burst(struct storm *s, bw_time at)
{
    bw_time promise = bw_time_max(s->config.promise_ns, BW_SEC);
    uint64_t steps = 2 + bw_rng_below(&s->wide_rng, BURST_MAX);
    if (bw_rng_chance(&s->wide_rng, 0.7))
        pause_long(s, at);
    else
        kill_supervisor(s, at);
    if (bw_rng_chance(&s->wide_rng, 0.5)) {
        replace_group(s, at + bw_rng_between(&s->wide_rng, 0, promise / 4));
        return;
    }
    for (uint64_t i = 0; i < steps; i++)
        one_step(s, bw_time_min(at + bw_rng_between(&s->wide_rng, BW_MS, promise), s->end));
}

/* In a quarter of the wide storms of Raft promises are long, and so is the time that work takes to
 * end: the first work of a node that leads again can run for seconds. Drawn separately, so that
 * existing storms keep their faults. */
static void draw_lasting_work(struct storm *s)
{
    struct bw_sim_config *c = &s->config;
    struct bw_rng rng;
    bw_rng_init(&rng, c->seed ^ 0x6c617374u);
    s->lasting = s->wide && bw_sim_is_raft(c->algorithm) && bw_rng_chance(&rng, 0.25);
    if (!s->lasting)
        return;
    c->promise_ns = bw_time_max(c->promise_ns, bw_rng_between(&rng, 4 * BW_SEC, 12 * BW_SEC));
    c->stop_ns = bw_rng_between(&rng, c->promise_ns / 2, c->promise_ns);
}

void bw_storm_lead_again(struct storm *s)
{
    struct bw_rng kept = s->wide_rng;
    draw_lasting_work(s);
    bw_rng_init(&s->wide_rng, s->config.seed ^ 0x616761696eu);
    uint64_t times = bw_rng_below(&s->wide_rng, 4) + (s->lasting ? 1 : 0);
    for (uint64_t i = 0; s->wide && i < times; i++)
        if (s->count + 4 * BW_STORM_NODES_MAX < BW_STORM_DRAWN_MAX)
            lead_again(s, bw_rng_between(&s->wide_rng, 300 * BW_MS, s->end));
    s->wide_rng = kept;
}

bool bw_storm_wide_trouble(struct storm *s, bw_time at)
{
    uint64_t which = bw_rng_below(&s->wide_rng, 100);
    bool space = s->count + 12 * BW_STORM_NODES_MAX < BW_STORM_DRAWN_MAX;
    if (which >= 40 || !space)
        return false;
    if (which < 8)
        pause_long(s, at);
    else if (which < 12)
        kill_supervisor(s, at);
    else if (which < 18)
        pass_around(s, at);
    else if (!may_change(s))
        return false;
    else if (which < 23)
        change(s, at);
    else if (which < 28)
        change_while_busy(s, at);
    else if (which < 32)
        replace_host(s, at);
    else
        burst(s, at);
    return true;
}

void bw_storm_kill_shards(struct storm *s)
{
    struct bw_rng *rng = &s->wide_rng;
    if (!s->config.spread || !bw_rng_chance(rng, 0.5))
        return;
    bw_time at = bw_rng_between(rng, BW_SEC, s->end), pause = bw_rng_between(rng, BW_MS, BW_SEC);
    for (uint32_t i = 1; i <= s->config.elections; i++) {
        if (at >= s->end || s->count + 4 * BW_STORM_NODES_MAX >= BW_STORM_DRAWN_MAX)
            return;
        bw_storm_add(s, BW_FAULT_RESIGN, at, BW_NODE_NONE)->shard = i;
        at += bw_rng_between(rng, 1, 2 * pause);
    }
}

/* Node 4 joins and a founder leaves, so three voters remain. One of them is cut off. Meanwhile two
 * nodes join, and node 4 leaves and comes back with an empty disk. While it catches up, it is cut
 * off together with the first, for which both are still a majority. */
bw_time bw_storm_return_behind(struct storm *s)
{
    struct bw_rng rng;
    bw_node ids[] = {1, 2, 3};
    bw_rng_init(&rng, s->config.seed ^ 0x626568696e64u);
    if (!s->wide || !bw_sim_is_raft(s->config.algorithm) || s->config.nodes != 3)
        return 0;
    bw_rng_shuffle(&rng, ids, 3);
    bw_time at = bw_rng_between(&rng, 3 * BW_SEC, 5 * BW_SEC), back = at + 3 * BW_SEC;
    bw_time cut = back + bw_rng_between(&rng, 0, 150 * BW_MS), until = cut + 3 * BW_SEC;
    uint8_t *without = partition(s, at, cut), *apart = partition(s, cut, until);
    without[ids[0]] = apart[ids[0]] = apart[4] = 2;
    bw_storm_add(s, BW_FAULT_JOIN, BW_SEC, 4);
    bw_storm_add(s, BW_FAULT_LEAVE, 2 * BW_SEC, ids[1]);
    bw_storm_add(s, BW_FAULT_JOIN, at, 5);
    bw_storm_add(s, BW_FAULT_JOIN, at, 6);
    bw_storm_add(s, BW_FAULT_LEAVE, back - BW_SEC, 4);
    bw_storm_add(s, BW_FAULT_JOIN, back, 4);
    return until;
}

/* Members contend for a moment: they campaign, resign and transfer while messages are lost, late
 * and out of order, so most claims are withdrawn. What voters promised to these claims must not
 * keep a leader from acting afterwards, however long promises are, because nobody dies. */
static void contend(struct storm *s, bw_time at)
{
    struct bw_rng *rng = &s->wide_rng;
    bw_time from = at - bw_rng_between(rng, 50 * BW_MS, CONTENTION);
    uint64_t steps = 2 + bw_rng_below(rng, BURST_MAX);
    bw_storm_add(s, BW_FAULT_LOSS, from, BW_NODE_NONE)->rate = bw_rng_unit(rng) * 0.5;
    bw_storm_add(s, BW_FAULT_LOSS, at, BW_NODE_NONE)->rate = 0;
    struct bw_sim_latency late = s->config.latency;
    late.max += bw_rng_between(rng, 0, LATE);
    bw_storm_add(s, BW_FAULT_LATENCY, from, BW_NODE_NONE)->latency = late;
    bw_storm_add(s, BW_FAULT_LATENCY, at, BW_NODE_NONE)->latency = s->config.latency;
    for (uint64_t i = 0; i < steps; i++) {
        bw_time when = bw_rng_between(rng, from, at);
        uint64_t which = bw_rng_below(rng, 4);
        bw_node node = any_id(s);
        if (which == 0)
            bw_storm_add(s, BW_FAULT_RESIGN, when, BW_NODE_NONE);
        else if (which == 1)
            bw_storm_add(s, BW_FAULT_TRANSFER, when, BW_NODE_NONE)->peer = node;
        else
            bw_storm_add(s, BW_FAULT_CAMPAIGN, when, node);
    }
}

void bw_storm_wide_end(struct storm *s, bw_time quiet_end)
{
    bw_time at = quiet_end - LAST_EVENT - (s->unable ? BW_STORM_TURNS_NS : 0);
    if (s->unable) /* of several hand-overs one may fail, and then its promise must be waited out */
        at -= s->config.promise_ns;
    uint64_t which = bw_rng_below(&s->wide_rng, 3);
    for (bw_node node = 1; node <= BW_STORM_NODES_MAX; node++)
        bw_storm_add(s, BW_FAULT_RESUME, s->end, node);
    if (!bw_storm_any_can_succeed(s->config.algorithm))
        return; /* the highest rank takes leadership back, at a time that is not bounded here */
    if (which == 0)
        bw_storm_add(s, BW_FAULT_RESIGN, at, BW_NODE_NONE);
    else if (which == 1)
        bw_storm_add(s, BW_FAULT_TRANSFER, at, BW_NODE_NONE)->peer = any_id(s);
    else if (s->config.guard) /* a leader that a merge of groups deposes must first end its work */
        contend(s, s->unable ? at : at - s->config.stop_ns);
}
