/* `bellwether sim compare`: compares the algorithms by measurements on the shipped code. */
#include "cli/commands.h"
#include "cli/options/terminal.h"
#include "cli/sim/compare.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX  64u
#define CELLS_MAX 12u
#define CELL      40u

struct compare_options {
    uint32_t nodes, runs;
    uint64_t seed;
    bool json, markdown, detectors;
    struct bw_sim_lease lease;
};

struct compare_session {
    const struct bw_cli_command *command;
    struct compare_options options;
    struct bw_term term;
    struct bw_sim *sim;
    struct bw_compare_row rows[ROWS_MAX];
    struct bw_compare_detector detectors[ROWS_MAX];
    unsigned count;
};

#define AT(field) .offset = offsetof(struct compare_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"nodes", "N", "number of nodes (default: 5)", .set = bw_set_u32, AT(nodes), .low = 3,
     .high = BW_RAFT_MEMBERS_MAX},
    {"runs", "R", "runs per algorithm, for the means (default: 20)", .set = bw_set_u32, AT(runs),
     .low = 1, .high = 100000},
    {"seed", "S", "seed of the first run (default: 1)", .set = bw_set_u64, AT(seed)},
    {"detectors", NULL, "compare the failure detectors instead (default: the algorithms)",
     .set = bw_set_switch, AT(detectors)},
    {"markdown", NULL, "print the table as Markdown (default: text)", .set = bw_set_switch,
     AT(markdown)},
    {"json", NULL, "print one JSON object (default: text)", .set = bw_set_switch, AT(json)},
    BW_LEASE_OPTIONS(struct compare_options, lease),
    {0},
};

/* ---- tables ---- */

struct table {
    unsigned columns, rows;
    char cells[ROWS_MAX + 1][CELLS_MAX][CELL]; /* row 0: column heads */
    bool bad[ROWS_MAX + 1][CELLS_MAX];         /* shown in red */
};

static void put(struct table *t, unsigned row, unsigned column, const char *text, bool bad)
{
    snprintf(t->cells[row][column], CELL, "%s", text);
    t->bad[row][column] = bad;
    if (column >= t->columns)
        t->columns = column + 1;
    if (row >= t->rows)
        t->rows = row + 1;
}

static void put_ms(struct table *t, unsigned row, unsigned column, double ms, bool bad)
{
    char text[BW_TEXT_SPAN];
    put(t, row, column, ms < 0 ? "never" : bw_term_span(text, (bw_time)(ms * 1e6 + 0.5)), bad);
}

static void put_count(struct table *t, unsigned row, unsigned column, double value, bool bad)
{
    char text[BW_TEXT_SPAN];
    put(t, row, column, bw_term_count(text, value), bad);
}

static void print_text(const struct table *t, const struct bw_term *term)
{
    size_t width[CELLS_MAX] = {0};
    for (unsigned r = 0; r < t->rows; r++)
        for (unsigned c = 0; c < t->columns; c++)
            if (strlen(t->cells[r][c]) > width[c])
                width[c] = strlen(t->cells[r][c]);
    for (unsigned r = 0; r < t->rows; r++) {
        for (unsigned c = 0; c < t->columns; c++) {
            enum bw_colour colour = r == 0 ? BW_BOLD : t->bad[r][c] ? BW_RED : BW_PLAIN;
            bool left = c == 0 || c + 1 == t->columns;
            int wide = c + 1 == t->columns ? 0 : (int)width[c];
            printf("%s%s%*s", c ? "  " : "", bw_term_colour(term, colour), left ? -wide : wide,
                   t->cells[r][c]);
            printf("%s", bw_term_colour(term, BW_PLAIN));
        }
        putchar('\n');
    }
}

static void print_markdown(const struct table *t)
{
    for (unsigned r = 0; r < t->rows; r++) {
        for (unsigned c = 0; c < t->columns; c++)
            printf("| %s ", t->cells[r][c]);
        printf("|\n");
        for (unsigned c = 0; r == 0 && c < t->columns; c++)
            printf(c == 0 ? "| --- " : "| ---: ");
        if (r == 0)
            printf("|\n");
    }
}

