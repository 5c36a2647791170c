/* `bellwether sim storm`: random faults under the checkers, seed after seed, on all cores. */
#include "sim/faults/storm.h"
#include "cli/commands.h"
#include "cli/options/terminal.h"
#include "cli/sim/jobs.h"
#include "core/base/parse_values.h"
#include "os/clock.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ALGORITHMS_MAX 32u
#define FAILURES_MAX   20u
#define SEEDS_DEFAULT  1000u

struct storm_options {
    const struct bw_elector_ops *algorithm; /* NULL: all */
    uint64_t seeds[2];
    bool seeds_given, json;
    bw_time seconds;
    uint32_t jobs;
    const char *trace_path;
    struct bw_storm_fixed fixed;
};

struct outcome { /* the result that a worker sends */
    uint64_t delivered, events, trace_hash, asked, undecided;
    double cpu_seconds;
    bool bad;
    char text[200];
};

struct totals {
    uint64_t seeds, delivered, events, violations, hash, asked, undecided;
    double cpu_seconds;
};

struct failure {
    const char *algorithm;
    uint64_t seed;
    char text[200];
};

struct storm_session {
    const struct bw_cli_command *command;
    struct storm_options options;
    const struct bw_elector_ops *algorithms[ALGORITHMS_MAX];
    unsigned algorithms_count;
    struct totals totals[ALGORITHMS_MAX], all;
    struct failure failures[FAILURES_MAX];
    uint64_t items;
    double start, shown;
    bool progress;
    struct bw_sim *sim; /* of one worker */
};

static double seconds_of(clockid_t clock)
{
    return (double)bw_clock_read(clock) / 1e9;
}

/* ---- options ---- */

static const char *word_algorithm_or_all(unsigned i)
{
    return i == 0 ? "all" : bw_word_algorithm(i - 1);
}

static int set_algorithm(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct storm_options *o = target;
    if (strcmp(value, "all") == 0) {
        o->algorithm = NULL;
        return 0;
    }
    if (!bw_sim_algorithm_find(value))
        return bw_unknown_word(why, "algorithm", value, word_algorithm_or_all);
    return bw_set_algorithm(option, target, value, why);
}

static int set_storm_detector(const struct bw_option *option, void *target, const char *value,
                              char *why)
{
    if (strcmp(value, "none") == 0) {
        snprintf(why, BW_WHY, "the seed chooses 'none' where it applies; omit the option");
        return -1;
    }
    return bw_set_detector(option, target, value, why);
}

static int set_seeds(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct storm_options *o = target;
    const char *dots = strstr(value, "..");
    size_t length = dots ? (size_t)(dots - value) : strlen(value);
    const char *last = dots ? dots + 2 : value;
    (void)option;
    if (bw_text_number(value, length, UINT64_MAX / 64, &o->seeds[0]) != 0 ||
        bw_text_number(last, strlen(last), UINT64_MAX / 64, &o->seeds[1]) != 0 ||
        o->seeds[0] > o->seeds[1]) {
        snprintf(why, BW_WHY,
                 "invalid seeds '%.60s': expected a range or a number, for example 1..1000 or 17",
                 value);
        return -1;
    }
    o->seeds_given = true;
    return 0;
}

#define AT(field) .offset = offsetof(struct storm_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"algorithm", "A|all", "algorithm to test, or all (default: all)", .set = set_algorithm,
     AT(algorithm), .word = word_algorithm_or_all},
    {"detector", "NAME", "failure detector (default: drawn by the seed)", .set = set_storm_detector,
     AT(fixed.detector), .word = bw_word_detector},
    {"shards", "N",
     "number of elections, spread over the members as by `peer --shards` (default: one election)",
     .set = bw_set_u32, AT(fixed.shards), .low = 2, .high = BW_ELECTIONS_MAX},
    {"seeds", "FROM..TO",
     "range of seeds (default: 1..1000; with --seconds alone: from 1 without end)",
     .set = set_seeds},
    {"seconds", "S", "maximum real time, for example 60s (default: no limit)",
     .set = bw_set_duration, AT(seconds), .low = 1},
    {"jobs", "N", "number of worker processes (default: one per core)", .set = bw_set_u32, AT(jobs),
     .low = 1, .high = BW_JOBS_MAX},
    {"trace", "FILE",
     "write one line per event, for one algorithm and one seed; - is stdout (default: none)",
     .set = bw_set_text, AT(trace_path)},
    {"json", NULL, "print one JSON object (default: text)", .set = bw_set_switch, AT(json)},
    BW_LEASE_OPTIONS(struct storm_options, fixed.lease),
    {0},
};

