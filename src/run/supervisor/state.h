/* Internals of the supervisor, shared by its files:
 *
 *   supervisor.c     the loop: timer, opening, closing
 *   lease.c          carries out the elector's actions
 *   store.c          connects the store and the elector, through the asker
 *   guardian_link.c  the guardian: messages, its death, its replacement
 *   hooks.c          hooks, standby command, health
 *   drain.c          obeys `bellwether drain`
 *   fence.c          fencing, and the output of the fence agent
 *   status_view.c    data for the status endpoint
 *   dashboard.c      data for its dashboard, and the leaderships that this candidate has seen
 *   history.c        writes these leaderships to the local history
 *   watchdog.c       sd_notify messages of the work
 *   signals.c        receives signals, reaps children */
#ifndef BW_RUN_SUPERVISOR_STATE_H
#define BW_RUN_SUPERVISOR_STATE_H

#include "os/sd_notify.h"
#include "run/drain/drain.h"
#include "run/guardian/guardian.h"
#include "run/guardian/guardian_message.h"
#include "run/status/history.h"
#include "run/status/http_server.h"
#include "run/status/tally.h"
#include "run/supervisor/cleanup.h"
#include "run/supervisor/side_command.h"
#include "run/supervisor/supervisor.h"
#include "store/asker/asker.h"

#include <uv.h>

/* State of the guardian. */
enum guardian_state {
    GUARDIAN_STARTING, /* the guardian has not created a containment yet */
    GUARDIAN_READY,
    GUARDIAN_LOST,  /* the guardian is dead; the supervisor kills the work that it left behind */
    GUARDIAN_ABSENT /* guardian and work are dead; a new guardian starts soon */
};

/* State of a health check that runs as a child process. */
struct health_check {
    struct supervisor *supervisor;
    const char *failed; /* message when it fails */
    bool good, runs, answered;
};

struct supervisor {
    const struct bw_run_config *config;
    struct bw_log log, guardian_log;
    uv_loop_t loop;
    uv_poll_t timer, signals, socket;
    int timer_fd, signal_fd, socket_fd;
    bw_time armed_at;
    bool loop_done;

    struct bw_asker *asker;
    struct bw_asker_client *asked; /* the elector */
    bool store_down, store_seen;
    char store_why[BW_WHY_MAX + 1]; /* why the store did not answer, the last time */
    bool store_refuses;             /* refused from the start, permanently: the run ends */
    bw_time open_at;                /* when to retry opening the store; NEVER: it is open */
    bool started;                   /* the elector has been started */

    struct bw_guardian_config guardian_config;
    enum guardian_state guardian;
    pid_t guardian_pid;
    bw_time restart_at, restart_pause_ns;
    bw_time ack_due;   /* an ARM is unacknowledged; kill the guardian at this time */
    bw_time ready_due; /* STARTING: kill the guardian if it is not READY at this time */
    /* after the death of the guardian: since when no process of the work was found */
    bw_time unproved_since;
    char containment[BW_CONTAINMENT_MAX + 1], acquired_as[BW_CONTAINMENT_MAX + 1];
    struct bw_contain contain; /* the same containment, for our own use */
    bool contain_known;
    enum bw_contain_kind logged_kind;

    /* The current leadership. */
    bw_token token;       /* NONE: not leading, or the work is dead */
    bw_token armed_token; /* leadership for which the guardian is armed; NONE: not armed */
    struct bw_lease_schedule schedule;
    bool cleaning_up, settled, stopping, stuck_logged;
    bw_token settled_token; /* settled: of this leadership */
    bool prepare_due, elected_once;
    bw_time own_kill_at; /* kill the work ourselves if the guardian has not done so by then */
    struct bw_cleanup cleanup;
    pid_t work;

