/* What happened in one run, kept for showing: spans per node, messages, faults, and the moments a
 * story is told by. It is an observer of the world; pictures and sentences are made from it after
 * the run. Memory is bounded: past the bounds it counts what it dropped. */
#ifndef BW_CLI_TIMELINE_H
#define BW_CLI_TIMELINE_H

#include "cli/options/terminal.h"
#include "sim/sim.h"

enum bw_span_kind {
    BW_SPAN_ELECTING, /* stands for election, or takes part in one it started */
    BW_SPAN_CLAIM,    /* leads by its own belief */
    BW_SPAN_ACT,      /* ... and may act */
    BW_SPAN_DOWN,
    BW_SPAN_PAUSED,
    BW_SPAN_ABSENT /* not yet joined, or left */
};

struct bw_span {
    enum bw_span_kind kind;
    bw_node node;
    bw_time from, to;
    bw_term term;
};

struct bw_arrow {
    bw_time sent, arrives; /* NEVER: lost */
    bw_node from, to;
    uint8_t kind;
};

struct bw_split { /* a partition's time */
    bw_time from, to;
    uint8_t *groups; /* of node id i at [i] */
};

enum bw_moment_kind {
    BW_MOMENT_FAULT,
    BW_MOMENT_SUSPECTS, /* the first to suspect a node */
    BW_MOMENT_STANDS,   /* starts an election */
    BW_MOMENT_LEADS,    /* claims the lead */
    BW_MOMENT_LOSES,    /* gives it up */
    BW_MOMENT_AGREED,   /* every live node names the same live leader */
    BW_MOMENT_TWO,      /* a second one that may act */
    BW_MOMENT_STALE     /* a stale write */
};

struct bw_moment {
    enum bw_moment_kind kind;
    bw_time at;
    bw_node node, other;
    bw_term term;
    bw_token token;
    enum bw_loss reason;
    bw_time act_from;
    uint32_t votes, alive;
    bool accepted;
    bool led;                  /* FAULT: the node led */
    struct bw_sim_fault fault; /* a copy; its groups are the script's */
};

struct bw_lane {
    bool up, paused, absent, claims, leaving;
    bw_node leader; /* whom it follows */
    bw_term term;
    bw_time electing, claim, act_from, act_until, down, pause; /* since; NEVER: not */
    uint32_t votes;
    bw_term votes_term;
};

#define BW_TIMELINE_SPANS_MAX   20000u
#define BW_TIMELINE_ARROWS_MAX  60000u
#define BW_TIMELINE_MOMENTS_MAX 4000u
#define BW_TIMELINE_SPLITS_MAX  64u

struct bw_timeline {
    uint32_t nodes; /* lanes: ids 1..nodes, spare ones included */
    bw_time end;
    struct bw_lane *lanes; /* [id] */
    struct bw_span *spans;
    struct bw_arrow *arrows;
    struct bw_moment *moments;
    struct bw_split splits[BW_TIMELINE_SPLITS_MAX];
    uint32_t spans_count, arrows_count, moments_count, splits_count;
    uint64_t dropped;
    bw_node agreed;
    bool two;
    struct bw_sim_observer observer;
};

/* Returns 0 or BW_ENOMEM. The observer is for config->observer, for one run of `config`. */
int bw_timeline_init(struct bw_timeline *timeline, const struct bw_sim_config *config);
void bw_timeline_deinit(struct bw_timeline *timeline);
/* Closes what is open at the run's end. */
void bw_timeline_finish(struct bw_timeline *timeline, bw_time end);

/* A lane per node as text, `width` columns, for what happened between `from` and `to`; columns
 * after `now` stay empty. */
void bw_timeline_text(const struct bw_timeline *timeline, const struct bw_term *term, FILE *out,
                      bw_time from, bw_time to, bw_time now);
void bw_timeline_legend(const struct bw_timeline *timeline, const struct bw_term *term, FILE *out);

/* A round distance between marks of an axis, so that there are at most `marks` of them; and the
 * text at one (BW_TEXT_SPAN bytes). */
bw_time bw_timeline_step(bw_time span, unsigned marks);
void bw_timeline_tick(char *out, bw_time at, bw_time step);

/* The picture. Returns 0 or -1 with errno set. */
int bw_timeline_svg(const struct bw_timeline *timeline, const char *title, const char *subtitle,
                    const char *path);

/* The i-th moment as a sentence; false if it is not worth one: a second node that stands in the
 * same election, the same stale writer again. */
bool bw_story_sentence(const struct bw_timeline *timeline, uint32_t i, char *out, size_t size);
/* A fault in a few words: "3 crashes". */
void bw_story_fault(const struct bw_sim_fault *fault, bw_node node, uint32_t nodes, char *out,
                    size_t size);

#endif
