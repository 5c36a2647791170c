/* The options of `bellwether run`, and the functions that check and use them. */
#ifndef BW_CLI_RUN_RUN_H
#define BW_CLI_RUN_RUN_H

#include "cli/options/options.h"
#include "core/base/parse_values.h"
#include "core/lease/derive.h"
#include "run/supervisor/supervisor.h"

#define BW_JOB_TEXT 4352 /* a path with a scheme */

struct bw_job_options {
    struct bw_run_config config;
    struct bw_lease_given given; /* the terms that the user gave; config.terms follows from them */
    double drift;                /* negative: not given */
    uint32_t shards;             /* 0: no shards */
    bool insecure, accept_no_token;
    const char *containment, *log, *store_file, *fence_file;
    const char *command; /* for the shell; NULL: none */
    char *shell[4];      /* `command` as arguments */
    char fence_text[3000];
    char store_text[BW_JOB_TEXT], store_shown[BW_JOB_TEXT], id_text[BW_CANDIDATE_ID_MAX + 1];
};

extern const struct bw_option bw_job_option_rows[];

/* For tables that include work_options.inc. */
#define BW_JOB_AT(field) offsetof(struct bw_job_options, field)
const char *bw_job_word_containment(unsigned i);
const char *bw_job_word_log(unsigned i);
/* Parses "512M", "2G", "100k" or bytes, in powers of 1024. */
int bw_job_set_size(const struct bw_option *option, void *target, const char *value, char *why);

/* Sets the defaults that do not depend on the environment. */
void bw_job_options_init(struct bw_job_options *options);

/* Derives the terms of the lease from the options that the user gave (core/lease/derive.h). `store`
 * is NULL if it is not known yet. */
void bw_job_derive_terms(struct bw_job_options *options, const struct bw_store_ops *store);

/* Checks and completes the parsed options. Returns BW_GO_ON, or an exit code after one line on
 * stderr. */
int bw_job_options_finish(const struct bw_cli_command *command, struct bw_job_options *options,
                          const struct bw_parsed *parsed);

/* Finds the store's URL: the option, the file, or the default store. Refuses a URL with a
 * password. */
int bw_job_options_store(const struct bw_cli_command *command, struct bw_job_options *options);

/* Returns the index of the work's command: the first argument that is neither an option nor its
 * value. The command's own options are not parsed. */
int bw_job_command_at(const struct bw_cli_command *command, int argc, char **argv);
/* Returns the command after the options, or else --command for the shell, or else an empty list. */
char **bw_job_command(struct bw_job_options *options, char **argv);
/* Runs the supervisor with a command that ends with NULL. An empty command means a sidecar. */
int bw_job_start(const struct bw_cli_command *command, struct bw_run_config *config, char **argv);

/* Returns whether there is one leadership per shard. bw_job_run_shards runs it; `argv` are the
 * options as given. */
bool bw_job_is_sharded(const struct bw_job_options *options, const struct bw_parsed *parsed);
/* Refuses options that mean one leadership, one address or one file, which shards cannot share.
 * Returns BW_GO_ON, or 64 after one line on stderr. */
int bw_job_check_shards(const struct bw_cli_command *command, const struct bw_job_options *options);
int bw_job_run_shards(const struct bw_cli_command *command, const struct bw_job_options *options,
                      int argc, char **argv);

/* Checks that the configured fencing can work. Returns BW_GO_ON, or 64 after one line on stderr. */
int bw_job_check_fencing(const struct bw_cli_command *command, struct bw_job_options *options);

/* Checks that the command exists. Returns BW_GO_ON, or 126 or 127 after one line on stderr. */
int bw_job_check_command(const struct bw_cli_command *command, const char *name);

#endif
