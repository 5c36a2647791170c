/* `bellwether sim check`: the published figures, measured on the shipped code. */
#include "cli/commands.h"
#include "cli/options/terminal.h"
#include "cli/sim/jobs.h"
#include "core/base/text.h"
#include "sim/figures/checks.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECKS_MAX 128u

struct check_options {
    double size;
    uint32_t jobs;
    bool json, list;
};

struct verdict {
    struct bw_report report;
    double seconds;
};

struct chosen {
    const struct bw_sim_check *check;
    struct verdict *verdict; /* NULL until it is there */
    bool lost;               /* the process died */
};

struct check_session {
    const struct bw_cli_command *command;
    struct check_options options;
    struct bw_term term;
    struct chosen chosen[CHECKS_MAX];
    unsigned count, printed, passed, failed, waiting;
};

static const char *word_check(unsigned i)
{
    const struct bw_sim_check *check = bw_sim_check_at(i);
    return check ? check->name : NULL;
}

#define AT(field) .offset = offsetof(struct check_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"size", "F", "part of the published number of runs, as 0.1 (default 1)", .set = bw_set_decimal,
     AT(size), .low = 0.0001, .high = 100},
    {"jobs", "N", "worker processes (default: one per core)", .set = bw_set_u32, AT(jobs), .low = 1,
     .high = BW_JOBS_MAX},
    {"list", NULL, "only say which checks there are", .set = bw_set_switch, AT(list)},
    {"json", NULL, "one JSON object", .set = bw_set_switch, AT(json)},
    {0},
};

/* ---- choosing ---- */

static void choose_check(struct check_session *s, const struct bw_sim_check *check)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->chosen[i].check == check)
            return;
    if (s->count < CHECKS_MAX)
        s->chosen[s->count++].check = check;
}

/* A number stands for all checks of that number. */
static bool choose_named(struct check_session *s, const char *name)
{
    uint64_t number;
    bool found = false;
    bool by_number = bw_text_number(name, strlen(name), 1000, &number) == 0;
    const struct bw_sim_check *check;
    for (unsigned i = 0; (check = bw_sim_check_at(i)); i++)
        if (by_number ? check->number == number : strcmp(check->name, name) == 0) {
            choose_check(s, check);
            found = true;
        }
    return found;
}

static int unknown_check(const struct check_session *s, const char *got)
{
    const char *near = NULL, *word;
    for (unsigned i = 0; (word = word_check(i)); i++)
        if (bw_text_similar(got, word) &&
            (!near || bw_text_distance(got, word) < bw_text_distance(got, near)))
            near = word;
    if (near)
        return bw_usage_error(s->command, "unknown check '%.60s' (did you mean %s?)", got, near);
    return bw_usage_error(s->command, "unknown check '%.60s'; %s --list names them", got,
                          s->command->path);
}

static int choose(struct check_session *s, const struct bw_parsed *parsed)
{
    const struct bw_sim_check *check;
    for (int i = 0; i < parsed->operands_count; i++)
        if (!choose_named(s, parsed->operands[i]))
            return unknown_check(s, parsed->operands[i]);
    for (unsigned i = 0; parsed->operands_count == 0 && (check = bw_sim_check_at(i)); i++)
        choose_check(s, check);
    return BW_GO_ON;
}

/* ---- workers ---- */

