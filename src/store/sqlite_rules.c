/* Who may take, renew and release, decided over one row.
 *
 * Model: rows change one at a time (SQLite's write lock); readers compare versions; clocks of two
 * boots or time namespaces are never compared. A row's token only grows, also across releases,
 * reboots and a database that was put back from a copy (the lock file's mark is a second memory).
 *
 * Guarantees: at most one leadership per token; a taker inherits every predecessor whose work
 * nobody confirmed dead. Not guaranteed: that the holder of a stolen row has noticed. It judges its
 * own deadline, and the token fences what it does late. */
#include "store/sqlite_rules.h"

#include "base/bug.h"

#include <stdio.h>
#include <string.h>

#define MORE_OWED "*\t\n" /* stands for the lines that found no room */

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

bool bw_sqlite_same_place(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self)
{
    if (BW_BUG(store_proves_across_boots))
        return strcmp(row->place.spaces, self->spaces) == 0;
    return self->boot[0] && self->spaces[0] && strcmp(row->place.boot, self->boot) == 0 &&
           strcmp(row->place.spaces, self->spaces) == 0;
}

static struct bw_sqlite_verdict done(enum bw_sqlite_change change)
{
    return (struct bw_sqlite_verdict){.outcome = BW_OUTCOME_DONE, .change = change};
}

static struct bw_sqlite_verdict refused(int error, const char *why)
{
    return (struct bw_sqlite_verdict){
        .outcome = BW_OUTCOME_REFUSED, .change = BW_SQLITE_SAME, .error = error, .why = why};
}

/* The last holder's line goes behind the others; the same line twice says nothing new. */
static void owe(struct bw_store_record *record)
{
    char line[BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 3];
    int length = snprintf(line, sizeof line, "%s\t%s\n", record->holder, record->containment);
    const char *found = strstr(record->owed, line);
    if (found && (found == record->owed || found[-1] == '\n'))
        return;
    size_t used = strlen(record->owed), added = (size_t)length;
    while (used + added > BW_OWED_MAX) { /* the oldest make room, and it is said */
        size_t more = strlen(MORE_OWED);
        bool told = strncmp(record->owed, MORE_OWED, more) == 0;
        char *oldest = record->owed + (told ? more : 0);
        char *end = strchr(oldest, '\n');
        const char *rest = end ? end + 1 : "";
        memmove(record->owed + more, rest, strlen(rest) + 1);
        memcpy(record->owed, MORE_OWED, more);
        used = strlen(record->owed);
    }
    memcpy(record->owed + used, line, added + 1);
}

static void let_go(struct bw_sqlite_row *row, bool clean)
{
    row->record.held = false;
    row->own_clean = clean;
    row->record.value[0] = '\0';
    if (clean)
        row->record.containment[0] = '\0';
}

bool bw_sqlite_fold(struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    bool other = mark->token != row->record.token && !BW_BUG(store_takes_old_marks);
    if (!row->record.held || !mark->released || other)
        return false;
    let_go(row, true);
    return true;
}

/* The next token; true if it needs a new promise to the disk. */
static bool next_token(struct bw_sqlite_row *row, const struct bw_sqlite_place *self, bw_token seen)
{
    bw_token last = row->record.token > seen ? row->record.token : seen;
    bool same_boot = self->boot[0] && strcmp(row->reserved_boot, self->boot) == 0;
    if (same_boot && last < row->reserved) {
        row->record.token = last + 1;
        return false;
    }
    bool behind = last > row->reserved || BW_BUG(store_forgets_promised_tokens);
    row->record.token = (behind ? last : row->reserved) + 1;
    row->reserved = row->record.token + BW_SQLITE_TOKENS_AHEAD - 1;
    copy_text(row->reserved_boot, sizeof row->reserved_boot, self->boot);
    return true;
}

