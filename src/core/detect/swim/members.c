/* SWIM's members, and the choice of the next one to probe.
 *
 * The paper analyses a random choice (SWIM §3.1): the first detection takes 1 / (1 - (1 -
 * 1/(n-1))^(n-1)) periods on average. It then replaces that choice by a shuffled round robin
 * (§4.3), which bounds the worst case. Here the choice is random, so that the analysis holds. In
 * addition, a member that was not chosen for 3(n - 1) periods is chosen next, so that the worst
 * case is bounded too. The queue, least recently probed first, gives that member in O(1). About one
 * choice in sixteen is made this way, which shortens the mean for n = 8 by 0.4 %. (With a bound of
 * 2(n - 1) it would be one in five and 1 %.) The queue starts shuffled and staggered. Otherwise all
 * observers would reach the same overdue members in the same period.
 *
 * Dead members are probed as well, as often as a random choice among all members would, but in at
 * most a quarter of the periods. A partition that outlasted all suspicions could not heal
 * otherwise. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/detect/swim/swim.h"

#include <string.h>

#define PROBED_MASK 0x3fffffffu
#define TRIES       32
#define LAPS        3u /* a member not probed for this many rounds goes first */

static struct bw_swim_queue *queue_of(struct bw_swim_members *members,
                                      const struct bw_swim_member *member)
{
    return member->status == BW_MEMBER_DEAD ? &members->dead : &members->live;
}

static uint16_t place_of(const struct bw_swim_members *members, const struct bw_swim_member *member)
{
    return (uint16_t)(member - members->at);
}

static void unlink_member(struct bw_swim_members *members, struct bw_swim_member *member)
{
    struct bw_swim_queue *queue = queue_of(members, member);
    if (member->before == BW_SWIM_NONE)
        queue->head = member->after;
    else
        members->at[member->before].after = member->after;
    if (member->after == BW_SWIM_NONE)
        queue->tail = member->before;
    else
        members->at[member->after].before = member->before;
    queue->count--;
}

static void link_last(struct bw_swim_members *members, struct bw_swim_member *member)
{
    struct bw_swim_queue *queue = queue_of(members, member);
    uint16_t place = place_of(members, member);
    member->before = queue->tail;
    member->after = BW_SWIM_NONE;
    if (queue->tail == BW_SWIM_NONE)
        queue->head = place;
    else
        members->at[queue->tail].after = place;
    queue->tail = place;
    queue->count++;
}

static void link_first(struct bw_swim_members *members, struct bw_swim_member *member)
{
    struct bw_swim_queue *queue = queue_of(members, member);
    uint16_t place = place_of(members, member);
    member->before = BW_SWIM_NONE;
    member->after = queue->head;
    if (queue->head == BW_SWIM_NONE)
        queue->tail = place;
    else
        members->at[queue->head].before = place;
    queue->head = place;
    queue->count++;
}

/* Heap sort by id: in place, and O(n log n) for any order. */
static void sift(struct bw_swim_member *at, uint32_t root, uint32_t count)
{
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && at[child].id < at[child + 1].id)
            child++;
        if (at[root].id >= at[child].id)
            return;
        struct bw_swim_member swap = at[root];
        at[root] = at[child];
        at[child] = swap;
    }
}

static void sort(struct bw_swim_member *at, uint32_t count)
{
    for (uint32_t i = count / 2; i > 0; i--)
        sift(at, i - 1, count);
    for (uint32_t i = count; i > 1; i--) {
        struct bw_swim_member swap = at[0];
        at[0] = at[i - 1];
        at[i - 1] = swap;
        sift(at, 0, i - 1);
    }
}

static int fill(struct bw_swim_members *members, const struct bw_detector_config *config)
{
    bool sorted = true;
    for (uint32_t i = 0; i < config->count; i++) {
        bw_node id = config->members[i];
        if (id == BW_NODE_NONE)
            return BW_EINVAL;
        if (id == config->self)
            continue;
        uint32_t n = members->count++;
        members->at[n] = (struct bw_swim_member){.id = id};
        sorted = sorted && (n == 0 || members->at[n - 1].id < id);
    }
    if (!sorted)
        sort(members->at, members->count);
    for (uint32_t i = 1; i < members->count; i++)
        if (members->at[i - 1].id == members->at[i].id)
            return BW_EINVAL;
    return 0;
}

/* Puts all members into the live queue in random order, as if they had been probed in the periods
 * before the first. The `probed` fields, which are not needed yet, hold the permutation. */
static void shuffle(struct bw_swim_members *members, struct bw_rng *rng)
{
    uint32_t count = members->count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)bw_rng_below(rng, i + 1);
        members->at[i].probed = members->at[j].probed;
        members->at[j].probed = i & PROBED_MASK;
    }
    for (uint32_t i = 0; i < count; i++)
        link_last(members, &members->at[members->at[i].probed]);
    uint32_t age = count;
    for (uint16_t i = members->live.head; i != BW_SWIM_NONE; i = members->at[i].after)
        members->at[i].probed = (members->period - age--) & PROBED_MASK;
}

int bw_swim_members_init(struct bw_swim_members *members, struct bw_arena *arena,
                         const struct bw_detector_config *config, struct bw_rng *rng)
{
    uint32_t cap = config->cap ? config->cap : config->count;
    *members = (struct bw_swim_members){
        .at = bw_arena_take(arena, cap * sizeof *members->at),
        .cap = cap,
        .self = config->self,
        .live = {.head = BW_SWIM_NONE, .tail = BW_SWIM_NONE},
        .dead = {.head = BW_SWIM_NONE, .tail = BW_SWIM_NONE},
    };
    if (config->self == BW_NODE_NONE)
        return BW_EINVAL;
    if (config->count > cap || cap > BW_DETECTOR_MEMBERS_MAX)
        return BW_ELIMIT;
    if (!members->at)
        return BW_NEVER(arena->at) ? BW_ENOMEM : 0;
    int error = fill(members, config);
    if (!error)
        shuffle(members, rng);
    return error;
}

