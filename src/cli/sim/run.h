/* `bellwether sim run`: its options, and the two ways its figures are shown. */
#ifndef BW_CLI_SIM_RUN_H
#define BW_CLI_SIM_RUN_H

#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/sim/summary.h"
#include "cli/sim/timeline.h"

struct bw_run_options {
    struct bw_sim_config config;
    struct bw_script script;
    struct bw_node_list crashed, candidates, alternatives, initiators;
    const char *script_path, *svg_path, *trace_path;
    uint32_t runs;
    const struct bw_parsed *parsed; /* which options stood on the command line */
    bool json, datagrams, check, detector_given, no_timeline, story;
};

extern const struct bw_option bw_run_options_table[];

void bw_run_options_init(struct bw_run_options *options);
void bw_run_options_deinit(struct bw_run_options *options);
/* After parsing: reads the script, follows what was left open, checks what belongs together.
 * BW_GO_ON or an exit code. */
int bw_run_options_finish(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                          struct bw_run_options *options);

/* "none" without one. */
const char *bw_run_detector_name(const struct bw_sim_config *config);

void bw_run_print(const struct bw_run_options *options, struct bw_summary *summary,
                  const struct bw_term *term);
/* Returns 0, or -1 when memory or stdout failed. */
int bw_run_print_json(const struct bw_run_options *options, struct bw_summary *summary);

#endif
