/* The timeline as a picture: a lane per node, bars where it led (hatched while it may not act),
 * messages as thin lines between lanes, partitions as shaded bands, faults as marks, and below a
 * strip that says how many may act at each instant. Plain SVG 1.1, no script, no outside font. */
#include "cli/sim/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH      1200.0
#define LEFT       92.0
#define RIGHT      28.0
#define PLOT       (WIDTH - LEFT - RIGHT)
#define TOP        122.0
#define LABEL_ROWS 3
#define LINES_MAX  4000u

struct picture {
    const struct bw_timeline *timeline;
    FILE *out;
    double lane, bar; /* heights */
    double bottom;    /* of the lanes */
    bw_time end;
};

/* Colours that also differ for the colour-blind (Okabe and Ito). */
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

static void escape(FILE *out, const char *text)
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

static void draw_defs(const struct picture *p)
{
    fputs("<defs>\n<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;fill:#24292f}"
          ".small{font-size:11px}.faint{fill:#6e7781}.label{font-size:13px}"
          ".bar{font-size:11px;fill:#fff;font-weight:600}</style>\n",
          p->out);
    for (size_t i = 0; i < PALETTE; i++)
        fprintf(p->out,
                "<pattern id=\"hatch%zu\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>"
                "<rect width=\"2.4\" height=\"6\" fill=\"%s\"/></pattern>\n",
                i, palette[i]);
    fputs("<pattern id=\"down\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
          "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#eceff1\"/>"
          "<rect width=\"1.4\" height=\"7\" fill=\"#b0b8bf\"/></pattern>\n</defs>\n",
          p->out);
}

static void draw_axis(const struct picture *p)
{
    char text[BW_TEXT_SPAN];
    bw_time step = bw_timeline_step(p->end, 12);
    for (bw_time at = 0; at <= p->end; at += step) {
        double x = x_of(p, at);
        fprintf(p->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e7eb\"/>\n", x,
                TOP, x, p->bottom);
        bw_timeline_tick(text, at, step);
        fprintf(p->out,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"small faint\">%s"
                "</text>\n",
                x, p->bottom + 16, text);
    }
}

static void draw_lanes(const struct picture *p)
{
    for (bw_node node = 1; node <= p->timeline->nodes; node++) {
        double y = y_of(p, node);
        fprintf(p->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#c9d1d9\" "
                "stroke-width=\"1.5\"/>\n",
                LEFT, y, WIDTH - RIGHT, y);
        fprintf(p->out,
                "<circle cx=\"20\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/><text x=\"32\" y=\"%.1f\" "
                "class=\"label\">node %u</text>\n",
                y, colour(node), y + 4.5, node);
    }
}

/* ---- what happened ---- */

static void draw_boundaries(const struct picture *p, const struct bw_split *split)
{
    for (bw_node node = 1; node < p->timeline->nodes; node++) {
        if (split->groups[node] == split->groups[node + 1] && split->groups[node] != 0)
            continue;
        double y = TOP + p->lane * node;
        fprintf(p->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#cf222e\" "
                "stroke-width=\"1.6\" stroke-dasharray=\"7 4\"/>\n",
                x_of(p, split->from), y, x_of(p, split->to), y);
    }
}

static void draw_splits(const struct picture *p)
{
    for (uint32_t i = 0; i < p->timeline->splits_count; i++) {
        const struct bw_split *split = &p->timeline->splits[i];
        double x = x_of(p, split->from), w = x_of(p, split->to) - x;
        fprintf(p->out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#cf222e\" "
                "opacity=\"0.06\"/>\n",
                x, TOP, w, p->bottom - TOP);
        draw_boundaries(p, split);
    }
}

/* Renewals and heartbeats say little one by one; they are drawn faintly, or not when many. */
static bool is_routine(unsigned kind)
{
    return kind == BW_MSG_RAFT_APPEND || kind == BW_MSG_RAFT_APPEND_REPLY ||
           kind == BW_MSG_STABLE_OK || kind == BW_MSG_CLAIM || kind == BW_MSG_PROMISE ||
           kind == BW_MSG_ARE_YOU_THERE || kind == BW_MSG_THERE_ANSWER ||
           kind == BW_MSG_ARE_YOU_COORDINATOR || kind == BW_MSG_COORDINATOR_ANSWER;
}

static void draw_arrow(const struct picture *p, const struct bw_arrow *a)
{
    bool lost = a->arrives == BW_TIME_NEVER, routine = is_routine(a->kind);
    double x1 = x_of(p, a->sent), y1 = y_of(p, a->from), y2 = y_of(p, a->to), x2;
    if (lost) { /* half the way, as if it took 1/200 of the picture */
        x2 = x1 + PLOT / 400;
        y2 = (y1 + y2) / 2;
    } else {
        x2 = x_of(p, a->arrives);
    }
    fprintf(p->out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%s\" opacity=\"%s\"/>",
            x1, y1, x2, y2,
            lost      ? "#cf222e"
            : routine ? "#8b949e"
                      : "#0550ae",
            routine ? "0.6" : "1",
            lost      ? "0.35"
            : routine ? "0.35"
                      : "0.55");
    if (!routine && !lost)
        fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.6\" fill=\"#0550ae\"/>", x2, y2);
    fputc('\n', p->out);
}

