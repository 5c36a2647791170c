/* Draws the timeline as SVG: a lane per node, bars while it leads (hatched while it may not act),
 * messages as thin lines between lanes, partitions as shaded bands, faults as marks. A strip below
 * shows how many nodes act at each instant. Plain SVG without scripts or external fonts. The
 * colours follow the reader's choice of a light or a dark page. */
#include "cli/sim/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH       1200.0
#define LEFT        92.0
#define RIGHT       28.0
#define PLOT        (WIDTH - LEFT - RIGHT)
#define TOP         142.0
#define LABEL_ROWS  3
#define LINES_MAX   4000u
#define NAME_CHARS  8u   /* longer names of lanes are compressed */
#define ROUTINE_MAX 400u /* more heartbeats than these hide the elections: none is drawn */

struct picture {
    const struct bw_timeline *timeline;
    const struct bw_sim_result *result;
    FILE *out;
    double lane, bar; /* heights */
    double bottom;    /* lower end of the lanes */
    bw_time end;
};

/* Colours that colour-blind readers can distinguish (Okabe and Ito). */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7a5195", "#8c6d31"};
#define PALETTE (sizeof palette / sizeof *palette)

static const char *colour(bw_node node)
{
    return palette[(node - 1) % PALETTE];
}

static double x_of(const struct picture *p, bw_time at)
{
    return LEFT + PLOT * (double)bw_time_min(at, p->end) / (double)p->end;
}

static double y_of(const struct picture *p, bw_node node)
{
    return TOP + p->lane * ((double)node - 0.5);
}

void bw_svg_escape(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else
            fputc(*text, out);
    }
}

/* ---- frame ---- */

/* Each class twice: for light pages, and for dark ones. */
static const char style[] =
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#24292f}"
    ".small{font-size:11px}.faint{fill:#6e7781}.label{font-size:13px}"
    ".bar{font-size:11px;fill:#fff;font-weight:600}.page{fill:#fff}.grid{stroke:#e4e7eb}"
    ".lane{stroke:#c9d1d9;stroke-width:1.5}.fault{stroke:#57606a;stroke-dasharray:2 3}"
    ".end{stroke:#24292f;stroke-width:1.4}.split{fill:#cf222e;opacity:.06}"
    ".wall{stroke:#cf222e;stroke-width:1.6;stroke-dasharray:7 4}"
    ".message{stroke:#0550ae;opacity:.6}.tip{fill:#0550ae}"
    ".routine{stroke:#8b949e;stroke-width:.5;opacity:.3}.lost{stroke:#cf222e;opacity:.4}"
    ".candidate{fill:#fff3bf;stroke:#bf8700;stroke-width:1.2}.paused{fill:#cdb9f2;stroke:#8250df}"
    ".down{fill:url(#down);stroke:#b0b8bf}.downback{fill:#eceff1}.downline{fill:#b0b8bf}"
    ".partition{fill:#fae9ea;stroke:#cf222e}.none{fill:#d0d7de}.one{fill:#2da44e}.two{fill:#cf222e}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.bar{fill:#fff}"
    ".page{fill:#0d1117}.grid{stroke:#21262d}.lane{stroke:#3d444d}.fault{stroke:#9198a1}"
    ".end{stroke:#e6edf3}.split{fill:#f85149;opacity:.12}.wall{stroke:#f85149}"
    ".message{stroke:#58a6ff}.tip{fill:#58a6ff}.routine{stroke:#6e7681}.lost{stroke:#f85149}"
    ".candidate{fill:#5c4813;stroke:#d29922}.paused{fill:#4b3a75;stroke:#a371f7}"
    ".down{stroke:#6e7681}.downback{fill:#21262d}.downline{fill:#6e7681}"
    ".partition{fill:#3d1a1d;stroke:#f85149}.none{fill:#3d444d}.one{fill:#2ea043}.two{fill:#f85149}"
    "}";

static void draw_defs(const struct picture *p)
{
    fprintf(p->out, "<defs>\n<style>%s</style>\n", style);
    for (size_t i = 0; i < PALETTE; i++)
        fprintf(p->out,
                "<pattern id=\"hatch%zu\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"page\"/>"
                "<rect width=\"2.4\" height=\"6\" fill=\"%s\"/></pattern>\n",
                i, palette[i]);
    fputs("<pattern id=\"down\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" class=\"downback\"/>"
          "<rect width=\"1.4\" height=\"7\" class=\"downline\"/></pattern>\n</defs>\n",
          p->out);
}

