/* `bellwether run`: the main job. Options, then the supervisor (run/supervisor/supervisor.h). */
#include "cli/run/run.h"
#include "cli/commands.h"

#include "cli/options/terminal.h"
#include "core/base/text.h"

#include <string.h>

static const struct bw_option *option_named(const struct bw_cli_command *command, const char *arg)
{
    return strncmp(arg, "--", 2) == 0 ? bw_options_find(command, arg + 2, strcspn(arg + 2, "="))
                                      : NULL;
}

static void lengthen(char **arg)
{
    static const char *const names[][2] = {
        {"-n", "--no-wait"}, {"-w", "--wait"}, {"-E", "--not-elected-code"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(*arg, names[i][0]) == 0)
            *arg = (char *)names[i][1];
}

int bw_job_command_at(const struct bw_cli_command *command, int argc, char **argv)
{
    int at = 0;
    while (at < argc) {
        lengthen(&argv[at]);
        const char *arg = argv[at];
        if (strcmp(arg, "--") == 0 || arg[0] != '-' || arg[1] == '\0')
            return at;
        const struct bw_option *option = option_named(command, arg);
        bool value = option && option->form && option->form[0] != '[' && !strchr(arg, '=');
        at += value ? 2 : 1;
    }
    return argc;
}

static void print_gap(const struct bw_job_options *options)
{
    const struct bw_run_config *c = &options->config;
    struct bw_lease_schedule plan;
    char text[8][BW_TEXT_SPAN];
    struct bw_lease_terms terms = c->terms;
    terms.margin_ns = bw_job_margin(terms.ttl_ns);
    terms.drift_ppm = (uint32_t)(options->drift * 1e6 + 0.5);
    if (bw_lease_check(&terms) != BW_LEASE_RULE_NONE)
        return;
    bw_lease_plan(&plan, &terms, 0);
    printf("\nWith --ttl %s --kill-after %s --grace %s --drift %g%%:\n",
           bw_job_span(text[0], terms.ttl_ns), bw_job_span(text[1], terms.kill_after_ns),
           bw_job_span(text[2], c->grace_ns), options->drift * 100);
    printf("  renewed after %s; unanswered: again at %s, TERM to the work at %s,\n"
           "  KILL by the guardian at %s, nothing of it runs from %s on\n",
           bw_job_span(text[0], c->renew_ns ? c->renew_ns : plan.renew),
           bw_job_span(text[1], plan.retry), bw_job_span(text[2], plan.term),
           bw_job_span(text[3], plan.kill), bw_job_span(text[4], plan.end));
    printf("  worst gap without a leader: TTL + grace + election = %s + election\n"
           "  (with sqlite: milliseconds; the guardian proves the death)\n",
           bw_job_span(text[5], bw_lease_gap_by_expiry(terms.ttl_ns, c->grace_ns, 0)));
}

/* --help with the figures that follow from the TTL given beside it. */
static int help(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_job_options options;
    char why[BW_WHY];
    bw_job_options_init(&options);
    for (int i = 0; i < argc && argv[i]; i++) {
        const char *equals = strchr(argv[i], '=');
        const struct bw_option *option = option_named(command, argv[i]);
        const char *value = equals ? equals + 1 : i + 1 < argc ? argv[i + 1] : NULL;
        if (option && option->set && option->form && value)
            option->set(option, &options, value, why);
    }
    bw_options_help(command);
    print_gap(&options);
    return BW_EXIT_OK;
}

/* Without a command whoever asks by HTTP does the work. */
static int run_sidecar(const struct bw_cli_command *command, const struct bw_run_config *config)
{
    if (!config->http)
        return bw_usage_error(command,
                              "which command? Write it behind --, or --http ADDR to have none");
    if (config->terms.kill_after_ns < BW_MS)
        return bw_usage_error(command, "--kill-after: without a command an answer is good for so "
                                       "long; at least 1ms");
    if (config->standby || config->watchdog_ns || config->health.progress_file)
        return bw_usage_error(command,
                              "--standby, --watchdog and --progress-file go with a command");
    return bw_run(config);
}

int bw_job_start(const struct bw_cli_command *command, struct bw_run_config *config, char **argv)
{
    if (!argv[0])
        return run_sidecar(command, config);
    int code = bw_job_check_command(command, argv[0]);
    if (code != BW_GO_ON)
        return code;
    config->argv = argv;
    return bw_run(config);
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct bw_job_options options;
    struct bw_parsed parsed;
    int at = bw_job_command_at(command, argc, argv);
    for (int i = 0; i < at; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return help(command, at, argv);
    bw_job_options_init(&options);
    int code = bw_options_parse(command, at, argv, &options, &parsed);
    if (code == BW_GO_ON)
        code = bw_job_options_finish(command, &options, &parsed);
    if (code != BW_GO_ON)
        return code;
    int options_count = at;
    bool sharded = bw_job_is_sharded(&options, &parsed);
    at += at < argc && strcmp(argv[at], "--") == 0;
    if (at >= argc && sharded)
        return bw_usage_error(command, "which command? --shards needs one behind --");
    if (!sharded)
        return bw_job_start(command, &options.config, argv + at);
    code = bw_job_check_command(command, argv[at]);
    if (code != BW_GO_ON)
        return code;
    options.config.argv = argv + at;
    return bw_job_run_shards(command, &options, options_count, argv);
}

const struct bw_cli_command bw_command_run = {
    .name = "run",
    .path = "bellwether run",
    .usage = "--election NAME [options] -- COMMAND [ARGUMENT...]\n"
             "       bellwether run --election NAME --http ADDR [options]",
    .about = "run a command on exactly one of many candidates, move it when that one fails",
    .text =
        "Start the same line as often as you like: all who name the same store contend "
        "(sqlite:PATH\n"
        "is a store of one host; without --store, root's or each user's own). One candidate leads\n"
        "and runs the command; when it fails, another does. The old command, with all its "
        "children,\n"
        "is dead before the new one starts, or its lease was waited out and its token is older.\n"
        "The command finds BELLWETHER_ELECTION, BELLWETHER_ID, BELLWETHER_TOKEN and\n"
        "BELLWETHER_STORE in its environment; with --store-file also BELLWETHER_STORE_FILE, with\n"
        "--shards BELLWETHER_SHARD and BELLWETHER_SHARDS. TERM, INT, HUP and QUIT are passed on\n"
        "to it.\n"
        "Every option has a twin in the environment, BELLWETHER_TTL=30s, and in the file of\n"
        "--config: ttl = 30s.\n"
        "\n"
        "Exit: the command's own code; 128+N ended by signal N; 64 wrong usage, or a\n"
        "store that must be changed first; 69 the store was unreachable for all of -w; 71 no\n"
        "process or memory left; 75 not elected in time (-E changes it); 76 leadership lost with\n"
        "--once; 126 the command cannot be executed; 127 there is no such command.\n",
    .options = bw_job_option_rows,
    .run = run,
};
