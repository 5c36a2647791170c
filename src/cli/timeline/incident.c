/* See incident.h. */
#include "cli/timeline/incident.h"

#include "core/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEXT_MAX 100u /* leaderships that are searched for the next one that acts */

struct leadership {
    bw_node lane;
    bw_token token;
    bw_time claim, act;  /* begin; NEVER: unknown */
    bw_time ended, dead; /* by its own log; NEVER: not logged */
    bw_time lost;        /* seen by its successor or an observer; NEVER: not seen */
    bool logged;         /* its candidate logged it */
};

struct build {
    struct bw_incident *incident;
    const struct bw_incident_events *events;
    struct leadership *led;
    uint32_t led_count;
    bw_time end;
};

static bool is(const struct bw_incident_event *event, const char *name)
{
    return strcmp(event->event, name) == 0;
}

/* ---- lanes ---- */

/* Returns 0 if there are too many candidates. */
static bw_node lane_of(struct bw_incident *incident, const char *who)
{
    struct bw_timeline *t = &incident->timeline;
    for (bw_node lane = 1; lane <= t->nodes; lane++)
        if (strcmp(incident->names[lane], who) == 0)
            return lane;
    if (t->nodes == BW_INCIDENT_LANES_MAX)
        return BW_NODE_NONE;
    incident->names[++t->nodes] = who;
    return t->nodes;
}

/* ---- leaderships ---- */

/* The latest leadership of this candidate with this token; without a token: its latest one. */
static struct leadership *find(struct build *b, bw_node lane, bw_token token)
{
    for (uint32_t i = b->led_count; i > 0; i--)
        if (b->led[i - 1].lane == lane && (!token || b->led[i - 1].token == token))
            return &b->led[i - 1];
    return NULL;
}

static bool is_over(const struct leadership *led)
{
    return led->ended != BW_TIME_NEVER;
}

static struct leadership *begin(struct build *b, const struct bw_incident_event *event,
                                bw_node lane, bw_time at)
{
    struct leadership *led = find(b, lane, event->token);
    if (!led || (!event->token && is_over(led))) {
        led = &b->led[b->led_count++];
        *led = (struct leadership){lane,          event->token,  at,   BW_TIME_NEVER, BW_TIME_NEVER,
                                   BW_TIME_NEVER, BW_TIME_NEVER, false};
    }
    return led;
}

/* The successor knows exactly when the work of an earlier leader was dead. */
static void take_predecessor(struct build *b, const struct bw_incident_event *event, bw_time at)
{
    bw_node lane = lane_of(b->incident, event->holder);
    struct leadership *led = lane ? find(b, lane, 0) : NULL;
    if (led && !is_over(led) && led->dead == BW_TIME_NEVER && at > led->claim)
        led->dead = at;
}

static void take_log(struct build *b, const struct bw_incident_event *event, bw_node lane,
                     bw_time at)
{
    if (is(event, "elected")) {
        struct leadership *led = begin(b, event, lane, at);
        led->claim = at; /* an observer's clock may be ahead */
        led->logged = true;
        return;
    }
    b->incident->runs_commands[lane] |= is(event, "started");
    b->incident->is_sidecar[lane] |= is(event, "http");
    if (is(event, "predecessor-dead") && event->holder[0])
        take_predecessor(b, event, at);
    struct leadership *led = find(b, lane, event->token);
    if (!led)
        return;
    if (is(event, "started") && led->act == BW_TIME_NEVER)
        led->act = at;
    else if (is(event, "confirmed-dead"))
        led->dead = at;
    else if ((is(event, "released") || is(event, "guardian-released")) && !is_over(led))
        led->ended = at;
}

static void take_observed(struct build *b, const struct bw_incident_event *event, bw_node lane,
                          bw_time at)
{
    struct leadership *led = find(b, lane, event->token);
    if (is(event, "elected") || is(event, "found"))
        begin(b, event, lane, at);
    else if (led && (is(event, "lost") || is(event, "dead")) && led->lost == BW_TIME_NEVER)
        led->lost = at;
}