static void draw_line(const struct picture *p, double x1, double y1, double x2, double y2,
                      const char *class)
{
    fprintf(p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1,
            y1, x2, y2, class);
}

static void draw_axis(const struct picture *p)
{
    char text[BW_TEXT_SPAN];
    bw_time step = bw_timeline_step(p->end, 12);
    for (bw_time at = 0; at <= p->end; at += step) {
        double x = x_of(p, at);
        draw_line(p, x, TOP, x, p->bottom, "grid");
        bw_timeline_tick(text, at, step);
        fprintf(p->out,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"small faint\">%s"
                "</text>\n",
                x, p->bottom + 16, text);
    }
}

static const char *term_word(const struct picture *p)
{
    return p->timeline->term_word ? p->timeline->term_word : "term";
}

static void put_name(const struct picture *p, bw_node node)
{
    if (p->timeline->names)
        bw_svg_escape(p->out, p->timeline->names[node]);
    else
        fprintf(p->out, "node %u", node);
}

static void draw_lanes(const struct picture *p)
{
    for (bw_node node = 1; node <= p->timeline->nodes; node++) {
        double y = y_of(p, node);
        draw_line(p, LEFT, y, WIDTH - RIGHT, y, "lane");
        fprintf(p->out,
                "<circle cx=\"20\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/><text x=\"32\" y=\"%.1f\" "
                "class=\"label\"",
                y, colour(node), y + 4.5);
        if (p->timeline->names && strlen(p->timeline->names[node]) > NAME_CHARS)
            fputs(" textLength=\"56\" lengthAdjust=\"spacingAndGlyphs\"", p->out);
        fputs(">", p->out);
        put_name(p, node);
        fputs("</text>\n", p->out);
    }
}

/* ---- events ---- */

static void draw_boundaries(const struct picture *p, const struct bw_split *split)
{
    for (bw_node node = 1; node < p->timeline->nodes; node++) {
        if (split->groups[node] == split->groups[node + 1] && split->groups[node] != 0)
            continue;
        double y = TOP + p->lane * node;
        draw_line(p, x_of(p, split->from), y, x_of(p, split->to), y, "wall");
    }
}

static void draw_splits(const struct picture *p)
{
    for (uint32_t i = 0; i < p->timeline->splits_count; i++) {
        const struct bw_split *split = &p->timeline->splits[i];
        double x = x_of(p, split->from), w = x_of(p, split->to) - x;
        fprintf(p->out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                "class=\"split\"/>\n",
                x, TOP, w, p->bottom - TOP);
        draw_boundaries(p, split);
    }
}

static void draw_arrow(const struct picture *p, const struct bw_arrow *a)
{
    bool lost = a->arrives == BW_TIME_NEVER;
    double x1 = x_of(p, a->sent), y1 = y_of(p, a->from), y2 = y_of(p, a->to), x2;
    if (lost) { /* half the way, as if it took 1/200 of the picture */
        x2 = x1 + PLOT / 400;
        y2 = (y1 + y2) / 2;
    } else {
        x2 = x_of(p, a->arrives);
    }
    draw_line(p, x1, y1, x2, y2, a->routine ? "routine" : lost ? "lost" : "message");
    if (!a->routine && !lost)
        fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.6\" class=\"tip\"/>\n", x2, y2);
}

static uint32_t count_routine(const struct bw_timeline *t)
{
    uint32_t routine = 0;
    for (uint32_t i = 0; i < t->arrows_count; i++)
        routine += t->arrows[i].routine;
    return routine;
}

/* Draws heartbeats first, under the messages of elections, or not at all if there are many. */
static void draw_arrows(const struct picture *p)
{
    const struct bw_timeline *t = p->timeline;
    uint32_t routine = count_routine(t), telling = t->arrows_count - routine;
    uint32_t step = telling > LINES_MAX ? telling / LINES_MAX + 1 : 1;
    for (uint32_t i = 0; i < t->arrows_count && routine <= ROUTINE_MAX; i++)
        if (t->arrows[i].routine)
            draw_arrow(p, &t->arrows[i]);
    for (uint32_t i = 0, seen = 0; i < t->arrows_count; i++)
        if (!t->arrows[i].routine && seen++ % step == 0)
            draw_arrow(p, &t->arrows[i]);
}

