/* Records what happened in one run: spans per node, messages, faults, and notable moments. It
 * observes the simulated world; pictures and sentences are created after the run. Who led, who
 * acted, and when all agreed comes from the intervals that sim/figures/metrics.c measures, so
 * pictures and sentences agree with the figures. Memory is bounded: past the bounds it counts the
 * events that it drops. */
#ifndef BW_CLI_SIM_TIMELINE_H
#define BW_CLI_SIM_TIMELINE_H

#include "cli/options/terminal.h"
#include "sim/sim.h"

enum bw_span_kind {
    BW_SPAN_ELECTING, /* candidate, or takes part in an election that it started */
    BW_SPAN_CLAIM,    /* claims to lead */
    BW_SPAN_ACT,      /* claims to lead and may act */
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
    bool routine; /* a heartbeat, a renewal or a response to one */
};

struct bw_strip {             /* how many nodes acted */
    enum bw_sim_measure kind; /* NONE_ACTED, ONE_ACTED or TWO_ACTED */
    bw_time from, to;
};

struct bw_split { /* the time of a partition */
    bw_time from, to;
    uint8_t *groups; /* [i]: group of node id i */
};

enum bw_moment_kind {
    BW_MOMENT_FAULT,
    BW_MOMENT_SUSPECTS, /* the first to suspect a node */
    BW_MOMENT_STANDS,   /* becomes a candidate */
    BW_MOMENT_LEADS,    /* claims leadership */
    BW_MOMENT_LOSES,    /* gives up leadership */
    BW_MOMENT_AGREED,   /* every running node follows the same running leader */
    BW_MOMENT_TWO,      /* a second node acts */
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
    bw_time lasts;   /* TWO: how long */
    uint32_t votes;  /* LEADS: number of votes, its own included; 0: the algorithm has none */
    uint32_t voters; /* LEADS: number of members, alive or not */
    uint32_t alive;  /* AGREED: number of running nodes */
    bool accepted;
    bool led;                  /* FAULT: the node led */
    struct bw_sim_fault fault; /* a copy; its groups belong to the script */
};

struct bw_mark { /* of a real incident: a vertical line with a text */
    bw_time at;
    const char *text;
};

struct bw_lane {
    bool up, paused, absent, claims, leaving;
    bw_node leader; /* the leader that it follows */
    bw_term term;
    bw_time electing, claim, down, pause; /* start times; NEVER: not so */
    uint32_t led, acted;                  /* index + 1 of the latest span CLAIM and ACT; 0: none */
    uint32_t votes;
    bw_term votes_term;
    uint8_t *voted; /* [id]: voted for it in votes_term; NULL: no vote yet */
};

#define BW_TIMELINE_SPANS_MAX   20000u
#define BW_TIMELINE_ARROWS_MAX  60000u
#define BW_TIMELINE_MOMENTS_MAX 4000u
#define BW_TIMELINE_STRIPS_MAX  8000u
#define BW_TIMELINE_SPLITS_MAX  64u

struct bw_timeline {
    uint32_t nodes; /* lanes have the ids 1..nodes, spare ids included */
    bool lease;     /* the algorithm is a lease in a store */
    bw_time settle; /* a leader's messages are routine when it has led for longer than this */
    bw_time end;    /* of the run; the figures and the story cover the time up to here */
    bw_time shown;  /* end of the picture, at least `end` */
    struct bw_lane *lanes; /* [id] */
    struct bw_span *spans;
    struct bw_arrow *arrows;
    struct bw_moment *moments;
    struct bw_strip *strips;
    struct bw_split splits[BW_TIMELINE_SPLITS_MAX];
    uint32_t spans_count, arrows_count, moments_count, splits_count, strips_count;
    uint64_t dropped;
    struct bw_sim_observer observer;
    /* For real incidents (cli/timeline): names of the lanes [id], what `term` of a span is called,
     * the line of figures, and marks. NULL, 0: as in a simulation. */
    const char *const *names;
    const char *term_word, *figures;
    const struct bw_mark *marks;
    uint32_t marks_count;
};

/* Returns 0 or BW_ENOMEM. The observer is for config->observer, for one run of `config`. */
int bw_timeline_init(struct bw_timeline *timeline, const struct bw_sim_config *config);
void bw_timeline_deinit(struct bw_timeline *timeline);
/* Completes the timeline after the run of `config` with this result. */
void bw_timeline_finish(struct bw_timeline *timeline, const struct bw_sim_config *config,
                        const struct bw_sim_result *result);

/* Prints one lane per node as text, `width` columns wide, for the time between `from` and `to`.
 * Columns after `now` stay empty. */
void bw_timeline_text(const struct bw_timeline *timeline, const struct bw_term *term, FILE *out,
                      bw_time from, bw_time to, bw_time now);
void bw_timeline_legend(const struct bw_timeline *timeline, const struct bw_term *term, FILE *out);

/* Returns a round distance between the marks of an axis, for at most `marks` marks.
 * bw_timeline_tick writes the text of a mark (BW_TEXT_SPAN bytes). */
bw_time bw_timeline_step(bw_time span, unsigned marks);
void bw_timeline_tick(char *out, bw_time at, bw_time step);

/* Writes the picture to an open file; `result` may be NULL if the timeline has `figures`. */
void bw_timeline_draw(const struct bw_timeline *timeline, const struct bw_sim_result *result,
                      const char *title, const char *subtitle, FILE *out);
/* Writes text with the characters escaped that have a meaning in SVG and HTML. */
void bw_svg_escape(FILE *out, const char *text);
/* Writes the picture, with the figures of `result` below the subtitle. Returns 0, or -1 with errno
 * set. */
int bw_timeline_svg(const struct bw_timeline *timeline, const struct bw_sim_result *result,
                    const char *title, const char *subtitle, const char *path);

/* Writes the i-th moment as a sentence. Returns false if it is skipped: a second candidate that
 * does not win, or the same stale writer again. */
bool bw_story_sentence(const struct bw_timeline *timeline, uint32_t i, char *out, size_t size);
/* Describes a fault in a few words: "3 crashes". */
void bw_story_fault(const struct bw_sim_fault *fault, bw_node node, uint32_t nodes, char *out,
                    size_t size);

#endif
