/* Writes the leaderships that this candidate sees to the local history (run/history/history_log.h).
 */
#include "run/supervisor/state.h"

#include "run/history/history_log.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_LINES_NS BW_SEC /* a disk that does not answer may delay the exit by this long */

void bw_supervisor_history_open(struct supervisor *s)
{
    char directory[PATH_MAX];
    const char *given = s->config->history_dir;
    if (!given)
        given = bw_history_default_dir(directory);
    if (given[0] && strcmp(given, "none") != 0)
        s->history_log = bw_history_log_new(given);
}

static json_t *text(const char *value)
{
    json_t *string = json_string(value);
    return string ? string : json_null(); /* not UTF-8 */
}

/* `leadership` NULL: the first record has no leader. */
static void append(struct supervisor *s, const char *event, const struct bw_leadership *leadership,
                   const char *reason)
{
    char time[BW_LOG_TIME_MAX], request[24] = "", store[BW_HISTORY_STORE] = "peer:";
    if (leadership)
        snprintf(request, sizeof request, "%" PRIx64, leadership->request);
    if (!s->config->promise) /* peers have no store */
        bw_history_store(store, s->config->store_shown);
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:o, s:I, s:s, s:o, s:o, s:o}", "time", bw_log_time(time),
                  "event", event, "election", text(s->config->election), "leader",
                  leadership ? text(leadership->holder) : json_null(), "token",
                  (json_int_t)(leadership ? leadership->token : 0), "request", request, "store",
                  text(store), "reason", text(reason), "seen_by", text(s->config->id));
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (line)
        bw_history_log_append(s->history_log, line);
    free(line);
}

void bw_supervisor_history_changed(struct supervisor *s, const struct bw_history *history,
                                   unsigned changes)
{
    bool began = changes & BW_HISTORY_BEGAN;
    if (!s->history_log)
        return;
    if (changes & BW_HISTORY_VACANT)
        append(s, "found", NULL, "no leader");
    if (history->count == 0)
        return;
    const struct bw_leadership *last = &history->at[history->count - 1];
    if (changes & BW_HISTORY_ENDED)
        append(s, "lost", began ? last - 1 : last, began ? last[-1].why : last->why);
    if (began)
        append(s, last->is_first ? "found" : "elected", last, "");
}

void bw_supervisor_history_close(struct supervisor *s)
{
    bw_history_log_free(s->history_log, LAST_LINES_NS);
    s->history_log = NULL;
}