static void draw_arrows(const struct picture *p)
{
    uint32_t telling = 0, total = p->timeline->arrows_count;
    for (uint32_t i = 0; i < total; i++)
        telling += !is_routine(p->timeline->arrows[i].kind);
    uint32_t routine = total - telling;
    uint32_t room = telling < LINES_MAX ? LINES_MAX - telling : 0;
    bool all = routine <= room;
    uint32_t step = telling > LINES_MAX ? telling / LINES_MAX + 1 : 1;
    for (uint32_t i = 0, seen = 0; i < total; i++) {
        const struct bw_arrow *a = &p->timeline->arrows[i];
        if (is_routine(a->kind) ? all : seen++ % step == 0)
            draw_arrow(p, a);
    }
}

static void draw_box(const struct picture *p, const struct bw_span *span, double height,
                     const char *fill, const char *more)
{
    double x = x_of(p, span->from), w = fmax(x_of(p, span->to) - x, 1.2);
    fprintf(p->out,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" rx=\"2\" fill=\"%s\" %s", x,
            y_of(p, span->node) - height / 2, w, height, fill, more);
}

static void end_box(const struct picture *p, const struct bw_span *span, const char *what)
{
    char from[BW_TEXT_SPAN], to[BW_TEXT_SPAN];
    fprintf(p->out, "><title>node %u %s, %s to %s", span->node, what,
            bw_term_span(from, span->from), bw_term_span(to, span->to));
    if (span->term)
        fprintf(p->out, ", term %llu", (unsigned long long)span->term);
    fputs("</title></rect>\n", p->out);
}

static void draw_span(const struct picture *p, const struct bw_span *span)
{
    char fill[24];
    size_t hue = (span->node - 1) % PALETTE;
    switch (span->kind) {
    case BW_SPAN_ELECTING:
        draw_box(p, span, p->bar * 0.5, "#fff3bf", "stroke=\"#bf8700\" stroke-width=\"1.2\"");
        end_box(p, span, "stands for election");
        return;
    case BW_SPAN_CLAIM:
        snprintf(fill, sizeof fill, "url(#hatch%zu)", hue);
        draw_box(p, span, p->bar, fill, "stroke=\"");
        fprintf(p->out, "%s\"", palette[hue]);
        end_box(p, span, "leads");
        return;
    case BW_SPAN_ACT:
        draw_box(p, span, p->bar, palette[hue], "");
        end_box(p, span, "leads and may act");
        return;
    case BW_SPAN_DOWN:
        draw_box(p, span, p->bar, "url(#down)", "stroke=\"#b0b8bf\"");
        end_box(p, span, "is down");
        return;
    case BW_SPAN_PAUSED:
        draw_box(p, span, p->bar + 7, "#8250df", "opacity=\"0.4\" stroke=\"#8250df\"");
        end_box(p, span, "is paused");
        return;
    case BW_SPAN_ABSENT:
        draw_box(p, span, 5, "#fff", "");
        end_box(p, span, "is no member");
        return;
    }
}

static void draw_spans(const struct picture *p)
{
    static const enum bw_span_kind order[] = {BW_SPAN_ABSENT, BW_SPAN_ELECTING, BW_SPAN_CLAIM,
                                              BW_SPAN_ACT,    BW_SPAN_DOWN,     BW_SPAN_PAUSED};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (uint32_t i = 0; i < p->timeline->spans_count; i++)
            if (p->timeline->spans[i].kind == order[k])
                draw_span(p, &p->timeline->spans[i]);
    for (uint32_t i = 0; i < p->timeline->spans_count; i++) {
        const struct bw_span *span = &p->timeline->spans[i];
        double x = x_of(p, span->from), w = x_of(p, span->to) - x;
        if (span->kind == BW_SPAN_ACT && w > 56 && p->bar >= 12 && span->term)
            fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"bar\">term %llu</text>\n", x + 6,
                    y_of(p, span->node) + 4, (unsigned long long)span->term);
    }
}

/* Labels take the first of LABEL_ROWS rows that is free at their place. */
static void draw_faults(const struct picture *p)
{
    double used[LABEL_ROWS] = {0};
    char text[200];
    for (uint32_t i = 0; i < p->timeline->moments_count; i++) {
        const struct bw_moment *m = &p->timeline->moments[i];
        if (m->kind != BW_MOMENT_FAULT)
            continue;
        bw_story_fault(&m->fault, m->node, p->timeline->nodes, text, sizeof text);
        double x = x_of(p, m->at), width = 6.1 * (double)strlen(text) + 14;
        double start = fmin(x, WIDTH - 8 - width);
        int row = 0;
        while (row < LABEL_ROWS && used[row] > start)
            row++;
        fprintf(p->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#57606a\" "
                "stroke-dasharray=\"2 3\"/>\n",
                x, TOP - 6 - 17 * (row < LABEL_ROWS ? row : 0), x, p->bottom);
        if (row == LABEL_ROWS)
            continue;
        used[row] = start + width;
        fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">", start + 3,
                TOP - 8 - 17.0 * row);
        escape(p->out, text);
        fputs("</text>\n", p->out);
    }
}

