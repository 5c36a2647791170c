/* `bellwether sim run`: runs one experiment, once or many times with consecutive seeds. */
#include "cli/sim/run.h"

#include "cli/commands.h"
#include "core/base/parse_values.h"
#include "os/clock.h"
#include "sim/checks/invariants.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LANES_MAX   64u          /* more lanes do not fit on a screen */
#define RUN_ON      0.15         /* part of a run that a picture shows after its end */
#define SHOWN_AFTER (5 * BW_SEC) /* a fault's effect is usually visible within this time */

struct session {
    const struct bw_cli_command *command;
    struct bw_sim_run_options *options;
    struct bw_sim *sim;
    struct bw_summary summary;
    struct bw_timeline timeline;
    struct bw_sim_result first; /* of the first run */
    bool picture;               /* the first run is recorded */
    FILE *trace;
};

static double now_ms(void)
{
    return (double)bw_clock_monotonic() / 1e6;
}

static unsigned promised_checks(const struct bw_sim_config *c)
{
    unsigned checks = BW_CHECK_MEMORY;
    if (c->algorithm && (c->guard || !(c->algorithm->traits & BW_TRAIT_MAY_SPLIT)))
        checks |= BW_CHECK_ONE_PER_TERM | BW_CHECK_EXCLUSION | BW_CHECK_TOKENS | BW_CHECK_STALE;
    if (bw_sim_is_raft(c->algorithm))
        checks |= BW_CHECK_LOG;
    return checks;
}

static int one_run(struct session *s, uint32_t r)
{
    struct bw_sim_config config = s->options->config;
    struct bw_sim_result result;
    char why[BW_WHY] = "";
    config.seed += r;
    config.trace = s->trace;
    config.checks = s->options->check ? promised_checks(&config) : 0;
    if (s->picture && r == 0) {
        config.observer = &s->timeline.observer;
        config.run_on = RUN_ON;
    }
    if (s->trace && s->options->runs > 1)
        fprintf(s->trace, "# seed %llu\n", (unsigned long long)config.seed);
    double before = now_ms();
    int error = bw_sim_run_in(s->sim, &config, &result, why);
    if (error != 0)
        return bw_usage_error(s->command, "%s", why);
    if (s->picture && r == 0)
        bw_timeline_finish(&s->timeline, &config, &result);
    if (r == 0)
        s->first = result;
    bw_summary_add(&s->summary, &result, config.seed, now_ms() - before);
    return BW_GO_ON;
}

static void print_timeline(struct session *s, const struct bw_term *term)
{
    if (s->options->no_timeline || s->timeline.nodes > LANES_MAX)
        return;
    putchar('\n');
    bw_timeline_text(&s->timeline, term, stdout, 0, s->timeline.shown, s->timeline.shown);
    bw_timeline_legend(&s->timeline, term, stdout);
}

static void print_story(struct session *s)
{
    char text[200];
    putchar('\n');
    for (uint32_t i = 0; i < s->timeline.moments_count; i++)
        if (bw_story_sentence(&s->timeline, i, text, sizeof text))
            printf("%9.3f s  %s\n", (double)s->timeline.moments[i].at / 1e9, text);
}

/* Faults that last, and that a node notices only after some time. */
static const char *lasting(enum bw_sim_fault_kind kind)
{
    switch (kind) {
    case BW_FAULT_PARTITION:
        return "partition";
    case BW_FAULT_CUT:
        return "cut";
    case BW_FAULT_LOSS:
        return "loss";
    case BW_FAULT_LATENCY:
        return "latency";
    case BW_FAULT_DRIFT:
        return "drift";
    case BW_FAULT_STORE_DOWN:
        return "store-down";
    default:
        return NULL;
    }
}

/* Without --until, a run ends as soon as all nodes agree. They still agree when a partition begins,
 * so its figures look as if it did no harm. */
static void print_unseen_fault(const struct session *s)
{
    const struct bw_sim_config *c = &s->options->config;
    const struct bw_sim_fault *last = c->faults_count ? &c->faults[c->faults_count - 1] : NULL;
    const char *name = last && s->first.last_fault_unseen ? lasting(last->kind) : NULL;
    char at[BW_SPAN_TEXT], until[BW_SPAN_TEXT];
    if (!name)
        return;
    bw_span_exact(at, last->at);
    bw_span_exact(until, bw_time_add(last->at, SHOWN_AFTER));
    printf("\nnote: the run ended at %s, when the fault '%s' began, so the figures do not show its "
           "effect; add --until, for example --until %s\n",
           at, name, until);
}

