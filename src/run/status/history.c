/* See history.h. */
#include "run/status/history.h"

#include <stdio.h>
#include <string.h>

static struct bw_leadership *current(struct bw_history *history)
{
    struct bw_leadership *last = history->count ? &history->at[history->count - 1] : NULL;
    return last && last->to == BW_TIME_NEVER ? last : NULL;
}

static bool is_same(const struct bw_leadership *leadership, const struct bw_store_record *record)
{
    return strcmp(leadership->holder, record->holder) == 0 && leadership->token == record->token &&
           (record->token != BW_TOKEN_NONE || leadership->request == record->request);
}

/* Whether the record lists work of `holder` that is not confirmed dead: lines "ID TAB ...". */
static bool is_unconfirmed(const struct bw_store_record *record, const char *holder)
{
    size_t length = strlen(holder);
    for (const char *line = record->unconfirmed; *line;) {
        if (strncmp(line, holder, length) == 0 && line[length] == '\t')
            return true;
        const char *end = strchr(line, '\n');
        if (!end)
            return false;
        line = end + 1;
    }
    return false;
}

static void explain(struct bw_leadership *leadership, const struct bw_store_record *record)
{
    const struct bw_note *note = &record->note;
    size_t size = sizeof leadership->why;
    bool asked = note->token == leadership->token && note->token != BW_TOKEN_NONE;
    if (leadership->why[0])
        return; /* our own reason */
    if (record->held ? is_unconfirmed(record, leadership->holder) : !record->clean)
        snprintf(leadership->why, size, "not released: its lease expired, or its process died");
    else if (asked && note->kind == BW_NOTE_RESIGN)
        snprintf(leadership->why, size, "resigned, asked by %s", note->from);
    else if (asked && note->kind == BW_NOTE_TRANSFER)
        snprintf(leadership->why, size, "handed over to %s, asked by %s", note->to, note->from);
    else if (!record->held)
        snprintf(leadership->why, size, "released: its work is confirmed dead");
}

/* Peers show an announced leader, then a free record that only this leader can take, then the
 * leader again: one leadership. */
static bool resumes(struct bw_history *history, const struct bw_store_record *record)
{
    struct bw_leadership *last = history->count ? &history->at[history->count - 1] : NULL;
    if (!last || record->token == BW_TOKEN_NONE || !is_same(last, record))
        return false;
    last->to = BW_TIME_NEVER;
    last->request = record->request;
    last->is_given_up = false;
    last->why[0] = '\0';
    return true;
}

static void begin(struct bw_history *history, const struct bw_store_record *record, bw_time now)
{
    if (history->count == BW_HISTORY_MAX) {
        memmove(&history->at[0], &history->at[1], (BW_HISTORY_MAX - 1) * sizeof history->at[0]);
        history->count--;
        history->dropped++;
    }
    struct bw_leadership *next = &history->at[history->count++];
    *next = (struct bw_leadership){.token = record->token,
                                   .request = record->request,
                                   .from = now,
                                   .to = BW_TIME_NEVER,
                                   .is_first = !history->seen};
    snprintf(next->holder, sizeof next->holder, "%s", record->holder);
}

unsigned bw_history_record(struct bw_history *history, const struct bw_store_record *record,
                           bw_time now)
{
    unsigned changes = 0;
    struct bw_leadership *lasts = current(history);
    const struct bw_leadership *last = history->count ? &history->at[history->count - 1] : NULL;
    bool over = last && last->is_given_up && is_same(last, record) &&
                last->request == record->request; /* not acquired again */
    bool led = record->held && record->holder[0] && !over;
    if (lasts && (!led || !is_same(lasts, record))) {
        explain(lasts, record);
        lasts->to = now;
        lasts = NULL;
        changes |= BW_HISTORY_ENDED;
    }
    if (!lasts && led) {
        if (!resumes(history, record))
            begin(history, record, now);
        changes |= BW_HISTORY_BEGAN;
    }
    if (!led && !history->seen)
        changes |= BW_HISTORY_VACANT;
    history->seen = true;
    history->ttl_ns = led ? record->ttl_ns : 0;
    history->left_ns = led ? record->left_ns : 0;
    history->left_at = now;
    return changes;
}

void bw_history_step_down(struct bw_history *history, const char *self, const char *reason)
{
    struct bw_leadership *lasts = current(history);
    if (lasts && strcmp(lasts->holder, self) == 0)
        snprintf(lasts->why, sizeof lasts->why, "%s", reason);
}

unsigned bw_history_give_up(struct bw_history *history, const char *self, bw_time now)
{
    struct bw_leadership *lasts = current(history);
    if (!lasts || strcmp(lasts->holder, self) != 0)
        return 0;
    lasts->to = now;
    lasts->is_given_up = true;
    history->ttl_ns = history->left_ns = 0;
    return BW_HISTORY_ENDED;
}
