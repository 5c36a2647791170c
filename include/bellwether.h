/* Bellwether: leader election for programs in C and C++.
 *
 *     struct bw_handle *h;
 *     bw_open("sqlite:/var/lib/app/elections.db", NULL, &h);
 *     bw_run_while_leader(h, "nightly", task, arg, NULL);
 *     bw_close(h);
 *
 * A handle is one open store. The library starts one thread per handle, which renews all
 * leaderships of that handle while the program works. A store may need threads of its own
 * (sqlite: one). There are three ways to use a handle, and a program may mix them:
 *
 *   blocking    bw_campaign returns when elected; bw_is_leader, bw_wait_lost; bw_resign
 *   callbacks   bw_contend returns at once; the library's thread calls elected, lost and
 *               leader_changed
 *   event loop  the same callbacks, called only inside bw_dispatch, when bw_fd is readable
 *
 * Model. A leadership is a lease plus a fencing token. The holder counts its lease from the
 * moment it sent the request, on CLOCK_BOOTTIME, and ends it earlier by the bound on clock drift
 * (options.drift_ppm). Clocks of different machines are not compared, unless
 * options.clock_uncertainty_ms is set.
 *
 * Guarantees:
 *
 * - bw_is_leader compares the deadline with the clock at every call. It is correct even after the
 *   process was stopped for an hour.
 * - The library releases a leadership only after the program has declared its work ended
 *   (bw_resign, bw_release, or the return of the task), or when the process is dead. Until then
 *   the store reports no release to other candidates, even if the leadership was lost long ago.
 * - Each new leadership of an election has a higher token than all earlier ones (0 on a store
 *   that issues no tokens).
 *
 * Not guaranteed: that a write which the work has already sent does not arrive after the
 * leadership has passed on. Pass the token to the storage, and let a guard there reject older
 * tokens (bw_guard_hold for a file, bw_guard_sqlite for a table).
 *
 * Return codes. Functions that return int return 0 or a negative enum bw_error, unless their
 * comment names other values. After an error, bw_why() returns an explanation.
 *
 * Strings. The library copies every string that it is given. Strings passed to a callback are
 * valid until the callback returns.
 *
 * Pointers. NULL is allowed only where the comment of a function or a field says so. All other
 * functions use the pointer without a check, and a NULL crashes the program.
 *
 * Threads. Any thread may call any function at any time, unless the function's comment restricts
 * it. Two threads must not end the same leadership. A callback must not block for long: while it
 * runs on the library's thread, the library renews nothing, and leaderships may expire.
 *
 * Fork. A handle belongs to the process that opened it. In a child process, every function
 * returns BW_EFORKED or reports that nothing is led, and has no effect. If the parent had a
 * handle open at the time of the fork, the child cannot open a handle of its own, for any store
 * (bw_open returns BW_EFORKED). The reason: the child copies the libraries below in whatever
 * state the parent's threads left them. To use the library in a child, do one of these:
 *
 * - exec a program;
 * - fork before the first bw_open;
 * - bw_close every handle before the fork.
 *
 * A child that does not exec keeps inherited descriptors open, and these count as evidence that
 * work may still be running. While the child lives, other candidates cannot prove the parent dead
 * and must wait for the lease to expire. A process that leads must not exec itself: the store
 * would take that for its death.
 *
 * Options are structs that may grow in later versions. Get one from its bw_..._default function,
 * then change fields. Zero and NULL mean the default everywhere. Other languages cannot call
 * inline functions: they call the exported bw_..._init with the address and the size of their
 * struct. */
#ifndef BELLWETHER_H
#define BELLWETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BW_LIBRARY_MAJOR 0
#define BW_LIBRARY_MINOR 2
#define BW_LIBRARY_PATCH 0

/* Version of the loaded library, for example "0.2.0". Static string. */
const char *bw_version(void);

/* ---- errors ---- */

#ifndef BW_CORE_BASE_ERROR_H /* the library's own sources include the same table from there */
/* Codes marked * occur inside clusters and between peers; no function of this header returns them.
 * They have names here, because bw_error_name knows them. Treat an unknown code as an error. */
