/* The Redis store's insides, shared by its files: store.c (URL, opening, closing), ask.c (one
 * request over one or several instances), ops.c (what it changes), watch.c (news)
 * and list.c (candidates).
 *
 * One instance (or the master that sentinels name) and several (Redlock) are the same machine: a
 * request is a few rounds, each puts one script to every instance and ends when a majority has
 * answered. With one instance the majority is that one. */
#ifndef BW_STORE_REDIS_STORE_H
#define BW_STORE_REDIS_STORE_H

#include "store/kit/job.h"
#include "store/redis/link.h"
#include "store/redis/script.h"
#include "store/redis/sentinel.h"
#include "store/redis/settings.h"
#include "store/redis/turn.h"
#include "store/redis/view.h"

#define REDIS_NODES_MAX     BW_URL_HOSTS_MAX
#define REDIS_IDLE_MAX      4096u /* elections whose state is kept though nobody asks for them */
#define REDIS_KEY_MAX       (REDIS_PREFIX_MAX + BW_ELECTION_NAME_MAX + 32u)
#define REDIS_WORDS_MAX     20u
#define REDIS_TRIES_MAX     16u
#define REDIS_STRAGGLERS_MS 50u /* Redlock: how long is waited for the last of the instances */

struct bw_store;
struct redis_ask;

struct redis_election {
    struct bw_store *store;
    struct redis_election *chain;           /* same bucket */
    struct redis_election *next, *previous; /* by last use, the oldest first */
    struct redis_ask *watchers;
    unsigned asks; /* that refer to it, watchers too */
    bool known;    /* `state` has been read */
    bool reading, read_again;
    uint8_t heard[REDIS_NODES_MAX]; /* enum redis_hearing */
    bw_token highest;               /* token ever seen: a server that forgot does not count back */
    uint32_t told;                  /* how often `state` came by a message */
    uint32_t doubts;                /* how often a message made `state` unknown */
    uint64_t seen_ms;               /* when `state` was so, on the loop's clock */
    uint64_t due_ms;                /* when to look again, while somebody watches; 0: never */
    struct redis_state state;
    struct redis_turn turn;
    /* The server forgot a leadership we saw: nobody here takes over before it must be over. */
    uint64_t forgotten_until_ms;
    char forgotten[REDIS_LOCK_MAX + 1];
    uint64_t forgotten_hash;
    char name[BW_ELECTION_NAME_MAX + 1];
};

enum redis_hearing { REDIS_DEAF, REDIS_ASKED, REDIS_HEARS, REDIS_DENIED };

enum redis_outcome { REDIS_OPEN, REDIS_REPLIED, REDIS_UNSENT, REDIS_LOST };

struct redis_vote {
    struct redis_command *command; /* NULL: not asked, or answered */
    enum redis_outcome outcome;
    enum redis_verdict verdict;
    bool denied;               /* not REPLIED: it does not let us */
    struct redis_state *state; /* REPLIED; owned */
};

/* One request, or a look of our own (job NULL), while it is under way. */
struct redis_ask {
    struct bw_store *store;
    struct bw_job *job;
    struct redis_election *election;
    struct redis_ask *next, *previous; /* all asks of the store */
    struct redis_ask *next_watcher;
    void (*then)(struct redis_ask *ask); /* the round is over */
    const char *op;
    uint32_t told, doubts; /* the election's, when the round began */
    uint64_t from, to;     /* n of the record that is changed, and after it */
    bool fresh;            /* this request has seen the state itself */
    bool parked;           /* a watch that waits for news */
    bool too_few;          /* Redlock: instances were there to vote */
    unsigned open;         /* votes still expected */
    unsigned tries;
    uint64_t generation; /* of the link when the write was sent */
    bw_time started;     /* on CLOCK_BOOTTIME */
    uint64_t linger_ms;  /* loop time after which stragglers are not awaited; 0: not decided */
    unsigned done, held, again, unsent, lost; /* votes of the last round */
    char lock[REDIS_LOCK_MAX + 1];
    struct bw_store_record record; /* what it would write */
    char why[BW_WHY_MAX + 1];
    struct redis_vote vote[REDIS_NODES_MAX];
};

struct redis_node {
    struct redis_link link, ear; /* commands; subscriptions */
    struct redis_sentinel find_link, find_ear;
    bool keyspace; /* its server tells of deleted and expired keys */
};

