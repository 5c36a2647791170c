/* The supervisor: `bellwether run`. Contends for one election, runs the command while it leads,
 * stops it in time, releases after confirmed death, contends again.
 *
 * Decisions are the lease elector's (core/lease/lease.h) and the guardian's
 * (core/guardian/guardian.h); here is the loop between them, the store, signals and processes.
 * Model: Linux; the supervisor may be stopped or killed at any instant (the guardian then ends the
 * work), as may the guardian (the supervisor then does). */
#ifndef BW_RUN_SUPERVISOR_H
#define BW_RUN_SUPERVISOR_H

#include "core/lease/lease.h"
#include "run/contain/contain.h"
#include "run/health/health.h"
#include "run/log.h"

#define BW_RUN_EXIT_DATA        65
#define BW_RUN_EXIT_UNREACHABLE 69
#define BW_RUN_EXIT_DISK        74
#define BW_RUN_EXIT_NOT_ELECTED 75
#define BW_RUN_EXIT_LOST        76

struct bw_run_config {
    const char *path; /* of the command, for lines about it: "bellwether run" */
    const char *store_away_said, *store_back_said; /* "the store does not answer", "... again" */
    const char *store_said;  /* what a line about the store begins with behind that: "--store: " */
    bool promise;            /* say at start what the store promises */
    const char *store;       /* URL as the store is opened */
    const char *store_shown; /* the same without secrets: for the work and for people */
    const char *store_file;  /* where it stands with them; NULL: nowhere. For the work */
    const char *election, *id, *value;
    struct bw_lease_terms terms;
    bw_time renew_ns, grace_ns, retry_ns;
    bw_time wait_ns; /* NEVER: for ever */
    bool no_wait, once, preferred;
    uint32_t priority;
    uint32_t exit_not_elected;
    enum bw_contain_kind containment;
    enum bw_log_form log;
    /* Shell lines; NULL: none. */
    const char *standby; /* runs while not leading, ends before the work starts */
    const char *on_elected, *on_lost, *on_leader_change, *on_prepare, *health_cmd;
    const char *on_split_brain; /* among peers: two led; takes the steps of a recovery */
    const char *health_http;    /* asked by GET; 2xx: fit */
    bw_time health_interval_ns;
    struct bw_health_limits health;
    bw_time watchdog_ns;     /* the work must say WATCHDOG=1 (sd_notify) this often; 0: need not */
    const char *stonith;     /* a shell line; BELLWETHER_FENCE names the holder to fence */
    const char *fence_agent; /* or an agent's name */
    const char *fence_input; /* more key=value lines for it */
    bw_time fence_within_ns;
    const char *http; /* where status is served, as in run/status/address.h; NULL: nowhere */
    char **argv;      /* the command, NULL-terminated; NULL: none, a sidecar (needs http) */
};

/* The program of a fence agent: "dummy" and "fence_dummy" are fence_dummy. */
void bw_run_fence_program(const char *agent, char *out, size_t size);

/* Opening a store failed so that waiting would not help: the URL, the file or its rights must be
 * changed first. */
bool bw_run_store_error_lasts(int error);
/* What a store answers to the very first requests, and would to all others: it does not let us in,
 * or cannot do what is asked. Later such an answer ends nobody. */
bool bw_run_store_refuses(int error);

/* Runs until the command ended, a signal came, or what config says. Returns the exit code. */
int bw_run(const struct bw_run_config *config);

#endif
