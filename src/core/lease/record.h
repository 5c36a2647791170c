/* The record of an election in a lease store, and the requests and replies about it.
 *
 * The lease elector (core/lease/lease.h) decides with these types. store/store.h is the interface
 * that carries the requests to a real store; sim/stores carries them to a simulated one. */
#ifndef BW_CORE_LEASE_RECORD_H
#define BW_CORE_LEASE_RECORD_H

#include "core/base/error.h"
#include "core/base/types.h"

/* Sizes in bytes; texts without their terminating NUL. */
#define BW_ELECTION_NAME_MAX 127u /* printable, no '/' */
#define BW_CANDIDATE_ID_MAX  63u
#define BW_VALUE_MAX         1023u
#define BW_CONTAINMENT_MAX   255u
#define BW_HOLD_PROOF        32u /* the proof that ends a lease bound to a connection */
#define BW_DEATH_HASH_MAX    64u
#define BW_WHY_MAX           255u
#define BW_UNCONFIRMED_MAX   1023u

/* Value in RELEASE and ENTER for one of many shards: the shard's work has ended for good. Only
 * stores that keep all shards of an election together (peers) read it. */
#define BW_STORE_VALUE_DONE "done"

/* Outcome of a request.
 *
 *   DONE         the store carried it out; the reply holds the record after it
 *   REFUSED      the store decided against it and changed nothing; the reply holds the record
 *   UNAVAILABLE  it was certainly not carried out: not connected, overloaded, unsupported
 *   UNKNOWN      it may have been carried out: timeout, or connection lost after sending */
enum bw_outcome { BW_OUTCOME_DONE, BW_OUTCOME_REFUSED, BW_OUTCOME_UNAVAILABLE, BW_OUTCOME_UNKNOWN };

enum bw_store_trait {
    /* Each leadership gets a token that is higher than every earlier one. */
    BW_STORE_TOKEN = 1,
    /* Candidates judge expiry by watching the version. Without this trait the server expires the
     * lease. */
    BW_STORE_OBSERVED = 2,
    BW_STORE_NOTIFIES = 4, /* WATCH is answered without polling */
    /* Candidates are elected in order (otherwise they race). ACQUIRE adds a candidate to the queue.
     * If the record is free, the ACQUIRE of the first in the queue is DONE, and any other one is
     * REFUSED. Exception: the first one is REFUSED as well, with an earlier state of the record, if
     * its server is behind or if peers have not elected it yet. A WATCH of that state's version is
     * answered once that is over, and the next ACQUIRE is then DONE. */
    BW_STORE_QUEUE = 8,
    BW_STORE_LISTS = 16, /* LIST works */
    /* The store can prove that the holder is dead before its TTL is over. */
    BW_STORE_PROVES_DEATH = 32,
    BW_STORE_NOTES = 64, /* NOTE works */
    BW_STORE_WALL = 128, /* the record keeps until_wall_ns (otherwise it is always 0) */
    /* The holder sends RELEASE even after the lease passed to another candidate: that candidate
     * waits for the confirmation that the holder's work is dead. */
    BW_STORE_LATE_RELEASE = 256,
    BW_STORE_NAMES = 512, /* ELECTIONS works */
    /* The lease is extended by a request apart from the record: a record that names a candidate
     * does not prove that its lease has time left. A candidate that finds its ACQUIRE in the
     * record, after an unknown outcome, must RENEW before it leads. */
    BW_STORE_LEASE_APART = 1024
};

enum bw_store_op {
    /* Become the holder, if the record is free, or if its version is still `steal` (0: never steal)
     * and its request is still `steal_request`. REFUSED: another candidate holds it.
     * A repeated ACQUIRE with the same id is DONE if the first one succeeded. */
    BW_STORE_ACQUIRE,
    /* Extend the lease by `ttl_ns`, if the candidate still holds the record with this token.
     * Replaces the value if one is given. REFUSED: this leadership is over. */
    BW_STORE_RENEW,
    /* Stop being the holder. `clean`: the holder has confirmed that its work is dead. */
    BW_STORE_RELEASE,
    /* Read the record. */
    BW_STORE_READ,
    /* Wait until the version of the record differs from `version`, or, with the trait PROVES_DEATH,
     * until the store can prove that the holder is dead. The reply holds the record. */
    BW_STORE_WATCH,
    /* Register as a candidate (id, value, priority). Every later request of this candidate renews
     * the registration. REFUSED with BW_EBUSY: another running process has registered this id. */
    BW_STORE_ENTER,
    /* Stop being a candidate. A candidate of another process with the same id stays registered. */
    BW_STORE_LEAVE,
    /* List the candidates, in the order of service if the store has the trait QUEUE. */
    BW_STORE_LIST,
    /* Replace the election's note. */
    BW_STORE_NOTE,
    /* List the names of the store's elections, in any order; a name may occur twice. The request's
     * election is "". Only stores with the trait NAMES accept it. */
    BW_STORE_ELECTIONS
};

enum bw_note_kind {
    BW_NOTE_NONE,
    BW_NOTE_RESIGN,   /* to the holder: step down */
    BW_NOTE_TRANSFER, /* to the holder: hand over to `to` */
    BW_NOTE_PREPARE,  /* from the holder to candidate `to`: get ready */
    BW_NOTE_READY,    /* from that candidate: ready */
    BW_NOTE_REFUSE    /* from that candidate: not ready; cancels the transfer */
};