static uint32_t lower_bound(const struct bw_swim_members *members, bw_node id)
{
    uint32_t low = 0, high = members->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (members->at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Ids are usually 1..n, and self is left out, so the row is nearly always at the index that follows
 * from this. */
struct bw_swim_member *bw_swim_members_find(const struct bw_swim_members *members, bw_node id)
{
    uint32_t i = id - (id > members->self ? 2u : 1u);
    if (i >= members->count || members->at[i].id != id)
        i = lower_bound(members, id);
    return i < members->count && members->at[i].id == id ? &members->at[i] : NULL;
}

static uint16_t moved(uint16_t link, uint32_t from, int by)
{
    return link != BW_SWIM_NONE && link >= from ? (uint16_t)(link + by) : link;
}

/* Adjusts all links to rows from `from` on, which move by one. */
static void move_links(struct bw_swim_members *members, uint32_t from, int by)
{
    for (uint32_t i = 0; i < members->count; i++) {
        members->at[i].before = moved(members->at[i].before, from, by);
        members->at[i].after = moved(members->at[i].after, from, by);
    }
    struct bw_swim_queue *queues[] = {&members->live, &members->dead};
    for (int i = 0; i < 2; i++) {
        queues[i]->head = moved(queues[i]->head, from, by);
        queues[i]->tail = moved(queues[i]->tail, from, by);
    }
}

struct bw_swim_member *bw_swim_members_add(struct bw_swim_members *members, bw_node id)
{
    uint32_t i = lower_bound(members, id);
    bool known = i < members->count && members->at[i].id == id;
    if (known || id == members->self || id == BW_NODE_NONE || members->count == members->cap)
        return NULL;
    struct bw_swim_member *member = &members->at[i];
    move_links(members, i, 1);
    memmove(member + 1, member, (members->count - i) * sizeof *member);
    members->count++;
    *member = (struct bw_swim_member){.id = id, .probed = members->period & PROBED_MASK};
    link_last(members, member);
    return member;
}

bool bw_swim_members_remove(struct bw_swim_members *members, bw_node id)
{
    struct bw_swim_member *member = bw_swim_members_find(members, id);
    if (!member)
        return false;
    uint32_t i = place_of(members, member);
    unlink_member(members, member);
    memmove(member, member + 1, (members->count - i - 1) * sizeof *member);
    members->count--;
    move_links(members, i + 1, -1);
    return true;
}

void bw_swim_members_become(struct bw_swim_members *members, struct bw_swim_member *member,
                            enum bw_member_status status)
{
    bool moves = (member->status == BW_MEMBER_DEAD) != (status == BW_MEMBER_DEAD);
    if (moves)
        unlink_member(members, member);
    member->status = status & 3u;
    if (!moves)
        return;
    member->probed = members->period & PROBED_MASK;
    link_last(members, member);
}

static uint32_t age(const struct bw_swim_members *members, const struct bw_swim_member *member)
{
    return (members->period - member->probed) & PROBED_MASK;
}

static bool dead_are_due(const struct bw_swim_members *members, struct bw_rng *rng)
{
    uint32_t dead = members->dead.count, live = members->live.count;
    if (dead == 0 || live == 0)
        return dead > 0;
    if (BW_BUG(swim_forgets_the_dead))
        return false;
    double share = (double)dead / (double)(dead + live);
    return bw_rng_chance(rng, share < 0.25 ? share : 0.25);
}

static struct bw_swim_member *choose_live(const struct bw_swim_members *members, struct bw_rng *rng)
{
    struct bw_swim_member *oldest = &members->at[members->live.head];
    if (age(members, oldest) >= LAPS * members->live.count)
        return oldest;
    for (int i = 0; i < TRIES; i++) {
        struct bw_swim_member *member = &members->at[bw_rng_below(rng, members->count)];
        if (member->status != BW_MEMBER_DEAD)
            return member;
    }
    return oldest;
}

struct bw_swim_member *bw_swim_members_choose(struct bw_swim_members *members, struct bw_rng *rng)
{
    members->period++;
    if (members->count == 0)
        return NULL;
    struct bw_swim_member *member =
        dead_are_due(members, rng) ? &members->at[members->dead.head] : choose_live(members, rng);
    unlink_member(members, member);
    member->probed = members->period & PROBED_MASK;
    link_last(members, member);
    return member;
}

void bw_swim_members_prioritize(struct bw_swim_members *members, struct bw_swim_member *member)
{
    unlink_member(members, member);
    member->probed = (members->period - LAPS * members->cap) & PROBED_MASK;
    link_first(members, member);
}

static bool among(const bw_node *list, uint32_t count, bw_node id)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == id)
            return true;
    return false;
}

uint32_t bw_swim_members_helpers(const struct bw_swim_members *members, struct bw_rng *rng,
                                 bw_node target, bw_node *out, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < TRIES && found < count && members->count > 1; i++) {
        const struct bw_swim_member *member = &members->at[bw_rng_below(rng, members->count)];
        if (member->status != BW_MEMBER_DEAD && member->id != target &&
            !among(out, found, member->id))
            out[found++] = member->id;
    }
    return found;
}
