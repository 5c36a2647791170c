/* Commands and their options as tables. The parser, --help, the environment twin BELLWETHER_NAME,
 * config files and shell completion all read the same rows, so none can say something the others do
 * not know. */
#ifndef BW_CLI_OPTIONS_H
#define BW_CLI_OPTIONS_H

#include "sim/faults/script.h"
#include "sim/stores/lease.h"

#include <stdbool.h>
#include <stddef.h>

#define BW_EXIT_OK          0
#define BW_EXIT_FAILED      1  /* a check failed, a violation was found */
#define BW_EXIT_USAGE       64 /* as in sysexits.h */
#define BW_EXIT_UNAVAILABLE 69 /* the store or service cannot be reached, or cannot do this */
#define BW_EXIT_IO          74
#define BW_GO_ON            (-1)
#define BW_WHY              BW_SCRIPT_WHY
#define BW_OPTIONS_MAX      96u

struct bw_option {
    const char *name; /* without dashes; NULL: `help` is a heading; the last row has neither */
    const char *form; /* what stands behind it: "N"; "[N]": only as --name=N; NULL: a switch */
    const char *help;
    /* Puts `value` (NULL: none was given) at target + offset. Returns 0, or -1 with the sentence in
     * `why`, which names neither program nor option. */
    int (*set)(const struct bw_option *option, void *target, const char *value, char *why);
    size_t offset;
    double low, high;                /* numbers: the range allowed */
    const char *(*word)(unsigned i); /* the words to choose from, NULL past the last */
};

struct bw_cli_command {
    const char *name;                         /* "run" */
    const char *path;                         /* "bellwether sim run" */
    const char *usage;                        /* behind the path */
    const char *about;                        /* a line */
    const char *text;                         /* what one should know, below the options */
    const struct bw_option *options;          /* NULL: only subcommands */
    const struct bw_cli_command *const *subs; /* NULL-ended */
    const char *(*operand)(unsigned i);       /* words an operand may be; NULL: takes no operands */
    int (*run)(const struct bw_cli_command *command, int argc, char **argv);
};

/* Of an operand that may be any word. */
const char *bw_any_word(unsigned i);

struct bw_parsed {
    bool given[BW_OPTIONS_MAX]; /* by row: on the command line */
    char **operands;            /* into argv, reordered */
    int operands_count;
};

/* Applies the config file that --config or BELLWETHER_CONFIG names, the environment, then the
 * arguments behind the command's name. BW_GO_ON, or the exit code to leave with: help was printed,
 * or one line said what is wrong. */
int bw_options_parse(const struct bw_cli_command *command, int argc, char **argv, void *target,
                     struct bw_parsed *parsed);

/* The option of that name, --config included; NULL: none. */
const struct bw_option *bw_options_find(const struct bw_cli_command *command, const char *name,
                                        size_t length);
/* "BELLWETHER_NAME". */
void bw_options_twin(const struct bw_option *option, char *out, size_t size);

/* Sets one option by name, as a script's setting does. `why` names the option. */
int bw_options_set(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                   void *target, const char *name, const char *value, char *why);

void bw_options_help(const struct bw_cli_command *command);
/* Prints what may stand at the last of `words`, one per line. */
int bw_options_complete(const struct bw_cli_command *top, int count, char **words);

/* "bellwether sim run: <sentence>" to stderr; returns BW_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int bw_usage_error(const struct bw_cli_command *command,
                                                         const char *format, ...);
/* Writes "unknown <what> '<got>'; one of a, b, c (did you mean b?)" and returns -1. */
int bw_unknown_word(char *why, const char *what, const char *got, const char *(*word)(unsigned i));

/* Setters. */
int bw_set_switch(const struct bw_option *, void *, const char *, char *);   /* bool */
int bw_set_u32(const struct bw_option *, void *, const char *, char *);      /* uint32_t */
int bw_set_u64(const struct bw_option *, void *, const char *, char *);      /* uint64_t */
int bw_set_decimal(const struct bw_option *, void *, const char *, char *);  /* double */
int bw_set_duration(const struct bw_option *, void *, const char *, char *); /* bw_time */
int bw_set_range(const struct bw_option *, void *, const char *, char *);    /* bw_time[2] */
int bw_set_chance(const struct bw_option *, void *, const char *, char *);   /* double */
int bw_set_latency(const struct bw_option *, void *, const char *, char *);
int bw_set_text(const struct bw_option *, void *, const char *, char *);      /* const char * */
int bw_set_algorithm(const struct bw_option *, void *, const char *, char *); /* ops pointer */
int bw_set_detector(const struct bw_option *, void *, const char *, char *);  /* ops pointer */
int bw_set_nodes(const struct bw_option *, void *, const char *, char *); /* struct bw_node_list */

struct bw_node_list {
    bw_node at[BW_ELECTOR_MEMBERS_MAX];
    uint32_t count;
};

/* Names for `word`. */
const char *bw_word_algorithm(unsigned i);
const char *bw_word_detector(unsigned i); /* with "none" last */

/* The settings of leases, a struct bw_sim_lease at `place` of the options; and their names,
 * NULL-ended. */
#define BW_LEASE_OPTIONS(options, place)                                                           \
    {.help = "leases (algorithm lease)"},                                                          \
        {"ttl",                                                                                    \
         "D",                                                                                      \
         "how long a lease lasts (default 10s)",                                                   \
         .set = bw_set_duration,                                                                   \
         .offset = offsetof(options, place.ttl_ns),                                                \
         .low = 1},                                                                                \
        {"grace", "D", "waited on top of a TTL before a lease is taken over (default 500ms)",      \
         .set = bw_set_duration, .offset = offsetof(options, place.grace_ns)},                     \
        {"retry",                                                                                  \
         "D",                                                                                      \
         "pause before an unreachable store is asked again (default 1s)",                          \
         .set = bw_set_duration,                                                                   \
         .offset = offsetof(options, place.retry_ns),                                              \
         .low = 1},                                                                                \
        {"kill-after", "D", "how long the work may take to end when told to (default 2s)",         \
         .set = bw_set_duration, .offset = offsetof(options, place.kill_after_ns)},                \
        {"store-model",                                                                            \
         "M",                                                                                      \
         "quorum (default): forgets nothing; single: crashes and restarts; forgetful: loses its "  \
         "newest writes; redlock: a majority of five",                                             \
         .set = bw_set_store,                                                                      \
         .offset = offsetof(options, place.store),                                                 \
         .word = bw_word_store},                                                                   \
        {"store-expires", NULL,                                                                    \
         "quorum, single: the store's clock ends leases (default: candidates watch them stand "    \
         "still)",                                                                                 \
         .set = bw_set_switch, .offset = offsetof(options, place.expires)},                        \
        {"clock-uncertainty", "D",                                                                 \
         "wall clocks are right to within D, and lease ends are compared with them (default: "     \
         "never)",                                                                                 \
         .set = bw_set_duration, .offset = offsetof(options, place.uncertainty_ns)},               \
    {                                                                                              \
        "store-lag", "D", "forgetful: at most so much of the newest is lost (default: a TTL)",     \
            .set = bw_set_duration, .offset = offsetof(options, place.lag_ns)                      \
    }

extern const char *const bw_lease_options[];
int bw_set_store(const struct bw_option *, void *, const char *, char *); /* enum bw_sim_store */
const char *bw_word_store(unsigned i);

#endif
