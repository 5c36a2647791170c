/* The Lua scripts that Redis runs for us, each atomically, and their digests for EVALSHA.
 *
 * `record`: KEYS lock, side, candidates; ARGV operation, lock value, TTL in ms, expected n, next n,
 * record, note, floor, who lets go, whom it named. Answers REDIS_STATE_PARTS parts: a verdict
 * (done, held, again, read) and the state. `candidates`: KEYS candidates; ARGV operation, id, life
 * in ms, text. */
#ifndef BW_STORE_REDIS_SCRIPT_H
#define BW_STORE_REDIS_SCRIPT_H

#include <stddef.h>

enum redis_script_name { REDIS_SCRIPT_RECORD, REDIS_SCRIPT_CANDIDATES, REDIS_SCRIPTS };

#define REDIS_STATE_PARTS 8u
#define REDIS_DIGEST_SIZE 41u
#define REDIS_MISSED_MOST 3u /* turns missed in a row: at the next miss it goes to the end */

const char *redis_script_text(enum redis_script_name name);
/* Its SHA-1 in hex. */
void redis_script_digest(enum redis_script_name name, char digest[REDIS_DIGEST_SIZE]);

#endif