struct bw_note {
    enum bw_note_kind kind;
    uint64_t serial; /* grows with every note of the election */
    char from[BW_CANDIDATE_ID_MAX + 1], to[BW_CANDIDATE_ID_MAX + 1];
    /* Token of the leadership during which the note was written; 0: unknown. Only stores that keep
     * the note outside the record set it. */
    bw_token token;
};

/* The record of an election.
 *
 * Invariants:
 *   - `version` changes whenever any other field changes; with the trait OBSERVED, also with every
 *     renewal
 *   - version 0: the record never existed
 *   - no two acquisitions have the same `request`
 *   - (version, request) identifies one state of one record, even if the store was deleted and
 *     created again and its versions start over */
struct bw_store_record {
    uint64_t version;
    bool held;
    /* Not held: no earlier work can still run. The last holder released after confirmed death, or
     * there was none, and `unconfirmed` is empty. */
    bool clean;
    /* Held, but the store has proof that the holder's work is dead. A candidate may take the record
     * with steal = version. */
    bool proved_dead;
    char holder[BW_CANDIDATE_ID_MAX + 1]; /* not held: the last holder */
    /* Id of the ACQUIRE that made the holder the holder. A candidate that lost the reply to its
     * ACQUIRE recognises its success by this id. */
    uint64_t request;
    bw_token token; /* of the leadership, or of the last one; 0: the store gives no tokens */
    bw_time ttl_ns; /* as declared by the holder */
    char value[BW_VALUE_MAX + 1];
    /* Where the holder's work runs on its host: "cgroup:PATH", "pidns:PID:START", or "". */
    char containment[BW_CONTAINMENT_MAX + 1];
    /* Held: time left of the lease, by a clock the store may trust: its server's clock, or this
     * host's clock if the holder runs in the same boot and namespaces. 0: the lease has expired.
     * BW_TIME_NEVER: the store cannot tell; watch the version instead. */
    bw_time left_ns;
    /* Earlier holders whose work is not confirmed dead, oldest first.
     *   - One line each: ID, TAB, CONTAINMENT (may be empty), newline.
     *   - A first line with the ID "*" replaces older lines that did not fit.
     *   - A candidate that takes over from a holder without a clean release adds a line for it.
     *   - Each new holder inherits all lines, also those of a holder that died before it cleared
     *     them.
     *   - The holder makes sure that all this work is dead or fenced before it starts its own, and
     *     then renews or releases with `settled`, which empties the field. */
    char unconfirmed[BW_UNCONFIRMED_MAX + 1];
    struct bw_note note;
    /* Held: hash of the proof by which the store knows that the holder's work is dead
     * (net/death_proof.h); "": there is no such proof. */
    char death_hash[BW_DEATH_HASH_MAX + 1];
    /* Held: wall-clock time (UTC, since 1970) from which on no work of the holder runs, according
     * to the clock error bound that the holder declared; 0: not declared. Only a candidate that has
     * declared a bound itself may rely on it. */
    bw_time until_wall_ns;
};

struct bw_candidate {
    char id[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1];
    int32_t priority;
    bool holder;
};

struct bw_election_name {
    char text[BW_ELECTION_NAME_MAX + 1];
};

/* A request. Strings are borrowed for the call. */
struct bw_store_request {
    enum bw_store_op op;
    uint64_t id; /* chosen by the caller; unique across processes: the high half is random */
    const char *election;
    const char *candidate;
    const char *value;       /* ACQUIRE, ENTER, RENEW (NULL: unchanged) */
    const char *containment; /* ACQUIRE, RENEW (NULL: unchanged) */
    bw_time ttl_ns;
    bw_token token;         /* RENEW, RELEASE */
    uint64_t steal;         /* ACQUIRE: version of the record to take; 0: only if it is free */
    uint64_t steal_request; /* ACQUIRE: `request` of the record to take; 0: do not compare it */
    uint64_t version;       /* WATCH */
    int32_t priority;       /* ENTER */
    bool clean;             /* RELEASE */
    /* ACQUIRE: a guardian supervises the work and can confirm that it is dead. The store may then
     * accept the guardian's proof. */
    bool guarded;
    /* RENEW, RELEASE: all work listed in `unconfirmed` is confirmed dead or fenced; empty it. A
     * leadership that ends before its first renewal says so only in its release. */
    bool settled;
    struct bw_note note; /* NOTE; the store sets the serial */
    /* ACQUIRE: stored as it is. RENEW: stored if it is later than the stored one, because two
     * renewals may arrive in either order and the holder relies on the later time. 0: no change. */
    bw_time until_wall_ns;
};

struct bw_store_reply {
    uint64_t id; /* of the request */
    enum bw_store_op op;
    enum bw_outcome outcome;
    int error;                                /* not DONE: enum bw_error, or 0 */
    char why[BW_WHY_MAX + 1];                 /* not DONE: one line for the user; never a secret */
    struct bw_store_record record;            /* DONE and REFUSED, except LIST and ELECTIONS */
    const struct bw_candidate *candidates;    /* LIST: borrowed for the callback */
    const struct bw_election_name *elections; /* ELECTIONS: borrowed for the callback */
    uint32_t count;
};

#endif
