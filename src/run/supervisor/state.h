/* The supervisor's insides, shared by its files:
 *   supervisor.c           the loop: timer, opening, closing
 *   lease.c     the elector's actions, carried out in order
 *   store.c     the store and the elector, by the asker
 *   guardian.c  the guardian: messages, its death, its replacement
 *   beside.c    hooks, health
 *   fence.c     fencing, and what the agent said
 *   http.c      what the status endpoint sees
 *   notify.c    sd_notify messages of the work
 *   signals.c   signals in, children reaped */
#ifndef BW_RUN_SUPERVISOR_STATE_H
#define BW_RUN_SUPERVISOR_STATE_H

#include "run/guardian/guardian.h"
#include "run/guardian/wire.h"
#include "run/health/child.h"
#include "run/status/http.h"
#include "run/supervisor/clear.h"
#include "run/supervisor/supervisor.h"
#include "store/asker/asker.h"

#include <uv.h>

/* What the guardian is to us. */
enum guardian_state {
    GUARDIAN_STARTING, /* no containment yet */
    GUARDIAN_READY,
    GUARDIAN_LOST,  /* dead; what it left behind is being killed by us */
    GUARDIAN_ABSENT /* dead, nothing left; a new one starts soon */
};

/* Health as a child says it. */
struct health_check {
    struct supervisor *supervisor;
    const char *failed; /* the sentence */
    bool good, runs, answered;
};

struct supervisor {
    const struct bw_run_config *config;
    struct bw_log log;
    uv_loop_t loop;
    uv_poll_t timer, signals, socket;
    int timer_fd, signal_fd, socket_fd;
    bw_time armed_at;
    bool loop_done;

    struct bw_asker *asker;
    struct bw_asked *asked; /* the elector */
    bool store_away, store_seen;
    bool store_refuses; /* from the start, and for good: the run ends */
    bw_time open_at;    /* when opening it is tried again; NEVER: it is open */
    bool started;       /* the elector */

    struct bw_guardian_config guardian_config;
    enum guardian_state guardian;
    pid_t guardian_pid;
    bw_time restart_at, restart_pause_ns;
    bw_time ack_due;        /* an ARM is unanswered */
    bw_time unproved_since; /* the guardian is dead: since when nobody of the work was found */
    char containment[BW_CONTAINMENT_MAX + 1], acquired_as[BW_CONTAINMENT_MAX + 1];
    struct bw_contain contain; /* the same, for our own hands */
    bool contain_known;
    enum bw_contain_kind said_kind;

    /* The leadership we have. */
    bw_token token;       /* NONE: none, or the work is dead */
    bw_token armed_token; /* what the guardian was armed for and not yet dismissed from */
    struct bw_lease_schedule schedule;
    bool clearing_now, settled, told_to_end, stuck_said;
    bool prepare_due, elected_once;
    bw_time strike_at; /* our own blow, when the guardian's is overdue */
    struct bw_clearing clearing;
    pid_t work;

    /* Beside the work. */
    struct bw_children children;
    struct bw_health_progress progress;
    struct health_check by_command, by_http;
    bool look_good, told_healthy;
    bool fencing;
    uv_poll_t fence_output;    /* what the one at work says */
    int fence_fd, fence_write; /* the pipe it says that by; -1: none yet */
    size_t fence_said_count;
    char fence_said[200]; /* the last line of it, as far as it has come */
    bool fence_line_over; /* the next byte begins a new one */
    bw_time health_at;
    pid_t standby; /* 0: does not run */
    bw_time standby_at, standby_kill_at;
    uv_poll_t notify;
    int notify_fd;
    bw_time notified; /* when the work last said that it lives */

    /* The status endpoint. */
    struct bw_http *http; /* NULL: none */
    bw_time yes_from;     /* a leader says so from here on */
    uint64_t elections, losses[BW_HTTP_LOSSES];
    uint64_t splits; /* two leaders seen */
    bool recovering; /* --on-split-brain runs */

    /* The end. */
    bool finished; /* the work ended by itself, with 0 */
    bool ending;   /* exit_code counts */
    bool hurried;  /* told to end twice: hooks are not waited for */
    int exit_code, stop_signal, signal_flags;
    bw_time give_up_at, close_at;
    bool stopped;
};

