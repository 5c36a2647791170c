/* The options of `bellwether run`, their defaults and the checks between them. */
#include "cli/run/run.h"

#include "cli/options/terminal.h"
#include "core/base/limits.h"
#include "core/base/parse_values.h"
#include "run/health/probe.h"
#include "run/status/address.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field)     BW_JOB_AT(field)
#define CONFIG(field) BW_JOB_AT(config.field)

#define DRIFT_DEFAULT      0.01
#define KILL_AFTER_DEFAULT (2 * BW_SEC)
#define BW_JOB_WALL_CLOCK
#define WAYS_MAX 256

const char *bw_job_word_containment(unsigned i)
{
    return bw_contain_word(i);
}

const char *bw_job_word_log(unsigned i)
{
    return bw_log_word(i);
}

int bw_job_set_size(const struct bw_option *option, void *target, const char *value, char *why)
{
    static const char units[] = "kMGT";
    size_t length = strlen(value);
    const char *unit = length > 1 ? strchr(units, value[length - 1]) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t number = 0;
    if (bw_text_number(value, unit ? length - 1 : length, UINT64_MAX >> shift, &number) != 0) {
        snprintf(
            why, BW_WHY,
            "invalid size '%.80s': expected bytes with an optional unit, for example 512M or 2G",
            value);
        return -1;
    }
    *(uint64_t *)(void *)((char *)target + option->offset) = number << shift;
    return 0;
}