/* `look`: attributes that set the colours. */
static void draw_box(const struct picture *p, const struct bw_span *span, double height,
                     const char *look)
{
    double x = x_of(p, span->from), w = fmax(x_of(p, span->to) - x, 1.2);
    fprintf(p->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" rx=\"2\" %s", x,
            y_of(p, span->node) - height / 2, w, height, look);
}

/* Titles give exact times, so that a reader (and a test) can check the figures against them. */
static void end_box(const struct picture *p, const struct bw_span *span, const char *what)
{
    fputs("><title>", p->out);
    put_name(p, span->node);
    fprintf(p->out, " %s, %.9f s to %.9f s", what, (double)span->from / 1e9,
            (double)span->to / 1e9);
    if (span->term)
        fprintf(p->out, ", %s %llu", term_word(p), (unsigned long long)span->term);
    fputs("</title></rect>\n", p->out);
}

static void draw_span(const struct picture *p, const struct bw_span *span)
{
    char look[64];
    size_t hue = (span->node - 1) % PALETTE;
    switch (span->kind) {
    case BW_SPAN_ELECTING:
        draw_box(p, span, p->bar * 0.5, "class=\"candidate\"");
        end_box(p, span, "is a candidate");
        return;
    case BW_SPAN_CLAIM:
        snprintf(look, sizeof look, "fill=\"url(#hatch%zu)\" stroke=\"%s\"", hue, palette[hue]);
        draw_box(p, span, p->bar, look);
        end_box(p, span, "leads");
        return;
    case BW_SPAN_ACT:
        snprintf(look, sizeof look, "fill=\"%s\"", palette[hue]);
        draw_box(p, span, p->bar, look);
        end_box(p, span, "leads and may act");
        return;
    case BW_SPAN_DOWN:
        draw_box(p, span, p->bar, "class=\"down\"");
        end_box(p, span, "is down");
        return;
    case BW_SPAN_PAUSED:
        draw_box(p, span, p->bar * 1.6, "class=\"paused\"");
        end_box(p, span, "is paused");
        return;
    case BW_SPAN_ABSENT:
        draw_box(p, span, 5, "class=\"page\"");
        end_box(p, span, "is not a member");
        return;
    }
}

/* Returns whether no other leadership of the node begins within `width` after `x`. */
static bool room_after(const struct picture *p, const struct bw_span *span, double x, double width)
{
    for (uint32_t i = 0; i < p->timeline->spans_count; i++) {
        const struct bw_span *other = &p->timeline->spans[i];
        if (other->node != span->node || other->from <= span->from ||
            other->kind == BW_SPAN_ELECTING)
            continue;
        if (x_of(p, other->from) < x + width)
            return false;
    }
    return x + width < WIDTH;
}

/* Writes the term into the leadership's bar, or after the bar if it is short. */
static void label_term(const struct picture *p, const struct bw_span *span)
{
    char text[40];
    int length =
        snprintf(text, sizeof text, "%s %llu", term_word(p), (unsigned long long)span->term);
    double x = x_of(p, span->from), w = x_of(p, span->to) - x, need = 6.6 * length + 10;
    bool inside = w >= need;
    if (!inside && !room_after(p, span, x + w, need))
        return;
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n",
            inside ? x + 6 : x + w + 4, y_of(p, span->node) + 4, inside ? "bar" : "small", text);
}

static void draw_spans(const struct picture *p)
{
    static const enum bw_span_kind order[] = {BW_SPAN_ABSENT, BW_SPAN_ELECTING, BW_SPAN_PAUSED,
                                              BW_SPAN_CLAIM,  BW_SPAN_ACT,      BW_SPAN_DOWN};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (uint32_t i = 0; i < p->timeline->spans_count; i++)
            if (p->timeline->spans[i].kind == order[k])
                draw_span(p, &p->timeline->spans[i]);
    for (uint32_t i = 0; i < p->timeline->spans_count; i++) {
        const struct bw_span *span = &p->timeline->spans[i];
        if (span->kind == BW_SPAN_ACT && p->bar >= 12 && span->term)
            label_term(p, span);
    }
}

