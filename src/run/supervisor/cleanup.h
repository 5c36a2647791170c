/* Kills the work that earlier holders left behind, before the own work starts.
 *
 * Model. A record lists the earlier holders whose work is not confirmed dead (`unconfirmed` in
 * store.h). There are two cases:
 * - The containment exists on this host: its processes are killed until it is empty.
 * - The containment belongs to another boot, host or namespace: it cannot be examined. The elector
 *   has waited until that lease ended, and the token is older. If the user configured fencing
 *   (--stonith, --fence-agent), the holder is fenced; otherwise a warning is logged. A candidate
 *   never fences itself.
 *
 * The lease can end before it expires: on bellwether:// a guardian that has killed the work ends
 * the lease. An operator can end a lease as well, so an early end alone proves nothing. The store
 * omits the work from the list only if it has a death proof (net/death_proof.h). */
#ifndef BW_RUN_SUPERVISOR_CLEANUP_H
#define BW_RUN_SUPERVISOR_CLEANUP_H

#include "run/contain/contain.h"
#include "run/event_log.h"

struct bw_cleanup {
    char unconfirmed[BW_UNCONFIRMED_MAX + BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    const char *at; /* the line being processed */
    bool active;    /* the processes in `contain` are being killed */
    struct bw_contain contain;
    char holder[BW_CANDIDATE_ID_MAX + 1];
    bw_time since, timeout_ns;
    bool fences, fence_now; /* fence holders that cannot be examined from here */
    const char *self;       /* never fenced */
    const struct bw_log *log;
};

enum bw_cleanup_state {
    BW_CLEANUP_BUSY, /* call bw_cleanup_step() again in a millisecond */
    /* fence `holder`, call bw_cleanup_fenced(), then bw_cleanup_step() again */
    BW_CLEANUP_FENCE,
    BW_CLEANUP_DONE,
    BW_CLEANUP_FAILED /* a process does not die; an error was logged */
};

/* Starts a cleanup. `unconfirmed` is copied. A previous holder that did not release ("": none) is
 * added with its containment, unless `unconfirmed` already contains it. */
void bw_cleanup_begin(struct bw_cleanup *cleanup, const char *unconfirmed, const char *previous,
                      const char *containment, bw_time timeout_ns, const struct bw_log *log);
/* From now on, holders that cannot be examined are fenced, except `self`, which is borrowed. */
void bw_cleanup_use_fence(struct bw_cleanup *cleanup, const char *self);
enum bw_cleanup_state bw_cleanup_step(struct bw_cleanup *cleanup, bw_time now);
void bw_cleanup_fenced(struct bw_cleanup *cleanup);

#endif
