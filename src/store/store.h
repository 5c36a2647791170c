/* The one interface of every lease store: SQLite, etcd, ZooKeeper, Redis, PostgreSQL, Kubernetes,
 * Azure, DynamoDB.
 *
 * Asynchronous on the caller's libuv loop; a store never blocks it and never calls back from within
 * a call. A request is answered exactly once, with one of four outcomes. UNKNOWN (a time-out, a
 * lost connection after sending) is not failure: the caller reads again and recognises its own
 * request id before it acts. Whoever must judge another's expiry by watching (trait OBSERVED) is
 * the caller: the store reports versions and compares them, and never looks at a clock that another
 * machine set.
 *
 * What a store keeps for an election is one record, a queue or set of candidates where it can, and
 * one note: what somebody asks of the holder or of a candidate. `resign` and `transfer` are notes;
 * nobody removes another's record. */
#ifndef BW_STORE_STORE_H
#define BW_STORE_STORE_H

#include "core/base/error.h"
#include "core/base/types.h"

#define BW_ELECTION_NAME_MAX 127u /* bytes; printable, no '/' */
#define BW_CANDIDATE_ID_MAX  63u
#define BW_VALUE_MAX         1023u
#define BW_CONTAINMENT_MAX   255u
#define BW_HOLD_PROOF        32u /* bytes that end a lease with its connection */
#define BW_WHY_MAX           255u
#define BW_OWED_MAX          1023u

/* RELEASE and ENTER of one of many shards: its work has ended for good. Only stores that keep many
 * of them together (peers) look at it. */
#define BW_STORE_VALUE_DONE "done"

enum bw_outcome { BW_OUTCOME_DONE, BW_OUTCOME_REFUSED, BW_OUTCOME_UNAVAILABLE, BW_OUTCOME_UNKNOWN };

enum bw_store_trait {
    BW_STORE_TOKEN = 1, /* gives a token that only grows */
    BW_STORE_OBSERVED =
        2, /* expiry is judged by watching the version stand still (else the server expires) */
    BW_STORE_NOTIFIES = 4, /* WATCH answers without polling */
    BW_STORE_QUEUE = 8,    /* candidates are served in order (else they race) */
    BW_STORE_LISTS = 16,   /* LIST works */
    BW_STORE_PROVES_DEATH =
        32,              /* the holder's death can be proved by the store before its TTL is over */
    BW_STORE_NOTES = 64, /* notes work */
    BW_STORE_WALL = 128, /* keeps until_wall_ns; else it is always 0 */
    BW_STORE_TOLD = 256  /* wants a RELEASE also of what it has given to somebody else: that one
                            waits to hear that the work is dead */
};

enum bw_store_op {
    BW_STORE_ACQUIRE, /* become holder if free, or if the record is still the one with version
                         `steal` (0: never steal) that `steal_request` made */
    BW_STORE_RENEW,   /* still holder with this token: renew; value is rewritten if given */
    BW_STORE_RELEASE, /* no longer holder; clean: the work is confirmed dead */
    BW_STORE_READ,    /* the record */
    BW_STORE_WATCH,   /* answered when the record's version differs from `version` */
    BW_STORE_ENTER, /* register as a candidate (id, value, priority); renewed with every request we
                       make. REFUSED with BW_EBUSY: another process, which is alive, has the id */
    BW_STORE_LEAVE, /* no longer a candidate; one with the same id of another process stays */
    BW_STORE_LIST,  /* candidates, in the order of service where there is one */
    BW_STORE_NOTE   /* put a note */
};

enum bw_note_kind {
    BW_NOTE_NONE,
    BW_NOTE_RESIGN,   /* to the holder: step down */
    BW_NOTE_TRANSFER, /* to the holder: hand over to `to` */
    BW_NOTE_PREPARE,  /* from the holder to candidate `to`: get ready */
    BW_NOTE_READY,    /* from that candidate: ready */
    BW_NOTE_REFUSE    /* from that candidate: not ready; the transfer is off */
};

struct bw_note {
    enum bw_note_kind kind;
    uint64_t serial; /* grows with every note of the election */
    char from[BW_CANDIDATE_ID_MAX + 1], to[BW_CANDIDATE_ID_MAX + 1];
    bw_token token; /* for stores that keep it apart from the record: the leadership it was put
                       under; 0: not said */
};

/* What stands in the store. `version` changes whenever anything here changes, renewals included; 0:
 * never existed. Version and request together name one state of one record: a store that was
 * deleted and created again counts versions anew, but no acquisition has the request id of another.
 */
