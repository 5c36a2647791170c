/* The guardian's decisions: when is the work started, killed, called dead, released?
 *
 * Pure: events with `now` in, actions out. The guardian is the work's parent and enforces the
 * deadline whatever happens to the supervisor. What it guarantees:
 *   - work runs only between ARM and the KILL instant that the supervisor last gave;
 *   - a leadership is released only after its containment was seen empty, and only by the guardian
 *     itself when the supervisor is gone;
 *   - a kill that has begun is never taken back;
 *   - last words (last_words.h) are said of a leadership whose supervisor is gone and whose work is
 *     dead, and of no other. */
#ifndef BW_RUN_GUARDIAN_CORE_H
#define BW_RUN_GUARDIAN_CORE_H

#include "core/base/types.h"

enum bw_guardian_event_kind {
    BW_GUARDIAN_ARM,     /* a leadership: token, at = the KILL instant. Again: it moved on */
    BW_GUARDIAN_START,   /* start the work of `token` */
    BW_GUARDIAN_STOP,    /* tell the work to end (signal), KILL it at `at` at the latest */
    BW_GUARDIAN_SIGNAL,  /* pass a signal on */
    BW_GUARDIAN_KILL,    /* kill it now */
    BW_GUARDIAN_DISMISS, /* the leadership is over and released: forget it */
    BW_GUARDIAN_WORDS,   /* there are last words of `token` */
    BW_GUARDIAN_TIMER,   /* deadline() has come */
    BW_GUARDIAN_GONE,    /* the supervisor is dead, or wants no guardian any more */
    BW_GUARDIAN_EXITED,  /* the work's first process ended */
    BW_GUARDIAN_EMPTY,   /* nothing is left in the containment */
    BW_GUARDIAN_FAILED   /* the work could not be started: nothing of it exists */
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
    BW_GUARDIAN_DO_SIGNAL,  /* `signal` to everybody */
    BW_GUARDIAN_DO_KILL,    /* SIGKILL to everybody in the containment */
    BW_GUARDIAN_DO_CONFIRM, /* tell the supervisor: dead */
    BW_GUARDIAN_DO_REPORT,  /* tell: killed, and still not dead */
    BW_GUARDIAN_DO_RELEASE, /* give the leadership back, clean */
    BW_GUARDIAN_DO_SPEAK,   /* say the last words; datagrams get lost, so more than once */
    BW_GUARDIAN_DO_FORGET,  /* let the lock go, make the next containment */
    BW_GUARDIAN_DO_EXIT
};

#define BW_GUARDIAN_ACTIONS_MAX 4u

struct bw_guardian_actions {
    enum bw_guardian_action at[BW_GUARDIAN_ACTIONS_MAX];
    unsigned count;
    int signal;
    bw_token token; /* RELEASE: of which leadership */
};

enum bw_guardian_state {
    BW_GUARDIAN_IDLE,
    BW_GUARDIAN_ARMED, /* a leadership, nothing runs yet */
    BW_GUARDIAN_RUNNING,
    BW_GUARDIAN_ENDING, /* told to end, or its first process ended */
    BW_GUARDIAN_KILLING,
    BW_GUARDIAN_DEAD,    /* confirmed */
    BW_GUARDIAN_SPEAKING /* dead, and the supervisor is gone */
};

struct bw_guardian_core {
    enum bw_guardian_state state;
    bw_token token;
    bw_time kill_at;
    bw_time kill_after_ns; /* what is left behind by a work that ended may take this long */
    bw_time again_at;      /* KILLING: the next blow; SPEAKING: the words once more */
    bw_time pause_ns;
    bw_time killing_since;
    bool gone, exited, reported;
    bool words;      /* there are some, of this leadership */
    unsigned spoken; /* how often they were said */
};

/* The work that is left when its first process ends gets kill_after_ns. */
void bw_guardian_init(struct bw_guardian_core *core, bw_time kill_after_ns);

void bw_guardian_step(struct bw_guardian_core *core, const struct bw_guardian_event *event,
                      struct bw_guardian_actions *actions);

/* When TIMER is due; NEVER: not. */
bw_time bw_guardian_deadline(const struct bw_guardian_core *core);

const char *bw_guardian_state_name(enum bw_guardian_state state);

#endif
