/* The interface of every lease store: SQLite, etcd, ZooKeeper, Redis, PostgreSQL, Kubernetes,
 * Azure, DynamoDB, peers.
 *
 * A store keeps, for each election:
 *   - one record: the holder, its token, its lease, and which earlier work may still run
 *   - the candidates, as a queue or as a set, if the store can keep them (traits QUEUE, LISTS)
 *   - one note: the latest request to the holder or to a candidate (trait NOTES)
 * A candidate never removes another candidate's record. It writes a note (`resign`, `transfer`).
 *
 * Model. All calls and callbacks run on the thread of the caller's libuv loop. Servers and networks
 * lose, delay and repeat messages. The store never compares a clock with one that another machine
 * set.
 *
 * What an implementation must guarantee:
 *   - It never blocks the loop.
 *   - It never calls back from within a call of the caller.
 *   - It answers each accepted request exactly once, unless the caller cancels the request or
 *     closes the store.
 *   - It reports DONE, REFUSED and UNAVAILABLE only if it is certain (enum bw_outcome).
 *   - At most one candidate holds the record at a time. Exception: peers without a quorum may have
 *     two in a partition. `summary` states the limits of each store.
 *   - Each change of the record changes its version. With the trait OBSERVED, so does each renewal.
 *   - With the trait TOKEN, the token of a leadership is higher than every earlier one.
 *
 * What the caller must do:
 *   - After UNKNOWN, read the record before acting. If record.request is the id of its own ACQUIRE,
 *     that ACQUIRE succeeded. With the trait LEASE_APART, send RENEW before relying on the lease.
 *   - With the trait OBSERVED, judge expiry itself: if the version does not change for the holder's
 *     TTL (plus the clock drift) on the caller's own clock, the lease has expired. The store only
 *     reports and compares versions.
 *
 * Source: Gray and Cheriton, "Leases", SOSP 1989. */
#ifndef BW_STORE_STORE_H
#define BW_STORE_STORE_H

#include "core/lease/record.h"

/* Death notice: a datagram with which a leader's guardian informs one peer that the leader's work
 * is dead (run/guardian/death_notice.h). The store prepares and seals it in advance. */
#define BW_DEATH_NOTICE_BYTES 256u /* a sealed frame with a few numbers */
/* maximum number of receivers; further peers wait until the lease expires */
#define BW_DEATH_NOTICES_MAX 1024u

struct bw_death_notice {
    uint16_t to_length, length;
    unsigned char to[28]; /* a struct sockaddr_in or sockaddr_in6 */
    unsigned char bytes[BW_DEATH_NOTICE_BYTES];
};

struct bw_death_notices {
    /* valid until the next call of the store; the caller must not free it */
    const struct bw_death_notice *rows;
    uint32_t count;
    int socket; /* the socket to send them from; the store owns it */
};

/* A counter of the store, for monitoring. Texts are static. Rows with the same name are adjacent;
 * each has its own reason. */
#define BW_STORE_COUNTS_MAX 24u

struct bw_store_count {
    const char *name, *help; /* as in Prometheus, without a prefix */
    /* label `reason` of the metric; NULL: no label, the only row with this name */
    const char *reason;
    uint64_t value;
};

/* A member of the cluster that a store of peers consists of, for display. */
#define BW_STORE_MEMBER_TEXT 127u

struct bw_store_member {
    uint64_t id;
    char name[BW_CANDIDATE_ID_MAX + 1], address[BW_STORE_MEMBER_TEXT + 1];
    const char *status; /* static: what this process thinks of it, "alive", "suspected", ... */
    bool is_self, is_voter;
    double level;          /* the failure detector's level of suspicion */
    bw_time status_for_ns; /* NEVER: unknown */
    /* Its own view of the election, from its answer to our question. */
    bool has_view, leading, busy;
    char leader[BW_CANDIDATE_ID_MAX + 1]; /* "": it sees none */
    char state[32];                       /* of its algorithm */
    uint64_t term, token;
    bw_time left_ns, view_age_ns; /* left: while it leads; NEVER: no limit */
};

struct bw_store;
struct uv_loop_s;

/* Callbacks of a store. All run from the loop; all but `reply` are optional. */
struct bw_store_options {
    void *context;
    /* The caller only reads (READ, WATCH, LIST, ELECTIONS). A store that is a file then needs no
     * write permission. */
    bool reads_only;
    void (*reply)(void *context, const struct bw_store_reply *reply);
    /* Something happened that the operator must know: an event name and a line. "split-seen": two
     * candidates led at the same time. "split-brain": the same, and this process must recover. */
    void (*event)(void *context, const char *event, const char *line);
    /* The store has stopped working until it is opened again. The line gives the cause and what to
     * do. The caller should still send RELEASE. */
    void (*ended)(void *context, int error, const char *line);
    /* The death notices of this election have changed: call `death_notices` again. */
    void (*notices_changed)(void *context, const char *election);
};