static int collect(struct build *b)
{
    for (size_t i = 0; i < b->events->count; i++) {
        const struct bw_incident_event *event = &b->events->at[i];
        bw_time at = event->at - b->incident->begin;
        if (!event->who[0])
            continue;
        bw_node lane = lane_of(b->incident, event->who);
        if (!lane)
            return BW_ELIMIT;
        if (event->source == BW_FROM_LOG)
            take_log(b, event, lane, at);
        else
            take_observed(b, event, lane, at);
    }
    return 0;
}

/* ---- spans ---- */

/* When the work begins; NEVER: it did not. */
static bw_time act_of(const struct build *b, const struct leadership *led)
{
    const struct bw_incident *incident = b->incident;
    if (led->act != BW_TIME_NEVER)
        return led->act;
    bool sidecar = incident->is_sidecar[led->lane] && !incident->runs_commands[led->lane];
    return !led->logged || sidecar ? led->claim : BW_TIME_NEVER;
}

static bw_time end_of(const struct build *b, const struct leadership *led)
{
    if (led->ended != BW_TIME_NEVER)
        return led->ended;
    return led->dead != BW_TIME_NEVER ? led->dead : bw_time_min(led->lost, b->end);
}

/* When the work was dead. A release is logged after it was made, so that its time is too late. The
 * leaderships are in the order of their begin, so the next one that acts is behind this one. */
static bw_time dead_of(const struct build *b, uint32_t place)
{
    const struct leadership *led = &b->led[place];
    bw_time end = end_of(b, led);
    if (led->dead != BW_TIME_NEVER)
        return bw_time_min(led->dead, end);
    for (uint32_t i = place + 1; i < b->led_count && i < place + NEXT_MAX; i++)
        if (b->led[i].token > led->token && act_of(b, &b->led[i]) < end)
            end = act_of(b, &b->led[i]);
    return end;
}

static void add_span(struct bw_timeline *t, enum bw_span_kind kind, const struct leadership *led,
                     bw_time from, bw_time to)
{
    if (from < to)
        t->spans[t->spans_count++] = (struct bw_span){kind, led->lane, from, to, led->token};
}

static void add_spans(struct build *b)
{
    struct bw_timeline *t = &b->incident->timeline;
    for (uint32_t i = 0; i < b->led_count; i++) {
        const struct leadership *led = &b->led[i];
        bw_time to = end_of(b, led), dead = dead_of(b, i);
        add_span(t, BW_SPAN_CLAIM, led, led->claim, to);
        add_span(t, BW_SPAN_ACT, led, act_of(b, led), dead);
    }
}

/* ---- how many act ---- */

struct edge {
    bw_time at;
    int change;
    bw_node lane;
};

/* At the same time an end comes before a begin. */
static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->change - y->change;
}

static void add_strip(struct bw_incident *incident, uint32_t acting, bw_time from, bw_time to)
{
    struct bw_timeline *t = &incident->timeline;
    enum bw_sim_measure kind = acting == 0   ? BW_MEASURE_NONE_ACTED
                               : acting == 1 ? BW_MEASURE_ONE_ACTED
                                             : BW_MEASURE_TWO_ACTED;
    if (from >= to)
        return;
    if (acting == 0) {
        incident->none_ns += to - from;
        if (to - from > incident->longest_ns)
            incident->longest_ns = to - from;
    }
    incident->two_ns += acting > 1 ? to - from : 0;
    t->strips[t->strips_count++] = (struct bw_strip){kind, from, to};
}

static int add_strips(struct build *b)
{
    struct bw_timeline *t = &b->incident->timeline;
    uint32_t lanes[BW_INCIDENT_LANES_MAX + 1] = {0}, acting = 0, count = 0;
    struct edge *edges = calloc(2 * (size_t)t->spans_count + 1, sizeof *edges);
    bw_time from = 0;
    if (!edges)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < t->spans_count; i++) {
        const struct bw_span *span = &t->spans[i];
        if (span->kind != BW_SPAN_ACT)
            continue;
        edges[count++] = (struct edge){span->from, 1, span->node};
        edges[count++] = (struct edge){span->to, -1, span->node};
    }
    qsort(edges, count, sizeof *edges, by_time);
    for (uint32_t i = 0; i < count; i++) {
        add_strip(b->incident, acting, from, edges[i].at);
        from = edges[i].at;
        lanes[edges[i].lane] += (uint32_t)edges[i].change;
        if (edges[i].change > 0)
            acting += lanes[edges[i].lane] == 1;
        else
            acting -= lanes[edges[i].lane] == 0;
    }
    add_strip(b->incident, acting, from, b->end);
    free(edges);
    return 0;
}