/* ---- workers ---- */

static void begin_worker(void *context)
{
    struct storm_session *s = context;
    s->sim = bw_sim_new();
}

static void storm_one(struct storm_session *s, uint64_t item, FILE *trace, struct outcome *out)
{
    struct bw_storm_result result;
    const struct bw_elector_ops *algorithm = s->algorithms[item % s->algorithms_count];
    uint64_t seed = s->options.seeds[0] + item / s->algorithms_count;
    double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    int error =
        s->sim ? bw_storm_seed(s->sim, algorithm, &s->options.fixed, seed, trace, &result) : -1;
    out->cpu_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    out->bad = error != 0 || result.violation;
    if (error != 0 || result.violation)
        snprintf(out->text, sizeof out->text, "%s",
                 !s->sim ? "out of memory"
                 : error ? result.text
                         : result.violation);
    if (error != 0)
        return;
    out->delivered = result.delivered;
    out->events = result.events;
    out->trace_hash = result.trace_hash;
    out->asked = result.asked;
    out->undecided = result.undecided;
}

static void work(void *context, uint64_t item, void *result)
{
    storm_one(context, item, NULL, result);
}

/* ---- results ---- */

static void add(struct totals *totals, const struct outcome *outcome, uint64_t seed)
{
    totals->seeds++;
    totals->delivered += outcome->delivered;
    totals->events += outcome->events;
    totals->violations += outcome->bad;
    totals->asked += outcome->asked;
    totals->undecided += outcome->undecided;
    totals->cpu_seconds += outcome->cpu_seconds;
    /* independent of the order */
    totals->hash += (outcome->trace_hash ^ seed) * 0x9e3779b97f4a7c15ull;
}

static void append_span(char *out, size_t size, const char *flag, bw_time span)
{
    size_t used = strlen(out);
    if (span >= 0)
        snprintf(out + used, size - used, " --%s %lldus", flag, (long long)(span / BW_US));
}

/* Writes the fixed settings as options, for a replay. */
static void lease_flags(const struct bw_sim_lease *lease, char *out, size_t size)
{
    if (lease->store != BW_SIM_STORE_ANY)
        snprintf(out, size, " --store-model %s", bw_sim_store_name(lease->store));
    append_span(out, size, "ttl", lease->ttl_ns);
    append_span(out, size, "grace", lease->grace_ns);
    append_span(out, size, "retry", lease->retry_ns);
    append_span(out, size, "kill-after", lease->kill_after_ns);
    if (lease->uncertainty_ns > 0)
        append_span(out, size, "clock-uncertainty", lease->uncertainty_ns);
    append_span(out, size, "store-lag", lease->lag_ns > 0 ? lease->lag_ns : -1);
    if (lease->expires && strlen(out) < size)
        snprintf(out + strlen(out), size - strlen(out), " --store-expires");
}

static void replay_command(const struct storm_session *s, const struct failure *f, char *out,
                           size_t size)
{
    const struct bw_detector_ops *detector = s->options.fixed.detector;
    char lease[200] = "", shards[32] = "";
    if (strcmp(f->algorithm, "lease") == 0)
        lease_flags(&s->options.fixed.lease, lease, sizeof lease);
    if (s->options.fixed.shards)
        snprintf(shards, sizeof shards, " --shards %u", s->options.fixed.shards);
    snprintf(out, size,
             "bellwether sim storm --algorithm %s%s%s%s%s --seeds %llu..%llu --trace FILE",
             f->algorithm, detector ? " --detector " : "", detector ? detector->name : "", lease,
             shards, (unsigned long long)f->seed, (unsigned long long)f->seed);
}

static void clear_progress(const struct storm_session *s)
{
    if (s->progress)
        fputs("\r\033[K", stderr);
}

static void note_failure(struct storm_session *s, const char *algorithm, uint64_t seed,
                         const char *text)
{
    char replay[400];
    struct failure failure = {.algorithm = algorithm, .seed = seed};
    snprintf(failure.text, sizeof failure.text, "%s", text);
    if (s->all.violations > FAILURES_MAX)
        return;
    s->failures[s->all.violations - 1] = failure;
    if (s->options.json)
        return;
    clear_progress(s);
    replay_command(s, &failure, replay, sizeof replay);
    printf("VIOLATION %s, seed %llu: %s\n  replay: %s\n", algorithm, (unsigned long long)seed, text,
           replay);
    fflush(stdout);
}