enum bw_error {
    /* An argument, a URL or an option is invalid, or the function was called from a callback that
     * must not call it. Correct the program; a retry fails again. */
    BW_EINVAL = -1,
    /* Out of memory, threads, timers or descriptors. Nothing was changed. */
    BW_ENOMEM = -2,
    /* A fixed limit was reached, for example the number of elections of one handle. */
    BW_ELIMIT = -3,
    BW_ETRUNCATED = -4, /* * a message ends too early */
    BW_EMALFORMED = -5, /* * a message is malformed */
    /* The store or the guard was written by a version of Bellwether that this one does not know.
     * Upgrade this program. */
    BW_EVERSION = -6,
    /* Not the leader, or the leadership was lost and the task returned in time. */
    BW_ENOTLEADER = -7,
    BW_ETRANSFERRING = -8, /* * leadership is being transferred */
    /* Still in use: the handle leads (bw_close), already contends for this election (bw_campaign),
     * or is inside another bw_dispatch. For a guard: a recovery is in progress. */
    BW_EBUSY = -9,
    /* The token is older than the highest one that the guard has accepted: a newer leader has
     * written. Stop the work. */
    BW_ESTALE = -10,
    BW_ENOTMEMBER = -11, /* * not a member of this group */
    BW_ENOQUORUM = -12,  /* * no quorum */
    BW_ECOMPACTED = -13, /* * the log no longer holds that entry */
    BW_ELOST = -14,      /* * overwritten by another leader before it was committed */
    /* Cannot reach, read or write the store or a file, or the store did not answer in time. */
    BW_EIO = -15,
    /* Stored data is corrupt or was not written by Bellwether. */
    BW_EDAMAGED = -16,
    /* Not permitted: file permissions, or the store rejected the credentials. */
    BW_EDENIED = -17,
    /* Cannot be done safely here: a file system without locks, a store module or a server that
     * lacks what is needed. */
    BW_EUNSUPPORTED = -18,
    /* A guard was given token 0. The store issues no tokens, or the program does not lead. */
    BW_ENOTOKEN = -19,
    /* Not elected, or still leading, when the timeout ended. */
    BW_ETIMEDOUT = -20,
    /* The handle, or the state of the library, belongs to the parent process; see "Fork". */
    BW_EFORKED = -21,
    /* The task returned after its leadership had ended. Another leader may have acted meanwhile. */
    BW_EOVERDUE = -22,
    /* bw_interrupt was called, or the handle is being closed. */
    BW_EINTERRUPTED = -23
};

/* Name and text of an error code, for example "EINVAL" and "invalid argument". Unknown codes give
 * "UNKNOWN" and "unknown error". Static strings. */
const char *bw_error_name(int code);
const char *bw_error_text(int code);
/* True if a retry may succeed. */
bool bw_error_retryable(int code);
#endif

/* Cause of the last failed call of the calling thread, as one line of text. Valid until this
 * thread's next failed call. Never NULL. */
const char *bw_why(void);

/* Why a leadership ended. */
enum bw_loss {
    BW_LOSS_NONE = 0,        /* it has not ended */
    BW_LOSS_EXPIRED = 1,     /* no renewal succeeded in time */
    BW_LOSS_TAKEN = 2,       /* the store reports another holder */
    BW_LOSS_RESIGNED = 3,    /* a user or another program asked the leader to resign */
    BW_LOSS_TRANSFERRED = 4, /* handed over to a named successor */
    BW_LOSS_UNHEALTHY = 5,   /* a health check failed */
    BW_LOSS_UNREACHABLE = 6, /* the store could not be reached in time */
    BW_LOSS_SHUT_DOWN = 7,   /* by bw_resign or bw_interrupt */
    BW_LOSS_FINISHED = 8     /* the work ended by itself */
};

/* Name of a reason, for example "expired" or "taken". Static string. */
const char *bw_loss_name(enum bw_loss reason);

/* ---- handles ---- */

struct bw_handle;
struct bw_leadership; /* a candidacy in one election, whether it leads or not */