struct bw_store_ops {
    const char *scheme;
    unsigned traits;                 /* enum bw_store_trait */
    bw_time ttl_min_ns, ttl_unit_ns; /* shortest lease and its granularity */
    bw_time ttl_max_ns;              /* longest lease; 0: the store sets no limit */
    const char *summary;             /* one line for the user: guarantees and limits */
    /* Opens a store. Returns 0 and *out, or an error and a line in why[BW_WHY_MAX + 1]. The store
     * may still be connecting when the call returns: requests are then UNAVAILABLE. */
    int (*open)(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                const struct bw_store_options *options, char *why);
    /* Returns 0 (a reply follows) or BW_EINVAL / BW_ELIMIT (no reply follows). */
    int (*request)(struct bw_store *store, const struct bw_store_request *request);
    /* Cancels a request: no reply follows, but the request may still take effect. */
    void (*cancel)(struct bw_store *store, uint64_t id);
    /* Closes the store: no reply follows. */
    void (*close)(struct bw_store *store);

    /* ---- optional, for `bellwether store` ---- */

    /* One line for the user: which clock decides when a lease expires. NULL: the default text for
     * the trait OBSERVED. */
    const char *clock;
    /* Writes a line into about[BW_WHY_MAX + 1]: what the server reported while connecting (name,
     * version, relevant settings). Sends nothing. Returns false if nothing was reported yet. */
    bool (*about)(struct bw_store *store, char *about);
    /* Returns the statements with which an operator can create the store's tables or keys by hand.
     * The caller frees the text. Returns NULL with a line in `why` if it cannot. */
    char *(*schema)(const char *url, char *why);

    /* ---- optional, for `bellwether run` ---- */

    /* Returns a descriptor that protects the lease of an election we hold. The guardian gets a
     * copy. While any process has it open, the work counts as supervised.
     *   - A file: its lock is free once all copies are closed (sqlite.h).
     *   - A socket: the lease is bound to this connection. A clean close with `proof` ends the
     *     lease (run/guardian/clean_close.h).
     * The caller calls this when a leadership begins and with every renewal. Returns -1 if the
     * store has no such descriptor. The store owns the descriptor. */
    int (*hold)(struct bw_store *store, const char *election, unsigned char proof[BW_HOLD_PROOF]);

    /* Returns the death notices for our current leadership. The guardian sends them if this process
     * dies, after it has killed the work. The caller asks for them when the leadership begins, with
     * every renewal, and when the store calls `notices_changed`. Returns false if there are
     * none. */
    bool (*death_notices)(struct bw_store *store, const char *election,
                          struct bw_death_notices *out);

    /* Writes the store's counters. Returns how many. */
    uint32_t (*counts)(struct bw_store *store, struct bw_store_count out[BW_STORE_COUNTS_MAX]);

    /* Writes the members of the election's cluster, at most `cap`, and asks each for its view; a
     * later call returns the answers. Call it at most once a second. Returns their total number. */
    uint32_t (*members)(struct bw_store *store, const char *election, struct bw_store_member *out,
                        uint32_t cap);
};

/* Finds the store of a URL by its scheme ("sqlite:..."); a path without a scheme means sqlite.
 * Returns NULL, with a line in `why` that lists the known schemes, if there is none. */
const struct bw_store_ops *bw_store_find(const char *url, char *why);

/* A scheme that the program knows. Its module may be missing: see bw_store_presence. */
struct bw_store_about {
    const char *scheme;
    const char *module; /* NULL: part of the program */
    const char *form;   /* form of its URLs, for the user */
    /* Debian 12 packages of the client libraries, beyond those that all our programs need; NULL:
     * none. */
    const char *builds_with, *runs_with;
};

enum bw_store_presence {
    BW_STORE_HERE,         /* can be used */
    BW_STORE_NOT_BUILT,    /* no module: built without the client library */
    BW_STORE_NOT_LOADABLE, /* the module exists, but a library it needs is missing */
    BW_STORE_OTHER_VERSION /* the module belongs to another version of the program */
};

/* All known schemes, the default first. An entry without a scheme ends the list. */
const struct bw_store_about *bw_store_known(void);
/* Can this store be used here? If not, the line in why[BW_WHY_MAX + 1] gives the cause. */
enum bw_store_presence bw_store_presence(const struct bw_store_about *about, char *why);

/* Maximum number of names that ELECTIONS returns. */
#define BW_STORE_NAMES_MAX 10000u

/* For implementations: writes one line into why[BW_WHY_MAX + 1], truncated if it is too long.
 * Returns `error`. */
int bw_store_explain(char *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The default TTL: 10 s, or the store's limit if that is longer than 10 s (minimum) or shorter
 * (maximum). NULL: the store is not known yet. */
bw_time bw_store_ttl_default(const struct bw_store_ops *ops);

/* Checks a TTL against the store's limits. Returns 0, or BW_EINVAL and a line in
 * why[BW_WHY_MAX + 1]. */
int bw_store_ttl_check(const struct bw_store_ops *ops, bw_time ttl_ns, char *why);

/* For implementations: checks names, lengths and TTL (at least ttl_min_ns) of a request. Returns 0
 * or BW_EINVAL. Refuses ELECTIONS. */
int bw_store_request_check(const struct bw_store_request *request, bw_time ttl_min_ns);

/* For implementations with the trait NAMES: true if the text can be the name of an election. */
bool bw_store_is_election(const char *text);

/* For implementations with the trait NAMES: true for the request ELECTIONS, which
 * bw_store_request_check refuses. */
bool bw_store_asks_names(const struct bw_store_request *request);

#endif
