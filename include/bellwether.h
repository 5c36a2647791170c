/* Bellwether: leader election for programs in C and C++.
 *
 *     struct bw_handle *h;
 *     bw_open("sqlite:/var/lib/app/elections.db", NULL, &h);
 *     bw_run_while_leader(h, "nightly", task, arg, NULL);
 *     bw_close(h);
 *
 * A handle is one open store, with one thread of the library that renews all leaderships of the
 * handle beside the program's work (and whatever threads the store needs: one for sqlite). There
 * are three ways in; they can be mixed on one handle:
 *
 *   blocking    bw_campaign returns when elected; bw_is_leader, bw_wait_lost; bw_resign
 *   callbacks   bw_contend returns at once; elected, lost and leader_changed are called on the
 *               library's thread
 *   a loop      the same callbacks, called only inside bw_dispatch when bw_fd is readable
 *
 * What holds everywhere:
 *
 * - Leadership is a lease and a token. The lease is counted from when it was asked for, on
 *   CLOCK_BOOTTIME, less the drift bound. bw_is_leader compares with that clock each time it is
 *   called; it does not remember. A program that was stopped for an hour gets the right answer.
 * - A leadership is released only when the program has said that its work has ended (bw_resign,
 *   bw_release, or the task's return), or when the process is dead. Until then nobody is told that
 *   the way is free, also when the leadership is long lost.
 * - The token only grows from leadership to leadership. Hand it to whatever the work writes to: a
 *   guard there (bw_guard_check) rejects what a former leader sends late. Nothing else can.
 *
 * Return codes: functions that return int return 0 or a negative enum bw_error unless they say
 * otherwise; bw_why() then has a sentence. Strings given to the library are copied. Strings handed
 * to a callback are valid until it returns.
 *
 * Threads: functions may be called from any thread at any time, unless they say otherwise; two
 * threads must not end the same leadership. A callback must not block for long: on the library's
 * thread it holds up renewals, and with them the leaderships.
 *
 * Fork: a handle belongs to the process that opened it. In a child every function returns
 * BW_EFORKED, or that nothing is led, and touches nothing. A child of a process that had a handle
 * open cannot open its own either, of any store (bw_open: BW_EFORKED): the libraries below were
 * copied in whatever state the parent's threads had them. To use the library in a child, exec a
 * program, fork before the first bw_open, or bw_close every handle before the fork. A child that
 * does not exec keeps the parent's leaderships from being taken over early (by proof of death)
 * for as long as it lives: its descriptors say that somebody may still be at work. A process that
 * leads must not exec itself: for the store that is its death.
 *
 * Options are structs that grow: get one from its bw_..._default function, change what you want.
 * Zero and NULL mean the default everywhere. */
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
#define BW_LIBRARY_MINOR 1
#define BW_LIBRARY_PATCH 0

/* "0.1.0": of the library that is loaded. Static. */
const char *bw_version(void);

/* ---- errors ---- */

#ifndef BW_BASE_ERROR_H /* the library's own sources have the same table from there */
enum bw_error {
    BW_EINVAL = -1,        /* an argument is wrong; bw_why() says which */
    BW_ENOMEM = -2,        /* out of memory, threads, timers or descriptors */
    BW_ELIMIT = -3,        /* a bound was reached */
    BW_ETRUNCATED = -4,    /* (peers) */
    BW_EMALFORMED = -5,    /* (peers) */
    BW_EVERSION = -6,      /* the store or register is of a version unknown here */
    BW_ENOTLEADER = -7,    /* not the leader; the leadership was lost */
    BW_ETRANSFERRING = -8, /* (peers) */
    BW_EBUSY = -9,         /* still in use */
    BW_ESTALE = -10,       /* an older token than already seen */
    BW_ENOTMEMBER = -11,   /* (peers) */
    BW_ENOQUORUM = -12,    /* (peers) */
    BW_ECOMPACTED = -13,   /* (peers) */
    BW_ELOST = -14,        /* (peers) */
    BW_EIO = -15,          /* the store could not be reached, read or written */
    BW_EDAMAGED = -16,     /* stored data is damaged or not ours */
    BW_EDENIED = -17,      /* not permitted */
    BW_EUNSUPPORTED = -18, /* cannot be done safely here */
    BW_ENOTOKEN = -19,     /* no fencing token was given */
    BW_ETIMEDOUT = -20,    /* not done in the time given */
    BW_EFORKED = -21,      /* the handle, or the library's state, belongs to the parent process */
    BW_EOVERDUE = -22,     /* the task outlived its leadership */
    BW_EINTERRUPTED = -23  /* bw_interrupt, or the handle is being closed */
};

