/* Injects failures: this program's own pwrite, fdatasync, fcntl, open, statfs, inotify_init1 and
 * clock_gettime replace the C library's, for SQLite, too. */
#ifndef BW_TESTS_SYSTEM_KIT_SHIM_H
#define BW_TESTS_SYSTEM_KIT_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>

struct shim {
    atomic_int calls;         /* number of pwrite and fdatasync calls on database files */
    atomic_int fail_at;       /* the call with this number fails; 0: none */
    atomic_int fail_from;     /* all calls from this number on fail; 0: none */
    atomic_int error;         /* errno of the failures */
    atomic_int sync_error;    /* every sync fails with this errno; 0: none */
    atomic_int sync_delay_ms; /* every sync takes this long */
    atomic_uint fs_type;      /* type that statfs reports; 0: the real one */
    atomic_bool holds_looks;  /* a lock check blocks while this is set */
    atomic_int looks_held;    /* number of lock checks that have blocked */
    atomic_bool deaf;         /* inotify is not available */
    atomic_bool blind;        /* lock files cannot be opened for reading: EMFILE */
    atomic_bool fixed_limits; /* setrlimit is not permitted */
    atomic_llong wall_jump_s; /* the wall clock is off by this */
};

extern struct shim shim;
void shim_reset(void);

#endif