struct bw_store_record {
    uint64_t version;
    bool held;
    bool clean; /* not held: the last holder released after confirmed death (or there was none), and
                   nothing is owed */
    bool proved_dead; /* held, but the store has proof that the holder's work is dead: may be taken
                         with steal = version */
    char holder[BW_CANDIDATE_ID_MAX + 1]; /* of the last holder when not held */
    uint64_t
        request; /* id of the request that made it holder: ours? then a lost reply is found again */
    bw_token token; /* of the (last) leadership; 0 = store gives none */
    bw_time ttl_ns; /* as the holder declared it */
    char value[BW_VALUE_MAX + 1];
    char containment[BW_CONTAINMENT_MAX + 1]; /* where the holder's work lives on this host:
                                                 "cgroup:PATH", "pidns:PID:START", "" */
    /* Held: what is left of the lease by a clock the store may trust (its server's; or this host's,
     * same boot and namespaces); 0: over. BW_TIME_NEVER: cannot tell, watch it stand still. */
    bw_time left_ns;
    /* Earlier holders whose work nobody has confirmed dead, one line each: ID, TAB, CONTAINMENT
     * (may be empty), newline; oldest first, "*" for those that found no room. Taking over from a
     * holder that did not release clean adds its line, and every taker inherits the lines: one that
     * dies before it has emptied them leaves them to the next. The holder empties or fences all of
     * them before its work starts, then renews with `settled`. */
    char owed[BW_OWED_MAX + 1];
    struct bw_note note;
    /* Held: no work of the holder runs at this true time (UTC, since 1970) or later, by its own
     * declared clock bound; 0: not declared. Only who has declared a bound too may conclude
     * anything from it. */
    bw_time until_wall_ns;
};

struct bw_candidate {
    char id[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1];
    int32_t priority;
    bool holder;
};

struct bw_store_request {
    enum bw_store_op op;
    uint64_t id;          /* caller's, unique per process start: random high half */
    const char *election; /* borrowed for the call */
    const char *candidate;
    const char *value;       /* ACQUIRE, RENEW (NULL: as it is), ENTER */
    const char *containment; /* ACQUIRE, RENEW (NULL: as it is) */
    bw_time ttl_ns;
    bw_token token;         /* RENEW, RELEASE */
    uint64_t steal;         /* ACQUIRE */
    uint64_t steal_request; /* ACQUIRE: `request` of the record to steal; 0: do not compare it */
    uint64_t version;       /* WATCH */
    int32_t priority;       /* ENTER */
    bool clean;             /* RELEASE */
    bool settled;           /* RENEW: all that stood in `owed` is confirmed dead: forget it */
    struct bw_note note;    /* NOTE; serial is given by the store */
    /* ACQUIRE: kept as it is. RENEW: kept if it is later than the kept one (two renewals may arrive
     * in either order, and the holder counts on the later); 0 changes nothing. */
    bw_time until_wall_ns;
};

struct bw_store_reply {
    uint64_t id; /* of the request */
    enum bw_store_op op;
    enum bw_outcome outcome;
    int error;                             /* enum bw_error or 0, when not DONE */
    char why[BW_WHY_MAX + 1];              /* one line for people, when not DONE; never a secret */
    struct bw_store_record record;         /* DONE and REFUSED, except LIST */
    const struct bw_candidate *candidates; /* LIST: borrowed for the call-back */
    uint32_t count;
};

/* A datagram that a guardian sends for a leader whose work is dead (run/guardian/last_words.h):
 * sealed, and good for nothing else. */
#define BW_LAST_WORD_BYTES 256u  /* a sealed frame of a few numbers */
#define BW_LAST_WORDS_MAX  1024u /* whom it is told; others wait the lease out */

struct bw_last_word {
    uint16_t to_length, length;
    unsigned char to[28]; /* a struct sockaddr_in or sockaddr_in6 */
    unsigned char bytes[BW_LAST_WORD_BYTES];
};

struct bw_last_words {
    const struct bw_last_word *rows; /* borrowed until the store is called again */
    uint32_t count;
    int socket; /* they go out by it; borrowed */
};

/* Something that a store counts, for who watches it; texts are static. Rows of one name follow one
 * another, each with its own reason. */
#define BW_STORE_COUNTS_MAX 24u

struct bw_store_count {
    const char *name, *help; /* as Prometheus names a counter, without a prefix */
    const char *reason;      /* NULL: the only row of its name */
    uint64_t value;
};

struct bw_store;
struct uv_loop_s;

struct bw_store_options {
    void *context;
    void (*reply)(void *context, const struct bw_store_reply *reply);
    /* Optional. Something that people must hear of: a word for it and a line. "split-seen": two led
     * at once; "split-brain": so it was, and it is ours to recover from it. */
    void (*event)(void *context, const char *event, const char *line);
    /* Optional. The store can do nothing any more, for good, until it is opened anew; the line says
     * why and what to do. A RELEASE is still worth sending. */
    void (*ended)(void *context, int error, const char *line);
    /* Optional. `last_words` of this election would say something else from now on. */
    void (*words)(void *context, const char *election);
};