/* "EINVAL" and "invalid argument"; "UNKNOWN" and "unknown error" for any other number. Static. */
const char *bw_error_name(int code);
const char *bw_error_text(int code);
/* Can trying again help? */
bool bw_error_retryable(int code);
#endif

/* Why the last call of this thread failed, as one line for people. Valid until this thread's next
 * call that fails. Never NULL. */
const char *bw_why(void);

/* Why a leadership ended. */
enum bw_loss {
    BW_LOSS_NONE = 0,        /* it has not */
    BW_LOSS_EXPIRED = 1,     /* no renewal succeeded in time */
    BW_LOSS_TAKEN = 2,       /* the store says that somebody else holds it */
    BW_LOSS_RESIGNED = 3,    /* somebody asked for it */
    BW_LOSS_TRANSFERRED = 4, /* handed over to a named successor */
    BW_LOSS_UNHEALTHY = 5,   /* a health check failed */
    BW_LOSS_UNREACHABLE = 6, /* the store could not be reached in time */
    BW_LOSS_SHUT_DOWN = 7,   /* bw_resign, bw_interrupt */
    BW_LOSS_FINISHED = 8     /* the work ended by itself */
};

/* "expired", "taken", ...; static. */
const char *bw_loss_name(enum bw_loss reason);

/* ---- handles ---- */

struct bw_handle;
struct bw_leadership; /* an election contended for, led or not */

struct bw_options {
    size_t size;    /* set by bw_options_default */
    const char *id; /* who we are, at most 63 bytes, unlike all other candidates; default:
                       host-pid-random */
    int64_t ttl_ms; /* how long a leadership lasts without renewal; default 10 s, or the store's
                       minimum if that is longer */
    int64_t kill_after_ms; /* how long work may take to end once told; default 2 s, TTL/5 if less */
    int64_t margin_ms;     /* kept free before the end of the lease; default TTL/20, 50 ms..1 s */
    int64_t retry_ms;      /* pause before an unreachable store is asked again; default TTL/5 */
    int64_t grace_ms;      /* waited on top of another's TTL before taking over; default 0 */
    uint32_t drift_ppm;    /* how much clocks may run wrong; default 10000 = 1 % */
    /* False: callbacks are called on the library's thread. True: only inside bw_dispatch. */
    bool pollable;
    /* Callbacks; any may be NULL. */
    /* You lead: start the work. `token` is 0 on a store that gives none. By the time it is called
     * the leadership may be over again: `lost` follows. */
    void (*elected)(struct bw_leadership *l, uint64_t token, void *context);
    /* Stop the work now; bw_valid_ms says how long it has. When it has ended: bw_release or
     * bw_resign. Comes once for each `elected`, unless you ended it yourself. */
    void (*lost)(struct bw_leadership *l, enum bw_loss reason, void *context);
    /* Who leads changed; "" = nobody. Changes in quick succession are told as one. */
    void (*leader_changed)(struct bw_leadership *l, const char *leader, uint64_t token,
                           const char *value, void *context);
    /* The leader wants to hand over to you: get ready, then bw_prepared, here or later. Without an
     * answer within a TTL the leader stays. NULL: a candidate is always ready. */
    void (*prepare)(struct bw_leadership *l, void *context);
    /* This machine's wall clock is right to within so much, at every moment; 0: nothing is said of
     * it, and it decides nothing. Others that said so too are followed as soon as their lease has
     * surely ended, without watching it for a TTL. BW_EINVAL on a store that cannot keep that. */
    int64_t clock_uncertainty_ms;
};