static int write_svg(struct session *s)
{
    const struct bw_sim_config *c = &s->options->config;
    char title[120], subtitle[160];
    snprintf(title, sizeof title, "%s%s", c->algorithm ? c->algorithm->name : "no election",
             c->guard ? " + quorum guard" : "");
    snprintf(subtitle, sizeof subtitle, "%u nodes, detector %s, seed %llu", c->nodes,
             bw_run_detector_name(c), (unsigned long long)c->seed);
    if (bw_timeline_svg(&s->timeline, &s->first, title, subtitle, s->options->svg_path) == 0)
        return BW_GO_ON;
    fprintf(stderr, "%s: cannot write --svg %s: %s\n", s->command->path, s->options->svg_path,
            strerror(errno));
    return BW_EXIT_IO;
}

static int show(struct session *s)
{
    struct bw_term term;
    bw_term_init(&term);
    int code = s->options->svg_path ? write_svg(s) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    if (s->options->json) {
        if (bw_run_print_json(s->options, &s->summary) != 0)
            return BW_EXIT_IO;
    } else {
        bw_run_print(s->options, &s->summary, &term);
        if (s->picture && s->options->runs == 1)
            print_timeline(s, &term);
        if (s->picture && s->options->runs == 1 && s->options->story)
            print_story(s);
        print_unseen_fault(s);
    }
    return s->summary.violations ? BW_EXIT_FAILED : BW_EXIT_OK;
}

static int open_trace(struct session *s)
{
    const char *path = s->options->trace_path;
    if (!path)
        return BW_GO_ON;
    s->trace = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (s->trace)
        return BW_GO_ON;
    return bw_usage_error(s->command, "cannot write --trace %.200s: %s", path, strerror(errno));
}

static int begin(struct session *s)
{
    const struct bw_sim_run_options *o = s->options;
    bool text = !o->json && o->runs == 1 && (o->story || !o->no_timeline);
    s->picture = o->svg_path || text;
    s->sim = bw_sim_new();
    if (!s->sim || bw_summary_init(&s->summary, o->runs) != 0 ||
        (s->picture && bw_timeline_init(&s->timeline, &o->config) != 0)) {
        fprintf(stderr, "%s: out of memory\n", s->command->path);
        return BW_EXIT_IO;
    }
    return open_trace(s);
}

static int execute(const struct bw_cli_command *command, struct bw_sim_run_options *options)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return BW_EXIT_IO;
    s->command = command;
    s->options = options;
    int code = begin(s);
    for (uint32_t r = 0; r < options->runs && code == BW_GO_ON; r++)
        code = one_run(s, r);
    if (s->trace && s->trace != stdout && fclose(s->trace) != 0 && code == BW_GO_ON) {
        fprintf(stderr, "%s: cannot write --trace %s: %s\n", command->path, options->trace_path,
                strerror(errno));
        code = BW_EXIT_IO;
    }
    if (code == BW_GO_ON)
        code = show(s);
    if (s->picture)
        bw_timeline_deinit(&s->timeline);
    bw_summary_deinit(&s->summary);
    if (s->sim)
        bw_sim_free(s->sim);
    free(s);
    return code;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    struct bw_sim_run_options *options = malloc(sizeof *options);
    if (!options)
        return BW_EXIT_IO;
    bw_run_options_init(options);
    int code = bw_options_parse(command, argc, argv, options, &parsed);
    if (code == BW_GO_ON)
        code = bw_run_options_finish(command, &parsed, options);
    if (code == BW_GO_ON)
        code = options->explore ? bw_run_replay(command, options) : execute(command, options);
    bw_run_options_deinit(options);
    free(options);
    return code;
}

const struct bw_cli_command bw_command_sim_run = {
    .name = "run",
    .path = "bellwether sim run",
    .usage = "[--algorithm A] [--nodes N] [faults] [--runs R] [--json] [--svg FILE]",
    .about = "simulate an election under faults that you choose",
    .text =
        "Every option can also be set in the environment (--seed: BELLWETHER_SEED) and in a "
        "script\n"
        "(seed 7). Precedence: command line, script, environment.\n"
        "\n"
        "A script is a complete experiment:\n"
        "  algorithm raft\n"
        "  nodes 5\n"
        "  at 2s crash leader\n"
        "  at 3s..6s partition 1,2/3,4,5\n"
        "  at 7s pause 2\n"
        "  at 9s resume 2\n"
        "Events: crash restart pause resume partition heal cut mend loss latency drift jump\n"
        "disk-fail disk-slow hint confirm-dead join leave campaign resign transfer.\n"
        "\n"
        "A script that `bellwether sim explore` wrote is replayed action by action.\n"
        "\n"
        "Try:\n"
        "  bellwether sim run --algorithm bully --nodes 10 --crashed 10 --initiator 1\n"
        "  bellwether sim run --algorithm bully --partition 1,2/3,4,5@2s..6s --until 8s\n"
        "  bellwether sim run --algorithm bully --quorum --partition 1,2/3,4,5@2s..6s --until 8s\n"
        "  bellwether sim run --algorithm raft --crash leader@2s --runs 1000 --json\n",
    .options = bw_run_options_table,
    .run = run,
};