    /* Processes beside the work. */
    struct bw_children children;
    struct bw_health_progress progress;
    struct health_check by_command, by_http;
    bool local_checks_good, reported_healthy;
    struct bw_drain drain;
    bw_time drain_at; /* next look at the drain directory */
    bool fencing;
    uv_poll_t fence_output;    /* output of the running agent */
    int fence_fd, fence_write; /* pipe for that output; -1: none yet */
    size_t fence_line_length;
    char fence_last_line[200]; /* last line of the output, as far as received */
    bool fence_line_ended;     /* the next byte starts a new line */
    bw_time health_at;
    pid_t standby; /* 0: not running */
    bw_time standby_at, standby_kill_at;
    uv_poll_t notify;
    int notify_fd;
    bw_time notified;         /* when the work last sent WATCHDOG=1 */
    struct bw_notify manager; /* our own messages to the service manager */

    /* The status endpoint. */
    struct bw_status_server *http;      /* NULL: no endpoint */
    struct dashboard *dashboard;        /* dashboard.c; NULL: out of memory */
    struct bw_history_log *history_log; /* NULL: none */
    bw_time yes_from; /* a new leader reports that it leads only from this time on */
    uint64_t elections, losses[BW_HTTP_LOSSES];
    uint64_t splits; /* number of times two leaders were seen */
    struct bw_tally tally;
    bool recovering; /* --on-split-brain is running */

    /* The leader that --on-leader-change got last. At first the token is NONE and the leader "". */
    char announced_leader[BW_CANDIDATE_ID_MAX + 1], announced_value[BW_VALUE_MAX + 1];
    bw_token announced_token;
    bool vacant;                 /* there was no leader since then */
    enum bw_lease_loss own_loss; /* how our own last leadership ended; KEPT: we had none since */

    /* Shutdown. */
    bool finished; /* the work ended by itself, with 0 */
    bool ending;   /* shutting down with exit_code */
    bool urgent;   /* a second stop signal came: do not wait for hooks */
    int exit_code, stop_signal, signal_flags;
    bw_time give_up_at, close_at;
    bool stopped;
};

/* lease.c */
void bw_supervisor_step(struct supervisor *s, enum bw_lease_event_kind kind, bool yes);
void bw_supervisor_act(void *supervisor, const struct bw_lease_action *action);
void bw_supervisor_stepped(void *supervisor);
void bw_supervisor_work_dead(struct supervisor *s);
void bw_supervisor_cleanup(struct supervisor *s, bw_time now);
/* Shuts down cleanly with this exit code. The first call decides the code. */
void bw_supervisor_end(struct supervisor *s, int code);
/* Logs that this candidate was not elected in time and returns the exit code. `reached`: the store
 * answered. */
int bw_supervisor_give_up(struct supervisor *s, bool reached);

void bw_supervisor_cleanup_failed(struct supervisor *s);

/* hooks.c */
/* Environment entries of a hook. */
struct bw_hook_environment {
    char leader[BW_CANDIDATE_ID_MAX + 32], value[BW_VALUE_MAX + 32], token[64], reason[256],
        event[64];
};
void bw_supervisor_hook_environment(struct bw_hook_environment *environment, const char *event,
                                    const char *leader, const char *value, bw_token token,
                                    const char *reason);
int bw_supervisor_start(struct supervisor *s, struct bw_child_order *order,
                        struct bw_hook_environment *environment);
void bw_supervisor_hook(struct supervisor *s, const char *shell, const char *event,
                        const struct bw_lease_action *action);
void bw_supervisor_prepare(struct supervisor *s);
/* The leader changed, as far as this candidate can see: runs --on-leader-change or --on-vacant. */
void bw_supervisor_leader_changed(struct supervisor *s, const struct bw_lease_action *action);

/* Two leaders were seen: runs --on-split-brain, one at a time. */
void bw_supervisor_split(struct supervisor *s, const char *line);
void bw_supervisor_health_init(struct supervisor *s);
void bw_supervisor_health_tick(struct supervisor *s, bw_time now);
void bw_supervisor_update_health(struct supervisor *s);
/* True if the standby command does not run. Otherwise asks it to end. */
bool bw_supervisor_standby_over(struct supervisor *s);

