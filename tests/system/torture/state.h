/* The file that a tortured program and its driver (tests/torture.py) share. Every process of the
 * program maps it, so forked children continue the same count.
 *
 * Layout, little-endian: struct torture_state, then, while TORTURE_LOG is set, one struct
 * torture_entry per counted call. The driver reads both by the byte offsets given here. */
#ifndef TORTURE_STATE_H
#define TORTURE_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#define TORTURE_FRAMES  24
#define TORTURE_MODULE  56
#define TORTURE_ENTRIES 400000u /* more are counted, but not logged */

enum torture_kind { TORTURE_ALLOC, TORTURE_CALL, TORTURE_KINDS };

struct torture_frame {
    char module[TORTURE_MODULE]; /* file name without its directory */
    uint64_t offset;             /* of the return address in the module */
};

struct torture_state {
    _Atomic uint32_t armed;                      /*  0: the driver may clear it to stop the count */
    _Atomic uint32_t count[TORTURE_KINDS];       /*  4: counted calls */
    _Atomic uint32_t failed;                     /* 12: calls that were made to fail */
    _Atomic uint32_t entries;                    /* 16: logged calls */
    int32_t error;                               /* 20: errno of the first failed call */
    uint32_t pid, depth;                         /* 24, 28: its process, its number of frames */
    char name[32];                               /* 32: its function */
    struct torture_frame frames[TORTURE_FRAMES]; /* 64 */
};

struct torture_entry {
    uint32_t kind, index; /* the index-th call of its kind, from 1 */
    uint64_t site;        /* hash of the function and of the frames in Bellwether's own modules */
    uint64_t stack;       /* hash of the function and of all frames */
    char name[24];
};

#endif
