/* Event lines. Times come from the wall clock, so that people can compare them with other logs; no
 * decision depends on them. If the reader of the log stops reading, lines are dropped: a full pipe
 * must not stop renewals or the guardian. (A pipe that poll(2) reports as writable accepts PIPE_BUF
 * bytes, which is more than the longest line.) */
#include "run/event_log.h"

#include "core/base/parse_values.h"
#include "os/journal.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048u

struct line {
    char text[LINE_MAX_BYTES];
    size_t used;
};

static const char *const level_names[] = {"info", "warning", "error"};
static const enum bw_priority priorities[] = {BW_PRIORITY_INFO, BW_PRIORITY_WARNING,
                                              BW_PRIORITY_ERROR};

const char *bw_log_word(unsigned i)
{
    static const char *const words[] = {"auto", "human", "json", "quiet"};
    return i < sizeof words / sizeof words[0] ? words[i] : NULL;
}

void bw_log_init(struct bw_log *log, enum bw_log_form form, int fd, const char *election,
                 const char *id)
{
    enum bw_log_level least = form == BW_LOG_QUIET ? BW_LOG_ERROR : BW_LOG_INFO;
    if (form == BW_LOG_AUTO || form == BW_LOG_QUIET)
        form = isatty(fd) ? BW_LOG_HUMAN : BW_LOG_JSON;
    *log = (struct bw_log){.form = form,
                           .least = least,
                           .fd = fd,
                           .journal = bw_journal_reads(fd),
                           .election = election,
                           .id = id};
}

const char *bw_log_span(char *out, bw_time span)
{
    bool precise = span >= BW_MS && span < 60 * BW_SEC;
    return precise ? bw_span_exact(out, (span + BW_MS / 2) / BW_MS * BW_MS)
                   : bw_span_round(out, span);
}

/* Appends text, cut so that the end of the line still fits. */
static void put(struct line *line, const char *text)
{
    size_t length = strlen(text), space = sizeof line->text - 8 - line->used;
    length = length < space ? length : space;
    memcpy(line->text + line->used, text, length);
    line->used += length;
}

static void put_json(struct line *line, const char *text)
{
    char part[8];
    put(line, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            snprintf(part, sizeof part, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            snprintf(part, sizeof part, "\\u%04x", *at);
        else
            snprintf(part, sizeof part, "%c", *at);
        if (line->used + 16 < sizeof line->text)
            put(line, part);
    }
    put(line, "\"");
}

/* False if the line is full. A field that does not fit is left out, so that the JSON is valid. */
static bool has_room(const struct line *line, const char *key)
{
    return line->used + strlen(key) + 48 < sizeof line->text;
}

static void put_pair(struct line *line, const char *key, const char *text)
{
    if (!has_room(line, key))
        return;
    put(line, ",\"");
    put(line, key);
    put(line, "\":");
    put_json(line, text);
}

static void put_number(struct line *line, const char *key, uint64_t number)
{
    char text[64];
    if (!has_room(line, key))
        return;
    snprintf(text, sizeof text, ",\"%s\":%llu", key, (unsigned long long)number);
    put(line, text);
}

const char *bw_log_time(char out[BW_LOG_TIME_MAX])
{
    struct timespec now;
    struct tm parts;
    char day[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out, BW_LOG_TIME_MAX, "%s.%06ldZ", day, now.tv_nsec / 1000);
    return out;
}

static void put_local_time(struct line *line)
{
    struct timespec now;
    struct tm parts;
    char text[64], day[40];
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    strftime(day, sizeof day, "%H:%M:%S", &parts);
    snprintf(text, sizeof text, "%s.%03ld ", day, now.tv_nsec / 1000000);
    put(line, text);
}

static void put_human(struct line *line, const struct bw_log *log, enum bw_log_level level,
                      const char *sentence)
{
    put_local_time(line);
    put(line, log->election);
    put(line, "/");
    put(line, log->id);
    put(line, level == BW_LOG_INFO ? ": " : level == BW_LOG_WARNING ? ": warning: " : ": error: ");
    /* no control characters: they could start another line or an escape sequence */
    for (const char *at = sentence; *at; at++) {
        char byte[2] = {(unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at, '\0'};
        put(line, byte);
    }
}

static void put_machine(struct line *line, const struct bw_log *log, enum bw_log_level level,
                        const char *event, const struct bw_log_field *fields, const char *sentence)
{
    char time[BW_LOG_TIME_MAX];
    put(line, "{\"time\":\"");
    put(line, bw_log_time(time));
    put(line, "\"");
    put_pair(line, "level", level_names[level]);
    put_pair(line, "event", event);
    put_pair(line, "election", log->election);
    put_pair(line, "id", log->id);
    for (; fields && fields->key; fields++)
        if (fields->text)
            put_pair(line, fields->key, fields->text);
        else
            put_number(line, fields->key, fields->number);
    put_pair(line, "message", sentence);
    put(line, "}");
}

void bw_log_event(const struct bw_log *log, enum bw_log_level level, const char *event,
                  const struct bw_log_field *fields, const char *format, ...)
{
    struct line line;
    char sentence[1024];
    va_list arguments;
    if (level < log->least && !log->tap)
        return;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    line.used = 0;
    if (log->tap) {
        put_machine(&line, log, level, event, fields, sentence);
        log->tap(log->tap_context, line.text, line.used);
        line.used = 0;
    }
    if (level < log->least)
        return;
    put(&line, bw_journal_prefix(log->journal, priorities[level]));
    if (log->form == BW_LOG_JSON)
        put_machine(&line, log, level, event, fields, sentence);
    else
        put_human(&line, log, level, sentence);
    line.text[line.used++] = '\n';
    struct pollfd space = {.fd = log->fd, .events = POLLOUT};
    if (poll(&space, 1, 0) == 1 && !(space.revents & (POLLERR | POLLNVAL)))
        (void)!write(log->fd, line.text, line.used);
}
