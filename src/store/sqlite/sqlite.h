/* The embedded store `sqlite:PATH`: what its users need beside store.h.
 *
 * A process that forks must not touch the store in the child: SQLite's own bookkeeping of file
 * locks does not survive a fork. The two release functions below are for exactly that child, the
 * guardian: they use no SQLite, no heap and no thread, and take a few microseconds. */
#ifndef BW_STORE_SQLITE_H
#define BW_STORE_SQLITE_H

#include "store/store.h"

extern const struct bw_store_ops bw_store_sqlite;

/* The file descriptor whose lock says that this process (or its guardian, which inherits it over
 * fork; it is close-on-exec) still looks after the work of an election it holds. -1: not held here.
 * The lock is free when the last copy is closed. It stays the store's: do not close it here. A
 * store closed without a release leaves it open until the process ends, because the work may still
 * run. */
int bw_store_sqlite_lock_fd(struct bw_store *store, const char *election);

/* In the guardian, after the work's containment is empty: this leadership is released, clean.
 * Waiting candidates are told at once. `path` is the store's URL or path. Returns 0; BW_ESTALE when
 * a newer leadership is known already; BW_EINVAL; BW_EIO when the lock file cannot be written: then
 * nothing is lost, the successor waits until the guardian is gone or for one TTL. */
int bw_store_sqlite_release(const char *path, const char *election, bw_token token);

/* The same with the inherited descriptor instead of names: works after chdir, chroot and unmount.
 */
int bw_store_sqlite_release_fd(int lock_fd, bw_token token);

#endif