static void take(struct storm_session *s, uint64_t item, const struct outcome *outcome)
{
    unsigned which = (unsigned)(item % s->algorithms_count);
    uint64_t seed = s->options.seeds[0] + item / s->algorithms_count;
    add(&s->totals[which], outcome, seed);
    add(&s->all, outcome, seed * 31 + which);
    if (outcome->bad)
        note_failure(s, s->algorithms[which]->name, seed, outcome->text);
}

static void done(void *context, uint64_t item, const void *result)
{
    struct outcome outcome;
    memcpy(&outcome, result, sizeof outcome);
    take(context, item, &outcome);
}

static void died(void *context, uint64_t item, int signal)
{
    struct outcome outcome = {.bad = true};
    snprintf(outcome.text, sizeof outcome.text, "the worker process died (%s)",
             signal ? strsignal(signal) : "it exited");
    take(context, item, &outcome);
}

static double rate(const struct totals *totals)
{
    return totals->cpu_seconds > 0 ? (double)totals->delivered / totals->cpu_seconds : 0;
}

static bool tick(void *context)
{
    struct storm_session *s = context;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN];
    double now = seconds_of(CLOCK_MONOTONIC);
    if (s->progress && now - s->shown > 0.2) {
        s->shown = now;
        fprintf(stderr, "\r\033[K%s seeds, %s messages/s per core, %llu violations",
                bw_term_count(a, (double)s->all.seeds), bw_term_count(b, rate(&s->all)),
                (unsigned long long)s->all.violations);
    }
    return s->options.seconds == 0 || (now - s->start) * 1e9 < (double)s->options.seconds;
}

/* ---- output ---- */

static json_t *totals_json(const struct totals *t)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->hash);
    return json_pack("{s:I,s:I,s:I,s:I,s:f,s:f,s:s,s:I,s:I}", "seeds", (json_int_t)t->seeds,
                     "violations", (json_int_t)t->violations, "messages", (json_int_t)t->delivered,
                     "events", (json_int_t)t->events, "cpu_seconds", t->cpu_seconds,
                     "messages_per_second_per_core", rate(t), "trace_hash", hash, "asked",
                     (json_int_t)t->asked, "undecided", (json_int_t)t->undecided);
}

static void print_json(const struct storm_session *s, unsigned jobs)
{
    json_t *root = totals_json(&s->all), *each = json_array(), *bad = json_array();
    char replay[400];
    for (unsigned i = 0; i < s->algorithms_count; i++) {
        json_t *row = totals_json(&s->totals[i]);
        json_object_set_new(row, "algorithm", json_string(s->algorithms[i]->name));
        json_array_append_new(each, row);
    }
    for (unsigned i = 0; i < s->all.violations && i < FAILURES_MAX; i++) {
        const struct failure *f = &s->failures[i];
        replay_command(s, f, replay, sizeof replay);
        json_array_append_new(bad,
                              json_pack("{s:s,s:I,s:s,s:s}", "algorithm", f->algorithm, "seed",
                                        (json_int_t)f->seed, "what", f->text, "replay", replay));
    }
    json_object_set_new(root, "algorithms", each);
    json_object_set_new(root, "failures", bad);
    json_object_set_new(root, "jobs", json_integer(jobs));
    json_object_set_new(root, "wall_seconds", json_real(seconds_of(CLOCK_MONOTONIC) - s->start));
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    putchar('\n');
    json_decref(root);
}

static void print_row(const char *name, const struct totals *t)
{
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN];
    printf("%-26s %10s %16s %14s %11llu  %016llx\n", name, bw_term_count(a, (double)t->seeds),
           bw_term_count(b, (double)t->delivered), bw_term_count(c, rate(t)),
           (unsigned long long)t->violations, (unsigned long long)t->hash);
}

static void print_table(const struct storm_session *s)
{
    clear_progress(s);
    printf("%-26s %10s %16s %14s %11s  %s\n", "algorithm", "seeds", "messages", "per s and core",
           "violations", "trace hash");
    for (unsigned i = 0; i < s->algorithms_count; i++)
        if (s->totals[i].seeds)
            print_row(s->algorithms[i]->name, &s->totals[i]);
    if (s->algorithms_count > 1)
        print_row("all", &s->all);
    if (s->all.asked)
        printf("requests of registry clients: %llu; histories too long to check: %llu\n",
               (unsigned long long)s->all.asked, (unsigned long long)s->all.undecided);
    if (s->all.violations > FAILURES_MAX)
        printf("only the first %u violations are shown\n", FAILURES_MAX);
}

/* ---- the command ---- */

