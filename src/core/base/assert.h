/* BW_ASSERT stays on in release. It is for our own bugs: never for what a peer, a disk or a user
 * sent. */
#ifndef BW_BASE_ASSERT_H
#define BW_BASE_ASSERT_H

#define BW_ASSERT(condition)                                                                       \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            __builtin_trap();                                                                      \
    } while (0)

#endif