struct redis_entry {
    struct redis_entry *next;
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_candidate candidate;
    uint64_t life_ms;
    uint64_t due_ms;
};

struct bw_store {
    struct bw_jobs jobs;
    uv_loop_t *loop;
    struct redis_settings settings;
    struct redis_tls_context *tls;
    struct redis_node node[REDIS_NODES_MAX];
    unsigned nodes, majority;
    uint64_t nonce; /* ours, in every lock we take */
    struct bw_rng rng;
    char digest[REDIS_SCRIPTS][REDIS_DIGEST_SIZE];
    struct redis_election *bucket[1024], *oldest, *newest;
    uint32_t elections;
    struct redis_ask *asks;
    struct redis_entry *entries;
    uint32_t entry_count;
    uv_timer_t stragglers, looks, renews; /* Redlock's last answers; due looks; candidates */
    unsigned handles;
};

/* election.c. Get: NULL without memory; it is the newest then. */
struct redis_election *redis_election_get(struct bw_store *store, const char *name);
void redis_election_key(const struct redis_election *election, char key[REDIS_KEY_MAX]);
void redis_election_side(const struct redis_election *election, char key[REDIS_KEY_MAX]);
void redis_election_candidates(const struct redis_election *election, char key[REDIS_KEY_MAX]);
/* NULL: nobody has asked for it. */
struct redis_election *redis_election_of_side(struct bw_store *store, const char *key);
void redis_election_set(struct redis_election *election, const struct redis_state *state);
/* The lock in its state is one that the server forgot. */
bool redis_election_mourns(const struct redis_election *election);
void redis_elections_free(struct bw_store *store);

/* ask.c */
int redis_ask_start(struct bw_store *store, struct bw_job *job);
void redis_ask_forget(struct bw_job *job);
void redis_ask_free(struct redis_ask *ask);
/* Reads the state without a request; one at a time, once more if asked meanwhile. */
void redis_ask_look(struct redis_election *election);
/* Puts operation `op`, with ask->lock, ask->record and the change from one n to another, to every
 * instance. `then` is called when the round is over; the ask may be gone after this returns. */
void redis_ask_round(struct redis_ask *ask, const char *op, uint64_t from, uint64_t to,
                     void (*then)(struct redis_ask *ask));
/* Goes on after a while. */
void redis_ask_pause(struct redis_ask *ask, unsigned ms, void (*then)(struct redis_ask *ask));
/* The merged states of the last round; false: no majority answered. */
bool redis_ask_merge(const struct redis_ask *ask, struct redis_state *state);
/* And they are the election's now. */
bool redis_ask_learn(struct redis_ask *ask);
/* The answers; each frees the ask. Fail: UNKNOWN if any instance may have done it, else
 * UNAVAILABLE. */
void redis_ask_fail(struct redis_ask *ask);
void redis_ask_done(struct redis_ask *ask);
void redis_ask_refuse(struct redis_ask *ask, int error, const char *why);
/* A command for instance ask->vote[node]; `whole` sends the script's text. BW_EIO: not sent. */
int redis_ask_send(struct redis_ask *ask, unsigned node, enum redis_script_name script, bool whole,
                   unsigned count, const char *const *words,
                   void (*answer)(struct redis_command *command, const redisReply *reply,
                                  bool sent));

/* ops.c */
void redis_change_start(struct redis_ask *ask);

/* watch.c */
void redis_watch_start(struct redis_ask *ask);
void redis_watch_stop(struct redis_ask *ask);
/* The election's state is news: whoever waits for it is told, in turn. */
void redis_watch_news(struct redis_election *election);
/* A connection was lost: if too few are left to hear of a change, who waits is told so. */
void redis_watch_fail(struct bw_store *store, const char *why);
void redis_watch_up(struct redis_link *ear);
void redis_watch_down(struct redis_link *ear);
void redis_watch_message(struct redis_link *ear, const redisReply *channel,
                         const redisReply *payload);
void redis_watch_ask_keyspace(struct bw_store *store, struct redis_node *node);
void redis_watch_forget(struct redis_election *election);
void redis_watch_looks(uv_timer_t *timer);

/* list.c */
void redis_list_start(struct redis_ask *ask);
void redis_list_free(struct bw_store *store);
void redis_list_renew(uv_timer_t *timer);

#endif
