/* `bellwether sim demo`: shows how a leader crashes and the network splits and heals.
 *
 * A run takes milliseconds, so each part is simulated first and then shown: on a terminal at a few
 * times real speed, elsewhere at once. The partition always puts the leader on the smaller side. To
 * find that leader, a first run is simulated; the second run is shown. */
#include "cli/commands.h"
#include "cli/options/terminal.h"
#include "cli/sim/timeline.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES      5u
#define SPEED      4
#define FRAME_MS   50
#define LINES_MAX  14u
#define SPLIT_AT   (6 * BW_SEC)
#define END        (13 * BW_SEC)
#define TEXT_WIDTH 160u

struct demo_options {
    uint64_t seed;
    uint32_t speed;
    bool no_wait;
};

struct demo {
    const struct bw_cli_command *command;
    struct demo_options options;
    struct bw_term term;
    struct bw_sim *sim;
    unsigned drawn; /* number of lines of the picture on the screen */
};

struct part {
    const char *title, *text;
    const struct bw_elector_ops *algorithm;
    bool guard;
    struct bw_timeline timeline;
    struct bw_sim_result result;
    uint8_t groups[NODES + 1];
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
    (void)signal;
    stopped = 1;
}

/* ---- the runs ---- */

static void configure(const struct demo *d, const struct part *part, struct bw_sim_config *c)
{
    bw_sim_defaults(c);
    c->algorithm = part->algorithm;
    c->guard = part->guard;
    c->detector = part->algorithm->traits & BW_TRAIT_OWN_TIMERS ? NULL : &bw_detect_deadline;
    c->nodes = NODES;
    c->seed = d->options.seed;
    c->work_ns = 50 * BW_MS;
    c->until = END;
}

static uint32_t make_faults(const struct part *part, struct bw_sim_fault *faults)
{
    faults[0] = (struct bw_sim_fault){.kind = BW_FAULT_CRASH, .at = 2 * BW_SEC};
    faults[1] = (struct bw_sim_fault){.kind = BW_FAULT_RESTART, .at = 4 * BW_SEC};
    faults[2] = (struct bw_sim_fault){
        .kind = BW_FAULT_PARTITION, .at = SPLIT_AT, .groups = (uint8_t *)part->groups};
    faults[3] = (struct bw_sim_fault){.kind = BW_FAULT_HEAL, .at = 10 * BW_SEC};
    return 4;
}

/* Puts the node that leads just before the split on the smaller side, with one other node. */
static int choose_groups(struct demo *d, struct part *part, char *why)
{
    struct bw_sim_config config;
    struct bw_sim_fault faults[4];
    struct bw_sim_result result;
    configure(d, part, &config);
    config.until = SPLIT_AT - 1;
    config.faults = faults;
    config.faults_count = make_faults(part, faults) - 2;
    int error = bw_sim_run_in(d->sim, &config, &result, why);
    bw_node leader = result.leader ? result.leader : NODES;
    bw_node other = leader == NODES ? NODES - 1 : leader + 1;
    for (bw_node id = 1; id <= NODES; id++)
        part->groups[id] = id == leader || id == other ? 2 : 1;
    return error;
}

static int simulate(struct demo *d, struct part *part, char *why)
{
    struct bw_sim_config config;
    struct bw_sim_fault faults[4];
    configure(d, part, &config);
    config.faults = faults;
    config.faults_count = make_faults(part, faults);
    int error = bw_timeline_init(&part->timeline, &config);
    if (error != 0) {
        snprintf(why, BW_WHY, "out of memory");
        return error;
    }
    config.observer = &part->timeline.observer;
    error = bw_sim_run_in(d->sim, &config, &part->result, why);
    bw_timeline_finish(&part->timeline, &config, &part->result);
    return error;
}

/* ---- the screen ---- */

