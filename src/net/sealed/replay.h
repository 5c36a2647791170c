/* Tracks received counters: the newest and the 1,023 before it, in any order. Older ones count as
 * received. A sliding window as in RFC 6479, without its blocks. Pure. */
#ifndef BW_NET_SEALED_REPLAY_H
#define BW_NET_SEALED_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BW_REPLAY_BITS 1024u

struct bw_replay {
    uint64_t next; /* one above the newest received */
    uint64_t seen[BW_REPLAY_BITS / 64];
};

/* Everything below `next` counts as received. */
static inline void bw_replay_init(struct bw_replay *window, uint64_t next)
{
    window->next = next;
    memset(window->seen, 0xff, sizeof window->seen);
}

static inline bool bw_replay_is_new(const struct bw_replay *window, uint64_t counter)
{
    if (counter >= window->next)
        return true;
    if (window->next - counter > BW_REPLAY_BITS)
        return false;
    return !(window->seen[counter % BW_REPLAY_BITS / 64] >> (counter % 64) & 1);
}

static inline void bw_replay_note(struct bw_replay *window, uint64_t counter)
{
    if (counter >= window->next && counter - window->next >= BW_REPLAY_BITS) {
        memset(window->seen, 0, sizeof window->seen);
        window->next = counter + 1;
    }
    for (; window->next <= counter; window->next++)
        window->seen[window->next % BW_REPLAY_BITS / 64] &= ~(UINT64_C(1) << (window->next % 64));
    window->seen[counter % BW_REPLAY_BITS / 64] |= UINT64_C(1) << (counter % 64);
}

#endif
