/* `bellwether sim check`: measures published figures on the shipped code. */
#include "cli/commands.h"
#include "cli/options/terminal.h"
#include "cli/sim/jobs.h"
#include "core/base/parse_values.h"
#include "os/clock.h"
#include "sim/figures/figures.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECKS_MAX 128u
/* All checks of this size take less than a minute on two busy cores. 1 is the published size. */
#define SIZE_DEFAULT 0.02
#define SIZE_TEXT    "0.02"
#define SHOW_NS      (200 * BW_MS) /* minimum time between two updates of the progress line */

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
    struct verdict *verdict; /* NULL until the result arrives */
    bool lost;               /* the worker process died */
};

struct check_session {
    const struct bw_cli_command *command;
    struct check_options options;
    struct bw_term term;
    struct chosen chosen[CHECKS_MAX];
    unsigned count, printed, passed, failed, waiting;
    bool progress; /* stderr is a terminal */
    bw_time start, shown;
};

static const char *word_check(unsigned i)
{
    const struct bw_sim_check *check = bw_sim_check_at(i);
    return check ? check->name : NULL;
}

#define AT(field) .offset = offsetof(struct check_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"size", "F",
     "fraction of the published number of runs; 1 is the published size (default: " SIZE_TEXT ")",
     .set = bw_set_decimal, AT(size), .low = 0.0001, .high = 100},
    {"jobs", "N", "number of worker processes (default: one per core)", .set = bw_set_u32, AT(jobs),
     .low = 1, .high = BW_JOBS_MAX},
    {"list", NULL, "list the checks without running them (default: run them)", .set = bw_set_switch,
     AT(list)},
    {"json", NULL, "print one JSON object (default: text)", .set = bw_set_switch, AT(json)},
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

/* Selects a check by name. A number selects all checks with that number. */
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
    return bw_usage_error(s->command, "unknown check '%.60s'; see %s --list", got,
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
    if (check->waits_for)
        return;
    bw_time from = bw_clock_monotonic();
    check->run(&verdict->report, s->options.size);
    verdict->seconds = (double)(bw_clock_monotonic() - from) / 1e9;
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

static void clear_progress(const struct check_session *s)
{
    if (s->progress)
        fputs("\r\033[K", stderr);
}

static void print_check(struct check_session *s, const struct chosen *c)
{
    const struct bw_sim_check *check = c->check;
    const char *word = verdict_word(c);
    enum bw_colour colour = check->waits_for ? BW_YELLOW : passed(c) ? BW_GREEN : BW_RED;
    clear_progress(s);
    printf("%3u %s%s%s  %s%s%s", check->number, bw_term_colour(&s->term, BW_BOLD), check->name,
           bw_term_colour(&s->term, BW_PLAIN), bw_term_colour(&s->term, colour), word,
           bw_term_colour(&s->term, BW_PLAIN));
    if (check->waits_for)
        printf(": needs %s", check->waits_for);
    else if (c->lost)
        printf(": the worker process died");
    printf("\n    %s\n", check->claim);
    for (uint32_t i = 0; c->verdict && i < c->verdict->report.count; i++)
        print_row(s, &c->verdict->report.rows[i]);
    fflush(stdout);
}

/* Prints results in the order of the list, each as soon as all results before it are known. */
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

/* Updates the progress line. A check prints its rows when all checks before it are done, so the
 * line names the check that the output waits for. */
static bool tick(void *context)
{
    struct check_session *s = context;
    unsigned finished = 0;
    bw_time now = bw_clock_monotonic();
    if (!s->progress || s->printed == s->count || now - s->shown < SHOW_NS)
        return true;
    s->shown = now;
    for (unsigned i = 0; i < s->count; i++)
        finished += s->chosen[i].verdict || s->chosen[i].lost;
    fprintf(stderr, "\r\033[K%u of %u checks done after %.0f s; waiting for %s", finished, s->count,
            (double)(now - s->start) / 1e9, s->chosen[s->printed].check->name);
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
    struct bw_sim_jobs jobs = {.count = s->count,
                               .workers = s->options.jobs ? s->options.jobs : bw_sim_jobs_cores(),
                               .result_bytes = sizeof(struct verdict),
                               .context = s,
                               .work = work,
                               .done = done,
                               .died = died,
                               .tick = tick};
    int result = bw_sim_jobs_run(&jobs);
    if (result < 0) {
        fprintf(stderr, "%s: cannot start workers: %s\n", s->command->path, strerror(errno));
        return BW_EXIT_IO;
    }
    clear_progress(s);
    if (result > 0)
        return 130;
    if (s->options.json)
        print_json(s);
    else
        printf("\n%u passed, %u failed, %u waiting, size %g\n", s->passed, s->failed, s->waiting,
               s->options.size);
    return s->failed ? BW_EXIT_FAILED : BW_EXIT_OK;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    struct check_session *s = calloc(1, sizeof *s);
    if (!s)
        return BW_EXIT_IO;
    s->command = command;
    s->options.size = SIZE_DEFAULT;
    s->progress = isatty(STDERR_FILENO);
    s->start = bw_clock_monotonic();
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
    .about = "measure published figures on the shipped code",
    .text = "Each check is a claim with rows of expected value, measured value and tolerance. "
            "Without a\n"
            "name all checks run, on all cores. They take less than a minute on two cores. "
            "--size 1 runs\n"
            "the published number of repetitions and takes many minutes. Exit code 1 if a check "
            "fails.\n"
            "A check that needs a part which is not built is shown as waiting.\n"
            "\n"
            "Try:\n"
            "  bellwether sim check --list\n"
            "  bellwether sim check 1 --json\n"
            "  bellwether sim check --size 1\n",
    .options = options_table,
    .operand = word_check,
    .run = run,
};
