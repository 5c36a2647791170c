/* A guard inside the user's own SQLite database. The register is a row. It is checked and raised in
 * the same transaction as the guarded write, so both take effect or neither.
 *
 * bw_guard_sqlite is for C programs. The SQL of bw_guard_sqlite_print does the same with triggers,
 * for writers in any language. Both use the same row. */
#ifndef BW_FENCE_GUARD_SQLITE_H
#define BW_FENCE_GUARD_SQLITE_H

#include "fence/guard.h"

#include <stdio.h>

struct sqlite3;

/* Creates the register's table if it does not exist. */
int bw_guard_sqlite_create(struct sqlite3 *db, char *why);

/* Call inside the transaction that writes, before its writes; takes the write lock. Returns 0 or an
 * error, after which the caller rolls back:
 *
 *   BW_ENOTOKEN  the token is 0
 *   BW_ESTALE    the token is older; both tokens are in `why` and `verdict` (may be NULL)
 *   BW_ELIMIT    the token is above 2^63-1, SQLite's largest integer
 *   BW_EINVAL    no transaction is open
 *   BW_EBUSY     another connection has locked the database
 *   BW_EIO, BW_EDENIED, BW_EDAMAGED */
int bw_guard_sqlite(struct sqlite3 *db, const char *resource, bw_token token,
                    struct bw_guard_verdict *verdict, char *why);

/* Prints the SQL of the register's table. If `table` is not NULL, also prints triggers that check
 * the token in `column` of every written row; the resource is the table's name. Returns BW_EINVAL
 * if a name is empty, too long or not printable. */
int bw_guard_sqlite_print(FILE *out, const char *table, const char *column);

#endif
