/* `bellwether sim run`: its options, and its output as text and as JSON. */
#ifndef BW_CLI_SIM_RUN_H
#define BW_CLI_SIM_RUN_H

#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/sim/summary.h"
#include "cli/sim/timeline.h"
#include "sim/explore/explore.h"

struct bw_sim_run_options {
    struct bw_sim_config config;
    struct bw_script script;
    struct bw_node_list crashed, candidates, alternatives, initiators;
    const char *script_path, *svg_path, *trace_path;
    const struct bw_explore_target *explore; /* NULL: the script is not a trace of `sim explore` */
    struct bw_explore_options explore_options;
    uint32_t runs;
    const struct bw_parsed *parsed; /* says which options the command line sets */
    bool json, datagrams, check, detector_given, no_timeline, story;
};

extern const struct bw_option bw_run_options_table[];

void bw_run_options_init(struct bw_sim_run_options *options);
void bw_run_options_deinit(struct bw_sim_run_options *options);
/* Completes the parsed options: reads the script, sets defaults that depend on other options, and
 * checks combinations. Returns BW_GO_ON or an exit code. */
int bw_run_options_finish(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                          struct bw_sim_run_options *options);

/* Replays the trace of `sim explore` in the script. Returns the exit code. */
int bw_run_replay(const struct bw_cli_command *command, const struct bw_sim_run_options *options);

/* Returns "none" without a detector. */
const char *bw_run_detector_name(const struct bw_sim_config *config);

void bw_run_print(const struct bw_sim_run_options *options, struct bw_summary *summary,
                  const struct bw_term *term);
/* Returns 0, or -1 if memory or stdout failed. */
int bw_run_print_json(const struct bw_sim_run_options *options, struct bw_summary *summary);

#endif
