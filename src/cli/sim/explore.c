/* `bellwether sim explore`: explores the shipped decision code exhaustively, within bounds.
 *
 * For each depth the command forks its workers anew: a fork copies the target's block to the same
 * address, and the table and the images lie in shared memory. A worker that traps (a failed
 * assertion) does not end the command: the action it was carrying out is the violation. */
#include "sim/explore/explore.h"
#include "cli/commands.h"
#include "cli/options/terminal.h"
#include "cli/sim/jobs.h"
#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TARGETS_MAX    16u
#define MEMORY_DEFAULT ((uint64_t)4 << 30)
#define TICK_US        200000

struct explore_options {
    uint32_t depth, jobs;
    uint64_t memory;
    const char *script_path;
    struct bw_explore_options target;
    bool json, list;
};

struct outcome { /* of one target */
    const struct bw_explore_target *target;
    uint64_t states, steps, image_bytes, images;
    uint32_t depth;
    bool complete, exhausted, violated, full, broken;
    double seconds, cpu_seconds;
    char why[BW_EXPLORE_WHY];
    uint32_t actions_count;
    struct bw_explore_action actions[BW_EXPLORE_DEPTH_MAX + 2];
};

struct explore_session {
    const struct bw_cli_command *command;
    struct explore_options options;
    const struct bw_explore_target *targets[TARGETS_MAX];
    unsigned count;
    struct outcome outcome[TARGETS_MAX];
    bool progress;
    double start;
    struct bw_explore_worker worker;
    pid_t pids[BW_EXPLORE_WORKERS_MAX];
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    interrupted |= signal != SIGALRM;
}

static double seconds_now(void)
{
    return (double)bw_clock_monotonic() / 1e9;
}

/* ---- options ---- */

static const char *word_target(unsigned i)
{
    return i == 0 ? "all" : bw_explore_at(i - 1) ? bw_explore_at(i - 1)->name : NULL;
}

static int set_memory(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct explore_options *o = target;
    size_t digits = strspn(value, "0123456789");
    const char *unit = value + digits;
    unsigned shift = strcmp(unit, "G") == 0 ? 30 : strcmp(unit, "M") == 0 ? 20 : 0;
    (void)option;
    if (shift && bw_text_number(value, digits, UINT64_MAX >> 34, &o->memory) == 0 &&
        o->memory << shift >= (uint64_t)16 << 20) {
        o->memory <<= shift;
        return 0;
    }
    snprintf(why, BW_WHY, "invalid size '%.40s': expected at least 16M, for example 512M or 4G",
             value);
    return -1;
}

#define AT(field) .offset = offsetof(struct explore_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"list", NULL, "list the targets and their bounds without exploring (default: explore)",
     .set = bw_set_switch, AT(list)},
    {"depth", "N", "maximum number of free choices (default: that of the target)",
     .set = bw_set_u32, AT(depth), .low = 1, .high = BW_EXPLORE_DEPTH_MAX},
    {"jobs", "N", "number of worker processes (default: one per core)", .set = bw_set_u32, AT(jobs),
     .low = 1, .high = BW_EXPLORE_WORKERS_MAX},
    {"memory", "SIZE", "maximum memory for states, for example 512M (default: 4G)",
     .set = set_memory},
    {"links", "N", "messages in flight per directed link (default: that of the target)",
     .set = bw_set_u32, AT(target.links), .low = 1, .high = BW_EXPLORE_LINKS_MAX},
    {"delays", "N",
     "actions that may differ from the natural order; 100: no limit (default: that of the target)",
     .set = bw_set_u32, AT(target.delays), .low = 1, .high = BW_EXPLORE_UNLIMITED},
    {"script", "FILE",
     "write the trace of a violation to FILE, with several targets to FILE.TARGET (default: "
     "standard output)",
     .set = bw_set_text, AT(script_path)},
    {"json", NULL, "print one JSON object per target (default: text)", .set = bw_set_switch,
     AT(json)},
    {0},
};

/* ---- workers ---- */

static void run_worker(struct explore_session *s, uint32_t index)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    s->worker.index = index;
    bw_explore_expand(&s->worker);
    _exit(0);
}

static void show_progress(struct explore_session *s)
{
    const struct bw_explore *shared = s->worker.shared;
    char states[BW_TEXT_SPAN];
    if (s->progress)
        fprintf(stderr, "\r\033[K%s: depth %u of %u, %s states, %.0f s", s->worker.target->name,
                shared->depth + 1, shared->depth_max,
                bw_term_count(states, (double)atomic_load(&shared->states)),
                seconds_now() - s->start);
}

static void clear_progress(const struct explore_session *s)
{
    if (s->progress)
        fputs("\r\033[K", stderr);
}