static void print_table(const struct compare_session *s, const struct table *t)
{
    if (s->options.markdown)
        print_markdown(t);
    else
        print_text(t, &s->term);
}

/* ---- algorithms ---- */

static void row_name(const struct bw_compare_row *row, char *out, size_t size)
{
    bool lease = bw_sim_is_lease(row->algorithm);
    snprintf(out, size, "%s%s%s%s", row->algorithm->name, row->guard ? " --quorum" : "",
             lease ? " --store-model " : "", lease ? bw_sim_store_name(row->lease.store) : "");
}

static void print_algorithms(const struct compare_session *s)
{
    static const char *const heads[] = {"algorithm", "noticed",   "failover", "may act",
                                        "messages",  "partition", "pause",    "drift",
                                        "stale",     "token",     "minority"};
    struct table *t = calloc(1, sizeof *t);
    char name[CELL];
    if (!t)
        return;
    for (unsigned c = 0; c < sizeof heads / sizeof *heads; c++)
        put(t, 0, c, heads[c], false);
    for (unsigned i = 0; i < s->count; i++) {
        const struct bw_compare_row *row = &s->rows[i];
        row_name(row, name, sizeof name);
        put(t, i + 1, 0, name, false);
        put_ms(t, i + 1, 1, row->noticed, row->noticed < 0);
        put_ms(t, i + 1, 2, row->failover, row->failover < 0);
        put_ms(t, i + 1, 3, row->acts, row->acts < 0);
        put_count(t, i + 1, 4, row->messages, false);
        put_ms(t, i + 1, 5, row->two_partition, row->two_partition > 0);
        put_ms(t, i + 1, 6, row->two_pause, row->two_pause > 0);
        put_ms(t, i + 1, 7, row->two_drift, row->two_drift > 0);
        put_count(t, i + 1, 8, row->stale_accepted, row->stale_accepted > 0);
        put(t, i + 1, 9, row->token ? "yes" : "no", !row->token);
        put(t, i + 1, 10, row->minority_leads ? "leads" : "no leader", row->minority_leads);
    }
    print_table(s, t);
    free(t);
}

static void explain_algorithms(const struct compare_session *s)
{
    char text[8192], ttl[BW_TEXT_SPAN], grace[BW_TEXT_SPAN];
    const char *name;
    printf("\n"
           "Means of %u runs with %u nodes, 1..5 ms latency, 100 ms heartbeats; detector deadline "
           "where one is needed;\n"
           "leases of %s, grace %s.\n",
           s->options.runs, s->options.nodes, bw_term_span(ttl, s->options.lease.ttl_ns),
           bw_term_span(grace, s->options.lease.grace_ns));
    printf(
        "noticed, failover, may act: from the leader's crash until a node suspects it or starts "
        "an\n"
        "election, until the node that all then follow leads, and until it acts. messages: sent\n"
        "by the electors from the crash until all agree. partition, pause, drift: how long two\n"
        "leaders acted. stale: writes of a deposed leader that the resource accepted; it checks\n"
        "tokens if there are any. minority: whether the smaller side of the partition has a "
        "leader.\n");
    printf("The fault scripts, for `sim run --script`:\n");
    for (unsigned i = 0; (name = bw_compare_script(i, s->options.nodes, text, sizeof text)); i++) {
        printf("  %-10s", name);
        for (const char *c = text; *c; c++)
            if (*c != '\n')
                putchar(*c);
            else if (c[1])
                printf("; ");
        putchar('\n');
    }
}

