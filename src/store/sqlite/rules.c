/* Decides ACQUIRE, RENEW, RELEASE and NOTE over one row.
 *
 * Model: rows change one at a time (SQLite's write lock). Readers compare versions. Clocks of two
 * boots or two time namespaces are never compared. A row's token only grows, also across releases,
 * reboots and a database that was restored from a copy (the lock file's mark holds the token too).
 *
 * Guarantees: at most one leadership per token; a new holder inherits every predecessor whose work
 * is not confirmed dead.
 *
 * Not guaranteed: that the holder of a stolen row has noticed. It watches its own deadline, and the
 * token fences its late writes. */
#include "store/sqlite/rules.h"

#include "core/base/bug.h"
#include "store/kit/record.h"

#include <stdio.h>
#include <string.h>

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

bool bw_sqlite_fold(struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    bool other = mark->token != row->record.token && !BW_BUG(store_takes_old_marks);
    if (!row->record.held || !mark->released || other)
        return false;
    bw_record_vacate(&row->record, true);
    return true;
}

/* Sets the next token. Returns true if it exceeds the tokens reserved on disk, so that the commit
 * must be synced. */
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
    if (bw_record_is_result_of(record, request))
        return done(BW_SQLITE_SAME); /* repeated request: the first reply was lost */
    bool any = request->steal != 0 && BW_BUG(store_steals_any_version);
    if (!bw_record_may_acquire(record, request) && !any)
        return refused(BW_EBUSY, "held by another candidate");
    bool sync = next_token(row, self, mark->token);
    bw_record_acquire(record, request);
    row->place = *self;
    row->deadline = bw_time_add(now, request->ttl_ns);
    return done(sync ? BW_SQLITE_SYNC : BW_SQLITE_ALL);
}

struct bw_sqlite_verdict bw_sqlite_renew(struct bw_sqlite_row *row,
                                         const struct bw_store_request *request, bw_time now)
{
    struct bw_store_record *record = &row->record;
    if (!bw_record_is_leadership(record, request))
        return refused(BW_ESTALE, "another leadership has begun");
    if (!record->held)
        return refused(BW_ESTALE, "this leadership was released");
    bool changed = bw_record_renew(record, request);
    row->deadline = bw_time_add(now, request->ttl_ns);
    return done(changed ? BW_SQLITE_ALL : BW_SQLITE_LEASE);
}

struct bw_sqlite_verdict bw_sqlite_release(struct bw_sqlite_row *row,
                                           const struct bw_store_request *request)
{
    struct bw_store_record *record = &row->record;
    if (!bw_record_is_leadership(record, request))
        return refused(BW_ESTALE, "another leadership has begun");
    if (!record->held)
        /* already released, by a request whose reply was lost or by its guardian */
        return done(BW_SQLITE_SAME);
    bw_record_release(&row->record, request);
    return done(BW_SQLITE_ALL);
}

struct bw_sqlite_verdict bw_sqlite_note(struct bw_sqlite_row *row,
                                        const struct bw_store_request *request)
{
    bw_record_put_note(&row->record, &request->note);
    return done(BW_SQLITE_ALL);
}

bool bw_sqlite_lock_proves(const struct bw_sqlite_row *row)
{
    static const char subreaper[] = "subreaper:";
    return strncmp(row->record.containment, subreaper, sizeof subreaper - 1) != 0 ||
           BW_BUG(store_trusts_any_free_lock);
}

void bw_sqlite_present(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self,
                       bool lock_free, bw_time now, struct bw_store_record *out)
{
    *out = row->record;
    bool here = bw_sqlite_same_place(row, self);
    bw_record_present(out);
    out->proved_dead = out->held && here && lock_free && bw_sqlite_lock_proves(row);
    out->left_ns = 0;
    if (out->held)
        out->left_ns = !here ? BW_TIME_NEVER : row->deadline > now ? row->deadline - now : 0;
}
