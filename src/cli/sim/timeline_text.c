/* Prints the timeline as text: a row per node, a column per slice of time. If a node had several
 * states within a slice, the most important one is shown, so that a short leadership stays
 * visible. */
#include "cli/sim/timeline.h"

#include <stdlib.h>
#include <string.h>

enum cell {
    CELL_FOLLOWS,
    CELL_CLAIMS,
    CELL_ACTS,
    CELL_ELECTING,
    CELL_PAUSED,
    CELL_DOWN,
    CELL_ABSENT,
    CELL_EMPTY
};

struct look {
    const char *utf8, *ascii, *meaning;
    enum bw_colour colour;
};

static const struct look looks[] = {
    [CELL_FOLLOWS] = {"·", ".", "follows", BW_FAINT},
    [CELL_CLAIMS] = {"░", "-", "may not act", BW_YELLOW},
    [CELL_ACTS] = {"█", "#", "leads", BW_GREEN},
    [CELL_ELECTING] = {"?", "?", "candidate", BW_CYAN},
    [CELL_PAUSED] = {"z", "z", "paused", BW_MAGENTA},
    [CELL_DOWN] = {"×", "x", "down", BW_RED},
    [CELL_ABSENT] = {" ", " ", "", BW_PLAIN},
    [CELL_EMPTY] = {" ", " ", "", BW_PLAIN},
};

static enum cell cell_of(enum bw_span_kind kind)
{
    switch (kind) {
    case BW_SPAN_ELECTING:
        return CELL_ELECTING;
    case BW_SPAN_CLAIM:
        return CELL_CLAIMS;
    case BW_SPAN_ACT:
        return CELL_ACTS;
    case BW_SPAN_PAUSED:
        return CELL_PAUSED;
    case BW_SPAN_DOWN:
        return CELL_DOWN;
    case BW_SPAN_ABSENT:
        break;
    }
    return CELL_ABSENT;
}

/* Returns a state's importance: the higher one of a slice is shown. */
static int weight(enum cell cell)
{
    static const int weights[] = {
        [CELL_FOLLOWS] = 0, [CELL_ABSENT] = 1, [CELL_CLAIMS] = 3, [CELL_ELECTING] = 2,
        [CELL_ACTS] = 4,    [CELL_DOWN] = 5,   [CELL_PAUSED] = 6, [CELL_EMPTY] = 7};
    return weights[cell];
}

struct canvas {
    const struct bw_timeline *timeline;
    const struct bw_term *term;
    FILE *out;
    bw_time from, to, now;
    int columns;
    unsigned char *cells; /* [(node - 1) * columns + column] */
};

/* Clears the rest of the line on a terminal, because the previous text may have been longer. */
static void end_line(const struct canvas *c)
{
    fputs(c->term->live ? "\033[K\n" : "\n", c->out);
}

static int column_of(const struct canvas *c, bw_time at)
{
    if (at <= c->from)
        return 0;
    double part = (double)(at - c->from) / (double)(c->to - c->from);
    int column = (int)(part * c->columns);
    return column < c->columns ? column : c->columns - 1;
}

static void paint(struct canvas *c, const struct bw_span *span)
{
    enum cell cell = cell_of(span->kind);
    if (span->to < c->from || span->from > c->to || span->from > c->now)
        return;
    int first = column_of(c, span->from), last = column_of(c, bw_time_min(span->to, c->now));
    unsigned char *row = &c->cells[(size_t)(span->node - 1) * (size_t)c->columns];
    for (int i = first; i <= last; i++)
        if (weight(cell) > weight((enum cell)row[i]))
            row[i] = (unsigned char)cell;
}

static void blank_future(struct canvas *c)
{
    if (c->now >= c->to)
        return;
    int first = column_of(c, c->now);
    for (uint32_t node = 0; node < c->timeline->nodes; node++)
        for (int i = first; i < c->columns; i++)
            c->cells[(size_t)node * (size_t)c->columns + (size_t)i] = CELL_EMPTY;
}

static void print_row(const struct canvas *c, bw_node node)
{
    const unsigned char *row = &c->cells[(size_t)(node - 1) * (size_t)c->columns];
    int end = c->columns;
    while (end > 0 && (row[end - 1] == CELL_ABSENT || row[end - 1] == CELL_EMPTY))
        end--;
    fprintf(c->out, "%5u%s", node, end ? " " : "");
    for (int i = 0; i < end; i++) {
        const struct look *look = &looks[row[i]];
        bool first = i == 0 || row[i - 1] != row[i];
        bool last = i + 1 == end || row[i + 1] != row[i];
        if (first)
            fputs(bw_term_colour(c->term, look->colour), c->out);
        fputs(c->term->utf8 ? look->utf8 : look->ascii, c->out);
        if (last)
            fputs(bw_term_colour(c->term, BW_PLAIN), c->out);
    }
    end_line(c);
}

/* Marks of faults: a letter above the lanes; slashes during a partition. */
struct mark {
    char letter;
    const char *meaning;
};