static inline struct bw_options bw_options_default(void)
{
    struct bw_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* Opens the store at `url` ("sqlite:PATH", or a path with a '/') and starts the library's thread.
 * `options` may be NULL. BW_EINVAL: the URL, or times that do not fit together (bw_why() names the
 * inequality); BW_EDENIED, BW_EDAMAGED, BW_EVERSION, BW_EUNSUPPORTED, BW_EIO: the store is refused;
 * BW_EFORKED: this process was forked from one that had a handle open (see above); BW_ENOMEM. On
 * failure *out is NULL. */
int bw_open(const char *url, const struct bw_options *options, struct bw_handle **out);

/* Ends every candidacy that does not lead, frees them, and closes. BW_EBUSY: an election is led (or
 * lost and not released), or a call or callback is running: nothing was changed. A candidacy that
 * is elected while bw_close runs counts as led: a leadership that the program has heard of is never
 * given back here. Not from a callback (BW_EINVAL). NULL is nothing. Afterwards the handle and all
 * its leaderships are gone. */
int bw_close(struct bw_handle *h);

/* Safe in a signal handler. Every call of this handle that blocks returns BW_EINTERRUPTED soon, as
 * do later ones; running tasks of bw_run_while_leader are cancelled. There is no way back but
 * bw_close. */
void bw_interrupt(struct bw_handle *h);

/* Our id; valid as long as the handle. */
const char *bw_id(const struct bw_handle *h);

/* ---- contending ---- */

/* What happens when work has not ended by its deadline. */
enum bw_overdue {
    BW_OVERDUE_DEFAULT = 0,
    /* The process is ended before the lease can pass on: by abort() with a line on standard error,
     * and, should that be impossible because the process is stopped or its library thread held up,
     * by SIGKILL from a timer of the kernel. The default of bw_run_while_leader. */
    BW_OVERDUE_ABORT = 1,
    /* The process goes on, the leadership is not released, and the program is told: bw_is_leader
     * is false, a task's return gives BW_EOVERDUE. Safe only where every write is guarded by the
     * token. The default of bw_campaign and bw_contend. */
    BW_OVERDUE_REPORT = 2
};

struct bw_campaign_options {
    size_t size;
    const char *value; /* published with the leadership: an address, say; at most 1023 bytes */
    int64_t ttl_ms;    /* instead of the handle's; kill_after and margin follow it by default */
    int32_t priority;  /* higher ones are let go first */
    bool preferred;    /* asks the leader for a transfer once per TTL */
    bool observer;     /* never contends; only leader_changed comes */
    enum bw_overdue overdue;
    void *context; /* for the callbacks */
};

static inline struct bw_campaign_options bw_campaign_options_default(void)
{
    struct bw_campaign_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

#define BW_FOREVER INT64_C(-1)

/* Contends for `election` and waits until it leads, at most timeout_ms (0: takes it only if it is
 * free; BW_FOREVER). 0: *out leads, and must be ended by bw_resign. BW_ETIMEDOUT: it does not, and
 * is no candidate any more. BW_EIO: the same, because the store does not answer or refuses.
 * BW_ENOMEM: the same, because memory, threads, timers or descriptors ran out. bw_why() names the
 * leader or the cause. BW_EINTERRUPTED; BW_EINVAL: name, value or times, or an observer. No
 * `elected` is called for it, but `lost` and leader_changed are. Not from a callback on the
 * library's thread (BW_EINVAL). */
int bw_campaign(struct bw_handle *h, const char *election,
                const struct bw_campaign_options *options, int64_t timeout_ms,
                struct bw_leadership **out);

/* Contends for `election` from now on, again after each loss, until bw_resign. Does not wait. */
int bw_contend(struct bw_handle *h, const char *election, const struct bw_campaign_options *options,
               struct bw_leadership **out);

/* My work has ended (or never began): gives the leadership back if there is one, and goes on
 * contending; others have the first try. Does not wait for the store. */
int bw_release(struct bw_leadership *l);

/* My work has ended: gives the leadership back if there is one, ends the candidacy and frees `l`.
 * Waits until the store has answered, or until the lease has run out by itself while the store is
 * away. Called from a callback for its own or another leadership it does not wait on the library's
 * thread; `l` must not be used afterwards all the same. Returns 0 or BW_EFORKED. NULL is nothing.
 */
int bw_resign(struct bw_leadership *l);

/* Asks the candidate `successor` to take over; when it is ready, the leadership is lost with
 * TRANSFERRED. If it refuses or is silent for a TTL, nothing happens. BW_ENOTLEADER. */
int bw_transfer(struct bw_leadership *l, const char *successor);

/* The answer to `prepare`: ready to take over, or not: then the leader stays. Nothing happens if
 * nobody asked. */
int bw_prepared(struct bw_leadership *l, bool ready);

/* Is this program fit to lead? It is until it says otherwise. Unfit it does not contend, and a
 * leadership is lost with UNHEALTHY; fit again it contends, after those who waited. Say it from
 * whatever checks your health, as often as you like; a change alone does something. */
int bw_healthy(struct bw_leadership *l, bool healthy);

/* ---- what holds now ---- */

/* May leader's work be done at this instant? From the deadline, on CLOCK_BOOTTIME; costs less than
 * a microsecond. The answer is true for the instant of asking only. */
bool bw_is_leader(const struct bw_leadership *l);

/* Milliseconds until the work must have ended, rounded down; 0: no leadership, or too late. While
 * leading it grows with each renewal; once lost, it is what is left to clean up. */
int64_t bw_valid_ms(const struct bw_leadership *l);

/* The fencing token of this leadership; 0: none is held, or the store gives none. */
uint64_t bw_token(const struct bw_leadership *l);

/* Why the last leadership was lost; NONE while leading or before the first. */
enum bw_loss bw_reason(const struct bw_leadership *l);

/* The election's name; valid as long as `l`. */
const char *bw_election(const struct bw_leadership *l);

/* Waits until the leadership is lost, at most timeout_ms. 0: lost (also by the clock alone);
 * BW_ETIMEDOUT: still leading; BW_EINTERRUPTED. */
int bw_wait_lost(struct bw_leadership *l, int64_t timeout_ms);

struct bw_leader_info {
    size_t size;      /* set before the call */
    char id[64];      /* "" = nobody leads */
    uint64_t token;   /* 0: none */
    char value[1024]; /* as the leader published it */
};

static inline struct bw_leader_info bw_leader_info_default(void)
{
    struct bw_leader_info info;
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    return info;
}

/* Asks the store who leads an election, ours or not. BW_EIO: it does not answer (waits a sixth of
 * the TTL at most); BW_EINVAL. Not from a callback on the library's thread (BW_EINVAL). */
int bw_leader(struct bw_handle *h, const char *election, struct bw_leader_info *out);

/* ---- a loop of your own ---- */

/* A descriptor to poll for reading, with options.pollable. It stays the handle's: do not read or
 * close it. -1: not pollable, or in a forked child. */
int bw_fd(const struct bw_handle *h);

/* Calls the callbacks that are due, in this thread; never waits. One thread at a time. Returns how
 * many were called, or an error. */
int bw_dispatch(struct bw_handle *h);

/* ---- run this while I lead ---- */

struct bw_cancel; /* valid until the task returns */

/* A task. It returns soon after it is cancelled; what it returns goes to options.result. */
typedef int (*bw_task)(struct bw_cancel *cancel, void *arg);

struct bw_run_options {
    size_t size;
    const struct bw_campaign_options *campaign; /* value, priority, TTL, overdue; may be NULL */
    int64_t wait_ms;      /* how long to wait for the leadership; default and BW_FOREVER: for ever;
                             BW_NO_WAIT: not at all */
    bool again;           /* after a loss contend again, until the task ends by itself */
    int *result;          /* what the task returned last */
    enum bw_loss *reason; /* why the leadership was lost, with BW_ENOTLEADER and BW_EOVERDUE */
};

#define BW_NO_WAIT INT64_C(-2)

static inline struct bw_run_options bw_run_options_default(void)
{
    struct bw_run_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    return options;
}

/* Waits for the leadership, runs the task in this thread while the library renews beside it, and
 * gives the leadership back after the task has returned, never before. When the leadership is lost
 * the task is cancelled; when it has not returned by the deadline, the process is aborted before
 * the lease can pass on (campaign.overdue: or not). `options` may be NULL.
 *
 * 0: the task ended by itself. BW_ENOTLEADER: the leadership was lost, the task returned in time.
 * BW_EOVERDUE: it returned too late (only with BW_OVERDUE_REPORT). BW_ETIMEDOUT, BW_EIO,
 * BW_EINTERRUPTED, BW_EINVAL, BW_ENOMEM: as bw_campaign; the task was not run. BW_EINTERRUPTED also
 * when the task returned after bw_interrupt. */
int bw_run_while_leader(struct bw_handle *h, const char *election, bw_task task, void *arg,
                        const struct bw_run_options *options);

/* Must the task end? From the deadline, as bw_is_leader. */
bool bw_cancelled(const struct bw_cancel *cancel);
/* A descriptor that is readable from then on. Do not read or close it. -1 in a forked child. */
int bw_cancel_fd(const struct bw_cancel *cancel);
/* Milliseconds until the task must have returned; see bw_valid_ms. */
int64_t bw_cancel_ms(const struct bw_cancel *cancel);
/* The leadership under which the task runs; do not end it. */
struct bw_leadership *bw_cancel_leadership(const struct bw_cancel *cancel);

/* ---- guards: storage that rejects former leaders ---- */

#ifndef BW_FENCE_GUARD_H /* as above */
#define BW_GUARD_WHY_MAX 511u

struct bw_guard;
struct sqlite3;

struct bw_guard_verdict {
    int error; /* 0: accepted; BW_ENOTOKEN: token is 0; BW_ESTALE: older than `highest`; BW_EBUSY:
                  newer, but a recovery is under way */
    uint64_t token;
    uint64_t highest; /* before this token */
    bool raise;       /* accepted and newer than any before */
};

/* The highest token ever accepted for the file `path`, kept durably beside it in PATH.guard. `why`
 * has BW_GUARD_WHY_MAX + 1 bytes. A guard is used by one thread at a time. */
int bw_guard_open(struct bw_guard **out, const char *path, char *why);
void bw_guard_close(struct bw_guard *guard); /* NULL is nothing */
/* 0: accepted, and every older token is refused from now on. BW_ESTALE: a newer leader was here:
 * stop. BW_ENOTOKEN, BW_EBUSY, BW_EDAMAGED, BW_EVERSION, BW_EIO. `verdict` may be NULL. */
int bw_guard_check(struct bw_guard *guard, uint64_t token, struct bw_guard_verdict *verdict,
                   char *why);
#endif

#ifndef BW_FENCE_GUARD_SQLITE_H
/* The same as a row of an SQLite database, checked in the transaction that writes: call it after
 * BEGIN and before the writes, roll back unless it returns 0. */
int bw_guard_sqlite_create(struct sqlite3 *db, char *why);
int bw_guard_sqlite(struct sqlite3 *db, const char *resource, uint64_t token,
                    struct bw_guard_verdict *verdict, char *why);
#endif

#ifdef __cplusplus
}
#endif

#endif
