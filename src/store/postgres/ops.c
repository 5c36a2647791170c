/* The statements that a request sends, and its answers.
 *
 * Model: a row changes only by statements that compare its version; the last committed statement
 * determines the row.
 *
 * Guarantees:
 *   - A candidate takes over from a holder only if the row still has the version that it watched
 *     for a whole TTL.
 *   - A request is refused only after the server was asked.
 *   - A request is answered DONE only after the commit. */
#include "store/postgres/state.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"
#include "store/postgres/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bw_pg_task_writes(const struct bw_pg_task *task)
{
    return task->step == BW_PG_WRITING || task->statement == BW_PG_ENTER ||
           task->statement == BW_PG_LEAVE;
}

/* ---- sending ---- */

static bool send_statement(struct bw_store *store, struct bw_pg_task *task,
                           enum bw_pg_statement statement, int count, const char *const *values)
{
    task->statement = statement;
    return PQsendQueryParams(store->link.conn, store->text[statement], count, NULL, values, NULL,
                             NULL, 0) == 1;
}

static bool send_read(struct bw_store *store, struct bw_pg_task *task)
{
    const char *values[] = {task->row->election};
    task->step = BW_PG_READING;
    return send_statement(store, task, BW_PG_READ, 1, values);
}

static bool send_write(struct bw_store *store, struct bw_pg_task *task,
                       struct bw_store_record *record, bool take)
{
    char text[BW_RECORD_JSON_MAX], note[1024], seen[24], new[24], floor[24];
    struct bw_store_record kept = *record;
    kept.token = 0; /* stored in its own column */
    snprintf(seen, sizeof seen, "%" PRIu64, task->row->version);
    snprintf(new, sizeof new, "%" PRIu64, (bw_rng_next(&store->rng) >> 1) | 1);
    snprintf(floor, sizeof floor, "%" PRIu64, task->row->highest + 1);
    if (bw_record_pack(&kept, text, sizeof text) < 0 ||
        bw_note_pack(&record->note, note, sizeof note) < 0)
        return send_read(store, task); /* bw_pg_task_result then fails the request */
    const char *values[] = {task->row->election,     seen, new, text, note,
                            take ? "true" : "false", floor};
    task->step = BW_PG_WRITING;
    return send_statement(store, task, task->row->version ? BW_PG_UPDATE : BW_PG_INSERT, 7, values);
}

static bool send_enter(struct bw_store *store, struct bw_pg_task *task, const char *id,
                       const char *value, int32_t priority)
{
    char text[16], process[24];
    snprintf(text, sizeof text, "%" PRId32, priority);
    snprintf(process, sizeof process, "%" PRId64, store->process);
    const char *values[] = {task->row->election, id, value ? value : "", text, process};
    return send_statement(store, task, BW_PG_ENTER, 5, values);
}

static bool send_leave(struct bw_store *store, struct bw_pg_task *task)
{
    char process[24];
    snprintf(process, sizeof process, "%" PRId64, store->process);
    const char *values[] = {task->row->election, task->job->request.candidate, process};
    return send_statement(store, task, BW_PG_LEAVE, 3, values);
}

static bool send_own(struct bw_store *store, struct bw_pg_task *task)
{
    const struct bw_pg_entered *entered = task->entered;
    return entered ? send_enter(store, task, entered->id, entered->value, entered->priority)
                   : send_read(store, task);
}

bool bw_pg_task_send(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_store_record record;
    if (!task->job)
        return send_own(store, task);
    const char *election[] = {task->row->election};
    const struct bw_store_request *request = &task->job->request;
    switch (request->op) {
    case BW_STORE_ENTER:
        return send_enter(store, task, request->candidate, request->value, request->priority);
    case BW_STORE_LEAVE:
        return send_leave(store, task);
    case BW_STORE_LIST:
        return send_statement(store, task, BW_PG_LIST, 1, election);
    case BW_STORE_ELECTIONS:
        return send_statement(store, task, BW_PG_NAMES, 0, NULL);
    case BW_STORE_READ:
        return send_read(store, task);
    default:
        break;
    }
    if (!task->row->known || task->row->stale || bw_pg_row_record(task->row, &record) != 0)
        return send_read(store, task);
    struct bw_pg_verdict verdict = bw_pg_decide(&record, request, task->row->lost_version != 0);
    return verdict.change ? send_write(store, task, &record, verdict.take) : send_read(store, task);
}

/* ---- answers ---- */

static void end_with(struct bw_store *store, struct bw_pg_task *task, enum bw_outcome outcome,
                     int error, const char *why)
{
    bool look = task->own && !task->entered;
    struct bw_pg_row *row = task->row;
    if (task->job)
        bw_job_fail(task->job, outcome, error, "%s", why);
    if (look)
        bw_pg_row_refreshed(store, row);
    bw_pg_task_free(store, task);
}

static void try_again(struct bw_store *store, struct bw_pg_task *task, const char *why)
{
    if (++task->tries < BW_PG_TRIES_MAX)
        bw_pg_queue_again(store, task);
    else
        end_with(store, task, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, why);
}

