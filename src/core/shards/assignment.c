/* Assigns shards to candidates; see assignment.h. The capacity is N / count for each candidate,
 * plus one for the N % count candidates whose keys hash highest. The capacities add up to N, so
 * every shard finds a place and every candidate is full. */
#include "core/shards/assignment.h"

#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/error.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection that diffuses every bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t bw_spread_key(const void *name, size_t length)
{
    const unsigned char *bytes = name;
    /* FNV-1a, then mixed: FNV-1a alone leaves the high bits similar */
    uint64_t key = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        key = (key ^ bytes[i]) * 0x100000001b3u;
    return mix(key);
}

/* Both steps are bijections of the key. */
uint64_t bw_spread_score(uint32_t shard, uint64_t key)
{
    return mix(key ^ mix((uint64_t)shard + 0x9e3779b97f4a7c15u));
}

static void assign_capacity(struct bw_spread *spread)
{
    uint32_t each = spread->shards / spread->count, more = spread->shards % spread->count;
    for (uint32_t i = 0; i < spread->count; i++) {
        uint32_t above = 0;
        for (uint32_t k = 0; k < spread->count; k++)
            above += mix(spread->keys[k]) > mix(spread->keys[i]);
        spread->capacity[i] = (uint16_t)(each + (above < more || BW_BUG(spread_room_is_not_exact)));
        spread->load[i] = 0;
    }
}

/* The candidate with the highest score below `*bound` (NULL: of all). */
static uint16_t best_below(const struct bw_spread *spread, uint32_t shard, const uint64_t *bound,
                           uint64_t *score)
{
    uint16_t best = UINT16_MAX;
    for (uint32_t i = 0; i < spread->count; i++) {
        uint64_t now = bw_spread_score(shard, spread->keys[i]);
        if ((!bound || now < *bound) && (best == UINT16_MAX || now > *score)) {
            best = (uint16_t)i;
            *score = now;
        }
    }
    return best;
}

/* The shard below `placed` that a full candidate would drop first. */
static uint32_t weakest(const struct bw_spread *spread, uint16_t owner, uint32_t placed)
{
    uint32_t worst = BW_SHARDS_MAX;
    for (uint32_t i = 0; i < placed; i++)
        if (spread->owner[i] == owner &&
            (worst == BW_SHARDS_MAX ||
             (spread->score[i] < spread->score[worst]) != BW_BUG(spread_drops_the_best)))
            worst = i;
    return worst;
}

static void settle(struct bw_spread *spread, uint32_t shard, uint16_t owner, uint64_t score)
{
    spread->owner[shard] = owner;
    spread->score[shard] = score;
}

/* Places `shard`; the shards below it are placed already. Each iteration lowers the bound of one
 * shard, so the loop terminates. The capacities suffice, so every shard gets a place. */
static void place(struct bw_spread *spread, uint32_t shard)
{
    uint32_t placed = shard;
    uint64_t bound = 0, score = 0;
    bool refused = false;
    spread->owner[shard] = UINT16_MAX;
    for (;;) {
        uint16_t best = best_below(spread, shard, refused ? &bound : NULL, &score);
        BW_ASSERT(best != UINT16_MAX);
        if (spread->load[best] < spread->capacity[best]) {
            spread->load[best]++;
            settle(spread, shard, best, score);
            return;
        }
        bound = score;
        refused = true;
        uint32_t dropped =
            spread->capacity[best] ? weakest(spread, best, placed + 1) : BW_SHARDS_MAX;
        if (dropped == BW_SHARDS_MAX || spread->score[dropped] > score)
            continue;
        settle(spread, shard, best, score);
        shard = dropped;
        bound = spread->score[dropped];
        spread->owner[dropped] = UINT16_MAX;
    }
}

int bw_spread_make(struct bw_spread *spread, uint32_t shards, const uint64_t *keys, uint32_t count)
{
    if (shards == 0 || count == 0)
        return BW_EINVAL;
    if (shards > BW_SHARDS_MAX || count > BW_SPREAD_CANDIDATES_MAX)
        return BW_ELIMIT;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (keys[i] == keys[k])
                return BW_EINVAL;
    spread->shards = shards;
    spread->count = count;
    for (uint32_t i = 0; i < count; i++)
        spread->keys[i] = keys[i];
    assign_capacity(spread);
    for (uint32_t i = 0; i < shards; i++)
        place(spread, i);
    return 0;
}

uint64_t bw_spread_owner(const struct bw_spread *spread, uint32_t shard)
{
    BW_ASSERT(shard < spread->shards);
    return spread->keys[spread->owner[shard]];
}

uint32_t bw_spread_rank(const struct bw_spread *spread, uint32_t shard, uint64_t key)
{
    uint64_t owner = bw_spread_owner(spread, shard);
    uint32_t above = 0;
    bool known = false;
    for (uint32_t i = 0; i < spread->count; i++) {
        known = known || spread->keys[i] == key;
        above += spread->keys[i] != owner &&
                 bw_spread_score(shard, spread->keys[i]) > bw_spread_score(shard, key);
    }
    return known ? above : spread->count;
}
