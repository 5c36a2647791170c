/* Drain: an operator takes a host out of all elections (`bellwether drain`), for maintenance.
 *
 * A directory of the host holds two files:
 *   drained      exists while the host is drained; one JSON line: time, user, reason
 *   candidates   always empty. A process that contends or leads holds a read lock on the byte whose
 *                offset is its process id.
 *
 * A candidate looks for `drained` once per BW_DRAIN_POLL_NS. When the file appears, the candidate
 * steps down as after `resign`. It removes its lock when it neither contends nor leads.
 *
 * Guarantee: if `drained` exists and no byte of `candidates` is locked, no process of this host
 * that uses this directory leads or will contend. A candidate takes the lock before it looks for
 * `drained`; the command creates `drained` before it looks at the locks.
 *
 * Limits: a candidate that cannot open `candidates` (missing, no permission) still obeys `drained`,
 * but the command cannot see it. Containers need the directory of the host as a volume. */
#ifndef BW_RUN_DRAIN_DRAIN_H
#define BW_RUN_DRAIN_DRAIN_H

#include "core/base/types.h"

#include <stddef.h>
#include <sys/types.h>

#define BW_DRAIN_DIR            "/var/lib/bellwether/drain"
#define BW_DRAIN_POLL_NS        BW_SEC
#define BW_DRAIN_WHY            512u
#define BW_DRAIN_CANDIDATES_MAX 1024u /* that the command lists; more are not counted */
#define BW_DRAIN_LINE           1024u /* maximum length of `drained`, in bytes */

/* A candidate's side. */
struct bw_drain {
    const char *directory; /* borrowed */
    int fd;                /* `candidates`; -1: not locked */
    bool locked;
    bool drained; /* as last seen */
    int error;    /* why the last look could not see whether `drained` exists; 0: it could */
};

void bw_drain_init(struct bw_drain *drain, const char *directory);
/* Takes the lock, if the file can be opened. A later call tries again, and takes the lock of the
 * current file if `candidates` was replaced. */
void bw_drain_lock(struct bw_drain *drain);
void bw_drain_unlock(struct bw_drain *drain);
/* Looks for `drained` and returns whether it exists. If that is unknown (EIO, EACCES), the last
 * known state counts. */
bool bw_drain_look(struct bw_drain *drain);
/* The look of a candidate that contends if the host is not drained: takes the lock first, except
 * while the host stays drained. */
bool bw_drain_watch(struct bw_drain *drain);
void bw_drain_deinit(struct bw_drain *drain);

/* The operator's side. Each returns 0 or a negative errno, with a line in why[BW_DRAIN_WHY]. */

/* Drains the host: creates the directory if it is missing, and writes `drained`, unless the host is
 * drained already. *unseen_ns: `candidates` is new, so for this long candidates may not have taken
 * their locks yet; 0: all have. */
int bw_drain_set(const char *directory, const char *by, const char *reason, bw_time *unseen_ns,
                 char *why);
int bw_drain_clear(const char *directory, char *why);
/* Reads `drained` into line[BW_DRAIN_LINE]. Returns 1 if the host is drained, 0 if not. */
int bw_drain_read(const char *directory, char *line, char *why);
/* Writes the process ids of candidates that contend or lead. Returns their number. */
int bw_drain_candidates(const char *directory, pid_t out[BW_DRAIN_CANDIDATES_MAX], char *why);

#endif