static int run_traced(struct storm_session *s)
{
    struct outcome outcome = {0};
    const char *path = s->options.trace_path;
    if (s->items != 1)
        return bw_usage_error(s->command, "--trace needs one --algorithm and one seed, for example "
                                          "--algorithm raft --seeds 17..17");
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!file)
        return bw_usage_error(s->command, "cannot write --trace %.200s: %s", path, strerror(errno));
    begin_worker(s);
    storm_one(s, 0, file, &outcome);
    take(s, 0, &outcome);
    if (s->sim)
        bw_sim_free(s->sim);
    if (file != stdout && fclose(file) != 0) {
        fprintf(stderr, "%s: cannot write --trace %s: %s\n", s->command->path, path,
                strerror(errno));
        return BW_EXIT_IO;
    }
    return BW_GO_ON;
}

static int run_jobs(struct storm_session *s, unsigned workers)
{
    struct bw_sim_jobs jobs = {.count = s->items,
                               .workers = workers,
                               .result_bytes = sizeof(struct outcome),
                               .context = s,
                               .begin = begin_worker,
                               .work = work,
                               .done = done,
                               .died = died,
                               .tick = tick};
    int result = bw_sim_jobs_run(&jobs);
    if (result >= 0)
        return result == 0 ? BW_GO_ON : 130;
    fprintf(stderr, "%s: cannot start workers: %s\n", s->command->path, strerror(errno));
    return BW_EXIT_IO;
}

static void choose(struct storm_session *s)
{
    struct storm_options *o = &s->options;
    if (o->algorithm)
        s->algorithms[s->algorithms_count++] = o->algorithm;
    for (unsigned i = 0; !o->algorithm && bw_sim_algorithm_at(i) && i < ALGORITHMS_MAX; i++)
        if (!o->fixed.shards || bw_sim_can_spread(bw_sim_algorithm_at(i)))
            s->algorithms[s->algorithms_count++] = bw_sim_algorithm_at(i);
    if (!o->seeds_given) {
        o->seeds[0] = 1;
        o->seeds[1] = o->seconds ? UINT64_MAX / 64 : SEEDS_DEFAULT;
    }
    s->items = (o->seeds[1] - o->seeds[0] + 1) * s->algorithms_count;
    s->start = seconds_of(CLOCK_MONOTONIC);
    s->progress = !o->json && !o->trace_path && isatty(STDERR_FILENO);
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    struct storm_session *s = calloc(1, sizeof *s);
    if (!s)
        return BW_EXIT_IO;
    s->command = command;
    s->options.fixed = bw_storm_any;
    int code = bw_options_parse(command, argc, argv, &s->options, &parsed);
    const struct bw_elector_ops *one = s->options.algorithm;
    if (code == BW_GO_ON && s->options.fixed.shards && one && !bw_sim_can_spread(one))
        code = bw_usage_error(
            command, "--shards: the elections of %s cannot be spread; omit the option", one->name);
    if (code == BW_GO_ON) {
        unsigned workers = s->options.jobs ? s->options.jobs : bw_sim_jobs_cores();
        choose(s);
        code = s->options.trace_path ? run_traced(s) : run_jobs(s, workers);
        if (code == BW_GO_ON || code == 130) {
            if (s->options.json)
                print_json(s, workers);
            else
                print_table(s);
        }
    }
    if (code == BW_GO_ON)
        code = s->all.violations ? BW_EXIT_FAILED : BW_EXIT_OK;
    free(s);
    return code;
}

const struct bw_cli_command bw_command_sim_storm = {
    .name = "storm",
    .path = "bellwether sim storm",
    .usage = "[--algorithm A|all] [--seeds FROM..TO] [--seconds S] [--json]",
    .about = "run random faults under the checkers, on all cores",
    .text =
        "Each seed draws a group, a network and 10 to 30 seconds of crashes, pauses, partitions,\n"
        "cuts, slow and failing disks, message loss, drift and commands; then all faults end.\n"
        "Half of the seeds add long promises, killed processes whose work runs on, and members\n"
        "that join, leave, are removed, lose their disk and return. The algorithm's guarantees\n"
        "are checked throughout, and agreement and a working leader at the end. A violation\n"
        "prints the command that replays it, and the exit code is 1.\n"
        "\n"
        "Try:\n"
        "  bellwether sim storm --algorithm raft --seeds 1..1000\n"
        "  bellwether sim storm --algorithm raft --shards 16 --seeds 1..200\n"
        "  bellwether sim storm --algorithm all --seconds 60s\n",
    .options = options_table,
    .run = run,
};
