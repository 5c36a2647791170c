/* `bellwether run --shards N`: the launcher. It enters the election as a candidate, observes the
 * other candidates, and runs one ordinary supervisor (supervisor.h: with its own guardian,
 * containment, health checks and hooks) as a child process for every shard that it contends for.
 * The launcher does not decide which candidate leads a shard: each shard is an election, NAME.0 to
 * NAME.(N-1), with its own lease.
 *
 * When the launcher dies, its supervisors receive SIGTERM (PR_SET_PDEATHSIG, and a check of the
 * parent afterwards) and shut down cleanly. The supervisors of a peer receive SIGKILL instead
 * (spawn.c). */
#ifndef BW_RUN_SHARDS_SHARDS_H
#define BW_RUN_SHARDS_SHARDS_H

#include "run/event_log.h"
#include "run/health/health.h"

struct bw_shards_order {
    const char *store, *store_shown;
    const char *election, *id;
    uint32_t shards;
    bw_time ttl_ns, retry_ns;
    const char *drain_dir; /* directory of `bellwether drain`; NULL: BW_DRAIN_DIR */
    /* Health of the host, for `run`: as in struct bw_run_config. */
    const char *health_cmd, *health_http;
    struct bw_health_limits health;
    bw_time health_interval_ns;
    bool compares_clocks; /* needs a store that keeps the end of a lease as wall-clock time */
    enum bw_log_form log;
    /* true for `bellwether peer --shards`: the store is the peer in this process, and it assigns
     * the shards */
    bool is_peer;
    /* Command line of the supervisors: the options of `run` except election, id and shards, or all
     * options of `peer`; then the command. */
    char **options;
    int options_count;
    char **argv; /* NULL-terminated */
};

/* Runs until a signal arrives or all shards are done. Returns the exit code. */
int bw_shards_run(const struct bw_shards_order *order);

#endif