/* ---- how many may act ---- */

struct edge {
    bw_time at;
    int step;
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->step - y->step;
}

static void draw_strip(const struct picture *p, double y)
{
    const struct bw_timeline *t = p->timeline;
    struct edge *edges = malloc((2 * (size_t)t->spans_count + 1) * sizeof *edges);
    size_t count = 0;
    int acting = 0;
    bw_time last = 0;
    if (!edges)
        return;
    for (uint32_t i = 0; i < t->spans_count; i++)
        if (t->spans[i].kind == BW_SPAN_ACT) {
            edges[count++] = (struct edge){t->spans[i].from, 1};
            edges[count++] = (struct edge){t->spans[i].to, -1};
        }
    edges[count++] = (struct edge){p->end, 0};
    qsort(edges, count, sizeof *edges, by_time);
    for (size_t i = 0; i < count; i++) {
        bw_time at = bw_time_min(edges[i].at, p->end);
        if (at > last)
            fprintf(p->out,
                    "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"10\" fill=\"%s\"/>\n",
                    x_of(p, last), y, x_of(p, at) - x_of(p, last),
                    acting == 0   ? "#d0d7de"
                    : acting == 1 ? "#2da44e"
                                  : "#cf222e");
        last = bw_time_max(at, last);
        acting += edges[i].step;
    }
    free(edges);
    fprintf(p->out, "<text x=\"12\" y=\"%.1f\" class=\"small\">may act</text>\n", y + 9);
}

static double legend_item(const struct picture *p, double x, double y, const char *fill,
                          const char *stroke, const char *text)
{
    fprintf(p->out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"11\" rx=\"2\" fill=\"%s\" "
            "stroke=\"%s\"/><text x=\"%.1f\" y=\"%.1f\" class=\"small\">%s</text>\n",
            x, y, fill, stroke, x + 28, y + 9.5, text);
    return x + 28 + 6.3 * (double)strlen(text) + 18;
}

static void draw_legend(const struct picture *p, double y)
{
    double x = LEFT;
    x = legend_item(p, x, y, palette[0], "none", "leads and may act");
    x = legend_item(p, x, y, "url(#hatch0)", palette[0], "leads, may not act");
    x = legend_item(p, x, y, "#fff3bf", "#bf8700", "stands for election");
    x = legend_item(p, x, y, "url(#down)", "#b0b8bf", "down");
    x = legend_item(p, x, y, "#cdb9f2", "#8250df", "paused");
    legend_item(p, x, y, "#fae9ea", "#cf222e", "partition");
    y += 20;
    x = LEFT;
    fprintf(p->out, "<text x=\"12\" y=\"%.1f\" class=\"small faint\">strip:</text>\n", y + 9.5);
    x = legend_item(p, x, y, "#d0d7de", "none", "nobody may act");
    x = legend_item(p, x, y, "#2da44e", "none", "exactly one");
    x = legend_item(p, x, y, "#cf222e", "none", "two or more: split brain");
    fprintf(p->out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#0550ae\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">message (grey: routine, red: lost)"
            "</text>\n",
            x, y + 6, x + 22, y + 6, x + 28, y + 9.5);
}

static void draw(const struct picture *p, const char *title, const char *subtitle)
{
    double height = p->bottom + 96;
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n",
            WIDTH, height, WIDTH, height);
    draw_defs(p);
    fprintf(p->out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", WIDTH, height);
    fputs("<text x=\"12\" y=\"34\" font-size=\"22\" font-weight=\"700\">", p->out);
    escape(p->out, title);
    fputs("</text>\n<text x=\"12\" y=\"56\" class=\"label faint\">", p->out);
    escape(p->out, subtitle);
    fputs("</text>\n", p->out);
    draw_splits(p);
    draw_axis(p);
    draw_lanes(p);
    draw_arrows(p);
    draw_spans(p);
    draw_faults(p);
    draw_strip(p, p->bottom + 26);
    draw_legend(p, p->bottom + 52);
    fputs("</svg>\n", p->out);
}

int bw_timeline_svg(const struct bw_timeline *timeline, const char *title, const char *subtitle,
                    const char *path)
{
    struct picture p = {.timeline = timeline, .end = timeline->end > 0 ? timeline->end : 1};
    bool standard = strcmp(path, "-") == 0;
    p.out = standard ? stdout : fopen(path, "w");
    if (!p.out)
        return -1;
    p.lane = timeline->nodes <= 10 ? 46 : timeline->nodes <= 32 ? 26 : 12;
    p.bar = p.lane * 0.42;
    p.bottom = TOP + p.lane * timeline->nodes;
    draw(&p, title, subtitle);
    if (standard)
        return ferror(p.out) ? -1 : 0;
    return fclose(p.out) == 0 ? 0 : -1;
}
