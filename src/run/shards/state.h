/* The launcher's insides, shared by its files:
 *   shards.c           the loop: rounds, signals, beginning and end
 *   round.c     a round of questions to the store
 *   told.c      instead of rounds: the store, a peer of our own, says which are ours
 *   spawn.c     supervisors as processes */
#ifndef BW_RUN_SHARDS_STATE_H
#define BW_RUN_SHARDS_STATE_H

#include "core/base/rng.h"
#include "core/shards/shards.h"
#include "run/shards/shards.h"
#include "store/asker/asker.h"

#include <signal.h>
#include <sys/types.h>
#include <uv.h>

/* Where a round is. One question at a time. */
enum round_step {
    ROUND_REST,
    ROUND_ENTER, /* say what we run */
    ROUND_LIST,  /* who is there */
    ROUND_LOOK,  /* at a shard's record */
    ROUND_ASK    /* who waits for a shard that we should let go */
};

struct launcher {
    const struct bw_shards_order *order;
    struct bw_log log;
    uv_loop_t loop;
    struct told *told; /* NULL: rounds */
    struct bw_asker *asker;
    struct bw_asked *asked;
    uv_poll_t signals;
    uv_timer_t opening; /* a store that cannot be opened yet is tried again */
    int signal_fd;
    bool away, seen, refused; /* the store; refused: from the start, and for good */
    sigset_t mask;            /* as we were started, for those we start */
    bool pipe_ignored;
    struct bw_rng rng;

    struct bw_shards core;
    pid_t pids[BW_SHARDS_MAX]; /* 0: none */

    enum round_step step;
    uint32_t looked; /* the shard of LOOK and ASK */
    bw_time round_at, breathe_until;
    bw_time enter_again_at; /* stores forget a candidate that says nothing */
    bool entered, lists, said_mismatch, said_refused;
    char value[BW_VALUE_MAX + 1], entered_value[BW_VALUE_MAX + 1];

    bw_time linger_until; /* all is done, and said so until then; 0: not all */
    bool ending, leaving; /* leaving: LEAVE is under way */
    int exit_code;
};

/* round.c */
void bw_launcher_round(struct launcher *l);
void bw_launcher_answer(struct launcher *l, const struct bw_store_reply *reply);

/* spawn.c: returns 0 with its pid in l->pids, or an error. */
int bw_launcher_spawn(struct launcher *l, uint32_t shard);

/* shards.c */
/* What the decisions want done now; then sleeps until they may want more. */
void bw_launcher_act(struct launcher *l);
/* Others may take our shards from now on; they get each when its work is confirmed dead. */
void bw_launcher_end(struct launcher *l, int code);
/* A supervisor has ended (`status` is that of wait) and nothing of its work is left to wait for. */
void bw_launcher_ended(struct launcher *l, uint32_t shard, int status);
void bw_launcher_end_shard(struct launcher *l, uint32_t shard, const char *reason);

#endif