/* Places each label in the first of LABEL_ROWS rows that is free there. */
static void draw_mark(const struct picture *p, double used[LABEL_ROWS], bw_time at,
                      const char *text)
{
    double x = x_of(p, at), width = 6.1 * (double)strlen(text) + 14;
    double start = fmin(x, WIDTH - 8 - width);
    int row = 0;
    while (row < LABEL_ROWS && used[row] > start)
        row++;
    draw_line(p, x, TOP - 6 - 17 * (row < LABEL_ROWS ? row : 0), x, p->bottom, "fault");
    if (row == LABEL_ROWS)
        return;
    used[row] = start + width;
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">", start + 3,
            TOP - 8 - 17.0 * row);
    bw_svg_escape(p->out, text);
    fputs("</text>\n", p->out);
}

static void draw_faults(const struct picture *p)
{
    double used[LABEL_ROWS] = {0};
    char text[200];
    for (uint32_t i = 0; i < p->timeline->moments_count; i++) {
        const struct bw_moment *m = &p->timeline->moments[i];
        if (m->kind != BW_MOMENT_FAULT)
            continue;
        bw_story_fault(&m->fault, m->node, p->timeline->nodes, text, sizeof text);
        draw_mark(p, used, m->at, text);
    }
    for (uint32_t i = 0; i < p->timeline->marks_count; i++)
        draw_mark(p, used, p->timeline->marks[i].at, p->timeline->marks[i].text);
}

/* ---- how many act ---- */

/* Draws the pieces of one kind, at least `least` wide. */
static void draw_pieces(const struct picture *p, double y, enum bw_sim_measure kind,
                        const char *class, const char *text, double least)
{
    for (uint32_t i = 0; i < p->timeline->strips_count; i++) {
        const struct bw_strip *strip = &p->timeline->strips[i];
        double x = x_of(p, strip->from), w = fmax(x_of(p, strip->to) - x, least);
        if (strip->kind == kind)
            fprintf(p->out,
                    "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"10\" class=\"%s\">"
                    "<title>%s, %.9f s to %.9f s</title></rect>\n",
                    x, y, w, class, text, (double)strip->from / 1e9, (double)strip->to / 1e9);
    }
}

/* A split brain is drawn last and never too thin to see. */
static void draw_strip(const struct picture *p, double y)
{
    draw_pieces(p, y, BW_MEASURE_NONE_ACTED, "none", "no node acts", 0);
    draw_pieces(p, y, BW_MEASURE_ONE_ACTED, "one", "one node acts", 0);
    draw_pieces(p, y, BW_MEASURE_TWO_ACTED, "two", "two or more nodes act", 2);
    fprintf(p->out, "<text x=\"12\" y=\"%.1f\" class=\"small\">acting</text>\n", y + 9);
}

/* The run ends when all agree; the picture goes on. */
static void draw_end(const struct picture *p)
{
    double x = x_of(p, p->timeline->end);
    if (p->timeline->shown <= p->timeline->end)
        return;
    draw_line(p, x, TOP - 4, x, p->bottom + 38, "end");
    fprintf(p->out,
            "<text x=\"%.1f\" y=\"%.1f\" class=\"small\" text-anchor=\"end\">all agree: end of the "
            "run</text>\n",
            x - 4, TOP - 46);
}

static double legend_item(const struct picture *p, double x, double y, const char *look,
                          const char *text)
{
    fprintf(p->out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"11\" rx=\"2\" %s/>"
            "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%s</text>\n",
            x, y, look, x + 28, y + 9.5, text);
    return x + 28 + 6.3 * (double)strlen(text) + 18;
}