static void answer(struct bw_store *store, struct bw_pg_task *task,
                   const struct bw_pg_verdict *verdict, struct bw_store_record *record)
{
    bw_pg_present(record);
    if (verdict->outcome == BW_OUTCOME_DONE)
        bw_job_done(task->job, record);
    else
        bw_job_refuse(task->job, record, verdict->error, "%s", verdict->why);
    bw_pg_task_free(store, task);
}

/* The row was just read: decides the request. */
static void decide(struct bw_store *store, struct bw_pg_task *task)
{
    char text[BW_RECORD_JSON_MAX];
    struct bw_store_record record, changed;
    int error = bw_pg_row_record(task->row, &record);
    if (error != 0) {
        end_with(store, task, BW_OUTCOME_UNAVAILABLE, error,
                 "the election's row is not a valid record");
        return;
    }
    changed = record;
    struct bw_pg_verdict verdict =
        bw_pg_decide(&changed, &task->job->request, task->row->lost_version != 0);
    if (!verdict.change)
        answer(store, task, &verdict, &record);
    else if (bw_record_pack(&changed, text, sizeof text) < 0)
        end_with(store, task, BW_OUTCOME_UNAVAILABLE, BW_EINVAL,
                 "PostgreSQL stores only UTF-8: the id or value is not valid UTF-8");
    else
        try_again(store, task, "other clients changed the row during every attempt");
}

static void written(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_store_record record;
    struct bw_pg_verdict done = {.outcome = BW_OUTCOME_DONE};
    /* another client changed the row first: read again */
    if (PQgetisnull(task->result, 0, BW_PG_VERSION)) {
        task->row->stale = true;
        task->step = BW_PG_READING;
        try_again(store, task, "other clients changed the row during every attempt");
        return;
    }
    int error = bw_pg_row_store(store, task->row, task->result);
    if (error == 0)
        error = bw_pg_row_record(task->row, &record);
    if (error == 0)
        answer(store, task, &done, &record);
    else
        end_with(store, task, BW_OUTCOME_UNKNOWN, error, "unexpected reply from the server");
}

/* A pooler switched to another server session, which does not receive our notifications. */
static void check_session(struct bw_store *store, const struct bw_pg_task *task)
{
    const PGresult *result = task->result;
    bool has = task->statement != BW_PG_LIST && PQntuples(result) == 1 && PQnfields(result) == 5;
    if (store->polled || !has || atoi(PQgetvalue(result, 0, BW_PG_PID)) == store->link.pid)
        return;
    store->polled = true;
    bw_pg_about(store, "a pooler switches sessions");
    bw_pg_poll_start(store);
}

void bw_pg_task_result(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_pg_row *row = task->row;
    check_session(store, task);
    if (task->statement == BW_PG_LIST) {
        bw_pg_list_answer(task->job, task->result);
        bw_pg_task_free(store, task);
    } else if (task->statement == BW_PG_NAMES) {
        bw_pg_names_answer(task->job, task->result);
        bw_pg_task_free(store, task);
    } else if (PQntuples(task->result) != 1 || PQnfields(task->result) != 5) {
        end_with(store, task, BW_OUTCOME_UNKNOWN, BW_EMALFORMED,
                 "unexpected reply from the server");
    } else if (task->step == BW_PG_WRITING) {
        written(store, task);
    } else {
        int error = bw_pg_row_store(store, row, task->result);
        if (error != 0)
            end_with(store, task, BW_OUTCOME_UNAVAILABLE, error,
                     "the election's row is not a valid record");
        else if (task->job)
            decide(store, task);
        else
            end_with(store, task, BW_OUTCOME_DONE, 0, "");
    }
}

/* ---- errors of the server ---- */

/* True for errors after which the transaction may have been committed: the server was stopped while
 * it waited for a standby, or the session broke. */
static bool may_have_committed(const char *state)
{
    return strncmp(state, "57P", 3) == 0 || strncmp(state, "58", 2) == 0 ||
           strncmp(state, "XX", 2) == 0 || strncmp(state, "08", 2) == 0 || state[0] == '\0';
}

static bool is_transient(const char *state)
{
    return strncmp(state, "40", 2) == 0 || strcmp(state, "55P03") == 0;
}

void bw_pg_task_error(struct bw_store *store, struct bw_pg_task *task)
{
    char why[BW_WHY_MAX + 1];
    const char *found = task->result ? PQresultErrorField(task->result, PG_DIAG_SQLSTATE) : NULL;
    char state[6] = "";
    snprintf(state, sizeof state, "%s", found ? found : "");
    bw_pg_error_line(why, task->result);
    bool unknown = may_have_committed(state) && bw_pg_task_writes(task);
    if (is_transient(state)) {
        task->row->stale = true;
        task->step = BW_PG_READING;
        try_again(store, task, why);
        return;
    }
    int error = strcmp(state, "42501") == 0 ? BW_EDENIED : BW_EIO;
    end_with(store, task, unknown ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE, error, why);
    if (strcmp(state, "25006") == 0)
        bw_pg_link_drop(store, "the server is read-only: a standby, or no longer the primary");
    else if (strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0)
        bw_pg_link_drop(store, "the tables were removed: %s", why);
}
