/* The library's insides.
 *   options.c     options read, defaults, checks
 *   handle.c      the handle and its thread: calls handed to it, opening, closing
 *   act.c         what the elector decides, carried out on the library's thread
 *   clear.c       what earlier holders left running
 *   leadership.c  contending, releasing, resigning; what holds now
 *   event.c       callbacks: who has something to be told, and telling it
 *   task.c        bw_run_while_leader and its cancel token
 *   deadline.c    the kernel's timers that end work
 *   leader.c      asking the store who leads
 *
 * Who may touch what: fields marked T belong to the library's thread; M: under the handle's mutex;
 * A: atomic; the rest does not change after it was made. */
#ifndef BW_LIB_LIB_H
#define BW_LIB_LIB_H

#include "core/base/error.h"

/* bw_token is a type inside and a function outside: here the function goes by another name, and
 * only its symbol is called as the header says. */
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

/* What a leadership is to the program. */
enum stage {
    STAGE_CONTENDING, /* not led */
    STAGE_LEADING,    /* elected, and said so */
    STAGE_LOST,       /* told to stop; the program has not said yet that its work has ended */
    STAGE_GONE        /* the candidacy is over, nothing of it is left on the library's thread */
};

enum way { WAY_CALLBACKS, WAY_BLOCKING, WAY_TASK }; /* how the program hears that it leads */

enum { EVENT_ELECTED = 1, EVENT_LOST = 2, EVENT_LEADER = 4, EVENT_PREPARE = 8 };

struct settings { /* of a leadership */
    struct bw_lease_terms terms;
    bw_time retry_ns, grace_ns;
};

struct call { /* something to be done on the library's thread; on the caller's stack */
    struct call *next;
    int (*run)(struct bw_handle *h, void *arg);
    void *arg;
    int result;
    bool done;
};

struct bw_handle {
    pid_t pid;
    char id[BW_CANDIDATE_ID_MAX + 1];
    struct bw_options options; /* copied; `id` is not used */
    uv_loop_t loop;            /* T */
    uv_async_t wake;           /* T; sending is for everybody */
    uv_prepare_t tidy;         /* T */
    struct bw_asker *asker;    /* T */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;                     /* any field marked M */
    struct call *calls, **calls_end;            /* M */
    struct bw_leadership *all;                  /* M; changed by T only, which reads it without */
    struct bw_leadership *reap;                 /* T: over, to be cleared away */
    unsigned busy;                              /* M: blocking calls inside */
    bool closing;                               /* T: bw_close has ended every candidacy */
    struct bw_leadership *events, **events_end; /* M: who has something to be told */
    struct bw_leadership *telling;              /* M: whose callback runs */
    pthread_t teller;                           /* M: where */
    int event_fd;                               /* -1: callbacks come from the library's thread */
    atomic_bool interrupted, interrupt_seen;
};

struct bw_leadership {
    struct bw_handle *handle;
    struct bw_leadership *next; /* M: in handle->all */
    struct settings settings;
    char election[BW_ELECTION_NAME_MAX + 1];
    char *value; /* owned */
    int32_t priority;
    bool preferred, observer;
    enum way way;
    bool aborts; /* when overdue */
    void *context;

    struct bw_asked *asked;            /* T */
    bool ending;                       /* T: STOP was given */
    bool own_will;                     /* T: the program itself lets go: no `lost` */
    bool left;                         /* T: STOPPED came */
    bool reaping;                      /* T */
    struct bw_leadership *reap_next;   /* T */
    struct bw_lease_schedule schedule; /* T */
    bw_token granted;                  /* T: elected, perhaps still clearing */
    bool settled;                      /* T: nothing is owed any more */
    bool preparing;                    /* T: the program was asked whether it is ready */
    struct clearing *clearing;         /* T: while needed */
    timer_t kill_timer;                /* with aborts */
    int cancel_fd;                     /* timerfd of a task; else -1 */

