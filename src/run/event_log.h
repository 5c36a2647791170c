/* Writes one line per event to standard error: text on a terminal, JSON elsewhere. Each line is one
 * write and needs no heap, so the guardian can use it, too. */
#ifndef BW_RUN_EVENT_LOG_H
#define BW_RUN_EVENT_LOG_H

#include "core/base/types.h"

enum bw_log_form { BW_LOG_AUTO, BW_LOG_HUMAN, BW_LOG_JSON, BW_LOG_QUIET };
enum bw_log_level { BW_LOG_INFO, BW_LOG_WARNING, BW_LOG_ERROR };

struct bw_log {
    enum bw_log_form form;   /* HUMAN or JSON */
    enum bw_log_level least; /* events below this level are not written */
    int fd;
    bool journal; /* `fd` is a stream to journald: lines begin with their priority */
    const char *election, *id;
    /* Receives the JSON of every event, at every level, without a newline. NULL: none. */
    void (*tap)(void *context, const char *json, size_t length);
    void *tap_context;
};

/* AUTO: text if `fd` is a terminal, otherwise JSON. QUIET: the same, but errors only. */
void bw_log_init(struct bw_log *log, enum bw_log_form form, int fd, const char *election,
                 const char *id);

/* A field of the JSON line. The text form shows only the sentence. */
struct bw_log_field {
    const char *key;  /* NULL: end of the list */
    const char *text; /* NULL: use `number` */
    uint64_t number;
};

#define BW_LOG_END                                                                                 \
    {                                                                                              \
        NULL, NULL, 0                                                                              \
    }

/* `event` is one word ("elected"). The sentence is printf-like. `fields` may be NULL. */
__attribute__((format(printf, 5, 6))) void bw_log_event(const struct bw_log *log,
                                                        enum bw_log_level level, const char *event,
                                                        const struct bw_log_field *fields,
                                                        const char *format, ...);

/* The wall-clock time in UTC, "2026-11-16T03:58:54.542754Z". Returns `out`. */
#define BW_LOG_TIME_MAX 64u
const char *bw_log_time(char out[BW_LOG_TIME_MAX]);

const char *bw_log_word(unsigned i); /* "auto", "human", "json", "quiet", NULL */

/* Formats a span as "1.5s" or "250ms" into out[24] and returns `out`. */
const char *bw_log_span(char *out, bw_time span);

#endif
