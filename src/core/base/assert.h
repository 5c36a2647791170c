/* Checks of our own reasoning. Data from a peer, a disk or a user is never asserted: it returns an
 * error. */
#ifndef BW_CORE_BASE_ASSERT_H
#define BW_CORE_BASE_ASSERT_H

/* Checks for bugs of our own and stays on in release builds. */
#define BW_ASSERT(condition)                                                                       \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0))                                                     \
            __builtin_trap();                                                                      \
    } while (0)

/* Mark a defence: we know no way to make an ALWAYS condition false or a NEVER condition true, but
 * the code around it stays correct if we are wrong. A release build evaluates the condition as
 * written. A build with sanitizers ends the program, so the storms, the explorer and the fuzzers
 * search for such a way. The branch coverage does not count them. */
#ifdef BW_TRAP_DEFENCES
#define BW_ALWAYS(condition) ((condition) ? 1 : (__builtin_trap(), 0))
#define BW_NEVER(condition)  ((condition) ? (__builtin_trap(), 1) : 0)
#else
#define BW_ALWAYS(condition) (condition)
#define BW_NEVER(condition)  (condition)
#endif

#endif