/* A worker ended; `status` is that of wait. */
static void take_end(struct explore_session *s, struct outcome *out, pid_t pid, int status,
                     const struct rusage *usage)
{
    char why[BW_EXPLORE_WHY];
    out->cpu_seconds += (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
                        (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
    for (uint32_t i = 0; i < s->options.jobs; i++) {
        if (s->pids[i] != pid)
            continue;
        s->pids[i] = 0;
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
            snprintf(why, sizeof why, "the step ends with %s; see assertions in the code",
                     strsignal(WTERMSIG(status)));
            bw_explore_died(s->worker.shared, i, why);
        } else if (WIFSIGNALED(status)) {
            atomic_store(&s->worker.shared->stop, true);
        }
    }
}

/* Expands one depth. Returns false if no worker could be started. */
static bool expand(struct explore_session *s, struct outcome *out)
{
    uint32_t alive = 0;
    fflush(stdout);
    for (uint32_t i = 0; i < s->options.jobs; i++) {
        s->pids[i] = fork();
        if (s->pids[i] == 0)
            run_worker(s, i);
        alive += s->pids[i] > 0;
    }
    if (alive == 0)
        return false;
    while (alive > 0) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, 0, &usage);
        if (interrupted)
            atomic_store(&s->worker.shared->stop, true);
        if (pid > 0) {
            take_end(s, out, pid, status, &usage);
            alive--;
        }
        show_progress(s);
    }
    return true;
}

/* ---- one target ---- */

static void note(struct explore_session *s, struct outcome *out)
{
    const struct bw_explore *shared = s->worker.shared;
    out->states = atomic_load(&shared->states);
    out->steps = atomic_load(&shared->steps);
    out->image_bytes = atomic_load(&shared->image_bytes);
    out->images = atomic_load(&shared->images_count);
    out->violated = atomic_load(&shared->violated);
    out->full = atomic_load(&shared->full);
    out->broken = atomic_load(&shared->broken);
    out->depth = shared->depth;
    out->exhausted = !atomic_load(&shared->stop) && bw_explore_exhausted(shared);
    out->complete = !atomic_load(&shared->stop);
    snprintf(out->why, sizeof out->why, "%s", shared->why);
    if (out->violated)
        out->actions_count = bw_explore_trace(shared, out->actions, BW_EXPLORE_DEPTH_MAX + 2);
}

static int search(struct explore_session *s, struct outcome *out)
{
    do {
        if (!expand(s, out)) {
            fprintf(stderr, "%s: cannot start workers: %s\n", s->command->path, strerror(errno));
            return BW_EXIT_IO;
        }
    } while (bw_explore_deeper(s->worker.shared));
    note(s, out);
    out->seconds = seconds_now() - s->start;
    clear_progress(s);
    return interrupted ? 130 : BW_GO_ON;
}

static int explore(struct explore_session *s, struct outcome *out)
{
    const struct explore_options *o = &s->options;
    uint32_t depth = o->depth ? o->depth : out->target->depth;
    void *memory = mmap(NULL, o->memory, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "%s: cannot map --memory: %s\n", s->command->path, strerror(errno));
        return BW_EXIT_IO;
    }
    s->start = seconds_now();
    int code = BW_EXIT_IO;
    int error = bw_explore_open(&s->worker, out->target, &o->target, memory, o->memory, depth);
    if (error == 0) {
        code = search(s, out);
    } else if (error == BW_EINVAL) { /* the prefix is a violation */
        note(s, out);
        out->violated = true;
        out->complete = out->exhausted = false;
        out->actions_count = 0;
        code = BW_GO_ON;
    } else {
        fprintf(stderr, "%s: cannot explore %s: %s\n", s->command->path, out->target->name,
                bw_error_text(error));
    }
    bw_explore_close(&s->worker);
    munmap(memory, o->memory);
    return code;
}

/* ---- output ---- */

static void write_script(const struct explore_session *s, const struct outcome *out, FILE *file)
{
    char text[BW_EXPLORE_TEXT];
    fprintf(file, "# found by bellwether sim explore %s, after %u actions:\n# %s\n",
            out->target->name, out->actions_count, out->why);
    fprintf(file, "# replay: bellwether sim run --script FILE\nexplore %s\n", out->target->name);
    if (s->options.target.links)
        fprintf(file, "links %u\n", s->options.target.links);
    if (s->options.target.delays)
        fprintf(file, "delays %u\n", s->options.target.delays);
    for (uint32_t i = 0; i < out->actions_count; i++) {
        bw_explore_print(out->target, out->actions[i], text, sizeof text);
        fprintf(file, "do %s\n", text);
    }
}

