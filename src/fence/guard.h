/* bw_guard: a durable register of the highest fencing token that a resource has seen.
 *
 * Purpose: a lease alone does not protect a resource. A paused leader's write, or a write that was
 * delayed, can arrive after the lease has passed to another leader (Gray & Cheriton 1989; Chubby's
 * sequencers, Burrows 2006, section 2.4). The resource itself must remember the highest token and
 * reject older ones.
 *
 * Model: the process can crash at any instruction; writes can be torn; bits can flip at rest. The
 * disk keeps what a successful fsync has confirmed. Clocks are not used.
 *
 * Guarantees:
 *   - After a token was accepted, no older token is accepted, also after a crash or power failure.
 *   - A register that cannot be trusted (damaged, missing, of an unknown version) is rejected and
 *     never replaced.
 *
 * Not guaranteed: protection against writers that do not check their token, or after a register was
 * restored from an old copy. */
#ifndef BW_FENCE_GUARD_H
#define BW_FENCE_GUARD_H

#include "core/base/error.h"
#include "core/base/types.h"

#define BW_GUARD_WHY_MAX 511u

/* ---- the decision: pure ---- */

struct bw_guard_state {
    bw_token highest; /* 0: no token was ever accepted */
    bool closed;      /* a recovery is in progress: only its own token, `highest`, is accepted */
};

struct bw_guard_verdict {
    /* 0: accepted; BW_ENOTOKEN: token is 0; BW_ESTALE: older than `highest`; BW_EBUSY: newer, but
     * the register is closed. */
    int error;
    bw_token token;
    bw_token highest; /* before this token */
    bool raise;       /* accepted and newer: store it durably before acting on it */
};

struct bw_guard_verdict bw_guard_decide(const struct bw_guard_state *state, bw_token token);

/* Describes the verdict in a line that names both tokens and the resource. Returns verdict->error.
 */
int bw_guard_explain(const struct bw_guard_verdict *verdict, const char *resource, char *why);

/* ---- the register as a file ----
 *
 *   PATH              the guarded file; need not exist, is never touched
 *   PATH.guard        the register, always replaced as a whole (codec: register.h)
 *   PATH.guard.lock   locks; never replaced or removed. It is not empty once a register was
 *                     written: if the register is then missing, it was lost
 *
 * One byte of the lock file is locked while a token is checked and the register is raised, another
 * while guarded work runs. Locks belong to the open file description: they survive fork and exec
 * and last until the last copy of the descriptor is closed. */
struct bw_guard;

/* All functions return 0 or an error with a line in why[BW_GUARD_WHY_MAX + 1]. */

/* Creates the lock file if it does not exist, with permissions from the umask. */
int bw_guard_open(struct bw_guard **out, const char *path, char *why);
void bw_guard_close(struct bw_guard *guard); /* accepts NULL; releases the work lock */

/* Accepts or rejects the token. An accepted newer token is stored durably first. `verdict` may be
 * NULL. Returns BW_ENOTOKEN, BW_ESTALE or BW_EBUSY as decided; BW_EDAMAGED or BW_EVERSION if the
 * register cannot be trusted; BW_EIO. */
int bw_guard_check(struct bw_guard *guard, bw_token token, struct bw_guard_verdict *verdict,
                   char *why);

/* Reads the register. One that was never written reads as 0. */
int bw_guard_read(struct bw_guard *guard, struct bw_guard_state *state, char *why);

/* Holds the work lock with this token, in three steps:
 *   1. accepts the token as bw_guard_check does, so that older ones are rejected from now on;
 *   2. waits until other guarded work has ended, at most `timeout_ms` (0: no wait, negative: no
 *      limit);
 *   3. checks the token again, because a newer one may have been accepted meanwhile.
 * This process then holds the work lock until bw_guard_release, or until bw_guard_close and until
 * all children that inherited bw_guard_fd have ended. BW_EBUSY with verdict->error 0: the wait
 * timed out. BW_EINVAL: already held. */
int bw_guard_hold(struct bw_guard *guard, bw_token token, int64_t timeout_ms,
                  struct bw_guard_verdict *verdict, char *why);
void bw_guard_release(struct bw_guard *guard); /* NULL, or a guard not held, is ignored */

/* The descriptor of the work lock, close-on-exec; clear that flag for a child that must keep the
 * lock. The guard owns the descriptor. */
int bw_guard_fd(const struct bw_guard *guard);

/* Inside guarded work: uses the lock that this process inherited at `fd`, instead of waiting for
 * itself. Returns false if that descriptor is not a lock of this guard. */
bool bw_guard_adopt(struct bw_guard *guard, int fd);

/* For recovery. bw_guard_shut raises the register to `token` and closes it, so that only `token`
 * itself is accepted; BW_ESTALE if the register is higher. bw_guard_reopen opens it again, with the
 * token that closed it or a higher one; 0 if it is already open. */
int bw_guard_shut(struct bw_guard *guard, bw_token token, char *why);
int bw_guard_reopen(struct bw_guard *guard, bw_token token, char *why);

/* Counts one more rejection in a file in Prometheus' text format. The file is replaced as a whole,
 * so a collector never sees a part of it. Use one file per guarded path. */
int bw_guard_count(struct bw_guard *guard, const char *metrics_path, char *why);

#endif