/* ---- marks ---- */

/* Events that explain a change: why a leader stopped, and everything that is alarming. */
static bool is_marked(const struct bw_incident_event *event)
{
    static const char *const seen[] = {"lost", "dead", "silent", "unreachable", "reachable"};
    if (event->source == BW_FROM_LOG)
        return event->alarming || is(event, "step-down") || is(event, "guardian-released");
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++)
        if (is(event, seen[i]))
            return true;
    return false;
}

/* Length of at most `most` bytes of the text, without a part of a UTF-8 character at the end. */
static int whole(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);
    if (length > most)
        for (length = most; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--;
    return (int)length;
}

static void add_marks(struct build *b)
{
    struct bw_incident *incident = b->incident;
    uint32_t count = 0;
    for (size_t i = 0; i < b->events->count; i++) {
        const struct bw_incident_event *event = &b->events->at[i];
        if (!is_marked(event))
            continue;
        char *text = incident->texts[count];
        snprintf(text, sizeof incident->texts[0], "%.*s%s%.*s%s%.*s", whole(event->who, 30),
                 event->who, event->who[0] ? ": " : "", whole(event->event, 24), event->event,
                 event->reason[0] ? ", " : "", whole(event->reason, 36), event->reason);
        incident->marks[count++] = (struct bw_mark){event->at - incident->begin, text};
    }
    incident->timeline.marks = incident->marks;
    incident->timeline.marks_count = count;
}

static void put_figures(struct bw_incident *incident)
{
    char none[BW_TEXT_SPAN], longest[BW_TEXT_SPAN], two[BW_TEXT_SPAN];
    snprintf(incident->figures, sizeof incident->figures,
             "%u leaderships; no candidate acts for %s, at most %s at a time; two act for %s",
             incident->leaderships, bw_term_span(none, incident->none_ns),
             bw_term_span(longest, incident->longest_ns), bw_term_span(two, incident->two_ns));
    incident->timeline.figures = incident->figures;
}

int bw_incident_init(struct bw_incident *incident, const struct bw_incident_events *events)
{
    struct build b = {.incident = incident, .events = events};
    size_t count = events->count;
    *incident = (struct bw_incident){.begin = count ? events->at[0].at : 0};
    struct bw_timeline *t = &incident->timeline;
    b.end = count ? events->at[count - 1].at - incident->begin : 0;
    b.led = calloc(count + 1, sizeof *b.led);
    t->spans = calloc(2 * count + 1, sizeof *t->spans);
    t->strips = calloc(4 * count + 2, sizeof *t->strips);
    incident->marks = calloc(count + 1, sizeof *incident->marks);
    incident->texts = calloc(count + 1, sizeof *incident->texts);
    int error =
        b.led && t->spans && t->strips && incident->marks && incident->texts ? 0 : BW_ENOMEM;
    if (!error)
        error = collect(&b);
    if (!error) {
        t->end = t->shown = b.end;
        t->names = incident->names;
        t->term_word = "token";
        incident->leaderships = b.led_count;
        add_spans(&b);
        error = add_strips(&b);
    }
    if (!error) {
        add_marks(&b);
        put_figures(incident);
    }
    free(b.led);
    if (error)
        bw_incident_deinit(incident);
    return error;
}

void bw_incident_deinit(struct bw_incident *incident)
{
    free(incident->timeline.spans);
    free(incident->timeline.strips);
    free(incident->marks);
    free(incident->texts);
    *incident = (struct bw_incident){0};
}