static enum bw_colour moment_colour(const struct bw_moment *m)
{
    switch (m->kind) {
    case BW_MOMENT_TWO:
        return BW_RED;
    case BW_MOMENT_STALE:
        return m->accepted ? BW_RED : BW_PLAIN;
    case BW_MOMENT_FAULT:
        return BW_YELLOW;
    case BW_MOMENT_LEADS:
    case BW_MOMENT_AGREED:
        return BW_GREEN;
    default:
        return BW_PLAIN;
    }
}

static void print_sentence(const struct demo *d, const struct part *part, uint32_t i, FILE *out)
{
    char text[TEXT_WIDTH];
    const struct bw_moment *m = &part->timeline.moments[i];
    if (!bw_story_sentence(&part->timeline, i, text, sizeof text))
        return;
    int space = d->term.live ? d->term.width - 12 : (int)sizeof text;
    fprintf(out, "%s%7.3f s  %s%.*s%s\n", d->term.live ? "\033[K" : "", (double)m->at / 1e9,
            bw_term_colour(&d->term, moment_colour(m)), space, text,
            bw_term_colour(&d->term, BW_PLAIN));
}

/* Returns the number of sentences that fit below the picture. */
static unsigned lines_below(const struct demo *d)
{
    int space = d->term.height - (int)NODES - 10;
    return space < 4 ? 4 : space > (int)LINES_MAX ? LINES_MAX : (unsigned)space;
}

static unsigned count_lines(const char *text)
{
    unsigned lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void draw_frame(struct demo *d, const struct part *part, bw_time now)
{
    uint32_t last[LINES_MAX], count = 0;
    unsigned space = lines_below(d);
    char text[TEXT_WIDTH], *frame = NULL;
    size_t size = 0;
    for (uint32_t i = 0; i < part->timeline.moments_count; i++)
        if (part->timeline.moments[i].at <= now &&
            bw_story_sentence(&part->timeline, i, text, sizeof text))
            last[count++ % space] = i;
    FILE *out = open_memstream(&frame, &size);
    if (!out)
        return;
    bw_timeline_text(&part->timeline, &d->term, out, 0, part->timeline.end, now);
    bw_timeline_legend(&part->timeline, &d->term, out);
    fputs("\033[K\n", out);
    for (uint32_t i = count > space ? count - space : 0; i < count; i++)
        print_sentence(d, part, last[i % space], out);
    fclose(out);
    if (d->drawn)
        printf("\033[%uA\r", d->drawn);
    fputs(frame, stdout);
    fflush(stdout);
    d->drawn = count_lines(frame);
    free(frame);
}

static void wait_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0)
        nanosleep(&span, NULL);
}

static void play(struct demo *d, const struct part *part)
{
    bw_time step = (bw_time)d->options.speed * FRAME_MS * BW_MS;
    d->drawn = 0;
    printf("\033[?25l");
    for (bw_time now = 0; !stopped && now < part->timeline.end; now += step) {
        draw_frame(d, part, now);
        wait_ms(FRAME_MS);
    }
    if (!stopped)
        draw_frame(d, part, part->timeline.end);
    printf("\033[?25h");
    fflush(stdout);
}

static void print_part(struct demo *d, const struct part *part)
{
    for (uint32_t i = 0; i < part->timeline.moments_count; i++)
        print_sentence(d, part, i, stdout);
    putchar('\n');
    bw_timeline_text(&part->timeline, &d->term, stdout, 0, part->timeline.end, part->timeline.end);
    bw_timeline_legend(&part->timeline, &d->term, stdout);
}

static void print_result(const struct demo *d, const struct part *part)
{
    const struct bw_sim_result *r = &part->result;
    char gap[BW_TEXT_SPAN], split[BW_TEXT_SPAN];
    bool bad = r->split_brain > 0 || r->stale_accepted > 0;
    printf("\n"
           "%s=> no leader for %s in total; two leaders could act for %s; %llu of %llu stale "
           "writes accepted%s\n"
           "\n",
           bw_term_colour(&d->term, bad ? BW_RED : BW_GREEN), bw_term_span(gap, r->leaderless),
           bw_term_span(split, r->split_brain), (unsigned long long)r->stale_accepted,
           (unsigned long long)r->stale_tried, bw_term_colour(&d->term, BW_PLAIN));
}

