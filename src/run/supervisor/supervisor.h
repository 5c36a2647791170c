/* The supervisor: `bellwether run`. It contends for one election, runs the command while it leads,
 * stops it in time, releases the leadership after confirmed death, and contends again.
 *
 * The lease elector (core/lease/lease.h) and the guardian (core/guardian/guardian.h) decide. This
 * folder connects them with the store, signals and processes.
 *
 * Model: Linux. The supervisor may be stopped or killed at any instant; the guardian then ends the
 * work. The guardian may be stopped or killed at any instant; the supervisor then ends the work. */
#ifndef BW_RUN_SUPERVISOR_SUPERVISOR_H
#define BW_RUN_SUPERVISOR_SUPERVISOR_H

#include "core/lease/lease.h"
#include "run/contain/contain.h"
#include "run/event_log.h"
#include "run/health/health.h"

#define BW_RUN_EXIT_DATA        65
#define BW_RUN_EXIT_UNREACHABLE 69
#define BW_RUN_EXIT_DISK        74
#define BW_RUN_EXIT_NOT_ELECTED 75
#define BW_RUN_EXIT_LOST        76

struct bw_run_config {
    const char *path; /* name of the command in messages: "bellwether run" */
    const char *store_down_text, *store_up_text; /* "the store does not answer", "... again" */
    const char *store_error_prefix; /* prefix of an error about the store: "--store: " */
    bool promise;                   /* at start, log what the store guarantees */
    const char *store;              /* URL to open */
    const char *store_shown;        /* the same URL without secrets, for the work and for people */
    /* File that holds the URL with its secrets, for the work; NULL: none. */
    const char *store_file;
    const char *election, *id, *value;
    struct bw_lease_terms terms;
    bw_time renew_ns, grace_ns, retry_ns;
    bw_time wait_ns; /* NEVER: no limit */
    bool no_wait, once, preferred;
    uint32_t priority;
    uint32_t exit_not_elected;
    enum bw_contain_kind containment;
    enum bw_log_form log;
    /* Shell commands; NULL: none. */
    const char *standby; /* runs while not leading; ends before the work starts */
    const char *on_elected, *on_lost, *on_leader_change, *on_vacant, *on_prepare, *health_cmd;
    const char *on_split_brain; /* peers: runs after two leaders were seen, to recover from it */
    const char *health_http;    /* requested by GET; 2xx means healthy */
    bw_time health_interval_ns;
    struct bw_health_limits health;
    /* The work must send WATCHDOG=1 (sd_notify) at least this often; 0: need not. */
    bw_time watchdog_ns;
    const char *stonith;     /* a shell command; BELLWETHER_FENCE names the holder to fence */
    const char *fence_agent; /* alternative to stonith: the name of a fence agent */
    const char *fence_input; /* additional key=value lines for the agent */
    bw_time fence_within_ns;
    /* A shard of peers: the launcher obeys `bellwether drain`, and ends this supervisor. */
    bool ignores_drain;
    const char *drain_dir; /* directory of `bellwether drain`; NULL: BW_DRAIN_DIR */
    /* directory of the local history; NULL: the default, "none": no history */
    const char *history_dir;
    const char *http; /* address of the status endpoint (run/status/address.h); NULL: none */
    char **argv;      /* the command, NULL-terminated; NULL: none, a sidecar (needs http) */
};

/* Program name of a fence agent: "dummy" and "fence_dummy" both give fence_dummy. */
void bw_run_fence_program(const char *agent, char *out, size_t size);

/* True if a retry cannot open the store: the user must first change the URL, the file or its
 * permissions. */
bool bw_run_store_error_is_permanent(int error);
/* True for errors that, as the answer to the very first requests, will not go away: access denied,
 * or an unsupported operation or version. Once the store has worked, such an error does not end the
 * run. */
bool bw_run_store_refuses(int error);

/* Runs until the command ends, a signal arrives, or the configured limits are reached. Returns the
 * exit code. */
int bw_run(const struct bw_run_config *config);

#endif
