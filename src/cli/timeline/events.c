/* See events.h. */
#include "cli/timeline/events.h"

#include "cli/options/options.h"
#include "cli/options/wall_time.h"
#include "os/grow.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_DATA 65

struct place {
    const char *path;
    unsigned long line;
    char *why;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct place *place,
                                                        const char *format, ...)
{
    va_list words;
    int used =
        snprintf(place->why, BW_EVENTS_WHY_MAX + 1, "%.200s:%lu: ", place->path, place->line);
    va_start(words, format);
    vsnprintf(place->why + used, BW_EVENTS_WHY_MAX + 1 - (size_t)used, format, words);
    va_end(words);
    return EXIT_DATA;
}

/* Copies at most size - 1 bytes, without a part of a character at the end. */
static void copy(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size) {
        length = size - 1;
        while (length && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--;
    }
    for (size_t i = 0; i < length; i++)
        out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    out[length] = '\0';
}

/* ---- lines ---- */

static const char *text_of(const json_t *line, const char *name)
{
    const char *text = json_string_value(json_object_get(line, name));
    return text ? text : "";
}

/* Our own programs write UTC, so an offset means that the line is not theirs. */
static bool read_time(const char *text, bw_time *out)
{
    return strchr(text, 'Z') && bw_wall_read(text, out);
}

static int take_fields(const struct place *place, const json_t *line,
                       struct bw_incident_event *event)
{
    const char *id = text_of(line, "id"), *leader = text_of(line, "leader");
    const char *level = text_of(line, "level");
    json_int_t token = json_integer_value(json_object_get(line, "token"));
    if (!json_is_object(line))
        return refuse(place, "not a JSON object");
    if (!read_time(text_of(line, "time"), &event->at))
        return refuse(place, "invalid or missing \"time\": expected a time like "
                             "\"2026-11-16T10:14:02.118Z\"");
    if (!text_of(line, "event")[0] || !text_of(line, "election")[0])
        return refuse(place, "\"event\" or \"election\" is missing: expected a line of `observe "
                             "--json` or of a log with --log json");
    if (token < 0)
        return refuse(place, "invalid \"token\": expected a number ≥ 0");
    event->source = id[0] ? BW_FROM_LOG : BW_FROM_OBSERVER;
    event->token = (bw_token)token;
    event->alarming = strcmp(level, "warning") == 0 || strcmp(level, "error") == 0;
    copy(event->who, sizeof event->who, id[0] ? id : leader);
    copy(event->holder, sizeof event->holder, text_of(line, "holder"));
    copy(event->event, sizeof event->event, text_of(line, "event"));
    copy(event->reason, sizeof event->reason, text_of(line, "reason"));
    copy(event->message, sizeof event->message, text_of(line, "message"));
    return 0;
}

/* Returns 0 and sets *wanted to false if the line is of another election than the requested one. */
static int judge_election(const struct place *place, struct bw_incident_events *events,
                          const json_t *line, const char *election, bool *wanted)
{
    const char *got = text_of(line, "election");
    *wanted = !election || strcmp(got, election) == 0;
    if (!*wanted)
        return 0;
    char shown[sizeof events->election];
    copy(shown, sizeof shown, got);
    if (!events->election[0])
        memcpy(events->election, shown, sizeof shown);
    if (strcmp(events->election, shown) != 0)
        return refuse(place,
                      "election '%.80s', but earlier lines are of '%.80s'; choose one with "
                      "--election NAME",
                      shown, events->election);
    return 0;
}

static int take_line(const struct place *place, struct bw_incident_events *events,
                     const char *election, const char *text, size_t length)
{
    struct bw_incident_event event = {.order = (uint32_t)events->count};
    bool wanted = true;
    json_error_t error;
    if (length > BW_EVENT_LINE_MAX)
        return refuse(place, "the line has %zu bytes; at most %u are possible", length,
                      BW_EVENT_LINE_MAX);
    json_t *line = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!line)
        return refuse(place, "not a JSON object: %.120s", error.text);
    int code = take_fields(place, line, &event);
    if (code == 0)
        code = judge_election(place, events, line, election, &wanted);
    json_decref(line);
    if (code != 0 || !wanted)
        return code;
    if (events->count == BW_EVENTS_MAX)
        return refuse(place, "more than %u events; cut the files to the time of the incident",
                      BW_EVENTS_MAX);
    if (!bw_grow(&events->at, &events->size, events->count + 1, 64, sizeof event))
        return refuse(place, "out of memory");
    events->at[events->count++] = event;
    return 0;
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isspace((unsigned char)text[i]))
            return false;
    return true;
}

int bw_events_read(struct bw_incident_events *events, const char *path, const char *election,
                   enum bw_events_invalid invalid, char *why)
{
    struct place place = {.path = path, .why = why};
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    ssize_t length;
    int code = 0;
    if (!file) {
        snprintf(why, BW_EVENTS_WHY_MAX + 1, "cannot read %.200s: %s", path, strerror(errno));
        return BW_EXIT_IO;
    }
    while (code == 0 && (length = getline(&text, &size, file)) >= 0) {
        place.line++;
        if (is_blank(text, (size_t)length))
            continue;
        code = take_line(&place, events, election, text, (size_t)length);
        if (code == EXIT_DATA && invalid == BW_INVALID_SKIP && events->count < BW_EVENTS_MAX) {
            events->skipped++;
            code = 0;
        }
    }
    if (code == 0 && ferror(file)) {
        snprintf(why, BW_EVENTS_WHY_MAX + 1, "cannot read %.200s: %s", path, strerror(errno));
        code = BW_EXIT_IO;
    }
    free(text);
    if (!standard)
        fclose(file);
    return code;
}

static int by_time(const void *a, const void *b)
{
    const struct bw_incident_event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

void bw_events_sort(struct bw_incident_events *events)
{
    if (events->count)
        qsort(events->at, events->count, sizeof events->at[0], by_time);
}

void bw_events_deinit(struct bw_incident_events *events)
{
    free(events->at);
    *events = (struct bw_incident_events){0};
}