/* Returns the file for the trace of a target, or NULL without --script. */
static const char *script_of(const struct explore_session *s,
                             const struct bw_explore_target *target, char path[PATH_MAX])
{
    if (s->count == 1 || !s->options.script_path)
        return s->options.script_path;
    snprintf(path, PATH_MAX, "%s.%s", s->options.script_path, target->name);
    return path;
}

static int save_script(const struct explore_session *s, const struct outcome *out)
{
    char name[PATH_MAX];
    const char *path = script_of(s, out->target, name);
    if (!path && s->options.json)
        return 0;
    FILE *file = path ? fopen(path, "w") : stdout;
    if (file)
        write_script(s, out, file);
    if (file && (file == stdout || fclose(file) == 0))
        return 0;
    fprintf(stderr, "%s: cannot write --script %s: %s\n", s->command->path, path, strerror(errno));
    return -1;
}

/* Finds out before the exploration whether the script can be written. An existing file keeps its
 * content until there is a violation. */
static int check_script(const struct explore_session *s, const char *path)
{
    struct stat link, file;
    bool exists = path && lstat(path, &link) == 0;
    bool regular =
        !path || stat(path, &file) != 0 || S_ISREG(file.st_mode) || S_ISDIR(file.st_mode);
    if (!path || !regular) /* opening a pipe would wait for its reader */
        return BW_GO_ON;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        fprintf(
            stderr,
            "%s: cannot write --script %s: %s; give a file that can be created or overwritten\n",
            s->command->path, path, strerror(errno));
        return BW_EXIT_IO;
    }
    close(fd);
    if (!exists)
        unlink(path);
    return BW_GO_ON;
}

static int check_scripts(const struct explore_session *s)
{
    char name[PATH_MAX];
    int code = BW_GO_ON;
    for (unsigned i = 0; i < s->count && code == BW_GO_ON; i++)
        code = check_script(s, script_of(s, s->targets[i], name));
    return code;
}

static double per_second(const struct outcome *out)
{
    return out->cpu_seconds > 0 ? (double)out->states / out->cpu_seconds : 0;
}

static double image_bytes(const struct outcome *out)
{
    return out->images ? (double)out->image_bytes / (double)out->images : 0;
}

static void print_json(const struct outcome *out)
{
    json_t *trace = json_array();
    char text[BW_EXPLORE_TEXT];
    for (uint32_t i = 0; i < out->actions_count; i++) {
        bw_explore_print(out->target, out->actions[i], text, sizeof text);
        json_array_append_new(trace, json_string(text));
    }
    json_t *root = json_pack(
        "{s:s,s:I,s:I,s:I,s:b,s:b,s:I,s:s?,s:o,s:f,s:f,s:f,s:f}", "target", out->target->name,
        "states", (json_int_t)out->states, "steps", (json_int_t)out->steps, "depth",
        (json_int_t)out->depth, "complete", out->complete, "exhausted", out->exhausted,
        "violations", (json_int_t)out->violated, "violation", out->violated ? out->why : NULL,
        "trace", trace, "seconds", out->seconds, "cpu_seconds", out->cpu_seconds,
        "states_per_second_per_core", per_second(out), "bytes_per_image", image_bytes(out));
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(8));
    putchar('\n');
    json_decref(root);
}

static void print_head(void)
{
    printf("%-18s %6s %14s %14s %11s %11s  %-11s %s\n", "target", "depth", "states",
           "per s and core", "bytes/image", "seconds", "coverage", "violations");
}

static void print_row(const struct outcome *out)
{
    char states[BW_TEXT_SPAN], rate[BW_TEXT_SPAN];
    printf("%-18s %6u %14s %14s %11.0f %11.1f  %-11s %u\n", out->target->name, out->depth,
           bw_term_count(states, (double)out->states), bw_term_count(rate, per_second(out)),
           image_bytes(out), out->seconds,
           out->exhausted  ? "exhausted"
           : out->complete ? "complete"
                           : "incomplete",
           out->violated);
}

static int print_outcome(const struct explore_session *s, const struct outcome *out)
{
    if (s->options.json)
        print_json(out);
    else
        print_row(out);
    if (out->full)
        fprintf(stderr,
                "%s: %s: --memory is used up at depth %u; give more, or a smaller --depth\n",
                s->command->path, out->target->name, out->depth);
    if (out->broken) {
        fprintf(stderr, "%s: cannot explore %s: %s; this is a defect of the target\n",
                s->command->path, out->target->name, out->why);
        return BW_EXIT_SOFTWARE;
    }
    if (out->violated) {
        if (!s->options.json)
            printf("VIOLATION %s: %s\n", out->target->name, out->why);
        if (save_script(s, out) != 0)
            return BW_EXIT_IO;
    }
    fflush(stdout);
    return BW_GO_ON;
}