static void algorithms_json(const struct compare_session *s, json_t *root)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->count; i++) {
        const struct bw_compare_row *row = &s->rows[i];
        json_t *two = json_pack("{s:f,s:f,s:f}", "partition", row->two_partition, "pause",
                                row->two_pause, "drift", row->two_drift);
        json_t *stale =
            json_pack("{s:f,s:f}", "tried", row->stale_tried, "accepted", row->stale_accepted);
        json_array_append_new(
            list,
            json_pack("{s:s,s:b,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:s,s:s,s:b,s:s}", "algorithm",
                      row->algorithm->name, "guarded", row->guard, "detection_ms", row->noticed,
                      "failover_ms", row->failover, "may_act_ms", row->acts, "agreed_ms",
                      row->agrees, "messages", row->messages, "two_leaders_ms", two, "stale_writes",
                      stale, "minority", row->minority_leads ? "leads" : "no leader", "majority",
                      row->majority_leads ? "leads" : "no leader", "token", row->token, "promise",
                      row->guard ? bw_elect_guard.promise : row->algorithm->promise));
        if (bw_sim_is_lease(row->algorithm))
            json_object_set_new(json_array_get(list, json_array_size(list) - 1), "store_model",
                                json_string(bw_sim_store_name(row->lease.store)));
    }
    json_object_set_new(root, "algorithms", list);
}

/* Measures leases: one row, or one row for each of the four store models. */
static int measure_leases(struct compare_session *s, char *why)
{
    enum bw_sim_store chosen = s->options.lease.store;
    int error = 0;
    for (unsigned i = 0; bw_sim_store_name(i) && s->count < ROWS_MAX && error == 0; i++) {
        if (chosen != BW_SIM_STORE_ANY && chosen != (enum bw_sim_store)i)
            continue;
        struct bw_compare_row *row = &s->rows[s->count++];
        row->algorithm = bw_sim_lease_ops((enum bw_sim_store)i);
        row->lease = s->options.lease;
        row->lease.store = (enum bw_sim_store)i;
        error = bw_compare_algorithm(s->sim, s->options.nodes, s->options.runs, s->options.seed,
                                     row, why);
    }
    return error;
}

static int measure_algorithms(struct compare_session *s, char *why)
{
    const struct bw_elector_ops *ops;
    for (unsigned i = 0; (ops = bw_elector_at(i)); i++)
        for (int guard = 0; guard <= 1 && s->count < ROWS_MAX; guard++) {
            if (guard && !(ops->traits & BW_TRAIT_GUARDABLE))
                continue;
            struct bw_compare_row *row = &s->rows[s->count++];
            row->algorithm = ops;
            row->guard = guard == 1;
            int error = bw_compare_algorithm(s->sim, s->options.nodes, s->options.runs,
                                             s->options.seed, row, why);
            if (error != 0)
                return error;
        }
    return measure_leases(s, why);
}

/* ---- detectors ---- */

static void print_detectors(const struct compare_session *s)
{
    struct table *t = calloc(1, sizeof *t);
    char head[CELL];
    if (!t)
        return;
    put(t, 0, 0, "detector", false);
    put(t, 0, 1, "first", false);
    put(t, 0, 2, "all", false);
    put(t, 0, 3, "first, 20 % loss", false);
    put(t, 0, 4, "messages", false);
    for (unsigned k = 0; k < BW_COMPARE_LOSSES; k++) {
        snprintf(head, sizeof head, "false, %g %% loss", bw_compare_losses[k] * 100);
        put(t, 0, 5 + k, head, false);
    }
    for (unsigned i = 0; i < s->count; i++) {
        const struct bw_compare_detector *row = &s->detectors[i];
        put(t, i + 1, 0, row->detector->name, false);
        put_ms(t, i + 1, 1, row->first, row->first < 0);
        put_ms(t, i + 1, 2, row->all, row->all < 0);
        put_ms(t, i + 1, 3, row->first_lossy, row->first_lossy < 0);
        put_count(t, i + 1, 4, row->messages, false);
        for (unsigned k = 0; k < BW_COMPARE_LOSSES; k++)
            put_count(t, i + 1, 5 + k, row->false_rate[k], row->false_rate[k] > 0.01);
    }
    print_table(s, t);
    free(t);
    if (!s->options.markdown)
        printf("\n"
               "Means of %u runs with %u nodes, 100 ms period. first, all: from a crash until the "
               "first and the\n"
               "last live member suspects the crashed one. messages and false suspicions are per "
               "member and period.\n",
               s->options.runs, s->options.nodes);
}

