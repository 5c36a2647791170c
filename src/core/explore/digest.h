/* A digest of a module's state, for the explorer (sim/explore): two states with the same digest
 * behave alike from now on.
 *
 * A module adds every field that can influence a later step, and no other field. Times are added
 * relative to `now`: a deadline that has passed counts as 0, whenever it passed. Production code
 * does not call these functions. */
#ifndef BW_CORE_EXPLORE_DIGEST_H
#define BW_CORE_EXPLORE_DIGEST_H

#include "core/base/assert.h"
#include "core/base/types.h"

struct bw_digest {
    uint64_t *at; /* the caller's memory, `cap` words */
    uint32_t count, cap;
    bw_time now;
    bw_time next; /* the earliest time after `now` among the times added; BW_TIME_NEVER: none */
};

static inline void bw_digest_add(struct bw_digest *digest, uint64_t value)
{
    BW_ASSERT(digest->count < digest->cap);
    digest->at[digest->count++] = value;
}

/* Adds a time of which only the distance from now matters, and only while it is in the future. */
static inline void bw_digest_time(struct bw_digest *digest, bw_time time)
{
    bool passed = time <= digest->now;
    bw_digest_add(digest, passed                  ? 0
                          : time == BW_TIME_NEVER ? UINT64_MAX
                                                  : (uint64_t)(time - digest->now));
    if (!passed)
        digest->next = bw_time_min(digest->next, time);
}

/* Adds a time in the past whose age matters, such as the send time of a request. Negative: none. */
static inline void bw_digest_age(struct bw_digest *digest, bw_time time)
{
    bw_digest_add(digest, time < 0 ? UINT64_MAX : (uint64_t)(digest->now - time));
}

#endif
