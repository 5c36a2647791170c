/* `bellwether run --shards N`: the launcher. Enters the election as a candidate, follows who else
 * does, and keeps one ordinary supervisor (supervisor.h: own guardian, containment, health, hooks)
 * in a process of its own for every shard that it contends for. Decides nothing about who leads:
 * each shard is an election, NAME.0 to NAME.(N-1), with its own lease.
 *
 * When the launcher dies, its supervisors are told to end (PR_SET_PDEATHSIG with SIGTERM, the
 * parent looked at again after it) and do so in good order. */
#ifndef BW_RUN_SHARDS_H
#define BW_RUN_SHARDS_H

#include "run/log.h"

struct bw_shards_order {
    const char *store, *store_shown;
    const char *election, *id;
    uint32_t shards;
    bw_time ttl_ns, retry_ns;
    bool compares_clocks; /* needs a store that keeps ends by wall clock */
    enum bw_log_form log;
    bool told; /* `bellwether peer`: the store is a peer of our own, and says which shards are ours
                */
    /* Options: of `run` without election, id and shards; of `peer` all. And the command. */
    char **options;
    int options_count;
    char **argv; /* NULL-terminated */
};

/* Runs until a signal came or all shards are done. Returns the exit code. */
int bw_shards_run(const struct bw_shards_order *order);

#endif
