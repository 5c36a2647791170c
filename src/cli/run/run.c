/* `bellwether run`, the main command: parses the options and runs the supervisor
 * (run/supervisor/supervisor.h). */
#include "cli/run/run.h"
#include "cli/commands.h"

#include "cli/options/terminal.h"
#include "core/base/parse_values.h"

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

char **bw_job_command(struct bw_job_options *options, char **argv)
{
    if (argv[0] || !options->command)
        return argv;
    options->shell[0] = (char *)"/bin/sh";
    options->shell[1] = (char *)"-c";
    options->shell[2] = (char *)options->command;
    return options->shell;
}

static void print_gap(const struct bw_job_options *options)
{
    const struct bw_run_config *c = &options->config;
    struct bw_lease_schedule plan;
    char text[8][BW_SPAN_TEXT];
    const struct bw_lease_terms terms = c->terms;
    if (bw_lease_check(&terms) != BW_LEASE_RULE_NONE)
        return;
    bw_lease_plan(&plan, &terms, 0);
    printf("\nWith --ttl %s --kill-after %s --grace %s --drift %g%%:\n",
           bw_span_exact(text[0], terms.ttl_ns), bw_span_exact(text[1], terms.kill_after_ns),
           bw_span_exact(text[2], c->grace_ns), terms.drift_ppm / 1e4);
    printf("  renewal at %s; without a reply: retry at %s, SIGTERM to the work at %s,\n"
           "  SIGKILL by the guardian at %s, no process of the work runs after %s\n",
           bw_span_exact(text[0], c->renew_ns ? c->renew_ns : plan.renew),
           bw_span_exact(text[1], plan.retry), bw_span_exact(text[2], plan.term),
           bw_span_exact(text[3], plan.kill), bw_span_exact(text[4], plan.end));
    printf("  longest gap without a leader: TTL + grace + election = %s + election\n"
           "  (with sqlite: milliseconds, because the guardian proves that the work is dead)\n",
           bw_span_exact(text[5], bw_lease_gap_by_expiry(terms.ttl_ns, c->grace_ns, 0)));
}

/* Prints --help with the deadlines that follow from the terms on the command line. */
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
    const struct bw_lease_given *given = &options.given;
    if (given->ttl_ns || given->kill_after_ns >= 0 || given->uncertainty_ns || options.drift >= 0 ||
        options.config.renew_ns) {
        bw_job_derive_terms(&options, NULL);
        print_gap(&options);
    }
    return BW_EXIT_OK;
}

/* Runs without a command: the programs that query the HTTP status do the work. */
static int run_sidecar(const struct bw_cli_command *command, const struct bw_run_config *config)
{
    if (!config->http)
        return bw_usage_error(
            command,
            "missing command; give -- COMMAND or --command, or --http ADDR to run as a sidecar");
    if (config->terms.kill_after_ns < BW_MS)
        return bw_usage_error(command, "invalid --kill-after: a sidecar's answer is valid for this "
                                       "time; expected at least 1ms");
    if (config->standby || config->watchdog_ns || config->health.progress_file)
        return bw_usage_error(command, "--standby, --watchdog and --progress-file need a command");
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
    char **work = bw_job_command(&options, argv + at);
    if (!work[0] && sharded)
        return bw_usage_error(command, "missing command: --shards needs -- COMMAND or --command");
    if (!sharded)
        return bw_job_start(command, &options.config, work);
    code = bw_job_check_command(command, work[0]);
    if (code != BW_GO_ON)
        return code;
    options.config.argv = work;
    return bw_job_run_shards(command, &options, options_count, argv);
}

const struct bw_cli_command bw_command_run = {
    .name = "run",
    .path = "bellwether run",
    .usage = "--election NAME [options] -- COMMAND [ARGUMENT...]\n"
             "       bellwether run --election NAME --http ADDR [options]",
    .about = "run a command on exactly one of many candidates; move it when that candidate fails",
    .text =
        "Example: bellwether run --election nightly -- ./job\n"
        "In cron: bellwether run --election nightly -n -E 0 --log quiet -- ./job\n"
        "\n"
        "Start the same command line as often as you like. All candidates with the same store and\n"
        "election compete (sqlite:PATH is a store on one host; without --store, each user has "
        "one).\n"
        "One candidate leads and runs the command; when it fails, another one does. The old "
        "command\n"
        "and all its children are dead before the new one starts. Where that cannot be proved, "
        "the\n"
        "new leader waits until the old lease has expired, and the old token is smaller.\n"
        "The command gets BELLWETHER_ELECTION, BELLWETHER_ID, BELLWETHER_TOKEN and "
        "BELLWETHER_STORE\n"
        "in its environment; with --store-file also BELLWETHER_STORE_FILE, with --shards also\n"
        "BELLWETHER_SHARD and BELLWETHER_SHARDS. It receives the signals TERM, INT, HUP and QUIT.\n"
        "Every option can also be set in the environment (BELLWETHER_TTL=30s) and in the file of\n"
        "--config (ttl = 30s).\n"
        "\n"
        "Exit code: that of the command; 128+N killed by signal N; 64 invalid usage, or a store "
        "that\n"
        "must be set up first; 69 the store was unreachable for all of -w; 71 out of processes or\n"
        "memory; 75 not elected in time (see -E); 76 leadership lost with --once or -n; 126 the "
        "command is\n"
        "not executable; 127 command not found.\n"
        "More: man bellwether-run, and docs/guides/run.md and cron.md of the package "
        "bellwether-doc.\n",
    .options = bw_job_option_rows,
    .run = run,
};