static void draw_legend(const struct picture *p, double y)
{
    double x = LEFT;
    uint32_t routine = count_routine(p->timeline);
    char text[80] = "message (grey: heartbeat, red: lost)";
    if (routine > ROUTINE_MAX)
        snprintf(text, sizeof text, "message (red: lost; %u heartbeats are not drawn)", routine);
    x = legend_item(p, x, y, "fill=\"#0072b2\"", "leads and may act");
    x = legend_item(p, x, y, "fill=\"url(#hatch0)\" stroke=\"#0072b2\"", "leads, may not act");
    if (!p->timeline->names) { /* real logs do not contain these */
        x = legend_item(p, x, y, "class=\"candidate\"", "candidate");
        x = legend_item(p, x, y, "class=\"down\"", "down");
        x = legend_item(p, x, y, "class=\"paused\"", "paused");
        legend_item(p, x, y, "class=\"partition\"", "partition");
    }
    y += 20;
    x = LEFT;
    fprintf(p->out, "<text x=\"12\" y=\"%.1f\" class=\"small faint\">strip:</text>\n", y + 9.5);
    x = legend_item(p, x, y, "class=\"none\"", "no node acts");
    x = legend_item(p, x, y, "class=\"one\"", "exactly one");
    x = legend_item(p, x, y, "class=\"two\"", "two or more: split brain");
    if (p->timeline->names)
        return;
    draw_line(p, x, y + 6, x + 22, y + 6, "message");
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%s</text>\n", x + 28, y + 9.5,
            text);
}

/* Returns the text of a time, also of one that never came. */
static const char *span_text(char *out, bw_time span)
{
    return span == BW_TIME_NEVER ? "never" : bw_term_span(out, span);
}

static void draw_figures(const struct picture *p)
{
    const struct bw_sim_result *r = p->result;
    char leader[BW_TEXT_SPAN], less[BW_TEXT_SPAN], none[BW_TEXT_SPAN], two[BW_TEXT_SPAN];
    if (p->timeline->figures) {
        fputs("<text x=\"12\" y=\"76\" class=\"label\">", p->out);
        bw_svg_escape(p->out, p->timeline->figures);
        fputs("</text>\n", p->out);
        return;
    }
    fprintf(
        p->out,
        "<text x=\"12\" y=\"76\" class=\"label\">time to leader %s, leaderless %s, no node acts "
        "%s, two leaders may act %s</text>\n",
        span_text(leader, r->time_to_leader), span_text(less, r->leaderless),
        span_text(none, r->none_acted), span_text(two, r->split_brain));
}

static void draw(const struct picture *p, const char *title, const char *subtitle)
{
    double height = p->bottom + 96;
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n",
            WIDTH, height, WIDTH, height);
    draw_defs(p);
    fprintf(p->out, "<rect width=\"%.0f\" height=\"%.0f\" class=\"page\"/>\n", WIDTH, height);
    fputs("<text x=\"12\" y=\"34\" font-size=\"22\" font-weight=\"700\">", p->out);
    bw_svg_escape(p->out, title);
    fputs("</text>\n<text x=\"12\" y=\"56\" class=\"label faint\">", p->out);
    bw_svg_escape(p->out, subtitle);
    fputs("</text>\n", p->out);
    draw_figures(p);
    draw_splits(p);
    draw_axis(p);
    draw_lanes(p);
    draw_arrows(p);
    draw_spans(p);
    draw_faults(p);
    draw_end(p);
    draw_strip(p, p->bottom + 26);
    draw_legend(p, p->bottom + 52);
    fputs("</svg>\n", p->out);
}

void bw_timeline_draw(const struct bw_timeline *timeline, const struct bw_sim_result *result,
                      const char *title, const char *subtitle, FILE *out)
{
    struct picture p = {.timeline = timeline,
                        .result = result,
                        .out = out,
                        .end = timeline->shown > 0 ? timeline->shown : 1};
    p.lane = timeline->nodes <= 10 ? 46 : timeline->nodes <= 32 ? 26 : 12;
    p.bar = timeline->nodes <= 10 ? 19 : timeline->nodes <= 32 ? 13 : 5;
    p.bottom = TOP + p.lane * timeline->nodes;
    draw(&p, title, subtitle);
}

int bw_timeline_svg(const struct bw_timeline *timeline, const struct bw_sim_result *result,
                    const char *title, const char *subtitle, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *out = standard ? stdout : fopen(path, "w");
    if (!out)
        return -1;
    bw_timeline_draw(timeline, result, title, subtitle, out);
    if (standard)
        return ferror(out) ? -1 : 0;
    return fclose(out) == 0 ? 0 : -1;
}
