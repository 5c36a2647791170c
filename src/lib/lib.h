/* Internals of the library.
 *
 *   options.c      reads options, fills in defaults, checks them
 *   handle.c       the handle and its thread: calls handed to it, opening, closing
 *   act.c          carries out the elector's actions on the library's thread
 *   cleanup.c      kills the work that earlier holders left running
 *   leadership.c   contend, release, resign; the current state
 *   event.c        queue of pending callbacks and their delivery
 *   task.c         bw_run_while_leader and its cancel token
 *   kill_timers.c  kernel timers that end work
 *   leader.c       reads the current leader from the store
 *
 * Fields marked T belong to the library's thread. Fields marked M are protected by the handle's
 * mutex. Fields marked A are atomic. All other fields are constant after creation. */
#ifndef BW_LIB_LIB_H
#define BW_LIB_LIB_H

#include "core/base/error.h"

/* Inside the library bw_token is a type, in the public header it is a function. The sources call
 * the function bw_token_of; only its symbol has the public name. */
#define bw_token bw_token_of
#include "bellwether.h"
#undef bw_token
uint64_t bw_token_of(const struct bw_leadership *l) __asm__("bw_token");

#include "core/lease/lease.h"
#include "run/contain/contain.h"
#include "store/asker/asker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <uv.h>

/* State of a leadership as the program sees it. */
enum stage {
    STAGE_CONTENDING, /* not leading */
    STAGE_LEADING,    /* elected, and the program was notified */
    STAGE_LOST,       /* lost; the program has not yet declared its work ended */
    STAGE_GONE        /* the candidacy is over, and the library's thread keeps no reference to it */
};

/* How the program learns that it leads. */
enum way { WAY_CALLBACKS, WAY_BLOCKING, WAY_TASK };

enum { EVENT_ELECTED = 1, EVENT_LOST = 2, EVENT_LEADER = 4, EVENT_PREPARE = 8 };

struct settings { /* settings of a leadership */
    struct bw_lease_terms terms;
    bw_time retry_ns, grace_ns;
};

/* A function to run on the library's thread. The caller's stack holds it. */
struct call {
    struct call *next;
    int (*run)(struct bw_handle *h, void *arg);
    void *arg;
    int result;
    bool done;
};

struct bw_handle {
    pid_t pid;
    char id[BW_CANDIDATE_ID_MAX + 1];
    struct bw_options options; /* a copy; its `id` is not used */
    uv_loop_t loop;            /* T */
    uv_async_t wake;           /* T; any thread may send to it */
    uv_prepare_t tidy;         /* T */
    struct bw_asker *asker;    /* T */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;          /* signalled when a field marked M changes */
    struct call *calls, **calls_end; /* M */
    /* M; only T changes it, and T reads it without the mutex */
    struct bw_leadership *all;
    struct bw_leadership *reap;                 /* T: ended, to be freed */
    unsigned busy;                              /* M: number of blocking calls in progress */
    bool closing;                               /* T: bw_close has ended every candidacy */
    struct bw_leadership *events, **events_end; /* M: leaderships with pending callbacks */
    struct bw_leadership *notifying;            /* M: leadership whose callback is running */
    pthread_t notifying_thread;                 /* M: thread of that callback */
    int event_fd;                               /* -1: the library's thread calls the callbacks */
    atomic_bool interrupted, interrupt_seen;
};

/* A candidacy in one election.
 *
 * Invariants:
 *   act_until != 0 implies stage == STAGE_LEADING
 *   act_until <= work_until
 *   token != BW_TOKEN_NONE implies stage is STAGE_LEADING or STAGE_LOST
 *   work_until is 0 before the elector receives WORK_DEAD */
struct bw_leadership {
    struct bw_handle *handle;
    struct bw_leadership *next; /* M: in handle->all */
    struct settings settings;
    char election[BW_ELECTION_NAME_MAX + 1];
    char *value; /* owned */
    int32_t priority;
    bool preferred, observer;
    enum way way;
    bool aborts; /* abort the process when the work is overdue */
    void *context;

    struct bw_asker_client *asked; /* T: its elector */
    bool ending;                   /* T: STOP was sent to the elector */
    /* T: the program itself released it, so `lost` is not called */
    bool voluntary;
    bool left;                         /* T: the elector has reported STOPPED */
    bool reaping;                      /* T */
    struct bw_leadership *reap_next;   /* T */
    struct bw_lease_schedule schedule; /* T */
    /* T: token; the cleanup of earlier work may still be running */
    bw_token granted;
    bool settled; /* T: no earlier holder's work is unconfirmed any more */
    /* T: the program was asked to prepare, and has not answered */
    bool preparing;
    struct cleanup *cleanup; /* T: cleanup in progress, or NULL */
    timer_t kill_timer;      /* exists if `aborts` is set */
    int cancel_fd;           /* timerfd of a task, or -1 */