struct bw_sqlite_verdict bw_sqlite_acquire(struct bw_sqlite_row *row,
                                           const struct bw_store_request *request,
                                           const struct bw_sqlite_place *self,
                                           const struct bw_sqlite_mark *mark, bw_time now)
{
    struct bw_store_record *record = &row->record;
    if (record->held && record->request == request->id &&
        strcmp(record->holder, request->candidate) == 0)
        return done(BW_SQLITE_SAME); /* asked twice: the first reply was lost */
    bool compared = request->steal == record->version || BW_BUG(store_steals_any_version);
    if (record->held && (request->steal == 0 || !compared))
        return refused(BW_EBUSY, "held by another");
    bool unclean = record->version != 0 && record->holder[0] && (record->held || !row->own_clean);
    if (unclean && BW_BUG(store_owes_only_the_last))
        record->owed[0] = '\0';
    if (unclean)
        owe(record);
    bool sync = next_token(row, self, mark->token);
    record->held = true;
    row->own_clean = false;
    copy_text(record->holder, sizeof record->holder, request->candidate);
    copy_text(record->value, sizeof record->value, request->value);
    copy_text(record->containment, sizeof record->containment, request->containment);
    record->request = request->id;
    record->ttl_ns = request->ttl_ns;
    row->place = *self;
    row->deadline = bw_time_add(now, request->ttl_ns);
    return done(sync ? BW_SQLITE_SYNC : BW_SQLITE_ALL);
}

struct bw_sqlite_verdict bw_sqlite_renew(struct bw_sqlite_row *row,
                                         const struct bw_store_request *request, bw_time now)
{
    struct bw_store_record *record = &row->record;
    if (record->token != request->token || strcmp(record->holder, request->candidate) != 0)
        return refused(BW_ESTALE, "another leadership has begun");
    if (!record->held)
        return refused(BW_ESTALE, "this leadership was released");
    enum bw_sqlite_change change = BW_SQLITE_LEASE;
    if (request->value && strcmp(request->value, record->value) != 0) {
        copy_text(record->value, sizeof record->value, request->value);
        change = BW_SQLITE_ALL;
    }
    if (request->containment && strcmp(request->containment, record->containment) != 0) {
        copy_text(record->containment, sizeof record->containment, request->containment);
        change = BW_SQLITE_ALL;
    }
    if (request->settled && record->owed[0]) {
        record->owed[0] = '\0';
        change = BW_SQLITE_ALL;
    }
    record->ttl_ns = request->ttl_ns;
    row->deadline = bw_time_add(now, request->ttl_ns);
    return done(change);
}

struct bw_sqlite_verdict bw_sqlite_release(struct bw_sqlite_row *row,
                                           const struct bw_store_request *request)
{
    struct bw_store_record *record = &row->record;
    if (record->version == 0 || record->token != request->token ||
        strcmp(record->holder, request->candidate) != 0)
        return refused(BW_ESTALE, "another leadership has begun");
    if (!record->held)
        return done(BW_SQLITE_SAME); /* released before: by a lost request or by its guardian */
    let_go(row, request->clean);
    return done(BW_SQLITE_ALL);
}

struct bw_sqlite_verdict bw_sqlite_note(struct bw_sqlite_row *row,
                                        const struct bw_store_request *request)
{
    struct bw_note *note = &row->record.note;
    note->kind = request->note.kind;
    note->serial++;
    copy_text(note->from, sizeof note->from, request->note.from);
    copy_text(note->to, sizeof note->to, request->note.to);
    return done(BW_SQLITE_ALL);
}

void bw_sqlite_present(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self,
                       bool lock_free, bw_time now, struct bw_store_record *out)
{
    *out = row->record;
    bool here = bw_sqlite_same_place(row, self);
    bool never = row->record.version == 0 || !row->record.holder[0];
    out->clean = !out->held && (row->own_clean || never) && !out->owed[0];
    out->proved_dead = out->held && here && lock_free;
    out->left_ns = 0;
    if (out->held)
        out->left_ns = !here ? BW_TIME_NEVER : row->deadline > now ? row->deadline - now : 0;
}