    enum stage stage;                 /* M; changed by T only, which reads it without */
    enum bw_loss reason;              /* M: of the last loss */
    bool resigned;                    /* M: bw_resign has it */
    bool free_when_gone;              /* M */
    struct bw_leadership *close_next; /* M: ended by bw_close, which frees it */
    bool answered;                    /* M: the store has answered once */
    bool decided;                     /* M: it waits for others, or for the store */
    enum bw_store_op failed_op;       /* M: with `failure`: what the store did not do */
    int failure;                      /* M: why; 0: it has done so since */
    char failure_why[BW_WHY_MAX + 1]; /* M */
    unsigned events;                  /* M */
    struct bw_leadership *event_next; /* M */
    bool event_queued;                /* M */
    char leader[BW_CANDIDATE_ID_MAX + 1], leader_value[BW_VALUE_MAX + 1]; /* M */
    bw_token leader_token;                                                /* M */

    _Atomic int64_t act_until;  /* A: leader's work may be done before this; 0: not leading */
    _Atomic int64_t work_until; /* A: the work must have ended by this; 0: none */
    _Atomic uint64_t token;     /* A */
};

/* options.c */
int bw_lib_options(struct bw_handle *h, const struct bw_options *options);
int bw_lib_settings(const struct bw_handle *h, int64_t ttl_ms, struct settings *out);
/* A complete copy of an option struct that may be older or newer than this library; `from` may be
 * NULL. Only this function reads a struct of the program that has a size; the rest of the library
 * works on copies. Returns 0 or BW_EINVAL (the size is not set). */
int bw_lib_copy(void *out, size_t size, const void *from);

/* handle.c */
void bw_lib_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The error, with a sentence for bw_why(). */
#define bw_lib_fail(error, ...) (bw_lib_say(__VA_ARGS__), (error))
/* 0 or BW_EFORKED. */
int bw_lib_check(const struct bw_handle *h);
bool bw_lib_on_thread(const struct bw_handle *h);
/* Runs on the library's thread and waits for the result; at once when that is where we are. */
int bw_lib_call(struct bw_handle *h, int (*run)(struct bw_handle *h, void *arg), void *arg);
/* Waits for `changed` until `until` (BOOTTIME; NEVER). The mutex is held. */
void bw_lib_wait(struct bw_handle *h, bw_time until);
bw_time bw_lib_until(int64_t timeout_ms);

/* act.c; T */
extern const struct bw_asked_hooks bw_lib_hooks;
void bw_lib_work_ended(struct bw_leadership *l);
void bw_lib_end(struct bw_leadership *l);
void bw_lib_reap(struct bw_handle *h);

/* clear.c; T. NULL: no memory. BUSY: call again in a millisecond. FAILED: something does not die.
 */
enum clear_state { CLEAR_BUSY, CLEAR_DONE, CLEAR_FAILED };
struct clearing *bw_lib_clear_begin(const char *owed, const char *previous, const char *containment,
                                    bw_time until);
enum clear_state bw_lib_clear_step(struct clearing *clearing, bw_time now);

/* leadership.c */
/* `options` is complete: a copy made by bw_lib_copy. */
int bw_lib_contend(struct bw_handle *h, const char *election,
                   const struct bw_campaign_options *options, enum way way,
                   struct bw_leadership **out);
int bw_lib_await(struct bw_leadership *l, int64_t timeout_ms);
void bw_lib_free(struct bw_leadership *l);
/* Waits until the candidacy has ended and no other thread is in one of its callbacks. */
void bw_lib_free_when_gone(struct bw_leadership *l);
bool bw_lib_led(const struct bw_leadership *l);

/* event.c */
void bw_lib_tell(struct bw_leadership *l, unsigned event);   /* M */
void bw_lib_untell(struct bw_leadership *l, unsigned event); /* M */
int bw_lib_dispatch(struct bw_handle *h);

/* deadline.c */
int bw_lib_deadline_open(struct bw_leadership *l);
void bw_lib_deadline_set(struct bw_leadership *l); /* T: after l->schedule changed */
void bw_lib_deadline_clear(struct bw_leadership *l);
void bw_lib_deadline_cancel(struct bw_leadership *l);
void bw_lib_deadline_close(struct bw_leadership *l);
void bw_lib_deadline_abort(struct bw_leadership *l);

#endif
