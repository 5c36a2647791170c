/* Carries out each request as a sequence of calls. Every change of the lock item is conditional on
 * the version that was read.
 *
 * ACQUIRE writes the lock without a token, increments the counter, and writes the new token into
 * the lock if it is still the one it wrote. So tokens grow in the order of the locks, although no
 * transaction covers both items. A candidate is the holder only when the lock contains its token. A
 * candidate that fails before releases the lock; otherwise another candidate takes it after a TTL.
 *
 * If a change was sent twice, the second attempt finds its own version and counts as done. */
#include "store/dynamodb/state.h"

#include "store/kit/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TRIES_MAX 8u
#define POLL_MS   1000u

static void take_seen(struct dynamodb_work *work);

static const struct bw_store_request *request_of(const struct dynamodb_work *work)
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
    if (getrandom(b, sizeof b, 0) != sizeof b) { /* cannot fail for 16 bytes */
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

/* True if the lock has the version that our own write gave it. */
static bool is_written(const struct dynamodb_work *work)
{
    return work->seen.lock && strcmp(work->seen.rvn, work->rvn) == 0;
}

static void parse_read(struct dynamodb_work *work, const struct bw_http_answer *answer)
{
    enum bw_outcome outcome = work->written ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    int error = bw_dynamodb_parse(&work->seen, table_of(work), request_of(work)->election,
                                  answer->body, answer->length);
    if (error == BW_EDAMAGED)
        bw_dynamodb_fail_with(work, outcome, error,
                              "item '%.100s' of table %.60s is not an "
                              "election's; choose another table or election, or remove the item",
                              work->seen.unexpected_key, table_of(work));
    else if (error)
        bw_dynamodb_fail_with(work, outcome, error, "unexpected reply from DynamoDB");
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
    bw_dynamodb_ask(work, "BatchGetItem",
                    bw_dynamodb_get(table_of(work), request_of(work)->election), on_read);
}

/* Releases a lock without token, if it is still as we wrote it. */
static void release_unused(struct dynamodb_work *work)
{
    struct bw_store *store = bw_dynamodb_store(work);
    struct dynamodb_seen made = {.lock = true};
    struct bw_store_record kept = work->seen.kept;
    if (!work->locked || store->closed)
        return;
    memcpy(made.rvn, work->rvn, sizeof made.rvn);
    bw_record_vacate(&kept, true); /* no work has started */
    bw_dynamodb_send(store, "UpdateItem",
                     bw_dynamodb_change_lock(table_of(work), request_of(work)->election, &made,
                                             &kept, work->rvn, store->session));
}

void bw_dynamodb_free(struct dynamodb_work *work)
{
    if (work->call)
        bw_http_cancel(bw_dynamodb_store(work)->http, work->call);
    release_unused(work);
    bw_names_free(&work->names);
    free(work);
}

/* ---- ACQUIRE ---- */

static void refuse_holder(struct dynamodb_work *work)
{
    char why[BW_WHY_MAX + 1];
    snprintf(why, sizeof why, "held by %s",
             work->seen.shown.holder[0] ? work->seen.shown.holder : "another client");
    bw_dynamodb_refuse(work, BW_EBUSY, why);
}

static void become_holder(struct dynamodb_work *work)
{
    memcpy(work->seen.rvn, work->rvn, sizeof work->seen.rvn);
    work->seen.lock = work->seen.lasting = true;
    work->seen.released = work->seen.foreign = work->seen.pending = false;
    bw_dynamodb_done(work);
}

/* The result does not matter: the lasting record is only for candidates that follow a lock client.
 */
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
        bw_dynamodb_put_lasting(table_of(work), request_of(work)->election, &work->seen.kept),
        answer);
}

static void token_seen(struct dynamodb_work *work)
{
    if (is_written(work) && work->seen.kept.token && !work->seen.pending)
        bw_dynamodb_done(work); /* the request was sent twice */
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
    /* the lock is certainly ours, and the token certainly not written */
    work->locked = !answer->status && !answer->sent;
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
        bw_dynamodb_fail_with(work, BW_OUTCOME_UNKNOWN, BW_EMALFORMED,
                              "attribute 'token' of the counter's item is not a number");
        return;
    }
    memcpy(made.rvn, work->rvn, sizeof made.rvn);
    if (bw_dynamodb_ask(work, "UpdateItem",
                        bw_dynamodb_change_lock(table_of(work), request_of(work)->election, &made,
                                                &work->seen.kept, work->rvn, store->session),
                        on_token_written))
        work->locked = false; /* from here on the token may be written */
}

