/* bw_guard: a durable register of the highest fencing token that a resource has seen.
 *
 * Why: a lease alone protects no resource. A leader that was paused, or a write that was long under
 * way, arrives after its lease has passed on (Gray & Cheriton 1989; Chubby's sequencers, Burrows
 * 2006, section 2.4). The resource itself must remember the highest token and refuse older ones.
 *
 * Model: crashes at any instruction, torn writes, bits that flip at rest; the disk keeps what
 * fsync said it has. Clocks play no part.
 *
 * Guarantees: once a token was accepted, no older one is ever accepted again, also after a crash
 * or power cut. A register that cannot be trusted (damaged, vanished, of an unknown version) is
 * refused, never replaced. Not guaranteed: anything against writers that do not ask, nor against a
 * register put back from an old copy. */
#ifndef BW_FENCE_GUARD_H
#define BW_FENCE_GUARD_H

#include "core/base/error.h"
#include "core/base/types.h"

#define BW_GUARD_WHY_MAX 511u

/* ---- the decision: pure ---- */

struct bw_guard_state {
    bw_token highest; /* 0: none was ever accepted */
    bool closed;      /* a recovery is under way: only `highest` itself, the recovery's own, acts */
};

struct bw_guard_verdict {
    /* 0: accepted; BW_ENOTOKEN: token is 0; BW_ESTALE: older than `highest`; BW_EBUSY: newer, but
     * the register is closed. */
    int error;
    bw_token token;
    bw_token highest; /* before this token */
    bool raise;       /* accepted and newer: must be durable before anything is done with it */
};

struct bw_guard_verdict bw_guard_decide(const struct bw_guard_state *state, bw_token token);

/* The verdict as a line that names both tokens and the resource. Returns verdict->error. */
int bw_guard_explain(const struct bw_guard_verdict *verdict, const char *resource, char *why);

/* ---- the register as a file ----
 *
 *   PATH              what is guarded; need not exist, is never touched
 *   PATH.guard        the register, replaced as a whole (codec: register.h)
 *   PATH.guard.lock   locks; never replaced or removed. Not empty once a register was written: a
 *                     register that is missing then was lost, not unborn
 *
 * One byte of the lock file is locked for the moment of looking and raising, another for as long as
 * guarded work runs. Locks live on the open file description: they pass over fork and exec, and
 * last until the last copy of the descriptor is closed. */
struct bw_guard;

/* All return 0 or an error with a line in why[BW_GUARD_WHY_MAX + 1]. */

/* Creates the lock file if it is not there; with the directory's other rights left to umask. */
int bw_guard_open(struct bw_guard **out, const char *path, char *why);
void bw_guard_close(struct bw_guard *guard); /* NULL is nothing; lets go of the work's lock */

/* Accepts the token, having raised the register durably first, or refuses it. `verdict` may be
 * NULL. BW_ENOTOKEN, BW_ESTALE, BW_EBUSY as decided; BW_EDAMAGED or BW_EVERSION: the register
 * cannot be trusted; BW_EIO. */
int bw_guard_check(struct bw_guard *guard, bw_token token, struct bw_guard_verdict *verdict,
                   char *why);

/* Only looks. A register that was never written reads as 0. */
int bw_guard_read(struct bw_guard *guard, struct bw_guard_state *state, char *why);

/* Accepts the token as bw_guard_check does, so that older ones are refused from now on; waits until
 * guarded work of others has ended, at most `wait_ns` (0: does not wait, NEVER: for ever; else
 * SIGALRM and its timer are used meanwhile); and looks again, because a newer one may have come
 * meanwhile. Then this process holds the work's lock until bw_guard_close and the end of all
 * children that inherited bw_guard_fd. BW_EBUSY with verdict->error 0: out of time. */
int bw_guard_hold(struct bw_guard *guard, bw_token token, bw_time wait_ns,
                  struct bw_guard_verdict *verdict, char *why);

/* The descriptor that carries the work's lock, close-on-exec; clear that for a child that must keep
 * the lock. It stays the guard's. */
int bw_guard_fd(const struct bw_guard *guard);

/* Inside guarded work: use the lock that this process inherited at `fd` instead of waiting for
 * itself. False: that descriptor is no lock of this guard. */
bool bw_guard_adopt(struct bw_guard *guard, int fd);

/* For recovery: raise to `token` and close, so that only `token` itself is accepted; BW_ESTALE when
 * the register stands higher. And open again: only by the token that closed it; 0 if open. */
int bw_guard_shut(struct bw_guard *guard, bw_token token, char *why);
int bw_guard_reopen(struct bw_guard *guard, bw_token token, char *why);

/* One more rejection, counted in a file in Prometheus' text format; replaced as a whole, so that a
 * collector never sees half of it. One file per guarded path. */
int bw_guard_count(struct bw_guard *guard, const char *metrics_path, char *why);

#endif