static const struct mark marks[] = {
    [BW_FAULT_CRASH] = {'X', "crash"},
    [BW_FAULT_RESTART] = {'+', "restart"},
    [BW_FAULT_PAUSE] = {'P', "pause"},
    [BW_FAULT_RESUME] = {'R', "resume"},
    [BW_FAULT_PARTITION] = {'/', "partition"},
    [BW_FAULT_CUT] = {'>', "cut"},
    [BW_FAULT_MEND] = {'<', "mend"},
    [BW_FAULT_HEAL] = {'H', "heal"},
    [BW_FAULT_LOSS] = {'L', "loss"},
    [BW_FAULT_LATENCY] = {'~', "latency"},
    [BW_FAULT_DRIFT] = {'D', "drift"},
    [BW_FAULT_JUMP] = {'J', "clock jump"},
    [BW_FAULT_DISK_FAIL] = {'F', "disk fails"},
    [BW_FAULT_DISK_SLOW] = {'S', "slow disk"},
    [BW_FAULT_HINT] = {'h', "hint"},
    [BW_FAULT_CONFIRM] = {'c', "confirmed dead"},
    [BW_FAULT_JOIN] = {'j', "join"},
    [BW_FAULT_LEAVE] = {'l', "leave"},
    [BW_FAULT_CAMPAIGN] = {'e', "campaign"},
    [BW_FAULT_RESIGN] = {'r', "resign"},
    [BW_FAULT_TRANSFER] = {'t', "transfer"},
    [BW_FAULT_STORE_DOWN] = {'v', "store down"},
    [BW_FAULT_STORE_UP] = {'^', "store up"},
    [BW_FAULT_WIPE] = {'w', "disk lost"},
    [BW_FAULT_KILL] = {'K', "kill"},
    [BW_FAULT_REMOVE] = {'-', "remove"},
    [BW_FAULT_SECOND] = {'2', "second process"},
    [BW_FAULT_UNABLE] = {'u', "unable to lead"},
    [BW_FAULT_ABLE] = {'a', "able to lead"},
};
_Static_assert(sizeof marks / sizeof *marks == BW_FAULT_ABLE + 1, "every fault has a mark");
#define MARKS (sizeof marks / sizeof *marks)

static void print_faults(const struct canvas *c)
{
    char *line = malloc((size_t)c->columns + 1);
    if (!line)
        return;
    memset(line, ' ', (size_t)c->columns);
    line[c->columns] = '\0';
    for (uint32_t i = 0; i < c->timeline->splits_count; i++) {
        const struct bw_split *split = &c->timeline->splits[i];
        if (split->from > c->now)
            continue;
        int last = column_of(c, bw_time_min(split->to, c->now));
        for (int k = column_of(c, split->from); k <= last; k++)
            line[k] = '/';
    }
    if (c->timeline->shown > c->timeline->end && c->now > c->timeline->end)
        line[column_of(c, c->timeline->end)] = '|';
    for (uint32_t i = 0; i < c->timeline->moments_count; i++) {
        const struct bw_moment *m = &c->timeline->moments[i];
        if (m->kind == BW_MOMENT_FAULT && m->at <= c->now && m->at <= c->to)
            line[column_of(c, m->at)] = marks[m->fault.kind].letter;
    }
    int end = c->columns;
    while (end > 0 && line[end - 1] == ' ')
        end--;
    fprintf(c->out, "%s%s%.*s%s", end ? "      " : "", bw_term_colour(c->term, BW_RED), end, line,
            bw_term_colour(c->term, BW_PLAIN));
    end_line(c);
    free(line);
}

static void print_axis(const struct canvas *c)
{
    char text[BW_TEXT_SPAN];
    int used = 0;
    bw_time step = bw_timeline_step(c->to - c->from, (unsigned)c->columns / 10);
    fputs("      ", c->out);
    for (bw_time at = c->from; at <= c->to; at += step) {
        bw_timeline_tick(text, at, step);
        int length = (int)strlen(text), start = column_of(c, at);
        if (start + length > c->columns)
            start = c->columns - length;
        if (start < used + (used > 0))
            continue;
        used += fprintf(c->out, "%*s%s", start - used, "", text);
    }
    fputc('\n', c->out);
}

void bw_timeline_text(const struct bw_timeline *timeline, const struct bw_term *term, FILE *out,
                      bw_time from, bw_time to, bw_time now)
{
    int columns = term->width - 8 > 120 ? 120 : term->width - 8;
    struct canvas c = {timeline, term, out, from, to > from ? to : from + 1, now, columns, NULL};
    c.cells = calloc((size_t)timeline->nodes * (size_t)columns, 1);
    if (!c.cells)
        return;
    for (uint32_t i = 0; i < timeline->spans_count; i++)
        paint(&c, &timeline->spans[i]);
    blank_future(&c);
    print_faults(&c);
    for (bw_node node = 1; node <= timeline->nodes; node++)
        print_row(&c, node);
    print_axis(&c);
    free(c.cells);
}

static void legend_faults(const struct bw_timeline *timeline, FILE *out)
{
    bool seen[MARKS] = {false};
    unsigned any = 0;
    for (uint32_t i = 0; i < timeline->moments_count; i++)
        if (timeline->moments[i].kind == BW_MOMENT_FAULT)
            seen[timeline->moments[i].fault.kind] = true;
    for (size_t i = 0; i < MARKS; i++)
        if (seen[i])
            fprintf(out, "%s%c %s", any++ ? "  " : "      ", marks[i].letter, marks[i].meaning);
    if (timeline->shown > timeline->end)
        fprintf(out, "%s| all agree: end of the run and its figures", any++ ? "  " : "      ");
    if (any)
        fputc('\n', out);
}

void bw_timeline_legend(const struct bw_timeline *timeline, const struct bw_term *term, FILE *out)
{
    static const enum cell shown[] = {CELL_ACTS,    CELL_CLAIMS, CELL_ELECTING,
                                      CELL_FOLLOWS, CELL_PAUSED, CELL_DOWN};
    fputs("      ", out);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const struct look *look = &looks[shown[i]];
        fprintf(out, "%s%s%s%s %s", i ? "  " : "", bw_term_colour(term, look->colour),
                term->utf8 ? look->utf8 : look->ascii, bw_term_colour(term, BW_PLAIN),
                look->meaning);
    }
    fputc('\n', out);
    legend_faults(timeline, out);
}
