/* Decisions of the guardian: when the work is started, killed, declared dead and released.
 *
 * The guardian is the parent process of the work. It enforces the deadline whatever happens to the
 * supervisor. The functions are pure: events with `now` in, actions out.
 *
 * Guarantees:
 * - Work runs only between ARM and the KILL time that the supervisor gave last.
 * - A leadership is released only after its containment was seen empty. The guardian itself
 *   releases it only if the supervisor is gone.
 * - A kill that has begun is never cancelled.
 * - The guardian sends the death notice (run/guardian/death_notice.h) only for a leadership whose
 *   supervisor is gone and whose work is dead. */
#ifndef BW_CORE_GUARDIAN_GUARDIAN_H
#define BW_CORE_GUARDIAN_GUARDIAN_H

#include "core/base/types.h"

enum bw_guardian_event_kind {
    BW_GUARDIAN_ARM,     /* the leadership `token` begins; its work must be killed at `at`. Again
                          * with the same token: the KILL time has moved to `at` */
    BW_GUARDIAN_START,   /* start the work of `token` */
    BW_GUARDIAN_STOP,    /* send `signal` to the work, and kill it at `at` if it still runs */
    BW_GUARDIAN_SIGNAL,  /* forward `signal` to the work */
    BW_GUARDIAN_KILL,    /* kill the work now */
    BW_GUARDIAN_DISMISS, /* the leadership is over and released */
    BW_GUARDIAN_NOTICE,  /* a death notice of `token` is available */
    BW_GUARDIAN_TIMER,   /* deadline() has passed */
    BW_GUARDIAN_GONE,    /* the supervisor is dead, or needs no guardian any more */
    BW_GUARDIAN_EXITED,  /* the work's first process exited */
    BW_GUARDIAN_EMPTY,   /* the containment is empty */
    BW_GUARDIAN_FAILED   /* the work could not be started: no process exists */
};

struct bw_guardian_event {
    enum bw_guardian_event_kind kind;
    bw_time now;
    bw_time at;
    bw_token token;
    int signal;
};

enum bw_guardian_action {
    BW_GUARDIAN_DO_SPAWN,
    BW_GUARDIAN_DO_SIGNAL,      /* `signal` to all processes */
    BW_GUARDIAN_DO_KILL,        /* SIGKILL to all processes in the containment */
    BW_GUARDIAN_DO_CONFIRM,     /* report to the supervisor: dead */
    BW_GUARDIAN_DO_REPORT,      /* report: killed, but still not dead */
    BW_GUARDIAN_DO_RELEASE,     /* release the leadership, clean */
    BW_GUARDIAN_DO_SEND_NOTICE, /* send the death notice; repeated, since datagrams get lost */
    BW_GUARDIAN_DO_FORGET,      /* release the lock, prepare the next containment */
    BW_GUARDIAN_DO_EXIT
};

#define BW_GUARDIAN_ACTIONS_MAX 4u

struct bw_guardian_actions {
    enum bw_guardian_action at[BW_GUARDIAN_ACTIONS_MAX];
    unsigned count;
    int signal;
    bw_token token; /* RELEASE: the leadership's token */
};

enum bw_guardian_state {
    BW_GUARDIAN_IDLE,
    BW_GUARDIAN_ARMED, /* we lead, but the work has not been started yet */
    BW_GUARDIAN_RUNNING,
    BW_GUARDIAN_ENDING, /* the work was asked to stop, or its first process exited */
    BW_GUARDIAN_KILLING,
    BW_GUARDIAN_DEAD,     /* the work is confirmed dead */
    BW_GUARDIAN_NOTIFYING /* work and supervisor are dead: sending the death notices */
};

/* Invariants:
 *   IDLE            token is BW_TOKEN_NONE, kill_at is NEVER, and no process of the work runs
 *   ARMED           no process of the work was started yet
 *   RUNNING         processes may run
 *   ENDING, KILLING processes may run; kill_at never moves to a later time
 *   DEAD            no process of the work runs
 *   NOTIFYING       the same; the supervisor is gone, and has_notice is set
 *   has_notice is set only for the current token */
struct bw_guardian_core {
    enum bw_guardian_state state;
    bw_token token;
    bw_time kill_at;
    bw_time kill_after_ns; /* time from the first process's exit until the others are killed */
    bw_time again_at;      /* KILLING: the next SIGKILL; NOTIFYING: the next death notice */
    bw_time pause_ns;
    bw_time killing_since;
    bool gone, exited, reported;
    bool has_notice; /* a death notice of this leadership is available */
    unsigned sent;   /* number of death notices sent */
};

/* `kill_after_ns`: when the work's first process exits, its other processes have this time to exit;
 * then they are killed. */
void bw_guardian_init(struct bw_guardian_core *core, bw_time kill_after_ns);

void bw_guardian_step(struct bw_guardian_core *core, const struct bw_guardian_event *event,
                      struct bw_guardian_actions *actions);

/* When TIMER is due, or BW_TIME_NEVER. */
bw_time bw_guardian_deadline(const struct bw_guardian_core *core);

const char *bw_guardian_state_name(enum bw_guardian_state state);

#endif
