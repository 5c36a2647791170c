/* The Lua scripts that Redis runs for us, and their digests for EVALSHA. Redis runs each script
 * atomically.
 *
 *   record      KEYS: lock, side record, candidates
 *               ARGV: operation, lock value, TTL in ms, expected n, next n, record, note,
 *                     lowest token, releasing candidate, candidate to prefer
 *               Returns REDIS_STATE_PARTS parts: a verdict (done, held, again, read) and the state.
 *   candidates  KEYS: candidates
 *               ARGV: operation, id, lifetime in ms, text, owner
 *   names       KEYS: none
 *               ARGV: cursor, pattern, keys per page, prefix
 *               Returns the next cursor and the keys of the page that belong to an election. */
#ifndef BW_STORE_REDIS_SCRIPT_H
#define BW_STORE_REDIS_SCRIPT_H

#include <stddef.h>

enum redis_script_name {
    REDIS_SCRIPT_RECORD,
    REDIS_SCRIPT_CANDIDATES,
    REDIS_SCRIPT_NAMES,
    REDIS_SCRIPTS
};

#define REDIS_STATE_PARTS 8u
#define REDIS_DIGEST_SIZE 41u
/* missed turns in a row; then the candidate moves to the end of the queue */
#define REDIS_MISSED_MOST 3u

const char *redis_script_text(enum redis_script_name name);
/* Writes the script's SHA-1 digest in hex. */
void redis_script_digest(enum redis_script_name name, char digest[REDIS_DIGEST_SIZE]);

#endif