static int show_part(struct demo *d, struct part *part)
{
    char why[BW_WHY] = "";
    int error = simulate(d, part, why);
    if (error == 0) {
        printf("%s%s%s\n%s\n\n", bw_term_colour(&d->term, BW_BOLD), part->title,
               bw_term_colour(&d->term, BW_PLAIN), part->text);
        if (d->term.live && !d->options.no_wait)
            play(d, part);
        else
            print_part(d, part);
        if (!stopped)
            print_result(d, part);
    }
    bw_timeline_deinit(&part->timeline);
    return error == 0 ? BW_GO_ON : bw_usage_error(d->command, "%s", why);
}

static const char next[] =
    "What to try next:\n"
    "  bellwether sim compare                  every algorithm under the same faults\n"
    "  bellwether sim run --algorithm raft --crash leader@2s --svg raft.svg\n"
    "  bellwether sim run --algorithm bully --pause leader@2s..8s --until 12s\n"
    "  bellwether sim storm --algorithm raft   a thousand random storms under the checkers\n";

static int play_all(struct demo *d)
{
    char why[BW_WHY] = "";
    struct part parts[] = {
        {.title = "1. Raft, five nodes",
         .text = "The leader crashes and restarts. Then the network splits, with the leader on the "
                 "smaller side.",
         .algorithm = &bw_elect_raft},
        {.title = "2. The same faults with plain bully",
         .text = "Each side of the split elects its own leader: simple and fast, but two leaders "
                 "act at once.",
         .algorithm = &bw_elect_bully},
        {.title = "3. The same faults with bully --quorum",
         .text = "A leader may act only with timed promises of a majority. No other node can get a "
                 "majority then.",
         .algorithm = &bw_elect_bully,
         .guard = true},
    };
    int code = BW_GO_ON;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && code == BW_GO_ON && !stopped; i++) {
        if (choose_groups(d, &parts[i], why) != 0)
            return bw_usage_error(d->command, "%s", why);
        code = show_part(d, &parts[i]);
    }
    if (stopped)
        return 130;
    if (code == BW_GO_ON)
        fputs(next, stdout);
    return code == BW_GO_ON ? BW_EXIT_OK : code;
}

#define AT(field) .offset = offsetof(struct demo_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"seed", "S", "seed of the run (default: 1)", .set = bw_set_u64, AT(seed)},
    {"speed", "N", "speed on a terminal, in multiples of real time (default: 4)", .set = bw_set_u32,
     AT(speed), .low = 1, .high = 100},
    {"no-wait", NULL, "print everything at once (default: only if stdout is not a terminal)",
     .set = bw_set_switch, AT(no_wait)},
    {0},
};

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct bw_parsed parsed;
    struct demo d = {.command = command, .options = {.seed = 1, .speed = SPEED}};
    bw_term_init(&d.term);
    int code = bw_options_parse(command, argc, argv, &d.options, &parsed);
    if (code != BW_GO_ON)
        return code;
    d.sim = bw_sim_new();
    if (!d.sim)
        return BW_EXIT_IO;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    code = play_all(&d);
    bw_sim_free(d.sim);
    return code;
}

const struct bw_cli_command bw_command_sim_demo = {
    .name = "demo",
    .path = "bellwether sim demo",
    .usage = "[--seed S] [--speed N] [--no-wait]",
    .about = "show a leader crash, a network split and its end, live",
    .text =
        "On a terminal it plays at four times real speed; elsewhere it prints everything at once.\n"
        "Stop it with Ctrl-C.\n",
    .options = options_table,
    .run = run,
};