struct bw_store_ops {
    const char *scheme;
    unsigned traits;
    bw_time ttl_min_ns, ttl_unit_ns; /* shortest lease and its granularity */
    bw_time ttl_max_ns;              /* longest; 0: whatever may be asked */
    const char *summary;             /* one line for people: what it can and cannot promise */
    /* Returns 0 and *out, or an error with a line in why[BW_WHY_MAX + 1]. Connecting may go on
     * after return: requests are then UNAVAILABLE until it is done. */
    int (*open)(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                const struct bw_store_options *options, char *why);
    /* Returns 0 (a reply will come) or BW_EINVAL / BW_ELIMIT (none will). */
    int (*request)(struct bw_store *store, const struct bw_store_request *request);
    /* Forget a request: no reply will come. Its effect may still happen. */
    void (*cancel)(struct bw_store *store, uint64_t id);
    void (*close)(struct bw_store *store); /* no reply comes after this */

    /* ---- optional, for `bellwether store`; NULL where a store has nothing to say ---- */

    const char *clock; /* a line: whose clock ends a lease; NULL: as the trait OBSERVED has it */
    /* What the server said of itself while connecting: name, version, and settings that matter
     * here; a line into about[BW_WHY_MAX + 1]. Asks nobody. False: it has not said yet. */
    bool (*about)(struct bw_store *store, char *about);
    /* What must stand on the server before first use, for who makes it by hand: a text that the
     * caller frees. NULL with a line in `why`. */
    char *(*schema)(const char *url, char *why);

    /* ---- optional, for `bellwether run` ---- */

    /* A descriptor that says, as long as any process has it open, that somebody looks after the
     * work of an election we hold: our guardian gets a copy. A file: the lock that frees itself
     * (sqlite.h). A socket: the connection our lease is bound to; a clean close of it
     * (run/guardian/farewell.h) with this proof ends the lease. Asked for when a leadership begins
     * and with every renewal. -1: there is none. It stays the store's. */
    int (*hold)(struct bw_store *store, const char *election, unsigned char proof[BW_HOLD_PROOF]);

    /* What others are told when we are gone and the work of our present leadership is dead. Asked
     * for when it begins, with every renewal, and when the store says that they changed. False:
     * there is nothing to tell. */
    bool (*last_words)(struct bw_store *store, const char *election, struct bw_last_words *out);

    /* Returns how many it wrote. */
    uint32_t (*counts)(struct bw_store *store, struct bw_store_count out[BW_STORE_COUNTS_MAX]);
};

/* By the URL's scheme ("sqlite:..."; a path without one means sqlite); NULL with a line in `why`
 * that names the known ones. */
const struct bw_store_ops *bw_store_find(const char *url, char *why);

/* A scheme the program knows; whether its module is there shows when it is used. */
struct bw_store_about {
    const char *scheme;
    const char *module; /* NULL: part of the program */
    const char *form;   /* of its URLs, for people */
    /* Debian 12's packages of its client libraries, apart from what every program of the project
     * needs; NULL: none. */
    const char *builds_with, *runs_with;
};

enum bw_store_presence {
    BW_STORE_HERE,
    BW_STORE_NOT_BUILT,    /* there is no module: it was built without the client library */
    BW_STORE_NOT_LOADABLE, /* the module is there, and a library that it needs is not */
    BW_STORE_OTHER_VERSION /* the module belongs to another version of the program */
};

/* Ended by an entry without a scheme; the default first. */
const struct bw_store_about *bw_store_known(void);
/* Can it be used here? If not: why, a line in why[BW_WHY_MAX + 1]. */
enum bw_store_presence bw_store_presence(const struct bw_store_about *about, char *why);

/* For stores: one line into why[BW_WHY_MAX + 1], cut if it is too long. Returns `error`. */
int bw_store_say(char *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How long a lease lasts if nobody says: 10 s, or the store's minimum if that is longer. NULL: the
 * store is not known yet. */
bw_time bw_store_ttl_default(const struct bw_store_ops *ops);

/* 0 if the store's leases may last so long, else BW_EINVAL with a line in why[BW_WHY_MAX + 1]. */
int bw_store_ttl_check(const struct bw_store_ops *ops, bw_time ttl_ns, char *why);

/* For stores: 0 if the request is one that any store may be asked (names, lengths, TTL at least
 * ttl_min_ns), else BW_EINVAL. */
int bw_store_request_check(const struct bw_store_request *request, bw_time ttl_min_ns);

#endif
