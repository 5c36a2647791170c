/* Internal state of the Redis store, shared by its files:
 *
 *   store.c     URL, open, close
 *   election.c  the elections that this store has seen
 *   rounds.c    one request to one or several instances
 *   ops.c       acquire, renew, release, note
 *   watch.c     watches and subscriptions
 *   list.c      candidates
 *   election_names.c  ELECTIONS
 *
 * One instance (or the master that sentinels name) and several instances (Redlock) run the same
 * code. A request takes a few rounds. A round sends one script to every instance and ends when a
 * majority has replied. With one instance, that instance is the majority. */
#ifndef BW_STORE_REDIS_STATE_H
#define BW_STORE_REDIS_STATE_H

#include "store/kit/job.h"
#include "store/redis/link.h"
#include "store/redis/script.h"
#include "store/redis/sentinel.h"
#include "store/redis/settings.h"
#include "store/redis/turn.h"
#include "store/redis/view.h"

#define REDIS_NODES_MAX     BW_URL_HOSTS_MAX
#define REDIS_IDLE_MAX      4096u /* cached elections without a pending request */
#define REDIS_KEY_MAX       (REDIS_PREFIX_MAX + BW_ELECTION_NAME_MAX + 32u)
#define REDIS_WORDS_MAX     20u
#define REDIS_TRIES_MAX     16u
#define REDIS_STRAGGLERS_MS 50u /* Redlock: extra time for the last instances to reply */

struct bw_store;
struct redis_ask;
struct redis_names;

struct redis_election {
    struct bw_store *store;
    struct redis_election *chain;           /* next in the same bucket */
    struct redis_election *next, *previous; /* by last use, oldest first */
    struct redis_ask *watchers;
    unsigned asks; /* requests that refer to this election, watches included */
    bool known;    /* `state` has been read */
    bool reading, read_again;
    uint8_t subscription[REDIS_NODES_MAX]; /* enum redis_subscription */
    bw_token highest; /* highest token seen; a server that lost data must not issue lower ones */
    uint32_t published_states; /* number of states received by pub/sub */
    uint32_t invalidations;    /* number of messages that made `state` unknown */
    uint64_t seen_ms;          /* when `state` was read, on the loop's clock */
    uint64_t due_ms;           /* when to read again while a watch is pending; 0: never */
    struct redis_state state;
    struct redis_turn turn;
    /* The server lost a leadership that we saw. No candidate of this store takes over until that
     * leadership's TTL has expired. */
    uint64_t forgotten_until_ms;
    char forgotten[REDIS_LOCK_MAX + 1];
    uint64_t forgotten_hash;
    char name[BW_ELECTION_NAME_MAX + 1];
};

enum redis_subscription {
    REDIS_SUBSCRIPTION_NONE,
    REDIS_SUBSCRIPTION_PENDING,
    REDIS_SUBSCRIPTION_ACTIVE,
    REDIS_SUBSCRIPTION_DENIED
};

enum redis_outcome { REDIS_OPEN, REDIS_REPLIED, REDIS_UNSENT, REDIS_LOST };

struct redis_vote {
    struct redis_command *command; /* NULL: not sent, or answered */
    enum redis_outcome outcome;
    enum redis_verdict verdict;
    bool denied;               /* not REPLIED: the server denied access */
    struct redis_state *state; /* set if REPLIED; owned by the vote */
};

/* One request in progress, or a read by the store itself (job NULL). */
struct redis_ask {
    struct bw_store *store;
    struct bw_job *job;
    struct redis_election *election;
    struct redis_ask *next, *previous; /* list of all asks of the store */
    struct redis_ask *next_watcher;
    void (*then)(struct redis_ask *ask); /* called at the end of the round */
    const char *op;
    uint32_t published_states, invalidations; /* the election's counters when the round began */
    uint64_t from, to;                        /* n of the record before and after the change */
    bool fresh;                               /* this request has read the state itself */
    bool parked;                              /* a watch that waits for a change */
    bool too_few;                             /* Redlock: too few instances were able to vote */
    unsigned open;                            /* votes still expected */
    unsigned tries;
    uint64_t generation; /* the link's generation when the command was sent */
    bw_time started;     /* on CLOCK_BOOTTIME */
    /* loop time at which the round ends without the late replies; 0: not set */
    uint64_t round_ends_ms;
    unsigned done, held, again, unsent, lost; /* votes of the last round */
    char lock[REDIS_LOCK_MAX + 1];
    struct bw_store_record record; /* the record to write */
    struct redis_names *names;     /* ELECTIONS; otherwise NULL */
    char why[BW_WHY_MAX + 1];
    struct redis_vote vote[REDIS_NODES_MAX];
};

struct redis_node {
    struct redis_link link, subscriber; /* for commands; for subscriptions */
    struct redis_sentinel find_link, find_subscriber;
    bool keyspace; /* the server reports deleted and expired keys */
};

