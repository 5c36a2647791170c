/* `bellwether run --shards N`: checks its options, and prepares the arguments of its
 * supervisors. */
#include "cli/run/run.h"

#include "cli/commands.h"
#include "run/shards/shards.h"
#include "run/shards/value.h"

#include <stdlib.h>
#include <string.h>

/* Returns the options as given, without --shards. */
static char **without_shards(int argc, char **argv, int *count)
{
    char **out = calloc((size_t)argc + 1, sizeof *out);
    *count = 0;
    for (int i = 0; out && i < argc; i++) {
        const struct bw_option *option =
            bw_options_find(&bw_command_run, argv[i] + 2, strcspn(argv[i] + 2, "="));
        bool drop = strcmp(option->name, "shards") == 0;
        bool value = option->form && option->form[0] != '[' && !strchr(argv[i], '=');
        if (!drop)
            out[(*count)++] = argv[i];
        i += value;
        if (value && !drop)
            out[(*count)++] = argv[i];
    }
    return out;
}

/* Refuses options that mean one leadership, one address or one file, which shards cannot share. */
int bw_job_check_shards(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    const struct bw_run_config *c = &options->config;
    char name[BW_ELECTION_NAME_MAX + 1];
    const char *wrong = c->http                       ? "--http"
                        : c->no_wait                  ? "--no-wait"
                        : c->wait_ns != BW_TIME_NEVER ? "--wait"
                        : c->once                     ? "--once"
                        : c->standby                  ? "--standby"
                        : c->preferred                ? "--preferred"
                        : c->priority                 ? "--priority"
                        : c->health.progress_file     ? "--progress-file"
                                                      : NULL;
    if (wrong)
        return bw_usage_error(
            command, "--shards conflicts with %s: each shard has its own leadership", wrong);
    if (bw_shards_election(name, c->election, options->shards - 1) != 0)
        return bw_usage_error(command,
                              "invalid --election: with the shard's number, for example "
                              "%.40s....%u, it is longer than %u bytes",
                              c->election, options->shards - 1, BW_ELECTION_NAME_MAX);
    return BW_GO_ON;
}

bool bw_job_is_sharded(const struct bw_job_options *options, const struct bw_parsed *parsed)
{
    /* The supervisor of a shard and its work inherit BELLWETHER_SHARD and BELLWETHER_SHARDS. There
     * they only describe the shard; they do not request new shards. */
    bool inside = getenv("BELLWETHER_SHARD") != NULL;
    const struct bw_option *row = bw_job_option_rows;
    while (!row->name || strcmp(row->name, "shards") != 0)
        row++;
    return options->shards > 0 && (!inside || parsed->given[row - bw_job_option_rows]);
}

int bw_job_run_shards(const struct bw_cli_command *command, const struct bw_job_options *options,
                      int argc, char **argv)
{
    const struct bw_run_config *c = &options->config;
    struct bw_shards_order order = {.store = c->store,
                                    .store_shown = c->store_shown,
                                    .election = c->election,
                                    .id = c->id,
                                    .shards = options->shards,
                                    .ttl_ns = c->terms.ttl_ns,
                                    .retry_ns = c->retry_ns,
                                    .drain_dir = c->drain_dir,
                                    .health_cmd = c->health_cmd,
                                    .health_http = c->health_http,
                                    .health = c->health,
                                    .health_interval_ns = c->health_interval_ns,
                                    .compares_clocks = c->terms.uncertainty_ns > 0,
                                    .log = c->log,
                                    .argv = c->argv};
    int code = bw_job_check_shards(command, options);
    if (code != BW_GO_ON)
        return code;
    order.options = without_shards(argc, argv, &order.options_count);
    code = order.options ? bw_shards_run(&order) : 71;
    free(order.options);
    return code;
}
