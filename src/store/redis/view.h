/* The state of an election on one Redis instance, the merged state of several instances, and the
 * record that readers see. Pure, except that it parses hiredis' replies.
 *
 * Keys of an election, with K = prefix + name:
 *
 *   K                   string: the lock, as any SET NX PX client stores it. Our value is
 *                       "ID:REQUEST:NONCE"; REQUEST and NONCE have 16 hex digits each, and each
 *                       open store has its own NONCE
 *   {K}/bellwether      hash: n, token, lock (our last lock), record, note (JSON); also the name of
 *                       the channel on which scripts publish each new state
 *   {K}/candidates      hash: id -> "SERIAL UNTIL JSON"
 *
 * The hash {K}/bellwether is called the side record.
 *
 *   - A lock that differs from the side record's lock belongs to a foreign client.
 *   - If the side record says held and the lock is missing, the lease has expired. */
#ifndef BW_STORE_REDIS_VIEW_H
#define BW_STORE_REDIS_VIEW_H

#include "store/store.h"

#include <hiredis/hiredis.h>

#define REDIS_LOCK_MAX 127u /* ours are shorter; longer values of foreign clients are truncated */

enum redis_verdict { REDIS_DONE, REDIS_HELD, REDIS_AGAIN, REDIS_READ };

struct redis_state {
    bool locked, endless; /* endless: the lock has no expiry */
    bool uncertain;       /* Redlock: held only if instances that did not reply have the lock too */
    char lock[REDIS_LOCK_MAX + 1];
    uint64_t lock_hash; /* hash of the whole value, which `lock` may truncate */
    bw_time left_ns;
    uint64_t n;
    bw_token token;
    char owner[REDIS_LOCK_MAX + 1]; /* the lock of the leadership that `kept` describes */
    struct bw_store_record kept;    /* the side record, with the note */
    /* the last foreign holder seen; not stored in Redis */
    char foreign_holder[BW_CANDIDATE_ID_MAX + 1];
};

/* The next candidate in the queue. A release publishes it, so that it acquires first (turn.h). */
struct redis_next {
    char candidate[BW_CANDIDATE_ID_MAX + 1]; /* "": no candidate waits */
    /* how many earlier releases in a row named it without effect; at most REDIS_MISSED_MOST */
    unsigned missed;
};

/* Returns BW_EMALFORMED if the reply or the side record in it has an unexpected form. */
int redis_state_parse(const redisReply *reply, struct redis_state *state,
                      enum redis_verdict *verdict);
/* Parses the state that a script published. It also names the next candidate. */
int redis_state_parse_published(const char *text, size_t length, struct redis_state *state,
                                struct redis_next *next);

/* Merges `count` of `total` instances' states (count >= majority).
 *
 * The result is locked if a majority has the same lock, or could have it counting the instances
 * that did not reply. It is free only if no client can hold a majority. So a leader stays
 * recognised when instances that granted its majority become unreachable. The result also has the
 * time that is left and the newest side record. */
void redis_state_merge(struct redis_state *out, const struct redis_state *const *states,
                       unsigned count, unsigned total);

/* Remembers the name of a foreign holder after its lock is gone: copies it from `before`, until one
 * of our candidates has taken over. A foreign client writes no side record. */
void redis_state_follow(struct redis_state *state, const struct redis_state *before);

/* Converts the state to the record that readers see. */
void redis_state_present(const struct redis_state *state, struct bw_store_record *record);
/* True if the lock was taken by this candidate through this store (nonce). */
bool redis_lock_is(const struct redis_state *state, const char *candidate, uint64_t nonce);
/* True if any candidate of this store took the lock. */
bool redis_lock_is_ours(const char *lock, uint64_t nonce);
void redis_lock_value(char lock[REDIS_LOCK_MAX + 1], const char *candidate, uint64_t request,
                      uint64_t nonce);
/* Computes the side record after the request's candidate has taken a free lock. */
void redis_state_take(const struct redis_state *state, const struct bw_store_request *request,
                      struct bw_store_record *record);

#endif