struct bw_options {
    size_t size; /* set by bw_options_default */
    /* Our id: at most 63 bytes, unique among all candidates. Default: host-pid-random. */
    const char *id;
    /* How long a leadership lasts without renewal. Default: 10 s, or the store's minimum if that
     * is longer. */
    int64_t ttl_ms;
    /* Time that the work has to end after it is asked to. Default: 2 s, at most TTL/5; less
     * if the drift requires it. */
    int64_t kill_after_ms;
    /* Safety margin between the deadline of the work and the end of the lease. Default: TTL/20,
     * at least 50 ms and at most 1 s. */
    int64_t margin_ms;
    /* pause before a request to an unreachable store is retried; default TTL/5 */
    int64_t retry_ms;
    /* Extra wait after another leader's TTL before a takeover. Default: 0. */
    int64_t grace_ms;
    uint32_t drift_ppm; /* bound on clock drift; default 10000 = 1 % */
    /* False: the library's thread calls the callbacks. True: only bw_dispatch calls them. */
    bool pollable;
    /* Callbacks; any may be NULL. */
    /* The program leads: start the work. `token` is 0 if the store issues no tokens. The
     * leadership may already be over when this callback runs; `lost` then follows. */
    void (*elected)(struct bw_leadership *l, uint64_t token, void *context);
    /* Stop the work now; bw_valid_ms returns the time left. When the work has ended, call
     * bw_release or bw_resign. Called once for each `elected`, unless the program ended the
     * leadership itself. */
    void (*lost)(struct bw_leadership *l, enum bw_loss reason, void *context);
    /* The election has another leader; "" = no leader. Several changes in quick succession are
     * reported as one, with the latest leader. On etcd, bellwether and zookeeper, a candidate that
     * is not next in line reads the election once per TTL: the call comes up to one TTL late, and
     * a leadership that began and ended between two reads is not reported. An observer on
     * another handle (bw_campaign_options.observer) is notified at once. */
    void (*leader_changed)(struct bw_leadership *l, const char *leader, uint64_t token,
                           const char *value, void *context);
    /* The leader wants to hand over to this program. Get ready, then call bw_prepared, here or
     * later. If no answer arrives within a TTL, the current leader stays. NULL: this candidate is
     * always ready. */
    void (*prepare)(struct bw_leadership *l, void *context);
    /* Maximum error of this machine's wall clock, at every moment. 0: no bound is known, and wall
     * clocks are not used. Otherwise the end of the lease is also stored as wall-clock time. A
     * candidate that declares a bound, too, takes over as soon as that time has surely passed,
     * without observing the lease for a whole TTL first. BW_EINVAL if the store cannot keep such
     * a time. */
    int64_t clock_uncertainty_ms;
};

