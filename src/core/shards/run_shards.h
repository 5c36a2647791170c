/* Decisions of `run --shards`: which shards this candidate contends for, and when it releases one.
 *
 * The functions are pure. Store records and the fate of supervisors come in, with `now`; shards to
 * start, to poll and to end come out. The spread (core/shards/assignment.h) is only a preference:
 * each shard's own election decides, so nothing here can cause two leaders.
 *
 * Rules:
 * - A candidate contends at once for a shard that it owns, but not in its first view of the
 *   candidates: candidates that start together see each other in the second view.
 * - A candidate releases a shard owned by another candidate when the owner waits for it. The shard
 *   then has no leader only during the hand-over.
 * - The other candidates contend for a shard that had no leader for a while, one after the other.
 * - A command that fails is restarted after a pause that doubles. A command that exits with 0 is
 *   done: here and, where candidates are listed, everywhere.
 *
 * Where the store cannot list candidates, shards have no owners. A candidate that leads fewer
 * shards contends sooner for a free one, and no shard is released. */
#ifndef BW_CORE_SHARDS_RUN_SHARDS_H
#define BW_CORE_SHARDS_RUN_SHARDS_H

#include "core/shards/assignment.h"
#include "core/shards/shard_set.h"

#define BW_SHARD_NONE UINT32_MAX

enum bw_shard_state {
    BW_SHARD_IDLE, /* we run no supervisor for it */
    BW_SHARD_RUNS, /* our supervisor waits or leads */
    BW_SHARD_ENDS  /* our supervisor is ending */
};

struct bw_shard {
    enum bw_shard_state state;
    bool ours, done;
    bool restart;       /* its supervisor was killed: contend again in any case */
    bool seen;          /* polled since it was last ours */
    uint64_t version;   /* of its record at the last poll */
    bw_time changed_at; /* when that version was first seen */
    bw_time free_since; /* BW_TIME_NEVER: it has a leader, or we do not know */
    bw_time start_from; /* earliest time to start */
    bw_time started_at;
    bw_time pause_ns;   /* last pause after a failure */
    bw_time yield_from; /* earliest time to release it: its owner did not take it last time */
    bw_time yield_ns;
};

struct bw_shards_config {
    uint32_t shards;
    uint64_t self;    /* our key, see bw_spread_key */
    bw_time retry_ns; /* of the elections: the unit of all delays */
    bool lists;       /* the store lists candidates */
};

struct bw_shards {
    struct bw_shards_config config;
    struct bw_shard at[BW_SHARDS_MAX];
    struct bw_spread spread;                 /* valid if `spread_made` */
    uint64_t keys[BW_SPREAD_CANDIDATES_MAX]; /* the candidates' keys, ascending */
    uint32_t count;
    bool spread_made, viewed, acts;
    bool all_done; /* every candidate reports that all shards are done */
    uint32_t cursor, polls_left;
};

/* A shard's record, as seen in the store. */
struct bw_shard_record {
    bool held, mine;
    uint64_t version;
    bw_time ttl_ns;
};

enum bw_shard_verdict {
    BW_SHARD_KEEP,
    BW_SHARD_END, /* our supervisor waits in vain: another candidate leads, as planned */
    BW_SHARD_ASK  /* we lead a shard of another candidate: check whether its owner waits */
};

enum bw_shard_fate {
    BW_SHARD_RELEASED, /* as requested */
    BW_SHARD_DONE,     /* the command exited with 0 */
    BW_SHARD_FAILED    /* to be restarted after a pause */
};

void bw_shards_init(struct bw_shards *s, const struct bw_shards_config *config);

/* For stores that assign the shards (peers), instead of views and polling. `ours`: assigned to us;
 * `done`: its work has ended for good. Returns true if we run a shard that is not ours: the caller
 * then ends its supervisor. */
bool bw_shards_assign(struct bw_shards *s, uint32_t shard, bool ours, bool done);
/* Whether a supervisor would be started for the shard if it were ours. */
bool bw_shards_may_start(const struct bw_shards *s, uint32_t shard, bw_time now);

/* A view of the candidates: begin, add each with the shards it reports as done, end. Without
 * listing: only end. bw_shards_view_end returns whether the spread has changed. */
void bw_shards_view_begin(struct bw_shards *s);
void bw_shards_view_add(struct bw_shards *s, uint64_t key, const struct bw_shard_set *done);
bool bw_shards_view_end(struct bw_shards *s);

/* Returns a shard whose supervisor must be started now, or BW_SHARD_NONE. */
uint32_t bw_shards_next_start(const struct bw_shards *s, bw_time now);
/* When to call bw_shards_next_start again. */
bw_time bw_shards_deadline(const struct bw_shards *s);
void bw_shards_started(struct bw_shards *s, uint32_t shard, bw_time now);

/* A shard that is done elsewhere and whose supervisor must end, or BW_SHARD_NONE. */
uint32_t bw_shards_next_end(const struct bw_shards *s);
void bw_shards_ending(struct bw_shards *s, uint32_t shard);
enum bw_shard_fate bw_shards_ended(struct bw_shards *s, uint32_t shard, int code, bw_time now);
/* The supervisor was killed, which says nothing about its command. A supervisor that had run for a
 * while is restarted at once; otherwise the death counts as a failure. */
enum bw_shard_fate bw_shards_killed(struct bw_shards *s, uint32_t shard, int code, bw_time now);

/* Polls records, some in each round: begin, then next until BW_SHARD_NONE. */
void bw_shards_poll_begin(struct bw_shards *s);
uint32_t bw_shards_poll_next(struct bw_shards *s);
enum bw_shard_verdict bw_shards_observe(struct bw_shards *s, uint32_t shard,
                                        const struct bw_shard_record *record, bw_time now);
/* After ASK, if the owner waits: releases the shard; the caller ends its supervisor. */
void bw_shards_yield(struct bw_shards *s, uint32_t shard, bw_time now);

/* The shard's owner; 0: none. */
uint64_t bw_shards_owner(const struct bw_shards *s, uint32_t shard);
uint32_t bw_shards_ours(const struct bw_shards *s);
void bw_shards_running(const struct bw_shards *s, struct bw_shard_set *out);
void bw_shards_done(const struct bw_shards *s, struct bw_shard_set *out);
/* No candidate has anything left to do. */
bool bw_shards_finished(const struct bw_shards *s);

#endif
