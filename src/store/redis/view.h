/* What one Redis instance says about an election, what several together mean, and the record that
 * readers see. Pure but for parsing hiredis' replies.
 *
 * Keys of an election, K = prefix + name:
 *   K                   string: the lock, as any SET NX PX client has it. Ours: "ID:REQUEST:NONCE",
 *                       16 hex digits each; NONCE is one open store's
 *   {K}/bellwether      hash: n, token, lock (the last of ours), record, note (JSON); also the
 *                       channel on which each new state is published
 *   {K}/candidates      hash: id -> "SERIAL UNTIL JSON"
 *
 * A lock that the side record does not know is a stranger's. A lock that is gone while the record
 * says held has lapsed. */
#ifndef BW_STORE_REDIS_STATE_H
#define BW_STORE_REDIS_STATE_H

#include "store/store.h"

#include <hiredis/hiredis.h>

#define REDIS_LOCK_MAX 127u /* ours are shorter; a longer one is a stranger's and is cut */

enum redis_verdict { REDIS_DONE, REDIS_HELD, REDIS_AGAIN, REDIS_READ };

struct redis_state {
    bool locked, endless; /* endless: the lock has no expiry */
    bool in_doubt;        /* several: locked only if instances that did not answer have it too */
    char lock[REDIS_LOCK_MAX + 1];
    uint64_t lock_hash; /* of all of it */
    bw_time left_ns;
    uint64_t n;
    bw_token token;
    char owner[REDIS_LOCK_MAX + 1];         /* the lock of the leadership that `kept` speaks of */
    struct bw_store_record kept;            /* as the side record has it; with the note */
    char stranger[BW_CANDIDATE_ID_MAX + 1]; /* remembered by us: the last foreign holder seen */
};

/* Who is next in line, as a release names it. */
struct redis_next {
    char candidate[BW_CANDIDATE_ID_MAX + 1]; /* "": nobody waits */
    unsigned missed; /* how many releases before this one named it in vain: REDIS_MISSED_MOST */
};

/* BW_EMALFORMED: not such a reply, or a side record that is none. */
int redis_state_parse(const redisReply *reply, struct redis_state *state,
                      enum redis_verdict *verdict);
/* The same as the script publishes it, with whose turn it is. */
int redis_state_parse_told(const char *text, size_t length, struct redis_state *state,
                           struct redis_next *next);

/* Of `count` states of `total` instances (count >= majority): whose lock a majority has or,
 * counting those who did not answer, may have; until when; and the newest record. Free means that
 * nobody can hold it: a leader that got its majority with the help of an instance that is away
 * since leads. */
void redis_state_merge(struct redis_state *out, const struct redis_state *const *states,
                       unsigned count, unsigned total);

/* `state` follows `before`: who was seen leading without a side record stays known until one of
 * ours has taken over. */
void redis_state_follow(struct redis_state *state, const struct redis_state *before);

/* What readers see. */
void redis_state_present(const struct redis_state *state, struct bw_store_record *record);
/* Is the lock one of this store (nonce) and candidate? */
bool redis_lock_is(const struct redis_state *state, const char *candidate, uint64_t nonce);
/* Any candidate's of this store? */
bool redis_lock_is_of(const char *lock, uint64_t nonce);
void redis_lock_value(char lock[REDIS_LOCK_MAX + 1], const char *candidate, uint64_t request,
                      uint64_t nonce);
/* The side record after the request's candidate took a free lock. */
void redis_state_take(const struct redis_state *state, const struct bw_store_request *request,
                      struct bw_store_record *record);

#endif
