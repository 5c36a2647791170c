/* `bellwether run`: its options and what follows from them. */
#ifndef BW_CLI_RUN_H
#define BW_CLI_RUN_H

#include "cli/options/options.h"
#include "run/supervisor/supervisor.h"

#define BW_JOB_TEXT 4352 /* a path, and a scheme before it */

struct bw_job_options {
    struct bw_run_config config;
    double drift;
    uint32_t shards; /* 0: one leadership */
    bool insecure, accept_no_token;
    const char *containment, *log, *store_file, *fence_file;
    char fence_text[3000];
    char store_text[BW_JOB_TEXT], store_shown[BW_JOB_TEXT], id_text[BW_CANDIDATE_ID_MAX + 1];
};

extern const struct bw_option bw_job_option_rows[];

/* For tables that include run_rows.inc. */
#define BW_JOB_AT(field) offsetof(struct bw_job_options, field)
const char *bw_job_word_containment(unsigned i);
const char *bw_job_word_log(unsigned i);
/* "512M", "2G", "100k" or bytes, in powers of 1024. */
int bw_job_set_size(const struct bw_option *option, void *target, const char *value, char *why);

/* The defaults of everything that does not depend on the environment. */
void bw_job_options_init(struct bw_job_options *options);

/* What follows from a TTL: margin, retry interval. */
bw_time bw_job_margin(bw_time ttl_ns);

/* "4.65s", "0s": whole milliseconds, as an option takes it. out[BW_TEXT_SPAN]; returns it. */
const char *bw_job_span(char *out, bw_time span);

/* Completes and checks what was parsed. BW_GO_ON, or an exit code after one line. */
int bw_job_options_finish(const struct bw_cli_command *command, struct bw_job_options *options,
                          const struct bw_parsed *parsed);

/* The store's URL: given, by file, or the default place; refuses a secret in it. */
int bw_job_options_store(const struct bw_cli_command *command, struct bw_job_options *options);

/* Where the work's command begins among the arguments: the first word that is neither an option nor
 * its value. Its own options are not ours. */
int bw_job_command_at(const struct bw_cli_command *command, int argc, char **argv);
/* Runs the supervisor with this command, which ends with NULL; an empty one means a sidecar. */
int bw_job_start(const struct bw_cli_command *command, struct bw_run_config *config, char **argv);

/* Is it one leadership per shard? Then run that; `argv` are the options as they were given. */
bool bw_job_is_sharded(const struct bw_job_options *options, const struct bw_parsed *parsed);
/* What means one leadership, one address or one file cannot be shared by many shards: BW_GO_ON, or
 * 64 after one line. */
int bw_job_check_shards(const struct bw_cli_command *command, const struct bw_job_options *options);
int bw_job_run_shards(const struct bw_cli_command *command, const struct bw_job_options *options,
                      int argc, char **argv);

/* Is the way to fence one that can be gone? BW_GO_ON, or 64 after one line. */
int bw_job_check_fencing(const struct bw_cli_command *command, struct bw_job_options *options);

/* Is there such a command? BW_GO_ON, 126 or 127 after one line. */
int bw_job_check_command(const struct bw_cli_command *command, const char *name);

#endif