static void work(void *context, uint64_t item, void *result)
{
    struct check_session *s = context;
    struct verdict *verdict = result;
    const struct bw_sim_check *check = s->chosen[item].check;
    struct timespec from, to;
    if (check->waits_for)
        return;
    clock_gettime(CLOCK_MONOTONIC, &from);
    check->run(&verdict->report, s->options.size);
    clock_gettime(CLOCK_MONOTONIC, &to);
    verdict->seconds =
        (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* ---- output ---- */

static bool passed(const struct chosen *c)
{
    return !c->lost && c->verdict && c->verdict->report.failed == 0 && c->verdict->report.count > 0;
}

static const char *verdict_word(const struct chosen *c)
{
    if (c->check->waits_for)
        return "waiting";
    return passed(c) ? "passed" : "failed";
}

static void print_row(const struct check_session *s, const struct bw_report_row *row)
{
    static const char *const relations[] = {"=", "~", "<=", ">="};
    char expected[48];
    if (row->relation == BW_ROW_NEAR)
        snprintf(expected, sizeof expected, "%.6g +- %.3g", row->expected, row->tolerance);
    else
        snprintf(expected, sizeof expected, "%.9g", row->expected);
    printf("      %-58s %2s %-20s %12.9g  %s%s%s\n", row->what, relations[row->relation], expected,
           row->measured, bw_term_colour(&s->term, row->pass ? BW_GREEN : BW_RED),
           row->pass ? "ok" : "FAILED", bw_term_colour(&s->term, BW_PLAIN));
}

static void print_check(struct check_session *s, const struct chosen *c)
{
    const struct bw_sim_check *check = c->check;
    const char *word = verdict_word(c);
    enum bw_colour colour = check->waits_for ? BW_YELLOW : passed(c) ? BW_GREEN : BW_RED;
    printf("%3u %s%s%s  %s%s%s", check->number, bw_term_colour(&s->term, BW_BOLD), check->name,
           bw_term_colour(&s->term, BW_PLAIN), bw_term_colour(&s->term, colour), word,
           bw_term_colour(&s->term, BW_PLAIN));
    if (check->waits_for)
        printf(": needs %s", check->waits_for);
    else if (c->lost)
        printf(": the process died");
    printf("\n    %s\n", check->claim);
    for (uint32_t i = 0; c->verdict && i < c->verdict->report.count; i++)
        print_row(s, &c->verdict->report.rows[i]);
    fflush(stdout);
}

/* In the order of the list, as soon as all before are there. */
static void print_ready(struct check_session *s)
{
    while (s->printed < s->count) {
        struct chosen *c = &s->chosen[s->printed];
        if (!c->verdict && !c->lost)
            return;
        s->waiting += c->check->waits_for != NULL;
        s->passed += !c->check->waits_for && passed(c);
        s->failed += !c->check->waits_for && !passed(c);
        if (!s->options.json)
            print_check(s, c);
        s->printed++;
    }
}

static void done(void *context, uint64_t item, const void *result)
{
    struct check_session *s = context;
    struct verdict *copy = malloc(sizeof *copy);
    if (copy)
        memcpy(copy, result, sizeof *copy);
    s->chosen[item].verdict = copy;
    s->chosen[item].lost = !copy;
    print_ready(s);
}

static void died(void *context, uint64_t item, int signal)
{
    struct check_session *s = context;
    (void)signal;
    s->chosen[item].lost = true;
    print_ready(s);
}

static bool tick(void *context)
{
    (void)context;
    return true;
}

static json_t *check_json(const struct chosen *c)
{
    static const char *const relations[] = {"equal", "near", "at_most", "at_least"};
    json_t *rows = json_array();
    for (uint32_t i = 0; c->verdict && i < c->verdict->report.count; i++) {
        const struct bw_report_row *row = &c->verdict->report.rows[i];
        json_array_append_new(rows, json_pack("{s:s,s:s,s:f,s:f,s:f,s:b}", "what", row->what,
                                              "relation", relations[row->relation], "expected",
                                              row->expected, "measured", row->measured, "tolerance",
                                              row->tolerance, "pass", row->pass));
    }
    return json_pack("{s:i,s:s,s:s,s:s,s:s?,s:f,s:o}", "number", (int)c->check->number, "name",
                     c->check->name, "claim", c->check->claim, "verdict", verdict_word(c),
                     "waits_for", c->check->waits_for, "seconds",
                     c->verdict ? c->verdict->seconds : 0.0, "rows", rows);
}

static void print_json(const struct check_session *s)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->count; i++)
        json_array_append_new(list, check_json(&s->chosen[i]));
    json_t *root =
        json_pack("{s:f,s:i,s:i,s:i,s:o}", "size", s->options.size, "passed", (int)s->passed,
                  "failed", (int)s->failed, "waiting", (int)s->waiting, "checks", list);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(root);
}

static void print_list(const struct check_session *s)
{
    for (unsigned i = 0; i < s->count; i++)
        printf("%3u %-40s %s\n", s->chosen[i].check->number, s->chosen[i].check->name,
               s->chosen[i].check->claim);
}

/* ---- the command ---- */

static int run_checks(struct check_session *s)
{
    struct bw_jobs jobs = {.count = s->count,
                           .workers = s->options.jobs ? s->options.jobs : bw_jobs_cores(),
                           .result_bytes = sizeof(struct verdict),
                           .context = s,
                           .work = work,
                           .done = done,
                           .died = died,
                           .tick = tick};
    int result = bw_jobs_run(&jobs);
    if (result < 0) {
        fprintf(stderr, "%s: cannot start workers: %s\n", s->command->path, strerror(errno));
        return BW_EXIT_IO;
    }
    if (result > 0)
        return 130;
    if (s->options.json)
        print_json(s);
    else
        printf("\n%u passed, %u failed, %u waiting\n", s->passed, s->failed, s->waiting);
    return s->failed ? BW_EXIT_FAILED : BW_EXIT_OK;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    struct check_session *s = calloc(1, sizeof *s);
    if (!s)
        return BW_EXIT_IO;
    s->command = command;
    s->options.size = 1;
    bw_term_init(&s->term);
    int code = bw_options_parse(command, argc, argv, &s->options, &parsed);
    if (code == BW_GO_ON)
        code = choose(s, &parsed);
    if (code == BW_GO_ON && s->options.list) {
        print_list(s);
        code = BW_EXIT_OK;
    }
    if (code == BW_GO_ON)
        code = run_checks(s);
    for (unsigned i = 0; i < s->count; i++)
        free(s->chosen[i].verdict);
    free(s);
    return code;
}

const struct bw_cli_command bw_command_sim_check = {
    .name = "check",
    .path = "bellwether sim check",
    .usage = "[NAME|NUMBER]... [--size F] [--json]",
    .about = "published figures, measured on the shipped code",
    .text = "Each check is a claim with rows of expected, measured and tolerance. Without a name\n"
            "all are run, on all cores. Exit code 1 when one fails; one that waits for a part not\n"
            "yet built is shown as waiting.\n"
            "\n"
            "Try:\n"
            "  bellwether sim check --list\n"
            "  bellwether sim check 1 --json\n"
            "  bellwether sim check --size 0.1\n",
    .options = options_table,
    .operand = word_check,
    .run = run,
};
