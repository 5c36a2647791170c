/* The decisions of `run --shards`: which shards does this candidate contend for, when does it let
 * one go?
 *
 * Pure: what was seen in the store and what became of the supervisors comes in with `now`; out come
 * shards to start, to look at and to end. The spread (core/shards/spread.h) is only a preference;
 * each shard's own election decides who leads, so nothing here can make two lead. What it does:
 *   - A shard that is ours is contended for at once (but never by the first look at who is there:
 *     candidates that start together see each other in the second).
 *   - A shard that is another's is let go when its owner waits for it, so that it is leaderless for
 *     the hand-over only.
 *   - A shard that nobody leads for a while is contended for by the others too, one after the
 * other.
 *   - A command that fails is started again after a pause that doubles; one that ends with 0 is
 *     done, here and, where candidates can be seen, everywhere.
 * Where the store cannot list candidates, none is anybody's: whoever leads fewer shards is quicker
 * to contend for a free one, and none is let go. */
#ifndef BW_RUN_SHARDS_CORE_H
#define BW_RUN_SHARDS_CORE_H

#include "core/shards/spread.h"
#include "run/shards/shard_set.h"

#define BW_SHARD_NONE UINT32_MAX

enum bw_shard_state {
    BW_SHARD_IDLE, /* no supervisor of ours */
    BW_SHARD_RUNS, /* it waits or leads */
    BW_SHARD_ENDS  /* told to end */
};

struct bw_shard {
    enum bw_shard_state state;
    bool ours, done;
    bool again;         /* its supervisor was killed: contended for again, whoever's it is */
    bool seen;          /* looked at, since it was last ours */
    uint64_t version;   /* of its record, when last looked at */
    bw_time changed_at; /* when that was new */
    bw_time free_since; /* NEVER: somebody leads, or we do not know */
    bw_time start_from; /* not before */
    bw_time started_at;
    bw_time pause_ns;   /* the last one after a failure */
    bw_time yield_from; /* not let go before: its owner did not take it the last time */
    bw_time yield_ns;
};

struct bw_shards_config {
    uint32_t shards;
    uint64_t self;    /* our key, see bw_spread_key */
    bw_time retry_ns; /* of the elections: what all patience is counted in */
    bool lists;       /* the store lists candidates */
};

struct bw_shards {
    struct bw_shards_config config;
    struct bw_shard at[BW_SHARDS_MAX];
    struct bw_spread spread;                 /* good if `spread_made` */
    uint64_t keys[BW_SPREAD_CANDIDATES_MAX]; /* the candidates, by size */
    uint32_t count;
    bool spread_made, viewed, acts, whole; /* whole: everybody says that all is done */
    uint32_t cursor, left_to_look;
};

/* How a shard's record looks. */
struct bw_shard_sight {
    bool held, mine;
    uint64_t version;
    bw_time ttl_ns;
};

enum bw_shard_verdict {
    BW_SHARD_KEEP,
    BW_SHARD_END, /* ours waits in vain: another leads, as it should */
    BW_SHARD_ASK  /* we lead what is another's: does that one wait for it? */
};

enum bw_shard_fate {
    BW_SHARD_LET_GO, /* as told */
    BW_SHARD_DONE,   /* the command ended with 0 */
    BW_SHARD_FAILED  /* it is started again, after a pause */
};

void bw_shards_init(struct bw_shards *s, const struct bw_shards_config *config);

/* Where the store says which shards are ours (peers), instead of views and looks: it is, or not any
 * more; `done`: its work has ended for good. True: it is another's and runs; the caller ends it. */
bool bw_shards_told(struct bw_shards *s, uint32_t shard, bool ours, bool done);
/* Would a supervisor be started for it if it were ours? */
bool bw_shards_fit(const struct bw_shards *s, uint32_t shard, bw_time now);

/* Who is there: begin, add each with what it says is done, end. Without lists: end alone. True if
 * the spread is another than before. */
void bw_shards_view_begin(struct bw_shards *s);
void bw_shards_view_add(struct bw_shards *s, uint64_t key, const struct bw_shard_set *done);
bool bw_shards_view_end(struct bw_shards *s);

/* A shard to start a supervisor for now; NONE. `deadline` is when to ask again. */
uint32_t bw_shards_next_start(const struct bw_shards *s, bw_time now);
bw_time bw_shards_deadline(const struct bw_shards *s);
void bw_shards_started(struct bw_shards *s, uint32_t shard, bw_time now);

/* A shard whose supervisor has no more to do, since it is done elsewhere; NONE. */
uint32_t bw_shards_next_end(const struct bw_shards *s);
void bw_shards_ending(struct bw_shards *s, uint32_t shard);
enum bw_shard_fate bw_shards_ended(struct bw_shards *s, uint32_t shard, int code, bw_time now);
/* Its supervisor was killed. That says nothing about the command: one that had run for a while is
 * started again at once, one that had not counts as a failure. */
enum bw_shard_fate bw_shards_killed(struct bw_shards *s, uint32_t shard, int code, bw_time now);

/* Looking at records, some in each round: begin, then next until NONE. */
void bw_shards_look_begin(struct bw_shards *s);
uint32_t bw_shards_look_next(struct bw_shards *s);
enum bw_shard_verdict bw_shards_saw(struct bw_shards *s, uint32_t shard,
                                    const struct bw_shard_sight *sight, bw_time now);
/* After ASK: the owner waits. It is let go; the caller ends it. */
void bw_shards_yield(struct bw_shards *s, uint32_t shard, bw_time now);

/* Who should lead it; 0: nobody in particular. */
uint64_t bw_shards_owner(const struct bw_shards *s, uint32_t shard);
uint32_t bw_shards_ours(const struct bw_shards *s);
void bw_shards_running(const struct bw_shards *s, struct bw_shard_set *out);
void bw_shards_done(const struct bw_shards *s, struct bw_shard_set *out);
/* Nothing is left to do, for nobody. */
bool bw_shards_finished(const struct bw_shards *s);

#endif
