/* Failures on order: this program's own pwrite, fdatasync, fcntl, open, statfs, inotify_init1
 * and clock_gettime stand before the C library's, for SQLite too. */
#ifndef BW_TESTS_SYSTEM_SHIM_H
#define BW_TESTS_SYSTEM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>

struct shim {
    atomic_int calls;         /* of pwrite and fdatasync on database files, counted */
    atomic_int fail_at;       /* the call with this number fails; 0: none */
    atomic_int fail_from;     /* all from this number on fail; 0: none */
    atomic_int error;         /* with this errno */
    atomic_int sync_error;    /* every sync fails with this errno; 0: none */
    atomic_int sync_delay_ms; /* every sync takes this long */
    atomic_uint fs_type;      /* what statfs says; 0: the truth */
    atomic_bool holds_looks;  /* who looks at a lock waits until this is not set any more */
    atomic_int looks_held;    /* so many have begun to wait */
    atomic_bool deaf;         /* no inotify */
    atomic_bool blind;        /* lock files cannot be opened for reading: EMFILE */
    atomic_bool fixed_limits; /* setrlimit is not permitted */
    atomic_llong wall_jump_s; /* the wall clock is off by this */
};

extern struct shim shim;
void shim_reset(void);

#endif
