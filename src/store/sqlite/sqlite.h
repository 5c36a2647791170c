/* The embedded store `sqlite:PATH`: what its users need in addition to store.h.
 *
 * A child process must not use the store after fork: SQLite's bookkeeping of file locks does not
 * survive a fork. The two release functions below are for such a child, the guardian. They use no
 * SQLite, no heap and no thread, and take a few microseconds. */
#ifndef BW_STORE_SQLITE_SQLITE_H
#define BW_STORE_SQLITE_SQLITE_H

#include "store/store.h"

extern const struct bw_store_ops bw_store_sqlite;

/* Returns the descriptor whose lock shows that this process, or its guardian, still supervises the
 * work of an election it holds. -1: not held here. The guardian inherits the descriptor through
 * fork; it is close-on-exec.
 * - The lock is free when the last copy is closed.
 * - The store owns the descriptor: do not close it.
 * - If the store is closed without a release, the descriptor stays open until the process exits,
 *   because the work may still run. */
int bw_store_sqlite_lock_fd(struct bw_store *store, const char *election);

/* Releases a leadership as clean. For the guardian, after the work's containment is empty. Waiting
 * candidates are notified immediately. `path` is the store's URL or path.
 *
 * Returns:
 * - 0: released
 * - BW_ESTALE: a newer leadership exists
 * - BW_EINVAL: invalid election or token
 * - BW_EIO: the lock file cannot be written; a successor then waits for the guardian's exit or for
 *   one TTL */
int bw_store_sqlite_release(const char *path, const char *election, bw_token token);

/* Like bw_store_sqlite_release, but with the inherited descriptor instead of names. Works after
 * chdir, chroot and unmount. */
int bw_store_sqlite_release_fd(int lock_fd, bw_token token);

#endif