/* lease.c */
void bw_supervisor_step(struct supervisor *s, enum bw_lease_event_kind kind, bool yes);
void bw_supervisor_act(void *supervisor, const struct bw_lease_action *action);
void bw_supervisor_stepped(void *supervisor);
void bw_supervisor_work_dead(struct supervisor *s);
void bw_supervisor_clear(struct supervisor *s, bw_time now);
/* Ends with this code, in good order; the first code counts. */
void bw_supervisor_end(struct supervisor *s, int code);
/* Not elected in time: says so, and returns the exit code. reached: the store was. */
int bw_supervisor_give_up(struct supervisor *s, bool reached);

void bw_supervisor_cannot_clear(struct supervisor *s);

/* beside.c */
struct bw_hook_words { /* entries of a hook's environment */
    char leader[BW_CANDIDATE_ID_MAX + 32], value[BW_VALUE_MAX + 32], token[64], reason[256],
        event[64];
};
void bw_supervisor_words(struct bw_hook_words *words, const char *event, const char *leader,
                         const char *value, bw_token token, const char *reason);
int bw_supervisor_start(struct supervisor *s, struct bw_child_order *order,
                        struct bw_hook_words *words);
void bw_supervisor_hook(struct supervisor *s, const char *shell, const char *event,
                        const struct bw_lease_action *action);
void bw_supervisor_prepare(struct supervisor *s);
/* Two lead or led: --on-split-brain, one at a time. */
void bw_supervisor_split(struct supervisor *s, const char *line);
void bw_supervisor_health_init(struct supervisor *s);
void bw_supervisor_health_tick(struct supervisor *s, bw_time now);
void bw_supervisor_judge_health(struct supervisor *s);
/* True when the standby command is not there (any more); else it is told to end. */
bool bw_supervisor_standby_over(struct supervisor *s);

/* fence.c */
void bw_supervisor_fence(struct supervisor *s);
void bw_supervisor_fence_close(struct supervisor *s);

/* notify.c: sd_notify messages of the work. */
int bw_supervisor_notify_open(struct supervisor *s, char *out, size_t size);
int bw_supervisor_notify_listen(struct supervisor *s);
/* What has come so far. A loop that stood still runs its timers before it looks at its sockets:
 * ask this before the work is taken for silent. */
void bw_supervisor_notify_read(struct supervisor *s);
bw_time bw_supervisor_beside_deadline(const struct supervisor *s);

/* http.c */
int bw_supervisor_http_open(struct supervisor *s);
void bw_supervisor_http_elected(struct supervisor *s, bw_time now);

/* store.c */
#define BW_RUN_GO (-1) /* no exit code yet */
/* Opens the store and makes the elector. A store that cannot be opened now is tried again.
 * BW_RUN_GO, or the exit code after a line. */
int bw_supervisor_store_open(struct supervisor *s);
void bw_supervisor_store_tick(struct supervisor *s, bw_time now);
void bw_supervisor_store_close(struct supervisor *s);

/* guardian.c */
int bw_supervisor_guardian_start(struct supervisor *s);  /* forks it */
int bw_supervisor_guardian_listen(struct supervisor *s); /* joins it to the loop */
/* Starts the elector, once there are a store and a containment. */
void bw_supervisor_begin(struct supervisor *s);
void bw_supervisor_tell(struct supervisor *s, struct bw_wire wire, int passed);
void bw_supervisor_arm(struct supervisor *s);
/* What is said if we die is another thing from now on. */
void bw_supervisor_words_changed(struct supervisor *s);
void bw_supervisor_guardian_dead(struct supervisor *s);
/* Children have been waited for: others may be ours now. */
void bw_supervisor_guardian_orphans(struct supervisor *s);
void bw_supervisor_guardian_tick(struct supervisor *s, bw_time now);
bw_time bw_supervisor_guardian_deadline(const struct supervisor *s);

/* signals.c */
int bw_supervisor_signals_open(struct supervisor *s);
void bw_supervisor_block_signals(struct supervisor *s);

#endif
