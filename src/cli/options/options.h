/* Commands and their options as tables. The parser, --help, the environment variables
 * BELLWETHER_NAME, config files and shell completion read the same rows, so that they always
 * agree. */
#ifndef BW_CLI_OPTIONS_OPTIONS_H
#define BW_CLI_OPTIONS_OPTIONS_H

#include "sim/faults/script.h"
#include "sim/stores/lease.h"

#include <stdbool.h>
#include <stddef.h>

#define BW_EXIT_OK          0
#define BW_EXIT_FAILED      1  /* a check failed, a violation was found */
#define BW_EXIT_USAGE       64 /* as in sysexits.h */
#define BW_EXIT_UNAVAILABLE 69 /* the store or service cannot be reached, or cannot do this */
#define BW_EXIT_SOFTWARE    70 /* a defect of Bellwether itself */
#define BW_EXIT_IO          74
#define BW_GO_ON            (-1)
#define BW_WHY              BW_SCRIPT_WHY
#define BW_OPTIONS_MAX      96u

struct bw_option {
    const char *name; /* without dashes; NULL: a heading; last row: `help` is NULL too */
    const char *form; /* the value: "N"; "[N]": optional, only as --name=N; NULL: a switch */
    const char *help;
    /* Stores `value` (NULL: none given) at target + offset. Returns 0, or -1 with the reason in
     * `why`. The reason names neither the program nor the option. */
    int (*set)(const struct bw_option *option, void *target, const char *value, char *why);
    size_t offset;
    double low, high;                /* range of numbers */
    const char *(*word)(unsigned i); /* allowed words; NULL after the last */
};

struct bw_cli_command {
    const char *name;                         /* "run" */
    const char *path;                         /* "bellwether sim run" */
    const char *usage;                        /* arguments, after the path */
    const char *about;                        /* one line */
    const char *text;                         /* further explanation, below the options */
    const struct bw_option *options;          /* NULL: only subcommands */
    const struct bw_cli_command *const *subs; /* ends with NULL */
    /* words allowed as operand; NULL: the command takes none */
    const char *(*operand)(unsigned i);
    int (*run)(const struct bw_cli_command *command, int argc, char **argv);
};

/* For `operand`: the operand may be any word. */
const char *bw_any_word(unsigned i);

struct bw_parsed {
    bool given[BW_OPTIONS_MAX]; /* by row: the command line sets it */
    char **operands;            /* point into argv, which the parser reorders */
    int operands_count;
};

/* Applies the config file (--config or BELLWETHER_CONFIG), then the environment, then the arguments
 * after the command's name. Returns BW_GO_ON, or the exit code after the help or one line of error
 * was printed. */
int bw_options_parse(const struct bw_cli_command *command, int argc, char **argv, void *target,
                     struct bw_parsed *parsed);

/* Returns the option `name`, --config included, or NULL. */
const struct bw_option *bw_options_find(const struct bw_cli_command *command, const char *name,
                                        size_t length);
/* Writes the name of the option's environment variable, "BELLWETHER_NAME". */
void bw_options_twin(const struct bw_option *option, char *out, size_t size);

/* Sets one option by name, for settings in scripts. The reason in `why` names the option. */
int bw_options_set(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                   void *target, const char *name, const char *value, char *why);

void bw_options_help(const struct bw_cli_command *command);
/* Prints the completions of the last of `words`, one per line. */
int bw_options_complete(const struct bw_cli_command *top, int count, char **words);

/* For the transfer commands: sets `to`, the value of --to, from the operand if there is one.
 * Refuses both, neither, and several operands; `what` is "candidate", "peer" or "node". */
int bw_target_of(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                 const char *what, const char **to);

/* Prints "bellwether sim run: <message>" to stderr and returns BW_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int bw_usage_error(const struct bw_cli_command *command,
                                                         const char *format, ...);
/* Writes "unknown <what> '<got>'; expected one of a, b, c (did you mean b?)" and returns -1. */
int bw_unknown_word(char *why, const char *what, const char *got, const char *(*word)(unsigned i));

/* Setters, one per type of value. */
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

/* Functions for `word`: names of algorithms and detectors. */
const char *bw_word_algorithm(unsigned i);
const char *bw_word_detector(unsigned i); /* "none" is the last */

/* The options for leases, stored in the struct bw_sim_lease `place` of the options; and their
 * names, with NULL at the end. */
#define BW_LEASE_OPTIONS(options, place)                                                           \
    {.help = "leases (algorithm lease)"},                                                          \
        {"ttl",                                                                                    \
         "D",                                                                                      \
         "duration of a lease (default: 10s, or what a longer --kill-after needs)",                \
         .set = bw_set_duration,                                                                   \
         .offset = offsetof(options, place.ttl_ns),                                                \
         .low = 1},                                                                                \
        {"grace", "D",                                                                             \
         "time that a candidate waits after the TTL before it takes over a lease (default: "       \
         "500ms)",                                                                                 \
         .set = bw_set_duration, .offset = offsetof(options, place.grace_ns)},                     \
        {"retry",                                                                                  \
         "D",                                                                                      \
         "time between attempts to reach an unreachable store (default: 1s)",                      \
         .set = bw_set_duration,                                                                   \
         .offset = offsetof(options, place.retry_ns),                                              \
         .low = 1},                                                                                \
        {"kill-after", "D",                                                                        \
         "maximum time from the order to stop until the work has ended (default: 2s, or what a "   \
         "shorter --ttl allows)",                                                                  \
         .set = bw_set_duration, .offset = offsetof(options, place.kill_after_ns)},                \
        {"store-model",                                                                            \
         "M",                                                                                      \
         "model of the store: quorum loses no write; single crashes and restarts; forgetful "      \
         "loses its newest writes; redlock is a majority of five (default: quorum)",               \
         .set = bw_set_store,                                                                      \
         .offset = offsetof(options, place.store),                                                 \
         .word = bw_word_store},                                                                   \
        {"store-expires", NULL,                                                                    \
         "for quorum and single: the store's clock ends leases (default: candidates observe that " \
         "a lease is not renewed)",                                                                \
         .set = bw_set_switch, .offset = offsetof(options, place.expires)},                        \
        {"clock-uncertainty", "D",                                                                 \
         "compare lease ends with wall clocks that are correct to within D (default: wall clocks " \
         "are not used)",                                                                          \
         .set = bw_set_duration, .offset = offsetof(options, place.uncertainty_ns)},               \
    {                                                                                              \
        "store-lag", "D",                                                                          \
            "for forgetful: maximum age of the writes that are lost (default: the TTL)",           \
            .set = bw_set_duration, .offset = offsetof(options, place.lag_ns)                      \
    }

extern const char *const bw_lease_options[];
int bw_set_store(const struct bw_option *, void *, const char *, char *); /* enum bw_sim_store */
const char *bw_word_store(unsigned i);

#endif