static inline struct bw_options bw_options_default(void)
{
    struct bw_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* The same for other languages, as an exported function: sets a struct of `size` bytes to the
 * defaults. `size` is the size of the caller's struct, which may be that of an older or newer
 * header. BW_EINVAL: NULL, or smaller than a size_t. */
int bw_options_init(struct bw_options *options, size_t size);

/* Opens the store at `url` and starts the library's thread. `options` may be NULL. `url` is one of:
 *   sqlite:PATH                        a file, for candidates on one host; also a path with a '/'
 *   etcd://HOST,.../PREFIX             etcd; etcds:// with TLS
 *   bellwether://HOST,...              bellwether serve; bellwethers:// with TLS
 *   zookeeper://HOST,.../PATH          Apache ZooKeeper
 *   redis://HOST                       Redis; several hosts: Redlock; rediss:// with TLS
 *   redis+sentinel://HOST,.../MASTER   Redis with Sentinel
 *   postgres://HOST/DATABASE           PostgreSQL; also postgresql://
 *   kubernetes://NAMESPACE             a Lease of Kubernetes
 *   azure://ACCOUNT/CONTAINER          a blob of Azure Blob Storage
 *   dynamodb://REGION/TABLE            a table of Amazon DynamoDB
 *   peer:///ELECTION?id=N&...          peers that elect without a service (bellwether peer)
 * All stores except sqlite are modules, in packages of their own. On failure *out is NULL, and the
 * error is one of:
 *   BW_EINVAL: invalid URL, a module that is not installed, or times that do not fit together
 *     (bw_why() names the inequality)
 *   BW_EDENIED, BW_EDAMAGED, BW_EVERSION, BW_EUNSUPPORTED, BW_EIO: the store cannot be used
 *   BW_EFORKED: this process was forked from one that had a handle open (see above)
 *   BW_ENOMEM: out of memory, threads or descriptors */
int bw_open(const char *url, const struct bw_options *options, struct bw_handle **out);

/* Ends and frees every candidacy that does not lead, then closes the handle. Afterwards the handle
 * and all its leaderships are invalid. NULL is ignored.
 *
 * BW_EBUSY: an election is led (or lost and not yet released), or a call or callback is running;
 * then nothing has changed. A candidacy elected while bw_close runs counts as led: bw_close
 * never releases a leadership that the program has been notified of. BW_EINVAL: called from a
 * callback. */
int bw_close(struct bw_handle *h);

/* Interrupts the handle; safe in a signal handler. Blocking calls on this handle soon return
 * BW_EINTERRUPTED, and so do all later ones. Running tasks of bw_run_while_leader are cancelled.
 * An interrupted handle can only be closed. */
void bw_interrupt(struct bw_handle *h);

/* Our own id; valid until the handle is closed. */
const char *bw_id(const struct bw_handle *h);

/* ---- contending ---- */

/* What the library does when the work has not ended by its deadline. */
enum bw_overdue {
    BW_OVERDUE_DEFAULT = 0,
    /* The library ends the process before the lease can pass to another candidate. It calls
     * abort() after writing a line to standard error. If the process is stopped or the library's
     * thread is delayed, a kernel timer sends SIGKILL instead. Default of bw_run_while_leader. */
    BW_OVERDUE_ABORT = 1,
    /* The process continues and the leadership is not released. The program can detect it:
     * bw_is_leader is false, and bw_run_while_leader returns BW_EOVERDUE. Safe only if a guard
     * checks the token of every write. Default of bw_campaign and bw_contend. */
    BW_OVERDUE_REPORT = 2
};

struct bw_campaign_options {
    size_t size;
    /* Published with the leadership, for example an address. At most 1023 bytes. */
    const char *value;
    /* TTL of this election, instead of the handle's. The defaults of kill_after and margin follow
     * it. */
    int64_t ttl_ms;
    int32_t priority; /* candidates with a higher priority go first */
    bool preferred;   /* asks the leader for a transfer, once per TTL */
    bool observer;    /* never contends; only leader_changed is called */
    enum bw_overdue overdue;
    void *context; /* passed to the callbacks */
};

static inline struct bw_campaign_options bw_campaign_options_default(void)
{
    struct bw_campaign_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* For other languages; see bw_options_init. */
int bw_campaign_options_init(struct bw_campaign_options *options, size_t size);

#define BW_FOREVER INT64_C(-1)

/* Contends for `election` and waits until elected, for at most timeout_ms. BW_FOREVER: no limit.
 * 0: acquires the leadership only if it is free. The library does not call `elected` for it, but
 * does call `lost` and leader_changed. Must not be called from a callback on the library's thread
 * (BW_EINVAL). Returns:
 *   0: elected; the caller must end *out with bw_resign
 *   BW_ETIMEDOUT: not elected in time; the candidacy is over
 *   BW_EIO: the same, because the store does not answer or refuses
 *   BW_ENOMEM: the same, because memory, threads, timers or descriptors ran out
 *   BW_EINTERRUPTED: bw_interrupt was called
 *   BW_EINVAL: invalid name, value or times, or options.observer is set
 * After a failure, bw_why() names the leader or the cause. */
int bw_campaign(struct bw_handle *h, const char *election,
                const struct bw_campaign_options *options, int64_t timeout_ms,
                struct bw_leadership **out);

/* Contends for `election` from now on, and again after each loss, until bw_resign. Does not
 * wait. */
int bw_contend(struct bw_handle *h, const char *election, const struct bw_campaign_options *options,
               struct bw_leadership **out);

/* Declares that the work has ended, or never started. Releases the leadership, if there is one,
 * and continues to contend; other waiting candidates go first. Does not wait for the store. */
int bw_release(struct bw_leadership *l);

/* Declares that the work has ended. Releases the leadership, if there is one, ends the candidacy
 * and frees `l`. Waits for the store's answer, or, while the store is unreachable, for the lease
 * to expire. On the library's thread (in a callback) it does not wait, but `l` must not be used
 * afterwards either. Returns 0 or BW_EFORKED. NULL is ignored. */
int bw_resign(struct bw_leadership *l);

/* Asks the candidate `successor` to take over. When the successor is ready, this leadership is
 * lost with reason TRANSFERRED. If the successor refuses or does not answer within a TTL, the
 * leadership stays. BW_ENOTLEADER: not leading. */
int bw_transfer(struct bw_leadership *l, const char *successor);

/* Answers `prepare`. True: ready to take over. False: the current leader stays. Ignored if no
 * request is pending. */
int bw_prepared(struct bw_leadership *l, bool ready);

/* Reports whether this program is healthy enough to lead; initially it is. An unhealthy program
 * does not contend, and loses its leadership with reason UNHEALTHY. Once healthy again, it
 * contends after the candidates that are already waiting. May be called often; only changes have
 * an effect. */
int bw_healthy(struct bw_leadership *l, bool healthy);

/* ---- current state ---- */

/* True if the program may do leader's work at this instant. Compares the deadline with
 * CLOCK_BOOTTIME; takes less than a microsecond. The answer holds only for the instant of the
 * call. */
bool bw_is_leader(const struct bw_leadership *l);

/* Milliseconds until the work must have ended, rounded down. 0: no leadership, or the deadline
 * has passed. While leading, every renewal extends it. After a loss, it is the time left to clean
 * up. */
int64_t bw_valid_ms(const struct bw_leadership *l);

/* Fencing token of this leadership. 0: not leading, or the store issues no tokens. */
uint64_t bw_token(const struct bw_leadership *l);

/* Why the last leadership was lost. NONE while leading and before the first leadership. If the
 * clock alone has ended it: UNREACHABLE if a renewal is unanswered, otherwise EXPIRED. */
enum bw_loss bw_reason(const struct bw_leadership *l);

/* Name of the election; valid as long as `l`. */
const char *bw_election(const struct bw_leadership *l);

/* Waits until the leadership is lost, for at most timeout_ms. 0: lost, including by the clock
 * alone. BW_ETIMEDOUT: still leading. BW_EINTERRUPTED: bw_interrupt was called. */
int bw_wait_lost(struct bw_leadership *l, int64_t timeout_ms);

struct bw_leader_info {
    size_t size;      /* set it before the call */
    char id[64];      /* "" = no leader */
    uint64_t token;   /* 0 = no token */
    char value[1024]; /* published by the leader */
};

static inline struct bw_leader_info bw_leader_info_default(void)
{
    struct bw_leader_info info;
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    return info;
}

/* For other languages; see bw_options_init. */
int bw_leader_info_init(struct bw_leader_info *info, size_t size);

/* Reads the current leader of any election from the store. BW_EIO: the store did not answer
 * within a sixth of the TTL. BW_EINVAL: invalid argument, or called from a callback on the
 * library's thread. */
int bw_leader(struct bw_handle *h, const char *election, struct bw_leader_info *out);

/* ---- event loop ---- */

/* Descriptor to poll for reading, if options.pollable is set. The handle owns it: do not read or
 * close it. -1: not pollable, or in a forked child. */
int bw_fd(const struct bw_handle *h);

/* Calls the pending callbacks in this thread; never waits. Only one thread may call it at a time.
 * Returns the number of callbacks called, or an error. */
int bw_dispatch(struct bw_handle *h);

/* ---- run a task while leading ---- */

struct bw_cancel; /* valid until the task returns */

/* A task. It must return soon after it is cancelled. Its return value is stored in
 * options.result. */
typedef int (*bw_task)(struct bw_cancel *cancel, void *arg);

struct bw_run_options {
    size_t size;
    const struct bw_campaign_options *campaign; /* value, priority, TTL and overdue; may be NULL */
    /* Maximum time to wait for election. Default and BW_FOREVER: no limit. BW_NO_WAIT: do not
     * wait. */
    int64_t wait_ms;
    bool again;           /* contend again after a loss, until the task ends by itself */
    int *result;          /* last return value of the task */
    enum bw_loss *reason; /* why the leadership was lost; set with BW_ENOTLEADER and BW_EOVERDUE */
};

#define BW_NO_WAIT INT64_C(-2)

static inline struct bw_run_options bw_run_options_default(void)
{
    struct bw_run_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* For other languages; see bw_options_init. */
int bw_run_options_init(struct bw_run_options *options, size_t size);

/* Waits until elected, then runs the task in this thread while the library renews the leadership.
 * The library releases the leadership after the task has returned, never before. If the
 * leadership is lost, the task is cancelled. If the task has not returned by the deadline, the
 * library aborts the process before the lease can pass on, unless campaign.overdue says
 * otherwise. `options` may be NULL. Returns:
 *   0: the task ended by itself
 *   BW_ENOTLEADER: the leadership was lost and the task returned in time
 *   BW_EOVERDUE: the task returned too late (only with BW_OVERDUE_REPORT)
 *   BW_EINTERRUPTED: bw_interrupt was called, before or while the task ran
 *   BW_ETIMEDOUT, BW_EIO, BW_EINVAL, BW_ENOMEM: as for bw_campaign; the task was not run */
int bw_run_while_leader(struct bw_handle *h, const char *election, bw_task task, void *arg,
                        const struct bw_run_options *options);

/* True if the task must end. Compares the deadline with the clock, as bw_is_leader does. */
bool bw_cancelled(const struct bw_cancel *cancel);
/* Descriptor that becomes readable when the task must end. Do not read or close it. -1 in a
 * forked child. */
int bw_cancel_fd(const struct bw_cancel *cancel);
/* Milliseconds until the task must have returned; see bw_valid_ms. */
int64_t bw_cancel_ms(const struct bw_cancel *cancel);
/* The leadership under which the task runs. The task must not end it. */
struct bw_leadership *bw_cancel_leadership(const struct bw_cancel *cancel);

/* ---- guards: storage that rejects stale leaders ---- */

#ifndef BW_FENCE_GUARD_H /* see enum bw_error */
#define BW_GUARD_WHY_MAX 511u

struct bw_guard;
struct sqlite3;

struct bw_guard_verdict {
    /* 0: accepted. BW_ENOTOKEN: token is 0. BW_ESTALE: older than `highest`. BW_EBUSY: newer, but
     * a recovery is in progress. */
    int error;
    uint64_t token;
    uint64_t highest; /* highest token accepted before this one */
    bool raise;       /* accepted, and newer than all tokens before */
};

/* Opens the guard of the file `path`. A guard stores the highest token ever accepted durably in
 * PATH.guard, next to the file. `why` has BW_GUARD_WHY_MAX + 1 bytes, here and below. Only one
 * thread may use a guard at a time. */
int bw_guard_open(struct bw_guard **out, const char *path, char *why);
void bw_guard_close(struct bw_guard *guard); /* releases the lock; NULL is ignored */
/* Checks a token, and locks the guard until bw_guard_release. Write to the file in between. All
 * leaders that write so exclude each other: the write of an older one has ended before a newer one
 * writes, and it cannot start again, even if a process is stopped between check and write.
 *
 * Waits at most timeout_ms for other holders; 0: does not wait; BW_FOREVER: no limit. A stopped
 * holder keeps the lock; it ends with its process and with every child that was forked, without
 * exec, while the guard was open. `bellwether guard file` takes the same lock. Returns:
 *   0: accepted and locked; every older token is rejected from now on
 *   BW_ESTALE: a newer leader has written, so stop
 *   BW_EBUSY: another holder did not release it in time (then verdict->error is 0), or a recovery
 *     is in progress
 *   BW_EINVAL: this guard is already held
 *   BW_ENOTOKEN, BW_EDAMAGED, BW_EVERSION, BW_EDENIED, BW_EIO: as for bw_guard_check
 * `verdict` may be NULL. */
int bw_guard_hold(struct bw_guard *guard, uint64_t token, int64_t timeout_ms,
                  struct bw_guard_verdict *verdict, char *why);
void bw_guard_release(struct bw_guard *guard); /* NULL, or a guard that is not held, is ignored */
/* Only checks a token. 0: accepted; every older token is rejected from now on. A newer leader may
 * check and write between this call and the write of the caller, which the guard cannot stop: use
 * bw_guard_hold if the file must not be written late. BW_ESTALE: a newer leader has written, so
 * stop. Other errors: BW_ENOTOKEN, BW_EBUSY, BW_EDAMAGED, BW_EVERSION, BW_EDENIED, BW_EIO.
 * `verdict` may be NULL. */
int bw_guard_check(struct bw_guard *guard, uint64_t token, struct bw_guard_verdict *verdict,
                   char *why);
#endif

#ifndef BW_FENCE_GUARD_SQLITE_H
/* The same guard as a row of an SQLite database, checked in the transaction that writes. Call it
 * after BEGIN and before the writes; roll back unless it returns 0. */
int bw_guard_sqlite_create(struct sqlite3 *db, char *why);
int bw_guard_sqlite(struct sqlite3 *db, const char *resource, uint64_t token,
                    struct bw_guard_verdict *verdict, char *why);
#endif

#ifdef __cplusplus
}
#endif

#endif
