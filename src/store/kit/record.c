/* Changes of one record; see record.h. */
#include "store/kit/record.h"

#include "core/base/bug.h"

#include <stdio.h>
#include <string.h>

#define MORE_UNCONFIRMED "*\t\n" /* replaces the lines that did not fit */

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

/* Appends a line with the last holder and its containment to `unconfirmed`, unless the line is
 * already there. */
static void add_owed(struct bw_store_record *record)
{
    char line[BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 3];
    int length = snprintf(line, sizeof line, "%s\t%s\n", record->holder, record->containment);
    const char *found = strstr(record->unconfirmed, line);
    if (found && (found == record->unconfirmed || found[-1] == '\n'))
        return;
    size_t used = strlen(record->unconfirmed), added = (size_t)length;
    while (used + added > BW_UNCONFIRMED_MAX) { /* drop the oldest lines and mark that */
        size_t more = strlen(MORE_UNCONFIRMED);
        bool marked = strncmp(record->unconfirmed, MORE_UNCONFIRMED, more) == 0;
        char *oldest = record->unconfirmed + (marked ? more : 0);
        char *end = strchr(oldest, '\n');
        const char *rest = end ? end + 1 : "";
        memmove(record->unconfirmed + more, rest, strlen(rest) + 1);
        memcpy(record->unconfirmed, MORE_UNCONFIRMED, more);
        used = strlen(record->unconfirmed);
    }
    memcpy(record->unconfirmed + used, line, added + 1);
}

void bw_record_acquire(struct bw_store_record *record, const struct bw_store_request *request)
{
    bool unclean = record->version != 0 && record->holder[0] && (record->held || !record->clean);
    if (unclean && BW_BUG(store_keeps_only_the_last_unconfirmed))
        record->unconfirmed[0] = '\0';
    if (unclean)
        add_owed(record);
    record->held = true;
    record->clean = false;
    copy_text(record->holder, sizeof record->holder, request->candidate);
    copy_text(record->value, sizeof record->value, request->value);
    copy_text(record->containment, sizeof record->containment, request->containment);
    record->death_hash[0] = '\0'; /* the earlier holder's */
    record->request = request->id;
    record->ttl_ns = request->ttl_ns;
    record->until_wall_ns = request->until_wall_ns;
    /* the note was meant for the previous leadership; its serial continues */
    record->note.kind = BW_NOTE_NONE;
}

static bool change_text(char *out, size_t size, const char *text)
{
    if (!text || strcmp(text, out) == 0)
        return false;
    copy_text(out, size, text);
    return true;
}

bool bw_record_renew(struct bw_store_record *record, const struct bw_store_request *request)
{
    bool value = change_text(record->value, sizeof record->value, request->value);
    bool containment =
        change_text(record->containment, sizeof record->containment, request->containment);
    bool settled = request->settled && record->unconfirmed[0];
    if (settled)
        record->unconfirmed[0] = '\0';
    record->ttl_ns = request->ttl_ns;
    record->until_wall_ns = bw_time_max(record->until_wall_ns, request->until_wall_ns);
    return value || containment || settled;
}

void bw_record_vacate(struct bw_store_record *record, bool clean)
{
    record->held = false;
    record->clean = clean;
    record->value[0] = '\0';
    if (clean)
        record->containment[0] = '\0';
}

void bw_record_release(struct bw_store_record *record, const struct bw_store_request *request)
{
    if (request->settled && !BW_BUG(store_settles_only_when_renewed))
        record->unconfirmed[0] = '\0';
    bw_record_vacate(record, request->clean);
}

void bw_record_put_note(struct bw_store_record *record, const struct bw_note *note)
{
    record->note.kind = note->kind;
    record->note.serial++;
    copy_text(record->note.from, sizeof record->note.from, note->from);
    copy_text(record->note.to, sizeof record->note.to, note->to);
}

void bw_record_put_separate_note(struct bw_store_record *record, const struct bw_note *note)
{
    bw_record_put_note(record, note);
    record->note.token = record->token;
}

void bw_record_present(struct bw_store_record *record)
{
    bool never = record->version == 0 || !record->holder[0];
    record->clean = !record->held && (record->clean || never) && !record->unconfirmed[0];
    if (record->note.token != BW_TOKEN_NONE && record->note.token != record->token)
        record->note.kind = BW_NOTE_NONE;
}

bool bw_record_may_acquire(const struct bw_store_record *record,
                           const struct bw_store_request *request)
{
    bool same = request->steal_request == 0 || request->steal_request == record->request ||
                BW_BUG(store_steals_by_version_alone);
    return !record->held || (request->steal != 0 && request->steal == record->version && same);
}

bool bw_record_is_leadership(const struct bw_store_record *record,
                             const struct bw_store_request *request)
{
    return record->version != 0 && record->token == request->token &&
           strcmp(record->holder, request->candidate) == 0;
}

bool bw_record_is_result_of(const struct bw_store_record *record,
                            const struct bw_store_request *request)
{
    return record->held && record->request == request->id &&
           strcmp(record->holder, request->candidate) == 0;
}