static void detectors_json(const struct compare_session *s, json_t *root)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->count; i++) {
        const struct bw_compare_detector *row = &s->detectors[i];
        json_t *rates = json_array();
        for (unsigned k = 0; k < BW_COMPARE_LOSSES; k++)
            json_array_append_new(rates, json_pack("{s:f,s:f}", "loss", bw_compare_losses[k],
                                                   "rate", row->false_rate[k]));
        json_array_append_new(list, json_pack("{s:s,s:f,s:f,s:f,s:f,s:o}", "detector",
                                              row->detector->name, "detection_first_ms", row->first,
                                              "detection_all_ms", row->all,
                                              "detection_first_lossy_ms", row->first_lossy,
                                              "messages_per_member_period", row->messages,
                                              "false_suspicions_per_member_period", rates));
    }
    json_object_set_new(root, "detectors", list);
}

static int measure_detectors(struct compare_session *s, char *why)
{
    const struct bw_detector_ops *ops;
    for (unsigned i = 0; (ops = bw_detector_at(i)) && s->count < ROWS_MAX; i++) {
        struct bw_compare_detector *row = &s->detectors[s->count++];
        row->detector = ops;
        int error = bw_compare_detector(s->sim, s->options.nodes, s->options.runs, s->options.seed,
                                        row, why);
        if (error != 0)
            return error;
    }
    return 0;
}

/* ---- the command ---- */

/* Short enough to expire within the scripts. */
static const struct bw_sim_lease compared_lease = {.store = BW_SIM_STORE_ANY,
                                                   .ttl_ns = 3 * BW_SEC,
                                                   .grace_ns = 200 * BW_MS,
                                                   .retry_ns = 500 * BW_MS,
                                                   .kill_after_ns = 500 * BW_MS,
                                                   .margin_ns = 100 * BW_MS};

static void print(const struct compare_session *s)
{
    const struct compare_options *o = &s->options;
    if (o->json) {
        json_t *root = json_pack("{s:i,s:i,s:I}", "nodes", (int)o->nodes, "runs", (int)o->runs,
                                 "seed", (json_int_t)o->seed);
        if (o->detectors)
            detectors_json(s, root);
        else
            algorithms_json(s, root);
        json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
        putchar('\n');
        json_decref(root);
    } else if (o->detectors) {
        print_detectors(s);
    } else {
        print_algorithms(s);
        if (!o->markdown)
            explain_algorithms(s);
    }
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    char why[BW_WHY] = "";
    struct compare_session *s = calloc(1, sizeof *s);
    if (!s)
        return BW_EXIT_IO;
    s->command = command;
    s->options =
        (struct compare_options){.nodes = 5, .runs = 20, .seed = 1, .lease = compared_lease};
    bw_term_init(&s->term);
    int code = bw_options_parse(command, argc, argv, &s->options, &parsed);
    if (code == BW_GO_ON) {
        s->sim = bw_sim_new();
        int error = !s->sim                ? -1
                    : s->options.detectors ? measure_detectors(s, why)
                                           : measure_algorithms(s, why);
        code = BW_EXIT_OK;
        if (error != 0)
            code = bw_usage_error(command, "%s", s->sim ? why : "out of memory");
        else
            print(s);
    }
    if (s->sim)
        bw_sim_free(s->sim);
    free(s);
    return code;
}

const struct bw_cli_command bw_command_sim_compare = {
    .name = "compare",
    .path = "bellwether sim compare",
    .usage = "[--nodes N] [--detectors] [--markdown] [--json]",
    .about = "compare all algorithms under the same crash, partition, pause and drift",
    .text =
        "Runs every algorithm under the same four fault scripts, and also with --quorum where the\n"
        "guard applies. With --detectors it compares how soon each detector notices a crash and "
        "how\n"
        "often it is wrong when messages are lost. Defaults for leases here: --ttl 3s\n"
        "--kill-after 500ms --grace 200ms --retry 500ms, on every store model.\n",
    .options = options_table,
    .run = run,
};