static void count(struct dynamodb_work *work)
{
    bw_dynamodb_ask(work, "UpdateItem",
                    bw_dynamodb_count(table_of(work), request_of(work)->election), on_counted);
}

static void lock_seen(struct dynamodb_work *work)
{
    bool ours = is_written(work);
    work->locked = ours;
    if (ours) /* the request was sent twice */
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
    bw_record_acquire(&kept, request_of(work));
    kept.token = 0;
    new_version(work);
    char *body = bw_dynamodb_put_lock(table_of(work), request_of(work)->election, &work->seen,
                                      &kept, work->rvn, bw_dynamodb_store(work)->session);
    work->seen.kept = kept;
    work->locked = true;
    bw_dynamodb_set_time(work, request_of(work)->ttl_ns);
    bw_dynamodb_ask(work, "PutItem", body, on_locked);
}

static void take_seen(struct dynamodb_work *work)
{
    const struct bw_store_record *shown = &work->seen.shown;
    work->locked = false;
    if (shown->held && bw_record_is_result_of(shown, request_of(work)))
        bw_dynamodb_done(work); /* the same request was sent twice */
    else if (!bw_record_may_acquire(shown, request_of(work)))
        refuse_holder(work);
    else
        lock(work);
}

/* ---- RENEW and RELEASE ---- */

static void keep_seen(struct dynamodb_work *work);

static void not_ours(struct dynamodb_work *work)
{
    bw_dynamodb_refuse(work, BW_ENOTLEADER, "this candidate does not hold the leadership");
}

static void change_seen(struct dynamodb_work *work)
{
    if (is_written(work)) /* the request was sent twice */
        bw_dynamodb_done(work);
    /* another renewal of ours was faster, or the lock is lost */
    else if (++work->tries < TRIES_MAX)
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
                    bw_dynamodb_change_lock(table_of(work), request_of(work)->election, &work->seen,
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
    else /* the lasting record has a newer token; the lock decides */
        change(work);
}

static void keep_seen(struct dynamodb_work *work)
{
    const struct bw_store_request *request = request_of(work);
    struct dynamodb_seen *seen = &work->seen;
    bool ours = seen->kept.held && !seen->foreign && !seen->pending &&
                strcmp(seen->session, bw_dynamodb_store(work)->session) == 0 &&
                bw_record_is_leadership(&seen->kept, request);
    bool changed = true;
    if (!ours) {
        not_ours(work);
        return;
    }
    if (request->op == BW_STORE_RELEASE)
        bw_record_release(&seen->kept, request);
    else
        changed = bw_record_renew(&seen->kept, request);
    if (changed)
        keep_lasting(work, on_lasting_changed);
    else
        change(work);
}

/* ---- NOTE, READ and WATCH ---- */

static void on_noted(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    work->call = NULL;
    if (bw_dynamodb_end(answer) != DYNAMODB_GOOD) {
        bw_dynamodb_fail(work, answer, true);
        return;
    }
    bw_record_put_separate_note(&work->seen.kept, &request_of(work)->note);
    work->seen.kept.note.serial = bw_dynamodb_number(answer->body, answer->length, "serial");
    work->seen.noted = true;
    bw_dynamodb_done(work);
}

static void note_seen(struct dynamodb_work *work)
{
    struct bw_store_record noted = work->seen.kept;
    bw_record_put_separate_note(&noted, &request_of(work)->note);
    bw_dynamodb_ask(work, "UpdateItem",
                    bw_dynamodb_put_note(table_of(work), request_of(work)->election, &noted.note),
                    on_noted);
}

static void watch_seen(struct dynamodb_work *work)
{
    if (work->seen.shown.version != request_of(work)->version) {
        bw_dynamodb_done(work);
        return;
    }
    struct bw_store *store = bw_dynamodb_store(work);
    uint64_t jitter = bw_rng_below(&store->rng, POLL_MS / 2);
    work->poll_at_ms = uv_now(store->poll.loop) + POLL_MS / 2 + jitter;
}

void bw_dynamodb_poll(struct dynamodb_work *work)
{
    work->poll_at_ms = 0;
    work->begun = false; /* a poll is not urgent */
    read_items(work, watch_seen);
}

void bw_dynamodb_start(struct dynamodb_work *work)
{
    switch (request_of(work)->op) {
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
        bw_dynamodb_poll(work);
        break;
    case BW_STORE_ELECTIONS:
        bw_dynamodb_elections(work);
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