static int list(const struct explore_options *o)
{
    json_t *all = json_array();
    for (unsigned i = 0; bw_explore_at(i); i++) {
        const struct bw_explore_target *t = bw_explore_at(i);
        if (o->json)
            json_array_append_new(all, json_pack("{s:s,s:s,s:s,s:I}", "target", t->name, "about",
                                                 t->about, "bounds", t->bounds, "depth",
                                                 (json_int_t)t->depth));
        else
            printf("%-18s %s\n%-18s %s; depth %u\n", t->name, t->about, "", t->bounds, t->depth);
    }
    if (o->json) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(all);
    return BW_EXIT_OK;
}

/* ---- the command ---- */

static int choose(struct explore_session *s, const struct bw_parsed *parsed)
{
    char why[BW_WHY];
    for (int i = 0; i < parsed->operands_count; i++) {
        const struct bw_explore_target *target = bw_explore_find(parsed->operands[i]);
        bool all = strcmp(parsed->operands[i], "all") == 0;
        if (!target && !all) {
            bw_unknown_word(why, "target", parsed->operands[i], word_target);
            return bw_usage_error(s->command, "%s", why);
        }
        for (unsigned k = 0; bw_explore_at(k); k++)
            if ((all || bw_explore_at(k) == target) && s->count < TARGETS_MAX)
                s->targets[s->count++] = bw_explore_at(k);
    }
    if (s->count == 0)
        return bw_usage_error(s->command, "no target given; see bellwether sim explore --list");
    return BW_GO_ON;
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval timer = {{0, TICK_US}, {0, TICK_US}};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int explore_all(struct explore_session *s)
{
    bool violated = false, full = false;
    s->progress = !s->options.json && isatty(STDERR_FILENO);
    watch_signals();
    if (!s->options.json)
        print_head();
    for (unsigned i = 0; i < s->count; i++) {
        struct outcome *out = &s->outcome[i];
        out->target = s->targets[i];
        int code = explore(s, out);
        if (code == BW_GO_ON || code == 130) {
            int printed = print_outcome(s, out);
            code = code == 130 ? 130 : printed;
        }
        if (code != BW_GO_ON)
            return code;
        violated |= out->violated;
        full |= out->full;
    }
    return violated ? BW_EXIT_FAILED : full ? BW_EXIT_IO : BW_EXIT_OK;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    struct explore_session *s = calloc(1, sizeof *s);
    if (!s)
        return BW_EXIT_IO;
    s->command = command;
    s->options.memory = MEMORY_DEFAULT;
    int code = bw_options_parse(command, argc, argv, &s->options, &parsed);
    if (code == BW_GO_ON && s->options.list)
        code = list(&s->options);
    if (code == BW_GO_ON)
        code = choose(s, &parsed);
    if (code == BW_GO_ON)
        code = check_scripts(s);
    if (code == BW_GO_ON) {
        uint32_t cores = bw_sim_jobs_cores();
        if (s->options.jobs == 0)
            s->options.jobs = cores < BW_EXPLORE_WORKERS_MAX ? cores : BW_EXPLORE_WORKERS_MAX;
        code = explore_all(s);
    }
    free(s);
    return code;
}

const struct bw_cli_command bw_command_sim_explore = {
    .name = "explore",
    .path = "bellwether sim explore",
    .usage = "TARGET...|all [--depth N] [--jobs N] [--memory SIZE] [--script FILE] [--json]",
    .about = "explore every order of events within bounds, and check every state",
    .text =
        "A storm tries random faults; an exploration tries all of them, in a small world. From\n"
        "the first state of a target it takes every possible action: deliver a message or leave\n"
        "it, let a timeout come or time pass, crash, restart, make a record durable, change the\n"
        "members. It goes on from every state that is new, up to a number of actions (--depth),\n"
        "and checks every state. It runs the code that ships.\n"
        "\n"
        "coverage: 'exhausted' means that no further state exists within the bounds; 'complete',\n"
        "that every state up to --depth was checked; 'incomplete', that the exploration stopped\n"
        "early. The first violation has the shortest trace, and ends the target with exit code 1.\n"
        "Exit code 74: --memory did not suffice, or --script cannot be written. Exit code 70: a\n"
        "defect of the target itself.\n"
        "\n"
        "Try:\n"
        "  bellwether sim explore --list\n"
        "  bellwether sim explore guard\n"
        "  bellwether sim explore raft --depth 14 --memory 8G --script trace.txt\n"
        "  bellwether sim run --script trace.txt\n",
    .options = options_table,
    .operand = word_target,
    .run = run,
};