const struct bw_option bw_job_option_rows[] = {
    {.help = "election"},
    {"store", "URL",
     "store of the election: sqlite:PATH or another URL, see bellwether --version (default: a "
     "sqlite file of this host)",
     bw_set_text, CONFIG(store), 0, 0, NULL},
    {"store-file", "FILE",
     "read the URL of the store from a file, for a URL with a password (default: none)",
     bw_set_text, AT(store_file), 0, 0, NULL},
    {"election", "NAME", "name of the election (required)", bw_set_text, CONFIG(election), 0, 0,
     NULL},
    {"id", "ID", "name of this candidate (default: HOST-PID)", bw_set_text, CONFIG(id), 0, 0, NULL},
    {"value", "V",
     "text to publish with the leadership, for example the leader's address (default: empty)",
     bw_set_text, CONFIG(value), 0, 0, NULL},
    {"priority", "N", "prefer candidates with a higher priority (default: 0)", bw_set_u32,
     CONFIG(priority), 0, 1000000, NULL},
    {"preferred", NULL,
     "ask the leader once per TTL to transfer leadership to this candidate (default: off)",
     bw_set_switch, CONFIG(preferred), 0, 0, NULL},
    {"shards", "N",
     "number of shards; each shard NAME.0 to NAME.(N-1) has its own leader, spread over the "
     "candidates (default: no shards)",
     bw_set_u32, AT(shards), 1, BW_SHARDS_MAX, NULL},
#include "cli/run/work_options.inc"
    {"accept-no-token", NULL,
     "allow a store without tokens (Redlock) without --stonith or --fence-agent (default: off)",
     bw_set_switch, AT(accept_no_token), 0, 0, NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};

void bw_job_options_init(struct bw_job_options *options)
{
    memset(options, 0, sizeof *options);
    options->drift = -1;
    options->given.kill_after_ns = -1;
    options->containment = options->log = "auto";
    options->config.path = "bellwether run";
    options->config.store_error_prefix = "--store: ";
    options->config.store_down_text = "no response from the store";
    options->config.store_up_text = "the store responds again";
    options->config.value = "";
    options->config.wait_ns = BW_TIME_NEVER;
    options->config.fence_within_ns = 60 * BW_SEC;
    options->config.exit_not_elected = BW_RUN_EXIT_NOT_ELECTED;
}

void bw_job_derive_terms(struct bw_job_options *options, const struct bw_store_ops *store)
{
    struct bw_lease_given given = options->given;
    double drift = options->drift < 0 ? DRIFT_DEFAULT : options->drift;
    given.kill_default_ns = KILL_AFTER_DEFAULT;
    given.renew_ns = options->config.renew_ns;
    given.drift_ppm = (uint32_t)(drift * 1e6 + 0.5);
    given.ttl_default_ns = bw_store_ttl_default(store);
    given.ttl_max_ns = store ? store->ttl_max_ns : 0;
    bw_lease_derive(&options->config.terms, &given);
}

/* Appends "--name value or less" (or "or more") to the alternatives in `out`. */
__attribute__((format(printf, 2, 3))) static void add_way(char *out, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;
    if (used > 0 && used < WAYS_MAX)
        used += (size_t)snprintf(out + used, WAYS_MAX - used, ", or ");
    va_start(args, format);
    if (used < WAYS_MAX)
        vsnprintf(out + used, WAYS_MAX - used, format, args);
    va_end(args);
}

/* Appends "--name value" to the options that contradict each other in `out`. */
static void add_given(char *out, const char *name, const char *value)
{
    size_t used = strlen(out);
    if (used < WAYS_MAX)
        snprintf(out + used, WAYS_MAX - used, "%s--%s %s", used > 0 ? " and " : "", name, value);
}

/* Rounds down to milliseconds; a negative value stays negative. */
static bw_time down(bw_time span)
{
    return span < BW_MS ? span : span / BW_MS * BW_MS;
}

/* Names, for each option that the user gave, the value that would do (`ways`), and the options that
 * contradict the TTL (`given`). */
static void list_ways(const struct bw_job_options *options, char *ways, char *given)
{
    const struct bw_lease_terms *terms = &options->config.terms;
    char text[BW_SPAN_TEXT];
    bw_time kill = down(bw_lease_kill_after_most(terms));
    bw_time uncertainty = down(bw_lease_uncertainty_most(terms));
    int64_t drift = bw_lease_drift_most(terms), hundredths = drift / 100;
    if (options->given.kill_after_ns >= 0) {
        add_given(given, "kill-after", bw_span_exact(text, terms->kill_after_ns));
        if (kill >= 0)
            add_way(ways, "--kill-after %s or less", bw_span_exact(text, kill));
    }
    if (options->given.uncertainty_ns > 0) {
        add_given(given, "clock-uncertainty", bw_span_exact(text, terms->uncertainty_ns));
        if (uncertainty >= 0)
            add_way(ways, "--clock-uncertainty %s or less", bw_span_exact(text, uncertainty));
    }
    if (options->drift >= 0) {
        snprintf(text, sizeof text, "%g%%", options->drift * 100);
        add_given(given, "drift", text);
        if (drift >= 0)
            add_way(ways, "--drift %g%% or less", (double)hundredths / 100);
    }
}

/* Refuses terms that leave too little time to stop the work. */
static int refuse_terms(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    const struct bw_run_config *config = &options->config;
    char ways[WAYS_MAX] = "", given[WAYS_MAX] = "", ttl[BW_SPAN_TEXT], why[BW_WHY_MAX + 1];
    const struct bw_store_ops *store = config->store ? bw_store_find(config->store, why) : NULL;
    bw_time longest = store && store->ttl_max_ns ? store->ttl_max_ns : BW_LEASE_TTL_MAX;
    bw_time thrice = bw_time_add(config->renew_ns, bw_time_add(config->renew_ns, config->renew_ns));
    bw_time least = bw_time_max(bw_lease_ttl_needed(&config->terms), thrice);
    if (least <= longest)
        add_way(ways, "--ttl %s or more", bw_span_exact(ttl, least));
    list_ways(options, ways, given);
    return bw_usage_error(
        command, "use %s: %s %s leaves too little time to stop the work%s%s",
        ways[0] ? ways : "smaller values", options->given.ttl_ns ? "--ttl" : "a TTL of",
        bw_span_exact(ttl, config->terms.ttl_ns), given[0] ? " with " : "", given);
}

static int check_terms(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    const struct bw_run_config *config = &options->config;
    const struct bw_lease_terms *terms = &config->terms;
    char ttl[BW_SPAN_TEXT], renew[BW_SPAN_TEXT], text[2][BW_SPAN_TEXT];
    enum bw_lease_rule rule = bw_lease_check(terms);
    bw_span_exact(ttl, terms->ttl_ns);
    if (rule == BW_LEASE_RULE_KILL_TIME || rule == BW_LEASE_RULE_CLOCK)
        return refuse_terms(command, options);
    if (rule != BW_LEASE_RULE_NONE)
        return bw_usage_error(command, "invalid --ttl %s: expected %s", ttl,
                              bw_lease_rule_text(rule));
    if (config->renew_ns > terms->ttl_ns / 3)
        return bw_usage_error(
            command,
            "use --renew %s or less, or --ttl %s or more: --renew %s is more than a third of %s %s",
            bw_span_exact(text[0], terms->ttl_ns / 3),
            bw_span_exact(text[1], bw_time_add(config->renew_ns,
                                               bw_time_add(config->renew_ns, config->renew_ns))),
            bw_span_exact(renew, config->renew_ns), options->given.ttl_ns ? "--ttl" : "the TTL",
            ttl);
    if (config->grace_ns > BW_LEASE_TTL_MAX || config->retry_ns > BW_LEASE_TTL_MAX)
        return bw_usage_error(command, "invalid --grace or --retry: expected at most 365 days");
    return BW_GO_ON;
}

static int check_names(const struct bw_cli_command *command, struct bw_job_options *options)
{
    struct bw_run_config *config = &options->config;
    if (!config->election)
        return bw_usage_error(command, "missing option: --election NAME; see '%s --help'",
                              command->path);
    struct bw_store_request request = {.op = BW_STORE_READ, .election = config->election};
    if (bw_store_request_check(&request, 0) != 0)
        return bw_usage_error(
            command, "invalid --election '%.60s': expected 1 to %u printable bytes without '/'",
            config->election, BW_ELECTION_NAME_MAX);
    if (!config->id) {
        char host[40] = "host";
        gethostname(host, sizeof host - 1);
        snprintf(options->id_text, sizeof options->id_text, "%s-%d", host, (int)getpid());
        config->id = options->id_text;
    }
    request.candidate = config->id;
    if (bw_store_request_check(&request, 0) != 0)
        return bw_usage_error(command, "invalid --id '%.60s': expected 1 to %u printable bytes",
                              config->id, BW_CANDIDATE_ID_MAX);
    if (strlen(config->value) > BW_VALUE_MAX)
        return bw_usage_error(command, "invalid --value: longer than %u bytes", BW_VALUE_MAX);
    return BW_GO_ON;
}

static int choose(const struct bw_cli_command *command, const char *option, const char *got,
                  const char *(*word)(unsigned i), unsigned *out)
{
    char why[BW_WHY];
    for (*out = 0; word(*out); ++*out)
        if (strcmp(word(*out), got) == 0)
            return BW_GO_ON;
    bw_unknown_word(why, option, got, word);
    return bw_usage_error(command, "--%s: %s", option, why);
}

/* A store without tokens gives storage no way to reject an old leader's late writes. So either
 * fencing is configured, or the user accepts late writes. */
static int check_token(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    char why[BW_WHY_MAX + 1];
    const struct bw_run_config *config = &options->config;
    const struct bw_store_ops *store = bw_store_find(config->store, why);
    bool fenced = config->stonith || config->fence_agent || options->accept_no_token;
    if (!store || (store->traits & BW_STORE_TOKEN) || fenced)
        return BW_GO_ON;
    return bw_usage_error(command,
                          "--store %.80s provides no tokens, so storage cannot reject late writes "
                          "of a paused leader; configure fencing (--stonith or --fence-agent), or "
                          "accept late writes (--accept-no-token)",
                          config->store_shown);
}

static int check_store_ttl(const struct bw_cli_command *command,
                           const struct bw_job_options *options)
{
    char why[BW_WHY_MAX + 1], ttl[BW_SPAN_TEXT];
    const struct bw_store_ops *store = bw_store_find(options->config.store, why);
    bw_time ttl_ns = options->config.terms.ttl_ns;
    if (!store || bw_store_ttl_check(store, ttl_ns, why) == 0)
        return BW_GO_ON;
    bool is_short = ttl_ns < store->ttl_min_ns;
    bw_time limit = is_short ? store->ttl_min_ns : store->ttl_max_ns;
    return bw_usage_error(command, "use --ttl %s or %s: %s", bw_span_exact(ttl, limit),
                          is_short ? "more" : "less", why);
}

static int check_http(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    struct bw_http_address address;
    struct bw_probe_url url;
    const char *http = options->config.http, *health = options->config.health_http;
    if (health && bw_probe_url_read(health, &url) != 0)
        return bw_usage_error(
            command, "invalid --health-http '%.80s': expected http://HOST[:PORT]/PATH", health);
    if (http && bw_http_address_read(http, &address) != 0)
        return bw_usage_error(command,
                              "invalid --http '%.80s': expected HOST:PORT or unix:PATH, for "
                              "example 127.0.0.1:8080 or [::1]:8080",
                              http);
    if (http && !address.loopback && !options->insecure)
        return bw_usage_error(command,
                              "--http %.80s is reachable from other machines without TLS or "
                              "authentication; use a loopback address, or --insecure",
                              http);
    return BW_GO_ON;
}

int bw_job_options_finish(const struct bw_cli_command *command, struct bw_job_options *options,
                          const struct bw_parsed *parsed)
{
    struct bw_run_config *config = &options->config;
    unsigned choice = 0;
    char why[BW_WHY_MAX + 1];
    (void)parsed;
    if (config->no_wait && config->wait_ns != BW_TIME_NEVER)
        return bw_usage_error(command, "-n and -w conflict; give only one of them");
    if (config->no_wait) /* a later leadership is one that this candidate waited for */
        config->once = true;
    /* The default TTL depends on the store, if one is given. The default store is created last. */
    bool named = config->store || options->store_file;
    int code = named ? bw_job_options_store(command, options) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    bw_job_derive_terms(options, named ? bw_store_find(config->store, why) : NULL);
    code = check_names(command, options);
    if (code == BW_GO_ON)
        code = check_terms(command, options);
    if (code == BW_GO_ON)
        code = choose(command, "containment", options->containment, bw_contain_word, &choice);
    config->containment = (enum bw_contain_kind)choice;
    if (code == BW_GO_ON)
        code = choose(command, "log", options->log, bw_log_word, &choice);
    config->log = (enum bw_log_form)choice;
    if (config->retry_ns == 0)
        config->retry_ns = bw_time_max(config->terms.ttl_ns / 5, 10 * BW_MS);
    if (config->health_interval_ns == 0)
        config->health_interval_ns = config->terms.ttl_ns / 2;
    if (config->health.progress_within_ns == 0)
        config->health.progress_within_ns = config->terms.ttl_ns;
    if (code == BW_GO_ON)
        code = bw_job_check_fencing(command, options);
    if (code == BW_GO_ON)
        code = check_http(command, options);
    if (code == BW_GO_ON && !named)
        code = bw_job_options_store(command, options);
    if (code == BW_GO_ON)
        code = check_store_ttl(command, options);
    return code == BW_GO_ON ? check_token(command, options) : code;
}
