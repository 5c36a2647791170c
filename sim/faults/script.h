/* Converts a fault script, or fault options, into the list of faults of a simulated run.
 *
 *     # settings first: any long option of `sim run` without its dashes
 *     algorithm raft
 *     nodes 5
 *     # then events, one per line, in any order of time
 *     at 2s crash leader
 *     at 3s partition 1,2,3/4,5
 *     at 6s heal
 *     at 7s..9s pause 2          # pause, and resume at 9 s
 *
 * A violation that `sim explore` found is a script of another kind. It names the target, and then
 * every action in its order; there are no times:
 *
 *     explore raft
 *     do timeout 1
 *     do deliver 1>2 0
 *
 * `--crash leader@2s` is the same as an option. Every error names its place (FILE:LINE or the
 * option), what is wrong, and what is expected. The script owns the group tables of its partitions;
 * the faults are valid until deinit. */
#ifndef BW_SIM_FAULTS_SCRIPT_H
#define BW_SIM_FAULTS_SCRIPT_H

#include "sim/sim.h"

#define BW_SCRIPT_WHY          400u
#define BW_SCRIPT_SETTINGS_MAX 64u
#define BW_SCRIPT_TEXT_MAX     65536u
#define BW_SCRIPT_STEPS_MAX    1024u

struct bw_script_place {
    const char *source; /* file name, or the verb of an option; borrowed */
    unsigned line;      /* 0: an option */
};

struct bw_script_setting {
    const char *name, *value; /* value NULL: a word without a value */
    struct bw_script_place place;
};

struct bw_script {
    struct bw_sim_fault faults[BW_SIM_FAULTS_MAX];
    struct bw_script_place places[BW_SIM_FAULTS_MAX];
    uint32_t count;
    struct bw_script_setting settings[BW_SCRIPT_SETTINGS_MAX];
    uint32_t settings_count;
    /* the actions of `do` lines, in order, for a replay of `sim explore` */
    const char *steps[BW_SCRIPT_STEPS_MAX];
    struct bw_script_place step_places[BW_SCRIPT_STEPS_MAX];
    uint32_t steps_count;
    char *text; /* text that the settings point into */
};

void bw_script_init(struct bw_script *script);
void bw_script_deinit(struct bw_script *script);

/* Reads a whole script; at most one per bw_script. Returns 0, or BW_EINVAL or BW_ELIMIT with the
 * reason in `why` (BW_SCRIPT_WHY bytes). `name` is borrowed. */
int bw_script_read(struct bw_script *script, FILE *file, const char *name, char *why);
int bw_script_parse(struct bw_script *script, const char *text, const char *name, char *why);

/* Adds a fault option: verb "crash", value "3@2s" or "3@2s..5s". The reason in `why` does not name
 * the option; the caller knows it. */
int bw_script_flag(struct bw_script *script, const char *verb, const char *value, char *why);

/* Completes the script: checks every id against the size of the group, reserves ids for joining
 * nodes (config->spare), sorts by time and passes the faults to `config`. Errors name their
 * place. */
int bw_script_finish(struct bw_script *script, struct bw_sim_config *config, char *why);

/* Parses "5ms", "1ms..50ms" or "exp:5ms+20ms". */
int bw_script_latency(const char *text, struct bw_sim_latency *out);

/* Returns the i-th verb and its arguments, for help pages; NULL after the last. */
const char *bw_script_verb(unsigned i, const char **form);

#endif
