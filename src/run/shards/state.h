/* Internals of the launcher, shared by its files:
 *
 *   shards.c       the loop: rounds, signals, start and end
 *   round.c        a round of requests to the store
 *   peer_shards.c  instead of rounds: our own peer assigns the shards
 *   spawn.c        supervisors as processes */
#ifndef BW_RUN_SHARDS_STATE_H
#define BW_RUN_SHARDS_STATE_H

#include "core/base/rng.h"
#include "core/shards/run_shards.h"
#include "os/sd_notify.h"
#include "run/drain/drain.h"
#include "run/shards/shards.h"
#include "run/supervisor/side_command.h"
#include "store/asker/asker.h"

#include <signal.h>
#include <sys/types.h>
#include <uv.h>

/* Step of a round. Only one request is in flight at a time. */
enum round_step {
    ROUND_IDLE,
    ROUND_ENTER,  /* announce which shards we run */
    ROUND_LEAVE,  /* this host is drained or unhealthy: others get its shards */
    ROUND_LIST,   /* list the candidates */
    ROUND_READ,   /* read the record of a shard */
    ROUND_WAITING /* list the candidates that wait for a shard that another one should lead */
};

/* A health check that runs as a child process. */
struct launcher_check {
    struct launcher *launcher;
    const char *failed; /* message when it fails */
    bool good, runs;
};

struct launcher {
    const struct bw_shards_order *order;
    struct bw_log log;
    uv_loop_t loop;
    struct peer_shards *peer_shards; /* NULL: use rounds */
    struct bw_asker *asker;
    struct bw_asker_client *asked;
    uv_poll_t signals;
    uv_timer_t opening; /* retries opening the store */
    int signal_fd;
    struct bw_notify manager; /* messages to the service manager */
    bool away, seen, refused; /* state of the store; refused: from the start, permanently */
    sigset_t mask;            /* signal mask at our start, for the supervisors */
    bool pipe_ignored;
    struct bw_rng rng;

    struct bw_shards core;
    pid_t pids[BW_SHARDS_MAX]; /* 0: none */

    enum round_step step;
    uint32_t current_shard; /* the shard of READ and WAITING */
    bw_time round_at, pause_until;
    /* when to send ENTER again: stores forget a candidate that does not renew its entry */
    bw_time enter_again_at;
    struct bw_drain drain;
    struct bw_children children; /* health checks */
    struct launcher_check by_command, by_http;
    bool local_checks_good, healthy;
    bw_time health_at; /* next checks; NEVER: none */
    bw_time drain_at;  /* peers: next look at the drain directory */
    bool entered, lists, mismatch_logged, refusal_logged;
    char value[BW_VALUE_MAX + 1], entered_value[BW_VALUE_MAX + 1];

    bw_time drain_until;  /* all shards are done, and announced until then; 0: not all */
    bool ending, leaving; /* leaving: a LEAVE request is in flight */
    int exit_code;
};

/* round.c */
void bw_launcher_round(struct launcher *l);
void bw_launcher_answer(struct launcher *l, const struct bw_store_reply *reply);

/* spawn.c: starts the supervisor of a shard and stores its pid in l->pids. Returns 0 or an
 * error. */
int bw_launcher_spawn(struct launcher *l, uint32_t shard);

/* health.c */
void bw_launcher_health_init(struct launcher *l);
void bw_launcher_health_tick(struct launcher *l, bw_time now);
bw_time bw_launcher_health_deadline(const struct launcher *l);
bool bw_launcher_is_healthy(const struct launcher *l);

/* drain.c: looks whether the host is drained, for a peer. */
void bw_launcher_drain_look(struct launcher *l, bw_time now);

/* shards.c */
/* True while a supervisor runs, or a dead one's shard waits to be released. */
bool bw_launcher_any_left(const struct launcher *l);
/* Carries out the current decisions, then sleeps until the next one is due. */
void bw_launcher_act(struct launcher *l);
/* Ends the launcher. Other candidates may take over our shards; they get each shard when its work
 * is confirmed dead. */
void bw_launcher_end(struct launcher *l, int code);
/* A supervisor has ended (`status` comes from wait), and there is no work of it left to wait
 * for. */
void bw_launcher_ended(struct launcher *l, uint32_t shard, int status);
void bw_launcher_end_shard(struct launcher *l, uint32_t shard, const char *reason);

#endif
