/* Exhaustive exploration of the shipped decision code: breadth-first search over every order of
 * deliveries, losses, timeouts, crashes and commands, within the bounds of a target.
 *
 * A target (targets.h) is a small world around one decision module. Its whole state lies in one
 * block of memory. The engine asks the target for the possible actions of a state, carries out each
 * one on a copy, and keeps the states that it has not seen before. The target judges every state.
 *
 * Memory:
 * - Each state seen takes one slot of 24 bytes: a fingerprint of 128 bits, the slot of the state
 *   that it came from, and the action between the two. Two states with the same fingerprint count
 *   as one; with 2^27 states the probability of a wrong match is below 2^-70.
 * - The states of the current and the next depth are kept as images: only the live spans of the
 *   block, as differences from the first state, without zero bytes.
 *
 * The search is breadth-first, so the first violation has a trace of minimal length.
 *
 * Several processes may work on one exploration: `struct bw_explore` and everything behind it lie
 * in memory that they share, the target's block is private. Blocks contain pointers into
 * themselves, so the block must have the same address in each process. A process that forks after
 * bw_explore_open has that. */
#ifndef BW_SIM_EXPLORE_EXPLORE_H
#define BW_SIM_EXPLORE_EXPLORE_H

#include "core/base/types.h"
#include "core/explore/digest.h"

#include <stdatomic.h>

#define BW_EXPLORE_CHOICES_MAX 256u
#define BW_EXPLORE_SPANS_MAX   128u
#define BW_EXPLORE_LINKS_MAX   3u
#define BW_EXPLORE_WORKERS_MAX 64u
#define BW_EXPLORE_UNLIMITED   100u /* delays */
#define BW_EXPLORE_WHY         200u
#define BW_EXPLORE_TEXT        80u
#define BW_EXPLORE_DEPTH_MAX   1000u
#define BW_EXPLORE_DIGEST_MAX  4096u

struct bw_explore_action {
    uint8_t kind; /* index of the target's verb */
    uint8_t a, b, c;
};

/* How an action is written in a script. `form` has one letter per argument: "A", "A>B", "A B". */
struct bw_explore_verb {
    const char *name, *form;
};

struct bw_explore_span { /* bytes of the target's block */
    size_t at, length;
};

struct bw_explore_options {
    /* number of actions that may differ from the natural order; 0: the default */
    uint32_t delays;
    uint32_t links; /* maximum number of messages in flight per directed link; 0: the default */
};

enum bw_explore_result {
    BW_EXPLORE_DONE,
    BW_EXPLORE_IMPOSSIBLE, /* the action cannot happen in this state */
    BW_EXPLORE_VIOLATION,  /* with the reason in `why` */
    BW_EXPLORE_BROKEN      /* the target's own script is impossible: a defect of the target */
};

struct bw_explore_target {
    const char *name;
    const char *about;  /* one line: which code, which world */
    const char *bounds; /* one line: nodes and budgets of faults */
    uint32_t depth;     /* default depth */
    const struct bw_explore_verb *verbs;
    uint32_t verbs_count;
    size_t (*bytes)(const struct bw_explore_options *options);
    /* Writes the first state into `state`, which is zeroed. Returns NULL, or the reason of a
     * violation in the scripted prefix, written to `why`. */
    const char *(*begin)(void *state, const struct bw_explore_options *options, char *why);
    /* The bytes that steps may change; the same for all states of a run. */
    uint32_t (*spans)(const void *state, struct bw_explore_span *out);
    /* Writes the possible actions; at most BW_EXPLORE_CHOICES_MAX. */
    uint32_t (*choices)(void *state, struct bw_explore_action *out);
    enum bw_explore_result (*apply)(void *state, struct bw_explore_action action, char *why);
    /* The target sets out->now. */
    void (*digest)(void *state, struct bw_digest *out);
    /* One line about the state, for a replay. */
    void (*describe)(void *state, char *out, size_t size);
};

struct bw_explore_slot {
    _Atomic uint64_t low; /* 0: free */
    _Atomic uint64_t high;
    uint32_t parent; /* BW_EXPLORE_ROOT: the first state */
    struct bw_explore_action action;
};

#define BW_EXPLORE_ROOT UINT32_MAX

struct bw_explore_try { /* what a process is doing, in case a step traps */
    uint32_t parent;
    struct bw_explore_action action;
};

struct bw_explore_layer { /* the images of one depth, in blocks of equal size */
    _Atomic uint64_t used, taken;
};

struct bw_explore {  /* shared by all processes */
    uint64_t slots;  /* a power of two */
    uint64_t blocks; /* per layer */
    struct bw_explore_slot *table;
    unsigned char *images; /* two layers of blocks */
    uint32_t depth, depth_max;
    struct bw_explore_layer layer[2];
    _Atomic uint64_t states, steps, image_bytes, images_count;
    atomic_bool stop;    /* set by a violation, by a lack of memory or by the caller */
    atomic_bool full;    /* the memory is used up */
    atomic_flag claimed; /* one process reports its violation */
    atomic_bool violated;
    atomic_bool broken; /* the target is defective; `why` says how */
    struct bw_explore_try violation;
    struct bw_explore_try current[BW_EXPLORE_WORKERS_MAX];
    char why[BW_EXPLORE_WHY];
};

struct bw_explore_worker { /* one per process */
    uint32_t index;        /* of the process */
    const struct bw_explore_target *target;
    struct bw_explore *shared;
    void *state;
    struct bw_explore_span spans[BW_EXPLORE_SPANS_MAX];
    uint32_t spans_count;
    size_t packed; /* bytes of all spans, a multiple of 8 */
    unsigned char *first, *base, *scratch;
    uint64_t *words;      /* for digests */
    unsigned char *block; /* of the next layer, or NULL */
};

/* Lays out an exploration in `memory`, which is zeroed and, for several processes, shared. Returns
 * 0, BW_ENOMEM, or BW_EINVAL if the first state is a violation already. */
int bw_explore_open(struct bw_explore_worker *worker, const struct bw_explore_target *target,
                    const struct bw_explore_options *options, void *memory, size_t bytes,
                    uint32_t depth);
void bw_explore_close(struct bw_explore_worker *worker);

/* Expands states of the current depth until none is left. Called by every process. */
void bw_explore_expand(struct bw_explore_worker *worker);
/* Goes on to the next depth, when all processes have returned. Returns false at the end. */
bool bw_explore_deeper(struct bw_explore *shared);
/* Number of states that wait to be expanded is zero: everything reachable was seen. */
bool bw_explore_exhausted(const struct bw_explore *shared);

/* Process `index` died in a step: reports what it was doing as a violation. */
void bw_explore_died(struct bw_explore *shared, uint32_t index, const char *why);

/* The actions that lead to the violation, first to last. Returns their number; at most `cap`. */
uint32_t bw_explore_trace(const struct bw_explore *shared, struct bw_explore_action *out,
                          uint32_t cap);

/* The text of an action: "deliver 1>2". */
void bw_explore_print(const struct bw_explore_target *target, struct bw_explore_action action,
                      char *out, size_t size);
/* Returns 0, or BW_EINVAL. */
int bw_explore_parse(const struct bw_explore_target *target, const char *text,
                     struct bw_explore_action *out);

/* The target with this name, or NULL; the i-th target, or NULL past the last. */
const struct bw_explore_target *bw_explore_find(const char *name);
const struct bw_explore_target *bw_explore_at(unsigned i);

#endif
