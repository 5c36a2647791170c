/* `bellwether store check URL`: prints what the store guarantees, and what a trial election
 * showed. */
#include "cli/store/check.h"

#include "cli/election/record_print.h"
#include "cli/store/trial.h"
#include "core/base/parse_values.h"
#include "os/clock.h"

#include <inttypes.h>
#include <string.h>

#define READS 21u /* an odd number has a median */
#define OBSERVED_TEXT                                                                              \
    "the waiting candidates: each observes that the record is not renewed for a TTL"
#define EXPIRED_TEXT "the store"

struct check {
    struct bw_client client;
    char about[BW_WHY_MAX + 1]; /* "": the server does not tell its version */
    bw_time reads[READS];       /* sorted */
    struct bw_trial trial;
};

/* One trait of a store. The text output skips a trait whose text is NULL: the `clock` line covers
 * it, or few users need it. */
struct trait {
    unsigned bit;
    const char *key, *label, *yes, *no;
};

static const struct trait traits[] = {
    {BW_STORE_TOKEN, "token", "token", "one per leadership, always growing",
     "none: guards cannot detect a former leader"},
    {BW_STORE_OBSERVED, "observed", NULL, NULL, NULL},
    {BW_STORE_NOTIFIES, "notifies", "waiting", "notified at once", "by polling"},
    {BW_STORE_QUEUE, "queue", "order", "first come, first served", "candidates race"},
    {BW_STORE_LISTS, "lists", "candidates", "listed", "unknown"},
    {BW_STORE_PROVES_DEATH, "proves_death", "dead holder", "proved dead and replaced at once",
     "replaced after its TTL"},
    {BW_STORE_NOTES, "notes", "notes", "supported: resign and transfer reach the leader",
     "not supported: resign and transfer do not work from other machines"},
    {BW_STORE_WALL, "wall", "uncertainty", "--clock-uncertainty can shorten the wait after a crash",
     NULL},
};
#define TRAITS (sizeof traits / sizeof traits[0])

static const char *clock_of(const struct bw_store_ops *ops)
{
    if (ops->clock)
        return ops->clock;
    return ops->traits & BW_STORE_OBSERVED ? OBSERVED_TEXT : EXPIRED_TEXT;
}

/* ---- looking ---- */

/* Measures reads. The first read connects and is not counted. */
static int measure_reads(struct check *check)
{
    for (unsigned i = 0; i <= READS; i++) {
        struct bw_store_request request = bw_client_request(&check->client, BW_STORE_READ);
        bw_time sent = bw_clock_boot();
        int code = bw_client_ask(&check->client, &request);
        if (code != BW_GO_ON)
            return code;
        if (check->client.reply.outcome != BW_OUTCOME_DONE)
            return bw_client_fail(&check->client, BW_EXIT_UNAVAILABLE, "%s",
                                  check->client.reply.why);
        if (i > 0)
            check->reads[i - 1] = bw_clock_boot() - sent;
    }
    bw_client_median(check->reads, READS); /* sorted now */
    return BW_GO_ON;
}

/* ---- telling ---- */

static void print_traits(const struct bw_store_ops *ops)
{
    for (size_t i = 0; i < TRAITS; i++) {
        const char *text = ops->traits & traits[i].bit ? traits[i].yes : traits[i].no;
        if (text)
            printf("%-12s %s\n", traits[i].label, text);
    }
}

static void print_ttl(const struct bw_store_ops *ops)
{
    char span[BW_SPAN_TEXT];
    printf("shortest TTL %s\n", bw_span_exact(span, ops->ttl_min_ns));
    if (ops->ttl_max_ns)
        printf("longest TTL  %s\n", bw_span_exact(span, ops->ttl_max_ns));
}

static void print_text(const struct check *check)
{
    const struct bw_store_ops *ops = check->client.ops;
    const struct bw_trial *trial = &check->trial;
    char a[BW_SPAN_TEXT], b[BW_SPAN_TEXT], c[BW_SPAN_TEXT];
    bool notifies = ops->traits & BW_STORE_NOTIFIES;
    printf("store        %s\n", check->client.look->shown);
    printf("server       %s\n", check->about[0] ? bw_shown(check->about) : "unknown");
    printf("latency      %s median of %u reads, %s at worst\n",
           bw_span_round(a, check->reads[READS / 2]), READS,
           bw_span_round(b, check->reads[READS - 1]));
    print_traits(ops);
    printf("clock        leases are ended by %s\n", clock_of(ops));
    print_ttl(ops);
    printf("promise      %s\n", ops->summary);
    printf("election     acquired in %s, renewed in %s, handed over in %s%s",
           bw_span_round(a, trial->acquire_ns), bw_span_round(b, trial->renew_ns),
           bw_span_round(c, trial->handover_ns),
           notifies ? "" : " to a candidate that asks at once");
    if (ops->traits & BW_STORE_TOKEN)
        printf(", token %" PRIu64 " then %" PRIu64, trial->first, trial->second);
    putchar('\n');
}

static double ms(bw_time span)
{
    return (double)span / (double)BW_MS;
}

