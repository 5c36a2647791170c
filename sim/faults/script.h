/* Fault scripts: a text file, or flags, made into the list of faults that a simulated run meets.
 *
 *     # settings first: any long flag of `sim run` without its dashes
 *     algorithm raft
 *     nodes 5
 *     # then events, one per line, in any order of time
 *     at 2s crash leader
 *     at 3s partition 1,2,3/4,5
 *     at 6s heal
 *     at 7s..9s pause 2          # pause, and resume at 9 s
 *
 * A flag says the same as `--crash leader@2s`. Every error names its place (FILE:LINE or the flag),
 * what is wrong, and what would be right. The script owns the group tables of its partitions; the
 * faults stay valid until deinit. */
#ifndef BW_SIM_SCRIPT_H
#define BW_SIM_SCRIPT_H

#include "sim/sim.h"

#define BW_SCRIPT_WHY          400u
#define BW_SCRIPT_SETTINGS_MAX 64u
#define BW_SCRIPT_TEXT_MAX     65536u

struct bw_script_place {
    const char *source; /* file name, or the verb of a flag; borrowed */
    unsigned line;      /* 0: a flag */
};

struct bw_script_setting {
    const char *name, *value; /* value NULL: a bare word */
    struct bw_script_place place;
};

struct bw_script {
    struct bw_sim_fault faults[BW_SIM_FAULTS_MAX];
    struct bw_script_place places[BW_SIM_FAULTS_MAX];
    uint32_t count;
    struct bw_script_setting settings[BW_SCRIPT_SETTINGS_MAX];
    uint32_t settings_count;
    char *text; /* what the settings point into */
};

void bw_script_init(struct bw_script *script);
void bw_script_deinit(struct bw_script *script);

/* Reads a whole script; one per bw_script. Returns 0, or BW_EINVAL or BW_ELIMIT with the sentence
 * in `why` (BW_SCRIPT_WHY bytes). `name` is borrowed. */
int bw_script_read(struct bw_script *script, FILE *file, const char *name, char *why);
int bw_script_parse(struct bw_script *script, const char *text, const char *name, char *why);

/* A fault flag: verb "crash", value "3@2s" or "3@2s..5s". The sentence in `why` names no place: the
 * caller knows which flag it was. */
int bw_script_flag(struct bw_script *script, const char *verb, const char *value, char *why);

/* When all is known: checks every id against the group's size, makes room for joining nodes
 * (config->spare), sorts by time and hands the faults to `config`. Errors name their place. */
int bw_script_finish(struct bw_script *script, struct bw_sim_config *config, char *why);

/* "5ms", "1ms..50ms" or "exp:5ms+20ms". */
int bw_script_latency(const char *text, struct bw_sim_latency *out);

/* The i-th verb and what stands behind it, for help pages; NULL past the last. */
const char *bw_script_verb(unsigned i, const char **form);

#endif
