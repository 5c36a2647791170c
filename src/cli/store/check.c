/* `bellwether store check URL`: what this store promises, as it declares it and as it was seen to
 * behave just now. */
#include "cli/store/check.h"

#include "cli/look/record_print.h"
#include "cli/options/terminal.h"
#include "cli/store/play.h"

#include <inttypes.h>
#include <string.h>

#define READS         21u /* an odd number has a median */
#define OBSERVED_TEXT "the waiting candidates' own: each watches the record stand still for a TTL"
#define EXPIRED_TEXT  "the store's own"

struct check {
    struct bw_client client;
    char about[BW_WHY_MAX + 1]; /* "": it does not say */
    bw_time reads[READS];       /* sorted */
    struct bw_play play;
};

/* In text a line per trait, unless what there is to say is NULL: `clock` says it better, or it is
 * of use to few. */
struct trait {
    unsigned bit;
    const char *key, *label, *yes, *no;
};

static const struct trait traits[] = {
    {BW_STORE_TOKEN, "token", "token", "one per leadership, and it only grows",
     "none: guards cannot tell a former leader"},
    {BW_STORE_OBSERVED, "observed", NULL, NULL, NULL},
    {BW_STORE_NOTIFIES, "notifies", "waiting", "told at once", "looks again and again"},
    {BW_STORE_QUEUE, "queue", "order", "served in the order they came", "candidates race"},
    {BW_STORE_LISTS, "lists", "candidates", "listed", "not known"},
    {BW_STORE_PROVES_DEATH, "proves_death", "dead holder", "proved dead and followed at once",
     "followed after its TTL"},
    {BW_STORE_NOTES, "notes", "notes", "resign and transfer reach the leader",
     "none: resign and transfer do not work from elsewhere"},
    {BW_STORE_WALL, "wall", "uncertainty", "--clock-uncertainty may shorten the wait after a crash",
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

/* The first reading connects and is not counted. */
static int measure_reads(struct check *check)
{
    for (unsigned i = 0; i <= READS; i++) {
        struct bw_store_request request = bw_client_request(&check->client, BW_STORE_READ);
        bw_time sent = bw_client_now();
        int code = bw_client_ask(&check->client, &request);
        if (code != BW_GO_ON)
            return code;
        if (check->client.reply.outcome != BW_OUTCOME_DONE)
            return bw_client_fail(&check->client, BW_EXIT_UNAVAILABLE, "%s",
                                  check->client.reply.why);
        if (i > 0)
            check->reads[i - 1] = bw_client_now() - sent;
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
    char span[BW_TEXT_SPAN];
    printf("shortest TTL %s\n", bw_term_span(span, ops->ttl_min_ns));
    if (ops->ttl_max_ns)
        printf("longest TTL  %s\n", bw_term_span(span, ops->ttl_max_ns));
}

static void print_text(const struct check *check)
{
    const struct bw_store_ops *ops = check->client.ops;
    const struct bw_play *play = &check->play;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN];
    bool told = ops->traits & BW_STORE_NOTIFIES;
    printf("store        %s\n", check->client.look->shown);
    printf("server       %s\n", check->about[0] ? bw_shown(check->about) : "does not say");
    printf("latency      %s median of %u reads, %s at worst\n",
           bw_term_span(a, check->reads[READS / 2]), READS,
           bw_term_span(b, check->reads[READS - 1]));
    print_traits(ops);
    printf("clock        leases end by %s\n", clock_of(ops));
    print_ttl(ops);
    printf("promise      %s\n", ops->summary);
    printf("election     acquired in %s, renewed in %s, handed over in %s%s",
           bw_term_span(a, play->acquire_ns), bw_term_span(b, play->renew_ns),
           bw_term_span(c, play->handover_ns), told ? "" : " to one that asked at once");
    if (ops->traits & BW_STORE_TOKEN)
        printf(", token %" PRIu64 " then %" PRIu64, play->first, play->second);
    putchar('\n');
}

static double ms(bw_time span)
{
    return (double)span / (double)BW_MS;
}

static json_t *json_play(const struct check *check)
{
    const struct bw_play *play = &check->play;
    bool token = check->client.ops->traits & BW_STORE_TOKEN;
    return json_pack("{s:s, s:f, s:f, s:o, s:f, s:o}", "name", check->client.look->election,
                     "acquire_ms", ms(play->acquire_ns), "renew_ms", ms(play->renew_ns), "heard_ms",
                     play->heard_ns < 0 ? json_null() : json_real(ms(play->heard_ns)),
                     "handover_ms", ms(play->handover_ns), "tokens",
                     token ? json_pack("[I, I]", (json_int_t)play->first, (json_int_t)play->second)
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

static const struct bw_option options[] = {
    BW_LOOK_STORE, BW_LOOK_STORE_FILE, BW_LOOK_ELECTION,
    BW_LOOK_JSON,  BW_LOOK_TIMEOUT,    {.name = NULL},
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
        return bw_usage_error(command, "'%.60s': one URL only", parsed.operands[1]);
    if (parsed.operands_count == 1)
        look->store = parsed.operands[0];
    if (look->election && (strlen(look->election) > BW_ELECTION_NAME_MAX ||
                           strchr(look->election, '/') || !look->election[0]))
        return bw_usage_error(command, "'%.60s' is no name of an election", look->election);
    return bw_look_store(command, look);
}

static int run_check(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_look look = {.election = "bellwether-check"};
    static struct check check;
    int code = bw_store_parse(command, argc, argv, &look);
    if (code == BW_GO_ON)
        code = bw_client_open(&check.client, command, &look);
    if (code != BW_GO_ON)
        return code;
    const struct bw_store_ops *ops = check.client.ops;
    code = measure_reads(&check);
    if (code == BW_GO_ON && ops->about && !ops->about(check.client.store, check.about))
        check.about[0] = '\0';
    if (code == BW_GO_ON)
        code = bw_play_election(&check.client, &check.play);
    if (code == BW_GO_ON) {
        (look.json ? print_json : print_text)(&check);
        code = BW_EXIT_OK;
    }
    bw_client_close(&check.client);
    return code;
}

const struct bw_cli_command bw_command_store_check = {
    .name = "check",
    .path = "bellwether store check",
    .usage = "URL [--json]",
    .about = "can it be reached, what does it promise, and does it keep that once",
    .text = "Plays one election between two candidates of its own, in an election of its own\n"
            "(bellwether-check), and lets go of all it took. Exit code: 0 all went as promised;\n"
            "1 it did not; 69 the store cannot be reached; 75 others check it all the time.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run_check,
};