struct redis_entry {
    struct redis_entry *next;
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_candidate candidate;
    uint64_t lifetime_ms;
    uint64_t due_ms;
};

struct bw_store {
    struct bw_jobs jobs;
    uv_loop_t *loop;
    struct redis_settings settings;
    struct redis_tls_context *tls;
    struct redis_node node[REDIS_NODES_MAX];
    unsigned nodes, majority;
    uint64_t nonce; /* random, part of every lock value of this store */
    struct bw_rng rng;
    char digest[REDIS_SCRIPTS][REDIS_DIGEST_SIZE];
    struct redis_election *bucket[1024], *oldest, *newest;
    uint32_t elections;
    struct redis_ask *asks;
    struct redis_entry *entries;
    uint32_t entry_count;
    /* late Redlock replies; next reads for watches; renewal of candidate entries */
    uv_timer_t stragglers, refreshes, renews;
    unsigned handles;
};

/* election.c
 *
 * Returns the election and marks it as most recently used; NULL if memory is exhausted. */
struct redis_election *redis_election_get(struct bw_store *store, const char *name);
void redis_election_key(const struct redis_election *election, char key[REDIS_KEY_MAX]);
void redis_election_side(const struct redis_election *election, char key[REDIS_KEY_MAX]);
void redis_election_candidates(const struct redis_election *election, char key[REDIS_KEY_MAX]);
/* NULL: no request has named this election. */
struct redis_election *redis_election_of_side(struct bw_store *store, const char *key);
void redis_election_set(struct redis_election *election, const struct redis_state *state);
/* True if the lock in `state` is one that the server has lost. */
bool redis_election_lock_is_forgotten(const struct redis_election *election);
void redis_elections_free(struct bw_store *store);

/* rounds.c */
int redis_ask_start(struct bw_store *store, struct bw_job *job);
void redis_ask_forget(struct bw_job *job);
void redis_ask_free(struct redis_ask *ask);
/* Reads the state for the store itself. Only one such read runs at a time; a call during a read
 * causes one more read after it. */
void redis_ask_refresh(struct redis_election *election);
/* Sends operation `op` to every instance, with ask->lock, ask->record and the change of n from
 * `from` to `to`. `then` is called at the end of the round. The ask may be freed before this
 * function returns. */
void redis_ask_round(struct redis_ask *ask, const char *op, uint64_t from, uint64_t to,
                     void (*then)(struct redis_ask *ask));
/* Ends the round if every instance has replied or failed. If the others cannot change how it ends,
 * it ends after REDIS_STRAGGLERS_MS. The ask may be freed before this function returns. */
void redis_ask_check_round(struct redis_ask *ask);
/* Calls `then` after `ms`. */
void redis_ask_pause(struct redis_ask *ask, unsigned ms, void (*then)(struct redis_ask *ask));
/* Merges the states of the last round. Returns false if no majority replied. */
bool redis_ask_merge(const struct redis_ask *ask, struct redis_state *state);
/* Merges the states and stores the result as the election's state. Returns false if no majority
 * replied. */
bool redis_ask_learn(struct redis_ask *ask);
/* These answer the request and free the ask. redis_ask_fail answers UNKNOWN if any instance may
 * have executed the command, otherwise UNAVAILABLE. */
void redis_ask_fail(struct redis_ask *ask);
void redis_ask_done(struct redis_ask *ask);
void redis_ask_refuse(struct redis_ask *ask, int error, const char *why);
/* Sends a script to instance `node`; `whole` sends its text instead of its digest. BW_EIO: not
 * sent. */
int redis_ask_send(struct redis_ask *ask, unsigned node, enum redis_script_name script, bool whole,
                   unsigned count, const char *const *words,
                   void (*answer)(struct redis_command *command, const redisReply *reply,
                                  bool sent));

/* ops.c */
void redis_change_start(struct redis_ask *ask);

/* watch.c */
void redis_watch_start(struct redis_ask *ask);
void redis_watch_stop(struct redis_ask *ask);
/* The election's state changed: answers the watches that wait for a change, in their turn. */
void redis_watch_notify(struct redis_election *election);
/* A connection was lost. If fewer than a majority of instances remain subscribed, all watches fail.
 */
void redis_watch_fail(struct bw_store *store, const char *why);
void redis_watch_up(struct redis_link *subscriber);
void redis_watch_down(struct redis_link *subscriber);
void redis_watch_message(struct redis_link *subscriber, const redisReply *channel,
                         const redisReply *payload);
void redis_watch_ask_keyspace(struct bw_store *store, struct redis_node *node);
void redis_watch_forget(struct redis_election *election);
void redis_watch_refresh(uv_timer_t *timer);

/* list.c */
void redis_list_start(struct redis_ask *ask);
void redis_list_free(struct bw_store *store);
void redis_list_renew(uv_timer_t *timer);

/* election_names.c */
void redis_names_start(struct redis_ask *ask);
void redis_names_free(struct redis_names *names);

#endif
