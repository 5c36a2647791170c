/* A guard inside the user's own SQLite database: the register is a row, checked and raised in the
 * very transaction that writes, so that both happen or neither.
 *
 * bw_guard_sqlite serves programs in C; the SQL of bw_guard_sqlite_print does the same by triggers
 * for writers in any language. Both use the same row. */
#ifndef BW_FENCE_GUARD_SQLITE_H
#define BW_FENCE_GUARD_SQLITE_H

#include "fence/guard.h"

#include <stdio.h>

struct sqlite3;

/* Creates the register's table if it is not there. */
int bw_guard_sqlite_create(struct sqlite3 *db, char *why);

/* To be called inside the transaction that writes, before its writes; takes the write lock. 0; on
 * any error the caller rolls back: BW_ENOTOKEN; BW_ESTALE with both tokens in `why` and `verdict`
 * (may be NULL); BW_ELIMIT: a token above 2^63-1, which SQLite cannot hold; BW_EINVAL: no
 * transaction is open; BW_EBUSY: the database is locked by another; BW_EIO. */
int bw_guard_sqlite(struct sqlite3 *db, const char *resource, bw_token token,
                    struct bw_guard_verdict *verdict, char *why);

/* Prints the SQL of the register's table and, if `table` is not NULL, of triggers that check the
 * token in `column` of every row written to it; the resource is the table's name. BW_EINVAL when a
 * name is empty, too long or not printable. */
int bw_guard_sqlite_print(FILE *out, const char *table, const char *column);

#endif
