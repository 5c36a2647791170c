/* One line per event on standard error: for people on a terminal, JSON elsewhere. One write each,
 * no heap, so that the guardian can use it, too. */
#ifndef BW_RUN_LOG_H
#define BW_RUN_LOG_H

#include "core/base/types.h"

enum bw_log_form { BW_LOG_AUTO, BW_LOG_HUMAN, BW_LOG_JSON, BW_LOG_QUIET };
enum bw_log_level { BW_LOG_INFO, BW_LOG_WARNING, BW_LOG_ERROR };

struct bw_log {
    enum bw_log_form form;   /* HUMAN or JSON */
    enum bw_log_level least; /* what is below it is not said */
    int fd;
    const char *election, *id;
};

/* Decides AUTO by whether `fd` is a terminal; QUIET is that, and errors only. */
void bw_log_init(struct bw_log *log, enum bw_log_form form, int fd, const char *election,
                 const char *id);

/* A field of the JSON line; people read the sentence. */
struct bw_log_field {
    const char *key;  /* NULL: the last */
    const char *text; /* NULL: the number counts */
    uint64_t number;
};

#define BW_LOG_END                                                                                 \
    {                                                                                              \
        NULL, NULL, 0                                                                              \
    }

/* event: one word ("elected"); the sentence is printf-like. fields may be NULL. */
__attribute__((format(printf, 5, 6))) void bw_log_event(const struct bw_log *log,
                                                        enum bw_log_level level, const char *event,
                                                        const struct bw_log_field *fields,
                                                        const char *format, ...);

const char *bw_log_word(unsigned i); /* "auto", "human", "json", "quiet", NULL */

/* "1.5s", "250ms"; returns out[24]. */
const char *bw_log_span(char *out, bw_time span);

#endif