/* drain.c */
/* Tells the service manager the leader, and whether this host is drained. */
void bw_supervisor_show_leader(struct supervisor *s, const char *leader);
void bw_supervisor_drain_look(struct supervisor *s);
void bw_supervisor_drain_tick(struct supervisor *s, bw_time now);

/* fence.c */
void bw_supervisor_fence(struct supervisor *s);
void bw_supervisor_fence_close(struct supervisor *s);

/* watchdog.c: sd_notify messages from the work. */
int bw_supervisor_notify_open(struct supervisor *s, char *out, size_t size);
int bw_supervisor_notify_listen(struct supervisor *s);
/* Reads the messages received so far. After a pause of the process, the loop runs its timers before
 * its sockets, so call this before concluding that the work is silent. */
void bw_supervisor_notify_read(struct supervisor *s);
bw_time bw_supervisor_beside_deadline(const struct supervisor *s);

/* status_view.c */
int bw_supervisor_http_open(struct supervisor *s);
void bw_supervisor_http_elected(struct supervisor *s, bw_time now);

/* history.c */
void bw_supervisor_history_open(struct supervisor *s);
/* Takes what bw_history_record returned. */
void bw_supervisor_history_changed(struct supervisor *s, const struct bw_history *history,
                                   unsigned changes);
void bw_supervisor_history_close(struct supervisor *s);

/* dashboard.c: if memory was exhausted at start, these do nothing */
void bw_supervisor_dashboard_open(struct supervisor *s);
void bw_supervisor_dashboard_reply(struct supervisor *s, const struct bw_store_reply *reply);
void bw_supervisor_dashboard_step_down(struct supervisor *s, const char *reason);
void bw_supervisor_dashboard_released(struct supervisor *s);
const struct bw_status_detail *bw_supervisor_detail(void *dashboard);
/* Call it before the store closes. */
void bw_supervisor_dashboard_close(struct supervisor *s);

/* store.c */
#define BW_RUN_GO (-1) /* no exit code yet */
/* Opens the store and creates the elector. A store that cannot be opened now is retried. Returns
 * BW_RUN_GO, or an exit code after logging an error. */
int bw_supervisor_store_open(struct supervisor *s);
void bw_supervisor_store_tick(struct supervisor *s, bw_time now);
void bw_supervisor_store_close(struct supervisor *s);

/* guardian_link.c */
int bw_supervisor_guardian_start(struct supervisor *s);  /* forks it */
int bw_supervisor_guardian_listen(struct supervisor *s); /* adds it to the loop */
/* Starts the elector once the store is open and a containment exists. */
void bw_supervisor_begin(struct supervisor *s);
/* Returns 0, also if there is no guardian now; -1 if the message is lost. */
int bw_supervisor_send(struct supervisor *s, struct bw_wire wire, int passed);
/* Ends the link to the guardian if the message cannot be sent. Then the guardian kills the work and
 * exits, and the supervisor ends the leadership and starts a new guardian. */
void bw_supervisor_send_or_part(struct supervisor *s, struct bw_wire wire);
void bw_supervisor_arm(struct supervisor *s);
/* The death notices have changed: sends the new ones to the guardian. */
void bw_supervisor_death_notices_changed(struct supervisor *s);
/* The guardian is about to create a containment: waits for READY, but not without a limit. */
void bw_supervisor_guardian_prepares(struct supervisor *s);
void bw_supervisor_guardian_dead(struct supervisor *s);
/* Children were reaped, so orphans of the work may now be children of this process. */
void bw_supervisor_guardian_orphans(struct supervisor *s);
void bw_supervisor_guardian_tick(struct supervisor *s, bw_time now);
bw_time bw_supervisor_guardian_deadline(const struct supervisor *s);

/* signals.c */
int bw_supervisor_signals_open(struct supervisor *s);
void bw_supervisor_block_signals(struct supervisor *s);

#endif
