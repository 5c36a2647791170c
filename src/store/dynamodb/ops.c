/* The steps of each request, one call after the other; every change of the lock compares the
 * version that was read.
 *
 * ACQUIRE writes the lock without a token, counts the token up in the counter's item, and writes it
 * into the lock if it is still the one it made: so tokens grow in the order of the locks, though no
 * transaction binds the two items. Only the lock with its token makes a holder; one that got none
 * is given back, or is stolen after a TTL like any that stands still. A change that was sent twice
 * finds the version it gave and takes it for done. */
#include "store/dynamodb/state.h"

#include "store/kit/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TRIES_MAX 8u
#define POLL_MS   1000u

static void take_seen(struct dynamodb_work *work);

static const struct bw_store_request *asked(const struct dynamodb_work *work)
{
    return &work->job->request;
}

static const char *table_of(const struct dynamodb_work *work)
{
    return bw_dynamodb_store(work)->settings.table;
}

static void new_version(struct dynamodb_work *work)
{
    unsigned char b[16] = {0};
    if (getrandom(b, sizeof b, 0) != sizeof b) { /* never without entropy for so little */
        uint64_t now = uv_hrtime();
        memcpy(b, &now, sizeof now);
    }
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(work->rvn, sizeof work->rvn,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}

/* Does the lock carry the version that our own write gave it? */
static bool is_written(const struct dynamodb_work *work)
{
    return work->seen.lock && strcmp(work->seen.rvn, work->rvn) == 0;
}

static void parse_read(struct dynamodb_work *work, const struct bw_http_answer *answer)
{
    enum bw_outcome outcome = work->written ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    int error = bw_dynamodb_parse(&work->seen, table_of(work), asked(work)->election, answer->body,
                                  answer->length);
    if (error == BW_EDAMAGED)
        bw_dynamodb_say(work, outcome, error,
                        "item '%.100s' of table %.60s cannot be understood: it is not an "
                        "election's; name another table or election, or remove the item",
                        work->seen.odd, table_of(work));
    else if (error)
        bw_dynamodb_say(work, outcome, error, "the answer of DynamoDB cannot be understood");
    else
        work->then(work);
}

static void on_read(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    work->call = NULL;
    if (bw_dynamodb_end(answer) != DYNAMODB_GOOD)
        bw_dynamodb_fail(work, answer, false);
    else
        parse_read(work, answer);
}

static void read_items(struct dynamodb_work *work, void (*then)(struct dynamodb_work *work))
{
    work->then = then;
    bw_dynamodb_ask(work, "BatchGetItem", bw_dynamodb_get(table_of(work), asked(work)->election),
                    on_read);
}

/* The lock that nobody counts on, if it is still as we made it. */
static void give_back(struct dynamodb_work *work)
{
    struct bw_store *store = bw_dynamodb_store(work);
    struct dynamodb_seen made = {.lock = true};
    struct bw_store_record kept = work->seen.kept;
    if (!work->locked || store->closed)
        return;
    memcpy(made.rvn, work->rvn, sizeof made.rvn);
    bw_record_release(&kept, true); /* no work of it ever began */
    bw_dynamodb_tell(store, "UpdateItem",
                     bw_dynamodb_change_lock(table_of(work), asked(work)->election, &made, &kept,
                                             work->rvn, store->session));
}

void bw_dynamodb_free(struct dynamodb_work *work)
{
    if (work->call)
        bw_http_cancel(bw_dynamodb_store(work)->http, work->call);
    give_back(work);
    free(work);
}

/* ---- ACQUIRE ---- */

static void refuse_holder(struct dynamodb_work *work)
{
    char why[BW_WHY_MAX + 1];
    snprintf(why, sizeof why, "%s holds it",
             work->seen.shown.holder[0] ? work->seen.shown.holder : "somebody");
    bw_dynamodb_refuse(work, BW_EBUSY, why);
}

static void become_holder(struct dynamodb_work *work)
{
    memcpy(work->seen.rvn, work->rvn, sizeof work->seen.rvn);
    work->seen.lock = work->seen.lasting = true;
    work->seen.released = work->seen.foreign = work->seen.pending = false;
    bw_dynamodb_done(work);
}

/* Whether or not it came through: it only serves who follows a lock client. */
static void on_lasting(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    (void)answer;
    work->call = NULL;
    become_holder(work);
}

static void keep_lasting(struct dynamodb_work *work,
                         void (*answer)(void *context, const struct bw_http_answer *answer))
{
    bw_dynamodb_ask(
        work, "UpdateItem",
        bw_dynamodb_put_lasting(table_of(work), asked(work)->election, &work->seen.kept), answer);
}

static void token_seen(struct dynamodb_work *work)
{
    if (is_written(work) && work->seen.kept.token && !work->seen.pending)
        bw_dynamodb_done(work); /* sent twice */
    else
        refuse_holder(work);
}

static void on_token_written(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    enum dynamodb_end end = bw_dynamodb_end(answer);
    work->call = NULL;
    if (end == DYNAMODB_GOOD) {
        keep_lasting(work, on_lasting);
        return;
    }
    work->locked = !answer->status && !answer->sent; /* surely ours, surely not written */
    if (end == DYNAMODB_CONDITION)
        read_items(work, token_seen);
    else
        bw_dynamodb_fail(work, answer, true);
}

static void on_counted(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    struct bw_store *store = bw_dynamodb_store(work);
    struct dynamodb_seen made = {.lock = true};
    work->call = NULL;
    if (bw_dynamodb_end(answer) != DYNAMODB_GOOD) {
        bw_dynamodb_fail(work, answer, true);
        return;
    }
    work->seen.kept.token = bw_dynamodb_number(answer->body, answer->length, "token");
    if (work->seen.kept.token == 0) {
        bw_dynamodb_say(work, BW_OUTCOME_UNKNOWN, BW_EMALFORMED, "the counter is no number");
        return;
    }
    memcpy(made.rvn, work->rvn, sizeof made.rvn);
    if (bw_dynamodb_ask(work, "UpdateItem",
                        bw_dynamodb_change_lock(table_of(work), asked(work)->election, &made,
                                                &work->seen.kept, work->rvn, store->session),
                        on_token_written))
        work->locked = false; /* from here on somebody may count on it */
}

static void count(struct dynamodb_work *work)
{
    bw_dynamodb_ask(work, "UpdateItem", bw_dynamodb_count(table_of(work), asked(work)->election),
                    on_counted);
}

static void lock_seen(struct dynamodb_work *work)
{
    bool ours = is_written(work);
    work->locked = ours;
    if (ours) /* sent twice */
        count(work);
    else
        take_seen(work);
}

static void on_locked(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    enum dynamodb_end end = bw_dynamodb_end(answer);
    work->call = NULL;
    if (end == DYNAMODB_GOOD)
        count(work);
    else if (end == DYNAMODB_CONDITION && ++work->tries < TRIES_MAX)
        read_items(work, lock_seen);
    else
        bw_dynamodb_fail(work, answer, true);
}

static void lock(struct dynamodb_work *work)
{
    struct bw_store_record kept = work->seen.kept;
    bw_record_take(&kept, asked(work));
    kept.token = 0;
    new_version(work);
    char *body = bw_dynamodb_put_lock(table_of(work), asked(work)->election, &work->seen, &kept,
                                      work->rvn, bw_dynamodb_store(work)->session);
    work->seen.kept = kept;
    work->locked = true;
    bw_dynamodb_set_time(work, asked(work)->ttl_ns);
    bw_dynamodb_ask(work, "PutItem", body, on_locked);
}

static void take_seen(struct dynamodb_work *work)
{
    const struct bw_store_record *shown = &work->seen.shown;
    work->locked = false;
    if (shown->held && bw_record_is_answer(shown, asked(work)))
        bw_dynamodb_done(work); /* asked twice */
    else if (!bw_record_may_take(shown, asked(work)))
        refuse_holder(work);
    else
        lock(work);
}

/* ---- RENEW and RELEASE ---- */

static void keep_seen(struct dynamodb_work *work);

static void not_ours(struct dynamodb_work *work)
{
    bw_dynamodb_refuse(work, BW_ENOTLEADER, "the leadership is over or another's");
}

static void change_seen(struct dynamodb_work *work)
{
    if (is_written(work)) /* sent twice */
        bw_dynamodb_done(work);
    else if (++work->tries < TRIES_MAX) /* another renewal of ours was quicker, or it is lost */
        keep_seen(work);
    else
        not_ours(work);
}

static void on_changed(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    enum dynamodb_end end = bw_dynamodb_end(answer);
    work->call = NULL;
    if (end == DYNAMODB_GOOD) {
        memcpy(work->seen.rvn, work->rvn, sizeof work->seen.rvn);
        work->seen.released = !work->seen.kept.held;
        bw_dynamodb_done(work);
    } else if (end == DYNAMODB_CONDITION) {
        read_items(work, change_seen);
    } else {
        bw_dynamodb_fail(work, answer, true);
    }
}

static void change(struct dynamodb_work *work)
{
    new_version(work);
    bw_dynamodb_ask(work, "UpdateItem",
                    bw_dynamodb_change_lock(table_of(work), asked(work)->election, &work->seen,
                                            &work->seen.kept, work->rvn,
                                            bw_dynamodb_store(work)->session),
                    on_changed);
}

static void on_lasting_changed(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    work->call = NULL;
    if (bw_dynamodb_end(answer) == DYNAMODB_BAD)
        bw_dynamodb_fail(work, answer, true);
    else /* a newer token was counted: the lock itself will tell */
        change(work);
}

static void keep_seen(struct dynamodb_work *work)
{
    const struct bw_store_request *request = asked(work);
    struct dynamodb_seen *seen = &work->seen;
    bool ours = seen->kept.held && !seen->foreign && !seen->pending &&
                strcmp(seen->session, bw_dynamodb_store(work)->session) == 0 &&
                bw_record_is(&seen->kept, request);
    bool changed = true;
    if (!ours) {
        not_ours(work);
        return;
    }
    if (request->op == BW_STORE_RELEASE)
        bw_record_release(&seen->kept, request->clean);
    else
        changed = bw_record_renew(&seen->kept, request);
    if (changed)
        keep_lasting(work, on_lasting_changed);
    else
        change(work);
}

/* ---- NOTE and looking ---- */

static void on_noted(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    work->call = NULL;
    if (bw_dynamodb_end(answer) != DYNAMODB_GOOD) {
        bw_dynamodb_fail(work, answer, true);
        return;
    }
    bw_record_note_apart(&work->seen.kept, &asked(work)->note);
    work->seen.kept.note.serial = bw_dynamodb_number(answer->body, answer->length, "serial");
    work->seen.noted = true;
    bw_dynamodb_done(work);
}

static void note_seen(struct dynamodb_work *work)
{
    struct bw_store_record noted = work->seen.kept;
    bw_record_note_apart(&noted, &asked(work)->note);
    bw_dynamodb_ask(work, "UpdateItem",
                    bw_dynamodb_put_note(table_of(work), asked(work)->election, &noted.note),
                    on_noted);
}

static void watch_seen(struct dynamodb_work *work)
{
    if (work->seen.shown.version != asked(work)->version) {
        bw_dynamodb_done(work);
        return;
    }
    struct bw_store *store = bw_dynamodb_store(work);
    uint64_t jitter = bw_rng_below(&store->rng, POLL_MS / 2);
    work->poll_at_ms = uv_now(store->poll.loop) + POLL_MS / 2 + jitter;
}

void bw_dynamodb_look(struct dynamodb_work *work)
{
    work->poll_at_ms = 0;
    work->begun = false; /* a poll is not urgent */
    read_items(work, watch_seen);
}

void bw_dynamodb_start(struct dynamodb_work *work)
{
    switch (asked(work)->op) {
    case BW_STORE_ACQUIRE:
        read_items(work, take_seen);
        break;
    case BW_STORE_RENEW:
    case BW_STORE_RELEASE:
        read_items(work, keep_seen);
        break;
    case BW_STORE_NOTE:
        read_items(work, note_seen);
        break;
    case BW_STORE_WATCH:
        bw_dynamodb_look(work);
        break;
    case BW_STORE_LIST:
        bw_dynamodb_list(work);
        break;
    case BW_STORE_READ:
    case BW_STORE_ENTER:
    case BW_STORE_LEAVE:
        read_items(work, bw_dynamodb_done);
        break;
    }
}