static json_t *json_play(const struct check *check)
{
    const struct bw_trial *trial = &check->trial;
    bool token = check->client.ops->traits & BW_STORE_TOKEN;
    return json_pack(
        "{s:s, s:f, s:f, s:o, s:f, s:o}", "name", check->client.look->election, "acquire_ms",
        ms(trial->acquire_ns), "renew_ms", ms(trial->renew_ns), "heard_ms",
        trial->notified_ns < 0 ? json_null() : json_real(ms(trial->notified_ns)), "handover_ms",
        ms(trial->handover_ns), "tokens",
        token ? json_pack("[I, I]", (json_int_t)trial->first, (json_int_t)trial->second)
              : json_null());
}

static void print_json(const struct check *check)
{
    const struct bw_store_ops *ops = check->client.ops;
    json_t *all = json_object();
    for (size_t i = 0; i < TRAITS; i++)
        json_object_set_new(all, traits[i].key, json_boolean(ops->traits & traits[i].bit));
    json_t *most = ops->ttl_max_ns ? json_real(ms(ops->ttl_max_ns)) : json_null();
    bw_json_line(json_pack("{s:o, s:s, s:o, s:{s:f, s:f, s:i}, s:o, s:s, s:f, s:o, s:s, s:o}",
                           "store", bw_json_text(check->client.look->shown), "scheme", ops->scheme,
                           "server", check->about[0] ? bw_json_text(check->about) : json_null(),
                           "latency_ms", "median", ms(check->reads[READS / 2]), "max",
                           ms(check->reads[READS - 1]), "reads", (int)READS, "traits", all, "clock",
                           clock_of(ops), "ttl_min_ms", ms(ops->ttl_min_ns), "ttl_max_ms", most,
                           "promise", ops->summary, "election", json_play(check)));
}

/* ---- the command ---- */

struct check_options {
    struct bw_look look; /* first */
    bw_time ttl_ns;
};

static const struct bw_option options[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    BW_LOOK_TRIAL_ELECTION,
    {.name = "ttl",
     .form = "D",
     .help = "TTL of the trial election's lease; use that of your candidates (default: 10s, or "
             "the store's minimum)",
     .set = bw_set_duration,
     .offset = offsetof(struct check_options, ttl_ns),
     .low = 1},
    BW_LOOK_JSON,
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

int bw_store_parse(const struct bw_cli_command *command, int argc, char **argv,
                   struct bw_look *look)
{
    struct bw_parsed parsed;
    look->timeout_ns = 5 * BW_SEC;
    look->creates = true;
    int code = bw_options_parse(command, argc, argv, look, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count > 1)
        return bw_usage_error(command, "unexpected argument '%.60s': expected one URL",
                              parsed.operands[1]);
    if (parsed.operands_count == 1)
        look->store = parsed.operands[0];
    if (look->election && (strlen(look->election) > BW_ELECTION_NAME_MAX ||
                           strchr(look->election, '/') || !look->election[0]))
        return bw_usage_error(command, "invalid election name '%.60s'", look->election);
    return bw_look_store(command, look);
}

static int check_ttl(const struct bw_cli_command *command, const struct check_options *given)
{
    char why[BW_WHY_MAX + 1], text[BW_SPAN_TEXT];
    const struct bw_store_ops *ops = bw_store_find(given->look.store, why);
    if (!given->ttl_ns || !ops || bw_store_ttl_check(ops, given->ttl_ns, why) == 0)
        return BW_GO_ON;
    bool is_short = given->ttl_ns < ops->ttl_min_ns;
    return bw_usage_error(command, "use --ttl %s or %s: %s",
                          bw_span_exact(text, is_short ? ops->ttl_min_ns : ops->ttl_max_ns),
                          is_short ? "more" : "less", why);
}

static int run_check(const struct bw_cli_command *command, int argc, char **argv)
{
    struct check_options given = {.look = {.election = "bellwether-check"}};
    struct bw_look *look = &given.look;
    static struct check check;
    int code = bw_store_parse(command, argc, argv, look);
    if (code == BW_GO_ON)
        code = check_ttl(command, &given);
    if (code == BW_GO_ON)
        code = bw_client_open(&check.client, command, look);
    if (code != BW_GO_ON)
        return code;
    const struct bw_store_ops *ops = check.client.ops;
    code = measure_reads(&check);
    if (code == BW_GO_ON && ops->about && !ops->about(check.client.store, check.about))
        check.about[0] = '\0';
    if (code == BW_GO_ON)
        code = bw_trial_election(&check.client, given.ttl_ns, &check.trial);
    if (code == BW_GO_ON) {
        (look->json ? print_json : print_text)(&check);
        code = BW_EXIT_OK;
    }
    bw_client_close(&check.client);
    return code;
}

const struct bw_cli_command bw_command_store_check = {
    .name = "check",
    .path = "bellwether store check",
    .usage = "URL [--ttl D] [--json]",
    .about = "check that a store is reachable, show its guarantees, and run a trial election",
    .text = "Runs one election between two candidates in an election of its own (bellwether-check) "
            "and\n"
            "releases everything afterwards. Exit code: 0 the store behaved as it guarantees; 1 it "
            "did\n"
            "not; 69 it is unreachable; 75 other checks occupy the election.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run_check,
};
