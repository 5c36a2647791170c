/* Two seals that share a key, unverified or verified: the start of most tests of sealed frames. */
#ifndef BW_TESTS_UNIT_NET_SEAL_PAIR_H
#define BW_TESTS_UNIT_NET_SEAL_PAIR_H

#include "seal_story.h"

static struct bw_keyring *ring;
static struct bw_seal *one, *two;

static inline int start_unverified(void **state)
{
    (void)state;
    ring = ring_of(KEY_ONE "\n");
    one = seal_of(1, ring);
    two = seal_of(2, ring);
    return 0;
}

static inline int start_verified(void **state)
{
    start_unverified(state);
    handshake(one, 2, two);
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    bw_seal_free(one);
    bw_seal_free(two);
    bw_keyring_free(ring);
    return 0;
}

#endif