    enum stage stage;                 /* M; only T changes it, and T reads it without the mutex */
    enum bw_loss reason;              /* M: reason of the last loss */
    bool resigned;                    /* M: bw_resign was called */
    bool free_when_gone;              /* M: T frees it when the candidacy is over */
    struct bw_leadership *close_next; /* M: list of candidacies that bw_close ended and frees */
    bool answered;                    /* M: the store has answered at least once */
    bool decided;                     /* M: it waits for another leader or for the store */
    enum bw_store_op failed_op;       /* M: operation that failed, if `failure` is set */
    /* M: error of that operation; 0: none, or it has succeeded since */
    int failure;
    char failure_why[BW_WHY_MAX + 1]; /* M */
    unsigned events;                  /* M: pending events, a set of EVENT_ bits */
    struct bw_leadership *event_next; /* M */
    bool event_queued;                /* M */
    char leader[BW_CANDIDATE_ID_MAX + 1], leader_value[BW_VALUE_MAX + 1]; /* M */
    bw_token leader_token;                                                /* M */

    _Atomic int64_t act_until;  /* A: leader's work is allowed before this time; 0: not leading */
    _Atomic int64_t work_until; /* A: the work must have ended by this time; 0: no work */
    _Atomic uint64_t token;     /* A */
    _Atomic int deadline_loss;  /* A: enum bw_loss: why it is lost if the deadline passes now */
};

/* options.c */
int bw_lib_options(struct bw_handle *h, const struct bw_options *options);
int bw_lib_settings(const struct bw_handle *h, int64_t ttl_ms, struct settings *out);
/* Makes a complete copy of an option struct whose size may differ from this library's version.
 * `from` may be NULL. Only this function reads such a struct of the program; all other code uses
 * the copy. Returns 0, or BW_EINVAL if the size is not set. */
int bw_lib_copy(void *out, size_t size, const void *from);

/* handle.c */
void bw_lib_set_why(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets the text of bw_why() and evaluates to the error. */
#define bw_lib_fail(error, ...) (bw_lib_set_why(__VA_ARGS__), (error))
/* 0 or BW_EFORKED. */
int bw_lib_check(const struct bw_handle *h);
bool bw_lib_on_thread(const struct bw_handle *h);
/* Runs `run` on the library's thread and returns its result. Called on that thread, it runs it
 * directly. */
int bw_lib_call(struct bw_handle *h, int (*run)(struct bw_handle *h, void *arg), void *arg);
/* Waits for `changed`, at most until `until` (BOOTTIME; or NEVER). The caller holds the mutex. */
void bw_lib_wait(struct bw_handle *h, bw_time until);
bw_time bw_lib_until(int64_t timeout_ms);

/* act.c; T */
extern const struct bw_asker_client_hooks bw_lib_hooks;
void bw_lib_work_ended(struct bw_leadership *l);
void bw_lib_end(struct bw_leadership *l);
void bw_lib_reap(struct bw_handle *h);

/* cleanup.c; T. bw_lib_cleanup_begin returns NULL if there is no memory. BUSY: call
 * bw_lib_cleanup_step again after a millisecond. FAILED: a process did not die in time. */
enum cleanup_state { CLEANUP_BUSY, CLEANUP_DONE, CLEANUP_FAILED };
struct cleanup *bw_lib_cleanup_begin(const char *unconfirmed, const char *previous,
                                     const char *containment, bw_time until);
enum cleanup_state bw_lib_cleanup_step(struct cleanup *cleanup, bw_time now);

/* leadership.c */
/* `options` is a complete copy made by bw_lib_copy. */
int bw_lib_contend(struct bw_handle *h, const char *election,
                   const struct bw_campaign_options *options, enum way way,
                   struct bw_leadership **out);
int bw_lib_await(struct bw_leadership *l, int64_t timeout_ms);
void bw_lib_free(struct bw_leadership *l);
/* Waits until the candidacy has ended and no other thread runs one of its callbacks, then frees
 * it. */
void bw_lib_free_when_gone(struct bw_leadership *l);
bool bw_lib_led(const struct bw_leadership *l);
enum bw_loss bw_lib_reason(const struct bw_leadership *l); /* M; see bw_reason */

/* event.c */
void bw_lib_queue_event(struct bw_leadership *l, unsigned event); /* M */
void bw_lib_drop_event(struct bw_leadership *l, unsigned event);  /* M */
int bw_lib_dispatch(struct bw_handle *h);

/* kill_timers.c */
int bw_lib_deadline_open(struct bw_leadership *l);
void bw_lib_deadline_set(struct bw_leadership *l); /* T: call it after l->schedule has changed */
void bw_lib_deadline_clear(struct bw_leadership *l);
void bw_lib_deadline_cancel(struct bw_leadership *l);
void bw_lib_deadline_close(struct bw_leadership *l);
void bw_lib_deadline_abort(struct bw_leadership *l);

#endif
