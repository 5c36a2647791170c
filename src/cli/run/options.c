/* The options of `bellwether run`, their defaults, and the rules between them. */
#include "cli/run/run.h"

#include "cli/options/terminal.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "run/health/probe.h"
#include "run/status/address.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field)     BW_JOB_AT(field)
#define CONFIG(field) BW_JOB_AT(config.field)

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
        snprintf(why, BW_WHY, "'%.80s' is no size; write 512M or 2G", value);
        return -1;
    }
    *(uint64_t *)(void *)((char *)target + option->offset) = number << shift;
    return 0;
}

const struct bw_option bw_job_option_rows[] = {
    {.help = "what to contend for"},
    {"store", "URL",
     "where: sqlite:PATH, or one that bellwether --version lists (default: this host's own)",
     bw_set_text, CONFIG(store), 0, 0, NULL},
    {"store-file", "FILE", "reads the URL from a file, for one that holds a password", bw_set_text,
     AT(store_file), 0, 0, NULL},
    {"election", "NAME", "the name contended for (required)", bw_set_text, CONFIG(election), 0, 0,
     NULL},
    {"id", "ID", "this candidate's name (default: HOST-PID)", bw_set_text, CONFIG(id), 0, 0, NULL},
    {"value", "V", "published with the leadership: the leader's address, say", bw_set_text,
     CONFIG(value), 0, 0, NULL},
    {"priority", "N", "higher ones go first; 0: whoever is there", bw_set_u32, CONFIG(priority), 0,
     1000000, NULL},
    {"preferred", NULL, "ask the leader for a transfer once per TTL", bw_set_switch,
     CONFIG(preferred), 0, 0, NULL},
    {"shards", "N", "one leadership per shard, NAME.0 to NAME.(N-1), spread over the candidates",
     bw_set_u32, AT(shards), 1, BW_SHARDS_MAX, NULL},
#include "cli/run/rows.inc"
    {"accept-no-token", NULL, "use a store that gives no token (Redlock) without such fencing",
     bw_set_switch, AT(accept_no_token), 0, 0, NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};

void bw_job_options_init(struct bw_job_options *options)
{
    memset(options, 0, sizeof *options);
    options->drift = 0.01;
    options->containment = options->log = "auto";
    options->config.path = "bellwether run";
    options->config.store_said = "--store: ";
    options->config.store_away_said = "the store does not answer";
    options->config.store_back_said = "the store answers again";
    options->config.value = "";
    options->config.terms.kill_after_ns = 2 * BW_SEC;
    options->config.wait_ns = BW_TIME_NEVER;
    options->config.fence_within_ns = 60 * BW_SEC;
    options->config.exit_not_elected = BW_RUN_EXIT_NOT_ELECTED;
}

bw_time bw_job_margin(bw_time ttl_ns)
{
    return bw_time_min(bw_time_max(ttl_ns / 20, 50 * BW_MS), BW_SEC);
}

/* The margin grows with the TTL, so the least TTL is found where it stops growing. */
static bw_time least_ttl(struct bw_lease_terms terms)
{
    bw_time least = 0;
    terms.margin_ns = bw_job_margin(0);
    for (unsigned i = 0; i < 64; i++) {
        bw_time next = bw_lease_ttl_least(&terms);
        if (next == BW_TIME_NEVER || next <= least)
            return next == BW_TIME_NEVER ? next : least;
        least = next;
        terms.margin_ns = bw_job_margin(least);
    }
    return least;
}

const char *bw_job_span(char *out, bw_time span)
{
    snprintf(out, BW_TEXT_SPAN, "%lld.%03lld", (long long)(span / BW_SEC),
             (long long)(span % BW_SEC / BW_MS));
    size_t length = strlen(out);
    while (out[length - 1] == '0')
        out[--length] = '\0';
    if (out[length - 1] == '.')
        length--;
    memcpy(out + length, "s", 2);
    return out;
}

static int check_terms(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    const struct bw_lease_terms *terms = &options->config.terms;
    char ttl[BW_TEXT_SPAN], kill[BW_TEXT_SPAN], margin[BW_TEXT_SPAN], least[BW_TEXT_SPAN];
    enum bw_lease_rule rule = bw_lease_check(terms);
    bw_job_span(ttl, terms->ttl_ns);
    if (rule == BW_LEASE_RULE_KILL_TIME)
        return bw_usage_error(
            command,
            "--ttl %s is too short for --kill-after %s (margin %s, drift %g%%): it must hold that "
            "%s; the least TTL is %s",
            ttl, bw_job_span(kill, terms->kill_after_ns), bw_job_span(margin, terms->margin_ns),
            options->drift * 100, bw_lease_rule_text(rule), bw_job_span(least, least_ttl(*terms)));
    if (rule == BW_LEASE_RULE_CLOCK)
        return bw_usage_error(
            command,
            "--ttl %s is too short for --clock-uncertainty %s (kill-after %s, drift %g%%): it must "
            "hold that %s; the least TTL is %s",
            ttl, bw_job_span(margin, terms->uncertainty_ns),
            bw_job_span(kill, terms->kill_after_ns), options->drift * 100, bw_lease_rule_text(rule),
            bw_job_span(least, least_ttl(*terms)));
    if (rule != BW_LEASE_RULE_NONE)
        return bw_usage_error(command, "--ttl %s: it must hold that %s", ttl,
                              bw_lease_rule_text(rule));
    if (options->config.renew_ns > terms->ttl_ns / 3)
        return bw_usage_error(command, "--renew: it must hold that renew <= ttl / 3");
    if (options->config.grace_ns > BW_LEASE_TTL_MAX || options->config.retry_ns > BW_LEASE_TTL_MAX)
        return bw_usage_error(command, "--grace, --retry: at most 365 days");
    return BW_GO_ON;
}

static int check_names(const struct bw_cli_command *command, struct bw_job_options *options)
{
    struct bw_run_config *config = &options->config;
    if (!config->election)
        return bw_usage_error(command, "which election? Write --election NAME");
    struct bw_store_request request = {.op = BW_STORE_READ, .election = config->election};
    if (bw_store_request_check(&request, 0) != 0)
        return bw_usage_error(command, "--election '%.60s': 1 to %u printable bytes without '/'",
                              config->election, BW_ELECTION_NAME_MAX);
    if (!config->id) {
        char host[40] = "host";
        gethostname(host, sizeof host - 1);
        snprintf(options->id_text, sizeof options->id_text, "%s-%d", host, (int)getpid());
        config->id = options->id_text;
    }
    request.candidate = config->id;
    if (bw_store_request_check(&request, 0) != 0)
        return bw_usage_error(command, "--id '%.60s': 1 to %u printable bytes", config->id,
                              BW_CANDIDATE_ID_MAX);
    if (strlen(config->value) > BW_VALUE_MAX)
        return bw_usage_error(command, "--value: at most %u bytes", BW_VALUE_MAX);
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

/* A store without tokens cannot tell an old leader's writes from a new one's: the old one is
 * switched off, or the user says that late writes do no harm. */
static int check_token(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    char why[BW_WHY_MAX + 1];
    const struct bw_run_config *config = &options->config;
    const struct bw_store_ops *store = bw_store_find(config->store, why);
    bool fenced = config->stonith || config->fence_agent || options->accept_no_token;
    if (!store || (store->traits & BW_STORE_TOKEN) || fenced)
        return BW_GO_ON;
    return bw_usage_error(
        command,
        "--store %.80s gives no token: what a leader that paused writes late is rejected "
        "by nobody. Name how it is switched off (--stonith or --fence-agent), or say that "
        "such writes do no harm: --accept-no-token",
        config->store_shown);
}

static int check_store_ttl(const struct bw_cli_command *command,
                           const struct bw_job_options *options)
{
    char why[BW_WHY_MAX + 1], ttl[BW_TEXT_SPAN];
    const struct bw_store_ops *store = bw_store_find(options->config.store, why);
    bw_time ttl_ns = options->config.terms.ttl_ns;
    if (!store || bw_store_ttl_check(store, ttl_ns, why) == 0)
        return BW_GO_ON;
    return bw_usage_error(command, "--ttl %s: %s", bw_job_span(ttl, ttl_ns), why);
}

static int check_http(const struct bw_cli_command *command, const struct bw_job_options *options)
{
    struct bw_http_address address;
    struct bw_probe_url url;
    const char *http = options->config.http, *health = options->config.health_http;
    if (health && bw_probe_url_read(health, &url) != 0)
        return bw_usage_error(command, "--health-http '%.80s': write http://HOST[:PORT]/PATH",
                              health);
    if (http && bw_http_address_read(http, &address) != 0)
        return bw_usage_error(
            command, "--http '%.80s': write 127.0.0.1:8080, [::1]:8080 or unix:PATH", http);
    if (http && !address.loopback && !options->insecure)
        return bw_usage_error(command,
                              "--http %.80s: others could ask there, and nothing is encrypted or "
                              "asked for a password; --insecure allows it",
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
        return bw_usage_error(command, "-n and -w: do not wait, or wait; one of them");
    /* A store that is named says what its default TTL is; the default store is made at the end. */
    bool named = config->store || options->store_file;
    int code = named ? bw_job_options_store(command, options) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    if (config->terms.ttl_ns == 0)
        config->terms.ttl_ns =
            bw_store_ttl_default(named ? bw_store_find(config->store, why) : NULL);
    config->terms.drift_ppm = (uint32_t)(options->drift * 1e6 + 0.5);
    config->terms.margin_ns = bw_job_margin(config->terms.ttl_ns);
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
